"""Choosing settings of a domain adapter without target labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from condcs._core.errors import ParameterError, public
from condcs.nn._adaptation import DomainAdapter
from condcs.nn._training import Checkpoints


@public
def reverse_validation(adapter: DomainAdapter, X: Any, y: Any, X_target: Any) -> float:
    """Score a fitted adapter without target labels: train the way back, and see how well the source is recovered.

    The target's predicted labels train a fresh adapter, with the same settings, towards the source's inputs; its
    accuracy on the source's labels is returned. If all of the target was given one label, the way back is that label.

    Parameters
    ----------
    adapter : DomainAdapter
        Fitted on ``X, y, X_target``.
    X, y, X_target : array
        What it was fitted on.

    Returns
    -------
    float
        Accuracy from 0 to 1.

    Examples
    --------
    >>> import torch
    >>> from condcs.nn import BottleneckNetwork
    >>> x, y = np.linspace(-3, 3, 80)[:, None], np.arange(80) >= 40
    >>> adapter = DomainAdapter(lambda: BottleneckNetwork(torch.nn.Identity(), 1, 2), method="none", epochs=40)
    >>> adapter = adapter.fit(x, y, x + 0.1)
    >>> reverse_validation(adapter, x, y, x + 0.1) > 0.9
    True
    """
    guessed, labels = adapter.predict(X_target), np.asarray(y)
    if len(np.unique(guessed)) < 2:
        return float(np.mean(labels == guessed[0]))
    back = clone(adapter)
    # The target may have lost a class on the way; the network keeps an output for it.
    back._fit(X_target, guessed, X, adapter.classes_, Checkpoints())
    return float(np.mean(back.predict(X) == labels))


@public
def choose_weight(
    adapter: DomainAdapter, weights: Sequence[float], X: Any, y: Any, X_target: Any
) -> tuple[DomainAdapter, list[float]]:
    """Fit an adapter for each weight of the discrepancy and keep the one with the best reverse validation.

    Parameters
    ----------
    adapter : DomainAdapter
        Settings; it is cloned.
    weights : sequence of float
        Weights to try; of equally good ones the first is taken.
    X, y, X_target : array
        As in `DomainAdapter.fit`.

    Returns
    -------
    adapter : DomainAdapter
        Fitted.
    scores : list of float
        Reverse validation of each weight.

    Examples
    --------
    >>> import torch
    >>> from condcs.nn import BottleneckNetwork
    >>> x, y = np.linspace(-3, 3, 40)[:, None], np.arange(40) >= 20
    >>> adapter = DomainAdapter(lambda: BottleneckNetwork(torch.nn.Identity(), 1, 2), warmup=2, epochs=4)
    >>> chosen, scores = choose_weight(adapter, [0.1, 1.0], x, y, x + 0.5)
    >>> chosen.weight in (0.1, 1.0), len(scores)
    (True, 2)
    """
    if not len(weights):
        raise ParameterError("`weights` must hold at least one weight, got none. Pass e.g. weights=[0.1, 1.0, 10.0].")
    fitted, scores = [], []
    for weight in weights:
        one = clone(adapter).set_params(weight=weight)
        fitted.append(one.fit(X, y, X_target))
        scores.append(reverse_validation(one, X, y, X_target))
    return fitted[int(np.argmax(scores))], scores
