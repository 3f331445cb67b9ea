r"""Figure 1: how x weights the similarities between responses.

In the cross term of the conditional CS divergence, the similarity :math:`L_{ij}` of :math:`y_i^p` and :math:`y_j^q` has
the weight

.. math:: c_{ij} = \frac{K_{ij}}{\sum_k K^p_{ik} \, \sum_k K^{pq}_{ik}},

while without x all similarities weigh the same. For one i, the weights are the kernel values on x up to a common
factor, which is the claim of the figure and is measured here: by differences of the cross term itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs_reproduction.report import Cell, Grid, Report, judged
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

CASE = "weights"
CLAIMS = ("weights follow K_ij", "other x change nothing but the common factor")
# Weights are as small as 1e-9: a large step keeps their digits.
_RAISE = 1e6
BLUE, ORANGE, INK = "#2b6cb0", "#d9621c", "#2d3440"


def tasks(parameters: Parameters, repeats: int) -> Sequence[Task]:
    """One trial per repeat: another draw of the two samples."""
    return [Task(CASE, repeat, (repeat,)) for repeat in range(repeats)]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Draw two samples, choose a row of the first, and measure the weights of its similarities to the second."""
    n, width = parameters["rows"], parameters["width"]
    xp, xq = rng.uniform(0, 3, size=(2, n))
    yp = np.sin(xp) + parameters["noise"] * rng.normal(size=n)
    yq = np.sin(xq) + 0.4 + parameters["noise"] * rng.normal(size=n)
    row = int(np.argsort(xp)[n // 2])
    weights = _measured_weights(xp, yp, xq, yq, row, width)
    K = _gaussian(xp[row] - xq, width)
    moved = xq.copy()
    others = np.arange(n) != int(np.argmax(K))
    moved[others] = rng.uniform(0, 3, size=n - 1)
    again = _measured_weights(xp, yp, moved, yq, row, width)
    # The common factor is taken out with the one similarity whose x has stayed.
    factor = weights[~others] / again[~others]
    expected = _gaussian(xp[row] - moved, width) / _gaussian(xp[row] - xq, width)
    return {
        "x": [xp.tolist(), xq.tolist()],
        "y": [yp.tolist(), yq.tolist()],
        "row": row,
        "weights": weights.tolist(),
        "deviations": [
            float(np.abs(weights / weights.sum() / (K / K.sum()) - 1).max()),
            float(np.abs(again * factor / (weights * expected) - 1).max()),
        ],
    }


def summarise(experiment: Experiment, results: Results) -> Report:
    """Largest relative deviation from each claim over all draws."""
    found = np.array([result["deviations"] for result in results.get(CASE, {}).values()])
    cells = {}
    for place, claim in enumerate(CLAIMS):
        worst = float(found[:, place].max())
        verdict = judged(worst, experiment.paper[claim], spread=0.0, tolerance=experiment.tolerance)
        cells[claim] = {"largest relative deviation": Cell(f"{worst:.0e}", f"{experiment.paper[claim]:g}", verdict)}
    grid = Grid("Weights of the similarities in the cross term", "claim", ["largest relative deviation"], cells)
    notes = [
        f"Weights are differences of the cross term of Prop. 2 when one similarity L_ij is raised; deviations up to "
        f"{experiment.tolerance:g} are rounding.",
        "The figure shows the first draw: the chosen row of the first sample and its similarities to the second, as "
        "wide as they weigh.",
    ]
    return Report(experiment.title, [grid], notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the similarities without x, all alike, and with x, as wide as they weigh."""
    shown = results[CASE][min(results[CASE])]
    (xp, xq), (yp, yq) = (np.asarray(shown[name]) for name in ("x", "y"))
    row, weights = shown["row"], np.asarray(shown["weights"])
    figure.set_size_inches(8.6, 3.8)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, shares, title in (
        (left, np.full(len(weights), 1 / len(weights)), "without x: every similarity weighs the same"),
        (right, weights / weights.sum(), "with x: the nearer in x, the more it weighs"),
    ):
        for x, y, share in zip(xq, yq, shares, strict=True):
            strength = float(np.sqrt(share / shares.max())) if axes is right else 0.55
            axes.plot(
                [xp[row], x], [yp[row], y], color=INK, lw=0.3 + 3.2 * strength, alpha=0.15 + 0.65 * strength, zorder=1
            )
        axes.scatter(xp, yp, s=26, color=BLUE, alpha=0.45, lw=0, label="first sample, p", zorder=2)
        axes.scatter(xq, yq, s=26, color=ORANGE, lw=0, label="second sample, q", zorder=3)
        axes.scatter(xp[row], yp[row], s=95, color=BLUE, edgecolors="white", linewidths=1.2, zorder=4)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel("x")
        axes.spines[["top", "right"]].set_visible(False)
    grid = np.linspace(0, 3, 200)
    bump = _gaussian(xp[row] - grid, experiment.parameters["width"])
    low, high = right.get_ylim()
    right.fill_between(grid, low, low + 0.22 * (high - low) * bump, color=BLUE, alpha=0.15, lw=0, label="kernel on x")
    right.set_ylim(low, high)
    left.set_ylabel("y")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _measured_weights(
    xp: FloatArray, yp: FloatArray, xq: FloatArray, yq: FloatArray, row: int, width: float
) -> FloatArray:
    """Raise one similarity at a time and see what the cross term gains: it is linear in each, so by much."""
    K, Kpq = _gaussian(xp[:, None] - xp, width), _gaussian(xp[:, None] - xq, width)
    L = _gaussian(yp[:, None] - yq, width)
    before = _cross_term(K, Kpq, L)
    gains = []
    for j in range(len(xq)):
        raised = L.copy()
        raised[row, j] += _RAISE
        gains.append((_cross_term(K, Kpq, raised) - before) / _RAISE)
    return np.array(gains)


def _cross_term(K: FloatArray, Kpq: FloatArray, L: FloatArray) -> float:
    """Sum over j of B_jq / (A_jp A_jq), as in Prop. 2."""
    return float(np.sum((Kpq * L).sum(axis=1) / (K.sum(axis=1) * Kpq.sum(axis=1))))


def _gaussian(difference: Any, width: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * (difference / width) ** 2))


EXPERIMENT = Experiment(
    name="fig1",
    title="How x weights the similarities between responses",
    reproduces="Figure 1: the weight of the similarity L_ij depends on K_ij alone, up to a common factor.",
    parameters={"rows": 14, "width": 0.35, "noise": 0.15},
    quick={},
    repeats=20,
    quick_repeats=2,
    seed=101,
    paper=dict.fromkeys(CLAIMS, 0.0),
    tolerance=1e-9,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
