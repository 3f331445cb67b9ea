r"""The formulas, written once: functions of log masses and weights, for any array library.

A supplier delivers the kernel masses of rows in groups, :math:`A = K W` on x and :math:`B = (K \circ L) W` on x and y:
in tiles (`condcs._kernels.row_sums`), for all labellings of a test at once (`condcs._inference.statistics`), as
rows come and go (`condcs._measures.sliding_loops`), or from dense tensors (`condcs.nn`). What it delivers enters here:

.. math:: T_{gh} = \sum_j W_{jg} \frac{B_{jh}}{A_{jg} A_{jh}} \quad\text{(conditional, Prop. 2)}, \qquad
          T_{gh} = w_g' L w_h \quad\text{(marginal)},

and a contrast turns T into divergences between all pairs of groups. Logarithms throughout, so that nothing underflows.
The linear forms are for suppliers that need one number for each of hundreds of labellings, the sums over rows for those
that see only some of the rows (`condcs._measures.sampled`). Compiled loops over single rows have a twin of their own
(`condcs._measures.sliding_loops`). Tests pin all of them to the forms in logs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from condcs._core.arrays import NUMPY, Array, Backend, FloatArray, IntArray, log_weights, logsumexp
from condcs._core.checks import Groups, check_choice
from condcs._core.errors import OverlapError
from condcs._kernels.log_kernels import LogKernel
from condcs._kernels.row_sums import RowMasses

ConditionalEstimator = Literal["paper", "pooled", "p", "q"]
ResponseForm = Literal["paper", "symmetric"]
PredictorForm = Literal["corrected", "paper"]
Direction = Literal["pq", "mean", "max"]

RESPONSE_FORMS: dict[ResponseForm, ConditionalEstimator] = {"paper": "q", "symmetric": "paper"}
"""Prop. 3 is Prop. 2 with equal x: as printed, its cross term runs over the rows of the second response alone."""


def conditional_terms(log_ratio: Array, log_a: Array) -> Array:
    r"""Log of :math:`B_{jh} / (A_{jg} A_{jh})` (Prop. 2), from log(B / A) in group h and log A in group g."""
    return log_ratio - log_a


def pooled_terms(log_ratio_g: Array, log_ratio_h: Array, log_r: Array) -> Array:
    r"""Log of :math:`f_{jg} f_{jh} / r_j` with f = B / A and :math:`r_j = B_{jg} + B_{jh}`."""
    return log_ratio_g + log_ratio_h - log_r


def predictor_terms(
    log_a1: Array, log_b1: Array, log_a12: Array, log_b12: Array, form: PredictorForm
) -> tuple[tuple[float, Array], ...]:
    r"""Coefficients and log terms of the sums of Prop. 4: D is the sum of coefficient times log-sum.

    .. math:: D = \log \sum_j \frac{(B^1_j)^2}{(A^1_j)^2 B^{12}_j} + \log \sum_j \frac{B^{12}_j}{(A^{12}_j)^2} -
              2 \log \sum_j \frac{B^1_j}{A^1_j A^{12}_j};

    the printed form has :math:`\sum_j B^1_j / (A^1_j)^2` for the first sum.
    """
    first = 2 * (log_b1 - log_a1) - log_b12 if form == "corrected" else log_b1 - 2 * log_a1
    return (1.0, first), (1.0, log_b12 - 2 * log_a12), (-2.0, log_b1 - log_a1 - log_a12)


def log_total(backend: Backend, terms: Array, weights: Array | None) -> Array:
    """Log of the weighted sum over rows (the first axis) of terms in logs.

    Inside `jax.jit` rows of weight 0 cannot be dropped beforehand. The masses of such a row may all be 0, and its terms
    then be no numbers: it must be absent from the sum whatever they are.
    """
    if weights is not None:
        logs = log_weights(backend, weights)
        logs = logs if terms.ndim == 1 else logs[:, None]
        terms = backend.xp.where(logs == -backend.xp.inf, logs, terms + logs)
    return logsumexp(backend, terms, axis=0)


def conditional_interaction(masses: RowMasses) -> Array:
    """Log T of Prop. 2: row g holds the sums over the members of group g."""
    backend, groups = masses.backend, masses.groups
    rows = [
        log_total(backend, conditional_terms(masses.log_ratio[s], masses.log_a[s, g : g + 1]), groups.weights_of(s))
        for g, s in enumerate(groups.slices)
    ]
    return checked_overlap(backend, backend.xp.stack(rows))


def pooled_divergences(masses: RowMasses) -> Array:
    r"""Conditional CS of all pairs with all integrals estimated over both samples of a pair: never negative.

    .. math:: T_{gh} = \sum_j (W_{jg} + W_{jh}) \frac{f_{jg} f_{jh}}{B_{jg} + B_{jh}}, \qquad f = B / A,

    which is a weighted inner product of f_g and f_h, so that the Cauchy-Schwarz inequality holds exactly.
    """
    backend, groups, xp = masses.backend, masses.groups, masses.backend.xp
    zero = xp.zeros_like(masses.log_a[0, 0])
    divergences = [[zero] * groups.count for _ in range(groups.count)]
    for g in range(groups.count):
        for h in range(g + 1, groups.count):
            spans = groups.slices[g], groups.slices[h]
            weights = None if groups.weights is None else backend.concat([groups.weights[s] for s in spans])
            log_b, ratio = (backend.concat([t[s] for s in spans]) for t in (masses.log_b, masses.log_ratio))
            log_r = logsumexp(backend, xp.stack([log_b[:, g], log_b[:, h]]), axis=0)
            sums = [
                log_total(backend, pooled_terms(ratio[:, a], ratio[:, b], log_r), weights)
                for a, b in ((g, g), (h, h), (g, h))
            ]
            checked_overlap(backend, xp.stack(sums))
            divergences[g][h] = divergences[h][g] = sums[0] + sums[1] - 2 * sums[2]
    return xp.stack([xp.stack(row) for row in divergences])


def marginal_interaction(backend: Backend, log_sums: Array, groups: Groups) -> Array:
    """Log of the mean kernel value between every two groups, from log row sums (weighted means, diagonal included)."""
    # Diagonal kept: without it the Cauchy-Schwarz inequality no longer holds and D can go negative.
    totals = log_totals(backend, groups, log_sums)
    rows = [
        log_total(backend, log_sums[s], groups.weights_of(s)) - totals - totals[g] for g, s in enumerate(groups.slices)
    ]
    return checked_overlap(backend, backend.xp.stack(rows))


def log_totals(backend: Backend, groups: Groups, like: Array) -> Array:
    """Log of the total weight of each group."""
    xp = backend.xp
    if groups.weights is None:
        return backend.from_numpy(np.log(groups.sizes), like)
    return xp.stack([xp.log(xp.sum(groups.weights[s])) for s in groups.slices])


def weight_totals(kernel: LogKernel, groups: Groups) -> Array:
    """Total weights, sums of squared weights, and the same times each row's similarity to itself, by group (3 x G)."""
    xp, diagonal = kernel.backend.xp, kernel.diagonal()
    weights = xp.ones_like(kernel.left[0][:, 0]) if groups.weights is None else groups.weights
    squares = weights**2
    parts = (weights, squares, squares if diagonal is None else squares * xp.exp(diagonal))
    return xp.stack([xp.stack([xp.sum(part[s]) for s in groups.slices]) for part in parts])


def predictor_divergence(backend: Backend, log_sums: list[Array], weights: Array | None, form: PredictorForm) -> Array:
    """Prop. 4 from the log row sums of the kernels K1, K1 L, K1 K2 and K1 K2 L."""
    a1, b1, a12, b12 = log_sums
    parts = [c * log_total(backend, terms, weights) for c, terms in predictor_terms(a1, b1, a12, b12, form)]
    return parts[0] + parts[1] + parts[2]


def contrast(t: Array, estimator: ConditionalEstimator = "paper") -> Array:
    """D[g,h] = T[g,g] + T[h,h] - T[g,h] - T[h,g] for all pairs, of T or of log T.

    The estimators "p" and "q" take one of the cross terms twice. T is G x G, or G x G x P for P labellings.
    """
    diagonal = t.diagonal() if t.ndim == 2 else np.einsum("ggs->gs", t)
    turned = t.T if t.ndim == 2 else np.swapaxes(t, 0, 1)
    both = diagonal[:, None] + diagonal[None, :]
    if estimator in ("p", "q"):
        return both - 2 * (t if estimator == "p" else turned)
    return both - t - turned


def check_direction(direction: str) -> Direction:
    """Return a direction, or say which there are."""
    return check_choice("direction", direction, get_args(Direction))


def directed(backend: Backend, pairs: Array, direction: Direction) -> Array:
    """Combine D[g, h] with D[h, g] (last two axes) as `direction` says."""
    check_direction(direction)
    if direction == "pq":
        return pairs
    turned = backend.xp.swapaxes(pairs, -1, -2)
    return (pairs + turned) / 2 if direction == "mean" else backend.xp.maximum(pairs, turned)


def checked_overlap(backend: Backend, log_t: Array) -> Array:
    """Refuse an interaction that is 0: the groups have nothing in common."""
    if not backend.is_traced(log_t) and bool((backend.detach(log_t) == -backend.xp.inf).any()):
        raise OverlapError(
            "the samples must overlap: no row of one has any kernel similarity to the other, so there is nothing to "
            "compare. "
            'Check that both use the same categories, or use a kernel without compact support, e.g. "gaussian".'
        )
    return log_t


# The same without logarithms, for masses that do not underflow: rows x P arrays, one column for each labelling.


def linear_interaction(shares: list[FloatArray], ratios: list[FloatArray]) -> FloatArray:
    """T of Prop. 2 (G x G x P) from the shares W / A and the ratios B / A of every group (rows x P each)."""
    return np.array([[np.einsum("js,js->s", share, ratio) for ratio in ratios] for share in shares])


def linear_pooled_interaction(shares: FloatArray, ratios: list[FloatArray]) -> FloatArray:
    """T of the pooled estimator (2 x 2 x P) from the shares (W_g + W_h) / (B_g + B_h) and the ratios B / A."""
    return np.array([[np.einsum("js,js,js->s", f, g, shares) for g in ratios] for f in ratios])


def linear_predictor_divergence(
    a1: FloatArray, b1: FloatArray, a12: FloatArray, b12: FloatArray, form: PredictorForm
) -> FloatArray:
    """Prop. 4 for masses with rows on the last axis."""
    first = (b1**2 / (a1**2 * b12)).sum(-1) if form == "corrected" else (b1 / a1**2).sum(-1)
    return np.asarray(np.log(first) + np.log((b12 / a12**2).sum(-1)) - 2 * np.log((b1 / (a1 * a12)).sum(-1)))


# The same as sums over rows, for suppliers that see only some of the rows.


@dataclass(frozen=True)
class RowSums:
    r"""A divergence of two groups, :math:`D = c + \sum_k a_k \phi(S_k)`, of sums over rows.

    `terms` makes the logarithm of what rows add to the sums (rows x K), minus infinity for nothing, from their log
    masses (products x rows x G) and the group of each row.
    """

    coefficients: FloatArray  # the numbers a
    terms: Callable[[FloatArray, IntArray], FloatArray]
    logs: bool = True  # whether phi is the logarithm, or the identity
    constant: float = 0.0  # the number c

    def added(self, log_masses: FloatArray, groups: IntArray, weights: FloatArray) -> FloatArray:
        """Return what rows add to the sums (rows x K)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(self.terms(log_masses, groups) + np.log(weights)[:, None]))

    def value(self, sums: FloatArray) -> float:
        """Return D."""
        if self.logs:
            with np.errstate(divide="ignore"):
                sums = checked_overlap(NUMPY, np.log(sums))
        return float(self.constant + self.coefficients @ sums)

    def gradient(self, sums: FloatArray) -> FloatArray:
        """Return the derivatives of D by the sums."""
        return self.coefficients / np.maximum(sums, TINY) if self.logs else self.coefficients


TINY = 1e-290
"""Stands for 0 in denominators and logarithms."""


def conditional_sums(estimator: ConditionalEstimator = "paper", *, logs: bool = True) -> RowSums:
    """Prop. 2: four sums, T[p,p], T[p,q], T[q,p], T[q,q]; or three over both groups, of the pooled estimator."""

    def terms(log_masses: FloatArray, groups: IntArray) -> FloatArray:
        log_a, log_b = _present(log_masses)
        return _terms_by_group(groups, conditional_terms(log_b - log_a, np.take_along_axis(log_a, groups[:, None], 1)))

    def pooled(log_masses: FloatArray, groups: IntArray) -> FloatArray:
        log_a, log_b = _present(log_masses)
        ratio, log_r = log_b - log_a, np.logaddexp(log_b[:, 0], log_b[:, 1])
        return np.stack([pooled_terms(ratio[:, g], ratio[:, h], log_r) for g, h in ((0, 0), (1, 1), (0, 1))], axis=1)

    if estimator == "pooled":
        return RowSums(np.array([1.0, 1.0, -2.0]), pooled)
    cross = {"paper": (-1.0, -1.0), "p": (-2.0, 0.0), "q": (0.0, -2.0)}[estimator]
    return RowSums(np.array([1.0, *cross, 1.0]), terms, logs)


def predictor_sums(form: PredictorForm) -> RowSums:
    """Prop. 4: three sums over one group, of the products K1, K1 L, K1 K2 and K1 K2 L."""

    def terms(log_masses: FloatArray, _: IntArray) -> FloatArray:
        a1, b1, a12, b12 = log_masses[:, :, 0]
        return np.stack([of_sum for _, of_sum in predictor_terms(a1, b1, a12, b12, form)], axis=1)

    return RowSums(np.array([1.0, 1.0, -2.0]), terms)


def marginal_sums(
    totals: FloatArray, *, logs: bool, within: tuple[tuple[float, float], ...] = ((0.0, 1.0),) * 2
) -> RowSums:
    """Mean kernel values between two groups: four sums, of which the log or the linear contrast is taken.

    `totals` are the total weights of the groups. For the unbiased estimate, `within` says what the mean within each
    group is diminished by, and then divided by.
    """
    log_totals = np.log(totals)

    def terms(log_masses: FloatArray, groups: IntArray) -> FloatArray:
        return _terms_by_group(groups, log_masses[0] - log_totals - log_totals[groups][:, None])

    (itself_p, others_p), (itself_q, others_q) = within
    coefficients = np.array([1 / others_p, -1.0, -1.0, 1 / others_q])
    return RowSums(coefficients, terms, logs, -(itself_p / others_p) - itself_q / others_q)


def _terms_by_group(groups: IntArray, terms: FloatArray) -> FloatArray:
    """Return what rows add to the four sums, T[p,p], T[p,q], T[q,p] and T[q,q], in logarithms (rows x 4).

    `terms` (rows x 2) are what a row of group g adds to T[g,p] and T[g,q]; it adds nothing to the others.
    """
    by_sum = np.full((len(groups), 4), -np.inf)
    np.put_along_axis(by_sum, 2 * groups[:, None] + np.arange(2), terms, 1)
    return by_sum


def _present(log_masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log A and log B; rows without mass in a group (an absent category) add nothing to its terms."""
    log_a, log_b = log_masses
    absent = log_a == -np.inf
    return np.where(absent, 0.0, log_a), np.where(absent, -np.inf, log_b)
