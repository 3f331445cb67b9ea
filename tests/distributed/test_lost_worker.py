"""A cluster of two worker processes, one of which is killed in the middle: the numbers are those of one process."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import condcs
from condcs.core.parallel import ClusterError, dask_cluster, spread
from condcs.experiments import experiment_named, run

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")

QUICK = experiment_named("table3").version(quick=True, trials=2)


def assassin(marker: Path):
    """A function that kills the process that calls it with kill -9: once, and never the one it was made in."""
    parent, path = os.getpid(), str(marker)

    def kill() -> None:
        if os.getpid() == parent:
            return
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return kill


def test_experiment_outlives_a_killed_worker(cluster, tmp_path):
    """The trial that was in hand, and those that waited for that worker, are run by the other."""
    whole, _ = run(QUICK, tmp_path / "whole", jobs=1)
    kill, original, done = assassin(tmp_path / "killed"), QUICK.trial, tmp_path / "done"
    done.touch()

    def trial(parameters, arguments, rng):
        result = original(parameters, arguments, rng)
        with done.open("a") as log:
            log.write(f"{os.getpid()}\n")
        if done.read_text().count("\n") > 5:
            kill()
        return result

    with dask_cluster(cluster) as workers:
        assert workers.count == 2
        results, _ = run(replace(QUICK, trial=trial), tmp_path / "killed-run")
    assert (tmp_path / "killed").exists()
    assert json.dumps(results) == json.dumps(whole)
    pids = done.read_text().split()
    assert len(pids) > 24  # at least the trial that ended in the kill was computed twice
    assert str(os.getpid()) not in pids
    assert len(set(pids)) >= 2


def test_resampling_outlives_a_killed_worker(cluster, tmp_path):
    """The pool that was on the lost worker comes back as well."""
    kill = assassin(tmp_path / "killed")

    def kernel(a, b):
        kill()
        return np.exp(-np.abs(a - b.T))

    x = np.random.default_rng(0).normal(size=(2, 60, 1))
    y = x + np.random.default_rng(1).normal(size=(2, 60, 1))
    settings = {"kernel_y": kernel, "n_resamples": 450, "rng": 3}
    local = condcs.conditional_test(x[0], y[0], x[1], y[1], **settings)
    assert not (tmp_path / "killed").exists()
    with dask_cluster(cluster):
        distributed = condcs.conditional_test(x[0], y[0], x[1], y[1], **settings)
    assert (tmp_path / "killed").exists()
    assert np.array_equal(distributed.null_distribution, local.null_distribution)
    assert distributed.pvalue == local.pvalue


def test_a_call_that_kills_every_worker_ends_in_an_error(cluster):
    """Dask gives it up after some workers; joblib alone would wait for it forever."""

    def poison(number):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with dask_cluster(cluster) as workers, pytest.raises(ClusterError, match="2 Dask workers died of one and the same"):
        list(spread(poison, [(number,) for number in range(4)], workers))
