"""Gaps, dates, truth values, identifiers, texts, many labels, weights and clusters: what becomes of each column."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from condcs._core.errors import DataError, OverlapError, ParameterError
from condcs._tables.cells import as_day
from condcs._tables.cycles import CYCLES
from condcs._tables.in_memory import as_table
from condcs._tables.kinds import MOST_LABELS, Column, describe_columns, tell_kind
from condcs._tables.pair import ReadOptions, read_pair
from condcs._tables.sampling import RowSampler, together
from condcs._tables.sources import TableBatch


def frame(rows=60, seed=0, **columns):
    rng = np.random.default_rng(seed)
    made = {"a": rng.normal(size=rows), "y": rng.normal(size=rows)}
    return pd.DataFrame({**made, **columns})


def pair_of(reference, current, **options):
    tables = as_table("reference", reference), as_table("current", current)
    return read_pair(*tables, ReadOptions(**{"y": ["y"], **options}))


def names(pair):
    return [column.name for column in pair.x]


def left_out(pair):
    return {each.column: each.reason for each in pair.left_out}


# --- gaps -------------------------------------------------------------------------------------------------------------


def test_a_gap_of_a_number_is_the_median_and_a_flag():
    reference, current = frame(seed=1), frame(seed=2)
    current.loc[[3, 7], "a"] = np.nan
    pair = pair_of(reference, current, missing="as-value")
    assert names(pair) == ["a", "a (missing)"]
    assert pair.x[1].labels == ("no", "yes")
    present = np.concatenate([reference.a, current.a.dropna()])
    assert pair.xq[[3, 7], 0] == pytest.approx(np.median(present))
    assert np.flatnonzero(pair.xq[:, 1]).tolist() == [3, 7]
    assert pair.xp[:, 1].sum() == 0
    assert (pair.current.gaps, pair.current.used) == (0, 60)


def test_a_gap_of_a_label_is_a_label():
    reference, current = (frame(seed=s, c=np.resize(["u", "v", "w"], 60)) for s in (1, 2))
    reference.loc[[0, 1], "c"] = None
    current.loc[5, "c"] = "n/a"
    pair = pair_of(reference, current, missing="as-value")
    assert pair.x[1].labels == ("u", "v", "w", "missing")
    assert pair.xp[:2, 1].tolist() == [3, 3]
    assert pair.xq[5, 1] == 3


def test_columns_that_are_missing_together_have_one_flag():
    reference, current = (frame(seed=s, b=np.arange(60.0) % 7, c=np.arange(60.0) % 5) for s in (1, 2))
    reference.loc[[0, 9], ["a", "c"]] = np.nan
    reference.loc[4, "b"] = np.nan
    pair = pair_of(reference, current, missing="as-value")
    assert names(pair) == ["a", "a, c (missing)", "b", "b (missing)", "c"]


def test_rows_without_y_are_dropped_whatever_gaps_are():
    reference, current = frame(seed=1), frame(seed=2)
    current.loc[:4, "y"] = np.nan
    pair = pair_of(reference, current, missing="as-value")
    assert (pair.current.gaps, pair.current.used) == (5, 55)


def test_a_column_of_gaps_alone_is_left_out():
    pair = pair_of(*(frame(seed=s, b=[None] * 60) for s in (1, 2)), missing="as-value")
    assert names(pair) == ["a"]
    assert left_out(pair) == {"b": "the same value in all rows"}


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_column_without_any_value_was_blamed_on_the_number_of_rows(missing):
    full, empty = frame(seed=1, note="u"), frame(seed=2, note=None)
    with pytest.raises(DataError, match=r"current .* got none at all in 'note'. Leave inputs .* out with x='!note'"):
        pair_of(full, empty, missing=missing)


def test_a_response_without_any_value_is_named_whatever_gaps_are():
    with pytest.raises(DataError, match=r"reference .* got none at all in 'y'.*for `y`, name another"):
        pair_of(frame().assign(y=None), frame(), missing="as-value")


def test_a_column_that_the_current_table_lacks_altogether_is_named():
    reference, current = frame(seed=1, b=np.arange(60.0) % 7), frame(seed=2, b=[None] * 60)
    with pytest.raises(OverlapError, match=r"column 'b' has no value in common .*x='!b'"):
        pair_of(reference, current, unusable="error")
    pair = pair_of(reference, current)
    assert names(pair) == ["a"]
    assert left_out(pair) == {"b": "no value in common"}


def test_another_unit_was_called_a_running_number():
    with pytest.raises(
        OverlapError, match=r"\('a': 1 to 2, then 1e\+06 to 2e\+06\).* If the units differ, convert one"
    ):
        pair_of(frame(seed=1, a=np.linspace(1, 2, 60)), frame(seed=2, a=np.linspace(1e6, 2e6, 60)))
    prices = [frame(seed=s, price=np.linspace(unit, 2 * unit, 60)) for s, unit in ((1, 1.0), (2, 1e6))]
    assert left_out(pair_of(*prices)) == {"price": "no value in common: 1 to 2, then 1e+06 to 2e+06"}


# --- copies -----------------------------------------------------------------------------------------------------------


def test_rows_entered_twice_were_taken_for_evidence_without_a_word():
    """Each row of the reference twice: the test then rejects most true hypotheses."""
    twice = pd.concat([frame(seed=1).assign(note="u")] * 2)
    twice.loc[5, "a"] = np.nan
    pair = pair_of(twice, frame(seed=2).assign(note="u"), missing="as-value")
    assert (pair.reference.copies, pair.current.copies) == (60, 0)


def test_equal_rows_are_expected_of_labels_and_few_numbers():
    """Twelve different rows at most: 60 rows cannot all differ. Nor is anything said of rows that clusters explain."""
    coarse = frame(a=np.arange(60) % 4, y=np.arange(60) % 3)
    assert not pair_of(coarse, coarse).reference.copies
    twice = pd.concat([frame(seed=1, who=[*map(str, range(60))])] * 2)
    assert not pair_of(twice, twice, cluster=["who"]).reference.copies


# --- dates ------------------------------------------------------------------------------------------------------------


def stamps(start, rows=60, step="7h"):
    return pd.date_range(start, periods=rows, freq=step)


def test_a_date_is_its_trend_and_the_cycles_that_both_tables_cover():
    """60 stamps, 7 hours apart, are 17 days: hours and weekdays, no months."""
    pair = pair_of(frame(when=stamps("2024-03-01")), frame(when=stamps("2024-03-04")))
    parts = ["(trend)", "(hour of day, cosine)", "(hour of day, sine)", "(day of week, cosine)", "(day of week, sine)"]
    assert names(pair) == ["a", *(f"when {part}" for part in parts)]
    assert describe_columns(pair.x) == ["a (number)", "when (date: trend, hour of day, day of week)"]
    assert pair.notes == ()
    noon = np.flatnonzero(stamps("2024-03-01").hour == 12)
    assert pair.xp[noon, 2] == pytest.approx(1.0)


def test_two_years_have_months_and_days_have_no_hours():
    pair = pair_of(
        *(frame(when=stamps(start, step="13D").strftime("%Y-%m-%d")) for start in ("2022-01-01", "2022-02-01"))
    )
    assert describe_columns(pair.x) == ["a (number)", "when (date: trend, day of week, month)"]


def test_two_months_have_no_trend_that_could_be_compared():
    pair = pair_of(frame(when=stamps("2024-03-01")), frame(when=stamps("2024-04-01")))
    assert describe_columns(pair.x) == ["a (number)", "when (date: hour of day, day of week)"]
    assert left_out(pair) == {"when (trend)": "the two tables hardly overlap in time"}
    one = pair_of(frame(when=stamps("2024-03-01", step="1min")), frame(when=stamps("2024-04-01", step="1min")))
    assert names(one) == ["a"]
    assert left_out(one) == {"when": "the two tables hardly overlap in time"}


def test_durations_are_days_and_periods_begin():
    lasted, month = pd.to_timedelta(np.arange(60) % 9 * 12, unit="h"), pd.period_range("2019-01", periods=60, freq="M")
    pair = pair_of(frame(lasted=lasted, month=month), frame(lasted=lasted, month=month))
    assert names(pair)[1:3] == ["lasted", "month (trend)"]
    np.testing.assert_allclose(pair.xp[:, 1], np.arange(60) % 9 / 2)
    assert pair.xp[0, 2] == as_day("2019-01-01")


def test_gaps_of_dates_are_flagged_once():
    reference, current = frame(when=stamps("2024-03-01")), frame(when=stamps("2024-03-04"))
    current.loc[3, "when"] = pd.NaT
    pair = pair_of(reference, current, missing="as-value")
    assert names(pair)[-1] == "when (missing)"
    assert np.flatnonzero(pair.xq[:, -1]).tolist() == [3]
    assert np.isfinite(pair.xq).all()


def cycle_named(part, place=0):
    return next(pair for pair in CYCLES if pair[0].part == part)[place]


def test_bounds_on_cycles_are_hours_days_and_months():
    day, week, year = (cycle_named(part) for part in ("hour of day", "day of week", "month"))
    assert day.words(0.0, np.inf) == "between 06:00 and 18:00"
    assert day.words(-np.inf, 0.0) == "between 18:00 and 06:00"
    some = "between 06:00 and 10:00 or between 14:00 and 18:00"
    assert day.words(0.0, np.cos(2 * np.pi * 2 / 24)) == some
    assert week.words(0.5, np.inf) == "on Saturday or Sunday"
    assert week.words(-np.inf, 0.5) == "on Monday to Friday"
    assert week.words(0.2, 0.5) == "on Monday or Friday"
    assert year.words(0.8, np.inf) == "in June to August"
    assert year.words(-np.inf, -0.7) == "in December to February"
    saturday = np.array([as_day("2024-03-02T23:59")])
    assert 0.5 < week(saturday) == pytest.approx(np.cos(np.pi / 7))


def test_ticks_of_a_cycle_are_times():
    assert cycle_named("hour of day").ticks() == ([-1.0, 0.0, 1.0], ["00:00", "06:00 / 18:00", "12:00"])
    assert dict(zip(*cycle_named("day of week").ticks(), strict=True))[0.9] == "Sat / Sun"


def test_words_and_values_of_a_cycle_agree():
    """Any hour that the words name has a cosine within the bounds, and no other."""
    cycle, low, high = cycle_named("hour of day", 1), -0.3, 0.4
    hours = np.arange(0, 24, 0.25)
    inside = (cycle(hours / 24) > low) & (cycle(hours / 24) <= high)
    spans = [re.findall(r"(\d+):(\d+)", part) for part in cycle.words(low, high).split(" or ")]
    named = np.zeros(len(hours), bool)
    for span in spans:
        start, end = (int(h) + int(m) / 60 for h, m in span)
        named |= (hours > start) & (hours < end) if start < end else (hours > start) | (hours < end)
    assert np.array_equal(named, inside)
    assert 0 < named.sum() < len(hours)


def test_slashes_with_the_year_first_are_dates_and_other_notations_are_refused():
    assert as_day("2024/03/01") == as_day("2024-03-01")
    days = [f"{1 + i % 9:02d}.{1 + i % 2:02d}.2020" for i in range(60)]
    with pytest.raises(DataError, match=r"'when' must hold dates as 2026-03-31, got '01\.01\.2020'.*x='!when'"):
        pair_of(frame(when=days), frame(when=days), unusable="error")
    assert left_out(pair_of(frame(when=days), frame(when=days))) == {
        "when": "dates such as '01.01.2020', in which day and month could be confused"
    }
    assert pair_of(frame(when=days), frame(when=days), category=["when"]).x[1].kind == "category"


@pytest.mark.parametrize(("form", "first"), [("%d/%m/%Y", True), ("%m/%d/%Y", False), ("%d.%m.%Y %H:%M", True)])
def test_a_day_above_12_tells_how_dates_with_the_year_last_are_read(form, first):
    stamps_read = stamps("2024-01-01")
    written = stamps_read.strftime(form)
    pair = pair_of(frame(when=written), frame(when=written))
    assert describe_columns(pair.x)[1].startswith("when (date: trend")
    plain = pair_of(frame(when=stamps_read), frame(when=stamps_read))
    trend, expected = (p.xp[:, names(p).index("when (trend)")] for p in (pair, plain))
    np.testing.assert_allclose(trend, expected if "%H" in form else np.floor(expected), atol=1e-9)
    column = tell_kind("when", [written], category=None, response=None)
    assert column.day_first is first
    assert Column.from_description(column.description) == column


def test_attributes_of_a_saved_column_are_named():
    """They went by their place, so that a second one without the first was read as that."""
    plain = Column("when", "date")
    assert plain.description == ["when", "date", []]
    assert Column.from_description(plain.description) == plain
    for attributes in ({"day_first": False}, {"decimal": ","}, {"decimal": ",", "day_first": True}):
        column = Column("when", "date", **attributes)
        assert column.description == ["when", "date", [], attributes]
        assert Column.from_description(json.loads(json.dumps(column.description))) == column
    with pytest.raises(ValueError, match="no attributes of columns: century"):
        Column.from_description(["when", "date", [], {"century": 19}])


def test_a_further_attribute_of_a_column_is_saved_by_being_a_field():
    @dataclass(frozen=True)
    class ZonedColumn(Column):
        zone: str = ""

    column = ZonedColumn("when", "date", zone="UTC")
    assert column.description == ["when", "date", [], {"zone": "UTC"}]
    assert ZonedColumn.from_description(column.description) == column


def test_dates_that_contradict_one_another_are_left_out():
    """The reference has days above 12 in the first place, the current table in the second."""
    reference, current = (stamps("2024-01-01").strftime(form) for form in ("%d/%m/%Y", "%m/%d/%Y"))
    assert "day and month could be confused" in left_out(pair_of(frame(when=reference), frame(when=current)))["when"]


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([True, False], [1, 0]),
        (["yes", "no"], [True, False]),
        (["true", "false"], ["True", "False"]),
        ([True, False], [0.0, 0.0]),
    ],
)
def test_truth_values_are_the_same_however_they_are_spelled(before, now):
    column = tell_kind("c", [np.resize(before, 20).tolist(), np.resize(now, 20).tolist()], category=None, response=None)
    assert column.labels == (str(before[1]), str(before[0]))
    assert column.encode([*before, *now], "t").tolist() == [1, 0, *([1, 0] if now[0] else [0, 0])]
    assert column.note.startswith("Column 'c' holds truth values: ")


def test_truth_values_that_are_spelled_alike_are_labels_or_numbers_as_before():
    assert tell_kind("c", [["yes", "no"]] * 2, category=None, response=None).note == ""
    assert tell_kind("c", [[0, 1]] * 2, category=None, response=None).kind == "number"
    assert tell_kind("c", [["y", "yes", "no"] * 9] * 2, category=None, response=None).labels == ("no", "y", "yes")


def test_whole_numbers_and_floats_and_digits_are_one_column():
    reference = frame(n=np.arange(60) % 4, code=(np.arange(60) % 3).astype(str))
    current = frame(seed=1, n=np.arange(60.0) % 4, code=[f"{i % 3}.0" for i in range(60)])
    pair = pair_of(reference, current, category=["code"])
    assert [c.kind for c in pair.x] == ["number", "number", "category"]
    assert pair.x[2].labels == ("0", "1", "2")
    assert set(pair.xq[:, 2]) == {0, 1, 2}


def commas(values):
    return [f"{value:.2f}".replace(".", ",") for value in values]


@pytest.mark.parametrize("decimal", [".", ","])
def test_decimal_commas_in_one_table_and_points_in_the_other(decimal):
    """Whichever sign is named, the table with the other is read by its own, and that is said."""
    reference, current = frame(seed=1).round(2).astype(str), frame(seed=2).round(2)
    written = pd.DataFrame({name: commas(current[name]) for name in current})
    pair = pair_of(reference, written, decimal=decimal)
    np.testing.assert_allclose(pair.xq[:, 0], current.a)
    np.testing.assert_allclose(pair.yp[:, 0], reference.y.astype(float))
    title, sign = ("current", "commas") if decimal == "." else ("reference", "points")
    assert pair.notes == (f"{title} (DataFrame) has decimal {sign}: its numbers were read so.",)


def test_commas_that_may_separate_thousands_are_not_read():
    reference, current = frame(seed=1), frame(seed=2)
    reference["a"], current["a"] = [f"{1 + i % 9}.5" for i in range(60)], [f"{1 + i % 9},200" for i in range(60)]
    with pytest.raises(DataError, match="'a' holds numbers, except for 60 of 120 cells, the first '1,200'"):
        pair_of(reference, current, unusable="error")


def test_numbers_with_a_few_other_cells_are_left_out_with_what_would_keep_them():
    """As a category the column would answer another question, and as gaps its cells would be guessed at."""
    cells = ["?" if i % 30 == 3 else f"{i % 7}.5" for i in range(60)]
    pair = pair_of(frame(b=cells), frame(b=cells))
    assert names(pair) == ["a"]
    assert left_out(pair)["b"].startswith("numbers, except for 4 of 120 cells, the first '?' in row 4 of reference")
    assert "gaps='?'" in left_out(pair)["b"]


def test_a_running_number_is_an_input_where_nothing_else_varies():
    """Better than nothing to condition on."""
    tables = [frame(seed=s, a=1.0, number=np.arange(60)) for s in (1, 2)]
    assert names(pair_of(*tables)) == ["number"]


def test_types_that_differ_are_named():
    numbers, texts = frame(c=np.arange(60) % 4), frame(c=np.resize(["u", "v"], 60))
    with pytest.raises(
        DataError, match=r"got numbers \(0 in row 1 of reference .*\) and text \('u' in row 1 of current"
    ):
        pair_of(numbers, texts, unusable="error")
    assert left_out(pair_of(numbers, texts))["c"].startswith("holds numbers (0 in row 1 of reference")
    with pytest.raises(DataError, match=r"got numbers .* and truth values \(True in row 1 of current"):
        pair_of(numbers, frame(c=np.resize([True, False], 60)), unusable="error")
    with pytest.raises(DataError, match=r"got dates \(.*\) and numbers \(0 in row 1 of current"):
        pair_of(frame(c=stamps("2024-01-01")), numbers, unusable="error")


def test_a_table_of_dates_and_words_shows_a_word():
    dates = stamps("2024-01-01").strftime("%Y-%m-%d")
    mixed = np.where(np.arange(60) % 2, "01/02/2024", dates + "T00:30")
    with pytest.raises(DataError, match=r"and text \('01/02/2024' in row 2 of current"):
        pair_of(frame(c=dates), frame(c=mixed), unusable="error")


def test_labels_of_y_that_have_nothing_in_common_are_named():
    reference, current = frame(seed=1, y=np.resize(["u", "v"], 60)), frame(seed=2, y=np.resize(["U", "V"], 60))
    with pytest.raises(OverlapError, match=r"'y' of `y` has no label in common .*\(e.g. 'u' and 'U'\)"):
        pair_of(reference, current)


def test_labels_beyond_the_most_are_merged_and_that_is_said():
    """Labels 0 to 29, each as often as its number says: the frequent ones stay."""
    labels = [f"city {i:02d}" for i in range(30) for _ in range(i + 2)]
    made = frame(len(labels), c=labels)
    pair = pair_of(made, made)
    assert len(pair.x[1].labels) == MOST_LABELS
    assert pair.x[1].labels[-1] == "other"
    assert pair.x[1].labels[0] == "city 11"
    assert (pair.xp[:, 1] == MOST_LABELS - 1).sum() == sum(i + 2 for i in range(11))
    assert pair.notes == (
        "Column 'c' has 30 labels: the 19 most frequent were kept, the others (16% of the rows) merged as 'other'.",
    )


def test_free_text_and_identifiers_are_refused_with_the_remedy():
    texts = [f"the customer said {i} things about it" for i in range(60)]
    with pytest.raises(
        DataError, match=r"'c' holds free text .*length, topic or embedding, or leave it out with x='!c'"
    ):
        pair_of(frame(c=texts), frame(c=texts), unusable="error")
    assert left_out(pair_of(frame(c=texts), frame(c=texts)))["c"].startswith("free text, e.g. 'the customer said 0")
    ids = [f"u{i:05d}" for i in range(60)]
    with pytest.raises(
        DataError, match=r"'c' holds text that hardly repeats .*an identifier, leave it out with x='!c'"
    ):
        pair_of(frame(c=ids), frame(c=ids), unusable="error")
    assert left_out(pair_of(frame(c=ids), frame(c=ids))) == {"c": "text that hardly repeats, e.g. 'u00000'"}
    with pytest.raises(DataError, match=r"an identifier, name another column as `y`; else"):
        pair_of(frame(y=ids), frame(y=ids))


def test_a_running_number_is_no_input_unless_it_is_named():
    reference, current = frame(number=np.arange(60)), frame(number=np.arange(60) + 30)
    pair = pair_of(reference, current)
    assert names(pair) == ["a"]
    assert left_out(pair) == {"number": "a running number; name it as an input to keep it"}
    assert names(pair_of(reference, current, x=["number", "a"])) == ["number", "a"]
    assert names(pair_of(reference[["number", "y"]], current[["number", "y"]])) == ["number"]


# --- weights and clusters ---------------------------------------------------------------------------------------------


def test_weights_and_clusters_are_read_along_and_are_no_inputs():
    reference = frame(w=np.arange(60) + 1.0, who=np.resize(["u", "v", "w"], 60))
    current = frame(w=np.full(60, 2), who=np.resize(["w", "new"], 60))
    pair = pair_of(reference, current, weights=["w"], cluster=["who"])
    assert names(pair) == ["a"]
    assert np.array_equal(pair.weights_p, reference.w)
    assert set(pair.weights_q) == {2.0}
    assert pair.clusters_p[:3].tolist() == [0, 1, 2]
    assert pair.clusters_q[:2].tolist() == [2, 3]
    plain = pair_of(reference[["a", "y"]], current[["a", "y"]])
    assert plain.weights_p is plain.clusters_q is None


def test_a_row_of_weight_zero_was_an_error():
    """It is absent, whatever the column of weights is written in: the same sample of the same rows is read."""
    weights = np.resize([2.0, 0.0, 1.0], 120)
    whole = [frame(120, seed=seed, w=weights) for seed in (0, 1)]
    present = [table[weights > 0] for table in whole]
    expected = pair_of(*present, weights=["w"], max_rows=50)
    for written in (weights, weights.astype(str), weights.astype(int)):
        read = pair_of(*(table.assign(w=written) for table in whole), weights=["w"], max_rows=50)
        assert read == expected
    assert expected.reference.seen == 80


@pytest.mark.parametrize("cell", [-1.5, "much"])
def test_weights_must_be_numbers_that_are_not_negative(cell):
    odd = frame(w=[1, 1, cell, *[1] * 57])
    with pytest.raises(
        DataError, match=r"`weights` must name a column of numbers that are not negative, got .* in row 3 of current"
    ):
        pair_of(frame(w=np.ones(60)), odd, weights=["w"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": ["*"]}, "`weights` must name one column of reference .*, got 'a', 'y', 'w'"),
        ({"weights": ["v"]}, "`weights` must name columns of"),
        ({"weights": ["y"]}, "`y` and `weights` must name different columns, got 'y' for both"),
    ],
)
def test_which_columns_of_weights_are_refused(options, words):
    with pytest.raises(ParameterError, match=words):
        pair_of(frame(w=np.ones(60)), frame(w=np.ones(60)), **options)


# --- samples ----------------------------------------------------------------------------------------------------------


def test_samples_of_several_tables_together_are_a_uniform_sample():
    """15 of 30 and 90 rows, of which 20 each were kept: each with probability 1/8, within 5 standard errors."""
    rng = np.random.default_rng(0)
    counts = np.zeros(120)
    for _ in range(2000):
        samples = []
        for rows in (range(30), range(30, 120)):
            sampler = RowSampler(1, most=20, memory=10**6)
            sampler.add(TableBatch.of_rows([[row] for row in rows], rows), rng.random(len(rows)))
            samples.append(sampler.sample())
        for place, row in together(samples, 15):
            counts[samples[place].rows[row][0]] += 1
    assert np.abs(counts / 2000 - 1 / 8).max() < 5 * np.sqrt(1 / 8 * 7 / 8 / 2000)
