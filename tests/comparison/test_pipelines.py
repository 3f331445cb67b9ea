"""A comparison in a pipeline: JSON by its schema, JUnit XML, Markdown, an assertion, weights and clusters."""

from __future__ import annotations

import copy
import html
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import condcs
from condcs import TableOptions
from condcs._core.errors import CondcsError
from condcs.cli.app import app
from condcs.cli.compare_command import as_junit, as_markdown
from condcs.comparison import _steps
from tests.docs.pages import DOCS
from tests.house_prices import house_prices
from tests.json_schema import faults

QUICK = {"n_resamples": 39, "n_jobs": 1}


def schema(name):
    return json.loads((DOCS / "schemas" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def changed():
    """As many rows as it takes for a region to be sure of."""
    return condcs.compare(house_prices(300, 1), house_prices(300, 3, changed=True), y="price", x="!sold", **QUICK)


@pytest.fixture(scope="module")
def same():
    return condcs.compare(house_prices(120, 1), house_prices(120, 2), y="price", x="!sold", **QUICK)


# --- JSON -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the command prints, with a date in parts and gaps."""
    folder = tmp_path_factory.mktemp("tables")
    for name, seed in (("p", 1), ("q", 2)):
        frame = house_prices(60, seed)
        frame["day"] = np.datetime64("2024-01-01") + np.arange(60) * np.timedelta64(1, "D")
        frame.loc[seed, "area"] = np.nan
        frame.to_csv(folder / f"{name}.csv", index=False)
    words = ["compare", str(folder / "p.csv"), str(folder / "q.csv"), "--y", "price", "--missing", "as-value", "--json"]
    done = CliRunner().invoke(app, [*words, "--resamples", "39", "--jobs", "1"])
    assert done.exit_code in (0, 1), done.output

    def no_constant(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(done.stdout, parse_constant=no_constant)


def test_what_the_command_prints_follows_its_schema(printed):
    assert faults(printed, schema("compare-1")) == []
    parts = [c["name"] for c in printed["x"] if c.get("part_of") == "day"]
    assert parts == ["day (trend)", "day (day of week, cosine)", "day (day of week, sine)"]
    assert {"name": "area (missing)", "kind": "category", "part_of": "area"} in printed["x"]


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda v: v.pop("verdict"), " lacks verdict"),
        (lambda v: v.update(schema="condcs/compare/2"), "/schema is 'condcs/compare/2'"),
        (lambda v: v["relation"].update(pvalue=1.5), "/relation/pvalue is 1.5, maximum 1"),
        (lambda v: v["x"][0].update(kind="text"), "/x/0/kind is 'text'"),
        (lambda v: v["reference"].update(rows=True), "/reference/rows is True, not integer"),
        (lambda v: v["inputs"]["overlap_interval"].append(1.0), "has 3 items, maxItems 2"),
    ],
)
def test_the_schema_can_fail(printed, spoil, fault):
    spoiled = copy.deepcopy(printed)
    spoil(spoiled)
    (found,) = faults(spoiled, schema("compare-1"))
    assert fault in found


def test_groups_follow_their_schema():
    table = house_prices(60, 1).assign(half=["one"] * 30 + ["two"] * 30)
    found = condcs.compare_groups(table, group="half", y="price", x="area", against="first", matrix=True, **QUICK)
    values = json.loads(json.dumps(found.to_dict()))
    assert faults(values, schema("compare-groups-1")) == []
    assert faults(values["groups"][0]["comparison"], schema("compare-1")) == []


def test_a_mean_of_no_rows_was_no_json(monkeypatch, changed):
    """NaN is no JSON: a parser of another language would refuse all of it."""
    monkeypatch.setattr(condcs.Comparison, "response", property(lambda self: (("mean price", float("nan"), 1.0),)))
    monkeypatch.setattr("condcs.comparison._comparing.compare", lambda *tables, **options: changed)
    done = CliRunner().invoke(app, ["compare", "a.csv", "b.csv", "--y", "price", "--json"])
    assert json.loads(done.stdout)["response"] == [{"what": "mean price", "reference": None, "current": 1.0}]


# --- JUnit and Markdown -----------------------------------------------------------------------------------------------


def junit(found):
    suite = ElementTree.fromstring(as_junit(found)).find("testsuite")
    return suite, {case.get("name"): case.find("failure") for case in suite.findall("testcase")}


def test_a_changed_relation_fails_in_junit(changed):
    suite, cases = junit(changed)
    assert list(cases)[:3] == ["inputs", "relation", "region 1"]
    assert cases["inputs"] is None
    assert cases["relation"].get("message") == changed.verdict
    assert "harbour" in cases["region 1"].get("message")
    assert int(suite.get("tests")) == len(cases)
    assert int(suite.get("failures")) == len(cases) - 1


def test_nothing_fails_where_nothing_changed(same):
    suite, cases = junit(same)
    assert cases == {"inputs": None, "relation": None}
    assert suite.get("failures") == "0"
    assert "no evidence" in suite.find("testcase[@name='relation']/system-out").text


NASTY = 'x|y</failure>\x1b[2J<img src=x onerror="1">`*'


def test_names_of_columns_cannot_leave_their_place():
    tables = [house_prices(120, seed)[["area", "price"]].rename(columns={"area": NASTY}) for seed in (1, 2)]
    tables[1]["price"] += 200.0 * (tables[1][NASTY] > 100)
    found = condcs.compare(*tables, y="price", **QUICK)
    assert found.relation_changed
    _, cases = junit(found)
    assert "</failure>" in cases["region 1"].get("message")
    text = as_markdown(found)
    assert "<img" not in text
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if "img" in line and line.startswith("|")]
    assert rows
    # Bars that part cells are not escaped: as many as in the line above the rows.
    widths = {line.replace("\\|", "").count("|") for line in rows}
    assert widths <= {line.count("|") for line in text.splitlines() if line.startswith("| ---")}


def test_markdown_has_the_answer_first(changed, same):
    assert as_markdown(changed).startswith(f"### 🔴 {html.escape(changed.verdict, quote=False)}\n")
    assert "where the relation changed" in as_markdown(changed)
    assert as_markdown(same).startswith("### ⚪ No evidence")


def test_the_command_writes_them(tmp_path, monkeypatch, changed):
    monkeypatch.setattr("condcs.comparison._comparing.compare", lambda *tables, **options: changed)
    words = ["--junit", str(tmp_path / "j.xml"), "--markdown", str(tmp_path / "s.md")]
    done = CliRunner().invoke(app, ["compare", "a.csv", "b.csv", "--y", "price", *words])
    assert done.exit_code == 1
    assert (tmp_path / "j.xml").read_text(encoding="utf-8") == as_junit(changed)
    assert (tmp_path / "s.md").read_text(encoding="utf-8") == as_markdown(changed)
    refused = CliRunner().invoke(
        app, ["compare", "a.csv", "b.csv", "--y", "price", "--junit", str(tmp_path / "no" / "j")]
    )
    assert refused.exit_code == 2
    assert "`--junit` must lie in a folder" in refused.stderr


# --- the assertion ----------------------------------------------------------------------------------------------------


def test_the_assertion_says_what_changed_and_where():
    tables = house_prices(300, 1), house_prices(300, 3, changed=True)
    with pytest.raises(AssertionError) as caught:
        condcs.assert_same_relation(*tables, y="price", x="!sold", alpha=0.05, **QUICK)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("For the same inputs, price is ")
    assert "harbour" in str(caught.value)
    assert lines[-2:] == ["reference: reference (DataFrame), 300 rows", "current: current (DataFrame), 300 rows"]


def test_the_assertion_returns_what_was_found():
    """Also where the inputs shifted; misuse is an error of its own, and no failed assertion."""
    tables = house_prices(100, 1), house_prices(100, 2, bigger=25)
    found = condcs.assert_same_relation(*tables, y="price", x="!sold", n_resamples=99, n_jobs=1)
    assert found.inputs_shifted
    assert found.alpha == 0.05
    with pytest.raises(CondcsError, match="Did you mean 'price'"):
        condcs.assert_same_relation(*tables, y="prize")


# --- weights and clusters on their way to the test --------------------------------------------------------------------


def test_weights_and_clusters_reach_the_test(monkeypatch):
    """A stand-in takes them and hands the rest to the test itself."""
    received, real = {}, _steps.conditional_test_by_views

    def stand_in(samples, resampling, **options):
        (_, weights_p), (_, weights_q) = samples.rows.weights
        (_, clusters_p), (_, clusters_q) = samples.rows.clusters
        received.update(weights_p=weights_p, weights_q=weights_q, clusters_p=clusters_p, clusters_q=clusters_q)
        return real(samples, resampling, **options)

    monkeypatch.setattr(_steps, "conditional_test_by_views", stand_in)
    tables = [house_prices(60, seed).assign(w=1.0 + np.arange(60), who=np.arange(60) // 3) for seed in (1, 2)]
    found = condcs.compare(*tables, y="price", x="*,!sold", tables=TableOptions(weights="w", cluster="who"), **QUICK)
    assert [c.name for c in found.pair.x] == ["area", "district"]
    assert np.array_equal(received["weights_p"], tables[0].w)
    assert np.array_equal(received["clusters_q"], np.arange(60) // 3)
    means = [float(np.average(table.price, weights=table.w)) for table in tables]
    assert found.response == (("mean price", pytest.approx(means[0]), pytest.approx(means[1])),)
    condcs.compare(*tables, y="price", x="area", **QUICK)
    assert set(received.values()) == {None}
