"""A network whose hidden layers can be aligned: extractor, bottleneck, linear classifier."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from condcs.core.checks import check_integer


class BottleneckNetwork(nn.Module):
    """Feature extractor, fully connected bottleneck with ReLU, and a linear classifier.

    ``network(x)`` returns ``(logits, layers)``: the outputs, and the bottleneck's layers from first to last. That is
    what `DomainAdapter` asks of any network.

    Parameters
    ----------
    extractor : nn.Module
        Maps a batch of inputs to features; what it returns is flattened.
    n_features : int
        Columns of those features.
    n_classes : int
        Outputs.
    bottleneck : sequence of int
        Widths of the bottleneck's layers; the paper has two.

    Examples
    --------
    >>> network = BottleneckNetwork(nn.Identity(), 10, 2, bottleneck=(8, 4))
    >>> logits, layers = network(torch.zeros(5, 10))
    >>> tuple(logits.shape), [tuple(z.shape) for z in layers]
    ((5, 2), [(5, 8), (5, 4)])
    """

    def __init__(
        self, extractor: nn.Module, n_features: int, n_classes: int, *, bottleneck: Sequence[int] = (64, 32)
    ) -> None:
        super().__init__()
        self.extractor = extractor
        sizes = [check_integer("n_features", n_features, 1), *(check_integer("bottleneck", b, 1) for b in bottleneck)]
        self.bottleneck = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.classifier = nn.Linear(sizes[-1], check_integer("n_classes", n_classes, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return logits and the layers of the bottleneck."""
        z = self.extractor(x).flatten(1)
        layers = []
        for linear in self.bottleneck:
            z = torch.relu(linear(z))
            layers.append(z)
        return self.classifier(z), layers or [z]
