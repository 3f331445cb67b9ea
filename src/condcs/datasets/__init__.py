"""Data to try things on: simulators whose answer is known."""

from condcs.datasets.simulated import LocalShift, make_local_shift

__all__ = ["LocalShift", "make_local_shift"]
