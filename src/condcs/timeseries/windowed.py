"""A collection of series with its windows: what every distance works on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condcs.core.equality import ByValue
from condcs.timeseries.collection import Collection, FloatArray
from condcs.timeseries.embedding import check_windows, embed_frames


@dataclass(frozen=True, eq=False)
class Windowed(ByValue):
    """Series and the times at which their windows start.

    Attributes
    ----------
    collection : Collection
        The series.
    order : int
        Length of a window.
    windows : array of int
        Starts of the windows to use, counted from the start of their series; one series after the other.
    ends : array of int, shape (count + 1,)
        Series i has the windows from ``ends[i]`` to ``ends[i + 1]``.
    """

    collection: Collection
    order: int
    windows: FloatArray
    ends: FloatArray

    @property
    def count(self) -> int:
        """Number of series."""
        return self.collection.count

    @property
    def total(self) -> int:
        """Number of windows of all series."""
        return len(self.windows)

    def part(self, start: int, stop: int) -> Windowed:
        """Return the series from `start` to `stop`; shares memory."""
        first, last = self.ends[start], self.ends[stop]
        ends = self.ends[start : stop + 1] - first
        return Windowed(self.collection.part(start, stop), self.order, self.windows[first:last], ends)

    def sample(self, i: int) -> tuple[FloatArray, FloatArray]:
        """Return (x, y) of series i: its windows, and the frames that follow them."""
        return embed_frames(self.collection.series(i), self.windows[self.ends[i] : self.ends[i + 1]], self.order)

    def rows(self, chosen: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (x, y) of some windows of the whole collection, given by sorted index."""
        owners = np.searchsorted(self.ends, chosen, side="right") - 1
        times = self.collection.starts[owners] + self.windows[chosen]
        return embed_frames(self.collection.frames, times, self.order)

    def shifted(self, origin: FloatArray) -> Windowed:
        """Return a copy with `origin` taken from every frame; gaps, which no window touches, become 0."""
        frames = np.nan_to_num(self.collection.frames - origin, nan=0.0)
        return replace(self, collection=Collection(frames, self.collection.starts))


def windowed(name: str, collection: Collection, order: int) -> Windowed:
    """Find the windows of every series, or say which series has too few."""
    windows: list[Any] = check_windows(name, collection, order)
    ends = np.cumsum([0] + [len(w) for w in windows], dtype=np.int64)
    return Windowed(collection, order, np.concatenate(windows).astype(np.int64, copy=False), ends)
