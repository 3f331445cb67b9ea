r"""Two groups that slide by one row at a time: divergences in O(rows) per step instead of O(rows^2), compiled.

Every row j keeps its kernel masses :math:`A_{jg} = \sum_{i \in g} K_{ji}` and :math:`B_{jg} = \sum_{i \in g} K_{ji}
L_{ji}` in both groups. A row that enters, leaves or changes groups changes every sum by one term, so a step costs a few
kernel rows. Rounding does not gather, but cancellation does: a sum that falls far below its peak keeps the peak's
rounding error. Such sums are found by their peaks and summed afresh.

A window is a tuple of plain arrays, so that other compiled code can carry it along. Its sums are A in the old and in
the new group, then B in the old and in the new group. A sum is kept as ``exp(shift + rest) * sum``; the shift is 0
unless the plain sum would underflow. The rest is what a double cannot hold of the shift: far from all other rows
exponents are so large that their last digit counts thousands.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.compiling import njit
from condcs._kernels.compiled import exp_in_place

# Entries of `Window.sizes`.
DIM_X, ROWS, OLD, NEW, SHIFTED = range(5)

CANCELLED = 1e-3
"""A sum that falls below this part of its peak has lost digits to cancellation and is summed again."""

_LOW, _HIGH = 1e-200, 1e100
"""Range of a sum, relative to its shift. Below, it is kept relative to its largest term: doubles lose digits from
1e-308 on. Above, rows far nearer than that term have come, and it is summed again long before it overflows at 1e308."""

_LARGEST_EXPONENT = 1e300
"""Exponents are at most so large: squares of differences beyond 1e150 bandwidths overflow, and differences of infinite
exponents would be NaN."""

_LARGEST_COMPENSATED = 1e250
"""Exponents beyond this are not found in twice the precision, in which numbers are multiplied by `_SPLIT` and squared:
these would overflow."""

_SPLIT = 134217729.0
"""2^27 + 1: a double times this gives its halves of 26 bits, whose products are exact (Dekker 1971)."""

# Of numpy's type: a plain number in a call is a type of its own to numba, and the function is compiled once more.
_OLD_GROUP, _NEW_GROUP, _FIRST_COLUMN = np.int64(0), np.int64(1), np.int64(0)

compiled_loop = njit(nogil=True, fastmath={"contract", "reassoc"})


@compiled_loop
def window_terms(a_g: float, b_g: float, a_h: float, b_h: float) -> Any:
    """Return what a row of group g adds to T[g,g] and T[g,h] of Prop. 2, from its masses in the two groups.

    The compiled twin of `condcs._measures.formulas.conditional_terms`; a test pins it to that.
    """
    return b_g / (a_g * a_g), b_h / (a_g * a_h)


class Window(NamedTuple):
    """Rows in slots, their groups and their sums."""

    values: FloatArray  # d_x + d_y x capacity: the rows, one per column, x above y
    inverse_widths: FloatArray  # one over each bandwidth
    group: IntArray  # 0 for the old group, 1 for the new, -1 for an empty slot
    sums: FloatArray  # 4 x capacity: A old, A new, B old, B new
    peaks: FloatArray  # the largest value of each sum since it was last summed afresh
    shifts: FloatArray  # the scale of each sum, in two parts
    rests: FloatArray
    sizes: IntArray  # d_x, slots in use, rows of either group, number of sums with a shift
    work: FloatArray  # 7 x capacity


def empty_window(capacity: int, dim_x: int, widths: FloatArray) -> Window:
    """Return a window without rows."""
    sizes = np.zeros(5, np.int64)
    sizes[DIM_X] = dim_x
    return Window(
        np.zeros((len(widths), capacity)),
        1.0 / widths,
        np.full(capacity, -1, np.int64),
        np.zeros((4, capacity)),
        np.zeros((4, capacity)),
        np.zeros((4, capacity)),
        np.zeros((4, capacity)),
        sizes,
        np.empty((7, capacity)),
    )


@compiled_loop
def _squared_distances(values: Any, scales: Any, first: int, last: int, slot: int, n: int, out: Any) -> None:
    """Write minus half the squared distances between the row in `slot` and all rows, over some columns."""
    for c in range(first, last):
        column, row_value, scale = values[c], values[c, slot], scales[c]
        for j in range(n):
            difference = (column[j] - row_value) * scale
            out[j] = (out[j] if c > first else 0.0) - 0.5 * difference * difference


@compiled_loop
def _exponents(window: Any, slot: int, ex: Any, exy: Any) -> None:
    """Write the log kernel values of the row in `slot` against all rows: x alone, and x and y."""
    values, scales, dim_x, n = window.values, window.inverse_widths, window.sizes[DIM_X], window.sizes[ROWS]
    _squared_distances(values, scales, _FIRST_COLUMN, dim_x, slot, n, ex)
    _squared_distances(values, scales, dim_x, values.shape[0], slot, n, exy)
    for j in range(n):
        # Rows whose squared distances overflow stay finite, and far.
        ex[j] = max(ex[j], -_LARGEST_EXPONENT)
        exy[j] = max(ex[j] + exy[j], -_LARGEST_EXPONENT)


# Without fastmath: a compiler that reorders sums would take all low parts for 0.
@njit(nogil=True)
def _two_sum(a: float, b: float) -> Any:
    """Return the rounded sum of two numbers and what rounding took away."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(nogil=True)
def _two_product(a: float, b: float) -> Any:
    """Return the rounded product of two numbers and what rounding took away (Dekker's halves of 26 bits)."""
    product = a * b
    big = _SPLIT * a
    a_high = big - (big - a)
    big = _SPLIT * b
    b_high = big - (big - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@njit(nogil=True)
def _exponent_from(window: Any, slot: int, other: int, kernel: int, exponent: float, shift: float) -> float:
    """Return the exponent of two rows minus a shift, in twice the precision: far from all rows both are huge.

    `exponent` is the same in ordinary precision; it stands where the squares would overflow.
    """
    if exponent < -_LARGEST_COMPENSATED:
        return exponent - shift
    values, scales = window.values, window.inverse_widths
    last = window.sizes[DIM_X] if kernel == 0 else values.shape[0]
    high, low = -shift, 0.0
    for c in range(last):
        difference, rest = _two_sum(values[c, other], -values[c, slot])
        square, error = _two_product(difference, difference)
        error += 2.0 * difference * rest
        # One rounded factor for all rows: a bandwidth that differs in its last digit.
        factor = -0.5 * scales[c] * scales[c]
        term, lost = _two_product(factor, square)
        high, carried = _two_sum(high, term)
        low += carried + (lost + factor * error)
    return high + low


@compiled_loop
def _kernel_row(window: Any, slot: int) -> None:
    """Fill the scratch rows 2 and 3 with the kernel values, and 0 and 1 with their exponents if any sum has a shift."""
    n, work = window.sizes[ROWS], window.work
    _exponents(window, slot, work[2], work[3])
    for kernel in range(2):
        if window.sizes[SHIFTED] > 0:
            for j in range(n):
                work[kernel, j] = work[2 + kernel, j]
        exp_in_place(work[2 + kernel, :n])


@compiled_loop
def _add_kernel_row(window: Any, slot: int, group: int, sign: float) -> None:
    """Add the kernel row of `slot` in the scratch space to the sums of every row in one group, or take it away."""
    n = window.sizes[ROWS]
    for kernel in range(2):
        s = 2 * kernel + group
        total, peak, shift, rest = window.sums[s], window.peaks[s], window.shifts[s], window.rests[s]
        exponents, values = window.work[kernel], window.work[2 + kernel]
        if window.sizes[SHIFTED] == 0 and sign < 0.0:
            for j in range(n):
                total[j] -= values[j]
        elif window.sizes[SHIFTED] == 0:
            for j in range(n):
                total[j] += values[j]
                peak[j] = max(peak[j], total[j])
        else:
            for j in range(n):
                term = values[j]
                if shift[j] != 0.0:
                    term = math.exp(_exponent_from(window, slot, j, kernel, exponents[j], shift[j]) - rest[j])
                total[j] += sign * term
                peak[j] = max(peak[j], total[j])


@compiled_loop
def refresh_row(window: Any, slot: int) -> None:
    """Sum the four sums of one row afresh."""
    n, work, group, sizes = window.sizes[ROWS], window.work, window.group, window.sizes
    _exponents(window, slot, work[4], work[5])
    for kernel in range(2):
        exponents, values = work[4 + kernel], work[6]
        for j in range(n):
            values[j] = exponents[j]
        exp_in_place(values[:n])
        for g in range(2):
            s = 2 * kernel + g
            total, shift, rest = 0.0, 0.0, 0.0
            for j in range(n):
                total += values[j] if group[j] == g else 0.0
            if total < _LOW:
                total = 0.0
                if sizes[OLD + g] > 0:
                    shift, rest = -np.inf, -np.inf
                    for j in range(n):
                        if group[j] == g:
                            shift = max(shift, exponents[j])
                    for j in range(n):
                        if group[j] == g:
                            values[j] = _exponent_from(window, slot, j, kernel, exponents[j], shift)
                            rest = max(rest, values[j])
                    for j in range(n):
                        if group[j] == g:
                            total += math.exp(values[j] - rest)
            sizes[SHIFTED] += (shift != 0.0) - (window.shifts[s, slot] != 0.0)
            window.sums[s, slot] = total
            window.peaks[s, slot] = total
            window.shifts[s, slot] = shift
            window.rests[s, slot] = rest


@compiled_loop
def _is_spoilt(total: float, peak: float, shift: float) -> bool:
    """Whether a sum has lost digits to cancellation, or left its range; a NaN counts as lost."""
    return not total >= CANCELLED * peak or total > _HIGH or (shift == 0.0 and total < _LOW)


@compiled_loop
def mend(window: Any) -> None:
    """Sum rows afresh whose sums lost digits to cancellation, or left the range in which their scale serves."""
    n, sizes = window.sizes[ROWS], window.sizes
    for g in range(2):
        for kernel in range(2):
            s = 2 * kernel + g
            total, peak, shift = window.sums[s], window.peaks[s], window.shifts[s]
            if sizes[OLD + g] == 0:
                for j in range(n):
                    sizes[SHIFTED] -= shift[j] != 0.0
                    total[j] = peak[j] = shift[j] = window.rests[s, j] = 0.0
                continue
            spoilt = 0
            for j in range(n):
                spoilt += _is_spoilt(total[j], peak[j], shift[j])
            if spoilt > 0:
                for j in range(n):
                    if window.group[j] >= 0 and _is_spoilt(total[j], peak[j], shift[j]):
                        refresh_row(window, j)


@compiled_loop
def take_out(window: Any, slot: int) -> None:
    """Take the row in `slot` out of its group; the slot must be filled again before anything is asked."""
    _kernel_row(window, slot)
    _add_kernel_row(window, slot, window.group[slot], -1.0)
    window.sizes[OLD + window.group[slot]] -= 1
    window.group[slot] = -1


@compiled_loop
def move(window: Any, slot: int, group: int) -> None:
    """Move the row in `slot` to the other group."""
    _kernel_row(window, slot)
    _add_kernel_row(window, slot, window.group[slot], -1.0)
    _add_kernel_row(window, slot, group, 1.0)
    window.sizes[OLD + window.group[slot]] -= 1
    window.sizes[OLD + group] += 1
    window.group[slot] = group


@compiled_loop
def put_in(window: Any, slot: int, row: Any, group: int) -> None:
    """Put a row in an empty slot: the first unused one, or one that was taken out."""
    sizes = window.sizes
    sizes[ROWS] = max(sizes[ROWS], slot + 1)
    for c in range(row.size):
        window.values[c, slot] = row[c]
    _kernel_row(window, slot)
    _add_kernel_row(window, slot, group, 1.0)
    window.group[slot] = group
    sizes[OLD + group] += 1
    for kernel in range(2):
        old, new = 0.0, 0.0
        for j in range(sizes[ROWS]):
            value = window.work[2 + kernel, j]
            old += value if window.group[j] == 0 else 0.0
            new += value if window.group[j] == 1 else 0.0
        for g, total in enumerate((old, new)):
            s = 2 * kernel + g
            sizes[SHIFTED] -= window.shifts[s, slot] != 0.0
            window.sums[s, slot] = window.peaks[s, slot] = total
            window.shifts[s, slot] = window.rests[s, slot] = 0.0


@compiled_loop
def push(window: Any, pushed: int, row: Any) -> None:
    """Push a row to a first-in-first-out buffer of an old and a new half; `pushed` counts the rows before it.

    While the buffer of even capacity fills, the oldest half of its rows, rounded up, is old.
    """
    capacity = window.group.size
    slot = pushed % capacity
    if pushed >= capacity:
        take_out(window, slot)
        move(window, (pushed + capacity // 2) % capacity, _OLD_GROUP)
    elif pushed % 2 == 0 and pushed > 0:
        move(window, pushed // 2, _OLD_GROUP)
    put_in(window, slot, row, _OLD_GROUP if pushed == 0 else _NEW_GROUP)
    mend(window)


@compiled_loop
def _add_in_logs(peak: float, total: float, term: float) -> Any:
    """Add exp(term) to exp(peak) * total, peak kept the largest exponent."""
    if term <= peak:
        return peak, total + math.exp(term - peak)
    return term, total * math.exp(peak - term) + 1.0


@compiled_loop
def log_interaction(window: Any, out: Any) -> None:
    """Write log T of Prop. 2 for the two groups: old-old, old-new, new-old, new-new."""
    n, group = window.sizes[ROWS], window.group
    A0, A1, B0, B1 = window.sums
    t00, t01, t10, t11 = 0.0, 0.0, 0.0, 0.0
    if window.sizes[SHIFTED] == 0:
        for j in range(n):
            is_old = group[j] == 0
            a, b, a_other, b_other = (A0[j], B0[j], A1[j], B1[j]) if is_old else (A1[j], B1[j], A0[j], B0[j])
            within, cross = window_terms(a, b, a_other, b_other)
            t00 += within if is_old else 0.0
            t01 += cross if is_old else 0.0
            t10 += 0.0 if is_old else cross
            t11 += 0.0 if is_old else within
        out[0], out[1], out[2], out[3] = math.log(t00), math.log(t01), math.log(t10), math.log(t11)
        return
    peaks, totals = np.full(4, -np.inf), np.zeros(4)
    for j in range(n):
        g = group[j]
        log_a = math.log(window.sums[g, j]) + window.shifts[g, j] + window.rests[g, j]
        for h in range(2):
            # Shifts by themselves: they are nearly equal, and huge far from a group.
            ratio = math.log(window.sums[2 + h, j]) - math.log(window.sums[h, j])
            ratio += (window.shifts[2 + h, j] - window.shifts[h, j]) + (window.rests[2 + h, j] - window.rests[h, j])
            t = 2 * g + h
            peaks[t], totals[t] = _add_in_logs(peaks[t], totals[t], ratio - log_a)
    for t in range(4):
        out[t] = peaks[t] + math.log(totals[t])


@compiled_loop
def window_conditional_cs(window: Any) -> Any:
    """Conditional CS divergence of the two groups."""
    t = np.empty(4)
    log_interaction(window, t)
    return (t[0] - t[1]) + (t[3] - t[2])


@compiled_loop
def window_conditional_euclidean(window: Any) -> Any:
    """Conditional Euclidean distance of the two groups."""
    t = np.empty(4)
    log_interaction(window, t)
    return (math.exp(t[0]) - math.exp(t[1])) + (math.exp(t[3]) - math.exp(t[2]))


@compiled_loop
def window_joint_mmd(window: Any) -> Any:
    """Squared MMD between the joint distributions of the two groups."""
    n, group = window.sizes[ROWS], window.group
    old, new = window.sizes[OLD], window.sizes[NEW]
    within_old, within_new, across = 0.0, 0.0, 0.0
    for j in range(n):
        first, second = window.sums[2, j], window.sums[3, j]
        if window.sizes[SHIFTED] > 0:
            first *= math.exp(window.shifts[2, j] + window.rests[2, j])
            second *= math.exp(window.shifts[3, j] + window.rests[3, j])
        is_old = group[j] == 0
        within_old += first if is_old else 0.0
        across += second if is_old else 0.0
        within_new += 0.0 if is_old else second
    return within_old / (old * old) + within_new / (new * new) - 2.0 * across / (old * new)


WINDOW_DIVERGENCES = {
    "conditional_cs": window_conditional_cs,
    "conditional_euclidean": window_conditional_euclidean,
    "joint_mmd": window_joint_mmd,
}
"""Measures whose value is known from the sums of a window."""
