"""Designs: families of functions of x that a regression may be made of.

Splines of every column, and the length of x ("additive"); these and the products of columns ("products"); Gaussian
bumps of several bandwidths around landmark rows; splines of single columns. Functions are centred and of about variance
1, so that one scale of ridge penalties fits all families.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, RealArray
from condcs._core.settings import one_blas_thread
from condcs._kernels.low_rank import inverse_root
from condcs._kernels.row_sums import PLAIN_TESTS, exp_in_place
from condcs._parallel.many_rows import ROWS_AT_ONCE, over_rows, total
from condcs._regression.ridge import RIDGE_PENALTIES, ClusterMeans, ridge_shrinkages
from condcs._regression.standardised import (
    FEW_VALUES,
    StandardisedInputs,
    in_deviations,
    median_square,
    squared_distances,
)

BUMP_LANDMARKS = 150
"""Centres of the Gaussian bumps: more of them tell finer functions of several columns apart, and cost a Gram matrix of
the rows with each, and its eigenvectors."""

BANDWIDTHS = (1.0, 0.35, 0.12)
"""Bandwidths of the bumps, in units of the median distance between rows, each about a third of the one before: from
functions that bend once to narrow ones. The narrowest is for a single column: in several, 150 landmarks lie too far
apart for it."""

_KNOTS_OF_ONE = 8
"""Most knots of a single column: fewer than of several, because it has narrow bumps besides."""
_ROWS_PER_KNOT = 8
"""Rows for each knot of each column: with fewer, splines follow single rows."""
_FEWEST_KNOTS = 3
"""Knots of a spline that can bend."""
_MOST_PRODUCTS = 500
"""Largest number of products: their eigenvectors take the cube of it, and more of them no penalty tells apart."""
_ROWS_PER_PRODUCT, _ROWS_PER_FINE_SPLINE = 4, 2
"""Rows for each function, if there are splines for each category and finer splines of all columns: with fewer they
follow single rows, and only fits with large penalties are left."""
_OTHER_CATEGORY = 0.15
"""Value of the kernel between two categories: bumps borrow a little strength from the other categories. With 0 each has
functions of its own, from its own rows alone; with 1 labels are ignored."""
_SMALLEST_EIGENVALUE = 1e-9
"""Squared length of a direction, in units of the largest one, below which it is rounding error."""
_SMALLEST_EIGENVALUE_OF_BUMPS = 1e-7
"""The same of the Gram matrix of landmarks, whose inverse root makes bumps of it: rounding is enlarged twice."""


@dataclass(frozen=True)
class Design:
    """Functions of x on all rows, as orthonormal columns and the squared length of the functions along each.

    Attributes
    ----------
    name : str
        Which functions they are.
    basis : array, shape (n, p)
        Orthonormal columns, orthogonal to a constant.
    spectrum : array, shape (p,)
        Squared lengths, in no particular order; the ridge penalty is relative to them.
    """

    name: str
    basis: RealArray
    spectrum: FloatArray

    @classmethod
    def of(cls, name: str, functions: RealArray) -> Design:
        """Centre the functions (n, q) and find their principal directions."""
        n, q = functions.shape
        if q < n:
            mean, spectrum, directions = principal_directions(functions)
            turn = directions / np.sqrt(spectrum)
            basis = _fill_by_chunks(lambda rows: (functions[rows] - mean) @ turn, n, turn.shape[1], functions.dtype)
            return cls(name, basis, spectrum)
        centred = functions - functions.mean(axis=0, dtype=np.float64)
        spectrum, basis = np.linalg.eigh(centred @ centred.T)  # (n, n)
        large = spectrum > _SMALLEST_EIGENVALUE * spectrum.max(initial=np.finfo(float).tiny)
        return cls(name, np.ascontiguousarray(basis[:, large]), spectrum[large])

    @property
    def functions(self) -> RealArray:
        """The functions along the principal directions, with their lengths (n, p)."""
        return np.asarray(self.basis * np.sqrt(self.spectrum).astype(self.basis.dtype))

    def terms(self, rows: slice | IntArray) -> FloatArray:
        """Return a constant and the functions, of some rows, in double precision (rows, 1 + p)."""
        return self._terms(rows) if len(self.basis) > ROWS_AT_ONCE else self._all_terms[rows]

    @cached_property
    def _all_terms(self) -> FloatArray:
        return self._terms(slice(None))

    def _terms(self, rows: slice | IntArray) -> FloatArray:
        basis = self.basis[rows]
        return np.column_stack([np.ones(len(basis)), basis * np.sqrt(self.spectrum)])

    def along(self, values: RealArray) -> RealArray:
        """Return the inner products of the basis with columns of values on all rows (p, m)."""
        return np.asarray(total(lambda rows: self.basis[rows].T @ values[rows], len(self.basis)))

    def residuals(self, targets: RealArray, rows: slice | IntArray) -> FloatArray:
        """Return what the design leaves of centred targets in some rows; penalties by generalised cross-validation."""
        n = len(targets)
        with one_blas_thread():
            along = self.along(targets)  # (p, m)
            shrinkages = ridge_shrinkages(self.spectrum, RIDGE_PENALTIES, n).T  # (penalties, p)
            if not len(shrinkages):
                return np.asarray(targets[rows])
            # What each penalty leaves of the sum of squares: along a direction, a shrinkage s leaves (1 - s)^2 of the
            # square, which is all of it minus s (2 - s).
            squares = (targets**2).sum(axis=0) - (shrinkages * (2 - shrinkages)) @ along**2  # (penalties, m)
            freedom = shrinkages.sum(axis=1, keepdims=True)  # (penalties, 1)
            # Generalised cross-validation: the mean leverage of a row is freedom / n.
            best = (squares / (1 - freedom / n) ** 2).argmin(axis=0)  # (m,)
            return np.asarray(targets[rows] - self.basis[rows] @ (shrinkages[best].T * along))

    def with_functions(self, functions: RealArray) -> Design:
        """Return the design with further functions (n, q)."""
        return Design.of(self.name, np.hstack([self.functions, functions]))

    def of_clusters(self, means: ClusterMeans, further: Sequence[RealArray]) -> Design:
        """Return the means of the functions over each cluster, beside further functions of the clusters."""
        return Design.of(self.name, np.hstack([means(self.functions), *further]))


@dataclass(frozen=True)
class DesignSizes:
    """How many functions designs are made of."""

    knots: int = 12
    """Most knots of a column's splines, if there are several columns: three waves along one of them are followed."""
    landmarks: int = BUMP_LANDMARKS
    """Centres of the Gaussian bumps."""
    with_length: bool = True
    """Whether the length of x and its square are among the functions."""
    single_columns: bool = False
    """Whether there are designs of each column by itself, and finer splines of all columns, too."""


@dataclass(frozen=True, eq=False)
class DesignMaker:
    """Functions of the inputs, by family.

    Attributes
    ----------
    inputs : StandardisedInputs
        The columns of x.
    sizes : DesignSizes
        How many functions there are of each kind.
    judged : slice or array of int
        Rows that stand for all where a median is enough.
    dtype : dtype
        Of the functions.
    """

    inputs: StandardisedInputs
    sizes: DesignSizes
    judged: slice | IntArray
    dtype: np.dtype[Any]

    def designs(self) -> list[Design]:
        """Return the designs of all families, the simplest first."""
        with one_blas_thread():
            return [Design.of(name, functions) for family in FAMILIES for name, functions in family(self)]

    @property
    def rows(self) -> int:
        """Rows of x."""
        return len(self.inputs.numbers)

    @cached_property
    def numbers(self) -> RealArray:
        """The columns of numbers, in the precision of the functions (n, d)."""
        return self.inputs.numbers.astype(self.dtype, copy=False)

    @cached_property
    def in_own_units(self) -> RealArray:
        """The columns with heavy tails in their own units (n, h)."""
        return self.inputs.in_own_units.astype(self.dtype, copy=False)

    @cached_property
    def indicators(self) -> list[RealArray]:
        """Indicators of each column of labels, all but one of its categories (n, categories - 1)."""
        return [block[:, 1:].astype(self.dtype, copy=False) for block in self.inputs.indicators]

    @cached_property
    def splines(self) -> list[RealArray]:
        """Splines of each column of numbers that has room for them (n, splines)."""
        columns = self.numbers.shape[1]
        most = min(self.sizes.knots, _KNOTS_OF_ONE) if columns == 1 else self.sizes.knots
        knots = int(np.clip(self.rows // (_ROWS_PER_KNOT * max(columns, 1)), _FEWEST_KNOTS, most))
        blocks = (block.astype(self.dtype, copy=False) for block in self.splines_of(knots))
        return [block for block in blocks if block.shape[1]]

    @cached_property
    def additive(self) -> list[RealArray]:
        """Functions of single columns, and of the length of x."""
        blocks: list[RealArray] = []
        if self.numbers.shape[1]:
            blocks = [self.numbers, self.in_own_units]
        blocks = [*blocks, *self.splines, *self.indicators]
        if self.sizes.with_length and self.numbers.shape[1] > 1:
            # Where all columns spread together, no sum of functions of single columns follows.
            squared = (self.numbers**2).sum(axis=1, keepdims=True)
            blocks += [np.sqrt(squared), squared]
        return blocks

    def products(self) -> list[RealArray]:
        """Return products of two columns: lines of numbers, and indicators of labels."""
        # A column with heavy tails has two lines: by its normal scores, and in its own units.
        column_of_line = np.concatenate([np.arange(self.numbers.shape[1]), np.flatnonzero(self.inputs.heavy)])
        lines = np.hstack([self.numbers, self.in_own_units])
        by_column: list[RealArray] = [lines[:, column_of_line == j] for j in range(self.numbers.shape[1])]
        blocks = [_each_by_each(a, b) for a, b in combinations([*by_column, *self.indicators], 2)]
        # Where there is room, each category has splines of its own.
        curved = [_each_by_each(a, s) for a in self.indicators for s in self.splines]
        room = min(self.rows // _ROWS_PER_PRODUCT, _MOST_PRODUCTS)
        if sum(block.shape[1] for block in (*blocks, *curved)) <= room:
            blocks += curved
        return blocks

    def splines_of(self, knots: int) -> list[FloatArray]:
        """Return splines with so many knots of each column of numbers; indicators if it has few values."""
        blocks = []
        for column in self.inputs.numbers.T:
            values = np.unique(column)
            quantiles = np.unique(np.quantile(column, np.linspace(0, 1, knots)))
            if len(values) <= FEW_VALUES:
                blocks.append((column[:, None] == values[1:]).astype(np.float64))
            elif len(quantiles) > 2:
                blocks.append(_cubic_splines(column, quantiles))
            else:
                blocks.append(np.zeros((len(column), 0)))
        return blocks


NamedFunctions = Iterator[tuple[str, RealArray]]
"""What designs are made of: a name, and functions on all rows (n, q)."""


def _additive(maker: DesignMaker) -> NamedFunctions:
    """Functions of single columns, and of the length of x, added up."""
    yield "additive", in_deviations(np.hstack(maker.additive))


def _products(maker: DesignMaker) -> NamedFunctions:
    """Functions of single columns, and products of two columns, if these are not too many."""
    products = maker.products()
    if products and sum(block.shape[1] for block in products) <= _MOST_PRODUCTS:
        yield "products", in_deviations(np.hstack([*maker.additive, *products]))


def _bumps(maker: DesignMaker) -> NamedFunctions:
    """Gaussian bumps around landmark rows, and the inputs themselves, for each bandwidth."""
    numbers, categories, n = maker.inputs.numbers, maker.inputs.categories, maker.rows
    if not numbers.shape[1]:
        return
    landmarks = np.unique(np.linspace(0, n - 1, min(n, maker.sizes.landmarks)).astype(np.int64))
    # A median needs no more rows than the fits are judged by.
    unit = 2 * median_square(squared_distances(numbers[maker.judged], numbers[landmarks]))

    def gram(rows: slice | IntArray, bandwidth: float) -> RealArray:
        """Kernel between some rows and the landmarks."""
        kernel = squared_distances(numbers[rows], numbers[landmarks]) / (-unit * bandwidth**2)
        exp_in_place(kernel, compiled=n > PLAIN_TESTS)
        for codes in categories:
            kernel *= np.where(codes[rows][:, None] == codes[landmarks], 1.0, _OTHER_CATEGORY)
        return kernel

    def features(bandwidth: float, root: FloatArray, rows: slice) -> RealArray:
        return np.asarray(gram(rows, bandwidth) @ root)

    for bandwidth in BANDWIDTHS if numbers.shape[1] == 1 else BANDWIDTHS[:-1]:
        root = inverse_root(gram(landmarks, bandwidth), _SMALLEST_EIGENVALUE_OF_BUMPS)
        bumps = _fill_by_chunks(partial(features, bandwidth, root), n, root.shape[1], maker.dtype)
        # All bumps together weigh as much as so many columns of variance 1, so that penalties mean the same.
        bumps *= np.sqrt(n * bumps.shape[1] / np.sum(bumps**2, dtype=np.float64)).astype(maker.dtype)
        yield f"bumps of {bandwidth:g} medians", np.hstack([maker.numbers, bumps])


def _single_columns(maker: DesignMaker) -> NamedFunctions:
    """Splines of each column, and of all columns, with as many knots as a single column may have."""
    numbers = maker.inputs.numbers
    if not maker.sizes.single_columns or numbers.shape[1] < 2:
        return
    splines = maker.splines_of(int(np.clip(maker.rows // _ROWS_PER_KNOT, _FEWEST_KNOTS, maker.sizes.knots)))
    lines = numbers.T[:, :, None]  # (d, n, 1)
    by_column = []
    for line, splines_of_column in zip(lines, splines, strict=True):
        functions = in_deviations(np.hstack([line, splines_of_column]))
        by_column.append(functions.astype(maker.dtype))
    yield from ((f"column {j + 1}", block) for j, block in enumerate(by_column))
    if sum(block.shape[1] for block in by_column) <= maker.rows // _ROWS_PER_FINE_SPLINE:
        yield "fine additive", np.hstack(by_column)


FAMILIES: tuple[Callable[[DesignMaker], NamedFunctions], ...] = (_additive, _products, _bumps, _single_columns)
"""All families. Of two designs that do equally well the first is taken, so that the simplest come first."""


def principal_directions(functions: RealArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the means (q,) of functions (n, q), and of the centred ones squared lengths (p,) and directions (q, p).

    Directions along which they hardly vary are left out. Cost O(n q^2 + q^3).
    """
    mean = functions.mean(axis=0, dtype=np.float64)
    gram = total(lambda rows: _inner(functions[rows] - mean), len(functions))  # (q, q)
    spectrum, directions = np.linalg.eigh(gram)
    large = spectrum > _SMALLEST_EIGENVALUE * spectrum.max(initial=np.finfo(float).tiny)
    return mean, spectrum[large], directions[:, large]


def designs_of_clusters(designs: list[Design], means: ClusterMeans) -> list[Design]:
    """Return the means of the functions of x over each cluster, and its size if sizes differ."""
    have_one_size = means.row_counts.min() == means.row_counts.max()
    further = [] if have_one_size else [in_deviations(np.log(means.row_counts)[:, None])]
    return [design.of_clusters(means, further) for design in designs]


def _cubic_splines(values: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the cubic B-splines of some knots at values between them (n x knots + 1), without the last one.

    They add up to 1, which is what the constant of a design says already.
    """
    # Imported here, because `import condcs` stays light.
    from scipy.interpolate import BSpline

    # Three more knots at either end, as far apart as the outermost two, so that splines are complete at the ends.
    steps = np.arange(1, 4)
    below = knots[0] - (knots[1] - knots[0]) * steps[::-1]
    above = knots[-1] + (knots[-1] - knots[-2]) * steps
    splines = BSpline.design_matrix(values, np.concatenate([below, knots, above]), 3)  # sparse
    return np.asarray(splines.toarray()[:, :-1])


def _each_by_each(a: RealArray, b: RealArray) -> RealArray:
    """Products of each column of a (n x k) with each column of b (n x m), as columns (n x k m)."""
    return np.asarray((a[:, :, None] * b[:, None, :]).reshape(len(a), -1))


def _inner(columns: FloatArray) -> FloatArray:
    return np.asarray(columns.T @ columns)


def _fill_by_chunks(work: Callable[[slice], RealArray], n: int, columns: int, dtype: np.dtype[Any]) -> RealArray:
    """Return an array (n, columns) whose rows `work` makes, chunk by chunk."""
    array = np.empty((n, columns), dtype)

    def fill(rows: slice) -> None:
        array[rows] = work(rows)

    deque(over_rows(fill, n), maxlen=0)
    return array
