"""How long a window should be: false nearest neighbours (Takens), or the grid value whose clusters stand out best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condcs.core.checks import check_integer
from condcs.core.errors import ParameterError, ShapeError, public
from condcs.timeseries.collection import Collection, FloatArray, check_collection
from condcs.timeseries.embedding import MIN_WINDOWS, embed_frames, whole_windows

Order = int | str | Sequence[int]
"""A number of frames, "takens", or a grid to choose from."""

MAX_SERIES = 200
"""Orders are chosen on at most this many series, drawn with a fixed seed."""

_SEED = 0
_MAX_ORDER = 20
_MAX_CLUSTERS = 10
_JUMP = 10.0
_ATTRACTOR_SIZES = 2.0
_FALSE_SHARE = 0.01


@public
def false_neighbours(
    X: Any, *, max_order: int | None = None, layout: str = "nct", missing: str = "error"
) -> FloatArray:
    """Share of nearest neighbours among windows that part with the next frame, for orders 1, 2, ...

    Neighbours are false if they are close only because the window is too short to unfold the dynamics: the next frame
    moves them apart by more than 10 times their distance, or farther than 2 standard deviations of the series (the two
    criteria of Kennel, Brown and Abarbanel). Cost O(n log n) per order and series.

    Parameters
    ----------
    X : array or list of arrays
        Series, as in `ccs_pairwise_distance`; of more than 200, a draw with a fixed seed is looked at.
    max_order : int, optional
        Largest order to try; by default 20, or what half of the shortest series allows.
    layout, missing
        As in `ccs_pairwise_distance`.

    Returns
    -------
    array, shape (max_order,)
        The share of false neighbours over all series, for orders 1 to `max_order`.

    Examples
    --------
    >>> x = [0.1, 0.3]
    >>> for _ in range(300):
    ...     x.append(1 - 1.4 * x[-1] ** 2 + 0.3 * x[-2])  # the Henon map: two values of the past determine the next
    >>> shares = false_neighbours(np.array([x]), max_order=3)
    >>> bool(shares[0] > 0.1 > 0.01 > shares[1])
    True
    """
    collection = check_collection("X", X, layout, missing)
    longest = max(1, (int(collection.lengths.min()) - 1) // 2)
    top = min(_MAX_ORDER, longest) if max_order is None else check_integer("max_order", max_order, 1)
    chosen = draw_series(collection, MAX_SERIES)
    return np.array([_false_share(chosen, order) for order in range(1, top + 1)])


def takens_order(collection: Collection) -> int:
    """Smallest order with less than 1% false neighbours; if none has, the one with the fewest."""
    shares = false_neighbours(collection)
    few = np.flatnonzero(shares < _FALSE_SHARE)
    return int(few[0] if len(few) else np.argmin(shares)) + 1


def draw_series(collection: Collection, at_most: int) -> Collection:
    """Return the collection, or a part of it drawn with a fixed seed."""
    if collection.count <= at_most:
        return collection
    return collection.chosen(np.sort(np.random.default_rng(_SEED).choice(collection.count, at_most, replace=False)))


def check_grid(order: Any) -> list[int]:
    """Check a grid of orders."""
    try:
        grid = sorted({check_integer("order", value, 1) for value in order})
    except TypeError:
        grid = []
    if not grid:
        raise ParameterError(
            f'`order` must be a positive integer, "takens", or a sequence of integers to choose from, got {order!r}. '
            "Pass e.g. order=5."
        )
    return grid


def cluster_contrast(D: FloatArray) -> float:
    """Best mean silhouette over 2 to 10 clusters by average linkage: how well clusters stand out, without labels."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    from condcs.timeseries.clustering import silhouette

    D = np.maximum((D + D.T) / 2, 0.0)
    np.fill_diagonal(D, 0.0)
    tree = linkage(squareform(D, checks=False), method="average")
    best = -1.0
    for k in range(2, min(_MAX_CLUSTERS, len(D) - 1) + 1):
        labels = fcluster(tree, k, criterion="maxclust")
        if len(np.unique(labels)) >= 2:
            best = max(best, float(silhouette(D, labels)))
    return best


def _false_share(collection: Collection, order: int) -> float:
    from scipy.spatial import cKDTree

    false, total = 0, 0
    for i in range(collection.count):
        frames = collection.series(i)
        starts = whole_windows(frames, order)
        if len(starts) < MIN_WINDOWS:
            continue
        x, y = embed_frames(frames, starts, order)
        distance, index = cKDTree(x).query(x, k=2)
        # Among equal windows the nearest two need not include the window itself.
        own = np.arange(len(x))
        pick = np.where(index[:, 0] == own, 1, 0)
        near, neighbour = distance[own, pick], index[own, pick]
        apart = np.linalg.norm(y - y[neighbour], axis=1)
        size = np.sqrt(np.nanvar(frames, axis=0).sum())
        false += int(np.sum((apart > _JUMP * near) | (np.hypot(near, apart) > _ATTRACTOR_SIZES * size)))
        total += len(x)
    if total == 0:
        raise ShapeError(
            f"`max_order` must leave every series at least {MIN_WINDOWS} windows, got order {order} for series of "
            f"{int(collection.lengths.max())} time points at most. Use a smaller `max_order`."
        )
    return false / total
