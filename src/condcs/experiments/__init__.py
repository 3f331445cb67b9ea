"""The paper's tables and figures, one file each: run them with ``condcs reproduce``."""

from condcs.experiments.registry import experiment_named, experiment_names
from condcs.experiments.report import Report
from condcs.experiments.runner import run
from condcs.experiments.spec import Experiment, Task
from condcs.experiments.store import StoreError, TrialStore

__all__ = [
    "Experiment",
    "Report",
    "StoreError",
    "Task",
    "TrialStore",
    "experiment_named",
    "experiment_names",
    "run",
]
