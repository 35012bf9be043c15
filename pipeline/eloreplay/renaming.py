"""One player's id replaced in the files of a folder: Parquet files by their columns, JSON by its keys, everything else left alone.

A published file is never written to: the new one takes its place by a rename, and other names of the old one keep what it had.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault
from eloreplay.rowstore import link
from eloreplay.store import sync_folder
from eloreplay.tables import ROW_GROUP_ROWS, parquet_writer

#: Columns (and keys of JSON) that hold ids of players, whatever the table.
ID_COLUMN = re.compile(r"(.*_)?(player_id|winner_id|loser_id|opponent_id|alias_id)")
#: Keys of a manifest under which names of columns, rules and files stand, which may well be called like a player.
NO_IDS = ("input_options", "inputs", "options", "rules", "versions")
#: Tables that stand in the order of their players; others in that of their rows.
ORDERED = {
    "players.parquet": ("pool", "player_id"),
    "changes.parquet": ("pool", "player_id"),
    "fold/aliases.parquet": ("alias_id", "player_id"),
    "fold/excluded.parquet": ("player_id",),
    "fold/start_ratings.parquet": ("pool", "player_id", "rating", "games", "experience"),
}


@dataclass
class Renaming:
    """What replaces what, and what was touched so far.

    Attributes:
        player: the id; text or an integer, as the ids of the folder are.
        name: the pseudonym, of the same type.
        scratch: folder on the same file system, for what is not yet in its place.
        files: files that held the id.
        rows: rows of Parquet files in which it stood.
    """

    player: str | int
    name: str | int
    scratch: Path
    files: int = 0
    rows: int = 0
    _done: dict[tuple[int, int], Path] = field(default_factory=dict)

    def rows_with(self, path: Path) -> int:
        """Rows of a Parquet file in which the id stands.

        Raises:
            EnvironmentFault: the file cannot be read.
        """
        found = 0
        with _opened(path) as file:
            columns = self._columns(file.schema_arrow)
            if not columns:
                return 0
            for group in range(file.num_row_groups):
                found += self._hits(file.read_row_group(group, columns=columns), columns)
        return found

    def rewrite(self, source: Path, target: Path, order: tuple[str, ...] = ()) -> bool:
        """Write a Parquet file without the id to `target`, row group by row group; False when it does not hold it.

        A file that has been rewritten under another name already is linked.
        """
        status = source.stat()
        known = self._done.get((status.st_dev, status.st_ino))
        if known is not None and known.exists():
            partial = self._partial(target)
            link(known, partial)
            os.replace(partial, target)
            self.files += 1
            return True
        rows = self.rows_with(source)
        if not rows:
            return False
        partial = self._partial(target)
        with _opened(source) as file:
            schema = file.schema_arrow
            columns = self._columns(schema)
            metadata = {key: value for key, value in (file.metadata.metadata or {}).items() if key != b"ARROW:schema"}
            with parquet_writer(partial, schema) as writer:
                if order:
                    keys = [(name, "ascending") for name in order if name in schema.names]
                    table = self._replaced(file.read(), columns).sort_by(keys)
                    writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
                else:
                    for group in range(file.num_row_groups):
                        writer.write_table(self._replaced(file.read_row_group(group), columns), row_group_size=ROW_GROUP_ROWS)
                writer.add_key_value_metadata(metadata)
        sync_folder(partial)
        os.replace(partial, target)
        self._done[(status.st_dev, status.st_ino)] = target
        self.files += 1
        self.rows += rows
        return True

    def in_json(self, content: Any, within: bool = False) -> Any:
        """A JSON value without the id: values under keys of `ID_COLUMN`, and everything below `board_entries`, `board_exits`."""
        if isinstance(content, dict):
            return {
                key: value
                if key in NO_IDS
                else self.in_json(value, within or key in ("board_entries", "board_exits") or bool(ID_COLUMN.fullmatch(key)))
                for key, value in content.items()
            }
        if isinstance(content, list):
            return [self.in_json(value, within) for value in content]
        if within and isinstance(content, str):
            # With ladders the board's moves are written as "('ladder', 'player')".
            if content == str(self.player):
                return str(self.name)
            ending = f", {self.player!r})"
            return content.removesuffix(ending) + f", {self.name!r})" if content.endswith(ending) else content
        if within and type(content) is type(self.player) and content == self.player:
            return self.name
        return content

    def in_message(self, text: str) -> str:
        """A message without the id: as a word of its own; an integer only where a player is spoken of."""
        if isinstance(self.player, str):
            return re.sub(rf"(?<![\w-]){re.escape(self.player)}(?![\w-])", str(self.name).replace("\\", r"\\"), text)
        return re.sub(rf"\b(player_id|alias_id|alias|through) {self.player}\b", rf"\1 {self.name}", text)

    def json_file(self, path: Path) -> bool:
        """Replace the id in a JSON file; False when it does not hold it or is none."""
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        after = self.in_json(before)
        if after == before:
            return False
        partial = self._partial(path)
        partial.write_text(json.dumps(after, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        shutil.copymode(path, partial)
        sync_folder(partial)
        os.replace(partial, path)
        self.files += 1
        return True

    def _partial(self, path: Path) -> Path:
        """Where a file is made before it takes its place; whatever a killed process leaves there is cleared by the next run."""
        partial = self.scratch / f"new-{path.name}"
        partial.unlink(missing_ok=True)
        return partial

    def _columns(self, schema: pa.Schema) -> list[str]:
        plain = {"text": pa.types.is_string, "large": pa.types.is_large_string, "whole": pa.types.is_integer}
        return [
            one.name
            for one in schema
            if ID_COLUMN.fullmatch(one.name)
            and any(is_kind(one.type) for is_kind in plain.values())
            # Refused rows show everything as text, also ids that are integers.
            and not (isinstance(self.player, str) and pa.types.is_integer(one.type))
        ]

    def _is_it(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        wanted = self.player if pa.types.is_integer(column.type) else str(self.player)
        return pc.fill_null(pc.equal(column, pa.scalar(wanted, column.type)), False)

    def _hits(self, table: pa.Table, columns: list[str]) -> int:
        hit = pa.chunked_array([pa.array([False] * 0, pa.bool_())])
        for number, name in enumerate(columns):
            hit = self._is_it(table[name]) if number == 0 else pc.or_(hit, self._is_it(table[name]))
        return int(pc.sum(hit).as_py() or 0)

    def _replaced(self, table: pa.Table, columns: list[str]) -> pa.Table:
        for name in columns:
            column = table[name]
            new = self.name if pa.types.is_integer(column.type) else str(self.name)
            at = table.schema.get_field_index(name)
            replaced = pc.if_else(self._is_it(column), pa.scalar(new, column.type), column)
            table = table.set_column(at, table.schema.field(at), replaced)
        return table


class _opened:  # noqa: N801
    """A Parquet file; what cannot be read is said with its path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> pq.ParquetFile:
        try:
            self._stream = pa.OSFile(str(self._path), "rb")
            self._file = pq.ParquetFile(self._stream, pre_buffer=False)
        except (OSError, pa.ArrowException) as error:
            text = (str(error).strip().splitlines() or [""])[0]
            raise EnvironmentFault(f"{self._path}: cannot be read, so nobody can say whom it names: {text}") from None
        return self._file

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self._stream.close()
