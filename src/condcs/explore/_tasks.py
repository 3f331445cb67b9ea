"""Tasks: environments in which agents are compared, with their settings and what is drawn of a path through them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.checks import check_integer
from condcs._core.errors import public
from condcs.explore._extensions import entry_named, extensions
from condcs.explore._gymnasium_module import gymnasium
from condcs.explore._settings import Hyperparameters

PLACES_PER_COLUMN = 20
"""Parts of each of the two columns of a continuous state: 400 places, as many as the paper's maze has cells."""

TASKS_OF_THE_PAPER = ("pendulum", "maze")
"""Tasks of the package condcs-reproduction."""


class Task(ABC):
    """An environment to explore, what agents see of it, and what a comparison of them shows.

    Attributes
    ----------
    name : str
        Its name on the command line.
    identifier : str
        Its name in gymnasium: agents that are made for an environment of this name get the settings of the task.
    number : int
        Part of the seed of agents, so that they differ between tasks.
    settings : Hyperparameters
        Settings that all methods share.
    state_scale : float or None
        The kernel sees observations times this number; None: in the unit range.
    goal : str
        What agents look for, in words.
    axes : tuple of str
        The two columns of a path, as they are drawn, in words.
    downwards : bool
        Whether the second column grows downwards in a picture.
    note : str
        What the caption of the heat maps adds.
    """

    name: str
    identifier: str
    number: int
    settings: Hyperparameters
    state_scale: float | None = None
    goal: str
    axes: tuple[str, str]
    downwards: bool = False
    note: str = ""

    def of_size(self, rows: int) -> Task:
        """Return the task with as many rows and columns; most tasks have one size."""
        return self

    @abstractmethod
    def make(self, *, time_limit: int | None = None, render_mode: str | None = None, **options: Any) -> Any:
        """Make the environment; without a time limit episodes end at the goal alone."""

    def action_vectors(self, levels: int) -> FloatArray | None:
        """Return actions as the kernel sees them (n_actions, d_a); None: unit vectors, or a grid of so many levels."""
        return None

    @abstractmethod
    def position(self, inner: Any) -> Any:
        """Return the two numbers that are recorded of the unwrapped environment after each step."""

    @abstractmethod
    def places(self, path: FloatArray) -> tuple[IntArray, int]:
        """Return the number of the place of each row of a path (steps, 2), and how many places there are."""

    @abstractmethod
    def heat_map(self, path: FloatArray, bins: int) -> FloatArray:
        """Return how often each bin of a picture was visited by a path (steps, 2)."""


class MountainCar(Task):
    """gymnasium's ``MountainCar-v0``: a car that is too weak to drive up a hill has to swing."""

    name = "mountain-car"
    identifier = "MountainCar-v0"
    number = 0
    settings = Hyperparameters(learning_rate=0.5, discount=0.9)
    goal = "the flag"
    axes = ("position", "velocity")

    low, high = np.array([-1.2, -0.07]), np.array([0.6, 0.07])
    """gymnasium's bounds of position and velocity."""

    def make(self, *, time_limit: int | None = None, render_mode: str | None = None, **options: Any) -> Any:
        """Make the environment; without a time limit episodes end at the goal alone."""
        return gymnasium_environment(self.identifier, time_limit, render_mode, options)

    def action_vectors(self, levels: int) -> FloatArray | None:
        """Return push to the left, nothing, and push to the right as numbers: opposite pushes are farthest apart."""
        return np.array([[-1.0], [0.0], [1.0]])

    def position(self, inner: Any) -> Any:
        """Return position and velocity."""
        return inner.state

    def places(self, path: FloatArray) -> tuple[IntArray, int]:
        """Return parts of the box of positions and velocities."""
        return parts_of_box(path, self.low, self.high)

    def heat_map(self, path: FloatArray, bins: int) -> FloatArray:
        """Return a histogram over positions and velocities."""
        position, velocity = path.T
        edges = [np.linspace(low, high, bins + 1) for low, high in zip(self.low, self.high, strict=True)]
        return np.asarray(np.histogram2d(position, velocity, bins=edges)[0])


def gymnasium_environment(identifier: str, time_limit: int | None, render_mode: str | None, options: Any) -> Any:
    """Make an environment without gymnasium's own time limit."""
    limit = -1 if time_limit is None else check_integer("time_limit", time_limit, 1)
    return gymnasium().make(identifier, max_episode_steps=limit, render_mode=render_mode, **options)


def parts_of_box(path: FloatArray, low: FloatArray, high: FloatArray) -> tuple[IntArray, int]:
    """Return the number of the part of a box in which each row of a path lies, and how many parts there are."""
    parts = np.clip(((path - low) / (high - low) * PLACES_PER_COLUMN).astype(np.int64), 0, PLACES_PER_COLUMN - 1)
    return parts[:, 0] * PLACES_PER_COLUMN + parts[:, 1], PLACES_PER_COLUMN * PLACES_PER_COLUMN


MOUNTAIN_CAR = MountainCar()
"""Its settings are those of environments that are no task."""


def tasks() -> dict[str, Task]:
    """Return all tasks by name: our own, and those of other packages."""
    return {task.name: task for task in (MOUNTAIN_CAR, *(task for e in extensions() for task in e.tasks))}


def task_named(name: str, argument: str = "environment") -> Task:
    """Return the task with a name."""
    return entry_named(argument, name, tasks(), TASKS_OF_THE_PAPER)


def task_of(environment: Any) -> Task | None:
    """Return the task that an environment of gymnasium belongs to, if there is one."""
    identifier = getattr(getattr(environment, "spec", None), "id", "")
    return next((task for task in tasks().values() if task.identifier == identifier), None)


@public
def make_environment(
    name: str, *, time_limit: int | None = None, render_mode: str | None = None, **options: Any
) -> Any:
    """Make the environment of a task with gymnasium.

    Parameters
    ----------
    name : str
        "mountain-car" is gymnasium's ``MountainCar-v0``. The package condcs-reproduction adds "pendulum", gymnasium's
        ``Pendulum-v1``, which starts hanging down and ends within 0.2 rad of upright, and "maze".
    time_limit : int, optional
        Steps after which an episode is truncated; by default never. Gymnasium's own limit of 200 steps is removed,
        because no method reaches the goals so soon.
    render_mode : str, optional
        As in `gymnasium.make`.
    **options
        Options of the environment: ``rows``, ``columns``, ``algorithm`` and ``maze_rng`` of the maze.

    Returns
    -------
    gymnasium.Env
        Seed it by ``reset(seed=...)``.

    Examples
    --------
    >>> int(make_environment("mountain-car").action_space.n)
    3
    """
    return task_named(name, "name").make(time_limit=time_limit, render_mode=render_mode, **options)
