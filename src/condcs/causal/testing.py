"""Test of one causal link: score, surrogates, p-value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from condcs.causal.embedding import check_embedding
from condcs.causal.gram_scores import reordered_gram_scores, window_gram_scores
from condcs.causal.linear_granger import f_test
from condcs.causal.measures import CS, check_measure, prepared
from condcs.causal.problem import CausalProblem, Link, reordered_scores, window_scores
from condcs.causal.series import (
    FloatArray,
    Series,
    check_flag,
    check_one_series,
    check_same_length,
    in_common_unit,
    in_ranks,
)
from condcs.causal.widths import base_widths, chosen_levels, width_in_unit
from condcs.core.arrays import Array
from condcs.core.checks import check_choice, check_integer
from condcs.core.equality import ByValue
from condcs.core.errors import ParameterError, public
from condcs.core.parallel import Shared, active_workers, in_order, spread
from condcs.core.progress import progress_bar
from condcs.core.random import check_rng
from condcs.core.settings import config_context
from condcs.core.thread_limit import one_blas_thread
from condcs.inference.nulls import circular_shifts, local_permutations, shifted_windows
from condcs.inference.results import ROUNDING, TestResult, check_numbers, pvalue

NULLS = ("windows", "circular", "local", "analytic")

N_WINDOWS = 5
"""Windows that a score is averaged over: one alone depends on where it lies more than on the link."""

_FEWEST_IN_WINDOW = 20
_NEIGHBOURS = 5
_STARTS_PER_CALL = 52


@dataclass(frozen=True)
class NullSettings:
    """How surrogates are made; None stands for the default, which depends on the length of the series."""

    kind: str = "windows"
    n_resamples: int = 200
    window: int | None = None
    minimum_offset: int | None = None
    n_windows: int = N_WINDOWS
    block: int = 1


@dataclass(frozen=True, eq=False)
class LinkTests(ByValue):
    """Outcome of testing several links: arrays with one entry (or row) per link."""

    scores: FloatArray
    statistics: FloatArray
    nulls: FloatArray
    pvalues: FloatArray
    widths: FloatArray | None
    window: int
    minimum_offset: int | None


@public
def causal_test(
    x: Array,
    y: Array,
    *,
    lag: int = 1,
    delay: int | None = None,
    order: int = 1,
    order_x: int | None = None,
    order_y: int | None = None,
    given: Array | Sequence[Array] | None = None,
    ranks: bool = False,
    measure: str = CS,
    form: str = "corrected",
    bandwidth: Any = None,
    null: str = "windows",
    n_resamples: int = 200,
    window: int | None = None,
    minimum_offset: int | None = None,
    n_windows: int = N_WINDOWS,
    block: int = 1,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> TestResult:
    r"""Test whether series x drives series y.

    The null hypothesis: p(y_t | past of y) = p(y_t | past of y, past of x), that is, x does not cause y in Granger's
    sense. A small p-value means that x does.

    Surrogates keep each series as it is and break the link in time. For 1,024 rows the score and all surrogates share
    one Gram matrix per series. Cost O(P T^2); memory O(n).

    Parameters
    ----------
    x, y, lag, delay, order, order_x, order_y, given, ranks, measure, form, bandwidth, options
        As in `causal_score`.
    null : {"windows", "circular", "local", "analytic"}
        "windows" compares windows of x and y at the same time with windows at different times (the paper's Algorithm 1,
        which prints its two branches swapped): for stationary series of twice the length that a score needs. "circular"
        turns x round in time: all of a short series, at the price of a seam. "local" permutes the past of x (in blocks)
        among rows with a similar past of y: it keeps the dependence of x on y, and is valid as far as that changes
        little among neighbours. The first two destroy every dependence between x and y: they answer for "no relation",
        which is more than "no influence". "analytic" is the F distribution, for ``measure="linear_granger"`` only.
    n_resamples : int
        Number of surrogates.
    window, minimum_offset : int, optional
        Rows of a window, and least distance in time between x and y in a surrogate. By default half of the rows and
        half a window; for "circular", a tenth of the rows.
    n_windows : int
        A score, and that of each surrogate, is the mean over so many windows, spread over the series and all with the
        same offset in time. 1 is the paper's algorithm, which looks at the first window alone. More find more links,
        and keep the level at least as well: the series itself has room for windows further apart than a surrogate has.
    block : int
        For "local": length of the blocks that are permuted.
    rng : int or Generator, optional
        Seed.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TestResult
        `statistic` is the mean score of the windows, or that of the whole series for other nulls; ``details["score"]``
        is that of the whole series in any case.

    Examples
    --------
    >>> from condcs.datasets import make_nlvar3
    >>> x1, x2, x3 = make_nlvar3(800, rng=1).series.T
    >>> causal_test(x1, x2, rng=0).pvalue <= 0.05, causal_test(x2, x1, rng=0).pvalue <= 0.05
    (True, False)
    """
    problem = two_series_problem(x, y, given, ranks, lag, delay, order, order_x, order_y)
    settings = NullSettings(null, n_resamples, window, minimum_offset, n_windows, block)
    found = tested_links(problem, measure, form, bandwidth, settings, rng, n_jobs, progress, options)
    widths = {}
    if found.widths is not None:
        names = ("bandwidth_x", "bandwidth_y", *(f"bandwidth_given_{i + 1}" for i in range(len(problem.series) - 2)))
        widths = {name: np.array([w]) for name, w in zip(names, found.widths[0], strict=True)}
    e = problem.embedding
    return TestResult(
        statistic=float(found.statistics[0]),
        pvalue=float(found.pvalues[0]),
        null_distribution=found.nulls[0],
        measure=measure,
        null=null,
        sizes=(found.window,),
        bandwidths=widths,
        details={
            "score": float(found.scores[0]),
            "form": form,
            "lag": e.lag,
            "delay": e.delay,
            "order_x": e.order_x,
            "order_y": e.order_y,
            "minimum_offset": found.minimum_offset,
            "nonnegative": form == "corrected",
            "bandwidth": "a causal test",
        },
    )


def two_series_problem(
    x: Array, y: Array, given: Any, ranks: bool, lag: Any, delay: Any, order: Any, order_x: Any, order_y: Any
) -> CausalProblem:
    """Check the arguments that `causal_score` and `causal_test` share."""
    others = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    series = [check_one_series("x", x, "x"), check_one_series("y", y, "y")]
    for i, z in enumerate(others):
        name = "given" if len(others) == 1 else f"given[{i}]"
        series.append(check_one_series(name, z, name))
    check_same_length(*series)
    _check_different(series)
    series = in_ranks(series) if check_flag("ranks", ranks) else series
    embedding = check_embedding(lag, delay, order, order_x, order_y, len(series[0]))
    return CausalProblem(tuple(series), embedding, (Link(0, 1, tuple(range(2, len(series)))),))


def _check_different(series: Sequence[Series]) -> None:
    for j, b in enumerate(series):
        for a in series[:j]:
            if a.exponent == b.exponent and np.array_equal(a.values, b.values):
                raise ParameterError(
                    f"`{a.name}` and `{b.name}` must be different series, but they are equal. Leave one of them out."
                )


def tested_links(
    problem: CausalProblem,
    measure: str,
    form: str,
    bandwidth: Any,
    settings: NullSettings,
    rng: int | np.random.Generator | None,
    n_jobs: int | None,
    progress: bool,
    options: Mapping[str, Any],
) -> LinkTests:
    """Score all links of a problem on the data and on surrogates."""
    check_choice("form", form, ("corrected", "paper"))
    check_choice("null", settings.kind, NULLS)
    check_integer("n_resamples", settings.n_resamples, 1)
    if settings.kind == "analytic" and measure != "linear_granger":
        raise ParameterError(
            f'`null`="analytic" must go with measure="linear_granger", got {measure!r}: no other measure has a '
            'distribution in closed form here. Pass null="windows".'
        )
    generator = check_rng(rng)
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        scorer = Scorer(problem, measure, form, bandwidth, options)
        with progress_bar(len(problem.links), progress, f"{measure}, {settings.kind} null") as advance:
            if settings.kind == "windows":
                return _by_windows(scorer, settings, generator, advance)
            if settings.kind == "analytic":
                return _analytic(scorer)
            return _by_orders(scorer, settings, generator, advance)


class Scorer:
    """A measure with its options and widths, ready to be evaluated on windows and orders."""

    def __init__(
        self, problem: CausalProblem, measure: str, form: str, bandwidth: Any, options: Mapping[str, Any]
    ) -> None:
        self.problem, self.form = problem, form
        if measure == "kernel_granger":
            # One kernel for several series: they must be in one unit, and so must a width that was given.
            self.problem = replace(problem, series=in_common_unit(problem.series))
            if bandwidth is not None:
                options = {**options, "bandwidth": width_in_unit(bandwidth, self.problem.series[0].exponent)}
        elif bandwidth is not None and measure != CS:
            raise ParameterError(f"`bandwidth` must be left out for measure={measure!r}, which has none.")
        self.measure = measure
        self.function, self.options = check_measure(measure, options)
        self.widths: FloatArray | None = None
        if self.function is None:
            base, choose = base_widths(problem, "predictive" if bandwidth is None else bandwidth)
            self._base = base
            self._levels = chosen_levels(problem, base) if choose else np.zeros(len(problem.links), np.int64)
            exponents = [one.exponent for one in problem.series]
            self.widths = np.ldexp(base * 2.0 ** (-self._levels[:, None] / 2), exponents)

    def on_windows(self, starts: Any, window: int, advance: Any = lambda count: None) -> FloatArray:
        """Return scores (links x starts)."""
        if self.function is None:
            found = window_gram_scores(self.problem, self._base, self._levels, starts, window, self.form)
            advance(len(self.problem.links))
            return found
        rows = []
        with self._few_threads():
            for link in self.problem.links:
                options = prepared(self.measure, self.problem.parts(link), self.options)
                rows.append(window_scores(self.problem, link, self.function, starts, window, options))
                advance(1)
        return np.stack(rows)

    def on_orders(self, index: int, orders: Any) -> FloatArray:
        """Return the scores of one link with the source's rows in other orders."""
        link = self.problem.links[index]
        if self.function is None:
            level = int(self._levels[index])
            return reordered_gram_scores(self.problem, self._base, link, level, orders, self.form)
        options = prepared(self.measure, self.problem.parts(link), self.options)
        with self._few_threads():
            return reordered_scores(self.problem, link, self.function, orders, options)

    def _few_threads(self) -> AbstractContextManager[Any]:
        """Keep BLAS to one thread: on the small matrices of the baselines, waking more takes longer than the work."""
        return nullcontext() if self.options.get("eigensolver") == "full" else one_blas_thread()

    def on_everything(self) -> FloatArray:
        """Return the score of each link on the whole series."""
        return self.on_windows(np.zeros((1, 2), np.int64), self.problem.rows)[:, 0]


def _by_windows(scorer: Scorer, settings: NullSettings, rng: np.random.Generator, advance: Any) -> LinkTests:
    n = scorer.problem.rows
    fewest, most = min(_FEWEST_IN_WINDOW, n // 2), n - 1
    half = n // 2 if settings.window is None else settings.window
    window = check_integer("window", half, fewest, most, because=f" (there are {n} rows)")
    offset = window // 2 if settings.minimum_offset is None else settings.minimum_offset
    draws = shifted_windows(n, window=window, minimum_offset=offset, count=settings.n_resamples, rng=rng)
    count = check_integer("n_windows", settings.n_windows, 1)
    starts = spread_windows(draws, n, window, count) if count > 1 else np.concatenate([[[0, 0]], draws])
    if active_workers() is None:
        values = scorer.on_windows(starts, window, advance)
    else:
        batches = ((starts[i : i + _STARTS_PER_CALL], window) for i in range(0, len(starts), _STARTS_PER_CALL))
        values = np.concatenate(list(_answers(scorer, Scorer.on_windows, batches)), axis=1)
    values = values.reshape(len(values), -1, count).mean(axis=2)
    return _finished(scorer, values[:, 0], values[:, 1:], window, offset)


def spread_windows(draws: np.ndarray[Any, Any], n: int, window: int, count: int) -> np.ndarray[Any, Any]:
    """Return starts of `count` pairs of windows for the series as it is (offset 0) and for the offset of each draw.

    The pairs of an offset are evenly spaced over all places where both windows fit; `count` rows for each offset.
    """
    offset = np.concatenate([[0], draws[:, 0] - draws[:, 1]])[:, None]
    first, last = np.maximum(0, -offset), n - window - np.maximum(0, offset)
    target = np.rint(first + (last - first) * np.linspace(0, 1, count)).astype(np.int64)
    return np.stack([target + offset, target], axis=2).reshape(-1, 2)


def _by_orders(scorer: Scorer, settings: NullSettings, rng: np.random.Generator, advance: Any) -> LinkTests:
    problem, n, count = scorer.problem, scorer.problem.rows, settings.n_resamples
    offset = None
    shifted: Any = None
    streams = rng.spawn(len(problem.links))
    if settings.kind == "circular":
        offset = max(1, n // 10) if settings.minimum_offset is None else settings.minimum_offset
        offsets = circular_shifts(n, minimum_offset=offset, count=count, rng=rng)
        shifted = (np.arange(n) + offsets[:, None]) % n
    else:
        check_integer("block", settings.block, 1, n // 10, because=f" (a tenth of the {n} rows)")

    def calls() -> Iterator[tuple[int, Any]]:
        for index, link in enumerate(problem.links):
            drawn = (
                shifted if shifted is not None else block_orders(problem, link, settings.block, count, streams[index])
            )
            yield index, np.concatenate([np.arange(n)[None], drawn])

    found = []
    for values in _answers(scorer, Scorer.on_orders, calls()):
        found.append(values)
        advance(1)
    together = np.array(found)
    return _finished(scorer, together[:, 0], together[:, 1:], n, offset, whole=True)


def _answers(
    scorer: Scorer, method: Callable[..., FloatArray], calls: Iterable[tuple[Any, ...]]
) -> Iterator[FloatArray]:
    """Yield what a method of the scorer returns for each call, in their order: by the workers joblib has in force."""
    workers = active_workers()
    if workers is None:
        return (method(scorer, *call) for call in calls)
    shared = Shared(partial(_itself, scorer))
    return in_order(spread(method, ((shared, *call) for call in calls), workers))


def _itself(scorer: Scorer) -> Scorer:
    return scorer


def block_orders(
    problem: CausalProblem, link: Link, block: int, count: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Draw orders in which blocks of rows change places with blocks that start from a similar past of the target."""
    n = problem.rows
    condition = problem.parts(link)[1]
    first = np.arange(0, n - n % block, block)
    drawn = local_permutations(condition[first], neighbours=min(_NEIGHBOURS, len(first)), count=count, rng=rng)
    orders = np.tile(np.arange(n), (count, 1))
    for step in range(block):
        orders[:, first + step] = first[drawn] + step
    return orders


def _analytic(scorer: Scorer) -> LinkTests:
    found = np.array([f_test(*scorer.problem.parts(link)) for link in scorer.problem.links])
    check_numbers(found[:, 1], "for the series as given")
    nothing = np.empty((len(found), 0))
    return LinkTests(found[:, 0], found[:, 0], nothing, found[:, 1], None, scorer.problem.rows, None)


def _finished(
    scorer: Scorer, statistics: FloatArray, nulls: FloatArray, window: int, offset: int | None, *, whole: bool = False
) -> LinkTests:
    scores = statistics if whole else scorer.on_everything()
    pvalues = np.array([pvalue(float(s), null, rounding=ROUNDING) for s, null in zip(statistics, nulls, strict=True)])
    return LinkTests(scores, statistics, nulls, pvalues, scorer.widths, window, offset)
