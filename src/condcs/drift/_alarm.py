"""What an alarm says: where, since when, what y did there, and how far the relation is from that of the reference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from condcs._core.errors import CondcsError
from condcs._inference.witness import witness
from condcs._measures.conditional import conditional_cs
from condcs.drift._betting import LEVEL, SLOPE, Bets
from condcs.drift._cells import Cells
from condcs.drift._scores import ScoreModel, design

FloatArray = np.ndarray[Any, Any]

RANGE_LEVEL = 0.9
"""Share of the evidence that lies in the range of the change point."""

COMPARED_ROWS = 300
"""Most rows of each side that enter the divergence."""

_FEWEST_ROWS = 5
_KINDS = ("level", "spread", "slope")


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
        "level", "spread", or "slope": opposite changes at the two ends of a column.
    change : str
        The change in words.
    region : str
        Where over x, in words.
    bounds : dict
        The same as a column with its limits (None where open) or labels; empty for all rows.
    since : int
        Estimate of the row at which the change began.
    since_range : pair of int
        Rows between which 90% of the evidence puts it.
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
        what = f"the share of {self.label}" if self.label is not None else "the mean"
        place = "" if self.region == "all rows" else f" where {self.region}"
        parts = [
            f"row {self.row:,}: {self.change}{place}, since {since} (between {low:,} and {high:,})",
            f"{what} there was {self.before.mean:.4g} in the reference and is {self.after.mean:.4g} now",
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
    """The last rows, oldest first: their numbers, inputs, responses, and normal scores of shape (n, s, f)."""

    numbers: FloatArray
    x: FloatArray
    y: FloatArray
    normal_scores: FloatArray


class Evidence(NamedTuple):
    """What has been bet when the alarm came: values of shape (s, f), and the sums that they are made of."""

    values: FloatArray
    shared_sums: FloatArray
    local_sums: FloatArray
    threshold: float


def describe_alarm(
    model: ScoreModel,
    cells: Cells,
    bets: Bets,
    evidence: Evidence,
    kept: KeptRows,
    reference: tuple[FloatArray, FloatArray],
    scale: float,
) -> Alarm:
    """Return what the alarm after the last of the rows kept says; `scale` turns values into the public statistic."""
    s, f = map(int, np.unravel_index(int(np.argmax(evidence.values)), evidence.values.shape))
    cell, kind, sign, densities = _winner(bets, cells, evidence, s, f)
    places = cells.locate(kept.x)[:, f] - cells.first[f]
    since, since_range, earliest = _change_point(densities, places, kept.normal_scores[:, s, f], kept.numbers)
    recent = kept.numbers >= since
    if kind == SLOPE:
        # Of the two ends of the column, the one with more rows.
        ends = (int(cells.first[f]), int(cells.first[f]) + cells.sizes[f] - 1)
        cell = max(ends, key=lambda end: int(np.sum(cells.holds(kept.x[recent], end))))
        sign = sign if cell == ends[1] else -sign
    inside, there = recent & cells.holds(kept.x, cell), cells.holds(reference[0], cell)
    response, label, change = _words(model, s, kind, sign)
    place = s if s < len(model.targets) else model.pairs[s - len(model.targets)][0]
    before, _ = _summary(model, place, reference[0][there], reference[1][there])
    after, left = _summary(model, place, kept.x[inside], kept.y[inside])
    divergence, at, largest = _divergence(model, reference, (kept.x[recent], kept.y[recent]))
    return Alarm(
        row=int(kept.numbers[-1]),
        response=response,
        label=label,
        kind=_KINDS[kind],
        change=change,
        region=cells.words(cell),
        bounds=cells.bounds(cell),
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
        statistic=float(evidence.values[s, f]) / scale,
        threshold=evidence.threshold / scale,
    )


def _winner(bets: Bets, cells: Cells, evidence: Evidence, s: int, f: int) -> tuple[int, int, int, FloatArray]:
    """Return cell (0: all rows), kind, sign and densities (j, cells, 3) of the bets that have won most."""
    shared = bets.shared_weights[f] * evidence.shared_sums[s, f]
    best, found = -1.0, (0, LEVEL, 1, bets.shared[f])
    for kind in range(len(_KINDS)):
        own = bets.kinds == kind
        if shared[own].sum() > best:
            best = float(shared[own].sum())
            found = (0, kind, int(bets.signs[np.argmax(np.where(own, shared, -1))]), bets.shared[f, own])
    first = int(cells.first[f])
    for cell in range(first, first + cells.sizes[f]):
        local = bets.local_weights[f] * evidence.local_sums[s, cell]
        for kind in range(len(_KINDS)):
            own = bets.local_kinds == kind
            if local[own].sum() > best:
                best = float(local[own].sum())
                densities = np.full((int(own.sum()), cells.sizes[f], 3), np.nan)
                densities[:, cell - first] = bets.local[own]
                found = (cell, kind, int(bets.local_signs[np.argmax(np.where(own, local, -1))]), densities)
    return found


def _change_point(
    densities: FloatArray, places: FloatArray, z: FloatArray, numbers: FloatArray
) -> tuple[int, tuple[int, int], bool]:
    r"""Return the estimate, the range, and whether the change may lie before the first row kept.

    A Shiryaev-Roberts sum is a sum over beginnings, :math:`R = \sum_\nu \prod_{t \ge \nu} b(z_t)`: the share of
    each of them is its posterior probability under a flat prior.
    """
    logs = densities[:, places, 0] + z * (densities[:, places, 1] + z * densities[:, places, 2])
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


def _words(model: ScoreModel, s: int, kind: int, sign: int) -> tuple[str, str | None, str]:
    if s >= len(model.targets):
        a, b = (model.responses[model.targets[place].column].name for place in model.pairs[s - len(model.targets)])
        more = "more" if sign > 0 else "less"
        if a == b:
            return a, None, f"{a} is {more} often what was to be expected from x"
        return f"{a}, {b}", None, f"{a} and {b} move together {more} than before"
    target = model.targets[s]
    column = model.responses[target.column]
    if target.label >= 0:
        label = column.labels[target.label]
        often = "is more or less often" if kind == 1 else "is more often" if sign > 0 else "is less often"
        return column.name, label, f"{column.name} {often} {label}"
    words = {1: "varies more", -1: "varies less"} if kind == 1 else {1: "is higher", -1: "is lower"}
    return column.name, None, f"{column.name} {words[sign]}"


def _summary(model: ScoreModel, place: int, x: FloatArray, y: FloatArray) -> tuple[Summary, FloatArray]:
    """Summarise a response, and return what of it the reference does not expect at the same inputs."""
    target = model.targets[place]
    values = y[:, target.column] if target.label < 0 else (y[:, target.column] == target.label).astype(np.float64)
    if not len(values):
        return Summary(float("nan"), float("nan"), 0), values
    left = values - model.means.predict(design(x, model.inputs))[:, place]
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
