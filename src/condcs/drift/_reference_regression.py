"""The regression of a response on x in the reference, which can be evaluated at new rows.

Functions of x are a line and bumps along each column, and Gaussian bumps in all columns together, of several bandwidths
or none at all. Bandwidth and ridge penalty are chosen by cross-validation. Read `RegressionFitter` first. It knows
columns of numbers only, and neither labels nor scores; a new function of x is a block of columns in `function_rows`.

The directions of the ridge are those of `condcs._regression`. The fits made there would not do: they cannot be
evaluated at new rows, of which a stream consists, and leave out rows or clusters one by one, where neighbours in time
vouch for one another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from condcs._core.arrays import AnyArray, FloatArray, evenly_spaced
from condcs._core.compiling import njit
from condcs._core.settings import one_blas_thread
from condcs._regression.designs import principal_directions
from condcs._regression.standardised import median_square

MOST_LANDMARKS = 250
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

_FOLDS = 6
"""Folds of the rows, contiguous in time, each of which is left out of a fit. Five sixths of the rows fit nearly as well
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
    def from_state(cls, state: Mapping[str, AnyArray], prefix: str, dim: int, n_targets: int) -> Regression:
        """Return the arrays of a saved state with a prefix; a KeyError or ValueError unless they fit together."""
        regression = cls(*(stored_numbers(state, f"{prefix}_{name}") for name in cls._fields))
        k, m = regression.knots.shape[-1], len(regression.landmarks)
        p = dim + k * int(np.sum(regression.widths > 0)) + m
        shapes = {
            "centre": (dim,),
            "scale": (dim,),
            "knots": (dim, k),
            "widths": (dim,),
            "landmarks": (m, dim),
            "width": (),
            "means": (p,),
            "coefficients": (p, n_targets),
            "offset": (n_targets,),
        }
        if {name: array.shape for name, array in regression._asdict().items()} != shapes:
            raise ValueError(f"a regression of {prefix} whose arrays do not fit")
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
    for i in range(n):
        for c in range(d):
            unit = (x[i, c] - regression.centre[c]) / regression.scale[c]
            functions[i, c] = min(max(unit, -_LARGEST_INPUT), _LARGEST_INPUT)
        column = d
        for c in range(d):
            if regression.widths[c] > 0:
                for k in range(knots.shape[1]):
                    step = (functions[i, c] - knots[c, k]) / regression.widths[c]
                    functions[i, column] = math.exp(-0.5 * step * step)
                    column += 1
        for m in range(len(landmarks)):
            square = 0.0
            for c in range(d):
                square += (functions[i, c] - landmarks[m, c]) ** 2
            functions[i, column + m] = math.exp(-0.5 * square / regression.width[()] ** 2)
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
    for i in range(len(x)):
        for target in range(expected.shape[1]):
            expected[i, target] = regression.offset[target]
        for p in range(len(regression.means)):
            value = functions[i, p] - regression.means[p]
            for target in range(expected.shape[1]):
                expected[i, target] += value * coefficients[p, target]
    return expected


def stored_numbers(state: Mapping[str, AnyArray], name: str) -> FloatArray:
    """Return an array of a saved state; a KeyError or ValueError unless it holds finite numbers."""
    array = np.asarray(state[name])
    if array.dtype.kind not in "fi" or not np.isfinite(array).all():
        raise ValueError(f"{name} of type {array.dtype}, or not finite")
    return array.astype(np.float64)


class RegressionFitter:
    """Regressions of any targets on the same x, in the order of time.

    Bandwidth and ridge penalty are those with the smallest error in six folds of the rows, contiguous in time, each of
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
        landmarks = units[evenly_spaced(len(x), MOST_LANDMARKS)]
        median = np.sqrt(median_square(cdist(landmarks, landmarks, "sqeuclidean")))

        self._folds = np.arange(len(x)) * _FOLDS // len(x)  # (n,), the fold of each row
        no_functions = np.zeros(0)
        self._designs = []
        for factor in _WIDTHS:
            empty = Regression(
                centre=centre,
                scale=scale,
                knots=knots,
                widths=widths,
                landmarks=landmarks if factor else landmarks[:0],
                width=np.array(factor * median if factor else 1.0),
                means=no_functions,
                coefficients=no_functions[:, None],
                offset=no_functions,
            )
            functions = np.asarray(function_rows(x, empty))
            # All rows but those of each fold, and all rows.
            subsets = [*(self._folds != fold for fold in range(_FOLDS)), np.ones(len(x), bool)]
            with one_blas_thread():
                decompositions = [_decompose(functions[rows]) for rows in subsets]
            self._designs.append(_Design(empty, functions, decompositions[:-1], decompositions[-1]))

    def fit(self, targets: FloatArray) -> tuple[Regression, FloatArray]:
        """Return the regression of targets (n, t), and for each row what the fit without its fold leaves (n, t)."""
        # Errors of every target count in units of its variance.
        weights = 1 / np.maximum(targets.var(axis=0), np.finfo(float).tiny)
        least_error, best_design, best_ridge, left_out_residuals = np.inf, self._designs[0], 0, targets
        with one_blas_thread():
            for design in self._designs:
                residuals = self._left_out_residuals(design, targets)  # (ridges, n, t)
                errors = (weights * residuals**2).sum(axis=(1, 2))  # (ridges,)
                ridge = int(np.argmin(errors))
                if errors[ridge] < _GAIN * least_error:
                    least_error, best_design, best_ridge = float(errors[ridge]), design, ridge
                    left_out_residuals = residuals[ridge]
            coefficients, offset = _solve(best_design.of_all_rows, targets)
        regression = best_design.empty._replace(
            means=best_design.of_all_rows.means, coefficients=coefficients[best_ridge], offset=offset
        )
        return regression, left_out_residuals

    def _left_out_residuals(self, design: _Design, targets: FloatArray) -> FloatArray:
        """Return the residuals of each row by the fit without its fold, for every ridge penalty (ridges, n, t)."""
        residuals = np.empty((len(_RIDGES), *targets.shape))
        for fold, others in enumerate(design.without_fold):
            rows = self._folds == fold
            centred = design.functions[rows] - others.means
            coefficients, offset = _solve(others, targets[~rows])
            for ridge, of_ridge in enumerate(coefficients):
                residuals[ridge, rows] = targets[rows] - centred @ of_ridge - offset
        return residuals


class _Decomposition(NamedTuple):
    """Functions of some rows along their v principal directions."""

    means: FloatArray  # (p,), of the functions
    spectrum: FloatArray  # (v,), squared lengths
    directions: FloatArray  # (p, v)
    along: FloatArray  # (n, v), centred values


class _Design(NamedTuple):
    """Functions of x with bumps of one bandwidth."""

    empty: Regression  # without means, coefficients and offset
    functions: FloatArray  # (n, p)
    without_fold: list[_Decomposition]  # of all rows but those of each fold
    of_all_rows: _Decomposition


def _decompose(functions: FloatArray) -> _Decomposition:
    means, spectrum, directions = principal_directions(functions)
    return _Decomposition(means, spectrum, directions, (functions - means) @ directions)


def _solve(rows: _Decomposition, targets: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Return the coefficients of the centred functions (p, t) for every ridge penalty, and the offsets (t,)."""
    offset = targets.mean(axis=0)
    products = rows.along.T @ (targets - offset)  # (v, t)
    coefficients = [rows.directions @ (products / (rows.spectrum + ridge)[:, None]) for ridge in _RIDGES]
    return coefficients, offset
