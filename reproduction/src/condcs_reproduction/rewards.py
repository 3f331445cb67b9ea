"""What each form of intrinsic reward pays for: the same walk through a room, seen by all of them. Ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs_reproduction.changing_rooms import ROOMS, changing_room
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

if TYPE_CHECKING:
    from condcs.explore._buffer import TransitionBuffer

FORMS = {
    "level": "level (the paper's)",
    "level-moves": "level, displacements",
    "change": "change of the level",
    "surprise": "surprise",
    "progress": "learning progress",
    "local": "local, above chance",
    "novelty": "novelty in the buffer",
}
"""Forms of reward. All but the first see displacements; "local" and "novelty" are the parts of the default form."""

EXPECTED = {
    "level": "pays in all rooms all the time",
    "level-moves": "pays after a change, and in front of the screen",
    "change": "about 0 on average",
    "surprise": "pays after a change, noisy",
    "progress": "pays after a change",
    "local": "pays after a change only",
    "novelty": "falls while a room becomes known, blind to changes",
}
"""What was expected: written down before the first run of this experiment, after trial runs of some of the forms."""


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """Return walks through all rooms."""
    return [
        Task(room, repeat, (i, repeat), {"room": room}) for repeat in range(repeats) for i, room in enumerate(ROOMS)
    ]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Walk at random, the goal being an ordinary cell, and return the mean reward of each form in parts of the walk."""
    from condcs.explore import LocalReward
    from condcs.explore._buffer import TransitionBuffer
    from condcs_reproduction.changing_room_rollouts import step

    room = changing_room(arguments["room"])
    steps, part = parameters["steps"], parameters["part"]
    places = TransitionBuffer(parameters["buffer"], 5, 3, bandwidth_x=0.1, bandwidth_y=0.1)
    moves = TransitionBuffer(parameters["buffer"], 5, 3, bandwidth_x=0.1, bandwidth_y=0.1)
    change = LocalReward(parameters["buffer"], 3, 2, bandwidth=0.1, change=1.0, novelty=0.0)
    novelty = LocalReward(parameters["buffer"], 3, 2, bandwidth=0.1, change=0.0, novelty=1.0)
    paid = {form: np.zeros(steps) for form in FORMS}
    state, last = room.start.copy(), 0.0
    for t in range(steps):
        seen, action = state * room.scale, room.actions[int(rng.integers(4))]
        number = int(np.flatnonzero((room.actions == action).all(axis=1))[0])
        step(room, state, number, t, rng)
        upcoming = state * room.scale
        x = np.concatenate([seen, action])
        places.push(x, upcoming)
        moves.push(x, upcoming - seen)
        level = moves.divergence()
        paid["level"][t], paid["level-moves"][t] = places.divergence(), level
        paid["change"][t], last = level - last, level
        paid["surprise"][t] = moves.surprise()
        paid["progress"][t] = _progress(moves)
        paid["local"][t] = change.reward(seen, action, upcoming)
        paid["novelty"][t] = novelty.reward(seen, action, upcoming)
    return {form: values.reshape(-1, part).mean(axis=1).tolist() for form, values in paid.items()}


def _progress(buffer: TransitionBuffer) -> float:
    """Return how much better the whole buffer predicts the last response than its old half does, both without it.

    Predictions are kernel averages; a prediction counts with the kernel between it and the response.
    """
    n = len(buffer)
    if n < 4:
        return 0.0
    values, group, width = buffer.window.values[:, :n], buffer.window.group[:n], 0.1
    slot, dim_x = (buffer.pushed - 1) % buffer.size, buffer.dim_x
    x, y = values[:dim_x], values[dim_x:]
    near = np.exp(-0.5 * (((x - x[:, [slot]]) / width) ** 2).sum(axis=0))
    near[slot] = 0.0
    scores = []
    for weights in (near, near * (group == 0)):
        if weights.sum() < 1e-6:
            return 0.0
        error = y @ weights / weights.sum() - y[:, slot]
        scores.append(math.exp(-0.5 * float(((error / width) ** 2).sum())))
    return scores[0] - scores[1]


def _curves(results: Results, room: str, form: str) -> FloatArray:
    return np.array([r[form] for r in results.get(room, {}).values()])


def changes(room: str, steps: int) -> list[int]:
    """Return the steps at which a room changes.

    Examples
    --------
    >>> changes("wind", 7_000)
    [3000, 6000]
    """
    given = ROOMS[room]
    if "period" in given:
        return list(range(int(given["period"]), steps, int(given["period"])))
    return [int(given["door_time"])] if "door_time" in given else []


def summarise(experiment: Experiment, results: Results) -> Report:
    """Mean rewards in the 500 steps before and after the first change; in quiet rooms, in the same steps."""
    steps, part = experiment.parameters["steps"], experiment.parameters["part"]
    columns = tuple(f"{room}, {when}" for room in ROOMS for when in ("before", "after"))
    rows: dict[str, dict[str, Cell]] = {}
    for form, label in FORMS.items():
        row = rows[label] = {}
        for room in ROOMS:
            curves = _curves(results, room, form)
            at = (changes(room, steps) or [min(3_000, steps // 2)])[0] // part
            width = max(1, min(500 // part, at))
            for when, piece in (("before", slice(at - width, at)), ("after", slice(at, at + width))):
                found = curves[:, piece].mean() if len(curves) and at + width <= curves.shape[1] else None
                row[f"{room}, {when}"] = Cell(float(found), digits=3) if found is not None else MISSING
    notes = [
        "A walk at random through each room, and what each form pays for its steps: means over 500 steps before and "
        "after the first change (in rooms without one, step 3,000).",
        "Expected, after trial runs of some of the forms: "
        + "; ".join(f"{FORMS[f]}: {w}" for f, w in EXPECTED.items())
        + ".",
    ]
    grids = [Grid("Mean reward of a step", "form", columns, rows)]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the rewards of all forms over time, one column per room."""
    figure.set_size_inches(11, 8.5)
    part, steps = experiment.parameters["part"], experiment.parameters["steps"]
    axes = figure.subplots(len(FORMS), len(ROOMS), sharex=True, sharey="row")
    for i, (form, label) in enumerate(FORMS.items()):
        for axis, room in zip(axes[i], ROOMS, strict=True):
            curves = _curves(results, room, form)
            for at in changes(room, steps):
                axis.axvline(at, color="#e53e3e", lw=1, ls=":")
            axis.axhline(0, color="#cbd5e0", lw=0.8)
            if len(curves):
                axis.plot(part * (np.arange(curves.shape[1]) + 0.5), curves.mean(axis=0), color="#2b6cb0", lw=1.5)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(labelsize=8)
            axis.locator_params(nbins=4)
            if i == 0:
                axis.set_title(room)
            if i == len(FORMS) - 1:
                axis.set_xlabel("step")
        axes[i][0].set_ylabel(label.replace(" ", "\n", 1), fontsize=8)
    figure.align_ylabels(axes[:, 0])


EXPERIMENT = Experiment(
    name="rewards",
    title="What each form of intrinsic reward pays for",
    reproduces="Ours: one walk through each of the four rooms, and the rewards of seven forms along it.",
    parameters={"steps": 8_000, "part": 100, "buffer": 1_000},
    quick={"steps": 4_500, "part": 50, "buffer": 40},
    repeats=5,
    quick_repeats=1,
    seed=20_261_118,
    paper={},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
