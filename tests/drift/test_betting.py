"""Ranks and bets: densities that integrate to one, exact ranks, and sums whose expectation is the number of bets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest, norm

from condcs._tables.kinds import Column
from condcs.drift._betting import (
    LEVELS,
    bet,
    bet_kinds,
    count_scores,
    make_bets,
    no_sums,
    normal_score,
    to_level,
)
from condcs.drift._cells import CELL_ROWS, MOST_CELLS, Cells, Regions


def test_normal_scores():
    p = np.concatenate([np.logspace(-12, -1, 200), np.linspace(0.1, 0.9, 200), 1 - np.logspace(-12, -1, 200)])
    np.testing.assert_allclose([normal_score(q) for q in p], ndtri(p), rtol=1e-6, atol=1e-6)


def regions_of(x):
    columns = (Column("a", "number"), Column("g", "category", ("u", "v", "w")), Column("b", "number"))
    return Regions.of(x, columns)


def example(n, rng):
    return np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.normal(size=n)]).astype(float)


def test_every_bet_is_a_density():
    """The mean of exp(a + b z + c z^2) under a standard normal z, by quadrature."""
    z = np.linspace(-40, 40, 200_001)
    bets = make_bets(np.array([0, 1, 6]), np.array([0, -1, -0.5, 0, 0.5, 1]), np.array([0.5, 0.5]), 1)
    means = bets.means[:, None]
    patterns = np.concatenate([-0.5 * means**2, means, 0 * means], axis=1)
    for a, b, c in np.concatenate([bets.overall, bets.local, patterns]):
        total = np.exp(a + b * z + c * z**2 + norm.logpdf(z)).sum() * (z[1] - z[0])
        assert total == pytest.approx(1.0, rel=1e-6)


def test_weights_of_a_row_add_up_to_one():
    """All bets of a row, over all families: on all rows, on one region of each column, and on patterns."""
    regions = regions_of(example(500, np.random.default_rng(0)))
    assert regions.families.tolist() == [[-1, -1], [0, -1], [1, -1], [2, -1], [0, 2]]
    assert np.diff(regions.first).tolist() == [1, 5, 3, 5, 9]
    bets = make_bets(regions.first, regions.heights, regions.shares, 3)
    weights = bets.overall_weight * len(bets.overall) + bets.local_weights.sum() * len(bets.local)
    assert weights + bets.pattern_weights.sum() * len(bets.means) == pytest.approx(1.0)
    # No slopes where regions have no order; no local bets on pairs.
    assert bets.pattern_weights[2] == 0
    assert bets.local_weights[4] == 0
    np.testing.assert_allclose(regions.heights[-9:], [1, 0, -1, 0, 0, 0, -1, 0, 1])
    assert len(bet_kinds().overall) == len(bets.overall)


def test_cells_divide_every_region():
    """Every row is in one cell of each family; a cell lies within a region and has rows enough."""
    rng = np.random.default_rng(3)
    x = example(600, rng)
    regions = regions_of(x)
    places = regions.locate(x)
    inputs = np.column_stack([x[:, 0], x[:, [1]] == np.arange(3), x[:, 2]]).astype(float)
    cells = Cells.of(inputs, inputs, places, int(regions.first[-1]))
    found = cells.locate(inputs, places)
    counts = np.bincount(found.ravel(), minlength=cells.total)
    assert counts.min() >= CELL_ROWS
    assert counts.sum() == found.size
    for family in range(found.shape[1]):
        owners = {(cell, region) for cell, region in zip(found[:, family], places[:, family], strict=True)}
        assert len(owners) == len(set(found[:, family])) <= MOST_CELLS
    cells.check(inputs.shape[1], int(regions.first[-1]))
    with pytest.raises(ValueError, match="trees"):
        cells._replace(children=cells.children[::-1].copy()).check(inputs.shape[1], int(regions.first[-1]))


FIRST = np.array([0, 1, 3])


def run(scores, cells, uniforms, threshold=np.inf):
    """Two families: all rows, and two regions of one cell each."""
    n, s = scores.shape
    bets = make_bets(FIRST, np.array([0.0, -1.0, 1.0]), np.array([0.5, 0.5]), 1)
    sums = no_sums(s, 3, bets)
    z = np.empty((n, s, 2))
    taken = bet(scores, np.ones(n, bool), cells, cells, uniforms, FIRST, bets, sums, z, threshold)
    return z, sums, taken, bets


def test_ranks_and_sums_by_hand():
    """Against plain loops over all rows seen before in the same cell."""
    rng = np.random.default_rng(0)
    scores, uniforms = np.round(rng.normal(size=(60, 1)), 1), rng.random((60, 1, 2))
    cells = np.column_stack([np.zeros(60, np.int64), 1 + rng.integers(0, 2, 60)])
    z, sums, taken, bets = run(scores, cells, uniforms)
    assert taken == 60
    overall, local, patterns = np.zeros(len(bets.overall)), np.zeros(len(bets.local)), np.zeros(len(bets.means))
    levels = np.array([to_level(score) for score in scores[:, 0]])
    for t in range(60):
        for family in (0, 1):
            before = levels[:t][cells[:t, family] == cells[t, family]]
            below, equal = np.sum(before < levels[t]), np.sum(before == levels[t])
            p = (below + uniforms[t, 0, family] * (equal + 1)) / (len(before) + 1)
            assert z[t, 0, family] == pytest.approx(ndtri(p), abs=1e-5)
        first, second = z[t, 0]
        overall = (overall + 1) * np.exp(bets.overall @ [1, first, first**2])
        if cells[t, 1] == 1:
            local = (local + 1) * np.exp(bets.local @ [1, second, second**2])
        means = bets.means * (-1 if cells[t, 1] == 1 else 1)
        patterns = (patterns + 1) * np.exp(means * second - 0.5 * means**2)
    np.testing.assert_allclose(sums.overall[0], overall, rtol=1e-9)
    np.testing.assert_allclose(sums.local[0, 1], local, rtol=1e-9)
    np.testing.assert_allclose(sums.patterns[0, 1], patterns, rtol=1e-9)
    assert sums.won[0, 0] == pytest.approx(bets.overall_weight * overall.sum())
    won = bets.local_weights[1] * sums.local[0, 1:].sum() + bets.pattern_weights[1] * patterns.sum()
    assert sums.won[0, 1] == pytest.approx(won)


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
    narrow = np.flatnonzero(bet_kinds().overall == 1)[1]
    cells = np.tile([0, 1], (5, 1))
    for _ in range(4000):
        sums = run(rng.normal(size=(5, 1)), cells, rng.random((5, 1, 2)))[1]
        totals.append(sums.overall[0, narrow])
    assert np.mean(totals) == pytest.approx(5, abs=4 * np.std(totals) / np.sqrt(4000))
    assert np.std(totals) / np.sqrt(4000) < 0.15


def test_rows_that_are_not_known_are_not_bet_on():
    bets = make_bets(FIRST, np.array([0.0, -1.0, 1.0]), np.array([0.5, 0.5]), 1)
    sums = no_sums(1, 3, bets)
    cells, z = np.tile([0, 1], (4, 1)), np.empty((4, 1, 2))
    known = np.array([True, False, False, True])
    bet(np.zeros((4, 1)), known, cells, cells, np.full((4, 1, 2), 0.5), FIRST, bets, sums, z, np.inf)
    assert sums.totals[0].tolist() == [2, 2, 0]


def test_counted_scores_are_ranked_among():
    trees, totals = np.zeros((1, 1, LEVELS + 1), np.int64), np.zeros((1, 1), np.int64)
    count_scores(np.array([[-1e9], [0.1], [0.1], [1e9]]), np.zeros((4, 1), np.int64), trees, totals)
    assert totals[0, 0] == 4
    assert trees[0, 0, LEVELS] == 4  # the last node of the tree counts all
