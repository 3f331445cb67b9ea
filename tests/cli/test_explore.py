"""``condcs explore`` through the command line."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from condcs.cli.app import app
from condcs.explore._trials import ExploreOptions, explore


def run(*arguments):
    return CliRunner().invoke(app, ["explore", *map(str, arguments)])


def test_table_and_page(tmp_path):
    """Results on the screen; heat maps, learning curves and hyper-parameters on a page."""
    page = tmp_path / "maze.html"
    done = run(
        "maze", "--method", "random", "--method", "control", "--seeds", 3, "--steps", 400, "--rows", 5, "--out", page
    )
    assert done.exit_code == 0, done.output
    words = " ".join(done.output.split())
    assert "Random 3 of 3" in words
    text = page.read_text()
    assert re.findall(r"<h2[^>]*>([^<]*)", text) == ["Results", "Learning curves", "Visited states", "How it was made"]
    assert text.count("data:image/") == 2
    assert "initial value" in text


def test_runs_do_not_depend_on_threads():
    """Same seeds, same answer; methods share starts and mazes; runs of other seeds differ."""
    results = []
    for jobs in (1, 3):
        options = ExploreOptions("maze", ("random", "dtg-cs"), n_runs=3, steps=300, rows=6, n_jobs=jobs)
        found = explore(options)
        results.append(json.dumps([[r.first_goals, r.goals, np.asarray(r.heat).tolist()] for r in found.values()]))
    assert results[0] == results[1]
    one = explore(ExploreOptions("maze", ("random",), n_runs=1, steps=300, rows=6))["random"]
    other = explore(ExploreOptions("maze", ("random",), n_runs=1, rng=1, steps=300, rows=6))["random"]
    assert not np.array_equal(one.heat, other.heat)
    assert one.heat.sum() == 300
    assert (np.diff(one.curves[0]) >= 0).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cart-pole",), "`ENVIRONMENT` must be one of 'mountain-car'"),
        (("maze", "--method", "dqn"), "`--method` must be one of 'dtg-cs'"),
    ],
)
def test_mistakes_are_plain_messages(arguments, words, tmp_path):
    done = run(*arguments, "--out", tmp_path / "page.html")
    assert done.exit_code == 2
    assert words in " ".join((done.output + done.stderr).split())
    assert "Traceback" not in done.output
    assert not (tmp_path / "page.html").exists()


def test_names_of_methods_were_cut_in_narrow_terminals(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    options = ("--rows", 6, "--method", "random", "--seeds", 1, "--steps", 50)
    shown = run("maze", *options, "--out", tmp_path / "page.html")
    assert "Random" in shown.output
    assert "…" not in shown.output
