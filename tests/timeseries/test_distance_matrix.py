"""The matrix does not depend on threads, processes, blocks, workers that die, or runs that are cut short."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import joblib
import numpy as np
import pytest

from condcs._core.errors import CondcsWarning, ParameterError
from condcs._core.files import WriteError, locked
from condcs.timeseries import MatrixOutput, _distance_matrix, ccs_pairwise_distance

SETTINGS = {"order": 2, "factor": 0.5}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(5).normal(size=(30, 2, 40)).cumsum(axis=2)


@pytest.fixture(scope="module")
def D(X):
    return ccs_pairwise_distance(X, **SETTINGS, n_jobs=1)


@pytest.fixture
def many_blocks(monkeypatch):
    """Cut into many small blocks, and send even these to workers."""
    monkeypatch.setattr(_distance_matrix, "_MAX_SIDE", 4)
    monkeypatch.setattr(_distance_matrix, "_SECONDS_WORTH_A_THREAD", 0.0)


@pytest.mark.parametrize("side", [1, 3, 7, 64])
def test_blocks_make_no_difference(X, D, monkeypatch, side):
    monkeypatch.setattr(_distance_matrix, "block_side", lambda job, a, b, n_workers: side)
    assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS), D)
    Y = X[:5, :, :31]
    assert np.array_equal(
        ccs_pairwise_distance(X, Y, **SETTINGS)[3, 2], ccs_pairwise_distance(X[3:4], Y[2:3], **SETTINGS)[0, 0]
    )


def test_blocks_make_no_difference_to_wide_frames(monkeypatch):
    W = np.random.default_rng(6).normal(size=(7, 15, 60)).cumsum(axis=1)
    matrices = []
    for side in (1, 3, 8):
        monkeypatch.setattr(_distance_matrix, "block_side", lambda job, a, b, n_workers, side=side: side)
        matrices.append(ccs_pairwise_distance(W, order=1, layout="ntc"))
    assert np.array_equal(matrices[0], matrices[1])
    assert np.array_equal(matrices[0], matrices[2])


@pytest.mark.usefixtures("many_blocks")
def test_threads_make_no_difference(X, D):
    for n_jobs in (None, 2, 3):
        assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS, n_jobs=n_jobs), D)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS), D)


@pytest.mark.usefixtures("many_blocks")
def test_processes_make_no_difference(X, D):
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS), D)


@pytest.mark.slow
@pytest.mark.usefixtures("many_blocks")
def test_a_dask_worker_killed_in_the_middle_makes_no_difference(X, D, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'condcs[dask]'")
    written = []
    write = _distance_matrix._write

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = client.run(os.getpid)
        assert len(workers) == 2

        def write_and_kill(*args, **options):
            write(*args, **options)
            written.append(args[1:3])
            if len(written) == 5:
                os.kill(next(iter(workers.values())), signal.SIGKILL)

        monkeypatch.setattr(_distance_matrix, "_write", write_and_kill)
        with joblib.parallel_config(backend="dask"):
            computed = ccs_pairwise_distance(X, **SETTINGS)
        assert set(client.run(os.getpid).values()) != set(workers.values()) or len(client.run(os.getpid)) < 2
    assert len(written) > 5
    assert np.array_equal(computed, D)


@pytest.mark.usefixtures("many_blocks")
def test_a_run_cut_short_continues_from_its_folder(X, D, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    write = _distance_matrix._write
    written = []

    def write_until_killed(*args, **options):
        if len(written) == 9:
            raise KeyboardInterrupt
        write(*args, **options)
        written.append(args[1:3])

    with monkeypatch.context() as patch:
        patch.setattr(_distance_matrix, "_write", write_until_killed)
        with pytest.raises(KeyboardInterrupt):
            ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=folder), n_jobs=1)
    done = np.load(folder / "done.npy")
    assert np.count_nonzero(done) == 9

    resumed = []

    def write_and_note(*args, **options):
        write(*args, **options)
        resumed.append(args[1:3])

    monkeypatch.setattr(_distance_matrix, "_write", write_and_note)
    kept = ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=folder))
    blocks = 8 * 9 // 2  # 30 series in 8 runs of 4, the diagonal and above
    assert len(resumed) == blocks - 9
    assert not set(resumed) & set(written)
    assert isinstance(kept, np.memmap)
    assert np.array_equal(kept, D)
    # All done: nothing is computed again.
    ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=folder))
    assert len(resumed) == blocks - 9


def test_a_folder_of_another_problem_is_refused(X, tmp_path):
    folder = tmp_path / "run"
    ccs_pairwise_distance(X[:4], order=2, output=MatrixOutput(store=folder))
    for call in (
        lambda: ccs_pairwise_distance(X[:4], order=3, output=MatrixOutput(store=folder)),
        lambda: ccs_pairwise_distance(X[:4] + 1e-9, order=2, output=MatrixOutput(store=folder)),
        lambda: ccs_pairwise_distance(X[:4], order=2, factor=0.5, output=MatrixOutput(store=folder)),
        lambda: ccs_pairwise_distance(X[:4], order=2, output=MatrixOutput("float32", folder)),
        lambda: ccs_pairwise_distance(X[:4], X[:4], order=2, output=MatrixOutput(store=folder)),
    ):
        with pytest.raises(ParameterError, match=r"`store` must be a new folder.*differs"):
            call()
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(ParameterError, match="holds other files"):
        ccs_pairwise_distance(X[:4], order=2, output=MatrixOutput(store=other))
    assert (other / "notes.txt").read_text() == "mine"


def truncate(folder):
    with (folder / "distances.npy").open("r+b") as file:
        file.truncate(2000)


def change(name, *places):
    def damage(folder):
        content = bytearray((folder / name).read_bytes())
        for place in places:
            content[place] ^= 0x10
        (folder / name).write_bytes(content)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        lambda folder: (folder / "distances.npy").write_bytes(b""),
        lambda folder: (folder / "distances.npy").unlink(),
        lambda folder: np.save(folder / "distances.npy", np.zeros((3, 3), np.float32)),
        change("distances.npy", 128 + 8 * 7),  # row 0, column 7: above the diagonal
        change("distances.npy", 128 + 8 * 30 * 7),  # its mirror image
        change("distances.npy", 10, 40, -5),  # the header too
        change("done.npy", 128, 140),
    ],
)
@pytest.mark.usefixtures("many_blocks")
def test_damaged_blocks_are_computed_again_not_trusted(X, D, tmp_path, damage):
    """Cut off, emptied, of another type, or changed by one bit: the resumed run says so, and gives the same matrix."""
    folder = tmp_path / "run"
    ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=folder))
    damage(folder)
    with pytest.warns(CondcsWarning, match=r"of 36 finished blocks of distances in .* are computed again") as told:
        assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=folder)), D)
    assert told[0].filename == __file__
    # Mended: the next run has nothing to complain about.
    assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=folder)), D)


@pytest.mark.usefixtures("many_blocks")
def test_lost_notes_of_finished_blocks_cost_time_only(X, D, tmp_path):
    ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=tmp_path / "run"))
    (tmp_path / "run" / "done.npy").unlink()
    assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(store=tmp_path / "run")), D)


def test_damaged_description_of_a_store_is_a_message(X, tmp_path):
    folder = tmp_path / "run"
    ccs_pairwise_distance(X[:4], order=2, output=MatrixOutput(store=folder))
    whole = (folder / "problem.json").read_bytes()
    for damaged in (b"", whole[:-5], whole.replace(b'"side": 1', b'"side": 0'), b'{"side": 1}', b"\xff\x00"):
        assert damaged != whole
        (folder / "problem.json").write_bytes(damaged)
        with pytest.raises(ParameterError, match=r"`store` must be .* is damaged .* delete this one"):
            ccs_pairwise_distance(X[:4], order=2, output=MatrixOutput(store=folder))


def test_a_folder_in_use_is_refused(X, tmp_path):
    with locked(tmp_path / ".lock"), pytest.raises(ParameterError, match="no other process is using"):
        ccs_pairwise_distance(X[:4], order=2, output=MatrixOutput(store=tmp_path))


def test_a_folder_that_cannot_be_made_is_a_message(X, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"`store` .*could not be written: "):
        ccs_pairwise_distance(X[:4], order=2, output=MatrixOutput(store=tmp_path / "file" / "run"))


FULL_DISK = """
import resource, sys
import numpy as np
from condcs._core.errors import CondcsError
from condcs.timeseries import MatrixOutput, ccs_pairwise_distance
X = np.random.default_rng(5).normal(size=(200, 1, 6))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    ccs_pairwise_distance(X, order=1, output=MatrixOutput(store=sys.argv[1]), n_jobs=1)
except CondcsError as error:
    print(error)
"""


def test_full_disk_is_a_message_before_any_work_not_a_crash(tmp_path):
    """The matrix takes 320 kB; a limit on the size of files stands for the end of the disk."""
    pytest.importorskip("resource")
    words = [sys.executable, "-c", FULL_DISK, tmp_path / "run"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "could not be written: File too large. Free some space" in done.stdout


def test_a_folder_whose_making_was_cut_short_is_begun_again(X, tmp_path):
    folder = tmp_path / "run"
    expected = np.array(ccs_pairwise_distance(X[:6], order=1, output=MatrixOutput(store=folder)))
    problem = json.loads((folder / "problem.json").read_text())
    assert problem["shape"] == [6, 6]
    (folder / "problem.json").unlink()
    assert np.array_equal(ccs_pairwise_distance(X[:6], order=1, output=MatrixOutput(store=folder)), expected)


def test_a_matrix_on_disk_of_an_asymmetric_measure(X, tmp_path):
    settings = {"order": 1, "measure": "conditional_kl"}
    kept = ccs_pairwise_distance(X[:4], **settings, output=MatrixOutput(store=tmp_path / "run"))
    assert np.array_equal(kept, ccs_pairwise_distance(X[:4], **settings))


def test_progress_shows_a_bar(X, D, capsys):
    assert np.array_equal(ccs_pairwise_distance(X, **SETTINGS, output=MatrixOutput(progress=True)), D)


MEMORY = """
import re
import numpy as np
from condcs.timeseries import MatrixOutput, ccs_pairwise_distance
def megabytes(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
Z = np.random.default_rng(0).normal(size=(300, 1, 120))
ccs_pairwise_distance(Z[:20], order=2, bandwidth={bandwidth}, n_jobs=2)
open("/proc/self/clear_refs", "w").write("5")  # the peak so far, that of the compiler, is forgotten
before = megabytes("VmRSS")
keep = np.ones({ballast} * 2**17)
ccs_pairwise_distance(Z, order=2, bandwidth={bandwidth}, n_jobs=2)
print(megabytes("VmHWM") - before)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="peaks are read from Linux's /proc")
@pytest.mark.slow
def test_memory_is_that_of_the_matrix():
    """300 series of 118 windows: the matrix takes 0.7 MB, the three triangles of 56 KB of every series 50 MB.

    With known widths two threads hold a few matrices for one pair. With widths of each pair's own, both also hold the
    triangles of the 2 x 38 series of a block, 13 MB. The same run with 40 MB more shows that the measurement would see
    them.
    """

    def peak(ballast, bandwidth):
        code = MEMORY.format(ballast=ballast, bandwidth=bandwidth)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert 0.5 < peak(0, 1.0) < 16
    assert 0.5 < peak(0, "'pair-median'") < 32
    assert peak(40, 1.0) > 40
