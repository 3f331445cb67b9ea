"""The compiled engine: conditional divergences between many pairs of short series.

Every function works on one block of pairs and holds no lock, so that blocks run on threads. Nothing larger than a few
matrices of squared distances between the windows of two series is held at a time.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from condcs.kernels.compiled import _bits, _double

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUNDING = 6755399441055744.0
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1 / math.factorial(i) for i in range(2, 14))
_SMALLEST = -708.0
# Sums above this hold no digits lost to gradual underflow.
_SAFE_SUM = 1e-290

_FLAGS = {"contract", "reassoc", "nsz"}


# Inlined by LLVM, not by numba: so it keeps flags of its own, and no caller's "reassoc" undoes the rounding trick.
@numba.njit(forceinline=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
def _exp(given: float) -> float:
    """Exponential of a number that is finite and not positive; 0 below -708."""
    x = max(given, _SMALLEST)
    shifted = x * _LOG2_E + _ROUNDING
    k = shifted - _ROUNDING
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = _C13
    p = p * r + _C12
    p = p * r + _C11
    p = p * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = (p * r * r + r) + 1.0
    value = _double(_bits(p) + (_bits(shifted) << 52))
    return value if given >= _SMALLEST else 0.0


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _frame_distances(a: Any, b: Any, out: Any) -> None:
    """Squared distances between all frames of two series, given channel by channel (channels x time)."""
    channels, rows = a.shape
    columns = b.shape[1]
    for i in range(rows):
        row = out[i]
        own = a[0, i]
        other = b[0]
        for j in range(columns):
            difference = own - other[j]
            row[j] = difference * difference
        for c in range(1, channels):
            own = a[c, i]
            other = b[c]
            for j in range(columns):
                difference = own - other[j]
                row[j] += difference * difference


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _window_distances(s: Any, order: int, n: int, m: int, out: Any) -> None:
    """Squared distances between all windows: sums of `order` terms down the diagonals of `s`.

    Rows come in blocks of `order`. A window's sum is what remains of its own block plus what it reaches of the next:
    running sums of each, so three additions a cell whatever the order, and no subtraction that could cancel.
    """
    width = s.shape[1]
    if order == 1:
        for i in range(n):
            for j in range(m):
                out[i, j] = s[i, j]
        return
    previous, current = np.empty(width), np.empty(width)
    rest = np.empty((order, width))
    for start in range(0, n, order):
        rest[order - 1] = s[start + order - 1]
        for r in range(order - 2, -1, -1):
            row, below, own = rest[r], rest[r + 1], s[start + r]
            for j in range(width - (order - 1 - r)):
                row[j] = own[j] + below[j + 1]
        for j in range(m):
            out[start, j] = rest[0, j]
        for r in range(1, min(order, n - start)):
            row = s[start + order + r - 1]
            if r == 1:
                for j in range(width):
                    current[j] = row[j]
            else:
                for j in range(r - 1, width):
                    current[j] = row[j] + previous[j - 1]
            target, own = out[start + r], rest[r]
            for j in range(m):
                target[j] = own[j] + current[j + order - 1]
            previous, current = current, previous


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gather(full: Any, rows: Any, columns: Any, out: Any) -> None:
    for i in range(rows.size):
        for j in range(columns.size):
            out[i, j] = full[rows[i], columns[j]]


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _pair_distances(a: Any, b: Any, rows: Any, columns: Any, order: int, s: Any, full: Any, X: Any, Y: Any) -> None:
    """Squared distances X between the windows and Y between their successors, for the windows asked for."""
    n, m = a.shape[1] - order, b.shape[1] - order
    s = s[: n + order, : m + order]
    _frame_distances(a, b, s)
    if rows.size == n and columns.size == m:
        _window_distances(s, order, n, m, X)
        for i in range(n):
            for j in range(m):
                Y[i, j] = s[i + order, j + order]
    else:
        _window_distances(s, order, n, m, full)
        _gather(full, rows, columns, X)
        _gather(s[order:, order:], rows, columns, Y)


@numba.njit(cache=True, nogil=True, fastmath=_FLAGS)  # type: ignore[untyped-decorator]
def _cross_sums(X: Any, Y: Any, cx: float, cy: float, a_row: Any, b_row: Any, a_column: Any, b_column: Any) -> None:
    """Kernel masses of the rows over the columns, and of the columns over the rows: each cell is visited once."""
    n, m = X.shape
    a_column[:m] = 0.0
    b_column[:m] = 0.0
    for i in range(n):
        x_row, y_row = X[i], Y[i]
        a_total, b_total = 0.0, 0.0
        for j in range(m):
            u = cx * x_row[j]
            k = _exp(u)
            kl = _exp(u + cy * y_row[j])
            a_total += k
            b_total += kl
            a_column[j] += k
            b_column[j] += kl
        a_row[i], b_row[i] = a_total, b_total


@numba.njit(cache=True, nogil=True, fastmath=_FLAGS)  # type: ignore[untyped-decorator]
def _own_sums(x: Any, y: Any, n: int, cx: float, cy: float, a: Any, b: Any) -> None:
    """Kernel masses of a series' windows over the series itself; x and y hold the pairs i < j, row by row."""
    a[:n] = 1.0
    b[:n] = 1.0
    start = 0
    for i in range(n - 1):
        count = n - 1 - i
        x_row, y_row = x[start : start + count], y[start : start + count]
        a_rest, b_rest = a[i + 1 : n], b[i + 1 : n]
        a_total, b_total = 0.0, 0.0
        for j in range(count):
            u = cx * x_row[j]
            k = _exp(u)
            kl = _exp(u + cy * y_row[j])
            a_total += k
            b_total += kl
            a_rest[j] += k
            b_rest[j] += kl
        a[i] += a_total
        b[i] += b_total
        start += count


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _log_mass(x: Any, y: Any, cx: float, cy: float) -> float:
    """Logarithm of a sum of exponentials that underflows when it is taken plainly."""
    peak = -np.inf
    for j in range(x.size):
        peak = max(peak, cx * x[j] + cy * y[j])
    total = 0.0
    for j in range(x.size):
        total += math.exp(cx * x[j] + cy * y[j] - peak)
    return peak + math.log(total)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _log_interaction(own_a: Any, a: Any, b: Any, n: int, X: Any, Y: Any, cx: float, cy: float) -> float:
    """Log of the sum over rows of B / (own A * A); rows that underflow are summed again in the log domain."""
    safe = True
    for i in range(n):
        if a[i] < _SAFE_SUM or b[i] < _SAFE_SUM:
            safe = False
    if safe:
        total = 0.0
        for i in range(n):
            total += b[i] / (own_a[i] * a[i])
        return math.log(total)
    terms = np.empty(n)
    for i in range(n):
        log_a = math.log(a[i]) if a[i] >= _SAFE_SUM else _log_mass(X[i], Y[i], cx, 0.0)
        log_b = math.log(b[i]) if b[i] >= _SAFE_SUM else _log_mass(X[i], Y[i], cx, cy)
        terms[i] = log_b - log_a - math.log(own_a[i])
    peak = terms.max()
    total = 0.0
    for i in range(n):
        total += math.exp(terms[i] - peak)
    return peak + math.log(total)


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _median(pool: Any) -> tuple[float, int]:
    """Median, or the smallest positive percentile above it if that is 0, or 1; and which of the three it was."""
    count = pool.size
    middle = count // 2
    parted = np.partition(pool, middle)
    median = parted[middle]
    if count % 2 == 0:
        median = 0.5 * (median + parted[:middle].max())
    if median > 0.0:
        return median, 0
    zeros = 0
    for value in pool:
        if value == 0.0:
            zeros += 1
    if zeros == count:
        return 1.0, 2
    for percent in range(51, 101):
        rank = math.ceil((count - 1) * (percent / 100))
        if rank >= zeros:
            return np.partition(pool, rank)[rank], 1
    return 1.0, 2


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _triangle(square: Any, n: int, out: Any) -> None:
    start = 0
    for i in range(n - 1):
        for j in range(i + 1, n):
            out[start] = square[i, j]
            start += 1


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def block_divergences(
    a_frames: Any,
    a_starts: Any,
    a_windows: Any,
    a_window_starts: Any,
    b_frames: Any,
    b_starts: Any,
    b_windows: Any,
    b_window_starts: Any,
    order: int,
    above_diagonal: bool,
    width_x: float,
    width_y: float,
    factor: float,
    logarithmic: bool,
    out: Any,
) -> Any:
    """Fill ``out[i, j]`` with the divergence between series i of a and series j of b.

    Parameters
    ----------
    a_frames, b_frames : array, shape (channels, total time)
        The series of each side, one after the other.
    a_starts, b_starts : array
        Where each series starts, and the end of the last.
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

    Returns
    -------
    array of 4 ints
        In how many pairs the median of x, and of y, fell back on a percentile (0, 1) or on 1 (2, 3).
    """
    rows, columns = a_starts.size - 1, b_starts.size - 1
    longest_a, longest_b = 0, 0
    for i in range(rows):
        longest_a = max(longest_a, a_starts[i + 1] - a_starts[i])
    for j in range(columns):
        longest_b = max(longest_b, b_starts[j + 1] - b_starts[j])
    longest = max(longest_a, longest_b)
    n_max = longest - order
    s, full = np.empty((longest, longest)), np.empty((n_max, n_max))
    x_square, y_square = np.empty(n_max * n_max), np.empty(n_max * n_max)
    pair_widths = width_x == 0.0
    fallbacks = np.zeros(4, np.int64)

    # Distances of each series' windows among themselves, row by row above the diagonal.
    size = n_max * (n_max - 1) // 2
    a_own_x, a_own_y = np.empty((rows, size)), np.empty((rows, size))
    b_own_x, b_own_y = (a_own_x, a_own_y) if above_diagonal else (np.empty((columns, size)), np.empty((columns, size)))
    for side in range(1 if above_diagonal else 2):
        frames, starts = (a_frames, a_starts) if side == 0 else (b_frames, b_starts)
        windows, window_starts = (a_windows, a_window_starts) if side == 0 else (b_windows, b_window_starts)
        own_x, own_y = (a_own_x, a_own_y) if side == 0 else (b_own_x, b_own_y)
        for i in range(starts.size - 1):
            series = frames[:, starts[i] : starts[i + 1]]
            used = windows[window_starts[i] : window_starts[i + 1]]
            n = used.size
            X, Y = x_square[: n * n].reshape((n, n)), y_square[: n * n].reshape((n, n))
            _pair_distances(series, series, used, used, order, s, full, X, Y)
            _triangle(X, n, own_x[i])
            _triangle(Y, n, own_y[i])

    cx, cy = 0.0, 0.0
    a_masses, b_masses = np.empty((rows, 2, n_max)), np.empty((columns, 2, n_max))
    if not pair_widths:
        cx, cy = -0.5 / (width_x * factor) ** 2, -0.5 / (width_y * factor) ** 2
        for i in range(rows):
            n = a_window_starts[i + 1] - a_window_starts[i]
            _own_sums(a_own_x[i], a_own_y[i], n, cx, cy, a_masses[i, 0], a_masses[i, 1])
        for j in range(columns):
            n = b_window_starts[j + 1] - b_window_starts[j]
            _own_sums(b_own_x[j], b_own_y[j], n, cx, cy, b_masses[j, 0], b_masses[j, 1])
    pool = np.empty(2 * size + n_max * n_max)
    a_row, b_row, a_column, b_column = np.empty(n_max), np.empty(n_max), np.empty(n_max), np.empty(n_max)

    for i in range(rows):
        p_windows = a_windows[a_window_starts[i] : a_window_starts[i + 1]]
        p_series = a_frames[:, a_starts[i] : a_starts[i + 1]]
        n = p_windows.size
        n_own = n * (n - 1) // 2
        for j in range(i + 1 if above_diagonal else 0, columns):
            q_windows = b_windows[b_window_starts[j] : b_window_starts[j + 1]]
            q_series = b_frames[:, b_starts[j] : b_starts[j + 1]]
            m = q_windows.size
            m_own = m * (m - 1) // 2
            X, Y = x_square[: n * m].reshape((n, m)), y_square[: n * m].reshape((n, m))
            _pair_distances(p_series, q_series, p_windows, q_windows, order, s, full, X, Y)
            pa, pb, qa, qb = a_masses[i, 0], a_masses[i, 1], b_masses[j, 0], b_masses[j, 1]
            if pair_widths:
                used = pool[: n_own + m_own + n * m]
                used[:n_own] = a_own_x[i, :n_own]
                used[n_own : n_own + m_own] = b_own_x[j, :m_own]
                used[n_own + m_own :] = x_square[: n * m]
                median_x, kind_x = _median(used)
                used[:n_own] = a_own_y[i, :n_own]
                used[n_own : n_own + m_own] = b_own_y[j, :m_own]
                used[n_own + m_own :] = y_square[: n * m]
                median_y, kind_y = _median(used)
                if kind_x > 0:
                    fallbacks[2 * (kind_x - 1)] += 1
                if kind_y > 0:
                    fallbacks[2 * (kind_y - 1) + 1] += 1
                cx, cy = -0.5 / (median_x * factor**2), -0.5 / (median_y * factor**2)
                _own_sums(a_own_x[i], a_own_y[i], n, cx, cy, pa, pb)
                _own_sums(b_own_x[j], b_own_y[j], m, cx, cy, qa, qb)
            _cross_sums(X, Y, cx, cy, a_row, b_row, a_column, b_column)
            pp, qq = 0.0, 0.0
            for k in range(n):
                pp += pb[k] / (pa[k] * pa[k])
            for k in range(m):
                qq += qb[k] / (qa[k] * qa[k])
            pq = _log_interaction(pa, a_row, b_row, n, X, Y, cx, cy)
            qp = _log_interaction(qa, a_column, b_column, m, X.T, Y.T, cx, cy)
            if logarithmic:
                out[i, j] = math.log(pp) + math.log(qq) - pq - qp
            else:
                out[i, j] = pp + qq - math.exp(pq) - math.exp(qp)
    return fallbacks
