"""Distances between series inside scikit-learn and aeon."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from condcs._core.errors import ParameterError
from condcs.adapters import SeriesDistances
from condcs.timeseries import ccs_distance, ccs_pairwise_distance

TWO_POINTS = "the check's data has two time points; a window, its successor and a second window take three"
TRUTH = np.repeat([0, 1, 2], 6)


@pytest.fixture(scope="module")
def X():
    """Three frequencies, six phases each, of shape (18, 1, 60)."""
    t, rng = np.arange(60), np.random.default_rng(0)
    waves = [np.sin(speed * t + phase) for speed in (0.3, 0.6, 0.9) for phase in range(6)]
    return np.stack(waves)[:, None] + 0.05 * rng.normal(size=(18, 1, 60))


def expected_failures(estimator):
    return dict.fromkeys(
        (
            "check_estimators_overwrite_params",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_fit_idempotent",
            "check_fit_check_is_fitted",
            "check_n_features_in",
        ),
        TWO_POINTS,
    )


@parametrize_with_checks([SeriesDistances()], expected_failed_checks=expected_failures)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_distances_of_fitted_and_new_series(X):
    step = SeriesDistances(order=3, factor=0.5)
    D = step.fit_transform(X)
    assert np.array_equal(D, ccs_pairwise_distance(X, order=3, factor=0.5))
    assert np.allclose(step.transform(X[:4]), D[:4], atol=1e-10)
    ragged = [X[0][:, :30], X[1]]
    assert step.transform(ragged).shape == (2, 18)


def test_spectral_clustering_in_a_pipeline(X):
    clusterer = SpectralClustering(3, affinity="precomputed", random_state=0)
    labels = make_pipeline(SeriesDistances(order=3, output="affinity"), clusterer).fit_predict(X)
    assert all(len(set(labels[k == TRUTH])) == 1 for k in range(3))
    assert len(set(labels)) == 3


def test_nearest_neighbours_in_a_pipeline(X):
    model = make_pipeline(SeriesDistances(order=3), KNeighborsClassifier(1, metric="precomputed"))
    assert (model.fit(X[::2], TRUTH[::2]).predict(X[1::2]) == TRUTH[1::2]).all()


def test_order_and_scale_are_decided_by_fit(X):
    assert SeriesDistances("takens").fit(X).order_ >= 2
    chosen = SeriesDistances([1, 3], output="affinity").fit(X)
    assert chosen.order_ in (1, 3)
    D = ccs_pairwise_distance(X, order=chosen.order_)
    assert chosen.scale_ == np.median(D[np.triu_indices(18, 1)])
    assert np.allclose(chosen.transform(X), np.exp(-D / chosen.scale_), atol=1e-9)
    assert SeriesDistances(3, output="affinity", scale=2.0).fit(X).scale_ == 2.0


def test_gaps(X):
    Z = X.copy()
    Z[:, 0, 20] = np.nan
    D = SeriesDistances(3, missing="drop").fit_transform(Z[:, 0])
    assert np.array_equal(D, ccs_pairwise_distance(Z, order=3, missing="drop"))


@pytest.mark.parametrize("options", [{"output": "kernel"}, {"scale": -1.0}, {"bandwidth": "median"}, {"order": 0}])
def test_bad_options_are_named(X, options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}`"):
        SeriesDistances(**options).fit_transform(X)


def test_aeon_takes_the_distance_as_it_stands(X):
    clustering = pytest.importorskip(
        "aeon.clustering", reason="aeon is not installed: pip install 'condcs[timeseries]'"
    )
    from condcs.adapters import AeonDistance

    table = AeonDistance(X, order=3)
    for distance, parameters in ((ccs_distance, {"order": 3}), (table, {})):
        model = clustering.TimeSeriesKMedoids(
            3, distance=distance, distance_params=parameters, method="pam", init="random", random_state=0
        )
        labels = model.fit(X).labels_
        assert all(len(set(labels[k == TRUTH])) == 1 for k in range(3))


def test_aeon_distance_looks_up_known_series_and_computes_others(X, monkeypatch):
    from condcs.adapters import AeonDistance, _aeon

    table = AeonDistance(X, order=3, factor=0.5, n_jobs=1)
    new = X[0] + 0.1
    assert table(X[0], new) == ccs_distance(X[0], new, order=3, factor=0.5)
    monkeypatch.setattr(_aeon, "ccs_distance", None)
    assert table(X[2], X[7]) == table.distances[2, 7]
    assert table(X[2, 0], X[7, 0]) == table.distances[2, 7]
    with pytest.raises(ParameterError, match="`factor`"):
        AeonDistance(X, order=3, factor=0.0)
