"""A drift detector for relations: an alarm when p(y|x) of the latest rows departs from that of the reference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import Array
from condcs._core.checks import check_integer, check_positive
from condcs._core.errors import DataError, ParameterError, ShapeError, public
from condcs._core.random import check_rng
from condcs._core.stateful import State, Stateful
from condcs._kernels.bandwidths import bandwidth as median_bandwidth
from condcs._measures.sliding_window import ReferenceWindow, check_rows, check_widths
from condcs.drift._calibration import CALIBRATION_ROWS, nearest_rows, null_statistics, threshold_for
from condcs.drift._reference_regression import KernelRegression, fit_regression, regression_from, regression_state

FloatArray = np.ndarray[Any, Any]

# More rows to compare with would add little, since the window is smaller, and leave fewer for the calibration.
_MOST_REFERENCE_ROWS, _REFERENCE_WINDOWS = 400, 8

# A decrease of noise shows at the bandwidth of the noise, a large change of few rows at a larger one.
_MULTIPLES_OF_THE_MEDIAN = (1.0, 3.0)


WidthOrMedian = float | Sequence[float] | FloatArray | Literal["median"]
"""A bandwidth as a number, one number per column, or the median distance."""


@dataclass(frozen=True)
class ShiftControl:
    """What keeps shifts of the inputs out of the statistic of a drift detector.

    Attributes
    ----------
    controls : int
        Control windows whose mean divergence is subtracted. Without any (0), shifts of x raise alarms more easily.
    adjust : bool
        Whether y is replaced by its residual from a regression on x that is fitted on the reference. Given x, y and its
        residual determine each other; but residuals hardly depend on x, so that it matters little which inputs the
        window has.
    ranks : bool
        Whether inputs are replaced by their ranks in the reference. Conditional CS weighs all regions of x alike, so
        that rare inputs would have a large influence; with ranks each region counts as often as it occurs, whatever the
        units of x.
    """

    controls: int = 2
    adjust: bool = True
    ranks: bool = True

    def __post_init__(self) -> None:
        check_integer("controls", self.controls, 0)


ALL_CONTROLS = ShiftControl()
"""Two control windows, residuals and ranks."""


class ConditionalDriftDetector(Stateful):
    r"""Watch a stream of pairs (x, y) and detect when the relation p(y|x) departs from that of a reference.

    The statistic is the conditional CS divergence between the last `window` rows and rows of the reference. It is
    updated exactly with every row, at a cost of O(reference + window). Two corrections make it insensitive to shifts of
    the inputs (see `ShiftControl`): y is replaced by its residual from a regression on x, and the mean divergence of
    control windows, which have the same inputs and responses of nearby reference rows, is subtracted. The result is
    compared with a threshold that null streams made of reference rows exceed once in `expected_run_length` rows on
    average. With several bandwidths for y, it is the largest of the differences, each standardised by its mean and
    standard deviation over the null streams. After an alarm the window starts empty again.

    p(y|x) can be known only where the reference has rows. For inputs outside its range the regression has to
    extrapolate, which can raise false alarms; `n_outside` counts such rows of the window.

    Parameters
    ----------
    x_ref, y_ref : array, shape (n, d_x) and (n, d_y)
        The reference. If it has more than 1,500 rows, a random sample of that size is used. The window is compared with
        at most half of them, eight windows or 400 rows, whichever is least; the others serve for the calibration: the
        more there are, the closer the run length is to the stated one. Columns of a DataFrame keep their names, and
        rows may then be passed as dicts.
    window : int
        Number of recent rows that are compared with the reference. Short windows react sooner; long ones detect smaller
        changes.
    expected_run_length : float
        Mean number of rows until a false alarm in a stream that follows the reference.
    shift_control : ShiftControl
        What keeps shifts of the inputs out of the statistic.
    bandwidth_x, bandwidth_y : float, sequence of float, or "median"
        Bandwidths of the kernels, on the ranks of x if ranks are used, and in units of y. "median" is the median
        distance within the reference (of residuals if y is adjusted), with columns of y in units of their standard
        deviation. For y, three times that bandwidth is used as well: noise that decreases shows at the smaller one, a
        large change of few rows at the larger one.
    n_streams : int
        Null streams of the calibration. More of them make the run length more accurate.
    threshold : float, optional
        Used instead of a calibrated threshold.
    rng : int, Generator or None
        Seed of the split, the calibration and the controls.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=400)
    >>> y = x + 0.5 * rng.normal(size=400)
    >>> detector = ConditionalDriftDetector(x, y, window=50, expected_run_length=2000, n_streams=100, rng=0)
    >>> x_new = rng.normal(size=200)
    >>> alarms = detector.update_many(x_new, -x_new)
    >>> bool(alarms.any())
    True
    """

    @public
    def __init__(
        self,
        x_ref: Array,
        y_ref: Array,
        *,
        window: int = 100,
        expected_run_length: float = 10_000,
        shift_control: ShiftControl = ALL_CONTROLS,
        bandwidth_x: WidthOrMedian = "median",
        bandwidth_y: WidthOrMedian = "median",
        n_streams: int = 500,
        threshold: float | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        self._names_x, self._names_y = _names(x_ref), _names(y_ref)
        x, y = check_rows("x_ref", x_ref), check_rows("y_ref", y_ref)
        if len(x) != len(y):
            raise ShapeError(
                f"`x_ref` and `y_ref` must have the same number of rows, got {len(x)} and {len(y)}. "
                "Row i of one belongs to row i of the other."
            )
        self.window = check_integer("window", window, 5)
        if len(x) < 4 * self.window:
            raise ShapeError(
                f"`x_ref` must have at least four windows of rows ({4 * self.window}), got {len(x)}. "
                f"Pass a longer reference, or e.g. window={max(5, len(x) // 4)}."
            )
        self.expected_run_length = check_positive("expected_run_length", expected_run_length)
        if self.expected_run_length < 2 * self.window:
            raise ParameterError(
                f"`expected_run_length` must be at least two windows ({2 * self.window}), got {expected_run_length!r}. "
                "The window has to fill first."
            )
        if not isinstance(shift_control, ShiftControl):
            raise ParameterError(
                f"`shift_control` must be a condcs.drift.ShiftControl, got {shift_control!r}. Pass e.g. "
                "ShiftControl(controls=0)."
            )
        self.controls, ranks = shift_control.controls, shift_control.ranks
        count = check_integer("n_streams", n_streams, 20)
        generator = check_rng(rng)
        self._ranks, self._sorted = ranks, np.sort(x, axis=0)
        self._regression: KernelRegression | None = None
        if shift_control.adjust:
            self._regression, y = fit_regression(x, y, generator)
        inputs = self._as_inputs(x)
        self._width_x, width_y = (
            _widths("bandwidth_x", bandwidth_x, inputs),
            _widths("bandwidth_y", bandwidth_y, y),
        )
        widths_y = [m * width_y for m in _MULTIPLES_OF_THE_MEDIAN] if isinstance(bandwidth_y, str) else [width_y]
        rows = min(_MOST_REFERENCE_ROWS, _REFERENCE_WINDOWS * self.window, len(x) // 2)
        order = generator.permutation(len(x))[:CALIBRATION_ROWS]
        chosen, others = np.sort(order[:rows]), np.sort(order[rows:])
        self._centres, self._scales = np.zeros(len(widths_y)), np.ones(len(widths_y))
        if threshold is None or len(widths_y) > 1:
            order = np.concatenate([chosen, others])
            statistics = null_statistics(
                inputs[order],
                y[order],
                self._width_x,
                widths_y,
                rows=rows,
                window=self.window,
                controls=self.controls,
                count=count,
                generator=generator,
            )
            if len(widths_y) > 1:
                self._centres, self._scales = statistics.mean(axis=(1, 2)), statistics.std(axis=(1, 2))
            largest = ((statistics.T - self._centres) / self._scales).T.max(axis=0)
            self.threshold = threshold_for(largest, self.expected_run_length, self.window)
        if threshold is not None:
            self.threshold = float(threshold)
        self._donors_x, self._donors_y = inputs[others], y[others]
        self._windows = [
            ReferenceWindow(inputs[chosen], y[chosen], self.window, bandwidth_x=self._width_x, bandwidth_y=width)
            for width in widths_y
            for _ in range(1 + self.controls)
        ]
        self._generator = np.random.default_rng(int(generator.integers(2**63)))
        self._seen, self._drift, self._statistic = 0, False, float("nan")

    @property
    def drift_detected(self) -> bool:
        """Whether the last row raised an alarm."""
        return self._drift

    @property
    def statistic(self) -> float:
        """The value that is compared with `threshold`; NaN while the window fills."""
        return self._statistic

    @property
    def n_seen(self) -> int:
        """Number of rows seen so far."""
        return self._seen

    @property
    def n_outside(self) -> int:
        """Number of rows of the window with an input outside the range of the reference."""
        inputs = self._windows[0].recent()[0]
        low, high = (0.0, 1.0) if self._ranks else (self._sorted[0], self._sorted[-1])
        outside = (inputs <= low) | (inputs >= high) if self._ranks else (inputs < low) | (inputs > high)
        return int(outside.any(axis=1).sum())

    @public
    def update(self, x: Any, y: Any) -> ConditionalDriftDetector:
        """Add one row and return the detector; x may be a dict with the names of the reference's columns."""
        self._step(self._one_row("x", x, self._names_x), self._one_row("y", y, self._names_y))
        return self

    @public
    def update_many(self, x: Array, y: Array) -> np.ndarray[Any, Any]:
        """Add rows one after the other and return, for each, whether it raised an alarm."""
        inputs, responses = check_rows("x", x), check_rows("y", y)
        if len(inputs) != len(responses):
            raise ShapeError(
                f"`x` and `y` must have the same number of rows, got {len(inputs)} and {len(responses)}. "
                "Row i of one belongs to row i of the other."
            )
        alarms = np.zeros(len(inputs), bool)
        for place, (one_x, one_y) in enumerate(zip(inputs, responses, strict=True)):
            self._step(one_x, one_y)
            alarms[place] = self._drift
        return alarms

    def reset(self) -> None:
        """Remove the recent rows; the reference and the threshold are kept."""
        for sliding in self._windows:
            sliding.clear()
        self._drift, self._statistic = False, float("nan")

    def state_dict(self) -> State:
        """Return the whole state as plain arrays."""
        settings = {
            "window": self.window,
            "expected_run_length": self.expected_run_length,
            "controls": self.controls,
            "adjust": self._regression is not None,
            "ranks": self._ranks,
            "threshold": self.threshold,
            "seen": self._seen,
            "drift": self._drift,
            "names_x": self._names_x,
            "names_y": self._names_y,
            "generator": self._generator.bit_generator.state,
        }
        state = {
            "settings": np.array(json.dumps(settings)),
            "sorted": self._sorted,
            "donors_x": self._donors_x,
            "donors_y": self._donors_y,
            "centres": self._centres,
            "scales": self._scales,
            "statistic": np.array(self._statistic),
        }
        if self._regression is not None:
            state |= regression_state(self._regression)
        for number, sliding in enumerate(self._windows):
            state |= {f"window_{number}_{name}": array for name, array in sliding.state_dict().items()}
        return state

    @classmethod
    @public
    def from_state_dict(cls, state: Mapping[str, FloatArray]) -> ConditionalDriftDetector:
        """Return the detector that `state` describes; it continues as if it had never stopped."""
        made = cls.__new__(cls)
        try:
            settings = json.loads(str(np.asarray(state["settings"]).item()))
            made.window, made.controls = int(settings["window"]), int(settings["controls"])
            made.expected_run_length, made.threshold = (
                float(settings["expected_run_length"]),
                float(settings["threshold"]),
            )
            made._seen, made._drift = int(settings["seen"]), bool(settings["drift"])
            made._names_x, made._names_y = settings["names_x"], settings["names_y"]
            made._generator = np.random.Generator(np.random.PCG64())
            made._generator.bit_generator.state = settings["generator"]
            made._ranks = bool(settings["ranks"])
            made._statistic = float(np.asarray(state["statistic"]).item())
            made._sorted, made._donors_x, made._donors_y = (
                _stored(state, name, 2) for name in ("sorted", "donors_x", "donors_y")
            )
            made._centres, made._scales = _stored(state, "centres", 1), _stored(state, "scales", 1)
            if made._centres.shape != made._scales.shape or not np.all(made._scales > 0):
                raise ValueError("centres and scales that do not fit")
            if len(made._donors_x) != len(made._donors_y) or made._sorted.shape[1] != made._donors_x.shape[1]:
                raise ValueError("reference rows that do not fit")
            if made.controls < 0 or np.isnan(made.threshold):
                raise ValueError(f"{made.controls} controls and a threshold of {made.threshold}")
            dims = made._donors_x.shape[1], made._donors_y.shape[1]
            made._regression = regression_from(state, *dims) if settings["adjust"] else None
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise DataError(
                f"`state` must come from `state_dict()` of a detector, got something else ({error}). Save it again."
            ) from error
        made._windows = []
        for number in range(len(made._scales) * (1 + made.controls)):
            start = f"window_{number}_"
            part = {name.removeprefix(start): state[name] for name in state if name.startswith(start)}
            made._windows.append(ReferenceWindow.from_state_dict(part))
            if made._windows[-1].size != made.window:
                raise DataError(
                    f"`state` must come from `state_dict()` of a detector, got a window of {made.window} rows and one "
                    f"of {made._windows[-1].size}. Save it again."
                )
        made._width_x = np.asarray(state["window_0_widths"])[: dims[0]]
        return made

    def _step(self, x: FloatArray, y: FloatArray) -> None:
        if self._drift:
            self.reset()
        inputs = self._as_inputs(x[None])[0]
        if self._regression is not None:
            y = y - self._regression.predict(x[None])[0]
        responses = [y]
        if self.controls:
            # All controls of a row have the same neighbours, but draws of their own.
            similarity = -(((self._donors_x - inputs) / self._width_x) ** 2).sum(axis=1)
            nearest = nearest_rows(similarity)
            drawn = nearest[self._generator.integers(len(nearest), size=self.controls)]
            responses += list(self._donors_y[drawn])
        for number, sliding in enumerate(self._windows):
            sliding.push(inputs, responses[number % len(responses)])
        self._seen += 1
        if self._windows[0].is_full:
            values = np.array([sliding.divergence() for sliding in self._windows]).reshape(-1, 1 + self.controls)
            differences = values[:, 0] - values[:, 1:].mean(axis=1) if self.controls else values[:, 0]
            self._statistic = float(np.max((differences - self._centres) / self._scales))
            self._drift = bool(self._statistic > self.threshold)

    def _as_inputs(self, x: FloatArray) -> FloatArray:
        """Return the ranks in the reference, between 0 and 1 and averaged over ties, or x itself."""
        if x.shape[1] != self._sorted.shape[1]:
            raise ShapeError(
                f"`x` must have {self._sorted.shape[1]} columns, as the reference has, got {x.shape[1]}."
                " Pass the same columns in the same order."
            )
        if not self._ranks:
            return x
        ranks = [
            np.searchsorted(column, values, side="left") + np.searchsorted(column, values, side="right")
            for column, values in zip(self._sorted.T, x.T, strict=True)
        ]
        return np.asarray(np.column_stack(ranks) / (2.0 * len(self._sorted)))

    def _one_row(self, name: str, value: Any, names: list[str] | None) -> FloatArray:
        if isinstance(value, Mapping):
            if names is None:
                raise DataError(
                    f"`{name}` must be an array, got a dict. Make the reference a DataFrame, or pass an array."
                )
            missing = [column for column in names if column not in value]
            if missing:
                raise DataError(f"`{name}` must have the columns of the reference, but lacks {missing[0]!r}. Add it.")
            value = [value[column] for column in names]
        rows = check_rows(name, np.atleast_1d(np.asarray(value, dtype=object))[None])
        if rows.shape[0] != 1 or rows.ndim != 2:
            raise ShapeError(f"`{name}` must be one row, got shape {np.shape(value)}. Use `update_many` for several.")
        return np.asarray(rows[0])


def _names(table: Any) -> list[str] | None:
    columns = getattr(table, "columns", None)
    return None if columns is None else [str(column) for column in columns]


def _stored(state: Mapping[str, FloatArray], name: str, ndim: int) -> FloatArray:
    array = np.asarray(state[name])
    if array.dtype.kind not in "fiu" or array.ndim != ndim or not array.size or not np.isfinite(array).all():
        raise ValueError(f"{name} of type {array.dtype} and shape {array.shape}, or not finite")
    return array.astype(np.float64)


def _widths(option: str, bandwidth: WidthOrMedian, values: FloatArray) -> FloatArray:
    if not isinstance(bandwidth, str):
        return check_widths(option, bandwidth, values.shape[1])
    if bandwidth != "median":
        raise ParameterError(f'`{option}` must be "median" or numbers, got {bandwidth!r}. Pass {option}="median".')
    return np.full(values.shape[1], median_bandwidth(values))
