r"""Views: statistics that each see one kind of change of p(y|x), evaluated on the same redrawn labels.

Let u be the label of a row minus its probability given x, and r a function of the response minus its regression on x
(on the pool, without labels). If p(y|x) is the same in all samples, u and r are uncorrelated given x, whatever the
distribution of x; errors of the two regressions enter only as their product. So every statistic here is made of sums
of u r g(x), for functions r and g chosen by what they see:

============  ==========================================================================================
view          what it sees
============  ==========================================================================================
mean          a shift of the response everywhere
amplitude     a response that follows the pooled regression more, or less, than it did
slopes        an input that has gained, lost or turned its influence
products      a pair of inputs that acts together, or a curvature
spread        variances, and correlations between several responses
local         a change of the response, of any kind, in some places of x
shape         a change of the shape of the response: modes, tails, skewness
divergence    the measure itself, on the adjusted response (`condcs._inference.conditional_tests`)
============  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.settings import current_settings
from condcs._core.thread_limit import one_blas_thread
from condcs._inference.smoothing import Smoother, in_deviations, median_square, squared_distances
from condcs._kernels.low_rank import pivoted_cholesky

FloatArray = np.ndarray[Any, Any]

WEIGHTS = {"mean": 6.0, "linear": 6.0, "spread": 2.0}
"""How much a view counts in the combination, 1 if not said. Changes of the mean are what is looked for most often, and
there single-purpose tests are sharpest; to leave nearly half of the weight to them costs the other views little."""

_NORMAL_SCORES_GAIN = 0.02
"""Share of the variance by which normal scores must be explained better than the values to take their place."""
_NEGLIGIBLE = 1e-9
_CLIPPED, _CLIPPED_IN_KERNELS = 2.5, 4.0
_CLIPPED_INPUT, _CLIPPED_PRODUCT = 3.0, 4.0
_LOCAL, _WIDE = 0.3, 1.0
_NARROW, _WAVES = 0.4, 0.3
_WIDE_FEATURES, _NARROW_FEATURES = 40, 60
_LEAST_FEATURE = 1e-3
OTHER_CATEGORY = 0.3
_MOST_PRODUCTS = 600
_MEDIAN_ROWS = 500


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
    """

    adjusted: FloatArray
    columns: FloatArray
    fitted: FloatArray
    numeric: FloatArray
    wide: FloatArray
    narrow: FloatArray


def adjusted_response(y: FloatArray, labels: Sequence[bool], smoother: Smoother) -> Response:
    """Subtract the regression on x from every column of y, and from the features of its kernels."""
    flags = np.asarray(labels, bool)
    codes = y[:, flags].T
    scale = np.maximum(np.abs(y[:, ~flags]).max(axis=0), np.finfo(float).tiny)
    numbers = y[:, ~flags] / scale
    left, deleted = smoother.residuals(numbers)
    # What x explains to the last digits leaves rounding errors, which are no response.
    nothing = left.std(axis=0) <= _NEGLIGIBLE * numbers.std(axis=0)
    scores = _normal_scores(numbers)
    scores_left, scores_deleted = smoother.residuals(scores)
    # The null hypothesis is the same for any increasing function of y; heavy tails are better seen through ranks.
    better = _unexplained(scores, scores_deleted) < _unexplained(numbers, deleted) - _NORMAL_SCORES_GAIN
    residuals = np.where(nothing, 0.0, np.where(better, scores_left, left))
    targets = np.where(better, scores, numbers)
    indicators = [(c[:, None] == np.unique(c)).astype(np.float64) for c in codes]
    # Two categories have one indicator between them.
    indicators = [block[:, 1:] if block.shape[1] == 2 else block for block in indicators]
    one_hot = np.hstack([np.zeros((len(y), 0)), *indicators])
    label_residuals = smoother.residuals(one_hot)[0]
    clipped = smoother.residuals(_clip(residuals, _CLIPPED))[0]
    columns = _of_variance_one(np.hstack([clipped, label_residuals]))
    fitted = np.hstack([targets - targets.mean(axis=0) - residuals, one_hot - one_hot.mean(axis=0) - label_residuals])
    adjusted = y.copy()
    adjusted[:, ~flags] = np.where(nothing, numbers, left) * scale
    in_kernels = _clip(residuals, _CLIPPED_IN_KERNELS)
    wide = _kernel_features(in_kernels, codes, _WIDE, _WIDE_FEATURES)
    narrow = _kernel_features(in_kernels, codes, _NARROW, _NARROW_FEATURES) if numbers.shape[1] else wide[:, :0]
    return Response(
        adjusted,
        columns,
        np.clip(in_deviations(fitted), -_CLIPPED_INPUT, _CLIPPED_INPUT),
        np.arange(columns.shape[1]) < numbers.shape[1],
        smoother.residuals(wide)[0],
        smoother.residuals(narrow)[0],
    )


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
        Variance of u, for each of the arrays of surprises; what sums are measured by.
    unit : float
        Median squared distance of the inputs.
    """

    sums: dict[str, FloatArray]
    largest: dict[str, FloatArray]
    kernels: dict[str, tuple[float, list[FloatArray]]]
    smoother: Smoother
    variances: FloatArray
    unit: float

    @property
    def names(self) -> tuple[str, ...]:
        """Which views there are."""
        return (*self.sums, *self.largest, *self.kernels)

    def __call__(self, surprises: Sequence[FloatArray]) -> FloatArray:
        """Return the views (rows) for each column of the surprises: one array of n rows per column of variances."""
        total = np.zeros((len(self.names), surprises[0].shape[1]))
        with one_blas_thread():
            for u, variances in zip(surprises, self.variances.T, strict=True):
                for row, functions in enumerate(self.sums.values()):
                    total[row] += _squares(functions, u, variances).sum(axis=0)
                for row, functions in enumerate(self.largest.values(), start=len(self.sums)):
                    total[row] += _squares(functions, u, variances).max(axis=0)
                total[len(self.sums) + len(self.largest) :] += self._kernel_sums(u)
        return total

    def _kernel_sums(self, u: FloatArray) -> FloatArray:
        """Sum u_i u_j k(i, j) over all pairs i != j, tile by tile, for each kernel (rows)."""
        settings = current_settings()
        n = len(u)
        tiles = [slice(i, min(i + settings.tile, n)) for i in range(0, n, settings.tile)]

        def work(rows: slice) -> list[FloatArray]:
            squared = squared_distances(self.smoother.numbers[rows], self.smoother.numbers) / (2 * self.unit)
            same = np.ones_like(squared)
            for codes in self.smoother.categories:
                same *= np.where(codes[rows, None] == codes, 1.0, OTHER_CATEGORY)
            found = []
            for bandwidth, features in self.kernels.values():
                pairs = np.exp(-squared / bandwidth**2) * same
                for own in features:
                    pairs *= own[rows] @ own.T
                pairs[np.arange(pairs.shape[0]), np.arange(rows.start, rows.stop)] = 0.0
                found.append(np.einsum("ip,ip->p", u[rows], pairs @ u))
            return found

        with ThreadPoolExecutor(settings.n_threads) as threads:
            return np.asarray(sum(np.array(part) for part in threads.map(work, tiles)))


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
    kernels = {"local": (_LOCAL, [response.wide])}
    if response.narrow.shape[1]:
        kernels["shape"] = (1.0, [response.narrow])
    variances = probabilities * (1 - probabilities)
    # Two samples have one surprise between them, that of the second.
    variances = variances[:, 1:] if variances.shape[1] == 2 else variances
    return _contrasts(sums, largest, kernels, smoother, variances)


def wave_features(values: FloatArray, labels: Sequence[bool], smoother: Smoother) -> FloatArray:
    """Return features of a narrow kernel on ranks as they are, minus their regressions on z.

    Waves along x have their place on x itself; on what a regression leaves of x their phase would change with z.
    """
    flags = np.asarray(labels, bool)
    scores = _normal_scores(values[:, ~flags])
    return smoother.residuals(_kernel_features(scores, values[:, flags].T, _WAVES, _NARROW_FEATURES))[0]


def dependence_contrasts(x: Response, y: Response, waves: FloatArray, smoother: Smoother) -> Contrasts:
    """Return the views of random signs: whether x and y, without their regressions on z, go together.

    Products of what is left of x and of y have mean 0 given z if x and y are independent given z; so their sums are as
    large as with signs drawn at random.
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
    return _contrasts(sums, largest, kernels, smoother, np.ones((len(pairs), 1)))


def _contrasts(
    sums: dict[str, FloatArray],
    largest: dict[str, FloatArray],
    kernels: dict[str, tuple[float, list[FloatArray]]],
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


def _squares(functions: FloatArray, u: FloatArray, variances: FloatArray) -> FloatArray:
    """Squared sums of u times each function, in units of their variance under redrawn labels."""
    scale = variances @ functions**2
    return np.asarray((functions.T @ u) ** 2 / np.maximum(scale, np.finfo(float).tiny)[:, None])


def _each_by_each(a: FloatArray, b: FloatArray) -> FloatArray:
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


def _squares_and_products(response: Response) -> FloatArray:
    """Products of all pairs of columns of the response of which one at least is a number."""
    columns = response.columns
    count = columns.shape[1]
    numeric = [i for i in range(count) if response.numeric[i]]
    return np.hstack([columns[:, [i]] * columns[:, [j]] for i in numeric for j in range(i, count)])


def _of_variance_one(columns: FloatArray) -> FloatArray:
    deviation = columns.std(axis=0)
    return np.asarray(np.where(deviation > 0, columns / np.where(deviation > 0, deviation, 1.0), 0.0))


def _unexplained(targets: FloatArray, deleted: FloatArray) -> FloatArray:
    """Share of the variance that the regression leaves, each row left out of its own fit."""
    total = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray((deleted**2).sum(axis=0) / np.maximum(total, np.finfo(float).tiny))


def _normal_scores(y: FloatArray) -> FloatArray:
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return np.asarray(ndtri((rankdata(y, axis=0) - 0.5) / len(y))) if y.shape[1] else y


def _clip(residuals: FloatArray, at: float) -> FloatArray:
    """Residuals about their median, in robust deviations, clipped."""
    if not residuals.shape[1]:
        return residuals
    centred = residuals - np.median(residuals, axis=0)
    deviation = 1.4826 * np.median(np.abs(centred), axis=0)
    deviation = np.where(deviation > 0, deviation, residuals.std(axis=0))
    return np.asarray(np.clip(centred / np.where(deviation > 0, deviation, 1.0), -at, at))


def _median_square(values: FloatArray) -> float:
    """Median squared distance between rows that differ, of at most 500 of them."""
    some = values[np.unique(np.linspace(0, len(values) - 1, min(len(values), _MEDIAN_ROWS)).astype(np.int64))]
    return median_square(squared_distances(some, some))


def _kernel_features(values: FloatArray, codes: FloatArray, bandwidth: float, most: int) -> FloatArray:
    """Features whose products are a Gaussian kernel on numbers times equality of labels: a pivoted Cholesky factor."""
    unit = _median_square(values)

    def kernel(pivot: int) -> FloatArray:
        found = np.exp(-squared_distances(values, values[[pivot]])[:, 0] / (2 * unit * bandwidth**2))
        for own in codes:
            found *= own == own[pivot]
        return np.asarray(found)

    return pivoted_cholesky(
        kernel, np.ones(len(values)), most=most, enough=lambda rest: bool(rest.max() < _LEAST_FEATURE)
    )[0]
