"""Loops for which numpy has no fast function, compiled once and kept on disk by numba.

Loading numba takes about half a second, so this module is imported when the first numpy array is worked on, not before.
The exponential is 5 to 6 times as fast as `np.exp` on doubles where there is no AVX-512: numpy calls a scalar routine
there. Ten digits are promised of a divergence, so that thirteen of an exponential are enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.compiling import bits_of_double, double_of_bits, inner, njit

LOG2_E = 1.0 / math.log(2.0)
"""exp(x) is the power of two of x times this."""

# Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits of the double.
_ROUNDING = 6755399441055744.0
# Sums of powers this small are flagged as underflowing anyway.
SMALLEST_EXPONENT = -1020.0
# 2^f = 1 + f q(f) with q a Chebyshev fit of degree 8 for |f| <= 1/2: off by at most 2e-14, and exact at 0.
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = (
    0.6931471805599453,
    0.2402265069581299,
    0.055504108664760424,
    0.009618129159402558,
    0.0013333558179043112,
    0.00015403455852453838,
    1.525268684626772e-05,
    1.3255224878668817e-06,
    1.0203121063391729e-07,
)


# Inlined by LLVM, not by numba: so it keeps flags of its own, and no caller's "reassoc" undoes the rounding trick.
@inner(forceinline=True, fastmath={"contract"})
def power_of_two(exponent: Any) -> Any:
    """2 to the power of a number that is not positive, to a relative error of 2e-14; below -1020, 2 to the -1020."""
    x = max(exponent, SMALLEST_EXPONENT)
    shifted = x + _ROUNDING
    f = x - (shifted - _ROUNDING)
    p = _C9
    p = p * f + _C8
    p = p * f + _C7
    p = p * f + _C6
    p = p * f + _C5
    p = p * f + _C4
    p = p * f + _C3
    p = p * f + _C2
    p = p * f + _C1
    p = p * f + 1.0
    # The low bits of `shifted` hold the integer part: moved to the exponent field and added, they scale by it.
    return double_of_bits(bits_of_double(p) + (bits_of_double(shifted) << 52))


@njit(nogil=True, fastmath={"contract"})
def exp_in_place(tile: FloatArray) -> None:
    """Replace every (finite, not positive) number by its exponential, to a relative error of 1e-13.

    Below -707 the result is 0: such sums are flagged as underflowing anyway.
    """
    for i in range(tile.size):
        exponent = tile[i] * LOG2_E
        power = power_of_two(exponent)
        tile[i] = power if exponent > SMALLEST_EXPONENT else 0.0


def squared_distances(values: FloatArray) -> FloatArray:
    """Return the squared Euclidean distances of all pairs of rows i < j, in the order of scipy's `pdist`."""
    # Read-only arrays come from JAX, memory maps and careful callers. The loop is compiled for those alone, when first
    # needed: a signature would compile it with every import of this module.
    rows = values.view()
    rows.flags.writeable = False
    return np.asarray(_squared_distances(rows))


@njit(nogil=True)
def _squared_distances(values: FloatArray) -> FloatArray:
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


@njit(nogil=True, fastmath={"reassoc"})
def condensed_row_sums(exponents: FloatArray, sizes: IntArray) -> FloatArray:
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
