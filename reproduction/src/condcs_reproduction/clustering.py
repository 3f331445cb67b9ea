"""Clustering without labels: the settings chosen by `condcs.timeseries.cluster`, beside what users would take instead.

The data sets beyond the paper's and all settings of the rivals were written down before the first run: sets that aeon
ships, and simulated series whose classes differ in their dynamics only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray, LabelArray
from condcs._core.printable import counted
from condcs.timeseries._baseline_distances import BASELINES, baseline_pairwise_distance
from condcs.timeseries._clustering import (
    adjusted_rand_index,
    check_distances,
    labels_by_affinity,
    labels_by_medoids,
    local_affinity,
    normalized_mutual_information,
)
from condcs.timeseries._collection import check_collection
from condcs.timeseries._series_clusters import cluster, with_scaling
from condcs_reproduction.report import MISSING, Cell, Grid, Report
from condcs_reproduction.series_clustering import PAPER, PAPER_ROWS, TITLES, collection, is_present
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

Series = list[FloatArray]

METHODS = {
    "votes": "conditional CS, votes",
    "dtw": "DTW",
    "msm": "MSM",
    "twed": "TWED",
    "tck": "TCK",
    "kshape": "k-Shape",
    "kasba": "KASBA",
    "catch22": "catch22",
    "ar": "AR coefficients",
    "euclid": "k-means",
}
"""What is compared. The first five are clustered by both algorithms, the others by their own means."""

WHOLE = "all series"
"""Conditional CS on all series of the paper's sets, beside the paper's own numbers; the methods share a draw."""

WHOLE_TITLE = "conditional CS, all series"

CHOSEN_K = "k chosen"
"""Conditional CS with ``k="auto"`` on a draw of a set."""

DRAW = "draw"
"""Conditional CS on a draw of half the series of each class: how much a result on one collection says of the next."""

COFFEE = "coffee_all"
"""The paper's Coffee is one half of the archive's; this is both, 56 series."""

SHAPES = ("dtw", "msm", "twed", "kshape", "kasba", "euclid")

LOADERS = {
    "arrow_head": "load_arrow_head",
    "basic_motions": "load_basic_motions",
    "gun_point": "load_gunpoint",
    "italy_power_demand": "load_italy_power_demand",
    "japanese_vowels": "load_japanese_vowels",
    "osu_leaf": "load_osuleaf",
    "pickup_gesture": "load_pickup_gesture_wiimoteZ",
    "acsf1": "load_acsf1",
}
"""Sets that aeon's package ships, and what loads them."""

FURTHER = {
    "arrow_head": "ArrowHead",
    "basic_motions": "BasicMotions",
    "gun_point": "GunPoint",
    "italy_power_demand": "ItalyPowerDemand",
    "japanese_vowels": "JapaneseVowels",
    "osu_leaf": "OSULeaf",
    "pickup_gesture": "PickupGestureWiimoteZ",
    "acsf1": "ACSF1",
    "sim_ar": "simulated: AR(2), 4 frequencies",
    "sim_maps": "simulated: 4 chaotic maps",
    "sim_threshold": "simulated: linear and threshold AR",
    "sim_volatility": "simulated: 3 kinds of volatility",
}


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """Every method on every set that is at hand."""
    sets = [*parameters["sets"], *parameters["further"]]
    order = [*PAPER_ROWS, *FURTHER, COFFEE]
    whole = (*PAPER_ROWS, COFFEE)
    cases = [
        (name, method)
        for name in sets
        for method in (*parameters["methods"], *([WHOLE] if name in whole else []), CHOSEN_K)
    ]
    cases += [(COFFEE, WHOLE)] if COFFEE in parameters["drawn_sets"] else []
    planned = [
        Task(f"{name}; {method}", repeat, (order.index(name), repeat), {"data": name, "method": method})
        for repeat in range(repeats)
        for name, method in cases
        if name in FURTHER or is_present(name)
    ]
    return planned + [
        Task(f"{name}; {DRAW}", draw, (order.index(name), 0, draw), {"data": name, "method": DRAW})
        for name in parameters["drawn_sets"]
        if is_present(name)
        for draw in range(parameters["draws"])
    ]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Cluster one set by one method, at the true number of clusters or a chosen one."""
    method = arguments["method"]
    X, y = load(arguments["data"], parameters, whole=method in (WHOLE, DRAW))
    kept: IntArray = np.arange(len(y))
    if method == DRAW:
        kept = half_of_each_class(y, parameters["most_drawn"], rng)
    elif method == CHOSEN_K:
        # Sets are sorted by class: the first ones would be of one class.
        kept = np.sort(rng.permutation(len(y))[: parameters["most_drawn"]])
    X, y = [X[i] for i in kept], y[kept]
    k, seed = len(np.unique(y)), int(rng.integers(2**31))
    if method == CHOSEN_K:
        chosen = cluster(X, "auto", n_jobs=1, rng=seed)
        return {
            "k": k,
            "chosen": len(chosen.medoids),
            "marks": {str(n): _rounded(m) for n, m in chosen.k_marks.items()},
        }
    if method == DRAW:
        found = cluster(X, k, n_jobs=1, rng=seed)
        rival = found.rival
        return {
            "n": len(y),
            "nmi": _rounded(normalized_mutual_information(y, found.labels)),
            "agreement": _rounded(found.agreement),
            "rival": None if rival is None else _rounded(normalized_mutual_information(y, rival.labels)),
        }
    labels, more = labels_of(method, X, k, seed, parameters)
    return {
        **{how: {"nmi": _rounded(normalized_mutual_information(y, found))} for how, found in labels.items()},
        "ari": {how: _rounded(adjusted_rand_index(y, found)) for how, found in labels.items()},
        **more,
    }


def half_of_each_class(y: LabelArray, most: int, rng: np.random.Generator) -> IntArray:
    """Draw half of the series of each class, at least one, or less of all if these are more than `most`."""
    share = min(0.5, most / len(y))
    parts = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    return np.sort(np.concatenate([part[: max(1, round(share * len(part)))] for part in parts]))


def _rounded(value: float) -> float:
    return round(float(value), 6)


def load(name: str, parameters: Parameters, *, whole: bool = False) -> tuple[Series, LabelArray]:
    """Return the series (channels, times) and classes of a set, or of a part that is drawn with a fixed seed."""
    if name in (*PAPER_ROWS, COFFEE):
        X, y = collection(parameters, name)
        series = list(X)
    elif name in LOADERS:
        import aeon.datasets

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the next release of aeon ships fewer sets
            loaded, labels = getattr(aeon.datasets, LOADERS[name])(split=None)
        series = [np.asarray(one, dtype=float) for one in loaded]
        if name == "acsf1":
            # 1,460 time points: averages of four neighbours.
            series = [one.reshape(one.shape[0], -1, 4).mean(axis=2) for one in series]
        y = np.unique(np.asarray(labels), return_inverse=True)[1]
    else:
        series, y = simulated(name, parameters["per_class"], np.random.default_rng(0))
    most = len(series) if whole else parameters["most_series"]
    kept = np.sort(np.random.default_rng(0).permutation(len(series))[:most])
    return [series[i] for i in kept], y[kept]


def simulated(name: str, per_class: int, rng: np.random.Generator) -> tuple[Series, LabelArray]:
    """Return series of 150 values whose classes differ in how the next value follows from the last ones."""
    makers: Mapping[str, Callable[[np.random.Generator], tuple[FloatArray, LabelArray]]] = {
        "sim_ar": lambda g: _autoregressions(per_class, g),
        "sim_maps": lambda g: _maps(per_class, g),
        "sim_threshold": lambda g: _thresholds(per_class, g),
        "sim_volatility": lambda g: _volatilities(per_class, g),
    }
    X, y = makers[name](rng)
    return [series[None] for series in X], y


_LENGTH, _BURN = 150, 100


def _autoregressions(per_class: int, rng: np.random.Generator) -> tuple[FloatArray, LabelArray]:
    y = np.repeat(np.arange(4), per_class)
    a = 2 * 0.9 * np.cos(np.array([0.3, 0.6, 0.9, 1.2]))[y]
    X = np.zeros((len(y), _BURN + _LENGTH))
    for t in range(2, X.shape[1]):
        X[:, t] = a * X[:, t - 1] - 0.81 * X[:, t - 2] + rng.normal(size=len(y))
    return X[:, _BURN:], y


def _maps(per_class: int, rng: np.random.Generator) -> tuple[FloatArray, LabelArray]:
    y = np.repeat(np.arange(4), per_class)
    X = np.zeros((len(y), _BURN + _LENGTH))
    X[:, :2] = rng.uniform(0.1, 0.4, size=(len(y), 2))
    for t in range(2, X.shape[1]):
        x, before = X[:, t - 1], X[:, t - 2]
        ways = [
            3.9 * x * (1 - x),
            0.999 * (1 - np.abs(1 - 2 * x)),
            0.95 * np.sin(np.pi * x),
            3.6 * x * (1 - x) + 0.05 * before,
        ]
        X[:, t] = np.clip(np.choose(y, ways), 1e-6, 1 - 1e-6)
    return X[:, _BURN:] + 0.02 * rng.normal(size=(len(y), _LENGTH)), y


def _thresholds(per_class: int, rng: np.random.Generator) -> tuple[FloatArray, LabelArray]:
    y = np.repeat(np.arange(3), per_class)
    X = np.zeros((len(y), _BURN + _LENGTH))
    for t in range(1, X.shape[1]):
        x = X[:, t - 1]
        ways = [0.5 * x, np.where(x > 0, 0.9, -0.4) * x, np.where(x > 0, -0.4, 0.9) * x]
        X[:, t] = np.choose(y, ways) + rng.normal(size=len(y))
    return X[:, _BURN:], y


def _volatilities(per_class: int, rng: np.random.Generator) -> tuple[FloatArray, LabelArray]:
    y = np.repeat(np.arange(3), per_class)
    X = np.zeros((len(y), _BURN + _LENGTH))
    for t in range(1, X.shape[1]):
        x = X[:, t - 1]
        spread = np.choose(y, [np.ones(len(y)), np.sqrt(0.3 + 0.7 * x**2), np.where(x < 0, 1.7, 0.4)])
        X[:, t] = spread * rng.normal(size=len(y))
    return X[:, _BURN:], y


def labels_of(
    method: str, X: Series, k: int, seed: int, parameters: Parameters
) -> tuple[dict[str, LabelArray], dict[str, Any]]:
    """Return the clusters by one method, for one or both algorithms, and what else it says."""
    if method in ("votes", WHOLE):
        found = cluster(X, k, n_jobs=1, rng=seed)
        votes = [f"K={v.order}{'+t' * v.position}, c={v.factor:g}, {v.scaling}" for v in found.votes]
        more = {"votes": votes, "agreement": _rounded(found.agreement), "tried": len(found.tried)}
        # What method="k_medoids" returns, without measuring all pairs again.
        medoids = labels_by_medoids(1.0 - found.together, k, np.random.default_rng(seed))
        return {"spectral": found.labels, "k_medoids": medoids}, more
    common = with_scaling(check_collection("X", X, "nct", "drop"), "global")
    series = [common.series(i).T for i in range(common.count)]
    generator = np.random.default_rng(seed)
    if method in BASELINES:
        options = {**parameters["tck"], "rng": seed} if method == "tck" else {}
        given: Any = equal_lengths(series) if method == "tck" else series
        D = check_distances("D", baseline_pairwise_distance(given, measure=method, **options))
        return {
            "spectral": labels_by_affinity(local_affinity(D), k, generator),
            "k_medoids": labels_by_medoids(D, k, generator),
        }, {}
    return {"own": _by_own_means(method, series, k, seed)}, {}


def _by_own_means(method: str, series: Series, k: int, seed: int) -> LabelArray:
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        # Compilers and iterations of other packages have warnings of their own.
        warnings.simplefilter("ignore")
        if method == "kshape":
            from aeon.clustering import KShape

            return np.asarray(KShape(k, random_state=seed, n_init=5).fit_predict(equal_lengths(series)))
        if method == "kasba":
            from aeon.clustering import KASBA

            return np.asarray(KASBA(k, random_state=seed).fit_predict(equal_lengths(series)))
        features: Mapping[str, Callable[[Series], FloatArray]] = {
            "catch22": _catch22,
            "ar": _ar_coefficients,
            "euclid": lambda s: equal_lengths(s).reshape(len(s), -1),
        }
        values = np.nan_to_num(features[method](series))
        if method != "euclid":
            spread = values.std(axis=0)
            values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return np.asarray(KMeans(k, n_init=10, random_state=seed).fit_predict(values))


def _catch22(series: Series) -> FloatArray:
    from aeon.transformations.collection.feature_based import Catch22

    return np.asarray(Catch22(replace_nans=True).fit_transform(equal_lengths(series)))


def _ar_coefficients(series: Series, most: int = 10) -> FloatArray:
    """Return the least-squares coefficients of an autoregression of each channel, with their residual spread."""
    order = max(1, min(most, min(s.shape[1] for s in series) // 4))
    rows = []
    for one in series:
        row = []
        for channel in one:
            x = channel - channel.mean()
            past = np.stack([x[order - 1 - i : len(x) - 1 - i] for i in range(order)], axis=1)
            coefficients = np.linalg.lstsq(past, x[order:], rcond=None)[0]
            row += [*coefficients, float(np.std(x[order:] - past @ coefficients))]
        rows.append(row)
    return np.array(rows)


def equal_lengths(series: Series) -> FloatArray:
    """Return an array (series, channels, times); shorter series are stretched to the longest by interpolation."""
    length = max(s.shape[1] for s in series)

    def stretched(one: FloatArray) -> FloatArray:
        places = np.linspace(0, one.shape[1] - 1, length)
        return np.stack([np.interp(places, np.arange(one.shape[1]), channel) for channel in one])

    return np.stack([s if s.shape[1] == length else stretched(s) for s in series])


def value_of(results: Results, name: str, method: str, how: str) -> float | None:
    """Return the mean NMI of a method on a set; methods with means of their own have one for both algorithms."""
    found = list(results.get(f"{name}; {method}", {}).values())
    values = [r[how if how in r else "own"]["nmi"] for r in found]
    return float(np.mean(values)) if values else None


def mean_ranks(results: Results, names: list[str], methods: list[str], how: str) -> dict[str, float]:
    """Return the mean rank by NMI of each method that was run, over the sets that all of them share; ties share."""
    from scipy.stats import rankdata

    methods = [m for m in methods if any(value_of(results, name, m, how) is not None for name in names)]
    rows = [[value_of(results, name, method, how) for method in methods] for name in names]
    whole = [[-v for v in row if v is not None] for row in rows if None not in row]
    if not whole:
        return {}
    ranks = np.mean([rankdata(row) for row in whole], axis=0)
    return dict(zip(methods, ranks.tolist(), strict=True))


def summarise(experiment: Experiment, results: Results) -> Report:
    """Tables for both algorithms, mean ranks, and where dynamics beat shape."""
    p = experiment.parameters
    methods = list(p["methods"])
    groups = {"the paper's sets": list(p["sets"]), "further sets": list(p["further"])}
    titles = {**TITLES, **FURTHER}
    grids, notes = [], []
    for how, words in (("spectral", "spectral clustering"), ("k_medoids", "k-medoids")):
        for group, names in groups.items():
            cells: dict[str, dict[str, Cell]] = {}
            for name in names:
                cells[titles[name]] = {}
                for method in (*methods, *([WHOLE] if name in PAPER_ROWS else [])):
                    value = value_of(results, name, method, how)
                    paper = PAPER[how].get(name, {}).get("conditional_cs") if method == WHOLE else None
                    cell = MISSING if value is None else Cell(value, paper, digits=3)
                    cells[titles[name]][METHODS.get(method, WHOLE_TITLE)] = cell
            ranks = mean_ranks(results, names, methods, how)
            if ranks:
                cells["mean rank"] = {METHODS[m]: Cell(rank) for m, rank in ranks.items()}
            columns = [METHODS[m] for m in methods] + ([WHOLE_TITLE] if names == list(p["sets"]) else [])
            grids.append(Grid(f"NMI without labels, {words}: {group}", "data", columns, cells))
            notes += [_ranks_in_words(ranks, words, group)] if ranks else []
        notes += _reached(results, list(p["sets"]), how, words)
    notes += _dynamics_or_shape(results, [*p["sets"], *p["further"]], methods, titles)
    titles[COFFEE] = TITLES[COFFEE]
    grids += [_drawn_grid(results, p["drawn_sets"], titles), _chosen_grid(results, [*p["sets"], *p["further"]], titles)]
    notes += _drawn_words(results, p["drawn_sets"]) + _chosen_words(results)
    notes.append(
        f"No method sees a label but the number of clusters, and all of them see the same {p['most_series']} series at "
        "most of a set, drawn with a fixed seed; mean ranks are over these. Conditional CS: "
        "`condcs.timeseries.cluster(X, k)` with nothing else given; for the paper's sets also with all series, beside "
        "the paper's number, which was chosen by NMI. DTW, MSM, TWED and TCK: the "
        "paper's settings, clustered by spectral clustering with local scales and by k-medoids (PAM). k-Shape, KASBA "
        "and catch22 are aeon's, with its settings; catch22, the coefficients of autoregressions of order 10 (at most "
        "a quarter of the length) and the values themselves are clustered by k-means, and these five stand in both "
        "tables. All rivals get channels standardised over all series, and series stretched to one length where they "
        "need it. R-Clust is not part of aeon's release."
    )
    return Report(experiment.title, grids, notes)


def _drawn_grid(results: Results, names: list[str], titles: Mapping[str, str]) -> Grid:
    """NMI over the draws of half the series: how far a result on one collection holds for the next."""
    columns = [
        "series",
        "median NMI",
        "lowest",
        "highest",
        "median agreement",
        "draws with a rival",
        "median, better of two",
    ]
    cells: dict[str, dict[str, Cell]] = {}
    for name in names:
        draws = list(results.get(f"{name}; {DRAW}", {}).values())
        cells[titles[name]] = dict.fromkeys(columns, MISSING)
        if draws:
            nmi = [one["nmi"] for one in draws]
            better = [max(one["nmi"], one["rival"] or 0.0) for one in draws]
            with_rival = sum(one["rival"] is not None for one in draws)
            cells[titles[name]] = {
                "series": Cell(draws[0]["n"], digits=0),
                "median NMI": Cell(float(np.median(nmi))),
                "lowest": Cell(min(nmi)),
                "highest": Cell(max(nmi)),
                "median agreement": Cell(float(np.median([one["agreement"] for one in draws]))),
                "draws with a rival": Cell(f"{with_rival} of {len(draws)}"),
                "median, better of two": Cell(float(np.median(better))),
            }
    return Grid("Draws of half the series of each class, conditional CS, spectral clustering", "data", columns, cells)


def _chosen_grid(results: Results, names: list[str], titles: Mapping[str, str]) -> Grid:
    """Show the number of clusters that is suggested, beside the number of classes."""
    cells: dict[str, dict[str, Cell]] = {}
    for name in names:
        found = next(iter(results.get(f"{name}; {CHOSEN_K}", {}).values()), None)
        row = {"classes": MISSING, "suggested": MISSING, "mark": MISSING, "mark of the number of classes": MISSING}
        if found is not None:
            right = found["marks"].get(str(found["k"]))
            row["classes"] = Cell(found["k"], digits=0)
            row["suggested"] = Cell(found["chosen"], digits=0)
            row["mark"] = Cell(found["marks"][str(found["chosen"])])
            row["mark of the number of classes"] = MISSING if right is None else Cell(right)
        cells[titles[name]] = row
    columns = ["classes", "suggested", "mark", "mark of the number of classes"]
    return Grid('Number of clusters, k="auto"', "data", columns, cells)


def _drawn_words(results: Results, names: list[str]) -> list[str]:
    draws = [one for name in names for one in results.get(f"{name}; {DRAW}", {}).values()]
    if not draws:
        return []
    rivals = [one for one in draws if one["rival"] is not None]
    sure = [one["nmi"] for one in draws if one["agreement"] >= 0.95]
    with_rival, without = [float(np.mean([one["nmi"] for one in part])) if part else None
                           for part in (rivals, [one for one in draws if one["rival"] is None])]  # fmt: skip
    words = f"Draws of half the series: {len(rivals)} of {len(draws)} have a rival partition"
    if with_rival is not None and without is not None:
        better = sum(one["rival"] > one["nmi"] for one in rivals)
        words += f"; mean NMI {with_rival:.2f} with one and {without:.2f} without"
        words += f"; the rival is closer to the classes in {better}"
    words += f". Agreement is at least 0.95 in {len(sure)}"
    return [f"{words}, with an NMI from {min(sure):.2f} to {max(sure):.2f}." if sure else f"{words}."]


def _chosen_words(results: Results) -> list[str]:
    found = [one for case in results if case.endswith(f"; {CHOSEN_K}") for one in results[case].values()]
    if not found:
        return []
    right = sum(one["chosen"] == one["k"] for one in found)
    two = sum(one["k"] == 2 for one in found)
    return [f'Number of clusters: k="auto" is right on {right} of {len(found)} sets, 2 for all of them on {two}.']


def _ranks_in_words(ranks: Mapping[str, float], words: str, group: str) -> str:
    order = sorted(ranks, key=lambda m: ranks[m])
    listed = ", ".join(f"{METHODS[m]} {ranks[m]:.2f}" for m in order)
    return f"Mean rank by NMI with {words} on {group}: {listed}."


def _reached(results: Results, names: list[str], how: str, words: str) -> list[str]:
    found = {n: value_of(results, n, WHOLE, how) for n in names if n in PAPER[how]}
    run = {n: v for n, v in found.items() if v is not None}
    if not run:
        return []
    above = [n for n, v in run.items() if v >= PAPER[how][n]["conditional_cs"] - 0.0005]
    return [
        f"With {words}, the choice without labels is at or above the paper's number, chosen by NMI, in {len(above)} of "
        f"{len(run)} rows" + (f": {', '.join(TITLES[n] for n in above)}." if above else ".")
    ]


def _dynamics_or_shape(results: Results, names: list[str], methods: list[str], titles: Mapping[str, str]) -> list[str]:
    """Say on which sets conditional CS beats the best measure of shape, and on which it loses, by 0.05 or more."""
    shapes = [m for m in methods if m in SHAPES]
    gaps = {}
    for name in names:
        ours = [v for how in ("spectral", "k_medoids") if (v := value_of(results, name, "votes", how)) is not None]
        theirs = [
            v for m in shapes for how in ("spectral", "k_medoids") if (v := value_of(results, name, m, how)) is not None
        ]
        if ours and theirs:
            gaps[name] = max(ours) - max(theirs)
    if not gaps:
        return []
    wins = [f"{titles[n]} ({g:+.2f})" for n, g in gaps.items() if g >= 0.05]
    losses = [f"{titles[n]} ({g:+.2f})" for n, g in gaps.items() if g <= -0.05]
    return [
        "Dynamics against shape (the better of two algorithms, against the best of "
        f"{counted(len(shapes), 'measure')} of shape, differences of at least 0.05): dynamics win on "
        f"{', '.join(wins) or 'none'}; shape wins on {', '.join(losses) or 'none'}."
    ]


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw mean ranks, a panel for each group of sets and algorithm."""
    p = experiment.parameters
    methods = list(p["methods"])
    figure.set_size_inches(10, 5.5)
    axes = figure.subplots(2, 2, sharex=True)
    for row, (how, words) in enumerate((("spectral", "spectral clustering"), ("k_medoids", "k-medoids"))):
        for column, (group, names) in enumerate((("the paper's sets", p["sets"]), ("further sets", p["further"]))):
            axis = axes[row, column]
            ranks = mean_ranks(results, list(names), methods, how)
            order = sorted(ranks, key=lambda m: -ranks[m])
            colours = ["#2b6cb0" if m == "votes" else "#a0aec0" for m in order]
            axis.barh([METHODS[m] for m in order], [ranks[m] for m in order], color=colours)
            axis.set_title(f"{group}, {words}", fontsize=10)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(axis="y", labelsize=8, length=0)
            if row == 1:
                axis.set_xlabel("mean rank by NMI (1 is best)")


EXPERIMENT = Experiment(
    name="clustering",
    title="Time series clustering without labels",
    reproduces="Beyond the paper: clustering with settings chosen without labels, beside the methods of today.",
    parameters={
        "sets": list(PAPER_ROWS[:14]),
        "further": list(FURTHER),
        "methods": list(METHODS),
        "tck": {"n_mixtures": 30},
        "most_series": 200,
        "drawn_sets": [*PAPER_ROWS[:14], COFFEE],
        "draws": 10,
        "most_drawn": 60,
        "per_class": 30,
    },
    quick={
        "sets": ["robot_lp2", "robot_lp3"],
        "further": ["sim_ar"],
        "methods": ["votes", "tck", "ar", "euclid"],
        "tck": {"n_mixtures": 2, "n_components": 4},
        "per_class": 6,
        "drawn_sets": ["robot_lp3"],
        "draws": 2,
        "most_drawn": 24,
    },
    repeats=1,
    quick_repeats=1,
    seed=20_261_117,
    paper={},
    tolerance=0.05,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
