"""Invariance: predictions whose meaning is the same in every environment, by Prop. 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs_reproduction.data import make_environments
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task
from condcs_reproduction.tradeoffs import PLAIN, case_of, draw_curves, mean_of, train
from condcs_reproduction.tradeoffs import tasks as weight_tasks

METHODS = ("conditional CS", "IRM", "V-REx")

COLOURS = {"conditional CS": "#dd6b20", "IRM": "#2b6cb0", "V-REx": "#38a169"}

ORACLE = "invariant inputs only"


def _conditional_cs(logits: Any, y: Any, environment: Any) -> Any:
    from condcs.nn.functional import conditional_independence_loss

    # In units of the spread: a penalty on raw logits could be lowered by shrinking them all.
    standard = (logits - logits.mean()) / logits.std()
    return conditional_independence_loss(
        y, standard, environment, kernel_y="delta", kernel_x2="delta", bandwidth_x1=0.5
    )


def _irm(logits: Any, y: Any, environment: Any) -> Any:
    """Return the penalty of IRMv1: squared gradient of each environment's risk with respect to a common scale."""
    import torch

    scale = torch.ones(1, requires_grad=True)
    penalty = logits.new_zeros(())
    for e in torch.unique(environment):
        rows = environment == e
        risk = torch.nn.functional.binary_cross_entropy_with_logits(logits[rows] * scale, y[rows].float())
        (slope,) = torch.autograd.grad(risk, scale, create_graph=True)
        penalty = penalty + slope.square().sum()
    return penalty


def _rex(logits: Any, y: Any, environment: Any) -> Any:
    """Return the penalty of V-REx: variance of the risks over environments."""
    import torch

    risks = [
        torch.nn.functional.binary_cross_entropy_with_logits(logits[environment == e], y[environment == e].float())
        for e in torch.unique(environment)
    ]
    return torch.stack(risks).var(correction=0)


PENALTIES = {"conditional CS": _conditional_cs, "IRM": _irm, "V-REx": _rex}


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """Every method at every weight, and the model that is shown the invariant inputs only."""
    oracle = [Task(ORACLE, r, (r,), {"method": ORACLE, "weight": 0.0}) for r in range(repeats)]
    return [*weight_tasks(parameters, repeats), *oracle]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Train with one penalty at one weight; return accuracy where the spurious inputs agree, and where they turn."""
    seen = make_environments(parameters["n"], agreement=parameters["seen"], rng=rng)
    fresh = make_environments(parameters["n"], agreement=parameters["seen"], rng=rng)
    turned = make_environments(2 * parameters["n"], agreement=(parameters["turned"],), rng=rng)
    columns = slice(0, seen.n_invariant if arguments["method"] == ORACLE else None)
    penalty = PENALTIES.get(arguments["method"])
    seed = int(rng.integers(2**31))
    data = (seen.x[:, columns], seen.y, seen.environment)
    predict = train(data, penalty, arguments["weight"], parameters, seed)
    return {
        "seen": float(np.mean((predict(fresh.x[:, columns]) > 0.5) == fresh.y)),
        "turned": float(np.mean((predict(turned.x[:, columns]) > 0.5) == turned.y)),
    }


def summarise(experiment: Experiment, results: Results) -> Report:
    """Accuracies at the weight that serves the turned environment best, and at all weights."""
    p = experiment.parameters
    quantities = {"seen": "seen environments", "turned": "turned environment"}
    rows: dict[str, dict[str, Cell]] = {}
    plain = mean_of(results, PLAIN, 0.0, "turned")
    for method in (PLAIN, *METHODS, ORACLE):
        best = _best_weight(results, p, method)
        rows[method] = {label: _cell(results, method, best, q) for q, label in quantities.items()}
        rows[method]["weight"] = Cell("–" if method in (PLAIN, ORACLE) else f"{best:g}")
        found = None if method == ORACLE else mean_of(results, method, best, "turned")
        helps = "yes" if found is not None and plain is not None and found[0] > plain[0] else "no"
        claim = method == "conditional CS"
        rows[method]["better than plain"] = Cell(
            "–" if method in (PLAIN, ORACLE) else helps,
            "yes" if claim else None,
            ("agrees" if helps == "yes" else "differs") if claim else "",
        )
    shown = {
        case_of(method, weight): {label: _cell(results, method, weight, q) for q, label in quantities.items()}
        for method, weights in {PLAIN: [0.0], **p["weights"]}.items()
        for weight in weights
    }
    notes = [
        f"Two environments of {p['n']} rows to train on, where the spurious inputs agree with the label in "
        f"{p['seen'][0]:.0%} and {p['seen'][1]:.0%}; in the turned one they agree in {p['turned']:.0%}. The invariant "
        "inputs are right in 75% everywhere.",
        "Best weight: the one with the highest accuracy in the turned environment, for every method alike. It is "
        "chosen with that environment's labels, so it shows what a penalty can do, not what a user gets.",
        "IRM is IRMv1 (Arjovsky et al. 2019), V-REx Krueger et al. (2021). The paper names invariance as a use of "
        "Prop. 4 and gives no numbers.",
    ]
    grids = [
        Grid("Accuracy at the best weight", "penalty", [*quantities.values(), "weight", "better than plain"], rows),
        Grid("All weights", "penalty; weight", list(quantities.values()), shown),
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def _best_weight(results: Results, parameters: Parameters, method: str) -> float:
    weights = parameters["weights"].get(method, [0.0])
    scores = [found[0] if (found := mean_of(results, method, w, "turned")) else -1.0 for w in weights]
    return float(weights[int(np.argmax(scores))])


def _cell(results: Results, method: str, weight: float, quantity: str) -> Cell:
    if method == ORACLE:
        values = np.array([t[quantity] for t in results.get(ORACLE, {}).values()])
        found = (float(values.mean()), float(values.std() / np.sqrt(len(values)))) if len(values) else None
    else:
        found = mean_of(results, method, weight, quantity)
    return MISSING if found is None else Cell(found[0], error=found[1], digits=3)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw accuracy in the turned environment over that in the seen ones."""
    figure.set_size_inches(6.2, 4.4)
    axis = figure.subplots()
    draw_curves(axis, results, experiment.parameters, ("seen", "turned"), COLOURS)
    seen, turned = (_cell(results, ORACLE, 0.0, q).ours for q in ("seen", "turned"))
    if isinstance(seen, float) and isinstance(turned, float):
        axis.plot(seen, turned, "D", ms=8, color="#805ad5", ls="", label=ORACLE)
    axis.axhline(0.5, color="black", lw=0.8, ls=":")
    axis.set(xlabel="accuracy in the seen environments", ylabel="accuracy in the turned environment")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)


EXPERIMENT = Experiment(
    name="invariance",
    title="Invariant prediction over environments",
    reproduces="A use that the paper names for Prop. 4: outcomes independent of the environment given the prediction.",
    parameters={
        "weights": {
            "conditional CS": [10.0, 100.0, 1000.0, 10000.0],
            "IRM": [1.0, 10.0, 100.0, 1000.0],
            "V-REx": [1.0, 10.0, 100.0, 1000.0, 10000.0],
        },
        "n": 1024,
        "seen": [0.95, 0.75],
        "turned": 0.1,
        "hidden": [16],
        "epochs": 90,
        "batch": 1024,
        "learning_rate": 1e-2,
        "weight_decay": 1e-3,
    },
    quick={
        "weights": {"conditional CS": [10.0], "IRM": [100.0], "V-REx": [100.0]},
        "n": 256,
        "epochs": 4,
        "batch": 256,
    },
    repeats=5,
    quick_repeats=2,
    seed=20_250_709,
    paper={"conditional CS": "yes"},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
