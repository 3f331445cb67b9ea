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
from condcs.timeseries._engine_medians import GROUP_ENDS, group, median_of, median_squared_difference, merge

LANES = 8
"""Rows of distances are padded to a multiple of this, so that no loop has a scalar remainder."""

_FAR = 1e150
_FAR_SQUARED = 1e300
# Below this share of the squared norms, |a|^2 + |b|^2 - 2ab has lost two digits: the distance is summed directly.
_CANCELLED = 1e-2
# Powers are not smaller than 2^-1020, and exact to the last digit above this.
_SAFE_SUM = 1e-274
_SMALLEST_SQUARE = 2.0 ** (SMALLEST_EXPONENT / 2)


class SeriesWindows(NamedTuple):
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
        ascending order. Their median distance takes a third less time in all than one found among all distances.
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
    """Room for the pairs i > j of n windows, row by row, each row padded."""
    total = 0
    for i in range(1, n):
        total += _padded(i)
    return total


# Offsets instead of slices, which cost more than a short row's work; unsigned, because numba looks after negative
# indices, and a loop with such a test does not become a vector loop. Functions of their own: within a long one these
# loops are slower by a fifth.
@inner()
def _copy(a: Any, a_start: int, out: Any, out_start: int, count: int) -> None:
    for j in range(count):
        out[uintp(out_start + j)] = a[uintp(a_start + j)]


@inner()
def _add(a: Any, a_start: int, b: Any, b_start: int, out: Any, out_start: int, count: int) -> None:
    for j in range(count):
        out[uintp(out_start + j)] = a[uintp(a_start + j)] + b[uintp(b_start + j)]


@inner()
def _add_reached(s: Any, s_start: int, rest: Any, ahead: int, behind: int, out: Any, at: int, count: int) -> None:
    for j in range(count):
        reached = rest[uintp(ahead + j)] + s[uintp(s_start + j)]
        rest[uintp(ahead + j)] = reached
        out[uintp(at + j)] = rest[uintp(behind + j)] + reached


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
            _add(s, (start + r) * stride, rest, (r + 1) * span + left, rest, r * span + left, span - left)
        _copy(rest, last, out, start * width, width)
        for j in range(span):
            rest[uintp(ahead + j)] = 0.0
        for r in range(1, min(order, n - start)):
            # Only later rows need the diagonals left of this row's first window.
            left = last - r
            row = (start + last + r) * stride + r
            for j in range(left):
                rest[uintp(ahead + j)] += s[uintp(row + j)]
            _add_reached(s, row + left, rest, ahead + left, r * span + left, out, (start + r) * width, width)


@inner()
def _keep(full: Any, first: int, full_width: int, rows: Any, columns: Any, out: Any) -> None:
    """Copy the wanted rows and columns of a padded matrix, and pad again."""
    width = _padded(columns.size)
    for i in range(rows.size):
        start, target = first + rows[i] * full_width, i * width
        for j in range(width):
            out[target + j] = full[start + columns[j]] if j < columns.size else _FAR_SQUARED


@inner()
def _pair_distances(
    a: Any, a_frames: Any, a_windows: Any, b: Any, b_frames: Any, b_windows: Any,
    order: int, wide: Any, gaps: Any, copied: bool, room: Any,
) -> Any:  # fmt: skip
    """Return the squared distances between the windows of two series, and between the frames after them.

    Both come row by row, each row padded, in ``room.pair``. Unless `copied`, the second are part of those between all
    frames; how far apart their rows are is returned too. `a` and `b` are packed frames, not used if `wide`.
    """
    s, X, Y = room.frames, room.pair[0], room.pair[1]
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
    sums = X if gaps is None else room.full
    _diagonal_sums(s, stride, order, n, width, room.rest, sums)
    if m < width:
        # The last window has no successor. It touches no padding, unlike those after it, so its column is padded here.
        for i in range(n):
            sums[i * width + m] = _FAR_SQUARED
    if gaps is not None:
        _keep(sums, 0, width, a_windows, b_windows, X)
        _keep(s, order * stride + order, stride, a_windows, b_windows, Y)
        return X, Y, _padded(b_windows.size)
    if not copied:
        return X, s[order * stride + order :], stride
    for i in range(n):
        _copy(s, (order + i) * stride + order, Y, i * width, width)
    return X, Y, width


@inner()
def _triangle(square: Any, row_step: int, n: int, out: Any) -> None:
    """Copy the cells below the diagonal, row by row, each row padded."""
    start = 0
    for i in range(1, n):
        _copy(square, i * row_step, out, start, i)
        for j in range(i, _padded(i)):
            out[uintp(start + j)] = _FAR_SQUARED
        start += _padded(i)


# --- kernel masses ----------------------------------------------------------------------------------------------------


@inner(forceinline=True, fastmath={"contract"})
def _fourth_power(value: Any) -> Any:
    # What is added to the square is lost in it, unless the sum will be found again in the log domain.
    square = value * value + _SMALLEST_SQUARE
    return square * square


# Inlined, because of a function that stands alone, a first run and one that loads the cache may use different copies:
# the compiler may reorder sums, and does not do it alike in each.
@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _add_halved(row: Any, count: int, once: Any, twice: Any, thrice: Any, four_times: Any) -> Any:
    """Add up a row of kernel values at four halvings of the bandwidth, each of which makes them fourth powers."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for j in range(count):
        value = _fourth_power(row[uintp(j)])
        a += value
        once[uintp(j)] += value
        value = _fourth_power(value)
        b += value
        twice[uintp(j)] += value
        value = _fourth_power(value)
        c += value
        thrice[uintp(j)] += value
        value = _fourth_power(value)
        d += value
        four_times[uintp(j)] += value
    return a, b, c, d


@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _masses(X: Any, Y: Any, y_step: int, n: int, m: int, cx: float, cy: float, kernels: Any, masses: Any) -> None:
    """Kernel masses of n windows over m others, and of those over the n: each cell is visited once.

    With an `m` of 0, those of n windows over one another; their distances are triangles. ``masses[f]`` holds, at the
    f-th halving of the bandwidths, A and B of the rows, and in its last two lines those of the columns; there are four
    halvings or none. `y_step`: from a row of Y to the next.
    """
    k, kl = kernels[0], kernels[1]
    width, column = _padded(m), masses.shape[1] - 2
    a_column, b_column = masses[0, column], masses[0, column + 1]
    # A window of the same series counts itself.
    masses[:] = 0.0 if m > 0 else 1.0
    sx, sy = LOG2_E * cx, LOG2_E * cy
    start, y_start = 0, 0
    for i in range(0 if m > 0 else 1, n):
        count = width if m > 0 else _padded(i)
        # One loop for each exponential: both in one need more registers than there are. Sums in the same loop: a second
        # one takes a tenth of the time.
        a, b = 0.0, 0.0
        for j in range(count):
            value = power_of_two(sx * X[uintp(start + j)])
            k[uintp(j)] = value
            a += value
            a_column[uintp(j)] += value
        for j in range(count):
            value = power_of_two(sx * X[uintp(start + j)] + sy * Y[uintp(y_start + j)])
            kl[uintp(j)] = value
            b += value
            b_column[uintp(j)] += value
        masses[0, 0, i] += a
        masses[0, 1, i] += b
        if len(masses) > 1:
            for v in range(2):
                at = column + v
                of = masses[1, at], masses[2, at], masses[3, at], masses[4, at]
                once, twice, thrice, four_times = _add_halved(kernels[v], count, *of)
                masses[1, v, i] += once
                masses[2, v, i] += twice
                masses[3, v, i] += thrice
                masses[4, v, i] += four_times
        start += count
        y_start += y_step if m > 0 else count


@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _ratios(own: Any, a: Any, b: Any, n: int) -> Any:
    """Sum over windows of B / (own A * A), and how many of the masses underflow."""
    lost, total = 0, 0.0
    for i in range(n):
        lost += (a[i] < _SAFE_SUM) | (b[i] < _SAFE_SUM)
        total += b[i] / (own[i] * a[i])
    return total, lost


@inner()
def _log_interaction(
    own: Any, a: Any, b: Any, n: int, X: Any, x_steps: Any, Y: Any, y_steps: Any, count: int, cx: float, cy: float
) -> Any:
    """Log of the sum over windows of B / (own A * A); masses that underflow are computed again in the log domain.

    There B / A is an average over Y with weights by X in units of the largest, not the difference of log B and log A:
    far away both are so large that Y is lost in them.
    """
    total, lost = _ratios(own, a, b, n)
    if lost == 0:
        return math.log(total)
    highest, total = -np.inf, 0.0
    for i in range(n):
        if min(a[i], b[i]) >= _SAFE_SUM:
            term = math.log(b[i] / a[i])
        else:
            x_start, y_start = i * x_steps[0], i * y_steps[0]
            nearest = X[x_start]
            for k in range(1, count):
                nearest = min(nearest, X[x_start + k * x_steps[1]])
            peak, mass, weighted = -np.inf, 0.0, 0.0
            for k in range(count):
                exponent = cx * (X[x_start + k * x_steps[1]] - nearest)
                peak = max(peak, exponent + cy * Y[y_start + k * y_steps[1]])
                mass += math.exp(exponent)
            for k in range(count):
                exponent = cx * (X[x_start + k * x_steps[1]] - nearest)
                weighted += math.exp(exponent + cy * Y[y_start + k * y_steps[1]] - peak)
            term = peak + math.log(weighted) - math.log(mass)
        term -= math.log(own[i])
        if term > highest:
            total *= math.exp(highest - term)
            highest = term
        total += math.exp(term - highest)
    return highest + math.log(total)


# --- blocks -----------------------------------------------------------------------------------------------------------


class _Room(NamedTuple):
    """Buffers for one pair of series: distances between frames, running sums, all windows, x and y of those used."""

    frames: Any
    rest: Any
    full: Any
    pair: Any


class _Own(NamedTuple):
    """What concerns one series alone, for a run of series; arrays that are not needed are empty.

    Attributes
    ----------
    packed : array, shape (count, :)
        The frames, as `_pack` leaves them.
    inside : array, shape (2, count, :)
        Squared distances of a series' windows among themselves, and of their successors (see `_triangle`); with known
        bandwidths only those of one series.
    grouped, ends : array, shape (1 or 2, count, :)
        The same grouped by magnitude, for medians of pairs.
    masses, totals : array, shape (count, factors, 2, :) and (count, factors)
        Kernel masses of the windows over their own series, and the sum of B / A^2.
    """

    packed: Any
    inside: Any
    grouped: Any
    ends: Any
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
        Multiplies the bandwidths. ``out[f]``, of up to five, has half the factor of ``out[f - 1]``: the exponentials
        are shared.
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
    line = _padded(n_max)
    stride, cells, size = order + line, n_max * line, _triangle_size(n_max)
    room = _Room(np.empty(longest * stride), np.empty((order + 2) * stride), np.empty(cells), np.empty((2, cells)))
    pair_bandwidths = bandwidths[0] == 0.0
    grouped, levels = 2 if channels > 1 else 1, 5 if n_factors > 1 else 1
    kept = count if pair_bandwidths else 0
    own = _Own(
        np.empty((count, channels * stride if wide is None else 0)),
        np.empty((2, max(1, kept), size)),
        np.empty((grouped, kept, size)),
        np.empty((grouped, kept, GROUP_ENDS), np.int64),
        np.empty((count, levels, 2, line)),
        np.empty((count, n_factors)),
    )
    # Kernel values between one window and all others.
    kernels = np.empty((2, line))
    masses = np.empty((1, levels, 4, line))[0]
    candidates = np.empty((2 * n_max**2 + 2 * n_max + 512) if pair_bandwidths else 0)
    squares, crossed = np.array([bandwidths[0] ** 2, bandwidths[1] ** 2]), np.empty(2)
    if wide is None:
        for i in range(count):
            _pack(_one(series, i)[0], order, own.packed[i])
    # First each series with itself, then the pairs. Known bandwidths give the masses of a series over itself at once.
    row, column = 0, -1
    for task in range(count + rows * columns):
        i, j = task, task
        if task >= count:
            # Divisions took a twentieth of the time of short series.
            row, column = (row, column + 1) if column + 1 < columns else (row + 1, 0)
            i, j = row, column + count - columns
            if i >= j:
                continue
        p_frames, p_windows = _one(series, i)
        q_frames, q_windows = _one(series, j)
        n, m = p_windows.size, q_windows.size
        width = _padded(m)
        # The median over several channels goes through the distances of the successors, in one piece.
        copied = pair_bandwidths and channels > 1
        X, Y, y_step = _pair_distances(
            own.packed[i], p_frames, p_windows, own.packed[j], q_frames, q_windows, order, wide, gaps, copied, room
        )
        if i == j:
            place, used = i if pair_bandwidths else 0, _triangle_size(n)
            # Loops over x and y: what is called in two places may be compiled twice.
            for v in range(2):
                _triangle(X if v == 0 else Y, width if v == 0 else y_step, n, own.inside[v, place])
                if pair_bandwidths and v < grouped:
                    group(own.inside[v, i, :used], own.grouped[v, i], own.ends[v, i])
            if pair_bandwidths:
                continue
        elif pair_bandwidths:
            pairs, p_pairs, q_pairs, cells = (n + m) * (n + m - 1) // 2, n * (n - 1) // 2, m * (m - 1) // 2, n * width
            for v in range(2):
                if v < grouped:
                    squares[v], kind = median_of(
                        own.grouped[v, i, :p_pairs], own.ends[v, i], own.grouped[v, j, :q_pairs], own.ends[v, j],
                        room.pair[v, :cells], pairs, candidates,
                    )  # fmt: skip
                else:
                    first, second, merged = series.window_starts[i], series.window_starts[j], candidates[: n + m]
                    merge(series.successors[first : first + n], series.successors[second : second + m], merged)
                    squares[v], kind = median_squared_difference(merged)
                if kind > 0:
                    fallbacks[2 * (kind - 1) + v] += 1
        cx, cy = -0.5 / (squares[0] * factor**2), -0.5 / (squares[1] * factor**2)
        # One call for the masses of both series over themselves and of one over the other: it is inlined.
        for step in range(3):
            at, windows = (i, n) if step == 0 else (j, m)
            if not pair_bandwidths and (step > 0 if i == j else step < 2):
                continue
            place = at if pair_bandwidths else 0
            x, y, others, into = own.inside[0, place], own.inside[1, place], 0, own.masses[at]
            if step == 2:
                x, y, windows, others, into = X, Y, n, m, masses
            _masses(x, y, y_step, windows, others, cx, cy, kernels, into)
            if step < 2:
                for f in range(n_factors):
                    own.totals[at, f] = _ratios(into[f, 0], into[f, 0], into[f, 1], windows)[0]
        if i == j:
            continue
        for f in range(n_factors):
            fx, fy, of = cx * 4.0**f, cy * 4.0**f, masses[f]
            p, q = own.totals[i, f], own.totals[j, f]
            for side in range(2):
                at, count_own, count_other = (i, n, m) if side == 0 else (j, m, n)
                x_steps, y_steps = ((width, 1), (y_step, 1)) if side == 0 else ((1, width), (1, y_step))
                crossed[side] = _log_interaction(
                    own.masses[at, f, 0], of[2 * side], of[2 * side + 1], count_own, X, x_steps, Y, y_steps,
                    count_other, fx, fy,
                )  # fmt: skip
            if logarithmic:
                out[f, i, column] = math.log(p) + math.log(q) - crossed[0] - crossed[1]
            else:
                out[f, i, column] = p + q - math.exp(crossed[0]) - math.exp(crossed[1])
