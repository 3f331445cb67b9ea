"""EEGNet (Lawhern et al., 2018, https://doi.org/10.1088/1741-2552/aace8c) as the feature extractor for EEG."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from condcs_reproduction.adaptation.domain_adapter import BottleneckNetwork

SPATIAL_MAX_NORM = 1.0
"""Largest Euclidean norm of a spatial filter, as in the publication."""

SEPARABLE_LENGTH = 16
"""Steps of the second temporal convolution: half a second, at 32 steps per second after the first pooling."""

POOL_FIRST, POOL_SECOND = 4, 8
"""Steps that are averaged by the two poolings: 128 per second become 32, and then 4."""

BATCH_NORM_EPS = 1e-3
"""Added to variances: Keras' default, with which the network was published (torch's is 1e-5)."""


class MaxNorm(nn.Module):
    """A parametrization that shortens filters to a largest norm."""

    def __init__(self, max_norm: float) -> None:
        super().__init__()
        self.max_norm = max_norm

    def forward(self, weight: Tensor) -> Tensor:
        """Return the filters, each along the first axis with at most that norm."""
        return weight.renorm(p=2, dim=0, maxnorm=self.max_norm)


class EEGNetFeatures(nn.Module):
    """EEGNet without its last layer: temporal filters, spatial filters of each, and a separable convolution.

    Parameters
    ----------
    n_channels, n_times : int
        Shape of a trial. The defaults below suit 128 steps per second.
    F1 : int
        Number of temporal filters.
    D : int
        Spatial filters of each temporal one.
    kernel_length : int
        Steps of a temporal filter.
    batch_norm_momentum : float
        Weight of a batch in the running means of the normalisation.
    drop_prob : float
        Probability of dropout after each pooling.

    Attributes
    ----------
    n_features : int
        Columns of the features.

    Examples
    --------
    >>> features = EEGNetFeatures(3, 128)
    >>> features(torch.zeros(5, 3, 128)).shape
    torch.Size([5, 64])
    """

    def __init__(
        self,
        n_channels: int,
        n_times: int,
        *,
        F1: int = 8,
        D: int = 2,
        kernel_length: int = 64,
        batch_norm_momentum: float = 0.01,
        drop_prob: float = 0.25,
    ) -> None:
        super().__init__()
        F2 = F1 * D  # maps after the spatial filters, and after the separable convolution

        def normalisation(maps: int) -> nn.Module:
            return nn.BatchNorm2d(maps, momentum=batch_norm_momentum, eps=BATCH_NORM_EPS)

        temporal = nn.Conv2d(1, F1, (1, kernel_length), padding=(0, kernel_length // 2), bias=False)
        spatial = nn.Conv2d(F1, F2, (n_channels, 1), groups=F1, bias=False)
        nn.init.xavier_uniform_(spatial.weight)
        register_parametrization(spatial, "weight", MaxNorm(SPATIAL_MAX_NORM))
        # A separable convolution: along time within each map, then between maps at each step.
        depthwise = nn.Conv2d(F2, F2, (1, SEPARABLE_LENGTH), padding=(0, SEPARABLE_LENGTH // 2), groups=F2, bias=False)
        pointwise = nn.Conv2d(F2, F2, 1, bias=False)
        self.layers = nn.Sequential(
            temporal,  # (n, F1, channels, times)
            normalisation(F1),
            spatial,  # (n, F2, 1, times)
            normalisation(F2),
            nn.ELU(),
            nn.AvgPool2d((1, POOL_FIRST)),
            nn.Dropout(drop_prob),
            depthwise,
            pointwise,
            normalisation(F2),
            nn.ELU(),
            nn.AvgPool2d((1, POOL_SECOND)),
            nn.Dropout(drop_prob),
            nn.Flatten(),  # (n, F2 times / 32)
        )
        with torch.no_grad():
            self.n_features = int(self(torch.zeros(1, n_channels, n_times)).shape[1])
        # The published network ends with a classifier. It is drawn and dropped, so that a seed gives the layers that
        # follow the weights with which the figures in docs/results.md were computed.
        nn.Linear(self.n_features, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch of trials (rows, channels, times)."""
        features: Tensor = self.layers(x.unsqueeze(1))
        return features


def eegnet_network(
    n_channels: int,
    n_times: int,
    n_classes: int,
    *,
    bottleneck: Sequence[int] = (64, 32),
    F1: int = 8,
    kernel_length: int = 64,
    batch_norm_momentum: float = 0.01,
) -> BottleneckNetwork:
    """Make the paper's network for EEG: EEGNet, a bottleneck of two layers, a linear classifier.

    Parameters
    ----------
    n_channels, n_times, n_classes : int
        Shape of a trial and number of classes.
    bottleneck : sequence of int
        Widths of the bottleneck's layers.
    F1, kernel_length, batch_norm_momentum
        As in `EEGNetFeatures`.

    Returns
    -------
    BottleneckNetwork
        For `DomainAdapter`.
    """
    features = EEGNetFeatures(
        n_channels, n_times, F1=F1, kernel_length=kernel_length, batch_norm_momentum=batch_norm_momentum
    )
    return BottleneckNetwork(features, features.n_features, n_classes, bottleneck=bottleneck)
