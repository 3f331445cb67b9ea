"""Which kernel width lets a series predict itself: a choice of the factor that needs no labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condcs.core.checks import check_integer, check_positive
from condcs.core.errors import DataError, ParameterError, public
from condcs.core.random import check_rng
from condcs.timeseries.collection import FloatArray, check_collection
from condcs.timeseries.embedding import check_windows, embed_frames

FACTORS = (0.1, 0.3, 1.0, 3.0)
"""Candidates: multiples of the median distance."""

MOST_WINDOWS = 400
"""Windows of a series that are used, evenly spread; more change little."""


@public
def choose_factor(
    X: Any,
    *,
    order: int,
    factors: Sequence[float] = FACTORS,
    layout: str = "nct",
    missing: str = "error",
    n_series: int = 30,
    rng: int | np.random.Generator | None = 0,
) -> float:
    """Choose the `factor` of `ccs_pairwise_distance` without labels: the one with the greatest `self_prediction`.

    Smooth series want a small factor, short and noisy ones a large one. (The silhouette of the clusters cannot choose
    it: the wider the kernels, the fewer dimensions the distances have, and the tighter any clusters look.)

    Parameters
    ----------
    X : array or list of arrays
        The collection.
    order : int
        Length of the window.
    factors : sequence of float
        Candidates.
    layout : {"nct", "ntc"}
        Order of the axes.
    missing : {"error", "drop"}
        What to do about NaN.
    n_series : int
        Series that are looked at, drawn at random if there are more.
    rng : int or Generator
        Seed of that draw.

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
        raise ParameterError("`factors` must hold at least one candidate, got none. Pass e.g. factors=(0.1, 1.0).")
    candidates = sorted((check_positive("factors", f) for f in factors), reverse=True)
    options: dict[str, Any] = {"order": order, "layout": layout, "missing": missing, "n_series": n_series}
    seed = int(check_rng(rng).integers(2**31))
    marks = self_prediction(X, factors=candidates, rng=seed, **options)
    return candidates[int(np.argmax(np.round(marks, 12)))]


@public
def self_prediction(
    X: Any,
    *,
    order: int,
    factors: Sequence[float],
    layout: str = "nct",
    missing: str = "error",
    n_series: int = 30,
    rng: int | np.random.Generator | None = 0,
) -> FloatArray:
    r"""How well each value follows from its window under the kernel estimate from the other windows of its series.

    .. math:: \frac1n \sum_i \log \frac{\sum_{j \ne i} k(x_i - x_j)\, l(y_i - y_j)}{\sum_{j \ne i} k(x_i - x_j)}
              - d \log \sigma_y

    with widths of `factor` times the median distances of that series: the mean log density, up to a constant, of the
    conditional density estimate that leaves each observation out. The median over the series is returned. Cost
    O(series n^2 factors), in the log domain.

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
    chosen = np.sort(check_rng(rng).choice(collection.count, count, replace=False))
    marks = [_marks(*embed_frames(collection.series(i), _thinned(windows[i]), order), factors) for i in chosen]
    moving = [m for m in marks if m is not None]
    if not moving:
        raise DataError("`X` must hold series that change over time, got constant ones only. Leave those out.")
    return np.asarray(np.median(moving, axis=0))


def _thinned(windows: FloatArray) -> FloatArray:
    if len(windows) <= MOST_WINDOWS:
        return windows
    return np.asarray(windows[np.linspace(0, len(windows) - 1, MOST_WINDOWS).astype(int)])


def _marks(x: FloatArray, y: FloatArray, factors: Sequence[float]) -> list[float] | None:
    """Return the mean log density at each factor; None for a series whose median distances are 0."""
    from scipy.spatial.distance import pdist, squareform
    from scipy.special import logsumexp

    squares = [pdist(values, "sqeuclidean") for values in (x, y)]
    medians = [float(np.median(s)) for s in squares]
    if len(x) < 3 or min(medians) <= 0:
        return None
    a, b = (squareform(s) / (-2 * m) for s, m in zip(squares, medians, strict=True))
    np.fill_diagonal(a, -np.inf)
    width = np.sqrt(medians[1])
    return [
        float(np.mean(logsumexp((a + b) / f**2, axis=1) - logsumexp(a / f**2, axis=1)) - y.shape[1] * np.log(f * width))
        for f in factors
    ]
