"""Where the relation changed: regions of x in the tables' own units, with what y does there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import condcs
from condcs._core.equality import ByValue
from condcs._inference.explain import Region
from condcs._inference.witness import Witness
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair
from condcs.comparison._shifts import kernels, median_widths
from condcs.comparison._wording import show

FloatArray = np.ndarray[Any, Any]

WITNESS_ROWS = 400
_RESAMPLES = 100


@dataclass(frozen=True)
class ChangedRegion:
    """A box in x.

    Attributes
    ----------
    words : str
        Its bounds.
    ratio : float
        Difference there over the average difference.
    share_p, share_q : float
        Share of each table's rows that lie in it.
    response : tuple of (words, before, after)
        What y does there: the mean of each number, or the share of a label.
    above : float
        Share of its rows where the local divergence is above the band of chance.
    """

    words: str
    ratio: float
    share_p: float
    share_q: float
    response: tuple[tuple[str, float, float], ...]
    above: float


@dataclass(frozen=True, eq=False)
class Places(ByValue):
    """Regions, and what they were found from.

    Attributes
    ----------
    regions : tuple of ChangedRegion
        Most different first.
    witness : Witness
        The local divergence at some rows of `pair`.
    pair : Pair
        The tables, categories in an order of their own.
    shown : tuple of int
        For each response, the label whose share is shown (0 for numbers).
    """

    regions: tuple[ChangedRegion, ...]
    witness: Witness
    pair: Pair
    shown: tuple[int, ...]


def find_places(pair: Pair, *, seed: int) -> Places:
    """Name the regions of x where the relations differ most; they describe, and test nothing."""
    pair = _ordered_categories(pair)
    found = condcs.explain(
        pair.xp,
        pair.yp,
        pair.xq,
        pair.yq,
        kernel_x=kernels(pair.x),
        kernel_y=kernels(pair.y),
        bandwidth_y=_width_of_y(pair),
        max_rows=WITNESS_ROWS,
        n_resamples=_RESAMPLES,
        rng=seed,
    )
    # The columns are nameless arrays to `explain`: "x" alone, or x1, x2, ...
    places = {name: place for place, name in enumerate(found.witness.names)}
    inside = _inside(found.regions[0], pair, places)
    shown = _labels_to_show(pair.y, pair.yp[inside[0]], pair.yq[inside[1]])
    regions = tuple(_region(region, pair, places, shown) for region in found.regions)
    return Places(regions, found.witness, pair, shown)


def label_order(values: FloatArray, response: FloatArray, groups: FloatArray, count: int) -> list[int]:
    """Codes of a category from where the response fell most to where it rose most, so that a cut can part them."""
    change = np.zeros(count)
    for code in range(count):
        here = values == code
        p, q = response[here & (groups == 0)], response[here & (groups == 1)]
        change[code] = q.mean() - p.mean() if len(p) and len(q) else 0.0
    return [int(code) for code in np.argsort(change, kind="stable")]


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


def _labels_to_show(columns: Sequence[Column], yp: FloatArray, yq: FloatArray) -> tuple[int, ...]:
    """For each response the label whose share differs most; of two labels the later (1, true, yes)."""
    shown = []
    for place, column in enumerate(columns):
        count = len(column.labels)
        if count <= 2:
            shown.append(max(0, count - 1))
            continue
        shares = [np.bincount(y[:, place].astype(int), minlength=count) / max(1, len(y)) for y in (yp, yq)]
        shown.append(int(np.argmax(np.abs(shares[1] - shares[0]))))
    return tuple(shown)


def _mean(values: FloatArray, weights: FloatArray | None = None) -> float:
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def _ordered_categories(pair: Pair) -> Pair:
    groups = np.repeat([0, 1], [len(pair.xp), len(pair.xq)])
    response = np.concatenate([pair.yp, pair.yq])[:, 0]
    xp, xq, columns = pair.xp.copy(), pair.xq.copy(), list(pair.x)
    for place, column in enumerate(columns):
        if not column.is_category:
            continue
        values = np.concatenate([pair.xp, pair.xq])[:, place]
        order = label_order(values, response, groups, len(column.labels))
        rank = np.empty(len(order))
        rank[order] = np.arange(len(order))
        columns[place] = column.relabelled([column.labels[code] for code in order])
        xp[:, place], xq[:, place] = rank[pair.xp[:, place].astype(int)], rank[pair.xq[:, place].astype(int)]
    return replace(pair, x=tuple(columns), xp=xp, xq=xq)


def _width_of_y(pair: Pair) -> Any:
    """Median width of each response: several in different units have none in common."""
    widths = [
        median_widths([column], pair.yp[:, [place]], pair.yq[:, [place]])[0] for place, column in enumerate(pair.y)
    ]
    return np.array(widths)


def _inside(region: Region, pair: Pair, places: dict[str, int]) -> tuple[FloatArray, FloatArray]:
    """Which rows of each table lie in a region."""
    masks = (np.ones(len(pair.xp), bool), np.ones(len(pair.xq), bool))
    for name, low, high in region.bounds:
        for mask, x in zip(masks, (pair.xp, pair.xq), strict=True):
            mask &= (x[:, places[name]] > low) & (x[:, places[name]] <= high)
    return masks


def _region(region: Region, pair: Pair, places: dict[str, int], shown: Sequence[int]) -> ChangedRegion:
    inside = _inside(region, pair, places)
    words = [_bound(pair.x[places[name]], low, high) for name, low, high in region.bounds]
    return ChangedRegion(
        words=" and ".join(words) or "everywhere",
        ratio=region.ratio,
        share_p=float(inside[0].mean()),
        share_q=float(inside[1].mean()),
        response=response_summary(pair.y, pair.yp[inside[0]], pair.yq[inside[1]], shown),
        above=region.significant,
    )


def _bound(column: Column, low: float, high: float) -> str:
    if column.is_category:
        labels = [label for code, label in enumerate(column.labels) if low < code <= high]
        shown = ", ".join(labels[:4]) + (f" or {len(labels) - 4} more" if len(labels) > 4 else "")
        return f"{column.name} = {shown}" if len(labels) == 1 else f"{column.name} in {{{shown}}}"
    if column.cycle is not None:
        return f"{column.source} {column.cycle.words(low, high)}"
    if low == -np.inf:
        return f"{column.name} ≤ {show(column, high)}"
    if high == np.inf:
        return f"{column.name} > {show(column, low)}"
    return f"{show(column, low)} < {column.name} ≤ {show(column, high)}"
