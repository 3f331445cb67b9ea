"""Where the conditionals differ, in words: regions of x that were found on some rows and tested on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

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
    fewest_resamples,
    label_names,
    numpy_parts,
)
from condcs._core.errors import ParameterError, public
from condcs._core.printable import alike, listed
from condcs._core.vocabulary import named, setting
from condcs._inference.adjustment import Adjustment
from condcs._inference.box_search import Bound
from condcs._inference.input_changes import InputChange, input_changes
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
_LEAST_SPREAD, _MOST_SPREAD = 1e-4, 1e6
"""Spreads of a column between which its numbers are written with decimals: smaller ones would have too many zeros,
larger ones too many digits."""


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
        What y did there, before and now, for the same inputs and in its own units. What `kind` names comes first, but
        for a shape: its change has no size, and the mean and the spread, which come first then, need not have changed.
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

    @property
    def sized_change(self) -> Change | None:
        """The change that `kind` names; None for a shape, whose change has no size."""
        return None if self.kind == "shape" else self.changes[0]

    @property
    def change_words(self) -> str:
        """What changed there, with its size and interval if it has one."""
        change = self.sized_change
        return f"shape of {self.column}" if change is None else sized_change_words(change)

    def __str__(self) -> str:
        """Say where, what, how large and how sure."""
        sure = f"{self.share:.0%} of rows, p = {show_p(self.pvalue)}"
        return f"{self.words}: {self.change_words}; {sure}"


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
            (r.words, f"{r.share_p:.0%} -> {r.share_q:.0%}", r.change_words, show_p(r.pvalue)) for r in self.regions
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


def sized_change_words(change: Change) -> str:
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
    explained = explain_pool(
        adjustment,
        np.asarray(y.values, np.float64),
        named_columns(x, x_parts),
        named_columns(y, y_parts),
        alpha=alpha,
        max_regions=max_regions,
        n_resamples=n_resamples,
        rng=generator,
    )
    return explained.explanation


class ExplainedPool(NamedTuple):
    """What `explain_pool` returns."""

    explanation: Explanation
    regions_at_level: Callable[[float], tuple[Region, ...]]
    """Takes a confidence level, and returns the regions of the explanation with intervals of that level."""


def explain_pool(
    adjustment: Adjustment,
    y: FloatArray,
    x_words: Sequence[ColumnWords],
    y_words: Sequence[ColumnWords],
    *,
    alpha: float,
    max_regions: int,
    n_resamples: int,
    rng: np.random.Generator,
) -> ExplainedPool:
    """Explain how two samples differ that have been pooled and adjusted, in the words of their columns.

    `y` (n x c) holds the responses, labels coded as numbers.
    """
    features = response_features(y, [words.labels is not None for words in y_words], adjustment.smoother)
    boxes = honest_boxes(adjustment, features, alpha=alpha, max_regions=max_regions, n_resamples=n_resamples, rng=rng)
    effects_of_features = _effects_of_features(adjustment, y, features, 1 - alpha) if boxes else {}

    def regions_at_level(confidence_level: float) -> tuple[Region, ...]:
        effects = {key: of_feature.at_level(confidence_level) for key, of_feature in effects_of_features.items()}
        return tuple(_region(adjustment, box, effects, x_words, y_words) for box in boxes)

    names, category_names = [words.name for words in x_words], [words.labels for words in x_words]
    inputs = input_changes(adjustment, names, category_names, boxes)
    explanation = Explanation(regions_at_level(1 - alpha), inputs, alpha, adjustment.propensity.diagnostics)
    return ExplainedPool(explanation, regions_at_level)


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
    # Each half of the rows is one look.
    least = fewest_resamples(alpha, looks=2)
    if n_resamples < least:
        raise ParameterError(
            f"{named('n_resamples')} must be at least {least} for a p-value to reach {setting('alpha', alpha)}, got "
            f"{n_resamples}. Pass {setting('n_resamples', max(499, least))}."
        )


class _Measured(NamedTuple):
    """What is measured in a region: the mean and the spread of a response, or the share of one of its labels."""

    kind: Literal["mean", "share"]
    column: int
    label: float  # 0 for numbers


def _effects_of_features(
    adjustment: Adjustment, y: FloatArray, features: Sequence[Feature], confidence_level: float
) -> dict[_Measured, RegionEffects]:
    """Return what measures the responses (n, c) that features are made of; their regressions are fitted here."""
    effects = {}
    for feature in features:
        if feature.kind == "mean":
            values = y[:, feature.column]
        elif feature.kind == "share":
            values = (y[:, feature.column] == feature.label).astype(np.float64)
        else:
            continue
        measured = _Measured(feature.kind, feature.column, feature.label)
        if measured not in effects:
            effects[measured] = RegionEffects(adjustment, values, confidence_level)
    return effects


def _region(
    adjustment: Adjustment,
    region: SignificantBox,
    effects: Mapping[_Measured, RegionEffects],
    x_words: Sequence[ColumnWords],
    y_words: Sequence[ColumnWords],
) -> Region:
    """Describe a region in the words of the columns, with what every response did in it."""
    rows = region.rows
    written = {x_words[c].name: x_words[c].bound(bound) for c, bound in sorted(region.box.bounds.items())}
    share_p, share_q = (float(rows[adjustment.labels == sample].mean()) for sample in (0, 1))
    return Region(
        bounds={name: values for name, (values, _) in written.items()},
        words=" and ".join(words for _, words in written.values()) or "everywhere",
        pvalue=region.pvalue,
        kind=region.feature.kind,
        column=y_words[region.feature.column].name,
        share=float(rows.mean()),
        share_p=share_p,
        share_q=share_q,
        share_in_common=_share_in_common(adjustment, rows),
        changes=_changes(region, effects, y_words),
    )


def _share_in_common(adjustment: Adjustment, rows: BoolArray) -> float:
    """Return the share of some rows in the inputs that both samples have in common."""
    weights = adjustment.common_weights
    return float(weights[rows].sum() / weights.sum())


def _changes(
    region: SignificantBox, effects: Mapping[_Measured, RegionEffects], y_words: Sequence[ColumnWords]
) -> tuple[Change, ...]:
    """Say what every response did.

    What the region was found by comes first, then the rest of that response. Of a shape that is the rest alone.
    """
    feature = region.feature
    changes: list[tuple[bool, bool, Change]] = []  # with what they are sorted by, False before True
    for (kind, column, label), effects_on_response in effects.items():
        name, labels = y_words[column].name, y_words[column].labels
        is_of_feature = column == feature.column and label == feature.label
        if kind == "share":
            assert labels is not None
            measured = [effects_on_response.mean(name, region, labels[label], selected=is_of_feature)]
        else:
            measured = [
                effects_on_response.mean(name, region, selected=is_of_feature and feature.kind == "mean"),
                effects_on_response.spread(name, region, selected=is_of_feature and feature.kind == "spread"),
            ]
        for change in measured:
            changes.append((not (is_of_feature and change.quantity == feature.kind), not is_of_feature, change))
    return tuple(change for _, _, change in sorted(changes, key=lambda entry: entry[:2]))


def deviation(values: FloatArray) -> float:
    """Return the standard deviation, also of numbers whose squares would overflow."""
    top = largest_size(values)
    return float(np.std(values / top)) * top


def decimals(spread: float) -> Callable[[float], str]:
    """Return what writes numbers with as many decimals as tell hundredths of their spread apart."""
    digits = f",.{max(0, 2 - round(np.log10(spread)))}f" if _LEAST_SPREAD < spread < _MOST_SPREAD else ".4g"
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
