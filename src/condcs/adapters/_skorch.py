"""A skorch regressor whose loss also sees the inputs: the conditional CS divergence needs them."""

from __future__ import annotations

from typing import Any

from skorch import NeuralNetRegressor

from condcs.nn import ConditionalCSLoss


class ConditionalCSRegressor(NeuralNetRegressor):  # type: ignore[misc]
    """Regressor trained with ``criterion(y_pred, y_true, X)``; by default `condcs.nn.ConditionalCSLoss`.

    In all else it is `skorch.NeuralNetRegressor`: ``criterion__bandwidth_x=0.5`` sets an option of the loss, and
    callbacks, grid search and pipelines work. A batch of one row is an error; if the last batch may have one, pass
    ``iterator_train__drop_last=True``.

    Parameters
    ----------
    module : nn.Module
        The network.
    *args, criterion, **options
        As in `skorch.NeuralNetRegressor`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> X = np.linspace(0, 1, 64, dtype=np.float32)[:, None]
    >>> net = ConditionalCSRegressor(torch.nn.Linear(1, 1), max_epochs=2, verbose=0)
    >>> net.fit(X, 2 * X).predict(X).shape
    (64, 1)
    """

    def __init__(self, module: Any, *args: Any, criterion: Any = ConditionalCSLoss, **options: Any) -> None:
        super().__init__(module, *args, criterion=criterion, **options)

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, *args: Any, **options: Any) -> Any:
        """Return the loss of a batch, with its inputs."""
        return self.criterion_(y_pred, y_true.to(y_pred.device), X.to(y_pred.device))
