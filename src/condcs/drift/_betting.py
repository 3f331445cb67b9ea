r"""Conformal ranks of scores within cells of x, and what is bet on the ranks.

A *score* of a row is a number that has the same distribution in all rows of a cell of x while p(y|x) stays. In each
family of cells the score of a row is ranked among all scores seen so far in its cell, ties broken at random. While the
scores of every cell are exchangeable, the ranks of a family, divided by their number, are independent and uniform (see
docs/guide/drift.md).

A bet is a density on (0, 1): here, that of a normal variable of mean m and standard deviation s at the normal score z
of the rank, relative to the standard normal density. Each bet has a Shiryaev-Roberts sum,
:math:`R \leftarrow (R + 1) b(z)`, whose expectation after n bets is n under the hypothesis. There are bets on all
rows; on single regions; and on patterns, with opposite signs at the two ends of a column of numbers, or in opposite
corners of two of them. The bets on a label are on another logit of its probability.

Rows that came after a change join the comparison, so that what a rank shows of the change fades as the share of rows
before it in the cell. Half of the bets stay as they are; the others fade with it. As it is not known when the change
began, *epochs*, each as long as all rows before it, have sums of their own, for changes that begin in them.

If the inputs of the stream gather in a small part of a cell, its scores are no longer those of the whole cell. Such a
cell forgets what it has seen: from then on, rows that came there are ranked among themselves.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.compiling import inner, njit
from condcs.drift._cells import GATHERING_ROWS

LEVELS = 256
"""Scores are rounded to so many levels, so that memory is constant; rounded scores are exchangeable too."""

_MEANS = (0.18, 0.35, 0.8, 1.6, 2.6)
_SPREADS = (0.3, 0.6, 1.3, 1.8, 2.6)
_PATTERN_MEANS = (0.6, 1.3, 2.4)
_LOCAL_MEANS = (0.5, 1.1, 2.2)
_LOCAL_SPREADS = (0.3, 0.6, 1.8)

EPOCHS = 2
"""Epochs whose bets go on; the oldest one ends when a new one begins."""

_ALWAYS = 2**62

_TIES = 1024
"""Place of the first random number for ties; those before it are for labels."""

_LOGIT = 1.8
"""Shift of the logit of a label's probability for which a bet stands that moves normal scores by 1."""


class Bets(NamedTuple):
    """The bets and their weights, for k regions in f families.

    A row takes part in the bets of one region of a family, so that the weights of its bets add up to at most 1 over all
    families.
    """

    # On all rows, in the first family, and on every single region of others: mean and standard deviation of z.
    overall: FloatArray  # (j, 2)
    local: FloatArray  # (l, 2)
    # On a pattern, where its height is 1: from -1 to 1 along a column, products of these for two, 0 where none.
    patterns: FloatArray  # (m, 2)
    heights: FloatArray  # (k,)
    # Of each bet of a family, for scores of numbers, and of labels, which have no bets on spread.
    local_weights: FloatArray  # (2, f)
    pattern_weights: FloatArray  # (2, f)


class Sums(NamedTuple):
    """What has been seen and won of s scores; changed by `bet`."""

    # Counts of the levels seen in every cell, as binary indexed trees, and of all of them.
    trees: IntArray  # (s, cells, LEVELS + 1)
    totals: IntArray  # (cells,)
    # What the totals were when an epoch began; the last ones, for bets that do not fade, are larger than any total.
    before: IntArray  # (EPOCHS + 1, cells)
    # Rows so far with those of the reference, how many they were when the present epoch began, and its number.
    clock: IntArray  # (3,)
    # Shiryaev-Roberts sums of every epoch, and of bets that do not fade. The first region is that of all rows.
    local: FloatArray  # (s, regions, EPOCHS + 1, j)
    patterns: FloatArray  # (s, f, EPOCHS + 1, m)
    # Weighted sums of the bets of each family; an alarm is one that reaches the threshold.
    won: FloatArray  # (s, f)
    # Of the stream's inputs in every cell, in units of their deviations: number, squared distances from the mean, mean.
    met: FloatArray  # (cells, 2 + p)


def make_bets(first: IntArray, heights: FloatArray, shares: FloatArray, singles: int) -> Bets:
    """Return the bets for families of given first regions and weights, and regions of given heights.

    Families up to the number of single columns have bets on their regions.
    """
    patterned = np.logical_or.reduceat(heights != 0, first[:-1])
    local = (np.diff(first) > 1) & (np.arange(len(shares)) <= singles)
    overall, single, pattern = _bets(_MEANS, _SPREADS), _bets(_LOCAL_MEANS, _LOCAL_SPREADS), _bets(_PATTERN_MEANS, ())
    counts = np.array([[[len(own)], [np.sum(own[:, 1] == 1)]] for own in (overall, single, pattern)])
    weights = shares / np.maximum(counts[1] * local + counts[2] * patterned, 1)
    weights[:, 0] = shares[0] / counts[0, :, 0]
    local[0] = True
    return Bets(overall, single, pattern, heights, np.where(local, weights, 0.0), np.where(patterned, weights, 0.0))


def _bets(means: tuple[float, ...], deviations: tuple[float, ...]) -> FloatArray:
    return np.array([(sign * mean, 1.0) for mean in means for sign in (1, -1)] + [(0.0, d) for d in deviations])


def overall_bets() -> FloatArray:
    """Return coefficients of 1, z and z^2 in the logarithms of the bets on all rows, for those on other streams."""
    means, deviations = _bets(_MEANS, _SPREADS).T
    constants = -np.log(deviations) - 0.5 * (means / deviations) ** 2
    return np.column_stack([constants, means / deviations**2, 0.5 * (1 - deviations**-2)])


def no_sums(scores: int, deviations: FloatArray, bets: Bets) -> Sums:
    """Return the sums of a stream that has not begun, with the deviations of `Cells`."""
    families, (cells, inputs) = bets.local_weights.shape[1], deviations.shape
    before = np.zeros((EPOCHS + 1, cells), np.int64)
    before[EPOCHS] = _ALWAYS
    return Sums(
        np.zeros((scores, cells, LEVELS + 1), np.int64),
        np.zeros(cells, np.int64),
        before,
        np.zeros(3, np.int64),
        np.zeros((scores, len(bets.heights), EPOCHS + 1, len(bets.overall))),
        np.zeros((scores, families, EPOCHS + 1, len(bets.patterns))),
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
    for t in range(cells.shape[0]):
        for cell in cells[t]:
            totals[cell] += 1
            for s in range(scores.shape[1]):
                _insert(trees[s, cell], to_level(scores[t, s]))


@inner()
def _insert(tree: Any, level: int) -> None:
    """Count a level in a binary indexed tree."""
    i = level + 1
    while i <= LEVELS:
        tree[i] += 1
        i += i & -i


@inner()
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
    """Return how far a rank among so many others speaks for a label; its mean is the share of rows that have it.

    Rows with the label have the highest scores. Their share among so many rows varies like that of a binomial variable,
    for which a ramp stands around the rank from which on rows are expected to have it.
    """
    half = min(math.sqrt(3 * chance * (1 - chance) / (total + 2)), chance, 1 - chance)
    return min(max(0.5 + 0.5 * (p - (1 - chance)) / half, 0.0), 1.0)


@njit(nogil=True)
def density(mean: float, deviation: float, place: float, chance: float, total: int, fade: float) -> float:
    """Return a bet on a change, if a share `fade` of the other rows of the cell, so many, came before it.

    For numbers, which have no chance, the place is the normal score of a rank. For labels it is the rank itself, and
    the bet is on another logit of the chance.
    """
    if chance == 0:
        if deviation == 1:
            return math.exp(fade * mean * (place - 0.5 * fade * mean))
        faded = 1 + fade * (deviation - 1)
        return math.exp(0.5 * place * place * (1 - 1 / (faded * faded))) / faded
    odds = math.exp(_LOGIT * mean)
    after = chance * odds / (1 - chance + chance * odds)
    mixed = fade * chance + (1 - fade) * after
    belief: float = label_belief(place, total, mixed)
    return belief * after / mixed + (1 - belief) * (1 - after) / (1 - mixed)


@inner()
def share_before(before: int, total: int) -> float:
    """Return the share of the rows of a cell that came before an epoch."""
    return min(before / total, 1.0) if total > 0 else 0.0


@inner()
def _grow(
    sums: Any, bets: Any, height: float, place: float, chance: float, total: int, before: Any, epoch: int
) -> None:
    """Take bets of means times a height, of which half of a new beginning is for the present epoch."""
    for e in range(len(sums)):
        fade = share_before(before[e], total)
        for j in range(len(bets)):
            if chance > 0 and bets[j, 1] != 1:  # bets on spread, the last ones
                break
            if e in (epoch, EPOCHS):
                sums[e, j] += 0.5
            if sums[e, j] > 0 and fade > 0:
                sums[e, j] *= density(height * bets[j, 0], bets[j, 1], place, chance, total, fade)


@inner()
def _total(sums: Any, start: int, stop: int) -> float:
    """Return what was won by the bets of some regions or families."""
    total = 0.0
    for r in range(start, stop):
        for e in range(sums.shape[1]):
            for j in range(sums.shape[2]):
                total += sums[r, e, j]
    return total


@inner()
def _pass_time(sums: Any) -> int:
    """Count a row, and begin an epoch if it is time; return the place of the sums of the present one."""
    if sums.clock[0] >= 2 * sums.clock[1]:
        sums.clock[1] = sums.clock[0]
        sums.clock[2] += 1
        place = sums.clock[2] % EPOCHS
        for cell in range(len(sums.totals)):
            sums.before[place, cell] = sums.totals[cell]
        for own in (sums.local, sums.patterns):
            for s in range(own.shape[0]):
                for r in range(own.shape[1]):
                    for j in range(own.shape[3]):
                        own[s, r, place, j] = 0.0
    sums.clock[0] += 1
    return int(sums.clock[2] % EPOCHS)


@njit(nogil=True)
def uniform(key: Any, row: int, place: int) -> float:
    """Return the random number of a row and a place, uniform in (0, 1): splitmix64 of a counter."""
    state = np.uint64(key) + (np.uint64(row) << np.uint64(20)) + np.uint64(place)
    state = state * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (float((state ^ (state >> np.uint64(31))) >> np.uint64(12)) + 0.5) * 2.0**-52


@inner()
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


@inner()
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
    ranked: Any,
    threshold: float,
) -> int:
    """Rank scores (n, s) and bet on them until an alarm; return how many rows were taken in.

    An alarm is a weighted sum of the bets of a family that reaches the threshold. Rows that are not `known` (n,) are
    passed over; the others change `sums`, and the normal scores of their ranks (for labels, the ranks) are written to
    `ranked` (n, s, f). `chances` (s, cells) are mean probabilities of labels, 0 for scores of numbers; `inputs` (n, p)
    rows of the design; `cells` and `regions` (n, f) where these are, counted through all families; `places` the first
    region of each family, and deviations and limits of `Cells`; `key` and `numbers` (n,) choose the random numbers.
    """
    n, n_scores = scores.shape
    first_regions, deviations, limits = places
    for t in range(n):
        if not known[t]:
            continue
        alarm = False
        epoch = _pass_time(sums)
        for f in range(cells.shape[1]):
            cell = cells[t, f]
            if sums.met[cell, 0] < GATHERING_ROWS[-1] and _has_gathered(
                sums.met[cell], inputs[t], deviations[cell], limits[cell]
            ):
                for s in range(n_scores):
                    for level in range(LEVELS + 1):
                        sums.trees[s, cell, level] = 0
                sums.totals[cell] = 0
                for e in range(EPOCHS):
                    sums.before[e, cell] = 0
        for s in range(n_scores):
            level = to_level(scores[t, s])
            for f in range(cells.shape[1]):
                cell, region = cells[t, f], regions[t, f]
                tree, chance = sums.trees[s, cell], chances[s, cell]
                total, before, kind = sums.totals[cell], sums.before[:, cell], int(chance > 0)
                below = _below(tree, level)
                equal = _below(tree, level + 1) - below
                u = uniform(key, numbers[t], _TIES + s * cells.shape[1] + f)
                place = (below + u * (equal + 1)) / (total + 1)
                if not kind:
                    place = normal_score(min(max(place, 1e-12), 1 - 1e-12))
                ranked[t, s, f] = place
                _insert(tree, level)
                # Sums are added up anew every time, so that no rounding error can pile up.
                won = 0.0
                if bets.local_weights[kind, f] > 0:
                    own = bets.local if f else bets.overall
                    _grow(sums.local[s, region], own, 1.0, place, chance, total, before, epoch)
                    won = bets.local_weights[kind, f] * _total(sums.local[s], first_regions[f], first_regions[f + 1])
                if bets.pattern_weights[kind, f] > 0:
                    height = bets.heights[region]
                    if height != 0:
                        _grow(sums.patterns[s, f], bets.patterns, height, place, chance, total, before, epoch)
                    won += bets.pattern_weights[kind, f] * _total(sums.patterns[s], f, f + 1)
                sums.won[s, f] = won
                if won >= threshold:
                    alarm = True
        for cell in cells[t]:
            sums.totals[cell] += 1
        if alarm:
            return t + 1
    return int(n)
