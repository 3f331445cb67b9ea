"""Jumps along x: where they are found, and that smooth relations have none."""

import numpy as np
import pytest

from condcs._regression.jumps import inside, jumps
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import in_deviations


def _noise(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 1))


def test_a_jump_along_a_column_is_found_where_it_is():
    x = np.random.default_rng(1).uniform(size=(400, 2))
    ((column, low, high),), *others = jumps(x, in_deviations(2.0 * (x[:, [1]] > 0.3) + _noise(400)))
    assert (column, high) == (1, np.inf)
    # By five rows at most: the sum of five differences from the jump, 2 each, has the deviation 2 sqrt(5) under noise,
    # so that a place further off would fit better with a probability below 0.03.
    assert abs(np.mean(x[:, 1] <= low) - np.mean(x[:, 1] <= 0.3)) <= 5 / 400
    # Windows that hold the jump see it a little from beside; no window of the other column does.
    assert {box[0][0] for box in others} <= {1}


def test_a_corner_of_two_columns_is_found_where_it_is():
    x = np.random.default_rng(2).uniform(size=(600, 3))
    corner = (x[:, 0] > 0.4) & (x[:, 2] > 0.6)
    sides = (x[:, [0]] > 0.4) * 0.6 + (x[:, [2]] > 0.6) * 0.4
    found = jumps(x, in_deviations(3.0 * (corner[:, None] - sides) + _noise(600)))
    (both,) = [box for box in found if len(box) == 2]
    assert [place[0] for place in both] == [0, 2]
    assert np.mean(inside(x, both) != corner) <= 10 / 600


def test_values_of_codes_have_an_indicator_each_but_one():
    codes = np.arange(300) % 12
    means = np.random.default_rng(3).normal(size=12)
    found = jumps(codes[:, None].astype(float), in_deviations(means[codes][:, None] + _noise(300)))
    members = np.column_stack([inside(codes[:, None].astype(float), box) for box in found])
    np.testing.assert_array_equal(members, codes[:, None] == np.arange(1, 12))


@pytest.mark.parametrize("columns", [1, 3, 10])
def test_noise_hardly_ever_jumps(columns):
    """In 40 samples at most 8: more has a probability of 0.0001 if one in twenty has a jump."""
    found = 0
    for seed in range(40):
        x = np.random.default_rng([seed, columns]).normal(size=(300, columns))
        found += bool(jumps(x, _noise(300, seed)))
    assert found <= 8


def test_residuals_without_noise_have_no_jumps():
    """What a spline leaves of a smooth function is no noise, however small: its waves would look like jumps."""
    x = np.linspace(-1, 1, 400)[:, None]
    smoother = Smoother(x, [False])
    assert smoother.following_jumps(np.exp(x)) is smoother


def test_regressions_follow_steps_only_if_told_to_look_for_them():
    rng = np.random.default_rng(4)
    x = rng.uniform(size=(600, 2))
    steps = np.array([0.0, 2.0, -1.0, 1.0, 0.0])[(5 * x[:, 0]).astype(int)][:, None]
    y = steps + 0.5 * rng.normal(size=(600, 1))
    smooth = Smoother(x, [False, False])
    # In this order: what the first has found is not to be taken over.
    left = [np.mean((s.residuals(y).in_sample - (y - steps)) ** 2) for s in (smooth, smooth.following_jumps(y))]
    # The variance of fifteen free parameters: 15 / 600 of that of the noise.
    assert left[1] < 0.25 * 15 / 600 < 0.5 * left[0]


def test_rows_of_a_cluster_are_not_taken_for_a_jump():
    clusters = np.repeat(np.arange(20), 20)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 20, 1))[:, clusters]
    smoother = Smoother(x, [False], clusters)
    assert smoother.following_jumps(y) is smoother
