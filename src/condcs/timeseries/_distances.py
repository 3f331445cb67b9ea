"""Distances between the dynamics of time series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from condcs._core.checks import check_integer, check_positive
from condcs._core.errors import ParameterError, ShapeError, public
from condcs.timeseries._collection import (
    Collection,
    FloatArray,
    Layout,
    Missing,
    check_collection,
    check_same_channels,
    check_series,
    joined,
    windowed,
)
from condcs.timeseries._distance_job import SeriesBandwidth, SeriesMeasure, make_job
from condcs.timeseries._distance_matrix import IN_MEMORY, MatrixOutput, distance_matrix
from condcs.timeseries._tuning import MAX_SERIES, Order, check_grid, cluster_contrast, draw_series, takens_order

_MIN_SERIES_FOR_GRID = 4


@public
def ccs_distance(
    x: Any,
    y: Any,
    *,
    order: int | Literal["takens"],
    bandwidth: SeriesBandwidth = "pair-median",
    factor: float = 1.0,
    layout: Layout = "nct",
    missing: Missing = "error",
    measure: SeriesMeasure = "conditional_cs",
    **options: Any,
) -> float:
    """Distance between the dynamics of two series: how far apart their p(next value | window of past values) are.

    The conditional Cauchy-Schwarz divergence (Prop. 2) between the two samples that `embed` returns for them. It can be
    used as the callable ``distance`` of aeon's clusterers. Cost O((n + m)^2 channels), independent of the order.

    Parameters
    ----------
    x, y : array, shape (n_channels, n_timepoints) or (n_timepoints,)
        Two series with the same channels; lengths may differ. With ``layout="ntc"``, (n_timepoints, n_channels).
    order : int or "takens"
        Number of past values in a window.
    bandwidth, factor, layout, missing, measure, **options
        As in `ccs_pairwise_distance`.

    Returns
    -------
    float
        0 if the dynamics agree, larger the more they differ; can be slightly negative for very short series.

    Examples
    --------
    >>> t = np.arange(60)
    >>> slow, late, fast = np.sin(t / 4), np.sin(t / 4 + 1), np.sin(t / 2)
    >>> bool(ccs_distance(slow, late, order=2) < 0.01 < ccs_distance(slow, fast, order=2))
    True
    """
    p, q = check_series("x", x, layout, missing), check_series("y", y, layout, missing)
    check_same_channels("x", p, "y", q, layout)
    factor = check_positive("factor", factor)
    if not isinstance(order, str | int | np.integer):
        raise ParameterError(
            f'`order` must be a positive integer or "takens" for two series, got {order!r}. To choose from a grid, '
            "pass a collection to `ccs_pairwise_distance`."
        )
    chosen = takens_order(_pooled(p, q)) if isinstance(order, str) and _is_takens(order) else order
    chosen = check_integer("order", chosen, 1)
    sides = [windowed("x", p, chosen), windowed("y", q, chosen)]
    job, sides, fallbacks = make_job(measure, bandwidth, factor, options, sides)
    values, fell_back = job.block(sides[0], sides[1], False)
    (fallbacks + fell_back).warn()
    return float(values[0, 0])


@public
def ccs_pairwise_distance(
    X: Any,
    Y: Any = None,
    *,
    order: Order,
    bandwidth: SeriesBandwidth = "pair-median",
    factor: float = 1.0,
    layout: Layout = "nct",
    missing: Missing = "error",
    measure: SeriesMeasure = "conditional_cs",
    n_jobs: int | None = None,
    output: MatrixOutput = IN_MEMORY,
    **options: Any,
) -> FloatArray:
    """Distances between the dynamics of all pairs of series, or of every series of X with every series of Y.

    Parameters
    ----------
    X, Y : array, shape (n_series, n_channels, n_timepoints) or (n_series, n_timepoints), or list of arrays
        Collections with the same channels; lengths may differ within a list. With ``layout="ntc"``, (n_series,
        n_timepoints, n_channels).
    order : int, "takens", or sequence of int
        Number of past values in a window. "takens": the smallest with less than 1% false nearest neighbours. From a
        sequence, the order whose distances cluster best is used; see `choose_order`.
    bandwidth : {"pair-median", "pooled-median"}, float, or two floats
        Bandwidths of the Gaussian kernels on windows and on the values that follow them. "pair-median": the square root
        of the median squared distance over all windows of the two series, for each pair of series separately.
        "pooled-median": the same over the windows of all series, one bandwidth for the whole collection.
    factor : float
        Multiplies the bandwidths.
    layout : {"nct", "ntc"}
        Order of the axes: series, channels, time (as in aeon) or series, time, channels.
    missing : {"error", "drop"}
        Whether NaN raises an error, or the windows that contain one are dropped.
    measure : str
        A registered measure that takes x and y: "conditional_cs", "conditional_mmd", "conditional_kl", ...
    n_jobs : int, optional
        Number of threads. By default that of the enclosing ``joblib.parallel_config``, whose backend is used (threads,
        processes or a Dask cluster), or all cores. The result does not depend on it.
    output : MatrixOutput
        Type of the matrix, a folder to keep it on disk so that an interrupted run can continue, and a progress bar.
    **options
        Keyword options of the measure, e.g. ``regularization``, ``k``, ``estimator``.

    Returns
    -------
    array, shape (n_series, n_series) or (n_series of X, n_series of Y)
        Without Y, symmetric with a zero diagonal (unless the measure is not symmetric).

    Notes
    -----
    Conditional CS and the conditional Euclidean distance run in a compiled engine: O(n^2 (channels + 3)) per pair of
    series with n windows, independent of the order; a bandwidth for each pair costs about three times as much as a
    common one. Memory is that of the result plus a few n x n matrices per thread. Windows that are far from all others
    are computed in the log domain: the result is finite for every finite input.

    Examples
    --------
    >>> t = np.arange(80)
    >>> X = np.stack([np.sin(t / 4), np.sin(t / 4 + 1), np.sin(t / 2), np.sin(t / 2 + 1)])
    >>> D = ccs_pairwise_distance(X, order=2)
    >>> bool(max(D[0, 1], D[2, 3]) < D[0, 2])
    True
    """
    factor = check_positive("factor", factor)
    n_jobs = _check_jobs(n_jobs)
    if not isinstance(output, MatrixOutput):
        raise ParameterError(
            f"`output` must be a MatrixOutput, got {output!r}. Pass e.g. output=MatrixOutput(store='folder')."
        )
    a = check_collection("X", X, layout, missing)
    b = None if Y is None else check_collection("Y", Y, layout, missing)
    if b is not None:
        check_same_channels("X", a, "Y", b, layout)
    if isinstance(order, str) and _is_takens(order):
        chosen = takens_order(a if b is None else _pooled(a, b))
    elif np.ndim(order) == 0:
        chosen = check_integer("order", order, 1)
    else:
        chosen = choose_order(
            a if b is None else _pooled(a, b),
            order,  # type: ignore[arg-type]
            bandwidth=bandwidth,
            factor=factor,
            measure=measure,
            n_jobs=n_jobs,
            **options,
        )
    sides = [windowed("X", a, chosen)] + ([] if b is None else [windowed("Y", b, chosen)])
    job, sides, fallbacks = make_job(measure, bandwidth, factor, options, sides)
    matrix, fell_back = distance_matrix(job, sides[0], None if b is None else sides[1], n_jobs=n_jobs, output=output)
    (fallbacks + fell_back).warn()
    return matrix


@public
def choose_order(
    X: Any,
    orders: Sequence[int],
    *,
    bandwidth: SeriesBandwidth = "pair-median",
    factor: float = 1.0,
    layout: Layout = "nct",
    missing: Missing = "error",
    measure: SeriesMeasure = "conditional_cs",
    n_jobs: int | None = None,
    **options: Any,
) -> int:
    """Choose the order whose distances cluster best, without labels.

    For each order, the distances between the series (a random subset of 200 with a fixed seed if there are more) are
    clustered by average linkage into 2 to 10 clusters, and the highest mean silhouette is compared. Ties are resolved
    in favour of the smaller order.

    Parameters
    ----------
    X : array or list of arrays
        Series, as in `ccs_pairwise_distance`.
    orders : sequence of int
        The candidates.
    bandwidth, factor, layout, missing, measure, n_jobs, **options
        As in `ccs_pairwise_distance`.

    Returns
    -------
    int
        One of `orders`.

    Examples
    --------
    >>> t = np.arange(80)
    >>> X = np.stack([np.sin(t * speed + phase) for speed in (0.3, 0.5) for phase in range(4)])
    >>> choose_order(X, [1, 2])
    2
    """
    collection = draw_series(check_collection("X", X, layout, missing), MAX_SERIES)
    grid = check_grid(orders)
    if len(grid) == 1:
        return grid[0]
    if collection.count < _MIN_SERIES_FOR_GRID:
        raise ShapeError(
            f"`X` must hold at least {_MIN_SERIES_FOR_GRID} series for an order to be chosen from a grid, got "
            f"{collection.count}. Pass one order."
        )
    marks = [
        cluster_contrast(
            ccs_pairwise_distance(
                collection, order=order, bandwidth=bandwidth, factor=factor, measure=measure, n_jobs=n_jobs, **options
            )
        )
        for order in grid
    ]
    return grid[int(np.argmax(marks))]


def _is_takens(order: str) -> bool:
    if order != "takens":
        raise ParameterError(
            f'`order` must be a positive integer, "takens", or a sequence of integers to choose from, got {order!r}. '
            "Pass e.g. order=5."
        )
    return True


def _pooled(a: Collection, b: Collection) -> Collection:
    return joined([one.series(i) for one in (a, b) for i in range(one.count)])


def _check_jobs(n_jobs: Any) -> int | None:
    if n_jobs is None or (isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise ParameterError(f"`n_jobs` must be a whole number other than 0, or None, got {n_jobs!r}. Pass e.g. n_jobs=2.")
