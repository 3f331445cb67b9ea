"""Pictures of a clustering: distances in the order of the clusters, a map, and the series of each cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

FloatArray = np.ndarray[Any, Any]

COLOURS = ("#2b6cb0", "#dd6b20", "#2f855a", "#805ad5", "#c53030", "#00838f", "#b7791f", "#d53f8c", "#4a5568", "#6b8e23")

MOST_SHOWN = 400
"""Series in the picture of distances; of larger collections every so many are shown."""

MOST_LINES = 25
"""Series drawn per cluster."""

MOST_PANELS = 24
"""Clusters whose series are drawn."""


def colour_of(c: int) -> str:
    """Return the colour of a cluster."""
    return COLOURS[c % len(COLOURS)]


def draw_distances(D: FloatArray, labels: FloatArray) -> Any:
    """Draw the matrix with the series sorted by cluster; lines part the clusters."""
    from matplotlib.figure import Figure

    order = np.argsort(labels, kind="stable")
    order = order[np.linspace(0, len(order) - 1, min(len(order), MOST_SHOWN)).astype(int)]
    shown = D[np.ix_(order, order)]
    apart = shown[~np.eye(len(shown), dtype=bool)]
    figure = Figure(figsize=(5, 4.3), layout="constrained")
    axis = figure.add_subplot()
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


def draw_map(D: FloatArray, labels: FloatArray, medoids: FloatArray) -> Any:
    """Draw the series in a plane whose distances are like theirs (classical scaling, D as squared distance)."""
    from matplotlib.figure import Figure

    places = planar(D)
    figure = Figure(figsize=(5, 4.3), layout="constrained")
    axis = figure.add_subplot()
    for c in np.unique(labels):
        members = labels == c
        axis.plot(*places[members].T, "o", ms=4.5, mew=0, alpha=0.65, color=colour_of(c))
    for c, medoid in zip(np.unique(labels), medoids, strict=True):
        axis.plot(*places[medoid], "o", ms=13, mfc="white", mec=colour_of(c), mew=1.8)
        axis.text(places[medoid, 0], places[medoid, 1], str(int(c) + 1), ha="center", va="center_baseline", fontsize=8)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set_color("#a0aec0")
    return figure


def planar(D: FloatArray) -> FloatArray:
    """Return places in the plane by classical scaling of D, taken as squared distances."""
    n = len(D)
    squares = np.maximum((D + D.T) / 2, 0.0)
    means = squares.mean(axis=0)
    B = -0.5 * (squares - means - means[:, None] + means.mean())
    if n > 800:
        from scipy.sparse.linalg import eigsh

        values, vectors = eigsh(B, k=2, which="LA", v0=np.ones(n))
    else:
        values, vectors = (part[..., -2:] for part in np.linalg.eigh(B))
    places = vectors * np.sqrt(np.maximum(values, 0.0))
    # Signs of eigenvectors are arbitrary: the first series lies on the left and below.
    return np.asarray(places[:, ::-1] * np.where(places[0, ::-1] > 0, -1.0, 1.0))


def draw_series(X: list[FloatArray], labels: FloatArray, medoids: FloatArray) -> Any:
    """Draw the series of each cluster with the most central one on top; the first three channels as rows."""
    from matplotlib.figure import Figure

    present = np.unique(labels)[:MOST_PANELS]
    channels = min(3, len(X[0]))
    columns = min(4, len(present)) if channels == 1 else len(present)
    if channels > 1:
        columns = min(columns, 4)
    lines = -(-len(present) // columns) * channels
    figure = Figure(figsize=(2.3 * columns + 0.4, 1.45 * lines + 0.3), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True)
    for axis in axes.ravel():
        axis.set_visible(False)
    for place, (c, medoid) in enumerate(zip(present, medoids, strict=False)):
        members = np.flatnonzero(labels == c)
        shown = members[np.linspace(0, len(members) - 1, min(len(members), MOST_LINES)).astype(int)]
        for channel in range(channels):
            axis = axes[place // columns * channels + channel, place % columns]
            axis.set_visible(True)
            for i in shown:
                axis.plot(X[i][channel], color=colour_of(c), lw=0.7, alpha=0.3)
            axis.plot(X[medoid][channel], color="#1a202c", lw=1.4)
            axis.tick_params(labelsize=7, length=2)
            axis.spines[["top", "right"]].set_visible(False)
            if channel == 0:
                axis.set_title(f"cluster {int(c) + 1}: {len(members)}", fontsize=9)
            if channels > 1 and place % columns == 0:
                axis.set_ylabel(f"channel {channel + 1}", fontsize=8)
    return figure
