"""Conditional Kullback-Leibler divergence by nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from condcs._core.arrays import Array, Backend, FloatArray
from condcs._core.checks import Groups, check_integer
from condcs._core.errors import DataError, public
from condcs._core.settings import current_settings
from condcs._measures.formulas import Direction, check_direction, directed
from condcs._measures.inputs import NumericProblem, numeric_problem, pair

DISTANCE_FLOOR = 1e-10
"""Shortest distance that counts, as a part of the largest range of any column."""

# Rows for each thread of a search: with fewer, starting a thread takes longer than their neighbours.
_ROWS_WORTH_A_THREAD = 512


@public
def conditional_kl(xp: Array, yp: Array, xq: Array, yq: Array, *, k: int = 3, direction: Direction = "pq") -> Array:
    r"""Conditional Kullback-Leibler divergence of p(y|x) from q(y|x), by k nearest neighbours.

    The divergence of the joint distributions minus that of the distributions of x:

    .. math:: D = D(p_{xy}; q_{xy}) - D(p_x; q_x), \qquad
              D(p; q) = \frac{d}{n} \sum_{i=1}^{n} \log \frac{\nu_k(i)}{\rho_k(i)} + \log \frac{m}{n - 1}

    with :math:`\rho_k(i)` the distance from row i of p to its k-th neighbour among the other rows of p, and
    :math:`\nu_k(i)` that to its k-th neighbour in q (Wang, Kulkarni and Verdu, 2009). Natural logarithms.
    Cost O(n k log n) in few dimensions, O(n^2 d) in many; memory O(n (d + k)).

    Parameters
    ----------
    xp, yp : array, shape (n, d_x) and (n, d_y)
        First sample: rows are observations; 1-d arrays are one column. Distances are Euclidean over the columns as they
        are: put columns of different units on one scale first.
    xq, yq : array, shape (m, d_x) and (m, d_y)
        Second sample; ``n`` and ``m`` may differ.
    k : int
        Which neighbour; from 1 to the smaller of n - 1 and m (with another `direction` than "pq": and of m - 1).
    direction : {"pq", "mean", "max"}
        D(p; q) as above, the mean of D(p; q) and D(q; p), or the larger of the two. When q has the heavier tails,
        D(p; q) of a finite sample can be negative where D(q; p) is clearly positive: a test by "max" sees both.

    Returns
    -------
    scalar
        In the arrays' own library. Not symmetric in p and q unless `direction` makes it so; can be negative, because
        the two estimates do not share their errors. Not differentiable: tensors are taken to the CPU and the result
        carries no gradient.

    Notes
    -----
    Repeated rows have neighbours at distance 0. Distances below 1e-10 of the largest column range (over both samples, x
    and y) count as that floor, so the result is finite. It is meaningful only where ties are rare: each row of p that
    occurs more than k times there and not in q adds about 23 d_y / n, whatever the data (23 is the log of 1e10).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=400)
    >>> y = x + rng.normal(size=400)
    >>> same = conditional_kl(x[:200], y[:200], x[200:], y[200:])
    >>> turned = conditional_kl(x[:200], y[:200], x[200:], -y[200:])
    >>> bool(abs(same) < 0.3 < turned)
    True
    """
    problem = numeric_problem(pair("x", xp, xq), pair("y", yp, yq))
    check_direction(direction)
    if direction != "pq":
        return problem.inputs.result(conditional_kl_pairs(problem, k=k, direction=direction)[0, 1])
    n, m = problem.groups.sizes
    k = check_integer(
        "k", k, 1, min(n - 1, m), because=f" (`xp` has {n} rows and `xq` has {m}; a row is not its own neighbour)"
    )
    return problem.inputs.result(_joint_minus_marginal(problem, k, firsts=(0,))[0, 1])


def conditional_kl_pairs(problem: NumericProblem, *, k: int = 3, direction: Direction = "pq") -> Array:
    """Conditional KL divergences of every group (row) from every other (column), G x G with zeros on the diagonal."""
    smallest = min(problem.groups.sizes)
    k = check_integer("k", k, 1, smallest - 1, because=f" (the smallest group has {smallest} rows)")
    pairs = _joint_minus_marginal(problem, k, firsts=range(problem.groups.count))
    return directed(problem.inputs.backend, pairs, direction)


def _joint_minus_marginal(problem: NumericProblem, k: int, firsts: Iterable[int]) -> Array:
    backend, x_values, y_values = problem.inputs.backend, problem.x.values, problem.y.values
    if _inside_transformation(backend, x_values, y_values):
        raise DataError(
            f"{problem.x.title} must be plain arrays, got some traced by jax.grad, jax.jit or jax.vmap. Nearest "
            "neighbours have no gradient: use `conditional_cs`, or call this function outside of jax.jit and jax.vmap; "
            "inside jax.grad, pass `jax.lax.stop_gradient` of the arrays."
        )
    *spaces, floor = joint_and_marginal_points(problem)
    parts = [_divergences(points, problem.groups, k, floor, firsts) for points in spaces]
    return backend.from_numpy(parts[0] - parts[1], x_values)


def joint_and_marginal_points(problem: NumericProblem) -> tuple[FloatArray, FloatArray, float]:
    """Return the pooled rows (x, y), the pooled rows x, and the shortest distance that counts."""
    backend = problem.inputs.backend
    x, y = (backend.to_numpy(v.values).astype(np.float64) for v in (problem.x, problem.y))
    joint = np.concatenate([x, y], axis=1)
    # The divergence has no unit. Powers of two leave every digit alone and keep squares away from overflow.
    joint = np.ldexp(joint, 1 - int(np.frexp(np.max(np.abs(joint)))[1]))
    floor = DISTANCE_FLOOR * float(np.max(np.ptp(joint, axis=0)))
    return joint, np.ascontiguousarray(joint[:, : x.shape[1]]), floor


def _inside_transformation(backend: Backend, *arrays: Array) -> bool:
    """Whether JAX follows any of the arrays; jax.grad lets us look at values, but would find a gradient of 0."""
    if backend.name != "jax":
        return False
    import jax

    return any(isinstance(a, jax.core.Tracer) for a in arrays)


def _divergences(points: FloatArray, groups: Groups, k: int, floor: float, firsts: Iterable[int]) -> FloatArray:
    """Kullback-Leibler divergences of the groups `firsts` from all others (G x G; the other rows stay 0).

    Without the constant log(m / (n - 1)): it is the same for joint and marginal, and their difference cancels it.
    """
    from scipy.spatial import cKDTree

    samples = [points[s] for s in groups.slices]
    trees = [cKDTree(s) for s in samples]
    result = np.zeros((groups.count, groups.count))
    for g in firsts:
        # Each row finds itself first, at distance 0, so its k-th neighbour is the k + 1st row found.
        log_rho = _log_distances(trees[g], samples[g], k + 1, floor)
        for h, tree in enumerate(trees):
            if h != g:
                result[g, h] = points.shape[1] * np.mean(_log_distances(tree, samples[g], k, floor) - log_rho)
    return result


def _log_distances(tree: Any, rows: FloatArray, k: int, floor: float) -> FloatArray:
    workers = min(current_settings().n_threads, max(1, len(rows) // _ROWS_WORTH_A_THREAD))
    distances = tree.query(rows, k=[k], workers=workers)[0][:, 0]
    return np.asarray(np.log(np.maximum(distances, floor)))
