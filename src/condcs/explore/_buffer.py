"""A replay buffer whose old and new halves are compared after every transition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray
from condcs._core.checks import check_choice, check_integer
from condcs._core.errors import DataError, ParameterError, public
from condcs._core.files import State, Stateful
from condcs._measures.neighbours import conditional_kl
from condcs._measures.operator import conditional_mmd
from condcs._measures.sliding_window import OLD, SMALLEST_GROUP, SlidingWindow, joined_row

BufferMeasure = Literal["conditional_cs", "conditional_euclidean", "joint_mmd", "conditional_mmd", "conditional_kl"]
BUFFER_MEASURES: tuple[BufferMeasure, ...] = get_args(BufferMeasure)
"""Measures between the halves of a buffer."""


class TransitionBuffer(Stateful):
    """First-in-first-out buffer of transitions (x, y), split into an old and a new half.

    x is usually state and action, and y the next state. While the buffer fills, the older half of its rows, rounded up,
    is old. Divergences between the halves that are sums over rows are updated exactly with every row (see
    `condcs._measures.sliding_window`); the conditional MMD and KL are estimated every so many rows.

    Parameters
    ----------
    size : int
        Number of rows of both halves together; even, at least 4.
    dim_x, dim_y : int
        Columns of x and y.
    bandwidth_x, bandwidth_y : float or sequence of float
        Bandwidths of the Gaussian kernels.
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
        self.size = check_integer("size", size, 2 * SMALLEST_GROUP)
        if self.size % 2:
            raise ParameterError(
                f"`size` must be even, got {size}: the buffer has an old and a new half. Pass e.g. size={size + 1}."
            )
        self.k = check_integer("k", k, 1)
        self.refresh_every = check_integer("refresh_every", refresh_every, 1)
        self.regularization = regularization
        self._window = SlidingWindow(self.size, dim_x, dim_y, bandwidth_x=bandwidth_x, bandwidth_y=bandwidth_y)
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

    @property
    def window(self) -> SlidingWindow:
        """The running sums."""
        return self._window

    @public
    def push(self, x: Any, y: Any) -> None:
        """Add a transition; when the buffer is full, the oldest one is removed. Cost O(size)."""
        self._window.push(self._pushed, joined_row(x, y, self._window.dim_x, self._window.dim_y))
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
        if min(self._window.counts) < SMALLEST_GROUP:
            return 0.0
        if measure == "conditional_mmd" or measure == "conditional_kl":
            return self._estimate(measure)
        return self._window.divergence(measure)

    def surprise(self) -> float:
        """Return the log ratio of the densities of the last y given x in the new and the old half; 0 without either."""
        if min(self._window.counts) < SMALLEST_GROUP:
            return 0.0
        arrays, slot = self._window.arrays, (self._pushed - 1) % self.size
        x_old, x_new, xy_old, xy_new = np.log(arrays.sums[:4, slot]) + arrays.shifts[:4, slot]
        return float((xy_new - x_new) - (xy_old - x_old))

    def halves(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return copies of ((x, y) of the old half, (x, y) of the new half), oldest first."""
        first = self._pushed - len(self)
        slots = np.arange(first, self._pushed) % self.size
        n_old = self._window.counts[OLD]
        return self._window.rows(slots[:n_old]), self._window.rows(slots[n_old:])

    def _estimate(self, measure: BufferMeasure) -> float:
        when, value = self._estimates[measure]
        if when == 0 or self._pushed - when >= self.refresh_every:
            old, new = self.halves()
            if measure == "conditional_kl":
                value = neighbour_divergence(old, new, k=self.k)
            else:
                widths, dim_x = self._window.widths, self._window.dim_x
                options: dict[str, Any] = {"bandwidth_x": widths[:dim_x], "bandwidth_y": widths[dim_x:]}
                value = float(conditional_mmd(*old, *new, regularization=self.regularization, **options))
            self._estimates[measure] = self._pushed, value
        return value

    def state_dict(self) -> State:
        """Return the whole state as plain arrays."""
        when, values = zip(*self._estimates.values(), strict=True)
        extra = {
            "pushed": np.array([self._pushed, self.k, self.refresh_every, *when]),
            "numbers": np.array([self.regularization, *values]),
        }
        return {**self._window.state_dict(), **extra}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> TransitionBuffer:
        """Return the buffer that `state` describes. It continues bit for bit."""
        window = SlidingWindow.from_state_dict(state)
        try:
            pushed, k, refresh_every, *when = (int(v) for v in state["pushed"])
            regularization, *values = (float(v) for v in state["numbers"])
        except (KeyError, ValueError, TypeError) as error:
            raise DataError("`state` must come from `TransitionBuffer.state_dict()`. Save it again.") from error
        widths = window.widths
        made = cls(
            window.capacity,
            window.dim_x,
            window.dim_y,
            bandwidth_x=widths[: window.dim_x],
            bandwidth_y=widths[window.dim_x :],
            regularization=regularization,
            k=k,
            refresh_every=refresh_every,
        )
        n = min(pushed, window.capacity)
        if pushed < 0 or window.counts != ((n + 1) // 2, n // 2):
            raise DataError(
                f"`state` must come from `TransitionBuffer.state_dict()`, got {pushed} pushes and halves of "
                f"{window.counts[0]} and {window.counts[1]} rows. Save it again."
            )
        made._window, made._pushed = window, pushed
        # States of earlier versions have an estimate of the conditional KL alone.
        made._estimates.update(zip(made._estimates, zip(when, values, strict=True), strict=False))
        return made


def neighbour_divergence(
    old: tuple[FloatArray, FloatArray], new: tuple[FloatArray, FloatArray], *, k: int = 3
) -> float:
    """Return the conditional KL divergence of the new from the old rows; constant columns are left out.

    It is 0 if there are too few rows, or if x or y does not vary at all.
    """
    if min(len(old[0]), len(new[0])) <= k:
        return 0.0
    kept = []
    for first, second in zip(old, new, strict=True):
        pooled = np.concatenate([first, second])
        varies = pooled.max(axis=0) > pooled.min(axis=0)
        if not varies.any():
            return 0.0
        kept.append(varies)
    (old_x, old_y), (new_x, new_y) = old, new
    return float(conditional_kl(new_x[:, kept[0]], new_y[:, kept[1]], old_x[:, kept[0]], old_y[:, kept[1]], k=k))
