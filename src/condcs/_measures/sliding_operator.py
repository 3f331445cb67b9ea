r"""Conditional MMD of two groups that change by one row at a time, by rank-one updates.

With K the Gram matrix of all rows and G the inverse of :math:`K + \lambda I` within each group (0 across groups), the
operator interaction is :math:`T_{gh} = \sum_{i \in g, j \in h} P_{ij} L_{ij}` with :math:`P = G K G`. A row that enters
or leaves a group changes G by :math:`\tau v v'`, so that P changes by a matrix of rank two:

.. math:: P' = P + \tau (v q' + q v') + \tau^2 (v' K v) v v', \qquad q = G K v.

A step costs O(n^2) instead of O(n^3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from condcs._core.checks import check_positive

FloatArray = np.ndarray[Any, Any]

REFRESH_EVERY = 256
"""Changes of the groups after which G and P are computed afresh: rank-one updates gather rounding errors."""


class SlidingOperator:
    """Gram matrices of the rows in slots, and what the operator interaction needs of them.

    Parameters
    ----------
    capacity : int
        Largest number of rows. Memory: four matrices of capacity x capacity.
    dim_x : int
        Columns of x; the rest of a row is y.
    widths : array
        One kernel width per column of x and y.
    regularization : float
        Lambda, not multiplied by the number of rows.
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
