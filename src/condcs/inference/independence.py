"""Test of conditional independence: whether x2 says anything about y that x1 does not."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from condcs.core.arrays import Array
from condcs.core.checks import Parts, check_choice, check_integer, check_same_rows
from condcs.core.errors import ParameterError, public
from condcs.core.parallel import Shared
from condcs.core.progress import RESAMPLES_REMEDY, progress_bar
from condcs.core.random import check_rng
from condcs.core.ranks import ranked
from condcs.core.settings import config_context
from condcs.inference.aggregate import Combined, largest_studentised
from condcs.inference.nulls import circular_shifts, local_permutations
from condcs.inference.predictor_statistic import Statistic, View, predictor_statistic
from condcs.inference.resampling import batch_values, drawn
from condcs.inference.residuals import PoolRegression
from condcs.inference.results import ROUNDING, TestResult, check_numbers, pvalue
from condcs.inference.shuffled_copy import check_options, copy_statistic
from condcs.inference.statistics import FloatArray, as_numpy
from condcs.kernels.bandwidths import Bandwidth
from condcs.kernels.log_kernels import Kernel
from condcs.measures.inputs import Inputs, KernelVariable
from condcs.measures.registry import measure_named

_NARROW = 0.25
_OF_NUMBERS = ("gaussian", "laplacian")
_BATCH = 100
_FEWEST_ROWS_IN_TIME = 20


@public
def independence_test(
    y: Array,
    x2: Array,
    *,
    given: Array | None = None,
    measure: str = "conditional_cs",
    form: str = "corrected",
    adjust: bool = True,
    null: str = "local",
    neighbours: int = 5,
    n_resamples: int = 200,
    bandwidth_y: Bandwidth = "median",
    bandwidth_x1: Bandwidth = "median",
    bandwidth_x2: Bandwidth = "aggregate",
    kernel_y: Kernel = "gaussian",
    kernel_x1: Kernel = "gaussian",
    kernel_x2: Kernel = "gaussian",
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> TestResult:
    r"""Test whether y is independent of x2 given x1.

    The null hypothesis: p(y|x1, x2) = p(y|x1), that is, once x1 is known, x2 says nothing more about y.

    The statistic is `conditional_cs_predictors` (Prop. 4). Under the null hypothesis x2 may be exchanged between rows
    with (nearly) the same x1, so it is permuted among nearest neighbours in x1; no exponential is taken twice, because
    a permutation only re-indexes the Gram matrix of x2. Cost O(n^2 (d + P)); memory O(n^2) up to 11,500 rows, O(n)
    above. With another `measure` the statistic is its divergence between the sample and a copy in which x2 was
    permuted: P evaluations of the measure.

    Parameters
    ----------
    y, x2 : array, shape (n, d_y) and (n, d_2)
        Row i of each belongs together.
    given : array, shape (n, d_1), optional
        The conditioning variable x1. Without it plain independence is tested, with full permutations.
    measure : str
        "conditional_cs" (Prop. 4), or any other registered measure: see `condcs.measures.registry.MEASURES`.
    form : {"corrected", "paper"}
        Form of Prop. 4.
    adjust : bool
        Whether the kernel regressions of y and of x2 on x1 are taken off first. Given x1 they are constants, so the
        null hypothesis stays what it is, and the test sees more: kernels need not be wide enough for what x1 explains.
        Labels are left alone.
    null : {"local", "permutation", "surrogate"}
        "local" permutes x2 among neighbours in x1: valid as far as p(x2|x1) hardly changes among them. "permutation"
        ignores x1: valid only if x2 is independent of x1. "surrogate" turns x2 round in time by a random offset:
        for rows in time order, stationary and forgetting.
    neighbours : int
        For null="local": how many nearest neighbours x2 is drawn from.
    n_resamples, rng, n_jobs, progress
        As in `conditional_test`.
    bandwidth_x2 : {"aggregate"}, float, array or rule
        "aggregate" looks at x2 in two ways and combines them in one p-value (the larger studentised value, on the same
        permutations): its ranks at a quarter of their median distance, and at their median distance the ranks of what
        its regression on x1 leaves (with `adjust`; else its ranks). On ranks no row lies far from all others: the
        divergence weighs all values of x2 alike, so rows in the tails would drown the rest. A width or another rule
        looks at the values themselves. Another measure takes "aggregate" as "median"; so do labels.
    bandwidth_y, bandwidth_x1, kernel_y, kernel_x1, kernel_x2
        As in `conditional_cs_predictors`. Another measure sees each variable in units of its width.
    **options
        Further options of another measure, e.g. ``k`` of conditional_kl.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null_distribution`, `bandwidths`; `details` hold the value and the p-value of each
        way of looking at x2.

    Examples
    --------
    >>> import numpy as np
    >>> x1, noise = np.random.default_rng(0).normal(size=(2, 200))
    >>> x2 = x1 + np.random.default_rng(1).normal(size=200)
    >>> independence_test(x1 + x2 + noise, x2, given=x1, rng=0, n_resamples=99).pvalue
    0.01
    """
    chosen = measure_named(measure)
    by_prop_4 = measure == "conditional_cs"
    check_choice("form", form, ("corrected", "paper"))
    if not by_prop_4 and form != "corrected":
        raise ParameterError(f"`form` must be left out with measure={measure!r}: it belongs to Prop. 4, got {form!r}.")
    check_options(chosen, options)
    check_choice("null", null, ("local", "permutation", "surrogate"))
    check_integer("n_resamples", n_resamples, 1)
    y, x2, given = as_numpy(y), as_numpy(x2), as_numpy(given)
    inputs = Inputs.of(y, x2, given)
    y_parts, x2_parts, x1_parts = [("y", y)], [("x2", x2)], [("given", given)]
    first: KernelVariable | None = None
    regression: PoolRegression | None = None
    if given is not None:
        first = inputs.kernel_variable(x1_parts, "_x1", kernel_x1, bandwidth_x1)
        if adjust:
            regression = PoolRegression(first.kernel, first.variable.sizes[0])
            y_parts = [("y", _adjusted(inputs, y_parts, kernel_y, regression))]
    elif null == "local":
        null = "permutation"
    response = inputs.kernel_variable(y_parts, "_y", kernel_y, bandwidth_y, response=True)
    aggregate = isinstance(bandwidth_x2, str) and bandwidth_x2 == "aggregate"
    if aggregate and by_prop_4 and kernel_x2 in _OF_NUMBERS:
        views = _ranked_views(inputs, x2_parts, kernel_x2, regression)
    else:
        seen = [("x2", x2 if regression is None else _adjusted(inputs, x2_parts, kernel_x2, regression))]
        width = "median" if aggregate else bandwidth_x2
        views = {"values": View(inputs.kernel_variable(seen, "_x2", kernel_x2, width))}
    second = next(iter(views.values())).variable
    check_same_rows(response.variable, y_parts, second.variable, x2_parts)
    if first is not None:
        check_same_rows(response.variable, y_parts, first.variable, x1_parts)
    n = response.variable.sizes[0]
    generator = check_rng(rng)
    if first is not None and null == "local":
        check_integer("neighbours", neighbours, 1, n - 1, because=f" (there are {n} rows)")
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        statistic: Shared[Statistic]
        if by_prop_4:
            kernels = response.kernel, None if first is None else first.kernel, list(views.values())
            statistic = Shared(partial(predictor_statistic, *kernels, n, form))
        else:
            reference = _permutations(null, first, n, neighbours, 1, generator)[0]
            statistic = Shared(partial(copy_statistic, chosen, response, first, second, reference, options))
        observed = statistic.ready(np.arange(n)[None]).reshape(-1)
        check_numbers(observed, "for the samples as given")
        batches = drawn(lambda count: _permutations(null, first, n, neighbours, count, generator), n_resamples, _BATCH)
        title = f"the test of independence with {n_resamples} resamples of {n:,} rows"
        with progress_bar(n_resamples, progress, title, remedy=RESAMPLES_REMEDY) as advance:
            values = batch_values([statistic], batches, n_jobs=n_jobs, advance=advance)[0].reshape(n_resamples, -1).T
    widths = {"bandwidth_y": response.widths, "bandwidth_x2": second.widths}
    if first is not None:
        widths["bandwidth_x1"] = first.widths
    details: dict[str, Any] = {"adjust": adjust and first is not None, **({"form": form} if by_prop_4 else {})}
    if len(views) == 1:
        reached = pvalue(float(observed[0]), values[0], rounding=ROUNDING)
        combined = Combined(float(observed[0]), values[0], reached, 0)
    else:
        combined = largest_studentised(observed, values)
        details |= {
            "views": tuple(views),
            "statistics": tuple(float(v) for v in observed),
            "pvalues": tuple(pvalue(float(o), v, rounding=ROUNDING) for o, v in zip(observed, values, strict=True)),
            "best_view": list(views)[combined.most_telling],
        }
        widths["bandwidth_x2"] = list(views.values())[combined.most_telling].variable.widths
    return TestResult(
        statistic=combined.statistic,
        pvalue=combined.pvalue,
        null_distribution=combined.null_distribution,
        measure="conditional_cs_predictors" if by_prop_4 else measure,
        null=null,
        sizes=(n,),
        bandwidths={k: w for k, w in widths.items() if w is not None},
        details=details,
    )


def _ranked_views(inputs: Inputs, parts: Parts, kernel: Kernel, regression: PoolRegression | None) -> dict[str, View]:
    """Return the two ways in which ``bandwidth_x2="aggregate"`` looks at x2.

    A narrow kernel sees what waves, a wide one what leans. The wide one looks at what a regression on x1 leaves: that
    lays bare what hardly varies given x1, but it would blur waves.
    """
    name = parts[0][0]

    def seen(ranks: FloatArray, width: Bandwidth) -> View:
        variable = inputs.kernel_variable([(name, ranks)], "_x2", kernel, width)
        n, columns = ranks.shape
        if columns > 1:
            return View(variable)
        steps = np.arange(2 * n - 1) / (2 * n)
        by_distance = inputs.kernel_variable([(name, steps[:, None])], "_x2", kernel, variable.widths).kernel
        places = np.rint(2 * n * ranks[:, 0] - 1).astype(np.int32)
        return View(variable, places, np.exp(by_distance.block(slice(0, 1), slice(0, 2 * n - 1))[0]))

    ranks = ranked(inputs.numbers(parts, stem=name).values)
    wide = seen(ranks, "median")
    assert wide.variable.widths is not None
    narrow = seen(ranks, _NARROW * wide.variable.widths)
    if regression is None or len(ranks) != regression.rows:
        return {"ranks, narrow": narrow, "ranks": wide}
    return {
        "ranks, narrow": narrow,
        "ranks of residuals": seen(ranked(_adjusted(inputs, parts, kernel, regression)), "median"),
    }


def _adjusted(inputs: Inputs, parts: Parts, kernel: Kernel, regression: PoolRegression) -> Array:
    """Return a variable without its regression on x1; labels, and rows that do not match x1, are left as they are."""
    (name, values) = parts[0]
    if kernel not in _OF_NUMBERS:
        return values
    numbers = inputs.numbers(parts, stem=name)
    if numbers.sizes != (regression.rows,):
        return values
    return regression.residuals(np.asarray(numbers.values, dtype=np.float64))


def _permutations(
    null: str, first: KernelVariable | None, n: int, neighbours: int, count: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if null == "local" and first is not None:
        x1 = np.asarray(first.variable.values, dtype=np.float64)
        return local_permutations(x1, neighbours=neighbours, count=count, rng=rng)
    if null == "permutation":
        return rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    if n < _FEWEST_ROWS_IN_TIME:
        raise ParameterError(
            f'`null`="surrogate" must have at least {_FEWEST_ROWS_IN_TIME} rows, got {n}: too few are left after '
            'shifts of a tenth of the series. Use null="local".'
        )
    offsets = circular_shifts(n, minimum_offset=n // 10, count=count, rng=rng)
    return np.asarray((np.arange(n) + offsets[:, None]) % n)
