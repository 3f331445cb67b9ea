"""The store of trials: what is on disk is whole, and belongs to one specification."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from condcs._core.files import WriteError
from condcs_reproduction import StoreError, Task, TrialStore, experiment_named

EXPERIMENT = experiment_named("table3").version(quick=True)
TASKS = [Task("case", repeat, (repeat,)) for repeat in range(3)]


def filled(path):
    with TrialStore(path, EXPERIMENT) as store:
        for task in TASKS:
            store.append(task, {"value": 0.1 * task.repeat}, 0.5)
    return path


def test_stored_trials_come_back(tmp_path):
    """To the last digit."""
    with TrialStore(filled(tmp_path / "a" / "trials.jsonl"), EXPERIMENT) as store:
        assert store.results == {t.key: {"value": 0.1 * t.repeat} for t in TASKS}
        assert all(task in store for task in TASKS)
        assert Task("case", 3, (3,)) not in store


@pytest.mark.parametrize("cut", [1, 2, 10])
def test_torn_last_line_is_dropped(tmp_path, cut):
    """A kill in the middle of a write costs that trial only, and the next one starts on a line of its own."""
    path = filled(tmp_path / "trials.jsonl")
    path.write_bytes(path.read_bytes()[:-cut])
    with TrialStore(path, EXPERIMENT) as store:
        assert set(store.results) == {t.key for t in TASKS[:2]}
        store.append(TASKS[2], {"value": 7.0}, 0.5)
    with TrialStore(path, EXPERIMENT) as store:
        assert store.results[TASKS[2].key] == {"value": 7.0}
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_torn_header_starts_again(tmp_path):
    path = tmp_path / "trials.jsonl"
    path.write_bytes(b'{"finger')
    with TrialStore(path, EXPERIMENT) as store:
        assert not store.results
    assert json.loads(path.read_text())["fingerprint"] == EXPERIMENT.fingerprint()


def test_damaged_line_is_named(tmp_path):
    """Only the last line can be torn; anything else is damage that nobody should guess about."""
    path = filled(tmp_path / "trials.jsonl")
    lines = path.read_text().splitlines()
    lines[2] = "garbage"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(StoreError, match=r"damaged at line 3.*--fresh"):
        TrialStore(path, EXPERIMENT)


def test_changed_byte_is_never_loaded_as_another_value(tmp_path):
    """Every byte of the file in turn: the store is refused, or gives what was stored.

    A newline at the end that is no longer one makes the last line a torn one, whose trial is run again.
    """
    path = filled(tmp_path / "trials.jsonl")
    whole = path.read_bytes()
    with TrialStore(path, EXPERIMENT) as store:
        stored = {**store.results}
    changes = np.random.default_rng(0).integers(1, 256, size=len(whole))
    refused = []
    for place, change in enumerate(changes):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ int(change)]) + whole[place + 1 :])
        try:
            with TrialStore(path, EXPERIMENT) as store:
                assert store.results.items() <= stored.items(), place
                assert len(store.results) >= len(stored) - 1
        except StoreError as error:
            refused.append(str(error))
    assert len(refused) == len(whole) - 1
    assert all("--fresh" in message for message in refused)


@pytest.mark.parametrize("wrong", ["file/store/trials.jsonl", "folder"])
def test_store_in_a_wrong_place_is_a_message(tmp_path, wrong):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteError, match=r"could not be written: .*name another place"):
        TrialStore(tmp_path / wrong, EXPERIMENT)


LIMITED = """
import resource, sys
from pathlib import Path
from tests.experiments.test_store import EXPERIMENT, TASKS, TrialStore, WriteError
with TrialStore(Path(sys.argv[1]), EXPERIMENT) as store:
    store.append(TASKS[0], {"value": 0.0}, 0.5)
    size = store.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, size + 20))
    try:
        store.append(TASKS[1], {"value": 0.1}, 0.5)
    except WriteError as error:
        print(error)
"""


def test_trial_that_found_no_space_costs_no_other(tmp_path):
    """A part of its line gets onto the disk, and is dropped by the next run as a torn one."""
    pytest.importorskip("resource")
    path = tmp_path / "trials.jsonl"
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True)
    assert "could not be written: File too large" in done.stdout, done.stderr
    assert not path.read_bytes().endswith(b"\n")
    with TrialStore(path, EXPERIMENT) as store:
        assert set(store.results) == {TASKS[0].key}


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (replace(EXPERIMENT, seed=1), "seed: stored 20250202, wanted 1"),
        (replace(EXPERIMENT, parameters={**EXPERIMENT.parameters, "n": 31}), "parameters.n: stored 30, wanted 31"),
        (replace(EXPERIMENT, revision=9), "revision: stored 1, wanted 9"),
    ],
)
def test_other_specification_is_refused(tmp_path, other, named):
    """The message says what differs and what to do; --fresh does it."""
    path = filled(tmp_path / "trials.jsonl")
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        TrialStore(path, other)
    for part in (named, "--fresh", "--out"):
        assert part in str(caught.value)
    assert path.read_bytes() == before
    with TrialStore(path, other, fresh=True) as store:
        assert not store.results


def test_repeats_do_not_change_the_specification():
    """More trials continue the same store."""
    assert EXPERIMENT.version(trials=50).fingerprint() == EXPERIMENT.fingerprint()
    assert experiment_named("table3").fingerprint() != EXPERIMENT.fingerprint()
    assert experiment_named("fig4").fingerprint() == experiment_named("table3").fingerprint()


def test_store_in_use_is_refused(tmp_path):
    path = tmp_path / "trials.jsonl"
    with TrialStore(path, EXPERIMENT), pytest.raises(StoreError, match="in use by another run"):
        TrialStore(path, EXPERIMENT)
    TrialStore(path, EXPERIMENT).__exit__(None, None, None)


def test_results_that_are_no_numbers_are_refused(tmp_path):
    """NaN would be read back by nobody but Python."""
    with TrialStore(tmp_path / "t.jsonl", EXPERIMENT) as store, pytest.raises(ValueError, match="not JSON compliant"):
        store.append(TASKS[0], {"value": float("nan")}, 0.1)
