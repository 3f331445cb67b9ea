"""Where the relation changed: regions of x in the tables' own units, with what y does there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import condcs
from condcs._core.arrays import ByValue
from condcs._inference.explain import ColumnWords, Explanation, Region, explained
from condcs._inference.regions import Ground
from condcs._inference.witness import Witness
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair
from condcs.comparison._shifts import collected_warnings, kernels, median_widths
from condcs.comparison._wording import show

FloatArray = np.ndarray[Any, Any]

WITNESS_ROWS = 250
_RESAMPLES = 60
_MOST_REGIONS = 4
_FEWEST_RESAMPLES = 499
_BIN_EDGES = np.linspace(0, 1, 11)[1:-1]


@dataclass(frozen=True, eq=False)
class Places(ByValue):
    """Regions, and the local divergence at some rows.

    Attributes
    ----------
    explanation : Explanation
        The regions in which a change is significant, and what became of each input.
    pair : Pair
        The tables.
    shown : tuple of int
        For each response, the label whose share is shown (0 for numbers).
    seed : int
        Of the local divergence.
    """

    explanation: Explanation
    pair: Pair
    shown: tuple[int, ...]
    seed: int

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions, most certain first."""
        return self.explanation.regions

    @property
    def responses(self) -> tuple[FloatArray, FloatArray]:
        """What is shown of the first response in both tables: numbers, or whether it has the label to show."""
        p, q = self.pair.yp[:, 0], self.pair.yq[:, 0]
        if self.pair.y[0].is_category:
            return (p == self.shown[0]).astype(float), (q == self.shown[0]).astype(float)
        return p, q

    @cached_property
    def dependence(self) -> tuple[float, ...]:
        """Share of the variance of the first response that bins of each input by itself explain beyond chance."""
        y = np.concatenate(self.responses)
        y = y / max(float(np.abs(y).max()), np.finfo(float).tiny)
        found = []
        for column, x in zip(self.pair.x, np.concatenate([self.pair.xp, self.pair.xq]).T, strict=True):
            bins = x if column.is_category else np.searchsorted(np.unique(np.quantile(x, _BIN_EDGES)), x)
            codes = np.unique(bins, return_inverse=True)[1].reshape(-1)
            sizes = np.bincount(codes)
            means = np.bincount(codes, y - y.mean()) / sizes
            share = float(sizes @ means**2) / max(len(y) * float(y.var()), np.finfo(float).tiny)
            found.append(share - (len(sizes) - 1) / len(y))
        return tuple(found)

    @cached_property
    def witness(self) -> Witness:
        """The local divergence at some rows of `pair`. Only pictures need it, so that it is made for the first one."""
        pair, rng = self.pair, np.random.default_rng(self.seed)
        x = np.concatenate([pair.xp, pair.xq])
        at = np.sort(rng.choice(len(x), min(WITNESS_ROWS, len(x)), replace=False))

        def run() -> Witness:
            return condcs.witness(
                pair.xp,
                pair.yp,
                pair.xq,
                pair.yq,
                at=x[at],
                kernel_x=kernels(pair.x),
                kernel_y=kernels(pair.y),
                bandwidth_y=_width_of_y(pair),
                n_resamples=_RESAMPLES,
                weights_p=pair.weights_p,
                weights_q=pair.weights_q,
                rng=self.seed,
            )

        # What it warns of, the test has warned of.
        found: Witness = collected_warnings(run)[0]
        return found


def find_places(pair: Pair, ground: Ground, *, seed: int, alpha: float = 0.05) -> Places:
    """Find the regions of x in which the relation changed: all rows take part, and half of them test each region."""
    found = explained(
        ground,
        np.concatenate([pair.yp, pair.yq]),
        [_words(column) for column in pair.x],
        [_words(column) for column in pair.y],
        alpha=alpha,
        max_regions=_MOST_REGIONS,
        n_resamples=max(_FEWEST_RESAMPLES, int(np.ceil(2 / alpha))),
        rng=np.random.default_rng(seed),
    )
    return Places(found, pair, _labels_to_show(pair, found), seed)


def response_summary(
    columns: Sequence[Column],
    yp: FloatArray,
    yq: FloatArray,
    shown: Sequence[int],
    weights: tuple[FloatArray | None, FloatArray | None] = (None, None),
) -> tuple[tuple[str, float, float], ...]:
    """Say what y does in both samples: means of numbers, and the share of the label to show of categories."""
    found = []
    for place, (column, code) in enumerate(zip(columns, shown, strict=True)):
        values, words = [yp[:, place], yq[:, place]], f"mean {column.name}"
        if column.is_category:
            values, words = [v == code for v in values], f"share of {column.name} = {column.labels[code]}"
        before, after = (_mean(v, w) for v, w in zip(values, weights, strict=True))
        found.append((words, before, after))
    return tuple(found)


def _labels_to_show(pair: Pair, found: Explanation) -> tuple[int, ...]:
    """For each response the label whose share changed most, in the first region or overall; of two labels the later."""
    shown = []
    for place, column in enumerate(pair.y):
        count = len(column.labels)
        if count <= 2:
            shown.append(max(0, count - 1))
            continue
        there = [c for region in found.regions[:1] for c in region.changes if c.column == column.name and c.label]
        if there:
            label = max(there, key=lambda c: abs(c.change.value)).label
            shown.append(column.labels.index(label or ""))
            continue
        shares = [np.bincount(y[:, place].astype(int), minlength=count) / len(y) for y in (pair.yp, pair.yq)]
        shown.append(int(np.argmax(np.abs(shares[1] - shares[0]))))
    return tuple(shown)


def _mean(values: FloatArray, weights: FloatArray | None = None) -> float:
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def _width_of_y(pair: Pair) -> Any:
    """Median width of each response: several in different units have none in common."""
    widths = [
        median_widths([column], pair.yp[:, [place]], pair.yq[:, [place]])[0] for place, column in enumerate(pair.y)
    ]
    return np.array(widths)


def _words(column: Column) -> ColumnWords:
    labels = {float(code): label for code, label in enumerate(column.labels)} if column.is_category else None
    return ColumnWords(column.name, labels, _writer(column))


def _writer(column: Column) -> Callable[[float, float], str]:
    return lambda low, high: _bound(column, low, high)


def _bound(column: Column, low: float, high: float) -> str:
    if column.cycle is not None:
        return f"{column.source} {column.cycle.words(low, high)}"
    if low == -np.inf:
        return f"{column.name} ≤ {show(column, high)}"
    if high == np.inf:
        return f"{column.name} > {show(column, low)}"
    return f"{show(column, low)} < {column.name} ≤ {show(column, high)}"
