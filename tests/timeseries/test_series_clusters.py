"""Clustering of series with settings chosen without labels."""

from __future__ import annotations

import numpy as np
import pytest

from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs.timeseries import (
    _series_clusters,
    ccs_pairwise_distance,
    cluster,
    normalized_mutual_information,
    silhouette,
)
from condcs.timeseries._collection import check_collection, windowed
from condcs.timeseries._distance_matrix import IN_MEMORY, distance_matrix, make_job
from condcs.timeseries._series_clusters import (
    TRIED_FACTORS,
    Setting,
    Trial,
    _adjusted_mutual_information,
    _balance,
    _grid,
    _matrices,
    with_position,
    with_scaling,
)

TRUTH = np.repeat([0, 1, 2], 6)


def waves(n=6, length=50, seed=0, speeds=(0.3, 0.6, 1.0)):
    t, rng = np.arange(length), np.random.default_rng(seed)
    return np.stack(
        [np.sin(s * t + rng.uniform(0, 6)) + 0.1 * rng.normal(size=length) for s in speeds for _ in range(n)]
    )


@pytest.fixture(scope="module")
def found():
    return cluster(waves(), 3, n_jobs=1)


@pytest.mark.parametrize("shape", [(1, 40, 3), (1, 60, 10), (2, 40, 1), (50, 12, 2)])
def test_factors_of_one_pass_are_those_of_a_pass_each(rng, shape):
    """Fourth powers of the kernel values are the kernel values at half the bandwidth, also where they underflow."""
    channels, length, order = shape
    X = rng.normal(size=(40, channels, length))
    # Ever farther from all others: its masses become small and underflow at small factors.
    X[:, :, 3] += np.linspace(0.0, 50.0, len(X))[:, None]
    sides = [windowed("X", check_collection("X", X, "nct"), order)]
    job, sides, _ = make_job("conditional_cs", "pair-median", 1.6, {}, sides, n_factors=5)
    D, _ = distance_matrix(job, sides[0], None, n_jobs=1, output=IN_MEMORY)
    for f, factor in enumerate(TRIED_FACTORS):
        alone = ccs_pairwise_distance(X, order=order, factor=factor, n_jobs=1)
        assert D[f] == pytest.approx(alone, rel=1e-9, abs=1e-9)


def test_three_dynamics_are_found_without_any_setting(found):
    assert normalized_mutual_information(TRUTH, found.labels) == pytest.approx(1.0)
    assert found.labels[0] == 0
    assert len(found.votes) == 5
    assert found.setting == found.votes[0] == found.tried[0].setting
    marks = [round(trial.mark, 9) for trial in found.tried]
    assert marks == sorted(marks, reverse=True)
    assert found.distances.shape == found.together.shape == (18, 18)
    assert found.agreement > 0.8
    assert found.support.min() > 0.5


def mean_of_votes(X, votes):
    """Distances under each setting, in units of their medians, with nothing of what `cluster` keeps."""
    total = 0.0
    for s in votes:
        collection = with_scaling(check_collection("X", X, "nct"), s.scaling)
        collection = with_position(collection) if s.position else collection
        D = ccs_pairwise_distance(collection, order=s.order, factor=s.factor, n_jobs=1)
        total = total + D / np.median(D[np.triu_indices(len(D), 1)])
    return total / len(votes)


@pytest.mark.parametrize("method", ["spectral", "k_medoids"])
def test_distances_medoids_and_silhouette_belonged_to_one_setting_and_the_labels_to_five(method):
    X, _ = bumps()
    found = cluster(X, 3, method=method, n_jobs=1)
    assert len(found.votes) == 5
    D = mean_of_votes(X, found.votes)
    assert found.distances == pytest.approx(D, rel=1e-9, abs=1e-9)
    assert found.silhouette == pytest.approx(silhouette(D, found.labels), abs=1e-9)
    for c, medoid in enumerate(found.medoids):
        members = np.flatnonzero(found.labels == c)
        assert medoid == members[np.argmin(D[np.ix_(members, members)].sum(axis=0))]


def test_distances_of_one_setting_keep_their_units():
    found = cluster(waves(), 3, order=2, factor=0.4, scaling="raw", n_jobs=1)
    again = ccs_pairwise_distance(waves(), order=2, factor=0.4, n_jobs=1)
    assert found.distances == pytest.approx(again, rel=1e-9, abs=1e-9)


def two_ways(n=6, length=60):
    """Two kinds of dynamics, two places of a bump, all four combinations: two partitions into two, both true."""
    rng = np.random.default_rng(0)
    t = np.arange(length)
    X, dynamics, places = [], [], []
    for coefficient in (0.9, -0.5):
        for place in (15, 45):
            for _ in range(n):
                values = np.zeros(length)
                for i in range(1, length):
                    values[i] = coefficient * values[i - 1] + rng.normal()
                X.append(values / values.std() + 5.0 * np.exp(-(((t - place) / 5) ** 2)))
                dynamics.append(coefficient)
                places.append(place)
    return np.stack(X), np.array(dynamics), np.array(places)


@pytest.mark.parametrize("method", ["spectral", "k_medoids"])
@pytest.mark.parametrize("most", [200, 11])
def test_a_partition_nearly_as_good_was_passed_over_in_silence(monkeypatch, method, most):
    """Also where settings are tried on 11 of 24 series and the rival is clustered on all of them."""
    monkeypatch.setattr(_series_clusters, "MOST_DRAWN", most)
    X, dynamics, places = two_ways()
    found = cluster(X, 2, method=method, n_jobs=1)
    rival = found.rival
    assert rival is not None
    assert rival.labels.shape == found.labels.shape
    assert rival.mark >= 0.8 * found.tried[0].mark
    assert rival.mark == next(trial.mark for trial in found.tried if trial.setting == rival.setting)
    assert rival.agreement == pytest.approx(_adjusted_mutual_information(found.labels, rival.labels))
    assert rival.agreement < 0.5
    recovered = {name: max(normalized_mutual_information(truth, labels) for labels in (found.labels, rival.labels))
                 for name, truth in (("dynamics", dynamics), ("places", places))}  # fmt: skip
    assert min(recovered.values()) > 0.8
    assert "another partition" in str(found)


def test_where_all_agree_there_is_no_rival(found):
    assert found.rival is None
    assert "another partition" not in str(found)


def test_same_answer_whatever_the_threads(found):
    again = cluster(waves(), 3, n_jobs=2)
    assert again == found


@pytest.mark.parametrize(("k", "method"), [(3, "spectral"), ("auto", "k_medoids")])
@pytest.mark.parametrize("most", [12, 20])
def test_settings_are_tried_on_drawn_series(monkeypatch, k, method, most):
    """Of 30 series, 12 are less than half: the others are measured only for the votes. Both ways have all distances."""
    monkeypatch.setattr(_series_clusters, "MOST_DRAWN", most)
    X, truth = waves(n=10), np.repeat([0, 1, 2], 10)
    found = cluster(X, k, method=method, n_jobs=1)
    assert normalized_mutual_information(truth, found.labels) > 0.9
    assert {trial.n_series for trial in found.tried} == {most}
    assert found.votes == tuple(trial.setting for trial in found.tried[:5])
    assert found.distances == pytest.approx(mean_of_votes(X, found.votes), rel=1e-9, abs=1e-9)


def test_five_passes_at_most(rng):
    """The docstring: both scalings of the position and of windows of 2, one of 10; alike, they leave room for 5 and 1.

    It promised windows of 2, 10, 5 and 1 values in both scalings, of which 5 and 1 never ran.
    """
    X = rng.normal(size=(6, 1, 40)).cumsum(axis=2)
    passes = {s._pass for s in _grid(check_collection("X", X, "nct"), "auto", "auto", "auto")}
    both = {
        (scaling, position, order) for scaling in ("global", "series") for position, order in ((True, 1), (False, 2))
    }
    assert passes == both | {("global", False, 10)}
    alike = (X - X.mean(axis=2, keepdims=True)) / X.std(axis=2, keepdims=True)
    passes = {s._pass for s in _grid(check_collection("X", alike, "nct"), "auto", "auto", "auto")}
    assert passes == {("global", True, 1)} | {("global", False, order) for order in (1, 2, 5, 10)}


def test_agreement_is_adjusted_mutual_information(rng):
    from sklearn.metrics import adjusted_mutual_info_score

    a = np.tile([0, 1, 2], 10)
    for b in (a, np.zeros(30, int), np.roll(a, 1), np.where(rng.random(30) < 0.5, a, 3), np.arange(30)):
        _, b = np.unique(b, return_inverse=True)
        assert _adjusted_mutual_information(a, b) == pytest.approx(adjusted_mutual_info_score(a, b), abs=1e-12)


def test_it_prints_as_a_summary_not_as_its_matrices(found):
    sizes, marks, setting = str(found).splitlines()
    assert sizes == f"{len(found.labels)} series in 3 clusters of {', '.join(map(str, np.bincount(found.labels)))}"
    words = f"agreement of settings and algorithms {found.agreement:.2f}, silhouette {found.silhouette:.2f}"
    assert marks == words
    assert setting.startswith(f"5 of {len(found.tried)} settings voted; the best: windows of {found.setting.order}, ")
    assert "distances" not in repr(found)


def test_given_settings_are_kept():
    found = cluster(waves(), 3, order=2, factor=0.3, scaling="raw", n_jobs=1)
    assert found.votes == (Setting(2, 0.3, "raw"),)
    assert found.tried == ()
    found = cluster(waves(), 3, order=2, scaling="raw", method="k_medoids", n_jobs=1)
    assert {(t.setting.order, t.setting.scaling) for t in found.tried} == {(2, "raw")}
    assert {t.setting.factor for t in found.tried} == set(TRIED_FACTORS)


def test_the_number_of_clusters_is_chosen():
    found = cluster(waves(), "auto", order=2, n_jobs=1)
    assert len(np.unique(found.labels)) == 3
    assert found.k_marks[3] == max(found.k_marks.values())


def test_one_giant_cluster_earns_no_mark():
    """Two algorithms that set one series apart agree perfectly; the balance takes it away."""
    labels = np.array([0] * 29 + [1])
    assert _balance(labels, 2) < 0.22
    assert _balance(np.array([0, 1] * 15), 2) == pytest.approx(1.0)
    giant, fair = (Trial(Setting(1, 1.0, "raw"), a, b, 30) for a, b in ((1.0, _balance(labels, 2)), (0.4, 1.0)))
    assert giant.mark < fair.mark


def test_windows_fit_the_shortest_series_and_its_gaps():
    long, short = np.sin(np.arange(80.0)), np.cos(np.arange(20.0))
    collection = check_collection("X", [long, short, long + 1], "nct", "drop")
    assert sorted({s.order for s in _grid(collection, "auto", 1.0, "raw")}) == [1, 2, 5]
    gappy = long.copy()
    gappy[::4] = np.nan
    collection = check_collection("X", [long, gappy, long + 1], "nct", "drop")
    assert sorted({s.order for s in _grid(collection, "auto", 1.0, "raw")}) == [1, 2]


def test_scalings_that_are_one_are_tried_once():
    """Standardised series have nothing left to standardise; for one channel "raw" and "global" are the same."""
    X = waves()
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True)
    collection = check_collection("X", X, "nct")
    assert {s.scaling for s in _grid(collection, 1, 1.0, "auto")} == {"global"}
    shifted = check_collection("X", X + np.arange(18.0)[:, None], "nct")
    assert {s.scaling for s in _grid(shifted, 1, 1.0, "auto")} == {"global", "series"}
    raw, same = _matrices(shifted, [Setting(2, 0.4, "raw"), Setting(2, 0.4, "global")], 1)
    assert same == pytest.approx(raw, rel=1e-6, abs=1e-9)


def test_scalings():
    X = [np.array([[0.0, 2.0], [5.0, 5.0]]), np.array([[4.0, 6.0, 8.0], [5.0, 5.0, 5.0]])]
    collection = check_collection("X", X, "nct")
    assert with_scaling(collection, "series").series(0).T.tolist() == [[-1.0, 1.0], [0.0, 0.0]]
    pool = np.array([0.0, 2, 4, 6, 8])
    assert with_scaling(collection, "global").series(1)[:, 0] == pytest.approx((pool[2:] - 4) / pool.std())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"k": 1}, ParameterError, "`k` must be an integer from 2"),
        ({"k": "many"}, ParameterError, "`k`"),
        ({"k": 2, "order": "takens"}, ParameterError, "`order`"),
        ({"k": 2, "scaling": "log"}, ParameterError, "`scaling`"),
        ({"k": 2, "method": "ward"}, ParameterError, "`method`"),
        ({"k": 2, "order": 60}, ShapeError, "time points"),
    ],
)
def test_bad_settings(options, error, words):
    with pytest.raises(error, match=words):
        cluster(waves(2), **options)


def bumps():
    """One bump at one of three places: the same dynamics, other shapes."""
    rng = np.random.default_rng(3)
    places = np.repeat([0.3, 0.5, 0.7], 8)
    t = np.linspace(0, 1, 60)
    return np.exp(-(((t - places[:, None]) / 0.08) ** 2)) + 0.1 * rng.normal(size=(24, 60)), np.repeat([0, 1, 2], 8)


def test_shapes_are_told_apart_by_the_position_in_time(monkeypatch):
    X, truth = bumps()
    assert normalized_mutual_information(truth, cluster(X, 3, n_jobs=1).labels) == pytest.approx(1.0)
    monkeypatch.setattr(_series_clusters, "TRIED_WINDOWS", tuple(w for w in _series_clusters.TRIED_WINDOWS if not w[1]))
    assert normalized_mutual_information(truth, cluster(X, 3, n_jobs=1).labels) < 0.5


def test_position_is_a_channel_with_the_variance_of_the_others():
    rng = np.random.default_rng(0)
    collection = check_collection("X", [rng.normal(size=(2, 400)), 3 * rng.normal(size=(2, 300))], "nct")
    placed = with_position(collection)
    assert placed.channels == 3
    assert (placed.frames[:, :2] == collection.frames).all()
    for i in range(2):
        times = placed.series(i)[:, 2]
        assert np.allclose(np.diff(times), times[1] - times[0])
        # A uniform distribution over [-r, r] has the variance r^2 / 3; at n points (n + 1) / (n - 1) times that.
        n = len(times)
        assert times.var() == pytest.approx(collection.frames.var(axis=0).sum() * (n + 1) / (n - 1), rel=1e-9)


def test_position_is_tried_unless_all_else_is_given():
    collection = check_collection("X", waves(), "nct")
    assert {s.position for s in _grid(collection, "auto", 1.0, "raw")} == {False, True}
    assert {s.position for s in _grid(collection, 2, 1.0, "raw")} == {False}


def test_series_at_rest_at_different_levels_were_an_error_about_distances():
    """Standardised each by itself they are all the same: that scaling is left out."""
    X = np.repeat(np.arange(3.0), 4)[:, None] * np.ones(30)
    assert cluster(X, 3).labels.tolist() == np.repeat([0, 1, 2], 4).tolist()
    with pytest.raises(DataError, match="`X` must hold series that differ"):
        cluster(np.ones((5, 30)), 2)
