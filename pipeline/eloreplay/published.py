"""What stands published in an output folder, for whoever looks at it without holding it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eloreplay.errors import UsageFault
from eloreplay.instants import parse_us
from eloreplay.sources import OUTPUT_MARKER
from eloreplay.store import current_run, reading

RUN_NAME = re.compile(r"[0-9]{6,}")


def insist_ours(root: Path) -> None:
    """Refuse a folder that no run has written.

    Raises:
        UsageFault: it does not exist or is something else.
    """
    if not (root / OUTPUT_MARKER).is_file():
        raise UsageFault(f"{root}: no output folder of eloreplay (there is no {OUTPUT_MARKER} in it)")


def published_run(root: Path) -> Path:
    """The published run of a folder of ours.

    Raises:
        UsageFault: it is not ours, or nothing is published in it yet.
    """
    insist_ours(root)
    run = current_run(root)
    if run is None:
        raise UsageFault(f"{root}: nothing is published there yet; eloreplay backfill publishes the first run")
    return run


def kept_runs(root: Path) -> list[Path]:
    """The folders of the runs that were published and are still there, oldest first."""
    current = current_run(root)
    folder = root / "runs"
    if current is None or not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if RUN_NAME.fullmatch(path.name) and int(path.name) <= int(current.name)]
    return sorted(found, key=lambda path: int(path.name))


def published_us(run: Path, manifest: dict[str, Any]) -> int:
    """When a run was published, in microseconds: its manifest says it, else the manifest's age does."""
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        return parse_us(manifest["made_at"])
    return (run / "manifest.json").stat().st_mtime_ns // 1000


def named_run(name: str) -> Path:
    """The run that a command line means; see `chosen`."""
    return chosen(name)[1]


def chosen(name: str | Path) -> tuple[Path, Path]:
    """The output folder and the run of it that a command line means, for every command that reads one run.

    `DIR` and `DIR/current` are what is published there, `DIR@41` and `DIR/runs/000041` a run that is kept.

    Returns:
        The output folder and the run's folder. A run's folder that was copied away from its own is its own output folder.

    Raises:
        UsageFault: there is no such run.
    """
    name = str(name)
    path = Path(name)
    if (path / OUTPUT_MARKER).is_file():
        return path, published_run(path)
    if path.name == "current" and (path.parent / OUTPUT_MARKER).is_file():
        return path.parent, published_run(path.parent)
    if path.name == "current" and (path / "manifest.json").is_file():
        path = path.resolve()
    if RUN_NAME.fullmatch(path.name) and (path / "manifest.json").is_file():
        home = path.parent.parent
        return (home if path.parent.name == "runs" and (home / OUTPUT_MARKER).is_file() else path), path
    root, at, number = name.rpartition("@")
    if at and number.isascii() and number.isdecimal():
        insist_ours(Path(root))
        return Path(root), _kept_run(Path(root), int(number))
    if path.parent.name == "runs" and RUN_NAME.fullmatch(path.name) and (path.parent.parent / OUTPUT_MARKER).is_file():
        return path.parent.parent, _kept_run(path.parent.parent, int(path.name))
    insist_ours(path)
    return path, published_run(path)


def _kept_run(root: Path, number: int) -> Path:
    kept = {int(run.name): run for run in kept_runs(root)}
    if number in kept:
        return kept[number]
    listed = ", ".join(run.name for run in kept.values()) or "none"
    raise UsageFault(f"{root}: run {number} is not kept; kept are {listed}")


@contextlib.contextmanager
def chosen_reading(name: str | Path) -> Iterator[tuple[Path, Path]]:
    """As `chosen`, and the run is kept from being dropped for the length of the block."""
    root, run = chosen(name)
    with reading(root, None if run == current_run(root) else run) as held:
        assert held is not None
        yield root, held
