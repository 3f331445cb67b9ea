"""Data to try things on: simulators whose answer is known, and real data by name."""

from condcs.datasets.dynamic_textures import DynamicTextures, make_dynamic_textures
from condcs.datasets.frames import Clips, load_frames
from condcs.datasets.loading import Dataset, DatasetError, cache_folder, dataset_names, load
from condcs.datasets.paper import CircularTasks, make_circular_tasks, make_regression_set
from condcs.datasets.simulated import LocalShift, make_local_shift

__all__ = [
    "CircularTasks",
    "Clips",
    "Dataset",
    "DatasetError",
    "DynamicTextures",
    "LocalShift",
    "cache_folder",
    "dataset_names",
    "load",
    "load_frames",
    "make_circular_tasks",
    "make_dynamic_textures",
    "make_local_shift",
    "make_regression_set",
]
