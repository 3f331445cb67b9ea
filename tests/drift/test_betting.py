"""Ranks and bets: densities that integrate to one, exact ranks, and sums whose expectation is the number of bets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest, norm

from condcs._core.compiling import njit
from condcs._tables.kinds import Column
from condcs.drift._betting import (
    EPOCHS,
    LEVELS,
    bet,
    count_scores,
    density,
    label_belief,
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
    """The mean of a bet under its hypothesis, by quadrature: on numbers, on labels of any share, and of faded ones."""
    z, ranks = np.linspace(-40, 40, 20_001), (np.arange(5000) + 0.5) / 5000
    bets = make_bets(np.array([0, 1, 6]), np.array([0, -1, -0.5, 0, 0.5, 1]), np.array([0.5, 0.5]), 1)
    values = [[density(mean, deviation, value, 0.0, 9, 1.0) for mean, deviation in bets.overall] for value in z[::500]]
    logs = np.stack([z**0, z, z**2], axis=1)[::500] @ overall_bets().T
    np.testing.assert_allclose(np.log(np.maximum(values, 1e-300)), np.maximum(logs, np.log(1e-300)), atol=1e-9)
    for mean, deviation in np.concatenate([bets.overall, bets.local, bets.patterns]):
        for fade in (1.0, 0.4):
            own = [density(mean, deviation, value, 0.0, 9, fade) for value in z]
            assert own @ norm.pdf(z) * (z[1] - z[0]) == pytest.approx(1.0, rel=1e-6)
            for chance, total in ((0.02, 0), (0.02, 1000), (0.5, 12), (0.9, 100)):
                own = [density(mean, deviation, rank, chance, total, fade) for rank in ranks]
                assert np.mean(own) == pytest.approx(1.0, abs=1e-4)


def test_what_a_rank_says_of_a_label():
    """The lowest and the highest rank say all; on average it is the share; the more rows, the narrower the ramp."""
    ranks = (np.arange(5000) + 0.5) / 5000
    for chance in (0.05, 0.3, 0.8):
        widths = []
        for total in (5, 50, 5000):
            beliefs = np.array([label_belief(rank, total, chance) for rank in ranks])
            assert beliefs.mean() == pytest.approx(chance, abs=1e-6)
            assert (np.diff(beliefs) >= 0).all()
            widths.append(np.mean((beliefs > 0) & (beliefs < 1)))
        assert beliefs[0] == 0
        assert beliefs[-1] == 1
        assert widths[0] >= widths[1] > widths[2]


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
    for kind in (0, 1):  # labels have no bets on spread
        overall, local, patterns = (
            np.sum((own[:, 1] == 1) | (kind == 0)) for own in (bets.overall, bets.local, bets.patterns)
        )
        weights = bets.local_weights[kind, 0] * overall + bets.local_weights[kind, 1:].sum() * local
        assert weights + bets.pattern_weights[kind].sum() * patterns == pytest.approx(1.0)
        # No slopes where regions have no order; no local bets on pairs.
        assert bets.pattern_weights[kind, 2] == 0
        assert bets.local_weights[kind, 4] == 0
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


@njit(nogil=True)
def taken(scores, chances, known, inputs, cells, regions, places, key, numbers, bets, sums, ranked, threshold):
    """Call `bet`, which only compiled functions can call."""
    return bet(scores, chances, known, inputs, cells, regions, places, key, numbers, bets, sums, ranked, threshold)


def run(scores, cells, *, chance=0.0, inputs=None, known=None):
    """Two families: all rows, and two regions of one cell each."""
    n, s = scores.shape
    bets = make_bets(FIRST, np.array([0.0, -1.0, 1.0]), np.array([0.5, 0.5]), 1)
    deviations = np.full((3, 2), 0.0 if inputs is None else 1.0)
    limits = Cells(*np.zeros((3, 0)), deviations).limits
    sums, z = no_sums(s, deviations, bets), np.empty((n, s, 2))
    known = np.ones(n, bool) if known is None else known
    inputs = np.zeros((n, 2)) if inputs is None else inputs
    places, chances = (FIRST, deviations, limits), np.full((s, 3), chance)
    taken(scores, chances, known, inputs, cells, cells, places, np.uint64(5), np.arange(n), bets, sums, z, np.inf)
    return z, sums, bets


@pytest.mark.parametrize("chance", [0.0, 0.3])
def test_ranks_and_sums_by_hand(chance):
    """Against plain loops over all rows seen before in the same cell; for numbers and for labels.

    Without a reference, epochs begin with rows 0, 1, 2, 4, 8 and so on: the last two of 60 rows with 16 and 32. Bets
    that do not fade are on beginnings in all rows.
    """
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(60, 1)), 1)
    cells = np.column_stack([np.zeros(60, np.int64), 1 + rng.integers(0, 2, 60)])
    z, sums, bets = run(scores, cells, chance=chance)
    levels = np.array([to_level(score) for score in scores[:, 0]])
    begins = (16, 32, 0)
    overall, local, patterns = (
        {begin: np.zeros(len(own)) for begin in begins} for own in (bets.overall, bets.local, bets.patterns)
    )

    def grow(won, own, t, family, height=1):
        others = np.flatnonzero(cells[:t, family] == cells[t, family])
        for begin in begins:
            if t < begin:
                continue
            fade = np.mean(others < begin) if begin else float(len(others) > 0)
            for j, (mean, deviation) in enumerate(own):
                new = 0.5 if begin != 16 or t < 32 else 0
                value = z[t, 0, family]
                if not chance:
                    by = norm.pdf(value, fade * height * mean, 1 + fade * (deviation - 1)) / norm.pdf(value)
                elif deviation == 1:
                    after = chance * np.exp(1.8 * height * mean)
                    after /= 1 - chance + after
                    mixed = fade * chance + (1 - fade) * after
                    belief = label_belief(value, len(others), mixed)
                    by = belief * after / mixed + (1 - belief) * (1 - after) / (1 - mixed)
                else:
                    by, new = 1, 0
                won[begin][j] = (won[begin][j] + new) * by

    for t in range(60):
        for family in (0, 1):
            before = levels[:t][cells[:t, family] == cells[t, family]]
            below, equal = np.sum(before < levels[t]), np.sum(before == levels[t])
            p = (below + uniform(5, t, 1024 + family) * (equal + 1)) / (len(before) + 1)
            assert z[t, 0, family] == pytest.approx(p if chance else ndtri(p), abs=1e-5)
        grow(overall, bets.overall, t, 0)
        if cells[t, 1] == 1:
            grow(local, bets.local, t, 1)
        grow(patterns, bets.patterns, t, 1, -1 if cells[t, 1] == 1 else 1)
    slots = [(sums.clock[2] - 1) % EPOCHS, sums.clock[2] % EPOCHS, EPOCHS]
    assert sums.clock[:2].tolist() == [60, 32]
    np.testing.assert_allclose(sums.local[0, 0, slots], list(overall.values()), rtol=1e-6)
    np.testing.assert_allclose(sums.local[0, 1, slots, : len(bets.local)], list(local.values()), rtol=1e-6)
    np.testing.assert_allclose(sums.patterns[0, 1, slots], list(patterns.values()), rtol=1e-6)
    kind = int(chance > 0)
    assert sums.won[0, 0] == pytest.approx(bets.local_weights[kind, 0] * sums.local[0, 0].sum())
    won = bets.local_weights[kind, 1] * sums.local[0, 1:].sum() + bets.pattern_weights[kind, 1] * sums.patterns[0].sum()
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
        assert sums.totals.tolist() == [kept, kept, 0]
        assert sums.trees[0, 0, LEVELS] == kept


def test_expected_sums_are_the_number_of_bets():
    """The mean of a bet's sums is half the number of rows, and half that of the epochs that go on: of a bounded bet.

    Of 7 rows without a reference two were epochs that have ended. Over 4,000 streams the bet on narrow scores (s = 0.6)
    has a mean of 6 with a standard error below 0.15.
    """
    rng = np.random.default_rng(2)
    cells, scores = np.tile([0, 1], (7, 1)), rng.normal(size=(7, 4000))
    sums, bets = run(scores, cells)[1:]
    totals = sums.local[:, 0, :, np.flatnonzero(bets.overall[:, 1] == 0.6)[0]].sum(axis=1)
    assert np.mean(totals) == pytest.approx(6, abs=4 * np.std(totals) / np.sqrt(4000))
    assert np.std(totals) / np.sqrt(4000) < 0.15


def test_rows_that_are_not_known_are_not_bet_on():
    known = np.array([True, False, False, True])
    assert run(np.zeros((4, 1)), np.tile([0, 1], (4, 1)), known=known)[1].totals.tolist() == [2, 2, 0]


def test_counted_scores_are_ranked_among():
    trees, totals = np.zeros((1, 1, LEVELS + 1), np.int64), np.zeros(1, np.int64)
    count_scores(np.array([[-1e9], [0.1], [0.1], [1e9]]), np.zeros((4, 1), np.int64), trees, totals)
    assert totals[0] == 4
    assert trees[0, 0, LEVELS] == 4  # the last node of the tree counts all
