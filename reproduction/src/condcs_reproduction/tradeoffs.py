"""What fairness and invariance share: penalised training of a classifier, and curves over the penalty's weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs_reproduction.spec import Parameters, Results, Task

Penalty = Callable[[Any, Any, Any], Any]
"""``penalty(logits, y, group)`` of a batch, as tensors."""

PLAIN = "plain"


def case_of(method: str, weight: float) -> str:
    """Return the name of a case."""
    return f"{method}; {weight:g}"


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """Every method at every weight; all of a repeat share data and initial weights."""
    grid = {PLAIN: [0.0], **parameters["weights"]}
    return [
        Task(case_of(method, weight), repeat, (repeat,), {"method": method, "weight": weight})
        for repeat in range(repeats)
        for method, weights in grid.items()
        for weight in weights
    ]


def train(
    data: tuple[Any, Any, Any], penalty: Penalty | None, weight: float, parameters: Parameters, seed: int
) -> Callable[[Any], Any]:
    """Train a small network on cross-entropy plus a weighted penalty; return the function from inputs to probabilities.

    The penalty joins after the first quarter of the epochs. Losses are divided by the weight where that exceeds 1, so
    that large weights do not mean large steps.
    """
    import torch

    from condcs_reproduction.perceptron import multilayer_perceptron

    x, y, group = (torch.as_tensor(a) for a in data)
    x, labels = x.float(), y.float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = multilayer_perceptron([x.shape[1], *parameters["hidden"], 1], torch.nn.ReLU)
        optimiser = torch.optim.Adam(
            network.parameters(), lr=parameters["learning_rate"], weight_decay=parameters["weight_decay"]
        )
        for epoch in range(parameters["epochs"]):
            joined = weight if penalty is not None and epoch >= parameters["epochs"] // 4 else 0.0
            for rows in torch.split(torch.randperm(len(x)), parameters["batch"]):
                if len(rows) < parameters["batch"]:
                    continue
                logits = network(x[rows])[:, 0]
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels[rows])
                if joined and penalty is not None:
                    loss = (loss + joined * penalty(logits, y[rows], group[rows])) / max(1.0, joined)
                optimiser.zero_grad()
                torch.autograd.backward(loss)
                optimiser.step()

    def probabilities(inputs: Any) -> Any:
        with torch.no_grad():
            return torch.sigmoid(network(torch.as_tensor(inputs).float())[:, 0]).numpy()

    return probabilities


def mean_of(results: Results, method: str, weight: float, quantity: str) -> tuple[float, float] | None:
    """Mean and standard error of a quantity over seeds."""
    values = np.array([t[quantity] for t in results.get(case_of(method, weight), {}).values()])
    if not len(values):
        return None
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return float(values.mean()), error


def curve(results: Results, parameters: Parameters, method: str, quantities: tuple[str, str]) -> FloatArray:
    """Means of two quantities from the plain model to the largest weight (points x 2)."""
    points = [mean_of(results, PLAIN, 0.0, q) for q in quantities]
    rows = [[p[0] for p in points if p is not None]]
    for weight in parameters["weights"].get(method, []):
        found = [mean_of(results, method, weight, q) for q in quantities]
        rows.append([p[0] for p in found if p is not None])
    return np.array([row for row in rows if len(row) == 2]).reshape(-1, 2)


def best_at(points: FloatArray, limit: float) -> float | None:
    """Best second quantity on a curve where the first is at most `limit`, straight lines between the points."""
    best: list[float] = [float(b) for a, b in points if a <= limit]
    for (a0, b0), (a1, b1) in pairwise(points):
        if (a0 - limit) * (a1 - limit) < 0:
            best.append(float(b0 + (b1 - b0) * (limit - a0) / (a1 - a0)))
    return max(best) if best else None


def draw_curves(
    axis: Any, results: Results, parameters: Parameters, quantities: tuple[str, str], colours: Mapping[str, str]
) -> None:
    """Draw the curve of every method, with the plain model as a star."""
    for method, colour in colours.items():
        points = curve(results, parameters, method, quantities)
        if len(points) > 1:
            axis.plot(*points.T, "o-", ms=4.5, lw=1.6, color=colour, label=method)
    plain = curve(results, {**parameters, "weights": {}}, PLAIN, quantities)
    axis.plot(*plain.T, "*", ms=14, color="black", ls="", label="plain", zorder=5, clip_on=False)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
