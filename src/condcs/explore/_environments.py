"""The three environments of the paper, made with gymnasium, which is imported here alone: it is optional."""

from __future__ import annotations

from typing import Any, Literal, get_args

from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import CondcsError, public

EnvironmentName = Literal["mountain-car", "pendulum", "maze"]
NAMES: tuple[EnvironmentName, ...] = get_args(EnvironmentName)
"""The environments."""

MAZE_ID = "condcs/Maze-v0"

UPRIGHT_REACH = 0.2
"""The pendulum's goal: within this angle (radian) of upright."""

TORQUES = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Torques of the discretised pendulum: the paper's range."""

MAZE_SPACING = 0.1
"""Distance of neighbouring cells: one bandwidth. At half a bandwidth, value leaks through walls."""


class MissingPartnerError(CondcsError, ImportError):
    """An optional package is required and not installed."""


def gymnasium() -> Any:
    """Return the gymnasium module, or raise an error that says how to install it."""
    try:
        import gymnasium as module
    except ModuleNotFoundError as error:
        raise MissingPartnerError(
            "gymnasium must be installed for environments and wrappers. Install it with: pip install 'condcs[rl]'"
        ) from error
    return module


def register_environments() -> None:
    """Register ``condcs/Maze-v0`` with gymnasium; done once, also by importing `condcs.explore` after gymnasium."""
    registry = gymnasium().envs.registration
    if MAZE_ID not in registry.registry:
        registry.register(id=MAZE_ID, entry_point="condcs.explore._gymnasium_environments:Maze")


@public
def make_environment(
    name: EnvironmentName, *, time_limit: int | None = None, render_mode: str | None = None, **options: Any
) -> Any:
    """Make one of the paper's environments with gymnasium.

    Parameters
    ----------
    name : {"mountain-car", "pendulum", "maze"}
        Mountain car and pendulum are gymnasium's ``MountainCar-v0`` and ``Pendulum-v1``; the pendulum starts hanging
        down, and an episode ends within 0.2 rad of upright.
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
    >>> make_environment("maze", rows=5).reset(seed=0)[0].tolist()
    [0.0, 0.0]
    """
    check_choice("name", name, NAMES)
    gym = gymnasium()
    limit = -1 if time_limit is None else check_integer("time_limit", time_limit, 1)
    if name == "maze":
        register_environments()
        identifier = MAZE_ID
    else:
        identifier = {"mountain-car": "MountainCar-v0", "pendulum": "Pendulum-v1"}[name]
    made = gym.make(identifier, max_episode_steps=limit, render_mode=render_mode, **options)
    if name == "pendulum":
        from condcs.explore._gymnasium_environments import Upright

        made = Upright(made)
    return made
