"""Losses as pure functions of a batch; the modules in `condcs.nn` hold their options.

All work in single precision or better whatever autocast says, and accept a fixed or a per-batch bandwidth, which counts
as a constant. Above `condcs.nn._dense.DENSE_ROWS` rows they switch from Gram matrices to the core's tiled row sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from condcs._core.checks import check_choice, check_positive
from condcs._core.errors import ParameterError, ShapeError, public
from condcs._measures.conditional import conditional_cs, conditional_cs_predictors, conditional_cs_responses
from condcs._measures.formulas import PredictorForm, ResponseForm, conditional_terms, predictor_terms
from condcs._measures.marginal import cs, mmd
from condcs._measures.operator import conditional_mmd
from condcs.nn._dense import (
    DENSE_ROWS,
    PooledBatch,
    Reduction,
    RowTerms,
    Width,
    check_pair,
    check_reduction,
    check_table,
    check_tensor_weights,
    common,
    equal_exponents,
    has_far_rows,
    labels_of,
    log_group_sums,
    log_row_weights,
    pair_exponents,
    reduced,
    summed,
    unit_rows,
    width,
)

__all__ = [
    "cmmd_loss",
    "conditional_cs_alignment_loss",
    "conditional_cs_loss",
    "conditional_independence_loss",
    "cs_loss",
    "djp_mmd_loss",
    "jmmd_loss",
    "mk_mmd_loss",
    "mmd_loss",
]

_LEAST_CLASS = 1e-6
"""Sum of the probabilities of a class above which it is present: dividing by less would amplify rounding errors."""

AlignmentEstimator = Literal["paper", "pooled"]
LossKernel = Literal["gaussian", "delta"]
MMDForm = Literal["discriminative", "paper"]


@public
def cs_loss(
    source: Tensor,
    target: Tensor,
    *,
    bandwidth: Width = "joint_median",
    normalize: bool = False,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Cauchy-Schwarz divergence between two batches of features.

    .. math:: D = \log \bar K_{ss} + \log \bar K_{tt} - 2 \log \bar K_{st}

    Parameters
    ----------
    source, target : tensor, shape (n, ...) and (m, ...)
        Features; further dimensions are flattened.
    bandwidth : float, "median", "joint_median" or "mean"
        Bandwidth of the Gaussian kernel, or a rule applied to each batch and detached. The features of one layer have a
        common unit, so that by default they share one bandwidth; "median" finds one per column.
    normalize : bool
        Whether rows are scaled to length 1 first.
    weights_source, weights_target : tensor, optional
        A non-negative weight per row. Rows of weight 0 have no part in the value, nor in a bandwidth found by a rule.
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
    zs, zt = check_pair(("source", "target"), source, target, normalize)
    batch = PooledBatch(zs, zt, weights_source, weights_target)
    sigma = width("bandwidth", bandwidth, zs, zt, weights=batch.weights)
    check_reduction(reduction, batch.n)
    if not batch.dense:
        value = cs(zs, zt, bandwidth=sigma, weights_p=batch.weights[0], weights_q=batch.weights[1])
        return reduced(value, batch.n, reduction)
    (log_a,) = log_group_sums([pair_exponents(torch.cat([zs, zt]), sigma)], batch.weights, batch.sizes)
    return summed(batch.marginal_parts(log_a), batch.n, reduction)


@public
def mmd_loss(
    source: Tensor,
    target: Tensor,
    *,
    bandwidth: Width = "joint_median",
    normalize: bool = False,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: Reduction = "mean",
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
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Squared multi-kernel MMD between two batches of features, the discrepancy of DAN for one layer.

    The kernel is the average of Gaussians whose bandwidths are `multiples` of the bandwidth.

    Parameters
    ----------
    source, target, bandwidth, normalize, weights_source, weights_target, reduction
        As in `cs_loss`.
    multiples : sequence of float
        Bandwidths of the kernels, in units of the bandwidth; five by default.

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
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Squared joint MMD over several layers, the discrepancy of JAN.

    The kernel is the product over layers of Gaussians, each with the bandwidth of its layer.

    Parameters
    ----------
    source, target : sequences of tensors
        Layers of both batches: as many of each, with equal rows within a batch.
    bandwidth, normalize, weights_source, weights_target, reduction
        As in `cs_loss`; a rule finds a bandwidth for each layer.

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
    zs, zt = _joined_layers(source, target, bandwidth, normalize, (weights_source, weights_target))
    return _kernel_means(zs, zt, 1.0, (1.0,), False, weights_source, weights_target, reduction)


def _kernel_means(
    source: Any,
    target: Any,
    bandwidth: Width,
    multiples: tuple[float, ...],
    normalize: bool,
    weights_source: Any,
    weights_target: Any,
    reduction: Reduction,
) -> Tensor:
    """Squared MMD with the average of Gaussians of several bandwidths."""
    zs, zt = check_pair(("source", "target"), source, target, normalize)
    batch = PooledBatch(zs, zt, weights_source, weights_target)
    sigma = width("bandwidth", bandwidth, zs, zt, weights=batch.weights)
    check_reduction(reduction, batch.n)
    if not batch.dense:
        sample_weights: dict[str, Any] = {"weights_p": batch.weights[0], "weights_q": batch.weights[1]}
        values = [mmd(zs, zt, bandwidth=m * sigma, **sample_weights) for m in multiples]
        return reduced(sum(values[1:], values[0]) / len(values), batch.n, reduction)
    E = pair_exponents(torch.cat([zs, zt]), sigma)
    kernels = [torch.exp(E if m == 1.0 else E / m**2) for m in multiples]
    K = kernels[0] if len(kernels) == 1 else torch.stack(kernels).mean(0)
    parts = []
    for g, rows in enumerate(batch.slices):
        for h, columns in enumerate(batch.slices):
            block = K[rows, columns]
            # The mean over the columns, and then what each row adds to the mean over the rows.
            terms = block.mean(1) if batch.weights[h] is None else block @ batch.shares(h)
            terms = terms / batch.sizes[g] if batch.weights[g] is None else terms * batch.shares(g)
            parts.append(RowTerms(1.0 if g == h else -1.0, terms, rows))
    return summed(parts, batch.n, reduction, logs=False)


def _joined_layers(
    source: Any, target: Any, bandwidth: Width, normalize: bool, weights: tuple[Any, Any]
) -> tuple[Tensor, Tensor]:
    """Layers side by side in units of their widths: a Gaussian on them is the product of the layers' Gaussians."""
    if isinstance(source, Tensor) or isinstance(target, Tensor) or len(source) != len(target) or not len(source):
        raise ShapeError(
            "`source` and `target` must be sequences with the same number of layers. Pass e.g. jmmd_loss([z1_s, z2_s], "
            "[z1_t, z2_t])."
        )
    joined: tuple[list[Tensor], list[Tensor]] = ([], [])
    for i, (a, b) in enumerate(zip(source, target, strict=True)):
        zs, zt = check_pair((f"source[{i}]", f"target[{i}]"), a, b, normalize)
        sides = zip(("weights_source", "weights_target"), weights, (zs, zt), strict=True)
        sigma = width("bandwidth", bandwidth, zs, zt, weights=[check_tensor_weights(*side) for side in sides])
        for side, z in zip(joined, (zs, zt), strict=True):
            if side and side[0].shape[0] != z.shape[0]:
                raise ShapeError(
                    f"all layers of a batch must have the same number of rows, got {side[0].shape[0]} and "
                    f"{z.shape[0]}. Row i of each layer belongs to row i of the batch."
                )
            side.append(z / sigma)
    return torch.cat(joined[0], 1), torch.cat(joined[1], 1)


@public
def conditional_cs_loss(
    y_pred: Tensor,
    y_true: Tensor,
    x: Tensor,
    *,
    form: ResponseForm = "paper",
    bandwidth_x: Width = "median",
    bandwidth_y: Width = "median",
    scale_x: float = 0.1,
    scale_y: float = 2.0,
    normalize: bool = False,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Conditional CS divergence between predictions and truth given the inputs: a loss for regression (Prop. 3).

    .. math:: D = \log \sum_j \frac{\sum_i K_{ji} k(y_j, y_i)}{A_j^2} + \log \sum_j \frac{\sum_i K_{ji}
              k(\hat y_j, \hat y_i)}{A_j^2} - 2 \log \sum_j \frac{\sum_i K_{ji} k(\hat y_j, y_i)}{A_j^2},
              \qquad A_j = \sum_i K_{ji}

    As the bandwidth on x goes to 0 it becomes minus twice the log of the mean of :math:`k(\hat y_j, y_j)`, a robust
    loss; for wide kernels on y that is the mean squared error over sigma squared.

    Parameters
    ----------
    y_pred, y_true : tensor, shape (n, d_y) or (n,)
        Predictions and truth.
    x : tensor, shape (n, ...)
        Inputs; further dimensions are flattened.
    form : {"paper", "symmetric"}
        As printed (the cross term over the rows of the predictions), or Prop. 2 with equal x.
    bandwidth_x, bandwidth_y : float, "median", "joint_median" or "mean"
        Bandwidths, or rules applied to each batch and detached: "median" finds one for each column, "joint_median" (the
        paper's rule, and cheaper for hundreds of columns) and "mean" find one for all.
    scale_x, scale_y : float
        What a rule finds is multiplied by these. A narrow kernel on x and a wide one on y train best.
    normalize : bool
        Whether rows of x are scaled to length 1 first.
    weights : tensor, optional
        A non-negative weight per row.
    reduction : {"mean", "sum", "none"}
        As in `cs_loss`; shares belong to the rows.

    Returns
    -------
    tensor
        A scalar, or one value per row.

    Examples
    --------
    >>> x = torch.linspace(0, 1, 20)
    >>> round(conditional_cs_loss(x, x, x).item(), 5) + 0.0
    0.0
    """
    check_choice("form", form, get_args(ResponseForm))
    truth = check_table("y_true", y_true)
    predictions = check_table("y_pred", y_pred, rows=truth.shape[0], columns=truth.shape[1])
    inputs = check_table("x", x, rows=truth.shape[0])
    inputs, truth, predictions = common(unit_rows(inputs) if normalize else inputs, truth, predictions)
    w = check_tensor_weights("weights", weights, truth)
    scale_x, scale_y = check_positive("scale_x", scale_x), check_positive("scale_y", scale_y)
    sigma_x = width("bandwidth_x", bandwidth_x, inputs, weights=(w,), scale=scale_x)
    sigma_y = width("bandwidth_y", bandwidth_y, truth, predictions, weights=(w, w), scale=scale_y)
    n = truth.shape[0]
    check_reduction(reduction, 2 * n)
    if 2 * n > DENSE_ROWS:
        value = conditional_cs_responses(
            inputs, truth, predictions, form=form, bandwidth_x=sigma_x, bandwidth_y=sigma_y, weights=w
        )
        return reduced(value, n, reduction)
    # log K on x, and log L on y between truth and predictions; all (n, n).
    E = pair_exponents(inputs, sigma_x)
    pooled = pair_exponents(torch.cat([truth, predictions]), sigma_y)
    among_truth, truth_by_prediction, among_predictions = pooled[:n, :n], pooled[:n, n:], pooled[n:, n:]
    grids = [E, E + among_truth, E + among_predictions, E + truth_by_prediction.T]
    coefficients = [1.0, 1.0, -2.0]
    if form == "symmetric":
        # Half of the cross term over the rows of the predictions, half over those of the truth.
        grids.append(E + truth_by_prediction)
        coefficients = [1.0, 1.0, -1.0, -1.0]
    log_a, *log_bs = (sums[:, 0] for sums in log_group_sums(grids, [w], [n]))  # (n,)
    log_weights = log_row_weights(w)
    parts = [
        RowTerms(c, conditional_terms(log_b - log_a, log_a) + log_weights, slice(n))
        for c, log_b in zip(coefficients, log_bs, strict=True)
    ]
    return summed(parts, n, reduction)


@public
def conditional_independence_loss(
    y: Tensor,
    x1: Tensor,
    x2: Tensor,
    *,
    form: PredictorForm = "corrected",
    bandwidth_y: Width = "median",
    bandwidth_x1: Width = "median",
    bandwidth_x2: Width = "median",
    kernel_y: LossKernel = "gaussian",
    kernel_x1: LossKernel = "gaussian",
    kernel_x2: LossKernel = "gaussian",
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Divergence between p(y|x1) and p(y|x1, x2): 0 when y is independent of x2 given x1 (Prop. 4).

    Equalized Odds: y = prediction, x1 = outcome, x2 = protected attribute. Invariant learning: y = outcome,
    x1 = representation, x2 = environment. With row sums :math:`A_1 = K_1 1`, :math:`B_1 = (K_1 L) 1` and
    :math:`A_{12}, B_{12}` the same with :math:`K_1 K_2`,

    .. math:: D = \log \sum_j \frac{B_1^2}{A_1^2 B_{12}} + \log \sum_j \frac{B_{12}}{A_{12}^2} -
              2 \log \sum_j \frac{B_1}{A_1 A_{12}}

    Parameters
    ----------
    y, x1, x2 : tensor, shape (n, ...)
        Row i of each belongs together. For labels use the delta kernel.
    form : {"corrected", "paper"}
        Which first term; see `condcs.conditional_cs_predictors`.
    bandwidth_y, bandwidth_x1, bandwidth_x2 : float, "median", "joint_median" or "mean"
        Bandwidths; unused by delta kernels.
    kernel_y, kernel_x1, kernel_x2 : {"gaussian", "delta"}
        "delta" compares labels, without gradient.
    weights : tensor, optional
        A non-negative weight per row.
    reduction : {"mean", "sum", "none"}
        As in `cs_loss`; shares belong to the rows.

    Returns
    -------
    tensor
        A scalar, or one value per row.

    Notes
    -----
    Integrals are estimated at the rows of the batch, so that combinations of x1, x2 and y that never occur are not
    seen. With delta kernels on all three, y = x1 xor x2 without any noise is such a case: the value is 0.

    Examples
    --------
    >>> label, group = torch.tensor([0, 0, 1, 1]).repeat(2), torch.tensor([0, 1, 0, 1]).repeat(2)
    >>> options = {"kernel_x1": "delta", "kernel_x2": "delta", "bandwidth_y": 0.5}
    >>> round(conditional_independence_loss(1.0 * label, label, group, **options).item(), 5) + 0.0
    0.0
    """
    check_choice("form", form, get_args(PredictorForm))
    variables = {
        "y": (y, bandwidth_y, kernel_y),
        "x1": (x1, bandwidth_x1, kernel_x1),
        "x2": (x2, bandwidth_x2, kernel_x2),
    }
    tables: dict[str, Tensor] = {}
    for name, (value, _, kernel) in variables.items():
        check_choice(f"kernel_{name}", kernel, get_args(LossKernel))
        tables[name] = check_table(name, value, rows=tables["y"].shape[0] if tables else None)
    tables = dict(zip(tables, common(*tables.values()), strict=True))
    w = check_tensor_weights("weights", weights, tables["y"])
    sigmas = {
        name: width(f"bandwidth_{name}", variables[name][1], table, weights=(w,))
        for name, table in tables.items()
        if variables[name][2] == "gaussian"
    }
    n = tables["y"].shape[0]
    check_reduction(reduction, n)
    if n > DENSE_ROWS:
        options: dict[str, Any] = {f"bandwidth_{name}": s for name, s in sigmas.items()}
        options |= {f"kernel_{name}": kernel for name, (_, _, kernel) in variables.items()}
        return reduced(conditional_cs_predictors(*tables.values(), form=form, weights=w, **options), n, reduction)
    Ey, E1, E2 = (
        pair_exponents(table, sigmas[name]) if name in sigmas else equal_exponents(table.detach(), tables["y"])
        for name, table in tables.items()
    )
    grids = [E1, E1 + Ey, E1 + E2, E1 + E2 + Ey]
    log_a1, log_b1, log_a12, log_b12 = (sums[:, 0] for sums in log_group_sums(grids, [w], [n]))  # (n,)
    log_weights = log_row_weights(w)
    terms = predictor_terms(log_a1, log_b1, log_a12, log_b12, form)
    return summed([RowTerms(c, t + log_weights, slice(n)) for c, t in terms], n, reduction)


@public
def conditional_cs_alignment_loss(
    source: Tensor,
    y_source: Tensor,
    target: Tensor,
    y_target: Tensor,
    *,
    marginal: float = 1.0,
    conditional: float = 1.0,
    estimator: AlignmentEstimator = "paper",
    bandwidth: Width = 1.0,
    bandwidth_y: Width = 1.0,
    normalize: bool = True,
    weights_source: Tensor | None = None,
    weights_target: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Divergence of two domains in p(z) and in p(y|z): what the paper's domain adaptation minimises.

    .. math:: D = D_{CS}(p_t(z); p_s(z)) + D_{CS}(p_t(\hat y|z); p_s(y|z))

    Both parts come from the same Gram matrix on z. Defaults are the paper's: rows of length 1 and bandwidth 1.

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
        Bandwidths on z and on y.
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
    check_choice("estimator", estimator, get_args(AlignmentEstimator))
    zs, zt = check_pair(("source", "target"), source, target, normalize)
    ys, yt = labels_of(y_source, y_target, zs, zt)
    zs, zt, ys, yt = common(zs, zt, ys, yt)
    batch = PooledBatch(zs, zt, weights_source, weights_target)
    sigma = width("bandwidth", bandwidth, zs, zt, weights=batch.weights)
    sigma_y = width("bandwidth_y", bandwidth_y, ys, yt, weights=batch.weights)
    check_reduction(reduction, batch.n)

    def by_the_core() -> Tensor:
        sample_weights: dict[str, Any] = {"weights_p": batch.weights[0], "weights_q": batch.weights[1]}
        value = marginal * cs(zs, zt, bandwidth=sigma, **sample_weights)
        widths: dict[str, Any] = {"bandwidth_x": sigma, "bandwidth_y": sigma_y}
        value = value + conditional * conditional_cs(zs, ys, zt, yt, estimator=estimator, **widths, **sample_weights)
        return reduced(value, batch.n, reduction)

    if not batch.dense:
        return by_the_core()
    E = pair_exponents(torch.cat([zs, zt]), sigma)
    log_a, log_b = log_group_sums([E, E + pair_exponents(torch.cat([ys, yt]), sigma_y)], batch.weights, batch.sizes)
    if reduction != "none" and has_far_rows(log_a):
        return by_the_core()
    parts = batch.marginal_parts(log_a, marginal)
    parts += (batch.conditional_parts if estimator == "paper" else batch.pooled_parts)(log_a, log_b, conditional)
    return summed(parts, batch.n, reduction)


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
    zs, zt = check_pair(("source", "target"), source, target, normalize)
    ys, yt = labels_of(y_source, y_target, zs, zt)
    sigma, sigma_y = width("bandwidth", bandwidth, zs, zt), width("bandwidth_y", bandwidth_y, ys, yt)
    # In double: the factorisation of a Gram matrix of nearly equal rows loses most digits of single precision.
    wide = [t.double() for t in (zs, ys, zt, yt)]
    value = conditional_mmd(*wide, regularization=regularization, bandwidth_x=sigma, bandwidth_y=sigma_y)
    divergence: Tensor = value.to(zs.dtype)
    return divergence


@public
def djp_mmd_loss(
    source: Tensor,
    y_source: Tensor,
    target: Tensor,
    y_target: Tensor,
    *,
    form: MMDForm = "discriminative",
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
        The combination.
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
    check_choice("form", form, get_args(MMDForm))
    zs, zt = check_pair(("source", "target"), source, target, normalize)
    ys, yt = labels_of(y_source, y_target, zs, zt)
    sigma = width("bandwidth", bandwidth, zs, zt)
    K = torch.exp(pair_exponents(torch.cat([zs, zt]), sigma))
    if form == "paper":
        return _marginal_and_class_mmd(K, ys, yt)
    # Columns of W: every class of the source, then minus every class of the target.
    W = torch.block_diag(ys / len(ys), -yt / len(yt))  # type: ignore[no-untyped-call]
    G = W.T @ K @ W
    classes = ys.shape[1]
    squared_norms = torch.diagonal(G)
    distances = (
        squared_norms[:classes, None] + squared_norms[None, classes:] + G[:classes, classes:] + G[classes:, :classes].T
    )
    same = torch.diagonal(distances).sum()
    value: Tensor = same - trade_off * (distances.sum() - same)
    return value


def _marginal_and_class_mmd(K: Tensor, ys: Tensor, yt: Tensor) -> Tensor:
    """Squared MMD between the batches, plus the mean of those between the classes that are present in both."""
    total_s, total_t = ys.sum(0), yt.sum(0)  # (classes,)
    present = (total_s > _LEAST_CLASS) & (total_t > _LEAST_CLASS)
    safe_s, safe_t = (torch.where(present, total, 1.0) for total in (total_s, total_t))
    # Weights of the rows in the difference of two means: of each class, (n, classes), and of the batches, (n,).
    W = torch.cat([ys / safe_s, -yt / safe_t]) * present
    u = torch.cat([ys.new_full((len(ys),), 1 / len(ys)), yt.new_full((len(yt),), -1 / len(yt))])
    of_classes = ((K @ W) * W).sum(0)
    return u @ K @ u + of_classes.sum() / present.sum().clamp_min(1)
