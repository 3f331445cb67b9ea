"""The response without its regression on x: what the views of a test are made of.

`adjusted_response` is the function to read first. It regresses every column of y on x, on the pool, and returns an
`AdjustedResponse`: residuals in the form that each kind of view needs. Nothing here knows of probabilities or
resamples, and of samples one thing: the designs that it is given may have indicators of places where y or the samples'
labels jump along x (`jumping_targets`). These are chosen once, by the labels as they are, and stay when labels are
redrawn. A test keeps its level: under the null hypothesis y is independent of the labels given x, so that y is
distributed given x and the labels as it is given x, and its residuals have the mean that they have with any functions
of x, whoever chose these.

To give the views another function of y, add a field to `AdjustedResponse` and make it in `adjusted_response`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, LabelArray, RealArray
from condcs._kernels.low_rank import pivoted_cholesky
from condcs._measures.inputs import KernelVariable
from condcs._regression.smoother import RegressionOnX, Residuals, Smoother
from condcs._regression.standardised import in_deviations, median_square, normal_scores, squared_distances

CLIPPED_INPUT = 3.0
"""Standard deviations at which inputs and fitted values are clipped where they multiply residuals: beyond, a few rows
would carry the whole sum."""

_CLIPPED_IN_SUMS = 2.5
"""Robust deviations at which residuals are clipped in sums: of normal residuals 1% are, and heavy tails cannot hide a
shift of the mean."""

_CLIPPED_IN_KERNELS = 4.0
"""The same before kernels on y are evaluated. These see shapes, so that tails keep more of their length."""

_NORMAL_SCORES_GAIN = 0.02
"""Share of the variance by which normal scores must be explained better than the values to take their place."""

MADS_PER_DEVIATION = 1.4826
"""Median absolute deviations in the standard deviation of a normal variable: 1 / 0.6745, its upper quartile."""

_ROUNDING = 1e-9
"""Residuals below this share of a column's deviation are rounding errors of the regression, and no response."""

_WIDE, _NARROW, _WAVES = 1.0, 0.4, 0.3
"""Bandwidths on y, in units of the median distance: wide kernels see changes of location and spread, narrow ones see
modes and tails, the narrowest see waves along a variable, of which three or more fit into its range."""

_WIDE_FEATURES, _NARROW_FEATURES = 40, 60
"""Most features of a kernel on y. One normal column needs 10 and 20 for the tolerance below, two columns 32 and 111,
three 64 and 293 (1,000 rows): several columns are cut here, so that sums over pairs stay cheap."""

_FEATURE_TOLERANCE = 1e-3
"""Features are added until no diagonal entry of the kernel misses more than this."""

_MEDIAN_ROWS = 500
"""Rows, evenly spaced, whose pairs give the median distance: 125,000 pairs, more than a bandwidth needs."""

_TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class AdjustedResponse:
    """The response without its regression on x.

    Attributes
    ----------
    for_divergence : array, shape (n, columns of y)
        What the divergence compares: columns of numbers minus their regression on x, in their own units. Columns of
        labels, and of numbers that x explains to the last digits, are as they are.
    columns : array, shape (n, c)
        What sums over rows use: numbers clipped at 2.5 robust deviations, and indicators of labels, each minus its
        regression on x and with variance 1.
    fitted : array, shape (n, c)
        The regressions themselves, standardised and clipped.
    numeric : array of bool, shape (c,)
        Which columns come from numbers.
    wide, narrow : array, shape (n, m)
        Features of Gaussian kernels on the response, minus their regressions on x.
    one_minus_leverage : array, shape (n,)
        Share of each row that the regressions of y have not used up; the mean over its columns.
    """

    for_divergence: FloatArray
    columns: RealArray
    fitted: FloatArray
    numeric: BoolArray
    wide: RealArray
    narrow: RealArray
    one_minus_leverage: RealArray


class Regressed(NamedTuple):
    """Columns that were regressed on x, each array of shape (n, k)."""

    targets: RealArray
    residuals: RealArray
    left_out: RealArray
    """Residuals of fits from which the row itself was left out."""

    @property
    def centred(self) -> RealArray:
        """Targets minus their means."""
        return np.asarray(self.targets - self.targets.mean(axis=0))

    @property
    def unexplained(self) -> FloatArray:
        """Share of each column's variance that x does not predict, by the rows left out (k,)."""
        variation = (self.centred**2).sum(axis=0)
        return np.asarray((self.left_out**2).sum(axis=0) / np.maximum(variation, _TINY))

    @property
    def is_explained(self) -> BoolArray:
        """Which columns x explains to the last digits (k,): what is left of them are rounding errors."""
        return np.asarray(self.residuals.std(axis=0) <= _ROUNDING * self.targets.std(axis=0))


def adjusted_response(
    y: FloatArray,
    is_category: Sequence[bool],
    smoother: RegressionOnX,
    *,
    regress: Callable[[RealArray], Residuals] | None = None,
) -> AdjustedResponse:
    """Subtract the regression on x from every column of y, and from the features of its kernels.

    `regress` makes the regressions of y itself, by default `smoother.residuals`, which makes those of what is computed
    from its residuals. Both are on the same x.
    """
    numbers, codes = _numbers_and_codes(y, is_category)  # (n, k) and (l, n)
    n, k = numbers.shape
    scaled, unit = _in_units_of_largest(numbers)  # (n, k) and (k,)

    # 1. Regress numbers, their normal scores and indicators of labels on x, all in one call: they share the designs.
    blocks = [scaled, normal_scores(scaled), _one_hot(codes, n)]
    values, scores, indicators = _regressed(blocks, regress or smoother.residuals)

    # 2. The null hypothesis is the same for any increasing function of y. Heavy tails are better seen through ranks, so
    #    that a column counts by its normal scores where x explains these clearly better. A column that x explains to
    #    the last digits has no residuals in either form.
    by_scores = scores.unexplained < values.unexplained - _NORMAL_SCORES_GAIN  # (k,)
    residuals_of_values = np.where(values.is_explained, 0.0, values.residuals)  # (n, k)
    has_residuals_of_scores = by_scores & ~values.is_explained  # (k,)
    residuals = np.where(has_residuals_of_scores, scores.residuals, residuals_of_values)  # (n, k)
    targets = np.where(by_scores, scores.targets, scaled)  # (n, k)

    # 3. Features of kernels on the residuals: products of features are values of the kernel.
    in_kernels = clipped_deviations(residuals, _CLIPPED_IN_KERNELS)  # (n, k)
    squared_unit = pair_median_square(in_kernels)
    wide = _kernel_features(in_kernels, codes, _WIDE, squared_unit, _WIDE_FEATURES)
    narrow = _kernel_features(in_kernels, codes, _NARROW, squared_unit, _NARROW_FEATURES) if k else wide[:, :0]

    # 4. Clipped residuals and features depend on x once more (their variance may follow it): regress them, too.
    in_sums = np.hstack([clipped_deviations(residuals, _CLIPPED_IN_SUMS), wide])
    clipped, wide = np.split(smoother.residuals(in_sums).in_sample, [k], axis=1)
    narrow = smoother.residuals(narrow).in_sample
    columns = _with_variance_one(np.hstack([clipped, indicators.residuals]))  # (n, c)

    # 5. The regressions themselves: what the residuals lack of the targets.
    fitted_numbers = targets - targets.mean(axis=0) - residuals
    fitted_labels = indicators.centred - indicators.residuals
    fitted = in_deviations(np.hstack([fitted_numbers, fitted_labels]))  # (n, c)
    return AdjustedResponse(
        for_divergence=_for_divergence(y, is_category, values, unit),
        columns=columns,
        fitted=np.clip(fitted, -CLIPPED_INPUT, CLIPPED_INPUT),
        numeric=np.arange(columns.shape[1]) < k,
        wide=wide,
        narrow=narrow,
        one_minus_leverage=_one_minus_leverage(
            np.hstack([residuals_of_values, indicators.residuals]),
            np.hstack([values.left_out, indicators.left_out]),
        ),
    )


def response_for_divergence(y: FloatArray, is_category: Sequence[bool], smoother: Smoother) -> FloatArray | None:
    """Return `AdjustedResponse.for_divergence` alone; None if all columns are of labels."""
    numbers, _ = _numbers_and_codes(y, is_category)
    if not numbers.shape[1]:
        return None
    scaled, unit = _in_units_of_largest(numbers)
    values = Regressed(scaled, *smoother.residuals(scaled))
    return _for_divergence(y, is_category, values, unit)


def with_placeholder_width_of_y(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of kernels with 1.0 for a rule of the bandwidth on y, which is to see the adjusted response."""
    by_rule = isinstance(options.get("bandwidth_y", "median"), str)
    return {**options, "bandwidth_y": 1.0} if by_rule else {**options}


def with_fixed_widths_of_x(options: Mapping[str, Any], x: KernelVariable) -> dict[str, Any]:
    """Return options of kernels in which x keeps the bandwidths that it has: a rule would have to find them again."""
    return {**options} if x.widths is None else {**options, "bandwidth_x": np.nan_to_num(x.widths, nan=1.0)}


def jumping_targets(*variables: tuple[RealArray | LabelArray, Sequence[bool]]) -> FloatArray:
    """Return the columns in which jumps along x are sought: numbers, and indicators of labels.

    A variable comes with flags that say which of its columns hold labels.
    """
    blocks = []
    for values, is_category in variables:
        numbers, codes = _numbers_and_codes(values, is_category)
        blocks += [numbers.astype(np.float64), _one_hot(codes, len(values))]
    return np.hstack(blocks)


def wave_features(values: FloatArray, is_category: Sequence[bool]) -> RealArray:
    """Return features of a narrow kernel on ranks as they are.

    Waves along x depend on x itself: on the residuals of x given z their phase would change with z.
    """
    numbers, codes = _numbers_and_codes(values, is_category)
    scores = normal_scores(numbers)
    return _kernel_features(scores, codes, _WAVES, pair_median_square(scores), _NARROW_FEATURES)


def squares_and_products(response: AdjustedResponse) -> RealArray:
    """Products of all pairs of columns of the response of which at least one is a number."""
    columns = response.columns  # (n, c): those of numbers come first
    n_columns = columns.shape[1]
    numeric = np.flatnonzero(response.numeric)
    return np.hstack([columns[:, [i]] * columns[:, [j]] for i in numeric for j in range(i, n_columns)])


def pair_median_square(values: RealArray) -> float:
    """Median squared distance between rows that differ, of at most 500 of them."""
    from scipy.spatial.distance import pdist

    rows = np.unique(np.linspace(0, len(values) - 1, min(len(values), _MEDIAN_ROWS)).astype(np.int64))
    return median_square(pdist(np.asarray(values[rows], np.float64), "sqeuclidean"))


def clipped_deviations(residuals: RealArray, limit: float) -> RealArray:
    """Return residuals (n, k) minus their medians, in robust deviations, clipped at so many of these."""
    if not residuals.shape[1]:
        return residuals
    centred = residuals - np.median(residuals, axis=0)
    deviation = MADS_PER_DEVIATION * np.median(np.abs(centred), axis=0)  # (k,)
    # Of a column in which more than half of the rows are equal that is 0: then the standard deviation.
    deviation = np.where(deviation > 0, deviation, residuals.std(axis=0))
    deviation = np.where(deviation > 0, deviation, 1.0)
    return np.asarray(np.clip(centred / deviation, -limit, limit))


def _numbers_and_codes(values: RealArray | LabelArray, is_category: Sequence[bool]) -> tuple[RealArray, RealArray]:
    """Return the columns of numbers (n, k), and the columns of labels as rows of codes (l, n)."""
    flags = np.asarray(is_category, bool)
    return np.asarray(values[:, ~flags]), np.asarray(values[:, flags].T)


def _in_units_of_largest(numbers: RealArray) -> tuple[RealArray, FloatArray]:
    """Return columns in units of their largest absolute value, so that no square overflows, and these units (k,)."""
    unit = np.maximum(np.abs(numbers).max(axis=0, initial=0.0), _TINY)
    return numbers / unit, unit


def _regressed(blocks: Sequence[RealArray], regress: Callable[[RealArray], Residuals]) -> list[Regressed]:
    """Regress blocks of columns on x in one call."""
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
    all_residuals = regress(np.hstack(blocks))
    residuals = np.split(all_residuals.in_sample, ends, axis=1)
    left_out = np.split(all_residuals.left_out, ends, axis=1)
    return [Regressed(*arrays) for arrays in zip(blocks, residuals, left_out, strict=True)]


def _one_hot(codes: RealArray | LabelArray, rows: int) -> FloatArray:
    """Return indicators of the labels of each variable (rows of `codes`); two labels share one indicator."""
    blocks = [np.zeros((rows, 0))]
    for variable in codes:
        indicators = (variable[:, None] == np.unique(variable)).astype(np.float64)
        blocks.append(indicators[:, 1:] if indicators.shape[1] == 2 else indicators)
    return np.hstack(blocks)


def _for_divergence(y: FloatArray, is_category: Sequence[bool], values: Regressed, unit: FloatArray) -> FloatArray:
    """Return y with its columns of numbers minus their regression, except those that x explains to the last digits.

    The latter stay as they are: in their residuals the divergence would compare rounding errors.
    """
    compared = y.copy()
    compared[:, ~np.asarray(is_category, bool)] = np.where(values.is_explained, values.targets, values.residuals) * unit
    return compared


def _with_variance_one(columns: RealArray) -> RealArray:
    """Divide columns by their deviation; those that are constant become 0."""
    deviation = columns.std(axis=0)
    varies = deviation > 0
    return np.asarray(np.where(varies, columns / np.where(varies, deviation, 1.0), 0.0))


def _one_minus_leverage(residuals: RealArray, left_out: RealArray) -> RealArray:
    """Return 1 minus the leverage of each row, the mean over columns: r = (1 - leverage) r_left_out."""
    defined = left_out != 0
    shares = np.where(defined, residuals / np.where(defined, left_out, 1.0), 1.0)
    return np.asarray(np.clip(shares, 0.0, 1.0).mean(axis=1))


def _kernel_features(
    values: RealArray, codes: RealArray | IntArray, bandwidth: float, squared_unit: float, most: int
) -> RealArray:
    """Return features whose products are a Gaussian kernel on numbers times equality of labels.

    They are a pivoted Cholesky factor of the Gram matrix, of which only the pivots' columns are ever computed.

    Parameters
    ----------
    values : array, shape (n, k)
        The numbers.
    codes : array, shape (l, n)
        The labels, one row for each variable.
    bandwidth, squared_unit : float
        Bandwidth in units of a distance, and the square of that distance.
    most : int
        Most features.
    """

    def kernel_with(pivot: int) -> RealArray:
        squared = squared_distances(values, values[[pivot]])[:, 0]
        column = np.exp(-squared / (2 * squared_unit * bandwidth**2))
        for variable in codes:
            column *= variable == variable[pivot]
        return np.asarray(column)

    return pivoted_cholesky(
        kernel_with, np.ones(len(values)), most=most, enough=lambda rest: bool(rest.max() < _FEATURE_TOLERANCE)
    )[0]
