"""Conditional MMD and MCMD: reference values, the formula with explicit inverses, gradients, every array library."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from condcs._core.arrays import NUMPY
from condcs._core.checks import Groups
from condcs._core.errors import CondcsError, DataError, ParameterError, ShapeError
from condcs._kernels.log_kernels import gaussian
from condcs._measures.formulas import contrast
from condcs._measures.operator import conditional_mmd, mcmd, operator_interaction

from ..conftest import golden_cases

WIDTHS = {"bandwidth_x": 0.8, "bandwidth_y": 1.1}


def two_samples(n=9, m=7, seed=0):
    rng = np.random.default_rng(seed)
    xp, xq = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    return xp, np.sin(xp[:, :1]) + 0.3 * rng.normal(size=(n, 1)), xq, np.cos(xq[:, :1]) + 0.3 * rng.normal(size=(m, 1))


def gram(a, b, width):
    return np.exp(-cdist(a, b, "sqeuclidean") / (2 * width**2))


def cmmd_with_inverses(xp, yp, xq, yq, regularization, bandwidth_x, bandwidth_y):
    """The definition, term by term, with explicit inverses."""
    total = 0.0
    for sign, (xg, yg, xh, yh) in zip(
        (1, 1, -1, -1),
        ((xp, yp, xp, yp), (xq, yq, xq, yq), (xp, yp, xq, yq), (xq, yq, xp, yp)),
        strict=True,
    ):
        inverse_g = np.linalg.inv(gram(xg, xg, bandwidth_x) + regularization * np.eye(len(xg)))
        inverse_h = np.linalg.inv(gram(xh, xh, bandwidth_x) + regularization * np.eye(len(xh)))
        total += sign * np.trace(gram(xg, xh, bandwidth_x) @ inverse_h @ gram(yh, yg, bandwidth_y) @ inverse_g)
    return total


@pytest.mark.parametrize("case", golden_cases())
def test_conditional_mmd_matches_golden_value(case):
    found = conditional_mmd(
        *(case[k] for k in ("xp", "yp", "xq", "yq")), bandwidth_x=case["bandwidth_x"], bandwidth_y=case["bandwidth_y"]
    )
    assert found == pytest.approx(case["expected"]["conditional_mmd2_lambda0.1"], abs=1e-9)


@pytest.mark.parametrize("case", golden_cases())
def test_mcmd_matches_golden_values(case):
    found = mcmd(
        *(case[k] for k in ("xp", "yp", "xq", "yq")),
        at=case["xp"][:3],
        bandwidth_x=case["bandwidth_x"],
        bandwidth_y=case["bandwidth_y"],
    )
    np.testing.assert_allclose(found, case["expected"]["mcmd2(at=xp[:3], regularization=0.05)"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("regularization", [1e-3, 0.1, 10.0])
def test_conditional_mmd_equals_the_definition_with_inverses(regularization):
    samples = two_samples()
    found = conditional_mmd(*samples, regularization=regularization, **WIDTHS)
    assert found == pytest.approx(cmmd_with_inverses(*samples, regularization, 0.8, 1.1), rel=1e-9)


def test_conditional_mmd_of_single_atoms_in_closed_form():
    """All rows of a sample equal: K = 11', so K~^-1 1 = 1 / (n + lambda), and T_gh = n m k l / ((n + l) (m + l))."""
    xp, yp, xq, yq = np.zeros((4, 1)), np.zeros((4, 1)), np.ones((3, 1)), np.full((3, 1), 2.0)
    weight_p, weight_q, k, similarity = 4 / 4.5, 3 / 3.5, np.exp(-0.5), np.exp(-2.0)
    expected = weight_p**2 + weight_q**2 - 2 * weight_p * weight_q * k * similarity
    found = conditional_mmd(xp, yp, xq, yq, regularization=0.5, bandwidth_x=1.0, bandwidth_y=1.0)
    assert found == pytest.approx(expected, rel=1e-12)


def test_mcmd_equals_the_definition_point_by_point():
    xp, yp, xq, yq = two_samples()
    at = np.array([[0.0, 0.0], [1.0, -1.0]])
    expected = []
    for point in at:
        wp = np.linalg.inv(gram(xp, xp, 0.8) + len(xp) * 0.02 * np.eye(len(xp))) @ gram(xp, point[None], 0.8)[:, 0]
        wq = np.linalg.inv(gram(xq, xq, 0.8) + len(xq) * 0.02 * np.eye(len(xq))) @ gram(xq, point[None], 0.8)[:, 0]
        own = wp @ gram(yp, yp, 1.1) @ wp + wq @ gram(yq, yq, 1.1) @ wq
        expected.append(own - 2 * wp @ gram(yp, yq, 1.1) @ wq)
    np.testing.assert_allclose(mcmd(xp, yp, xq, yq, at=at, regularization=0.02, **WIDTHS), expected, rtol=1e-10)


def test_all_pairs_of_groups_agree_with_one_pair_at_a_time():
    rng = np.random.default_rng(3)
    sizes = (5, 8, 6)
    groups, x, y = Groups(sizes), rng.normal(size=(19, 2)), rng.normal(size=(19, 1))
    kernels = (gaussian(NUMPY, x, np.full(2, 0.8)), gaussian(NUMPY, y, np.full(1, 1.1)))
    t = operator_interaction(*kernels, groups, 0.1)
    found = contrast(t)
    assert found.shape == (3, 3)
    for g, a in enumerate(groups.slices):
        for h, b in enumerate(groups.slices):
            assert found[g, h] == pytest.approx(cmmd_with_inverses(x[a], y[a], x[b], y[b], 0.1, 0.8, 1.1), abs=1e-11)


def test_both_are_zero_for_equal_samples_and_symmetric():
    xp, yp, xq, yq = two_samples()
    assert conditional_mmd(xp, yp, xp, yp) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(mcmd(xp, yp, xp, yp, at=xq), 0, atol=1e-12)
    assert conditional_mmd(xp, yp, xq, yq) == pytest.approx(conditional_mmd(xq, yq, xp, yp), rel=1e-12)
    np.testing.assert_allclose(mcmd(xp, yp, xq, yq, at=xp), mcmd(xq, yq, xp, yp, at=xp), rtol=1e-10)


def test_bandwidth_rule_of_mcmd_does_not_see_the_points():
    """Far points would widen a median taken over them too, and change the value at the origin."""
    samples, near = two_samples(), np.zeros((1, 2))
    alone = mcmd(*samples, at=near)
    among_far = mcmd(*samples, at=np.concatenate([near, np.full((200, 2), 50.0)]))
    assert alone.shape == (1,)
    assert among_far[0] == pytest.approx(alone[0], rel=1e-9)
    np.testing.assert_allclose(among_far[1:], 0, atol=1e-12)


def test_labels_in_x_are_shared_by_samples_and_points():
    """With the delta kernel, K is blocks of ones: the embedding at a label is n_c / (n_c + n lambda) times its mean."""
    x, yp, yq = np.array(["a", "a", "b", "b"]), np.zeros(4), np.array([0.0, 0.0, 2.0, 2.0])
    at_a, at_b = mcmd(x, yp, x, yq, at=np.array(["a", "b"]), kernel_x="delta", bandwidth_y=1.0, regularization=0.05)
    assert at_a == pytest.approx(0, abs=1e-14)
    assert at_b == pytest.approx((2 / 2.2) ** 2 * (2 - 2 * np.exp(-2)), rel=1e-12)


def test_one_dimensional_arrays_are_one_column():
    xp, yp, xq, yq = (a[:, 0] for a in two_samples())
    columns = [a[:, None] for a in (xp, yp, xq, yq)]
    assert conditional_mmd(xp, yp, xq, yq) == conditional_mmd(*columns)
    np.testing.assert_array_equal(mcmd(xp, yp, xq, yq, at=[0.0, 1.0]), mcmd(*columns, at=[[0.0], [1.0]]))


def test_single_precision_agrees_with_double():
    """Conditioning of K + 0.1 I is at most 91 for 9 rows: single precision keeps five digits or more."""
    samples = two_samples()
    single = [a.astype(np.float32) for a in samples]
    found = conditional_mmd(*single, **WIDTHS)
    assert found.dtype == np.float32
    assert found == pytest.approx(conditional_mmd(*samples, **WIDTHS), rel=1e-4)
    points = mcmd(*single, at=single[0], **WIDTHS)
    assert points.dtype == np.float32
    np.testing.assert_allclose(points, mcmd(*samples, at=samples[0], **WIDTHS), atol=1e-5)


def test_torch_values_and_gradients():
    torch = pytest.importorskip("torch")
    arrays = two_samples(5, 4)
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    at = torch.tensor(arrays[2][:2], requires_grad=True)
    found = conditional_mmd(*tensors, **WIDTHS)
    assert isinstance(found, torch.Tensor)
    assert found.item() == pytest.approx(conditional_mmd(*arrays, **WIDTHS), rel=1e-12)
    points = mcmd(*tensors, at=at, **WIDTHS).detach().numpy()
    np.testing.assert_allclose(points, mcmd(*arrays, at=arrays[2][:2], **WIDTHS), rtol=1e-10)
    assert torch.autograd.gradcheck(lambda *a: conditional_mmd(*a, **WIDTHS), tensors)
    assert torch.autograd.gradcheck(lambda *a: mcmd(*a[:4], at=a[4], **WIDTHS), [*tensors, at])


@pytest.mark.slow
def test_jax_values_and_gradients_inside_jit():
    """One compiled sum of both measures, against central differences of the numpy path."""
    jax = pytest.importorskip("jax")
    arrays = two_samples(5, 4)

    def both(yp, xq, at):
        samples = (arrays[0] * yp, yp, xq, xq[:, :1] - 1)
        return conditional_mmd(*samples, **WIDTHS) + 10 * mcmd(*samples, at=at, **WIDTHS).sum()

    places = [arrays[1], arrays[2], arrays[2][:2]]
    with jax.enable_x64(True):
        value, gradients = jax.jit(jax.value_and_grad(both, argnums=(0, 1, 2)))(*(jax.numpy.asarray(a) for a in places))
    assert float(value) == pytest.approx(both(*places), rel=1e-12)
    for i, gradient in enumerate(gradients):
        expected = np.zeros_like(places[i])
        for index in np.ndindex(expected.shape):
            for sign in (1, -1):
                moved = [a.copy() for a in places]
                moved[i][index] += sign * 1e-6
                expected[index] += sign * both(*moved) / 2e-6
        np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-6, atol=1e-7)


def indefinite(a, b):
    """Symmetric and non-negative, but not positive definite: 0 on the diagonal."""
    return (a[:, None, 0] - b[None, :, 0]) ** 2


def test_failed_factorisation_names_the_regularization(library):
    options = {"kernel_x": indefinite, "regularization": 1e-3, "bandwidth_y": 1.0}
    samples = [library.asarray(a) for a in two_samples()]
    with pytest.raises(ParameterError, match=r"conditional_mmd: `regularization` must be large enough.*Increase it"):
        conditional_mmd(*samples, **options)
    with pytest.raises(ParameterError, match=r"mcmd: `regularization` must be large enough.*Increase it"):
        mcmd(*samples, at=samples[0], **options)


@pytest.mark.parametrize("regularization", [0, -0.1, float("nan"), float("inf"), "0.1", True, None])
def test_regularization_must_be_positive(regularization):
    with pytest.raises(ParameterError, match="`regularization` must be a positive, finite number"):
        conditional_mmd(*two_samples(), regularization=regularization)
    with pytest.raises(ParameterError, match="`regularization` must be a positive, finite number"):
        mcmd(*two_samples(), at=np.zeros((1, 2)), regularization=regularization)


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        ([0.0, 1.0], ShapeError, r"mcmd: `xp` and `at` must have the same number of columns"),
        (np.zeros((2, 3)), ShapeError, r"mcmd: `xp` and `at` must have the same number of columns"),
        (np.zeros((0, 2)), ShapeError, r"mcmd: `at` must have at least 1 row,"),
        (np.array([[0.0, np.nan]]), DataError, r"mcmd: `at` must be finite"),
        (None, DataError, r"mcmd: `at` must be an array, got None"),
        (np.zeros((1, 1, 2)), ShapeError, r"mcmd: `at` must have one or two dimensions"),
    ],
)
def test_points_are_checked_like_x(at, error, message):
    with pytest.raises(error, match=message):
        mcmd(*two_samples(), at=at)


def test_points_of_another_library_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(DataError, match="one library, got numpy and torch"):
        mcmd(*two_samples(), at=torch.zeros((1, 2)))


def test_bad_samples_are_refused():
    xp, yp, xq, yq = two_samples()
    for samples in [
        (xp, yp[:-1], xq, yq),
        (xp, yp, xq[:, :1], yq),
        (xp[:1], yp[:1], xq, yq),
        (xp * np.nan, yp, xq, yq),
    ]:
        with pytest.raises(CondcsError, match=r"^conditional_mmd: `"):
            conditional_mmd(*samples)
        with pytest.raises(CondcsError, match=r"^mcmd: `"):
            mcmd(*samples, at=xp)
