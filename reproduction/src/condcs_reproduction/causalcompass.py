"""PCMCI+ with our test, beyond the paper: VAR and Lorenz-96 as in CausalCompass, as they should be and with flaws.

The benchmark CausalCompass (arXiv 2602.07915) has generators of such systems, which are used if it is installed:
``pip install --no-deps causalcompass`` (the versions that it asks for exclude ours; its generators need none of them).
Else the systems are simulated here by their equations, with constants of our own. A third kind has curved influences,
which leave no linear trace.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray
from condcs.causal import Embedding, causal_graph
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

SYSTEMS = {
    "var": "VAR",
    "lorenz": "Lorenz-96",
    "compass-var": "VAR of CausalCompass",
    "compass-lorenz": "Lorenz-96 of CausalCompass",
    "curved": "curved autoregression",
}
FLAWS = {
    "none": "as it should be",
    "confounded": "hidden common causes",
    "nonstationary": "changing noise",
    "measurement": "measurement error",
    "mixed": "half of the series binary",
}
METHODS = {
    "PCMCI+, condcs": "condcs",
    "PCMCI+, partial correlation": "parcorr",
    "PCMCI+, CMIknn": "cmiknn",
    "PCMCI+ of the effect, condcs": "condcs",
    "PCMCI+ of the effect, partial correlation": "parcorr",
    "PCMCI+ of the effect, CMIknn": "cmiknn",
    "PCMCI+ of the effect, CMIknn, 500 resamples": "cmiknn",
    "PCMCI+ of the effect, GPDC": "gpdc",
    "(CS)², given the others": "given",
    "(CS)², pairs": "pairs",
    "linear Granger, all series": "var",
    "linear Granger, pairs": "granger",
}
"""Methods and their kinds. Those with CMIknn and GPDC are run on the tiny size only. "Of the effect": links are tested
given the causes of the effect only, ``max_conds_px=0``, instead of those of the cause as well."""

_PARTNERS = {"condcs": "tigramite", "parcorr": "tigramite", "cmiknn": "tigramite", "gpdc": "dcor"}
"""What a kind needs beside condcs. tigramite is published under the GPL-3 and is the user's to install."""

SLOW = tuple(method for method, kind in METHODS.items() if kind in ("cmiknn", "gpdc"))
_ADVISED = "PCMCI+ of the effect, condcs"
_FEW_TRIALS = {
    "PCMCI+, CMIknn": 3,
    "PCMCI+ of the effect, CMIknn, 500 resamples": 1,
    "PCMCI+ of the effect, GPDC": 1,
}
"""Methods that take minutes, and how many trials of each system without flaws they are run in."""

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"nodes": 5, "lorenz": 6, "length": 150, "lags": 1},
    "small": {"nodes": 5, "lorenz": 7, "length": 150, "lags": 3},
    "standard": {"nodes": 10, "lorenz": 10, "length": 500, "lags": 3},
}
"""Series, those of Lorenz-96 (of five, almost all are linked), times, and lags: at which series act on others, and that
every method looks at which does not choose them itself."""

EXPECTED = (
    "Written down before the run: (1) on the tiny size PCMCI+ with condcs takes at most a twentieth of the time with "
    "CMIknn and its default of 500 resamples, a quarter of it with 100, at an equal or better mean AUPRC; on Lorenz-96 "
    "only if links are tested given the causes of the effect (seen before on other draws); (2) given the others, (CS)² "
    "is the best method on Lorenz-96, and on VAR at most 0.05 below a linear regression on all series (seen before on "
    "our own systems, not on those of CausalCompass); (3) on curved influences both ways to use (CS)² are above 0.9, "
    "and every linear method below 0.6."
)

_RADIUS = 0.95
"""Spectral radius of the VAR: below 1, it is stable."""


def present(kind: str) -> bool:
    """Whether what a method needs is installed: others are left out."""
    needs = {"tigramite", _PARTNERS[kind]} if kind in _PARTNERS else set()
    return all(find_spec(name) is not None for name in needs)


def _installed_systems() -> list[str]:
    """Return VAR and Lorenz-96, of CausalCompass if it is installed, and curved autoregressions."""
    prefix = "" if find_spec("causalcompass") is None else "compass-"
    return [f"{prefix}var", f"{prefix}lorenz", "curved"]


def loudness(length: int, rng: np.random.Generator) -> FloatArray:
    """Draw a smooth standard deviation of noise that changes several-fold: waves of one, two and three periods."""
    turns = 2 * np.pi * np.arange(1, 4) * np.linspace(0, 1, length)[:, None] + rng.uniform(0, 2 * np.pi, size=3)
    return np.asarray(np.exp(np.cos(turns) @ rng.normal(size=3) / np.sqrt(2)))[:, None]


def unlinked_pairs(links: BoolArray, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw as many pairs of series without a link, in either direction, as there are series, if there are so many."""
    apart = np.argwhere(np.triu(~(links | links.T), 1))
    chosen = rng.permutation(len(apart))[: len(links)]
    return [(int(i), int(j)) for i, j in apart[chosen]]


def scaled_lags(patterns: FloatArray) -> FloatArray:
    r"""Scale the coefficients of lag k (lags x series x series) by s^k so that the spectral radius is 0.95.

    With :math:`A_k = s^k B_k`, if :math:`\lambda` solves the characteristic equation of B, :math:`s \lambda` solves
    that of A: the factor is known at once.
    """
    lags, series, _ = patterns.shape
    companion = np.eye(lags * series, k=-series)
    companion[:series] = np.hstack(list(patterns))
    s = _RADIUS / np.abs(np.linalg.eigvals(companion)).max()
    return np.asarray(patterns * s ** np.arange(1, lags + 1)[:, None, None])


def one_cause_each(nodes: int, rng: np.random.Generator) -> BoolArray:
    """Draw a graph (source, target) in which one other series acts on each."""
    links = np.zeros((nodes, nodes), bool)
    links[(np.arange(nodes) + rng.integers(1, nodes, size=nodes)) % nodes, np.arange(nodes)] = True
    return links


def simulate_var(
    nodes: int, length: int, lags: int, flaw: str, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    r"""Autoregression :math:`x_t = \sum_k A_k x_{t-k} + e_t`, in which one other series acts on each at all lags.

    A hidden cause acts on one series of an unlinked pair one step later, and on the other at the next lag, if any.
    """
    links = one_cause_each(nodes, rng)
    pairs = unlinked_pairs(links, rng) if flaw == "confounded" else []
    every = nodes + len(pairs)
    patterns = np.tile(np.eye(every), (lags, 1, 1))
    patterns[:, :nodes, :nodes] += links.T
    for hidden, (i, j) in enumerate(pairs, start=nodes):
        patterns[0, i, hidden] = patterns[min(1, lags - 1), j, hidden] = 2.0
    coefficients = scaled_lags(patterns)
    settling = 200
    x = rng.normal(size=(settling + length, every))
    if flaw == "nonstationary":
        x *= loudness(len(x), rng)
    for t in range(lags, len(x)):
        for k in range(lags):
            x[t] += coefficients[k] @ x[t - k - 1]
    return x[settling:, :nodes], links


def lorenz_links(nodes: int) -> BoolArray:
    """Every series is driven by the one after it and the two before it."""
    place = np.arange(nodes)
    links = np.zeros((nodes, nodes), bool)
    for step in (1, -1, -2):
        links[(place + step) % nodes, place] = True
    return np.asarray(links & ~np.eye(nodes, dtype=bool))


def simulate_lorenz(
    nodes: int, length: int, _: int, flaw: str, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    r"""Lorenz-96, :math:`\dot x_i = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + 10`, every tenth of a unit of time, and noise.

    Hidden causes are the series of a second, independent system, each of which pushes two of the first.
    """
    from scipy.integrate import solve_ivp

    links = lorenz_links(nodes)
    pushes = np.zeros((nodes, nodes))
    if flaw == "confounded":
        # On a small circle almost all pairs are linked one way: those linked both ways are left out instead.
        for hidden, pair in enumerate(unlinked_pairs(links & links.T, rng)):
            pushes[list(pair), hidden] = 1.0

    def slopes(_: float, state: FloatArray) -> FloatArray:
        u = state.reshape(2, nodes)
        found = np.roll(u, 1, axis=1) * (np.roll(u, -1, axis=1) - np.roll(u, 2, axis=1)) - u + 10.0
        found[0] += pushes @ u[1]
        return np.asarray(found.ravel())

    settling = 20.0
    times = settling + 0.1 * np.arange(length)
    start = rng.uniform(4, 6, size=2 * nodes)
    x = solve_ivp(slopes, (0.0, times[-1]), start, t_eval=times, rtol=1e-6).y[:nodes].T
    noise = 0.02 * x.std(axis=0) * rng.normal(size=x.shape)
    return x + (noise * loudness(length, rng) if flaw == "nonstationary" else noise), links


def simulate_curved(
    nodes: int, length: int, lags: int, flaw: str, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    r"""Autoregression with a curved influence, :math:`x_t = 0.5 x_{t-1} + \cos(2 z_{t-k}) + e_t / 2`.

    One other series z acts on each, at one of the lags. Series are about symmetric, so that an even function of one is
    not correlated with it. Only drawn as it should be.
    """
    links = one_cause_each(nodes, rng)
    cause, lag = links.argmax(axis=0), rng.integers(1, lags + 1, size=nodes)
    settling = 100
    x = 0.5 * rng.normal(size=(settling + length, nodes))
    for t in range(lags, len(x)):
        x[t] += 0.5 * x[t - 1] + np.cos(2 * x[t - lag, cause])
    return x[settling:], links


_OWN = {"var": simulate_var, "lorenz": simulate_lorenz, "curved": simulate_curved}

_COMPASS = {
    ("var", "none"): "simulate_var",
    ("var", "confounded"): "simulate_var_with_confounders",
    ("var", "nonstationary"): "simulate_nonstationary_var",
    ("var", "measurement"): "simulate_var_with_measure_error",
    ("var", "mixed"): "generate_mixed_var",
    ("lorenz", "none"): "simulate_lorenz_96",
    ("lorenz", "confounded"): "simulate_lorenz_with_confounders",
    ("lorenz", "nonstationary"): "simulate_nonstationary_lorenz_96",
    ("lorenz", "measurement"): "simulate_lorenz_with_measure_error",
    ("lorenz", "mixed"): "generate_mixed_lorenz_96",
}
"""Generators of CausalCompass, by system and flaw."""


@cache
def compass_generators() -> Any:
    """Load the generators of CausalCompass without its algorithms, which would need a dozen other packages."""
    package = find_spec("causalcompass")
    assert package is not None
    assert package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0]) / "datasets"
    name = "causalcompass_datasets"
    spec = spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def simulate_compass(
    system: str, nodes: int, length: int, lags: int, flaw: str, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Draw series by the generators of CausalCompass with their defaults, one other cause for each series of a VAR."""
    options: dict[str, Any] = {"seed": int(rng.integers(2**31))}
    if system == "var":
        options |= {"lag": lags, "sparsity": 2 / nodes}
    if flaw == "mixed":
        options["device"] = "cpu"
    made = getattr(compass_generators(), _COMPASS[system, flaw])(nodes, length, **options)
    # Their graphs have targets as rows, and count the influence of a series on itself.
    graph = next(part for part in made[1:] if part.shape == (nodes, nodes) and part.dtype.kind == "i")
    return np.asarray(made[0], np.float64), graph.T.astype(bool) & ~np.eye(nodes, dtype=bool)


def simulated(
    system: str, flaw: str, nodes: int, length: int, lags: int, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Draw series (time, variables) and their links (source, target)."""
    if system.startswith("compass-"):
        return simulate_compass(system.removeprefix("compass-"), nodes, length, lags, flaw, rng)
    series, links = _OWN[system](nodes, length, lags, flaw, rng)
    if flaw == "measurement":
        # As much error as signal.
        series = series + series.std(axis=0) * rng.normal(size=series.shape)
    if flaw == "mixed":
        halved = rng.permutation(nodes)[: nodes // 2]
        series[:, halved] = series[:, halved] > np.median(series[:, halved], axis=0)
    return series, links


def conditional_test(kind: str, resamples: int, rng: np.random.Generator) -> Any:
    """Return a conditional independence test for tigramite."""
    if kind == "condcs":
        from condcs.adapters import TigramiteTest

        return TigramiteTest()
    if kind == "parcorr":
        from tigramite.independence_tests.parcorr import ParCorr

        return ParCorr()
    seed = int(rng.integers(2**31))
    if kind == "cmiknn":
        from tigramite.independence_tests.cmiknn import CMIknn

        return CMIknn(sig_samples=resamples, workers=1, seed=seed)
    from tigramite.independence_tests.gpdc import GPDC

    return GPDC(seed=seed)


def pcmci_plus(series: FloatArray, test: Any, lags: int, *, of_effect: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return p-value and value of the most certain lag of each link i -> j; links at once count if i may come first."""
    from tigramite.data_processing import DataFrame
    from tigramite.pcmci import PCMCI

    method = PCMCI(DataFrame(series), cond_ind_test=test)
    found = method.run_pcmciplus(tau_max=lags, pc_alpha=0.05, max_conds_px=0 if of_effect else None)
    p, value = found["p_matrix"].copy(), np.abs(found["val_matrix"])
    p[:, :, 0][found["graph"][:, :, 0] == "<--"] = 1.0
    best = p.argmin(axis=2)[:, :, None]
    return np.take_along_axis(p, best, 2)[:, :, 0], np.take_along_axis(value, best, 2)[:, :, 0]


def granger_of_all(series: FloatArray, lags: int) -> FloatArray:
    """Return F statistics of leaving the past of i out of a linear regression of j on all pasts."""
    n, nodes = series.shape
    pasts = np.stack([series[lags - s : n - s] for s in range(1, lags + 1)], axis=2)
    every = np.column_stack([np.ones(n - lags), pasts.reshape(n - lags, -1)])

    def left(design: FloatArray) -> FloatArray:
        fitted = design @ np.linalg.lstsq(design, series[lags:], rcond=None)[0]
        return np.asarray(((series[lags:] - fitted) ** 2).sum(axis=0))

    whole, found = left(every), np.empty((nodes, nodes))
    for i in range(nodes):
        columns = np.r_[0, [1 + v * lags + s for v in range(nodes) if v != i for s in range(lags)]]
        found[i] = (left(every[:, columns]) - whole) / whole
    return found


def strengths(method: str, series: FloatArray, lags: int, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return a matrix that ranks the links: larger for a more certain one."""
    kind = METHODS[method]
    if kind == "var":
        return granger_of_all(series, lags)
    if kind == "granger":
        graph = causal_graph(series, embedding=Embedding(lags, delay=1), measure="linear_granger", null="analytic")
        return np.asarray(graph.scores)
    if kind in ("pairs", "given"):
        graph = causal_graph(series, conditional=kind == "given", rng=rng)
        p, value = graph.pvalues, graph.scores
    else:
        test = conditional_test(kind, 500 if method.endswith("500 resamples") else resamples, rng)
        p, value = pcmci_plus(series, test, lags, of_effect="of the effect" in method)
    # Equal p-values, at the smallest that resamples allow, are ranked by the value of the test.
    return np.asarray(-np.log10(np.maximum(p, 1e-300)) + 1e-3 * value / (1 + value))


def case_of(size: str, system: str, flaw: str, method: str) -> str:
    """Return the name of a case."""
    return f"{size}; {system}; {flaw}; {method}"


def flaws_of(system: str, parameters: Parameters) -> list[str]:
    """Return the flaws that a system is drawn with."""
    return ["none"] if system == "curved" else list(parameters["flaws"])


def methods_of(size: str, parameters: Parameters) -> list[str]:
    """Return the methods that are run on a size."""
    return [method for method in parameters["methods"] if size == "tiny" or method not in SLOW]


def runs(method: str, flaw: str, repeat: int) -> bool:
    """Whether a method is run: the slowest ones only in the first trials of series as they should be."""
    return method not in _FEW_TRIALS or (flaw == "none" and repeat < _FEW_TRIALS[method])


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """All methods on all systems; the methods of a repeat see the same series."""
    return [
        Task(
            case_of(size, system, flaw, method),
            repeat,
            (list(SIZES).index(size), list(SYSTEMS).index(system), list(FLAWS).index(flaw), repeat),
            {"size": size, "system": system, "flaw": flaw, "method": method},
        )
        for repeat in range(repeats)
        for size in parameters["sizes"]
        for system in parameters["systems"]
        for flaw in flaws_of(system, parameters)
        for method in methods_of(size, parameters)
        if runs(method, flaw, repeat)
    ]


@cache
def _load(method: str) -> None:
    """Run a method on little data: modules and compiled code are loaded before the clock starts."""
    strengths(method, np.random.default_rng(0).normal(size=(60, 3)), 1, 2, np.random.default_rng(0))


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Simulate, rank all ordered pairs, and take the processor's time."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    size = SIZES[arguments["size"]]
    nodes, lags = size["lorenz" if "lorenz" in arguments["system"] else "nodes"], size["lags"]
    length = parameters["length"] or size["length"]
    series, links = simulated(arguments["system"], arguments["flaw"], nodes, length, lags, rng)
    _load(arguments["method"])
    began = time.process_time()
    found = strengths(arguments["method"], series, lags, parameters["n_resamples"], rng)
    seconds = time.process_time() - began
    off = ~np.eye(nodes, dtype=bool)
    return {
        "auroc": float(roc_auc_score(links[off], found[off])),
        "auprc": float(average_precision_score(links[off], found[off])),
        "seconds": float(f"{seconds:.3g}"),
        "density": float(links[off].mean()),
    }


def _cells(results: Results, size: str, system: str, method: str, quantity: str, flaws: list[str]) -> dict[str, Cell]:
    cells = {}
    every: list[float] = []
    for flaw in flaws:
        values = [t[quantity] for t in results.get(case_of(size, system, flaw, method), {}).values()]
        every += values
        # Not the mean: other work on the machine makes a few graphs take several times as long.
        cells[FLAWS[flaw]] = _median(values) if quantity == "seconds" else mean_and_error(values)
    return cells | ({} if quantity == "seconds" else {"mean": mean_and_error(every)})


def mean_and_error(values: list[float]) -> Cell:
    """Return the mean with its standard error."""
    if not values:
        return MISSING
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return Cell(float(np.mean(values)), error=error, digits=3)


def _median(values: list[float]) -> Cell:
    return Cell(float(np.median(values)), digits=3) if values else MISSING


def _beside(results: Results, parameters: Parameters, rival: str) -> Grid:
    """Compare PCMCI+ of the effect with our test and with another one, on the series that both were run on."""
    rows = {}
    for system in parameters["systems"]:
        for flaw in flaws_of(system, parameters):
            ours, theirs = (results.get(case_of("tiny", system, flaw, m), {}) for m in (_ADVISED, rival))
            both = [(ours[trial], theirs[trial]) for trial in sorted(ours.keys() & theirs.keys())]
            if both:
                rows[f"{SYSTEMS[system]}, {FLAWS[flaw]}"] = {
                    "series drawn": Cell(len(both), digits=0),
                    "AUPRC, condcs": mean_and_error([a["auprc"] for a, _ in both]),
                    "AUPRC, the other": mean_and_error([b["auprc"] for _, b in both]),
                    "difference": mean_and_error([a["auprc"] - b["auprc"] for a, b in both]),
                    "times as fast": Cell(float(np.median([b["seconds"] / a["seconds"] for a, b in both])), digits=0),
                }
    columns = list(next(iter(rows.values()), ()))
    return Grid(f"{_ADVISED}, beside {rival.split(', ', 1)[1]}", "system", columns, rows)


def summarise(experiment: Experiment, results: Results) -> Report:
    """AUPRC, AUROC and seconds of every method, by system and flaw."""
    p = experiment.parameters
    grids = []
    for size in p["sizes"]:
        for system in p["systems"]:
            flaws = flaws_of(system, p)
            for quantity, label in (("auprc", "AUPRC"), ("auroc", "AUROC"), ("seconds", "seconds")):
                rows = {m: _cells(results, size, system, m, quantity, flaws) for m in methods_of(size, p)}
                columns = [*(FLAWS[flaw] for flaw in flaws), *([] if quantity == "seconds" else ["mean"])]
                grids.append(Grid(f"{SYSTEMS[system]}, {size}: {label}", "method", columns, rows))
    grids += [_beside(results, p, m) for m in SLOW if m.startswith("PCMCI+ of the effect") and m in p["methods"]]
    sizes = ", ".join(
        f"{name}: {own['nodes']} series (Lorenz-96: {own['lorenz']}) of {own['length']}, {own['lags']} lag(s)"
        for name, own in SIZES.items()
    )
    notes = [
        EXPECTED,
        f"Sizes: {sizes}. PCMCI+ looks at lag 0 as well; (CS)² chooses lags itself. CMIknn has "
        f"{p['n_resamples']} resamples, by default 500; p-values of the others are in closed form, but for (CS)² where "
        "no noise is left.",
        "PCMCI+ tests a link given the causes of both series; of the effect: only given those of the effect "
        "(max_conds_px=0).",
        "Links are ranked by p-value and, where resamples leave ties, by the value of the test; PCMCI+ prunes links "
        "that it finds to be indirect. Seconds are of one core, the median of the trials. Mean ± standard error.",
        "Methods and systems whose packages are absent are left out: pip install tigramite dcor (tigramite is under "
        "the GPL-3), pip install --no-deps causalcompass.",
        "Guessing reaches an AUROC of 0.5 and an AUPRC equal to the share of links: of five series 1/4 and of ten 1/9, "
        "of Lorenz-96 of 6, 7 and 10 series 3/5, 1/2 and 1/3.",
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


_MARKERS = "os^vD<>pP*Xh"
"""Marks of the methods: names beside the points would cover one another."""


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw mean AUPRC against seconds, a panel for each system and size."""
    p = experiment.parameters
    figure.set_size_inches(4.8 * len(p["systems"]), 3.9 * len(p["sizes"]))
    panels = figure.subplots(len(p["sizes"]), len(p["systems"]), squeeze=False)
    for row, size in zip(panels, p["sizes"], strict=True):
        for axis, system in zip(row, p["systems"], strict=True):
            for method in methods_of(size, p):
                cases = [case_of(size, system, flaw, method) for flaw in flaws_of(system, p)]
                trials = [t for case in cases for t in results.get(case, {}).values()]
                if trials:
                    quality, seconds = (float(np.mean([t[q] for t in trials])) for q in ("auprc", "seconds"))
                    ours = method.endswith("condcs")
                    style = {"marker": _MARKERS[list(METHODS).index(method)], "color": "#dd6b20" if ours else "#2b6cb0"}
                    axis.plot(seconds, quality, ls="", ms=8, alpha=0.8, label=method, **style)
            axis.set_xscale("log")
            axis.margins(0.12)
            axis.set(title=f"{SYSTEMS[system]}, {size}", xlabel="seconds of a graph", ylabel="mean AUPRC")
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(alpha=0.25)
    named = {label: mark for axis in panels.flat for mark, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)


EXPERIMENT = Experiment(
    name="causalcompass",
    title="PCMCI+ with our test: VAR and Lorenz-96, as they should be and with flaws",
    reproduces="Beyond the paper: AUPRC, AUROC and time beside partial correlation, CMIknn, GPDC and Granger.",
    parameters={
        "sizes": list(SIZES),
        "systems": _installed_systems(),
        "flaws": list(FLAWS),
        "methods": [method for method, kind in METHODS.items() if present(kind)],
        "length": None,
        "n_resamples": 100,
    },
    quick={
        "sizes": ["tiny"],
        "systems": ["var", "lorenz", "curved"],
        "flaws": ["none"],
        "methods": [method for method, kind in METHODS.items() if method not in SLOW and present(kind)],
        "length": 100,
        "n_resamples": 19,
    },
    repeats=5,
    quick_repeats=1,
    seed=20_260_207,
    paper={},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
