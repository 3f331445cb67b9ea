"""Patterns of bets: what holds for every row of the table, and that a row of it is all that a new pattern needs."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from condcs.drift import ConditionalDriftDetector, _patterns
from condcs.drift._patterns import PATTERNS, Pattern, heights_of

WAVE = Pattern("wave", "opposite changes at neighbouring fifths", 1, lambda n: 4 * slope(n) ** 3 - 3 * slope(n))
"""A pattern that is not among those of the package, and an odd one: it stays orthogonal to even ones that may come."""


def slope(n_regions):
    return np.linspace(-1, 1, n_regions)


@pytest.fixture
def wave(monkeypatch):
    monkeypatch.setattr(_patterns, "PATTERNS", (*PATTERNS, WAVE))
    return WAVE


def rows(n, rng, pattern, size=0.0):
    """Rows of two inputs; y changes by the heights of the pattern, at fifths or thirds of the inputs."""
    x = rng.uniform(size=(n, 2))
    regions = 5 if pattern.n_columns == 1 else 3
    heights = pattern.heights(*[regions] * pattern.n_columns)
    places = tuple((x[:, c] * regions).astype(int) for c in range(pattern.n_columns))
    return x, np.sin(3 * x[:, 0]) + x[:, 1] + size * heights[places] + 0.5 * rng.normal(size=n)


def check_change_is_named(pattern, seed=0):
    """A change by 1.4 standard deviations of the noise, at its largest, raises an alarm of this kind with a region."""
    rng = np.random.default_rng([51, seed])
    detector = ConditionalDriftDetector(*rows(1500, rng, pattern))
    assert not detector.update_many(*rows(200, rng, pattern)).any()
    x, y = rows(400, rng, pattern, size=0.7)
    detector.update_many(x, y)
    alarm = detector.alarm
    assert alarm.kind == pattern.kind
    assert not alarm.everywhere
    assert alarm.shown
    assert 195 <= alarm.since <= 240
    again = ConditionalDriftDetector.from_state_dict(detector.state_dict())
    assert again.alarm == alarm
    return alarm


@pytest.mark.parametrize("pattern", [*PATTERNS, WAVE], ids=lambda pattern: pattern.kind)
@pytest.mark.parametrize("regions", [2, 3, 5])
def test_heights_lie_between_minus_one_and_one_and_reach_both(pattern, regions):
    heights = heights_of((pattern,), (regions,) * pattern.n_columns)
    assert heights.shape == (prod((regions,) * pattern.n_columns), _patterns.most_patterns())
    assert heights.min() == -1
    assert heights.max() == 1


@pytest.mark.parametrize(("n_columns", "regions"), [(1, 5), (2, 3)])
def test_heights_are_nearly_orthogonal_to_those_of_other_patterns_and_to_a_level(n_columns, regions):
    """Of a change, bets with heights at cosine c win c^2 of what its own win: at 1/2 a quarter, and a tie is far."""
    patterns = [pattern for pattern in (*PATTERNS, WAVE) if pattern.n_columns == n_columns]
    shapes = [np.ones((regions,) * n_columns), *(pattern.heights(*[regions] * n_columns) for pattern in patterns)]
    unit = np.array([shape.ravel() / np.linalg.norm(shape) for shape in shapes])
    assert np.abs(unit @ unit.T - np.eye(len(unit))).max() < 0.5


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.kind)
def test_a_change_of_this_pattern_is_named(pattern):
    check_change_is_named(pattern)


def test_a_new_pattern_is_one_row_of_the_table(wave):
    alarm = check_change_is_named(wave)
    low, high = alarm.bounds["x0"]
    assert (low, high) != (None, None)
    # In the middle it bets nothing.
    assert not (low is not None and high is not None and low < 0.5 < high)
    # The others still work beside it.
    for pattern in PATTERNS:
        check_change_is_named(pattern)


def test_a_state_of_other_patterns_is_refused(wave, monkeypatch):
    rng = np.random.default_rng(52)
    state = ConditionalDriftDetector(*rows(200, rng, wave)).state_dict()
    monkeypatch.setattr(_patterns, "PATTERNS", PATTERNS)
    with pytest.raises(Exception, match="`state` must come from"):
        ConditionalDriftDetector.from_state_dict(state)
