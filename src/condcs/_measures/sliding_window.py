r"""Two groups that slide by one row at a time: divergences in O(rows) per step instead of O(rows^2).

Every row j keeps its kernel masses :math:`A_{jg} = \sum_{i \in g} K_{ji}` and :math:`B_{jg} = \sum_{i \in g} K_{ji}
L_{ji}` in both groups. A row that enters, leaves or changes groups changes every sum by one term, so a step costs a few
kernel rows. Rounding does not gather, but cancellation does: a sum that falls far below its peak keeps the peak's
rounding error. Such sums are found by their peaks and summed afresh; sums too small for a double are kept with a scale
of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from condcs._core.arrays import AnyArray, FloatArray, IntArray
from condcs._core.checks import check_choice, check_integer, check_positive
from condcs._core.errors import BandwidthError, CondcsError, DataError, ParameterError, ShapeError
from condcs._core.files import State, Stateful

OLD, NEW = 0, 1
"""The two groups."""

MEASURES = ("conditional_cs", "conditional_euclidean", "joint_mmd")
"""Measures that cost O(rows) once the sums are known."""

SMALLEST_GROUP = 2
"""With fewer rows in a group there is nothing to compare: the divergence is 0."""


class SlidingWindow(Stateful):
    """Rows in slots, each in one of two groups, with exact running kernel sums.

    The ground that replay buffers stand on; rows are checked by those. Gaussian kernels.

    Parameters
    ----------
    capacity : int
        Largest number of rows.
    dim_x, dim_y : int
        Columns of x and y.
    bandwidth_x, bandwidth_y : float or sequence of float
        Bandwidths of the kernels, one number or one per column; no rules, which would have to see the data first.

    Examples
    --------
    >>> import numpy as np
    >>> window = SlidingWindow(4, 1, 1, bandwidth_x=1.0, bandwidth_y=1.0)
    >>> for x, group in ((0.0, OLD), (1.0, OLD), (0.0, NEW), (1.0, NEW)):
    ...     slot = window.append(np.array([x, x]), group)
    >>> round(window.divergence("conditional_cs"), 12) + 0.0
    0.0
    """

    def __init__(self, capacity: int, dim_x: int, dim_y: int, *, bandwidth_x: Any, bandwidth_y: Any) -> None:
        from condcs._measures import sliding_loops

        self._loops = sliding_loops
        self.capacity = check_integer("capacity", capacity, 2)
        self.dim_x, self.dim_y = check_integer("dim_x", dim_x, 1), check_integer("dim_y", dim_y, 1)
        self.widths = np.concatenate(
            [check_widths("bandwidth_x", bandwidth_x, self.dim_x), check_widths("bandwidth_y", bandwidth_y, self.dim_y)]
        )
        self.arrays = sliding_loops.empty_window(self.capacity, self.dim_x, self.widths)

    def __len__(self) -> int:
        return int(self.arrays.sizes[self._loops.ROWS])

    @property
    def counts(self) -> tuple[int, int]:
        """Rows of the old and of the new group."""
        return int(self.arrays.sizes[self._loops.OLD]), int(self.arrays.sizes[self._loops.NEW])

    def append(self, row: FloatArray, group: int) -> int:
        """Put a row (x and y in one array) in the next free slot and return that slot."""
        slot = len(self)
        if slot == self.capacity:
            raise ParameterError(f"`row` must find a free slot, but all {slot} are taken. Use `replace` instead.")
        self._loops.put_in(self.arrays, slot, row, group)
        self._loops.mend(self.arrays)
        return slot

    def replace(self, slot: int, row: FloatArray, group: int) -> None:
        """Put a row in place of another; one row more is summed afresh, so that old rows gather no rounding."""
        self._loops.exchange(self.arrays, slot, row, group)

    def move(self, slot: int, group: int) -> None:
        """Move the row in a slot to the other group."""
        self._loops.move(self.arrays, slot, group)
        self._loops.mend(self.arrays)

    def push(self, pushed: int, row: FloatArray) -> None:
        """Push a row to a buffer of an old and a new half; `pushed` counts the rows before it."""
        self._loops.push(self.arrays, pushed, row)

    def divergence(self, measure: str = "conditional_cs") -> float:
        """Return a divergence between the two groups; 0 while either has fewer than 2 rows. Cost O(rows)."""
        check_choice("measure", measure, MEASURES)
        if min(self.counts) < SMALLEST_GROUP:
            return 0.0
        function: Callable[[Any], float] = getattr(self._loops, measure)
        return float(function(self.arrays))

    def rows(self, slots: Any) -> tuple[FloatArray, FloatArray]:
        """Return copies of x and y of the rows in `slots` (an index array or a slice)."""
        taken = self.arrays.values[:, : len(self)][:, slots].T
        return np.ascontiguousarray(taken[:, : self.dim_x]), np.ascontiguousarray(taken[:, self.dim_x :])

    def members(self, group: int) -> IntArray:
        """Return the slots of a group."""
        return np.flatnonzero(self.arrays.group == group)

    def state_dict(self) -> State:
        """Return everything as plain arrays: sums included, so that a restored window goes on bit for bit."""
        kept = self.arrays._asdict()
        del kept["work"], kept["inverse_widths"]
        return {**{name: array.copy() for name, array in kept.items()}, "widths": self.widths.copy()}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> SlidingWindow:
        """Return the window that `state` describes."""
        values, widths, sizes = (_entry(state, name) for name in ("values", "widths", "sizes"))
        if values.ndim != 2 or widths.shape != values.shape[:1] or sizes.shape != (6,):
            raise _broken(f"values of shape {values.shape} with widths of shape {widths.shape}")
        dim_x = int(sizes[0])
        if not 1 <= dim_x < len(widths):
            raise _broken(f"{dim_x} columns of x among {len(widths)}")
        made = cls(values.shape[1], dim_x, len(widths) - dim_x, bandwidth_x=widths[:dim_x], bandwidth_y=widths[dim_x:])
        for name, array in made.arrays._asdict().items():
            # States of earlier versions have no rests; those of 0 go on as they did there.
            if name in ("work", "inverse_widths") or (name == "rests" and name not in state):
                continue
            given = _entry(state, name)
            if given.shape != array.shape or given.dtype.kind not in "fi":
                raise _broken(f"{name} of shape {given.shape} where {array.shape} is expected")
            if array.dtype.kind == "f" and not np.isfinite(given).all():
                raise _broken(f"{name} that is not finite")
            array[...] = given
        n, group = len(made), made.arrays.group
        counted = tuple(int(np.sum(group[:n] == g)) for g in (OLD, NEW))
        if not 0 <= n <= made.capacity or counted != made.counts or sum(counted) != n:
            raise _broken(f"{made.counts} rows announced and {counted} found")
        made.arrays.sizes[made._loops.SHIFTED] = int(np.count_nonzero(made.arrays.shifts[:, :n]))
        return made


def check_widths(name: str, value: Any, columns: int) -> FloatArray:
    """Return one positive bandwidth per column."""
    if isinstance(value, str):
        raise BandwidthError(
            f"`{name}` must be a positive number, or one per column, got the rule {value!r}: rows come one by one, so "
            f"there is no sample to estimate it from. Find it first, e.g. condcs.bandwidth(sample, rule={value!r})."
        )
    try:
        widths = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        widths = np.array(np.nan)
    if widths.ndim == 0:
        widths = np.full(columns, float(widths))
    if widths.shape != (columns,):
        raise BandwidthError(
            f"`{name}` must be one number, or one per column ({columns}), got shape {widths.shape}. Pass one number."
        )
    with np.errstate(divide="ignore", over="ignore"):
        usable = np.isfinite(widths) & (widths > 0) & np.isfinite(1 / widths)
    if not usable.all():
        raise BandwidthError(f"`{name}` must be positive and finite, got {value!r}. Pass e.g. {name}=0.1.")
    return widths


def joined_row(x: Any, y: Any, dim_x: int, dim_y: int) -> FloatArray:
    """Return x and y of one observation in one array, checked."""
    row = np.empty(dim_x + dim_y)
    for name, value, part in (("x", x, row[:dim_x]), ("y", y, row[dim_x:])):
        try:
            given = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"`{name}` must hold numbers, got {value!r}. Encode labels as numbers.") from error
        if given.size != part.size or given.ndim > 1:
            raise ShapeError(
                f"`{name}` must be one row of {part.size} numbers, got shape {given.shape}. Push one row at a time."
            )
        part[:] = given
    if not np.isfinite(row).all():
        name = "x" if not np.isfinite(row[:dim_x]).all() else "y"
        raise DataError(f"`{name}` must be finite, got {row.tolist()}. Leave out such rows, or impute them.")
    return row


def _entry(state: Mapping[str, AnyArray], name: str) -> AnyArray:
    if name not in state:
        raise _broken(f"no {name!r}")
    return np.asarray(state[name])


def _broken(what: str) -> CondcsError:
    return DataError(f"`state` must come from `state_dict()` of the same class, got {what}. Save it again.")


REFRESH_EVERY = 256
"""Changes of the groups after which G and P are computed afresh: rank-one updates gather rounding errors."""


class SlidingOperator:
    r"""Conditional MMD of two groups that change by one row at a time, in O(n^2) a step instead of O(n^3).

    With K the Gram matrix of all rows and G the inverse of :math:`K + \lambda I` within each group (0 across groups),
    the operator interaction is :math:`T_{gh} = \sum_{i \in g, j \in h} P_{ij} L_{ij}` with :math:`P = G K G`. A row
    that enters or leaves a group changes G by :math:`\tau v v'`, so that P changes by a matrix of rank two:

    .. math:: P' = P + \tau (v q' + q v') + \tau^2 (v' K v) v v', \qquad q = G K v.

    A row holds `dim_x` columns of x, then y. Memory: four matrices of capacity x capacity.
    """

    def __init__(self, capacity: int, dim_x: int, widths: FloatArray, *, regularization: float = 0.1) -> None:
        self.regularization = check_positive("regularization", regularization)
        self.dim_x, self.widths = dim_x, widths
        self.group = np.full(capacity, -1, np.int64)
        self._rows = np.zeros((capacity, len(widths)))
        self._K, self._L, self._G, self._P = (np.zeros((capacity, capacity)) for _ in range(4))
        self._changes = 0

    def put_in(self, slot: int, row: FloatArray, group: int) -> None:
        """Put a row in an empty slot."""
        self._rows[slot] = row / self.widths
        squares = (self._rows - self._rows[slot]) ** 2
        self._K[slot] = self._K[:, slot] = np.exp(-0.5 * squares[:, : self.dim_x].sum(axis=1))
        self._L[slot] = self._L[:, slot] = np.exp(-0.5 * squares[:, self.dim_x :].sum(axis=1))
        self._enter(slot, group)
        self._count()

    def take_out(self, slot: int) -> None:
        """Empty a slot."""
        self._leave(slot)
        self._count()

    def move(self, slot: int, group: int) -> None:
        """Move the row in a slot to the other group."""
        self._leave(slot)
        self._enter(slot, group)
        self._count()

    def divergence(self) -> float:
        """Return the squared conditional MMD of the two groups."""
        product = self._P * self._L
        sign = np.where(self.group == 0, 1.0, np.where(self.group == 1, -1.0, 0.0))
        return float(sign @ product @ sign)

    def refresh(self) -> None:
        """Compute G and P from the Gram matrices."""
        self._G[...] = 0.0
        for g in (0, 1):
            members = np.flatnonzero(self.group == g)
            if len(members):
                block = self._K[np.ix_(members, members)] + self.regularization * np.eye(len(members))
                self._G[np.ix_(members, members)] = cho_solve(cho_factor(block), np.eye(len(members)))
        np.matmul(self._G @ self._K, self._G, out=self._P)
        self._changes = 0

    def _enter(self, slot: int, group: int) -> None:
        members = np.flatnonzero(self.group == group)
        k = self._K[members, slot]
        v = np.zeros(len(self.group))
        v[members] = self._G[np.ix_(members, members)] @ k
        v[slot] = -1.0
        self.group[slot] = group
        self._update(v, 1.0 / (1.0 + self.regularization - k @ v[members]))

    def _leave(self, slot: int) -> None:
        column = self._G[:, slot].copy()
        self._update(column, -1.0 / column[slot])
        # What is left of the row is rounding.
        self._G[slot] = self._G[:, slot] = self._P[slot] = self._P[:, slot] = 0.0
        self.group[slot] = -1

    def _update(self, v: FloatArray, tau: float) -> None:
        from condcs._measures.sliding_loops import add_outer_products

        w = self._K @ v
        q = self._G @ w
        add_outer_products(self._G, self._P, v, tau * q + 0.5 * tau * tau * float(v @ w) * v, tau)

    def _count(self) -> None:
        self._changes += 1
        if self._changes >= REFRESH_EVERY:
            self.refresh()
