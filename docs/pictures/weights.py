"""How x weights the similarities of y: the matrices behind Fig. 1 of the paper, on data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from style import Colours, both


def draw_all(folder: Path, *, quick: bool) -> list[Path]:
    """Write the picture."""
    rng = np.random.default_rng(4)
    count = 9 if quick else 26
    x = np.sort(rng.uniform(-2, 2, count))
    y = np.sin(1.5 * x) + 0.15 * rng.normal(size=count)
    here, y_here = 0.6, np.sin(0.9)
    weight = np.exp(-0.5 * ((x - here) / 0.45) ** 2)
    weight /= weight.sum()

    def draw(colours: Colours) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.3), sharey=True)
        words = (
            "CS divergence: every pair counts alike",
            "conditional CS: pairs with near x count",
        )
        for axis, title, shares in zip(
            axes, words, (np.full(count, 1 / count), weight), strict=True
        ):
            for xi, yi, share in zip(x, y, shares, strict=True):
                axis.plot(
                    [here, xi],
                    [y_here, yi],
                    color=colours.faint,
                    lw=1.4 * count * share,
                    alpha=0.75,
                    zorder=1,
                )
            axis.scatter(x, y, s=26, color=colours.second, zorder=2, label="rows of q")
            axis.scatter([here], [y_here], s=60, color=colours.first, zorder=3, label="a row of p")
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("x")
        axes[0].set_ylabel("y")
        axes[0].legend(loc="lower right", fontsize=9)
        return figure

    return both("weights", draw, folder)
