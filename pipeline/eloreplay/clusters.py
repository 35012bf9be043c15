"""Intervals that respect that players repeat: a game belongs to both of its players, and whoever plays often counts often.

Two games hang together when they have a player in common. The variance of a sum over games is then a sum over all such pairs of
games (dyadic cluster-robust: Fafchamps and Gubert 2007, J. Dev. Econ. 83: 326-350; Aronow, Samii and Assenova 2015, Political
Analysis 23: 564-577). With S the sums by player and T those by pair of players it is sum(S^2) - sum(T^2), for two games of one pair
meet at both players. Where that is less than the games' own squares these are taken: games do not become surer by sharing players.
Weights drawn by player and multiplied within a game would count each game three times; nothing here does that.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.calibration import Z95
from eloreplay.queries import Database
from eloreplay.scores import Cells, calibration_fit, curve_bins, divisor_fit, fitted_divisor

Floats = NDArray[np.float64]
Row = dict[str, Any]
Slices = list[tuple[tuple[Any, str, str], Cells]]
AXES = ("gap", "probability")


def clustered(by_player: Floats, by_pair: Floats, by_game: Floats) -> Floats:
    """Variance of a sum over games from the squared sums by player, by pair and by game; any shape."""
    return np.asarray(np.maximum(by_player - by_pair, by_game))


def rate_interval(rate: Floats, games: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval with as many independent games as would leave the rate as uncertain as it is.

    Args:
        rate: shape `(n,)`.
        games: games behind it.
        variance: clustered variance of the sum of points; 0 (no game of the bin differs) leaves the games as they are.
    """
    binomial = games * rate * (1.0 - rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        inflation = np.where((binomial > 0) & (variance > 0), variance / binomial, 1.0)
    n = games / inflation
    centre = rate + Z95**2 / (2 * n)
    spread = Z95 * np.sqrt(rate * (1 - rate) / n + Z95**2 / (4 * n * n))
    low, high = (centre - spread) / (1 + Z95**2 / n), (centre + spread) / (1 + Z95**2 / n)
    return np.where(rate <= 0, 0.0, np.maximum(low, 0.0)), np.where(rate >= 1, 1.0, np.minimum(high, 1.0))


def bin_rates(database: Database, axis: str) -> pl.DataFrame:
    """Rate, its clustered variance and interval in each bin of an axis, for each value of the slice in `study_sliced`.

    Columns: pool, slice_value, bin, games, rate, by_player, variance, low, high.
    """
    sums = pl.from_arrow(database.arrow("study_cluster_rates", {"axis": axis}))
    assert isinstance(sums, pl.DataFrame)
    rate = sums["half_points"].to_numpy() / 2 / sums["games"].to_numpy()

    def square(n_n: Floats, n_h: Floats, h_h: Floats) -> Floats:
        """Sum of (points - rate · games)^2, from sums of products of games and half points."""
        return np.asarray(np.maximum(h_h / 4 - rate * n_h + rate * rate * n_n, 0.0))

    games, half, squares = (sums[name].to_numpy() for name in ("games", "half_points", "squares"))
    by_player, by_pair = (
        square(*(sums[f"{cluster}_{part}"].to_numpy() for part in ("n_n", "n_h", "h_h"))) for cluster in ("player", "pair")
    )
    variance = clustered(by_player, by_pair, square(games, half, squares))
    low, high = rate_interval(rate, games, variance)
    return sums.select("pool", "slice_value", "bin", "games").with_columns(
        rate=rate, by_player=by_player, variance=variance, low=low, high=high
    )


def cluster_curve(database: Database, slice_: str) -> pl.DataFrame:
    """Clustered intervals of the curve's bins of one slice: pool, slice, slice_value, axis, bin_low, cluster_low, cluster_high."""
    found = pl.concat([bin_rates(database, axis).with_columns(axis=pl.lit(axis), slice=pl.lit(slice_)) for axis in AXES])
    return found.join(curve_bins(), on=["axis", "bin"]).select(
        "pool", "slice", "slice_value", "axis", "bin_low", cluster_low="low", cluster_high="high"
    )


def cluster_scores(database: Database, slice_: str, parts: Slices, pool_type: Any) -> list[Row]:
    """Rows of `summary` with the clustered intervals of fits and means of one slice.

    Args:
        database: with the table `study_sliced` of this slice.
        slice_: its name.
        parts: its values with their cells, as `study.slices` gives them.
        pool_type: Polars type of the pool.
    """
    favoured = {key: cells.favoured() for key, cells in parts}
    fits = {key: (calibration_fit(cells), divisor_fit(cells)) for key, cells in favoured.items()}
    means = {key: tuple(math.fsum(sums) / cells.games.sum() for sums in (cells.loss, cells.squared)) for key, cells in parts}
    table = pl.DataFrame(
        [
            {
                "pool": key[0],
                "slice_value": key[2],
                "intercept": None if line is None else line.coefficients[0],
                "slope": None if line is None else line.coefficients[1],
                "divisor_slope": None if single is None else single.coefficients[0],
                "log_loss": means[key][0],
                "brier_score": means[key][1],
            }
            for key, (line, single) in fits.items()
        ],
        schema={"pool": pool_type, "slice_value": pl.String}
        | dict.fromkeys(("intercept", "slope", "divisor_slope", "log_loss", "brier_score"), pl.Float64),
        orient="row",
    )
    database.put("study_fits", _plain(table))
    rows: list[Row] = []
    found = pl.from_arrow(database.arrow("study_cluster_scores"))
    assert isinstance(found, pl.DataFrame)
    for (pool, value), part in found.group_by(["pool", "slice_value"], maintain_order=True):
        key = (pool, slice_, str(value))
        sums = {row["cluster"]: row for row in part.iter_rows(named=True)}
        cells = next(cells for own, cells in parts if own == key)
        rows += _score_rows(key, sums, fits[key], means[key], (int(favoured[key].games.sum()), int(cells.games.sum())))
    return rows


def _score_rows(key: tuple[Any, str, str], sums: dict[str, Row], fits: Any, means: Any, games: tuple[int, int]) -> list[Row]:
    line, single = fits
    rows: list[Row] = []

    def middles(part: str) -> tuple[Floats, Floats]:
        """What the players add, and the games' own, as matrices (or single numbers) of the sandwich's middle."""
        names = ("s0_s0", "s0_s1", "s0_s1", "s1_s1") if part == "line" else (part,)
        shape = (2, 2) if part == "line" else (1, 1)
        player, pair, game = (
            np.array([sums[cluster][name] for name in names], float).reshape(shape)
            for cluster in ("by_player", "by_pair", "by_game")
        )
        return player - pair, game

    def add(statistic: str, n: int, value: float | None, low: float | None, high: float | None) -> None:
        own = dict(zip(("pool", "slice", "slice_value"), key, strict=True))
        rows.append({**own, "statistic": f"{statistic}_cluster", "value": value, "low": low, "high": high, "games": n})

    if line is not None:
        dyadic, own = (line.covariance @ middle @ line.covariance for middle in middles("line"))
        covariance = np.where(np.diag(dyadic) >= np.diag(own), dyadic, own)
        for column, name in enumerate(("intercept", "slope")):
            add(name, games[0], *line.interval(column, covariance))
    if single is not None:
        covariance = np.maximum(*(single.covariance @ middle @ single.covariance for middle in middles("s2_s2")))
        add("fitted_divisor", games[0], *fitted_divisor(single, covariance))
    for name, part, mean in (("log_loss", "s3_s3", means[0]), ("brier_score", "s4_s4", means[1])):
        spread = Z95 * math.sqrt(float(np.maximum(*middles(part))[0, 0])) / games[1]
        add(name, games[1], mean, mean - spread, mean + spread)
    return rows


def cluster_rate_rows(database: Database, slice_: str) -> list[Row]:
    """Rows of `summary` with the clustered interval of the favourites' rate of each value of a slice."""
    return [
        {
            "pool": row["pool"],
            "slice": slice_,
            "slice_value": row["slice_value"],
            "statistic": "favourite_real_rate_cluster",
            "value": row["rate"],
            "low": row["low"],
            "high": row["high"],
            "games": int(row["games"]),
        }
        for row in bin_rates(database, "all").iter_rows(named=True)
    ]


def error_by_luck(database: Database, slice_: str, draws: int, seed: int) -> list[Row]:
    """Rows of `summary` with the calibration error that luck alone would show if every expected score were true.

    The players are drawn again and again: each draw gives every player a sign, and with it the sum of his games' deviations from
    their bin's rate (a multiplier bootstrap with signs: Mammen 1993, Ann. Stat. 21: 255-285), scaled to the bin's clustered
    variance. The value is the mean over the draws, low and high hold 95 % of them.

    Args:
        database: with the table `study_sliced` of this slice.
        slice_: its name.
        draws: how many.
        seed: the same seed gives the same draws, for every slice.
    """
    bins = bin_rates(database, "error")
    shares = pl.from_arrow(database.arrow("study_player_bins"))
    assert isinstance(shares, pl.DataFrame)
    bins = bins.with_row_index("place").with_columns(
        # Two players of one game count it twice in the draws; the scale takes that back.
        scale=pl.when(pl.col("by_player") > 0).then((pl.col("variance") / pl.col("by_player")).sqrt()).otherwise(0.0)
    )
    shares = shares.join(
        bins.select("pool", "slice_value", "bin", "place", "rate"), on=["pool", "slice_value", "bin"], nulls_equal=True
    )
    shares = shares.sort("place", "player")
    place, player = shares["place"].to_numpy(), shares["player"].to_numpy()
    deviations = shares["half_points"].to_numpy() / 2 - shares["games"].to_numpy() * shares["rate"].to_numpy()
    keys = bins.select("pool", "slice_value").unique(maintain_order=True).with_row_index("key")
    owner = bins.join(keys, on=["pool", "slice_value"], nulls_equal=True, maintain_order="left")["key"].to_numpy()
    scale, games = bins["scale"].to_numpy(), np.bincount(owner, bins["games"].to_numpy(), len(keys))
    generator = np.random.default_rng(seed)
    drawn = np.empty((draws, len(keys)))
    n_players = int(player.max(initial=-1)) + 1
    for draw in range(draws):
        signs = generator.integers(0, 2, n_players) * 2 - 1
        sums = np.abs(np.bincount(place, deviations * signs[player], bins.height)) * scale
        drawn[draw] = np.bincount(owner, sums, len(keys)) / games
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    mean = drawn.mean(axis=0)
    return [
        {
            "pool": pool,
            "slice": slice_,
            "slice_value": value,
            "statistic": "calibration_error_by_luck",
            "value": float(mean[at]),
            "low": float(low[at]),
            "high": float(high[at]),
            "games": int(games[at]),
        }
        for at, (pool, value) in enumerate(keys.select("pool", "slice_value").iter_rows())
    ]


def cluster_study(
    database: Database, parts: Slices, slices: Collection[str], draws: int, seed: int, pool_type: Any
) -> tuple[pl.DataFrame, list[Row]]:
    """Everything that respects that players repeat, of the wanted slices: intervals for the curve, and rows of `summary`.

    Needs the table `study_dyads`; one slice after the other, so that no more than one lies beside it.
    """
    curves, rows = [], []
    for name in slices:
        own = [(key, cells) for key, cells in parts if key[1] == name]
        if not own:
            continue
        database.create_table("study_sliced", "study_sliced", {"slice": name})
        curves.append(cluster_curve(database, name))
        rows += cluster_scores(database, name, own, pool_type) + cluster_rate_rows(database, name)
        rows += error_by_luck(database, name, draws, seed)
    known = {key for key, _ in parts}
    rows = [row for row in rows if (row["pool"], row["slice"], row["slice_value"]) in known]
    return pl.concat(curves), rows


def _plain(frame: pl.DataFrame) -> pa.Table:
    """As Arrow, with one type of text."""
    table = frame.to_arrow()
    return table.cast(
        pa.schema([field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field for field in table.schema])
    )
