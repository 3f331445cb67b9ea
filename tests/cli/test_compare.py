"""``condcs compare``: what it says, its exit codes, its page, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import condcs
from condcs.cli.app import app
from tests.browser import chromium, problems
from tests.house_prices import house_prices

QUICK = ["--resamples", "39", "--jobs", "1"]


def run(*words, given=None):
    return CliRunner().invoke(app, ["compare", *map(str, words)], input=given)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    house_prices(160, 1).to_csv(folder / "march.csv", index=False)
    house_prices(160, 2, bigger=20).to_csv(folder / "shifted.csv", index=False)
    house_prices(160, 3, changed=True).to_csv(folder / "changed.csv", index=False)
    return folder


def test_covariate_shift_alone_ends_with_zero(tables):
    result = run(tables / "march.csv", tables / "shifted.csv", "--y", "price", "--x", "area,district", *QUICK)
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    assert "No evidence that the relation of price to the inputs changed" in words
    assert "covariate shift" in words
    assert "Small changes are not ruled out: these rows can miss a shift of price by less than" in words


def test_a_changed_relation_ends_with_one_and_is_found(tables):
    result = run(tables / "march.csv", tables / "changed.csv", "--y", "price", "--x", "!sold", *QUICK)
    assert result.exit_code == 1, result.output
    output = " ".join(result.output.split())
    assert "For the same inputs, price is" in output
    regions = output.partition("where the relation changed")[2]
    # Where the table is narrow, words of a region go on in the next line.
    assert "area >" in regions
    assert "and district" in regions
    assert "= harbour" in regions
    assert "harbour" in regions


def test_cautions_and_notes_name_options_of_the_command(tables, tmp_path):
    """They named `cluster` and `time_budget`, which are arguments in Python."""
    march = house_prices(160, 1)
    pd.concat([march, march]).to_csv(tmp_path / "twice.csv", index=False)
    words = [tmp_path / "twice.csv", tables / "shifted.csv", "--y", "price", "--x", "area,district", *QUICK]
    said = " ".join(run(*words).output.split())
    assert "name what belongs together with `--cluster`" in said
    house_prices(3000, 1).to_csv(tmp_path / "long.csv", index=False)
    words = [tmp_path / "long.csv", tables / "shifted.csv", "--y", "price", "--x", "area,district", *QUICK]
    said = " ".join(run(*words, "--time-budget", "4").output.split())
    assert "Raise `--time-budget`, or set `--max-rows`, to compare more" in said


def test_json_for_machines(tables):
    words = [tables / "march.csv", tables / "changed.csv", "--y", "sold", "--x", "area,district", "--json", *QUICK]
    result = run(*words)
    found = json.loads(result.stdout)
    assert result.exit_code == int(found["changed"])
    assert found["y"] == [{"name": "sold", "kind": "category"}]
    accounts = {"rows": 160, "with_gaps": 0, "gaps_as_values": {}, "used": 160}
    assert found["reference"] == {"table": str(tables / "march.csv"), **accounts}
    for part in ("inputs", "relation"):
        assert 0 < found[part]["pvalue"] <= 1
        low, high = found[part]["overlap_interval"]
        assert 0 < low <= found[part]["overlap"] <= high <= 1
    march = pd.read_csv(tables / "march.csv")
    assert found["response"][0]["what"] == "share of sold = yes"
    assert found["response"][0]["reference"] == pytest.approx((march.sold == "yes").mean())
    assert run(*words).stdout == result.stdout


def test_stdin_and_alpha(tables):
    given = (tables / "changed.csv").read_bytes()
    words = [tables / "march.csv", "-", "--y", "price", "--x", "area,district", *QUICK]
    assert run(*words, given=given).exit_code == 1
    assert "standard input" in run(*words, given=given).output
    refused = run(*words, "--alpha", "0.01", given=given)
    assert refused.exit_code == 2
    assert "`--resamples` must be at least 99" in refused.stderr


def test_a_new_category_is_said(tables, tmp_path):
    frame = pd.read_csv(tables / "shifted.csv")
    frame.loc[:4, "district"] = "moon"
    frame.to_csv(tmp_path / "moon.csv", index=False)
    found = run(tables / "march.csv", tmp_path / "moon.csv", "--y", "price", "--x", "area,district", "--json", *QUICK)
    notes = json.loads(found.stdout)["notes"]
    assert len(notes) == 1
    assert notes[0].startswith("In 5 of 320 rows district has a label that the other table does not have.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.csv", "absent.csv", "--y", "a"], "could not be read"),
        (["march.csv", "changed.csv", "--y", "prize"], "Did you mean 'price'?"),
        (["march.csv", "changed.csv", "--y", "price", "--alpha", "1.5"], "`--alpha` must lie between 0 and 1"),
        (["march.csv", "changed.csv"], "--y"),
        (["march.csv", "changed.csv", "--y", "price", "--missing", "?"], "are named by --gaps '?'"),
    ],
)
def test_errors_end_with_two(tables, monkeypatch, words, message):
    monkeypatch.chdir(tables)
    result = run(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_options_about_losses_and_limits_reach_the_comparison(tables, monkeypatch):
    """Only those that were given; groups have none of them."""
    given = []
    monkeypatch.setattr("condcs.comparison._comparing.compare", lambda *names, **options: given.append(options))
    two = ["march.csv", "changed.csv", "--y", "price"]
    monkeypatch.chdir(tables)
    run(*two, "--prediction", "sold", "--tolerance", "2.5")
    run(*two, "--loss", "sold", "--min-effect", "0.1")
    new = ("prediction", "loss", "tolerance")
    found = [{name: options[name] for name in new if name in options} for options in given]
    limits = condcs.Limits(tolerance=2.5), condcs.Limits(min_effect=0.1)
    assert found == [{"prediction": "sold", "tolerance": limits[0]}, {"loss": "sold", "tolerance": limits[1]}]
    refused = run("march.csv", "--group", "district", "--y", "price", "--min-effect", "0.1")
    assert refused.exit_code == 2
    assert "--min-effect must come with two tables" in " ".join(refused.stderr.split())


def test_a_fault_of_ours_does_not_look_like_a_change(tables, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("condcs.comparison._comparing.compare", fail)
    assert run(tables / "march.csv", tables / "changed.csv", "--y", "price").exit_code == 2


def command(*words):
    return [sys.executable, "-c", "from condcs.cli import main; main()", *map(str, words)]


def test_a_full_disk_behind_standard_output(tables):
    words = command("compare", tables / "march.csv", tables / "changed.csv", "--y", "price", "--json", *QUICK)
    with open("/dev/full", "w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr


def test_ctrl_c_ends_with_a_plain_message(tables):
    """The process has certainly begun to read when the pipe, which holds 64 kB, has taken more."""
    words = command("compare", tables / "march.csv", "-", "--y", "price")
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"area,district,price,sold\n" + b"100,north,200,no\n" * 20_000)
    process.stdin.flush()
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert b"Stopped" in said
    assert b"Traceback" not in said


NASTY = "<script>window.hit=1</script>"


def test_the_page_shows_columns_as_text_and_nothing_leaves_it(tables, tmp_path):
    """Columns, labels and file names of markup: shown, never run; read on a phone without a fault."""
    names = {"area": NASTY, "district": "$x_{", "price": "</style><img src=x onerror=window.hit=1>"}
    for name in ("march", "changed"):
        frame = pd.read_csv(tables / f"{name}.csv").drop(columns="sold")
        frame["district"] = frame["district"].replace({"harbour": f"{NASTY}$"})
        frame.rename(columns=names).to_csv(tmp_path / f"<b>{name}.csv", index=False)
    page = tmp_path / "page.html"
    paths = tmp_path / "<b>march.csv", tmp_path / "<b>changed.csv"
    result = run(*paths, "--y", names["price"], "--report", page, *QUICK)
    assert result.exit_code == 1, result.output
    text = page.read_text(encoding="utf-8")
    assert NASTY not in text
    assert "&lt;script&gt;window.hit=1&lt;/script&gt;" in text
    assert "\\u003cscript\\u003e" in text
    with chromium(390) as window:
        assert problems(window, page) == []
        assert window.execute_script("return window.hit") is None
        body = window.execute_script("return document.body.innerText")
        assert NASTY in body
        embedded = window.execute_script("return document.getElementById('condcs-comparison').textContent")
    found = json.loads(embedded)
    assert found["x"][0]["name"] == NASTY
    assert found["changed"] is True
