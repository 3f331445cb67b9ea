"""Clustering of time series: the data sets, the distances, the settings and the trials behind Tables 4 and 5."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from condcs._core.arrays import FloatArray, LabelArray, RealArray
from condcs._core.checks import check_choice
from condcs._core.errors import BandwidthWarning
from condcs._measures.registry import MeasureName, pairwise
from condcs.timeseries._baseline_distances import BASELINES, baseline_pairwise_distance
from condcs.timeseries._clustering import (
    adjusted_rand_index,
    cluster_distances,
    median_pair_distance,
    normalized_mutual_information,
)
from condcs.timeseries._collection import embed
from condcs.timeseries._distances import ccs_pairwise_distance, self_prediction
from condcs_reproduction.data import DatasetError, load, make_dynamic_textures
from condcs_reproduction.data.catalogue import CATALOGUE
from condcs_reproduction.data.loading import cache_folder
from condcs_reproduction.spec import Parameters, Result, Task

MEASURES = {"dtw": "DTW", "msm": "MSM", "twed": "TWED", "tck": "TCK", "conditional_cs": "conditional CS"}
"""The paper's columns."""

EXTRA_MEASURES = {"conditional_kl": "conditional KL", "conditional_mmd": "conditional MMD"}
"""Measures that the paper speaks of, but does not run."""

TEXTURES = "textures"

TITLES = {
    **{name: entry.title for name, entry in CATALOGUE.items()},
    TEXTURES: "simulated textures",
}

PAPER_ROWS = (
    "coffee",
    "diatom",
    "distalphalanxtw",
    "ecg5000",
    "faceall",
    "synthetic_control",
    "pendigits",
    "libras",
    "uwave",
    "robot_lp1",
    "robot_lp2",
    "robot_lp3",
    "robot_lp4",
    "robot_lp5",
    "traffic",
    "ucla",
)
"""The data sets of the paper, in its order."""

_ORDER = ("dtw", "msm", "twed", "tck", "conditional_cs")


def _table(*rows: tuple[float | None, ...]) -> dict[str, dict[str, float]]:
    return {
        name: {m: v for m, v in zip(_ORDER, row, strict=True) if v is not None}
        for name, row in zip(PAPER_ROWS, rows, strict=True)
    }


PAPER: dict[str, dict[str, dict[str, float]]] = {
    "spectral": _table(
        (0.689, 0.592, 0.689, 0.689, 1.0),
        (0.788, 0.837, 0.774, 0.806, 0.743),
        (0.570, 0.522, 0.571, 0.491, 0.584),
        (0.833, 0.777, 0.725, 0.695, 0.727),
        (0.508, 0.796, 0.849, 0.559, 0.750),
        (0.744, 0.565, 0.565, 0.781, 0.758),
        (0.725, None, None, 0.488, 0.655),
        (0.652, None, None, 0.554, 0.606),
        (0.834, None, None, 0.624, 0.759),
        (0.0607, None, None, 0.176, 0.686),
        (0.227, None, None, 0.363, 0.438),
        (0.170, None, None, 0.144, 0.328),
        (0.241, None, None, 0.080, 0.516),
        (0.091, None, None, 0.080, 0.393),
        (0.144, None, None, None, 0.145),
        (0.149, None, None, None, 0.559),
    ),
    "k_medoids": _table(
        (0.592, 0.258, 0.689, 0.811, 1.0),
        (0.552, 0.768, 0.760, 0.821, 0.730),
        (0.484, 0.456, 0.495, 0.458, 0.587),
        (0.846, 0.756, 0.707, 0.727, 0.595),
        (0.694, 0.722, 0.849, 0.584, 0.705),
        (0.909, 0.899, 0.856, 0.869, 0.745),
        (0.722, None, None, 0.416, 0.640),
        (0.440, None, None, 0.596, 0.390),
        (0.748, None, None, 0.707, 0.754),
        (0.132, None, None, 0.455, 0.658),
        (0.232, None, None, 0.315, 0.427),
        (0.106, None, None, 0.149, 0.453),
        (0.084, None, None, 0.113, 0.365),
        (0.098, None, None, 0.234, 0.261),
        (0.139, None, None, None, 0.152),
        (0.381, None, None, None, 0.416),
    ),
}
"""Normalised mutual information in Tables 4 and 5."""

_ROBOTS: dict[str, list[Any]] = {
    "orders": [1, 2, 3],
    "factors": [0.3, 1.0, 1.5, 3.0, 5.0],
    "scalings": ["raw", "global"],
}

GRIDS: dict[str, dict[str, list[Any]]] = {
    "coffee": {"orders": [10, 20], "factors": [0.1, 0.3, 1.0], "scalings": ["raw"]},
    "diatom": {"orders": [10], "factors": [0.1, 0.3], "scalings": ["raw"]},
    "distalphalanxtw": {"orders": [10, 20], "factors": [0.1, 0.3], "scalings": ["raw"]},
    "ecg5000": {"orders": [10, 20, 40], "factors": [0.1, 0.3], "scalings": ["raw"]},
    "faceall": {"orders": [10, 20, 40], "factors": [0.2, 0.3], "scalings": ["raw"]},
    "synthetic_control": {"orders": [10], "factors": [0.3, 1.0], "scalings": ["raw", "series"]},
    "pendigits": {"orders": [1, 2], "factors": [0.3, 0.5], "scalings": ["raw"]},
    "libras": {"orders": [1, 2, 5], "factors": [0.1, 0.3, 1.0], "scalings": ["raw", "series"]},
    "uwave": {"orders": [1, 60, 100], "factors": [0.1, 0.3, 0.5], "scalings": ["raw"]},
    **{f"robot_lp{i}": _ROBOTS for i in range(1, 6)},
    "traffic": {"orders": [1], "factors": [0.3, 1.0], "scalings": ["raw"]},
    "ucla": {"orders": [1], "factors": [0.3, 1.0], "scalings": ["raw"]},
    TEXTURES: {"orders": [1], "factors": [0.3, 1.0], "scalings": ["raw"]},
}
"""Settings that are tried: windows, multiples of the pair's median distance, and scalings of the data."""


def is_present(name: str) -> bool:
    """Whether a data set lies in the data folder or in the cache, so that it can be run."""
    folders = [Path(f) for f in (os.environ.get("CONDCS_DATA", ""),) if f.strip()] + [cache_folder()]
    return name == TEXTURES or any((folder / CATALOGUE[name].path).exists() for folder in folders)


def settings_of(parameters: Parameters, name: str, measure: str) -> list[dict[str, Any]]:
    """Return the settings of a measure that are tried on a data set."""
    grid = parameters["grids"][name]
    if measure == "conditional_cs":
        return [
            {"order": order, "factor": factor, "scaling": scaling}
            for scaling in grid["scalings"]
            for order in grid["orders"]
            for factor in grid["factors"]
        ]
    if measure in EXTRA_MEASURES:
        return [{"order": order, "scaling": "raw"} for order in grid["orders"]]
    return [{"scaling": scaling} for scaling in grid["scalings"]]


def label_of(setting: Mapping[str, Any]) -> str:
    """Return a setting in words."""
    words = [f"K={setting['order']}"] if "order" in setting else []
    words += [f"c={setting['factor']:g}"] if "factor" in setting else []
    return ", ".join([*words, str(setting["scaling"])])


def case_of(name: str, measure: str, setting: Mapping[str, Any]) -> str:
    """Return the name of a case."""
    return f"{name}; {measure}; {label_of(setting)}"


def measures_of(parameters: Parameters, name: str) -> list[str]:
    """Return the measures that are run on a data set."""
    extra = [*EXTRA_MEASURES] if name in parameters["extra_sets"] else []
    if name in parameters["univariate"]:
        return [*MEASURES, *extra]
    # MSM and TWED are distances of univariate series; the paper leaves them out here too.
    return ["dtw", "tck", "conditional_cs", *extra]


def tasks(parameters: Parameters, repeats: int) -> list[Task]:
    """All settings of all measures on the data sets that are at hand."""
    return [
        Task(
            case_of(name, measure, setting),
            repeat,
            (list(TITLES).index(name), repeat),
            {"data": name, "measure": measure, "setting": setting},
        )
        for repeat in range(repeats)
        for name in parameters["sets"]
        if is_present(name)
        for measure in measures_of(parameters, name)
        for setting in settings_of(parameters, name, measure)
    ]


def trial(parameters: Parameters, arguments: Mapping[str, Any], rng: np.random.Generator) -> Result:
    """Measure all pairs of series and cluster them at every scale; the matrix serves both tables."""
    X, y = collection(parameters, arguments["data"])
    seed = int(rng.integers(2**31))
    D = distances(
        scaled(X, arguments["setting"]["scaling"]), arguments["measure"], arguments["setting"], parameters, seed
    )
    k, unit = len(np.unique(y)), median_pair_distance(D)
    scales = {f"{b:g}": b for b in parameters["scales"]}
    scales |= {f"{m:g} med": m * unit for m in parameters["median_scales"]}
    spectral = {name: cluster_distances(D, k, scale=b, rng=seed) for name, b in scales.items()}
    medoids = cluster_distances(D, k, method="k_medoids", rng=seed)
    fixed = cluster_distances(D, k, scale=parameters["fixed_scale"], rng=seed)
    apart = D[~np.eye(len(D), dtype=bool)]
    return {
        "spectral": {name: _rounded(normalized_mutual_information(y, c.labels)) for name, c in spectral.items()},
        "k_medoids": _rounded(normalized_mutual_information(y, medoids.labels)),
        "fixed": _rounded(normalized_mutual_information(y, fixed.labels)),
        "ari": {
            "spectral": {name: _rounded(adjusted_rand_index(y, c.labels)) for name, c in spectral.items()},
            "k_medoids": _rounded(adjusted_rand_index(y, medoids.labels)),
        },
        "silhouette": {"fixed": _rounded(fixed.silhouette), "k_medoids": _rounded(medoids.silhouette)},
        "negative": _rounded(float(np.mean(apart < 0))),
        "median": float(f"{unit:.6g}"),
        **(_prediction(X, arguments["setting"]) if arguments["measure"] == "conditional_cs" else {}),
    }


def _prediction(X: FloatArray, setting: Mapping[str, Any]) -> Result:
    """Return how well the series predict themselves at this setting; chooses the factor without labels."""
    mark = self_prediction(scaled(X, setting["scaling"]), order=setting["order"], factors=[setting["factor"]])
    return {"prediction": float(f"{mark[0]:.8g}")}


def _rounded(value: float) -> float:
    return round(float(value), 6)


def collection(parameters: Parameters, name: str) -> tuple[FloatArray, LabelArray]:
    """Return the series (series, channels, times) and labels of a data set."""
    if name == TEXTURES:
        made = make_dynamic_textures(**parameters["textures"])
        return made.X, made.y
    data = load(name, download=False)
    if data.y is None:
        raise DatasetError(f"{name!r} must have labels to compare clusters with, got none. Choose another.")
    return data.X, data.y


def scaled(X: FloatArray, scaling: str) -> FloatArray:
    """Return the series as they are ("raw"), each channel standardised over all series, or within each series."""
    if scaling == "raw":
        return X
    axes = (0, 2) if scaling == "global" else (2,)
    deviation = X.std(axis=axes, keepdims=True)
    return np.asarray((X - X.mean(axis=axes, keepdims=True)) / np.where(deviation > 0, deviation, 1.0))


def distances(X: FloatArray, measure: str, setting: Mapping[str, Any], parameters: Parameters, seed: int) -> RealArray:
    """Return the matrix of distances by any of the measures."""
    if measure == "conditional_cs":
        with warnings.catch_warnings():
            # Robots at rest repeat their readings: medians of 0 fall back on a quantile, pair by pair.
            warnings.simplefilter("ignore", BandwidthWarning)
            return ccs_pairwise_distance(X, order=setting["order"], factor=setting["factor"], n_jobs=1)
    if measure in EXTRA_MEASURES:
        windows = embed(np.moveaxis(X, 1, 2), setting["order"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BandwidthWarning)
            D = np.asarray(pairwise(windows, measure=check_choice("measure", measure, get_args(MeasureName))))
        return np.asarray((D + D.T) / 2)
    options = {**parameters["tck"], "rng": seed} if measure == "tck" else {}
    return baseline_pairwise_distance(X, measure=check_choice("measure", measure, tuple(BASELINES)), **options)


def best_setting(
    parameters: Parameters, results: Mapping[str, Mapping[int, Result]], name: str, measure: str, method: str
) -> tuple[float, str] | None:
    """Return the largest NMI over all settings (and scales, for spectral clustering), and the words for its setting."""
    found: list[tuple[float, str]] = []
    for setting in settings_of(parameters, name, measure):
        for result in results.get(case_of(name, measure, setting), {}).values():
            if method == "k_medoids":
                found.append((result["k_medoids"], label_of(setting)))
            else:
                found += [(v, f"{label_of(setting)}, b={b}") for b, v in result["spectral"].items()]
    return max(found, key=lambda pair: pair[0]) if found else None


def fixed_setting(
    parameters: Parameters, results: Mapping[str, Mapping[int, Result]], name: str, measure: str
) -> dict[str, Any]:
    """Return the setting that is used without a look at labels: raw data, K by the kind of series, c by prediction."""
    if measure != "conditional_cs":
        return {"scaling": "raw"}
    order = parameters["fixed_orders"]["univariate" if name in parameters["univariate"] else "multivariate"]
    candidates = [
        setting
        for setting in settings_of(parameters, name, measure)
        if setting["order"] == order and setting["scaling"] == "raw"
    ]

    def mark(setting: Mapping[str, Any]) -> float:
        found = results.get(case_of(name, measure, setting), {}).values()
        return max((float(result["prediction"]) for result in found), default=-np.inf)

    return max(candidates, key=mark)
