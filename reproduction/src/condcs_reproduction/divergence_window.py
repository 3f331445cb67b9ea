"""The drift detector of version 0.1, as a rival: conditional CS of a sliding window from a reference.

Residuals from a regression on x, at ranks of x, are compared; the threshold is that of null streams made of reference
rows in random order, whose largest values a Gumbel distribution extrapolates to the stated run length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condcs._kernels.bandwidths import bandwidth
from condcs._measures.sliding_window import NEW, OLD, SlidingWindow
from condcs.drift._reference_regression import RegressionFitter

FloatArray = np.ndarray[Any, Any]

_REFERENCE_ROWS, _STREAM_WINDOWS = 400, 4
_EULER = 0.5772156649015329


class ReferenceWindow:
    """A fixed reference, the old group, and a sliding window of recent rows, the new one, compared at every step."""

    def __init__(self, rows: FloatArray, dim_x: int, size: int, widths: tuple[Any, Any]) -> None:
        dim_y = rows.shape[1] - dim_x
        self._window = SlidingWindow(len(rows) + size, dim_x, dim_y, bandwidth_x=widths[0], bandwidth_y=widths[1])
        for row in rows:
            self._window.append(row, OLD)
        self._n_reference, self._size, self._pushed = len(rows), size, 0

    def push(self, row: FloatArray) -> float:
        """Add a recent row, in place of the oldest if there are enough; return the divergence, NaN until then."""
        if self._pushed >= self._size:
            self._window.replace(self._n_reference + self._pushed % self._size, row, NEW)
        else:
            self._window.append(row, NEW)
        self._pushed += 1
        return self._window.divergence() if self._pushed >= self._size else np.nan


class DivergenceWindow:
    """A detector for one reference.

    Parameters
    ----------
    x, y : array, shape (n, d) and (n,)
        The reference.
    window : int
        Rows that are compared with it.
    run_length : float
        Mean run length at which the threshold aims.
    streams : int
        Null streams.
    """

    def __init__(self, x: FloatArray, y: FloatArray, window: int, run_length: float, streams: int) -> None:
        self._sorted, self._window = np.sort(x, axis=0), window
        self._regression, residuals = RegressionFitter(x).fit(y[:, None])
        inputs, rng = self._ranks(x), np.random.default_rng(0)
        self._widths = bandwidth(inputs), bandwidth(residuals)
        order = rng.permutation(len(x))
        chosen, others = np.split(order, [min(_REFERENCE_ROWS, len(x) // 2)])
        self._reference = np.column_stack([inputs[chosen], residuals[chosen]])
        largest = []
        for _ in range(streams):
            stream = rng.permutation(others)[: _STREAM_WINDOWS * window]
            sliding = self._sliding()
            largest.append(np.nanmax([sliding.push(row) for row in np.column_stack([inputs, residuals])[stream]]))
        scale = max(float(np.std(largest)) * np.sqrt(6) / np.pi, 1e-12)
        windows = min(len(others), _STREAM_WINDOWS * window) - window + 1
        # exp(-exp(-(h - location) / scale)) is the probability of no alarm in so many windows.
        self.threshold = float(np.mean(largest)) - scale * (_EULER + np.log(windows / (run_length - window)))

    def fresh(self) -> Callable[[FloatArray, FloatArray], FloatArray]:
        """Return a function that takes rows and says which raised an alarm; the window starts empty after one."""
        sliding = self._sliding()

        def watch(x: FloatArray, y: FloatArray) -> FloatArray:
            nonlocal sliding
            rows = np.column_stack([self._ranks(x), y[:, None] - self._regression.predict(x)])
            alarms = np.zeros(len(x), bool)
            for place, row in enumerate(rows):
                alarms[place] = sliding.push(row) > self.threshold
                if alarms[place]:
                    sliding = self._sliding()
            return alarms

        return watch

    def _sliding(self) -> ReferenceWindow:
        return ReferenceWindow(self._reference, self._sorted.shape[1], self._window, self._widths)

    def _ranks(self, x: FloatArray) -> FloatArray:
        ranks = [
            np.searchsorted(column, values, side="left") + np.searchsorted(column, values, side="right")
            for column, values in zip(self._sorted.T, x.T, strict=True)
        ]
        return np.asarray(np.column_stack(ranks) / (2.0 * len(self._sorted)))
