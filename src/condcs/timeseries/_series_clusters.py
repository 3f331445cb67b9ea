"""Clusters of time series by their dynamics, with the settings of the distance chosen without labels.

No single setting serves all series: smooth ones want long windows and narrow kernels, short noisy ones the reverse, and
whether level and spread count is for the data to say. Dynamics, p(next value | window), do not know when something
happens; series that start together and differ in shape are told apart by p(next value | window, position in time). So a
grid of windows, bandwidth factors and scalings, with and without the position, is tried, most of it on a part of the
series only. Where two algorithms that look for different things, spectral clustering and k-medoids, find the same
clusters, the distance has structure in it. The graphs of neighbours under the best settings are then fused into one, or
k-medoids clusters their votes on which series belong together.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, IntArray, LabelArray
from condcs._core.checks import check_choice, check_integer, check_positive, check_rng
from condcs._core.errors import BandwidthWarning, ShapeError, public
from condcs.timeseries._clustering import (
    Method,
    check_distances,
    fused,
    labels_by_affinity,
    labels_by_medoids,
    local_affinity,
    medoids_of,
    silhouette,
)
from condcs.timeseries._collection import (
    MIN_WINDOWS,
    Collection,
    Layout,
    Missing,
    check_collection,
    whole_windows,
    windowed,
)
from condcs.timeseries._distance_matrix import IN_MEMORY, distance_matrix, make_job

Scaling = Literal["global", "series", "raw"]
"""Each channel standardised over all series, or within each series, or the values as they are."""

Auto = Literal["auto"]

ORDERS = (1, 2, 5, 10, 20, 40)
"""Windows that are tried, up to a third of the shortest series."""

FACTORS = (1.6, 0.8, 0.4, 0.2, 0.1)
"""Bandwidth factors that are tried; each is half of the one before, so that one pass over the pairs serves them all."""

SCALINGS: tuple[Scaling, ...] = ("global", "series")
"""Scalings that are tried. For one channel, "raw" gives the same distances as "global"."""

POSITION_ORDERS = (1, 10)
"""Windows that are tried with the position in time as one more channel too; it tells most of what a window would."""

SMALL_WORK = 3e8
"""Up to so many distances between windows, some seconds of work, all settings are tried on all series."""

MOST_DRAWN = 200
"""Series on which settings are tried, of as many or more."""

FEWEST_DRAWN = 8
"""Series on which settings are tried in the first of two rounds, of as many or more."""

FIRST_ROUND = 2.0
"""Time that the first round may take, in passes over all series: the more passes, the fewer series are drawn."""

FINALISTS = 3
"""Passes that the second round makes over all series."""

VOTES = 5
"""Settings that vote, each by two algorithms, and whose neighbourhoods are fused."""

MOST_CLUSTERS = 10
"""Largest number of clusters that is tried if the number is to be chosen."""


@dataclass(frozen=True)
class Setting:
    """What a distance between series depends on.

    Attributes
    ----------
    order : int
        Length of the window.
    factor : float
        Bandwidths as a multiple of each pair's median distances.
    scaling : {"global", "series", "raw"}
        How the values were standardised.
    position : bool
        Whether the position in time is part of the window.
    """

    order: int
    factor: float
    scaling: Scaling
    position: bool = False

    @property
    def _pass(self) -> tuple[Scaling, bool, int]:
        """Settings that have this in common share a pass over the pairs."""
        return self.scaling, self.position, self.order


@dataclass(frozen=True)
class Trial:
    """A setting and how it did.

    Attributes
    ----------
    setting : Setting
        What was tried.
    agreement : float
        Adjusted mutual information of spectral clustering and k-medoids: 1 if they agree, about 0 by chance.
    balance : float
        Entropy of the cluster sizes over that of equal sizes, the lower of the two clusterings. Two algorithms that
        both put nearly all series into one cluster agree for no good reason.
    n_series : int
        How many series it was tried on.
    """

    setting: Setting
    agreement: float
    balance: float
    n_series: int

    @property
    def mark(self) -> float:
        """Agreement times balance: what settings are chosen by."""
        return max(self.agreement, 0.0) * self.balance


@dataclass(frozen=True, eq=False)
class SeriesClusters(ByValue):
    """A clustering of time series, and how its settings were chosen.

    Attributes
    ----------
    labels : array of int, shape (n,)
        Cluster of each series, numbered by its first member.
    medoids : array of int, shape (k,)
        The most central series of each cluster under `distances`.
    distances : array, shape (n, n)
        Distances under the best setting, or the given one.
    setting : Setting
        That setting.
    votes : tuple of Setting
        The settings that voted; one if it was given.
    tried : tuple of Trial
        All settings that were tried, best first, those of the second round before the others; empty if the setting
        was given.
    together : array, shape (n, n)
        Share of the votes that put two series into one cluster.
    firmness : float
        Mean adjusted mutual information between the result and the votes: 1 if all settings and both algorithms find
        the same clusters, near 0 if the clusters are arbitrary.
    silhouette : float
        Mean silhouette under `distances`.
    k_marks : dict
        Mean mark of the best settings for each number of clusters; empty if the number was given.
    """

    labels: LabelArray
    medoids: IntArray
    distances: FloatArray = field(repr=False)
    setting: Setting
    votes: tuple[Setting, ...] = field(repr=False)
    tried: tuple[Trial, ...] = field(repr=False)
    together: FloatArray = field(repr=False)
    firmness: float
    silhouette: float
    k_marks: dict[int, float]

    def __str__(self) -> str:
        n_tried, best = len(self.tried), self.setting
        chosen = f"{len(self.votes)} of {n_tried} settings voted; the best: " if n_tried else ""
        return (
            f"{len(self.labels)} series in {len(self.medoids)} clusters of "
            f"{', '.join(map(str, np.bincount(self.labels)))}\n"
            f"firmness {self.firmness:.2f}, silhouette {self.silhouette:.2f}\n{chosen}windows of {best.order}, "
            f"bandwidth factor {best.factor:g}, scaling {best.scaling}{', position in time' if best.position else ''}"
        )

    @property
    def support(self) -> FloatArray:
        """Share of the votes that put each series together with the others of its cluster, on average."""
        same = self.labels[:, None] == self.labels
        np.fill_diagonal(same, False)
        others = same.sum(axis=1)
        shares = (self.together * same).sum(axis=1) / np.maximum(others, 1)
        return np.asarray(np.where(others > 0, shares, 1.0))


@public
def cluster(
    X: Any,
    k: int | Auto,
    *,
    method: Method = "spectral",
    order: int | Auto = "auto",
    factor: float | Auto = "auto",
    scaling: Scaling | Auto = "auto",
    layout: Layout = "nct",
    missing: Missing = "drop",
    n_jobs: int | None = None,
    rng: int | np.random.Generator | None = 0,
) -> SeriesClusters:
    """Cluster time series by their dynamics; what is not given is chosen without labels.

    Windows of 1, 2, 5, 10, 20 and 40 values (up to a third of the shortest series), bandwidth factors from 0.1 to
    1.6 and two scalings are tried, windows of 1 and 10 values also with the position in time as one more channel
    (see Notes). A setting's mark is the adjusted mutual information of spectral clustering and k-medoids under its
    distances, times the balance of their cluster sizes. Unless there are few or short series, a first round tries
    everything on a part of them, and a second one the three best windows on all. The five best settings decide:
    spectral clustering works on their graphs of neighbours, fused into one (similarity network fusion), and
    k-medoids on the share of their ten clusterings, by both algorithms, in which two series are together. If
    `order`, `factor` and `scaling` are all given, the distances are clustered as they are.

    Parameters
    ----------
    X : array, shape (n_series, n_channels, n_timepoints) or (n_series, n_timepoints), or list of arrays
        The series; lengths may differ within a list. With ``layout="ntc"``, (n_series, n_timepoints, n_channels).
    k : int or "auto"
        Number of clusters. "auto": from 2 to 10, the number at which the best settings have the highest marks.
    method : {"spectral", "k_medoids"}
        The algorithm that clusters the fused graphs, the votes, or the distances.
    order, factor : int and float, or "auto"
        As in `ccs_pairwise_distance`.
    scaling : {"auto", "global", "series", "raw"}
        "global" standardises each channel over all series, "series" within each series.
    layout : {"nct", "ntc"}
        Order of the axes.
    missing : {"drop", "error"}
        Whether windows that contain a NaN are dropped, or a NaN raises an error.
    n_jobs : int, optional
        Number of threads, as in `ccs_pairwise_distance`.
    rng : int or Generator
        Random generator for the draw and the starts, or its seed.

    Returns
    -------
    SeriesClusters
        Labels, what was tried and chosen, and how firm the result is.

    Notes
    -----
    The position in time runs from the start of a series to its end, with as much variance as the other channels
    together. With it, the distance is one of shapes, p(next value | window, position): what happens when. It is not
    tried if `order`, `factor` and `scaling` are all given.

    A pass over the pairs of series serves all factors, and takes 1.3 to 1.7 times as long as a matrix of distances. Of
    two rounds, the first takes about as long as two passes over all series: with P passes to make, it sees a share of
    sqrt(2 / P) of them, at least 8 and at most 200. The second makes three passes over all; marks are found on up to
    200. Where all passes together visit less than 3e8 pairs of windows, they are made over all series at once.

    B. Wang et al.: Similarity network fusion for aggregating data types on a genomic scale. Nature Methods 11 (2014).

    Examples
    --------
    >>> t = np.arange(80)
    >>> rng = np.random.default_rng(0)
    >>> X = [np.sin(speed * t + phase) + 0.1 * rng.normal(size=80) for speed in (0.3, 0.7) for phase in range(6)]
    >>> found = cluster(np.stack(X), 2)
    >>> found.labels.tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    >>> print(str(found).splitlines()[0])
    12 series in 2 clusters of 6, 6
    """
    collection = check_collection("X", X, layout, missing)
    n = collection.count
    if n < 3:
        raise ShapeError(f"`X` must hold at least 3 series, got {n}. Pass more of them.")
    check_choice("method", method, get_args(Method))
    if not (isinstance(k, str) and k == "auto"):
        k = check_integer("k", k, 2, n, " (the number of series), or 'auto'")
    elif n < 6:
        raise ShapeError(f"`X` must hold at least 6 series for `k` to be chosen, got {n}. Pass k=2.")
    generator = check_rng(rng)
    seed = int(generator.integers(2**31))
    grid = _grid(collection, order, factor, scaling)
    with warnings.catch_warnings():
        # Of many settings some meet series at rest; their bandwidths fall back on a percentile.
        warnings.simplefilter("ignore", BandwidthWarning)
        if len(grid) == 1 and k != "auto":
            (D,) = _matrices(collection, grid, n_jobs)
            return _result([D], grid, (), k, method, seed, {})
        choice = _chosen(collection, grid, k, generator.permutation(n)[:MOST_DRAWN], n_jobs, seed)
        lacking = [vote for vote in choice.votes if vote not in choice.known]
        known = choice.known | dict(zip(lacking, _matrices(collection, lacking, n_jobs), strict=True))
    number, k_marks = (choice.best_k, choice.k_marks) if k == "auto" else (int(k), {})
    matrices = [known[vote] for vote in choice.votes]
    return _result(matrices, choice.votes, choice.tried, number, method, seed, k_marks)


@dataclass(frozen=True)
class _Choice:
    """What was chosen, with the marks of numbers of clusters, and distances between all series that are known now."""

    tried: tuple[Trial, ...]
    votes: list[Setting]
    best_k: int
    k_marks: dict[int, float]
    known: dict[Setting, FloatArray]


def _chosen(
    collection: Collection, grid: list[Setting], k: int | Auto, drawn: IntArray, n_jobs: int | None, seed: int
) -> _Choice:
    """Try all settings on the drawn series; if that is much work, on some of them, and on all only the best passes."""
    n, n_passes = collection.count, len({setting._pass for setting in grid})
    few, most_passes = np.sort(drawn), n_passes
    if n_passes * (len(drawn) * collection.lengths.mean()) ** 2 / 2 > SMALL_WORK:
        share, most_passes = min(1.0, np.sqrt(FIRST_ROUND / n_passes)), FINALISTS
        few = np.sort(drawn[: max(FEWEST_DRAWN, int(np.ceil(share * n)))])
    first = dict(zip(grid, _matrices(collection.chosen(few), grid, n_jobs), strict=True))
    trials = {number: _trials(first, number, seed) for number in _numbers(k, len(few))}
    marks: dict[Any, list[float]] = {}
    for trial in (trial for tried in trials.values() for trial in tried):
        marks.setdefault(trial.setting._pass, []).append(trial.mark)
    passes = sorted(marks, key=lambda one: -round(float(np.mean(marks[one])), 9))[:most_passes]
    known = first if len(few) == n else {}
    last = {number: [t for t in tried if t.setting._pass in passes] for number, tried in trials.items()}
    if len(few) < len(drawn):
        finalists = [setting for setting in grid if setting._pass in passes]
        known = dict(zip(finalists, _matrices(collection, finalists, n_jobs), strict=True))
        seen = np.ix_(np.sort(drawn), np.sort(drawn))
        on_more = {setting: D[seen] for setting, D in known.items()}
        last = {number: _trials(on_more, number, seed) for number in _numbers(k, len(drawn))}
    k_marks = {number: float(np.mean([t.mark for t in tried[:VOTES]])) for number, tried in last.items()}
    # The larger of equally good numbers: fewer clusters agree more easily.
    best = max(k_marks, key=lambda number: (round(k_marks[number], 12), number))
    others = [t for t in trials[min(best, max(trials))] if t.setting._pass not in passes]
    votes = [trial.setting for trial in last[best][:VOTES]]
    return _Choice((*last[best], *others), votes, best, k_marks, known)


def _numbers(k: int | Auto, n: int) -> Sequence[int]:
    """Return the numbers of clusters that are tried on n series."""
    return range(2, max(2, min(MOST_CLUSTERS, n // 3)) + 1) if k == "auto" else [max(2, min(int(k), n // 2))]


def _grid(collection: Collection, order: Any, factor: Any, scaling: Any) -> list[Setting]:
    """Return the settings to try: what was given is kept."""
    shortest = int(collection.lengths.min())
    orders: Sequence[int]
    if isinstance(order, str):
        check_choice("order", order, get_args(Auto))
        fitting = [o for o in ORDERS if 3 * o <= shortest and _fits(collection, o)]
        orders = fitting or [1]
    else:
        orders = [check_integer("order", order, 1)]
    if isinstance(factor, str):
        check_choice("factor", factor, get_args(Auto))
        factors: Sequence[float] = FACTORS
    else:
        factors = [check_positive("factor", factor)]
    check_choice("scaling", scaling, (*get_args(Scaling), "auto"))
    scalings: Sequence[Scaling] = [scaling]
    if scaling == "auto":
        scalings = SCALINGS[:1] if _alike(collection) else SCALINGS
    alone = len(orders) * len(factors) * len(scalings) == 1
    placed = [] if alone else [o for o in orders if o in POSITION_ORDERS or len(orders) == 1]
    return [
        Setting(o, f, s, position)
        for position, windows in ((False, orders), (True, placed))
        for s in scalings
        for o in windows
        for f in factors
    ]


def _fits(collection: Collection, order: int) -> bool:
    """Whether every series with gaps has enough whole windows of this length."""
    if not collection.has_gaps:
        return True
    return all(len(whole_windows(collection.series(i), order)) > MIN_WINDOWS for i in range(collection.count))


def _alike(collection: Collection) -> bool:
    """Whether every series has nearly the same mean and spread in each channel, so that both scalings are one."""
    frames = scaled(collection, "global")
    for i in range(frames.count):
        values = frames.series(i)
        if np.abs(np.nanmean(values, axis=0)).max() > 0.05 or np.abs(np.nanstd(values, axis=0) - 1).max() > 0.05:
            return False
    return True


def scaled(collection: Collection, scaling: Scaling) -> Collection:
    """Return the series as they are, or each channel standardised over all series or within each of them."""
    if scaling == "raw":
        return collection
    if scaling == "global":
        return Collection(_standardised(collection.frames), collection.starts)
    parts = [_standardised(collection.series(i)) for i in range(collection.count)]
    return Collection(np.concatenate(parts), collection.starts)


def with_position(collection: Collection) -> Collection:
    """Return the series with their position in time as one more channel, with the variance of the others together."""
    reach = np.sqrt(3.0 * np.nanvar(collection.frames, axis=0).sum())
    times = [np.linspace(-reach, reach, length) for length in collection.lengths]
    return Collection(np.column_stack([collection.frames, np.concatenate(times)]), collection.starts)


def _standardised(frames: FloatArray) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a channel without any value stays without
        centre, spread = np.nanmean(frames, axis=0), np.nanstd(frames, axis=0)
    # A constant channel has a spread of rounding errors.
    still = ~(spread > 1e-12 * np.abs(centre))
    return np.asarray((frames - centre) / np.where(still, 1.0, spread))


def _matrices(collection: Collection, settings: Sequence[Setting], n_jobs: int | None) -> list[FloatArray]:
    """Return the distances under each setting; those that differ in the factor alone share a pass over the pairs."""
    found: dict[Setting, FloatArray] = {}
    for one in dict.fromkeys(s._pass for s in settings):
        scaling, position, order = one
        wanted = [s for s in settings if s._pass == one]
        top = max(s.factor for s in wanted)
        halvings = {s: round(float(np.log2(top / s.factor))) for s in wanted}
        series = scaled(collection, scaling)
        sides = [windowed("X", with_position(series) if position else series, order)]
        job, sides, _ = make_job("conditional_cs", "pair-median", top, {}, sides, n_factors=1 + max(halvings.values()))
        D, _ = distance_matrix(job, sides[0], None, n_jobs=n_jobs, output=IN_MEMORY)
        D = D if job.n_factors > 1 else D[None]
        found |= {s: check_distances("X", D[halving]) for s, halving in halvings.items()}
    return [found[s] for s in settings]


def _trials(known: dict[Setting, FloatArray], k: int, seed: int) -> list[Trial]:
    """Try every setting for k clusters; best first."""
    from sklearn.metrics import adjusted_mutual_info_score

    tried = []
    for setting, D in known.items():
        a, b = _both(D, k, seed)
        agreement = float(adjusted_mutual_info_score(a, b))
        tried.append(Trial(setting, agreement, min(_balance(a, k), _balance(b, k)), len(D)))
    return sorted(tried, key=lambda trial: -round(trial.mark, 9))


def _both(D: FloatArray, k: int, seed: int) -> tuple[LabelArray, LabelArray]:
    return (
        labels_by_affinity(local_affinity(D), k, check_rng(seed), starts=4),
        labels_by_medoids(D, k, check_rng(seed)),
    )


def _balance(labels: LabelArray, k: int) -> float:
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum() / np.log(k))


def _result(
    matrices: Sequence[FloatArray],
    votes: Sequence[Setting],
    tried: Sequence[Trial],
    k: int,
    method: Method,
    seed: int,
    k_marks: dict[int, float],
) -> SeriesClusters:
    """Cluster the fused graphs or the votes, or the distances if there is only one setting."""
    from sklearn.metrics import adjusted_mutual_info_score

    D = matrices[0]
    ballots = [labels for matrix in matrices for labels in _both(matrix, k, seed)]
    together = np.mean([ballot[:, None] == ballot for ballot in ballots], axis=0)
    vote = len(votes) > 1
    if method == "spectral":
        A = fused([local_affinity(matrix) for matrix in matrices]) if vote else local_affinity(D)
        labels = labels_by_affinity(A, k, check_rng(seed))
    else:
        labels = labels_by_medoids(1.0 - together if vote else D, k, check_rng(seed))
    firmness = float(np.mean([adjusted_mutual_info_score(labels, ballot) for ballot in ballots]))
    return SeriesClusters(
        labels,
        medoids_of(D, labels),
        D,
        votes[0],
        tuple(votes),
        tuple(tried),
        together,
        firmness,
        silhouette(D, labels),
        k_marks,
    )
