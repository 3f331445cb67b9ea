"""`loss_change`: three parts with known values, in their intervals, that add up to the total."""

from __future__ import annotations

import numpy as np
import pytest

from condcs import loss_change
from condcs._inference.loss_split import some_rows

SHARES = np.array([[0.5, 0.4, 0.1], [0.1, 0.5, 0.4]])
LOSSES = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 4.0]])


def parts_of_categories(shares, losses):
    """The parts by their definition: common shares are proportional to pq / (p + q)."""
    p, q = shares
    common = p * q / (p + q)
    common = common / common.sum()
    return {
        "inputs_moved": common @ losses[0] - p @ losses[0],
        "new_inputs": q @ losses[1] - common @ losses[1],
        "relation": common @ (losses[1] - losses[0]),
    }


def rows_of_categories(size, rng, noise):
    """Rows in these very shares, so that only the noise of the loss is left to chance."""
    x = [np.repeat(np.arange(3), np.round(size * s).astype(int)) for s in SHARES]
    return [(c, loss[c] + noise * rng.normal(size=len(c))) for c, loss in zip(x, LOSSES, strict=True)]


def test_parts_of_categories_are_those_of_the_definition():
    """What is left is the ridge penalty on the shares, which is of the order of 1 over the rows."""
    (xp, lp), (xq, lq) = rows_of_categories(2000, np.random.default_rng(0), 0.0)
    found = loss_change(xp, lp, xq, lq, kernel_x="delta")
    for name, value in parts_of_categories(SHARES, LOSSES).items():
        assert getattr(found, name).value == pytest.approx(value, abs=0.01)


def test_samples_of_different_sizes_weigh_the_same():
    """The common support is that of the distributions, not of the pool."""
    (xp, lp), (xq, lq) = rows_of_categories(2000, np.random.default_rng(0), 0.0)
    found = loss_change(np.tile(xp, 3), np.tile(lp, 3), xq, lq, kernel_x="delta")
    for name, value in parts_of_categories(SHARES, LOSSES).items():
        assert getattr(found, name).value == pytest.approx(value, abs=0.01)


def test_parts_add_up_to_the_total():
    rng = np.random.default_rng(1)
    xp, xq = rng.normal(size=(150, 2)), rng.normal(0.7, 1.2, size=(220, 2))
    found = loss_change(xp, rng.exponential(size=150), xq, rng.exponential(1.5, size=220) + xq[:, 0] ** 2)
    assert sum(part.value for part in found.parts.values()) == pytest.approx(found.total.value, abs=1e-12)
    assert found.current - found.reference == pytest.approx(found.total.value, abs=1e-12)
    assert all(part.low < part.value < part.high for part in (found.total, *found.parts.values()))
    lines = str(found).splitlines()
    assert lines[0].startswith("mean loss: ")
    assert lines[-1].startswith("together")
    assert found.to_dict()["relation"] == {
        "value": found.relation.value,
        "interval": [found.relation.low, found.relation.high],
        "confidence_level": 0.95,
    }


def test_parts_lie_in_their_intervals():
    """Normal inputs whose mean moves by 1 and squared errors that grow with x; by the relation they grow by a half.

    With p = N(0, 1) and q = N(1, 1) the common density is proportional to phi(x - 1/2) / cosh((x - 1/2) / 2),
    integrated on a grid. Of 3 x 40 parts an interval of 95% holds 114 on average; fewer than 104 have probability
    0.00005 if all are independent, and 0.02 if the three of a sample all fail together.
    """
    grid = np.linspace(-9, 10, 40_001)
    common = np.exp(-((grid - 0.5) ** 2) / 2) / np.cosh((grid - 0.5) / 2)
    common /= common.sum()
    before = 0.5 + 0.5 * grid**2
    at_common = common @ before
    truth = {"inputs_moved": at_common - 1.0, "new_inputs": 1.5 * (1.5 - at_common), "relation": 0.5 * at_common}
    inside = 0
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        xp, xq = rng.normal(size=300), rng.normal(1, 1, size=300)
        lp, lq = (scale * (0.5 + 0.5 * x**2) * rng.chisquare(3, 300) / 3 for scale, x in ((1, xp), (1.5, xq)))
        found = loss_change(xp, lp, xq, lq, n_resamples=100, rng=seed)
        inside += sum(getattr(found, name).low <= value <= getattr(found, name).high for name, value in truth.items())
    assert inside >= 104


def test_long_samples_are_drawn_from():
    rows, sizes = some_rows((7, 30), 10, np.random.default_rng(0))
    assert sizes == (7, 10)
    assert list(rows[:7]) == list(range(7))
    assert set(rows[7:]) <= set(range(7, 37))
    assert (np.diff(rows) > 0).all()


def test_the_same_seed_gives_the_same_parts():
    rng = np.random.default_rng(5)
    data = rng.normal(size=50), rng.exponential(size=50), rng.normal(size=60), rng.exponential(size=60)
    assert loss_change(*data, rng=3) == loss_change(*data, rng=3) != loss_change(*data, rng=4)
