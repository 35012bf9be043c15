"""Scores and fits against plain sums and an ungrouped fit on the same games, and at the edges."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support_study as made_up
from numpy.typing import NDArray
from support_study import one, studied

from eloreplay.scores import ERROR_BINS, SCORE_NAMES, logistic, scores
from eloreplay.study import add_months, slices

CLIP = 2.0**-52
Games = tuple[NDArray[np.float64], NDArray[np.float64]]


def some_games(seed: int, n: int, integer: bool, draws: float) -> tuple[Any, Games]:
    """A timeline with gaps of all sizes, and for each game (expected score, result) of its winner's side."""
    rng = np.random.default_rng(seed)
    ratings = rng.normal(1500, 300, (n, 2))
    if integer:
        ratings = np.rint(ratings).astype(np.int32)
    ratings[: n // 20, 1] = ratings[: n // 20, 0]
    expected = 1 / (1 + 10.0 ** ((ratings[:, 1] - ratings[:, 0]).astype(float) / 1200))
    swap = rng.random(n) > expected
    ratings[swap] = ratings[swap][:, ::-1]
    expected = 1 / (1 + 10.0 ** ((ratings[:, 1] - ratings[:, 0]).astype(float) / 1200))
    drawn = rng.random(n) < draws
    table = made_up.timeline(
        winner_id=rng.integers(0, 50, n),
        loser_id=rng.integers(50, 100, n),
        winner_rating_before=ratings[:, 0],
        loser_rating_before=ratings[:, 1],
        winner_expected=expected,
        is_draw=drawn,
    )
    return table, (expected, np.where(drawn, 0.5, 1.0))


@pytest.mark.parametrize("draws", [0.0, 0.3])
@pytest.mark.parametrize("integer", [True, False])
def test_log_loss_brier_and_calibration_error_are_the_plain_sums(tmp_path: Path, integer: bool, draws: float) -> None:
    table, (expected, result) = some_games(3, 5000, integer, draws)
    calibration, summary = studied(table, tmp_path)
    n = len(expected)
    clipped = np.clip(expected, CLIP, 1 - CLIP)
    log_loss = math.fsum(-result * np.log(clipped) - (1 - result) * np.log(1 - clipped)) / n
    brier = math.fsum((result - expected) ** 2) / n
    assert one(summary, "log_loss")["value"] == pytest.approx(log_loss, abs=1e-12, rel=0)
    assert one(summary, "brier_score")["value"] == pytest.approx(brier, abs=1e-12, rel=0)

    led = expected != 0.5
    chance = np.maximum(expected, 1 - expected)[led]
    real = np.where(expected > 0.5, result, 1 - result)[led]
    bins = np.searchsorted((10 + np.arange(1, ERROR_BINS)) / 20, chance, side="right")
    error = math.fsum(abs(math.fsum((real - chance)[bins == i])) for i in range(ERROR_BINS)) / len(chance)
    assert one(summary, "calibration_error")["value"] == pytest.approx(error, abs=1e-12, rel=0)
    assert one(summary, "accuracy")["value"] == math.fsum(real) / len(real)
    assert one(summary, "favourite_expected_rate")["value"] == pytest.approx(math.fsum(chance) / len(chance), abs=1e-12, rel=0)
    assert one(summary, "games_without_favourite")["value"] == n - len(chance) > 0
    assert one(summary, "draws")["value"] == (result == 0.5).sum()
    for axis in ("gap", "probability"):
        assert calibration.filter(axis=axis, slice="all")["games"].sum() == len(chance)

    # Intervals of means: the spread of the losses themselves, known to the width of a cell.
    for name, losses in (
        ("log_loss", -result * np.log(clipped) - (1 - result) * np.log(1 - clipped)),
        ("brier_score", (result - expected) ** 2),
    ):
        row = one(summary, name)
        assert (row["high"] - row["low"]) / 2 == pytest.approx(1.959963984540054 * losses.std() / math.sqrt(n), rel=1e-4)


def test_the_names_of_scores_are_those_that_there_are(tmp_path: Path) -> None:
    table, _ = some_games(3, 500, True, 0.3)
    with made_up.database(table, tmp_path) as opened:
        ((_, cells),) = slices(add_months(made_up.counts(opened, table), ()))
    assert sorted(scores(cells)) == sorted(SCORE_NAMES)


@pytest.mark.parametrize("draws", [0.0, 0.3])
@pytest.mark.parametrize("integer", [True, False])
def test_fits_on_cells_are_those_on_the_games(tmp_path: Path, integer: bool, draws: float) -> None:
    """Cells are 1/256 of a logit wide and enter with their mean: less than a hundred-thousandth is lost, far below its error."""
    table, (expected, result) = some_games(4, 5000, integer, draws)
    _, summary = studied(table, tmp_path)
    led = expected != 0.5
    chance = np.maximum(expected, 1 - expected)[led]
    logit = np.log(chance / (1 - chance))
    real = np.where(expected > 0.5, result, 1 - result)[led]
    intercept, slope = plain_fit(np.stack([np.ones_like(logit), logit], axis=1), real)
    assert one(summary, "slope")["value"] == pytest.approx(slope, rel=1e-5)
    assert one(summary, "intercept")["value"] == pytest.approx(intercept, abs=1e-5)
    (single,) = plain_fit(logit[:, None], real)
    assert one(summary, "fitted_divisor")["value"] == pytest.approx(1200 / single, rel=1e-5)


def plain_fit(matrix: NDArray[np.float64], result: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic regression on single games: reweighted least squares, written without the code under test."""
    at = np.zeros(matrix.shape[1])
    for _ in range(50):
        rate = 1 / (1 + np.exp(-matrix @ at))
        weight = rate * (1 - rate)
        target = matrix @ at + (result - rate) / weight
        root = np.sqrt(weight)
        at = np.linalg.lstsq(matrix * root[:, None], target * root, rcond=None)[0]
    return at


def test_the_fit_of_two_groups_is_the_log_odds_ratio() -> None:
    """Of a table of two groups the slope is the log odds ratio and its variance 1/a + 1/b + 1/c + 1/d (Woolf 1955)."""
    group, games, points = np.array([0.0, 1.0]), np.array([57.0, 43.0]), np.array([16.0, 27.0])
    fit = logistic([np.ones(2), group], games, [float(points.sum()), float(points @ group)])
    assert fit is not None
    odds = (27 * 41) / (16 * 16)
    assert fit.coefficients[1] == pytest.approx(math.log(odds), rel=1e-12)
    assert fit.covariance[1, 1] == pytest.approx(1 / 27 + 1 / 41 + 1 / 16 + 1 / 16, rel=1e-10)


def games(*rows: tuple[int, int, bool]) -> Any:
    """A timeline of (winner's rating, loser's rating, draw) at ÷1200."""
    before = np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)
    gap = (before[:, 0] - before[:, 1]).astype(float)
    return made_up.timeline(
        winner_id=np.arange(len(rows)) * 2,
        loser_id=np.arange(len(rows)) * 2 + 1,
        winner_rating_before=before[:, 0],
        loser_rating_before=before[:, 1],
        winner_expected=1 / (1 + 10.0 ** np.minimum(-gap / 1200, 300.0)),
        is_draw=np.array([row[2] for row in rows], bool),
    )


def test_one_distinct_probability_has_a_divisor_but_no_slope(tmp_path: Path) -> None:
    _, summary = studied(games(*[(1600, 1500, False)] * 6, *[(1500, 1600, False)] * 4), tmp_path)
    assert summary.filter(statistic="slope", slice="all").is_empty()
    assert summary.filter(statistic="intercept", slice="all").is_empty()
    # The favourites won six of ten: 100 points are worth log10(6/4) of a divisor.
    assert one(summary, "fitted_divisor")["value"] == pytest.approx(100 / math.log10(1.5), rel=1e-9)
    assert one(summary, "brier_reliability")["value"] == pytest.approx((1 / (1 + 10 ** (-1 / 12)) - 0.6) ** 2, abs=1e-12)
    assert one(summary, "brier_resolution")["value"] == pytest.approx(0.01, abs=1e-12)
    assert one(summary, "brier_uncertainty")["value"] == 0.25
    assert one(summary, "brier_within_bins")["value"] == pytest.approx(0, abs=1e-12)


def test_all_draws(tmp_path: Path) -> None:
    calibration, summary = studied(games((1600, 1500, True), (1500, 1700, True), (1500, 1500, True)), tmp_path)
    assert one(summary, "favourite_real_rate")["value"] == 0.5
    assert one(summary, "games_without_favourite")["value"] == 1
    assert one(summary, "slope")["value"] == pytest.approx(0, abs=1e-9)
    # No divisor is flat enough; how steep it can at most be is known.
    divisor = one(summary, "fitted_divisor")
    assert divisor["value"] is None or divisor["value"] > 1e9
    assert divisor["high"] is None
    assert divisor["low"] > 0
    assert one(summary, "brier_uncertainty")["value"] == 0
    chances = 1 / (1 + 10 ** (-np.array([100, 200]) / 1200))
    assert one(summary, "brier_score")["value"] == pytest.approx(((chances - 0.5) ** 2).sum() / 3, abs=1e-12)
    assert calibration.filter(slice="all")["games"].sum() == 4


def test_no_favourite_at_all(tmp_path: Path) -> None:
    calibration, summary = studied(games((1500, 1500, False), (1400, 1400, False), (1500, 1500, True)), tmp_path)
    assert one(summary, "games")["value"] == one(summary, "games_without_favourite")["value"] == 3
    assert one(summary, "log_loss")["value"] == pytest.approx(math.log(2), abs=1e-12)
    assert one(summary, "brier_score")["value"] == pytest.approx(2 * 0.25 / 3, abs=1e-12)
    for statistic in ("accuracy", "slope", "fitted_divisor", "favourite_real_rate", "calibration_error"):
        assert summary.filter(statistic=statistic, slice="all").is_empty(), statistic
    assert calibration.filter(slice="all").height == 41
    assert calibration["games"].sum() == 0
    assert calibration["real_rate"].null_count() == calibration.height


def test_three_games(tmp_path: Path) -> None:
    calibration, summary = studied(games((1600, 1500, False), (1700, 1500, False), (1800, 1500, False)), tmp_path)
    assert one(summary, "accuracy")["value"] == 1.0
    assert one(summary, "accuracy")["high"] == 1.0
    for statistic in ("slope", "intercept", "fitted_divisor"):  # every favourite won: no finite slope is the best
        assert summary.filter(statistic=statistic, slice="all").is_empty(), statistic
    full = calibration.filter(axis="gap", slice="all").filter(calibration.filter(axis="gap", slice="all")["games"] > 0)
    assert full["bin_low"].to_list() == [100.0, 200.0, 300.0]
    assert full["real_high"].to_list() == [1.0] * 3


def test_no_game_at_all(tmp_path: Path) -> None:
    table = games((1600, 1500, False)).slice(0, 0)
    with made_up.database(table, tmp_path) as opened:
        from eloreplay import study, study_counts

        calibration, summary = study.study_from_counts(
            study_counts.month_counts(opened, 0, 0), study_counts.month_facts(opened, 0, 0)
        )
    assert calibration.height == 41
    assert calibration["games"].sum() == 0
    assert summary.is_empty()


def test_an_expected_score_of_one_is_kept_just_below(tmp_path: Path) -> None:
    table = games((9_000_000, 1500, False), (1500, 9_000_000, False))
    _, summary = studied(table, tmp_path)
    assert one(summary, "log_loss")["value"] == pytest.approx((-math.log(CLIP) - math.log(1 - CLIP)) / 2, rel=1e-12)
    assert one(summary, "brier_score")["value"] == pytest.approx(0.5, abs=1e-12)


def test_versions_with_different_divisors_have_one_fit_in_points(tmp_path: Path) -> None:
    """The same gaps, foretold by two divisors: over both together the games' own divisor is found."""
    from eloreplay.rules import load_ruleset

    since = {"1.0.5": made_up.START_US - 2, "1.2.0": made_up.START_US - 1, "1.3.1": made_up.START_US + 300 * made_up.HOUR_US}
    one_half = made_up.made(5, games=20_000, divisor=800, true_divisor=1000, hours=299)
    other = made_up.made(6, games=20_000, divisor=1200, true_divisor=1000, hours=299)
    later = other.timeline.set_column(
        other.timeline.schema.get_field_index("played_at"),
        "played_at",
        (made_up.pa.compute.add(other.timeline["played_at"].cast("int64"), 300 * made_up.HOUR_US)).cast(
            made_up.pa.timestamp("us", "UTC")
        ),
    )
    first = one_half.timeline.set_column(
        one_half.timeline.schema.get_field_index("rule_version"), "rule_version", made_up.pa.array(["1.2.0"] * 20_000)
    )
    both = made_up.pa.concat_tables([first, later])
    both = both.set_column(both.schema.get_field_index("seq"), "seq", made_up.pa.array(range(1, 40_001)))
    _, summary = studied(both, tmp_path, load_ruleset("tavla42-history", since))
    whole = one(summary, "fitted_divisor")
    assert whole["low"] < 1000 < whole["high"]
    for version, divisor in (("1.2.0", 800), ("1.3.1", 1200)):
        fitted = one(summary, "fitted_divisor", "version", version)
        assert fitted["low"] < 1000 < fitted["high"]
        assert one(summary, "divisor", "version", version)["value"] == divisor
        slope = one(summary, "slope", "version", version)
        assert slope["low"] < divisor / 1000 < slope["high"]
    assert summary.filter(statistic="divisor", slice="all").is_empty()


@pytest.mark.parametrize(
    ("rows", "slope", "divisor"),
    [
        # Favourites of large gaps lost and of small ones won, without exception: no finite slope, but a divisor.
        ([(1510, 1500, False)] * 30 + [(1500, 1700, False)], False, True),
        ([(1600, 1500, False)] * 4 + [(1650, 1500, False)] * 3, False, False),
        # All lost: no slope; and no divisor, for nothing above 0 is flat enough.
        ([(1500, 1600, False)] * 4 + [(1500, 1650, False)] * 3, False, False),
        ([(1600, 1500, False)] * 4 + [(1650, 1500, False)] * 3 + [(1500, 1620, False)], True, True),
    ],
)
def test_separated_results_have_no_slope(tmp_path: Path, rows: list[tuple[int, int, bool]], slope: bool, divisor: bool) -> None:
    _, summary = studied(games(*rows), tmp_path)
    assert summary.filter(statistic="slope", slice="all").is_empty() is not slope
    assert summary.filter(statistic="fitted_divisor", slice="all")["value"].drop_nulls().is_empty() is not divisor
