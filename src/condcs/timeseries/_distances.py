"""Distances between the dynamics of time series, and order and bandwidth factor chosen without labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, RealArray
from condcs._core.checks import check_integer, check_positive, check_rng
from condcs._core.errors import DataError, ParameterError, ShapeError, public
from condcs._core.vocabulary import named, setting
from condcs.timeseries._collection import (
    MIN_WINDOWS,
    AxisOrder,
    Collection,
    MissingFrames,
    check_collection,
    check_same_channels,
    check_series,
    check_windows,
    embed_frames,
    joined,
    whole_windows,
    windowed,
)
from condcs.timeseries._distance_matrix import (
    IN_MEMORY,
    MatrixOutput,
    SeriesBandwidth,
    SeriesMeasure,
    distance_matrix,
    make_job,
)

Order = int | Literal["takens"] | Sequence[int]
"""A number of frames, "takens", or a grid to choose from."""

MAX_SERIES = 200
"""Orders are chosen on at most this many series, drawn with a fixed seed."""

FACTORS = (0.1, 0.3, 1.0, 3.0)
"""Candidates for the factor: multiples of the median distance."""

MOST_WINDOWS = 400
"""Windows of a series that self-prediction uses, evenly spread; more change little."""

# Fixed, so that the same series give the same order; any other would do.
_SEED = 0
# Longest window that is tried unless one is given: each further one costs a search for neighbours in every series.
_MAX_ORDER = 20
# Most clusters whose silhouette is looked at; `cluster` chooses among as many.
_MAX_CLUSTERS = 10
# Neighbours are false if the next frame separates them by more than so many times their distance ...
_JUMP = 10.0
# ... or by more than so many standard deviations of the series: the values of Kennel, Brown and Abarbanel (1992).
_ATTRACTOR_SIZES = 2.0
# A window is long enough with a smaller share of false neighbours. None at all is too much to ask of series with noise.
_FALSE_SHARE = 0.01
# The silhouettes of average linkage need two clusters, and something to tell them apart by.
_MIN_SERIES_FOR_GRID = 4
# Decimals to which marks are rounded before the best is chosen, so that no rounding error decides between equal ones.
_MARK_DIGITS = 12


@public
def ccs_distance(
    x: Any,
    y: Any,
    *,
    order: int | Literal["takens"],
    bandwidth: SeriesBandwidth = "pair-median",
    factor: float = 1.0,
    layout: AxisOrder = "nct",
    missing: MissingFrames = "error",
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
            f'{named("order")} must be a positive integer or "takens" for two series, got {order!r}. To choose from a '
            "grid, pass a collection to `ccs_pairwise_distance`."
        )
    window_length = _single_order(order, lambda: _pooled(p, q))
    sides = [windowed("x", p, window_length), windowed("y", q, window_length)]
    job, sides, fallbacks = make_job(measure, bandwidth, factor, options, sides)
    values, pair_fallbacks = job.block(sides[0], sides[1], same_series=False)
    (fallbacks + pair_fallbacks).warn()
    return float(values[0, 0])


@public
def ccs_pairwise_distance(
    X: Any,
    Y: Any = None,
    *,
    order: Order,
    bandwidth: SeriesBandwidth = "pair-median",
    factor: float = 1.0,
    layout: AxisOrder = "nct",
    missing: MissingFrames = "error",
    measure: SeriesMeasure = "conditional_cs",
    n_jobs: int | None = None,
    output: MatrixOutput = IN_MEMORY,
    **options: Any,
) -> RealArray:
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
            f"{named('output')} must be a MatrixOutput, got {output!r}. Pass e.g. output=MatrixOutput(store='folder')."
        )
    a = check_collection("X", X, layout, missing)
    b = None if Y is None else check_collection("Y", Y, layout, missing)
    if b is not None:
        check_same_channels("X", a, "Y", b, layout)
    if isinstance(order, str) or np.ndim(order) == 0:
        window_length = _single_order(order, lambda: a if b is None else _pooled(a, b))
    else:
        window_length = choose_order(
            a if b is None else _pooled(a, b),
            order,  # type: ignore[arg-type]
            bandwidth=bandwidth,
            factor=factor,
            measure=measure,
            n_jobs=n_jobs,
            **options,
        )
    sides = [windowed("X", a, window_length)]
    if b is not None:
        sides.append(windowed("Y", b, window_length))
    job, sides, fallbacks = make_job(measure, bandwidth, factor, options, sides)
    matrix, pair_fallbacks = distance_matrix(
        job, sides[0], None if b is None else sides[1], n_jobs=n_jobs, output=output
    )
    (fallbacks + pair_fallbacks).warn()
    return matrix


@public
def choose_order(
    X: Any,
    orders: Sequence[int],
    *,
    bandwidth: SeriesBandwidth = "pair-median",
    factor: float = 1.0,
    layout: AxisOrder = "nct",
    missing: MissingFrames = "error",
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
    collection = some_series(check_collection("X", X, layout, missing), MAX_SERIES)
    grid = check_grid(orders)
    if len(grid) == 1:
        return grid[0]
    if collection.count < _MIN_SERIES_FOR_GRID:
        raise ShapeError(
            f"{named('X')} must hold at least {_MIN_SERIES_FOR_GRID} series for an order to be chosen from a grid, got "
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


def _single_order(order: Any, series: Callable[[], Collection]) -> int:
    """Return an order that is a number, or for "takens" the one that unfolds the series."""
    if not isinstance(order, str):
        return check_integer("order", order, 1)
    if order != "takens":
        raise _bad_order(order)
    return takens_order(series())


def _bad_order(order: Any) -> ParameterError:
    return ParameterError(
        f'{named("order")} must be a positive integer, "takens", or a sequence of integers to choose from, got '
        f"{order!r}. Pass e.g. {setting('order', 5)}."
    )


def _pooled(a: Collection, b: Collection) -> Collection:
    return joined([one.series(i) for one in (a, b) for i in range(one.count)])


def _check_jobs(n_jobs: Any) -> int | None:
    if n_jobs is None or (isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise ParameterError(
        f"{named('n_jobs')} must be a whole number other than 0, or None, got {n_jobs!r}. Pass e.g. "
        f"{setting('n_jobs', 2)}."
    )


@public
def false_neighbours(
    X: Any, *, max_order: int | None = None, layout: AxisOrder = "nct", missing: MissingFrames = "error"
) -> FloatArray:
    """Share of false nearest neighbours among the windows of a series, for orders 1, 2, ...

    Neighbours are false if they are close only because the window is too short to unfold the dynamics: the next frame
    separates them by more than 10 times their distance, or by more than 2 standard deviations of the series (the two
    criteria of Kennel, Brown and Abarbanel). Cost O(n log n) per order and series.

    Parameters
    ----------
    X : array or list of arrays
        Series, as in `ccs_pairwise_distance`; of more than 200, a random subset with a fixed seed is used.
    max_order : int, optional
        Largest order to try; by default 20, or half the length of the shortest series if that is less.
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
    drawn = some_series(collection, MAX_SERIES)
    return np.array([_false_share(drawn, order) for order in range(1, top + 1)])


def takens_order(collection: Collection) -> int:
    """Smallest order with less than 1% false neighbours; if none has, the one with the fewest."""
    shares = false_neighbours(collection)
    few = np.flatnonzero(shares < _FALSE_SHARE)
    return int(few[0] if len(few) else np.argmin(shares)) + 1


def some_series(collection: Collection, at_most: int) -> Collection:
    """Return the collection, or a part of it drawn with a fixed seed."""
    if collection.count <= at_most:
        return collection
    drawn = np.random.default_rng(_SEED).choice(collection.count, at_most, replace=False)
    return collection.chosen(np.sort(drawn))


def check_grid(order: Any) -> list[int]:
    """Check a grid of orders."""
    try:
        grid = sorted({check_integer("order", value, 1) for value in order})
    except TypeError:
        grid = []
    if not grid:
        raise _bad_order(order)
    return grid


def cluster_contrast(D: RealArray) -> float:
    """Best mean silhouette over 2 to 10 clusters by average linkage: how distinct clusters are, without labels."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    from condcs.timeseries._clustering import silhouette

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
    """Return the share of windows, of all series together, whose nearest neighbour in the same series is false."""
    from scipy.spatial import cKDTree

    false, total = 0, 0
    for i in range(collection.count):
        frames = collection.series(i)
        window_times = whole_windows(frames, order)
        if len(window_times) < MIN_WINDOWS:
            continue
        x, y = embed_frames(frames, window_times, order)
        distances, indices = cKDTree(x).query(x, k=2)  # both (n, 2)
        # The first of the two is the window itself; among equal windows, the two need not include it.
        rows = np.arange(len(x))
        column = np.where(indices[:, 0] == rows, 1, 0)
        near, neighbour = distances[rows, column], indices[rows, column]  # (n,)
        separation = np.linalg.norm(y - y[neighbour], axis=1)
        attractor_size = np.sqrt(np.nanvar(frames, axis=0).sum())
        jumps = separation > _JUMP * near
        leaves = np.hypot(near, separation) > _ATTRACTOR_SIZES * attractor_size
        false += int(np.sum(jumps | leaves))
        total += len(x)
    if total == 0:
        raise ShapeError(
            f"{named('max_order')} must leave every series at least {MIN_WINDOWS} windows, got order {order} for "
            f"series of {int(collection.lengths.max())} time points at most. Use a smaller {named('max_order')}."
        )
    return false / total


@public
def choose_factor(
    X: Any,
    *,
    order: int,
    factors: Sequence[float] = FACTORS,
    layout: AxisOrder = "nct",
    missing: MissingFrames = "error",
    n_series: int = 30,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """Choose the `factor` of `ccs_pairwise_distance` without labels: the one with the greatest `self_prediction`.

    Smooth series need a small factor, short and noisy series a large one. (The silhouette of the clusters cannot choose
    it: the larger the bandwidth, the fewer dimensions the distances have, and the tighter any clusters look.)

    Parameters
    ----------
    X : array or list of arrays
        The collection.
    order : int
        Length of the window.
    factors : sequence of float
        Candidates.
    layout, missing
        As in `ccs_pairwise_distance`.
    n_series : int
        Number of series used, drawn at random if there are more.
    rng : int or Generator
        Random generator for that draw, or its seed.

    Returns
    -------
    float
        One of `factors`; of equally good ones the largest.

    Examples
    --------
    >>> t = np.linspace(0, 30, 200)
    >>> smooth = np.stack([np.sin(t + phase) for phase in range(4)])
    >>> noise = np.random.default_rng(0).normal(size=(4, 200))
    >>> choose_factor(smooth, order=3), choose_factor(noise, order=3)
    (0.1, 1.0)
    """
    if len(factors) == 0:
        raise ParameterError(
            f"{named('factors')} must hold at least one candidate, got none. Pass e.g. "
            f"{setting('factors', (0.1, 1.0))}."
        )
    candidates = sorted((check_positive("factors", f) for f in factors), reverse=True)
    seed = int(check_rng(rng).integers(2**31))
    marks = self_prediction(
        X, order=order, factors=candidates, layout=layout, missing=missing, n_series=n_series, rng=seed
    )
    return candidates[int(np.argmax(np.round(marks, _MARK_DIGITS)))]


@public
def self_prediction(
    X: Any,
    *,
    order: int,
    factors: Sequence[float],
    layout: AxisOrder = "nct",
    missing: MissingFrames = "error",
    n_series: int = 30,
    rng: int | np.random.Generator | None = 0,
) -> FloatArray:
    r"""How well each value is predicted from its window by a kernel estimate from the other windows of its series.

    .. math:: \frac1n \sum_i \log \frac{\sum_{j \ne i} k(x_i - x_j)\, l(y_i - y_j)}{\sum_{j \ne i} k(x_i - x_j)}
              - d \log \sigma_y

    with bandwidths of `factor` times the median distances of that series: the mean leave-one-out log-likelihood of the
    conditional density estimate, up to a constant. The median over the series is returned. Cost O(series n^2 factors),
    in the log domain.

    Parameters
    ----------
    X, order, layout, missing, n_series, rng
        As for `choose_factor`.
    factors : sequence of float
        Multiples of the median distances.

    Returns
    -------
    array, shape (len(factors),)
        Larger is better.
    """
    collection = check_collection("X", X, layout, missing)
    windows = check_windows("X", collection, check_integer("order", order, 1))
    factors = [check_positive("factors", f) for f in factors]
    count = min(check_integer("n_series", n_series, 1), collection.count)
    drawn = np.sort(check_rng(rng).choice(collection.count, count, replace=False))
    marks = []
    for i in drawn:
        x, y = embed_frames(collection.series(i), _thinned(windows[i]), order)
        log_densities = _log_densities(x, y, factors)
        if log_densities is not None:
            marks.append(log_densities)
    if not marks:
        raise DataError(f"{named('X')} must hold series that change over time, got only constant ones. Drop those.")
    return np.asarray(np.median(marks, axis=0))


def _thinned(window_times: IntArray) -> IntArray:
    """Return at most `MOST_WINDOWS` of the windows, evenly spread."""
    if len(window_times) <= MOST_WINDOWS:
        return window_times
    return np.asarray(window_times[np.linspace(0, len(window_times) - 1, MOST_WINDOWS).astype(int)])


def _log_densities(x: FloatArray, y: FloatArray, factors: Sequence[float]) -> list[float] | None:
    """Return the mean log density at each factor; None for a series whose median distances are 0."""
    from scipy.spatial.distance import pdist, squareform
    from scipy.special import logsumexp

    squares_x, squares_y = pdist(x, "sqeuclidean"), pdist(y, "sqeuclidean")
    median_x, median_y = float(np.median(squares_x)), float(np.median(squares_y))
    if len(x) < 3 or min(median_x, median_y) <= 0:
        return None
    # log k and log l at a factor of 1, (n, n); a bandwidth of `factor` times the median divides them by its square.
    log_k = squareform(squares_x) / (-2 * median_x)
    log_l = squareform(squares_y) / (-2 * median_y)
    np.fill_diagonal(log_k, -np.inf)  # j != i
    means = []
    for factor in factors:
        log_ratios = logsumexp((log_k + log_l) / factor**2, axis=1) - logsumexp(log_k / factor**2, axis=1)
        log_sigma_y = float(np.log(factor * np.sqrt(median_y)))
        means.append(float(np.mean(log_ratios)) - y.shape[1] * log_sigma_y)
    return means
