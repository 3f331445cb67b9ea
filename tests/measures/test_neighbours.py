"""Conditional KL by nearest neighbours: reference values, brute force, Gaussians with a known answer, ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from condcs._core.errors import CondcsError, DataError, ParameterError
from condcs._core.settings import config_context
from condcs._measures.neighbours import conditional_kl, conditional_kl_pairs, numeric_problem

from ..conftest import golden_cases


def two_samples(n=40, m=30, seed=0):
    rng = np.random.default_rng(seed)
    xp, xq = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    return xp, xp[:, :1] + rng.normal(size=(n, 1)), xq, rng.normal(size=(m, 1)) - xq[:, :1]


def kl_by_sorting(p, q, k):
    """The estimator row by row, from sorted distances."""
    n, d = p.shape
    total = 0.0
    for i in range(n):
        rho = np.sort(np.delete(cdist(p[i : i + 1], p)[0], i))[k - 1]
        nu = np.sort(cdist(p[i : i + 1], q)[0])[k - 1]
        total += np.log(nu / rho)
    return d / n * total + np.log(len(q) / (n - 1))


@pytest.mark.parametrize("case", golden_cases())
def test_matches_golden_value(case):
    found = conditional_kl(*(case[k] for k in ("xp", "yp", "xq", "yq")))
    assert found == pytest.approx(case["expected"]["conditional_kl_k3"], abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 5, 30])
def test_equals_brute_force(k):
    xp, yp, xq, yq = two_samples()
    expected = kl_by_sorting(np.hstack([xp, yp]), np.hstack([xq, yq]), k) - kl_by_sorting(xp, xq, k)
    assert conditional_kl(xp, yp, xq, yq, k=k) == pytest.approx(expected, abs=1e-12)


def test_known_divergence_of_gaussian_conditionals():
    """X ~ N(0, 1), y|x ~ N(0, 1) against N(shift, 1): D = shift^2 / 2 = 0.5.

    Each estimate is a mean of n terms d log(nu/rho). For a Poisson process the log mass of a ball up to the k-th
    neighbour has variance psi'(k), so a term has 2 psi'(3) < 0.8, plus the variance of the log density ratio: 1. A row
    shares its neighbours with about k others, so n counts as n / 4: with n = 4000 the deviation of one estimate is
    below sqrt(1.8 / 1000) = 0.043, that of a difference of two below 0.061. The bound is four of them.
    """
    x, y = np.random.default_rng(1).normal(size=(2, 8000))
    found = conditional_kl(x[:4000], y[:4000], x[4000:], y[4000:] + 1.0)
    assert found == pytest.approx(0.5, abs=4 * 0.061)
    same = conditional_kl(x[:4000], y[:4000], x[4000:], y[4000:])
    assert same == pytest.approx(0.0, abs=4 * 0.061)


def test_all_pairs_of_groups_agree_with_one_pair_at_a_time():
    rng = np.random.default_rng(2)
    x, y = [rng.normal(size=(n, 2)) for n in (12, 15, 9)], [rng.normal(size=(n, 1)) for n in (12, 15, 9)]
    problem = numeric_problem([(f"x[{g}]", a) for g, a in enumerate(x)], [(f"y[{g}]", a) for g, a in enumerate(y)])
    found = conditional_kl_pairs(problem)
    for g in range(3):
        for h in range(3):
            expected = 0.0 if g == h else conditional_kl(x[g], y[g], x[h], y[h])
            assert found[g, h] == pytest.approx(expected, abs=1e-12)
    assert abs(found[0, 1] - found[1, 0]) > 1e-3
    with pytest.raises(ParameterError, match=r"`k` must be an integer from 1 to 8 \(the smallest group has 9 rows\)"):
        conditional_kl_pairs(problem, k=9)


def test_does_not_depend_on_units_or_threads():
    samples = two_samples(1100, 900)
    value = conditional_kl(*samples)
    assert conditional_kl(*(1e3 * a for a in samples)) == pytest.approx(value, abs=1e-10)
    with config_context(n_threads=1):
        assert conditional_kl(*samples) == value


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_squared_distances_neither_overflow_nor_underflow(scale):
    samples = two_samples()
    assert conditional_kl(*(scale * a for a in samples)) == pytest.approx(conditional_kl(*samples), abs=1e-9)


def test_repeated_rows_give_a_finite_value():
    """Rows on a coarse grid: most neighbours are at distance 0 in both samples, and the logarithms stay finite."""
    rng = np.random.default_rng(0)
    xp, xq = rng.integers(0, 3, size=(2, 200, 1)).astype(float)
    yp, yq = rng.integers(0, 3, size=(2, 200, 1)).astype(float)
    assert conditional_kl(xp, yp, xq, yq) == pytest.approx(0, abs=0.2)


def test_floor_is_a_ten_billionth_of_the_largest_range():
    """All rows of p are equal and absent from q: rho is the floor, jointly and for x alone, nu is the gap to q."""
    xp, yp, xq, yq = np.zeros(10), np.zeros(10), np.array([3.0, 4.0]), np.array([4.0, 4.0])
    expected = 2 * np.log(5.0 / 4e-10) - np.log(3.0 / 4e-10)
    assert conditional_kl(xp, yp, xq, yq, k=1) == pytest.approx(expected, rel=1e-9)


def test_single_precision_is_computed_in_double():
    samples = [a.astype(np.float32) for a in two_samples()]
    found = conditional_kl(*samples)
    assert found.dtype == np.float32
    assert found == np.float32(conditional_kl(*(a.astype(np.float64) for a in samples)))


def test_torch_result_is_a_tensor_without_gradient():
    torch = pytest.importorskip("torch")
    arrays = two_samples()
    found = conditional_kl(*(torch.tensor(a, requires_grad=True) for a in arrays))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float64
    assert not found.requires_grad
    assert found.item() == pytest.approx(conditional_kl(*arrays), abs=1e-12)


def test_jax_result_is_an_array_and_tracing_is_refused():
    jax = pytest.importorskip("jax")
    arrays = two_samples()
    with jax.enable_x64(True):
        values = [jax.numpy.asarray(a) for a in arrays]
        found = conditional_kl(*values)
        assert isinstance(found, jax.Array)
        assert float(found) == pytest.approx(conditional_kl(*arrays), abs=1e-12)
        detached = jax.value_and_grad(lambda a: a.sum() * conditional_kl(jax.lax.stop_gradient(a), *values[1:]))
        assert float(detached(values[0])[1][0, 0]) == pytest.approx(float(found))
        for transform in (jax.jit, jax.grad):
            for position in range(4):
                with pytest.raises(DataError, match=r"conditional_kl: `xp` and `xq` must be plain arrays.*no gradient"):
                    transform(lambda a, i=position: conditional_kl(*values[:i], a, *values[i + 1 :]))(values[position])


@pytest.mark.parametrize("k", [0, -1, 31, 2.0, True, "3", None])
def test_k_must_be_an_integer_within_the_samples(k):
    with pytest.raises(ParameterError, match=r"conditional_kl: `k` must be an integer from 1 to 30 \(`xp` has 40 rows"):
        conditional_kl(*two_samples(), k=k)


def test_k_counts_the_other_rows_of_p():
    xp, yp, xq, yq = two_samples(5, 9)
    assert np.isfinite(conditional_kl(xp, yp, xq, yq, k=4))
    with pytest.raises(ParameterError, match="from 1 to 4"):
        conditional_kl(xp, yp, xq, yq, k=5)


@pytest.mark.parametrize("name", ["x", "y"])
def test_constant_column_is_refused(name):
    xp, yp, xq, yq = two_samples()
    if name == "x":
        xp, xq = np.hstack([xp, np.ones((40, 1))]), np.hstack([xq, np.ones((30, 1))])
    else:
        yp, yq = np.ones((40, 1)), np.ones((30, 1))
    with pytest.raises(DataError, match=rf"conditional_kl: `{name}p` and `{name}q` must vary in every column"):
        conditional_kl(xp, yp, xq, yq)


def test_bad_samples_are_refused():
    xp, yp, xq, yq = two_samples()
    labels = np.array(["a", "b"] * 20)
    for samples in [
        (xp, yp[:-1], xq, yq),
        (xp, yp, xq[:, :1], yq),
        (xp[:1], yp[:1], xq, yq),
        (xp * np.inf, yp, xq, yq),
        (xp, labels, xq, yq),
        (None, yp, xq, yq),
    ]:
        with np.errstate(invalid="ignore"), pytest.raises(CondcsError, match=r"^conditional_kl: `"):
            conditional_kl(*samples)
