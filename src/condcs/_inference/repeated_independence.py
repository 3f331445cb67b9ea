r"""Many tests of conditional independence among the columns of one sample, each in closed form.

Searches for causal graphs ask thousands of times whether two columns are independent given others. The statistics are
those of `condcs.independence_test` with null="signs"; three things make them affordable here. Regressions are kept: of
tests with the same conditioning set, all share its designs, and those with a column in common its residuals. Designs
and penalties are compared by generalised cross-validation. And p-values need no resamples. Under random signs s a view
of pairs of rows is :math:`Q = \sum_{i \ne j} s_i s_j k_{ij}`, with

.. math:: E Q = 0, \qquad E Q^2 = 2 \sum_{i \ne j} k_{ij}^2, \qquad E Q^3 = 8 \operatorname{tr} k^3,

and its tail is taken as that of the gamma distribution with these moments. A sum over rows, in units of its standard
deviation, is normal; the largest of m has m times the p-value. The views are combined by the harmonic mean of their
p-values, as in `condcs.independence_test`; its distribution is about Landau's, whatever their dependence (Wilson 2019).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import gammaincc, ndtr

from condcs._core.arrays import FloatArray, RealArray
from condcs._core.settings import one_blas_thread
from condcs._inference.responses import AdjustedResponse, adjusted_response, wave_features
from condcs._inference.views import SignViews, view_weights, views_of_dependence
from condcs._kernels.row_sums import exp_in_place
from condcs._regression.designs import DesignMaker, DesignSizes
from condcs._regression.ridge import RIDGE_PENALTIES, left_out, ridge_shrinkages
from condcs._regression.smoother import NEEDED_ERROR_RATIO, RegressionOnX, Residuals
from condcs._regression.standardised import StandardisedInputs

_CACHE_BYTES = 2**28
"""Size of the regressions that are held for later tests: of 1,000 rows those of some 70 conditioning sets."""

_SIZES = DesignSizes(knots=8, landmarks=60, with_length=False)
"""Fewer functions in less time: a large part of it goes into their eigenvectors. With 150 landmarks, level and power
are the same."""

_SMALLEST = 1e-300
"""Smallest p-value: those of clear dependence underflow, and their reciprocals are averaged."""

_LEAST_SKEWNESS = 1e-3
"""Skewness below which a gamma distribution is taken as normal: its shape, 4 / skewness^2, would be above 4 million."""

_ROWS_OF_CUBE = 64
"""Rows that the trace of the cube of a kernel is estimated by, if there are more: all n would cost O(n^3)."""


class ClosedForm(NamedTuple):
    """The p-value of all views together, and that of each."""

    pvalue: float
    pvalues: dict[str, float]


class QuickSmoother(RegressionOnX):
    """Regressions whose designs and penalties are compared by generalised cross-validation.

    That is leave-one-out with the mean leverage in place of that of each row. Errors then follow from inner products
    with the basis, which has the columns of all designs beside one another: all fits of all targets are compared by one
    matrix product. The first fit is a constant.

    Parameters
    ----------
    x : array, shape (n, d)
        Inputs, all of them numbers.
    """

    def __init__(self, x: FloatArray) -> None:
        super().__init__(StandardisedInputs.of(x, (False,) * x.shape[1]))
        n = self.rows
        designs = DesignMaker(self.inputs, _SIZES, slice(None), np.dtype(np.float64)).designs()
        shrinkages = [ridge_shrinkages(design.spectrum, RIDGE_PENALTIES, n).T for design in designs]  # (fits, p) each
        leverages = [1 / n + shrunk @ (design.basis**2).T for shrunk, design in zip(shrinkages, designs, strict=True)]
        self.basis = np.hstack([design.basis for design in designs])  # (n, all p)
        self.shrinkages = np.vstack([np.zeros((1, self.basis.shape[1])), block_diag(*shrinkages)])  # (all fits, all p)
        self.leverages = np.vstack([np.full((1, n), 1 / n), *leverages])  # (all fits, n)
        self._explained = self.shrinkages * (2 - self.shrinkages)
        self._squared_freedom = (1 - self.leverages.mean(axis=1, keepdims=True)) ** 2

    def residuals(self, targets: RealArray) -> Residuals:
        """Return what the best regression of each column leaves, and the same with each row left out of the fit."""
        targets = targets - targets.mean(axis=0)
        along = self.basis.T @ targets
        errors = np.maximum((targets**2).sum(axis=0) - self._explained @ along**2, 0.0) / self._squared_freedom
        # Of fits that are as good, the first one, of the simplest design, is taken.
        chosen = (errors <= errors.min(axis=0) / NEEDED_ERROR_RATIO).argmax(axis=0)
        residuals = targets - self.basis @ (self.shrinkages[chosen].T * along)
        return Residuals(residuals, left_out(residuals, self.leverages[chosen].T))


class RepeatedIndependence:
    """Tests of independence that keep their regressions; the least recently used ones make room for others.

    Cost of a test O(n^2): about 10 ms for 300 rows, half of that with known regressions. Memory 256 MB for what is
    kept, and O(n^2).
    """

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._bytes = 0

    def __call__(self, x: FloatArray, y: FloatArray, z: FloatArray | None = None) -> ClosedForm:
        """Test whether x and y (n x d each) are independent given z (n x d, or None); all are numbers."""
        # Without a condition, what a regression on a constant leaves is the deviation from the mean.
        x, y, z = (
            np.ascontiguousarray(np.zeros((len(x), 1)) if values is None else values, np.float64)
            for values in (x, y, z)
        )
        x_key, y_key, z_key = (blake2b(values.data, digest_size=16).hexdigest() for values in (x, y, z))
        smoother = self._once(lambda: QuickSmoother(z), "smoother", z_key)

        def adjusted(values: FloatArray, key: str) -> AdjustedResponse:
            is_label = (False,) * values.shape[1]
            response: AdjustedResponse = self._once(
                partial(adjusted_response, values, is_label, smoother), "response", key, z_key
            )
            return response

        adjusted_x, adjusted_y = adjusted(x, x_key), adjusted(y, y_key)
        # Before they are adjusted, waves along x are the same for every z.
        waves = self._once(lambda: wave_features(x, (False,) * x.shape[1]), "waves", x_key)
        wave_residuals = self._once(lambda: smoother.residuals(waves).in_sample, "residuals of waves", x_key, z_key)
        return closed_form(views_of_dependence(adjusted_x, adjusted_y, wave_residuals, smoother))

    def _once(self, make: Callable[[], Any], *key: str) -> Any:
        """Return what `make` returns, from the cache if it was called with this key before."""
        if key not in self._cache:
            self._cache[key] = make()
            self._bytes += _size(self._cache[key])
            while self._bytes > _CACHE_BYTES and len(self._cache) > 1:
                self._bytes -= _size(self._cache.popitem(last=False)[1])
        self._cache.move_to_end(key)
        return self._cache[key]


def _size(regression: QuickSmoother | AdjustedResponse | RealArray) -> int:
    """Bytes of the arrays that grow with the number of rows."""
    if isinstance(regression, np.ndarray):
        return regression.nbytes
    return sum(array.nbytes for array in vars(regression).values() if isinstance(array, np.ndarray))


def closed_form(views: SignViews) -> ClosedForm:
    """Return the p-value of the views of random signs."""
    pvalues: dict[str, float] = {}
    signs = views.data_signs
    for name, functions in views.sums.items():
        pvalues[name] = _tail(*_moments_of_sums(functions, signs))
    for name, functions in views.largest.items():
        largest = np.sqrt(_studentised(functions, signs).max())
        pvalues[name] = min(1.0, functions.shape[1] * 2 * float(ndtr(-largest)))
    with one_blas_thread():
        for name, (bandwidth, (of_x, of_y)) in views.kernels.items():  # features of either, (n, m) each
            if np.isinf(bandwidth) and of_x.shape[1] * of_y.shape[1] < len(signs):
                products = (of_x[:, :, None] * of_y[:, None, :]).reshape(len(signs), -1)
                moments = _moments_of_features(products, signs)
            else:
                kernel = (of_x @ of_x.T) * (of_y @ of_y.T)
                if np.isfinite(bandwidth):
                    kernel *= _gaussian(views.smoother.numbers / (np.sqrt(views.unit) * bandwidth))
                moments = _moments_of_kernel(kernel, signs)
            pvalues[name] = _tail(*moments)
    weights = view_weights(list(pvalues))
    return ClosedForm(_combined(np.array(list(pvalues.values())), weights / weights.sum()), pvalues)


def _gaussian(points: FloatArray) -> FloatArray:
    """Gaussian kernel of bandwidth 1 between all rows: its logarithm is one inner product."""
    ones, lengths = np.ones((len(points), 1)), -0.5 * (points**2).sum(axis=1, keepdims=True)
    gram: FloatArray = np.hstack([points, lengths, ones]) @ np.hstack([points, ones, lengths]).T
    exp_in_place(gram)
    return gram


def _studentised(functions: RealArray, signs: RealArray) -> RealArray:
    """Squared sums of functions times signs in units of their variance under random signs."""
    return np.asarray((signs @ functions) ** 2 / np.maximum((functions**2).sum(axis=0), np.finfo(float).tiny))


def _moments_of_sums(functions: RealArray, signs: RealArray) -> tuple[float, float, float]:
    """Return a sum of squared sums without its mean, and its second and third moments under random signs."""
    scale = np.sqrt(np.maximum((functions**2).sum(axis=0), np.finfo(float).tiny))
    inner = (functions / scale).T @ (functions / scale)  # (m, m)
    value = _studentised(functions, signs).sum() - np.trace(inner)
    return float(value), 2 * float(np.vdot(inner, inner)), 8 * float(np.vdot(inner @ inner, inner))


def _moments_of_kernel(kernel: FloatArray, signs: RealArray) -> tuple[float, float, float]:
    """Return a sum over pairs of rows, and its second and third moments. The kernel's diagonal is set to 0.

    The third moment gives the skewness, which need not be known to the last digit: it is estimated by some rows, evenly
    spaced.
    """
    n = len(kernel)
    value = float(signs @ kernel @ signs - np.trace(kernel))
    np.fill_diagonal(kernel, 0.0)
    some = kernel[np.linspace(0, n - 1, min(n, _ROWS_OF_CUBE)).astype(np.int64)]
    return value, 2 * float(np.vdot(kernel, kernel)), 8 * n / len(some) * float(np.vdot(some @ kernel, some))


def _moments_of_features(features: FloatArray, signs: RealArray) -> tuple[float, float, float]:
    """Return what `_moments_of_kernel` does, of a kernel that is an inner product of features, fewer than rows."""
    inner, diagonal = features.T @ features, (features**2).sum(axis=1)
    on_diagonal = 3 * np.vdot(diagonal[:, None] * features, features @ inner) - 2 * (diagonal**3).sum()
    return (
        float(((signs @ features) ** 2).sum() - diagonal.sum()),
        2 * float(np.vdot(inner, inner) - diagonal @ diagonal),
        8 * float(np.vdot(inner @ inner, inner) - on_diagonal),
    )


def _tail(value: float, variance: float, third: float) -> float:
    """Chance of a value at least as large under a gamma distribution with mean 0 and these moments."""
    if variance <= np.finfo(float).tiny:
        return 1.0
    deviation = np.sqrt(variance)
    skewness = third / deviation**3
    if skewness < _LEAST_SKEWNESS:
        return float(ndtr(-value / deviation))
    shape = 4 / skewness**2
    return float(gammaincc(shape, max(0.0, shape + np.sqrt(shape) * value / deviation)))


def _combined(pvalues: FloatArray, weights: FloatArray) -> float:
    """Combine p-values by their weighted harmonic mean.

    1 / mean has Landau's distribution with scale pi / 2 and location log L + 0.874, where L is the number of p-values
    (here the perplexity of their weights).
    """
    from scipy.stats import landau

    location = 0.874 - float(weights @ np.log(weights))
    return float(landau.sf(weights @ (1 / np.maximum(pvalues, _SMALLEST)), loc=location, scale=np.pi / 2))
