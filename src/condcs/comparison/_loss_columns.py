"""The loss of a model in each row of two tables: from a column of losses, one of predictions, or a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from condcs._core.arrays import FloatArray
from condcs._core.errors import DataError, ParameterError
from condcs._core.vocabulary import named, setting
from condcs._tables.pair import LossColumn, Pair, choose_x_and_y
from condcs._tables.sources import column_name

Losses = tuple[FloatArray, FloatArray]
"""The loss of each row, of the reference and of the current table."""

PREDICTED = "(prediction)"
"""Name of the column with what a model predicts."""

_LEAST_PROBABILITY = 1e-6
"""A log loss of 14 at most: a model that is certain and wrong would otherwise make every mean infinite."""


def loss_column(prediction: Any, loss: str | int | None) -> LossColumn | None:
    """Return where the loss of a row comes from, or None if none was asked for."""
    if prediction is None:
        return None if loss is None else LossColumn("loss", loss)
    if loss is not None:
        raise ParameterError(
            f"{named('loss')} must be left out if {named('prediction')} is given, got {loss!r}. Pass one of the two."
        )
    if isinstance(prediction, str | int):
        return LossColumn("prediction", prediction)
    if not hasattr(prediction, "predict"):
        raise ParameterError(
            f"{named('prediction')} must be a column or a fitted model with a method `predict`, got "
            f"{type(prediction).__name__}. Pass e.g. {setting('prediction', 'predicted_price')}."
        )
    return LossColumn("prediction", PREDICTED)


def with_predictions(role: str, table: Any, model: Any, y: Any, x: Any) -> Any:
    """Return a DataFrame with a further column: what a fitted model predicts for each row."""
    if not hasattr(table, "columns") or not hasattr(table, "assign"):
        raise ParameterError(
            f"{named('prediction')} must be a column unless the tables are pandas DataFrames, got a model and a "
            f"{type(table).__name__} as {named(role)}. Read the table with pandas, or predict first and pass the "
            "column."
        )
    features = getattr(model, "feature_names_in_", None)
    if features is None:
        keys = {column_name(key): key for key in table.columns}
        inputs, _ = choose_x_and_y(x, y, list(keys), role)
        features = [keys[column] for column in inputs]
    lacking = [column for column in features if column not in table.columns]
    if lacking:
        raise DataError(
            f"{named(role)} must have the columns that the model was fitted to, but lacks "
            f"{', '.join(map(repr, lacking[:5]))}. Pass the tables with all of them."
        )
    return table.assign(**{PREDICTED: np.asarray(model.predict(table[list(features)]))})


def split_losses(pair: Pair, source: LossColumn | None) -> tuple[Pair, Losses | None]:
    """Take the last response, which is that of the loss, out of a pair, and return the losses of the rows."""
    if source is None:
        return pair, None
    n_responses = len(pair.y) - 1
    plain = replace(pair, y=pair.y[:-1], yp=pair.yp[:, :-1], yq=pair.yq[:, :-1])
    column = pair.y[-1]
    if source.argument == "loss":
        if column.is_category and not _are_numbers(column.labels):
            raise DataError(
                f"{named('loss')} must be a column of numbers, got labels in {column.name!r}. Name another one."
            )
        return plain, (_as_numbers(pair, pair.yp), _as_numbers(pair, pair.yq))
    if n_responses > 1:
        raise ParameterError(
            f"{named('prediction')} must be for one response, got {n_responses} columns as {named('y')}. Compare them "
            f"one by one, or pass a column of losses as {named('loss')}."
        )
    with np.errstate(over="ignore"):
        losses = _loss(pair, pair.yp), _loss(pair, pair.yq)
    if not all(np.isfinite(loss).all() for loss in losses):
        raise DataError(
            f"the losses must be finite, but squares of the errors overflow. Rescale y and {named('prediction')}."
        )
    return plain, losses


def _loss(pair: Pair, y: FloatArray) -> FloatArray:
    """Squared error of numbers, errors of labels, and the log loss of probabilities of the later of two labels.

    `y` (n x 2) holds the response and what was predicted.
    """
    truth, guess = pair.y
    if not truth.is_category:
        if guess.is_category and not _are_numbers(guess.labels):
            raise DataError(
                f"{named('prediction')} must be a column of numbers, as {truth.name!r} is, got labels in "
                f"{guess.name!r}. Name another column."
            )
        return np.asarray((y[:, 0] - _as_numbers(pair, y)) ** 2)
    if guess.is_category:
        guessed_labels = np.array(guess.labels, dtype=object)[y[:, 1].astype(int)]
        true_labels = np.array(truth.labels, dtype=object)[y[:, 0].astype(int)]
        return np.asarray(guessed_labels != true_labels, dtype=np.float64)
    p = y[:, 1]
    if len(truth.labels) != 2 or p.min() < 0 or p.max() > 1:
        raise DataError(
            f"{named('prediction')} must hold labels of {truth.name!r}, or probabilities of the later of two labels, "
            f"got numbers from {p.min():.4g} to {p.max():.4g} for {len(truth.labels)} labels. Pass the predicted "
            f"labels, or a column of losses as {named('loss')}."
        )
    p = np.clip(p, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.asarray(-np.log(np.where(y[:, 0] == 1, p, 1 - p)))


def _as_numbers(pair: Pair, y: FloatArray) -> FloatArray:
    """Return the values of the last column, which may have been taken for labels because it has two values."""
    column = pair.y[-1]
    if not column.is_category:
        return np.asarray(y[:, -1])
    numbers = np.array([float(label) for label in column.labels])
    return np.asarray(numbers[y[:, -1].astype(int)])


def _are_numbers(labels: Sequence[str]) -> bool:
    try:
        return bool([float(label) for label in labels])
    except ValueError:
        return False
