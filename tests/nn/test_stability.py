"""Finite values and gradients where training gets rough: ties, collapse, missing classes, half precision, compiling."""

import pytest

from condcs._core.errors import BandwidthError, CondcsError, DataError, ParameterError, ShapeError

torch = pytest.importorskip("torch")

import condcs  # noqa: E402
from condcs import nn as cnn  # noqa: E402
from condcs.nn import functional as F  # noqa: E402
from tests.nn.test_functional import LOSSES, batch  # noqa: E402


def finite(name, inputs):
    inputs = [a.clone().requires_grad_() for a in inputs]
    value = LOSSES[name](*inputs)
    gradients = [g for g in torch.autograd.grad(value, inputs, allow_unused=True) if g is not None]
    assert torch.isfinite(value)
    assert gradients
    assert all(torch.isfinite(g).all() for g in gradients)
    return value


ROUGH = {
    "identical rows": lambda zs, ys, zt, yt: (zs[:1].expand_as(zs), ys[:1].expand_as(ys), zs[:1].expand_as(zt), yt),
    "collapsed to zero": lambda zs, ys, zt, yt: (0 * zs, ys, 0 * zt, yt),
    "one domain collapsed": lambda zs, ys, zt, yt: (zs, ys, 0 * zt, yt),
    "a class missing": lambda zs, ys, zt, yt: (zs, torch.tensor([[1.0, 0.0]]).expand_as(ys), zt, yt),
    "far apart": lambda zs, ys, zt, yt: (zs, ys, zt + 300, yt),
    "far from the origin": lambda zs, ys, zt, yt: (zs + 3000, ys, zt + 3000, yt),
    "tiny": lambda zs, ys, zt, yt: (1e-20 * zs, ys, 1e-20 * zt, yt),
    "huge": lambda zs, ys, zt, yt: (1e6 * zs, ys, 1e6 * zt, yt),
}


@pytest.mark.parametrize("rough", ROUGH)
@pytest.mark.parametrize("name", LOSSES)
def test_fixed_widths_stay_finite(name, rough):
    finite(name, ROUGH[rough](*batch(dtype=torch.float32)))


@pytest.mark.parametrize("name", [n for n in LOSSES if n != "cmmd"])
@pytest.mark.parametrize("where", ["at the origin", "far away"])
def test_single_precision_keeps_its_digits(name, where):
    """float32 against float64 of the same numbers; 100 widths from the origin only the double product can do it."""
    inputs = [a.float() for a in batch(n=40, m=30)]
    if where == "far away" and name != "cs, unit rows":
        inputs = [inputs[0] + 90, inputs[1], inputs[2] + 90, inputs[3]]
    single, double = LOSSES[name](*inputs), LOSSES[name](*(a.double() for a in inputs))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_autocast_does_not_reach_the_kernels(name):
    """Features of a bfloat16 network; the loss is what it is without autocast, in single precision."""
    inputs = [a.bfloat16() for a in batch(n=40, m=30)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = LOSSES[name](*inputs)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, LOSSES[name](*inputs))


@pytest.mark.parametrize("name", ["conditional_cs", "conditional_mmd", "cs", "mmd", "pairwise"])
@pytest.mark.parametrize("rows", [30, 1200])
def test_top_level_functions_under_autocast_were_wrong(name, rows):
    """bfloat16 products left 0.00 of 0.65: autocast is off inside."""
    # The many rows are for the tiled row sums; conditional MMD has none, and costs O(rows^3).
    rows = min(rows, 200) if name == "conditional_mmd" else rows
    zs, _, zt, _ = (a.float().requires_grad_() for a in batch(n=rows, m=rows))

    def value():
        if name == "pairwise":
            return condcs.pairwise([(zs, zs[:, :1]), (zt, -zt[:, :1])])[0, 1]
        if name in ("cs", "mmd"):
            return getattr(condcs, name)(zs, zt)
        return getattr(condcs, name)(zs, zs[:, :1], zt, -zt[:, :1])

    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = value()
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, value())
    # Outside autocast, as torch asks for: backward passes follow the types of the forward pass.
    assert torch.isfinite(torch.autograd.grad(inside, zs)[0]).all()


def test_autocast_and_arguments_by_name():
    zs, _, zt, _ = (a.bfloat16() for a in batch())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = F.cs_loss(source=zs, target=zt, bandwidth=0.9)
    torch.testing.assert_close(inside, F.cs_loss(zs, zt, bandwidth=0.9))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alignment", "regression", "mk_mmd"])
def test_compiled_losses(name):
    """The whole graph is traced, without a break; values and gradients agree."""
    inputs = [a.float().requires_grad_() for a in batch(n=16, m=12)]
    compiled = torch.compile(LOSSES[name], backend="aot_eager", fullgraph=True)
    value, expected = compiled(*inputs), LOSSES[name](*inputs)
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-5)
    ours, theirs = (torch.autograd.grad(v, inputs, allow_unused=True) for v in (value, expected))
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_a_rule_inside_a_compiled_loss():
    """The width is found outside the graph."""
    zs, _, zt, _ = batch(dtype=torch.float32)
    compiled = torch.compile(F.cs_loss, backend="aot_eager")
    torch.testing.assert_close(compiled(zs, zt), F.cs_loss(zs, zt), rtol=1e-4, atol=1e-5)


Z, Y, P = torch.zeros(6, 2), torch.arange(6) % 2, torch.full((6, 2), 0.5)
G = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))

BAD = {
    "rule on collapsed features": (
        lambda: F.cs_loss(Z, Z),
        BandwidthError,
        "`bandwidth`: the rule 'joint_median' finds bandwidth 0",
    ),
    "mean rule on collapsed features": (
        lambda: F.mmd_loss(Z, Z, bandwidth="mean"),
        BandwidthError,
        "finds bandwidth 0",
    ),
    "batch of one": (lambda: F.cs_loss(G[:1], G), ShapeError, "`source` must have at least 2 rows, got 1"),
    "batch of one in y": (lambda: F.conditional_cs_loss(G[:1], G[:1], G[:1]), ShapeError, "drop_last=True"),
    "unknown rule": (
        lambda: F.cs_loss(G, G, bandwidth="auto"),
        BandwidthError,
        "one of the rules 'median', 'joint_median', 'mean'",
    ),
    "negative width": (lambda: F.cs_loss(G, G, bandwidth=-1.0), BandwidthError, "Pass e.g. bandwidth=1.0"),
    "boolean width": (lambda: F.cs_loss(G, G, bandwidth=True), BandwidthError, "Pass e.g. bandwidth=1.0"),
    "columns": (lambda: F.cs_loss(G, G[:, :1]), ShapeError, "`target` must have 2 columns"),
    "rows": (lambda: F.conditional_cs_loss(G, G, G[:4]), ShapeError, "`x` must have 6 rows"),
    "array": (lambda: F.cs_loss(G.numpy(), G), DataError, "`source` must be a torch tensor, got ndarray"),
    "NaN": (lambda: F.cs_loss(G / 0 * 0, G, bandwidth=1.0), DataError, "`source` must be finite"),
    "complex": (lambda: F.cs_loss(G + 1j, G), DataError, "`source` must hold real numbers"),
    "both labels integers": (lambda: F.conditional_cs_alignment_loss(G, Y, G, Y), ShapeError, "one_hot"),
    "labels from 1": (lambda: F.conditional_cs_alignment_loss(G, Y + 1, G, P), DataError, "Number the classes from 0"),
    "negative weight": (
        lambda: F.cs_loss(G, G, weights_source=-torch.ones(6)),
        DataError,
        "`weights_source` must not be negative",
    ),
    "weights of another length": (
        lambda: F.cs_loss(G, G, weights_target=torch.ones(5)),
        ShapeError,
        "one weight per row",
    ),
    "reduction": (lambda: F.cs_loss(G, G, reduction="max"), ParameterError, "`reduction` must be one of"),
    "form": (lambda: F.conditional_cs_loss(G, G, G, form="x"), ParameterError, "`form` must be one of"),
    "layers": (lambda: F.jmmd_loss(G, G), ShapeError, "sequences with the same number of layers"),
    "rows of layers": (lambda: F.jmmd_loss([G, G[:4]], [G, G]), ShapeError, "must have the same number of rows"),
    "multiples": (lambda: F.mk_mmd_loss(G, G, multiples=()), ParameterError, "`multiples` must hold at least one"),
    "scale": (lambda: F.conditional_cs_loss(G, G, G, scale_x=0.0), ParameterError, "`scale_x` must be a positive"),
    "kernel": (lambda: F.conditional_independence_loss(G, G, G, kernel_x1="rbf"), ParameterError, "`kernel_x1`"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input(what):
    call, error, message = BAD[what]
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
    assert str(caught.value).partition(":")[0].endswith("_loss")
    assert isinstance(caught.value, CondcsError)


def test_modules_are_their_functions():
    """The module holds options; forward passes tensors on."""
    zs, ys, zt, yt = batch()
    torch.testing.assert_close(cnn.CSLoss(bandwidth=0.7)(zs, zt), F.cs_loss(zs, zt, bandwidth=0.7))
    torch.testing.assert_close(cnn.MMDLoss(normalize=True)(zs, zt), F.mmd_loss(zs, zt, normalize=True))
    two = F.mk_mmd_loss(zs, zt) + F.mk_mmd_loss(ys, yt)
    torch.testing.assert_close(cnn.MKMMDLoss()([zs, ys], [zt, yt]), two)
    torch.testing.assert_close(cnn.MKMMDLoss()(zs, zt), F.mk_mmd_loss(zs, zt))
    torch.testing.assert_close(cnn.JMMDLoss()([zs, ys], [zt, yt]), F.jmmd_loss([zs, ys], [zt, yt]))
    torch.testing.assert_close(
        cnn.DJPMMDLoss(form="paper")(zs, ys, zt, yt), F.djp_mmd_loss(zs, ys, zt, yt, form="paper")
    )
    torch.testing.assert_close(cnn.CMMDLoss()(zs, ys, zt, yt), F.cmmd_loss(zs, ys, zt, yt))
    ours = cnn.ConditionalCSAlignment(conditional=2.0)(zs, ys, zt, yt)
    torch.testing.assert_close(ours, F.conditional_cs_alignment_loss(zs, ys, zt, yt, conditional=2.0))
    torch.testing.assert_close(
        cnn.ConditionalCSLoss(form="symmetric")(zs, zs + 1, ys), F.conditional_cs_loss(zs, zs + 1, ys, form="symmetric")
    )
    ours = cnn.ConditionalIndependencePenalty(bandwidth_y=0.5)(zs, ys, ys)
    torch.testing.assert_close(ours, F.conditional_independence_loss(zs, ys, ys, bandwidth_y=0.5))
    assert "bandwidth=0.7" in repr(cnn.CSLoss(bandwidth=0.7))
    assert not list(cnn.CSLoss().parameters())


def test_every_loss_is_exported_and_documented():
    assert cnn.__all__ == sorted(cnn.__all__, key=lambda n: (0 if n.isupper() else 1 if n[0].isupper() else 2, n))
    for name in cnn.__all__:
        assert getattr(cnn, name).__doc__
    for name in F.__all__:
        assert "Parameters" in getattr(F, name).__doc__


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("outlier", [1e3, 1e6, 1e9])
def test_one_far_row_cancelled_in_the_losses(outlier, dtype):
    """One feature at 1e9 took 0.54 off the alignment loss, and moved all other rows in double precision."""
    zs, _, zt, _ = batch(n=40, m=30)
    zs, zt = zs.clone(), zt.clone()
    zs[3] = outlier
    zs, zt, ys, yt = (a.to(dtype) for a in (zs, zt, zs[:, :1].sin(), zt[:, :1].sin()))
    exact = [a.double().numpy() for a in (zs, ys, zt, yt)]
    marginal = condcs.cs(exact[0], exact[2], bandwidth=1.0)
    conditional = condcs.conditional_cs(*exact, bandwidth_x=1.0, bandwidth_y=1.0)
    tolerance = {"rel": 1e-4, "abs": 1e-4} if dtype == torch.float32 else {"rel": 1e-10, "abs": 1e-10}
    assert F.cs_loss(zs, zt, bandwidth=1.0).item() == pytest.approx(marginal, **tolerance)
    found = F.conditional_cs_alignment_loss(zs, ys, zt, yt, normalize=False)
    assert found.item() == pytest.approx(marginal + conditional, **tolerance)
