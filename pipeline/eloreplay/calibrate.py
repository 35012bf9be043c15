"""`eloreplay calibrate`: a published run read once, counted month by month, and made into a study of its own folder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay import study
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.games import Report
from eloreplay.month_study import show_timeline
from eloreplay.publish import read_manifest, versions, write_manifest
from eloreplay.published import chosen
from eloreplay.queries import DEFAULT_MEMORY, Database, sql_text
from eloreplay.report import NAME as PAGE
from eloreplay.report import write_page
from eloreplay.rules import Ruleset, ruleset_from_dict
from eloreplay.store import database_home
from eloreplay.study_counts import Counting, month_edges, put_versions, stretches
from eloreplay.study_folder import MANIFEST, study_folder
from eloreplay.tables import read_parquet, write_parquet

KIND = "calibrate"
FILES = ("calibration.parquet", "summary.parquet")
#: Rows of counts from which on they are merged.
COUNT_ROWS = 1_000_000


@dataclass(frozen=True)
class StudyOptions:
    """What is studied, and how.

    Attributes:
        by: slices besides `all`.
        min_games: slice values with fewer games with a favourite are left out.
        draws: how often the players are drawn; 0 for no interval that respects that they repeat.
        seed: of the draws.
        threads: of DuckDB.
        memory_limit: of DuckDB, as it writes it ("1GB").
    """

    by: tuple[str, ...] = study.SLICES
    min_games: int = 1
    draws: int = 0
    seed: int = 1
    threads: int = 2
    memory_limit: str = DEFAULT_MEMORY


@dataclass(frozen=True)
class StudyResult:
    """A finished study: its folder, its two tables and its manifest."""

    folder: Path
    calibration: pl.DataFrame
    summary: pl.DataFrame
    manifest: dict[str, Any]


def parse_slices(text: str | None) -> tuple[str, ...]:
    """The slices of `--by`, in the order of `study.SLICES`; all of them when it is not given.

    Raises:
        UsageFault: one that does not exist.
    """
    if text is None:
        return study.SLICES
    names = {name.strip() for name in text.split(",")} - {"", "none"}
    unknown = sorted(names - set(study.SLICES))
    if unknown:
        raise UsageFault(f"--by {', '.join(unknown)}: no such slice; there are {', '.join(study.SLICES)}, and none for no slice")
    return tuple(name for name in study.SLICES if name in names)


def calibrate(
    root: Path, to: Path | None, options: StudyOptions, report: Report, note: Callable[[str], None] = lambda text: None
) -> StudyResult:
    """Study the published run of an output folder; the run is only read.

    Args:
        root: the output folder. What `current` leads to at the start is studied, also when a new run is published meanwhile.
        to: where the study goes; `studies/calibrate` of the folder unless given.
        options: what is studied.
        report: told after each stretch of months.
        note: told what a person should know.

    Raises:
        UsageFault: the folder is not ours or has no published run; `to` holds something that no study wrote.
        FolderBusy: another study writes `to`.
        EnvironmentFault: disk, memory; the run cannot be read.
    """
    started = time.perf_counter()
    root, run = chosen(root)
    source = read_manifest(run)
    try:
        ruleset = ruleset_from_dict(source["rules"]["content"], str(run / MANIFEST))
    except (KeyError, TypeError):
        raise EnvironmentFault(f"{run / MANIFEST}: the published run's manifest does not say its rules") from None
    with study_folder(root / "studies" / KIND if to is None else to, KIND) as folder, database_home(folder.scratch) as home:
        database = Database(home / "study.duckdb", threads=options.threads, memory_limit=options.memory_limit, spill=home / "spill")
        try:
            calibration, summary = run_study(database, run, ruleset, options, report)
        finally:
            database.close()
        for name in options.by if options.by != study.SLICES else ():
            if calibration.filter(slice=name).is_empty():
                note(f"no rated game has a {name.replace('_', ' ')} in this run, so there is no such slice")
        for table, name in ((calibration, FILES[0]), (summary, FILES[1])):
            write_parquet(table.to_arrow(), folder.new / name)
        manifest = {
            "kind": KIND,
            "files": [*FILES, PAGE],
            "run": {"folder": str(run), **{key: source.get(key) for key in ("run", "as_of", "rows_read", "bins", "players")}},
            "rules": source["rules"],
            "options": dataclasses.asdict(options),
            "versions": versions(),
            "timings": {"total": round(time.perf_counter() - started, 3)},
        }
        write_manifest(folder.new / MANIFEST, manifest)
        write_page(folder.new, manifest, note)
    return StudyResult(folder.target, calibration, summary, manifest)


def run_study(
    database: Database, run: Path, ruleset: Ruleset, options: StudyOptions, report: Report
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables `calibration` and `summary` of the run in a folder."""
    files = sorted((run / "timeline").glob("*.parquet"))
    months, pool = _months(files)
    show_timeline(database, files, pool)
    put_versions(database, ruleset)
    total, done = sum(months.values()), 0
    counts: list[pa.Table] = []
    facts: list[pa.Table] = []
    counting = Counting(database)
    for first, last, games in stretches(months) or [(0, 0, 0)]:
        counting.begin(first, last)
        counts.append(counting.counts())
        if sum(map(len, counts)) > COUNT_ROWS:
            counts = [study.merge_months(pa.concat_tables(counts))]
        if options.draws:
            if not done:
                _put_players(database, run, pool)
            keep_dyads(database)
        facts.append(counting.facts())
        done += games
        report("counting", done, total)
    tables = pa.concat_tables(counts), pa.concat_tables(facts)
    pools = _pools(run) if pool else None
    if not options.draws or not total:
        return study.study_from_counts(*tables, pool=pool, pools=pools, by=options.by, min_games=options.min_games)
    report("clusters", 0, 0)
    return study.with_clusters(
        database,
        *tables,
        draws=options.draws,
        seed=options.seed,
        pool=pool,
        pools=pools,
        by=options.by,
        min_games=options.min_games,
    )


def keep_dyads(database: Database) -> None:
    """Add the games of the present stretch to the table `study_dyads`, for the intervals that respect that players repeat."""
    text = sql_text("study_dyads")
    database.execute(f"create table if not exists study_dyads as select * from ({text}) limit 0")
    database.execute(f"insert into study_dyads {text}")


def _months(files: list[Path]) -> tuple[dict[int, int], bool]:
    """Months in which a file's games begin or end, with about as many games as they have; and whether there are pools.

    No chunk is longer than a month, so these are all months with games. Footers tell it without reading a row.
    """
    months: dict[int, int] = {}
    pool = False
    for path in files:
        try:
            footer = pq.read_metadata(path)
        except (OSError, pa.ArrowException) as error:
            raise EnvironmentFault(f"{path}: the published run's timeline cannot be read: {error}") from None
        names = footer.schema.names
        pool, column = "pool" in names, names.index("played_at")
        for group in range(footer.num_row_groups):
            one = footer.row_group(group)
            if one.num_rows:
                bounds = one.column(column).statistics
                *starts, _ = month_edges(np.array([bounds.min_raw, bounds.max_raw], np.int64))
                for start in starts:
                    months[start] = months.get(start, 0) + one.num_rows // len(starts)
    return dict(sorted(months.items())), pool


def _put_players(database: Database, run: Path, pool: bool) -> None:
    """Create `study_players`: every player of the run with a number, in order."""
    columns = ["pool", "player_id"] if pool else ["player_id"]
    players = read_parquet(run / "players.parquet", columns)
    if not pool:
        players = players.add_column(0, "pool", pa.nulls(len(players), pa.string()))
    database.put("study_players", players.append_column("player_index", pa.array(np.arange(len(players), dtype=np.int64))))


def _pools(run: Path) -> pl.Series:
    found = pl.from_arrow(read_parquet(run / "players.parquet", ["pool"]))
    assert isinstance(found, pl.DataFrame)
    return found["pool"].unique()
