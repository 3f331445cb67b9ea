r"""Many tests of conditional independence among the columns of one sample, each in closed form.

Searches for causal graphs ask thousands of times whether two columns are independent given others. The statistics are
those of `condcs.independence_test` with null="signs"; two things make them affordable here. Regressions are kept: of
tests with the same conditioning set, all share its designs, and those with a column in common its residuals. And
p-values need no resamples. Under random signs s a view of pairs of rows is :math:`Q = \sum_{i \ne j} s_i s_j k_{ij}`,
with

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

from condcs._core.arrays import FloatArray, RealArray
from condcs._core.settings import one_blas_thread
from condcs._inference.smoothing import Smoother, squared_distances
from condcs._inference.views import (
    Contrasts,
    Response,
    adjusted_response,
    dependence_contrasts,
    view_weights,
    wave_features,
)

_KEPT_BYTES = 2**28
"""Size of the regressions that are kept: of 1,000 rows those of some 40 conditioning sets."""

_SMALLEST = 1e-300

_CUBED = 128
"""Rows that the trace of the cube of a kernel is estimated by, if there are more."""


class ClosedForm(NamedTuple):
    """The p-value of all views together, and that of each."""

    pvalue: float
    pvalues: dict[str, float]


class RepeatedIndependence:
    """Tests of independence that keep their regressions; the least recently used ones make room for others.

    Cost of a test O(n^3) with a small factor: about 60 ms for 300 rows, half of that with known regressions. Memory 256
    MB for what is kept, and O(n^2).
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._bytes = 0

    def __call__(self, x: FloatArray, y: FloatArray, z: FloatArray | None = None) -> ClosedForm:
        """Test whether x and y (n x d each) are independent given z (n x d, or None); all are numbers."""
        # Without a condition, what a regression on a constant leaves is the deviation from the mean.
        x, y, z = (
            np.ascontiguousarray(np.zeros((len(x), 1)) if values is None else values, np.float64)
            for values in (x, y, z)
        )
        of_x, of_y, of_z = (blake2b(values.data, digest_size=16).hexdigest() for values in (x, y, z))
        smoother = self._once(lambda: Smoother(z, (False,) * z.shape[1]), "smoother", of_z)
        first, second = (
            self._once(partial(adjusted_response, v, (False,) * v.shape[1], smoother), "response", of_v, of_z)
            for v, of_v in ((x, of_x), (y, of_y))
        )
        # The same for every z.
        waves = self._once(lambda: wave_features(x, (False,) * x.shape[1]), "waves", of_x)
        left = self._once(lambda: smoother.residuals(waves)[0], "what is left of waves", of_x, of_z)
        return closed_form(dependence_contrasts(first, second, left, smoother))

    def _once(self, make: Callable[[], Any], *key: str) -> Any:
        """Return what was made of the data with this key."""
        if key not in self._kept:
            self._kept[key] = make()
            self._bytes += _size(self._kept[key])
            while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
        self._kept.move_to_end(key)
        return self._kept[key]


def _size(made: Smoother | Response | RealArray) -> int:
    """Bytes of the arrays that grow with the number of rows."""
    if isinstance(made, np.ndarray):
        return made.nbytes
    arrays = vars(made).values() if isinstance(made, Response) else (design.basis for design in made.designs)
    return sum(array.nbytes for array in arrays)


def closed_form(contrasts: Contrasts) -> ClosedForm:
    """Return the p-value of the views of random signs."""
    pvalues: dict[str, float] = {}
    assert contrasts.signs is not None
    signs = contrasts.signs
    for name, functions in contrasts.sums.items():
        pvalues[name] = _tail(*_moments_of_sums(functions, signs))
    for name, functions in contrasts.largest.items():
        pvalues[name] = min(1.0, functions.shape[1] * _normal_tail(float(_studentised(functions, signs).max())))
    numbers, grams = contrasts.smoother.numbers, {}
    with one_blas_thread():
        for name, (bandwidth, features) in contrasts.kernels.items():
            for own in features:
                if id(own) not in grams:
                    grams[id(own)] = own @ own.T
            kernel = grams[id(features[0])].copy()
            for own in features[1:]:
                kernel *= grams[id(own)]
            if np.isfinite(bandwidth):
                kernel *= np.exp(squared_distances(numbers, numbers) / (-2 * contrasts.unit * bandwidth**2))
            value = float(signs @ kernel @ signs - np.trace(kernel))
            np.fill_diagonal(kernel, 0.0)
            pvalues[name] = _tail(value, *_moments(kernel))
    weights = view_weights(list(pvalues))
    return ClosedForm(_combined(np.array(list(pvalues.values())), weights / weights.sum()), pvalues)


def _studentised(functions: RealArray, signs: RealArray) -> RealArray:
    """Squared sums of functions times signs in units of their variance under random signs."""
    return np.asarray((signs @ functions) ** 2 / np.maximum((functions**2).sum(axis=0), np.finfo(float).tiny))


def _moments_of_sums(functions: RealArray, signs: RealArray) -> tuple[float, float, float]:
    """Return a sum of squared sums without its mean, and its second and third moments under random signs."""
    scale = np.sqrt(np.maximum((functions**2).sum(axis=0), np.finfo(float).tiny))
    inner = (functions / scale).T @ (functions / scale)
    return float(_studentised(functions, signs).sum() - np.trace(inner)), 2 * float((inner**2).sum()), _cube(inner)


def _moments(kernel: FloatArray) -> tuple[float, float]:
    return 2 * float((kernel**2).sum()), _cube(kernel)


def _cube(matrix: FloatArray) -> float:
    """Return 8 times the trace of the cube; of a large matrix estimated by some of its rows, evenly spaced.

    It gives the skewness of a view, which need not be known to the last digit.
    """
    n = len(matrix)
    rows = slice(None) if n <= _CUBED else np.linspace(0, n - 1, _CUBED).astype(np.int64)
    some = matrix[rows]
    return 8 * n / len(some) * float(np.einsum("ij,ij->", some @ matrix, some))


def _tail(value: float, variance: float, third: float) -> float:
    """Chance of a value at least as large under a gamma distribution with mean 0 and these moments."""
    from scipy.special import gammaincc, ndtr

    if variance <= np.finfo(float).tiny:
        return 1.0
    deviation = np.sqrt(variance)
    skewness = third / deviation**3
    if skewness < 1e-3:
        return float(ndtr(-value / deviation))
    shape = 4 / skewness**2
    return float(gammaincc(shape, max(0.0, shape + np.sqrt(shape) * value / deviation)))


def _normal_tail(square: float) -> float:
    from scipy.special import ndtr

    return float(2 * ndtr(-np.sqrt(square)))


def _combined(pvalues: FloatArray, weights: FloatArray) -> float:
    """Combine p-values by their weighted harmonic mean.

    1 / mean has Landau's distribution with scale pi / 2 and location log L + 0.874, where L is the number of p-values
    (here the perplexity of their weights); its tail at x is close to 1 / (x - log x - location + 1).
    """
    x = float(weights @ (1 / np.maximum(pvalues, _SMALLEST)))
    location = 0.874 - float(weights @ np.log(weights))
    return float(1 / max(1.0, x - np.log(x) - location + 1))
