"""Divergences between two samples of one variable: Cauchy-Schwarz and maximum mean discrepancy."""

from __future__ import annotations

from condcs._core.arrays import NUMPY, Array, Backend
from condcs._core.checks import Groups
from condcs._core.errors import DataError, public
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import LogKernel, product
from condcs._kernels.named_kernels import Kernel
from condcs._kernels.row_chunks import RowSource
from condcs._kernels.row_sums import log_row_sums
from condcs._measures.formulas import RowSums, contrast, marginal_interaction, marginal_sums, weight_totals
from condcs._measures.inputs import (
    ConditionalProblem,
    MarginalEstimator,
    MarginalProblem,
    conditional_problem,
    marginal_problem,
    pair,
)
from condcs._measures.sampled import RowsInMemory, SamplingMethod, sampled_value, sampling_of


@public
def cs(
    yp: Array,
    yq: Array,
    *,
    estimator: MarginalEstimator = "resubstitution",
    bandwidth: Bandwidth = "median",
    kernel: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    method: SamplingMethod = "auto",
) -> Array:
    r"""Cauchy-Schwarz divergence between two samples.

    The angle between two kernel mean embeddings: 0 when they are parallel, growing as they part.

    .. math:: D = \log \bar L_{pp} + \log \bar L_{qq} - 2 \log \bar L_{pq}

    with :math:`\bar L` the mean of a Gram matrix, diagonal included. Cost O(n^2 d); memory O(n).

    Parameters
    ----------
    yp, yq : array, shape (n, d) and (m, d)
        Rows are observations; ``n`` and ``m`` may differ.
    estimator : {"resubstitution", "plugin"}
        "plugin" inserts the kernel density estimate into the integrals (the paper's Appendix A), which for a Gaussian
        kernel means a bandwidth of sqrt(2) sigma.
    bandwidth : float, sequence of float, or {"median", "joint_median", "silverman", "scott"}
        Estimated from the pooled sample when a rule is named.
    kernel : str, one per column, or callable
        Similarity of two observations: docs/guide/bandwidth.md lists the names, as does the error about a name that is
        none. Labels are compared as in `conditional_cs`.
    weights_p, weights_q : array, optional
        A non-negative weight per row.
    method : {"auto", "exact", "sampled"} or `Sampled`
        Whether the sums are over all pairs of rows, or estimated from anchor rows to a given standard error. "auto" is
        exact up to 20,000 pooled rows, and always for arrays of torch and JAX.

    Returns
    -------
    scalar
        Non-negative up to rounding; differentiable when the inputs are torch tensors or JAX arrays.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.0], [1.0]])
    >>> round(float(cs(p, p + 2, bandwidth=1.0)), 4)
    2.5713
    """
    samples = pair("y", yp, yq), pair("weights_", weights_p, weights_q)
    problem = marginal_problem(*samples, kernel, bandwidth, estimator)
    if (sampled := sampling_of(method, problem.inputs.backend, problem.groups.n)) is not None:
        rows = RowsInMemory(problem.variables, ((0,),), problem.groups)
        return sampled_value(sampled, rows, cs_sums(rows))
    return problem.inputs.result(cs_pairs(problem)[0, 1])


def cs_sums(rows: RowSource) -> RowSums:
    """CS divergence between two groups as sums over rows."""
    return marginal_sums(rows.weights(), logs=True)


def cs_pairs(problem: MarginalProblem) -> Array:
    """CS divergences between all pairs of groups (G x G)."""
    return contrast(_interaction(problem.y.kernel, problem.groups))


def _interaction(kernel: LogKernel, groups: Groups) -> Array:
    """Log of the mean kernel value between every two groups."""
    return marginal_interaction(kernel.backend, log_row_sums([kernel], groups)[0], groups)


@public
def mmd(
    yp: Array,
    yq: Array,
    *,
    unbiased: bool = False,
    bandwidth: Bandwidth = "median",
    kernel: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    method: SamplingMethod = "auto",
) -> Array:
    r"""Squared maximum mean discrepancy between two samples.

    .. math:: \mathrm{MMD}^2 = \bar L_{pp} + \bar L_{qq} - 2 \bar L_{pq}

    with :math:`\bar L` the mean of a Gram matrix, diagonal included (V-statistic) or, if `unbiased`, left out
    (U-statistic, which can be negative). Cost O(n^2 d); memory O(n).

    Parameters
    ----------
    yp, yq : array, shape (n, d) and (m, d)
        Rows are observations; ``n`` and ``m`` may differ.
    unbiased : bool
        Whether to leave out each row's similarity to itself.
    bandwidth, kernel, weights_p, weights_q, method
        As in `cs`.

    Returns
    -------
    scalar
        MMD squared, in the arrays' own library; differentiable for torch and JAX.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.0], [1.0]])
    >>> round(float(mmd(p, p + 2, bandwidth=1.0)), 4)
    1.1624
    """
    samples = pair("y", yp, yq), pair("weights_", weights_p, weights_q)
    problem = marginal_problem(*samples, kernel, bandwidth)
    if (sampled := sampling_of(method, problem.inputs.backend, problem.groups.n)) is not None:
        rows = RowsInMemory(problem.variables, ((0,),), problem.groups)
        return sampled_value(sampled, rows, mmd_sums(rows, unbiased=unbiased))
    return problem.inputs.result(mmd_pairs(problem, unbiased=unbiased)[0, 1])


def mmd_sums(rows: RowSource, *, unbiased: bool = False) -> RowSums:
    """Squared MMD between two groups as sums over rows."""
    if not unbiased:
        return marginal_sums(rows.weights(), logs=False)
    return marginal_sums(rows.weights(), logs=False, within=_within(NUMPY, rows.totals()))


def mmd_pairs(problem: MarginalProblem, *, unbiased: bool = False) -> Array:
    """Squared MMD between all pairs of groups (G x G)."""
    return _squared_mmd(problem.y.kernel, problem.groups, unbiased)


@public
def joint_mmd(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    unbiased: bool = False,
    bandwidth: Bandwidth | None = None,
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    method: SamplingMethod = "auto",
) -> Array:
    r"""Squared maximum mean discrepancy between the joint distributions p(x, y) and q(x, y).

    The kernel on pairs is the product K L of the kernels on x and y. It sees changes of p(x) as well as of p(y|x).
    Cost O(n^2 d); memory O(n).

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`.
    unbiased : bool
        Whether to leave out each row's similarity to itself.
    bandwidth, bandwidth_x, bandwidth_y, kernel_x, kernel_y, weights_p, weights_q, method
        As in `conditional_cs`.

    Returns
    -------
    scalar
        MMD squared, in the arrays' own library; differentiable for torch and JAX.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> round(float(joint_mmd(x, x, x, 1 - x)), 3)
    0.339
    """
    samples = pair("x", xp, xq), pair("y", yp, yq), pair("weights_", weights_p, weights_q)
    problem = conditional_problem(*samples, kernel_x, kernel_y, bandwidth_x, bandwidth_y, bandwidth)
    if (sampled := sampling_of(method, problem.inputs.backend, problem.groups.n)) is not None:
        rows = RowsInMemory(problem.variables, ((0, 1),), problem.groups)
        return sampled_value(sampled, rows, mmd_sums(rows, unbiased=unbiased))
    return problem.inputs.result(joint_mmd_pairs(problem, unbiased=unbiased)[0, 1])


def joint_mmd_pairs(problem: ConditionalProblem, *, unbiased: bool = False) -> Array:
    """Squared MMD between the joint distributions of all pairs of groups (G x G)."""
    return _squared_mmd(product([problem.x.kernel, problem.y.kernel]), problem.groups, unbiased)


def _squared_mmd(kernel: LogKernel, groups: Groups, unbiased: bool) -> Array:
    xp, t = kernel.backend.xp, kernel.backend.xp.exp(_interaction(kernel, groups))
    if not unbiased:
        return contrast(t)
    corrections = _within(kernel.backend, weight_totals(kernel, groups))
    means = [(t[g, g] - itself) / others for g, (itself, others) in enumerate(corrections)]
    within = xp.stack(means)
    return within[:, None] + within[None, :] - t - t.T


def _within(backend: Backend, totals: Array) -> tuple[tuple[Array, Array], ...]:
    """Return, for each group, what rows' similarities to themselves add to its mean, and the weight of all others."""
    corrections = []
    for g in range(totals.shape[1]):
        total, squares, itself = totals[:, g]
        others = 1 - squares / total**2
        if not backend.is_traced(others) and not float(backend.detach(others)) > 0:
            raise DataError(
                f"`weights_{'pq'[g]}` must be positive for at least two rows: the unbiased estimate leaves out each "
                "row's similarity to itself, and nothing else is left. Pass unbiased=False."
            )
        corrections.append((itself / total**2, others))
    return tuple(corrections)
