"""What a real export has beside clean games: copies, corrections, voided games, ties, and rows that must be refused.

What is planted has its own random stream: a clean simulation has the same games without it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eloreplay.site import Rows
from eloreplay.world import RANKED, UNKNOWN, IntArray, stream

SHARES: Mapping[str, float] = {
    "self_play": 0.0005,
    "bad_cube": 0.0010,
    "missing_id": 0.0010,
    "unknown_mode": 0.0005,
    "voided": 0.0030,
    "corrections": 0.0020,
    "ties": 0.0020,
    "copies": 0.0060,
}
"""What is planted, as a share of the games. The first four are refused: 0.3 %, well below the limit of 1 %.

The last month's games cannot be repeated in a next file, so that over six months 0.5 % are copied.
"""


def quota(share: float, before: int, after: int) -> int:
    """Return how many to plant among games `before` to `after`; cumulative, so that the total has no rounding drift."""
    return int(share * after + 0.5) - int(share * before + 0.5)


def plant(rows: Rows, wanted: Mapping[str, int], month: int, seed: int, *, last: bool) -> tuple[Rows, Rows, dict[str, int]]:
    """Change `rows` in place into what a real export looks like.

    No row gets two kinds (but a copy may be of any row with ids), so each count is also the count of its bin.

    Args:
        rows: The month's games, ascending in time.
        wanted: How many of each kind.
        month: Number of the month, for the random stream.
        seed: The simulation's seed.
        last: There is no next month, so nothing can be copied into it.

    Returns:
        Copies of the month's last rows, as the next export repeats them; correcting rows; and the counts planted.
    """
    rng = np.random.default_rng(stream(seed, "plant", month))
    # A cube or a self game is only looked at in a rated game, so everything is planted there.
    ranked = rng.permutation(np.flatnonzero(rows.game_type == RANKED))
    kinds = ("self_play", "bad_cube", "missing_id", "unknown_mode", "voided", "corrections", "ties")
    chosen: dict[str, IntArray] = {}
    for kind in kinds:
        chosen[kind], ranked = ranked[: wanted[kind]], ranked[wanted[kind] :]

    rows.loser[chosen["self_play"]] = rows.winner[chosen["self_play"]]
    at = chosen["bad_cube"]
    # Half are no power of two, half are a clock time (epoch seconds) that slipped into the column.
    rows.cube[at] = np.where(np.arange(len(at)) % 2 == 0, 3, rows.ended_us[at] // 1_000_000)
    at = chosen["missing_id"]
    rows.id_missing[at[0::3]] = True
    rows.winner[at[1::3]] = -1
    rows.loser[at[2::3]] = -1
    rows.game_type[chosen["unknown_mode"]] = UNKNOWN
    rows.status[chosen["voided"]] = 1
    at = np.sort(chosen["ties"])
    at = at[at > 0]
    chosen["ties"] = at
    for_tie = rows.ended_us.copy()
    for_tie[at] = -1
    # In a row of planted ties all take the instant of the last game before them that keeps its own.
    rows.ended_us[:] = np.maximum.accumulate(for_tie)

    at = np.sort(chosen["corrections"])
    corrections = rows.take(at)
    corrections.rev += 1
    # The true result is the corrected one: it is the first entry that named the wrong winner.
    rows.winner[at], rows.loser[at] = rows.loser[at], rows.winner[at]

    copyable = np.flatnonzero(~rows.id_missing & (rows.winner >= 0) & (rows.loser >= 0))
    # Copies only start in the second file: they carry the quota of a month whose export is repeated.
    copies = rows.take(copyable[:0] if last else copyable[max(len(copyable) - wanted["copies"], 0) :])
    counts = {kind: len(chosen[kind]) for kind in kinds} | {"copies": len(copies)}
    return copies, corrections, counts
