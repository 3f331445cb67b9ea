"""Table 6: steps until three goals are first reached, by seven methods and the control that the paper lacks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.printable import counted
from condcs_reproduction.exploration.tasks import NAMES
from condcs_reproduction.exploration_rollouts import METHODS as ALL_METHODS
from condcs_reproduction.exploration_rollouts import PaperSettings, paper_settings
from condcs_reproduction.report import MISSING, SPREAD_FACTOR, Cell, Grid, Report, judged
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

ENVIRONMENTS = NAMES
METHODS: dict[str, str] = {m: label for m, label in ALL_METHODS.items() if m != "dtg-local"}
"""Methods of the paper, and controls."""

UNCAPPED = ("mountain-car", "pendulum")

PAPER: dict[str, dict[str, tuple[float, float | None]]] = {
    "random": {"mountain-car": (42085, None), "pendulum": (5884, None), "maze": (15666, 0.15)},
    "q-learning": {"mountain-car": (53204, None), "pendulum": (3276, None), "maze": (12906, 0.18)},
    "maxent": {"mountain-car": (13761, None), "pendulum": (5213, None), "maze": (31039, 0.40)},
    "dtg": {"mountain-car": (979, None), "pendulum": (4562, None), "maze": (2618, 0.58)},
    "dtg-kl": {"mountain-car": (1659, None), "pendulum": (4780, None), "maze": (4181, 0.53)},
    "dtg-mmd": {"mountain-car": (1853, None), "pendulum": (4282, None), "maze": (4383, 0.61)},
    "dtg-cs": {"mountain-car": (946, None), "pendulum": (4105, None), "maze": (2581, 0.75)},
}
"""Mean steps and, for the maze, success rate; 100 runs each."""

PAPER_RUNS = 100


def case_of(method: str, environment: str) -> str:
    """Return the name of a case."""
    return f"{method}; {environment}"


def settings_of(parameters: Parameters, environment: str, method: str) -> PaperSettings:
    """Return the settings that the parameters of the experiment hold."""
    return PaperSettings(**parameters["settings"][environment][method])


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """All methods in all environments; the methods of a repeat meet the same start and the same maze."""
    return [
        Task(case_of(method, environment), repeat, (e, repeat), {"method": method, "environment": environment})
        for repeat in range(repeats)
        for e, environment in enumerate(ENVIRONMENTS)
        for method in METHODS
    ]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Let one method look for one goal, for as long as the limit allows."""
    from condcs_reproduction.exploration_environments import compiled_environment
    from condcs_reproduction.exploration_rollouts import rollout

    name = arguments["environment"]
    environment = compiled_environment(name, rows=parameters["maze_rows"], rng=rng)
    limit = parameters["limit"] if name in UNCAPPED else parameters["cap"]
    done = rollout(environment, settings_of(parameters, name, arguments["method"]), steps=limit, rng=rng)
    return {"steps": done.steps, "reached": done.reached, "centres": done.centres}


def _runs(results: Results, method: str, environment: str) -> list[Result]:
    return list(results.get(case_of(method, environment), {}).values())


def _paper(experiment: Experiment, method: str, environment: str) -> tuple[float | None, float | None]:
    steps, rate = experiment.paper.get(method, {}).get(environment, (None, None))
    return steps, rate


def mean_cell(experiment: Experiment, steps: FloatArray, paper: float | None, detail: str = "") -> Cell:
    """Compare mean steps; the paper's mean is taken to scatter as ours does."""
    if not len(steps):
        return Cell("none", None if paper is None else f"{paper:.0f}", "differs" if paper is not None else "")
    mean, deviation = float(np.mean(steps)), float(np.std(steps, ddof=1)) if len(steps) > 1 else 0.0
    verdict = ""
    if paper is not None:
        spread = deviation * math.sqrt(1 / len(steps) + 1 / PAPER_RUNS)
        verdict = judged(mean, paper, spread=spread, tolerance=experiment.tolerance * paper)
    return Cell(mean, paper, verdict, error=deviation / math.sqrt(len(steps)), detail=detail, digits=0)


def rate_cell(successes: int, runs: int, paper: float | None) -> Cell:
    """Compare two success rates by the two-proportion test at 1%."""
    rate = successes / runs
    if paper is None:
        return Cell(rate)
    pooled = (successes + paper * PAPER_RUNS) / (runs + PAPER_RUNS)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / runs + 1 / PAPER_RUNS))
    return Cell(rate, paper, judged(rate, paper, spread=spread, tolerance=0.0))


def summarise(experiment: Experiment, results: Results) -> Report:
    """Uncapped means, means of successful runs, and success rates."""
    cap = experiment.parameters["cap"]
    uncapped: dict[str, dict[str, Cell]] = {}
    capped: dict[str, dict[str, Cell]] = {}
    rates: dict[str, dict[str, Cell]] = {}
    for method, label in METHODS.items():
        uncapped[label], capped[label], rates[label] = {}, {}, {}
        for environment in ENVIRONMENTS:
            runs = _runs(results, method, environment)
            steps, rate = _paper(experiment, method, environment)
            if not runs:
                for grid in (uncapped, capped, rates):
                    grid[label][environment] = MISSING
                continue
            within = np.array([r["steps"] for r in runs if r["reached"] and r["steps"] <= cap], dtype=float)
            capped[label][environment] = mean_cell(experiment, within, steps)
            rates[label][environment] = rate_cell(len(within), len(runs), rate)
            if environment in UNCAPPED:
                lost = sum(not r["reached"] for r in runs)
                taken = np.array([r["steps"] for r in runs], dtype=float)
                detail = f"{counted(lost, 'run')} ended at the limit" if lost else ""
                uncapped[label][environment] = mean_cell(experiment, taken, steps, detail)
        if "maze" in uncapped[label]:
            del uncapped[label]["maze"]
    limit = experiment.parameters["limit"]
    grids = [
        Grid(f"Steps to the goal, all runs, ended at {limit:,} steps", "method", UNCAPPED, uncapped),
        Grid(f"Steps to the goal, runs that reach it within {cap:,} steps", "method", ENVIRONMENTS, capped),
        Grid(f"Success rate within {cap:,} steps", "method", ENVIRONMENTS, rates),
    ]
    counts = sorted({len(r) for r in results.values()})
    notes = [
        f"Mean ± standard error over {'-'.join(str(c) for c in counts)} seeds; no resets, no time limit below the cap. "
        f"Means agree within {experiment.tolerance:.0%} of the paper's or within {SPREAD_FACTOR} standard errors, the "
        "paper's runs taken to scatter as ours; rates by the two-proportion test at 1%.",
        "The paper's means of Random and Q-learning on the mountain car exceed its own limit of 50,000 steps: they are "
        "means of uncapped runs, to be compared with the first table.",
        "MaxEnt's reward as the paper writes it is positive everywhere, which makes a greedy agent stay with what it "
        "knows; relative to the uniform density (a constant subtracted, ours) it does far better on mountain car and "
        "pendulum.",
        "The control learns from no reward at all: its optimistic initial value does the work. In these deterministic "
        "tasks p(s'|s,a) never changes, so the divergence sees only how the two halves of the buffer overlap; the "
        "order among the methods with optimism says little about the divergences.",
        "All methods with D and the control start from the value "
        f"{experiment.parameters['settings']['maze']['dtg-cs']['initial_value']:g}, not from the paper's 0 (for that "
        "see `python -m benchmarks explore`). DTG is the conditional Euclidean distance, a stand-in for "
        "the original's; DTG-MMD compares joint distributions; hyper-parameters: `condcs reproduce table9`.",
    ]
    return Report(experiment.title, grids, notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Share of runs that have reached the goal, against steps."""
    figure.set_size_inches(11, 4.2)
    axes = figure.subplots(1, len(ENVIRONMENTS), sharey=True)
    colours = ("#a0aec0", "#718096", "#b7791f", "#d69e2e", "#2f855a", "#6b46c1", "#dd6b20", "#2b6cb0", "#1a202c")
    titles = {"mountain-car": "mountain car", "pendulum": "pendulum", "maze": "maze"}
    for axis, environment in zip(axes, ENVIRONMENTS, strict=True):
        limit = experiment.parameters["limit"] if environment in UNCAPPED else experiment.parameters["cap"]
        for (method, label), colour in zip(METHODS.items(), colours, strict=True):
            runs = _runs(results, method, environment)
            if not runs:
                continue
            steps = np.sort([r["steps"] for r in runs if r["reached"]])
            share = np.arange(1, len(steps) + 1) / len(runs)
            style = {"ls": "--", "lw": 2.0} if method == "control" else {"lw": 2.4 if method == "dtg-cs" else 1.5}
            axis.step(
                [1, *steps, limit],
                [0, *share, share[-1] if len(share) else 0],
                where="post",
                color=colour,
                label=label,
                **style,
            )
        axis.set_xscale("log")
        axis.set_xlim(max(10, limit / 3000), limit)
        axis.axvline(experiment.parameters["cap"], color="#cbd5e0", lw=1, zorder=0)
        axis.set(title=titles[environment], xlabel="steps")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="share of runs at the goal", ylim=(0, 1.02))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)


EXPERIMENT = Experiment(
    name="table6",
    title="Exploration: steps until the goal is first reached",
    reproduces="Table 6: seven methods on mountain car, pendulum and maze, and the optimism control.",
    parameters={
        "cap": 50_000,
        "limit": 300_000,
        "maze_rows": 20,
        "settings": {e: {m: paper_settings(e, m).as_dict() for m in METHODS} for e in ENVIRONMENTS},
    },
    quick={
        "cap": 3_000,
        "limit": 4_000,
        "maze_rows": 6,
        "settings": {
            e: {m: {**paper_settings(e, m).as_dict(), "buffer": 200, "refresh_every": 200} for m in METHODS}
            for e in ENVIRONMENTS
        },
    },
    repeats=100,
    quick_repeats=3,
    seed=20_250_606,
    paper=PAPER,
    tolerance=0.1,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
