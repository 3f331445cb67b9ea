r"""Parts of the space of x, conformal ranks within them, and what is bet on the ranks.

A *score* of a row is a number that has the same distribution in all rows of a cell of x while p(y|x) stays. There are
several *families* of cells, each of which divides the space of x: into regions (of a column, say), and every region
into small cells. In each family the score of a row is ranked among all scores seen so far in its cell, ties broken at
random. While the scores of every cell are exchangeable, the ranks of a family, divided by their number, are independent
and uniform (see docs/guide/drift.md).

A bet is a density on (0, 1): here, that of a normal variable of mean m and standard deviation s at the normal score z
of the rank, relative to the standard normal density. Each bet has a Shiryaev-Roberts sum,
:math:`R \leftarrow (R + 1) b(z)`, whose expectation after n bets is n under the hypothesis. There are bets on all
rows; on single regions, which are fifths of a column of numbers or the labels of another one; and on patterns, with
opposite signs at the two ends of a column of numbers, or in opposite corners of two of them. The bets on a label are on
another logit of its probability, weighted by the probability that a row of this rank has it.

If the inputs of the stream gather in a small part of a cell, its scores are no longer those of the whole cell. Such a
cell forgets what it has seen: from then on, rows that came there are ranked among themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from condcs._core.compiling import njit
from condcs._tables.kinds import Column
from condcs.drift._reference_regression import stored

FloatArray = np.ndarray[Any, Any]

PARTS, PAIRED_PARTS = 5, 3
"""Regions of a column of numbers, with about as many rows each; and of each of two columns that make a family."""

MOST_PAIRED = 6
"""Columns of numbers up to which every two of them make a family."""

CELL_ROWS, OVERALL_CELL_ROWS = 12, 36
"""Least number of rows of the reference in a cell, and in one of the family of all rows. An error of the regression
that is particular to where the stream goes can win bets only until as many rows of the stream are in its cell; but the
fewer there are, the later a wider spread shows in ranks."""

MOST_CELLS = 64
"""Cells of a family."""

GATHERING_ROWS = (4, 8, 16)
"""After so many rows of the stream in a cell it is asked whether they have gathered."""

_GATHERED = 1e-3
_SHARES = (0.4, 0.4, 0.2)
"""Weights of the family of all rows, of the families of columns, and of those of two columns."""


@dataclass(frozen=True)
class Regions:
    """Families of regions, counted through all families: all rows; those of every column; those of two columns.

    The regions of a column are its fifths, if it has numbers, or its labels; those of two columns of numbers combine
    their thirds.

    Attributes
    ----------
    columns : tuple of Column
        The columns of x.
    edges : array, shape (2, d, 4)
        For columns of numbers, where a fifth ends and the next begins, and the same for thirds; infinite where there
        are fewer.
    """

    columns: tuple[Column, ...]
    edges: FloatArray

    @classmethod
    def of(cls, x: FloatArray, columns: tuple[Column, ...]) -> Regions:
        """Find the regions of a reference."""
        edges = np.full((2, len(columns), PARTS - 1), np.inf)
        for parts, table in zip((PARTS, PAIRED_PARTS), edges, strict=True):
            for own, column, values in zip(table, columns, x.T, strict=True):
                if not column.is_category:
                    found = np.unique(np.quantile(values, np.arange(1, parts) / parts))
                    # An edge at the smallest value would leave the region below it empty.
                    found = found[found > values.min()]
                    own[: len(found)] = found
        return cls(columns, edges)

    @cached_property
    def families(self) -> FloatArray:
        """The columns of each family, -1 for none, of shape (f, 2); the first is that of all rows."""
        numbers = [c for c, size in enumerate(self._sizes(1)) if size > 1 and not self.columns[c].is_category]
        pairs = list(combinations(numbers, 2)) if len(numbers) <= MOST_PAIRED else []
        return np.array([(-1, -1), *((c, -1) for c in range(len(self.columns))), *pairs], np.int64)

    def _sizes(self, table: int) -> list[int]:
        counts = np.isfinite(self.edges[table]).sum(axis=1)
        pairs = zip(self.columns, counts, strict=True)
        return [len(column.labels) if column.is_category else int(count) + 1 for column, count in pairs]

    @cached_property
    def first(self) -> FloatArray:
        """First region of each family, and the number of all regions."""
        whole, thirds = self._sizes(0), self._sizes(1)
        sizes = [1 if a < 0 else whole[a] if b < 0 else thirds[a] * thirds[b] for a, b in self.families]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def heights(self) -> FloatArray:
        """Height of every region: -1 to 1 along a column of numbers, products of these for two, 0 where none."""
        found = [np.zeros(1)]
        for a, b in self.families[1:]:
            along = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in self._sizes(int(b >= 0))]
            if b >= 0:
                found.append(np.outer(along[a], along[b]).ravel())
            else:
                found.append(along[a] * (not self.columns[a].is_category))
        heights = np.concatenate(found)
        return np.where(np.abs(heights) > 1e-9, heights, 0.0)

    @cached_property
    def shares(self) -> FloatArray:
        """Weight of every family; they add up to 1."""
        families, sizes = self.families, np.diff(self.first)
        kinds = (families >= 0).sum(axis=1)
        kinds = np.where((kinds > 0) & (sizes < 2), -1, kinds)  # a column without regions has no bets
        shares = sum((kinds == kind) * share / max(int(np.sum(kinds == kind)), 1) for kind, share in enumerate(_SHARES))
        return np.asarray(shares / np.sum(shares))

    def locate(self, x: FloatArray) -> FloatArray:
        """Return the region of each row in each family."""
        return np.asarray(locate_regions(x, self.arrays))

    @cached_property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Edges, whether columns have labels, their numbers of thirds, families and first regions."""
        labels = np.array([column.is_category for column in self.columns])
        return self.edges, labels, np.array(self._sizes(1), np.int64), self.families, self.first

    def holds(self, x: FloatArray, region: int) -> FloatArray:
        """Which rows are in a region."""
        return np.asarray((self.locate(x) == region).any(axis=1))

    def bounds(self, region: int) -> dict[str, Any]:
        """Return the column of a region with its limits (None where open), or its label; nothing for all rows."""
        family = int(np.searchsorted(self.first, region, side="right")) - 1
        c, place = int(self.families[family, 0]), region - int(self.first[family])
        if c < 0 or self.families[family, 1] >= 0:
            return {}
        column, edges = self.columns[c], self.edges[0, c]
        if column.is_category:
            return {column.name: [column.labels[place]]}
        high = float(edges[place]) if place < len(edges) and np.isfinite(edges[place]) else None
        return {column.name: (None if place == 0 else float(edges[place - 1]), high)}

    def words(self, region: int) -> str:
        """Return where a region is: ``load from 2.1 to 4.3``."""
        for name, limits in self.bounds(region).items():
            if isinstance(limits, list):
                return f"{name} = {limits[0]}"
            low, high = limits
            if low is None or high is None:
                return f"{name} below {high:.4g}" if low is None else f"{name} from {low:.4g} on"
            return f"{name} from {low:.4g} to {high:.4g}"
        return "all rows"


@njit(nogil=True)
def _part(value: float, edges: Any) -> int:
    place = 0
    while place < len(edges) and edges[place] <= value:
        place += 1
    return place


@njit(nogil=True)
def locate_regions(x: Any, arrays: Any) -> Any:
    """Return the region of each row in each family, given `Regions.arrays`."""
    edges, labels, thirds, families, first = arrays
    regions = np.empty((len(x), len(families)), np.int64)
    for t in range(len(x)):
        for f in range(len(families)):
            a, b = families[f]
            place = 0
            if b >= 0:
                place = _part(x[t, a], edges[1, a]) * thirds[b] + _part(x[t, b], edges[1, b])
            elif a >= 0:
                place = int(x[t, a]) if labels[a] else _part(x[t, a], edges[0, a])
            regions[t, f] = first[f] + place
    return regions


class Cells(NamedTuple):
    """A binary tree of splits of x for every region; its root is the node with the number of the region.

    Attributes
    ----------
    columns : array of int, shape (nodes,)
        The column that a node splits; -1 for cells.
    thresholds : array, shape (nodes,)
        Where; smaller or equal values go to the first child.
    children : array of int, shape (nodes,)
        The first child, which the second follows; of a cell, its number.
    deviations : array, shape (cells, p)
        Standard deviation of each column of the design in a cell; 0 for indicators of labels.
    """

    columns: FloatArray
    thresholds: FloatArray
    children: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, x: FloatArray, features: FloatArray, regions: FloatArray, count: int) -> Cells:
        """Split the rows of each of so many regions, by medians of the columns that make features most alike."""
        least = -(-len(x) // MOST_CELLS)
        nodes: list[tuple[int, float, int]] = [(-1, 0.0, 0)] * count
        waiting = [
            (
                region,
                np.flatnonzero((regions == region).any(axis=1)),
                max(CELL_ROWS if region else OVERALL_CELL_ROWS, least),
            )
            for region in range(count)
        ]
        several = np.array([len(np.unique(column)) > 2 for column in x.T])
        deviations: list[FloatArray] = []
        while waiting:
            node, rows, smallest = waiting.pop()
            split = _best_split(x[rows], features[rows], smallest) if len(rows) >= 2 * smallest else None
            if split is None:
                nodes[node] = (-1, 0.0, len(deviations))
                deviations.append(np.where(several, x[rows].std(axis=0), 0.0) if len(rows) else np.zeros(x.shape[1]))
                continue
            first = x[rows, split[0]] <= split[1]
            nodes[node] = (*split, len(nodes))
            waiting += [(len(nodes), rows[first], smallest), (len(nodes) + 1, rows[~first], smallest)]
            nodes += [(-1, 0.0, 0)] * 2
        columns, thresholds, children = (np.array(part) for part in zip(*nodes, strict=True))
        return cls(
            columns.astype(np.int64), thresholds.astype(np.float64), children.astype(np.int64), np.array(deviations)
        )

    @property
    def total(self) -> int:
        """Number of cells."""
        return int(np.sum(self.columns < 0))

    def locate(self, x: FloatArray, regions: FloatArray) -> FloatArray:
        """Return the cell of each row of the design in each family."""
        return np.asarray(locate_cells(x, regions, self))

    @property
    def limits(self) -> FloatArray:
        """Scatter of inputs below which they have gathered, for each of the numbers of rows at which that is asked."""
        degrees = np.outer((self.deviations > 0).sum(axis=1), np.array(GATHERING_ROWS) - 1)
        return np.where(degrees > 0, chi2.ppf(_GATHERED, np.maximum(degrees, 1)), -1.0)

    def check(self, dim: int, regions: int) -> None:
        """Raise a ValueError unless the arrays make a tree for every region."""
        columns, thresholds, children, deviations = self
        inner = np.flatnonzero(columns >= 0)
        if (
            columns.ndim != 1
            or not columns.shape == thresholds.shape == children.shape
            or len(columns) < regions
            or columns.max() >= dim
            # Every other node is the child of one before it.
            or sorted([*children[inner], *(children[inner] + 1)]) != list(range(regions, len(columns)))
            or (children[inner] <= inner).any()
            or sorted(children[columns < 0]) != list(range(self.total))
            or deviations.shape != (self.total, dim)
        ):
            raise ValueError("cells that do not make trees")


def _best_split(x: FloatArray, features: FloatArray, smallest: int) -> tuple[int, float] | None:
    """Return the column and its value for which the means of the features are farthest apart on the two sides."""
    best, found = -1.0, None
    for column, values in enumerate(x.T):
        at = float(np.median(values))
        if np.sum(values <= at) > len(x) - smallest:  # e.g. an indicator that is mostly 1
            at = float(values[values < at].max(initial=-np.inf))
        first = values <= at
        count = int(first.sum())
        if smallest <= count <= len(x) - smallest:
            step = features[first].mean(axis=0) - features[~first].mean(axis=0)
            gain = count * (len(x) - count) * float(step @ step)
            if gain > best:
                best, found = gain, (column, at)
    return found


@njit(nogil=True)
def locate_cells(x: Any, regions: Any, tree: Any) -> Any:
    """Return the cell of each row of the design in each family, given its regions."""
    cells = np.empty(regions.shape, np.int64)
    for t in range(regions.shape[0]):
        for f in range(regions.shape[1]):
            node = regions[t, f]
            while tree.columns[node] >= 0:
                node = tree.children[node] + (0 if x[t, tree.columns[node]] <= tree.thresholds[node] else 1)
            cells[t, f] = tree.children[node]
    return cells


def parts_state(cells: Cells, regions: Regions) -> dict[str, FloatArray]:
    """Return cells and regions as plain arrays."""
    finite = np.where(np.isfinite(regions.edges), regions.edges, np.finfo(float).max)
    return {**{f"cell_{name}": array for name, array in cells._asdict().items()}, "edges": finite}


def parts_from_state(state: Mapping[str, FloatArray], columns: tuple[Column, ...], dim: int) -> tuple[Cells, Regions]:
    """Undo `parts_state`, for a design of so many columns; a KeyError or ValueError if the arrays do not fit."""
    edges = stored(state, "edges")
    if edges.shape != (2, len(columns), PARTS - 1):
        raise ValueError("regions that do not fit the columns")
    regions = Regions(columns, np.where(edges == np.finfo(float).max, np.inf, edges))
    own = {name: stored(state, f"cell_{name}") for name in Cells._fields}
    cells = Cells(**{n: array.astype(np.int64) if n in ("columns", "children") else array for n, array in own.items()})
    cells.check(dim, int(regions.first[-1]))
    return cells, regions


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

    trees: FloatArray
    totals: FloatArray
    overall: FloatArray
    local: FloatArray
    patterns: FloatArray
    won: FloatArray
    met: FloatArray


def make_bets(first: FloatArray, heights: FloatArray, shares: FloatArray, singles: int) -> Bets:
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
