r"""Views: statistics that each see one kind of change of p(y|x), evaluated on the same redrawn labels.

Let u be the label of a row minus its probability given x, and r a function of the response minus its regression on x
(on the pool, without labels). If p(y|x) is the same in all samples, u and r are uncorrelated given x, whatever the
distribution of x; errors of the two regressions enter only as their product. So every statistic here is made of sums
of u r g(x), for functions r and g chosen by what they see:

==============  ==========================================================================================
view            what it sees
==============  ==========================================================================================
mean            a shift of the response everywhere
amplitude       a response that follows the pooled regression more, or less, than it did
spread          variances, and correlations between several responses
slopes          an input that has gained, lost or turned its influence
products        a pair of inputs that acts together, or a curvature
spread along x  a variance that follows an input more, or less, than it did
local           a change of the response, of any kind, in some places of x
shape           a change of the shape of the response: modes, tails, skewness
divergence      the measure itself, on the adjusted response (`condcs._inference.conditional_tests`)
==============  ==========================================================================================

Sums are measured by sums of squares: half by those of the labelling, half by what is expected of each row, scaled such
that over all rows it adds up to the same. Where the estimated probabilities are flatter than the true ones, as shrunken
ones are, redrawn samples are more uneven than the observed ones: without the scale, tests reject too seldom. What is
expected varies less; what is tames functions with heavy tails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, LabelArray, RealArray
from condcs._core.settings import current_settings, one_blas_thread
from condcs._inference.anchors import total
from condcs._inference.propensities import Surprises
from condcs._inference.smoothing import Smoother, in_deviations, median_square, normal_scores, squared_distances
from condcs._kernels.log_kernels import pivoted_cholesky
from condcs._kernels.row_sums import exp_in_place
from condcs._measures.inputs import KernelVariable

WEIGHTS = {"linear": 6.0, "spread": 2.0, "shape": 2.0, "amplitude": 0.5, "spread along x": 0.5}
"""How much a view counts in the combination, 1 if not said. Changes of the spread and of the shape are seen by one view
each, while most changes of the mean are seen by several."""

MEAN_SHARE = 0.6
"""Share of the mean in all weights, and so of the level: a mean that no other view sees is found where its own p-value
is about so much of the level. Changes of the mean are what is looked for most often, and there single-purpose tests are
sharpest; what it costs the other views is little."""

_NORMAL_SCORES_GAIN = 0.02
"""Share of the variance by which normal scores must be explained better than the values to take their place."""
_NEGLIGIBLE = 1e-9
_TINY = np.finfo(float).tiny
_CLIPPED, _CLIPPED_IN_KERNELS = 2.5, 4.0
_CLIPPED_INPUT, _CLIPPED_PRODUCT = 3.0, 4.0
_LOCAL, _WIDE = 0.3, 1.0
_NARROW, _WAVES = 0.4, 0.3
_WIDE_FEATURES, _NARROW_FEATURES = 40, 60
_LEAST_FEATURE = 1e-3
_OTHER_CATEGORY = 0.3
_MOST_PRODUCTS = 600
_MEDIAN_ROWS = 500
_ANCHORED_ROWS = 2_048
"""Rows that meet all anchors at once: a block of 16 MB."""
_LEAST_VARIANCE = 1e-6
"""Directions of the features with a smaller share of the largest variance are left out, where anchors are used."""


@dataclass(frozen=True)
class Response:
    """The response without its regression on x.

    Attributes
    ----------
    adjusted : array, shape (n, k)
        Columns of numbers minus their regression on x, in their own units; columns of labels as they are.
    columns : array, shape (n, c)
        What the contrasts use: numbers clipped at 2.5 robust deviations, and indicators of labels, each minus its
        regression on x and with variance 1.
    fitted : array, shape (n, c)
        The regressions themselves, standardised and clipped.
    numeric : array of bool, shape (c,)
        Which columns come from numbers.
    wide, narrow : array, shape (n, m)
        Features of Gaussian kernels on the response, minus their regressions on x.
    unused : array, shape (n,)
        Share of each row that the regressions have not used up: 1 minus its leverage.
    """

    adjusted: FloatArray
    columns: RealArray
    fitted: FloatArray
    numeric: BoolArray
    wide: RealArray
    narrow: RealArray
    unused: RealArray


def view_weights(names: Sequence[str]) -> FloatArray:
    """Return how much each view counts in the combination."""
    weights = np.array([WEIGHTS.get(name, 1.0) for name in names])
    mean = np.array([name == "mean" for name in names])
    weights[mean] = MEAN_SHARE / (1 - MEAN_SHARE) * weights[~mean].sum()
    return weights


def before_adjustment(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of kernels for a response that is still to be adjusted: a rule looks at what is left of it."""
    by_rule = isinstance(options.get("bandwidth_y", "median"), str)
    return {**options, "bandwidth_y": 1.0} if by_rule else {**options}


def after_adjustment(options: Mapping[str, Any], x: KernelVariable) -> dict[str, Any]:
    """Return options of kernels for an adjusted response: x keeps the bandwidths that it has."""
    return {**options} if x.widths is None else {**options, "bandwidth_x": np.nan_to_num(x.widths, nan=1.0)}


def adjusted_values(y: FloatArray, labels: Sequence[bool], smoother: Smoother) -> FloatArray | None:
    """Subtract the regression on x from every column of numbers; None if there is none."""
    numeric = ~np.asarray(labels, bool)
    if not numeric.any():
        return None
    numbers, scale = _in_units(y[:, numeric])
    left = smoother.residuals(numbers)[0]
    adjusted = y.copy()
    adjusted[:, numeric] = np.where(_nothing(left, numbers), numbers, left) * scale
    return adjusted


def adjusted_response(y: FloatArray, labels: Sequence[bool], smoother: Smoother) -> Response:
    """Subtract the regression on x from every column of y, and from the features of its kernels."""
    flags = np.asarray(labels, bool)
    numbers, scale = _in_units(y[:, ~flags])
    scores, codes, count = normal_scores(numbers), y[:, flags].T, numbers.shape[1]
    one_hot = _one_hot(codes, len(y))
    both = smoother.first_residuals(np.hstack([numbers, scores, one_hot]))
    left, deleted = (np.split(found, [count, 2 * count], axis=1) for found in both)
    nothing = _nothing(left[0], numbers)
    # The null hypothesis is the same for any increasing function of y; heavy tails are better seen through ranks.
    better = _unexplained(scores, deleted[1]) < _unexplained(numbers, deleted[0]) - _NORMAL_SCORES_GAIN
    plain = np.where(nothing, 0.0, left[0])
    residuals = np.where(better & ~nothing, left[1], plain)
    targets = np.where(better, scores, numbers)
    adjusted = y.copy()
    adjusted[:, ~flags] = np.where(nothing, numbers, left[0]) * scale
    in_kernels = _clip(residuals, _CLIPPED_IN_KERNELS)
    unit = _median_square(in_kernels)
    wide = _kernel_features(in_kernels, codes, _WIDE, unit, _WIDE_FEATURES)
    narrow = _kernel_features(in_kernels, codes, _NARROW, unit, _NARROW_FEATURES) if count else wide[:, :0]
    clipped, wide = np.split(smoother.residuals(np.hstack([_clip(residuals, _CLIPPED), wide]))[0], [count], axis=1)
    columns = _of_variance_one(np.hstack([clipped, left[2]]))
    fitted = np.hstack([targets - targets.mean(axis=0) - residuals, one_hot - one_hot.mean(axis=0) - left[2]])
    return Response(
        adjusted,
        columns,
        np.clip(in_deviations(fitted), -_CLIPPED_INPUT, _CLIPPED_INPUT),
        np.arange(columns.shape[1]) < count,
        wide,
        smoother.residuals(narrow)[0],
        _unused(np.hstack([plain, left[2]]), np.hstack([deleted[0], deleted[2]])),
    )


def jumping_targets(*variables: tuple[RealArray | LabelArray, Sequence[bool]]) -> FloatArray:
    """Return what jumps along x are looked for in: numbers, and indicators of labels."""
    found = []
    for values, labels in variables:
        flags = np.asarray(labels, bool)
        found += [values[:, ~flags].astype(np.float64), _one_hot(values[:, flags].T, len(values))]
    return np.hstack(found)


def _one_hot(codes: RealArray | LabelArray, rows: int) -> FloatArray:
    """Return indicators of the labels of each variable; two labels have one indicator between them."""
    blocks = [(own[:, None] == np.unique(own)).astype(np.float64) for own in codes]
    return np.hstack([np.zeros((rows, 0)), *(block[:, 1:] if block.shape[1] == 2 else block for block in blocks)])


def _in_units(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return columns in units of their size, and that."""
    scale = np.maximum(np.abs(y).max(axis=0, initial=0.0), _TINY)
    return y / scale, scale


def _nothing(left: RealArray, numbers: FloatArray) -> BoolArray:
    """Whether x explains columns to the last digits: what it leaves then is rounding errors, and no response."""
    return np.asarray(left.std(axis=0) <= _NEGLIGIBLE * numbers.std(axis=0))


@dataclass(frozen=True)
class Contrasts:
    """Statistics of surprises u: sums of u f, the largest of many, and sums over pairs of rows with kernels.

    Attributes
    ----------
    sums, largest : dict of array, shape (n, m)
        Functions of the rows by view: squared sums of u times each are added, or the largest is taken.
    kernels : dict of (float, list of array)
        Bandwidth on the inputs, in units of their median distance, and features; the kernel of a pair of rows is that
        on the inputs times the products of each array of features.
    smoother : Smoother
        For the inputs.
    variances : array, shape (n, G)
        Variance of u by the probabilities, for each of the arrays of surprises.
    unit : float
        Median squared distance of the inputs.
    signs : array, shape (n,), optional
        For surprises that are random signs: what stands for the signs of the data.
    """

    sums: dict[str, RealArray]
    largest: dict[str, RealArray]
    kernels: dict[str, tuple[float, list[RealArray]]]
    smoother: Smoother
    variances: FloatArray
    unit: float
    signs: RealArray | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Which views there are."""
        return (*self.sums, *self.largest, *self.kernels)

    def __call__(self, surprises: Sequence[FloatArray]) -> FloatArray:
        """Return the views (rows) for each column of the surprises: one array of n rows per column of variances."""
        found = []
        with one_blas_thread():
            for u, variances in zip(surprises, self.variances.T, strict=True):
                squares = self.squares(u)
                squares = (squares + variances[:, None] * (squares.sum(axis=0) / max(variances.sum(), _TINY))) / 2
                sums, largest = (
                    [_studentised((f.T @ u) ** 2, (f**2).T @ squares) for f in functions.values()]
                    for functions in (self.sums, self.largest)
                )
                by_function = [*(v.sum(axis=0) for v in sums), *(v.max(axis=0) for v in largest)]
                found.append(np.vstack([*by_function, self._kernel_sums(u, squares)]))
        return np.asarray(sum(found))

    def squares(self, u: FloatArray) -> FloatArray:
        """Return the squares of u; those of signs are known."""
        return np.asarray(u**2 if self.signs is None else np.ones_like(u))

    def _kernel_sums(self, u: FloatArray, squares: FloatArray) -> FloatArray:
        """Sum u_i u_j k(i, j) over all pairs i != j, tile by tile, in units of the sum over i = j; for each kernel.

        Kernels are symmetric: each pair is visited once and counts twice.
        """
        settings = current_settings()
        n = len(u)
        # Flat tiles: what lies below the diagonal of a tile is multiplied for nothing.
        step = -(-settings.tile // 4)
        tiles = [slice(i, min(i + step, n)) for i in range(0, n, step)]

        def work(rows: slice) -> list[FloatArray]:
            columns = slice(rows.start, n)
            numbers = self.smoother.numbers
            squared = squared_distances(numbers[rows], numbers[columns])
            same = _same_categories(self.smoother, rows, columns)
            visited = np.tril_indices(rows.stop - rows.start)
            found = []
            for bandwidth, features in self.kernels.values():
                pairs = squared * (-0.5 / (self.unit * bandwidth**2))
                exp_in_place(pairs)
                for own in features:
                    pairs *= own[rows] @ own[columns].T
                if same is not None:
                    pairs *= same
                pairs[visited] = 0.0
                found.append(2 * np.einsum("ip,ip->p", u[rows], pairs @ u[columns]))
            return found

        with ThreadPoolExecutor(settings.n_threads) as threads:
            pairs = np.asarray(sum(np.array(part) for part in threads.map(work, tiles)))
        diagonals = np.array([_diagonal(features) for _, features in self.kernels.values()])
        if self.signs is not None:
            pairs += diagonals @ (u**2 - 1)
        return _studentised(pairs, diagonals @ squares)


class AnchoredContrasts:
    r"""The same statistics of many rows: sums over rows in chunks, sums over pairs of rows by anchors.

    A kernel view is made of :math:`\sum_{i \ne j} u_i u_j k(i, j)`. With anchors a that is

    .. math:: \sum_a \Bigl(\sum_i u_i h(a, i)\Bigr)^2 - \sum_i u_i^2 \sum_a h(a, i)^2,

    which is the same sum over pairs with the kernel :math:`\sum_a h(a, i) h(a, j)`. To make that one close to k, h has
    1 / sqrt(2) of its bandwidth on the inputs (a Gaussian convolved with itself is wider by sqrt(2)), and the features
    of the anchors are whitened, because :math:`\sum_a f_a f_a'` would count the features by their variances once more.

    Parameters
    ----------
    contrasts : Contrasts
        Which functions and kernels.
    anchors : array of int
        Rows that stand for all in sums over pairs.
    """

    def __init__(self, contrasts: Contrasts, anchors: IntArray) -> None:
        self.contrasts, self.anchors = contrasts, anchors

    def __call__(self, surprises: Surprises) -> FloatArray:
        """Return the views (rows) for each column of the surprises."""
        own = self.contrasts
        functions = [*own.sums.values(), *own.largest.values()]
        columns = [f.shape[1] for f in functions]
        resamples = surprises(slice(0, 1))[0].shape[1]
        # Sums of functions and of kernels at each of the anchors, then the squares of the functions, the kernels'
        # diagonals and ones, times the squares of u, and times what is expected of these.
        measured = sum(columns) + len(own.kernels) + 1
        ends = np.cumsum([sum(columns), *(len(self.anchors) for _ in own.kernels), measured])

        def sums(rows: slice) -> FloatArray:
            parts = []
            chosen = np.hstack([f[rows] for f in functions]).astype(np.float64)
            pairs = self._pairs(rows)
            diagonals = np.array([np.einsum("ai,ai->i", p, p) for p in pairs])
            units = np.vstack([chosen.T**2, diagonals, np.ones(len(chosen))])
            for u, variances in zip(surprises(rows), own.variances[rows].T, strict=True):
                expected = np.broadcast_to((units @ variances)[:, None], (measured, resamples))
                parts.append(np.vstack([chosen.T @ u, *(p @ u for p in pairs), units @ own.squares(u), expected]))
            return np.array(parts)

        views: list[list[FloatArray]] = []
        for of_sample in total(sums, own.smoother.rows, _ANCHORED_ROWS, resamples=resamples):
            plain, *at_anchors, squares, expected = np.split(of_sample, ends)
            pairs = [(part**2).sum(axis=0) for part in at_anchors] - squares[sum(columns) : -1]
            units = (squares + expected * (squares[-1] / np.maximum(expected[-1], _TINY))) / 2
            studentised = _studentised(np.vstack([plain**2, pairs]), units[:-1])
            *by_function, of_kernels = np.split(studentised, np.cumsum(columns))
            views.append(
                [
                    *(part.sum(axis=0) for part in by_function[: len(own.sums)]),
                    *(part.max(axis=0) for part in by_function[len(own.sums) :]),
                    *of_kernels,
                ]
            )
        return np.asarray(np.sum(views, axis=0))

    def _pairs(self, rows: slice) -> list[RealArray]:
        """Kernels h between anchors and rows."""
        smoother, bandwidths = self.contrasts.smoother, [b for b, _ in self.contrasts.kernels.values()]
        squared = squared_distances(smoother.numbers[self.anchors], smoother.numbers[rows]) / -self.contrasts.unit
        same = _same_categories(smoother, self.anchors, rows)
        found = []
        for bandwidth, (_, features), whitened in zip(
            bandwidths, self.contrasts.kernels.values(), self._whitened, strict=True
        ):
            pairs = squared / bandwidth**2
            exp_in_place(pairs)
            if same is not None:
                pairs *= same
            for own, at_anchors in zip(features, whitened, strict=True):
                pairs *= at_anchors @ own[rows].T
            found.append(pairs)
        return found

    @cached_property
    def _whitened(self) -> list[list[FloatArray]]:
        """Features of the anchors, for each kernel, turned and scaled to have a covariance of 1 over all rows."""
        return [[self._white(own) for own in features] for _, features in self.contrasts.kernels.values()]

    def _white(self, features: RealArray) -> FloatArray:
        covariance = total(lambda rows: features[rows].T.astype(np.float64) @ features[rows], len(features))
        spectrum, turn = np.linalg.eigh(covariance / len(features))
        kept = spectrum > _LEAST_VARIANCE * max(spectrum[-1], _TINY)
        return np.asarray(features[self.anchors] @ (turn[:, kept] / np.sqrt(spectrum[kept]) @ turn[:, kept].T))


def sample_contrasts(response: Response, smoother: Smoother, probabilities: FloatArray) -> Contrasts:
    """Return the views of labels minus their `probabilities` given x (n x G): whether y tells the samples apart."""
    columns = response.columns
    sums = {"mean": columns, "amplitude": columns * response.fitted}
    largest = {"slopes": _each_by_each(columns, _inputs(smoother))}
    products = _products(smoother)
    if 0 < products.shape[1] * columns.shape[1] <= _MOST_PRODUCTS:
        largest["products"] = _each_by_each(columns, products)
    if response.numeric.any():
        sums["spread"] = smoother.residuals(_squares_and_products(response))[0]
        largest["spread along x"] = _each_by_each(sums["spread"], _inputs(smoother))
    kernels = {"local": (_LOCAL, [response.wide])}
    if response.narrow.shape[1]:
        kernels["shape"] = (1.0, [response.narrow])
    variances = probabilities * (1 - probabilities)
    # Two samples have one surprise between them, that of the second.
    return _contrasts(sums, largest, kernels, smoother, variances[:, 1:] if variances.shape[1] == 2 else variances)


def wave_features(values: FloatArray, labels: Sequence[bool]) -> RealArray:
    """Return features of a narrow kernel on ranks as they are.

    Waves along x have their place on x itself; on what a regression leaves of x their phase would change with z.
    """
    flags = np.asarray(labels, bool)
    scores = normal_scores(values[:, ~flags])
    return _kernel_features(scores, values[:, flags].T, _WAVES, _median_square(scores), _NARROW_FEATURES)


def dependence_contrasts(x: Response, y: Response, waves: RealArray, smoother: Smoother) -> Contrasts:
    """Return the views of random signs: whether x and y, without their regressions on z, go together.

    Products of what is left of x and of y have mean 0 given z if x and y are independent given z; so their sums are as
    large as with signs drawn at random. Nearly: where both regressions use up the same p degrees of freedom, a sum of
    products has the variance n - p, in units of that of a product of errors, while under random signs it has
    n (1 - p / n)^2. So the signs of the data are multiplied by the square root of 1 - p / n; row by row by 1 minus the
    leverage in the less flexible of the two regressions.
    """
    pairs = _each_by_each(x.columns, y.columns)
    sums, largest = {"linear": pairs}, {"moderated": _each_by_each(pairs, _inputs(smoother))}
    curved = []
    for a, b in ((x, y), (y, x)):
        if a.numeric.any():
            squares = smoother.residuals(_squares_and_products(a))[0]
            curved.append(_each_by_each(squares, b.columns))
    if x.numeric.any() and y.numeric.any():
        curved.append(_each_by_each(*(smoother.residuals(_squares_and_products(v))[0] for v in (x, y))))
    if curved:
        largest["spread"] = np.hstack(curved)
    fine = [v.narrow if v.narrow.shape[1] else v.wide for v in (x, y)]
    kernels = {
        "joint": (np.inf, [x.wide, y.wide]),
        "local": (1.0, [x.wide, y.wide]),
        "shape": (np.inf, fine),
        "waves": (np.inf, [waves, y.columns]),
    }
    found = _contrasts(sums, largest, kernels, smoother, np.ones((len(pairs), 1)))
    return replace(found, signs=np.sqrt(np.maximum(x.unused, y.unused)))


def _contrasts(
    sums: dict[str, RealArray],
    largest: dict[str, RealArray],
    kernels: dict[str, tuple[float, list[RealArray]]],
    smoother: Smoother,
    variances: FloatArray,
) -> Contrasts:
    """Lay all arrays out in rows: matrix products of another layout differ in the last digit, here and on workers."""
    rows = np.ascontiguousarray
    return Contrasts(
        {name: rows(functions) for name, functions in sums.items()},
        {name: rows(functions) for name, functions in largest.items()},
        {name: (bandwidth, [rows(own) for own in features]) for name, (bandwidth, features) in kernels.items()},
        smoother,
        rows(variances),
        _median_square(smoother.numbers),
    )


def _studentised(squared: FloatArray, squares: FloatArray) -> FloatArray:
    return np.asarray(squared / np.maximum(squares, _TINY))


def _same_categories(smoother: Smoother, rows: slice | IntArray, columns: slice) -> FloatArray | None:
    """Kernel on the categories of rows and columns; None if there are none."""
    same = None
    for codes in smoother.categories:
        equal = np.where(codes[rows][:, None] == codes[columns], 1.0, _OTHER_CATEGORY)
        same = equal if same is None else same * equal
    return same


def _diagonal(features: list[RealArray]) -> RealArray:
    """Kernel of each row with itself: that on the inputs is 1."""
    return np.asarray(np.prod([(own**2).sum(axis=1) for own in features], axis=0))


def _each_by_each(a: RealArray, b: RealArray) -> RealArray:
    return np.asarray((a[:, :, None] * b[:, None, :]).reshape(len(a), -1))


def _inputs(smoother: Smoother) -> FloatArray:
    return np.hstack([np.clip(smoother.numbers, -_CLIPPED_INPUT, _CLIPPED_INPUT), *smoother.indicators])


def _products(smoother: Smoother) -> FloatArray:
    """Products of all pairs of columns of numbers, squares among them, and of numbers and indicators; centred."""
    numbers = smoother.numbers
    d = numbers.shape[1]
    pairs = [numbers[:, [i]] * numbers[:, i:] for i in range(d)]
    mixed = [_each_by_each(block, numbers) for block in smoother.indicators] if d else []
    found = np.clip(np.hstack([np.zeros((len(numbers), 0)), *pairs, *mixed]), -_CLIPPED_PRODUCT, _CLIPPED_PRODUCT)
    return np.asarray(found - found.mean(axis=0))


def _squares_and_products(response: Response) -> RealArray:
    """Products of all pairs of columns of the response of which one at least is a number."""
    columns = response.columns
    count = columns.shape[1]
    numeric = [i for i in range(count) if response.numeric[i]]
    return np.hstack([columns[:, [i]] * columns[:, [j]] for i in numeric for j in range(i, count)])


def _of_variance_one(columns: RealArray) -> RealArray:
    deviation = columns.std(axis=0)
    return np.asarray(np.where(deviation > 0, columns / np.where(deviation > 0, deviation, 1.0), 0.0))


def _unexplained(targets: FloatArray, deleted: RealArray) -> FloatArray:
    """Share of the variance that the regression leaves, each row left out of its own fit."""
    total = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray((deleted**2).sum(axis=0) / np.maximum(total, _TINY))


def _unused(left: RealArray, deleted: RealArray) -> RealArray:
    """Share of each row that a fit leaves: its residual in units of that with the row left out of the fit."""
    known = deleted != 0
    shares = np.where(known, left / np.where(known, deleted, 1.0), 1.0)
    return np.asarray(np.clip(shares, 0.0, 1.0).mean(axis=1))


def _clip(residuals: RealArray, at: float) -> RealArray:
    """Residuals about their median, in robust deviations, clipped."""
    if not residuals.shape[1]:
        return residuals
    centred = residuals - np.median(residuals, axis=0)
    deviation = 1.4826 * np.median(np.abs(centred), axis=0)
    deviation = np.where(deviation > 0, deviation, residuals.std(axis=0))
    return np.asarray(np.clip(centred / np.where(deviation > 0, deviation, 1.0), -at, at))


def _median_square(values: RealArray) -> float:
    """Median squared distance between rows that differ, of at most 500 of them."""
    from condcs._kernels.compiled import squared_distances as pair_distances

    some = values[np.unique(np.linspace(0, len(values) - 1, min(len(values), _MEDIAN_ROWS)).astype(np.int64))]
    return median_square(pair_distances(np.ascontiguousarray(some, np.float64)))


def _kernel_features(
    values: RealArray, codes: RealArray | IntArray, bandwidth: float, unit: float, most: int
) -> RealArray:
    """Features whose products are a Gaussian kernel on numbers times equality of labels: a pivoted Cholesky factor.

    The bandwidth is in units of a distance whose square is given.
    """

    def kernel(pivot: int) -> RealArray:
        found = np.exp(-squared_distances(values, values[[pivot]])[:, 0] / (2 * unit * bandwidth**2))
        for own in codes:
            found *= own == own[pivot]
        return np.asarray(found)

    return pivoted_cholesky(
        kernel, np.ones(len(values)), most=most, enough=lambda rest: bool(rest.max() < _LEAST_FEATURE)
    )[0]
