"""What a comparison is made of: the library's own tests, an effect size with its interval, regions of x."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import condcs
from condcs import TableOptions
from condcs._tables.kinds import Column
from condcs._tables.pair import Account, Pair
from condcs.comparison import _steps
from condcs.comparison._compare_figures import telling_columns
from condcs.comparison._comparing import STEPS, Run, compare_pair
from condcs.comparison._steps import compare_inputs, compare_relation, fit_adjustment, locate_change, measure_sizes
from tests.house_prices import house_prices


def numbers_pair(xp, yp, xq, yq):
    account = Account("t", len(xp), 0, len(xp), False)
    x = tuple(Column(f"x{i}", "number") for i in range(xp.shape[1]))
    return Pair(x, (Column("y", "number"),), xp, yp, xq, yq, account, account)


def test_the_tests_are_those_of_the_library():
    """Whatever the units, the answers equal `conditional_test`, and nearly those of `two_sample_test`."""
    rng = np.random.default_rng(0)
    xp, xq = rng.normal(size=(60, 2)), rng.normal(0.4, 1, size=(50, 2))
    yp, yq = xp[:, :1] + rng.normal(size=(60, 1)), 1.5 * xq[:, :1] + rng.normal(size=(50, 1))
    pair = numbers_pair(xp * [1, 1000] + 5, yp, xq * [1, 1000] + 5, yq)
    options = {"n_resamples": 59, "seed": 3, "n_jobs": 1}
    adjustment = fit_adjustment(pair, 3)
    ours = compare_relation(pair, adjustment, **options)
    theirs = condcs.conditional_test(xp, 7 * yp, xq, 7 * yq, n_resamples=59, rng=3, propensity=adjustment.propensity)
    assert ours.pvalue == theirs.pvalue
    assert ours.divergence == pytest.approx(theirs.divergence)
    assert ours.overlap == pytest.approx(min(1.0, np.exp(-(ours.divergence - ours.by_chance) / 2)))
    # With as many landmarks as rows the kernel is exact, but for the smallest eigenvalues.
    inputs = compare_inputs(pair, adjustment, n_resamples=59, seed=3)
    at_twice = condcs.two_sample_test(
        xp, xq, measure="cs", bandwidth=2 * condcs.bandwidth(xp, xq), n_resamples=59, rng=3
    )
    assert inputs.views[-3:] == ("bandwidth 2 x median", "each column", "pairs of columns")
    assert inputs.pvalues[-3] == pytest.approx(at_twice.pvalue, abs=0.1)


def test_inputs_far_from_zero_are_compared_as_well():
    """Days of 2026 as seconds since 1970: their squares have no digits left for their differences."""
    rng = np.random.default_rng(0)
    xp, xq, yp, yq = rng.normal(size=(4, 60, 1))
    found = []
    for start in (0.0, 1.8e9):
        pair = numbers_pair(xp + start, yp, xq + start, yq)
        found.append(compare_inputs(pair, fit_adjustment(pair, 0), n_resamples=59, seed=0))
    assert found[0].divergence == pytest.approx(found[1].divergence, rel=1e-4)


def test_ties_are_no_matter_for_a_reader_of_the_comparison():
    """A note spoke of `bandwidth_x`, which `compare` does not have."""
    rng = np.random.default_rng(0)
    tables = [{"x": np.maximum(0, rng.normal(-1, 1, 200)), "y": rng.normal(size=200)} for _ in range(2)]
    assert condcs.compare(*tables, y="y", n_resamples=39, n_jobs=1).notes == ()


def test_a_shift_of_one_of_many_inputs_was_lost_in_distances():
    """One of 12 inputs moves by half a deviation, 9 standard errors; a pair's correlation rises from 0 to 0.6."""
    rng = np.random.default_rng(5)
    xp, xq = rng.normal(size=(2, 400, 12))
    shapes = rng.normal(size=(2, 400, 1))
    moved, turned = xq.copy(), xq.copy()
    moved[:, 3] += 0.5
    turned[:, 4] = 0.6 * turned[:, 5] + 0.8 * turned[:, 4]
    for x, view in ((moved, "each column"), (turned, "pairs of columns")):
        pair = numbers_pair(xp, shapes[0], x, shapes[1])
        found = compare_inputs(pair, fit_adjustment(pair, 0), n_resamples=199, seed=0)
        assert found.pvalue == dict(zip(found.views, found.pvalues, strict=True))[view] == 1 / 200


def test_rows_of_a_cluster_were_taken_for_evidence_of_a_shift():
    """Ten rows of each of 30 clusters share their inputs: by row, most unchanged tables would seem to have shifted.

    At the level 0.05, more than 7 of 40 have probability 0.0004.
    """
    shifted = 0
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        xp, xq = (np.repeat(rng.normal(size=(30, 2)), 10, axis=0) for _ in range(2))
        yp, yq = rng.normal(size=(2, 300, 1))
        who = np.repeat(np.arange(30), 10)
        pair = replace(numbers_pair(xp, yp, xq, yq), clusters_p=who, clusters_q=who)
        shifted += compare_inputs(pair, fit_adjustment(pair, seed), n_resamples=39, seed=seed).pvalue <= 0.05
    assert shifted <= 7


@pytest.mark.parametrize("change", [0.0, 1.5, 3.0])
def test_overlap_lies_inside_its_own_interval(change):
    """Where nothing changed, the interval reaches 1 as often as it promises.

    At the narrow widths of `compare` samples of one relation overlap by 0.6 to 0.9, which is no effect. An interval of
    95% misses an overlap of 1 in at most 5% of the samples: more than 5 of 20 have probability 0.0003.
    """
    reached = 0
    for seed in range(20):
        rng = np.random.default_rng([11, seed])
        xp, xq = rng.normal(size=(50, 2)), rng.normal(0.3, 1, size=(60, 2))
        yp, yq = xp[:, :1] + rng.normal(size=(50, 1)), xq[:, :1] + rng.normal(size=(60, 1))
        yq += change * (xq[:, :1] > 0)
        pair = numbers_pair(xp, yp, xq, yq)
        found = compare_relation(pair, fit_adjustment(pair, seed), n_resamples=39, seed=seed, n_jobs=1)
        low, high = found.overlap_interval
        assert 0 <= low <= found.overlap <= high <= 1
        reached += high == 1
    assert reached >= 15 if change == 0 else reached < 20


def test_a_region_has_the_bounds_and_the_change_that_were_planted():
    """Prices of large houses at the harbour rose by half, about 160 on 320; area has about 2 rows per unit there."""
    frames = house_prices(300, 1), house_prices(300, 3, changed=True)
    found = condcs.compare(*frames, y="price", x="area,district", n_resamples=19, n_jobs=1)
    (region,) = found.regions
    assert region.bounds["district"] == ("harbour",)
    low, high = region.bounds["area"]
    assert abs(low - 100) < 5
    assert high == np.inf
    change = region.changes[0]
    assert change.words == "mean price"
    assert change.current.value / change.reference.value == pytest.approx(1.5, abs=0.05)
    inside = [((f.area > low) & (f.district == "harbour")).mean() for f in frames]
    assert (region.share_p, region.share_q) == pytest.approx(inside)
    listed = found.to_dict()["regions"][0]
    assert listed["bounds"] == {"area": [low, None], "district": ["harbour"]}
    assert listed["response"][0]["current"] == change.current.value
    assert json.dumps(found.to_dict(), allow_nan=False)
    involved = {column.name: column.involvement for column in found.location.explanation.inputs}
    assert min(involved.values()) > 0.3


def test_a_change_was_too_large_to_be_found():
    """Ten noise deviations in an eighth of the rows widen the spread there, in units of which they were nothing."""
    pair = [house_prices(160, s, changed=s == 3) for s in (1, 3)]
    x, y = ([f[["area", "district"]] for f in pair], [f.price for f in pair])
    for rng in range(4):
        found = condcs.explain(x[0], y[0], x[1], y[1], kernel_x=("gaussian", "delta"), rng=rng)
        (region,) = found.regions
        assert region.bounds["district"] == ("harbour",)
        assert abs(region.bounds["area"][0] - 100) < 3
        assert [change.quantity for change in region.changes] == ["mean", "spread"]


def test_regions_were_listed_where_nothing_changed():
    frames = house_prices(200, 1), house_prices(200, 3, bigger=10)
    found = condcs.compare(*frames, y="price", x="area,district", n_resamples=19, n_jobs=1)
    assert found.regions == ()
    assert "where the relation changed" not in str(found)


def test_regions_were_listed_though_the_relation_shows_no_change():
    frames = house_prices(160, 1), house_prices(160, 3, changed=True)
    found = condcs.compare(*frames, y="price", x="area,district", n_resamples=19, n_jobs=1)
    assert found.regions == found.location.significant_regions != ()
    unsure = replace(found, relation=replace(found.relation, pvalue=0.2))
    assert unsure.regions == ()
    assert unsure.to_dict()["regions"] == []


def test_pictures_were_of_the_sine_of_the_hour():
    """Pictures show the inputs of the change first, then those that y depends on; cycles of a date come last."""
    hours = np.datetime64("2026-01-01T00", "h") + np.arange(0, 24 * 360, 24 * 360 // 160)[:160]
    frames = [house_prices(160, s, changed=s == 3).assign(sold=hours) for s in (1, 3)]
    found = condcs.compare(*frames, y="price", n_resamples=19, n_jobs=1)
    shown = [found.pair.x[place].name for place in telling_columns(found)]
    assert set(shown[:2]) == {"area", "district"}
    assert shown[2] == "sold (trend)"
    assert "<td>sold (trend)</td>" in found._page().html()
    assert "<td>sold (hour of day, sine)</td>" not in found._page().html()


def test_every_step_is_told_once():
    steps: list[str] = []
    frames = house_prices(160, 1), house_prices(160, 3, changed=True)
    options = {"n_resamples": 19, "n_jobs": 1, "tables": TableOptions(max_rows=40)}
    condcs.compare(*frames, y="price", x="area", progress=steps.append, **options)
    assert steps == list(STEPS)


@pytest.mark.slow
def test_a_mean_that_jumps_where_inputs_gather_is_no_change_of_the_relation():
    """The density of x and the mean of y depend on the sign of a product; 3 of 8 have a probability of 0.006.

    Smooth regressions follow neither, and nearly every comparison rejected.
    """

    def table(rng, tilt):
        x = rng.normal(size=(750, 4))
        same = x[:, 0] * x[:, 1] > 0
        kept = x[rng.random(750) < np.where(same, 0.5 + tilt, 0.5 - tilt)][:250]
        y = (kept[:, 0] * kept[:, 1] > 0) + 0.7 * rng.normal(size=len(kept))
        return {**dict(zip("abcd", kept.T, strict=True)), "y": y}

    found = 0
    for seed in range(8):
        rng = np.random.default_rng([7, seed])
        found += condcs.compare(table(rng, 0.25), table(rng, -0.25), y="y", n_resamples=99, rng=0).relation_changed
    assert found <= 2


def pair_in_a_corner(seed, change=0.0):
    """Y and the share of the second table jump in one corner of two inputs: no smooth function follows."""
    rng = np.random.default_rng([3, seed])
    x = rng.uniform(size=(2400, 2))
    corner = (x[:, 0] > 0.5) & (x[:, 1] > 0.4)
    second = rng.random(2400) < np.where(corner, 0.75, 0.25)
    y = 2.0 * corner + change * second + 0.5 * rng.normal(size=2400)
    p, q = np.flatnonzero(~second)[:400], np.flatnonzero(second)[:400]
    return numbers_pair(x[p], y[p, None], x[q], y[q, None])


def test_sizes_and_regions_did_not_follow_the_jumps_that_the_test_follows():
    """The average of no change was missed in 14 of 30 runs; more than 2 of 8 of 95% miss with probability 0.006."""
    missed = 0
    for seed in range(8):
        pair = pair_in_a_corner(seed)
        adjustment = fit_adjustment(pair, seed)
        average = measure_sizes(pair, adjustment, None, alpha=0.05, seed=seed).effects[0].average
        missed += not average.low <= 0 <= average.high
    assert missed <= 2


def test_test_sizes_and_regions_are_of_one_fit(monkeypatch):
    """Regressions and propensity were fitted again for the test where something jumps."""
    pair, fits = pair_in_a_corner(1), []
    original = _steps.conditional_test_by_views
    monkeypatch.setattr(
        _steps, "conditional_test_by_views", lambda *a, **o: fits.append(o["adjustment"]) or original(*a, **o)
    )
    adjustment = fit_adjustment(pair, 1)
    found = compare_relation(pair, adjustment, n_resamples=39, seed=1, n_jobs=1)
    assert fits == [adjustment]
    assert adjustment.jumping is not None
    assert found.diagnostics["balance_pvalue"] == adjustment.propensity.balance_pvalue


def test_sizes_of_a_sample_of_rows_were_fitted_without_the_clusters(monkeypatch):
    rng = np.random.default_rng(2)
    customer = rng.normal(size=(2, 60, 1))
    x = np.repeat(rng.normal(size=(2, 60, 1)), 5, axis=1)
    y = x + np.repeat(customer, 5, axis=1) + 0.3 * rng.normal(size=(2, 300, 1))
    clusters = np.repeat(np.arange(60), 5)
    pair = replace(numbers_pair(x[0], y[0], x[1], y[1]), clusters_p=clusters, clusters_q=clusters + 60)
    smoothers = []
    original = _steps.common_support
    monkeypatch.setattr(
        _steps, "common_support", lambda smoother, *a, **o: smoothers.append(smoother) or original(smoother, *a, **o)
    )
    monkeypatch.setattr(_steps, "EFFECT_ROWS", 250)
    measure_sizes(pair, fit_adjustment(pair, 0), None, alpha=0.05, seed=0)
    assert smoothers[0]._clusters is not None
    assert len(smoothers[0]._clusters) == smoothers[0].rows == 500


@pytest.mark.parametrize(("asked", "drawn"), [(99, 499), (999, 999)])
def test_resamples_of_regions_were_499_whatever_was_asked_for(monkeypatch, asked, drawn):
    counts = []
    original = _steps.explain_pool
    monkeypatch.setattr(_steps, "explain_pool", lambda *a, **o: counts.append(o["n_resamples"]) or original(*a, **o))
    pair = pair_in_a_corner(0)
    compare_pair(pair, Run(asked, 0, 1, lambda step: None), alpha=0.05)
    assert counts == [drawn]


def test_a_root_mean_square_was_below_what_a_region_of_the_same_page_implies():
    """A change by 1 in 2.6% of the rows: the root mean square read .14 beside a region that implied .21 at least."""
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.normal(size=(4000, 2)), rng.integers(6, size=4000)])
    second = np.repeat([False, True], 2000)
    inside = (x[:, 1] > 1) & (x[:, 2] == 2)
    y = np.sin(x[:, 0]) + 1.5 * (second & inside) + 0.5 * rng.normal(size=4000)
    pair = numbers_pair(x[:2000], y[:2000, None], x[2000:], y[2000:, None])
    adjustment = fit_adjustment(pair, 0)
    location = locate_change(pair, adjustment, seed=0, alpha=0.05)
    sizes = measure_sizes(pair, adjustment, None, implied_sizes=location.implied_sizes, alpha=0.05, seed=0)
    size, (implied,) = sizes.effects[0].size, location.implied_sizes
    region = location.significant_regions[0]
    root, change = np.sqrt(region.share_in_common), region.changes[0].change
    assert implied.value >= root * change.value
    assert implied.high >= root * change.high
    for whole, part in zip(size, implied, strict=True):
        # But for rounding: a size that the region alone decides is divided by the unit of y, and multiplied again.
        assert whole >= part * (1 - 1e-12)


def test_a_lower_bound_by_regions_at_95_percent_was_called_one_of_97_5():
    """Two responses; the bound by regions, the largest of three here, shares the risk of its response with the others.

    So it has 0.05 / 2 / 3, and less where several changes imply one. What the region says by itself is of 95%.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 2)), 0.5 * rng.normal(size=(1000, 2))
    y[:, 0] += np.sin(x[:, 0]) + ((np.arange(1000) >= 500) & (x[:, 1] > 1))
    pair = numbers_pair(x[:500], y[:500], x[500:], y[500:])
    pair = replace(pair, y=(Column("y0", "number"), Column("y1", "number")))
    found = compare_pair(pair, Run(99, 0, 1, lambda step: None), alpha=0.05)
    region, size = found.regions[0], found.effects[0].size
    of_response = [change for region in found.regions for change in region.changes if change.words == "mean y0"]
    implied, implied_by_other = found.location.implied_sizes
    assert implied.confidence_level == pytest.approx(1 - 0.05 / 2 / 3 / len(of_response))
    assert size.confidence_level == pytest.approx(1 - 0.05 / 2)
    assert size.low == pytest.approx(implied.low)
    assert 0 < size.low < np.sqrt(region.share_in_common) * region.changes[0].change.low
    assert implied_by_other is None
