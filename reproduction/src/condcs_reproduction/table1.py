"""Table 1: properties of the measures, measured: growth of the cost, gradients, and what kind of change each sees."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._measures.registry import measure_named
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

MEASURES = {
    "conditional_kl": "conditional KL",
    "conditional_mmd": "conditional MMD",
    "conditional_bregman": "conditional Bregman",
    "conditional_cs": "conditional CS",
}

CHANGES = ("mean", "variance", "shape")

INPUTS = ("uniform", "gaussian")
"""Distributions of x under the changes. The conditional CS divergence integrates over all x, and is finite in the limit
only for bounded x: faithfulness is judged there."""

DETECTORS = {
    "conditional KL": ("conditional_kl", None),
    "conditional MMD, median bandwidths": ("conditional_mmd", "median"),
    "conditional MMD, Silverman bandwidths": ("conditional_mmd", "silverman"),
    "conditional Bregman": ("conditional_bregman", None),
    "conditional CS, median bandwidths": ("conditional_cs", "median"),
    "conditional CS, Silverman bandwidths": ("conditional_cs", "silverman"),
}
"""Measures and bandwidth rules whose power to see a change is measured."""

PAPER: dict[str, dict[str, Any]] = {
    "conditional_kl": {"cost": "kN log N", "n": 1, "d": None, "gradient": "no", "faithful": "yes"},
    "conditional_mmd": {"cost": "N²d + N³", "n": 3, "d": 1, "gradient": "yes", "faithful": "?"},
    "conditional_bregman": {"cost": "Nd² + d³", "n": 1, "d": 3, "gradient": "yes", "faithful": "no"},
    "conditional_cs": {"cost": "N²d", "n": 2, "d": 1, "gradient": "yes", "faithful": "yes"},
}


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """List timings at every size, gradient checks, and divergences of pairs with and without each change."""
    found = []
    for repeat in range(repeats):
        for measure in MEASURES:
            if repeat < parameters["timing_repeats"]:
                for axis in ("n", "d"):
                    for i, size in enumerate(parameters[f"sizes_{axis}"]):
                        arguments = {"kind": "time", "measure": measure, "axis": axis, "size": size}
                        found.append(Task(f"{measure} time {axis}={size}", repeat, (0, i, repeat), arguments))
            if repeat < parameters["gradient_repeats"]:
                found.append(Task(f"{measure} gradient", repeat, (1, repeat), {"kind": "gradient", "measure": measure}))
        for label, (measure, rule) in DETECTORS.items():
            for i, inputs in enumerate(INPUTS):
                arguments = {"kind": "changes", "measure": measure, "rule": rule, "inputs": inputs}
                found.append(Task(f"{label}; {inputs}", repeat, (2 + i, repeat), arguments))
    return found


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Time a measure, check its gradient, or evaluate it on changed and unchanged pairs."""
    kinds = {"time": _time, "gradient": _gradient, "changes": _changes}
    return kinds[arguments["kind"]](parameters, arguments, rng)


def _time(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    sizes = {"n": parameters["time_n"], "d": parameters["time_d"], arguments["axis"]: arguments["size"]}
    xp, xq = rng.normal(size=(2, sizes["n"], sizes["d"]))
    yp, yq = rng.normal(size=(2, sizes["n"], 1))
    measure = measure_named(arguments["measure"])
    measure(xp[:20], yp[:20], xq[:20], yq[:20])  # compiles and loads what is compiled and loaded once
    # The bandwidth is part of none of the costs compared, and its own cost is the same for all.
    options = {"bandwidth_x": math.sqrt(2 * sizes["d"]), "bandwidth_y": math.sqrt(2)} if measure.gram else {}
    times = []
    for _ in range(parameters["timing_tries"]):
        start = time.perf_counter()
        measure(xp, yp, xq, yq, **options)
        times.append(time.perf_counter() - start)
    return {"seconds": min(times)}


def _gradient(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Compare autograd with a central difference along a random direction of y."""
    try:
        import torch
    except ModuleNotFoundError:
        return {"differentiable": None, "relative_error": None}
    measure = measure_named(arguments["measure"])
    x, y = rng.normal(size=(2, 30, 2)), rng.normal(size=(2, 30, 1))
    direction = rng.normal(size=(30, 1))
    options: dict[str, Any] = {"bandwidth_x": 1.0, "bandwidth_y": 1.0} if measure.gram else {}

    def value(yp: Any) -> Any:
        return measure(torch.as_tensor(x[0]), yp, torch.as_tensor(x[1]), torch.as_tensor(y[1]), **options)

    yp = torch.tensor(y[0], requires_grad=True)
    divergence = value(yp)
    if not getattr(divergence, "requires_grad", False):
        return {"differentiable": False, "relative_error": None}
    step = 1e-5
    ends = [float(value(torch.as_tensor(y[0] + sign * step * direction))) for sign in (1, -1)]
    (slope,) = torch.autograd.grad(divergence, yp)
    numeric, exact = (ends[0] - ends[1]) / (2 * step), float((slope.numpy() * direction).sum())
    return {"differentiable": True, "relative_error": abs(numeric - exact) / max(abs(numeric), 1e-12)}


def _noise(change: str, rng: np.random.Generator, n: int) -> FloatArray:
    """Noise of mean 0 and variance 1, or with one property changed."""
    normal = rng.normal(size=(n, 1))
    if change == "mean":
        return normal + 1.0
    if change == "variance":
        return 2.0 * normal
    if change == "shape":
        # Two narrow peaks with the mean and the variance of the standard normal distribution.
        return rng.choice([-1.0, 1.0], size=(n, 1)) * 0.95 + math.sqrt(1 - 0.95**2) * normal
    return normal


def _changes(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Evaluate D on pairs with each change, and on pairs without one of either kind (what D is by chance)."""
    measure, n = measure_named(arguments["measure"]), parameters["n"]
    options = {"bandwidth_x": arguments["rule"], "bandwidth_y": arguments["rule"]} if arguments["rule"] else {}

    def sample(change: str) -> tuple[FloatArray, FloatArray]:
        half = math.sqrt(3)  # of the range of a uniform distribution with variance 1
        x = rng.uniform(-half, half, size=(n, 1)) if arguments["inputs"] == "uniform" else rng.normal(size=(n, 1))
        return x, x + _noise(change, rng, n)

    def divergence(first: str, second: str) -> float:
        return float(measure(*sample(first), *sample(second), **options))

    found = {"none": divergence("none", "none")}
    for change in CHANGES:
        found[change] = divergence("none", change)
        found[f"{change} in both"] = divergence(change, change)
    return found


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log time over log size between the two largest sizes: small ones are overhead."""
    return math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])


def detection(results: Results, detector: str, change: str, inputs: str = "uniform") -> float | None:
    """Return how often D of a changed pair exceeds 95% of the values without change.

    Of the two kinds of unchanged pairs (both plain, both changed) the one with the larger values is the bar.
    """
    trials = list(results.get(f"{detector}; {inputs}", {}).values())
    if not trials:
        return None
    bars = [np.quantile([t[kind] for t in trials], 0.95) for kind in ("none", f"{change} in both")]
    return float(np.mean([t[change] > max(bars) for t in trials]))


def _exponent_cell(experiment: Experiment, results: Results, measure: str, axis: str) -> Cell:
    sizes = list(experiment.parameters[f"sizes_{axis}"])
    seconds = _seconds(experiment, results, measure, axis)
    if None in seconds:
        return MISSING
    found, paper = exponent(sizes, [s for s in seconds if s is not None]), PAPER[measure][axis]
    if paper is None:
        return Cell(found, digits=1)
    # O(...) bounds the growth from above: growing more slowly agrees.
    return Cell(found, float(paper), "agrees" if found <= paper + experiment.tolerance else "higher", digits=1)


def _seconds(experiment: Experiment, results: Results, measure: str, axis: str) -> list[float | None]:
    found: list[float | None] = []
    for size in experiment.parameters[f"sizes_{axis}"]:
        times = [t["seconds"] for t in results.get(f"{measure} time {axis}={size}", {}).values()]
        found.append(min(times) if times else None)
    return found


def _gradient_cell(results: Results, measure: str) -> Cell:
    trials = list(results.get(f"{measure} gradient", {}).values())
    if not trials or trials[0]["differentiable"] is None:
        return MISSING
    errors = [t["relative_error"] for t in trials if t["differentiable"]]
    ours = "yes" if errors and max(errors) < 1e-4 else "no"
    detail = f"error {max(errors):.0e}" if errors else ""
    paper = PAPER[measure]["gradient"]
    return Cell(ours, paper, "agrees" if ours == paper else "differs", detail=detail)


def _faithful_cell(experiment: Experiment, results: Results, measure: str) -> Cell:
    worst: dict[str, float] = {}
    for label, (of, rule) in DETECTORS.items():
        rates = [detection(results, label, change) for change in CHANGES]
        if of == measure and None not in rates:
            worst[rule or ""] = min(r for r in rates if r is not None)
    if not worst:
        return MISSING
    # Faithful is what sees every change at some bandwidth: a kernel wider than the detail hides it.
    rule = max(worst, key=lambda r: worst[r])
    ours = "yes" if worst[rule] >= experiment.parameters["seen_from"] else "no"
    paper = PAPER[measure]["faithful"]
    return Cell(ours, paper, "" if paper == "?" else "agrees" if ours == paper else "differs")


def summarise(experiment: Experiment, results: Results) -> Report:
    """Fill the paper's table with measured entries, and show the detection rates behind the last column."""
    properties = {
        label: {
            "growth in n": _exponent_cell(experiment, results, measure, "n"),
            "growth in d": _exponent_cell(experiment, results, measure, "d"),
            "gradient": _gradient_cell(results, measure),
            "sees all changes": _faithful_cell(experiment, results, measure),
        }
        for measure, label in MEASURES.items()
    }
    rates = {
        inputs: {
            label: {change: Cell(detection(results, label, change, inputs)) for change in CHANGES}
            for label in DETECTORS
        }
        for inputs in INPUTS
    }
    p = experiment.parameters
    notes = [
        f"Growth: slope of log time between the two largest sizes, n up to {p['sizes_n'][-1]} (d = {p['time_d']}), "
        f"d up to {p['sizes_d'][-1]} (n = {p['time_n']}), one thread; the paper's: the largest power in its O(...), a "
        f"bound from above (agrees up to + {experiment.tolerance}). Timings differ from run to run.",
        "Gradient: autograd (torch) against a central difference along a random direction.",
        f"Detection: y = x + noise, {p['n']} rows, noise N(0, 1) against N(1, 1), N(0, 4), or two peaks of the same "
        "mean and variance; share of seeds with D above 95% of its values on unchanged pairs.",
        "Unbounded x: the conditional CS divergence integrates over all x, and narrow kernels leave it to lone rows of "
        "the tails. Faithfulness is judged on bounded x.",
        f"Sees all changes: every detection rate is at least {p['seen_from']}, at one of the bandwidth rules. That is "
        "what finite samples can show of faithfulness, not a proof.",
    ]
    columns = ["growth in n", "growth in d", "gradient", "sees all changes"]
    grids = [
        Grid("Properties", "measure", columns, properties),
        *(
            Grid(f"Detection at 5% false alarms, by what differs; {i} x", "measure", list(CHANGES), rates[i])
            for i in INPUTS
        ),
    ]
    return Report(experiment.title, grids, notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw time over n and d, and detection rates."""
    figure.set_size_inches(11.5, 3.9)
    axes = figure.subplots(1, 3)
    axes[1].sharey(axes[0])
    colours = dict(zip(MEASURES, ("#718096", "#dd6b20", "#38a169", "#2b6cb0"), strict=True))
    for axis, name in zip(axes, ("n", "d"), strict=False):
        for measure, label in MEASURES.items():
            seconds = _seconds(experiment, results, measure, name)
            if None not in seconds:
                axis.loglog(
                    experiment.parameters[f"sizes_{name}"], seconds, "o-", ms=4, color=colours[measure], label=label
                )
        sizes = experiment.parameters[f"sizes_{name}"]
        axis.set_xticks(sizes, [str(s) for s in sizes])
        axis.xaxis.minorticks_off()
        axis.set(xlabel="rows of each sample" if name == "n" else "columns of x", ylabel="seconds (one thread)")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    width = 0.14
    for k, (label, (measure, rule)) in enumerate(DETECTORS.items()):
        rates = [detection(results, label, change) or 0.0 for change in CHANGES]
        hatch = "////" if rule == "silverman" else None
        style = {"color": colours[measure], "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        axes[2].bar(np.arange(3) + (k - 2.5) * width, rates, width * 0.92, **style)
    axes[2].bar([0], [0], color="#a0aec0", hatch="////", edgecolor="white", label="Silverman bandwidths")
    axes[2].legend(loc="lower left", bbox_to_anchor=(0, 0.99), frameon=False, fontsize=8)
    axes[2].axhline(0.05, color="black", lw=0.8, ls=":")
    axes[2].set_xticks(range(3), CHANGES)
    axes[2].set(ylim=(0, 1.02), xlabel="what differs between p(y|x) and q(y|x)", ylabel="share detected, uniform x")
    axes[2].spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)


EXPERIMENT = Experiment(
    name="table1",
    title="Properties of the measures, measured",
    reproduces="Table 1: cost, differentiability and faithfulness of four conditional divergences.",
    parameters={
        "sizes_n": [250, 500, 1000, 2000],
        "sizes_d": [8, 32, 128, 512],
        "time_n": 500,
        "time_d": 8,
        "timing_tries": 3,
        "timing_repeats": 3,
        "gradient_repeats": 5,
        "n": 300,
        "seen_from": 0.5,
    },
    quick={"sizes_n": [50, 100], "sizes_d": [4, 8], "time_n": 50, "timing_repeats": 1, "gradient_repeats": 1, "n": 60},
    repeats=100,
    quick_repeats=5,
    seed=20_250_200,
    paper=PAPER,
    tolerance=0.5,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
