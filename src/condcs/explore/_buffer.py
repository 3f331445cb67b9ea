"""A replay buffer whose old and new halves are compared after every transition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import BandwidthError, DataError, ParameterError, ShapeError, public
from condcs._core.files import State, Stateful
from condcs._core.vocabulary import named, setting
from condcs._measures import sliding_loops
from condcs._measures.neighbours import conditional_kl
from condcs._measures.operator import conditional_mmd

BufferMeasure = Literal["conditional_cs", "conditional_euclidean", "joint_mmd", "conditional_mmd", "conditional_kl"]
BUFFER_MEASURES: tuple[BufferMeasure, ...] = get_args(BufferMeasure)
"""Measures between the halves of a buffer."""

SMALLEST_HALF = 2
"""With fewer rows in a half there is nothing to compare: the divergence is 0."""


class TransitionBuffer(Stateful):
    """First-in-first-out buffer of transitions (x, y), split into an old and a new half.

    x is usually state and action, and y the next state. While the buffer fills, the older half of its rows, rounded up,
    is old. Divergences between the halves that are sums over rows are updated exactly with every row (see
    `condcs._measures.sliding_loops`); the conditional MMD and KL are estimated every so many rows.

    Parameters
    ----------
    size : int
        Number of rows of both halves together; even, at least 4.
    dim_x, dim_y : int
        Columns of x and y.
    bandwidth_x, bandwidth_y : float or sequence of float
        Bandwidths of the Gaussian kernels; no rules, which would have to see the data first.
    regularization : float
        Regularization of the conditional MMD.
    k : int
        Number of nearest neighbours of the conditional KL.
    refresh_every : int
        Number of pushes after which the conditional MMD and KL are estimated again; in between, the last value is
        returned.

    Examples
    --------
    >>> buffer = TransitionBuffer(4, 1, 1, bandwidth_x=1.0, bandwidth_y=1.0)
    >>> for x, y in ((0, 0), (1, 1), (0, 1), (1, 0)):
    ...     buffer.push(x, y)
    >>> round(buffer.divergence(), 4)
    0.2402
    """

    def __init__(
        self,
        size: int,
        dim_x: int,
        dim_y: int,
        *,
        bandwidth_x: float | Sequence[float] | FloatArray,
        bandwidth_y: float | Sequence[float] | FloatArray,
        regularization: float = 0.1,
        k: int = 3,
        refresh_every: int = 50,
    ) -> None:
        self.size = check_integer("size", size, 2 * SMALLEST_HALF)
        if self.size % 2:
            raise ParameterError(
                f"`size` must be even, got {size}: the buffer has an old and a new half. Pass e.g. size={size + 1}."
            )
        self.dim_x, self.dim_y = check_integer("dim_x", dim_x, 1), check_integer("dim_y", dim_y, 1)
        self.k = check_integer("k", k, 1)
        self.refresh_every = check_integer("refresh_every", refresh_every, 1)
        self.regularization = regularization
        self.bandwidth_x = _check_widths("bandwidth_x", bandwidth_x, self.dim_x)
        self.bandwidth_y = _check_widths("bandwidth_y", bandwidth_y, self.dim_y)
        self.window = sliding_loops.empty_window(
            self.size, self.dim_x, np.concatenate([self.bandwidth_x, self.bandwidth_y])
        )
        """The running sums."""
        self._pushed = 0
        # When it was last estimated, and its value.
        self._estimates: dict[BufferMeasure, tuple[int, float]] = {
            "conditional_kl": (0, 0.0),
            "conditional_mmd": (0, 0.0),
        }

    def __len__(self) -> int:
        return min(self._pushed, self.size)

    @property
    def pushed(self) -> int:
        """Number of transitions pushed so far."""
        return self._pushed

    @public
    def push(self, x: Any, y: Any) -> None:
        """Add a transition; when the buffer is full, the oldest one is removed. Cost O(size)."""
        sliding_loops.push(self.window, self._pushed, _joined_row(x, y, self.dim_x, self.dim_y))
        self._pushed += 1

    @public
    def divergence(self, measure: BufferMeasure = "conditional_cs") -> float:
        """Return the divergence between the halves; 0 while a half has fewer than 2 rows.

        Parameters
        ----------
        measure : {"conditional_cs", "conditional_euclidean", "joint_mmd", "conditional_mmd", "conditional_kl"}
            The first three cost O(size). The conditional MMD, which costs O(size^3), and the conditional KL of the new
            from the old half are estimated every `refresh_every` pushes.
        """
        check_choice("measure", measure, BUFFER_MEASURES)
        if measure == "conditional_kl":
            most = self.size // 2 - 1
            check_integer("k", self.k, 1, most, because=" (a row has no more neighbours in its half)")
        if len(self) < 2 * SMALLEST_HALF:
            return 0.0
        if measure in self._estimates:
            return self._estimate(measure)
        return float(sliding_loops.WINDOW_DIVERGENCES[measure](self.window))

    def surprise(self) -> float:
        """Return the log ratio of the densities of the last y given x in the new and the old half; 0 without either."""
        if len(self) < 2 * SMALLEST_HALF:
            return 0.0
        window, slot = self.window, (self._pushed - 1) % self.size
        x_old, x_new, xy_old, xy_new = np.log(window.sums[:4, slot]) + window.shifts[:4, slot]
        return float((xy_new - x_new) - (xy_old - x_old))

    def halves(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return copies of ((x, y) of the old half, (x, y) of the new half), oldest first."""
        slots = np.arange(self._pushed - len(self), self._pushed) % self.size
        rows = self.window.values[:, slots].T
        x, y = np.ascontiguousarray(rows[:, : self.dim_x]), np.ascontiguousarray(rows[:, self.dim_x :])
        n_old = (len(self) + 1) // 2
        return (x[:n_old], y[:n_old]), (x[n_old:], y[n_old:])

    def _estimate(self, measure: BufferMeasure) -> float:
        when, value = self._estimates[measure]
        if when == 0 or self._pushed - when >= self.refresh_every:
            old, new = self.halves()
            if measure == "conditional_kl":
                value = neighbour_divergence(old, new, k=self.k)
            else:
                widths: dict[str, Any] = {"bandwidth_x": self.bandwidth_x, "bandwidth_y": self.bandwidth_y}
                value = float(conditional_mmd(*old, *new, regularization=self.regularization, **widths))
            self._estimates[measure] = self._pushed, value
        return value

    def state_dict(self) -> State:
        """Return everything as plain arrays: sums included, so that a restored buffer goes on bit for bit."""
        when, values = zip(*self._estimates.values(), strict=True)
        return {
            **{name: array.copy() for name, array in self.window._asdict().items() if name not in _NOT_SAVED},
            "widths": np.concatenate([self.bandwidth_x, self.bandwidth_y]),
            "pushed": np.array([self._pushed, self.k, self.refresh_every, *when]),
            "numbers": np.array([self.regularization, *values]),
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> TransitionBuffer:
        """Return the buffer that `state` describes. It continues bit for bit."""
        values, widths, sizes = (_entry(state, name) for name in ("values", "widths", "sizes"))
        if values.ndim != 2 or widths.shape != values.shape[:1] or sizes.shape != (sliding_loops.SHIFTED + 1,):
            raise _broken(f"values of shape {values.shape} with widths of shape {widths.shape}")
        dim_x = int(sizes[sliding_loops.DIM_X])
        if not 1 <= dim_x < len(widths):
            raise _broken(f"{dim_x} columns of x among {len(widths)}")
        try:
            pushed, k, refresh_every, *when = (int(v) for v in _entry(state, "pushed"))
            regularization, *estimates = (float(v) for v in _entry(state, "numbers"))
        except (ValueError, TypeError) as error:
            raise _broken("other numbers") from error
        buffer = cls(
            values.shape[1],
            dim_x,
            len(widths) - dim_x,
            bandwidth_x=widths[:dim_x],
            bandwidth_y=widths[dim_x:],
            regularization=regularization,
            k=k,
            refresh_every=refresh_every,
        )
        if pushed < 0 or not len(when) == len(estimates) == len(buffer._estimates):
            raise _broken(f"{pushed} pushes and {len(estimates)} estimates")
        buffer._pushed = pushed
        buffer._estimates = dict(zip(buffer._estimates, zip(when, estimates, strict=True), strict=True))
        buffer._restore_sums(state)
        return buffer

    def _restore_sums(self, state: Mapping[str, AnyArray]) -> None:
        for name, array in self.window._asdict().items():
            if name in _NOT_SAVED:
                continue
            saved = _entry(state, name)
            if saved.shape != array.shape or saved.dtype.kind not in "fi":
                raise _broken(f"{name} of shape {saved.shape} where {array.shape} is expected")
            if array.dtype.kind == "f" and not np.isfinite(saved).all():
                raise _broken(f"{name} that is not finite")
            array[...] = saved
        sizes, n = self.window.sizes, len(self)
        halves = tuple(int(np.sum(self.window.group[:n] == half)) for half in (0, 1))
        announced = tuple(int(sizes[entry]) for entry in (sliding_loops.ROWS, sliding_loops.OLD, sliding_loops.NEW))
        if announced != (n, (n + 1) // 2, n // 2) or halves != announced[1:]:
            raise _broken(
                f"{self._pushed} pushes, halves of {announced[1]} and {announced[2]} rows announced and {halves} found"
            )
        sizes[sliding_loops.SHIFTED] = int(np.count_nonzero(self.window.shifts[:, :n]))


_NOT_SAVED = ("work", "inverse_widths")
"""What the constructor makes of a window."""


def _entry(state: Mapping[str, AnyArray], name: str) -> AnyArray:
    if name not in state:
        raise _broken(f"no {name!r}")
    return np.asarray(state[name])


def _broken(what: str) -> DataError:
    return DataError(f"{named('state')} must come from `TransitionBuffer.state_dict()`, got {what}. Save it again.")


def neighbour_divergence(
    old: tuple[FloatArray, FloatArray], new: tuple[FloatArray, FloatArray], *, k: int = 3
) -> float:
    """Return the conditional KL divergence of the new from the old rows; constant columns are left out.

    It is 0 if there are too few rows, or if x or y does not vary at all.
    """
    if min(len(old[0]), len(new[0])) <= k:
        return 0.0
    varying = []
    for first, second in zip(old, new, strict=True):
        pooled = np.concatenate([first, second])
        varies = pooled.max(axis=0) > pooled.min(axis=0)
        if not varies.any():
            return 0.0
        varying.append(varies)
    (old_x, old_y), (new_x, new_y) = old, new
    return float(
        conditional_kl(new_x[:, varying[0]], new_y[:, varying[1]], old_x[:, varying[0]], old_y[:, varying[1]], k=k)
    )


def _check_widths(name: str, value: Any, columns: int) -> FloatArray:
    """Return one positive bandwidth per column."""
    if isinstance(value, str):
        raise BandwidthError(
            f"{named(name)} must be a positive number, or one per column, got the rule {value!r}: rows come one by "
            "one, so there is no sample to estimate it from. Find it first, e.g. condcs.bandwidth(sample, "
            f"rule={value!r})."
        )
    try:
        widths = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        widths = np.array(np.nan)
    if widths.ndim == 0:
        widths = np.full(columns, float(widths))
    if widths.shape != (columns,):
        raise BandwidthError(
            f"{named(name)} must be one number, or one per column ({columns}), got shape {widths.shape}. Pass one "
            "number."
        )
    with np.errstate(divide="ignore", over="ignore"):
        usable = np.isfinite(widths) & (widths > 0) & np.isfinite(1 / widths)
    if not usable.all():
        raise BandwidthError(
            f"{named(name)} must be positive and finite, got {value!r}. Pass e.g. {setting(name, 0.1)}."
        )
    return widths


def _joined_row(x: Any, y: Any, dim_x: int, dim_y: int) -> FloatArray:
    """Return x and y of one observation in one array, checked."""
    row = np.empty(dim_x + dim_y)
    for name, value, part in (("x", x, row[:dim_x]), ("y", y, row[dim_x:])):
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{named(name)} must hold numbers, got {value!r}. Encode labels as numbers.") from error
        if numbers.size != part.size or numbers.ndim > 1:
            raise ShapeError(
                f"{named(name)} must be one row of {part.size} numbers, got shape {numbers.shape}. Push one row at a "
                "time."
            )
        part[:] = numbers
    if not np.isfinite(row).all():
        name = "x" if not np.isfinite(row[:dim_x]).all() else "y"
        raise DataError(f"{named(name)} must be finite, got {row.tolist()}. Leave out such rows, or impute them.")
    return row
