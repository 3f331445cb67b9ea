"""Ranks and bets: densities that integrate to one, exact ranks, and sums whose expectation is the number of bets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import kstest, norm

from condcs._core.compiling import njit
from condcs._core.errors import ShapeError
from condcs._tables.kinds import Column
from condcs.drift._betting import (
    DRAWS,
    EPOCHS,
    LABEL_DRAWS,
    SCORE_LEVELS,
    CellGeometry,
    RankedScore,
    RowBatch,
    bet_factor,
    bet_on_row,
    check_draws,
    count_scores,
    label_belief,
    make_bets,
    no_sums,
    normal_score,
    overall_bets,
    to_level,
    uniform,
)
from condcs.drift._cells import FEWEST_CELL_ROWS, GATHERING_ROWS, MOST_CELLS, CellTree, Regions


def callable_from_python(function):
    """A way from Python to a function that only compiled ones call."""
    return njit(nogil=True)(lambda *arguments: function(*arguments))


score_of_rank, level_of, belief_of, random_number = map(
    callable_from_python, (normal_score, to_level, label_belief, uniform)
)


def test_normal_scores():
    p = np.concatenate([np.logspace(-12, -1, 200), np.linspace(0.1, 0.9, 200), 1 - np.logspace(-12, -1, 200)])
    np.testing.assert_allclose([score_of_rank(q) for q in p], ndtri(p), rtol=1e-6, atol=1e-6)


def regions_of(x):
    columns = (Column("a", "number"), Column("g", "category", ("u", "v", "w")), Column("b", "number"))
    return Regions.of(x, columns)


def example(n, rng):
    return np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.normal(size=n)]).astype(float)


@njit(nogil=True)
def factor_of(mean, deviation, value, is_label, chance, total, fade):
    """Call `bet_factor`, which only compiled functions can call."""
    return bet_factor(mean, deviation, RankedScore(value, is_label, chance, total, np.empty(0)), fade)


def test_every_bet_is_a_density():
    """The mean of a bet under its hypothesis, by quadrature: on numbers, on labels of any share, and of faded ones."""
    z, ranks = np.linspace(-40, 40, 20_001), (np.arange(5000) + 0.5) / 5000
    bets = make_bets(regions_of(example(500, np.random.default_rng(0))))
    values = [
        [factor_of(mean, deviation, value, False, 0.0, 9, 1.0) for mean, deviation in bets.regions[0]]
        for value in z[::500]
    ]
    logs = np.stack([z**0, z, z**2], axis=1)[::500] @ overall_bets().T
    np.testing.assert_allclose(np.log(np.maximum(values, 1e-300)), np.maximum(logs, np.log(1e-300)), atol=1e-9)
    for mean, deviation in np.unique(np.vstack([*bets.regions, *bets.patterns]), axis=0):
        for fade in (1.0, 0.4):
            factors = [factor_of(mean, deviation, value, False, 0.0, 9, fade) for value in z]
            assert factors @ norm.pdf(z) * (z[1] - z[0]) == pytest.approx(1.0, rel=1e-6)
            for chance, total in ((0.02, 0), (0.02, 1000), (0.5, 12), (0.9, 100)):
                factors = [factor_of(mean, deviation, rank, True, chance, total, fade) for rank in ranks]
                assert np.mean(factors) == pytest.approx(1.0, abs=1e-4)


def test_what_a_rank_says_of_a_label():
    """The lowest and the highest rank say all; on average it is the share; the more rows, the narrower the ramp."""
    ranks = (np.arange(5000) + 0.5) / 5000
    for chance in (0.05, 0.3, 0.8):
        widths = []
        for total in (5, 50, 5000):
            beliefs = np.array([belief_of(rank, total, chance) for rank in ranks])
            assert beliefs.mean() == pytest.approx(chance, abs=1e-6)
            assert (np.diff(beliefs) >= 0).all()
            widths.append(np.mean((beliefs > 0) & (beliefs < 1)))
        assert beliefs[0] == 0
        assert beliefs[-1] == 1
        assert widths[0] >= widths[1] > widths[2]


def test_random_numbers_of_rows_are_uniform_and_independent():
    """20,000 each, along rows and along places: a p-value below 1e-4 and a correlation of 4.2 standard errors."""
    for values in (
        [random_number(7, row, 3) for row in range(20_000)],
        [random_number(7, 3, place) for place in range(20_000)],
    ):
        assert kstest(values, "uniform").pvalue > 1e-4
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4.2 / np.sqrt(20_000)
    assert random_number(8, 1, 3) != random_number(7, 1, 3) != random_number(7, 2, 3)


def test_more_ranks_than_random_numbers_are_refused():
    """With more, the numbers of ties would be those of labels, or of the next row."""
    check_draws(LABEL_DRAWS, DRAWS - LABEL_DRAWS)
    with pytest.raises(ShapeError, match="labels of `y_ref` must be at most 1,024, got 1,025"):
        check_draws(LABEL_DRAWS + 1, 1)
    with pytest.raises(
        ShapeError, match="times families of regions of `x_ref` must be at most 1,047,552, got 1,047,553"
    ):
        check_draws(1, DRAWS - LABEL_DRAWS + 1)


def test_weights_of_a_row_add_up_to_one():
    """All bets of a row, over all families: on all rows, on one region of each column, and on patterns."""
    regions = regions_of(example(500, np.random.default_rng(0)))
    assert regions.arrays.families.tolist() == [[-1, -1], [0, -1], [1, -1], [2, -1], [0, 2]]
    assert np.diff(regions.first_regions).tolist() == [1, 5, 3, 5, 9]
    bets = make_bets(regions)
    rng = np.random.default_rng(1)
    for is_label in (0, 1):  # labels have no bets on spread
        total = np.zeros(200)
        for row, located in enumerate(regions.locate(example(200, rng))):
            for f, region in enumerate(located):
                for weights, table in (
                    (bets.region_weights, bets.regions[region]),
                    (bets.pattern_weights, bets.patterns[region]),
                ):
                    is_awake = (table[:, 0] != 0) | (table[:, 1] != 1)
                    total[row] += weights[is_label, f] * np.sum(is_awake & ((table[:, 1] == 1) | (is_label == 0)))
        # Rows in the middle of a column or pair, where patterns are asleep, have less.
        assert total.max() == pytest.approx(1.0)
        # No slopes where regions have no order; no bets on single regions of pairs.
        assert bets.pattern_weights[is_label, 2] == 0
        assert bets.region_weights[is_label, 4] == 0
    heights = bets.patterns[-9:, 0, 0] / bets.patterns[-9, 0, 0]
    np.testing.assert_allclose(heights, [1, 0, -1, 0, 0, 0, -1, 0, 1])


def test_cells_divide_every_region():
    """Every row is in one cell of each family; a cell lies within a region and has rows enough."""
    rng = np.random.default_rng(3)
    x = example(600, rng)
    regions = regions_of(x)
    places = regions.locate(x)
    inputs = np.column_stack([x[:, 0], x[:, [1]] == np.arange(3), x[:, 2]]).astype(float)
    cells = CellTree.of(inputs, inputs, places, int(regions.first_regions[-1]))
    found = cells.locate(inputs, places)
    counts = np.bincount(found.ravel(), minlength=cells.n_cells)
    assert counts.min() >= FEWEST_CELL_ROWS
    assert counts.sum() == found.size
    for family in range(found.shape[1]):
        owners = {(cell, region) for cell, region in zip(found[:, family], places[:, family], strict=True)}
        assert len(owners) == len(set(found[:, family])) <= MOST_CELLS
    cells.check(inputs.shape[1], int(regions.first_regions[-1]))
    with pytest.raises(ValueError, match="trees"):
        cells._replace(children=cells.children[::-1].copy()).check(inputs.shape[1], int(regions.first_regions[-1]))


@njit(nogil=True)
def bet_on_rows(batch, is_known, geometry, bets, key, sums, outcomes):
    """Call `bet_on_row`, which only compiled functions can call."""
    for t in range(len(batch.scores)):
        if is_known[t]:
            bet_on_row(batch, t, geometry, bets, key, sums, outcomes[t])


def run(scores, cells, *, chance=0.0, inputs=None, is_known=None):
    """Two families: all rows, and the two halves of a column, each of one cell. Return outcomes, sums and bets."""
    n, s = scores.shape
    regions = Regions((Column("a", "number"),), np.array([[[0.0, *[np.inf] * 3]], [[np.inf] * 4]]))
    assert regions.first_regions.tolist() == [0, 1, 3]
    bets = make_bets(regions)
    deviations = np.full((3, 2), 0.0 if inputs is None else 1.0)
    limits = CellTree(*np.zeros((3, 0)), deviations).limits
    geometry = CellGeometry(deviations, limits, np.full(s, chance > 0), np.full((s, 3), chance))
    sums, outcomes = no_sums(s, 3, 2, bets), np.empty((n, s, 2))
    is_known = np.ones(n, bool) if is_known is None else is_known
    inputs = np.zeros((n, 2)) if inputs is None else inputs
    batch = RowBatch(scores, inputs, cells, cells, np.arange(n))
    bet_on_rows(batch, is_known, geometry, bets, np.uint64(5), sums, outcomes)
    return outcomes, sums, bets


@pytest.mark.parametrize("chance", [0.0, 0.3])
def test_ranks_and_sums_by_hand(chance):
    """Against plain loops over all rows seen before in the same cell; for numbers and for labels.

    Without a reference, epochs begin with rows 0, 1, 2, 4, 8 and so on: the last two of 60 rows with 16 and 32. Bets
    that do not fade are on beginnings in all rows.
    """
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(60, 1)), 1)
    cells = np.column_stack([np.zeros(60, np.int64), 1 + rng.integers(0, 2, 60)])
    outcomes, sums, bets = run(scores, cells, chance=chance)
    levels = np.array([level_of(score) for score in scores[:, 0]])
    begins = (16, 32, 0)
    tables = {"all rows": bets.regions[0], "low": bets.regions[1], "slope": bets.patterns[2]}
    won = {name: {begin: np.zeros(len(table)) for begin in begins} for name, table in tables.items()}

    def grow(name, t, family, height=1):
        others = np.flatnonzero(cells[:t, family] == cells[t, family])
        for begin in begins:
            if t < begin:
                continue
            fade = np.mean(others < begin) if begin else float(len(others) > 0)
            for j, (mean, deviation) in enumerate(tables[name]):
                new = 0.5 if begin != 16 or t < 32 else 0
                value = outcomes[t, 0, family]
                if not chance:
                    factor = norm.pdf(value, fade * height * mean, 1 + fade * (deviation - 1)) / norm.pdf(value)
                elif deviation == 1:
                    after = chance * np.exp(1.8 * height * mean)
                    after /= 1 - chance + after
                    mixed = fade * chance + (1 - fade) * after
                    belief = belief_of(value, len(others), mixed)
                    factor = belief * after / mixed + (1 - belief) * (1 - after) / (1 - mixed)
                else:
                    factor, new = 1, 0
                if (mean, deviation) == (0, 1):
                    factor, new = 1, 0  # asleep
                won[name][begin][j] = (won[name][begin][j] + new) * factor

    for t in range(60):
        for family in (0, 1):
            earlier = levels[:t][cells[:t, family] == cells[t, family]]
            below, equal = np.sum(earlier < levels[t]), np.sum(earlier == levels[t])
            p = (below + random_number(5, t, 1024 + family) * (equal + 1)) / (len(earlier) + 1)
            assert outcomes[t, 0, family] == pytest.approx(p if chance else ndtri(p), abs=1e-5)
        grow("all rows", t, 0)
        if cells[t, 1] == 1:
            grow("low", t, 1)
        grow("slope", t, 1, -1 if cells[t, 1] == 1 else 1)
    slots = [(sums.clock[2] - 1) % EPOCHS, sums.clock[2] % EPOCHS, EPOCHS]
    assert sums.clock[:2].tolist() == [60, 32]
    np.testing.assert_allclose(sums.regions[0, 0, slots], list(won["all rows"].values()), rtol=1e-6)
    np.testing.assert_allclose(sums.regions[0, 1, slots], list(won["low"].values()), rtol=1e-6)
    np.testing.assert_allclose(sums.patterns[0, 1, slots], list(won["slope"].values()), rtol=1e-6)
    kind = int(chance > 0)
    assert sums.values[0, 0] == pytest.approx(bets.region_weights[kind, 0] * sums.regions[0, 0].sum())
    value = (
        bets.region_weights[kind, 1] * sums.regions[0, 1:].sum()
        + bets.pattern_weights[kind, 1] * sums.patterns[0].sum()
    )
    assert sums.values[0, 1] == pytest.approx(value)


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
        assert sums.trees[0, 0, SCORE_LEVELS] == kept


def test_expected_sums_are_the_number_of_bets():
    """The mean of a bet's sums is half the number of rows, and half that of the epochs that go on: of a bounded bet.

    Of 7 rows without a reference two were epochs that have ended. Over 4,000 streams the bet on narrow scores (s = 0.6)
    has a mean of 6 with a standard error below 0.15.
    """
    rng = np.random.default_rng(2)
    cells, scores = np.tile([0, 1], (7, 1)), rng.normal(size=(7, 4000))
    sums, bets = run(scores, cells)[1:]
    totals = sums.regions[:, 0, :, np.flatnonzero(bets.regions[0, :, 1] == 0.6)[0]].sum(axis=1)
    assert np.mean(totals) == pytest.approx(6, abs=4 * np.std(totals) / np.sqrt(4000))
    assert np.std(totals) / np.sqrt(4000) < 0.15


def test_rows_that_are_not_known_are_not_bet_on():
    is_known = np.array([True, False, False, True])
    assert run(np.zeros((4, 1)), np.tile([0, 1], (4, 1)), is_known=is_known)[1].totals.tolist() == [2, 2, 0]


def test_counted_scores_are_ranked_among():
    trees, totals = np.zeros((1, 1, SCORE_LEVELS + 1), np.int64), np.zeros(1, np.int64)
    count_scores(np.array([[-1e9], [0.1], [0.1], [1e9]]), np.zeros((4, 1), np.int64), trees, totals)
    assert totals[0] == 4
    assert trees[0, 0, SCORE_LEVELS] == 4  # the last node of the tree counts all
