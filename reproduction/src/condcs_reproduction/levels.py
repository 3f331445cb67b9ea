"""Level and power of the conditional test beside seven rivals, and of the independence test beside three.

An experiment beyond the paper. The scenarios, and what is expected of each, are those of `level_scenarios`, written
down before the first run; the rivals are those of `rivals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
from scipy.stats import rankdata

from condcs_reproduction.contest import (
    BROKEN,
    COLOURS,
    DEFAULT,
    METHODS,
    Rate,
    conditional_pvalue,
    independence_pvalue,
    rate_of,
)
from condcs_reproduction.level_scenarios import (
    ALTERNATIVES,
    DEPENDENCES,
    HIGHEST_LEVEL,
    NULLS,
    Dependence,
    Scenario,
)
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.rivals import RIVALS
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

INDEPENDENCE_METHODS = (DEFAULT, "GCM on ranks", "RCIT", "KCI")
LARGE = 1000
"""Pooled rows above which slow methods have fewer trials."""

CLOSE = 0.05
"""A power at most this far below the best is as good."""

_PAIRS = {s.name: s for s in (*NULLS, *ALTERNATIVES)}
_TRIPLES = {s.name: s for s in DEPENDENCES}


def case_of(scenario: str, method: str, *, independence: bool = False) -> str:
    """Return the name of a case."""
    return f"{'independence: ' if independence else ''}{scenario}; {method}"


def tasks(parameters: Parameters, repeats: int) -> Sequence[Task]:
    """All methods on all scenarios, repeat by repeat; those of a repeat see the same rows."""
    found = []
    for repeat in range(math.ceil(parameters["share_of_nulls"] * repeats)):
        for name in (*parameters["nulls"], *parameters["alternatives"]):
            for method in METHODS:
                if repeat < math.ceil(_share(parameters, _PAIRS[name], method) * repeats):
                    found.append(_task(case_of(name, method), name, method, repeat, False))
        for name in parameters["dependences"]:
            for method in INDEPENDENCE_METHODS:
                if repeat < math.ceil(_share(parameters, _TRIPLES[name], method) * repeats):
                    found.append(_task(case_of(name, method, independence=True), name, method, repeat, True))
    return found


def _share(parameters: Parameters, scenario: Scenario | Dependence, method: str) -> float:
    """Return how many trials a method has in a scenario, in units of those of most."""
    if method == DEFAULT and scenario.power is None:
        return float(parameters["share_of_nulls"])
    large = isinstance(scenario, Scenario) and sum(scenario.rows) > LARGE
    return float(parameters["share_of_large"].get(method, 1.0)) if large else 1.0


def _task(case: str, scenario: str, method: str, repeat: int, independence: bool) -> Task:
    arguments = {"scenario": scenario, "method": method, "independence": independence}
    # By name, not by place: a new scenario leaves the rows of the others as they are.
    return Task(case, repeat, (int(independence), crc32(scenario.encode()), repeat), arguments)


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Draw a scenario once and test it with one method."""
    data, own = rng.spawn(2)
    name, method, n_resamples = arguments["scenario"], arguments["method"], parameters["n_resamples"]
    if arguments["independence"]:
        return independence_pvalue(method, _TRIPLES[name].draw(data, parameters["rows"]), n_resamples, own)
    rows = parameters["rows"]
    return conditional_pvalue(method, _PAIRS[name].draw(data, rows and (rows, rows)), n_resamples, own)


def summarise(experiment: Experiment, results: Results) -> Report:
    """Levels with intervals, power beside the best valid rival, and a line per method."""
    found = _Rates(experiment, results)
    p = experiment.parameters
    grids = [
        Grid(
            "In short: p(y|x) = q(y|x)",
            "method",
            ["broken levels", "lowest level", "highest level", "mean power", "mean rank", "ms per test"],
            {method: found.summary(method) for method in METHODS},
        ),
        Grid(
            "Level: share of true hypotheses rejected at 0.05",
            "only x changes",
            [*METHODS, "warned"],
            {name: found.levels(name) for name in p["nulls"]},
        ),
        Grid(
            "Power: share of changes of p(y|x) found at 0.05",
            "what changes",
            [*METHODS, "best valid rival", "as good"],
            {name: found.powers(name) for name in p["alternatives"]},
        ),
        Grid(
            "Independence of x and y given z: level, then power",
            "relation",
            list(INDEPENDENCE_METHODS),
            {name: found.independence(name) for name in p["dependences"]},
        ),
        Grid(
            "The scenarios, as they were written down",
            "name",
            ["rows", "what it is", "what was expected"],
            {
                **{name: _about(_PAIRS[name], " + ".join(map(str, _PAIRS[name].rows))) for name in _chosen(p)},
                **{
                    f"independence: {name}": _about(_TRIPLES[name], str(_TRIPLES[name].rows))
                    for name in p["dependences"]
                },
            },
        ),
    ]
    close = [found.is_close(name) for name in p["alternatives"]]
    notes = [
        f"An experiment beyond the paper: {len(p['nulls'])} nulls, {len(p['alternatives'])} alternatives, "
        f"{len(p['dependences'])} scenarios of independence, each with a sentence and an expectation, in "
        f"condcs_reproduction/level_scenarios.py, before the first run. {p['n_resamples']} resamples; 200 + 200 rows "
        "in most nulls, 150 + 150 in many alternatives.",
        f"The default is as good as the best valid rival (power at most {CLOSE} below it) in "
        f"{sum(c is True for c in close)} of {len(close)} alternatives.",
        f"In square brackets: Wilson's 95% interval of a level; 'invalid' beside the power of a method whose interval "
        f"lies above {BROKEN} in some null of the same kind (what the columns are, and how x changes). Such a method "
        "is no rival there, and ranks last.",
        f"Expected of the default: a level of at most {HIGHEST_LEVEL}, and the power in brackets, at least (within "
        f"{experiment.tolerance}); no mean rank of a rival that is better.",
        "condcs, paper: the permutation null, exact only where x does not change. Warned: share of trials in which "
        "the default said that its null may not hold.",
        "Times are those of one thread, median over trials of 200 + 200 rows; they alone differ between runs.",
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def _about(scenario: Scenario | Dependence, rows: str) -> dict[str, Cell]:
    return {"rows": Cell(rows), "what it is": Cell(scenario.about), "what was expected": Cell(scenario.expected)}


def _chosen(parameters: Parameters) -> list[str]:
    return [*parameters["nulls"], *parameters["alternatives"]]


class _Rates:
    """The rejections of an experiment, and what follows from them."""

    def __init__(self, experiment: Experiment, results: Results) -> None:
        self.parameters, self.tolerance = experiment.parameters, experiment.tolerance
        self.results = results
        level = self.parameters["level"]
        self.rates = {(n, m): rate_of(results, case_of(n, m), level) for n in _chosen(self.parameters) for m in METHODS}
        nulls = self.parameters["nulls"]
        self.invalid = {(_PAIRS[n].kind, m) for n in nulls for m in METHODS if self.is_broken(n, m)}

    def rate(self, scenario: str, method: str) -> Rate | None:
        return self.rates[scenario, method]

    def is_broken(self, null: str, method: str) -> bool:
        rate = self.rate(null, method)
        return rate is not None and rate.broken

    def is_valid(self, scenario: str, method: str) -> bool:
        """Whether no level of a method is broken in the nulls of the scenario's kind."""
        return (_PAIRS[scenario].kind, method) not in self.invalid

    def best_rival(self, scenario: str) -> tuple[str, float] | None:
        """Name and power of the strongest rival that is valid in scenarios of this kind."""
        powers = {}
        for method in RIVALS:
            rate = self.rate(scenario, method)
            if rate is not None and self.is_valid(scenario, method):
                powers[method] = rate.value
        return max(powers.items(), key=lambda item: item[1]) if powers else None

    def is_close(self, scenario: str) -> bool | None:
        """Whether the default is valid and as good as the best valid rival."""
        ours, best = self.rate(scenario, DEFAULT), self.best_rival(scenario)
        if ours is None:
            return None
        return self.is_valid(scenario, DEFAULT) and (best is None or ours.value >= best[1] - CLOSE - 1e-9)

    def mean_rank(self, method: str) -> float | None:
        """Mean rank by power among the methods that were run, 1 the best; those not valid share the last places."""
        names = [n for n in self.parameters["alternatives"] if self.rate(n, method)]
        run = [m for m in METHODS if names and all(self.rate(n, m) for n in names)]
        if method not in run:
            return None
        places = []
        for name in names:
            rates = {m: self.rate(name, m) for m in run}
            worth = [r.value if r and self.is_valid(name, m) else -1.0 for m, r in rates.items()]
            places.append(rankdata([-w for w in worth])[run.index(method)])
        return float(np.mean(places))

    def summary(self, method: str) -> dict[str, Cell]:
        levels = [r for r in (self.rate(n, method) for n in self.parameters["nulls"]) if r]
        powers = [r.value for r in (self.rate(n, method) for n in self.parameters["alternatives"]) if r]
        times = [t["seconds"] for n in _chosen(self.parameters) for t in self._trials(n, method)]
        broken = Cell(f"{sum(rate.broken for rate in levels)} of {len(levels)}")
        rank = Cell(self.mean_rank(method), digits=1)
        if method == DEFAULT and levels and powers:
            broken = _expected(broken, f"0 of {len(levels)}", not any(rate.broken for rate in levels))
            least = min((self.mean_rank(rival) or math.inf) for rival in RIVALS)
            rank = _expected(rank, f"≤ {least:.1f}", (self.mean_rank(method) or math.inf) <= least)
        return {
            "broken levels": broken,
            "lowest level": Cell(min((r.value for r in levels), default=None)),
            "highest level": Cell(max((r.value for r in levels), default=None)),
            "mean power": Cell(float(np.mean(powers)) if powers else None),
            "mean rank": rank,
            "ms per test": Cell(1000 * float(np.median(times)) if times else None, digits=0),
        }

    def _trials(self, scenario: str, method: str) -> list[Result]:
        """Trials of a scenario of the usual size, for the times."""
        usual = _PAIRS[scenario].rows == (200, 200)
        return list(self.results.get(case_of(scenario, method), {}).values()) if usual else []

    def levels(self, scenario: str) -> dict[str, Cell]:
        row = {method: _level_cell(self.rate(scenario, method), method) for method in METHODS}
        warned = [t["warned"] for t in self.results.get(case_of(scenario, DEFAULT), {}).values()]
        return {**row, "warned": Cell(float(np.mean(warned))) if warned else MISSING}

    def powers(self, scenario: str) -> dict[str, Cell]:
        entry = _PAIRS[scenario]
        row = {}
        for method in METHODS:
            rate = self.rate(scenario, method)
            detail = "" if self.is_valid(scenario, method) else "invalid"
            row[method] = _power_cell(rate, entry.power if method == DEFAULT else None, detail, self.tolerance)
        best, close = self.best_rival(scenario), self.is_close(scenario)
        row["best valid rival"] = Cell("none" if best is None else f"{best[0]} {best[1]:.2f}")
        row["as good"] = MISSING if close is None else _expected(Cell("yes" if close else "no"), "yes", close)
        return row

    def independence(self, scenario: str) -> dict[str, Cell]:
        power, row = _TRIPLES[scenario].power, {}
        for method in INDEPENDENCE_METHODS:
            case = case_of(scenario, method, independence=True)
            rate = rate_of(self.results, case, self.parameters["level"])
            row[method] = (
                _level_cell(rate, method)
                if power is None
                else _power_cell(rate, power if method == DEFAULT else None, "", self.tolerance)
            )
        return row


def _expected(cell: Cell, what: str, holds: bool) -> Cell:
    """Say beside a cell what was expected, and whether it is so."""
    return replace(cell, paper=what, verdict="agrees" if holds else "differs")


def _level_cell(rate: Rate | None, method: str) -> Cell:
    if rate is None:
        return MISSING
    cell = Cell(rate.value, detail="{:.2f}–{:.2f}".format(*rate.interval))
    kept = rate.value <= HIGHEST_LEVEL + 1e-9 and not rate.broken
    return _expected(cell, f"≤ {HIGHEST_LEVEL}", kept) if method == DEFAULT else cell


def _power_cell(rate: Rate | None, expected: float | None, detail: str, tolerance: float) -> Cell:
    if rate is None:
        return MISSING
    cell = Cell(rate.value, detail=detail)
    return cell if expected is None else _expected(cell, f"≥ {expected:.2f}", rate.value >= expected - tolerance - 1e-9)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw levels on the left, power on the right: a line per scenario, a mark per method."""
    from matplotlib.lines import Line2D

    found, p = _Rates(experiment, results), experiment.parameters
    longest = max(len(p["nulls"]), len(p["alternatives"]))
    figure.set_size_inches(14.0, 2.2 + 0.27 * longest)
    left, right = figure.subplots(1, 2)
    for axes, names, title in (
        (left, p["nulls"], "Level: only x changes; nothing should lie right of the line"),
        (right, p["alternatives"], "Power: p(y|x) changes; hollow: not valid in nulls of the kind"),
    ):
        for place, name in enumerate(names):
            _draw_line(axes, found, name, place, is_null=axes is left)
        axes.set_yticks(range(len(names)), names, fontsize=8.5)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_title(title, fontsize=10, loc="left")
        axes.set_xlabel("share of trials that reject at level 0.05")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0, pad=9)
        axes.grid(axis="y", color="#e6e9ee", lw=0.8)
        axes.set_axisbelow(True)
        axes.set_xlim(-0.02, 1.02)
    # A root scale: levels of 0.05 and 0.10 are told apart, and 1 still fits.
    left.set_xscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0)), np.square))
    left.set_xlim(0, 1.02)
    left.set_xticks([0.01, 0.05, 0.1, 0.2, 0.5, 1], ["0.01", "0.05", "0.1", "0.2", "0.5", "1"])
    left.axvline(HIGHEST_LEVEL, color="#9aa3af", lw=1, ls="--")
    handles = [Line2D([], [], ls="", label=method, **_mark(method, valid=True)) for method in METHODS]
    figure.legend(handles=handles, loc="outside upper center", ncols=5, frameon=False, fontsize=9)


def _draw_line(axes: Any, found: _Rates, name: str, place: int, *, is_null: bool) -> None:
    # Ours last, on top of the others.
    for method in reversed(METHODS):
        rate = found.rate(name, method)
        if rate is None:
            continue
        if method == DEFAULT and is_null:
            axes.plot(rate.interval, [place, place], color=COLOURS[method], lw=2, solid_capstyle="round", zorder=3)
        valid = is_null or found.is_valid(name, method)
        axes.plot([rate.value], [place], **_mark(method, valid=valid), zorder=4 if method == DEFAULT else 2)


def _mark(method: str, *, valid: bool) -> dict[str, Any]:
    colour = COLOURS[method]
    shape = "D" if method == DEFAULT else "s" if method.startswith("condcs") else "o"
    return {
        "marker": shape,
        "color": colour,
        "ms": 7 if method == DEFAULT else 5,
        "mfc": colour if valid else "none",
        "mew": 1.2,
        "clip_on": False,
    }


EXPERIMENT = Experiment(
    name="levels",
    title="Level and power of the conditional test beside seven rivals",
    reproduces="Beyond the paper: the level holds however x shifts, and the power is that of the best valid rival.",
    parameters={
        "nulls": [s.name for s in NULLS],
        "alternatives": [s.name for s in ALTERNATIVES],
        "dependences": [s.name for s in DEPENDENCES],
        "n_resamples": 500,
        "level": 0.05,
        "rows": None,
        # Two matrices per resample, products of matrices of all rows, and ensembles of trees.
        "share_of_large": {"ContextMMD": 0.25, "KCI": 0.25, "boosted classifier": 0.25},
        # Of 42 exact tests, one is above 0.08 in 200 trials more often than not; in 500 trials hardly ever.
        "share_of_nulls": 2.5,
    },
    quick={
        "nulls": ["correlation, product", "mean, d 5", "binary response", "category and number", "five responses"],
        "alternatives": ["spread", "binary response, log-odds", "slope in a category", "correlation of responses"],
        "dependences": ["curved, d 5", "linear, d 5"],
        "n_resamples": 39,
        "rows": 40,
        "share_of_nulls": 1,
    },
    repeats=200,
    quick_repeats=2,
    seed=20_250_715,
    paper={},
    tolerance=0.05,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
