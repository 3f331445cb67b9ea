"""Prop. 4 on many orders of x2: what the test of conditional independence evaluates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from condcs.core.groups import Groups
from condcs.core.settings import current_settings
from condcs.inference.statistics import FloatArray
from condcs.kernels.log_kernels import LogKernel, product
from condcs.kernels.row_sums import exp_in_place, row_sums

GRAM_BUDGET = 2 * 2**30
"""Bytes that the n x n Gram matrices may take (n = 7,300 with three views of x2); above, pairs are visited anew."""

Orders = np.ndarray[Any, Any]
Statistic = Callable[[Orders], FloatArray]


def predictor_statistic(y: LogKernel, x1: LogKernel | None, views: Sequence[LogKernel], n: int, form: str) -> Statistic:
    """Return a function from orders of x2 (P x n) to values of Prop. 4 for each view of x2 (P x views)."""
    groups = Groups((n,))
    factors = [x1] if x1 is not None else []
    (b1,) = (s[:, 0] for s in row_sums([product([*factors, y])], groups))
    a1 = row_sums(factors, groups)[0][:, 0] if factors else np.full(n, float(n))

    def value(a12: FloatArray, b12: FloatArray) -> FloatArray:
        """Return the values from sums whose second last axis are the rows of the sample."""
        a, b = a1[:, None], b1[:, None]
        first = (b**2 / (a**2 * b12)).sum(-2) if form == "corrected" else (b / a**2).sum(-2)
        return np.asarray(np.log(first) + np.log((b12 / a12**2).sum(-2)) - 2 * np.log((b / (a * a12)).sum(-2)))

    if (2 + len(views)) * 8 * n * n > GRAM_BUDGET:

        def visited(orders: Orders) -> FloatArray:
            results = []
            for order in orders:
                moved = [product([*factors, view.take(order)]) for view in views]
                sums = row_sums([*moved, *(product([m, y]) for m in moved)], groups)
                columns = np.stack([s[:, 0] for s in sums], axis=1)
                results.append(value(columns[:, : len(views)], columns[:, len(views) :]))
            return np.array(results)

        return visited
    K1 = _gram(x1, n) if x1 is not None else np.ones((n, n))
    K1L, K2 = K1 * _gram(y, n), np.stack([_gram(view, n) for view in views])

    def indexed(orders: Orders) -> FloatArray:
        from condcs.inference.compiled import permuted_row_sums

        workers = current_settings().n_threads
        chunks = np.array_split(np.ascontiguousarray(orders), min(workers, len(orders)))
        with ThreadPoolExecutor(workers) as threads:
            sums = list(threads.map(lambda chunk: permuted_row_sums(K1, K1L, K2, chunk), chunks))
        return np.concatenate([value(a12, b12) for a12, b12 in sums])

    return indexed


def _gram(kernel: LogKernel, n: int) -> FloatArray:
    gram = np.ascontiguousarray(kernel.block(slice(0, n), slice(0, n)), dtype=np.float64)
    exp_in_place(gram)
    return gram
