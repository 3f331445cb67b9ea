"""The GitHub action: its steps are run as a runner would run them, with files in place of GitHub's."""

from __future__ import annotations

import html
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, blocks
from tests.house_prices import house_prices

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, COMPARE = ACTION["runs"]["steps"]


def filled(text, values):
    """Put inputs into the expressions of a step."""
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: values[found[1]], text)


OURS = f'exec {sys.executable} -c "from condcs.cli import main; main()" "$@"'


def stand_in(code):
    """Return a condcs that writes the files that it is told to, and ends with a code."""
    return f"""printf "%s\\n" "$@" > words.txt
while [ $# -gt 0 ]; do case $1 in --junit|--markdown|--report) echo "$1" > "$2";; esac; shift; done
echo "{{}}"; exit {code}"""


def run_step(step, folder, values=None, program=OURS):
    """Run the shell of a step; `condcs` is a program, and `python` only notes its words."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, body in (("condcs", program), ("python", f'echo "$@" >> {folder}/python.txt')):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    defaults = {name: given.get("default", "") for name, given in ACTION["inputs"].items()}
    variables = {name: filled(text, {**defaults, **(values or {})}) for name, text in step.get("env", {}).items()}
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": "/somewhere/condcs",
        "RUNNER_TEMP": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_OUTPUT": str(folder / "output.txt"),
    }
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    house_prices(120, 1).to_csv(tmp_path / "march.csv", index=False)
    house_prices(120, 3, changed=True).to_csv(tmp_path / "april data.csv", index=False)
    return tmp_path


GIVEN = {"reference": "march.csv", "current": "april data.csv", "y": "price", "x": "area,district"}
QUICK = {"options": "--resamples 39  --jobs 1"}


def outputs(folder):
    lines = (folder / "output.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.slow
def test_a_change_fails_the_job_and_is_in_its_summary(folder):
    (folder / "summary.md").write_text("before\n", encoding="utf-8")
    done = run_step(COMPARE, folder, {**GIVEN, **QUICK})
    assert done.returncode == 1, done.stderr
    found = outputs(folder)
    assert set(found) == set(ACTION["outputs"])
    assert found["changed"] == "true"
    values = json.loads(Path(found["json"]).read_text(encoding="utf-8"))
    assert values["changed"] is True
    verdict = html.escape(values["verdict"], quote=False)
    assert (folder / "summary.md").read_text(encoding="utf-8").startswith(f"before\n### 🔴 {verdict}")
    assert "<testsuite" in Path(found["junit"]).read_text(encoding="utf-8")
    assert Path(found["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("code", "fail", "ends", "changed"),
    [
        (0, "true", 0, "false"),
        (1, "true", 1, "true"),
        (1, "false", 0, "true"),
        (2, "false", 2, None),
        (130, "true", 130, None),
    ],
)
def test_how_a_job_ends(folder, code, fail, ends, changed):
    """Only a change can be let pass; after an error there is neither an output nor a summary."""
    done = run_step(COMPARE, folder, {**GIVEN, "fail": fail}, stand_in(code))
    assert done.returncode == ends, done.stderr
    assert (folder / "summary.md").exists() == (changed is not None)
    assert (outputs(folder)["changed"] if changed else None) == changed


def test_which_words_a_comparison_is_given(folder):
    run_step(COMPARE, folder, {**GIVEN, **QUICK, "tolerance": "0.5"}, stand_in(0))
    words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
    assert words[:4] == ["compare", "march.csv", "april data.csv", "--y"]
    pairs = dict(itertools.pairwise(words))
    assert (pairs["--x"], pairs["--alpha"], pairs["--tolerance"]) == ("area,district", "0.05", "0.5")
    assert words[-4:] == ["--resamples", "39", "--jobs", "1"]
    run_step(COMPARE, folder, {**GIVEN, "x": ""}, stand_in(0))
    assert not {"--x", "--tolerance"} & set((folder / "words.txt").read_text(encoding="utf-8").splitlines())


def test_options_on_several_lines_were_cut_off_after_the_first(folder):
    done = run_step(COMPARE, folder, {**GIVEN, "options": "--resamples 39\n--jobs 1\n"}, stand_in(0))
    assert done.returncode == 0, done.stderr
    words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
    assert words[-4:] == ["--resamples", "39", "--jobs", "1"]


def test_inputs_cannot_become_commands(folder):
    """They are variables of the shell, and no step has them in its text."""
    nasty = "$(touch hit); `touch hit` \" '; touch hit #"
    done = run_step(COMPARE, folder, {**GIVEN, "y": nasty, "options": "$(touch hit)"}, stand_in(0))
    assert done.returncode == 0, done.stderr
    assert nasty in (folder / "words.txt").read_text(encoding="utf-8").splitlines()
    assert not (folder / "hit").exists()
    assert not any("${{" in step["run"] for step in ACTION["runs"]["steps"])


def test_the_action_installs_itself(folder):
    assert run_step(INSTALL, folder).returncode == 0
    assert (folder / "python.txt").read_text(encoding="utf-8").split()[-1] == "/somewhere/condcs[cli]"


def test_every_input_is_described_and_every_output_comes_from_the_step():
    for name, given in ACTION["inputs"].items():
        assert given["description"]
        assert given.get("required") or "default" in given, name
    assert {re.search(r"outputs\.(\w+)", out["value"])[1] for out in ACTION["outputs"].values()} == set(
        ACTION["outputs"]
    )
    used = {name for text in COMPARE["env"].values() for name in re.findall(r"inputs\.(\w+)", text)}
    assert used == set(ACTION["inputs"])


def test_the_example_in_the_documentation_gives_what_the_action_takes():
    pages = [block for page in PAGES for block in blocks(page) if block.language == "yaml"]
    (steps,) = (
        [s for s in yaml.safe_load(b.text)["jobs"]["relation"]["steps"] if "condcs" in s["uses"]] for b in pages
    )
    required = {name for name, given in ACTION["inputs"].items() if given.get("required")}
    assert required <= set(steps[0]["with"]) <= set(ACTION["inputs"])
