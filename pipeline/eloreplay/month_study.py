"""The calibration study of every run, from counts by month that the run before has mostly made already.

A run keeps the counts of its months, a file a year (`fold/study/`), and all months but the last one added up. A night counts the
months again that it touched, and adds them to the sum; only a game of long ago has older months counted again. The curves and
scores of single months that stay as they are come from the run before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eloreplay import study
from eloreplay.chunks import FOLD, Chunk
from eloreplay.queries import Database, literal_path
from eloreplay.rowstore import link
from eloreplay.rules import Ruleset
from eloreplay.tables import kept_file, read_kept, write_parquet

#: Games that are counted by one query; findings look further back and take more at once.
COUNT_GAMES, FACT_GAMES = 1_000_000, 4_000_000
FOLDER, FACTS, PREFIX, UNTIL = "study", "facts.parquet", "prefix.parquet", "until.json"
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
    study.put_versions(database, ruleset)
    earliest = min([*again, *(start - study.LOOKBACK_US for start in found_again)], default=0)
    files = [run / "timeline" / chunk.timeline for chunk in chunks if chunk.timeline is not None and chunk.to_us > earliest]
    show_timeline(database, files or sorted((run / "timeline").glob("*.parquet")), pools is not None)

    counted = [study.month_counts(database, *edges) for edges in _stretches(months.games, again, COUNT_GAMES)]
    counts = _frame(pa.concat_tables(counted or [study.month_counts(database, 0, 0)]))
    facts = [study.month_facts(database, *edges) for edges in _stretches(months.games, found_again, FACT_GAMES)]
    found = _frame(pa.concat_tables(facts or [study.month_facts(database, 0, 0)]))
    if before is not None:
        stays = [names[start] for start in over if start not in set(found_again)]
        found = pl.concat([_read(before / FACTS).filter(pl.col("month").is_in(stays)).cast(found.schema), found])
    write_parquet(found.to_arrow(), folder / FACTS)

    prefix, rest = _add_up(folder, before, counts, names, kept, [names[start] for start in over])
    options: dict[str, Any] = {"pool": pools is not None, "pools": pools}
    calibration, summary = study.study_from_counts(pl.concat([prefix, rest]).to_arrow(), None, by=OTHER_SLICES, **options)
    by_month, month_scores = study.study_from_counts(counts.to_arrow(), None, by=("month",), **options)
    _, findings = study.study_from_counts(counts.clear().to_arrow(), found.to_arrow(), **options)
    tables = [calibration, by_month.filter(slice="month")]
    rows = [summary, month_scores.filter(slice="month"), findings.filter(~pl.col("statistic").is_in(SCORES))]
    if before is not None and months.before is not None:
        tables.append(_carried(months.before / "calibration.parquet", kept).cast(calibration.schema))
        old = _carried(months.before / "summary.parquet", kept).filter(pl.col("statistic").is_in(SCORES))
        rows.append(old.cast(summary.schema))
    pool = ["pool"] if pools is not None else []
    # The run's own order of slices and bins: a table may not tell which of its rows are old.
    return (
        pl.concat(tables).sort([*pool, "slice", "slice_value", "axis", "bin_low"]),
        pl.concat(rows).sort([*pool, *KEYS]),
    )


#: Statistics that `scores.scores` makes of a month's counts.
SCORES = (
    "games",
    "draws",
    "games_without_favourite",
    "log_loss",
    "brier_score",
    "brier_reliability",
    "brier_resolution",
    "brier_uncertainty",
    "brier_within_bins",
    "favourite_real_rate",
    "accuracy",
    "favourite_expected_rate",
    "calibration_error",
    "intercept",
    "slope",
    "fitted_divisor",
    "divisor",
)


def _add_up(
    folder: Path, before: Path | None, counts: pl.DataFrame, names: dict[int, str], kept: set[str], facts: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The counts of all months but the last one added up, and those of the last; writes both down for the next run."""
    order = {name: number for number, name in enumerate(names.values())}
    years = {name: f"{year_of(start)}.parquet" for start, name in names.items()}
    last = list(order)[-1] if order else ""
    earlier = [name for name in order if name != last]
    prefix = counts.filter(pl.col("month").is_in(earlier))
    old = counts.clear()
    if before is not None:
        known = _known(before)
        until = known["until"]
        counted = [order[name] for name in counts["month"].unique()]
        # What was added up holds when it has just the months before the last one, and none of them was counted again.
        holds = until in order and known["months"] == list(order)[: order[until]] and set(known["months"]) <= kept
        holds = holds and min(counted, default=len(order)) >= order[until]
        needed = [name for name in order if name in kept and (not holds or order[name] >= order[until])]
        for year in dict.fromkeys(years[name] for name in needed):
            old = pl.concat([old, _read(before / year).cast(counts.schema).filter(pl.col("month").is_in(needed))])
        parts = [old.filter(pl.col("month").is_in(earlier)), prefix]
        prefix = pl.concat([_read(before / PREFIX).cast(counts.schema), *parts] if holds else parts)
    prefix = _frame(study.merge_months(prefix.with_columns(month=pl.lit("")).to_arrow()))
    write_parquet(prefix.to_arrow(), folder / PREFIX)
    (folder / UNTIL).write_text(json.dumps({"until": last, "months": earlier, "facts": facts}) + "\n", encoding="utf-8")
    _write_years(folder, before, counts, years, kept)
    return prefix, pl.concat([old, counts]).filter(pl.col("month") == last)


def _known(before: Path) -> dict[str, Any]:
    """What the study of the run before has added up and found."""
    with kept_file(before / UNTIL):
        content: dict[str, Any] = json.loads((before / UNTIL).read_text(encoding="utf-8"))
    return content


def _write_years(folder: Path, before: Path | None, counts: pl.DataFrame, years: dict[str, str], kept: set[str]) -> None:
    """The counts by month, a file a year: a year of which nothing was counted again is taken over as it is."""
    for year in dict.fromkeys(years.values()):
        of_year = {name for name, other in years.items() if other == year}
        old = None if before is None or not of_year & kept else _read(before / year).cast(counts.schema)
        if old is not None and before is not None and of_year <= kept and set(old["month"].unique()) == of_year:
            link(before / year, folder / year)
            continue
        part = counts.filter(pl.col("month").is_in(of_year))
        if old is not None:
            part = pl.concat([old.filter(pl.col("month").is_in(of_year & kept)), part])
        write_parquet(part.sort(pl.all().exclude(study.SUMS)).to_arrow(), folder / year)


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


def year_of(start_us: int) -> int:
    """The UTC year of a month, from its first instant in microseconds."""
    return int(np.datetime64(start_us, "us").astype("datetime64[Y]").astype(np.int64)) + 1970


def end_of(start_us: int) -> int:
    """First instant after a month, from its first, microseconds."""
    return int((np.datetime64(start_us, "us").astype("datetime64[M]") + 1).astype("datetime64[us]").astype(np.int64))


def _stretches(games: dict[int, int], again: list[int], size: int) -> list[tuple[int, int]]:
    """Consecutive months that are counted again in groups of about `size` games: first instant and first instant after."""
    found: list[tuple[int, int, int]] = []
    for start in again:
        if found and found[-1][2] + games[start] <= size:
            found[-1] = (found[-1][0], end_of(start), found[-1][2] + games[start])
        else:
            found.append((start, end_of(start), games[start]))
    return [(first, end) for first, end, _ in found]


def show_timeline(database: Database, files: list[Path], pool: bool) -> None:
    """Create the view `timeline` over a run's files, with a column `pool` in any case."""
    names = ", ".join("'" + literal_path(file).replace("'", "''") + "'" for file in files)
    nothing = "" if pool else "null::varchar as pool, "
    database.execute(
        f"create or replace view timeline as select {nothing}* from read_parquet([{names}], hive_partitioning = false)"
    )
