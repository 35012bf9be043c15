"""Stretches prepared by the workers of a cluster, from the stored rows on storage that all machines share.

A backfill writes the rows of every chunk before it rates one, so a worker needs nothing else than these files, the small tables
that `sql/judged.sql` looks things up in, and the players' positions. It puts them before the very same queries (`prepare`) in a
database of its own and leaves the arrays as a file; the kernel takes the files in their order. What a worker has not finished,
another begins anew.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.chunks import Chunk
from eloreplay.executors import Cluster, SharedFolder, cancel
from eloreplay.games import Intake
from eloreplay.instants import BEGINNING_US
from eloreplay.prepare import Recent, Stretch, prepare
from eloreplay.queries import Database, all_columns
from eloreplay.rowstore import files_sql, rows_path
from eloreplay.rules import Ruleset
from eloreplay.tables import write_parquet

#: Tables of the working database that preparing reads, beside the rows.
TABLES = ("aliases", "excluded", "known_modes", "settings", "rule_versions", "player_index")
#: What a staged row has; a stored one has more.
ROW = (
    "file_no, row_no, pool, game_id, played_us, winner_id, loser_id, mode, cube, match_length, result, ended_by, is_draw, voided, "
    "revision, advantage, weight"
)
_JOB = "prepare.job"


@dataclass(frozen=True)
class _Job:
    """What all tasks of a run have in common.

    `staged`: how the columns of stored rows are read.
    """

    ruleset: Ruleset
    players: int
    memory_limit: str
    staged: str


class Preparation:
    """Prepares stretches on a cluster.

    Args:
        cluster: who works.
        database: as `games.open_door` left it, with `player_index`.
        ruleset: the rules.
        intake: what came through the door: its types of ids.
        run: the run's folder, in which the rows of `chunks` stand.
        chunks: those with rated games, in order.
        players: length of the state.
    """

    def __init__(
        self,
        cluster: Cluster,
        database: Database,
        ruleset: Ruleset,
        intake: Intake,
        run: Path,
        chunks: Sequence[Chunk],
        players: int,
    ) -> None:
        self._team, self._shared, self._run, self._chunks = cluster.team, cluster.shared, run.absolute(), chunks
        self._window_us = ruleset.window_us or 0
        ids = {"pool": intake.pool_type, "game_id": intake.game_id_type}
        ids |= dict.fromkeys(("winner_id", "loser_id"), intake.player_id_type)
        for table in TABLES:
            write_parquet(database.arrow_of(f"select * from {table}"), cluster.shared.path / f"{table}.parquet")
        cluster.shared.keep(_JOB, _Job(ruleset, players, cluster.memory_limit, all_columns(ids)))

    def stretches(self, spans: Iterable[tuple[int, int]]) -> Generator[Stretch]:
        """The stretches of these half-open intervals (microseconds), in their order; the next ones are being prepared meanwhile.

        Raises:
            EnvironmentFault: the cluster or the storage is in the way.
        """
        wanted = iter(spans)
        waiting: deque[tuple[Path, Future[dict[str, float]]]] = deque()

        def hand_out() -> None:
            while len(waiting) < self._team.ahead and (span := next(wanted, None)) is not None:
                target = self._shared.path / f"{span[0]}.arrow"
                waiting.append((target, self._team.submit(prepare_task, self._shared, self._files(*span), *span, target)))

        try:
            hand_out()
            while waiting:
                target, future = waiting.popleft()
                elapsed_s = self._team.result(future)
                stretch = _load(target, elapsed_s)
                target.unlink()
                hand_out()
                yield stretch
        finally:
            cancel([future for _, future in waiting])

    def _files(self, from_us: int, to_us: int) -> list[Path]:
        """The stored rows of a stretch and of what its counting window reaches back to."""
        since_us = _reach_us(from_us, self._window_us)
        return [rows_path(self._run, chunk) for chunk in self._chunks if chunk.from_us < to_us and since_us < chunk.to_us]


def prepare_task(shared: SharedFolder, rows: Sequence[Path], from_us: int, to_us: int, target: Path) -> dict[str, float]:
    """On a worker: prepare the games of `[from_us, to_us)` into the file `target`; may be done any number of times.

    Args:
        shared: what we share.
        rows: the files of stored rows that hold the games and those before that the counting window can reach.
        from_us: first instant, microseconds.
        to_us: end, microseconds, not included.
        target: where the stretch goes.

    Returns:
        Seconds by step.

    Raises:
        EnvironmentFault: the worker does not see what we share, or its disk or memory is in the way.
    """
    shared.insist()
    job: _Job = shared.kept(_JOB)
    # What spills goes to the worker's own disk. Tables and not views, for DuckDB's plans need to know how much is in each.
    with tempfile.TemporaryDirectory(prefix="eloreplay-") as spill:
        database = Database(None, threads=1, memory_limit=job.memory_limit, spill=Path(spill))
        try:
            for table in TABLES:
                there = files_sql([shared.path / f"{table}.parquet"])
                database.execute(f"create table {table} as select * from read_parquet({there}, hive_partitioning = false)")
            database.execute(
                f"create table staged as select {ROW} from (select {job.staged} from read_parquet({files_sql(rows)}, "
                "hive_partitioning = false)) where standing = 'stays' and played_us >= $from_us and played_us < $to_us",
                {"from_us": _reach_us(from_us, job.ruleset.window_us or 0), "to_us": to_us},
            )
            for view in ("judged", "rule_inputs", "rule_terms"):
                database.create_view(view, view)
            before = _reached(database, from_us, job.ruleset.window_us)
            stretch = prepare(database, job.ruleset, from_us, to_us, job.players, before)
        finally:
            database.close()
    with shared.writing(target) as part:
        _save(stretch, part)
    return stretch.elapsed_s


def _reach_us(from_us: int, window_us: int) -> int:
    return max(from_us - window_us, BEGINNING_US)


def _reached(database: Database, from_us: int, window_us: int | None) -> Recent:
    """The rated games before a stretch that its counting window can reach."""
    if window_us is None:
        return Recent.nothing()
    rows = database.arrow("reached_games", {"from_us": _reach_us(from_us, window_us), "to_us": from_us})
    return Recent(
        np.array(rows["played_us"].to_numpy(), np.int64),
        np.array(rows["winner_index"].to_numpy(), np.int32),
        np.array(rows["loser_index"].to_numpy(), np.int32),
    )


def _arrays(stretch: Stretch) -> dict[str, NDArray[Any]]:
    """The arrays of a stretch, those of two rows as two."""
    found: dict[str, NDArray[Any]] = {}
    for field in fields(stretch):
        value = getattr(stretch, field.name)
        if isinstance(value, np.ndarray):
            found |= {field.name: value} if value.ndim == 1 else {f"{field.name}.{side}": value[side] for side in (0, 1)}
    return found


def _save(stretch: Stretch, path: Path) -> None:
    """Write a stretch: its rows, and every array as a column beside them."""
    table = stretch.rows
    for name, values in _arrays(stretch).items():
        table = table.append_column(f"array {name}", pa.array(values))
    write_ipc(table, path)


def _load(path: Path, elapsed_s: dict[str, float]) -> Stretch:
    """A stretch from its file; without `trailing`, for each is prepared by itself."""
    table = read_ipc(path)
    arrays = {name.removeprefix("array "): table[name] for name in table.schema.names if name.startswith("array ")}

    def array(name: str) -> NDArray[Any]:
        if name in arrays:
            # Copied, for what Arrow hands out is read-only, which would be another signature of the kernel.
            return np.array(arrays[name].to_numpy())
        return np.array([arrays[f"{name}.{side}"].to_numpy() for side in (0, 1)])

    others = {"rows", "recent", "trailing", "elapsed_s"}
    return Stretch(
        rows=table.select([name for name in table.schema.names if not name.startswith("array ")]),
        recent=array("recent") if "recent.0" in arrays else None,
        trailing=Recent.nothing(),
        elapsed_s=elapsed_s,
        **{field.name: array(field.name) for field in fields(Stretch) if field.name not in others},
    )


def write_ipc(table: pa.Table, path: Path) -> None:
    """Write an Arrow table as it is in memory, lightly compressed: it is read once, soon, perhaps over a network."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)


def read_ipc(path: Path) -> pa.Table:
    """What `write_ipc` wrote, in memory."""
    with pa.OSFile(str(path), "rb") as file, pa.ipc.open_file(file) as reader:
        return reader.read_all()


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
