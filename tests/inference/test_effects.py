"""Effects in units of y over the common support: estimates, bounds, and what would not be seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from condcs._inference.effects import common_support, measure_effect, share
from condcs._inference.smoothing import Smoother
from condcs._inference.views import view_weights


def effect_of(xp, yp, xq, yq, *, numeric=True, seed=0):
    x, y = np.concatenate([xp, xq]), np.concatenate([yp, yq])
    rng = np.random.default_rng(seed)
    support = common_support(Smoother(x, [False] * x.shape[1]), (len(xp), len(xq)), rng)
    columns = y[:, None] if y.ndim == 1 else y
    return measure_effect("y", support, columns, numeric=numeric, confidence_level=0.95, alpha=0.05, rng=rng)


def samples(rng, rows=300, moved=0.5):
    return rng.normal(size=(rows, 2)), rng.normal(moved, 1, size=(rows, 2))


def test_shares_are_those_of_the_distributions():
    """The log of q/p = x - 1/2 for N(0, 1) and N(1, 1), and three times as many rows of the second change nothing."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(800, 1)), rng.normal(1, 1, size=(2400, 1))])
    support = common_support(Smoother(x, [False]), (800, 2400), rng)
    middle = np.abs(x[:, 0] - 0.5) < 1.5
    truth = share(x[:, 0] - 0.5)
    assert np.abs(share(support.odds.values) - truth)[middle].max() < 0.1


def test_a_shift_of_y_is_found_in_its_units():
    """Of 20 intervals of 95% more than 4 fail with probability 0.003; the unit of y is that of the effect."""
    inside, detected = 0, 0
    for seed in range(20):
        rng = np.random.default_rng([1, seed])
        xp, xq = samples(rng)
        yp, yq = (1000 * (x[:, 0] ** 2 + rng.normal(size=len(x))) for x in (xp, xq))
        found = effect_of(xp, yp, xq, yq + 500)
        inside += found.average.low <= 500 <= found.average.high
        detected += found.size.low > 0
        assert found.size.low <= found.size.value <= found.size.high
        assert found.size.high > 400
        assert found.size.low < 650
    assert inside >= 16
    assert detected >= 16


def test_where_nothing_changed_the_lower_bound_is_zero():
    """More than 5 of 20 lower bounds above 0 have probability 0.0003 at 5%."""
    above = 0
    for seed in range(20):
        rng = np.random.default_rng([2, seed])
        xp, xq = samples(rng)
        yp, yq = (np.sin(2 * x[:, 0]) + x[:, 1] + rng.normal(size=len(x)) for x in (xp, xq))
        above += effect_of(xp, yp, xq, yq).size.low > 0
    assert above <= 5


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_a_root_mean_square_was_below_the_average_change(shift):
    for seed in range(5):
        rng = np.random.default_rng([8, seed])
        xp, xq = samples(rng, 60)
        found = effect_of(xp, xp[:, 0] + rng.normal(size=60), xq, xq[:, 0] + rng.normal(size=60) + shift)
        assert abs(found.average.value) <= found.size.value <= found.size.high


def test_a_change_without_a_mean_is_a_change_all_the_same():
    """A slope that turns: on average nothing, in root mean square its size; here sqrt(2) at the least in each input."""
    rng = np.random.default_rng(3)
    xp, xq = samples(rng, 500, 0.0)
    yp, yq = (sign * x[:, 0] + 0.5 * rng.normal(size=len(x)) for sign, x in ((1, xp), (-1, xq)))
    found = effect_of(xp, yp, xq, yq)
    assert found.average.low < 0 < found.average.high
    assert found.size.low > 1.6
    assert found.size.high == pytest.approx(2.0, abs=0.3)


def test_doubled_noise_is_a_change_of_the_spread():
    rng = np.random.default_rng(4)
    xp, xq = samples(rng, 500)
    yp, yq = (x[:, 0] + scale * rng.normal(size=len(x)) for scale, x in ((1, xp), (2, xq)))
    found = effect_of(xp, yp, xq, yq)
    assert found.spread.before == pytest.approx(1, abs=0.15)
    assert found.spread.now == pytest.approx(2, abs=0.3)
    assert found.spread.change.low > 0.5
    assert found.bounds[0] == pytest.approx(found.spread.change.low)


def test_labels_change_in_shares():
    """P(1) rises by 0.2 everywhere; two indicators in opposite directions have the same upper bound."""
    rng = np.random.default_rng(5)
    xp, xq = samples(rng, 800)
    yp, yq = ((rng.random(len(x)) < level).astype(float) for level, x in ((0.4, xp), (0.6, xq)))
    found = effect_of(xp, yp, xq, yq, numeric=False)
    assert found.spread is None
    assert found.average.low <= 0.2 <= found.average.high
    both = effect_of(xp, np.column_stack([yp, 1 - yp]), xq, np.column_stack([yq, 1 - yq]), numeric=False)
    assert both.average is None
    assert both.size.high == pytest.approx(found.size.high, rel=1e-6)
    assert 0.1 < both.size.low < 0.2 < both.size.high


def test_four_times_the_rows_show_half_the_shift():
    found = []
    for rows in (200, 800):
        rng = np.random.default_rng(6)
        xp, xq = samples(rng, rows)
        found.append(effect_of(xp, rng.normal(size=rows), xq, rng.normal(size=rows)).detectable)
    assert found[1] / found[0] == pytest.approx(0.5, rel=0.15)


def test_the_detectable_shift_is_that_of_the_level_which_the_mean_has_in_the_test():
    """Noise of standard deviation 1, the same quantiles in both samples: the mean change has the error sqrt(2 / n).

    What the regressions use up of 1,000 rows is about 1%; a share of 0.4 in the place of 0.6 would make 5%.
    """
    rows, rng = 1000, np.random.default_rng(7)
    noise = norm.ppf((np.arange(rows) + 0.5) / rows)
    found = effect_of(*(v for x in samples(rng, rows, 0.0) for v in (x, rng.permutation(noise / noise.std()))))
    weights = dict(zip(names := ("mean", "amplitude", "slopes", "spread"), view_weights(names), strict=True))
    level = 0.05 * weights["mean"] / sum(weights.values())
    units = norm.isf(level / 2) + norm.ppf(0.8)
    assert found.detectable == pytest.approx(units * np.sqrt(2 / rows), rel=0.025)
