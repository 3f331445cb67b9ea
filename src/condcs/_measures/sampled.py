r"""The sampled supplier: divergences of millions of rows, with a standard error, in O(rows) time; the option `method`.

A divergence is a smooth function of a few sums over rows, :math:`S_k = \sum_j v_{jk}`, and what a row adds to them
needs its kernel masses, sums over all rows again. Here the inner sums are exact, but for few rows only:

1. Landmarks and pilot rows are drawn, a share from each group and category, and their masses found exactly.
2. The masses of all rows are approximated from the landmarks (Nystrom). What rows add to the sums by these masses is
   *known for all rows*: a control variate. Wide kernels leave hardly anything to correct; narrow ones leave it all.
3. Anchor rows are drawn with probabilities that follow what a row is expected to add, and to leave uncorrected, as
   learned from the pilot rows; their masses are found exactly, and correct the sums. This is priority sampling
   (Duffield, Lund and Thorup, 2007): a row that is expected to add more than an anchor's share is always taken.
4. Twice as many anchors are drawn, from what all rows known so far have taught, until the standard error is small
   enough. Rows of known masses are summed exactly, so that the value is exact when all rows are known.

Every step is a sum over chunks of rows, so that it does not matter where they are.

Tests have an estimator of their own, `condcs._inference.statistics.AnchoredConditional`, on purpose. Anchors that are
drawn here follow what the given groups add to the sums, and are as many as their standard error asks for. Under other
labels they would be other rows. A test compares one statistic over all labellings, so that its anchors are fixed before
any labelling is seen, and it needs no standard error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from scipy import special

from condcs._core.arrays import Backend, BoolArray, FloatArray, IntArray
from condcs._core.checks import Groups, check_positive, check_rng
from condcs._core.errors import ParameterError, PrecisionWarning, warn_caller
from condcs._core.vocabulary import named, setting
from condcs._kernels.log_kernels import EXACT_EXPONENT, product
from condcs._kernels.row_chunks import (
    PAIRS,
    FarSums,
    RowChunk,
    RowKernels,
    RowSource,
    chunk_far_sums,
    chunk_log_sums,
    chunk_sums,
    joined_far_ratios,
    joined_rows,
    rounded_centre,
)
from condcs._kernels.row_sums import joined_log_sums
from condcs._measures.anchor_model import ExactRows, Model, fitted_model, low_rank_of, weighted_regression
from condcs._measures.formulas import TINY, RowSums, weight_totals
from condcs._measures.inputs import KernelVariable
from condcs._parallel.spreading import on_threads

AUTO_ROWS = 20_000
"""Up to this many pooled rows ``method="auto"`` is exact: about a second of one core."""


@dataclass(frozen=True)
class Sampled:
    """Compute a divergence from anchor rows, to a given standard error: a value of the option `method`.

    The kernel sums of anchor rows are exact; those of all other rows are approximated by a low-rank kernel, whose error
    is estimated from the anchors and corrected. Anchors are drawn with probabilities that follow the expected
    contribution of a row, and are added until the standard error is small enough. Cost O(n d) per anchor, memory O(n).

    Attributes
    ----------
    relative_error : float
        Target of the standard error, relative to the divergence.
    absolute_error : float
        Target of the standard error where the divergence is close to 0; the larger of the two targets counts.
    max_seconds : float
        Time limit. If it is reached first, a `PrecisionWarning` reports the standard error.
    rng : int or Generator
        Random generator, or its seed. The same seed gives the same answer on any number of threads, unless the time
        limit is reached.

    Examples
    --------
    >>> import numpy as np
    >>> import condcs
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 6000))
    >>> samples = x[:3000], (x + noise)[:3000], x[3000:], (noise - x)[3000:]
    >>> sampled = condcs.conditional_cs(*samples, method=condcs.Sampled(relative_error=0.02))
    >>> bool(abs(sampled - condcs.conditional_cs(*samples)) < 4 * sampled.standard_error)
    True
    """

    relative_error: float = 0.01
    absolute_error: float = 1e-6
    max_seconds: float = 60.0
    rng: int | np.random.Generator = 0

    def __post_init__(self) -> None:
        for name in ("relative_error", "absolute_error", "max_seconds"):
            check_positive(name, getattr(self, name))
        if self.rng is None:
            raise ParameterError(
                f"{named('rng')} must be a seed or a numpy Generator, got None. Pass e.g. {setting('rng', 0)}."
            )
        check_rng(self.rng)


SamplingMethod = Literal["auto", "exact", "sampled"] | Sampled


class SampledFloat(np.float64):
    """A divergence computed from anchor rows: a float with a standard error.

    Attributes
    ----------
    standard_error : float
        Standard error of the value as an estimate of the exact divergence of these samples, which lies within two
        standard errors in at least 95% of all cases. It does not include the sampling error of the data. 0 if all rows
        became anchors.
    n_anchors : int
        Number of rows whose kernel sums are exact.
    target_met : bool
        Whether the standard error is within its target.
    method : {"sampled", "exact"}
        "exact" if all rows became anchors.
    """

    standard_error: float
    n_anchors: int
    target_met: bool

    def __new__(cls, value: float, standard_error: float, n_anchors: int, target_met: bool = True) -> SampledFloat:
        divergence = super().__new__(cls, value)
        divergence.standard_error, divergence.n_anchors, divergence.target_met = standard_error, n_anchors, target_met
        return divergence

    @property
    def method(self) -> str:
        """How it was computed."""
        return "exact" if self.standard_error == 0.0 else "sampled"

    def __repr__(self) -> str:
        return f"{float(self)!r} (standard error {self.standard_error:.2g} from {self.n_anchors} anchor rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        return SampledFloat, (float(self), self.standard_error, self.n_anchors, self.target_met)


class SampledMatrix(np.ndarray[Any, Any]):
    """Divergences computed from anchor rows: an array with standard errors.

    Attributes
    ----------
    standard_error : array
        Standard error of each entry, as in `SampledFloat`; None for arrays derived from the matrix.
    n_anchors : array of int
        Number of rows whose kernel sums are exact, for each entry.
    target_met : bool
        Whether all standard errors are within their targets.
    """

    standard_error: Any = None
    n_anchors: Any = None
    target_met: Any = None

    def __new__(cls, entries: list[list[SampledFloat]]) -> SampledMatrix:
        matrix = np.array(entries, np.float64).view(cls)
        matrix.standard_error = np.array([[e.standard_error for e in row] for row in entries])
        matrix.n_anchors = np.array([[e.n_anchors for e in row] for row in entries])
        matrix.target_met = all(e.target_met for row in entries for e in row)
        return matrix


def sampling_of(method: SamplingMethod, backend: Backend, n: int) -> Sampled | None:
    """Return how to sample, or None where the value is to be exact: gradients need every pair."""
    if isinstance(method, Sampled) or method == "sampled":
        if backend.name != "numpy":
            raise ParameterError(
                f'{named("method")} must be "exact" or "auto" for arrays of {backend.name}, got {method!r}: anchors '
                "are drawn for numpy arrays only, without gradients. Pass numpy arrays, or leave it out."
            )
        return method if isinstance(method, Sampled) else Sampled()
    if method not in ("auto", "exact"):
        raise ParameterError(
            f'{named("method")} must be "auto", "exact", "sampled" or a condcs.Sampled, got {method!r}. '
            "Pass e.g. method=condcs.Sampled(relative_error=0.01)."
        )
    return Sampled() if method == "auto" and backend.name == "numpy" and n > AUTO_ROWS else None


# A standard error far below the one that was asked for is not reported: it rests on the rows that were seen, and one
# that was not may add as much.
_FINEST = 0.05


def sampled_value(sampled: Sampled, source: RowSource, measure: RowSums) -> SampledFloat:
    """Return a divergence from anchors, and warn if its error is larger than was asked for.

    Anchors are added until the error is small enough, or until the next ones would take too long.
    """
    started, seed = time.monotonic(), int(check_rng(sampled.rng).integers(2**62))
    exact_rows = _landmarks_and_pilots(source, measure, seed)
    low_rank = low_rank_of(source, exact_rows)
    sums = exact_rows.expansion @ exact_rows.added  # (K,)
    wanted, stage = FIRST_ANCHORS, 0
    while True:
        stage_started, stage = time.monotonic(), stage + 1
        model = fitted_model(source, measure, low_rank, exact_rows, sums)
        draw = _drawn(source, model, exact_rows, wanted, seed, stage)
        added = measure.added(_log_masses(source, draw.rows), draw.rows.groups, draw.rows.weights)
        sums, error = _estimate(measure, model, exact_rows, draw, added)
        exact_rows = exact_rows.with_anchors(draw.rows, draw.chances, added)
        value, n_anchors = measure.value(sums), len(exact_rows.rows)
        target = max(sampled.absolute_error, sampled.relative_error * abs(value))
        # The first anchors tell where the next ones are needed; their own error is not to be relied on.
        if draw.complete or (stage > 1 and error <= target):
            break
        now = time.monotonic()
        affordable = int((sampled.max_seconds - (now - started)) / (now - stage_started) * wanted)
        if affordable < wanted or wanted == MOST_ANCHORS:
            break
        wanted = min(2 * wanted, affordable, MOST_ANCHORS)
    reported = 0.0 if draw.complete else math.hypot(error, _FINEST * target)
    if error > target:
        warn_caller(
            f"the divergence is {value:.4g} with a standard error of {reported:.2g}, more than the {target:.2g} that "
            f"was asked for, after {n_anchors} anchors. Pass method=condcs.Sampled(...) with a larger `max_seconds` "
            "or `relative_error`.",
            PrecisionWarning,
        )
    return SampledFloat(value, reported, n_anchors, error <= target)


# Rows in memory, in chunks, on threads.

T = TypeVar("T")

CHUNK_ROWS = 8_192
"""Rows of a chunk. Chunks do not depend on threads, so that sums do not either."""


class RowsInMemory:
    """The rows of a pool, ordered by category within each group so that a chunk meets few of them.

    `products` says which of the variables enter each product of kernels.
    """

    def __init__(
        self, variables: Sequence[KernelVariable], products: tuple[tuple[int, ...], ...], groups: Groups
    ) -> None:
        self._values = [v.variable.values for v in variables]
        centres = tuple(rounded_centre(v.mean(axis=0, dtype=np.float64)) for v in self._values)
        self.kernels = RowKernels(
            tuple(v.option for v in variables), tuple(v.widths for v in variables), centres, products
        )
        self._weights = np.ones(groups.n) if groups.weights is None else groups.weights.astype(np.float64)
        self._rows, self._counted = groups.n, self._weights > 0
        # Before equal rows become one: that one is not similar to itself alone.
        self._totals = partial(weight_totals, product([v.kernel for v in variables]), groups)
        if all(v.option.label_columns(len(v.variable.names)) and v.widths is None for v in variables):
            groups = self._keep_distinct(groups)
        self.sizes = groups.sizes
        self._codes = self.kernels.codes(self._values[0])
        order = [s.start + np.argsort(self._codes[s], kind="stable") for s in groups.slices]
        self._spans = [
            (g, groups.slices[g].start, rows[start : start + CHUNK_ROWS])
            for g, rows in enumerate(order)
            for start in range(0, len(rows), CHUNK_ROWS)
        ]
        codes, category = np.unique(self._codes, return_inverse=True)
        counts = [np.bincount(category[s], minlength=len(codes)) for s in groups.slices]
        self.categories: tuple[IntArray, IntArray] = codes, np.stack(counts, axis=1)

    def _keep_distinct(self, groups: Groups) -> Groups:
        """Keep one of all equal rows of a group, with the sum of their weights: labels have few combinations."""
        rows, weights, counted = [], [], []
        for span in groups.slices:
            table = np.concatenate([v[span] for v in self._values], axis=1)
            _, first, distinct_row = np.unique(table, axis=0, return_index=True, return_inverse=True)
            rows.append(span.start + first)
            weights.append(np.bincount(distinct_row.reshape(-1), self._weights[span]))
            counted.append(np.bincount(distinct_row.reshape(-1), self._counted[span]))
        self._values = [v[np.concatenate(rows)] for v in self._values]
        self._weights, self._counted = np.concatenate(weights), np.concatenate(counted)
        return Groups(tuple(len(w) for w in weights))

    def count_absent(self) -> tuple[int, int]:
        codes, _ = self.categories
        spans = Groups(self.sizes).slices
        present = [np.bincount(np.searchsorted(codes, self._codes[s]), self._weights[s], len(codes)) > 0 for s in spans]
        absent = np.logical_not(np.all(present, axis=0))
        return int(self._counted[absent[np.searchsorted(codes, self._codes)]].sum()), self._rows

    def weights(self) -> FloatArray:
        return np.array([self._weights[s].sum() for s in Groups(self.sizes).slices])

    def totals(self) -> FloatArray:
        return np.asarray(self._totals())

    def _chunk(self, group: int, start: int, rows: IntArray) -> RowChunk:
        values = tuple(np.ascontiguousarray(v[rows], np.float64) for v in self._values)
        return RowChunk(values, self._weights[rows], np.full(len(rows), group), rows - start, self._codes[rows])

    def map(self, function: Callable[[RowChunk], T]) -> Iterator[T]:
        yield from on_threads(lambda *span: function(self._chunk(*span)), self._spans)


# How anchors are drawn, and what they say.

LANDMARKS, PILOTS = 200, 200
"""Rows of exact masses, in each group: those that approximate the masses of others, and those that say how well. More
approximate better and cost O(n d) each, before it is known whether they are needed."""

FIRST_ANCHORS, MOST_ANCHORS = 256, 50_000
"""Anchors of the first draw, and of the largest. The first tell where further ones are needed; the largest bounds the
memory of a draw."""

# Sums below this have lost digits to gradual underflow, and are found again in logarithms.
_LOST = 1e-290
# Rows far from a group whose ratios are found at a time: 64 MB of exponents against a chunk.
_FAR_AT_ONCE = 1_024


# Rows that are drawn: by numbers that depend on the seed and on which row of its group it is, not on how rows are
# chunked.


def _uniform(seed: int, stream: int, rows: RowChunk) -> FloatArray:
    """Return a number in (0, 1) for each row: its index, mixed (splitmix64)."""
    start = np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)
    z = start + rows.index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += rows.groups.astype(np.uint64) * np.uint64(0xA0761D6478BD642F)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (30, 0xBF58476D1CE4E5B9)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _landmarks_and_pilots(source: RowSource, measure: RowSums, seed: int) -> ExactRows:
    """Draw landmarks and pilot rows, a share from each group and category."""
    codes, counts = source.categories  # (categories,) and (categories, G)
    block = counts.sum(axis=1, keepdims=True)
    # All rows of a small category; of others, from each group, twice the root of the category's size and 200 at most.
    landmarks = np.minimum(counts, np.minimum(LANDMARKS, np.ceil(2 * np.sqrt(block)))).astype(np.int64)
    landmarks = np.where(block <= LANDMARKS, counts, landmarks)
    pilots = np.minimum(counts - landmarks, np.maximum(2, np.ceil(PILOTS * counts / counts.sum(axis=0)))).astype(int)

    def ranked(rows: RowChunk) -> tuple[IntArray, IntArray, IntArray]:
        """Order rows by group, category and a random number; return the order, ranks in each cell, and categories."""
        category = np.searchsorted(codes, rows.codes)
        order = np.lexsort((_uniform(seed, 0, rows), category, rows.groups))
        key = rows.groups[order].astype(np.int64) * len(codes) + category[order]
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        lengths = np.diff(np.append(first, len(key)))
        rank = np.arange(len(key)) - np.repeat(first, lengths)
        return order, rank, category[order]

    def drawn(rows: RowChunk) -> RowChunk:
        order, rank, category = ranked(rows)
        return rows.take(order[rank < (landmarks + pilots)[category, rows.groups[order]]])

    candidates: RowChunk | None = None
    for some in source.map(drawn):
        candidates = some if candidates is None else drawn(joined_rows(candidates, some))
    assert candidates is not None
    order, rank, category = ranked(candidates)
    rows = candidates.take(order)
    cell = category, rows.groups
    is_landmark = rank < landmarks[cell]
    share = np.where(is_landmark, 0.0, (counts - landmarks)[cell] / np.maximum(pilots[cell], 1))
    log_masses = _log_masses(source, rows)
    draw = np.zeros(len(rows), np.int64)
    return ExactRows(rows, is_landmark, share, draw, log_masses, measure.added(log_masses, rows.groups, rows.weights))


def _log_masses(source: RowSource, rows: RowChunk) -> FloatArray:
    """Return the exact log masses of some rows in every group: products x rows x G."""
    kernels, n_groups = source.kernels, len(source.sizes)
    sums = np.zeros((len(kernels.products), len(rows), n_groups))
    if len(rows) == 0:
        return sums
    for group, part in source.map(lambda chunk: (chunk.groups[0], chunk_sums(kernels, rows, chunk))):
        sums[:, :, group] += part
    with np.errstate(divide="ignore"):
        logs = np.log(sums)
    lost = np.flatnonzero((sums < _LOST).any(axis=(0, 2)))
    if len(lost) == 0:
        return logs
    few, log_sums = rows.take(lost), dict[int, tuple[FloatArray, FloatArray]]()  # by group
    for g, pair in source.map(lambda chunk: (int(chunk.groups[0]), chunk_log_sums(kernels, few, chunk))):
        log_sums[g] = joined_log_sums(log_sums[g], pair) if g in log_sums else pair
    for g, (peaks, totals) in log_sums.items():
        with np.errstate(divide="ignore"):
            logs[:, lost, g] = peaks + np.log(totals)
    if kernels.products == PAIRS:
        far = np.flatnonzero(_are_far(logs[0]).any(axis=1))
        for start in range(0, len(far), _FAR_AT_ONCE):
            _mend_far_rows(source, rows, logs, far[start : start + _FAR_AT_ONCE])
    return logs


def _are_far(log_a: FloatArray) -> BoolArray:
    return np.asarray((log_a < -EXACT_EXPONENT[64]) & (log_a > -np.inf))


def _mend_far_rows(source: RowSource, rows: RowChunk, logs: FloatArray, far: IntArray) -> None:
    """Find log(B / A) anew where log A is too large to leave digits for it; A itself is then as good as 0."""
    kernels, few = source.kernels, rows.take(far)
    far_sums: dict[int, list[FarSums]] = {}
    for group, part in source.map(lambda chunk: (int(chunk.groups[0]), chunk_far_sums(kernels, few, chunk))):
        far_sums.setdefault(group, []).append(part)
    for g, parts in far_sums.items():
        these = _are_far(logs[0, far, g])
        logs[0, far[these], g] = -EXACT_EXPONENT[64]
        logs[1, far[these], g] = -EXACT_EXPONENT[64] + joined_far_ratios(kernels, few, parts)[these]


# Anchors, and what they say.


@dataclass(frozen=True)
class _Draw:
    """Anchors, and totals over all rows whose masses are not exact yet."""

    rows: RowChunk
    features: FloatArray  # (rows, K + 2): what sums are regressed on
    chances: FloatArray  # (rows,): probabilities with which they were drawn
    totals: FloatArray  # (G, K + 2): sums of the features over all other rows of each group, those drawn among them
    threshold: float  # what relative chances are multiplied by
    blind_chance: float  # the probability of any row to be drawn without a look at the model

    @property
    def complete(self) -> bool:
        """Whether all rows that were not exact are among the anchors."""
        return self.threshold == np.inf

    def chances_of(self, relative_chances: FloatArray) -> FloatArray:
        """Return the probabilities of other rows to be drawn, from their relative chances."""
        return _chances_to_be_drawn(relative_chances, self.threshold, self.blind_chance)


def _chances_to_be_drawn(relative_chances: FloatArray, threshold: float, blind_chance: float) -> FloatArray:
    """Return the probabilities of rows to be drawn by the model, or without a look at it."""
    by_model = np.minimum(1.0, relative_chances * threshold)
    return np.asarray(1 - (1 - by_model) * (1 - blind_chance))


# Share of the anchors that are drawn without a look at the model. More would waste anchors where the model is right,
# fewer would leave a larger error unseen where it is wrong.
_BLIND = 0.2
# How many times as many candidates are kept, on average, as anchors are wanted: relative chances are not known to be 1
# on average before all rows are visited. Fewer could be too few; the draw is the same unless they are.
_SPARE = 8.0


class _Candidates(NamedTuple):
    """Rows of a chunk that may become anchors."""

    rows: RowChunk
    features: FloatArray  # (rows, K + 2)
    relative_chances: FloatArray  # (rows,): 1 on average over all rows
    priorities: FloatArray  # (rows,): the smallest are drawn
    is_blind: BoolArray  # (rows,): which are drawn without a look at the model


def _drawn(source: RowSource, model: Model, exact_rows: ExactRows, wanted: int, seed: int, stage: int) -> _Draw:
    """Visit all rows that are not exact yet: add up their features, and draw about as many anchors as are wanted.

    Most are drawn by what the model expects of them, some without a look at it: whatever it overlooks, every row has a
    chance. The two draws are independent, and a row is an anchor if either takes it.
    """
    n = sum(source.sizes) - len(exact_rows.rows)
    blind_chance = min(1.0, _BLIND * wanted / max(n, 1))
    n_by_model = max(1, round((1 - _BLIND) * wanted))
    # Only rows that may be among the first need be kept; relative chances are 1 on average.
    cut = np.inf if n <= MOST_ANCHORS else _SPARE * n_by_model / n
    keys = [np.sort(exact_rows.rows.index[exact_rows.rows.groups == g]) for g in range(len(source.sizes))]

    def visit(chunk: RowChunk) -> tuple[int, FloatArray, _Candidates]:
        """Return the group of a chunk, the totals of its features, and its rows that may become anchors."""
        group = int(chunk.groups[0])
        # Rows that are not exact yet: -1 stands for the end of the keys, and is no index.
        next_key = np.append(keys[group], -1)[np.searchsorted(keys[group], chunk.index)]
        rows = chunk.take((next_key != chunk.index) & (chunk.weights > 0))
        features, relative_chances = model.features(rows)
        relative_chances = np.maximum(relative_chances, TINY)
        # A row is the more likely to be among the smallest, the larger its chance.
        priorities = _uniform(seed, 2 * stage, rows) / relative_chances
        is_blind = _uniform(seed, 2 * stage + 1, rows) <= blind_chance
        some = (priorities <= cut) | is_blind
        candidates = _Candidates(
            rows.take(some), features[some], relative_chances[some], priorities[some], is_blind[some]
        )
        return group, features.sum(axis=0), candidates

    totals = np.zeros((len(source.sizes), len(model.gradient) + 2))  # (G, K + 2)
    of_chunks = []
    for group, total, candidates in source.map(visit):
        totals[group] += total
        of_chunks.append(candidates)
    rows = joined_rows(*(candidates.rows for candidates in of_chunks))
    features = np.concatenate([candidates.features for candidates in of_chunks])
    relative_chances = np.concatenate([candidates.relative_chances for candidates in of_chunks])
    priorities = np.concatenate([candidates.priorities for candidates in of_chunks])
    is_blind = np.concatenate([candidates.is_blind for candidates in of_chunks])
    ranked = np.sort(priorities[priorities <= cut])
    threshold = float(ranked[n_by_model] if n_by_model < len(ranked) else cut)
    taken = np.flatnonzero((priorities < threshold) | is_blind)
    chances = _chances_to_be_drawn(relative_chances[taken], threshold, blind_chance)
    return _Draw(rows.take(taken), features[taken], chances, totals, threshold, blind_chance)


def _estimate(
    measure: RowSums, model: Model, exact_rows: ExactRows, draw: _Draw, added: FloatArray
) -> tuple[FloatArray, float]:
    """Return sums over all rows (K,) and the standard error of the divergence; the anchors add `added` (anchors, K).

    They are sums over the exact rows, plus a regression on features of all others, plus what anchors correct.
    """
    spread = (1 - draw.chances) / draw.chances**2
    # Rows that were certain to be drawn have no error to be made small, but stabilise the regression, each with a
    # hundredth of the mean weight.
    roots = np.sqrt(spread + 0.01 * spread.mean()) if len(spread) else spread
    exact_sums = exact_rows.added.sum(axis=0)
    sums, residuals, leverages = exact_sums, added.copy(), np.zeros(len(added))
    coefficients = np.zeros((len(draw.totals), draw.totals.shape[1], len(sums)))  # (G, K + 2, K)
    if not draw.complete:
        for g, total in enumerate(draw.totals):
            of_group = draw.rows.groups == g
            coefficients[g], leverages[of_group] = weighted_regression(
                draw.features[of_group], added[of_group], roots[of_group]
            )
            residuals[of_group] -= draw.features[of_group] @ coefficients[g]
            sums = sums + total @ coefficients[g]
    sums = sums + (residuals / draw.chances[:, None]).sum(axis=0)
    if measure.logs and not (sums > 0).all():
        # A regression knows no sign. Without it, sums are of positive terms.
        residuals, leverages, coefficients = added, np.zeros(len(added)), 0 * coefficients
        sums = exact_sums + (added / draw.chances[:, None]).sum(axis=0)
    gradient = measure.gradient(sums)
    variances = spread * (residuals @ gradient / (1 - leverages)) ** 2
    if draw.complete:
        return sums, 0.0
    # Rows that were exact before had no part in the regression. If they would have been worse to draw from, the anchors
    # have missed something.
    others = _variance_by_exact_rows(model, exact_rows, draw, coefficients, gradient)
    return sums, max(_standard_error(variances), math.sqrt(others))


def _variance_by_exact_rows(
    model: Model, exact_rows: ExactRows, draw: _Draw, coefficients: FloatArray, gradient: FloatArray
) -> float:
    """Return the variance of the divergence as estimated from pilot rows and earlier anchors."""
    is_drawn = ~exact_rows.landmark & (exact_rows.rows.weights > 0)
    rows, added = exact_rows.rows.take(is_drawn), exact_rows.added[is_drawn]
    share, draw_of_row = exact_rows.share[is_drawn], exact_rows.draw[is_drawn]
    if len(rows) == 0:
        return 0.0
    features, relative_chances = model.features(rows)
    chances = draw.chances_of(relative_chances)
    residuals = (added - np.einsum("jf,jfk->jk", features, coefficients[rows.groups])) @ gradient  # (rows,)
    # Each draw has its own estimate; larger ones count for more.
    sizes = np.bincount(draw_of_row)[draw_of_row]  # of the draw that each row belongs to
    return float(share * sizes / len(draw_of_row) @ ((1 - chances) / chances * residuals**2))


def _standard_error(variances: FloatArray) -> float:
    """Return a standard error of which two on either side cover at least 95%.

    By Student's t, for as many anchors as make up most of it, and a tenth wider than that: what anchors add is skewed.
    """
    total = float(variances.sum())
    if total == 0.0:
        return 0.0
    effective = total**2 / float((variances**2).sum())
    return math.sqrt(total) * float(special.stdtrit(max(effective, 2.0), special.ndtr(2.2))) / 2.0
