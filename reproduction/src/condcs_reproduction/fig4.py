"""Figure 4: the circle of tasks as each measure sees it, from the trials of Table 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from condcs_reproduction import table3
from condcs_reproduction.report import MISSING, Cell, Grid, Report, judged
from condcs_reproduction.spec import Experiment, Results
from condcs_reproduction.task_graphs import neighbour_graph, planar_layout, true_graph


def shown_repeat(results: Results, inputs: str) -> int | None:
    """Return the repeat whose error, averaged over the measures, is the median one: typical, not the best."""
    cases = [case for case in results if case.endswith(f"; {inputs}")]
    repeats = sorted(set.intersection(*(set(results[case]) for case in cases))) if cases else []
    if not repeats:
        return None
    errors = [float(np.mean([results[case][r]["error"] for case in cases])) for r in repeats]
    return repeats[int(np.argsort(errors, kind="stable")[(len(repeats) - 1) // 2])]


def summarise(experiment: Experiment, results: Results) -> Report:
    """Errors of the runs that are drawn."""
    rows: dict[str, dict[str, Cell]] = {}
    for variant, settings in experiment.parameters["variants"].items():
        rows[variant] = {}
        for i, inputs in enumerate(table3.INPUTS):
            case, repeat = table3.case_of(variant, inputs), shown_repeat(results, inputs)
            if repeat is None or case not in results:
                rows[variant][inputs] = MISSING
                continue
            errors = [r["error"] for r in results[case].values()]
            paper = experiment.paper[settings["measure"]]["error"][i]
            ours = results[case][repeat]["error"]
            verdict = judged(ours, paper, spread=float(np.std(errors)) * float(np.sqrt(2)), tolerance=0.0)
            rows[variant][inputs] = Cell(ours, paper, verdict, digits=3)
    notes = [
        f"Seed shown: {', '.join(f'{i} inputs {shown_repeat(results, i)}' for i in table3.INPUTS)} (the one whose "
        "error, "
        "averaged over the measures, is the median). Two single runs agree if they differ by less than 2.58 standard "
        "deviations of a difference of runs.",
        "Layout: classical multidimensional scaling with D as squared distance; lines join tasks with their 3 nearest.",
    ]
    grid = Grid("Error p(A_G ≠ A_S) of the graphs drawn", "measure", list(table3.INPUTS), rows)
    return Report(experiment.title, [grid], notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the truth and each measure's layout, Gaussian inputs above uniform ones."""
    variants = list(experiment.parameters["variants"])
    figure.set_size_inches(2.25 * (len(variants) + 1), 5.3)
    axes = figure.subplots(2, len(variants) + 1)
    for i, inputs in enumerate(table3.INPUTS):
        truth, places = _truth(experiment.parameters)
        _draw_graph(axes[i, 0], places, truth, truth)
        axes[i, 0].set_ylabel(f"{inputs} inputs", fontsize=11)
        repeat = shown_repeat(results, inputs)
        for j, variant in enumerate(variants, start=1):
            axis = axes[i, j]
            if repeat is None or table3.case_of(variant, inputs) not in results:
                axis.set_axis_off()
                continue
            found = results[table3.case_of(variant, inputs)][repeat]
            D = np.asarray(found["divergences"])
            _draw_graph(axis, planar_layout(D), neighbour_graph(D, experiment.parameters["neighbours"]), truth)
            axis.set_xlabel(f"error {found['error']:.3f}", fontsize=9)
    axes[0, 0].set_title("truth", fontsize=9)
    for j, variant in enumerate(variants, start=1):
        axes[0, j].set_title(variant.replace(", ", "\n", 1), fontsize=9)
    for colour, label in (("#2b6cb0", "true link"), ("#e8833a", "spurious link")):
        axes[0, 0].plot([], [], "-", color=colour, label=label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)


def _truth(parameters: Mapping[str, Any]) -> tuple[Any, Any]:
    angles = np.linspace(0, 2 * np.pi, parameters["n_tasks"])
    weights = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # The first and the last task coincide; a small step outwards lets both be seen.
    places = weights * np.where(np.arange(len(weights)) == len(weights) - 1, 1.22, 1.0)[:, None]
    return true_graph(weights, parameters["neighbours"]), places


def _draw_graph(axis: Any, places: Any, graph: Any, truth: Any) -> None:
    for a, b in zip(*np.nonzero(np.triu(graph)), strict=True):
        colour, order = ("#2b6cb0", 2) if truth[a, b] else ("#e8833a", 1)
        axis.plot(*places[[a, b]].T, "-", color=colour, lw=1.0, alpha=0.75, zorder=order)
    axis.scatter(*places.T, s=95, c="white", edgecolors="#1a365d", linewidths=0.9, zorder=3)
    for task, place in enumerate(places, start=1):
        axis.text(*place, str(task), ha="center", va="center_baseline", fontsize=6.5, zorder=4)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.12)
    axis.spines[:].set_color("#cbd5e0")


EXPERIMENT = replace(
    table3.EXPERIMENT,
    name="fig4",
    title="Simulation II: the structure of the tasks, drawn",
    reproduces="Figure 4: layouts of the tasks by each measure (uses the trials of table3).",
    summarise=summarise,
    draw=draw,
    source="table3",
)
