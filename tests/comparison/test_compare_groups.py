"""Groups of one table: the pairs, the adjustment, and every form of the answer."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import condcs
from condcs import TableOptions
from condcs._core.errors import CondcsError
from condcs._inference.input_changes import holm
from condcs._inference.results import Estimate
from condcs.cli.app import app
from condcs.comparison._groups import _unadjusted_level
from condcs.comparison._wording import change_at_same_inputs
from tests.house_prices import house_prices

QUICK = {"n_resamples": 79, "n_jobs": 1}


def months(*changed, rows=70):
    """Tables of four months, one below the other; in some of them prices at the harbour have risen."""
    frames = [house_prices(rows, seed, changed=seed in changed).assign(month=seed) for seed in (1, 2, 10, 11)]
    return pd.concat(frames, ignore_index=True).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def table():
    return months(11)


@pytest.fixture(scope="module")
def found(table):
    return condcs.compare_groups(
        table, group="month", y="price", x="area,district", against="first", matrix=True, **QUICK
    )


@pytest.fixture(scope="module")
def no_evidence(found):
    """A comparison without evidence, to stand for one that is not made."""
    first = found.comparisons[0]
    return replace(first, relation=replace(first.relation, pvalue=1.0))


def test_the_month_that_differs_is_named(found):
    """Against the first of four, in the order of their numbers, not of their digits."""
    assert found.names == ("2", "10", "11")
    assert found.changed == ("11",)
    assert found.relation_changed
    assert "differs where month is 11 (3 groups, each against the first)" in found.verdict
    assert found.pvalues == holm([c.relation.pvalue for c in found.comparisons])
    (words,) = found.changes
    assert words.startswith("month = 11: for the same inputs, price is ")
    with pytest.raises(CondcsError, match=r"`name` must be a group .* got '7'\. They are '2', '10', '11'"):
        found["7"]


def test_groups_of_no_order_were_said_to_be_before_and_now(found):
    assert " before" not in str(found)
    assert "mean price, where month is 1 → here" in str(found)
    assert found[11] is found["11"]


def test_each_pair_is_what_compare_finds(table, found):
    first, last = (table[table.month == m] for m in (1, 11))
    alone = condcs.compare(first, last, y="price", x="area,district", **QUICK)
    assert found["11"].relation.pvalue == alone.relation.pvalue
    assert found["11"].inputs.pvalue == alone.inputs.pvalue
    assert found["11"].pair.current.title == "month = 11"


@pytest.mark.parametrize(("against", "names", "used"), [("rest", 4, 210), ("previous", 3, 70)])
def test_what_each_group_is_compared_with(table, no_evidence, against, names, used, monkeypatch):
    """The rest is all other groups together, in the table's order: a running number is no input of any pair."""
    seen = []
    monkeypatch.setattr(
        "condcs.comparison._groups.compare_pair", lambda pair, run, **o: seen.append(pair) or no_evidence
    )
    monkeypatch.setattr("condcs.comparison._groups.GroupComparison", lambda **made: made)
    made = condcs.compare_groups(table.assign(number=np.arange(280)), group="month", y="price", against=against)
    assert {tuple(column.name for column in pair.x) for pair in seen} == {("area", "district", "sold")}
    assert len(made["names"]) == names
    assert {pair.reference.used for pair in seen} == {used}
    assert seen[-1].current.title == "month = 11"
    assert seen[-1].reference.title == ("the other 3 groups of month" if against == "rest" else "month = 10")


def test_one_month_that_differs_made_all_others_differ_from_the_rest():
    """It is a third of what each of the others is compared with; once named, it is left out there."""
    found = condcs.compare_groups(months(11, rows=150), group="month", y="price", x="area,district", **QUICK)
    assert found.changed == ("11",)
    assert found.names == ("1", "2", "10", "11")
    assert found["11"].pair.reference.title == "the other 3 groups of month"
    assert found["1"].pair.reference.title == "the other 2 groups of month"


def test_every_form_of_the_answer_has_all_groups(found, tmp_path):
    values = found.to_dict()
    assert values["schema"] == "condcs/compare-groups/1"
    assert [g["name"] for g in values["groups"]] == ["2", "10", "11"]
    assert values["groups"][2]["comparison"]["relation"]["pvalue"] == found["11"].relation.pvalue
    assert np.shape(values["divergences"]["matrix"]) == (4, 4)
    assert json.loads(json.dumps(values)) == values
    text = str(found)
    assert found.verdict in text
    assert [line.split()[0] for line in text.splitlines() if line[:1].isdigit()] == ["2", "10", "11"]
    page = found.report(tmp_path / "page.html", command="condcs compare").read_text(encoding="utf-8")
    assert "month = 11" in page
    assert "Between all groups" in page
    assert found._repr_html_().startswith("<iframe sandbox")
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_matrix_is_largest_for_the_month_that_differs(found):
    """The last row, without itself, lies above all others."""
    D = found.divergences
    assert D[3, :3].min() > D[:3, :3].max()
    assert np.allclose(np.diag(D), 0)


def test_holm_by_hand():
    """0.01 x 4, 0.02 x 3, 0.03 x 2 is no less than that, 0.9 x 1; never above 1."""
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx((0.06, 0.04, 0.9, 0.06))
    assert holm([0.5, 0.6]) == (1.0, 1.0)


def test_enough_resamples_for_the_adjustment(table, no_evidence, monkeypatch):
    """With k groups the smallest adjusted p-value is k / (1 + resamples)."""
    given = []
    monkeypatch.setattr(
        "condcs.comparison._groups.compare_pair", lambda pair, run, **o: given.append(run) or no_evidence
    )
    monkeypatch.setattr("condcs.comparison._groups.GroupComparison", lambda **made: made)
    condcs.compare_groups(table, group="month", y="price", alpha=0.01)
    assert {run.n_resamples for run in given} == {799}
    with pytest.raises(CondcsError, match=r"`n_resamples` must be at least 399 .*got 398"):
        condcs.compare_groups(table, group="month", y="price", alpha=0.01, n_resamples=398)


def test_small_groups_and_rows_without_a_group_are_said(table, no_evidence, monkeypatch):
    monkeypatch.setattr("condcs.comparison._groups.compare_pair", lambda pair, run, **o: no_evidence)
    monkeypatch.setattr("condcs.comparison._groups.GroupComparison", lambda **made: made)
    odd = table.astype({"month": object})
    odd.loc[odd.index[:3], "month"] = None
    odd.loc[odd.index[3:8], "month"] = "test"
    with pytest.raises(CondcsError, match=r"got 3 of 280 rows with one: 'month' \(3\)"):
        condcs.compare_groups(odd, group="month", y="price", missing="error")
    made = condcs.compare_groups(odd, group="month", y="price", tables=TableOptions(missing="drop"))
    assert made["notes"] == (
        "Left out for lack of a value in 'month': 3 rows.",
        "Groups of fewer than 10 rows were left out: 'test'.",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group": "moth"}, "`group` must name columns of table .DataFrame., got 'moth'. Did you mean 'month'"),
        ({"group": "area"}, "`group` must name a column of at most 50 groups, got more in column 'area'"),
        ({"group": "one"}, "at least two groups of 10 rows or more, got 1 in column 'one'"),
        ({"against": "last"}, "`against` must be one of 'rest', 'first', 'previous', got 'last'"),
        ({"y": "month"}, "`y` and `group` must name different columns, got 'month' for both"),
        ({"tables": TableOptions(time_budget=9)}, "`time_budget` must be None for groups, got 9"),
    ],
)
def test_misuse(table, options, words):
    with pytest.raises(CondcsError, match=words):
        condcs.compare_groups(table.assign(one=1), **{"group": "month", "y": "price", **QUICK, **options})


def test_the_command(table, found, tmp_path):
    path = tmp_path / "months.csv"
    table.to_csv(path, index=False)
    words = ["compare", str(path), "--group", "month", "--against", "first", "--y", "price", "--x", "area,district"]
    words += ["--resamples", "79", "--jobs", "1"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 1, done.output
    assert json.loads(done.stdout)["changed"] == ["11"]
    assert json.loads(done.stdout)["groups"][0]["pvalue_adjusted"] == found.pvalues[0]


@pytest.mark.parametrize("words", [["a.csv"], ["a.csv", "b.csv", "--group", "month"]])
def test_two_tables_or_one_with_groups(words):
    done = CliRunner().invoke(app, ["compare", *words, "--y", "price"])
    assert done.exit_code == 2
    assert "two tables must be named, or one table and its --group" in " ".join(done.stderr.split())


# --- what the lines say -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sites():
    """Three sites; at c the inputs are higher by 1.2 and y, for the same inputs, is lower by 0.6: raw, y is higher."""
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "b", "c"], 200)
    x = rng.normal(size=600) + np.where(site == "c", 1.2, 0.0)
    y = x - np.where(site == "c", 0.6, 0.0) + 0.5 * rng.normal(size=600)
    return condcs.compare_groups({"site": site, "x": x, "y": y}, group="site", y="y", **QUICK)


def test_raw_means_stood_where_the_same_inputs_were_meant(sites):
    lines = sites.lines()
    assert lines.columns[-2:] == ("change of y for the same inputs (98.333% interval)", "raw mean y, elsewhere → here")
    *_, change, raw = lines.rows[2]
    before, now = map(float, raw.split(" → "))
    assert now > before
    assert change.startswith("-0.")
    average = sites["c"].effects[0].average
    assert float(change.split()[0]) == pytest.approx(average.value, abs=0.01)


def test_a_p_value_at_the_floor_of_its_resamples_was_given_as_a_value(sites):
    """79 resamples: no p-value is below 1 / 80, and three of these groups make 3 / 80 of it."""
    assert sites.pvalue_is_bound == (False, False, True)
    assert sites.lines().rows[2][3] == "at most 0.038"
    assert not any(row[3].startswith("at most") for row in sites.lines().rows[:2])
    assert [group["pvalue_is_bound"] for group in sites.to_dict()["groups"]] == [False, False, True]


def test_the_warning_of_a_p_value_named_no_group_and_came_last(sites):
    comparison = sites["b"]
    diagnostics = {**comparison.relation.diagnostics, "balance": "failed", "balance_pvalue": 0.005}
    doubtful = replace(comparison, relation=replace(comparison.relation, diagnostics=diagnostics), notes=("A note.",))
    graded = replace(sites, comparisons=(sites["a"], doubtful, sites["c"]))
    assert "Where site is b, the p-value may be far too small" in graded.verdict
    assert graded.all_notes == ("site = b: A note.",)


def test_a_group_without_evidence_had_changed_true_in_its_json(found):
    """Raw p-values were held against the level for all groups together."""
    for name, comparison, p, p_inputs in zip(
        found.names, found.comparisons, found.pvalues, found.inputs_pvalues, strict=True
    ):
        assert comparison.relation_changed == (name in found.changed) == (p <= found.alpha)
        assert comparison.inputs_shifted == (p_inputs <= found.alpha)
    # Judged at every level, whatever the p-values are.
    for seed in range(20):
        raw = np.random.default_rng(seed).uniform(0.001, 0.06, size=5).round(3).tolist()
        for p, adjusted in zip(raw, holm(raw), strict=True):
            assert (p <= _unadjusted_level(p, adjusted, 0.05)) == (adjusted <= 0.05)


def test_intervals_of_groups_hold_together_and_say_their_level(found):
    for comparison in found.comparisons:
        assert comparison.effects[0].average.confidence_level == pytest.approx(1 - 0.05 / 3)
        for region in comparison.regions:
            assert region.changes[0].change.confidence_level == pytest.approx(1 - 0.05 / 3)
    assert "change of price for the same inputs (98.333% interval)" in found.lines().columns


def test_json_says_elsewhere_and_here_as_the_text_does(sites):
    assert sites["c"].sides == ("elsewhere", "here")
    assert " now" not in sites["c"].verdict
    assert "elsewhere" in str(sites["c"])


def test_the_words_name_what_each_group_was_compared_with(sites):
    assert sites.set_aside == ("c",)
    assert "each against all others together, without c)" in sites.verdict
    two = months(11).query("month in (1, 11)")
    found = condcs.compare_groups(two, group="month", y="price", x="area,district", **QUICK)
    assert "(2 groups, each against the other)" in found.verdict


def test_rows_beyond_the_most_are_said_to_be_left_out(no_evidence, monkeypatch):
    account = replace(no_evidence.pair.current, seen=2019, used=2000)
    many = replace(no_evidence, pair=replace(no_evidence.pair, current=account))
    monkeypatch.setattr("condcs.comparison._groups.compare_pair", lambda pair, run, **o: many)
    made = condcs.compare_groups(months(), group="month", y="price")
    assert made.notes == (
        "At most 2,000 rows of each group, and of what it is compared with, were used. Set `max_rows` to use more.",
    )


# --- more rows than are used ------------------------------------------------------------------------------------------


def halves(rows=1500, n_labels=2, seed=1):
    """A table of two halves, whose label depends on x; in the later half "up" is rarer at high x."""
    rng = np.random.default_rng(seed)
    half = np.repeat(["first", "second"], rows)
    x = rng.normal(size=2 * rows) + np.where(half == "second", 0.4, 0.0)
    shift = np.where((half == "second") & (x > 0.5), -3.0, 0.0)
    label = (x + shift + rng.logistic(size=2 * rows) > 0).astype(int)
    number = x + shift + rng.normal(size=2 * rows) * np.where(half == "second", 1.4, 1.0)
    names = np.array(["down", "up", "steady"])
    labels = np.where(rng.random(2 * rows) < 0.2, 2, label) if n_labels == 3 else label
    return pd.DataFrame({"half": half, "x": x, "z": rng.normal(size=2 * rows), "label": names[labels], "y": number})


@pytest.fixture(scope="module")
def sampled():
    return condcs.compare_groups(halves(), group="half", y="label", x="x,z", max_rows=300, **QUICK)


def test_raw_values_of_a_sample_were_said_to_be_of_all_rows(sampled, tmp_path):
    """300 of 1,500 rows of each half: what the file has is not known."""
    comparison = sampled["second"]
    assert not sampled.has_all_rows
    assert sampled.lines().columns[-1] == "raw share of label = up of the rows used, elsewhere → here"
    assert "Over the rows used, share of label = up: " in str(comparison)
    assert "Overall" not in str(comparison)
    assert comparison.to_dict()["response_rows"] == "used"
    for found in (sampled, comparison):
        page = found.report(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "all rows" not in page.partition("Method and assumptions")[0]
        assert "the rows used, whatever their inputs" in page


def test_raw_values_of_all_rows_are_said_to_be(sites, tmp_path):
    assert sites.has_all_rows
    assert "raw values are those of all rows" in sites.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Overall, mean y: " in str(sites["c"])
    assert sites["c"].to_dict()["response_rows"] == "all"


def test_rows_dropped_for_their_gaps_counted_as_all_rows():
    table = halves(200)
    table.loc[:20, "x"] = np.nan
    first, second = (table[table.half == half] for half in ("first", "second"))
    comparison = condcs.compare(first, second, y="y", x="x,z", missing="drop", **QUICK)
    assert "Over the rows used, mean y: " in str(comparison)


@pytest.mark.parametrize(("response", "n_labels"), [("label", 2), ("label", 3), ("y,label", 2)])
def test_two_groups_had_two_answers(response, n_labels):
    """Each was compared with the other anew, with other random numbers: effects, regions and p-values differed."""
    found = condcs.compare_groups(halves(n_labels=n_labels), group="half", y=response, x="x,z", max_rows=400, **QUICK)
    first, second = found["first"], found["second"]
    assert found.names == ("first", "second")
    assert first.relation.pvalue == second.relation.pvalue
    assert first.inputs.pvalue == second.inputs.pvalue
    assert np.array_equal(first.pair.xp, second.pair.xq)
    assert first.pair.current.title == "half = first"
    assert first.response == tuple((words, now, before) for words, before, now in second.response)
    for one, other in zip(first.effects, second.effects, strict=True):
        assert one.size == other.size
        if other.average is not None:
            assert tuple(one.average) == (-other.average.value, -other.average.high, -other.average.low)
        if other.spread is not None:
            assert one.spread[:2] == other.spread[1::-1]
            assert one.spread.change.low == -other.spread.change.high
    assert len(first.regions) == len(second.regions) > 0
    for one, other in zip(first.regions, second.regions, strict=True):
        assert (one.bounds, one.pvalue, one.share_p) == (other.bounds, other.pvalue, other.share_q)
        for back, forth in zip(one.changes, other.changes, strict=True):
            assert back.reference == forth.current
            turned = 1 / forth.change.high if forth.quantity == "spread" else -forth.change.high
            assert back.change.low == turned
    for one, other in zip(first.location.explanation.inputs, second.location.explanation.inputs, strict=True):
        assert one.shares_p == other.shares_q
        assert one.summaries == tuple((words, now, before) for words, before, now in other.summaries)
    assert "scatters" not in str(first) or "less" in str(first)
    assert np.isfinite(first.location.witness.expected).all()


def test_two_groups_are_compared_as_the_two_tables():
    """The later one with the earlier one, as `against="first"` does."""
    options = {"group": "half", "y": "label", "x": "x,z", "max_rows": 300, **QUICK}
    rest = condcs.compare_groups(halves(), against="rest", **options)
    first = condcs.compare_groups(halves(), against="first", **options)
    assert rest["second"].relation.pvalue == first["second"].relation.pvalue
    assert rest["second"].regions[0].bounds == first["second"].regions[0].bounds


def test_clusters_of_two_groups_are_mirrored():
    """Clusters of 5 and of 10 rows: the counts of clusters in both groups change places, and so do their rows."""
    table = halves(300)
    rows = np.arange(300)
    table["day"] = np.concatenate([rows // 5, 1000 + rows // 10])
    found = condcs.compare_groups(
        table, group="half", y="y", x="x,z", tables=TableOptions(cluster="day"), max_rows=250, **QUICK
    )
    first, second = found["first"], found["second"]
    assert first.relation.diagnostics["clusters"] == second.relation.diagnostics["clusters"][::-1]
    drawn = first.location.propensity.draw(3, np.random.default_rng(0))
    for of_day in (first.pair.clusters_p, first.pair.clusters_q):
        part = drawn[:, : len(of_day)] if of_day is first.pair.clusters_p else drawn[:, -len(of_day) :]
        assert all(len(np.unique(part[:, of_day == day], axis=1).T) == 1 for day in np.unique(of_day))


def test_a_group_that_differs_had_an_empty_change_where_hardly_any_inputs_are_common(sampled):
    comparison = sampled["second"]
    relation = comparison.relation
    apart = replace(relation, diagnostics={**relation.diagnostics, "hardly_overlaps": True})
    changed = replace(sampled, comparisons=(sampled["first"], replace(comparison, relation=apart)))
    assert changed.lines().rows[1][-2] == "hardly any common inputs"


def test_resamples_of_regions_were_said_to_be_those_of_the_tests(sampled, tmp_path):
    """79 resamples, and a region of p = .004, below 1/80: regions have 499 at least."""
    assert "79 of each test, 499 of the regions" in str(sampled)
    assert "79 of each test, 499 of the regions" in str(sampled["second"])
    values = sampled["second"].to_dict()
    assert (values["resamples"], values["resamples_of_regions"]) == (79, 499)
    for found in (sampled, sampled["second"]):
        page = found.report(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "79 of each test, 499 of the regions" in page


def test_the_page_showed_backticks_around_the_name_of_an_option(sampled, tmp_path):
    noted = replace(sampled, notes=("Set `--max-rows` to use more.",))
    page = noted.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Set <code>--max-rows</code> to use more." in page


def test_a_change_of_one_point_was_one_points(sampled):
    (effect,) = sampled["second"].effects
    one = replace(effect, average=Estimate(0.01, -0.09, 0.11, 0.95))
    comparison = replace(sampled["second"], sizes=replace(sampled["second"].sizes, effects=(one,)))
    assert change_at_same_inputs(comparison) == "+1 point (-9 to +11 points)"
