"""The level of a test is itself tested: 200 seeded runs, 99.9% binomial interval, for each null and kind of p(x)."""

import numpy as np
import pytest
from scipy.stats import binom

import condcs

pytestmark = pytest.mark.slow

RUNS, LEVEL, RESAMPLES = 200, 0.05, 99
LOW, HIGH = (int(v) for v in binom.interval(0.999, RUNS, LEVEL))


def sample(seed, *, x_shift, y_shift=0.0, n=80):
    rng = np.random.default_rng(seed)
    xp, xq = rng.normal(size=(n, 1)), rng.normal(x_shift, 1, size=(n, 1))
    yp, yq = (x + rng.normal(size=(n, 1)) for x in (xp, xq))
    return xp, yp, xq, yq + y_shift


def rejections(null, runs=RUNS, **options):
    pvalues = [
        condcs.conditional_test(*sample(seed, **options), null=null, n_resamples=RESAMPLES, rng=seed).pvalue
        for seed in range(runs)
    ]
    return sum(p <= LEVEL for p in pvalues)


@pytest.mark.parametrize("x_shift", [0.0, 0.7], ids=["same-x", "shifted-x"])
@pytest.mark.parametrize("null", ["propensity", "local"])
def test_level(null, x_shift):
    assert LOW <= rejections(null, x_shift=x_shift) <= HIGH


def test_permutation_is_exact_where_x_is_the_same():
    assert LOW <= rejections("permutation", x_shift=0.0) <= HIGH


def test_permutation_fails_where_x_has_shifted():
    """Documentation: it tests p(x, y), not p(y|x), and rejects a true hypothesis far too often."""
    assert rejections("permutation", x_shift=0.7) > 2 * HIGH


@pytest.mark.parametrize("null", ["propensity", "local"])
def test_power(null):
    """At y + 0.6, 150 + 150 rows, x shifted by 0.7: at least 0.9, minus nothing (100 seeded runs)."""
    assert rejections(null, runs=100, x_shift=0.7, y_shift=0.6, n=150) >= 90


def test_level_of_the_aggregate():
    pvalues = [
        condcs.conditional_test(
            *sample(seed, x_shift=0.7, n=50), bandwidth="aggregate", n_resamples=RESAMPLES, rng=seed
        ).pvalue
        for seed in range(RUNS)
    ]
    assert LOW <= sum(p <= LEVEL for p in pvalues) <= HIGH


@pytest.mark.parametrize("views", ["all", "measure"])
def test_level_where_only_the_correlation_of_inputs_differs(views):
    """Labels redrawn from an additive propensity rejected in every run."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(2, 100, 2))
        x[..., 1] = 0.4 * np.array([[-1], [1]]) * x[..., 0] + np.sqrt(1 - 0.4**2) * x[..., 1]
        y = x[..., 0] * x[..., 1] + 0.5 * rng.normal(size=(2, 100))
        options = {"views": views, "n_resamples": RESAMPLES, "rng": seed}
        rejected += condcs.conditional_test(x[0], y[0], x[1], y[1], **options).pvalue <= LEVEL
    assert rejected <= binom.ppf(0.999, 60, LEVEL)


@pytest.mark.parametrize("dependent", [False, True])
def test_conditional_independence(dependent):
    """Level with y and x2 both driven by x1; power with a direct link."""
    found = 0
    runs, n = (50, 150) if dependent else (RUNS, 80)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        x1, a, b = rng.normal(size=(3, n, 1))
        x2 = x1 + a
        y = x1 + b + (x2 if dependent else 0.0)
        found += condcs.independence_test(x2, y, given=x1, n_resamples=RESAMPLES, rng=seed).pvalue <= LEVEL
    if dependent:
        assert found >= 45
    else:
        assert LOW <= found <= HIGH


def test_level_where_x_and_y_jump_at_the_same_places():
    """The sign of a product of inputs decides how frequent rows are, and the mean of y: smooth fits rejected always."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(2, 200, 4))
        sign = np.where(rng.uniform(size=(2, 200)) < [[0.25], [0.75]], 1, -1)
        x[..., 1] = np.abs(x[..., 1]) * np.sign(x[..., 0]) * sign
        y = sign + 0.5 * rng.normal(size=(2, 200))
        rejected += condcs.conditional_test(x[0], y[0], x[1], y[1], n_resamples=RESAMPLES, rng=seed).pvalue <= LEVEL
    assert rejected <= binom.ppf(0.999, 60, LEVEL)


def test_level_where_codes_come_as_numbers():
    """Twenty codes, each with a mean of y, whose frequencies change; and x and y that both have a mean for each."""
    codes_only, given = 0, 0
    means = np.random.default_rng(0).normal(size=20)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        frequencies = np.where(means > 0, [[0.03], [0.07]], [[0.07], [0.03]])
        codes = np.stack([rng.choice(20, 200, p=p / p.sum()) for p in frequencies])
        x = np.stack([codes, rng.normal(size=(2, 200))], axis=2)
        y = means[codes] + x[..., 1] + 0.5 * rng.normal(size=(2, 200))
        options = {"n_resamples": RESAMPLES, "rng": seed}
        codes_only += condcs.conditional_test(x[0], y[0], x[1], y[1], **options).pvalue <= LEVEL
        other = means[codes[0]] + 0.5 * rng.normal(size=200)
        given += condcs.independence_test(other, y[0], given=x[0], **options).pvalue <= LEVEL
    assert max(codes_only, given) <= binom.ppf(0.999, 60, LEVEL)
