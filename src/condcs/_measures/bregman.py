r"""Conditional Bregman matrix divergence: what covariance or correntropy matrices say about p(y|x) against q(y|x).

Both generators obey the same decomposition as the Kullback-Leibler divergence, joint minus marginal, and neither can
come out negative: the marginal matrix is a block of the joint one, and a Bregman divergence of these two kinds only
shrinks when it is restricted to a block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import Array, Backend, FloatArray
from condcs._core.checks import Groups, Variable, check_choice
from condcs._core.errors import public
from condcs._kernels.bandwidths import Bandwidth, column_widths
from condcs._kernels.log_kernels import gaussian
from condcs._kernels.row_sums import log_row_sums
from condcs._measures.formulas import Direction, directed, marginal_interaction
from condcs._measures.inputs import NumericProblem, numeric_problem, pair

Generator = Literal["von_neumann", "log_det"]
Matrix = Literal["covariance", "correntropy"]

RIDGE = 1e-8
"""Smallest eigenvalue that stays as it is, as a part of the trace: logarithms and inverses of smaller ones would be
made of rounding errors. Documented in `conditional_bregman`."""


@public
def conditional_bregman(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    generator: Generator = "von_neumann",
    matrix: Matrix = "covariance",
    bandwidth: Bandwidth = "median",
    direction: Direction = "pq",
) -> Array:
    r"""Conditional Bregman matrix divergence between p(y|x) and q(y|x).

    Compares second moments only: the divergence of the joint matrices of (x, y) minus that of the matrices of x.

    .. math:: D = D_B(C^p_{xy}; C^q_{xy}) - D_B(C^p_x; C^q_x)

    with :math:`D_B(\sigma; \rho) = \mathrm{tr}(\sigma \log \sigma - \sigma \log \rho - \sigma + \rho)` (von Neumann) or
    :math:`\mathrm{tr}(\sigma \rho^{-1}) - \log \det(\sigma \rho^{-1}) - d` (log-det), and C the covariance matrix
    (divisor n - 1) or the centred correntropy matrix, with a Gaussian kernel k on single numbers:

    .. math:: C_{ab} = \frac{1}{n} \sum_i k(z_{ia} - z_{ib}) - \frac{1}{n^2} \sum_{ij} k(z_{ia} - z_{jb}),
              \qquad z = (x, y).

    For n rows and d = d_x + d_y columns, cost O(n d^2 + d^3) and memory O(n d) with the covariance, cost O(n^2 d^2) and
    memory O(n d^2) with correntropy.

    Parameters
    ----------
    xp, yp : array, shape (n, d_x) and (n, d_y)
        First sample: rows are observations; 1-d arrays are one column.
    xq, yq : array, shape (m, d_x) and (m, d_y)
        Second sample; ``n`` and ``m`` may differ.
    generator : {"von_neumann", "log_det"}
        The Bregman divergence. With covariances, log-det does not change when columns are rescaled, and is twice the
        expected Kullback-Leibler divergence of the conditionals if all is Gaussian with equal means; von Neumann
        changes with the units.
    matrix : {"covariance", "correntropy"}
        Covariances see second moments only, so not a shift of the mean. Correntropy sees all moments, but compares
        columns with one another: bring them to one scale first.
    bandwidth : float or {"median", "joint_median", "silverman", "scott"}
        Bandwidth of the correntropy kernel; not used with covariances. There is one for all entries, because k
        compares every column with every other: a rule takes all numbers of the pooled sample, of x and y alike, as one
        column.
    direction : {"pq", "mean", "max"}
        D(p; q) as above, the mean of D(p; q) and D(q; p), or the larger of the two.

    Returns
    -------
    scalar
        Non-negative up to rounding, not symmetric in p and q unless `direction` makes it so; in the arrays' own library
        and differentiable for torch and JAX. Rule-based bandwidths count as constants.

    Notes
    -----
    Matrix logarithms and inverses need positive definite matrices. If the smallest eigenvalue of a joint matrix is
    below 1e-8 of its trace (fewer rows than columns, or a column that follows from others), as much is added to the
    whole diagonal as lifts it there, and the matrix of x is a block of the result; otherwise nothing is added. In
    single precision the limit is 5e-7 d instead of 1e-8, the rounding error of such an eigenvalue. Where a ridge was
    needed, log-det measures mostly the ridge.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 400))
    >>> near = conditional_bregman(x, x + noise, x, x - noise)
    >>> far = conditional_bregman(x, x + noise, x, noise - x)
    >>> bool(0 <= near < 0.1 < far)
    True
    """
    problem = numeric_problem(pair("x", xp, xq), pair("y", yp, yq))
    divergences = conditional_bregman_pairs(
        problem, generator=generator, matrix=matrix, bandwidth=bandwidth, direction=direction
    )
    return problem.inputs.result(divergences[0, 1])


def conditional_bregman_pairs(
    problem: NumericProblem,
    *,
    generator: Generator = "von_neumann",
    matrix: Matrix = "covariance",
    bandwidth: Bandwidth = "median",
    direction: Direction = "pq",
) -> Array:
    """Conditional Bregman divergences of every group (row) from every other (column), G x G."""
    check_choice("matrix", matrix, get_args(Matrix))
    matrices = second_moments(problem, matrix, bandwidth)
    return bregman_pairs(problem.inputs.backend, matrices, problem.x.values.shape[1], generator, direction)


def bregman_pairs(
    backend: Backend, matrices: list[Array], n_x: int, generator: Generator, direction: Direction = "pq"
) -> Array:
    """Joint minus marginal divergences from joint matrices whose first `n_x` columns are x, G x G."""
    check_choice("generator", generator, get_args(Generator))
    divergences = _von_neumann if generator == "von_neumann" else _log_det
    definite = [_definite(backend, c) for c in matrices]
    pairs = divergences(backend, definite) - divergences(backend, [c[:n_x, :n_x] for c in definite])
    return directed(backend, pairs, direction)


def second_moments(problem: NumericProblem, matrix: Matrix, bandwidth: Bandwidth) -> list[Array]:
    """Return the joint matrix of each group."""
    backend = problem.inputs.backend
    values = backend.concat([problem.x.values, problem.y.values], axis=1)
    if matrix == "covariance":
        return [_covariance(backend, values[s]) for s in problem.groups.slices]
    title = f"{problem.x.title} with {problem.y.title}"
    numbers = Variable(values.reshape((-1, 1)), (values.shape[0] * values.shape[1],), ("any",), title)
    width = column_widths("bandwidth", bandwidth, numbers, backend, response=False)
    return [_centred_correntropy(backend, values[s], width) for s in problem.groups.slices]


def _von_neumann(backend: Backend, matrices: list[Array]) -> Array:
    xp = backend.xp
    logs = [matrix_log(backend, c) for c in matrices]
    traces = [xp.sum(c.diagonal()) for c in matrices]

    def divergence(s: int, r: int) -> Array:
        return xp.sum(matrices[s] * (logs[s] - logs[r])) - traces[s] + traces[r]

    return _all_pairs(backend, len(matrices), xp.zeros_like(traces[0]), divergence)


def _log_det(backend: Backend, matrices: list[Array]) -> Array:
    xp = backend.xp
    log_dets = [xp.linalg.slogdet(c)[1] for c in matrices]

    def divergence(s: int, r: int) -> Array:
        ratio = xp.linalg.solve(matrices[r], matrices[s])
        return xp.sum(ratio.diagonal()) - log_dets[s] + log_dets[r] - ratio.shape[0]

    return _all_pairs(backend, len(matrices), xp.zeros_like(log_dets[0]), divergence)


def _all_pairs(backend: Backend, count: int, zero: Array, divergence: Callable[[int, int], Array]) -> Array:
    xp = backend.xp
    return xp.stack([xp.stack([divergence(s, r) if s != r else zero for r in range(count)]) for s in range(count)])


def _covariance(backend: Backend, values: Array) -> Array:
    centred = values - backend.xp.mean(values, axis=0)
    return centred.T @ centred / (values.shape[0] - 1)


def _centred_correntropy(backend: Backend, values: Array, width: FloatArray) -> Array:
    """Return the centred correntropy matrix (d, d) of rows (n, d), with one bandwidth for all entries."""
    xp = backend.xp
    n, d = values.shape
    # The columns as groups of single numbers: their marginal interaction is the second term, in tiles and in one call.
    groups = Groups((n,) * d)
    (sums,) = log_row_sums([gaussian(backend, values.T.reshape((-1, 1)), width)], groups)
    log_over_pairs = marginal_interaction(backend, sums, groups)  # (d, d)
    # The first term, over the entries of one row: a list of d rows of the matrix.
    z = values / backend.from_numpy(width, values)
    within_rows = [xp.mean(xp.exp(-0.5 * (z - z[:, a : a + 1]) ** 2), axis=0) for a in range(d)]
    difference = xp.stack(within_rows) - xp.exp(log_over_pairs)
    return 0.5 * (difference + difference.T)


def _definite(backend: Backend, c: Array) -> Array:
    """Lift the spectrum until its smallest eigenvalue is a hundred-millionth of the trace; leave it alone if it is."""
    xp, d = backend.xp, c.shape[0]
    # In single precision the rounding error of an eigenvalue is larger than that.
    limit = max(RIDGE, 4 * d * float(xp.finfo(c.dtype).eps))
    missing = limit * xp.sum(c.diagonal()) - xp.linalg.eigvalsh(c)[0]
    ridge = xp.where(missing > 0, missing, xp.zeros_like(missing))
    return c + ridge * backend.from_numpy(np.eye(d), c)


def matrix_log(backend: Backend, a: Array) -> Array:
    r"""Logarithm of a symmetric positive definite matrix, :math:`V \log(\lambda) V'`.

    Its derivative in a direction H is :math:`V (\Phi \circ V'HV) V'` with the divided differences
    :math:`\Phi_{ij} = (\log \lambda_i - \log \lambda_j) / (\lambda_i - \lambda_j)`. Differentiating the
    eigenvectors instead would divide by differences of eigenvalues and fail where two are equal, as after a ridge.
    """
    if backend.name == "torch":
        return _torch_matrix_log().apply(a)
    if backend.name == "jax":
        return _jax_matrix_log()(a)
    values, vectors = backend.xp.linalg.eigh(a)
    return _recompose(vectors, backend.xp.log(values))


def _recompose(vectors: Array, values: Array) -> Array:
    return (vectors * values) @ vectors.T


def _log_derivative(xp: Any, values: Array, vectors: Array, direction: Array) -> Array:
    """Return the derivative of the matrix logarithm in a direction, from eigenvalues and eigenvectors."""
    # Divided differences are log(1 + gap) / (gap low), with the gap in units of the lower eigenvalue; 1 / low without.
    low = xp.minimum(values[:, None], values[None, :])
    gap = xp.abs(values[:, None] - values[None, :]) / low
    apart = gap > 0
    gap = xp.where(apart, gap, xp.ones_like(gap))
    divided = xp.where(apart, xp.log1p(gap) / gap, xp.ones_like(gap)) / low
    return vectors @ (divided * (vectors.T @ direction @ vectors)) @ vectors.T


@lru_cache(maxsize=1)
def _torch_matrix_log() -> Any:
    """Make the autograd function; torch is imported only when a tensor is seen."""
    import torch

    class MatrixLog(torch.autograd.Function):
        """Matrix logarithm with the derivative by divided differences."""

        @staticmethod
        def forward(ctx: Any, a: Array) -> Array:
            values, vectors = torch.linalg.eigh(a)
            ctx.save_for_backward(a)
            return _recompose(vectors, torch.log(values))

        @staticmethod
        def backward(ctx: Any, gradient: Array) -> Array:
            values, vectors = torch.linalg.eigh(ctx.saved_tensors[0])
            return _log_derivative(torch, values, vectors, gradient)

    return MatrixLog


@lru_cache(maxsize=1)
def _jax_matrix_log() -> Any:
    import jax

    @jax.custom_jvp
    def matrix_log(a: Array) -> Array:
        values, vectors = jax.numpy.linalg.eigh(a)
        return _recompose(vectors, jax.numpy.log(values))

    @matrix_log.defjvp
    def derivative(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        values, vectors = jax.numpy.linalg.eigh(primals[0])
        return _recompose(vectors, jax.numpy.log(values)), _log_derivative(jax.numpy, values, vectors, tangents[0])

    return matrix_log
