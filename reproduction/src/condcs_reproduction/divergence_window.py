"""Rivals of the drift detector that compare a sliding window with a reference.

One is the detector of version 0.1: conditional CS of residuals from a regression on x, at ranks of x. The other is
ContextMMD (Cobb and Van Looveren, 2022) made online: its published form compares two samples once, by permutations. The
threshold of both is that of null streams made of reference rows in random order, whose largest values a Gumbel
distribution extrapolates to the stated run length.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from condcs._core.arrays import BoolArray, FloatArray
from condcs._core.errors import BandwidthWarning
from condcs._kernels.bandwidths import bandwidth
from condcs._measures import sliding_loops
from condcs.drift._reference_regression import RegressionFitter

_REFERENCE_ROWS, _STREAM_WINDOWS = 400, 4
_EULER = 0.5772156649015329
_RIDGE = 0.01
_STEP = 5


class ContextWindow:
    r"""Squared MMD of y between a window and a reference, conditional on x, on average over the window's inputs.

    With Gram matrices K of x and L of y and :math:`w(c) = (K + \lambda n I)^{-1} k(c)` in each sample, the embedding of
    y given c is :math:`\sum_i w_i(c) \, l(y_i)`. The statistic is made anew every five rows only.
    """

    def __init__(self, rows: FloatArray, dim_x: int, size: int, widths: tuple[float, float]) -> None:
        self._x, self._y, self._widths, self._dim_x = rows[:, :dim_x], rows[:, dim_x:], widths, dim_x
        self._inverse, self._L = np.linalg.inv(self._ridged(self._x)), self._gram(self._y, self._y, 1)
        self._new: list[FloatArray] = []
        self._seen: deque[tuple[FloatArray, FloatArray, FloatArray, float]] = deque(maxlen=size)
        self._value = np.nan

    def push(self, row: FloatArray) -> float:
        """Add a recent row, in place of the oldest if there are enough; return the statistic, NaN until then."""
        self._new.append(row)
        if len(self._new) == _STEP:
            rows = np.array(self._new)
            self._new.clear()
            # What the reference expects at an input does not change: it is computed once for every row.
            before = self._inverse @ self._gram(self._x, rows[:, : self._dim_x], 0)
            cross = self._gram(self._y, rows[:, self._dim_x :], 1)
            squares = (before * (self._L @ before)).sum(axis=0)
            self._seen.extend(zip(rows, before.T, cross.T, squares, strict=True))
            if len(self._seen) == self._seen.maxlen:
                self._value = self._statistic()
        return self._value

    def _statistic(self) -> float:
        rows, before, cross, squares = (np.array(part) for part in zip(*self._seen, strict=True))
        x, y = rows[:, : self._dim_x], rows[:, self._dim_x :]
        own = cho_solve(cho_factor(self._ridged(x)), self._gram(x, x, 0))
        parts = squares.sum() + (own * (self._gram(y, y, 1) @ own)).sum() - 2 * (own * (cross @ before.T)).sum()
        return float(parts) / len(x)

    def _gram(self, a: FloatArray, b: FloatArray, side: int) -> FloatArray:
        return np.asarray(np.exp(-0.5 * cdist(a, b, "sqeuclidean") / self._widths[side] ** 2))

    def _ridged(self, x: FloatArray) -> FloatArray:
        return self._gram(x, x, 0) + _RIDGE * len(x) * np.eye(len(x))


class ReferenceWindow:
    """A fixed reference, the old group, and a sliding window of recent rows, the new one, compared at every step."""

    def __init__(self, rows: FloatArray, dim_x: int, size: int, widths: tuple[Any, Any]) -> None:
        dims = (dim_x, rows.shape[1] - dim_x)
        columns = [np.broadcast_to(np.asarray(w, np.float64), d) for w, d in zip(widths, dims, strict=True)]
        self.sums = sliding_loops.empty_window(len(rows) + size, dim_x, np.concatenate(columns))
        for slot, row in enumerate(rows):
            sliding_loops.put_in(self.sums, slot, row, 0)
            sliding_loops.mend(self.sums)
        self._n_reference, self._size, self._pushed = len(rows), size, 0

    def push(self, row: FloatArray) -> float:
        """Add a recent row, in place of the oldest if there are enough; return the divergence, NaN until then."""
        slot = self._n_reference + self._pushed % self._size
        if self._pushed >= self._size:
            sliding_loops.take_out(self.sums, slot)
        sliding_loops.put_in(self.sums, slot, row, 1)
        sliding_loops.mend(self.sums)
        self._pushed += 1
        if self._pushed < self._size:
            return np.nan
        # One row more is summed afresh: those of the reference, which stay for ever, would gather rounding.
        sliding_loops.refresh_row(self.sums, self._pushed % (self._n_reference + self._size))
        return float(sliding_loops.window_conditional_cs(self.sums))


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
    statistic : {"conditional_cs", "context_mmd"}
        What is compared with the threshold.
    """

    def __init__(
        self,
        x: FloatArray,
        y: FloatArray,
        window: int,
        run_length: float,
        streams: int,
        statistic: Literal["conditional_cs", "context_mmd"],
    ) -> None:
        self._window, self._statistic, rng = window, statistic, np.random.default_rng(0)
        self._sorted, self._units = np.sort(x, axis=0), (x.std(axis=0), y.std())
        if statistic == "conditional_cs":
            self._regression, residuals = RegressionFitter(x).fit(y[:, None])
            inputs = self._ranks(x)
        else:
            inputs, residuals = self._prepared(x, y)
        with warnings.catch_warnings():
            # Of labels most distances are 0; the smallest positive one, which then counts, is right for them.
            warnings.simplefilter("ignore", BandwidthWarning)
            self._widths = float(np.max(bandwidth(inputs))), float(np.max(bandwidth(residuals)))
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

    def fresh(self) -> Callable[[FloatArray, FloatArray], BoolArray]:
        """Return a function that takes rows and says which raised an alarm; the window starts empty after one."""
        sliding = self._sliding()

        def watch(x: FloatArray, y: FloatArray) -> BoolArray:
            nonlocal sliding
            alarms = np.zeros(len(x), bool)
            for place, row in enumerate(np.column_stack(self._prepared(x, y))):
                alarms[place] = sliding.push(row) > self.threshold
                if alarms[place]:
                    sliding = self._sliding()
            return alarms

        return watch

    def _prepared(self, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self._statistic == "context_mmd":
            return x / self._units[0], y[:, None] / self._units[1]
        return self._ranks(x), y[:, None] - self._regression.predict(x)

    def _sliding(self) -> ReferenceWindow | ContextWindow:
        kind = ReferenceWindow if self._statistic == "conditional_cs" else ContextWindow
        return kind(self._reference, self._sorted.shape[1], self._window, self._widths)

    def _ranks(self, x: FloatArray) -> FloatArray:
        ranks = [
            np.searchsorted(column, values, side="left") + np.searchsorted(column, values, side="right")
            for column, values in zip(self._sorted.T, x.T, strict=True)
        ]
        return np.asarray(np.column_stack(ranks) / (2.0 * len(self._sorted)))
