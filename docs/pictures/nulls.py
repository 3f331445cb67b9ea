"""What goes wrong with the permutation null when x has shifted, and what the other nulls do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import binom

import condcs
from style import Colours, both

NULLS = ("permutation", "propensity", "local")
ROWS = 150


def same_relation(
    shift: float, rng: np.random.Generator, rows: int = ROWS
) -> tuple[Any, Any, Any, Any]:
    """Draw two samples with one and the same p(y|x); the second one's x has moved by `shift` standard deviations."""
    xp, xq = rng.normal(size=rows), rng.normal(shift, 1, size=rows)
    yp, yq = (x + 0.5 * x**2 + 0.5 * rng.normal(size=rows) for x in (xp, xq))
    return xp, yp, xq, yq


def rejections(shifts: Any, runs: int) -> dict[str, list[float]]:
    """Return how often each null rejects, at level 5%, a hypothesis that is true."""
    shares: dict[str, list[float]] = {null: [] for null in NULLS}
    for shift in shifts:
        counts = dict.fromkeys(NULLS, 0)
        for run in range(runs):
            data = same_relation(shift, np.random.default_rng([run, round(100 * shift)]))
            for null in NULLS:
                result = condcs.conditional_test(
                    *data, null=null, n_resamples=99, rng=run, n_jobs=1
                )
                counts[null] += result.pvalue <= 0.05
        for null in NULLS:
            shares[null].append(counts[null] / runs)
    return shares


def draw_all(folder: Path, *, quick: bool) -> list[Path]:
    """Write both pictures and print the rates."""
    shifts = [0.0, 0.75] if quick else [0.0, 0.25, 0.5, 0.75, 1.0]
    runs = 4 if quick else 100
    shares = rejections(shifts, runs)
    print(
        f"true hypotheses rejected at level 5%, {runs} runs of {ROWS} + {ROWS} rows, by shift of x"
    )
    for null in NULLS:
        print(
            f"  {null:12s}",
            *(f"{shift:g}: {share:.3f}" for shift, share in zip(shifts, shares[null], strict=True)),
        )
    low, high = binom.interval(0.95, runs, 0.05)
    return [
        *both(
            "nulls-rejections",
            lambda c: _rates(c, shifts, shares, (low / runs, high / runs)),
            folder,
        ),
        *both("nulls-one-sample", lambda c: _one_sample(c, 99 if quick else 999), folder),
    ]


def _rates(
    colours: Colours, shifts: Any, shares: dict[str, list[float]], band: tuple[float, float]
) -> Any:
    figure, axis = plt.subplots(figsize=(6.6, 3.7))
    axis.axhspan(*band, color=colours.faint, alpha=0.35, lw=0)
    axis.text(
        shifts[-1],
        band[1] + 0.015,
        "where a test of level 5% should be",
        ha="right",
        fontsize=9,
    )
    palette = dict(zip(NULLS, (colours.second, colours.first, colours.third), strict=True))
    for null in NULLS:
        axis.plot(shifts, shares[null], "o-", color=palette[null], lw=2.2, label=f'null="{null}"')
    axis.set_title("a true hypothesis is rejected ...")
    axis.set_xlabel("shift of x, in standard deviations (the relation stays the same)")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axis.set_ylim(0, 1)
    axis.legend(loc="upper left")
    return figure


def _one_sample(colours: Colours, resamples: int) -> Any:
    data = same_relation(0.75, np.random.default_rng(4), 200)
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.3), width_ratios=[1, 1.2])
    for x, y, colour, name in (
        (*data[:2], colours.first, "first"),
        (*data[2:], colours.second, "second"),
    ):
        left.scatter(x, y, s=8, color=colour, alpha=0.5, lw=0, label=name)
    left.set_title("x moved, the relation did not")
    left.set_xlabel("x")
    left.set_ylabel("y")
    left.legend(loc="upper left", markerscale=2)
    for null, colour in (("permutation", colours.second), ("propensity", colours.first)):
        result = condcs.conditional_test(
            *data, null=null, views="measure", n_resamples=resamples, rng=0
        )
        label = f"{null}: p = {result.pvalue:.3f}"
        right.hist(
            result.null_distribution,
            bins=40,
            color=colour,
            alpha=0.5,
            label=label,
            density=True,
        )
    right.axvline(result.statistic, color=colours.ink, lw=2, label="the statistic")
    right.set_title("what each null calls chance")
    right.set_xlabel("conditional CS divergence")
    right.set_yticks([])
    right.set_ylim(top=1.5 * right.get_ylim()[1])
    right.legend(loc="upper right", fontsize=9)
    return figure
