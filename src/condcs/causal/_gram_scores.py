r"""Scores of links on many windows or orders at once; conditional CS from one Gram matrix per series.

Kernel values are visited in bands of diagonals, K[a, a + d]: a pair of windows is a pair of row ranges, and no n x n
matrix is ever held. Every exponential is computed once for all links and all surrogates; kernels of smaller bandwidths
are squares.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.errors import ParameterError
from condcs._core.settings import current_settings, one_blas_thread
from condcs._core.vocabulary import named, setting
from condcs._measures.formulas import PredictorForm, linear_predictor_divergence
from condcs.causal._grams import DenseGrams
from condcs.causal._influence_measures import ConditionalCS, InfluenceBaseline, KernelGranger
from condcs.causal._predictive_choice import bandwidth_levels, largest_bandwidths
from condcs.causal._series import CausalProblem, Link, in_common_unit

BAND = 64
"""Diagonals of one band: for a few thousand times it fits in the second-level cache."""

SUMS_BUDGET = 256 * 2**20
"""Bytes of row sums kept at a time; if all links need more, bands are computed again for each batch of links."""

DENSE_BUDGET = 2 * 2**30
"""Bytes that the three n x n matrices of a re-ordering null may take: n = 9,400."""

_WINDOW_PAIRS_PER_TASK = 26
"""Pairs of windows that a thread takes at a time: 201 of them, a score and its 200 surrogates, make 8 tasks. The scores
are the same for any number. At 800 rows, 8 per task were slower, and 100 no faster."""


class Scorer:
    """A measure with its bandwidths, ready to be evaluated on windows and orders."""

    def __init__(self, problem: CausalProblem, measure: ConditionalCS | InfluenceBaseline) -> None:
        if isinstance(measure, KernelGranger):
            # One kernel for several series: they must be in one unit, and so must a bandwidth that was given.
            problem = replace(problem, series=in_common_unit(problem.series))
            measure = measure.in_unit(problem.series[0].exponent)
        self.problem, self.measure = problem, measure
        self.bandwidths: FloatArray | None = None
        if isinstance(measure, ConditionalCS):
            self._largest = largest_bandwidths(problem, measure.bandwidth)  # (variables,)
            self._levels = bandwidth_levels(problem, self._largest, measure.bandwidth)  # (links,)
            reduced = self._largest * 2.0 ** (-self._levels[:, None] / 2)  # (links, variables)
            # From the unit of each series back to that of its values.
            self.bandwidths = np.ldexp(reduced, [one.exponent for one in problem.series])

    def on_windows(self, starts: Any, window: int, advance: Any = lambda count: None) -> FloatArray:
        """Return the scores (links x starts) on pairs of windows; `starts` has rows (source start, target start)."""
        links = self.problem.links
        if isinstance(self.measure, ConditionalCS):
            scores = window_gram_scores(self.problem, self._largest, self._levels, starts, window, self.measure.form)
            advance(len(links))
            return scores
        scores = np.empty((len(links), len(starts)))
        with self._few_threads():
            for link_scores, link in zip(scores, links, strict=True):
                target, condition, source = self.problem.parts(link)
                score = self.measure.scorer(condition, source)
                for column, (source_start, target_start) in enumerate(starts):
                    of_source = slice(source_start, source_start + window)
                    of_target = slice(target_start, target_start + window)
                    link_scores[column] = score(target[of_target], condition[of_target], source[of_source])
                advance(1)
        return scores

    def on_row_orders(self, index: int, row_orders: IntArray) -> FloatArray:
        """Return the scores of one link with the source's rows in other orders."""
        link = self.problem.links[index]
        if isinstance(self.measure, ConditionalCS):
            level = int(self._levels[index])
            return reordered_gram_scores(self.problem, self._largest, link, level, row_orders, self.measure.form)
        target, condition, source = self.problem.parts(link)
        score = self.measure.scorer(condition, source)
        with self._few_threads():
            return np.array([score(target, condition, source[row_order]) for row_order in row_orders])

    def _few_threads(self) -> AbstractContextManager[Any]:
        """Keep BLAS to one thread: on the small matrices of the baselines, starting more takes longer than the work."""
        full = isinstance(self.measure, KernelGranger) and self.measure.eigensolver == "full"
        return nullcontext() if full else one_blas_thread()

    def on_whole_series(self) -> FloatArray:
        """Return the score of each link on the whole series."""
        return self.on_windows(np.zeros((1, 2), np.int64), self.problem.rows)[:, 0]


def window_gram_scores(
    problem: CausalProblem, bandwidths: FloatArray, levels: Any, starts: IntArray, window: int, form: PredictorForm
) -> FloatArray:
    """Return the score of every link on every pair of windows (links x starts).

    `bandwidths` are the largest ones, one per series; `levels` says for each link how often they are divided by
    sqrt(2). `starts` has rows (source start, target start).

    Cost O(S T^2) per link after O(n T) exponentials per series; memory O(n) for the bands and O(S T) per link.
    """
    starts = np.ascontiguousarray(starts, np.int64)  # (S, 2)
    bytes_per_link = 2 * len(starts) * window * 8
    batch = max(1, SUMS_BUDGET // bytes_per_link)
    scores = []
    for first in range(0, len(problem.links), batch):
        links, levels_of_links = problem.links[first : first + batch], levels[first : first + batch]
        scores.append(_batch_scores(problem, bandwidths, links, levels_of_links, starts, window, form))
    return np.concatenate(scores)


def _batch_scores(
    problem: CausalProblem,
    bandwidths: FloatArray,
    links: Any,
    levels: Any,
    starts: Any,
    window: int,
    form: PredictorForm,
) -> FloatArray:
    """Return the scores (links x starts) of links whose row sums fit into memory together.

    Of each pair of windows the divergence takes four sums for each row: over K1 and K1 * L, in the window of the target
    alone (`condition_sums`), and both times the kernel of the source (`joint_sums`). Each band of diagonals adds its
    part to all of them.
    """
    from condcs.causal._gram_loops import condition_window_sums, window_sums

    joint_sums = np.zeros((len(links), len(starts), 2, window))  # A12 and B12 of each link and pair of windows
    # Links with the same target, conditions and bandwidth share K1, K1 * L and their sums; with the same source and
    # bandwidth, K2.
    keys = [
        _ConditionKey(link.target, link.conditioning_set, int(level)) for link, level in zip(links, levels, strict=True)
    ]
    condition_sums = {key: np.zeros((len(starts), 2, window)) for key in keys}  # A1 and B1
    chunks = [slice(i, i + _WINDOW_PAIRS_PER_TASK) for i in range(0, len(starts), _WINDOW_PAIRS_PER_TASK)]
    with ThreadPoolExecutor(current_settings().n_threads) as threads:
        for first in range(1 - window, window, BAND):
            grams = _BandGrams(problem, bandwidths, first, min(BAND, window - first))
            K1, K1L, K2 = dict[Any, FloatArray](), dict[Any, FloatArray](), dict[Any, FloatArray]()
            for link, key in zip(links, keys, strict=True):
                if key not in K1:
                    condition = grams.condition(link)
                    K1[key] = _narrowed(condition, key.level)
                    K1L[key] = _narrowed(condition * grams.target(link), key.level)
                if (link.source, key.level) not in K2:
                    K2[link.source, key.level] = _narrowed(grams.source(link), key.level)

            # Arguments with the values of this band: a function would see those of a later one.
            def add_joint(
                index: int, chunk: slice, first: int = first, K1: Any = K1, K1L: Any = K1L, K2: Any = K2
            ) -> None:
                key, source = keys[index], links[index].source
                out = joint_sums[index, chunk]
                window_sums(K1[key], K1L[key], K2[source, key.level], starts[chunk], window, first, out)

            def add_condition(
                key: _ConditionKey, chunk: slice, first: int = first, K1: Any = K1, K1L: Any = K1L
            ) -> None:
                condition_window_sums(K1[key], K1L[key], starts[chunk], window, first, condition_sums[key][chunk])

            list(threads.map(add_condition, *zip(*itertools.product(condition_sums, chunks), strict=True)))
            list(threads.map(add_joint, *zip(*itertools.product(range(len(links)), chunks), strict=True)))
    scores = []
    for key, joint in zip(keys, joint_sums, strict=True):
        alone = condition_sums[key]
        A1, B1, A12, B12 = alone[:, 0], alone[:, 1], joint[:, 0], joint[:, 1]  # (S, window)
        scores.append(linear_predictor_divergence(A1, B1, A12, B12, form))
    return np.stack(scores)


class _ConditionKey(NamedTuple):
    """What K1 and K1 * L of a link depend on."""

    target: int
    conditioning_set: tuple[int, ...]
    level: int


class _BandGrams(DenseGrams):
    """One band of Gram matrices: K[a, a + first + k] at [a, k]."""

    def __init__(self, problem: CausalProblem, bandwidths: FloatArray, first: int, diagonals: int) -> None:
        super().__init__(problem, bandwidths, problem.rows)
        self._first, self._diagonals = first, diagonals

    def exponents(self, values: FloatArray, scale: float) -> FloatArray:
        from condcs.causal._gram_loops import band_exponents

        band = np.empty((len(values), self._diagonals))
        band_exponents(values, scale, self._first, band)
        return band


def _narrowed(K: FloatArray, level: int) -> FloatArray:
    """Square a Gaussian kernel `level` times, each of which divides its bandwidth by sqrt(2)."""
    from condcs.causal._gram_loops import squared

    K = np.ascontiguousarray(K)
    for _ in range(level):
        K = squared(K)
    return K


def reordered_gram_scores(
    problem: CausalProblem, bandwidths: FloatArray, link: Link, level: int, row_orders: IntArray, form: PredictorForm
) -> FloatArray:
    """Return the score of a link with the source's rows in each of the orders (P x n).

    `bandwidths` are the largest ones, one per series, which are divided `level` times by sqrt(2).
    """
    from condcs.causal._gram_loops import reordered_sums

    n = problem.rows
    bytes_of_grams = 3 * 8 * n * n
    if bytes_of_grams > DENSE_BUDGET:
        raise ParameterError(
            f'{named("null")} must be "windows" for {n:,} rows: this one re-orders n x n matrices, which would take '
            f"{bytes_of_grams / 2**30:.0f} GB. Pass {setting('null', 'windows')}, or a shorter stretch of the series."
        )
    grams = DenseGrams(problem, bandwidths, n, int(level))
    K1, K2 = np.ascontiguousarray(grams.condition(link)), np.ascontiguousarray(grams.source(link))
    K1L = K1 * grams.target(link)
    n_threads = current_settings().n_threads
    chunks = np.array_split(np.ascontiguousarray(row_orders, np.int64), min(n_threads, len(row_orders)))
    with ThreadPoolExecutor(n_threads) as threads:
        sums_by_chunk = list(threads.map(lambda chunk: reordered_sums(K1, K1L, K2, chunk, 1)[:, 0], chunks))
    sums = np.concatenate(sums_by_chunk)  # (P, 2, n)
    A1, B1 = K1.sum(axis=1), K1L.sum(axis=1)  # (n,)
    A12, B12 = sums[:, 0], sums[:, 1]  # (P, n)
    return linear_predictor_divergence(A1, B1, A12, B12, form)
