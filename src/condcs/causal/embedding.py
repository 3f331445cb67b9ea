"""Embedding: which past values predict which target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs.causal.series import FloatArray, Series
from condcs.core.checks import check_integer
from condcs.core.errors import ShapeError

FEWEST_ROWS = 20
"""Fewest rows (target, past) that a score is worth computing on."""


@dataclass(frozen=True)
class Embedding:
    r"""How the past is cut out of a series.

    The target :math:`y_t` is predicted from its own past :math:`y_{t-1}, y_{t-1-\tau}, \ldots` (`order_y` values) and
    from the source's :math:`x_{t-\delta}, x_{t-\delta-\tau}, \ldots` (`order_x` values), with :math:`\tau` = `lag` and
    :math:`\delta` = `delay`. With ``lag=1`` this is the paper's embedding; so it is with ``delay=1`` for any lag.

    Attributes
    ----------
    lag, delay : int
        Spacing of past values, and steps from the latest value of the source to the target.
    order_x, order_y : int
        Number of past values.
    """

    lag: int = 1
    delay: int = 1
    order_x: int = 1
    order_y: int = 1

    @property
    def own_steps(self) -> tuple[int, ...]:
        """How many steps before the target its own past values lie."""
        return tuple(1 + k * self.lag for k in range(self.order_y))

    @property
    def source_steps(self) -> tuple[int, ...]:
        """How many steps before the target the source's past values lie."""
        return tuple(self.delay + k * self.lag for k in range(self.order_x))

    @property
    def reach(self) -> int:
        """How many times at the start have no complete past."""
        return max(*self.own_steps, *self.source_steps)

    def rows(self, length: int) -> int:
        """Return the number of targets with a complete past in a series of this length."""
        return length - self.reach

    def past(self, series: Series, steps: Sequence[int]) -> FloatArray:
        """Return past values as columns, one row per target."""
        n = self.rows(len(series))
        return np.concatenate([series.values[self.reach - s : self.reach - s + n] for s in steps], axis=1)

    def target(self, series: Series) -> FloatArray:
        """Return the targets."""
        return series.values[self.reach :]


def check_embedding(
    lag: Any, delay: Any, order: Any, order_x: Any, order_y: Any, length: int, *, fewest: int = FEWEST_ROWS
) -> Embedding:
    """Check lags and orders against the length of the series."""
    lag = check_integer("lag", lag, 1)
    delay = lag if delay is None else check_integer("delay", delay, 1)
    order = check_integer("order", order, 1)
    order_x = order if order_x is None else check_integer("order_x", order_x, 1)
    order_y = order if order_y is None else check_integer("order_y", order_y, 1)
    embedding = Embedding(lag, delay, order_x, order_y)
    if embedding.rows(length) < fewest:
        raise ShapeError(
            f"the series must be at least {fewest + embedding.reach} long for `lag`={lag}, `delay`={delay} and orders "
            f"{order_x} and {order_y}, which look {embedding.reach} step(s) back, got {length}. Use a longer series, "
            "or fewer or shorter lags."
        )
    return embedding
