"""What became of each input: its share in the change of the relation, and how its own distribution shifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, kolmogorov

from condcs._core.arrays import ByValue, FloatArray
from condcs._inference.adjustment import Adjustment
from condcs._inference.box_search import Box
from condcs._inference.regions import SignificantBox
from condcs._regression.standardised import largest_size

_MOST_BINS = 12
"""Bins of the histogram of a number at most: a sparkline has one character for each."""
_MOST_LABELS = 12
"""Labels of a histogram, the most frequent ones: as many as a number has bins."""
_MOST_SUMMARIES = 3
"""Labels whose shares are listed, those that changed most."""
_OUTERMOST = 0.01
"""Share of the values at either end of a number that count in its outermost bins: bins as far as the largest value
would leave everything else to a few of them."""
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
    pvalue : float
        Of the hypothesis that the input itself is distributed as before, adjusted for the number of inputs (Holm).
    summaries : tuple of (words, value in the first sample, value in the second)
        Mean and spread of a number; the shares of labels, those that changed most first.
    bins : tuple of str or of float
        Labels, or the edges of the bins of a number, one more than there are bins.
    shares_p, shares_q : tuple of float
        Share of the rows of each sample in each bin, by weight.
    """

    name: str
    involvement: float
    pvalue: float
    summaries: tuple[tuple[str, float, float], ...]
    bins: tuple[str, ...] | tuple[float, ...]
    shares_p: tuple[float, ...]
    shares_q: tuple[float, ...]

    @property
    def sparklines(self) -> tuple[str, str]:
        """Histograms of both samples, in small characters of one scale."""
        top = max(*self.shares_p, *self.shares_q, np.finfo(float).tiny)

        def bars(shares: Sequence[float]) -> str:
            return "".join(_BARS[round((len(_BARS) - 1) * share / top)] for share in shares)

        return bars(self.shares_p), bars(self.shares_q)


def input_changes(
    adjustment: Adjustment,
    names: Sequence[str],
    category_names: Sequence[Mapping[float, str] | None],
    regions: Sequence[SignificantBox],
) -> tuple[InputChange, ...]:
    """Describe every input; `category_names` are those of the codes of a column, None for numbers."""
    involved = involvements(adjustment, regions)
    shifts = [_shift_of_input(adjustment, column, of_codes) for column, of_codes in enumerate(category_names)]
    adjusted = holm([shift.pvalue for shift in shifts])
    return tuple(
        InputChange(name, float(share), pvalue, shift.summaries, shift.bins, shift.shares_p, shift.shares_q)
        for name, share, pvalue, shift in zip(names, involved, adjusted, shifts, strict=True)
    )


def involvements(adjustment: Adjustment, regions: Sequence[SignificantBox]) -> FloatArray:
    """Share of the squared change that is lost if no region is bounded by a column, for each column (d,).

    With s and v as in `box_search`, the change in a region explains (sum s)^2 / sum v, of which 1 is noise. Without its
    bounds on a column a region is larger, the change in it smaller, and it explains less.
    """
    total, lost = 0.0, np.zeros(adjustment.x.shape[1])
    u, w = adjustment.surprise, adjustment.weights
    v = w * u**2
    for region in regions:
        s = w * u * region.unexplained
        whole = _explained_beyond_noise(adjustment.x, region.box, s, v)
        total += whole
        for column in region.box.bounds:
            without_bounds = region.box.bounded(column, None)
            lost[column] += max(whole - _explained_beyond_noise(adjustment.x, without_bounds, s, v), 0.0)
    return lost / total if total > 0 else lost


def _explained_beyond_noise(x: FloatArray, box: Box, s: FloatArray, v: FloatArray) -> float:
    """Return what a change in a box explains, beyond the 1 that noise explains."""
    inside = box.holds(x)
    return max(float(s[inside].sum() ** 2 / v[inside].sum()) - 1.0, 0.0)


class _InputShift(NamedTuple):
    """How the distribution of an input shifted, as in `InputChange`, with its p-value by itself."""

    pvalue: float
    summaries: tuple[tuple[str, float, float], ...]
    bins: tuple[str, ...] | tuple[float, ...]
    shares_p: tuple[float, ...]
    shares_q: tuple[float, ...]


def _shift_of_input(adjustment: Adjustment, column: int, category_names: Mapping[float, str] | None) -> _InputShift:
    """Compare the values of an input in both samples; `category_names` are those of its codes, None for a number."""
    parts, sizes, clusters = [], [], adjustment.clusters
    for sample in (0, 1):
        rows = np.flatnonzero(adjustment.labels == sample)
        weights = adjustment.weights[rows] / adjustment.weights[rows].sum()
        parts.append((adjustment.x[rows, column], weights))
        # Rows of a cluster may all say the same.
        sizes.append(1 / float((weights**2).sum()) if clusters is None else float(len(np.unique(clusters[rows]))))
    if category_names is None:
        return _shift_of_numbers(parts, sizes)
    return _shift_of_labels(parts, sizes, category_names)


def _shift_of_numbers(parts: Sequence[tuple[FloatArray, FloatArray]], sizes: Sequence[float]) -> _InputShift:
    """Compare numbers: values and weights of both samples, and how many rows each is worth."""
    pooled = np.sort(np.concatenate([values for values, _ in parts]))
    below = []  # for each sample the share of its rows up to each pooled value
    for values, weights in parts:
        order = np.argsort(values, kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(weights[order])])
        below.append(sums[np.searchsorted(values[order], pooled, side="right")])
    effective_rows = sizes[0] * sizes[1] / sum(sizes)
    pvalue = _kolmogorov(float(np.abs(below[0] - below[1]).max()), effective_rows)
    summaries = tuple(zip(("mean", "spread"), *(_moments(*part) for part in parts), strict=True))
    edges = _edges(pooled)

    def shares(values: FloatArray, weights: FloatArray) -> tuple[float, ...]:
        # What lies beyond the outermost edges counts in the outermost bins.
        return tuple(np.histogram(np.clip(values, edges[0], edges[-1]), edges, weights=weights)[0].tolist())

    shares_p, shares_q = (shares(*part) for part in parts)
    return _InputShift(pvalue, summaries, tuple(edges.tolist()), shares_p, shares_q)


def _shift_of_labels(
    parts: Sequence[tuple[FloatArray, FloatArray]], sizes: Sequence[float], category_names: Mapping[float, str]
) -> _InputShift:
    """Compare labels: codes and weights of both samples, and how many rows each is worth."""
    codes = np.unique(np.concatenate([values for values, _ in parts]))
    names = [category_names[code] for code in codes.tolist()]
    # (2, codes): of each sample, the share of each label
    shares = np.array([np.bincount(np.searchsorted(codes, values), weights, len(codes)) for values, weights in parts])
    pvalue = _chi_squared(shares * np.array(sizes)[:, None])
    most = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")
    summaries = tuple(
        (f"share of {names[k]}", float(shares[0, k]), float(shares[1, k])) for k in most[:_MOST_SUMMARIES]
    )
    shown = np.sort(np.argsort(-shares.sum(axis=0), kind="stable")[:_MOST_LABELS])
    shares_p, shares_q = (tuple(of_sample[shown].tolist()) for of_sample in shares)
    return _InputShift(pvalue, summaries, tuple(names[k] for k in shown), shares_p, shares_q)


def _moments(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation; squares of large numbers would overflow."""
    top = largest_size(values)
    mean = float(weights @ (values / top))
    return mean * top, float(np.sqrt(weights @ (values / top - mean) ** 2)) * top


def _kolmogorov(distance: float, effective_rows: float) -> float:
    """P-value of the largest distance between two distribution functions (Stephens' form of the limit)."""
    root = np.sqrt(effective_rows)
    return float(kolmogorov((root + 0.12 + 0.11 / root) * distance))


def _chi_squared(counts: FloatArray) -> float:
    """P-value of equal shares of labels in two rows of counts, with Yates' correction for two labels."""
    freedom = counts.shape[1] - 1
    if freedom == 0:
        return 1.0
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    apart = np.abs(counts - expected)
    if freedom == 1:
        apart = np.maximum(apart - 0.5, 0.0)
    return float(chdtrc(freedom, (apart**2 / expected).sum()))


def _edges(values: FloatArray) -> FloatArray:
    """Edges of bins of equal width; of whole numbers each bin holds equally many different ones."""
    low, high = np.quantile(values, [_OUTERMOST, 1 - _OUTERMOST])
    if np.array_equal(values, np.round(values)):
        low, high = np.floor(low), np.ceil(high)
        width = max(1.0, np.ceil((high - low + 1) / _MOST_BINS))
        return np.asarray(low - 0.5 + width * np.arange(np.ceil((high - low + 1) / width) + 1))
    return np.linspace(low, high, _MOST_BINS + 1) if low < high else np.array([low, low + 1.0])


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
