"""Redrawn labels: what each null keeps, what it varies, and that a seed says it all."""

import numpy as np
import pytest
from scipy.stats import binom

from condcs import config_context
from condcs._core.errors import DataError, ParameterError, ShapeError
from condcs._inference.nulls import circular_shifts, label_sampler, local_permutations, median_cells, shifted_windows
from condcs._inference.propensities import check_probabilities, cross_fitted, independent_draws


def make_rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def shifted():
    """Pooled x of two groups, the second shifted by 0.7, and the labels."""
    rng = make_rng(3)
    groups = np.repeat([0, 1], [120, 90])
    x = rng.normal(size=(210, 2))
    x[:, 0] += 0.7 * groups
    return x, groups


@pytest.mark.parametrize("null", ["permutation", "local"])
@pytest.mark.parametrize("sizes", [(120, 90), (80, 70, 60)])
def test_group_sizes_are_kept(null, sizes):
    """Permutations and exchanges change who is in a group, never how many."""
    x = make_rng().normal(size=(210, 2))
    groups = np.repeat(np.arange(len(sizes)), sizes)
    drawn = label_sampler(null, x, groups, rng=make_rng())(40)
    assert drawn.shape == (40, 210)
    assert drawn.dtype == np.int8
    assert all(np.bincount(row, minlength=len(sizes)).tolist() == list(sizes) for row in drawn)
    assert (drawn != groups).any(axis=1).all()


@pytest.mark.parametrize("null", ["permutation", "local"])
def test_same_seed_same_labels(null, shifted):
    """Whatever the threads, and in one call or in several."""
    with config_context(n_threads=1):
        once = label_sampler(null, *shifted, rng=make_rng(5))(30)
    with config_context(n_threads=3):
        again = label_sampler(null, *shifted, rng=make_rng(5))(30)
        draw = label_sampler(null, *shifted, rng=make_rng(5))
        parts = np.concatenate([draw(10), draw(20)])
    assert np.array_equal(once, again)
    assert np.array_equal(once, parts)
    assert not np.array_equal(once, label_sampler(null, *shifted, rng=make_rng(6))(30))


def test_permutations_are_uniform():
    """Each row is in the second group in the same share of draws."""
    groups = np.repeat([0, 1], [12, 8])
    drawn = label_sampler("permutation", None, groups, rng=make_rng())(4000)
    low, high = binom.ppf([0.0005 / 20, 1 - 0.0005 / 20], 4000, 0.4) / 4000
    assert np.all((drawn.mean(axis=0) >= low) & (drawn.mean(axis=0) <= high))


@pytest.mark.parametrize("count", [2, 3])
def test_given_probabilities_are_the_frequencies(count):
    """Over 4000 draws the share of each label lies in the 99.9% binomial interval, split over all rows and groups."""
    probabilities = make_rng(1).dirichlet(np.ones(count), size=30)
    drawn = independent_draws(probabilities, make_rng())(4000)
    tail = 0.0005 / (30 * count)
    for g in range(count):
        frequency = (drawn == g).sum(axis=0)
        assert np.all(frequency >= binom.ppf(tail, 4000, probabilities[:, g]))
        assert np.all(frequency <= binom.ppf(1 - tail, 4000, probabilities[:, g]))


def test_one_probability_per_row_is_that_of_the_second_group():
    given = np.linspace(0.1, 0.9, 40)
    both = np.column_stack([1 - given, given])
    assert np.array_equal(check_probabilities(given, 40, 2), both)
    one = independent_draws(both, make_rng())(50)
    assert one[:, -5:].mean() > 0.6 > 0.4 > one[:, :5].mean()


def test_groups_never_fall_below_two_rows():
    """Probabilities that often leave a group with one row: such draws are made again."""
    drawn = independent_draws(check_probabilities(np.full(6, 0.2), 6, 2), make_rng())(500)
    assert drawn.sum(axis=1).min() == 2
    assert drawn.sum(axis=1).max() <= 4


def test_balance_of_x_is_held(shifted):
    """The difference of the group means stays that of the sample, to a small share of what free draws would add."""
    x, groups = shifted
    observed = x[groups == 1].mean(axis=0) - x[groups == 0].mean(axis=0)
    drawn = label_sampler("local", x, groups, rng=make_rng())(200)
    gaps = np.array([x[row == 1].mean(axis=0) - x[row == 0].mean(axis=0) for row in drawn])
    free = np.sqrt(1 / 120 + 1 / 90)
    assert np.all(np.abs(gaps.mean(axis=0) - observed) < 0.5 * free)
    assert np.all(gaps.std(axis=0) < 0.5 * free)


def test_local_draws_stay_within_cells(shifted):
    """Every cell keeps its number of each label."""
    x, groups = shifted
    cells = median_cells(x, np.zeros(2, bool), 10)
    sizes = np.bincount(cells)
    assert 10 <= sizes.min() <= sizes.max() < 20
    drawn = label_sampler("local", x, groups, rng=make_rng())(50)
    for cell in range(len(sizes)):
        assert np.all(drawn[:, cells == cell].sum(axis=1) == groups[cells == cell].sum())


def test_cells_never_mix_categories():
    rng = make_rng()
    x = np.column_stack([rng.integers(0, 3, 90), rng.normal(size=90)])
    cells = median_cells(x, np.array([True, False]), 5)
    assert all(len(np.unique(x[cells == cell, 0])) == 1 for cell in np.unique(cells))
    only = median_cells(x[:, :1], np.array([True]), 5)
    assert len(np.unique(only)) == 3


def test_a_classifier_sees_no_row_it_speaks_about(shifted):
    """A nearest-neighbour classifier would repeat every label; cross-fitted, it knows only the shift."""
    from sklearn.neighbors import KNeighborsClassifier

    x, groups = shifted
    drawn = independent_draws(cross_fitted(KNeighborsClassifier(15), x, groups, 2), make_rng())(200)
    agreement = (drawn == groups).mean()
    assert 0.45 < agreement < 0.75


@pytest.mark.parametrize("neighbours", [3, 8])
def test_local_permutations_take_near_indices_seldom_twice(neighbours):
    x1 = make_rng(2).normal(size=(200, 1))
    drawn = local_permutations(x1, neighbours=neighbours, count=50, rng=make_rng())
    distances = np.abs(x1 - x1.T)
    allowed = np.argsort(distances, axis=1)[:, :neighbours]
    assert all(np.isin(drawn[:, i], allowed[i]).all() for i in range(200))
    assert np.mean([len(np.unique(row)) for row in drawn]) > 0.85 * 200
    assert (drawn != np.arange(200)).mean() > 0.5
    assert np.array_equal(drawn, local_permutations(x1, neighbours=neighbours, count=50, rng=make_rng()))


def test_local_permutations_of_one_category_are_not_stuck():
    """With all of x1 equal, every index is as near as any other."""
    drawn = local_permutations(np.zeros((100, 1)), neighbours=5, count=20, rng=make_rng())
    assert drawn.min() >= 0
    assert drawn.max() < 100
    assert np.mean([len(np.unique(row)) for row in drawn]) > 80


def test_windows_are_uniform_over_the_allowed_pairs():
    """Starts 0..3, at least 2 apart: six ordered pairs, each a sixth of the draws."""
    drawn = shifted_windows(10, window=7, minimum_offset=2, count=6000, rng=make_rng())
    pairs, counts = np.unique(drawn, axis=0, return_counts=True)
    assert pairs.tolist() == [[0, 2], [0, 3], [1, 3], [2, 0], [3, 0], [3, 1]]
    low, high = binom.ppf([0.0005 / 6, 1 - 0.0005 / 6], 6000, 1 / 6)
    assert np.all((counts >= low) & (counts <= high))


def test_circular_shifts_keep_their_distance():
    drawn = circular_shifts(20, minimum_offset=6, count=2000, rng=make_rng())
    assert set(drawn.tolist()) == set(range(6, 15))


BAD_PROBABILITIES = {
    "wrong length": (np.full(7, 0.5), ShapeError, "`propensity`"),
    "not probabilities": (np.full(20, 1.5), DataError, "`propensity`"),
    "do not add up": (np.full((20, 2), 0.4), DataError, "`propensity`"),
    "one group impossible": (np.zeros(20), DataError, "at least 2 rows"),
    "a word": ("logistic", ParameterError, "`propensity`"),
}


@pytest.mark.parametrize(("given", "error", "message"), BAD_PROBABILITIES.values(), ids=BAD_PROBABILITIES)
def test_bad_probabilities_are_named(given, error, message):
    with pytest.raises(error, match=message):
        independent_draws(check_probabilities(given, 20, 2), make_rng())(5)


def test_hopeless_probabilities_are_an_error():
    """Two rows that could be in the second group, and hardly ever are together."""
    probabilities = np.zeros(20)
    probabilities[:2] = 1e-6
    draw = independent_draws(check_probabilities(probabilities, 20, 2), make_rng())
    with pytest.raises(DataError, match="redraws"):
        draw(3)


def test_a_regressor_is_no_propensity(shifted):
    from sklearn.linear_model import LinearRegression

    with pytest.raises(ParameterError, match="predict_proba"):
        cross_fitted(LinearRegression(), *shifted, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: shifted_windows(100, window=90, minimum_offset=20, count=5, rng=rng),
        lambda rng: shifted_windows(100, window=101, minimum_offset=2, count=5, rng=rng),
        lambda rng: circular_shifts(10, minimum_offset=6, count=5, rng=rng),
        lambda rng: local_permutations(np.zeros((5, 1)), neighbours=1, count=5, rng=rng),
    ],
)
def test_impossible_windows_are_an_error(call):
    with pytest.raises(ParameterError, match="must be"):
        call(make_rng())
