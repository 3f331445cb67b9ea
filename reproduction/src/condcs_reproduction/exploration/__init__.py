"""Exploration as in the paper: its environments, and the methods that it compares with, for gymnasium.

`EXTENSION` adds them to `condcs.explore` and to ``condcs explore`` (an entry point in pyproject.toml). Importing this
package registers ``condcs/Maze-v0``: ``gymnasium.make("condcs_reproduction.exploration:condcs/Maze-v0")``.
"""

from condcs.explore._extensions import Extension
from condcs_reproduction.exploration.gymnasium_environments import Maze, Upright, make_maze, register_environments
from condcs_reproduction.exploration.methods import BASELINES, METHODS, RandomAgent
from condcs_reproduction.exploration.tasks import PAPER_TASKS, TASKS, Pendulum, SquareMaze

__all__ = [
    "EXTENSION",
    "METHODS",
    "TASKS",
    "Maze",
    "Pendulum",
    "RandomAgent",
    "SquareMaze",
    "Upright",
    "make_maze",
    "register_environments",
]

EXTENSION = Extension(tasks=PAPER_TASKS, methods=BASELINES)
"""What the package adds to `condcs.explore`."""

register_environments()
