"""Are two runs equal? Every table, row by row and value by value, floats bit by bit; the first difference as a sentence.

What "equal" means is the contract's: same schema, same rows in the same order, every value exactly. How the timeline is cut into
files does not matter; refused rows are compared without `file` and `row` and in any order; `changes` is left out, for it
compares with the run before. Files with the very same bytes are not decoded, and nothing is ever held in memory whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from eloreplay.differences import KEYS, Difference, Unreadable, opened, same_bytes, shown, shown_pair
from eloreplay.errors import EnvironmentFault
from eloreplay.publish import read_manifest
from eloreplay.queries import DEFAULT_MEMORY, Database, literal_path, quote
from eloreplay.sidebyside import BATCH_ROWS, compare_ordered

#: The tables in the order in which they are compared; any other Parquet file of a run comes after them.
TABLES = ("timeline", "players", "leaderboard", "awards", "calibration", "summary", "rejected", "rejected_awards")
#: Not compared: what differs by its nature.
LEFT_OUT = frozenset({"changes"})
#: Compared without their place in the input, and in any order.
UNORDERED = frozenset({"rejected", "rejected_awards"})
PLACE = ("file", "row")
#: Keys of the manifests that must agree.
COUNTS = ("rows_read", "bins", "award_bins")


def compare_runs(left: Path, right: Path, names: tuple[str, str] = ("the first run", "the second run")) -> Difference | None:
    """The first difference of two run folders, or None when they are equal.

    Args:
        left: a run's folder.
        right: another run's folder.
        names: what the sentence calls the two.

    Raises:
        EnvironmentFault: a manifest or a file may not be read; memory or disk, for a very long list of refused rows.
    """
    for table in _tables(left, right):
        try:
            found = _compare_table(table, left, right, names)
        except Unreadable as error:
            found = Difference(table, str(error))
        if found is not None:
            return found
    return _compare_counts(read_manifest(left), read_manifest(right), names)


def _tables(left: Path, right: Path) -> list[str]:
    """All tables of both runs: the known ones first, in their order."""
    present = {path.stem for run in (left, right) for path in run.glob("*.parquet")} | {"timeline"}
    known = [name for name in TABLES if name in present]
    return known + sorted(present - set(TABLES) - LEFT_OUT)


def _files(run: Path, table: str) -> list[Path]:
    """A table's files in order."""
    if table == "timeline":
        folder = run / "timeline"
        return sorted(path for path in folder.iterdir() if path.suffix == ".parquet") if folder.is_dir() else []
    path = run / f"{table}.parquet"
    return [path] if path.is_file() else []


def _compare_table(table: str, left: Path, right: Path, names: tuple[str, str]) -> Difference | None:
    sides = _files(left, table), _files(right, table)
    missing = [name for name, files in zip(names, sides, strict=True) if not files]
    if missing:
        return Difference(table, f"the table is missing in {' and in '.join(missing)}")
    found = _compare_schemas(table, *sides, names)
    if found is not None:
        return found
    if table in UNORDERED:
        return None if same_bytes(sides[0][0], sides[1][0]) else _compare_unordered(table, sides[0][0], sides[1][0], names)
    return compare_ordered(table, *sides, names)


# ---------------------------------------------------------------- schema


def _compare_schemas(table: str, left: list[Path], right: list[Path], names: tuple[str, str]) -> Difference | None:
    """Every file of both sides must have the schema of the first: names, types, and whether a column may be NULL, in order."""
    wanted = _fields(_schema(left[0]))
    for side, path in [*((0, path) for path in left[1:]), *((1, path) for path in right)]:
        found = _fields(_schema(path))
        for number, pair in enumerate(zip_longest(wanted, found, fillvalue=("", "missing"))):
            if pair[0] != pair[1]:
                return Difference(
                    table,
                    f"the schema differs: column {number + 1} is {pair[0][1]} in {names[0]} ({left[0].name}) and {pair[1][1]} in "
                    f"{names[side]} ({path.name})",
                    column=pair[0][0] or pair[1][0],
                )
    return None


def _fields(schema: pa.Schema) -> list[tuple[str, str]]:
    """Each column's name, and all that must agree about it."""
    return [(field.name, f"{field.name!r} {field.type}" + ("" if field.nullable else " not null")) for field in schema]


def _schema(path: Path) -> pa.Schema:
    with opened(path) as file:
        return file.schema_arrow


# ---------------------------------------------------------------- tables in any order


def _compare_unordered(table: str, left: Path, right: Path, names: tuple[str, str]) -> Difference | None:
    """Both sides as multisets of rows without their place: counted in DuckDB, which spills."""
    columns = [name for name in _schema(left).names if name not in PLACE]
    with tempfile.TemporaryDirectory(prefix="eloreplay-compare-") as scratch:
        database = Database(None, threads=2, memory_limit=DEFAULT_MEMORY, spill=Path(scratch) / "spill")
        try:
            for view, path in (("left_rows", left), ("right_rows", right)):
                stands = literal_path(path).replace("'", "''")
                database.execute(
                    f"create view {view} as select {', '.join(map(quote, columns))} "
                    f"from read_parquet('{stands}', hive_partitioning = false)"
                )
            rows = database.arrow("unpaired_rows").to_pylist()
        except EnvironmentFault:
            _insist_readable(left)
            _insist_readable(right)
            raise
        finally:
            database.close()
    for row in rows:
        surplus = row["surplus"]
        text = f"{names[surplus < 0]} has this row {abs(surplus)} times more than {names[surplus > 0]}: " + ", ".join(
            f"{name} {shown(row[name])}" for name in columns if row[name] is not None
        )
        key = {name: row[name] for name in KEYS[table] if name in row}
        return Difference(table, text, key=key)
    return None


def _insist_readable(path: Path) -> None:
    """Decode a file, only to say that it is the file which cannot be read."""
    with opened(path) as file:
        for _ in file.iter_batches(batch_size=BATCH_ROWS):
            pass


# ---------------------------------------------------------------- counts


def _compare_counts(left: dict[str, Any], right: dict[str, Any], names: tuple[str, str]) -> Difference | None:
    for key in COUNTS:
        for name, a, b in _leaves(key, left.get(key), right.get(key)):
            if a != b:
                return Difference("manifest", f"{name} is {shown_pair(a, b, names)}", column=name, left=a, right=b)
    return None


def _leaves(name: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    """The single values of two nested dicts, side by side, under names such as `bins.rejected.self_play`."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys([*left, *right]):
            yield from _leaves(f"{name}.{key}", left.get(key), right.get(key))
    else:
        yield name, left, right
