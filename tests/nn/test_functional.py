"""Losses: equal to the core's measures and to closed forms, with gradients, weights and shares of rows."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import condcs
from tests.conftest import golden_cases

torch = pytest.importorskip("torch")

from condcs.nn import _dense as dense  # noqa: E402
from condcs.nn import functional as F  # noqa: E402


def batch(seed=0, n=12, m=9, d=3, classes=2, dtype=torch.float64):
    make = torch.Generator().manual_seed(seed)
    zs, zt = (torch.randn(k, d, generator=make, dtype=dtype) for k in (n, m))
    ys, yt = (torch.randn(k, classes, generator=make, dtype=dtype).softmax(1) for k in (n, m))
    return zs, ys, zt + 0.4, yt


def weights(n, seed=5):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.3


@pytest.mark.parametrize("shift", [0.0, 0.8, 2.0])
def test_cs_of_shifted_gaussians(shift):
    """Unit-variance Gaussians: D = shift^2 / (bandwidth^2 + 2)."""
    p = torch.tensor(norm.ppf((np.arange(800) + 0.5) / 800))
    expected = shift**2 / (0.5**2 + 2)
    assert F.cs_loss(p, p + shift, bandwidth=0.5).item() == pytest.approx(expected, rel=2e-3, abs=1e-12)


@pytest.mark.parametrize("case", golden_cases())
def test_golden_values(case):
    """Values of independent dense code, in double precision."""
    xp, yp, xq, yq = (
        torch.tensor(np.asarray(case[k], dtype=float).reshape(len(case[k]), -1)) for k in ("xp", "yp", "xq", "yq")
    )
    found = F.conditional_cs_alignment_loss(
        xp,
        yp,
        xq,
        yq,
        marginal=0.0,
        normalize=False,
        bandwidth=case["bandwidth_x"],
        bandwidth_y=case["bandwidth_y"],
    )
    assert found.item() == pytest.approx(case["expected"]["conditional_cs"], rel=1e-9, abs=1e-9)


def test_values_are_those_of_the_core():
    """The dense formulas of the losses and the row sums of the core share no code beyond the checks."""
    zs, ys, zt, yt = batch()
    close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)  # noqa: E731
    close(F.cs_loss(zs, zt), condcs.cs(zs, zt, bandwidth="joint_median"))
    close(F.cs_loss(zs, zt, bandwidth="median"), condcs.cs(zs, zt))
    close(F.mmd_loss(zs, zt, bandwidth=0.7), condcs.mmd(zs, zt, bandwidth=0.7))
    close(F.jmmd_loss([zs, ys], [zt, yt], bandwidth="median"), condcs.joint_mmd(zs, ys, zt, yt))
    close(F.cmmd_loss(zs, ys, zt, yt, bandwidth="median", bandwidth_y="median"), condcs.conditional_mmd(zs, ys, zt, yt))
    for estimator in ("paper", "pooled"):
        parts = condcs.cs(zs, zt, bandwidth=0.9) + condcs.conditional_cs(
            zs, ys, zt, yt, bandwidth_x=0.9, bandwidth_y=0.6, estimator=estimator
        )
        options = {"bandwidth": 0.9, "bandwidth_y": 0.6, "normalize": False, "estimator": estimator}
        close(F.conditional_cs_alignment_loss(zs, ys, zt, yt, **options), parts)
    for form in ("paper", "symmetric"):
        options = {"form": form, "bandwidth_x": 0.8, "bandwidth_y": 0.3}
        ours = F.conditional_cs_loss(ys, ys.flip(0), zs, **options)
        close(ours, condcs.conditional_cs_responses(zs, ys.flip(0), ys, **options))
    for form in ("corrected", "paper"):
        close(
            F.conditional_independence_loss(ys, zs, ys, form=form),
            condcs.conditional_cs_predictors(ys, zs, ys, form=form),
        )


def test_labels_of_the_penalty_are_those_of_the_core():
    rng = np.random.default_rng(0)
    y, label, group = (
        torch.tensor(rng.random(40)),
        torch.tensor(rng.integers(0, 2, 40)),
        torch.tensor(rng.integers(0, 3, 40)),
    )
    ours = F.conditional_independence_loss(y, label, group, bandwidth_y=0.3, kernel_x1="delta", kernel_x2="delta")
    theirs = condcs.conditional_cs_predictors(
        y, label.double(), group.double(), bandwidth_y=0.3, kernel_x1="delta", kernel_x2="delta"
    )
    torch.testing.assert_close(ours, theirs)


def test_multi_kernel_is_the_mean_of_its_kernels():
    zs, _, zt, _ = batch()
    single = [F.mmd_loss(zs, zt, bandwidth=1.3 * m) for m in (0.25, 0.5, 1.0, 2.0, 4.0)]
    torch.testing.assert_close(F.mk_mmd_loss(zs, zt, bandwidth=1.3), torch.stack(single).mean())


def test_djp_mmd_by_hand():
    """Joint means of classes weighted by their shares: written out with loops."""
    zs, ys, zt, yt = batch(classes=3)
    k = lambda a, b: math.exp(-float(((a - b) ** 2).sum()) / 2)  # noqa: E731

    def distance(c, e):
        u = [(float(y[c]) / len(zs), z) for y, z in zip(ys, zs, strict=True)]
        u += [(-float(y[e]) / len(zt), z) for y, z in zip(yt, zt, strict=True)]
        return sum(a * b * k(z, v) for a, z in u for b, v in u)

    expected = sum(distance(c, c) for c in range(3)) - 0.1 * sum(
        distance(c, e) for c in range(3) for e in range(3) if c != e
    )
    assert F.djp_mmd_loss(zs, ys, zt, yt, bandwidth=1.0).item() == pytest.approx(expected, rel=1e-10)


def test_djp_mmd_as_described_is_marginal_plus_classes():
    zs, _, zt, _ = batch(n=8, m=6)
    ys, yt = torch.tensor([0, 1] * 4), torch.tensor([0, 1] * 3)
    onehot = torch.nn.functional.one_hot(yt, 2).double()
    parts = [F.mmd_loss(zs[ys == c], zt[yt == c], bandwidth=1.0) for c in (0, 1)]
    expected = F.mmd_loss(zs, zt, bandwidth=1.0) + (parts[0] + parts[1]) / 2
    torch.testing.assert_close(F.djp_mmd_loss(zs, ys, zt, onehot, bandwidth=1.0, form="paper"), expected)


def test_narrow_kernels_make_the_regression_loss_a_correntropy():
    """K becomes the identity: D = -2 log mean k(prediction, truth)."""
    x, y = torch.arange(30.0).double(), torch.randn(30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    guess = y + 0.3
    expected = -2 * torch.log(torch.exp(-((guess - y) ** 2) / (2 * 0.8**2)).mean())
    torch.testing.assert_close(F.conditional_cs_loss(guess, y, x, bandwidth_x=1e-3, bandwidth_y=0.8), expected)


LOSSES = {
    "cs": lambda zs, ys, zt, yt: F.cs_loss(zs, zt, bandwidth=0.9),
    "cs, unit rows": lambda zs, ys, zt, yt: F.cs_loss(zs, zt, bandwidth=0.9, normalize=True),
    "mmd": lambda zs, ys, zt, yt: F.mmd_loss(zs, zt, bandwidth=0.9),
    "mk_mmd": lambda zs, ys, zt, yt: F.mk_mmd_loss(zs, zt, bandwidth=0.9),
    "jmmd": lambda zs, ys, zt, yt: F.jmmd_loss([zs, ys], [zt, yt], bandwidth=0.9),
    "djp_mmd": lambda zs, ys, zt, yt: F.djp_mmd_loss(zs, ys, zt, yt, bandwidth=0.9),
    "djp_mmd, as described": lambda zs, ys, zt, yt: F.djp_mmd_loss(zs, ys, zt, yt, bandwidth=0.9, form="paper"),
    "alignment": lambda zs, ys, zt, yt: F.conditional_cs_alignment_loss(zs, ys, zt, yt),
    "alignment, pooled": lambda zs, ys, zt, yt: F.conditional_cs_alignment_loss(zs, ys, zt, yt, estimator="pooled"),
    "cmmd": lambda zs, ys, zt, yt: F.cmmd_loss(zs, ys, zt, yt, bandwidth=0.9),
    "regression": lambda zs, ys, zt, yt: F.conditional_cs_loss(zt, zs[: len(zt)], yt, bandwidth_x=0.4, bandwidth_y=0.9),
    "regression, symmetric": lambda zs, ys, zt, yt: F.conditional_cs_loss(
        zt, zs[: len(zt)], yt, bandwidth_x=0.4, bandwidth_y=0.9, form="symmetric"
    ),
    "independence": lambda zs, ys, zt, yt: F.conditional_independence_loss(
        zs, ys, ys[:, :1], bandwidth_y=0.9, bandwidth_x1=0.5, bandwidth_x2=0.5
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients(name):
    inputs = [a.requires_grad_() for a in batch(n=6, m=5)]
    assert torch.autograd.gradcheck(LOSSES[name], inputs)


@pytest.mark.parametrize("name", [n for n in LOSSES if n != "cmmd"])
def test_gradients_in_the_log_domain(name, monkeypatch):
    """Rows summed by running maxima: the path of underflow and of compiled graphs."""
    monkeypatch.setattr(dense, "_FLOOR", {torch.float64: math.inf, torch.float32: math.inf})
    inputs = [a.requires_grad_() for a in batch(n=6, m=5)]
    expected = [a.detach().clone().requires_grad_() for a in inputs]
    value = LOSSES[name](*inputs)
    monkeypatch.undo()
    torch.testing.assert_close(value, LOSSES[name](*expected), rtol=1e-10, atol=1e-12)
    monkeypatch.setattr(dense, "_FLOOR", {torch.float64: math.inf, torch.float32: math.inf})
    assert torch.autograd.gradcheck(LOSSES[name], inputs)


@pytest.mark.parametrize("name", ["cs", "alignment", "regression", "independence"])
def test_second_derivatives(name):
    """Penalties on gradients (IRM, Wasserstein critics) go through the losses twice."""
    inputs = [a.requires_grad_() for a in batch(n=5, m=4, d=2)]
    assert torch.autograd.gradgradcheck(LOSSES[name], inputs)


def test_weights_count_rows():
    """A row of weight 2 is two equal rows; weights have gradients."""
    zs, ys, zt, yt = batch()
    ws, wt = torch.ones(12, dtype=torch.float64), torch.ones(9, dtype=torch.float64)
    ws[3], wt[0] = 2.0, 0.0
    twice = [torch.cat([a, a[3:4]]) for a in (zs, ys)]
    for loss in (
        lambda a, b, c, d, **w: F.cs_loss(a, c, bandwidth=0.9, **w),
        lambda a, b, c, d, **w: F.mmd_loss(a, c, bandwidth=0.9, **w),
        lambda a, b, c, d, **w: F.conditional_cs_alignment_loss(a, b, c, d, **w),
        lambda a, b, c, d, **w: F.conditional_cs_alignment_loss(a, b, c, d, estimator="pooled", **w),
    ):
        weighted = loss(zs, ys, zt, yt, weights_source=ws, weights_target=wt)
        torch.testing.assert_close(weighted, loss(*twice, zt[1:], yt[1:]), rtol=1e-10, atol=1e-12)
        free = [w.clone().requires_grad_() for w in (weights(12), weights(9))]
        assert torch.autograd.gradcheck(lambda s, t: loss(zs, ys, zt, yt, weights_source=s, weights_target=t), free)  # noqa: B023
    options = {"bandwidth_x": 0.5, "bandwidth_y": 0.9}
    weighted = F.conditional_cs_loss(zs, zs + 0.1, ys, weights=ws, **options)
    torch.testing.assert_close(weighted, F.conditional_cs_loss(twice[0], twice[0] + 0.1, twice[1], **options))


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_reductions_belong_together(reduction):
    """Shares average to the divergence and sum to the reduction "sum", and so do their gradients."""
    zs, ys, zt, yt = batch()
    zs.requires_grad_()
    calls = {
        21: lambda r: F.conditional_cs_alignment_loss(zs, ys, zt, yt, reduction=r),
        12: lambda r: F.conditional_cs_loss(zs, zs.detach() + 0.1, ys, reduction=r),
    }
    calls[21.0] = lambda r: F.mmd_loss(zs, zt, reduction=r)
    for n, call in calls.items():
        whole, found = call("mean"), call(reduction)
        assert found.shape == (() if reduction == "sum" else (int(n),))
        total = found if reduction == "sum" else found.sum()
        torch.testing.assert_close(total, whole * n)
        (ours,), (theirs,) = torch.autograd.grad(total, zs), torch.autograd.grad(whole * n, zs)
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_integer_labels_are_one_hot():
    zs, _, zt, yt = batch()
    labels = torch.arange(12) % 2
    onehot = torch.nn.functional.one_hot(labels, 2).double()
    torch.testing.assert_close(
        F.conditional_cs_alignment_loss(zs, labels, zt, yt), F.conditional_cs_alignment_loss(zs, onehot, zt, yt)
    )


def test_large_batches_are_tiled(monkeypatch):
    """Above the limit the core's linear-memory sums give the same value and gradient, with weights too."""
    zs, ys, zt, yt = batch(n=60, m=50)
    ws = weights(60)
    calls = [
        lambda z: F.cs_loss(z, zt),
        lambda z: F.mk_mmd_loss(z, zt),
        lambda z: F.conditional_cs_alignment_loss(z, ys, zt, yt, weights_source=ws),
        lambda z: F.conditional_cs_loss(z, z.detach() + 0.1, ys, form="symmetric"),
        lambda z: F.conditional_independence_loss(z, ys, (ys[:, 0] > 0.5), kernel_x2="delta", reduction="sum"),
    ]
    for call in calls:
        z = zs.clone().requires_grad_()
        dense = call(z)
        (expected,) = torch.autograd.grad(dense, z)
        with monkeypatch.context() as patch:
            for module in ("_dense", "functional"):
                patch.setattr(f"condcs.nn.{module}.DENSE_ROWS", 20)
            patch.setattr("condcs._kernels.row_sums.DENSE_PAIRS", 0)
            tiled = call(z)
            (found,) = torch.autograd.grad(tiled, z)
            if call is calls[0]:
                with pytest.raises(condcs._core.errors.ParameterError, match='`reduction`="none" is not possible here'):
                    F.cs_loss(z, zt, reduction="none")
        torch.testing.assert_close(tiled, dense, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-11)


def test_median_of_more_than_2000_rows_differed_from_the_core():
    """The same subsample, whoever asks."""
    zs, _, zt, _ = batch(n=1500, m=1200)
    assert dense.width("bandwidth", "joint_median", zs, zt).item() == pytest.approx(
        condcs.bandwidth(zs, zt, rule="joint_median"), rel=1e-12
    )


def test_rules_are_those_of_the_core():
    zs, _, zt, _ = batch()
    assert dense.width("bandwidth", "joint_median", zs, zt).item() == pytest.approx(
        condcs.bandwidth(zs, zt, rule="joint_median"), rel=1e-12
    )
    pooled = torch.cat([zs, zt])
    squared = torch.nn.functional.pdist(pooled).square().mean()
    assert dense.width("bandwidth", "mean", zs, zt).item() == pytest.approx(squared.sqrt().item(), rel=1e-12)


@pytest.mark.parametrize("rule", ["median", "joint_median", "mean"])
@pytest.mark.parametrize("loss", ["cs", "mmd", "mk_mmd", "jmmd", "alignment", "responses", "independence"])
def test_rows_of_weight_zero_widened_bandwidths(loss, rule):
    """They lie far off: a rule looked at them, though their weight was 0. Gradients reach no absent row."""
    zs, ys, zt, yt = batch(n=12, m=12)
    w = torch.where(torch.arange(12) % 4 == 1, 0.0, weights(12))
    present = w > 0
    for table in (zs, ys, zt, yt):
        table[~present] = 40.0
    pair = {"cs": F.cs_loss, "mmd": F.mmd_loss, "mk_mmd": F.mk_mmd_loss}

    def value(rows):
        s, a, t, b = (table[rows] for table in (zs, ys, zt, yt))
        s.requires_grad_()
        both = {"weights_source": w[rows], "weights_target": w[rows]}
        one = {"weights": w[rows]}
        if loss in pair:
            found = pair[loss](s, t, bandwidth=rule, **both)
        elif loss == "jmmd":
            found = F.jmmd_loss([s, a], [t, b], bandwidth=rule, **both)
        elif loss == "alignment":
            options = {"bandwidth": rule, "bandwidth_y": rule, "normalize": False, **both}
            found = F.conditional_cs_alignment_loss(s, a, t, b, **options)
        elif loss == "responses":
            found = F.conditional_cs_loss(a, b, s, bandwidth_x=rule, bandwidth_y=rule, **one)
        else:
            options = {f"bandwidth_{name}": rule for name in ("y", "x1", "x2")}
            found = F.conditional_independence_loss(a, s, t, **options, **one)
        (gradient,) = torch.autograd.grad(found, s)
        return found.item(), gradient

    whole, gradient = value(slice(None))
    expected, of_present = value(present)
    assert whole == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert torch.allclose(gradient[present], of_present, rtol=1e-7, atol=1e-10)
    assert not gradient[~present].any()
