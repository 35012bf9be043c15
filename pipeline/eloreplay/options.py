"""What several commands of the command line share: types of options, groups of options, small helpers. No heavy imports here."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from eloreplay.errors import UsageFault


class Instant(click.ParamType[int]):
    """An ISO 8601 instant; UTC unless it carries a zone."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The value, or a usage error that shows an example."""
        from eloreplay.instants import parse_us

        try:
            return value if isinstance(value, int) else parse_us(value)
        except ValueError:
            self.fail(f"{value!r} is not an instant such as 2026-10-01 or 2026-10-01T00:00:00Z", param, ctx)


class Since(click.ParamType[tuple[str, int]]):
    """VERSION=INSTANT."""

    name = "version=instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The value, or a usage error that shows an example."""
        if isinstance(value, tuple):
            return value
        version, sign, instant = value.rpartition("=")
        if not sign or not version:
            self.fail(f"{value!r} is not VERSION=INSTANT such as 1.2.0=2026-03-22", param, ctx)
        return version, Instant().convert(instant, param, ctx)


class Pair(click.ParamType[tuple[float, float]]):
    """Two numbers, of the first and the second player."""

    name = "a,b"

    def __init__(self, kind: type[int] | type[float]) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """The value, or a usage error that shows an example."""
        if isinstance(value, tuple):
            return value
        try:
            first, second = (self._kind(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not two numbers such as 60,10 (of the first and of the second player)", param, ctx)
        return first, second


class Share(click.ParamType[float]):
    """A share such as 0.01 or 1%."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value, or a usage error that shows an example."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share between 0 and 1, such as 0.01 or 1%", param, ctx)
        return share


EXISTING = click.Path(path_type=Path)


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that works for a while."""
    return _output_options(command, "all cores")


def next_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same of the commands that go on from a published run, and work as that one did."""
    return _output_options(command, "as many as in the run before")


def _output_options(command: Callable[..., None], threads: str) -> Callable[..., None]:
    for option in (
        click.option("--quiet", is_flag=True, help="Say nothing unless something fails."),
        click.option("--json", "as_json", is_flag=True, help="One JSON line a step, for machines."),
        click.option(
            "--memory-limit",
            default="1GB",
            show_default=True,
            metavar="SIZE",
            help="Memory that queries may use before they spill.",
        ),
        click.option(
            "--threads", type=click.IntRange(1, 1024), default=None, help=f"Threads of the queries; {threads} unless given."
        ),
    ):
        command = option(command)
    return command


def input_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what is read."""
    for option in (
        click.option("--pool", metavar="COLUMN", help="Column of the ladder; every ladder has ratings of its own."),
        click.option("--start-ratings", metavar="FILE", help="Parquet: player_id, rating, and perhaps games, experience."),
        click.option("--exclude-players", metavar="FILE", help="Parquet: player_id; their games are unrated, both ways."),
        click.option("--aliases", metavar="FILE", help="Parquet: alias_id, player_id; merges accounts."),
        click.option("--awards", metavar="FILE", help="Parquet: award_id, awarded_at, player_id, points, reason."),
        click.option("--columns", type=EXISTING, metavar="FILE", help="TOML that maps your columns to ours."),
    ):
        command = option(command)
    return command


def executor_options(command: Callable[..., None]) -> Callable[..., None]:
    """Who does the work: for the commands that can use a cluster."""
    for option in (
        click.option("--scheduler", metavar="ADDRESS", help="Of the Dask scheduler, such as tcp://10.0.0.5:8786."),
        click.option(
            "--executor",
            type=click.Choice(["threads", "dask"]),
            default="threads",
            show_default=True,
            help="Who works: threads here, or a Dask cluster.",
        ),
    ):
        command = option(command)
    return command


def as_json_text(content: Any) -> str:
    """Anything, dataclasses included, as indented JSON."""
    import dataclasses
    import json

    return json.dumps(content, ensure_ascii=False, indent=2, default=dataclasses.asdict)


def output_folder(path: Path) -> Path:
    """The output folder as given, unless it is one that a shell was expected to write out."""
    if str(path).startswith("~"):
        raise UsageFault(
            f"--out {path}: the shell did not write out the ~; give the whole path, or --out ~/… with a space before it"
        )
    return path


@contextlib.contextmanager
def published(folder: Path) -> Iterator[None]:
    """What is shown after the switch cannot undo it: whatever fails here, the run is published and the exit code says so."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
    except Exception as error:
        drop_stdout()
        with contextlib.suppress(OSError, ValueError):
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            click.echo(f"eloreplay: the run is published in {folder}, but its summary could not be shown: {text}", err=True)


def drop_stdout() -> None:
    """Nobody reads our output any more: what is still to be written, also at the very end of the process, goes nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console_mode(options: dict[str, Any]) -> str:
    """Which of text, json and quiet a console speaks, by the options of `output_options`."""
    if options["as_json"] and options["quiet"]:
        raise UsageFault("--json and --quiet exclude each other")
    return "json" if options["as_json"] else "quiet" if options["quiet"] else "text"


def since_instants(pairs: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The `--since` options as version to instant; none may be given twice."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageFault(f"--since {name} is given twice")
    return dict(pairs)


def memory_size(text: str) -> str:
    """A size as DuckDB writes it."""
    import re

    if not re.fullmatch(r"\s*[0-9]+(\.[0-9]+)?\s*[KMGT]i?B\s*", text, re.IGNORECASE):
        raise UsageFault(f"--memory-limit {text!r} is not a size such as 1GB or 800MB")
    return text.strip()
