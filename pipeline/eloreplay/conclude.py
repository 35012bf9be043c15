"""The end of every run, a whole one or a night: its tables, what it keeps to go on from, its manifest, the switch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from eloreplay import calibration, objects
from eloreplay.changes import Before, write_changes
from eloreplay.chunks import FOLD, Chunk, Fold
from eloreplay.columns import ColumnMapping
from eloreplay.games import Inputs, Intake, Report, write_refused
from eloreplay.instants import BEGINNING_US, now_us, show_us
from eloreplay.month_study import Months, month_study
from eloreplay.publish import summary, versions, write_manifest, write_tables, write_views
from eloreplay.queries import Database
from eloreplay.replay import Replay
from eloreplay.report import write_page
from eloreplay.rowstore import key_check
from eloreplay.rules import Ruleset
from eloreplay.run import Clock, RunOptions, RunResult
from eloreplay.store import OutputFolder
from eloreplay.tables import write_parquet


@dataclass
class Work:
    """One run while it is at work: where, on what, and under which rules.

    Attributes:
        folder: the output folder, held.
        home: where the working database is.
        database: the working database.
        inputs: what is read.
        ruleset: the settled rules.
        as_of_us: games after it are held.
        options: how to work.
        report: told how far it is.
        note: told what a person should know.
        rules_source: name or file of the rules, and `--since` as it was given.
    """

    folder: OutputFolder
    home: Path
    database: Database
    inputs: Inputs
    ruleset: Ruleset
    as_of_us: int
    options: RunOptions
    report: Report
    note: Callable[[str], None]
    rules_source: tuple[str | None, dict[str, int]] = (None, {})
    clock: Clock = field(default_factory=Clock)

    @property
    def run(self) -> Path:
        """Where the run is written before it is published."""
        return self.folder.run

    @property
    def pool(self) -> bool:
        """Whether there are ladders."""
        return self.inputs.pool is not None


def conclude(
    work: Work,
    intake: Intake,
    result: Replay,
    before: Before,
    chunks: Sequence[Chunk],
    undated: int,
    undated_bins: dict[str, int],
    next_file: int,
    more: dict[str, Any],
    study_before: tuple[Path | None, int] = (None, BEGINNING_US),
) -> tuple[dict[str, Any], pa.Table]:
    """Write everything but the timeline, the rows and the states, which are there; returns the manifest and the table `changes`.

    Args:
        work: the run.
        intake: what came through the door, of the whole history.
        result: what the fold left.
        before: the run that `changes` compares with.
        chunks: all chunks of the history, in order.
        undated: rows that belong to no chunk; `undated_bins` are their verdicts.
        undated_bins: see there.
        next_file: number for the next new file.
        more: further keys of the manifest.
        study_before: the run whose study is carried on, and the instant from which on games may differ from it.
    """
    work.report("writing tables", 0, 0)
    run, database, pool = work.run, work.database, work.pool
    for name in ("aliases", "excluded", "start_ratings"):
        write_parquet(database.arrow_of(f"select * from {name} order by all"), run / FOLD / f"{name}.parquet")
    write_parquet(database.arrow_of("select * from refused_kept order by file_no, row"), run / FOLD / "refused.parquet")
    write_refused(database.arrow_of("select * from refused_kept order by file_no, row"), intake, run / "rejected.parquet", pool)
    write_tables(database, run, result, intake, work.ruleset, work.options.board, pool)
    _write_study(work, intake, chunks, study_before)
    changes = write_changes(database, run, result.index, result.horizon_ratings, work.options.board, work.ruleset, pool)
    write_parquet(result.index.select(["pool", "player_id"]), run / FOLD / "players.parquet")
    for name in ("favourite_counts", "game_counts"):
        write_parquet(database.arrow_of(f"select * from {name} order by all"), run / FOLD / f"{name}.parquet")
    write_parquet(database.arrow_of("select * from file_days order by file_no, day"), run / FOLD / "file_days.parquet")
    work.inputs.forgotten.write(run / FOLD)
    Fold(
        list(chunks),
        undated,
        undated_bins,
        intake.known_types,
        intake.zoned,
        key_check(database),
        next_file,
    ).write(run)
    database.close()
    target = work.folder.next_run()
    write_views(run, target.absolute(), work.home, pool)
    work.clock.lap("tables")
    source, since = work.rules_source
    manifest = {
        "run": target.name,
        "made_at": show_us(now_us()),
        "rules": {
            "name": work.ruleset.name,
            "digest": work.ruleset.digest,
            "source": source,
            "since": since,
            "content": work.ruleset.as_dict(),
        },
        "as_of": show_us(work.as_of_us),
        "as_of_us": work.as_of_us,
        "rows_read": intake.rows_read,
        "bins": intake.bins,
        "award_rows_read": intake.award_rows_read,
        "award_bins": intake.award_bins,
        "players": int(np.count_nonzero(result.state["seen"])),
        "horizon_us": _horizon(result),
        "changed_players": len(changes),
        "inputs": intake.inputs,
        "input_options": input_options(work.inputs),
        "options": dataclasses.asdict(work.options),
        "versions": versions(),
        "notes": intake.notes,
        "chunks": [chunk.listed() for chunk in chunks if chunk.games],
        **more,
        "timings": work.clock.timings(result.elapsed_s),
    }
    return manifest, changes


def _write_study(work: Work, intake: Intake, chunks: Sequence[Chunk], before: tuple[Path | None, int]) -> None:
    """The tables `calibration` and `summary`: by slices and with scores, unless the run is asked to do without."""
    database, pool = work.database, work.pool
    work.clock.lap("tables")
    overall = summary(database, intake, pool)
    curves = calibration.curve(database, pool)
    if work.options.study:
        work.report("studying", 0, 0)
        games = database.connection.execute(
            "select epoch_us(month_start), cast(sum(games) as bigint) from game_counts group by month_start order by month_start"
        ).fetchall()
        pools = pl.from_arrow(database.arrow_of("select pool from pools order by pool")) if pool else None
        curves, found = month_study(
            database,
            work.run,
            work.ruleset,
            chunks,
            Months(dict(games), before[1], before[0], work.as_of_us),
            pools["pool"] if isinstance(pools, pl.DataFrame) else None,
        )
        keys = [*(["pool"] if pool else []), "statistic", "slice", "slice_value"]
        # What both know is the same; the run's own rows come first.
        more = found.cast(overall.schema).join(overall, on=keys, how="anti", nulls_equal=True)
        overall = pl.concat([overall, more.select(overall.columns)]).sort(keys)
    write_parquet(curves.to_arrow(), work.run / "calibration.parquet")
    write_parquet(overall.to_arrow(), work.run / "summary.parquet")
    work.clock.lap("study")


def _horizon(result: Replay) -> int | None:
    """Instant of the last rated game or applied award, microseconds."""
    state = result.state
    played = state["last_us"][(state["wins"] + state["losses"] + state["draws"]) > 0]
    instants = [int(played.max())] if played.size else []
    if len(result.awards):
        instants.append(int(np.max(result.awards["awarded_at"].cast(pa.int64()).to_numpy())))
    return max(instants, default=None)


def publish(work: Work, manifest: dict[str, Any]) -> RunResult:
    """Make the finished run the one that readers see."""
    work.report("publishing", 0, 0)
    timings = manifest["timings"]
    timings["report"] = write_page(work.run, manifest, work.note)
    timings["total"] = round(timings["total"] + timings["report"], 3)
    write_manifest(work.run / "manifest.json", manifest)
    return RunResult(work.folder.publish(work.options.keep), manifest)


def input_options(inputs: Inputs) -> dict[str, Any]:
    """What was read, for the manifest: paths are absolute, so that a later run can start from any folder."""

    def absolute(path: str | None) -> str | None:
        return None if path is None else objects.absolute(path)

    return {
        "games": [inputs.shown.get(path, path) for path in inputs.games],
        "mapping": _mapping(inputs.mapping),
        "pool": inputs.pool,
        "awards": absolute(inputs.awards),
        "aliases": absolute(inputs.aliases),
        "excluded": absolute(inputs.excluded),
        "start_ratings": absolute(inputs.start_ratings),
    }


def _mapping(mapping: ColumnMapping) -> dict[str, Any]:
    file = None if mapping.file is None else os.path.abspath(mapping.file)
    return {"columns": mapping.sources, "naive": mapping.naive, "file": file}
