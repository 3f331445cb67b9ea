"""Figure 6: exemplar series: control charts of three classes, and snapshots of moving scenes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs_reproduction.data import load, make_dynamic_textures
from condcs_reproduction.report import Cell, Grid, Report
from condcs_reproduction.series_clustering import is_present
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

CHARTS = {"Normal": 0, "Cyclic": 1, "Increasing trend": 2}
"""Classes of control charts that are shown, by their number in the data."""

SCENES = ("fire", "fountain", "water")
"""Classes of UCLA that the paper shows."""

COLOURS = ("#2b6cb0", "#dd6b20", "#2f855a")


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """One trial per panel."""
    panels = [*(["charts"] if is_present("synthetic_control") else []), "scenes"]
    return [Task(panel, 0, (i,), {"panel": panel}) for i, panel in enumerate(panels)]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Return the first series of each class, or the first frames of a clip of each class."""
    if arguments["panel"] == "charts":
        data = load("synthetic_control", download=False)
        shown = {name: data.X[data.y == label][: parameters["series"], 0] for name, label in CHARTS.items()}
        return {"rows": {name: np.round(series, 3).tolist() for name, series in shown.items()}, "simulated": False}
    return _scenes(parameters)


def _scenes(parameters: Parameters) -> Result:
    count = parameters["frames"]
    if is_present("ucla"):
        data = load("ucla", layout="ntc", download=False)
        labels = [
            next((i for i, c in enumerate(data.classes) if c.lower().startswith(s)), j) for j, s in enumerate(SCENES)
        ]
        names, X, y = [data.classes[i] for i in labels], data.X, data.y
    else:
        t = parameters["textures"]
        made = make_dynamic_textures(layout="ntc", **t)
        labels = list(range(t["n_classes"]))
        names, X, y = [f"system {i + 1}" for i in labels], made.X, made.y
    side = round(X.shape[2] ** 0.5)
    clips = [X[np.flatnonzero(y == i)[0], :count] for i in labels]
    rows = {
        name: np.round((clip - clip.min()) / (np.ptp(clip) or 1.0), 2).reshape(count, side, -1).tolist()
        for name, clip in zip(names, clips, strict=True)
    }
    return {"rows": rows, "simulated": not is_present("ucla")}


def summarise(experiment: Experiment, results: Results) -> Report:
    """Say what is shown."""
    cells: dict[str, dict[str, Cell]] = {}
    for panel, unit in (("charts", "series"), ("scenes", "frames")):
        found = results.get(panel, {}).get(0)
        if found is None:
            cells[panel] = {"classes": Cell("no files"), "shown of each": Cell("no files"), "data": Cell("no files")}
            continue
        number, shown = str(len(found["rows"])), len(next(iter(found["rows"].values())))
        paper = str(experiment.paper[panel]["classes"])
        cells[panel] = {
            "classes": Cell(number, paper, "agrees" if number == paper else "differs"),
            "shown of each": Cell(f"{shown} {unit}"),
            "data": Cell("simulated" if found["simulated"] else "real"),
        }
    notes = [
        "Charts: the first series of the classes Normal, Cyclic and Increasing trend of Synthetic control.",
        "Scenes: the paper shows fire, fountain and water of UCLA, which is given out by its authors only; without its "
        "files, clips simulated from three linear dynamical systems are shown.",
    ]
    grid = Grid("What is shown", "panel", ["classes", "shown of each", "data"], cells)
    return Report(experiment.title, [grid], notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw charts on the left and frames on the right, a row per class."""
    figure.set_size_inches(11, 4.6)
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.15], wspace=0.03)
    charts = results.get("charts", {}).get(0)
    if charts is not None:
        axes = left.subplots(len(charts["rows"]), 1, sharex=True)
        for axis, (name, series), colour in zip(axes, charts["rows"].items(), COLOURS, strict=True):
            for values in series:
                axis.plot(values, color=colour, lw=0.9, alpha=0.55)
            axis.set_ylabel(name, fontsize=9)
            axis.tick_params(labelsize=7)
            axis.spines[["top", "right"]].set_visible(False)
        axes[-1].set_xlabel("time", fontsize=9)
        left.suptitle(f"Synthetic control: {len(series)} series of each class", fontsize=10)
    scenes = results.get("scenes", {}).get(0)
    if scenes is not None:
        count = len(next(iter(scenes["rows"].values())))
        axes = right.subplots(len(scenes["rows"]), count)
        for line, (name, frames) in zip(axes, scenes["rows"].items(), strict=True):
            for axis, frame in zip(line, frames, strict=True):
                axis.imshow(np.array(frame), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axis.set_xticks([])
                axis.set_yticks([])
            line[0].set_ylabel(name, fontsize=9)
        kind = "Textures simulated by linear dynamical systems" if scenes["simulated"] else "UCLA"
        right.suptitle(f"{kind}: {count} frames in a row", fontsize=10)


EXPERIMENT = Experiment(
    name="fig6",
    title="Exemplar time series",
    reproduces="Figure 6: series of Synthetic control and frames of dynamic textures, a row per class.",
    parameters={
        "series": 10,
        "frames": 6,
        "textures": {"n_clips": 3, "n_classes": 3, "n_frames": 20, "height": 48, "width": 48, "n_states": 6, "rng": 0},
    },
    quick={
        "textures": {"n_clips": 3, "n_classes": 3, "n_frames": 8, "height": 16, "width": 16, "n_states": 4, "rng": 0}
    },
    repeats=1,
    quick_repeats=1,
    seed=0,
    paper={"charts": {"classes": 3}, "scenes": {"classes": 3}},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
