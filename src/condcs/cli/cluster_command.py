"""``condcs cluster``: read series, choose the settings, cluster, print a table and write labels and a page."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from rich.table import Table

from condcs._core.arrays import FloatArray
from condcs._core.errors import ParameterError
from condcs.cli.boundary import check_folder
from condcs.cli.output_files import OutputFile, answer_then_write, in_folder
from condcs.cli.series_cells import SeriesOptions
from condcs.cli.series_files import SeriesFile, read_series
from condcs.cli.terminal import Terminal, foreign
from condcs.report._page import write_whole
from condcs.timeseries._baseline_distances import BASELINES, ClusterMeasure, baseline_pairwise_distance
from condcs.timeseries._cluster_page import Clustering, cluster_page, setting_words, suggestion_words, tried_words
from condcs.timeseries._clustering import check_distances
from condcs.timeseries._collection import check_collection
from condcs.timeseries._series_clusters import Scaling, SeriesClusters, Setting, cluster, clusters_of, with_scaling

ClusterMethod = Literal["spectral", "k_medoids"]
ClusterScaling = Literal["auto", "global", "series", "raw"]


@dataclass(frozen=True)
class ClusterOptions:
    """What to do with the series.

    Attributes
    ----------
    k : int or "auto"
        Clusters.
    measure, method : str
        Distance and algorithm.
    order, factor, scaling : int, float and str, or "auto"
        Window length, bandwidth factor and standardisation for conditional CS; "auto" means a choice without labels.
    seed : int
        Seed of the draw and the starts.
    jobs : int, optional
        Threads.
    reading : SeriesOptions
        How the series are read.
    """

    k: int | Literal["auto"]
    measure: ClusterMeasure = "conditional_cs"
    method: ClusterMethod = "spectral"
    order: int | Literal["auto"] = "auto"
    factor: float | Literal["auto"] = "auto"
    scaling: ClusterScaling = "auto"
    seed: int = 0
    jobs: int | None = None
    reading: SeriesOptions = field(default_factory=SeriesOptions)


def run(path: Path, options: ClusterOptions, *, out: Path, command: str) -> None:
    """Cluster a file, print a table and write the folder."""
    check_folder("--out", out)
    file = read_series(path, options.reading)
    with Terminal(stderr=True).working(f"Clustering {file.summary()} ..."):
        clustering = cluster_file(file, options)

    def write_labels(path: Path) -> None:
        write_whole(in_folder(path), labels_table(clustering))

    def write_page(path: Path) -> None:
        cluster_page(clustering, command).write(in_folder(path))

    labels, page = out / "labels.csv", out / "clusters.html"
    files = [
        OutputFile(labels, write_labels, f"\nLabels: [bold]{foreign(str(labels))}[/bold]"),
        OutputFile(page, write_page, f"Page:   [bold]{foreign(str(page))}[/bold]"),
    ]
    answer_then_write(lambda: print_clusters(clustering, Terminal()), files)


def cluster_file(file: SeriesFile, options: ClusterOptions) -> Clustering:
    """Cluster the series of a file."""
    read = {"read": file.summary(), "measure": options.measure}
    if options.measure != "conditional_cs":
        clusters, words = _by_baseline(file, options)
        return Clustering(file.title, file.X, file.labels, clusters, read | words, file.names)
    clusters = cluster(
        file.X,
        options.k,
        method=options.method,
        order=options.order,
        factor=options.factor,
        scaling=options.scaling,
        n_jobs=options.jobs,
        rng=options.seed,
    )
    return Clustering(file.title, file.X, file.labels, clusters, read | chosen_words(clusters, options), file.names)


def chosen_words(clusters: SeriesClusters, options: ClusterOptions) -> dict[str, str]:
    """Say what was tried and chosen, how far it agrees, and what rivals it."""
    words = {}
    if clusters.k_marks:
        best, *others = sorted(clusters.k_marks, key=lambda k: -clusters.k_marks[k])
        words["clusters"] = f"{best}, the only number that {len(clusters.labels)} series allow"
        if others:
            ranking = ", ".join(f"{k}: {clusters.k_marks[k]:.2f}" for k in (best, *others))
            words["clusters"] = f"{best} suggested (marks {ranking})\n{suggestion_words()}"
    if not clusters.tried:
        return words | {"setting": setting_words(clusters.setting), "clustering": options.method.replace("_", "-")}
    marks = {trial.setting: trial.mark for trial in clusters.tried}
    how = options.method.replace("_", "-")
    how += ", graphs of neighbours fused" if options.method == "spectral" else " on the votes of these settings"
    return words | {
        "tried": tried_words(clusters),
        "chosen": "\n".join(f"{setting_words(vote)}: mark {marks[vote]:.2f}" for vote in clusters.votes),
        "clustering": how,
        "agreement": f"{clusters.agreement:.2f}: {agreement_words(clusters.agreement)}",
        **({} if clusters.rival is None else {"rival": rival_words(clusters)}),
    }


def agreement_words(agreement: float) -> str:
    """Say what an agreement of settings and algorithms means, and what it does not."""
    if agreement >= 0.8:
        return "settings and algorithms find nearly the same clusters, which need not be the classes you want"
    if agreement >= 0.5:
        return "settings and algorithms agree on most series"
    return "the clusters depend on the setting and the algorithm; take them as a suggestion"


def rival_words(clusters: SeriesClusters) -> str:
    """Describe the partition that is nearly as good."""
    assert clusters.rival is not None
    rival, sizes = clusters.rival, ", ".join(map(str, np.bincount(clusters.rival.labels)))
    best = clusters.tried[0].mark
    return (
        f"another partition is nearly as good (mark {rival.mark:.2f}, best {best:.2f}): {sizes} series "
        f"by {setting_words(rival.setting)}\nits agreement with these clusters is {rival.agreement:.2f}; the page and "
        "the column rival_cluster of the labels show it"
    )


def _by_baseline(file: SeriesFile, options: ClusterOptions) -> tuple[SeriesClusters, dict[str, str]]:
    """Cluster by an established measure, on standardised data and by the same algorithms."""
    if options.measure == "conditional_cs" or options.k == "auto":
        raise ParameterError(f"`--k` must be a number for --measure {options.measure}, got 'auto'. Pass e.g. --k 3.")
    scaling: Scaling = "global" if options.scaling == "auto" else options.scaling
    collection = with_scaling(check_collection("X", file.X, "nct", "drop"), scaling)
    X = [collection.series(i).T for i in range(collection.count)]
    is_interpolated = collection.has_gaps and not BASELINES[options.measure].allows_gaps
    if is_interpolated:
        X = [_without_gaps(series) for series in X]
    D = baseline_pairwise_distance(X, measure=options.measure, n_jobs=options.jobs or 1)
    # Windows and factors are those of conditional CS; the measure has none.
    D, setting = check_distances("D", D), Setting(0, 0.0, scaling)
    clusters = clusters_of([D], [setting], options.k, options.method, options.seed)
    gaps = ", gaps interpolated" if is_interpolated else ""
    return clusters, {"data": f"{scaling}{gaps}", "clustering": options.method.replace("_", "-")}


def _without_gaps(series: FloatArray) -> FloatArray:
    """Interpolate the gaps of each channel, (channels, times), that has values."""
    filled = series.copy()
    times = np.arange(series.shape[1])
    for channel in filled:
        gaps = np.isnan(channel)
        if gaps.any() and not gaps.all():
            channel[gaps] = np.interp(times[gaps], times[~gaps], channel[~gaps])
    return filled


def labels_table(clustering: Clustering) -> str:
    """Return a line per series: number, name, cluster, support, distance from the medoid, rival's cluster, class."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    classes, clusters = clustering.classes, clustering.clusters
    rival = clusters.rival
    columns = ["series", *(["name"] if clustering.names else []), "cluster", "support", "distance_to_most_central"]
    columns += ["rival_cluster"] if rival is not None else []
    writer.writerow([*columns, *(["label"] if classes is not None else [])])
    centres = dict(zip(np.unique(clusters.labels).tolist(), clusters.medoids.tolist(), strict=True))
    for i, c in enumerate(clusters.labels.tolist()):
        name = [_harmless(clustering.names[i])] if clustering.names else []
        extra = [rival.labels[i] + 1] if rival is not None else []
        extra += [_harmless(str(classes[i]))] if classes is not None else []
        distance = f"{clusters.distances[i, centres[c]]:.6g}"
        writer.writerow([i + 1, *name, c + 1, f"{clusters.support[i]:.3f}", distance, *extra])
    return text.getvalue()


def _harmless(cell: str) -> str:
    """Return a text that no spreadsheet runs as a formula; numbers stay as they are."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@") and not cell[1:].replace(".", "", 1).isdecimal() else cell


def print_clusters(clustering: Clustering, console: Terminal) -> None:
    """Print the table of clusters."""
    console.print()
    facts = Table.grid(padding=(0, 1))
    facts.add_column(style="dim", min_width=11)
    for label, value in clustering.settings.items():
        facts.add_row(label, "\n".join(map(foreign, value.split("\n"))))
    console.print(facts)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in clustering.columns:
        table.add_column(title, justify="right", style="cyan" if title == "cluster" else None)
    for number, size, medoid, within, between in clustering.rows():
        table.add_row(str(number), str(size), foreign(medoid), f"{within:.4g}", f"{between:.4g}")
    console.print()
    console.print(console.fitted(table))
    console.print(f"\nMean silhouette {clustering.clusters.silhouette:.3f}")
    for name, share in clustering.against_classes().items():
        console.print(f"{name} with the labels of the file {share:.3f}")
