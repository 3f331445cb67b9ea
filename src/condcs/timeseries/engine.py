"""The compiled engine: conditional divergences between all pairs of two blocks of short series.

It holds no lock, so blocks run on threads. A pair's result depends on that pair alone: not on its neighbours, nor on
how the work is cut up.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import uintp

from condcs.timeseries.powers import LOG2_E, power_of_two
from condcs.timeseries.selection import median_of
from condcs.timeseries.window_distances import (
    LANES,
    copy_successors,
    pack,
    padded,
    pair_distances,
    successors_at,
    triangle,
    triangle_size,
)

# Sums above this hold no digits lost to gradual underflow.
_SAFE_SUM = 1e-290


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})  # type: ignore[untyped-decorator]
def _cross_masses(X: Any, Y: Any, y_start: int, y_step: int, n: int, m: int, cx: float, cy: float, masses: Any) -> None:
    """Kernel masses of the rows over the columns, and of the columns over the rows: each cell is visited once."""
    width = padded(m)
    a_row, b_row, a_column, b_column = masses[0], masses[1], masses[2], masses[3]
    a_column[:width] = 0.0
    b_column[:width] = 0.0
    sx, sy = LOG2_E * cx, LOG2_E * cy
    for i in range(n):
        start, y_row = i * width, y_start + i * y_step
        a_total, b_total = 0.0, 0.0
        for j in range(width):
            u = sx * X[uintp(start + j)]
            k = power_of_two(u)
            kl = power_of_two(u + sy * Y[uintp(y_row + j)])
            a_total += k
            b_total += kl
            a_column[j] += k
            b_column[j] += kl
        a_row[i], b_row[i] = a_total, b_total


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})  # type: ignore[untyped-decorator]
def _own_masses(x: Any, y: Any, n: int, cx: float, cy: float, masses: Any) -> float:
    """Kernel masses of a series' windows over the series itself, and the sum of B / A^2 over its windows."""
    a, b = masses[0], masses[1]
    # Every window with itself.
    a[:n] = 1.0
    b[:n] = 1.0
    sx, sy = LOG2_E * cx, LOG2_E * cy
    start = 0
    for i in range(n - 1):
        count, rest = padded(n - 1 - i), i + 1
        a_total, b_total = 0.0, 0.0
        for j in range(count):
            u = sx * x[uintp(start + j)]
            k = power_of_two(u)
            kl = power_of_two(u + sy * y[uintp(start + j)])
            a_total += k
            b_total += kl
            a[uintp(rest + j)] += k
            b[uintp(rest + j)] += kl
        a[i] += a_total
        b[i] += b_total
        start += count
    total = 0.0
    for i in range(n):
        total += b[i] / (a[i] * a[i])
    return total


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _underflows(masses: Any, n: int, m: int) -> bool:
    lowest = 1.0
    for i in range(n):
        lowest = min(lowest, min(masses[0, i], masses[1, i]))
    for j in range(m):
        lowest = min(lowest, min(masses[2, j], masses[3, j]))
    return lowest < _SAFE_SUM


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _log_mass(X: Any, Y: Any, start: int, step: int, count: int, cx: float, cy: float) -> Any:
    """Logarithm of a row's (or column's) kernel mass, by its largest term."""
    peak = -np.inf
    for k in range(count):
        at = start + k * step
        peak = max(peak, cx * X[at] + cy * Y[at])
    total = 0.0
    for k in range(count):
        at = start + k * step
        total += math.exp(cx * X[at] + cy * Y[at] - peak)
    return peak + math.log(total)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _log_interaction(
    own: Any, a: Any, b: Any, n: int, X: Any, Y: Any, row_step: int, step: int, count: int, cx: float, cy: float
) -> Any:
    """Log of the sum over windows of B / (own A * A); masses that underflow are taken again in the log domain."""
    lowest = 1.0
    total = 0.0
    for i in range(n):
        lowest = min(lowest, min(a[i], b[i]))
        total += b[i] / (own[i] * a[i])
    if lowest >= _SAFE_SUM:
        return math.log(total)
    terms = np.empty(n)
    for i in range(n):
        start = i * row_step
        log_a = math.log(a[i]) if a[i] >= _SAFE_SUM else _log_mass(X, Y, start, step, count, cx, 0.0)
        log_b = math.log(b[i]) if b[i] >= _SAFE_SUM else _log_mass(X, Y, start, step, count, cx, cy)
        terms[i] = log_b - log_a - math.log(own[i])
    peak = terms.max()
    total = 0.0
    for i in range(n):
        total += math.exp(terms[i] - peak)
    return peak + math.log(total)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _prepare(
    frames: Any,
    starts: Any,
    norms: Any,
    windows: Any,
    window_starts: Any,
    first: int,
    last: int,
    order: int,
    wide: bool,
    scratch: Any,
    X: Any,
    Y: Any,
    packed: Any,
    own_x: Any,
    own_y: Any,
) -> None:
    """Pack the series from `first` to `last` and find the distances of each one's windows among themselves."""
    for i in range(first, last):
        series = frames[starts[i] : starts[i + 1]]
        own_norms = norms[starts[i] : starts[i + 1]]
        used = windows[window_starts[i] : window_starts[i + 1]]
        if not wide:
            pack(series, order, packed[i - first])
        pair_distances(
            packed[i - first], series, own_norms, used, packed[i - first], series, own_norms, used, order, wide,
            scratch, X, Y, True,
        )  # fmt: skip
        triangle(X, used.size, own_x[i - first])
        triangle(Y, used.size, own_y[i - first])


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _longest(starts: Any) -> int:
    longest = 0
    for i in range(starts.size - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    return longest


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def block_divergences(
    a_frames: Any,
    a_starts: Any,
    a_norms: Any,
    a_windows: Any,
    a_window_starts: Any,
    b_frames: Any,
    b_starts: Any,
    b_norms: Any,
    b_windows: Any,
    b_window_starts: Any,
    order: int,
    above_diagonal: bool,
    width_x: float,
    width_y: float,
    factor: float,
    logarithmic: bool,
    wide: bool,
    tile: int,
    out: Any,
) -> Any:
    """Fill ``out[i, j]`` with the divergence between series i of a and series j of b.

    Parameters
    ----------
    a_frames, b_frames : array, shape (total time, channels)
        The series of each side, one after the other.
    a_starts, b_starts : array
        Where each series starts, and the end of the last.
    a_norms, b_norms : array
        Squared norms of the frames; looked at if `wide`.
    a_windows, b_windows, a_window_starts, b_window_starts : array
        The windows to use of each series (times counted from its start), one series after the other.
    order : int
        Length of a window.
    above_diagonal : bool
        Whether a and b are the same series, so that only i < j is wanted.
    width_x, width_y : float
        Widths of the kernels; 0 stands for the median distance of each pair's windows.
    factor : float
        Multiplies the widths.
    logarithmic : bool
        Log contrast (conditional CS), or linear contrast (conditional Euclidean).
    wide : bool
        Whether frames have so many channels that their distances are best found by a matrix product.
    tile : int
        Series of each side that are worked on together, so that their own distances stay in the cache.

    Returns
    -------
    array of 4 ints
        In how many pairs the median of x, and of y, fell back on a percentile (0, 1) or on 1 (2, 3).
    """
    rows, columns, channels = a_starts.size - 1, b_starts.size - 1, a_frames.shape[1]
    longest = max(_longest(a_starts), _longest(b_starts))
    n_max = longest - order
    stride, size = order + padded(n_max), triangle_size(n_max)
    scratch = (
        np.empty(longest * stride),
        np.empty((order + 2) * stride if order > 1 else 0),
        np.empty(n_max * padded(n_max)),
    )
    X, Y = np.empty(n_max * padded(n_max)), np.empty(n_max * padded(n_max))
    packed_size = 0 if wide else channels * stride
    a_packed, b_packed = np.empty((tile, packed_size)), np.empty((tile, packed_size))
    a_own_x, a_own_y, b_own_x, b_own_y = (
        np.empty((tile, size)),
        np.empty((tile, size)),
        np.empty((tile, size)),
        np.empty((tile, size)),
    )
    a_masses, b_masses = np.empty((tile, 2, stride + LANES)), np.empty((tile, 2, stride + LANES))
    a_total, b_total = np.empty(tile), np.empty(tile)
    masses = np.empty((4, stride))
    pair_widths = width_x == 0.0
    candidates = np.empty((2 * size + X.size + 512) if pair_widths else 0)
    fallbacks = np.zeros(4, np.int64)
    cx, cy = 0.0, 0.0
    if not pair_widths:
        cx, cy = -0.5 / (width_x * factor) ** 2, -0.5 / (width_y * factor) ** 2

    for i0 in range(0, rows, tile):
        i1 = min(i0 + tile, rows)
        _prepare(
            a_frames, a_starts, a_norms, a_windows, a_window_starts, i0, i1, order, wide, scratch, X, Y,
            a_packed, a_own_x, a_own_y,
        )  # fmt: skip
        if not pair_widths:
            for i in range(i0, i1):
                n = a_window_starts[i + 1] - a_window_starts[i]
                a_total[i - i0] = _own_masses(a_own_x[i - i0], a_own_y[i - i0], n, cx, cy, a_masses[i - i0])
        for j0 in range(i0 if above_diagonal else 0, columns, tile):
            j1 = min(j0 + tile, columns)
            _prepare(
                b_frames, b_starts, b_norms, b_windows, b_window_starts, j0, j1, order, wide, scratch, X, Y,
                b_packed, b_own_x, b_own_y,
            )  # fmt: skip
            if not pair_widths:
                for j in range(j0, j1):
                    m = b_window_starts[j + 1] - b_window_starts[j]
                    b_total[j - j0] = _own_masses(b_own_x[j - j0], b_own_y[j - j0], m, cx, cy, b_masses[j - j0])
            for i in range(i0, i1):
                p = i - i0
                p_series, p_norms = a_frames[a_starts[i] : a_starts[i + 1]], a_norms[a_starts[i] : a_starts[i + 1]]
                p_windows = a_windows[a_window_starts[i] : a_window_starts[i + 1]]
                n = p_windows.size
                n_own = triangle_size(n)
                for j in range(max(j0, i + 1) if above_diagonal else j0, j1):
                    q = j - j0
                    q_series, q_norms = b_frames[b_starts[j] : b_starts[j + 1]], b_norms[b_starts[j] : b_starts[j + 1]]
                    q_windows = b_windows[b_window_starts[j] : b_window_starts[j + 1]]
                    m = q_windows.size
                    m_own, width = triangle_size(m), padded(m)
                    pair_distances(
                        a_packed[p], p_series, p_norms, p_windows, b_packed[q], q_series, q_norms, q_windows, order,
                        wide, scratch, X, Y, pair_widths,
                    )  # fmt: skip
                    if pair_widths:
                        count = (n + m) * (n + m - 1) // 2
                        median_x, kind_x = median_of(
                            a_own_x[p, :n_own], b_own_x[q, :m_own], X[: n * width], count, candidates
                        )
                        median_y, kind_y = median_of(
                            a_own_y[p, :n_own], b_own_y[q, :m_own], Y[: n * width], count, candidates
                        )
                        if kind_x > 0:
                            fallbacks[2 * (kind_x - 1)] += 1
                        if kind_y > 0:
                            fallbacks[2 * (kind_y - 1) + 1] += 1
                        cx, cy = -0.5 / (median_x * factor**2), -0.5 / (median_y * factor**2)
                        a_total[p] = _own_masses(a_own_x[p], a_own_y[p], n, cx, cy, a_masses[p])
                        b_total[q] = _own_masses(b_own_x[q], b_own_y[q], m, cx, cy, b_masses[q])
                    if pair_widths or n < p_series.shape[0] - order or m < q_series.shape[0] - order:
                        _cross_masses(X, Y, 0, width, n, m, cx, cy, masses)
                    else:
                        # The median needs the distances of the successors in one piece; masses do not.
                        y_start, y_step = successors_at(m, order)
                        _cross_masses(X, scratch[0], y_start, y_step, n, m, cx, cy, masses)
                        if _underflows(masses, n, m):
                            copy_successors(scratch[0], n, m, order, Y)
                    pq = _log_interaction(a_masses[p, 0], masses[0], masses[1], n, X, Y, width, 1, m, cx, cy)
                    qp = _log_interaction(b_masses[q, 0], masses[2], masses[3], m, X, Y, 1, width, n, cx, cy)
                    if logarithmic:
                        out[i, j] = math.log(a_total[p]) + math.log(b_total[q]) - pq - qp
                    else:
                        out[i, j] = a_total[p] + b_total[q] - math.exp(pq) - math.exp(qp)
    return fallbacks
