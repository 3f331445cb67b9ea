"""Figure 5: a time series written as a Hankel matrix, a sample of (window, next value)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs.timeseries._collection import embed
from condcs_reproduction.report import Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """One trial: nothing is random."""
    return [Task("hankel", 0, (0,))]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Embed a damped oscillation."""
    t = np.arange(parameters["length"])
    series = np.round(np.exp(-t / 25) * np.sin(t / 1.7), 6)
    x, y = embed(series, parameters["order"])
    return {"series": series.tolist(), "x": x.tolist(), "y": y[:, 0].tolist()}


def summarise(experiment: Experiment, results: Results) -> Report:
    """Compare the size of the matrix with the paper's (K+1) x (L-K)."""
    K, L = experiment.parameters["order"], experiment.parameters["length"]
    found = results["hankel"][0]
    H = np.column_stack([found["x"], found["y"]]).T
    expected = f"{K + 1} x {L - K}"
    size = f"{H.shape[0]} x {H.shape[1]}"
    constant = all(len({float(v) for v in np.fliplr(H).diagonal(o)}) == 1 for o in range(1 - K, H.shape[1] - 1))
    rows = {
        "size": {"ours": Cell(size, expected, "agrees" if size == expected else "differs")},
        "constant along antidiagonals": {
            "ours": Cell("yes", "yes", "agrees") if constant else Cell("no", "yes", "differs")
        },
    }
    notes = [f"A series of length L = {L} with windows of K = {K}; columns are observations, the last row responds."]
    return Report(experiment.title, [Grid("The Hankel matrix", "what", ["ours"], rows)], notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the series with one window marked, and the matrix with the same window as a column."""
    K = experiment.parameters["order"]
    found = results["hankel"][0]
    series = np.array(found["series"])
    H = np.column_stack([found["x"], found["y"]]).T
    shown = 6
    figure.set_size_inches(8.6, 5.6)
    above, below = figure.subplots(2, 1, height_ratios=[1, 1.15])
    above.plot(series, "-", color="#a0aec0", lw=1.2)
    above.plot(series, "o", color="#4a5568", ms=3.5)
    window = np.arange(shown, shown + K)
    above.plot(window, series[window], "o", color="#2b6cb0", ms=7)
    above.plot(shown + K, series[shown + K], "s", color="#dd6b20", ms=7.5)
    above.axvspan(shown - 0.5, shown + K - 0.5, color="#ebf4ff", zorder=0, lw=0)
    above.axvspan(shown + K - 0.5, shown + K + 0.5, color="#fdebdc", zorder=0, lw=0)
    above.set_xlabel("time")
    above.set_ylabel("$x_t$")
    above.margins(x=0.01)
    above.spines[["top", "right"]].set_visible(False)
    limit = np.abs(H).max()
    below.imshow(H, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit)
    below.axhline(K - 0.5, color="white", lw=3)
    from matplotlib.patches import Rectangle

    below.add_patch(Rectangle((shown - 0.5, -0.5), 1, K - 0.06, fill=False, ec="#1a202c", lw=2.5, zorder=3))
    below.add_patch(Rectangle((shown - 0.5, K - 0.44), 1, 0.94, fill=False, ec="#dd6b20", lw=2.5, zorder=3))
    labels = [f"$x_{{i+{k}}}$" if k else "$x_i$" for k in range(K)] + ["$x_{i+K}$"]
    below.set_yticks(range(K + 1), labels)
    below.set_xlabel("observation i")
    for spine in below.spines.values():
        spine.set_visible(False)
    below.text(
        1.01, (K / 2) / (K + 1) + 1 / (K + 1), "window:\nx, what is given", transform=below.transAxes, va="center"
    )
    below.text(1.01, 0.5 / (K + 1), "response y", transform=below.transAxes, va="center", color="#c05621")


EXPERIMENT = Experiment(
    name="fig5",
    title="A time series as a Hankel matrix",
    reproduces="Figure 5: reformulating a series into windows and the values that follow them.",
    parameters={"length": 40, "order": 4},
    quick={},
    repeats=1,
    quick_repeats=1,
    seed=0,
    paper={},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
