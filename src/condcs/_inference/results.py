"""Results of tests: frozen, with everything that was used, and able to say how sure the statistic itself is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from condcs._core.arrays import ByValue, FloatArray
from condcs._core.checks import check_integer, check_probability, check_rng
from condcs._core.errors import ParameterError, public
from condcs._core.printable import Printable, counted


class _Ends(NamedTuple):
    low: float
    high: float


class ConfidenceInterval(Printable, _Ends):
    """Ends of a confidence interval.

    A tuple of two numbers: ``low, high = interval``.
    """


class _ValueAndEnds(NamedTuple):
    value: float
    low: float
    high: float


class Estimate(Printable, _ValueAndEnds):
    """An estimate without its bias, and the ends of its confidence interval: low <= value <= high.

    A tuple of three numbers: ``value, low, high = estimate``.

    Attributes
    ----------
    value, low, high : float
        The estimate, and the ends of its interval.
    confidence_level : float
        Of the interval.
    within_chance : bool
        Whether chance alone could make the number, although the test found a difference: it is no larger than what
        chance makes, or its interval reaches down to 0. Then it says nothing of the size of that difference, and
        `print(estimate)` says so.
    """

    confidence_level: float
    within_chance: bool

    def __new__(
        cls, value: float, low: float, high: float, confidence_level: float, *, within_chance: bool = False
    ) -> Estimate:
        """Make an estimate; the level and what it is worth are no part of the tuple."""
        estimate = super().__new__(cls, value, low, high)
        estimate.confidence_level = confidence_level
        estimate.within_chance = within_chance
        return estimate

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what copies are made from: the level is an argument as well."""
        return (*self, self.confidence_level)

    def __str__(self) -> str:
        """Return the estimate, and what it cannot say."""
        if not self.within_chance:
            return repr(self)
        return f"{self!r}, which chance alone could make: it does not size the difference that the test found"


def around(value: float, reach: float, confidence_level: float) -> Estimate:
    """Return an estimate whose interval reaches equally far up and down."""
    return Estimate(float(value), float(value - reach), float(value + reach), confidence_level)


def in_units(estimate: Estimate, unit: float) -> Estimate:
    """Return an estimate that was made in some unit of y in units of y itself."""
    return _rescaled(estimate, [unit * end for end in estimate])


def within(estimate: Estimate, low: float, high: float) -> Estimate:
    """Return an estimate whose value and ends are cut off at what is possible."""
    return _rescaled(estimate, [min(max(end, low), high) for end in estimate])


def _rescaled(estimate: Estimate, numbers: list[float]) -> Estimate:
    """Return an estimate with other numbers, and the same level."""
    value, low, high = (float(number) for number in numbers)
    return Estimate(value, low, high, estimate.confidence_level, within_chance=estimate.within_chance)


def estimate_fields(estimate: Estimate) -> dict[str, Any]:
    """Return value and interval as numbers and lists, which JSON can hold."""
    return {
        "value": estimate.value,
        "interval": [estimate.low, estimate.high],
        "confidence_level": estimate.confidence_level,
    }


_BALANCE = {
    "passed": "",
    "doubtful": " (doubtful: the p-value may be somewhat too small)",
    "failed": " (failed: the p-value may be far too small)",
}
"""What each outcome of the check of balance adds to the summary."""


_WITHIN_CHANCE = " (no more than chance makes it: other views found the difference, and `estimate` cannot size it)"

_FEWEST_RESAMPLES = 20
"""Bootstrap samples of an interval: the ends of one of 95% then lie halfway between the two outermost values."""

_CHANCE_LEVEL = 0.05
"""Level at which a result is said to be within chance: the test finds a difference, and the divergence does not."""


@dataclass(frozen=True, eq=False)
class TestResult(ByValue):
    """Outcome of a resampling test. Results compare by value, are hashable, and can be pickled.

    Attributes
    ----------
    statistic : float
        What the p-value is about: the evidence of all views together, by default; for a single measure its value on the
        samples as given, summed over pairs of samples where there are more than two; and where several bandwidths are
        combined the largest of their studentised values.
    pvalue : float
        (1 + number of resampled values that reach the statistic) / (1 + number of resamples): never 0.
    null_distribution : array
        The resampled values of the statistic.
    measure, null : str
        What was compared, and how labels were redrawn.
    sizes : tuple of int
        Rows of each sample.
    bandwidths : dict
        Bandwidths, per column; of columns of labels in x how similar two different labels are.
    divergence : float
        The measure itself: on the adjusted response (numbers without their regression on x, labels as they are) in a
        `conditional_test` by all views, at the bandwidth that tells most in a `two_sample_test` by all views, and the
        same as `statistic` for a single measure. NaN where bandwidths are combined, and in tests of independence.
    diagnostics : dict
        How far the null can be trusted, if labels were redrawn from an estimate: ``balance_pvalue`` (small if the
        estimate does not explain how x differs between the samples), ``balance`` ("passed"; "doubtful" below 0.05,
        where p-values may be somewhat too small; "failed" below 0.01, where they may be far too small),
        ``effective_rows`` (the number of rows with the same information if the samples overlapped fully),
        ``hardly_overlaps`` (whether these are too few to say much), and ``propensity`` (which functions of x the
        estimate is made of). With clusters of rows, ``clusters``: how many each sample has. With more than 10,000 rows,
        ``anchors``: how many anchor rows were used in sums over pairs of rows, the divergence included.
    details : dict
        Anything else that was used or found. With several views ``views``, their names, ``statistics`` and ``pvalues``,
        the value and the p-value of each by itself, and ``best_view``, which tells most. With ``bandwidth="aggregate"``
        the same for multiples of the median bandwidths: ``multiples`` and ``best_multiple``. ``nonnegative`` says
        whether the measure is never negative; ``adjust`` and ``form`` are those of a `PermutedMeasure`.
    """

    __test__ = False  # not a test case, whatever pytest makes of the name

    statistic: float
    pvalue: float
    null_distribution: FloatArray = field(repr=False)
    measure: str
    null: str
    sizes: tuple[int, ...]
    bandwidths: dict[str, FloatArray] = field(default_factory=dict)
    divergence: float = np.nan
    diagnostics: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    _divergences: FloatArray | None = field(default=None, repr=False, compare=False)
    _resample: Callable[[np.random.Generator, int], FloatArray] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        """Return the outcome in a few lines."""
        rows = " + ".join(f"{size:,}" for size in self.sizes)
        draws = counted(self.n_resamples, "resample") if self.n_resamples else "in closed form"
        lines = [f"p-value {self.pvalue:.3g}: {rows} rows, null {self.null!r}, {draws}"]
        if np.isfinite(self.divergence):
            lines.append(
                f"{self.measure} {self.divergence:.3g}, by chance {self.divergence_by_chance:.3g}"
                f"{_WITHIN_CHANCE if self._is_within_chance() else ''}"
            )
        if {"views", "pvalues"} <= self.details.keys():
            views = sorted(zip(self.details["pvalues"], self.details["views"], strict=True))
            lines.append("p-values of single views: " + ", ".join(f"{view} {p:.3g}" for p, view in views))
        if "balance_pvalue" in self.diagnostics:
            effective, balance = self.diagnostics["effective_rows"], self.diagnostics["balance_pvalue"]
            grade = _BALANCE[self.diagnostics["balance"]]
            lines.append(
                f"overlap in x worth {counted(round(effective), 'row')}, check of balance p = {balance:.3g}{grade}"
            )
        return "\n".join(lines)

    def _is_within_chance(self) -> bool:
        """Say whether the test finds a difference of which the divergence tells no size."""
        if self._divergences is None or self.pvalue > _CHANCE_LEVEL:
            return False
        return bool(self.divergence <= np.quantile(self._divergences, 1 - _CHANCE_LEVEL))

    @property
    def n_resamples(self) -> int:
        """Number of resamples."""
        return len(self.null_distribution)

    @property
    def divergence_by_chance(self) -> float:
        """Mean of the divergence over the resamples: what it would be if nothing differed."""
        return float(np.mean(self.null_distribution if self._divergences is None else self._divergences))

    @public
    def confidence_interval(
        self, confidence_level: float = 0.95, *, n_resamples: int = 200, rng: int | np.random.Generator | None = None
    ) -> ConfidenceInterval:
        """Bootstrap interval of the divergence itself, that of `estimate`.

        What is covered is the divergence that samples of these sizes show on average, less what they show if nothing
        differs. Where x is bounded that hardly depends on the sizes. Where it is not, the divergence weighs all places
        of x alike, and more rows reach further into the tails: a change of a slope, which is largest there, has a
        divergence that grows with the samples.

        Rows are drawn again with replacement within each sample, bandwidths kept. The interval reaches from the
        estimate down, and from `divergence` up, as far as the quantiles of the resampled divergences lie from their
        median. Up from `divergence`, because what chance adds to it where something differs lies between nothing and
        what it adds where nothing does. Measures that are never negative are cut off at 0.

        Parameters
        ----------
        confidence_level : float
            Coverage aimed at.
        n_resamples : int
            Bootstrap samples.
        rng : int or Generator, optional
            Seed.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``.
        """
        _, low, high = self._reflected(confidence_level, n_resamples, rng)
        return ConfidenceInterval(low, high)

    @public
    def estimate(
        self, confidence_level: float = 0.95, *, n_resamples: int = 200, rng: int | np.random.Generator | None = None
    ) -> Estimate:
        """Divergence without the bias of finite samples, with its bootstrap interval.

        Samples of one distribution are never quite alike, so `divergence` lies above the divergence between the
        distributions, the more so the smaller the samples and the narrower the kernels. The estimate is `divergence`
        less its mean over the resamples of the null, which is what samples of these sizes show if nothing differs; it
        lies in the interval by construction. (What bootstrap samples lie above `divergence` is no substitute: with
        narrow kernels it is a fifth of the bias.)

        It sizes differences that are large beside this bias. For others the value is 0 or close to it, and the interval
        reaches down to 0 though `pvalue` is small: whether anything differs is for the test to say. Where that is so,
        or `divergence` itself is no more than chance makes, the estimate is marked ``within_chance``.

        Parameters
        ----------
        confidence_level, n_resamples, rng
            As in `confidence_interval`.

        Returns
        -------
        Estimate
            ``value``, ``low`` and ``high``, and whether all this is ``within_chance``.

        Examples
        --------
        >>> import numpy as np
        >>> from condcs import two_sample_test
        >>> y = np.random.default_rng(0).normal(size=(2, 100))
        >>> estimate = two_sample_test(y[0], y[1] + 1, n_resamples=99, rng=0).estimate(rng=0)
        >>> estimate.low < estimate.value < estimate.high
        True
        """
        return self._reflected(confidence_level, n_resamples, rng)

    def _reflected(self, confidence_level: float, n_resamples: int, rng: int | np.random.Generator | None) -> Estimate:
        """Subtract the mean under the null from the divergence, and put the bootstrap's spread about the result."""
        confidence_level = check_probability("confidence_level", confidence_level, 0.95)
        check_integer("n_resamples", n_resamples, _FEWEST_RESAMPLES)
        if self._resample is None:
            raise ParameterError(
                f"`confidence_interval` must be asked of a test that has one divergence, got one of {self.measure!r} "
                f"with null={self.null!r} that has none: it combines bandwidths, or products of residuals. Test at one "
                "bandwidth, or call the measure itself."
            )
        generator = check_rng(rng)
        values = self._resample(generator, n_resamples)
        low, middle, high = np.quantile(values, [(1 - confidence_level) / 2, 0.5, (1 + confidence_level) / 2])
        value = self.divergence - self.divergence_by_chance
        floor = 0.0 if self.details.get("nonnegative") else -np.inf
        lower, upper = value - (middle - low), max(value, self.divergence) + (high - middle)
        value, lower, upper = (float(max(number, floor)) for number in (value, lower, upper))
        # An interval that holds 0 does not size a difference either, though the divergence exceeds what chance makes.
        holds_zero = self.pvalue <= _CHANCE_LEVEL and lower <= 0
        within_chance = holds_zero or self._is_within_chance()
        return Estimate(value, lower, upper, confidence_level, within_chance=within_chance)
