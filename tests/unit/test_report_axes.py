"""Axes and the other small parts of a page."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eloreplay.report_axes import MOST, rate_axis, round_axis, spread_out, step_of
from eloreplay.report_parts import Axis, Figure, Mark, Plot, Series, count, number, share
from eloreplay.report_players import histogram

VALUES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 3)), min_size=1, max_size=20)


@given(VALUES, st.integers(3, MOST))
def test_an_axis_holds_its_values_with_few_different_marks(values: list[float], marks: int) -> None:
    axis = round_axis("points", values, marks=marks)
    assert all(axis.holds(value) and -1e-6 <= axis.at(value) <= 100 + 1e-6 for value in values)
    assert 1 <= len(axis.ticks) <= marks
    assert len({text for _, text in axis.ticks}) == len(axis.ticks)
    assert all(axis.holds(at) for at, _ in axis.ticks)
    steps = {round(b - a, 9) for (a, _), (b, _) in zip(axis.ticks, axis.ticks[1:], strict=False)}
    assert len(steps) <= 1 or math.isclose(min(steps), max(steps), rel_tol=1e-6)
    # Little is empty: at most half a step at each end.
    if len(axis.ticks) > 1 and max(values) > min(values):
        step = axis.ticks[1][0] - axis.ticks[0][0]
        assert min(values) - axis.low <= 0.5 * step * 1.001
        assert axis.high - max(values) <= 0.5 * step * 1.001


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20))
def test_what_is_counted_has_whole_marks(values: list[int]) -> None:
    axis = round_axis("games", [float(value) for value in values], least=0.0, whole=True)
    assert axis.low == 0
    assert all(at == int(at) and text == f"{at:,.0f}" for at, text in axis.ticks)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_rates_stay_between_0_and_1(values: list[float]) -> None:
    axis = rate_axis("won", values)
    assert 0 <= axis.low < axis.high <= 1
    assert all(axis.holds(value) for value in values)
    assert all(text.endswith("%") for _, text in axis.ticks)


@pytest.mark.parametrize(
    ("span", "step"), [(10, 2), (5, 1), (4.9, 1), (5.1, 2), (12, 2.5), (25, 5), (26, 10), (0.05, 0.01), (1e6, 2e5)]
)
def test_steps_are_round(span: float, step: float) -> None:
    assert step_of(span) == pytest.approx(step)


def test_marks_are_spread_out() -> None:
    assert spread_out(3, 4) == [0, 1, 2]
    assert spread_out(12, 4) == [0, 4, 7, 11]
    assert spread_out(1, 4) == [0]
    assert spread_out(0, 4) == []


@given(st.lists(st.integers(-500, 5000), min_size=1, max_size=300), st.floats(0, 400))
def test_a_histogram_counts_everybody_once(ratings: list[int], middle: float) -> None:
    bins, width = histogram(pl.Series(ratings, dtype=pl.Float64), middle)
    assert sum(players for _, players in bins) == len(ratings)
    assert len(bins) <= 112
    assert width == int(width) >= 1
    for low, players in bins:
        assert players == sum(low <= rating < low + width for rating in ratings)
    assert bins[0][1] > 0
    assert bins[-1][1] > 0


def test_numbers_as_people_read_them() -> None:
    assert [count(1234567), count(-12), count(None), count(0)] == ["1,234,567", "−12", "–", "0"]
    assert [number(-0.00001, 2, sign=True), number(1.5, 1, sign=True), number(-1234.5, 1)] == ["0.00", "+1.5", "−1,234.5"]
    assert [share(0.5), share(0.57654, 2), share(None)] == ["50.0%", "57.65%", "–"]


def test_a_figure_says_where_it_stands() -> None:
    figure = Figure(0.1 + 0.2, "0.3", ("summary", {"slice": "ä"}, "value"))
    assert figure.machine == "0.30000000000000004"
    assert figure.origin == '["summary",{"slice":"ä"},"value"]'
    assert Figure(None, "–", ("manifest", ["a"])).machine == "null"


def test_dots_that_the_axes_do_not_reach_are_counted() -> None:
    axis = Axis("", 0.0, 1.0, [])
    dots = Series("real", "dots", 1, [Mark(0.5, 0.5), Mark(0.5, 1.5), Mark(-1, 0.5), Mark(1.0, 0.0)])
    line = Series("expected", "line", 2, [Mark(0.5, 9.0)])
    assert Plot("p", "t", "a", axis, axis, [dots, line]).outside == 2
    assert [axis.clamped(value, 0.25) for value in (None, -1, 0.5, 3)] == [0.25, 0.0, 0.5, 1.0]
