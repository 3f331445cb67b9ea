"""Loops for which numpy has no fast function, compiled once and kept on disk by numba.

Loading numba takes about half a second, so this module is imported by computations with many pairs only
(`row_sums.exp_in_place`). There the exponential takes half the time of `np.exp` with AVX-512, and a seventh without:
numpy calls a scalar routine there. Ten digits are promised of a divergence, so that thirteen of an exponential are
enough.
"""

from __future__ import annotations

import math
from typing import Any

from condcs._core.arrays import FloatArray
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
