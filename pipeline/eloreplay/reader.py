"""From Parquet files to staged rows: binds a table's canonical columns to each file, checks every type from the schema, inserts.

No type converts by itself: integers widen to int64, numbers to float64, an all-NULL column takes the declared type; anything else
is refused before a row is read, with the file, the column, what was found and what to write in the columns file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from eloreplay.columns import NO_MAPPING, Column, ColumnMapping
from eloreplay.errors import InputRefused, UsageFault
from eloreplay.expressions import Expression, check_expression
from eloreplay.forgotten import FAMILY, NOBODY, Forgotten, sql_digest
from eloreplay.queries import Database, failures, literal_path, quote
from eloreplay.sources import Source

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
FLOATS = {"FLOAT", "DOUBLE"}
ZONED = {"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS", "TIMESTAMP_NS WITH TIME ZONE"}
#: Numbers of other widths and kinds, which must be converted before anything else takes them.
WIDE_INTEGERS = {"UBIGINT", "HUGEINT", "UHUGEINT"}
NAIVE = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
SQL_TYPES = {"integer": "BIGINT", "text": "VARCHAR", "time": "BIGINT", "flag": "BOOLEAN", "number": "DOUBLE"}
#: First instant of the year -290000: a little above the first one DuckDB has a month for.
FIRST_US = -9_213_683_299_200_000_000

Progress = Callable[[int, int], None]


@dataclass
class TypeLedger:
    """What the files read so far agreed on: the type of each kind of id, and whether stamps carry a zone."""

    id_types: dict[str, tuple[str, str]] = field(default_factory=dict)
    zone: tuple[bool, str] | None = None

    def settle_id(self, family: str, sql_type: str, where: str) -> None:
        """Note the type of an id; all columns of one family (games, players, pools) must agree.

        Raises:
            InputRefused: text here, integers elsewhere.
        """
        known = self.id_types.setdefault(family, (sql_type, where))
        if known[0] != sql_type:
            shown = {"BIGINT": "integers", "VARCHAR": "text"}
            raise InputRefused(
                f"{where} holds {shown[sql_type]}, but {known[1]} holds {shown[known[0]]}: ids are compared exactly, 7 is not "
                "'007'; make them one type, "
                + (
                    "in the files"
                    if family == "pool"
                    else "in the files or, for those of games, with cast(… as varchar) in the columns file"
                )
            )

    def settle_zone(self, zoned: bool, where: str) -> None:
        """Note whether stamps carry a zone; files may not mix.

        Raises:
            InputRefused: with a zone here, without elsewhere.
        """
        if self.zone is None:
            self.zone = (zoned, where)
        elif self.zone[0] != zoned:
            words = {True: "with a zone", False: "without a zone"}
            raise InputRefused(
                f"{where} has stamps {words[zoned]}, but {self.zone[1]} {words[self.zone[0]]}: files must not mix them; export "
                "all with a zone (UTC)"
            )

    def id_type(self, family: str) -> str:
        """SQL type of a family of ids; text when every column was all NULL."""
        return self.id_types.get(family, ("VARCHAR", ""))[0]


@dataclass(frozen=True)
class TableSpec:
    """What is to be read: canonical columns, their mapping and which id belongs to which family.

    Attributes:
        what: the table's role, for messages ("games").
        columns: canonical columns.
        families: id column to family name.
        mapping: the columns file.
        also_required: columns that these rules cannot do without.
        pool: the column of the ladder, by its own name, or None.
        forgotten: players whose ids are replaced as they are read.
    """

    what: str
    columns: Sequence[Column]
    families: dict[str, str]
    mapping: ColumnMapping = NO_MAPPING
    also_required: frozenset[str] = frozenset()
    pool: str | None = None
    forgotten: Forgotten = NOBODY


@dataclass(frozen=True)
class _Bound:
    """One canonical column in one file: the SQL that reads it and the type it yields."""

    column: Column
    sql: str
    plain: str | None


class TableReader:
    """Binds a table's columns to files and stages their rows. Use `plan` on every file before the first `stage`."""

    def __init__(self, database: Database, spec: TableSpec, ledger: TypeLedger) -> None:
        self._database = database
        self._spec = spec
        self._ledger = ledger
        self._expressions: dict[str, Expression] = {}
        self._types: dict[tuple[str, str], str] = {}
        self._selects: dict[str, list[str]] = {}
        self.notes: list[str] = []

    def plan(self, sources: Iterable[Source]) -> None:
        """Check the schema of every file.

        Raises:
            InputRefused: a missing column, a wrong type, mixed zones.
            UsageFault: a mapping that is no scalar expression, or of the wrong type.
        """
        sources = list(sources)
        if not sources:
            return
        present = {name for source in sources for name in source.names}
        for name, text in self._spec.mapping.sources.items():
            if text not in present:
                where = f"{self._spec.mapping.shown}: [columns] {name}"
                self._expressions[name] = check_expression(self._database.connection, text, where)
        pool = () if self._spec.pool is None else (Column("pool", "id", required=True),)
        for source in sources:
            bounds = [self._bind(column, source) for column in (*pool, *self._spec.columns)]
            found = self._describe(source, [bound for bound in bounds if bound is not None])
            self._selects[source.shown] = self._select(source, [*pool, *self._spec.columns], bounds, found)

    @property
    def _is_mapped(self) -> bool:
        """Whether the columns file can help: it maps the games or the live ratings, and no other table."""
        return self._spec.what in ("games", "live ratings")

    def _bind(self, column: Column, source: Source) -> _Bound | None:
        """Where a canonical column comes from in this file; None when it is absent and may be."""
        name = column.name
        wanted = self._spec.pool if column.name == "pool" and self._spec.pool else self._spec.mapping.sources.get(name, name)
        if wanted in source.names:
            folded = [other for other in source.names if other.lower() == wanted.lower()]
            if len(folded) > 1:
                raise InputRefused(
                    f"{source.shown}: the columns {' and '.join(map(repr, folded))} differ only by case or stand twice: which is "
                    f"'{name}' cannot be told; rename one"
                )
            return _Bound(column, quote(wanted), wanted)
        expression = self._expressions.get(name)
        if expression is not None:
            folded_names = {other.lower() for other in source.names}
            for reference in expression.columns:
                if reference.lower() not in folded_names:
                    raise InputRefused(
                        f"{source.shown}: column '{reference}' is missing, which {self._spec.mapping.shown} needs for '{name}' "
                        f"({expression.text}); the file has {_list(source.names)}"
                    )
            return _Bound(column, f"({expression.text}\n)", None)
        needed = column.required or name in self._spec.also_required or wanted != name
        similar = [other for other in source.names if other.lower() == wanted.lower()]
        if not needed:
            if similar:
                note = f"{source.shown}: column '{similar[0]}' is not '{name}' (names are exact) and is ignored"
                self.notes.append(note)
            return None
        mappable = self._is_mapped and name != "pool"
        hint = f" ('{similar[0]}' differs by case: {'map' if mappable else 'names are exact, rename'} it)" if similar else ""
        if name == "pool":
            advice = "; --pool names a column of the file itself, and awards and start ratings need it as well as games"
        elif mappable:
            advice = f"; map another column to '{name}' in a columns file (--columns)"
        else:
            advice = ""
        raise InputRefused(
            f"{source.shown}: column '{wanted}' is missing in this {self._spec.what} file{hint}; it has {_list(source.names)}"
            + advice
        )

    def _describe(self, source: Source, bounds: list[_Bound]) -> dict[str, str]:
        """DuckDB's type of each bound column; one question to DuckDB a schema, not a file."""
        key = source.schema_key
        names = [bound.column.name for bound in bounds]
        if any((key, name) not in self._types for name in names):
            selected = ", ".join(f"{bound.sql} as {quote(bound.column.name)}" for bound in bounds)
            with failures(source.shown, refuse=self._damaged(source, "the columns cannot be read")):
                rows = self._database.connection.execute(
                    f"describe select {selected} from read_parquet($path, hive_partitioning = false)",
                    {"path": literal_path(source.path)},
                ).fetchall()
            for name, row in zip(names, rows, strict=True):
                self._types[(key, name)] = row[1].strip('"')
        return {name: self._types[(key, name)] for name in names}

    def _select(
        self, source: Source, columns: Sequence[Column], bounds: Sequence[_Bound | None], found: dict[str, str]
    ) -> list[str]:
        items: list[str] = []
        for column, bound in zip(columns, bounds, strict=True):
            if bound is None:
                items.append("null" if column.kind == "id" else f"cast(null as {SQL_TYPES[column.kind]})")
                continue
            sql = self._typed(source, bound, found[column.name])
            items.append(sql)
        return items

    def _typed(self, source: Source, bound: _Bound, sql_type: str) -> str:
        """SQL that reads a column in its canonical type, or NULL when the column is all NULL."""
        column = bound.column
        shown = bound.plain if bound.plain is not None else column.name
        where = f"{source.shown}: column '{shown}'"
        match column.kind:
            case "id":
                if sql_type in INTEGERS or sql_type == "VARCHAR":
                    family, id_type = self._spec.families[column.name], "BIGINT" if sql_type in INTEGERS else "VARCHAR"
                    if self._ledger.id_types.get(family, ("",))[0] != id_type and self._has_values(source, bound):
                        self._ledger.settle_id(family, id_type, where)
                    return f"cast({bound.sql} as BIGINT)" if sql_type in INTEGERS else bound.sql
            case "time":
                if sql_type in ZONED or sql_type in NAIVE:
                    agreed = self._ledger.zone is not None and self._ledger.zone[0] == (sql_type in ZONED)
                    if not agreed and self._has_values(source, bound):
                        self._check_zone(sql_type in ZONED, where)
                    return _microseconds(bound.sql, sql_type)
            case "text":
                if sql_type == "VARCHAR":
                    return bound.sql
            case "integer":
                if sql_type in INTEGERS:
                    return f"cast({bound.sql} as BIGINT)"
            case "number":
                if sql_type in INTEGERS or sql_type in FLOATS:
                    # Adding 0 makes -0.0 a plain 0: they are equal, so which of two copies stays may not show in a single bit.
                    return f"cast({bound.sql} as DOUBLE) + 0.0"
            case "flag":
                if sql_type == "BOOLEAN":
                    return bound.sql
        if sql_type == "NULL" or not self._has_values(source, bound):
            return f"cast(null as {SQL_TYPES.get(column.kind, 'VARCHAR')})" if column.kind != "id" else "null"
        if bound.plain is None:
            raise UsageFault(
                f"{self._spec.mapping.shown}: [columns] {column.name}: the expression gives {sql_type} in {source.shown}; "
                + self._hint(bound, shown, sql_type)
            )
        raise InputRefused(f"{where} is {sql_type}; {self._hint(bound, shown, sql_type)}")

    def _hint(self, bound: _Bound, shown: str, sql_type: str) -> str:
        """What is needed and how to get it: every expression that is named here can be written as it stands."""
        column = bound.column
        value = f"({self._expressions[column.name].text})" if bound.plain is None else self._reference(shown)
        text, whole = sql_type == "VARCHAR", sql_type in INTEGERS | WIDE_INTEGERS
        match column.kind:
            case "id":
                hint = "ids are integers (to int64) or text"
                if sql_type in FLOATS:
                    hint += "; floats lose ids above 2^53 and turn 7 into 7.0: export the column as an integer or text"
                return hint
            case "time" if sql_type.startswith("TIME") and not sql_type.startswith("TIMESTAMP"):
                return "a timestamp is needed, and a time of day lacks its date: export the whole instant"
            case "time":
                needed = "a timestamp is needed"
                moment = value if sql_type in INTEGERS else f"cast({value} as bigint)"
                if sql_type == "DATE":
                    ways = {"": f"cast({value} as timestamp)"}
                elif whole:
                    ways = {
                        "from seconds since 1970": f"to_timestamp({moment})",
                        "from milliseconds": f"cast(epoch_ms({moment}) as timestamptz)",
                        "from microseconds": f"cast(make_timestamp({moment}) as timestamptz)",
                    }
                elif sql_type in FLOATS or sql_type.startswith("DECIMAL"):
                    ways = {"from seconds since 1970": f"to_timestamp(cast({value} as double))"}
                elif text:
                    ways = {"text without a zone is then taken for UTC": f"cast({value} as timestamptz)"}
                else:
                    ways = {}
            case "flag":
                needed = "true or false is needed"
                ways = {"": f"{value} = 'yes'" if text else f"{value} = 1"}
            case _:
                needed, type_ = {
                    "text": ("text", "varchar"),
                    "integer": ("an integer", "bigint"),
                    "number": ("a number", "double"),
                }[column.kind]
                needed += " is needed"
                ways = {"": f"cast({value} as {type_})"}
        if not self._is_mapped:
            return f"{needed}: convert it in the file (the columns file does not map this table)"
        if not ways:
            return f"{needed}: convert it in the file"
        examples = " or ".join(
            f"{column.name} = {json.dumps(way, ensure_ascii=False)}" + (f" ({what})" if what else "") for what, way in ways.items()
        )
        hint = f"{needed}; convert it in the columns file, for example {examples}"
        if column.kind == "time" and sql_type == "DATE":
            hint += (
                ' and, if these are days of UTC, [time] naive = "UTC"; games of one day are then rated in the order of their ids'
            )
        return hint

    def _reference(self, name: str) -> str:
        """A column's name as an expression has to write it: in quotes if it is a word of SQL, or no word."""
        try:
            plain = check_expression(self._database.connection, name, "").columns == (name,)
        except UsageFault:
            plain = False
        return name if plain and name.isidentifier() else quote(name)

    def _damaged(self, source: Source, what: str) -> str:
        """Text in front of DuckDB's own when rows cannot be read: who may be to blame, and what to do."""
        advice = "if the file is damaged, deliver it again"
        if self._expressions:
            advice += f"; if a value is what fails, an expression in {self._spec.mapping.shown} cannot take it"
        return f"{source.shown}: {what} ({advice})"

    def _check_zone(self, zoned: bool, where: str) -> None:
        self._ledger.settle_zone(zoned, where)
        if not zoned and self._spec.mapping.naive is None:
            raise InputRefused(
                f"{where} has stamps without a zone: nobody can tell which instant they mean. If they are UTC, say so in the "
                'columns file:\n[time]\nnaive = "UTC"'
            )

    def _has_values(self, source: Source, bound: _Bound) -> bool:
        """Whether the column holds anything but NULL; an all-NULL column takes the declared type and decides nothing."""
        if source.rows == 0:
            return False
        with failures(source.shown, refuse=self._damaged(source, "the file cannot be read")):
            rows = self._database.connection.execute(
                f"select 1 from read_parquet($path, hive_partitioning = false) where ({bound.sql}) is not null limit 1",
                {"path": literal_path(source.path)},
            ).fetchall()
        return bool(rows)

    def create(self, table: str, time_name: str = "played_us") -> None:
        """Create the empty staging table: file_no, row_no, pool, then the canonical columns (times as microseconds)."""
        pool = "VARCHAR" if self._spec.pool is None else self._ledger.id_type("pool")
        parts = ["file_no BIGINT", "row_no BIGINT", f"pool {pool}"]
        for column in self._spec.columns:
            if column.kind == "id":
                parts.append(f"{column.name} {self._ledger.id_type(self._spec.families[column.name])}")
            else:
                name = time_name if column.kind == "time" else quote(column.name)
                parts.append(f"{name} {SQL_TYPES[column.kind]}")
        self._database.execute(f"create or replace table {table} ({', '.join(parts)})")

    def stage(
        self, table: str, sources: Sequence[Source], progress: Progress | None = None, numbers: Sequence[int] | None = None
    ) -> None:
        """Insert the rows of every file.

        Args:
            table: made by `create`.
            sources: the files, all planned.
            progress: told (files, rows) after each file.
            numbers: the files' numbers; from 0 unless given.

        Raises:
            InputRefused: a file turns out to be damaged, or a value cannot be taken by the mapping.
        """
        done = 0
        for at, source in enumerate(sources):
            number = at if numbers is None else numbers[at]
            names = {name.lower() for name in source.names}
            # A file may have a column of that very name; then the position is counted while the rows stream by.
            row_no = "row_number() over () - 1" if "file_row_number" in names else "file_row_number"
            selects, names_of = self._without_forgotten(source)
            items = ", ".join(selects if self._spec.pool else ["''", *selects])
            with failures(source.shown, refuse=self._damaged(source, "the rows cannot be read")):
                if "file_row_number" in names:
                    self._database.connection.execute("set preserve_insertion_order = true")
                inserted = self._database.connection.execute(
                    f"insert into {table} select {number}, {row_no}, {items} from read_parquet($path, hive_partitioning = false)",
                    {"path": literal_path(source.path), **names_of},
                ).fetchall()
                if "file_row_number" in names:
                    self._database.connection.execute("set preserve_insertion_order = false")
            if inserted[0][0] != source.rows:
                raise InputRefused(
                    f"{source.shown}: its footer says {source.rows} rows, but {inserted[0][0]} could be read: the file is damaged "
                    "or changed while it was read; deliver it again"
                )
            done += source.rows
            if progress is not None:
                progress(at + 1, done)

    def _without_forgotten(self, source: Source) -> tuple[list[str], dict[str, str | int]]:
        """What reads the columns of a file, with the ids of forgotten players replaced, and its parameters.

        Only the different ids are hashed, and what replaces them is passed as parameters: no table holds an id that is to go.
        """
        selects = self._selects[source.shown]
        families = (["pool"] if self._spec.pool else []) + [self._spec.families.get(column.name) for column in self._spec.columns]
        concerned = [at for at, family in enumerate(families) if family == FAMILY and selects[at] != "null"]
        if not self._spec.forgotten or not concerned or not source.rows:
            return selects, {}
        ids = ", ".join(selects[at] for at in concerned)
        digest = sql_digest("id", self._ledger.id_type(FAMILY))
        with failures(source.shown, refuse=self._damaged(source, "the rows cannot be read")):
            found = self._database.connection.execute(
                f"with ids as materialized (select distinct unnest([{ids}]) as id from "
                f"read_parquet($path, hive_partitioning = false)) select id, {digest} from ids "
                f"where id is not null and list_contains($digests, {digest})",
                {
                    "path": literal_path(source.path),
                    "salt": self._spec.forgotten.salt,
                    "digests": [known for known, _ in self._spec.forgotten.names],
                },
            ).fetchall()
        if not found:
            return selects, {}
        names = dict(self._spec.forgotten.names)
        values: dict[str, str | int] = {}
        cases = []
        for number, (player, known) in enumerate(found):
            values |= {f"id_{number}": player, f"name_{number}": names[known]}
            cases.append(f"when $id_{number} then $name_{number}")
        replaced = list(selects)
        for at in concerned:
            replaced[at] = f"case {selects[at]} {' '.join(cases)} else {selects[at]} end"
        return replaced, values


def _microseconds(sql: str, sql_type: str) -> str:
    """SQL for whole microseconds since 1970 by floor; NULL for what is no time: "infinity", "-infinity", before the calendar."""
    if sql_type.endswith("_NS") or "_NS " in sql_type:
        nanoseconds = f"epoch_ns({sql})"
        return f"({nanoseconds} // 1000 - case when {nanoseconds} % 1000 < 0 then 1 else 0 end)"
    return f"case when isfinite({sql}) and epoch_us({sql}) >= {FIRST_US} then epoch_us({sql}) end"


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:30])
    return shown + (", …" if len(names) > 30 else "") if names else "no column"
