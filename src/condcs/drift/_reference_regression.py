"""The regression of y on x in the reference, whose residuals are compared instead of the responses.

Given x, a response and its residual determine each other, so that p(y|x) drifts if and only if that of the residual
does. But residuals hardly depend on x: a window whose inputs shift still looks like the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from condcs._core.thread_limit import one_blas_thread

FloatArray = np.ndarray[Any, Any]

FITTED_ROWS = 800
"""Largest number of rows on which the regression is fitted."""

_WIDTHS = (0.3, 0.6, 1.2)
_RIDGES = 10.0 ** np.arange(-3.0, 3.0, 0.5)
_LINEAR = 0.1
_FARTHEST = 5.0
_NORMAL_QUARTILES = 1.349
_NEGLIGIBLE = 1e-6


class KernelRegression(NamedTuple):
    """A kernel ridge regression with the sum of a Gaussian and a linear kernel.

    Attributes
    ----------
    centre, scale : array, shape (d_x,)
        Medians and spreads of the inputs; inputs are clipped at five spreads from the median.
    rows : array, shape (m, d_x)
        Inputs of the fitted rows, in these units.
    width : array, shape ()
        Bandwidth of the Gaussian kernel.
    coefficients : array, shape (m, d_y)
        Weights of the fitted rows.
    offset : array, shape (d_y,)
        Means of the responses.
    """

    centre: FloatArray
    scale: FloatArray
    rows: FloatArray
    width: FloatArray
    coefficients: FloatArray
    offset: FloatArray

    def predict(self, x: FloatArray) -> FloatArray:
        """Return the expected responses at the rows of x. Cost O(rows m)."""
        return np.asarray(self.offset + self._kernel(self._units(x)) @ self.coefficients)

    def _units(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.clip((x - self.centre) / self.scale, -_FARTHEST, _FARTHEST))

    def _kernel(self, units: FloatArray) -> FloatArray:
        inner = units @ self.rows.T
        squares = (units**2).sum(axis=1)[:, None] + (self.rows**2).sum(axis=1) - 2 * inner
        return np.asarray(np.exp(-0.5 * np.maximum(squares, 0.0) / self.width**2) + _LINEAR * inner)

    def check(self, dim_x: int, dim_y: int) -> None:
        """Raise a ValueError unless the arrays fit together."""
        m = len(self.rows)
        shapes = ((dim_x,), (dim_x,), (m, dim_x), (), (m, dim_y), (dim_y,))
        for name, array, shape in zip(self._fields, self, shapes, strict=True):
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"regression {name} of shape {array.shape} where {shape} is due")


def fit_regression(x: FloatArray, y: FloatArray, generator: np.random.Generator) -> tuple[KernelRegression, FloatArray]:
    """Fit at most 800 rows, drawn at random, and return the regression and the residuals of all rows.

    The residual of a fitted row is its leave-one-out residual, in closed form, which is as large as the residual of a
    new row. Bandwidth and ridge minimise the leave-one-out error. Columns that the regression explains up to rounding
    are not adjusted: their residuals would be rounding errors. Cost O(m^3 + n m).
    """
    fitted = np.sort(generator.permutation(len(x))[:FITTED_ROWS])
    deviation = x.std(axis=0)
    spread = np.subtract(*np.quantile(x, [0.75, 0.25], axis=0)) / _NORMAL_QUARTILES
    scale = np.where(spread > 0, spread, np.where(deviation > 0, deviation, 1.0))
    offset = y[fitted].mean(axis=0)
    empty = KernelRegression(
        np.median(x, axis=0), scale, np.empty((0, x.shape[1])), np.array(1.0), np.empty((0, y.shape[1])), offset
    )
    units = empty._units(x[fitted])
    centred = y[fitted] - offset
    weights = 1 / np.maximum(centred.var(axis=0), np.finfo(float).tiny)
    median = _median_distance(units)
    best, left, found = np.inf, centred, empty
    for factor in _WIDTHS:
        candidate = empty._replace(rows=units, width=np.array(factor * median))
        with one_blas_thread():
            spectrum, basis = np.linalg.eigh(candidate._kernel(units))
        spectrum = np.maximum(spectrum, 0.0)
        along = basis.T @ centred
        for ridge in _RIDGES:
            kept = 1 - (basis * basis) @ (spectrum / (spectrum + ridge))
            coefficients = basis @ (along / (spectrum + ridge)[:, None])
            residuals = ridge * coefficients / kept[:, None]
            error = float(np.sum(weights * residuals**2))
            if error < best:
                best, left, found = error, residuals, candidate._replace(coefficients=coefficients)
    exact = left.std(axis=0) <= _NEGLIGIBLE * centred.std(axis=0)
    found = found._replace(
        coefficients=np.where(exact, 0.0, found.coefficients), offset=np.where(exact, 0.0, found.offset)
    )
    others = np.setdiff1d(np.arange(len(x)), fitted)
    all_residuals = np.empty_like(y)
    all_residuals[fitted] = np.where(exact, y[fitted], left)
    # In pieces, so that the kernel matrix has at most 800 x 800 entries.
    for part in np.array_split(others, -(-len(others) // FITTED_ROWS) or 1):
        all_residuals[part] = y[part] - found.predict(x[part])
    return found, all_residuals


def _median_distance(rows: FloatArray) -> float:
    squares = (rows**2).sum(axis=1)
    distances = squares[:, None] + squares - 2 * (rows @ rows.T)
    positive = distances[distances > _NEGLIGIBLE]
    return float(np.sqrt(np.median(positive))) if len(positive) else 1.0


def regression_state(regression: KernelRegression) -> dict[str, FloatArray]:
    """Return the regression as plain arrays."""
    return {f"regression_{name}": array for name, array in regression._asdict().items()}


def regression_from(state: Mapping[str, FloatArray], dim_x: int, dim_y: int) -> KernelRegression:
    """Return the regression that `state` describes; a KeyError or ValueError if there is none."""
    made = KernelRegression(*(np.asarray(state[f"regression_{name}"], float) for name in KernelRegression._fields))
    made.check(dim_x, dim_y)
    return made
