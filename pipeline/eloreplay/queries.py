"""Finds `sql/`, owns the DuckDB connection and its settings, and turns DuckDB's failures into ours.

A query is a file in `sql/`, named after its result; values reach it only as `$parameters` or as small tables.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from eloreplay.errors import EnvironmentFault, InputRefused, UsageFault

DEFAULT_MEMORY = "1GB"
#: DuckDB 2.0.1 takes two branches of a UNION for one when they differ only in which of two joins of the same table a column comes
#: from (winners' and losers' aliases): wrong rows. tests/oracle has the least cases.
SETTINGS = ("set TimeZone = 'UTC'", "set enable_progress_bar = false", "set disabled_optimizers = 'common_subplan'")
#: Rules that several queries share, made once a connection.
MACROS = ("utc_day", "is_dated")


@functools.cache
def sql_folder() -> Path:
    """The folder of the queries: inside the installed package, else beside `pipeline/` in a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "sql", here.parent.parent / "sql"):
        if folder.is_dir() and any(folder.glob("*.sql")):
            return folder
    raise EnvironmentFault(f"the queries are missing: neither {here / 'sql'} nor {here.parent.parent / 'sql'} has them")


@functools.cache
def sql_text(name: str) -> str:
    """Text of `sql/NAME.sql`, without a closing semicolon."""
    return (sql_folder() / f"{name}.sql").read_text(encoding="utf-8").strip().rstrip(";")


class Database:
    """One DuckDB database with the settings every query here relies on.

    The session's zone is UTC whatever the host's; nothing is ever installed or fetched; memory is bounded and spills to `spill`.
    """

    def __init__(self, path: Path | None, *, threads: int, memory_limit: str, spill: Path) -> None:
        # Absolute, for DuckDB takes a leading "~" for the home folder.
        path, spill = None if path is None else path.absolute(), spill.absolute()
        config: dict[str, Any] = {
            "threads": threads,
            # It goes with the run: what a crash of the machine leaves of it is cleared away, so nothing here waits for the disk.
            "fsync_mode": "NONE",
            "temp_directory": str(spill),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with failures("the working database"):
            self.connection = duckdb.connect(":memory:" if path is None else str(path), config=config)
        try:
            self.connection.execute("set memory_limit = $size", {"size": memory_limit})
        except duckdb.Error as error:
            self.connection.close()
            raise UsageFault(f"--memory-limit {memory_limit}: {first_line(error)}") from None
        with failures("the working database"):
            self.connection.execute("pragma disable_checkpoint_on_shutdown")
            self._begin()

    def _begin(self) -> None:
        """What every connection needs of its own."""
        for setting in SETTINGS:
            self.connection.execute(setting)
        for macro in MACROS:
            self.connection.execute(sql_text(macro))

    @contextmanager
    def another(self) -> Iterator[Database]:
        """The same database for another thread: tables and views are shared, what is registered is not."""
        other = copy.copy(self)
        with failures("the working database"):
            other.connection = self.connection.cursor()
            other._begin()
        try:
            yield other
        finally:
            other.connection.close()

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        self.connection.close()

    def arrow(self, name: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """The result of `sql/NAME.sql` as an Arrow table, in the query's order."""
        return self.arrow_of(sql_text(name), parameters)

    def arrow_of(self, text: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """The result of a query's text as an Arrow table."""
        with failures("a query"):
            relation = self.connection.sql(text, params=dict(parameters)) if parameters else self.connection.sql(text)
            return relation.to_arrow_table()

    def rows(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """The result of `sql/NAME.sql` as tuples, for results of a few rows."""
        with failures("a query"):
            return self.connection.execute(sql_text(name), dict(parameters or {})).fetchall()

    def create_table(self, table: str, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Create the table `table` from the result of `sql/NAME.sql`."""
        self.execute(f"create or replace table {table} as {sql_text(name)}", parameters)

    def insert(self, table: str, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Add the result of `sql/NAME.sql` to the table `table`, column by column."""
        self.execute(f"insert into {table} {sql_text(name)}", parameters)

    def create_view(self, view: str, name: str) -> None:
        """Create the view `view` of `sql/NAME.sql` (a view takes no parameters: it reads small tables instead)."""
        self.execute(f"create or replace view {view} as {sql_text(name)}")

    def put(self, table: str, content: pa.Table) -> None:
        """Create the table `table` from Arrow."""
        self.connection.register("eloreplay_put", content)
        self.execute(f"create or replace table {table} as select * from eloreplay_put")
        self.connection.unregister("eloreplay_put")

    def execute(self, text: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement."""
        with failures("a query"):
            self.connection.execute(text, dict(parameters or {}))

    @contextmanager
    def registered(self, name: str, content: pa.Table) -> Iterator[None]:
        """Show an Arrow table to queries under `name` for the length of the block."""
        self.connection.register(name, content)
        try:
            yield
        finally:
            self.connection.unregister(name)


def quote(name: str) -> str:
    """A column's name as an SQL identifier, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def literal_path(path: Path) -> str:
    """A path that DuckDB's file functions take literally: their wildcards are bracketed away."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(path.absolute()))


def all_columns(types: Mapping[str, str]) -> str:
    """`*` with some columns cast: a column that was all NULL when it was stored has no type of its own yet."""
    return "* replace (" + ", ".join(f"cast({name} as {sql_type}) as {name}" for name, sql_type in types.items()) + ")"


@contextmanager
def failures(what: str, refuse: str | None = None) -> Iterator[None]:
    """Turn DuckDB's errors into ours.

    Args:
        what: what was being done, for messages about the machine.
        refuse: when given, an error that is not the machine's is the input's: `InputRefused` with this text in front.

    Raises:
        EnvironmentFault: disk full, out of memory, permission.
        InputRefused: see `refuse`.
        KeyboardInterrupt: the query was interrupted.
    """
    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from None
        raise
    except duckdb.OutOfMemoryException as error:
        raise EnvironmentFault(
            f"out of memory or of room to spill in {what}: {first_line(error)}; raise --memory-limit, lower --threads "
            "or free disk space"
        ) from None
    except duckdb.Error as error:
        text = first_line(error)
        if "No space left" in str(error):
            raise EnvironmentFault(f"the disk is full: {text}; nothing was published: free some space and run again") from None
        if any(sign in str(error) for sign in ("Could not write", "Permission denied", "Read-only file")):
            raise EnvironmentFault(f"{what}: {text}") from None
        if refuse is not None:
            raise InputRefused(f"{refuse}: {text}") from None
        raise EnvironmentFault(f"{what} failed: {text}") from None


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is how DuckDB passes on a Ctrl-C that came during a query (it takes the KeyboardInterrupt for itself)."""
    return isinstance(error, duckdb.InterruptException) or (isinstance(error, RuntimeError) and "interrupted" in str(error).lower())


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
