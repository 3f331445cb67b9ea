"""The quick version of every experiment, through the command line."""

import json
import os
import re
import subprocess
import sys

import pytest

from condcs_reproduction import experiment_named, experiment_names

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from condcs.cli.app import app
from condcs_reproduction import fig3, table1, table7, table9
from condcs_reproduction.runner import run
from condcs_reproduction.series_clustering import is_present

NEEDS_DATA = {"table4": "robot_lp2", "table5": "robot_lp2", "table8": "coffee", "fig9": "temperature"}
"""Experiments that compare nothing with the paper unless this data set is at hand."""


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One folder for the quick versions: fig4 and table5 show the trials of other tables, which need not run again."""
    return tmp_path_factory.mktemp("results")


def test_labels_speak_of_bandwidths():
    """They said widths, of kernels."""
    shown = [*table1.DETECTORS, *fig3.VARIANTS, *table7.VARIANTS, *table9.ROWS.values()]
    assert not [words for words in shown if re.search(r"\bwidth", words)]


def test_without_a_name_all_are_listed():
    shown = reproduce()
    assert shown.exit_code == 0
    assert all(name in shown.output for name in experiment_names())


@pytest.mark.slow
@pytest.mark.parametrize("name", experiment_names())
def test_quick_version_runs_and_writes_its_files(name, results):
    """Tables on the screen; JSON, Markdown and both figures in the folder."""
    if name in NEEDS_DATA and not is_present(NEEDS_DATA[name]):
        pytest.skip(f"CONDCS_DATA names no folder with {NEEDS_DATA[name]}")
    done = reproduce(name, "--quick", "--jobs", 1, "--trials", 1, "--out", results)
    assert done.exit_code == 0, done.output
    folder = results / f"{name}-quick"
    assert {f"{name}.{ending}" for ending in ("json", "md", "png", "svg")} <= {f.name for f in folder.iterdir()}
    content = json.loads((folder / f"{name}.json").read_text())
    experiment = experiment_named(name).version(quick=True, trials=1)
    assert content["facts"]["fingerprint"] == experiment.fingerprint()
    # A few trials on small data prove nothing, though the paper's numbers, if there are any, could be judged by them.
    assert content["judged"] == 0
    stored, _ = run(experiment, results, jobs=1)
    assert experiment.summarise(experiment, stored).agreement()[1] > 0 or not experiment.paper
    cells = [c for table in content["tables"] for row in table["cells"].values() for c in row.values()]
    assert all(cell["ours"] is not None for cell in cells)
    markdown = (folder / f"{name}.md").read_text()
    assert f"condcs reproduce {name} --quick --trials 1" in markdown
    assert "There are no verdicts" in markdown
    assert not re.search("[✓▲▼✗]", markdown + done.output)
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / f"{name}.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_figure_uses_the_trials_of_the_table(results):
    """fig4 after table3 has nothing left to run."""
    reproduce("table3", "--quick", "--trials", 1, "--jobs", 1, "--out", results)
    before = (results / "table3-quick" / "trials.jsonl").read_bytes()
    done = reproduce("fig4", "--quick", "--trials", 1, "--jobs", 1, "--out", results)
    assert "fig4: 12 of 12 trials" in done.output + done.stderr
    assert (results / "table3-quick" / "trials.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("word", "beginning"), [("figure", "fig"), ("figures", "fig"), ("Fig", "fig"), ("table", "table")]
)
def test_a_kind_of_experiments_was_an_unknown_name(word, beginning):
    """Said as in the paper, "reproduce figure" lists what there is."""
    shown = reproduce(word)
    assert shown.exit_code == 0
    first_words = {line.split()[0] for line in shown.output.splitlines() if line[:1].strip()}
    for name in experiment_names():
        assert (name in first_words) == name.startswith(beginning)


def test_a_quick_run_said_agrees_of_two_trials(tmp_path):
    """Two trials have standard errors within which nearly everything agrees: "-1.0 (3.0) ✓"."""
    done = reproduce("fig1", "--quick", "--jobs", 1, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    files = [(tmp_path / "fig1-quick" / f"fig1.{ending}").read_text() for ending in ("md", "json")]
    for text in (done.output, *files):
        assert not re.search("[✓▲▼✗]", text)
        assert "There are no verdicts" in " ".join(text.split())
    assert json.loads(files[1])["judged"] == 0
    full = reproduce("fig1", "--trials", 1, "--jobs", 1, "--out", tmp_path)
    assert "✓" in full.output


def test_unknown_name_is_a_plain_message(tmp_path):
    done = reproduce("table99", "--out", tmp_path)
    assert done.exit_code == 2
    assert "must be one of 'table1'" in " ".join((done.output + done.stderr).split())
    assert "Traceback" not in done.output


@pytest.mark.parametrize(("word", "meant"), [("figure3", "fig3"), ("Figure10", "fig10"), ("Table6B", "table6b")])
def test_a_name_as_in_the_paper_was_told_the_first_of_all_names(tmp_path, word, meant):
    done = reproduce(word, "--out", tmp_path)
    assert done.exit_code == 2
    assert " ".join(done.stderr.split()).endswith(f"got '{word}'. Pass {meant}.")


def test_other_specification_is_a_plain_message(tmp_path):
    """What differs and the remedy; the stored trials stay."""
    trials = tmp_path / "table3-quick" / "trials.jsonl"
    trials.parent.mkdir()
    trials.write_text('{"fingerprint": "0", "specification": {"seed": 3}}\n')
    done = reproduce("table3", "--quick", "--jobs", 1, "--out", tmp_path)
    assert done.exit_code == 2
    assert "--fresh" in done.output + done.stderr
    assert trials.read_text().count("\n") == 1


@pytest.mark.parametrize("name", ["table3", "all"])
def test_a_file_on_the_way_to_out_was_said_not_to_exist(tmp_path, name):
    (tmp_path / "file").write_text("")
    done = reproduce(name, "--quick", "--trials", 1, "--jobs", 1, "--out", tmp_path / "file" / "results")
    assert done.exit_code == 2
    words = " ".join(done.stderr.split())
    assert words == f"`--out` must lie in a folder, but {tmp_path / 'file'} is not one. Name another place."


COMMAND = [sys.executable, "-c", "from condcs.cli import main; main()", "reproduce", "table3", "--quick"]
COMMAND += ["--trials", "1", "--only", "CS"]
LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
from condcs.cli import main
main()
"""


@pytest.mark.slow
def test_full_out_is_a_plain_message(tmp_path):
    """The trials find room; a limit on the size of files stops the pictures, of which nothing is left."""
    pytest.importorskip("resource")
    reproduce("table3", "--quick", "--trials", 1, "--only", "CS", "--jobs", 1, "--out", tmp_path)
    for picture in [*tmp_path.rglob("*.png"), *tmp_path.rglob("*.svg")]:
        picture.unlink()
    words = [*COMMAND[:2], LIMITED, *COMMAND[3:], "--jobs", "1", "--out", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    assert "CS" in done.stdout
    assert "table3.png` could not be written: File too large" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert {entry.suffix for entry in (tmp_path / "table3-quick").iterdir()} == {".jsonl", ".json", ".md"}


@pytest.mark.slow
def test_reproduce_works_where_no_processes_can_be_started(tmp_path):
    """Without /dev/shm there are no semaphores, and joblib no processes; its own switch for that stands for it."""
    environment = {**os.environ, "JOBLIB_MULTIPROCESSING": "0"}
    words = [*COMMAND, "--jobs", "2", "--out", tmp_path / "one"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "No processes can be started here" in " ".join(done.stderr.split())
    reproduce("table3", "--quick", "--trials", 1, "--only", "CS", "--jobs", 1, "--out", tmp_path / "two")
    reports = [(tmp_path / name / "table3-quick" / "table3.json").read_text() for name in ("one", "two")]
    assert reports[0] == reports[1]


def test_paper_has_a_number_for_every_cell_of_table2():
    experiment = experiment_named("table2")
    cases = {task.case for task in experiment.tasks(experiment.parameters, 1)}
    assert cases == set(experiment.paper)
    assert experiment.paper["conditional_cs d-e"] == 0.92
    assert experiment.paper["conditional_bregman a-b"] == 0.02


def test_conditional_mmd_has_a_tenth_of_the_trials():
    experiment = experiment_named("table2")
    counts = {}
    for task in experiment.tasks(experiment.parameters, 100):
        counts[task.case] = counts.get(task.case, 0) + 1
    assert counts["conditional_cs a-b"] == 100
    assert counts["conditional_mmd a-b"] == 10
