"""Data to try things on: simulators whose answer is known, and real data by name."""

from condcs.datasets.coupled_maps import DrivenSeries, make_henon_chain, make_nlvar3
from condcs.datasets.dynamic_textures import DynamicTextures, make_dynamic_textures
from condcs.datasets.eeg import EEGTrials, load_bci3b, load_seed
from condcs.datasets.environments import Environments, make_environments
from condcs.datasets.frames import Clips, load_frames
from condcs.datasets.loading import Dataset, DatasetError, cache_folder, dataset_names, load
from condcs.datasets.paper import CircularTasks, make_circular_tasks, make_regression_set
from condcs.datasets.simulated import LocalShift, make_local_shift
from condcs.datasets.simulated_eeg import SHIFTS, Recordings, Shift, Subject, make_two_subject_eeg

__all__ = [
    "SHIFTS",
    "CircularTasks",
    "Clips",
    "Dataset",
    "DatasetError",
    "DrivenSeries",
    "DynamicTextures",
    "EEGTrials",
    "Environments",
    "LocalShift",
    "Recordings",
    "Shift",
    "Subject",
    "cache_folder",
    "dataset_names",
    "load",
    "load_bci3b",
    "load_frames",
    "load_seed",
    "make_circular_tasks",
    "make_dynamic_textures",
    "make_environments",
    "make_henon_chain",
    "make_local_shift",
    "make_nlvar3",
    "make_regression_set",
    "make_two_subject_eeg",
]
