"""Ratings as they stood at the end of a chunk, kept so that a later run can go on from there.

Most chunks keep only the players whose record they changed ("delta"); now and then all of them ("full"), so that a state is put
together from one full file and the deltas after it, and never from more than about twice a whole state.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.chunks import FOLD, Chunk
from eloreplay.kernel import PLAYER_STATE
from eloreplay.tables import read_kept, write_parquet


def state_path(run: Path, chunk: Chunk) -> Path:
    """Where a chunk's state is."""
    return run / FOLD / "state" / f"{chunk.stem}.parquet"


class Checkpoints:
    """Decides what a chunk keeps, and gathers which players it touched.

    Args:
        players: length of the state.
        since_full: rows of the deltas since the last full state; None when there is no full one to start from.
    """

    def __init__(self, players: int, since_full: int | None) -> None:
        self._touched = np.zeros(players, np.bool_)
        self._since_full = since_full

    def touch(self, *players: NDArray[Any]) -> None:
        """Note players (positions in the state) whose record has changed."""
        for some in players:
            self._touched[some] = True

    def close(self, state: NDArray[Any]) -> tuple[str, NDArray[np.int32], NDArray[Any]]:
        """End a chunk: what it keeps ("full" or "delta"), whose, and their records; copies, for the state moves on."""
        at = np.flatnonzero(self._touched)
        seen = int(np.count_nonzero(state["seen"]))
        kind = "delta"
        if self._since_full is None or self._since_full + at.size > seen:
            kind, at, self._since_full = "full", np.flatnonzero(state["seen"]), 0
        else:
            self._since_full += at.size
        self._touched[:] = False
        return kind, at.astype(np.int32), state[at]


def write_state(path: Path, at: NDArray[np.int32], records: NDArray[Any]) -> None:
    """Write the records (`PLAYER_STATE` `(n,)`) of the players at positions `at` (int32 `(n,)`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns: dict[str, Any] = {"player_index": pa.array(at)}
    columns |= {name: pa.array(np.ascontiguousarray(records[name])) for name in PLAYER_STATE.names or ()}
    write_parquet(pa.table(columns), path)


def restore(run: Path, chunks: Sequence[Chunk], state: NDArray[Any]) -> int | None:
    """Bring `state` (as it was before the first game) to the end of the last of `chunks`.

    Args:
        run: the run that keeps the files.
        chunks: all chunks from the first one on, in order.
        state: `PLAYER_STATE` `(n_players,)`, written.

    Returns:
        Rows of the deltas since the full state that was used; None when there was none.

    Raises:
        EnvironmentFault: a file is missing or damaged.
    """
    kept = [chunk for chunk in chunks if chunk.state is not None]
    full = max((number for number, chunk in enumerate(kept) if chunk.state == "full"), default=None)
    for chunk in kept[full or 0 :]:
        table = read_kept(state_path(run, chunk))
        at = table["player_index"].to_numpy()
        for name in PLAYER_STATE.names or ():
            state[name][at] = table[name].to_numpy()
    return None if full is None else sum(chunk.state_rows for chunk in kept[full + 1 :])
