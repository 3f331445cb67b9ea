"""Families of regions of x, and the small cells into which every region is divided.

A *family* divides the space of x into regions: all rows; the fifths of a column of numbers, or the labels of another
one; the combined thirds of two columns. Bets are on regions, and what an alarm names is a region. Ranks are taken in
cells, which are so small that scores have nearly the same distribution everywhere in one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from condcs._core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from condcs._core.compiling import inner, njit
from condcs._tables.kinds import Column
from condcs.drift._reference_regression import stored

PARTS, PAIRED_PARTS = 5, 3
"""Regions of a column of numbers, with about as many rows each; and of each of two columns that make a family."""

MOST_PAIRED = 6
"""Columns of numbers up to which every two of them make a family."""

CELL_ROWS = 36
"""Least number of rows of the reference in a cell that was split off. An error of the regression that is particular to
where the stream goes can win bets only until as many rows of the stream are in its cell; but the fewer there are, the
less a rank says: of a wider spread, or of a label."""

MOST_CELLS = 64
"""Cells of a family."""

GATHERING_ROWS = (4, 8, 16)
"""After so many rows of the stream in a cell it is asked whether they have gathered."""

_GATHERED = 1e-3
_SHARES = (0.4, 0.4, 0.2)
"""Weights of the family of all rows, of the families of columns, and of those of two columns."""


@dataclass(frozen=True)
class Regions:
    """Families of regions of x, counted through all families: all rows; those of every column; those of two columns.

    The regions of a column are its fifths, if it has numbers, or its labels; those of two columns of numbers combine
    their thirds.
    """

    columns: tuple[Column, ...]
    # Where a fifth of a column of numbers ends and the next begins, and the same for thirds; infinite beyond the last.
    edges: FloatArray  # (2, d, 4)

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
    def families(self) -> IntArray:
        """The columns of each family, -1 for none, of shape (f, 2); the first is that of all rows."""
        numbers = [c for c, size in enumerate(self._sizes(1)) if size > 1 and not self.columns[c].is_category]
        pairs = list(combinations(numbers, 2)) if len(numbers) <= MOST_PAIRED else []
        return np.array([(-1, -1), *((c, -1) for c in range(len(self.columns))), *pairs], np.int64)

    def _sizes(self, table: int) -> list[int]:
        counts = np.isfinite(self.edges[table]).sum(axis=1)
        pairs = zip(self.columns, counts, strict=True)
        return [len(column.labels) if column.is_category else int(count) + 1 for column, count in pairs]

    @cached_property
    def first(self) -> IntArray:
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

    def locate(self, x: FloatArray) -> IntArray:
        """Return the region of each row in each family."""
        return np.asarray(locate_regions(x, self.arrays))

    @cached_property
    def arrays(self) -> tuple[FloatArray, BoolArray, IntArray, IntArray, IntArray]:
        """Edges, whether columns have labels, their numbers of thirds, families and first regions."""
        labels = np.array([column.is_category for column in self.columns])
        return self.edges, labels, np.array(self._sizes(1), np.int64), self.families, self.first

    def holds(self, x: FloatArray, region: int) -> BoolArray:
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


@inner()
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
    """A binary tree of splits of x for every region; its root is the node with the number of the region."""

    columns: IntArray  # the column that a node splits; -1 for cells
    thresholds: FloatArray  # where it does; smaller or equal values go to the first child
    children: IntArray  # the first child, which the second follows; of a cell, its number
    deviations: FloatArray  # (cells, p): those of each column of the design in a cell; 0 for indicators of labels

    @classmethod
    def of(cls, x: FloatArray, features: FloatArray, regions: IntArray, count: int) -> Cells:
        """Split the rows of each of so many regions, by medians of the columns that make features most alike."""
        smallest = max(CELL_ROWS, -(-len(x) // MOST_CELLS))
        nodes: list[tuple[int, float, int]] = [(-1, 0.0, 0)] * count
        waiting = [(region, np.flatnonzero((regions == region).any(axis=1))) for region in range(count)]
        several = np.array([len(np.unique(column)) > 2 for column in x.T])
        deviations: list[FloatArray] = []
        while waiting:
            node, rows = waiting.pop()
            split = _best_split(x[rows], features[rows], smallest) if len(rows) >= 2 * smallest else None
            if split is None:
                nodes[node] = (-1, 0.0, len(deviations))
                deviations.append(np.where(several, x[rows].std(axis=0), 0.0) if len(rows) else np.zeros(x.shape[1]))
                continue
            first = x[rows, split[0]] <= split[1]
            nodes[node] = (*split, len(nodes))
            waiting += [(len(nodes), rows[first]), (len(nodes) + 1, rows[~first])]
            nodes += [(-1, 0.0, 0)] * 2
        columns, thresholds, children = zip(*nodes, strict=True)
        return cls(
            np.array(columns, np.int64), np.array(thresholds), np.array(children, np.int64), np.array(deviations)
        )

    @property
    def total(self) -> int:
        """Number of cells."""
        return int(np.sum(self.columns < 0))

    def locate(self, x: FloatArray, regions: IntArray) -> IntArray:
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


def parts_state(cells: Cells, regions: Regions) -> dict[str, AnyArray]:
    """Return cells and regions as plain arrays."""
    finite = np.where(np.isfinite(regions.edges), regions.edges, np.finfo(float).max)
    return {**{f"cell_{name}": array for name, array in cells._asdict().items()}, "edges": finite}


def parts_from_state(state: Mapping[str, AnyArray], columns: tuple[Column, ...], dim: int) -> tuple[Cells, Regions]:
    """Undo `parts_state`, for a design of so many columns; a KeyError or ValueError if the arrays do not fit."""
    edges = stored(state, "edges")
    if edges.shape != (2, len(columns), PARTS - 1):
        raise ValueError("regions that do not fit the columns")
    regions = Regions(columns, np.where(edges == np.finfo(float).max, np.inf, edges))
    own: dict[str, Any] = {name: stored(state, f"cell_{name}") for name in Cells._fields}
    cells = Cells(**{n: array.astype(np.int64) if n in ("columns", "children") else array for n, array in own.items()})
    cells.check(dim, int(regions.first[-1]))
    return cells, regions
