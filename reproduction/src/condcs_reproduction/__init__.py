"""The paper's tables and figures, one file each: run them with ``condcs reproduce``."""

from condcs_reproduction.known_experiments import experiment_named, experiment_names
from condcs_reproduction.report import Report
from condcs_reproduction.runner import run
from condcs_reproduction.spec import Experiment, Task
from condcs_reproduction.store import StoreError, TrialStore

__version__ = "0.1.0"

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
