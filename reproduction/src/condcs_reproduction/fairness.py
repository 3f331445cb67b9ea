"""Fairness: predictions of recidivism made independent of race given the outcome (Equalized Odds), by Prop. 4."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from condcs_reproduction.data import load
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results
from condcs_reproduction.tradeoffs import PLAIN, best_at, case_of, curve, draw_curves, mean_of, tasks, train

METHODS = ("conditional CS", "MMD per outcome", "mean difference")

COLOURS = {"conditional CS": "#dd6b20", "MMD per outcome": "#2b6cb0", "mean difference": "#38a169"}


def _conditional_cs(logits: Any, y: Any, group: Any) -> Any:
    import torch

    from condcs.nn.functional import conditional_independence_loss

    return conditional_independence_loss(
        torch.sigmoid(logits), y, group, bandwidth_y=0.1, kernel_x1="delta", kernel_x2="delta"
    )


def _mmd_per_outcome(logits: Any, y: Any, group: Any) -> Any:
    import torch

    from condcs.nn.functional import mmd_loss

    p = torch.sigmoid(logits)
    parts = [mmd_loss(p[(y == c) & (group == 0)], p[(y == c) & (group == 1)], bandwidth=0.1) for c in (0, 1)]
    return parts[0] + parts[1]


def _mean_difference(logits: Any, y: Any, group: Any) -> Any:
    import torch

    p = torch.sigmoid(logits)
    gaps = [p[(y == c) & (group == 0)].mean() - p[(y == c) & (group == 1)].mean() for c in (0, 1)]
    return gaps[0] ** 2 + gaps[1] ** 2


PENALTIES = {
    "conditional CS": _conditional_cs,
    "MMD per outcome": _mmd_per_outcome,
    "mean difference": _mean_difference,
}


@lru_cache(maxsize=1)
def _arrays() -> tuple[Any, Any, Any]:
    found = load("compas")
    race = np.asarray(found.race)
    # The two largest groups: the others are too small for rates given the outcome.
    groups = np.argsort(np.bincount(race))[::-1][:2]
    rows = np.isin(race, groups)
    return np.asarray(found.X, dtype=float)[rows], np.asarray(found.y)[rows].astype(int), (race[rows] == groups[1]) * 1


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Train with one penalty at one weight; return test accuracy and the gaps of Equalized Odds."""
    x, y, group = _arrays()
    order = rng.permutation(len(y))[: parameters["rows"] or len(y)]
    x, y, group = x[order], y[order], group[order]
    n = int(0.7 * len(y))
    x = (x - x[:n].mean(axis=0)) / np.maximum(x[:n].std(axis=0), 1e-6)
    penalty = PENALTIES.get(arguments["method"])
    seed = int(rng.integers(2**31))
    predict = train((x[:n], y[:n], group[:n]), penalty, arguments["weight"], parameters, seed)
    p = predict(x[n:])
    return {"accuracy": float(np.mean((p > 0.5) == y[n:])), **odds_gaps(p, y[n:], group[n:])}


def odds_gaps(p: Any, y: Any, group: Any) -> dict[str, float]:
    """Largest difference between groups given the outcome: in decisions (p > 0.5), and in mean probabilities."""

    def gap(values: Any) -> float:
        rates = [[float(values[(y == c) & (group == g)].mean()) for g in (0, 1)] for c in (0, 1)]
        return max(abs(a - b) for a, b in rates)

    return {"gap": gap((p > 0.5) * 1.0), "soft_gap": gap(p)}


def summarise(experiment: Experiment, results: Results) -> Report:
    """Accuracy that is left at given gaps, and the whole curve."""
    p = experiment.parameters
    limits = p["limits"]
    rows: dict[str, dict[str, Cell]] = {}
    for method in METHODS:
        points = curve(results, p, method, ("gap", "accuracy"))
        rows[method] = {f"gap ≤ {limit:g}": _number(best_at(points, limit)) for limit in limits}
        lowest = float(points[:, 0].min()) if len(points) else None
        rows[method]["smallest gap"] = _number(lowest)
        helps = "yes" if lowest is not None and len(points) > 1 and lowest < points[0, 0] else "no"
        claim = method == "conditional CS"
        rows[method]["lowers the gap"] = Cell(
            helps, "yes" if claim else None, ("agrees" if helps == "yes" else "differs") if claim else ""
        )
    shown: dict[str, dict[str, Cell]] = {}
    for method, weights in {PLAIN: [0.0], **p["weights"]}.items():
        for weight in weights:
            found = {q: mean_of(results, method, weight, q) for q in ("accuracy", "gap", "soft_gap")}
            shown[case_of(method, weight)] = {
                q.replace("_", " "): MISSING if v is None else Cell(v[0], error=v[1], digits=3)
                for q, v in found.items()
            }
    columns = [*(f"gap ≤ {limit:g}" for limit in limits), "smallest gap", "lowers the gap"]
    notes = [
        "ProPublica's COMPAS data, the two largest groups of race, two-year recidivism; 70% to train on. Gap: the "
        "larger of the differences between the groups in P(predicted 1 | outcome), for outcomes 0 and 1.",
        "Accuracy left at a gap: best point of the curve over weights of the penalty, straight lines between means "
        "over seeds; – means that the method never gets there.",
        "MMD per outcome is MinDiff (Prost et al. 2019); the mean difference is the squared gap of mean probabilities "
        "(Donini et al. 2018). The paper names fairness as a use of Prop. 4 and gives no numbers.",
    ]
    grids = [
        Grid("Accuracy left", "penalty", columns, rows),
        Grid("All weights", "penalty; weight", ["accuracy", "gap", "soft gap"], shown),
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def _number(value: float | None) -> Cell:
    return Cell("–") if value is None else Cell(value, digits=3)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw accuracy over the gap, for decisions and for probabilities."""
    figure.set_size_inches(9.5, 4.0)
    axes = figure.subplots(1, 2, sharey=True)
    for axis, quantity, label in zip(axes, ("gap", "soft_gap"), ("decisions", "mean probabilities"), strict=True):
        draw_curves(axis, results, experiment.parameters, (quantity, "accuracy"), COLOURS)
        axis.set_xlabel(f"Equalized-Odds gap of {label}")
        axis.set_xlim(left=0)
    axes[0].set_ylabel("test accuracy")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)


EXPERIMENT = Experiment(
    name="fairness",
    title="Equalized Odds on COMPAS: accuracy against fairness",
    reproduces="A use that the paper names for Prop. 4: predictions independent of race given the outcome.",
    parameters={
        "weights": {
            "conditional CS": [0.3, 1.0, 3.0, 10.0, 30.0, 100.0],
            "MMD per outcome": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0],
            "mean difference": [1.0, 3.0, 10.0, 30.0, 100.0, 300.0],
        },
        "hidden": [32],
        "epochs": 40,
        "batch": 512,
        "learning_rate": 3e-3,
        "weight_decay": 0.0,
        "limits": [0.15, 0.1, 0.05],
        "rows": None,
    },
    quick={
        "weights": {"conditional CS": [1.0], "MMD per outcome": [1.0], "mean difference": [10.0]},
        "epochs": 4,
        "batch": 256,
        "rows": 1000,
    },
    repeats=10,
    quick_repeats=2,
    seed=20_250_708,
    paper={"conditional CS": "yes"},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
