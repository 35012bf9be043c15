"""What a verification found, in words and for machines, and whether its files were still those that the run had read."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eloreplay.console import counted
from eloreplay.differences import Difference

#: Files that are named when the inputs are no longer what they were.
FILES_SHOWN = 3


@dataclass(frozen=True)
class Verdict:
    """What a verification found.

    Attributes:
        run: number of the published run.
        manifest: its manifest.
        difference: the first difference, or None when all is equal.
        ways: how it was computed again, as far as that got.
        changed: how the files differ from those that the run read, one sentence a kind; empty when they are the same.
    """

    run: str
    manifest: dict[str, Any]
    difference: Difference | None
    ways: list[str]
    changed: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        difference = None if self.difference is None else {**dataclasses.asdict(self.difference), "sentence": str(self.difference)}
        counts = {key: self.manifest.get(key) for key in ("as_of", "rows_read", "bins", "players")}
        return {
            "run": self.run,
            "equal": self.difference is None,
            "difference": difference,
            "inputs_changed": self.changed,
            "computed": self.ways,
            **counts,
        }

    @property
    def text(self) -> str:
        """The verdict in words."""
        said = []
        if self.changed:
            said = [
                f"the files are no longer those that run {self.run} read ({'; '.join(self.changed)}): then a difference is no "
                "fault of the run, and no difference says only that these changes do not matter to it"
            ]
        if self.difference is not None:
            return "\n".join([f"run {self.run} differs: {self.difference}", *said])
        bins = self.manifest["bins"]
        held = (
            (bins["rated"], "game", "games"),
            (self.manifest["players"], "player", "players"),
            (sum(bins["rejected"].values()), "refused row", "refused rows"),
            (self.manifest["rows_read"], "row read", "rows read"),
        )
        figures = ", ".join(counted(*one) for one in held)
        return "\n".join([f"equal: run {self.run}, computed again {', '.join(self.ways)}: {figures}", *said])


def changed_inputs(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    """How the files of a run differ from those of another by content (SHA-256), a sentence a kind; none when they do not.

    A file that was only renamed or moved is the same file.
    """
    old = Counter((str(item["table"]), str(item["sha256"])) for item in before)
    new = Counter((str(item["table"]), str(item["sha256"])) for item in now)
    gone, come = _paths(before, old - new), _paths(now, new - old)
    # Told apart by their names without folders: a file may be called by a relative path one day and by an absolute one the next.
    rewritten = [path for path in come if Path(path).name in {Path(other).name for other in gone}]
    names = {Path(path).name for path in rewritten}
    found = []
    for what, paths in (
        ("changed", rewritten),
        ("gone", [path for path in gone if Path(path).name not in names]),
        ("new", [path for path in come if path not in rewritten]),
    ):
        if paths:
            more = f" and {len(paths) - FILES_SHOWN} more" if len(paths) > FILES_SHOWN else ""
            found.append(f"{len(paths)} {what}: {', '.join(paths[:FILES_SHOWN])}{more}")
    return found


def _paths(items: list[dict[str, Any]], wanted: Counter[tuple[str, str]]) -> list[str]:
    left = Counter(wanted)
    paths = []
    for item in items:
        key = str(item["table"]), str(item["sha256"])
        if left[key] > 0:
            left[key] -= 1
            paths.append(str(item["path"]))
    return paths
