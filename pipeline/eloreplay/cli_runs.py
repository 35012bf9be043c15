"""Commands that look back at runs: verify, status, runs, rollback, top."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from eloreplay.errors import Differs, EloreplayError, EnvironmentFault, UsageFault
from eloreplay.options import (
    EXISTING,
    Instant,
    as_json_text,
    console_mode,
    memory_size,
    output_folder,
    output_options,
    published,
)

UNITS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}


class Age(click.ParamType[int]):
    """A length of time such as 26h, in seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The value, or a usage error that shows an example."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|m|min|h|d)\s*", str(value), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is not a length of time such as 26h, 90min or 2d", param, ctx)
        return int(float(found[1]) * UNITS[found[2]])


class DayOrInstant(click.ParamType[int]):
    """An instant; a day alone means its end in UTC."""

    name = "day or instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The value, or a usage error that shows an example."""
        import datetime as dt

        from eloreplay.boards import end_of_day_us

        if isinstance(value, int):
            return value
        try:
            day = dt.date.fromisoformat(value.strip())
        except ValueError:
            return Instant().convert(value, param, ctx)
        try:
            return end_of_day_us(day)
        except OverflowError:
            self.fail(f"{value!r} is not a day such as 2026-10-01", param, ctx)


class RunNumber(click.ParamType[int]):
    """A run's number, 42 or 000042."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The value, or a usage error that shows an example."""
        if isinstance(value, int):
            return value
        if not re.fullmatch(r"[0-9]{1,12}", value):
            self.fail(f"{value!r} is not the number of a run such as 42 or 000042 (eloreplay runs lists them)", param, ctx)
        return int(value)


@click.command(
    epilog='Example: eloreplay verify data/games --out out/sample says "equal" and exits with 0, or names the first value that '
    "differs and exits with 6."
)
@click.argument("games", nargs=-1, required=True)
@click.option("--out", required=True, type=EXISTING, metavar="DIR", help="Output folder whose published run is checked.")
@click.option("--start-ratings", metavar="FILE", help="Where this table stands now, if not where the run read it.")
@click.option("--exclude-players", metavar="FILE", help="Likewise.")
@click.option("--aliases", metavar="FILE", help="Likewise.")
@click.option("--awards", metavar="FILE", help="Likewise.")
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Only from N stored states, picked by chance: quicker.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the picking.")
@output_options
def verify(games: tuple[str, ...], **options: Any) -> None:
    """Compute the published run again from GAMES, the whole history, and compare every table value by value.

    Rules, columns, as-of and options are those of the run. It is only read; what is computed is removed at the end.
    """
    from eloreplay.console import Console
    from eloreplay.verify import verify as run

    tables = {
        "awards": options["awards"],
        "aliases": options["aliases"],
        "excluded": options["exclude_players"],
        "start_ratings": options["start_ratings"],
    }
    with Console(console_mode(options)) as console:
        verdict = run(
            games,
            output_folder(options["out"]),
            {name: file for name, file in tables.items() if file is not None},
            console.report,
            console.note,
            options["threads"] or os.cpu_count() or 1,
            memory_size(options["memory_limit"]),
            options["sample"],
            options["seed"],
        )
        if console.mode == "json":
            console.line({"done": True, **verdict.as_dict()})
        if verdict.difference is not None:
            raise Differs(verdict.text)
        console.text(verdict.text)


@click.command(epilog="Example: eloreplay status out/sample --max-age 26h exits with 1 when a night is missing.")
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option("--max-age", type=Age(), metavar="AGE", help="Exit with 1 when what is published is older, such as 26h.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines.")
def status(folder: Path, max_age: int | None, as_json: bool) -> None:
    """What is published in DIR, how old it is, and how the last nights went."""
    from eloreplay.console import harmless
    from eloreplay.lookback import status as look
    from eloreplay.lookback import status_text

    found = look(output_folder(folder))
    too_old = max_age is not None and (found["run"] is None or found["age_s"] > max_age)
    if as_json:
        click.echo(as_json_text({**found, "max_age_s": max_age, "too_old": too_old if max_age is not None else None}))
    else:
        click.echo(harmless(status_text(found)))
    if found["damaged"]:
        more = len(found["damaged"]) - 1
        raise EnvironmentFault(found["damaged"][0] + (f" (and {more} more such files)" if more else ""))
    if too_old:
        raise EloreplayError(f"{folder}: what is published is older than --max-age allows")


@click.command(epilog="Example: eloreplay runs out/sample")
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines; all runs.")
def runs(folder: Path, as_json: bool) -> None:
    """The runs of DIR, the newest first: those that are kept, and what is known of earlier ones."""
    from eloreplay.console import harmless
    from eloreplay.lookback import runs as look
    from eloreplay.lookback import runs_text

    found = look(output_folder(folder))
    click.echo(as_json_text(found) if as_json else harmless(runs_text(found)))


@click.command(epilog="Example: eloreplay rollback out/sample 41 publishes the kept run 41 again, as run 43 if 42 is the last one.")
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.argument("number", type=RunNumber(), metavar="RUN")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--quiet", is_flag=True, help="Say nothing unless something fails.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines.")
def rollback(folder: Path, number: int, dry_run: bool, **options: Any) -> None:
    """Publish the kept run RUN of DIR again, as a new run: readers see it at once, and the next night goes on from it."""
    from eloreplay.console import Console
    from eloreplay.rollback import rollback as run

    with Console(console_mode(options)) as console:
        plan = run(output_folder(folder), number, console.note, dry_run)
        with published(folder / "runs" / plan.target):
            if console.mode == "json":
                console.line({"done": not dry_run, **plan.as_dict()})
            console.text(plan.text(done=not dry_run))


@click.command(
    epilog="\b\nExamples:\n"
    "  eloreplay top out/sample\n"
    "  eloreplay top out/sample --published-on 2026-10-01\n"
    "  eloreplay top out/sample --at 2026-06-01 --min-games 50 --active-days 30\n"
    "  eloreplay top out/sample --heavy"
)
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option(
    "--published-on",
    type=DayOrInstant(),
    metavar="DAY|INSTANT",
    help="The board that stood published then, whatever is known since; a day without a time means its end in UTC.",
)
@click.option(
    "--at",
    type=DayOrInstant(),
    metavar="DAY|INSTANT",
    help="The board of that instant, by what the published run knows now; a day without a time means its end in UTC.",
)
@click.option("--min-games", type=click.IntRange(1), help="Games needed to stand on it; those of the run unless given.")
@click.option(
    "--active-days",
    type=click.IntRange(0, 36500),
    help="Stand on it only if played in the last N days before the last game; as the run does unless given.",
)
@click.option("--heavy", is_flag=True, help="Whose K is reduced by a heavy week, at --at or at the last rated game.")
@click.option("--number", "-n", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Lines that are shown.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines; the first N lines of every ladder.")
def top(folder: Path, published_on: int | None, number: int, as_json: bool, **options: Any) -> None:
    """The leaderboard of DIR: as it is published, as it was published on a day, or as it stood at any instant, recomputed."""
    from eloreplay.boards import board, board_text, first_rows
    from eloreplay.console import harmless

    root = output_folder(folder)
    recomputed = any(options[name] is not None for name in ("at", "min_games", "active_days"))
    if published_on is not None and (recomputed or options["heavy"]):
        raise UsageFault(
            "--published-on shows a board as it was published; --at, --min-games, --active-days and --heavy compute another one"
        )
    if options["heavy"] and (options["min_games"] is not None or options["active_days"] is not None):
        raise UsageFault("--heavy lists everybody whose K is reduced: --min-games and --active-days do not go with it")
    if recomputed or options["heavy"]:
        _top_recomputed(root, number, as_json, options)
        return
    found = board(root, published_on)
    if as_json:
        click.echo(as_json_text({**found, "rows": first_rows(found["rows"], number)}))
    else:
        click.echo(harmless(board_text(found, number)))


def _top_recomputed(root: Path, number: int, as_json: bool, options: dict[str, Any]) -> None:
    """A board that was not published as such."""
    from eloreplay.asking import asked_run
    from eloreplay.board_at import board_at, heavy_board
    from eloreplay.board_page import board_at_text, heavy_text
    from eloreplay.console import harmless

    with asked_run(root) as asked:
        if options["heavy"]:
            found = heavy_board(asked, options["at"])
        else:
            found = board_at(asked, options["at"], number, options["min_games"], options["active_days"])
    if as_json:
        click.echo(as_json_text(found))
    else:
        click.echo(harmless((heavy_text if options["heavy"] else board_at_text)(found, number)))


COMMANDS = (rollback, runs, status, top, verify)
