"""Tests of two or more samples: is p(y|x) the same, is p(y) the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condcs.core.arrays import Array
from condcs.core.checks import Parts, Variable, check_choice
from condcs.core.errors import ParameterError, ShapeError, public
from condcs.inference.nulls import label_sampler
from condcs.inference.resampling import run_test
from condcs.inference.results import TestResult
from condcs.inference.statistics import LabelArray, MeasuredPool, as_numpy
from condcs.measures.inputs import ConditionalProblem, NumericProblem
from condcs.measures.registry import MEASURES, Measure

NULLS = ("propensity", "permutation", "local")

_PER_SAMPLE = {"weights_p", "weights_q"}


@public
def conditional_test(
    xp: Array | Sequence[tuple[Array, Array]],
    yp: Array | None = None,
    xq: Array | None = None,
    yq: Array | None = None,
    *,
    measure: str = "conditional_cs",
    null: str = "propensity",
    propensity: Any = None,
    n_resamples: int = 500,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> TestResult:
    r"""Test whether two (or more) samples have the same conditional distribution of y given x.

    The null hypothesis: p(y|x) = q(y|x) wherever both samples have rows. How x itself is distributed may differ.

    Labels of the pooled rows are redrawn many times in a way that the null hypothesis allows, and the measure is
    evaluated
    again with the same kernels and widths. All redrawn labels are answered together: with W their indicator columns,
    one product K W holds the kernel masses of all of them. Cost O(n^2 (d + P)) for the Gram measures; memory O(n P).

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`. For more than two, pass a list of pairs (x, y) as the first argument
        alone; the statistic is then the sum over all pairs of samples.
    measure : str
        A registered measure that takes x and y.
    null : {"propensity", "permutation", "local"}
        How labels are redrawn. "propensity" draws them from an estimate of P(sample | x): valid as far as that
        estimate is
        good. "permutation" (the paper's) permutes them: exact if x has the same distribution in all samples, and wrong
        otherwise; it then tests p(x, y) = q(x, y). "local" permutes them among rows close in x: valid as far as
        p(sample
        | x) hardly changes within such a neighbourhood. No test of a conditional hypothesis is valid without some such
        assumption.
    propensity : classifier or array, optional
        For null="propensity": a scikit-learn classifier, or the probabilities themselves.
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
        Options of the measure: bandwidths, kernels, ``estimator``, ``k``, ``regularization``. Plain ``bandwidth`` sets
        both widths; ``bandwidth="aggregate"`` needs no choice: it combines several multiples of the median widths in
        one test.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null_distribution`, `bandwidths`, and `confidence_interval()`.

    Examples
    --------
    >>> from condcs.datasets import make_local_shift
    >>> data = make_local_shift(150, rng=1)
    >>> result = conditional_test(data.xp, data.yp, data.xq, data.yq, bandwidth="silverman", n_resamples=99, rng=0)
    >>> result.pvalue
    0.01
    """
    chosen = _measure(measure, takes_x=True)
    _check_options(chosen, options)
    check_choice("null", null, NULLS)
    if propensity is not None and null != "propensity":
        raise ParameterError(f'`propensity` must be None with null={null!r}. Pass null="propensity" to use it.')
    x_parts, y_parts = _parts(xp, yp, xq, yq)

    def draw(pool: MeasuredPool, generator: np.random.Generator) -> Callable[[int], LabelArray]:
        x = _pooled_x(pool)
        # A column of few numbers may be a category to the classifier; only a column of labels certainly is.
        categorical = x.labels if any(x.labels) else None
        values = np.asarray(x.values, dtype=np.float64)
        return label_sampler(null, values, pool.labels, propensity=propensity, categorical=categorical, rng=generator)

    return run_test(
        chosen,
        x_parts,
        y_parts,
        options,
        draw=draw,
        null=null,
        n_resamples=n_resamples,
        rng=rng,
        n_jobs=n_jobs,
        progress=progress,
    )


@public
def two_sample_test(
    yp: Array,
    yq: Array,
    *,
    measure: str = "cs",
    n_resamples: int = 500,
    rng: int | np.random.Generator | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    **options: Any,
) -> TestResult:
    """Test whether two samples have the same distribution.

    The null hypothesis: p(y) = q(y). Labels are permuted, which is exact. Cost O(n^2 (d + P)); memory O(n P).

    Parameters
    ----------
    yp, yq : array, shape (n, d) and (m, d)
        The samples.
    measure : {"cs", "mmd"}
        A registered measure of one variable.
    n_resamples, rng, n_jobs, progress
        As in `conditional_test`.
    **options
        Options of the measure: ``bandwidth`` (also "aggregate"), ``kernel``, ``estimator``, ``unbiased``.

    Returns
    -------
    TestResult
        With `statistic`, `pvalue`, `null_distribution`, `bandwidths`, and `confidence_interval()`.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=(2, 100))
    >>> two_sample_test(y[0], y[1] + 1, n_resamples=99, rng=0).pvalue
    0.01
    """
    chosen = _measure(measure, takes_x=False)
    _check_options(chosen, options)

    def draw(pool: MeasuredPool, generator: np.random.Generator) -> Callable[[int], LabelArray]:
        return label_sampler("permutation", None, pool.labels, rng=generator)

    return run_test(
        chosen,
        [],
        [("yp", as_numpy(yp)), ("yq", as_numpy(yq))],
        options,
        draw=draw,
        null="permutation",
        n_resamples=n_resamples,
        rng=rng,
        n_jobs=n_jobs,
        progress=progress,
    )


def _measure(name: str, *, takes_x: bool) -> Measure:
    fitting = tuple(m.name for m in MEASURES.values() if m.takes_x == takes_x)
    first = "conditional_cs" if takes_x else "cs"
    return MEASURES[check_choice("measure", name, (first, *(n for n in fitting if n != first)))]


def _check_options(measure: Measure, options: dict[str, Any]) -> None:
    known = (measure.options | {"bandwidth"} if measure.gram else measure.options) - _PER_SAMPLE
    unknown = sorted(set(options) - known)
    if unknown:
        raise ParameterError(
            f"`{unknown[0]}` must be an option of the test or of {measure.name!r}. Those of the measure are "
            f"{', '.join(sorted(known))}."
        )


def _parts(xp: Any, yp: Any, xq: Any, yq: Any) -> tuple[Parts, Parts]:
    if yp is None and xq is None and yq is None:
        if (
            not isinstance(xp, list | tuple)
            or len(xp) < 2
            or any(not isinstance(g, list | tuple) or len(g) != 2 for g in xp)
        ):
            raise ShapeError(
                "`xp` must be a list of at least two pairs (x, y) when it is the only argument. "
                "Pass conditional_test([(x1, y1), (x2, y2), ...]), or xp, yp, xq and yq."
            )
        return (
            [(f"xp[{i}][0]", as_numpy(x)) for i, (x, _) in enumerate(xp)],
            [(f"xp[{i}][1]", as_numpy(y)) for i, (_, y) in enumerate(xp)],
        )
    return [("xp", as_numpy(xp)), ("xq", as_numpy(xq))], [("yp", as_numpy(yp)), ("yq", as_numpy(yq))]


def _pooled_x(pool: MeasuredPool) -> Variable:
    problem = pool.problem
    if isinstance(problem, ConditionalProblem):
        return problem.x.variable
    assert isinstance(problem, NumericProblem)
    return problem.x
