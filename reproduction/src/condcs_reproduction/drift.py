"""Drift of a relation: how soon detectors notice, how often they miss it, and how often they cry for nothing.

An experiment beyond the paper. `ConditionalDriftDetector` looks at rows; ADWIN and DDM (river) look at the errors of a
model that was fitted on the first half of the reference, as they are made for: ADWIN at their size, DDM at whether they
are large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from condcs.drift import ConditionalDriftDetector, ShiftControl
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.series_clustering import is_present
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

FloatArray = np.ndarray[Any, Any]
Rows = tuple[FloatArray, FloatArray]
Watch = Callable[[FloatArray, FloatArray], FloatArray]

METHODS = ("conditional CS", "conditional CS, no controls", "ADWIN", "DDM")
SIMULATED = ("abrupt", "gradual", "local", "quieter", "inputs only")
ELECTRICITY = ("later market", "high demand")
COLOURS = ("#2b6cb0", "#7fb0de", "#d9621c", "#8a6d3b")

_NEIGHBOURS = 15
_LARGE = 0.9
_LABEL_WIDTH = 0.5


def case_of(method: str, data: str) -> str:
    """Return the name of a case."""
    return f"{method}; {data}"


def tasks(parameters: Parameters, repeats: int) -> Sequence[Task]:
    """All methods on both data; those of a repeat see the same rows."""
    data = ["simulated", *(["electricity"] if is_present("electricity") else [])]
    return [
        Task(case_of(method, name), repeat, (place, repeat), {"method": method, "data": name})
        for repeat in range(repeats)
        for place, name in enumerate(data)
        for method in METHODS
    ]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Make a detector on one reference, and let it watch a quiet stream and then, afresh, each kind of drift."""
    make = _simulated if arguments["data"] == "simulated" else _electricity
    reference, quiet, drifts = make(parameters, rng)
    fresh = _detector(arguments["method"], reference, parameters, labels=arguments["data"] == "electricity")
    found: Result = {"false": int(fresh()(*quiet).sum()), "quiet": len(quiet[0]), "delays": {}}
    for name, rows in drifts.items():
        watch = fresh()
        # Rows before the drift, so that the window is full of quiet ones when it comes.
        before = parameters["before"]
        watch(quiet[0][:before], quiet[1][:before])
        alarms = np.flatnonzero(watch(*rows))
        found["delays"][name] = int(alarms[0]) + 1 if len(alarms) else None
    return found


def summarise(experiment: Experiment, results: Results) -> Report:
    """Mean delays, shares of missed drifts, and false alarms."""
    grids = []
    for data, kinds in (("simulated", SIMULATED), ("electricity", ELECTRICITY)):
        if not any(case_of(method, data) in results for method in METHODS):
            continue
        columns = [
            *(k if k != "inputs only" else "inputs only (no drift)" for k in kinds),
            "false alarms per 10,000 rows",
        ]
        cells: dict[str, dict[str, Cell]] = {}
        for method in METHODS:
            repeats = list(results.get(case_of(method, data), {}).values())
            row = {column: _delay_cell(repeats, kind) for column, kind in zip(columns, kinds, strict=False)}
            alarms = [10_000 * r["false"] / r["quiet"] for r in repeats]
            row[columns[-1]] = Cell(float(np.mean(alarms)), error=_error(alarms), digits=1) if alarms else MISSING
            cells[method] = row
        grids.append(Grid(f"Rows until the alarm, mean, and share missed: {data}", "detector", columns, cells))
    after, run_length = experiment.parameters["after"], experiment.parameters["run_length"]
    notes = [
        f"An experiment beyond the paper. A drift is missed if there is no alarm within {after} rows; delays are means "
        "over those that are found. Where only the inputs shift, the relation does not drift: to miss it is right.",
        f"The detectors of this library are set to one false alarm in {run_length:,} rows; ADWIN and DDM have river's "
        "own settings and watch the errors of a nearest-neighbour model of the reference.",
        "Electricity: rows are shuffled within periods, so that a period is stationary. Later market: after rows of "
        "the first period come rows of the last (inputs shift too). High demand: labels are turned round in the upper "
        "fifth of the demand.",
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw every delay as a dot, missed drifts on a line of their own."""
    panels = [
        (data, kinds)
        for data, kinds in (("simulated", SIMULATED), ("electricity", ELECTRICITY))
        if any(case_of(method, data) in results for method in METHODS)
    ]
    figure.set_size_inches(4.2 + 2.9 * len(panels), 4.2)
    made = np.atleast_1d(figure.subplots(1, len(panels), sharey=True, width_ratios=[len(kinds) for _, kinds in panels]))
    after = experiment.parameters["after"]
    rng = np.random.default_rng(0)
    for axes, (data, kinds) in zip(made, panels, strict=True):
        for m, (method, colour) in enumerate(zip(METHODS, COLOURS, strict=True)):
            repeats = results.get(case_of(method, data), {}).values()
            for k, kind in enumerate(kinds):
                delays = [r["delays"][kind] for r in repeats]
                heights = [1.12 * after if d is None else d for d in delays]
                at = k + 0.19 * (m - 1.5) + rng.uniform(-0.06, 0.06, len(heights))
                axes.plot(at, heights, "o", color=colour, ms=4, alpha=0.6, mew=0, label=method if k == 0 else None)
        axes.axhline(1.05 * after, color="#c9ced6", lw=1)
        axes.set_xticks(range(len(kinds)), [k.replace(" ", "\n") for k in kinds], fontsize=9)
        axes.set_title(data, fontsize=10, loc="left")
        axes.set_xlim(-0.6, len(kinds) - 0.4)
        axes.spines[["top", "right"]].set_visible(False)
    ticks = np.linspace(0, after, 6)
    made[0].set_yticks([*ticks, 1.12 * after], [*(f"{t:.0f}" for t in ticks), "no alarm"])
    made[0].set_ylabel("rows until the alarm")
    made[0].set_ylim(0, 1.2 * after)
    figure.legend(*made[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)


def _delay_cell(repeats: Sequence[Mapping[str, Any]], kind: str) -> Cell:
    if not repeats:
        return MISSING
    delays = [r["delays"][kind] for r in repeats]
    found = [d for d in delays if d is not None]
    missed = f"{1 - len(found) / len(delays):.0%}"
    if not found:
        return Cell("no alarm", detail=missed)
    return Cell(float(np.mean(found)), error=_error(found), detail=missed, digits=0)


def _error(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _detector(method: str, reference: Rows, parameters: Parameters, *, labels: bool) -> Callable[[], Watch]:
    """Return a function that makes fresh detectors: each takes rows and says which raised an alarm."""
    if method.startswith("conditional CS"):
        made = ConditionalDriftDetector(
            *reference,
            window=parameters["window"],
            expected_run_length=parameters["run_length"],
            shift_control=ShiftControl(controls=0 if method.endswith("no controls") else 2),
            bandwidth_y=_LABEL_WIDTH if labels else "median",
            n_streams=parameters["streams"],
            rng=0,
        )
        state = made.state_dict()
        return lambda: ConditionalDriftDetector.from_state_dict(state).update_many
    return _river(method, reference, labels=labels)


def _river(method: str, reference: Rows, *, labels: bool) -> Callable[[], Watch]:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # river's own types are not complete.
    river: Any = import_module("river.drift")
    adwin, ddm = river.ADWIN, river.binary.DDM
    x, y = reference
    half = len(x) // 2
    model = make_pipeline(StandardScaler(), (KNeighborsClassifier if labels else KNeighborsRegressor)(_NEIGHBOURS))
    model.fit(x[:half], y[:half])

    def errors(rows_x: FloatArray, rows_y: FloatArray) -> FloatArray:
        return np.asarray(np.abs(model.predict(rows_x) - rows_y), np.float64)

    before = errors(x[half:], y[half:])
    large = 0.5 if labels else float(np.quantile(before, _LARGE))

    def fresh() -> Watch:
        detector = adwin() if method == "ADWIN" else ddm()

        def watch(rows_x: FloatArray, rows_y: FloatArray) -> FloatArray:
            alarms = np.zeros(len(rows_x), bool)
            for place, error in enumerate(errors(rows_x, rows_y)):
                detector.update(float(error) if method == "ADWIN" else bool(error > large))
                alarms[place] = detector.drift_detected
            return alarms

        # The half of the reference that the model has not seen is the detectors' own reference.
        watch(x[half:], y[half:])
        return watch

    return fresh


def _simulated(parameters: Parameters, rng: np.random.Generator) -> tuple[Rows, Rows, dict[str, Rows]]:
    after = parameters["after"]
    reference = _rows(parameters["reference"], rng)
    quiet = _rows(parameters["quiet"], rng)
    changed = np.arange(after) >= rng.uniform(0, parameters["ramp"], after)
    drifts = {
        "abrupt": _rows(after, rng, turned=np.ones(after, bool)),
        "gradual": _rows(after, rng, turned=changed),
        "local": _rows(after, rng, raised=1.0),
        "quieter": _rows(after, rng, noise=0.2),
        "inputs only": _rows(after, rng, shift=0.7),
    }
    return reference, quiet, drifts


def _rows(
    n: int,
    rng: np.random.Generator,
    *,
    turned: FloatArray | None = None,
    raised: float = 0.0,
    noise: float = 0.5,
    shift: float = 0.0,
) -> Rows:
    x = rng.normal(size=(n, 3))
    x[:, 0] += shift
    slope = 0.5 if turned is None else np.where(turned, -0.5, 0.5)
    y = np.sin(2 * x[:, 0]) + slope * x[:, 1] + raised * (x[:, 0] > 0.8) + noise * rng.normal(size=n)
    return x, y


def _electricity(parameters: Parameters, rng: np.random.Generator) -> tuple[Rows, Rows, dict[str, Rows]]:
    """Half-hours of the first 15,000 as the reference and the quiet stream, of the last 15,000 as the drift."""
    from condcs_reproduction.data import load

    data = load("electricity")
    names = [str(name) for name in data.feature_names]
    x = np.asarray(data.X)[:, [names.index(name) for name in ("period", "nswprice", "nswdemand")]]
    y = np.asarray(data.y, np.float64)
    n, quiet, after = parameters["reference"], parameters["quiet"], parameters["after"]
    early, late = rng.permutation(15_000), rng.permutation(15_000) + len(x) - 15_000
    taken = [early[:n], early[n : n + quiet], early[n + quiet : n + quiet + after]]
    turned = y[taken[2]].copy()
    high = x[taken[2], 2] > np.quantile(x[early, 2], 0.8)
    turned[high] = 1 - turned[high]
    drifts = {"later market": (x[late[:after]], y[late[:after]]), "high demand": (x[taken[2]], turned)}
    return (x[taken[0]], y[taken[0]]), (x[taken[1]], y[taken[1]]), drifts


EXPERIMENT = Experiment(
    name="drift",
    title="Drift of a relation: delay, misses and false alarms",
    reproduces="Beyond the paper: conditional CS over a sliding window beside ADWIN and DDM.",
    parameters={
        "reference": 1200,
        "window": 100,
        "run_length": 10_000,
        "streams": 300,
        "quiet": 5000,
        "before": 200,
        "after": 1500,
        "ramp": 800,
    },
    quick={"reference": 240, "window": 40, "run_length": 2000, "streams": 40, "quiet": 300, "before": 50, "after": 200},
    repeats=20,
    quick_repeats=1,
    seed=808,
    paper={},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
