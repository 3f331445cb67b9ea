"""What `levels` and `cond2st` draw, count and conclude."""

import numpy as np
import pytest
from scipy.stats import norm

from condcs_reproduction import cond2st, contest, experiment_named, levels
from condcs_reproduction.level_scenarios import ALTERNATIVES, DEPENDENCES, NULLS


def trials(*pvalues, warned=False):
    return {i: {"pvalue": p, "seconds": 0.01, "warned": warned} for i, p in enumerate(pvalues)}


def rates(rejected, n=200):
    """Trials of which so many reject."""
    return trials(*[0.01] * rejected, *[0.5] * (n - rejected))


def results_of(*, broken=(), powers=None):
    """All levels at 0.05 but those named, (scenario, method); powers by method, else 0.5."""
    found = {}
    for scenario in NULLS:
        for method in contest.METHODS:
            found[levels.case_of(scenario.name, method)] = rates(60 if (scenario.name, method) in broken else 10)
    for scenario in ALTERNATIVES:
        for method in contest.METHODS:
            found[levels.case_of(scenario.name, method)] = rates((powers or {}).get(method, 100))
    for scenario in DEPENDENCES:
        for method in levels.INDEPENDENCE_METHODS:
            found[levels.case_of(scenario.name, method, independence=True)] = rates(
                10 if scenario.power is None else 190
            )
    return found


def grids(found):
    report = levels.summarise(experiment_named("levels"), found)
    return report, {grid.title.partition(":")[0]: grid.cells for grid in report.grids}


def test_interval_is_that_of_wilson():
    """10 of 200: centre (10 + z^2 / 2) / (200 + z^2), half width z sqrt(200 p (1 - p) + z^2 / 4) / (200 + z^2)."""
    z = norm.ppf(0.975)
    centre = (10 + z**2 / 2) / (200 + z**2)
    half = z * np.sqrt(200 * 0.05 * 0.95 + z**2 / 4) / (200 + z**2)
    assert contest.Rate(10, 200).interval == pytest.approx((centre - half, centre + half))


def test_level_is_broken_only_beyond_its_interval():
    """28 of 200 (interval from 0.099) may be chance, 29 (from 0.103) may not."""
    assert not contest.Rate(28, 200).broken
    assert contest.Rate(29, 200).broken


def test_rejections_are_pvalues_up_to_the_level():
    found = contest.rate_of({"a": trials(0.05, 0.0501, 0.01)}, "a", 0.05)
    assert (found.rejected, found.trials) == (2, 3)
    assert contest.rate_of({}, "a", 0.05) is None


def test_methods_of_a_repeat_see_the_same_rows():
    for name in ("levels", "cond2st"):
        experiment = experiment_named(name)
        streams = {}
        for task in experiment.tasks(experiment.parameters, 2):
            place = (task.case.partition(";")[0], task.repeat)
            assert streams.setdefault(place, task.stream) == task.stream
        assert len(set(streams.values())) == len(streams)


def test_slow_method_has_fewer_trials_on_many_rows_only():
    counts = {}
    for task in experiment_named("levels").tasks(experiment_named("levels").parameters, 8):
        counts[task.case] = counts.get(task.case, 0) + 1
    assert counts["scale, 1000 + 1000; ContextMMD"] == 2
    assert counts["scale; ContextMMD"] == counts["scale, 1000 + 1000; PCM"] == 8


def test_report_judges_levels_and_powers_of_the_default():
    """A level of 0.3 in one null differs from what was expected; the others agree."""
    _, cells = grids(results_of(broken={("four clusters", "condcs")}))
    assert cells["Level"]["four clusters"]["condcs"].verdict == "differs"
    assert cells["Level"]["mean, d 5"]["condcs"].verdict == "agrees"
    assert cells["Level"]["mean, d 5"]["condcs"].detail == "0.03–0.09"
    assert cells["Power"]["spread"]["condcs"].verdict == "differs"  # 0.5, where 0.8 was expected
    assert cells["In short"]["condcs"]["broken levels"].ours == f"1 of {len(NULLS)}"


def test_rival_that_breaks_its_level_is_no_rival_in_alternatives_of_the_kind():
    """KCI is strongest, but its level is broken in a joint shift of numbers: there the next best counts."""
    found = results_of(broken={("wavy density", "KCI")}, powers={"KCI": 200, "PCM": 150})
    _, cells = grids(found)
    joint, columns = cells["Power"]["mean, correlation shifts"], cells["Power"]["mean"]
    assert (joint["KCI"].detail, columns["KCI"].detail) == ("invalid", "")
    assert (joint["best valid rival"].ours, columns["best valid rival"].ours) == ("PCM 0.75", "KCI 1.00")


def test_default_is_as_good_within_a_twentieth():
    close = {"condcs": 91, "GCM on ranks": 100}
    for powers, expected in (({**close, "condcs": 90}, "yes"), ({**close, "condcs": 89}, "no")):
        _, cells = grids(results_of(powers={**dict.fromkeys(contest.METHODS, 20), **powers}))
        assert {row["as good"].ours for row in cells["Power"].values()} == {expected}


def test_default_that_breaks_its_level_is_not_as_good():
    _, cells = grids(results_of(broken={("mean, d 5", "condcs")}, powers={"condcs": 200}))
    assert cells["Power"]["mean"]["as good"].ours == "no"
    assert cells["Power"]["mean, correlation shifts"]["as good"].ours == "yes"


def test_mean_rank_puts_invalid_methods_last():
    """All powers equal but that of the default: rank 1, the others share 2 to 10; KCI is last where it is invalid."""
    found = results_of(broken={("wavy density", "KCI")}, powers={"condcs": 150, "KCI": 200})
    _, cells = grids(found)
    joint = sum(s.kind == "numeric, joint" for s in ALTERNATIVES)
    share = joint / len(ALTERNATIVES)
    assert cells["In short"]["KCI"]["mean rank"].ours == pytest.approx(10 * share + 1 * (1 - share))
    assert cells["In short"]["condcs"]["mean rank"].ours == pytest.approx(1 * share + 2 * (1 - share))


def test_trial_says_whether_there_was_a_warning(monkeypatch):
    def warn(*args, **options):
        import warnings

        warnings.warn("the null may not hold", UserWarning, stacklevel=1)
        return type("Result", (), {"pvalue": 0.5})()

    monkeypatch.setattr(contest, "conditional_test", warn)
    pair = NULLS[0].draw(np.random.default_rng(0), (10, 10))
    found = contest.conditional_pvalue("condcs", pair, 9, np.random.default_rng(0))
    assert found["warned"] is True
    assert found["pvalue"] == 0.5
    assert contest.conditional_pvalue("CP", pair, 9, np.random.default_rng(0))["warned"] is False


def test_published_rates_are_those_of_the_tables():
    published = experiment_named("cond2st").paper
    assert published["CP"]["S1B"] == {"null": 0.060, "alternative": 0.562}
    assert published["PCM"]["S2B"] == {"null": 0.080, "alternative": 0.994}
    assert published["GCM"]["S5B"] == {"null": 0.070, "alternative": 0.942}
    assert all(list(rows) == list(cond2st.NAMES) for rows in published.values())


@pytest.mark.parametrize("name", [*cond2st.NAMES, *cond2st.MOVING])
def test_null_of_a_published_scenario_does_not_look_at_the_sample(name):
    null, alternative = (cond2st.scenario_of(name, truth) for truth in cond2st.TRUTHS)
    x = null.inputs(np.random.default_rng(1), 200, True)
    drawn = [s.response(np.random.default_rng(2), x, w) for s in (null, alternative) for w in (False, True)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[2], drawn[3])


@pytest.mark.parametrize(("name", "moved"), [("S1U", 0.0), ("S1B", 0.0), ("S1'U", 4.0), ("S1'B", 0.32)])
def test_only_the_added_null_moves_the_mean_of_y(name, moved):
    """Slopes times the means of four columns, 1 or, cut to (-.5, .5), 0.0797; 5 standard errors of their sum."""
    n = 40_000
    scenario = cond2st.scenario_of(name, "null")
    slopes = np.array([1, 1, -1, -1] if "'" in name else [1, -1, -1, 1])
    x = scenario.inputs(np.random.default_rng(0), n, False)
    assert np.mean(x[:, :4] @ slopes) == pytest.approx(moved, abs=5 * 2 / np.sqrt(n))


def test_bounded_inputs_stay_within_their_bounds():
    rng = np.random.default_rng(0)
    assert np.abs(cond2st.truncated_normal(rng, 1000, False)).max() <= 0.5
    moved = cond2st.student(3.0)(rng, 1000, False) - cond2st.SHIFT
    assert np.abs(moved).max() <= 3
    assert np.abs(cond2st.student(np.inf)(rng, 1000, True)).max() > 3
