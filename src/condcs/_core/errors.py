"""Errors and warnings: each names the argument, the rule, what came, and the remedy."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar

from condcs._core.keywords import check_keywords

P = ParamSpec("P")
R = TypeVar("R")


class CondcsError(ValueError):
    """Base of all errors that condcs raises on bad input; a `ValueError`.

    Attributes
    ----------
    message : str
        What is wrong and what to do about it.
    caller : str or None
        The public function that the error left through; it stands before the message.
    """

    caller: str | None = None

    @property
    def message(self) -> str:
        """What is wrong and what to do about it."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return f"{self.caller}: {self.message}" if self.caller else self.message


class ShapeError(CondcsError):
    """An array has the wrong shape, or two arrays do not fit together."""


class DataError(CondcsError):
    """An array holds values that cannot be used: NaN, infinity, or labels where numbers are expected."""


class BandwidthError(CondcsError):
    """A bandwidth is not positive, has the wrong length, or cannot be estimated."""


class ParameterError(CondcsError):
    """An option has a value outside its rule."""


class OverlapError(CondcsError):
    """The two samples have no common support, so that the conditionals cannot be compared."""


class MissingPartnerError(CondcsError, ImportError):
    """An optional package is required and not installed."""


class CondcsWarning(UserWarning):
    """Base of all warnings of condcs."""


class BandwidthWarning(CondcsWarning):
    """A bandwidth rule could not be applied, and another value was used."""


OverlapKind = Literal["labels", "support", "points"]
"""What does not overlap: labels of x, x as a whole, or the points at which a witness is wanted."""


class OverlapWarning(CondcsWarning):
    """Some rows have no counterpart in the other sample and were left out of the cross terms.

    Attributes
    ----------
    kind : {"labels", "support", "points"}
        What does not overlap: the labels of rows, x as a whole, or the points at which a witness is wanted.
    rows, of_rows : int
        How many of how many rows (or points) have no counterpart; for "support", to how many rows with full overlap
        these rows are equivalent.
    columns : tuple of int
        The columns of x that hold the labels, if they are known.
    """

    def __init__(
        self,
        message: str,
        kind: OverlapKind = "labels",
        *,
        rows: int = 0,
        of_rows: int = 0,
        columns: Sequence[int] = (),
    ) -> None:
        super().__init__(message)
        self.kind, self.rows, self.of_rows, self.columns = kind, rows, of_rows, tuple(columns)


class BalanceWarning(CondcsWarning):
    """The estimate of P(sample | x) does not explain how x differs between the samples, so a p-value may be off."""


class CostWarning(CondcsWarning):
    """A call is expected to take a long time."""


class PrecisionWarning(CondcsWarning):
    """A value has a larger standard error than its target."""


def warn_caller(message: str | CondcsWarning, category: type[CondcsWarning] = CondcsWarning) -> None:
    """Warn at the line outside condcs that made the call, in words or with a warning that has fields of its own."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("condcs."):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth + 1)


def _autocast_device(arguments: tuple[Any, ...]) -> str | None:
    """Kind of device of the first tensor among the arguments, or in lists of them, if autocast is on there."""
    if (torch := sys.modules.get("torch")) is None:
        return None
    for value in arguments:
        first = value[0] if isinstance(value, list | tuple) and value else value
        first = first[0] if isinstance(first, list | tuple) and first else first
        if isinstance(first, torch.Tensor):
            kind: str = first.device.type
            return kind if torch.is_autocast_enabled(kind) else None
    return None


def _caller(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return the name that users call: of a function, or of the class that a constructor makes."""
    return type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function public: errors name the function they leave through, and torch's autocast is off inside.

    Checks deep inside know the argument but not the caller; the context is added once, at the boundary. A keyword that
    the function does not have becomes a `TypeError` that names the one that was meant. A constructor goes by the name
    of the class that is made. Kernels live on differences of squared norms, of which half precision leaves nothing.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if (kind := _autocast_device((*args, *kwargs.values()))) is not None:
                with sys.modules["torch"].autocast(kind, enabled=False):
                    return function(*args, **kwargs)
            return function(*args, **kwargs)
        except TypeError:
            check_keywords(function, _caller(function, args), kwargs)
            raise
        except CondcsError as error:
            check_keywords(function, _caller(function, args), kwargs)
            if error.caller is None:
                error.caller = _caller(function, args)
            raise
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "matplotlib":
                raise
            raise MissingPartnerError(
                f"{function.__name__}: matplotlib must be installed for pictures and pages. Install it with: "
                "pip install 'condcs[cli]'"
            ) from error

    return wrapper
