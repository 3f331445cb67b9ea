r"""The views of many rows: sums over rows in chunks, sums over pairs of rows by anchors.

A kernel view of all pairs is :math:`\sum_{i \ne j} u_i u_j k(i, j)`. With anchors a it is

.. math:: \sum_a \Bigl(\sum_i u_i h(a, i)\Bigr)^2 - \sum_i u_i^2 \sum_a h(a, i)^2,

which is the same sum over pairs with the kernel :math:`\sum_a h(a, i) h(a, j)`. To make that one close to k, h has
1 / sqrt(2) of its bandwidth on the inputs (a Gaussian convolved with itself is wider by sqrt(2)), and the features of
the anchors are whitened, because :math:`\sum_a f_a f_a'` would count the features by their variances once more.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from condcs._inference.anchors import total
from condcs._inference.propensities import Surprises
from condcs._inference.smoothing import squared_distances
from condcs._inference.views import OTHER_CATEGORY, Contrasts
from condcs._kernels.row_sums import exp_in_place

FloatArray = np.ndarray[Any, Any]
IntArray = np.ndarray[Any, Any]

_ROWS = 2_048
"""Rows that meet all anchors at once: a block of 16 MB."""
_LEAST_VARIANCE = 1e-6
"""Directions of the features with a smaller share of the largest variance are left out."""


class AnchoredContrasts:
    """Statistics of surprises that come in chunks of rows.

    Parameters
    ----------
    contrasts : Contrasts
        Which functions and kernels.
    anchors : array of int
        Rows that stand for all in sums over pairs.
    """

    def __init__(self, contrasts: Contrasts, anchors: IntArray) -> None:
        self.contrasts, self.anchors = contrasts, anchors

    def __call__(self, surprises: Surprises) -> FloatArray:
        """Return the views (rows) for each column of the surprises."""
        own = self.contrasts
        functions = [*own.sums.values(), *own.largest.values()]
        columns = [f.shape[1] for f in functions]
        ends = np.cumsum([sum(columns), *(len(self.anchors) for _ in own.kernels)])
        views: list[list[FloatArray]] = []

        def sums(rows: slice) -> FloatArray:
            """Sum the functions, the kernels at the anchors, and the diagonal, for each array of surprises."""
            parts = []
            chosen = np.hstack([f[rows] for f in functions])
            pairs = self._pairs(rows)
            for u in surprises(rows):
                squares = u**2
                diagonal = [np.einsum("ai,ai->i", p, p) @ squares for p in pairs]
                parts.append(np.concatenate([chosen.T @ u, *(p @ u for p in pairs), np.array(diagonal)]))
            return np.array(parts)

        resamples = surprises(slice(0, 1))[0].shape[1]
        found = total(sums, own.smoother.rows, _ROWS, resamples=resamples)
        for of_sample, scales in zip(found, self._scales, strict=True):
            squares = of_sample[: ends[0]] ** 2 / np.maximum(scales, np.finfo(float).tiny)[:, None]
            by_function = np.split(squares, np.cumsum(columns)[:-1])
            at_anchors = np.split(of_sample[ends[0] : ends[-1]], len(own.kernels))
            kernels = [(part**2).sum(axis=0) for part in at_anchors]
            views.append(
                [
                    *(part.sum(axis=0) for part in by_function[: len(own.sums)]),
                    *(part.max(axis=0) for part in by_function[len(own.sums) :]),
                    *(square - diagonal for square, diagonal in zip(kernels, of_sample[ends[-1] :], strict=True)),
                ]
            )
        return np.asarray(np.sum(views, axis=0))

    def _pairs(self, rows: slice) -> list[FloatArray]:
        """Kernels h between anchors and rows."""
        smoother, bandwidths = self.contrasts.smoother, [b for b, _ in self.contrasts.kernels.values()]
        squared = squared_distances(smoother.numbers[self.anchors], smoother.numbers[rows]) / -self.contrasts.unit
        same = None
        for codes in smoother.categories:
            equal = np.where(codes[self.anchors, None] == codes[rows], 1.0, OTHER_CATEGORY)
            same = equal if same is None else same * equal
        found = []
        for bandwidth, (_, features), whitened in zip(
            bandwidths, self.contrasts.kernels.values(), self._whitened, strict=True
        ):
            if np.isinf(bandwidth):
                pairs = np.ones_like(squared)
            else:
                pairs = squared / bandwidth**2
                exp_in_place(pairs)
            if same is not None:
                pairs *= same
            for own, at_anchors in zip(features, whitened, strict=True):
                pairs *= at_anchors @ own[rows].T
            found.append(pairs)
        return found

    @cached_property
    def _scales(self) -> FloatArray:
        """Variance of the sum of each function under redrawn labels, for each array of surprises."""
        functions = [*self.contrasts.sums.values(), *self.contrasts.largest.values()]
        variances = self.contrasts.variances
        return np.asarray(
            total(
                lambda rows: variances[rows].T @ np.hstack([f[rows] for f in functions]) ** 2,
                len(variances),
            )
        )

    @cached_property
    def _whitened(self) -> list[list[FloatArray]]:
        """Features of the anchors, for each kernel, turned and scaled to have a covariance of 1 over all rows."""
        return [[self._white(own) for own in features] for _, features in self.contrasts.kernels.values()]

    def _white(self, features: FloatArray) -> FloatArray:
        covariance = total(lambda rows: features[rows].T.astype(np.float64) @ features[rows], len(features))
        spectrum, turn = np.linalg.eigh(covariance / len(features))
        kept = spectrum > _LEAST_VARIANCE * max(spectrum[-1], np.finfo(float).tiny)
        return np.asarray(features[self.anchors] @ (turn[:, kept] / np.sqrt(spectrum[kept]) @ turn[:, kept].T))
