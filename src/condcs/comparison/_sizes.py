"""How large the change is, in units of y, and what it did to a model's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condcs._inference.common_support import common_support, some_rows
from condcs._inference.effects import Effect, measure_effect
from condcs._inference.loss_split import LossChange, split_change
from condcs._inference.regions import Ground
from condcs._inference.smoothing import Smoother
from condcs._tables.kinds import Column
from condcs._tables.pair import Pair

FloatArray = np.ndarray[Any, Any]
Losses = tuple[FloatArray, FloatArray]

EFFECT_ROWS = 10_000
"""Rows of each table that effects are measured on; of longer ones a uniform sample, which is precise enough."""
_LOSS_RESAMPLES = 300
_MOST_LABELS = 8


@dataclass(frozen=True)
class Sizes:
    """Sizes of the change.

    Attributes
    ----------
    effects : tuple of Effect
        One for each response.
    loss : LossChange, optional
        Why the mean loss changed, if a loss was asked for.
    rows : tuple of int
        Rows of each table that they were measured on.
    """

    effects: tuple[Effect, ...]
    loss: LossChange | None
    rows: tuple[int, int]


def measure_sizes(pair: Pair, ground: Ground, losses: Losses | None, *, alpha: float, seed: int) -> Sizes:
    """Measure the change of every response over the inputs that both tables have; alpha is shared among them."""
    rng = np.random.default_rng(seed)
    rows, sizes = some_rows((len(pair.xp), len(pair.xq)), EFFECT_ROWS, rng)
    y = np.concatenate([pair.yp, pair.yq])[rows]
    whole, clusters = len(rows) == len(ground.x), ground.propensity.units
    support = common_support(
        ground.smoother if whole else Smoother(ground.x[rows], ground.categorical),
        sizes,
        rng,
        propensity=ground.propensity if whole else None,
        weights=ground.weights[rows],
        clusters=None if clusters is None else np.unique(clusters[rows], return_inverse=True)[1].reshape(-1),
    )
    level = alpha / len(pair.y)
    effects = tuple(
        measure_effect(
            column.name,
            support,
            _numbers(column, values),
            numeric=not column.is_category,
            confidence_level=1 - level,
            alpha=level,
            rng=rng,
        )
        for column, values in zip(pair.y, y.T, strict=True)
    )
    if losses is None:
        return Sizes(effects, None, sizes)
    loss = np.concatenate(losses)[rows]
    return Sizes(effects, split_change(support, loss, 1 - alpha, _LOSS_RESAMPLES, rng), sizes)


def _numbers(column: Column, values: FloatArray) -> FloatArray:
    """Numbers as they are; of labels the indicators: one of two, all of a few, the frequent ones of many."""
    if not column.is_category:
        return np.asarray(values[:, None])
    codes = values.astype(int)
    if len(column.labels) == 2:
        return np.asarray((codes == 1).astype(np.float64)[:, None])
    frequent = np.argsort(-np.bincount(codes, minlength=len(column.labels)), kind="stable")[:_MOST_LABELS]
    return np.asarray((codes[:, None] == np.sort(frequent)).astype(np.float64))
