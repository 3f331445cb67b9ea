"""Inputs one by one: how much of the change of the relation involves each, and how its own distribution shifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._core.equality import ByValue
from condcs._inference.boxes import Box
from condcs._inference.regions import FoundBox, Ground

FloatArray = np.ndarray[Any, Any]

_BINS = 12
_MOST_LABELS = 12
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, eq=False)
class InputChange(ByValue):
    """What became of one input.

    Attributes
    ----------
    name : str
        The input.
    involvement : float
        Share of the change of the relation that is lost if the change is described without this input: 0 for an input
        that bounds no region, near 1 for one that bounds a small part of its range. Regions in two inputs involve both,
        so shares need not add up to 1.
    p_value : float
        Of the hypothesis that the input itself is distributed as before, adjusted for the number of inputs (Holm).
    summaries : tuple of (words, before, now)
        Mean and spread of a number; the shares of labels, those that changed most first.
    bins : tuple of str or of float
        Labels, or the edges of the bins of a number, one more than there are bins.
    shares_p, shares_q : tuple of float
        Share of the rows of each sample in each bin.
    """

    name: str
    involvement: float
    p_value: float
    summaries: tuple[tuple[str, float, float], ...]
    bins: tuple[str, ...] | tuple[float, ...]
    shares_p: tuple[float, ...]
    shares_q: tuple[float, ...]

    @property
    def sparklines(self) -> tuple[str, str]:
        """Histograms before and now, in small characters of one scale."""
        top = max(*self.shares_p, *self.shares_q, np.finfo(float).tiny)
        before, now = (
            "".join(_BARS[round((len(_BARS) - 1) * share / top)] for share in shares)
            for shares in (self.shares_p, self.shares_q)
        )
        return before, now


def input_changes(
    ground: Ground, names: Sequence[str], labels: Sequence[Mapping[float, str] | None], found: Sequence[FoundBox]
) -> tuple[InputChange, ...]:
    """Describe every input, given the regions that were found."""
    involved = involvements(ground, found)
    columns = [_Column(ground.x[:, c], ground.labels, known) for c, known in enumerate(labels)]
    adjusted = _holm([column.p_value for column in columns])
    return tuple(
        InputChange(name, float(share), p, column.summaries, column.bins, *column.shares)
        for name, share, p, column in zip(names, involved, adjusted, columns, strict=True)
    )


def involvements(ground: Ground, found: Sequence[FoundBox]) -> FloatArray:
    """Share of the squared change that is lost if no region is bounded by a column, for each column.

    With contrasts s and weights v as in `boxes`, a region explains (sum s)^2 / sum v, of which 1 is noise. Without its
    bounds on a column it is larger, the change in it smaller, and it explains less.
    """
    total, lost = 0.0, np.zeros(ground.x.shape[1])
    u, w = ground.surprise, ground.weights
    v = w * u**2
    for one in found:
        s = w * u * one.beyond
        whole = _explained(ground.x, one.box, s, v)
        total += whole
        for column in one.box.bounds:
            lost[column] += max(whole - _explained(ground.x, one.box.bounded(column, None), s, v), 0.0)
    return lost / total if total > 0 else lost


def _explained(x: FloatArray, box: Box, s: FloatArray, v: FloatArray) -> float:
    inside = box.holds(x)
    return max(float(s[inside].sum() ** 2 / v[inside].sum()) - 1.0, 0.0)


def deviation(values: FloatArray) -> float:
    """Return the standard deviation, of numbers whose squares are none as well."""
    top = max(float(np.abs(values).max()), np.finfo(float).tiny)
    return float(np.std(values / top)) * top


class _Column:
    """One input in both samples."""

    def __init__(self, values: FloatArray, groups: FloatArray, labels: Mapping[float, str] | None) -> None:
        p, q = values[groups == 0], values[groups == 1]
        if labels is None:
            self._numbers(p, q)
        else:
            self._labels(p, q, labels)

    def _numbers(self, p: FloatArray, q: FloatArray) -> None:
        from scipy.stats import ks_2samp

        self.p_value = float(ks_2samp(p, q, method="asymp").pvalue)
        self.summaries: tuple[tuple[str, float, float], ...] = (
            ("mean", float(p.mean()), float(q.mean())),
            ("spread", deviation(p), deviation(q)),
        )
        edges = _edges(np.concatenate([p, q]))
        self.bins: tuple[str, ...] | tuple[float, ...] = tuple(float(e) for e in edges)
        self.shares = tuple(
            tuple((np.histogram(np.clip(a, edges[0], edges[-1]), edges)[0] / len(a)).tolist()) for a in (p, q)
        )

    def _labels(self, p: FloatArray, q: FloatArray, labels: Mapping[float, str]) -> None:
        from scipy.stats import chi2_contingency

        codes = np.unique(np.concatenate([p, q]))
        counts = np.array([[np.sum(a == code) for code in codes] for a in (p, q)], np.float64)
        self.p_value = float(chi2_contingency(counts).pvalue) if len(codes) > 1 else 1.0
        shares = counts / counts.sum(axis=1, keepdims=True)
        most = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")
        self.summaries = tuple(
            (f"share of {labels[float(codes[k])]}", float(shares[0, k]), float(shares[1, k])) for k in most[:3]
        )
        shown = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:_MOST_LABELS])
        self.bins = tuple(labels[float(codes[k])] for k in shown)
        self.shares = tuple(tuple(row[shown].tolist()) for row in shares)


def _edges(values: FloatArray) -> FloatArray:
    """Edges of bins of equal width; of whole numbers the bins hold equally many."""
    # The outermost hundredths would leave everything else to a few bins.
    low, high = np.quantile(values, [0.01, 0.99])
    if np.array_equal(values, np.round(values)):
        low, high = np.floor(low), np.ceil(high)
        width = max(1.0, np.ceil((high - low + 1) / _BINS))
        return np.asarray(low - 0.5 + width * np.arange(np.ceil((high - low + 1) / width) + 1))
    return np.linspace(low, high, _BINS + 1) if low < high else np.array([low, low + 1.0])


def _holm(pvalues: Sequence[float]) -> list[float]:
    """Adjust p-values for their number by Holm's method."""
    values = np.asarray(pvalues)
    order = np.argsort(values, kind="stable")
    adjusted = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    found = np.empty(len(values))
    found[order] = adjusted
    return [float(v) for v in found]
