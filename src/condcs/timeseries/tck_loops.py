"""Compiled loop of the time series cluster kernel; imported when first needed, because loading numba takes time."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.core.compiling import njit


@njit(nogil=True, fastmath={"reassoc", "contract"})
def log_densities(values: Any, present: Any, means: Any, precisions: Any, offsets: Any, floor: float) -> Any:
    """Return sum_f present[n, f] max(offsets[c, f] - precisions[c, f] (values[n, f] - means[c, f])^2, floor)."""
    n, width = values.shape
    count = len(means)
    result = np.empty((n, count))
    for i in range(n):
        for c in range(count):
            total = 0.0
            for f in range(width):
                gap = values[i, f] - means[c, f]
                total += present[i, f] * max(offsets[c, f] - precisions[c, f] * gap * gap, floor)
            result[i, c] = total
    return result
