"""k-medoids by FasterPAM, compiled; imported when first needed, because loading numba takes time.

Schubert and Rousseeuw, "Fast and eager k-medoids clustering", Information Systems 101, 2021.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.compiling import njit

FloatArray = np.ndarray[Any, Any]

_CLOSE = 1e-12
"""A swap must lower the loss by more than this share of it: rounding alone would swap back and forth for ever."""


def best_medoids(D: FloatArray, k: int, rng: np.random.Generator, starts: int = 10) -> FloatArray:
    """Return the nearest of k medoids for each row of a symmetric matrix of distances: the best of several starts.

    No swap of a medoid for another row lowers the loss, the sum of the distances to the nearest medoid. Cost O(n^2) a
    round, for a few rounds a start.
    """
    D = np.ascontiguousarray(D, dtype=np.float64)
    found = [fasterpam(D, rng.choice(len(D), k, replace=False)) for _ in range(starts)]
    return np.asarray(min(found, key=lambda start: float(start[1]))[0])


@njit(nogil=True)
def fasterpam(D: Any, medoids: Any) -> Any:
    """Swap medoids until no swap lowers the loss; returns the place of each row's medoid, and the loss.

    All k swaps with one candidate are weighed in one pass, by each row's nearest and second medoid, and one that pays
    is made at once.
    """
    n, k = len(D), len(medoids)
    nearest = np.zeros(n, np.int64)
    first, second = np.empty(n), np.empty(n)
    loss = _assign(D, medoids, nearest, first, second)
    # What taking each medoid away would cost, before a candidate is in its place.
    removal, change = np.empty(k), np.empty(k)
    is_medoid = np.zeros(n, np.bool_)
    is_medoid[medoids] = True
    unchanged, candidate = 0, 0
    while unchanged < n:
        if not is_medoid[candidate]:
            removal[:] = 0.0
            change[:] = 0.0
            common = 0.0
            for i in range(n):
                removal[nearest[i]] += second[i] - first[i]
                distance = D[candidate, i]
                if distance < first[i]:
                    common += distance - first[i]
                    change[nearest[i]] += first[i] - second[i]
                elif distance < second[i]:
                    change[nearest[i]] += distance - second[i]
            if k == 1:  # there is no second medoid: the candidate takes every row
                removal[0] = D[candidate].sum() - loss
                change[0], common = 0.0, 0.0
            place = np.argmin(removal + change)
            if removal[place] + change[place] + common < -_CLOSE * abs(loss):
                is_medoid[medoids[place]] = False
                is_medoid[candidate] = True
                medoids[place] = candidate
                loss = _assign(D, medoids, nearest, first, second)
                unchanged = 0
        unchanged += 1
        candidate = (candidate + 1) % n
    return nearest, loss


@njit(nogil=True)
def _assign(D: Any, medoids: Any, nearest: Any, first: Any, second: Any) -> Any:
    """Find each row's nearest medoid and the distances to it and to the second; returns the loss."""
    first[:] = np.inf
    second[:] = np.inf
    for place in range(len(medoids)):
        for i in range(len(D)):
            distance = D[medoids[place], i]
            if distance < first[i]:
                second[i] = first[i]
                first[i], nearest[i] = distance, place
            elif distance < second[i]:
                second[i] = distance
    return first.sum()
