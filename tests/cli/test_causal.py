"""``condcs causal`` on files."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from condcs.cli.app import app
from condcs.datasets import make_henon_chain


def causal(*arguments):
    return CliRunner().invoke(app, ["causal", *map(str, arguments)])


def write(path, columns, header):
    lines = [",".join(header), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def chain():
    return make_henon_chain(900, n_maps=3, rng=1).series


def test_links_page_and_exit_code(chain, tmp_path):
    days = np.datetime64("2020-01-01") + np.arange(900)
    file = write(tmp_path / "chain.csv", [days, *chain.T], ["day", "a", "b", "<c> $x_1$"])
    page = tmp_path / "page.html"
    done = causal(file, "--time", "day", "--order", 2, "--resamples", 60, "--out", page)
    assert done.exit_code == 0, done.output
    first = done.output.strip().splitlines()[1].split()
    assert first[1] == "→"
    assert first[-1] == "drives"
    text = page.read_text()
    assert "&lt;c&gt; $x_1$" in text
    assert "<c>" not in text
    assert text.count("<img ") == 3
    assert "adjusted p" in text


def test_json_names_the_links(chain, tmp_path):
    file = write(tmp_path / "chain.csv", chain.T, ["a", "b", "c"])
    done = causal(file, "--order", 2, "--resamples", 60, "--json", "--out", tmp_path / "page.html")
    content = json.loads(done.stdout)
    assert content["rows"] == 900
    best = {(r["source"], r["target"]) for r in content["links"] if r["pvalue"] <= 0.05}
    assert {("a", "b"), ("b", "c")} <= best
    assert len(content["links"]) == 6


def test_columns_can_be_chosen(chain, tmp_path):
    file = write(tmp_path / "chain.csv", chain.T, ["a", "b", "c"])
    done = causal(file, "--columns", "!c", "--order", 1, "--resamples", 5, "--json", "--out", tmp_path / "page.html")
    assert {r["source"] for r in json.loads(done.stdout)["links"]} == {"a", "b"}


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (lambda t: t[::-1], ["--time", "t"], "time does not increase at 't' in line 3"),
        (lambda t: np.where(t == 7, 6, t), ["--time", "t"], "keep one row per time"),
        (lambda t: t, ["--time", "when"], "must be a column of"),
        (lambda t: ["x"] * len(t), ["--time", "t"], "a number or an ISO date"),
        (lambda t: ["word"] * len(t), [], "the first 'word' in line 2. If it holds times, name it with --time"),
        (
            lambda t: np.where(t == 3, "", t.astype(str)),
            [],
            "must have no missing values, got 1 in column 't', the first in line 5",
        ),
        (lambda t: 0 * t, [], "column 't' is constant"),
        (lambda t: t, ["--time", "t", "--order", "many"], "`--order` must be an integer"),
        (lambda t: t, ["--time", "t", "--null", "none"], "`--null` must be one of"),
        (lambda t: t, ["--columns", "z"], "must name columns"),
    ],
)
def test_errors_are_plain_messages(chain, tmp_path, change, arguments, words):
    file = write(tmp_path / "bad.csv", [change(np.arange(900)), *chain.T[:2]], ["t", "a", "b"])
    done = causal(file, *arguments, "--resamples", 2, "--out", tmp_path / "page.html")
    assert done.exit_code == 2
    assert words in " ".join((done.output + done.stderr).split())
    assert "Traceback" not in done.output
    assert not (tmp_path / "page.html").exists()


def test_absent_file(tmp_path):
    done = causal(tmp_path / "none.csv")
    assert done.exit_code == 2
    assert "could not be read" in " ".join((done.output + done.stderr).split())


def test_automatic_order_is_chosen_on_ranks_where_ranks_are_tested(tmp_path):
    """With their outliers, exponentials of the Henon map seem to be of order 4; their ranks are those of the map."""
    file = write(tmp_path / "maps.csv", np.exp(8 * make_henon_chain(300, n_maps=2).series).T, ["a", "b"])
    settings = [file, "--resamples", 5, "--json", "--out", tmp_path / "page.html"]
    assert json.loads(causal(*settings, "--ranks").stdout)["embeddings"]["a"]["order"] == 2
    assert json.loads(causal(*settings).stdout)["embeddings"]["a"]["order"] == 4
