"""The table of a sweep, a row of scores a setting, and their curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay import calibration
from eloreplay.instants import BEGINNING_US
from eloreplay.settings import Axis, Setting, spell
from eloreplay.sweep_field import Field
from eloreplay.sweep_kernel import GAP_BINS, GAP_WIDTH, GROUPS, VOLUMES
from eloreplay.sweep_pass import Arm
from eloreplay.sweep_scores import (
    Estimate,
    best_shares,
    cell_differences,
    cells,
    dyadic_variance,
    estimate,
    group_sums,
    logit_line,
    mean_loss,
    swing,
    swings,
)

#: Who has played in so many days before the last rated game of his pool is active, as in the table `summary`.
ACTIVE_US = 30 * 86_400_000_000
AS_THEY_ARE = "as they are"


def scored_part(field: Field) -> int:
    """Which part of the games is scored."""
    return 0 if field.split_us is None else 1


def score_table(every: Sequence[Arm], field: Field, axes: Sequence[Axis], draws: int, seed: int) -> pl.DataFrame:
    """One row a setting, setting 0 the rules as they are; `docs/outputs.md` says what each column means."""
    part = scored_part(field)
    games = field.cell_games[part].reshape(GROUPS, GROUPS)
    count = int(games.sum())
    active = active_players(field)
    losses = [mean_loss(arm.sums[part]["loss"], count) for arm in every]
    # Who is best is said by the games that come before those that are scored.
    train_count = int(field.cell_games[0].sum()) if part else 0
    train = [mean_loss(arm.sums[0]["loss"], train_count) if part else math.nan for arm in every]
    best = best_setting(train if part and train_count else losses)
    shares = _shares(every, part, games, draws, seed)
    rows = []
    for number, arm in enumerate(every):
        sums = arm.sums[part]
        loss = estimate(cells(sums["loss"]), games)
        brier = estimate(cells(sums["brier"]), games)
        slope, intercept = logit_line(sums)
        ratings = arm.state["rating"]
        row: dict[str, Any] = {"setting": number, "name": setting_name(number, arm.setting, axes)}
        row |= {axis.parameter.name: value for axis, value in zip(axes, arm.setting.values, strict=True)}
        row |= {"rank": _rank(losses, number), "games": count, "log_loss": losses[number]}
        row |= {"log_loss_low": loss.low, "log_loss_high": loss.high}
        row |= _difference("log_loss_difference", arm, every[0], part, "loss", games)
        row |= _difference("behind_best", arm, every[best], part, "loss", games)
        row |= {"brier": mean_loss(sums["brier"], count), "brier_low": brier.low, "brier_high": brier.high}
        row |= _difference("brier_difference", arm, every[0], part, "brier", games)
        row |= {"slope": slope, "intercept": intercept}
        row |= _spread(ratings, active)
        row |= {"weekly_swing": swing(sums, heavy=False), "weekly_swing_heavy": swing(sums, heavy=True)}
        row |= {"best_share": shares[number], "chosen": number == best}
        row |= {"train_games": train_count if part else None, "train_log_loss": train[number]}
        rows.append(row)
    names = [axis.parameter.name for axis in axes]
    types: dict[str, Any] = dict.fromkeys(rows[0], pl.Float64)
    types |= {"setting": pl.Int32, "name": pl.String, "rank": pl.Int32, "games": pl.Int64, "chosen": pl.Boolean}
    types |= {"train_games": pl.Int64} | dict.fromkeys(names, pl.Float64)
    frame = pl.DataFrame(rows, schema=types)
    return frame.with_columns(pl.col(name).fill_nan(None) for name, kind in types.items() if kind == pl.Float64)


def setting_name(number: int, setting: Setting, axes: Sequence[Axis]) -> str:
    """`divisor=800, k=24`; the rules as they are have a name of their own."""
    if number == 0:
        return AS_THEY_ARE
    return ", ".join(spell(axis.parameter, value) for axis, value in zip(axes, setting.values, strict=True))


def best_setting(losses: Sequence[float]) -> int:
    """The setting with the lowest loss, the first of equals; 0 when nothing was scored."""
    return min(range(len(losses)), key=lambda at: (math.isnan(losses[at]), losses[at], at))


def _rank(losses: Sequence[float], number: int) -> int | None:
    return None if math.isnan(losses[number]) else 1 + sum(loss < losses[number] for loss in losses)


def paired(one: Arm, other: Arm, part: int, what: str, games: NDArray[np.int64]) -> Estimate:
    """Mean loss of one setting less that of another over the same games, with its interval."""
    count = int(games.sum())
    found = estimate(cell_differences(one.sums[part][what], other.sums[part][what]), games)
    exact = mean_loss(one.sums[part][what] - other.sums[part][what], count)
    return Estimate(exact, found.low, found.high)


def _difference(name: str, arm: Arm, other: Arm, part: int, what: str, games: NDArray[np.int64]) -> dict[str, float]:
    found = Estimate(0.0) if arm is other else paired(arm, other, part, what, games)
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _shares(every: Sequence[Arm], part: int, games: NDArray[np.int64], draws: int, seed: int) -> list[float]:
    count = int(games.sum())
    differences = [cell_differences(arm.sums[part]["loss"], every[0].sums[part]["loss"]) for arm in every]
    if not draws or count == 0 or math.isnan(dyadic_variance(differences[0], games)):
        return [math.nan] * len(every)
    by_group = np.array([group_sums(difference, games) for difference in differences]) / count
    wide = np.sqrt((by_group**2).sum(axis=1))
    right = np.sqrt([dyadic_variance(difference, games) for difference in differences]) / count
    scale = np.divide(right, wide, out=np.zeros_like(wide), where=wide > 0)
    means = np.array([difference.sum() for difference in differences]) / count
    return [float(share) for share in best_shares(means, by_group, scale, draws, seed)]


def active_players(field: Field) -> NDArray[np.bool_]:
    """Who has played in the last `ACTIVE_US` before the last game of his pool; `(n_players,)`."""
    if not field.index.num_rows:
        return np.zeros(0, np.bool_)
    pool = field.index["pool"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    last = np.full(int(pool.max()) + 1, BEGINNING_US, np.int64)
    np.maximum.at(last, pool, field.last_us)
    return np.asarray((field.last_us > BEGINNING_US) & (field.last_us >= last[pool] - ACTIVE_US))


def _spread(ratings: NDArray[np.float64], active: NDArray[np.bool_]) -> dict[str, float | None]:
    if not active.any():
        return {"middle_half_width": None, "rating_min": None, "rating_max": None}
    low, high = np.quantile(ratings[active], [0.25, 0.75])
    return {
        "middle_half_width": float(high - low),
        "rating_min": float(ratings[active].min()),
        "rating_max": float(ratings[active].max()),
    }


def curves(every: Sequence[Arm], field: Field) -> pa.Table:
    """The favourites' curve of every setting, by gap in rating: the columns of `calibration`, with `setting` in front."""
    part = scored_part(field)
    frames = []
    for number, arm in enumerate(every):
        sums = arm.sums[part]
        low = np.arange(GAP_BINS) * GAP_WIDTH
        counts = pl.DataFrame(
            {
                "slice": ["all"] * GAP_BINS,
                "slice_value": [""] * GAP_BINS,
                "axis": ["gap"] * GAP_BINS,
                "bin_low": low,
                "bin_high": [*low[1:].tolist(), None],
                "games": sums["gap_games"],
                "half_wins": sums["gap_half_wins"],
                "expected_sum": sums["gap_expected"],
            }
        )
        frames.append(calibration.rates(counts, pool=False).insert_column(0, pl.Series("setting", [number] * GAP_BINS, pl.Int32)))
    return pl.concat(frames).to_arrow()


def swing_table(every: Sequence[Arm], field: Field) -> pa.Table:
    """How far a calendar week moved a player, by setting and by the week's games: setting, games_from, games_to, weeks, swing."""
    part = scored_part(field)
    ends = [*(games - 1 for games in VOLUMES[1:]), None]
    rows = [
        {"setting": number, "games_from": games, "games_to": end, "weeks": weeks, "swing": moved}
        for number, arm in enumerate(every)
        for (games, weeks, moved), end in zip(swings(arm.sums[part]), ends, strict=True)
    ]
    types = {"setting": pl.Int32, "games_from": pl.Int32, "games_to": pl.Int32, "weeks": pl.Int64, "swing": pl.Float64}
    return pl.DataFrame(rows, schema=types).with_columns(pl.col("swing").fill_nan(None)).to_arrow()
