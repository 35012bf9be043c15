"""Did the ratings tell the truth: the curve of favourites' real results against what the ratings expected.

Counts come from `sql/calibration_counts.sql` (integers and fixed point, so no order of threads can show); rates and intervals
are made from counts here and nowhere else.
"""

from __future__ import annotations

import math

import polars as pl

from eloreplay.queries import Database

#: 97.5 % quantile of the normal distribution: a two-sided 95 % interval.
Z95 = 1.959963984540054
#: Expected scores are summed in units of 2^-40, so that the sum does not depend on its order.
FIXED_POINT = 2.0**40

CALIBRATION_COLUMNS = (
    "slice", "slice_value", "axis", "bin_low", "bin_high", "games", "favourite_wins", "real_rate", "real_low", "real_high",
    "cluster_low", "cluster_high", "expected_rate",
)  # fmt: skip


def wilson(wins: float, games: int, z: float = Z95) -> tuple[float, float] | tuple[None, None]:
    """Wilson's score interval of a rate (Wilson 1927, J. Am. Stat. Assoc. 22: 209-212); (None, None) without games.

    Args:
        wins: successes, a draw counting half.
        games: trials.
        z: normal quantile; 1.96 for 95 %.
    """
    if games == 0:
        return None, None
    rate = wins / games
    centre = rate + z * z / (2 * games)
    spread = z * math.sqrt(rate * (1 - rate) / games + z * z / (4 * games * games))
    scale = 1 + z * z / games
    # At the ends the interval touches 0 or 1 exactly; in floats it would miss them by a last bit.
    return (
        0.0 if wins == 0 else max(0.0, (centre - spread) / scale),
        1.0 if wins == games else min(1.0, (centre + spread) / scale),
    )


def curve(database: Database, pool: bool) -> pl.DataFrame:
    """The table `calibration` of all rated games, by gap and by probability; empty bins stay, with 0 games and NULL rates.

    Needs the view `timeline` and the table `pools` (every pool of the run).
    """
    counts = pl.from_arrow(database.arrow("calibration_counts"))
    assert isinstance(counts, pl.DataFrame)
    return rates(counts, pool)


def rates(counts: pl.DataFrame, pool: bool) -> pl.DataFrame:
    """Rates and intervals from counts (columns `half_wins`: favourites' half points, `expected_sum`: in units of 2^-40)."""
    rows = []
    for row in counts.iter_rows(named=True):
        games, wins = row["games"], row["half_wins"] / 2
        low, high = wilson(wins, games)
        rows.append(
            {
                **({"pool": row["pool"]} if pool else {}),
                "slice": row["slice"],
                "slice_value": row["slice_value"],
                "axis": row["axis"],
                "bin_low": row["bin_low"],
                "bin_high": row["bin_high"],
                "games": games,
                "favourite_wins": wins,
                "real_rate": wins / games if games else None,
                "real_low": low,
                "real_high": high,
                "cluster_low": None,
                "cluster_high": None,
                "expected_rate": int(row["expected_sum"]) / FIXED_POINT / games if games else None,
            }
        )
    floats = {name: pl.Float64 for name in CALIBRATION_COLUMNS if name not in ("slice", "slice_value", "axis", "games")}
    schema = {name: floats.get(name, pl.Int64 if name == "games" else pl.String) for name in CALIBRATION_COLUMNS}
    if pool:
        return pl.DataFrame(rows, schema={"pool": counts.schema["pool"], **schema})
    return pl.DataFrame(rows, schema=schema)
