"""Distances between series by established methods, with the paper's settings: DTW, MSM, TWED and TCK."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray
from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.errors import CondcsError, ShapeError, public
from condcs._core.vocabulary import named
from condcs.timeseries._collection import AxisOrder, Collection, check_collection

BaselineMeasure = Literal["dtw", "msm", "twed", "tck"]

ClusterMeasure = Literal["conditional_cs", BaselineMeasure]
"""What ``condcs cluster --measure`` takes, and its help lists."""

SHORTEST, LONGEST = 6, 25
"""Lengths of the segments of time that a mixture sees."""

MOST_CHANNELS = 15
"""Most channels that a mixture sees."""

_LEAST_SHARE = 0.8
"""Share of the series that a mixture sees at least, if there are many."""

_FEW_SERIES, _SHARE_OF_FEW = 100, 0.9
"""Up to so many series a mixture sees this share of them: a smaller one would leave few for its components."""

_CHANNEL_SHARE = 0.9
"""Share of the channels that a mixture sees at most, so that mixtures differ."""

_TIME_SHARE = 0.8
"""Share of the times that a mixture sees at most, for the same reason."""

LOG_FLOOR = float(-0.5 * 9 - 0.5 * np.log(2 * np.pi))
"""Least log density of a value: that of a standard normal at 3, so that no single value rules out a component."""


@public
def baseline_pairwise_distance(
    X: Any, *, measure: BaselineMeasure = "dtw", layout: AxisOrder = "nct", n_jobs: int = 1, **options: Any
) -> FloatArray:
    """Distances between all pairs of series by an established measure, with the paper's settings.

    "dtw" is dynamic time warping without a window, all channels warped together (squared differences, no root); "msm"
    the move-split-merge metric, summed over the channels; "twed" the time warp edit distance with nu = 0.001 and
    lambda = 1. These three are computed by aeon. "tck" is 1 minus the time series cluster kernel; standardise the data
    first if the channels have different units.

    Parameters
    ----------
    X : array or list of arrays
        The collection.
    measure : str
        The distance, one of those above.
    layout : {"nct", "ntc"}
        Order of the axes.
    n_jobs : int
        Number of threads that aeon uses.
    **options
        Settings other than the paper's, e.g. ``nu`` of "twed", or ``rng`` and ``n_mixtures`` of "tck".

    Returns
    -------
    array, shape (series, series)
        Symmetric, zero on the diagonal.
    """
    baseline = BASELINES[check_choice("measure", measure, get_args(BaselineMeasure))]
    n_jobs = check_integer("n_jobs", n_jobs, 1)
    collection = check_collection("X", X, layout, "drop" if baseline.allows_gaps else "error")
    return baseline.distances(collection, n_jobs, **{**baseline.settings, **options})


@public
def tck_kernel(
    X: Any,
    *,
    layout: AxisOrder = "nct",
    n_components: int | None = None,
    n_mixtures: int = 30,
    n_iterations: int = 20,
    rng: int | np.random.Generator | None = 0,
) -> FloatArray:
    r"""Time series cluster kernel (TCK): how often an ensemble of Gaussian mixtures assigns two series to one cluster.

    For every number of components from 2 to `n_components` there are `n_mixtures` mixtures, each fitted to a random
    part of the series, channels and times, by MAP-EM with random priors. With :math:`\pi_m(i)` the posterior of series
    i over the components of mixture m, as a unit vector,

    .. math:: K(i, j) = \frac1M \sum_m \pi_m(i)' \pi_m(j)

    A component has means that vary over time, :math:`\mu_{v}(t) \sim N(m_v, s_v b_0 e^{-a_0 (t - t')^2})` a priori, and
    one variance per channel; :math:`a_0, b_0` and the weight of the variance's prior are drawn uniformly from (0.001,
    1), (0.005, 0.2) and (0.001, 0.2). The densities of single values are bounded below by that of a standard normal at
    3: the values should be of the order of 1. Missing values (NaN) are ignored. Cost O(M n_iterations n C t v); memory
    O(n^2).

    Parameters
    ----------
    X : array, shape (series, channels, times) or (series, times, channels)
        The collection; all series are of one length, NaN marks gaps.
    layout : {"nct", "ntc"}
        Order of its axes.
    n_components : int, optional
        Largest number of components of a mixture, C; by default 40, or 10 for fewer than 100 series.
    n_mixtures : int
        Mixtures of each number of components, G.
    n_iterations : int
        Steps of the EM algorithm.
    rng : int or Generator
        Random generator, or its seed; every mixture has a stream of its own.

    Returns
    -------
    array, shape (series, series)
        Symmetric, positive semidefinite, between 0 and 1, with ones on the diagonal.

    Notes
    -----
    Mikalsen, Bianchi, Soguero-Ruiz, Jenssen: Time series cluster kernel for learning similarities between multivariate
    time series with missing data. Pattern Recognition 76 (2018).

    Examples
    --------
    >>> t = np.linspace(0, 6, 30)
    >>> rng = np.random.default_rng(0)
    >>> X = np.stack([np.sin(t) if i < 5 else np.cos(t) for i in range(10)]) + 0.1 * rng.normal(size=(10, 30))
    >>> K = tck_kernel(X, n_components=4, n_mixtures=5)
    >>> bool(K[:5, :5].mean() > 2 * K[:5, 5:].mean())
    True
    """
    collection = check_collection("X", X, layout, "drop")
    lengths = collection.lengths
    if (lengths != lengths[0]).any():
        raise ShapeError(
            f"{named('X')} must hold series of one length, got {lengths.min()} to {lengths.max()}. "
            "Interpolate them to one length, or pad the shorter ones with NaN."
        )
    n, length = collection.count, int(lengths[0])
    if n < 3 or length < 2:
        raise ShapeError(
            f"{named('X')} must hold at least 3 series of length 2, got {n} of length {length}. Pass more of them."
        )
    most = check_integer("n_components", n_components if n_components is not None else (40 if n >= 100 else 10), 2)
    n_mixtures = check_integer("n_mixtures", n_mixtures, 1)
    n_iterations = check_integer("n_iterations", n_iterations, 1)
    frames = collection.frames.reshape(n, length, collection.channels)
    K = np.zeros((n, n))
    for count, generator in zip(range(2, most + 1), check_rng(rng).spawn(most - 1), strict=True):
        posteriors = [_posterior(frames, count, n_iterations, g) for g in generator.spawn(n_mixtures)]
        together = np.concatenate([p / np.linalg.norm(p, axis=1, keepdims=True) for p in posteriors], axis=1)
        # One product for all mixtures of this size, and of a matrix with itself: half the work.
        K += together @ together.T
    return np.asarray((K + K.T) / (2 * n_mixtures * (most - 1)))


@dataclass(frozen=True)
class _Prior:
    """Prior of the means and variances: means (t, v), covariance of each channel (v, t, t)."""

    means: FloatArray
    covariance: FloatArray
    variances: FloatArray
    weight: float


def _posterior(frames: FloatArray, count: int, n_iterations: int, rng: np.random.Generator) -> FloatArray:
    """Fit one mixture to a random part of the data and return the posterior of all series (n, count)."""
    n, length, channels = frames.shape
    # 1. The part: some series, some channels and a segment of time.
    n_rows = _between(rng, round(_LEAST_SHARE * n), n) if n > _FEW_SERIES else round(_SHARE_OF_FEW * n)
    rows = rng.choice(n, n_rows, replace=False)
    most_channels = min(int(np.ceil(_CHANNEL_SHARE * channels)), MOST_CHANNELS)
    n_channels = _between(rng, min(2, channels), most_channels)
    part_channels = np.sort(rng.choice(channels, n_channels, replace=False))
    shortest = min(SHORTEST, length)
    longest = max(shortest, min(int(_TIME_SHARE * length), LONGEST))
    start = int(rng.integers(0, length - shortest + 1))
    stop = _between(rng, start + shortest, min(length, start + longest))
    # 2. The prior: a0, b0 and the weight of its variances.
    a0, b0, n0 = rng.uniform((0.001, 0.005, 0.001), (1.0, 0.2, 0.2))
    values = frames[:, start:stop, part_channels]  # (n, t, v)
    present = ~np.isnan(values)
    values = np.where(present, values, 0.0)
    # Centred: sums of squares lose nothing, and the algorithm starts from means of 0.
    centre = values[rows].sum(axis=(0, 1)) / np.maximum(1, present[rows].sum(axis=(0, 1)))
    values = np.where(present, values - centre, 0.0)
    prior = _prior(values[rows], present[rows], a0, b0, n0)
    # 3. The EM algorithm, from random responsibilities.
    responsibility = np.eye(count)[rng.integers(0, count, size=len(rows))]
    means = np.zeros((count, *values.shape[1:]))
    variances = np.ones((count, values.shape[2]))
    part, part_present = values[rows], present[rows].astype(float)
    shares = responsibility.mean(axis=0)
    for step in range(n_iterations):
        if step > 0:
            responsibility = _responsibility(part, part_present, means, variances, shares)
            shares = responsibility.mean(axis=0)
        means, variances = _update(part, part_present, responsibility, means, prior)
    return _responsibility(values, present.astype(float), means, variances, shares)


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high`; `low` if that is higher."""
    return int(rng.integers(low, max(low, high) + 1))


def _prior(values: FloatArray, present: BoolArray, a0: float, b0: float, n0: float) -> _Prior:
    """Return the prior for values (n, t, v), 0 where they are missing."""
    seen = present.sum(axis=0)
    overall = np.maximum(1, seen.sum(axis=0))
    means = np.where(seen > 0, values.sum(axis=0) / np.maximum(1, seen), 0.0)
    spread = np.sqrt(np.maximum((values**2).sum(axis=(0, 1)) / np.maximum(1, overall - 1), 1e-12))
    times = np.arange(values.shape[1])
    smooth = b0 * np.exp(-a0 * (times[:, None] - times) ** 2)
    return _Prior(means, spread[:, None, None] * smooth, spread**2, n0)


def _update(
    values: FloatArray, present: FloatArray, responsibility: FloatArray, means: FloatArray, prior: _Prior
) -> tuple[FloatArray, FloatArray]:
    """Return the means (c, t, v) and variances (c, v) that maximise the posterior, variances first."""
    n, times, channels = values.shape
    count = responsibility.shape[1]

    def summed(array: FloatArray) -> FloatArray:
        return np.asarray((responsibility.T @ array.reshape(n, -1)).reshape(count, times, channels))

    mass, sums, squares = summed(present), summed(values), summed(values**2)
    residual = np.maximum((squares - 2 * means * sums + means**2 * mass).sum(axis=1), 0.0)
    variances = (prior.weight * prior.variances + residual) / (prior.weight + mass.sum(axis=1))
    # mean = m + S W (I + S W)^-1 (data mean - m), with W the data's precision: S is close to singular, its inverse no
    # help. In the square root of W the matrix is symmetric with eigenvalues of at least 1.
    root = np.sqrt(mass / variances[:, None, :])
    pull = np.divide(sums - mass * prior.means, np.sqrt(mass * variances[:, None, :]), where=mass > 0, out=0 * sums)
    posterior_means = np.empty_like(sums)  # (c, t, v)
    for v in range(channels):
        S, w = prior.covariance[v], root[:, :, v]
        M = np.eye(times) + w[:, :, None] * S * w[:, None, :]
        posterior_means[:, :, v] = prior.means[:, v] + (w * np.linalg.solve(M, pull[:, :, v, None])[:, :, 0]) @ S
    return posterior_means, variances


def _responsibility(
    values: FloatArray, present: FloatArray, means: FloatArray, variances: FloatArray, shares: FloatArray
) -> FloatArray:
    """Return the posterior of each series over the components (n, c)."""
    n, count = len(values), len(means)
    wide = np.broadcast_to(variances[:, None, :], means.shape).reshape(count, -1)
    logs = _log_densities()(
        values.reshape(n, -1),
        present.reshape(n, -1),
        means.reshape(count, -1),
        0.5 / wide,
        -0.5 * np.log(2 * np.pi * wide),
        LOG_FLOOR,
    ) + np.log(np.maximum(shares, 1e-300))
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@cache
def _log_densities() -> Any:
    """Compile the loop over all series, components and values when it is first needed: loading numba takes time."""
    from condcs._core.compiling import njit

    @njit(nogil=True, fastmath={"reassoc", "contract"})
    def log_densities(values: Any, present: Any, means: Any, precisions: Any, offsets: Any, floor: float) -> Any:
        """Return sum_f present[n, f] max(offsets[c, f] - precisions[c, f] (values[n, f] - means[c, f])^2, floor)."""
        n, width = values.shape
        count = len(means)
        result = np.empty((n, count))
        for i in range(n):
            for c in range(count):
                total = 0.0
                for f in range(width):
                    gap = values[i, f] - means[c, f]
                    total += present[i, f] * max(offsets[c, f] - precisions[c, f] * gap * gap, floor)
                result[i, c] = total
        return result

    return log_densities


def _tck_distances(collection: Collection, n_jobs: int, **options: Any) -> FloatArray:
    """Return 1 minus the kernel; its mixtures are fitted one after the other, whatever `n_jobs`."""
    D = np.clip(1 - tck_kernel(collection, **options), 0, 1)
    np.fill_diagonal(D, 0)
    return D


def _aeon_distances(method: str, collection: Collection, n_jobs: int, **options: Any) -> FloatArray:
    """Return distances by a method of aeon, under its name there."""
    try:
        from aeon.distances import pairwise_distance
        from numba.core.errors import NumbaTypeSafetyWarning
    except ModuleNotFoundError as error:
        raise CondcsError(
            f"this {named('measure')} needs the package aeon, which is not installed. "
            "Install it with: pip install 'condcs[timeseries]'."
        ) from error
    series: Any = [np.ascontiguousarray(collection.series(i).T) for i in range(collection.count)]
    if len({s.shape for s in series}) == 1:
        series = np.stack(series)
    with warnings.catch_warnings():
        # The compiler warns about aeon's own loops.
        warnings.simplefilter("ignore", NumbaTypeSafetyWarning)
        return np.asarray(pairwise_distance(series, method=method, n_jobs=n_jobs, **options))


@dataclass(frozen=True)
class BaselineDistance:
    """An established distance, with the paper's settings.

    Attributes
    ----------
    distances : function
        Takes a collection of series, a number of threads and the settings; returns an array (series, series).
    settings : dict
        The paper's.
    allows_gaps : bool
        Whether series may have missing values.
    """

    distances: Callable[..., FloatArray]
    settings: Mapping[str, Any] = field(default_factory=dict)
    allows_gaps: bool = False


BASELINES: dict[BaselineMeasure, BaselineDistance] = {
    # No warping window; all channels are warped together.
    "dtw": BaselineDistance(partial(_aeon_distances, "dtw")),
    # The paper names no cost; 1 is aeon's.
    "msm": BaselineDistance(partial(_aeon_distances, "msm"), {"c": 1.0}),
    "twed": BaselineDistance(partial(_aeon_distances, "twe"), {"nu": 0.001, "lmbda": 1.0}),
    "tck": BaselineDistance(_tck_distances, allows_gaps=True),
}
"""All of them. `baseline_pairwise_distance` and ``condcs cluster --measure`` know a further one by its row here and its
name in `BaselineMeasure`."""
