"""Pictures of a witness: a curve, a map, or the inputs that tell most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.checks import check_integer
from condcs._core.colours import BLUE, GREY, PALE_BLUE, PALER_BLUE, RUST
from condcs._core.errors import ParameterError, public

if TYPE_CHECKING:
    from condcs._inference.witness import Witness

_AXIS_TITLE = "local divergence"


@public
def plot_witness(witness: Witness, *, max_panels: int = 3, axes: Any = None) -> Any:
    """Draw a witness and return the matplotlib figure.

    One input: a curve over x with the bands of chance, for each point by itself and for all at once, and a rug of the
    points. Two: a map of x coloured by the witness, points above the band for all points ringed. More: one panel for
    each of the inputs that the witness depends on most.

    Parameters
    ----------
    witness : Witness
        What `condcs.witness` returned.
    max_panels : int
        Most panels for more than two inputs.
    axes : matplotlib axes, optional
        Where to draw, for one or two inputs; a new figure by default.

    Returns
    -------
    matplotlib figure
        Not shown; save it with `figure.savefig("where.png")`.

    Examples
    --------
    >>> import numpy as np
    >>> from condcs._inference.witness import witness
    >>> x = np.linspace(0, 1, 60)
    >>> figure = plot_witness(witness(x, x, x, x**2))
    >>> figure.axes[0].get_xlabel()
    'x'
    """
    check_integer("max_panels", max_panels, 1)
    shown = np.isfinite(witness.values)
    columns = witness.at.shape[1]
    if axes is not None and columns > 2:
        raise ParameterError(
            f"`axes` must be left out for more than two inputs, got axes and {columns} inputs. Each has its own panel."
        )
    if axes is None:
        chosen = most_telling(witness.at[shown], witness.values[shown], max_panels) if columns > 2 else [0]
        figure, panels = _figure(len(chosen), wide=columns != 2)
    else:
        chosen, figure, panels = [0], axes.figure, [axes]
    if columns == 1:
        _curve(panels[0], witness, shown)
    elif columns == 2:
        _map(figure, panels[0], witness, shown)
    else:
        for panel, column in zip(panels, chosen, strict=True):
            _partial(panel, witness, shown, column)
        panels[0].set_ylabel(_AXIS_TITLE)
        panels[-1].legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def _figure(count: int, *, wide: bool) -> tuple[Any, list[Any]]:
    # A Figure of its own, not pyplot's: nothing global is touched, and it works without a display.
    from matplotlib.figure import Figure

    size = (min(3.6 * count + 0.6, 14), 3.4) if count > 1 else (7.2, 3.8) if wide else (6.0, 4.6)
    figure = Figure(figsize=size, layout="constrained", dpi=110)
    panels = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(panels)


def _curve(axes: Any, witness: Witness, shown: BoolArray) -> None:
    order = np.flatnonzero(shown)[np.argsort(witness.at[shown, 0], kind="stable")]
    x, values = witness.at[order, 0], witness.values[order]
    if witness.band is not None and witness.simultaneous_band is not None:
        band, wider = witness.band[order], witness.simultaneous_band[order]
        chance = f"{witness.confidence_level:.0%} of chance"
        axes.fill_between(x, 0, band, color=PALE_BLUE, lw=0, label=f"{chance}, each point")
        axes.fill_between(x, band, wider, color=PALER_BLUE, lw=0, label=f"{chance}, all points at once")
        above = values > wider
        axes.fill_between(x, wider, values, where=above, color=RUST, alpha=0.35, lw=0, label="beyond chance")
    axes.plot(x, values, color=BLUE, lw=2, label=_AXIS_TITLE)
    axes.plot(x, np.zeros_like(x), "|", color=GREY, ms=7, alpha=0.25, transform=axes.get_xaxis_transform())
    axes.set(xlabel=witness.names[0], ylabel=_AXIS_TITLE, xlim=(x[0], x[-1]) if x[0] < x[-1] else None)
    axes.set_ylim(bottom=0, top=1.12 * _top(witness, shown))
    if witness.band is not None:
        axes.legend(frameon=False, fontsize=9, loc="best")


def _map(figure: Any, axes: Any, witness: Witness, shown: BoolArray) -> None:
    x, y = witness.at[shown].T
    values = witness.values[shown]
    # Large values are drawn last, so that a peak is not hidden under its neighbours.
    order = np.argsort(values)
    size = float(np.clip(16000 / max(len(x), 1), 16, 60))
    # A few points with hardly a neighbour would flatten the colours of all others.
    top = float(np.quantile(values, 0.98)) or 1.0
    extend = "max" if values.max() > top else "neither"
    points = axes.scatter(x[order], y[order], c=values[order], s=size, cmap="viridis", vmin=0, vmax=top, lw=0)
    figure.colorbar(points, ax=axes, label=_AXIS_TITLE, extend=extend)
    if witness.simultaneous_band is not None:
        above = values > witness.simultaneous_band[shown]
        ring = {"facecolors": "none", "edgecolors": RUST, "linewidths": 0.7}
        words = f"above the {witness.confidence_level:.0%} band of chance for all points"
        axes.scatter(x[above], y[above], s=2.2 * size, **ring, label=words)
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
    axes.set(xlabel=witness.names[0], ylabel=witness.names[1])


def _partial(axes: Any, witness: Witness, shown: BoolArray, column: int) -> None:
    x, values = witness.at[shown, column], witness.values[shown]
    axes.plot(x, values, "o", color=BLUE, ms=3, alpha=0.25, mew=0)
    centres, means = bin_means(x, values)
    axes.plot(centres, means, color=BLUE, lw=2.2, label="mean")
    if witness.expected is not None:
        chance = bin_means(x, witness.expected[shown])
        axes.plot(*chance, color=GREY, lw=1.4, ls="--", label="mean by chance alone")
    axes.set_xlabel(witness.names[column])
    # A few points with hardly a neighbour would flatten everything else.
    axes.set_ylim(bottom=0, top=1.15 * float(np.quantile(values, 0.99)) or None)


def _top(witness: Witness, shown: BoolArray) -> float:
    top = float(witness.values[shown].max(initial=0.0))
    if witness.band is not None:
        # The wider band may leave the picture at points with hardly a neighbour.
        top = max(top, float(np.quantile(witness.band[shown], 0.98)))
    return top if top > 0 else 1.0


def most_telling(x: FloatArray, values: FloatArray, count: int) -> Sequence[int]:
    """Columns of x by how much of the witness's variance the means over their bins explain."""
    total = float(np.var(values))
    shares = []
    for column in x.T:
        bins = _bins(column)
        sizes = np.bincount(bins)
        means = np.bincount(bins, weights=values) / np.maximum(sizes, 1)
        shares.append(float(np.var(means[bins])) / total if total > 0 else 0.0)
    return [int(c) for c in np.argsort(-np.array(shares), kind="stable")[:count]]


def bin_means(x: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means of x and of the values over bins of equally many points."""
    bins = _bins(x)
    sizes = np.bincount(bins)
    is_filled = sizes > 0
    centres = np.bincount(bins, weights=x)[is_filled] / sizes[is_filled]
    means = np.bincount(bins, weights=values)[is_filled] / sizes[is_filled]
    return centres, means


def _bins(column: FloatArray, count: int = 12) -> IntArray:
    """Return the bin of each value; bins hold about equally many, but equal values lie in one."""
    edges = np.unique(np.quantile(column, np.linspace(0, 1, count + 1)[1:-1]))
    return np.searchsorted(edges, column, side="right")
