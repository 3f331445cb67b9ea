"""Score and test of a causal link: a measure of influence on the data and on surrogates that break the link."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from condcs._core.arrays import Array, ByValue, FloatArray, IntArray
from condcs._core.checks import check_integer, check_rng
from condcs._core.errors import ParameterError, public
from condcs._core.progress import progress_bar
from condcs._core.settings import config_context
from condcs._core.vocabulary import setting
from condcs._inference.independence_tests import independence_test
from condcs._inference.nulls import circular_shifts, local_permutations, shifted_windows
from condcs._inference.repeated_independence import RepeatedIndependence
from condcs._inference.resampling import ROUNDING, check_numbers, pvalue
from condcs._inference.results import TestResult
from condcs._parallel.spreading import Shared, active_workers, in_order, spread
from condcs.causal._conditions import Conditions, inflated_pvalue, variance_inflation
from condcs.causal._gram_scores import Scorer
from condcs.causal._influence_measures import (
    ConditionalCS,
    InfluenceBaseline,
    InfluenceMeasure,
    check_influence_measure,
    f_test,
)
from condcs.causal._predictive_choice import EmbeddingOption, embeddings_of
from condcs.causal._series import (
    FEWEST_TARGETS,
    CausalProblem,
    Link,
    MissingTimes,
    check_different,
    check_flag,
    check_kind,
    check_one_series,
    check_rows,
    check_same_length,
    in_ranks,
)

_NEIGHBOURS = 5
"""Rows with a similar past that a permuted row may come from. More of them break more of the dependence of x on the
past of y, which is to stay; fewer leave few permutations to choose from."""

_WINDOW_PAIRS_PER_CALL = 52
"""Pairs of windows that one call to a worker scores. More leave some workers idle at the end; with fewer, the matrices
that the pairs share are computed more often. The scores are the same for any number."""

_CLOSED_FORM_ROWS = 2000
"""Rows up to which the p-values of random signs are in closed form; beyond, their matrices would take gigabytes."""

_FEWEST_BLOCKS = 10
"""Local permutations need at least this many blocks: with fewer, hardly one has another from a similar past."""


@dataclass(frozen=True)
class ShiftedWindows:
    """Surrogates that compare windows of x and y at different times: for stationary series of sufficient length.

    The paper's Algorithm 1, which prints its two branches swapped.

    Attributes
    ----------
    window : int, optional
        Rows of a window; by default half of the rows.
    minimum_offset : int, optional
        Smallest distance in time between x and y in a surrogate; by default half a window.
    n_windows : int
        A score, and that of each surrogate, is the mean over this many windows, spread over the series and all with the
        same offset in time. 1 is the paper's algorithm, which uses the first window only. More windows find more links
        and keep the level at least as well: the series itself has room for windows further apart than a surrogate has.
    """

    name: ClassVar[str] = "windows"
    window: int | None = None
    minimum_offset: int | None = None
    n_windows: int = 5


@dataclass(frozen=True)
class CircularShifts:
    """Surrogates that shift x circularly in time: they use all of a short series, but join its end to its start.

    Attributes
    ----------
    minimum_offset : int, optional
        Smallest shift; by default a tenth of the rows.
    """

    name: ClassVar[str] = "circular"
    minimum_offset: int | None = None


@dataclass(frozen=True)
class LocalPermutations:
    """Surrogates that permute the past of x, in blocks, among rows with a similar past of y.

    They keep the dependence of x on y, and are valid if that dependence changes little among neighbours.

    Attributes
    ----------
    block : int
        Length of the blocks that are permuted.
    """

    name: ClassVar[str] = "local"
    block: int = 1


Surrogates = ShiftedWindows | CircularShifts | LocalPermutations
NullName = Literal["auto", "signs", "windows", "circular", "local", "analytic"]
LinkNull = NullName | Surrogates
"""How surrogates are made, or the name of a null with its default options."""


@dataclass(frozen=True, eq=False)
class LinkTests(ByValue):
    """Outcome of testing several links: arrays with one entry (or row) per link.

    `null_names` are those of the nulls that some of the links were tested by, in the order of their first use.
    `rows_used` are the rows that each test really rests on: those with a complete past of the source, the target and
    everything that the link was conditioned on.
    """

    scores: FloatArray  # (links,)
    statistics: FloatArray  # (links,)
    null_distributions: FloatArray  # (links, resamples)
    pvalues: FloatArray  # (links,)
    bandwidths: FloatArray | None  # (links, variables)
    measure: str
    null_names: tuple[str, ...]
    window: int
    minimum_offset: int | None
    rows_used: IntArray  # (links,)

    @property
    def null(self) -> str:
        """The nulls as results name them, such as "signs and windows"."""
        return " and ".join(self.null_names)


def joined_tests(tests: Sequence[LinkTests], link_order: IntArray | slice = slice(None)) -> LinkTests:
    """Concatenate tests of different links, with the same measure, and then put the links in another order."""
    bandwidths = [part.bandwidths for part in tests if part.bandwidths is not None]
    # p-values in closed form have no resamples: NaN takes their place beside those that do.
    most_resamples = max(part.null_distributions.shape[1] for part in tests)
    null_distributions = []
    for part in tests:
        absent = most_resamples - part.null_distributions.shape[1]
        null_distributions.append(np.pad(part.null_distributions, ((0, 0), (0, absent)), constant_values=np.nan))
    null_names = dict.fromkeys(name for part in tests for name in part.null_names)  # each once, in order
    return replace(
        tests[0],
        window=min(part.window for part in tests),
        null_names=tuple(null_names),
        scores=np.concatenate([part.scores for part in tests])[link_order],
        statistics=np.concatenate([part.statistics for part in tests])[link_order],
        null_distributions=np.concatenate(null_distributions)[link_order],
        pvalues=np.concatenate([part.pvalues for part in tests])[link_order],
        bandwidths=np.concatenate(bandwidths)[link_order] if bandwidths else None,
        rows_used=np.concatenate([part.rows_used for part in tests])[link_order],
    )


@public
def causal_score(
    x: Array,
    y: Array,
    *,
    given: Array | Sequence[Array] | None = None,
    embedding: EmbeddingOption = "auto",
    measure: InfluenceMeasure = "conditional_cs",
    ranks: bool = False,
    missing: MissingTimes = "error",
) -> float:
    r"""Score of the influence of series x on series y: 0 if there is none, larger for a stronger one.

    The conditional CS divergence of Prop. 4 between p(y_t | past of y) and p(y_t | past of y, past of x):
    `condcs.conditional_cs_predictors` on (y_t, own past, past of x). A score has no unit; `causal_test` tests whether
    it is larger than by chance. Cost O(n^2); memory O(n).

    Parameters
    ----------
    x, y : array, shape (n,) or (n, d)
        The series: rows are equally spaced times.
    given : array or list of arrays, optional
        Other series whose pasts are conditioned on (at the lags of x), to tell direct from indirect links.
    embedding : "auto", int or Embedding
        Number of past values of each series, or an `Embedding` with lag and delay. By default lag and order are those
        that predict y best: from its own past, as `select_embeddings` chooses them, or, if others are given, from the
        pasts of all series together.
    measure : {"conditional_cs", "linear_granger", "kernel_granger", "transfer_entropy"} or an instance with options
        What is computed: `ConditionalCS`, or `LinearGranger`, `KernelGranger` or `TransferEntropy` for comparison.
    ranks : bool
        Replace the values of each series by their ranks first: no influence is lost by that, and outliers, which would
        outweigh whole regions, lose their weight.
    missing : {"error", "drop"}
        Whether NaN are refused, or every time is left out of which the target or a past value is missing. Times that
        are absent from the index of a pandas object are always left out in that way.

    Returns
    -------
    float
        The score.

    Examples
    --------
    >>> from condcs.datasets import make_nlvar3
    >>> x1, x2, x3 = make_nlvar3(500).series.T
    >>> causal_score(x1, x2) > 2 * causal_score(x2, x1)
    True
    >>> from condcs.causal import ConditionalCS
    >>> causal_score(x1, x2, embedding=2, measure=ConditionalCS(bandwidth="median")) > 0
    True
    """
    problem = _two_series_problem(x, y, given, ranks, missing, embedding)
    check_rows(problem)
    return float(Scorer(problem, check_influence_measure(measure)).on_whole_series()[0])


@public
def causal_test(
    x: Array,
    y: Array,
    *,
    given: Array | Sequence[Array] | None = None,
    embedding: EmbeddingOption = "auto",
    measure: InfluenceMeasure = "conditional_cs",
    ranks: bool = False,
    missing: MissingTimes = "error",
    null: LinkNull = "auto",
    n_resamples: int = 200,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
) -> TestResult:
    r"""Test whether series x drives series y.

    The null hypothesis: p(y_t | past of y) = p(y_t | past of y, past of x), that is, x does not cause y in Granger's
    sense. A small p-value means that it does.

    By default the test is chosen by what a regression on the conditioning variables leaves of the target: its own past,
    that of `given`, and, in a graph, that of the third series that helps most to predict it. If more than 1% of its
    variance, or of that of its steps if they vary less, is left, `condcs.independence_test` tests whether y_t and the
    past of x are independent given them: products of residuals against random signs, on all rows, with p-values in
    closed form up to 2,000 rows; they are corrected for the persistence of the two series. If almost nothing is left,
    as of a map that nothing drives, residuals are errors of the regression, and the score is compared with that of
    surrogates: windows of the two series at different times. The score and all surrogates share one Gram matrix per
    series. Cost O(P n^2); memory O(n P), O(n^2) in closed form.

    Parameters
    ----------
    x, y, given, embedding, measure, ranks, missing
        As in `causal_score`.
    null : {"auto", "signs", "windows", "circular", "local", "analytic"} or an instance with options
        "auto" is "signs" where noise is left and "windows" where not, and "windows" for other measures than
        conditional CS. Surrogates are made by `ShiftedWindows`, `CircularShifts` or `LocalPermutations`. The first two
        destroy every dependence between x and y: they test for "no relation", which is more than "no influence", and
        need more data. "analytic" is the F distribution, for ``measure="linear_granger"`` only.
    n_resamples : int
        Number of surrogates, and of random signs above 2,000 rows.
    rng : int or Generator, optional
        Random generator, or its seed.
    n_jobs : int, optional
        Threads; by default one per core.

    Returns
    -------
    TestResult
        `statistic` is what was tested: -log10 of the p-value for signs, which have no `null_distribution`; the mean
        score of the windows; or the score of the whole series for other nulls, which is ``details["score"]`` in any
        case.

    Examples
    --------
    >>> from condcs.datasets import make_nlvar3
    >>> x1, x2, x3 = make_nlvar3(800, rng=1).series.T
    >>> causal_test(x1, x2, rng=0).pvalue <= 0.05, causal_test(x2, x1, rng=0).pvalue <= 0.05
    (True, False)
    """
    problem = _two_series_problem(x, y, given, ranks, missing, embedding)
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        tests = run_link_tests(problem, measure, null, n_resamples, rng, progress=False)
    bandwidths = {}
    if tests.bandwidths is not None:
        names = ("bandwidth_x", "bandwidth_y", *(f"bandwidth_given_{i + 1}" for i in range(len(problem.series) - 2)))
        bandwidths = {name: np.array([width]) for name, width in zip(names, tests.bandwidths[0], strict=True)}
    form = measure.form if isinstance(measure, ConditionalCS) else "corrected"
    embedding_used = problem.embedding
    return TestResult(
        statistic=float(tests.statistics[0]),
        pvalue=float(tests.pvalues[0]),
        null_distribution=tests.null_distributions[0],
        measure=tests.measure,
        null=tests.null,
        sizes=(min(tests.window, int(tests.rows_used[0])),),
        bandwidths=bandwidths,
        details={
            "score": float(tests.scores[0]),
            "rows_used": int(tests.rows_used[0]),
            "form": form,
            "lag": embedding_used.lag,
            "delay": embedding_used.source_steps[0],
            "order_x": embedding_used.order_x,
            "order_y": embedding_used.order_y,
            "minimum_offset": tests.minimum_offset,
            "nonnegative": form == "corrected",
        },
    )


def _two_series_problem(
    x: Array, y: Array, given: Any, ranks: bool, missing: MissingTimes, embedding: EmbeddingOption
) -> CausalProblem:
    """Check two series and those that are conditioned on; they are series 0, 1, and 2, 3, ... of the problem."""
    if given is None:
        others = []
    elif isinstance(given, list | tuple):
        others = list(given)
    else:
        others = [given]
    series = [check_one_series("x", x, "x", missing), check_one_series("y", y, "y", missing)]
    for i, z in enumerate(others):
        name = "given" if len(others) == 1 else f"given[{i}]"
        series.append(check_one_series(name, z, name, missing))
    check_same_length(*series)
    check_different(series)
    if check_flag("ranks", ranks):
        series = in_ranks(series)
    link = Link(source=0, target=1, conditioning_set=tuple(range(2, len(series))))
    (target_embedding,) = embeddings_of(series, [link.target], embedding, conditional=len(series) > 2)
    return CausalProblem(tuple(series), target_embedding, (link,))


def run_link_tests(
    problem: CausalProblem,
    measure: InfluenceMeasure,
    null: LinkNull,
    n_resamples: int,
    rng: int | np.random.Generator | None,
    *,
    progress: bool,
    conditions: Conditions | None = None,
) -> LinkTests:
    """Score all links of a problem on the data and on surrogates, or test them by signs given the conditions."""
    checked_measure = check_influence_measure(measure)
    checked_null = _check_null(null, checked_measure)
    resamples = check_integer("n_resamples", n_resamples, 1)
    generator = check_rng(rng)
    check_rows(problem)
    if checked_null == "auto":
        return _links_by_noise(problem, checked_measure, resamples, generator, progress=progress)
    scorer = Scorer(problem, checked_measure)
    if checked_null == "analytic":
        return _links_by_f_test(scorer)
    null_name = checked_null if isinstance(checked_null, str) else checked_null.name
    with progress_bar(len(problem.links), progress, f"{checked_measure.name}, {null_name} null") as advance:
        if isinstance(checked_null, str):
            return _links_by_signs(scorer, conditions or Conditions(problem), resamples, generator, advance)
        if isinstance(checked_null, ShiftedWindows):
            return _links_by_windows(scorer, checked_null, resamples, generator, advance)
        return _links_by_reordering(scorer, checked_null, resamples, generator, advance)


def _check_null(
    null: LinkNull, measure: ConditionalCS | InfluenceBaseline
) -> Literal["auto", "signs", "analytic"] | Surrogates:
    """Check that a null goes with the measure; "auto" is "windows" for all measures but conditional CS."""
    has_residual_test = isinstance(measure, ConditionalCS)
    if null == "auto" and not has_residual_test:
        null = "windows"
    if null == "signs" and not has_residual_test:
        raise ParameterError(
            f"`{setting('null', 'signs')}` must go with {setting('measure', 'conditional_cs')}, got {measure.name!r}: "
            f"it is a test of its own. Pass {setting('null', 'windows')}."
        )
    if null == "analytic" and measure.name != "linear_granger":
        raise ParameterError(
            f"`{setting('null', 'analytic')}` must go with {setting('measure', 'linear_granger')}, got "
            f"{measure.name!r}: no other measure has a distribution in closed form here. Pass "
            f"{setting('null', 'windows')}."
        )
    if null == "auto" or null == "signs" or null == "analytic":
        return null
    kinds = (ShiftedWindows, CircularShifts, LocalPermutations)
    surrogates: Surrogates = check_kind("null", null, kinds, "auto", "signs", "analytic")
    return surrogates


def _links_by_noise(
    problem: CausalProblem,
    measure: ConditionalCS | InfluenceBaseline,
    n_resamples: int,
    rng: np.random.Generator,
    *,
    progress: bool,
) -> LinkTests:
    """Test links by signs if what they are conditioned on leaves noise of the target, and others by windows."""
    conditions = Conditions(problem)
    is_noisy = np.array([conditions.leave_noise(link) for link in problem.links])  # (links,)
    links_by_null: dict[NullName, IntArray] = {"signs": np.flatnonzero(is_noisy), "windows": np.flatnonzero(~is_noisy)}
    tests = []
    for name, indices in links_by_null.items():
        if len(indices):
            subproblem = replace(problem, links=tuple(problem.links[index] for index in indices))
            tests.append(
                run_link_tests(subproblem, measure, name, n_resamples, rng, progress=progress, conditions=conditions)
            )
    # Tests come null by null; sorting their indices brings them back into the order of the links.
    indices_of_tests = np.concatenate(list(links_by_null.values()))
    return joined_tests(tests, np.argsort(indices_of_tests))


def _links_by_windows(
    scorer: Scorer, null: ShiftedWindows, n_resamples: int, rng: np.random.Generator, advance: Any
) -> LinkTests:
    """Compare the mean score of windows at the same times with that of windows at different times."""
    n = scorer.problem.rows
    window = check_integer(
        "window",
        n // 2 if null.window is None else null.window,
        min(FEWEST_TARGETS, n // 2),
        n - 1,
        because=f" (there are {n} rows)",
    )
    minimum_offset = window // 2 if null.minimum_offset is None else null.minimum_offset
    draws = shifted_windows(n, window=window, minimum_offset=minimum_offset, count=n_resamples, rng=rng)
    n_windows = check_integer("n_windows", null.n_windows, 1)
    # Starts of pairs of windows, ((1 + draws) * n_windows, 2); the first `n_windows` are the data, at offset 0.
    window_pairs = np.concatenate([[[0, 0]], draws])
    if n_windows > 1:
        window_pairs = spread_windows(draws, n, window, n_windows)
    if active_workers() is None:
        values = scorer.on_windows(window_pairs, window, advance)
    else:
        firsts = range(0, len(window_pairs), _WINDOW_PAIRS_PER_CALL)
        calls = ((window_pairs[i : i + _WINDOW_PAIRS_PER_CALL], window) for i in firsts)
        values = np.concatenate(list(_scores_of_calls(scorer, Scorer.on_windows, calls)), axis=1)
    # (links, (1 + draws) * n_windows) -> (links, 1 + draws): the mean over the windows of one offset.
    scores = values.reshape(len(values), -1, n_windows).mean(axis=2)
    # Several windows are spread from the first row to the last; a single one is all that its test sees.
    rows_used = window if n_windows == 1 else n
    return _tests_by_surrogates(
        scorer,
        null.name,
        scores=scorer.on_whole_series(),
        statistics=scores[:, 0],
        null_distributions=scores[:, 1:],
        window=window,
        minimum_offset=minimum_offset,
        rows_used=rows_used,
    )


def spread_windows(draws: IntArray, n: int, window: int, n_windows: int) -> IntArray:
    """Return pairs of windows for the series as it is (offset 0) and for the offset of each draw.

    Each draw and each pair is (source start, target start). The pairs of an offset are evenly spaced over all starts at
    which both windows fit; there are `n_windows` rows for each offset, those of offset 0 first.
    """
    source_starts, target_starts = draws.T
    offset = np.concatenate([[0], source_starts - target_starts])[:, None]  # (1 + draws, 1)
    # The first and the last start of the target's window at which the source's window fits, too.
    first = np.maximum(0, -offset)
    last = n - window - np.maximum(0, offset)
    target = np.rint(first + (last - first) * np.linspace(0, 1, n_windows)).astype(np.int64)  # (1 + draws, n_windows)
    return np.stack([target + offset, target], axis=2).reshape(-1, 2)


def _links_by_reordering(
    scorer: Scorer,
    null: CircularShifts | LocalPermutations,
    n_resamples: int,
    rng: np.random.Generator,
    advance: Any,
) -> LinkTests:
    """Compare the score of the whole series with those after the rows of the source are put in other orders."""
    problem, n = scorer.problem, scorer.problem.rows
    link_rngs = rng.spawn(len(problem.links))
    minimum_offset: int | None = None
    shifted_orders: IntArray = np.empty((0, n), np.int64)
    if isinstance(null, CircularShifts):
        minimum_offset = max(1, n // 10) if null.minimum_offset is None else null.minimum_offset
        shifts = circular_shifts(n, minimum_offset=minimum_offset, count=n_resamples, rng=rng)
        shifted_orders = (np.arange(n) + shifts[:, None]) % n  # (resamples, n)
    else:
        longest = n // _FEWEST_BLOCKS
        check_integer("block", null.block, 1, longest, because=f" (a tenth of the {n} rows)")

    def calls() -> Iterator[tuple[int, IntArray]]:
        """Yield the index of each link, with orders of rows: as they are, then one for each resample."""
        for index, (link, link_rng) in enumerate(zip(problem.links, link_rngs, strict=True)):
            row_orders = shifted_orders  # the same for all links
            if isinstance(null, LocalPermutations):
                row_orders = block_permutations(problem, link, null.block, n_resamples, link_rng)
            yield index, np.concatenate([np.arange(n)[None], row_orders])

    scores_by_link = []
    for link_scores in _scores_of_calls(scorer, Scorer.on_row_orders, calls()):
        scores_by_link.append(link_scores)
        advance(1)
    scores = np.array(scores_by_link)  # (links, 1 + resamples); column 0 is the order as it is
    return _tests_by_surrogates(
        scorer,
        null.name,
        scores=scores[:, 0],
        statistics=scores[:, 0],
        null_distributions=scores[:, 1:],
        window=n,
        minimum_offset=minimum_offset,
        rows_used=n,
    )


def _scores_of_calls(
    scorer: Scorer, method: Callable[..., FloatArray], calls: Iterable[tuple[Any, ...]]
) -> Iterator[FloatArray]:
    """Yield what a method of the scorer returns for each call, in order; computed by joblib's active workers."""
    workers = active_workers()
    if workers is None:
        return (method(scorer, *call) for call in calls)
    shared = Shared(partial(_identity, scorer))
    return in_order(spread(method, ((shared, *call) for call in calls), workers))


def _identity(scorer: Scorer) -> Scorer:
    """Return the scorer: a worker makes its copy of what is shared by a call."""
    return scorer


def block_permutations(
    problem: CausalProblem, link: Link, block: int, count: int, rng: np.random.Generator
) -> IntArray:
    """Draw orders of rows (count x n) in which blocks take the place of others that start from a similar past of y."""
    n = problem.rows
    condition = problem.parts(link)[1]
    first_rows = np.arange(0, n - n % block, block)  # (blocks,)
    neighbours = min(_NEIGHBOURS, len(first_rows))
    drawn_blocks = local_permutations(condition[first_rows], neighbours=neighbours, count=count, rng=rng)
    # Rows after the last whole block stay where they are.
    row_orders = np.tile(np.arange(n), (count, 1))
    for step in range(block):
        row_orders[:, first_rows + step] = first_rows[drawn_blocks] + step
    return row_orders


def _links_by_signs(
    scorer: Scorer, conditions: Conditions, n_resamples: int, rng: np.random.Generator, advance: Any
) -> LinkTests:
    """Test each link by products of residuals under random signs; the scores are those of the whole series."""
    problem, closed_form_test = scorer.problem, RepeatedIndependence()
    pvalues = np.empty(len(problem.links))
    rows_used = np.empty(len(problem.links), np.int64)
    link_rngs = rng.spawn(len(problem.links))
    for index, (link, link_rng) in enumerate(zip(problem.links, link_rngs, strict=True)):
        indices = conditions.of(link)
        complete = conditions.complete(indices)  # (rows,)
        rows_used[index] = complete.sum()
        parts = conditions.source_past(link), conditions.targets(link.target, indices), conditions.columns(indices)
        x, y, z = (part[complete] for part in parts)
        if len(y) <= _CLOSED_FORM_ROWS:
            p = closed_form_test(x, y, z).pvalue
        else:
            p = independence_test(x, y, given=z, n_resamples=n_resamples, rng=link_rng).pvalue
        # What all pasts, that of the source among them, do not explain of the target tells of its memory.
        of_source = ((link.source, step) for step in problem.embedding.source_steps)
        residuals = conditions.residuals(link.target, tuple(sorted({*indices, *of_source})))
        pvalues[index] = inflated_pvalue(p, variance_inflation(problem, link, residuals))
        advance(1)
    return _tests_in_closed_form(scorer, "signs", scorer.on_whole_series(), -np.log10(pvalues), pvalues, rows_used)


def _links_by_f_test(scorer: Scorer) -> LinkTests:
    """Test each link by the F distribution of linear Granger causality."""
    statistics, pvalues = np.array([f_test(*scorer.problem.parts(link)) for link in scorer.problem.links]).T
    check_numbers(pvalues, "for the series as given")
    rows_used = np.full(len(pvalues), scorer.problem.rows)
    return _tests_in_closed_form(scorer, "analytic", statistics, statistics, pvalues, rows_used)


def _tests_in_closed_form(
    scorer: Scorer, null: str, scores: FloatArray, statistics: FloatArray, pvalues: FloatArray, rows_used: IntArray
) -> LinkTests:
    """Collect tests without resamples."""
    return LinkTests(
        scores=scores,
        statistics=statistics,
        null_distributions=np.empty((len(pvalues), 0)),
        pvalues=pvalues,
        bandwidths=scorer.bandwidths,
        measure=scorer.measure.name,
        null_names=(null,),
        window=scorer.problem.rows,
        minimum_offset=None,
        rows_used=rows_used,
    )


def _tests_by_surrogates(
    scorer: Scorer,
    null_name: str,
    scores: FloatArray,
    statistics: FloatArray,
    null_distributions: FloatArray,
    *,
    window: int,
    minimum_offset: int | None,
    rows_used: int,
) -> LinkTests:
    """Collect tests that compare the statistic of each link with those of its surrogates, shape (links, resamples)."""
    pvalues = [
        pvalue(float(statistic), null_scores, rounding=ROUNDING)
        for statistic, null_scores in zip(statistics, null_distributions, strict=True)
    ]
    return LinkTests(
        scores=scores,
        statistics=statistics,
        null_distributions=null_distributions,
        pvalues=np.array(pvalues),
        bandwidths=scorer.bandwidths,
        measure=scorer.measure.name,
        null_names=(null_name,),
        window=window,
        minimum_offset=minimum_offset,
        rows_used=np.full(len(pvalues), rows_used),
    )
