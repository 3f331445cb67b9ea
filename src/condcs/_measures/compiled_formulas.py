"""The formulas of `condcs._measures.formulas` for compiled loops over single rows; a test pins them to those.

Imported when first needed, because loading numba takes half a second.
"""

from __future__ import annotations

import math
from typing import Any

from condcs._core.compiling import njit

compiled = njit(nogil=True, fastmath={"contract", "reassoc"})


@compiled
def conditional_terms(a_own: float, b_own: float, a_other: float, b_other: float) -> Any:
    """Return what a row adds to T[g,g] and T[g,h] of Prop. 2, from its masses in its own group g and in h."""
    return b_own / (a_own * a_own), b_other / (a_own * a_other)


@compiled
def log_contrast(pp: float, pq: float, qp: float, qq: float) -> float:
    """Return the log contrast of an interaction that is not in logs."""
    return (math.log(pp) - math.log(pq)) + (math.log(qq) - math.log(qp))
