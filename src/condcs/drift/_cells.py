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
from condcs.drift._reference_regression import stored_numbers

N_FIFTHS, N_THIRDS = 5, 3
"""Regions of a column of numbers, with about as many rows each; and of each of two columns that make a family. Nine
combinations of thirds have a ninth of the rows each, half of what fifths have."""

_FIFTHS, _THIRDS = 0, 1
"""Where the edges of each are in `Regions.edges`."""

_NO_COLUMN = -1
"""In place of a column: that of a family of fewer than two, and that which a cell, as a node of a tree, splits."""

MOST_PAIRED = 6
"""Columns of numbers up to which every two of them make a family: 15 families of 6, which share one weight."""

FEWEST_CELL_ROWS = 36
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
    regions_by_column: tuple[int, ...]  # number of regions along each of these columns
    ordered: bool  # whether the columns are numbers, along which regions have an order

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return math.prod(self.regions_by_column)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns on whose heights there are bets: of columns of numbers that have two regions at least."""
        has_ends = self.ordered and min(self.regions_by_column, default=1) > 1
        return patterns_of(len(self.columns)) if has_ends else ()


class RegionArrays(NamedTuple):
    """What `locate_regions` reads, for d columns and f families."""

    edges: FloatArray  # (2, d, 4), as those of `Regions`
    is_label: BoolArray  # (d,)
    n_thirds: IntArray  # (d,), number of thirds of each column
    families: IntArray  # (f, 2), columns of each family; `_NO_COLUMN` where it has none, or no second one
    first_regions: IntArray  # (f + 1,), first region of each family, and the number of all regions


@dataclass(frozen=True)
class Regions:
    """Families of regions of x: all rows; those of every column; those of two columns of numbers.

    The regions of a column are its fifths, if it has numbers, or its labels; those of two columns combine their thirds.
    A region has a number, counted through all families: 0 is the region of all rows.
    """

    columns: tuple[Column, ...]
    # Where a fifth of a column of numbers ends and the next begins, and the same for thirds; infinite beyond the last.
    edges: FloatArray  # (2, d, N_FIFTHS - 1)

    @classmethod
    def of(cls, x: FloatArray, columns: tuple[Column, ...]) -> Regions:
        """Find the regions of a reference (n, d)."""
        edges = np.full((2, len(columns), N_FIFTHS - 1), np.inf)
        for division, n_regions in ((_FIFTHS, N_FIFTHS), (_THIRDS, N_THIRDS)):
            for c, column in enumerate(columns):
                if column.is_category:
                    continue
                values = x[:, c]
                quantiles = np.unique(np.quantile(values, np.arange(1, n_regions) / n_regions))
                # An edge at the smallest value would leave the region below it empty.
                quantiles = quantiles[quantiles > values.min()]
                edges[division, c, : len(quantiles)] = quantiles
        return cls(columns, edges)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """All families; the first is that of all rows."""
        n_fifths, n_thirds = self._regions_by_column(_FIFTHS), self._regions_by_column(_THIRDS)
        is_number = [not column.is_category for column in self.columns]
        families = [Family((), (), ordered=False)]
        families += [Family((c,), (n_fifths[c],), ordered=is_number[c]) for c in range(len(self.columns))]
        divided = [c for c in range(len(self.columns)) if is_number[c] and n_thirds[c] > 1]
        if len(divided) <= MOST_PAIRED:
            families += [Family((a, b), (n_thirds[a], n_thirds[b]), ordered=True) for a, b in combinations(divided, 2)]
        return tuple(families)

    def _regions_by_column(self, division: int) -> list[int]:
        """Return the number of regions along each column, fifths or thirds; of labels, that of the labels."""
        n_edges = np.isfinite(self.edges[division]).sum(axis=1)
        pairs = zip(self.columns, n_edges, strict=True)
        return [len(column.labels) if column.is_category else int(count) + 1 for column, count in pairs]

    @cached_property
    def first_regions(self) -> IntArray:
        """First region of each family, and the number of all regions (f + 1,)."""
        return np.cumsum([0, *(family.n_regions for family in self.families)]).astype(np.int64)

    @property
    def n_regions(self) -> int:
        """Number of regions of all families together."""
        return int(self.first_regions[-1])

    @cached_property
    def shares(self) -> FloatArray:
        """Weight of every family (f,); they add up to 1."""
        n_columns = np.array([len(family.columns) for family in self.families])
        # There are no bets on a column with a single region: they would repeat those on all rows.
        has_bets = np.array([not family.columns or family.n_regions > 1 for family in self.families])
        shares = np.zeros(len(self.families))
        for width, share in enumerate(_SHARES):
            members = has_bets & (n_columns == width)
            shares[members] = share / max(int(np.sum(members)), 1)
        return np.asarray(shares / np.sum(shares))

    def locate(self, x: FloatArray) -> IntArray:
        """Return the region of each row in each family."""
        return np.asarray(locate_regions(x, self.arrays))

    @cached_property
    def arrays(self) -> RegionArrays:
        """The same for `locate_regions`."""
        columns = [[*family.columns, _NO_COLUMN, _NO_COLUMN][:2] for family in self.families]
        return RegionArrays(
            edges=self.edges,
            is_label=np.array([column.is_category for column in self.columns]),
            n_thirds=np.array(self._regions_by_column(_THIRDS), np.int64),
            families=np.array(columns, np.int64),
            first_regions=self.first_regions,
        )

    def holds(self, x: FloatArray, region: int) -> BoolArray:
        """Which rows are in a region."""
        return np.asarray((self.locate(x) == region).any(axis=1))

    def bounds(self, region: int) -> dict[str, Any]:
        """Return the column of a region with its limits (None where open), or its label; nothing for all rows."""
        f = int(np.searchsorted(self.first_regions, region, side="right")) - 1
        columns = self.families[f].columns
        if len(columns) != 1:
            return {}
        within = region - int(self.first_regions[f])  # number of the region within its family
        column, edges = self.columns[columns[0]], self.edges[_FIFTHS, columns[0]]
        if column.is_category:
            return {column.name: [column.labels[within]]}
        low = float(edges[within - 1]) if within > 0 else None
        high = float(edges[within]) if within < len(edges) and np.isfinite(edges[within]) else None
        return {column.name: (low, high)}

    def words(self, region: int) -> str:
        """Return where a region is: ``load from 2.1 to 4.3``."""
        bounds = self.bounds(region)
        if not bounds:
            return "all rows"
        [(name, limits)] = bounds.items()
        if isinstance(limits, list):
            return f"{name} = {limits[0]}"
        low, high = limits
        if low is None:
            return f"{name} below {high:.4g}"
        if high is None:
            return f"{name} from {low:.4g} on"
        return f"{name} from {low:.4g} to {high:.4g}"


@inner()
def _edges_up_to(value: float, edges: Any) -> int:
    """Return the number of edges at or below a value: the fifth or third that it is in."""
    count = 0
    while count < len(edges) and edges[count] <= value:
        count += 1
    return count


@njit(nogil=True)
def locate_regions(x: Any, arrays: Any) -> Any:
    """Return the region of each row of x in each family (n, f), given `RegionArrays`."""
    families, fifths, thirds = arrays.families, arrays.edges[_FIFTHS], arrays.edges[_THIRDS]
    regions = np.empty((len(x), len(families)), np.int64)
    for i in range(len(x)):
        for f in range(len(families)):
            a, b = families[f]
            within = 0  # number of the region within its family
            if b != _NO_COLUMN:
                within = _edges_up_to(x[i, a], thirds[a]) * arrays.n_thirds[b] + _edges_up_to(x[i, b], thirds[b])
            elif a != _NO_COLUMN:
                within = int(x[i, a]) if arrays.is_label[a] else _edges_up_to(x[i, a], fifths[a])
            regions[i, f] = arrays.first_regions[f] + within
    return regions


class CellTree(NamedTuple):
    """A binary tree of splits of x for every region; its root is the node with the number of the region."""

    columns: IntArray  # (nodes,), the column of the design that a node splits; `_NO_COLUMN` for cells
    thresholds: FloatArray  # (nodes,), where it does; smaller or equal values go to the first child
    children: IntArray  # (nodes,), the first child, which the second follows; of a cell, its number
    deviations: FloatArray  # (cells, p), of each column of the design in a cell; 0 for indicators of labels

    @classmethod
    def of(cls, x: FloatArray, features: FloatArray, regions: IntArray, n_regions: int) -> CellTree:
        """Split the rows of each region, by medians of the columns whose two sides differ most in their features.

        Rows are x (n, p) of the design, with features (n, q) and in `regions` (n, f).
        """
        fewest = max(FEWEST_CELL_ROWS, -(-len(x) // MOST_CELLS))
        varies = np.array([len(np.unique(column)) > 2 for column in x.T])  # (p,), False for indicators of labels
        unsplit = (_NO_COLUMN, 0.0, 0)
        nodes: list[tuple[int, float, int]] = [unsplit] * n_regions  # column, threshold and child of each node
        deviations: list[FloatArray] = []  # of each cell
        waiting = [(region, np.flatnonzero((regions == region).any(axis=1))) for region in range(n_regions)]
        while waiting:
            node, rows = waiting.pop()
            split = _best_split(x[rows], features[rows], fewest) if len(rows) >= 2 * fewest else None
            if split is None:
                nodes[node] = (_NO_COLUMN, 0.0, len(deviations))
                deviations.append(np.where(varies, x[rows].std(axis=0), 0.0) if len(rows) else np.zeros(x.shape[1]))
                continue
            column, threshold = split
            first_child = len(nodes)
            nodes[node] = (column, threshold, first_child)
            nodes += [unsplit, unsplit]
            is_low = x[rows, column] <= threshold
            waiting += [(first_child, rows[is_low]), (first_child + 1, rows[~is_low])]
        columns, thresholds, children = zip(*nodes, strict=True)
        return cls(
            np.array(columns, np.int64), np.array(thresholds), np.array(children, np.int64), np.array(deviations)
        )

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(np.sum(self.columns == _NO_COLUMN))

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

    def check(self, dim: int, n_regions: int) -> None:
        """Raise a ValueError unless the arrays make a tree for every region."""
        columns, thresholds, children, deviations = self
        split_nodes = np.flatnonzero(columns >= 0)
        first_children = children[split_nodes]
        if (
            columns.ndim != 1
            or not columns.shape == thresholds.shape == children.shape
            or len(columns) < n_regions
            or columns.max() >= dim
            or columns.min() < _NO_COLUMN
            # Every node but the roots is the child of one before it.
            or sorted([*first_children, *(first_children + 1)]) != list(range(n_regions, len(columns)))
            or (first_children <= split_nodes).any()
            # Cells are numbered.
            or sorted(children[columns == _NO_COLUMN]) != list(range(self.n_cells))
            or deviations.shape != (self.n_cells, dim)
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
    for i in range(regions.shape[0]):
        for f in range(regions.shape[1]):
            node = regions[i, f]
            while tree.columns[node] != _NO_COLUMN:
                is_low = x[i, tree.columns[node]] <= tree.thresholds[node]
                node = tree.children[node] + (0 if is_low else 1)
            cells[i, f] = tree.children[node]
    return cells


def cells_state(cells: CellTree, regions: Regions) -> dict[str, AnyArray]:
    """Return cells and regions as plain arrays."""
    finite = np.where(np.isfinite(regions.edges), regions.edges, np.finfo(float).max)
    return {**{f"cell_{name}": array for name, array in cells._asdict().items()}, "edges": finite}


def cells_from_state(state: Mapping[str, AnyArray], columns: tuple[Column, ...], dim: int) -> tuple[CellTree, Regions]:
    """Undo `cells_state`, for a design of so many columns; a KeyError or ValueError if the arrays do not fit."""
    edges = stored_numbers(state, "edges")
    if edges.shape != (2, len(columns), N_FIFTHS - 1):
        raise ValueError("regions that do not fit the columns")
    regions = Regions(columns, np.where(edges == np.finfo(float).max, np.inf, edges))
    arrays: dict[str, Any] = {name: stored_numbers(state, f"cell_{name}") for name in CellTree._fields}
    for name in ("columns", "children"):
        arrays[name] = arrays[name].astype(np.int64)
    cells = CellTree(**arrays)
    cells.check(dim, regions.n_regions)
    return cells, regions
