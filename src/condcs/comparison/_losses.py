"""The loss of each row: a column of it, or a column of predictions, or a model that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condcs._core.errors import DataError, ParameterError
from condcs._tables.pair import Pair
from condcs.comparison._shifts import Losses

FloatArray = np.ndarray[Any, Any]

PREDICTED = "(prediction)"
"""Name of the column with what a model predicts."""
_LEAST_PROBABILITY = 1e-6


@dataclass(frozen=True)
class LossColumn:
    """Where the loss of a row comes from.

    Attributes
    ----------
    option : str
        The option that named it: "prediction" or "loss".
    column : str or int
        The column.
    """

    option: str
    column: str | int


def with_predictions(tables: tuple[Any, Any], model: Any, y: Any, x: Any) -> tuple[Any, Any]:
    """Add a column of what a fitted model predicts to two tables in memory."""
    return _predicted("reference", tables[0], model, y, x), _predicted("current", tables[1], model, y, x)


def _predicted(name: str, table: Any, model: Any, y: Any, x: Any) -> Any:
    if not hasattr(table, "columns") or not hasattr(table, "assign"):
        raise ParameterError(
            f"`prediction` must be a column unless the tables are pandas DataFrames, got a model and a "
            f"{type(table).__name__} as `{name}`. Read the table with pandas, or predict first and pass the column."
        )
    features = getattr(model, "feature_names_in_", None)
    if features is None:
        wanted = [x] if isinstance(x, str) else x
        features = [c for c in table.columns if c not in _names(y)] if wanted is None else _names(wanted)
    lacking = [c for c in features if c not in table.columns]
    if lacking:
        raise DataError(
            f"`{name}` must have the columns that the model was fitted to, but lacks "
            f"{', '.join(map(repr, lacking[:5]))}. Pass the tables with all of them."
        )
    return table.assign(**{PREDICTED: np.asarray(model.predict(table[list(features)]))})


def _names(columns: Any) -> list[Any]:
    given: Sequence[Any] = [columns] if isinstance(columns, str | int) else list(columns)
    return [part for each in given for part in (each.split(",") if isinstance(each, str) else [each])]


def split_off(pair: Pair, source: LossColumn) -> tuple[Pair, Losses]:
    """Take the column of the loss, which was read as a response, out of a pair, and return the losses of the rows."""
    places = [i for i, column in enumerate(pair.y) if column.name == source.column]
    others = [i for i in range(len(pair.y)) if i not in places]
    (place,) = places
    if not others:
        raise ParameterError(
            f"`{source.option}` must be another column than `y`, got {source.column!r} for both. Name the column "
            f"of the {source.option}."
        )
    plain = replace(pair, y=tuple(pair.y[i] for i in others), yp=pair.yp[:, others], yq=pair.yq[:, others])
    if source.option == "loss":
        if pair.y[place].is_category and not _are_numbers(pair.y[place].labels):
            raise DataError(f"`loss` must be a column of numbers, got labels in {source.column!r}. Name another one.")
        values = [_as_numbers(pair, place, y) for y in (pair.yp, pair.yq)]
        return plain, (values[0], values[1])
    if len(others) > 1:
        raise ParameterError(
            f"`prediction` must be of one response, got {len(others)} columns as `y`. Compare them one by one, or "
            "pass a column of losses as `loss`."
        )
    with np.errstate(over="ignore"):
        losses = _loss(pair, others[0], place, pair.yp), _loss(pair, others[0], place, pair.yq)
    if not all(np.isfinite(loss).all() for loss in losses):
        raise DataError("the losses must be finite, but squares of the errors overflow. Rescale y and `prediction`.")
    return plain, losses


def _loss(pair: Pair, response: int, prediction: int, y: FloatArray) -> FloatArray:
    """Squared error of numbers, errors of labels, and the log loss of probabilities of the later of two labels."""
    truth, guess = pair.y[response], pair.y[prediction]
    if not truth.is_category:
        if guess.is_category and not _are_numbers(guess.labels):
            raise DataError(
                f"`prediction` must be a column of numbers, as {truth.name!r} is, got labels in {guess.name!r}. "
                "Name another column."
            )
        return np.asarray((y[:, response] - _as_numbers(pair, prediction, y)) ** 2)
    if guess.is_category:
        said = np.array(guess.labels, dtype=object)[y[:, prediction].astype(int)]
        true = np.array(truth.labels, dtype=object)[y[:, response].astype(int)]
        return np.asarray(said != true, dtype=np.float64)
    p = y[:, prediction]
    if len(truth.labels) != 2 or p.min() < 0 or p.max() > 1:
        raise DataError(
            f"`prediction` must hold labels of {truth.name!r}, or probabilities of the later of two labels, got "
            f"numbers from {p.min():.4g} to {p.max():.4g} for {len(truth.labels)} labels. Pass the predicted labels, "
            "or a column of losses as `loss`."
        )
    p = np.clip(p, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.asarray(-np.log(np.where(y[:, response] == 1, p, 1 - p)))


def _as_numbers(pair: Pair, place: int, y: FloatArray) -> FloatArray:
    """Return the values of a column that may have been taken for labels because it has two values."""
    column = pair.y[place]
    if not column.is_category:
        return np.asarray(y[:, place])
    return np.asarray(np.array([float(label) for label in column.labels])[y[:, place].astype(int)])


def _are_numbers(labels: Sequence[str]) -> bool:
    try:
        return bool([float(label) for label in labels])
    except ValueError:
        return False
