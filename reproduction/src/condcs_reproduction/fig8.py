"""Figure 8: where each method spends 50,000 steps, in each environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs_reproduction import table6
from condcs_reproduction.exploration.tasks import EnvironmentName
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

ENVIRONMENTS, METHODS = table6.ENVIRONMENTS, table6.METHODS

CLAIMS: dict[str, tuple[EnvironmentName, str, str]] = {
    "mountain car: DTG-CS covers more than Random": ("mountain-car", "dtg-cs", "random"),
    "mountain car: DTG-CS covers more than Q-learning": ("mountain-car", "dtg-cs", "q-learning"),
    "mountain car: DTG covers more than Random": ("mountain-car", "dtg", "random"),
    "pendulum: Q-learning covers more than Random": ("pendulum", "q-learning", "random"),
    "pendulum: DTG-CS covers more than Random": ("pendulum", "dtg-cs", "random"),
    "pendulum: DTG-CS covers more than MaxEnt": ("pendulum", "dtg-cs", "maxent"),
    "maze: DTG-CS covers more than Random": ("maze", "dtg-cs", "random"),
    "maze: DTG-CS covers more than Q-learning": ("maze", "dtg-cs", "q-learning"),
}
"""What the text reads off the figure: which method of two spreads further. All of them say yes."""


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """All methods in all environments."""
    return table6.tasks(parameters, repeats)


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Let a method act for all steps, starting again at every goal, and count where it was."""
    from condcs_reproduction.exploration import TASKS
    from condcs_reproduction.exploration_environments import compiled_environment
    from condcs_reproduction.exploration_rollouts import rollout

    name, bins = arguments["environment"], parameters["bins"]
    environment = compiled_environment(name, rows=parameters["maze_rows"], rng=rng)
    settings = table6.settings_of(parameters, name, arguments["method"])
    done = rollout(environment, settings, steps=parameters["steps"], until_goal=False, keep_path=True, rng=rng)
    task = TASKS[name].of_size(parameters["maze_rows"])
    counts = task.heat_map(done.path, bins).astype(int)
    coverage, entropy = spread(*task.places(done.path))
    return {"counts": counts.tolist(), "goals": done.goals, "coverage": coverage, "entropy": entropy}


def spread(numbers: IntArray, total: int) -> tuple[float, float]:
    """Return the share of places visited, and the entropy of the visits as a share of the largest possible one."""
    _, counts = np.unique(numbers, return_counts=True)
    share = counts / counts.sum()
    return float(len(counts) / total), float(-(share * np.log(share)).sum() / np.log(total))


def _mean(results: Results, method: str, environment: str, key: str) -> FloatArray:
    return np.array([r[key] for r in results.get(table6.case_of(method, environment), {}).values()], dtype=float)


def summarise(experiment: Experiment, results: Results) -> Report:
    """Coverage and entropy, and whether what the text reads off the figure holds."""
    grids = []
    for key, title in (
        ("coverage", "Share of places visited"),
        ("entropy", "Entropy of the visits, as a share of log n"),
    ):
        cells: dict[str, dict[str, Cell]] = {}
        for method, label in METHODS.items():
            cells[label] = {}
            for environment in ENVIRONMENTS:
                values = _mean(results, method, environment, key)
                if not len(values):
                    cells[label][environment] = MISSING
                    continue
                error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
                cells[label][environment] = Cell(float(values.mean()), error=error)
        grids.append(Grid(title, "method", ENVIRONMENTS, cells))
    claims: dict[str, dict[str, Cell]] = {}
    for claim, (environment, more, less) in CLAIMS.items():
        pair = [_mean(results, m, environment, "entropy") for m in (more, less)]
        if not len(pair[0]) or not len(pair[1]):
            claims[claim] = {"holds": MISSING}
            continue
        holds = "yes" if pair[0].mean() > pair[1].mean() else "no"
        claims[claim] = {"holds": Cell(holds, "yes", "agrees" if holds == "yes" else "differs")}
    grids.append(Grid("What the text reads off the figure (by entropy)", "claim", ("holds",), claims))
    notes = [
        f"{experiment.parameters['steps']:,} steps per run; an agent that reaches the goal starts again. Places: 20 x "
        "20 parts of the state space, or the cells of the maze.",
        "The picture shows log(1 + mean visits) over the runs; mazes differ from run to run.",
    ]
    return Report(experiment.title, grids, notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw one heat map per method and environment."""
    figure.set_size_inches(1.75 * len(METHODS), 5.9)
    axes = figure.subplots(len(ENVIRONMENTS), len(METHODS))
    labels = ("position →\nvelocity ↑", "free end of\nthe pendulum", "maze:\nstart above left")
    for i, environment in enumerate(ENVIRONMENTS):
        maps = {}
        for method in METHODS:
            runs = results.get(table6.case_of(method, environment), {})
            if runs:
                maps[method] = np.log1p(np.mean([r["counts"] for r in runs.values()], axis=0))
        top = max((float(m.max()) for m in maps.values()), default=1.0)
        for axis, method in zip(axes[i], METHODS, strict=True):
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_color("#cbd5e0")
            if method in maps:
                origin = "upper" if environment == "maze" else "lower"
                axis.imshow(maps[method].T, origin=origin, cmap="magma", vmin=0, vmax=top, aspect="equal")
        axes[i, 0].set_ylabel(labels[i], fontsize=9)
    for axis, (method, label) in zip(axes[0], METHODS.items(), strict=True):
        axis.set_title("control\n(D = 0)" if method == "control" else label.replace(", ", ",\n"), fontsize=10)


EXPERIMENT = Experiment(
    name="fig8",
    title="Exploration: where each method spends its steps",
    reproduces="Figure 8: occupancy of the state space, all methods, three environments, 50,000 steps.",
    parameters={
        "steps": 50_000,
        "maze_rows": 20,
        "bins": 40,
        "settings": table6.EXPERIMENT.parameters["settings"],
    },
    quick={
        "steps": 600,
        "maze_rows": 8,
        "bins": 12,
        "settings": table6.EXPERIMENT.quick["settings"],
    },
    repeats=10,
    quick_repeats=2,
    seed=20_250_808,
    paper=dict.fromkeys(CLAIMS, "yes"),
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
