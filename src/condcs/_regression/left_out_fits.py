"""Linear fits at all rows of a pool, each unit left out of its own, that follow changes of the rows' weights.

A regression of one sample is needed at the rows of both samples. Where rows are drawn again, their weights change, and
the fit with them, to first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray, RealArray
from condcs._regression.designs import Design
from condcs._regression.ridge import ClusterMeans, left_out, ridge_shrinkages

_FINER_PENALTIES = 10.0 ** np.arange(-3.0, 4.01, 0.5)
"""Penalties of least squares, in ascending order, half a decade apart. `RIDGE_PENALTIES` are coarser: in a test, a
factor of three in a penalty changes nothing."""

_NEGLIGIBLE = 1e-9
"""Part of the largest squared length below which a direction of the functions is made of rounding errors."""


class Units:
    """What is drawn, and left out, as a whole: rows, or the clusters 0, 1, ... that they belong to."""

    def __init__(self, rows: int, clusters: IntArray | None = None) -> None:
        self.means = None if clusters is None else ClusterMeans(clusters)
        self.unit_of_row = np.arange(rows) if clusters is None else clusters  # (n,)
        self.n_units = rows if self.means is None else len(self.means.row_counts)

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum columns over the rows of each unit."""
        return values if self.means is None else np.asarray(self.means.sums @ values)

    def of_rows(self, values: FloatArray) -> FloatArray:
        """Return values of the units at each of their rows."""
        return values if self.means is None else np.asarray(values[self.means.cluster_of_row])

    def left_out(self, residuals: FloatArray, basis: RealArray, shrinkages: FloatArray) -> FloatArray:
        """Return residuals of ridge regressions (rows x penalties) with each unit left out of the fit.

        The basis is orthonormal over these rows.
        """
        n = len(basis)
        leverage = 1 / n + basis**2 @ shrinkages  # (rows, penalties)
        if self.means is None:
            return left_out(residuals, leverage)
        mean_of_hat = 1 / n + self.means(basis) ** 2 @ shrinkages  # (units, penalties)
        return left_out(residuals, leverage, self.means, mean_of_hat)

    def among(self, rows: BoolArray) -> Units:
        """Return the units of some rows, given as flags."""
        return Units(int(rows.sum()), None if self.means is None else self.unit_of_row[rows])


@dataclass(frozen=True, eq=False)
class LeftOutFit:
    """A linear fit at all rows, each unit left out of its own, and what it would be with other weights of the rows."""

    values: FloatArray  # (n,): the fit
    # If the weights of the rows change by v, the fit changes by ``directions @ (pulls.T @ v)``, to first order.
    directions: FloatArray  # (n, p): along what it can move
    pulls: FloatArray  # (n, p): how far a weight of 1 more moves it along these; 0 outside the sample
    units: Units  # what is left out as a whole
    # No fit leaves these: the range of the target. Beyond the rows of a sample a regression may go anywhere, and at a
    # row far from all others to first order as well.
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def redrawn(self, change: FloatArray) -> FloatArray:
        """Return the fit (n x B) for changes of the weights (n x B), without what a unit's own weight changes of it."""
        fits = self.directions @ (self.pulls.T @ change)
        fits -= self._self_influence[:, None] * change
        fits += self.values[:, None]
        return np.asarray(np.clip(fits, *self.bounds, out=fits))

    @cached_property
    def _self_influence(self) -> FloatArray:
        """By how much the fit at a row would change with the weight of the row's own unit (n,)."""
        pulls_of_units = self.units.of_rows(self.units.sums(self.pulls))  # (n, p)
        return np.asarray(np.einsum("ij,ij->i", self.directions, pulls_of_units))


def left_out_error(design: Design, targets: FloatArray, units: Units) -> float:
    """Return the sum of squared errors of ridge regressions of targets (n x c), each unit left out of its own fit.

    Each target has the penalty that is best for it.
    """
    centred = targets - targets.mean(axis=0)
    shrinkages = _shrinkages(design.spectrum, units.n_units)  # (p, penalties)
    total = 0.0
    for target, along in zip(centred.T, (design.basis.T @ centred).T, strict=True):
        residuals = target[:, None] - design.basis @ (shrinkages * along[:, None])
        total += float((units.left_out(residuals, design.basis, shrinkages) ** 2).sum(axis=0).min())
    return total


def ridge_of_sample(functions: RealArray, target: FloatArray, sample: BoolArray, units: Units) -> LeftOutFit:
    """Regress a target (n) on functions of x (n x p) over the rows of a sample; the fit is at all rows."""
    level = float(target[sample].mean())
    functions = functions - functions[sample].mean(axis=0)
    centred = target[sample] - level
    # Directions of the functions that are orthonormal over the sample, and their squared lengths.
    spectrum, turn = np.linalg.eigh(functions[sample].T @ functions[sample])
    is_real = spectrum > _NEGLIGIBLE * max(spectrum[-1], np.finfo(float).tiny)
    spectrum = spectrum[is_real]
    basis = functions @ (turn[:, is_real] / np.sqrt(spectrum))  # (n, p)
    sample_basis = basis[sample]
    # Every penalty, judged by the error of units left out.
    sample_units = units.among(sample)
    along = sample_basis.T @ centred  # (p,)
    shrinkages = _shrinkages(spectrum, sample_units.n_units)  # (p, penalties)
    residuals = centred[:, None] - sample_basis @ (shrinkages * along[:, None])  # (rows of the sample, penalties)
    residuals = sample_units.left_out(residuals, sample_basis, shrinkages)
    best = int(np.argmin((residuals**2).sum(axis=0)))
    # At the rows of the sample a unit is left out of its own fit; at the others none had a part in it.
    values = level + basis @ (shrinkages[:, best] * along)
    values[sample] = target[sample] - residuals[:, best]
    bounds = float(target[sample].min()), float(target[sample].max())
    values = np.clip(values, *bounds)
    # A weight v more of a row of the sample moves the fit by v times its residual, as far as the penalty lets it.
    constant = np.full(len(values), 1 / np.sqrt(sample.sum()))
    directions = np.column_stack([constant, basis * np.sqrt(shrinkages[:, best])])
    pulls = np.zeros_like(directions)
    pulls[sample] = directions[sample] * (target[sample] - values[sample])[:, None]
    return LeftOutFit(values, directions, pulls, units, bounds)


def _shrinkages(spectrum: FloatArray, units: int) -> FloatArray:
    """Return what each ridge penalty keeps along each direction (p x penalties); the last one keeps nothing."""
    return np.column_stack([ridge_shrinkages(spectrum, _FINER_PENALTIES, units), np.zeros(len(spectrum))])
