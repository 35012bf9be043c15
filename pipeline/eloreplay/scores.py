"""Scores of one slice of a calibration study, from its counts: log loss, Brier score and its parts, calibration error, fits.

Games come grouped into cells of nearly one expected score (`sql/study_counts.sql`), every sum as a whole number, so that nothing
here depends on an order. All arrays are float64 of shape `(n_cells,)` unless said otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eloreplay.calibration import Z95, wilson

Floats = NDArray[np.float64]

LN10 = math.log(10.0)
#: The fitted divisor is found as a slope on points / SCALE, so that the numbers in the fit are about 1.
SCALE = 1000.0
#: Bins of the calibration error: ten, equally wide, on [0.5, 1]; each is two probability bins of the curve.
ERROR_BINS = 10
#: Steps of Newton before a fit is given up; one that exists takes about ten. Where results are separated no slope is the best,
#: each step adds one to the logits, and they must not come to where rates are 0 and 1 in floats, which looks like an end.
STEPS = 30


@dataclass(frozen=True)
class Cells:
    """The games of one slice.

    Attributes:
        games: games of each cell.
        draws: of these drawn.
        points: what the favourites got, a draw half; of a cell without a favourite, half a point a game.
        expected: sum of the favourites' expected scores.
        logit: sum of their logits.
        point_logit: sum of logit times points.
        loss: sum of the log losses.
        squared: sum of the Brier scores.
        divisor: of the rule version.
        probability_bin: int, bin of the curve, 0.025 wide from 0.5; -1 without a favourite.
    """

    games: Floats
    draws: Floats
    points: Floats
    expected: Floats
    logit: Floats
    point_logit: Floats
    loss: Floats
    squared: Floats
    divisor: Floats
    probability_bin: NDArray[np.int64]

    def favoured(self) -> Cells:
        """The cells that have a favourite."""
        keep = self.probability_bin >= 0
        return Cells(**{name: values[keep] for name, values in vars(self).items()})


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval; None where it is not determined."""

    value: float | None
    low: float | None = None
    high: float | None = None
    games: int | None = None


@dataclass(frozen=True)
class Fit:
    """Logistic regression of the favourites' results on one or two columns.

    Attributes:
        coefficients: shape `(n_columns,)`.
        covariance: shape `(n_columns, n_columns)`, the inverse of the information: games as if independent.
    """

    coefficients: Floats
    covariance: Floats

    def interval(self, column: int, covariance: Floats | None = None) -> tuple[float, float, float]:
        """Value and 95 % interval (Wald) of one coefficient, by this covariance or by the fit's own."""
        own = self.covariance if covariance is None else covariance
        value, spread = float(self.coefficients[column]), Z95 * math.sqrt(float(own[column, column]))
        return value, value - spread, value + spread


def logistic(columns: list[Floats], games: Floats, totals: list[float]) -> Fit | None:
    """Maximum likelihood of `P(favourite wins) = 1 / (1 + exp(-(columns · coefficients)))` by Newton's method.

    Draws are half a win, the likelihood then a quasi-likelihood (Papke and Wooldridge 1996, J. Appl. Econometrics 11: 619-632).
    None when there is no single finite best: no games, columns that do not differ, results that are separated.

    Args:
        columns: what the result is fitted on, one array a column, a cell's mean.
        games: of each cell.
        totals: sum over games of result times column, for each column: exact, also where a cell's games differ a little.
    """
    if not len(games):
        return None
    target = np.array(totals)
    at = np.zeros(len(columns))

    # Sums over cells, not products of matrices: how a library splits those over threads could show in the last bit.
    def line(coefficients: Floats) -> Floats:
        return np.asarray(sum(value * column for value, column in zip(coefficients, columns, strict=True)))

    def likelihood(coefficients: Floats) -> float:
        return float((target * coefficients).sum() - (games * np.logaddexp(0.0, line(coefficients))).sum())

    best = likelihood(at)
    for _ in range(STEPS):
        rate = 0.5 * (1.0 + np.tanh(0.5 * line(at)))
        weight = games * rate * (1.0 - rate)
        information = np.array([[(one * other * weight).sum() for other in columns] for one in columns])
        scale = np.sqrt(np.diag(information))
        if not (scale > 0).all() or np.linalg.cond(information / np.outer(scale, scale)) > 1e10:
            return None
        step = np.linalg.solve(information, target - np.array([(column * games * rate).sum() for column in columns]))
        if np.abs(step).max() <= 1e-11 * (1.0 + np.abs(at).max()):
            return Fit(at + step, np.asarray(np.linalg.inv(information), np.float64))
        for _ in range(STEPS):
            found = likelihood(at + step)
            if found >= best - 1e-12 * abs(best):
                break
            step = step / 2
        at, best = at + step, found
    return None


def calibration_fit(cells: Cells) -> Fit | None:
    """Intercept and slope: logit of the favourite's result on the logit of his expected score (Cox 1958, Biometrika 45: 562-565).

    A slope of 1 with intercept 0 is a curve that tells the truth; a slope below 1 promises the favourites too much.
    """
    logit = cells.logit / cells.games
    return logistic([np.ones_like(logit), logit], cells.games, [math.fsum(cells.points), math.fsum(cells.point_logit)])


def divisor_fit(cells: Cells) -> Fit | None:
    """Slope without intercept on logit · divisor / `SCALE`, so that the divisor that fits is `SCALE` / slope.

    Logit · divisor is what the rule's formula divides, times ln 10: the gap in points (times the match length's root, where the
    rules have it). So games of versions with different divisors have one fit.
    """
    scale = cells.divisor / SCALE
    return logistic([cells.logit / cells.games * scale], cells.games, [math.fsum(cells.point_logit * scale)])


def fitted_divisor(fit: Fit | None, covariance: Floats | None = None) -> tuple[float | None, float | None, float | None]:
    """The divisor under which the games are likeliest, and its interval; None where no positive divisor is, or no end to it."""
    if fit is None:
        return None, None, None
    value, low, high = fit.interval(0, covariance)
    return _divisor(value), _divisor(high), _divisor(low)


def _divisor(slope: float) -> float | None:
    return SCALE / slope if slope > 0 else None


#: Every name that `scores` may give: a study tells by them which rows of a summary come from counts.
SCORE_NAMES = (
    "games",
    "draws",
    "games_without_favourite",
    "log_loss",
    "brier_score",
    "brier_reliability",
    "brier_resolution",
    "brier_uncertainty",
    "brier_within_bins",
    "favourite_real_rate",
    "accuracy",
    "favourite_expected_rate",
    "calibration_error",
    "intercept",
    "slope",
    "fitted_divisor",
    "divisor",
)


def scores(cells: Cells) -> dict[str, Estimate]:
    """Every figure of one slice by its name in `summary` (see `docs/outputs.md`); intervals as if games were independent."""
    favoured = cells.favoured()
    games, led = int(cells.games.sum()), int(favoured.games.sum())
    found = {
        "games": Estimate(games, games=games),
        "draws": Estimate(float(cells.draws.sum()), games=games),
        "games_without_favourite": Estimate(games - led, games=games),
    }
    if not games:
        return found
    for name, total, moment in (
        ("log_loss", cells.loss, _square_mean(cells, log=True)),
        ("brier_score", cells.squared, _square_mean(cells, log=False)),
    ):
        mean = math.fsum(total) / games
        spread = Z95 * math.sqrt(max(0.0, moment - mean * mean) / games)
        found[name] = Estimate(mean, mean - spread, mean + spread, games)
    found |= {name: Estimate(value, games=games) for name, value in brier_parts(cells).items()}
    if not led:
        return found
    wins = float(favoured.points.sum())
    low, high = wilson(wins, led)
    rate = Estimate(wins / led, low, high, led)
    found |= {
        "favourite_real_rate": rate,
        "accuracy": rate,
        "favourite_expected_rate": Estimate(math.fsum(favoured.expected) / led, games=led),
        "calibration_error": Estimate(calibration_error(favoured), games=led),
    }
    fit = calibration_fit(favoured)
    for column, name in enumerate(("intercept", "slope")):
        value, low, high = (None, None, None) if fit is None else fit.interval(column)
        found[name] = Estimate(value, low, high, led)
    value, low, high = fitted_divisor(divisor_fit(favoured))
    found["fitted_divisor"] = Estimate(value, low, high, led)
    divisors = np.unique(cells.divisor)
    if len(divisors) == 1:
        found["divisor"] = Estimate(float(divisors[0]), games=games)
    return found


def binned(values: Floats, bins: NDArray[np.int64], n_bins: int) -> Floats:
    """Sum of a column by bin, shape `(n_bins,)`."""
    return np.bincount(bins, weights=values, minlength=n_bins).astype(np.float64)


def calibration_error(favoured: Cells) -> float:
    """Expected calibration error: mean distance of real and expected rate over ten bins, weighted by games.

    Source: Naeini, Cooper and Hauskrecht 2015, AAAI 29: 2901-2907; here on the favourites, so on [0.5, 1].
    """
    bins = favoured.probability_bin // 2
    gaps = np.abs(binned(favoured.points - favoured.expected, bins, ERROR_BINS))
    return math.fsum(gaps) / float(favoured.games.sum())


def brier_parts(cells: Cells) -> dict[str, float]:
    """The Brier score as reliability - resolution + uncertainty + what lies within bins.

    Both sides of every game are counted, so that games without a favourite belong to it and the mean result is one half: the
    uncertainty is 0.25, that of a coin, less what draws take from it. Bins are those of the curve, and their mirror images. The
    last part is due to forecasts that differ within a bin; the four add up to the score.

    Sources: Murphy 1973, J. Appl. Meteorol. 12: 595-600; for the last part Stephenson, Coelho and Jolliffe 2008, Weather and
    Forecasting 23: 752-757.
    """
    total = float(cells.games.sum())
    bins = cells.probability_bin + 1
    games, points = binned(cells.games, bins, 21), binned(cells.points, bins, 21)
    forecasts = binned(cells.expected, bins, 21)
    # Without a favourite the forecast is one half, and so is the result of the two sides together.
    forecasts[0] = points[0] = games[0] / 2
    full = games > 0
    forecast, real = forecasts[full] / games[full], points[full] / games[full]
    reliability = math.fsum(games[full] * (forecast - real) ** 2) / total
    resolution = math.fsum(games[full] * (real - 0.5) ** 2) / total
    uncertainty = 0.25 * (1.0 - float(cells.draws.sum()) / total)
    score = math.fsum(cells.squared) / total
    return {
        "brier_reliability": reliability,
        "brier_resolution": resolution,
        "brier_uncertainty": uncertainty,
        "brier_within_bins": score - (reliability - resolution + uncertainty),
    }


def _square_mean(cells: Cells, *, log: bool) -> float:
    """Mean of the squared losses, for their spread: from each cell's mean logit, which all its games have to 1/256."""
    logit = np.where(cells.probability_bin >= 0, cells.logit / np.maximum(cells.games, 1.0), 0.0)
    win, lose = np.logaddexp(0.0, -logit), np.logaddexp(0.0, logit)
    draw = (win + lose) / 2
    if not log:
        expected = 0.5 * (1.0 + np.tanh(0.5 * logit))
        win, lose, draw = (1.0 - expected) ** 2, expected**2, (0.5 - expected) ** 2
    wins = cells.points - cells.draws / 2
    losses = cells.games - cells.draws - wins
    return math.fsum(wins * win**2 + losses * lose**2 + cells.draws * draw**2) / math.fsum(cells.games)


def curve_bins() -> pl.DataFrame:
    """Every bin of the curve's two axes: axis, bin (its number in the queries), bin_low, bin_high (None: open above)."""
    gaps = [("gap", i, i * 25.0, (i + 1) * 25.0 if i < 20 else None) for i in range(21)]
    probabilities = [("probability", i, (20 + i) / 40.0, (21 + i) / 40.0) for i in range(20)]
    schema = {"axis": pl.String, "bin": pl.Int8, "bin_low": pl.Float64, "bin_high": pl.Float64}
    return pl.DataFrame([*gaps, *probabilities], schema=schema, orient="row")
