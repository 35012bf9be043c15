"""Timeline files encoded by the workers of a cluster: what is left here is to write the rows down as they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from eloreplay.cluster_prepare import read_ipc, write_ipc
from eloreplay.executors import Cluster, SharedFolder, cancel
from eloreplay.tables import ROW_GROUP_ROWS, parquet_writer
from eloreplay.timeline import TimelineWriter


class ClusterTimelineWriter(TimelineWriter):
    """As `TimelineWriter`, with the same bytes, but a worker makes the Parquet file of each chunk.

    Args:
        cluster: who works; what it shares is on the same file system as `folder`.
        folder: where the files go.
        schema: of every file.
        before: files of the timeline that are there already.
    """

    def __init__(self, cluster: Cluster, folder: Path, schema: pa.Schema, before: int = 0) -> None:
        super().__init__(folder.absolute(), schema, before)
        self._team, self._shared = cluster.team, cluster.shared
        self._parts: list[Path] = []
        self._encoding: deque[tuple[list[Path], Future[None]]] = deque()

    def _append(self, path: Path, table: pa.Table, closes: bool) -> None:
        """On the writing thread."""
        part = self._shared.path / f"{path.stem}.{len(self._parts)}.arrow"
        write_ipc(table, part)
        self._parts.append(part)
        if closes:
            parts, self._parts = self._parts, []
            self._encoding.append((parts, self._team.submit(encode_task, self._shared, parts, path)))
        self._settle(self._team.ahead)

    def _settle(self, most: int) -> None:
        """Wait until no more than so many files are being made."""
        while len(self._encoding) > most:
            parts, future = self._encoding.popleft()
            self._team.result(future)
            for part in parts:
                part.unlink()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            super().__exit__(kind, error, trace)
            if kind is None:
                self._settle(0)
        finally:
            cancel([future for _, future in self._encoding])


def encode_task(shared: SharedFolder, parts: Sequence[Path], target: Path) -> None:
    """On a worker: make the Parquet file `target` of its parts, as `TimelineWriter` would; may be done any number of times.

    Raises:
        EnvironmentFault: the worker does not see what we share.
    """
    shared.insist()
    with shared.writing(target) as made:
        tables = map(read_ipc, parts)
        first = next(tables)
        with parquet_writer(made, first.schema) as writer:
            writer.write_table(first, row_group_size=ROW_GROUP_ROWS)
            for table in tables:
                writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
