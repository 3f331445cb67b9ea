"""`compare` with a size that matters, a loss, and a time budget."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import condcs
from condcs import Limits, TableOptions
from condcs._core.errors import CondcsError, ParameterError
from condcs._inference.effects import Effect
from condcs._inference.loss_split import LossChange
from condcs._inference.results import Estimate
from condcs._tables.kinds import Column
from condcs.comparison._comparing import MOST_COMPARED_ROWS, rows_within
from condcs.comparison._result import _bounds_in_region
from condcs.comparison._wording import answers_table, change_words, effect_words, effects_table, regions_table

QUICK = {"n_resamples": 39, "n_jobs": 1}


def month(seed, *, rows=400, shift=0.0, noise=0.2, moved=0.0):
    rng = np.random.default_rng(seed)
    area = rng.normal(moved, 1, rows)
    district = rng.choice(["north", "south"], rows)
    price = area + 0.5 * (district == "north") + shift + noise * rng.normal(size=rows)
    sold = np.where(price > 0, "yes", "no")
    return pd.DataFrame({"area": area, "district": district, "price": price, "sold": sold, "guess": area + 0.25})


OPTIONS = {"y": "price", "x": "area,district", **QUICK}


@pytest.mark.parametrize(
    ("tolerance", "decision", "words"),
    [
        (None, "changed", "For the same inputs, price is 0.1"),
        (0.02, "changed", "The relation of price to the inputs changed (p = "),
        (0.1, "undecided", "Undecided whether the relation of price to the inputs changed by more than 0.1"),
        (0.5, "same", "is the same within 0.5: for the same inputs, mean and spread of price differ by at most "),
    ],
)
def test_the_bound_decides_not_the_pvalue(tolerance, decision, words):
    """A shift by half a noise deviation: certain (p is the smallest there is), and of a size that may not matter."""
    found = condcs.compare(month(0), month(1, shift=0.1), tolerance=tolerance, **OPTIONS)
    assert found.relation.pvalue == 1 / 40
    assert found.decision == decision
    assert found.relation_changed == (decision == "changed") == found.to_dict()["changed"]
    assert words in found.verdict
    assert found.to_dict()["tolerance"] == tolerance
    assert found.effects[0].average.low <= 0.1 <= found.effects[0].average.high
    assert found.verdict in str(found)


def test_a_change_in_a_region_was_lost_in_the_mean_over_all_inputs():
    """A fifth of the rows changed by 1: 0.45 in root mean square over all of them, which is less than what matters."""
    before, now = month(0), month(1)
    now["price"] += 1.0 * (now.area > 0.84)
    found = condcs.compare(before, now, tolerance=0.7, **OPTIONS)
    assert found.effects[0].size.high < 0.7
    assert found.decision == "changed"
    assert condcs.compare(before, now, tolerance=1.2, **OPTIONS).decision == "same"
    undecided = condcs.compare(before, now, tolerance=1.0, **OPTIONS)
    assert undecided.decision == "undecided"
    assert "where area > 0.8" in undecided.verdict


def test_a_region_of_one_response_was_said_of_the_next():
    """The verdict read "... mean and spread of rent differ by at most .52, and where area > 0.8 by +0.9 to +1.1"."""
    rng = np.random.default_rng(9)
    before, now = (table.assign(rent=rng.normal(size=len(table))) for table in (month(0), month(1)))
    now["price"] += 1.0 * (now.area > 0.84)
    found = condcs.compare(before, now, tolerance=1.0, **{**OPTIONS, "y": "price,rent"})
    assert found.decision == "undecided"
    assert re.search(
        r"of rent differ by .*, and the mean of price changed by \+[\d.]+ to \+[\d.]+ where area > 0\.8", found.verdict
    )


def test_a_spread_that_changes_is_said_to_change_by_a_factor():
    found = condcs.compare(month(0), month(1, noise=0.5), tolerance=0.3, **OPTIONS)
    assert "the spread of price changed by a factor of 2" in found.verdict
    assert found.verdict.partition("; ")[0].endswith("everywhere (p = 0.025)")


def test_a_tolerance_in_percentage_points_was_taken_for_a_share():
    dear = [table.assign(price=table.price > 0) for table in (month(0), month(1))]
    with pytest.raises(ParameterError, match=r"`tolerance` must be a share below 1 for labels, as 'price' .* got 20"):
        condcs.compare(*dear, tolerance=20, **OPTIONS)
    assert "the share of price = True differs by at most" in condcs.compare(*dear, tolerance=0.9, **OPTIONS).verdict


def test_an_interval_of_another_level_stood_under_the_title_95_percent():
    """With alpha 0.02 and two responses, each interval has level 1 - 0.02 / 2; a spread has half of the risk."""
    tables = [month(seed, rows=120).assign(rent=np.random.default_rng(seed).normal(size=120)) for seed in (0, 1)]
    found = condcs.compare(*tables, y=["price", "rent"], x="area", alpha=0.02, n_resamples=59, n_jobs=1)
    for effect in found.effects:
        assert effect.size.confidence_level == effect.average.confidence_level == pytest.approx(0.99)
        assert effect.spread.change.confidence_level == pytest.approx(0.995)
        assert effect.to_dict()["spread"]["change"]["confidence_level"] == pytest.approx(0.995)
    lines = effects_table(found)
    assert lines.columns[-1] == "interval"
    assert [row[-1].rpartition("(")[2] for row in lines.rows] == 2 * ["99%)", "99%)", "99.5%)"]
    labels = [table.assign(price=table.price > 0) for table in tables]
    assert effects_table(condcs.compare(*labels, y="price", x="area", **QUICK)).columns[-1] == "95% interval"


def test_intervals_of_regions_were_of_95_percent_at_every_level():
    before, now = month(0), month(1)
    now.loc[now.area > 0.5, "price"] += 0.5
    by_level = {
        alpha: condcs.compare(before, now, y="price", x="area", alpha=alpha, n_resamples=199, n_jobs=1)
        for alpha in (0.05, 0.01)
    }
    lengths = {}
    for alpha, found in by_level.items():
        change = found.regions[0].changes[0].change
        assert change.confidence_level == pytest.approx(1 - alpha)
        lengths[alpha] = change.high - change.low
        assert f"change ({100 * (1 - alpha):g}% interval)" in str(found)
    # 2.58 instead of 1.96 errors, if bounds placed by half of the rows are as good.
    assert 1.1 < lengths[0.01] / lengths[0.05] < 1.5


def test_a_change_of_the_shape_was_told_as_one_of_the_mean():
    """Where area > 0 the noise has two modes, with the mean 0 and the variance 1 of before."""
    rng = np.random.default_rng(0)
    area, noise = rng.normal(size=(2, 2000)), rng.normal(size=(2, 2000))
    two_modes = rng.choice([-1, 1], 2000) * np.sqrt(1 - 0.3**2) + 0.3 * noise[1]
    noise[1] = np.where(area[1] > 0, two_modes, noise[1])
    before, now = ({"area": x, "price": x + e} for x, e in zip(area, noise, strict=True))
    found = condcs.compare(before, now, y="price", n_resamples=99, n_jobs=1)
    region = found.regions[0]
    assert (region.kind, region.sized_change) == ("shape", None)
    assert region.change_words == "shape of price"
    assert str(region).startswith(f"{region.words}: shape of price; ")
    assert f"most clearly where {region.words} (shape of price). " in found.verdict
    assert regions_table(found).rows[0][2:4] == ("shape of price", "-")
    # A spread of twice what it was counts against a tolerance, too, though the mean comes first.
    mean, spread = region.changes
    assert (mean.is_clear, spread.is_clear) == (False, False)
    doubled = replace(region, changes=(mean, replace(spread, change=Estimate(2.0, 1.8, 2.2, 0.95))))
    assert _bounds_in_region(doubled) == pytest.approx([0.8 * spread.reference.value, 1.2 * spread.reference.value])


def test_an_overlap_of_1_stood_beside_a_change(tmp_path):
    before, now = month(0, rows=400), month(1, rows=400)
    now.loc[now.area > 1, "price"] += 0.5
    found = condcs.compare(before, now, **OPTIONS)
    assert found.relation_changed
    assert "verlap compares" not in found.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert answers_table(found).columns == ("question", "answer", "p-value")
    limited = condcs.compare(before, now, tolerance=Limits(min_effect=0.05), **OPTIONS)
    assert answers_table(limited).columns[-2:] == ("overlap", "95% interval")
    assert "leaves an overlap of 1.000" in limited.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_overlap_that_is_too_large_to_matter():
    tables = month(0), month(1, shift=0.1)
    assert condcs.compare(*tables, tolerance=Limits(min_effect=0.5), **OPTIONS).decision == "same"
    assert condcs.compare(*tables, tolerance=Limits(min_effect=0.001), **OPTIONS).decision == "changed"


def test_no_evidence_does_not_read_as_no_change():
    found = condcs.compare(month(0), month(2), **OPTIONS)
    assert found.decision == "undecided"
    assert "Small changes are not ruled out: these rows can miss a shift of price by less than 0.0" in found.verdict
    assert "everywhere" in found.verdict


def test_many_inputs_without_evidence_name_what_would_help():
    rng = np.random.default_rng(4)
    columns = [f"v{k}" for k in range(11)]
    frames = [pd.DataFrame(rng.normal(size=(80, 11)), columns=columns) for _ in range(2)]
    tables = [f.assign(price=f.v3 - f.v7 + 0.2 * rng.normal(size=80)) for f in frames]
    found = condcs.compare(*tables, y="price", **QUICK)
    assert found.decision == "undecided"
    assert "With 11 inputs" in found.verdict
    assert found.verdict.endswith(("price depends most on v3 and v7.", "price depends most on v7 and v3."))


def test_copies_of_rows_were_evidence_for_effects():
    """Every row five times, as a cluster: intervals are those of the rows, up to the bootstrap's error of a tenth."""
    tables = month(0, rows=150), month(1, rows=150)
    copies = [pd.concat([t.assign(who=np.arange(150))] * 5, ignore_index=True) for t in tables]
    once, by_cluster = (
        condcs.compare(*tables, **OPTIONS),
        condcs.compare(*copies, tables=TableOptions(cluster="who"), **OPTIONS),
    )
    by_row = condcs.compare(*copies, **OPTIONS)
    lengths = [found.effects[0].average.high - found.effects[0].average.low for found in (once, by_cluster, by_row)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.25)
    # By row they are no evidence to rely on, which the verdict says.
    assert by_row.row_dependence.has_copies
    assert not by_cluster.row_dependence.has_copies
    assert by_row.inputs.pvalue <= by_cluster.inputs.pvalue


def test_weights_count_in_effects():
    """Rows of weight 3 that stand for three rows each: those of the south, where the change is."""
    tables = [month(s) for s in (0, 1)]
    tables[1]["price"] += 0.5 * (tables[1].district == "south")
    weighted = [t.assign(w=np.where(t.district == "south", 3.0, 1.0)) for t in tables]
    repeated = [pd.concat([t, *[t[t.district == "south"]] * 2], ignore_index=True) for t in tables]
    with_weights = condcs.compare(*weighted, tables=TableOptions(weights="w"), **OPTIONS).effects[0]
    as_rows, plain = (condcs.compare(*both, **OPTIONS).effects[0] for both in (repeated, tables))
    assert with_weights.average.value == pytest.approx(as_rows.average.value, abs=0.03)
    assert plain.average.value == pytest.approx(0.25, abs=0.04)
    assert with_weights.average.value == pytest.approx(0.375, abs=0.04)


def test_a_relation_that_is_the_same_for_a_model_that_is_used_elsewhere():
    """The guess is wrong by area / 2: its squared error grows with the inputs, which moved, and the relation stays."""
    tables = [month(s, moved=m).assign(guess=lambda f: 1.5 * f.area + 0.25) for s, m in ((0, 0.0), (1, 1.0))]
    loss = condcs.compare(*tables, prediction="guess", **OPTIONS).loss_change
    assert loss.reference == pytest.approx(((tables[0].price - tables[0].guess) ** 2).mean())
    assert loss.inputs_moved.value + loss.new_inputs.value > 0.1
    assert loss.relation.low < 0 < loss.relation.high
    by_column = [f.assign(error=(f.price - f.guess) ** 2) for f in tables]
    assert condcs.compare(*by_column, loss="error", **OPTIONS).loss_change == loss


def test_the_relation_is_why_the_model_got_worse():
    found = condcs.compare(month(0), month(1, shift=1.0), prediction="guess", **OPTIONS)
    loss = found.loss_change
    assert loss.relation.low > 0.5
    assert abs(loss.inputs_moved.value) + abs(loss.new_inputs.value) < 0.2
    text = str(found)
    assert "the mean loss changed because of" in text
    assert "Mean loss: " in text
    assert found.to_dict()["loss_change"]["relation"]["value"] == loss.relation.value


@pytest.mark.parametrize("option", ["prediction", "loss"])
def test_a_pattern_for_the_loss_is_told_to_be_one_column(option):
    first, second = (month(seed).assign(guess_a=lambda t: t.area, guess_b=lambda t: 2 * t.area) for seed in (0, 1))
    with pytest.raises(CondcsError, match=rf"`{option}` must name one column of .*, got 'guess_a', 'guess_b'"):
        condcs.compare(first, second, **{option: "guess_*"}, **OPTIONS)


def test_a_fitted_model_predicts_by_itself():
    from sklearn.linear_model import LinearRegression

    first, second = month(0), month(1, shift=1.0)
    model = LinearRegression().fit(month(5)[["area"]], month(5)["price"])
    found = condcs.compare(first, second, prediction=model, **OPTIONS).loss_change
    assert found.current == pytest.approx(((model.predict(second[["area"]]) - second.price) ** 2).mean())
    with pytest.raises(CondcsError, match="`prediction` must be a column unless the tables are pandas DataFrames"):
        condcs.compare(first.to_dict("list"), second, prediction=model, **OPTIONS)


@pytest.mark.parametrize(
    ("guess", "loss"),
    [
        (lambda f: np.where(f.area > 0, "yes", "no"), lambda f: (f.said != f.sold).mean()),
        (
            lambda f: 1 / (1 + np.exp(-3 * f.area)),
            lambda f: -np.log(np.where(f.sold == "yes", f.said, 1 - f.said)).mean(),
        ),
    ],
    ids=["labels", "probabilities"],
)
def test_losses_of_labels(guess, loss):
    tables = [f.assign(said=guess) for f in (month(0), month(1))]
    found = condcs.compare(*tables, y="sold", x="area,district", prediction="said", **QUICK).loss_change
    assert (found.reference, found.current) == pytest.approx([loss(f) for f in tables])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tolerance": 0}, "`tolerance` must be a positive, finite number, got 0"),
        ({"tolerance": "much"}, "`tolerance` must be a positive, finite number, got 'much'"),
        ({"prediction": "gess"}, "`prediction` must name columns of reference .DataFrame., got 'gess'"),
        ({"prediction": 1.5}, "`prediction` must be a column or a fitted model with a method `predict`, got float"),
        ({"prediction": "guess", "loss": "guess"}, "`loss` must be left out if `prediction` is given"),
        ({"prediction": "sold"}, "`prediction` must be a column of numbers, as 'price' is, got labels in 'sold'"),
        ({"loss": "sold"}, "`loss` must be a column of numbers, got labels in 'sold'"),
        ({"loss": "price"}, "`y` and `loss` must name different columns, got 'price' for both"),
        ({"y": "price,area", "x": "district", "prediction": "guess"}, "`prediction` must be for one response, got 2"),
        ({"y": "sold", "prediction": "guess"}, "`prediction` must hold labels of 'sold', or probabilities"),
    ],
)
def test_misuse_names_the_option(options, words):
    with pytest.raises(CondcsError, match=f"^compare: .*{words}"):
        condcs.compare(month(0), month(1), **{**OPTIONS, **options})


def test_a_time_budget_says_what_it_means_for_the_rows(monkeypatch):
    assert 1000 <= rows_within(1) < rows_within(60) < rows_within(600) <= MOST_COMPARED_ROWS
    monkeypatch.setattr("condcs.comparison._comparing.rows_within", lambda seconds: 50)
    found = condcs.compare(month(0), month(1), **OPTIONS)
    assert found.pair.reference.used == 50
    assert found.notes[0].startswith("At most 50 rows of each table were compared, to stay within 60 s")
    assert not condcs.compare(month(0, rows=40), month(1, rows=50), **OPTIONS).notes
    assert condcs.compare(month(0), month(1), **OPTIONS, tables=TableOptions(max_rows=30)).pair.current.used == 30


def test_a_step_of_the_mean_was_a_larger_spread():
    """Smooth regressions cannot follow a step, which is nothing that scatters: noise .3 in both tables.

    The standard error of the difference of the two is .3 / sqrt(600) = .012; three of them are allowed for. It was .06.
    """
    rng = np.random.default_rng(9)
    tables = []
    for later in (False, True):
        x, z = rng.normal(size=(2, 600))
        y = x + later * 1.5 * ((x > 0.5) & (z > 0)) + rng.normal(0, 0.3, 600)
        tables.append({"x": x, "z": z, "y": y})
    found = condcs.compare(*tables, y="y", **QUICK)
    assert "scatters" not in found.verdict
    assert abs(found.effects[0].spread.change.value) < 0.037


def test_y_was_said_to_scatter_less_where_no_view_of_the_test_sees_it():
    """Noise triples, and the mean rises; the same answer without the views of the spread leaves the sentence out."""
    found = condcs.compare(month(0), month(1, shift=0.3, noise=0.6), **OPTIONS)
    assert "it scatters more" in found.verdict
    pvalues = [
        1.0 if name.startswith("spread") else p
        for name, p in zip(found.relation.views, found.relation.pvalues, strict=True)
    ]
    unseen = replace(found, relation=replace(found.relation, pvalues=tuple(pvalues)))
    assert unseen.relation_changed
    assert "higher on average" in unseen.verdict
    assert "scatters" not in unseen.verdict


@pytest.mark.parametrize("falls_elsewhere", [False, True])
def test_a_change_in_a_part_was_said_to_be_up_in_some_places_and_down_in_others(falls_elsewhere):
    """No interval of the average that includes 0 tells of changes of both signs: regions do."""
    rng = np.random.default_rng(0)
    area = rng.uniform(size=(2, 1500))
    price = 0.5 * rng.normal(size=(2, 1500))
    price[1] += 0.6 * (area[1] > 0.93) - 0.6 * falls_elsewhere * (area[1] < 0.07)
    before, now = ({"area": x, "price": y} for x, y in zip(area, price, strict=True))
    verdict = condcs.compare(before, now, y="price", n_resamples=99, n_jobs=1).verdict
    where = "up in some places and down in others" if falls_elsewhere else "not equally everywhere"
    assert f"), {where}, most clearly where" in verdict


@pytest.mark.parametrize("value", [500.0, 1e6])
def test_one_row_that_decided_on_every_size_was_not_named(value):
    """A shift by .3, and one y of 500: the average was .85 (-1.18 to 2.89), "up in some places and down in others"."""
    before, now = month(0, rows=500), month(1, rows=500, shift=0.3)
    now.loc[17, "price"] = value
    found = condcs.compare(before, now, **OPTIONS)
    (note,) = found.notes
    assert note.startswith("Row 18 of current (DataFrame) carries ")
    assert f"There price is {value:,.0f}; half of all rows lie between -0." in note
    assert "up in some places" not in found.verdict
    assert "standard deviation 0 " not in found.verdict
    row = found.to_dict()["effects"][0]["influential_row"]
    assert (row["table"], row["line"], row["column"], row["value"]) == ("current", 18, "price", value)
    assert row["share_of_variance"] > 0.9
    clean = condcs.compare(before, month(1, rows=500, shift=0.3), **OPTIONS)
    assert clean.effects[0].influential is None
    assert not clean.notes


def test_an_influential_row_is_named_by_its_line_in_the_file(tmp_path):
    """Lines of a file count its header, and rows that were dropped; the group of a table keeps its lines."""
    now = month(1, rows=300).assign(month="now")
    now.loc[17, "price"] = 500.0
    now.loc[3, "area"] = np.nan
    both = pd.concat([month(0, rows=300).assign(month="before"), now], ignore_index=True)
    paths = tmp_path / "before.csv", tmp_path / "now.csv"
    for path, name in zip(paths, ("before", "now"), strict=True):
        both[both.month == name].to_csv(path, index=False)
    options = {**OPTIONS, "missing": "drop"}
    found = condcs.compare(*paths, **options)
    assert any(note.startswith("Line 19 of ") for note in found.notes), found.notes
    grouped = condcs.compare_groups(both, group="month", **options)
    assert any("Row 318 of " in note for note in grouped.all_notes), grouped.all_notes


def uncertain(size, spread, *, detectable=0.1, **limits):
    """Return a comparison that changed, with a size and a spread of which no interval excludes 0."""
    found = condcs.compare(month(0), month(1, shift=1), **OPTIONS)
    change = found.effects[0].spread._replace(change=Estimate(0.0, -spread, spread, 0.975))
    effect = replace(
        found.effects[0],
        size=Estimate(size / 2, 0.0, size, 0.95),
        average=Estimate(0.0, -size, size, 0.95),
        spread=change,
        detectable=detectable,
    )
    sizes = replace(found.sizes, effects=(effect,))
    location = replace(found.location, explanation=replace(found.location.explanation, regions=()))
    return replace(found, sizes=sizes, location=location, limits=Limits(**limits))


def test_a_mean_that_may_have_changed_by_any_amount_was_called_about_the_same():
    """It changed by .33 in root mean square, estimated between 0 and .49."""
    words = uncertain(0.49, 0.2).verdict
    assert "by an amount that is not certain (0.00 to 0.49 in root mean square). The relation of price" in words
    assert "same mean" not in words
    assert "differ by at most" not in words


def test_mean_and_spread_are_called_nearly_the_same_only_below_what_would_be_seen():
    """In the verdict without a limit below the smallest shift that the test finds, else below the tolerance."""
    said = "though mean and spread of price differ by at most {} in root mean square"
    assert said.format(0.09) in uncertain(0.09, 0.05).verdict
    assert said.format(0.09) in uncertain(0.05, 0.09).verdict
    assert "not certain" in uncertain(0.05, 0.11).verdict
    assert said.format(0.3) in change_words(uncertain(0.3, 0.2, tolerance=0.4))
    assert "not certain" in change_words(uncertain(0.09, 0.05, tolerance=0.08))


def test_tables_that_hardly_overlap_read_as_no_evidence_first():
    """Three standard deviations apart in each of four inputs: hardly a row has a counterpart."""
    rng = np.random.default_rng(0)
    tables = []
    for shift in (0.0, 3.0):
        x = rng.normal(shift, 1, size=(300, 4))
        sold = rng.random(300) < 1 / (1 + np.exp(1.5 - x.mean(axis=1)))
        tables.append({**dict(zip("abcd", x.T, strict=True)), "sold": np.where(sold, "yes", "no")})
    found = condcs.compare(*tables, y="sold", **QUICK)
    assert found.verdict.startswith("The two tables have hardly any inputs in common, so that little can be said")
    assert "for the same inputs  " not in str(found)
    assert all(-1 <= end <= 1 for end in (*found.effects[0].average, *found.effects[0].size))


def test_parts_of_a_loss_were_rounded_each_in_its_own_way_and_did_not_add_up():
    """154 + 163 + 596 = 913; by their own intervals the second would be written as 200, and the sum as 950."""
    parts = (Estimate(*numbers, 0.95) for numbers in ((154, -330, 620), (163, -440, 760), (596, 310, 880)))
    found = LossChange(Estimate(913, 710, 1100, 0.95), *parts, reference=330, current=1243)
    assert [value for _, value, *_ in found.rows] == ["+150", "+160", "+600", "+910"]
    assert "inputs that are new                              +160  (-440 to +760)" in str(found)


def test_shares_of_three_labels_were_said_to_go_up_and_down_from_place_to_place():
    column = Column("kind", "category", ("a", "b", "c"))
    effect = Effect("kind", Estimate(0.5, 0.4, 0.6, 0.95), None, None, 0.1, 0.2)
    assert effect_words(column, effect) == ["shares of kind differ by about 50 points (40 to 60)"]


def test_a_model_without_names_of_columns_was_asked_for_patterns_of_them():
    class Plain:
        def predict(self, table):
            assert list(table.columns) == ["area"]
            return table.area

    tables = month(0), month(1, shift=0.3)
    losses = [
        condcs.compare(*tables, y="price", x=x, prediction=Plain(), **QUICK).loss_change
        for x in ("area", "are*", "!district,!sold,!guess")
    ]
    assert losses[0].total == losses[1].total == losses[2].total
