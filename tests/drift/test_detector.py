"""The drift detector: its guarantee, what alarms say, saved states, late responses, and what it makes of bad input."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.stats import t as student

import condcs
from condcs._core.errors import CondcsError, CondcsWarning
from condcs._tables.kinds import Column
from condcs.drift import Alarm, ConditionalDriftDetector
from condcs.drift._alarm import Summary, _interval, _Measured, _narrower_region, _spread_shown
from condcs.drift._cells import Regions
from condcs.drift._detector import PENDING_ROWS


def make_rows(n, rng, *, slope=0.5, raised=0.0, noise=0.5, shift=0.0):
    x = rng.normal(size=(n, 2))
    x[:, 0] += shift
    y = np.sin(2 * x[:, 0]) + slope * x[:, 1] + raised * (x[:, 0] > 0.8) + noise * rng.normal(size=n)
    return x, y


@pytest.fixture(scope="module")
def detector_state():
    return ConditionalDriftDetector(*make_rows(400, np.random.default_rng(0)), expected_run_length=1000).state_dict()


def an_alarm(**fields):
    common = {"row": 9, "response": "y", "label": None, "kind": "level", "change": "y changed", "region": "all rows"}
    common |= {"bounds": {}, "since": 7, "since_range": (5, 8), "at_least": False, "difference": 0.0}
    common |= {"interval": None, "divergence": None, "witness_at": {}, "witness_value": None}
    return Alarm(**{**common, "statistic": 1.0, "threshold": 1.0, **fields})


def fresh(state):
    return ConditionalDriftDetector.from_state_dict(state)


def false_alarms(make, *, references, rows, size=300, stated=1000):
    found = 0
    for seed in range(references):
        rng = np.random.default_rng([7, seed])
        detector = ConditionalDriftDetector(*make(size, rng, True), expected_run_length=stated, after_alarm="keep")
        found += int(detector.update_many(*make(rows, rng, False)).sum())
    return found


def autocorrelated(n, rng, coefficient):
    return np.sqrt(1 - coefficient**2) * lfilter([1], [1, -coefficient], rng.normal(size=n + 100))[100:]


QUIET = {
    "independent": lambda n, rng, ref: make_rows(n, rng),
    "inputs shift": lambda n, rng, ref: make_rows(n, rng, shift=0.0 if ref else 0.7),
    "labels": lambda n, rng, ref: (x := rng.normal(size=(n, 2)), rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0]))),
    "autocorrelated": lambda n, rng, ref: (x := rng.normal(size=n), x + 0.5 * autocorrelated(n, rng, 0.8)),
}


@pytest.mark.filterwarnings("ignore::condcs._core.errors.CondcsWarning")
@pytest.mark.parametrize("kind", QUIET)
def test_false_alarms_are_at_most_as_many_as_stated(kind):
    """60,000 quiet rows on references of 300 rows, at a stated run length of 1,000: the bound is a mean of 30 alarms.

    A Poisson variable of mean 30 is above 53 with probability 5e-5.
    """
    assert false_alarms(QUIET[kind], references=12, rows=5000) <= 53


@pytest.mark.filterwarnings("ignore::condcs._core.errors.CondcsWarning")
def test_the_probability_of_an_alarm_within_n_rows_is_below_the_theorem():
    """P(alarm within n) <= n / (2 A): at n = A / 2, at most 1/4 of 200 streams; 75 or more have probability 5e-5."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng([8, seed])
        detector = ConditionalDriftDetector(*make_rows(150, rng), expected_run_length=200, after_alarm="keep")
        for _ in range(10):
            detector.reset()
            alarms += bool(detector.update_many(*make_rows(100, rng)).any())
    assert alarms < 75


CHANGES = {
    "turned": {"slope": -0.5},
    "raised where x0 is large": {"raised": 1.2},
    "quieter": {"noise": 0.2},
    "louder": {"noise": 1.2},
}


@pytest.mark.parametrize("kind", CHANGES)
def test_changes_raise_one_alarm_that_says_when_and_where(kind):
    rng = np.random.default_rng(3)
    detector = ConditionalDriftDetector(*make_rows(800, rng))
    assert not detector.update_many(*make_rows(300, rng)).any()
    alarms = np.flatnonzero(detector.update_many(*make_rows(800, rng, **CHANGES[kind])))
    assert len(alarms) == 1
    alarm = detector.alarm
    assert alarm.row == 301 + alarms[0]
    assert alarm.since_range[0] <= alarm.since <= alarm.since_range[1]
    assert alarm.since_range[0] - 30 <= 301 <= alarm.since_range[1] + 30
    assert alarm.divergence > 0
    assert set(alarm.witness_at) == {"x0", "x1"}
    said = {
        "turned": ("slope", "y is"),
        "raised where x0 is large": ("level", "y is higher where x0 from"),
        "quieter": ("spread", "y varies less"),
        "louder": ("spread", "y varies more"),
    }[kind]
    assert alarm.kind in (said[0], "level")
    assert said[1] in str(alarm)
    if kind.startswith("raised"):
        assert alarm.interval[0] <= 1.2 <= alarm.interval[1]
        assert alarm.bounds["x0"][0] > 0.4


def test_the_range_of_the_change_point_holds_it():
    """The range has 90% of the evidence; in 40 streams, 29 hits or fewer have probability 2e-3 at 90%."""
    hits = 0
    for seed in range(40):
        rng = np.random.default_rng([21, seed])
        if seed % 8 == 0:
            state = ConditionalDriftDetector(*make_rows(800, rng)).state_dict()
        detector = fresh(state)
        detector.update_many(*make_rows(200, rng))
        detector.update_many(*make_rows(300, rng, noise=0.2))
        low, high = detector.alarm.since_range
        hits += low <= 201 <= high
    assert hits > 29


def test_labels_of_responses_and_inputs():
    """The probability of a label changes for one label of x: the alarm names both."""
    rng = np.random.default_rng(4)

    def rows(n, changed=False):
        frame = pd.DataFrame({"plant": rng.choice(["A", "B", "C"], n), "load": rng.normal(size=n)})
        chance = np.where((frame["plant"] == "B") & changed, 0.75, 0.25)
        return frame, np.where(rng.random(n) < chance, "fault", np.where(rng.random(n) < 0.5, "good", "fair"))

    detector = ConditionalDriftDetector(*rows(900))
    assert not detector.update_many(*rows(300)).any()
    assert detector.update_many(*rows(400, changed=True)).sum() == 1
    assert (detector.alarm.label, detector.alarm.change) == ("fault", "y is more often fault")
    assert detector.alarm.region == "plant = B"
    assert detector.alarm.bounds == {"plant": ["B"]}
    assert detector.alarm.reference.mean == pytest.approx(0.25, abs=0.1)


def test_labels_turned_round_where_both_are_as_likely_were_missed():
    """Their shares stay as they are; what changes is whether they are what x leads to expect.

    The alarm may be that of all rows, of which the plant has a quarter, if that comes first.
    """

    def rows(n, rng, turned=False):
        x = pd.DataFrame({"load": rng.normal(size=n), "plant": rng.choice(["A", "B", "C", "D"], n)})
        y = rng.random(n) < 1 / (1 + np.exp(-2 * x["load"].to_numpy()))
        return x, np.where(turned & (x["plant"] == "B"), ~y, y)

    found = []
    for seed in range(3):
        rng = np.random.default_rng([16, seed])
        detector = ConditionalDriftDetector(*rows(1000, rng))
        assert not detector.update_many(*rows(300, rng)).any()
        assert detector.update_many(*rows(500, rng, turned=True)).sum() == 1
        assert detector.alarm.change == "y is less often what was to be expected from x"
        found.append(detector.alarm.region)
    assert set(found) <= {"plant = B", "all rows"}
    assert found.count("plant = B") >= 2


def test_labels_flipped_at_one_end_of_a_column_were_missed():
    """Their cells soon held as many flipped labels as others, and bets that did not fade lost what they had won."""

    def rows(n, rng, flipped=False):
        x = rng.normal(size=n)
        y = rng.random(n) < 1 / (1 + np.exp(-1.5 * x))
        return x, np.where(flipped & (x > 1), ~y, y)

    for seed in (3, 4, 5, 13):
        rng = np.random.default_rng([22, seed])
        detector = ConditionalDriftDetector(*rows(600, rng))
        assert not detector.update_many(*rows(100, rng)).any()
        assert detector.update_many(*rows(2000, rng, flipped=True))[:1000].any()


def test_bets_on_labels_depended_on_where_in_its_cell_a_row_is():
    """Where the fit is wrong, they then win without a change: they are on the mean probability of the cell."""
    rng = np.random.default_rng(23)
    x = rng.normal(size=(400, 2))
    detector = ConditionalDriftDetector(x, rng.random(400) < 1 / (1 + np.exp(-2 * x[:, 0])))
    chances = detector.state_dict()["start_chances"][0]
    cells = detector._cells.locate(x, detector._regions.locate(x))
    expected = np.clip(detector._model.arrays.means.predict(x)[:, 0], 0.02, 0.98)
    # The reference has twice as many rows as were ranked, of which the cells have 12 at least.
    for cell, chance in enumerate(chances):
        own = expected[(cells == cell).any(axis=1)]
        assert own.min() < chance < own.max()
        assert chance == pytest.approx(own.mean(), abs=0.1)


def test_a_cell_without_ranked_rows_has_a_probability_of_labels_too():
    """A label of x that only fitted rows have: the first fifty of every hundred are fitted."""
    rng = np.random.default_rng(24)
    plant = np.where(np.arange(400) % 100 == 7, "rare", "common")
    detector = ConditionalDriftDetector(
        pd.DataFrame({"plant": plant, "load": rng.normal(size=400)}), rng.random(400) < 0.3
    )
    state = detector.state_dict()
    assert (state["start_totals"] == 0).any()
    assert (state["start_chances"] > 0).all()


def test_several_labels_that_change_places_were_missed():
    """Each stays about as frequent as before; what changes is at which inputs it is the likely one."""
    rng = np.random.default_rng(17)

    def rows(n, turned=False):
        x = rng.normal(size=(n, 3))
        odds = np.exp(1.5 * np.column_stack([x[:, 0], x[:, 1], np.zeros(n)]))
        chances = odds / odds.sum(axis=1, keepdims=True)
        chances = np.where((x[:, 2] > 0.5)[:, None] & turned, chances[:, [1, 2, 0]], chances)
        return x, np.array(["a", "b", "c"])[(rng.random(n)[:, None] > np.cumsum(chances, axis=1)[:, :2]).sum(axis=1)]

    detector = ConditionalDriftDetector(*rows(1200))
    assert not detector.update_many(*rows(300)).any()
    assert detector.update_many(*rows(300, turned=True)).any()


def test_inputs_in_tight_clusters_raised_alarms():
    """Where the relation is strongly nonlinear, an error of the fit is particular to the cluster: cells forget.

    At a stated run length of 10,000 each of 6 streams has an alarm within 1,500 rows with probability at most 0.075:
    four have one with probability 4e-4.
    """
    alarms = 0
    for seed in range(6):
        rng = np.random.default_rng([34, seed])
        centres = rng.normal(size=(4, 6))
        x = np.vstack([rng.normal(size=(1200, 6)), np.repeat(centres, 375, axis=0) + 0.1 * rng.normal(size=(1500, 6))])
        y = np.sin(2 * x[:, 0] * x[:, 1]) + x[:, 2] * x[:, 3] + np.abs(x[:, 4]) + 0.4 * rng.normal(size=2700)
        order = 1200 + rng.permutation(1500)
        alarms += ConditionalDriftDetector(x[:1200], y[:1200]).update_many(x[order], y[order]).any()
    assert alarms < 4


def test_responses_that_come_to_move_together():
    """Each of two responses stays as it was, their correlation changes."""
    rng = np.random.default_rng(5)

    def rows(n, correlation):
        x, e = rng.normal(size=n), rng.normal(size=(n, 2))
        e[:, 1] = correlation * e[:, 0] + np.sqrt(1 - correlation**2) * e[:, 1]
        return x, x[:, None] + e

    detector = ConditionalDriftDetector(*rows(600, 0.0))
    assert detector.update_many(*rows(400, 0.9)).sum() == 1
    assert "y0 and y1 move together more" in str(detector.alarm)


def test_drift_slower_than_the_reference_is_long():
    """Rows of the stream enter the comparison: a slow ramp is compared with its own past, and still stands out."""
    rng = np.random.default_rng(6)
    detector = ConditionalDriftDetector(*make_rows(400, rng))
    x, y = make_rows(8000, rng)
    assert detector.update_many(x, y + np.linspace(0, 1.5, 8000)).any()


def test_autocorrelated_residuals_are_recognised_and_said():
    rng = np.random.default_rng(7)
    x = rng.normal(size=1000)
    assert ConditionalDriftDetector(x, x + rng.normal(size=1000)).notes == ()
    some = ConditionalDriftDetector(x, x + autocorrelated(1000, rng, 0.8))
    assert some.promises
    assert "Rows are not independent: residuals of y have an autocorrelation of 0.7" in some.notes[0]
    assert "autoregression of order" in some.notes[0]
    with pytest.warns(CondcsWarning, match="cannot be promised for y: .*hardly return to their mean"):
        walk = ConditionalDriftDetector(x, x + np.cumsum(rng.normal(size=1000)))
    assert not walk.promises


def test_labels_that_depend_on_those_before_them_raised_alarms():
    """Randomised ranks hid the dependence: probabilities now follow the labels before.

    9,000 rows at a stated run length of 1,000 and a bound of 4.5 alarms: 14 or more have probability 3e-4.
    """
    alarms = 0
    for seed in range(3):
        rng = np.random.default_rng([15, seed])
        x, hidden = rng.normal(size=4000), autocorrelated(4000, rng, 0.9)
        y = x + 1.5 * hidden > 0
        detector = ConditionalDriftDetector(x[:1000], y[:1000], expected_run_length=1000, after_alarm="keep")
        assert "Rows are not independent" in detector.notes[0]
        alarms += int(detector.update_many(x[1000:], y[1000:]).sum())
    assert alarms < 14


def test_noise_that_depends_on_inputs_that_move_raised_alarms():
    """The correlation of two responses varies with x, and x shifts: p(y|x) is the same.

    At a stated run length of 10,000 each of 6 streams has an alarm within 1,000 rows with probability at most 1/20: two
    have one with probability 0.03, and three with probability 2e-3.
    """

    def rows(n, rng, shift):
        x, e = rng.normal(size=(n, 1)) + shift, rng.normal(size=(n, 2))
        correlation = np.tanh(2 * x[:, 0])
        e[:, 1] = correlation * e[:, 0] + np.sqrt(1 - correlation**2) * e[:, 1]
        return x, x + e

    alarms = 0
    for seed in range(6):
        rng = np.random.default_rng([31, seed])
        alarms += ConditionalDriftDetector(*rows(1200, rng, 0.0)).update_many(*rows(1000, rng, 0.8)).any()
    assert alarms < 3


def test_an_interaction_of_two_inputs_was_missed():
    """The response changes in opposite ways in the corners of two inputs, which neither of them shows alone."""
    rng = np.random.default_rng(32)
    detector = ConditionalDriftDetector(*make_rows(1200, rng))
    x, y = make_rows(400, rng)
    alarms = detector.update_many(x, y + 0.5 * x[:, 0] * x[:, 1])
    assert np.flatnonzero(alarms)[0] < 250
    assert detector.alarm.kind == "interaction"
    assert "y is higher where x0 and x1 are both high or both low" in str(detector.alarm)


def test_an_interaction_is_summarised_in_its_corners():
    """Over all rows the mean stays: it was said not to have changed, beside "all rows"."""
    rng = np.random.default_rng(32)
    detector = ConditionalDriftDetector(*make_rows(1200, rng))
    x, y = make_rows(400, rng)
    detector.update_many(x, y + x[:, 0] * x[:, 1])
    alarm = detector.alarm
    assert (alarm.change, alarm.region) == ("y is higher", "x0 and x1 are both high or both low")
    assert alarm.bounds == {}
    assert alarm.shown
    assert alarm.interval[0] > 0


def test_the_standard_deviation_of_one_row_was_0():
    one, five = (_Measured(np.arange(n) + 3.0, np.arange(n) - 2.0) for n in (1, 5))
    assert one.summary() == Summary(3.0, None, 1)
    assert five.summary() == Summary(5.0, pytest.approx(np.sqrt(2.5)), 5)
    assert _Measured(np.zeros(0), np.zeros(0)).summary() == Summary(None, None, 0)
    said = str(an_alarm(kind="spread", reference=Summary(5.0, 14.55, 200), recent=one.summary(), shown=False))
    assert "the standard deviation of its residuals was 14.55 in the reference; 1 row since then is too few" in said
    assert "now" not in said


def test_the_interval_of_rows_that_are_all_alike_had_no_width():
    """A share of 0 in 12 rows excludes shares above 1 - 0.025^(1/12); 8 equal numbers vary as the reference does."""
    rng = np.random.default_rng(0)
    reference = _Measured((rng.random(300) < 0.5).astype(float), rng.choice([-0.54, 0.46], 300))
    none = _Measured(np.zeros(12), np.full(12, -0.54) + 1e-4 * rng.normal(size=12))
    expected = -none.residuals.mean()
    for quantity in ("share", "agreement"):
        interval = _interval(quantity, reference, none)
        assert interval == pytest.approx((-expected, 1 - 0.025 ** (1 / 12) - expected), rel=1e-6)
    few = _Measured(np.zeros(8), np.full(8, -0.54))
    half = student.ppf(0.975, 7) * reference.residuals.std(ddof=1) / np.sqrt(8)
    assert _interval("mean", reference, few) == pytest.approx((-0.54 - half, -0.54 + half))
    # Without a reference there, the rows themselves are all that is known.
    varied = _Measured(np.arange(8.0), np.arange(8.0))
    half = student.ppf(0.975, 7) * np.arange(8.0).std(ddof=1) / np.sqrt(8)
    nothing = _Measured(np.zeros(0), np.zeros(0))
    assert _interval("mean", nothing, varied) == pytest.approx((3.5 - half, 3.5 + half))
    assert _interval("share", reference, _Measured(np.zeros(4), np.zeros(4))) is None


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_an_alarm_of_a_response_that_is_0_in_all_rows_has_an_interval(kind):
    """It was 2e-4 wide for some ten rows: the residuals of 0 hardly vary."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(700, 1))
    y = (rng.random(700) < 0.55).astype(float)
    y[400:] = 0.0
    y = np.where(y > 0, "yes", "no") if kind == "labels" else y
    detector = ConditionalDriftDetector(x[:400], y[:400])
    detector.update_many(x[400:], y[400:])
    low, high = detector.alarm.interval
    n = detector.alarm.recent.rows
    assert detector.alarm.shown
    assert high - low > 1 / n


def test_alarms_that_contradict_themselves_say_that_no_change_can_be_shown():
    sides = {"reference": Summary(0.5, 0.5, 200), "recent": Summary(0.5, 0.5, 12), "label": "a", "quantity": "share"}
    said = str(an_alarm(interval=(-0.3, 0.3), shown=False, **sides))
    assert (
        "the share of a was 0.5 in the reference and is 0.5 in the 12 rows since then, in which alone no change of it "
        "can be shown" in said
    )
    assert "is 0.5 now" in str(an_alarm(interval=(0.1, 0.3), shown=True, **sides))


def test_the_mean_was_shown_where_labels_no_longer_were_what_x_leads_to_expect():
    """Labels turned round keep their shares: "the mean of y was 0.5 and is 0.5 now"."""

    def rows(n, rng, sign=1):
        x = rng.normal(size=n)
        return x, np.where(rng.random(n) < 1 / (1 + np.exp(-1.5 * sign * x)), "a", "b")

    rng = np.random.default_rng([6, 2])
    detector = ConditionalDriftDetector(*rows(500, rng), expected_run_length=2000)
    detector.update_many(*rows(200, rng))
    detector.update_many(*rows(300, rng, sign=-1))
    alarm = detector.alarm
    assert (alarm.quantity, alarm.change) == ("agreement", "y is less often what was to be expected from x")
    # Of the likelier label, E max(p, 1 - p) = 0.73 for this logistic relation, and 1 less that when turned round.
    assert alarm.reference.mean == pytest.approx(0.73, abs=0.1)
    assert alarm.recent.mean < 0.5
    assert alarm.shown


def test_a_spread_after_none_at_all_could_not_be_shown():
    """It was 0 in the reference and 1.35 in six rows, "in which alone no change of it can be shown"."""
    before, after = np.zeros(300), np.array([-1.0, 1.0, 2.0, -2.0, 0.5])
    assert _spread_shown(before, after, 1)
    assert not _spread_shown(before, after, -1)
    assert not _spread_shown(before, before[:5], 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_change_of_the_spread_is_shown_at_its_level(sign):
    """An F test at 2.5%: of 2,000 pairs without a change, 50 +- 3.3 sqrt(2000 * .025 * .975) = 27 to 73."""
    rng = np.random.default_rng(41)
    shown = sum(_spread_shown(rng.normal(size=300), rng.normal(size=8), sign) for _ in range(2000))
    assert 27 <= shown <= 73
    assert _spread_shown(rng.normal(size=300), rng.normal(size=20) * 3.0**sign, sign)


def test_all_rows_was_said_though_one_label_alone_changed():
    """Bets on all rows weigh most and came first; what the rows since then are explained by best is named."""

    def rows(n, rng, raised=0.0):
        x = pd.DataFrame({"plant": rng.choice(list("ABC"), n), "load": rng.normal(size=n)})
        return x, x["load"].to_numpy() + rng.normal(size=n) + raised * (x["plant"] == "B").to_numpy()

    rng = np.random.default_rng([5, 0])
    detector = ConditionalDriftDetector(*rows(900, rng))
    detector.update_many(*rows(200, rng))
    detector.update_many(*rows(500, rng, raised=1.0))
    assert detector.alarm.region == "plant = B"


def test_a_change_of_all_rows_is_not_narrowed():
    """Deviations of mean 1 in 40 rows explain 40, those of half of them 20; noise of variance 1 adds 2 sqrt(40)."""
    rng = np.random.default_rng(42)
    columns = (Column("plant", "category", ("A", "B")),)
    x = rng.integers(2, size=(40, 1)).astype(float)
    regions = Regions.of(x, columns)
    noise = rng.normal(size=40)
    assert _narrower_region(regions, x, 1.0 + noise, 1) == 0
    assert regions.words(_narrower_region(regions, x, 2.0 * x[:, 0] + noise, 1)) == "plant = B"
    assert _narrower_region(regions, x, -2.0 * x[:, 0] + noise, 1) == 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("repeated", "repeated one after the other"),
        ("copies", "rows of the reference are copies of others. Leave them out."),
        ("short", "too short for residuals that depend so strongly"),
        ("wandering", "the level of the residuals wanders slowly"),
        ("clusters", "large residuals come in clusters"),
    ],
)
def test_what_cannot_be_promised_is_said(kind, words):
    rng = np.random.default_rng(33)
    n = {"short": 300, "wandering": 3000}.get(kind, 1500)
    x, y = make_rows(n, rng, noise=0.0 if kind == "short" else 0.5)
    if kind == "repeated":
        x, y = x[np.arange(n) // 2], y[np.arange(n) // 2]
    if kind == "copies":
        drawn = rng.integers(0, n, n)
        x, y = x[drawn], y[drawn]
    if kind == "short":
        y += autocorrelated(n, rng, 0.8)
    if kind == "wandering":
        y += 0.13 * np.sin(2 * np.pi * np.arange(n) / 600)
    if kind == "clusters":
        y += 0.7 * np.exp(autocorrelated(n, rng, 0.98)) * rng.normal(size=n)
    with pytest.warns(CondcsWarning, match="cannot be promised"):
        detector = ConditionalDriftDetector(x, y)
    assert not detector.promises
    assert words in " ".join(detector.notes)


def test_equal_rows_of_columns_of_few_values_are_no_copies():
    rng = np.random.default_rng(35)
    x = rng.integers(0, 5, size=(600, 2))
    for y in (x[:, 0] + rng.integers(0, 3, 600), np.where(rng.random(600) < 0.5, "a", "b"), x[:, 0] > 2):
        assert ConditionalDriftDetector(x.astype(float), y).promises


def test_a_reference_learned_within_many_rows_was_another_than_from_one_row_after_the_other():
    """Its random numbers depend on how many rows were seen before it, not on how many came in one call."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=2400), rng.integers(0, 3, 2400).astype(float)
    y[400:] = np.where(x[400:] > 0, 2, y[400:])
    y[::50] = np.nan
    settings = {"expected_run_length": 1000, "learning_rows": 100, "category": ["y"], "rng": 0}
    usable = np.isfinite(y[:300])
    one, many = (ConditionalDriftDetector(x[:300][usable], y[:300][usable], **settings) for _ in range(2))
    alarms = many.update_many(x[300:], y[300:])
    assert alarms.any()
    assert alarms.tolist() == [one.update(a, b).drift_detected for a, b in zip(x[300:], y[300:], strict=True)]
    states = one.state_dict(), many.state_dict()
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name], err_msg=name)


def test_after_an_alarm_the_relation_is_learned_or_the_reference_kept():
    """A change is reported once, and its end once more; or as long as it lasts."""
    reference = make_rows(500, np.random.default_rng(9))
    changed = make_rows(1500, np.random.default_rng(10), slope=-0.5)
    back = make_rows(300, np.random.default_rng(11))
    learns = ConditionalDriftDetector(*reference, learning_rows=300)
    assert learns.update_many(*changed).sum() == 1
    assert learns.counts["learned"] == 300
    assert learns.update_many(*back).sum() == 1
    assert learns.is_learning
    keeps = ConditionalDriftDetector(*reference, after_alarm="keep")
    assert keeps.update_many(*changed).sum() > 5
    assert not keeps.is_learning
    again = ConditionalDriftDetector(*reference)
    again.learn(*changed)
    assert not again.update_many(*make_rows(400, np.random.default_rng(12), slope=-0.5)).any()


def test_single_rows_batches_and_saved_states_agree(tmp_path, detector_state):
    """All ways of taking in the same rows end in the same state, to the last bit: through an alarm and learning."""
    rng = np.random.default_rng(5)
    x, y = make_rows(700, rng, slope=-0.5)
    x[3, 0] = np.nan
    singly, at_once = fresh(detector_state), fresh(detector_state)
    flags = [singly.update(a, b).drift_detected for a, b in zip(x, y, strict=True)]
    assert sum(flags) >= 1
    assert flags == at_once.update_many(x, y).tolist()
    assert singly.alarm == at_once.alarm
    for stop in (10, 37):
        stopped = fresh(detector_state)
        first = stopped.update_many(x[:stop], y[:stop])
        stopped.save(tmp_path / "state.npz")
        resumed = ConditionalDriftDetector.load(tmp_path / "state.npz")
        assert resumed.alarm == stopped.alarm
        assert [*first, *resumed.update_many(x[stop:], y[stop:])] == flags
    for one, other in ((singly, at_once), (singly, resumed)):
        for name, array in one.state_dict().items():
            np.testing.assert_array_equal(array, other.state_dict()[name], err_msg=name)


def test_a_state_changed_with_the_rows_that_came_after_it(detector_state):
    detector = fresh(detector_state)
    state = detector.state_dict()
    detector.update_many(*make_rows(50, np.random.default_rng(15)))
    for name, array in state.items():
        np.testing.assert_array_equal(array, detector_state[name], err_msg=name)


def test_responses_that_come_late(detector_state):
    """In the order in which rows are complete; a state keeps what waits."""
    x, y = make_rows(60, np.random.default_rng(13))
    plain, late = fresh(detector_state), fresh(detector_state)
    for row in range(60):
        late.update_input(row, x[row])
    late = fresh(late.state_dict())
    order = np.random.default_rng(0).permutation(60)
    for row in order.tolist():
        late.update_label(row, y[row])
        plain.update(x[row], y[row])
    assert late.statistic == plain.statistic
    with pytest.raises(CondcsError, match="`key` must be that of a row whose inputs wait for a response, got 3"):
        late.update_label(3, 0.0)
    for key in range(PENDING_ROWS + 5):
        late.update_input(str(key), x[0])
    assert late.counts["expired"] == 5


def test_rows_that_cannot_be_used_are_counted_not_fatal():
    rng = np.random.default_rng(14)
    frame = pd.DataFrame({"a": rng.normal(size=200), "c": rng.choice(["u", "v"], 200)})
    detector = ConditionalDriftDetector(frame, frame["a"] + rng.normal(size=200))
    for x, y in (({"a": None, "c": "u"}, 0.0), ({"a": 0.1, "c": "w"}, 0.0), ({"a": 0.1, "c": "u"}, "word")):
        assert not detector.update(x, y).drift_detected
    assert not detector.update({"a": 50.0, "c": "u"}, 50.0).drift_detected
    detector.update_many(pd.DataFrame({"a": [0.1, np.nan], "c": ["u", "u"]}), [0.0, 0.0])
    counts = detector.counts
    assert (counts["rows"], counts["gaps"], counts["unseen labels"], counts["outside"]) == (6, 3, 1, 1)
    assert counts["watched"] == 1


def test_rows_as_dicts_like_those_of_river():
    x, y = make_rows(120, np.random.default_rng(6))
    frame = pd.DataFrame(x, columns=["b", "a"])
    named, plain = ConditionalDriftDetector(frame, y), ConditionalDriftDetector(x, y)
    for row, response in zip(x[:30], y[:30], strict=True):
        named.update({"a": row[1], "b": row[0], "other": "ignored"}, response)
        plain.update(row, response)
    assert named.statistic == plain.statistic > 0
    with pytest.raises(CondcsError, match="lacks 'b'"):
        named.update({"a": 1.0}, 0.0)
    with pytest.raises(CondcsError, match="got a dict"):
        plain.update({"a": 1.0}, 0.0)


def test_river_can_drive_it(detector_state):
    """The part of river's protocol that its own code uses: `update`, then `drift_detected` and `warning_detected`."""
    base = pytest.importorskip("river.base", reason="river is not installed")
    for name in ("update", "drift_detected"):
        assert hasattr(base.DriftDetector, name)
    rng = np.random.default_rng(2)
    detector, warned = fresh(detector_state), 0
    for x, y in zip(*make_rows(300, rng, slope=-0.5), strict=True):
        detector.update(x, y)
        warned += detector.warning_detected
        if detector.drift_detected:
            break
    assert detector.drift_detected
    assert not detector.warning_detected
    assert warned


def test_memory_is_constant_and_sums_do_not_decay(detector_state):
    """Everything the detector consists of is as large after 50,000 rows as before; ranks stay uniform."""
    detector = fresh(detector_state)
    sizes = {name: array.nbytes for name, array in detector.state_dict().items() if name != "settings"}
    detector.expected_run_length = 1e12
    detector.update_many(*make_rows(50_000, np.random.default_rng(1)))
    state = detector.state_dict()
    assert {name: array.nbytes for name, array in state.items() if name != "settings"} == sizes
    assert np.isfinite(state["sums_local"]).all()
    # 1,000 normal scores have a mean of standard error 0.032, and a variance of standard error 0.045.
    assert abs(state["kept_ranked"][:, 0, 0].mean()) < 0.13
    assert abs(state["kept_ranked"][:, 0, 0].var() - 1) < 0.18


def test_threads_change_nothing():
    rows, stream = make_rows(300, np.random.default_rng(9)), make_rows(100, np.random.default_rng(10))
    found = []
    for threads in (1, 3):
        with condcs.config_context(n_threads=threads):
            detector = ConditionalDriftDetector(*rows)
            detector.update_many(*stream)
            found.append(detector.statistic)
    assert found[0] == found[1]


def test_an_exact_relation_and_a_constant_response():
    """Residuals that are rounding errors are not compared digit by digit; a departure is noticed at once."""
    x = np.random.default_rng(0).uniform(size=600)
    for function in (lambda v: 2 * v, lambda v: 0 * v + 3.0):
        detector = ConditionalDriftDetector(x[:300], function(x[:300]))
        assert not detector.update_many(x[300:], function(x[300:])).any()
        assert detector.update_many(x[:100], function(x[:100]) + 1.0).any()


def test_an_alarm_survives_json(detector_state):
    detector = fresh(detector_state)
    detector.update_many(*make_rows(200, np.random.default_rng(2), raised=2.0))
    alarm = detector.alarm
    assert Alarm.from_dict(json.loads(json.dumps(alarm.as_dict()))) == alarm


X, Y = np.linspace(0, 1, 100), np.linspace(0, 1, 100) ** 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y_ref": Y[:50]}, "`x_ref` and `y_ref` must have the same number of rows"),
        ({"x_ref": X[:30], "y_ref": Y[:30]}, "`x_ref` must have at least 40 rows that can be used, got 30"),
        ({"expected_run_length": -1}, "`expected_run_length` must be a positive"),
        ({"after_alarm": "stop"}, "`after_alarm` must be"),
        ({"learning_rows": 3}, "`learning_rows` must be an integer of at least 40"),
        ({"category": "z"}, "`category` must name columns, got 'z'. The columns are 'x', 'y'"),
        ({"x_ref": np.full(100, np.nan)}, "`x_ref` must be finite"),
        ({"x_ref": [f"row {i}" for i in range(100)]}, "text that hardly repeats"),
        ({"x_ref": np.zeros((100, 2, 2))}, "`x_ref` must have one or two dimensions"),
        ({"x_ref": np.zeros((100, 0))}, "`x_ref` must have rows and columns"),
        ({"rng": -1}, "`rng` must be"),
    ],
)
def test_bad_references(change, words):
    with pytest.raises(CondcsError, match=words):
        ConditionalDriftDetector(**{"x_ref": X, "y_ref": Y, **change})


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1.0, 2.0, 3.0], 0.0, "`x` must have 2 columns, as the reference has, got 3"),
        ([1.0, 2.0], [0.0, 1.0], "`y` must have 1 columns"),
        ([[1.0, 2.0]], 0.0, "`x` must be one row"),
    ],
)
def test_bad_rows(detector_state, x, y, words):
    with pytest.raises(CondcsError, match=words):
        fresh(detector_state).update(x, y)


def test_rows_of_different_number(detector_state):
    with pytest.raises(CondcsError, match="`x` and `y` must have the same number of rows, got 2 and 3"):
        fresh(detector_state).update_many(np.zeros((2, 2)), np.zeros(3))
    with pytest.raises(CondcsError, match="`key` must be a string or an integer, got list"):
        fresh(detector_state).update_input([1], [0.0, 0.0])


def test_broken_states(detector_state):
    for name in detector_state:
        with pytest.raises(CondcsError, match="`state` must come from"):
            fresh({k: v for k, v in detector_state.items() if k != name})
    settings = json.loads(str(detector_state["settings"]))
    for change in (
        {"key": -1},
        {"expected_run_length": float("nan")},
        {"counts": {}},
        {"kept": 1e400},
        {"x": {**settings["x"], "columns": []}},
    ):
        with pytest.raises(CondcsError, match="`state` must come from"):
            fresh({**detector_state, "settings": np.array(json.dumps({**settings, **change}))})


@pytest.mark.parametrize(
    "name",
    ["sums_trees", "start_totals", "cell_children", "kept_x", "means_coefficients", "typical", "fitted", "edges"],
)
@pytest.mark.parametrize("change", [lambda a: a[:0], lambda a: a[0], lambda a: a * np.nan, lambda a: a.astype(complex)])
def test_damaged_arrays_of_a_state_are_refused_not_worked_with(detector_state, name, change):
    with pytest.raises(CondcsError, match="`state` must come from"):
        fresh({**detector_state, name: change(detector_state[name])})


def running_rows(n, rng):
    """A time in days every 47 minutes, and a response that depends on the hour."""
    days = 19905 + np.arange(n) * 47 / 1440
    return days[:, None], np.sin(np.floor(days % 1 * 24) / 4) + 0.3 * rng.normal(size=n)


def test_a_reference_whose_inputs_never_return_is_refused():
    """No row of it was ranked: the detector began with the mean of nothing and gave no alarm for any change."""
    rng = np.random.default_rng(0)
    x, y = running_rows(300, rng)
    words = "`x_ref` must have inputs that return: 0 of the 150 rows .* Leave out inputs that only go on"
    with pytest.raises(CondcsError, match=words):
        ConditionalDriftDetector(x, y)
    # At random distances a few rows beside the fitted blocks have neighbours there; those of the stream have none.
    with pytest.raises(CondcsError, match=r"inputs that return: [1-9]"):
        ConditionalDriftDetector(np.cumsum(rng.exponential(size=300)), y)
    # The hour of the day returns.
    hours = x % 1 * 24
    assert ConditionalDriftDetector(hours, y, rng=0).update_many(hours, y + 9).any()


def test_a_refused_reference_leaves_the_detector_as_it_was(detector_state):
    detector, rng = fresh(detector_state), np.random.default_rng(1)
    x, y = running_rows(300, rng)
    with pytest.raises(CondcsError, match="inputs that return"):
        detector.learn(np.column_stack([x, x]), y)
    for name, array in detector.state_dict().items():
        np.testing.assert_array_equal(array, detector_state[name])


def test_rows_among_which_inputs_do_not_return_are_not_learned():
    """A stream goes on: after them the next rows are taken, until inputs return."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=400), rng.normal(size=400)
    detector = ConditionalDriftDetector(x, y, learning_rows=100)
    while not detector.is_learning:
        detector.update(0.0, 9.0)
    detector.update_many(np.arange(200) / 100, rng.normal(size=200))
    assert detector.is_learning
    assert detector.counts["learned"] == 200
    detector.update_many(x[:100], y[:100])
    assert not detector.is_learning


def test_a_saved_state_with_nan_is_refused_as_such(detector_state):
    chances = np.full_like(detector_state["start_chances"], np.nan)
    with pytest.raises(CondcsError, match=r"got something else \(start_chances with NaN\)"):
        fresh({**detector_state, "start_chances": chances})


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_typed_times_are_dates(unit):
    """Times of nanoseconds were numbers of 1e18 in a reference, and gaps in single rows; durations likewise."""
    rng = np.random.default_rng(3)
    days = rng.integers(19_000, 20_000, size=300)
    when = days.astype("datetime64[D]").astype(f"datetime64[{unit}]")
    took = (days % 7).astype("timedelta64[D]").astype(f"timedelta64[{unit}]")
    x = pd.DataFrame({"when": when, "took": took})
    y = np.sin(days / 300) + 0.3 * rng.normal(size=300)
    detector = ConditionalDriftDetector(x, y)
    assert [column.kind for column in detector.columns] == ["date", "number", "number"]
    as_numbers = ConditionalDriftDetector(np.column_stack([days, days % 7]), y)
    # Tables, rows of a DataFrame, and values of numpy are the same rows.
    detector.update_many(x, y + 0.1)
    as_numbers.update_many(np.column_stack([days, days % 7]), y + 0.1)
    assert detector.statistic == as_numbers.statistic
    for row in (x.iloc[0], dict(x.iloc[0]), [when[0], took[0]], {"when": when[0], "took": took[0]}):
        assert detector.update(row, y[0]).score == as_numbers.update([days[0], days[0] % 7], y[0]).score
    assert not detector.counts["gaps"]
    detector.update_many(x.assign(when=pd.NaT), y)
    assert detector.counts["gaps"] == 300
    # A single column, whose rows are arrays of times.
    of_times = ConditionalDriftDetector(when, y)
    assert of_times.update(when[:1], y[0]).score == of_times.update(when[0], y[0]).score
    assert not of_times.counts["gaps"]
