r"""Views: statistics that each see one kind of change of p(y|x), evaluated on the same redrawn labels.

Let u be the label of a row minus its probability given x (its *surprise*), and r a function of the response minus its
regression on x (`condcs._inference.responses`). If p(y|x) is the same in all samples, u and r are uncorrelated given x,
whatever the distribution of x; errors of the two regressions enter only as their product. So every statistic here is
made of sums of u r g(x), for functions r and g chosen by what they see:

==============  ==========================================================================================
view            what it sees
==============  ==========================================================================================
mean            a shift of the response everywhere
amplitude       a response that follows the pooled regression more, or less, than it did
spread          variances, and correlations between several responses
slopes          an input that has gained, lost or turned its influence
products        a pair of inputs that acts together, or a curvature
spread along x  a variance that follows an input more, or less, than it did
local           a change of the response, of any kind, in some parts of x
shape           a change of the shape of the response in wide parts of x: modes, tails, skewness
divergence      the measure itself, on the adjusted response (`condcs._inference.conditional_tests`)
==============  ==========================================================================================

Every value is divided by a sum of squares. A squared sum of u f is divided by its variance, the sum of u^2 f^2; a sum
over pairs of u_i u_j k(i, j), i != j, whose mean is 0, by what the pairs i = j would add to it, the sum of u_i^2 k(i,
i). The u^2 in these are half the squares of the surprises at hand, and half their variances under the estimated
probabilities, scaled to add up to the same over all rows. The expected squares are more stable; the observed ones limit
the influence of functions with heavy tails. The scale is needed where estimated probabilities are flatter than the true
ones, as shrunken ones are: redrawn samples are then more uneven than the observed ones, and without it tests would
reject too seldom.

`WEIGHTS` says how much each view counts; the divergence has the weight 1. `_test_by_views` in `conditional_tests` makes
one p-value of all (`resampling.combined_evidence`).

Read `views_of_samples` first. A new view is one more entry there: of `sums` (squared sums over rows are added),
`largest` (the largest of them counts) or `kernels` (sums over pairs of rows); its weight stands in `WEIGHTS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, RealArray
from condcs._core.settings import current_settings, one_blas_thread
from condcs._inference.propensities import SurprisesByRows, samples_with_surprises
from condcs._inference.responses import CLIPPED_INPUT, AdjustedResponse, pair_median_square, squares_and_products
from condcs._kernels.label_similarities import label_similarities
from condcs._kernels.row_sums import PLAIN_TESTS, exp_in_place
from condcs._parallel.many_rows import total
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import squared_distances

MEAN_SHARE = 0.6
"""Share of the mean in all weights, and so of the level: a shift of the mean that no other view sees is detected if its
own p-value is below about 0.6 alpha. Changes of the mean are what is looked for most often, and there single-purpose
tests are sharpest; what it costs the other views is little."""

_LINEAR_WEIGHT = 6.0
"""Weight of linear dependence in the test of independence. It is what is looked for most often, as changes of the mean
are; beside the other views, which have 8 together, this is nearly half."""

_LONE_WEIGHT = 2.0
"""Weight of a view that is the only one to see its kind of change: the spread, the shape. Most changes of the mean are
seen by several views."""

_NARROW_WEIGHT = 0.5
"""Weight of a view whose changes are special cases of what others see: an amplitude is a slope along the fitted values,
and a spread that follows an input often changes the overall spread as well."""

WEIGHTS = {
    "linear": _LINEAR_WEIGHT,
    "spread": _LONE_WEIGHT,
    "shape": _LONE_WEIGHT,
    "amplitude": _NARROW_WEIGHT,
    "spread along x": _NARROW_WEIGHT,
}
"""How much a view counts in the combination, 1 if not said; the mean has its share of all."""

_LOCAL = 0.3
"""Bandwidth on x of the local view, in units of the median distance: within it lies a fifth of the rows, of one normal
input, and fewer of several."""

_SHAPE = 1.0
"""The same of the view of the shape, which may differ along x: narrow features of y have much noise, so that more rows
must go together than in the local view."""

_CLIPPED_PRODUCT = 4.0
"""Value at which products of two standardised inputs are clipped: a few rows would carry the whole sum otherwise."""

_MOST_PRODUCTS = 600
"""Columns above which there is no view of products: the largest of so many sums says little, and takes long."""

_ANCHORED_ROWS = 2_048
"""Rows that meet all anchors at once: with 1,000 anchors a block of 16 MB."""

_LEAST_VARIANCE = 1e-6
"""Directions of the features with a smaller share of the largest variance are left out when features are whitened:
dividing by less would amplify rounding errors."""

_TINY = np.finfo(float).tiny


def view_weights(names: Sequence[str]) -> FloatArray:
    """Return how much each view counts in the combination."""
    weights = np.array([WEIGHTS.get(name, 1.0) for name in names])
    is_mean = np.array([name == "mean" for name in names])
    # With s the weight of all others, w / (w + s) = MEAN_SHARE.
    weights[is_mean] = MEAN_SHARE / (1 - MEAN_SHARE) * weights[~is_mean].sum()
    return weights


class PairKernel(NamedTuple):
    """A kernel of pairs of rows: a Gaussian on x times the inner products of each array of features."""

    bandwidth: float
    """On the inputs, in units of their median distance; infinite: the kernel does not depend on x."""
    features: list[RealArray]
    """Arrays of shape (n, m)."""

    @property
    def diagonal(self) -> RealArray:
        """The kernel of each row with itself (n); the Gaussian on the inputs is 1 there."""
        return np.asarray(np.prod([(block**2).sum(axis=1) for block in self.features], axis=0))


@dataclass(frozen=True)
class SurpriseViews:
    """Views made of surprises u: sums of u f, the largest of many, and sums over pairs of rows with kernels.

    Attributes
    ----------
    sums, largest : dict of array, shape (n, m)
        Functions of the rows by view: squared sums of u times each are added, or the largest is taken.
    kernels : dict of PairKernel
        Kernels of pairs of rows by view.
    smoother : Smoother
        For the inputs.
    variances : array, shape (n, s)
        Variances of u by the probabilities, one column for each array of surprises.
    unit : float
        Median squared distance of the inputs.
    """

    sums: dict[str, RealArray]
    largest: dict[str, RealArray]
    kernels: dict[str, PairKernel]
    smoother: Smoother
    variances: FloatArray
    unit: float

    @property
    def names(self) -> tuple[str, ...]:
        """Which views there are."""
        return (*self.sums, *self.largest, *self.kernels)

    @property
    def diagonals(self) -> FloatArray:
        """Each kernel of each row with itself (kernels, n)."""
        return np.array([kernel.diagonal for kernel in self.kernels.values()])

    def __call__(self, surprises: Sequence[FloatArray]) -> FloatArray:
        """Return the views for each column of the surprises.

        Parameters
        ----------
        surprises : sequence of array, shape (n, P)
            One array for each column of `variances`; P labellings.

        Returns
        -------
        array, shape (views, P)
        """
        values = []
        with one_blas_thread():
            for u, variances in zip(surprises, self.variances.T, strict=True):
                observed = self.squares(u)  # (n, P)
                # Expected squares, in each labelling with the same sum over all rows as the observed ones.
                scale = observed.sum(axis=0) / max(variances.sum(), _TINY)  # (P,)
                squares = (observed + variances[:, None] * scale) / 2  # (n, P)
                added = [self._squared_sums(f, u, squares).sum(axis=0) for f in self.sums.values()]
                largest = [self._squared_sums(f, u, squares).max(axis=0) for f in self.largest.values()]
                of_kernels = _over_squares(self.pair_sums(u), self.diagonals @ squares)
                values.append(np.vstack([*added, *largest, of_kernels]))
        # More than two samples have one array of surprises each, whose views are added.
        return np.asarray(sum(values))

    def kernel_of_labels(self, rows: slice | IntArray, columns: slice) -> FloatArray | None:
        """Return the kernel on the labels in x between rows and columns; None if there are none."""
        same = None
        for codes, similarity in zip(self.smoother.categories, self._similarities, strict=True):
            of_column = np.where(codes[rows][:, None] == codes[columns], 1.0, similarity)
            same = of_column if same is None else same * of_column
        return same

    @cached_property
    def _similarities(self) -> FloatArray:
        """How similar two labels of each column in x are that differ: rows borrow strength from those of others."""
        categories = self.smoother.categories
        return label_similarities(np.column_stack(categories)) if categories else np.zeros(0)

    def squares(self, u: FloatArray) -> FloatArray:
        """Return the observed squares of u (n, P)."""
        return np.asarray(u**2)

    @staticmethod
    def _squared_sums(functions: RealArray, u: FloatArray, squares: FloatArray) -> FloatArray:
        """Return (sum_i u_i f_i)^2 / sum_i u_i^2 f_i^2 for each function f (m x P)."""
        return _over_squares((functions.T @ u) ** 2, (functions**2).T @ squares)

    def pair_sums(self, u: FloatArray) -> FloatArray:
        """Return sum_{i != j} u_i u_j k(i, j) for each kernel (kernels x P), tile by tile.

        Kernels are symmetric: each pair is visited once and counts twice.
        """
        settings = current_settings()
        n = len(u)
        # Flat tiles: what lies below the diagonal of a tile is multiplied for nothing.
        height = -(-settings.tile // 4)
        tiles = [slice(start, min(start + height, n)) for start in range(0, n, height)]
        numbers = self.smoother.numbers

        def sums_of_tile(rows: slice) -> list[FloatArray]:
            columns = slice(rows.start, n)
            squared = squared_distances(numbers[rows], numbers[columns])
            same = self.kernel_of_labels(rows, columns)
            # Pairs on and below the diagonal: i = j does not count, the others were visited from the other side.
            visited = np.tril_indices(rows.stop - rows.start)
            sums = []
            for kernel in self.kernels.values():
                gram = squared * (-0.5 / (self.unit * kernel.bandwidth**2))
                exp_in_place(gram, compiled=n > PLAIN_TESTS)
                for block in kernel.features:
                    gram *= block[rows] @ block[columns].T
                if same is not None:
                    gram *= same
                gram[visited] = 0.0
                sums.append(2 * np.einsum("ip,ip->p", u[rows], gram @ u[columns]))
            return sums

        with ThreadPoolExecutor(settings.n_threads) as threads:
            sums_of_tiles = [np.array(sums) for sums in threads.map(sums_of_tile, tiles)]  # (kernels, P) each
        return np.asarray(sum(sums_of_tiles))


@dataclass(frozen=True)
class SignViews(SurpriseViews):
    """Views of random signs, which are surprises whose squares are known: 1.

    Attributes
    ----------
    data_signs : array, shape (n,)
        What stands for the signs of the data; its squares are not all 1.
    """

    data_signs: RealArray

    def squares(self, u: FloatArray) -> FloatArray:
        """Return the squares of signs (n, P)."""
        return np.ones_like(u)

    def pair_sums(self, u: FloatArray) -> FloatArray:
        """Return u' K u - tr K for each kernel (kernels x P), which has the mean 0 under random signs.

        For signs that is the sum over pairs i != j. For what stands for the signs of the data, u_i^2 - 1 is left of the
        pair of row i with itself.
        """
        return np.asarray(super().pair_sums(u) + self.diagonals @ (u**2 - 1))


class _StackedSums(NamedTuple):
    """Sums over rows that views of many rows are made of, one column for each of P labellings.

    They are added chunk by chunk as one array, in which they lie below one another in the order of these fields. There
    are m functions f of the rows, k kernels, and a anchors; h is the kernel between an anchor and a row.
    """

    of_functions: FloatArray
    """Sums of u f, shape (m, P)."""
    at_anchors: FloatArray
    """Sums of u h, kernel by kernel, shape (k a, P)."""
    observed: FloatArray
    """Sums of u^2 f^2, then of u^2 times the sum of h^2 over the anchors, then of u^2: shape (m + k + 1, P)."""
    expected: FloatArray
    """The same with the variances of u by the probabilities in place of u^2."""

    @classmethod
    def of_stack(cls, stack: FloatArray, m: int, k: int, a: int) -> _StackedSums:
        """Cut a stack, as `numpy.vstack` makes it of these fields, into the fields."""
        heights = m, k * a, m + k + 1  # of all fields but the last
        return cls(*np.split(stack, np.cumsum(heights)))


class AnchoredViews:
    r"""The same statistics of many rows: sums over rows in chunks, sums over pairs of rows by anchors.

    A kernel view is made of :math:`\sum_{i \ne j} u_i u_j k(i, j)`. With anchors a that is

    .. math:: \sum_a \Bigl(\sum_i u_i h(a, i)\Bigr)^2 - \sum_i u_i^2 \sum_a h(a, i)^2,

    which is the same sum over pairs with the kernel :math:`\sum_a h(a, i) h(a, j)`. To make that one close to k, h has
    1 / sqrt(2) of its bandwidth on the inputs (a Gaussian convolved with itself is wider by sqrt(2)), and the features
    of the anchors are whitened, because :math:`\sum_a f_a f_a'` would count the features by their variances once more.

    Parameters
    ----------
    views : SurpriseViews
        Which functions and kernels.
    anchors : array of int
        Rows that stand for all in sums over pairs.
    """

    def __init__(self, views: SurpriseViews, anchors: IntArray) -> None:
        self.views, self.anchors = views, anchors

    def __call__(self, surprises_by_rows: SurprisesByRows) -> FloatArray:
        """Return the views for each column of the surprises (views x P)."""
        views = self.views
        n_resamples = surprises_by_rows(slice(0, 1))[0].shape[1]  # P

        def sums_of_rows(rows: slice) -> FloatArray:
            """Return `_StackedSums` over some rows for each array of surprises, as one array."""
            functions = self._functions(rows)  # (rows, m)
            pairs = self._pairs(rows)  # for each of k kernels (anchors, rows)
            diagonals = np.array([np.einsum("ai,ai->i", gram, gram) for gram in pairs])  # (k, rows)
            # What squares of surprises are multiplied with; the last row gives their plain sum. (m + k + 1, rows)
            units = np.vstack([functions.T**2, diagonals, np.ones(len(functions))])
            stacks = []
            # u is (rows, P), its variances are (rows,).
            for u, variances in zip(surprises_by_rows(rows), views.variances[rows].T, strict=True):
                sums = _StackedSums(
                    of_functions=functions.T @ u,
                    at_anchors=np.vstack([gram @ u for gram in pairs]),
                    observed=units @ views.squares(u),
                    expected=np.broadcast_to((units @ variances)[:, None], (len(units), n_resamples)),
                )
                stacks.append(np.vstack(sums))
            return np.array(stacks)

        # (arrays of surprises, rows of a stack, P)
        stacks = total(sums_of_rows, views.smoother.rows, _ANCHORED_ROWS, progress=n_resamples)
        return np.asarray(np.sum([self._values(stack) for stack in stacks], axis=0))

    def _functions(self, rows: slice) -> FloatArray:
        """All functions of some rows side by side, those of `sums` first."""
        views = self.views
        blocks = [*views.sums.values(), *views.largest.values()]
        return np.hstack([block[rows] for block in blocks]).astype(np.float64)

    def _values(self, stack: FloatArray) -> list[FloatArray]:
        """Make views (each of P values) of the `_StackedSums` over all rows."""
        views = self.views
        widths = [block.shape[1] for block in (*views.sums.values(), *views.largest.values())]
        m, k = sum(widths), len(views.kernels)
        sums = _StackedSums.of_stack(stack, m, k, len(self.anchors))

        # Sums over pairs i != j: squared sums at the anchors, minus what i = j adds to them.
        diagonals = sums.observed[m:-1]  # (k, P)
        pairs = [(of_kernel**2).sum(axis=0) for of_kernel in np.split(sums.at_anchors, k)] - diagonals  # (k, P)
        # As in `SurpriseViews`: half observed, half expected with the same sum.
        scale = sums.observed[-1] / np.maximum(sums.expected[-1], _TINY)  # (P,)
        squares = (sums.observed + sums.expected * scale) / 2  # (m + k + 1, P)
        values = _over_squares(np.vstack([sums.of_functions**2, pairs]), squares[:-1])  # (m + k, P)
        *by_view, of_kernels = np.split(values, np.cumsum(widths))
        added, largest = by_view[: len(views.sums)], by_view[len(views.sums) :]
        return [
            *(squared.sum(axis=0) for squared in added),
            *(squared.max(axis=0) for squared in largest),
            *of_kernels,
        ]

    def _pairs(self, rows: slice) -> list[RealArray]:
        """Kernels h between anchors and rows, each (anchors, rows)."""
        views = self.views
        numbers = views.smoother.numbers
        # exp(-r^2 / (2 (s / sqrt(2))^2)) = exp(-r^2 / s^2)
        exponents = squared_distances(numbers[self.anchors], numbers[rows]) / -views.unit
        same = views.kernel_of_labels(self.anchors, rows)
        grams = []
        for kernel, whitened in zip(views.kernels.values(), self._whitened, strict=True):
            gram = exponents / kernel.bandwidth**2
            exp_in_place(gram)
            if same is not None:
                gram *= same
            for block, at_anchors in zip(kernel.features, whitened, strict=True):
                gram *= at_anchors @ block[rows].T
            grams.append(gram)
        return grams

    @cached_property
    def _whitened(self) -> list[list[FloatArray]]:
        """Features of the anchors, for each kernel, turned and scaled to have a covariance of 1 over all rows."""
        return [[self._white(block) for block in kernel.features] for kernel in self.views.kernels.values()]

    def _white(self, features: RealArray) -> FloatArray:
        """Return the features of the anchors times the inverse root of their second moments over all rows."""
        moments = total(lambda rows: features[rows].T.astype(np.float64) @ features[rows], len(features))
        variances, directions = np.linalg.eigh(moments / len(features))
        is_large = variances > _LEAST_VARIANCE * max(variances[-1], _TINY)
        large_directions = directions[:, is_large]
        inverse_root = large_directions / np.sqrt(variances[is_large]) @ large_directions.T
        return np.asarray(features[self.anchors] @ inverse_root)


def views_of_samples(response: AdjustedResponse, smoother: Smoother, probabilities: FloatArray) -> SurpriseViews:
    """Return the views of labels minus their `probabilities` given x (n x G): whether y tells the samples apart."""
    columns, inputs = response.columns, _inputs(smoother)
    sums = {"mean": columns, "amplitude": columns * response.fitted}
    largest = {"slopes": _each_by_each(columns, inputs)}
    products = _products(smoother)
    if 0 < products.shape[1] * columns.shape[1] <= _MOST_PRODUCTS:
        largest["products"] = _each_by_each(columns, products)
    if response.numeric.any():
        sums["spread"] = smoother.residuals(squares_and_products(response)).in_sample
        largest["spread along x"] = _each_by_each(sums["spread"], inputs)
    kernels = {"local": PairKernel(_LOCAL, [response.wide])}
    if response.narrow.shape[1]:
        kernels["shape"] = PairKernel(_SHAPE, [response.narrow])
    of_samples = probabilities[:, samples_with_surprises(probabilities.shape[1])]
    return SurpriseViews(
        sums=_in_rows(sums),
        largest=_in_rows(largest),
        kernels=_kernels_in_rows(kernels),
        smoother=smoother,
        variances=np.ascontiguousarray(of_samples * (1 - of_samples)),
        unit=pair_median_square(smoother.numbers),
    )


def views_of_dependence(x: AdjustedResponse, y: AdjustedResponse, waves: RealArray, smoother: Smoother) -> SignViews:
    """Return the views of random signs: whether x and y, without their regressions on z, go together.

    Products of the residuals of x and of y have mean 0 given z if x and y are independent given z; so their sums are as
    large as with signs drawn at random. Nearly: where both regressions use up the same p degrees of freedom, a sum of
    products has the variance n - p, in units of that of a product of errors, while under random signs it has
    n (1 - p / n)^2. So the signs of the data are multiplied by the square root of 1 - p / n: in each row of 1 minus the
    leverage, in the less flexible of the two regressions.
    """
    pairs = _each_by_each(x.columns, y.columns)
    sums = {"linear": pairs}
    largest = {"moderated": _each_by_each(pairs, _inputs(smoother))}

    # The spread of one with the other, and with the spread of the other.
    x_squares, y_squares = (
        smoother.residuals(squares_and_products(v)).in_sample if v.numeric.any() else None for v in (x, y)
    )
    curved = []
    if x_squares is not None:
        curved.append(_each_by_each(x_squares, y.columns))
    if y_squares is not None:
        curved.append(_each_by_each(y_squares, x.columns))
    if x_squares is not None and y_squares is not None:
        curved.append(_each_by_each(x_squares, y_squares))
    if curved:
        largest["spread"] = np.hstack(curved)

    # Labels have no narrow features: equality of labels is as fine as it gets.
    finest = [v.narrow if v.narrow.shape[1] else v.wide for v in (x, y)]
    kernels = {
        "joint": PairKernel(np.inf, [x.wide, y.wide]),
        "local": PairKernel(1.0, [x.wide, y.wide]),
        "shape": PairKernel(np.inf, finest),
        "waves": PairKernel(np.inf, [waves, y.columns]),
    }
    return SignViews(
        sums=_in_rows(sums),
        largest=_in_rows(largest),
        kernels=_kernels_in_rows(kernels),
        smoother=smoother,
        variances=np.ones((len(pairs), 1)),
        unit=pair_median_square(smoother.numbers),
        data_signs=np.sqrt(np.maximum(x.one_minus_leverage, y.one_minus_leverage)),
    )


def _in_rows(blocks: dict[str, RealArray]) -> dict[str, RealArray]:
    """Lay arrays out in rows: matrix products of another layout differ in the last digit, here and on workers."""
    return {name: np.ascontiguousarray(functions) for name, functions in blocks.items()}


def _kernels_in_rows(kernels: dict[str, PairKernel]) -> dict[str, PairKernel]:
    """Lay the features of kernels out in rows, for the same reason."""
    return {
        name: PairKernel(kernel.bandwidth, [np.ascontiguousarray(block) for block in kernel.features])
        for name, kernel in kernels.items()
    }


def _over_squares(values: FloatArray, squares: FloatArray) -> FloatArray:
    """Divide squared sums, or sums over pairs, by their sums of squares, which may be 0 where the values are."""
    return np.asarray(values / np.maximum(squares, _TINY))


def _each_by_each(a: RealArray, b: RealArray) -> RealArray:
    """Products of each column of a (n x k) with each column of b (n x m), as columns (n x k m)."""
    return np.asarray((a[:, :, None] * b[:, None, :]).reshape(len(a), -1))


def _inputs(smoother: Smoother) -> FloatArray:
    """Columns of numbers, standardised and clipped, and indicators of labels."""
    return np.hstack([np.clip(smoother.numbers, -CLIPPED_INPUT, CLIPPED_INPUT), *smoother.indicators])


def _products(smoother: Smoother) -> FloatArray:
    """Products of all pairs of columns of numbers, squares among them, and of numbers and indicators; centred."""
    numbers = smoother.numbers
    n, d = numbers.shape
    pairs = [numbers[:, [i]] * numbers[:, i:] for i in range(d)]
    mixed = [_each_by_each(block, numbers) for block in smoother.indicators] if d else []
    products = np.hstack([np.zeros((n, 0)), *pairs, *mixed])
    clipped = np.clip(products, -_CLIPPED_PRODUCT, _CLIPPED_PRODUCT)
    return np.asarray(clipped - clipped.mean(axis=0))
