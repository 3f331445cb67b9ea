"""Exact medians over all pairs of rows, in numpy: a sample of the pairs brackets the median, counting confirms it.

Sorting or partitioning n(n - 1)/2 numbers costs ten times as much as making them. So a few of them are sorted, and two
of these bracket the median almost surely. One pass over all pairs counts those below the bracket and collects those
inside; if the wanted ranks are among the collected, they are exact, and otherwise the bracket is widened. What is drawn
decides only how long it takes. Differences of one column do not even have to be made: in sorted numbers they are
counted by binary search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray

FALLBACK_PERCENT = 51
"""Where the median is 0, the lowest positive percentile from this one up is used instead."""

# Up to so many numbers, partitioning all of them is faster than bracketing (measured: equal near 30,000).
_FEW_NUMBERS = 2**15
# Up to so many rows, all differences of a column are made (measured: equal near 160).
_FEW_ROWS = 160
# Half the width of a bracket, in standard deviations of the sample's median: missed once in 500 times.
_DEVIATIONS = 3.0
# Rows of one block of distances: 128 x 2,000 doubles are 2 MB, and a block costs about ten calls from Python.
_BLOCK_ROWS = 128
# Numbers of one block of an array whose median is wanted: half a megabyte, which a core's second-level cache holds.
_BLOCK_SIZE = 2**16
# Ranks of a column whose differences bracket its median difference: 1,128 differences, sorted in 20 microseconds.
_QUANTILES = 48
# Half the width of the first bracket of a column, as a share of the differences among those quantiles. Their median is
# off by less than that for smooth distributions; in a bracket twice as wide, interpolation misses at 2,000 rows.
_REACH = 0.0125
# Half the width of the second bracket, in differences per row. 0.25 missed in 7% of exponential columns of 2,000 rows,
# 0.5 in none (of 60 each, also of normal, uniform and Student numbers).
_AIM = 0.5
# A bracket with so many differences per row is narrow enough: collecting them takes as long as one more count.
_PER_ROW = 2
# A bracket is not narrowed for ever: ties cannot be told apart.
_STEPS = 12
# Fractional parts of multiples of these numbers fill a square evenly, and follow no period of the data (Roberts 2018).
_EVEN = 0.7548776662466927, 0.5698402909980532

Ranks = tuple[int, int]
"""Two ranks from 0, the same or neighbours."""
Middle = tuple[float, float]
"""The numbers that have these ranks."""
Select = Callable[[Ranks], Middle]
Centre = Callable[[Middle], float]


def median(values: FloatArray) -> float:
    """Median of numbers, as `numpy.median` of them, several times as fast where there are many."""
    flat = values.reshape(-1)

    def blocks() -> Iterator[FloatArray]:
        return (flat[start : start + _BLOCK_SIZE] for start in range(0, flat.size, _BLOCK_SIZE))

    def sample(count: int) -> FloatArray:
        return np.asarray(flat.take(_even_indices(flat.size, 2, count)[0]))

    return _mean(_selected(flat.size, _middle_ranks(flat.size), blocks, sample))


def median_squared_distance(rows: FloatArray) -> tuple[float, int]:
    """Return the median squared Euclidean distance over all pairs of rows (n, d), and which percentile it is.

    50 stands for the median. Where it is 0, the lowest positive percentile takes its place; if all distances are 0,
    the median is. Cost O(n^2 d), memory O(n).
    """
    from scipy.spatial.distance import cdist, pdist

    n = len(rows)
    pairs = n * (n - 1) // 2

    def blocks() -> Iterator[FloatArray]:
        if pairs <= _FEW_NUMBERS:
            yield pdist(rows, "sqeuclidean")
            return
        buffer = np.empty(_BLOCK_ROWS * n)
        for start in range(0, n, _BLOCK_ROWS):
            block, later = rows[start : start + _BLOCK_ROWS], rows[start + _BLOCK_ROWS :]
            yield pdist(block, "sqeuclidean")
            if len(later):
                out = buffer[: len(block) * len(later)].reshape(len(block), len(later))
                yield cdist(block, later, "sqeuclidean", out=out).reshape(-1)

    def sample(count: int) -> FloatArray:
        first, second = _even_indices(n, n, count)
        # Squares that overflow rank as they should.
        with np.errstate(over="ignore"):
            difference = rows.take(first, axis=0) - rows.take(second, axis=0)
            return np.asarray(np.einsum("ij,ij->i", difference, difference))

    def select(ranks: Ranks) -> Middle:
        return _selected(pairs, ranks, blocks, sample)

    def zeros() -> int:
        return sum(block.size - int(np.count_nonzero(block)) for block in blocks())

    return _positive_middle(pairs, select, zeros, _mean)


def median_differences(columns: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the square root of the median squared difference between two numbers of a line, for each line, and 50.

    The numbers of a line of `columns` (d, n) are in ascending order. Where the median is 0, the lowest positive
    percentile takes its place, with its number instead of 50; where all differences are 0, the root is 0. Cost
    O(n log n) for each line, and O(n^2) for up to 160 numbers.
    """
    d, n = columns.shape
    pairs = n * (n - 1) // 2
    if n > _FEW_ROWS:
        lower, upper = _middle_differences(columns)
        widths, percentiles = np.empty(d), np.full(d, 50)
        for c, line in enumerate(columns):
            if lower[c] > 0:
                widths[c] = _root_mean_square((lower[c], upper[c]))
            else:
                counted = _DifferenceRanks(line)
                widths[c], percentiles[c] = _positive_middle(pairs, counted, counted.count_zeros, _root_mean_square)
        return widths, percentiles
    first, second = _pairs(n)
    ranks = _middle_ranks(pairs)
    widths, percentiles = np.empty(d), np.full(d, 50)
    # One line at a time: an array for all of them would be fetched from the system anew by every call.
    for c, line in enumerate(columns):
        differences = line.take(second)
        differences -= line.take(first)
        middle = _take_ranks(differences, ranks)
        if middle[1] > 0:
            widths[c] = _root_mean_square(middle)
        else:
            widths[c], percentiles[c] = _positive_middle(pairs, *_sorted(differences), _root_mean_square)
    return widths, percentiles


def _middle_ranks(count: int) -> Ranks:
    """Ranks of the one or two numbers in the middle of so many."""
    return (count - 1) // 2, count // 2


def _take_ranks(values: FloatArray, ranks: Ranks) -> Middle:
    """Return the numbers of two ranks; the order of `values` changes."""
    lower, upper = ranks
    # By one rank only: numpy takes 5 to 15 times as long to partition by two, and the other is the largest below.
    values.partition(upper)
    return (values[lower] if lower == upper else values[:upper].max()), values[upper]


def _mean(middle: Middle) -> float:
    # Halved first: the sum of two large numbers overflows.
    return float(0.5 * middle[0] + 0.5 * middle[1])


def _root_mean_square(middle: Middle) -> float:
    lower, upper = middle
    # In units of the larger: squares overflow and underflow.
    return float(upper * math.sqrt(0.5 * (1.0 + (lower / upper) ** 2))) if upper > 0 else 0.0


def _positive_middle(count: int, select: Select, zeros: Callable[[], int], centre: Centre) -> tuple[float, int]:
    """Return the centre of the middle of `count` numbers that are not negative, and 50.

    Where the larger of the two middle numbers is 0, the lowest positive percentile takes their place.
    """
    middle = select(_middle_ranks(count))
    if middle[1] > 0:
        return centre(middle), 50
    equal = zeros()
    for percent in range(FALLBACK_PERCENT, 101):
        # As numpy.percentile(..., method="higher").
        rank = math.ceil((count - 1) * (percent / 100))
        if rank >= equal:
            return float(select((rank, rank))[0]), percent
    return 0.0, 50


def _sorted(values: FloatArray) -> tuple[Select, Callable[[], int]]:
    """Return how to select ranks among a few numbers, and how to count those that are 0."""
    ordered = np.sort(values)
    return lambda ranks: (ordered[ranks[0]], ordered[ranks[1]]), lambda: ordered.size - int(np.count_nonzero(ordered))


def _selected(
    count: int, ranks: Ranks, blocks: Callable[[], Iterator[FloatArray]], sample: Callable[[int], FloatArray]
) -> Middle:
    """Return the numbers of two ranks among the `count` of all blocks; `sample` draws about so many of them."""
    lower, upper = ranks
    if count <= _FEW_NUMBERS:
        return _take_ranks(np.concatenate(list(blocks())), ranks)
    # Of n numbers, sorting m and partitioning about 3 n / sqrt(m) costs least near m = n^(2/3).
    drawn = np.sort(sample(int(0.5 * count ** (2 / 3))))
    # Ranks to either side of the wanted one: that of a sample's median has the standard deviation sqrt(m) / 2.
    reach = int(0.5 * _DEVIATIONS * math.sqrt(drawn.size)) + 1
    while True:
        sample_rank = int((lower + 0.5) / count * drawn.size)
        low = drawn[sample_rank - reach] if sample_rank >= reach else -math.inf
        high = drawn[sample_rank + reach] if sample_rank + reach < drawn.size else math.inf
        below, inside, values = _bracketed(blocks(), low, high)
        if below <= lower and upper < below + inside:
            # Where many numbers are tied, the bracket is one of them.
            if low == high:
                return low, low
            return _take_ranks(np.concatenate(values), (lower - below, upper - below))
        reach *= 4


def _bracketed(blocks: Iterator[FloatArray], low: float, high: float) -> tuple[int, int, list[FloatArray]]:
    """Return how many numbers are below `low`, how many within [low, high], and those, unless all of them are equal."""
    below, inside, values = 0, 0, list[FloatArray]()
    for block in blocks:
        is_below = block < low
        is_inside = block <= high
        is_inside ^= is_below
        below += int(np.count_nonzero(is_below))
        inside += int(np.count_nonzero(is_inside))
        if low < high:
            # A third faster than a mask where few are picked.
            values.append(block.take(np.flatnonzero(is_inside)))
    return below, inside, values


@lru_cache(maxsize=4)
def _pairs(n: int) -> tuple[IntArray, IntArray]:
    """Return the first and the second row of all pairs i < j."""
    first, second = np.triu_indices(n, 1)
    return first, second


@lru_cache(maxsize=4)
def _even_indices(n: int, m: int, count: int) -> tuple[IntArray, IntArray]:
    """Return `count` indices below n, and others that are 1 to m - 1 larger, modulo n; both spread evenly."""
    steps = np.arange(1, count + 1)
    first, apart = ((steps * share) % 1.0 for share in _EVEN)
    indices = (n * first).astype(np.intp)
    return indices, (indices + 1 + ((m - 1) * apart).astype(np.intp)) % n


def _middle_differences(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the two middle differences of each line of ascending numbers (d, n), 0 where two brackets do not do.

    For all lines at once, which saves most of the calls from Python. Heavy tails and ties are left to
    `_DifferenceRanks`.
    """
    d, n = columns.shape
    pairs = n * (n - 1) // 2
    rank, next_rank = _middle_ranks(pairs)
    following = np.arange(1, n + 1)

    def counted(thresholds: FloatArray) -> tuple[IntArray, IntArray]:
        """Return, for each number o, the index of o + threshold (d, n), and how many differences are smaller (d,)."""
        indices = np.empty((d, n), np.intp)
        for line, wanted, line_indices in zip(columns, columns + thresholds[:, None], indices, strict=True):
            line_indices[:] = line.searchsorted(wanted)
        np.maximum(indices, following, out=indices)
        return indices, indices.sum(axis=1) - n * (n + 1) // 2

    guesses = _guessed_differences(columns)  # (d, pairs of quantiles), ascending
    middle = guesses.shape[1] // 2 - _QUANTILES // 4
    reach = int(_REACH * guesses.shape[1])
    low, high = guesses[:, middle - reach], guesses[:, middle + reach]
    below, upto = counted(low)[1], counted(high)[1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        per_pair = (high - low) / (upto - below)
        centre = low + per_pair * (rank + 0.5 - below)
        low, high = centre - per_pair * _AIM * n, centre + per_pair * _AIM * n
    (starts, below), (ends, upto) = counted(low), counted(high)
    # Thresholds that are NaN, where the first bracket was a single number, fail here too.
    bracketed = (low > 0) & (below <= rank) & (next_rank < upto) & (upto - below <= _PER_ROW * n)
    lower, upper = np.zeros(d), np.zeros(d)
    for c in np.flatnonzero(bracketed):
        first, second = _pairs_between(starts[c], ends[c])
        differences = columns[c][second] - columns[c][first]
        smaller, larger = _take_ranks(differences, (rank - below[c], next_rank - below[c]))
        rounding = _rounding(columns[c], larger)
        if low[c] + rounding < smaller and larger + rounding < high[c]:
            lower[c], upper[c] = smaller, larger
    return lower, upper


def _guessed_differences(columns: FloatArray) -> FloatArray:
    """Return the differences between 48 quantiles of each line of ascending numbers (d, n), in ascending order."""
    n = columns.shape[1]
    quantiles = columns[:, ((np.arange(_QUANTILES) + 0.5) * (n / _QUANTILES)).astype(np.intp)]
    first, second = _pairs(_QUANTILES)
    return np.sort(quantiles.take(second, axis=1) - quantiles.take(first, axis=1), axis=1)


def _pairs_between(starts: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """Return the indices of all pairs of a number and one from its start to its end."""
    counts = ends - starts
    first = np.repeat(np.arange(len(counts)), counts)
    # Positions within all pairs, moved so that those of each number begin at its start.
    return first, np.arange(len(first)) + (starts - (np.cumsum(counts) - counts))[first]


def _rounding(ordered: FloatArray, difference: float) -> float:
    """How much a difference o' - o and the bracket that o' was searched in, o + low to o + high, may disagree."""
    return float(4 * np.finfo(np.float64).eps * (max(abs(ordered[0]), abs(ordered[-1])) + difference))


class _Bracket(NamedTuple):
    """The differences in [low, high): for each of k values, those to the values from its start to its end."""

    low: float
    high: float
    starts: IntArray  # (k,): the index of the first value that is at least the value plus `low`
    ends: IntArray  # (k,): the same for `high`


class _DifferenceRanks:
    """Differences of given ranks among those of all pairs of numbers in ascending order, without making all of them.

    Called with two ranks, which are the same or neighbours, it returns the differences that have them.
    """

    def __init__(self, ordered: FloatArray) -> None:
        n = len(ordered)
        # Equal numbers are one value that counts several times: k values.
        starts = np.flatnonzero(np.append(True, ordered[1:] > ordered[:-1]))
        self.ordered, self.values = ordered, ordered[starts]  # (n,) and (k,)
        self.times = np.diff(starts, append=n)  # (k,)
        self.n_smaller = np.append(starts, n)  # (k + 1,): how many numbers are smaller than each value
        self.next = np.arange(1, len(starts) + 1)  # (k,): the index of the next value
        self.end = np.full(len(starts), len(starts))  # (k,)
        # How many pairs are equal. Those are in front of all others.
        self.zeros = int((self.times * (self.times - 1)).sum()) // 2

    def __call__(self, ranks: Ranks) -> Middle:
        if ranks[0] < self.zeros:
            smallest = np.diff(self.values).min(initial=math.inf)
            return 0.0, (0.0 if ranks[1] < self.zeros else float(smallest))
        bracket = self._bracket(ranks)
        first, second = self._within(bracket.starts, bracket.ends, ranks)
        # Near an end of the bracket, a pair may be on the wrong side of it.
        rounding = _rounding(self.values, second)
        if bracket.low + rounding < first and second + rounding < bracket.high:
            return first, second
        return self._within(self.next, self.end, ranks)

    def count_zeros(self) -> int:
        """Return how many pairs are equal."""
        return self.zeros

    def _bracket(self, ranks: Ranks) -> _Bracket:
        """Return a bracket of the wanted differences that holds few others.

        The first brackets are differences of quantiles, further ones come from interpolation between counts.
        """
        lower, upper = ranks
        n = len(self.ordered)
        low, starts, below = -math.inf, self.next, self.zeros
        high, ends, upto = math.inf, self.end, n * (n - 1) // 2
        guesses = _guessed_differences(self.ordered[None])[0]
        # A quantile stands for n / 48 numbers, whose differences among themselves are in front of all of these.
        middle = int((lower + 0.5) / upto * _QUANTILES**2 / 2 - _QUANTILES / 2)
        for step in range(_STEPS):
            if low > -math.inf and high < math.inf:
                share = 1 / (upto - below)
                centre = low + (high - low) * (lower + 0.5 - below) * share
                margin = (high - low) * _AIM * n * share * (step + 1)
                thresholds = centre - margin, centre + margin
            else:
                reach = int(_REACH * guesses.size * 4**step)
                thresholds = guesses[max(middle - reach, 0)], guesses[min(max(middle + reach, 0), guesses.size - 1)]
            for threshold in thresholds:
                indices = np.maximum(self.values.searchsorted(self.values + threshold), self.next)
                count = self._count_pairs(indices)
                if count <= lower and threshold > low:
                    low, starts, below = float(threshold), indices, count
                elif count > upper and threshold < high:
                    high, ends, upto = float(threshold), indices, count
            if (ends - starts).sum() <= _PER_ROW * n:
                break
        return _Bracket(low, high, starts, ends)

    def _count_pairs(self, ends: IntArray) -> int:
        """Return how many pairs of numbers have the second one in front of the end for the first (k,)."""
        if self.zeros == 0:
            return int((ends - self.next).sum())
        return self.zeros + int((self.times * (self.n_smaller[ends] - self.n_smaller[self.next])).sum())

    def _within(self, starts: IntArray, ends: IntArray, ranks: Ranks) -> Middle:
        """Return the differences of these ranks, which are among those of each value to the ones from start to end."""
        below = self._count_pairs(starts)
        lower, upper = ranks[0] - below, ranks[1] - below
        first, second = _pairs_between(starts, ends)
        differences = self.values[second] - self.values[first]
        if self.zeros == 0:
            smaller, larger = _take_ranks(differences, (lower, upper))
            return float(smaller), float(larger)
        times = self.times[first] * self.times[second]
        order = np.argsort(differences)
        # A difference of two values counts once for each pair of numbers that have them.
        upto = np.cumsum(times[order])
        lower_value, upper_value = differences[order[upto.searchsorted([lower, upper], side="right")]]
        return float(lower_value), float(upper_value)
