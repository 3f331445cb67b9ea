"""Compiled loops of the causal tests; imported when first needed, because loading numba takes half a second."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.compiling import inner, njit

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


@inner(inline="always")
def _rows_in_window(window: int, first: int, width: int) -> Any:
    """Return the range of rows a of a window for which a band, b = a + first + k with k < width, holds any row b."""
    return max(0, 1 - first - width), min(window, window - first)


@inner(inline="always")
def _columns_in_window(a: int, window: int, first: int, width: int) -> Any:
    """Return the range of columns k of a band for which b = a + first + k lies in the window."""
    return max(0, -a - first), min(width, window - a - first)


@njit(nogil=True, fastmath=True)
def window_sums(K1: Any, K1L: Any, K2: Any, starts: Any, window: int, first: int, out: Any) -> None:
    """Add this band's part of the row sums of K1 * K2 and K1L * K2 in each pair of windows.

    Bands hold K[a, a + first + k] at [a, k]; `starts` has rows (start of K2's window, start of K1's), shape (S, 2);
    `out` is (S, 2, window).
    """
    width = K1.shape[1]
    for s in range(len(starts)):
        source_start, target_start = starts[s]
        first_row, end_row = _rows_in_window(window, first, width)
        for a in range(first_row, end_row):
            low, high = _columns_in_window(a, window, first, width)
            k1, k1l = K1[target_start + a, low:high], K1L[target_start + a, low:high]
            k2 = K2[source_start + a, low:high]
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
        target_start = starts[s, 1]
        first_row, end_row = _rows_in_window(window, first, width)
        for a in range(first_row, end_row):
            low, high = _columns_in_window(a, window, first, width)
            k1, k1l = K1[target_start + a, low:high], K1L[target_start + a, low:high]
            total, weighted = 0.0, 0.0
            for k in range(high - low):
                total += k1[k]
                weighted += k1l[k]
            out[s, 0, a] += total
            out[s, 1, a] += weighted


@njit(nogil=True, fastmath=True)
def reordered_sums(K1: Any, K1L: Any, K2: Any, row_orders: Any, levels: int) -> Any:
    """Return the row sums of K1 * K2[o, o] and K1L * K2[o, o] for each order o of the rows of K2.

    Then those of the squares of these products, of their fourth powers, and so on: each level has the Gaussian kernels
    of bandwidths smaller by sqrt(2). `row_orders` is (orders, n), and the result (orders, levels, 2, n).
    """
    count, n = row_orders.shape
    out = np.empty((count, levels, 2, n))
    p, q = np.empty(n), np.empty(n)
    for j in range(n):
        for s in range(count):
            row = K2[row_orders[s, j]]
            for i in range(n):
                k2 = row[row_orders[s, i]]
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
