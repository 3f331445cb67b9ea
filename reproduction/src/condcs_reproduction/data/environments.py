"""A task seen in several environments: one group of inputs causes the label, another only goes along with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condcs._core.arrays import ByValue, FloatArray, LabelArray
from condcs._core.checks import check_integer, check_rng
from condcs._core.errors import ParameterError, public


@dataclass(frozen=True, eq=False)
class Environments(ByValue):
    """Pooled rows of several environments.

    Attributes
    ----------
    x : array, shape (rows, 2 features)
        Invariant inputs first, then spurious ones.
    y : array of int
        Binary label.
    environment : array of int
        Which environment a row comes from.
    n_invariant : int
        How many columns of x are invariant.
    """

    x: FloatArray
    y: LabelArray
    environment: LabelArray
    n_invariant: int


@public
def make_environments(
    n: int = 500,
    *,
    agreement: Sequence[float] = (0.9, 0.75),
    reliability: float = 0.75,
    n_features: int = 5,
    noise: float = 1.0,
    rng: int | np.random.Generator | None = 0,
) -> Environments:
    r"""Simulate environments in which p(y | invariant inputs) is the same and p(y | spurious inputs) is not.

    A hidden sign s is balanced. The label equals s with probability `reliability` in every environment. Invariant
    inputs are N(s, noise^2) around the sign, spurious ones N(c, noise^2) around a second sign c that equals the label
    with the environment's own probability, `agreement`. Where that exceeds `reliability`, plain training prefers the
    spurious inputs, and fails wherever the agreement turns.

    Parameters
    ----------
    n : int
        Rows of each environment.
    agreement : sequence of float
        For each environment, the probability that the spurious sign equals the label.
    reliability : float
        Probability that the hidden sign equals the label.
    n_features : int
        Columns of each kind.
    noise : float
        Standard deviation around the sign of the mean over the columns of one kind: the signal does not depend on
        `n_features`.
    rng : int or Generator
        Seed.

    Returns
    -------
    Environments
        Inputs, labels, environments.

    Examples
    --------
    >>> data = make_environments(200, agreement=(0.9, 0.1))
    >>> data.x.shape, sorted(set(data.environment.tolist()))
    ((400, 10), [0, 1])
    """
    n, n_features = check_integer("n", n, 2), check_integer("n_features", n_features, 1)
    for name, values in (("agreement", agreement), ("reliability", (reliability,))):
        if not len(values) or not all(0 <= v <= 1 for v in values):
            raise ParameterError(
                f"`{name}` must be a probability from 0 to 1 (`agreement`: one per environment), got {values!r}. "
                f"Pass e.g. {name}={'(0.9, 0.75)' if name == 'agreement' else '0.75'}."
            )
    generator = check_rng(rng)
    spread = noise * np.sqrt(n_features)
    x, y, environment = [], [], []
    for e, share in enumerate(agreement):
        sign = generator.integers(0, 2, size=n)
        label = np.where(generator.random(n) < reliability, sign, 1 - sign)
        follower = np.where(generator.random(n) < share, label, 1 - label)
        centres = np.repeat(2.0 * np.stack([sign, follower], axis=1) - 1.0, n_features, axis=1)
        x.append(centres + spread * generator.normal(size=centres.shape))
        y.append(label)
        environment.append(np.full(n, e))
    return Environments(np.concatenate(x), np.concatenate(y), np.concatenate(environment), n_features)
