"""Collections of time series and their windows: one flat array of frames, whatever shape the series came in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import AnyArray, ByValue, FloatArray, IntArray
from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import DataError, ShapeError, public
from condcs._core.vocabulary import named, setting

AxisOrder = Literal["nct", "ntc"]
"""Order of the axes: series, channels, time (as in aeon) or series, time, channels."""

MissingFrames = Literal["error", "drop"]
"""What to do about NaN: raise an error, or drop the windows that contain one."""

MIN_WINDOWS = 2
"""A conditional distribution needs two observations: the fewest windows that a series may have."""


@dataclass(frozen=True, eq=False)
class Collection(ByValue):
    """Time series of any lengths with the same channels.

    Attributes
    ----------
    frames : array of shape (total number of time points, channels)
        All series, one after the other, as float64. Gaps hold NaN.
    frame_offsets : array of shape (count + 1,)
        Series i has the frames from ``frame_offsets[i]`` to ``frame_offsets[i + 1]``.
    """

    frames: FloatArray
    frame_offsets: IntArray

    @property
    def count(self) -> int:
        """Number of series."""
        return len(self.frame_offsets) - 1

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.frames.shape[1])

    @cached_property
    def lengths(self) -> IntArray:
        """Number of time points of each series."""
        return np.diff(self.frame_offsets)

    @cached_property
    def has_gaps(self) -> bool:
        """Whether any value is missing."""
        return bool(np.isnan(self.frames).any())

    def series(self, i: int) -> FloatArray:
        """Return the frames of series i."""
        return self.frames[self.frame_offsets[i] : self.frame_offsets[i + 1]]

    def part(self, start: int, stop: int) -> Collection:
        """Return the series from `start` to `stop`; shares memory."""
        first, last = self.frame_offsets[start], self.frame_offsets[stop]
        return Collection(self.frames[first:last], self.frame_offsets[start : stop + 1] - first)

    def chosen(self, indices: Sequence[int] | IntArray) -> Collection:
        """Return the series with the given indices, as a copy."""
        return joined([self.series(int(i)) for i in indices])


def joined(parts: Sequence[FloatArray]) -> Collection:
    """Return arrays of frames as one collection."""
    return Collection(np.concatenate(parts), np.cumsum([0] + [len(p) for p in parts]))


def check_collection(name: str, X: Any, layout: str, missing: str = "error") -> Collection:
    """Check a collection: an array of shape (n, channels, time) or (n, time, channels), (n, time), or a list."""
    check_choice("layout", layout, get_args(AxisOrder))
    check_choice("missing", missing, get_args(MissingFrames))
    if isinstance(X, Collection):
        return X
    if (isinstance(X, np.ndarray) and X.dtype != object) or not isinstance(X, Sequence | np.ndarray):
        return _from_array(name, np.asarray(X), layout, missing)
    if len(X) == 0:
        raise ShapeError(f"{named(name)} must hold at least one series, got none. Pass a list or an array of series.")
    parts = [_check_frames(f"{name}[{i}]", series, layout, missing) for i, series in enumerate(X)]
    channels = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != channels:
            raise ShapeError(
                f"{named(name)} must have the same channels in every series, got {channels} in series 0 and "
                f"{part.shape[1]} in series {i}. {_layout_hint(layout)}"
            )
    return joined(parts)


def check_series(name: str, series: Any, layout: str, missing: str = "error") -> Collection:
    """Check a single series, of shape (channels, time), (time, channels) or (time,), as a collection of one."""
    check_choice("layout", layout, get_args(AxisOrder))
    check_choice("missing", missing, get_args(MissingFrames))
    frames = _check_frames(name, series, layout, missing)
    return Collection(frames, np.array([0, len(frames)]))


def check_same_channels(first: str, a: Collection, second: str, b: Collection, layout: str) -> None:
    """Check that two collections can be compared."""
    if a.channels != b.channels:
        raise ShapeError(
            f"{named(first)} and {named(second)} must have the same number of channels, got {a.channels} and "
            f"{b.channels}. {_layout_hint(layout)}"
        )


def _from_array(name: str, X: AnyArray, layout: str, missing: str) -> Collection:
    if X.ndim == 2:
        X = X[:, :, None]
    elif X.ndim == 3:
        X = X.transpose(0, 2, 1) if layout == "nct" else X
    else:
        raise ShapeError(
            f"{named(name)} must have 3 dimensions ({_axes(layout)}), or 2 for univariate series (series, time), got "
            f"shape {X.shape}. For a single series use `ccs_distance`, or pass [series]."
        )
    n, length, channels = X.shape
    if 0 in X.shape:
        raise ShapeError(
            f"{named(name)} must not be empty, got {n} series of length {length} with {channels} channels."
        )
    frames = _numbers(name, X.reshape(n * length, channels))
    _check_values(name, frames, missing, lambda row: f"series {row // length}, time {row % length}")
    return Collection(frames, np.arange(n + 1) * length)


def _check_frames(name: str, series: Any, layout: str, missing: str) -> FloatArray:
    """Return one series as float64 frames (time, channels)."""
    try:
        values = np.asarray(series)
    except ValueError as error:
        raise ShapeError(
            f"{named(name)} must be one series, a 1-d or 2-d array, got a nested list of uneven lengths. "
            "Pass a list of arrays for series of different lengths."
        ) from error
    if values.ndim == 1:
        values = values[:, None]
    elif values.ndim == 2:
        values = values.T if layout == "nct" else values
    else:
        remedy = "Pass a collection to `ccs_pairwise_distance`" if values.ndim else "A collection is a list of arrays"
        raise ShapeError(
            f"{named(name)} must be one series of shape {_axes(layout, single=True)} or (time,), got shape "
            f"{values.shape}. {remedy}."
        )
    if 0 in values.shape:
        raise ShapeError(f"{named(name)} must not be empty, got shape {np.shape(series)}. Drop empty series.")
    frames = _numbers(name, values)
    _check_values(name, frames, missing, lambda row: f"time {row}")
    return frames


def _numbers(name: str, values: AnyArray) -> FloatArray:
    if values.dtype.kind not in "fiubO":
        raise DataError(
            f"{named(name)} must hold real numbers, got dtype {values.dtype}. Encode labels as numbers, one channel "
            "each."
        )
    try:
        return np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{named(name)} must hold real numbers, got other objects. Convert them with `float`."
        ) from error


def _check_values(name: str, frames: FloatArray, missing: str, position_words: Callable[[int], str]) -> None:
    bad = np.isinf(frames) if missing == "drop" else ~np.isfinite(frames)
    if not bad.any():
        return
    row, channel = (int(i) for i in np.argwhere(bad)[0])
    remedy = (
        "Interpolate them, or mark them as NaN."
        if missing == "drop"
        else f"Interpolate gaps, or pass {setting('missing', 'drop')} to drop the windows that contain a NaN."
    )
    raise DataError(
        f"{named(name)} must be finite, got {int(bad.sum())} NaN or infinite value(s), first at {position_words(row)}, "
        f"channel {channel}. {remedy}"
    )


def _axes(layout: str, *, single: bool = False) -> str:
    axes = "channels, time" if layout == "nct" else "time, channels"
    return f"({axes})" if single else f"series, {axes}"


def _layout_hint(layout: str) -> str:
    other = "ntc" if layout == "nct" else "nct"
    return f'layout="{layout}" means {_axes(layout)}; pass layout="{other}" if yours is {_axes(other)}.'


@public
def embed(series: Any, order: int, *, missing: MissingFrames = "error") -> Any:
    """Windows of a time series and the value that follows each of them: a sample of p(next value | past values).

    Row i of x is the window (s[i], ..., s[i + order - 1]), flattened frame by frame, and row i of y is s[i + order]:
    the paper's Hankel matrix without its last row, and its last row. Cost and memory O(n order).

    Parameters
    ----------
    series : array of shape (n_timepoints,) or (n_timepoints, n_channels), or a collection
        A collection is an array of shape (n_series, n_timepoints, n_channels), or a list of arrays, whose lengths may
        differ.
    order : int
        Length of the window, K in the paper.
    missing : {"error", "drop"}
        Whether NaN raises an error, or the windows that contain one are dropped.

    Returns
    -------
    x, y : array, shapes (n_windows, order * n_channels) and (n_windows, n_channels)
        For a collection, a list of such pairs.

    Examples
    --------
    >>> x, y = embed([1.0, 2.0, 3.0, 4.0, 5.0], 2)
    >>> x.tolist(), y.tolist()
    ([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]], [[3.0], [4.0], [5.0]])
    """
    check_choice("missing", missing, get_args(MissingFrames))
    order = check_integer("order", order, 1)
    if _is_collection(series):
        collection = check_collection("series", series, "ntc", missing)
        windows = check_windows("series", collection, order)
        return [embed_frames(collection.series(i), windows[i], order) for i in range(collection.count)]
    single = check_series("series", series, "ntc", missing)
    return embed_frames(single.frames, check_windows("series", single, order)[0], order)


def embed_frames(frames: FloatArray, window_times: IntArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Return (x, y) of the windows that start at the given times."""
    frames_of_window = window_times[:, None] + np.arange(order)  # (n, order)
    return frames[frames_of_window].reshape(len(window_times), -1), frames[window_times + order]


def whole_windows(frames: FloatArray, order: int) -> IntArray:
    """Return the start times of the windows that contain no NaN, nor does the value that follows."""
    n_windows = max(len(frames) - order, 0)
    # How many of the frames before each time have a gap. The window at time t, with the frame that follows it, has the
    # frames t to t + order: it is whole if no gap is added between t and t + order + 1.
    gaps_before = np.concatenate([[0], np.cumsum(np.isnan(frames).any(axis=1))])  # (times + 1,)
    return np.flatnonzero(gaps_before[order + 1 : order + 1 + n_windows] == gaps_before[:n_windows])


def check_windows(name: str, collection: Collection, order: int) -> list[IntArray]:
    """Return the times at which the whole windows of every series start; raise an error if a series has too few."""
    if not collection.has_gaps:
        shortest = int(np.argmin(collection.lengths))
        if collection.lengths[shortest] < order + MIN_WINDOWS:
            raise ShapeError(_too_short(name, collection, shortest, order))
        return [np.arange(length - order) for length in collection.lengths]
    windows = [whole_windows(collection.series(i), order) for i in range(collection.count)]
    for i, window_times in enumerate(windows):
        if len(window_times) < MIN_WINDOWS:
            raise ShapeError(_too_short(name, collection, i, order))
    return windows


def _too_short(name: str, collection: Collection, i: int, order: int) -> str:
    length = int(collection.lengths[i])
    which = f"series {i} of {named(name)}" if collection.count > 1 else f"{named(name)}"
    if length >= order + MIN_WINDOWS:
        return (
            f"{which} must have at least {MIN_WINDOWS} windows of {order} + 1 time points without a NaN, got "
            f"{len(whole_windows(collection.series(i), order))} in {length} time points. Interpolate short gaps, drop "
            f"the series, or use a smaller {named('order')}."
        )
    remedy = f"Use an {named('order')} of at most {length - MIN_WINDOWS}" if length > MIN_WINDOWS else "Drop it"
    return (
        f"{which} must have at least order + {MIN_WINDOWS} = {order + MIN_WINDOWS} time points, got {length}. "
        f"{remedy}, or check that time is the axis you mean."
    )


def _is_collection(series: Any) -> bool:
    if isinstance(series, np.ndarray) and series.dtype != object:
        return series.ndim == 3
    return isinstance(series, list | tuple | np.ndarray) and len(series) > 0 and np.ndim(series[0]) > 0


@dataclass(frozen=True, eq=False)
class Windowed(ByValue):
    """Series and the times at which their windows start.

    Attributes
    ----------
    collection : Collection
        The series.
    order : int
        Length of a window.
    window_times : array of int
        Times at which the windows to use start, counted from the start of their series; one series after the other.
    window_offsets : array of int, shape (count + 1,)
        Series i has the windows from ``window_offsets[i]`` to ``window_offsets[i + 1]``.
    """

    collection: Collection
    order: int
    window_times: IntArray
    window_offsets: IntArray

    @property
    def count(self) -> int:
        """Number of series."""
        return self.collection.count

    @property
    def total(self) -> int:
        """Number of windows of all series."""
        return len(self.window_times)

    def times_of(self, i: int) -> IntArray:
        """Return the times at which the windows of series i start."""
        return self.window_times[self.window_offsets[i] : self.window_offsets[i + 1]]

    def part(self, start: int, stop: int) -> Windowed:
        """Return the series from `start` to `stop`; shares memory."""
        first, last = self.window_offsets[start], self.window_offsets[stop]
        return Windowed(
            self.collection.part(start, stop),
            self.order,
            window_times=self.window_times[first:last],
            window_offsets=self.window_offsets[start : stop + 1] - first,
        )

    def followed_by(self, other: Windowed) -> Windowed:
        """Return the series of both, one after the other."""
        a, b = self.collection, other.collection
        both = Collection(
            np.concatenate([a.frames, b.frames]),
            np.concatenate([a.frame_offsets, a.frame_offsets[-1] + b.frame_offsets[1:]]),
        )
        return Windowed(
            both,
            self.order,
            window_times=np.concatenate([self.window_times, other.window_times]),
            window_offsets=np.concatenate([self.window_offsets, self.window_offsets[-1] + other.window_offsets[1:]]),
        )

    def sample(self, i: int) -> tuple[FloatArray, FloatArray]:
        """Return (x, y) of series i: its windows, and the frames that follow them."""
        return embed_frames(self.collection.series(i), self.times_of(i), self.order)

    def rows(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (x, y) of some windows of the whole collection, given by sorted index."""
        series_of_window = np.searchsorted(self.window_offsets, chosen, side="right") - 1
        times = self.collection.frame_offsets[series_of_window] + self.window_times[chosen]
        return embed_frames(self.collection.frames, times, self.order)

    def shifted(self, origin: FloatArray) -> Windowed:
        """Return a copy with `origin` subtracted from every frame; gaps, which no window contains, become 0."""
        frames = np.nan_to_num(self.collection.frames - origin, nan=0.0)
        return replace(self, collection=Collection(frames, self.collection.frame_offsets))


def windowed(name: str, collection: Collection, order: int) -> Windowed:
    """Find the windows of every series; raise an error if a series has too few."""
    times_by_series = check_windows(name, collection, order)
    return Windowed(
        collection,
        order,
        window_times=np.concatenate(times_by_series).astype(np.int64, copy=False),
        window_offsets=np.cumsum([0] + [len(times) for times in times_by_series], dtype=np.int64),
    )
