"""``condcs cluster``: read series, measure all pairs, cluster, print a table and write labels and a page."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.table import Table

from condcs._core.errors import BandwidthWarning
from condcs.cli.outputs import check_folder
from condcs.cli.series_files import Layout, SeriesFile, read_series
from condcs.cli.terminal import Terminal, foreign
from condcs.report._cluster_page import Clustering, cluster_page
from condcs.report._page import write_whole
from condcs.timeseries._baseline_distances import baseline_pairwise_distance
from condcs.timeseries._clustering import cluster
from condcs.timeseries._collection import Missing
from condcs.timeseries._distances import ccs_pairwise_distance
from condcs.timeseries._tuning import choose_factor

FloatArray = np.ndarray[Any, Any]

ClusterMeasure = Literal["conditional_cs", "dtw", "msm", "twed", "tck"]
ClusterMethod = Literal["spectral", "k_medoids"]
Scaling = Literal["raw", "global", "series"]


@dataclass(frozen=True)
class ClusterOptions:
    """What to do with the series.

    Attributes
    ----------
    k : int
        Clusters.
    measure, method : str
        Distance and algorithm.
    order, factor : int and float, or None
        Window length and bandwidth factor of conditional CS; None means a choice without labels.
    scaling : {"raw", "global", "series"}
        As they are, each channel standardised over all series, or within each.
    missing : {"error", "drop"}
        What to do about gaps.
    seed : int
        Seed of the starts.
    jobs : int, optional
        Threads.
    """

    k: int
    measure: ClusterMeasure = "conditional_cs"
    method: ClusterMethod = "spectral"
    order: int | None = None
    factor: float | None = None
    scaling: Scaling = "raw"
    missing: Missing = "error"
    seed: int = 0
    jobs: int | None = None


def run(path: Path, options: ClusterOptions, *, labels: str | None, layout: Layout, out: Path, command: str) -> None:
    """Cluster a file, print a table and write the folder."""
    check_folder("--out", out)
    file = read_series(path, labels=labels, layout=layout)
    with Terminal(stderr=True).working(f"Measuring {len(file.X) * (len(file.X) - 1) // 2:,} pairs of series ..."):
        found = cluster_file(file, options)
    out.mkdir(exist_ok=True)
    write_whole(out / "labels.csv", labels_table(found))
    cluster_page(found, command).write(out / "clusters.html")
    console = Terminal()
    print_clusters(found, console)
    console.print(f"\nLabels: [bold]{foreign(str(out / 'labels.csv'))}[/bold]", soft_wrap=True)
    console.print(f"Page:   [bold]{foreign(str(out / 'clusters.html'))}[/bold]", soft_wrap=True)


def cluster_file(file: SeriesFile, options: ClusterOptions) -> Clustering:
    """Measure all pairs of series and cluster them."""
    X = scaled(file.X, options.scaling)
    settings: dict[str, str] = {"measure": options.measure, "data": options.scaling}
    if options.measure == "conditional_cs":
        order = options.order if options.order is not None else default_order(file)
        with warnings.catch_warnings():
            # A still series falls back on a quantile; the page says nothing that depends on it.
            warnings.simplefilter("ignore", BandwidthWarning)
            factor = options.factor
            if factor is None:
                factor = choose_factor(X, order=order, missing=options.missing)
            D = ccs_pairwise_distance(X, order=order, factor=factor, missing=options.missing, n_jobs=options.jobs)
        how = "chosen by self-prediction" if options.factor is None else "as given"
        settings |= {"window": str(order), "bandwidth": f"{factor:g} times each pair's median distance, {how}"}
    else:
        D = baseline_pairwise_distance(X, measure=options.measure, n_jobs=options.jobs or 1)
    scale: Literal["silhouette", "median"] = "silhouette" if 2 <= options.k < len(X) else "median"
    clusters = cluster(D, options.k, method=options.method, scale=scale, rng=options.seed)
    if clusters.scale is not None:
        settings["clustering"] = f"spectral, A = exp(-D / b), b = {clusters.scale:.4g} by the silhouette"
    else:
        settings["clustering"] = "k-medoids"
    return Clustering(file.title, file.X, file.labels, D, clusters, settings)


def default_order(file: SeriesFile) -> int:
    """Return 10 for univariate and 1 for multivariate series, as the paper has it; at most a quarter of the length."""
    return max(1, min(10 if file.channels == 1 else 1, min(file.lengths) // 4))


def scaled(X: Sequence[FloatArray], scaling: Scaling) -> list[FloatArray]:
    """Return the series as they are, each channel standardised over all series, or within each series."""
    if scaling == "raw":
        return list(X)
    if scaling == "global":
        pool = np.concatenate(list(X), axis=1)
        return [_standardised(series, pool) for series in X]
    return [_standardised(series, series) for series in X]


def _standardised(series: FloatArray, pool: FloatArray) -> FloatArray:
    deviation = np.nanstd(pool, axis=1, keepdims=True)
    return np.asarray((series - np.nanmean(pool, axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1.0))


def labels_table(found: Clustering) -> str:
    """Return a line per series: its number, cluster, distance from the cluster's most central series, and class."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    known = found.classes
    writer.writerow(["series", "cluster", "distance_to_most_central", *(["label"] if known is not None else [])])
    centres = dict(zip(np.unique(found.clusters.labels).tolist(), found.clusters.medoids.tolist(), strict=True))
    for i, c in enumerate(found.clusters.labels.tolist()):
        extra = [_harmless(str(known[i]))] if known is not None else []
        writer.writerow([i + 1, c + 1, f"{found.D[i, centres[c]]:.6g}", *extra])
    return text.getvalue()


def _harmless(cell: str) -> str:
    # A spreadsheet runs a cell that starts like a formula.
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@") and not cell[1:].replace(".", "", 1).isdecimal() else cell


def print_clusters(found: Clustering, console: Terminal) -> None:
    """Print the table of clusters."""
    console.print()
    for label, value in found.settings.items():
        console.print(f"[dim]{label:<11}[/dim] {foreign(value)}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in found.columns:
        table.add_column(title, justify="right", style="cyan" if title == "cluster" else None)
    for number, size, medoid, within, between in found.rows():
        table.add_row(str(number), str(size), str(medoid), f"{within:.4g}", f"{between:.4g}")
    console.print()
    console.print(console.fitted(table))
    console.print(f"\nMean silhouette {found.clusters.silhouette:.3f}")
    for name, share in found.agreement().items():
        console.print(f"{name} with the labels of the file {share:.3f}")
