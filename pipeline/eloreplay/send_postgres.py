"""A run into PostgreSQL, by ADBC: one transaction, which deletes and copies only what is not there yet.

Readers never wait and never see a mixture: the tables stay, their rows are deleted and inserted, and under MVCC a reader goes on
seeing what was there until the commit. TRUNCATE, or new tables renamed into place, would take a lock that every SELECT waits for,
and rights given on the tables would go with them. Only tables whose columns have changed are made anew.

    eloreplay_run      one row: which run is there
    eloreplay_chunks   one row a file that is there: table, name, digest, first seq, rows
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.queries import quote, sql_text
from eloreplay.send_source import TIMELINE, Part, Progress, RunFiles, batches
from eloreplay.send_target import Target

INSTALL = "pip install 'eloreplay[postgres]'"
RUN, CHUNKS, VIEW = "eloreplay_run", "eloreplay_chunks", "player_timeline"
CHUNKS_SCHEMA = pa.schema(
    [
        ("table_name", pa.string()),
        ("file", pa.string()),
        ("sha256", pa.string()),
        ("first_seq", pa.int64()),
        ("row_count", pa.int64()),
    ]
)
RUN_SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("kind", pa.string()),
        ("as_of", pa.timestamp("us", "UTC")),
        ("made_at", pa.timestamp("us", "UTC")),
        ("rules", pa.string()),
        ("rules_digest", pa.string()),
        ("eloreplay", pa.string()),
        ("rows_read", pa.int64()),
        ("rated_games", pa.int64()),
        ("players", pa.int64()),
    ]
)
INDEXES = (("winner_id", "played_at"), ("loser_id", "played_at"), ("game_id",))
BEING_MADE = " (being made)"
#: How PostgreSQL names the types that a run's columns have.
TYPES = {
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.bool_(): "boolean",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
}


@dataclass
class Sent:
    """What was sent, or would be.

    Attributes:
        rows: rows sent, by table.
        deleted: rows that were taken out, by table.
        chunks: timeline files sent.
        unchanged: timeline files that were there already.
        remade: tables that were made anew because their columns had changed.
        before: the run that was there, or None.
    """

    rows: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    chunks: int = 0
    unchanged: int = 0
    remade: list[str] = field(default_factory=list)
    before: str | None = None


class Postgres:
    """A connection in one transaction; get one from `connected`."""

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection = connection
        self.schema = schema

    def execute(self, text: str, parameters: tuple[Any, ...] = ()) -> None:
        """Run a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(text, parameters=parameters or None)

    def rows(self, text: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The result of a query of a few rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(text, parameters=parameters or None)
            return list(cursor.fetchall())

    def name(self, table: str) -> str:
        """A table as SQL writes it."""
        return f"{quote(self.schema)}.{quote(table)}"

    def copy(self, table: str, reader: pa.RecordBatchReader) -> None:
        """Copy rows into a table that is there (binary COPY)."""
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(table, reader, mode="append", db_schema_name=self.schema)

    def commit(self) -> None:
        """End the transaction: from here on readers see the run.

        Raises:
            EnvironmentFault: the connection broke at that moment, so that nobody here knows whether it ended well.
        """
        import adbc_driver_manager

        try:
            self._connection.commit()
        except adbc_driver_manager.Error:
            raise EnvironmentFault(
                f"the connection broke at the commit: {RUN} in schema {self.schema!r} says which run is there, whole in either "
                "case; publish once more"
            ) from None


@contextlib.contextmanager
def connected(target: Target, schema: str) -> Iterator[Postgres]:
    """A connection for the length of the block. Without `commit` nothing that was done in it stays.

    Who connects, and how, is libpq's business: the address, then PGUSER, PGPASSWORD, PGSERVICE, PGPASSFILE, ~/.pgpass and the like.

    Raises:
        UsageFault: the driver is not installed.
        EnvironmentFault: no connection, or PostgreSQL refuses a statement; never with the password.
    """
    try:
        import adbc_driver_manager
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise UsageFault(f"--to postgresql://… needs the ADBC driver: {INSTALL}") from None
    try:
        connection = dbapi.connect(target.where)
    except (adbc_driver_manager.Error, ValueError, TypeError, OSError) as error:
        raise EnvironmentFault(f"{target.shown}: no connection: {target.clean(error)}; nothing was sent") from None
    try:
        try:
            yield Postgres(connection, schema)
        finally:
            # Without a commit this is what takes everything back; after one it does nothing. The connection may be gone already.
            with contextlib.suppress(adbc_driver_manager.Error):
                connection.rollback()
    except (adbc_driver_manager.Error, pa.ArrowException) as error:
        if getattr(error, "status_code", None) == adbc_driver_manager.AdbcStatusCode.CANCELLED and "timeout" not in str(error):
            # The driver takes a Ctrl-C during a statement for itself and has the server end the statement.
            raise KeyboardInterrupt from None
        raise EnvironmentFault(f"{target.shown}: {target.clean(error)}; what was published there is as it was") from None
    finally:
        with contextlib.suppress(adbc_driver_manager.Error):
            connection.close()


def lock(postgres: Postgres, note: Callable[[str], None]) -> None:
    """Wait until nobody else sends into this schema; the lock ends with the transaction, however that ends."""
    key = "hashtextextended('eloreplay publish ' || $1::text, 0)"
    postgres.execute("set transaction isolation level read committed")
    if not postgres.rows(f"select pg_try_advisory_xact_lock({key})", (postgres.schema,))[0][0]:
        note("another publish into this schema is at work; this one waits for its end")
        postgres.rows(f"select pg_advisory_xact_lock({key})::text", (postgres.schema,))


def what_is_there(postgres: Postgres) -> dict[str, list[tuple[str, str]]]:
    """Tables and views of the schema, each with its columns and their types."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in postgres.rows(sql_text("postgres_columns"), (postgres.schema,)):
        found.setdefault(table, []).append((column, kind))
    return found


def send(postgres: Postgres, files: RunFiles, progress: Progress, *, everything: bool, dry_run: bool) -> Sent:
    """Bring what a schema holds to a run; the caller commits.

    Args:
        postgres: locked, unless this is a dry run.
        files: the run.
        progress: told (step, rows, all rows).
        everything: send all of it, whatever is there.
        dry_run: only look.

    Raises:
        UsageFault: the schema has tables of those names that are not ours.
        EnvironmentFault: a text that PostgreSQL cannot hold.
    """
    there = what_is_there(postgres)
    wanted = {table: columns_of(schema) for table, schema in files.schemas.items()}
    _insist_ours(postgres, there, [*wanted, VIEW, CHUNKS])
    known: set[tuple[str, str, int]] = set()
    spans: list[tuple[str, str, int, int]] = []
    sent = Sent()
    if RUN in there and CHUNKS in there:
        sent.before = next((str(run) for (run,) in postgres.rows(f"select run from {postgres.name(RUN)}")), None)
        columns = ", ".join(CHUNKS_SCHEMA.names)
        spans = [(row[0], row[2], row[3], row[4]) for row in postgres.rows(f"select {columns} from {postgres.name(CHUNKS)}")]
        known = {span[:3] for span in spans}
    fresh = {table for table in wanted if there.get(table) != wanted[table]}
    sent.remade = sorted(table for table in fresh if table in there)
    if everything:
        known = set()
    known = {key for key in known if key[0] not in fresh}
    parts = [part for part in files.parts if part.key not in known]
    for part in parts:
        sent.rows[part.table] = sent.rows.get(part.table, 0) + part.rows
    sent.chunks = sum(part.table == TIMELINE for part in parts)
    sent.unchanged = len(files.of(TIMELINE)) - sent.chunks
    stays = {part.key for part in files.parts} & known
    gone = [span for span in spans if span[:3] not in stays]
    for table, _, _, rows in gone:
        sent.deleted[table] = sent.deleted.get(table, 0) + rows
    if dry_run:
        return sent

    if not postgres.rows("select oid from pg_catalog.pg_namespace where nspname = $1", (postgres.schema,)):
        postgres.execute(f"create schema {quote(postgres.schema)}")
    for table in sorted(fresh):
        made = table + (BEING_MADE if table in there else "")
        postgres.execute(
            f"create table {postgres.name(made)} ({', '.join(f'{quote(name)} {kind}' for name, kind in wanted[table])})"
        )
    _delete(postgres, (set(wanted) if everything else {span[0] for span in gone}) & set(there) - fresh, gone, everything)
    _copy_parts(postgres, files, parts, {table: table + BEING_MADE for table in sent.remade}, progress)
    progress("indexes", 0, 0)
    _put_in_place(postgres, files, fresh, set(there))
    _say_what_is_there(postgres, files, set(there))
    return sent


def _delete(postgres: Postgres, tables: set[str], gone: list[tuple[str, str, int, int]], everything: bool) -> None:
    """Take out what is sent again: small tables as a whole, of the timeline just the rows of chunks that have changed."""
    for table in sorted(tables):
        if table != TIMELINE or everything:
            postgres.execute(f"delete from {postgres.name(table)}")
            continue
        spans: list[list[int]] = []
        for first, rows in sorted((first, rows) for name, _, first, rows in gone if name == TIMELINE):
            if spans and spans[-1][1] == first:
                spans[-1][1] += rows
            else:
                spans.append([first, first + rows])
        for low, high in spans:
            postgres.execute(f"delete from {postgres.name(table)} where seq >= {int(low)} and seq < {int(high)}")


def columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """The columns of a table and the types PostgreSQL has for them."""
    return [(field.name, TYPES[field.type]) for field in schema]


def _insist_ours(postgres: Postgres, there: dict[str, Any], names: list[str]) -> None:
    strangers = sorted(set(names) & set(there))
    if strangers and RUN not in there:
        raise UsageFault(
            f"schema {postgres.schema!r} has tables that eloreplay did not make ({', '.join(strangers)}; there is no {RUN}), and "
            "they were not touched: choose another --schema"
        )


def _copy_parts(postgres: Postgres, files: RunFiles, parts: list[Part], places: dict[str, str], progress: Progress) -> None:
    total, done = sum(part.rows for part in parts), 0

    def told(rows: int) -> None:
        nonlocal done
        done += rows
        progress("sending", done, total)

    for table, schema in files.schemas.items():
        chosen = [part for part in parts if part.table == table and part.rows]
        if chosen:
            rows = (_storable(batch, table) for batch in batches(chosen, told))
            postgres.copy(places.get(table, table), pa.RecordBatchReader.from_batches(schema, rows))


def _storable(batch: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """The batch, unless a text holds U+0000, which PostgreSQL cannot store.

    In `rejected`, where people read what was refused, the sign for it (U+2400) stands instead. Anywhere else it would be part of
    an id, and another id is another player.
    """
    for at, field_ in enumerate(batch.schema):
        if field_.type != pa.string():
            continue
        holds = pc.match_substring(batch.column(at), "\0")
        if not pc.any(holds).as_py():
            continue
        if not table.startswith("rejected"):
            value = batch.column(at).filter(holds)[0].as_py()
            raise EnvironmentFault(
                f"{table}.{field_.name}: {value!r} holds the character U+0000, which no text of PostgreSQL can; nothing was sent"
            )
        batch = batch.set_column(at, field_, pc.replace_substring(batch.column(at), "\0", "\u2400"))
    return batch


def _put_in_place(postgres: Postgres, files: RunFiles, fresh: set[str], there: set[str]) -> None:
    """Indexes of what was made, once it is filled; then what replaces another table takes its name."""
    if TIMELINE in fresh:
        name = postgres.name(TIMELINE + (BEING_MADE if TIMELINE in there else ""))
        postgres.execute(f"alter table {name} add primary key (seq)")
        for columns in INDEXES:
            postgres.execute(f"create index on {name} ({', '.join(columns)})")
    if "players" in fresh:
        name = postgres.name("players" + (BEING_MADE if "players" in there else ""))
        postgres.execute(f"create index on {name} (player_id)")
    if fresh & there and VIEW in there:
        postgres.execute(f"drop view {postgres.name(VIEW)}")
        there.discard(VIEW)
    for table in sorted(fresh & there):
        postgres.execute(f"drop table {postgres.name(table)}")
        postgres.execute(f"alter table {postgres.name(table + BEING_MADE)} rename to {quote(table)}")
    if VIEW not in there:
        text = sql_text("postgres_player_timeline")
        # The view's own names are found in the schema that it stands in, whatever the reader's search path.
        postgres.execute(f"set local search_path to {quote(postgres.schema)}, pg_catalog")
        text = text if files.pool else "\n".join(line for line in text.splitlines() if line.strip() != "pool,")
        postgres.execute(f"create view {postgres.name(VIEW)} as {text}")


def _say_what_is_there(postgres: Postgres, files: RunFiles, there: set[str]) -> None:
    import datetime as dt

    facts = files.facts()
    for key in ("as_of", "made_at"):
        facts[key] = None if not facts[key] else dt.datetime.fromisoformat(facts[key])
    chunks = [
        {"table_name": part.table, "file": part.name, "sha256": part.sha256, "first_seq": part.first_seq, "row_count": part.rows}
        for part in files.parts
    ]
    for table, schema, content in ((RUN, RUN_SCHEMA, [facts]), (CHUNKS, CHUNKS_SCHEMA, chunks)):
        if table not in there:
            columns = [f"{quote(name)} {kind}" for name, kind in columns_of(schema)]
            columns += ["published_at timestamp with time zone default now()"] if table == RUN else []
            postgres.execute(f"create table {postgres.name(table)} ({', '.join(columns)})")
        postgres.execute(f"delete from {postgres.name(table)}")
        postgres.copy(table, pa.Table.from_pylist(content, schema).to_reader())


def analyze(postgres: Postgres, tables: list[str]) -> None:
    """Have the planner know what has changed much; after the commit, for it is worth nothing to readers before."""
    for table in tables:
        postgres.execute(f"analyze {postgres.name(table)}")
    postgres.commit()
