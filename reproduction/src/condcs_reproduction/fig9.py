"""Figure 9: which places of the United States have a temperature that moves alike, in a year of daily means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, LabelArray, RealArray
from condcs._core.errors import OverlapError
from condcs.timeseries._distances import ccs_pairwise_distance
from condcs_reproduction.data import load
from condcs_reproduction.report import Cell, Grid, Report
from condcs_reproduction.series_clustering import is_present
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task

EARTH = 6371.0
"""Radius in kilometres."""


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """One trial: nothing is random."""
    return [Task("temperature", 0, (0,))] if is_present("temperature") else []


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Measure all pairs of places, join the closest and split the network in two."""
    from scipy.stats import spearmanr

    data = load("temperature", download=False)
    chosen = np.arange(0, len(data.X), parameters["every"])
    X, lat, lon = data.X[chosen], data.lat[chosen], data.lon[chosen]
    D = ccs_pairwise_distance(X, order=parameters["order"], factor=parameters["factor"], n_jobs=1)
    graph = closest_pairs(D, parameters["share"])
    labels = communities(graph, D, parameters["communities"])
    upper = np.triu_indices(len(D), 1)
    return {
        "lat": np.round(lat, 3).tolist(),
        "lon": np.round(lon, 3).tolist(),
        "city": [str(c) for c in data.city[chosen]],
        "edges": [[int(a), int(b)] for a, b in np.argwhere(np.triu(graph))],
        "labels": labels.tolist(),
        "near_and_alike": float(spearmanr(D[upper], kilometres(lat, lon)[upper]).statistic),
        "north_south": separation(labels, lat),
        "east_west": separation(labels, lon),
    }


def closest_pairs(D: RealArray, share: float) -> BoolArray:
    """Return the graph of the given share of pairs with the smallest divergences."""
    rows, columns = np.triu_indices(len(D), 1)
    values = D[rows, columns]
    kept = np.argsort(values, kind="stable")[: max(1, round(share * len(values)))]
    graph = np.zeros(D.shape, dtype=bool)
    graph[rows[kept], columns[kept]] = graph[columns[kept], rows[kept]] = True
    return graph


def communities(graph: BoolArray, D: RealArray, count: int) -> LabelArray:
    """Return the communities of the network by spectral clustering of its largest component.

    A place outside of it joins the community of the place most like it: a component of a few places would otherwise be
    a community by itself.
    """
    from scipy.sparse.csgraph import connected_components
    from sklearn.cluster import KMeans

    parts = connected_components(graph, directed=False)[1]
    core = np.flatnonzero(parts == np.bincount(parts).argmax())
    if len(core) <= count:
        raise OverlapError(
            f"The network must have a component of more than {count} places, got {len(core)}. Raise the share of pairs."
        )
    A = graph[np.ix_(core, core)].astype(float)
    root = 1 / np.sqrt(A.sum(axis=1))
    vectors = np.linalg.eigh(root[:, None] * A * root)[1][:, -count:]
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = np.full(len(graph), -1)
    labels[core] = KMeans(count, n_init=10, random_state=0).fit_predict(rows)
    for place in np.flatnonzero(labels < 0):
        labels[place] = labels[core[np.argmin(D[place, core])]]
    return labels


def separation(labels: LabelArray, place: FloatArray) -> float:
    """Return how well one coordinate tells two communities apart: 0 not at all, 1 perfectly (|2 AUC - 1|)."""
    from scipy.stats import rankdata

    ranks, first = rankdata(place), labels == labels[0]
    n, m = int(first.sum()), int((~first).sum())
    if not n or not m:
        return 0.0
    area = (ranks[first].sum() - n * (n + 1) / 2) / (n * m)
    return float(abs(2 * area - 1))


def kilometres(lat: FloatArray, lon: FloatArray) -> FloatArray:
    """Return the great-circle distances between all places."""
    a, b = np.radians(lat), np.radians(lon)
    half = np.sin((a[:, None] - a) / 2) ** 2 + np.cos(a[:, None]) * np.cos(a) * np.sin((b[:, None] - b) / 2) ** 2
    return np.asarray(2 * EARTH * np.arcsin(np.sqrt(np.clip(half, 0, 1))))


def summarise(experiment: Experiment, results: Results) -> Report:
    """Put numbers to the paper's two observations."""
    found = results.get("temperature", {}).get(0)
    p = experiment.parameters
    if found is None:
        rows = {claim: {"holds": Cell("no files", "yes"), "by": Cell("no files")} for claim in experiment.paper}
    else:
        alike, ns, ew = (found[k] for k in ("near_and_alike", "north_south", "east_west"))
        near, north = alike > 0, ns > ew
        rows = {
            "closer cities are more alike": {
                "holds": Cell("yes" if near else "no", "yes", "agrees" if near else "differs"),
                "by": Cell(f"rank correlation of divergence and kilometres {alike:.2f}"),
            },
            "north-south more obvious than east-west": {
                "holds": Cell("yes" if north else "no", "yes", "agrees" if north else "differs"),
                "by": Cell(f"communities told apart by latitude {ns:.2f}, by longitude {ew:.2f} (0 not, 1 perfectly)"),
            },
        }
    notes = [
        f"Windows of K = {p['order']} days, bandwidths {p['factor']:g} times each pair's median distances; "
        f"{p['share']:.0%} of the pairs are joined; two communities by spectral clustering of the network's "
        "largest component; a place outside of it joins the place that is most like it.",
        "Names and coordinates are derived from the source's network of distances; see its SOURCE file.",
    ]
    grid = Grid("The paper's two observations", "observation", ["holds", "by"], rows)
    return Report(experiment.title, [grid], notes)


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """Draw the network and the communities, by longitude and latitude."""
    figure.set_size_inches(12, 3.9)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    found = results.get("temperature", {}).get(0)
    if found is None:
        for axis in axes:
            axis.set_axis_off()
        return
    lat, lon, labels = (np.array(found[k]) for k in ("lat", "lon", "labels"))
    for axis in axes:
        for a, b in found["edges"]:
            axis.plot(lon[[a, b]], lat[[a, b]], "-", color="#4a5568", lw=0.6, alpha=0.35, zorder=1)
        axis.set_aspect(1 / np.cos(np.radians(np.median(lat))))
        axis.set_xlabel("longitude")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].plot(lon, lat, "o", ms=4.5, color="#1a365d", zorder=2)
    axes[0].set_ylabel("latitude")
    axes[0].set_title(f"{len(found['edges'])} pairs with the smallest divergences", fontsize=10)
    warm = int(np.argmin([lat[labels == c].mean() for c in sorted(set(labels.tolist()))]))
    for c in sorted(set(labels.tolist())):
        style = {"color": "#dd6b20", "marker": "s"} if c == warm else {"color": "#2b6cb0", "marker": "o"}
        axes[1].plot(lon[labels == c], lat[labels == c], ls="", ms=6, mec="white", mew=0.6, zorder=2, **style)
    axes[1].set_title(f"{len(set(labels.tolist()))} communities", fontsize=10)


EXPERIMENT = Experiment(
    name="fig9",
    title="Temperature of 109 US places: network and communities",
    reproduces="Figure 9: the nearest 5% of pairs and two communities, on the map.",
    parameters={"order": 10, "factor": 0.3, "share": 0.05, "communities": 2, "every": 1},
    quick={"every": 4, "share": 0.12},
    repeats=1,
    quick_repeats=1,
    seed=0,
    paper={"closer cities are more alike": "yes", "north-south more obvious than east-west": "yes"},
    tolerance=0.0,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
