"""Planners in tasks whose dynamics change: how soon they recover, with and without a change signal. Ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs_reproduction.report import MISSING, SPREAD_FACTOR, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

METHODS: dict[str, tuple[str, str, str]] = {
    "none": ("no signal: optimism alone", "none", "none"),
    "count": ("count bonus", "none", "count"),
    "prediction": ("prediction error (RND)", "none", "prediction"),
    "page-hinkley": ("Page-Hinkley on returns, restart", "page-hinkley", "none"),
    "monitor": ("DynamicsMonitor, restart", "monitor", "none"),
}
"""Label, signal and bonus of each method."""

TASKS: tuple[str, ...] = ("rooms", "frozen lake", "mountain car", "cart pole")
if find_spec("ns_gym") is not None:
    TASKS += ("NS-Gym lake", "NS-Gym pole")

QUIET = "quiet"
"""Runs with the monitor in which nothing changes."""

WINDOW = 10
"""Episodes whose mean return says whether a planner has recovered."""

EXPECTED = "at most half"


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """All methods in all tasks, with the same seeds; and every tenth repeat a long run without a change."""
    found = []
    for repeat in range(repeats):
        for i, task in enumerate(TASKS):
            names = [*METHODS, *([QUIET] if repeat % 10 == 0 else [])]
            found += [Task(f"{m}; {task}", repeat, (i, repeat), {"method": m, "task": task}) for m in names]
    return found


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Let one planner act in one task."""
    from condcs_reproduction.changing_tasks import TASKS as ALL
    from condcs_reproduction.changing_tasks import learn

    task, method = ALL[arguments["task"]], arguments["method"]
    is_quiet = method == QUIET
    _, signal, bonus = METHODS["monitor" if is_quiet else method]
    scale = parameters["scale"]
    at = None if is_quiet else int(task.at * scale)
    steps = int(parameters["quiet_steps"] if is_quiet else task.steps * scale)
    run = learn(task, signal=signal, bonus=bonus, rng=rng, steps=steps, at=at)  # type: ignore[arg-type]
    if at is None:
        return {"signals": len(run.signals), "steps": steps}
    returns, ends = np.array(run.returns), np.array(run.ends)
    after = ends > at
    early = [s for s in run.signals if s <= at]
    late = [s - at for s in run.signals if s > at]
    best = float(np.mean(returns[~after][-50:])) if (~after).any() else math.nan
    return {
        "recovery": recovery(returns[after], ends[after] - at, task.target, steps - at),
        "cap": steps - at,
        "regret": float(np.sum(best - returns[after])),
        "false": len(early),
        "delay": late[0] if late else None,
    }


def recovery(returns: Any, ends: Any, target: float, cap: int) -> int:
    """Return the steps until the mean return of `WINDOW` episodes first reaches the target; `cap` if never.

    Examples
    --------
    >>> recovery(np.array([0.0] * 5 + [1.0] * 10), np.arange(1, 16), 1.0, 100)
    15
    """
    if len(returns) < WINDOW:
        return cap
    means = np.convolve(returns, np.full(WINDOW, 1 / WINDOW), "valid")
    reached = np.flatnonzero(means >= target - 1e-9)
    return int(ends[reached[0] + WINDOW - 1]) if len(reached) else cap


def _values(results: Results, method: str, task: str, key: str) -> FloatArray:
    runs = results.get(f"{method}; {task}", {}).values()
    return np.array([r[key] for r in runs if r[key] is not None], dtype=float)


def _mean_cell(values: FloatArray, detail: str = "") -> Cell:
    if not len(values):
        return MISSING
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    return Cell(float(values.mean()), error=error, detail=detail, digits=0)


def summarise(experiment: Experiment, results: Results) -> Report:
    """Compare recovery, regret, delays and false signals."""
    recovered: dict[str, dict[str, Cell]] = {}
    regret: dict[str, dict[str, Cell]] = {}
    for method, (label, _, _) in METHODS.items():
        recovered[label], regret[label] = {}, {}
        for task in TASKS:
            taken = _values(results, method, task, "recovery")
            lost = taken >= _values(results, method, task, "cap") if len(taken) else taken
            detail = f"{np.mean(lost):.0%} never" if len(taken) and lost.any() else ""
            recovered[label][task] = _mean_cell(taken, detail)
            regret[label][task] = _mean_cell(_values(results, method, task, "regret"))
    signals: dict[str, dict[str, Cell]] = {"monitor: recovery over that without a signal": {}, "delay": {}, "false": {}}
    signals["false signals without a change"] = {}
    for task in TASKS:
        ours, none = _values(results, "monitor", task, "recovery"), _values(results, "none", task, "recovery")
        n = min(len(ours), len(none))
        cell = MISSING
        if n:
            ratio, half = ours[:n].mean() / none[:n].mean(), math.inf
            if n > 1:
                # Delta method for a ratio of means of paired runs.
                half = SPREAD_FACTOR * float(np.std(ours[:n] - ratio * none[:n], ddof=1)) / math.sqrt(n)
                half /= float(none[:n].mean())
            around = f"± {half:.2f}" if math.isfinite(half) else ""
            verdict = "agrees" if ratio <= 0.5 else "differs"
            cell = Cell(float(ratio), EXPECTED, verdict, detail=around, digits=2)
        signals["monitor: recovery over that without a signal"][task] = cell
        signals["delay"][task] = _mean_cell(_values(results, "monitor", task, "delay"))
        signals["false"][task] = _mean_cell(_values(results, "monitor", task, "false"))
        quiet = results.get(f"{QUIET}; {task}", {}).values()
        total, false = sum(r["steps"] for r in quiet), sum(r["signals"] for r in quiet)
        cell = Cell(f"{false} in {total:,} steps", "0", "agrees" if not false else "differs") if total else MISSING
        signals["false signals without a change"][task] = cell
    signals["delay of the signal, steps"] = signals.pop("delay")
    signals["false signals before the change, per run"] = signals.pop("false")
    grids = [
        Grid("Steps from the change until recovery", "method", TASKS, recovered),
        Grid("Regret after the change: returns below those before it, summed over episodes", "method", TASKS, regret),
        Grid("The signal", "", TASKS, signals),
    ]
    notes = [
        "Goals in brackets were fixed before any run. A planner has recovered when the mean return of ten episodes "
        "reaches the task's target (condcs_reproduction.changing_tasks); a run that does not counts with its length. "
        "The best return is the same before and after a change: the door or the hole moves to the mirrored place, the "
        "force of mountain car and cart pole is reversed.",
        "All methods share a tabular model of the dynamics, optimistic plans and 5% of random actions. After a signal "
        "the model is forgotten. ± behind a ratio: 99% confidence.",
        "Tasks, targets and the planner were settled in trial runs with other seeds. A tabular Q-learner was tried "
        "first: for it a restart is no gain in the rooms, because old values are a better start than none.",
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the steps until recovery of each run."""
    figure.set_size_inches(11, 3.2)
    axes = figure.subplots(1, len(TASKS), sharey=True)
    for axis, task in zip(axes, TASKS, strict=True):
        for y, method in enumerate(METHODS):
            taken = _values(results, method, task, "recovery")
            if not len(taken):
                continue
            colour = "#2b6cb0" if method == "monitor" else "#718096"
            axis.plot(taken, np.full(len(taken), y), "|", ms=8, color=colour, alpha=0.4)
            axis.plot(taken.mean(), y, "o", color=colour, clip_on=False)
        axis.set(title=task, xlabel="steps until recovery", xlim=(0, None))
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.grid(axis="x", alpha=0.25)
        axis.tick_params(axis="y", length=0)
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_yticks(range(len(METHODS)), [label for label, _, _ in METHODS.values()])
    axes[0].set_ylim(len(METHODS) - 0.5, -0.5)


EXPERIMENT = Experiment(
    name="nonstationary",
    title="Dynamics that change: recovery with and without a signal",
    reproduces="Ours: a planner in four tasks that change once, with a change signal, restarts, bonuses, or nothing.",
    parameters={"scale": 1.0, "quiet_steps": 100_000},
    quick={"scale": 0.2, "quiet_steps": 3_000},
    repeats=100,
    quick_repeats=1,
    seed=20_261_117,
    paper={},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
