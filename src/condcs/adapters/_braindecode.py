"""braindecode's EEGNet as the feature extractor of a domain adapter."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from condcs.nn import BottleneckNetwork


class EEGNetFeatures(nn.Module):
    """`braindecode.models.EEGNet` without its last layer.

    Parameters
    ----------
    n_channels, n_times : int
        Shape of a trial.
    **options
        Passed to `braindecode.models.EEGNet`, e.g. ``F1=8, kernel_length=64``.

    Attributes
    ----------
    n_features : int
        Columns of the features.
    """

    def __init__(self, n_channels: int, n_times: int, **options: Any) -> None:
        super().__init__()
        # The last layer goes, so its kind and its outputs do not matter; this kind is the one not deprecated.
        settings = {"n_outputs": 2, "final_layer_with_constraint": True, **options}
        self.model = eegnet_class()(n_chans=n_channels, n_times=n_times, **settings)
        self.model.final_layer = nn.Flatten()
        training = self.model.training
        with torch.no_grad():
            self.n_features = int(self.model.eval()(torch.zeros(1, n_channels, n_times)).shape[1])
        self.model.train(training)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of a batch of trials (rows, channels, times)."""
        features: Tensor = self.model(x)
        return features


def eegnet_network(
    n_channels: int, n_times: int, n_classes: int, *, bottleneck: Sequence[int] = (64, 32), **options: Any
) -> BottleneckNetwork:
    """Make the paper's network for EEG: EEGNet, a bottleneck of two layers, a linear classifier.

    Parameters
    ----------
    n_channels, n_times, n_classes : int
        Shape of a trial and number of classes.
    bottleneck : sequence of int
        Widths of the bottleneck's layers.
    **options
        Passed to `braindecode.models.EEGNet`.

    Returns
    -------
    BottleneckNetwork
        For `condcs.nn.DomainAdapter`.
    """
    features = EEGNetFeatures(n_channels, n_times, **options)
    return BottleneckNetwork(features, features.n_features, n_classes, bottleneck=bottleneck)


@lru_cache(maxsize=1)
def eegnet_class() -> Any:
    """Return `braindecode.models.EEGNet`.

    braindecode imports torchaudio for its other models. torchaudio's wheels on PyPI are linked to CUDA and cannot be
    loaded with a CPU build of torch. EEGNet does not use it: only in that case, a placeholder replaces torchaudio while
    braindecode is imported.
    """
    with warnings.catch_warnings():
        # Of other models, about names that mne is going to drop.
        warnings.simplefilter("ignore")
        try:
            import_module("torchaudio")
        except ModuleNotFoundError as error:
            if error.name != "torchaudio":
                raise
        except OSError:
            pass
        else:
            return _imported()
        with _torchaudio_placeholder():
            return _imported()


def _imported() -> Any:
    from braindecode.models import EEGNet

    return EEGNet


class _Placeholder(ModuleType):
    """A module from which any name can be imported, but not used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(self: Any, *args: Any, **options: Any) -> None:
            raise ImportError(
                f"torchaudio's {name} cannot be loaded beside this torch. Install the torchaudio that belongs to it, "
                "e.g. pip install torchaudio --index-url https://download.pytorch.org/whl/cpu"
            )

        return type(name, (), {"__init__": refuse})


@contextmanager
def _torchaudio_placeholder() -> Iterator[None]:
    names = ("torchaudio", "torchaudio.functional", "torchaudio.transforms")
    before = {name: sys.modules.get(name) for name in names}
    stand_ins = {name: _Placeholder(name) for name in names}
    for name in names[1:]:
        setattr(stand_ins["torchaudio"], name.partition(".")[2], stand_ins[name])
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
