"""Runs of several agents in one environment and summaries of them: the work of ``condcs explore``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.checks import check_choice, check_integer
from condcs._core.settings import cores
from condcs._parallel.spreading import Workers, active_workers, in_order, spread
from condcs.explore._agents import METHODS, Method, make_agent
from condcs.explore._environments import make_environment
from condcs.explore._spaces import NAMES, EnvironmentName

CURVE_POINTS, HEAT_BINS = 200, 40


@dataclass(frozen=True)
class ExploreOptions:
    """Options of a comparison of agents."""

    environment: EnvironmentName
    methods: tuple[Method, ...]
    n_runs: int = 20  # of each method
    rng: int = 0  # seed of the first run; the others have the numbers that follow
    steps: int = 10_000  # of every run; an agent that reaches the goal starts again
    rows: int = 20  # and columns of the maze
    n_jobs: int | None = None  # processes; by default one per core

    def __post_init__(self) -> None:
        check_choice("environment", self.environment, NAMES)
        for method in self.methods:
            check_choice("method", method, tuple(METHODS))
        check_integer("n_runs", self.n_runs, 1)
        check_integer("rng", self.rng, 0)
        check_integer("steps", self.steps, 10)
        check_integer("rows", self.rows, 2)


@dataclass
class MethodRuns:
    """The runs of one method: steps to the goal, goals, coverage curves and visits."""

    first_goals: list[int] = field(default_factory=list)
    goals: list[int] = field(default_factory=list)
    curves: list[Any] = field(default_factory=list)
    heat: Any = 0.0

    @property
    def reached(self) -> list[int]:
        """Steps of the runs that reached the goal."""
        return [step for step in self.first_goals if step > 0]


Found = dict[Method, MethodRuns]
"""The runs of each method."""


def curve_steps(options: ExploreOptions) -> IntArray:
    """Return the numbers of steps at which learning curves are drawn."""
    return np.unique(np.geomspace(1, options.steps, CURVE_POINTS).astype(np.int64))


def one_run(options: ExploreOptions, method: Method, number: int) -> dict[str, Any]:
    """Let one agent act; all methods have the same start and the same maze in runs of the same number."""
    seed = options.rng + number
    size: dict[str, Any] = {"rows": options.rows} if options.environment == "maze" else {}
    environment = make_environment(options.environment, **size)
    agent = make_agent(method, environment, rng=np.random.default_rng([seed, NAMES.index(options.environment)]))
    inner = environment.unwrapped
    path = np.empty((options.steps, 2))
    goals: list[int] = []
    observation, _ = environment.reset(seed=seed)
    for t in range(options.steps):
        observation, reward, terminated, _, _ = environment.step(agent.act(observation))
        agent.learn(observation, float(reward), bool(terminated))
        path[t] = inner.cell if options.environment == "maze" else inner.state
        if terminated:
            goals.append(t + 1)
            observation, _ = environment.reset()
    numbers, total = places(options.environment, path, options.rows)
    return {
        "first_goal": goals[0] if goals else -1,
        "goals": len(goals),
        "curve": coverage_curve(numbers, total, curve_steps(options)),
        "heat": heat_map(options.environment, path, options.rows, HEAT_BINS),
    }


def explore(options: ExploreOptions, tell: Any = None) -> Found:
    """Run all methods; `tell` is called with the runs so far after each run."""
    found: Found = {method: MethodRuns() for method in options.methods}
    plan = [(method, number) for method in options.methods for number in range(options.n_runs)]
    # Steps are Python's: processes, not threads. Results keep the plan's order.
    jobs = min(options.n_jobs or cores(), len(plan))
    workers = active_workers() or (Workers(jobs) if jobs > 1 else None)
    calls = ((options, *wanted) for wanted in plan)
    runs = in_order(spread(one_run, calls, workers)) if workers else (one_run(*call) for call in calls)
    # Closed at once on Ctrl-C: runs that have not begun are cancelled.
    with closing(runs):
        for (method, _), run in zip(plan, runs, strict=True):
            kept = found[method]
            kept.first_goals.append(run["first_goal"])
            kept.goals.append(run["goals"])
            kept.curves.append(run["curve"])
            kept.heat = kept.heat + run["heat"]
            if tell is not None:
                tell(found)
    return found


COLUMNS = ("method", "runs", "at the goal", "first steps to it: median", "mean", "goals per run", "places seen")


def rows_of(options: ExploreOptions, found: Found) -> list[list[str]]:
    """Return the table of results."""
    rows = []
    for method, runs in found.items():
        done, reached = len(runs.first_goals), runs.reached
        rows.append(
            [
                METHODS[method],
                f"{done} of {options.n_runs}",
                f"{len(reached)}" if done else "–",
                f"{np.median(reached):,.0f}" if reached else "–",
                f"{np.mean(reached):,.0f}" if reached else "–",
                f"{np.mean(runs.goals):.1f}" if done else "–",
                f"{np.mean([curve[-1] for curve in runs.curves]):.0%}" if done else "–",
            ]
        )
    return rows


PARTS = 20
"""Parts of each of the two columns of a continuous state."""

_BOXES: dict[EnvironmentName, Any] = {
    "mountain-car": ((-1.2, -0.07), (0.6, 0.07)),
    "pendulum": ((0.0, -8.0), (2 * np.pi, 8.0)),
}


def places(environment: EnvironmentName, path: FloatArray, rows: int) -> tuple[IntArray, int]:
    """Return the number of the place of each state of a path, and how many places there are.

    Places are the cells of a square maze, or 20 x 20 parts of position and velocity, or of angle and speed.
    """
    if environment == "maze":
        return (path[:, 1] * rows + path[:, 0]).astype(np.int64), rows * rows
    low, high = (np.array(side) for side in _BOXES[environment])
    turned = path.copy()
    if environment == "pendulum":
        turned[:, 0] %= 2 * np.pi
    parts = np.clip(((turned - low) / (high - low) * PARTS).astype(np.int64), 0, PARTS - 1)
    return parts[:, 0] * PARTS + parts[:, 1], PARTS * PARTS


def coverage_curve(numbers: IntArray, total: int, at: IntArray) -> FloatArray:
    """Return the share of places seen after each number of steps in `at`."""
    _, first = np.unique(numbers, return_index=True)
    return np.asarray(np.searchsorted(np.sort(first), at, side="left") / total)


def heat_map(environment: EnvironmentName, path: FloatArray, rows: int, bins: int) -> FloatArray:
    """Return a histogram of a path over position and velocity, the pendulum's free end, or the cells of the maze."""
    x, y = path.T
    if environment == "mountain-car":
        edges = [np.linspace(low, high, bins + 1) for low, high in zip(*_BOXES[environment], strict=True)]
    elif environment == "pendulum":
        x, y = np.sin(x), np.cos(x)
        edges = [np.linspace(-1.05, 1.05, bins + 1)] * 2
    else:
        edges = [np.arange(rows + 1) - 0.5] * 2
    return np.asarray(np.histogram2d(x, y, bins=edges)[0])
