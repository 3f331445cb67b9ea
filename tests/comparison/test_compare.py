"""`condcs.compare`: any kind of table gives what the command gives, in every form a reader may want it in."""

from __future__ import annotations

import html
import inspect
import json
import pickle
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import condcs
from condcs import Limits, TableOptions
from condcs._core.errors import CondcsError
from condcs.cli.app import app
from tests.house_prices import house_prices

QUICK = {"n_resamples": 39, "n_jobs": 1}


class Planned:
    """What condcs sees of a polars LazyFrame."""

    columns = ("x", "y")

    def collect(self):
        raise AssertionError("a plan is not carried out unasked")


class PolarsLike:
    """What condcs uses of a polars DataFrame: names, and columns with a length, slices and `to_list`."""

    def __init__(self, frame):
        self.columns, self._frame = list(frame), frame

    def __getitem__(self, name):
        return PolarsLikeSeries(self._frame[name].tolist())


class PolarsLikeSeries:
    def __init__(self, cells):
        self._cells, self.shape, self.dtype = cells, (len(cells),), "polars"

    def __len__(self):
        return len(self._cells)

    def __getitem__(self, rows):
        return PolarsLikeSeries(self._cells[rows])

    def to_list(self):
        return self._cells


@pytest.fixture(scope="module")
def frames():
    return house_prices(120, 1), house_prices(130, 3, changed=True)


@pytest.fixture(scope="module")
def files(frames, tmp_path_factory):
    folder = tmp_path_factory.mktemp("months")
    for name, frame in zip(("march", "april"), frames, strict=True):
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder / "march.csv", folder / "april.csv"


@pytest.fixture(scope="module")
def command(files):
    """What the command says about the files: its JSON and its text."""
    words = ["compare", *map(str, files), "--y", "price", "--x", "area,district", "--resamples", "39", "--jobs", "1"]
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return json.loads(runner.invoke(app, [*words, "--json"]).stdout), runner.invoke(app, words).stdout


@pytest.fixture(scope="module")
def found(frames):
    return condcs.compare(*frames, y="price", x=["area", "district"], **QUICK)


def without_titles(values):
    return {**values, **{name: {**values[name], "table": ""} for name in ("reference", "current")}}


@pytest.mark.parametrize(
    "as_table",
    [
        lambda frame: frame,
        lambda frame: frame.iloc[:, ::-1].set_index("sold"),
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        lambda frame: frame.astype({"district": "category"}),
        pa.Table.from_pandas,
        lambda frame: pa.Table.from_pandas(frame.astype({"district": "category"})),
        lambda frame: frame.to_dict("list"),
        lambda frame: {name: frame[name].to_numpy() for name in frame},
        lambda frame: dict(frame.set_index(np.linspace(5, 6, len(frame)))),
        PolarsLike,
    ],
    ids=[
        "frame",
        "reordered",
        "arrow-backed",
        "categorical",
        "pyarrow",
        "dictionary",
        "lists",
        "arrays",
        "series",
        "polars",
    ],
)
def test_tables_in_memory_give_the_numbers_of_the_command(frames, command, as_table):
    ours = condcs.compare(*map(as_table, frames), y="price", x="area,district", **QUICK)
    assert without_titles(ours.to_dict()) == without_titles(command[0])


def test_paths_give_the_numbers_of_the_command(files, command):
    ours = condcs.compare(files[0], str(files[1]), y=["price"], x=["area", "district"], **QUICK)
    assert ours.to_dict() == command[0]
    text = "\n".join(line.rstrip() for line in command[1].strip().splitlines())
    assert str(ours).split() == text.split()


def test_columns_of_an_array_go_by_number(frames):
    """Also counted from the end; what remains is x."""
    arrays = [frame[["area", "price"]].to_numpy() for frame in frames]
    first = condcs.compare(*arrays, y=1, **QUICK)
    assert [c.name for c in (*first.pair.x, *first.pair.y)] == ["column 0", "column 1"]
    assert condcs.compare(*arrays, y=-1, x=np.array([0]), **QUICK) == first
    named = condcs.compare(*(frame[["area", "price"]] for frame in frames), y="price", **QUICK)
    assert named.relation.pvalue == first.relation.pvalue
    assert named.relation.divergence == first.relation.divergence


def test_missing_values_of_every_library_are_gaps():
    """None, NaN, NaT and pandas.NA; without them the rows are those that remain."""
    rng = np.random.default_rng(0)
    day = np.datetime64("2024-01-01", "ns") + np.arange(40) * np.timedelta64(1, "D")
    frame = pd.DataFrame({"x": rng.normal(size=40), "n": pd.array(rng.integers(0, 9, 40), "Int64"), "day": day})
    frame["y"] = frame.x + rng.normal(size=40)
    holes = frame.copy()
    holes.loc[1, "x"], holes.loc[2, "n"], holes.loc[3, "day"] = np.nan, pd.NA, pd.NaT
    with pytest.raises(CondcsError, match=r"current \(DataFrame\) .* got 3 of 40 rows with one: .*missing='drop'"):
        condcs.compare(frame, holes, y="y", missing="error", **QUICK)
    ours = condcs.compare(frame, holes, y="y", tables=TableOptions(missing="drop"), **QUICK)
    assert (ours.pair.current.gaps, ours.pair.current.used) == (3, 37)
    week = ["day (day of week, cosine)", "day (day of week, sine)"]
    assert [c.name for c in ours.pair.x] == ["x", "n", "day (trend)", *week]
    by_array = condcs.compare(
        frame, {name: holes[name].to_numpy() for name in holes}, y="y", tables=TableOptions(missing="drop"), **QUICK
    )
    assert by_array.to_dict()["relation"] == ours.to_dict()["relation"]


def test_long_tables_are_sampled_as_files_are(frames, files):
    options = {"y": "price", "x": "area", **QUICK, "rng": 4, "tables": TableOptions(max_rows=50)}
    ours, read = condcs.compare(*frames, **options), condcs.compare(*files, **options)
    assert ours.pair.reference.used == 50
    assert without_titles(ours.to_dict()) == without_titles(read.to_dict())
    assert "sampled with seed 4 from 120" in str(ours)


def test_equal_calls_are_equal(frames, found):
    again = condcs.compare(*frames, y="price", x="!sold", **QUICK)
    assert again == found
    assert hash(again) == hash(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert found != condcs.compare(*frames, y="price", x="area", **QUICK)


def test_answers_are_attributes(found):
    assert found.relation_changed
    assert found.relation.pvalue <= found.alpha < found.inputs.pvalue
    assert not found.inputs_shifted
    assert "district = harbour" in found.regions[0].words
    assert found.response[0][0] == "mean price"
    assert found.verdict in str(found)
    said = repr(found).removeprefix("<Comparison: ").removesuffix(">").removesuffix(" ...")
    assert said
    assert found.verdict.startswith(said)


def test_a_page_and_a_notebook_show_the_same(found, tmp_path):
    path = found.report(tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    shown = found._repr_html_()
    (inside,) = re.findall(r'^<iframe sandbox title="[^"<>]*" srcdoc="([^"<>]*)" style="[^"<>]*"></iframe>$', shown)
    assert html.unescape(inside) == page
    assert found.verdict in html.unescape(page)
    assert "<pre" not in page
    assert "condcs.compare(march" in found.report(path, command="condcs.compare(march, april)").read_text("utf-8")


def test_markup_in_names_cannot_leave_the_frame_of_a_notebook(frames):
    nasty = '"></iframe><script>alert(1)</script>'
    renamed = [frame[["area", "price"]].rename(columns={"price": nasty}) for frame in frames]
    shown = condcs.compare(*renamed, y=nasty, **QUICK)._repr_html_()
    assert shown.count("<") == 2
    assert "<script" not in shown


def test_names_cannot_send_commands_to_the_terminal(frames):
    renamed = [frame[["area", "price"]].rename(columns={"price": "price\x1b[2J\n\u202e"}) for frame in frames]
    lines = str(condcs.compare(*renamed, y="price*", **QUICK)).split("\n")
    assert all(line.isprintable() for line in lines)
    assert lines[2] == r"y          price\x1b[2J\n\u202e (number)"


def test_the_picture_is_of_the_input_that_tells_most(found):
    assert found.plot().axes[1].get_xlabel() in ("area", "district")
    assert found.plot("area").axes[1].get_xlabel() == "area"
    with pytest.raises(CondcsError, match=r"plot: `column` must be an input, got 'rooms'\. The inputs are 'area'"):
        found.plot("rooms")


def test_numbers_in_text_are_read_as_told(frames):
    texts = [frame.assign(area=[f"{a:.2f}".replace(".", ",") for a in frame.area]) for frame in frames]
    with pytest.raises(CondcsError, match=r"pass tables=TableOptions\(decimal=','\)"):
        condcs.compare(*texts, y="price", x="area", **QUICK)
    ours = condcs.compare(*texts, y="price", x="area", tables=TableOptions(decimal=","), **QUICK)
    assert ours.pair.xp[0, 0] == round(frames[0].area[0], 2)


def test_the_picture_of_whole_numbers_has_a_point_for_each():
    """Four and five rooms were one point at 4.5."""
    rng = np.random.default_rng(0)
    tables = [{"rooms": rng.integers(1, 6, 200), "price": rng.normal(size=200)} for _ in range(2)]
    above, below = condcs.compare(*tables, y="price", **QUICK).plot("rooms").axes
    assert [line.get_xdata().tolist() for line in above.lines] == 2 * [[1, 2, 3, 4, 5]]
    assert all(tick == round(tick) for tick in below.get_xticks())


GOOD = {"x": np.arange(30.0), "y": np.arange(30.0) ** 2}


@pytest.mark.parametrize(
    ("reference", "options", "words"),
    [
        ([1, 2, 3], {}, r"`reference` must be a table \(a DataFrame.* got list\. Pass"),
        (np.zeros((2, 3, 4)), {}, r"`reference` must be a table .* got ndarray of shape \(2, 3, 4\)"),
        (pd.Series([1.0, 2.0]), {}, "`reference` must be a table .* got Series"),
        (Planned(), {}, "`reference` must be a table whose rows are known, got Planned.*its method `collect`"),
        ({"x": np.zeros((30, 2)), "y": np.zeros(30)}, {}, r"one-dimensional columns, got shape \(30, 2\) for 'x'"),
        ({"x": np.zeros(20), "y": np.zeros(30)}, {}, "equal length, got 20 cells in the first and 30 in 'y'"),
        ({"x": "text", "y": np.zeros(30)}, {}, "must hold columns of values, got str for 'x'"),
        ({"x": 5, "y": np.zeros(30)}, {}, "must hold columns of values, got int for 'x'"),
        ({"x": np.array(5.0), "y": np.zeros(30)}, {}, r"one-dimensional columns, got shape \(\) for 'x'"),
        ({"x": [[1]] * 30, "y": GOOD["y"]}, {}, r"numbers or text in column 'x', got a list in row 1\. Flatten it"),
        ({"x": [b"u"] * 30, "y": GOOD["y"]}, {}, r"column 'x', got bytes in row 1\. Decode them"),
        (pd.DataFrame(np.zeros((30, 2)), columns=["x", "x"]), {}, "must name each column once, got 'x'"),
        ({}, {}, "`y` must name columns of reference"),
        ({"x": [], "y": []}, {}, "must have at least 10 rows to compare, got 0 rows"),
        ("absent.csv", {}, "absent.csv could not be read"),
        (GOOD, {"y": "z"}, "`y` must name columns of reference .dict., got 'z'"),
        (GOOD, {"y": 1}, r"`y` must name columns of reference .dict., got 1\. Its columns are 'x', 'y'"),
        (GOOD, {"y": []}, "`y` must name a column"),
        (GOOD, {"x": "y"}, "`x` must leave at least one column beside `y`"),
        (GOOD, {"alpha": 1.5}, r"`alpha` must lie between 0 and 1, got 1\.5\. Pass e\.g\. alpha=0\.05"),
        (GOOD, {"alpha": "much"}, "`alpha` must lie between 0 and 1, got 'much'"),
        (GOOD, {"alpha": 0.01}, r"`n_resamples` must be at least 99 .* reach alpha=0\.01, got 39"),
        (GOOD, {"rng": -1}, "`rng` must be a non-negative integer"),
        (GOOD, {"n_resamples": 0}, "`n_resamples` must be an integer of at least 1"),
        (GOOD, {"tables": {"decimal": ","}}, "`tables` must be a TableOptions, got dict"),
    ],
)
def test_misuse_is_a_message_in_the_words_of_python(reference, options, words):
    with pytest.raises(CondcsError, match=f"^compare: .*{words}") as caught:
        condcs.compare(reference, GOOD, **{"y": "y", **QUICK, **options})
    assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        (TableOptions, {"max_rows": 3}, "`max_rows` must be an integer of at least 10"),
        (TableOptions, {"time_budget": -1}, "`time_budget` must be a positive, finite number"),
        (TableOptions, {"missing": "fill"}, "`missing` must be one of 'error', 'drop', 'as-value', got 'fill'"),
        (TableOptions, {"decimal": ";"}, "`decimal` must be one of '.', ','"),
        (Limits, {"tolerance": 0}, "`tolerance` must be a positive, finite number, got 0"),
        (Limits, {"min_effect": 1.5}, r"`min_effect` must be below 1, got 1\.5"),
    ],
)
def test_options_are_checked_where_they_are_made(made, options, words):
    with pytest.raises(CondcsError, match=words):
        made(**options)


def test_every_function_takes_at_most_ten_options_beside_the_data_and_documents_them():
    for function in (condcs.compare, condcs.compare_groups, condcs.assert_same_relation):
        named = inspect.signature(function).parameters
        described = inspect.getdoc(function).partition("Parameters\n")[2].partition("\n\nReturns")[0]
        titles = " ".join(line for line in described.splitlines() if not line.startswith(" "))
        assert len(set(named) - {"reference", "current", "table", "x", "y", "group", "prediction"}) <= 10
        assert set(named) <= set(re.findall(r"\w+", titles))


def test_the_current_table_lacks_a_column():
    with pytest.raises(CondcsError, match=r"current \(dict\) must have the columns of the reference, but lacks 'x'"):
        condcs.compare(GOOD, {"y": GOOD["y"]}, y="y", **QUICK)


# --- columns that cannot be compared ----------------------------------------------------------------------------------


def month_with_all_kinds(seed, *, month):
    """Rows with an identifier, free text, gaps in x and in y, and a month that no row of the other table has."""
    rng = np.random.default_rng(seed)
    n = 80
    x = rng.normal(size=n)
    return pd.DataFrame(
        {
            "customer": [f"c{seed}-{i:04d}" for i in range(n)],
            "comment": [f"row {i} was a matter of {seed} and {i * seed} more" for i in range(n)],
            "x": np.where(np.arange(n) % 10 == 3, np.nan, x),
            "month": month,
            "y": np.where(np.arange(n) % 20 == 7, np.nan, x + rng.normal(size=n)),
        }
    )


def test_a_first_call_was_refused_for_columns_that_cannot_be_compared():
    result = condcs.compare(month_with_all_kinds(1, month=3), month_with_all_kinds(2, month=4), y="y", **QUICK)
    assert [column.name for column in result.pair.x] == ["x", "x (missing)"]
    assert result.pair.reference.gaps == 4
    assert result.pair.reference.gaps_by_input == (("x", 8),)
    given = "This is given the other inputs: customer, comment, month could not be compared and were left out."
    assert given in result.verdict
    shown = str(result)
    assert "month (no value in common: 3, then 4)" in shown
    assert "4 without y dropped; gaps count as values in x (8)" in shown
    assert {each["column"] for each in result.to_dict()["left_out"]} == {"customer", "comment", "month"}


def test_refusing_columns_that_cannot_be_compared_is_an_option():
    tables = month_with_all_kinds(1, month=3), month_with_all_kinds(2, month=4)
    with pytest.raises(CondcsError, match=r"2 columns cannot be used\. \(1\) column 'customer' .* \(2\) column 'com"):
        condcs.compare(*tables, y="y", tables=TableOptions(unusable="error"), **QUICK)
    with pytest.raises(CondcsError, match=r"got 12 of 80 rows with one: 'x' \(8\), 'y' \(4\)"):
        condcs.compare(*tables, y="y", missing="error", **QUICK)
