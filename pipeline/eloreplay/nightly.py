"""A night: the next step of the fold, from the published run to the one that a backfill of today's files would give.

In order: which files changed (`night_files`), which rows of them, and from which instant on that moves a rating (`night_rows`); the
chunks of time before that instant are taken over as they are, by links; those after it are judged and rated again by the very code
of a backfill (`games`, `replay`). What it costs follows what changed, not the length of the history.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.again import OLD_FOLDER, inputs_of, options_of, unchanged_ruleset
from eloreplay.backfill import stop_if_too_many_refused, working_database
from eloreplay.changes import Before, board_moves, look_back
from eloreplay.chunks import DAY_US, FOLD, LAST_US, Chunk, bins_of, read_fold, spans_of
from eloreplay.conclude import Work, conclude, publish
from eloreplay.errors import BudgetExceeded, EnvironmentFault, InputRefused, UsageFault
from eloreplay.games import (
    Intake,
    Report,
    find_inputs,
    game_bins,
    input_record,
    judge_awards,
    judged_days,
    put_settings,
    stage_inputs,
)
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.keeping import keep_rows, make_chunks, undated_bins
from eloreplay.night_files import NightFiles, compare_files, game_records, known_sources
from eloreplay.night_rows import RowChanges, Stored, find_changes, first_instants, stage_recut
from eloreplay.prepare import Recent
from eloreplay.publish import read_manifest
from eloreplay.queries import Database, all_columns, sql_text
from eloreplay.rating import initial_state, warm_up
from eloreplay.reader import TypeLedger
from eloreplay.replay import Replay, Start, nothing_before, number_players, replay
from eloreplay.rowstore import files_sql, ids_path, rows_path, undated_path, write_undated
from eloreplay.run import BYTES_A_ROW, BYTES_A_RUN, Clock, RunOptions, RunResult, full_disk_in_words
from eloreplay.sources import OUTPUT_MARKER, Source, file_digest, refuse_changed
from eloreplay.states import restore, state_path
from eloreplay.store import OutputFolder, current_run, database_home, hold
from eloreplay.tables import ARROW_TYPES

#: Shares of games restated and of players moved that a night may have without being asked for; and so many are never too many.
MAX_RESTATED, MAX_MOVED, NEVER_TOO_MANY = 0.01, 0.05, 10
#: A player has moved when his rating is so many points away from what it was.
MOVED_POINTS = 100
#: Later than every game: nothing is rated again.
NEVER_US = LAST_US


@dataclass(frozen=True)
class NightOptions:
    """What a night may do and what is asked of it.

    Attributes:
        allow_missing: take the rows of vanished files out.
        sealed_before_us: files whose rows are all older may be archived; None: what the run before said.
        dry_run: work it out and publish nothing.
        max_restated: share of games that may be restated; None: `MAX_RESTATED`, and never fewer than `NEVER_TOO_MANY`.
        max_moved: share of players that may move by more than `MOVED_POINTS`; None likewise.
        accept_changes: publish whatever the two shares are.
        min_new_games: fewer new games are stale data.
        stop_if_stale: stop then, instead of only saying so.
        overrides: side tables given anew ("awards", "aliases", "excluded", "start_ratings"): path, or absent to keep.
        threads: of DuckDB, or None to keep; likewise `memory_limit`, `max_rejected`.
    """

    allow_missing: bool = False
    sealed_before_us: int | None = None
    dry_run: bool = False
    max_restated: float | None = None
    max_moved: float | None = None
    accept_changes: bool = False
    min_new_games: int | None = None
    stop_if_stale: bool = False
    overrides: tuple[tuple[str, str], ...] = ()
    threads: int | None = None
    memory_limit: str | None = None
    max_rejected: float | None = None


@dataclass(frozen=True)
class NightResult:
    """How a night ended.

    Attributes:
        run: the published run (the one before, when nothing had changed or nothing was to be published).
        published: whether a new run was published.
        night: what happened, as in the manifest's key "night".
        changes: the table `changes`, or None when nothing was worked out.
    """

    run: RunResult
    published: bool
    night: dict[str, Any]
    changes: pa.Table | None


def nightly(
    games: tuple[str, ...],
    out: Path,
    as_of_us: int,
    options: NightOptions,
    report: Report,
    note: Callable[[str], None],
) -> NightResult:
    """Bring the published run of `out` up to what the files in `games` say now.

    Args:
        games: the whole history: files, folders or wildcards.
        out: a folder with a published run; rules and options come from its manifest.
        as_of_us: games after this instant are held.
        options: what the night may do.
        report: told how far it is.
        note: told what a person should know.

    Raises:
        EloreplayError: of the kind that the exit code says; the last published run then stands as it was.
    """
    if not (out / OUTPUT_MARKER).is_file() or current_run(out) is None:
        raise UsageFault(f"{out}: there is no published run to go on from; start with eloreplay backfill … --out {out}")
    with full_disk_in_words(out), hold(out) as folder:
        for text in folder.notes:
            note(text)
        current = folder.current
        assert current is not None
        folder.begin()
        try:
            return _Night(folder, current, games, as_of_us, options, report, note).work()
        finally:
            folder.clean()


@dataclass(frozen=True)
class _Plan:
    """Which chunks of time a night takes over and which it makes anew.

    Attributes:
        from_us: from this instant on everything is rated again.
        kept: chunks of the published run before it: their timeline and states are taken over.
        planned: all chunks that there will be, as intervals, in order.
        touched: those whose stored rows are written anew.
        recut: those whose rows are judged again: the touched ones and all from `from_us` on.
        untouched: the others.
    """

    from_us: int
    kept: list[Chunk]
    planned: list[tuple[int, int]]
    touched: set[tuple[int, int]]
    recut: list[tuple[int, int]]
    untouched: set[tuple[int, int]]

    def untouched_of(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Those of the published run's chunks that are taken over in every respect."""
        return [chunk for chunk in chunks if (chunk.from_us, chunk.to_us) in self.untouched]


class _Night:
    """One night at work."""

    def __init__(
        self,
        folder: OutputFolder,
        current: Path,
        games: tuple[str, ...],
        as_of_us: int,
        night: NightOptions,
        report: Report,
        note: Callable[[str], None],
    ) -> None:
        self.clock = Clock()
        self.folder, self.before, self.as_of_us = folder, current, as_of_us
        self.night, self.report, self.note = night, report, note
        self.manifest = read_manifest(current)
        fold = read_fold(current)
        if fold is None:
            raise UsageFault(f"{folder.root}: the published run {current.name} {OLD_FOLDER}")
        self.fold = fold
        self.ruleset = unchanged_ruleset(self.manifest)
        overrides: dict[str, Any] = dict(night.overrides)
        self.inputs = replace(inputs_of(self.manifest, games), **overrides)
        changed = {name: getattr(night, name) for name in ("threads", "memory_limit", "max_rejected")}
        self.options: RunOptions = replace(options_of(self.manifest), **{k: v for k, v in changed.items() if v is not None})
        sealed = [us for us in (night.sealed_before_us, self.manifest.get("sealed_before_us")) if us is not None]
        self.sealed_before_us = max(sealed, default=None)

    def work(self) -> NightResult:
        """Do it."""
        self.report("looking at files", 0, 0)
        found = find_inputs(self.inputs, known_sources(self.manifest))
        files = compare_files(
            self.manifest,
            found["games"],
            self._last_instants(),
            self.fold.next_file,
            self.night.allow_missing,
            self.sealed_before_us,
        )
        for text in files.notes:
            self.note(text)
        side = self._side_records(found)
        if self._is_the_same(files, side):
            self._stop_if_stale(0)
            run = RunResult(self.before, self.manifest)
            return NightResult(run, False, {"nothing_new": True, "as_of": show_us(self.as_of_us)}, None)
        rows = sum(source.rows for source in files.to_read)
        self.folder.require_space(rows * BYTES_A_ROW + BYTES_A_RUN)
        with database_home(self.folder.work) as home:
            database = working_database(home, self.options)
            try:
                rules = self.manifest["rules"]
                work = Work(
                    self.folder,
                    home,
                    database,
                    self.inputs,
                    self.ruleset,
                    self.as_of_us,
                    self.options,
                    self.report,
                    self.note,
                    (rules.get("source"), rules.get("since") or {}),
                    self.clock,
                )
                return self._run(work, found, files, side)
            finally:
                database.close()

    def _last_instants(self) -> dict[int, int]:
        """The last instant of each file's rows that belong to a chunk of time, microseconds."""
        with (self.before / FOLD / "file_days.parquet").open("rb") as file:
            table = pq.read_table(file, columns=["file_no", "day", "last_us"])
        rows = table.filter(pa.compute.is_valid(table["day"])).group_by("file_no").aggregate([("last_us", "max")])
        return dict(zip(rows["file_no"].to_pylist(), rows["last_us_max"].to_pylist(), strict=True))

    def _side_records(self, found: dict[str, list[Source]]) -> list[dict[str, Any]]:
        """The side tables as the manifest lists them; they are few rows and are read every night."""
        return [
            dict(input_record(role, source, file_digest(source), None))
            for role, sources in found.items()
            if role != "games"
            for source in sources
        ]

    def _is_the_same(self, files: NightFiles, side: list[dict[str, Any]]) -> bool:
        """Whether nothing at all is different from the published run's inputs."""

        def content(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
            return sorted((record["table"], record["sha256"]) for record in records if record["table"] != "games")

        records = game_records(self.manifest)
        return (
            not files.to_read
            and not files.rewritten
            and self.as_of_us == self.manifest["as_of_us"]
            and content(side) == content(self.manifest["inputs"])
            and {n: (r["file"], bool(r.get("archived"))) for n, r in files.records.items()}
            == {n: (r["file"], bool(r.get("archived"))) for n, r in records.items()}
            and self.sealed_before_us == self.manifest.get("sealed_before_us")
            and self.options.board == options_of(self.manifest).board
        )

    def _run(self, work: Work, found: dict[str, list[Source]], files: NightFiles, side: list[dict[str, Any]]) -> NightResult:
        with ThreadPoolExecutor(1) as compiler:
            compiled = compiler.submit(warm_up, self.ruleset)
            intake = self._read(work.database, found, files)
            changes, instants = self._compare(work.database, intake, files)
            plan = self._plan(work.database, changes, instants)
            compile_s = compiled.result()
        intake.inputs = [record for _, record in sorted(files.records.items())] + side
        database = work.database
        work.clock.lap("input")
        chunks = self._judge(work, intake, files, changes, plan)
        work.clock.lap("storing")
        before = look_back(database, self.before, self.manifest, intake, self.ruleset, work.pool)
        self._number_known_players(database, intake)
        index = number_players(database)
        start = self._start(work, intake, plan, index)
        database.create_view("rule_inputs", "rule_inputs")
        self._show_timeline(database, intake, self.fold.chunks[len(plan.kept) :])
        restated = self._restated(database, before, plan.from_us, instants)
        self._stop_if_stale(restated["new_games"])
        self._stop_if_restated(restated)
        result = replay(
            database,
            self.ruleset,
            intake,
            start,
            [chunk for chunk in chunks if chunk.games and chunk.from_us >= plan.from_us],
            run=work.run,
            pool=work.pool,
            as_of_us=self.as_of_us,
            horizon_us=before.horizon_us,
            report=self.report,
        )
        self._carry_counts(database, plan.from_us)
        self._link(work.run, plan, chunks)
        work.clock.lap("rating")
        rated = {chunk.from_us: chunk for chunk in result.chunks}
        whole = sorted(
            plan.untouched_of(self.fold.chunks) + [rated.get(chunk.from_us, self._with_fold(chunk)) for chunk in chunks],
            key=lambda chunk: chunk.from_us,
        )
        lost = undated_bins(intake.days) if changes.undated else self.fold.undated_bins
        _insist_on_bins(intake)
        more: dict[str, Any] = {
            "kind": "nightly",
            "after": self.before.name,
            "sealed_before_us": self.sealed_before_us,
            "compile_s": round(compile_s, 3),
        }
        night = {
            "files_read": len(files.to_read),
            "from": show_us(plan.from_us) if plan.from_us < NEVER_US else None,
            "replayed_games": sum(chunk.games for chunk in result.chunks),
            "games": int(sum(chunk.games for chunk in whole)),
            **restated,
        }
        return self._finish(work, intake, result, before, whole, lost, files, more, night)

    def _read(self, database: Database, found: dict[str, list[Source]], files: NightFiles) -> Intake:
        """Read the new files and the side tables, and put up what rows are judged by."""
        intake = Intake(sources=files.to_read, award_sources=found.get("awards", []))
        intake.numbers, intake.file_names = files.numbers, files.names
        known = "the published run"
        ledger = TypeLedger(id_types={family: (sql_type, known) for family, sql_type in self.fold.types.items()})
        if self.fold.zoned is not None:
            ledger.zone = (self.fold.zoned, known)
        with ThreadPoolExecutor(1) as hasher:
            digests = {source.path: hasher.submit(file_digest, source) for source in files.to_read}
            stage_inputs(database, self.inputs, {**found, "games": files.to_read}, self.ruleset, intake, self.report, ledger)
            for source in files.to_read:
                files.records[files.numbers[source.path]]["sha256"] = digests[source.path].result()
                refuse_changed(source)
        for text in intake.notes:
            self.note(text)
        put_settings(database, self.ruleset, self.as_of_us)
        judge_awards(database, intake)
        return intake

    def _compare(self, database: Database, intake: Intake, files: NightFiles) -> tuple[RowChanges, dict[str, int]]:
        """What changed in the rows and in everything else."""
        self.report("comparing rows", 0, 0)
        database.execute("create or replace table what_if_voided as select game_id from staged limit 0")
        stored = Stored(database, self.before, self.fold, intake)
        changes = find_changes(database, stored, self.before, self.fold, files.rewritten)
        instants = first_instants(
            database, stored, self.before, self.fold, intake, self.ruleset, self.manifest["as_of_us"], self.as_of_us
        )
        if changes.first_us is not None:
            instants["games"] = changes.first_us
        return changes, instants

    def _plan(self, database: Database, changes: RowChanges, instants: dict[str, int]) -> _Plan:
        """Which chunks stay, which are judged again and which are rated again."""
        days = [
            day for (day,) in database.connection.execute("select distinct day from file_days where day is not null").fetchall()
        ]
        spans = spans_of(days, self.options.chunk, self.as_of_us)
        planned = sorted(set(spans.values()))
        old = {(chunk.from_us, chunk.to_us): chunk for chunk in self.fold.chunks}
        misfits = [chunk for key, chunk in old.items() if key not in set(planned)]
        touched = set(spans_of(changes.touched, self.options.chunk, self.as_of_us).values()) & set(planned)
        touched |= {key for key in planned if key not in old}
        cut = min([*instants.values(), *(chunk.from_us for chunk in misfits if chunk.games)], default=NEVER_US)
        from_us = next((first for first, end in planned if first <= cut < end), cut)
        kept = [chunk for chunk in self.fold.chunks if chunk.to_us <= from_us]
        # What was rated in a chunk that is cut otherwise now starts with that chunk.
        assert all(chunk.to_us <= from_us or chunk.from_us >= from_us for chunk in self.fold.chunks if chunk.games)
        recut = [key for key in planned if key in touched or key[1] > from_us]
        untouched = {key for key in planned if key not in set(recut)}
        return _Plan(from_us, kept, planned, touched, recut, untouched)

    def _judge(self, work: Work, intake: Intake, files: NightFiles, changes: RowChanges, plan: _Plan) -> list[Chunk]:
        """Judge the rows of the chunks that are made anew, and keep them; returns these chunks."""
        database = work.database
        stage_recut(database, Stored(database, self.before, self.fold, intake), plan.recut, changes)
        database.create_view("judged", "judged")
        database.create_view("kept_rows", "kept_rows")
        intake.days = judged_days(database)
        days = dict(
            database.connection.execute(
                "select day, cast(sum(row_count) as bigint) from file_days "
                "where day is not null "
                "and exists (select 1 from recut where day * 86400000000 >= from_us and day * 86400000000 < to_us) "
                "group by day"
            ).fetchall()
        )
        chunks = make_chunks(days, intake.days, self.options.chunk, self.as_of_us)
        assert [(chunk.from_us, chunk.to_us) for chunk in chunks] == plan.recut
        written = {
            chunk.from_us: chunk
            for chunk in keep_rows(database, work.run, [c for c in chunks if (c.from_us, c.to_us) in plan.touched], days)
        }
        if changes.undated:
            write_undated(database, work.run)
        self._carry_refused(database)
        ((new_refused,),) = database.rows("refused_incoming")
        ((new_rows,),) = database.connection.execute("select count(*) from incoming").fetchall()
        intake.rows_read = files.rows
        lost = undated_bins(intake.days) if changes.undated else self.fold.undated_bins
        intake.bins = game_bins(bins_of(plan.untouched_of(self.fold.chunks) + chunks, lost))
        stop_if_too_many_refused(work, intake, (new_refused, new_rows))
        return [written.get(chunk.from_us, chunk) for chunk in chunks]

    def _carry_refused(self, database: Database) -> None:
        """All refused rows of the history: of what is made anew, and those of the run before where nothing is."""
        path = files_sql([self.before / FOLD / "refused.parquet"])
        database.execute(
            f"create or replace temp view refused_before as select * from read_parquet({path}, hive_partitioning = false)"
        )
        database.create_table("refused_kept", "refused_rows")
        database.execute("insert into refused_kept by name select * from (" + sql_text("refused_carried") + ")")

    def _number_known_players(self, database: Database, intake: Intake) -> None:
        path = self.before / FOLD / "players.parquet"
        with path.open("rb") as file:
            known = pq.read_table(file)
        ids = {"pool": ARROW_TYPES[intake.pool_type], "player_id": ARROW_TYPES[intake.player_id_type]}
        known = known.cast(pa.schema(list(ids.items())))
        known = known.append_column("player_index", pa.array(np.arange(len(known), dtype=np.int32)))
        database.put("known_players", known)

    def _start(self, work: Work, intake: Intake, plan: _Plan, index: pa.Table) -> Start:
        """The ratings before the first chunk that is rated again."""
        database = work.database
        kept = [chunk for chunk in plan.kept if chunk.games]
        if not kept:
            return nothing_before(database, self.ruleset, index)
        state = initial_state(database, self.ruleset, index.num_rows)
        since_full = restore(self.before, kept, state)
        settled_us = kept[-1].to_us
        with (self.before / "awards.parquet").open("rb") as file:
            awards = pq.read_table(file)
        awarded = awards["awarded_at"].cast(pa.int64()).to_numpy()
        settled = int(np.searchsorted(awarded, settled_us, side="left"))
        window_us = self.ruleset.window_us
        recent = Recent.nothing()
        if window_us is not None:
            since_us = max(settled_us - window_us, BEGINNING_US)
            self._show_timeline(database, intake, [chunk for chunk in kept if chunk.to_us > since_us])
            rows = database.arrow("recent_games", {"from_us": since_us})
            recent = Recent(
                np.array(rows["played_us"].to_numpy(), np.int64),
                np.array(rows["winner_index"].to_numpy(), np.int32),
                np.array(rows["loser_index"].to_numpy(), np.int32),
            )
        seq = sum(chunk.games for chunk in kept)
        return Start(state, index, seq, len(kept), recent, settled_us, since_full, awards.slice(0, settled))

    def _show_timeline(self, database: Database, intake: Intake, chunks: Sequence[Chunk]) -> None:
        """Show the published timeline of these chunks as the view `timeline_before`."""
        names = [chunk.timeline for chunk in chunks if chunk.timeline is not None]
        if not names:
            names = sorted(path.name for path in (self.before / "timeline").glob("*.parquet"))[:1]
            tail = " limit 0"
        else:
            tail = ""
        pool = "" if self.inputs.pool is not None else "'' as pool, "
        paths = files_sql([self.before / "timeline" / name for name in names])
        player = intake.player_id_type
        columns = all_columns({"game_id": intake.game_id_type, "winner_id": player, "loser_id": player})
        database.execute(
            f"create or replace temp view timeline_before as select {pool}{columns} from "
            f"read_parquet({paths}, hive_partitioning = false){tail}"
        )

    def _restated(self, database: Database, before: Before, from_us: int, instants: dict[str, int]) -> dict[str, Any]:
        """What became of the games since the run before: how many are new, which days are restated and why."""
        rows = database.rows("restated_games", {"horizon_us": before.horizon_us, "from_us": from_us})
        new = sum(games for _, kind, games in rows if kind == "new")
        kinds: dict[str, int] = {}
        days: dict[str, dict[str, int]] = {}
        for day, kind, games in rows:
            if kind != "new":
                kinds[kind] = kinds.get(kind, 0) + games
                days.setdefault((show_us(day * DAY_US) or str(day))[:10], {})[kind] = games
        return {
            "new_games": new,
            "restated_games": sum(kinds.values()),
            "restated": kinds,
            "restated_days": days,
            "reasons": {reason: show_us(us) for reason, us in sorted(instants.items())},
        }

    def _stop_if_stale(self, new_games: int) -> None:
        wanted = self.night.min_new_games
        if wanted is None or new_games >= wanted:
            return
        text = f"{new_games} new games since the published run {self.before.name}, fewer than --min-new-games {wanted}"
        if self.night.stop_if_stale:
            raise InputRefused(f"{text}: the data is stale; nothing was published")
        self.note(f"{text}: is the data stale?")

    def _stop_if_restated(self, restated: dict[str, Any]) -> None:
        """The first half of the change budget, before anything is rated."""
        games, rated = restated["restated_games"], self.manifest["bins"]["rated"]
        limit = MAX_RESTATED if self.night.max_restated is None else self.night.max_restated
        few = self.night.max_restated is None and games <= NEVER_TOO_MANY
        if self.night.accept_changes or self.night.dry_run or not rated or few or games / rated <= limit:
            return
        kinds = ", ".join(f"{count} {kind}" for kind, count in restated["restated"].items())
        raise BudgetExceeded(
            f"{games} of the {rated} games that are published would be restated ({games / rated:.2%}: {kinds}), more than "
            f"--max-restated {limit:.2%} allows; nothing was published. Look at what was delivered (--dry-run shows more); if it "
            "is right, run again with --accept-changes"
        )

    def _stop_if_moved(self, before: Before, changes: pa.Table) -> int:
        """The other half: how many players would move far; returns their number."""
        change = changes["change"].to_numpy(zero_copy_only=False).astype(np.float64)
        moved = int(np.count_nonzero(np.abs(change) > MOVED_POINTS))
        limit = MAX_MOVED if self.night.max_moved is None else self.night.max_moved
        few = self.night.max_moved is None and moved <= NEVER_TOO_MANY
        if self.night.accept_changes or self.night.dry_run or not before.players or few or moved / before.players <= limit:
            return moved
        raise BudgetExceeded(
            f"{moved} of {before.players} players would move by more than {MOVED_POINTS} points ({moved / before.players:.2%}), "
            f"more than --max-moved {limit:.2%} allows; nothing was published. Look at what was delivered (--dry-run shows more); "
            "if it is right, run again with --accept-changes"
        )

    def _carry_counts(self, database: Database, from_us: int) -> None:
        """The counts of the chunks that stay."""
        for name in ("favourite_counts", "game_counts"):
            path = files_sql([self.before / FOLD / f"{name}.parquet"])
            database.execute(
                f"insert into {name} by name select * from read_parquet({path}) where chunk_us < $from_us",
                {"from_us": from_us},
            )

    def _link(self, run: Path, plan: _Plan, chunks: Sequence[Chunk]) -> None:
        """Take over every file of the published run that stays as it is."""
        for name in ("timeline", f"{FOLD}/rows", f"{FOLD}/ids", f"{FOLD}/state"):
            (run / name).mkdir(parents=True, exist_ok=True)
        for chunk in plan.kept:
            if chunk.timeline is not None:
                link(self.before / "timeline" / chunk.timeline, run / "timeline" / chunk.timeline)
            if chunk.state is not None:
                link(state_path(self.before, chunk), state_path(run, chunk))
        for chunk in self.fold.chunks:
            key = (chunk.from_us, chunk.to_us)
            if chunk.rows and key in set(plan.planned) and key not in plan.touched:
                link(rows_path(self.before, chunk), rows_path(run, chunk))
                link(ids_path(self.before, chunk), ids_path(run, chunk))
        if not undated_path(run).exists():
            link(undated_path(self.before), undated_path(run))

    def _with_fold(self, chunk: Chunk) -> Chunk:
        """A chunk that was judged again but not rated again: what the fold keeps of it is what the run before kept."""
        old = next((one for one in self.fold.chunks if (one.from_us, one.to_us) == (chunk.from_us, chunk.to_us)), None)
        if old is None or not chunk.games:
            return chunk
        return replace(chunk, first_seq=old.first_seq, timeline=old.timeline, state=old.state, state_rows=old.state_rows)

    def _finish(
        self,
        work: Work,
        intake: Intake,
        result: Replay,
        before: Before,
        chunks: list[Chunk],
        lost: dict[str, int],
        files: NightFiles,
        more: dict[str, Any],
        night: dict[str, Any],
    ) -> NightResult:
        old = {(chunk.from_us, chunk.to_us): chunk for chunk in self.fold.chunks}
        chunks = [
            chunk
            if chunk.id_low is not None or (chunk.from_us, chunk.to_us) not in old
            else replace(chunk, id_low=old[(chunk.from_us, chunk.to_us)].id_low, id_high=old[(chunk.from_us, chunk.to_us)].id_high)
            for chunk in chunks
        ]
        more["night"] = night
        manifest, changes = conclude(work, intake, result, before, chunks, sum(lost.values()), lost, files.next_file, more)
        night["moved_players"] = self._stop_if_moved(before, changes)
        night["board_entries"], night["board_exits"] = (
            [str(player) for player in players] for players in board_moves(self.before, work.run)
        )
        if self.night.dry_run:
            return NightResult(RunResult(self.before, manifest), False, night, changes)
        return NightResult(publish(work, manifest), True, night, changes)


def _insist_on_bins(intake: Intake) -> None:
    """Stop when the bins do not add up to the rows: then what was taken over and what is new do not fit together."""
    refused = intake.bins["rejected"]
    assert isinstance(refused, dict)
    counted = sum(refused.values()) + sum(rows for rows in intake.bins.values() if isinstance(rows, int))
    if counted != intake.rows_read:
        raise EnvironmentFault(
            f"the bins hold {counted} rows, the files {intake.rows_read}; nothing was published. The published run does not "
            "fit its files: run eloreplay backfill once more, and please report this"
        )


def link(source: Path, target: Path) -> None:
    """Give a file that never changes a second name; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copy2(source, target)
