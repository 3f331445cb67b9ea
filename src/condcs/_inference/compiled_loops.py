"""Compiled loops of the tests; imported when first needed, because loading numba takes half a second.

Each draw has a stream of its own (splitmix64, seeded by the caller's generator), so that it is the same whatever else
is drawn, in whatever order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.compiling import njit

_ROWS_AT_ONCE = 8
"""Rows of two Gram matrices that meet all orders. Of 3,000 rows, 100 orders take 1.1 s with
8 or more at once and 1.4 s with 1 or 4; 20 orders take 0.26 s with 8, 0.22 s with 1 or 4 and 0.34 s with 16."""


@njit(nogil=True, inline="always")
def _advance(state: Any) -> Any:
    """Next state and a uniform number below 1, by splitmix64."""
    state = np.uint64(state + np.uint64(0x9E3779B97F4A7C15))
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)  # 53 bits, divided by 2^53


@njit(nogil=True)
def swap_chains(
    start: Any, excess: Any, features: Any, cells: Any, first: Any, size: Any, members: Any, steps: int,
    seeds: Any, out: Any,
) -> None:  # fmt: skip
    r"""Run one Metropolis chain of label swaps per seed, all from `start`, and write the labels each ends with.

    The chain's law of labels g is proportional to :math:`\exp(-\frac14 \sum_h |S_h|^2)`, S_h the excess features of
    group h, over the labellings that keep the size of each group in each cell. A step picks a row and a second one of
    its cell and exchanges their labels if the Metropolis rule lets it.
    """
    n, k = features.shape
    for c in range(seeds.size):
        state = seeds[c]
        labels, s = start.copy(), excess.copy()
        for _ in range(steps):
            # One number of 53 bits serves both rows: the fraction left by the first choice makes the second.
            state, u = _advance(state)
            i = int(u * n)
            cell = cells[i]
            j = members[first[cell] + int((u * n - i) * size[cell])]
            a, b = labels[i], labels[j]
            if a == b:
                continue
            state, u = _advance(state)
            # Row i moves from a to b and row j back: S_a loses the difference of their features, S_b gains it.
            gain = 0.0
            for m in range(k):
                difference = features[i, m] - features[j, m]
                gain -= 0.5 * difference * (difference + s[b, m] - s[a, m])
            if gain >= 0.0 or u < np.exp(gain):
                labels[i], labels[j] = b, a
                for m in range(k):
                    difference = features[i, m] - features[j, m]
                    s[a, m] -= difference
                    s[b, m] += difference
        out[c] = labels


@njit(nogil=True)
def assign_neighbours(neighbours: Any, seeds: Any, out: Any) -> None:
    """Give each row one of its neighbours, in random order and each at most once where possible (Runge 2018)."""
    n, k = neighbours.shape
    for c in range(seeds.size):
        state = seeds[c]
        order = np.arange(n)
        for i in range(n - 1, 0, -1):
            state, u = _advance(state)
            j = int(u * (i + 1))
            order[i], order[j] = order[j], order[i]
        used = np.zeros(n, np.bool_)
        choice = np.empty(k, np.int64)
        for row in order:
            choice[:] = neighbours[row]
            chosen = choice[0]
            # A shuffle that stops at the first neighbour nobody has yet; if all are taken, the last one serves.
            for m in range(k):
                state, u = _advance(state)
                j = m + int(u * (k - m))
                choice[m], choice[j] = choice[j], choice[m]
                chosen = choice[m]
                if not used[chosen]:
                    break
            used[chosen] = True
            out[c, row] = chosen


@njit(nogil=True, fastmath={"reassoc", "contract"})
def permuted_row_sums(K1: Any, K1L: Any, K2: Any, orders: Any) -> Any:
    """Return the row sums of K1 * K2[v][order, order] and of K1L * K2[v][order, order] (both orders x views x n).

    Rows outside, orders inside: a row of K1 and of K1L stays in the cache for all orders and views.
    """
    (count, n), views = orders.shape, len(K2)
    a, b = np.empty((count, views, n)), np.empty((count, views, n))
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
                a[s, v, j], b[s, v, j] = total, weighted
    return a, b


@njit(nogil=True, fastmath={"reassoc", "contract"})
def permuted_rank_sums(K1: Any, K1L: Any, tables: Any, half_steps: Any, orders: Any) -> Any:
    """Return what `permuted_row_sums` does where K2[v][i, j] = tables[v][|half_steps[v][i] - half_steps[v][j]|].

    Tables and ranks stay in the cache, while rows of a Gram matrix in random order come from memory. All matrices are
    symmetric: each pair is looked up once and counts for both of its rows. A few rows of K1 and K1L at a time serve all
    orders and views.
    """
    (count, n), views = orders.shape, len(tables)
    a, b = np.zeros((count, views, n)), np.zeros((count, views, n))
    permuted = np.empty((count, views, n), np.int32)
    for s in range(count):
        for v in range(views):
            for i in range(n):
                permuted[s, v, i] = half_steps[v, orders[s, i]]
    apart, looked_up = np.empty(n, np.uint32), np.empty(n)
    for start in range(0, n, _ROWS_AT_ONCE):
        for s in range(count):
            for v in range(views):
                table, ranks, total, weighted = tables[v], permuted[s, v], a[s, v], b[s, v]
                for j in range(start, min(start + _ROWS_AT_ONCE, n)):
                    for i in range(j):
                        apart[i] = abs(ranks[i] - ranks[j])
                    for i in range(j):
                        looked_up[i] = table[apart[i]]
                    first, second = K1[j], K1L[j]
                    total_j, weighted_j = first[j] * table[0], second[j] * table[0]
                    for i in range(j):
                        plain, product = first[i] * looked_up[i], second[i] * looked_up[i]
                        total[i] += plain
                        weighted[i] += product
                        total_j += plain
                        weighted_j += product
                    total[j] += total_j
                    weighted[j] += weighted_j
    return a, b


@njit(nogil=True)
def neighbour_divergences(indices: Any, logs: Any, d: int, labels: Any, k: int, count: int) -> Any:
    """Return D[s, g, h] = d / n_g sum over rows i of g of (log nu_k - log rho_k); NaN where a list was too short."""
    n_labellings, n = labels.shape
    length = indices.shape[1]
    result = np.zeros((n_labellings, count, count))
    met, kth = np.empty(count, np.int64), np.empty(count)
    for s in range(n_labellings):
        sizes = np.zeros(count)
        for i in range(n):
            row_group = labels[s, i]
            sizes[row_group] += 1
            met[:] = 0
            kth[:] = np.nan
            missing = count
            for j in range(length):
                other = indices[i, j]
                if other == i:
                    continue
                other_group = labels[s, other]
                met[other_group] += 1
                if met[other_group] == k:
                    kth[other_group] = logs[i, j]
                    missing -= 1
                    if missing == 0:
                        break
            for h in range(count):
                result[s, row_group, h] += kth[h] - kth[row_group]
        for g in range(count):
            for h in range(count):
                result[s, g, h] *= d / sizes[g]
    return result
