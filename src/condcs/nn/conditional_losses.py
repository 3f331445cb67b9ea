"""Conditional CS divergences within a batch: a loss for regression (Prop. 3), a penalty for dependence (Prop. 4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from condcs.core.checks import check_choice, check_positive
from condcs.core.errors import public
from condcs.measures.conditional import conditional_cs_predictors, conditional_cs_responses
from condcs.measures.formulas import conditional_terms, predictor_terms
from condcs.nn.batches import TILED
from condcs.nn.exponents import (
    DENSE_ROWS,
    Width,
    equal_exponents,
    exponents,
    log_or_minus_infinity,
    log_row_sums,
    width,
)
from condcs.nn.reduction import Part, check_reduction, log_contrast, scaled
from condcs.nn.tensors import check_table, check_weights, common, unit_rows


@public
def conditional_cs_loss(
    y_pred: Tensor,
    y_true: Tensor,
    x: Tensor,
    *,
    form: str = "paper",
    bandwidth_x: Width = "median",
    bandwidth_y: Width = "median",
    scale_x: float = 0.1,
    scale_y: float = 2.0,
    normalize: bool = False,
    weights: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Conditional CS divergence between predictions and truth given the inputs: a loss for regression (Prop. 3).

    .. math:: D = \log \sum_j \frac{\sum_i K_{ji} k(y_j, y_i)}{A_j^2} + \log \sum_j \frac{\sum_i K_{ji}
              k(\hat y_j, \hat y_i)}{A_j^2} - 2 \log \sum_j \frac{\sum_i K_{ji} k(\hat y_j, y_i)}{A_j^2},
              \qquad A_j = \sum_i K_{ji}

    As the width on x goes to 0 it becomes minus twice the log of the mean of :math:`k(\hat y_j, y_j)`, a robust loss;
    for wide kernels on y that is the mean squared error over sigma squared.

    Parameters
    ----------
    y_pred, y_true : tensor, shape (n, d_y) or (n,)
        Predictions and truth.
    x : tensor, shape (n, ...)
        Inputs; further dimensions are flattened.
    form : {"paper", "symmetric"}
        As printed (the cross term over the rows of the predictions), or Prop. 2 with equal x.
    bandwidth_x, bandwidth_y : float, "median", "joint_median" or "mean"
        Widths, or rules applied to each batch and detached: "median" finds one width per column, "joint_median" (the
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
    check_choice("form", form, ("paper", "symmetric"))
    truth = check_table("y_true", y_true)
    guess = check_table("y_pred", y_pred, rows=truth.shape[0], columns=truth.shape[1])
    given = check_table("x", x, rows=truth.shape[0])
    given, truth, guess = common(unit_rows(given) if normalize else given, truth, guess)
    sigma_x = width("bandwidth_x", bandwidth_x, given, scale=check_positive("scale_x", scale_x))
    sigma_y = width("bandwidth_y", bandwidth_y, truth, guess, scale=check_positive("scale_y", scale_y))
    w = check_weights("weights", weights, truth)
    n = truth.shape[0]
    check_reduction(reduction, per_row=2 * n <= DENSE_ROWS, why=TILED)
    if 2 * n > DENSE_ROWS:
        options: dict[str, Any] = {
            "bandwidth_x": sigma_x,
            "bandwidth_y": sigma_y,
            "form": form,
            "weights": w,
        }
        return scaled(conditional_cs_responses(given, truth, guess, **options), n, reduction)
    E = exponents(given, sigma_x)
    pooled = exponents(torch.cat([truth, guess]), sigma_y)
    own_true, cross, _, own_pred = (b for half in torch.split(pooled, n) for b in torch.split(half, n, 1))
    grids = [E, E + own_true, E + own_pred, E + cross.T]
    grids += [E + cross] if form == "symmetric" else []
    sums = [s[:, 0] for s in log_row_sums(grids, [w], [n])]
    rows = 0.0 if w is None else log_or_minus_infinity(w)
    coefficients = (1.0, 1.0, -2.0) if form == "paper" else (1.0, 1.0, -1.0, -1.0)
    parts = [
        Part(c, conditional_terms(b - sums[0], sums[0]) + rows, slice(n))
        for c, b in zip(coefficients, sums[1:], strict=True)
    ]
    return log_contrast(parts, n, reduction)


@public
def conditional_independence_loss(
    y: Tensor,
    x1: Tensor,
    x2: Tensor,
    *,
    form: str = "corrected",
    bandwidth_y: Width = "median",
    bandwidth_x1: Width = "median",
    bandwidth_x2: Width = "median",
    kernel_y: str = "gaussian",
    kernel_x1: str = "gaussian",
    kernel_x2: str = "gaussian",
    weights: Tensor | None = None,
    reduction: str = "mean",
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
        Widths; unused by delta kernels.
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
    check_choice("form", form, ("corrected", "paper"))
    given = {"y": (y, bandwidth_y, kernel_y), "x1": (x1, bandwidth_x1, kernel_x1), "x2": (x2, bandwidth_x2, kernel_x2)}
    tables: dict[str, Tensor] = {}
    for name, (value, _, kernel) in given.items():
        check_choice(f"kernel_{name}", kernel, ("gaussian", "delta"))
        tables[name] = check_table(name, value, rows=tables["y"].shape[0] if tables else None)
    tables = dict(zip(tables, common(*tables.values()), strict=True))
    sigmas = {
        name: width(f"bandwidth_{name}", given[name][1], table)
        for name, table in tables.items()
        if given[name][2] == "gaussian"
    }
    n = tables["y"].shape[0]
    w = check_weights("weights", weights, tables["y"])
    check_reduction(reduction, per_row=n <= DENSE_ROWS, why=TILED)
    if n > DENSE_ROWS:
        options: dict[str, Any] = {f"bandwidth_{name}": s for name, s in sigmas.items()}
        options |= {f"kernel_{name}": kernel for name, (_, _, kernel) in given.items()}
        return scaled(conditional_cs_predictors(*tables.values(), form=form, weights=w, **options), n, reduction)
    Ey, E1, E2 = (
        exponents(table, sigmas[name]) if name in sigmas else equal_exponents(table.detach(), tables["y"])
        for name, table in tables.items()
    )
    a1, b1, a12, b12 = (s[:, 0] for s in log_row_sums([E1, E1 + Ey, E1 + E2, E1 + E2 + Ey], [w], [n]))
    rows = 0.0 if w is None else log_or_minus_infinity(w)
    terms = predictor_terms(a1, b1, a12, b12, form)
    return log_contrast([Part(c, t + rows, slice(n)) for c, t in terms], n, reduction)
