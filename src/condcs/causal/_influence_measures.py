r"""Measures of a causal influence: conditional CS, and the methods that it is compared with.

Each takes the targets, what is conditioned on (the target's own past), and the past of the source, one row per time.

Linear Granger causality is the F statistic of adding the source's past to a linear regression (Granger 1969).

Kernel Granger causality (Marinazzo, Pellicoro and Stramaglia, 2008) projects the target on the range of the Gram matrix
K of its own past. What the joint past adds lies in the range of :math:`\tilde K = (1 - P) K' (1 - P)`, with K' the Gram
matrix of both pasts and P the projector on the range of K. The score is the sum of squared correlations of the residual
of the target with those eigenvectors of :math:`\tilde K` whose correlation is significant (5%, Bonferroni).

Transfer entropy is I(target; source's past | own past) from nearest neighbours, by one of two estimators: Frenzel and
Pompe (2007), which counts neighbours in the subspaces within the distance found in the joint space, so that biases
cancel (the KSG idea); and the sum of four Kozachenko-Leonenko entropies, as the paper's toolbox computes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.checks import check_choice, check_integer, check_positive
from condcs._core.errors import BandwidthError
from condcs._core.vocabulary import named, setting
from condcs._kernels.bandwidths import median_widths
from condcs._kernels.low_rank import pivoted_cholesky
from condcs._kernels.row_sums import exp_in_place
from condcs._measures.formulas import PredictorForm
from condcs.causal._series import check_kind

InfluenceBandwidthRule = Literal["predictive", "median"]
Eigensolver = Literal["low_rank", "full"]
EntropyEstimator = Literal["frenzel_pompe", "entropies"]

Score = Callable[[FloatArray, FloatArray, FloatArray], float]
"""``score(target, condition, source)``: larger for a stronger influence."""

_SIGNIFICANCE = 0.05
"""Level of the test of each eigenvector's correlation, that of Marinazzo et al. Higher levels let correlations that are
noise add to the index."""

_SHARE_OF_TOLERANCE = 0.1
"""The trace that a low-rank factor may leave, as a share of the tolerance: it bounds the error of every eigenvalue,
which is then small beside the smallest that counts."""

_ROUNDING = 1e-14
"""Remainders of a Gram matrix with a diagonal of 1 below this are rounding errors: no further pivot would be real."""


@dataclass(frozen=True)
class ConditionalCS:
    """Conditional CS divergence of Prop. 4 between p(target | own past) and p(target | both pasts).

    Attributes
    ----------
    form : {"corrected", "paper"}
        The corrected Prop. 4, never negative, or the printed one, which also flags the reverse of a true link.
    bandwidth : "predictive", "median" or positive float
        The bandwidth that predicts best (`condcs.causal._predictive_choice` explains how it is found), the median
        distance of each series, or a number in its units.
    """

    name: ClassVar[str] = "conditional_cs"
    form: PredictorForm = "corrected"
    bandwidth: InfluenceBandwidthRule | float = "predictive"

    def __post_init__(self) -> None:
        check_choice("form", self.form, get_args(PredictorForm))
        if not isinstance(self.bandwidth, str):
            check_positive("bandwidth", self.bandwidth)
        elif self.bandwidth not in get_args(InfluenceBandwidthRule):
            raise BandwidthError(
                f"{named('bandwidth')} must be a positive number or one of the rules 'predictive', 'median', got "
                f"{self.bandwidth!r}. Pass {setting('bandwidth', 'predictive')}."
            )


@dataclass(frozen=True)
class LinearGranger:
    """F statistic of the source's past in a linear regression of the target on both pasts."""

    name: ClassVar[str] = "linear_granger"

    def scorer(self, condition: FloatArray, source: FloatArray) -> Score:
        """Return the score as a function of the targets, the condition and the source."""
        return lambda *parts: f_test(*parts)[0]


@dataclass(frozen=True)
class KernelGranger:
    """Kernel Granger causality index of Marinazzo et al. (2008).

    Attributes
    ----------
    bandwidth : "median" or positive float
        Bandwidth on the own past and on both pasts; "median" finds one for each.
    tolerance : float
        Eigenvalues below this share of the largest count as 0.
    eigensolver : {"low_rank", "full"}
        "full" decomposes n x n matrices, O(n^3); "low_rank" first finds a factor K = F F' by pivoted Cholesky down to
        the same tolerance, O(n r^2).
    """

    name: ClassVar[str] = "kernel_granger"
    bandwidth: Literal["median"] | float = "median"
    tolerance: float = 1e-6
    eigensolver: Eigensolver = "low_rank"

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str):
            check_choice("bandwidth", self.bandwidth, ("median",))
        else:
            check_positive("bandwidth", self.bandwidth)
        check_positive("tolerance", self.tolerance)
        check_choice("eigensolver", self.eigensolver, get_args(Eigensolver))

    def in_unit(self, exponent: int) -> KernelGranger:
        """Express the bandwidth, if it was given as a number, in units of 2**exponent."""
        if isinstance(self.bandwidth, str):
            return self
        return replace(self, bandwidth=bandwidth_in_unit(self.bandwidth, exponent))

    def scorer(self, condition: FloatArray, source: FloatArray) -> Score:
        """Return the score with bandwidths fixed on the whole series: surrogates do not estimate them again."""
        if isinstance(self.bandwidth, str):
            bandwidths = median_bandwidth(condition), median_bandwidth(np.hstack([condition, source]))
        else:
            bandwidths = self.bandwidth, self.bandwidth
        spectrum = _full_spectrum if self.eigensolver == "full" else _low_rank_spectrum
        return partial(_kernel_granger, bandwidths=bandwidths, tolerance=self.tolerance, spectrum=spectrum)


@dataclass(frozen=True)
class TransferEntropy:
    """Transfer entropy in nats, from nearest neighbours; columns are compared in units of their standard deviation.

    Attributes
    ----------
    k : int
        Number of neighbours.
    estimator : {"frenzel_pompe", "entropies"}
        Frenzel and Pompe's, or the sum of four Kozachenko-Leonenko entropies.
    """

    name: ClassVar[str] = "transfer_entropy"
    k: int = 3
    estimator: EntropyEstimator = "frenzel_pompe"

    def __post_init__(self) -> None:
        check_integer("k", self.k, 1)
        check_choice("estimator", self.estimator, get_args(EntropyEstimator))

    def scorer(self, condition: FloatArray, source: FloatArray) -> Score:
        """Return the score as a function of the targets, the condition and the source."""
        return self._score

    def _score(self, target: FloatArray, condition: FloatArray, source: FloatArray) -> float:
        check_integer("k", self.k, 1, len(target) - 1, because=f" (there are {len(target)} rows)")
        y, z, x = (_standardised(part) for part in (target, condition, source))
        if self.estimator == "frenzel_pompe":
            return _conditional_information(y, x, z, self.k)
        # I(y; x | z) = H(z, x) - H(y, z, x) + H(y, z) - H(z)
        subspaces = ((z, x), (y, z, x), (y, z), (z,))
        h_zx, h_yzx, h_yz, h_z = (differential_entropy(np.hstack(parts), self.k) for parts in subspaces)
        return h_zx - h_yzx + h_yz - h_z


InfluenceBaseline = LinearGranger | KernelGranger | TransferEntropy
InfluenceName = Literal["conditional_cs", "linear_granger", "kernel_granger", "transfer_entropy"]
InfluenceMeasure = InfluenceName | ConditionalCS | InfluenceBaseline
"""A measure, or the name of one with its default options."""


def check_influence_measure(measure: InfluenceMeasure) -> ConditionalCS | InfluenceBaseline:
    """Return a measure, or the one with this name and its default options."""
    kinds = (ConditionalCS, LinearGranger, KernelGranger, TransferEntropy)
    checked: ConditionalCS | InfluenceBaseline = check_kind("measure", measure, kinds)
    return checked


def median_bandwidth(values: FloatArray) -> float:
    """Return the median distance over all pairs of rows; of two values, say, the smallest percentile that is not 0."""
    return float(median_widths(values, joint=True)[0][0])


def bandwidth_in_unit(bandwidth: float, exponent: int) -> float:
    """Express a bandwidth in units of 2**exponent."""
    # Beyond these bounds every kernel value is 1, or 0, and squares would leave the range of a double.
    with np.errstate(over="ignore"):
        return float(np.clip(np.ldexp(bandwidth, -exponent), 2.0**-500, 2.0**500))


def f_test(target: FloatArray, condition: FloatArray, source: FloatArray) -> tuple[float, float]:
    """Return the F statistic and p-value of adding the source to a linear regression on the condition.

    For a target of several columns: the largest F, with Bonferroni's p-value.
    """
    from scipy.special import fdtrc

    ones = np.ones((len(target), 1))
    without_source = np.hstack([ones, condition])
    with_source = np.hstack([ones, condition, source])
    squares_without, rank_without = _squared_residuals(without_source, target)  # (columns of the target,)
    squares_with, rank_with = _squared_residuals(with_source, target)
    # Degrees of freedom: of the source's columns that the condition does not hold already, and of the residuals.
    df_source, df_residual = rank_with - rank_without, len(target) - rank_with
    if not df_source or not df_residual:
        return 0.0, 1.0
    noise = np.maximum(squares_with / df_residual, np.finfo(float).tiny)
    statistic = float(np.max((squares_without - squares_with) / df_source / noise))
    return statistic, min(1.0, target.shape[1] * float(fdtrc(df_source, df_residual, max(statistic, 0.0))))


def _squared_residuals(design: FloatArray, target: FloatArray) -> tuple[FloatArray, int]:
    """Return the sum of squared residuals of each column of the target, and the rank of the design."""
    coefficients, _, rank, _ = np.linalg.lstsq(design, target, rcond=None)
    return ((target - design @ coefficients) ** 2).sum(axis=0), int(rank)


def _kernel_granger(
    target: FloatArray,
    condition: FloatArray,
    source: FloatArray,
    *,
    bandwidths: tuple[float, float],
    tolerance: float,
    spectrum: Callable[..., FloatArray],
) -> float:
    """Return the filtered causality index: the share of the residual target that the source's past explains.

    For a target of several columns, the largest.
    """
    # Orthonormal columns: the range of the own past, and what both pasts add to it.
    V = spectrum(condition, bandwidths[0], tolerance, None)  # (n, k)
    W = spectrum(np.hstack([condition, source]), bandwidths[1], tolerance, V)  # (n, m)
    largest_index = 0.0
    for column in target.T:
        y = column - column.mean()
        residuals = y - V @ (V.T @ y)  # (n,)
        norm = float(np.linalg.norm(residuals))
        if norm == 0 or not W.shape[1]:
            continue
        r = W.T @ (residuals / norm)  # (m,)
        index = float(np.sum(r[_significant(r, len(y))] ** 2))
        largest_index = max(largest_index, index)
    return largest_index


def _significant(r: FloatArray, n: int) -> Any:
    """Which correlations differ from 0 by Student's t at 5%, Bonferroni-corrected."""
    from scipy.stats import t as student

    critical = float(student.ppf(1 - _SIGNIFICANCE / (2 * len(r)), n - 2))
    return np.abs(r) > critical / np.sqrt(n - 2 + critical**2)


def _full_spectrum(points: FloatArray, bandwidth: float, tolerance: float, removed: FloatArray | None) -> FloatArray:
    """Eigenvectors of the centred Gram matrix, after the span of `removed` is projected out on both sides.

    Those of eigenvalues above `tolerance` times the largest one before the projection.
    """
    from scipy.sparse.linalg import eigsh
    from scipy.spatial.distance import pdist, squareform

    K = squareform(pdist(points, "sqeuclidean"))
    K *= -1 / (2 * bandwidth**2)
    exp_in_place(K)
    # Centred: rows and columns sum to 0.
    means = K.mean(axis=0)
    K += means.mean() - means - means[:, None]
    largest = None  # eigenvalue before the projection
    if removed is not None:
        # The Lanczos iteration needs more rows than eigenvalues plus one; its fixed start makes it repeatable.
        if len(K) < 3:
            largest = float(np.linalg.norm(K, 2))
        else:
            largest = float(eigsh(K, k=1, v0=np.linspace(1, 2, len(K)), return_eigenvectors=False)[0])
        # (1 - P) K (1 - P), with P the projector on the span.
        K = K - removed @ (removed.T @ K)
        K = K - (K @ removed) @ removed.T
        K = (K + K.T) / 2
    values, vectors = np.linalg.eigh(K)
    is_nonzero = values > tolerance * (values[-1] if largest is None else largest)
    return np.asarray(vectors[:, is_nonzero])


def _low_rank_spectrum(
    points: FloatArray, bandwidth: float, tolerance: float, removed: FloatArray | None
) -> FloatArray:
    """As `_full_spectrum`, from a pivoted Cholesky factor."""
    n, z = len(points), points / (math.sqrt(2) * bandwidth)
    # The trace of the remainder bounds the error of every eigenvalue; the largest eigenvalue is at least trace / rank.
    F, _ = pivoted_cholesky(
        lambda i: np.exp(-((z - z[i]) ** 2).sum(axis=1)),
        np.ones(n),
        most=n,
        enough=lambda rest: bool(rest.sum() <= _SHARE_OF_TOLERANCE * tolerance * n or rest.max() <= _ROUNDING),
    )
    F = F - F.mean(axis=0)
    largest = None
    if removed is not None:
        largest = float(np.linalg.eigvalsh(F.T @ F)[-1])
        F = F - removed @ (removed.T @ F)
    # Eigenvectors of F F' from those of the small F' F.
    values, vectors = np.linalg.eigh(F.T @ F)
    is_nonzero = values > tolerance * (values[-1] if largest is None else largest)
    return np.asarray(F @ vectors[:, is_nonzero] / np.sqrt(values[is_nonzero]))


def _conditional_information(y: FloatArray, x: FloatArray, z: FloatArray, k: int) -> float:
    r"""Frenzel and Pompe's :math:`\psi(k) - \langle \psi(n_{yz}) + \psi(n_{xz}) - \psi(n_z) \rangle`, maximum norm."""
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    joint = np.hstack([y, x, z])
    # k + 1: each point is its own nearest neighbour.
    distances = cKDTree(joint).query(joint, k + 1, p=np.inf)[0]  # (n, k + 1)
    # Counts are of points strictly nearer than the k-th, and of the point itself.
    radius = np.nextafter(distances[:, -1], 0)
    information = digamma(k)
    for sign, space in ((-1, np.hstack([y, z])), (-1, np.hstack([x, z])), (1, z)):
        counts = cKDTree(space).query_ball_point(space, np.maximum(radius, 0.0), p=np.inf, return_length=True)
        information += sign * float(np.mean(digamma(counts)))
    return float(information)


def differential_entropy(points: FloatArray, k: int) -> float:
    """Kozachenko and Leonenko's differential entropy, Euclidean norm; repeated points get the least distance seen."""
    from scipy.spatial import cKDTree
    from scipy.special import digamma, gammaln

    n, d = points.shape
    distances = cKDTree(points).query(points, k + 1)[0][:, -1]  # (n,), to the k-th neighbour
    positive = distances[distances > 0]
    floor = float(positive.min()) if len(positive) else np.finfo(float).tiny
    # The log volume of the unit ball.
    log_ball = d / 2 * np.log(np.pi) - gammaln(d / 2 + 1)
    return float(digamma(n) - digamma(k) + log_ball + d * np.mean(np.log(np.maximum(distances, floor))))


def _standardised(values: FloatArray) -> FloatArray:
    """Return columns of mean 0 and standard deviation 1; constant ones are 0."""
    deviation = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))
