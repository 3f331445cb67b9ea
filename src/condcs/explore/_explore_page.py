"""The page of ``condcs explore``."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.explore._methods import method_named
from condcs.explore._trials import COLUMNS, ExploreOptions, RunsByMethod, curve_steps, rows_of
from condcs.report._page import Page, drawing


def explore_page(options: ExploreOptions, runs_by_method: RunsByMethod, command: str) -> Page:
    """Return the page: results, learning curves, heat maps, and what was done."""
    task = options.task
    name = task.name.replace("-", " ")
    page = Page(
        f"Exploring the {name}",
        f"{options.n_runs} runs of {options.steps:,} steps per method, looking for {task.goal}.",
    )
    page.section("Results")
    page.table(COLUMNS, rows_of(options, runs_by_method), "Steps of the runs that reached the goal")
    page.section("Learning curves")
    page.figure(
        draw_curves(options, runs_by_method, curve_steps(options)),
        "Share of runs at the goal and of places seen against steps",
        "Left: share of runs that have reached the goal. Right: share of places seen, mean and interquartile range "
        "over runs.",
    )
    page.section("Visited states")
    page.figure(
        draw_heat(options, runs_by_method),
        "Heat maps of the visits of each method",
        " ".join(filter(None, ["Visits on a logarithmic scale, summed over all runs; brighter is more.", task.note])),
    )
    page.section("How it was made")
    page.facts({"environment": name, "runs": options.n_runs, "first seed": options.rng, "steps": options.steps})
    rows = []
    for method in map(method_named, runs_by_method):
        values = method.settings(task).as_dict().values()
        rows.append([method.title, *(f"{v:g}" if isinstance(v, float) else str(v) for v in values)])
    columns = [name.replace("_", " ") for name in task.settings.as_dict()]
    page.table(["method", *columns], rows, "Hyper-parameters")
    page.command(command)
    return page


def draw_curves(options: ExploreOptions, runs_by_method: RunsByMethod, at: Any) -> Any:
    """Draw both learning curves."""
    figure, (goal, seen) = drawing(9, 3.8, 1, 2, sharex=True)
    for name, runs in runs_by_method.items():
        method = method_named(name)
        steps = np.sort(runs.reached)
        share = np.arange(1, len(steps) + 1) / len(runs.first_goals)
        goal.step(
            [1, *steps, options.steps],
            [0, *share, share[-1] if len(share) else 0],
            method.line,
            where="post",
            color=method.colour,
            lw=2,
            label=method.title,
        )
        curves = np.array(runs.curves)
        seen.plot(at, curves.mean(axis=0), method.line, color=method.colour, lw=2)
        if len(curves) > 1:
            seen.fill_between(at, *np.quantile(curves, [0.25, 0.75], axis=0), color=method.colour, alpha=0.15, lw=0)
    goal.set(xscale="log", xlim=(10, options.steps), ylim=(-0.02, 1.02), xlabel="steps", ylabel="runs at the goal")
    seen.set(ylim=(0, None), xlabel="steps", ylabel="places seen")
    for axis in (goal, seen):
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(*goal.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_heat(options: ExploreOptions, runs_by_method: RunsByMethod) -> Any:
    """Draw one heat map per method."""
    columns = min(4, len(runs_by_method))
    rows = -(-len(runs_by_method) // columns)
    figure, axes = drawing(2.3 * columns + 0.6, 2.4 * rows + 0.5, rows, columns, framed=True, squeeze=False)
    top = max(float(np.log1p(runs.heat).max()) for runs in runs_by_method.values())
    task = options.task
    across, up = task.axes
    for axis, (name, runs) in zip(axes.flat, runs_by_method.items(), strict=False):
        method = method_named(name)
        axis.imshow(
            np.log1p(runs.heat).T,
            origin="upper" if task.downwards else "lower",
            cmap="magma",
            vmin=0,
            vmax=top,
            aspect="equal",
        )
        axis.set(xticks=[], yticks=[], xlabel=across)
        axis.set_title(method.short_title or method.title, fontsize=10)
    axes[0, 0].set_ylabel(up)
    for axis in axes.flat[len(runs_by_method) :]:
        axis.set_axis_off()
    return figure
