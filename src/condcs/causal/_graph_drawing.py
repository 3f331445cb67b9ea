"""Plots of a causal graph: the significant links, and the matrix of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from condcs.causal._graphs import CausalGraph

BLUE, INK, PALE = "#2b6cb0", "#1a365d", "#e2e8f0"
_MOST_LABELLED = 12


def draw_causal_graph(graph: CausalGraph, alpha: float, *, adjusted: bool = True, axes: Any = None) -> Any:
    """Draw links with arrows on a circle, and scores as a matrix with significant ones framed."""
    from matplotlib.figure import Figure

    if axes is None:
        figure = Figure(figsize=(9.6, 4.4), layout="constrained")
        axes = figure.subplots(1, 2)
    left, right = axes
    found = graph.adjacency(alpha, adjusted=adjusted)
    draw_links(left, graph.names, found, strengths=graph.scores)
    word = "adjusted p" if adjusted else "p"
    left.set_title(f"links with {word} ≤ {alpha:g}", fontsize=10)
    draw_matrix(right, graph.names, graph.scores, found)
    return right.figure


def plain(name: str) -> str:
    """Return a name that matplotlib shows as it is: a dollar sign would start a formula."""
    return name.replace("$", r"\$")


def circle(count: int) -> Any:
    """Places of the nodes: on a circle, the first at the top, clockwise."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def draw_links(axis: Any, names: Any, found: Any, *, strengths: Any = None, colours: Any = None) -> None:
    """Draw nodes on a circle and an arrow per link; the arrows of a pair of opposite links are curved."""
    places, size = circle(len(names)), 17 if len(names) <= _MOST_LABELLED else 9
    top = np.nanmax(np.where(found, strengths, np.nan)) if strengths is not None and found.any() else 1.0
    for i, j in np.argwhere(found):
        share = 1.0 if strengths is None or not top > 0 else max(float(strengths[i, j]) / top, 0.0)
        axis.annotate(
            "",
            xy=places[j],
            xytext=places[i],
            arrowprops={
                "arrowstyle": "-|>,head_length=0.5,head_width=0.25",
                "connectionstyle": f"arc3,rad={0.18 if found[j, i] else 0.0}",
                "color": BLUE if colours is None else colours[i, j],
                "lw": 0.9 + 2.2 * share,
                "shrinkA": size * 0.75,
                "shrinkB": size * 0.75,
            },
        )
    axis.plot(*places.T, "o", ms=size * 1.35, color="white", mec=INK, mew=1.3, zorder=3)
    for name, place in zip(names, places, strict=True):
        if all(len(n) <= 4 for n in names):
            axis.text(*place, plain(name), ha="center", va="center_baseline", fontsize=9, color=INK, zorder=4)
        else:
            side = "left" if place[0] > 0.1 else "right" if place[0] < -0.1 else "center"
            height = "bottom" if place[1] > 0.9 else "top" if place[1] < -0.9 else "center"
            axis.text(*(1.16 * place), plain(name), ha=side, va=height, fontsize=9, color=INK, zorder=4)
    axis.set(xlim=(-1.45, 1.45), ylim=(-1.35, 1.35), aspect="equal")
    axis.set_axis_off()


def draw_matrix(axis: Any, names: Any, scores: Any, found: Any) -> None:
    """Draw scores as shades; significant links get a frame."""
    shown = axis.imshow(
        np.where(np.isfinite(scores), scores, np.nan), cmap="Blues", vmin=0 if np.nanmin(scores) >= 0 else None
    )
    axis.figure.colorbar(shown, ax=axis, shrink=0.8, label="score")
    shown_names = [plain(name) for name in names]
    axis.set_xticks(range(len(names)), shown_names, rotation=0 if max(map(len, names)) < 4 else 45, ha="center")
    axis.set_yticks(range(len(names)), shown_names)
    axis.set(xlabel="target", ylabel="source")
    if len(names) <= _MOST_LABELLED:
        middle = (np.nanmax(scores) + min(np.nanmin(scores), 0)) / 2
        for i, j in np.argwhere(np.isfinite(scores)):
            colour = "white" if scores[i, j] > middle else INK
            axis.text(j, i, f"{scores[i, j]:.2g}", ha="center", va="center", fontsize=8, color=colour)
    for i, j in np.argwhere(found):
        axis.add_patch(_frame(j - 0.5, i - 0.5))
    axis.set_title("scores; framed: significant", fontsize=10)
    axis.tick_params(length=0)
    axis.spines[:].set_color(PALE)


def _frame(x: float, y: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x + 0.03, y + 0.03), 0.94, 0.94, fill=False, ec="#dd6b20", lw=1.8)
