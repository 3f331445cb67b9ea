"""The Hankel reformulation: a time series as a sample of (window of past values, next value)."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_integer
from condcs.core.errors import ShapeError, public
from condcs.timeseries.collection import MISSING, Collection, FloatArray, check_collection, check_series

MIN_WINDOWS = 2
"""Fewest windows a series may have: a conditional distribution needs two observations."""


@public
def embed(series: Any, order: int, *, missing: str = "error") -> Any:
    """Windows of a time series and the value that follows each: a sample of p(next value | past values).

    Row i of x is the window (s[i], ..., s[i + order - 1]), flattened frame by frame, and row i of y is s[i + order]:
    the Hankel matrix of the paper, without its last row and that row alone. Cost and memory O(n order).

    Parameters
    ----------
    series : array of shape (n_timepoints,) or (n_timepoints, n_channels), or a collection
        A collection is an array of shape (n_series, n_timepoints, n_channels), or a list of arrays, whose lengths may
        differ.
    order : int
        Length of the window, the paper's K.
    missing : {"error", "drop"}
        What to do about NaN: complain, or leave out the windows that touch one.

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
    check_choice("missing", missing, MISSING)
    order = check_integer("order", order, 1)
    if _is_collection(series):
        collection = check_collection("series", series, "ntc", missing)
        windows = check_windows("series", collection, order)
        return [embed_frames(collection.series(i), windows[i], order) for i in range(collection.count)]
    single = check_series("series", series, "ntc", missing)
    return embed_frames(single.frames, check_windows("series", single, order)[0], order)


def embed_frames(frames: FloatArray, windows: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Return (x, y) of the windows that start at the given times."""
    reach = windows[:, None] + np.arange(order)
    return frames[reach].reshape(len(windows), -1), frames[windows + order]


def whole_windows(frames: FloatArray, order: int) -> FloatArray:
    """Return the times at which a window starts that, with its successor, meets no NaN."""
    count = max(len(frames) - order, 0)
    gaps = np.concatenate([[0], np.cumsum(np.isnan(frames).any(axis=1))])
    return np.flatnonzero(gaps[order + 1 : order + 1 + count] == gaps[:count])


def check_windows(name: str, collection: Collection, order: int) -> list[FloatArray]:
    """Return the starts of the whole windows of every series, or say which series has too few."""
    if not collection.has_gaps:
        shortest = int(np.argmin(collection.lengths))
        if collection.lengths[shortest] < order + MIN_WINDOWS:
            raise ShapeError(_too_short(name, collection, shortest, order))
        return [np.arange(length - order) for length in collection.lengths]
    windows = [whole_windows(collection.series(i), order) for i in range(collection.count)]
    for i, starts in enumerate(windows):
        if len(starts) < MIN_WINDOWS:
            raise ShapeError(_too_short(name, collection, i, order))
    return windows


def _too_short(name: str, collection: Collection, i: int, order: int) -> str:
    length = int(collection.lengths[i])
    which = f"series {i} of `{name}`" if collection.count > 1 else f"`{name}`"
    if length >= order + MIN_WINDOWS:
        return (
            f"{which} must have at least {MIN_WINDOWS} windows of {order} + 1 time points without a NaN, got "
            f"{len(whole_windows(collection.series(i), order))} in {length} time points. Interpolate short gaps, leave "
            "the series out, or use a smaller `order`."
        )
    remedy = f"Use an `order` of at most {length - MIN_WINDOWS}" if length > MIN_WINDOWS else "Leave it out"
    return (
        f"{which} must have at least order + {MIN_WINDOWS} = {order + MIN_WINDOWS} time points, got {length}. "
        f"{remedy}, or check that time is the axis you mean."
    )


def _is_collection(series: Any) -> bool:
    if isinstance(series, np.ndarray) and series.dtype != object:
        return series.ndim == 3
    return isinstance(series, list | tuple | np.ndarray) and len(series) > 0 and np.ndim(series[0]) > 0
