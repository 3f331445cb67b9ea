"""Loops that numpy has no fast word for, compiled once and kept on disk by numba.

Loading numba takes about half a second, so this module is imported when the first numpy array is worked on, not before.
The exponential is 4 to 5 times as fast as `np.exp` on doubles where there is no AVX-512: numpy calls a scalar routine
there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from condcs._core.compiling import bits_of_double, double_of_bits, njit

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has trailing zeros, so that k * _LN2_HIGH is exact for every exponent k.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits of the double.
_ROUNDING = 6755399441055744.0
# The reduced argument lies within ln(2) / 2 of 0, where the Taylor polynomial of degree 13 is exact to rounding.
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1 / math.factorial(i) for i in range(2, 14))
_SMALLEST = -708.0


@njit("void(float64[::1])", nogil=True, fastmath={"contract"})
def exp_in_place(tile: np.ndarray[Any, Any]) -> None:
    """Replace every (finite, not positive) number by its exponential, to one unit in the last place.

    exp(x) = 2^k exp(r) with k = round(x / ln 2) and |r| <= ln(2) / 2. Below -708 the result is 0: such sums are
    flagged as underflowing anyway.
    """
    for i in range(tile.size):
        given = tile[i]
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
        # The low bits of `shifted` hold k: moved to the exponent field and added, they multiply by 2^k.
        value = double_of_bits(bits_of_double(p) + (bits_of_double(shifted) << 52))
        tile[i] = value if given >= _SMALLEST else 0.0


# Read-only arrays are welcome: that is what JAX, memory maps and careful callers hand over.
_READ_ONLY_ROWS = types.Array(types.float64, 2, "C", readonly=True)


@njit(types.float64[::1](_READ_ONLY_ROWS), nogil=True)
def squared_distances(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the squared Euclidean distances of all pairs of rows i < j, in the order of scipy's `pdist`."""
    n, d = values.shape
    columns = np.ascontiguousarray(values.T)
    squared = np.zeros(n * (n - 1) // 2)
    in_fours = d - d % 4
    start = 0
    for i in range(n - 1):
        count = n - 1 - i
        # Slices that start at 0: an index like i + j might be negative for all the compiler knows, and is then not
        # turned into vector instructions.
        out = squared[start : start + count]
        # Four columns at a time: the sums are read and written a quarter as often.
        for c in range(0, in_fours, 4):
            a, b, e, f = columns[c, i], columns[c + 1, i], columns[c + 2, i], columns[c + 3, i]
            as_, bs, es, fs = (
                columns[c, i + 1 :],
                columns[c + 1, i + 1 :],
                columns[c + 2, i + 1 :],
                columns[c + 3, i + 1 :],
            )
            for j in range(count):
                p, q, r, s = as_[j] - a, bs[j] - b, es[j] - e, fs[j] - f
                out[j] += (p * p + q * q) + (r * r + s * s)
        for c in range(in_fours, d):
            a, as_ = columns[c, i], columns[c, i + 1 :]
            for j in range(count):
                p = as_[j] - a
                out[j] += p * p
        start += count
    return squared


# So few differences are left over that picking among them is cheaper than counting once more.
_FEW_PER_NUMBER = 1


@njit("UniTuple(float64, 2)(float64[::1], int64)", nogil=True)
def _ranked_difference(ordered: np.ndarray[Any, Any], rank: int) -> tuple[float, float]:
    """Return the difference of this rank (from 0) among all pairs of numbers in ascending order, and the one before it.

    A bracket of the wanted difference, both of its ends differences that occur, is narrowed by counting: differences
    grow along a row and shrink down a column, in rounded arithmetic too, so that a count takes 2n steps.
    """
    n = ordered.size
    pairs = n * (n - 1) // 2
    low, high, below, upto = 0.0, ordered[n - 1] - ordered[0], 0, pairs
    step, count, middle = 0, 0, 0.0
    while low < high and upto - below > _FEW_PER_NUMBER * n:
        share = (rank + 0.5 - below) / (upto - below)
        if step == 0:
            # Near the median difference of most distributions.
            middle = 0.68 * (ordered[(3 * n) // 4] - ordered[n // 4])
        elif step == 1:
            # There the share of smaller differences grows at a rate of about 0.43 over the difference. A bit farther,
            # so that the wanted one lies between the two.
            middle *= 1.0 + 1.1 * (rank - count) / (0.43 * pairs)
        else:
            middle = low + (share if step % 3 < 2 else 0.5) * (high - low)
        if not low <= middle < high:
            middle = low
        step += 1
        count, end, largest, next_one = 0, 1, 0.0, high
        for i in range(n - 1):
            end = max(end, i + 1)
            while end < n and ordered[end] - ordered[i] <= middle:
                end += 1
            count += end - i - 1
            if end > i + 1:
                largest = max(largest, ordered[end - 1] - ordered[i])
            if end < n:
                next_one = min(next_one, ordered[end] - ordered[i])
        if count > rank:
            high, upto = largest, count
        else:
            low, below = next_one, count
    candidates = np.empty(max(upto - below, 1))
    found, start, before = 0, 1, 0.0
    for i in range(n - 1):
        start = max(start, i + 1)
        while start < n and ordered[start] - ordered[i] < low:
            start += 1
        if start > i + 1:
            before = max(before, ordered[start - 1] - ordered[i])
        if low < high:
            end = start
            while end < n and ordered[end] - ordered[i] <= high:
                candidates[found] = ordered[end] - ordered[i]
                found += 1
                end += 1
    place = rank - below
    if low == high:
        return low, (low if place > 0 else before)
    picked = np.partition(candidates, place)
    return picked[place], (picked[:place].max() if place > 0 else before)


@njit("Tuple((float64[::1], int64[::1]))(float64[:, ::1])", nogil=True)
def median_differences(columns: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the root of the median squared difference over all pairs of numbers, for each of several lines, and 50.

    Each line is in ascending order. If more than half of its differences are 0, the lowest percentile above 50 that is
    positive, with its number; if all are, 0 and 50. O(n log n), without making all n(n - 1)/2 differences.
    """
    d, n = columns.shape
    pairs = n * (n - 1) // 2
    widths, percentiles = np.zeros(d), np.full(d, 50)
    for c in range(d):
        upper, lower = _ranked_difference(columns[c], pairs // 2)
        if upper > 0.0:
            ratio = lower / upper if pairs % 2 == 0 else 1.0
            widths[c] = upper * math.sqrt(0.5 * (1.0 + ratio * ratio))
            continue
        for percentile in range(51, 101):
            width, _ = _ranked_difference(columns[c], math.ceil(percentile * (pairs - 1) / 100))
            if width > 0.0:
                widths[c], percentiles[c] = width, percentile
                break
    return widths, percentiles


_SUMS_OF_GROUPS = types.float64[:, ::1](types.float64[::1], types.int64[::1])


@njit(_SUMS_OF_GROUPS, nogil=True, fastmath={"reassoc"})
def condensed_row_sums(exponents: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return every row's sum of exponentials over the rows of each group, itself (exponent 0) included: n x G.

    `exponents` are those of all pairs i < j in the order of scipy's `pdist`; the groups follow one another.
    """
    values = exponents.copy()
    exp_in_place(values)
    n, n_groups = sizes.sum(), sizes.size
    # One line per group while adding up: neighbouring rows then lie side by side.
    sums = np.zeros((n_groups, n))
    start, own, own_end = 0, 0, sizes[0]
    for i in range(n):
        while i >= own_end:
            own += 1
            own_end += sizes[own]
        sums[own, i] += 1.0
        later, line = values[start : start + n - 1 - i], sums[own, i + 1 :]
        for j in range(n - 1 - i):
            line[j] += later[j]
        first, end = 0, own_end - i - 1
        for h in range(own, n_groups):
            if h > own:
                first, end = end, end + sizes[h]
            part, total = later[first:end], 0.0
            for j in range(end - first):
                total += part[j]
            sums[h, i] += total
        start += n - 1 - i
    return np.ascontiguousarray(sums.T)
