"""Columns of numbers with other cells: counted, named with their line, and never silently a category."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from condcs._core.errors import DataError
from condcs._tables.cells import as_number
from condcs._tables.kinds import tell_kind
from condcs._tables.pair import ReadOptions, read_pair
from condcs.cli.app import app


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(50, 10, 40).round(2), "b": rng.integers(0, 9, 40), "y": rng.normal(size=40)})


def both(tmp_path, frame):
    for name in ("p.csv", "q.csv"):
        frame.to_csv(tmp_path / name, index=False)
    return str(tmp_path / "p.csv"), str(tmp_path / "q.csv")


def decimal_commas(values):
    return [f"{v:.2f}".replace(".", ",") for v in values]


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (
            decimal_commas,
            r"numbers that cannot be read in 80 of 80 cells, the first '\d+,\d+' in line 2 of .*p\.csv.*decimal=','",
        ),
        (
            lambda v: ["?" if i == 5 else f"{x:.2f}" for i, x in enumerate(v)],
            r"2 of 80 .*'\?' in line 7 of .*gaps='\?'",
        ),
        (lambda v: ["?" if i % 2 else f"{x:.2f}" for i, x in enumerate(v)], r"40 of 80 .*gaps='\?'"),
        (lambda v: [f"${1000 + i},000" for i in range(40)], "without thousands separators, currency"),
        (lambda v: [f"{1 + i},200" for i in range(40)], r"decimal=','\) if .* or write 1200 for 1,200"),
        (lambda v: [f"1,{i + 100}.5" for i in range(40)], "without thousands separators"),
        (lambda v: [f"{x:.1f}%" for x in v], "percent signs"),
        (lambda v: ["12a" if i == 3 else f"{x:.0f}" for i, x in enumerate(v)], "category='a'"),
    ],
)
def test_a_column_of_numbers_does_not_silently_become_a_category(tmp_path, frame, write, words):
    paths = both(tmp_path, frame.assign(a=write(frame["a"])))
    with pytest.raises(DataError, match=words):
        read_pair(*paths, ReadOptions(y=["y"], unusable="error"))


def test_decimal_commas_are_read_where_they_are_named(tmp_path, frame):
    paths = both(tmp_path, frame.assign(a=decimal_commas(frame["a"]), y=decimal_commas(1000 * frame["y"])))
    pair = read_pair(*paths, ReadOptions(y=["y"], decimal=","))
    np.testing.assert_allclose(pair.xp[:, 0], frame["a"])
    assert [column.kind for column in pair.x] == ["number", "number"]


@pytest.mark.parametrize("cell", ["1.200", "1.5", "1.200,5", "1,2,3"])
def test_a_point_is_no_decimal_sign_beside_a_decimal_comma(cell):
    with pytest.raises(ValueError, match=r"not a number|could not convert"):
        as_number(cell, ",")
    with pytest.raises(DataError, match=r"`decimal` out|thousands|gaps=|[Cc]orrect"):
        tell_kind("a", [["1,5"] * 20 + [cell]], category=None, response=False, decimal=",")


def test_marks_of_gaps_are_counted_as_gaps(tmp_path, frame):
    paths = both(tmp_path, frame.assign(a=["?" if i in (3, 7) else x for i, x in enumerate(frame["a"])]))
    with pytest.raises(DataError, match=r"2 of 40 rows with one: 'a' \(2\)"):
        read_pair(*paths, ReadOptions(y=["y"], gaps="?,unknown", missing="error"))
    pair = read_pair(*paths, ReadOptions(y=["y"], missing="drop", gaps=["?"]))
    assert (pair.reference.gaps, pair.reference.used) == (2, 38)
    assert pair.x[0].kind == "number"


def test_typed_numbers_can_be_marks_of_gaps(tmp_path, frame):
    path = tmp_path / "p.jsonl"
    frame.assign(b=[-999 if i == 3 else i for i in range(40)]).to_json(path, orient="records", lines=True)
    pair = read_pair(str(path), str(path), ReadOptions(y=["y"], missing="drop", gaps=["-999"]))
    assert pair.reference.gaps == 1


def test_a_category_that_is_named_stays_one(tmp_path, frame):
    paths = both(tmp_path, frame.assign(b=["3+" if v > 6 else str(v) for v in frame["b"]]))
    assert read_pair(*paths, ReadOptions(y=["y"], category=["b"])).x[1].is_category


def test_a_mixed_column_is_a_category_with_a_note(tmp_path, frame):
    paths = both(tmp_path, frame.assign(b=["x" if i % 2 else "1" for i in range(40)]))
    pair = read_pair(*paths, ReadOptions(y=["y"]))
    assert pair.x[1].is_category
    assert pair.notes[0].startswith(
        "Column 'b' was read as a category: 40 of 80 cells are not numbers, the first 'x' in"
    )
    assert "in line 3 of" in pair.notes[0]


def test_bad_columns_are_all_told_in_one_message(tmp_path, frame):
    bad = frame.assign(a=decimal_commas(frame["a"]), b=["?" if i == 2 else i for i in range(40)])
    with pytest.raises(DataError, match=r"2 columns cannot be used\. \(1\) column 'a' .* \(2\) column 'b'"):
        read_pair(*both(tmp_path, bad), ReadOptions(y=["y"], unusable="error"))
    with pytest.raises(ValueError, match="got 'c', 'd'"):
        read_pair(*both(tmp_path, frame), ReadOptions(y=["y"], x=["c,d"]))


def test_the_line_counts_blank_lines_and_lines_within_quotes(tmp_path):
    path = tmp_path / "p.csv"
    rows = "".join(f"{i},{i % 3},{i % 7}.5\n" for i in range(20))
    path.write_text(f'\na,"b\nc",y\n\n{rows}?,1,2\n')
    with pytest.raises(DataError, match=r"the first '\?' in line 25 of"):
        read_pair(str(path), str(path), ReadOptions(y=["y"], unusable="error"))


def test_causal_counts_the_cells_that_are_no_numbers(tmp_path, frame):
    path = tmp_path / "p.csv"
    frame.assign(a=decimal_commas(frame["a"]), b=["?" if i in (2, 9) else i for i in range(40)]).to_csv(
        path, index=False
    )
    done = CliRunner().invoke(app, ["causal", str(path), "--out", str(tmp_path / "page.html")])
    said = " ".join(done.stderr.split())
    assert done.exit_code == 2
    assert "40 of 40 cells of column 'a' that are not numbers, the first" in said
    assert "--decimal ," in said
    assert "2 of 40 cells of column 'b' that are not numbers, the first '?' in line 4" in said
    assert "--gaps '?'" in said
    words = ["causal", str(path), "--decimal", ",", "--gaps", "?", "--order", "1", "--resamples", "5", "--json"]
    words = [*words, "--drop-missing"]
    done = CliRunner().invoke(app, [*words, "--columns", "a,b", "--out", str(tmp_path / "page.html")])
    assert json.loads(done.stdout)["missing_values"] == 2


def test_watch_names_the_cells_of_its_reference(tmp_path, frame):
    path = tmp_path / "p.csv"
    frame.assign(a=["?" if i == 2 else x for i, x in enumerate(frame["a"])]).to_csv(path, index=False)
    done = CliRunner().invoke(app, ["watch", str(path), "--y", "y"], input="a,b,y\n")
    assert done.exit_code == 2
    assert "the first '?' in line 4" in " ".join(done.stderr.split())
