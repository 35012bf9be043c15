"""Axes with few round marks: no more than a phone's width can hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from eloreplay.report_parts import Axis, count, number

#: Marks an axis may have: six labels of four signs stand side by side on a phone.
MOST = 6


def step_of(span: float, most: int = MOST) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that cuts a span into at most `most` − 1 parts."""
    least = span / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(least))
    for digit in (1.0, 2.0, 2.5, 5.0, 10.0):
        if digit * power >= least * (1 - 1e-9):
            return digit * power
    return 10.0 * power


def digits_of(step: float) -> int:
    """Digits after the point that tell multiples of a step apart."""
    for digits in range(12):
        if math.isclose(round(step, digits), step, rel_tol=1e-9):
            return digits
    return 12


def round_axis(
    title: str,
    values: Sequence[float],
    *,
    show: Callable[[float], str] | None = None,
    least: float | None = None,
    most: float | None = None,
    marks: int = MOST,
    whole: bool = False,
) -> Axis:
    """An axis that holds all values, with few round marks.

    Args:
        title: what it measures.
        values: what it must hold; none makes it 0 to 1.
        show: how a mark is written.
        least: where it begins, whatever the values.
        most: where it may end at most.
        marks: how many it may have.
        whole: of things that are counted: no mark stands between two numbers.
    """
    low = min(values, default=0.0) if least is None else least
    high = max([*values, low], default=1.0)
    if not high > low:
        high = low + (abs(low) * 0.1 or 1.0)
        low = low if least is not None else low - (high - low)
    step = step_of(high - low, marks)
    if whole:
        step = max(1.0, 5.0 if step == 2.5 else step)
    # An axis may begin and end half way between two marks, so that little of it is empty.
    start, end = math.floor(2 * low / step + 1e-9) * step / 2, math.ceil(2 * high / step - 1e-9) * step / 2
    first, last = math.ceil(start / step - 1e-9), math.floor(end / step + 1e-9)
    if least is not None:
        start = least
    if most is not None:
        end = min(end, most)
    digits = digits_of(step)
    written = show or (lambda value: count(value) if digits == 0 else number(value, digits))
    ticks = [round(at * step, 12) for at in range(first, last + 1)]
    return Axis(title, start, end, [(tick, written(tick)) for tick in ticks if start - 1e-12 <= tick <= end + 1e-12])


def rate_axis(title: str, values: Sequence[float], *, least: float | None = None, marks: int = MOST) -> Axis:
    """An axis of rates from 0 to 1, marked in per cent, no wider than the values need and never beyond 0 and 1."""
    low = max(0.0, min(values, default=0.5)) if least is None else least
    axis = round_axis(title, [low, *(min(1.0, value) for value in values)] if values else [0.4, 1.0], most=1.0, marks=marks)
    digits = max(0, digits_of(axis.ticks[1][0] - axis.ticks[0][0]) - 2) if len(axis.ticks) > 1 else 0
    start = axis.low if least is None else least
    return Axis(title, max(0.0, start), axis.high, [(tick, f"{100 * tick:.{digits}f}%") for tick, _ in axis.ticks if tick >= start])


def spread_out(total: int, most: int) -> list[int]:
    """Up to `most` of the numbers 0 to `total` − 1, evenly spread, the first and the last among them."""
    if total <= most:
        return list(range(total))
    return sorted({round(at * (total - 1) / (most - 1)) for at in range(most)})
