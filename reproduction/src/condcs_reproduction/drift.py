"""Drift of a relation: how soon detectors notice it, how often they miss it, and how often they raise a false alarm.

An experiment beyond the paper. `ConditionalDriftDetector` looks at rows, and so do windows of them that are compared
with the reference by conditional CS or ContextMMD. The detectors of river look at the errors of a model that was fitted
on the first half of the reference, as they are made for: at their size, or at whether they are large.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.spatial.distance import cdist

from condcs._core.arrays import BoolArray, FloatArray
from condcs._core.errors import CondcsWarning
from condcs.drift import ConditionalDriftDetector
from condcs_reproduction.divergence_window import DivergenceWindow
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.series_clustering import is_present
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

Rows = tuple[FloatArray, FloatArray]
Watch = Callable[[FloatArray, FloatArray], BoolArray]

OURS, WINDOW, CONTEXT = "e-detector", "divergence of a window", "ContextMMD of a window"
RIVER = ("ADWIN", "DDM", "HDDM", "KSWIN", "Page-Hinkley")
METHODS = (OURS, WINDOW, CONTEXT, *RIVER)
SIMULATED = ("abrupt", "gradual", "local", "quieter", "inputs only")
REAL = {
    "electricity": ("later market", "later inputs", "high demand"),
    "california_housing": ("northwards", "northern inputs"),
}
NO_DRIFT = ("inputs only", "later inputs", "northern inputs")
"""Kinds in which inputs move and the relation stays."""
KINDS = {"simulated": SIMULATED, **REAL}
NULLS = (
    "independent",
    "inputs shift",
    "inputs AR(.9)",
    "inputs seasonal",
    "unequal noise, inputs shift",
    "labels, inputs shift",
    "residuals AR(.5)",
    "residuals AR(.8)",
    "both AR(.9), AR(.5)",
)
REFERENCES = (300, 1200, 5000)
DAYS = "electricity, odd days after even"
CONTEXT_STREAMS = 5
"""Streams that ContextMMD sees, which takes as long as all other methods together."""
RIVAL_NULLS, RIVAL_STREAMS = ("inputs shift", "inputs AR(.9)", "inputs seasonal", "residuals AR(.5)"), 5
"""Nulls for all methods, and how many of their streams the others see; the two slowest see one."""
SLOWEST = (CONTEXT, "KSWIN")
COLOURS = ("#2b6cb0", "#7fb0de", "#d9621c", "#8a6d3b", "#2f855a", "#6b46c1", "#a0aec0", "#d53f8c")

_NEIGHBOURS = 15
_LARGE = 0.9
_HALF_HOURS = 48
_EARLY_DAYS = 187


def case_of(method: str, data: str) -> str:
    """Return the name of a case."""
    return f"{method}; {data}"


def tasks(parameters: Parameters, repeats: int) -> Sequence[Task]:
    """All methods on all data, where those of a repeat see the same rows; our own on every null, others on some."""
    data = ["simulated", *(name for name in REAL if is_present(name))]
    found = [
        Task(case_of(method, name), repeat, (place, repeat), {"method": method, "data": name})
        for repeat in range(repeats)
        for place, name in enumerate(data)
        for method in METHODS
        if method != CONTEXT or repeat < CONTEXT_STREAMS
    ]
    found += [
        Task(case_of(kind, str(size)), repeat, (9, place, size, repeat), {"null": kind, "reference": size})
        for repeat in range(repeats)
        for place, kind in enumerate(NULLS)
        for size in parameters["references"]
    ]
    size = parameters["reference"]
    found += [
        Task(
            case_of(method, kind),
            repeat,
            (9, NULLS.index(kind), size, repeat),
            {"method": method, "null": kind, "reference": size},
        )
        for repeat in range(repeats)
        for kind in RIVAL_NULLS
        for method in METHODS[1:]
        if repeat < (1 if method in SLOWEST else RIVAL_STREAMS)
    ]
    if is_present("electricity"):
        found += [Task(case_of(method, DAYS), 0, (8,), {"method": method, "data": DAYS}) for method in METHODS]
    return found


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Make a detector on one reference, and let it watch a quiet stream and then, afresh, each kind of drift."""
    if "null" in arguments:
        reference = make_null(arguments["null"], arguments["reference"], rng, reference=True)
        stream = make_null(arguments["null"], parameters["null_rows"], rng, reference=False)
        if "method" in arguments:
            watch = _detector(arguments["method"], reference, parameters)()
            return {"false": int(watch(*stream).sum()), "quiet": len(stream[0])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CondcsWarning)
            detector = ConditionalDriftDetector(*reference, expected_run_length=parameters["run_length"])
        promises = detector.promises
        alarms = int(detector.update_many(*stream).sum())
        return {"false": alarms, "quiet": len(stream[0]) - detector.counts["learned"], "promises": promises}
    reference, quiet, drifts = _DATA[arguments["data"]](parameters, rng)
    fresh = _detector(arguments["method"], reference, parameters)
    found: Result = {"false": int(fresh()(*quiet).sum()), "quiet": len(quiet[0]), "delays": {}, "moved": {}}
    for name, rows in drifts.items():
        watch = fresh()
        before = parameters["before"]
        watch(quiet[0][:before], quiet[1][:before])
        raised = np.flatnonzero(watch(*rows))
        if name in NO_DRIFT:
            found["moved"][name] = {"false": len(raised), "quiet": len(rows[0])}
        else:
            found["delays"][name] = int(raised[0]) + 1 if len(raised) else None
    return found


def summarise(experiment: Experiment, results: Results) -> Report:
    """Mean delays, shares of missed drifts, and false alarms."""
    grids = []
    for data, kinds in KINDS.items():
        if not any(case_of(method, data) in results for method in METHODS):
            continue
        columns = [
            *(f"{k}: false alarms" if k in NO_DRIFT else k for k in kinds),
            "quiet rows: false alarms",
        ]
        cells: dict[str, dict[str, Cell]] = {}
        for method in METHODS:
            repeats = list(results.get(case_of(method, data), {}).values())
            row = {
                column: _rate_cell([r["moved"][kind] for r in repeats])
                if kind in NO_DRIFT
                else _delay_cell(repeats, kind)
                for column, kind in zip(columns, kinds, strict=False)
            }
            row[columns[-1]] = _rate_cell(repeats)
            cells[method] = row
        title = f"Rows until the alarm, mean, and share missed; false alarms per 10,000 rows: {data}"
        grids.append(Grid(title, "detector", columns, cells))
    sizes = [str(size) for size in experiment.parameters["references"]]
    rates = {
        kind: {size: _rate_cell(list(results.get(case_of(kind, size), {}).values())) for size in sizes}
        for kind in NULLS
    }
    grids.append(Grid(f"False alarms of the {OURS} per 10,000 rows, by rows of the reference", "null", sizes, rates))
    size = str(experiment.parameters["reference"])
    nulls = {
        m: {
            kind: _rate_cell(list(results.get(case_of(kind, size) if m == OURS else case_of(m, kind), {}).values()))
            for kind in RIVAL_NULLS
        }
        for m in METHODS
    }
    title = f"False alarms of all detectors per 10,000 rows, references of {size} rows"
    grids.append(Grid(title, "detector", list(RIVAL_NULLS), nulls))
    days = {m: {"alarms": _count_cell(list(results.get(case_of(m, DAYS), {}).values()))} for m in METHODS}
    grids.append(Grid(f"Alarms in the order of time: {DAYS}", "detector", ["alarms"], days))
    after, run_length = experiment.parameters["after"], experiment.parameters["run_length"]
    notes = [
        f"An experiment beyond the paper. A drift is missed if there is no alarm within {after} rows; delays are means "
        "over those that are found. Where only inputs move, the relation does not drift, and all alarms are false.",
        f"The {OURS} and the windows are set to one false alarm in {run_length:,} rows; the others have river's own "
        "settings and watch the errors of a nearest-neighbour model of the reference.",
        "Electricity: rows are shuffled within periods, so that a period is stationary. Later market: after rows of "
        "the first period come rows of the last (inputs shift too). Later inputs: rows of the first period that are "
        "nearest to the inputs of those, each taken once. High demand: labels are swapped in the upper "
        "fifth of the demand. Odd days after even: the first 187 days in the order of time, half of them as reference. "
        "Housing: prices given income, age and occupancy; after the south of California comes its north; northern "
        "inputs are rows of the south nearest to the inputs of the north.",
        "ContextMMD is published as a test of two samples; here its statistic is that of a window, made anew every five"
        " rows, with the threshold of streams of reference rows. It takes as long as all other methods together, and "
        f"sees the first {CONTEXT_STREAMS} streams of each kind only.",
        f"Of the nulls for all detectors the others see {RIVAL_STREAMS} streams, KSWIN and ContextMMD 1, of "
        f"{experiment.parameters['null_rows']:,} rows each.",
    ]
    return Report(experiment.title, grids, notes, beyond_paper=True)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw every delay as a dot, missed drifts on a line of their own."""
    panels = [
        (data, [kind for kind in kinds if kind not in NO_DRIFT])
        for data, kinds in KINDS.items()
        if any(case_of(method, data) in results for method in METHODS)
    ]
    if not panels:  # nulls only
        figure.text(0.5, 0.5, "No delays were measured.", ha="center")
        return
    figure.set_size_inches(5 + 3 * len(panels), 4.4)
    made = np.atleast_1d(figure.subplots(1, len(panels), sharey=True, width_ratios=[len(kinds) for _, kinds in panels]))
    after = experiment.parameters["after"]
    rng = np.random.default_rng(0)
    for axes, (data, kinds) in zip(made, panels, strict=True):
        for m, (method, colour) in enumerate(zip(METHODS, COLOURS, strict=True)):
            repeats = results.get(case_of(method, data), {}).values()
            for k, kind in enumerate(kinds):
                delays = [r["delays"][kind] for r in repeats]
                heights = [1.12 * after if d is None else d for d in delays]
                at = k + 0.1 * (m - 3.5) + rng.uniform(-0.04, 0.04, len(heights))
                axes.plot(at, heights, "o", color=colour, ms=3.5, alpha=0.6, mew=0, label=method if k == 0 else None)
        axes.axhline(1.05 * after, color="#c9ced6", lw=1)
        axes.set_xticks(range(len(kinds)), [k.replace(" ", "\n") for k in kinds], fontsize=9)
        axes.set_title(data.replace("_", " "), fontsize=10, loc="left")
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


def _rate_cell(repeats: Sequence[Mapping[str, Any]]) -> Cell:
    if not repeats:
        return MISSING
    rate = 10_000 * sum(r["false"] for r in repeats) / sum(r["quiet"] for r in repeats)
    return Cell(float(rate), error=_error([10_000 * r["false"] / r["quiet"] for r in repeats]), digits=2)


def _count_cell(repeats: Sequence[Mapping[str, Any]]) -> Cell:
    return Cell(float(repeats[0]["false"]), detail=f"in {repeats[0]['quiet']:,}", digits=0) if repeats else MISSING


def _error(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _detector(method: str, reference: Rows, parameters: Parameters) -> Callable[[], Watch]:
    """Return a function that makes fresh detectors: each takes rows and says which raised an alarm."""
    if method == OURS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CondcsWarning)
            state = ConditionalDriftDetector(*reference, expected_run_length=parameters["run_length"]).state_dict()
        return lambda: ConditionalDriftDetector.from_state_dict(state).update_many
    if method in (WINDOW, CONTEXT):
        return DivergenceWindow(
            *reference,
            window=parameters["window"],
            run_length=parameters["run_length"],
            streams=parameters["streams"],
            statistic="conditional_cs" if method == WINDOW else "context_mmd",
        ).fresh
    return _river(method, reference)


def _river(method: str, reference: Rows) -> Callable[[], Watch]:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # river's own types are not complete.
    river: Any = import_module("river.drift")
    makers: dict[str, Callable[[], Any]] = {
        "ADWIN": river.ADWIN,
        "DDM": river.binary.DDM,
        # Its name depends on the version.
        "HDDM": getattr(river.binary, "HDDM_A", None) or river.binary.HDDMA,
        "KSWIN": lambda: river.KSWIN(seed=0),
        "Page-Hinkley": river.PageHinkley,
    }
    x, y = reference
    labels = len(np.unique(y)) == 2
    half = len(x) // 2
    model = make_pipeline(StandardScaler(), (KNeighborsClassifier if labels else KNeighborsRegressor)(_NEIGHBOURS))
    model.fit(x[:half], y[:half])

    def errors(rows_x: FloatArray, rows_y: FloatArray) -> FloatArray:
        return np.asarray(np.abs(model.predict(rows_x) - rows_y), np.float64)

    before = errors(x[half:], y[half:])
    large = 0.5 if labels else float(np.quantile(before, _LARGE))
    binary = method in ("DDM", "HDDM")

    def fresh() -> Watch:
        detector = makers[method]()

        def watch(rows_x: FloatArray, rows_y: FloatArray) -> BoolArray:
            alarms = np.zeros(len(rows_x), bool)
            for place, error in enumerate(errors(rows_x, rows_y)):
                detector.update(bool(error > large) if binary else float(error))
                alarms[place] = detector.drift_detected
            return alarms

        # The half of the reference that the model has not seen is the detectors' own reference.
        watch(x[half:], y[half:])
        return watch

    return fresh


def make_null(kind: str, n: int, rng: np.random.Generator, *, reference: bool) -> Rows:
    """Simulate rows whose relation never changes; inputs that shift do so after the reference."""
    x, noise = rng.normal(size=(n, 3)), 0.5 * rng.normal(size=n)
    if "inputs shift" in kind and not reference:
        x[:, 0] += 0.7
    if kind.startswith(("inputs AR", "both")):
        x = _autoregressive(rng.normal(size=(n + 200, 3)), 0.9)
    if kind == "inputs seasonal":
        x[:, 0] = 0.6 * x[:, 0] + 0.8 * np.sin(2 * np.pi * np.arange(n) / 500)
    if kind.startswith("unequal noise"):
        noise *= np.exp(0.7 * x[:, 0])
    for part in (".5", ".8"):
        if kind.endswith(f"AR({part})"):
            noise = 0.5 * _autoregressive(rng.normal(size=n + 200), float(part))
    expected = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]
    if kind.startswith("labels"):
        return x, (rng.random(n) < 1 / (1 + np.exp(-2 * expected))).astype(np.float64)
    return x, expected + noise


def _autoregressive(innovations: FloatArray, coefficient: float) -> FloatArray:
    made = lfilter([1.0], [1.0, -coefficient], innovations * np.sqrt(1 - coefficient**2), axis=0)
    return np.asarray(made[200:])


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
    turned: BoolArray | None = None,
    raised: float = 0.0,
    noise: float = 0.5,
    shift: float = 0.0,
) -> Rows:
    x = rng.normal(size=(n, 3))
    x[:, 0] += shift
    slope = 0.5 if turned is None else np.where(turned, -0.5, 0.5)
    y = np.sin(2 * x[:, 0]) + slope * x[:, 1] + raised * (x[:, 0] > 0.8) + noise * rng.normal(size=n)
    return x, y


def _market() -> Rows:
    from condcs_reproduction.data import load

    data = load("electricity")
    names = [str(name) for name in data.feature_names]
    x = np.asarray(data.X)[:, [names.index(name) for name in ("period", "nswprice", "nswdemand")]]
    return x, np.asarray(data.y, np.float64)


def _electricity(parameters: Parameters, rng: np.random.Generator) -> tuple[Rows, Rows, dict[str, Rows]]:
    """Half-hours of the first 15,000 as the reference and the quiet stream, of the last 15,000 as the drift."""
    x, y = _market()
    n, quiet, after = parameters["reference"], parameters["quiet"], parameters["after"]
    early, late = rng.permutation(15_000), rng.permutation(15_000) + len(x) - 15_000
    taken = [early[:n], early[n : n + quiet], early[n + quiet : n + quiet + after]]
    turned = y[taken[2]].copy()
    high = x[taken[2], 2] > np.quantile(x[early, 2], 0.8)
    turned[high] = 1 - turned[high]
    others = early[n + quiet + after :]
    drifts = {
        "later market": (x[late[:after]], y[late[:after]]),
        "later inputs": nearest_rows((x[others], y[others]), x[late[:after]]),
        "high demand": (x[taken[2]], turned),
    }
    return (x[taken[0]], y[taken[0]]), (x[taken[1]], y[taken[1]]), drifts


def _days(parameters: Parameters, rng: np.random.Generator) -> tuple[Rows, Rows, dict[str, Rows]]:
    """Even days as the reference, odd days as the stream, as they came."""
    x, y = _market()
    first = np.arange(_EARLY_DAYS * _HALF_HOURS)
    odd = first // _HALF_HOURS % 2 == 1
    even, other = first[~odd], first[odd]
    return (x[even], y[even]), (x[other], y[other]), {}


def _housing(parameters: Parameters, rng: np.random.Generator) -> tuple[Rows, Rows, dict[str, Rows]]:
    from condcs_reproduction.data import load

    data = load("california_housing")
    names = [str(name) for name in data.feature_names]
    columns = [names.index(name) for name in ("MedInc", "HouseAge", "AveOccup")]
    x, y, latitude = np.asarray(data.X)[:, columns], np.asarray(data.y), np.asarray(data.X)[:, names.index("Latitude")]
    south, north = (rng.permutation(np.flatnonzero(own)) for own in (latitude < 36, latitude >= 36))
    n, quiet, after = parameters["reference"], parameters["quiet"], parameters["after"]
    parts = south[:n], south[n : n + quiet], north[:after]
    reference, stream, drift = ((x[own], y[own]) for own in parts)
    others = south[n + quiet :]
    return reference, stream, {"northwards": drift, "northern inputs": nearest_rows((x[others], y[others]), drift[0])}


def nearest_rows(rows: Rows, inputs: FloatArray) -> Rows:
    """Return the row that is nearest to each of the inputs, none of them twice."""
    x, y = rows
    distances = cdist(inputs / x.std(axis=0), x / x.std(axis=0))
    chosen = []
    for own in distances:
        chosen.append(int(np.argmin(own)))
        distances[:, chosen[-1]] = np.inf
    return x[chosen], y[chosen]


_DATA = {"simulated": _simulated, "electricity": _electricity, "california_housing": _housing, DAYS: _days}

EXPERIMENT = Experiment(
    name="drift",
    title="Drift of a relation: delay, misses and false alarms",
    reproduces="Beyond the paper: the drift detector beside two sliding windows and five detectors of river.",
    parameters={
        "reference": 1200,
        "window": 100,
        "run_length": 10_000,
        "streams": 100,
        "quiet": 5000,
        "before": 200,
        "after": 1500,
        "ramp": 800,
        "references": REFERENCES,
        "null_rows": 20_000,
    },
    quick={
        "reference": 240,
        "window": 40,
        "run_length": 2000,
        "streams": 20,
        "quiet": 300,
        "before": 50,
        "after": 200,
        "references": (240,),
        "null_rows": 500,
    },
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
