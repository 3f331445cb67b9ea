"""Where over x the conditionals differ: the local conditional CS divergence, with a band of what chance alone gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from condcs._core.arrays import (
    NUMPY,
    Array,
    BoolArray,
    ByValue,
    FloatArray,
    IntArray,
    LabelArray,
    backend_of,
    logsumexp,
)
from condcs._core.checks import (
    Groups,
    Parts,
    PresentRows,
    Variable,
    as_numpy,
    check_choice,
    check_integer,
    check_probability,
    check_rng,
    numpy_parts,
    rounded_up,
)
from condcs._core.errors import OverlapError, OverlapWarning, ParameterError, public, warn_caller
from condcs._core.printable import counted
from condcs._core.vocabulary import named, setting
from condcs._inference.adjustment import Adjustment, smoother_of_samples
from condcs._inference.label_overlap import has_labels_of_every_sample
from condcs._inference.nulls import NULLS, Draw, label_sampler
from condcs._inference.responses import response_for_divergence, with_fixed_widths_of_x, with_placeholder_width_of_y
from condcs._inference.weights_and_clusters import checked_clusters, weights_of_mean_one
from condcs._kernels.bandwidths import Bandwidth
from condcs._kernels.log_kernels import LogKernel
from condcs._kernels.low_rank import pivoted_cholesky
from condcs._kernels.named_kernels import Kernel, borrowing
from condcs._measures.inputs import ConditionalProblem, conditional_problem, kernel_with_points, pair
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
        where a label of x does not occur in both samples.
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
        Bandwidths, one per column; of labels how similar two different ones are.
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
    clusters_p: Array | None = None,
    clusters_q: Array | None = None,
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
        Whether the regression of y on x (on the pool) is subtracted first, as in `conditional_test`.
        Without that, a steep relation and a shift of x within one bandwidth look like a difference.
    bandwidth_x : float, sequence of float, or {"silverman", "scott", "median"}
        Bandwidth of the neighbourhood of each point. The default is narrower than the median rule of the divergences,
        which would smooth local differences away.
    bandwidth_y, kernel_x, kernel_y, weights_p, weights_q
        As in `conditional_cs`, but labels in x ("delta") borrow strength from one another, as "aitchison-aitken" says.
    clusters_p, clusters_q : array, optional
        The cluster that each row belongs to, as in `conditional_test`: labels are redrawn by cluster, and the
        regression is chosen by its errors on clusters left out. For null="propensity".
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
    n_resamples = check_integer("n_resamples", n_resamples, 0)
    _check_enough(n_resamples, confidence_level)
    generator = check_rng(rng)

    # 1. The samples, without rows of weight 0. A rule for the bandwidth on y waits until y is adjusted.
    arrays = xp, yp, xq, yq, at, weights_p, weights_q
    backend_of(*arrays)  # all of one library
    xp, yp, xq, yq, at, weights_p, weights_q = (as_numpy(array) for array in arrays)
    samples = pair("x", xp, xq), pair("y", yp, yq), pair("weights_", weights_p, weights_q)
    cluster_parts = numpy_parts(clusters_p=clusters_p, clusters_q=clusters_q)
    _check_null_of_clusters(cluster_parts, null)
    present = PresentRows.of(samples[-1], *samples[:-1], cluster_parts)
    x_parts, y_parts, weight_parts = map(present.of_parts, samples)
    propensity = present.of_pool(propensity)
    options: dict[str, Any] = {
        "kernel_x": borrowing(kernel_x),
        "kernel_y": kernel_y,
        "bandwidth_x": bandwidth_x,
        "bandwidth_y": bandwidth_y,
    }
    first_options = with_placeholder_width_of_y(options) if adjust else options
    problem = conditional_problem(x_parts, y_parts, weight_parts, **first_options)
    sizes, is_category = problem.groups.sizes, problem.x.variable.labels
    x = np.asarray(problem.x.variable.values, np.float64)  # (n, d_x)
    y = np.asarray(problem.y.variable.values, np.float64)  # (n, d_y)
    are_labels = problem.y.variable.labels
    labels = np.repeat(np.arange(2), sizes)  # (n,)

    # 2. The regressions on x, and how labels are redrawn: by the same call as in tests and regions.
    smoother: Smoother | None = None
    draw: Draw | None = None
    clusters = checked_clusters(present.of_parts(cluster_parts), sizes)
    if n_resamples > 0 and null == "propensity":
        adjustment = Adjustment.of(
            x,
            is_category,
            sizes,
            generator,
            clusters=clusters,
            propensity=propensity,
            responses=(y, are_labels),
        )
        smoother, draw = adjustment.smoother, partial(adjustment.propensity.draw, rng=generator)
    else:
        if adjust:
            smoother = smoother_of_samples(x, is_category, labels, clusters, (y, are_labels)).smoother
        if n_resamples > 0:
            draw = label_sampler(null, x, labels, is_category=is_category, rng=generator)

    # 3. The response without its regression on x.
    if adjust and smoother is not None:
        adjusted = response_for_divergence(y, are_labels, smoother)
        if adjusted is not None:
            y_parts = [("yp", adjusted[labels == 0]), ("yq", adjusted[labels == 1])]
            problem = conditional_problem(x_parts, y_parts, weight_parts, **with_fixed_widths_of_x(options, problem.x))

    # 4. The divergence at each point, and under redrawn labels.
    drawn = draw(n_resamples) if draw is not None else None
    return witness_of_problem(problem, x_parts, at, drawn, null=null, confidence_level=confidence_level)


def witness_of_problem(
    problem: ConditionalProblem,
    x_parts: Parts,
    at: Array | None,
    drawn: LabelArray | None,
    *,
    null: str,
    confidence_level: float,
) -> Witness:
    """Return the witness of two samples whose response needs no further regression on x.

    `x_parts` are those of the problem, and `at` the points, its rows if there are none. `drawn` are redrawn labels
    (P x n), by `null`, of which the bands are made.
    """
    # Rows keep their weights when labels are redrawn, so that both samples need weights on one scale.
    groups = replace(problem.groups, weights=weights_of_mean_one(problem.groups))
    # At all rows, or at points that follow them in the kernel on x.
    variable, kernel, points = problem.x.variable, problem.x.kernel, np.arange(groups.n)
    if at is not None:
        variable, kernel = kernel_with_points(problem, [*x_parts, ("at", at)])
        points = np.arange(groups.n, variable.values.shape[0])
    local = LocalDivergence(kernel, points, _are_comparable(problem, variable, points), problem.y.kernel, groups)
    values = local.values()
    bands = None if drawn is None else local.under_null(drawn, confidence_level)
    return Witness(
        at=np.array(variable.values[points], np.float64),
        values=values,
        band=None if bands is None else bands.pointwise,
        simultaneous_band=None if bands is None else bands.simultaneous,
        expected=None if bands is None else bands.mean,
        confidence_level=confidence_level,
        names=variable.names,
        null=null,
        bandwidth_x=problem.x.widths,
        bandwidth_y=problem.y.widths,
    )


def _are_comparable(problem: ConditionalProblem, variable: Variable, points: IntArray) -> BoolArray:
    """Return which points of a pool with points, `variable`, have labels that each occur in both samples (r,)."""
    n, sizes = problem.groups.n, problem.groups.sizes
    values = np.asarray(variable.values, np.float64)  # (n, or n and the points, d_x)
    return has_labels_of_every_sample(
        values[points], values[:n], variable.labels, np.repeat(np.arange(2), sizes), len(sizes)
    )


def _check_null_of_clusters(cluster_parts: Parts, null: str) -> None:
    """Refuse clusters where labels are not redrawn by cluster."""
    passed = [name for name, clusters in cluster_parts if clusters is not None]
    if passed and null != "propensity":
        raise ParameterError(
            f"{named(passed[0])} must go with {setting('null', 'propensity')}, got {setting('null', null)}. Leave it "
            "out for other nulls."
        )


def _check_enough(n_resamples: int, confidence_level: float) -> None:
    """Refuse fewer resamples than a band of this level can be made of."""
    # The band is the k-th smallest of the resamples, k = ceil(confidence_level (n_resamples + 1)), so that k must not
    # be larger than n_resamples.
    needed = rounded_up(confidence_level / (1 - confidence_level))
    if 0 < n_resamples < needed:
        raise ParameterError(
            f"{named('n_resamples')} must be 0 or at least {needed} for "
            f"{setting('confidence_level', confidence_level)}, got {n_resamples}. Pass e.g. "
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

    pointwise: FloatArray  # (r,): upper quantile at each point by itself
    simultaneous: FloatArray  # (r,): what the divergence exceeds at no point, with the probability of the level
    mean: FloatArray  # (r,): its mean


@dataclass(frozen=True)
class LocalDivergence:
    """Local divergences at points of x."""

    kernel_x: LogKernel  # over the pooled rows and the points
    points: IntArray  # where the points lie in `kernel_x`; the pooled rows come first
    comparable: BoolArray  # (r,): the points whose labels each occur in both groups
    kernel_y: LogKernel  # over the pooled rows
    groups: Groups  # the two groups of the pool

    def values(self) -> FloatArray:
        """Divergence at every point; NaN, and counted in a warning, where a group has no mass.

        Cost O(r n^2). Of more rows than all pairs of which are visited, the Gram matrix on y is a product of factors:
        cost O(r n k), k its numerical rank.
        """
        if self.groups.n > many_rows.EXACT_ROWS:
            factor, remainder = _gram_factor(self.kernel_y, self.groups.n)
            labels = np.repeat(np.arange(2), self.groups.sizes)
            of_parts = [
                _divergences_by_factor(*self._masses(points), labels, factor, remainder)
                for points in self._parts_of_points()
            ]
        else:
            of_parts = [self._divergences(self._exponents(points)) for points in self._parts_of_points()]
        values = np.where(self.comparable, np.concatenate(of_parts), np.nan)  # (r,)
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

    def under_null(self, labels: LabelArray, level: float) -> NullBands:
        """Return bands and mean of the divergence over redrawn labels (P x n). Cost O(P r n k).

        The labels as given are one of the 1 + P labellings over which roots are standardised: without them, draws are
        compared with a mean and a deviation in which they have a part themselves and the values have none, and the
        simultaneous band is too low (400 rows of two columns, 60 cases: with 19 draws the values exceeded it in .52,
        with 60 in .15, with 300 in .07; so in .03, .02 and .05).
        """
        factor, remainder = _gram_factor(self.kernel_y, self.groups.n)
        rank = rounded_up(level * (len(labels) + 1)) - 1
        as_given = np.repeat(np.arange(2), self.groups.sizes)  # (n,)
        labellings = np.vstack([as_given, labels])  # (1 + P, n)
        bands, means, centres, deviations = [], [], [], []
        # Of each labelling, the largest root over all points, in deviations of the roots at its point.
        largest = np.full(len(labellings), -np.inf)  # (1 + P,)
        for points in self._parts_of_points():
            exponents, masses = self._masses(points)
            calls = ((exponents, masses, row, factor, remainder) for row in labellings)
            divergences = np.stack(list(on_threads(_divergences_by_factor, calls)))  # (1 + P, points)
            is_absent = np.isnan(divergences)
            if is_absent.any():
                # A draw that leaves a category of x to one group says nothing about it: 0, as agreement would.
                divergences[is_absent & ~is_absent.all(axis=0)] = 0.0
            draws = divergences[1:]
            means.append(draws.mean(axis=0))
            bands.append(np.sort(draws, axis=0)[rank])
            # Roots are closer to a normal distribution, so that no kind of point claims the whole band for itself.
            roots = np.sqrt(np.maximum(divergences, 0.0))  # (1 + P, points)
            centre, deviation = roots.mean(axis=0), np.maximum(roots.std(axis=0), np.finfo(float).tiny)
            centres.append(centre)
            deviations.append(deviation)
            largest = np.fmax(largest, np.fmax.reduce((roots - centre) / deviation, axis=1))
        # The first is that of the labels as given: as all 1 + P are exchangeable if the conditionals are equal, it
        # exceeds this one of the others with a probability of at most 1 - level.
        reach = np.sort(largest[1:])[rank]
        roots_of_band = np.concatenate(centres) + reach * np.concatenate(deviations)  # (r,)
        simultaneous = np.maximum(roots_of_band, 0.0) ** 2
        return NullBands(np.concatenate(bands), simultaneous, np.concatenate(means))

    def _parts_of_points(self) -> Iterator[IntArray]:
        """Yield the points, few enough at a time for their weights to be held."""
        # Weights, exponents and their products with L are held together: four arrays of this size,
        # which take half of the memory.
        step = max(1, MEMORY_FLOATS // (8 * self.groups.n))
        for start in range(0, len(self.points), step):
            yield self.points[start : start + step]

    def _masses(self, points: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the exponents of the weights (n x points), and the weights in units of the largest of each point."""
        exponents = np.ascontiguousarray(self._exponents(points).T)
        peak = exponents.max(axis=0)
        return exponents, np.exp(exponents - np.where(np.isfinite(peak), peak, 0.0))

    def _exponents(self, points: IntArray) -> FloatArray:
        """Log of the unnormalised weights of all pooled rows (points x n)."""
        exponents = np.asarray(self.kernel_x.block(points, slice(0, self.groups.n)), np.float64)
        if self.groups.weights is not None:
            with np.errstate(divide="ignore"):
                exponents = exponents + np.log(np.asarray(self.groups.weights, np.float64))
        return exponents

    def _divergences(self, exponents: FloatArray) -> FloatArray:
        """Return the divergence at each point from the exponents of the weights (points x n); NaN without mass."""
        logs = [_log_softmax(exponents[:, span]) for span in self.groups.slices]  # of each group (points, rows)
        has_mass = np.all([np.isfinite(of_group.max(axis=1)) for of_group in logs], axis=0)
        logs = [of_group[has_mass] for of_group in logs]
        weights = [np.exp(of_group) for of_group in logs]
        divergences = np.full(len(exponents), np.nan)
        within = self._log_forms(logs, weights, 0, 0) + self._log_forms(logs, weights, 1, 1)
        divergences[has_mass] = within - 2 * self._log_forms(logs, weights, 0, 1)
        return divergences

    def _log_forms(self, logs: list[FloatArray], weights: list[FloatArray], g: int, h: int) -> FloatArray:
        """Log of w_g' L w_h at every point, from the weights of both groups and their logs (points x rows each)."""
        rows, columns = self.groups.slices[g], self.groups.slices[h]
        step = max(1, MEMORY_FLOATS // (4 * self.groups.n))
        panels = [slice(start, start + step) for start in range(0, rows.stop - rows.start, step)]

        def exponents(panel: slice) -> FloatArray:
            panel_rows = slice(rows.start + panel.start, min(rows.start + panel.stop, rows.stop))
            return np.asarray(self.kernel_y.block(panel_rows, columns), np.float64)

        sums = np.zeros(len(logs[g]))  # (points,)
        for panel in panels:
            of_rows = weights[h] @ np.exp(exponents(panel)).T  # (points, rows of the panel)
            sums += np.einsum("ij,ij->i", of_rows, weights[g][:, panel])
        with np.errstate(divide="ignore"):
            log_forms = np.log(sums)
        # Sums that underflow are made again in logarithms.
        for point in np.flatnonzero(sums < _SAFE_SUM):
            terms = [logsumexp(NUMPY, exponents(panel) + logs[h][point], 1) + logs[g][point, panel] for panel in panels]
            log_forms[point] = logsumexp(NUMPY, np.concatenate(terms), 0)
        return log_forms


def _log_softmax(exponents: FloatArray) -> FloatArray:
    """Log weights that sum to 1 over each row; minus infinity throughout where there is no mass."""
    total = logsumexp(NUMPY, exponents, 1)
    return np.asarray(exponents - np.where(np.isfinite(total), total, 0.0)[:, None])


def _divergences_by_factor(
    exponents: FloatArray, masses: FloatArray, labels: LabelArray, factor: FloatArray, remainder: FloatArray
) -> FloatArray:
    """Divergence at every point for one labelling; NaN where a group has no mass.

    `exponents` are n x points, and `masses` their exponentials, each column in units of its largest. With L = F F' the
    interaction of two groups is an inner product of their mean features.
    """
    means, squares = [], []  # of each group: its mean features (k, points), and their inner product (points,)
    for g in range(2):
        rows = np.flatnonzero(labels == g)
        weights = masses[rows]
        sums = weights.sum(axis=0)
        underflows = sums < _SAFE_SUM
        if underflows.any():
            weights[:, underflows] = np.exp(_log_softmax(exponents[np.ix_(rows, underflows)].T)).T
            sums[underflows] = weights[:, underflows].sum(axis=0)
        with np.errstate(invalid="ignore"):
            mean = factor[rows].T @ weights / sums
            square = np.einsum("ij,ij->j", mean, mean)
            if remainder[rows].any():
                square += remainder[rows] @ np.square(weights / sums)
        means.append(mean)
        squares.append(square)
    cross = np.maximum(np.einsum("ij,ij->j", *means), _FACTOR_TOLERANCE)
    return np.asarray(np.log(squares[0]) + np.log(squares[1]) - 2 * np.log(cross))


def _gram_factor(kernel: LogKernel, n: int) -> tuple[FloatArray, FloatArray]:
    """Pivoted Cholesky factor F (n, k) of the Gram matrix, L = F F' to 1e-10, and the diagonal of the remainder (n,).

    Smooth kernels of few columns have a few dozen columns here, whatever n is. The rank stops where memory does; the
    diagonal of the remainder then still counts.
    """
    diagonal = kernel.diagonal()
    factor, remainder = pivoted_cholesky(
        lambda i: np.exp(np.asarray(kernel.block(slice(None), slice(i, i + 1)), np.float64))[:, 0],
        np.ones(n) if diagonal is None else np.exp(np.asarray(diagonal, np.float64)),
        most=min(n, max(1, MEMORY_FLOATS // (2 * n))),
        enough=lambda remainder: bool(remainder.max() <= _FACTOR_TOLERANCE),
    )
    checked = slice(None, None, max(1, n // _CHECKED_ROWS))
    gram = np.exp(np.asarray(kernel.block(checked, checked), np.float64))
    is_complete = remainder.max() <= _FACTOR_TOLERANCE
    if is_complete and np.abs(gram - factor[checked] @ factor[checked].T).max() > _LARGEST_ERROR:
        raise ParameterError(
            "`kernel_y` must be positive definite for a band to be made, got a function that is not. "
            f"Pass {setting('n_resamples', 0)}, or another kernel."
        )
    return factor, np.where(remainder > _FACTOR_TOLERANCE, remainder, 0.0)
