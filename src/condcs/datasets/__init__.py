"""Data to try things on: simulators whose answer is known."""

from condcs.datasets.paper import CircularTasks, make_circular_tasks, make_regression_set
from condcs.datasets.simulated import LocalShift, make_local_shift

__all__ = ["CircularTasks", "LocalShift", "make_circular_tasks", "make_local_shift", "make_regression_set"]
