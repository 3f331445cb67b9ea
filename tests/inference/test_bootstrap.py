"""Samples with replacement, all in one product: the same values as evaluating one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import condcs
from condcs._inference.resampling import Bootstrap
from condcs._inference.statistics import TestedMeasure, pool_statistic
from condcs._measures.registry import MEASURES

CASES = [
    ("conditional_cs", {}),
    ("conditional_cs", {"estimator": "pooled"}),
    ("conditional_cs", {"estimator": "p"}),
    ("conditional_euclidean", {}),
    ("joint_mmd", {}),
    ("cs", {}),
    ("mmd", {}),
    ("mmd", {"unbiased": True}),
    ("conditional_kl", {}),
]


@pytest.mark.parametrize(("measure", "options"), CASES)
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_values_of_redrawn_rows(measure, options, scale):
    """Against the public function on the rows themselves; at the larger scale kernel values underflow."""
    rng = np.random.default_rng(0)
    sizes = (30, 24)
    x, y = [scale * rng.normal(size=(n, 2)) for n in sizes], [rng.normal(size=(n, 1)) for n in sizes]
    chosen = MEASURES[measure]
    # `bandwidth_x` and `bandwidth_y` where the measure has them, or else the plain one: never both.
    widths = {k: 1.0 for k in ("bandwidth_x", "bandwidth_y") if k in chosen.options}
    if not widths and "bandwidth" in chosen.options:
        widths = {"bandwidth": 1.0}
    parts = [[(f"{name}{s}", v[i]) for i, s in enumerate("pq")] for name, v in (("x", x), ("y", y))]
    pool = TestedMeasure(chosen, {**options, **widths}).pool(parts[0] if chosen.takes_x else [], parts[1])
    rows = np.array([[*rng.integers(30, size=30), *(30 + rng.integers(24, size=24))] for _ in range(3)])
    found = pool_statistic(pool).redrawn(rows)
    for value, taken in zip(found, rows, strict=True):
        p, q = taken[:30], taken[30:] - 30
        sample = (x[0][p], y[0][p], x[1][q], y[1][q]) if chosen.takes_x else (y[0][p], y[1][q])
        expected = float(getattr(condcs, measure)(*sample, **options, **widths))
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_rows_are_redrawn_within_groups():
    """With one distinct row in each group all redrawn samples are the same."""
    y = [("yp", np.zeros((5, 1))), ("yq", np.ones((7, 1)))]
    pool = TestedMeasure(MEASURES["cs"], {"bandwidth": 1.0}).pool([], y)
    values = Bootstrap(pool)(np.random.default_rng(0), 60)
    np.testing.assert_allclose(values, 1.0, rtol=1e-12)
