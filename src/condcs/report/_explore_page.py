"""The page of ``condcs explore``."""

from __future__ import annotations

from typing import Any

import numpy as np

from condcs.explore._agents import METHODS, hyperparameters
from condcs.explore._trials import COLUMNS, ExploreOptions, Found, curve_steps, rows_of
from condcs.report._page import Page, drawing

COLOURS = {
    "random": "#a0aec0",
    "dtg": "#2f855a",
    "dtg-kl": "#6b46c1",
    "dtg-mmd": "#dd6b20",
    "dtg-cs": "#2b6cb0",
    "dtg-local": "#00838f",
    "control": "#e53e3e",
}

_AXES = {
    "mountain-car": ("position", "velocity"),
    "pendulum": ("free end, across", "free end, up"),
    "maze": ("column", "row"),
}

_GOALS = {"mountain-car": "the flag", "pendulum": "the upright position", "maze": "the exit"}


def explore_page(options: ExploreOptions, found: Found, command: str) -> Page:
    """Return the page: results, learning curves, heat maps, and what was done."""
    name = options.environment.replace("-", " ")
    page = Page(
        f"Exploring the {name}",
        f"{options.n_runs} runs of {options.steps:,} steps per method, looking for {_GOALS[options.environment]}.",
    )
    page.section("Results")
    page.table(COLUMNS, rows_of(options, found), "Steps of the runs that reached the goal")
    page.section("Learning curves")
    page.figure(
        draw_curves(options, found, curve_steps(options)),
        "Share of runs at the goal and of places seen against steps",
        "Left: share of runs that have reached the goal. Right: share of places seen, mean and interquartile range "
        "over runs.",
    )
    page.section("Visited states")
    page.figure(
        draw_heat(options, found),
        "Heat maps of the visits of each method",
        "Visits on a logarithmic scale, summed over all runs; brighter is more."
        + (" Every seed has a maze of its own." if options.environment == "maze" else ""),
    )
    page.section("How it was made")
    page.facts({"environment": name, "runs": options.n_runs, "first seed": options.rng, "steps": options.steps})
    rows = [
        [
            METHODS[m],
            *(
                f"{v:g}" if isinstance(v, float) else str(v)
                for v in hyperparameters(options.environment, m).as_dict().values()
            ),
        ]
        for m in found
    ]
    columns = [n.replace("_", " ") for n in hyperparameters(options.environment, "control").as_dict()]
    page.table(["method", *columns], rows, "Hyper-parameters")
    page.command(command)
    return page


def draw_curves(options: ExploreOptions, found: Found, at: Any) -> Any:
    """Draw both learning curves."""
    figure, (goal, seen) = drawing(9, 3.8, 1, 2, sharex=True)
    for method, runs in found.items():
        colour, style = COLOURS[method], "--" if method == "control" else "-"
        steps = np.sort(runs.reached)
        share = np.arange(1, len(steps) + 1) / len(runs.first_goals)
        goal.step(
            [1, *steps, options.steps],
            [0, *share, share[-1] if len(share) else 0],
            style,
            where="post",
            color=colour,
            lw=2,
            label=METHODS[method],
        )
        curves = np.array(runs.curves)
        seen.plot(at, curves.mean(axis=0), style, color=colour, lw=2)
        if len(curves) > 1:
            seen.fill_between(at, *np.quantile(curves, [0.25, 0.75], axis=0), color=colour, alpha=0.15, lw=0)
    goal.set(xscale="log", xlim=(10, options.steps), ylim=(-0.02, 1.02), xlabel="steps", ylabel="runs at the goal")
    seen.set(ylim=(0, None), xlabel="steps", ylabel="places seen")
    for axis in (goal, seen):
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(*goal.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_heat(options: ExploreOptions, found: Found) -> Any:
    """Draw one heat map per method."""
    columns = min(4, len(found))
    rows = -(-len(found) // columns)
    figure, axes = drawing(2.3 * columns + 0.6, 2.4 * rows + 0.5, rows, columns, framed=True, squeeze=False)
    top = max(float(np.log1p(runs.heat).max()) for runs in found.values())
    across, up = _AXES[options.environment]
    for axis, (method, runs) in zip(axes.flat, found.items(), strict=False):
        axis.imshow(
            np.log1p(runs.heat).T,
            origin="upper" if options.environment == "maze" else "lower",
            cmap="magma",
            vmin=0,
            vmax=top,
            aspect="equal",
        )
        axis.set(xticks=[], yticks=[], xlabel=across)
        axis.set_title("control (D = 0)" if method == "control" else METHODS[method], fontsize=10)
    axes[0, 0].set_ylabel(up)
    for axis in axes.flat[len(found) :]:
        axis.set_axis_off()
    return figure
