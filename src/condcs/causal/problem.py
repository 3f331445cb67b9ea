"""What is asked of a set of series: which links, with which pasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from condcs.causal.embedding import Embedding
from condcs.causal.series import FloatArray, Series


class Link(NamedTuple):
    """A possible influence: indices of the source, the target, and the series whose pasts are conditioned on."""

    source: int
    target: int
    given: tuple[int, ...] = ()


@dataclass(frozen=True)
class CausalProblem:
    """Series of equal length, their embedding, and the links to look at."""

    series: tuple[Series, ...]
    embedding: Embedding
    links: tuple[Link, ...]

    @property
    def rows(self) -> int:
        """Number of targets with a complete past."""
        return self.embedding.rows(len(self.series[0]))

    def parts(self, link: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the targets, what is conditioned on (own past, then pasts of `given`), and the past of the source."""
        e = self.embedding
        own = [e.past(self.series[link.target], e.own_steps)]
        given = [e.past(self.series[z], e.source_steps) for z in link.given]
        target = e.target(self.series[link.target])
        return target, np.concatenate([*own, *given], axis=1), e.past(self.series[link.source], e.source_steps)


Measure = Callable[..., float]
"""``measure(target, condition, source, **options)``: a score, larger for a stronger influence."""


def window_scores(
    problem: CausalProblem, link: Link, measure: Measure, starts: np.ndarray[Any, Any], window: int, options: Any
) -> FloatArray:
    """Evaluate any measure on pairs of windows: rows (source start, target start)."""
    target, condition, source = problem.parts(link)
    return np.array(
        [
            measure(target[j : j + window], condition[j : j + window], source[i : i + window], **options)
            for i, j in starts
        ]
    )


def reordered_scores(
    problem: CausalProblem, link: Link, measure: Measure, orders: Sequence[np.ndarray[Any, Any]], options: Any
) -> FloatArray:
    """Evaluate any measure with the source's rows in other orders."""
    target, condition, source = problem.parts(link)
    return np.array([measure(target, condition, source[order], **options) for order in orders])
