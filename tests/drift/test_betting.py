"""Ranks and bets: densities that integrate to one, exact ranks, and sums whose expectation is the number of bets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, kstest, norm

from condcs._tables.kinds import Column
from condcs.drift._betting import (
    LEVELS,
    bet,
    count_scores,
    label_belief,
    log_density,
    make_bets,
    no_sums,
    normal_score,
    overall_bets,
    to_level,
    uniform,
)
from condcs.drift._cells import CELL_ROWS, GATHERING_ROWS, MOST_CELLS, Cells, Regions


def test_normal_scores():
    p = np.concatenate([np.logspace(-12, -1, 200), np.linspace(0.1, 0.9, 200), 1 - np.logspace(-12, -1, 200)])
    np.testing.assert_allclose([normal_score(q) for q in p], ndtri(p), rtol=1e-6, atol=1e-6)


def regions_of(x):
    columns = (Column("a", "number"), Column("g", "category", ("u", "v", "w")), Column("b", "number"))
    return Regions.of(x, columns)


def example(n, rng):
    return np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.normal(size=n)]).astype(float)


def test_every_bet_is_a_density():
    """The mean of a bet under a standard normal z, by quadrature: on numbers, and on labels of any probability."""
    z = np.linspace(-40, 40, 20_001)
    bets = make_bets(np.array([0, 1, 6]), np.array([0, -1, -0.5, 0, 0.5, 1]), np.array([0.5, 0.5]), 1)
    logs = [[log_density(mean, deviation, value, 0.0) for mean, deviation in bets.overall] for value in z[::500]]
    np.testing.assert_allclose(np.stack([z**0, z, z**2], axis=1)[::500] @ overall_bets().T, logs, atol=1e-9)
    for mean, deviation in np.concatenate([bets.overall, bets.local, bets.patterns]):
        density = np.exp([log_density(mean, deviation, value, 0.0) for value in z])
        assert density @ norm.pdf(z) * (z[1] - z[0]) == pytest.approx(1.0, rel=1e-6)
        for chance in (0.02, 0.5, 0.9):
            for total, places in ((0, 1), (12, 13), (100, 101), (101, 100)):
                ranks = (np.arange(places) + 0.5) / places
                beliefs = [label_belief(rank, total, chance) for rank in ranks]
                density = np.exp([log_density(mean, deviation, belief, chance) for belief in beliefs])
                assert density.mean() == pytest.approx(1.0)


def test_random_numbers_of_rows_are_uniform_and_independent():
    """20,000 each, along rows and along places: a p-value below 1e-4 and a correlation of 4.2 standard errors."""
    for values in ([uniform(7, row, 3) for row in range(20_000)], [uniform(7, 3, place) for place in range(20_000)]):
        assert kstest(values, "uniform").pvalue > 1e-4
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4.2 / np.sqrt(20_000)
    assert uniform(8, 1, 3) != uniform(7, 1, 3) != uniform(7, 2, 3)


def test_weights_of_a_row_add_up_to_one():
    """All bets of a row, over all families: on all rows, on one region of each column, and on patterns."""
    regions = regions_of(example(500, np.random.default_rng(0)))
    assert regions.families.tolist() == [[-1, -1], [0, -1], [1, -1], [2, -1], [0, 2]]
    assert np.diff(regions.first).tolist() == [1, 5, 3, 5, 9]
    bets = make_bets(regions.first, regions.heights, regions.shares, 3)
    weights = bets.overall_weight * len(bets.overall) + bets.local_weights.sum() * len(bets.local)
    assert weights + bets.pattern_weights.sum() * len(bets.patterns) == pytest.approx(1.0)
    # No slopes where regions have no order; no local bets on pairs.
    assert bets.pattern_weights[2] == 0
    assert bets.local_weights[4] == 0
    np.testing.assert_allclose(regions.heights[-9:], [1, 0, -1, 0, 0, 0, -1, 0, 1])


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


def run(scores, cells, *, chance=0.0, inputs=None, known=None):
    """Two families: all rows, and two regions of one cell each."""
    n, s = scores.shape
    bets = make_bets(FIRST, np.array([0.0, -1.0, 1.0]), np.array([0.5, 0.5]), 1)
    deviations = np.full((3, 2), 0.0 if inputs is None else 1.0)
    limits = Cells(*np.zeros((3, 0)), deviations).limits
    sums, z = no_sums(s, deviations, bets), np.empty((n, s, 2))
    known = np.ones(n, bool) if known is None else known
    inputs = np.zeros((n, 2)) if inputs is None else inputs
    places, chances = (FIRST, deviations, limits), np.full((n, s), chance)
    bet(scores, chances, known, inputs, cells, cells, places, np.uint64(5), np.arange(n), bets, sums, z, np.inf)
    return z, sums, bets


@pytest.mark.parametrize("chance", [0.0, 0.3])
def test_ranks_and_sums_by_hand(chance):
    """Against plain loops over all rows seen before in the same cell; for numbers and for labels."""
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(60, 1)), 1)
    cells = np.column_stack([np.zeros(60, np.int64), 1 + rng.integers(0, 2, 60)])
    z, sums, bets = run(scores, cells, chance=chance)
    overall, local, patterns = (np.zeros(len(own)) for own in (bets.overall, bets.local, bets.patterns))
    levels = np.array([to_level(score) for score in scores[:, 0]])

    def grown(won, own, value, height=1):
        means, deviations = own.T * [[height], [1]]
        if chance:
            odds = np.exp(1.8 * means)
            return (won + 1) * (1 - value + value * odds) / (1 - chance + chance * odds)
        return (won + 1) * norm.pdf(value, means, deviations) / norm.pdf(value)

    for t in range(60):
        for family in (0, 1):
            before = levels[:t][cells[:t, family] == cells[t, family]]
            below, equal = np.sum(before < levels[t]), np.sum(before == levels[t])
            p = (below + uniform(5, t, 1024 + family) * (equal + 1)) / (len(before) + 1)
            belief = binom.cdf(np.floor(p * (len(before) + 1)), len(before) + 1, 1 - chance)
            assert z[t, 0, family] == pytest.approx(belief if chance else ndtri(p), abs=1e-5)
        first, second = z[t, 0]
        overall = grown(overall, bets.overall, first)
        if cells[t, 1] == 1:
            local = grown(local, bets.local, second)
        patterns = grown(patterns, bets.patterns, second, -1 if cells[t, 1] == 1 else 1)
    np.testing.assert_allclose(sums.overall[0], overall, rtol=1e-9)
    np.testing.assert_allclose(sums.local[0, 1], local, rtol=1e-9)
    np.testing.assert_allclose(sums.patterns[0, 1], patterns, rtol=1e-9)
    assert sums.won[0, 0] == pytest.approx(bets.overall_weight * overall.sum())
    won = bets.local_weights[1] * sums.local[0, 1:].sum() + bets.pattern_weights[1] * patterns.sum()
    assert sums.won[0, 1] == pytest.approx(won)


def test_ranks_of_exchangeable_scores_are_uniform_and_independent():
    """Also of rounded ones, by a random rank among ties, and of cells that forget when their inputs gather.

    4,000 ranks: a Kolmogorov-Smirnov p-value below 1e-4 and a correlation of neighbours above 4.2 standard errors have
    that probability.
    """
    rng = np.random.default_rng(1)
    gathered = np.where(np.arange(4000)[:, None] % 7 < 4, 0.01, 1.0) * rng.normal(size=(4000, 2))
    scores = rng.standard_cauchy(size=(4000, 1)), rng.integers(0, 3, size=(4000, 1)).astype(float)
    for own, inputs in ((scores[0], None), (scores[1], None), (scores[0], gathered)):
        cells = np.column_stack([np.zeros(4000, np.int64), 1 + rng.integers(0, 2, 4000)])
        z = run(own, cells, inputs=inputs)[0][:, 0]
        for family in (0, 1):
            assert kstest(z[:, family], "norm").pvalue > 1e-4
            assert abs(np.corrcoef(z[1:, family], z[:-1, family])[0, 1]) < 4.2 / np.sqrt(4000)


def test_a_cell_forgets_once_when_inputs_gather():
    """Four rows at nearly one place are not what a cell of unit deviations has; sixteen normal ones are."""
    rng = np.random.default_rng(4)
    cells = np.tile([0, 1], (40, 1))
    for spread, kept in ((1e-3, 40 - GATHERING_ROWS[0] + 1), (1.0, 40)):
        sums = run(rng.normal(size=(40, 1)), cells, inputs=spread * rng.normal(size=(40, 2)))[1]
        assert sums.totals[0].tolist() == [kept, kept, 0]
        assert sums.trees[0, 0, LEVELS] == kept


def test_expected_sums_are_the_number_of_bets():
    """The mean of a family's value after n rows is n: of the bounded bets, whose values have a finite variance.

    Over 4,000 streams of 5 rows the bet on narrow scores (s = 0.6) has a mean of 5 with a standard error below 0.15.
    """
    rng = np.random.default_rng(2)
    cells, scores = np.tile([0, 1], (5, 1)), rng.normal(size=(5, 4000))
    sums, bets = run(scores, cells)[1:]
    totals = sums.overall[:, np.flatnonzero(bets.overall[:, 1] == 0.6)[0]]
    assert np.mean(totals) == pytest.approx(5, abs=4 * np.std(totals) / np.sqrt(4000))
    assert np.std(totals) / np.sqrt(4000) < 0.15


def test_rows_that_are_not_known_are_not_bet_on():
    known = np.array([True, False, False, True])
    assert run(np.zeros((4, 1)), np.tile([0, 1], (4, 1)), known=known)[1].totals[0].tolist() == [2, 2, 0]


def test_counted_scores_are_ranked_among():
    trees, totals = np.zeros((1, 1, LEVELS + 1), np.int64), np.zeros((1, 1), np.int64)
    count_scores(np.array([[-1e9], [0.1], [0.1], [1e9]]), np.zeros((4, 1), np.int64), trees, totals)
    assert totals[0, 0] == 4
    assert trees[0, 0, LEVELS] == 4  # the last node of the tree counts all
