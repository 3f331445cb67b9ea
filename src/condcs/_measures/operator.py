r"""Conditional mean embeddings: the operator interaction (conditional MMD) and its value at given points (MCMD).

With Gram matrices K on x and L on y, and :math:`\tilde K_g = K_{gg} + \lambda I`,

.. math:: T_{gh} = \mathrm{tr}(K_{gh} \tilde K_h^{-1} L_{hg} \tilde K_g^{-1}),

the inner product of the conditional mean operators of groups g and h. No inverse is formed: each group's matrix is
factored once, and the factor serves all pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from condcs._core.arrays import Array, Backend
from condcs._core.checks import Groups, check_positive
from condcs._core.errors import ParameterError, public
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import LogKernel
from condcs._kernels.named_kernels import Kernel
from condcs._measures.formulas import contrast
from condcs._measures.inputs import ConditionalProblem, conditional_problem, kernel_with_points, pair

Solver = Callable[[Array], Array]


@public
def conditional_mmd(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    regularization: float = 0.1,
    bandwidth: Bandwidth | None = None,
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
) -> Array:
    r"""Squared conditional maximum mean discrepancy between p(y|x) and q(y|x).

    The distance between two conditional mean operators: 0 when they are equal.

    .. math:: \mathrm{CMMD}^2 = T_{pp} + T_{qq} - 2 T_{pq}, \qquad
              T_{gh} = \mathrm{tr}(K_{gh} \tilde K_h^{-1} L_{hg} \tilde K_g^{-1}), \qquad
              \tilde K_g = K_{gg} + \lambda I

    with Gram matrices K on x and L on y: the trace form, without the factors 1/n^2 that the paper's reformulation adds.
    Cost O(n^3 + n^2 d); memory O(n^2), the Gram matrices of both samples.

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`.
    regularization : float
        Lambda, as it stands: not multiplied by the number of rows. The value grows without bound as it goes to 0.
    bandwidth, bandwidth_x, bandwidth_y, kernel_x, kernel_y
        As in `conditional_cs`. A kernel that is a function must be positive definite.

    Returns
    -------
    scalar
        CMMD squared, non-negative up to rounding, in the arrays' own library; differentiable for torch and JAX.
        Rule-based bandwidths count as constants.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 50)
    >>> same = conditional_mmd(x, np.sin(x), x, np.sin(x))
    >>> turned = conditional_mmd(x, np.sin(x), x, -np.sin(x))
    >>> bool(abs(same) < 1e-10 < turned)
    True
    """
    samples = pair("x", xp, xq), pair("y", yp, yq), pair("weights_", None, None)
    problem = conditional_problem(*samples, kernel_x, kernel_y, bandwidth_x, bandwidth_y, bandwidth)
    return problem.inputs.result(conditional_mmd_pairs(problem, regularization=regularization)[0, 1])


def conditional_mmd_pairs(problem: ConditionalProblem, *, regularization: float = 0.1) -> Array:
    """Squared conditional MMD between all pairs of groups (G x G)."""
    amount = check_positive("regularization", regularization)
    return contrast(operator_interaction(problem.x.kernel, problem.y.kernel, problem.groups, amount))


def operator_interaction(kernel_x: LogKernel, kernel_y: LogKernel, groups: Groups, regularization: float) -> Array:
    """T[g,h] = tr(K_gh K~_h^-1 L_hg K~_g^-1) for all pairs of groups (G x G), not in logarithms.

    Cost O(n^2 d) and two solves for each pair of groups; memory O(n_g n_h) beyond the factors, O(sum of n_g^2).
    """
    backend, slices = kernel_x.backend, groups.slices
    xp = backend.xp
    solvers = [_solver(backend, _gram(kernel_x, s, s), regularization) for s in slices]
    interaction: list[list[Array]] = [[None] * groups.count for _ in slices]
    for g, rows_g in enumerate(slices):
        for h, rows_h in enumerate(slices[: g + 1]):
            # The trace is the same for (g, h) and (h, g): transposed, with its factors in cyclic order.
            by_x = solvers[g](_gram(kernel_x, rows_g, rows_h))
            by_y = solvers[h](_gram(kernel_y, rows_h, rows_g))
            interaction[g][h] = interaction[h][g] = xp.sum(by_x * by_y.T)
    return xp.stack([xp.stack(row) for row in interaction])


@public
def mcmd(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    at: Array,
    regularization: float = 0.05,
    bandwidth: Bandwidth | None = None,
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
) -> Array:
    r"""Squared maximum conditional mean discrepancy: how far p(y|x) and q(y|x) are apart at given x.

    The distance between the two conditional mean embeddings at a point x (Park and Muandet, 2020):

    .. math:: \mathrm{MCMD}^2(x) = w_p' L_{pp} w_p + w_q' L_{qq} w_q - 2 w_p' L_{pq} w_q, \qquad
              w_g = (K_{gg} + n_g \lambda I)^{-1} k_g(x)

    with :math:`k_g(x)` the kernel values between x and the rows of sample g, of which there are :math:`n_g`.
    Cost O(n^3 + n^2 (d + r)) for r points; memory O(n^2 + n r).

    Parameters
    ----------
    xp, yp, xq, yq : array
        Two samples, as in `conditional_mmd`.
    at : array, shape (r, d_x)
        Points of x at which it is evaluated, at least one; a 1-d array is one column. Bandwidth rules ignore them.
    regularization : float
        Lambda; multiplied by the number of rows of each sample.
    bandwidth, bandwidth_x, bandwidth_y, kernel_x, kernel_y
        As in `conditional_mmd`.

    Returns
    -------
    array, shape (r,)
        MCMD squared at each row of `at`, non-negative up to rounding, in the arrays' own library; differentiable for
        torch and JAX. It tends to 0 far from both samples, where nothing is known: a small value there is no evidence
        of agreement.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 60)
    >>> middle, end = mcmd(x, x, x, -x, at=[0.0, 1.0])
    >>> bool(middle < 1e-10 < end)
    True
    """
    amount = check_positive("regularization", regularization)
    samples = pair("x", xp, xq), pair("y", yp, yq), pair("weights_", None, None)
    problem = conditional_problem(*samples, kernel_x, kernel_y, bandwidth_x, bandwidth_y, bandwidth)
    _, k = kernel_with_points(problem, [*pair("x", xp, xq), ("at", at)])
    backend, groups = problem.inputs.backend, problem.groups
    points, everything = slice(groups.n, None), slice(None)
    # The two quadratic forms and the cross term are one form in the weights of p and minus those of q.
    weights = [
        sign * _solver(backend, _gram(k, s, s), amount, times=s.stop - s.start)(_gram(k, s, points))
        for sign, s in zip((1, -1), groups.slices, strict=True)
    ]
    w = backend.concat(weights)
    return problem.inputs.result(backend.xp.sum(w * (_gram(problem.y.kernel, everything, everything) @ w), axis=0))


def _gram(kernel: LogKernel, rows: slice, columns: slice) -> Array:
    return kernel.backend.xp.exp(kernel.block(rows, columns))


def _solver(backend: Backend, gram: Array, regularization: float, times: int = 1) -> Solver:
    """Factor gram + times * regularization * I, and return the function that solves with it."""
    matrix = gram + backend.from_numpy(times * regularization * np.eye(gram.shape[0]), gram)
    if backend.name == "numpy":
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError as error:
            raise _not_definite(regularization, matrix) from error
        return lambda b: cho_solve(factor, b, check_finite=False)
    if backend.name == "torch":
        return _torch_solver(matrix, regularization)
    if backend.name == "jax":
        return _jax_solver(backend, matrix, regularization)
    return lambda b: backend.xp.linalg.solve(matrix, b)


def _torch_solver(matrix: Array, regularization: float) -> Solver:
    import torch

    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        raise _not_definite(regularization, matrix)
    return lambda b: torch.cholesky_solve(b, factor)


def _jax_solver(backend: Backend, matrix: Array, regularization: float) -> Solver:
    import jax

    factor = jax.numpy.linalg.cholesky(matrix)
    # JAX reports a failed factorisation by NaN, not by an error.
    if not backend.is_traced(factor) and not bool(jax.numpy.all(jax.numpy.isfinite(factor))):
        raise _not_definite(regularization, matrix)
    return lambda b: jax.scipy.linalg.cho_solve((factor, True), b)


def _not_definite(regularization: float, matrix: Array) -> ParameterError:
    return ParameterError(
        f"`regularization` must be large enough to make the Gram matrix on x positive definite, got {regularization!r} "
        f"for a sample of {matrix.shape[0]} rows in {str(matrix.dtype).rpartition('.')[2]}. Increase it, e.g. to "
        f"{max(10 * regularization, 1e-3):g}; if `kernel_x` is a function, check that it is positive definite."
    )
