"""Squared distances between the windows of two series, compiled.

Windows of a series overlap, so their distances are sums down the diagonals of one matrix: the distances between frames.
Rows are padded to whole vectors with a frame so far away that it has no kernel mass and lies beyond every median.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uintp

from condcs._core.compiling import inner

LANES = 8
"""Rows of distances are padded to a multiple of this, so that no loop has a scalar remainder."""

_FAR = 1e150
_FAR_SQUARED = 1e300
# Below this share of the squared norms, |a|^2 + |b|^2 - 2ab has lost two digits: the distance is summed directly.
_CANCELLED = 1e-2


@inner()
def padded(n: int) -> int:
    """Round up to whole vectors."""
    return (n + LANES - 1) // LANES * LANES


@inner()
def triangle_size(n: int) -> int:
    """Room for the pairs i < j of n windows, row by row, each row padded."""
    total = 0
    for i in range(n - 1):
        total += padded(n - 1 - i)
    return total


@inner()
def pack(frames: Any, order: int, out: Any) -> None:
    """Turn frames (time x channels) into padded channels; gaps become 0, and no window that touches one is used."""
    length, channels = frames.shape
    stride = order + padded(length - order)
    for c in range(channels):
        row = out[c * stride : (c + 1) * stride]
        for t in range(length):
            value = frames[t, c]
            row[t] = 0.0 if np.isnan(value) else value
        for t in range(length, stride):
            row[t] = _FAR


@inner()
def _frame_distances(a: Any, first: int, last: int, a_stride: int, b: Any, stride: int, channels: int, s: Any) -> None:
    """Fill the rows of s from `first` to `last` with the squared distances between packed frames."""
    for i in range(first, last):
        row = s[i * stride : (i + 1) * stride]
        own, other = a[i], b[:stride]
        for j in range(stride):
            difference = own - other[j]
            row[j] = difference * difference
        for c in range(1, channels):
            own, other = a[c * a_stride + i], b[c * stride : (c + 1) * stride]
            for j in range(stride):
                difference = own - other[j]
                row[j] += difference * difference


# Inlined for the same digits at the first run and later: see the masses of the engine.
@inner(forceinline=True, fastmath={"contract", "reassoc", "nsz"})
def _direct(a: Any, b: Any) -> float:
    total = 0.0
    for c in range(a.size):
        difference = a[c] - b[c]
        total += difference * difference
    return total


@inner()
def _wide_frame_distances(a: Any, a_norms: Any, b: Any, b_norms: Any, stride: int, s: Any) -> None:
    """Fill s (rows x stride) by one matrix product of the frames (time x channels)."""
    products = np.dot(a, b.T)
    rows, columns = products.shape
    for i in range(rows):
        row = s[i * stride : (i + 1) * stride]
        for j in range(columns):
            norms = a_norms[i] + b_norms[j]
            squared = norms - 2.0 * products[i, j]
            row[j] = squared if squared > _CANCELLED * norms else _direct(a[i], b[j])
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
            reached, left = (start + last + r) * stride + r, last - r
            for j in range(left):
                rest[uintp(ahead + j)] += s[uintp(reached + j)]
            _add_reached(s, reached + left, rest, ahead + left, r * span + left, out, (start + r) * width, width)


# Offsets instead of slices, which cost more than a short row's work; unsigned, because numba looks after negative
# indices, and a loop with such a test does not become a vector loop.
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
def _keep(full: Any, full_width: int, rows: Any, columns: Any, out: Any) -> None:
    """Copy the wanted rows and columns of a padded matrix, and pad again."""
    width = padded(columns.size)
    for i in range(rows.size):
        start, target = rows[i] * full_width, out[i * width : (i + 1) * width]
        for j in range(columns.size):
            target[j] = full[start + columns[j]]
        for j in range(columns.size, width):
            target[j] = _FAR_SQUARED


@inner()
def successors_at(m: int, order: int) -> tuple[int, int]:
    """Where the distances between successors start among those of all frames, and how far apart their rows are."""
    stride = order + padded(m)
    return order * stride + order, stride


@inner()
def copy_successors(s: Any, n: int, m: int, order: int, Y: Any) -> None:
    """Copy the distances between successors from those of all frames, row by row."""
    width = padded(m)
    start, stride = successors_at(m, order)
    for i in range(n):
        _copy(s, start + i * stride, Y, i * width, width)


@inner()
def pair_distances(
    a: Any,
    a_frames: Any,
    a_norms: Any,
    a_windows: Any,
    b: Any,
    b_frames: Any,
    b_norms: Any,
    b_windows: Any,
    order: int,
    wide: bool,
    scratch: Any,
    X: Any,
    Y: Any,
    copied: bool,
) -> None:
    """Squared distances X between the windows of two series and Y between the frames that follow them.

    Both come row by row, each row padded. `a` and `b` are packed frames, used if not `wide`; otherwise the distances
    between frames come from a matrix product. `scratch` is a tuple of three buffers. Unless `copied`, and if all
    windows are used, Y is left where it is in the first of them (see `successors_at`).
    """
    s, rest, full = scratch
    n, m = a_frames.shape[0] - order, b_frames.shape[0] - order
    width = padded(m)
    stride = order + width
    if wide:
        _wide_frame_distances(a_frames, a_norms, b_frames, b_norms, stride, s)
    else:
        _frame_distances(a, 0, n + order, order + padded(n), b, stride, a_frames.shape[1], s)
    whole = a_windows.size == n and b_windows.size == m
    sums = X if whole else full
    _diagonal_sums(s, stride, order, n, width, rest, sums)
    if m < width:
        # The last window has no successor. It touches no padding, unlike those after it, so its column is padded here.
        for i in range(n):
            sums[i * width + m] = _FAR_SQUARED
    if whole:
        if copied:
            copy_successors(s, n, m, order, Y)
    else:
        _keep(full, width, a_windows, b_windows, X)
        _keep(s[order * stride + order :], stride, a_windows, b_windows, Y)


@inner()
def triangle(square: Any, n: int, out: Any) -> None:
    """Copy the cells above the diagonal, row by row, each row padded."""
    width = padded(n)
    start = 0
    for i in range(n - 1):
        count = n - 1 - i
        _copy(square, i * width + i + 1, out, start, count)
        for j in range(count, padded(count)):
            out[uintp(start + j)] = _FAR_SQUARED
        start += padded(count)
