"""Intervals that respect that players repeat: against the sum over all pairs of games, and their coverage on made-up sites."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import support_study as made_up
from numpy.typing import NDArray
from support_study import Made, both, made, one

from eloreplay.calibration import Z95
from eloreplay.scores import logistic

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def favoured(table: pa.Table) -> tuple[NDArray[np.float64], NDArray[np.float64], list[tuple[int, int]]]:
    """Expected score and result of the favourites, and the two players, of the games that have one."""
    expected = table["winner_expected"].to_numpy()
    led = expected != 0.5
    pairs = list(zip(table["winner_id"].to_pylist(), table["loser_id"].to_pylist(), strict=True))
    result = np.where(expected > 0.5, 1.0, 0.0)
    return np.maximum(expected, 1 - expected)[led], result[led], [pair for pair, own in zip(pairs, led, strict=True) if own]


def slow_variance(scores: NDArray[np.float64], pairs: list[tuple[int, int]]) -> float:
    """Sum of s_g * s_h over all pairs of games with a player in common (each game with itself included)."""
    return math.fsum(
        scores[g] * scores[h] for g, h in itertools.product(range(len(pairs)), repeat=2) if set(pairs[g]) & set(pairs[h])
    )


def test_variances_are_the_sums_over_pairs_of_games_with_a_common_player(tmp_path: Path) -> None:
    site = made(1, players=12, games=260, spread=150, effect=0.8)
    calibration, summary = both(site.timeline, tmp_path)
    chance, result, pairs = favoured(site.timeline)

    rate = result.mean()
    variance = max(slow_variance(result - rate, pairs), math.fsum((result - rate) ** 2))
    effective = len(result) / (variance / (len(result) * rate * (1 - rate)))
    centre = (rate + Z95**2 / (2 * effective)) / (1 + Z95**2 / effective)
    spread = Z95 * math.sqrt(rate * (1 - rate) / effective + Z95**2 / (4 * effective**2)) / (1 + Z95**2 / effective)
    row = one(summary, "favourite_real_rate_cluster")
    assert (row["low"], row["high"]) == pytest.approx((centre - spread, centre + spread), rel=1e-9)

    losses = -np.log(np.where(result == 1, chance, 1 - chance))
    # Log loss counts every game; those without a favourite are left out above.
    every = -np.log(site.timeline["winner_expected"].to_numpy())
    whole = list(zip(site.timeline["winner_id"].to_pylist(), site.timeline["loser_id"].to_pylist(), strict=True))
    assert len(losses) <= len(every)
    corrected = _corrected(every - every.mean(), whole)
    row = one(summary, "log_loss_cluster")
    assert (row["high"] - row["low"]) / 2 == pytest.approx(Z95 * math.sqrt(corrected) / len(every), rel=1e-6)

    low = calibration.filter(axis="gap", slice="all").filter(pl.col("games") > 0)
    assert low["cluster_low"].null_count() == low["cluster_high"].null_count() == 0
    for bin_ in low.iter_rows(named=True):
        assert 0 <= bin_["cluster_low"] <= bin_["real_rate"] <= bin_["cluster_high"] <= 1
    empty = calibration.filter(pl.col("games") == 0)
    assert empty["cluster_low"].null_count() == empty.height


def _corrected(scores: NDArray[np.float64], pairs: list[tuple[int, int]]) -> float:
    """By players (each corrected by his share) less by pairs, at least the games' own."""
    by_player: dict[int, list[float]] = {}
    by_pair: dict[frozenset[int], list[float]] = {}
    for score, pair in zip(scores, pairs, strict=True):
        by_pair.setdefault(frozenset(pair), []).append(score)
        for player in pair:
            by_player.setdefault(player, []).append(score)
    players = math.fsum((math.fsum(own) / max(0.5, 1 - len(own) / len(pairs))) ** 2 for own in by_player.values())
    return max(players - math.fsum(math.fsum(own) ** 2 for own in by_pair.values()), math.fsum(scores**2))


def test_the_order_of_a_pair_and_the_number_of_threads_change_nothing(tmp_path: Path) -> None:
    site = made(2, players=30, games=2000, effect=0.5)
    ids = pa.array(range(30))
    table = site.timeline
    found = []
    for threads in (1, 4):
        with made_up.database(table, tmp_path / str(threads), threads=threads) as opened:
            from eloreplay import study, study_counts

            counted = made_up.counts(opened, table)
            edges = made_up.edges(table)
            study_counts.Counting(opened).begin(edges[0], edges[-1])
            opened.put("study_players", pa.table({"pool": pa.nulls(30, pa.string()), "player_id": ids, "player_index": ids}))
            opened.create_table("study_dyads", "study_dyads")
            found.append(study.with_clusters(opened, counted, draws=50, seed=3))
    for one_, other in zip(*found, strict=True):
        assert one_.equals(other)
    wide = made_up.both(table, tmp_path, draws=50)[1]
    assert one(wide, "calibration_error_by_luck")["value"] != one(found[0][1], "calibration_error_by_luck")["value"]  # another seed


def test_luck_alone_shows_the_error_that_true_ratings_have(tmp_path: Path) -> None:
    """Over 12 sites whose ratings are true, the calibration error lies in the range of luck as often as it should."""
    inside = 0
    for seed in range(12):
        _, summary = both(made(seed, games=3000).timeline, tmp_path, draws=200)
        luck = one(summary, "calibration_error_by_luck")
        assert luck["low"] < luck["value"] < luck["high"]
        inside += luck["low"] <= one(summary, "calibration_error")["value"] <= luck["high"]
    assert inside >= 10
    _, wrong = both(made(1, games=3000, divisor=400, true_divisor=1200).timeline, tmp_path, draws=200)
    assert one(wrong, "calibration_error")["value"] > one(wrong, "calibration_error_by_luck")["high"]


# ---------------------------------------------------------------- recovery

TRUTHS = ("slope", "fitted_divisor")


def truth(site: Made, effect: float) -> dict[str, float]:
    """What the fits would find on endlessly many sites with these games and new effects: 1 and the divisor, if there are none.

    With effects the curve is a mixture of logistic ones, and the truth is the logistic curve next to it.
    """
    if not effect:
        return {"slope": 1.0, "fitted_divisor": 1200.0}
    logit = site.logit[site.logit > 0]
    chance = (1 / (1 + np.exp(-(logit[:, None] + NODES * effect * math.sqrt(2))))) @ WEIGHTS
    ones = np.ones_like(logit)
    line = logistic([ones, logit], ones, [chance.sum(), float(chance @ logit)])
    single = logistic([logit], ones, [float(chance @ logit)])
    assert line is not None
    assert single is not None
    return {"slope": float(line.coefficients[1]), "fitted_divisor": 1200 / float(single.coefficients[0])}


def covered(folder: Path, studies: int, effect: float) -> tuple[dict[str, int], dict[str, float]]:
    """How many of so many studies cover the truth, by statistic; and the median width of clustered to naive intervals."""
    hits = dict.fromkeys([*TRUTHS, *(f"{name}_cluster" for name in TRUTHS), "bins", "bins_cluster", "all_bins"], 0)
    widths: dict[str, list[float]] = {name: [] for name in TRUTHS}
    for seed in range(studies):
        site = made(seed, effect=effect)
        calibration, summary = both(site.timeline, folder, draws=1)
        for name, value in truth(site, effect).items():
            naive, clustered = one(summary, name), one(summary, f"{name}_cluster")
            hits[name] += naive["low"] <= value <= naive["high"]
            hits[f"{name}_cluster"] += clustered["low"] <= value <= clustered["high"]
            widths[name].append((clustered["high"] - clustered["low"]) / (naive["high"] - naive["low"]))
        logit = site.logit[:, None] + NODES * effect * math.sqrt(2)
        chance = (1 / (1 + np.exp(-logit))) @ WEIGHTS if effect else 1 / (1 + np.exp(-site.logit))
        gap = np.floor(site.logit * 1200 / math.log(10) / 25 + 1e-9)
        for row in calibration.filter(axis="gap").filter(pl.col("games") >= 50, pl.col("bin_low") < 500).iter_rows(named=True):
            value = chance[(gap == row["bin_low"] / 25) & (site.logit > 0)].mean()
            hits["all_bins"] += 1
            hits["bins"] += row["real_low"] <= value <= row["real_high"]
            hits["bins_cluster"] += row["cluster_low"] <= value <= row["cluster_high"]
    return hits, {name: float(np.median(found)) for name, found in widths.items()}


@pytest.mark.long
def test_200_studies_of_fixed_and_true_ratings_cover_the_truth(tmp_path: Path) -> None:
    hits, widths = covered(tmp_path, 200, 0.0)
    for name in TRUTHS:
        assert 184 <= hits[name] <= 197
        assert hits[f"{name}_cluster"] >= 184
        assert widths[name] <= 1.3
    assert hits["bins_cluster"] >= 0.93 * hits["all_bins"]


@pytest.mark.long
def test_200_studies_with_effects_that_no_rating_knows(tmp_path: Path) -> None:
    hits, _ = covered(tmp_path, 200, 0.4)
    for name in TRUTHS:
        assert hits[name] < 184
        assert hits[f"{name}_cluster"] >= 184
    assert hits["bins_cluster"] >= 0.93 * hits["all_bins"]


def test_a_few_studies_of_fixed_and_true_ratings_cover_the_truth(tmp_path: Path) -> None:
    hits, widths = covered(tmp_path, 20, 0.0)
    for name in TRUTHS:
        assert hits[name] >= 17
        assert hits[f"{name}_cluster"] >= 17
        assert widths[name] <= 1.3
    assert hits["bins_cluster"] >= 0.92 * hits["all_bins"]


def test_a_few_studies_with_effects_that_no_rating_knows(tmp_path: Path) -> None:
    hits, widths = covered(tmp_path, 20, 0.8)
    assert hits["fitted_divisor"] <= 14
    for name in TRUTHS:
        assert hits[f"{name}_cluster"] >= 17
        assert widths[name] > 1.1
