r"""Conformal ranks and what is bet on them: the compiled loop of the drift detector.

A *score* of a row is a number that has the same distribution in all rows of a cell of x while p(y|x) stays. There are
several *families* of cells, each of which divides the space of x: into regions (of a column, say), and every region
into small cells. In each family the score of a row is ranked among all scores seen so far in its cell, ties broken at
random. While the scores of every cell are exchangeable, the ranks of a family, divided by their number, are independent
and uniform (see docs/guide/drift.md).

A bet is a density on (0, 1): here, that of a normal variable of mean m and standard deviation s at the normal score z
of the rank, relative to the standard normal density. Each bet has a Shiryaev-Roberts sum,
:math:`R \leftarrow (R + 1) b(z)`, whose expectation after n bets is n under the hypothesis. There are bets on all
rows; on single regions, which are fifths of a column of numbers or the labels of another one; and on patterns, with
opposite signs at the two ends of a column of numbers, or in opposite corners of two of them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs._core.compiling import njit

FloatArray = np.ndarray[Any, Any]

LEVELS = 256
"""Scores are rounded to so many levels, so that memory is constant; rounded scores are exchangeable too."""

_LEVEL_MEANS = (0.18, 0.35, 0.8, 1.6, 2.6)
_SPREADS = (0.3, 0.6, 1.3, 1.8, 2.6)
_PATTERN_MEANS = (0.6, 1.3, 2.4)
_LOCAL_MEANS = (0.5, 1.1, 2.2)
_LOCAL_SPREADS = (0.3, 0.6, 1.8)

LEVEL, SPREAD = 0, 1
"""What a bet on all rows or on a region is on."""


class Bets(NamedTuple):
    """The bets and their weights.

    Attributes
    ----------
    overall : array, shape (j, 3)
        Bets on all rows, in the first family: coefficients of 1, z and z^2 in the logarithms of their densities.
    local : array, shape (l, 3)
        Bets on every single region.
    means : array, shape (k,)
        Means of the bets on a pattern, where its height is 1.
    heights : array, shape (regions,)
        Heights of the patterns: from -1 to 1 along a column, products of these for two of them; 0 where there is none.
    overall_weight : float
        Weight of each bet on all rows.
    local_weights, pattern_weights : array, shape (f,)
        Weight of each bet of a family on a region and on its pattern. A row takes part in the bets of one region of
        a family, so that the weights of its bets add up to at most 1 over all families.
    """

    overall: FloatArray
    local: FloatArray
    means: FloatArray
    heights: FloatArray
    overall_weight: float
    local_weights: FloatArray
    pattern_weights: FloatArray


class BetKinds(NamedTuple):
    """What bets are on, and their signs: 1 for a rise, -1 for a fall."""

    overall: FloatArray
    overall_signs: FloatArray
    local: FloatArray
    local_signs: FloatArray


class Sums(NamedTuple):
    """What has been seen and won; changed by `bet`.

    Attributes
    ----------
    trees, totals : arrays of int, shape (s, cells, LEVELS + 1) and (s, cells)
        Counts of the levels seen in every cell, as binary indexed trees.
    overall, local, patterns : arrays, shape (s, j), (s, regions, l) and (s, f, k)
        Shiryaev-Roberts sums.
    won : array, shape (s, f)
        Weighted sums of the bets of each family; an alarm is one that reaches the threshold.
    """

    trees: FloatArray
    totals: FloatArray
    overall: FloatArray
    local: FloatArray
    patterns: FloatArray
    won: FloatArray


def make_bets(first: FloatArray, heights: FloatArray, shares: FloatArray, singles: int) -> Bets:
    """Return the bets.

    Parameters
    ----------
    first : array, shape (f + 1,)
        First region of each family, and their number.
    heights : array, shape (regions,)
        Of the patterns.
    shares : array, shape (f,)
        Weights of the families.
    singles : int
        Families up to this one, of a single column, have bets on their regions.
    """
    patterned = np.logical_or.reduceat(heights != 0, first[:-1])
    local = (np.diff(first) > 1) & (np.arange(len(shares)) <= singles)
    weights = shares / np.maximum(len(_LOCAL_BETS) * local + len(_PATTERN_BETS) * patterned, 1)
    return Bets(
        overall_bets(),
        _densities(_LOCAL_BETS),
        np.array(_PATTERN_BETS),
        heights,
        shares[0] / len(_OVERALL_BETS),
        np.where(local, weights, 0.0),
        np.where(patterned, weights, 0.0),
    )


def overall_bets() -> FloatArray:
    """Return the bets on all rows, as in `Bets`."""
    return _densities(_OVERALL_BETS)


def bet_kinds() -> BetKinds:
    """Return what the bets of `make_bets` are on."""
    return BetKinds(
        *(np.array([bet[part] for bet in bets]) for bets in (_OVERALL_BETS, _LOCAL_BETS) for part in (0, 1))
    )


def no_sums(scores: int, cells: int, bets: Bets) -> Sums:
    """Return the sums of a stream that has not begun."""
    families = len(bets.local_weights)
    return Sums(
        np.zeros((scores, cells, LEVELS + 1), np.int64),
        np.zeros((scores, cells), np.int64),
        np.zeros((scores, len(bets.overall))),
        np.zeros((scores, len(bets.heights), len(bets.local))),
        np.zeros((scores, families, len(bets.means))),
        np.zeros((scores, families)),
    )


def _normal(mean: float, deviation: float) -> tuple[float, float, float]:
    precision = deviation**-2
    return -math.log(deviation) - 0.5 * mean**2 * precision, mean * precision, 0.5 * (1 - precision)


def _densities(bets: list[tuple[int, int, float]]) -> FloatArray:
    return np.array([_normal(s * v, 1.0) if kind == LEVEL else _normal(0.0, v) for kind, s, v in bets])


def _levels_and_spreads(means: tuple[float, ...], spreads: tuple[float, ...]) -> list[tuple[int, int, float]]:
    found = [(LEVEL, sign, m) for m in means for sign in (1, -1)]
    return found + [(SPREAD, 1 if s > 1 else -1, s) for s in spreads]


_OVERALL_BETS = _levels_and_spreads(_LEVEL_MEANS, _SPREADS)
_LOCAL_BETS = _levels_and_spreads(_LOCAL_MEANS, _LOCAL_SPREADS)
_PATTERN_BETS = [sign * m for m in _PATTERN_MEANS for sign in (1, -1)]


@njit(nogil=True)
def to_level(score: float) -> int:
    """Round a score, of spread about 1, to a level; the farther out, the coarser."""
    return min(int(LEVELS * (0.5 + 0.5 * score / (1 + abs(score)))), LEVELS - 1)


@njit(nogil=True)
def count_scores(scores: Any, cells: Any, trees: Any, totals: Any) -> None:
    """Count scores (n, s) of rows in cells (n, f), without a bet on them."""
    for t in range(scores.shape[0]):
        for s in range(scores.shape[1]):
            for f in range(cells.shape[1]):
                _insert(trees[s, cells[t, f]], to_level(scores[t, s]))
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
def normal_score(p: float) -> float:
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
def _grow(sums: Any, densities: Any, z: float) -> float:
    """Take a bet at each of some densities, and return the sum of what they have won."""
    total = 0.0
    for j in range(len(sums)):
        sums[j] = (sums[j] + 1) * math.exp(densities[j, 0] + z * (densities[j, 1] + z * densities[j, 2]))
        total += sums[j]
    return total


@njit(nogil=True)
def bet(
    scores: Any,
    known: Any,
    cells: Any,
    regions: Any,
    uniforms: Any,
    first_regions: Any,
    bets: Any,
    sums: Any,
    normal_scores: Any,
    threshold: float,
) -> int:
    """Take in rows until an alarm, and return how many were taken in.

    Parameters
    ----------
    scores : array, shape (n, s)
        Scores.
    known : array of bool, shape (n,)
        Which rows are bet on.
    cells, regions : arrays, shape (n, f)
        The cell and the region of each row in each family, counted through all families.
    uniforms : array, shape (n, s, f)
        For ties.
    first_regions : array, shape (f + 1,)
        First region of each family, and their number.
    bets : Bets
        The bets.
    sums : Sums
        Changed.
    normal_scores : array, shape (n, s, f)
        Written: normal scores of the ranks of those rows.
    threshold : float
        An alarm is a weighted sum of the bets of a family of at least this.
    """
    n, n_scores = scores.shape
    for t in range(n):
        if not known[t]:
            continue
        alarm = False
        for s in range(n_scores):
            level = to_level(scores[t, s])
            for f in range(cells.shape[1]):
                cell, region = cells[t, f], regions[t, f]
                tree = sums.trees[s, cell]
                below = _below(tree, level)
                equal = _below(tree, level + 1) - below
                p = (below + uniforms[t, s, f] * (equal + 1)) / (sums.totals[s, cell] + 1)
                z = normal_score(min(max(p, 1e-12), 1 - 1e-12))
                normal_scores[t, s, f] = z
                _insert(tree, level)
                sums.totals[s, cell] += 1
                won = 0.0
                if f == 0:
                    won = bets.overall_weight * _grow(sums.overall[s], bets.overall, z)
                elif bets.local_weights[f] > 0:
                    _grow(sums.local[s, region], bets.local, z)
                    # Added up anew every time, so that no rounding error can pile up.
                    won = bets.local_weights[f] * sums.local[s, first_regions[f] : first_regions[f + 1]].sum()
                if bets.pattern_weights[f] > 0:
                    height, sums_of = bets.heights[region], sums.patterns[s, f]
                    if height != 0:
                        for j in range(len(sums_of)):
                            mean = height * bets.means[j]
                            sums_of[j] = (sums_of[j] + 1) * math.exp(mean * (z - 0.5 * mean))
                    won += bets.pattern_weights[f] * sums_of.sum()
                sums.won[s, f] = won
                if won >= threshold:
                    alarm = True
        if alarm:
            return t + 1
    return int(n)
