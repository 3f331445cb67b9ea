"""The demonstration: two samples whose p(y|x) differ only in one region of x, although p(x) differs everywhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.table import Table

import condcs
from condcs._core.arrays import FloatArray
from condcs._core.colours import BLUE, INK, ORANGE
from condcs._inference.witness import Witness
from condcs.cli.boundary import check_file
from condcs.cli.output_files import OutputFile, answer_then_write
from condcs.cli.terminal import Terminal, foreign
from condcs.datasets import LocalShift, make_local_shift
from condcs.report._page import drawing, write_whole

# The relation bends within a unit of x: kernels as wide as the median distance would smooth the change away.
RULE: Final = "silverman"

PICTURE_ENDINGS = (".png", ".svg", ".pdf")

_REGION_SHADE = "#f6e7d8"
"""Ground of the region in which p(y|x) differs."""
_REGION_LETTERS = "#9c4221"
"""Letters on it."""


def run(*, rows: int, seed: int, out: Path) -> None:
    """Print the divergences and write the picture."""
    check_file("--out", out, PICTURE_ENDINGS)
    changed = make_local_shift(rows, rng=seed)
    unchanged = make_local_shift(rows, shift=0.0, rng=seed)
    samples = [(d.xp, d.yp, d.xq, d.yq) for d in (changed, unchanged)]
    first = samples[0]
    start, end = np.quantile(np.concatenate(first[::2]), [0.02, 0.98])
    grid = np.linspace(start, end, 120)
    with Terminal(stderr=True).working("Testing ..."):
        inputs = [
            condcs.two_sample_test(xp, xq, measure="cs", bandwidth=RULE, n_resamples=999, rng=0)
            for xp, _, xq, _ in samples
        ]
        relations = [condcs.conditional_test(*s, bandwidth=RULE, n_resamples=999, rng=0) for s in samples]
        local = condcs.witness(*first, at=grid, bandwidth_x=RULE, bandwidth_y=RULE, n_resamples=200, rng=0)
        regions = condcs.explain(*first, rng=0)

    def answer() -> None:
        console = Terminal()
        low, high = changed.region
        console.print(
            f"\n[bold]Two samples of {rows} rows each.[/bold] y follows x in the same way in both, except where ",
            end="",
        )
        console.print(f"{low:g} ≤ x ≤ {high:g}; the distribution of x differs everywhere.\n")
        console.print(console.fitted(_tests_table(inputs, relations)))
        console.print(
            "\n[bold]Where the relation changed[/bold] (found on one half of the rows, tested on the other)\n"
        )
        console.print(str(regions), markup=False)

    def write_picture(path: Path) -> None:
        picture = io.BytesIO()
        drawn = draw_local_shift(changed, local, regions)
        drawn.savefig(picture, format=path.suffix.removeprefix(".").lower(), dpi=150)
        write_whole(path, picture.getvalue())

    notice = f"\nPicture: [bold]{foreign(out)}[/bold]"
    answer_then_write(answer, [OutputFile(out, write_picture, notice)])


def _tests_table(inputs: Sequence[condcs.TestResult], relations: Sequence[condcs.TestResult]) -> Table:
    """Return the divergences and p-values of the tests with the change and without it."""
    table = Table(box=None, pad_edge=False)
    table.add_column("what is compared", style="cyan")
    table.add_column("with the change", justify="right")
    table.add_column("without it", justify="right")
    for label, results in (
        ("inputs: is p(x) the same?", inputs),
        ("relation: is p(y|x) the same?", relations),
    ):
        # Without what chance adds to a divergence between samples of this size.
        shown = [(max(0.0, r.divergence - r.divergence_by_chance), r.pvalue) for r in results]
        table.add_row(label, *(f"D = {divergence:.3f}   p = {p:.3f}" for divergence, p in shown))
    return table


def draw_local_shift(data: LocalShift, local: Witness, explanation: condcs.Explanation) -> Any:
    """Draw both samples with their conditional means, and below them where the conditionals differ, and the regions."""
    figure, (axes, below) = drawing(8, 6, 2, 1, sharex=True, height_ratios=[3, 2])
    axes.axvspan(*data.region, color=_REGION_SHADE, zorder=0, lw=0)
    at_top: dict[str, Any] = {"ha": "center", "va": "bottom", "transform": axes.get_xaxis_transform()}
    axes.text(float(np.mean(data.region)), 1.01, "p(y|x) differs here", color=_REGION_LETTERS, fontsize=9, **at_top)
    for x, y, color, label in ((data.xp, data.yp, BLUE, "first sample"), (data.xq, data.yq, ORANGE, "second sample")):
        axes.plot(x[:, 0], y[:, 0], "o", ms=3.2, alpha=0.35, color=color, mew=0)
        low, high = np.quantile(x, [0.01, 0.99])
        grid = np.linspace(low, high, 200)
        axes.plot(
            grid, _conditional_mean(x[:, 0], y[:, 0], grid), color=color, lw=2.2, label=f"{label}: mean of y given x"
        )
    axes.set(ylabel="y")
    axes.legend(frameon=False, loc="upper left", fontsize=9)
    local.plot(axes=below)
    for region in explanation.regions:
        ends = [end for bound in region.bounds.values() for end in bound if isinstance(end, float) and np.isfinite(end)]
        for end in ends:
            below.axvline(end, color=INK, lw=1.2, ls=(0, (4, 3)))
        if ends:
            at_top["transform"] = below.get_xaxis_transform()
            below.text(float(np.mean(ends)), 1.01, f"found: {region.words}", color=INK, fontsize=9, **at_top)
    axes.set_xlim(local.at[0, 0], local.at[-1, 0])
    return figure


def _conditional_mean(x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    weights = np.exp(-0.5 * ((at[:, None] - x) / 0.15) ** 2)
    return np.asarray(weights @ y / weights.sum(axis=1))
