"""What every run has, a whole one and a night: its options, its clock, its result."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eloreplay.errors import EnvironmentFault
from eloreplay.publish import BoardOptions
from eloreplay.queries import DEFAULT_MEMORY

#: Bytes a run needs on the disk for each row it reads (working database, spill, timeline and stored rows, measured, with some
#: room), and a base.
BYTES_A_ROW, BYTES_A_RUN = 200, 64 << 20


@dataclass(frozen=True)
class RunOptions:
    """How a run works; none of it can change a rating.

    Attributes:
        chunk: "auto" (months, the last ones in days), "month", "week" or "day".
        threads: of DuckDB.
        memory_limit: of DuckDB, as it writes it ("1GB").
        max_rejected: largest share of refused rows that is still published.
        keep: published runs that are kept, the present one included.
        study: whether the run is studied by slices; without, `calibration` has only the curve of all games.
        board: who stands on the leaderboard.
    """

    chunk: str = "auto"
    threads: int = 2
    memory_limit: str = DEFAULT_MEMORY
    max_rejected: float = 0.01
    keep: int = 3
    study: bool = True
    board: BoardOptions = field(default_factory=BoardOptions)


@dataclass(frozen=True)
class RunResult:
    """A published run: where it stands and what its manifest says."""

    folder: Path
    manifest: dict[str, Any]


@contextlib.contextmanager
def full_disk_in_words(out: Path) -> Iterator[None]:
    """Whoever meets the end of the disk, Python or Arrow, the message says where."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC and "No space left" not in str(error):
            raise
        raise EnvironmentFault(
            f"{out}: the disk is full (No space left on device); nothing was published: free some space and run again"
        ) from None


class Clock:
    """Seconds by step of a run."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """The step that ends now took the time since the last lap."""
        now = time.perf_counter()
        self._laps[name] = self._laps.get(name, 0.0) + now - self._last
        self._last = now

    def timings(self, fold: dict[str, float]) -> dict[str, float]:
        """Seconds: `input`, `storing`, `rating`, `study`, `tables`, their `total`; `other` is what no step claims.

        What the fold did is beside them and may add up to more than `rating`: the next games are prepared and the last ones written
        while these are rated. So is `compile`: the kernel is made ready while the input is read.

        Args:
            fold: seconds by part of the fold.
        """
        total = time.perf_counter() - self._started
        steps = {name: self._laps.get(name, 0.0) for name in ("input", "storing", "rating", "study", "tables")}
        other = max(0.0, total - sum(steps.values()))
        return {name: round(seconds, 3) for name, seconds in {**steps, **fold, "other": other, "total": total}.items()}
