"""Runs of several agents in one environment and summaries of them: the work of ``condcs explore``."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs._core.checks import check_choice, check_integer
from condcs._parallel.spreading import active_workers, cores, in_order, spread
from condcs.explore._compiled_environments import compiled_environment
from condcs.explore._environments import NAMES, EnvironmentName
from condcs.explore._methods import METHODS, Method, hyperparameters
from condcs.explore._rollouts import rollout

FloatArray = np.ndarray[Any, Any]

CURVE_POINTS, HEAT_BINS = 200, 40


@dataclass(frozen=True)
class ExploreOptions:
    """Options of a comparison of agents.

    Attributes
    ----------
    environment : {"mountain-car", "pendulum", "maze"}
        Which environment.
    methods : tuple of str
        Which agents; see `condcs.explore.make_agent`.
    n_runs : int
        How many runs of each.
    rng : int
        Seed of the first run; the others have the numbers that follow.
    steps : int
        Length of every run; an agent that reaches the goal starts again.
    rows : int
        Rows and columns of the maze.
    n_jobs : int, optional
        Threads; by default one per core.
    """

    environment: EnvironmentName
    methods: tuple[Method, ...]
    n_runs: int = 20
    rng: int = 0
    steps: int = 10_000
    rows: int = 20
    n_jobs: int | None = None

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


def curve_steps(options: ExploreOptions) -> np.ndarray[Any, Any]:
    """Return the numbers of steps at which learning curves are drawn."""
    return np.unique(np.geomspace(1, options.steps, CURVE_POINTS).astype(np.int64))


def one_run(options: ExploreOptions, method: Method, number: int) -> dict[str, Any]:
    """Let one agent act; all methods have the same start and the same maze in runs of the same number."""
    rng = np.random.default_rng([options.rng + number, NAMES.index(options.environment)])
    made = compiled_environment(options.environment, rows=options.rows, rng=rng)
    settings = hyperparameters(options.environment, method)
    done = rollout(made, settings, steps=options.steps, until_goal=False, keep_path=True, rng=rng)
    numbers, total = places(options.environment, done.path, options.rows)
    return {
        "first_goal": done.first_goal,
        "goals": done.goals,
        "curve": coverage_curve(numbers, total, curve_steps(options)),
        "heat": heat_map(options.environment, done.path, options.rows, HEAT_BINS),
    }


def explore(options: ExploreOptions, tell: Any = None) -> Found:
    """Run all methods; `tell` is called with the runs so far after each run."""
    found: Found = {method: MethodRuns() for method in options.methods}
    plan = [(method, number) for method in options.methods for number in range(options.n_runs)]
    jobs = options.n_jobs or cores()
    # The compiled loops release the global interpreter lock, so that threads suffice. Results keep the plan's order.
    runs = _on_threads(options, plan, jobs)
    workers = active_workers()
    if workers is not None:
        runs = in_order(spread(one_run, ((options, *wanted) for wanted in plan), workers))
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


def _on_threads(
    options: ExploreOptions, plan: list[tuple[Method, int]], jobs: int
) -> Generator[dict[str, Any], None, None]:
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one_run, options, method, number) for method, number in plan]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


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


def places(environment: EnvironmentName, path: FloatArray, rows: int) -> tuple[FloatArray, int]:
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


def coverage_curve(numbers: FloatArray, total: int, at: FloatArray) -> FloatArray:
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
