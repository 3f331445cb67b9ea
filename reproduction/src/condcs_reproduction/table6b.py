"""Table 6b, ours: the divergence against optimism, counts and surprise, in rooms that change or are random."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs_reproduction.changing_rooms import EXPECTED, METHODS, ROOMS, SHARED, STEPS
from condcs_reproduction.report import MISSING, SPREAD_FACTOR, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

LABELS = {
    "random": "Random",
    "control": "control: optimism only",
    "count": "count bonus",
    "prediction": "prediction error (RND)",
    "dtg": "DTG, Euclidean",
    "dtg-mmd": "DTG-MMD",
    "dtg-cs": "DTG-CS",
    "local": "DTG-local",
    "local-change": "DTG-local, change only",
    "local-novelty": "DTG-local, novelty only",
    "local-remembers": "DTG-local, no forgetting",
    "control-forgets": "optimism, forgetting",
    "prediction-forgets": "RND, forgetting",
}

RIVALS = ("control", "count", "prediction")


def case_of(method: str, room: str) -> str:
    """Return the name of a case."""
    return f"{method}; {room}"


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """All methods in all rooms; the methods of a repeat draw from the same stream."""
    return [
        Task(case_of(method, room), repeat, (i, repeat), {"method": method, "room": room})
        for repeat in range(repeats)
        for i, room in enumerate(ROOMS)
        for method in METHODS
    ]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Let one method look for the goal of one room."""
    from condcs_reproduction.changing_room_rollouts import rollout
    from condcs_reproduction.changing_rooms import changing_room

    settings = {**parameters["shared"], **parameters["methods"][arguments["method"]]}
    steps, reached = rollout(changing_room(arguments["room"]), settings, steps=parameters["steps"], rng=rng)
    return {"steps": steps, "reached": reached}


def _steps(results: Results, method: str, room: str) -> FloatArray:
    return np.array([r["steps"] for r in results.get(case_of(method, room), {}).values()], dtype=float)


def interval(values: FloatArray) -> tuple[float, float]:
    """Return the mean and the half-width of its 99% confidence interval."""
    if len(values) < 2:
        return float(np.mean(values)), math.inf
    return float(np.mean(values)), SPREAD_FACTOR * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def difference_cell(ours: FloatArray, rival: FloatArray, expected: str) -> Cell:
    """Compare steps run by run: fewer, more or no difference at 99%, beside what was expected; and count the runs."""
    n = min(len(ours), len(rival))
    wins = int(np.sum(ours[:n] < rival[:n]))
    mean, half = interval(ours[:n] - rival[:n])
    found = "no difference" if abs(mean) <= half else "fewer" if mean < 0 else "more"
    around = f"{mean:+.0f} ± {half:.0f}" if math.isfinite(half) else f"{mean:+.0f}"
    verdict = "agrees" if found == expected else "differs"
    return Cell(found, expected, verdict, detail=f"{around}; fewer in {wins} of {n} runs")


def summarise(experiment: Experiment, results: Results) -> Report:
    """Compare the steps of all methods, and DTG-CS and DTG-local with each rival."""
    steps: dict[str, dict[str, Cell]] = {}
    for method, label in LABELS.items():
        steps[label] = {}
        for room in ROOMS:
            values = _steps(results, method, room)
            if not len(values):
                steps[label][room] = MISSING
                continue
            rate = float(np.mean([r["reached"] for r in results[case_of(method, room)].values()]))
            error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
            steps[label][room] = Cell(float(values.mean()), error=error, detail=f"success {rate:.2f}", digits=0)
    versus = {method: _versus(results, method) for method in EXPECTED}
    limit = experiment.parameters["steps"]
    grids = [
        Grid(f"Steps to the goal, at most {limit:,}", "method", tuple(ROOMS), steps),
        *(
            Grid(f"{LABELS[method]}: fewer or more steps than its rivals?", "", tuple(ROOMS), grid)
            for method, grid in versus.items()
        ),
    ]
    notes = [
        "In brackets is not the paper's result (it has no such experiment) but what was expected before any run; "
        "rooms, DTG-CS and what was expected of it were fixed first, DTG-local after trials with other seeds "
        "(condcs_reproduction.changing_rooms). Square brackets: mean difference of the steps run by run, with its 99% "
        "confidence interval.",
        "still: nothing changes. wind: a wind to the left that comes and goes. screen: random numbers in one corner "
        "that never change their distribution. door: a door that opens late. A run that misses the goal counts as "
        f"{limit:,} steps.",
        "All methods share the value function, its initial value and all hyper-parameters. They differ in the reward, "
        "and in whether values forget what was not tried for 3,000 steps: DTG-local does, its rivals only where it is "
        "said. RND is the error of a linear predictor of random features.",
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def _versus(results: Results, method: str) -> dict[str, dict[str, Cell]]:
    grid: dict[str, dict[str, Cell]] = {}
    for rival in RIVALS:
        row = grid[f"against {LABELS[rival]}"] = {}
        for room in ROOMS:
            ours, theirs = _steps(results, method, room), _steps(results, rival, room)
            expected = EXPECTED[method][room][rival]
            row[room] = difference_cell(ours, theirs, expected) if len(ours) and len(theirs) else MISSING
    return grid


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw mean steps with 99% intervals."""
    figure.set_size_inches(11, 3.6)
    axes = figure.subplots(1, len(ROOMS), sharey=True)
    for axis, room in zip(axes, ROOMS, strict=True):
        for y, method in enumerate(LABELS):
            values = _steps(results, method, room)
            if not len(values):
                continue
            mean, half = interval(values)
            colour = {"dtg-cs": "#2b6cb0", "control": "#1a202c"}.get(method, "#718096")
            axis.plot(values, np.full(len(values), y), "|", ms=6, color=colour, alpha=0.2)
            axis.errorbar(mean, y, xerr=half if math.isfinite(half) else 0, fmt="o", color=colour, capsize=3)
        axis.set(title=room, xlabel="steps to the goal", xlim=(0, 1.03 * experiment.parameters["steps"]))
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.grid(axis="x", alpha=0.25)
        axis.tick_params(axis="y", length=0)
        axis.xaxis.set_major_locator(_locator())
    axes[0].set_yticks(range(len(LABELS)), list(LABELS.values()))
    axes[0].set_ylim(len(LABELS) - 0.5, -0.5)


def _locator() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)


EXPERIMENT = Experiment(
    name="table6b",
    title="Exploration where the dynamics change: DTG-CS against optimism, counts and prediction errors",
    reproduces="Ours: rooms with wind that switches, a random screen, a late door, and none of these.",
    parameters={"steps": STEPS, "shared": SHARED, "methods": METHODS, "rooms": ROOMS},
    quick={"steps": 1_500, "shared": {**SHARED, "buffer": 200}},
    repeats=100,
    quick_repeats=3,
    seed=20_250_616,
    paper=EXPECTED,
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
