"""Rows that depend on their neighbours, copies of rows, and a check of balance that fails: the verdict says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import condcs
from condcs import TableOptions
from condcs._inference.portmanteau import autocorrelations, portmanteau, portmanteau_of_any_spread
from condcs._tables.in_memory import as_table
from condcs._tables.pair import ReadOptions, read_pair
from condcs.comparison._row_dependence import RowDependence, find_row_dependence

QUICK = {"n_resamples": 39, "n_jobs": 1}


def autoregression(rows, coefficient, rng):
    """Return a series of variance 1 whose values depend on the one before."""
    values, noise = np.zeros(rows), rng.normal(size=rows) * np.sqrt(1 - coefficient**2)
    for row in range(1, rows):
        values[row] = coefficient * values[row - 1] + noise[row]
    return values


def table(seed, *, noise=0.0, inputs=0.0, slope=1.0, rows=300):
    rng = np.random.default_rng(seed)
    x = autoregression(rows, inputs, rng)
    return pd.DataFrame({"x": x, "y": slope * x + autoregression(rows, noise, rng)})


def dependence(reference, current, **options):
    options = ReadOptions(x=[], y=["y"], **options)
    return find_row_dependence(read_pair(as_table("reference", reference), as_table("current", current), options))


# --- neighbours -------------------------------------------------------------------------------------------------------


def test_rows_in_the_order_of_time_were_taken_for_independent_ones():
    """The same relation, residuals with an autocorrelation of 0.9: rejected, and the verdict now says why."""
    found = condcs.compare(table(1, noise=0.9), table(2, noise=0.9), y="y", **QUICK)
    assert found.relation_changed  # which is false
    assert found.row_dependence.along_rows
    assert min(found.row_dependence.autocorrelations) > 0.8
    assert "Rows depend on their neighbours (residuals of y have an autocorrelation of 0." in found.verdict
    assert "so that the p-value is too small" in found.verdict
    assert "`cluster`" in found.verdict
    written = found.to_dict()["row_dependence"]
    assert written["along_rows"]
    assert written["response"] == "y"


@pytest.mark.parametrize("seed", range(10))
def test_neighbours_are_recognised_from_an_autocorrelation_of_a_half_on(seed):
    """Of 300 rows, the sum of squares in the statistic is some 100 for ten degrees of freedom: no sample is missed."""
    assert dependence(table(2 * seed, noise=0.5), table(2 * seed + 1, noise=0.5)).along_rows


@pytest.mark.parametrize("coefficient", [0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_a_regression_along_time_hid_that_rows_depend_on_their_neighbours(seed, coefficient):
    """It follows what neighbours share: 26 of 30 true hypotheses were rejected at 0.8 without a word."""
    tables = [
        table([seed, place], noise=coefficient).assign(t=np.arange(300.0) + 0.1 * np.sin(np.arange(300)))
        for place in range(2)
    ]
    found = dependence(*tables)
    assert found.along_rows
    # The variance of a mean is (1 + r) / (1 - r) times that of independent rows: 3, and 19.
    assert np.mean(found.variance_ratios) > 1.5


@pytest.mark.parametrize("seed", range(5))
def test_independent_rows_sorted_by_an_input_do_not_depend_on_their_neighbours(seed):
    tables = []
    for place in range(2):
        rng = np.random.default_rng([seed, place])
        x = np.sort(rng.normal(size=300))
        tables.append(pd.DataFrame({"x": x, "y": np.exp(1.5 * x) + 3 * (x > 0.3) + rng.normal(size=300)}))
    assert not dependence(*tables).along_rows


@pytest.mark.parametrize(
    "options",
    [
        {},
        # Inputs in the order of time make no p-value too small, nor does a relation that changed with them.
        {"inputs": 0.95},
    ],
)
def test_independent_rows_are_not_said_to_depend_on_their_neighbours(options):
    """Said by chance in about one of 5,000 pairs, so that 20 hold with a probability of 0.996."""
    for seed in range(20):
        pair = table(2 * seed, **options), table(2 * seed + 1, slope=3.0 if options else 1.0, **options)
        assert not dependence(*pair).along_rows


def season(rows, coefficient, period, rng):
    """Return a series of variance 1 whose values depend on the one a season before, and on no other."""
    values = rng.normal(size=rows)
    for row in range(period, rows):
        values[row] = coefficient * values[row - period] + values[row] * np.sqrt(1 - coefficient**2)
    return values


@pytest.mark.parametrize("seed", range(5))
def test_one_table_in_the_order_of_time_was_taken_for_independent_rows(seed):
    """AR 0.9 in one table multiplies the variance of its mean by 19: 8 of 12 true hypotheses were rejected."""
    found = dependence(table(2 * seed), table(2 * seed + 1, noise=0.9))
    assert found.dependent == (False, True)
    assert found.variance_ratios[1] > 4
    assert dependence(table(2 * seed, noise=0.9), table(2 * seed + 1)).dependent == (True, False)


def test_the_verdict_names_the_one_table_that_is_a_series():
    found = condcs.compare(table(1), table(2, noise=0.9), y="y", **QUICK)
    assert "(residuals of y have an autocorrelation of 0.8" in found.verdict
    assert "from row to row in the current table), so that the p-value is too small" in found.verdict


@pytest.mark.parametrize("seed", range(5))
def test_a_season_that_neighbours_do_not_show_was_overlooked(seed):
    """Rows like those a week before: from row to row there is no autocorrelation, of either sign by chance."""
    tables = [table(2 * seed + place) for place in (0, 1)]
    rng = np.random.default_rng(seed)
    found = dependence(*(t.assign(y=t.x + season(300, 0.6, 7, rng)) for t in tables))
    assert found.along_rows
    assert found.lags == (7, 7)
    assert found.to_dict()["lags"] == [7, 7]


@pytest.mark.parametrize("seed", range(5))
def test_a_pattern_by_the_hour_was_overlooked(seed):
    """Rows like those 24 before: 22 of 40 true hypotheses were rejected without a word."""
    tables = [table(2 * seed + place) for place in (0, 1)]
    rng = np.random.default_rng(seed)
    found = dependence(*(t.assign(y=t.x + season(300, 0.6, 24, rng)) for t in tables))
    assert found.along_rows
    assert found.lags == (24, 24)


@pytest.mark.parametrize("seed", range(5))
def test_a_few_large_values_of_a_skewed_response_hid_that_rows_depend_on_their_neighbours(seed):
    """Of y = exp(x + 1.5 e) the autocorrelation is that of few rows: 10 of 26 false rejections had no word."""
    tables = [table([seed, place], slope=0.0, noise=0.5) for place in (0, 1)]
    assert dependence(*(t.assign(y=np.exp(t.x + 1.5 * t.y)) for t in tables)).along_rows


@pytest.mark.parametrize("seed", range(5))
def test_an_autocorrelation_of_three_tenths_was_overlooked(seed):
    """Each table alone did not show it clearly; of both together the statistic is some 60 for 24 degrees of freedom."""
    assert dependence(table([seed, 0], noise=0.3), table([seed, 1], noise=0.3)).along_rows


def test_eighty_rows_did_not_show_an_autocorrelation_of_a_half():
    """It is seen in about 43 of 60 pairs, in place of 20: of 20 pairs in fewer than 8 with a probability of 0.001."""
    found = [
        dependence(table([seed, 0], noise=0.5, rows=80), table([seed, 1], noise=0.5, rows=80)).along_rows
        for seed in range(20)
    ]
    assert sum(found) >= 8


def test_a_spread_that_follows_a_sorted_input_is_no_dependence():
    """Large residuals stand together, and the Ljung-Box test alone takes that for autocorrelation."""
    for seed in range(20):
        tables = [table(2 * seed + place).sort_values("x") for place in (0, 1)]
        rng = np.random.default_rng(seed)
        found = dependence(*(t.assign(y=np.exp(1.2 * t.x) * rng.normal(size=len(t))) for t in tables))
        assert not found.along_rows


def test_a_table_sorted_by_a_column_of_many_labels_was_taken_for_a_series():
    """Merged labels lie in blocks, each with a mean of its own that x no longer tells."""
    means = np.random.default_rng(0).normal(size=30)
    for seed in range(10):
        tables = []
        for rng in np.random.default_rng(seed).spawn(2):
            shop = np.sort(rng.integers(30, size=400))
            tables.append(pd.DataFrame({"shop": [f"s{s:02}" for s in shop], "y": means[shop] + rng.normal(size=400)}))
        assert not dependence(*tables).along_rows


def test_a_table_sorted_by_one_response_was_taken_for_a_series_of_the_other():
    tables = [table(seed).sort_values("y") for seed in (1, 2)]
    both = [t.assign(z=t.y + np.random.default_rng(3).normal(size=len(t))) for t in tables]
    options = ReadOptions(x=["x"], y=["y", "z"])
    found = find_row_dependence(read_pair(as_table("reference", both[0]), as_table("current", both[1]), options))
    assert found == RowDependence()


def test_a_constant_response_is_not_sorted():
    tables = [table(seed, noise=0.9) for seed in (1, 2)]
    options = ReadOptions(x=["x"], y=["y", "z"])
    first, second = (as_table(name, t.assign(z=z)) for name, t, z in zip("pq", tables, (1.0, tables[1].x), strict=True))
    assert find_row_dependence(read_pair(first, second, options)).along_rows


def test_a_table_sorted_by_its_response_is_no_series():
    """Neighbours are alike because of the order, not because rows depend on one another; nor are labels in blocks."""
    by_y = [table(seed).sort_values("y") for seed in (1, 2)]
    assert dependence(*by_y) == RowDependence()
    by_label = [t.assign(y=np.where(t.y > 0, "high", "low")) for t in by_y]
    assert dependence(*by_label) == RowDependence()


def test_labels_in_the_order_of_time_depend_on_their_neighbours():
    tables = [table(seed, noise=0.9) for seed in (1, 2)]
    assert dependence(*(t.assign(y=np.where(t.y > 0, "high", "low")) for t in tables)).along_rows


def test_neighbours_that_differ_make_no_p_value_too_small():
    assert not dependence(table(1, noise=-0.8), table(2, noise=-0.8)).along_rows


def test_clusters_say_which_rows_depend_on_one_another():
    blocks = np.repeat(np.arange(10), 30).astype(str)
    tables = [table(seed, noise=0.9).assign(block=blocks) for seed in (1, 2)]
    assert dependence(*tables, cluster=["block"]).pvalues is None


def test_the_portmanteau_for_any_spread_is_the_larger_p_value():
    """Of 1, -1, 1, ...: each sum of n - k products is -1 or 1 times n - k, of as many squares, so Q = sum(n - k)."""
    n = 40
    series = np.tile([1.0, -1.0], n // 2)
    np.testing.assert_allclose(autocorrelations(series), [(-1) ** k * (n - k) / n for k in range(1, 11)])
    expected = chi2.sf(sum(n - lag for lag in range(1, 11)), 10)
    assert expected > portmanteau(series)
    assert portmanteau_of_any_spread(series) == pytest.approx(expected, rel=1e-9)
    # Of two independent series, statistics and degrees of freedom add up.
    both = chi2.sf(2 * sum(n - lag for lag in range(1, 11)), 20)
    assert portmanteau_of_any_spread(series, -series) == pytest.approx(both, rel=1e-9)
    assert portmanteau_of_any_spread(np.zeros(40)) == portmanteau_of_any_spread(np.ones(3)) == 1.0


def test_the_portmanteau_statistic_of_an_alternating_series():
    """Of 1, -1, 1, ...: the autocorrelation at lag k is (n - k) / n in size, so Q = (n + 2) / n sum(n - k)."""
    n = 40
    statistic = (n + 2) / n * sum(n - lag for lag in range(1, 11))
    assert portmanteau(np.tile([1.0, -1.0], n // 2)) == pytest.approx(chi2.sf(statistic, 10), rel=1e-9)


# --- copies -----------------------------------------------------------------------------------------------------------


def test_copies_were_a_note_beside_a_verdict_that_took_them_for_evidence():
    """Each row twice: the verdict itself says that the p-value is too small, and not that of neighbours."""
    twice = [pd.concat([table(seed, rows=120)] * 2, ignore_index=True) for seed in (1, 2)]
    found = condcs.compare(*twice, y="y", **QUICK)
    assert found.row_dependence.copies == (120, 120)
    assert "Rows repeat other rows exactly (120 of 240 rows of reference (DataFrame) and 120 of 240" in found.verdict
    assert "the p-value is too small" in found.verdict
    by_turns = [t.sort_values("x", kind="stable") for t in twice]
    assert not dependence(*by_turns).along_rows


def test_a_size_that_copies_can_miss_was_computed_as_if_they_were_evidence():
    """Of labels and rounded numbers, each row twice: "these rows can miss a shift of less than .16"."""
    rng = np.random.default_rng(0)
    tables = [
        pd.DataFrame(
            {"age": rng.integers(20, 40, 200), "kind": rng.choice(["a", "b"], 200), "y": rng.integers(9, size=200)}
        )
        for _ in range(2)
    ]
    found = condcs.compare(*tables, y="y", **QUICK)
    assert "these rows can miss a shift of y by less than" in found.verdict
    doubled = [pd.concat([t, t], ignore_index=True).sample(frac=1, random_state=0) for t in tables]
    marked = replace(found, row_dependence=dependence(*doubled))
    assert marked.row_dependence.copies == (200, 200)
    assert "how small ones these rows can miss is not known, because they repeat one another" in marked.verdict
    assert "can miss a shift" not in marked.verdict
    along = replace(found, row_dependence=dependence(table(1, noise=0.9), table(2, noise=0.9)))
    assert "because they depend on their neighbours" in along.verdict


def test_copies_with_clusters_need_no_word():
    twice = [pd.concat([table(seed, rows=120).assign(who=np.arange(120))] * 2, ignore_index=True) for seed in (1, 2)]
    found = condcs.compare(*twice, y="y", x="x", tables=TableOptions(cluster="who"), **QUICK)
    assert not found.row_dependence.has_copies
    assert "repeat" not in found.verdict


# --- check of balance -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("balance", "pvalue", "words"),
    [
        ("passed", 0.2, None),
        ("doubtful", 0.03, "The p-value may be somewhat too small, because it is not fully explained how the inputs"),
        ("failed", 0.005, "The p-value may be far too small, because it is not explained how the inputs differ"),
    ],
)
def test_a_doubtful_check_of_balance_was_silent(balance, pvalue, words):
    found = condcs.compare(table(1, rows=80), table(2, rows=80), y="y", **QUICK)
    diagnostics = {**found.relation.diagnostics, "balance": balance, "balance_pvalue": pvalue}
    graded = replace(found, relation=replace(found.relation, diagnostics=diagnostics))
    assert ("too small" in graded.verdict) == (words is not None)
    assert words is None or f"{words}" in graded.verdict
    assert words is None or f"(check of balance: p = {pvalue:.3f})" in graded.verdict
