"""Compiled loops that redraw labels and neighbours; imported when first needed, because loading numba takes time.

Each draw has a stream of its own (splitmix64, seeded by the caller's generator), so that it is the same whatever else
is drawn, in whatever order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.compiling import njit


@njit(nogil=True, inline="always")
def _advance(state: Any) -> Any:
    """Next state and a uniform number below 1, by splitmix64."""
    state = np.uint64(state + np.uint64(0x9E3779B97F4A7C15))
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return state, np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


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
