"""k-medoids against all choices of medoids, and against every single swap."""

from itertools import combinations

import numpy as np
import pytest

from condcs.timeseries._clustering import _fasterpam, labels_by_medoids


def distances(n, seed):
    points = np.random.default_rng(seed).normal(size=(n, 2))
    return np.sqrt(((points[:, None] - points) ** 2).sum(axis=-1))


def loss_of(D, medoids):
    return D[list(medoids)].min(axis=0).sum()


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_best_of_all_choices_of_medoids(k, seed):
    """Eleven points: all choices can be tried."""
    D = distances(11, seed)
    labels = labels_by_medoids(D, k, np.random.default_rng(0))
    best = min(combinations(range(11), k), key=lambda medoids: loss_of(D, medoids))
    expected = D[list(best)].argmin(axis=0)
    assert len({(int(a), int(b)) for a, b in zip(labels, expected, strict=True)}) == k  # the same up to names


def test_no_swap_lowers_the_loss():
    D, k = distances(80, 3), 5
    medoids = np.arange(k)
    nearest = np.zeros(len(D), np.int64)
    loss = _fasterpam()(D, medoids, nearest, np.empty((2, len(D))), np.empty((3, k)))
    assert loss == pytest.approx(loss_of(D, medoids), rel=1e-12)
    assert (nearest == D[medoids].argmin(axis=0)).all()
    for place in range(k):
        for other in range(len(D)):
            swapped = [*np.delete(medoids, place), other]
            assert loss_of(D, swapped) >= loss * (1 - 1e-9)


def test_equal_and_negative_distances_end():
    """Some measures give distances below zero, and identical series none at all: neither may loop for ever."""
    assert labels_by_medoids(np.zeros((6, 6)), 3, np.random.default_rng(0)).shape == (6,)
    D = distances(30, 1) - 0.4
    assert len(set(labels_by_medoids(D, 4, np.random.default_rng(0)).tolist())) == 4


def test_losses_of_rounding_errors_were_swapped_for_ever():
    """Shares of weighted votes: series that are always together were 2e-16 apart, and every swap seemed to pay."""
    labels = np.arange(60) % 3
    D = np.where(labels[:, None] == labels, 2.0**-52, 1.0)
    assert (labels_by_medoids(D, 3, np.random.default_rng(0)) == labels).all()
