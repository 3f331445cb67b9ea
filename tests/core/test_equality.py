"""Results that hold arrays: `==` and `hash` by value, and pickles that still work."""

import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np
import pytest

import condcs
from condcs._core.arrays import ByValue
from condcs.causal import causal_graph
from condcs.datasets import make_local_shift, make_nlvar3
from condcs.timeseries import cluster_distances


def two_samples(shift=0.0):
    rng = np.random.default_rng(0)
    return condcs.two_sample_test(rng.normal(size=40), shift + rng.normal(size=30), n_resamples=19, rng=0)


def conditional(measure="conditional_cs"):
    x, y = np.random.default_rng(0).normal(size=(2, 60))
    return condcs.conditional_test(x[:30], y[:30], x[30:], y[30:], measure=measure, n_resamples=19, rng=0)


def local():
    data = make_local_shift(40)
    return data.xp, data.yp, data.xq, data.yq


MAKERS = {
    "test": two_samples,
    "conditional test": conditional,
    "witness": lambda: condcs.witness(*local(), n_resamples=19),
    "explanation": lambda: condcs.explain(*local(), n_resamples=39),
    "graph": lambda: causal_graph(make_nlvar3(100, rng=0).series, n_resamples=19, rng=0),
    "local shift": lambda: make_local_shift(20),
    "series": lambda: make_nlvar3(50, rng=0),
    "clusters": lambda: cluster_distances(1.0 - np.kron(np.eye(2), np.ones((4, 4))), 2),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_equality_and_hash_of_results_do_not_raise(make):
    """Made twice from one seed they are equal, hash alike and count as one in a set; a pickle is equal too."""
    first, second = make(), make()
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second}) == 1
    assert pickle.loads(pickle.dumps(first)) == first
    assert first != "something else"


def test_results_of_other_data_differ():
    first, other = two_samples(), two_samples(1.0)
    assert first != other
    assert first != replace(first, null_distribution=first.null_distribution[::-1])
    assert first != replace(first, bandwidths={})


@dataclass(frozen=True, eq=False)
class Holder(ByValue):
    part: Any
    aside: Any = field(default=None, compare=False)


EQUAL = [
    (np.array([1.0, np.nan]), np.array([1.0, np.nan])),
    (np.array([1.0]), np.array([1], np.int64)),
    (np.array(["a"]), np.array(["a"])),
    ({"a": np.ones(2), "b": [1]}, {"b": [1], "a": np.ones(2)}),
    ((1, (np.zeros(2),)), (1, (np.zeros(2),))),
    (float("nan"), np.float64("nan")),
    (0.0, -0.0),
    (None, None),
]
DIFFERENT = [
    (np.array([1.0]), np.array([2.0])),
    (np.array([1.0]), np.array([1.0, 1.0])),
    (np.array([1.0]), None),
    (np.array([1.0]), 1.0),
    ({"a": 1}, {"b": 1}),
    ((1, 2), (1,)),
    (float("nan"), 0.0),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_parts(a, b):
    assert Holder(a, 1) == Holder(b, 2)
    assert hash(Holder(a)) == hash(Holder(b))


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_parts(a, b):
    assert Holder(a) != Holder(b)


@pytest.mark.parametrize("measure", ["conditional_cs", "conditional_kl", "conditional_bregman"])
def test_confidence_interval_works_after_pickling(measure):
    result = conditional(measure)
    expected = result.confidence_interval(n_resamples=20, rng=1)
    assert pickle.loads(pickle.dumps(result)).confidence_interval(n_resamples=20, rng=1) == expected


def test_results_come_back_from_processes():
    """Joblib pickles what a process returns."""
    with joblib.parallel_config(backend="loky", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(two_samples)(shift) for shift in (0.0, 1.0))
    assert found == [two_samples(0.0), two_samples(1.0)]
    assert found[1].estimate(n_resamples=20, rng=0) == two_samples(1.0).estimate(n_resamples=20, rng=0)
