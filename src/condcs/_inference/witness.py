"""Where over x the conditionals differ: the local conditional CS divergence, with a band of what chance alone gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from condcs._core.arrays import NUMPY, Array, ByValue, FloatArray, IntArray, LabelArray, backend_of, logsumexp
from condcs._core.checks import (
    Groups,
    PresentRows,
    as_numpy,
    check_choice,
    check_integer,
    check_probability,
    check_rng,
    rounded_up,
)
from condcs._core.errors import OverlapError, OverlapWarning, ParameterError, public, warn_caller
from condcs._core.printable import counted
from condcs._core.vocabulary import named, setting
from condcs._inference.nulls import NULLS, Draw, label_sampler
from condcs._inference.propensities import chosen_propensity
from condcs._inference.responses import response_for_divergence, with_fixed_widths_of_x, with_placeholder_width_of_y
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import LogKernel
from condcs._kernels.low_rank import pivoted_cholesky
from condcs._kernels.named_kernels import Kernel
from condcs._measures.inputs import conditional_problem, kernel_with_points, pair
from condcs._parallel import many_rows
from condcs._parallel.spreading import on_threads
from condcs._regression.smoother import Smoother


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
        How labels are redrawn for the bands, as in `conditional_test`. Bandwidths stay as they are.
    propensity : classifier or array, optional
        For null="propensity", as in `conditional_test`.
    adjust : bool
        Whether the regression of y on x (on the pool, without labels) is subtracted first, as in `conditional_test`.
        Without that, a steep relation and a shift of x within one bandwidth look like a difference.
    bandwidth_x : float, sequence of float, or {"silverman", "scott", "median"}
        Bandwidth of the neighbourhood of each point. The default is narrower than the median rule of the divergences,
        which would smooth local differences away.
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
    >>> local = witness(data.xp, data.yp, data.xq, data.yq, at=[-1.0, 0.0, 1.5])
    >>> int(np.argmax(local.values))
    2
    """
    check_choice("null", null, NULLS)
    confidence_level = check_probability("confidence_level", confidence_level, 0.95)
    count = check_integer("n_resamples", n_resamples, 0)
    _check_enough(count, confidence_level)
    generator = check_rng(rng)
    arrays = xp, yp, xq, yq, at, weights_p, weights_q
    backend_of(*arrays)  # all of one library
    xp, yp, xq, yq, at, weights_p, weights_q = (as_numpy(array) for array in arrays)
    samples = pair("x", xp, xq), pair("y", yp, yq), pair("weights_", weights_p, weights_q)
    present = PresentRows.of(samples[-1], *samples[:-1])
    x_parts, y_parts, weight_parts = map(present.of_parts, samples)
    propensity = present.of_pool(propensity)
    options: dict[str, Any] = {
        "kernel_x": kernel_x,
        "kernel_y": kernel_y,
        "bandwidth_x": bandwidth_x,
        "bandwidth_y": bandwidth_y,
    }
    first = with_placeholder_width_of_y(options) if adjust else options
    problem = conditional_problem(x_parts, y_parts, weight_parts, **first)
    variable, kernel, n = problem.x.variable, problem.x.kernel, problem.groups.n
    values = np.asarray(variable.values, np.float64)
    labels = np.repeat(np.arange(2), problem.groups.sizes)
    smoother = Smoother(values, variable.labels) if adjust or (count and null == "propensity") else None
    if adjust and smoother is not None:
        y = problem.y.variable
        adjusted = response_for_divergence(np.asarray(y.values, np.float64), y.labels, smoother)
        if adjusted is not None:
            y_parts = [("yp", adjusted[labels == 0]), ("yq", adjusted[labels == 1])]
            problem = conditional_problem(x_parts, y_parts, weight_parts, **with_fixed_widths_of_x(options, problem.x))
    points = np.arange(n)
    if at is not None:
        variable, kernel = kernel_with_points(problem, [*x_parts, ("at", at)])
        points = np.arange(n, variable.values.shape[0])
    local = LocalDivergence(kernel, points, problem.y.kernel, problem.groups)
    observed = local.values()
    bands = None
    if count:
        if null == "propensity" and smoother is not None:
            fitted = chosen_propensity(propensity, values, smoother, None, labels, 2, generator)
            draw: Draw = partial(fitted.draw, rng=generator)
        else:
            draw = label_sampler(null, values, labels, is_category=problem.x.variable.labels, rng=generator)
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


def _check_enough(count: int, confidence_level: float) -> None:
    """Refuse fewer resamples than a band of this level can be made of."""
    # The band is the k-th smallest of the resamples, k = ceil(confidence_level (count + 1)): it has to be one of them.
    needed = rounded_up(confidence_level / (1 - confidence_level))
    if 0 < count < needed:
        raise ParameterError(
            f"{named('n_resamples')} must be 0 or at least {needed} for "
            f"{setting('confidence_level', confidence_level)}, got {count}. Pass e.g. "
            f"{setting('n_resamples', max(200, needed))}."
        )


MEMORY_FLOATS = 2**24
"""Numbers held at once (128 MB). The Gram matrix on y is kept where it fits, and made again by panels where not."""

_SAFE_SUM = 1e-290
"""Sums above this hold no digits lost to underflow: a term that underflows is below 1e-307, a part of 1e-17."""
_FACTOR_TOLERANCE = 1e-10
"""Redrawn labels work with a factor of the Gram matrix on y: there alone, similarities below this are cut off."""
_CHECKED_ROWS, _LARGEST_ERROR = 64, 1e-6
"""Rows, evenly spaced, whose similarities the factor must reproduce to within this error. Of a positive definite kernel
it does so to within the tolerance above, but for rounding."""


@dataclass(frozen=True)
class NullBands:
    """What the divergence at each point is when the conditionals are equal."""

    pointwise: FloatArray  # r: upper quantile at each point by itself
    simultaneous: FloatArray  # r: what the divergence exceeds at no point, with the probability of the level
    mean: FloatArray  # r: its mean


@dataclass(frozen=True)
class LocalDivergence:
    """Local divergences at points of x."""

    kernel_x: LogKernel  # over the pooled rows and the points
    points: IntArray  # where the points lie in `kernel_x`; the pooled rows come first
    kernel_y: LogKernel  # over the pooled rows
    groups: Groups  # the two groups of the pool

    def values(self) -> FloatArray:
        """Divergence at every point; NaN, and counted in a warning, where a group has no mass.

        Cost O(r n^2). Of more rows than all pairs of which are visited, the Gram matrix on y is a product of factors:
        cost O(r n k), k its numerical rank.
        """
        if self.groups.n > many_rows.EXACT_ROWS:
            factor, rest = _factor(self.kernel_y, self.groups.n)
            labels = np.repeat(np.arange(2), self.groups.sizes)
            by_part = [_redrawn(*self._masses(part), labels, factor, rest) for part in self._parts()]
        else:
            by_part = [self._values(self._exponents(part)) for part in self._parts()]
        values = np.concatenate(by_part)
        absent = np.isnan(values)
        if absent.all():
            raise OverlapError(
                "the samples must overlap: at no point does each of them have a row of the same category of x. "
                "Check that both use the same categories."
            )
        if absent.any():
            rows = int(absent.sum())
            words = (
                f"at {rows:,} of {counted(len(values), 'point')} x does not occur in both samples; there is nothing to "
                "compare, and the witness is NaN."
            )
            warn_caller(OverlapWarning(words, "points", rows=rows, of_rows=len(values)))
        return values

    def _masses(self, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the exponents of the weights (n x points), and the weights in units of the largest of each point."""
        exponents = np.ascontiguousarray(self._exponents(points).T)
        peak = exponents.max(axis=0)
        return exponents, np.exp(exponents - np.where(np.isfinite(peak), peak, 0.0))

    def under_null(self, labels: LabelArray, level: float) -> NullBands:
        """Return bands and mean of the divergence over redrawn labels (P x n). Cost O(P r n k)."""
        factor, rest = _factor(self.kernel_y, self.groups.n)
        rank = rounded_up(level * (len(labels) + 1)) - 1
        bands, means, centres, deviations = [], [], [], []
        largest = np.full(len(labels), -np.inf)
        for part in self._parts():
            exponents, masses = self._masses(part)
            calls = ((exponents, masses, row, factor, rest) for row in labels)
            draws = np.stack(list(on_threads(_redrawn, calls)))
            empty = np.isnan(draws)
            if empty.any():
                # A draw that leaves a category of x to one group says nothing about it: 0, as agreement would.
                draws[empty & ~empty.all(axis=0)] = 0.0
            means.append(draws.mean(axis=0))
            bands.append(np.sort(draws, axis=0)[rank])
            # Roots are closer to a normal distribution, so that no kind of point claims the whole band for itself.
            roots = np.sqrt(np.maximum(draws, 0.0))
            centre, deviation = roots.mean(axis=0), np.maximum(roots.std(axis=0), np.finfo(float).tiny)
            centres.append(centre)
            deviations.append(deviation)
            largest = np.fmax(largest, np.fmax.reduce((roots - centre) / deviation, axis=1))
        reach = np.sort(largest)[rank]
        simultaneous = np.maximum(np.concatenate(centres) + reach * np.concatenate(deviations), 0.0) ** 2
        return NullBands(np.concatenate(bands), simultaneous, np.concatenate(means))

    def _parts(self) -> Iterator[IntArray]:
        """Yield the points, few enough at a time for their weights to be held."""
        # Weights, exponents and their products with L are held together: four arrays of this size.
        step = max(1, MEMORY_FLOATS // (8 * self.groups.n))
        for start in range(0, len(self.points), step):
            yield self.points[start : start + step]

    def _exponents(self, points: IntArray) -> FloatArray:
        """Log of the unnormalised weights of all pooled rows (points x n)."""
        exponents = np.asarray(self.kernel_x.block(points, slice(0, self.groups.n)), np.float64)
        if self.groups.weights is not None:
            with np.errstate(divide="ignore"):
                exponents = exponents + np.log(np.asarray(self.groups.weights, np.float64))
        return exponents

    def _values(self, exponents: FloatArray) -> FloatArray:
        """Return the divergence at each point from the exponents of the weights (points x n); NaN without mass."""
        logs = [_log_softmax(exponents[:, s]) for s in self.groups.slices]
        present = np.all([np.isfinite(part.max(axis=1)) for part in logs], axis=0)
        logs = [part[present] for part in logs]
        weights = [np.exp(part) for part in logs]
        divergences = np.full(len(exponents), np.nan)
        within = self._log_forms(logs, weights, 0, 0) + self._log_forms(logs, weights, 1, 1)
        divergences[present] = within - 2 * self._log_forms(logs, weights, 0, 1)
        return divergences

    def _log_forms(self, logs: list[FloatArray], weights: list[FloatArray], g: int, h: int) -> FloatArray:
        """Log of w_g' L w_h at every point, from the weights of both groups and their logs (points x rows each)."""
        rows, columns = self.groups.slices[g], self.groups.slices[h]
        step = max(1, MEMORY_FLOATS // (4 * self.groups.n))
        parts = [slice(start, start + step) for start in range(0, rows.stop - rows.start, step)]

        def exponents(part: slice) -> FloatArray:
            some = slice(rows.start + part.start, min(rows.start + part.stop, rows.stop))
            return np.asarray(self.kernel_y.block(some, columns), np.float64)

        sums = np.zeros(len(logs[g]))
        for part in parts:
            sums += np.einsum("ij,ij->i", weights[h] @ np.exp(exponents(part)).T, weights[g][:, part])
        with np.errstate(divide="ignore"):
            log_forms = np.log(sums)
        for point in np.flatnonzero(sums < _SAFE_SUM):
            terms = [logsumexp(NUMPY, exponents(part) + logs[h][point], 1) + logs[g][point, part] for part in parts]
            log_forms[point] = logsumexp(NUMPY, np.concatenate(terms), 0)
        return log_forms


def _log_softmax(exponents: FloatArray) -> FloatArray:
    """Log weights that sum to 1 over each row; minus infinity throughout where there is no mass."""
    total = logsumexp(NUMPY, exponents, 1)
    return np.asarray(exponents - np.where(np.isfinite(total), total, 0.0)[:, None])


def _redrawn(
    exponents: FloatArray, masses: FloatArray, labels: LabelArray, factor: FloatArray, rest: FloatArray
) -> FloatArray:
    """Divergence at every point for one draw of labels; NaN where a group has no mass.

    `exponents` are n x points, and `masses` their exponentials, each column in units of its largest. With L = F F' the
    interaction of two groups is an inner product of their mean features.
    """
    means, squares = [], []  # of each group: its mean features (k, points), and their inner product (points,)
    for g in range(2):
        rows = np.flatnonzero(labels == g)
        weights = masses[rows]
        sums = weights.sum(axis=0)
        lost = sums < _SAFE_SUM
        if lost.any():
            weights[:, lost] = np.exp(_log_softmax(exponents[np.ix_(rows, lost)].T)).T
            sums[lost] = weights[:, lost].sum(axis=0)
        with np.errstate(invalid="ignore"):
            mean = factor[rows].T @ weights / sums
            square = np.einsum("ij,ij->j", mean, mean)
            if rest[rows].any():
                square += rest[rows] @ np.square(weights / sums)
        means.append(mean)
        squares.append(square)
    cross = np.maximum(np.einsum("ij,ij->j", *means), _FACTOR_TOLERANCE)
    return np.asarray(np.log(squares[0]) + np.log(squares[1]) - 2 * np.log(cross))


def _factor(kernel: LogKernel, n: int) -> tuple[FloatArray, FloatArray]:
    """Pivoted Cholesky factor F of the Gram matrix, L = F F' to 1e-10, and what is left of the diagonal.

    Smooth kernels of few columns have a few dozen columns here, whatever n is. The rank stops where memory does; the
    diagonal that is left then still counts.
    """
    diagonal = kernel.diagonal()
    factor, rest = pivoted_cholesky(
        lambda i: np.exp(np.asarray(kernel.block(slice(None), slice(i, i + 1)), np.float64))[:, 0],
        np.ones(n) if diagonal is None else np.exp(np.asarray(diagonal, np.float64)),
        most=min(n, max(1, MEMORY_FLOATS // (2 * n))),
        enough=lambda rest: bool(rest.max() <= _FACTOR_TOLERANCE),
    )
    some = slice(None, None, max(1, n // _CHECKED_ROWS))
    gram = np.exp(np.asarray(kernel.block(some, some), np.float64))
    if rest.max() <= _FACTOR_TOLERANCE and np.abs(gram - factor[some] @ factor[some].T).max() > _LARGEST_ERROR:
        raise ParameterError(
            "`kernel_y` must be positive definite for a band to be made, got a function that is not. "
            f"Pass {setting('n_resamples', 0)}, or another kernel."
        )
    return factor, np.where(rest > _FACTOR_TOLERANCE, rest, 0.0)
