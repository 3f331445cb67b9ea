"""The runner: same numbers whatever the processes, and after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from condcs._core.errors import ParameterError
from condcs_reproduction import experiment_named, run
from condcs_reproduction.runner import Interrupted

QUICK = experiment_named("table3").version(quick=True, trials=2)
COMMAND = "from condcs.cli import main; main()"


def numbers(results):
    return json.dumps(results)


def test_results_do_not_depend_on_jobs(tmp_path):
    """Bit for bit, in the same order."""
    one, _ = run(QUICK, tmp_path / "one", jobs=1)
    two, _ = run(QUICK, tmp_path / "two", jobs=2)
    assert numbers(one) == numbers(two)
    assert len(one) == 12
    assert all(list(repeats) == [0, 1] for repeats in one.values())


def test_more_trials_continue_the_store(tmp_path):
    """Earlier repeats are neither run again nor changed."""
    told = []
    first, _ = run(QUICK.version(trials=1), tmp_path, jobs=1)
    both, _ = run(QUICK, tmp_path, jobs=1, progress=lambda done, total, case: told.append((done, total)))
    assert told[0] == (12, 24)
    assert told[-1] == (24, 24)
    assert all(both[case][0] == first[case][0] for case in first)


def test_measures_see_the_same_data(tmp_path):
    """Cases share their streams; repeats do not."""
    results, _ = run(QUICK, tmp_path, jobs=1, only=["CS", "KL"])
    radii = {case: [r["radius"] for r in repeats.values()] for case, repeats in results.items() if "uniform" in case}
    assert len(radii) == 3
    assert len({tuple(r) for r in radii.values()}) == 1
    assert len(set(next(iter(radii.values())))) == 2


def test_only_names_cases(tmp_path):
    with pytest.raises(ParameterError, match=r"`only` must be part of a case, got nothing.*KL, k = 3; uniform"):
        run(QUICK, tmp_path, jobs=1, only=["nothing"])


def test_interrupt_leaves_a_resumable_store(tmp_path):
    """Ctrl-C is told as such, and what was done is kept."""

    def stop(done, total, case):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="after 5 of 24 trials"):
        run(QUICK, tmp_path, jobs=1, progress=stop)
    told = []
    run(QUICK, tmp_path, jobs=1, progress=lambda done, total, case: told.append(done))
    assert told[0] == 5


def test_trials_compute_on_one_thread(tmp_path):
    """Processes and threads together never exceed the cores asked for."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    from condcs._core.settings import current_settings

    def trial(parameters, arguments, rng):
        pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
        return {"threads": max([current_settings().n_threads, *pools]), "draw": float(rng.normal())}

    results, _ = run(replace(QUICK, trial=trial), tmp_path, jobs=1)
    trials = [t for repeats in results.values() for t in repeats.values()]
    assert {t["threads"] for t in trials} == {1}
    # Two inputs and two repeats: as many streams, each what the seed and its key say.
    expected = {float(QUICK.generator(task).normal()) for task in QUICK.tasks(QUICK.parameters, 2)}
    assert {t["draw"] for t in trials} == expected
    assert len(expected) == 4


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
@pytest.mark.slow
def test_killed_run_resumes_with_identical_numbers(tmp_path):
    """A real kill -9 in the middle; the report of the resumed run equals that of one never stopped."""
    arguments = ["reproduce", "table3", "--quick", "--trials", "2", "--jobs", "1", "--out"]
    environment = {**os.environ, "MPLBACKEND": "Agg"}

    def command(out):
        return [sys.executable, "-c", COMMAND, *arguments, str(out)]

    trials = tmp_path / "killed" / "table3-quick" / "trials.jsonl"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    victim = subprocess.Popen(command(tmp_path / "killed"), **quiet)
    try:
        while not (trials.exists() and trials.read_bytes().count(b"\n") >= 5):
            assert victim.poll() is None, "the run ended before it could be killed"
            time.sleep(0.005)
    finally:
        victim.kill()
        assert victim.wait() in (-signal.SIGKILL, 0)
    stored = trials.read_bytes().count(b"\n") - 1
    assert 0 < stored < 24
    resumed = subprocess.run(command(tmp_path / "killed"), capture_output=True, text=True, env=environment)
    assert resumed.returncode == 0, resumed.stderr
    assert f"table3: {stored} of 24 trials" in resumed.stderr
    run(QUICK, tmp_path / "whole", jobs=1)
    whole = (tmp_path / "whole" / "table3-quick" / "trials.jsonl").read_text().splitlines()
    again = trials.read_text().splitlines()
    assert sorted(map(result_of, whole)) == sorted(map(result_of, again))


def result_of(line):
    """A stored line without its time, and the checksum over it."""
    return json.dumps({k: v for k, v in json.loads(line).items() if k not in ("seconds", "crc32")}, sort_keys=True)


def test_streams_are_independent():
    """Different keys give different draws; the same key gives the same."""
    tasks = QUICK.tasks(QUICK.parameters, 2)
    draws = {task.stream: QUICK.generator(task).normal(size=3).tolist() for task in tasks}
    assert len({tuple(d) for d in draws.values()}) == len(draws) == 4
    assert np.allclose(draws[0, 0], QUICK.generator(tasks[0]).normal(size=3))
