"""Figure 10: the framework of the domain adaptation, and what it does to the features of two real subjects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from condcs_reproduction.eeg_domains import log_euclidean
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

CASES: dict[str, Literal["none", "cs"]] = {"no adaptation": "none", "CS": "cs"}
SOURCE, TARGET = "#2b6cb0", "#dd6b20"


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """Both networks of a repeat start from the same weights."""
    return [Task(case, r, (r,), {"case": case}) for r in range(repeats) for case in CASES]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Train on one subject with another as target; return the divergences of their features, and a plane of them."""
    import torch
    from torch import nn

    from condcs.nn.functional import conditional_cs_alignment_loss
    from condcs_reproduction.adaptation import BottleneckNetwork, DomainAdapter, Stopping
    from condcs_reproduction.data import load

    data = load("eeg")
    (xs, ys), (xt, yt) = ((log_euclidean(data.X[s - 1]), data.y[s - 1]) for s in parameters["subjects"])
    adapter = DomainAdapter(
        lambda: BottleneckNetwork(nn.Identity(), xs.shape[1], 2),
        method=CASES[arguments["case"]],
        weight=parameters["alpha"],
        warmup=parameters["warmup"],
        epochs=parameters["epochs"],
        learning_rate=parameters["learning_rate"],
        stopping=Stopping(monitor="last"),
        random_state=int(rng.integers(2**31)),
    ).fit(xs, ys, xt)
    zs, zt = (torch.as_tensor(adapter.transform(x)) for x in (xs, xt))
    probabilities = torch.as_tensor(adapter.predict_proba(xt))
    parts = {}
    for name, weights in (("p(z)", (1.0, 0.0)), ("p(y|z)", (0.0, 1.0))):
        labels = torch.as_tensor(ys)
        found = conditional_cs_alignment_loss(
            zs, labels, zt, probabilities, marginal=weights[0], conditional=weights[1]
        )
        parts[name] = float(found)
    unit = np.concatenate([z.numpy() / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-6) for z in (zs, zt)])
    centred = unit - unit.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    return {
        "divergences": parts,
        "accuracy": float(np.mean(adapter.predict(xt) == yt)),
        "plane": np.round(plane, 3).tolist(),
        "labels": [int(v) for v in np.concatenate([ys, yt])],
        "n_source": len(ys),
    }


def summarise(experiment: Experiment, results: Results) -> Report:
    """Show divergences of the features and accuracies, without and with alignment."""
    columns = {"D(p(z))": "p(z)", "D(p(y|z))": "p(y|z)"}
    rows: dict[str, dict[str, Cell]] = {}
    for case in CASES:
        trials = list(results.get(case, {}).values())
        rows[case] = {c: _mean([t["divergences"][k] for t in trials]) for c, k in columns.items()}
        rows[case]["accuracy on the target"] = _mean([t["accuracy"] for t in trials])
    before, after = ([sum(t["divergences"].values()) for t in results.get(case, {}).values()] for case in CASES)
    lower = "yes" if before and after and np.mean(after) < np.mean(before) else "no"
    rows["CS"]["smaller divergence"] = Cell(lower, "yes", "agrees" if lower == "yes" else "differs")
    rows["no adaptation"]["smaller divergence"] = Cell("–")
    p = experiment.parameters
    notes = [
        f"Subjects {p['subjects'][0]} (source) and {p['subjects'][1]} (target) of the covariances of table7; alpha "
        f"{p['alpha']:g}, {p['epochs']} epochs, Adam {p['learning_rate']:g}. Divergences of the last layer, rows of "
        "length 1, bandwidth 1, all rows; mean ± standard error over seeds. Target labels only colour the picture and "
        "give the accuracy.",
        "The upper picture is the paper's framework; its figure has no numbers.",
    ]
    return Report(
        experiment.title,
        [Grid("Features", "", [*columns, "accuracy on the target", "smaller divergence"], rows)],
        notes,
    )


def _mean(values: list[float]) -> Cell:
    if not values:
        return MISSING
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return Cell(float(np.mean(values)), error=error, digits=3)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the framework above, and the features of the first seed below, without and with alignment."""
    figure.set_size_inches(10.5, 7.6)
    upper, lower = figure.subfigures(2, 1, height_ratios=[1.0, 1.05])
    _draw_framework(upper.subplots())
    axes = lower.subplots(1, len(CASES))
    for axis, case in zip(axes, CASES, strict=True):
        trials = results.get(case, {})
        if not trials:
            axis.set_axis_off()
            continue
        _draw_features(axis, trials[min(trials)])
        axis.set_title(f"{case}: accuracy on the target {trials[min(trials)]['accuracy']:.2f}", fontsize=10)
    lower.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)


def _draw_features(axis: Any, trial: Mapping[str, Any]) -> None:
    plane, labels, n = np.asarray(trial["plane"]), np.asarray(trial["labels"]), trial["n_source"]
    source = np.arange(len(labels)) < n
    for mask, colour, name in ((source, SOURCE, "source"), (~source, TARGET, "target")):
        for label, marker, hand in ((0, "o", "left hand"), (1, "^", "right hand")):
            rows = mask & (labels == label)
            axis.plot(*plane[rows].T, marker, ms=5, mew=0, alpha=0.55, color=colour, label=f"{name}, {hand}")
    axis.set(xlabel="first principal axis of z", ylabel="second")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_framework(axis: Any) -> None:
    axis.set(xlim=(0, 105), ylim=(0, 46))
    axis.set_axis_off()

    def box(x: float, y: float, width: float, height: float, words: str, colour: str, edge: str) -> None:
        from matplotlib.patches import FancyBboxPatch

        style = "round,pad=0.2,rounding_size=1.2"
        axis.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=colour, ec=edge, lw=1.3))
        axis.text(x + width / 2, y + height / 2, words, ha="center", va="center", fontsize=9.5)

    def arrow(start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkB": 0})

    shared, edge = "#edf2f7", "#4a5568"
    box(24, 8, 15, 26, "feature\nextractor\n(EEGNet)\n\nshared", shared, edge)
    box(46, 8, 15, 26, "bottleneck\n$z^1$, $z^2$\n\nshared", shared, edge)
    box(68, 8, 13, 26, "linear\nclassifier\n\nshared", shared, edge)
    for y, colour, fill, inputs, output in (
        (29.0, SOURCE, "#ebf4fb", "source $x_s$\nwith labels $y_s$", r"$\hat{y}_s$"),
        (13.0, TARGET, "#fdf0e5", "target $x_t$\nno labels", r"$\hat{y}_t$"),
    ):
        box(0.5, y - 4, 16, 8, inputs, fill, colour)
        for start, end in ((17, 23.6), (39.4, 45.6), (61.4, 67.6), (81.4, 87)):
            arrow((start, y), (end, y), colour)
        axis.text(88, y, output, fontsize=13, color=colour, va="center")
    axis.text(92.5, 29, r"$L_{CE}(y_s, \hat{y}_s)$", fontsize=10.5, va="center")
    box(20, 39, 39, 6, r"$D_{CS}(p_t(z);\, p_s(z))$", "white", edge)
    box(63, 39, 39, 6, r"$D_{CS}(p_t(\hat{y}|z);\, p_s(y|z))$", "white", edge)
    arrow((53.5, 34.4), (45, 38.6), edge)
    arrow((57, 34.4), (70, 38.6), edge)
    bent = {"arrowstyle": "-|>", "color": edge, "lw": 1.6, "shrinkB": 0, "connectionstyle": "arc3,rad=-0.32"}
    axis.annotate("", (84, 38.6), (87.6, 15.2), arrowprops=bent)
    words = r"minimise  $L_{CE} + \alpha\,[\,D_{CS}(p_t(z); p_s(z)) + D_{CS}(p_t(\hat{y}|z); p_s(y|z))\,]$"
    axis.text(52.5, 2.5, words, ha="center", va="center", fontsize=11)


EXPERIMENT = Experiment(
    name="fig10",
    title="The framework of the domain adaptation",
    reproduces="Figure 10: shared network, aligned features; with the features of two real subjects below.",
    parameters={"subjects": [1, 3], "alpha": 10.0, "warmup": 10, "epochs": 60, "learning_rate": 1e-3},
    quick={"warmup": 2, "epochs": 12, "learning_rate": 1e-2},
    repeats=5,
    quick_repeats=1,
    seed=20_250_710,
    paper={"CS": "yes"},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
