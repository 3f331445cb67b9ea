"""Collections of time series: one flat table of frames, whatever shape they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condcs.core.checks import check_choice
from condcs.core.equality import ByValue
from condcs.core.errors import DataError, ShapeError

FloatArray = np.ndarray[Any, Any]

LAYOUTS = ("nct", "ntc")
MISSING = ("error", "drop")


@dataclass(frozen=True, eq=False)
class Collection(ByValue):
    """Time series of any lengths with the same channels.

    Attributes
    ----------
    frames : array of shape (total number of time points, channels)
        All series, one after the other, as float64. Gaps hold NaN.
    starts : array of shape (count + 1,)
        Series i has the frames from ``starts[i]`` to ``starts[i + 1]``.
    """

    frames: FloatArray
    starts: FloatArray

    @property
    def count(self) -> int:
        """Number of series."""
        return len(self.starts) - 1

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self.frames.shape[1])

    @cached_property
    def lengths(self) -> FloatArray:
        """Number of time points of each series."""
        return np.diff(self.starts)

    @cached_property
    def has_gaps(self) -> bool:
        """Whether any value is missing."""
        return bool(np.isnan(self.frames).any())

    def series(self, i: int) -> FloatArray:
        """Return the frames of series i."""
        return self.frames[self.starts[i] : self.starts[i + 1]]

    def part(self, start: int, stop: int) -> Collection:
        """Return the series from `start` to `stop`; shares memory."""
        first, last = self.starts[start], self.starts[stop]
        return Collection(self.frames[first:last], self.starts[start : stop + 1] - first)

    def chosen(self, indices: Sequence[int] | FloatArray) -> Collection:
        """Return the series with the given indices, as a copy."""
        parts = [self.series(int(i)) for i in indices]
        return Collection(np.concatenate(parts), np.cumsum([0] + [len(p) for p in parts]))


def check_collection(name: str, X: Any, layout: str, missing: str = "error") -> Collection:
    """Check a collection: an array of shape (n, channels, time) or (n, time, channels), (n, time), or a list."""
    check_choice("layout", layout, LAYOUTS)
    check_choice("missing", missing, MISSING)
    if isinstance(X, Collection):
        return X
    if (isinstance(X, np.ndarray) and X.dtype != object) or not isinstance(X, Sequence | np.ndarray):
        return _from_array(name, np.asarray(X), layout, missing)
    if len(X) == 0:
        raise ShapeError(f"`{name}` must hold at least one series, got none. Pass a list or an array of series.")
    parts = [_check_frames(f"{name}[{i}]", series, layout, missing) for i, series in enumerate(X)]
    channels = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != channels:
            raise ShapeError(
                f"`{name}` must have the same channels in every series, got {channels} in series 0 and "
                f"{part.shape[1]} in series {i}. {_layout_hint(layout)}"
            )
    return Collection(np.concatenate(parts), np.cumsum([0] + [len(p) for p in parts]))


def check_series(name: str, series: Any, layout: str, missing: str = "error") -> Collection:
    """Check a single series, of shape (channels, time), (time, channels) or (time,), as a collection of one."""
    check_choice("layout", layout, LAYOUTS)
    check_choice("missing", missing, MISSING)
    frames = _check_frames(name, series, layout, missing)
    return Collection(frames, np.array([0, len(frames)]))


def check_same_channels(first: str, a: Collection, second: str, b: Collection, layout: str) -> None:
    """Check that two collections can be compared."""
    if a.channels != b.channels:
        raise ShapeError(
            f"`{first}` and `{second}` must have the same number of channels, got {a.channels} and {b.channels}. "
            f"{_layout_hint(layout)}"
        )


def _from_array(name: str, X: FloatArray, layout: str, missing: str) -> Collection:
    if X.ndim == 2:
        X = X[:, :, None]
    elif X.ndim == 3:
        X = X.transpose(0, 2, 1) if layout == "nct" else X
    else:
        raise ShapeError(
            f"`{name}` must have 3 dimensions ({_axes(layout)}), or 2 for univariate series (series, time), got shape "
            f"{X.shape}. For a single series use `ccs_distance`, or pass [series]."
        )
    n, length, channels = X.shape
    if 0 in X.shape:
        raise ShapeError(f"`{name}` must not be empty, got {n} series of length {length} with {channels} channels.")
    frames = _numbers(name, X.reshape(n * length, channels))
    _check_values(name, frames, missing, lambda row: f"series {row // length}, time {row % length}")
    return Collection(frames, np.arange(n + 1) * length)


def _check_frames(name: str, series: Any, layout: str, missing: str) -> FloatArray:
    """Return one series as float64 frames (time, channels)."""
    try:
        values = np.asarray(series)
    except ValueError as error:
        raise ShapeError(
            f"`{name}` must be one series, a 1-d or 2-d array, got a nested list of uneven lengths. "
            "Pass a list of arrays for series of different lengths."
        ) from error
    if values.ndim == 1:
        values = values[:, None]
    elif values.ndim == 2:
        values = values.T if layout == "nct" else values
    else:
        raise ShapeError(
            f"`{name}` must be one series of shape {_axes(layout, single=True)} or (time,), got shape {values.shape}. "
            "Pass a collection to `ccs_pairwise_distance`."
        )
    if 0 in values.shape:
        raise ShapeError(f"`{name}` must not be empty, got shape {np.shape(series)}. Leave empty series out.")
    frames = _numbers(name, values)
    _check_values(name, frames, missing, lambda row: f"time {row}")
    return frames


def _numbers(name: str, values: FloatArray) -> FloatArray:
    if values.dtype.kind not in "fiubO":
        raise DataError(
            f"`{name}` must hold real numbers, got dtype {values.dtype}. Encode labels as numbers, one channel each."
        )
    try:
        return np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"`{name}` must hold real numbers, got other objects. Convert them with `float`.") from error


def _check_values(name: str, frames: FloatArray, missing: str, place: Any) -> None:
    bad = np.isinf(frames) if missing == "drop" else ~np.isfinite(frames)
    if not bad.any():
        return
    row, channel = (int(i) for i in np.argwhere(bad)[0])
    remedy = (
        "Interpolate them, or mark them as NaN."
        if missing == "drop"
        else 'Interpolate gaps, or pass missing="drop" to leave out the windows that touch a NaN.'
    )
    raise DataError(
        f"`{name}` must be finite, got {int(bad.sum())} NaN or infinite value(s), first at {place(row)}, channel "
        f"{channel}. {remedy}"
    )


def _axes(layout: str, *, single: bool = False) -> str:
    axes = "channels, time" if layout == "nct" else "time, channels"
    return f"({axes})" if single else f"series, {axes}"


def _layout_hint(layout: str) -> str:
    other = "ntc" if layout == "nct" else "nct"
    return f'layout="{layout}" means {_axes(layout)}; pass layout="{other}" if yours is {_axes(other)}.'
