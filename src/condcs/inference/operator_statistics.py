"""Conditional MMD under many labellings: Gram matrices once, then one factorisation per group and labelling."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from condcs.core.settings import current_settings
from condcs.core.thread_limit import one_blas_thread
from condcs.inference.statistics import FloatArray, LabelArray, MeasuredPool, Regrouped
from condcs.measures.problem import ConditionalProblem


class OperatorGram:
    r"""Conditional MMD squared as one trace, CMMD^2 = tr(L C K C').

    C is the block matrix of the inverses :math:`\tilde K_p^{-1}` and :math:`-\tilde K_q^{-1}`. Cost O(n^3) for each
    labelling, spread over threads; memory O(n^2).
    """

    def __init__(self, pool: MeasuredPool) -> None:
        assert isinstance(pool.problem, ConditionalProblem)
        everything = slice(0, sum(pool.sizes))
        self.K = np.exp(pool.problem.x.kernel.block(everything, everything)).astype(np.float64)
        self.L = np.exp(pool.problem.y.kernel.block(everything, everything)).astype(np.float64)
        self.regularization = float(pool.options.get("regularization", 0.1))
        self.plain = Regrouped(pool)
        self.count = len(pool.sizes)

    def __call__(self, labels: LabelArray) -> FloatArray:
        """Return one value per row of `labels`."""
        labels = np.atleast_2d(labels)
        if self.count > 2:
            return self.plain(labels)
        with one_blas_thread(), ThreadPoolExecutor(current_settings().n_threads) as threads:
            return np.array(list(threads.map(self._one, labels)))

    def _one(self, labels: LabelArray) -> float:
        inside = [np.flatnonzero(labels == g) for g in (0, 1)]
        factors = []
        for rows in inside:
            ridged = self.K[np.ix_(rows, rows)]
            ridged[np.diag_indices(len(rows))] += self.regularization
            factors.append(cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False))
        half = np.empty_like(self.K)
        for sign, rows, factor in zip((1.0, -1.0), inside, factors, strict=True):
            half[rows] = sign * cho_solve(factor, self.K[rows], check_finite=False)
        total = 0.0
        for sign, rows, factor in zip((1.0, -1.0), inside, factors, strict=True):
            embedded = sign * cho_solve(factor, half[:, rows].T, check_finite=False)
            total += float(np.einsum("ij,ij->", embedded, self.L[rows]))
        return total
