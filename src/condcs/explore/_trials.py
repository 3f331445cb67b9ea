"""Runs of several agents in one environment and summaries of them: the work of ``condcs explore``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.checks import check_integer
from condcs._core.settings import cores
from condcs._parallel.spreading import Workers, active_workers, in_order, spread
from condcs.explore._methods import make_agent, method_named
from condcs.explore._tasks import Task, task_named

CURVE_POINTS = 200
"""Points of a learning curve: more cannot be told apart in its picture."""

HEAT_BINS = 40
"""Bins of each column of a heat map: two per part of the state that counts as a place."""


@dataclass(frozen=True)
class ExploreOptions:
    """Options of a comparison of agents."""

    environment: str  # the name of a task
    methods: tuple[str, ...]
    n_runs: int = 20  # of each method
    rng: int = 0  # seed of the first run; the others have the numbers that follow
    steps: int = 10_000  # of every run; an agent that reaches the goal starts again
    rows: int = 20  # and columns of the maze
    n_jobs: int | None = None  # processes; by default one per core

    def __post_init__(self) -> None:
        task_named(self.environment)
        for method in self.methods:
            method_named(method)
        check_integer("n_runs", self.n_runs, 1)
        check_integer("rng", self.rng, 0)
        check_integer("steps", self.steps, 10)
        check_integer("rows", self.rows, 2)

    @property
    def task(self) -> Task:
        """The task, a maze of the size that was asked for."""
        return task_named(self.environment).of_size(self.rows)


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


RunsByMethod = dict[str, MethodRuns]
"""The runs of each method, by its name."""


def curve_steps(options: ExploreOptions) -> IntArray:
    """Return the numbers of steps at which learning curves are drawn."""
    return np.unique(np.geomspace(1, options.steps, CURVE_POINTS).astype(np.int64))


def one_run(options: ExploreOptions, method: str, number: int) -> dict[str, Any]:
    """Let one agent act; all methods have the same start and the same maze in runs of the same number."""
    seed = options.rng + number
    task = options.task
    environment = task.make()
    settings = method_named(method).settings(task)
    agent = make_agent(method, environment, settings=settings, rng=np.random.default_rng([seed, task.number]))
    path = np.empty((options.steps, 2))
    goals: list[int] = []
    observation, _ = environment.reset(seed=seed)
    for t in range(options.steps):
        observation, reward, terminated, _, _ = environment.step(agent.act(observation))
        agent.learn(observation, float(reward), bool(terminated))
        path[t] = task.position(environment.unwrapped)
        if terminated:
            goals.append(t + 1)
            observation, _ = environment.reset()
    numbers, total = task.places(path)
    return {
        "first_goal": goals[0] if goals else -1,
        "goals": len(goals),
        "curve": coverage_curve(numbers, total, curve_steps(options)),
        "heat": task.heat_map(path, HEAT_BINS),
    }


def explore(options: ExploreOptions, tell: Any = None) -> RunsByMethod:
    """Run all methods; `tell` is called with the runs so far after each run."""
    runs_by_method: RunsByMethod = {method: MethodRuns() for method in options.methods}
    plan = [(method, number) for method in options.methods for number in range(options.n_runs)]
    # Steps are Python's: processes, not threads. Results keep the plan's order.
    jobs = min(options.n_jobs or cores(), len(plan))
    workers = active_workers() or (Workers(jobs) if jobs > 1 else None)
    calls = ((options, method, number) for method, number in plan)
    runs = in_order(spread(one_run, calls, workers)) if workers else (one_run(*call) for call in calls)
    # Closed at once on Ctrl-C: runs that have not begun are cancelled.
    with closing(runs):
        for (method, _), run in zip(plan, runs, strict=True):
            runs_so_far = runs_by_method[method]
            runs_so_far.first_goals.append(run["first_goal"])
            runs_so_far.goals.append(run["goals"])
            runs_so_far.curves.append(run["curve"])
            runs_so_far.heat = runs_so_far.heat + run["heat"]
            if tell is not None:
                tell(runs_by_method)
    return runs_by_method


COLUMNS = ("method", "runs", "at the goal", "first steps to it: median", "mean", "goals per run", "places seen")


def rows_of(options: ExploreOptions, runs_by_method: RunsByMethod) -> list[list[str]]:
    """Return the table of results."""
    rows = []
    for method, runs in runs_by_method.items():
        done, reached = len(runs.first_goals), runs.reached
        rows.append(
            [
                method_named(method).title,
                f"{done} of {options.n_runs}",
                f"{len(reached)}" if done else "–",
                f"{np.median(reached):,.0f}" if reached else "–",
                f"{np.mean(reached):,.0f}" if reached else "–",
                f"{np.mean(runs.goals):.1f}" if done else "–",
                f"{np.mean([curve[-1] for curve in runs.curves]):.0%}" if done else "–",
            ]
        )
    return rows


def coverage_curve(numbers: IntArray, total: int, at: IntArray) -> FloatArray:
    """Return the share of places seen after each number of steps in `at`."""
    _, first = np.unique(numbers, return_index=True)
    return np.asarray(np.searchsorted(np.sort(first), at, side="left") / total)
