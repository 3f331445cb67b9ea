"""Compiled loop of the calibration: one null stream against one reference, both drawn from the same sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.core.compiling import njit
from condcs.measures.compiled_formulas import conditional_terms, log_contrast

# A running sum that falls below this part of its peak has lost digits to cancellation and is summed again.
_CANCELLED = 1e-3

compiled = njit(nogil=True, fastmath={"contract", "reassoc"})


@compiled
def _slide(total: Any, peak: Any, gram: Any, first: int, stop: int, leaves: int, enters: int, window: int) -> None:
    """Move the running sums of some rows by one step of the window, which then ends with the row that enters."""
    plus, minus = gram[enters], gram[leaves]
    for j in range(first, stop):
        total[j] += plus[j] - minus[j]
        peak[j] = max(peak[j], total[j])
    for j in range(first, stop):
        if total[j] < _CANCELLED * peak[j]:
            total[j] = gram[j, enters - window + 1 : enters + 1].sum()
            peak[j] = total[j]


@compiled
def stream_divergences(K: Any, M: Any, m: int, window: int, out: Any) -> None:
    """Write the conditional CS divergence of every full window of a stream from a reference.

    Parameters
    ----------
    K, M : array, shape (m + length, m + length)
        Gram matrices on x, and on x and y together, of the reference rows followed by the stream; no entry so small
        that sums would underflow.
    m : int
        Rows of the reference.
    window : int
        Length of the sliding window.
    out : array, shape (length - window + 1,)
        The divergences.
    """
    n = K.shape[0]
    # Masses in the reference, of all rows, and in the window, of the reference and of the rows inside.
    A0, B0, A1, B1 = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(m):
        for j in range(n):
            A0[j] += K[i, j]
            B0[j] += M[i, j]
    for i in range(m, m + window):
        for j in range(m + window):
            A1[j] += K[i, j]
            B1[j] += M[i, j]
    top_a, top_b = A1.copy(), B1.copy()
    own = 0.0
    for j in range(m):
        own += conditional_terms(A0[j], B0[j], A0[j], B0[j])[0]
    for start in range(n - m - window + 1):
        first, stop = m + start, m + start + window
        if start > 0:
            for total, peak, gram in ((A1, top_a, K), (B1, top_b, M)):
                _slide(total, peak, gram, 0, m, first - 1, stop - 1, window)
                _slide(total, peak, gram, first, stop - 1, first - 1, stop - 1, window)
                total[stop - 1] = gram[stop - 1, first:stop].sum()
                peak[stop - 1] = total[stop - 1]
        cross, back, new = 0.0, 0.0, 0.0
        for j in range(m):
            cross += conditional_terms(A0[j], B0[j], A1[j], B1[j])[1]
        for j in range(first, stop):
            within, across = conditional_terms(A1[j], B1[j], A0[j], B0[j])
            new += within
            back += across
        out[start] = log_contrast(own, cross, back, new)
