"""The next step of the fold: from a published run to another one, over what changed.

Everything that goes on from a published run is one of these: a night (other files, another as-of), a what-if (games voided, players
excluded), a check of the stored states (rated again from some instant). The chunks of time before the first difference are taken
over as they are, by links; those after it are judged and rated again by the very code of a backfill (`games`, `replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eloreplay.again import OLD_FOLDER
from eloreplay.backfill import NEW_ROWS_WORTH_A_SHARE, stop_if_too_many_refused
from eloreplay.changes import Before, board_moves, look_back
from eloreplay.chunks import DAY_US, FOLD, LAST_US, Chunk, bins_of, joined, read_fold, spans_of
from eloreplay.conclude import Work, conclude
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.games import AWARDS, Intake, game_bins, judge_awards, judged_days, put_settings, stage_inputs
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.keeping import keep_rows, make_chunks, undated_bins
from eloreplay.night_files import NightFiles
from eloreplay.night_rows import RowChanges, Stored, find_changes, first_instants, stage_recut
from eloreplay.prepare import Recent
from eloreplay.publish import read_manifest
from eloreplay.queries import Database, all_columns, sql_text
from eloreplay.rating import initial_state, warm_up
from eloreplay.reader import TypeLedger
from eloreplay.replay import Start, nothing_before, number_players, replay
from eloreplay.rowstore import files_sql, ids_path, link, rows_path, undated_path, write_undated
from eloreplay.sources import Source, file_digest, refuse_changed
from eloreplay.states import restore, state_path
from eloreplay.tables import ARROW_TYPES, read_kept

#: Later than every game: nothing is rated again.
NEVER_US = LAST_US
#: Ids of restated games that a night tells.
IDS_SHOWN = 5
DAYS = "select distinct day from file_days where day is not null"


@dataclass(frozen=True)
class Change:
    """What is different besides the files and the as-of.

    Attributes:
        voided: games to take as voided: column `game_id`, or None.
        excluded: players to exclude besides those of the run: column `player_id`, or None.
        from_us: rate again from this instant on, whatever changed; None: only what changed.
    """

    voided: pa.Table | None = None
    excluded: pa.Table | None = None
    from_us: int | None = None


@dataclass(frozen=True)
class StepResult:
    """A finished step, not yet published.

    Attributes:
        manifest: of the new run; its key "night" says what happened.
        changes: the table `changes`.
        before: the run that it went on from.
    """

    manifest: dict[str, Any]
    changes: pa.Table
    before: Before


def nothing_to_object(_restated: dict[str, Any]) -> None:
    """For steps that are not asked to stop before they rate."""


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

    @property
    def made_anew(self) -> list[tuple[int, int]]:
        """Where rows are judged again: the same as `recut`, as few intervals."""
        first = [key for key in self.recut if key[0] < self.from_us]
        return joined([*first, (self.from_us, LAST_US)] if self.from_us < NEVER_US else first)

    def untouched_of(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Those of the published run's chunks that are taken over in every respect."""
        return [chunk for chunk in chunks if (chunk.from_us, chunk.to_us) in self.untouched]


class Step:
    """One step at work.

    Args:
        work: the run that is made.
        before: the published run that it goes on from.
        kind: how the manifest calls it.
        change: what is different besides files and as-of.
    """

    def __init__(self, work: Work, before: Path, kind: str, change: Change) -> None:
        self.work, self.before, self.kind, self.change = work, before, kind, change
        self.manifest = read_manifest(before)
        fold = read_fold(before)
        if fold is None:
            raise UsageFault(f"{before}: the run {OLD_FOLDER}")
        self.fold = fold

    def run(
        self,
        found: dict[str, list[Source]],
        files: NightFiles,
        side: list[dict[str, Any]],
        more: dict[str, Any],
        object_to: Callable[[dict[str, Any]], None] = nothing_to_object,
    ) -> StepResult:
        """Work the step out, into the work folder.

        Args:
            found: the files of every table; of the games only those of now that may have to be read.
            files: what became of the game files.
            side: the manifest's list of the other files.
            more: further keys of the manifest.
            object_to: told what of the past is restated, before anything is rated; raises to stop.
        """
        work, database = self.work, self.work.database
        with ThreadPoolExecutor(1) as compiler:
            compiled = compiler.submit(warm_up, work.ruleset)
            intake = self._read(database, found, files)
            changes, instants = self._compare(database, intake, files)
            plan = self._plan(database, changes, instants)
            compile_s = compiled.result()
        intake.inputs = [record for _, record in sorted(files.records.items())] + side
        work.clock.lap("input")
        chunks = self._judge(work, intake, files, changes, plan)
        work.clock.lap("storing")
        before = look_back(database, self.before, self.manifest, intake, work.ruleset, work.pool)
        self._number_known_players(database, intake)
        index = number_players(database)
        start = self._start(work, intake, plan, index)
        database.create_view("rule_inputs", "rule_inputs")
        self._show_differing(database, intake, plan, chunks)
        restated = self._restated(database, before, instants)
        object_to(restated)
        result = replay(
            database,
            work.ruleset,
            intake,
            start,
            [chunk for chunk in chunks if chunk.games and chunk.from_us >= plan.from_us],
            run=work.run,
            pool=work.pool,
            as_of_us=work.as_of_us,
            horizon_us=before.horizon_us,
            report=work.report,
        )
        self._carry_counts(database, plan.from_us)
        self._link(work.run, plan)
        work.clock.lap("rating")
        rated = {chunk.from_us: chunk for chunk in result.chunks}
        whole = sorted(
            plan.untouched_of(self.fold.chunks) + [rated.get(chunk.from_us, self._with_fold(chunk)) for chunk in chunks],
            key=lambda chunk: chunk.from_us,
        )
        whole = [self._with_bounds(chunk) for chunk in whole]
        lost = undated_bins(intake.days) if changes.undated else self.fold.undated_bins
        _insist_on_bins(intake)
        night = {
            "files_read": len(files.to_read),
            "from": show_us(plan.from_us) if plan.from_us < NEVER_US else None,
            "replayed_games": sum(chunk.games for chunk in result.chunks),
            "games": sum(chunk.games for chunk in whole),
            **restated,
        }
        keys = {"kind": self.kind, "after": self.before.name, **more, "compile_s": round(compile_s, 3), "night": night}
        manifest, changed = conclude(
            work, intake, result, before, whole, sum(lost.values()), lost, files.next_file, keys, (self.before, plan.from_us)
        )
        night["board_entries"], night["board_exits"] = (
            [str(player) for player in players] for players in board_moves(self.before, work.run)
        )
        return StepResult(manifest, changed, before)

    def _read(self, database: Database, found: dict[str, list[Source]], files: NightFiles) -> Intake:
        """Read the new files and the side tables, and put up what rows are judged by."""
        intake = Intake(sources=files.to_read, award_sources=found.get("awards", []))
        intake.numbers, intake.file_names = files.numbers, files.names
        known = "the published run"
        # Awards are read whole: what they were before decides nothing.
        types = {family: (sql_type, known) for family, sql_type in self.fold.types.items() if family != AWARDS}
        ledger = TypeLedger(id_types=types)
        if self.fold.zoned is not None:
            ledger.zone = (self.fold.zoned, known)
        with ThreadPoolExecutor(1) as hasher:
            digests = {source.path: hasher.submit(file_digest, source) for source in files.to_read}
            stage_inputs(
                database, self.work.inputs, {**found, "games": files.to_read}, self.work.ruleset, intake, self.work.report, ledger
            )
            for source in files.to_read:
                files.records[files.numbers[source.path]]["sha256"] = digests[source.path].result()
                refuse_changed(source)
        for text in intake.notes:
            self.work.note(text)
        put_settings(database, self.work.ruleset, self.work.as_of_us)
        return intake

    def _compare(self, database: Database, intake: Intake, files: NightFiles) -> tuple[RowChanges, dict[str, int]]:
        """What changed in the rows and in everything else."""
        self.work.report("comparing rows", 0, 0)
        database.execute("create or replace table what_if_voided as select game_id from staged limit 0")
        for table, rows in (("what_if_voided", self.change.voided), ("excluded", self.change.excluded)):
            if rows is not None:
                with database.registered("what_if_rows", rows):
                    database.execute(f"insert into {table} by name select * from what_if_rows")
        if self.change.excluded is not None:
            # As in the run's own list, an alias means the player behind it.
            database.execute(
                "create or replace table excluded as select distinct coalesce(aliases.player_id, excluded.player_id) as player_id "
                "from excluded left join aliases on excluded.player_id = aliases.alias_id"
            )
        judge_awards(database, intake)
        stored = Stored(database, self.before, self.fold, intake)
        changes = find_changes(database, stored, self.before, self.fold, files.rewritten)
        self._note_unknown(database)
        before_us, as_of_us = self.manifest["as_of_us"], self.work.as_of_us
        instants = first_instants(database, stored, self.before, self.fold, intake, self.work.ruleset, before_us, as_of_us)
        if changes.first_us is not None:
            instants["games"] = changes.first_us
        if self.change.from_us is not None:
            instants["asked for"] = self.change.from_us
        return changes, instants

    def _note_unknown(self, database: Database) -> None:
        """Say how many of the games to be voided nobody knows: a list of other ids would change nothing, without a word."""
        ((asked, unknown),) = database.connection.execute(
            "select count(*), count(*) filter (where game_id not in (select game_id from affected_stays) "
            "and game_id not in (select game_id from affected_aside)) from what_if_voided"
        ).fetchall()
        if unknown:
            self.work.note(f"{unknown} of the {asked} games to be voided are not in this history")

    def _plan(self, database: Database, changes: RowChanges, instants: dict[str, int]) -> _Plan:
        """Which chunks stay, which are judged again and which are rated again."""
        days = [
            day for (day,) in database.connection.execute("select distinct day from file_days where day is not null").fetchall()
        ]
        spans = spans_of(days, self.work.options.chunk, self.work.as_of_us)
        planned = sorted(set(spans.values()))
        old = {(chunk.from_us, chunk.to_us): chunk for chunk in self.fold.chunks}
        misfits = [chunk for key, chunk in old.items() if key not in set(planned)]
        touched = set(spans_of(changes.touched, self.work.options.chunk, self.work.as_of_us).values()) & set(planned)
        touched |= {key for key in planned if key not in old}
        if any(chunk.games for chunk in misfits):
            # A month that has been over for long is one chunk from now on, say: nothing else may have changed.
            instants["another cut into chunks"] = min(chunk.from_us for chunk in misfits if chunk.games)
        cut = min(instants.values(), default=NEVER_US)
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
        stage_recut(database, Stored(database, self.before, self.fold, intake), plan.made_anew, changes)
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
        chunks = make_chunks(days, intake.days, self.work.options.chunk, self.work.as_of_us)
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
        stop_if_too_many_refused(work, intake, (new_refused, new_rows) if new_rows > NEW_ROWS_WORTH_A_SHARE else (0, 0))
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
        known = read_kept(self.before / FOLD / "players.parquet")
        ids = {"pool": ARROW_TYPES[intake.pool_type], "player_id": ARROW_TYPES[intake.player_id_type]}
        known = known.cast(pa.schema(list(ids.items())))
        known = known.append_column("player_index", pa.array(np.arange(len(known), dtype=np.int32)))
        database.put("known_players", known)

    def _start(self, work: Work, intake: Intake, plan: _Plan, index: pa.Table) -> Start:
        """The ratings before the first chunk that is rated again."""
        database = work.database
        kept = [chunk for chunk in plan.kept if chunk.games]
        if not kept:
            return nothing_before(database, self.work.ruleset, index)
        state = initial_state(database, self.work.ruleset, index.num_rows)
        since_full = restore(self.before, kept, state)
        settled_us = kept[-1].to_us
        awards = read_kept(self.before / "awards.parquet")
        awarded = awards["awarded_at"].cast(pa.int64()).to_numpy()
        settled = int(np.searchsorted(awarded, settled_us, side="left"))
        window_us = self.work.ruleset.window_us
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
        pool = "" if self.work.inputs.pool is not None else "'' as pool, "
        paths = files_sql([self.before / "timeline" / name for name in names])
        player = intake.player_id_type
        columns = all_columns({"game_id": intake.game_id_type, "winner_id": player, "loser_id": player})
        database.execute(
            f"create or replace temp view timeline_before as select {pool}{columns} from "
            f"read_parquet({paths}, hive_partitioning = false){tail}"
        )

    def _show_differing(self, database: Database, intake: Intake, plan: _Plan, chunks: Sequence[Chunk]) -> None:
        """Show where games may differ: the old timeline of those chunks, and the intervals as the table `differing`.

        Chunks whose rated games have the digest that they had are left out: rated again, but by the same games.
        """
        now = {(chunk.from_us, chunk.to_us): chunk.digest for chunk in chunks if chunk.games and chunk.from_us >= plan.from_us}
        old = {(chunk.from_us, chunk.to_us): chunk for chunk in self.fold.chunks[len(plan.kept) :] if chunk.games}
        same = {key for key, digest in now.items() if key in old and old[key].digest == digest}
        self._show_timeline(database, intake, [chunk for key, chunk in old.items() if key not in same])
        intervals = joined(key for key in {*now, *old} if key not in same)
        schema = pa.schema([("from_us", pa.int64()), ("to_us", pa.int64())])
        database.put("differing", pa.Table.from_pylist([{"from_us": a, "to_us": b} for a, b in intervals], schema=schema))

    def _restated(self, database: Database, before: Before, instants: dict[str, int]) -> dict[str, Any]:
        """What became of the games since the run before: how many are new, which days are restated and why."""
        rows = database.rows("restated_games", {"horizon_us": before.horizon_us, "shown": IDS_SHOWN})
        new = sum(games for _, kind, games, _ in rows if kind == "new")
        kinds: dict[str, int] = {}
        days: dict[str, dict[str, int]] = {}
        ids: list[int | str] = []
        for day, kind, games, first_ids in rows:
            if kind != "new":
                ids += first_ids
                kinds[kind] = kinds.get(kind, 0) + games
                days.setdefault((show_us(day * DAY_US) or str(day))[:10], {})[kind] = games
        return {
            "new_games": new,
            "restated_games": sum(kinds.values()),
            "restated": kinds,
            "restated_days": days,
            "restated_ids": ids[:IDS_SHOWN],
            "reasons": {reason: show_us(us) for reason, us in sorted(instants.items())},
        }

    def _carry_counts(self, database: Database, from_us: int) -> None:
        """The counts of the chunks that stay."""
        for name in ("favourite_counts", "game_counts"):
            path = files_sql([self.before / FOLD / f"{name}.parquet"])
            database.execute(
                f"insert into {name} by name select * from read_parquet({path}) where chunk_us < $from_us",
                {"from_us": from_us},
            )

    def _link(self, run: Path, plan: _Plan) -> None:
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

    def _with_bounds(self, chunk: Chunk) -> Chunk:
        """A chunk whose rows were taken over has the least and greatest id that it had."""
        if chunk.id_low is not None:
            return chunk
        old = next((one for one in self.fold.chunks if (one.from_us, one.to_us) == (chunk.from_us, chunk.to_us)), chunk)
        return replace(chunk, id_low=old.id_low, id_high=old.id_high)


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
