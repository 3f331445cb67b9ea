"""Rooms whose dynamics change, or are random: where a conditional divergence might matter, and where it should not.

All rooms are grids of `SIZE` x `SIZE` cells; the agent starts at the upper left and looks for the lower right cell. It
sees its cell and a screen, a number that is 0 except in front of the screen. Actions are left, right, up, down.

The parameters here were fixed before any method was run in these rooms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.checks import check_choice
from condcs._core.errors import public

SIZE = 12
"""Rows and columns of a room."""

STEPS = 20_000
"""Longest run."""

SPACING = 0.1
"""Distance of neighbouring cells as the kernel sees it: one kernel width."""

NOWHERE = -1.0

ROOMS: dict[str, dict[str, float]] = {
    # Nothing changes and nothing is random: the divergence sees nothing but the support of the two halves.
    "still": {},
    # A strong wind to the left, on for 3,000 steps, off for 3,000, and so on: p(s'|s,a) changes everywhere at once.
    "wind": {"wind": 0.9, "period": 3_000},
    # Random numbers on a screen in the upper right corner: p(s'|s,a) is random there, but never changes.
    "screen": {"screen_column": 9, "screen_row": 0, "screen_size": 3},
    # A wall with a door that opens after 4,000 steps: p(s'|s,a) changes at one cell, once.
    "door": {"door_column": 5, "door_row": 6, "door_time": 4_000},
}
"""Parameters of each room."""

METHODS: dict[str, dict[str, Any]] = {
    "random": {"reward": "nothing", "epsilon": 1.0},
    "control": {"reward": "nothing"},
    "count": {"reward": "count"},
    "prediction": {"reward": "prediction"},
    "dtg": {"reward": "conditional_euclidean"},
    "dtg-mmd": {"reward": "joint_mmd"},
    "dtg-cs": {"reward": "conditional_cs"},
}
"""Methods compared; all share `SHARED`."""

SHARED: dict[str, float] = {
    "learning_rate": 0.5,
    "discount": 0.9,
    "bandwidth": 0.1,
    "initial_value": 10.0,
    "buffer": 1_000,
    "bins": 10,
}
"""Hyper-parameters of all methods. Bonuses of order 1 and a discount of 0.9 give values of order 10: optimism and bonus
weigh alike."""

EXPECTED: dict[str, dict[str, str]] = {
    "still": {"control": "no difference", "count": "no difference", "prediction": "no difference"},
    "wind": {"control": "fewer", "count": "no difference", "prediction": "fewer"},
    "screen": {"control": "no difference", "count": "fewer", "prediction": "fewer"},
    "door": {"control": "no difference", "count": "more", "prediction": "no difference"},
}
"""What was expected of DTG-CS before any run: fewer steps to the goal than the rival, more, or no difference."""


@public
def changing_room(name: str) -> Any:
    """Return a room as plain arrays for `condcs_reproduction.changing_room_rollouts.rollout`.

    Parameters
    ----------
    name : {"still", "wind", "screen", "door"}
        Which room.

    Returns
    -------
    Environment
        A tuple of arrays.

    Examples
    --------
    >>> changing_room("wind").low.tolist()
    [0.0, 0.0, 0.0]
    """
    from condcs.explore._compiled_environments import MAZE, RIGHT, Environment
    from condcs.explore._mazes import MOVES

    given = ROOMS[check_choice("name", name, tuple(ROOMS))]
    passages = np.ones((SIZE, SIZE, 4), np.int64)
    passages[:, 0, 0] = passages[:, -1, 1] = passages[0, :, 2] = passages[-1, :, 3] = 0
    if "door_column" in given:
        column, row = int(given["door_column"]), int(given["door_row"])
        is_wall = np.arange(SIZE) != row
        passages[is_wall, column, RIGHT] = 0
        passages[is_wall, column + 1, 0] = 0
    names = ("wind", "period", "screen_column", "screen_row", "screen_size", "door_column", "door_row", "door_time")
    absent = {"wind": 0.0, "period": 0.0, "screen_size": 0.0, "door_time": 0.0}
    parameters = [SIZE - 1.0, SIZE - 1.0, *(given.get(n, absent.get(n, NOWHERE)) for n in names)]
    scale = np.array([SPACING, SPACING, 1.0])
    return Environment(
        MAZE, np.array(parameters), passages, np.array(MOVES, np.float64), np.zeros(3), scale, np.zeros(3)
    )
