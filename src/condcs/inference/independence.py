"""Test of conditional independence: whether x2 says anything about y that x1 does not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from condcs.core.arrays import Array
from condcs.core.checks import Parts, check_choice, check_integer, check_same_rows
from condcs.core.errors import ParameterError, public
from condcs.core.parallel import Shared
from condcs.core.random import check_rng
from condcs.core.settings import config_context, current_settings
from condcs.inference.nulls import circular_shifts, local_permutations
from condcs.inference.progress import progress_bar
from condcs.inference.regression import regression_residuals
from condcs.inference.resampling import batch_values, drawn
from condcs.inference.results import TestResult, pvalue
from condcs.inference.shuffled_copy import check_options, copy_statistic
from condcs.inference.statistics import FloatArray, as_numpy
from condcs.kernels.bandwidths import Bandwidth
from condcs.kernels.log_kernels import LogKernel, product
from condcs.kernels.row_sums import exp_in_place, row_sums
from condcs.kernels.specification import Kernel
from condcs.measures.problem import Inputs, KernelVariable
from condcs.measures.registry import measure_named

GRAM_BUDGET = 2 * 2**30
"""Bytes that the three n x n Gram matrices may take (n = 9,400); above, each permutation visits the pairs anew."""

_BATCH = 50
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
    bandwidth_x2: Bandwidth = "median",
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
    a permutation only re-indexes the Gram matrix of x2. Cost O(n^2 (d + P)); memory O(n^2) up to 9,400 rows, O(n)
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
    bandwidth_y, bandwidth_x1, bandwidth_x2, kernel_y, kernel_x1, kernel_x2
        As in `conditional_cs_predictors`. Another measure sees each variable in units of its width.
    **options
        Further options of another measure, e.g. ``k`` of conditional_kl.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null_distribution`, `bandwidths`.

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
    if given is not None:
        first = inputs.kernel_variable(x1_parts, "_x1", kernel_x1, bandwidth_x1)
        if adjust:
            y_parts = [("y", _adjusted(inputs, y_parts, kernel_y, first))]
            x2_parts = [("x2", _adjusted(inputs, x2_parts, kernel_x2, first))]
    elif null == "local":
        null = "permutation"
    response = inputs.kernel_variable(y_parts, "_y", kernel_y, bandwidth_y, response=True)
    second = inputs.kernel_variable(x2_parts, "_x2", kernel_x2, bandwidth_x2)
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
            kernels = response.kernel, None if first is None else first.kernel, second.kernel
            statistic = Shared(partial(_statistic, *kernels, n, form))
        else:
            reference = _permutations(null, first, n, neighbours, 1, generator)[0]
            statistic = Shared(partial(copy_statistic, chosen, response, first, second, reference, options))
        observed = float(statistic.ready(np.arange(n)[None])[0])
        batches = drawn(lambda count: _permutations(null, first, n, neighbours, count, generator), n_resamples, _BATCH)
        with progress_bar(n_resamples, progress, f"independence, {null} null") as advance:
            null_distribution = batch_values([statistic], batches, n_jobs=n_jobs, advance=advance)[0]
    widths = {"bandwidth_y": response.widths, "bandwidth_x2": second.widths}
    if first is not None:
        widths["bandwidth_x1"] = first.widths
    return TestResult(
        statistic=observed,
        pvalue=pvalue(observed, null_distribution),
        null_distribution=null_distribution,
        measure="conditional_cs_predictors" if by_prop_4 else measure,
        null=null,
        sizes=(n,),
        bandwidths={k: w for k, w in widths.items() if w is not None},
        details={"adjust": adjust and first is not None, **({"form": form} if by_prop_4 else {})},
    )


def _adjusted(inputs: Inputs, parts: Parts, kernel: Kernel, first: KernelVariable) -> Array:
    """Return a variable without its regression on x1; labels, and rows that do not match x1, are left as they are."""
    (name, values) = parts[0]
    if kernel not in ("gaussian", "laplacian"):
        return values
    numbers = inputs.numbers(parts, stem=name)
    if numbers.sizes != first.variable.sizes:
        return values
    return regression_residuals(np.asarray(numbers.values, dtype=np.float64), first.kernel)


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


Statistic = Callable[[np.ndarray[Any, Any]], FloatArray]


def _statistic(y: LogKernel, x1: LogKernel | None, x2: LogKernel, n: int, form: str) -> Statistic:
    """Return a function from orders of x2 (P x n) to values of Prop. 4."""
    from condcs.core.groups import Groups

    groups = Groups((n,))
    factors = [x1] if x1 is not None else []
    (b1,) = (s[:, 0] for s in row_sums([product([*factors, y])], groups))
    a1 = row_sums(factors, groups)[0][:, 0] if factors else np.full(n, float(n))

    def value(a12: FloatArray, b12: FloatArray) -> FloatArray:
        first = (b1**2 / (a1**2 * b12)).sum(-1) if form == "corrected" else (b1 / a1**2).sum(-1)
        return np.asarray(np.log(first) + np.log((b12 / a12**2).sum(-1)) - 2 * np.log((b1 / (a1 * a12)).sum(-1)))

    if 3 * 8 * n * n > GRAM_BUDGET:

        def visited(orders: np.ndarray[Any, Any]) -> FloatArray:
            results = []
            for order in orders:
                moved = product([*factors, x2.take(order)])
                sums = row_sums([moved, product([moved, y])], groups)
                results.append(value(sums[0][:, 0], sums[1][:, 0]))
            return np.array(results)

        return visited
    K1 = _gram(x1, n) if x1 is not None else np.ones((n, n))
    K1L, K2 = K1 * _gram(y, n), _gram(x2, n)

    def indexed(orders: np.ndarray[Any, Any]) -> FloatArray:
        from condcs.inference.compiled import permuted_row_sums

        workers = current_settings().n_threads
        chunks = np.array_split(np.ascontiguousarray(orders), min(workers, len(orders)))
        with ThreadPoolExecutor(workers) as threads:
            sums = list(threads.map(lambda chunk: permuted_row_sums(K1, K1L, K2, chunk), chunks))
        return np.concatenate([value(a12, b12) for a12, b12 in sums])

    return indexed


def _gram(kernel: LogKernel, n: int) -> FloatArray:
    gram = np.ascontiguousarray(kernel.block(slice(0, n), slice(0, n)), dtype=np.float64)
    exp_in_place(gram)
    return gram
