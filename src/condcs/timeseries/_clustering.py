"""Clusters from a matrix of distances: spectral clustering and k-medoids, and how good they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, IntArray, LabelArray, RealArray
from condcs._core.checks import check_choice, check_integer, check_positive, check_rng
from condcs._core.errors import DataError, ParameterError, ShapeError, public
from condcs._core.vocabulary import named, setting

ClusteringMethod = Literal["spectral", "k_medoids"]
Criterion = Literal["silhouette", "eigengap"]

SCALES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Candidates for the scale b, in units of the median distance."""

NEIGHBOUR = 7
"""Whose distance is an object's scale, as Zelnik-Manor and Perona have it; a nearer one if there are few objects."""

FUSED_NEIGHBOURS = 10
"""Neighbours over which fused graphs are averaged; fewer if there are few objects."""

_FUSED_ROUNDS = 5
_CLOSE = 1e-12
_MOST_ROUNDS = 300

DENSE_SIZE = 1_200
"""Up to this many series all eigenvectors are computed; for more, only those that are needed."""


@dataclass(frozen=True, eq=False)
class Clusters(ByValue):
    """A clustering and how it was found.

    Attributes
    ----------
    labels : array of int, shape (n,)
        Cluster of each series, 0 to k - 1.
    medoids : array of int, shape (k,)
        The most central series of each cluster: the one with the smallest sum of distances to the others in it.
    scale : float or None
        The b of ``exp(-D / b)``; None for k-medoids, and if each pair has a scale of its own.
    silhouette : float
        Mean silhouette under the distances; between -1 and 1, large when clusters are tight and far apart.
    """

    labels: LabelArray
    medoids: IntArray
    scale: float | None
    silhouette: float


@public
def cluster_distances(
    D: Any,
    n_clusters: int,
    *,
    method: ClusteringMethod = "spectral",
    scale: float | Literal["local", "median"] | Criterion = "local",
    rng: int | np.random.Generator | None = 0,
) -> Clusters:
    """Cluster n objects by their distances.

    Spectral clustering (Ng, Jordan and Weiss) works on the adjacency ``A = exp(-D / b)``; k-medoids is FasterPAM, the
    best of ten starts.

    Parameters
    ----------
    D : array, shape (n, n)
        Distances or divergences; slightly negative values are allowed, and the two triangles are averaged.
    n_clusters : int
        Number of clusters k.
    method : {"spectral", "k_medoids"}
        The algorithm.
    scale : float, "local", "median", "silhouette" or "eigengap"
        The b of the adjacency. "local": for each pair the geometric mean of the two objects' distances to their seventh
        neighbours (Zelnik-Manor and Perona), so that dense and sparse clusters are treated alike. "median" is the
        median distance; "silhouette" and "eigengap" choose among multiples of it, without labels: see `choose_scale`.
        Not used by k-medoids.
    rng : int or Generator
        Random generator for the starts, or its seed.

    Returns
    -------
    Clusters
        Labels, medoids, the scale used, and the mean silhouette.

    Examples
    --------
    >>> points = np.array([0.0, 0.1, 0.2, 5.0, 5.1])
    >>> found = cluster_distances(abs(points[:, None] - points), 2)
    >>> found.labels.tolist()
    [0, 0, 0, 1, 1]
    """
    D = check_distances("D", D)
    k = check_integer("n_clusters", n_clusters, 2, len(D), " (the number of series)")
    check_choice("method", method, get_args(ClusteringMethod))
    generator = check_rng(rng)
    b: float | None = None
    if method == "k_medoids":
        labels = labels_by_medoids(D, k, generator)
    elif scale == "local":
        labels = labels_by_affinity(local_affinity(D), k, generator)
    else:
        b = choose_scale(D, k, criterion=scale) if scale in ("silhouette", "eigengap") else _scale(D, scale)
        labels = labels_by_affinity(_affinity(D, b), k, generator)
    return Clusters(labels, medoids_of(D, labels), b, silhouette(D, labels))


@public
def choose_scale(
    D: Any, n_clusters: int, *, criterion: Criterion = "eigengap", scales: Sequence[float] = SCALES
) -> float:
    """Choose the b of ``exp(-D / b)`` without labels.

    "silhouette" maximises the mean silhouette of the clusters under D. "eigengap" maximises the difference between the
    k-th and the (k+1)-th eigenvalue of the normalised adjacency.

    Parameters
    ----------
    D : array, shape (n, n)
        Distances.
    n_clusters : int
        Number of clusters.
    criterion : {"silhouette", "eigengap"}
        The rule.
    scales : sequence of float
        Candidates, in units of the median distance.

    Returns
    -------
    float
        The scale, in the units of D; among equally good ones the largest.
    """
    D = check_distances("D", D)
    k = check_integer("n_clusters", n_clusters, 2, len(D) - 1, " (one less than the number of series)")
    check_choice("criterion", criterion, get_args(Criterion))
    if len(scales) == 0:
        raise ParameterError(
            f"{named('scales')} must hold at least one candidate, got none. Pass e.g. {setting('scales', (0.1, 1.0))}."
        )
    unit = _scale(D, "median")
    candidates = sorted((check_positive("scales", s) * unit for s in scales), reverse=True)
    if criterion == "silhouette":
        marks = [silhouette(D, labels_by_affinity(_affinity(D, b), k, check_rng(0))) for b in candidates]
    else:
        marks = [_eigengap(D, k, b) for b in candidates]
    return float(candidates[int(np.argmax(np.round(marks, 12)))])


@public
def normalized_mutual_information(truth: Any, labels: Any) -> float:
    r"""Mutual information of two labellings, divided by the larger of their entropies (Xu, Liu and Gong).

    .. math:: \mathrm{NMI} = \frac{I(U; V)}{\max(H(U), H(V))}

    This is the paper's definition. scikit-learn divides by the mean of the entropies by default, which gives slightly
    larger numbers.

    Parameters
    ----------
    truth, labels : array, shape (n,)
        Labels of any kind.

    Returns
    -------
    float
        Between 0 (independent) and 1 (equal up to the names of the labels).
    """
    # The number of `sklearn.metrics.normalized_mutual_info_score(average_method="max")` in a thirtieth of the time.
    # Loading scikit-learn's metrics takes 0.8 s, a third of what `condcs cluster` takes for a dozen series.
    counts = common_members(*_check_labels(truth, labels))
    of_truth, of_labels = entropy(counts.sum(axis=1)), entropy(counts.sum(axis=0))
    most, information = max(of_truth, of_labels), of_truth + of_labels - entropy(counts)
    # Two labellings of one cluster each are equal; below, rounding errors of labellings that are independent.
    return float(information / most if information > 1e-12 else most == 0)


@public
def adjusted_rand_index(truth: Any, labels: Any) -> float:
    """Share of pairs on which two labellings agree, adjusted for chance.

    Parameters
    ----------
    truth, labels : array, shape (n,)
        Labels of any kind.

    Returns
    -------
    float
        1 for equal labellings, 0 on average for random ones.
    """
    counts = common_members(*_check_labels(truth, labels))
    together, of_truth, of_labels, everything = (
        float(np.sum(part * (part - 1)))
        for part in (counts, counts.sum(axis=1), counts.sum(axis=0), counts.sum(keepdims=True))
    )
    if of_truth == of_labels == together:
        return 1.0
    by_chance = of_truth * of_labels / everything
    return (together - by_chance) / ((of_truth + of_labels) / 2 - by_chance)


def common_members(a: IntArray, b: IntArray) -> IntArray:
    """Return how many objects each cluster of one labelling, numbered from 0, has in common with each of another."""
    rows, columns = a.max() + 1, b.max() + 1
    return np.bincount(a * columns + b, minlength=rows * columns).reshape(rows, columns)


def entropy(counts: IntArray) -> float:
    """Return the entropy of objects that are counted by cluster; the same in whatever order."""
    from scipy.special import entr

    return math.fsum(entr(counts / counts.sum()).ravel())


@public
def silhouette(D: Any, labels: Any) -> float:
    """Mean silhouette of a clustering under a matrix of distances; 0 if all are in one cluster.

    Parameters
    ----------
    D : array, shape (n, n)
        Distances; negative ones count as 0.
    labels : array, shape (n,)
        Clusters.

    Returns
    -------
    float
        Between -1 and 1.
    """
    D = np.maximum(check_distances("D", D), 0.0)
    np.fill_diagonal(D, 0.0)
    names, own, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if not 1 < len(names) < len(D):
        return 0.0
    members = own[:, None] == np.arange(len(names))
    totals = D @ members.astype(float)
    inside = totals[members] / np.maximum(sizes[own] - 1, 1)
    outside = np.where(members, np.inf, totals / sizes).min(axis=1)
    widest = np.maximum(inside, outside)
    # An object that is alone in its cluster, or at the place of all others, counts as 0.
    counted = (sizes[own] > 1) & (widest > 0)
    return float(np.mean(np.where(counted, (outside - inside) / np.where(counted, widest, 1.0), 0.0)))


def medoids_of(D: FloatArray, labels: LabelArray) -> IntArray:
    """Return the most central member of each cluster."""
    members = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return np.array([m[np.argmin(D[np.ix_(m, m)].sum(axis=0))] for m in members])


def check_distances(name: str, D: Any) -> FloatArray:
    """Check a matrix of distances and return it as floats, the two triangles averaged."""
    try:
        D = np.array(D, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{named(name)} must be a matrix of numbers, but: {error}. Pass a square array.") from error
    if D.ndim != 2 or D.shape[0] != D.shape[1] or len(D) < 3:
        raise ShapeError(
            f"{named(name)} must be a square matrix of distances between at least 3 series, got shape {D.shape}. "
            "Pass e.g. the result of ccs_pairwise_distance."
        )
    if not np.isfinite(D).all():
        raise DataError(
            f"{named(name)} must be finite, got {int((~np.isfinite(D)).sum())} NaN or infinite value(s). "
            "Drop the series they belong to."
        )
    return np.asarray((D + D.T) / 2)


def _scale(D: FloatArray, scale: float | str) -> float:
    if scale != "median":
        if isinstance(scale, str):
            raise ParameterError(
                f"{named('scale')} must be a positive number, 'local', 'median', 'silhouette' or 'eigengap', got "
                f"{scale!r}. Pass {setting('scale', 'local')}."
            )
        return check_positive("scale", scale)
    return median_distance(D)


def median_distance(D: RealArray) -> float:
    """Return the median of the distances between different series; the smallest positive one if that is not above 0."""
    apart = D[np.triu_indices(len(D), 1)]
    middle = float(np.median(apart))
    if middle <= 0:
        above = apart[apart > 0]
        if not len(above):
            raise DataError(f"{named('D')} must hold some positive distances, got none: all series look the same.")
        middle = float(above.min())
    return middle


def _affinity(D: FloatArray, b: float) -> FloatArray:
    return np.asarray(np.exp(-np.maximum(D, 0.0) / b))


def local_affinity(D: FloatArray) -> FloatArray:
    """Return exp(-D_ij / b_ij) with b_ij the geometric mean of the two distances to the seventh neighbour."""
    D = np.maximum(D, 0.0)
    place = max(1, min(NEIGHBOUR, len(D) // 4))
    # The object itself, at a distance of 0, comes first.
    reach = np.partition(D, place, axis=1)[:, place]
    # Copies of one series have no reach of their own.
    if reach.min() <= 1e-12 * D.max():
        reach = np.maximum(reach, 1e-12 * median_distance(D))
    reach = np.sqrt(reach)
    return np.asarray(np.exp(-D / (reach[:, None] * reach)))


def fused(affinities: Sequence[FloatArray]) -> FloatArray:
    """Return one adjacency for several of the same objects: similarity network fusion (Wang et al., 2014).

    In every round, each is replaced by the mean of the others, averaged over the nearest neighbours that it has itself:
    what several have in common remains. A round costs O(n^2) for each adjacency.
    """
    from scipy.sparse import csr_array

    n = len(affinities[0])
    count = max(2, min(FUSED_NEIGHBOURS, n // 4))
    walks, neighbours = [], []
    for A in affinities:
        walks.append(_half_staying(A))
        near = np.argpartition(-walks[-1] + np.eye(n), count - 1, axis=1)[:, :count]
        weights = np.maximum(np.take_along_axis(walks[-1], near, axis=1), 1e-300)
        weights = weights / weights.sum(axis=1, keepdims=True)
        neighbours.append(csr_array((weights.ravel(), near.ravel(), count * np.arange(n + 1)), shape=(n, n)))
    for _ in range(_FUSED_ROUNDS):
        total = np.sum(walks, axis=0)
        walks = [_half_staying(S @ (S @ (total - walk)).T) for S, walk in zip(neighbours, walks, strict=True)]
    mean = np.mean(walks, axis=0)
    return np.asarray((mean + mean.T) / 2)


def _half_staying(A: FloatArray) -> FloatArray:
    """Return the random walk along an adjacency, the two triangles averaged, that stays with a probability of 1/2."""
    A = (A + A.T) / 2
    np.fill_diagonal(A, 0.0)
    A = A / (2 * np.maximum(A.sum(axis=1, keepdims=True), 1e-300))
    np.fill_diagonal(A, 0.5)
    return np.asarray(A)


def _normalised(A: FloatArray) -> FloatArray:
    """Return D^-1/2 A D^-1/2 of an adjacency, without loops, as Ng, Jordan and Weiss do."""
    A = A.copy()
    np.fill_diagonal(A, 0.0)
    # An object without neighbours keeps a degree: it is a component of its own.
    degrees = np.maximum(A.sum(axis=1), 1e-300)
    root = 1 / np.sqrt(degrees)
    return np.asarray(A * root[:, None] * root)


def _leading(M: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues, in descending order, and their vectors."""
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    n = len(M)
    if n > DENSE_SIZE:
        try:
            # A fixed start: the same matrix gives the same vectors. At a tiny scale nearly all eigenvalues are equal
            # and the iteration hardly converges: then the dense solver is faster.
            values, vectors = eigsh(M, k=count, which="LA", v0=np.ones(n), ncv=max(4 * count, 40), tol=1e-8, maxiter=20)
            order = np.argsort(values)[::-1]
            return values[order], vectors[:, order]
        except ArpackNoConvergence:
            pass
    values, vectors = eigh(M, subset_by_index=(n - count, n - 1), check_finite=False)
    return values[::-1], vectors[:, ::-1]


def labels_by_affinity(A: FloatArray, k: int, rng: np.random.Generator, starts: int = 10) -> LabelArray:
    """Return the clusters by spectral clustering of an adjacency."""
    vectors = _leading(_normalised(A), k)[1]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return _labels_by_means(vectors / np.where(lengths > 0, lengths, 1.0), k, rng, starts)


def _labels_by_means(rows: FloatArray, k: int, rng: np.random.Generator, starts: int) -> LabelArray:
    """Return the clusters by k-means: of several starts by greedy k-means++, the one with the smallest sum of squares.

    Starts run side by side: for a hundred rows, calls take longer than the arithmetic. Each draws the same numbers as
    scikit-learn's `KMeans`.
    """
    n, per_mean = len(rows), 2 + int(np.log(k))
    rows = rows - rows.mean(axis=0)
    norms = np.sum(rows * rows, axis=1)

    def squares(centres: FloatArray) -> FloatArray:
        """Squared distances (..., centre, row)."""
        return np.asarray(norms - 2 * centres @ rows.T + np.sum(centres * centres, axis=-1, keepdims=True))

    draws = _draws(int(rng.integers(2**31)), starts, 1 + (k - 1) * per_mean)
    centres = rows[(draws[:, :1] * n).astype(int)]
    nearest = np.maximum(squares(centres)[:, 0], 0.0)
    for at in range(1, draws.shape[1], per_mean):
        shares = nearest.cumsum(axis=1)
        reached = draws[:, at : at + per_mean] * shares[:, -1:]
        candidates = rows[np.minimum((shares[:, None] < reached[..., None]).sum(axis=-1), n - 1)]
        left = np.clip(squares(candidates), 0.0, nearest[:, None])
        best = np.arange(starts), left.sum(axis=-1).argmin(axis=-1)
        nearest, centres = left[best], np.concatenate([centres, candidates[best][:, None]], axis=1)
    labels = np.full((starts, n), -1)
    for _ in range(_MOST_ROUNDS):
        distances = squares(centres)
        before, labels = labels, distances.argmin(axis=1)
        if np.array_equal(before, labels):
            break
        members = (labels[:, None] == np.arange(k)[:, None]).astype(float)
        sizes = members.sum(axis=-1, keepdims=True)
        # A mean without rows stays where it is: there are fewer distinct rows than clusters.
        centres = np.where(sizes > 0, members @ rows / np.maximum(sizes, 1.0), centres)
    return _labels_in_order(labels[np.argmin(np.round(distances.min(axis=1).sum(axis=1), 12))])


@lru_cache(maxsize=16)
def _draws(seed: int, starts: int, count: int) -> FloatArray:
    # Kept: all settings of `cluster` begin with the same seed, and seeding takes a third of the time of the means.
    return np.random.RandomState(seed).random_sample((starts, count))


def labels_by_medoids(D: FloatArray, k: int, rng: np.random.Generator, starts: int = 10) -> LabelArray:
    """Return the clusters by k-medoids: the nearest of k medoids, of several starts the one with the lowest loss.

    No swap of a medoid for another object lowers the loss, the sum of the distances to the nearest medoid. Cost O(n^2)
    a round, for a few rounds a start.
    """
    D = np.ascontiguousarray(D, dtype=np.float64)
    fasterpam, n = _fasterpam(), len(D)

    def start() -> tuple[float, LabelArray]:
        # Arrays are made here: compiling what makes them takes half a second.
        nearest = np.zeros(n, np.int64)
        loss = fasterpam(D, rng.choice(n, k, replace=False), nearest, np.empty((2, n)), np.empty((3, k)))
        return float(loss), nearest

    found = [start() for _ in range(starts)]
    return _labels_in_order(min(found, key=lambda one: one[0])[1])


@cache
def _fasterpam() -> Any:
    """Compile k-medoids by FasterPAM when it is first needed: loading numba takes time.

    Schubert and Rousseeuw, "Fast and eager k-medoids clustering", Information Systems 101, 2021.
    """
    from condcs._core.compiling import njit

    @njit(nogil=True)
    def fasterpam(D: Any, medoids: Any, nearest: Any, distances: Any, costs: Any) -> Any:
        """Swap medoids, at least two, until no swap lowers the loss, which is returned; `nearest`: each row's medoid.

        All k swaps with one candidate are weighed in one pass, by each row's nearest and second medoid, and one that
        pays is made at once.
        """
        n, k = len(D), len(medoids)
        first, second = distances[0], distances[1]
        # What taking each medoid away costs, and what a candidate then saves.
        removal, change = costs[0], costs[1:]
        loss, before, unchanged, candidate, swapped = np.inf, np.inf, 0, 0, True
        while unchanged < n:
            if swapped:
                before, loss, swapped = loss, 0.0, False
                for place in range(k):
                    removal[place] = 0.0
                    for i in range(n):
                        if place == 0:
                            first[i] = second[i] = np.inf
                        distance = D[medoids[place], i]
                        if distance < first[i]:
                            second[i] = first[i]
                            first[i], nearest[i] = distance, place
                        elif distance < second[i]:
                            second[i] = distance
                for i in range(n):
                    loss += first[i]
                    removal[nearest[i]] += second[i] - first[i]
                # A swap that saved rounding errors only, as where all losses are about 0: it would be undone for ever.
                if loss >= before:
                    break
            known, common, best = False, 0.0, 0
            for place in range(k):
                known |= medoids[place] == candidate
                change[0, place], change[1, place] = removal[place], 0.0
            # Without a branch, which no processor could foresee; in two sums by turns, because each waits for the last.
            for i in range(n):
                distance = D[candidate, i]
                common += min(distance - first[i], 0.0)
                change[i & 1, nearest[i]] += min(max(distance, first[i]), second[i]) - second[i]
            for place in range(k):
                change[0, place] += change[1, place]
                best = place if change[0, place] < change[0, best] else best
            # By more than a share of the loss: rounding alone would swap back and forth for ever.
            if not known and change[0, best] + common < -_CLOSE * abs(loss):
                medoids[best] = candidate
                unchanged, swapped = 0, True
            unchanged += 1
            candidate = (candidate + 1) % n
        return loss

    return fasterpam


def _eigengap(D: FloatArray, k: int, b: float) -> float:
    values = _leading(_normalised(_affinity(D, b)), k + 1)[0]
    return float(values[k - 1] - values[k])


def _labels_in_order(labels: LabelArray) -> LabelArray:
    """Return clusters numbered by their first member, so that the numbers do not depend on the random start."""
    firsts: dict[int, int] = {}
    for label in labels.tolist():
        firsts.setdefault(label, len(firsts))
    return np.array([firsts[label] for label in labels.tolist()])


def _check_labels(truth: Any, labels: Any) -> tuple[IntArray, IntArray]:
    truth, labels = np.asarray(truth), np.asarray(labels)
    if truth.ndim != 1 or truth.shape != labels.shape or not len(truth):
        raise ShapeError(
            f"{named('truth')} and {named('labels')} must hold one label for each series, got shapes {truth.shape} and "
            f"{labels.shape}. Pass two 1-d arrays of one length."
        )
    return np.unique(truth, return_inverse=True)[1], np.unique(labels, return_inverse=True)[1]
