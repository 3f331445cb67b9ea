r"""Regression on x without a choice of model: several designs, ridge penalties, and leave-one-out to choose among them.

A design is a set of functions of x: splines of every column; these and the products of columns; Gaussian bumps of
several bandwidths. Every target is regressed on each of them with each of several ridge penalties, and the fit with the
smallest leave-one-out error is kept, which linear smoothers give in closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from condcs._core.thread_limit import one_blas_thread

FloatArray = np.ndarray[Any, Any]

LANDMARKS = 150
"""Centres of the Gaussian bumps."""

BANDWIDTHS = (1.0, 0.35, 0.12)
"""Bandwidths of the bumps, in units of the median distance between rows. The narrowest one is for a single column."""

_PENALTIES = 10.0 ** np.arange(-3.0, 4.01, 0.5)
_KNOTS, _ROWS_PER_KNOT = 8, 8
_FEW_VALUES = 8
"""Columns of numbers with no more distinct values than this also get an indicator for each: no room for a spline."""
_MOST_PRODUCTS = 500
_OTHER_CATEGORY = 0.15
"""Value of the kernel between two categories: bumps borrow a little strength from the other categories."""
MOST_FREEDOM = 1 / 3
"""Largest degrees of freedom of a fit, as a share of the rows. Where a fit all but passes through every row, what the
closed form says of a row left out is a quotient of rounding errors."""
_GAIN = 0.999
"""A later design must reduce the error by this factor: of two equal ones the simpler is kept."""
_LEAST_LEFT = 0.05
_SMALLEST_EIGENVALUE = 1e-9


@dataclass(frozen=True)
class Design:
    """Functions of x on all rows, as orthonormal columns and the squared length of the functions along each.

    Attributes
    ----------
    name : str
        Which functions they are.
    basis : array, shape (n, p)
        Orthonormal columns, orthogonal to a constant.
    spectrum : array, shape (p,)
        Squared lengths, in decreasing order of nothing in particular; the ridge penalty is relative to them.
    """

    name: str
    basis: FloatArray
    spectrum: FloatArray

    @classmethod
    def of(cls, name: str, functions: FloatArray) -> Design:
        """Centre the functions and find their principal directions."""
        centred = functions - functions.mean(axis=0)
        n, p = centred.shape
        if p < n:
            spectrum, turn = np.linalg.eigh(centred.T @ centred)
            kept = spectrum > _SMALLEST_EIGENVALUE * max(spectrum[-1], np.finfo(float).tiny)
            return cls(name, centred @ (turn[:, kept] / np.sqrt(spectrum[kept])), spectrum[kept])
        spectrum, basis = np.linalg.eigh(centred @ centred.T)
        kept = spectrum > _SMALLEST_EIGENVALUE * max(spectrum[-1], np.finfo(float).tiny)
        return cls(name, np.ascontiguousarray(basis[:, kept]), spectrum[kept])

    @property
    def functions(self) -> FloatArray:
        """The functions along the principal directions, with their lengths."""
        return np.asarray(self.basis * np.sqrt(self.spectrum))


class Smoother:
    """Regressions of any targets on x.

    Parameters
    ----------
    x : array, shape (n, d), float64
        Inputs of all rows, labels coded as numbers.
    categorical : sequence of bool
        Which columns are labels.
    """

    def __init__(self, x: FloatArray, categorical: Sequence[bool]) -> None:
        flags = np.asarray(categorical, bool)
        self.numbers = in_deviations(x[:, ~flags])
        self.categories = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in x[:, flags].T]
        self.rows = len(x)
        with one_blas_thread():
            self.designs = [Design.of(name, functions) for name, functions in self._functions()]

    @property
    def indicators(self) -> list[FloatArray]:
        """Indicator columns of each label column, one per category."""
        return [(codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64) for codes in self.categories]

    def residuals(self, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the best regression of each column leaves, and the same with each row left out of the fit."""
        n = self.rows
        targets = targets - targets.mean(axis=0)
        left, left_out = targets.copy(), targets * (n / (n - 1))
        smallest = (left_out**2).sum(axis=0)
        with one_blas_thread():
            for design in self.designs:
                along = design.basis.T @ targets
                squares = design.basis**2
                for penalty in _PENALTIES:
                    shrinkage = design.spectrum / (design.spectrum + penalty)
                    if shrinkage.sum() > MOST_FREEDOM * n:
                        continue
                    here = targets - design.basis @ (shrinkage[:, None] * along)
                    leverage = 1 / n + squares @ shrinkage
                    deleted = here / np.maximum(1 - leverage, _LEAST_LEFT)[:, None]
                    error = (deleted**2).sum(axis=0)
                    better = error < _GAIN * smallest
                    smallest[better], left[:, better], left_out[:, better] = (
                        error[better],
                        here[:, better],
                        deleted[:, better],
                    )
        return left, left_out

    def _functions(self) -> list[tuple[str, FloatArray]]:
        x, n = self.numbers, self.rows
        indicators = [block[:, 1:] for block in self.indicators]
        splines = self._splines()
        additive = [*([x] if x.shape[1] else []), *splines, *indicators]
        blocks: list[FloatArray] = [x[:, [j]] for j in range(x.shape[1])] + indicators
        products = [(a[:, :, None] * b[:, None, :]).reshape(n, -1) for a, b in combinations(blocks, 2)]
        # Where there is room, each category has splines of its own.
        curved = [(a[:, :, None] * s[:, None, :]).reshape(n, -1) for a in indicators for s in splines]
        if sum(p.shape[1] for p in (*products, *curved)) <= min(n // 4, _MOST_PRODUCTS):
            products += curved
        found = [("additive", in_deviations(np.hstack(additive)))]
        if products and sum(p.shape[1] for p in products) <= _MOST_PRODUCTS:
            found.append(("products", in_deviations(np.hstack([*additive, *products]))))
        if x.shape[1]:
            bandwidths = BANDWIDTHS if x.shape[1] == 1 else BANDWIDTHS[:-1]
            found += [(f"bumps of {b:g} medians", self._bumps(b)) for b in bandwidths]
        return found

    def _splines(self) -> list[FloatArray]:
        from sklearn.preprocessing import SplineTransformer

        n, d = self.numbers.shape
        count = int(np.clip(n // (_ROWS_PER_KNOT * max(d, 1)), 3, _KNOTS))
        found = []
        for column in self.numbers.T:
            values = np.unique(column)
            if len(values) <= _FEW_VALUES:
                found.append((column[:, None] == values[1:]).astype(np.float64))
                continue
            knots = np.unique(np.quantile(column, np.linspace(0, 1, count)))
            if len(knots) > 2:
                spline = SplineTransformer(knots=knots[:, None], degree=3, include_bias=False, extrapolation="linear")
                found.append(spline.fit_transform(column[:, None]))
        return [block for block in found if block.shape[1]]

    def _bumps(self, bandwidth: float) -> FloatArray:
        x, n = self.numbers, self.rows
        landmarks = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).astype(np.int64))
        squared = squared_distances(x, x[landmarks])
        gram = np.exp(-squared / (2 * median_square(squared) * bandwidth**2))
        for codes in self.categories:
            gram *= np.where(codes[:, None] == codes[landmarks], 1.0, _OTHER_CATEGORY)
        spectrum, turn = np.linalg.eigh(gram[landmarks])
        kept = spectrum > 1e-7 * spectrum[-1]
        bumps = gram @ (turn[:, kept] / np.sqrt(spectrum[kept]))
        # All bumps together weigh as much as so many columns of variance 1, so that penalties mean the same.
        bumps *= np.sqrt(n * bumps.shape[1] / (bumps**2).sum())
        return np.hstack([x, bumps])


def in_deviations(x: FloatArray) -> FloatArray:
    """Columns centred, in units of their standard deviations; constant ones are 0."""
    scaled = x / np.maximum(np.abs(x).max(axis=0, initial=0.0), np.finfo(float).tiny)
    centred = scaled - scaled.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(np.where(deviation > 1e-14, centred / np.maximum(deviation, 1e-14), 0.0))


def squared_distances(a: FloatArray, b: FloatArray) -> FloatArray:
    """Squared Euclidean distances between the rows of two arrays."""
    return np.asarray(np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * (a @ b.T), 0.0))


def median_square(squared: FloatArray) -> float:
    """Median of the squared distances that are more than rounding errors, 1 if there are none."""
    apart = squared[squared > 1e-12 * squared.max(initial=0.0)]
    return float(np.median(apart)) if len(apart) else 1.0
