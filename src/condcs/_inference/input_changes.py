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
        Share of the rows of each sample in each bin, by weight.
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
    parts = [np.flatnonzero(ground.labels == group) for group in (0, 1)]
    columns = [_Column(ground.x[:, c], parts, ground, known) for c, known in enumerate(labels)]
    adjusted = holm([column.p_value for column in columns])
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
    """One input in both samples, with the weights of the rows."""

    def __init__(
        self, values: FloatArray, parts: Sequence[FloatArray], ground: Ground, labels: Mapping[float, str] | None
    ) -> None:
        self.parts = [values[rows] for rows in parts]
        self.weights = [ground.weights[rows] / ground.weights[rows].sum() for rows in parts]
        units = ground.propensity.units
        # Rows of a cluster may all say the same.
        self.sizes = [
            1 / float((w**2).sum()) if units is None else float(len(np.unique(units[rows])))
            for w, rows in zip(self.weights, parts, strict=True)
        ]
        self.effective = self.sizes[0] * self.sizes[1] / sum(self.sizes)
        if labels is None:
            self._numbers()
        else:
            self._labels(labels)

    def _numbers(self) -> None:
        pooled = np.concatenate(self.parts)
        values = np.sort(pooled)
        below = []
        for own, weights in zip(self.parts, self.weights, strict=True):
            order = np.argsort(own, kind="stable")
            sums = np.concatenate([[0.0], np.cumsum(weights[order])])
            below.append(sums[np.searchsorted(own[order], values, side="right")])
        self.p_value = _kolmogorov(float(np.abs(below[0] - below[1]).max()), self.effective)
        moments = [_moments(own, weights) for own, weights in zip(self.parts, self.weights, strict=True)]
        self.summaries: tuple[tuple[str, float, float], ...] = tuple(
            (name, before, now) for name, before, now in zip(("mean", "spread"), *moments, strict=True)
        )
        edges = _edges(pooled)
        self.bins: tuple[str, ...] | tuple[float, ...] = tuple(float(e) for e in edges)
        self.shares = tuple(
            tuple(np.histogram(np.clip(own, edges[0], edges[-1]), edges, weights=weights)[0].tolist())
            for own, weights in zip(self.parts, self.weights, strict=True)
        )

    def _labels(self, labels: Mapping[float, str]) -> None:
        codes = np.unique(np.concatenate(self.parts))
        shares = np.array(
            [
                np.bincount(np.searchsorted(codes, own), weights, len(codes))
                for own, weights in zip(self.parts, self.weights, strict=True)
            ]
        )
        self.p_value = _chi_squared(shares * np.array(self.sizes)[:, None])
        most = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")
        self.summaries = tuple(
            (f"share of {labels[float(codes[k])]}", float(shares[0, k]), float(shares[1, k])) for k in most[:3]
        )
        shown = np.sort(np.argsort(-shares.sum(axis=0), kind="stable")[:_MOST_LABELS])
        self.bins = tuple(labels[float(codes[k])] for k in shown)
        self.shares = tuple(tuple(row[shown].tolist()) for row in shares)


def _moments(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation; squares of large numbers would overflow."""
    top = max(float(np.abs(values).max()), np.finfo(float).tiny)
    mean = float(weights @ (values / top))
    return mean * top, float(np.sqrt(weights @ (values / top - mean) ** 2)) * top


def _kolmogorov(distance: float, effective: float) -> float:
    """P-value of the largest distance between two distribution functions (Stephens' form of the limit)."""
    from scipy.special import kolmogorov

    root = np.sqrt(effective)
    return float(kolmogorov((root + 0.12 + 0.11 / root) * distance))


def _chi_squared(counts: FloatArray) -> float:
    """P-value of equal shares of labels in two rows of counts, with Yates' correction for two labels."""
    from scipy.special import chdtrc

    freedom = counts.shape[1] - 1
    if freedom == 0:
        return 1.0
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    apart = np.abs(counts - expected)
    if freedom == 1:
        apart = np.maximum(apart - 0.5, 0.0)
    return float(chdtrc(freedom, (apart**2 / expected).sum()))


def _edges(values: FloatArray) -> FloatArray:
    """Edges of bins of equal width; of whole numbers the bins hold equally many."""
    # The outermost hundredths would leave everything else to a few bins.
    low, high = np.quantile(values, [0.01, 0.99])
    if np.array_equal(values, np.round(values)):
        low, high = np.floor(low), np.ceil(high)
        width = max(1.0, np.ceil((high - low + 1) / _BINS))
        return np.asarray(low - 0.5 + width * np.arange(np.ceil((high - low + 1) / width) + 1))
    return np.linspace(low, high, _BINS + 1) if low < high else np.array([low, low + 1.0])


def holm(pvalues: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values for their number: the smallest times n, the next times n - 1, ..., and never falling.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    p = np.asarray(pvalues, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return tuple(float(value) for value in adjusted)
