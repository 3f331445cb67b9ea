"""Factors of Gram matrices: close to the matrix, no larger than needed, and honest about what is left."""

import numpy as np
import pytest

from condcs._kernels.low_rank import inverse_root, pivoted_cholesky, pseudo_inverse


@pytest.fixture
def gram():
    x = np.random.default_rng(0).normal(size=(150, 2))
    return np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(-1))


def test_a_factor_leaves_what_it_says(gram):
    factor, rest = pivoted_cholesky(
        lambda i: gram[:, i], np.diag(gram), most=150, enough=lambda rest: rest.max() <= 1e-10
    )
    assert factor.shape[1] < 130
    np.testing.assert_allclose(factor @ factor.T, gram, atol=1e-9)
    coarse, rest = pivoted_cholesky(lambda i: gram[:, i], np.diag(gram), most=5, enough=lambda rest: False)
    assert coarse.shape == (150, 5)
    np.testing.assert_allclose(np.diag(gram - coarse @ coarse.T), rest, atol=1e-12)
    # What is left of a positive definite matrix is positive definite.
    assert np.linalg.eigvalsh(gram - coarse @ coarse.T).min() > -1e-12


def test_ranks_beyond_the_first_columns(gram):
    sharp = gram**200
    factor, rest = pivoted_cholesky(lambda i: sharp[:, i], np.diag(sharp), most=150, enough=lambda r: r.sum() <= 1e-8)
    assert factor.shape[1] > 64
    np.testing.assert_allclose(factor @ factor.T, sharp, atol=1e-7)
    assert rest.sum() <= 1e-8


def test_an_inverse_along_the_main_directions(gram):
    inverse = pseudo_inverse(gram, 1e-7)
    np.testing.assert_allclose(gram @ inverse @ gram, gram, atol=1e-4)
    assert np.abs(inverse).max() < 1e8
    np.testing.assert_allclose(pseudo_inverse(np.diag([2.0, 1.0, 1e-9]), 1e-7), np.diag([0.5, 1.0, 0.0]))


def test_features_of_landmarks_give_the_kernel_at_the_landmarks(gram):
    """And, of a kernel of that rank, at all rows; eigenvectors below the tolerance are left out."""
    landmarks = np.arange(0, len(gram), 2)
    features = gram[:, landmarks] @ inverse_root(gram[np.ix_(landmarks, landmarks)], 1e-10)
    np.testing.assert_allclose(
        features[landmarks] @ features[landmarks].T, gram[np.ix_(landmarks, landmarks)], atol=1e-6
    )
    np.testing.assert_allclose(
        inverse_root(np.diag([4.0, 1e-9, 1.0]), 1e-6) ** 2, [[0, 0.25], [0, 0], [1, 0]], atol=1e-15
    )
