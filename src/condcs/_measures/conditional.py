"""Conditional Cauchy-Schwarz divergence (Prop. 2 to 4) and its linear cousin."""

from __future__ import annotations

from typing import get_args

from condcs._core.arrays import Array
from condcs._core.checks import check_choice, check_same_rows, unless_named_alike, without_absent_rows
from condcs._core.errors import public
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import product
from condcs._kernels.named_kernels import Kernel
from condcs._kernels.row_chunks import PAIRS, RowSource
from condcs._kernels.row_sums import log_row_sums, row_masses, warn_of_absent
from condcs._measures.formulas import (
    RESPONSE_FORMS,
    ConditionalEstimator,
    PredictorForm,
    ResponseForm,
    RowSums,
    conditional_interaction,
    conditional_sums,
    contrast,
    pooled_divergences,
    predictor_divergence,
    predictor_sums,
)
from condcs._measures.inputs import ConditionalProblem, Inputs, bandwidths, conditional_problem, pair
from condcs._measures.sampled import RowsInMemory, SamplingMethod, sampled_value, sampling_of


@public
def conditional_cs(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    estimator: ConditionalEstimator = "paper",
    bandwidth: Bandwidth | None = None,
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    method: SamplingMethod = "auto",
) -> Array:
    r"""Conditional Cauchy-Schwarz divergence between p(y|x) and q(y|x) (Prop. 2).

    It is 0 when the two conditionals agree at every x, and grows with the difference between them.

    .. math:: D = \log T_{pp} + \log T_{qq} - \log T_{pq} - \log T_{qp}, \qquad
              T_{gh} = \sum_{j \in g} \frac{\sum_{i \in h} K_{ji} L_{ji}}{\sum_{i \in g} K_{ji} \sum_{i \in h} K_{ji}}

    with Gram matrices K on x and L on y. Cost O(n^2 d), or O(n d) for each anchor if sampled; memory O(n).

    Parameters
    ----------
    xp, yp : array, shape (n, d_x) and (n, d_y)
        First sample: rows are observations; 1-d arrays are one column.
    xq, yq : array, shape (m, d_x) and (m, d_y)
        Second sample; ``n`` and ``m`` may differ. Columns of tables (pandas, pyarrow) are matched by name.
    estimator : {"paper", "pooled", "p", "q"}
        How the integrals are estimated. "paper" averages both cross terms and can be slightly negative for tiny or very
        unequal samples; "pooled" estimates all three over both samples and is never negative; "p" and "q" use one cross
        term only, over the first or the second sample.
    bandwidth_x, bandwidth_y : float, sequence of float, or {"median", "joint_median", "silverman", "scott"}
        Bandwidths of the kernels; a rule estimates them from the pooled sample.
    bandwidth : float, sequence of float, or a rule, optional
        Sets both: one number, or one rule, for x and for y.
    kernel_x, kernel_y : str, one per column, or callable
        The name of a kernel: docs/guide/bandwidth.md lists them, as does the error about a name that is none. "delta"
        compares labels by equality. With "aitchison-aitken" labels borrow strength from one another, the less the more
        rows have the same labels: different ones count 1 / (1 + C m), with C labels in the column and m other rows with
        equal labels in all such columns, on average over the pool.
    weights_p, weights_q : array, optional
        A non-negative weight per row. A row of weight 2 counts as two equal rows, one of weight 0 as absent.
    method : {"auto", "exact", "sampled"} or `Sampled`
        Whether the sums are over all pairs of rows, or estimated from anchor rows to a given standard error. "auto" is
        exact up to 20,000 pooled rows, and always for arrays of torch and JAX.

    Returns
    -------
    scalar
        In the arrays' own library; differentiable for torch and JAX. Rule-based bandwidths count as constants. If it
        was sampled, a `SampledFloat`: a float with the attributes ``standard_error``, ``n_anchors`` and ``target_met``.

    Notes
    -----
    Computed in the widest floating type given, in single precision at least, whatever torch's autocast says, and in
    double precision if there are integers that single precision would round.

    One outlier in x carries as much weight as a whole region, because its kernel mass is small: a single row at x = 10
    among 100 standard normal ones can raise D many times over. Look for outliers before you trust the number.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 1))
    >>> y = x + 0.3 * rng.normal(size=(200, 1))
    >>> same = conditional_cs(x[:100], y[:100], x[100:], y[100:])
    >>> turned = conditional_cs(x[:100], y[:100], x[100:], -y[100:])
    >>> bool(0 <= same < 0.1 < turned)
    True
    """
    samples = pair("x", xp, xq), pair("y", yp, yq), pair("weights_", weights_p, weights_q)
    problem = conditional_problem(*samples, kernel_x, kernel_y, bandwidth_x, bandwidth_y, bandwidth)
    if (sampled := sampling_of(method, problem.inputs.backend, problem.groups.n)) is not None:
        rows = RowsInMemory(problem.variables, PAIRS, problem.groups)
        return sampled_value(sampled, rows, conditional_cs_sums(rows, estimator=estimator))
    return problem.inputs.result(conditional_cs_pairs(problem, estimator=estimator)[0, 1])


def conditional_cs_sums(rows: RowSource, *, estimator: ConditionalEstimator = "paper") -> RowSums:
    """Conditional CS divergence between two groups as sums over rows."""
    check_choice("estimator", estimator, get_args(ConditionalEstimator))
    warn_of_absent(*rows.count_absent())
    return conditional_sums(estimator)


def conditional_cs_pairs(problem: ConditionalProblem, *, estimator: ConditionalEstimator = "paper") -> Array:
    """Conditional CS divergences between all pairs of groups (G x G)."""
    check_choice("estimator", estimator, get_args(ConditionalEstimator))
    masses = row_masses(problem.x.kernel, problem.y.kernel, problem.groups)
    if estimator == "pooled":
        return pooled_divergences(masses)
    return contrast(conditional_interaction(masses), estimator)


@public
def conditional_euclidean(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    bandwidth: Bandwidth | None = None,
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    method: SamplingMethod = "auto",
) -> Array:
    r"""Conditional Euclidean distance between p(y|x) and q(y|x): the linear contrast of the conditional interaction.

    .. math:: D = T_{pp} + T_{qq} - T_{pq} - T_{qp}

    with T as in `conditional_cs`: an estimate of the integral of (p(y|x) - q(y|x))^2 up to the kernels' constants. It
    can be negative. Cost O(n^2 d); memory O(n).

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`.
    bandwidth, bandwidth_x, bandwidth_y, kernel_x, kernel_y, weights_p, weights_q, method
        As in `conditional_cs`.

    Returns
    -------
    scalar
        In the arrays' own library; differentiable for torch and JAX.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> bool(abs(conditional_euclidean(x, np.sin(x), x, np.sin(x))) < 1e-12)
    True
    """
    samples = pair("x", xp, xq), pair("y", yp, yq), pair("weights_", weights_p, weights_q)
    problem = conditional_problem(*samples, kernel_x, kernel_y, bandwidth_x, bandwidth_y, bandwidth)
    if (sampled := sampling_of(method, problem.inputs.backend, problem.groups.n)) is not None:
        rows = RowsInMemory(problem.variables, PAIRS, problem.groups)
        return sampled_value(sampled, rows, conditional_euclidean_sums(rows))
    return problem.inputs.result(conditional_euclidean_pairs(problem)[0, 1])


def conditional_euclidean_sums(rows: RowSource) -> RowSums:
    """Conditional Euclidean distance between two groups as sums over rows."""
    warn_of_absent(*rows.count_absent())
    return conditional_sums(logs=False)


def conditional_euclidean_pairs(problem: ConditionalProblem) -> Array:
    """Conditional Euclidean distances between all pairs of groups (G x G)."""
    log_t = conditional_interaction(row_masses(problem.x.kernel, problem.y.kernel, problem.groups))
    return contrast(problem.inputs.backend.xp.exp(log_t))


@public
def conditional_cs_responses(
    x: Array,
    y1: Array,
    y2: Array,
    *,
    form: ResponseForm = "paper",
    bandwidth: Bandwidth | None = None,
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights: Array | None = None,
    method: SamplingMethod = "auto",
) -> Array:
    r"""Divergence between two responses to the same x: p(y1|x) against p(y2|x) (Prop. 3).

    .. math:: D = \log \sum_j \frac{\sum_i K_{ji} L^1_{ji}}{(\sum_i K_{ji})^2} +
              \log \sum_j \frac{\sum_i K_{ji} L^2_{ji}}{(\sum_i K_{ji})^2} -
              2 \log \sum_j \frac{\sum_i K_{ji} L^{21}_{ji}}{(\sum_i K_{ji})^2}

    with :math:`L^{21}_{ji} = k(y2_j, y1_i)`. This form is not symmetric in y1 and y2; Prop. 2 with equal x is.
    Cost O(n^2 d); memory O(n).

    Parameters
    ----------
    x, y1, y2 : array, shape (n, d_x), (n, d_y), (n, d_y)
        Row i of each belongs together. As a loss, y1 is the truth and y2 the prediction.
    form : {"paper", "symmetric"}
        As printed in the paper, or Prop. 2 with equal x (both cross terms instead of twice one of them).
    bandwidth, bandwidth_x, bandwidth_y, kernel_x, kernel_y
        As in `conditional_cs`; y1 and y2 are pooled.
    weights : array, optional
        A non-negative weight per row.
    method
        As in `conditional_cs`.

    Returns
    -------
    scalar
        In the arrays' own library; differentiable for torch and JAX.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> round(float(conditional_cs_responses(x, x, x)), 12) + 0.0
    0.0
    """
    check_choice("form", form, get_args(ResponseForm))
    # Two variables, such as the truth and a prediction: other names are no mistake.
    responses = [("y1", y1), ("y2", unless_named_alike(y1, y2))]
    samples = [("x", x), ("x", x)], responses, [("weights", weights), ("weights", weights)]
    problem = conditional_problem(*samples, kernel_x, kernel_y, bandwidth_x, bandwidth_y, bandwidth)
    if (sampled := sampling_of(method, problem.inputs.backend, problem.groups.n)) is not None:
        rows = RowsInMemory(problem.variables, PAIRS, problem.groups)
        return sampled_value(sampled, rows, conditional_cs_sums(rows, estimator=RESPONSE_FORMS[form]))
    return problem.inputs.result(conditional_cs_pairs(problem, estimator=RESPONSE_FORMS[form])[0, 1])


@public
def conditional_cs_predictors(
    y: Array,
    x1: Array,
    x2: Array,
    *,
    form: PredictorForm = "corrected",
    bandwidth: Bandwidth | None = None,
    bandwidth_y: Bandwidth = "median",
    bandwidth_x1: Bandwidth = "median",
    bandwidth_x2: Bandwidth = "median",
    kernel_y: Kernel = "gaussian",
    kernel_x1: Kernel = "gaussian",
    kernel_x2: Kernel = "gaussian",
    weights: Array | None = None,
    method: SamplingMethod = "auto",
) -> Array:
    r"""Divergence between p(y|x1) and p(y|x1,x2): what x2 says about y that x1 does not (Prop. 4).

    With row sums :math:`A^1, B^1` of :math:`K^1, K^1 L` and :math:`A^{12}, B^{12}` of :math:`K^1 K^2, K^1 K^2 L`,

    .. math:: D = \log \sum_j \frac{(B^1_j)^2}{(A^1_j)^2 B^{12}_j} + \log \sum_j \frac{B^{12}_j}{(A^{12}_j)^2} -
              2 \log \sum_j \frac{B^1_j}{A^1_j A^{12}_j}.

    This is the corrected form, never negative. The printed one estimates the first term as
    :math:`\sum_j B^1_j / (A^1_j)^2`, which leaves out the integral over x2: it is routinely negative and shifts with
    the kernels' constants. Cost O(n^2 d); memory O(n).

    Parameters
    ----------
    y, x1, x2 : array, shape (n, d_y), (n, d_1), (n, d_2)
        Row i of each belongs together.
    form : {"corrected", "paper"}
        Which first term is used.
    bandwidth, bandwidth_y, bandwidth_x1, bandwidth_x2, kernel_y, kernel_x1, kernel_x2
        As in `conditional_cs`, one of each per variable; `bandwidth` sets all three.
    weights : array, optional
        A non-negative weight per row.
    method
        As in `conditional_cs`.

    Returns
    -------
    scalar
        0 when y and x2 are independent given x1; differentiable for torch and JAX.

    Examples
    --------
    >>> import numpy as np
    >>> x1, x2 = np.random.default_rng(0).normal(size=(2, 300))
    >>> bool(conditional_cs_predictors(x1 + x2, x1, x2) > 2 * conditional_cs_predictors(x1, x1, x2))
    True
    """
    check_choice("form", form, get_args(PredictorForm))
    samples = without_absent_rows([("weights", weights)], [("y", y)], [("x1", x1)], [("x2", x2)])
    weight_parts, y_parts, x1_parts, x2_parts = samples
    inputs = Inputs.of(*(value for parts in samples for _, value in parts))
    single = {"bandwidth_y": bandwidth_y, "bandwidth_x1": bandwidth_x1, "bandwidth_x2": bandwidth_x2}
    bandwidth_y, bandwidth_x1, bandwidth_x2 = bandwidths(bandwidth, **single)
    response = inputs.kernel_variable(y_parts, "_y", kernel_y, bandwidth_y, response=True)
    first = inputs.kernel_variable(x1_parts, "_x1", kernel_x1, bandwidth_x1)
    second = inputs.kernel_variable(x2_parts, "_x2", kernel_x2, bandwidth_x2)
    check_same_rows(response.variable, y_parts, first.variable, x1_parts)
    check_same_rows(response.variable, y_parts, second.variable, x2_parts)
    groups = inputs.weights(weight_parts, response.variable.sizes)
    if (sampled := sampling_of(method, inputs.backend, groups.n)) is not None:
        rows = RowsInMemory([first, second, response], ((0,), (0, 2), (0, 1), (0, 1, 2)), groups)
        return sampled_value(sampled, rows, predictor_sums(form))
    k1, k12 = first.kernel, product([first.kernel, second.kernel])
    sums = log_row_sums([k1, product([k1, response.kernel]), k12, product([k12, response.kernel])], groups)
    return inputs.result(predictor_divergence(inputs.backend, [s[:, 0] for s in sums], groups.weights, form))
