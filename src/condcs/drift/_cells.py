"""Families of regions of x, and the small cells into which every region is divided.

A *family* divides the space of x into regions: all rows; the fifths of a column of numbers, or the labels of another
one; the combined thirds of two columns. Bets are on regions, and what an alarm names is a region. Ranks are taken in
cells, which are so small that scores have nearly the same distribution everywhere in one of them. Read
`Regions.families` and `CellTree.of` first. Nothing here knows responses; a new kind of family is a line in `families`
and one in `locate_regions`.
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

from condcs._core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from condcs._core.compiling import inner, njit
from condcs._tables.kinds import Column
from condcs.drift._patterns import Pattern, patterns_of
from condcs.drift._reference_regression import stored

PARTS, PAIRED_PARTS = 5, 3
"""Regions of a column of numbers, with about as many rows each; and of each of two columns that make a family. Nine
combinations of thirds have a ninth of the rows each, half of what fifths have."""

MOST_PAIRED = 6
"""Columns of numbers up to which every two of them make a family: 15 families of 6, which share one weight."""

CELL_ROWS = 36
"""Least number of rows of the reference in a cell that was split off. An error of the regression that is particular to
where the stream goes can win bets only until as many rows of the stream are in its cell; but the fewer there are, the
less a rank says: of a wider spread, or of a label. With 12, most of the changes in `condcs reproduce drift` were found
later, and false alarms were as rare."""

MOST_CELLS = 64
"""Cells of a family, so that memory and states stay small: each has a count of every level for every score."""

GATHERING_ROWS = (4, 8, 16)
"""After so many rows of the stream in a cell it is asked whether they have gathered: soon, because an error of the
regression that is particular to where they lie wins bets from the first row on; and no more after the last of them."""

_GATHERED = 1e-3
"""Probability that rows which are spread as those of the reference count as gathered: a cell that forgets without need
loses what it knows, and there may be hundreds of cells."""

_SHARES = (0.4, 0.4, 0.2)
"""Weights of the family of all rows, of the families of columns, and of those of two columns: most changes concern many
rows. A weight that is halved delays an alarm by 0.7 of the 14 nats that it takes."""


class Family(NamedTuple):
    """One way to divide the space of x into regions."""

    # None for one region of all rows; one for its fifths, or labels; two for the combinations of their thirds.
    columns: tuple[int, ...]
    parts: tuple[int, ...]  # number of parts of each of these columns
    ordered: bool  # whether the columns are numbers, along which regions have an order

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return math.prod(self.parts)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns on whose heights there are bets: of columns of numbers that have two parts at least."""
        has_ends = self.ordered and min(self.parts, default=1) > 1
        return patterns_of(len(self.columns)) if has_ends else ()


class RegionArrays(NamedTuple):
    """What `locate_regions` reads, for d columns and f families."""

    edges: FloatArray  # (2, d, 4), as those of `Regions`
    is_label: BoolArray  # (d,)
    thirds: IntArray  # (d,), number of thirds of each column
    families: IntArray  # (f, 2), columns of each family; -1 where it has none, or no second one
    first: IntArray  # (f + 1,), first region of each family, and the number of all regions


@dataclass(frozen=True)
class Regions:
    """Families of regions of x: all rows; those of every column; those of two columns of numbers.

    The regions of a column are its fifths, if it has numbers, or its labels; those of two columns combine their thirds.
    A region has a number, counted through all families: 0 is the region of all rows.
    """

    columns: tuple[Column, ...]
    # Where a fifth of a column of numbers ends and the next begins, and the same for thirds; infinite beyond the last.
    edges: FloatArray  # (2, d, 4)

    @classmethod
    def of(cls, x: FloatArray, columns: tuple[Column, ...]) -> Regions:
        """Find the regions of a reference (n, d)."""
        edges = np.full((2, len(columns), PARTS - 1), np.inf)
        for parts, table in zip((PARTS, PAIRED_PARTS), edges, strict=True):
            for row, column, values in zip(table, columns, x.T, strict=True):
                if not column.is_category:
                    quantiles = np.unique(np.quantile(values, np.arange(1, parts) / parts))
                    # An edge at the smallest value would leave the region below it empty.
                    quantiles = quantiles[quantiles > values.min()]
                    row[: len(quantiles)] = quantiles
        return cls(columns, edges)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """All families; the first is that of all rows."""
        fifths, thirds = self._parts(0), self._parts(1)
        is_number = [not column.is_category for column in self.columns]
        families = [Family((), (), ordered=False)]
        families += [Family((c,), (fifths[c],), ordered=is_number[c]) for c in range(len(self.columns))]
        divided = [c for c in range(len(self.columns)) if is_number[c] and thirds[c] > 1]
        if len(divided) <= MOST_PAIRED:
            families += [Family((a, b), (thirds[a], thirds[b]), ordered=True) for a, b in combinations(divided, 2)]
        return tuple(families)

    def _parts(self, table: int) -> list[int]:
        """Return the number of fifths (table 0) or thirds (1) of each column; of labels, that of the labels."""
        n_edges = np.isfinite(self.edges[table]).sum(axis=1)
        pairs = zip(self.columns, n_edges, strict=True)
        return [len(column.labels) if column.is_category else int(count) + 1 for column, count in pairs]

    @cached_property
    def first(self) -> IntArray:
        """First region of each family, and the number of all regions (f + 1,)."""
        return np.cumsum([0, *(family.n_regions for family in self.families)]).astype(np.int64)

    @property
    def total(self) -> int:
        """Number of regions of all families together."""
        return int(self.first[-1])

    @cached_property
    def shares(self) -> FloatArray:
        """Weight of every family (f,); they add up to 1."""
        # Families of no, one and two columns; -1 for a column with one region, on which there are no bets.
        kinds = np.array(
            [len(family.columns) if not family.columns or family.n_regions > 1 else -1 for family in self.families]
        )
        shares = np.zeros(len(kinds))
        for kind, share in enumerate(_SHARES):
            shares[kinds == kind] = share / max(int(np.sum(kinds == kind)), 1)
        return np.asarray(shares / np.sum(shares))

    def locate(self, x: FloatArray) -> IntArray:
        """Return the region of each row in each family."""
        return np.asarray(locate_regions(x, self.arrays))

    @cached_property
    def arrays(self) -> RegionArrays:
        """The same for `locate_regions`."""
        columns = [[*family.columns, -1, -1][:2] for family in self.families]
        return RegionArrays(
            edges=self.edges,
            is_label=np.array([column.is_category for column in self.columns]),
            thirds=np.array(self._parts(1), np.int64),
            families=np.array(columns, np.int64),
            first=self.first,
        )

    def holds(self, x: FloatArray, region: int) -> BoolArray:
        """Which rows are in a region."""
        return np.asarray((self.locate(x) == region).any(axis=1))

    def bounds(self, region: int) -> dict[str, Any]:
        """Return the column of a region with its limits (None where open), or its label; nothing for all rows."""
        f = int(np.searchsorted(self.first, region, side="right")) - 1
        columns = self.families[f].columns
        if len(columns) != 1:
            return {}
        column, edges = self.columns[columns[0]], self.edges[0, columns[0]]
        part = region - int(self.first[f])
        if column.is_category:
            return {column.name: [column.labels[part]]}
        high = float(edges[part]) if part < len(edges) and np.isfinite(edges[part]) else None
        return {column.name: (None if part == 0 else float(edges[part - 1]), high)}

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
    """Return the number of edges at or below a value: the fifth or third that it is in."""
    part = 0
    while part < len(edges) and edges[part] <= value:
        part += 1
    return part


@njit(nogil=True)
def locate_regions(x: Any, arrays: Any) -> Any:
    """Return the region of each row of x in each family (n, f), given `RegionArrays`."""
    edges, thirds, families = arrays.edges, arrays.thirds, arrays.families
    regions = np.empty((len(x), len(families)), np.int64)
    for t in range(len(x)):
        for f in range(len(families)):
            a, b = families[f]
            within = 0  # number of the region within its family
            if b >= 0:
                within = _part(x[t, a], edges[1, a]) * thirds[b] + _part(x[t, b], edges[1, b])
            elif a >= 0:
                within = int(x[t, a]) if arrays.is_label[a] else _part(x[t, a], edges[0, a])
            regions[t, f] = arrays.first[f] + within
    return regions


class CellTree(NamedTuple):
    """A binary tree of splits of x for every region; its root is the node with the number of the region."""

    columns: IntArray  # the column that a node splits; -1 for cells
    thresholds: FloatArray  # where it does; smaller or equal values go to the first child
    children: IntArray  # the first child, which the second follows; of a cell, its number
    deviations: FloatArray  # (cells, p): those of each column of the design in a cell; 0 for indicators of labels

    @classmethod
    def of(cls, x: FloatArray, features: FloatArray, regions: IntArray, n_regions: int) -> CellTree:
        """Split the rows of each region, by medians of the columns whose two sides differ most in their features.

        Rows are x (n, p) of the design, with features (n, q) and in `regions` (n, f).
        """
        fewest = max(CELL_ROWS, -(-len(x) // MOST_CELLS))
        varies = np.array([len(np.unique(column)) > 2 for column in x.T])  # (p,), False for indicators of labels
        nodes: list[tuple[int, float, int]] = [(-1, 0.0, 0)] * n_regions  # column, threshold and child of each node
        deviations: list[FloatArray] = []  # of each cell
        waiting = [(region, np.flatnonzero((regions == region).any(axis=1))) for region in range(n_regions)]
        while waiting:
            node, rows = waiting.pop()
            split = _best_split(x[rows], features[rows], fewest) if len(rows) >= 2 * fewest else None
            if split is None:
                nodes[node] = (-1, 0.0, len(deviations))
                deviations.append(np.where(varies, x[rows].std(axis=0), 0.0) if len(rows) else np.zeros(x.shape[1]))
                continue
            column, threshold = split
            is_low = x[rows, column] <= threshold
            nodes[node] = (column, threshold, len(nodes))
            waiting += [(len(nodes), rows[is_low]), (len(nodes) + 1, rows[~is_low])]
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
        """Scatter of inputs below which they have gathered (cells, 3), after each of `GATHERING_ROWS` rows.

        Of n normal rows the squared distances from their mean, in units of the cell's deviations, add up to a
        chi-square variable with n - 1 degrees of freedom for every column.
        """
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


def _best_split(x: FloatArray, features: FloatArray, fewest: int) -> tuple[int, float] | None:
    """Return the column and its value for which the means of the features are farthest apart on the two sides.

    Both sides keep so many rows at least; None if no column can be split so.
    """
    n, largest_gain, best = len(x), -1.0, None
    for column, values in enumerate(x.T):
        threshold = float(np.median(values))
        if np.sum(values <= threshold) > n - fewest:  # e.g. an indicator that is mostly 1
            threshold = float(values[values < threshold].max(initial=-np.inf))
        is_low = values <= threshold
        n_low = int(is_low.sum())
        if fewest <= n_low <= n - fewest:
            step = features[is_low].mean(axis=0) - features[~is_low].mean(axis=0)
            # By how much the split lowers the sum of squares within the two sides, up to a factor n.
            gain = n_low * (n - n_low) * float(step @ step)
            if gain > largest_gain:
                largest_gain, best = gain, (column, threshold)
    return best


@njit(nogil=True)
def locate_cells(x: Any, regions: Any, tree: Any) -> Any:
    """Return the cell of each row of the design x (n, p) in each family, given its regions (n, f)."""
    cells = np.empty(regions.shape, np.int64)
    for t in range(regions.shape[0]):
        for f in range(regions.shape[1]):
            node = regions[t, f]
            while tree.columns[node] >= 0:
                node = tree.children[node] + (0 if x[t, tree.columns[node]] <= tree.thresholds[node] else 1)
            cells[t, f] = tree.children[node]
    return cells


def parts_state(cells: CellTree, regions: Regions) -> dict[str, AnyArray]:
    """Return cells and regions as plain arrays."""
    finite = np.where(np.isfinite(regions.edges), regions.edges, np.finfo(float).max)
    return {**{f"cell_{name}": array for name, array in cells._asdict().items()}, "edges": finite}


def parts_from_state(state: Mapping[str, AnyArray], columns: tuple[Column, ...], dim: int) -> tuple[CellTree, Regions]:
    """Undo `parts_state`, for a design of so many columns; a KeyError or ValueError if the arrays do not fit."""
    edges = stored(state, "edges")
    if edges.shape != (2, len(columns), PARTS - 1):
        raise ValueError("regions that do not fit the columns")
    regions = Regions(columns, np.where(edges == np.finfo(float).max, np.inf, edges))
    arrays: dict[str, Any] = {name: stored(state, f"cell_{name}") for name in CellTree._fields}
    for name in ("columns", "children"):
        arrays[name] = arrays[name].astype(np.int64)
    cells = CellTree(**arrays)
    cells.check(dim, regions.total)
    return cells, regions
