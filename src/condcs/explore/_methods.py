"""Methods: how an agent explores, by name; each is a change of the settings that all methods share in a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condcs._core.errors import public
from condcs.explore._agents import Agent, kernel_agent
from condcs.explore._extensions import entry_named, extensions
from condcs.explore._settings import Hyperparameters
from condcs.explore._spaces import Encoder, Spaces
from condcs.explore._tasks import MOUNTAIN_CAR, Task, task_named, task_of

METHODS_OF_THE_PAPER = ("random", "dtg", "dtg-kl", "dtg-mmd")
"""Methods of the package condcs-reproduction: what the paper compares with."""

MEMORY_IN_BUFFERS = 3
"""Memory of the local agent's values, in lengths of its buffer. Shorter, it loses what it has learnt of rare
successes, as in a wind that mostly blows it back; longer, it is slow to notice that a door has opened."""


@dataclass(frozen=True, eq=False)
class Method:
    """How an agent explores.

    Attributes
    ----------
    name : str
        Its name on the command line.
    title, short_title : str
        Its names in tables, and above a small picture.
    colour, line : str
        How its curves are drawn.
    changes : mapping
        What is different in the settings of a task.
    """

    name: str
    title: str
    colour: str
    changes: Mapping[str, Any]
    short_title: str = ""
    line: str = "-"

    def settings(self, task: Task) -> Hyperparameters:
        """Return the settings of the method in a task."""
        return replace(task.settings, **self.changes)

    def make_agent(self, spaces: Spaces, settings: Hyperparameters, rng: int | np.random.Generator | None) -> Agent:
        """Return an untrained agent."""
        return kernel_agent(spaces, settings, rng)


PACKAGE_METHODS = (
    Method("dtg-cs", "DTG-CS", "#2b6cb0", {"reward": "conditional_cs"}),
    Method(
        "dtg-local", "DTG-local", "#00838f", {"reward": "local", "memory": MEMORY_IN_BUFFERS * Hyperparameters.buffer}
    ),
    # The same agent without a reward: what a reward adds is seen beside it alone.
    Method(
        "control",
        "control: D = 0, optimism only",
        "#e53e3e",
        {"reward": "nothing"},
        short_title="control (D = 0)",
        line="--",
    ),
)


def methods() -> dict[str, Method]:
    """Return all methods by name: our own, and those of other packages."""
    return {method.name: method for method in (*PACKAGE_METHODS, *(m for e in extensions() for m in e.methods))}


def method_named(name: str) -> Method:
    """Return the method with a name."""
    return entry_named("method", name, methods(), METHODS_OF_THE_PAPER)


@public
def hyperparameters(environment: str, method: str) -> Hyperparameters:
    """Return the settings of a method in a task.

    Parameters
    ----------
    environment : str
        "mountain-car"; with the package condcs-reproduction also "pendulum" and "maze".
    method : str
        "dtg-cs", "dtg-local" or "control"; with the package condcs-reproduction also "random", "dtg", "dtg-kl" and
        "dtg-mmd".

    Returns
    -------
    Hyperparameters
        Change them with `dataclasses.replace`.

    Examples
    --------
    >>> hyperparameters("mountain-car", "dtg-cs").reward
    'conditional_cs'
    """
    return method_named(method).settings(task_named(environment))


@public
def make_agent(
    method: str,
    environment: Any,
    *,
    settings: Hyperparameters | None = None,
    levels: int = 5,
    encoder: Encoder | None = None,
    rng: int | np.random.Generator | None = None,
) -> Agent:
    """Make an agent for a gymnasium environment.

    Parameters
    ----------
    method : str
        "dtg-cs": the paper's agent, rewarded by the divergence of the halves of its buffer. "dtg-local": rewarded by
        the local divergence and by novelty; it forgets. "control": without a reward. The package condcs-reproduction
        adds "random", "dtg", "dtg-kl" and "dtg-mmd".
    environment : gymnasium.Env
        Its spaces are read (see `Spaces.of`).
    settings : Hyperparameters, optional
        By default those of the task that the environment belongs to; other environments get those of the mountain car.
    levels : int
        Number of values into which each column of continuous actions is discretised.
    encoder : callable, optional
        Function from observations to vectors, for observations of many dimensions.
    rng : int or Generator, optional
        Random actions and ties.

    Returns
    -------
    agent
        With ``act(observation)`` and ``learn(next_observation, reward, terminated)``.

    Examples
    --------
    >>> import gymnasium
    >>> type(make_agent("dtg-cs", gymnasium.make("MountainCar-v0"), rng=0)).__name__
    'KernelAgent'
    """
    chosen = method_named(method)
    spaces = Spaces.of(environment, levels=levels, encoder=encoder)
    if settings is None:
        settings = chosen.settings(task_of(environment) or MOUNTAIN_CAR)
    return chosen.make_agent(spaces, settings, rng)
