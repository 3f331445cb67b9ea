"""Estimates of what is listed because it is large."""

from __future__ import annotations

import numpy as np
import pytest

from condcs._inference.after_selection import after_selection


def test_what_is_always_listed_is_not_corrected():
    """A threshold of 0 is always exceeded; so is one far below the estimate. The grid is in steps of 0.05."""
    for value, threshold in ((0.7, 0.0), (-0.7, 0.0), (-30.0, 2.5)):
        found = after_selection(2 * value, 2.0, correlation=0.7, threshold=threshold, confidence_level=0.95)
        expected = 2 * value + 2 * 1.959964 * np.array([0, -1, 1])
        np.testing.assert_allclose(found, expected, atol=0.01)


def test_estimates_without_error_are_kept():
    assert tuple(after_selection(0.3, 0.0, correlation=0.7, threshold=2.5, confidence_level=0.95)) == (0.3, 0.3, 0.3)


@pytest.mark.parametrize("change", [0.0, 1.5, -3.0])
def test_intervals_of_what_is_listed_hold_the_truth(change):
    """Listed if |T| > 2.5, with correlation 0.7 between T and Z: intervals as they are hold changes of 0 in .56.

    Of 400 intervals of 95%, fewer than 365 or more than 394 hold with probability 0.001.
    """
    rng, threshold, correlation = np.random.default_rng(0), 2.5, 0.7
    z = change + rng.normal(size=200_000)
    t = correlation * z + np.sqrt(1 - correlation**2) * rng.normal(size=len(z))
    listed = z[np.abs(t) > threshold][:400]
    found = [
        after_selection(v, 1.0, correlation=correlation, threshold=threshold, confidence_level=0.95) for v in listed
    ]
    assert 365 <= sum(e.low <= change <= e.high for e in found) <= 394
    # Half of the estimates lie on either side: fewer than 167 of 400 do with probability 0.001.
    assert 167 <= sum(e.value > change for e in found) <= 233
