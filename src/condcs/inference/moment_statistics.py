"""Conditional Bregman divergence under many labellings: covariances of all groups from two matrix products."""

from __future__ import annotations

import numpy as np

from condcs.inference.statistics import FloatArray, LabelArray, MeasuredPool, total_divergence
from condcs.measures.bregman import bregman_pairs
from condcs.measures.problem import NumericProblem


class CovarianceMoments:
    """First and second moments of every group are linear in its indicator, so ``W' Z`` and ``W' ZZ`` give them all."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, NumericProblem)
        self.pool = pool
        joint = np.concatenate([pool.problem.x.values, pool.problem.y.values], axis=1).astype(np.float64)
        # Centred first: second moments far from the origin would cancel.
        self.joint = joint - joint.mean(axis=0)
        n, d = joint.shape
        self.products = (self.joint[:, :, None] * self.joint[:, None, :]).reshape(n, d * d)
        self.columns_x = pool.problem.x.values.shape[1]

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)
        d = self.joint.shape[1]
        covariances = []
        for g in range(len(self.pool.sizes)):
            members = (labels == g).astype(np.float64)
            size = members.sum(axis=1)[:, None]
            means = members @ self.joint / size
            second = (members @ self.products).reshape(-1, d, d)
            covariances.append(
                (second - size[:, :, None] * means[:, :, None] * means[:, None, :]) / (size[:, :, None] - 1)
            )
        generator = self.pool.options.get("generator", "von_neumann")
        direction = self.pool.options.get("direction", "pq")
        pairs = [
            bregman_pairs(self.pool.problem.inputs.backend, list(matrices), self.columns_x, generator, direction)
            for matrices in zip(*covariances, strict=True)
        ]
        return total_divergence(np.array(pairs), symmetric=False)
