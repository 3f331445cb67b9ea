"""Test of conditional independence: whether x says anything about y that z does not."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import Array, ranked
from condcs._core.checks import Parts, Variable, check_choice, check_integer, check_rng, check_same_rows
from condcs._core.errors import ParameterError, public
from condcs._core.progress import RESAMPLES_REMEDY, progress_bar, report_done
from condcs._core.settings import config_context
from condcs._inference.anchors import drawn_anchors
from condcs._inference.nulls import circular_shifts, local_permutations
from condcs._inference.order_statistics import (
    ORDER_ANCHORS,
    Statistic,
    View,
    check_options,
    copy_statistic,
    predictor_statistic,
)
from condcs._inference.propensities import Rows
from condcs._inference.pvalues import ROUNDING, Combined, check_numbers, combined_evidence, largest_studentised, pvalue
from condcs._inference.resampling import batch_values, drawn
from condcs._inference.results import TestResult
from condcs._inference.smoothing import Smoother
from condcs._inference.statistics import FloatArray, as_numpy
from condcs._inference.views import (
    WEIGHTS,
    AnchoredContrasts,
    Contrasts,
    adjusted_response,
    dependence_contrasts,
    wave_features,
)
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import Kernel
from condcs._measures.inputs import Inputs, KernelVariable
from condcs._measures.registry import measure_named
from condcs._parallel.spreading import Shared

IndependenceNull = Literal["signs", "local", "permutation", "surrogate"]

_NARROW = 0.25
_NEGLIGIBLE = 1e-8
_OF_NUMBERS = ("gaussian", "laplacian")
_BATCH = 100
_NUMBERS = 2**24
_FEWEST_ROWS_IN_TIME = 20


@public
def independence_test(
    x: Array,
    y: Array,
    *,
    given: Array | None = None,
    null: IndependenceNull | None = None,
    measure: str = "conditional_cs",
    form: Literal["corrected", "paper"] = "corrected",
    adjust: bool = True,
    neighbours: int = 5,
    n_resamples: int = 500,
    bandwidth_x: Bandwidth = "aggregate",
    bandwidth_y: Bandwidth = "median",
    bandwidth_given: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    kernel_given: Kernel = "gaussian",
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> TestResult:
    r"""Test whether x and y are independent given z.

    The null hypothesis: p(y|x, z) = p(y|z), that is, once z is known, x says nothing more about y.

    By default (null="signs") functions of x and of y are adjusted for z: their regressions on z are subtracted.
    Products of what is left have mean 0 under the null hypothesis, and errors of the two regressions enter only as
    their product. So their sums are compared with the same sums under random signs. Several views share these signs
    and one p-value: linear dependence, dependence that z moderates, dependence of squares (tails, curvature), and
    kernels for dependence of any kind, everywhere, locally in z, and in waves along x. Cost O(n^2 P), memory O(n P) up
    to 10,000 rows; above, sums over pairs of rows are those over pairs of one of 1,000 anchor rows and any row.

    The other nulls evaluate one measure. That of the paper is `conditional_cs_predictors` (Prop. 4), on x permuted
    among nearest neighbours in z; no exponential is taken twice, because a permutation only re-indexes the Gram matrix
    of x. Cost O(n^2 (d + P)); memory O(n^2) up to 10,000 rows. Above, the outer sums of Prop. 4 are over 100 anchor
    rows, drawn without a look at x or y, with all rows in the inner sums. With another `measure` the statistic is its
    divergence between the sample and a copy in which x was permuted: P evaluations of the measure.

    Parameters
    ----------
    x, y : array, shape (n, d_x) and (n, d_y)
        Row i of each belongs together.
    given : array, shape (n, d_z), optional
        The conditioning variable z. Without it plain independence is tested, with full permutations.
    null : {"signs", "local", "permutation", "surrogate"}, optional
        "signs" is described above: valid as far as one of the two regressions on z is good, or both fairly. "local"
        permutes x among neighbours in z: valid as far as p(x|z) hardly changes among them. "permutation" ignores z:
        valid only if x is independent of z. "surrogate" shifts x circularly in time by a random offset: for rows in
        time order of a stationary series whose memory is short. By default "signs" with `given`, unless another
        `measure`, another `form` or ``adjust=False`` asks for the measure alone, which takes "local"; "permutation"
        without `given`.
    measure : str
        "conditional_cs" (Prop. 4), or any other registered measure: see `condcs.MEASURES`.
    form : {"corrected", "paper"}
        Form of Prop. 4.
    adjust : bool
        Whether the kernel regressions of y and of x on z are subtracted first. Given z they are constants, so the null
        hypothesis stays what it is, and the test sees more: kernels need not be wide enough for what z explains.
        Labels are left alone.
    neighbours : int
        For null="local": how many nearest neighbours x is drawn from.
    n_resamples, rng, n_jobs, progress
        As in `conditional_test`.
    bandwidth_x : {"aggregate"}, float, array or rule
        "aggregate" looks at x in two ways and combines them in one p-value (the larger studentised value, on the same
        permutations): its ranks at a quarter of their median distance, and at their median distance the ranks of what
        its regression on z leaves (with `adjust`; else its ranks). On ranks no row lies far from all others: the
        divergence weighs all values of x alike, so rows in the tails would drown the rest. A number or another rule
        looks at the values themselves. Another measure takes "aggregate" as "median"; so do labels. null="signs" has
        no bandwidths to set.
    bandwidth_y, bandwidth_given, kernel_x, kernel_y, kernel_given
        As in `conditional_cs_predictors`; kernels say which columns are labels ("delta"). Another measure sees each
        variable in units of its bandwidth.
    **options
        Further options of another measure, e.g. ``k`` of conditional_kl.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null_distribution`, `bandwidths`; `details` hold the p-value of each view, and
        `diagnostics` the number of anchors, if there were some.

    Examples
    --------
    >>> import numpy as np
    >>> z, noise = np.random.default_rng(0).normal(size=(2, 200))
    >>> x = z + np.random.default_rng(1).normal(size=200)
    >>> independence_test(x, x + z + noise, given=z, rng=0, n_resamples=99).pvalue
    0.01
    """
    chosen = measure_named(measure)
    by_prop_4 = measure == "conditional_cs"
    check_choice("form", form, ("corrected", "paper"))
    if not by_prop_4 and form != "corrected":
        raise ParameterError(f"`form` must be left out with measure={measure!r}: it belongs to Prop. 4, got {form!r}.")
    check_options(chosen, options)
    plain = by_prop_4 and form == "corrected" and adjust
    if null is None:
        null = "permutation" if given is None else "signs" if plain else "local"
    check_choice("null", null, get_args(IndependenceNull))
    check_integer("n_resamples", n_resamples, 1)
    x, y, given = as_numpy(x), as_numpy(y), as_numpy(given)
    if null == "signs":
        bandwidths = {"bandwidth_x": bandwidth_x, "bandwidth_y": bandwidth_y, "bandwidth_given": bandwidth_given}
        _check_signs(given, plain, bandwidths)
        roles = {"x": (x, kernel_x), "y": (y, kernel_y), "given": (given, kernel_given)}
        return _by_signs(roles, n_resamples, rng, n_jobs, progress)
    inputs = Inputs.of(x, y, given)
    y_parts, x_parts, given_parts = [("y", y)], [("x", x)], [("given", given)]
    first: KernelVariable | None = None
    regression: Smoother | None = None
    if given is not None:
        first = inputs.kernel_variable(given_parts, "_given", kernel_given, bandwidth_given)
        if adjust:
            regression = _smoother(first.variable)
            y_parts = [("y", _adjusted(inputs, y_parts, kernel_y, regression))]
    elif null == "local":
        null = "permutation"
    response = inputs.kernel_variable(y_parts, "_y", kernel_y, bandwidth_y, response=True)
    aggregate = isinstance(bandwidth_x, str) and bandwidth_x == "aggregate"
    if aggregate and by_prop_4 and kernel_x in _OF_NUMBERS:
        views = _ranked_views(inputs, x_parts, kernel_x, regression)
    else:
        seen = [("x", x if regression is None else _adjusted(inputs, x_parts, kernel_x, regression))]
        width = "median" if aggregate else bandwidth_x
        views = {"values": View(inputs.kernel_variable(seen, "_x", kernel_x, width))}
    second = next(iter(views.values())).variable
    check_same_rows(response.variable, y_parts, second.variable, x_parts)
    if first is not None:
        check_same_rows(response.variable, y_parts, first.variable, given_parts)
    n = response.variable.sizes[0]
    generator = check_rng(rng)
    if first is not None and null == "local":
        check_integer("neighbours", neighbours, 1, n - 1, because=f" (there are {n} rows)")
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        statistic: Shared[Statistic]
        anchors = None
        if by_prop_4:
            kernels = response.kernel, None if first is None else first.kernel, list(views.values())
            anchors = drawn_anchors(n, generator, ORDER_ANCHORS)
            statistic = Shared(partial(predictor_statistic, *kernels, n, form, anchors))
        else:
            reference = _permutations(null, first, n, neighbours, 1, generator)[0]
            statistic = Shared(partial(copy_statistic, chosen, response, first, second, reference, options))
        observed = statistic.ready(np.arange(n)[None]).reshape(-1)
        check_numbers(observed, "for the samples as given")
        batches = drawn(lambda count: _permutations(null, first, n, neighbours, count, generator), n_resamples, _BATCH)
        title = f"the test of independence with {n_resamples} resamples of {n:,} rows"
        with progress_bar(n_resamples, progress, title, remedy=RESAMPLES_REMEDY) as advance:
            values = batch_values([statistic], batches, n_jobs=n_jobs, advance=advance)[0].reshape(n_resamples, -1).T
    widths = {"bandwidth_y": response.widths, "bandwidth_x": second.widths}
    if first is not None:
        widths["bandwidth_given"] = first.widths
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
        widths["bandwidth_x"] = list(views.values())[combined.most_telling].variable.widths
    return TestResult(
        statistic=combined.statistic,
        pvalue=combined.pvalue,
        null_distribution=combined.null_distribution,
        measure="conditional_cs_predictors" if by_prop_4 else measure,
        null=null,
        sizes=(n,),
        bandwidths={k: w for k, w in widths.items() if w is not None},
        diagnostics={} if anchors is None else {"anchors": len(anchors)},
        details=details,
    )


def _check_signs(given: Array | None, plain: bool, bandwidths: dict[str, Bandwidth]) -> None:
    if given is None:
        raise ParameterError('`given` must be passed with null="signs". Pass z, or null="permutation".')
    changed = [k for k, v in bandwidths.items() if not isinstance(v, str) or v not in ("aggregate", "median")]
    if not plain or changed:
        what = f"`{changed[0]}`" if changed else "`measure`, `form` and `adjust`"
        raise ParameterError(
            f'{what} must be left at the default with null="signs", which combines views of its own. Pass null="local" '
            "for the measure alone."
        )


def _by_signs(
    roles: dict[str, tuple[Array, Kernel]],
    n_resamples: int,
    rng: int | np.random.Generator | None,
    n_jobs: int | None,
    progress: bool,
) -> TestResult:
    """Compare products of what z leaves of x and of y with the same products under random signs."""
    inputs = Inputs.of(*(array for array, _ in roles.values()))
    parts = {role: [(role, array)] for role, (array, _) in roles.items()}
    checked = {
        role: inputs.kernel_variable(parts[role], f"_{role}", kernel, "median", response=True).variable
        for role, (_, kernel) in roles.items()
    }
    for role in ("y", "given"):
        check_same_rows(checked["x"], parts["x"], checked[role], parts[role])
    x, y, z = (np.asarray(v.values, dtype=np.float64) for v in checked.values())
    labels = [v.labels or (False,) * v.values.shape[1] for v in checked.values()]
    generator = check_rng(rng)
    n = len(x)
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        smoother = Smoother(z, labels[2])
        first, second = (adjusted_response(v, own, smoother) for v, own in ((x, labels[0]), (y, labels[1])))
        contrasts = dependence_contrasts(first, second, wave_features(x, labels[0], smoother), smoother)
        anchors = drawn_anchors(n, generator)
        statistic = Shared(partial(_signed, contrasts, anchors))
        observed = statistic.ready(np.ones((1, n), np.int8)).T
        batches = drawn(partial(_signs, n, rng=generator), n_resamples, _BATCH)
        title = f"the test of independence with {n_resamples} resamples of {n:,} rows"
        with progress_bar(n_resamples, progress, title, remedy=RESAMPLES_REMEDY) as advance:
            values = batch_values([statistic], batches, n_jobs=n_jobs, advance=advance)[0]
    weights = np.array([WEIGHTS.get(name, 1.0) for name in contrasts.names])
    evidence = combined_evidence(np.column_stack([observed, values.T]), weights)
    return TestResult(
        statistic=evidence.statistic,
        pvalue=evidence.pvalue,
        null_distribution=evidence.null_distribution,
        measure="products of residuals",
        null="signs",
        sizes=(n,),
        diagnostics={} if anchors is None else {"anchors": len(anchors)},
        details={
            "views": contrasts.names,
            "statistics": tuple(float(v) for v in observed[:, 0]),
            "pvalues": tuple(float(p) for p in evidence.pvalues),
            "best_view": contrasts.names[int(np.argmin(evidence.pvalues))],
        },
    )


def _signs(n: int, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Draw signs (count x n), in a type as small as that of labels."""
    at_once = max(1, _NUMBERS // n)
    sizes = [min(at_once, count - start) for start in range(0, count, at_once)]
    return np.concatenate([rng.choice(np.array([-1, 1], np.int8), size=(size, n)) for size in sizes])


def _signed(contrasts: Contrasts, anchors: np.ndarray[Any, Any] | None) -> Statistic:
    """Return a function from signs (P x n) to views (P x views)."""
    anchored = None if anchors is None else AnchoredContrasts(contrasts, anchors)

    def views(signs: np.ndarray[Any, Any]) -> FloatArray:
        def of_rows(rows: Rows) -> list[FloatArray]:
            return [np.ascontiguousarray(signs[:, rows].T, np.float64)]

        found = contrasts(of_rows(slice(None))) if anchored is None else anchored(of_rows)
        report_done(len(signs))
        return found.T

    return views


def _ranked_views(inputs: Inputs, parts: Parts, kernel: Kernel, regression: Smoother | None) -> dict[str, View]:
    """Return the two ways in which ``bandwidth_x="aggregate"`` looks at x.

    A narrow kernel sees what waves, a wide one what leans. The wide one looks at what a regression on z leaves: that
    lays bare what hardly varies given z, but it would blur waves.
    """
    name = parts[0][0]

    def seen(ranks: FloatArray, width: Bandwidth) -> View:
        variable = inputs.kernel_variable([(name, ranks)], "_x", kernel, width)
        n, columns = ranks.shape
        if columns > 1:
            return View(variable)
        steps = np.arange(2 * n - 1) / (2 * n)
        by_distance = inputs.kernel_variable([(name, steps[:, None])], "_x", kernel, variable.widths).kernel
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


def _adjusted(inputs: Inputs, parts: Parts, kernel: Kernel, regression: Smoother) -> Array:
    """Return a variable without its regression on z; labels, and rows that do not match z, are left as they are."""
    (name, values) = parts[0]
    if kernel not in _OF_NUMBERS:
        return values
    numbers = inputs.numbers(parts, stem=name)
    if numbers.sizes != (regression.rows,):
        return values
    targets = np.asarray(numbers.values, dtype=np.float64)
    left = regression.residuals(targets)[0]
    # What z explains to the last digits leaves rounding errors: such a variable is used as it is.
    return np.where(left.std(axis=0) > _NEGLIGIBLE * targets.std(axis=0), left, targets)


def _smoother(z: Variable) -> Smoother:
    values = np.asarray(z.values, dtype=np.float64)
    return Smoother(values, z.labels or (False,) * values.shape[1])


def _permutations(
    null: str, first: KernelVariable | None, n: int, neighbours: int, count: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if null == "local" and first is not None:
        z = np.asarray(first.variable.values, dtype=np.float64)
        return local_permutations(z, neighbours=neighbours, count=count, rng=rng)
    if null == "permutation":
        return rng.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    if n < _FEWEST_ROWS_IN_TIME:
        raise ParameterError(
            f'`null`="surrogate" must have at least {_FEWEST_ROWS_IN_TIME} rows, got {n}: too few are left after '
            'shifts of a tenth of the series. Use null="local".'
        )
    offsets = circular_shifts(n, minimum_offset=n // 10, count=count, rng=rng)
    return np.asarray((np.arange(n) + offsets[:, None]) % n)
