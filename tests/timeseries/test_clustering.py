"""Clusters from distances: what they are on plain cases, scores by hand, and scales chosen without labels."""

from itertools import combinations

import numpy as np
import pytest

from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs.timeseries._clustering import (
    _labels_by_means,
    adjusted_rand_index,
    choose_scale,
    cluster_distances,
    fused,
    labels_by_affinity,
    local_affinity,
    median_pair_distance,
    normalized_mutual_information,
    silhouette,
)


def line(*points):
    points = np.array(points, dtype=float)
    return np.abs(points[:, None] - points)


GROUPS = line(0, 0.1, 0.25, 3, 3.1, 3.3, 7, 7.05, 7.2)
TRUTH = np.repeat([0, 1, 2], 3)


@pytest.mark.parametrize("method", ["spectral", "k_medoids"])
def test_three_groups_on_a_line(method):
    found = cluster_distances(GROUPS, 3, method=method)
    assert found.labels.tolist() == TRUTH.tolist()
    assert found.medoids.tolist() == [1, 4, 7]
    assert found.silhouette > 0.9
    assert found.scale is None


@pytest.mark.parametrize("method", ["spectral", "k_medoids"])
def test_order_of_the_series_does_not_matter(method, rng):
    order = rng.permutation(len(GROUPS))
    found = cluster_distances(GROUPS[np.ix_(order, order)], 3, method=method)
    assert normalized_mutual_information(TRUTH[order], found.labels) == pytest.approx(1.0)


def test_spectral_finds_rings_that_medoids_cannot(rng):
    """Two rings around one another are connected, not compact."""
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.concatenate([ring, 4 * ring]) + 0.02 * rng.normal(size=(120, 2))
    D = np.linalg.norm(points[:, None] - points, axis=2) ** 2
    truth = np.repeat([0, 1], 60)
    assert normalized_mutual_information(truth, cluster_distances(D, 2, scale=0.1).labels) == pytest.approx(1.0)
    assert normalized_mutual_information(truth, cluster_distances(D, 2, method="k_medoids").labels) < 0.5


@pytest.mark.parametrize("seed", range(5))
def test_k_medoids_is_the_best_of_all_choices(seed):
    """All sets of three medoids of twelve points, tried one by one."""
    points = np.random.default_rng(seed).normal(size=(12, 2))
    D = np.linalg.norm(points[:, None] - points, axis=2)
    best = min(D[:, list(m)].min(axis=1).sum() for m in combinations(range(12), 3))
    found = cluster_distances(D, 3, method="k_medoids")
    # The sum over each cluster around its most central member is the loss.
    assert D[np.arange(12), found.medoids[found.labels]].sum() == pytest.approx(best)


def test_nmi_is_normalised_by_the_larger_entropy():
    """Two classes of 14 with one, two and three series misplaced: the values that the paper prints for Coffee."""
    truth = np.repeat([0, 1], 14)
    for errors, printed in ((1, 0.811), (2, 0.689), (3, 0.592)):
        labels = truth.copy()
        labels[:errors] = 1
        assert normalized_mutual_information(truth, labels) == pytest.approx(printed, abs=5e-4)


def test_nmi_by_hand():
    """I = log 2 (labels split a class of a pair of classes); entropies log 2 and 1.5 log 2."""
    truth, labels = [0, 0, 1, 1], [0, 0, 1, 2]
    assert normalized_mutual_information(truth, labels) == pytest.approx(1 / 1.5)
    assert normalized_mutual_information(truth, truth) == pytest.approx(1.0)
    assert normalized_mutual_information([0, 1, 0, 1], [0, 0, 1, 1]) == pytest.approx(0.0, abs=1e-12)


def test_ari_by_hand():
    """Pairs together in both 1, in one 2 and 1, of 6: (1 - 2/6) / ((2 + 1) / 2 - 2/6)."""
    assert adjusted_rand_index([0, 0, 1, 1], [0, 0, 1, 2]) == pytest.approx((1 - 2 / 6) / (1.5 - 2 / 6))


@pytest.mark.parametrize("kinds", [(1, 1), (1, 3), (2, 2), (4, 7), (40, 40)])
def test_indices_are_those_of_scikit_learn(rng, kinds):
    metrics = pytest.importorskip("sklearn.metrics")
    truth, labels = (rng.integers(most, size=40) for most in kinds)
    expected = metrics.normalized_mutual_info_score(truth, labels, average_method="max")
    assert normalized_mutual_information(truth, labels) == pytest.approx(expected, abs=1e-12)
    assert adjusted_rand_index(truth, labels) == pytest.approx(metrics.adjusted_rand_score(truth, labels), abs=1e-12)
    # The names of the labels do not matter, to the last digit.
    assert normalized_mutual_information(labels, -labels.astype(float)) == adjusted_rand_index(labels, -labels) == 1.0


def test_silhouette_is_scikit_learns(rng):
    from sklearn.metrics import silhouette_score

    points, labels = rng.normal(size=(40, 2)), np.append(rng.integers(0, 4, 39), 7)
    D = np.linalg.norm(points[:, None] - points, axis=2)
    assert silhouette(D, labels) == pytest.approx(silhouette_score(D, labels, metric="precomputed"), rel=1e-12)
    assert silhouette(np.zeros((4, 4)), [0, 0, 1, 1]) == 0.0


@pytest.mark.parametrize("k", [2, 3, 7])
def test_means_are_scikit_learns_from_the_same_starts(rng, k):
    from sklearn.cluster import KMeans

    rows = rng.normal(size=(90, 3)) + 2.0 * np.eye(3)[rng.integers(0, 3, 90)]
    seed = int(np.random.default_rng(5).integers(2**31))
    theirs = KMeans(k, n_init=4, tol=0, random_state=seed).fit(rows).labels_
    assert adjusted_rand_index(theirs, _labels_by_means(rows, k, np.random.default_rng(5), 4)) == 1.0


def test_means_of_fewer_distinct_rows_than_clusters():
    rows = np.repeat([[0.0, 1.0], [1.0, 0.0]], 4, axis=0)
    assert _labels_by_means(rows, 3, np.random.default_rng(0), 4).tolist() == [0] * 4 + [1] * 4


def test_silhouette_by_hand():
    """Points 0, 1 and 10: (10 - 1) / 10, (9 - 1) / 9, and 0 for a cluster of one."""
    assert silhouette(line(0, 1, 10), [0, 0, 1]) == pytest.approx((0.9 + 8 / 9 + 0) / 3)
    assert silhouette(line(0, 1, 10), [0, 0, 0]) == 0.0


def test_scale_defaults_to_the_median():
    assert cluster_distances(GROUPS, 3, scale="median").scale == pytest.approx(np.median(GROUPS[np.triu_indices(9, 1)]))


def test_median_of_mostly_equal_series_is_the_smallest_gap():
    assert median_pair_distance(line(0, 0, 0, 0, 2, 5)) == 2.0
    with pytest.raises(DataError, match="all series look the same"):
        cluster_distances(np.zeros((4, 4)), 2)


@pytest.mark.parametrize("criterion", ["silhouette", "eigengap"])
def test_chosen_scale_has_the_best_mark(criterion):
    scales = (0.02, 0.1, 0.5, 3.0)
    unit = median_pair_distance(GROUPS)
    b = choose_scale(GROUPS, 3, criterion=criterion, scales=scales)
    assert b / unit == pytest.approx(min(scales, key=lambda s: abs(s * unit - b)))
    if criterion == "eigengap":

        def mark(scale):
            A = np.exp(-GROUPS / scale) - np.eye(9)
            root = A.sum(axis=1) ** -0.5
            values = np.sort(np.linalg.eigvalsh(root[:, None] * A * root))[::-1]
            return values[2] - values[3]

    else:

        def mark(scale):
            return silhouette(GROUPS, cluster_distances(GROUPS, 3, scale=scale).labels)

    assert mark(b) == pytest.approx(max(mark(s * unit) for s in scales), abs=1e-9)


def test_scale_may_be_chosen_by_name():
    assert cluster_distances(GROUPS, 3, scale="eigengap").scale == choose_scale(GROUPS, 3, criterion="eigengap")


def test_large_collections_use_few_eigenvectors(monkeypatch, rng):
    """Iterative and dense eigenvectors lead to the same clusters."""
    points = np.concatenate([rng.normal(c, 0.3, size=40) for c in (0, 3, 6)])
    D = np.abs(points[:, None] - points)
    dense = cluster_distances(D, 3).labels
    monkeypatch.setattr("condcs.timeseries._clustering.DENSE_SIZE", 10)
    assert np.array_equal(cluster_distances(D, 3).labels, dense)


def test_slightly_negative_and_asymmetric_divergences(rng):
    D = GROUPS - 0.02 + 0.01 * rng.normal(size=(9, 9))
    for method in ("spectral", "k_medoids"):
        assert cluster_distances(D, 3, method=method).labels.tolist() == TRUTH.tolist()


def test_series_without_neighbours():
    """At a tiny scale no two series are connected; there are labels all the same."""
    assert len(cluster_distances(100 * GROUPS, 3, scale=1e-3).labels) == 9


def test_same_seed_same_clusters(rng):
    D = np.abs(rng.normal(size=(40, 40)))
    for method in ("spectral", "k_medoids"):
        first, second = (cluster_distances(D, 4, method=method, rng=3).labels for _ in range(2))
        assert np.array_equal(first, second)


def test_input_is_left_alone():
    D = GROUPS - 0.5
    kept = D.copy()
    cluster_distances(D, 3)
    silhouette(D, TRUTH)
    assert np.array_equal(D, kept)


@pytest.mark.parametrize(
    ("D", "options", "error", "words"),
    [
        (np.zeros((3, 4)), {}, ShapeError, "`D` must be a square matrix"),
        (np.zeros(9), {}, ShapeError, "`D` must be a square matrix"),
        (np.full((4, 4), np.nan), {}, DataError, "`D` must be finite, got 16"),
        ([["a", "b"], ["c", "d"]], {}, DataError, "`D` must be a matrix of numbers"),
        (GROUPS, {"n_clusters": 1}, ParameterError, "`n_clusters` must be an integer from 2 to 9"),
        (GROUPS, {"n_clusters": 10}, ParameterError, "`n_clusters`"),
        (GROUPS, {"method": "kmeans"}, ParameterError, "`method` must be one of"),
        (GROUPS, {"scale": "mean"}, ParameterError, "`scale` must be a positive number"),
        (GROUPS, {"scale": 0.0}, ParameterError, "`scale` must be a positive"),
        (GROUPS, {"rng": -1}, ParameterError, "`rng`"),
    ],
)
def test_bad_input(D, options, error, words):
    with pytest.raises(error, match=words) as caught:
        cluster_distances(D, **{"n_clusters": 3, **options})
    assert str(caught.value).startswith("cluster_distances: ")


def test_bad_labels_and_scales():
    with pytest.raises(ShapeError, match="one label for each series"):
        normalized_mutual_information([0, 1], [0, 1, 2])
    with pytest.raises(ParameterError, match="`scales`"):
        choose_scale(GROUPS, 3, scales=())
    with pytest.raises(ParameterError, match="`criterion`"):
        choose_scale(GROUPS, 3, criterion="gap")


def literally_fused(affinities, count, rounds):
    """Similarity network fusion entry by entry, as Wang et al. (2014) have it in equations 2 to 5."""
    n, several = len(affinities[0]), range(len(affinities))

    def full(A):
        rest = [sum(A[i][k] for k in range(n) if k != i) for i in range(n)]
        return [[0.5 if i == j else A[i][j] / (2 * rest[i]) for j in range(n)] for i in range(n)]

    def sparse(A):
        rows = []
        for i in range(n):
            near = sorted((j for j in range(n) if j != i), key=lambda j: -A[i][j])[:count]
            rows.append([A[i][j] / sum(A[i][k] for k in near) if j in near else 0.0 for j in range(n)])
        return np.array(rows)

    P, S = [np.array(full(A)) for A in affinities], [sparse(A) for A in affinities]
    for _ in range(rounds):
        spread = [S[v] @ (sum(P[w] for w in several if w != v) / (len(P) - 1)) @ S[v].T for v in several]
        P = [np.array(full((A + A.T) / 2)) for A in spread]
    mean = sum(P) / len(P)
    return (mean + mean.T) / 2


def test_fused_graphs_are_those_of_the_published_steps(rng):
    points = rng.normal(size=(3, 13, 2))
    affinities = [local_affinity(np.linalg.norm(p[:, None] - p, axis=2)) for p in points]
    assert fused(affinities) == pytest.approx(literally_fused(affinities, 3, 5), rel=1e-9)


def test_fused_graphs_tell_apart_what_no_graph_does_alone(rng):
    """Five views of three groups that overlap, each with noise of its own."""
    truth = np.repeat([0, 1, 2], 20)
    views = [np.stack([truth == 0, truth == 1], axis=1) * 2.5 + rng.normal(size=(60, 2)) for _ in range(5)]
    graphs = [local_affinity(np.linalg.norm(v[:, None] - v, axis=2)) for v in views]
    alone = [normalized_mutual_information(truth, labels_by_affinity(A, 3, np.random.default_rng(0))) for A in graphs]
    together = labels_by_affinity(fused(graphs), 3, np.random.default_rng(0))
    assert normalized_mutual_information(truth, together) > 0.9 > 0.8 > max(alone)
