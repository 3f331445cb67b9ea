"""Commands that other packages bring along, and what is said where such a package is absent or damaged."""

import subprocess
import sys

import pytest

pytest.importorskip("typer")

WITH = """
import importlib.metadata as metadata
found = metadata.EntryPoints(metadata.EntryPoint(name, value, "condcs.commands") for name, value in {entries})
metadata.entry_points = lambda **chosen: found.select(**chosen)
from condcs.cli import main
main()
"""


def ended(entries: list[tuple[str, str]], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with these entry points instead of the installed ones."""
    code = [sys.executable, "-c", WITH.format(entries=entries), *words]
    return subprocess.run(code, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "words", [["reproduce"], ["reproduce", "table2", "--quick"], ["reproduce", "--help"]], ids=" ".join
)
def test_reproduce_without_its_package_says_what_to_install(words):
    done = ended([], *words)
    assert done.returncode == 2
    assert "pip install condcs-reproduction" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_shows_only_the_commands_that_can_run():
    assert "reproduce" not in ended([], "--help").stdout
    assert "reproduce" in ended([("reproduce", "condcs_reproduction.command:reproduce")], "--help").stdout


@pytest.mark.parametrize("value", ["package_that_is_absent:run", "condcs.cli.demo_command:absent"])
def test_a_damaged_package_took_the_other_commands_with_it(value):
    entries = [("damaged", value)]
    assert ended(entries, "--version").returncode == 0
    done = ended(entries, "damaged", "--option", "3")
    assert done.returncode == 2
    assert "absent" in done.stderr
    assert "Traceback" not in done.stderr


def test_explore_runs_without_the_papers_experiments(tmp_path):
    """`condcs explore mountain-car`, with the page; what comes with the experiments is not offered, but named."""
    pytest.importorskip("gymnasium")
    page = tmp_path / "page.html"
    words = ["--method", "dtg-cs", "--method", "control", "--seeds", "1", "--steps", "50", "--jobs", "1"]
    done = ended([], "explore", "mountain-car", *words, "--out", str(page))
    assert done.returncode == 0, done.stderr
    assert "DTG-CS" in done.stdout
    assert "control" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "named"),
    [(["maze"], "`maze`"), (["mountain-car", "--method", "random"], "`--method random`")],
    ids=["environment", "method"],
)
def test_explore_says_what_to_install_for_the_papers_environments_and_methods(words, named):
    done = ended([], "explore", *words)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"{named} comes with the package 'condcs-reproduction'" in said
    assert "pip install condcs-reproduction" in said
    assert "Traceback" not in said
