"""The parts of a `Comparison` of two tables: how far p(x) and p(y|x) shifted, and where the relation changed."""

from condcs.comparison._shifts import Shift

__all__ = ["Shift"]
