"""Where the conditionals differ, in words: regions of x that were found on some rows and tested on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc, kolmogorov

from condcs._core.arrays import Array, BoolArray, ByValue, FloatArray
from condcs._core.checks import (
    Parts,
    PresentRows,
    Variable,
    check_alpha,
    check_integer,
    check_rng,
    check_same_rows,
    check_variable,
    label_names,
    numpy_parts,
)
from condcs._core.errors import ParameterError, public
from condcs._core.printable import alike, listed
from condcs._core.vocabulary import named, setting
from condcs._inference.adjustment import Adjustment
from condcs._inference.box_search import Bound, Box
from condcs._inference.propensities import warn_if_unreliable
from condcs._inference.region_effects import Change, RegionEffects
from condcs._inference.regions import SignificantBox, honest_boxes
from condcs._inference.response_features import Feature, FeatureKind, response_features
from condcs._inference.weights_and_clusters import checked_clusters
from condcs._kernels.named_kernels import Kernel, check_kernel
from condcs._measures.inputs import Inputs
from condcs._regression.standardised import largest_size

_MOST_NAMED = 4
"""Labels of a region that are named; how many more there are is said by number, so that a line stays a line."""
_SMALL, _LARGE = 1e-4, 1e6
"""Spreads of a column between which numbers are written with decimals: others would have too many zeros or digits."""
_BINS = 12
"""Bins of the histogram of a number at most: a sparkline has one character for each."""
_MOST_LABELS = 12
"""Labels of a histogram, the most frequent ones: as many as a number has bins."""
_MOST_SUMMARIES = 3
"""Labels whose shares are listed, those that changed most."""
_SLACK = 1e-9
"""Taken off what is rounded up: a quotient such as 2 / 0.05 may come out a last digit above a whole number."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, eq=False)
class Region(ByValue):
    """A region of x in which the relation of y to x changed.

    Attributes
    ----------
    bounds : dict
        By column, (low, high) for low < x <= high, infinite where open, or a tuple of labels. Empty: everywhere.
    words : str
        The same in words.
    pvalue : float
        Of the hypothesis that p(y|x) is the same in the box from which the region comes, on rows that had no part in
        finding it, adjusted for all boxes that were looked at.
    kind : {"mean", "spread", "shape", "share"}
        What changed most clearly: the mean, the spread or the shape of a number, or the share of a label.
    column : str
        Of which response.
    share, share_p, share_q : float
        Share of the rows in it: of all, and of each sample.
    share_in_common : float
        Share of it in the inputs that both samples have: of a density proportional to p q / (p + q).
    changes : tuple of Change
        What y did there, before and now, for the same inputs and in its own units; what `kind` names comes first.
    """

    bounds: Mapping[str, tuple[float, float] | tuple[str, ...]]
    words: str
    pvalue: float
    kind: FeatureKind
    column: str
    share: float
    share_p: float
    share_q: float
    share_in_common: float
    changes: tuple[Change, ...] = field(repr=False)

    def __str__(self) -> str:
        """Say where, what, how large and how sure."""
        what = f"shape of {self.column}, " if self.kind == "shape" else ""
        sure = f"{self.share:.0%} of rows, p = {show_p(self.pvalue)}"
        return f"{self.words}: {what}{region_change_words(self.changes[0])}; {sure}"


@dataclass(frozen=True, eq=False)
class Explanation(ByValue):
    """Where the relation of y to x changed, and which inputs that involves.

    Attributes
    ----------
    regions : tuple of Region
        Those in which a change is significant, most certain first. Their number says nothing about the rest of x.
    inputs : tuple of InputChange
        Every input: its share in the change, and how its own distribution shifted.
    alpha : float
        Family-wise error rate: the probability that any region is listed where nothing changed.
    diagnostics : dict
        As those of `conditional_test`: how far the estimate of P(sample | x) can be trusted.
    """

    regions: tuple[Region, ...]
    inputs: tuple[InputChange, ...]
    alpha: float
    diagnostics: Mapping[str, Any]

    def __str__(self) -> str:
        """Table of the regions."""
        if not self.regions:
            return f"No region of x in which p(y|x) changed was found (alpha = {self.alpha:g})."
        head = ("where p(y|x) changed", "rows", "what y did", "p")
        rows = [
            (r.words, f"{r.share_p:.0%} -> {r.share_q:.0%}", region_change_words(r.changes[0]), show_p(r.pvalue))
            for r in self.regions
        ]
        widths = [max(len(row[c]) for row in [head, *rows]) for c in range(len(head))]
        lines = [head, tuple("-" * width for width in widths), *rows]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )


@dataclass(frozen=True)
class ColumnWords:
    """How one column is called and written."""

    name: str
    labels: Mapping[float, str] | None  # what codes stand for; None for numbers
    interval: Callable[[float, float], str]  # writes low < x <= high

    def bound(self, bound: Bound) -> tuple[tuple[float, float] | tuple[str, ...], str]:
        """Return a bound as values and in words."""
        if isinstance(bound, frozenset):
            assert self.labels is not None
            labels = tuple(self.labels[code] for code in sorted(bound))
            return labels, label_words(self.name, labels)
        return bound, self.interval(*bound)


def label_words(name: str, labels: Sequence[str]) -> str:
    """Write that a column has one of some labels."""
    named = listed(labels, _MOST_NAMED, "or")
    return f"{name} = {named}" if len(labels) == 1 else f"{name} in {{{named}}}"


def level_words(change: Change) -> tuple[str, str]:
    """Write what y is before and now: shares in percent."""
    in_percent = change.quantity == "share"
    scale = 100 if in_percent else 1
    # The longer interval decides how many digits both have.
    length = scale * max(level.high - level.low for level in (change.reference, change.current))
    first, second = alike(scale * change.reference.value, scale * change.current.value, length=length)
    return (f"{first}%", f"{second}%") if in_percent else (first, second)


def ends_of(change: Change) -> str:
    """Write the ends of the interval of a change: of a difference, or for a spread of a factor."""
    ends = change.change.low, change.change.high
    if change.quantity == "share":
        return "{} to {} points".format(*alike(*(100 * end for end in ends), signed=True))
    return " to ".join(alike(*ends, signed=change.quantity == "mean"))


def interval_of(change: Change) -> str:
    """Write the interval of a change by itself."""
    return ("times " if change.quantity == "spread" else "") + ends_of(change)


def region_change_words(change: Change) -> str:
    """Write a change with its interval."""
    return f"{change.words} {' -> '.join(level_words(change))} ({interval_of(change)})"


@public
def explain(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    max_regions: int = 4,
    alpha: float = 0.05,
    n_resamples: int = 499,
    propensity: Any = None,
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    clusters_p: Array | None = None,
    clusters_q: Array | None = None,
    rng: int | np.random.Generator | None = 0,
) -> Explanation:
    r"""Find the regions of x in which p(y|x) and q(y|x) differ, and what y did there.

    The rows are split in two halves. On each half, boxes in x are searched for in which y, adjusted for x, differs
    between the samples: its mean, its spread, its shape, or the shares of its labels. Each box is tested on the other
    half, against the largest value of all boxes under redrawn labels. So if nothing changed, a region is listed with
    probability at most `alpha`, however x shifts, under the assumptions of `conditional_test`. The bounds are then
    estimated from all rows. Cost O(n d log n), in addition to the regressions on x; all rows are used.

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`. Columns of DataFrames keep their names, and labels theirs.
    max_regions : int
        Most regions that are listed.
    alpha : float
        Largest p-value of a region that is listed.
    n_resamples : int
        How many times labels are redrawn; at least 2 / alpha, since two halves are two looks.
    propensity : classifier or array, optional
        As in `conditional_test`.
    kernel_x, kernel_y : str, or sequence of str
        Which columns are labels: those with the kernel "delta". Nothing else about the kernels is used.
    weights_p, weights_q : array, optional
        How much each row counts.
    clusters_p, clusters_q : array, optional
        The cluster that each row belongs to, as in `conditional_test`: clusters are halved, and labels redrawn, as a
        whole.
    rng : int, Generator or None
        Seed of the halves and of the resamples.

    Returns
    -------
    Explanation
        `regions` and `inputs`; prints as a table.

    Notes
    -----
    What y did in a region is reported for the same inputs: a shift of x inside the region is not part of it. Bounds lie
    where the difference is large, so that the rows which placed them overstate it; rows that did not place them find it
    in bounds that are not as good, and understate it. An estimate is the middle of both, and its interval (of level
    1 - alpha) reaches from the lower end by the second to the upper end by the first. Both allow for regions being
    listed only if a test is significant.

    Examples
    --------
    >>> from condcs.datasets import make_local_shift
    >>> data = make_local_shift(200)
    >>> explanation = explain(data.xp, data.yp, data.xq, data.yq)
    >>> len(explanation.regions), explanation.regions[0].kind
    (1, 'mean')
    """
    check_integer("max_regions", max_regions, 1)
    check_alpha(alpha)
    _check_enough(check_integer("n_resamples", n_resamples, 1), alpha)
    generator = check_rng(rng)
    x_parts, y_parts = numpy_parts(xp=xp, xq=xq), numpy_parts(yp=yp, yq=yq)
    weight_parts = numpy_parts(weights_p=weights_p, weights_q=weights_q)
    cluster_parts = numpy_parts(clusters_p=clusters_p, clusters_q=clusters_q)
    present = PresentRows.of(weight_parts, x_parts, y_parts, cluster_parts)
    x_parts, y_parts = present.of_parts(x_parts), present.of_parts(y_parts)
    weight_parts, cluster_parts = present.of_parts(weight_parts), present.of_parts(cluster_parts)
    inputs = Inputs.of(*(a for _, a in (*x_parts, *y_parts, *weight_parts)))
    x, y = _variable(inputs, x_parts, "x", kernel_x), _variable(inputs, y_parts, "y", kernel_y)
    check_same_rows(x, x_parts, y, y_parts)
    weights = inputs.weights(weight_parts, x.sizes).weights
    adjustment = Adjustment.of(
        np.asarray(x.values, np.float64),
        x.labels,
        (x.sizes[0], x.sizes[1]),
        generator,
        weights=None if weights is None else np.asarray(weights, np.float64),
        clusters=checked_clusters(cluster_parts, x.sizes),
        propensity=present.of_pool(propensity),
        responses=(np.asarray(y.values, np.float64), y.labels),
    )
    warn_if_unreliable(adjustment.propensity)
    return explained(
        adjustment,
        np.asarray(y.values, np.float64),
        named_columns(x, x_parts),
        named_columns(y, y_parts),
        alpha=alpha,
        max_regions=max_regions,
        n_resamples=n_resamples,
        rng=generator,
    )


def explained(
    adjustment: Adjustment,
    y: FloatArray,
    x_words: Sequence[ColumnWords],
    y_words: Sequence[ColumnWords],
    *,
    alpha: float,
    max_regions: int,
    n_resamples: int,
    rng: np.random.Generator,
) -> Explanation:
    """Find the regions of pooled samples, and describe them in the words of their columns."""
    features = response_features(y, [words.labels is not None for words in y_words], adjustment.smoother)
    boxes = honest_boxes(adjustment, features, alpha=alpha, max_regions=max_regions, n_resamples=n_resamples, rng=rng)
    regions = tuple(_region(adjustment, y, box, features, x_words, y_words, 1 - alpha) for box in boxes)
    inputs = input_changes(adjustment, [w.name for w in x_words], [w.labels for w in x_words], boxes)
    return Explanation(regions, inputs, alpha, adjustment.propensity.diagnostics)


def named_columns(variable: Variable, parts: Parts) -> list[ColumnWords]:
    """Return the names of a checked variable's columns, and of their labels."""
    columns = []
    for column, (name, is_label) in enumerate(zip(variable.names, variable.labels, strict=True)):
        names = label_names(parts, variable, column) if is_label else None
        spread = deviation(np.asarray(variable.values[:, column], np.float64))
        columns.append(ColumnWords(name, names, interval_words(name, decimals(spread))))
    return columns


def _variable(inputs: Inputs, parts: Parts, role: str, kernel: Kernel) -> Variable:
    """Check x or y of both samples; its kernel says which columns are labels."""
    option = check_kernel(f"kernel_{role}", kernel)
    return check_variable(
        parts, inputs.backend, inputs.dtype, labels=option.labels, kernel_option=option.option, stem=role
    )


def _check_enough(n_resamples: int, alpha: float) -> None:
    """Refuse fewer resamples than a significant p-value needs."""
    # The smallest p-value is 2 / (1 + n_resamples), twice the smallest chance, for two halves.
    least = int(np.ceil(2 / alpha - _SLACK)) - 1
    if n_resamples < least:
        raise ParameterError(
            f"{named('n_resamples')} must be at least {least} for a p-value to reach {setting('alpha', alpha)}, got "
            f"{n_resamples}. Pass {setting('n_resamples', max(499, least))}."
        )


def _region(
    adjustment: Adjustment,
    y: FloatArray,
    region: SignificantBox,
    features: Sequence[Feature],
    x_words: Sequence[ColumnWords],
    y_words: Sequence[ColumnWords],
    confidence_level: float,
) -> Region:
    """Describe a region in the words of the columns, with what every response did in it."""
    rows = region.rows
    written = {x_words[c].name: x_words[c].bound(bound) for c, bound in sorted(region.box.bounds.items())}
    p, q = (float(rows[adjustment.labels == group].mean()) for group in (0, 1))
    return Region(
        bounds={name: values for name, (values, _) in written.items()},
        words=" and ".join(words for _, words in written.values()) or "everywhere",
        pvalue=region.pvalue,
        kind=region.feature.kind,
        column=y_words[region.feature.column].name,
        share=float(rows.mean()),
        share_p=p,
        share_q=q,
        share_in_common=_share_in_common(adjustment, rows),
        changes=_changes(adjustment, y, region, features, y_words, confidence_level),
    )


def _share_in_common(adjustment: Adjustment, rows: BoolArray) -> float:
    """Return the share of some rows, each weighted by the variance of its label given x."""
    e = adjustment.propensity.of_rows[:, 1]
    weights = adjustment.weights * e * (1 - e)
    return float(weights[rows].sum() / weights.sum())


def _changes(
    adjustment: Adjustment,
    y: FloatArray,
    region: SignificantBox,
    features: Sequence[Feature],
    y_words: Sequence[ColumnWords],
    confidence_level: float,
) -> tuple[Change, ...]:
    """Say what every response did; what the region was found by comes first, then the rest of that response."""
    sought = region.feature
    changes: list[tuple[bool, bool, Change]] = []  # with what they are sorted by, False before True
    for kind, column, label in dict.fromkeys((f.kind, f.column, f.label) for f in features):
        name, labels = y_words[column].name, y_words[column].labels
        is_sought = column == sought.column and label == sought.label
        if kind == "share":
            assert labels is not None
            indicator = (y[:, column] == label).astype(np.float64)
            effects = RegionEffects(adjustment, indicator, confidence_level)
            measured = [effects.mean(name, region, labels[label], selected=is_sought)]
        elif kind == "mean":
            effects = RegionEffects(adjustment, y[:, column], confidence_level)
            selected_by = sought.kind if is_sought else None
            measured = [
                effects.mean(name, region, selected=selected_by == "mean"),
                effects.spread(name, region, selected=selected_by == "spread"),
            ]
        else:
            continue
        for change in measured:
            changes.append((not (is_sought and change.quantity == sought.kind), not is_sought, change))
    return tuple(change for _, _, change in sorted(changes, key=lambda entry: entry[:2]))


def decimals(spread: float) -> Callable[[float], str]:
    """Return what writes numbers with as many decimals as tell hundredths of their spread apart."""
    digits = f",.{max(0, 2 - round(np.log10(spread)))}f" if _SMALL < spread < _LARGE else ".4g"
    return lambda value: format(value, digits)


def interval_words(name: str, show: Callable[[float], str], at_most: str = "<=") -> Callable[[float, float], str]:
    """Return what writes intervals of a column, given what writes their ends."""

    def write(low: float, high: float) -> str:
        if low == -np.inf:
            return f"{name} {at_most} {show(high)}"
        return f"{name} > {show(low)}" if high == np.inf else f"{show(low)} < {name} {at_most} {show(high)}"

    return write


def show_p(pvalue: float) -> str:
    """Write a p-value."""
    return f"{pvalue:.3f}" if pvalue >= 0.001 else f"{pvalue:.1g}"


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
    summaries : tuple of (words, before, now)
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
        """Histograms before and now, in small characters of one scale."""
        top = max(*self.shares_p, *self.shares_q, np.finfo(float).tiny)

        def bars(shares: Sequence[float]) -> str:
            return "".join(_BARS[round((len(_BARS) - 1) * share / top)] for share in shares)

        return bars(self.shares_p), bars(self.shares_q)


def input_changes(
    adjustment: Adjustment,
    names: Sequence[str],
    labels: Sequence[Mapping[float, str] | None],
    regions: Sequence[SignificantBox],
) -> tuple[InputChange, ...]:
    """Describe every input; `labels` are the names of the codes of a column, None for numbers."""
    involved = involvements(adjustment, regions)
    shifts = [_shift_of_input(adjustment, column, of_codes) for column, of_codes in enumerate(labels)]
    adjusted = holm([shift.pvalue for shift in shifts])
    return tuple(
        InputChange(name, float(share), pvalue, shift.summaries, shift.bins, shift.shares_p, shift.shares_q)
        for name, share, pvalue, shift in zip(names, involved, adjusted, shifts, strict=True)
    )


def involvements(adjustment: Adjustment, regions: Sequence[SignificantBox]) -> FloatArray:
    """Share of the squared change that is lost if no region is bounded by a column, for each column.

    With contrasts s and weights v as in `regions`, a region explains (sum s)^2 / sum v, of which 1 is noise. Without
    its bounds on a column it is larger, the change in it smaller, and it explains less.
    """
    total, lost = 0.0, np.zeros(adjustment.x.shape[1])
    u, w = adjustment.surprise, adjustment.weights
    v = w * u**2
    for region in regions:
        s = w * u * region.unexplained
        whole = _explained(adjustment.x, region.box, s, v)
        total += whole
        for column in region.box.bounds:
            without_bounds = region.box.bounded(column, None)
            lost[column] += max(whole - _explained(adjustment.x, without_bounds, s, v), 0.0)
    return lost / total if total > 0 else lost


def _explained(x: FloatArray, box: Box, s: FloatArray, v: FloatArray) -> float:
    """Return what a change in a box explains, beyond the 1 that noise does."""
    inside = box.holds(x)
    return max(float(s[inside].sum() ** 2 / v[inside].sum()) - 1.0, 0.0)


def deviation(values: FloatArray) -> float:
    """Return the standard deviation, also of numbers whose squares would overflow."""
    top = largest_size(values)
    return float(np.std(values / top)) * top


class _InputShift(NamedTuple):
    """How the distribution of an input shifted, as in `InputChange`, with its p-value by itself."""

    pvalue: float
    summaries: tuple[tuple[str, float, float], ...]
    bins: tuple[str, ...] | tuple[float, ...]
    shares_p: tuple[float, ...]
    shares_q: tuple[float, ...]


def _shift_of_input(adjustment: Adjustment, column: int, labels: Mapping[float, str] | None) -> _InputShift:
    """Compare the values of an input in both samples; `labels` are the names of its codes, None for a number."""
    parts, sizes, units = [], [], adjustment.clusters
    for group in (0, 1):
        rows = np.flatnonzero(adjustment.labels == group)
        weights = adjustment.weights[rows] / adjustment.weights[rows].sum()
        parts.append((adjustment.x[rows, column], weights))
        # Rows of a cluster may all say the same.
        sizes.append(1 / float((weights**2).sum()) if units is None else float(len(np.unique(units[rows]))))
    return _shift_of_numbers(parts, sizes) if labels is None else _shift_of_labels(parts, sizes, labels)


def _shift_of_numbers(parts: Sequence[tuple[FloatArray, FloatArray]], sizes: Sequence[float]) -> _InputShift:
    """Compare numbers: values and weights of both samples, and how many rows each is worth."""
    pooled = np.sort(np.concatenate([values for values, _ in parts]))
    below = []  # for each sample the share of its rows up to each pooled value
    for values, weights in parts:
        order = np.argsort(values, kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(weights[order])])
        below.append(sums[np.searchsorted(values[order], pooled, side="right")])
    effective = sizes[0] * sizes[1] / sum(sizes)
    pvalue = _kolmogorov(float(np.abs(below[0] - below[1]).max()), effective)
    summaries = tuple(zip(("mean", "spread"), *(_moments(*part) for part in parts), strict=True))
    edges = _edges(pooled)

    def shares(values: FloatArray, weights: FloatArray) -> tuple[float, ...]:
        # What lies beyond the outermost edges counts in the outermost bins.
        return tuple(np.histogram(np.clip(values, edges[0], edges[-1]), edges, weights=weights)[0].tolist())

    shares_p, shares_q = (shares(*part) for part in parts)
    return _InputShift(pvalue, summaries, tuple(edges.tolist()), shares_p, shares_q)


def _shift_of_labels(
    parts: Sequence[tuple[FloatArray, FloatArray]], sizes: Sequence[float], labels: Mapping[float, str]
) -> _InputShift:
    """Compare labels: codes and weights of both samples, and how many rows each is worth."""
    codes = np.unique(np.concatenate([values for values, _ in parts]))
    names = [labels[code] for code in codes.tolist()]
    # (2, labels)
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


def _kolmogorov(distance: float, effective: float) -> float:
    """P-value of the largest distance between two distribution functions (Stephens' form of the limit)."""
    root = np.sqrt(effective)
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
