r"""Conformal ranks of scores within cells of x, and what is bet on the ranks.

A *score* of a row is a number that has the same distribution in all rows of a cell of x while p(y|x) stays. In each
family of cells the score of a row is ranked among all scores seen so far in its cell, ties broken at random. While the
scores of every cell are exchangeable, the ranks of a family, divided by their number, are independent and uniform (see
docs/guide/drift.md).

A bet is a density on (0, 1): here, that of a normal variable of mean m and standard deviation s at the normal score z
of the rank, relative to the standard normal density. Each bet has a Shiryaev-Roberts sum,
:math:`R \leftarrow (R + 1) b(z)`, whose expectation after n bets is n under the hypothesis. There are bets on all
rows; on single regions; and on patterns, with opposite signs at the two ends of a column of numbers, or in opposite
corners of two of them. The bets on a label are on another logit of its probability, weighted by the probability that a
row of this rank has it.

If the inputs of the stream gather in a small part of a cell, its scores are no longer those of the whole cell. Such a
cell forgets what it has seen: from then on, rows that came there are ranked among themselves.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.compiling import njit
from condcs.drift._cells import GATHERING_ROWS

LEVELS = 256
"""Scores are rounded to so many levels, so that memory is constant; rounded scores are exchangeable too."""

_MEANS = (0.18, 0.35, 0.8, 1.6, 2.6)
_SPREADS = (0.3, 0.6, 1.3, 1.8, 2.6)
_PATTERN_MEANS = (0.6, 1.3, 2.4)
_LOCAL_MEANS = (0.5, 1.1, 2.2)
_LOCAL_SPREADS = (0.3, 0.6, 1.8)

_MOST_TRIALS = 100
"""In cells with more rows than this, a rank says exactly whether a row has a label."""

_TIES = 1024
"""Place of the first random number for ties; those before it are for labels."""

_LOGIT = 1.8
"""Shift of the logit of a label's probability for which a bet stands that moves normal scores by 1."""


class Bets(NamedTuple):
    """The bets and their weights.

    Attributes
    ----------
    overall : array, shape (j, 2)
        Bets on all rows, in the first family: mean and standard deviation of z.
    local : array, shape (l, 2)
        Bets on every single region.
    patterns : array, shape (k, 2)
        Bets on a pattern, where its height is 1.
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
    patterns: FloatArray
    heights: FloatArray
    overall_weight: float
    local_weights: FloatArray
    pattern_weights: FloatArray


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
    met : array, shape (cells, 2 + p)
        Of the inputs that the stream had in every cell, in units of their deviations: number, squared distances from
        the mean, and the mean.
    """

    trees: IntArray
    totals: IntArray
    overall: FloatArray
    local: FloatArray
    patterns: FloatArray
    won: FloatArray
    met: FloatArray


def make_bets(first: IntArray, heights: FloatArray, shares: FloatArray, singles: int) -> Bets:
    """Return the bets for families of given first regions and weights, and regions of given heights.

    Families up to the number of single columns have bets on their regions.
    """
    patterned = np.logical_or.reduceat(heights != 0, first[:-1])
    local = (np.diff(first) > 1) & (np.arange(len(shares)) <= singles)
    overall, single, pattern = _bets(_MEANS, _SPREADS), _bets(_LOCAL_MEANS, _LOCAL_SPREADS), _bets(_PATTERN_MEANS, ())
    weights = shares / np.maximum(len(single) * local + len(pattern) * patterned, 1)
    return Bets(
        overall,
        single,
        pattern,
        heights,
        shares[0] / len(overall),
        np.where(local, weights, 0.0),
        np.where(patterned, weights, 0.0),
    )


def _bets(means: tuple[float, ...], deviations: tuple[float, ...]) -> FloatArray:
    return np.array([(sign * mean, 1.0) for mean in means for sign in (1, -1)] + [(0.0, d) for d in deviations])


def overall_bets() -> FloatArray:
    """Return coefficients of 1, z and z^2 in the logarithms of the bets on all rows, for those on other streams."""
    means, deviations = _bets(_MEANS, _SPREADS).T
    constants = -np.log(deviations) - 0.5 * (means / deviations) ** 2
    return np.column_stack([constants, means / deviations**2, 0.5 * (1 - deviations**-2)])


def no_sums(scores: int, deviations: FloatArray, bets: Bets) -> Sums:
    """Return the sums of a stream that has not begun, with the deviations of `Cells`."""
    families, (cells, inputs) = len(bets.local_weights), deviations.shape
    return Sums(
        np.zeros((scores, cells, LEVELS + 1), np.int64),
        np.zeros((scores, cells), np.int64),
        np.zeros((scores, len(bets.overall))),
        np.zeros((scores, len(bets.heights), len(bets.local))),
        np.zeros((scores, families, len(bets.patterns))),
        np.zeros((scores, families)),
        np.zeros((cells, 2 + inputs)),
    )


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
def label_belief(p: float, total: int, chance: float) -> float:
    """Return the probability that a row of this rank has a label that x leads to expect with this chance.

    The score of a label is at least the (1 - chance)-quantile where the row has it. The quantile of the scores that is
    at place r of n + 1 has a beta distribution, which lies above 1 - chance with the probability that a binomial
    variable of n + 1 trials is at most r. Its mean over all places is the chance itself, as a density needs.
    """
    if total > _MOST_TRIALS:
        return 1.0 if p > 1 - chance else 0.0
    trials = total + 1
    last = min(int(p * trials), total)
    term = chance**trials
    belief = term
    for k in range(last):
        term *= (trials - k) * (1 - chance) / ((k + 1) * chance)
        belief += term
    return belief


@njit(nogil=True)
def log_density(mean: float, deviation: float, z: float, chance: float) -> float:
    """Return the logarithm of a bet at the normal score z of a rank.

    For labels, which have a chance (0 for numbers), z is the belief that the row has it, and bets are on another logit.
    """
    if chance == 0:
        if deviation == 1:
            return mean * (z - 0.5 * mean)
        return 0.5 * (z * z - ((z - mean) / deviation) ** 2) - math.log(deviation)
    odds = math.expm1(_LOGIT * mean)
    return math.log1p(z * odds) - math.log1p(chance * odds)


@njit(nogil=True)
def _grow(sums: Any, bets: Any, height: float, z: float, chance: float) -> float:
    """Take bets of means times a height, and return the sum of what they have won."""
    total = 0.0
    for j in range(len(sums)):
        sums[j] = (sums[j] + 1) * math.exp(log_density(height * bets[j, 0], bets[j, 1], z, chance))
        total += sums[j]
    return total


@njit(nogil=True)
def uniform(key: Any, row: int, place: int) -> float:
    """Return the random number of a row and a place, uniform in (0, 1): splitmix64 of a counter."""
    state = np.uint64(key) + (np.uint64(row) << np.uint64(20)) + np.uint64(place)
    state = state * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (float((state ^ (state >> np.uint64(31))) >> np.uint64(12)) + 0.5) * 2.0**-52


@njit(nogil=True)
def _has_gathered(met: Any, inputs: Any, deviations: Any, limits: Any) -> bool:
    """Add a row to what a cell has met; whether its rows turn out to lie in a small part of it."""
    met[0] += 1
    for c in range(len(inputs)):
        if deviations[c] > 0:
            value = inputs[c] / deviations[c]
            step = value - met[2 + c]
            met[2 + c] += step / met[0]
            met[1] += step * (value - met[2 + c])
    for k in range(len(GATHERING_ROWS)):
        if met[0] == GATHERING_ROWS[k] and met[1] < limits[k]:
            met[0] = GATHERING_ROWS[-1]  # asked no more
            return True
    return False


@njit(nogil=True)
def bet(
    scores: Any,
    chances: Any,
    known: Any,
    inputs: Any,
    cells: Any,
    regions: Any,
    places: Any,
    key: Any,
    numbers: Any,
    bets: Any,
    sums: Any,
    normal_scores: Any,
    threshold: float,
) -> int:
    """Rank scores (n, s) and bet on them until an alarm; return how many rows were taken in.

    Parameters
    ----------
    scores, chances : arrays, shape (n, s)
        Scores of rows, and of labels the probabilities that they were to be expected with (0 for numbers).
    known : array of bool, shape (n,)
        Other rows are passed over.
    inputs : array, shape (n, p)
        Rows of the design.
    cells, regions : arrays of int, shape (n, f)
        The cell and region of each row in each family, counted through all families.
    places : tuple
        First region of each family; deviations and limits of `Cells`.
    key : int
        Of the random numbers for ties.
    numbers : array of int, shape (n,)
        Numbers of the rows.
    bets : Bets
        The bets.
    sums : Sums
        Changed.
    normal_scores : array, shape (n, s, f)
        Written: normal scores of the ranks of those rows; for labels, beliefs.
    threshold : float
        An alarm is a weighted sum of the bets of a family of at least this.
    """
    n, n_scores = scores.shape
    first_regions, deviations, limits = places
    for t in range(n):
        if not known[t]:
            continue
        alarm = False
        for f in range(cells.shape[1]):
            cell = cells[t, f]
            if sums.met[cell, 0] < GATHERING_ROWS[-1] and _has_gathered(
                sums.met[cell], inputs[t], deviations[cell], limits[cell]
            ):
                sums.trees[:, cell] = 0
                sums.totals[:, cell] = 0
        for s in range(n_scores):
            level, chance = to_level(scores[t, s]), chances[t, s]
            for f in range(cells.shape[1]):
                cell, region = cells[t, f], regions[t, f]
                tree = sums.trees[s, cell]
                below = _below(tree, level)
                equal = _below(tree, level + 1) - below
                u = uniform(key, numbers[t], _TIES + s * cells.shape[1] + f)
                p = (below + u * (equal + 1)) / (sums.totals[s, cell] + 1)
                if chance > 0:
                    z = label_belief(p, sums.totals[s, cell], chance)
                else:
                    z = normal_score(min(max(p, 1e-12), 1 - 1e-12))
                normal_scores[t, s, f] = z
                _insert(tree, level)
                sums.totals[s, cell] += 1
                won = 0.0
                if f == 0:
                    won = bets.overall_weight * _grow(sums.overall[s], bets.overall, 1.0, z, chance)
                elif bets.local_weights[f] > 0:
                    _grow(sums.local[s, region], bets.local, 1.0, z, chance)
                    # Added up anew every time, so that no rounding error can pile up.
                    won = bets.local_weights[f] * sums.local[s, first_regions[f] : first_regions[f + 1]].sum()
                if bets.pattern_weights[f] > 0:
                    if bets.heights[region] != 0:
                        _grow(sums.patterns[s, f], bets.patterns, bets.heights[region], z, chance)
                    won += bets.pattern_weights[f] * sums.patterns[s, f].sum()
                sums.won[s, f] = won
                if won >= threshold:
                    alarm = True
        if alarm:
            return t + 1
    return int(n)
