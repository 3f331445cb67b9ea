"""Graphs of neighbouring tasks: from divergences, from the truth, and how far apart two of them are."""

from __future__ import annotations

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray

_TIE = 1e-9
"""Distances this near are equal: on a circle they differ by rounding only."""


def neighbour_graph(D: FloatArray, k: int) -> BoolArray:
    """Join each task with its k nearest; symmetric by union. Of equally near tasks the lower number is taken."""
    distances = D.astype(np.float64, copy=True)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    graph = np.zeros(D.shape, dtype=np.bool_)
    np.put_along_axis(graph, nearest, True, axis=1)
    return graph | graph.T


def true_graph(weights: FloatArray, k: int) -> BoolArray:
    """Return the graph of neighbours by the distances between the tasks' true weights."""
    distances = np.linalg.norm(weights[:, None] - weights[None], axis=-1)
    return neighbour_graph(np.round(distances / distances.max() / _TIE) * _TIE, k)


def laplacian(graph: BoolArray) -> FloatArray:
    """Return degrees minus adjacency."""
    return np.asarray(np.diag(graph.sum(axis=1)) - graph.astype(np.float64))


def geodesic_distance(truth: BoolArray, found: BoolArray) -> float:
    r"""Distance of two graphs seen through the smallest non-trivial eigenvector x of the true Laplacian.

    .. math:: \mathrm{arccosh}\left(1 + \frac{\|(L_G - L_S)x\|^2 \|x\|^2}{2 (x'L_G x)(x'L_S x)}\right)

    Finite, because x takes different values on neighbours and every task has neighbours in both graphs.
    """
    LG, LS = laplacian(truth), laplacian(found)
    x = fiedler_vector(LG)
    moved = (LG - LS) @ x
    bottom = 2 * float(x @ LG @ x) * float(x @ LS @ x)
    return float(np.arccosh(1 + float(moved @ moved) * float(x @ x) / bottom))


def fiedler_vector(L: FloatArray) -> FloatArray:
    """Return the eigenvector of the second smallest eigenvalue, by a rule that does not depend on the solver.

    On a ring that eigenvalue is double, and any turned pair of vectors would do. The first task's indicator, projected
    on the eigenspace and normalised, is one and the same whatever basis the solver found.
    """
    values, vectors = np.linalg.eigh(L)
    space = vectors[:, np.abs(values - values[1]) <= 1e-8 * max(1.0, values[-1])]
    for task in range(len(L)):
        projected = space @ space[task]
        size = float(np.linalg.norm(projected))
        if size > 1e-6:
            return np.asarray(projected / size)
    raise AssertionError("an eigenvector has an entry that is not zero")


def planar_layout(D: FloatArray) -> FloatArray:
    """Place tasks in the plane by classical multidimensional scaling of the divergences (n x 2)."""
    n = len(D)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ np.maximum(D, 0.0) @ centre)
    return np.asarray(vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0)))
