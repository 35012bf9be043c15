"""The calibration study of every run, from counts by month that the run before has mostly made already.

A run keeps the counts of its months, a file a month (`fold/study/`), and all months but the last one added up. A night counts the
months again that it touched, and adds them to the sum; only a game of long ago has older months counted again. The curves and
scores of single months that stay as they are come from the run before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from eloreplay import study
from eloreplay.chunks import FOLD, Chunk
from eloreplay.queries import Database, literal_path
from eloreplay.rowstore import link
from eloreplay.rules import Ruleset
from eloreplay.scores import SCORE_NAMES
from eloreplay.study_counts import LOOKBACK_US, Counting, end_of, put_versions, stretches
from eloreplay.tables import kept_file, read_kept, write_parquet

#: Rows of counts that wait before they are added up.
MERGE_ROWS = 400_000
FOLDER, FACTS, PREFIX, UNTIL = "study", "facts.parquet", "prefix.parquet", "sums.json"
OTHER_SLICES = tuple(name for name in study.SLICES if name != "month")
#: Statistics of a single month that are made from its counts; the others come from its findings.
KEYS = ("statistic", "slice", "slice_value")


@dataclass(frozen=True)
class Months:
    """The months of a run: which have games, and from which on they are counted again.

    Attributes:
        games: first instant of each month (microseconds, rising) to its games.
        from_us: months that end after this instant are counted again.
        before: the run whose counts of the other months are taken over; None: there is none.
        as_of_us: findings are made of months that are over by then.
    """

    games: dict[int, int]
    from_us: int
    before: Path | None
    as_of_us: int


def month_study(
    database: Database, run: Path, ruleset: Ruleset, chunks: Sequence[Chunk], months: Months, pools: pl.Series | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables `calibration` and `summary` of a run's study; writes what the next run needs into `fold/study`.

    Args:
        database: the working database.
        run: the run's folder, its timeline written.
        ruleset: the rules.
        chunks: the run's chunks.
        months: which months there are, and which are counted again.
        pools: all pools, or None without ladders.
    """
    folder = run / FOLD / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    names = month_names(database, list(months.games))
    before = None if months.before is None else months.before / FOLD / FOLDER
    again = [start for start in names if before is None or end_of(start) > months.from_us]
    if before is not None and not (before / UNTIL).is_file():
        before, again = None, list(names)
    kept = {names[start] for start in names if start not in set(again)}
    over = [start for start in names if end_of(start) <= months.as_of_us]
    known = [] if before is None else _known(before)["facts"]
    found_again = [start for start in over if start in set(again) or names[start] not in known]
    put_versions(database, ruleset)
    earliest = min([*again, *(start - LOOKBACK_US for start in found_again)], default=0)
    files = [run / "timeline" / chunk.timeline for chunk in chunks if chunk.timeline is not None and chunk.to_us > earliest]
    show_timeline(database, files or sorted((run / "timeline").glob("*.parquet")), pools is not None)

    sums = _Sums(folder, before, names, kept)
    found = _count(database, sums, months.games, names, again, found_again)
    if before is not None:
        stays = [names[start] for start in over if start not in set(found_again)]
        found = pl.concat([_read(before / FACTS).filter(pl.col("month").is_in(stays)).cast(found.schema), found])
    write_parquet(found.to_arrow(), folder / FACTS)

    sums.close([names[start] for start in over])
    options: dict[str, Any] = {"pool": pools is not None, "pools": pools}
    calibration, summary = study.study_from_counts(sums.all_games().to_arrow(), None, by=OTHER_SLICES, **options)
    by_month, month_scores = study.study_from_counts(sums.counted().to_arrow(), None, by=("month",), **options)
    _, findings = study.study_from_counts(sums.nothing.to_arrow(), found.to_arrow(), **options)
    tables = [calibration, by_month.filter(slice="month")]
    rows = [summary, month_scores.filter(slice="month"), findings.filter(~pl.col("statistic").is_in(SCORE_NAMES))]
    if before is not None and months.before is not None:
        tables.append(_carried(months.before / "calibration.parquet", kept).cast(calibration.schema))
        old = _carried(months.before / "summary.parquet", kept).filter(pl.col("statistic").is_in(SCORE_NAMES))
        rows.append(old.cast(summary.schema))
    pool = ["pool"] if pools is not None else []
    # The run's own order of slices and bins: a table may not tell which of its rows are old.
    return (
        pl.concat(tables).sort([*pool, "slice", "slice_value", "axis", "bin_low"]),
        pl.concat(rows).sort([*pool, *KEYS]),
    )


def _count(
    database: Database, sums: _Sums, games: dict[int, int], names: dict[int, str], again: list[int], found_again: list[int]
) -> pl.DataFrame:
    """Count the months of `again` into `sums`; returns the findings of the months of `found_again`."""
    counting = Counting(database)
    found: list[pl.DataFrame] = []
    wanted = set(again) | set(found_again)
    # What stays may lie between what is counted again: it is seen and left out.
    for first, last, _ in stretches({start: games[start] for start in names if start in wanted}) or [(0, 0, 0)]:
        counting.begin(first, last)
        if sums.is_new or any(first <= start < last for start in again):
            of_again = pl.col("month").is_in([names[start] for start in again])
            sums.add(_frame(counting.counts()).filter(of_again))
        if not found or any(first <= start < last for start in found_again):
            found.append(_frame(counting.facts()).filter(pl.col("month").is_in([names[start] for start in found_again])))
    return pl.concat(found)


class _Sums:
    """The counts of a run's months: each month's written down, all but the last one's added up. One month is held at a time.

    Args:
        folder: where they are written.
        before: the same folder of the run before, or None.
        names: all months of the run, in order.
        kept: the months that stay as they were in the run before.
    """

    def __init__(self, folder: Path, before: Path | None, names: dict[int, str], kept: set[str]) -> None:
        self.folder, self.before = folder, before
        self.order = {name: number for number, name in enumerate(names.values())}
        self.last = list(self.order)[-1] if self.order else ""
        #: Counts of no game, for their columns and types.
        self.nothing = pl.DataFrame()
        self._parts: list[pl.DataFrame] = []
        self._by_month: list[pl.DataFrame] = []
        self._rest: list[pl.DataFrame] = []
        self._kept = kept

    @property
    def is_new(self) -> bool:
        """Whether nothing was taken yet, so that not even the types are known."""
        return not self._by_month

    def add(self, counts: pl.DataFrame) -> None:
        """Take the counts of months that are counted anew; every month comes once."""
        self.nothing = counts.clear()
        self._by_month.append(counts.filter(slice="all"))
        for (month,), rows in counts.group_by("month", maintain_order=True):
            write_parquet(rows.sort(pl.all().exclude(study.SUMS)).to_arrow(), self.folder / f"{month}.parquet")
        self._sum(counts)

    def close(self, found: list[str]) -> None:
        """Take over the months that stay, and write down what the next run needs.

        Args:
            found: months whose findings are made.
        """
        needed = [name for name in self.order if name in self._kept]
        if self.before is not None:
            known = _known(self.before)
            until = known["until"]
            # What was added up holds when it has just the months before its end, and none of them was counted again.
            earlier = list(self.order)[: self.order[until]] if until in self.order else None
            if earlier is not None and known["months"] == earlier and set(earlier) <= self._kept:
                self._sum(_read(self.before / PREFIX))
                needed = [name for name in needed if self.order[name] >= self.order[until]]
            for month in needed:
                self._sum(_read(self.before / f"{month}.parquet"))
            for month in self._kept:
                link(self.before / f"{month}.parquet", self.folder / f"{month}.parquet")
        self._merge()
        write_parquet(self._parts[0].to_arrow(), self.folder / PREFIX)
        until_file = {"until": self.last, "months": [name for name in self.order if name != self.last], "facts": found}
        (self.folder / UNTIL).write_text(json.dumps(until_file) + "\n", encoding="utf-8")

    def all_games(self) -> pl.DataFrame:
        """The counts of all months added up."""
        return pl.concat([*self._parts, *self._rest])

    def counted(self) -> pl.DataFrame:
        """The counts over all games of each month that was counted anew."""
        return pl.concat([self.nothing, *self._by_month])

    def _sum(self, counts: pl.DataFrame) -> None:
        counts = counts.cast(self.nothing.schema)
        last = pl.col("month") == self.last
        self._rest.append(counts.filter(last))
        self._parts.append(counts.filter(~last).with_columns(month=pl.lit("")))
        if sum(part.height for part in self._parts) > MERGE_ROWS:
            self._merge()

    def _merge(self) -> None:
        whole = pl.concat([self.nothing, *self._parts])
        self._parts = [_frame(study.merge_months(whole.to_arrow()))]


def _known(before: Path) -> dict[str, Any]:
    """What the study of the run before has added up and found."""
    with kept_file(before / UNTIL):
        content: dict[str, Any] = json.loads((before / UNTIL).read_text(encoding="utf-8"))
    return content


def _carried(path: Path, kept: set[str]) -> pl.DataFrame:
    """Rows of a table of the run before about single months that are as they were."""
    return _read(path).filter((pl.col("slice") == "month") & pl.col("slice_value").is_in(kept))


def _read(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    return _frame(read_kept(path, columns))


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def month_names(database: Database, starts: list[int]) -> dict[int, str]:
    """Months as the tables name them, "2026-08", by their first instants (microseconds), rising."""
    rows = database.connection.execute(
        "select start_us, strftime(make_timestamp(start_us), '%Y-%m') from unnest($starts::bigint[]) as t (start_us) "
        "order by start_us",
        {"starts": starts},
    ).fetchall()
    return dict(rows)


def show_timeline(database: Database, files: list[Path], pool: bool) -> None:
    """Create the view `timeline` over a run's files, with a column `pool` in any case."""
    names = ", ".join("'" + literal_path(file).replace("'", "''") + "'" for file in files)
    nothing = "" if pool else "null::varchar as pool, "
    database.execute(
        f"create or replace view timeline as select {nothing}* from read_parquet([{names}], hive_partitioning = false)"
    )
