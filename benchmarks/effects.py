"""``python -m benchmarks coverage-effects``: how often intervals of sizes and of region effects hold the truth.

Changes of the mean of y are planted in the second of two samples whose inputs differ: rows of real tables (those of
them that CONDCS_DATA has) and simulated ones. The methods were tuned on other shifts, changes, and seeds.
"""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from condcs._core.arrays import BoolArray, FloatArray
from condcs._inference.adjustment import Adjustment
from condcs._inference.common_support import common_support
from condcs._inference.effects import Effect, measure_effect
from condcs._inference.explain import ColumnWords, Region, explain_pool, interval_words
from condcs._inference.regions import boxwise_change
from condcs._inference.results import Estimate
from condcs._regression.smoother import Smoother
from condcs._regression.standardised import normal_scores

ROWS, RUNS = 400, 15
FEW_ROWS = 40
"""Rows of the second sample where it is small beside the first."""
SHIFT = 0.5
"""By how much the shifted column moves, in deviations of its normal scores."""
_POPULATION = 20_000


@dataclass(frozen=True)
class Table:
    """A population: rows from which both samples are drawn."""

    x: FloatArray  # n x d
    categorical: tuple[bool, ...]
    y: FloatArray  # n
    shifted: int  # the column whose large values the second sample prefers

    @property
    def noise(self) -> float:
        """Standard deviation of y about its regression on x, by 4,000 rows."""
        rows = np.random.default_rng(0).permutation(len(self.x))[:4000]
        return float(Smoother(self.x[rows], self.categorical).residuals(self.y[rows, None]).left_out.std())

    @property
    def ratio(self) -> FloatArray:
        """Density of x in the second sample by that in the first."""
        ratio = np.exp(SHIFT * normal_scores(self.x[:, [self.shifted]])[:, 0])
        return np.asarray(ratio / ratio.mean())

    def above(self, column: int, level: float) -> BoolArray:
        """Which rows lie above a quantile of a column."""
        return np.asarray(self.x[:, column] > np.quantile(self.x[:, column], level))


CHANGES: dict[str, Callable[[Table], FloatArray]] = {
    "none": lambda table: np.zeros(len(table.y)),
    "everywhere": lambda table: np.full(len(table.y), 0.4),
    "in a half": lambda table: 0.6 * table.above(1, 0.5),
    "in a corner": lambda table: 0.9 * (table.above(0, 0.55) & table.above(1, 0.45)),
    "in a fifth": lambda table: 0.6 * table.above(0, 0.8),
    "along an input": lambda table: 0.4 * normal_scores(table.x[:, [1]])[:, 0],
}
"""Changes of the mean of y in units of its noise."""


def _simulated(noise: str) -> Table:
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=(_POPULATION, 5)), rng.integers(3, size=_POPULATION)])
    e = rng.standard_t(5, size=_POPULATION) if noise == "heavy" else rng.normal(size=_POPULATION)
    if noise == "uneven":
        e *= 0.4 + 1.2 / (1 + np.exp(-2 * x[:, 2]))
    y = np.abs(x[:, 0]) + np.cos(x[:, 1]) * x[:, 2] + x[:, 5] * x[:, 3] / 2 + 0.8 * e
    return Table(x, (*[False] * 5, True), y, 3)


def _real() -> Iterator[tuple[str, Table]]:
    folder = Path(os.environ.get("CONDCS_DATA", ""))
    if (path := folder / "california_housing" / "california_housing.npz").exists():
        houses = np.load(path)
        yield "california housing", Table(houses["X"].astype(float), (False,) * 8, houses["y"].astype(float), 6)
    if (path := folder / "electricity" / "electricity.npz").exists():
        x = np.load(path)["X"].astype(float)
        yield "electricity", Table(x[:, [3, 0, 1, 4, 5]], (False,) * 5, x[:, 2], 3)
    if (path := folder / "compas" / "compas.npz").exists():
        people = np.load(path)
        x = people["X"].astype(float)
        numbers = [c for c in range(x.shape[1]) if len(np.unique(x[:, c])) > 8]
        inputs = np.column_stack([x[:, numbers], people["race"].astype(float)])
        yield "compas", Table(inputs, (*[False] * len(numbers), True), people["decile_score"].astype(float), 1)


@dataclass(frozen=True)
class Outcome:
    """What was said of one pair of samples, and what is true."""

    effect: Effect
    average: float
    size: float
    regions: tuple[tuple[Region, float], ...]  # those of a mean, each with the true mean change in it

    @property
    def covered(self) -> tuple[bool, bool, bool]:
        """Whether the intervals of the average, of the root mean square and of the change of the spread hold."""
        effect = self.effect
        assert effect.average is not None
        assert effect.spread is not None
        return (
            _holds(effect.average, self.average),
            _holds(effect.size, self.size),
            _holds(effect.spread.change, 0.0),
        )


def outcome(table: Table, planted: FloatArray, seed: tuple[int, ...], second_rows: int = ROWS) -> Outcome:
    """Draw a pair of samples, plant a change in units of y (n), and measure it."""
    rng = np.random.default_rng(seed)
    ratio = table.ratio
    first = rng.choice(len(ratio), ROWS, replace=False)
    rest = np.setdiff1d(np.arange(len(ratio)), first)
    second = rng.choice(rest, second_rows, replace=False, p=ratio[rest] / ratio[rest].sum())
    rows, sizes = np.concatenate([first, second]), (ROWS, second_rows)
    x, change = table.x[rows], planted[rows]
    y = table.y[rows] + np.repeat([0.0, 1.0], sizes) * change
    adjustment = Adjustment.of(x, table.categorical, sizes, rng, responses=(y[:, None], (False,)))
    support = common_support(adjustment.smoother, sizes, rng, propensity=adjustment.propensity)
    by_boxes = boxwise_change(adjustment, y, rng)
    effect = measure_effect(
        "y", support, y[:, None], numeric=True, by_boxes=by_boxes, confidence_level=0.95, alpha=0.05, rng=rng
    )
    words = [_words(f"x{c}", x[:, c], is_label) for c, is_label in enumerate(table.categorical)]
    explained = explain_pool(
        adjustment, y[:, None], words, [_words("y", y, False)], alpha=0.05, max_regions=4, n_resamples=499, rng=rng
    )
    regions = [
        (region, float(np.average(change[inside], weights=adjustment.common_weights[inside])))
        for region in explained.explanation.regions
        if region.kind == "mean" and (inside := _inside(region, x)).any()
    ]
    common = ratio / (1 + ratio)
    return Outcome(
        effect,
        float(np.average(planted, weights=common)),
        float(np.sqrt(np.average(planted**2, weights=common))),
        tuple(regions),
    )


def _words(name: str, values: FloatArray, is_label: bool) -> ColumnWords:
    labels = {float(code): f"{code:g}" for code in np.unique(values)} if is_label else None
    return ColumnWords(name, labels, interval_words(name, str))


def _holds(interval: Estimate, truth: float) -> bool:
    return interval.low <= truth <= interval.high


def _inside(region: Region, x: FloatArray) -> BoolArray:
    inside = np.ones(len(x), bool)
    for name, bound in region.bounds.items():
        values = x[:, int(name[1:])]
        low, high = bound[0], bound[-1]
        if isinstance(low, str) or isinstance(high, str):
            inside &= np.isin(values, [float(label) for label in bound])
        else:
            inside &= (values > low) & (values <= high)
    return inside


@cache
def _tables() -> dict[str, Table]:
    names = ("even", "uneven", "heavy")
    return {**dict(_real()), **{f"simulated, {noise} noise": _simulated(noise) for noise in names}}


def _unchanged(table: Table, place: int, runs: int) -> Iterator[Outcome]:
    """Yield what is said of pairs with the same relation, the second of which is small."""
    for run in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield outcome(table, np.zeros(len(table.y)), (2027, place, run), FEW_ROWS)


def main(runs: int = RUNS) -> None:
    """Print a table by population, and one by change."""
    by_table, by_change = defaultdict[str, list[Outcome]](list), defaultdict[str, list[Outcome]](list)
    for place, (name, table) in enumerate(_tables().items()):
        for kind, (change, planted) in enumerate(CHANGES.items()):
            values = table.noise * planted(table)
            for run in range(runs):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = outcome(table, values, (2026, place, kind, run))
                by_table[name].append(found)
                by_change[change].append(found)
    everything = [found for outcomes in by_table.values() for found in outcomes]
    few = f"none, second sample of {FEW_ROWS} rows"
    small = {few: [found for place, table in enumerate(_tables().values()) for found in _unchanged(table, place, runs)]}
    print(
        f"| {ROWS} + {ROWS} rows | pairs | average | root mean square | spread (97.5%) | region effects "
        "| overstated | understated |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, outcomes in {**by_table, **by_change, "all": everything, **small}.items():
        covered = np.mean([found.covered for found in outcomes], axis=0)
        regions = [(region.changes[0].change, truth) for found in outcomes for region, truth in found.regions]
        held = sum(e.low <= truth <= e.high for e, truth in regions)
        over = sum(abs(e.value) > abs(truth) for e, truth in regions if not e.low <= truth <= e.high)
        print(
            f"| {name} | {len(outcomes)} | {covered[0]:.3f} | {covered[1]:.3f} | {covered[2]:.3f} "
            f"| {held} of {len(regions)} | {over} | {len(regions) - held - over} |"
        )
