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
from condcs.causal._conditions import Conditions, variance_inflation, widened
from condcs.causal._gram_scores import Scorer
from condcs.causal._influence_measures import ConditionalCS, InfluenceMeasure, check_measure, f_test
from condcs.causal._predictive_choice import EmbeddingOption, embeddings_of
from condcs.causal._series import (
    FEWEST_ROWS,
    CausalProblem,
    Link,
    Missing,
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

_STARTS_PER_CALL = 52
"""Pairs of windows that one call to a worker scores. More leave some workers idle at the end; with fewer, the matrices
that the pairs share are computed more often. The scores are the same for any number."""


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

_CLOSED_FORM_ROWS = 2000
"""Rows up to which the p-values of random signs are in closed form; beyond, its matrices would take gigabytes."""


@dataclass(frozen=True, eq=False)
class LinkTests(ByValue):
    """Outcome of testing several links: arrays with one entry (or row) per link.

    `null_names` are those of the nulls that some of the links were tested by, in the order of their first use.
    `rows_used` are the rows that each test really rests on: those with a complete past of the source, the target and
    everything that the link was conditioned on.
    """

    scores: FloatArray  # (links,)
    statistics: FloatArray  # (links,)
    nulls: FloatArray  # (links, resamples)
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


def joined_tests(parts: Sequence[LinkTests], order: Any = slice(None)) -> LinkTests:
    """Concatenate tests of different links, with the same measure, and then put the links in another order."""
    bandwidths = [part.bandwidths for part in parts if part.bandwidths is not None]
    # p-values in closed form have no resamples: NaN takes their place beside those that do.
    drawn = max(part.nulls.shape[1] for part in parts)
    nulls = [np.pad(part.nulls, ((0, 0), (0, drawn - part.nulls.shape[1])), constant_values=np.nan) for part in parts]
    null_names = dict.fromkeys(name for part in parts for name in part.null_names)  # each once, in order
    return replace(
        parts[0],
        window=min(part.window for part in parts),
        null_names=tuple(null_names),
        scores=np.concatenate([part.scores for part in parts])[order],
        statistics=np.concatenate([part.statistics for part in parts])[order],
        nulls=np.concatenate(nulls)[order],
        pvalues=np.concatenate([part.pvalues for part in parts])[order],
        bandwidths=np.concatenate(bandwidths)[order] if bandwidths else None,
        rows_used=np.concatenate([part.rows_used for part in parts])[order],
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
    missing: Missing = "error",
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
    return float(Scorer(problem, check_measure(measure)).on_everything()[0])


@public
def causal_test(
    x: Array,
    y: Array,
    *,
    given: Array | Sequence[Array] | None = None,
    embedding: EmbeddingOption = "auto",
    measure: InfluenceMeasure = "conditional_cs",
    ranks: bool = False,
    missing: Missing = "error",
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
        bandwidths = {name: np.array([b]) for name, b in zip(names, tests.bandwidths[0], strict=True)}
    form = measure.form if isinstance(measure, ConditionalCS) else "corrected"
    e = problem.embedding
    return TestResult(
        statistic=float(tests.statistics[0]),
        pvalue=float(tests.pvalues[0]),
        null_distribution=tests.nulls[0],
        measure=tests.measure,
        null=tests.null,
        sizes=(min(tests.window, int(tests.rows_used[0])),),
        bandwidths=bandwidths,
        details={
            "score": float(tests.scores[0]),
            "rows_used": int(tests.rows_used[0]),
            "form": form,
            "lag": e.lag,
            "delay": e.source_steps[0],
            "order_x": e.order_x,
            "order_y": e.order_y,
            "minimum_offset": tests.minimum_offset,
            "nonnegative": form == "corrected",
        },
    )


def _two_series_problem(
    x: Array, y: Array, given: Any, ranks: bool, missing: Missing, embedding: EmbeddingOption
) -> CausalProblem:
    others = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    series = [check_one_series("x", x, "x", missing), check_one_series("y", y, "y", missing)]
    for i, z in enumerate(others):
        name = "given" if len(others) == 1 else f"given[{i}]"
        series.append(check_one_series(name, z, name, missing))
    check_same_length(*series)
    check_different(series)
    series = in_ranks(series) if check_flag("ranks", ranks) else series
    links = (Link(0, 1, tuple(range(2, len(series)))),)
    chosen = embeddings_of(series, [1], embedding, conditional=len(series) > 2)[0]
    return CausalProblem(tuple(series), chosen, links)


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
    chosen = check_measure(measure)
    by_residuals = isinstance(chosen, ConditionalCS)
    surrogates: Surrogates | None = None
    if null == "auto" and not by_residuals:
        null = "windows"
    if null == "signs" and not by_residuals:
        raise ParameterError(
            f"`{setting('null', 'signs')}` must go with {setting('measure', 'conditional_cs')}, got {chosen.name!r}: "
            f"it is a test of its own. Pass {setting('null', 'windows')}."
        )
    if null == "analytic" and chosen.name != "linear_granger":
        raise ParameterError(
            f"`{setting('null', 'analytic')}` must go with {setting('measure', 'linear_granger')}, got "
            f"{chosen.name!r}: no other measure has a distribution in closed form here. Pass "
            f"{setting('null', 'windows')}."
        )
    if null not in ("auto", "signs", "analytic"):
        kinds = (ShiftedWindows, CircularShifts, LocalPermutations)
        surrogates = check_kind("null", null, kinds, "auto", "signs", "analytic")
    count = check_integer("n_resamples", n_resamples, 1)
    generator = check_rng(rng)
    check_rows(problem)
    if null == "auto":
        return _by_noise(problem, chosen, count, generator, progress=progress)
    scorer = Scorer(problem, chosen)
    if null == "analytic":
        return _analytic(scorer)
    title = f"{chosen.name}, {null if surrogates is None else surrogates.name} null"
    with progress_bar(len(problem.links), progress, title) as advance:
        if surrogates is None:
            return _by_signs(scorer, conditions or Conditions(problem), count, generator, advance)
        if isinstance(surrogates, ShiftedWindows):
            return _by_windows(scorer, surrogates, count, generator, advance)
        return _by_orders(scorer, surrogates, count, generator, advance)


def _by_noise(
    problem: CausalProblem, measure: InfluenceMeasure, n_resamples: int, rng: np.random.Generator, *, progress: bool
) -> LinkTests:
    """Test links by signs if what they are conditioned on leaves noise of the target, and others by windows."""
    conditions = Conditions(problem)
    noisy = np.array([conditions.leave_noise(link) for link in problem.links])
    groups: dict[NullName, IntArray] = {"signs": np.flatnonzero(noisy), "windows": np.flatnonzero(~noisy)}
    tests = []
    for name, members in groups.items():
        if len(members):
            subproblem = replace(problem, links=tuple(problem.links[index] for index in members))
            tests.append(
                run_link_tests(subproblem, measure, name, n_resamples, rng, progress=progress, conditions=conditions)
            )
    # Tests come null by null; sorting their indices brings them back into the order of the links.
    indices = np.concatenate(list(groups.values()))
    return joined_tests(tests, np.argsort(indices))


def _by_windows(
    scorer: Scorer, null: ShiftedWindows, n_resamples: int, rng: np.random.Generator, advance: Any
) -> LinkTests:
    n = scorer.problem.rows
    fewest, most = min(FEWEST_ROWS, n // 2), n - 1
    half = n // 2 if null.window is None else null.window
    window = check_integer("window", half, fewest, most, because=f" (there are {n} rows)")
    offset = window // 2 if null.minimum_offset is None else null.minimum_offset
    draws = shifted_windows(n, window=window, minimum_offset=offset, count=n_resamples, rng=rng)
    count = check_integer("n_windows", null.n_windows, 1)
    starts = spread_windows(draws, n, window, count) if count > 1 else np.concatenate([[[0, 0]], draws])
    if active_workers() is None:
        values = scorer.on_windows(starts, window, advance)
    else:
        batches = ((starts[i : i + _STARTS_PER_CALL], window) for i in range(0, len(starts), _STARTS_PER_CALL))
        values = np.concatenate(list(_answers(scorer, Scorer.on_windows, batches)), axis=1)
    # (links, (1 + draws) * count) -> (links, 1 + draws): the mean over the windows of one offset.
    scores = values.reshape(len(values), -1, count).mean(axis=2)
    return _finished(scorer, null, scores[:, 0], scores[:, 1:], scorer.on_everything(), window, offset)


def spread_windows(draws: IntArray, n: int, window: int, count: int) -> IntArray:
    """Return starts of `count` pairs of windows for the series as it is (offset 0) and for the offset of each draw.

    The pairs of an offset are evenly spaced over all starts at which both windows fit; `count` rows for each offset.
    """
    offset = np.concatenate([[0], draws[:, 0] - draws[:, 1]])[:, None]  # (1 + draws, 1)
    # The first and the last start of the target's window at which the source's window fits, too.
    first, last = np.maximum(0, -offset), n - window - np.maximum(0, offset)
    target = np.rint(first + (last - first) * np.linspace(0, 1, count)).astype(np.int64)  # (1 + draws, count)
    return np.stack([target + offset, target], axis=2).reshape(-1, 2)


def _by_orders(
    scorer: Scorer,
    null: CircularShifts | LocalPermutations,
    n_resamples: int,
    rng: np.random.Generator,
    advance: Any,
) -> LinkTests:
    problem, n = scorer.problem, scorer.problem.rows
    streams = rng.spawn(len(problem.links))
    offset, orders = None, np.empty((0, n), np.int64)
    if isinstance(null, CircularShifts):
        offset = max(1, n // 10) if null.minimum_offset is None else null.minimum_offset
        offsets = circular_shifts(n, minimum_offset=offset, count=n_resamples, rng=rng)
        orders = (np.arange(n) + offsets[:, None]) % n
    else:
        check_integer("block", null.block, 1, n // 10, because=f" (a tenth of the {n} rows)")

    def calls() -> Iterator[tuple[int, Any]]:
        for index, (link, stream) in enumerate(zip(problem.links, streams, strict=True)):
            drawn: IntArray = orders
            if isinstance(null, LocalPermutations):
                drawn = block_orders(problem, link, null.block, n_resamples, stream)
            yield index, np.concatenate([np.arange(n)[None], drawn])

    rows = []
    for link_scores in _answers(scorer, Scorer.on_orders, calls()):
        rows.append(link_scores)
        advance(1)
    scores = np.array(rows)  # (links, 1 + resamples); column 0 is the order as it is
    return _finished(scorer, null, scores[:, 0], scores[:, 1:], scores[:, 0], n, offset)


def _answers(
    scorer: Scorer, method: Callable[..., FloatArray], calls: Iterable[tuple[Any, ...]]
) -> Iterator[FloatArray]:
    """Yield what a method of the scorer returns for each call, in order; computed by joblib's active workers."""
    workers = active_workers()
    if workers is None:
        return (method(scorer, *call) for call in calls)
    shared = Shared(partial(_itself, scorer))
    return in_order(spread(method, ((shared, *call) for call in calls), workers))


def _itself(scorer: Scorer) -> Scorer:
    return scorer


def block_orders(problem: CausalProblem, link: Link, block: int, count: int, rng: np.random.Generator) -> IntArray:
    """Draw orders in which blocks of rows change places with blocks that start from a similar past of the target."""
    n = problem.rows
    condition = problem.parts(link)[1]
    first = np.arange(0, n - n % block, block)
    drawn = local_permutations(condition[first], neighbours=min(_NEIGHBOURS, len(first)), count=count, rng=rng)
    orders = np.tile(np.arange(n), (count, 1))
    for step in range(block):
        orders[:, first + step] = first[drawn] + step
    return orders


def _by_signs(
    scorer: Scorer, conditions: Conditions, n_resamples: int, rng: np.random.Generator, advance: Any
) -> LinkTests:
    """Test each link by products of residuals under random signs; the scores are those of the whole series."""
    problem, tests = scorer.problem, RepeatedIndependence()
    pvalues = np.empty(len(problem.links))
    rows_used = np.empty(len(problem.links), np.int64)
    for index, (link, stream) in enumerate(zip(problem.links, rng.spawn(len(problem.links)), strict=True)):
        values = conditions.of(link)
        target, _, source = problem.parts(link)
        condition, complete = conditions.columns(values), conditions.complete(values)
        rows_used[index] = complete.sum()
        x, y, z = (part[complete] for part in (source, target, condition))
        if len(y) <= _CLOSED_FORM_ROWS:
            p = tests(x, y, z).pvalue
        else:
            p = independence_test(x, y, given=z, n_resamples=n_resamples, rng=stream).pvalue
        # What all pasts, that of the source among them, do not explain of the target tells of its memory.
        of_source = ((link.source, step) for step in problem.embedding.source_steps)
        residuals = conditions.residuals(link.target, tuple(sorted({*values, *of_source})))
        pvalues[index] = widened(p, variance_inflation(problem, link, residuals))
        advance(1)
    return _in_closed_form(scorer, "signs", scorer.on_everything(), -np.log10(pvalues), pvalues, rows_used)


def _analytic(scorer: Scorer) -> LinkTests:
    statistics, pvalues = np.array([f_test(*scorer.problem.parts(link)) for link in scorer.problem.links]).T
    check_numbers(pvalues, "for the series as given")
    rows_used = np.full(len(pvalues), scorer.problem.rows)
    return _in_closed_form(scorer, "analytic", statistics, statistics, pvalues, rows_used)


def _in_closed_form(
    scorer: Scorer, null: str, scores: FloatArray, statistics: FloatArray, pvalues: FloatArray, rows_used: IntArray
) -> LinkTests:
    return LinkTests(
        scores=scores,
        statistics=statistics,
        nulls=np.empty((len(pvalues), 0)),
        pvalues=pvalues,
        bandwidths=scorer.bandwidths,
        measure=scorer.measure.name,
        null_names=(null,),
        window=scorer.problem.rows,
        minimum_offset=None,
        rows_used=rows_used,
    )


def _finished(
    scorer: Scorer,
    null: Surrogates,
    statistics: FloatArray,
    nulls: FloatArray,
    scores: FloatArray,
    window: int,
    offset: int | None,
) -> LinkTests:
    pvalues = np.array([pvalue(float(s), drawn, rounding=ROUNDING) for s, drawn in zip(statistics, nulls, strict=True)])
    # Several windows are spread from the first row to the last; a single one is all that its test sees.
    one_window = isinstance(null, ShiftedWindows) and null.n_windows == 1
    rows = window if one_window else scorer.problem.rows
    return LinkTests(
        scores=scores,
        statistics=statistics,
        nulls=nulls,
        pvalues=pvalues,
        bandwidths=scorer.bandwidths,
        measure=scorer.measure.name,
        null_names=(null.name,),
        window=window,
        minimum_offset=offset,
        rows_used=np.full(len(pvalues), rows),
    )
