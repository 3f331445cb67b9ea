"""Conditional KL divergence under many labellings, from one sorted neighbour table of the pool."""

from __future__ import annotations

import numpy as np

from condcs.core.groups import label_type
from condcs.inference.compiled import neighbour_divergences
from condcs.inference.statistics import FloatArray, LabelArray, MeasuredPool, Regrouped, total_divergence
from condcs.measures.directions import check_direction, directed
from condcs.measures.neighbours import joint_and_marginal_points
from condcs.measures.problem import NumericProblem

_FIRST_NEIGHBOURS = 64


class NeighbourTable:
    """Nearest neighbours do not depend on labels: each row walks along its sorted list until every group has met k."""

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, NumericProblem)
        from scipy.spatial import cKDTree

        self.pool, self.k = pool, int(pool.options.get("k", 3))
        self.direction = check_direction(pool.options.get("direction", "pq"))
        self.plain = Regrouped(pool)
        n = sum(pool.sizes)
        joint, marginal, floor = joint_and_marginal_points(pool.problem)
        length = min(n, max(_FIRST_NEIGHBOURS, 16 * self.k * len(pool.sizes)) + 1)
        self.tables = []
        for points in (joint, marginal):
            distances, indices = cKDTree(points).query(points, k=length)
            logs = np.log(np.maximum(distances, floor))
            self.tables.append((np.ascontiguousarray(indices, dtype=np.int64), logs, points.shape[1]))

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        count = len(self.pool.sizes)
        labels = np.ascontiguousarray(np.atleast_2d(labels), dtype=label_type(count))
        parts = [neighbour_divergences(indices, logs, d, labels, self.k, count) for indices, logs, d in self.tables]
        pairs = directed(self.pool.problem.inputs.backend, parts[0] - parts[1], self.direction)
        values = total_divergence(pairs, symmetric=False)
        # NaN: some list ended before a group had met k neighbours. Rare, and then done the plain way.
        for i in np.flatnonzero(~np.isfinite(values)):
            values[i] = self.plain(labels[i])[0]
        return values
