"""A published run as something to be sent: its tables, their files and what tells that a file has been sent before."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault
from eloreplay.publish import read_manifest

TIMELINE = "timeline"
BATCH_ROWS = 64 * 1024

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Part:
    """One Parquet file of a run.

    Attributes:
        table: the table it belongs to.
        name: path inside the run's folder.
        path: where it is.
        sha256: of its bytes. Ratings stand in the file, so that files of equal digest hold equal rows; the digest of a chunk in the
            manifest is of what was played in it, and stays the same when an earlier game moves every rating.
        rows: rows, by the footer.
        first_seq: of a timeline file the `seq` of its first row, else 0.
    """

    table: str
    name: str
    path: Path
    sha256: str
    rows: int
    first_seq: int = 0

    @property
    def key(self) -> tuple[str, str, int]:
        """What a part that was sent before is known by."""
        return self.table, self.sha256, self.first_seq


@dataclass(frozen=True)
class RunFiles:
    """A run that is going to be sent.

    Attributes:
        folder: of the run.
        manifest: its content.
        parts: its Parquet files; those of the timeline first, in order.
        schemas: table to its columns.
    """

    folder: Path
    manifest: dict[str, Any]
    parts: list[Part]
    schemas: dict[str, pa.Schema]

    @property
    def name(self) -> str:
        """Number of the run."""
        return self.folder.name

    @property
    def pool(self) -> bool:
        """Whether there is a column of the ladder."""
        return "pool" in self.schemas[TIMELINE].names

    def of(self, table: str) -> list[Part]:
        """The files of a table, in order."""
        return [part for part in self.parts if part.table == table]

    def facts(self) -> dict[str, Any]:
        """The one row that says which run a copy holds: what of the manifest is no path of this machine."""
        rules = self.manifest.get("rules", {})
        return {
            "run": self.name,
            "kind": self.manifest.get("kind", "backfill"),
            "as_of": self.manifest.get("as_of"),
            "made_at": self.manifest.get("made_at"),
            "rules": rules.get("name"),
            "rules_digest": rules.get("digest"),
            "eloreplay": self.manifest.get("versions", {}).get("eloreplay"),
            "rows_read": self.manifest.get("rows_read"),
            "rated_games": sum(part.rows for part in self.of(TIMELINE)),
            "players": sum(part.rows for part in self.of("players")),
        }


def run_files(folder: Path, progress: Progress) -> RunFiles:
    """Look through a published run; every file is read once, for its digest.

    Raises:
        EnvironmentFault: a file is missing, damaged or may not be read.
    """
    manifest = read_manifest(folder)
    paths = [(TIMELINE, path) for path in sorted((folder / TIMELINE).glob("*.parquet"))]
    paths += [(path.stem, path) for path in sorted(folder.glob("*.parquet"))]
    if not paths or paths[0][0] != TIMELINE:
        raise EnvironmentFault(f"{folder}: the published run has no timeline; verify says what else is missing")
    total = sum(path.stat().st_size for _, path in paths)
    parts: list[Part] = []
    schemas: dict[str, pa.Schema] = {}
    done, seq = 0, 1
    for table, path in paths:
        progress("digests", done, total)
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            with pq.ParquetFile(path) as file:
                rows, schema = file.metadata.num_rows, file.schema_arrow.remove_metadata()
        except (OSError, pa.ArrowException) as error:
            raise EnvironmentFault(f"{path}: the published file cannot be read: {_first_line(error)}") from None
        if schemas.setdefault(table, schema) != schema:
            raise EnvironmentFault(f"{path}: its columns are not those of the timeline's first file: the run is damaged")
        parts.append(Part(table, str(path.relative_to(folder)), path, digest, rows, seq if table == TIMELINE else 0))
        seq += rows if table == TIMELINE else 0
        done += path.stat().st_size
    return RunFiles(folder, manifest, parts, schemas)


def batches(parts: list[Part], sent: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    """The rows of files, a batch at a time, so that no file has to be in memory; `sent` is told the rows of each batch."""
    for part in parts:
        try:
            with pq.ParquetFile(part.path) as file:
                yield from _counted(file.iter_batches(BATCH_ROWS), sent)
        except (OSError, pa.ArrowException) as error:
            raise EnvironmentFault(f"{part.path}: the published file cannot be read: {_first_line(error)}") from None


def _counted(found: Iterator[pa.RecordBatch], sent: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    for batch in found:
        yield batch.replace_schema_metadata(None)
        sent(batch.num_rows)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
