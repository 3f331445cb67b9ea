"""How a divergence is computed: exactly, or from anchors to a given error. The option `method` of public functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from condcs._core.arrays import Backend
from condcs._core.checks import check_positive
from condcs._core.errors import ParameterError, PrecisionWarning, warn_caller
from condcs._core.random import check_rng
from condcs._kernels.row_chunks import RowSource
from condcs._measures.sampled_forms import RowSums
from condcs._measures.sampling import sampled_divergence

AUTO_ROWS = 20_000
"""Up to this many pooled rows ``method="auto"`` is exact: about a second of one core."""


@dataclass(frozen=True)
class Sampled:
    """Compute a divergence from anchor rows, to a given error: the option `method` of divergences.

    The kernel masses of some rows are exact; those of all others are approximated by a low-rank kernel, and what that
    leaves is corrected at anchor rows, drawn with probabilities that follow what a row is likely to add. Anchors are
    added until the standard error is small enough. Cost O(n d) per anchor, memory O(n).

    Attributes
    ----------
    relative_error : float
        The standard error to be reached, relative to the divergence.
    absolute_error : float
        A standard error that is small enough however small the divergence is.
    max_seconds : float
        Time after which no more anchors are begun; the error that was reached is then said in a `PrecisionWarning`.
    rng : int or Generator
        Seed of the draws. The same seed gives the same answer on any number of threads, unless time runs out.

    Examples
    --------
    >>> import numpy as np
    >>> import condcs
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 6000))
    >>> samples = x[:3000], (x + noise)[:3000], x[3000:], (noise - x)[3000:]
    >>> found = condcs.conditional_cs(*samples, method=condcs.Sampled(relative_error=0.02))
    >>> bool(abs(found - condcs.conditional_cs(*samples)) < 4 * found.standard_error)
    True
    """

    relative_error: float = 0.01
    absolute_error: float = 1e-6
    max_seconds: float = 60.0
    rng: int | np.random.Generator = 0

    def __post_init__(self) -> None:
        for name in ("relative_error", "absolute_error", "max_seconds"):
            check_positive(name, getattr(self, name))
        if self.rng is None:
            raise ParameterError("`rng` must be a seed or a numpy Generator, got None. Pass e.g. rng=0.")
        check_rng(self.rng)


Method = Literal["auto", "exact", "sampled"] | Sampled


class SampledFloat(np.float64):
    """A divergence that was computed from anchors: a float that knows its standard error.

    Attributes
    ----------
    standard_error : float
        Of the sampling, as an estimate of the exact value: that lies within two of them in at least 95% of all cases.
        0 if all rows became anchors. How far the samples are from the populations is another matter.
    n_anchors : int
        Rows whose kernel masses are exact.
    target_met : bool
        Whether the standard error is as small as was asked for.
    method : {"sampled", "exact"}
        "exact" if all rows became anchors.
    """

    standard_error: float
    n_anchors: int
    target_met: bool

    def __new__(cls, value: float, standard_error: float, n_anchors: int, target_met: bool = True) -> SampledFloat:
        made = super().__new__(cls, value)
        made.standard_error, made.n_anchors, made.target_met = standard_error, n_anchors, target_met
        return made

    @property
    def method(self) -> str:
        """How it was computed."""
        return "exact" if self.standard_error == 0.0 else "sampled"

    def __repr__(self) -> str:
        return f"{float(self)!r} (standard error {self.standard_error:.2g} from {self.n_anchors} anchor rows)"

    def __reduce__(self) -> tuple[Any, ...]:
        return SampledFloat, (float(self), self.standard_error, self.n_anchors, self.target_met)


class SampledMatrix(np.ndarray[Any, Any]):
    """Divergences that were computed from anchors: an array that knows its standard errors.

    Attributes
    ----------
    standard_error : array
        Of each entry, as in `SampledFloat`; None in what is computed from the matrix.
    n_anchors : array of int
        Rows whose kernel masses are exact, for each entry.
    target_met : bool
        Whether all standard errors are as small as was asked for.
    """

    standard_error: Any = None
    n_anchors: Any = None
    target_met: Any = None

    def __new__(cls, entries: list[list[SampledFloat]]) -> SampledMatrix:
        made = np.array(entries, np.float64).view(cls)
        made.standard_error = np.array([[e.standard_error for e in row] for row in entries])
        made.n_anchors = np.array([[e.n_anchors for e in row] for row in entries])
        made.target_met = all(e.target_met for row in entries for e in row)
        return made


def sampling_of(method: Method, backend: Backend, n: int) -> Sampled | None:
    """Return how to sample, or None where the value is to be exact: gradients need every pair."""
    if isinstance(method, Sampled) or method == "sampled":
        if backend.name != "numpy":
            raise ParameterError(
                f'`method` must be "exact" or "auto" for arrays of {backend.name}, got {method!r}: anchors are drawn '
                "for numpy arrays only, without gradients. Pass numpy arrays, or leave it out."
            )
        return method if isinstance(method, Sampled) else Sampled()
    if method not in ("auto", "exact"):
        raise ParameterError(
            f'`method` must be "auto", "exact", "sampled" or a condcs.Sampled, got {method!r}. '
            "Pass e.g. method=condcs.Sampled(relative_error=0.01)."
        )
    return Sampled() if method == "auto" and backend.name == "numpy" and n > AUTO_ROWS else None


# A standard error far below the one that was asked for is not reported: it rests on the rows that were seen, and one
# that was not may add as much.
_FINEST = 0.05


def sampled_value(sampled: Sampled, source: RowSource, measure: RowSums) -> SampledFloat:
    """Return a divergence from anchors, and warn if its error is larger than was asked for."""

    def target(value: float) -> float:
        return max(sampled.absolute_error, sampled.relative_error * abs(value))

    found = sampled_divergence(
        source,
        measure,
        enough=lambda value, error: error <= target(value),
        max_seconds=sampled.max_seconds,
        seed=int(check_rng(sampled.rng).integers(2**62)),
    )
    error = 0.0 if found.exact else math.hypot(found.standard_error, _FINEST * target(found.value))
    met = found.standard_error <= target(found.value)
    if not met:
        warn_caller(
            f"the divergence is {found.value:.4g} with a standard error of {error:.2g}, more than the "
            f"{target(found.value):.2g} that was asked for, after {found.n_anchors} anchors. Pass "
            "method=condcs.Sampled(...) with a larger `max_seconds` or `relative_error`.",
            PrecisionWarning,
        )
    return SampledFloat(found.value, error, found.n_anchors, met)
