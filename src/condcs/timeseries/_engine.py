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
from condcs.timeseries._engine_medians import (
    GROUP_ENDS,
    LEAST_SCRATCH,
    group,
    median_of,
    median_squared_difference,
    merge,
)

LANES = 8
"""Rows of distances are padded to a multiple of this, so that no loop has a scalar remainder: the doubles of the widest
vectors there are (AVX-512)."""

# Value of a frame that is padding. Its squared distance to any series that the engine takes (below 1e140) is finite
# and above the 1e290 beyond which medians count nothing; its kernel value is 0.
_FAR = 1e150
# The distance of a window to one that is padding.
_FAR_SQUARED = 1e300
# Below this share of the squared norms, |a|^2 + |b|^2 - 2ab has lost two digits: the distance is summed directly.
_CANCELLED = 1e-2
# Powers are not smaller than 2^-1020, about 1e-307, even where they should be 0. A sum above this is exact to the last
# digit with thousands of such terms in it.
_SAFE_SUM = 1e-274
# Added to a square so that the fourth power is not smaller than 2^-1020 either.
_SMALLEST_SQUARE = 2.0 ** (SMALLEST_EXPONENT / 2)
# The bandwidths of one pass, its levels: the factor, and four halvings of it.
_LEVELS = 5


class SeriesWindows(NamedTuple):
    """A run of series and their windows, as compiled code takes them.

    Attributes
    ----------
    frames : array, shape (total time, channels)
        The series, one after the other.
    frame_offsets : array, shape (count + 1,)
        Series i has the frames from ``frame_offsets[i]`` to ``frame_offsets[i + 1]``.
    window_times : array
        Times at which the windows to use start, counted from the start of their series, one series after the other.
    window_offsets : array, shape (count + 1,)
        Series i has the windows from ``window_offsets[i]`` to ``window_offsets[i + 1]``.
    successors : array
        If there is one channel and pairs have bandwidths of their own: what follows the windows of each series, in
        ascending order. Their median distance takes a third less time in all than one found among all distances.
    """

    frames: Any
    frame_offsets: Any
    window_times: Any
    window_offsets: Any
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
def _add_reached(s: Any, s_start: int, sums: Any, ahead: int, behind: int, out: Any, at: int, count: int) -> None:
    for j in range(count):
        reached = sums[uintp(ahead + j)] + s[uintp(s_start + j)]
        sums[uintp(ahead + j)] = reached
        out[uintp(at + j)] = sums[uintp(behind + j)] + reached


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
        row, norm = s[i * stride : (i + 1) * stride], _squared_distance(a[i], origin)
        for j in range(columns):
            squared = norm + norms[j] - 2.0 * products[i, j]
            row[j] = squared if squared > _CANCELLED * (norm + norms[j]) else _squared_distance(a[i], b[j])
        for j in range(columns, stride):
            row[j] = _FAR_SQUARED


@inner()
def _diagonal_sums(s: Any, stride: int, order: int, n: int, width: int, running: Any, out: Any) -> None:
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
        _copy(s, (start + last) * stride, running, last * span, span)
        for r in range(order - 2, -1, -1):
            first = last - r
            _add(s, (start + r) * stride, running, (r + 1) * span + first, running, r * span + first, span - first)
        _copy(running, last, out, start * width, width)
        for j in range(span):
            running[uintp(ahead + j)] = 0.0
        for r in range(1, min(order, n - start)):
            # Only later rows need the diagonals before that of this row's first window.
            first = last - r
            row = (start + last + r) * stride + r
            for j in range(first):
                running[uintp(ahead + j)] += s[uintp(row + j)]
            _add_reached(s, row + first, running, ahead + first, r * span + first, out, (start + r) * width, width)


@inner()
def _copy_windows(full: Any, first: int, full_width: int, rows: Any, columns: Any, out: Any) -> None:
    """Copy the wanted rows and columns of a padded matrix, and pad again."""
    width = _padded(columns.size)
    for i in range(rows.size):
        start, target = first + rows[i] * full_width, i * width
        for j in range(width):
            out[target + j] = full[start + columns[j]] if j < columns.size else _FAR_SQUARED


@inner()
def _pair_distances(
    a_frames: Any, a_windows: Any, a: Any, b_frames: Any, b_windows: Any, b: Any,
    order: int, wide: Any, gaps: Any, copied: bool, buffers: Any,
) -> Any:  # fmt: skip
    """Return the squared distances between the windows of two series, and between the frames after them.

    Both come row by row, each row padded, in ``buffers.pair``. Unless `copied`, the second are part of those between
    all frames; how far apart their rows are is returned too. `a` and `b` are packed frames, not used if `wide`.
    """
    s, X, Y = buffers.frames, buffers.pair[0], buffers.pair[1]
    n, m = a_frames.shape[0] - order, b_frames.shape[0] - order
    width = _padded(m)
    stride, a_stride = order + width, order + _padded(n)
    if wide is None:
        for i in range(n + order):
            row = s[i * stride : (i + 1) * stride]
            frame, others = a[i], b[:stride]
            for j in range(stride):
                difference = frame - others[j]
                row[j] = difference * difference
            for c in range(1, a_frames.shape[1]):
                frame, others = a[c * a_stride + i], b[c * stride : (c + 1) * stride]
                for j in range(stride):
                    difference = frame - others[j]
                    row[j] += difference * difference
    else:
        _wide_frame_distances(a_frames, b_frames, stride, s)
    sums = X if gaps is None else buffers.all_windows
    _diagonal_sums(s, stride, order, n, width, buffers.running_sums, sums)
    if m < width:
        # The last window has no successor. It touches no padding, unlike those after it, so its column is padded here.
        for i in range(n):
            sums[i * width + m] = _FAR_SQUARED
    if gaps is not None:
        _copy_windows(sums, 0, width, a_windows, b_windows, X)
        _copy_windows(s, order * stride + order, stride, a_windows, b_windows, Y)
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

    Kernels are exp(cx X) and exp(cx X + cy Y). ``masses[f]`` holds, at the f-th halving of the bandwidths, A (the sums
    of k on x) and B (the sums of k on x times k on y); there are four halvings or none. Of two series it has the lines
    A and B of the rows, and then A and B of the columns. `y_step`: from a row of Y to the next.

    With an `m` of 0: the masses of n windows over one another, whose distances are triangles of the pairs i > j. Then
    ``masses[f]`` has two lines alone, A and B, to which rows and columns add alike: the kernel value of a pair counts
    for window i, whose row it is in, and for window j, whose column it is in.
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
def _ratios(self_masses: Any, a: Any, b: Any, n: int) -> Any:
    """Sum of B / (A over the own series * A) over n windows, and how many of them have masses that underflow."""
    n_underflown, total = 0, 0.0
    for i in range(n):
        n_underflown += (a[i] < _SAFE_SUM) | (b[i] < _SAFE_SUM)
        total += b[i] / (self_masses[i] * a[i])
    return total, n_underflown


@inner()
def _log_ratio(
    X: Any, x_start: int, x_step: int, Y: Any, y_start: int, y_step: int, count: int, cx: float, cy: float
) -> Any:
    """Log of B / A of one window over `count` others, in the log domain.

    B / A is an average over Y with weights by X in units of the largest, not the difference of log B and log A: far
    away both are so large that Y is lost in them.
    """
    nearest = X[x_start]
    for k in range(1, count):
        nearest = min(nearest, X[x_start + k * x_step])
    # The largest exponent of B, for a sum that neither overflows nor vanishes; and A in units of its largest term.
    peak, mass, weighted = -np.inf, 0.0, 0.0
    for k in range(count):
        exponent = cx * (X[x_start + k * x_step] - nearest)
        peak = max(peak, exponent + cy * Y[y_start + k * y_step])
        mass += math.exp(exponent)
    for k in range(count):
        exponent = cx * (X[x_start + k * x_step] - nearest)
        weighted += math.exp(exponent + cy * Y[y_start + k * y_step] - peak)
    return peak + math.log(weighted) - math.log(mass)


@inner()
def _log_interaction(
    self_masses: Any,
    a: Any,
    b: Any,
    n: int,
    X: Any,
    x_steps: Any,
    Y: Any,
    y_steps: Any,
    count: int,
    cx: float,
    cy: float,
) -> Any:
    """Log of the sum of B / (A over the own series * A) over n windows, A and B those over `count` others.

    Masses that underflow are computed again in the log domain. Each of `x_steps` and `y_steps` is the way in X, or in
    Y, from a window to the next, and from one of the others to the next.
    """
    total, n_underflown = _ratios(self_masses, a, b, n)
    if n_underflown == 0:
        return math.log(total)
    # A sum in units of its largest term so far, which is exp(highest).
    highest, total = -np.inf, 0.0
    for i in range(n):
        if min(a[i], b[i]) >= _SAFE_SUM:
            term = math.log(b[i] / a[i])
        else:
            term = _log_ratio(X, i * x_steps[0], x_steps[1], Y, i * y_steps[0], y_steps[1], count, cx, cy)
        term -= math.log(self_masses[i])
        if term > highest:
            total *= math.exp(highest - term)
            highest = term
        total += math.exp(term - highest)
    return highest + math.log(total)


# --- blocks -----------------------------------------------------------------------------------------------------------


class _Buffers(NamedTuple):
    """Scratch for one pair of series, as large as the longest series need.

    Attributes
    ----------
    frames : array
        Squared distances between the frames of two series.
    running_sums : array
        Those of `_diagonal_sums`.
    all_windows : array
        Squared distances between all windows, of which some are not used.
    pair : array, shape (2, :)
        Squared distances between the windows that are used, and between their successors.
    """

    frames: Any
    running_sums: Any
    all_windows: Any
    pair: Any


class _SelfComparisons(NamedTuple):
    """What concerns each series by itself, for a run of series; arrays that are not needed are empty.

    Attributes
    ----------
    packed : array, shape (count, :)
        The frames, as `_pack` leaves them.
    distances : array, shape (2, count, :)
        Squared distances of a series' windows among themselves, and of their successors (see `_triangle`); with known
        bandwidths only those of one series.
    grouped : array, shape (1 or 2, count, :)
        The same grouped by magnitude, for medians of pairs; of one channel only those of the windows.
    group_ends : array, shape (1 or 2, count, GROUP_ENDS)
        Where the groups end, as `group` has it.
    masses : array, shape (count, levels, 2, :)
        Kernel masses A and B of the windows over their own series, at each level of the bandwidths.
    totals : array, shape (count, factors)
        The sum of B / A^2 over the windows.
    """

    packed: Any
    distances: Any
    grouped: Any
    group_ends: Any
    masses: Any
    totals: Any


@inner(inline="always")
def _frames_of(series: Any, i: int) -> Any:
    """Return the frames of series i, (time, channels)."""
    return series.frames[series.frame_offsets[i] : series.frame_offsets[i + 1]]


@inner(inline="always")
def _windows_of(series: Any, i: int) -> Any:
    """Return where the windows of series i start."""
    return series.window_times[series.window_offsets[i] : series.window_offsets[i + 1]]


# The following take single arrays and no named tuples: each array of a tuple would be counted as one reference more and
# one less at each call, a tenth of the time of short series.


@inner(inline="always")
def _keep_self_distances(
    i: int, n: int, X: Any, Y: Any, y_step: int, distances: Any, grouped: Any, group_ends: Any
) -> None:
    """Keep the distances between the n windows of series i, each once, and grouped where medians will need them."""
    size = _triangle_size(n)
    n_grouped, slots = grouped.shape[:2]
    # A loop over x and y: what is called in two places may be compiled twice.
    for v in range(2):
        triangle = distances[v, i if slots > 0 else 0]
        _triangle(X if v == 0 else Y, _padded(n) if v == 0 else y_step, n, triangle)
        if slots > 0 and v < n_grouped:
            group(triangle[:size], grouped[v, i], group_ends[v, i])


@inner(inline="always")
def _pair_median(
    v: int, i: int, j: int, n: int, m: int, crossed: Any, grouped: Any, group_ends: Any, successors: Any, offsets: Any,
    candidates: Any,
) -> Any:  # fmt: skip
    """Median squared distance among the windows of two series together (v = 0), or among their successors (v = 1).

    And where it came from, as in `median_of`. Distances between the two are `crossed`, those within each are `grouped`.
    """
    if v == grouped.shape[0]:
        # Of one channel, sorted numbers are enough: no distances between them are needed.
        merged = candidates[: n + m]
        merge(successors[offsets[i] : offsets[i + 1]], successors[offsets[j] : offsets[j + 1]], merged)
        return median_squared_difference(merged)
    pairs_of_first, pairs_of_second, all_pairs = n * (n - 1) // 2, m * (m - 1) // 2, (n + m) * (n + m - 1) // 2
    return median_of(
        grouped[v, i, :pairs_of_first], group_ends[v, i], grouped[v, j, :pairs_of_second], group_ends[v, j],
        crossed[v, : n * _padded(m)], all_pairs, candidates,
    )  # fmt: skip


@inner(inline="always")
def _masses_between(
    a: int, b: int, n: int, m: int, X: Any, Y: Any, y_step: int, self_distances: Any, self_masses: Any, totals: Any,
    pair_masses: Any, kernels: Any, cx: float, cy: float,
) -> None:  # fmt: skip
    """Fill `pair_masses` with the kernel masses of two series over each other; or `self_masses[a]` if b is a.

    In the second case also `totals[a]`, the sum of B / A^2 for each factor. One call of `_masses` serves both cases.
    """
    x, y, others, masses = X, Y, m, pair_masses
    if a == b:
        slot = a if self_distances.shape[1] > 1 else 0
        x, y, others, masses = self_distances[0, slot], self_distances[1, slot], 0, self_masses[a]
    _masses(x, y, y_step, n, others, cx, cy, kernels, masses)
    if a == b:
        for f in range(totals.shape[1]):
            totals[a, f] = _ratios(masses[f, 0], masses[f, 0], masses[f, 1], n)[0]


@inner(inline="always")
def _contrast(
    n: int, m: int, masses: Any, first_self: Any, second_self: Any, p: float, q: float,
    X: Any, Y: Any, y_step: int, cx: float, cy: float, logarithmic: bool,
) -> Any:  # fmt: skip
    """Divergence of two series, of n and of m windows, at one factor.

    `masses` (4 x :) are those over each other, see `_masses`; `first_self` and `second_self` the A of each over itself,
    and `p` and `q` their sums of B / A^2.
    """
    x_step = _padded(m)
    divergence = math.log(p) + math.log(q) if logarithmic else p + q
    # The windows of the first over those of the second, and then the reverse: rows and columns change roles.
    for side in range(2):
        self_masses, count, others = (first_self, n, m) if side == 0 else (second_self, m, n)
        x_steps, y_steps = ((x_step, 1), (y_step, 1)) if side == 0 else ((1, x_step), (1, y_step))
        log_crossed = _log_interaction(
            self_masses, masses[2 * side], masses[2 * side + 1], count, X, x_steps, Y, y_steps, others, cx, cy
        )
        divergence -= log_crossed if logarithmic else math.exp(log_crossed)
    return divergence


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
    source_counts: Any,
) -> None:
    """Fill ``out[f, i, j]`` with the divergence between row series i and column series j at the f-th factor.

    Parameters
    ----------
    series : SeriesWindows
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
    source_counts : array of int, shape (WIDTH_SOURCES, 2)
        Counts, for x and for y, the pairs whose median was positive, or a percentile or 1 in its place.
    """
    n_factors, rows, columns = out.shape
    count, channels = series.frame_offsets.size - 1, series.frames.shape[1]
    pair_bandwidths = bandwidths[0] == 0.0
    # Masses are found for one factor, or at all levels of the bandwidths; the first `n_factors` of these are used.
    n_levels = _LEVELS if n_factors > 1 else 1
    longest = 0
    for i in range(count):
        longest = max(longest, series.frame_offsets[i + 1] - series.frame_offsets[i])
    n_max = longest - order
    line, size = _padded(n_max), _triangle_size(n_max)
    stride, cells = order + line, n_max * line
    buffers = _Buffers(
        np.empty(longest * stride), np.empty((order + 2) * stride), np.empty(cells), np.empty((2, cells))
    )
    # Known bandwidths: the distances of a series are used at once, and those of the next take their place.
    slots = count if pair_bandwidths else 0
    n_grouped = 2 if channels > 1 else 1
    selves = _SelfComparisons(
        np.empty((count, channels * stride if wide is None else 0)),
        np.empty((2, max(1, slots), size)),
        np.empty((n_grouped, slots, size)),
        np.empty((n_grouped, slots, GROUP_ENDS), np.int64),
        np.empty((count, n_levels, 2, line)),
        np.empty((count, n_factors)),
    )
    # Kernel values between one window and all others, and the masses of either series of a pair over the other.
    kernels, masses = np.empty((2, line)), np.empty((1, n_levels, 4, line))[0]
    # For medians among the pairs of 2 * n_max windows, or those windows themselves.
    candidates = np.empty((2 * n_max**2 + 2 * n_max + LEAST_SCRATCH) if pair_bandwidths else 0)
    squares = np.array([bandwidths[0] ** 2, bandwidths[1] ** 2])
    # The median over several channels goes through the distances of the successors, in one piece.
    copied = pair_bandwidths and channels > 1
    if wide is None:
        for i in range(count):
            _pack(_frames_of(series, i), order, selves.packed[i])
    # First each series i with itself (j = i), in `count` visits; then the cells of the matrix, row by row. One loop for
    # both: the masses are inlined, and each further place that calls them takes a tenth of the time of compiling.
    row, column = 0, -1
    for visit in range(count + rows * columns):
        i, j = visit, visit
        if visit >= count:
            # The next cell. Found from `visit` by divisions, it took a twentieth of the time of short series.
            row, column = (row, column + 1) if column + 1 < columns else (row + 1, 0)
            # The columns are the last of the series. If they are those of the rows, too, each pair is wanted once.
            i, j = row, column + count - columns
            if i >= j:
                continue
        n = series.window_offsets[i + 1] - series.window_offsets[i]
        m = series.window_offsets[j + 1] - series.window_offsets[j]
        X, Y, y_step = _pair_distances(
            _frames_of(series, i), _windows_of(series, i), selves.packed[i],
            _frames_of(series, j), _windows_of(series, j), selves.packed[j],
            order, wide, gaps, copied, buffers,
        )  # fmt: skip
        if i == j:
            _keep_self_distances(i, n, X, Y, y_step, selves.distances, selves.grouped, selves.group_ends)
            if pair_bandwidths:
                continue
        elif pair_bandwidths:
            for v in range(2):
                squares[v], source = _pair_median(
                    v, i, j, n, m, buffers.pair, selves.grouped, selves.group_ends,
                    series.successors, series.window_offsets, candidates,
                )  # fmt: skip
                source_counts[source, v] += 1
        # Kernels are exp(cx * squared distance), and cy likewise.
        cx, cy = -0.5 / (squares[0] * factor**2), -0.5 / (squares[1] * factor**2)
        # The masses of i and j over each other. With bandwidths of the pair's own, also those of each over itself;
        # with known ones, these were found in the first visits.
        for step in range(3 if pair_bandwidths else 1):
            a, b = (i, j) if step == 0 else ((i, i) if step == 1 else (j, j))
            windows = n if a == i else m
            _masses_between(
                a, b, windows, m, X, Y, y_step, selves.distances, selves.masses, selves.totals,
                masses, kernels, cx, cy,
            )  # fmt: skip
        if i < j:
            for f in range(n_factors):
                # Half the bandwidth is four times the exponent.
                out[f, i, column] = _contrast(
                    n, m, masses[f], selves.masses[i, f, 0], selves.masses[j, f, 0], selves.totals[i, f],
                    selves.totals[j, f], X, Y, y_step, cx * 4.0**f, cy * 4.0**f, logarithmic,
                )  # fmt: skip
