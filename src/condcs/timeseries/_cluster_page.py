"""The page of ``condcs cluster``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray, IntArray, LabelArray
from condcs._core.colours import BLUE, ORANGE, RED
from condcs._core.printable import listed
from condcs.report._page import Page, drawing
from condcs.timeseries._clustering import adjusted_rand_index, normalized_mutual_information
from condcs.timeseries._series_clusters import RivalClusters, SeriesClusters, Setting, Trial

CLUSTER_COLOURS = (BLUE, ORANGE, "#2f855a", "#805ad5", RED, "#00838f", "#b7791f", "#d53f8c", "#4a5568", "#6b8e23")

MOST_SHOWN = 400
"""Series in the picture of distances; of larger collections every so many are shown."""

MOST_LINES = 25
"""Series drawn per cluster."""

MOST_PANELS = 24
"""Clusters whose series are drawn."""

MOST_NAMED_SERIES = 40
"""Series named per cluster."""

SETS_WITH_CLASSES, SUGGESTIONS_RIGHT, TWO_RIGHT = 26, 12, 4
"""On how many sets ``k="auto"`` was tried, and on how many it, or 2, is the number of classes.

Measured by ``condcs reproduce clustering --only "k chosen"`` (docs/results.md).
"""


@dataclass(frozen=True, eq=False)
class Clustering:
    """What was found, for the page and for the terminal."""

    title: str  # where the series came from
    X: list[FloatArray]
    classes: AnyArray | None  # if they are known
    clusters: SeriesClusters
    settings: dict[str, str]  # what was read and used, in words
    names: tuple[str, ...] = ()  # of the series; empty if they have none

    columns = ("cluster", "series", "most central", "mean distance inside", "to the nearest cluster")

    def rows(self) -> list[list[Any]]:
        """Return a line per cluster: number, size, medoid, mean distances inside and to the nearest other cluster."""
        labels, D = self.clusters.labels, self.clusters.distances
        present = np.unique(labels)
        lines: list[list[Any]] = []
        for c in present:
            inside = labels == c
            size = int(inside.sum())
            within = float(D[np.ix_(inside, inside)].sum() / (size * (size - 1))) if size > 1 else 0.0
            between = min((float(D[np.ix_(inside, labels == o)].mean()) for o in present if o != c), default=0.0)
            medoid = int(self.clusters.medoids[list(present).index(c)])
            lines.append([int(c) + 1, size, self.name(medoid), within, between])
        return lines

    def name(self, i: int) -> str:
        """Return the name of a series, or its number from 1 if it has none."""
        return self.names[i] if self.names else str(i + 1)

    def members(self) -> list[list[Any]]:
        """Return a line per cluster: number, and its series by name, the surest ones first."""
        lines = []
        for c in np.unique(self.clusters.labels):
            inside = np.flatnonzero(self.clusters.labels == c)
            inside = inside[np.argsort(-self.clusters.support[inside], kind="stable")]
            lines.append([int(c) + 1, listed([self.name(int(i)) for i in inside], MOST_NAMED_SERIES)])
        return lines

    def against_classes(self) -> dict[str, float]:
        """Return how well the clusters, and those of the rival, fit known classes; empty if there are none."""
        if self.classes is None:
            return {}
        rival = self.clusters.rival
        partitions = {"": self.clusters.labels} | ({} if rival is None else {" of the rival partition": rival.labels})
        return {
            f"{name}{whose}": measure(self.classes, labels)
            for whose, labels in partitions.items()
            for name, measure in (("NMI", normalized_mutual_information), ("ARI", adjusted_rand_index))
        }

    def crossing(self) -> tuple[list[str], list[list[Any]]]:
        """Return the counts of clusters against known classes: titles and rows."""
        assert self.classes is not None
        classes = sorted(set(self.classes.tolist()))
        return ["cluster", *classes], _crossed(self.clusters.labels, self.classes, classes)

    def rival_crossing(self) -> tuple[list[str], list[list[Any]]]:
        """Return the counts of clusters against those of the rival: titles and rows."""
        assert self.clusters.rival is not None
        rival = self.clusters.rival.labels
        others = np.unique(rival).tolist()
        return ["cluster", *(f"rival {o + 1}" for o in others)], _crossed(self.clusters.labels, rival, others)


def _crossed(labels: LabelArray, others: AnyArray, names: Sequence[Any]) -> list[list[Any]]:
    """Return a line per cluster: its number from 1, and how many of its series each of the others has."""
    return [[int(c) + 1, *(int(((labels == c) & (others == name)).sum()) for name in names)] for c in np.unique(labels)]


def cluster_page(clustering: Clustering, command: str) -> Page:
    """Return the page: clusters in numbers, distances, map, series, and what was done."""
    clusters, measure = clustering.clusters, clustering.settings["measure"]
    rows = clustering.rows()
    page = Page(
        f"Clusters of {clustering.title}",
        f"{len(clustering.X):,} series in {len(rows)} clusters by "
        + ("the divergence between their dynamics." if measure == "conditional_cs" else f"{measure}."),
    )
    page.section("Clusters")
    numbered = "" if clustering.names else "Series are numbered from 1, in the order of the file"
    page.table(clustering.columns, rows, numbered)
    if len(clusters.k_marks) > 1:
        number = len(clusters.medoids)
        page.text(f"{number} clusters are a suggestion. {suggestion_words()} Try other numbers, too (--k).")
    _agreement_text(page, clusters)
    page.text(
        f"Mean silhouette {clusters.silhouette:.3f}: 1 means tight clusters far apart, 0 clusters that touch, and "
        "values below 0 series that are closer to another cluster than to their own."
    )
    if clusters.rival is not None:
        _rival_section(page, clustering, clusters.rival)
    against_classes = clustering.against_classes()
    if against_classes:
        page.section("Against the labels of the file")
        page.facts({name: f"{value:.3f}" for name, value in against_classes.items()})
        page.table(*clustering.crossing(), "Series of each class in each cluster")
    page.section("Series")
    few = f" The first {MOST_PANELS} clusters are shown." if len(rows) > MOST_PANELS else ""
    page.figure(
        draw_clusters(clustering.X, clusters.labels, clusters.medoids),
        "Series of each cluster over time",
        f"Up to {MOST_LINES} series of each cluster; the most central one is black.{few}",
    )
    page.table(
        ["cluster", "series"],
        clustering.members(),
        "Which series belong together, the surest first; labels.csv has them all",
    )
    page.section("Distances")
    sampled = f" {MOST_SHOWN} of {len(clustering.X):,} series are shown." if len(clustering.X) > MOST_SHOWN else ""
    page.figure(
        draw_distances(clusters.distances, clusters.labels),
        "Matrix of the distances between series, sorted by cluster",
        f"All pairs, sorted by cluster: dark blocks on the diagonal are clusters. {_distance_words(clusters)}{sampled}",
    )
    page.figure(
        draw_map(clusters.distances, clusters.labels, clusters.medoids),
        "Series as points in a plane, coloured by cluster",
        "A map of the same distances (classical scaling); the numbers mark the most central series.",
    )
    if clusters.tried:
        _choice_section(page, clusters)
    page.section("How it was made")
    page.facts({name: value.replace("\n", "; ") for name, value in clustering.settings.items()})
    page.command(command)
    return page


def _distance_words(clusters: SeriesClusters) -> str:
    """Say which distances the tables and pictures show."""
    if len(clusters.votes) > 1:
        return f"Distances are means over the {len(clusters.votes)} settings that voted, in units of their medians."
    return ""


def _agreement_text(page: Page, clusters: SeriesClusters) -> None:
    """Say how many of the votes agree with the result, and what that does not say."""
    if len(clusters.votes) > 1:
        unsure = int((clusters.support < 0.5).sum())
        page.text(
            f"Agreement {clusters.agreement:.2f}: the mean adjusted mutual information of these clusters with those of "
            f"the {len(clusters.votes)} settings that voted, each by two algorithms; 1 means that all find the same. "
            "It says how much the clusters depend on the setting and the algorithm, not whether they are the classes "
            "that you have in mind: settings can agree on other ones. "
            f"{unsure:,} of {len(clusters.labels):,} series are together with the others of their "
            "cluster in less than half of the votes (column support of labels.csv)."
        )


def _rival_section(page: Page, clustering: Clustering, rival: RivalClusters) -> None:
    """Show the partition that is nearly as good."""
    page.section("Another partition, nearly as good")
    page.text(
        f"{setting_words(rival.setting).capitalize()}, has a mark of {rival.mark:.2f} (the best one is "
        f"{clustering.clusters.tried[0].mark:.2f}) and finds other clusters: their adjusted mutual information with "
        f"those above is {rival.agreement:.2f}. The series alone do not say which of the two is wanted: look at both "
        "(column rival_cluster of labels.csv)."
    )
    page.table(*clustering.rival_crossing(), "Series of each rival cluster in each cluster")
    page.figure(
        draw_clusters(clustering.X, rival.labels, name="rival"),
        "Series of each rival cluster over time",
        f"Up to {MOST_LINES} series of each rival cluster.",
    )


def setting_words(setting: Setting) -> str:
    """Return a setting in words."""
    position = " and position in time" if setting.position else ""
    return f"window {setting.order}{position}, factor {setting.factor:g}, scaling {setting.scaling}"


def suggestion_words() -> str:
    """Say how often a suggested number of clusters is right."""
    return (
        f"A suggested number is that of the classes on {SUGGESTIONS_RIGHT} of {SETS_WITH_CLASSES} data sets with known "
        f"ones, where always taking 2 would have been right on {TWO_RIGHT}."
    )


def tried_words(clusters: SeriesClusters) -> str:
    """Say how many settings were tried on how many series."""
    return f"{len(clusters.tried)} settings on {clusters.tried[0].n_series} series"


def _choice_section(page: Page, clusters: SeriesClusters) -> None:
    """Show what was tried and what was chosen."""
    page.section("Choice of the settings")
    page.text(
        f"Without labels, {tried_words(clusters)} were tried. A setting's mark is the agreement of spectral "
        "clustering and k-medoids under its distances, times the balance of their cluster sizes: two algorithms that "
        "look for different things agree where there are clusters, of whatever kind. The settings with a frame decided."
    )
    page.figure(
        draw_choice(clusters.tried, clusters.votes),
        "Mark of each setting, by window, scaling and bandwidth factor, with and without the position in time",
        "Marks of the settings that were tried; 1 is perfect agreement on clusters of equal size.",
    )
    if clusters.k_marks:
        page.table(
            ["clusters", *map(str, clusters.k_marks)],
            [["mean mark of the best settings", *(f"{mark:.3f}" for mark in clusters.k_marks.values())]],
            "The number of clusters that is suggested has the highest mark",
        )


def draw_choice(tried: Sequence[Trial], votes: Sequence[Setting]) -> Any:
    """Draw the marks as tables of colours, by scaling, without and with the position; frames mark what voted."""
    from matplotlib.patches import Rectangle

    settings = [trial.setting for trial in tried]
    panels = sorted({(s.position, s.scaling) for s in settings})
    across = len({scaling for _, scaling in panels})
    factors = sorted({s.factor for s in settings})
    # Not all windows are tried with the position.
    windows = {p: sorted({s.order for s in settings if s.position == p}) for p, _ in panels}
    heights = [len(orders) for orders in windows.values()]
    size = (1.3 + 0.72 * len(factors) * across, 1.1 * len(windows) + 0.45 * sum(heights))
    shape = (len(windows), across)
    figure, axes = drawing(*size, *shape, squeeze=False, sharey="row", sharex=True, height_ratios=heights)
    for axis, (position, scaling) in zip(axes.flat, panels, strict=True):
        orders = windows[position]
        marks = np.full((len(orders), len(factors)), np.nan)
        for trial in tried:
            if (trial.setting.position, trial.setting.scaling) == (position, scaling):
                marks[orders.index(trial.setting.order), factors.index(trial.setting.factor)] = trial.mark
        axis.imshow(marks, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
        for row, column in np.argwhere(np.isfinite(marks)):
            mark = marks[row, column]
            axis.text(
                column, row, f"{mark:.2f}", ha="center", va="center", fontsize=8,
                color="white" if mark > 0.55 else "#1a202c",
            )  # fmt: skip
        for vote in votes:
            if (vote.position, vote.scaling) == (position, scaling):
                corner = (factors.index(vote.factor) - 0.47, orders.index(vote.order) - 0.46)
                axis.add_patch(Rectangle(corner, 0.94, 0.92, fill=False, ec=ORANGE, lw=2.2))
        axis.set_xticks(range(len(factors)), [f"{f:g}" for f in factors])
        axis.set_yticks(range(len(orders)), [str(o) for o in orders])
        axis.set_title(f"{scaling}, with position" if position else scaling, fontsize=10)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("bandwidth factor")
    for axis in axes[:, 0]:
        axis.set_ylabel("window")
    return figure


def colour_of(c: int) -> str:
    """Return the colour of a cluster."""
    return CLUSTER_COLOURS[c % len(CLUSTER_COLOURS)]


def draw_distances(D: FloatArray, labels: LabelArray) -> Any:
    """Draw the matrix with the series sorted by cluster; lines part the clusters."""
    order = np.argsort(labels, kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(len(order), MOST_SHOWN)).astype(int)]
    shown = D[np.ix_(order, order)]
    apart = shown[~np.eye(len(shown), dtype=bool)]
    figure, axis = drawing(5, 4.3, framed=True)
    # The largest twentieth would leave no shades for the rest.
    image = axis.imshow(shown, cmap="viridis", vmin=min(0.0, float(apart.min())), vmax=float(np.quantile(apart, 0.95)))
    edges = np.flatnonzero(np.diff(labels[order])) + 0.5
    for edge in edges:
        axis.axhline(edge, color="white", lw=0.9)
        axis.axvline(edge, color="white", lw=0.9)
    bounds = np.concatenate([[-0.5], edges, [len(order) - 0.5]])
    names = [str(int(c) + 1) for c in labels[order][np.ceil(bounds[:-1]).astype(int)]]
    axis.set_xticks((bounds[1:] + bounds[:-1]) / 2, names)
    axis.set_yticks((bounds[1:] + bounds[:-1]) / 2, names)
    axis.tick_params(length=0)
    axis.set_xlabel("cluster")
    axis.set_ylabel("cluster")
    figure.colorbar(image, label="distance", extend="max")
    return figure


def draw_map(D: FloatArray, labels: LabelArray, medoids: IntArray) -> Any:
    """Draw the series in a plane whose distances are like theirs (classical scaling, D as squared distance)."""
    points = planar(D)
    figure, axis = drawing(5, 4.3, framed=True)
    for c in np.unique(labels):
        members = labels == c
        axis.plot(*points[members].T, "o", ms=4.5, mew=0, alpha=0.65, color=colour_of(c))
    for c, medoid in zip(np.unique(labels), medoids, strict=True):
        axis.plot(*points[medoid], "o", ms=13, mfc="white", mec=colour_of(c), mew=1.8)
        axis.text(points[medoid, 0], points[medoid, 1], str(int(c) + 1), ha="center", va="center_baseline", fontsize=8)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set_color("#a0aec0")
    return figure


def planar(D: FloatArray) -> FloatArray:
    """Return points (n, 2) in the plane by classical scaling of D, taken as squared distances."""
    n = len(D)
    squares = np.maximum((D + D.T) / 2, 0.0)
    means = squares.mean(axis=0)
    B = -0.5 * (squares - means - means[:, None] + means.mean())
    if n > 800:
        from scipy.sparse.linalg import eigsh

        values, vectors = eigsh(B, k=2, which="LA", v0=np.ones(n))
    else:
        values, vectors = (part[..., -2:] for part in np.linalg.eigh(B))
    points = vectors * np.sqrt(np.maximum(values, 0.0))
    # Signs of eigenvectors are arbitrary: the first series lies on the left and below.
    return np.asarray(points[:, ::-1] * np.where(points[0, ::-1] > 0, -1.0, 1.0))


def draw_clusters(
    X: list[FloatArray], labels: LabelArray, medoids: IntArray | None = None, *, name: str = "cluster"
) -> Any:
    """Draw the series of each cluster with the most central one, if any, on top; the first three channels as rows."""
    present = np.unique(labels)[:MOST_PANELS]
    channels = min(3, len(X[0]))
    columns = min(4, len(present))
    lines = -(-len(present) // columns) * channels
    figure, axes = drawing(2.3 * columns + 0.4, 1.45 * lines + 0.3, lines, columns, squeeze=False, sharex=True)
    for axis in axes.ravel():
        axis.set_visible(False)
    for panel, c in enumerate(present):
        members = np.flatnonzero(labels == c)
        shown = members[np.linspace(0, len(members) - 1, min(len(members), MOST_LINES)).astype(int)]
        for channel in range(channels):
            axis = axes[panel // columns * channels + channel, panel % columns]
            axis.set_visible(True)
            for i in shown:
                axis.plot(X[i][channel], color=colour_of(c), lw=0.7, alpha=0.3)
            if medoids is not None:
                axis.plot(X[medoids[panel]][channel], color="#1a202c", lw=1.4)
            axis.tick_params(labelsize=7, length=2)
            if channel == 0:
                axis.set_title(f"{name} {int(c) + 1}: {len(members):,} series", fontsize=9)
            if channels > 1 and panel % columns == 0:
                axis.set_ylabel(f"channel {channel + 1}", fontsize=8)
    return figure
