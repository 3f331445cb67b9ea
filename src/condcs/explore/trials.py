"""Runs of several agents in one environment, and what is counted of them: the work of ``condcs explore``."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs.core.checks import check_choice, check_integer
from condcs.explore.coverage import coverage_curve, heat_map, places
from condcs.explore.environments import NAMES, compiled_environment
from condcs.explore.rollouts import rollout
from condcs.explore.settings import METHODS, hyperparameters
from condcs.parallel.spreading import active_workers, cores, in_order, spread

CURVE_POINTS, HEAT_BINS = 200, 40


@dataclass(frozen=True)
class ExploreOptions:
    """What to run.

    Attributes
    ----------
    environment : str
        "mountain-car", "pendulum" or "maze".
    methods : tuple of str
        Which agents.
    seeds, first_seed : int
        How many runs of each, and the seed of the first.
    steps : int
        Length of every run; an agent that reaches the goal starts again.
    rows : int
        Rows and columns of the maze.
    jobs : int, optional
        Threads; by default one per core.
    """

    environment: str
    methods: tuple[str, ...]
    seeds: int = 20
    first_seed: int = 0
    steps: int = 10_000
    rows: int = 20
    jobs: int | None = None


@dataclass
class MethodRuns:
    """The runs of one method: where they were, what they saw, and when they were at the goal."""

    first_goals: list[int] = field(default_factory=list)
    goals: list[int] = field(default_factory=list)
    curves: list[Any] = field(default_factory=list)
    heat: Any = 0.0

    @property
    def reached(self) -> list[int]:
        """Steps of the runs that reached the goal."""
        return [step for step in self.first_goals if step > 0]


def checked(options: ExploreOptions) -> ExploreOptions:
    """Check the options that typer cannot."""
    check_choice("environment", options.environment, NAMES)
    for method in options.methods:
        check_choice("method", method, tuple(METHODS))
    check_integer("seeds", options.seeds, 1)
    check_integer("steps", options.steps, 10)
    check_integer("rows", options.rows, 2)
    return options


def curve_steps(options: ExploreOptions) -> np.ndarray[Any, Any]:
    """Return the numbers of steps at which learning curves are drawn."""
    return np.unique(np.geomspace(1, options.steps, CURVE_POINTS).astype(np.int64))


def one_run(options: ExploreOptions, method: str, seed: int) -> dict[str, Any]:
    """Let one agent act; methods with the same seed meet the same start and the same maze."""
    rng = np.random.default_rng([options.first_seed + seed, NAMES.index(options.environment)])
    made = compiled_environment(options.environment, rows=options.rows, rng=rng)
    settings = hyperparameters(options.environment, method)
    done = rollout(made, settings, steps=options.steps, until_goal=False, keep_path=True, rng=rng)
    numbers, total = places(options.environment, done.path, options.rows, options.rows)
    return {
        "first_goal": done.first_goal,
        "goals": done.goals,
        "curve": coverage_curve(numbers, total, curve_steps(options)),
        "heat": heat_map(options.environment, done.path, options.rows, options.rows, HEAT_BINS),
    }


def explore(options: ExploreOptions, tell: Any = None) -> dict[str, MethodRuns]:
    """Run everything; `tell` is called with the runs so far after each one."""
    found = {method: MethodRuns() for method in options.methods}
    plan = [(method, seed) for method in options.methods for seed in range(options.seeds)]
    jobs = options.jobs or cores()
    # The compiled loops let other threads run, so threads are enough. Results come in the order of the plan.
    runs = _on_threads(options, plan, jobs)
    workers = active_workers()
    if workers is not None:
        runs = in_order(spread(one_run, ((options, *wanted) for wanted in plan), workers))
    # Closed at once on Ctrl-C: what has not begun is given up.
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
    options: ExploreOptions, plan: list[tuple[str, int]], jobs: int
) -> Generator[dict[str, Any], None, None]:
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one_run, options, method, seed) for method, seed in plan]
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


COLUMNS = ("method", "runs", "at the goal", "first steps to it: median", "mean", "goals per run", "places seen")


def rows_of(options: ExploreOptions, found: dict[str, MethodRuns]) -> list[list[str]]:
    """Return the table of results."""
    rows = []
    for method, runs in found.items():
        done, reached = len(runs.first_goals), runs.reached
        rows.append(
            [
                METHODS[method],
                f"{done} of {options.seeds}",
                f"{len(reached)}" if done else "–",
                f"{np.median(reached):,.0f}" if reached else "–",
                f"{np.mean(reached):,.0f}" if reached else "–",
                f"{np.mean(runs.goals):.1f}" if done else "–",
                f"{np.mean([curve[-1] for curve in runs.curves]):.0%}" if done else "–",
            ]
        )
    return rows
