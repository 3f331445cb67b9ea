"""Clusters of time series by their dynamics, with the settings of the distance chosen without labels.

No single setting serves all series: smooth ones want long windows and narrow kernels, short noisy ones the reverse, and
whether level and spread count is for the data to say. Dynamics, p(next value | window), do not know when something
happens; series that start together and differ in shape are told apart by p(next value | window, position in time). So a
grid of windows, bandwidth factors and scalings, with and without the position, is tried. Where two algorithms that look
for different things, spectral clustering and k-medoids, find the same clusters, the distance has structure in it. The
graphs of neighbours under the best settings are then fused into one, or k-medoids clusters their votes on which series
belong together.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, IntArray, LabelArray
from condcs._core.checks import check_choice, check_integer, check_positive, check_rng
from condcs._core.errors import BandwidthWarning, DataError, ShapeError, public
from condcs._core.printable import Printable
from condcs._core.settings import one_blas_thread
from condcs._core.vocabulary import named, setting
from condcs.timeseries._clustering import (
    ROUNDING_SHARE,
    ClusteringMethod,
    check_distances,
    cluster_entropy,
    common_members,
    fused,
    labels_by_affinity,
    labels_by_medoids,
    local_affinity,
    median_pair_distance,
    medoids_of,
    silhouette,
)
from condcs.timeseries._collection import (
    MIN_WINDOWS,
    AxisOrder,
    Collection,
    MissingFrames,
    check_collection,
    whole_windows,
    windowed,
)
from condcs.timeseries._distance_matrix import IN_MEMORY, distance_matrix, make_job

Scaling = Literal["global", "series", "raw"]
"""Each channel standardised over all series, or within each series, or the values as they are."""

Auto = Literal["auto"]

TRIED_WINDOWS = ((1, True), (2, False), (10, False), (5, False), (1, False))
"""Windows that can be tried, up to a third of the shortest series, and whether with the position in time as one more
channel; the most useful ones first, because `MOST_PASSES` cuts the list."""

MOST_PASSES = 5
"""Passes over the pairs of series: windows times scalings. With two scalings, windows of 5 and 1 are not reached. Each
pass takes 1.3 to 1.5 times as long as a matrix of distances, so this is what `cluster` costs."""

TRIED_FACTORS = (1.6, 0.8, 0.4, 0.2, 0.1)
"""Bandwidth factors that are tried; each is half of the one before, so that one pass over the pairs serves them all.
The engine halves four times at most."""

TRIED_SCALINGS: tuple[Scaling, ...] = ("global", "series")
"""Scalings that are tried. For one channel, "raw" gives the same distances as "global"."""

MOST_DRAWN = 200
"""Series on which settings are tried, if there are more. The time to try them grows with the square of this number; few
series make marks uncertain."""

VOTES = 5
"""Settings that vote, each by two algorithms, and whose neighbourhoods are fused. More bring in settings with lower
marks; one alone would rest the result on the single best mark, which is itself uncertain."""

MOST_CLUSTERS = 10
"""Largest number of clusters that is tried if the number is to be chosen. Each number costs two clusterings of every
setting."""

RIVAL_MARK = 0.8
"""Share of the best mark from which the partition of a setting is nearly as good as the result. With a smaller
one, more partitions are shown, and such as agree less. Stated in the docs."""

RIVAL_AGREEMENT = 0.5
"""Adjusted mutual information with the result below which a partition is another one, and not a variant of it: halfway
between chance, 0, and equality, 1. Stated in the docs."""

# Series that all have a mean of 0 and a spread of 1 in each channel, but for as much, are alike under both scalings: a
# pass for the second would repeat the first.
_EQUAL_SCALINGS = 0.05

# Starts of k-means in a trial, fewer than the ten of `cluster_distances`: there are dozens of trials, and a mark needs
# no more than nearly the best clustering.
_TRIAL_STARTS = 4

# Decimals to which mean marks are rounded before the best number of clusters is chosen: rounding errors, which differ
# between machines, must not decide between equal ones.
_MARK_DIGITS = 12
# The same for the marks of single settings, by which they are sorted.
_TRIAL_DIGITS = 9


@dataclass(frozen=True)
class Setting(Printable):
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
class Trial(Printable):
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
class RivalClusters(ByValue):
    """Another partition of the same series that is nearly as good: only knowledge of the series can decide.

    Attributes
    ----------
    labels : array of int, shape (n,)
        Cluster of each series, numbered by its first member.
    setting : Setting
        The setting under whose distances these are the clusters.
    mark : float
        The mark of that setting, at least 0.8 of the best one.
    agreement : float
        Adjusted mutual information with the labels of the result, below 0.5.
    """

    labels: LabelArray
    setting: Setting
    mark: float
    agreement: float


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
        Of several votes, the mean of their distances, each in units of its median; of one, its distances.
    setting : Setting
        The setting with the best mark, or the given one.
    votes : tuple of Setting
        The settings that the result is made of, best first; one if it was given.
    tried : tuple of Trial
        All settings that were tried, best first; empty if the setting was given. Their marks are for the number of
        clusters of the result, or for half the number of the series that were drawn if that is less.
    together : array, shape (n, n)
        Share of the votes that put two series into one cluster.
    agreement : float
        Mean adjusted mutual information between the result and the clusters by both algorithms under each vote: 1 if
        all are the same, near 0 if they have nothing in common. It says how much the result depends on the setting
        and the algorithm, not whether the clusters are the classes that are wanted.
    silhouette : float
        Mean silhouette under `distances`.
    k_marks : dict
        Mean mark of the best settings for each number of clusters; empty if the number was given.
    rival : RivalClusters or None
        Another partition that is nearly as good; None if there is none, or if the setting was given.
    """

    labels: LabelArray
    medoids: IntArray
    distances: FloatArray = field(repr=False)
    setting: Setting
    votes: tuple[Setting, ...] = field(repr=False)
    tried: tuple[Trial, ...] = field(repr=False)
    together: FloatArray = field(repr=False)
    agreement: float
    silhouette: float
    k_marks: dict[int, float]
    rival: RivalClusters | None = field(default=None, repr=False)

    def __str__(self) -> str:
        n_tried, best = len(self.tried), self.setting
        chosen = f"{len(self.votes)} of {n_tried} settings voted; the best: " if n_tried else ""
        rival = ""
        if self.rival is not None:
            rival = (
                f"\nnearly as good (mark {self.rival.mark:.2f}, best {self.tried[0].mark:.2f}): another partition, "
                f"{', '.join(map(str, np.bincount(self.rival.labels)))}, agreement {self.rival.agreement:.2f} with this"
            )
        return (
            f"{len(self.labels)} series in {len(self.medoids)} clusters of "
            f"{', '.join(map(str, np.bincount(self.labels)))}\n"
            f"agreement of settings and algorithms {self.agreement:.2f}, silhouette {self.silhouette:.2f}\n"
            f"{chosen}windows of {best.order}, bandwidth factor {best.factor:g}, scaling {best.scaling}"
            f"{', position in time' if best.position else ''}{rival}"
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
    method: ClusteringMethod = "spectral",
    order: int | Auto = "auto",
    factor: float | Auto = "auto",
    scaling: Scaling | Auto = "auto",
    layout: AxisOrder = "nct",
    missing: MissingFrames = "drop",
    n_jobs: int | None = None,
    rng: int | np.random.Generator | None = 0,
) -> SeriesClusters:
    """Cluster time series by their dynamics; what is not given is chosen without labels.

    Up to five combinations of a window and a scaling (see Notes) are tried, each with bandwidth factors from 0.1 to
    1.6. A setting's mark is the adjusted mutual information of spectral clustering and k-medoids under its distances,
    times the balance of their cluster sizes. The five best settings decide: spectral clustering works on their graphs
    of neighbours, fused into one (similarity network fusion), and k-medoids on the share of their ten clusterings, by
    both algorithms, in which two series are together. If `order`, `factor` and `scaling` are all given, the distances
    are clustered as they are.

    Marks and `agreement` measure how far settings and algorithms find the same clusters. They are not evidence that
    these clusters are the classes that are wanted: a tight subgroup makes them agree just as well.

    Parameters
    ----------
    X : array, shape (n_series, n_channels, n_timepoints) or (n_series, n_timepoints), or list of arrays
        The series; lengths may differ within a list. With ``layout="ntc"``, (n_series, n_timepoints, n_channels).
    k : int or "auto"
        Number of clusters. "auto": from 2 to 10, the number at which the best settings have the highest marks. It is a
        suggestion: of 26 sets with known classes it was their number on 12, where 2 would have been on 4.
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
        Labels, what was tried and chosen, how far settings and algorithms agree, and another partition (`rival`) if
        one has at least 0.8 of the best mark and an adjusted mutual information below 0.5 with the result.

    Notes
    -----
    The position in time runs from the start of a series to its end, with as much variance as the other channels
    together. With it, the distance is one of shapes, p(next value | window, position): what happens when. It is not
    tried if `order`, `factor` and `scaling` are all given.

    A pass over the pairs of series serves all factors, and takes 1.3 to 1.5 times as long as a matrix of distances. At
    most five are made: with both scalings, the position and windows of 2 values in each, and windows of 10 values in
    one ("global"); with one scaling, because it was given or the two are nearly the same, the position and windows of
    2, 10, 5 and 1 values. Windows of more than a third of the shortest series are left out, and the next ones take
    their place. Marks are found on up to 200 series. Of more than 400, distances are measured between 200 that are
    drawn, and between all for the five best settings (and for the rival, if it is not one of them).

    B. Wang et al.: Similarity network fusion for aggregating data types on a genomic scale. Nature Methods 11 (2014).

    Examples
    --------
    >>> t = np.arange(80)
    >>> rng = np.random.default_rng(0)
    >>> X = [np.sin(speed * t + phase) + 0.1 * rng.normal(size=80) for speed in (0.3, 0.7) for phase in range(6)]
    >>> clusters = cluster(np.stack(X), 2)
    >>> clusters.labels.tolist()
    [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    >>> print(str(clusters).splitlines()[0])
    12 series in 2 clusters of 6, 6
    """
    collection = check_collection("X", X, layout, missing)
    n = collection.count
    if n < 3:
        raise ShapeError(f"{named('X')} must hold at least 3 series, got {n}. Pass more of them.")
    check_choice("method", method, get_args(ClusteringMethod))
    if not (isinstance(k, str) and k == "auto"):
        k = check_integer("k", k, 2, n, " (the number of series), or 'auto'")
    elif n < 6:
        raise ShapeError(
            f"{named('X')} must hold at least 6 series for {named('k')} to be chosen, got {n}. Pass {setting('k', 2)}."
        )
    generator = check_rng(rng)
    seed = int(generator.integers(2**31))
    grid = _grid(collection, order, factor, scaling)
    with warnings.catch_warnings():
        # Of many settings some meet series at rest; their bandwidths fall back on a percentile.
        warnings.simplefilter("ignore", BandwidthWarning)
        if len(grid) == 1 and k != "auto":
            distances = _distances_that_differ(grid, _matrices(collection, grid, n_jobs))
            return clusters_of([*distances.values()], grid, int(k), method, seed)

        # 1. The marks of all settings, on some of the series if there are many, and the settings that vote.
        drawn = np.sort(generator.permutation(n)[:MOST_DRAWN])
        trials = _try_settings(collection, grid, drawn, k, seed, n_jobs)
        n_clusters, k_marks = (trials.best_k, trials.k_marks) if k == "auto" else (int(k), {})
        votes = [trial.setting for trial in trials.tried[:VOTES]]

        # 2. The clusters of all series by these votes.
        if trials.measured_all:
            matrices = [trials.distances[vote] for vote in votes]
        else:
            matrices = _matrices(collection, votes, n_jobs)
        clusters = clusters_of(matrices, votes, n_clusters, method, seed, tried=trials.tried, k_marks=k_marks)

        # 3. Another partition that is nearly as good, if there is one.
        labels = clusters.labels if trials.measured_all else clusters.labels[drawn]
        rival = _rival_on(trials.distances, trials.tried, labels, method, n_clusters, seed)
        if rival is not None and not trials.measured_all:
            # What was another partition of the drawn series need not be one of all.
            candidate = rival.setting
            matrices_by_setting = dict(zip(votes, matrices, strict=True))
            if candidate not in matrices_by_setting:
                matrices_by_setting[candidate] = _matrices(collection, [candidate], n_jobs)[0]
            of_candidate = {candidate: matrices_by_setting[candidate]}
            rival = _rival_on(of_candidate, trials.tried, clusters.labels, method, n_clusters, seed)
    return replace(clusters, rival=rival)


class _Trials(NamedTuple):
    """The settings as they were tried, and the distances under them."""

    distances: dict[Setting, FloatArray]
    """Between all series if `measured_all`, else between the drawn ones."""
    measured_all: bool
    tried: tuple[Trial, ...]
    """Best first, for `best_k` clusters."""
    k_marks: dict[int, float]
    """Mean mark of the best settings for each number of clusters that was tried."""
    best_k: int
    """The number with the highest of these."""


def _try_settings(
    collection: Collection, grid: Sequence[Setting], drawn: IntArray, k: int | Auto, seed: int, n_jobs: int | None
) -> _Trials:
    """Try all settings on the drawn series, for each possible number of clusters or the given one."""
    # Of more series, the distances of the drawn ones and then those of the votes take less time than all.
    measured_all = collection.count <= 2 * MOST_DRAWN
    measured_series = collection if measured_all else collection.chosen(drawn)
    distances = _distances_that_differ(grid, _matrices(measured_series, grid, n_jobs))
    drawn_distances = distances
    if measured_all:
        drawn_distances = {candidate: D[np.ix_(drawn, drawn)] for candidate, D in distances.items()}
    trials = {number: _trials(drawn_distances, number, seed) for number in _tried_numbers(k, len(drawn))}
    k_marks = {}
    for number, tried in trials.items():
        k_marks[number] = float(np.mean([trial.mark for trial in tried[:VOTES]]))
    # The larger of equally good numbers: fewer clusters agree more easily.
    best_k = max(k_marks, key=lambda number: (round(k_marks[number], _MARK_DIGITS), number))
    return _Trials(distances, measured_all, tuple(trials[best_k]), k_marks, best_k)


def _distances_that_differ(settings: Sequence[Setting], matrices: Sequence[FloatArray]) -> dict[Setting, FloatArray]:
    """Return the matrices by setting, without settings under which all series are equal.

    Series at rest, at several levels, differ in one scaling only.
    """
    distances = {candidate: D for candidate, D in zip(settings, matrices, strict=True) if D.max() > 0}
    if not distances:
        raise DataError(
            f"{named('X')} must hold series that differ, got series that all behave the same. Check the values."
        )
    return distances


def _tried_numbers(k: int | Auto, n: int) -> Sequence[int]:
    """Return the numbers of clusters that are tried on n series."""
    if k != "auto":
        # Fewer if the series that were drawn are few: clusters of one say nothing.
        return [max(2, min(int(k), n // 2))]
    # Three series to a cluster at least, on average.
    most = max(2, min(MOST_CLUSTERS, n // 3))
    return range(2, most + 1)


def _grid(collection: Collection, order: Any, factor: Any, scaling: Any) -> list[Setting]:
    """Return the settings to try: an argument that is not "auto" has its one value in all of them."""
    shortest = int(collection.lengths.min())
    if isinstance(order, str):
        check_choice("order", order, get_args(Auto))
        windows = [(w, position) for w, position in TRIED_WINDOWS if 3 * w <= shortest and _fits(collection, w)]
        windows = windows or [(1, False)]
    else:
        order = check_integer("order", order, 1)
        windows = [(order, False), (order, True)]
    if isinstance(factor, str):
        check_choice("factor", factor, get_args(Auto))
        factors: Sequence[float] = TRIED_FACTORS
    else:
        factors = [check_positive("factor", factor)]
    check_choice("scaling", scaling, (*get_args(Scaling), "auto"))
    scalings: Sequence[Scaling] = [scaling]
    if scaling == "auto":
        scalings = TRIED_SCALINGS[:1] if _has_equal_scalings(collection) else TRIED_SCALINGS
    if not isinstance(order, str) and len(factors) * len(scalings) == 1:
        # All three are given: one setting, without the position.
        windows = windows[:1]
    # The most useful windows first, each with all scalings, as far as the passes go.
    passes = [(position, each_scaling, window) for window, position in windows for each_scaling in scalings]
    settings = []
    for position, each_scaling, window in sorted(passes[:MOST_PASSES]):
        settings += [Setting(window, each_factor, each_scaling, position) for each_factor in factors]
    return settings


def _fits(collection: Collection, order: int) -> bool:
    """Whether every series with gaps has enough whole windows of this length."""
    if not collection.has_gaps:
        return True
    return all(len(whole_windows(collection.series(i), order)) > MIN_WINDOWS for i in range(collection.count))


def _has_equal_scalings(collection: Collection) -> bool:
    """Whether every series has nearly the same mean and spread in each channel, so that both scalings are one."""
    frames = with_scaling(collection, "global")
    for i in range(frames.count):
        values = frames.series(i)
        means, spreads = np.nanmean(values, axis=0), np.nanstd(values, axis=0)  # (channels,)
        if np.abs(means).max() > _EQUAL_SCALINGS or np.abs(spreads - 1).max() > _EQUAL_SCALINGS:
            return False
    return True


def with_scaling(collection: Collection, scaling: Scaling) -> Collection:
    """Return the series as they are, or each channel standardised over all series or within each of them."""
    if scaling == "raw":
        return collection
    # What is standardised by itself: each series, or all of them as one piece.
    offsets = collection.frame_offsets if scaling == "series" else collection.frame_offsets[[0, -1]]
    lengths, observed = np.diff(offsets), ~np.isnan(collection.frames)
    counts = np.add.reduceat(observed, offsets[:-1], axis=0, dtype=float)  # (pieces, channels)

    def means(values: FloatArray) -> FloatArray:
        """Return the mean of each channel over each piece, repeated for every time of the piece."""
        totals = np.add.reduceat(values, offsets[:-1], axis=0, dtype=float)  # (pieces, channels)
        # A channel without any value stays without.
        return np.asarray(np.repeat(totals / np.maximum(counts, 1.0), lengths, axis=0))

    values = np.where(observed, collection.frames, 0.0)  # (total time, channels)
    centre = means(values)
    spread = np.sqrt(means(np.where(observed, values - centre, 0.0) ** 2))
    # A constant channel has a spread of rounding errors.
    constant = ~(spread > ROUNDING_SHARE * np.abs(centre))
    return Collection((collection.frames - centre) / np.where(constant, 1.0, spread), collection.frame_offsets)


def with_position(collection: Collection) -> Collection:
    """Return the series with their position in time as one more channel, with the variance of the others together."""
    # Evenly spread over [-reach, reach], it has a variance of reach^2 / 3.
    reach = np.sqrt(3.0 * np.nanvar(collection.frames, axis=0).sum())
    times = [np.linspace(-reach, reach, length) for length in collection.lengths]
    return Collection(np.column_stack([collection.frames, np.concatenate(times)]), collection.frame_offsets)


def _matrices(collection: Collection, settings: Sequence[Setting], n_jobs: int | None) -> list[FloatArray]:
    """Return the distances under each setting; those that differ in the factor alone share a pass over the pairs."""
    distances: dict[Setting, FloatArray] = {}
    for one_pass in dict.fromkeys(each._pass for each in settings):
        scaling, position, order = one_pass
        settings_of_pass = [each for each in settings if each._pass == one_pass]
        largest = max(each.factor for each in settings_of_pass)
        # How often the largest factor is halved to give that of the setting.
        halvings = {each: round(float(np.log2(largest / each.factor))) for each in settings_of_pass}
        n_factors = 1 + max(halvings.values())
        series = with_scaling(collection, scaling)
        if position:
            series = with_position(series)
        sides = [windowed("X", series, order)]
        job, sides, _ = make_job("conditional_cs", "pair-median", largest, {}, sides, n_factors=n_factors)
        D, _ = distance_matrix(job, sides[0], None, n_jobs=n_jobs, output=IN_MEMORY)
        by_halving = D if job.n_factors > 1 else D[None]  # (n_factors, n, n)
        for each, halving in halvings.items():
            distances[each] = check_distances("X", by_halving[halving])
    return [distances[each] for each in settings]


def _trials(distances: dict[Setting, FloatArray], k: int, seed: int) -> list[Trial]:
    """Try every setting for k clusters; best first."""
    tried = []
    # For a few hundred series, more threads take twice the processor time.
    with one_blas_thread():
        for candidate, D in distances.items():
            spectral, k_medoids = _both_partitions(D, k, seed)
            agreement = _adjusted_mutual_information(spectral, k_medoids)
            balance = min(_balance(spectral, k), _balance(k_medoids, k))
            tried.append(Trial(candidate, agreement, balance, n_series=len(D)))
    return sorted(tried, key=lambda trial: -round(trial.mark, _TRIAL_DIGITS))


def _both_partitions(D: FloatArray, k: int, seed: int) -> tuple[LabelArray, LabelArray]:
    """Return the k clusters under these distances by each of the two algorithms."""
    return _partition(D, k, "spectral", seed), _partition(D, k, "k_medoids", seed)


def _partition(D: FloatArray, k: int, method: ClusteringMethod, seed: int) -> LabelArray:
    if method == "spectral":
        return labels_by_affinity(local_affinity(D), k, check_rng(seed), starts=_TRIAL_STARTS)
    return labels_by_medoids(D, k, check_rng(seed))


def _adjusted_mutual_information(a: LabelArray, b: LabelArray) -> float:
    """Return the adjusted mutual information (Vinh, Epps and Bailey, 2010).

    Needed for every mark, without labels of the user: scikit-learn's takes 17 times as long, and 0.8 s to load.
    """
    counts = common_members(a, b)  # (k_a, k_b)
    sizes_a, sizes_b = counts.sum(axis=1), counts.sum(axis=0)
    entropy_a, entropy_b, joint_entropy = cluster_entropy(sizes_a), cluster_entropy(sizes_b), cluster_entropy(counts)
    # The information I(A; B) = H(A) + H(B) - H(A, B) above its mean over shuffled labels, and the most it can be.
    chance_information = entropy_a + entropy_b - _expected_entropy(sizes_a, sizes_b)
    above_chance = entropy_a + entropy_b - joint_entropy - chance_information
    most = (entropy_a + entropy_b) / 2 - chance_information
    return float(above_chance / most) if most > ROUNDING_SHARE else 1.0


def _expected_entropy(a: IntArray, b: IntArray) -> float:
    """Return the mean joint entropy of two labellings with clusters of these sizes, if one is shuffled.

    The number of objects that two clusters have in common is hypergeometric.
    """
    from scipy.special import entr, gammaln

    n = int(a.sum())
    log_factorial = gammaln(np.arange(1.0, n + 2))  # of 0 to n
    common = np.arange(1, min(a.max(), b.max()) + 1)  # (c,): none in common adds nothing to the entropy
    a, b = a[:, None, None], b[:, None]  # (k_a, 1, 1) and (k_b, 1)
    neither = n - a - b + common  # (k_a, k_b, c)
    possible = (common <= np.minimum(a, b)) & (neither >= 0)
    # P(c in common) = a! (n - a)! b! (n - b)! / (n! c! (a - c)! (b - c)! (n - a - b + c)!)
    numerators = (a, n - a, b, n - b)
    denominators = [np.where(possible, part, 0) for part in (common, a - common, b - common, neither)]
    log_chance = sum(log_factorial[part] for part in numerators)
    log_chance = log_chance - log_factorial[n] - sum(log_factorial[part] for part in denominators)
    chance = np.exp(np.where(possible, log_chance, -np.inf))
    return float(np.sum(chance * entr(common / n)))


def _balance(labels: LabelArray, k: int) -> float:
    """Return the entropy of the cluster sizes over that of k equal ones."""
    return float(cluster_entropy(np.bincount(labels)) / np.log(k))


def clusters_of(
    matrices: Sequence[FloatArray],
    votes: Sequence[Setting],
    k: int,
    method: ClusteringMethod,
    seed: int,
    *,
    tried: tuple[Trial, ...] = (),
    k_marks: dict[int, float] | None = None,
) -> SeriesClusters:
    """Cluster the fused graphs or the votes, or the distances if there is only one setting."""
    ballots = [labels for matrix in matrices for labels in _both_partitions(matrix, k, seed)]  # two of each setting
    together = np.mean([ballot[:, None] == ballot for ballot in ballots], axis=0)  # (n, n)
    several = len(votes) > 1
    D = matrices[0]
    if several:
        # Of all settings that the labels come from, and not of the best one alone. Their units differ with the window.
        D = np.mean([matrix / median_pair_distance(matrix) for matrix in matrices], axis=0)
    if method == "spectral":
        affinity = fused([local_affinity(matrix) for matrix in matrices]) if several else local_affinity(D)
        labels = labels_by_affinity(affinity, k, check_rng(seed))
    else:
        dissimilarity = 1.0 - together if several else D
        labels = labels_by_medoids(dissimilarity, k, check_rng(seed))
    return SeriesClusters(
        labels=labels,
        medoids=medoids_of(D, labels),
        distances=D,
        setting=votes[0],
        votes=tuple(votes),
        tried=tried,
        together=together,
        agreement=float(np.mean([_adjusted_mutual_information(labels, ballot) for ballot in ballots])),
        silhouette=silhouette(D, labels),
        k_marks=k_marks or {},
    )


def _rival_on(
    matrices: Mapping[Setting, FloatArray],
    tried: Sequence[Trial],
    labels: LabelArray,
    method: ClusteringMethod,
    k: int,
    seed: int,
) -> RivalClusters | None:
    """Return the partition with the best mark that differs from `labels`, if that mark is nearly the best."""
    with one_blas_thread():
        for trial in tried:
            # Marks of 0 are those of settings under which nothing was found.
            if trial.mark < RIVAL_MARK * tried[0].mark or trial.mark <= 0:
                break
            if trial.setting not in matrices:
                continue
            partition = _partition(matrices[trial.setting], k, method, seed)
            agreement = _adjusted_mutual_information(labels, partition)
            if agreement < RIVAL_AGREEMENT:
                return RivalClusters(partition, trial.setting, trial.mark, agreement)
    return None
