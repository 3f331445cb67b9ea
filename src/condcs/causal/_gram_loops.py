"""Compiled loops of the causal tests; imported when first needed, because loading numba takes half a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.compiling import njit

# Kernel values below this are set to 0. Each sum holds the row's own 1, so they cannot be seen in it, while products of
# three values above it stay clear of subnormal numbers, on which a processor is slow.
NEGLIGIBLE = 1e-50


@njit(nogil=True)
def band_exponents(values: Any, scale: float, first: int, out: Any) -> None:
    """Write out[a, k] = -scale |v_a - v_b|^2 with b = a + first + k.

    Where there is no row b it is -1e4, whose exponential is 0.
    """
    n, columns = values.shape
    for a in range(n):
        for k in range(out.shape[1]):
            b = a + first + k
            if 0 <= b < n:
                total = 0.0
                for c in range(columns):
                    step = values[a, c] - values[b, c]
                    total += step * step
                out[a, k] = -scale * total
            else:
                out[a, k] = -1e4


@njit(nogil=True, fastmath=True)
def squared(K: Any) -> Any:
    """Return K * K element by element: the Gaussian kernel of a bandwidth smaller by sqrt(2)."""
    n, m = K.shape
    out = np.empty((n, m))
    for a in range(n):
        for k in range(m):
            u = K[a, k] * K[a, k]
            out[a, k] = u if u > NEGLIGIBLE else 0.0
    return out


@njit(nogil=True, fastmath=True)
def window_sums(K1: Any, K1L: Any, K2: Any, starts: Any, window: int, first: int, out: Any) -> None:
    """Add this band's part of the row sums of K1 * K2 and K1L * K2 in each pair of windows.

    Bands hold K[a, a + first + k] at [a, k]; `starts` are (start of K2's window, start of K1's); out is S x 2 x window.
    """
    width = K1.shape[1]
    for s in range(len(starts)):
        i, j = starts[s]
        for a in range(max(0, 1 - first - width), min(window, window - first)):
            low, high = max(0, -a - first), min(width, window - a - first)
            k1, k1l, k2 = K1[j + a, low:high], K1L[j + a, low:high], K2[i + a, low:high]
            total, weighted = 0.0, 0.0
            for k in range(high - low):
                total += k1[k] * k2[k]
                weighted += k1l[k] * k2[k]
            out[s, 0, a] += total
            out[s, 1, a] += weighted


@njit(nogil=True, fastmath=True)
def condition_window_sums(K1: Any, K1L: Any, starts: Any, window: int, first: int, out: Any) -> None:
    """Add this band's part of the row sums of K1 and K1 * L in each window of K1; as `window_sums` without K2."""
    width = K1.shape[1]
    for s in range(len(starts)):
        j = starts[s, 1]
        for a in range(max(0, 1 - first - width), min(window, window - first)):
            low, high = max(0, -a - first), min(width, window - a - first)
            k1, k1l = K1[j + a, low:high], K1L[j + a, low:high]
            total, weighted = 0.0, 0.0
            for k in range(high - low):
                total += k1[k]
                weighted += k1l[k]
            out[s, 0, a] += total
            out[s, 1, a] += weighted


@njit(nogil=True, fastmath=True)
def reordered_sums(K1: Any, K1L: Any, K2: Any, orders: Any, levels: int) -> Any:
    """Return the row sums of K1 * K2[o, o] and K1L * K2[o, o] for each order o, and of their squares, fourth powers ...

    The result has shape (orders, levels, 2, n). Each level is the Gaussian kernel of a bandwidth smaller by sqrt(2).
    """
    count, n = orders.shape
    out = np.empty((count, levels, 2, n))
    p, q = np.empty(n), np.empty(n)
    for j in range(n):
        for s in range(count):
            row = K2[orders[s, j]]
            for i in range(n):
                k2 = row[orders[s, i]]
                p[i] = K1[j, i] * k2
                q[i] = K1L[j, i] * k2
            for level in range(levels):
                total, weighted = 0.0, 0.0
                for i in range(n):
                    total += p[i]
                    weighted += q[i]
                out[s, level, 0, j] = total
                out[s, level, 1, j] = weighted
                if level < levels - 1:
                    for i in range(n):
                        u, v = p[i] * p[i], q[i] * q[i]
                        p[i] = u if u > NEGLIGIBLE else 0.0
                        q[i] = v if v > NEGLIGIBLE else 0.0
    return out
