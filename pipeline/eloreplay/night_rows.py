"""What changed in the rows since the published run, and from which instant on that moves a rating: all of it SQL over tables.

The tables on the way: `incoming` (rows of files that were read now), `withdrawn` (stored rows that are no longer in force),
`affected` (the ids of both), `copies` (other stored rows of these ids). Only the affected games are resolved again; of all others
nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.chunks import DAY_US, FOLD, Chunk, Fold
from eloreplay.games import Intake, resolve_copies
from eloreplay.instants import BEGINNING_US
from eloreplay.queries import Database, all_columns
from eloreplay.rowstore import chunks_with, files_sql, key_check, rows_path, undated_path
from eloreplay.rules import Ruleset
from eloreplay.tables import kept_file

#: What a staged row has; `standing` comes after it in stored rows.
ROW = (
    "file_no, row_no, pool, game_id, played_us, winner_id, loser_id, mode, cube, match_length, result, ended_by, is_draw, voided, "
    "revision, advantage, weight"
)
DATED = "is_dated(pool, game_id, winner_id, loser_id, played_us)"


@dataclass(frozen=True)
class RowChanges:
    """What changed in the rows.

    Attributes:
        first_us: first instant at which the rated games differ, or None.
        touched: UTC days whose stored rows are made anew.
        undated: whether the rows that belong to no chunk of time are.
        affected: games that were resolved again.
    """

    first_us: int | None
    touched: set[int]
    undated: bool
    affected: int


class Stored:
    """The stored rows of the published run, shown to queries as the view `stored_rows`."""

    def __init__(self, database: Database, run: Path, fold: Fold, intake: Intake) -> None:
        self._database, self._run, self._fold = database, run, fold
        player = intake.player_id_type
        ids = {"pool": intake.pool_type, "game_id": intake.game_id_type, "winner_id": player, "loser_id": player}
        self._columns = all_columns(ids)

    def show(self, chunks: Iterable[Chunk], undated: bool) -> None:
        """Show the rows of these chunks, and perhaps those that belong to none."""
        parts = []
        dated = [rows_path(self._run, chunk) for chunk in chunks if chunk.rows]
        if dated:
            parts.append(
                f"select {self._columns}, true as is_dated from read_parquet({files_sql(dated)}, hive_partitioning = false)"
            )
        if undated or not parts:
            parts.append(
                f"select {self._columns}, false as is_dated from "
                f"read_parquet({files_sql([undated_path(self._run)])}, hive_partitioning = false)" + ("" if undated else " limit 0")
            )
        self._database.execute("create or replace temp view stored_rows as " + " union all by name ".join(parts))

    def overlapping(self, days: Sequence[int]) -> list[Chunk]:
        """The chunks in which one of these UTC days lies."""
        wanted = sorted(days)
        found, at = [], 0
        for chunk in self._fold.chunks:
            while at < len(wanted) and (wanted[at] + 1) * DAY_US <= chunk.from_us:
                at += 1
            if at < len(wanted) and wanted[at] * DAY_US < chunk.to_us:
                found.append(chunk)
        return found

    def all_chunks(self) -> list[Chunk]:
        """Every chunk that holds rows."""
        return self._fold.chunks


def find_changes(database: Database, stored: Stored, run: Path, fold: Fold, rewritten: set[int]) -> RowChanges:
    """Resolve the affected games again, and find where the rated games differ for the first time.

    Needs `staged` (rows of the files that were read), `what_if_voided`, and what `judged` reads. Leaves `file_days` (of now),
    `withdrawn_days`, `withdrawn`, `affected`, and the affected games' rows as `affected_stays` and `affected_aside`.

    Args:
        database: the working database.
        stored: the stored rows.
        run: the published run.
        fold: what it keeps.
        rewritten: files whose old rows are in doubt.
    """
    _compare_days(database, run, rewritten)
    withdrawn = database.connection.execute("select day from withdrawn_days").fetchall()
    stored.show(stored.overlapping([day for (day,) in withdrawn if day is not None]), undated=(None,) in withdrawn)
    database.create_table("withdrawn", "withdrawn_rows")
    database.create_table("affected", "affected_ids")

    ids = database.arrow_of("select * from affected")
    same_hash = key_check(database) == fold.key_check or pa.types.is_integer(ids.schema.field("game_id").type)
    stored.show(chunks_with(run, fold.chunks, ids) if same_hash else (fold.chunks if ids.num_rows else []), undated=False)
    database.create_table("copies", "stored_copies")

    # As it was: under today's aliases, exclusions and as-of, for what those changed is looked at elsewhere (`first_instants`).
    _stage(
        database,
        f"select {ROW} from copies where standing = 'stays' union all select {ROW} from withdrawn where standing = 'stays'",
    )
    database.create_view("judged", "judged")
    database.create_view("rule_inputs", "rule_inputs")
    database.execute("create or replace table rated_before as select * from rule_inputs")
    _stage(database, f"select {ROW} from copies union all select {ROW} from incoming")
    database.execute("update staged set voided = true where game_id in (select game_id from what_if_voided)")
    resolve_copies(database)
    database.execute("create or replace table rated_after as select * from rule_inputs")
    ((first_us,),) = database.rows("first_difference")
    touched = {day for (day,) in database.rows("touched_days")}
    voided = database.connection.execute("select distinct utc_day(played_us) from staged semi join what_if_voided using (game_id)")
    touched |= {day for (day,) in voided.fetchall()}
    database.execute("create or replace table affected_stays as select * from staged")
    database.execute("create or replace table affected_aside as select * from set_aside")
    return RowChanges(first_us, {day for day in touched if day is not None}, None in touched, ids.num_rows)


def _stage(database: Database, select: str) -> None:
    """Put rows into `staged`, in its own types (a column that was all NULL may have been stored as text)."""
    database.execute("create or replace table staged as select * from incoming limit 0")
    database.execute(f"insert into staged by name {select}")


def _compare_days(database: Database, run: Path, rewritten: set[int]) -> None:
    """Which (file, day) changed; rows of days on which a rewritten file says what it said before leave `incoming`."""
    before = files_sql([run / FOLD / "file_days.parquet"])
    database.execute(f"create or replace table file_days_before as select * from read_parquet({before}, hive_partitioning = false)")
    database.put("rewritten", pa.table({"file_no": pa.array(sorted(rewritten), pa.int64())}))
    database.execute("create or replace table set_aside as select *, ''::varchar as verdict from staged limit 0")
    database.create_view("kept_rows", "kept_rows")
    database.create_table("incoming_days", "kept_days")
    database.create_table("known_days", "known_days")
    database.create_table("withdrawn_days", "withdrawn_days")
    database.execute(
        "delete from staged where exists (select 1 from known_days where known_days.file_no = staged.file_no and known_days.day is "
        f"not distinct from case when {DATED} then utc_day(staged.played_us) end)"
    )
    database.execute("drop view kept_rows")
    database.execute("alter table staged rename to incoming")
    database.execute(
        "create or replace table file_days as select * from file_days_before anti join withdrawn_days on "
        "file_days_before.file_no = withdrawn_days.file_no and file_days_before.day is not distinct from withdrawn_days.day "
        "union all by name select * from incoming_days anti join known_days on "
        "incoming_days.file_no = known_days.file_no and incoming_days.day is not distinct from known_days.day"
    )


def stage_recut(database: Database, stored: Stored, recut: Sequence[tuple[int, int]], changes: RowChanges) -> None:
    """Put every row of the chunks that are made anew into `staged` and `set_aside`.

    Args:
        database: as `find_changes` left it.
        stored: the stored rows.
        recut: the chunks' intervals, in order.
        changes: what `find_changes` found.
    """
    schema = pa.schema([("from_us", pa.int64()), ("to_us", pa.int64())])
    database.put("recut", pa.Table.from_pylist([{"from_us": a, "to_us": b} for a, b in recut], schema=schema))
    database.put("undated_anew", pa.table({"is_anew": pa.array([changes.undated], pa.bool_())}))
    wanted = [chunk for chunk in stored.all_chunks() if any(chunk.from_us < b and a < chunk.to_us for a, b in recut)]
    stored.show(wanted, undated=changes.undated)
    database.create_view("recut_rows", "recut_rows")
    inside = "exists (select 1 from recut where played_us >= recut.from_us and played_us < recut.to_us)"
    here = f"(case when {DATED} then {inside} else (select is_anew from undated_anew) end)"
    _stage(
        database,
        f"select {ROW} from recut_rows where standing = 'stays' union all select {ROW} from affected_stays where {here}",
    )
    database.execute("create or replace table set_aside as select *, ''::varchar as verdict from staged limit 0")
    database.execute(
        f"insert into set_aside by name select {ROW}, standing as verdict from recut_rows where standing <> 'stays' "
        f"union all select {ROW}, verdict from affected_aside where {here}"
    )


def first_instants(
    database: Database, stored: Stored, run: Path, fold: Fold, intake: Intake, ruleset: Ruleset, before_us: int, as_of_us: int
) -> dict[str, int]:
    """Where something else than a row changed: reason to the first instant that it concerns, microseconds.

    Args:
        database: with `aliases`, `excluded`, `start_ratings`, `awards_judged` of now.
        stored: the stored rows.
        run: the published run.
        fold: what it keeps.
        intake: what came through the door: its types of ids.
        ruleset: the rules.
        before_us: as-of of the published run.
        as_of_us: as-of of this one.
    """
    found: dict[str, int] = {}
    player, pool_type = intake.player_id_type, intake.pool_type
    if _differ(database, run, "start_ratings", {"pool": pool_type, "player_id": player}):
        found["start ratings"] = BEGINNING_US
    concerned = _concerned(database, stored, run, player)
    if concerned is not None:
        found["aliases or exclusions"] = concerned
    with kept_file(run / "awards.parquet"), (run / "awards.parquet").open("rb") as file:
        pq.read_metadata(file)
    awards = files_sql([run / "awards.parquet"])
    columns = {row[0] for row in database.connection.execute(f"describe select * from read_parquet({awards})").fetchall()}
    pool = "" if "pool" in columns else "'' as pool, "
    columns_sql = all_columns({"award_id": intake.award_id_type, "player_id": player})
    database.execute(f"create or replace temp view awards_before as select {pool}{columns_sql} from read_parquet({awards})")
    ((award_us,),) = database.rows("award_difference")
    if award_us is not None:
        found["awards"] = award_us
    low, high = min(before_us, as_of_us), max(before_us, as_of_us)
    due = [adjustment.at for adjustment in ruleset.adjustment if low < adjustment.at <= high]
    if due:
        found["adjustments"] = min(due)
    if as_of_us < before_us:
        found["as-of"] = as_of_us + 1
    elif as_of_us > before_us:
        held = [chunk.from_us for chunk in fold.chunks if (chunk.bins or {}).get("held") and chunk.from_us <= as_of_us]
        if held:
            found["held games"] = max(min(held), before_us + 1)
    return found


def _differ(database: Database, run: Path, name: str, types: dict[str, str]) -> bool:
    before = f"select {all_columns(types)} from read_parquet({files_sql([run / FOLD / f'{name}.parquet'])})"
    now = f"select {all_columns(types)} from {name}"
    ((rows,),) = database.connection.execute(
        f"select count(*) from (({now} except all {before}) union all ({before} except all {now}))"
    ).fetchall()
    return bool(rows)


def _concerned(database: Database, stored: Stored, run: Path, player: str) -> int | None:
    """The first game of the players whose aliases or exclusion changed; None when nothing changed or they have none."""
    concerned = {
        "concerned_ids": ("aliases", "alias_id", {"alias_id": player, "player_id": player}),
        "concerned_players": ("excluded", "player_id", {"player_id": player}),
    }
    changed = 0
    for table, (name, column, types) in concerned.items():
        before = f"select {all_columns(types)} from read_parquet({files_sql([run / FOLD / f'{name}.parquet'])})"
        now = f"select {all_columns(types)} from {name}"
        database.execute(
            f"create or replace table {table} as select distinct {column} as player_id from "
            f"(({now} except {before}) union all ({before} except {now}))"
        )
        ((rows,),) = database.connection.execute(f"select count(*) from {table}").fetchall()
        changed += rows
    if not changed:
        return None
    stored.show(stored.all_chunks(), undated=False)
    ((first_us,),) = database.rows("first_concerned")
    return None if first_us is None else int(first_us)
