"""Threads, processes, a cluster: one answer, bit for bit."""

import json
import os

import joblib
import numpy as np
import pytest
from typer.testing import CliRunner

import condcs
from condcs._core.errors import DataError
from condcs._parallel.dask_cluster import dask_cluster
from condcs._parallel.spreading import active_workers, spread
from condcs.causal import ConditionalCS, ShiftedWindows, causal_graph
from condcs.cli.app import app
from condcs.datasets import make_nlvar3
from condcs.explore._trials import ExploreOptions, explore
from condcs_reproduction import experiment_named, run
from condcs_reproduction.runner import Interrupted

pytestmark = pytest.mark.slow

QUICK = experiment_named("table3").version(quick=True, trials=1)


def samples():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 70, 2))
    y = x[..., :1] + rng.normal(size=(2, 70, 1)) * (1 + 0.5 * np.arange(2)[:, None, None])
    return x[0], y[0], x[1], y[1]


TESTS = {
    "aggregate": lambda xp, yp, xq, yq: condcs.conditional_test(
        xp, yp, xq, yq, bandwidth="aggregate", n_resamples=150, rng=0
    ),
    "operator": lambda xp, yp, xq, yq: condcs.conditional_test(
        xp, yp, xq, yq, measure="conditional_mmd", null="local", n_resamples=120, rng=0
    ),
    "neighbours": lambda xp, yp, xq, yq: condcs.conditional_test(
        xp, yp, xq, yq, measure="conditional_kl", null="permutation", n_resamples=120, rng=0
    ),
    "covariances": lambda xp, yp, xq, yq: condcs.conditional_test(
        xp, yp, xq, yq, measure="conditional_bregman", n_resamples=120, rng=0
    ),
    "two samples": lambda xp, yp, xq, yq: condcs.two_sample_test(yp, yq, n_resamples=250, rng=0),
    "labels": lambda xp, yp, xq, yq: condcs.conditional_test(
        xp, yp > 0, xq, yq > 0, kernel_y="delta", n_resamples=120, rng=0
    ),
    "independence": lambda xp, yp, xq, yq: condcs.independence_test(xp[:, 0], yp, given=xp[:, 1], rng=0),
    "shuffled copy": lambda xp, yp, xq, yq: condcs.independence_test(
        xp[:, 0], yp, given=xp[:, 1], measure="mmd", n_resamples=60, rng=0
    ),
}


@pytest.fixture(scope="module")
def local():
    return {name: test(*samples()) for name, test in TESTS.items()}


@pytest.fixture(scope="module")
def on_cluster(client):
    with joblib.parallel_config(backend="dask", client=client):
        return {name: test(*samples()) for name, test in TESTS.items()}


@pytest.mark.parametrize("name", TESTS)
def test_resampling_on_a_cluster(name, local, on_cluster):
    assert np.array_equal(on_cluster[name].null_distribution, local[name].null_distribution)
    assert on_cluster[name].statistic == local[name].statistic
    assert on_cluster[name].pvalue == local[name].pvalue


def test_resampling_on_processes(local):
    """What is shared is made once a process, whatever the number of batches."""
    with joblib.parallel_config(backend="loky", n_jobs=2):
        for name in ("aggregate", "independence"):
            assert np.array_equal(TESTS[name](*samples()).null_distribution, local[name].null_distribution)


def test_confidence_interval_on_a_cluster(cluster, local):
    expected = local["two samples"].confidence_interval(n_resamples=40, rng=1)
    with dask_cluster(cluster):
        assert local["two samples"].confidence_interval(n_resamples=40, rng=1) == expected


@pytest.mark.parametrize("null", [ShiftedWindows(n_windows=2), "circular"])
def test_surrogates_on_a_cluster(client, null):
    series = make_nlvar3(160, rng=0).series
    settings = {"measure": ConditionalCS(bandwidth=0.5), "null": null, "n_resamples": 60, "rng": 1}
    here = causal_graph(series, **settings)
    with joblib.parallel_config(backend="dask", client=client):
        there = causal_graph(series, **settings)
    assert np.array_equal(there.scores, here.scores, equal_nan=True)
    assert np.array_equal(there.pvalues, here.pvalues, equal_nan=True)


def test_agents_on_a_cluster(client):
    options = ExploreOptions("maze", ("random", "dtg-cs"), n_runs=3, steps=60, rows=5)
    here, counts = explore(options), []
    with joblib.parallel_config(backend="dask", client=client):
        there = explore(options, lambda found: counts.append(sum(len(runs.goals) for runs in found.values())))
    assert counts == [1, 2, 3, 4, 5, 6]
    for method in options.methods:
        assert there[method].first_goals == here[method].first_goals
        assert np.array_equal(there[method].curves, here[method].curves)
        assert np.array_equal(there[method].heat, here[method].heat)


def test_calls_on_a_cluster_keep_their_own_work_to_themselves(cluster):
    """Otherwise a trial's test would send its batches out again, and a pool of threads each would share the cores."""

    def look(number):
        import threadpoolctl

        from condcs._core.settings import current_settings

        threads = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
        return active_workers() is None, max([current_settings().n_threads, *threads])

    with dask_cluster(cluster) as workers:
        assert active_workers().count == 2
        found = dict(spread(look, [(number,) for number in range(6)], workers))
    assert found == dict.fromkeys(range(6), (True, 1))


def test_a_single_worker_is_used(cluster, monkeypatch):
    """While the other is being replaced, say, the work is still the cluster's."""
    with dask_cluster(cluster) as workers:
        monkeypatch.setattr(workers.client, "ncores", lambda: {"the only one": 1})
        found = dict(spread(lambda number: os.getpid(), [(0,), (1,)], workers))
    assert os.getpid() not in found.values()


def test_errors_of_a_call_arrive_as_they_are(cluster):
    def fail(number):
        raise DataError(f"number {number}")

    with dask_cluster(cluster) as workers, pytest.raises(DataError, match="number 0"):
        list(spread(fail, [(0,)], workers))


def test_interrupt_on_a_cluster_leaves_a_resumable_store(cluster, tmp_path):
    def stop(done, total, case):
        if done == 5:
            raise KeyboardInterrupt

    with dask_cluster(cluster), pytest.raises(Interrupted, match="after 5 of 12 trials"):
        run(QUICK, tmp_path, progress=stop)
    told = []
    run(QUICK, tmp_path, jobs=1, progress=lambda done, total, case: told.append(done))
    assert told[0] == 5


def test_reproduce_on_a_cluster(cluster, tmp_path):
    """The whole command, with the trials of one process."""
    words = ["reproduce", "table3", "--quick", "--trials", "1", "--out", str(tmp_path / "there"), "--dask", cluster]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert "2 threads of Dask workers" in answer.stderr
    told = []
    there, _ = run(QUICK, tmp_path / "there", progress=lambda done, total, case: told.append(done))
    assert told == [12]  # all were stored
    here, _ = run(QUICK, tmp_path / "here", jobs=1)
    assert json.dumps(there) == json.dumps(here)
