"""Chunks of time: how the history is cut, and what a run keeps of each so that a later one can go on from any of them.

A run's folder `fold/` holds, for every chunk that has a row, the chunk's normalised rows (`rows/`), a sorted list of the keys of
its game ids (`ids/`) and, where anything was rated in it, the ratings it moved (`state/`); the chunk's timeline is the run's own
file. `fold.json` lists the chunks in order. Files of a chunk are never changed once they are written: a later run links to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eloreplay.errors import EnvironmentFault
from eloreplay.instants import show_us

DAY_US = 86_400_000_000
LAST_US = 2**63 - 1
#: A month is one chunk when it has been over for so many days, and days before that: a late game then replays days, not months.
WHOLE_AFTER_DAYS = 45
FOLD = "fold"


@dataclass(frozen=True)
class Chunk:
    """A half-open interval of time `[from_us, to_us)` that holds rows.

    Attributes:
        rows: rows of it that are kept, those of resolved copies included.
        games: rated games in it.
        digest: of the rated games' content, 32 hexadecimal digits.
        bins: verdict to rows, as `judged` and the resolution of copies gave them.
        first_seq: `seq` of its first rated game.
        timeline: name of its file in `timeline/`, or None without a rated game.
        state: "full", "delta" or None: what `state/` holds of it.
        state_rows: players in that file.
        id_low: least game id in it; likewise `id_high`. None when it has none.
    """

    from_us: int
    to_us: int
    rows: int = 0
    games: int = 0
    digest: str = ""
    bins: dict[str, int] | None = None
    first_seq: int = 0
    timeline: str | None = None
    state: str | None = None
    state_rows: int = 0
    id_low: Any = None
    id_high: Any = None

    @property
    def label(self) -> str:
        """First day of the chunk, for file names; microseconds where no calendar reaches."""
        shown = show_us(self.from_us) or str(self.from_us)
        return shown[:10] if "T" in shown else shown.replace(" ", "")

    @property
    def stem(self) -> str:
        """Name of its files in `fold/`: first day and number of days."""
        return f"{self.label}_{(self.to_us - self.from_us) // DAY_US}d"

    def listed(self) -> dict[str, object]:
        """How the manifest lists a chunk of the timeline."""
        return {
            "from": show_us(self.from_us),
            "to": show_us(self.to_us),
            "games": self.games,
            "first_seq": self.first_seq,
            "digest": self.digest,
            "file": f"timeline/{self.timeline}",
        }


def spans(days: NDArray[np.int64], unit: str, as_of_us: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each UTC day (int64 `(n,)`, number since 1970) the chunk it belongs to: first instant and end, microseconds, `(n,)`.

    Args:
        days: the days.
        unit: "month", "week" (from Monday), "day", or "auto": months, and days where the month ended less than
            `WHOLE_AFTER_DAYS` days before `as_of_us` or has not ended. Nothing else decides, so that a night cuts like a backfill.
        as_of_us: the run's as-of, microseconds.
    """
    date = days.astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    month_from = month.astype("datetime64[D]").astype(np.int64)
    month_to = (month + 1).astype("datetime64[D]").astype(np.int64)
    week_from = days - (days + 3) % 7
    if unit == "month":
        first, end = month_from, month_to
    elif unit == "week":
        first, end = week_from, week_from + 7
    elif unit == "day":
        first, end = days, days + 1
    else:
        whole = month_to <= as_of_us // DAY_US - WHOLE_AFTER_DAYS
        first, end = np.where(whole, month_from, days), np.where(whole, month_to, days + 1)
    # The last day that a column can hold has no end that one could write.
    return first * DAY_US, np.where(end > LAST_US // DAY_US, LAST_US, end * DAY_US)


def spans_of(days: Iterable[int], unit: str, as_of_us: int) -> dict[int, tuple[int, int]]:
    """Each day's chunk, as `spans`."""
    ordered = sorted(days)
    first, end = spans(np.array(ordered, np.int64), unit, as_of_us)
    return dict(zip(ordered, zip(first.tolist(), end.tolist(), strict=True), strict=True))


def cut(days: Iterable[tuple[int, int]], unit: str, as_of_us: int) -> list[tuple[int, int, int]]:
    """Days with a number each (rows, games) gathered into chunks: (from_us, to_us, sum), in order."""
    numbers = dict(days)
    found: dict[tuple[int, int], int] = {}
    for day, span in spans_of(numbers, unit, as_of_us).items():
        found[span] = found.get(span, 0) + numbers[day]
    return [(*span, number) for span, number in found.items()]


def joined(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals in order, those that touch as one: few, so that rows can be held against all of them."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(intervals):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


@dataclass(frozen=True)
class Fold:
    """What `fold.json` says: the chunks of a run and the facts that the next step needs.

    Attributes:
        chunks: in order of time.
        undated: rows without a usable id or time; they belong to no chunk.
        undated_bins: their verdicts.
        types: SQL type by family of ids, of those that a row has settled.
        zoned: whether played_at carries a zone; None when no row said so.
        key_check: what `rowstore.key_check` gave when the keys of ids were made.
        next_file: number that the next new input file gets.
    """

    chunks: list[Chunk]
    undated: int
    undated_bins: dict[str, int]
    types: dict[str, str]
    zoned: bool | None
    key_check: str
    next_file: int

    def write(self, run: Path) -> None:
        """Write `fold/fold.json` of a run."""
        content = asdict(self)
        (run / FOLD / "fold.json").write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def read_fold(run: Path) -> Fold | None:
    """The fold of a published run; None when it has none (made by an earlier version).

    Raises:
        EnvironmentFault: it is damaged.
    """
    path = run / FOLD / "fold.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Fold(**{**content, "chunks": [Chunk(**chunk) for chunk in content["chunks"]]})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise EnvironmentFault(f"{path}: what the published run keeps to go on from cannot be read: {error}") from None


def bins_of(chunks: Sequence[Chunk], undated_bins: dict[str, int]) -> dict[str, int]:
    """Verdict to rows over all chunks."""
    total = dict(undated_bins)
    for chunk in chunks:
        for verdict, rows in (chunk.bins or {}).items():
            total[verdict] = total.get(verdict, 0) + rows
    return total
