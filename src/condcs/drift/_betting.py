r"""Conformal ranks and what is bet on them: the compiled loop of the drift detector.

A *score* of a row is a number that has the same distribution in all rows of a cell of x while p(y|x) stays. Cells come
in families, each of which divides all rows: one family of a single cell, and one for each column of x. In each cell the
score of a row is ranked among all scores seen there so far, ties broken at random. While the scores of a cell are
exchangeable these ranks, divided by their number, are independent and uniform (see docs/guide/drift.md).

A bet is a density on (0, 1): here, that of a normal variable of mean m and standard deviation s at the normal score z
of the rank, relative to the standard normal density. Each bet has a Shiryaev-Roberts sum,
:math:`R \leftarrow (R + 1) b(z)`, whose expectation after n bets is n under the hypothesis. Bets on a pattern have a
mean that depends on the cell (the level of all cells, or opposite signs at the two ends of a column); local bets look
at one cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.compiling import njit

FloatArray = np.ndarray[Any, Any]

LEVELS = 1024
"""Scores are rounded to so many levels, so that memory is constant; rounded scores are exchangeable too."""

_LEVEL_MEANS = (0.35, 0.8, 1.6, 2.6)
_SPREADS = (0.3, 0.6, 1.6, 2.5)
_SLOPES = (0.6, 1.3, 2.4)
_LOCAL_MEANS = (0.8, 1.6, 2.6)
_LOCAL_SPREADS = (0.3, 0.6, 1.8)

LEVEL, SPREAD, SLOPE = 0, 1, 2
"""What a bet is on."""


@dataclass(frozen=True)
class Bets:
    """The bets of all families.

    Attributes
    ----------
    shared : array, shape (families, j, cells of a family, 3)
        Coefficients of 1, z and z^2 in the logarithm of a density; NaN where a bet sleeps.
    shared_weights : array, shape (families, j)
        Weights.
    local : array, shape (l, 3)
        Bets in each single cell.
    local_weights : array, shape (families, l)
        Weights. With those of the shared bets they add up to 1 in each family.
    kinds, local_kinds : arrays of int
        What the bets are on.
    signs, local_signs : arrays of int
        1 for a rise, -1 for a fall.
    """

    shared: FloatArray
    shared_weights: FloatArray
    local: FloatArray
    local_weights: FloatArray
    kinds: FloatArray
    signs: FloatArray
    local_kinds: FloatArray
    local_signs: FloatArray


def make_bets(sizes: list[int], ordered: list[bool]) -> Bets:
    """Return the bets for families of so many cells; slopes are for those whose cells have an order."""
    rows: list[tuple[int, int, float]] = [(LEVEL, sign, m) for m in _LEVEL_MEANS for sign in (1, -1)]
    rows += [(SPREAD, 1 if s > 1 else -1, s) for s in _SPREADS]
    rows += [(SLOPE, sign, m) for m in _SLOPES for sign in (1, -1)]
    shared = np.full((len(sizes), len(rows), max(sizes), 3), np.nan)
    weights = np.zeros((len(sizes), len(rows)))
    for f, (size, in_order) in enumerate(zip(sizes, ordered, strict=True)):
        for j, (kind, sign, value) in enumerate(rows):
            if kind == SLOPE:
                if not in_order or size < 2:
                    continue
                along = np.linspace(-1, 1, size)
                for k in np.flatnonzero(np.abs(along) > 1e-9):
                    shared[f, j, k] = _normal(sign * value * along[k], 1.0)
            else:
                shared[f, j, :size] = _normal(sign * value, 1.0) if kind == LEVEL else _normal(0.0, value)
            weights[f, j] = 1.0
    local_rows = [(LEVEL, sign, m) for m in _LOCAL_MEANS for sign in (1, -1)]
    local_rows += [(SPREAD, 1 if s > 1 else -1, s) for s in _LOCAL_SPREADS]
    local = np.array([_normal(s * v, 1.0) if kind == LEVEL else _normal(0.0, v) for kind, s, v in local_rows])
    several = np.array([size > 1 for size in sizes], float)[:, None]
    local_weights = several * np.ones((len(sizes), len(local)))
    total = weights.sum(axis=1, keepdims=True) + local_weights.sum(axis=1, keepdims=True)
    return Bets(
        shared,
        weights / total,
        local,
        local_weights / total,
        np.array([kind for kind, _, _ in rows]),
        np.array([sign for _, sign, _ in rows]),
        np.array([kind for kind, _, _ in local_rows]),
        np.array([sign for _, sign, _ in local_rows]),
    )


def _normal(mean: float, deviation: float) -> tuple[float, float, float]:
    precision = deviation**-2
    return -math.log(deviation) - 0.5 * mean**2 * precision, mean * precision, 0.5 * (1 - precision)


def to_levels(scores: FloatArray) -> FloatArray:
    """Round scores, of spread about 1, to levels; the farther out, the coarser."""
    squashed = 0.5 + 0.5 * scores / (1 + np.abs(scores))
    return np.asarray(np.minimum((LEVELS * squashed).astype(np.int64), LEVELS - 1))


@njit(nogil=True)
def count_levels(levels: Any, cells: Any, trees: Any, totals: Any) -> None:
    """Count rows of levels (n, s), in cells (n, f), without a bet on them."""
    for t in range(levels.shape[0]):
        for s in range(levels.shape[1]):
            for f in range(cells.shape[1]):
                _insert(trees[s, cells[t, f]], levels[t, s])
                totals[s, cells[t, f]] += 1


@njit(nogil=True)
def _insert(tree: Any, level: int) -> None:
    """Count a level in a binary indexed tree."""
    i = level + 1
    while i <= LEVELS:
        tree[i] += 1
        i += i & -i


@njit(nogil=True)
def _below(tree: Any, level: int) -> float:
    """Return how many levels were counted below this one."""
    total, i = 0, level
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@njit(nogil=True)
def _normal_score(p: float) -> float:
    """Quantile of the standard normal distribution (Wichura's AS 241, seven digits)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = ((5.9109374720e1 * r + 1.5929113202e2) * r + 5.0434271938e1) * r + 3.3871327179
        return q * top / (((6.7187563600e1 * r + 7.8757757664e1) * r + 1.7895169469e1) * r + 1.0)
    r = math.sqrt(-math.log(p if q < 0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = ((1.7023821103e-1 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777
        value = top / ((1.2021132975e-1 * r + 7.3700164250e-1) * r + 1.0)
    else:
        r -= 5.0
        top = ((1.7337203997e-2 * r + 4.2868294337e-1) * r + 3.0812263860) * r + 6.6579051150
        value = top / ((1.2258202635e-2 * r + 2.4197894225e-1) * r + 1.0)
    return -value if q < 0 else value


@njit(nogil=True)
def bet(
    levels: Any,
    cells: Any,
    uniforms: Any,
    first_cells: Any,
    trees: Any,
    totals: Any,
    shared: Any,
    shared_weights: Any,
    local: Any,
    local_weights: Any,
    shared_sums: Any,
    local_sums: Any,
    normal_scores: Any,
    values: Any,
    threshold: float,
) -> int:
    """Take in rows until an alarm, and return how many were taken in.

    Parameters
    ----------
    levels : array, shape (n, s)
        Scores.
    cells : array, shape (n, f)
        The cell of each row in each family, counted through all families.
    uniforms : array, shape (n, s, f)
        For ties.
    first_cells : array, shape (f,)
        First cell of each family.
    trees, totals : arrays, shape (s, cells, LEVELS + 1) and (s, cells)
        Counts of the levels seen; changed.
    shared, shared_weights, local, local_weights : arrays
        See `Bets`.
    shared_sums, local_sums : arrays, shape (s, f, j) and (s, cells, l)
        Shiryaev-Roberts sums; changed.
    normal_scores : array, shape (n, s, f)
        Written: normal scores of the ranks.
    values : array, shape (s, f)
        Written: weighted sum of each family after the last row; an alarm is a value of at least `threshold`.
    """
    n, n_scores = levels.shape
    families = cells.shape[1]
    for t in range(n):
        alarm = False
        for s in range(n_scores):
            level = levels[t, s]
            for f in range(families):
                cell = cells[t, f]
                tree = trees[s, cell]
                below = _below(tree, level)
                equal = _below(tree, level + 1) - below
                p = (below + uniforms[t, s, f] * (equal + 1)) / (totals[s, cell] + 1)
                z = _normal_score(min(max(p, 1e-12), 1 - 1e-12))
                normal_scores[t, s, f] = z
                _insert(tree, level)
                totals[s, cell] += 1
                k = cell - first_cells[f]
                for j in range(shared.shape[1]):
                    a = shared[f, j, k, 0]
                    if a == a:
                        grown = (shared_sums[s, f, j] + 1) * math.exp(
                            a + z * (shared[f, j, k, 1] + z * shared[f, j, k, 2])
                        )
                        shared_sums[s, f, j] = grown
                value = 0.0
                for j in range(shared.shape[1]):
                    value += shared_weights[f, j] * shared_sums[s, f, j]
                if local_weights[f, 0] > 0:
                    for j in range(local.shape[0]):
                        grown = (local_sums[s, cell, j] + 1) * math.exp(
                            local[j, 0] + z * (local[j, 1] + z * local[j, 2])
                        )
                        local_sums[s, cell, j] = grown
                    last = first_cells[f + 1] if f + 1 < families else local_sums.shape[1]
                    for c in range(first_cells[f], last):
                        for j in range(local.shape[0]):
                            value += local_weights[f, j] * local_sums[s, c, j]
                values[s, f] = value
                if value >= threshold:
                    alarm = True
        if alarm:
            return t + 1
    return int(n)
