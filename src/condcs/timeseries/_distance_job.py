"""What is computed for a block of pairs of series: a measure with its options and bandwidths."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from condcs._core.errors import BandwidthError, BandwidthWarning, ParameterError, warn_caller
from condcs._kernels.bandwidths import median_distance, median_rows
from condcs._measures.registry import MEASURES, Measure
from condcs.timeseries._collection import FloatArray, Windowed

SeriesBandwidth = Literal["pair-median", "pooled-median"] | float | Sequence[float]
"""A rule, one bandwidth for windows and successors, or one for each of the two."""

SeriesMeasure = Literal[
    "conditional_cs",
    "conditional_euclidean",
    "joint_mmd",
    "conditional_mmd",
    "conditional_kl",
    "conditional_bregman",
]
"""Registered measures that take x and y."""

COMPILED = ("conditional_cs", "conditional_euclidean")
"""Measures that the compiled engine computes; the others are called pair by pair."""

WIDE_CHANNELS = 48
"""From this many channels on, distances between frames come from a matrix product."""

# Between these magnitudes squared distances neither overflow nor underflow; beyond, the core estimator takes over.
_SMALLEST, _LARGEST = 1e-140, 1e140

FALLBACK_PERCENT = 51
"""Where the median is 0, the lowest positive percentile from this one up is used instead, here and in the engine."""


@dataclass(frozen=True)
class Bandwidths:
    """Bandwidths on windows and on the frames that follow them, without the factor."""

    x: float
    y: float


@dataclass(frozen=True)
class Fallbacks:
    """How many bandwidths could not be medians, because those were 0 (ties) or all values were equal (constant)."""

    ties: int = 0
    constant: int = 0

    def __add__(self, other: Fallbacks) -> Fallbacks:
        return Fallbacks(self.ties + other.ties, self.constant + other.constant)

    def warn(self) -> None:
        """Warn, once for the whole call."""
        parts = []
        if self.ties:
            parts.append(
                f"{self.ties} median distance(s) between windows or between their successors were 0, because more than "
                "half of them are equal; the smallest positive percentile was used instead"
            )
        if self.constant:
            parts.append(
                f"{self.constant} time(s) all windows, or all successors, were equal (constant series), and the "
                "bandwidth was set to 1"
            )
        if parts:
            warn_caller(f"{'; '.join(parts)}. Pass `bandwidth` as a number to choose it.", BandwidthWarning)


@dataclass(frozen=True)
class Job:
    """A measure with its settings.

    Attributes
    ----------
    measure : str
        A registered measure that takes x and y.
    options : mapping
        Further keyword options of the measure.
    bandwidths : Bandwidths, optional
        Kernel bandwidths for all pairs; None stands for the medians of each pair.
    factor : float
        Multiplies the bandwidths.
    n_factors : int
        If more than 1, `block` returns as many blocks, each with half the factor of the one before.
    compiled, wide : bool
        Whether the engine computes it, and whether by matrix products.
    """

    measure: str
    options: Mapping[str, Any] = field(default_factory=dict)
    bandwidths: Bandwidths | None = None
    factor: float = 1.0
    n_factors: int = 1
    compiled: bool = True
    wide: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether D[i, j] = D[j, i], so that half of the pairs suffice."""
        return MEASURES[self.measure].symmetric and self.options.get("estimator", "paper") in ("paper", "pooled")

    def seconds(self, a: Windowed, b: Windowed) -> float:
        """Estimate the time of a pair, to cut the work into blocks."""
        cells = (a.total / a.count) * (b.total / b.count)
        if not self.compiled:
            return 1e-3 + 1e-7 * cells
        return 1e-6 + cells * (8e-9 + 1e-10 * a.collection.channels)

    def block(self, a: Windowed, b: Windowed, above_diagonal: bool) -> tuple[FloatArray, Fallbacks]:
        """Compute the measure between every series of a and every series of b.

        With `above_diagonal` the two are the same series, and only i < j is computed (i != j if not symmetric).
        """
        out = np.zeros((self.n_factors, a.count, b.count))
        wanted = np.ones(out.shape, bool)
        if above_diagonal:
            wanted = np.triu(wanted, 1) if self.symmetric else wanted & ~np.eye(a.count, dtype=bool)
        fallbacks = Fallbacks()
        if self.compiled:
            fallbacks = self._compiled(a, b, above_diagonal, out)
            # A bandwidth so small that exponents overflow: the core estimator works in units of the bandwidth.
            wanted &= ~np.isfinite(out)
        for f, i, j in np.argwhere(wanted).tolist():
            out[f, i, j], fallback = self._pair(a.sample(i), b.sample(j), self.factor / 2**f)
            if not self.compiled:
                fallbacks += fallback
        return (out[0] if self.n_factors == 1 else out), fallbacks

    def _compiled(self, a: Windowed, b: Windowed, above_diagonal: bool, out: FloatArray) -> Fallbacks:
        from condcs.timeseries._engine import Series, block_divergences

        # Copies, because the engine would be compiled once more for read-only arrays.
        s = a if above_diagonal else a.followed_by(b)
        frames, starts, ends = np.array(s.collection.frames, order="C"), np.array(s.collection.starts), np.array(s.ends)
        successors = np.zeros(0)
        if self.bandwidths is None and s.collection.channels == 1:
            owned = np.repeat(starts[:-1], np.diff(ends))
            successors = frames[owned + s.windows + s.order, 0]
            for first, last in itertools.pairwise(ends):
                successors[first:last].sort()
        series = Series(frames, starts, np.array(s.windows), ends, successors)
        bandwidths = (self.bandwidths.x, self.bandwidths.y) if self.bandwidths else (0.0, 0.0)
        logarithmic, wide = self.measure == "conditional_cs", True if self.wide else None
        counts = np.zeros(4, np.int64)
        block_divergences(series, s.order, bandwidths, self.factor, logarithmic, wide, out, counts)
        return Fallbacks(int(counts[0] + counts[1]), int(counts[2] + counts[3]))

    def _pair(
        self, p: tuple[FloatArray, FloatArray], q: tuple[FloatArray, FloatArray], factor: float
    ) -> tuple[float, Fallbacks]:
        measure, options, fallbacks = MEASURES[self.measure], dict(self.options), Fallbacks()
        if measure.gram:
            used = self.bandwidths
            if used is None:
                used, fallbacks = _median_bandwidths(np.concatenate([p[0], q[0]]), np.concatenate([p[1], q[1]]))
            options |= {"bandwidth_x": used.x * factor, "bandwidth_y": used.y * factor}
        return float(measure.function(*p, *q, **options)), fallbacks


def make_job(
    measure: str,
    bandwidth: SeriesBandwidth,
    factor: float,
    options: Mapping[str, Any],
    sides: list[Windowed],
    *,
    n_factors: int = 1,
) -> tuple[Job, list[Windowed], Fallbacks]:
    """Check the settings and choose how to compute; also return the sides in the form that the job expects."""
    chosen = _check_measure(measure)
    _check_options(chosen, bandwidth, factor, options)
    bandwidths, fallbacks = _common_bandwidths(bandwidth, sides) if chosen.gram else (None, Fallbacks())
    plain = not options or dict(options) == {"estimator": "paper"}
    compiled = measure in COMPILED and plain and _is_ordinary(sides, bandwidths, factor)
    wide = compiled and sides[0].collection.channels >= WIDE_CHANNELS
    if wide:
        # Distances do not depend on the origin, but products of frames lose fewer digits around the mean.
        origin = np.nanmean(sides[0].collection.frames, axis=0)
        sides = [side.shifted(origin) for side in sides]
    return Job(measure, dict(options), bandwidths, factor, n_factors, compiled, wide), sides, fallbacks


def _check_measure(name: Any) -> Measure:
    usable = [m for m in MEASURES.values() if m.takes_x]
    if not isinstance(name, str) or name not in {m.name for m in usable}:
        raise ParameterError(
            f"`measure` must be one of {', '.join(repr(m.name) for m in usable)}, got {name!r}. "
            'Pass measure="conditional_cs".'
        )
    return MEASURES[name]


def _check_options(measure: Measure, bandwidth: Any, factor: float, options: Mapping[str, Any]) -> None:
    reserved = {"bandwidth_x", "bandwidth_y", "weights_p", "weights_q"}
    known = measure.options - reserved
    for name in options:
        if name in reserved:
            raise ParameterError(
                f"`{name}` must be left out: bandwidths come from `bandwidth` and `factor`, and windows have no "
                "weights. Pass e.g. bandwidth=(1.0, 0.5)."
            )
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ParameterError(f"`{name}` must be an option of {measure.name!r}. Its options are: {listed}.")
    if not measure.gram and (factor != 1.0 or not (isinstance(bandwidth, str) and bandwidth == "pair-median")):
        raise ParameterError(
            f"`bandwidth` and `factor` must be left at their defaults for {measure.name!r}, which has no kernels, got "
            f"{bandwidth!r} and {factor!r}. Leave them out."
        )


def _is_ordinary(sides: list[Windowed], bandwidths: Bandwidths | None, factor: float) -> bool:
    """Whether every series is of a magnitude whose squares are safe, in absolute terms and beside the bandwidths."""
    for side in sides:
        peaks = np.fmax.reduceat(np.fmax.reduce(np.abs(side.collection.frames), axis=1), side.collection.starts[:-1])
        if np.any(peaks > _LARGEST) or np.any((peaks > 0) & (peaks < _SMALLEST)):
            return False
    scales = () if bandwidths is None else (bandwidths.x * factor, bandwidths.y * factor)
    return all(_SMALLEST < s < _LARGEST for s in scales)


def _common_bandwidths(bandwidth: SeriesBandwidth, sides: list[Windowed]) -> tuple[Bandwidths | None, Fallbacks]:
    """Return the bandwidths that serve all pairs; None if each pair has its own."""
    if isinstance(bandwidth, str) and bandwidth == "pair-median":
        return None, Fallbacks()
    if isinstance(bandwidth, str) and bandwidth == "pooled-median":
        return _pooled_medians(sides)
    try:
        given = np.asarray(bandwidth, np.float64) if not isinstance(bandwidth, str | bool) else np.array([])
    except (TypeError, ValueError):
        given = np.array([])
    if given.shape not in ((), (2,)) or not np.all(np.isfinite(given)) or not np.all(given > 0):
        raise BandwidthError(
            '`bandwidth` must be "pair-median", "pooled-median", a positive number, or two of them (for windows and '
            f'for their successors), got {bandwidth!r}. Pass e.g. bandwidth="pair-median".'
        )
    x, y = np.broadcast_to(given, (2,)).tolist()
    return Bandwidths(x, y), Fallbacks()


def _pooled_medians(sides: list[Windowed]) -> tuple[Bandwidths, Fallbacks]:
    """Median distances over the windows of all series, or over the subsample that all bandwidth rules use."""
    ends = np.cumsum([0] + [side.total for side in sides])
    chosen = np.arange(ends[-1])[median_rows(int(ends[-1]))]
    samples = [
        side.rows(chosen[(chosen >= start) & (chosen < end)] - start)
        for side, start, end in zip(sides, ends[:-1], ends[1:], strict=True)
    ]
    return _median_bandwidths(*(np.concatenate(parts) for parts in zip(*samples, strict=True)))


def _median_bandwidths(x: FloatArray, y: FloatArray) -> tuple[Bandwidths, Fallbacks]:
    (bandwidth_x, kind_x), (bandwidth_y, kind_y) = median_bandwidth(x), median_bandwidth(y)
    kinds = [kind_x, kind_y]
    return Bandwidths(bandwidth_x, bandwidth_y), Fallbacks(kinds.count(1), kinds.count(2))


def median_bandwidth(values: FloatArray) -> tuple[float, int]:
    """Return the square root of the median squared distance over all pairs of rows, and how it was found.

    0: it is positive. 1: it was 0, and the smallest positive percentile above it is returned. 2: all rows are equal,
    and 1 is returned. Exact for any number of rows, as in the engine, whose results it must match.
    """
    width, percentile = median_distance(values)
    return (width, int(percentile > 50)) if width > 0 else (1.0, 2)
