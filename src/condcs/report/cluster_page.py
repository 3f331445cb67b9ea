"""The page of ``condcs cluster``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from condcs.report.cluster_pictures import MOST_LINES, MOST_PANELS, MOST_SHOWN, draw_distances, draw_map, draw_series
from condcs.report.page import Page

if TYPE_CHECKING:
    from condcs.cli.cluster import Clustering


def cluster_page(found: Clustering, command: str) -> Page:
    """Return the page: clusters in numbers, distances, map, series, and what was done."""
    file, clusters = found.file, found.clusters
    rows = found.rows()
    page = Page(
        f"Clusters of {file.title}",
        f"{len(file.X):,} series in {len(rows)} clusters by "
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
    sampled = f" {MOST_SHOWN} of {len(file.X):,} series are shown." if len(file.X) > MOST_SHOWN else ""
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
        draw_series(file.X, clusters.labels, clusters.medoids),
        "Series of each cluster over time",
        f"Up to {MOST_LINES} series of each cluster; the most central one is black.{few}",
    )
    page.section("How it was made")
    page.facts(found.settings)
    page.command(command)
    return page
