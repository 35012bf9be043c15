"""A published run opened for questions about single games and players: its rules, its files, and its ids as a person writes them.

Nothing is written and no lock is taken. What is asked is found by the run's own indexes (the sorted keys of game ids, the chunks of
time), so that an answer does not read the history.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.again import OLD_FOLDER, ruleset_of
from eloreplay.chunks import FOLD, Chunk, Fold, read_fold
from eloreplay.errors import UsageFault
from eloreplay.publish import read_manifest
from eloreplay.published import chosen
from eloreplay.queries import DEFAULT_MEMORY, Database, quote
from eloreplay.rowstore import chunks_with, files_sql, key_check
from eloreplay.rules import Ruleset
from eloreplay.run_tables import insist_tables
from eloreplay.tables import kept_file

#: Ids that are shown when one is not there.
NEAR_SHOWN = 3
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Asked:
    """A run that is asked.

    Attributes:
        root: the output folder.
        run: the run's folder, resolved: a night that publishes meanwhile changes nothing here.
        manifest: of the run.
        ruleset: the rules that it was made under.
        fold: its chunks.
        schema: of its timeline.
        database: where queries run; shared by the runs of one question.
    """

    root: Path
    run: Path
    manifest: dict[str, Any]
    ruleset: Ruleset
    fold: Fold
    schema: pa.Schema
    database: Database

    @property
    def pool(self) -> bool:
        """Whether there are ladders."""
        return "pool" in self.schema.names

    @property
    def rated_chunks(self) -> list[Chunk]:
        """The chunks that hold rated games, in order."""
        return [chunk for chunk in self.fold.chunks if chunk.games and chunk.timeline]

    def timeline_file(self, chunk: Chunk) -> Path:
        """The timeline file of a chunk that holds rated games."""
        return self.run / "timeline" / str(chunk.timeline)

    def show(self, chunks: Sequence[Chunk], one_pool: str = "null") -> None:
        """Show the timeline of these chunks, and the awards, as `timeline`, `awards`, `player_timeline`.

        Args:
            chunks: with rated games.
            one_pool: what SQL sees as the pool where there are no ladders; in the state it is ''.
        """
        files = [self.timeline_file(chunk) for chunk in chunks] or sorted((self.run / "timeline").glob("*.parquet"))[:1]
        pool = "" if self.pool else f"{one_pool} as pool, "
        limit = "" if chunks else " limit 0"
        for name, paths, tail in (("timeline", files, limit), ("awards", [self.run / "awards.parquet"], "")):
            self.database.execute(
                f"create or replace temp view {name} as select {pool}* from "
                f"read_parquet({files_sql(paths)}, hive_partitioning = false){tail}"
            )
        self.database.create_view("player_timeline", "player_timeline")

    def show_side_tables(self) -> None:
        """Show the side tables as the run read them: `aliases`, `excluded`, `start_ratings`, in the run's own types of ids."""
        player = "bigint" if self.is_whole("winner_id") else "varchar"
        for name, columns in (
            ("aliases", ("alias_id", "player_id")),
            ("excluded", ("player_id",)),
            ("start_ratings", ("player_id",)),
        ):
            casts = ", ".join(f"cast({column} as {player}) as {column}" for column in columns)
            path = files_sql([self.run / FOLD / f"{name}.parquet"])
            self.database.execute(
                f"create or replace temp view {name} as select * replace ({casts}) from "
                f"read_parquet({path}, hive_partitioning = false)"
            )

    def is_whole(self, column: str) -> bool:
        """Whether the ids of a column of the timeline are whole numbers."""
        return bool(pa.types.is_integer(self.schema.field(column).type))

    def chunks_of_game(self, game: int | str) -> list[Chunk]:
        """The chunks that may hold a row of a game."""
        ids = self.database.arrow_of("select $game as game_id, hash($game) as id_key", {"game": game})
        ids = ids.set_column(0, "game_id", ids["game_id"].cast(self.schema.field("game_id").type))
        if self.is_whole("game_id") or key_check(self.database) == self.fold.key_check:
            return chunks_with(self.run, self.fold.chunks, ids)
        return [chunk for chunk in self.fold.chunks if chunk.rows]

    def near(self, start_us: int, end_us: int) -> list[Chunk]:
        """The chunks with rated games that overlap `[start_us, end_us]`."""
        return [chunk for chunk in self.rated_chunks if chunk.from_us <= end_us and chunk.to_us > start_us]


@contextlib.contextmanager
def asked_run(root: Path, threads: int | None = None, memory_limit: str = DEFAULT_MEMORY) -> Iterator[Asked]:
    """The run that `root` means (see `published.chosen`), opened for the length of the block.

    Raises:
        UsageFault: not our folder, nothing published, or a run that keeps no chunks.
        EnvironmentFault: the run cannot be read.
    """
    root, run = chosen(root)
    insist_tables(run)
    with tempfile.TemporaryDirectory(prefix="eloreplay-") as spill:
        database = Database(None, threads=threads or os.cpu_count() or 1, memory_limit=memory_limit, spill=Path(spill))
        try:
            yield opened_run(root, run, database)
        finally:
            database.close()


def opened_run(root: Path, run: Path, database: Database) -> Asked:
    """A run of an output folder over a database that is open. Raises as `asked_run`."""
    manifest = read_manifest(run)
    fold = read_fold(run)
    if fold is None:
        raise UsageFault(f"{run}: the run {OLD_FOLDER}")
    first = min((run / "timeline").glob("*.parquet"), default=run / "timeline")
    with kept_file(first):
        schema = pq.read_schema(first)
    return Asked(root, run, manifest, ruleset_of(manifest), fold, schema, database)


def sibling(asked: Asked, run: Path) -> Asked:
    """Another run of the same folder, over the same database."""
    return replace(opened_run(asked.root, run, asked.database))


# ---------------------------------------------------------------- ids as a person writes them


def as_id(text: str, whole: bool, what: str) -> int | str:
    """An id as the run's tables hold it.

    Args:
        text: as it was written.
        whole: whether the run's ids are whole numbers.
        what: "game" or "player", for the message.

    Raises:
        UsageFault: text where ids are numbers.
    """
    if not whole:
        return text
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", text) or not -LARGEST_ID <= int(text) <= LARGEST_ID:
        raise UsageFault(f"{what} {text!r}: the {what} ids of this run are whole numbers, such as 1074378")
    return int(text)


def nearest(database: Database, source: str, column: str, wanted: str) -> list[str]:
    """Up to three ids that a person may have meant: the same but for case, blanks, signs in front or zeros.

    Args:
        database: with `source`.
        source: a table or view.
        column: of text ids.
        wanted: what was asked for.
    """
    name = quote(column)
    rows = database.connection.execute(
        f"select distinct {name} from {source} where lower(trim({name})) = lower(trim($wanted)) "
        f"or (regexp_extract({name}, '([1-9][0-9]*)$', 1) = regexp_extract($wanted, '([1-9][0-9]*)$', 1) "
        "and regexp_extract($wanted, '([1-9][0-9]*)$', 1) <> '') "
        f"order by {name} limit {NEAR_SHOWN}",
        {"wanted": wanted},
    ).fetchall()
    return [str(row[0]) for row in rows]


def beside(database: Database, source: str, column: str, wanted: int | str) -> list[int | str]:
    """The ids next below and next above one that is not there; of text only such as begin with the same sign.

    Args:
        database: with `source`.
        source: a table or view.
        column: of ids.
        wanted: what was asked for, as the table holds ids.
    """
    name = quote(column)
    alike = f" and left({name}, 1) = left($wanted, 1)" if isinstance(wanted, str) else ""
    ((low, high),) = database.connection.execute(
        f"select max({name}) filter (where {name} < $wanted{alike}), "
        f"min({name}) filter (where {name} > $wanted{alike}) from {source}",
        {"wanted": wanted},
    ).fetchall()
    return [one for one in (low, high) if one is not None]


def next_ids(ids: Sequence[object]) -> str:
    """The ids beside one that is not there, for a message; empty when there are none."""
    if not ids:
        return ""
    return f"; the {'next id is' if len(ids) == 1 else 'ids next to it are'} " + " and ".join(repr(one) for one in ids)


def meant(near: Sequence[str]) -> str:
    """A hint for a message; empty when nothing is near."""
    return "" if not near else "; did you mean " + " or ".join(repr(one) for one in near) + "?"
