r"""Scores of links on many windows or orders at once; conditional CS from one Gram matrix per series.

Kernel values are visited in bands of diagonals, K[a, a + d]: a pair of windows is a pair of row ranges, and no n x n
matrix is ever held. Every exponential is computed once for all links and all surrogates; kernels of smaller bandwidths
are squares.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray, IntArray
from condcs._core.errors import ParameterError
from condcs._core.settings import current_settings, one_blas_thread
from condcs._core.vocabulary import named, setting
from condcs._measures.formulas import linear_predictor_divergence
from condcs.causal._influence_measures import ConditionalCS, Form, InfluenceBaseline, KernelGranger
from condcs.causal._predictive_choice import DenseGrams, base_bandwidths, chosen_levels
from condcs.causal._series import CausalProblem, Link, in_common_unit

BAND = 64
"""Diagonals of one band: for a few thousand times it fits in the second-level cache."""

SUMS_BUDGET = 256 * 2**20
"""Bytes of row sums kept at a time; if all links need more, bands are computed again for each batch of links."""

DENSE_BUDGET = 2 * 2**30
"""Bytes that the three n x n matrices of a re-ordering null may take: n = 9,400."""

_STARTS_PER_TASK = 26
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
            base, choose = base_bandwidths(problem, measure.bandwidth)
            self._base = base
            self._levels = chosen_levels(problem, base) if choose else np.zeros(len(problem.links), np.int64)
            exponents = [one.exponent for one in problem.series]
            self.bandwidths = np.ldexp(base * 2.0 ** (-self._levels[:, None] / 2), exponents)

    def on_windows(self, starts: Any, window: int, advance: Any = lambda count: None) -> FloatArray:
        """Return the scores (links x starts) on pairs of windows, given by (source start, target start)."""
        links = self.problem.links
        if isinstance(self.measure, ConditionalCS):
            scores = window_gram_scores(self.problem, self._base, self._levels, starts, window, self.measure.form)
            advance(len(links))
            return scores
        scores = np.empty((len(links), len(starts)))
        with self._few_threads():
            for link_scores, link in zip(scores, links, strict=True):
                target, condition, source = self.problem.parts(link)
                score = self.measure.scorer(condition, source)
                for column, (i, j) in enumerate(starts):
                    of_target, of_source = slice(j, j + window), slice(i, i + window)
                    link_scores[column] = score(target[of_target], condition[of_target], source[of_source])
                advance(1)
        return scores

    def on_row_orders(self, index: int, orders: Any) -> FloatArray:
        """Return the scores of one link with the source's rows in other orders."""
        link = self.problem.links[index]
        if isinstance(self.measure, ConditionalCS):
            level = int(self._levels[index])
            return reordered_gram_scores(self.problem, self._base, link, level, orders, self.measure.form)
        target, condition, source = self.problem.parts(link)
        score = self.measure.scorer(condition, source)
        with self._few_threads():
            return np.array([score(target, condition, source[order]) for order in orders])

    def _few_threads(self) -> AbstractContextManager[Any]:
        """Keep BLAS to one thread: on the small matrices of the baselines, starting more takes longer than the work."""
        full = isinstance(self.measure, KernelGranger) and self.measure.eigensolver == "full"
        return nullcontext() if full else one_blas_thread()

    def on_whole_series(self) -> FloatArray:
        """Return the score of each link on the whole series."""
        return self.on_windows(np.zeros((1, 2), np.int64), self.problem.rows)[:, 0]


def window_gram_scores(
    problem: CausalProblem, bandwidths: FloatArray, levels: Any, starts: IntArray, window: int, form: Form
) -> FloatArray:
    """Return the score of every link on every pair of windows (links x starts).

    `starts` has rows (source start, target start); `levels` says for each link how often its bandwidths are divided by
    sqrt(2). Cost O(S T^2) per link after O(n T) exponentials per series; memory O(n) for the bands and O(S T) per link.
    """
    starts = np.ascontiguousarray(starts, np.int64)  # (S, 2)
    bytes_per_link = 2 * len(starts) * window * 8
    batch = max(1, SUMS_BUDGET // bytes_per_link)
    scores = []
    for first in range(0, len(problem.links), batch):
        links, of_links = problem.links[first : first + batch], levels[first : first + batch]
        scores.append(_batch_scores(problem, bandwidths, links, of_links, starts, window, form))
    return np.concatenate(scores)


def _batch_scores(
    problem: CausalProblem, bandwidths: FloatArray, links: Any, levels: Any, starts: Any, window: int, form: Form
) -> FloatArray:
    """Return the scores (links x starts) of links whose row sums fit into memory together.

    Of each pair of windows the divergence takes four sums for each row: over K1 and K1 * L, in the window of the target
    alone (`condition_sums`), and both times the kernel of the source (`joint_sums`). Each band of diagonals adds its
    part to all of them.
    """
    from condcs.causal._gram_loops import condition_window_sums, window_sums

    joint_sums = np.zeros((len(links), len(starts), 2, window))
    # Links with the same target, conditions and bandwidth share K1, K1 * L and their sums.
    keys = [(link.target, link.conditioning_set, int(level)) for link, level in zip(links, levels, strict=True)]
    condition_sums = {key: np.zeros((len(starts), 2, window)) for key in keys}
    blocks = [slice(i, i + _STARTS_PER_TASK) for i in range(0, len(starts), _STARTS_PER_TASK)]
    with ThreadPoolExecutor(current_settings().n_threads) as threads:
        for first in range(1 - window, window, BAND):
            grams = _BandGrams(problem, bandwidths, first, min(BAND, window - first))
            K1, K1L, K2 = dict[Any, FloatArray](), dict[Any, FloatArray](), dict[Any, FloatArray]()
            for link, key in zip(links, keys, strict=True):
                level = key[-1]
                if key not in K1:
                    condition = grams.condition(link)
                    K1[key] = _narrowed(condition, level)
                    K1L[key] = _narrowed(condition * grams.target(link), level)
                if (link.source, level) not in K2:
                    K2[link.source, level] = _narrowed(grams.source(link), level)

            def add_joint(
                task: tuple[int, slice], first: int = first, K1: Any = K1, K1L: Any = K1L, K2: Any = K2
            ) -> None:
                index, block = task
                key, of_source = keys[index], K2[links[index].source, keys[index][-1]]
                window_sums(K1[key], K1L[key], of_source, starts[block], window, first, joint_sums[index, block])

            def add_condition(task: tuple[Any, slice], first: int = first, K1: Any = K1, K1L: Any = K1L) -> None:
                key, block = task
                condition_window_sums(K1[key], K1L[key], starts[block], window, first, condition_sums[key][block])

            list(threads.map(add_condition, [(key, block) for key in condition_sums for block in blocks]))
            list(threads.map(add_joint, [(i, block) for i in range(len(links)) for block in blocks]))
    scores = []
    for key, joint in zip(keys, joint_sums, strict=True):
        alone = condition_sums[key]  # (S, 2, window), as `joint`
        scores.append(linear_predictor_divergence(alone[:, 0], alone[:, 1], joint[:, 0], joint[:, 1], form))
    return np.stack(scores)


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
    problem: CausalProblem, bandwidths: FloatArray, link: Link, level: int, orders: IntArray, form: Form
) -> FloatArray:
    """Return the score of a link with the source's rows in each of the orders (P x n)."""
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
    a1, b1 = K1.sum(axis=1), K1L.sum(axis=1)
    workers = current_settings().n_threads
    chunks = np.array_split(np.ascontiguousarray(orders, np.int64), min(workers, len(orders)))
    with ThreadPoolExecutor(workers) as threads:
        parts = list(threads.map(lambda chunk: reordered_sums(K1, K1L, K2, chunk, 1)[:, 0], chunks))
    sums = np.concatenate(parts)
    return linear_predictor_divergence(a1, b1, sums[:, 0], sums[:, 1], form)
