"""Gradients through torch and JAX: dense and tiled, for every differentiable measure and kernel."""

import numpy as np
import pytest

import condcs
from condcs._kernels import row_sums
from condcs._measures.registry import MEASURES
from tests.bandwidth_options import own_bandwidths

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

DIFFERENTIABLE = [name for name, measure in MEASURES.items() if measure.differentiable]


def samples(seed=0, n=6, m=5, dx=2, dy=1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in ((n, dx), (n, dy), (m, dx), (m, dy))]


def arguments(measure, data):
    return data if measure.takes_x else [data[1], data[3]]


def fixed_widths(measure):
    return dict.fromkeys(own_bandwidths(measure), 0.9)


@pytest.fixture(params=["dense", "tiled"])
def path(request, monkeypatch):
    """Either path of the row sums, with tiles small enough that there are several."""
    if request.param == "tiled":
        monkeypatch.setattr(row_sums, "DENSE_PAIRS", 0)
        monkeypatch.setattr(row_sums, "_TILE_FLOATS", 16)
    return request.param


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_torch_gradcheck_of_every_measure(name, path):
    measure = MEASURES[name]
    inputs = [torch.tensor(a, requires_grad=True) for a in arguments(measure, samples())]
    assert torch.autograd.gradcheck(lambda *a: measure(*a, **fixed_widths(measure)), inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_jax_agrees_with_torch(name, path):
    measure = MEASURES[name]
    data = arguments(measure, samples())
    inputs = [torch.tensor(a, requires_grad=True) for a in data]
    measure(*inputs, **fixed_widths(measure)).backward()
    with jax.enable_x64(True):
        gradients = jax.grad(lambda *a: measure(*a, **fixed_widths(measure)), argnums=tuple(range(len(data))))(
            *(jax.numpy.asarray(a) for a in data)
        )
    for ours, theirs in zip(gradients, inputs, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs.grad.numpy(), atol=1e-10)


@pytest.mark.parametrize("kernel", ["laplacian", ["gaussian", "laplacian"], ["gaussian", "delta"], "callable"])
def test_gradients_of_other_kernels(kernel, path):
    def inverse_quadratic(a, b):
        return 1 / (1 + ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1))

    xp, yp, xq, yq = samples()
    if "delta" in kernel:
        xp[:, 1], xq[:, 1] = np.arange(6) % 2, np.arange(5) % 2
    inputs = [torch.tensor(a, requires_grad=True) for a in (xp, yp, xq, yq)]
    options = {"kernel_x": inverse_quadratic if kernel == "callable" else kernel}
    options |= {"bandwidth_x": 0.8, "bandwidth_y": 0.9}

    def function(xp, yp, xq, yq):
        if "delta" in kernel:  # labels have no derivative; their column must not move under finite differences
            xp = torch.stack([xp[:, 0], xp[:, 1].detach().round()], dim=1)
            xq = torch.stack([xq[:, 0], xq[:, 1].detach().round()], dim=1)
        return condcs.conditional_cs(xp, yp, xq, yq, **options)

    assert torch.autograd.gradcheck(function, inputs)


@pytest.mark.parametrize("function", ["conditional_cs_responses", "conditional_cs_predictors"])
@pytest.mark.parametrize("form", [0, 1])
def test_special_cases(function, form, path):
    rng = np.random.default_rng(1)
    inputs = [torch.tensor(rng.normal(size=(6, d)), requires_grad=True) for d in (2, 1, 1)]
    forms = {"conditional_cs_responses": ("paper", "symmetric"), "conditional_cs_predictors": ("corrected", "paper")}
    names = (
        ("bandwidth_x", "bandwidth_y") if "responses" in function else ("bandwidth_y", "bandwidth_x1", "bandwidth_x2")
    )
    options = dict.fromkeys(names, 0.9) | {"form": forms[function][form]}
    assert torch.autograd.gradcheck(lambda *a: getattr(condcs, function)(*a, **options), inputs)


@pytest.mark.parametrize("estimator", ["paper", "pooled", "p", "q"])
def test_gradients_with_respect_to_weights(estimator, path):
    data = [torch.tensor(a) for a in samples()]
    weights = [torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) + 0.5 for n in (6, 5)]

    def function(weights_p, weights_q):
        return condcs.conditional_cs(
            *data, weights_p=weights_p, weights_q=weights_q, bandwidth_x=0.9, bandwidth_y=0.9, estimator=estimator
        )

    assert torch.autograd.gradcheck(function, [w.requires_grad_() for w in weights])


def test_gradients_stay_finite_far_into_underflow(path):
    """Samples 200 widths apart: the loss and its gradient are finite, and the gradient pulls the responses together."""
    xp, yp, xq, yq = (torch.tensor(a) for a in samples())
    yq = (yq + 50).requires_grad_()
    condcs.conditional_cs(xp, yp, xq + 200, yq, bandwidth_x=1.0, bandwidth_y=1.0).backward()
    assert torch.isfinite(yq.grad).all()
    assert (yq.grad.sum() > 0).item()


def test_identical_rows_have_a_gradient(path):
    """Coinciding rows: distances of 0 must not give NaN, for the Laplacian either."""
    x = torch.zeros(5, 2, dtype=torch.float64, requires_grad=True)
    y = torch.ones(5, 1, dtype=torch.float64, requires_grad=True)
    for kernel in ("gaussian", "laplacian"):
        loss = condcs.conditional_cs(x, y, x + 1, y, bandwidth_x=1.0, bandwidth_y=1.0, kernel_x=kernel, kernel_y=kernel)
        gradients = torch.autograd.grad(loss, [x, y])
        assert all(torch.isfinite(g).all() for g in gradients)


def test_rule_based_bandwidths_count_as_constants():
    xp, yp, xq, yq = (torch.tensor(a) for a in samples())
    xp.requires_grad_()
    width_x, width_y = condcs.bandwidth(xp, xq), condcs.bandwidth(yp, yq)
    (by_rule,) = torch.autograd.grad(condcs.conditional_cs(xp, yp, xq, yq), xp)
    (fixed,) = torch.autograd.grad(condcs.conditional_cs(xp, yp, xq, yq, bandwidth_x=width_x, bandwidth_y=width_y), xp)
    torch.testing.assert_close(by_rule, fixed)


@pytest.mark.slow
def test_jax_jit_needs_numbers_for_widths():
    data = [jax.numpy.asarray(a) for a in samples()]
    compiled = jax.jit(lambda *a: condcs.conditional_cs(*a, bandwidth_x=0.9, bandwidth_y=0.9))
    expected = condcs.conditional_cs(*data, bandwidth_x=0.9, bandwidth_y=0.9)
    assert float(compiled(*data)) == pytest.approx(float(expected), abs=1e-5)
    with pytest.raises(condcs._core.errors.BandwidthError, match=r"inside jax\.jit"):
        jax.jit(condcs.conditional_cs)(*data)


def test_tiled_path_equals_dense_path_on_a_larger_sample(monkeypatch):
    rng = np.random.default_rng(5)
    data = [
        torch.tensor(rng.normal(size=(n, d)), requires_grad=True) for n, d in ((300, 3), (300, 2), (250, 3), (250, 2))
    ]
    dense = condcs.conditional_cs(*data)
    dense_gradients = torch.autograd.grad(dense, data)
    monkeypatch.setattr(row_sums, "DENSE_PAIRS", 0)
    monkeypatch.setattr(row_sums, "_TILE_FLOATS", 2**14)
    tiled = condcs.conditional_cs(*data)
    torch.testing.assert_close(tiled, dense, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(torch.autograd.grad(tiled, data), dense_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-13)
