"""``condcs watch``: alarms from standard input, states to go on from, and how it fails."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from condcs.cli.app import app
from tests.cli.house_prices import house_prices

OPTIONS = ["--y", "price", "--x", "area,district", "--window", "30", "--run-length", "2000"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("watch") / "reference.csv"
    house_prices(240, 1).to_csv(path, index=False)
    return path


def as_csv(*frames):
    out = io.StringIO()
    pd.concat(frames).to_csv(out, index=False)
    return out.getvalue().encode()


def run(reference, *words, given):
    return CliRunner().invoke(app, ["watch", str(reference), *OPTIONS, *map(str, words)], input=given)


def test_a_change_is_reported_with_its_row(reference):
    given = as_csv(house_prices(60, 2), house_prices(90, 3, changed=True))
    result = run(reference, "--json", given=given)
    assert result.exit_code == 1, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert 60 < found[0]["row"] <= 150
    assert found[0]["statistic"] > found[0]["threshold"]
    assert "alarms" in result.stderr


def test_no_change_ends_with_zero(reference):
    result = run(reference, given=as_csv(house_prices(80, 4)))
    assert result.exit_code == 0, result.output
    assert "80 rows, 0 alarms" in result.stderr


def test_labels_and_jsonl(reference):
    frame = house_prices(60, 5)
    swapped = house_prices(80, 6).assign(sold=lambda f: f.sold.map({"yes": "no", "no": "yes"}))
    given = pd.concat([frame, swapped]).to_json(orient="records", lines=True).encode()
    words = ["watch", str(reference), "--y", "sold", "--x", "area,district", "--window", "30", "--run-length", "2000"]
    result = CliRunner().invoke(app, words, input=given)
    assert result.exit_code == 1, result.output
    assert "the relation of the last 30 rows has left that of the reference" in " ".join(result.stdout.split())


def test_a_saved_state_goes_on_where_it_stopped(reference, tmp_path):
    """Two halves with a state between them report what one run reports."""
    frame = pd.concat([house_prices(70, 7), house_prices(90, 8, changed=True)])
    whole = run(reference, "--json", given=as_csv(frame))
    state = tmp_path / "state.npz"
    parts = [run(reference, "--json", "--state", state, given=as_csv(part)) for part in (frame[:85], frame[85:])]
    assert parts[0].stdout + parts[1].stdout == whole.stdout
    assert whole.stdout
    assert "Going on after row 85" in parts[1].stderr


def test_gaps(reference):
    frame = house_prices(40, 9)
    frame.loc[3, "area"] = np.nan
    refused = run(reference, given=as_csv(frame))
    assert refused.exit_code == 2
    assert "got one in row 4" in refused.stderr
    assert "40 rows, 1 with gaps left out" in run(reference, "--drop-missing", given=as_csv(frame)).stderr


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        ([], b"", "standard input is empty"),
        ([], b"area,price\n1,2\n", "lacks 'district'"),
        ([], b"area,district,price\nbig,north,1\n", "must hold a number in every cell of column 'area'"),
        (["--window", "100"], b"a\n", "at least four windows of rows"),
        (["--state", __file__], b"a\n", "must be a state that condcs watch wrote"),
        (["--y", "prize"], b"a\n", "Did you mean 'price'?"),
        (["--state", "/dev/null/x.npz"], as_csv(house_prices(20, 1)), "could not be written"),
    ],
)
def test_errors_end_with_two(reference, words, given, message):
    result = run(reference, *words, given=given)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_ctrl_c_leaves_a_state(reference, tmp_path):
    """The process has certainly begun to watch when the pipe, which holds 64 kB, has taken more."""
    state = tmp_path / "state.npz"
    words = [
        sys.executable,
        "-c",
        "from condcs.cli import main; main()",
        "watch",
        reference,
        *OPTIONS,
        "--state",
        state,
    ]
    process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(as_csv(house_prices(2000, 10)))
    process.stdin.flush()
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert b"the same command goes on from there" in b" ".join(said.split())
    with np.load(state, allow_pickle=False) as stored:
        assert json.loads(str(stored["about"]))["rows"] > 0
