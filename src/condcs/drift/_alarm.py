"""What an alarm says: where, since when, what y did there, and how far the relation is from that of the reference."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import binomtest, kurtosis
from scipy.stats import f as fisher
from scipy.stats import t as student

from condcs._core.arrays import BoolArray, FloatArray, IntArray, evenly_spaced
from condcs._core.compiling import njit
from condcs._core.errors import CondcsError
from condcs._core.printable import Printable, counted
from condcs._inference.witness import witness
from condcs._measures.conditional import conditional_cs
from condcs.drift._betting import DEVIATION, MEAN, RankedScore, Sums, bet_factor, earlier_share, pattern_steps
from condcs.drift._cells import Family, Regions, locate_cells
from condcs.drift._dependence import LARGEST_RESIDUAL
from condcs.drift._patterns import Pattern, heights_of
from condcs.drift._scores import (
    COLUMN,
    LABEL,
    NO_LABEL,
    ScoreModel,
    design,
    residuals_of_targets,
    values_of_targets,
)
from condcs.drift._watching import KeptRows, Plan

RANGE_LEVEL = 0.95
"""Share of the evidence that lies in the range of the change point; documented with `Alarm.since_range`."""

COMPARED_ROWS = 300
"""Most rows of each side that enter the divergence, which an alarm is to have at once: its cost grows with their
square. With more it would vary less."""

_WITNESS_ROWS = 100
"""Most rows at which the local divergence is evaluated, the last ones: each visits all rows compared."""

FEWEST_SUMMARISED = 5
"""Fewer rows than these have no standard deviation, interval or divergence: of one row a deviation would be 0."""

_FEWEST_LOCATED = 3
"""Fewer rows in a region do not locate a change there: two may be outliers."""

_LEVEL = 0.95
"""Level of intervals; a change is shown where such an interval lies on its side of no change."""

AlarmQuantity = Literal["mean", "share", "agreement", "product"]
"""What an alarm averages over rows: a number; the indicator of a label, or of the label that is likeliest at x; and
the product of the residuals of two responses, in units of their spreads."""


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
        "level", "spread", or the kind of a pattern of changes that are opposite in different regions. In words, these
        are in the table `PATTERNS` of `condcs.drift._patterns`.
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
        95% confidence interval of it; None for fewer than five rows. Clopper and Pearson's of the share, for shares;
        else Student's, with a standard deviation that is at least that of the reference.
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
    quantity: AlarmQuantity = "mean"
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
        bounds = {
            # Two limits, or one label.
            column: tuple(limits) if len(limits) == 2 and not isinstance(limits[0], str) else limits
            for column, limits in values["bounds"].items()
        }
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
    *,
    model: ScoreModel,
    regions: Regions,
    plan: Plan,
    sums: Sums,
    last_rows: KeptRows,
    reference: tuple[FloatArray, FloatArray],
    value_per_evidence: float,
    threshold: float,
) -> Alarm:
    """Explain the alarm that the last of these rows raised, when the evidence reached the threshold.

    `last_rows` are those of the stream, oldest first; `reference` is x and y of some rows of the reference.
    """
    # 1. The score s and the family f with the largest value, on which the evidence rests; and the bets that have won
    #    most of it.
    s, f = map(int, np.unravel_index(int(np.argmax(sums.values)), sums.values.shape))
    winner = _winner(plan, regions, sums, s, f)

    # 2. Since when: from what these bets have won at each row.
    inputs = design(last_rows.x, model.x_columns)  # (n, p)
    cells = np.asarray(locate_cells(inputs, regions.locate(last_rows.x), plan.cells))  # (n, f)
    logs = _log_factors(
        bets=winner.bets,
        heights=winner.heights(regions, last_rows.x, f),
        outcomes=last_rows.outcomes[:, s, f],
        cells=cells[:, f],
        is_label=bool(plan.geometry.is_label[s]),
        chances=plan.geometry.chances[s],
        totals=sums.totals,
        epoch_totals=sums.epoch_totals[winner.epoch],
    )
    beginning = _beginning(logs, last_rows.numbers)
    is_recent = last_rows.numbers >= beginning.row  # (n,)
    recent = last_rows.x[is_recent], last_rows.y[is_recent]

    # 3. Where: a region, or where the heights of a pattern are positive.
    quantity = _quantity(model, s)
    in_reference, in_stream = (_measured(model, s, quantity, x, y) for x, y in (reference, recent))
    location = _location(winner, regions, f, recent[0], in_reference, in_stream)

    # 4. What y did there, and how far the relation is from that of the reference.
    there_in_reference = in_reference.where(location.contains(reference[0]))
    there_in_stream = in_stream.where(location.contains(recent[0]))
    if quantity == "product":
        # No regression expects products: they are compared with the mean of those in the reference.
        usual = there_in_reference.values.mean() if len(there_in_reference.values) else 0.0
        there_in_reference, there_in_stream = (
            _Measured(side.values, side.values - usual) for side in (there_in_reference, there_in_stream)
        )
    residuals = there_in_stream.residuals
    interval = _interval(quantity, there_in_reference, there_in_stream)
    if winner.kind == "spread" and quantity in ("mean", "product"):
        shown = _spread_shown(there_in_reference.residuals, residuals, location.sign)
    else:
        shown = interval is not None and (interval[0] > 0 if location.sign > 0 else interval[1] < 0)
    response, label, change = _words(model, s, winner.kind, location.sign)
    divergence, witness_at, witness_value = _divergence(model, reference, recent)
    return Alarm(
        row=int(last_rows.numbers[-1]),
        response=response,
        label=label,
        kind=winner.kind,
        change=change,
        region=location.words,
        bounds=location.bounds,
        since=beginning.row,
        since_range=beginning.row_range,
        at_least=beginning.at_least,
        reference=there_in_reference.summary(),
        recent=there_in_stream.summary(),
        difference=float(residuals.mean()) if len(residuals) else None,
        interval=interval,
        divergence=divergence,
        witness_at=witness_at,
        witness_value=witness_value,
        statistic=float(sums.values[s, f]) / value_per_evidence,
        threshold=threshold,
        quantity=quantity,
        shown=shown,
    )


class _BetGroup(NamedTuple):
    """The bets of one kind on one region, or on one pattern of a family's regions."""

    kind: str
    region: int  # 0, all rows, for a pattern
    pattern: Pattern | None
    pattern_index: int  # of the pattern among those of the family; 0 for a region
    bets: FloatArray  # (j, 2), mean and standard deviation of z; of a pattern, at height 1
    won: FloatArray  # (EPOCHS + 1, j), weighted sums of the bets

    @property
    def sign(self) -> int:
        """Direction of the change that the best of the bets is on: 1 for a larger mean or deviation, else -1."""
        mean, deviation = self.bets[np.argmax(self.won.sum(axis=0))]
        return 1 if mean > 0 or deviation > 1 else -1

    @property
    def epoch(self) -> int:
        """The epoch in which they have won most."""
        return int(np.argmax(self.won.sum(axis=1)))

    def heights(self, regions: Regions, x: FloatArray, f: int) -> FloatArray:
        """Return by what the means of the bets are multiplied at rows (n,); NaN where they are asleep."""
        if self.pattern is None:
            return np.where(regions.holds(x, self.region), 1.0, np.nan)
        by_region = _family_heights(regions.families[f])[:, self.pattern_index]
        heights = by_region[regions.locate(x)[:, f] - regions.first_regions[f]]
        return np.where(heights == 0, np.nan, heights)


def _family_heights(family: Family) -> FloatArray:
    """Return the height of each region of a family in each of its patterns (regions, patterns)."""
    return heights_of(family.patterns, family.regions_by_column)


def _winner(plan: Plan, regions: Regions, sums: Sums, s: int, f: int) -> _BetGroup:
    """Return the bets that have won most of the value of family f on score s."""
    is_label = int(plan.geometry.is_label[s])
    region_weight, pattern_weight = plan.bets.region_weights[is_label, f], plan.bets.pattern_weights[is_label, f]
    groups: list[_BetGroup] = []
    if region_weight > 0:
        for region in range(regions.first_regions[f], regions.first_regions[f + 1]):
            bets = plan.bets.regions[region]  # (j, 2)
            won = region_weight * sums.regions[s, region]  # (EPOCHS + 1, j)
            of_spread = bets[:, DEVIATION] != 1
            of_mean = ~of_spread & (bets[:, MEAN] != 0)
            groups.append(_BetGroup("level", region, None, 0, bets[of_mean], won[:, of_mean]))
            groups.append(_BetGroup("spread", region, None, 0, bets[of_spread], won[:, of_spread]))
    if pattern_weight > 0:
        steps = pattern_steps()  # (m,)
        bets = np.column_stack([steps, np.ones(len(steps))])  # (m, 2)
        for index, pattern in enumerate(regions.families[f].patterns):
            of_pattern = slice(index * len(steps), (index + 1) * len(steps))
            won = pattern_weight * sums.patterns[s, f][:, of_pattern]  # (EPOCHS + 1, m)
            groups.append(_BetGroup(pattern.kind, 0, pattern, index, bets, won))
    return max(groups, key=lambda group: group.won.sum())


class _Location(NamedTuple):
    """Where over x a change is."""

    words: str
    bounds: dict[str, Any]
    sign: int  # direction of the change there
    contains: Callable[[FloatArray], BoolArray]  # which rows x (n, d) are there (n,)


def _location(
    winner: _BetGroup, regions: Regions, f: int, x: FloatArray, in_reference: _Measured, in_stream: _Measured
) -> _Location:
    """Return where the change is that bets of family f were on; x and `in_stream` are of the rows since then."""
    pattern = winner.pattern
    if pattern is not None and pattern.where_positive:
        names = [regions.columns[column].name for column in regions.families[f].columns]
        words = pattern.where_positive.format(*names)
        return _Location(words, {}, winner.sign, lambda rows: winner.heights(regions, rows, f) > 0)
    region, sign = winner.region, winner.sign
    if pattern is not None:
        region, height = _region_of_pattern(regions, f, winner, x)
        sign = sign if height > 0 else -sign
    if f == 0:
        # The bets on all rows have the largest weight, and may come first where one region alone has changed.
        deviations = _standardised(in_reference, in_stream, of_spread=winner.kind == "spread")
        region = _narrower_region(regions, x, deviations, sign)
    return _Location(regions.words(region), regions.bounds(region), sign, lambda rows: regions.holds(rows, region))


def _region_of_pattern(regions: Regions, f: int, winner: _BetGroup, x: FloatArray) -> tuple[int, float]:
    """Return the region that stands for a pattern, and its height: of the extreme ones that with most of the rows."""
    heights = _family_heights(regions.families[f])[:, winner.pattern_index]
    extreme = np.flatnonzero(np.abs(heights) == np.abs(heights).max())  # numbers of regions within the family
    first = int(regions.first_regions[f])
    fullest = max(extreme.tolist(), key=lambda within: int(np.sum(regions.holds(x, first + within))))
    return first + fullest, float(heights[fullest])


def _narrower_region(regions: Regions, x: FloatArray, deviations: FloatArray, sign: int) -> int:
    r"""Return the region that explains rows better than all rows do; 0, all rows, if there is none.

    Deviations have mean 0 and variance 1 without a change. If that of n of them is a shift of their mean, the fitted
    shift explains :math:`n \bar z^2` of the sum of squares, twice its log-likelihood. Of k regions the best explains
    about 2 log k more by chance.
    """
    margin = 2 * np.log(regions.n_regions)
    most, region = len(deviations) * max(sign * deviations.mean(), 0.0) ** 2 + margin, 0
    n_single = sum(len(family.columns) < 2 for family in regions.families)  # families of one column come first
    for candidate in range(1, int(regions.first_regions[n_single])):
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
    logs, totals_before, no_fades = np.empty((len(bets), len(outcomes))), totals.copy(), np.empty(0)
    for i in range(len(outcomes) - 1, -1, -1):
        cell = cells[i]
        totals_before[cell] -= 1
        n_others = max(totals_before[cell], 0)  # the cell may have forgotten rows
        fade = earlier_share(epoch_totals[cell], n_others)
        ranked = RankedScore(outcomes[i], is_label, chances[cell], n_others, no_fades)
        for j in range(len(bets)):
            mean = heights[i] * bets[j, MEAN]
            logs[j, i] = np.log(bet_factor(mean, bets[j, DEVIATION], ranked, fade))
    return logs


class _Beginning(NamedTuple):
    """When a change began."""

    row: int  # the estimate
    row_range: tuple[int, int]
    at_least: bool  # whether it may lie before the first row that is kept


def _beginning(logs: FloatArray, numbers: IntArray) -> _Beginning:
    r"""Estimate when a change began, from the logarithms of what bets have won (j, n) at rows with numbers (n,).

    A Shiryaev-Roberts sum is a sum over beginnings, :math:`R = \sum_\nu \prod_{t \ge \nu} b(z_t)`: the share of
    each of them is its posterior probability under a flat prior.
    """
    is_awake = np.isfinite(logs).all(axis=0)
    logs, awake_numbers = logs[:, is_awake], numbers[is_awake]
    # Logarithm of what each bet has won from a row on, its beginning, to the last row: sums from the end, (j, n).
    tails = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]
    shares = np.exp(tails - tails.max()).sum(axis=0)  # (n,)
    shares /= shares.sum()
    low, high = np.searchsorted(np.cumsum(shares), [(1 - RANGE_LEVEL) / 2, (1 + RANGE_LEVEL) / 2])
    best, last = int(np.argmax(shares)), len(shares) - 1
    # The range holds the estimate, and ends with the last row at the latest.
    first_row, last_row = awake_numbers[min(low, best)], awake_numbers[min(max(high, best), last)]
    return _Beginning(
        row=int(awake_numbers[best]),
        row_range=(int(first_row), int(last_row)),
        at_least=bool(best == 0 and numbers[0] > 1),
    )


def _words(model: ScoreModel, s: int, kind: str, sign: int) -> tuple[str, str | None, str]:
    """Return the response, its label, and the change in words."""
    targets, pairs = model.arrays.targets, model.arrays.pairs
    if s >= len(targets):
        a, b = (model.y_columns[targets[target, COLUMN]].name for target in pairs[s - len(targets)])
        more = "more" if sign > 0 else "less"
        if a == b:  # labels of one column
            return a, None, f"{a} is {more} often what was to be expected from x"
        if kind == "spread":
            return f"{a}, {b}", None, f"the product of the residuals of {a} and {b} varies {more}"
        return f"{a}, {b}", None, f"{a} and {b} move together {more} than before"
    column = model.y_columns[targets[s, COLUMN]]
    if targets[s, LABEL] != NO_LABEL:
        label = column.labels[targets[s, LABEL]]
        return column.name, label, f"{column.name} is {'more' if sign > 0 else 'less'} often {label}"
    words = {1: "varies more", -1: "varies less"} if kind == "spread" else {1: "is higher", -1: "is lower"}
    return column.name, None, f"{column.name} {words[sign]}"


def _quantity(model: ScoreModel, s: int) -> AlarmQuantity:
    """Return what a score is about."""
    targets, pairs = model.arrays.targets, model.arrays.pairs
    if s < len(targets):
        return "mean" if targets[s, LABEL] == NO_LABEL else "share"
    a, b = pairs[s - len(targets)]
    return "agreement" if targets[a, COLUMN] == targets[b, COLUMN] else "product"


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


def _measured(model: ScoreModel, s: int, quantity: AlarmQuantity, x: FloatArray, y: FloatArray) -> _Measured:
    """Return the quantity that a score is about at rows."""
    arrays = model.arrays
    inputs = design(x, model.x_columns)  # (n, p)
    values = np.asarray(values_of_targets(y, arrays.targets))  # (n, t), numbers and indicators of labels
    expected = arrays.means.predict(inputs)  # (n, t)
    if quantity in ("mean", "share"):
        return _Measured(values[:, s], values[:, s] - expected[:, s])
    a, b = map(int, arrays.pairs[s - len(arrays.targets)])
    if quantity == "agreement":
        indicators, chances = values[:, a : b + 1], expected[:, a : b + 1]  # (n, labels)
        if a == b:
            # Two labels have one target: that of the other label is what is missing to 1.
            indicators, chances = np.hstack([indicators, 1 - indicators]), np.hstack([chances, 1 - chances])
        likeliest = np.argmax(chances, axis=1)[:, None]
        agrees = np.take_along_axis(indicators, likeliest, axis=1)[:, 0]
        chance = np.take_along_axis(chances, likeliest, axis=1)[:, 0]
        return _Measured(agrees, agrees - chance)
    spreads = arrays.spreads.predict(inputs)
    residuals, _ = residuals_of_targets(values, expected, spreads, arrays.mean_sizes, arrays.targets)
    # Numbers are in units of their mean absolute residual, which is sqrt(2 / pi) standard deviations of normal values.
    are_numbers = arrays.targets[[a, b], LABEL] == NO_LABEL
    deviations = residuals[:, [a, b]] * np.where(are_numbers, np.sqrt(2 / np.pi), 1.0)  # (n, 2)
    product = deviations.prod(axis=1)
    return _Measured(product, product)


def _standardised(reference: _Measured, stream: _Measured, *, of_spread: bool) -> FloatArray:
    """Return the residuals of the stream (their sizes, if the spread changed) in units of those of the reference."""
    usual, recent = (np.abs(side.residuals) if of_spread else side.residuals for side in (reference, stream))
    unit = max(float(usual.std()), np.finfo(float).tiny)
    deviations = (recent - usual.mean()) / unit
    # One outlier is not to decide where a change is.
    return np.asarray(np.clip(deviations, -LARGEST_RESIDUAL, LARGEST_RESIDUAL))


def _interval(quantity: AlarmQuantity, reference: _Measured, stream: _Measured) -> tuple[float, float] | None:
    """Return an interval for the mean of the stream's residuals, None for too few rows.

    A few rows may be alike by chance: all of them without a label, or with the same number. The spread of their
    residuals is then about 0, and says nothing of how well their mean is known.
    """
    n = len(stream.residuals)
    if n < FEWEST_SUMMARISED:
        return None
    mean = float(stream.residuals.mean())
    if quantity in ("share", "agreement"):
        # Clopper and Pearson's interval of the share, less what the reference expects on average. It holds for labels
        # of different probabilities, too: their number varies less than a binomial one.
        expected = float(stream.values.mean()) - mean
        low, high = binomtest(int(stream.values.sum()), n).proportion_ci(_LEVEL, method="exact")
        return float(low) - expected, float(high) - expected
    deviations = [side.summary().deviation for side in (reference, stream)]
    deviation = max(deviation for deviation in deviations if deviation is not None)
    half = float(student.ppf((1 + _LEVEL) / 2, n - 1) * deviation / np.sqrt(n))
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
    """Return the divergence of recent rows from the reference, where its local value is largest, and that value."""
    if len(recent[0]) < FEWEST_SUMMARISED:
        return None, {}, None
    compared = evenly_spaced(len(reference[0]), COMPARED_ROWS)
    xp, yp = (rows[compared] for rows in reference)
    xq, yq = (rows[-COMPARED_ROWS:] for rows in recent)
    kernels = {
        "kernel_x": ["delta" if column.is_category else "gaussian" for column in model.x_columns],
        "kernel_y": ["delta" if column.is_category else "gaussian" for column in model.y_columns],
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = float(conditional_cs(xp, yp, xq, yq, **kernels))  # type: ignore[arg-type]
            at = xq[-_WITNESS_ROWS:]
            local = witness(xp, yp, xq, yq, at=at, **kernels).values  # type: ignore[arg-type]
    except CondcsError:  # e.g. rows since the change that share no label of x with the reference sample
        return None, {}, None
    # Where the local divergence is unknown it is not the largest: others are 0 or more.
    local = np.where(np.isfinite(local), local, -1.0)
    best = int(np.argmax(local))
    inputs = {
        column.name: column.labels[int(cell)] if column.is_category else float(cell)
        for column, cell in zip(model.x_columns, at[best], strict=True)
    }
    return (value if np.isfinite(value) else None), inputs, float(local[best])
