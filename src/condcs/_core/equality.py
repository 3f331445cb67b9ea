"""Equality of results that hold arrays: by value, and hashable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np


class ByValue:
    """Base of frozen dataclasses with array fields, declared with ``eq=False``.

    The comparison that dataclasses make compares tuples of fields, which asks an array for one truth value and raises;
    so does their hash. Here two objects are equal if they are of one class and all their fields are: arrays of the same
    shape and values (NaN equals NaN), dictionaries and sequences of equal parts, everything else by ``==``. Equal
    objects have equal hashes. Those of arrays say their shapes only, so that a hash costs nothing.
    """

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal."""
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(a, b) for a, b in zip(_compared(self), _compared(other), strict=True))

    def __hash__(self) -> int:
        """Hash that equal objects share."""
        return hash((type(self), *(_key(value) for value in _compared(self))))


def _compared(of: Any) -> list[Any]:
    return [getattr(of, field.name) for field in fields(of) if field.compare]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc" and b.dtype.kind in "fc"))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    # The second is what NaN does, and nothing else.
    return bool(a == b) or bool(a != a and b != b)


def _key(value: Any) -> Any:
    """Something hashable that equal values share."""
    if isinstance(value, np.ndarray):
        return value.shape
    if isinstance(value, Mapping):
        return frozenset(value)
    if isinstance(value, list | tuple):
        return tuple(_key(part) for part in value)
    return hash(value) if value == value else "nan"
