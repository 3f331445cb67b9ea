"""The plain network of the experiments on losses and penalties."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch import nn


def multilayer_perceptron(sizes: Sequence[int], activation: type[nn.Module] = nn.Sigmoid) -> nn.Sequential:
    """Return linear layers of the given sizes with an activation between them, none at the end."""
    layers: list[Any] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])
