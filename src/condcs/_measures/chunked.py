"""The conditional Cauchy-Schwarz divergence of samples that are larger than memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from condcs._core.checks import check_choice
from condcs._core.errors import ParameterError, public
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import Kernel, check_kernel
from condcs._kernels.row_sums import warn_of_absent
from condcs._measures.chunked_rows import ChunkedRows
from condcs._measures.formulas import ESTIMATORS
from condcs._measures.sampled import Sampled, SampledFloat, sampled_value
from condcs._measures.sampled_forms import ConditionalSums, PooledSums
from condcs._parallel.row_parts import sample_parts


@public
def chunked_conditional_cs(
    p: Any,
    q: Any,
    *,
    x: str | Sequence[str] | None = None,
    y: str | Sequence[str] | None = None,
    weights: str | None = None,
    estimator: str = "paper",
    bandwidth_x: Bandwidth = "median",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    method: Sampled | None = None,
) -> SampledFloat:
    """Conditional Cauchy-Schwarz divergence between two samples that are larger than memory.

    The same as `conditional_cs` with ``method="sampled"``, to rounding, but rows are read part by part, several times
    over, and never held. On threads; or, within ``joblib.parallel_config(backend="dask")``, on the workers of a Dask
    cluster, which read their parts themselves. Cost O(n d) for each anchor; memory O(rows of a part).

    Parameters
    ----------
    p, q : pair of arrays, path, dataset, Dask DataFrame, or callable
        The samples. A pair (x, y), or triple (x, y, weights), of arrays of any kind that can be sliced: memory-mapped
        or Dask arrays. The path of a Parquet file or folder, or a dataset of pyarrow. A Dask DataFrame. Or a function
        without arguments that returns an iterator of chunks, the same ones each time: pairs (x, y), or tables of
        pandas, pyarrow or polars.
    x, y : str or sequence of str, optional
        The columns of tables that are x and y.
    weights : str, optional
        The column of tables that holds weights.
    estimator, bandwidth_x, bandwidth_y, kernel_x, kernel_y
        As in `conditional_cs`; of the rules, "median" and "joint_median". A kernel "delta" compares labels.
    method : Sampled, optional
        The error to be reached, the time allowed, and the seed.

    Returns
    -------
    SampledFloat
        A float with the attributes ``standard_error``, ``n_anchors`` and ``target_met``.

    Examples
    --------
    >>> import numpy as np
    >>> def chunks(slope):
    ...     def make():
    ...         rng = np.random.default_rng(0)
    ...         for _ in range(3):
    ...             x = rng.normal(size=1000)
    ...             yield x, slope * x + rng.normal(size=1000)
    ...
    ...     return make
    >>> found = chunked_conditional_cs(chunks(1.0), chunks(-1.0))
    >>> bool(found > 0.1), found.target_met
    (True, True)
    """
    check_choice("estimator", estimator, ESTIMATORS)
    sampled = Sampled() if method is None else method
    if not isinstance(sampled, Sampled):
        raise ParameterError(
            f"`method` must be a condcs.Sampled, got {method!r}. Pass e.g. method=condcs.Sampled(0.01)."
        )
    x, y = ([c] if isinstance(c, str) else c for c in (x, y))
    samples = tuple(sample_parts(name, source, x, y, weights) for name, source in (("p", p), ("q", q)))
    kernels = check_kernel("kernel_x", kernel_x), check_kernel("kernel_y", kernel_y)
    rows = ChunkedRows(("p", "q"), samples, kernels, (bandwidth_x, bandwidth_y))
    warn_of_absent(rows.count_absent(), sum(rows.sizes))
    return sampled_value(sampled, rows, PooledSums() if estimator == "pooled" else ConditionalSums(estimator))
