"""Cauchy-Schwarz divergence between two Gaussian mixtures, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import Array, Backend, RealArray, logsumexp
from condcs._core.errors import DataError, ShapeError, public
from condcs._core.printable import counted
from condcs._measures.inputs import Inputs


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
            f"`{name}` must hold one weight per component, shape ({k},) to go with `means_{side}` ({k}, {d}), got "
            f"shape {tuple(values.shape)}. Pass a 1-d array of {counted(k, 'weight')}."
        )
    if not inputs.backend.is_traced(values) and not bool(xp.all(values > 0)):
        raise DataError(
            f"`{name}` must be positive, got {inputs.backend.to_numpy(values).min()}. Leave out components of weight "
            "0, with their means and covariances."
        )
    return Mixture(means, checked, xp.log(values))


def _covariances(inputs: Inputs, name: str, means_name: str, covariances: Any, k: int, d: int) -> Array:
    values = _as_floats(inputs, name, covariances)
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


def _check_definite(name: str, matrices: RealArray) -> None:
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
