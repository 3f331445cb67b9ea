"""The page of ``condcs cluster``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.report.cluster_pictures import MOST_LINES, MOST_PANELS, MOST_SHOWN, draw_distances, draw_map, draw_series
from condcs.report.page import Page
from condcs.timeseries.clustering import Clusters, adjusted_rand_index, normalized_mutual_information

FloatArray = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Clustering:
    """What was found, for the page and for the terminal.

    Attributes
    ----------
    title : str
        Where the series came from.
    X : list of array
        The series.
    classes : array or None
        Known classes.
    D : array, shape (n, n)
        Distances.
    clusters : Clusters
        Labels, medoids and silhouette.
    settings : dict
        What was used, in words.
    """

    title: str
    X: list[FloatArray]
    classes: FloatArray | None
    D: FloatArray
    clusters: Clusters
    settings: dict[str, str]

    columns = ("cluster", "series", "most central", "mean distance inside", "to the nearest cluster")

    def rows(self) -> list[list[Any]]:
        """Return a line per cluster: number, size, medoid, mean distances inside and to the nearest other cluster."""
        labels, D = self.clusters.labels, self.D
        present = np.unique(labels)
        lines: list[list[Any]] = []
        for c in present:
            inside = labels == c
            size = int(inside.sum())
            within = float(D[np.ix_(inside, inside)].sum() / (size * (size - 1))) if size > 1 else 0.0
            between = min((float(D[np.ix_(inside, labels == o)].mean()) for o in present if o != c), default=0.0)
            medoid = int(self.clusters.medoids[list(present).index(c)])
            lines.append([int(c) + 1, size, medoid + 1, within, between])
        return lines

    def agreement(self) -> dict[str, float]:
        """Return how well the clusters agree with known classes; empty if there are none."""
        if self.classes is None:
            return {}
        return {
            "NMI": normalized_mutual_information(self.classes, self.clusters.labels),
            "ARI": adjusted_rand_index(self.classes, self.clusters.labels),
        }

    def crossing(self) -> tuple[list[str], list[list[Any]]]:
        """Return the counts of clusters against known classes: titles and rows."""
        assert self.classes is not None
        classes = sorted(set(self.classes.tolist()))
        rows = [
            [int(c) + 1, *(int(((self.clusters.labels == c) & (self.classes == name)).sum()) for name in classes)]
            for c in np.unique(self.clusters.labels)
        ]
        return ["cluster", *classes], rows


def cluster_page(found: Clustering, command: str) -> Page:
    """Return the page: clusters in numbers, distances, map, series, and what was done."""
    clusters = found.clusters
    rows = found.rows()
    page = Page(
        f"Clusters of {found.title}",
        f"{len(found.X):,} series in {len(rows)} clusters by "
        + ("the divergence of their dynamics." if "window K" in found.settings else f"{found.settings['measure']}."),
    )
    page.section("Clusters")
    page.table(found.columns, rows, "Series are numbered from 1, in the order of the file")
    page.text(
        f"Mean silhouette {clusters.silhouette:.3f}: 1 means tight clusters far apart, 0 clusters that touch, below 0 "
        "series that lie nearer to another cluster than to their own."
    )
    agreement = found.agreement()
    if agreement:
        page.section("Against the labels of the file")
        page.facts({name: f"{value:.3f}" for name, value in agreement.items()})
        page.table(*found.crossing(), "Series of each class in each cluster")
    page.section("Distances")
    sampled = f" {MOST_SHOWN} of {len(found.X):,} series are shown." if len(found.X) > MOST_SHOWN else ""
    page.figure(
        draw_distances(found.D, clusters.labels),
        "Matrix of the distances between series, sorted by cluster",
        f"All pairs, sorted by cluster: dark blocks on the diagonal are clusters.{sampled}",
    )
    page.figure(
        draw_map(found.D, clusters.labels, clusters.medoids),
        "Series as points in a plane, coloured by cluster",
        "A map of the same distances (classical scaling); the numbers mark the most central series.",
    )
    page.section("Series")
    few = f" The first {MOST_PANELS} clusters are shown." if len(rows) > MOST_PANELS else ""
    page.figure(
        draw_series(found.X, clusters.labels, clusters.medoids),
        "Series of each cluster over time",
        f"Up to {MOST_LINES} series of each cluster; the most central one is black.{few}",
    )
    page.section("How it was made")
    page.facts(found.settings)
    page.command(command)
    return page
