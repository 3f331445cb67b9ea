"""Compiled loops of the tests; imported when first needed, because loading numba takes half a second."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # type: ignore[untyped-decorator]
def permuted_row_sums(K1: Any, K1L: Any, K2: Any, orders: Any) -> Any:
    """Return the row sums of K1 * K2[v][order, order] and of K1L * K2[v][order, order] (both orders x n x views).

    Rows outside, orders inside: a row of K1 and of K1L stays in the cache for all orders and views.
    """
    (count, n), views = orders.shape, len(K2)
    a, b = np.empty((count, n, views)), np.empty((count, n, views))
    gathered = np.empty(n)
    for j in range(n):
        for s in range(count):
            for v in range(views):
                row = K2[v, orders[s, j]]
                for i in range(n):
                    gathered[i] = row[orders[s, i]]
                total, weighted = 0.0, 0.0
                for i in range(n):
                    total += K1[j, i] * gathered[i]
                    weighted += K1L[j, i] * gathered[i]
                a[s, j, v], b[s, j, v] = total, weighted
    return a, b


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def neighbour_divergences(indices: Any, logs: Any, d: int, labels: Any, k: int, count: int) -> Any:
    """Return D[s, g, h] = d / n_g sum over rows i of g of (log nu_k - log rho_k); NaN where a list was too short."""
    n_labellings, n = labels.shape
    length = indices.shape[1]
    result = np.zeros((n_labellings, count, count))
    met, kth = np.empty(count, np.int64), np.empty(count)
    for s in range(n_labellings):
        sizes = np.zeros(count)
        for i in range(n):
            own = labels[s, i]
            sizes[own] += 1
            met[:] = 0
            kth[:] = np.nan
            missing = count
            for j in range(length):
                other = indices[i, j]
                if other == i:
                    continue
                group = labels[s, other]
                met[group] += 1
                if met[group] == k:
                    kth[group] = logs[i, j]
                    missing -= 1
                    if missing == 0:
                        break
            for h in range(count):
                result[s, own, h] += kth[h] - kth[own]
        for g in range(count):
            for h in range(count):
                result[s, g, h] *= d / sizes[g]
    return result
