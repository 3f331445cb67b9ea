r"""Regression on x without a choice of model: several designs, ridge penalties, and leave-one-out to choose among them.

A design is a set of functions of x: splines of every column, and the length of x; these and the products of columns;
Gaussian bumps of several bandwidths. A column with heavy tails counts by its normal scores, beside a line in its own
units. Every target is regressed on each of them with each of several ridge penalties, and the fit with the smallest
leave-one-out error is kept, which linear smoothers give in closed form. Where targets jump along x, indicators of these
places are added to all designs (`following_jumps`).

Above 10,000 rows the functions are held in single precision (all sums are in double), and fits, made of all rows, are
compared by their errors on 20,000 rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, RealArray, ranked
from condcs._core.settings import one_blas_thread
from condcs._inference import anchors
from condcs._inference.anchors import CHUNK, over_rows, total
from condcs._inference.jumps import Box, inside, jumps
from condcs._kernels.row_sums import exp_in_place

LANDMARKS = 150
"""Centres of the Gaussian bumps."""

BANDWIDTHS = (1.0, 0.35, 0.12)
"""Bandwidths of the bumps, in units of the median distance between rows. The narrowest one is for a single column."""

_PENALTIES = 10.0 ** np.arange(-3.0, 4.01)
_KNOTS_OF_ONE, _ROWS_PER_KNOT = 8, 8
_FEW_VALUES = 8
"""Columns of numbers with no more distinct values than this also get an indicator for each: no room for a spline."""
_HEAVY = 5.0
"""A column has heavy tails if 98% of its rows spread over so many times the range of the middle half: 3.4 for a normal
variable, 4.2 for an exponential one, 6.9 for a lognormal one. In its own units nearly all rows lie in one place, where
no bump or product tells them apart, so that it counts by its normal scores; a line in its own units is kept."""
_MOST_PRODUCTS = 500
_OTHER_CATEGORY = 0.15
"""Value of the kernel between two categories: bumps borrow a little strength from the other categories."""
MOST_FREEDOM = 1 / 3
"""Largest degrees of freedom of a fit, as a share of the rows. Where a fit all but passes through every row, what the
closed form says of a row left out is a quotient of rounding errors."""
GAIN = 0.999
"""A later design must reduce the error by this factor: of two equal ones the simpler is kept."""
_LEAST_LEFT = 0.05
_JUDGED = 20_000
"""Rows by which the fits of a larger pool are compared."""
_SMALLEST_EIGENVALUE = 1e-9
_SEARCHES = 3
"""Searches for jumps, each in what those that were found before leave."""
_FREE = 10
"""Unit of the indicators of jumps, in standard deviations: they are chosen, and hardly penalised besides."""


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
        Squared lengths, in decreasing order of nothing in particular; the ridge penalty is relative to them.
    """

    name: str
    basis: RealArray
    spectrum: FloatArray

    @classmethod
    def of(cls, name: str, functions: RealArray) -> Design:
        """Centre the functions and find their principal directions."""
        n, p = functions.shape
        mean = functions.mean(axis=0, dtype=np.float64)
        if p < n:
            gram = total(lambda rows: _inner(functions[rows] - mean), n)
            spectrum, turn = np.linalg.eigh(gram)
            kept = spectrum > _SMALLEST_EIGENVALUE * spectrum.max(initial=np.finfo(float).tiny)
            turn = turn[:, kept] / np.sqrt(spectrum[kept])
            basis = _by_rows(lambda rows: (functions[rows] - mean) @ turn, n, turn.shape[1], functions.dtype)
            return cls(name, basis, spectrum[kept])
        centred = functions - mean
        spectrum, basis = np.linalg.eigh(centred @ centred.T)
        kept = spectrum > _SMALLEST_EIGENVALUE * spectrum.max(initial=np.finfo(float).tiny)
        return cls(name, np.ascontiguousarray(basis[:, kept]), spectrum[kept])

    @property
    def functions(self) -> RealArray:
        """The functions along the principal directions, with their lengths."""
        return np.asarray(self.basis * np.sqrt(self.spectrum).astype(self.basis.dtype))

    def terms(self, rows: slice | IntArray) -> FloatArray:
        """Return a constant and the functions, of some rows, in double precision."""
        return self._terms(rows) if len(self.basis) > CHUNK else self._all_terms[rows]

    @cached_property
    def _all_terms(self) -> FloatArray:
        return self._terms(slice(None))

    def _terms(self, rows: slice | IntArray) -> FloatArray:
        basis = self.basis[rows]
        return np.column_stack([np.ones(len(basis)), basis * np.sqrt(self.spectrum)])

    def along(self, values: RealArray) -> RealArray:
        """Return the inner products of the basis with columns of values on all rows (p x m)."""
        return np.asarray(total(lambda rows: self.basis[rows].T @ values[rows], len(self.basis)))

    def residuals(self, targets: RealArray, rows: slice | IntArray) -> FloatArray:
        """Return what the design leaves of centred targets in some rows; penalties by generalised cross-validation."""
        with one_blas_thread():
            along = self.along(targets)
            shrinkages = ridge_shrinkages(self.spectrum, _PENALTIES, len(targets)).T
            if not len(shrinkages):
                return np.asarray(targets[rows])
            left = (targets**2).sum(axis=0) - (shrinkages * (2 - shrinkages)) @ along**2
            best = (left / (1 - shrinkages.sum(axis=1, keepdims=True) / len(targets)) ** 2).argmin(axis=0)
            return np.asarray(targets[rows] - self.basis[rows] @ (shrinkages[best].T * along))


class Smoother:
    """Regressions of any targets on x.

    Parameters
    ----------
    x : array, shape (n, d), float64
        Inputs of all rows, labels coded as numbers.
    categorical : sequence of bool
        Which columns are labels.
    clusters : array of int, shape (n,), optional
        Cluster 0, 1, ... of each row. Fits are then compared by their errors with a whole cluster left out: rows that
        belong together would otherwise vouch for one another.
    single : bool, default False
        For tests that have no other line of defence. There are designs of each column by itself, and finer splines of
        all columns, too: where few of many columns matter, these leave less of their influence. And `first_residuals`
        are those of a fit with the next smaller penalty.
    """

    landmarks = LANDMARKS
    knots = 12
    """Most knots of a column's splines, if there are several columns: three waves along one of them are followed."""
    with_length = True
    """Whether the length of x and its square are among the functions."""

    def __init__(
        self, x: FloatArray, categorical: Sequence[bool], clusters: IntArray | None = None, *, single: bool = False
    ) -> None:
        flags = np.asarray(categorical, bool)
        raw = in_deviations(x[:, ~flags])
        self._heavy = _heavy_tailed(raw)
        self.numbers = np.where(self._heavy, in_deviations(normal_scores(raw)), raw) if self._heavy.any() else raw
        self._raw = raw[:, self._heavy]
        self.categories = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in x[:, flags].T]
        self.rows, self._single = len(x), single
        large = self.rows > anchors.EXACT_ROWS
        self._dtype = np.dtype(np.float32 if large else np.float64)
        self.judged: slice | IntArray = slice(None)
        self._clusters, self._units = clusters, self.rows if clusters is None else int(clusters.max()) + 1
        if large:
            # Evenly spaced: samples lie one after the other in the pool, and each must be judged by its share.
            judged = np.linspace(0, self._units - 1, min(_JUDGED * self._units // self.rows, self._units)).astype(
                np.int64
            )
            self.judged = judged if clusters is None else np.flatnonzero(np.isin(clusters, judged))
        with one_blas_thread():
            self.designs = [Design.of(name, functions) for name, functions in self._functions()]
            if single and self.numbers.shape[1] > 1:
                self.designs += [Design.of(name, functions) for name, functions in self._single_columns()]

    def following_jumps(self, targets: RealArray) -> Smoother:
        """Return regressions whose designs also have indicators of the places where targets jump; itself if none do.

        No smooth function follows a jump, and where two variables jump at the same places, both regressions are wrong
        there in the same way. Jumps are looked for in what splines and products leave; bumps would blur them. Rows of a
        cluster resemble one another, which looks like jumps where they share their x: with clusters none are sought.
        """
        if self._clusters is not None:
            return self
        targets, found = in_deviations(targets), list[Box]()
        smooth = [design for design in self.designs if design.name in {"additive", "products"}][-1:]
        for design in smooth * _SEARCHES:
            (extended,) = self._with_boxes([design], found)
            with one_blas_thread():
                more = jumps(self.numbers[self.judged], extended.residuals(targets, self.judged))
            if not set(more) - set(found):
                break
            found = list(dict.fromkeys([*found, *more]))
        if not found:
            return self
        following = copy(self)
        vars(following).pop("_leverages", None)
        following.designs = self._with_boxes(self.designs, found)
        return following

    def _with_boxes(self, designs: list[Design], boxes: list[Box]) -> list[Design]:
        """Return designs with the indicators of some boxes."""
        if not boxes:
            return designs
        indicators = np.column_stack([inside(self.numbers, box) for box in boxes]).astype(self._dtype)
        indicators = _FREE * in_deviations(indicators)
        with one_blas_thread():
            return [Design.of(d.name, np.hstack([d.functions, indicators])) for d in designs]

    @property
    def indicators(self) -> list[FloatArray]:
        """Indicator columns of each label column, one per category."""
        return [(codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64) for codes in self.categories]

    def residuals(self, targets: RealArray) -> tuple[RealArray, RealArray]:
        """Return what the best regression of each column leaves, and the same with each row left out of the fit."""
        return self._residuals(targets, 0)

    def first_residuals(self, targets: RealArray) -> tuple[RealArray, RealArray]:
        """Return the same of variables as they are, before any function of them is looked at.

        The best penalty balances bias against variance. Where residuals are multiplied with those of another variable
        and the same penalty is wrong for both, their biases go together and look like dependence, while their variances
        do not: a smaller penalty is safer.
        """
        return self._residuals(targets, 1) if self._single else self.residuals(targets)

    def _residuals(self, targets: RealArray, finer: int) -> tuple[RealArray, RealArray]:
        """Return residuals with a penalty that comes so many places before the best."""
        n = self.rows
        targets = targets - targets.mean(axis=0)
        seen = targets[self.judged]
        smallest = ((seen * (n / (n - 1))) ** 2).sum(axis=0)
        fits: dict[int, tuple[int, int]] = {}
        along = [design.along(targets) for design in self.designs]
        with one_blas_thread():
            for d, (shrinkages, leverages) in enumerate(self._leverages):
                basis = np.asarray(self.designs[d].basis[self.judged], np.float64)
                together = self._left_out_by(basis)
                for k, (shrinkage, leverage) in enumerate(zip(shrinkages, leverages, strict=True)):
                    here = basis @ (shrinkage[:, None] * along[d])
                    here = together(np.subtract(seen, here, out=here), leverage, shrinkage)
                    error = np.einsum("ij,ij->j", here, here)
                    better = np.flatnonzero(error < GAIN * smallest)
                    smallest[better] = error[better]
                    fits |= dict.fromkeys(better.tolist(), (d, max(k - finer, 0)))
        left, deleted = targets.astype(self._dtype), (targets * (n / (n - 1))).astype(self._dtype)
        for d, k in set(fits.values()):
            columns = [column for column, fit in fits.items() if fit == (d, k)]
            of_rows = partial(self._left, d, k, targets, columns, along[d][:, columns])
            with one_blas_thread():
                for rows, (own, without) in zip(anchors.chunks(n, CHUNK), over_rows(of_rows, n, CHUNK), strict=True):
                    left[rows, columns], deleted[rows, columns] = own, without
        return left, deleted

    def _left(
        self, d: int, k: int, targets: RealArray, columns: list[int], along: RealArray, rows: slice
    ) -> tuple[FloatArray, FloatArray]:
        """Return what the k-th fit of a design leaves of some rows, and the same with each left out of the fit."""
        shrinkage = self._leverages[d][0][k]
        basis = np.asarray(self.designs[d].basis[rows], np.float64)
        here = targets[rows, columns] - basis @ (shrinkage[:, None] * along)
        # Of more rows than fit into a chunk, clusters would be torn apart.
        together = self._left_out_by(basis) if len(basis) == self.rows else _rows_left_out
        return here, together(here, 1 / self.rows + basis**2 @ shrinkage, shrinkage)

    @cached_property
    def _leverages(self) -> list[tuple[FloatArray, FloatArray]]:
        """For each design the shrinkages of the penalties (k x p), and the leverages of the judged rows (k x rows)."""
        found = []
        for design in self.designs:
            shrinkages = ridge_shrinkages(design.spectrum, _PENALTIES, self._units).T
            squares = np.asarray(design.basis[self.judged], np.float64) ** 2
            found.append((shrinkages, 1 / self.rows + shrinkages @ squares.T))
        return found

    def _left_out_by(self, basis: FloatArray) -> Callable[[FloatArray, FloatArray, FloatArray], FloatArray]:
        """Return a function from residuals, leverages and a shrinkage to residuals without the own fit of each unit."""
        if self._clusters is None:
            return _rows_left_out
        means = ClusterMeans(self._clusters[self.judged if len(basis) < self.rows else slice(None)])
        squares = means(basis) ** 2
        return lambda here, leverage, shrinkage: left_out(
            here, leverage[:, None], means, (1 / self.rows + squares @ shrinkage)[:, None]
        )

    def _functions(self) -> Iterator[tuple[str, RealArray]]:
        x, n = self.numbers.astype(self._dtype, copy=False), self.rows
        raw = self._raw.astype(self._dtype, copy=False)
        indicators = [block[:, 1:].astype(self._dtype, copy=False) for block in self.indicators]
        # A single column has narrow bumps besides.
        most = min(self.knots, _KNOTS_OF_ONE) if x.shape[1] == 1 else self.knots
        count = int(np.clip(n // (_ROWS_PER_KNOT * max(x.shape[1], 1)), 3, most))
        splines = [block.astype(self._dtype, copy=False) for block in self._splines(count) if block.shape[1]]
        additive = [*([x, raw] if x.shape[1] else []), *splines, *indicators]
        if self.with_length and x.shape[1] > 1:
            # Where all columns spread together, no sum of functions of single columns follows.
            squared = (x**2).sum(axis=1, keepdims=True)
            additive += [np.sqrt(squared), squared]
        place = np.concatenate([np.arange(x.shape[1]), np.flatnonzero(self._heavy)])
        linear = np.hstack([x, raw])
        blocks: list[RealArray] = [linear[:, place == j] for j in range(x.shape[1])] + indicators
        products = [(a[:, :, None] * b[:, None, :]).reshape(n, -1) for a, b in combinations(blocks, 2)]
        # Where there is room, each category has splines of its own.
        curved = [(a[:, :, None] * s[:, None, :]).reshape(n, -1) for a in indicators for s in splines]
        if sum(p.shape[1] for p in (*products, *curved)) <= min(n // 4, _MOST_PRODUCTS):
            products += curved
        yield "additive", in_deviations(np.hstack(additive))
        if products and sum(p.shape[1] for p in products) <= _MOST_PRODUCTS:
            yield "products", in_deviations(np.hstack([*additive, *products]))
        if x.shape[1]:
            del products, curved
            yield from self._bumps()

    def _single_columns(self) -> Iterator[tuple[str, RealArray]]:
        """Splines of each column, and of all columns, with as many knots as a single column may have."""
        blocks = self._splines(int(np.clip(self.rows // _ROWS_PER_KNOT, 3, self.knots)))
        linear = self.numbers.T[:, :, None]
        own = [in_deviations(np.hstack(pair)).astype(self._dtype) for pair in zip(linear, blocks, strict=True)]
        yield from ((f"column {j + 1}", block) for j, block in enumerate(own))
        if sum(block.shape[1] for block in own) <= self.rows // 2:
            yield "fine additive", np.hstack(own)

    def _splines(self, count: int) -> list[FloatArray]:
        """Return splines with so many knots of each column; indicators if it has few values."""
        found = []
        for column in self.numbers.T:
            values = np.unique(column)
            knots = np.unique(np.quantile(column, np.linspace(0, 1, count)))
            if len(values) <= _FEW_VALUES:
                found.append((column[:, None] == values[1:]).astype(np.float64))
            else:
                found.append(_cubic_splines(column, knots) if len(knots) > 2 else column[:, None][:, :0])
        return found

    def _bumps(self) -> Iterator[tuple[str, RealArray]]:
        """Gaussian bumps around landmark rows, and the inputs themselves, for each bandwidth."""
        x, n = self.numbers, self.rows
        landmarks = np.unique(np.linspace(0, n - 1, min(n, self.landmarks)).astype(np.int64))
        # A median needs no more rows than the fits are judged by.
        unit = 2 * median_square(squared_distances(x[self.judged], x[landmarks]))

        def gram(rows: slice | IntArray, bandwidth: float) -> RealArray:
            found = squared_distances(x[rows], x[landmarks]) / (-unit * bandwidth**2)
            exp_in_place(found)
            for codes in self.categories:
                found *= np.where(codes[rows][:, None] == codes[landmarks], 1.0, _OTHER_CATEGORY)
            return found

        def features(bandwidth: float, turn: FloatArray, rows: slice) -> RealArray:
            return np.asarray(gram(rows, bandwidth) @ turn)

        for bandwidth in BANDWIDTHS if x.shape[1] == 1 else BANDWIDTHS[:-1]:
            spectrum, turn = np.linalg.eigh(gram(landmarks, bandwidth))
            kept = spectrum > 1e-7 * spectrum[-1]
            turn = turn[:, kept] / np.sqrt(spectrum[kept])
            bumps = _by_rows(partial(features, bandwidth, turn), n, turn.shape[1], self._dtype)
            # All bumps together weigh as much as so many columns of variance 1, so that penalties mean the same.
            bumps *= np.sqrt(n * bumps.shape[1] / np.sum(bumps**2, dtype=np.float64)).astype(self._dtype)
            yield f"bumps of {bandwidth:g} medians", np.hstack([x.astype(self._dtype, copy=False), bumps])


class ClusterMeans:
    """Means over the rows of each cluster.

    Parameters
    ----------
    clusters : array of int, shape (n,)
        Cluster of each row, by any numbers.
    """

    def __init__(self, clusters: IntArray) -> None:
        from scipy.sparse import csr_array

        _, self.first, self.of_rows, self.sizes = np.unique(
            clusters, return_index=True, return_inverse=True, return_counts=True
        )
        n = len(clusters)
        self.sums = csr_array((np.ones(n), (self.of_rows, np.arange(n))), shape=(len(self.sizes), n))

    def __call__(self, columns: RealArray) -> FloatArray:
        """Return the means of columns (clusters x columns)."""
        return np.asarray(self.sums @ columns) / self.sizes[:, None]


def designs_of_clusters(smoother: Smoother, clusters: IntArray) -> list[Design]:
    """Return the means of the functions of x over each cluster, and its size if sizes differ."""
    means = ClusterMeans(clusters)
    size = in_deviations(np.log(means.sizes)[:, None])
    own = [] if means.sizes.min() == means.sizes.max() else [size]
    return [Design.of(d.name, np.hstack([means(d.functions), *own])) for d in smoother.designs]


def _cubic_splines(values: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the cubic B-splines of some knots at values between them, but for the last: they add up to 1.

    By the recursion of Cox and de Boor, with three more knots at either end. (scikit-learn has the same, and takes
    longer to import than all regressions of a small comparison take together.)
    """
    steps = np.arange(1, 4)
    below, above = knots[0] - (knots[1] - knots[0]) * steps[::-1], knots[-1] + (knots[-1] - knots[-2]) * steps
    knots = np.concatenate([below, knots, above])
    place = np.clip(np.searchsorted(knots, values, side="right") - 1, 3, len(knots) - 5)
    found = (place[:, None] == np.arange(len(knots) - 1)).astype(np.float64)
    x = values[:, None]
    for degree in (1, 2, 3):
        first, last = knots[: -degree - 1], knots[degree + 1 :]
        rising = (x - first) / (knots[degree:-1] - first)
        falling = (last - x) / (last - knots[1:-degree])
        found = rising * found[:, :-1] + falling * found[:, 1:]
    return np.asarray(found[:, :-1])


def ridge_shrinkages(spectrum: FloatArray, penalties: RealArray, units: int) -> FloatArray:
    """Return what ridge penalties keep along each direction (p x penalties), of fits that are not too flexible."""
    kept = spectrum[:, None] / (spectrum[:, None] + penalties)
    return np.asarray(kept[:, kept.sum(axis=0) <= MOST_FREEDOM * units])


def left_out(
    residuals: FloatArray, leverage: FloatArray, clusters: ClusterMeans | None = None, common: FloatArray | float = 0.0
) -> FloatArray:
    """Return residuals of linear smoothers with each row, or cluster of rows, left out of the fit.

    The hat matrix of a cluster is taken as its mean (`common`, clusters x columns), which acts on the mean residual,
    and what its diagonal (`leverage`, rows x columns) has more than that, which acts on the rest: exact for a cluster
    of one row, and for rows that have the same x.
    """
    if clusters is None:
        return np.asarray(residuals / np.maximum(1 - leverage, _LEAST_LEFT))
    mean, common = clusters(residuals), np.asarray(common)
    own = (residuals - mean[clusters.of_rows]) / np.maximum(1 - leverage + common[clusters.of_rows], _LEAST_LEFT)
    together = mean / np.maximum(1 - clusters.sizes[:, None] * common, _LEAST_LEFT)
    return np.asarray(own + together[clusters.of_rows])


def _rows_left_out(here: FloatArray, leverage: FloatArray, _: FloatArray) -> FloatArray:
    return left_out(here, leverage[:, None])


def _inner(columns: FloatArray) -> FloatArray:
    return np.asarray(columns.T @ columns)


def _by_rows(work: Callable[[slice], RealArray], n: int, columns: int, dtype: np.dtype[Any]) -> RealArray:
    """Return an array whose rows `work` makes, chunk by chunk."""
    found = np.empty((n, columns), dtype)

    def fill(rows: slice) -> None:
        found[rows] = work(rows)

    deque(over_rows(fill, n), maxlen=0)
    return found


def in_deviations(x: RealArray) -> RealArray:
    """Columns centred, in units of their standard deviations; constant ones are 0."""
    scaled = x / np.maximum(np.abs(x).max(axis=0, initial=0.0), np.finfo(x.dtype).tiny)
    centred = scaled - scaled.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(np.where(deviation > 1e-14, centred / np.maximum(deviation, 1e-14), 0.0))


def largest_size(values: RealArray) -> float:
    """Return the largest absolute value: a unit in which squares neither overflow nor vanish."""
    return max(float(np.abs(values).max()), float(np.finfo(float).tiny))


def normal_scores(x: RealArray) -> FloatArray:
    """Columns replaced by the normal quantiles of their ranks; ties share their mean rank."""
    from scipy.special import ndtri

    return np.asarray(ndtri(ranked(x)))


def _heavy_tailed(x: RealArray) -> BoolArray:
    """Columns of many values whose outer ones lie far apart compared with the middle half of the rows."""
    if not x.size:
        return np.zeros(x.shape[1], bool)
    low, first, third, high = np.quantile(x, [0.01, 0.25, 0.75, 0.99], axis=0)
    many = np.array([len(np.unique(column)) > _FEW_VALUES for column in x.T])
    return np.asarray(many & (high - low > _HEAVY * (third - first)))


def squared_distances(a: RealArray, b: RealArray) -> RealArray:
    """Squared Euclidean distances between the rows of two arrays."""
    return np.asarray(np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * (a @ b.T), 0.0))


def median_square(squared: RealArray) -> float:
    """Median of the squared distances that are more than rounding errors, 1 if there are none."""
    from condcs._kernels.compiled_medians import median

    apart = squared[squared > 1e-12 * squared.max(initial=0.0)]
    return float(median(apart)[0]) if len(apart) else 1.0
