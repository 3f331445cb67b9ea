"""The compiled engine: conditional divergences between all pairs of two blocks of short series.

It releases the interpreter lock, so blocks run on threads. The result of a pair depends on that pair alone, not on how
the work is divided.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uintp

from condcs._core.compiling import inner, njit
from condcs._kernels.compiled import LOG2_E, SMALLEST_EXPONENT, power_of_two
from condcs._kernels.compiled_medians import GROUP_ENDS, group, median_of, median_squared_difference, merge
from condcs.timeseries._window_distances import (
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


# A power is not raised to the fourth below this: the result would be below the smallest one.
_SMALLEST_ROOT = 2.0 ** (SMALLEST_EXPONENT / 4)


# Inlined, because of a function that stands alone, a first run and one that loads the cache may use different copies:
# the compiler may reorder sums, and does not do it alike in each.
@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _add_row(row: Any, count: int, column: Any, first: int) -> float:
    """Add a row of kernel values to the sums of its columns, and return its own sum."""
    total = 0.0
    for j in range(count):
        value = row[uintp(j)]
        total += value
        column[uintp(first + j)] += value
    return total


@inner(forceinline=True, fastmath={"contract"})
def _halve_bandwidth(row: Any, count: int) -> None:
    """Turn kernel values into those of half the bandwidth: their fourth powers."""
    for j in range(count):
        value = max(row[uintp(j)], _SMALLEST_ROOT)
        value *= value
        row[uintp(j)] = value * value


@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _cross_masses(
    X: Any, Y: Any, y_start: int, y_step: int, n: int, m: int, cx: float, cy: float, k: Any, kl: Any, masses: Any
) -> None:
    """Kernel masses of the rows over the columns, and of the columns over the rows: each cell is visited once.

    ``masses[f]`` holds, at the f-th halving of the bandwidths, A and B of the rows and A and B of the columns.
    """
    width = padded(m)
    masses[:, 2:, :width] = 0.0
    sx, sy = LOG2_E * cx, LOG2_E * cy
    for i in range(n):
        start, y_row = i * width, y_start + i * y_step
        # One loop for each exponential: both in one need more registers than there are.
        for j in range(width):
            k[j] = power_of_two(sx * X[uintp(start + j)])
        for j in range(width):
            kl[j] = power_of_two(sx * X[uintp(start + j)] + sy * Y[uintp(y_row + j)])
        for f in range(len(masses)):
            if f > 0:
                _halve_bandwidth(k, width)
                _halve_bandwidth(kl, width)
            masses[f, 0, i] = _add_row(k, width, masses[f, 2], 0)
            masses[f, 1, i] = _add_row(kl, width, masses[f, 3], 0)


@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _own_masses(x: Any, y: Any, n: int, cx: float, cy: float, k: Any, kl: Any, masses: Any, totals: Any) -> None:
    """Kernel masses of a series' windows over the series itself, and the sum of B / A^2 over its windows."""
    # Every window with itself.
    masses[:, :, :n] = 1.0
    sx, sy = LOG2_E * cx, LOG2_E * cy
    start = 0
    for i in range(n - 1):
        count = padded(n - 1 - i)
        for j in range(count):
            k[j] = power_of_two(sx * x[uintp(start + j)])
        for j in range(count):
            kl[j] = power_of_two(sx * x[uintp(start + j)] + sy * y[uintp(start + j)])
        for f in range(len(masses)):
            if f > 0:
                _halve_bandwidth(k, count)
                _halve_bandwidth(kl, count)
            masses[f, 0, i] += _add_row(k, count, masses[f, 0], i + 1)
            masses[f, 1, i] += _add_row(kl, count, masses[f, 1], i + 1)
        start += count
    for f in range(len(masses)):
        a, b = masses[f, 0], masses[f, 1]
        total = 0.0
        for i in range(n):
            total += b[i] / (a[i] * a[i])
        totals[f] = total


@inner()
def _underflows(masses: Any, n: int, m: int) -> bool:
    lowest = 1.0
    for i in range(n):
        lowest = min(lowest, min(masses[0, i], masses[1, i]))
    for j in range(m):
        lowest = min(lowest, min(masses[2, j], masses[3, j]))
    return lowest < _SAFE_SUM


@inner()
def _log_ratio(X: Any, Y: Any, start: int, step: int, count: int, cx: float, cy: float) -> Any:
    """Logarithm of B / A of a row (or column): an average over Y, with weights by X in units of the largest.

    Not the difference of log B and log A: far away both are so large that Y is lost in them.
    """
    nearest = X[start]
    for k in range(1, count):
        nearest = min(nearest, X[start + k * step])
    peak, total = -np.inf, 0.0
    for k in range(count):
        at = start + k * step
        peak = max(peak, cx * (X[at] - nearest) + cy * Y[at])
        total += math.exp(cx * (X[at] - nearest))
    weighted = 0.0
    for k in range(count):
        at = start + k * step
        weighted += math.exp(cx * (X[at] - nearest) + cy * Y[at] - peak)
    return peak + math.log(weighted) - math.log(total)


@inner()
def _log_interaction(
    own: Any, a: Any, b: Any, n: int, X: Any, Y: Any, row_step: int, step: int, count: int, cx: float, cy: float
) -> Any:
    """Log of the sum over windows of B / (own A * A); masses that underflow are computed again in the log domain."""
    lowest = 1.0
    total = 0.0
    for i in range(n):
        lowest = min(lowest, min(a[i], b[i]))
        total += b[i] / (own[i] * a[i])
    if lowest >= _SAFE_SUM:
        return math.log(total)
    terms = np.empty(n)
    for i in range(n):
        if min(a[i], b[i]) >= _SAFE_SUM:
            ratio = math.log(b[i]) - math.log(a[i])
        else:
            ratio = _log_ratio(X, Y, i * row_step, step, count, cx, cy)
        terms[i] = ratio - math.log(own[i])
    peak = terms.max()
    total = 0.0
    for i in range(n):
        total += math.exp(terms[i] - peak)
    return peak + math.log(total)


class Series(NamedTuple):
    """A run of series and their windows, as compiled code takes them.

    Attributes
    ----------
    frames : array, shape (total time, channels)
        The series, one after the other.
    starts : array
        Where each series starts, and the end of the last.
    norms : array
        Squared norms of the frames; used if distances are found by a matrix product.
    windows, window_starts : array
        The windows to use of each series (times counted from its start), one series after the other.
    successors : array
        If there is one channel and pairs have bandwidths of their own: what follows the windows of each series, in
        ascending order.
    """

    frames: Any
    starts: Any
    norms: Any
    windows: Any
    window_starts: Any
    successors: Any


class Own(NamedTuple):
    """What concerns one series alone, for a run of series; arrays that are not needed are empty.

    Attributes
    ----------
    packed : array, shape (count, :)
        The frames, as `pack` leaves them.
    x, y : array, shape (count, :)
        Squared distances of a series' windows among themselves, and of their successors (see `triangle`); of the last
        series only, if the kernels are known.
    grouped_x, ends_x, grouped_y, ends_y : array, shape (count, :)
        The same grouped by magnitude, for medians of pairs.
    masses, totals : array, shape (count, factors, 2, :) and (count, factors)
        Kernel masses of the windows over their own series, and the sum of B / A^2.
    """

    packed: Any
    x: Any
    y: Any
    grouped_x: Any
    ends_x: Any
    grouped_y: Any
    ends_y: Any
    masses: Any
    totals: Any


@njit(nogil=True)
def prepare(series: Any, order: int, wide: bool, bandwidths: tuple[float, float], longest: int, n_factors: int) -> Any:
    """Find the distances of each series' windows among themselves.

    If the kernels are known, only the masses are kept; if not (the bandwidths are 0), the distances, also ordered for
    medians. `longest` is the length of the longest series of both sides of a block.
    """
    count, channels = series.starts.size - 1, series.frames.shape[1]
    n_max = longest - order
    stride, size = order + padded(n_max), triangle_size(n_max)
    cx, cy = _exponents(bandwidths)
    pair_bandwidths, one_channel = cx == 0.0, channels == 1
    kept = count if pair_bandwidths else 0
    several = 0 if one_channel else kept
    own = Own(
        np.empty((count, 0 if wide else channels * stride)),
        np.empty((max(kept, 1), size)),
        np.empty((max(kept, 1), size)),
        np.empty((kept, size)),
        np.empty((kept, GROUP_ENDS), np.int64),
        np.empty((several, size)),
        np.empty((several, GROUP_ENDS), np.int64),
        np.empty((count, n_factors, 2, stride + LANES)),
        np.empty((count, n_factors)),
    )
    room = _room(longest, order)
    kernels = np.empty((2, stride + LANES))
    for i in range(count):
        frames, norms, windows = _one(series, i)
        n, packed = windows.size, own.packed[i]
        x, y = own.x[i if pair_bandwidths else 0], own.y[i if pair_bandwidths else 0]
        if not wide:
            pack(frames, order, packed)
        pair_distances(
            packed, frames, norms, windows, packed, frames, norms, windows, order, wide, room.sums, room.X, room.Y, True
        )  # fmt: skip
        triangle(room.X, n, x)
        triangle(room.Y, n, y)
        if not pair_bandwidths:
            _own_masses(x, y, n, cx, cy, kernels[0], kernels[1], own.masses[i], own.totals[i])
            continue
        used = triangle_size(n)
        group(x[:used], own.grouped_x[i], own.ends_x[i])
        if not one_channel:
            group(y[:used], own.grouped_y[i], own.ends_y[i])
    return own


class _Room(NamedTuple):
    """Buffers for the distances of one pair of series."""

    sums: Any
    X: Any
    Y: Any


@inner()
def _room(longest: int, order: int) -> Any:
    n_max = longest - order
    stride, cells = order + padded(n_max), n_max * padded(n_max)
    sums = (np.empty(longest * stride), np.empty((order + 2) * stride if order > 1 else 0), np.empty(cells))
    return _Room(sums, np.empty(cells), np.empty(cells))


@inner()
def _exponents(bandwidths: tuple[float, float]) -> tuple[float, float]:
    """Return what squared distances are multiplied by; 0 if each pair has bandwidths of its own."""
    if bandwidths[0] == 0.0:
        return 0.0, 0.0
    return -0.5 / bandwidths[0] ** 2, -0.5 / bandwidths[1] ** 2


@inner()
def _one(series: Any, i: int) -> Any:
    first, last = series.starts[i], series.starts[i + 1]
    windows = series.windows[series.window_starts[i] : series.window_starts[i + 1]]
    return series.frames[first:last], series.norms[first:last], windows


@inner()
def _pair_medians(
    p: Any, i: int, n: int, q: Any, j: int, m: int, p_sorted: Any, q_sorted: Any, X: Any, Y: Any, scratch: Any
) -> Any:
    """Median squared distances over the windows of both series, and over their successors, and how they were found."""
    count, n_own, m_own, cross = (n + m) * (n + m - 1) // 2, n * (n - 1) // 2, m * (m - 1) // 2, n * padded(m)
    x, kind_x = median_of(
        p.grouped_x[i, :n_own], p.ends_x[i], q.grouped_x[j, :m_own], q.ends_x[j], X[:cross], count, scratch
    )
    if p.grouped_y.size == 0:
        merged = scratch[: n + m]
        merge(p_sorted, q_sorted, merged)
        y, kind_y = median_squared_difference(merged)
    else:
        y, kind_y = median_of(
            p.grouped_y[i, :n_own], p.ends_y[i], q.grouped_y[j, :m_own], q.ends_y[j], Y[:cross], count, scratch
        )
    return x, kind_x, y, kind_y


@njit(nogil=True)
def block_divergences(
    a: Any,
    p: Any,
    b: Any,
    q: Any,
    order: int,
    above_diagonal: bool,
    bandwidths: tuple[float, float],
    factor: float,
    longest: int,
    logarithmic: bool,
    wide: bool,
    out: Any,
) -> Any:
    """Fill ``out[f, i, j]`` with the divergence between series i of a and series j of b at the f-th factor.

    Parameters
    ----------
    a, b : Series
        The two sides.
    p, q : Own
        What `prepare` returned for them.
    order : int
        Length of a window.
    above_diagonal : bool
        Whether a and b are the same series, so that only i < j is wanted.
    bandwidths : two floats
        Bandwidths of the kernels; 0 means the median distance of the windows of each pair.
    factor : float
        Multiplies the medians. ``out[f]`` has half the factor of ``out[f - 1]``: the exponentials are shared.
    longest : int
        Length of the longest series.
    logarithmic : bool
        Log contrast (conditional CS), or linear contrast (conditional Euclidean).
    wide : bool
        Whether frames have so many channels that their distances are best found by a matrix product.

    Returns
    -------
    array of 4 ints
        In how many pairs the median of x, and of y, fell back on a percentile (0, 1) or on 1 (2, 3).
    """
    rows, columns, channels, n_factors = a.starts.size - 1, b.starts.size - 1, a.frames.shape[1], len(out)
    n_max = longest - order
    stride = order + padded(n_max)
    room = _room(longest, order)
    X, Y, scratch = room.X, room.Y, room.sums
    cx, cy = _exponents(bandwidths)
    pair_bandwidths = cx == 0.0
    # Kernel values between one window and all others.
    kernels = np.empty((2, stride + LANES))
    k, kl = kernels[0], kernels[1]
    masses = np.empty((n_factors, 4, stride))
    candidates = np.empty((2 * n_max**2 + 2 * n_max + 512) if pair_bandwidths else 0)
    fallbacks = np.zeros(4, np.int64)
    # Only a median of several channels' distances needs those of the successors in one piece; masses do not.
    copied = pair_bandwidths and channels > 1
    for i in range(rows):
        p_frames, p_norms, p_windows = _one(a, i)
        n = p_windows.size
        for j in range(i + 1 if above_diagonal else 0, columns):
            q_frames, q_norms, q_windows = _one(b, j)
            m = q_windows.size
            width = padded(m)
            pair_distances(
                p.packed[i], p_frames, p_norms, p_windows,
                q.packed[j], q_frames, q_norms, q_windows,
                order, wide, scratch, X, Y, copied,
            )  # fmt: skip
            if pair_bandwidths:
                p_sorted = a.successors[a.window_starts[i] : a.window_starts[i + 1]]
                q_sorted = b.successors[b.window_starts[j] : b.window_starts[j + 1]]
                median_x, kind_x, median_y, kind_y = _pair_medians(
                    p, i, n, q, j, m, p_sorted, q_sorted, X, Y, candidates
                )
                if kind_x > 0:
                    fallbacks[2 * (kind_x - 1)] += 1
                if kind_y > 0:
                    fallbacks[2 * (kind_y - 1) + 1] += 1
                cx, cy = -0.5 / (median_x * factor**2), -0.5 / (median_y * factor**2)
                _own_masses(p.x[i], p.y[i], n, cx, cy, k, kl, p.masses[i], p.totals[i])
                _own_masses(q.x[j], q.y[j], m, cx, cy, k, kl, q.masses[j], q.totals[j])
            if copied or n < p_frames.shape[0] - order or m < q_frames.shape[0] - order:
                _cross_masses(X, Y, 0, width, n, m, cx, cy, k, kl, masses)
            else:
                y_start, y_step = successors_at(m, order)
                _cross_masses(X, scratch[0], y_start, y_step, n, m, cx, cy, k, kl, masses)
                # Masses only shrink with the bandwidth.
                if _underflows(masses[n_factors - 1], n, m):
                    copy_successors(scratch[0], n, m, order, Y)
            for f in range(n_factors):
                fx, fy, of = cx * 4.0**f, cy * 4.0**f, masses[f]
                pq = _log_interaction(p.masses[i, f, 0], of[0], of[1], n, X, Y, width, 1, m, fx, fy)
                qp = _log_interaction(q.masses[j, f, 0], of[2], of[3], m, X, Y, 1, width, n, fx, fy)
                if logarithmic:
                    out[f, i, j] = math.log(p.totals[i, f]) + math.log(q.totals[j, f]) - pq - qp
                else:
                    out[f, i, j] = p.totals[i, f] + q.totals[j, f] - math.exp(pq) - math.exp(qp)
    return fallbacks
