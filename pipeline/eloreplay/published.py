"""What stands published in an output folder, for whoever looks at it without holding it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from eloreplay.errors import UsageFault
from eloreplay.instants import parse_us
from eloreplay.sources import OUTPUT_MARKER
from eloreplay.store import current_run

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
    """The run that a command line means: `DIR` (what is published there), `DIR@41` or `DIR/runs/000041`.

    Raises:
        UsageFault: there is no such run.
    """
    path = Path(name)
    if (path / OUTPUT_MARKER).is_file():
        return published_run(path)
    if RUN_NAME.fullmatch(path.name) and (path / "manifest.json").is_file():
        return path
    root, at, number = name.rpartition("@")
    if at and number.isascii() and number.isdecimal():
        insist_ours(Path(root))
        kept = {int(run.name): run for run in kept_runs(Path(root))}
        if int(number) in kept:
            return kept[int(number)]
        listed = ", ".join(run.name for run in kept.values()) or "none"
        raise UsageFault(f"{root}: run {number} is not kept; kept are {listed}")
    if path.name == "current" and (path / "manifest.json").is_file():
        return path.resolve()
    insist_ours(path)
    return published_run(path)
