"""Rank correlation, exactly: whole numbers up to the last division, so that neither size nor order can change a digit."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Products of ranks are added in pieces that fit into 64 bits, and the pieces without a limit.
PIECE = 1024


def spearman(x: ArrayLike, y: ArrayLike) -> float | None:
    """Spearman's rank correlation, ties at their average rank: the correlation of the ranks (Spearman 1904).

    Args:
        x: float64 or integers `(n,)`, no NaN; n up to 10^7.
        y: likewise.

    Returns:
        In [-1, 1]; None when either has fewer than two different values.
    """
    a, b = _doubled_ranks(np.asarray(x)), _doubled_ranks(np.asarray(y))
    mean = a.size + 1  # of doubled ranks
    a, b = a - mean, b - mean
    squares = _sum_of_products(a, a), _sum_of_products(b, b)
    if not all(squares):
        return None
    return _share(_sum_of_products(a, b), squares[0] * squares[1])


def kendall(x: ArrayLike, y: ArrayLike) -> float | None:
    """Kendall's tau-b: pairs in the same order less pairs in the other one, over the pairs that are tied in neither (Kendall 1945).

    Discordant pairs are inversions of y in the order of (x, y), counted bit by bit: n log n steps, all of them on arrays.

    Args:
        x: float64 or integers `(n,)`, no NaN.
        y: likewise.

    Returns:
        In [-1, 1]; None when either has fewer than two different values.
    """
    a, b = _dense(np.asarray(x)), _dense(np.asarray(y))
    n = a.size
    order = np.lexsort((b, a))
    pairs = n * (n - 1) // 2
    tied_a, tied_b = _tied(a), _tied(b)
    tied_both = _tied(_dense(a * (int(b.max(initial=0)) + 1) + b))
    free_a, free_b = pairs - tied_a, pairs - tied_b
    if not free_a or not free_b:
        return None
    discordant = inversions(b[order])
    concordant = pairs - tied_a - tied_b + tied_both - discordant
    return _share(concordant - discordant, free_a * free_b)


def inversions(values: NDArray[np.int64]) -> int:
    """How many pairs stand in falling order; int64 `(n,)`, none negative.

    From the highest bit down: among values that agree in all higher bits, each 0 counts the 1s before it; then they are parted by
    that bit, in the order in which they stand.
    """
    found, values = 0, values.copy()
    for bit in reversed(range(int(values.max(initial=0)).bit_length())):
        ones = (values >> bit) & 1
        before = np.cumsum(ones) - ones
        high = values >> (bit + 1)
        starts = np.flatnonzero(np.r_[True, high[1:] != high[:-1]])
        group = np.repeat(starts, np.diff(np.r_[starts, values.size]))
        inside = before - before[group]
        found += int(inside[ones == 0].sum())
        # A stable parting within each group: zeros first, each kind in its order.
        zeros_in_group = np.add.reduceat(1 - ones, starts)
        zeros = np.repeat(zeros_in_group, np.diff(np.r_[starts, values.size]))
        position = np.arange(values.size) - group
        target = group + np.where(ones == 1, zeros + inside, position - inside)
        parted = np.empty_like(values)
        parted[target] = values
        values = parted
    return found


def _share(part: int, square: int) -> float:
    """`part` over the root of `square`, held in [-1, 1] against the last bit of the root."""
    return min(1.0, max(-1.0, part / math.sqrt(square)))


def _dense(values: NDArray[np.generic]) -> NDArray[np.int64]:
    """Position of each value among the different ones."""
    return np.asarray(np.unique(values, return_inverse=True)[1], np.int64)


def _doubled_ranks(values: NDArray[np.generic]) -> NDArray[np.int64]:
    """Twice the average rank from 1: whole numbers, also where values are tied."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((2 * ends - counts + 1)[inverse], np.int64)


def _tied(dense: NDArray[np.int64]) -> int:
    counts = np.bincount(dense)
    return int((counts * (counts - 1) // 2).sum())


def _sum_of_products(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    starts = np.arange(0, a.size, PIECE)
    return sum(np.add.reduceat(a * b, starts).tolist()) if a.size else 0
