"""A drift detector for relations: an alarm when p(y|x) of the latest rows has left that of the reference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

import condcs
from condcs.core.arrays import Array
from condcs.core.checks import check_integer, check_positive
from condcs.core.errors import DataError, ParameterError, ShapeError, public
from condcs.core.random import check_rng
from condcs.drift.calibration import nearest_rows, null_statistics, threshold_for
from condcs.kernels.bandwidths import Bandwidth
from condcs.measures.sliding_window import ReferenceWindow, check_rows, check_widths

FloatArray = np.ndarray[Any, Any]
State = dict[str, FloatArray]

# More rows to compare with would tell little more, as the window is smaller, and leave fewer to calibrate on.
_MOST_REFERENCE_ROWS, _REFERENCE_WINDOWS = 400, 8


class ConditionalDriftDetector:
    r"""Watch a stream of pairs (x, y) and say when the relation p(y|x) has left that of a reference.

    The statistic is the conditional CS divergence of the last `window` rows from reference rows, kept up to date
    exactly with every row (cost O(reference + window), not their square), less the mean of what `controls` windows with
    the same inputs and responses drawn from the reference show, so that inputs that shift, or rare ones, move both
    alike. That is not exact: when x shifts strongly, false alarms come sooner than stated. It is compared with a
    threshold that null streams cut out of the reference reach once in `expected_run_length` rows on average. After an
    alarm the window starts empty again.

    Parameters
    ----------
    x_ref, y_ref : array, shape (n, d_x) and (n, d_y)
        The reference. Some rows are compared with, chosen at random: half of them, eight windows or 400 at most. The
        others calibrate: the more there are, the closer the run length is to the stated one.
        Columns of a DataFrame keep their names, and rows may then come as dicts.
    window : int
        Rows that are compared with the reference. Short ones react sooner, long ones see smaller changes.
    expected_run_length : float
        Rows until a false alarm, on average, in a stream like the reference.
    controls : int
        Control windows; 0 leaves them out, and shifts of x then raise alarms more easily.
    ranks : bool
        Whether inputs are replaced by their ranks in the reference. Conditional CS weighs all of x alike, and a rare
        input would count for much; with ranks inputs count as often as they occur, whatever their unit.
    bandwidth_x, bandwidth_y : float, sequence of float, or "median"
        Widths of the kernels: on the ranks if `ranks`, and in units of y. "median" is the median distance within the
        reference, columns of y in units of their deviation.
    n_streams : int
        Null streams of the calibration. More make the run length more certain.
    threshold : float, optional
        Takes the place of the calibration.
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
        controls: int = 2,
        ranks: bool = True,
        bandwidth_x: Bandwidth = "median",
        bandwidth_y: Bandwidth = "median",
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
        self.controls = check_integer("controls", controls, 0)
        count = check_integer("n_streams", n_streams, 20)
        generator = check_rng(rng)
        self._sorted = np.sort(x, axis=0) if ranks else np.empty((0, x.shape[1]))
        inputs = self._as_inputs(x)
        widths = (_widths("bandwidth_x", bandwidth_x, inputs, scaled=not ranks), _widths("bandwidth_y", bandwidth_y, y))
        rows = min(_MOST_REFERENCE_ROWS, _REFERENCE_WINDOWS * self.window, len(x) // 2)
        order = generator.permutation(len(x))
        chosen = np.sort(order[:rows])
        if threshold is None:
            order[:rows] = chosen
            statistics = null_statistics(
                inputs[order],
                y[order],
                widths,
                rows=rows,
                window=self.window,
                controls=self.controls,
                count=count,
                generator=generator,
            )
            self.threshold = threshold_for(statistics, self.expected_run_length, self.window)
        else:
            self.threshold = float(threshold)
        self._reference_x, self._reference_y = inputs[chosen] / widths[0], y[chosen]
        self._windows = [
            ReferenceWindow(inputs[chosen], y[chosen], self.window, bandwidth_x=widths[0], bandwidth_y=widths[1])
            for _ in range(1 + self.controls)
        ]
        self._widths_x = widths[0]
        self._generator = np.random.default_rng(int(generator.integers(2**63)))
        self._seen, self._drift, self._statistic = 0, False, float("nan")

    @property
    def drift_detected(self) -> bool:
        """Whether the last row raised an alarm."""
        return self._drift

    @property
    def statistic(self) -> float:
        """Value that is compared with `threshold`; NaN while the window fills."""
        return self._statistic

    @property
    def n_seen(self) -> int:
        """Rows seen since the detector was made."""
        return self._seen

    @public
    def update(self, x: Any, y: Any) -> ConditionalDriftDetector:
        """Take in one row; x may be a dict with the names of the reference's columns. Returns the detector."""
        self._step(self._one_row("x", x, self._names_x), self._one_row("y", y, self._names_y))
        return self

    @public
    def update_many(self, x: Array, y: Array) -> np.ndarray[Any, Any]:
        """Take in rows one after the other and return, for each, whether it raised an alarm."""
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
        """Forget the recent rows; the reference and the threshold stay."""
        for sliding in self._windows:
            sliding.clear()
        self._drift, self._statistic = False, float("nan")

    def state_dict(self) -> State:
        """Return everything as plain arrays, for `numpy.savez`; `load` reads it without pickle."""
        settings = {
            "window": self.window,
            "expected_run_length": self.expected_run_length,
            "controls": self.controls,
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
            "statistic": np.array(self._statistic),
        }
        for number, sliding in enumerate(self._windows):
            state |= {f"window_{number}_{name}": array for name, array in sliding.state().items()}
        return state

    @classmethod
    @public
    def load(cls, state: Mapping[str, FloatArray]) -> ConditionalDriftDetector:
        """Return the detector that `state` describes; it goes on as if it had never stopped."""
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
            made._sorted, made._statistic = np.asarray(state["sorted"], np.float64), float(state["statistic"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"`state` must come from `state_dict()` of a detector, got something else ({error}). Save it again."
            ) from error
        made._windows = []
        for number in range(1 + made.controls):
            start = f"window_{number}_"
            part = {name.removeprefix(start): state[name] for name in state if name.startswith(start)}
            made._windows.append(ReferenceWindow.from_state(part))
        reference, made._reference_y = made._windows[0].reference()
        made._widths_x = np.asarray(state["window_0_widths"])[: reference.shape[1]]
        made._reference_x = reference / made._widths_x
        return made

    def _step(self, x: FloatArray, y: FloatArray) -> None:
        if self._drift:
            self.reset()
        inputs = self._as_inputs(x[None])[0]
        self._windows[0].push(inputs, y)
        if self.controls:
            # The same neighbours for all controls of a row, other draws.
            similarity = -((self._reference_x - inputs / self._widths_x) ** 2).sum(axis=1)
            nearest = nearest_rows(similarity[None])[0]
            for sliding in self._windows[1:]:
                sliding.push(inputs, self._reference_y[nearest[self._generator.integers(len(nearest))]])
        self._seen += 1
        if self._windows[0].is_full:
            values = [sliding.divergence() for sliding in self._windows]
            self._statistic = values[0] - float(np.mean(values[1:])) if self.controls else values[0]
            self._drift = bool(self._statistic > self.threshold)

    def _as_inputs(self, x: FloatArray) -> FloatArray:
        """Ranks in the reference, between 0 and 1, ties at their middle; or x itself."""
        if not len(self._sorted):
            return x
        if x.shape[1] != self._sorted.shape[1]:
            raise ShapeError(
                f"`x` must have {self._sorted.shape[1]} columns, as the reference has, got {x.shape[1]}."
                " Pass the same columns in the same order."
            )
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


def _widths(option: str, bandwidth: Bandwidth, values: FloatArray, *, scaled: bool = True) -> FloatArray:
    if not isinstance(bandwidth, str):
        return check_widths(option, bandwidth, values.shape[1])
    if bandwidth != "median":
        raise ParameterError(f'`{option}` must be "median" or numbers, got {bandwidth!r}. Pass {option}="median".')
    units = np.ones(values.shape[1])
    if scaled:
        deviations = values.std(axis=0)
        units = np.where(deviations > 0, deviations, 1.0)
    return np.asarray(units * float(condcs.bandwidth(values / units)))
