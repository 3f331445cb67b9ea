"""The test of two or more samples: is p(y|x) the same, however x is distributed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from condcs._core.arrays import Array, FloatArray, IntArray, LabelArray
from condcs._core.checks import Parts, PresentRows, check_choice, numpy_parts
from condcs._core.errors import OverlapError, OverlapWarning, ParameterError, ShapeError, public, warn_caller
from condcs._core.printable import counted
from condcs._core.progress import part_of_the_work
from condcs._core.settings import one_blas_thread
from condcs._core.vocabulary import named, setting
from condcs._inference.adjustment import Adjustment, smoother_of_samples
from condcs._inference.label_overlap import label_overlap
from condcs._inference.nulls import NULLS, label_sampler
from condcs._inference.propensities import Propensity, SurprisesByRows, chosen_propensity, warn_if_unreliable
from condcs._inference.resampling import (
    Bootstrap,
    Resampling,
    anchors_used,
    check_numbers,
    combined_evidence,
    relabelled_values,
    run_test,
)
from condcs._inference.responses import (
    adjusted_response,
    with_fixed_widths_of_x,
    with_placeholder_width_of_y,
)
from condcs._inference.results import TestResult
from condcs._inference.statistics import (
    MeasuredPool,
    TestedMeasure,
    anchored_pool,
    pool_statistic,
    pooled_variables,
)
from condcs._inference.views import AnchoredViews, SurpriseViews, view_weights, views_of_samples
from condcs._inference.weights_and_clusters import (
    RowOptions,
    checked_clusters,
    clipped_log_weights,
    weights_on_one_scale,
    with_weights_and_clusters,
)
from condcs._measures.inputs import ConditionalProblem
from condcs._measures.registry import MeasureName
from condcs._parallel.many_rows import drawn_anchors
from condcs._parallel.spreading import Shared
from condcs._regression.smoother import Smoother

ConditionalNull = Literal["propensity", "permutation", "local"]
Views = Literal["all", "measure"]
VIEW_CHOICES = ("all", "measure")

_SAME_WEIGHT = 1e-6
"""Range of the weights (their mean is 1) up to which they differ by rounding alone and say nothing beside x."""


@public
def conditional_test(
    xp: Array | Sequence[tuple[Array, Array]],
    yp: Array | None = None,
    xq: Array | None = None,
    yq: Array | None = None,
    *,
    measure: MeasureName = "conditional_cs",
    views: Views | None = None,
    null: ConditionalNull = "propensity",
    propensity: Any = None,
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    clusters_p: Array | None = None,
    clusters_q: Array | None = None,
    n_resamples: int = 500,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> TestResult:
    r"""Test whether two (or more) samples have the same conditional distribution of y given x.

    The null hypothesis: p(y|x) = q(y|x) wherever both samples have rows. How x itself is distributed may differ.

    The level is protected by two estimates, of which only one needs to be good. First, the response is adjusted for x:
    its regression on x, fitted to the pooled rows, is subtracted. It is the same for all redrawn labels; the labels as
    they are only choose, beside y, at which places along x it may jump. Second, the labels are redrawn
    from an estimate of P(sample | x), which is refined until the imbalance of x in the data is typical of the redrawn
    samples; this check does not use y. Several views, each sensitive to a different kind of change, are evaluated on
    the same redrawn labels and combined in one p-value.

    Up to 10,000 pooled rows all pairs of rows are used: cost O(n^2 (d + P)), memory O(n P). Above, sums over pairs are
    restricted to pairs with one of m = 1,000 anchor rows, and the divergence comes from a low-rank approximation that
    is corrected at the anchor rows: cost O(n m (d + P)). Anchors are drawn without using y or the labels, and are the
    same for all resamples. They are part of the statistic, so that the validity of the test is not affected.

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`. For more than two, pass a list of pairs (x, y) as the first argument
        alone; the divergence is then the sum over all pairs of samples.
    measure : str
        A registered measure that takes x and y.
    views : {"all", "measure"}, optional
        "all" combines the measure on the adjusted response with views of the mean, the amplitude, the spread, the
        spread along x, slopes, and products of inputs, and with kernels for local changes and changes of shape.
        "measure" is the measure alone on the response as it is, the paper's statistic. By default "all" with
        null="propensity", except for bandwidth="aggregate", and "measure" with the other nulls.
    null : {"propensity", "permutation", "local"}
        How labels are redrawn. "propensity" draws them from an estimate of P(sample | x). "permutation" (the paper's)
        permutes them: exact if x has the same distribution in all samples, and wrong otherwise; it then tests
        p(x, y) = q(x, y). "local" permutes them among rows close in x: valid as far as P(sample | x) hardly changes
        within such a neighbourhood. No test of a conditional hypothesis is valid without some such assumption.
    propensity : classifier or array, optional
        For null="propensity": a scikit-learn classifier, which is fitted to four fifths of the rows to give the
        probabilities of the others, or the probabilities themselves.
    weights_p, weights_q : array, optional
        A non-negative weight per row, such as survey weights; both or neither, each sample in a unit of its own.
        Weights count as fixed given x: a row keeps its weight when its label is redrawn, and labels are redrawn from
        P(sample | x, weight). So weights must not depend on y, and the test has power only where both samples have
        rows with similar weights at similar x. Weights that only make the x of one sample look like that of the other
        are not needed: the test does not depend on how x is distributed.
    clusters_p, clusters_q : array, optional
        The cluster that each row belongs to, if rows depend on one another, such as several rows of a customer: names
        or numbers. Labels are then redrawn by cluster, from P(sample | x of the cluster), and the regression of y on x
        is chosen by its errors on clusters left out. A cluster lies in one sample: the same name in both means two
        clusters. At least 5 in each sample, better 20 and more, and of sizes that occur in both: rows of a sample
        without clusters are clusters of one row.
    n_resamples : int
        How many times labels are redrawn.
    rng : int or Generator, optional
        Seed. The same seed gives the same answer whatever `n_jobs`.
    n_jobs : int, optional
        Threads; all cores by default. Within ``joblib.parallel_config(backend="dask")``, or "loky", batches of
        resamples go to its workers; the answer is the same.
    progress : bool
        Whether to show a progress bar. Without one, a `CostWarning` says so if the test is going to take longer than
        two minutes, as estimated from its first steps.
    **options
        Options of the measure: bandwidths, kernels, ``estimator``, ``k``, ``regularization``. Labels in x, of columns
        with the kernel "delta", borrow strength from one another, as "aitchison-aitken" says in `conditional_cs`: rows
        are compared even if none has the same labels in all columns as one of the other sample. ``bandwidth`` sets
        both bandwidths; ``bandwidth="aggregate"`` combines several multiples of the median bandwidths of the measure
        alone.

    Returns
    -------
    TestResult
        With `pvalue`, `statistic` (the combined evidence, or the measure with ``views="measure"``), `divergence` and
        `estimate()` (the measure on the adjusted response; labels are as they are, so that a shift of x is part of
        their `divergence`, and of `divergence_by_chance`, but hardly of `estimate()`, the difference), `diagnostics`
        (the check of balance, the design of the propensity, how many rows overlap, how many clusters there are, how
        many anchors were used), and `details` (the p-value of each view).

    Warns
    -----
    BalanceWarning
        If no estimate of P(sample | x) passes the check of balance: the p-value may then be too small.
    OverlapWarning
        If the samples hardly overlap in x: few rows are then informative.

    Examples
    --------
    >>> from condcs.datasets import make_local_shift
    >>> data = make_local_shift(150, rng=1)
    >>> result = conditional_test(data.xp, data.yp, data.xq, data.yq, n_resamples=99, rng=0)
    >>> result.pvalue
    0.01
    """
    tested = TestedMeasure.of(measure, options, takes_x=True)
    check_choice("null", null, NULLS)
    if views is None:
        views = "all" if null == "propensity" and not tested.aggregated else "measure"
    check_choice("views", views, VIEW_CHOICES)
    if propensity is not None and null != "propensity":
        raise ParameterError(
            f"{named('propensity')} must be None with {setting('null', null)}. Pass {setting('null', 'propensity')} to "
            "use it."
        )
    if views == "all" and (null != "propensity" or tested.aggregated):
        raise ParameterError(
            f"`{setting('views', 'all')}` must be used with {setting('null', 'propensity')} and without "
            f"{setting('bandwidth', 'aggregate')}, got "
            + (f"{setting('null', null)}" if null != "propensity" else f"{setting('bandwidth', 'aggregate')}")
            + f". Leave `views` out, or pass {setting('views', 'measure')}."
        )
    resampling = Resampling.checked(n_resamples, rng, n_jobs, progress)
    x_parts, y_parts = _parts(xp, yp, xq, yq)
    rows = RowOptions(
        numpy_parts(weights_p=weights_p, weights_q=weights_q),
        numpy_parts(clusters_p=clusters_p, clusters_q=clusters_q),
    )
    rows.check(tested.measure, len(x_parts), all_views=views == "all", propensity=propensity)
    present = PresentRows.of(rows.weights, x_parts, y_parts, rows.clusters) if rows.weighted else None
    if present is not None:
        x_parts, y_parts, rows = present.of_parts(x_parts), present.of_parts(y_parts), rows.present(present)
        propensity = present.of_pool(propensity)
    with resampling.threads():
        if views == "all":
            samples = TestedSamples(tested, x_parts, y_parts, rows)
            return conditional_test_by_views(samples, resampling, propensity=propensity)
        pools = tested.pools(x_parts, y_parts)
        _check_labels_meet(pools.first)
        draw, diagnostics = _relabelling(null, pools.first, propensity, resampling.rng)
        return run_test(pools, draw, null, diagnostics, resampling)


class TestedSamples(NamedTuple):
    """The samples, their weights and clusters, and the measure with its options."""

    tested: TestedMeasure
    x: Parts
    y: Parts
    rows: RowOptions


@dataclass(frozen=True)
class PreparedViews:
    """All that the views of labels are evaluated from: data only, so that workers can receive it."""

    pool: MeasuredPool  # for the divergence: the adjusted response, with weights
    surprise_views: SurpriseViews  # the other views
    propensity: Propensity  # what labels are redrawn from
    view_anchors: IntArray | None  # rows that stand for all in their sums over pairs of rows; None if all pairs count

    @property
    def names(self) -> tuple[str, ...]:
        """Which views there are."""
        return (*self.surprise_views.names, "divergence")

    def statistic(self) -> Callable[[LabelArray], FloatArray]:
        """Return a function from labels (P x n) to views (P x views), the divergence last."""
        divergence, of_surprises = pool_statistic(self.pool), self._statistic_of_surprises()
        # With anchors both halves of the work report what is done, without them the divergence alone does.
        progress_share = 1.0 if self.view_anchors is None else 0.5

        def values(labels: LabelArray) -> FloatArray:
            with part_of_the_work(progress_share):
                views = of_surprises(self.propensity.surprises_by_rows(labels))  # (views - 1, P)
                return np.column_stack([views.T, divergence(labels)])

        return values

    def _statistic_of_surprises(self) -> Callable[[SurprisesByRows], FloatArray]:
        """Return a function from surprises to the views that are made of them (views - 1, P)."""
        if self.view_anchors is None:
            return lambda surprises_by_rows: self.surprise_views(surprises_by_rows(slice(None)))
        return AnchoredViews(self.surprise_views, self.view_anchors)

    def diagnostics(self) -> dict[str, Any]:
        """Return what the result says about how far the null can be trusted, and what was used."""
        diagnostics, units = self.propensity.diagnostics, self.propensity.units
        if units is not None:
            samples = self.pool.problem.groups.slices
            diagnostics |= {"clusters": tuple(len(np.unique(units[rows])) for rows in samples)}
        return diagnostics | anchors_used(self.view_anchors)


def conditional_test_by_views(
    samples: TestedSamples,
    resampling: Resampling,
    *,
    propensity: Any = None,
    adjustment: Adjustment | None = None,
) -> TestResult:
    """Test p(y|x) by all views; with an adjustment of the same rows, nothing that it holds is fitted again."""
    return _test_by_views(_prepare_views(samples, propensity, adjustment, resampling.rng), resampling)


def _prepare_views(
    samples: TestedSamples, propensity: Any, adjustment: Adjustment | None, rng: np.random.Generator
) -> PreparedViews:
    """Adjust the response for x, estimate P(sample | x), and make the views of both."""
    # 1. Check the samples and pool them.
    pool = _checked_pool(samples)
    x, y = pooled_variables(pool)
    inputs = np.asarray(x.values, dtype=np.float64)  # (n, d)
    responses = np.asarray(y.values, dtype=np.float64), y.labels  # (n, c), and which columns are of labels
    clusters = checked_clusters(samples.rows.clusters, pool.sizes)
    view_anchors = drawn_anchors(len(inputs), rng)

    # 2. The two lines of defence: y adjusted for x, and P(sample | x). Both follow what jumps along x.
    with one_blas_thread():
        if adjustment is None:
            adjustment = Adjustment.of(
                inputs, x.labels, pool.sizes, rng, clusters=clusters, propensity=propensity, responses=responses
            )
        smoother = adjustment.smoother
        response = adjusted_response(*responses, smoother)

    # 3. Rows keep their weights, so that labels must be redrawn given these as well.
    weights = weights_on_one_scale(pool, smoother, adjustment.propensity)
    redrawn_from = adjustment.propensity
    if weights is not None and np.ptp(weights) > _SAME_WEIGHT:
        redrawn_from = _propensity_given_weights(adjustment, weights, propensity, clusters, responses, rng)

    # 4. The views: the measure on the adjusted response, and what is made of labels minus their probabilities.
    pool = _pool_of_adjusted(samples, pool, response.for_divergence).with_weights(weights)
    surprise_views = views_of_samples(response, smoother, redrawn_from.of_rows)
    return PreparedViews(
        anchored_pool(pool, rng),
        with_weights_and_clusters(surprise_views, weights, clusters),
        redrawn_from,
        view_anchors,
    )


def _checked_pool(samples: TestedSamples) -> MeasuredPool:
    """Return the pool of y as it is; bandwidths on y wait, as they must be those of the adjusted response."""
    tested = samples.tested
    options = with_placeholder_width_of_y(tested.options) if tested.measure.gram else tested.options
    pool = replace(tested, options=options).pool(samples.x, samples.y, samples.rows.weights)
    _check_labels_meet(pool)
    if not tested.measure.gram:
        # Covariances and distances that no double can hold are refused, before any work; kernels have no such limits.
        check_numbers(pool.observed() / pool.magnitude, "for the samples as given")
    return pool


def _propensity_given_weights(
    adjustment: Adjustment,
    weights: FloatArray,
    propensity: Any,
    clusters: IntArray | None,
    responses: tuple[FloatArray, Sequence[bool]],
    rng: np.random.Generator,
) -> Propensity:
    """Return P(sample | x, weight): the logarithm of the weight (n,) is one more column of x."""
    with_weights = np.column_stack([adjustment.x, clipped_log_weights(weights)])  # (n, d + 1)
    is_category, labels = (*adjustment.is_category, False), adjustment.labels
    smoother, _ = smoother_of_samples(with_weights, is_category, labels, clusters, responses)
    n_samples = len(np.unique(labels))
    return chosen_propensity(propensity, with_weights, smoother, clusters, labels, n_samples, rng)


def _pool_of_adjusted(samples: TestedSamples, pool: MeasuredPool, adjusted: FloatArray) -> MeasuredPool:
    """Return the pool of the adjusted response (n, c), with bandwidths by it; the pool as it is if all y are labels."""
    _, y = pooled_variables(pool)
    if all(y.labels):
        return pool
    tested = samples.tested
    if isinstance(pool.problem, ConditionalProblem):
        tested = replace(tested, options=with_fixed_widths_of_x(tested.options, pool.problem.x))
    return tested.pool(samples.x, _split(adjusted, samples.y, y.sizes), samples.rows.weights)


def _test_by_views(views: PreparedViews, resampling: Resampling) -> TestResult:
    """Evaluate all views on the samples and on redrawn labels, and combine them."""
    pool, propensity = views.pool, views.propensity
    draw = partial(propensity.draw, rng=resampling.rng)
    (of_labels,) = relabelled_values([Shared(views.statistic)], pool, views.view_anchors, draw, resampling)
    values = of_labels.T  # (views, 1 + P): the labels as given come first
    evidence = combined_evidence(values, view_weights(views.names))
    warn_if_unreliable(propensity)
    return TestResult(
        statistic=evidence.statistic,
        pvalue=evidence.pvalue,
        null_distribution=evidence.null_distribution,
        measure=pool.measure.name,
        null="propensity",
        sizes=pool.sizes,
        bandwidths=pool.widths,
        divergence=float(values[-1, 0]),
        diagnostics=views.diagnostics(),
        details={"nonnegative": pool.measure.nonnegative, **evidence.details(views.names, values[:, 0])},
        _divergences=values[-1, 1:],
        _resample=Bootstrap(pool, propensity.units),
    )


def _relabelling(
    null: str, pool: MeasuredPool, propensity: Any, rng: np.random.Generator
) -> tuple[Callable[[int], LabelArray], dict[str, Any]]:
    """Return how labels are redrawn, and what the result says about it."""
    x, _ = pooled_variables(pool)
    values = np.asarray(x.values, dtype=np.float64)
    if null != "propensity":
        return label_sampler(null, values, pool.labels, is_category=x.labels, rng=rng), {}
    smoother = Smoother(values, x.labels)
    fitted = chosen_propensity(propensity, values, smoother, None, pool.labels, len(pool.sizes), rng)
    warn_if_unreliable(fitted)
    return partial(fitted.draw, rng=rng), fitted.diagnostics


def _check_labels_meet(pool: MeasuredPool) -> None:
    """Refuse samples without a label in common; say how many rows have labels, as x, that some sample does not have."""
    x, _ = pooled_variables(pool)
    if not any(x.labels):
        return
    overlap = label_overlap(np.asarray(x.values), x.labels, pool.labels, len(pool.sizes))
    if overlap.columns_apart:
        raise OverlapError(
            f"the samples must overlap: column {x.names[overlap.columns_apart[0]]!r} of x has no label that occurs in "
            "both of two samples, so there is nothing to compare. Check that both use the same categories, or leave "
            "the column out."
        )
    is_matched = overlap.matched_by_column
    if is_matched.all():
        return
    rows, count = int((~is_matched).sum()), len(is_matched)
    words = (
        f"in {rows:,} of {counted(count, 'row')} x has a label that another sample does not have; such rows are "
        f"compared with rows of other labels. Columns of x with such labels: "
        f"{', '.join(map(str, overlap.columns_alone))}."
    )
    warn_caller(OverlapWarning(words, rows=rows, of_rows=count, columns=overlap.columns_alone))


def _split(pooled: FloatArray, parts: Parts, sizes: tuple[int, ...]) -> Parts:
    """Cut a pooled array into the samples, under the names of `parts`."""
    ends = np.cumsum(sizes)
    return [(name, pooled[end - size : end]) for (name, _), size, end in zip(parts, sizes, ends, strict=True)]


def _parts(xp: Any, yp: Any, xq: Any, yq: Any) -> tuple[Parts, Parts]:
    """Return the x and the y of all samples, by the names that messages call them."""
    if not (yp is None and xq is None and yq is None):
        return numpy_parts(xp=xp, xq=xq), numpy_parts(yp=yp, yq=yq)
    # One argument alone: a list of samples.
    if (
        not isinstance(xp, list | tuple)
        or len(xp) < 2
        or any(not isinstance(sample, list | tuple) or len(sample) != 2 for sample in xp)
    ):
        raise ShapeError(
            f"{named('xp')} must be a list of at least two pairs (x, y) when it is the only argument. "
            "Pass conditional_test([(x1, y1), (x2, y2), ...]), or xp, yp, xq and yq."
        )
    x_parts = numpy_parts(**{f"xp[{i}][0]": x for i, (x, _) in enumerate(xp)})
    y_parts = numpy_parts(**{f"xp[{i}][1]": y for i, (_, y) in enumerate(xp)})
    return x_parts, y_parts
