"""CS divergence of Gaussian mixtures: numerical integration as the oracle, closed forms, gradients, bad parameters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from condcs._core.errors import CondcsError, DataError, ShapeError
from condcs._measures.gaussian_mixtures import cs_gaussian_mixture

MEANS_P, MEANS_Q = np.array([[0.0, 1.0], [-1.0, 0.5], [2.0, 0.0]]), np.array([[0.5, 0.5], [1.0, -1.0]])
FACTORS_P = np.array([[[1.0, 0.0], [0.3, 0.8]], [[0.7, 0.0], [-0.2, 1.1]], [[0.9, 0.0], [0.0, 0.6]]])
FACTORS_Q = np.array([[[1.2, 0.0], [0.5, 0.7]], [[0.8, 0.0], [0.1, 0.9]]])
WEIGHTS = {"weights_p": np.array([0.5, 0.2, 0.3]), "weights_q": np.array([3.0, 1.0])}


def covariances(factors):
    return np.einsum("kab,kcb->kac", factors, factors)


def planar():
    return MEANS_P, covariances(FACTORS_P), MEANS_Q, covariances(FACTORS_Q)


def test_one_dimension_by_numerical_integration():
    """Adaptive quadrature of the three integrals."""
    p, q = ([0.0, 2.0], [1.0, 0.25], [0.7, 0.3]), ([-1.0, 0.5, 3.0], [0.5, 2.0, 1.0], [0.2, 0.5, 0.3])

    def density(x, mixture):
        return sum(w * norm.pdf(x, m, np.sqrt(v)) for m, v, w in zip(*mixture, strict=True))

    def integral(a, b):
        return quad(lambda x: density(x, a) * density(x, b), -15, 15, points=[-1, 0, 2, 3], epsabs=1e-13, limit=200)[0]

    expected = np.log(integral(p, p)) + np.log(integral(q, q)) - 2 * np.log(integral(p, q))
    found = cs_gaussian_mixture(p[0], p[1], q[0], q[1], weights_p=p[2], weights_q=q[2])
    assert found == pytest.approx(expected, abs=1e-10)


def test_two_dimensions_by_numerical_integration():
    """The trapezoidal rule converges faster than any power for functions as smooth and as flat at the ends as these."""
    axis = np.linspace(-12, 12, 481)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    p, q = (
        sum(
            w * multivariate_normal(m, c).pdf(grid)
            for m, c, w in zip(means, matrices, weights / weights.sum(), strict=True)
        )
        for means, matrices, weights in (
            (MEANS_P, covariances(FACTORS_P), WEIGHTS["weights_p"]),
            (MEANS_Q, covariances(FACTORS_Q), WEIGHTS["weights_q"]),
        )
    )
    expected = np.log(np.sum(p * p)) + np.log(np.sum(q * q)) - 2 * np.log(np.sum(p * q))
    assert cs_gaussian_mixture(*planar(), **WEIGHTS) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("shift", [0.0, 0.3, 50.0, 1e6])
@pytest.mark.parametrize("d", [1, 5])
def test_two_single_gaussians(shift, d):
    """D = |shift|^2 / (a + b) + d log((a + b) / (2 sqrt(a b))) for variances a, b; far apart, densities underflow."""
    a, b = 0.7, 1.9
    expected = d * shift**2 / (a + b) + d * np.log((a + b) / (2 * np.sqrt(a * b)))
    mean = np.zeros((1, d))
    diagonal = cs_gaussian_mixture(mean, np.full((1, d), a), mean + shift, np.full((1, d), b))
    full = cs_gaussian_mixture(mean, a * np.eye(d)[None], mean + shift, b * np.eye(d)[None])
    assert diagonal == pytest.approx(expected, rel=1e-12)
    assert full == pytest.approx(expected, rel=1e-12)


def test_diagonal_and_full_covariances_mix():
    variances_p, variances_q = np.array([[1.0, 0.5], [2.0, 1.0], [0.3, 0.8]]), np.array([[0.9, 1.1], [0.4, 2.0]])
    full_p, full_q = (np.stack([np.diag(v) for v in each]) for each in (variances_p, variances_q))
    values = [cs_gaussian_mixture(MEANS_P, p, MEANS_Q, q) for p in (variances_p, full_p) for q in (variances_q, full_q)]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)


def test_shapes_in_one_dimension_agree():
    values = [
        cs_gaussian_mixture(np.reshape([0.0, 1.0], means), np.reshape([1.0, 2.0], shape), [0.5], [3.0])
        for means in ((2,), (2, 1))
        for shape in ((2,), (2, 1), (2, 1, 1))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)


def test_symmetric_zero_for_equal_mixtures_and_blind_to_the_scale_of_weights():
    means_p, p, means_q, q = planar()
    value = cs_gaussian_mixture(means_p, p, means_q, q)
    assert value > 0.05
    assert cs_gaussian_mixture(means_q, q, means_p, p) == pytest.approx(value, rel=1e-12)
    assert cs_gaussian_mixture(means_p, p, means_p[::-1], p[::-1]) == pytest.approx(0, abs=1e-12)
    assert cs_gaussian_mixture(means_p, p, means_q, q, weights_p=np.full(3, 7.0)) == pytest.approx(value, rel=1e-12)


def test_scales_far_apart_need_no_common_unit():
    """Covariances are checked in units of their own diagonal: 1e-18 beside 1e18 is no sign of a singular matrix."""
    unit = np.array([1e-9, 1e9])
    means_p, p, means_q, q = planar()
    scaled = cs_gaussian_mixture(unit * means_p, p * np.outer(unit, unit), unit * means_q, q * np.outer(unit, unit))
    assert scaled == pytest.approx(cs_gaussian_mixture(means_p, p, means_q, q), rel=1e-9)


def test_infinitely_far_apart_is_infinite_and_not_nan():
    with np.errstate(over="ignore"):
        p = covariances(FACTORS_P[:1])
        assert cs_gaussian_mixture(MEANS_P[:1], p, MEANS_P[:1] + 1e200, p) == np.inf


def test_single_precision_agrees_with_double():
    """Exponents of order 10 carry a rounding error of about 1e-6."""
    single = cs_gaussian_mixture(*(a.astype(np.float32) for a in planar()))
    assert single.dtype == np.float32
    assert single == pytest.approx(cs_gaussian_mixture(*planar()), abs=1e-5)


def by_factors(means_p, factors_p, means_q, factors_q, weights_p, weights_q):
    """Covariances from factors, so that finite differences keep them symmetric."""
    p, q = (f @ f.swapaxes(-1, -2) for f in (factors_p, factors_q))
    return cs_gaussian_mixture(means_p, p, means_q, q, weights_p=weights_p, weights_q=weights_q)


PARAMETERS = (MEANS_P, FACTORS_P, MEANS_Q, FACTORS_Q, WEIGHTS["weights_p"], WEIGHTS["weights_q"])


@pytest.mark.slow
def test_torch_values_and_gradients():
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(a, requires_grad=True) for a in PARAMETERS]
    assert by_factors(*tensors).item() == pytest.approx(by_factors(*PARAMETERS), rel=1e-12)
    assert torch.autograd.gradcheck(by_factors, tensors)
    variances = [torch.tensor(a, requires_grad=True) for a in (MEANS_P, 0.5 + MEANS_P**2, MEANS_Q, 0.5 + MEANS_Q**2)]
    assert torch.autograd.gradcheck(cs_gaussian_mixture, variances)


@pytest.mark.slow
def test_jax_values_and_gradients_inside_jit():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        arrays = [jax.numpy.asarray(a) for a in PARAMETERS]
        value, gradients = jax.jit(jax.value_and_grad(by_factors, argnums=tuple(range(6))))(*arrays)
    assert float(value) == pytest.approx(by_factors(*PARAMETERS), rel=1e-12)
    for i, gradient in enumerate(gradients):
        expected = np.zeros_like(PARAMETERS[i])
        for index in np.ndindex(expected.shape):
            for sign in (1, -1):
                moved = [a.copy() for a in PARAMETERS]
                moved[i][index] += sign * 1e-6
                expected[index] += sign * by_factors(*moved) / 2e-6
        np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-6, atol=1e-8)


EYE = np.eye(2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"covariances_p": np.stack([EYE] * 2)},
            ShapeError,
            r"`covariances_p` must have shape \(3, 2, 2\), or \(3, 2\)",
        ),
        ({"covariances_q": EYE[0]}, ShapeError, r"`covariances_q` must have shape \(2, 2, 2\), or \(2, 2\)"),
        ({"covariances_p": -np.ones((3, 2))}, DataError, r"`covariances_p` must hold positive variances, got -1"),
        (
            {"covariances_q": np.stack([EYE, 0 * EYE])},
            DataError,
            r"`covariances_q` must be positive definite.*component 1",
        ),
        (
            {"covariances_q": np.stack([EYE, [[1.0, 2.0], [2.0, 1.0]]])},
            DataError,
            r"`covariances_q` must be positive definite, but component 1 has a smallest eigenvalue of -1",
        ),
        ({"covariances_q": np.stack([EYE, np.ones((2, 2))])}, DataError, r"`covariances_q` must be positive definite"),
        (
            {"covariances_q": np.stack([[[1.0, 0.0], [0.5, 1.0]], EYE])},
            DataError,
            r"`covariances_q` must be symmetric, but component 0",
        ),
        ({"covariances_p": np.full((3, 2), np.nan)}, DataError, r"`covariances_p` must be finite"),
        ({"covariances_p": None}, DataError, r"`covariances_p` must be an array, got None"),
        ({"covariances_p": [[1.0, 2.0], [1.0], [2.0, 1.0]]}, DataError, r"`covariances_p` must be a rectangular array"),
        ({"covariances_p": "diagonal"}, DataError, r"`covariances_p` must be a rectangular array of numbers"),
        ({"weights_p": [0.5, 0.5]}, ShapeError, r"`weights_p` must hold one weight per component, shape \(3,\)"),
        ({"weights_q": [1.0, 0.0]}, DataError, r"`weights_q` must be positive, got 0"),
        ({"weights_q": [1.0, -1.0]}, DataError, r"`weights_q` must be positive, got -1"),
        ({"weights_q": [1.0, np.inf]}, DataError, r"`weights_q` must be finite"),
        ({"means_q": np.zeros((2, 3))}, ShapeError, r"`means_p` and `means_q` must have the same number of columns"),
        ({"means_q": np.full((2, 2), np.nan)}, DataError, r"`means_q` must be finite"),
        ({"means_p": np.zeros((0, 2))}, ShapeError, r"`means_p` must have at least 1 row,"),
    ],
)
def test_bad_parameters_are_named(change, error, message):
    given = dict(zip(("means_p", "covariances_p", "means_q", "covariances_q"), planar(), strict=True))
    with pytest.raises(error, match=f"^cs_gaussian_mixture: {message}"):
        cs_gaussian_mixture(**{**given, **change})


def test_bad_parameters_are_found_inside_jax_grad():
    jax = pytest.importorskip("jax")
    mean = jax.numpy.zeros((1, 2))
    with pytest.raises(CondcsError, match="must hold positive variances"):
        jax.grad(lambda v: cs_gaussian_mixture(mean, v, mean, v))(-jax.numpy.ones((1, 2)))
