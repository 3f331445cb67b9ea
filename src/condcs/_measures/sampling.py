r"""The sampled supplier: divergences of millions of rows, with a standard error, in O(rows) time.

A divergence is a smooth function of a few sums over rows, :math:`S_k = \sum_j v_{jk}`, and what a row adds to them
needs its kernel masses, sums over all rows again. Here the inner sums are exact, but for few rows only:

1. Landmarks and pilot rows are drawn, a share from each group and category, and their masses found exactly.
2. The masses of all rows are approximated from the landmarks (Nystrom). What rows add to the sums by these masses is
   *known for all rows*: a control variate. Wide kernels leave hardly anything to correct; narrow ones leave it all.
3. Anchor rows are drawn with probabilities that follow what a row is expected to add, and to leave uncorrected, as
   learned from the pilot rows; their masses are found exactly, and correct the sums. This is priority sampling
   (Duffield, Lund and Thorup, 2007): a row that one anchor in a thousand would not do justice to is always taken.
4. Twice as many anchors are drawn, from what all rows known so far have taught, until the standard error is small
   enough. Rows of known masses are summed exactly, so that the value is exact when all rows are known.

Every step is a sum over chunks of rows, so that it does not matter where they are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import linalg, special

from condcs._kernels.log_kernels import EXACT_EXPONENT
from condcs._kernels.row_chunks import (
    PAIRS,
    FarSums,
    RowChunk,
    RowKernels,
    blocks,
    chunk_far_sums,
    chunk_log_sums,
    chunk_sums,
    exponents,
    joined_far_ratios,
    joined_log_sums,
    joined_rows,
)
from condcs._kernels.row_sums import exp_in_place

FloatArray = np.ndarray[Any, Any]
T = TypeVar("T")

LANDMARKS, PILOTS = 200, 200
"""Rows of known masses, in each group: those that approximate the masses of others, and those that say how well."""

FIRST_ANCHORS, MOST_ANCHORS = 256, 50_000
"""Anchors of the first draw, and of the largest."""

_LOST = 1e-290
_TILE = 512


class RowSource(Protocol):
    """Rows in chunks."""

    kernels: RowKernels
    sizes: tuple[int, ...]
    categories: tuple[FloatArray, FloatArray]
    """Codes of the categories in ascending order, and how many rows of each group they have (codes x G)."""

    def map(self, function: Callable[[RowChunk], T]) -> Iterator[T]:
        """Yield what a function makes of each chunk, in the order of the chunks."""
        ...


class RowSums(Protocol):
    r"""A divergence :math:`D = c + \sum_k a_k \phi(S_k)` of sums over rows, :math:`\phi` a logarithm or nothing."""

    @property
    def coefficients(self) -> FloatArray:
        """The numbers a (K)."""
        ...

    @property
    def logs(self) -> bool:
        """Whether the function of a sum is its logarithm."""
        ...

    def added(self, log_sums: FloatArray, log_weights: FloatArray, group: int) -> FloatArray:
        """Return what rows of a group add to the sums (rows x K), from their log masses (products x rows x G)."""
        ...

    def value(self, sums: FloatArray) -> float:
        """Return D."""
        ...


@dataclass(frozen=True)
class SampledSums:
    """A divergence from anchors: its value, its standard error, and how many rows had exact masses."""

    value: float
    standard_error: float
    n_anchors: int


def sampled_divergence(
    source: RowSource, measure: RowSums, *, enough: Callable[[float, float], bool], max_seconds: float, seed: int
) -> SampledSums:
    """Add anchors until `enough(value, standard error)`, or until the next ones would take too long."""
    started = time.monotonic()
    known = _known_rows(source, measure, seed)
    low_rank, sums, wanted, stage = _low_rank(source, known), known.expansion @ known.added, FIRST_ANCHORS, 0
    while True:
        before, stage = time.monotonic(), stage + 1
        draw = _drawn(source, _model(source, measure, low_rank, known, sums), known, seed, stage)
        anchors = draw.rows.take(slice(0, wanted))
        added = _added(measure, _log_masses(source, anchors), anchors)
        sums, standard_error = _estimate(measure, known.added.sum(axis=0), draw, added)
        known = known.with_anchors(anchors, added)
        found = SampledSums(measure.value(sums), standard_error, len(known.rows))
        # The first anchors tell where the next ones are needed; their own error is not to be relied on.
        if standard_error == 0.0 or (stage > 1 and enough(found.value, standard_error)):
            return found
        now = time.monotonic()
        affordable = int((max_seconds - (now - started)) / (now - before) * wanted)
        if affordable < wanted or wanted == MOST_ANCHORS:
            return found
        wanted = min(2 * wanted, affordable, MOST_ANCHORS)


# Rows that are drawn: by numbers that depend on the seed and the row's place alone, not on how rows are chunked.


def _uniform(seed: int, stream: int, rows: RowChunk) -> FloatArray:
    """Return a number in (0, 1) for each row: its place, mixed (splitmix64)."""
    start = np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)
    z = start + rows.index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z += rows.groups.astype(np.uint64) * np.uint64(0xA0761D6478BD642F)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (30, 0xBF58476D1CE4E5B9)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


@dataclass(frozen=True)
class _Known:
    """Rows of exact masses: landmarks and pilot rows, drawn before anything is known, and anchors of earlier draws.

    Attributes
    ----------
    rows : RowChunk
        The rows.
    landmark : array of bool
        Which are landmarks.
    share : array
        How many rows of its group and category each pilot row stands for; 0 for others.
    log_masses : array, shape (products, landmarks and pilot rows, G)
        Exact log masses of the first of them.
    added : array, shape (rows, K)
        What they add to the sums.
    """

    rows: RowChunk
    landmark: FloatArray
    share: FloatArray
    log_masses: FloatArray
    added: FloatArray

    @property
    def expansion(self) -> FloatArray:
        """How many rows each stands for when only landmarks and pilot rows are known."""
        return self.share + self.landmark

    def with_anchors(self, rows: RowChunk, added: FloatArray) -> _Known:
        """Return these rows and others."""
        nothing = np.zeros(len(rows))
        return _Known(
            joined_rows(self.rows, rows),
            np.append(self.landmark, nothing > 0),
            np.append(self.share, nothing),
            self.log_masses,
            np.concatenate([self.added, added]),
        )


def _known_rows(source: RowSource, measure: RowSums, seed: int) -> _Known:
    """Draw landmarks and pilot rows, a share from each group and category."""
    codes, counts = source.categories
    block = counts.sum(axis=1, keepdims=True)
    landmarks = np.minimum(counts, np.minimum(LANDMARKS, np.ceil(2 * np.sqrt(block)))).astype(np.int64)
    landmarks = np.where(block <= LANDMARKS, counts, landmarks)
    pilots = np.minimum(counts - landmarks, np.maximum(2, np.ceil(PILOTS * counts / counts.sum(axis=0)))).astype(int)

    def ranked(rows: RowChunk) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Order rows by group, category and a number of their own; return the order, places in it, and categories."""
        category = np.searchsorted(codes, rows.codes)
        order = np.lexsort((_uniform(seed, 0, rows), category, rows.groups))
        key = rows.groups[order].astype(np.int64) * len(codes) + category[order]
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        place = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
        return order, place, category[order]

    def drawn(rows: RowChunk) -> RowChunk:
        order, place, category = ranked(rows)
        return rows.take(order[place < (landmarks + pilots)[category, rows.groups[order]]])

    found: RowChunk | None = None
    for some in source.map(drawn):
        found = some if found is None else drawn(joined_rows(found, some))
    assert found is not None
    order, place, category = ranked(found)
    rows = found.take(order)
    here = category, rows.groups
    is_landmark = place < landmarks[here]
    share = np.where(is_landmark, 0.0, (counts - landmarks)[here] / np.maximum(pilots[here], 1))
    log_masses = _log_masses(source, rows)
    return _Known(rows, is_landmark, share, log_masses, _added(measure, log_masses, rows))


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
    if len(lost):
        few = rows.take(lost)
        for g, (peaks, totals) in _log_sums_by_group(source, few).items():
            with np.errstate(divide="ignore"):
                logs[:, lost, g] = peaks + np.log(totals)
        if kernels.products == PAIRS:
            _mend_far_rows(source, rows, logs)
    return logs


def _mend_far_rows(source: RowSource, rows: RowChunk, logs: FloatArray) -> None:
    """Find log(B / A) anew where log A is too large to leave digits for it; A itself is then as good as 0."""
    limit = EXACT_EXPONENT[64]
    far = np.flatnonzero(((logs[0] < -limit) & (logs[0] > -np.inf)).any(axis=1))
    if len(far) == 0:
        return
    kernels, few = source.kernels, rows.take(far)
    found: dict[int, list[FarSums]] = {}
    for group, part in source.map(lambda chunk: (int(chunk.groups[0]), chunk_far_sums(kernels, few, chunk))):
        found.setdefault(group, []).append(part)
    for g, parts in found.items():
        these = (logs[0, far, g] < -limit) & (logs[0, far, g] > -np.inf)
        logs[0, far[these], g] = -limit
        logs[1, far[these], g] = -limit + joined_far_ratios(kernels, few, parts)[these]


def _log_sums_by_group(source: RowSource, rows: RowChunk) -> dict[int, tuple[FloatArray, FloatArray]]:
    kernels = source.kernels
    found: dict[int, tuple[FloatArray, FloatArray]] = {}
    for group, part in source.map(lambda chunk: (int(chunk.groups[0]), chunk_log_sums(kernels, rows, chunk))):
        found[group] = joined_log_sums(found[group], part) if group in found else part
    return found


# What is known of all rows: approximate masses, and how well they tell what a row adds to the sums.


@dataclass(frozen=True)
class _LowRank:
    """Approximate masses of any row: kernel values at the landmarks of its category, times their loadings.

    Attributes
    ----------
    landmarks : RowChunk
        The landmarks.
    loadings : array, shape (products, landmarks, G)
        Masses of the landmarks times the inverse of their Gram matrix.
    shares : array, shape (landmarks, G)
        What each landmark stands for in its group, for sums of wider kernels.
    codes, absent : array, shapes (categories,) and (categories, G)
        Which categories a group does not have.
    """

    kernels: RowKernels
    landmarks: RowChunk
    loadings: FloatArray
    shares: FloatArray
    codes: FloatArray
    absent: FloatArray

    def log_masses(self, rows: RowChunk) -> tuple[FloatArray, FloatArray]:
        """Return log masses (products x rows x G), and what is known of how good they are (4 x rows).

        The latter are the log masses in their own group of kernels 2 and 4 times as wide, which landmarks tell even if
        none is near, and how far the nearest landmark is, in bandwidths: with the fewest factors and with all of them.
        """
        masses = np.zeros((*self.loadings.shape[:1], len(rows), self.loadings.shape[2]))
        wide, nearest = np.zeros((2, len(rows))), np.full((2, len(rows)), -1e4)
        for mine, theirs in blocks(rows.codes, self.landmarks.codes):
            pair = zip(rows.values, self.landmarks.values, strict=True)
            values = [np.concatenate([a[mine], b[theirs]]) for a, b in pair]
            kernels, r = self.kernels.on(values), len(self.landmarks.weights[theirs])
            m = len(values[0]) - r
            places = np.arange(len(rows))[mine]
            for start in range(0, m, _TILE):
                part = slice(start, min(start + _TILE, m))
                here = places[part]
                for k, tile in enumerate(exponents(kernels, m, part, slice(0, r))):
                    nearest[min(k, 1), here] = tile.max(axis=1)
                    if k == 0:
                        # Exponentials of a sixteenth of the exponents: their powers serve three widths.
                        tile *= 1 / 16
                        exp_in_place(tile)
                        for width in (1, 0):
                            sums = tile @ self.shares[theirs]
                            wide[width, here] = sums[np.arange(len(here)), rows.groups[here]]
                            tile *= tile
                            tile *= tile
                    else:
                        exp_in_place(tile)
                    masses[k, here] = tile @ self.loadings[k, theirs]
        # Approximations can be negative. They are not below what a row is to itself, nor do more factors add to a mass.
        masses = np.maximum(masses, _TINY)
        own = np.arange(len(rows)), rows.groups
        for k, chosen in enumerate(self.kernels.products):
            masses[k][own] = np.maximum(masses[k][own], rows.weights)
            for j, fewer in enumerate(self.kernels.products[:k]):
                if set(fewer) < set(chosen):
                    np.minimum(masses[k], masses[j], out=masses[k])
        masses[:, self.absent[np.searchsorted(self.codes, rows.codes)]] = 0.0
        far = np.sqrt(-2 * np.clip(nearest, -1e4, 0.0))
        with np.errstate(divide="ignore"):
            log_masses = np.log(masses)
        return log_masses, np.concatenate([np.log(wide + rows.weights + _TINY), far])


def _low_rank(source: RowSource, known: _Known) -> _LowRank:
    landmarks, masses = known.rows.take(known.landmark), np.exp(known.log_masses[:, known.landmark])
    codes, counts = source.categories
    loadings, drawn = np.zeros_like(masses), np.zeros_like(counts)
    np.add.at(drawn, (np.searchsorted(codes, landmarks.codes), landmarks.groups), 1)
    for mine, _ in blocks(landmarks.codes, landmarks.codes):
        kernels = source.kernels.on([np.concatenate([v[mine]] * 2) for v in landmarks.values])
        m = len(landmarks.weights[mine])
        for k, gram in enumerate(exponents(kernels, m, slice(0, m), slice(0, m))):
            exp_in_place(gram)
            values, vectors = linalg.eigh(0.5 * (gram + gram.T))
            kept = values > _SMALLEST_EIGENVALUE * values[-1]
            inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
            loadings[k, mine] = inverse @ masses[k, mine]
    category = np.searchsorted(codes, landmarks.codes)
    shares = np.zeros((len(landmarks), len(source.sizes)))
    one = category, landmarks.groups
    shares[np.arange(len(landmarks)), landmarks.groups] = landmarks.weights * counts[one] / drawn[one]
    return _LowRank(source.kernels, landmarks, loadings, shares, codes, counts == 0)


@dataclass(frozen=True)
class _Model:
    """What is expected of every row: what it adds to the sums, and what a regression on that leaves to be corrected.

    Attributes
    ----------
    gradient : array, shape (K,)
        Derivatives of the divergence by its sums, roughly: sums are those that the pilot rows stand for.
    fits : array, shape (3, G, 6)
        Coefficients of the logarithms of what is left of a row, of what it adds, and of the same without a look at its
        approximate masses, which can be far off at the margins of the data.
    parts : array, shape (4, G)
        Factors of the parts of a probability: these three, and the weight.
    """

    measure: RowSums
    low_rank: _LowRank
    gradient: FloatArray
    fits: FloatArray
    parts: FloatArray

    def approximately_added(self, rows: RowChunk) -> tuple[FloatArray, FloatArray]:
        """Return what the approximate masses say that rows add (rows x K), and what logarithms are regressed on."""
        log_masses, wide = self.low_rank.log_masses(rows)
        added = _added(self.measure, log_masses, rows)
        size = np.log(added @ np.abs(self.gradient) + _TINY)
        return added, np.stack([np.ones_like(size), size, *wide], axis=1)

    def features(self, rows: RowChunk) -> tuple[FloatArray, FloatArray]:
        """Return what sums are regressed on (rows x K + 2), and relative probabilities of rows to be anchors."""
        added, known = self.approximately_added(rows)
        # No row adds more than 1 to a sum: its kernel mass is at least what it is to itself.
        most = np.abs(self.gradient).sum()
        left, size, robust = (np.minimum(_exp_of_fit(known, fit[rows.groups]), most) for fit in self.fits)
        parts = np.stack([left, size, robust, rows.weights]) * self.parts[:, rows.groups]
        chances = np.where(rows.weights > 0, parts.sum(axis=0), 0.0)
        return np.column_stack([added, size, rows.weights]), chances


_TINY = 1e-290
# Both keep rounding, which hangs on how rows are chunked, out of the choice of anchors: eigenvalues below this part of
# the largest are left out, and residuals below this part of what a row adds count as that.
_SMALLEST_EIGENVALUE, _RESOLVED = 1e-7, 1e-4
# The parts of a probability: what follows from the regressions, and the rest for what they do not foresee.
_PARTS = np.array([0.4, 0.2, 0.3, 0.1])


def _added(measure: RowSums, log_masses: FloatArray, rows: RowChunk) -> FloatArray:
    """Return what rows add to the sums (rows x K), whatever their groups."""
    added = np.zeros((len(rows), len(measure.coefficients)))
    with np.errstate(divide="ignore"):
        logs = np.log(rows.weights)
    for group in np.unique(rows.groups):
        mine = rows.groups == group
        added[mine] = measure.added(log_masses[:, mine], logs[mine], int(group))
    return added


def _exp_of_fit(known: FloatArray, coefficients: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.clip(np.einsum("jk,jk->j", known, coefficients), -600.0, 600.0)))


def _model(source: RowSource, measure: RowSums, low_rank: _LowRank, known: _Known, sums: FloatArray) -> _Model:
    """Fit the model on known rows that had no part in the approximation: pilot rows and earlier anchors."""
    gradient = measure.coefficients / np.maximum(sums, _TINY) if measure.logs else measure.coefficients
    n_groups = len(source.sizes)
    plain = np.tile([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], (3, n_groups, 1))
    model = _Model(measure, low_rank, gradient, plain, np.full((4, n_groups), 0.25))
    pilot = ~known.landmark & (known.rows.weights > 0)
    rows, exact, share = known.rows.take(pilot), known.added[pilot], known.share[pilot]
    if len(rows) == 0:
        return model
    approximate, regressors = model.approximately_added(rows)
    fits = plain.copy()
    for g in range(n_groups):
        mine = rows.groups == g
        if mine.sum() < _FEWEST_PILOTS:
            continue
        logs, relative = regressors[mine], exact[mine] @ np.abs(gradient)
        fits[1, g] = _fitted(logs, np.log(relative + _TINY))
        fits[2, g, [0, 2, 3, 4, 5]] = _fitted(logs[:, [0, 2, 3, 4, 5]], np.log(relative + _TINY))
        fits[2, g, 1] = 0.0
        features = np.column_stack([approximate[mine], _exp_of_fit(logs, fits[1, g : g + 1]), rows.weights[mine]])
        left = _residuals(features, exact[mine] @ gradient, 1 / np.maximum(relative, _TINY))
        fits[0, g] = _fitted(logs, np.log(np.abs(left) + _RESOLVED * relative + _TINY))
    parts = np.stack([*(_exp_of_fit(regressors, fit[rows.groups]) for fit in fits), rows.weights])
    means = np.stack([parts @ (share * (rows.groups == g)) for g in range(n_groups)], axis=1)
    # What is added and left is measured in the divergence's units, alike in all groups; weights are not.
    means[:3] = means[:3].sum(axis=1, keepdims=True)
    means[3] *= n_groups
    factors = _PARTS[:, None] * sum(source.sizes) / np.maximum(means, _TINY)
    return _Model(measure, low_rank, gradient, fits, factors)


_FEWEST_PILOTS = 20


def _fitted(regressors: FloatArray, values: FloatArray) -> FloatArray:
    """Return coefficients of a regression, the slopes pulled towards 0 by what one row in twenty would weigh."""
    centre, deviation = regressors.mean(axis=0), regressors.std(axis=0)
    z = (regressors - centre) / np.where(deviation > 1e-12, deviation, 1.0)
    z[:, 0] = 1.0
    penalty = np.diag([0.0, *[0.05] * (z.shape[1] - 1)]) * len(z)
    found = np.linalg.solve(z.T @ z + penalty, z.T @ values)
    slopes = found / np.where(deviation > 1e-12, deviation, 1.0)
    slopes[0] = found[0] - slopes[1:] @ centre[1:]
    return np.asarray(slopes)


def _residuals(features: FloatArray, values: FloatArray, roots: FloatArray) -> FloatArray:
    """Return what a weighted regression leaves, each as if its own row had had no part in it."""
    coefficients, leverage = _regression(features, values[:, None], roots)
    return np.asarray((values - features @ coefficients[:, 0]) / (1 - leverage))


def _regression(features: FloatArray, values: FloatArray, roots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of a ridge regression weighted by squares of `roots`, and each row's leverage (below 0.9).

    The penalty is the share that is left of the values by a regression without one, over the rows: directions in which
    features hardly differ count if they explain what nothing else does, and not if they follow the noise.
    """
    weighted, responses = features * roots[:, None], values * roots[:, None]
    norms = np.sqrt((weighted**2).sum(axis=0))
    norms[norms == 0] = 1.0
    u, s, vt = linalg.svd(weighted / norms, full_matrices=False)
    kept = s > 1e-9 * max(s.max(initial=0.0), _TINY)
    u, s, vt = u[:, kept], s[kept], vt[kept]
    explained, squares = u.T @ responses, (responses**2).sum(axis=0)
    left = np.maximum(squares - (explained**2).sum(axis=0), 0.0) / np.maximum(squares, _TINY)
    penalty = left * len(s) / max(1, len(values) - len(s))
    coefficients = (vt.T * s) @ (explained / (s[:, None] ** 2 + penalty)) / norms[:, None]
    return coefficients, np.minimum((u**2).sum(axis=1), 0.9)


# Anchors, and what they say.


@dataclass(frozen=True)
class _Draw:
    """Candidates for anchors in the order in which they are taken, and totals over all rows that are not known.

    Attributes
    ----------
    rows, features, chances, order : rows and arrays
        Candidates, with their features, relative probabilities and U / chance, ascending.
    totals : array, shape (G, features)
        Sums of the features over all unknown rows of each group.
    cut : float
        Rows with a larger U / chance are no candidates.
    """

    rows: RowChunk
    features: FloatArray
    chances: FloatArray
    order: FloatArray
    totals: FloatArray
    cut: float


def _drawn(source: RowSource, model: _Model, known: _Known, seed: int, stage: int) -> _Draw:
    """Visit all rows once: add up their features, and keep the candidates."""
    n = sum(source.sizes)
    cut = np.inf if n <= MOST_ANCHORS else MOST_ANCHORS / n
    keys = [np.sort(known.rows.index[known.rows.groups == g]) for g in range(len(source.sizes))]

    def visit(chunk: RowChunk) -> tuple[int, FloatArray, RowChunk, FloatArray, FloatArray, FloatArray]:
        group = int(chunk.groups[0])
        place = np.searchsorted(keys[group], chunk.index)
        unknown = np.append(keys[group], -1)[place] != chunk.index
        rows = chunk.take(unknown)
        features, chances = model.features(rows)
        with np.errstate(divide="ignore"):
            order = _uniform(seed, stage, rows) / chances
        kept = (order <= cut) & (chances > 0)
        return group, features.sum(axis=0), rows.take(kept), features[kept], chances[kept], order[kept]

    totals = np.zeros((len(source.sizes), len(model.gradient) + 2))
    found = []
    for group, total, *candidates in source.map(visit):
        totals[group] += total
        found.append(candidates)
    rows, features, chances, order = _joined(found)
    place = np.argsort(order, kind="stable")
    return _Draw(rows.take(place), features[place], chances[place], order[place], totals, cut)


def _joined(found: list[list[Any]]) -> tuple[RowChunk, FloatArray, FloatArray, FloatArray]:
    rows, *arrays = zip(*found, strict=True)
    names = ("weights", "groups", "index", "codes")
    values = tuple(np.concatenate([r.values[i] for r in rows]) for i in range(len(rows[0].values)))
    joined = RowChunk(values, *(np.concatenate([getattr(r, name) for r in rows]) for name in names))
    features, chances, order = (np.concatenate(a) for a in arrays)
    return joined, features, chances, order


def _estimate(measure: RowSums, known: FloatArray, draw: _Draw, exact: FloatArray) -> tuple[FloatArray, float]:
    """Return sums over all rows and the standard error of the divergence.

    Sums over known rows, plus a regression on features of all others, plus what anchors correct.
    """
    m = len(exact)
    threshold = draw.order[m] if m < len(draw.rows) else draw.cut
    groups, features = draw.rows.groups[:m], draw.features[:m]
    chances = np.minimum(1.0, draw.chances[:m] * threshold)
    spread = (1 - chances) / chances**2
    sums, residuals, leverages = known, exact.copy(), np.zeros(m)
    for g in range(len(draw.totals)):
        mine = groups == g
        coefficients, leverages[mine] = _regression(features[mine], exact[mine], np.sqrt(spread[mine]))
        residuals[mine] -= features[mine] @ coefficients
        sums = sums + draw.totals[g] @ coefficients
    sums = sums + (residuals / chances[:, None]).sum(axis=0)
    if measure.logs and not (sums > 0).all():
        # A regression knows no sign. Without it, sums are of positive terms.
        residuals, leverages = exact, np.zeros(m)
        sums = known + (exact / chances[:, None]).sum(axis=0)
    gradient = measure.coefficients / np.maximum(sums, _TINY) if measure.logs else measure.coefficients
    return sums, _standard_error(spread * (residuals @ gradient / (1 - leverages)) ** 2)


def _standard_error(variances: FloatArray) -> float:
    """Return a standard error of which two on either side cover at least 95%.

    By Student's t, for as many anchors as make up most of it, and a tenth wider than that: what anchors add is skewed.
    """
    total = float(variances.sum())
    if total == 0.0:
        return 0.0
    effective = total**2 / float((variances**2).sum())
    return math.sqrt(total) * float(special.stdtrit(max(effective, 2.0), special.ndtr(2.2))) / 2.0
