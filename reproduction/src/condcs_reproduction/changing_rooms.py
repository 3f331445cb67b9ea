"""Rooms whose dynamics change, or are random: where a conditional divergence might matter, and where it should not.

All rooms are square grids; the agent starts at the upper left and looks for the lower right cell. It sees its cell and
a screen, a number that is 0 except in front of the screen. Actions are left, right, up, down.

The parameters here were fixed before any method was run in these rooms; `steps_in_room` runs a method in rooms with
others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs._core.arrays import IntArray
from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import public

SIZE = 12
"""Rows and columns of a room in table 6b."""

STEPS = 20_000
"""Longest run."""

SPACING = 0.1
"""Distance of neighbouring cells as the kernel sees it: one bandwidth."""

NOWHERE = -1.0

ROOMS: dict[str, dict[str, float]] = {
    # Nothing changes and nothing is random: the divergence sees nothing but the support of the two halves.
    "still": {},
    # A strong wind to the left, on for 3,000 steps, off for 3,000, and so on: p(s'|s,a) changes everywhere at once.
    "wind": {"wind": 0.9, "period": 3_000},
    # Random numbers on a screen in the upper right corner: p(s'|s,a) is random there, but never changes.
    "screen": {"screen_row": 0, "screen_size": 3},
    # A wall with a door that opens after 4,000 steps: p(s'|s,a) changes at one cell, once.
    "door": {"door_time": 4_000},
}
"""Parameters of each room. The screen's column and the door depend on the size: see `changing_room`."""

METHODS: dict[str, dict[str, Any]] = {
    "random": {"reward": "nothing", "epsilon": 1.0},
    "control": {"reward": "nothing"},
    "count": {"reward": "count"},
    "prediction": {"reward": "prediction"},
    "dtg": {"reward": "conditional_euclidean"},
    "dtg-mmd": {"reward": "joint_mmd"},
    "dtg-cs": {"reward": "conditional_cs"},
    "local": {"reward": "local", "memory": 3_000},
    "local-change": {"reward": "local", "memory": 3_000, "novelty": 0.0},
    "local-novelty": {"reward": "local", "memory": 3_000, "change": 0.0},
    "local-remembers": {"reward": "local"},
    "control-forgets": {"reward": "nothing", "memory": 3_000},
    "prediction-forgets": {"reward": "prediction", "memory": 3_000},
}
"""Methods compared; all share `SHARED`. "local" is the agent "dtg-local": its values forget what was not
tried for three lengths of its buffer. After it come the two parts of its reward alone, the same without forgetting, and
its rivals with it."""

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

EXPECTED: dict[str, dict[str, dict[str, str]]] = {
    "dtg-cs": {
        "still": {"control": "no difference", "count": "no difference", "prediction": "no difference"},
        "wind": {"control": "fewer", "count": "no difference", "prediction": "fewer"},
        "screen": {"control": "no difference", "count": "fewer", "prediction": "fewer"},
        "door": {"control": "no difference", "count": "more", "prediction": "no difference"},
    },
    "local": {
        "still": {"control": "fewer", "count": "no difference", "prediction": "fewer"},
        "wind": {"control": "fewer", "count": "no difference", "prediction": "fewer"},
        "screen": {"control": "no difference", "count": "no difference", "prediction": "fewer"},
        "door": {"control": "fewer", "count": "more", "prediction": "fewer"},
    },
}
"""Fewer steps to the goal than the rival, more, or no difference. What was expected of DTG-CS was written down before
any run, what was expected of the local reward after trials with other seeds, in which its weight was chosen."""


@public
def changing_room(name: str, *, size: int = SIZE, **parameters: float) -> Any:
    """Return a room as plain arrays for `condcs_reproduction.changing_room_rollouts.rollout`.

    Parameters
    ----------
    name : {"still", "wind", "screen", "door"}
        Which room.
    size : int
        Rows and columns.
    **parameters
        Others than those in `ROOMS`: ``wind`` (probability of a push) and ``period`` (steps until it stops or starts),
        ``screen_column``, ``screen_row`` and ``screen_size``, ``door_column``, ``door_row`` and ``door_time``. The
        screen is at the right and the door in the middle unless they are given.

    Returns
    -------
    Environment
        A tuple of arrays.

    Examples
    --------
    >>> changing_room("door", size=9, door_row=2, door_time=500).passages.shape
    (9, 9, 4)
    """
    from condcs_reproduction.exploration.gymnasium_environments import MOVES
    from condcs_reproduction.exploration_environments import MAZE, RIGHT, Environment

    given = dict(ROOMS[check_choice("name", name, tuple(ROOMS))])
    check_integer("size", size, 4)
    names = ("wind", "period", "screen_column", "screen_row", "screen_size", "door_column", "door_row", "door_time")
    for parameter, value in parameters.items():
        given[check_choice("parameters", parameter, names)] = value
    if "screen_size" in given:
        given.setdefault("screen_column", size - given["screen_size"])
    if "door_time" in given:
        given.setdefault("door_column", size // 2 - 1)
        given.setdefault("door_row", size // 2)
    passages = np.ones((size, size, 4), np.int64)
    passages[:, 0, 0] = passages[:, -1, 1] = passages[0, :, 2] = passages[-1, :, 3] = 0
    if "door_time" in given:
        column = check_integer("door_column", int(given["door_column"]), 0, size - 2)
        row = check_integer("door_row", int(given["door_row"]), 0, size - 1)
        is_wall = np.arange(size) != row
        passages[is_wall, column, RIGHT] = 0
        passages[is_wall, column + 1, 0] = 0
    absent = {"wind": 0.0, "period": 0.0, "screen_size": 0.0, "door_time": 0.0}
    values = [size - 1.0, size - 1.0, *(given.get(n, absent.get(n, NOWHERE)) for n in names)]
    scale = np.array([SPACING, SPACING, 1.0])
    return Environment(MAZE, np.array(values), passages, np.array(MOVES, np.float64), np.zeros(3), scale, np.zeros(3))


def drawn_rooms(rng: int) -> list[tuple[str, dict[str, Any]]]:
    """Return nine windy rooms and eight with a door, of random parameters: names and parameters for `steps_in_room`.

    Examples
    --------
    >>> drawn_rooms(202)[0]
    ('wind', {'size': 9, 'wind': 0.72, 'period': 2500})
    """
    draw = np.random.default_rng(rng)

    def integer(low: int, high: int) -> int:
        return int(draw.integers(low, high))

    rooms: list[tuple[str, dict[str, Any]]] = []
    for _ in range(9):
        size, wind = integer(8, 15), round(float(draw.uniform(0.5, 1)), 2)
        rooms.append(("wind", {"size": size, "wind": wind, "period": 500 * integer(3, 11)}))
    for _ in range(8):
        size = integer(8, 15)
        place = {"door_column": integer(3, size - 3), "door_row": integer(0, size)}
        rooms.append(("door", {"size": size, **place, "door_time": 500 * integer(2, 11)}))
    return rooms


@public
def steps_in_room(
    method: str, name: str, *, repeats: int = 100, steps: int = STEPS, rng: int = 0, **parameters: Any
) -> IntArray:
    """Return the steps that a method needs to the goal of a room; `steps` where it does not reach it.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    name, **parameters
        As in `changing_room`.
    repeats : int
        Runs. Those of the same number have the same seed in all methods.
    steps : int
        Longest run.
    rng : int
        Seed.

    Examples
    --------
    >>> steps_in_room("control", "still", repeats=2, size=6).shape
    (2,)
    """
    from condcs_reproduction.changing_room_rollouts import rollout

    settings = {**SHARED, **METHODS[check_choice("method", method, tuple(METHODS))]}
    room = changing_room(name, **parameters)
    runs = (rollout(room, settings, steps=steps, rng=np.random.default_rng([rng, r])) for r in range(repeats))
    return np.array([taken for taken, _ in runs])
