r"""How large the statistic becomes by chance: null streams made of reference rows, and a threshold from them.

Rows of the reference that the window is not compared with are put in random order, again and again, as null streams.
In a stationary stream the first of L windows exceeds a threshold h with probability :math:`P_1(h)`, and any of them
with probability :math:`G(h)`. Alarms come at a rate

.. math:: \lambda(h) = \frac{\log(1 - P_1(h)) - \log(1 - G(h))}{L - 1},

and the mean run length, from an empty window of w rows, is :math:`w + 1 / \lambda(h)`. G is a Gumbel distribution
that is fitted by L-moments to the largest value of each stream: required run lengths are far longer than any reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from condcs._core.compiling import njit
from condcs._core.settings import current_settings
from condcs._kernels.log_kernels import EXACT_EXPONENT
from condcs._measures.compiled_formulas import conditional_terms, log_contrast
from condcs._measures.sliding_window import ReferenceWindow

FloatArray = np.ndarray[Any, Any]

NEIGHBOURS = 10
"""Number of rows from which a control response is drawn."""

CALIBRATION_ROWS = 1500
"""Largest number of rows of the reference that are used."""

_STREAM_WINDOWS = 4
_SMALLEST_KERNEL = 1e-280
_TIE = 1e-10
_EULER = 0.5772156649015329
# A running sum that falls below this part of its peak has lost digits to cancellation and is summed again.
_CANCELLED = 1e-3

compiled = njit(nogil=True, fastmath={"contract", "reassoc"})


def null_statistics(
    x: FloatArray,
    y: FloatArray,
    width_x: FloatArray,
    widths_y: Sequence[FloatArray],
    *,
    rows: int,
    window: int,
    controls: int,
    count: int,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the statistic at every full window of null streams: bandwidths of y, then streams, then windows.

    Parameters
    ----------
    x, y : array, shape (n, d)
        The reference, as the kernels see it: first the rows with which streams are compared, then those from which
        streams and controls are drawn.
    width_x : array, shape (d_x,)
        One bandwidth per column of x.
    widths_y : sequence of arrays, each of shape (d_y,)
        One bandwidth per column of y; each array has a statistic of its own.
    rows : int
        Number of rows with which streams are compared.
    window : int
        Length of the sliding window.
    controls : int
        Control windows, as in the detector.
    count : int
        Number of streams.
    generator : Generator
        Random generator.
    """
    n = len(x)
    length = min(n - rows, _STREAM_WINDOWS * window)
    K, grams = _gram(x, width_x), [_gram(y, width) for width in widths_y]
    orders = [np.concatenate([np.arange(rows), rows + generator.permutation(n - rows)[:length]]) for _ in range(count)]
    # No row is a control of itself.
    others = K[rows:, rows:] - 2 * np.eye(n - rows)
    nearest, smallest = rows + np.array([nearest_rows(row) for row in others]), K.min()
    responses = [_responses(order, rows, nearest, controls, generator) for order in orders]

    def one(order: FloatArray, responses: list[FloatArray]) -> list[FloatArray]:
        Kp = np.ascontiguousarray(K[np.ix_(order, order)])
        values = []
        for L, width in zip(grams, widths_y, strict=True):
            if smallest <= _SMALLEST_KERNEL:
                both = (width_x, width)
                found = [_exact_divergences(x[order], y[own], rows, window, both) for own in responses]
            else:
                found = [_divergences(Kp, L[np.ix_(own, own)], rows, window) for own in responses]
            values.append(np.asarray(found[0] - np.mean(found[1:], axis=0) if controls else found[0]))
        return values

    # All random numbers are drawn before, so that results do not depend on threads.
    with ThreadPoolExecutor(current_settings().n_threads) as pool:
        return np.swapaxes(np.array(list(pool.map(one, orders, responses))), 0, 1)


def threshold_for(statistics: FloatArray, run_length: float, window: int) -> float:
    """Return the threshold at which the mean run length is `run_length` rows."""
    length = statistics.shape[1]
    target = 1.0 / (run_length - window)
    values = np.sort(statistics, axis=None)
    location, scale = _gumbel(statistics.max(axis=1))

    def rate(h: float) -> float:
        below = np.exp(-np.exp(-(h - location) / scale))
        first = 1 - np.searchsorted(values, h, side="right") / len(values)
        return float((np.log1p(-min(first, 1 - 1e-9)) - np.log(max(below, 1e-300))) / max(1, length - 1))

    low, high = float(values[0]), location + 60 * scale
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rate(middle) > target else (low, middle)
    return high


def nearest_rows(similarity: FloatArray) -> FloatArray:
    """Return the indices of the largest similarities, in ascending order.

    Rounded inputs have many neighbours at the same distance, whose similarities differ by rounding errors. Of such ties
    the first are taken, so that the answer is the same on every processor.
    """
    k = min(NEIGHBOURS, len(similarity) - 1)
    limit = np.partition(similarity, -k)[-k]
    nearer = np.flatnonzero(similarity > limit + _TIE)
    ties = np.flatnonzero(np.abs(similarity - limit) <= _TIE)
    return np.sort(np.concatenate([nearer, ties[: k - len(nearer)]]))


def _gumbel(maxima: FloatArray) -> tuple[float, float]:
    ordered = np.sort(maxima)
    n = len(ordered)
    second = 2 * float(np.arange(n) @ ordered) / (n * (n - 1)) - float(ordered.mean())
    scale = max(second / np.log(2), 1e-12)
    return float(ordered.mean()) - _EULER * scale, scale


def _responses(
    order: FloatArray, rows: int, nearest: FloatArray, controls: int, generator: np.random.Generator
) -> list[FloatArray]:
    """Return the rows whose responses are used: the stream's own, then those of neighbours for each control."""
    found = [order]
    for _ in range(controls):
        stream = order[rows:]
        drawn = nearest[stream - rows, generator.integers(nearest.shape[1], size=len(stream))]
        found.append(np.concatenate([order[:rows], drawn]))
    return found


def _divergences(K: FloatArray, L: FloatArray, rows: int, window: int) -> FloatArray:
    out = np.empty(len(K) - rows - window + 1)
    stream_divergences(K, K * L, rows, window, out)
    return out


@compiled
def _slide(total: Any, peak: Any, gram: Any, first: int, stop: int, leaves: int, enters: int, window: int) -> None:
    """Move the running sums of some rows by one step of the window; it then ends with the row that enters."""
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

    It does not use `condcs._measures.sliding_window`, which evaluates kernels for every row: all streams share the Gram
    matrices of the reference, so that a step only adds and subtracts their rows, in a fifth of the time.

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


def _exact_divergences(
    x: FloatArray, y: FloatArray, rows: int, window: int, widths: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Do the same where kernel values underflow, with the sliding window that allows for it."""
    sliding = ReferenceWindow(x[:rows], y[:rows], window, bandwidth_x=widths[0], bandwidth_y=widths[1])
    found = []
    for own_x, own_y in zip(x[rows:], y[rows:], strict=True):
        sliding.push(own_x, own_y)
        if sliding.is_full:
            found.append(sliding.divergence())
    return np.array(found)


def _gram(rows: FloatArray, widths: FloatArray) -> FloatArray:
    scaled = rows / widths
    squares = (scaled**2).sum(axis=1)
    if squares.max() > 2 * EXACT_EXPONENT[64]:
        # The expansion below would cancel: with a common offset of 1e8 no digit of the distances is left. Differences
        # of centred rows keep them.
        scaled = (rows - np.median(rows, axis=0)) / widths
        return np.asarray(np.exp(-0.5 * cdist(scaled, scaled, "sqeuclidean")))
    distances = squares[:, None] + squares - 2 * (scaled @ scaled.T)
    return np.asarray(np.exp(-0.5 * np.maximum(distances, 0.0)))
