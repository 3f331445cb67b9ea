"""The search for a box: against all boxes, with every kind of bound, and no bound where none helps."""

from itertools import combinations

import numpy as np
import pytest

from condcs._inference.adjustment import Adjustment
from condcs._inference.box_search import Box, BoxSearch
from condcs._inference.region_effects import RegionEffects
from condcs._inference.regions import _under_redrawn, boxwise_change, honest_boxes
from condcs._inference.response_features import Feature


def search(x, categorical, penalty=1.0, second_penalty=0.5, least_weight=2.0):
    return BoxSearch(
        np.asarray(x, float), categorical, penalty=penalty, second_penalty=second_penalty, least_weight=least_weight
    )


def test_the_best_interval_is_that_of_all_pairs_of_cuts():
    """Of 60 rows every interval is tried; the search must find the largest score."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=60))
    s, v = rng.normal(size=60) + 1.5 * ((x > 0.1) & (x < 0.9)), rng.uniform(0.5, 1.5, size=60)
    scores = {}
    for low, high in combinations(range(61), 2):
        if v[low:high].sum() >= 2:
            cost = 0.0 if (low, high) == (0, 60) else 1.0 if low == 0 or high == 60 else 1.5
            scores[low, high] = s[low:high].sum() ** 2 / v[low:high].sum() - cost
    low, high = max(scores, key=scores.get)
    box, score = search(x[:, None], [False]).best(s, v)
    assert score == pytest.approx(scores[low, high])
    assert np.flatnonzero(box.holds(x[:, None])).tolist() == list(range(low, high))


def test_the_best_set_of_labels_is_that_of_all_sets():
    rng = np.random.default_rng(1)
    x = rng.integers(6, size=(300, 1)).astype(float)
    s, v = rng.normal(size=300) - 1.0 * np.isin(x[:, 0], [1, 4]), np.ones(300)
    sets = [c for k in range(1, 6) for c in combinations(range(6), k)]
    costs = {c: 1.0 + max(1, min(len(c), 6 - len(c))) - 1 for c in sets}
    scores = {c: s[np.isin(x[:, 0], c)].sum() ** 2 / np.isin(x[:, 0], c).sum() - costs[c] for c in sets}
    best = max(scores, key=scores.get)
    box, score = search(x, [True]).best(s, v)
    assert score == pytest.approx(scores[best])
    assert box.bounds == {0: frozenset(best)} == {0: frozenset({1.0, 4.0})}


def test_a_box_of_a_number_and_labels_is_found_among_noise():
    """A change without noise of its own: the box is exact up to the rows at its edges."""
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.integers(4, size=600), rng.normal(size=(600, 3))])
    inside = np.isin(x[:, 0], [0, 3]) & (x[:, 2] > -0.5) & (x[:, 2] <= 0.8)
    box, _ = search(x, [True, False, False, False], penalty=7.0, second_penalty=2.5).best(
        inside * 2.0 - 0.01, np.ones(600)
    )
    assert box.bounds[0] == {0.0, 3.0}
    assert np.array_equal(box.holds(x), inside)
    assert set(box.bounds) == {0, 2}


def test_a_change_everywhere_has_no_bounds():
    rng = np.random.default_rng(3)
    box, score = search(rng.normal(size=(500, 4)), [False] * 4, penalty=7.0).best(np.full(500, 0.5), np.ones(500))
    assert box == Box({})
    assert score == pytest.approx(125)


def test_no_cut_parts_equal_values():
    x = np.repeat([0.0, 1.0, 2.0], 50)[:, None]
    s = np.where(np.arange(150) < 75, 1.0, 0.0)
    box, _ = search(x, [False]).best(s, np.ones(150))
    low, high = box.bounds[0]
    assert low == -np.inf
    assert high in (0.5, 1.5)


def test_a_bound_that_cut_off_three_rows():
    """Of the last rows of a column nothing can be said, even if they happen to gain by being left out."""
    x = np.arange(400.0)[:, None]
    s, v = np.where(x[:, 0] >= 300, 1.0, 0.0), np.full(400, 0.25)
    s[-3:] = 0.2
    box, _ = BoxSearch(x, [False], penalty=7.0, second_penalty=2.5, least_weight=3.0).best(s, v)
    assert box.bounds == {0: (299.5, np.inf)}
    s[-10:] = 0.2
    box, _ = BoxSearch(x, [False], penalty=7.0, second_penalty=2.5, least_weight=3.0).best(s, v)
    assert box.bounds == {0: (299.5, 389.5)}


@pytest.mark.parametrize("clustered", [False, True])
def test_a_fit_to_redrawn_labels_can_be_taken_from_the_functions(clustered):
    """Sums of functions over surprises of labels that were fitted again are those of projected functions."""
    rng = np.random.default_rng(4)
    x, functions = rng.normal(size=(120, 2)), rng.normal(size=(120, 3))
    clusters = np.repeat(np.arange(60), 2) if clustered else None
    adjustment = Adjustment.of(x, [False, False], (60, 60), rng, clusters=clusters)
    found = _under_redrawn(adjustment, functions, 7, np.random.default_rng(5))
    labels = adjustment.propensity.draw(7, np.random.default_rng(5))
    surprises = [
        adjustment.propensity.surprises_by_rows(adjustment.labels[None])(slice(None))[0],
        adjustment.propensity.surprises_by_rows(labels)(slice(None))[0],
    ]
    expected = functions.T @ np.hstack(surprises)
    np.testing.assert_allclose(found, expected / expected.std(axis=1, keepdims=True), rtol=1e-9)


def test_a_small_step_that_no_test_names_is_found_by_all_rows():
    """A step of 1.5 deviations in 50 of 400 rows: most of it must be known where it is, and little elsewhere."""
    rng = np.random.default_rng(6)
    x = rng.uniform(-2, 2, size=(800, 4))
    inside = (x[:, 0] > 0) & (x[:, 1] > 1)
    y = x[:, 2] + 0.5 * rng.normal(size=800)
    y[400:] += 0.75 * inside[400:]
    adjustment = Adjustment.of(x, [False] * 4, (400, 400), rng)
    change = boxwise_change(adjustment, y, np.random.default_rng(7)).by_all_rows
    assert change[inside].mean() == pytest.approx(0.75, abs=0.2)
    assert abs(change[~inside].mean()) < 0.05
    in_large_units = boxwise_change(adjustment, 1e200 * y, np.random.default_rng(7)).by_all_rows
    np.testing.assert_allclose(in_large_units / 1e200, change, rtol=1e-9)


@pytest.mark.slow
def test_rows_that_grew_a_box_were_measured_in_it():
    """Nothing changed, and every box is listed: 9 of 25 intervals were beyond 0, on the side that chance had chosen.

    Of 25 intervals of 95%, more than 4 are beyond 0 with a probability of 0.007.
    """
    beyond, listed = 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(200, 3)), rng.normal(size=200)
        adjustment = Adjustment.of(x, [False] * 3, (100, 100), rng)
        mean = Feature("mean", 0, y - y.mean())
        boxes = honest_boxes(adjustment, [mean], alpha=1.0, max_regions=1, n_resamples=39, rng=rng)
        for box in boxes:
            change = RegionEffects(adjustment, y, 0.95).mean("y", box, selected=False).change
            beyond += change.low > 0 or change.high < 0
            listed += 1
    assert listed >= 20
    assert beyond <= 4
