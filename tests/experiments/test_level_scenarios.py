"""The scenarios of `condcs reproduce levels` are what they say: nulls are true, and shifts move what they name."""

import numpy as np
import pytest

from condcs_reproduction import level_scenarios
from condcs_reproduction.level_scenarios import ALTERNATIVES, DEPENDENCES, NULLS

SCENARIOS = [pytest.param(s, id=s.name) for s in (*NULLS, *ALTERNATIVES)]


def test_there_are_enough_of_each():
    assert len(NULLS) >= 24
    assert len(ALTERNATIVES) >= 18
    assert all(s.power is None for s in NULLS)
    assert all(s.power is not None for s in ALTERNATIVES)
    for group in ((*NULLS, *ALTERNATIVES), DEPENDENCES):
        assert len({s.name for s in group}) == len(group)


def test_every_alternative_has_nulls_of_its_kind():
    """Otherwise a rival that breaks its level would pass as valid there."""
    assert {s.kind for s in ALTERNATIVES} <= {s.kind for s in NULLS}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_pair_has_the_rows_and_the_labels_that_are_announced(scenario):
    pair = scenario.draw(np.random.default_rng(0))
    assert (len(pair.xp), len(pair.xq)) == scenario.rows == (len(pair.yp), len(pair.yq))
    for values, labels in (
        (np.concatenate([pair.xp, pair.xq]), pair.x_labels),
        (np.concatenate([pair.yp, pair.yq]), pair.y_labels),
    ):
        assert np.isfinite(values).all()
        assert values.shape[1] == len(labels)
        few = [len(np.unique(column)) <= 5 for column in values.T]
        assert few == list(labels)


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s.name) for s in NULLS])
def test_null_does_not_look_at_the_sample_to_make_y(scenario):
    """The same x and the same noise give the same y in both samples: p(y|x) is one."""
    x = scenario.inputs(np.random.default_rng(1), 50, True)
    first, second = (scenario.response(np.random.default_rng(2), x, which) for which in (False, True))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s.name) for s in ALTERNATIVES])
def test_alternative_looks_at_the_sample_to_make_y(scenario):
    x = scenario.inputs(np.random.default_rng(1), 200, True)
    first, second = (scenario.response(np.random.default_rng(2), x, which) for which in (False, True))
    assert not np.array_equal(first, second)


def test_wavy_density():
    """E sin(6 pi x) = +- .9 / 2 under the densities 1 +- .9 sin(6 pi x); 5 standard errors, each below sqrt(1 / 2n)."""
    n = 20_000
    for second, mean in ((False, 0.45), (True, -0.45)):
        x = level_scenarios.wavy(np.random.default_rng(0), n, second)
        assert x.shape == (n, 1)
        assert np.sin(6 * np.pi * x).mean() == pytest.approx(mean, abs=5 * np.sqrt(0.5 / n))


def test_columns_of_joint_shifts_stay_as_they_are():
    """Correlations move, means and variances do not; 5 standard errors of a mean, a variance and a correlation."""
    n = 20_000
    draw = level_scenarios.equicorrelated(3, 0.0, 0.6)
    for second, correlation in ((False, 0.0), (True, 0.6)):
        x = draw(np.random.default_rng(0), n, second)
        assert np.abs(x.mean(axis=0)).max() < 5 / np.sqrt(n)
        assert np.abs(x.var(axis=0) - 1).max() < 5 * np.sqrt(2 / n)
        found = np.corrcoef(x.T)[np.triu_indices(3, 1)]
        np.testing.assert_allclose(found, correlation, atol=5 / np.sqrt(n))


def test_two_categories_change_only_which_go_together():
    """Columns are uniform on three values; equal (first sample) or next (second) in a half plus a sixth of the rows."""
    n = 20_000
    error = 5 * np.sqrt(0.25 / n)
    for second in (False, True):
        a, b = level_scenarios.two_categories(np.random.default_rng(0), n, second).T
        for column in (a, b):
            np.testing.assert_allclose(np.bincount(column.astype(int)) / n, 1 / 3, atol=error)
        assert np.mean((a + second) % 3 == b) == pytest.approx(2 / 3, abs=error)


def test_bimodal_noise_has_the_moments_of_a_standard_normal():
    """Mean 0, variance 1 (5 standard errors; the variance of a square is below 2), and a fourth moment far below 3."""
    n = 20_000
    e = level_scenarios.bimodal(np.random.default_rng(0), n)
    assert e.mean() == pytest.approx(0, abs=5 / np.sqrt(n))
    assert np.mean(e**2) == pytest.approx(1, abs=5 * np.sqrt(2 / n))
    # 6 * .81 * .19 + 3 * .19^2 + .81^2 = 1.688; its square has a variance below 10.
    assert np.mean(e**4) == pytest.approx(1.688, abs=5 * np.sqrt(10 / n))


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s.name) for s in DEPENDENCES])
def test_variables_of_a_dependence_have_two_axes_and_the_same_rows(scenario):
    found = scenario.draw(np.random.default_rng(0))
    assert [v.ndim for v in found] == [2, 2, 2]
    assert {len(v) for v in found} == {scenario.rows}
    assert all(np.isfinite(v).all() for v in found)
