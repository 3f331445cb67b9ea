"""Test of conditional independence: whether x says anything about y that z does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import Array, FloatArray, IntArray, RealArray, RowIndex, ranked
from condcs._core.checks import Groups, Parts, as_numpy, check_choice, check_integer, check_same_rows
from condcs._core.errors import ParameterError, public
from condcs._core.progress import progress_bar, remedy_for_resamples, report_done
from condcs._core.settings import current_settings
from condcs._core.vocabulary import named, setting
from condcs._inference.nulls import circular_shifts, local_permutations
from condcs._inference.resampling import (
    ROUNDING,
    Evidence,
    Resampling,
    anchors_used,
    batch_values,
    batches_of_draws,
    check_numbers,
    combined_evidence,
    largest_studentised,
    pvalue,
)
from condcs._inference.responses import adjusted_response, jumping_targets, wave_features
from condcs._inference.results import TestResult
from condcs._inference.views import AnchoredViews, SignViews, view_weights, views_of_dependence
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import LogKernel, product
from condcs._kernels.named_kernels import Kernel, is_of_numbers
from condcs._kernels.row_sums import exp_in_place, row_sums
from condcs._measures.formulas import PredictorForm, linear_predictor_divergence
from condcs._measures.inputs import Inputs, KernelVariable
from condcs._measures.registry import Measure, MeasureName, measure_named
from condcs._parallel.many_rows import drawn_anchors, total
from condcs._parallel.spreading import Shared
from condcs._regression.smoother import Smoother

IndependenceNull = Literal["signs", "local", "permutation", "surrogate"]
Statistic = Callable[[IntArray], FloatArray]

_NARROW = 0.25
"""Bandwidth on ranks of x, in units of the median one, that sees dependence which oscillates along x: a narrower kernel
sees faster oscillations, by fewer rows each."""
_NEGLIGIBLE = 1e-8
"""Part of a column's deviation below which residuals are rounding errors of a column that z explains."""
_BATCH = 100
"""Orders or signs that a statistic is given at once, and that a worker or the progress bar counts by."""
_NUMBERS = 2**24
"""Random numbers that are held at once: 128 MB. Those of signs take eight times the memory of signs."""
_PARTS_OF_A_SERIES = 10
"""A circular shift moves a series by a tenth of its length or more: rows that are closer may depend on one another."""
_FEWEST_ROWS_IN_TIME = 20
"""Rows of a series that is shifted: of fewer, a tenth is a single row."""

ORDER_ANCHORS = 100
"""Anchor rows of many: each meets all rows again in every order of x."""

_ROWS = 1_024
"""Rows that meet all anchors at once: with 100 anchors a block of 0.8 MB for each kernel."""

GRAM_BUDGET = 2 * 2**30
"""Bytes that n x n Gram matrices may take: n = 11,500 if x is ranks of one column; above, pairs are visited anew."""

_SET_BY_THE_TEST = frozenset(
    {"bandwidth", "bandwidth_x", "bandwidth_y", "kernel", "kernel_x", "kernel_y", "weights_p", "weights_q"}
)
"""Options of measures that are no options of the test: it has bandwidths and kernels of its own, and no weights."""


@dataclass(frozen=True)
class PermutedMeasure:
    """One measure as the statistic of `independence_test`, compared with its values on permuted x.

    The paper's is `conditional_cs_predictors` (Prop. 4); no exponential is taken twice, because a permutation only
    re-indexes the Gram matrix of x. Cost O(n^2 (d + P)); memory O(n^2) up to 10,000 rows. Above, the outer sums of
    Prop. 4 are over 100 anchor rows, drawn without a look at x or y, with all rows in the inner sums. Any other measure
    is that between the sample and a copy in which x was permuted: P evaluations of the measure.

    Attributes
    ----------
    name : str
        "conditional_cs" (Prop. 4), or any other registered measure: see `condcs.MEASURES`.
    form : {"corrected", "paper"}
        Form of Prop. 4.
    adjust : bool
        Whether the regressions of y and of x on z are subtracted first. Given z they are constants, so the null
        hypothesis is the same, and the test has more power, because kernels need not cover the variation that z
        explains. Labels are not adjusted.
    neighbours : int
        For null="local": how many nearest neighbours x is drawn from.
    bandwidth_x : {"aggregate"}, float, array or rule
        "aggregate" looks at x in two ways and combines them in one p-value (the larger studentised value, on the same
        permutations): its ranks at a quarter of their median distance, and at their median distance the ranks of its
        residuals from the regression on z (with `adjust`; else its ranks). Ranks are used because the divergence gives
        all values of x the same weight, so that a few rows in the tails would dominate. With a number or another rule
        the values themselves are used. For other measures, and for labels, "aggregate" means "median".
    bandwidth_y, bandwidth_given
        As in `conditional_cs_predictors`. Another measure sees each variable in units of its bandwidth.
    options : mapping
        Further options of another measure, e.g. ``{"k": 5}`` of conditional_kl.
    """

    name: MeasureName = "conditional_cs"
    form: Literal["corrected", "paper"] = "corrected"
    adjust: bool = True
    neighbours: int = 5
    bandwidth_x: Bandwidth | Literal["aggregate"] = "aggregate"
    bandwidth_y: Bandwidth = "median"
    bandwidth_given: Bandwidth = "median"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_prop_4(self) -> bool:
        """Whether it is the paper's measure of what x adds."""
        return self.name == "conditional_cs"

    @property
    def one_bandwidth_x(self) -> Bandwidth | None:
        """The bandwidth on x; None if x is looked at in more than one way."""
        return None if isinstance(self.bandwidth_x, str) and self.bandwidth_x == "aggregate" else self.bandwidth_x

    def checked(self) -> Measure:
        """Return the registered measure; refuse options that it does not have."""
        measure = measure_named(self.name)
        check_choice("form", self.form, ("corrected", "paper"))
        if not self.by_prop_4 and self.form != "corrected":
            raise ParameterError(
                f"`form` must be left out with the measure {self.name!r}: it belongs to Prop. 4, got {self.form!r}."
            )
        # Prop. 4 has no estimators to choose from.
        allowed = frozenset() if self.by_prop_4 else measure.options - _SET_BY_THE_TEST
        for name in self.options:
            if name not in allowed:
                listed = ", ".join(sorted(allowed)) or "none"
                raise ParameterError(
                    f"{named(name)} must be an option of {self.name!r} in this test. Its options are: {listed}; "
                    "bandwidths are given as bandwidth_x, bandwidth_y and bandwidth_given."
                )
        return measure


@public
def independence_test(
    x: Array,
    y: Array,
    *,
    given: Array | None = None,
    measure: MeasureName | PermutedMeasure | None = None,
    null: IndependenceNull | None = None,
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    kernel_given: Kernel = "gaussian",
    n_resamples: int = 500,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> TestResult:
    r"""Test whether x and y are independent given z.

    The null hypothesis: p(y|x, z) = p(y|z), that is, given z, x carries no information about y.

    With `given`, and without a `measure`, the null is "signs": functions of x and of y are adjusted for z, which means
    that their regressions on z are subtracted. Products of the residuals have mean 0 under the null hypothesis, and
    errors of the two regressions enter only as their product. So the sums of these products are compared with the same
    sums under random signs. Several views share these signs and one p-value: linear dependence, dependence that z
    moderates, dependence of squares (tails, curvature), and kernels for dependence of any kind, everywhere, locally in
    z, and in waves along x. Cost O(n^2 P), memory O(n P) up to 10,000 rows; above, sums over pairs of rows are those
    over pairs of one of 1,000 anchor rows and any row. With another null, the values of one measure on permuted x are
    what its value is compared with.

    Parameters
    ----------
    x, y : array, shape (n, d_x) and (n, d_y)
        Row i of both is one observation.
    given : array, shape (n, d_z), optional
        The conditioning variable z. Without it plain independence is tested, with full permutations.
    measure : str or PermutedMeasure, optional
        A single measure instead of the views, by name or with its options, such as "conditional_cs", the paper's.
    null : {"signs", "local", "permutation", "surrogate"}, optional
        By default "permutation" without `given`; with it "signs" where no `measure` is named, "local" where one is.

        "signs" is described above: valid if one of the two regressions on z is accurate, or both fairly so. The others
        are for a single measure. "local" permutes x among neighbours in z: valid if p(x|z) hardly changes among
        them; without z it is "permutation". "permutation" ignores z: valid only if x is independent of z. "surrogate"
        shifts x circularly in time by a random offset: for rows in time order of a stationary series whose memory is
        short.
    kernel_x, kernel_y, kernel_given
        As in `conditional_cs_predictors`: they say which columns are labels ("delta").
    n_resamples, rng, n_jobs, progress
        As in `conditional_test`.

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
    null = _chosen_null(null, is_conditional=given is not None, is_single_measure=measure is not None)
    roles = {"x": (as_numpy(x), kernel_x), "y": (as_numpy(y), kernel_y), "given": (as_numpy(given), kernel_given)}
    resampling = Resampling.checked(n_resamples, rng, n_jobs, progress)
    with resampling.threads():
        if null != "signs":
            single = measure if isinstance(measure, PermutedMeasure) else PermutedMeasure(measure or "conditional_cs")
            return _by_permutation(roles, single, null, resampling)
        if given is None:
            raise ParameterError(
                f"`given` must be passed with {setting('null', 'signs')}. Pass z, or {setting('null', 'permutation')}."
            )
        if measure is not None:
            raise ParameterError(
                f"{named('measure')} must be left out with {setting('null', 'signs')}, which combines views of its "
                f"own, got {measure!r}. Pass {setting('null', 'local')} for the measure alone."
            )
        return _by_signs(roles, resampling)


def _chosen_null(null: str | None, *, is_conditional: bool, is_single_measure: bool) -> IndependenceNull:
    """Return the null that was asked for, or the default one."""
    if null is None and is_conditional:
        return "local" if is_single_measure else "signs"
    chosen = check_choice("null", "permutation" if null is None else null, get_args(IndependenceNull))
    # Without z, all rows are neighbours.
    return "permutation" if chosen == "local" and not is_conditional else chosen


Roles = dict[str, tuple[Array, Kernel]]
"""The variables x, y and given, each with its kernel."""


def _values(statistic: Shared[Any], draw: Callable[[int], IntArray], n: int, resampling: Resampling) -> FloatArray:
    """Return the values of a statistic on draws (views, P)."""
    title = f"the test of independence with {resampling.count} resamples of {n:,} rows"
    remedy = remedy_for_resamples(all_pairs=True)
    with progress_bar(resampling.count, resampling.progress, title, remedy=remedy) as advance:
        batches = batches_of_draws(draw, resampling.count, _BATCH)
        values = batch_values([statistic], batches, n_jobs=resampling.n_jobs, advance=advance)[0]
    return np.asarray(values.reshape(resampling.count, -1).T)


def _by_permutation(roles: Roles, single: PermutedMeasure, null: str, resampling: Resampling) -> TestResult:
    """Compare one measure with its values on permuted x."""
    # 1. The variables: z, y without its regression on z, and x as each of its kernels sees it.
    measure = single.checked()
    (x, kernel_x), (y, kernel_y), (z, kernel_z) = roles.values()
    inputs = Inputs.of(x, y, z)
    x_parts, y_parts, z_parts = [("x", x)], [("y", y)], [("given", z)]
    given: KernelVariable | None = None
    regression: Smoother | None = None
    if z is not None:
        given = inputs.kernel_variable(z_parts, "_given", kernel_z, single.bandwidth_given)
        if single.adjust:
            regression = Smoother(np.asarray(given.variable.values, dtype=np.float64), given.variable.labels)
            y_parts = [("y", _adjusted(inputs, y_parts, kernel_y, regression))]
    response = inputs.kernel_variable(y_parts, "_y", kernel_y, single.bandwidth_y, response=True)
    width = single.one_bandwidth_x
    if width is None and single.by_prop_4 and is_of_numbers(kernel_x):
        x_kernels = _kernels_on_ranks(inputs, x_parts, kernel_x, regression)
    else:
        values_of_x = x if regression is None else _adjusted(inputs, x_parts, kernel_x, regression)
        width = "median" if width is None else width
        x_kernels = {"values": XKernel(inputs.kernel_variable([("x", values_of_x)], "_x", kernel_x, width))}
    x_variable = next(iter(x_kernels.values())).variable
    check_same_rows(response.variable, y_parts, x_variable.variable, x_parts)
    if given is not None:
        check_same_rows(response.variable, y_parts, given.variable, z_parts)
    n, generator = response.variable.sizes[0], resampling.rng
    if null == "local":
        check_integer("neighbours", single.neighbours, 1, n - 1, because=f" (there are {n} rows)")

    # 2. The statistic of an order of x, and its values: of the rows as they are, and of permuted ones.
    def draw(n_draws: int) -> IntArray:
        return _permutations(null, given, n, single.neighbours, n_draws, generator)

    statistic: Shared[Statistic]
    anchors = None
    if single.by_prop_4:
        kernels = response.kernel, None if given is None else given.kernel, list(x_kernels.values())
        anchors = drawn_anchors(n, generator, ORDER_ANCHORS)
        statistic = Shared(partial(predictor_statistic, *kernels, n, single.form, anchors))
    else:
        (reference,) = draw(1)
        statistic = Shared(partial(copy_statistic, measure, response, given, x_variable, reference, single.options))
    observed = statistic.ready(np.arange(n)[None]).reshape(-1)  # (kernels on x,)
    check_numbers(observed, "for the samples as given")
    values = _values(statistic, draw, n, resampling)  # (kernels on x, P)

    # 3. One p-value, and what it was made of.
    widths = {"bandwidth_y": response.widths, "bandwidth_x": x_variable.widths}
    if given is not None:
        widths["bandwidth_given"] = given.widths
    details: dict[str, Any] = {"adjust": regression is not None}
    if single.by_prop_4:
        details["form"] = single.form
    if len(x_kernels) == 1:
        reached = pvalue(float(observed[0]), values[0], rounding=ROUNDING)
        combined = Evidence(float(observed[0]), values[0], reached, np.array([reached]), 0)
    else:
        combined = largest_studentised(observed, values)
        details |= combined.details(list(x_kernels), observed)
        widths["bandwidth_x"] = list(x_kernels.values())[combined.most_telling].variable.widths
    return TestResult(
        statistic=combined.statistic,
        pvalue=combined.pvalue,
        null_distribution=combined.null_distribution,
        measure="conditional_cs_predictors" if single.by_prop_4 else single.name,
        null=null,
        sizes=(n,),
        bandwidths={k: w for k, w in widths.items() if w is not None},
        diagnostics=anchors_used(anchors),
        details=details,
    )


def _by_signs(roles: Roles, resampling: Resampling) -> TestResult:
    """Compare products of what z leaves of x and of y with the same products under random signs."""
    inputs = Inputs.of(*(array for array, _ in roles.values()))
    parts = {role: [(role, array)] for role, (array, _) in roles.items()}
    checked = {
        role: inputs.kernel_variable(parts[role], f"_{role}", kernel, "median", response=True).variable
        for role, (_, kernel) in roles.items()
    }
    for role in ("y", "given"):
        check_same_rows(checked["x"], parts["x"], checked[role], parts[role])
    x, y, z = (np.asarray(v.values, dtype=np.float64) for v in checked.values())  # (n, columns) each
    x_is_label, y_is_label, z_is_label = (v.labels for v in checked.values())
    n = len(x)

    # 1. What z leaves of x, of y, and of waves along x.
    jumping = jumping_targets((x, x_is_label), (y, y_is_label))
    smoother = Smoother(z, z_is_label, only_defence=True).following_jumps(jumping)
    # Both have a smaller penalty than the best: the biases of two fits multiply.
    adjusted_x = adjusted_response(x, x_is_label, smoother, regress=smoother.undersmoothed_residuals)
    adjusted_y = adjusted_response(y, y_is_label, smoother, regress=smoother.undersmoothed_residuals)
    adjusted_waves = smoother.residuals(wave_features(x, x_is_label)).in_sample

    # 2. The views of the data and of random signs, and one p-value of them.
    views = views_of_dependence(adjusted_x, adjusted_y, adjusted_waves, smoother)
    anchors = drawn_anchors(n, resampling.rng)
    statistic = Shared(partial(_statistic_of_signs, views, anchors))
    observed = statistic.ready(views.data_signs[None]).T  # (views, 1)
    values = _values(statistic, partial(_signs, n, rng=resampling.rng), n, resampling)  # (views, P)
    evidence = combined_evidence(np.column_stack([observed, values]), view_weights(views.names))
    return TestResult(
        statistic=evidence.statistic,
        pvalue=evidence.pvalue,
        null_distribution=evidence.null_distribution,
        measure="products of residuals",
        null="signs",
        sizes=(n,),
        diagnostics=anchors_used(anchors),
        details=evidence.details(views.names, observed[:, 0]),
    )


def _signs(n: int, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Draw signs (n_draws x n), in a type as small as that of labels."""
    at_once = max(1, _NUMBERS // n)
    sizes = [min(at_once, n_draws - start) for start in range(0, n_draws, at_once)]
    return np.concatenate([rng.choice(np.array([-1, 1], np.int8), size=(size, n)) for size in sizes])


def _statistic_of_signs(views: SignViews, anchors: IntArray | None) -> Callable[[IntArray | RealArray], FloatArray]:
    """Return a function from signs (P x n) to views (P x views)."""
    anchored = None if anchors is None else AnchoredViews(views, anchors)

    def values(signs: IntArray | RealArray) -> FloatArray:
        def signs_by_rows(rows: RowIndex) -> list[FloatArray]:
            return [np.ascontiguousarray(signs[:, rows].T, np.float64)]

        by_view = views(signs_by_rows(slice(None))) if anchored is None else anchored(signs_by_rows)  # (views, P)
        report_done(len(signs))
        return by_view.T

    return values


@dataclass(frozen=True)
class XKernel:
    """A kernel on x; of the ranks of one column also a table of its values by distance of ranks.

    Attributes
    ----------
    variable : KernelVariable
        The values that it compares, and the kernel itself.
    half_steps : array of int, optional
        Rank of each row in half steps: rows with equal values share the mean of their ranks.
    table : array, optional
        Value of the kernel for rows that are 0, 1, 2 ... half steps apart.
    """

    variable: KernelVariable
    half_steps: IntArray | None = None
    table: FloatArray | None = None


def _kernels_on_ranks(inputs: Inputs, parts: Parts, kernel: Kernel, regression: Smoother | None) -> dict[str, XKernel]:
    """Return the two kernels with which ``bandwidth_x="aggregate"`` looks at x, by the name of their view.

    A narrow kernel detects dependence that oscillates along x, a wide one a trend. The wide one is applied to the
    residuals of the regression on z, in which small variation given z is visible, but oscillations are blurred.
    """
    name = parts[0][0]

    def kernel_on(ranks: FloatArray, width: Bandwidth) -> XKernel:
        variable = inputs.kernel_variable([(name, ranks)], "_x", kernel, width)
        n, columns = ranks.shape
        if columns > 1:
            return XKernel(variable)
        # Ranks are multiples of half a step: with one column the kernel has 2 n - 1 values, those of its distances.
        distances = np.arange(2 * n - 1) / (2 * n)
        same_width = width if variable.widths is None else variable.widths
        by_distance = inputs.kernel_variable([(name, distances[:, None])], "_x", kernel, same_width).kernel
        table = np.exp(by_distance.block(slice(0, 1), slice(0, 2 * n - 1))[0])  # (2 n - 1,)
        half_steps = np.rint(2 * n * ranks[:, 0] - 1).astype(np.int32)  # (n,)
        return XKernel(variable, half_steps, table)

    ranks = ranked(inputs.numbers(parts, stem=name).values)
    wide = kernel_on(ranks, "median")
    assert wide.variable.widths is not None
    narrow = kernel_on(ranks, _NARROW * wide.variable.widths)
    if regression is None or len(ranks) != regression.rows:
        return {"ranks, narrow": narrow, "ranks": wide}
    ranks_of_residuals = ranked(_adjusted(inputs, parts, kernel, regression))
    return {"ranks, narrow": narrow, "ranks of residuals": kernel_on(ranks_of_residuals, "median")}


def _adjusted(inputs: Inputs, parts: Parts, kernel: Kernel, regression: Smoother) -> Array:
    """Return a variable without its regression on z; labels, and rows that do not match z, are left as they are."""
    (name, values) = parts[0]
    if not is_of_numbers(kernel):
        return values
    numbers = inputs.numbers(parts, stem=name)
    if numbers.sizes != (regression.rows,):
        return values
    targets = np.asarray(numbers.values, dtype=np.float64)
    residuals = regression.residuals(targets).in_sample
    # What z explains to the last digits leaves rounding errors: such a variable is used as it is.
    return np.where(residuals.std(axis=0) > _NEGLIGIBLE * targets.std(axis=0), residuals, targets)


def _permutations(
    null: str, given: KernelVariable | None, n: int, neighbours: int, n_draws: int, rng: np.random.Generator
) -> IntArray:
    """Draw orders of x (n_draws x n) under a null."""
    if null == "local" and given is not None:
        z = np.asarray(given.variable.values, dtype=np.float64)
        return local_permutations(z, neighbours=neighbours, count=n_draws, rng=rng)
    if null == "permutation":
        return rng.permuted(np.tile(np.arange(n), (n_draws, 1)), axis=1)
    if n < _FEWEST_ROWS_IN_TIME:
        raise ParameterError(
            f"`{setting('null', 'surrogate')}` must have at least {_FEWEST_ROWS_IN_TIME} rows, got {n}: too few are "
            f"left after shifts of a tenth of the series. Use {setting('null', 'local')}."
        )
    offsets = circular_shifts(n, minimum_offset=n // _PARTS_OF_A_SERIES, count=n_draws, rng=rng)
    return np.asarray((np.arange(n) + offsets[:, None]) % n)


# Prop. 4 in its own letters: x1 is what is given, and x2 is x. With Gram matrices K1 on x1, K2 on x2 and L on y,
# a1, b1, a12 and b12 are the row sums of K1, K1 L, K1 K2 and K1 K2 L.


def predictor_statistic(
    y: LogKernel,
    given: LogKernel | None,
    x_kernels: Sequence[XKernel],
    n: int,
    form: PredictorForm,
    anchors: IntArray | None = None,
) -> Statistic:
    """Return a function from orders of x (P x n) to values of Prop. 4 for each kernel on x (P x kernels).

    With anchors the outer sums are over these rows.
    """
    on_x = [x_kernel.variable.kernel for x_kernel in x_kernels]
    if anchors is not None:
        return partial(_at_anchors, y, given, on_x, n, form, anchors)
    groups = Groups((n,))
    factors = [] if given is None else [given]
    b1 = row_sums([product([*factors, y])], groups)[0][:, 0]  # (n,)
    a1 = row_sums(factors, groups)[0][:, 0] if factors else np.full(n, float(n))  # (n,)

    def value(a12: FloatArray, b12: FloatArray) -> FloatArray:
        return linear_predictor_divergence(a1, b1, a12, b12, form)

    tables = [x_kernel.table for x_kernel in x_kernels if x_kernel.table is not None]
    half_steps = [x_kernel.half_steps for x_kernel in x_kernels if x_kernel.half_steps is not None]
    in_tables = len(tables) == len(half_steps) == len(x_kernels)
    n_matrices = 2 if in_tables else 2 + len(x_kernels)
    if n_matrices * 8 * n * n > GRAM_BUDGET:

        def pair_by_pair(orders: IntArray) -> FloatArray:
            values = []
            for order in orders:
                k1_k2 = [product([*factors, kernel.take(order)]) for kernel in on_x]
                k1_k2_l = [product([kernel, y]) for kernel in k1_k2]
                sums = np.stack([s[:, 0] for s in row_sums([*k1_k2, *k1_k2_l], groups)])  # (2 kernels, n)
                values.append(value(sums[: len(on_x)], sums[len(on_x) :]))
                report_done(1)
            return np.array(values)

        return pair_by_pair
    everywhere = slice(0, n)
    K1 = np.ones((n, n)) if given is None else _gram(given, everywhere, everywhere)
    K1L = K1 * _gram(y, everywhere, everywhere)
    # K2 of every kernel on x: as tables and ranks, or as matrices.
    K2: tuple[Any, ...]
    if in_tables:
        K2 = np.stack(tables), np.stack(half_steps)
    else:
        K2 = (np.stack([_gram(kernel, everywhere, everywhere) for kernel in on_x]),)

    def from_memory(orders: IntArray) -> FloatArray:
        from condcs._inference.compiled_loops import permuted_rank_sums, permuted_row_sums

        sums_of_orders = permuted_rank_sums if in_tables else permuted_row_sums
        workers = current_settings().n_threads
        chunks = np.array_split(np.ascontiguousarray(orders), min(workers, len(orders)))
        with ThreadPoolExecutor(workers) as threads:
            sums = list(threads.map(lambda chunk: sums_of_orders(K1, K1L, *K2, chunk), chunks))
        return np.concatenate([value(a12, b12) for a12, b12 in sums])

    return from_memory


def _at_anchors(
    y: LogKernel,
    given: LogKernel | None,
    on_x: Sequence[LogKernel],
    n: int,
    form: PredictorForm,
    anchors: IntArray,
    orders: IntArray,
) -> FloatArray:
    """Return Prop. 4 (P x kernels) with outer sums over the anchors and inner sums over all rows."""

    def sums(rows: slice) -> FloatArray:
        """Sum K1 and K1 L (first entry), and both times each K2 in each order, over rows (sums x 2 x anchors)."""
        K1 = np.ones((len(anchors), rows.stop - rows.start)) if given is None else _gram(given, anchors, rows)
        both = np.stack([K1, K1 * _gram(y, anchors, rows)])  # (2, anchors, rows)
        sums_over_rows = [both.sum(axis=2)]
        for order in orders:
            for kernel in on_x:
                K2 = _gram(kernel, order[anchors], order[rows])
                sums_over_rows.append(np.einsum("kai,ai->ka", both, K2))
        return np.array(sums_over_rows)

    (a1, b1), *with_x = total(sums, n, _ROWS)
    masses = np.array(with_x).reshape(len(orders), len(on_x), 2, len(anchors))
    return linear_predictor_divergence(a1, b1, masses[:, :, 0], masses[:, :, 1], form)


def _gram(kernel: LogKernel, rows: slice | IntArray, columns: slice | IntArray) -> FloatArray:
    """Return the kernel of rows against columns."""
    gram = np.ascontiguousarray(kernel.block(rows, columns), dtype=np.float64)
    exp_in_place(gram)
    return gram


def copy_statistic(
    measure: Measure,
    y: KernelVariable,
    given: KernelVariable | None,
    x: KernelVariable,
    reference: IntArray,
    options: Mapping[str, Any],
) -> Callable[[IntArray], FloatArray]:
    """Return a function from orders of x (P x n) to divergences from the copy with x in the order `reference`.

    If y is independent of x given z, the sample and its shuffled copies are exchangeable, and so are their divergences
    from one more copy. Every variable is in units of its width, so that all kernels have width 1 and measures without
    kernels see columns of one scale.
    """
    scaled_y, scaled_x = _scaled(y, "y"), _scaled(x, "x")
    conditions = [] if given is None else [_scaled(given, "given")]
    # Gram measures only: the kernel of correntropy compares single numbers and finds its own width.
    ones = {"bandwidth": 1.0} if measure.gram else {}

    def sample(order: IntArray) -> tuple[FloatArray, ...]:
        inputs = np.concatenate([*conditions, scaled_x[order]], axis=1)
        return (inputs, scaled_y) if measure.takes_x else (np.concatenate([inputs, scaled_y], axis=1),)

    copy = sample(reference)

    def values(orders: IntArray) -> FloatArray:
        return np.array([float(measure(*sample(order), *copy, **{**ones, **options})) for order in orders])

    return values


def _scaled(variable: KernelVariable, role: str) -> FloatArray:
    """Return the values of a variable in units of its bandwidths."""
    if variable.widths is None or variable.option.label_columns(len(variable.variable.names)):
        raise ParameterError(
            f'`kernel_{role}` must be "gaussian" for another measure than conditional_cs, which works on numbers. '
            f"Use {setting('measure', 'conditional_cs')} for labels and other kernels."
        )
    return np.asarray(variable.variable.values / variable.widths, dtype=np.float64)
