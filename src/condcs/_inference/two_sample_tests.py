"""Test of two samples: is p(y) the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condcs._core.arrays import Array
from condcs._core.errors import public
from condcs._inference.conditional_tests import check_options, chosen_measure
from condcs._inference.nulls import label_sampler
from condcs._inference.resampling import run_test
from condcs._inference.results import TestResult
from condcs._inference.statistics import LabelArray, MeasuredPool, as_numpy


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
    chosen = chosen_measure(measure, takes_x=False)
    check_options(chosen, options)

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
