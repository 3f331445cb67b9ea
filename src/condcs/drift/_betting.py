r"""Conformal ranks of scores within cells of x, and what is bet on the ranks: `bet_on_row`, to be read first.

A *score* of a row is a number that has the same distribution in all rows of a cell of x while p(y|x) stays. In each
family of regions the score of a row is ranked among all scores seen so far in its cell, ties broken at random. While
the scores of every cell are exchangeable, the ranks of a family, divided by their number, are independent and uniform
(see docs/guide/drift.md). Nothing here knows how scores are made.

A bet is a density on (0, 1): here, that of a normal variable of mean m and standard deviation s at the normal score z
of the rank, relative to the standard normal density. Each bet has a Shiryaev-Roberts sum,
:math:`R \leftarrow (R + 1) b(z)`, whose expectation after n bets is n under the hypothesis. There are bets on all
rows; on single regions; and on patterns (`_patterns`), whose means are multiples of the height of a region. The bets on
a label are on another logit of its probability. The *value* of a family is the weighted sum of its bets' sums. What
decides on an alarm is the *largest* value of all scores and families, not their sum: the threshold rests on a union
bound over them, because the ranks of one row in several families determine each other.

Rows that came after a change join the comparison, so that what a rank shows of the change fades as the share of rows
before it in the cell. Half of the bets stay as they are; the others fade with it. As it is not known when the change
began, *epochs*, each as long as all rows before it, have sums of their own, for changes that begin in them.

If the inputs of the stream gather in a small part of a cell, its scores are no longer those of the whole cell. Such a
cell forgets what it has seen: from then on, rows that came there are ranked among themselves.

To bet on another mean or spread, add it to the tuples below; to add a pattern, see `_patterns`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.compiling import inner, njit
from condcs._core.errors import ShapeError
from condcs._core.vocabulary import named
from condcs.drift._cells import GATHERING_ROWS, Family, Regions
from condcs.drift._patterns import heights_of

SCORE_LEVELS = 256
"""Scores are rounded to so many levels, so that memory is constant; rounded scores are exchangeable too. Levels are
0.008 of a spread apart in the middle, where scores are dense."""

_MEANS = (0.18, 0.35, 0.8, 1.6, 2.6)
"""Shifts of the mean of z that are bet on, in either direction, on all rows. Where the mean is a, a bet on m earns
m a - m^2 / 2 a row; neighbours differ by a factor of about two, so that for any a in their range one of them earns more
than four fifths of the most, a^2 / 2. Means below 0.18 are worth less than 0.02 a row, and the 14 that an alarm takes
are hundreds of rows."""

_SPREADS = (0.3, 0.6, 1.3, 1.8, 2.6)
"""Standard deviations of z that are bet on, on all rows."""

_REGION_MEANS, _REGION_SPREADS = (0.5, 1.1, 2.2), (0.3, 0.6, 1.8)
"""The same for a single region. Fewer, because the weight of a family is divided among them; and none small, because a
region has too few rows in the reference to rank a small change (`A small change in few rows` in the guide)."""

_PATTERN_MEANS = (0.6, 1.3, 2.4)
"""Shifts of the mean of z at height 1 of a pattern; on average over its regions they are about half."""

EPOCHS = 2
"""Epochs whose bets go on; the oldest one ends when a new one begins. With one, a change shortly before a new epoch
would lose its sums; two cover the second half of the stream at least."""

_NOT_FADING = EPOCHS
"""Index, after those of the epochs, of the sums of bets that do not fade."""

_ALWAYS = 2**62
"""More rows than any cell will have: all of them count as those before a change that does not fade."""

DRAWS, LABEL_DRAWS = 2**20, 1024
"""Random numbers of a row, and how many of these are for scores of labels, one for each target. Those after them are
for ties, one for each score and family. `check_draws` is asked whether they suffice."""

_LOGIT = 1.8
"""Shift of the logit of a label's probability for which a bet stands that moves normal scores by 1: a logistic variable
has the standard deviation pi / sqrt(3) = 1.81."""

OUTERMOST = 1e-12
"""Ranks are kept this far from 0 and 1, whose normal scores are infinite; that of 1e-12 is 7."""


MEAN, DEVIATION = 0, 1
"""Columns of an array of bets: of the normal variable that z is bet to be."""


class Bets(NamedTuple):
    """The bets and their weights, for k regions in f families.

    There are j bets on a region at most, and m on each of a family's patterns, of which there are P at most. A row
    takes part in the bets of one region of a family, so that the weights of its bets add up to at most 1 over all
    families. A bet with mean 0 and deviation 1 is asleep: it would win and lose nothing.
    """

    # On every single region: mean and standard deviation of z.
    regions: FloatArray  # (k, j, 2)
    # On patterns, in every region: `_PATTERN_MEANS` of either sign, times the height of the region, for each in turn.
    patterns: FloatArray  # (k, P m, 2)
    # Weight of each bet of a family, for scores of numbers and of labels, which have no bets on spread.
    region_weights: FloatArray  # (2, f)
    pattern_weights: FloatArray  # (2, f)
    first_regions: IntArray  # (f + 1,), first region of each family


CLOCK_ROWS, CLOCK_EPOCH_ROWS, CLOCK_EPOCH = range(3)
"""Entries of `Sums.clock`."""

_INPUTS_COUNT, _INPUTS_SCATTER, _INPUTS_MEAN = range(3)
"""Columns of `Sums.inputs`; the last one is the first of p."""


class Sums(NamedTuple):
    """What has been seen and won of s scores; changed by `bet_on_row`."""

    # Counts of the levels seen in every cell, as binary indexed trees, and of all of them.
    trees: IntArray  # (s, cells, SCORE_LEVELS + 1)
    totals: IntArray  # (cells,)
    # What the totals were when an epoch began; the last ones, for bets that do not fade, are `_ALWAYS`.
    epoch_totals: IntArray  # (EPOCHS + 1, cells)
    # Rows so far with those of the reference, how many they were when the present epoch began, and its number: see
    # `CLOCK_ROWS`.
    clock: IntArray  # (3,)
    # Shiryaev-Roberts sums of the bets of every epoch, and of those that do not fade: on regions, and on patterns.
    regions: FloatArray  # (s, k, EPOCHS + 1, j)
    patterns: FloatArray  # (s, f, EPOCHS + 1, P m)
    # Value of each family, the weighted sum of its bets' sums. The largest one decides on an alarm.
    values: FloatArray  # (s, f)
    # Of the stream's inputs in every cell, in units of their deviations: number, squared distances from the mean, mean.
    # See `_INPUTS_COUNT`.
    inputs: FloatArray  # (cells, 2 + p)


class RowBatch(NamedTuple):
    """Rows that have been scored, and where over x they are."""

    scores: FloatArray  # (n, s)
    inputs: FloatArray  # (n, p), rows of the design
    regions: IntArray  # (n, f), counted through all families
    cells: IntArray  # (n, f)
    usable_numbers: IntArray  # (n,), number of each row among those that can be used, which chooses its random numbers


class CellGeometry(NamedTuple):
    """What is known of the cells before the stream begins."""

    deviations: FloatArray  # (cells, p), of the inputs in a cell; 0 for indicators of labels
    limits: FloatArray  # (cells, 3), scatter of inputs below which they have gathered
    is_label: BoolArray  # (s,), whether a score is that of a label
    chances: FloatArray  # (s, cells), of scores of labels: mean probability of the label


def make_bets(regions: Regions) -> Bets:
    """Return the bets on regions and their patterns.

    The share of a family is divided evenly among the bets that a row in it takes part in, so that the weights of one
    row add up to at most 1, as the threshold requires (step 3 of the proof in the guide).
    """
    overall = signed_bets(_MEANS, _SPREADS)  # (j, 2)
    single = signed_bets(_REGION_MEANS, _REGION_SPREADS)  # fewer than j
    steps = pattern_steps()  # (m,)
    region_bets, pattern_bets = [], []
    region_weights, pattern_weights = np.zeros((2, len(regions.families))), np.zeros((2, len(regions.families)))
    for f, family in enumerate(regions.families):
        bets = _bets_on_each_region(family, overall, single)
        asleep = np.tile([0.0, 1.0], (len(overall) - len(bets), 1))
        region_bets += [np.vstack([bets, asleep])] * family.n_regions
        heights = heights_of(family.patterns, family.regions_by_column)  # (regions, P)
        means = (heights[:, :, None] * steps).reshape(family.n_regions, -1)  # (regions, P m)
        pattern_bets.append(np.stack([means, np.ones_like(means)], axis=2))
        n_patterns = int(np.sum((heights != 0).any(axis=0)))
        for is_label in (0, 1):
            # Labels have no bets on spread.
            n_region_bets = int(np.sum(bets[:, DEVIATION] == 1)) if is_label else len(bets)
            n_pattern_bets = n_patterns * len(steps)
            weight = regions.shares[f] / max(n_region_bets + n_pattern_bets, 1)
            region_weights[is_label, f] = weight * (n_region_bets > 0)
            pattern_weights[is_label, f] = weight * (n_pattern_bets > 0)
    return Bets(
        regions=np.array(region_bets),
        patterns=np.vstack(pattern_bets),
        region_weights=region_weights,
        pattern_weights=pattern_weights,
        first_regions=regions.first_regions,
    )


def _bets_on_each_region(family: Family, overall: FloatArray, single: FloatArray) -> FloatArray:
    """Return the mean and deviation of the bets on a single region of a family.

    There are none where they would repeat those on all rows, and none on combinations of thirds, of which the reference
    has few rows: these have their pattern.
    """
    if not family.columns:
        return overall
    return single if len(family.columns) == 1 and family.n_regions > 1 else single[:0]


def signed_bets(means: Sequence[float], deviations: Sequence[float]) -> FloatArray:
    """Return mean and standard deviation of bets (j, 2): each mean with either sign, then each deviation."""
    on_mean = [(sign * mean, 1.0) for mean in means for sign in (1, -1)]
    on_spread = [(0.0, deviation) for deviation in deviations]
    return np.array([*on_mean, *on_spread])


def pattern_steps() -> FloatArray:
    """Return the mean of z at height 1 of the bets on one pattern (m,)."""
    return signed_bets(_PATTERN_MEANS, ())[:, MEAN]


def overall_bets() -> FloatArray:
    """Return coefficients of 1, z and z^2 in the logarithms of the bets on all rows, for those on other streams."""
    means, deviations = signed_bets(_MEANS, _SPREADS).T
    constants = -np.log(deviations) - 0.5 * (means / deviations) ** 2
    return np.column_stack([constants, means / deviations**2, 0.5 * (1 - deviations**-2)])


def no_sums(n_scores: int, n_cells: int, n_inputs: int, bets: Bets) -> Sums:
    """Return the sums of a stream that has not begun."""
    n_families = bets.region_weights.shape[1]
    epoch_totals = np.zeros((EPOCHS + 1, n_cells), np.int64)
    epoch_totals[_NOT_FADING] = _ALWAYS
    return Sums(
        trees=np.zeros((n_scores, n_cells, SCORE_LEVELS + 1), np.int64),
        totals=np.zeros(n_cells, np.int64),
        epoch_totals=epoch_totals,
        clock=np.zeros(3, np.int64),
        regions=np.zeros((n_scores, len(bets.regions), EPOCHS + 1, bets.regions.shape[1])),
        patterns=np.zeros((n_scores, n_families, EPOCHS + 1, bets.patterns.shape[1])),
        values=np.zeros((n_scores, n_families)),
        inputs=np.zeros((n_cells, 2 + n_inputs)),
    )


def check_draws(n_label_draws: int, n_ranks: int) -> None:
    """Raise a ShapeError if a row needs more random numbers than it has: its ranks would not be independent.

    One for each target up to the last that is a label, and one for each rank, of a score in a family of regions.
    """
    for what, needed, most in (
        (f"columns and labels of {named('y_ref')}", n_label_draws, LABEL_DRAWS),
        (f"scores of {named('y_ref')} times families of regions of {named('x_ref')}", n_ranks, DRAWS - LABEL_DRAWS),
    ):
        if needed > most:
            raise ShapeError(f"{what} must be at most {most:,}, got {needed:,}. Watch fewer columns with one detector.")


class RankedScore(NamedTuple):
    """A score that has been ranked among those seen so far in its cell: what bets win or lose by."""

    outcome: float  # what is bet on: the normal score of the rank; of labels the rank itself
    is_label: bool
    chance: float  # mean probability of the label in the cell
    n_others: int  # number of scores it was ranked among
    fades: FloatArray  # (EPOCHS + 1,), share of these that came before each epoch; 1 for bets that do not fade


@inner()
def bet_on_row(batch: Any, i: int, geometry: Any, bets: Any, key: Any, sums: Any, outcomes: Any) -> Any:
    """Rank the scores of row i and bet on the ranks; return the largest value of a family.

    `sums` change, and what was bet on is written to `outcomes` (s, f).
    """
    # Arrays are taken out of the tuples once: in the loops each access costs as much as a bet.
    scores, cells, regions, number = batch.scores[i], batch.cells[i], batch.regions[i], batch.usable_numbers[i]
    trees, totals, epoch_totals, values = sums.trees, sums.totals, sums.epoch_totals, sums.values
    region_sums, region_bets = sums.regions, bets.regions
    pattern_sums, pattern_bets = sums.patterns, bets.patterns
    first_regions, chances = bets.first_regions, geometry.chances
    n_scores, n_families = outcomes.shape
    fades = np.empty(EPOCHS + 1)
    # 1. An epoch begins whenever there are twice as many rows as when the last one did.
    epoch = pass_time(sums)
    # 2. A cell whose inputs turn out to gather in a small part of it forgets the scores of the rest; once.
    for cell in cells:
        if sums.inputs[cell, _INPUTS_COUNT] < GATHERING_ROWS[-1]:
            forget_if_gathered(batch.inputs[i], cell, geometry, sums)
    largest_value = 0.0
    for s in range(n_scores):
        is_label = geometry.is_label[s]
        region_weights, pattern_weights = bets.region_weights[int(is_label)], bets.pattern_weights[int(is_label)]
        for f in range(n_families):
            cell, region, total = cells[f], regions[f], totals[cells[f]]
            # 3. Rank the score among those seen so far in the cell of the row, ties at random.
            u = uniform(key, number, LABEL_DRAWS + s * n_families + f)
            rank = rank_and_count(trees[s, cell], scores[s], total, u)
            outcome = rank if is_label else normal_score(min(max(rank, OUTERMOST), 1 - OUTERMOST))
            outcomes[s, f] = outcome
            for e in range(EPOCHS + 1):
                fades[e] = earlier_share(epoch_totals[e, cell], total)
            ranked = RankedScore(outcome, is_label, chances[s, cell], total, fades)
            # 4. Multiply the sums of the bets on the row's region, and of those on patterns of the family's regions.
            #    The value of the family is added up anew every time, so that no rounding error can pile up.
            value = 0.0
            if region_weights[f] > 0:
                grow(region_sums[s, region], region_bets[region], ranked, epoch)
                value = region_weights[f] * sum_of_bets(region_sums[s], first_regions[f], first_regions[f + 1])
            if pattern_weights[f] > 0:
                grow(pattern_sums[s, f], pattern_bets[region], ranked, epoch)
                value += pattern_weights[f] * sum_of_bets(pattern_sums[s], f, f + 1)
            values[s, f] = value
            # 5. The largest value of a score and family decides on an alarm.
            largest_value = max(largest_value, value)
    # The row counts for those after it. (Its levels have been counted where it was ranked.)
    for cell in cells:
        totals[cell] += 1
    return largest_value


@inner()
def pass_time(sums: Any) -> int:
    """Count a row, and begin an epoch if it is time; return the index of the sums of the present one."""
    clock = sums.clock
    if clock[CLOCK_ROWS] >= 2 * clock[CLOCK_EPOCH_ROWS]:
        clock[CLOCK_EPOCH_ROWS] = clock[CLOCK_ROWS]
        clock[CLOCK_EPOCH] += 1
        oldest = clock[CLOCK_EPOCH] % EPOCHS  # its sums begin anew as those of the new one
        for cell in range(len(sums.totals)):
            sums.epoch_totals[oldest, cell] = sums.totals[cell]
        for table in (sums.regions, sums.patterns):
            for s in range(table.shape[0]):
                for r in range(table.shape[1]):
                    for j in range(table.shape[3]):
                        table[s, r, oldest, j] = 0.0
    clock[CLOCK_ROWS] += 1
    return int(clock[CLOCK_EPOCH] % EPOCHS)


@inner()
def forget_if_gathered(inputs: Any, cell: int, geometry: Any, sums: Any) -> None:
    """Add a row's inputs (p,) to those met in its cell, which forgets its scores if they have gathered."""
    if not _has_gathered(sums.inputs[cell], inputs, geometry.deviations[cell], geometry.limits[cell]):
        return
    for s in range(len(sums.trees)):
        for level in range(SCORE_LEVELS + 1):
            sums.trees[s, cell, level] = 0
    sums.totals[cell] = 0
    for e in range(EPOCHS):
        sums.epoch_totals[e, cell] = 0


@inner()
def _has_gathered(met: Any, inputs: Any, deviations: Any, limits: Any) -> bool:
    """Add a row to what a cell has met; whether its rows turn out to lie in a small part of it."""
    met[_INPUTS_COUNT] += 1
    means = met[_INPUTS_MEAN:]
    for c in range(len(inputs)):
        if deviations[c] > 0:
            # Welford's update of the mean and of the squared distances from it, in units of the cell's deviations.
            scaled = inputs[c] / deviations[c]
            step = scaled - means[c]
            means[c] += step / met[_INPUTS_COUNT]
            met[_INPUTS_SCATTER] += step * (scaled - means[c])
    for look in range(len(GATHERING_ROWS)):
        if met[_INPUTS_COUNT] == GATHERING_ROWS[look] and met[_INPUTS_SCATTER] < limits[look]:
            met[_INPUTS_COUNT] = GATHERING_ROWS[-1]  # asked no more
            return True
    return False


@inner()
def rank_and_count(tree: Any, score: float, total: int, u: float) -> Any:
    """Return the rank of a score among all of its cell, uniform on (0, 1), and count it in the cell's tree.

    A uniform number u chooses among the ranks of ties.
    """
    level = to_level(score)
    below = _below(tree, level)
    equal = _below(tree, level + 1) - below
    _insert(tree, level)
    return (below + u * (equal + 1)) / (total + 1)


@inner()
def grow(sums: Any, bets: Any, ranked: Any, epoch: int) -> None:
    """Take bets (j, 2) for all epochs, with sums (EPOCHS + 1, j): R becomes R b, or (R + 1) b where a change may begin.

    Half of the unit that is staked for a new beginning is for the present epoch, half for bets that do not fade.
    """
    for j in range(len(bets)):
        mean, deviation = bets[j, MEAN], bets[j, DEVIATION]
        is_asleep = mean == 0 and deviation == 1
        if is_asleep or (ranked.is_label and deviation != 1):
            continue
        for e in range(EPOCHS + 1):
            if e in (epoch, _NOT_FADING):
                sums[e, j] += 0.5
            if sums[e, j] > 0 and ranked.fades[e] > 0:
                sums[e, j] *= bet_factor(mean, deviation, ranked, ranked.fades[e])


@inner()
def sum_of_bets(sums: Any, start: int, stop: int) -> float:
    """Return the sum of what all bets of some regions or families have won, in all epochs."""
    total = 0.0
    for r in range(start, stop):
        for e in range(sums.shape[1]):
            for j in range(sums.shape[2]):
                total += sums[r, e, j]
    return total


@inner()
def earlier_share(epoch_total: int, total: int) -> float:
    """Return the share of the rows of a cell, `total` of them, that came before an epoch, which found `epoch_total`."""
    return min(epoch_total / total, 1.0) if total > 0 else 0.0


@inner()
def bet_factor(mean: float, deviation: float, ranked: Any, fade: float) -> Any:
    """Return by what a bet multiplies its sum; its mean is 1 while nothing has changed.

    A share `fade` of the other rows of the cell came before the change that is bet on.
    """
    if ranked.is_label:
        return label_bet(mean, ranked.outcome, ranked.chance, ranked.n_others, fade)
    return number_bet(mean, deviation, ranked.outcome, fade)


@inner()
def number_bet(mean: float, deviation: float, z: float, fade: float) -> float:
    """Return the density at z of a normal variable with another mean or deviation, relative to the standard one."""
    if deviation == 1:
        faded = fade * mean
        return math.exp(faded * (z - 0.5 * faded))
    faded = 1 + fade * (deviation - 1)
    return math.exp(0.5 * z * z * (1 - 1 / (faded * faded))) / faded


@inner()
def label_bet(mean: float, rank: float, chance: float, n_others: int, fade: float) -> float:
    r"""Return the bet on another logit of a label's probability, that of the cell being `chance`.

    With :math:`\pi` for what the rank is compared with and :math:`\pi'` for the probability after the change, it is
    :math:`g \pi' / \pi + (1 - g) (1 - \pi') / (1 - \pi)`, where g is `label_belief`.
    """
    odds = math.exp(_LOGIT * mean)
    after = chance * odds / (1 - chance + chance * odds)
    mixed = fade * chance + (1 - fade) * after  # of the cell's rows, some came after the change
    belief: float = label_belief(rank, n_others, mixed)
    return belief * after / mixed + (1 - belief) * (1 - after) / (1 - mixed)


@inner()
def label_belief(rank: float, n_others: int, chance: float) -> float:
    """Return how far a rank among so many others speaks for a label; its mean is the share of rows that have it.

    Rows with the label have the highest scores. Their share among so many rows varies like that of a binomial variable,
    for which a ramp stands around the rank from which on rows are expected to have it.
    """
    # The ramp has the variance of that share, half^2 / 3, and stays within (0, 1), so that its mean is `chance`.
    half = min(math.sqrt(3 * chance * (1 - chance) / (n_others + 2)), chance, 1 - chance)
    return min(max(0.5 + 0.5 * (rank - (1 - chance)) / half, 0.0), 1.0)


@inner()
def to_level(score: float) -> int:
    """Round a score, of spread about 1, to a level; the farther out, the coarser."""
    return min(int(SCORE_LEVELS * (0.5 + 0.5 * score / (1 + abs(score)))), SCORE_LEVELS - 1)


@njit(nogil=True)
def count_scores(scores: Any, cells: Any, trees: Any, totals: Any) -> None:
    """Count scores (n, s) of rows in cells (n, f), without a bet on them."""
    for i in range(cells.shape[0]):
        for cell in cells[i]:
            totals[cell] += 1
            for s in range(scores.shape[1]):
                _insert(trees[s, cell], to_level(scores[i, s]))


@inner()
def _insert(tree: Any, level: int) -> None:
    """Count a level in a binary indexed tree."""
    node = level + 1
    while node <= SCORE_LEVELS:
        tree[node] += 1
        node += node & -node


@inner()
def _below(tree: Any, level: int) -> float:
    """Return how many levels were counted below this one."""
    count, node = 0, level
    while node > 0:
        count += tree[node]
        node -= node & -node
    return count


@inner()
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


@inner()
def uniform(key: Any, row: int, draw: int) -> float:
    """Return one of the random numbers of a row, uniform in (0, 1): splitmix64 of a counter.

    The same key, row and draw always give the same number. A row has `DRAWS`; those of the next row follow them.
    """
    state = np.uint64(key) + np.uint64(row) * np.uint64(DRAWS) + np.uint64(draw)
    state = state * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (float((state ^ (state >> np.uint64(31))) >> np.uint64(12)) + 0.5) * 2.0**-52
