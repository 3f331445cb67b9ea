"""Ranks and bets: densities that integrate to one, exact ranks, and sums whose expectation is the number of bets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest, norm

from condcs.drift._betting import LEVELS, _normal_score, bet, count_levels, make_bets, to_levels


def test_normal_scores():
    p = np.concatenate([np.logspace(-12, -1, 200), np.linspace(0.1, 0.9, 200), 1 - np.logspace(-12, -1, 200)])
    np.testing.assert_allclose([_normal_score(q) for q in p], ndtri(p), rtol=1e-6, atol=1e-6)


def test_every_bet_is_a_density():
    """The mean of exp(a + b z + c z^2) under a standard normal z, by quadrature."""
    z = np.linspace(-40, 40, 200_001)
    bets = make_bets([1, 5, 3], [False, True, False])
    for a, b, c in np.concatenate([bets.shared[np.isfinite(bets.shared[..., 0])], bets.local]):
        total = np.exp(a + b * z + c * z**2 + norm.logpdf(z)).sum() * (z[1] - z[0])
        assert total == pytest.approx(1.0, rel=1e-6)
    weights = bets.shared_weights.sum(axis=1) + bets.local_weights.sum(axis=1)
    np.testing.assert_allclose(weights, 1.0)
    # No slopes where cells have no order, and no local bets where there is one cell.
    assert np.isnan(bets.shared[2][bets.kinds == 2]).all()
    assert bets.local_weights[0].sum() == 0


def run(scores, cells, uniforms, threshold=np.inf, sizes=(1, 2)):
    n, s = scores.shape
    bets, first = make_bets(list(sizes), [False, True]), np.array([0, sizes[0]])
    trees, totals = np.zeros((s, sum(sizes), LEVELS + 1), np.int64), np.zeros((s, sum(sizes)), np.int64)
    shared, local = np.zeros((s, 2, len(bets.kinds))), np.zeros((s, sum(sizes), len(bets.local)))
    z, values = np.empty((n, s, 2)), np.zeros((s, 2))
    tables = bets.shared, bets.shared_weights, bets.local, bets.local_weights
    taken = bet(to_levels(scores), cells, uniforms, first, trees, totals, *tables, shared, local, z, values, threshold)
    return z, shared, local, values, taken, bets


def test_ranks_and_sums_by_hand():
    """Against plain loops over all rows seen before in the same cell."""
    rng = np.random.default_rng(0)
    scores, uniforms = np.round(rng.normal(size=(60, 1)), 1), rng.random((60, 1, 2))
    cells = np.column_stack([np.zeros(60, np.int64), 1 + rng.integers(0, 2, 60)])
    z, shared, local, values, taken, bets = run(scores, cells, uniforms)
    assert taken == 60
    sums, locals_ = np.zeros(len(bets.kinds)), np.zeros(len(bets.local))
    levels = to_levels(scores)[:, 0]
    for t in range(60):
        before = levels[:t][cells[:t, 1] == cells[t, 1]]
        below, equal = np.sum(before < levels[t]), np.sum(before == levels[t])
        p = (below + uniforms[t, 0, 1] * (equal + 1)) / (len(before) + 1)
        assert z[t, 0, 1] == pytest.approx(ndtri(p), abs=1e-5)
        own = bets.shared[1, :, cells[t, 1] - 1]
        awake = np.isfinite(own[:, 0])
        factors = np.exp(own[awake] @ np.array([1, z[t, 0, 1], z[t, 0, 1] ** 2]))
        sums[awake] = (sums[awake] + 1) * factors
        if cells[t, 1] == 1:
            locals_ = (locals_ + 1) * np.exp(bets.local @ np.array([1, z[t, 0, 1], z[t, 0, 1] ** 2]))
    np.testing.assert_allclose(shared[0, 1], sums, rtol=1e-9)
    np.testing.assert_allclose(local[0, 1], locals_, rtol=1e-9)
    assert values[0, 1] == pytest.approx(bets.shared_weights[1] @ sums + (local[0, 1:] @ bets.local_weights[1]).sum())


def test_ranks_of_exchangeable_scores_are_uniform_and_independent():
    """Also of rounded ones, by a random rank among ties: Kolmogorov-Smirnov, and correlations of neighbours.

    4,000 ranks: a p-value below 1e-4 and a correlation above 4.2 standard errors have that probability.
    """
    rng = np.random.default_rng(1)
    for scores in (rng.standard_cauchy(size=(4000, 1)), rng.integers(0, 3, size=(4000, 1)).astype(float)):
        cells = np.column_stack([np.zeros(4000, np.int64), 1 + rng.integers(0, 2, 4000)])
        z = run(scores, cells, rng.random((4000, 1, 2)))[0][:, 0]
        for family in (0, 1):
            assert kstest(z[:, family], "norm").pvalue > 1e-4
            assert abs(np.corrcoef(z[1:, family], z[:-1, family])[0, 1]) < 4.2 / np.sqrt(4000)


def test_expected_sums_are_the_number_of_bets():
    """The mean of a family's value after n rows is n: of the bounded bets, whose values have a finite variance.

    Over 4,000 streams of 5 rows the bet on narrow scores (s = 0.6) has a mean of 5 with a standard error below 0.15.
    """
    rng = np.random.default_rng(2)
    totals = []
    for _ in range(4000):
        cells = np.zeros((5, 2), np.int64)
        cells[:, 1] = 1
        _, shared, _, _, _, bets = run(rng.normal(size=(5, 1)), cells, rng.random((5, 1, 2)))
        narrow = np.flatnonzero(bets.kinds == 1)[1]
        totals.append(shared[0, 0, narrow])
    assert np.mean(totals) == pytest.approx(5, abs=4 * np.std(totals) / np.sqrt(4000))
    assert np.std(totals) / np.sqrt(4000) < 0.15


def test_counted_levels_are_ranked_among():
    trees, totals = np.zeros((1, 1, LEVELS + 1), np.int64), np.zeros((1, 1), np.int64)
    levels = np.array([[0], [5], [5], [LEVELS - 1]])
    count_levels(levels, np.zeros((4, 1), np.int64), trees, totals)
    assert totals[0, 0] == 4
    assert trees[0, 0, LEVELS] == 4  # the last node of the tree counts all
