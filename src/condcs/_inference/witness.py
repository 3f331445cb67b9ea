"""Where over x the conditionals differ: the local conditional CS divergence, with a band of what chance alone gives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from condcs._core.arrays import Array, ByValue, backend_of
from condcs._core.checks import Parts, Variable, check_choice, check_integer, check_rng, check_variable
from condcs._core.errors import ParameterError, public
from condcs._inference.local_divergence import LocalDivergence
from condcs._inference.nulls import NULLS, Draw, label_sampler
from condcs._inference.propensities import chosen_propensity
from condcs._inference.smoothing import Smoother
from condcs._inference.views import adjusted_values
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import Kernel, KernelOption, LogKernel, check_kernel, log_kernel
from condcs._measures.inputs import ConditionalProblem, conditional_problem

FloatArray = np.ndarray[Any, Any]

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, eq=False)
class Witness(ByValue):
    """The local divergence at points of x, as `witness` returns it.

    Attributes
    ----------
    at : array of shape (r, d_x)
        The points. Label columns hold integer codes.
    values : array of shape (r,)
        Local conditional CS divergence at each point. Infinite where the two local conditionals share no label, NaN
        where a category of x does not occur in both samples.
    band : array of shape (r,), or None
        Upper quantile of the values when the conditionals are equal, for each point by itself.
    simultaneous_band : array of shape (r,), or None
        What the values exceed at no point when the conditionals are equal, with probability `confidence_level`.
    expected : array of shape (r,), or None
        Mean of the values when the conditionals are equal: what few neighbours alone would show.
    confidence_level : float
        Level of the band.
    names : tuple of str
        Columns of x.
    null : str
        How labels were redrawn for the band.
    bandwidth_x, bandwidth_y : array or None
        Bandwidths, one per column.
    """

    at: FloatArray = field(repr=False)
    values: FloatArray = field(repr=False)
    band: FloatArray | None = field(repr=False)
    simultaneous_band: FloatArray | None = field(repr=False)
    expected: FloatArray | None = field(repr=False)
    confidence_level: float
    names: tuple[str, ...]
    null: str
    bandwidth_x: FloatArray | None
    bandwidth_y: FloatArray | None

    def plot(self, **options: Any) -> Any:
        """Draw the witness over x, and return the figure; options as in `condcs._inference.plots.plot_witness`."""
        from condcs._inference.plots import plot_witness

        return plot_witness(self, **options)


@public
def witness(
    xp: Array,
    yp: Array,
    xq: Array,
    yq: Array,
    *,
    at: Array | None = None,
    n_resamples: int = 0,
    confidence_level: float = 0.95,
    null: str = "propensity",
    propensity: Any = None,
    adjust: bool = True,
    bandwidth_x: Bandwidth = "silverman",
    bandwidth_y: Bandwidth = "median",
    kernel_x: Kernel = "gaussian",
    kernel_y: Kernel = "gaussian",
    weights_p: Array | None = None,
    weights_q: Array | None = None,
    rng: int | np.random.Generator | None = 0,
) -> Witness:
    r"""Local conditional CS divergence: where over x p(y|x) and q(y|x) differ.

    .. math:: D(x) = \log w_p' L_{pp} w_p + \log w_q' L_{qq} w_q - 2 \log w_p' L_{pq} w_q, \qquad
              w_{g,i}(x) = \frac{W_i K(x, x_i)}{\sum_{j \in g} W_j K(x, x_j)},

    the CS divergence between the two local conditionals at x, of the response without its regression on x. It is
    computed with the largest exponent taken out, so it is finite wherever x lies. Cost O(r n^2) for r points and n
    pooled rows, O(r n k) above 10,000 rows, plus O(r n k) per resample, k the numerical rank of the Gram matrix on y (a
    few dozen for one response); memory is bounded by 128 MB, plus the results and the regression.

    Parameters
    ----------
    xp, yp, xq, yq : array
        The samples, as in `conditional_cs`.
    at : array, shape (r, d_x), optional
        Where to look; the pooled rows by default, first sample first.
    n_resamples : int
        Resamples of the bands; 0 makes none.
    confidence_level : float
        Level of the bands: at a point where the conditionals agree, the witness stays below `band` with this
        probability, so that with 0.95 one point in twenty is expected above it by chance. If they agree at all points,
        it stays below `simultaneous_band` at all of them with this probability.
    null : {"propensity", "permutation", "local"}
        How labels are redrawn for the bands, as in `conditional_test`. Widths stay as they are.
    propensity : classifier or array, optional
        For null="propensity", as in `conditional_test`.
    adjust : bool
        Whether y is taken without its regression on x (on the pool, without labels), as in `conditional_test`. As it
        is, a steep relation and a shift of x look like a difference within the width of "here".
    bandwidth_x : float, sequence of float, or {"silverman", "scott", "median"}
        Width of "here". The default is narrower than the median rule of the divergences, which would smooth the
        places away.
    bandwidth_y, kernel_x, kernel_y, weights_p, weights_q
        As in `conditional_cs`.
    rng : int, Generator or None
        Seed of the resamples.

    Returns
    -------
    Witness
        Points, values, band, and `plot()`; numpy arrays.

    Notes
    -----
    Few neighbours look like a difference: two small local samples of one distribution are some way apart. Read the
    values against the band (or `expected`), which has the same neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> from condcs.datasets import make_local_shift
    >>> data = make_local_shift(200)
    >>> found = witness(data.xp, data.yp, data.xq, data.yq, at=[-1.0, 0.0, 1.5])
    >>> int(np.argmax(found.values))
    2
    """
    return _witness(
        (xp, yp, xq, yq),
        at=at,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        null=null,
        propensity=propensity,
        adjust=adjust,
        bandwidth_x=bandwidth_x,
        bandwidth_y=bandwidth_y,
        kernel_x=kernel_x,
        kernel_y=kernel_y,
        weights=(weights_p, weights_q),
        rng=rng,
    )


def _witness(
    samples: tuple[Array, Array, Array, Array],
    *,
    at: Array | None,
    n_resamples: int,
    confidence_level: float,
    null: str,
    propensity: Any,
    adjust: bool,
    bandwidth_x: Bandwidth,
    bandwidth_y: Bandwidth,
    kernel_x: Kernel,
    kernel_y: Kernel,
    weights: tuple[Array | None, Array | None],
    rng: int | np.random.Generator | None,
) -> Witness:
    check_choice("null", null, NULLS)
    confidence_level = _check_level(confidence_level)
    count = check_integer("n_resamples", n_resamples, 0)
    _check_enough(count, confidence_level)
    generator = check_rng(rng)
    option = check_kernel("kernel_x", kernel_x)
    backend = backend_of(*samples, at, *weights)
    if backend.name != "numpy":
        given = (None if a is None else backend.to_numpy(a) for a in (*samples, at, *weights))
        *data, at, weights_p, weights_q = given
        xp, yp, xq, yq = data
    else:
        (xp, yp, xq, yq), (weights_p, weights_q) = samples, weights
    x_parts = [("xp", xp), ("xq", xq)]
    options: dict[str, Any] = {
        "kernel_x": kernel_x,
        "kernel_y": kernel_y,
        "bandwidth_x": bandwidth_x,
        "bandwidth_y": bandwidth_y,
    }
    weight_parts = [("weights_p", weights_p), ("weights_q", weights_q)]
    problem = conditional_problem(x_parts, [("yp", yp), ("yq", yq)], weight_parts, **options)
    variable, kernel, n = problem.x.variable, problem.x.kernel, problem.groups.n
    values = np.asarray(variable.values, np.float64)
    flags = variable.labels or (False,) * values.shape[1]
    labels = np.repeat(np.arange(2), problem.groups.sizes)
    smoother = Smoother(values, flags) if adjust or (count and null == "propensity") else None
    if adjust and smoother is not None:
        y = problem.y.variable
        adjusted = adjusted_values(np.asarray(y.values, np.float64), y.labels, smoother)
        if adjusted is not None:
            y_parts = [("yp", adjusted[labels == 0]), ("yq", adjusted[labels == 1])]
            problem = conditional_problem(x_parts, y_parts, weight_parts, **options)
    points = np.arange(n)
    if at is not None:
        variable, kernel = _with_points(problem, [*x_parts, ("at", at)], option)
        points = np.arange(n, variable.values.shape[0])
    local = LocalDivergence(kernel, points, problem.y.kernel, problem.groups)
    observed = local.values()
    bands = None
    if count:
        if null == "propensity" and smoother is not None:
            found = chosen_propensity(propensity, values, smoother, None, labels, 2, generator)
            draw: Draw = partial(found.draw, rng=generator)
        else:
            categorical = flags if any(flags) else None
            draw = label_sampler(null, values, labels, categorical=categorical, rng=generator)
        bands = local.under_null(draw(count), confidence_level)
    return Witness(
        at=np.array(variable.values[points], np.float64),
        values=observed,
        band=None if bands is None else bands.pointwise,
        simultaneous_band=None if bands is None else bands.simultaneous,
        expected=None if bands is None else bands.mean,
        confidence_level=confidence_level,
        names=variable.names,
        null=null,
        bandwidth_x=problem.x.widths,
        bandwidth_y=problem.y.widths,
    )


def _with_points(problem: ConditionalProblem, parts: Parts, option: KernelOption) -> tuple[Variable, LogKernel]:
    """Pool the samples with the points, and make the kernel on x again with the same bandwidths."""
    inputs, widths = problem.inputs, problem.x.widths
    variable = check_variable(
        parts, inputs.backend, inputs.dtype, labels=option.labels, kernel_option=option.option, min_rows=1
    )
    # Without widths the kernel has none, and the rule named here is never asked.
    bandwidth = "median" if widths is None else widths
    return variable, log_kernel(option, "bandwidth_x", bandwidth, variable, inputs.backend, response=False)[0]


def _check_level(confidence_level: Any) -> float:
    if (
        isinstance(confidence_level, bool)
        or not isinstance(confidence_level, Real)
        or not 0 < float(confidence_level) < 1
    ):
        raise ParameterError(
            f"`confidence_level` must be a number between 0 and 1, got {confidence_level!r}. "
            "Pass e.g. confidence_level=0.95."
        )
    return float(confidence_level)


def _check_enough(count: int, confidence_level: float) -> None:
    # The band is the k-th smallest of the resamples, k = ceil(confidence_level (count + 1)): it has to be one of them.
    needed = math.ceil(confidence_level / (1 - confidence_level) - 1e-9)
    if 0 < count < needed:
        raise ParameterError(
            f"`n_resamples` must be 0 or at least {needed} for confidence_level={confidence_level:g}, got {count}. "
            f"Pass e.g. n_resamples={max(200, needed)}."
        )
