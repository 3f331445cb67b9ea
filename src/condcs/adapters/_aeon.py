"""A distance for aeon's estimators: all pairs are computed at once, then looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, RealArray
from condcs._core.printable import Printable
from condcs.timeseries._collection import check_collection
from condcs.timeseries._distances import ccs_distance, ccs_pairwise_distance


class AeonDistance(Printable):
    """Callable ``distance`` for aeon that looks up distances between known series.

    aeon calls a distance function pair by pair. `condcs.timeseries.ccs_distance` can be used as it is; this class
    computes all pairs of a collection beforehand, with compiled code, and then only looks up the series it is called
    with. A pair with an unknown series is computed when it is needed.

    Parameters
    ----------
    X : array, shape (n_series, n_channels, n_timepoints) or (n_series, n_timepoints), or list of arrays
        The collection that the estimator will see.
    **settings
        As in `condcs.timeseries.ccs_pairwise_distance`; `order` is required. The layout is aeon's.

    Attributes
    ----------
    distances : array, shape (n_series, n_series)
        All pairs.

    Examples
    --------
    >>> t = np.arange(60)
    >>> X = np.stack([np.sin(speed * t + phase) for speed in (0.3, 0.6) for phase in range(4)])
    >>> distance = AeonDistance(X, order=2)
    >>> bool(distance(X[0], X[5]) == distance.distances[0, 5])
    True
    """

    def __init__(self, X: Any, **settings: Any) -> None:
        collection = check_collection("X", X, "nct", settings.get("missing", "error"))
        self.distances: RealArray = ccs_pairwise_distance(collection, **settings)
        self._indices = {_key(collection.series(i)): i for i in range(collection.count)}
        running = ("n_jobs", "output")
        self._settings = {name: value for name, value in settings.items() if name not in running}

    def __call__(self, x: FloatArray, y: FloatArray, **_: Any) -> float:
        """Return the distance between two series, each of shape (n_channels, n_timepoints) or (n_timepoints,)."""
        i, j = self._indices.get(_key(_frames(x))), self._indices.get(_key(_frames(y)))
        if i is None or j is None:
            return ccs_distance(x, y, **self._settings)
        return float(self.distances[i, j])


def _frames(series: FloatArray) -> FloatArray:
    return np.atleast_2d(np.asarray(series, np.float64)).T


def _key(frames: FloatArray) -> bytes:
    return np.ascontiguousarray(frames, np.float64).tobytes()
