"""The picture of the first page: two samples, their means, and where over x the relation differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import condcs
from condcs.datasets import make_local_shift
from style import Colours, both


def local_mean(x: Any, y: Any, at: Any, width: float) -> Any:
    """Return the kernel average of y at points."""
    weights = np.exp(-0.5 * ((at[:, None] - x[None, :]) / width) ** 2)
    return weights @ y / weights.sum(1)


def draw_all(folder: Path, *, quick: bool) -> list[Path]:
    """Write the picture."""
    data = make_local_shift(400, rng=0)
    grid = np.linspace(-2.6, 2.65, 60 if quick else 160)
    samples = data.xp, data.yp, data.xq, data.yq
    found = condcs.witness(*samples, at=grid, n_resamples=40 if quick else 400, rng=0)
    regions = condcs.explain(*samples, rng=0).regions

    def draw(colours: Colours) -> Any:
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(6.4, 4.9), sharex=True, height_ratios=[2.1, 1]
        )
        low, high = data.region
        for axis in (above, below):
            axis.axvspan(low, high, color=colours.second, alpha=0.13, lw=0)
        samples = (
            (data.xp, data.yp, colours.first, "last month"),
            (data.xq, data.yq, colours.second, "this month"),
        )
        for x, y, colour, name in samples:
            above.scatter(x, y, s=7, color=colour, alpha=0.32, lw=0)
            above.plot(
                grid,
                local_mean(x[:, 0], y[:, 0], grid, 0.18),
                color=colour,
                lw=2.6,
                label=name,
            )
        above.set_title("the two samples")
        above.set_ylabel("y")
        above.legend(loc="upper left")
        band = found.simultaneous_band
        below.fill_between(
            grid, 0, band, color=colours.faint, alpha=0.4, lw=0, label="95% of chance, all x"
        )
        below.plot(grid, found.values, color=colours.ink, lw=2.2, label="local divergence")
        more = found.values > band
        below.fill_between(
            grid, band, found.values, where=more, color=colours.second, alpha=0.4, lw=0
        )
        for region in regions:
            for end in region.bounds["x"]:
                below.axvline(end, color=colours.ink, lw=1.2, ls=(0, (4, 3)))
        where = " and ".join(region.words for region in regions)
        below.set_title(f"where p(y|x) differs: {where}")
        below.set_xlabel("x")
        below.set_ylim(0)
        below.set_xlim(grid[0], grid[-1])
        below.legend(loc="upper left")
        return figure

    return both("first-page", draw, folder)
