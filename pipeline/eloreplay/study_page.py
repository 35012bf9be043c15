"""A calibration study as a page for a person."""

from __future__ import annotations

import textwrap
from pathlib import Path

import polars as pl

from eloreplay.calibrate import StudyResult
from eloreplay.console import printable
from eloreplay.report import page_line
from eloreplay.report_terms import Interval, divisor_verdict
from eloreplay.study import SLICES

TITLES = {
    "version": "By rule version",
    "cube": "By cube",
    "match_length": "By match length",
    "strength": "By the favourite's strength (decile of the month's ratings, 10 the strongest)",
    "heavy": "By k (heavy: a side's k is reduced)",
    "experience": "By games before (of the side with fewer)",
    "month": "By month",
}
#: Values shown of a slice; of months the last.
SHOWN = 12
NARROW = "95 % intervals, as if games were independent; players repeat, so the truth is less sure: --bootstrap gives wider ones"
POOLS_SHOWN = 3
WIDTH = 120


def page(out: Path, result: StudyResult) -> str:
    """What a study found: the whole, each slice, the strongest players, the weeks, and where the tables are."""
    summary, run = result.summary, result.manifest["run"]
    rules = printable(result.manifest["rules"]["name"], 60)
    lines = [f"Calibration of {printable(run['folder'], 200)} under the rules {rules}"]
    if "pool" in summary.columns:
        pools = result.calibration["pool"].unique().sort().to_list()
        for pool in pools[:POOLS_SHOWN]:
            lines += ["", f"Pool {printable(pool)}"]
            lines += _one(summary.filter(pl.col("pool").eq_missing(pl.lit(pool))))
        if len(pools) > POOLS_SHOWN:
            lines += ["", f"… and {len(pools) - POOLS_SHOWN} more pools, in the tables"]
    else:
        lines += _one(summary)
    lines += [
        "",
        "A curve below the diagonal comes from too small a divisor or from restless ratings: compare rules on the same games.",
        f"The curves are in {out / 'calibration.parquet'}, all figures in {out / 'summary.parquet'}",
        *page_line(result.folder, out),
    ]
    return "\n".join(lines)


class _Figures:
    """Figures by statistic, slice and value; the clustered interval of one where there is one."""

    def __init__(self, summary: pl.DataFrame) -> None:
        self.rows = {(r["statistic"], r["slice"], r["slice_value"]): r for r in summary.iter_rows(named=True)}
        self.clustered = any(name.endswith("_cluster") for name, _, _ in self.rows)

    def values(self, slice_: str, statistic: str = "games") -> list[str]:
        found = [value for name, part, value in self.rows if part == slice_ and name == statistic]
        return sorted(found, key=_natural)

    def value(self, statistic: str, key: tuple[str, str] = ("all", "")) -> float | None:
        row = self.rows.get((statistic, *key))
        return None if row is None else row["value"]

    def games(self, statistic: str) -> int:
        return int(self.rows[(statistic, "all", "")]["games"] or 0)

    def interval(self, statistic: str) -> Interval:
        row = self.rows.get((f"{statistic}_cluster", "all", "")) or self.rows.get((statistic, "all", ""))
        return (None, None) if row is None else (row["low"], row["high"])

    def text(self, statistic: str, form: str, key: tuple[str, str] = ("all", ""), interval: bool = True) -> str:
        row = self.rows.get((f"{statistic}_cluster", *key)) or self.rows.get((statistic, *key))
        if row is None or all(row[name] is None for name in ("value", "low", "high")):
            return "–"
        value, low, high = (None if row[name] is None else _plain(row[name], form) for name in ("value", "low", "high"))
        if value is None:
            return (
                f"cannot be told (from {low} {'up' if high is None else f'to {high}'})" if low else f"cannot be told (up to {high})"
            )
        if not interval or (low is None and high is None):
            return value
        return f"{value} ({low or '…'} – {high or '…'})"


def _plain(value: float, form: str) -> str:
    """A number in a format; what rounds to 0 has no sign."""
    shown = format(value, form)
    return shown if any(char in "123456789" for char in shown) else shown.replace("-", "").replace("+", "")


def _natural(value: str) -> tuple[float, str]:
    digits = value.split("-")[0].rstrip("+")
    return (float(digits), value) if digits.isdecimal() else (float("inf"), value)


def _one(summary: pl.DataFrame) -> list[str]:
    figures = _Figures(summary)
    games, without = figures.value("games"), figures.value("games_without_favourite")
    if not games or without is None:
        return ["", "  no rated game"]
    kind = "95 % intervals respect that players repeat" if figures.clustered else NARROW
    lines = [
        "",
        f"  {games:,.0f} rated games, {games - without:,.0f} of them with a favourite ({kind})",
        f"  favourites: expected {figures.text('favourite_expected_rate', '.2%')}, "
        f"real {figures.text('favourite_real_rate', '.2%')}",
        f"  log loss {figures.text('log_loss', '.4f')}; a coin has 0.6931",
        f"  Brier score {figures.text('brier_score', '.4f')} = reliability {figures.text('brier_reliability', '.4f')} − resolution "
        f"{figures.text('brier_resolution', '.4f')} + uncertainty {figures.text('brier_uncertainty', '.4f')} + within bins "
        f"{figures.text('brier_within_bins', '.4f')}",
        f"  calibration error {figures.text('calibration_error', '.2%')}" + _luck(figures),
        f"  slope {figures.text('slope', '.3f')}, intercept {figures.text('intercept', '.3f')}; 1 and 0 tell the truth",
        f"  divisor that fits {figures.text('fitted_divisor', ',.0f')}" + _divisor(figures),
        *textwrap.wrap(_verdict(figures), WIDTH, initial_indent="    ", subsequent_indent="    "),
    ]
    for name in SLICES:
        lines += _slice(figures, name)
    lines += _strongest(figures) + _weeks(figures) + _pool(figures)
    return lines


def _luck(figures: _Figures) -> str:
    luck = figures.text("calibration_error_by_luck", ".2%")
    return "" if luck == "–" else f"; luck alone would show {luck}"


def _verdict(figures: _Figures) -> str:
    fitted, slope = figures.interval("fitted_divisor"), figures.interval("slope")
    return "" if fitted == slope == (None, None) else divisor_verdict(figures.value("divisor"), fitted, slope)


def _divisor(figures: _Figures) -> str:
    own = figures.value("divisor")
    return "" if own is None else f"; the rules divide by {own:,.0f}"


def _slice(figures: _Figures, name: str) -> list[str]:
    values = figures.values(name)
    if len(values) < 2:
        # One value is the whole over again.
        return []
    shown = values[-SHOWN:] if name == "month" else values[:SHOWN]
    width = max(8, *(len(printable(value)) for value in shown))
    head = f"  {'':<{width}}  {'games':>11}  {'expected':>8}  {'real':<24}  {'log loss':>8}  {'slope':>7}  divisor that fits"
    lines = ["", TITLES[name], head]
    for value in shown:
        key = (name, value)
        lines.append(
            f"  {printable(value):<{width}}  {figures.value('games', key):>11,.0f}  "
            f"{figures.text('favourite_expected_rate', '.1%', key):>8}  {figures.text('favourite_real_rate', '.1%', key):<24}  "
            f"{figures.text('log_loss', '.4f', key, False):>8}  {figures.text('slope', '.3f', key, False):>7}  "
            f"{figures.text('fitted_divisor', ',.0f', key)}"
        )
    if len(values) > len(shown):
        lines.append(f"  … and {len(values) - len(shown)} more, in the tables")
    return lines


def _strongest(figures: _Figures) -> list[str]:
    sides = 2 * (figures.value("games") or 0)
    lines = [
        f"  {title:<24}expected {figures.text(f'{name}_expected_rate', '.2%')}, real {figures.text(f'{name}_real_rate', '.2%')}"
        for name, title in (("strongest_decile", "top tenth of ratings"), ("strongest_100", "first 100 of the month"))
        # Where everybody is among the first hundred they win half of their games, as everybody does.
        if figures.value(f"{name}_real_rate") is not None and figures.games(f"{name}_real_rate") < 0.9 * sides
    ]
    return ["", "The strongest players, in all their games", *lines] if lines else []


def _weeks(figures: _Figures) -> list[str]:
    values = figures.values("week", "weekly_swing")
    if not values:
        return []
    lines = ["", "A player's week, by its games and k: how far the rating moved (root of the mean square)"]
    for value in values:
        key = ("week", value)
        lines.append(
            f"  {value:<16}{figures.text('weekly_swing', ',.1f', key):>9} points  "
            f"{figures.value('player_weeks', key):>11,.0f} player-weeks"
        )
    return lines


def _pool(figures: _Figures) -> list[str]:
    if figures.value("active_players") is None:
        return []
    games, sides = (figures.text(f"reduced_k_{name}_share", ".2%", interval=False) for name in ("games", "sides"))
    reduced = (
        [f"  k was reduced in {games} of the games, for {sides} of the sides"] if figures.value("reduced_k_games_share") else []
    )
    return [
        "",
        *reduced,
        f"  points created {figures.text('points_created', '+,.0f')}, by games of unequal k "
        f"{figures.text('points_created_by_unequal_k', '+,.0f')}",
        f"  active at the end: {figures.value('active_players'):,.0f} players, "
        f"mean {figures.text('active_rating_mean', ',.0f')}, median {figures.text('active_rating_median', ',.0f')}, "
        f"middle half {figures.text('active_rating_middle_half_width', ',.0f')} points wide",
    ]
