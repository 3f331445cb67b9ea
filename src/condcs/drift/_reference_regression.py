"""The regression of a response on x in the reference, which can be evaluated at new rows.

Functions of x are a line and bumps along each column, and Gaussian bumps in all columns together, of several bandwidths
or none at all. Bandwidth and ridge penalty are chosen by cross-validation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.compiling import njit
from condcs._core.settings import one_blas_thread
from condcs._inference.smoothing import median_square

LANDMARKS = 250
"""Largest number of bumps in all columns together."""

_WIDTHS = (0.0, 1.2, 0.6, 0.3)
"""Bandwidths of these, in units of the median distance; 0 stands for none."""
_KNOTS = 8
_RIDGES = 10.0 ** np.arange(-3.0, 4.0, 0.5)
_FARTHEST = 3.0
_NORMAL_QUARTILES = 1.349
_GAIN = 0.995
"""A richer fit must reduce the error by this factor."""
_SMALLEST_EIGENVALUE = 1e-9
_PARTS = 6


class Regression(NamedTuple):
    """A ridge regression of t targets on p functions of x."""

    # Medians and spreads of the inputs; inputs are clipped three spreads beyond the median.
    centre: FloatArray  # (d,)
    scale: FloatArray  # (d,)
    # Centres of the bumps along each column, in these units, and bandwidths: 0 for columns of two values.
    knots: FloatArray  # (d, k)
    widths: FloatArray  # (d,)
    # Centres of the bumps in all columns, in these units, and their bandwidth.
    landmarks: FloatArray  # (m, d)
    width: FloatArray  # ()
    # Means of the functions, their weights for each target, and means of the targets.
    means: FloatArray  # (p,)
    coefficients: FloatArray  # (p, t)
    offset: FloatArray  # (t,)

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the expected targets at the rows of x."""
        return np.asarray(predict_rows(x, self))

    @classmethod
    def from_state(cls, state: Mapping[str, AnyArray], part: str, dim: int, targets: int) -> Regression:
        """Return the arrays of a part of a saved state; a KeyError or ValueError unless they fit together."""
        made = cls(*(stored(state, f"{part}_{name}") for name in cls._fields))
        k, m = made.knots.shape[-1], len(made.landmarks)
        p = dim + k * int(np.sum(made.widths > 0)) + m
        shapes = [(dim,), (dim,), (dim, k), (dim,), (m, dim), (), (p,), (p, targets), (targets,)]
        if [array.shape for array in made] != shapes:
            raise ValueError(f"a regression of {part} whose arrays do not fit")
        return made


@njit(nogil=True)
def function_rows(x: Any, regression: Any) -> Any:
    """Return the functions (n, p) at the rows of x: the columns, Gaussians along them, and around landmarks."""
    n, d = x.shape
    knots, landmarks = regression.knots, regression.landmarks
    curved = 0
    for c in range(d):
        curved += regression.widths[c] > 0
    found = np.empty((n, d + knots.shape[1] * curved + len(landmarks)))
    for t in range(n):
        for c in range(d):
            unit = (x[t, c] - regression.centre[c]) / regression.scale[c]
            found[t, c] = min(max(unit, -_FARTHEST), _FARTHEST)
        place = d
        for c in range(d):
            if regression.widths[c] > 0:
                for k in range(knots.shape[1]):
                    step = (found[t, c] - knots[c, k]) / regression.widths[c]
                    found[t, place] = math.exp(-0.5 * step * step)
                    place += 1
        for m in range(len(landmarks)):
            square = 0.0
            for c in range(d):
                square += (found[t, c] - landmarks[m, c]) ** 2
            found[t, place + m] = math.exp(-0.5 * square / regression.width[()] ** 2)
    return found


@njit(nogil=True)
def predict_rows(x: Any, regression: Any) -> Any:
    """Return the expected targets (n, t) at the rows of x.

    Row by row, because a product of matrices would round differently for other numbers of rows.
    """
    coefficients = regression.coefficients
    found = np.empty((len(x), coefficients.shape[1]))
    if coefficients.shape[1] == 0:
        return found
    functions = function_rows(x, regression)
    for t in range(len(x)):
        for target in range(found.shape[1]):
            found[t, target] = regression.offset[target]
        for place in range(len(regression.means)):
            value = functions[t, place] - regression.means[place]
            for target in range(found.shape[1]):
                found[t, target] += value * coefficients[place, target]
    return found


def stored(state: Mapping[str, AnyArray], name: str) -> FloatArray:
    """Return an array of a saved state; a KeyError or ValueError unless it holds finite numbers."""
    array = np.asarray(state[name])
    if array.dtype.kind not in "fi" or not np.isfinite(array).all():
        raise ValueError(f"{name} of type {array.dtype}, or not finite")
    return array.astype(np.float64)


class RegressionFitter:
    """Regressions of any targets on the same x, in the order of time.

    Bandwidth and ridge penalty are those with the smallest error in six parts of the rows, contiguous in time, each of
    which is left out in turn. Single rows left out would not do: where rows depend on their neighbours, the best fit
    follows these. Cost O(n p^2 + p^3) for p functions, of which there are at most 9 for each column and 250.
    """

    def __init__(self, x: FloatArray) -> None:
        deviation = x.std(axis=0)
        spread = np.subtract(*np.quantile(x, [0.75, 0.25], axis=0)) / _NORMAL_QUARTILES
        scale = np.where(spread > 0, spread, np.where(deviation > 0, deviation, 1.0))
        centre = np.median(x, axis=0)
        units = np.clip((x - centre) / scale, -_FARTHEST, _FARTHEST)
        # In C order, as the knots of a single input are: numba compiles all loops once more for another order.
        knots = np.ascontiguousarray(np.quantile(units, np.linspace(0.02, 0.98, _KNOTS), axis=0).T)
        several = np.array([len(np.unique(column)) > 2 for column in units.T])
        widths = np.where(several, 1.5 * np.ptp(knots, axis=1) / _KNOTS, 0.0)
        chosen = np.unique(np.linspace(0, len(x) - 1, min(LANDMARKS, len(x))).astype(np.int64))
        median = np.sqrt(median_square(cdist(units[chosen], units[chosen], "sqeuclidean")))
        none = np.zeros(0)
        self._parts = np.arange(len(x)) * _PARTS // len(x)
        self._designs = []
        for factor in _WIDTHS:
            landmarks, width = (units[chosen], factor * median) if factor else (units[:0], 1.0)
            empty = Regression(centre, scale, knots, widths, landmarks, np.array(width), none, none[:, None], none)
            functions = np.asarray(function_rows(x, empty))
            rows = [self._parts != part for part in range(_PARTS)] + [np.ones(len(x), bool)]
            with one_blas_thread():
                self._designs.append((empty, functions, [_decompose(functions[own]) for own in rows]))

    def fit(self, targets: FloatArray) -> tuple[Regression, FloatArray]:
        """Return the regression, and for each row what the fit without its part leaves."""
        weights = 1 / np.maximum(targets.var(axis=0), np.finfo(float).tiny)
        best, chosen, left = np.inf, (0, 0), targets
        with one_blas_thread():
            for place, (_, functions, parts) in enumerate(self._designs):
                residuals = np.empty((len(_RIDGES), *targets.shape))
                for part in range(_PARTS):
                    own = self._parts == part
                    for r, (means, coefficients, offset) in enumerate(_solve(parts[part], targets[~own])):
                        residuals[r, own] = targets[own] - (functions[own] - means) @ coefficients - offset
                errors = (weights * residuals**2).sum(axis=(1, 2))
                r = int(np.argmin(errors))
                if errors[r] < _GAIN * best:
                    best, chosen, left = float(errors[r]), (place, r), residuals[r]
            empty, _, parts = self._designs[chosen[0]]
            means, coefficients, offset = _solve(parts[-1], targets)[chosen[1]]
        return empty._replace(means=means, coefficients=coefficients, offset=offset), left


_Decomposition = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


def _decompose(functions: FloatArray) -> _Decomposition:
    """Return the functions' means, spectrum, principal directions, and values along these."""
    means = functions.mean(axis=0)
    centred = functions - means
    spectrum, turn = np.linalg.eigh(centred.T @ centred)
    kept = spectrum > _SMALLEST_EIGENVALUE * max(float(spectrum[-1]), np.finfo(float).tiny)
    return means, spectrum[kept], turn[:, kept], centred @ turn[:, kept]


def _solve(part: _Decomposition, targets: FloatArray) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Return means of the functions, coefficients and offsets for every ridge penalty."""
    means, spectrum, turn, along = part
    offset = targets.mean(axis=0)
    products = along.T @ (targets - offset)
    return [(means, turn @ (products / (spectrum + ridge)[:, None]), offset) for ridge in _RIDGES]
