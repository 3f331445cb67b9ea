"""What an alarm says: where, since when, what y did there, and how far the relation is from that of the reference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import kurtosis
from scipy.stats import t as student

from condcs._core.arrays import BoolArray, FloatArray, IntArray
from condcs._core.compiling import njit
from condcs._core.errors import CondcsError
from condcs._core.printable import Printable, counted
from condcs._inference.witness import witness
from condcs._measures.conditional import conditional_cs
from condcs.drift._betting import Outcome, Sums, bet_factor, earlier_share, pattern_steps
from condcs.drift._cells import Family, Regions, locate_cells
from condcs.drift._dependence import LARGEST_RESIDUAL
from condcs.drift._patterns import Pattern, heights_of
from condcs.drift._scores import ScoreModel, aims_of, design, scale_rows
from condcs.drift._watching import KeptRows, Plan

RANGE_LEVEL = 0.95
"""Share of the evidence that lies in the range of the change point; documented with `Alarm.since_range`."""

COMPARED_ROWS = 300
"""Most rows of each side that enter the divergence, which an alarm is to have at once: its cost grows with their
square. With more it would vary less."""

FEWEST_SUMMARISED = 5
"""Fewer rows than these have no standard deviation, interval or divergence: of one row a deviation would be 0."""

_FEWEST_LOCATED = 3
"""Fewer rows in a region do not locate a change there: two may be outliers."""

_LEVEL = 0.95
"""Level of intervals; a change is shown where such an interval lies on its side of no change."""

Quantity = Literal["mean", "share", "agreement", "product"]
"""What is averaged over rows: a number; the indicator of a label, or of the label that is likeliest at x; and the
product of the residuals of two responses, in units of their spreads."""


class Summary(NamedTuple):
    """Mean of the quantity, standard deviation around what the reference expects at x, and number of rows.

    None where there are too few rows: no row for a mean, fewer than five for a standard deviation.
    """

    mean: float | None
    deviation: float | None
    rows: int


@dataclass(frozen=True)
class Alarm(Printable):
    """A change of the relation, as the detector reports it.

    Attributes
    ----------
    row : int
        The row at which it was noticed, counted from 1.
    response : str
        The column of y, or two of them.
    label : str or None
        The label whose probability changed.
    kind : str
        "level", "spread", "slope" (opposite changes at the two ends of a column) or "interaction" (in opposite corners
        of two columns).
    change : str
        The change in words.
    region : str
        Where over x, in words. "all rows" means that no single region explains the rows better than all of them do.
    bounds : dict
        The same as a column with its limits (None where open) or labels; empty for all rows and for corners.
    since : int
        Estimate of the row at which the change began.
    since_range : pair of int
        Rows between which 95% of the evidence puts it.
    at_least : bool
        Whether it may have begun before the rows that are kept.
    reference, recent : Summary
        What changed, `quantity`, in the region: in the reference, and in the stream since the change.
    difference : float or None
        Mean of the quantity in the region since the change less what the reference expects at the same inputs.
    interval : pair of float, or None
        95% confidence interval of it; None for fewer than five rows.
    divergence : float or None
        Conditional CS divergence of the rows since the change from the reference; None for fewer than five rows.
    witness_at : dict
        The inputs, of the rows since the change, at which the local divergence is largest.
    witness_value : float or None
        The local divergence there.
    statistic, threshold : float
        The evidence, and what it had to reach.
    quantity : {"mean", "share", "agreement", "product"}
        What `reference` and `recent` are means of: the response, the indicator of `label`, whether the label is the
        likeliest one at x, or the product of the residuals of two responses in units of their spreads.
    shown : bool
        Whether `recent` alone shows the change at 95%. An alarm rests on all bets together, and the rows since the
        estimated beginning may be too few.
    """

    row: int
    response: str
    label: str | None
    kind: str
    change: str
    region: str
    bounds: dict[str, Any]
    since: int
    since_range: tuple[int, int]
    at_least: bool
    reference: Summary
    recent: Summary
    difference: float | None
    interval: tuple[float, float] | None
    divergence: float | None
    witness_at: dict[str, Any]
    witness_value: float | None
    statistic: float
    threshold: float
    quantity: Quantity = "mean"
    shown: bool = True

    @property
    def of_spread(self) -> bool:
        """Whether the standard deviation changed; a label has none of its own."""
        return self.kind == "spread" and self.quantity in ("mean", "product")

    @property
    def everywhere(self) -> bool:
        """Whether no region of x is named."""
        return not self.bounds and self.kind in ("level", "spread")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "reference": self.reference._asdict(), "recent": self.recent._asdict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Alarm:
        """Undo `as_dict`, also after JSON."""
        pairs = {name: None if values[name] is None else tuple(values[name]) for name in ("since_range", "interval")}
        bounds = {k: tuple(v) if len(v) == 2 and not isinstance(v[0], str) else v for k, v in values["bounds"].items()}
        sides = {name: Summary(**values[name]) for name in ("reference", "recent")}
        return cls(**{**values, **pairs, **sides, "bounds": bounds})

    def __str__(self) -> str:
        return f"row {self.row:,}: {self._change_in_words()}"

    def _change_in_words(self) -> str:
        """Say what changed, where, since when, and by how much."""
        since = f"{'before ' if self.at_least else ''}row {self.since:,}"
        low, high = self.since_range
        location = "" if self.everywhere else f" where {self.region}"
        parts = [
            f"{self.change}{location}, since {since} (between {low:,} and {high:,})",
            self._sides_in_words(),
        ]
        if not self.of_spread and self.interval is not None:
            parts.append(
                f"{self.difference:+.4g} ({self.interval[0]:+.4g} to {self.interval[1]:+.4g}) at the same inputs"
            )
        if self.divergence is not None:
            parts.append(f"conditional CS divergence {self.divergence:.3g}")
        return "; ".join(parts)

    def _sides_in_words(self) -> str:
        """Say what changed from what to what, as far as the rows since then show it."""
        what = {
            "mean": f"the mean of {self.response}",
            "share": f"the share of {self.label}",
            "agreement": "the share of rows with the label that is likeliest at their inputs",
            "product": f"the mean product of the standardised residuals of {self.response}",
        }[self.quantity]
        if self.of_spread:
            residuals = "its residuals" if self.quantity == "mean" else "the products of the residuals"
            what = f"the standard deviation of {residuals}"
        there = "" if self.everywhere else " there"
        usual, recent = (side.deviation if self.of_spread else side.mean for side in (self.reference, self.recent))
        was = "is not known in the reference" if usual is None else f"was {usual:.4g} in the reference"
        if self.recent.rows < FEWEST_SUMMARISED or recent is None:
            verb = "is" if self.recent.rows == 1 else "are"
            rows = counted(self.recent.rows, "row")
            return f"{what}{there} {was}; {rows}{there} since then {verb} too few to show a change of it"
        if not self.shown:
            rows = counted(self.recent.rows, "row")
            return (
                f"{what}{there} {was} and is {recent:.4g} in the {rows} since then, in which alone no change of "
                "it can be shown"
            )
        return f"{what}{there} {was} and is {recent:.4g} now"


def describe_alarm(
    model: ScoreModel,
    regions: Regions,
    plan: Plan,
    sums: Sums,
    last_rows: KeptRows,
    reference: tuple[FloatArray, FloatArray],
    scale: float,
    threshold: float,
) -> Alarm:
    """Explain the alarm that the last of these rows raised, when a value in units of the scale was large enough.

    `last_rows` are those of the stream, oldest first; `reference` is x and y of some rows of the reference.
    """
    # 1. The score s and the family f with the largest value, which is the evidence; and the bets that have won it.
    s, f = map(int, np.unravel_index(int(np.argmax(sums.values)), sums.values.shape))
    winner = _winner(plan, regions, sums, s, f)

    # 2. Since when: from what these bets have won at each row.
    inputs = design(last_rows.x, model.inputs)  # (n, p)
    cells = np.asarray(locate_cells(inputs, regions.locate(last_rows.x), plan.cells))[:, f]  # (n,)
    heights, epoch_totals = winner.heights(regions, last_rows.x, f), sums.epoch_totals[winner.epoch]
    outcomes = last_rows.outcomes[:, s, f]  # (n,)
    is_label, chances = bool(plan.geometry.is_label[s]), plan.geometry.chances[s]
    logs = _log_factors(winner.bets, heights, outcomes, cells, is_label, chances, sums.totals, epoch_totals)
    since, since_range, earliest = _change_point(logs, last_rows.numbers)
    is_recent = last_rows.numbers >= since  # (n,)
    recent = last_rows.x[is_recent], last_rows.y[is_recent]

    # 3. Where: a region, or where the heights of a pattern are positive.
    region, sign = winner.region, winner.sign
    pattern = winner.pattern
    if pattern is not None and not pattern.where_positive:
        region, height = _region_of_pattern(regions, f, winner, recent[0])
        sign = sign if height > 0 else -sign
    quantity = _quantity(model, s)
    reference_anywhere = _measured(model, s, quantity, *reference)
    recent_anywhere = _measured(model, s, quantity, *recent)
    if f == 0:
        # The bets on all rows have the largest weight, and may come first where one region alone has changed.
        deviations = _standardised(reference_anywhere, recent_anywhere, of_spread=winner.kind == "spread")
        region = _narrower_region(regions, recent[0], deviations, sign)
    if pattern is not None and pattern.where_positive:
        is_inside = [winner.heights(regions, x, f) > 0 for x in (reference[0], recent[0])]
        names = [model.inputs[column].name for column in regions.families[f].columns]
        words, bounds = pattern.where_positive.format(*names), {}
    else:
        is_inside = [regions.holds(x, region) for x in (reference[0], recent[0])]
        words, bounds = regions.words(region), regions.bounds(region)

    # 4. What y did there, and how far the relation is from that of the reference.
    response, label, change = _words(model, s, winner.kind, sign)
    expected, stream = reference_anywhere.where(is_inside[0]), recent_anywhere.where(is_inside[1])
    if quantity == "product":
        # No regression expects products: they are compared with the mean of those in the reference.
        usual = expected.values.mean() if len(expected.values) else 0.0
        expected, stream = (_Measured(side.values, side.values - usual) for side in (expected, stream))
    interval = _interval(stream.residuals)
    if winner.kind == "spread" and quantity in ("mean", "product"):
        shown = _spread_shown(expected.residuals, stream.residuals, sign)
    else:
        shown = interval is not None and (interval[0] > 0 if sign > 0 else interval[1] < 0)
    divergence, at, largest = _divergence(model, reference, recent)
    return Alarm(
        row=int(last_rows.numbers[-1]),
        response=response,
        label=label,
        kind=winner.kind,
        change=change,
        region=words,
        bounds=bounds,
        since=since,
        since_range=since_range,
        at_least=earliest,
        reference=expected.summary(),
        recent=stream.summary(),
        difference=float(stream.residuals.mean()) if len(stream.residuals) else None,
        interval=interval,
        divergence=divergence,
        witness_at=at,
        witness_value=largest,
        statistic=float(sums.values[s, f]) / scale,
        threshold=threshold,
        quantity=quantity,
        shown=shown,
    )


class _Winner(NamedTuple):
    """The bets of one kind that have won most of a family's value: on one region, or on a pattern of its regions."""

    kind: str
    sign: int
    region: int  # 0, all rows, for a pattern
    pattern_index: int  # of the pattern among those of the family
    pattern: Pattern | None
    epoch: int  # in which they have won most of it
    bets: FloatArray  # (j, 2), mean and standard deviation of z; of a pattern, at height 1

    def heights(self, regions: Regions, x: FloatArray, f: int) -> FloatArray:
        """Return by what the means of the bets are multiplied at rows (n,); NaN where they are asleep."""
        if self.pattern is None:
            return np.where(regions.holds(x, self.region), 1.0, np.nan)
        by_region = _family_heights(regions.families[f])[:, self.pattern_index]
        heights = by_region[regions.locate(x)[:, f] - regions.first[f]]
        return np.where(heights == 0, np.nan, heights)


class _Candidate(NamedTuple):
    """Bets of one kind that may have won most of a family's value."""

    kind: str
    region: int  # 0, all rows, for a pattern
    pattern_index: int  # of the pattern among those of the family; 0 for a region
    pattern: Pattern | None
    bets: FloatArray  # (j, 2), mean and standard deviation of z; of a pattern, at height 1
    won: FloatArray  # (EPOCHS + 1, j), weighted sums of the bets


def _family_heights(family: Family) -> FloatArray:
    """Return the height of each region of a family in each of its patterns (regions, patterns)."""
    return heights_of(family.patterns, family.parts, family.n_regions)


def _winner(plan: Plan, regions: Regions, sums: Sums, s: int, f: int) -> _Winner:
    """Return what has won most of the value of family f on score s."""
    bets, family = plan.bets, regions.families[f]
    is_label = int(plan.geometry.is_label[s])
    candidates: list[_Candidate] = []
    if bets.region_weights[is_label, f] > 0:
        for region in range(regions.first[f], regions.first[f + 1]):
            table = bets.regions[region]
            of_spread = table[:, 1] != 1
            of_mean = ~of_spread & (table[:, 0] != 0)
            won = bets.region_weights[is_label, f] * sums.regions[s, region]  # (epochs, j)
            candidates.append(_Candidate("level", region, 0, None, table[of_mean], won[:, of_mean]))
            candidates.append(_Candidate("spread", region, 0, None, table[of_spread], won[:, of_spread]))
    if bets.pattern_weights[is_label, f] > 0:
        steps = pattern_steps()
        table = np.column_stack([steps, np.ones(len(steps))])
        for index, pattern in enumerate(family.patterns):
            columns = slice(index * len(steps), (index + 1) * len(steps))
            won = bets.pattern_weights[is_label, f] * sums.patterns[s, f][:, columns]
            candidates.append(_Candidate(pattern.kind, 0, index, pattern, table, won))
    best = max(candidates, key=lambda candidate: candidate.won.sum())
    mean, deviation = best.bets[np.argmax(best.won.sum(axis=0))]
    return _Winner(
        kind=best.kind,
        sign=1 if mean > 0 or deviation > 1 else -1,
        region=best.region,
        pattern_index=best.pattern_index,
        pattern=best.pattern,
        epoch=int(np.argmax(best.won.sum(axis=1))),
        bets=best.bets,
    )


def _region_of_pattern(regions: Regions, f: int, winner: _Winner, x: FloatArray) -> tuple[int, float]:
    """Return the region that stands for a pattern, and its height: of the extreme ones that with most of the rows."""
    heights = _family_heights(regions.families[f])[:, winner.pattern_index]
    extreme = np.flatnonzero(np.abs(heights) == np.abs(heights).max())
    first = int(regions.first[f])
    fullest = max(extreme, key=lambda part: int(np.sum(regions.holds(x, first + int(part)))))
    return first + int(fullest), float(heights[fullest])


def _narrower_region(regions: Regions, x: FloatArray, deviations: FloatArray, sign: int) -> int:
    r"""Return the region that explains rows better than all rows do; 0, all rows, if there is none.

    Deviations have mean 0 and variance 1 without a change. If that of n of them is a shift of their mean, the fitted
    shift explains :math:`n \bar z^2` of the sum of squares, twice its log-likelihood. Of k regions the best explains
    about 2 log k more by chance.
    """
    margin = 2 * np.log(regions.total)
    most, region = len(deviations) * max(sign * deviations.mean(), 0.0) ** 2 + margin, 0
    n_single = sum(len(family.columns) < 2 for family in regions.families)  # families of one column come first
    for candidate in range(1, int(regions.first[n_single])):
        inside = deviations[regions.holds(x, candidate)]
        if len(inside) < _FEWEST_LOCATED:
            continue
        explained = len(inside) * max(sign * inside.mean(), 0.0) ** 2
        if explained > most:
            most, region = explained, candidate
    return region


@njit(nogil=True)
def _log_factors(
    bets: Any, heights: Any, outcomes: Any, cells: Any, is_label: bool, chances: Any, totals: Any, epoch_totals: Any
) -> Any:
    """Return the logarithms of what bets (j, 2) have multiplied their sums by at rows (n,): (j, n).

    The totals of the cells are those after the last row, and `epoch_totals` those when the epoch of the bets began.
    """
    logs, others, no_fades = np.empty((len(bets), len(outcomes))), totals.copy(), np.empty(0)
    for t in range(len(outcomes) - 1, -1, -1):
        cell = cells[t]
        others[cell] -= 1
        total = max(others[cell], 0)  # the cell may have forgotten rows
        fade = earlier_share(epoch_totals[cell], total)
        outcome = Outcome(outcomes[t], is_label, chances[cell], total, no_fades)
        for j in range(len(bets)):
            mean = heights[t] * bets[j, 0]
            logs[j, t] = np.log(bet_factor(mean, bets[j, 1], outcome, fade))
    return logs


def _change_point(logs: FloatArray, numbers: IntArray) -> tuple[int, tuple[int, int], bool]:
    r"""Return the estimate, the range, and whether the change may lie before the first row kept.

    A Shiryaev-Roberts sum is a sum over beginnings, :math:`R = \sum_\nu \prod_{t \ge \nu} b(z_t)`: the share of
    each of them is its posterior probability under a flat prior.
    """
    awake = np.isfinite(logs).all(axis=0)
    logs, at = logs[:, awake], numbers[awake]
    # Logarithm of what each bet has won from a row on, its beginning, to the last row: sums from the end, (j, n).
    tails = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]
    shares = np.exp(tails - tails.max()).sum(axis=0)  # (n,)
    shares /= shares.sum()
    below = np.cumsum(shares)
    low, high = np.searchsorted(below, [(1 - RANGE_LEVEL) / 2, (1 + RANGE_LEVEL) / 2])
    best = int(np.argmax(shares))
    bounds = int(at[min(low, best)]), int(at[min(max(high, best), len(at) - 1)])
    return int(at[best]), bounds, bool(best == 0 and numbers[0] > 1)


def _words(model: ScoreModel, s: int, kind: str, sign: int) -> tuple[str, str | None, str]:
    """Return the response, its label, and the change in words."""
    targets, pairs = model.arrays.targets, model.arrays.pairs
    if s >= len(targets):
        a, b = (model.responses[targets[target, 0]].name for target in pairs[s - len(targets)])
        more = "more" if sign > 0 else "less"
        if a == b:  # labels of one column
            return a, None, f"{a} is {more} often what was to be expected from x"
        if kind == "spread":
            return f"{a}, {b}", None, f"the product of the residuals of {a} and {b} varies {more}"
        return f"{a}, {b}", None, f"{a} and {b} move together {more} than before"
    column = model.responses[targets[s, 0]]
    label = None if targets[s, 1] < 0 else column.labels[targets[s, 1]]
    if label is not None:
        return column.name, label, f"{column.name} is {'more' if sign > 0 else 'less'} often {label}"
    words = {1: "varies more", -1: "varies less"} if kind == "spread" else {1: "is higher", -1: "is lower"}
    return column.name, None, f"{column.name} {words[sign]}"


def _quantity(model: ScoreModel, s: int) -> Quantity:
    """Return what a score is about."""
    targets, pairs = model.arrays.targets, model.arrays.pairs
    if s < len(targets):
        return "mean" if targets[s, 1] < 0 else "share"
    a, b = pairs[s - len(targets)]
    return "agreement" if targets[a, 0] == targets[b, 0] else "product"


class _Measured(NamedTuple):
    """The quantity of some rows, and what of it the reference does not expect at the same inputs."""

    values: FloatArray  # (n,)
    residuals: FloatArray  # (n,)

    def where(self, rows: BoolArray) -> _Measured:
        """Return the same of some of the rows."""
        return _Measured(self.values[rows], self.residuals[rows])

    def summary(self) -> Summary:
        """Return mean and standard deviation, as far as there are enough rows for them."""
        n = len(self.values)
        mean = float(self.values.mean()) if n else None
        deviation = float(self.residuals.std(ddof=1)) if n >= FEWEST_SUMMARISED else None
        return Summary(mean, deviation, n)


def _measured(model: ScoreModel, s: int, quantity: Quantity, x: FloatArray, y: FloatArray) -> _Measured:
    """Return the quantity that a score is about at rows."""
    arrays = model.arrays
    inputs = design(x, model.inputs)
    aims = np.asarray(aims_of(y, arrays.targets))  # (n, t), numbers and indicators of labels
    expected = arrays.means.predict(inputs)  # (n, t)
    if quantity in ("mean", "share"):
        return _Measured(aims[:, s], aims[:, s] - expected[:, s])
    a, b = map(int, arrays.pairs[s - len(arrays.targets)])
    if quantity == "agreement":
        indicators, chances = aims[:, a : b + 1], expected[:, a : b + 1]  # (n, labels)
        if a == b:
            # Two labels have one target: that of the other label is what is missing to 1.
            indicators, chances = (np.hstack([part, 1 - part]) for part in (indicators, chances))
        likeliest = np.argmax(chances, axis=1)[:, None]
        values, probable = (np.take_along_axis(part, likeliest, axis=1)[:, 0] for part in (indicators, chances))
        return _Measured(values, values - probable)
    residuals, _ = scale_rows(aims, expected, arrays.spreads.predict(inputs), arrays.typical, arrays.targets)
    # Numbers are in units of their mean absolute residual, which is sqrt(2 / pi) standard deviations of normal values.
    numbers = arrays.targets[[a, b], 1] < 0
    deviations = residuals[:, [a, b]] * np.where(numbers, np.sqrt(2 / np.pi), 1.0)  # (n, 2)
    product = deviations.prod(axis=1)
    return _Measured(product, product)


def _standardised(reference: _Measured, stream: _Measured, *, of_spread: bool) -> FloatArray:
    """Return the residuals of the stream (their sizes, if the spread changed) in units of those of the reference."""
    usual, recent = (np.abs(side.residuals) if of_spread else side.residuals for side in (reference, stream))
    unit = max(float(usual.std()), np.finfo(float).tiny)
    deviations = (recent - usual.mean()) / unit
    # One outlier is not to decide where a change is.
    return np.asarray(np.clip(deviations, -LARGEST_RESIDUAL, LARGEST_RESIDUAL))


def _interval(residuals: FloatArray) -> tuple[float, float] | None:
    n = len(residuals)
    if n < FEWEST_SUMMARISED:
        return None
    mean = float(residuals.mean())
    half = float(student.ppf((1 + _LEVEL) / 2, n - 1) * residuals.std(ddof=1) / np.sqrt(n))
    return mean - half, mean + half


def _spread_shown(reference: FloatArray, recent: FloatArray, sign: int) -> bool:
    """Whether the variance of residuals changed in the direction of a sign: an F test at one side of the level.

    A sample variance of n values with kurtosis k has the relative variance (k - 1) / (n - 1), that of a chi-square
    with 2 (n - 1) / (k - 1) degrees of freedom, which are n - 1 for normal values.
    """
    if min(len(reference), len(recent)) < FEWEST_SUMMARISED:
        return False
    if not reference.var() > 0:
        # No response of the reference varied: any spread is a larger one.
        return sign > 0 and bool(recent.var() > 0)
    # Of the reference, which has more rows. Below 3, that of normal values, few rows would promise too much.
    k = max(float(kurtosis(reference, fisher=False)), 3.0)
    freedoms = [2 * (len(side) - 1) / (k - 1) for side in (recent, reference)]
    ratio = recent.var(ddof=1) / reference.var(ddof=1)
    tail = (1 - _LEVEL) / 2
    return bool(ratio > fisher.isf(tail, *freedoms) if sign > 0 else ratio < fisher.ppf(tail, *freedoms))


def _divergence(
    model: ScoreModel, reference: tuple[FloatArray, FloatArray], recent: tuple[FloatArray, FloatArray]
) -> tuple[float | None, dict[str, Any], float | None]:
    if len(recent[0]) < FEWEST_SUMMARISED:
        return None, {}, None
    xp, yp = (rows[np.linspace(0, len(rows) - 1, min(COMPARED_ROWS, len(rows))).astype(int)] for rows in reference)
    xq, yq = (rows[-COMPARED_ROWS:] for rows in recent)
    kernels = {
        "kernel_x": ["delta" if c.is_category else "gaussian" for c in model.inputs],
        "kernel_y": ["delta" if c.is_category else "gaussian" for c in model.responses],
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = float(conditional_cs(xp, yp, xq, yq, **kernels))  # type: ignore[arg-type]
            at = xq[-COMPARED_ROWS // 3 :]
            local = witness(xp, yp, xq, yq, at=at, **kernels).values  # type: ignore[arg-type]
    except CondcsError:  # e.g. rows since the change that share no label of x with the reference sample
        return None, {}, None
    # Where the local divergence is unknown it is not the largest: others are 0 or more.
    local = np.where(np.isfinite(local), local, -1.0)
    best = int(np.argmax(local))
    inputs = {
        c.name: c.labels[int(v)] if c.is_category else float(v) for c, v in zip(model.inputs, at[best], strict=True)
    }
    return (value if np.isfinite(value) else None), inputs, float(local[best])
