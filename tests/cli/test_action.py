"""The GitHub action: its steps are run as a runner would run them, with files in place of GitHub's."""

from __future__ import annotations

import html
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import condcs
from condcs._inference.explain import show_p
from condcs.cli.app import app
from condcs.comparison._comparing import ALPHA
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


def test_the_assertion_had_another_level_than_the_command():
    """One default: in Python, on the command line and in the action."""
    functions = condcs.compare, condcs.assert_same_relation, condcs.compare_groups
    in_python = {inspect.signature(function).parameters["alpha"].default for function in functions}
    option = next(p for p in get_command(app).commands["compare"].params if p.name == "alpha")
    assert in_python == {option.default} == {float(ACTION["inputs"]["alpha"]["default"])} == {ALPHA}


def pipelines_page():
    """Return the tables of the page on pipelines."""
    page = next(page for page in PAGES if page.name == "pipelines.md")
    (block,) = (block for block in blocks(page) if "def month" in block.text)
    names = {}
    exec(block.text.partition("def test_")[0], names)
    return names["january"], names["february"], names["march"]


@pytest.mark.slow
@pytest.mark.parametrize("changed", [False, True])
def test_four_ways_gave_two_answers(tmp_path, changed):
    """On the tables of the page: decision, p-value, effect and interval, all with their defaults."""
    january, february, march = pipelines_page()
    current = march if changed else february
    january.to_csv(tmp_path / "january.csv", index=False)
    current.to_csv(tmp_path / "current.csv", index=False)
    # A notebook.
    found = condcs.compare(january, current, y="price")
    assert found.relation_changed is changed
    # An assertion for pytest.
    if changed:
        with pytest.raises(AssertionError) as caught:
            condcs.assert_same_relation(january, current, y="price")
        assert str(caught.value).splitlines()[0] == found.verdict
    else:
        assert condcs.assert_same_relation(january, current, y="price") == found
    # The command, with JUnit XML.
    files = [str(tmp_path / name) for name in ("january.csv", "current.csv", "result.xml")]
    words = ["compare", *files[:2], "--y", "price", "--json", "--junit", files[2]]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == int(changed)
    # The action.
    given = {"reference": "january.csv", "current": "current.csv", "y": "price"}
    assert run_step(COMPARE, tmp_path, given).returncode == int(changed)
    answers = [json.loads(done.stdout), json.loads(Path(outputs(tmp_path)["json"]).read_text(encoding="utf-8"))]
    expected = json.loads(json.dumps(found.to_dict()))
    for answer in answers:
        for key in ("decision", "verdict", "alpha", "resamples", "seed", "relation", "inputs", "effects", "regions"):
            assert answer[key] == expected[key], key
    for file in (files[2], outputs(tmp_path)["junit"]):
        case = ElementTree.parse(file).find(".//testcase[@name='relation']")
        if changed:
            assert case.find("failure").get("message") == found.verdict
        else:
            assert show_p(found.relation.pvalue) in case.find("system-out").text


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
    # Else it would be another answer than that of the three other ways on the page.
    assert "alpha" not in steps[0]["with"]
