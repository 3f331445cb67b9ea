"""Long runs say so: estimated from their first steps, on a clock that the tests turn themselves."""

import itertools

import numpy as np
import pytest

import condcs
from condcs._core import progress
from condcs._core.errors import CostWarning
from condcs._core.settings import config_context
from condcs._inference import independence_tests


@pytest.fixture
def slow_clock(monkeypatch):
    """A clock on which each look takes two seconds."""
    ticks = itertools.count(step=2)
    monkeypatch.setattr(progress, "clock", lambda: float(next(ticks)))


def samples(n=40):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, 1)) for _ in range(4)]


def test_a_test_that_runs_for_hours_says_so(slow_clock):
    """5 tiles of 16 rows, 2 s each: 10 s for each batch of 500 resamples, so 200 s for 10,000."""
    options = {"null": "permutation", "rng": 0, "n_jobs": 1}
    with config_context(tile=16), pytest.warns(CostWarning) as caught:
        said = condcs.conditional_test(*samples(), n_resamples=10_000, **options)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "conditional_cs with 10000 resamples of 80 rows is going to take about 3 minutes" in message
    assert "fewer rows" in message
    assert "n_resamples" in message
    assert "n_jobs" in message
    assert caught[0].filename == __file__
    assert said.n_resamples == 10_000


def test_a_short_test_says_nothing(slow_clock, recwarn):
    with config_context(tile=16):
        condcs.conditional_test(*samples(), null="permutation", n_resamples=200, rng=0, n_jobs=1)
    assert not recwarn.list


def test_the_interval_and_independence_say_so_too(slow_clock, monkeypatch):
    monkeypatch.setattr(progress, "LONG_SECONDS", 5.0)
    xp, yp, xq, yq = samples()
    with config_context(tile=16):
        with pytest.warns(CostWarning):
            found = condcs.two_sample_test(yp, yq, measure="cs", n_resamples=200, rng=0)
        with pytest.warns(CostWarning, match="interval from 200 resamples of 80 rows"):
            found.confidence_interval(rng=0)
    monkeypatch.setattr(independence_tests, "GRAM_BUDGET", 0)
    with pytest.warns(CostWarning, match="test of independence with 20 resamples of 40 rows"):
        condcs.independence_test(xq, yp, given=xp, null="local", n_resamples=20, rng=0)


def test_estimates_come_before_the_first_batch_is_done(slow_clock, monkeypatch):
    """All steps of a batch are reported, no more and no less; several widths share the resamples."""
    told = []
    estimate = progress._CostEstimate.__call__
    monkeypatch.setattr(progress._CostEstimate, "__call__", lambda self, n: (told.append(n), estimate(self, n))[1])
    with config_context(tile=16):
        condcs.conditional_test(*samples(), bandwidth="aggregate", null="permutation", n_resamples=600, rng=0)
    assert len(told) >= 2 * 5 * 5
    # The samples as given, and 600 resamples.
    assert sum(told) == pytest.approx(601)
    assert max(told) <= 100


def test_the_first_step_is_not_counted(monkeypatch, recwarn):
    """It may load and compile: an hour for the first step, and a second for each of the others."""
    times = iter([3600.0, 3601.0, 3602.0, 3603.0])
    monkeypatch.setattr(progress, "clock", lambda: next(times))
    with progress.progress_bar(4, False, "it", remedy="Wait.") as advance:
        for _ in range(4):
            advance(1)
    assert not recwarn.list
    assert [progress._duration(s) for s in (150, 5000, 7000, 7.2e4)] == [
        "2 minutes",
        "83 minutes",
        "2 hours",
        "20 hours",
    ]
