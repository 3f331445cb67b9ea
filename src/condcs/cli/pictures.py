"""Pictures of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from condcs.datasets import LocalShift
from condcs.inference.witness import Witness

ENDINGS = (".png", ".svg", ".pdf")

BLUE, ORANGE, SHADE = "#2b6cb0", "#dd6b20", "#f6e7d8"


def draw_local_shift(data: LocalShift, local: Witness, out: Path) -> None:
    """Draw both samples with their conditional means, and below them where the conditionals differ."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (axes, below) = plt.subplots(2, 1, figsize=(8, 6), layout="constrained", sharex=True, height_ratios=[3, 2])
    axes.axvspan(*data.region, color=SHADE, zorder=0, lw=0)
    place: dict[str, Any] = {"ha": "center", "va": "bottom", "transform": axes.get_xaxis_transform()}
    axes.text(float(np.mean(data.region)), 1.01, "p(y|x) differs here", color="#9c4221", fontsize=9, **place)
    for x, y, color, label in ((data.xp, data.yp, BLUE, "first sample"), (data.xq, data.yq, ORANGE, "second sample")):
        axes.plot(x[:, 0], y[:, 0], "o", ms=3.2, alpha=0.35, color=color, mew=0)
        low, high = np.quantile(x, [0.01, 0.99])
        grid = np.linspace(low, high, 200)
        axes.plot(
            grid, _conditional_mean(x[:, 0], y[:, 0], grid), color=color, lw=2.2, label=f"{label}: mean of y given x"
        )
    axes.set(ylabel="y")
    axes.legend(frameon=False, loc="upper left", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    local.plot(axes=below)
    below.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(local.at[0, 0], local.at[-1, 0])
    figure.savefig(out, dpi=150)
    plt.close(figure)


def _conditional_mean(
    x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], at: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    weights = np.exp(-0.5 * ((at[:, None] - x) / 0.15) ** 2)
    return np.asarray(weights @ y / weights.sum(axis=1))
