"""Divergences between two labelled batches: the CS alignment, conditional MMD, and the discrepancy of DJP-MMD."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from condcs.core.checks import check_choice
from condcs.core.errors import public
from condcs.measures.conditional import conditional_cs
from condcs.measures.marginal import cs
from condcs.measures.operator import conditional_mmd
from condcs.nn.batches import TILED, Batch, labels_of
from condcs.nn.exponents import Width, exponents, has_far_rows, log_row_sums, width
from condcs.nn.reduction import check_reduction, log_contrast, scaled
from condcs.nn.tensors import check_pair, common, unit_rows


@public
def conditional_cs_alignment_loss(
    source: Tensor,
    y_source: Tensor,
    target: Tensor,
    y_target: Tensor,
    *,
    marginal: float = 1.0,
    conditional: float = 1.0,
    estimator: str = "paper",
    bandwidth: Width = 1.0,
    bandwidth_y: Width = 1.0,
    normalize: bool = True,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Divergence of two domains in p(z) and in p(y|z): what the paper's domain adaptation minimises.

    .. math:: D = D_{CS}(p_t(z); p_s(z)) + D_{CS}(p_t(\hat y|z); p_s(y|z))

    Both parts come from the same Gram matrix on z. Defaults are the paper's: rows of length 1 and width 1.

    Parameters
    ----------
    source, target : tensor
        Features z.
    y_source, y_target : tensor
        Labels of the source and predicted class probabilities of the target (integers, one-hot or probabilities; at
        most one of the two as integers). For regression, pass real-valued responses.
    marginal, conditional : float
        Weights of the two parts.
    estimator : {"paper", "pooled"}
        Of the conditional part; "pooled" is never negative.
    bandwidth, bandwidth_y : float, "median", "joint_median" or "mean"
        Widths on z and on y.
    normalize : bool
        Whether rows of z are scaled to length 1 first.
    weights_source, weights_target, reduction
        As in `cs_loss`.

    Returns
    -------
    tensor
        A scalar, or one value per row.

    Examples
    --------
    >>> z, y = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), torch.tensor([0, 1, 1])
    >>> same = conditional_cs_alignment_loss(z, y, z, torch.nn.functional.one_hot(y, 2))
    >>> round(same.item(), 5) + 0.0
    0.0
    """
    check_choice("estimator", estimator, ("paper", "pooled"))
    zs, zt = check_pair(("source", "target"), source, target)
    ys, yt = labels_of(y_source, y_target, zs, zt)
    zs, zt = (unit_rows(zs), unit_rows(zt)) if normalize else (zs, zt)
    zs, zt, ys, yt = common(zs, zt, ys, yt)
    batch = Batch(zs, zt, weights_source, weights_target)
    sigma = width("bandwidth", bandwidth, zs, zt)
    sigma_y = width("bandwidth_y", bandwidth_y, ys, yt)
    check_reduction(reduction, per_row=batch.dense, why=TILED)

    def by_the_core() -> Tensor:
        given: dict[str, Any] = {"weights_p": batch.weights[0], "weights_q": batch.weights[1]}
        value = marginal * cs(zs, zt, bandwidth=sigma, **given)
        widths: dict[str, Any] = {"bandwidth_x": sigma, "bandwidth_y": sigma_y}
        value = value + conditional * conditional_cs(zs, ys, zt, yt, estimator=estimator, **widths, **given)
        return scaled(value, batch.n, reduction)

    if not batch.dense:
        return by_the_core()
    E = exponents(torch.cat([zs, zt]), sigma)
    log_a, log_b = log_row_sums([E, E + exponents(torch.cat([ys, yt]), sigma_y)], batch.weights, batch.sizes)
    if reduction != "none" and has_far_rows(log_a):
        return by_the_core()
    parts = batch.marginal_parts(log_a, marginal)
    parts += (batch.conditional_parts if estimator == "paper" else batch.pooled_parts)(log_a, log_b, conditional)
    return log_contrast(parts, batch.n, reduction)


@public
def cmmd_loss(
    source: Tensor,
    y_source: Tensor,
    target: Tensor,
    y_target: Tensor,
    *,
    regularization: float = 0.1,
    bandwidth: Width = "joint_median",
    bandwidth_y: Width = 1.0,
    normalize: bool = False,
) -> Tensor:
    """Squared conditional MMD between p_s(y|z) and p_t(y|z), the distance of two conditional mean operators.

    Cost O(n^3), memory O(n^2).

    Parameters
    ----------
    source, y_source, target, y_target
        As in `conditional_cs_alignment_loss`.
    regularization : float
        Ridge added to the Gram matrices on z; see `condcs.conditional_mmd`.
    bandwidth, bandwidth_y, normalize
        As in `conditional_cs_alignment_loss`.

    Returns
    -------
    tensor
        A scalar.

    Examples
    --------
    >>> z, y = torch.tensor([[0.0], [1.0], [2.0]]), torch.eye(3)
    >>> bool(abs(cmmd_loss(z, y, z, y)) < 1e-5)
    True
    """
    zs, zt = check_pair(("source", "target"), source, target)
    ys, yt = labels_of(y_source, y_target, zs, zt)
    zs, zt = (unit_rows(zs), unit_rows(zt)) if normalize else (zs, zt)
    sigma, sigma_y = width("bandwidth", bandwidth, zs, zt), width("bandwidth_y", bandwidth_y, ys, yt)
    widths: dict[str, Any] = {"bandwidth_x": sigma, "bandwidth_y": sigma_y}
    # In double: the factorisation of a Gram matrix of nearly equal rows loses most digits of single precision.
    wide = [t.double() for t in (zs, ys, zt, yt)]
    value: Tensor = conditional_mmd(*wide, regularization=regularization, **widths).to(zs.dtype)
    return value


@public
def djp_mmd_loss(
    source: Tensor,
    y_source: Tensor,
    target: Tensor,
    y_target: Tensor,
    *,
    form: str = "discriminative",
    trade_off: float = 0.1,
    bandwidth: Width = "joint_median",
    normalize: bool = False,
) -> Tensor:
    r"""Discriminative joint-probability MMD between two labelled batches, the discrepancy of DJP-MMD.

    With :math:`\mu^c` the kernel mean of class c weighted by the share of the class (the joint p(z, y = c)),

    .. math:: D = \sum_c |\mu_s^c - \mu_t^c|^2 - \lambda \sum_{c \neq c'} |\mu_s^c - \mu_t^{c'}|^2

    (Zhang and Wu, 2020). The paper describes another combination, the marginal discrepancy plus that within classes;
    `form="paper"` is that: :math:`|\mu_s - \mu_t|^2 + \frac1C \sum_c |\bar\mu_s^c - \bar\mu_t^c|^2`, over the classes
    present in both batches.

    Parameters
    ----------
    source, target : tensor
        Features.
    y_source, y_target : tensor
        Class labels as integers (at most one of the two), one-hot, or probabilities.
    form : {"discriminative", "paper"}
        Which combination.
    trade_off : float
        Lambda.
    bandwidth, normalize
        As in `cs_loss`.

    Returns
    -------
    tensor
        A scalar; it can be negative in the discriminative form.

    Examples
    --------
    >>> z, y = torch.tensor([[0.0], [1.0], [5.0], [6.0]]), torch.eye(2).repeat_interleave(2, 0)
    >>> bool(djp_mmd_loss(z, y, z, y) < djp_mmd_loss(z, y, z, y.flip(0)))
    True
    """
    check_choice("form", form, ("discriminative", "paper"))
    zs, zt = check_pair(("source", "target"), source, target)
    ys, yt = labels_of(y_source, y_target, zs, zt)
    zs, zt = (unit_rows(zs), unit_rows(zt)) if normalize else (zs, zt)
    sigma = width("bandwidth", bandwidth, zs, zt)
    K = torch.exp(exponents(torch.cat([zs, zt]), sigma))
    if form == "paper":
        return _marginal_and_class_mmd(K, ys, yt)
    # Columns of W: every class of the source, then minus every class of the target.
    W = torch.block_diag(ys / len(ys), -yt / len(yt))  # type: ignore[no-untyped-call]
    G = W.T @ K @ W
    classes = ys.shape[1]
    own = torch.diagonal(G)
    distances = own[:classes, None] + own[None, classes:] + G[:classes, classes:] + G[classes:, :classes].T
    same = torch.diagonal(distances).sum()
    value: Tensor = same - trade_off * (distances.sum() - same)
    return value


def _marginal_and_class_mmd(K: Tensor, ys: Tensor, yt: Tensor) -> Tensor:
    total_s, total_t = ys.sum(0), yt.sum(0)
    present = (total_s > 1e-6) & (total_t > 1e-6)
    safe_s, safe_t = (torch.where(present, t, 1.0) for t in (total_s, total_t))
    W = torch.cat([ys / safe_s, -yt / safe_t]) * present
    u = torch.cat([ys.new_full((len(ys),), 1 / len(ys)), yt.new_full((len(yt),), -1 / len(yt))])
    within = ((K @ W) * W).sum(0)
    return u @ K @ u + within.sum() / present.sum().clamp_min(1)
