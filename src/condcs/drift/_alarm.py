"""What an alarm says: where, since when, what y did there, and how far the relation is from that of the reference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.compiling import njit
from condcs._core.errors import CondcsError
from condcs._inference.witness import witness
from condcs._measures.conditional import conditional_cs
from condcs.drift._betting import Bets, Sums, density, share_before
from condcs.drift._cells import Cells, Regions
from condcs.drift._scores import ScoreModel, aims_of, design

RANGE_LEVEL = 0.95
"""Share of the evidence that lies in the range of the change point."""

COMPARED_ROWS = 300
"""Most rows of each side that enter the divergence."""

_FEWEST_ROWS = 5


class Summary(NamedTuple):
    """Mean (of a label, its share), standard deviation around what the reference expects at x, and number of rows."""

    mean: float
    deviation: float
    rows: int


@dataclass(frozen=True)
class Alarm:
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
        Where over x, in words.
    bounds : dict
        The same as a column with its limits (None where open) or labels; empty for all rows.
    since : int
        Estimate of the row at which the change began.
    since_range : pair of int
        Rows between which 95% of the evidence puts it.
    at_least : bool
        Whether it may have begun before the rows that are kept.
    before, after : Summary
        The response in the region in the reference, and in the stream since the change.
    difference : float
        Mean of the response in the region since the change less what the reference expects at the same inputs.
    interval : pair of float, or None
        95% confidence interval of it.
    divergence : float or None
        Conditional CS divergence of the rows since the change from the reference; None for fewer than five rows.
    witness_at : dict
        The inputs, of the rows since the change, at which the local divergence is largest.
    witness_value : float or None
        The local divergence there.
    statistic, threshold : float
        The evidence, and what it had to reach.
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
    before: Summary
    after: Summary
    difference: float
    interval: tuple[float, float] | None
    divergence: float | None
    witness_at: dict[str, Any]
    witness_value: float | None
    statistic: float
    threshold: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "before": self.before._asdict(), "after": self.after._asdict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Alarm:
        """Undo `as_dict`, also after JSON."""
        pairs = {name: None if values[name] is None else tuple(values[name]) for name in ("since_range", "interval")}
        bounds = {k: tuple(v) if len(v) == 2 and not isinstance(v[0], str) else v for k, v in values["bounds"].items()}
        sides = {name: Summary(**values[name]) for name in ("before", "after")}
        return cls(**{**values, **pairs, **sides, "bounds": bounds})

    def __str__(self) -> str:
        since = f"{'before ' if self.at_least else ''}row {self.since:,}"
        low, high = self.since_range
        everywhere = self.region == "all rows"
        what = f"the share of {self.label}" if self.label is not None else f"the mean of {self.response}"
        place = "" if everywhere else f" where {self.region}"
        there = "" if everywhere else " there"
        parts = [
            f"row {self.row:,}: {self.change}{place}, since {since} (between {low:,} and {high:,})",
            f"{what}{there} was {self.before.mean:.4g} in the reference and is {self.after.mean:.4g} now",
        ]
        if self.kind == "spread" and self.label is None:
            parts[1] = (
                f"the standard deviation of its residuals was {self.before.deviation:.4g} and is "
                f"{self.after.deviation:.4g} now"
            )
        elif self.interval is not None:
            parts.append(
                f"{self.difference:+.4g} ({self.interval[0]:+.4g} to {self.interval[1]:+.4g}) at the same inputs"
            )
        if self.divergence is not None:
            parts.append(f"conditional CS divergence {self.divergence:.3g}")
        return "; ".join(parts)


class KeptRows(NamedTuple):
    """The last rows, oldest first: numbers, inputs, responses, and normal scores or ranks (n, s, f)."""

    numbers: IntArray
    x: FloatArray
    y: FloatArray
    ranked: FloatArray


def describe_alarm(
    model: ScoreModel,
    regions: Regions,
    cells: Cells,
    bets: Bets,
    chances: FloatArray,
    sums: Sums,
    kept: KeptRows,
    reference: tuple[FloatArray, FloatArray],
    scale: float,
    threshold: float,
) -> Alarm:
    """Explain the alarm that the last of the kept rows raised, when what was won in units of the scale was enough."""
    s, f = map(int, np.unravel_index(int(np.argmax(sums.won)), sums.won.shape))
    winner = _winner(bets, regions, sums, s, f, int(chances[s].max() > 0))
    own = cells.locate(design(kept.x, model.inputs), regions.locate(kept.x))[:, f]
    heights, began = winner.heights(bets, regions, kept.x, f), sums.before[winner.epoch]
    logs = _log_densities(winner.bets, heights, kept.ranked[:, s, f], own, chances[s], sums.totals, began)
    since, since_range, earliest = _change_point(logs, kept.numbers)
    recent = kept.numbers >= since
    region, sign = winner.region, winner.sign
    if winner.kind == "slope":
        # Of the two ends of the column, the one with more rows.
        ends = (int(regions.first[f]), int(regions.first[f + 1]) - 1)
        region = max(ends, key=lambda end: int(np.sum(regions.holds(kept.x[recent], end))))
        sign = sign if region == ends[1] else -sign
    inside, there = recent & regions.holds(kept.x, region), regions.holds(reference[0], region)
    response, label, change = _words(model, s, winner.kind, sign, regions.families[f])
    n_targets = len(model.arrays.targets)
    place = s if s < n_targets else int(model.arrays.pairs[s - n_targets, 0])
    before, _ = _summary(model, place, reference[0][there], reference[1][there])
    after, left = _summary(model, place, kept.x[inside], kept.y[inside])
    divergence, at, largest = _divergence(model, reference, (kept.x[recent], kept.y[recent]))
    return Alarm(
        row=int(kept.numbers[-1]),
        response=response,
        label=label,
        kind=winner.kind,
        change=change,
        region=regions.words(region),
        bounds=regions.bounds(region),
        since=since,
        since_range=since_range,
        at_least=earliest,
        before=before,
        after=after,
        difference=float(left.mean()) if len(left) else float("nan"),
        interval=_interval(left),
        divergence=divergence,
        witness_at=at,
        witness_value=largest,
        statistic=float(sums.won[s, f]) / scale,
        threshold=threshold,
    )


class _Winner(NamedTuple):
    """The bets of a family that have won most: of one kind, on all rows (region 0), a region, or its pattern."""

    kind: str
    sign: int
    region: int
    epoch: int  # in which they have won most of it
    bets: FloatArray

    def heights(self, bets: Bets, regions: Regions, x: FloatArray, f: int) -> FloatArray:
        """Return by what the means of the bets are multiplied at rows; NaN where they are asleep."""
        if self.kind in ("level", "spread"):
            return np.where(regions.holds(x, self.region), 1.0, np.nan)
        heights = bets.heights[regions.locate(x)[:, f]]
        return np.where(heights == 0, np.nan, heights)


def _winner(bets: Bets, regions: Regions, sums: Sums, s: int, f: int, labels: int) -> _Winner:
    found = []
    if bets.local_weights[labels, f] > 0:
        own = bets.local if f else bets.overall
        spread = own[:, 1] != 1
        for region in range(regions.first[f], regions.first[f + 1]):
            won = bets.local_weights[labels, f] * sums.local[s, region, :, : len(own)]
            found.append(("level", region, own[~spread], won[:, ~spread]))
            found.append(("spread", region, own[spread], won[:, spread]))
    if bets.pattern_weights[labels, f] > 0:
        kind = "slope" if regions.families[f, 1] < 0 else "interaction"
        found.append((kind, 0, bets.patterns, bets.pattern_weights[labels, f] * sums.patterns[s, f]))
    kind, region, own, won = max(found, key=lambda each: each[-1].sum())
    mean, deviation = own[np.argmax(won.sum(axis=0))]
    return _Winner(kind, 1 if mean > 0 or deviation > 1 else -1, region, int(np.argmax(won.sum(axis=1))), own)


@njit(nogil=True)
def _log_densities(bets: Any, heights: Any, ranked: Any, cells: Any, chances: Any, totals: Any, before: Any) -> Any:
    """Return the logarithms of bets (j) on rows (n) in cells, whose totals are those after the last row."""
    logs, others = np.empty((len(bets), len(ranked))), totals.copy()
    for t in range(len(ranked) - 1, -1, -1):
        cell = cells[t]
        others[cell] -= 1
        total = max(others[cell], 0)  # the cell may have forgotten rows
        fade = share_before(before[cell], total)
        for j in range(len(bets)):
            mean = heights[t] * bets[j, 0]
            logs[j, t] = np.log(density(mean, bets[j, 1], ranked[t], chances[cell], total, fade))
    return logs


def _change_point(logs: FloatArray, numbers: IntArray) -> tuple[int, tuple[int, int], bool]:
    r"""Return the estimate, the range, and whether the change may lie before the first row kept.

    A Shiryaev-Roberts sum is a sum over beginnings, :math:`R = \sum_\nu \prod_{t \ge \nu} b(z_t)`: the share of
    each of them is its posterior probability under a flat prior.
    """
    awake = np.isfinite(logs).all(axis=0)
    logs, at = logs[:, awake], numbers[awake]
    tails = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]
    shares = np.exp(tails - tails.max()).sum(axis=0)
    shares /= shares.sum()
    below = np.cumsum(shares)
    low, high = np.searchsorted(below, [(1 - RANGE_LEVEL) / 2, (1 + RANGE_LEVEL) / 2])
    best = int(np.argmax(shares))
    bounds = int(at[min(low, best)]), int(at[min(max(high, best), len(at) - 1)])
    return int(at[best]), bounds, bool(best == 0 and numbers[0] > 1)


def _words(model: ScoreModel, s: int, kind: str, sign: int, family: IntArray) -> tuple[str, str | None, str]:
    targets, pairs = model.arrays.targets, model.arrays.pairs
    if s >= len(targets):
        a, b = (model.responses[targets[place, 0]].name for place in pairs[s - len(targets)])
        more = "more" if sign > 0 else "less"
        if a == b:  # labels of one column
            return a, None, f"{a} is {more} often what was to be expected from x"
        return f"{a}, {b}", None, f"{a} and {b} move together {more} than before"
    column = model.responses[targets[s, 0]]
    label = None if targets[s, 1] < 0 else column.labels[targets[s, 1]]
    if kind == "interaction":
        a, b = (model.inputs[place].name for place in family)
        what = column.name if label is None else f"the share of {label} in {column.name}"
        more = "higher" if sign > 0 else "lower"
        return column.name, label, f"{what} is {more} where {a} and {b} are both high or both low"
    if label is not None:
        return column.name, label, f"{column.name} is {'more' if sign > 0 else 'less'} often {label}"
    words = {1: "varies more", -1: "varies less"} if kind == "spread" else {1: "is higher", -1: "is lower"}
    return column.name, None, f"{column.name} {words[sign]}"


def _summary(model: ScoreModel, place: int, x: FloatArray, y: FloatArray) -> tuple[Summary, FloatArray]:
    """Summarise a response, and return what of it the reference does not expect at the same inputs."""
    values = np.asarray(aims_of(y, model.arrays.targets))[:, place]
    if not len(values):
        return Summary(float("nan"), float("nan"), 0), values
    left = values - model.arrays.means.predict(design(x, model.inputs))[:, place]
    return Summary(float(values.mean()), float(left.std()), len(values)), left


def _interval(left: FloatArray) -> tuple[float, float] | None:
    if len(left) < 3:
        return None
    half = float(student.ppf(0.975, len(left) - 1) * left.std(ddof=1) / np.sqrt(len(left)))
    return float(left.mean()) - half, float(left.mean()) + half


def _divergence(
    model: ScoreModel, reference: tuple[FloatArray, FloatArray], recent: tuple[FloatArray, FloatArray]
) -> tuple[float | None, dict[str, Any], float | None]:
    if len(recent[0]) < _FEWEST_ROWS:
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
    local = np.where(np.isfinite(local), local, -1.0)
    best = int(np.argmax(local))
    place = {
        c.name: c.labels[int(v)] if c.is_category else float(v) for c, v in zip(model.inputs, at[best], strict=True)
    }
    return (value if np.isfinite(value) else None), place, float(local[best])
