"""Conditional Bregman divergences: reference values, Gaussian closed forms, ridges, gradients, every array library."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import logm

import condcs
from condcs._core.arrays import backend_of
from condcs._core.errors import BandwidthError, CondcsError, DataError, ParameterError
from condcs._measures.bregman import conditional_bregman, conditional_bregman_pairs, matrix_log
from condcs._measures.neighbours import numeric_problem

from ..conftest import golden_cases

GENERATORS = ("von_neumann", "log_det")
EVERY_KIND = [(g, m) for g in GENERATORS for m in ("covariance", "correntropy")]


def two_samples(n=30, m=25, seed=0, d_x=2):
    rng = np.random.default_rng(seed)
    xp, xq = rng.normal(size=(n, d_x)), 1.5 * rng.normal(size=(m, d_x))
    return xp, xp[:, :1] + rng.normal(size=(n, 1)), xq, rng.normal(size=(m, 1)) - xq[:, :1]


def with_covariance(covariance, n=50, seed=0):
    """A sample whose covariance matrix is the given one exactly."""
    raw = np.random.default_rng(seed).normal(size=(n, len(covariance)))
    raw -= raw.mean(axis=0)
    white = raw @ np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(raw.T)))).T
    return white @ np.linalg.cholesky(covariance).T


def bregman(generator, s, r):
    """The definition, with scipy's matrix logarithm and an explicit inverse."""
    if generator == "von_neumann":
        return np.trace(s @ logm(s) - s @ logm(r) - s + r)
    ratio = s @ np.linalg.inv(r)
    return np.trace(ratio) - np.log(np.linalg.det(ratio)) - len(s)


def correntropy_by_loops(z, width):
    """The definition of the centred correntropy matrix, entry by entry."""
    n, d = z.shape
    c = np.zeros((d, d))
    for a in range(d):
        for b in range(d):
            together = np.mean([np.exp(-((z[i, a] - z[i, b]) ** 2) / (2 * width**2)) for i in range(n)])
            apart = np.mean(
                [[np.exp(-((z[i, a] - z[j, b]) ** 2) / (2 * width**2)) for j in range(n)] for i in range(n)]
            )
            c[a, b] = together - apart
    return c


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("case", golden_cases())
def test_matches_golden_value(case, generator):
    found = conditional_bregman(*(case[k] for k in ("xp", "yp", "xq", "yq")), generator=generator)
    assert found == pytest.approx(case["expected"][f"conditional_{generator}_covariance"], abs=1e-9, rel=0)


def test_log_det_is_twice_the_divergence_of_gaussian_conditionals():
    """Centred Gaussians, y = b x + e: 2 KL = ratio - 1 - log(ratio) + (b_p - b_q)^2 var_p(x) / noise_q."""
    b_p, noise_p, var_p, b_q, noise_q, var_q = 0.5, 0.8, 1.7, -1.2, 2.0, 0.6
    p, q = (
        with_covariance(np.array([[var, b * var], [b * var, b * b * var + noise]]), seed=seed)
        for b, noise, var, seed in ((b_p, noise_p, var_p, 0), (b_q, noise_q, var_q, 1))
    )
    ratio = noise_p / noise_q
    expected = ratio - 1 - np.log(ratio) + (b_p - b_q) ** 2 * var_p / noise_q
    found = conditional_bregman(p[:, :1], p[:, 1:], q[:, :1], q[:, 1:], generator="log_det")
    assert found == pytest.approx(expected, rel=1e-10)


def test_von_neumann_of_uncorrelated_columns():
    """Diagonal matrices: the x part cancels and y leaves s log(s / r) - s + r."""
    p, q = with_covariance(np.diag([1.0, 0.3, 2.0])), with_covariance(np.diag([4.0, 0.5, 0.7]), seed=1)
    found = conditional_bregman(p[:, :2], p[:, 2], q[:, :2], q[:, 2])
    assert found == pytest.approx(2.0 * np.log(2.0 / 0.7) - 2.0 + 0.7, rel=1e-10)


@pytest.mark.parametrize("generator", GENERATORS)
def test_correntropy_equals_the_definition_entry_by_entry(generator):
    xp, yp, xq, yq = two_samples(12, 9)
    c_p, c_q = (correntropy_by_loops(np.hstack(z), 0.9) for z in ((xp, yp), (xq, yq)))
    expected = bregman(generator, c_p, c_q) - bregman(generator, c_p[:2, :2], c_q[:2, :2])
    found = conditional_bregman(xp, yp, xq, yq, generator=generator, matrix="correntropy", bandwidth=0.9)
    assert found == pytest.approx(expected, rel=1e-9)


def test_correntropy_width_is_that_of_all_numbers_as_one_column():
    samples = two_samples()
    numbers = np.concatenate([a.ravel() for a in samples])
    width = condcs.bandwidth(numbers)
    found = conditional_bregman(*samples, matrix="correntropy")
    assert found == pytest.approx(conditional_bregman(*samples, matrix="correntropy", bandwidth=width), rel=1e-12)
    assert found != pytest.approx(conditional_bregman(*samples, matrix="correntropy", bandwidth=1.1 * width), rel=1e-3)


@pytest.mark.parametrize("tile", [3, 1000])
def test_correntropy_does_not_depend_on_tiles(tile):
    samples = two_samples()
    with condcs.config_context(tile=tile):
        found = conditional_bregman(*samples, matrix="correntropy", bandwidth=0.9)
    assert found == pytest.approx(conditional_bregman(*samples, matrix="correntropy", bandwidth=0.9), rel=1e-10)


def test_correntropy_sees_a_shift_that_covariances_do_not():
    xp, yp, _, _ = two_samples()
    assert conditional_bregman(xp, yp, xp, yp + 3) == pytest.approx(0, abs=1e-12)
    assert conditional_bregman(xp, yp, xp, yp + 3, matrix="correntropy") > 0.1


def test_log_det_does_not_depend_on_units_but_von_neumann_does():
    xp, yp, xq, yq = two_samples()
    units = np.array([1e3, 1e-2])
    value = conditional_bregman(xp, yp, xq, yq, generator="log_det")
    scaled = conditional_bregman(units * xp, 10 * yp, units * xq, 10 * yq, generator="log_det")
    # 1e-2 against 1e3 leaves an eigenvalue of about 1e-10 of the trace, which the ridge lifts; 1 against 10 needs none.
    assert conditional_bregman(xp, 10 * yp, xq, 10 * yq, generator="log_det") == pytest.approx(value, rel=1e-10)
    assert scaled != pytest.approx(value, rel=1e-6)
    ten_fold = conditional_bregman(*(10 * a for a in (xp, yp, xq, yq)))
    assert ten_fold == pytest.approx(100 * conditional_bregman(xp, yp, xq, yq), rel=1e-10)


@pytest.mark.parametrize(("generator", "matrix"), EVERY_KIND)
def test_zero_for_equal_samples_and_never_negative(generator, matrix):
    for seed in range(20):
        xp, yp, xq, yq = two_samples(4 + seed, 20, seed)
        kind = {"generator": generator, "matrix": matrix}
        assert conditional_bregman(xp, yp, xp[::-1], yp[::-1], **kind) == pytest.approx(0, abs=1e-10)
        assert conditional_bregman(xp, yp, xq, yq, **kind) > 0


@pytest.mark.parametrize(("generator", "matrix"), EVERY_KIND)
def test_more_columns_than_rows_is_finite_and_not_negative(generator, matrix):
    for seed in range(5):
        samples = two_samples(5, 6, seed, d_x=9)
        found = conditional_bregman(*samples, generator=generator, matrix=matrix)
        assert np.isfinite(found)
        assert found > 0


def test_ridge_lifts_the_smallest_eigenvalue_to_its_limit_and_no_more():
    """Y = x in p: eigenvalues 2 v and 0, so 1e-8 of the trace is added to the diagonal of p; q is left alone."""
    x = with_covariance(np.eye(1))
    q = with_covariance(np.array([[1.0, 0.2], [0.2, 0.5]]), seed=1)
    singular = np.ones((2, 2)) + 2e-8 * np.eye(2)
    regular = np.cov(q.T)
    expected = bregman("log_det", singular, regular) - bregman("log_det", singular[:1, :1], regular[:1, :1])
    found = conditional_bregman(x, x, q[:, 0], q[:, 1], generator="log_det")
    assert found == pytest.approx(expected, rel=1e-8)


def test_all_pairs_of_groups_agree_with_one_pair_at_a_time():
    groups = [two_samples(n, 5, seed=n)[:2] for n in (12, 15, 9)]
    problem = numeric_problem(
        [(f"x[{g}]", x) for g, (x, _) in enumerate(groups)], [(f"y[{g}]", y) for g, (_, y) in enumerate(groups)]
    )
    for generator, matrix in EVERY_KIND:
        options = {"generator": generator, "matrix": matrix, "bandwidth": 0.9}
        found = conditional_bregman_pairs(problem, **options)
        for g, first in enumerate(groups):
            for h, second in enumerate(groups):
                assert found[g, h] == pytest.approx(conditional_bregman(*first, *second, **options), abs=1e-10)


@pytest.mark.parametrize(("generator", "matrix"), EVERY_KIND)
def test_single_precision_agrees_with_double(generator, matrix):
    """The matrices have condition numbers below 1e3: single precision keeps four digits."""
    samples = two_samples()
    kind = {"generator": generator, "matrix": matrix, "bandwidth": 0.9}
    found = conditional_bregman(*(a.astype(np.float32) for a in samples), **kind)
    assert found.dtype == np.float32
    assert found == pytest.approx(conditional_bregman(*samples, **kind), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("generator", GENERATORS)
def test_repeated_columns_in_single_precision_are_finite(generator):
    """Rounding alone moves an eigenvalue of 0 by more than 1e-8 of the trace: the limit must know the precision."""
    for seed in range(20):
        xp, yp, xq, yq = (a.astype(np.float32) for a in two_samples(20, 20, seed, d_x=1))
        found = conditional_bregman(np.repeat(xp, 2, axis=1), yp, np.repeat(xq, 2, axis=1), yq, generator=generator)
        assert np.isfinite(found)


@pytest.mark.parametrize(("generator", "matrix"), EVERY_KIND)
def test_torch_values_and_gradients(generator, matrix):
    torch = pytest.importorskip("torch")
    arrays = two_samples(6, 5)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    kind = {"generator": generator, "matrix": matrix, "bandwidth": 0.9}
    assert conditional_bregman(*tensors, **kind).item() == pytest.approx(conditional_bregman(*arrays, **kind), rel=1e-9)
    assert torch.autograd.gradcheck(lambda *a: conditional_bregman(*a, **kind), tensors)


@pytest.mark.slow
@pytest.mark.parametrize(("generator", "matrix"), [("von_neumann", "correntropy"), ("log_det", "covariance")])
def test_jax_values_and_gradients_inside_jit(generator, matrix):
    """Each generator and each matrix once (compiling is slow), against central differences of the numpy path."""
    jax = pytest.importorskip("jax")
    xp, yp, xq, yq = two_samples(6, 5)
    kind = {"generator": generator, "matrix": matrix, "bandwidth": 0.9}

    def value(y):
        return conditional_bregman(xp * y[0], yp + y[0], xq * y[1], y, **kind)

    with jax.enable_x64(True):
        found, gradient = jax.jit(jax.value_and_grad(value))(jax.numpy.asarray(yq))
    assert float(found) == pytest.approx(value(yq), rel=1e-10)
    expected = np.zeros_like(yq)
    for i in range(5):
        for sign in (1, -1):
            moved = yq.copy()
            moved[i] += sign * 1e-6
            expected[i] += sign * value(moved) / 2e-6
    np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("generator", GENERATORS)
def test_gradient_where_eigenvalues_are_equal(generator):
    """Rank 3 of 8 columns: five eigenvalues are the ridge. The derivative along a scaling of all data is known.

    Scaling the data of both samples by c scales every matrix by c^2, which leaves log-det as it is and multiplies von
    Neumann by c^2: derivatives 0 and 2 D at c = 1.
    """
    torch = pytest.importorskip("torch")
    arrays = two_samples(4, 4, d_x=7)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    value = conditional_bregman(*tensors, generator=generator)
    gradients = torch.autograd.grad(value, tensors)
    along = sum((g * t).sum().item() for g, t in zip(gradients, tensors, strict=True))
    expected = 2 * value.item() if generator == "von_neumann" else 0.0
    # log-det is about 1e8 here (inverse of the ridge), and its derivative cancels to 0 from terms of that size.
    assert along == pytest.approx(expected, abs=1e-6 * abs(value.item()))


def test_matrix_log_and_its_derivative_with_equal_eigenvalues(library):
    """At the identity the derivative of log is the identity map; eigenvector derivatives would be 0/0 there."""
    a = np.diag([1.0, 1.0, 2.0])
    made = library.asarray(a)
    np.testing.assert_allclose(library.to_numpy(matrix_log(backend_of(made), made)), logm(a), atol=1e-14)
    direction = np.array([[0.3, 0.5, 0.0], [0.5, -0.2, 0.0], [0.0, 0.0, 1.0]])
    expected = direction * np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0.5]])
    if library.name == "torch":
        made = made.clone().requires_grad_()
        matrix_log(backend_of(made), made).backward(library.asarray(direction))
        np.testing.assert_allclose(made.grad.numpy(), expected, atol=1e-14)
    if library.name == "jax":
        import jax

        tangent = jax.jvp(lambda m: matrix_log(backend_of(m), m), (made,), (library.asarray(direction),))[1]
        np.testing.assert_allclose(np.asarray(tangent), expected, atol=1e-14)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"generator": "burg"}, ParameterError, "`generator` must be one of 'von_neumann', 'log_det', got 'burg'"),
        ({"matrix": "gram"}, ParameterError, "`matrix` must be one of 'covariance', 'correntropy', got 'gram'"),
        ({"matrix": "correntropy", "bandwidth": -1.0}, BandwidthError, "`bandwidth` must be positive"),
        ({"matrix": "correntropy", "bandwidth": "mean"}, BandwidthError, "`bandwidth` must be a positive number"),
        ({"matrix": "correntropy", "bandwidth": [1.0, 2.0]}, BandwidthError, "`bandwidth` must be one number"),
    ],
)
def test_options_are_checked(options, error, message):
    with pytest.raises(error, match=f"conditional_bregman: {message}"):
        conditional_bregman(*two_samples(), **options)


def test_constant_column_is_refused():
    xp, yp, xq, yq = two_samples()
    with pytest.raises(DataError, match=r"`yp` and `yq` must vary in every column, but column 'y' is constant"):
        conditional_bregman(xp, np.ones(30), xq, np.ones(25))
    x = [np.hstack([a, np.zeros((len(a), 1))]) for a in (xp, xq)]
    with pytest.raises(DataError, match=r"`xp` and `xq` must vary in every column, but column 'x3' is constant"):
        conditional_bregman(x[0], yp, x[1], yq)


def test_bad_samples_are_refused():
    xp, yp, xq, yq = two_samples()
    for samples in [
        (xp, yp[:-1], xq, yq),
        (xp, yp, xq[:, :1], yq),
        (xp[:1], yp[:1], xq, yq),
        (xp * np.nan, yp, xq, yq),
    ]:
        with pytest.raises(CondcsError, match=r"^conditional_bregman: `"):
            conditional_bregman(*samples)
