"""Divergences between two batches of features: Cauchy-Schwarz, and the discrepancies of DDC, DAN and JAN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from condcs.core.checks import check_positive
from condcs.core.errors import ParameterError, ShapeError, public
from condcs.measures.marginal import cs, mmd
from condcs.nn.batches import TILED, Batch
from condcs.nn.exponents import Width, exponents, log_row_sums, width
from condcs.nn.reduction import Part, check_reduction, linear_contrast, log_contrast, scaled
from condcs.nn.tensors import check_pair, unit_rows


@public
def cs_loss(
    source: Tensor,
    target: Tensor,
    *,
    bandwidth: Width = "joint_median",
    normalize: bool = False,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Cauchy-Schwarz divergence between two batches of features.

    .. math:: D = \log \bar K_{ss} + \log \bar K_{tt} - 2 \log \bar K_{st}

    Parameters
    ----------
    source, target : tensor, shape (n, ...) and (m, ...)
        Features; further dimensions are flattened.
    bandwidth : float, "median", "joint_median" or "mean"
        Width of the Gaussian kernel, or a rule applied to each batch and detached. The features of one layer have a
        common unit, so that by default they share one width; "median" finds one per column.
    normalize : bool
        Whether rows are scaled to length 1 first.
    weights_source, weights_target : tensor, optional
        A non-negative weight per row.
    reduction : {"mean", "sum", "none"}
        The divergence, the divergence times the number of rows, or one share per row (source rows first) whose mean is
        the divergence.

    Returns
    -------
    tensor
        A scalar, or one value per row.

    Examples
    --------
    >>> z = torch.tensor([[0.0], [1.0]])
    >>> round(cs_loss(z, z + 2, bandwidth=1.0).item(), 4)
    2.5713
    """
    zs, zt = check_pair(("source", "target"), source, target)
    zs, zt = (unit_rows(zs), unit_rows(zt)) if normalize else (zs, zt)
    batch = Batch(zs, zt, weights_source, weights_target)
    sigma = width("bandwidth", bandwidth, zs, zt)
    check_reduction(reduction, per_row=batch.dense, why=TILED)
    if not batch.dense:
        value = cs(zs, zt, bandwidth=sigma, weights_p=batch.weights[0], weights_q=batch.weights[1])
        return scaled(value, batch.n, reduction)
    (log_a,) = log_row_sums([exponents(torch.cat([zs, zt]), sigma)], batch.weights, batch.sizes)
    return log_contrast(batch.marginal_parts(log_a), batch.n, reduction)


@public
def mmd_loss(
    source: Tensor,
    target: Tensor,
    *,
    bandwidth: Width = "joint_median",
    normalize: bool = False,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Squared maximum mean discrepancy between two batches of features, the discrepancy of DDC.

    .. math:: D = \bar K_{ss} + \bar K_{tt} - 2 \bar K_{st}

    Parameters
    ----------
    source, target, bandwidth, normalize, weights_source, weights_target, reduction
        As in `cs_loss`.

    Returns
    -------
    tensor
        A scalar, or one value per row.

    Examples
    --------
    >>> z = torch.tensor([[0.0], [1.0]])
    >>> mmd_loss(z, z, bandwidth=1.0).item()
    0.0
    """
    return _kernel_means(source, target, bandwidth, (1.0,), normalize, weights_source, weights_target, reduction)


@public
def mk_mmd_loss(
    source: Tensor,
    target: Tensor,
    *,
    bandwidth: Width = "joint_median",
    multiples: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0),
    normalize: bool = False,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Squared multi-kernel MMD between two batches of features, the discrepancy of DAN for one layer.

    The kernel is the average of Gaussians whose widths are `multiples` of the bandwidth.

    Parameters
    ----------
    source, target, bandwidth, normalize, weights_source, weights_target, reduction
        As in `cs_loss`.
    multiples : sequence of float
        Widths of the kernels, in units of the bandwidth; five by default.

    Returns
    -------
    tensor
        A scalar, or one value per row.

    Examples
    --------
    >>> z = torch.tensor([[0.0], [1.0]])
    >>> bool(mk_mmd_loss(z, z + 2) > 0)
    True
    """
    if not len(multiples):
        raise ParameterError(
            "`multiples` must hold at least one number, got none. Pass e.g. multiples=(0.5, 1.0, 2.0)."
        )
    factors = tuple(check_positive("multiples", m) for m in multiples)
    return _kernel_means(source, target, bandwidth, factors, normalize, weights_source, weights_target, reduction)


@public
def jmmd_loss(
    source: Sequence[Tensor],
    target: Sequence[Tensor],
    *,
    bandwidth: Width = "joint_median",
    normalize: bool = False,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Squared joint MMD over several layers, the discrepancy of JAN.

    The kernel is the product over layers of Gaussians, each with the width of its layer.

    Parameters
    ----------
    source, target : sequences of tensors
        Layers of both batches: as many of each, with equal rows within a batch.
    bandwidth, normalize, weights_source, weights_target, reduction
        As in `cs_loss`; a rule finds a width for each layer.

    Returns
    -------
    tensor
        A scalar, or one value per row.

    Examples
    --------
    >>> z = torch.tensor([[0.0], [1.0]])
    >>> bool(jmmd_loss([z, z], [z, -z]) > 0)
    True
    """
    zs, zt = _joined_layers(source, target, bandwidth, normalize)
    return _kernel_means(zs, zt, 1.0, (1.0,), False, weights_source, weights_target, reduction)


def _kernel_means(
    source: Any,
    target: Any,
    bandwidth: Width,
    multiples: tuple[float, ...],
    normalize: bool,
    weights_source: Any,
    weights_target: Any,
    reduction: str,
) -> Tensor:
    """Squared MMD with the average of Gaussians of several widths."""
    zs, zt = check_pair(("source", "target"), source, target)
    zs, zt = (unit_rows(zs), unit_rows(zt)) if normalize else (zs, zt)
    batch = Batch(zs, zt, weights_source, weights_target)
    sigma = width("bandwidth", bandwidth, zs, zt)
    check_reduction(reduction, per_row=batch.dense, why=TILED)
    if not batch.dense:
        given: dict[str, Any] = {"weights_p": batch.weights[0], "weights_q": batch.weights[1]}
        values = [mmd(zs, zt, bandwidth=m * sigma, **given) for m in multiples]
        return scaled(sum(values[1:], values[0]) / len(values), batch.n, reduction)
    E = exponents(torch.cat([zs, zt]), sigma)
    kernels = [torch.exp(E if m == 1.0 else E / m**2) for m in multiples]
    K = kernels[0] if len(kernels) == 1 else torch.stack(kernels).mean(0)
    parts = []
    for g, (rows, columns) in enumerate(zip(torch.split(K, list(batch.sizes)), batch.slices, strict=True)):
        for h, block in enumerate(torch.split(rows, list(batch.sizes), 1)):
            sums = block.mean(1) if batch.weights[h] is None else block @ batch.shares(h)
            sums = sums / batch.sizes[g] if batch.weights[g] is None else sums * batch.shares(g)
            parts.append(Part(1.0 if g == h else -1.0, sums, columns))
    return linear_contrast(parts, batch.n, reduction)


def _joined_layers(source: Any, target: Any, bandwidth: Width, normalize: bool) -> tuple[Tensor, Tensor]:
    """Layers side by side in units of their widths: a Gaussian on them is the product of the layers' Gaussians."""
    if isinstance(source, Tensor) or isinstance(target, Tensor) or len(source) != len(target) or not len(source):
        raise ShapeError(
            "`source` and `target` must be sequences of as many layers each. Pass e.g. jmmd_loss([z1_s, z2_s], "
            "[z1_t, z2_t])."
        )
    joined: tuple[list[Tensor], list[Tensor]] = ([], [])
    for i, (a, b) in enumerate(zip(source, target, strict=True)):
        zs, zt = check_pair((f"source[{i}]", f"target[{i}]"), a, b)
        zs, zt = (unit_rows(zs), unit_rows(zt)) if normalize else (zs, zt)
        sigma = width("bandwidth", bandwidth, zs, zt)
        for side, z in zip(joined, (zs, zt), strict=True):
            if side and side[0].shape[0] != z.shape[0]:
                raise ShapeError(
                    f"all layers of a batch must have the same rows, got {side[0].shape[0]} and {z.shape[0]}."
                )
            side.append(z / sigma)
    return torch.cat(joined[0], 1), torch.cat(joined[1], 1)
