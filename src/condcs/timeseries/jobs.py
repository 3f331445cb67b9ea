"""What is to be computed for a block of pairs of series, apart from where and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condcs.core.errors import ParameterError
from condcs.measures.registry import MEASURES, Measure
from condcs.timeseries.collection import FloatArray
from condcs.timeseries.widths import Fallbacks, SeriesBandwidth, Widths, check_widths, median_width
from condcs.timeseries.windowed import Windowed

COMPILED = ("conditional_cs", "conditional_euclidean")
"""Measures that the compiled engine computes; the others are called pair by pair."""

WIDE_CHANNELS = 48
"""From this many channels on, distances between frames come from a matrix product."""

# Between these magnitudes squared distances neither overflow nor underflow; beyond, the core estimator takes over.
_SMALLEST, _LARGEST = 1e-140, 1e140


@dataclass(frozen=True)
class Job:
    """A measure with its settings.

    Attributes
    ----------
    measure : str
        A registered measure that takes x and y.
    options : mapping
        Further keyword options of the measure.
    widths : Widths, optional
        Kernel widths for all pairs; None stands for the medians of each pair.
    factor : float
        Multiplies the widths.
    compiled, wide : bool
        Whether the engine computes it, and whether by matrix products.
    """

    measure: str
    options: Mapping[str, Any] = field(default_factory=dict)
    widths: Widths | None = None
    factor: float = 1.0
    compiled: bool = True
    wide: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether D[i, j] = D[j, i], so that half the pairs will do."""
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
        out = np.zeros((a.count, b.count))
        wanted = np.ones(out.shape, bool)
        if above_diagonal:
            wanted = np.triu(wanted, 1) if self.symmetric else ~np.eye(a.count, dtype=bool)
        fallbacks = Fallbacks()
        if self.compiled:
            fallbacks = self._compiled(a, b, above_diagonal, out)
            # A width so small that exponents overflow: the core estimator works in units of the width.
            wanted &= ~np.isfinite(out)
        for i, j in np.argwhere(wanted):
            out[i, j], fallback = self._pair(a.sample(int(i)), b.sample(int(j)))
            if not self.compiled:
                fallbacks += fallback
        return out, fallbacks

    def _compiled(self, a: Windowed, b: Windowed, above_diagonal: bool, out: FloatArray) -> Fallbacks:
        from condcs.timeseries.engine import Series, block_divergences

        def series(s: Windowed) -> Series:
            frames = s.collection.frames
            norms = np.einsum("ij,ij->i", frames, frames) if self.wide else np.zeros(len(frames))
            return Series(np.ascontiguousarray(frames), s.collection.starts, norms, s.windows, s.ends)

        x, y = (self.widths.x, self.widths.y) if self.widths else (0.0, 0.0)
        logarithmic = self.measure == "conditional_cs"
        counts = block_divergences(
            series(a), series(b), a.order, above_diagonal, x, y, self.factor, logarithmic, self.wide, out
        )
        return Fallbacks(int(counts[0] + counts[1]), int(counts[2] + counts[3]))

    def _pair(self, p: tuple[FloatArray, FloatArray], q: tuple[FloatArray, FloatArray]) -> tuple[float, Fallbacks]:
        measure, options, kinds = MEASURES[self.measure], dict(self.options), [0, 0]
        if measure.gram:
            widths = self.widths
            if widths is None:
                (x, kinds[0]), (y, kinds[1]) = (median_width(np.concatenate([p[k], q[k]])) for k in (0, 1))
                widths = Widths(x, y)
            options |= {"bandwidth_x": widths.x * self.factor, "bandwidth_y": widths.y * self.factor}
        return float(measure.function(*p, *q, **options)), Fallbacks(kinds.count(1), kinds.count(2))


def make_job(
    measure: str, bandwidth: SeriesBandwidth, factor: float, options: Mapping[str, Any], sides: list[Windowed]
) -> tuple[Job, list[Windowed], Fallbacks]:
    """Check the settings and choose the way; returns the sides as the job wants them."""
    chosen = _check_measure(measure)
    _check_options(chosen, bandwidth, factor, options)
    widths, fallbacks = check_widths(bandwidth, sides) if chosen.gram else (None, Fallbacks())
    plain = not options or dict(options) == {"estimator": "paper"}
    compiled = measure in COMPILED and plain and _is_ordinary(sides, widths, factor)
    wide = compiled and sides[0].collection.channels >= WIDE_CHANNELS
    if wide:
        # Distances do not mind the origin, but products of frames lose fewer digits around the mean.
        origin = np.nanmean(sides[0].collection.frames, axis=0)
        sides = [side.shifted(origin) for side in sides]
    return Job(measure, dict(options), widths, factor, compiled, wide), sides, fallbacks


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
                f"`{name}` must be left out: widths come from `bandwidth` and `factor`, and windows have no weights. "
                "Pass e.g. bandwidth=(1.0, 0.5)."
            )
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ParameterError(f"`{name}` must be an option of {measure.name!r}. Its options are: {listed}.")
    if not measure.gram and (factor != 1.0 or not (isinstance(bandwidth, str) and bandwidth == "pair-median")):
        raise ParameterError(
            f"`bandwidth` and `factor` must be left at their defaults for {measure.name!r}, which has no kernels, got "
            f"{bandwidth!r} and {factor!r}. Leave them out."
        )


def _is_ordinary(sides: list[Windowed], widths: Widths | None, factor: float) -> bool:
    """Whether every series is of a magnitude whose squares are safe, in absolute terms and beside the widths."""
    for side in sides:
        peaks = np.fmax.reduceat(np.fmax.reduce(np.abs(side.collection.frames), axis=1), side.collection.starts[:-1])
        if np.any(peaks > _LARGEST) or np.any((peaks > 0) & (peaks < _SMALLEST)):
            return False
    scales = () if widths is None else (widths.x * factor, widths.y * factor)
    return all(_SMALLEST < s < _LARGEST for s in scales)
