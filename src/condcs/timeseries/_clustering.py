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
"""Candidates for the scale b, in units of the median distance: far less than it, where clusters are much tighter than
they are apart, to twice it, where nearly all objects are neighbours. Each costs an eigendecomposition."""

SCALE_NEIGHBOUR = 7
"""An object's scale is its distance to this nearest neighbour, as Zelnik-Manor and Perona have it; to a nearer one if
there are few objects."""

FUSED_NEIGHBOURS = 10
"""Neighbours over which fused graphs are averaged; fewer if there are few objects. On up to 120 series of each of eight
data sets, 15 move the NMI of `cluster` with the classes by up to 0.03, 5 or 20 by up to 0.1 (0.4 for 28 series)."""

# On the same eight data sets, 3 to 20 rounds give the same NMI within 0.01; without any it is up to 0.5 lower. The time
# is in proportion to the rounds.
_FUSED_ROUNDS = 5

# A limit for k-means that does not settle: that of scikit-learn's `KMeans`, whose numbers these are to be.
_MOST_MEANS_ROUNDS = 300

DENSE_SIZE = 1_200
"""Up to this many series the eigenvectors are those of LAPACK, which depend on no iteration and take up to 0.06 s. For
2,400 the iteration takes 0.05 s and LAPACK 0.5 s."""

# Vectors that the iteration holds for each that is wanted: more converge in fewer restarts, each of which costs more.
_LANCZOS_PER_VECTOR = 4
# As many at least, where few are wanted: a smaller basis takes more restarts.
_LEAST_LANCZOS = 40
# Error of an eigenvalue, of 1 at most: far below the gaps that decide a clustering.
_LANCZOS_TOLERANCE = 1e-8
# Restarts after which the iteration is given up. Where a tiny scale makes nearly all eigenvalues equal, it hardly
# converges, and LAPACK is faster.
_LANCZOS_RESTARTS = 20

# Stands for a degree of 0, of an object without neighbours: positive, and far below any degree that counts.
_SMALLEST_DIVISOR = 1e-300
ROUNDING_SHARE = 1e-12
"""Share below which a difference is a rounding error: a sum of some thousand terms errs by about 1e-13 of itself."""

# Decimals to which sums are rounded before the best is chosen, so that no rounding error decides between equal ones.
_ROUNDING_DIGITS = 12


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
    >>> clusters = cluster_distances(abs(points[:, None] - points), 2)
    >>> clusters.labels.tolist()
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
    # Descending: of equal marks, `argmax` takes the first, the largest scale.
    candidates = sorted((check_positive("scales", s) * unit for s in scales), reverse=True)
    if criterion == "silhouette":
        marks = [silhouette(D, labels_by_affinity(_affinity(D, b), k, check_rng(0))) for b in candidates]
    else:
        marks = [_eigengap(D, k, b) for b in candidates]
    best = int(np.argmax(np.round(marks, _ROUNDING_DIGITS)))
    return float(candidates[best])


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
    truth_entropy, label_entropy = cluster_entropy(counts.sum(axis=1)), cluster_entropy(counts.sum(axis=0))
    # I(U; V) = H(U) + H(V) - H(U, V)
    information = truth_entropy + label_entropy - cluster_entropy(counts)
    larger_entropy = max(truth_entropy, label_entropy)
    if information > ROUNDING_SHARE:
        return float(information / larger_entropy)
    # Independent labellings, but for two of one cluster each: those are equal.
    return float(larger_entropy == 0)


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
    # Ordered pairs of objects in one cluster: of both labellings, of each, and all pairs.
    pairs_of_both = _pairs_within(counts)
    truth_pairs, label_pairs = _pairs_within(counts.sum(axis=1)), _pairs_within(counts.sum(axis=0))
    all_pairs = _pairs_within(counts.sum(keepdims=True))
    if truth_pairs == label_pairs == pairs_of_both:
        return 1.0
    by_chance = truth_pairs * label_pairs / all_pairs
    return (pairs_of_both - by_chance) / ((truth_pairs + label_pairs) / 2 - by_chance)


def _pairs_within(sizes: IntArray) -> float:
    """Return how many ordered pairs of different objects clusters of these sizes hold together."""
    return float(np.sum(sizes * (sizes - 1)))


def common_members(a: IntArray, b: IntArray) -> IntArray:
    """Return how many objects each cluster of one labelling, numbered from 0, has in common with each of another."""
    rows, columns = a.max() + 1, b.max() + 1
    return np.bincount(a * columns + b, minlength=rows * columns).reshape(rows, columns)


def cluster_entropy(counts: IntArray) -> float:
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
    names, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if not 1 < len(names) < len(D):
        return 0.0
    members = codes[:, None] == np.arange(len(names))  # (n, k)
    totals = D @ members.astype(float)  # (n, k): sums of the distances to each cluster
    # Mean distances of each object to its own cluster, without itself, and to the nearest other one.
    inside = totals[members] / np.maximum(sizes[codes] - 1, 1)  # (n,)
    outside = np.where(members, np.inf, totals / sizes).min(axis=1)  # (n,)
    larger = np.maximum(inside, outside)
    # An object that is alone in its cluster, or at no distance from any other, counts as 0.
    counted = (sizes[codes] > 1) & (larger > 0)
    widths = np.where(counted, (outside - inside) / np.where(counted, larger, 1.0), 0.0)
    return float(np.mean(widths))


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
    return median_pair_distance(D)


def median_pair_distance(D: RealArray) -> float:
    """Return the median of the distances between different series; the smallest positive one if that is not above 0."""
    pair_distances = D[np.triu_indices(len(D), 1)]
    median = float(np.median(pair_distances))
    if median > 0:
        return median
    positive = pair_distances[pair_distances > 0]
    if not len(positive):
        raise DataError(f"{named('D')} must hold some positive distances, got none: all series look the same.")
    return float(positive.min())


def _affinity(D: FloatArray, b: float) -> FloatArray:
    """Return exp(-D / b)."""
    return np.asarray(np.exp(-np.maximum(D, 0.0) / b))


def local_affinity(D: FloatArray) -> FloatArray:
    """Return exp(-D_ij / b_ij) with b_ij the geometric mean of the two distances to the seventh neighbour."""
    D = np.maximum(D, 0.0)
    # The object itself, at a distance of 0, has rank 0. A nearer neighbour than the seventh if a quarter are fewer.
    rank = max(1, min(SCALE_NEIGHBOUR, len(D) // 4))
    neighbour_distances = np.partition(D, rank, axis=1)[:, rank]  # (n,)
    # Copies of one series are at no distance from their neighbours.
    if neighbour_distances.min() <= ROUNDING_SHARE * D.max():
        neighbour_distances = np.maximum(neighbour_distances, ROUNDING_SHARE * median_pair_distance(D))
    roots = np.sqrt(neighbour_distances)
    return np.asarray(np.exp(-D / (roots[:, None] * roots)))


def fused(affinities: Sequence[FloatArray]) -> FloatArray:
    """Return one adjacency for several of the same objects: similarity network fusion (Wang et al., 2014).

    In every round, each is replaced by the mean of the others, averaged over the nearest neighbours that it has itself:
    what several have in common remains. A round costs O(n^2) for each adjacency.
    """
    count = max(2, min(FUSED_NEIGHBOURS, len(affinities[0]) // 4))
    walks = [_half_staying(A) for A in affinities]  # each (n, n), rows sum to 1
    nearest = [_walk_to_nearest(walk, count) for walk in walks]  # each (n, n), `count` entries a row
    for _ in range(_FUSED_ROUNDS):
        total = np.sum(walks, axis=0)
        # P_v <- S_v (sum of the other P) S_v^T. Their mean, as published, differs by a factor that scaling the rows
        # takes out again.
        walks = [_half_staying(S @ (S @ (total - walk)).T) for S, walk in zip(nearest, walks, strict=True)]
    mean = np.mean(walks, axis=0)
    return np.asarray((mean + mean.T) / 2)


def _half_staying(A: FloatArray) -> FloatArray:
    """Return the random walk along an adjacency, the two triangles averaged, that stays with a probability of 1/2."""
    A = (A + A.T) / 2
    np.fill_diagonal(A, 0.0)
    A = A / (2 * np.maximum(A.sum(axis=1, keepdims=True), _SMALLEST_DIVISOR))
    np.fill_diagonal(A, 0.5)
    return np.asarray(A)


def _walk_to_nearest(walk: FloatArray, count: int) -> Any:
    """Return a random walk, as a sparse matrix, that goes from each object to its `count` most likely next ones."""
    from scipy.sparse import csr_array

    n = len(walk)
    # The identity keeps an object from being its own neighbour.
    columns = np.argpartition(-walk + np.eye(n), count - 1, axis=1)[:, :count]  # (n, count)
    weights = np.maximum(np.take_along_axis(walk, columns, axis=1), _SMALLEST_DIVISOR)
    weights = weights / weights.sum(axis=1, keepdims=True)
    row_ends = count * np.arange(n + 1)
    return csr_array((weights.ravel(), columns.ravel(), row_ends), shape=(n, n))


def _normalised(A: FloatArray) -> FloatArray:
    """Return D^-1/2 A D^-1/2 of an adjacency, without loops, as Ng, Jordan and Weiss do."""
    A = A.copy()
    np.fill_diagonal(A, 0.0)
    # An object without neighbours keeps a degree: it is a component of its own.
    degrees = np.maximum(A.sum(axis=1), _SMALLEST_DIVISOR)  # (n,)
    inverse_roots = 1 / np.sqrt(degrees)
    return np.asarray(A * inverse_roots[:, None] * inverse_roots)


def _leading(M: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues, in descending order, and their vectors."""
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    n = len(M)
    if n > DENSE_SIZE:
        try:
            # A fixed start: the same matrix gives the same vectors.
            values, vectors = eigsh(
                M,
                k=count,
                which="LA",
                v0=np.ones(n),
                ncv=max(_LANCZOS_PER_VECTOR * count, _LEAST_LANCZOS),
                tol=_LANCZOS_TOLERANCE,
                maxiter=_LANCZOS_RESTARTS,
            )
            order = np.argsort(values)[::-1]
            return values[order], vectors[:, order]
        except ArpackNoConvergence:
            pass
    values, vectors = eigh(M, subset_by_index=(n - count, n - 1), check_finite=False)
    return values[::-1], vectors[:, ::-1]


def labels_by_affinity(A: FloatArray, k: int, rng: np.random.Generator, starts: int = 10) -> LabelArray:
    """Return the clusters by spectral clustering of an adjacency (Ng, Jordan and Weiss)."""
    vectors = _leading(_normalised(A), k)[1]  # (n, k)
    # Rows of length 1, as Ng, Jordan and Weiss have them; a row of 0 stays one.
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return _labels_by_means(vectors / np.where(lengths > 0, lengths, 1.0), k, rng, starts)


def _labels_by_means(rows: FloatArray, k: int, rng: np.random.Generator, starts: int) -> LabelArray:
    """Return the clusters by k-means: of several starts by greedy k-means++, the one with the smallest sum of squares.

    Starts run side by side: for a hundred rows, calls take longer than the arithmetic. Each draws the same numbers as
    scikit-learn's `KMeans`.
    """
    n = len(rows)
    # Rows that are weighed for each further mean, as scikit-learn has it.
    per_mean = 2 + int(np.log(k))
    rows = rows - rows.mean(axis=0)  # (n, d)
    norms = np.sum(rows * rows, axis=1)

    def squares(centres: FloatArray) -> FloatArray:
        """Squared distances (..., centre, row)."""
        return np.asarray(norms - 2 * centres @ rows.T + np.sum(centres * centres, axis=-1, keepdims=True))

    draws = _draws(int(rng.integers(2**31)), starts, 1 + (k - 1) * per_mean)  # (starts, draws)
    first_rows = (draws[:, :1] * n).astype(int)
    centres = rows[first_rows]  # (starts, 1, d)
    nearest = np.maximum(squares(centres)[:, 0], 0.0)  # (starts, n): squared distances to the nearest centre
    for first_draw in range(1, draws.shape[1], per_mean):
        # A row is drawn with a chance in proportion to its squared distance: the first whose cumulated sum is reached.
        cumulated = nearest.cumsum(axis=1)  # (starts, n)
        reached = draws[:, first_draw : first_draw + per_mean] * cumulated[:, -1:]  # (starts, per_mean)
        drawn_rows = np.minimum((cumulated[:, None] < reached[..., None]).sum(axis=-1), n - 1)
        candidates = rows[drawn_rows]  # (starts, per_mean, d)
        # Greedy: the candidate after which the sum of squares is smallest.
        nearest_after = np.clip(squares(candidates), 0.0, nearest[:, None])  # (starts, per_mean, n)
        best = np.arange(starts), nearest_after.sum(axis=-1).argmin(axis=-1)
        nearest = nearest_after[best]
        centres = np.concatenate([centres, candidates[best][:, None]], axis=1)
    labels = np.full((starts, n), -1)
    for _ in range(_MOST_MEANS_ROUNDS):
        distances = squares(centres)  # (starts, k, n)
        previous_labels, labels = labels, distances.argmin(axis=1)
        if np.array_equal(previous_labels, labels):
            break
        members = (labels[:, None] == np.arange(k)[:, None]).astype(float)  # (starts, k, n)
        sizes = members.sum(axis=-1, keepdims=True)
        # A mean without rows stays where it is: there are fewer distinct rows than clusters.
        centres = np.where(sizes > 0, members @ rows / np.maximum(sizes, 1.0), centres)
    sums_of_squares = distances.min(axis=1).sum(axis=1)  # (starts,)
    best_start = np.argmin(np.round(sums_of_squares, _ROUNDING_DIGITS))
    return _labels_in_order(labels[best_start])


@lru_cache(maxsize=16)
def _draws(seed: int, starts: int, count: int) -> FloatArray:
    # Cached: all settings of `cluster` begin with the same seed, and seeding takes a third of the time of the means.
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

    losses_and_labels = [start() for _ in range(starts)]
    _, labels = min(losses_and_labels, key=lambda pair: pair[0])
    return _labels_in_order(labels)


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
        loss, previous_loss = np.inf, np.inf
        unchanged, candidate, swapped = 0, 0, True
        while unchanged < n:
            if swapped:
                previous_loss, loss, swapped = loss, 0.0, False
                for c in range(k):
                    removal[c] = 0.0
                    for i in range(n):
                        if c == 0:
                            first[i] = second[i] = np.inf
                        distance = D[medoids[c], i]
                        if distance < first[i]:
                            second[i] = first[i]
                            first[i], nearest[i] = distance, c
                        elif distance < second[i]:
                            second[i] = distance
                for i in range(n):
                    loss += first[i]
                    removal[nearest[i]] += second[i] - first[i]
                # A swap that saved rounding errors only, as where all losses are about 0: it would be undone for ever.
                if loss >= previous_loss:
                    break
            # What the swap changes for rows whose nearest medoid is not the one taken away is common to all k swaps.
            is_medoid, common, best = False, 0.0, 0
            for c in range(k):
                is_medoid |= medoids[c] == candidate
                change[0, c], change[1, c] = removal[c], 0.0
            # Without a branch, which no processor could foresee; in two sums by turns, because each waits for the last.
            for i in range(n):
                distance = D[candidate, i]
                common += min(distance - first[i], 0.0)
                change[i & 1, nearest[i]] += min(max(distance, first[i]), second[i]) - second[i]
            for c in range(k):
                change[0, c] += change[1, c]
                best = c if change[0, c] < change[0, best] else best
            # By more than a share of the loss: rounding alone would swap back and forth for ever.
            if not is_medoid and change[0, best] + common < -ROUNDING_SHARE * abs(loss):
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
    numbers: dict[int, int] = {}
    for label in labels.tolist():
        numbers.setdefault(label, len(numbers))
    return np.array([numbers[label] for label in labels.tolist()])


def _check_labels(truth: Any, labels: Any) -> tuple[IntArray, IntArray]:
    truth, labels = np.asarray(truth), np.asarray(labels)
    if truth.ndim != 1 or truth.shape != labels.shape or not len(truth):
        raise ShapeError(
            f"{named('truth')} and {named('labels')} must hold one label for each series, got shapes {truth.shape} and "
            f"{labels.shape}. Pass two 1-d arrays of one length."
        )
    return np.unique(truth, return_inverse=True)[1], np.unique(labels, return_inverse=True)[1]
