"""The compiled engine: conditional divergences between all pairs of two blocks of short series.

It releases the interpreter lock, so blocks run on threads. The result of a pair depends on that pair alone, not on how
the work is divided.

Windows of a series overlap, so their distances are sums down the diagonals of one matrix: the distances between frames.
Rows are padded to whole vectors with a frame so far away that it has no kernel mass and lies beyond every median.

Compiling takes longer than most matrices. So there is one function that Python calls, with few arrays; loops that are
inlined are called from one place only; and what few series need (`wide`, `gaps`) is left out by a branch on None.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uintp

from condcs._core.compiling import inner, njit
from condcs._kernels.compiled import LOG2_E, SMALLEST_EXPONENT, power_of_two
from condcs._kernels.compiled_medians import GROUP_ENDS, group, median_of, median_squared_difference, merge

LANES = 8
"""Rows of distances are padded to a multiple of this, so that no loop has a scalar remainder."""

_FAR = 1e150
_FAR_SQUARED = 1e300
# Below this share of the squared norms, |a|^2 + |b|^2 - 2ab has lost two digits: the distance is summed directly.
_CANCELLED = 1e-2
# Sums above this hold no digits lost to gradual underflow.
_SAFE_SUM = 1e-290
# As a plain 1, a constant with a type of its own, a function would be compiled once more for it.
_ONE = np.int64(1)
# A power is not raised to the fourth below this: the result would be below the smallest one.
_SMALLEST_ROOT = 2.0 ** (SMALLEST_EXPONENT / 4)


class Series(NamedTuple):
    """A run of series and their windows, as compiled code takes them.

    Attributes
    ----------
    frames : array, shape (total time, channels)
        The series, one after the other.
    starts : array
        Where each series starts, and the end of the last.
    windows, window_starts : array
        The windows to use of each series (times counted from its start), one series after the other.
    successors : array
        If there is one channel and pairs have bandwidths of their own: what follows the windows of each series, in
        ascending order.
    """

    frames: Any
    starts: Any
    windows: Any
    window_starts: Any
    successors: Any


# --- distances between windows ----------------------------------------------------------------------------------------


@inner()
def _padded(n: int) -> int:
    return (n + LANES - 1) // LANES * LANES


@inner()
def _triangle_size(n: int) -> int:
    """Room for the pairs i < j of n windows, row by row, each row padded."""
    total = 0
    for i in range(n - 1):
        total += _padded(n - 1 - i)
    return total


# Offsets instead of slices, which cost more than a short row's work; unsigned, because numba looks after negative
# indices, and a loop with such a test does not become a vector loop.
@inner()
def _copy(a: Any, a_start: int, out: Any, out_start: int, count: int) -> None:
    for j in range(count):
        out[uintp(out_start + j)] = a[uintp(a_start + j)]


@inner()
def _pack(frames: Any, order: int, out: Any) -> None:
    """Turn frames (time x channels) into padded channels; gaps become 0, and no window that touches one is used."""
    length, channels = frames.shape
    stride = order + _padded(length - order)
    for c in range(channels):
        for t in range(stride):
            value = frames[t, c] if t < length else _FAR
            out[c * stride + t] = 0.0 if np.isnan(value) else value


# Inlined for the same digits at the first run and later: see the masses.
@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _squared_distance(a: Any, b: Any) -> float:
    total = 0.0
    for c in range(a.size):
        difference = a[c] - b[c]
        total += difference * difference
    return total


@inner()
def _wide_frame_distances(a: Any, b: Any, stride: int, s: Any) -> None:
    """Fill s (rows x stride) by one matrix product of the frames (time x channels)."""
    products = np.dot(a, b.T)
    rows, columns = products.shape
    origin, norms = np.zeros(a.shape[1]), np.empty(columns)
    for j in range(columns):
        norms[j] = _squared_distance(b[j], origin)
    for i in range(rows):
        row, own = s[i * stride : (i + 1) * stride], _squared_distance(a[i], origin)
        for j in range(columns):
            squared = own + norms[j] - 2.0 * products[i, j]
            row[j] = squared if squared > _CANCELLED * (own + norms[j]) else _squared_distance(a[i], b[j])
        for j in range(columns, stride):
            row[j] = _FAR_SQUARED


@inner()
def _diagonal_sums(s: Any, stride: int, order: int, n: int, width: int, rest: Any, out: Any) -> None:
    """Sum `order` terms down the diagonals of s, into out (n x width).

    Rows come in blocks of `order`. A window's sum is what remains of its own block plus what it reaches of the next:
    running sums of each, so three additions a cell whatever the order, and no subtraction that could cancel.
    """
    if order == 1:
        for i in range(n):
            _copy(s, i * stride, out, i * width, width)
        return
    # Running sums are kept by diagonal (column - row + order - 1), so that a sum is read back where it was written.
    last = order - 1
    span = last + width
    ahead = order * span
    for start in range(0, n, order):
        _copy(s, (start + last) * stride, rest, last * span, span)
        for r in range(order - 2, -1, -1):
            left = last - r
            row, below, into = (start + r) * stride, (r + 1) * span + left, r * span + left
            for j in range(span - left):
                rest[uintp(into + j)] = s[uintp(row + j)] + rest[uintp(below + j)]
        _copy(rest, last, out, start * width, width)
        for j in range(span):
            rest[uintp(ahead + j)] = 0.0
        for r in range(1, min(order, n - start)):
            # Only later rows need the diagonals left of this row's first window.
            left = last - r
            row = (start + last + r) * stride + r
            for j in range(left):
                rest[uintp(ahead + j)] += s[uintp(row + j)]
            row, over, behind, at = row + left, ahead + left, r * span + left, (start + r) * width
            for j in range(width):
                reached = rest[uintp(over + j)] + s[uintp(row + j)]
                rest[uintp(over + j)] = reached
                out[uintp(at + j)] = rest[uintp(behind + j)] + reached


@inner()
def _keep(full: Any, first: int, full_width: int, rows: Any, columns: Any, out: Any) -> None:
    """Copy the wanted rows and columns of a padded matrix, and pad again."""
    width = _padded(columns.size)
    for i in range(rows.size):
        start, target = first + rows[i] * full_width, i * width
        for j in range(width):
            out[target + j] = full[start + columns[j]] if j < columns.size else _FAR_SQUARED


@inner()
def _copy_successors(s: Any, n: int, m: int, order: int, Y: Any) -> None:
    """Copy the distances between successors from those of all frames, row by row."""
    width = _padded(m)
    for i in range(n):
        _copy(s, (order + i) * (order + width) + order, Y, i * width, width)


@inner()
def _pair_distances(
    a: Any, a_frames: Any, a_windows: Any, b: Any, b_frames: Any, b_windows: Any,
    order: int, wide: Any, gaps: Any, room: Any, copied: bool,
) -> bool:  # fmt: skip
    """Squared distances ``room.X`` between the windows of two series and ``room.Y`` between the frames after them.

    Both come row by row, each row padded. `a` and `b` are packed frames, not used if `wide`. Unless `copied`, and if
    there are no gaps, Y is left where it is in ``room.frames``; returns whether it has been copied.
    """
    s = room.frames
    n, m = a_frames.shape[0] - order, b_frames.shape[0] - order
    width = _padded(m)
    stride, a_stride = order + width, order + _padded(n)
    if wide is None:
        for i in range(n + order):
            row = s[i * stride : (i + 1) * stride]
            own, other = a[i], b[:stride]
            for j in range(stride):
                difference = own - other[j]
                row[j] = difference * difference
            for c in range(1, a_frames.shape[1]):
                own, other = a[c * a_stride + i], b[c * stride : (c + 1) * stride]
                for j in range(stride):
                    difference = own - other[j]
                    row[j] += difference * difference
    else:
        _wide_frame_distances(a_frames, b_frames, stride, s)
    sums = room.X if gaps is None else room.full
    _diagonal_sums(s, stride, order, n, width, room.rest, sums)
    if m < width:
        # The last window has no successor. It touches no padding, unlike those after it, so its column is padded here.
        for i in range(n):
            sums[i * width + m] = _FAR_SQUARED
    if gaps is not None:
        _keep(sums, 0, width, a_windows, b_windows, room.X)
        _keep(s, order * stride + order, stride, a_windows, b_windows, room.Y)
        return True
    if copied:
        _copy_successors(s, n, m, order, room.Y)
    return copied


@inner()
def _triangle(square: Any, n: int, out: Any) -> None:
    """Copy the cells above the diagonal, row by row, each row padded."""
    width = _padded(n)
    start = 0
    for i in range(n - 1):
        count = n - 1 - i
        _copy(square, i * width + i + 1, out, start, count)
        for j in range(count, _padded(count)):
            out[uintp(start + j)] = _FAR_SQUARED
        start += _padded(count)


# --- kernel masses ----------------------------------------------------------------------------------------------------


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
def _masses(
    X: Any, Y: Any, y_start: int, y_step: int, n: int, m: int, cx: float, cy: float, kernels: Any, masses: Any
) -> None:
    """Kernel masses of n windows over m others, and of those over the n: each cell is visited once.

    With an `m` of 0, those of n windows over one another; their distances are triangles. ``masses[f]`` holds, at the
    f-th halving of the bandwidths, A and B of the rows, and in its last two lines those of the columns.
    """
    k, kl = kernels[0], kernels[1]
    width, column = _padded(m), masses.shape[1] - 2
    # A window of the same series counts itself.
    masses[:, :, : max(n, width)] = 0.0 if m > 0 else 1.0
    sx, sy = LOG2_E * cx, LOG2_E * cy
    start = 0
    for i in range(n if m > 0 else n - 1):
        count, first = (width, 0) if m > 0 else (_padded(n - 1 - i), i + 1)
        y = y_start + i * y_step if m > 0 else start
        # One loop for each exponential: both in one need more registers than there are.
        for j in range(count):
            k[j] = power_of_two(sx * X[uintp(start + j)])
        for j in range(count):
            kl[j] = power_of_two(sx * X[uintp(start + j)] + sy * Y[uintp(y + j)])
        for f in range(len(masses)):
            if f > 0:
                _halve_bandwidth(k, count)
                _halve_bandwidth(kl, count)
            masses[f, 0, i] += _add_row(k, count, masses[f, column], first)
            masses[f, 1, i] += _add_row(kl, count, masses[f, column + 1], first)
        start += count


@inner()
def _underflows(masses: Any, n: int, m: int) -> bool:
    lowest = 1.0
    for i in range(n):
        lowest = min(lowest, min(masses[0, i], masses[1, i]))
    for j in range(m):
        lowest = min(lowest, min(masses[2, j], masses[3, j]))
    return lowest < _SAFE_SUM


@inner()
def _log_interaction(
    own: Any, a: Any, b: Any, n: int, X: Any, Y: Any, row_step: int, step: int, count: int, cx: float, cy: float
) -> Any:
    """Log of the sum over windows of B / (own A * A); masses that underflow are computed again in the log domain.

    There B / A is an average over Y with weights by X in units of the largest, not the difference of log B and log A:
    far away both are so large that Y is lost in them.
    """
    lowest, total = 1.0, 0.0
    for i in range(n):
        lowest = min(lowest, min(a[i], b[i]))
        total += b[i] / (own[i] * a[i])
    if lowest >= _SAFE_SUM:
        return math.log(total)
    highest, total = -np.inf, 0.0
    for i in range(n):
        start = i * row_step
        if min(a[i], b[i]) >= _SAFE_SUM:
            term = math.log(b[i] / a[i])
        else:
            nearest = X[start]
            for k in range(1, count):
                nearest = min(nearest, X[start + k * step])
            peak, mass, weighted = -np.inf, 0.0, 0.0
            for k in range(count):
                at = start + k * step
                peak = max(peak, cx * (X[at] - nearest) + cy * Y[at])
                mass += math.exp(cx * (X[at] - nearest))
            for k in range(count):
                at = start + k * step
                weighted += math.exp(cx * (X[at] - nearest) + cy * Y[at] - peak)
            term = peak + math.log(weighted) - math.log(mass)
        term -= math.log(own[i])
        if term > highest:
            total *= math.exp(highest - term)
            highest = term
        total += math.exp(term - highest)
    return highest + math.log(total)


# --- blocks -----------------------------------------------------------------------------------------------------------


class _Room(NamedTuple):
    """Buffers for the distances of one pair of series: between frames, running sums, all windows, those used."""

    frames: Any
    rest: Any
    full: Any
    X: Any
    Y: Any


class _Own(NamedTuple):
    """What concerns one series alone, for a run of series; arrays that are not needed are empty.

    Attributes
    ----------
    packed : array, shape (count, :)
        The frames, as `_pack` leaves them.
    x, y : array, shape (count, :)
        Squared distances of a series' windows among themselves, and of their successors (see `_triangle`); with known
        bandwidths only those of one series.
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


@inner()
def _one(series: Any, i: int) -> Any:
    windows = series.windows[series.window_starts[i] : series.window_starts[i + 1]]
    return series.frames[series.starts[i] : series.starts[i + 1]], windows


@njit(nogil=True)
def block_divergences(
    series: Any,
    order: int,
    bandwidths: tuple[float, float],
    factor: float,
    logarithmic: bool,
    wide: Any,
    gaps: Any,
    out: Any,
    fallbacks: Any,
) -> None:
    """Fill ``out[f, i, j]`` with the divergence between row series i and column series j at the f-th factor.

    Parameters
    ----------
    series : Series
        The series of the rows, and after them those of the columns. If there are as many series as rows, the columns
        are the same series, and only i < j is wanted.
    order : int
        Length of a window.
    bandwidths : two floats
        Bandwidths of the kernels; 0 means the median distance of the windows of each pair.
    factor : float
        Multiplies the bandwidths. ``out[f]`` has half the factor of ``out[f - 1]``: the exponentials are shared.
    logarithmic : bool
        Log contrast (conditional CS), or linear contrast (conditional Euclidean).
    wide : True or None
        True if frames have so many channels that their distances are best found by a matrix product.
    gaps : True or None
        None if all windows of every series are used.
    out : array, shape (factors, rows, columns)
        The result.
    fallbacks : array of 4 ints
        Counts in how many pairs the median of x, and of y, fell back on a percentile (0, 1) or on 1 (2, 3).
    """
    n_factors, rows, columns = out.shape
    count, channels = series.starts.size - 1, series.frames.shape[1]
    longest = 0
    for i in range(count):
        longest = max(longest, series.starts[i + 1] - series.starts[i])
    n_max = longest - order
    stride, cells, size = order + _padded(n_max), n_max * _padded(n_max), _triangle_size(n_max)
    room = _Room(
        np.empty(longest * stride), np.empty((order + 2) * stride), np.empty(cells), np.empty(cells), np.empty(cells)
    )
    X, Y = room.X, room.Y
    pair_bandwidths = bandwidths[0] == 0.0
    # Only a median of several channels' distances needs those of the successors in one piece; masses do not.
    several = pair_bandwidths and channels > 1
    kept = count if pair_bandwidths else 0
    own = _Own(
        np.empty((count, channels * stride if wide is None else 0)),
        np.empty((max(1, kept), size)),
        np.empty((max(1, kept), size)),
        np.empty((kept, size)),
        np.empty((kept, GROUP_ENDS), np.int64),
        np.empty((kept if several else 0, size)),
        np.empty((kept if several else 0, GROUP_ENDS), np.int64),
        np.empty((count, n_factors, 2, stride + LANES)),
        np.empty((count, n_factors)),
    )
    # Kernel values between one window and all others.
    kernels = np.empty((2, stride + LANES))
    masses = np.empty((1, n_factors, 4, stride))[0]
    candidates = np.empty((2 * n_max**2 + 2 * n_max + 512) if pair_bandwidths else 0)
    square_x, square_y = bandwidths[0] ** 2, bandwidths[1] ** 2
    if wide is None:
        for i in range(count):
            _pack(_one(series, i)[0], order, own.packed[i])
    # First each series with itself, then the pairs. Known bandwidths give the masses of a series over itself at once.
    for task in range(count + rows * columns):
        i, j = task, task
        if task >= count:
            i, j = (task - count) // columns, (task - count) % columns + count - columns
            if i >= j:
                continue
        p_frames, p_windows = _one(series, i)
        q_frames, q_windows = _one(series, j)
        n, m = p_windows.size, q_windows.size
        width = _padded(m)
        copied = _pair_distances(
            own.packed[i], p_frames, p_windows, own.packed[j], q_frames, q_windows, order, wide, gaps, room,
            several or i == j,
        )  # fmt: skip
        if i == j:
            place = i if pair_bandwidths else 0
            _triangle(X, n, own.x[place])
            _triangle(Y, n, own.y[place])
            used = _triangle_size(n)
            if pair_bandwidths:
                group(own.x[i, :used], own.grouped_x[i], own.ends_x[i])
            if several:
                group(own.y[i, :used], own.grouped_y[i], own.ends_y[i])
            if pair_bandwidths:
                continue
        elif pair_bandwidths:
            pairs, p_pairs, q_pairs, cells = (n + m) * (n + m - 1) // 2, n * (n - 1) // 2, m * (m - 1) // 2, n * width
            square_x, kind_x = median_of(
                own.grouped_x[i, :p_pairs], own.ends_x[i], own.grouped_x[j, :q_pairs], own.ends_x[j],
                X[:cells], pairs, candidates,
            )  # fmt: skip
            if several:
                square_y, kind_y = median_of(
                    own.grouped_y[i, :p_pairs], own.ends_y[i], own.grouped_y[j, :q_pairs], own.ends_y[j],
                    Y[:cells], pairs, candidates,
                )  # fmt: skip
            else:
                first, second, merged = series.window_starts[i], series.window_starts[j], candidates[: n + m]
                merge(series.successors[first : first + n], series.successors[second : second + m], merged)
                square_y, kind_y = median_squared_difference(merged)
            if kind_x > 0:
                fallbacks[2 * (kind_x - 1)] += 1
            if kind_y > 0:
                fallbacks[2 * (kind_y - 1) + 1] += 1
        cx, cy = -0.5 / (square_x * factor**2), -0.5 / (square_y * factor**2)
        # One call for the masses of both series over themselves and of one over the other: it is inlined.
        for step in range(3):
            at, windows = (i, n) if step == 0 else (j, m)
            if not pair_bandwidths and (step > 0 if i == j else step < 2):
                continue
            place = at if pair_bandwidths else 0
            x, y, y_start, y_step, others, into = own.x[place], own.y[place], 0, width, 0, own.masses[at]
            if step == 2:
                x, y, windows, others, into = X, Y, n, m, masses
                if not copied:
                    y, y_step = room.frames, order + width
                    y_start = y_step * order + order
            _masses(x, y, y_start, y_step, windows, others, cx, cy, kernels, into)
            if step < 2:
                for f in range(n_factors):
                    total = 0.0
                    for t in range(windows):
                        total += into[f, 1, t] / (into[f, 0, t] * into[f, 0, t])
                    own.totals[at, f] = total
        if i == j:
            continue
        # Masses only shrink with the bandwidth.
        if not copied and _underflows(masses[n_factors - 1], n, m):
            _copy_successors(room.frames, n, m, order, Y)
        for f in range(n_factors):
            fx, fy, of = cx * 4.0**f, cy * 4.0**f, masses[f]
            pq = _log_interaction(own.masses[i, f, 0], of[0], of[1], n, X, Y, width, _ONE, m, fx, fy)
            qp = _log_interaction(own.masses[j, f, 0], of[2], of[3], m, X, Y, _ONE, width, n, fx, fy)
            p, q = own.totals[i, f], own.totals[j, f]
            column = j - (count - columns)
            if logarithmic:
                out[f, i, column] = math.log(p) + math.log(q) - pq - qp
            else:
                out[f, i, column] = p + q - math.exp(pq) - math.exp(qp)
