"""Table 3, Simulation II: how well a divergence finds that fifteen regression tasks lie on a circle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._measures.registry import pairwise
from condcs_reproduction.data import make_circular_tasks
from condcs_reproduction.report import MISSING, Cell, Grid, Report, judged
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task
from condcs_reproduction.task_graphs import geodesic_distance, neighbour_graph, true_graph

INPUTS = ("gaussian", "uniform")

VARIANTS: dict[str, dict[str, Any]] = {
    "CS, pooled median": {"measure": "conditional_cs"},
    "CS, z-scores": {
        "measure": "conditional_cs",
        "z_scores": True,
        "options": {"bandwidth_x": 5.0, "bandwidth_y": 5.0},
    },
    "KL, k = 3": {"measure": "conditional_kl", "options": {"k": 3}},
    "von Neumann, covariance": {"measure": "conditional_bregman"},
    "MMD, pooled median, lambda 0.1": {
        "measure": "conditional_mmd",
        "options": {"regularization": 0.1},
    },
    "MMD, z-scores, lambda 10": {
        "measure": "conditional_mmd",
        "z_scores": True,
        "options": {"bandwidth_x": 5.0, "bandwidth_y": 5.0, "regularization": 10.0},
    },
}

QUANTITIES = {"error": "p(A_G ≠ A_S)", "geodesic": "d(L_G, L_S)"}

PAPER = {
    "conditional_cs": {"error": (0.196, 0.187), "geodesic": (1.785, 2.607)},
    "conditional_kl": {"error": (0.204, 0.293), "geodesic": (2.246, 2.696)},
    "conditional_bregman": {"error": (0.062, 0.293), "geodesic": (1.494, 2.658)},
    "conditional_mmd": {"error": (0.231, 0.418), "geodesic": (2.872, 3.273)},
}
"""The paper's single runs: Gaussian, then uniform inputs."""


def case_of(variant: str, inputs: str) -> str:
    """Return the name of a case."""
    return f"{variant}; {inputs}"


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """All variants on both inputs; the variants of a repeat see the same data."""
    return [
        Task(case_of(variant, inputs), repeat, (i, repeat), {"variant": variant, "inputs": inputs})
        for repeat in range(repeats)
        for i, inputs in enumerate(INPUTS)
        for variant in parameters["variants"]
    ]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Simulate the tasks, measure all pairs and compare their graph of neighbours with the circle's."""
    data = make_circular_tasks(
        parameters["n"],
        n_tasks=parameters["n_tasks"],
        n_features=parameters["n_features"],
        inputs=arguments["inputs"],
        rng=rng,
    )
    variant = parameters["variants"][arguments["variant"]]
    samples = list(data.samples)
    if variant.get("z_scores"):
        samples = [(_standardised(x), _standardised(y)) for x, y in samples]
    D = np.asarray(pairwise(samples, measure=variant["measure"], **variant.get("options", {})))
    D = (D + D.T) / 2
    truth = true_graph(data.weights, parameters["neighbours"])
    found = neighbour_graph(D, parameters["neighbours"])
    return {
        "error": float(np.mean(truth != found)),
        "geodesic": geodesic_distance(truth, found),
        "radius": float(np.hypot(*data.weights[0, :2])),
        # Rounded for the file's sake: it only serves the pictures.
        "divergences": [[float(f"{v:.6g}") for v in row] for row in D],
    }


def _standardised(values: FloatArray) -> FloatArray:
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0))


def _cell(experiment: Experiment, results: Results, variant: str, inputs: str, quantity: str) -> Cell:
    values = np.array([r[quantity] for r in results.get(case_of(variant, inputs), {}).values()])
    if not len(values):
        return MISSING
    paper = experiment.paper[experiment.parameters["variants"][variant]["measure"]][quantity][INPUTS.index(inputs)]
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    # The paper's number is one run, so it scatters as one of ours does.
    verdict = judged(
        float(values.mean()),
        paper,
        spread=deviation * float(np.sqrt(1 + 1 / len(values))),
        tolerance=experiment.tolerance,
    )
    error = deviation / float(np.sqrt(len(values)))
    return Cell(float(values.mean()), paper, verdict, error=error, digits=3)


def _best(experiment: Experiment, results: Results, variant: str, inputs: str, quantity: str) -> Cell:
    values = [r[quantity] for r in results.get(case_of(variant, inputs), {}).values()]
    return Cell(min(values), digits=3) if values else MISSING


def summarise(experiment: Experiment, results: Results) -> Report:
    """Means with standard errors over the seeds, and the best single run."""
    variants = experiment.parameters["variants"]
    grids = [
        Grid(
            f"{label}, mean over seeds",
            "measure",
            INPUTS,
            {v: {i: _cell(experiment, results, v, i, quantity) for i in INPUTS} for v in variants},
        )
        for quantity, label in QUANTITIES.items()
    ]
    columns = {f"{label}, {inputs}": (q, inputs) for q, label in QUANTITIES.items() for inputs in INPUTS}
    best = {v: {c: _best(experiment, results, v, i, q) for c, (q, i) in columns.items()} for v in variants}
    grids.append(Grid("Best single seed", "measure", list(columns), best))
    p = experiment.parameters
    counts = sorted({len(r) for r in results.values()})
    notes = [
        f"{p['n_tasks']} tasks of {p['n']} samples, {p['n_features']} inputs; mean ± standard error over "
        f"{'-'.join(str(c) for c in counts)} seeds. Smaller is better.",
        "z-scores: every task is standardised by itself; sigma = 5 for x and y.",
        "The paper's figures are single runs: ours agree if the paper's lies within 2.58 standard deviations of a run.",
        "D is symmetrised. Graphs join each task with its 3 nearest and are made symmetric by union; the truth does so "
        "with the distances of the true weights, of equally near tasks the one with the lower number.",
        "The geodesic distance uses the Fiedler vector of the truth; where its eigenvalue is double, the indicator of "
        "the first task projected on the eigenspace.",
    ]
    return Report(experiment.title, grids, notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Errors of every seed, their mean, and the paper's single run."""
    figure.set_size_inches(10.5, 6.4)
    axes = figure.subplots(2, 2, sharey=True, sharex="row")
    variants = list(experiment.parameters["variants"])
    for i, (quantity, label) in enumerate(QUANTITIES.items()):
        for j, inputs in enumerate(INPUTS):
            axis = axes[i, j]
            for y, variant in enumerate(variants):
                values = np.array([r[quantity] for r in results.get(case_of(variant, inputs), {}).values()])
                measure = experiment.parameters["variants"][variant]["measure"]
                axis.plot(values, np.full(len(values), y), "o", ms=5, mew=0, alpha=0.3, color="#2b6cb0")
                if len(values):
                    axis.plot(values.mean(), y, "|", ms=16, mew=2.5, color="#1a365d")
                axis.plot(experiment.paper[measure][quantity][j], y, "D", ms=6, mew=1.4, mfc="none", mec="#dd6b20")
            axis.set_yticks(range(len(variants)), variants, fontsize=9)
            axis.set_xlabel(f"{label}, {inputs} inputs")
            axis.grid(axis="x", alpha=0.25)
            axis.spines[["top", "right", "left"]].set_visible(False)
            axis.tick_params(axis="y", length=0)
    axes[0, 0].set_ylim(len(variants) - 0.5, -0.6)
    for marker, style in (
        ("one seed", {"marker": "o", "color": "#2b6cb0", "alpha": 0.4, "ms": 5, "mew": 0}),
        ("mean of the seeds", {"marker": "|", "color": "#1a365d", "ms": 14, "mew": 2.5}),
        ("the paper's run", {"marker": "D", "mfc": "none", "mec": "#dd6b20", "ms": 6, "mew": 1.4}),
    ):
        axes[0, 0].plot([], [], ls="", label=marker, **style)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)


EXPERIMENT = Experiment(
    name="table3",
    title="Simulation II: the circle of fifteen tasks",
    reproduces="Table 3: error of the graph of neighbouring tasks, Gaussian and uniform inputs.",
    parameters={"n": 200, "n_tasks": 15, "n_features": 20, "neighbours": 3, "variants": VARIANTS},
    quick={"n": 30, "n_features": 5},
    repeats=20,
    quick_repeats=3,
    seed=20_250_202,
    paper=PAPER,
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
