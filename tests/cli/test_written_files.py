"""Files that commands write: after the answer, each for itself, and an exit code that says both."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from condcs._core.files import WriteError
from condcs.cli.app import app

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full here")

QUICK = ["--y", "y", "--resamples", 20, "--jobs", 1]
FULL = "No space left on device"


def run(*words, **options):
    return CliRunner().invoke(app, [str(word) for word in words], **options)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two tables with one relation, and a third with the opposite one; series in columns and in rows."""
    folder = tmp_path_factory.mktemp("tables")
    for seed, (name, slope) in enumerate([("before", 1), ("same", 1), ("changed", -3)]):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=80)
        pd.DataFrame({"x": x, "y": slope * x + rng.normal(size=80)}).to_csv(folder / f"{name}.csv", index=False)
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"]).to_csv(folder / "columns.csv", index=False)
    np.save(folder / "series.npy", rng.normal(size=(6, 40)))
    return folder


@pytest.mark.parametrize(("other", "code"), [("same", 4), ("changed", 5)])
@pytest.mark.parametrize("as_json", [False, True])
def test_compare_lost_its_answer_when_the_page_could_not_be_written(tables, tmp_path, other, code, as_json):
    words = ["compare", tables / "before.csv", tables / f"{other}.csv", *QUICK, "--report", "/dev/full"]
    others = tmp_path / "found.xml", tmp_path / "found.md"
    ended = run(*words, "--junit", others[0], "--markdown", others[1], *(["--json"] if as_json else []))
    assert ended.exit_code == code
    if as_json:
        assert json.loads(ended.stdout)["changed"] is (code == 5)
    else:
        assert "is p(y|x) the same?" in ended.stdout
        assert "Report:" not in ended.stdout
    assert "`/dev/full` could not be written: " + FULL in " ".join(ended.stderr.split())
    assert all(path.stat().st_size for path in others)


def test_cluster_wrote_no_page_because_its_labels_could_not_be_written(tables, tmp_path):
    (tmp_path / "labels.csv").symlink_to("/dev/full")
    ended = run("cluster", tables / "series.npy", "--k", 2, "--order", 2, "--factor", 1, "--out", tmp_path)
    assert ended.exit_code == 4
    assert "Mean silhouette" in ended.stdout
    assert "Labels:" not in ended.stdout
    assert f"Page:   {tmp_path / 'clusters.html'}" in ended.stdout.replace("\n", "")
    assert "labels.csv` could not be written: " + FULL in " ".join(ended.stderr.split())
    assert (tmp_path / "clusters.html").stat().st_size


@pytest.mark.parametrize("as_json", [False, True])
def test_causal_lost_its_links_when_the_page_could_not_be_written(tables, as_json):
    quick = ["--lag", 1, "--order", 1, "--resamples", 20]
    ended = run("causal", tables / "columns.csv", *quick, "--out", "/dev/full", *(["--json"] if as_json else []))
    assert ended.exit_code == 4
    if as_json:
        assert len(json.loads(ended.stdout)["links"]) == 2
    else:
        assert "adjusted p" in ended.stdout
        assert "Page:" not in ended.stdout
    assert "`/dev/full` could not be written: " + FULL in " ".join(ended.stderr.split())


def test_explore_ended_with_an_error_after_its_table():
    pytest.importorskip("gymnasium")
    ended = run("explore", "maze", "--rows", 3, "--method", "random", "--seeds", 1, "--steps", 50, "--out", "/dev/full")
    assert ended.exit_code == 4
    assert "places seen" in ended.stdout
    assert "Written" not in ended.stdout
    assert "`/dev/full` could not be written: " + FULL in " ".join(ended.stderr.split())


def test_the_demonstration_left_half_a_picture_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda *_: (_ for _ in ()).throw(OSError(28, FULL)))
    ended = run("demo", "--rows", 40, "--out", tmp_path / "demo.png")
    assert ended.exit_code == 4
    assert "relation: is p(y|x) the same?" in ended.stdout
    assert "Picture:" not in ended.stdout
    assert "demo.png` could not be written: " + FULL in " ".join(ended.stderr.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("shift", "code"), [(0, 4), (20, 5)])
def test_watch_lost_its_account_when_the_page_could_not_be_written(tables, tmp_path, shift, code):
    rng = np.random.default_rng(5)
    x = rng.normal(size=60)
    stream = pd.DataFrame({"x": x, "y": x + shift + rng.normal(size=60)}).to_csv(index=False)
    state = tmp_path / "state.npz"
    words = ["watch", tables / "before.csv", "--y", "y", "--report", "/dev/full", "--state", state]
    ended = run(*words, input=stream)
    assert ended.exit_code == code
    assert ("y is higher" in ended.stdout) == (code == 5)
    account, failure = " ".join(ended.stderr.split()).split("`/dev/full` could not be written: ")
    assert "60 rows, " in account
    assert failure.startswith(FULL)
    assert state.exists()


def test_watch_lost_its_account_when_the_last_state_could_not_be_written(tables, tmp_path, monkeypatch):
    from condcs.cli.watch_command import StateFile

    saved = []
    save = StateFile.save

    def save_once(self):
        if saved:
            raise WriteError("`--state` state.npz could not be written: full.")
        saved.append(save(self))

    monkeypatch.setattr(StateFile, "save", save_once)
    stream = (tables / "same.csv").read_text()
    page = tmp_path / "page.html"
    ended = run(
        "watch", tables / "before.csv", "--y", "y", "--state", tmp_path / "state.npz", "--report", page, input=stream
    )
    assert ended.exit_code == 4
    assert "80 rows, 0 alarms." in ended.stderr
    assert "`--state` state.npz could not be written: full." in ended.stderr
    assert page.exists()


def test_a_page_that_fails_for_another_reason_takes_no_answer_along(tables, tmp_path, monkeypatch):
    def fail(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("condcs.comparison._result.Comparison._page", fail)
    page, summary = tmp_path / "page.html", tmp_path / "found.md"
    ended = run(
        "compare", tables / "before.csv", tables / "changed.csv", *QUICK, "--report", page, "--markdown", summary
    )
    assert ended.exit_code == 5
    assert "is p(y|x) the same?" in ended.stdout
    assert f"{page} was not written: unexpected error in condcs: ZeroDivisionError" in " ".join(ended.stderr.split())
    assert summary.exists()


def test_ctrl_c_while_a_page_is_made_denied_the_answer(tables, tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("condcs.comparison._result.Comparison._page", stop)
    page = tmp_path / "page.html"
    ended = run("compare", tables / "before.csv", tables / "changed.csv", *QUICK, "--report", page)
    assert ended.exit_code == 130
    assert "is p(y|x) the same?" in ended.stdout
    assert ended.stderr.replace("\n", "") == f"Stopped; {page} was not written."


def test_a_reader_that_went_away_was_an_error(tables, tmp_path):
    """``--json | head``: quiet, as cat is, and the files are written all the same."""
    page = tmp_path / "page.html"
    words = ["compare", tables / "before.csv", tables / "changed.csv", *QUICK, "--json", "--report", page]
    reading, writing = os.pipe()
    os.close(reading)
    start = [sys.executable, "-c", "from condcs.cli import main; main()"]
    ended = subprocess.run(
        [*start, *map(str, words)], stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=120
    )
    os.close(writing)
    assert ended.returncode == 141
    assert ended.stderr == ""
    assert page.exists()


def ended_without_output(words, output):
    """Run a command whose standard output nobody reads ("closed"), or has no space left ("full")."""
    start = [sys.executable, "-c", "from condcs.cli import main; main()", *map(str, words)]
    if output == "full":
        with open("/dev/full", "wb") as full:
            return subprocess.run(start, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(start, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    finally:
        os.close(writing)


EXPLORE = ["explore", "mountain-car", "--method", "control", "--seeds", 1, "--steps", 50, "--jobs", 1]
REPRODUCE = ["reproduce", "fig1", "--quick", "--jobs", 1]


@pytest.mark.slow
@pytest.mark.parametrize(("output", "code"), [("closed", 141), ("full", 2)])
@pytest.mark.parametrize("words", [EXPLORE, ["demo", "--rows", 40], REPRODUCE], ids=lambda words: words[0])
def test_output_that_nobody_could_read_took_the_files_along(tmp_path, words, output, code):
    if words is EXPLORE:
        pytest.importorskip("gymnasium")
    paths = {
        "explore": tmp_path / "explore.html",
        "demo": tmp_path / "demo.png",
        "reproduce": tmp_path / "fig1-quick" / "fig1.png",
    }
    path = paths[words[0]]
    ended = ended_without_output([*words, "--out", tmp_path if words is REPRODUCE else path], output)
    assert ended.returncode == code
    assert path.stat().st_size
    assert (FULL in " ".join(ended.stderr.split())) == (output == "full")


def test_reproduce_lost_its_tables_and_three_files_with_the_one_that_could_not_be_written(tmp_path):
    folder = tmp_path / "fig1-quick"
    (folder / "fig1.json").mkdir(parents=True)
    ended = run(*REPRODUCE, "--out", tmp_path)
    assert ended.exit_code == 4
    assert "weights follow K_ij" in ended.stdout
    assert "fig1.json` could not be written: Is a directory" in " ".join(ended.stderr.split())
    assert "fig1.json" not in ended.stdout
    for ending in ("md", "png", "svg"):
        assert (folder / f"fig1.{ending}").stat().st_size
        assert f"fig1.{ending}" in ended.stdout.replace("\n", "")


def test_reproduce_on_a_full_disk_had_no_answer(tmp_path, monkeypatch):
    """Not even the trials find room: they are kept in memory, and named as a file that could not be written."""

    def fail(*_):
        raise OSError(28, FULL)

    monkeypatch.setattr("os.fsync", fail)
    ended = run(*REPRODUCE, "--out", tmp_path)
    assert ended.exit_code == 4
    assert "weights follow K_ij" in ended.stdout
    said = " ".join(ended.stderr.split())
    for name in ("trials.jsonl", "fig1.json", "fig1.md", "fig1.png", "fig1.svg"):
        assert f"{name}` could not be written: {FULL}" in said


def test_reproduce_all_ended_at_the_first_file_that_could_not_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("condcs_reproduction.reproduce_all.experiment_names", lambda: ("fig1",))
    folder = tmp_path / "fig1-quick"
    (folder / "fig1.md").mkdir(parents=True)
    ended = run("reproduce", "all", *REPRODUCE[2:], "--out", tmp_path)
    assert ended.exit_code == 4
    assert "1 experiments in" in ended.stdout
    assert "fig1.md` could not be written: Is a directory" in " ".join(ended.stderr.split())
    assert (tmp_path / "index.html").stat().st_size
    assert (folder / "fig1.png").stat().st_size


@pytest.mark.parametrize(("shift", "code"), [(0, 4), (20, 5)])
def test_watch_denied_its_alarms_when_the_disk_was_full_in_mid_stream(tables, tmp_path, monkeypatch, shift, code):
    """The state is saved at the start; the next time, a thousand rows later, there is no space."""
    from condcs.cli import watch_command

    write, saved = watch_command.StateFile._write, []

    def write_once(self):
        if saved:
            raise WriteError("`--state` state.npz could not be written: full.")
        saved.append(write(self))

    monkeypatch.setattr(watch_command.StateFile, "_write", write_once)
    monkeypatch.setattr(watch_command, "SAVED_ROWS", 20)
    rng = np.random.default_rng(5)
    x = rng.normal(size=60)
    stream = pd.DataFrame({"x": x, "y": x + shift + rng.normal(size=60)}).to_csv(index=False)
    words = ["watch", tables / "before.csv", "--y", "y", "--state", tmp_path / "state.npz"]
    ended = run(*words, input=stream)
    assert ended.exit_code == code
    assert ("y is higher" in ended.stdout) == (code == 5)
    said = " ".join(ended.stderr.split())
    assert "`--state` state.npz could not be written: full." in said
    assert "20 rows, " in said


def test_a_state_that_cannot_be_written_at_the_start_leaves_no_answer(tables, tmp_path, monkeypatch):
    def fail(self):
        raise WriteError("`--state` state.npz could not be written: full.")

    monkeypatch.setattr("condcs.cli.watch_command.StateFile._write", fail)
    words = ["watch", tables / "before.csv", "--y", "y", "--state", tmp_path / "state.npz"]
    assert run(*words, input=(tables / "same.csv").read_text()).exit_code == 2
