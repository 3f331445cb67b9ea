"""Commands that other packages bring along, and what is said where such a package is absent or damaged."""

import subprocess
import sys

import pytest

pytest.importorskip("typer")

WITH = """
import importlib.metadata as metadata
found = metadata.EntryPoints(metadata.EntryPoint(name, value, "condcs.commands") for name, value in {entries})
metadata.entry_points = lambda group: found.select(group=group)
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
