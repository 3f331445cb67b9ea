"""The comparison of two tables: did the inputs shift, did the relation of y to them change, where, and how sure."""

from condcs.comparison.comparing import compare
from condcs.comparison.regions import ChangedRegion
from condcs.comparison.result import Comparison
from condcs.comparison.shifts import Shift

__all__ = ["ChangedRegion", "Comparison", "Shift", "compare"]
