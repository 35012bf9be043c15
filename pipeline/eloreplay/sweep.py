"""What would other rules have said: one pass of many settings over the same games, and a row of scores for each.

Ratings run over every game; scores are of the games from `train_until` on when that is given, so that the games by which a setting
is chosen are not those by which it is praised. Nothing here touches a published run.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from eloreplay.cluster_sweep import rate_on_cluster
from eloreplay.executors import THREADS, Workers, cluster
from eloreplay.games import Inputs, Report
from eloreplay.instants import show_us
from eloreplay.publish import versions, write_manifest
from eloreplay.report import NAME as PAGE
from eloreplay.report import write_page
from eloreplay.rules import Ruleset
from eloreplay.settings import Axis, settings
from eloreplay.store import database_home
from eloreplay.study_folder import MANIFEST, study_folder
from eloreplay.sweep_field import opened, stretches
from eloreplay.sweep_pass import arms, rate_all, warm_up
from eloreplay.sweep_table import curves, score_table, scored_part, swing_table
from eloreplay.tables import write_parquet

KIND = "sweep"
FILES = ("sweep.parquet", "curves.parquet", "swings.parquet")


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep works; of these only `bootstrap` and `seed` show in a result.

    Attributes:
        threads: of the queries, and settings that are rated side by side.
        memory_limit: of DuckDB, as it writes it ("1GB").
        max_rejected: largest share of refused rows.
        bootstrap: draws for `best_share`; 0 for none.
        seed: of the draws.
    """

    threads: int = 2
    memory_limit: str = "1GB"
    max_rejected: float = 0.01
    bootstrap: int = 1000
    seed: int = 1


@dataclass(frozen=True)
class SweepResult:
    """Where a sweep was written, its table (see `sweep_table.score_table`) and its manifest."""

    folder: Path
    table: pl.DataFrame
    manifest: dict[str, Any]


def sweep(
    inputs: Inputs,
    ruleset: Ruleset,
    axes: Sequence[Axis],
    out: Path,
    as_of_us: int,
    train_until_us: int | None,
    options: SweepOptions,
    report: Report,
    note: Callable[[str], None],
    workers: Workers = THREADS,
) -> SweepResult:
    """Rate the games under every setting and write the scores to `out`.

    Args:
        inputs: what to read.
        ruleset: the rules as they are: setting 0, with which every other is compared.
        axes: what varies.
        out: a new or empty folder, or one of an earlier sweep.
        as_of_us: games after this instant are held.
        train_until_us: scores are of the games from this instant on, and settings are chosen by those before; None: by all.
        options: how to work.
        report: told how far it is.
        note: told what a person should know.
        workers: who rates the settings.

    Raises:
        EloreplayError: of the kind that the exit code says; `out` is then as it was.
    """
    chosen = settings(ruleset, axes)
    started = time.perf_counter()
    with study_folder(out, KIND) as folder:
        with (
            ThreadPoolExecutor(1) as compiler,
            cluster(workers, folder.scratch / "shared", options.memory_limit) as helpers,
            database_home(folder.scratch) as home,
            opened(
                inputs,
                ruleset,
                as_of_us,
                train_until_us,
                threads=options.threads,
                memory_limit=options.memory_limit,
                max_rejected=options.max_rejected,
                scratch=home,
                report=report,
                note=note,
                meanwhile=lambda: compiler.submit(warm_up),
            ) as (database, field),
        ):
            opened_s = time.perf_counter() - started
            games = stretches(database, field, report)
            if helpers is None:
                every = arms(database, field, chosen, home)
                rating_s = rate_all(every, games, field, options.threads)
            else:
                every, rating_s = rate_on_cluster(helpers, database, field, chosen, games, home, report)
        report("scoring", 0, 0)
        table = score_table(every, field, axes, options.bootstrap, options.seed)
        write_parquet(table.to_arrow(), folder.new / FILES[0])
        write_parquet(curves(every, field), folder.new / FILES[1])
        write_parquet(swing_table(every, field), folder.new / FILES[2])
        mapping = inputs.mapping
        manifest = {
            "kind": KIND,
            "files": [*FILES, PAGE],
            "rules": {"name": ruleset.name, "digest": ruleset.digest, "content": ruleset.as_dict()},
            "vary": {axis.parameter.name: list(axis.values) for axis in axes},
            "settings": len(chosen),
            "as_of": show_us(as_of_us),
            "train_until": None if train_until_us is None else show_us(train_until_us),
            "rows_read": field.intake.rows_read,
            "bins": field.intake.bins,
            "award_rows_read": field.intake.award_rows_read,
            "award_bins": field.intake.award_bins,
            "players": field.index.num_rows,
            "games_scored": int(field.cell_games[scored_part(field)].sum()),
            "inputs": field.intake.inputs,
            "input_options": {
                **dataclasses.asdict(inputs),
                "mapping": {"columns": mapping.sources, "naive": mapping.naive, "file": mapping.file and str(mapping.file)},
            },
            "options": dataclasses.asdict(options),
            "versions": versions(),
            "notes": field.intake.notes,
            **({} if helpers is None else {"executor": {"kind": workers.kind, "workers": helpers.team.size}}),
            "timings": {
                "input": round(opened_s, 3),
                "rating": round(rating_s, 3),
                "total": round(time.perf_counter() - started, 3),
            },
        }
        write_manifest(folder.new / MANIFEST, manifest)
        write_page(folder.new, manifest, note)
    return SweepResult(folder.target, table, manifest)
