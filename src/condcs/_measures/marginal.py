"""Divergences between two samples of one variable: Cauchy-Schwarz and maximum mean discrepancy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import NUMPY, Array, Backend, logsumexp
from condcs._core.checks import Groups
from condcs._core.errors import DataError, ShapeError, public
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import Kernel, LogKernel, product
from condcs._kernels.row_chunks import RowSource
from condcs._kernels.row_sums import log_row_sums
from condcs._measures.formulas import RowSums, contrast, marginal_interaction, marginal_sums, weight_totals
from condcs._measures.inputs import (
    ConditionalProblem,
    Inputs,
    MarginalEstimator,
    MarginalProblem,
    conditional_problem,
    marginal_problem,
    pair,
)
from condcs._measures.sampled import Method, PooledRows, sampled_value, sampling_of


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
    method: Method = "auto",
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
    kernel : {"gaussian", "laplacian", "delta"}, one per column, or callable
        Similarity of two observations.
    weights_p, weights_q : array, optional
        A non-negative weight per row.
    method : {"auto", "exact", "sampled"} or `Sampled`
        Whether all pairs of rows are visited, or anchor rows only, to a given standard error. "auto" is exact up to
        20,000 pooled rows, and always where there are gradients.

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
        rows = PooledRows(problem.variables, ((0,),), problem.groups)
        return sampled_value(sampled, rows, cs_sums(rows))
    return problem.inputs.result(cs_pairs(problem)[0, 1])


def cs_sums(rows: RowSource) -> RowSums:
    """CS divergence between two groups as sums over rows."""
    return marginal_sums(rows.weights(), logs=True)


def cs_pairs(problem: MarginalProblem) -> Array:
    """CS divergences between all pairs of groups (G x G)."""
    return contrast(_interaction(problem.kernel, problem.groups))


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
    method: Method = "auto",
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
        rows = PooledRows(problem.variables, ((0,),), problem.groups)
        return sampled_value(sampled, rows, mmd_sums(rows, unbiased=unbiased))
    return problem.inputs.result(mmd_pairs(problem, unbiased=unbiased)[0, 1])


def mmd_sums(rows: RowSource, *, unbiased: bool = False) -> RowSums:
    """Squared MMD between two groups as sums over rows."""
    if not unbiased:
        return marginal_sums(rows.weights(), logs=False)
    return marginal_sums(rows.weights(), logs=False, within=_within(NUMPY, rows.totals()))


def mmd_pairs(problem: MarginalProblem, *, unbiased: bool = False) -> Array:
    """Squared MMD between all pairs of groups (G x G)."""
    return _squared_mmd(problem.kernel, problem.groups, unbiased)


@public
def joint_mmd(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    unbiased: bool = False,
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    method: Method = "auto",
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
    bandwidth_x, bandwidth_y, kernel_x, kernel_y, weights_p, weights_q, method
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
    problem = conditional_problem(*samples, kernel_x, kernel_y, bandwidth_x, bandwidth_y)
    if (sampled := sampling_of(method, problem.inputs.backend, problem.groups.n)) is not None:
        rows = PooledRows(problem.variables, ((0, 1),), problem.groups)
        return sampled_value(sampled, rows, mmd_sums(rows, unbiased=unbiased))
    return problem.inputs.result(joint_mmd_pairs(problem, unbiased=unbiased)[0, 1])


def joint_mmd_pairs(problem: ConditionalProblem, *, unbiased: bool = False) -> Array:
    """Squared MMD between the joint distributions of all pairs of groups (G x G)."""
    return _squared_mmd(product([problem.x.kernel, problem.y.kernel]), problem.groups, unbiased)


def _squared_mmd(kernel: LogKernel, groups: Groups, unbiased: bool) -> Array:
    xp, t = kernel.backend.xp, kernel.backend.xp.exp(_interaction(kernel, groups))
    if not unbiased:
        return contrast(t)
    own = [
        (t[g, g] - itself) / others
        for g, (itself, others) in enumerate(_within(kernel.backend, weight_totals(kernel, groups)))
    ]
    within = xp.stack(own)
    return within[:, None] + within[None, :] - t - t.T


def _within(backend: Backend, totals: Array) -> tuple[tuple[Array, Array], ...]:
    """Return, for each group, what rows' similarities to themselves add to its mean, and the weight of all others."""
    found = []
    for g in range(totals.shape[1]):
        total, squares, itself = totals[:, g]
        others = 1 - squares / total**2
        if not backend.is_traced(others) and not float(backend.detach(others)) > 0:
            raise DataError(
                f"`weights_{'pq'[g]}` must be positive for at least two rows: the unbiased estimate leaves out each "
                "row's similarity to itself, and nothing else is left. Pass unbiased=False."
            )
        found.append((itself / total**2, others))
    return tuple(found)


# Gaussian mixtures, in closed form.


@dataclass(frozen=True)
class Mixture:
    """One checked mixture: means (k x d), variances (k x d) or covariances (k x d x d), logarithms of weights (k)."""

    means: Array
    covariances: Array
    log_weights: Array


@public
def cs_gaussian_mixture(
    means_p: Array,
    covariances_p: Array,
    means_q: Array,
    covariances_q: Array,
    *,
    weights_p: Array | None = None,
    weights_q: Array | None = None,
) -> Array:
    r"""Cauchy-Schwarz divergence between two Gaussian mixtures, exactly.

    No samples: the densities are given by their parameters.

    .. math:: D = \log \int p^2 + \log \int q^2 - 2 \log \int p q, \qquad
              \int p q = \sum_{ij} \pi^p_i \pi^q_j \, N(\mu^p_i; \mu^q_j, \Sigma^p_i + \Sigma^q_j)

    with all sums of densities in the log domain. For k components in each and d dimensions, cost O(k^2 d^3) and memory
    O(k^2 d^2); with diagonal covariances in both, O(k^2 d).

    Parameters
    ----------
    means_p, means_q : array, shape (k, d) and (l, d)
        One mean per row. A 1-d array holds the means of components in one dimension.
    covariances_p, covariances_q : array, shape (k, d, d) or (k, d), and (l, d, d) or (l, d)
        A covariance matrix for each component, or the variances on its diagonal; for 1-d means one variance each, (k,).
        Variances, not standard deviations.
    weights_p, weights_q : array, shape (k,) and (l,), optional
        Positive mixing weights; by default all equal. They need not sum to one: the divergence does not depend on it.

    Returns
    -------
    scalar
        Non-negative up to rounding, symmetric; in the arrays' own library and differentiable for torch and JAX.

    Examples
    --------
    Two unit Gaussians at distance 1: D = 1/2.

    >>> round(float(cs_gaussian_mixture([0.0], [1.0], [1.0], [1.0])), 12)
    0.5
    """
    inputs = Inputs.of(means_p, covariances_p, means_q, covariances_q, weights_p, weights_q)
    means = inputs.numbers([("means_p", means_p), ("means_q", means_q)], stem="mean", min_rows=1)
    count = means.sizes[0]
    p = _mixture(inputs, "p", means.values[:count], covariances_p, weights_p)
    q = _mixture(inputs, "q", means.values[count:], covariances_q, weights_q)
    backend = inputs.backend
    cross = log_product_integral(backend, p, q)
    return inputs.result(log_product_integral(backend, p, p) + log_product_integral(backend, q, q) - 2 * cross)


def log_product_integral(backend: Backend, p: Mixture, q: Mixture) -> Array:
    """Return log of the integral of p q, up to the constant -d/2 log(2 pi) that every contrast cancels."""
    xp = backend.xp
    difference = p.means[:, None, :] - q.means[None, :, :]
    if p.covariances.ndim == q.covariances.ndim == 2:
        variance = p.covariances[:, None, :] + q.covariances[None, :, :]
        exponent = -0.5 * xp.sum(xp.log(variance) + difference / variance * difference, axis=-1)
    else:
        covariance = _full(backend, p)[:, None, :, :] + _full(backend, q)[None, :, :, :]
        # A sum of squares: with the inverse, terms of both signs could overflow to NaN.
        factor = xp.linalg.cholesky(covariance)
        whitened = xp.linalg.solve(factor, difference[..., None])[..., 0]
        diagonal = xp.sum(factor * backend.from_numpy(np.eye(difference.shape[-1]), factor), axis=-1)
        exponent = -xp.sum(xp.log(diagonal) + 0.5 * whitened**2, axis=-1)
    terms = exponent + p.log_weights[:, None] + q.log_weights[None, :]
    return logsumexp(backend, terms.reshape((-1,)), axis=0)


def _full(backend: Backend, mixture: Mixture) -> Array:
    if mixture.covariances.ndim == 3:
        return mixture.covariances
    return mixture.covariances[:, :, None] * backend.from_numpy(np.eye(mixture.means.shape[1]), mixture.means)


def _mixture(inputs: Inputs, side: str, means: Array, covariances: Any, weights: Any) -> Mixture:
    """Check the parameters of one mixture against its means."""
    xp, (k, d) = inputs.backend.xp, means.shape
    checked = _covariances(inputs, f"covariances_{side}", f"means_{side}", covariances, k, d)
    if weights is None:
        return Mixture(means, checked, xp.zeros_like(means[:, 0]))
    name = f"weights_{side}"
    values = _as_floats(inputs, name, weights)
    if values.shape != (k,):
        raise ShapeError(
            f"`{name}` must hold one weight per component, shape ({k},) for the {k} rows of `means_{side}`, got shape "
            f"{tuple(values.shape)}. Pass a 1-d array of {k} weights."
        )
    if not inputs.backend.is_traced(values) and not bool(xp.all(values > 0)):
        raise DataError(
            f"`{name}` must be positive, got {inputs.backend.to_numpy(values).min()}. Leave out components of weight "
            "0, with their means and covariances."
        )
    return Mixture(means, checked, xp.log(values))


def _covariances(inputs: Inputs, name: str, means_name: str, given: Any, k: int, d: int) -> Array:
    values = _as_floats(inputs, name, given)
    shape = tuple(values.shape)
    if shape == (k,) and d == 1:
        values = values[:, None]
    elif shape not in ((k, d), (k, d, d)):
        one = f", ({k},)" if d == 1 else ""
        raise ShapeError(
            f"`{name}` must have shape ({k}, {d}, {d}), or ({k}, {d}){one} for variances only, to go with "
            f"`{means_name}` ({k}, {d}), got {shape}. Give one matrix per component; repeat a shared one with "
            f"`np.broadcast_to(matrix, ({k}, {d}, {d}))`."
        )
    if values.ndim == 2:
        if not inputs.backend.is_traced(values) and not bool(inputs.backend.xp.all(values > 0)):
            raise DataError(
                f"`{name}` must hold positive variances, got {inputs.backend.to_numpy(values).min()}. Give a component "
                "without spread a small positive variance."
            )
        return values
    if not inputs.backend.is_traced(values):
        _check_definite(name, inputs.backend.to_numpy(values))
    return 0.5 * (values + inputs.backend.xp.permute_dims(values, (0, 2, 1)))


def _check_definite(name: str, matrices: np.ndarray[Any, Any]) -> None:
    """Check symmetry and definiteness of each matrix in units of its own diagonal, so that scales do not matter."""
    eps, d = np.finfo(matrices.dtype).eps, matrices.shape[-1]
    for i, matrix in enumerate(matrices):
        variances = np.diagonal(matrix)
        if not np.all(variances > 0):
            raise DataError(
                f"`{name}` must be positive definite, got the variance {variances.min()} on the diagonal of component "
                f"{i}. Drop dimensions without spread, or add a small ridge to the diagonal."
            )
        scale = np.sqrt(variances)
        correlation = matrix / scale[:, None] / scale[None, :]
        if np.max(np.abs(correlation - correlation.T)) > np.sqrt(eps):
            raise DataError(
                f"`{name}` must be symmetric, but component {i} differs from its transpose. If it holds Cholesky "
                "factors C, pass C @ C.T."
            )
        # Above this limit Cholesky's method cannot fail, on this matrix or on a sum of such matrices.
        smallest = float(np.linalg.eigvalsh(0.5 * (correlation + correlation.T))[0])
        if smallest <= d * (d + 2) * eps:
            raise DataError(
                f"`{name}` must be positive definite, but component {i} has a smallest eigenvalue of {smallest:.2g} "
                "(as a correlation matrix). Add a small ridge to its diagonal."
            )


def _as_floats(inputs: Inputs, name: str, value: Any) -> Array:
    """Bring an array of any number of dimensions to the library and type of the call; it must hold finite numbers."""
    backend = inputs.backend
    if value is None:
        raise DataError(f"`{name}` must be an array, got None. Pass one entry per component.")
    if backend.name == "numpy":
        try:
            values: Array = np.asarray(value, dtype=inputs.dtype)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"`{name}` must be a rectangular array of numbers, got {type(value).__name__}. Give every component "
                "the same number of entries."
            ) from error
    else:
        values = backend.xp.astype(value, inputs.dtype)
    if not backend.is_traced(values) and not bool(backend.xp.all(backend.xp.isfinite(values))):
        raise DataError(f"`{name}` must be finite, got NaN or infinity. Check how the mixture was fitted.")
    return values
