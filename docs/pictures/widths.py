"""What goes wrong with bandwidths: too wide, too narrow, one width for columns of different units, one outlier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import condcs
from condcs.datasets import make_local_shift
from first_page import local_mean
from style import Colours, both


def two_units(rows: int, rng: np.random.Generator, *, changed: bool) -> tuple[Any, Any]:
    """Draw x = (income in thousands, a share between 0 and 1); y follows the share, upside down if `changed`."""
    income, share = rng.normal(50, 15, rows), rng.uniform(0, 1, rows)
    effect = np.sin(2 * np.pi * share)
    return np.column_stack([income, share]), (-effect if changed else effect) + 0.3 * rng.normal(
        size=rows
    )


def draw_all(folder: Path, *, quick: bool) -> list[Path]:
    """Write the pictures and print what is read off them."""
    return [
        *both("widths-smoothing", _smoothing, folder),
        *both("widths-power", _power(4 if quick else 60), folder),
        *both("widths-units", _units(99 if quick else 999), folder),
        *both("widths-outlier", _outlier, folder),
    ]


def _smoothing(colours: Colours) -> Any:
    data = make_local_shift(300, rng=1)
    median = condcs.bandwidth(data.xp, data.xq)
    grid = np.linspace(-2.6, 2.6, 300)
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.0), sharey=True)
    widths = (
        (median, "the median"),
        (0.2 * median, "a fifth of it"),
        (0.005 * median, "far too narrow"),
    )
    for axis, (width, name) in zip(axes, widths, strict=True):
        axis.axvspan(*data.region, color=colours.second, alpha=0.13, lw=0)
        for x, y, colour in (
            (data.xp, data.yp, colours.first),
            (data.xq, data.yq, colours.second),
        ):
            axis.scatter(x, y, s=5, color=colour, alpha=0.25, lw=0)
            axis.plot(grid, local_mean(x[:, 0], y[:, 0], grid, width), color=colour, lw=1.8)
        axis.set_title(f"{name}: {width:.2g}", fontsize=10)
        axis.set_xlabel("x")
    axes[0].set_ylabel("y and its local mean")
    return figure


def _power(runs: int) -> Any:
    factors = np.geomspace(0.02, 4, 12)
    tests = {"gentle": (0.25, 0.0), "wiggly": (0.6, 3.0)}
    shares = {name: np.zeros(len(factors)) for name in tests}
    combined = {name: {"bandwidth_x": 0.0, "bandwidth": 0.0} for name in tests}
    for name, (size, waves) in tests.items():
        for run in range(runs):
            rng = np.random.default_rng([run, len(name)])
            xp, xq = rng.uniform(0, 1, size=(2, 120))
            yp, yq = 0.6 * rng.normal(size=(2, 120))
            yq = yq + (size * np.sin(2 * np.pi * waves * xq) if waves else size)
            median = float(condcs.bandwidth(xp, xq))
            for i, factor in enumerate(factors):
                shares[name][i] += _found(xp, yp, xq, yq, run, bandwidth_x=factor * median) / runs
            for option in combined[name]:
                combined[name][option] += (
                    _found(xp, yp, xq, yq, run, **{option: "aggregate"}) / runs
                )
        best = factors[int(np.argmax(shares[name]))]
        at_median = float(np.interp(0.0, np.log(factors), shares[name]))
        print(
            f"{name} change found, {runs} runs: {shares[name].max():.2f} at {best:.2g} medians,",
            end=" ",
        )
        print(f"{at_median:.2f} at the median,", end=" ")
        print(
            *(f'{share:.2f} with {option}="aggregate"' for option, share in combined[name].items()),
            sep=", ",
        )

    def draw(colours: Colours) -> Any:
        figure, axis = plt.subplots(figsize=(6.8, 4.0))
        words = {"gentle": "y shifts everywhere", "wiggly": "y shifts up and down, 3 waves over x"}
        styles = {"bandwidth_x": "--", "bandwidth": ":"}
        for name, colour in (("gentle", colours.first), ("wiggly", colours.second)):
            axis.plot(factors, shares[name], "o-", color=colour, lw=2.2, ms=4, label=words[name])
            for option, style in styles.items():
                axis.axhline(combined[name][option], color=colour, lw=1.6, ls=style)
        for option, style in styles.items():
            axis.plot(
                [], [], color=colours.ink, lw=1.6, ls=style, label=f'with {option}="aggregate"'
            )
        axis.axvline(1, color=colours.faint, lw=1)
        axis.text(1.03, 0.02, "the median", fontsize=9)
        axis.set_xscale("log")
        axis.set_xlabel("width on x, in multiples of the median distance")
        axis.set_title("share of changes found, at level 5%")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.set_ylim(0, 1.48)
        axis.set_yticks(np.linspace(0, 1, 6))
        axis.legend(loc="upper left", fontsize=9)
        return figure

    return draw


def _found(xp: Any, yp: Any, xq: Any, yq: Any, seed: int, **widths: Any) -> bool:
    options: Any = {"null": "permutation", "n_resamples": 99, "rng": seed, "n_jobs": 1, **widths}
    return condcs.conditional_test(xp, yp, xq, yq, **options).pvalue <= 0.05


def _units(resamples: int) -> Any:
    rng = np.random.default_rng(0)
    (xp, yp), (xq, yq) = (
        two_units(200, rng, changed=False),
        two_units(200, rng, changed=True),
    )
    results = {
        rule: condcs.conditional_test(
            xp, yp, xq, yq, views="measure", bandwidth_x=rule, n_resamples=resamples, rng=0
        )
        for rule in ("joint_median", "median")
    }
    for rule, result in results.items():
        widths = ", ".join(f"{w:.3g}" for w in result.bandwidths["bandwidth_x"])
        print(
            f"two units, {rule}: widths {widths}, D = {result.statistic:.4f}, p = {result.pvalue:.3f}"
        )

    def draw(colours: Colours) -> Any:
        figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.0), width_ratios=[1, 1, 1])
        for x, y, colour, name in (
            (xp, yp, colours.first, "first"),
            (xq, yq, colours.second, "second"),
        ):
            axes[0].scatter(x[:, 1], y, s=6, color=colour, alpha=0.5, lw=0, label=name)
        axes[0].set_title("the relation turned over", fontsize=10)
        axes[0].set_xlabel("share (0 to 1)")
        axes[0].set_ylabel("y")
        words = {"joint_median": "one width for both columns", "median": "a width per column"}
        for axis, (rule, result) in zip(axes[1:], results.items(), strict=True):
            axis.hist(result.null_distribution, bins=30, color=colours.faint, alpha=0.7, lw=0)
            axis.axvline(result.statistic, color=colours.second, lw=2.2)
            axis.set_title(f'{words[rule]}\n"{rule}": p = {result.pvalue:.3f}', fontsize=10)
            axis.set_xlabel("D and its null")
            axis.set_yticks([])
        return figure

    return draw


def _outlier(colours: Colours) -> Any:
    rng = np.random.default_rng(0)
    xp, xq = rng.normal(size=(2, 100))
    yp, yq = (x + 0.5 * rng.normal(size=100) for x in (xp, xq))
    places = np.linspace(0, 12, 60)
    names = {"median": colours.second, "silverman": colours.first}
    figure, axis = plt.subplots(figsize=(6.6, 3.3))
    for rule, colour in names.items():
        values = []
        for place in places:
            x, y = np.append(xq, place), np.append(yq, 0.0)
            values.append(condcs.conditional_cs(xp, yp, x, y, bandwidth_x=rule))
        axis.plot(places, values, color=colour, lw=2.2, label=f'bandwidth_x="{rule}"')
    axis.set_title("one row of 201 moves the divergence")
    axis.set_xlabel("where in x that row lies (its y is 0; all others have standard normal x)")
    axis.set_ylabel("conditional CS")
    axis.set_ylim(0)
    axis.legend(loc="upper left")
    return figure
