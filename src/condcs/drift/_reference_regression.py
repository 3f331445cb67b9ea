"""The regression of a response on x in the reference, which can be evaluated at new rows.

Functions of x are a line and bumps along each column, and Gaussian bumps in all columns together, of several bandwidths
or none at all. Bandwidth and ridge penalty are chosen by cross-validation. Read `RegressionFitter` first. It knows
columns of numbers only, and neither labels nor scores; a new function of x is a block of columns in `function_rows`.

The directions of the ridge are those of `_inference.smoothing`. The fits made there would not do: they cannot be
evaluated at new rows, of which a stream consists, and leave out rows or clusters one by one, where neighbours in time
vouch for one another.
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
from condcs._regression.designs import principal_directions
from condcs._regression.standardised import median_square

LANDMARKS = 250
"""Largest number of bumps in all columns together; of a longer reference every tenth fitted row has one. Fitting costs
as the square of their number, and scoring a row of the stream as their number."""

_WIDTHS = (0.0, 1.2, 0.6, 0.3)
"""Bandwidths of these, in units of the median distance; 0 stands for none. Each halves the last: a relation that is
rougher than 0.3 medians has too few rows in each bump."""

_KNOTS = 8
"""Bumps along a column: four waves along it can be followed."""

_KNOT_LEVELS = 0.02, 0.98
"""Quantiles of the first and the last bump: at the outermost rows themselves, bumps would be fitted to a few of
them."""

_OVERLAP = 1.5
"""Bandwidth of the bumps along a column, in distances between them: neighbouring ones overlap, so that their sum can be
smooth."""

_RIDGES = 10.0 ** np.arange(-3.0, 4.0, 0.5)
"""Penalties, beside which the squared length of a function is about the number of rows; half a decade changes a fit
little."""

_LARGEST_INPUT = 3.0
"""Inputs are clipped so many spreads from the median: beyond it a line would go on, and there are few rows to tell."""

_NORMAL_QUARTILES = 1.349
"""Interquartile range of a normal variable of deviation 1."""

_GAIN = 0.995
"""A richer fit must reduce the error by this factor: of two nearly equal ones the simpler is kept."""

_PARTS = 6
"""Parts of the rows, contiguous in time, each of which is left out of a fit. Five sixths of the rows fit nearly as well
as all do, and six fits cost less than ten."""


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
        regression = cls(*(stored(state, f"{part}_{name}") for name in cls._fields))
        k, m = regression.knots.shape[-1], len(regression.landmarks)
        p = dim + k * int(np.sum(regression.widths > 0)) + m
        shapes = [(dim,), (dim,), (dim, k), (dim,), (m, dim), (), (p,), (p, targets), (targets,)]
        if [array.shape for array in regression] != shapes:
            raise ValueError(f"a regression of {part} whose arrays do not fit")
        return regression


@njit(nogil=True)
def function_rows(x: Any, regression: Any) -> Any:
    """Return the functions (n, p) at the rows of x: the columns, Gaussians along them, and around landmarks."""
    n, d = x.shape
    knots, landmarks = regression.knots, regression.landmarks
    n_curved = 0  # columns with bumps along them
    for c in range(d):
        n_curved += regression.widths[c] > 0
    functions = np.empty((n, d + knots.shape[1] * n_curved + len(landmarks)))
    for t in range(n):
        for c in range(d):
            unit = (x[t, c] - regression.centre[c]) / regression.scale[c]
            functions[t, c] = min(max(unit, -_LARGEST_INPUT), _LARGEST_INPUT)
        column = d
        for c in range(d):
            if regression.widths[c] > 0:
                for k in range(knots.shape[1]):
                    step = (functions[t, c] - knots[c, k]) / regression.widths[c]
                    functions[t, column] = math.exp(-0.5 * step * step)
                    column += 1
        for m in range(len(landmarks)):
            square = 0.0
            for c in range(d):
                square += (functions[t, c] - landmarks[m, c]) ** 2
            functions[t, column + m] = math.exp(-0.5 * square / regression.width[()] ** 2)
    return functions


@njit(nogil=True)
def predict_rows(x: Any, regression: Any) -> Any:
    """Return the expected targets (n, t) at the rows of x (n, d).

    Row by row, because a product of matrices would round differently for other numbers of rows.
    """
    coefficients = regression.coefficients
    expected = np.empty((len(x), coefficients.shape[1]))
    if coefficients.shape[1] == 0:
        return expected
    functions = function_rows(x, regression)
    for t in range(len(x)):
        for target in range(expected.shape[1]):
            expected[t, target] = regression.offset[target]
        for p in range(len(regression.means)):
            value = functions[t, p] - regression.means[p]
            for target in range(expected.shape[1]):
                expected[t, target] += value * coefficients[p, target]
    return expected


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
        # Inputs (n, d) in units of their spread: of most rows, so that outliers have no say.
        deviation = x.std(axis=0)
        spread = np.subtract(*np.quantile(x, [0.75, 0.25], axis=0)) / _NORMAL_QUARTILES
        scale = np.where(spread > 0, spread, np.where(deviation > 0, deviation, 1.0))
        centre = np.median(x, axis=0)
        units = np.clip((x - centre) / scale, -_LARGEST_INPUT, _LARGEST_INPUT)
        # Bumps along each column. In C order, as the knots of a single input are: numba compiles all loops once more
        # for another order.
        knots = np.ascontiguousarray(np.quantile(units, np.linspace(*_KNOT_LEVELS, _KNOTS), axis=0).T)
        has_several_values = np.array([len(np.unique(column)) > 2 for column in units.T])
        widths = np.where(has_several_values, _OVERLAP * np.ptp(knots, axis=1) / _KNOTS, 0.0)
        # Bumps around rows that are evenly spaced in time.
        chosen = np.unique(np.linspace(0, len(x) - 1, min(LANDMARKS, len(x))).astype(np.int64))
        median = np.sqrt(median_square(cdist(units[chosen], units[chosen], "sqeuclidean")))
        none = np.zeros(0)
        self._parts = np.arange(len(x)) * _PARTS // len(x)
        self._designs = []
        for factor in _WIDTHS:
            landmarks, width = (units[chosen], factor * median) if factor else (units[:0], 1.0)
            empty = Regression(centre, scale, knots, widths, landmarks, np.array(width), none, none[:, None], none)
            functions = np.asarray(function_rows(x, empty))
            # All rows but those of each part, and all rows.
            subsets = [self._parts != part for part in range(_PARTS)] + [np.ones(len(x), bool)]
            with one_blas_thread():
                self._designs.append((empty, functions, [_decompose(functions[rows]) for rows in subsets]))

    def fit(self, targets: FloatArray) -> tuple[Regression, FloatArray]:
        """Return the regression of targets (n, t), and for each row what the fit without its part leaves (n, t)."""
        # Errors of every target count in units of its variance.
        weights = 1 / np.maximum(targets.var(axis=0), np.finfo(float).tiny)
        least_error, best_design, best_ridge, left_out_residuals = np.inf, 0, 0, targets
        with one_blas_thread():
            for design, (_, functions, decompositions) in enumerate(self._designs):
                residuals = np.empty((len(_RIDGES), *targets.shape))
                for part in range(_PARTS):
                    rows = self._parts == part
                    fits = _solve(decompositions[part], targets[~rows])
                    for r, (means, coefficients, offset) in enumerate(fits):
                        residuals[r, rows] = targets[rows] - (functions[rows] - means) @ coefficients - offset
                errors = (weights * residuals**2).sum(axis=(1, 2))  # (ridges,)
                r = int(np.argmin(errors))
                if errors[r] < _GAIN * least_error:
                    least_error, best_design, best_ridge, left_out_residuals = float(errors[r]), design, r, residuals[r]
            empty, _, decompositions = self._designs[best_design]
            means, coefficients, offset = _solve(decompositions[-1], targets)[best_ridge]
        return empty._replace(means=means, coefficients=coefficients, offset=offset), left_out_residuals


class _Decomposition(NamedTuple):
    """Functions of some rows along their principal directions."""

    means: FloatArray  # (p,), of the functions
    spectrum: FloatArray  # (k,), squared lengths
    directions: FloatArray  # (p, k)
    along: FloatArray  # (n, k), centred values


def _decompose(functions: FloatArray) -> _Decomposition:
    means, spectrum, directions = principal_directions(functions)
    return _Decomposition(means, spectrum, directions, (functions - means) @ directions)


def _solve(part: _Decomposition, targets: FloatArray) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Return means of the functions (p,), coefficients (p, t) and offsets (t,) for every ridge penalty."""
    offset = targets.mean(axis=0)
    products = part.along.T @ (targets - offset)  # (k, t)
    return [(part.means, part.directions @ (products / (part.spectrum + ridge)[:, None]), offset) for ridge in _RIDGES]
