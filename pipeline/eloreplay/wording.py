"""Numbers, names and instants in the sentences that answer a question about a game or a player."""

from __future__ import annotations

import math
from typing import Any

from eloreplay.boards import to_the_second
from eloreplay.console import printable

ID_WIDTH = 40


def name(value: Any) -> str:
    """An id in a sentence."""
    return printable(value, ID_WIDTH)


def number(value: float, decimals: int = 4) -> str:
    """A number without needless decimals."""
    return f"{value:,.0f}".replace(",", "") if value == math.floor(value) else f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def rating(value: float) -> str:
    """A rating: whole under whole rules, else two decimals."""
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def signed(value: float, decimals: int = 2) -> str:
    """A change with its sign; whole numbers without decimals."""
    if isinstance(value, int):
        return f"{value:+d}" if value else "0"
    return f"{value:+.{decimals}f}"


def moved(value: float) -> str:
    """A change in a sentence, with a real minus."""
    return signed(value, 4).replace("-", "−")


def when(text: str | None) -> str:
    """An instant for a sentence."""
    return "at an unknown instant" if text is None else f"{to_the_second(text).replace('T', ' ').removesuffix('Z')} UTC"


def games(count: int) -> str:
    """A number of games."""
    return f"{count:,} game" + ("" if count == 1 else "s")


def span(hours: float) -> str:
    """A length of time: days where it is whole days."""
    return f"{number(hours / 24)} days" if hours % 24 == 0 else f"{number(hours)} hours"


def points(value: float) -> str:
    """A number of points."""
    return f"{number(value)} point" + ("" if value == 1 else "s")
