"""A cluster of two worker processes, one of which is killed in the middle: the numbers are those of one process."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import condcs
from condcs._parallel.dask_cluster import ClusterError, cluster_results, dask_cluster
from condcs._parallel.spreading import spread
from condcs_reproduction import experiment_named, run

from .conftest import start, start_scheduler

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")]

QUICK = experiment_named("table3").version(quick=True, trials=2)


def assassin(folder: Path, victims: int = 1):
    """A function that kills the process that calls it with kill -9: so many of them, and never the one it was made in.

    Each leaves a file in the folder.
    """
    parent, files = os.getpid(), [str(folder / f"killed-{number}") for number in range(victims)]

    def kill() -> None:
        if os.getpid() == parent:
            return
        for file in files:
            try:
                os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def killed(folder: Path) -> int:
    return len(list(folder.glob("killed-*")))


def test_experiment_outlives_a_killed_worker(cluster, tmp_path):
    """The trial that was in hand, and those that waited for that worker, are run by the other."""
    whole, _ = run(QUICK, tmp_path / "whole", jobs=1)
    kill, original, done = assassin(tmp_path), QUICK.trial, tmp_path / "done"
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
        results, _ = run(replace(QUICK, trial=trial), tmp_path / "run")
    assert killed(tmp_path) == 1
    assert json.dumps(results) == json.dumps(whole)
    pids = done.read_text().split()
    assert len(pids) > 24  # at least the trial that ended in the kill was computed twice
    assert str(os.getpid()) not in pids
    assert len(set(pids)) >= 2


def test_resampling_outlives_all_workers(cluster, tmp_path):
    """Both die before a new one is there, and with them every copy of the pool: that comes back as well."""
    kill = assassin(tmp_path, victims=2)

    def kernel(a, b):
        kill()
        return np.exp(-np.abs(a - b.T))

    x = np.random.default_rng(0).normal(size=(2, 60, 1))
    y = x + np.random.default_rng(1).normal(size=(2, 60, 1))
    settings = {"kernel_y": kernel, "n_resamples": 450, "rng": 3}
    local = condcs.conditional_test(x[0], y[0], x[1], y[1], **settings)
    assert killed(tmp_path) == 0
    with dask_cluster(cluster):
        distributed = condcs.conditional_test(x[0], y[0], x[1], y[1], **settings)
    assert killed(tmp_path) == 2
    assert np.array_equal(distributed.null_distribution, local.null_distribution)
    assert distributed.pvalue == local.pvalue


def test_sums_over_chunks_outlive_a_killed_worker(cluster, tmp_path):
    """A pass over the rows goes on where it was: the answer is that of arrays in memory, to 1e-10."""
    kill = assassin(tmp_path)

    def kernel(a, b):
        kill()
        return np.exp(-np.abs(a - b.T))

    x = np.random.default_rng(0).normal(size=(2, 1200, 1))
    y = x[:, :, 0] * [[1.0], [0.5]] + np.random.default_rng(1).normal(size=(2, 1200))
    settings = {"kernel_y": kernel, "method": condcs.Sampled(0.5)}
    local = condcs.conditional_cs(x[0], y[0], x[1], y[1], **settings)

    def chunks(group):
        return lambda: ((x[group, i : i + 300], y[group, i : i + 300]) for i in range(0, 1200, 300))

    with dask_cluster(cluster):
        distributed = condcs.chunked_divergence(chunks(0), chunks(1), **settings)
    assert killed(tmp_path) == 1
    assert distributed == pytest.approx(local, rel=1e-10)
    assert distributed.n_anchors == local.n_anchors


def test_a_call_that_kills_every_worker_ends_in_an_error(cluster):
    """Dask gives it up after some workers; nobody waits for it forever."""

    def poison(number):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with (
        dask_cluster(cluster) as workers,
        pytest.raises(ClusterError, match="3 Dask workers died while they answered the same"),
    ):
        list(spread(poison, [(number,) for number in range(4)], workers))


def test_a_lost_scheduler_ends_in_an_error_and_a_resumable_store(tmp_path):
    scheduler, address = start_scheduler()
    worker = start("worker", address, "--nworkers", "1", "--nthreads", "1", "--no-nanny")

    def lose(done, total, case):
        if done == 3:
            scheduler.kill()

    try:
        with (
            pytest.raises(ClusterError, match=r"scheduler at tcp://.* was lost.* of 24 trials are stored: the same"),
            dask_cluster(address),
        ):
            run(QUICK, tmp_path, progress=lose)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    told = []
    run(QUICK, tmp_path, jobs=1, progress=lambda done, total, case: told.append(done))
    assert told[0] >= 3


def test_a_worker_lost_after_its_result_had_come_was_an_error(monkeypatch):
    """A future is pending again when the worker that holds its result is lost, even if the result is here by then."""

    class Future:
        status = "pending"

    class Completed(list):
        def __init__(self, **options):
            super().__init__()

        def add(self, future):
            self.append((future, 49))

    class Client:
        loop, scheduler, status = None, None, "running"

        def submit(self, *call, **options):
            return Future()

    monkeypatch.setattr(distributed, "as_completed", Completed)
    assert list(cluster_results(int, [("7",)], Client(), None)) == [(0, 49)]
