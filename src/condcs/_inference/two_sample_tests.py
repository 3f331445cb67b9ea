"""Test of two samples: is p(y) the same."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from condcs._core.arrays import Array
from condcs._core.checks import check_integer, check_rng
from condcs._core.errors import public
from condcs._core.settings import config_context
from condcs._inference.conditional_tests import check_options, chosen_measure
from condcs._inference.nulls import label_sampler
from condcs._inference.resampling import measured_pools, run_test
from condcs._inference.results import TestResult
from condcs._inference.statistics import as_numpy


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
    check_integer("n_resamples", n_resamples, 1)
    generator = check_rng(rng)
    with config_context(n_threads=n_jobs) if n_jobs is not None else nullcontext():
        pools = measured_pools(chosen, [], [("yp", as_numpy(yp)), ("yq", as_numpy(yq))], options)
        draw = label_sampler("permutation", None, pools.first.labels, rng=generator)
        return run_test(pools, draw, "permutation", {}, n_resamples, generator, n_jobs=n_jobs, progress=progress)
