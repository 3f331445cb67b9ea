"""Table 8: how many series of what length, dimension and number of clusters the data sets hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.series_clustering import PAPER_ROWS, TITLES, is_present
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

COLUMNS = {"series": "time series", "length": "length", "dimension": "dimension", "clusters": "clusters"}

PAPER = dict(
    zip(
        PAPER_ROWS,
        (
            (28, 286, 1, 2),
            (306, 345, 1, 4),
            (400, 80, 1, 6),
            (469, 140, 1, 2),
            (560, 131, 1, 14),
            (600, 60, 1, 6),
            (3498, 8, 2, 10),
            (180, 45, 2, 15),
            (200, 315, 3, 8),
            (88, 15, 6, 4),
            (47, 15, 6, 5),
            (47, 15, 6, 4),
            (117, 15, 6, 3),
            (164, 15, 6, 5),
            (253, 42, 2304, 3),
            (92, 75, 2304, 8),
        ),
        strict=True,
    )
)


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """One trial for each data set that is at hand."""
    return [Task(name, 0, (i,), {"data": name}) for i, name in enumerate(parameters["sets"]) if is_present(name)]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Load a data set and count."""
    from condcs_reproduction.data import load

    data = load(arguments["data"], download=False)
    series, dimension, length = data.X.shape
    counts = np.bincount(data.y)
    return {
        "series": series,
        "length": length,
        "dimension": dimension,
        "clusters": int((counts > 0).sum()),
        "smallest": int(counts[counts > 0].min()),
        "largest": int(counts.max()),
        "range": [float(f"{v:.6g}") for v in (data.X.min(), data.X.max())],
        "repeated": series - len(np.unique(data.X.reshape(series, -1), axis=0)),
    }


def summarise(experiment: Experiment, results: Results) -> Report:
    """Ours beside the paper's, with what else one should know of the data."""
    rows: dict[str, dict[str, Cell]] = {}
    for name in experiment.parameters["sets"]:
        paper = [str(v) for v in experiment.paper[name]]
        found = results.get(name, {}).get(0)
        if found is None:
            absent = Cell("no files") if not is_present(name) else MISSING
            rows[TITLES[name]] = {c: Cell(absent.ours, p) for c, p in zip(COLUMNS.values(), paper, strict=True)}
            rows[TITLES[name]] |= {c: Cell("no files") for c in ("cluster sizes", "values", "repeated series")}
            continue
        row = {
            label: Cell(str(found[key]), p, "agrees" if str(found[key]) == p else "differs")
            for (key, label), p in zip(COLUMNS.items(), paper, strict=True)
        }
        row["cluster sizes"] = Cell(f"{found['smallest']} to {found['largest']}")
        row["values"] = Cell("{:.3g} to {:.3g}".format(*found["range"]))
        row["repeated series"] = Cell(str(found["repeated"]))
        rows[TITLES[name]] = row
    columns = [*COLUMNS.values(), "cluster sizes", "values", "repeated series"]
    notes = [
        "Traffic and UCLA are given out by their authors only (`condcs_reproduction.data.load` says where).",
        "uWave: 200 series of the same pool and size, but not known to be the paper's 200.",
        "ECG5000: the two largest of five classes, which gives the paper's 469 series.",
        "Robot failure LP2 and LP3 are the same series with other labels.",
    ]
    return Report(experiment.title, [Grid("Properties of the data sets", "data", columns, rows)], notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the first series of the first two classes of each set."""
    from condcs_reproduction.data import load

    names = [n for n in experiment.parameters["sets"] if n in results]
    columns = 4
    lines = max(1, -(-len(names) // columns))
    figure.set_size_inches(2.9 * columns, 1.75 * lines + 0.3)
    axes = np.atleast_1d(figure.subplots(lines, columns)).ravel()
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    for axis, name in zip(axes, names, strict=False):
        data = load(name, download=False)
        for label, colour in ((0, "#2b6cb0"), (1, "#dd6b20")):
            series = data.X[np.flatnonzero(data.y == label)[0]]
            for channel in series[:6]:
                axis.plot(channel, color=colour, lw=1.0, alpha=0.85)
        axis.set_title(TITLES[name], fontsize=9)
        axis.tick_params(labelsize=7, length=2)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("The first series of the first two classes, all channels", fontsize=10)


EXPERIMENT = Experiment(
    name="table8",
    title="Properties of the time series data sets",
    reproduces="Table 8: number, length, dimension and clusters of the series.",
    parameters={"sets": list(PAPER_ROWS)},
    quick={"sets": ["coffee", "robot_lp1"]},
    repeats=1,
    quick_repeats=1,
    seed=0,
    paper=PAPER,
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
