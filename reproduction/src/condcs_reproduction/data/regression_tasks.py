"""The paper's two simulations: five regressions to tell apart, and fifteen tasks on a circle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import ByValue, FloatArray
from condcs._core.checks import check_choice, check_integer, check_rng
from condcs._core.errors import public

REGRESSION_SETS = ("a", "b", "c", "d", "e")
"""Names of the data sets of Simulation I."""

TASK_INPUTS = ("gaussian", "uniform")
"""Distributions of x in Simulation II."""


@public
def make_regression_set(
    name: str, n: int = 500, *, n_features: int = 10, rng: int | np.random.Generator | None = 0
) -> tuple[FloatArray, FloatArray]:
    r"""One of the five data sets of Simulation I; x is standard normal in all of them, only p(y|x) differs.

    With s the sum of the columns of x, q the sum of their squares, :math:`\epsilon` standard normal and :math:`\psi`
    logistic with location 1 and scale 1:

    - (a) :math:`y = 1 + s + \epsilon`
    - (b) :math:`y = 4 + s + \epsilon`, a shift of the mean
    - (c) :math:`y = 1 + s + \psi`, other noise
    - (d) :math:`y = 1 + q + \epsilon`, another function
    - (e) :math:`y = 1 + q + \psi`, both

    Parameters
    ----------
    name : {"a", "b", "c", "d", "e"}
        Which set.
    n : int
        Rows.
    n_features : int
        Columns of x.
    rng : int or Generator
        Seed.

    Returns
    -------
    x, y : arrays, shape (n, n_features) and (n, 1)
        The sample.

    Examples
    --------
    >>> x, y = make_regression_set("c", 200)
    >>> x.shape, y.shape
    ((200, 10), (200, 1))
    """
    check_choice("name", name, REGRESSION_SETS)
    n, n_features = check_integer("n", n, 1), check_integer("n_features", n_features, 1)
    generator = check_rng(rng)
    x = generator.normal(size=(n, n_features))
    signal = (x if name in "abc" else x**2).sum(axis=1, keepdims=True)
    noise = generator.logistic(1.0, 1.0, size=(n, 1)) if name in "ce" else generator.normal(size=(n, 1))
    return x, (4.0 if name == "b" else 1.0) + signal + noise


@dataclass(frozen=True, eq=False)
class CircularTasks(ByValue):
    """Regression tasks whose weights lie on a circle.

    Attributes
    ----------
    samples : tuple of (x, y)
        One pair of arrays per task.
    weights : array, shape (tasks, features)
        Regression weights of each task. The last task's are those of the first.
    """

    samples: tuple[tuple[FloatArray, FloatArray], ...]
    weights: FloatArray


@public
def make_circular_tasks(
    n: int = 200,
    *,
    n_tasks: int = 15,
    n_features: int = 20,
    inputs: str = "gaussian",
    rng: int | np.random.Generator | None = 0,
) -> CircularTasks:
    r"""Tasks :math:`y_t = w_t'x_t + \epsilon` of Simulation II; the first two weights go once around a circle.

    :math:`w_1` is standard normal. The first two entries of :math:`w_t` are those of :math:`w_1` turned by an angle
    evenly spaced on :math:`[0, 2\pi]`, both ends included, so that the last task has the weights of the first; all
    other entries are shared. :math:`\epsilon` is standard normal.

    Parameters
    ----------
    n : int
        Rows of each task.
    n_tasks : int
        Tasks on the circle.
    n_features : int
        Columns of x.
    inputs : {"gaussian", "uniform"}
        Each entry of x is N(0, 1) or U(0, 1).
    rng : int or Generator
        Seed.

    Returns
    -------
    CircularTasks
        The samples and the weights behind them.

    Examples
    --------
    >>> tasks = make_circular_tasks(50)
    >>> len(tasks.samples), bool(np.allclose(tasks.weights[0], tasks.weights[-1]))
    (15, True)
    """
    check_choice("inputs", inputs, TASK_INPUTS)
    n, n_tasks = check_integer("n", n, 1), check_integer("n_tasks", n_tasks, 2)
    n_features = check_integer("n_features", n_features, 2)
    generator = check_rng(rng)
    first = generator.normal(size=n_features)
    angles = np.linspace(0.0, 2 * np.pi, n_tasks)
    weights = np.tile(first, (n_tasks, 1))
    weights[:, 0] = np.cos(angles) * first[0] - np.sin(angles) * first[1]
    weights[:, 1] = np.sin(angles) * first[0] + np.cos(angles) * first[1]
    samples = []
    for w in weights:
        x = generator.normal(size=(n, n_features)) if inputs == "gaussian" else generator.uniform(size=(n, n_features))
        samples.append((x, (x @ w + generator.normal(size=n))[:, None]))
    return CircularTasks(tuple(samples), weights)
