"""The paper's data: its simulators, and its real data by name."""

from condcs_reproduction.data.dynamic_textures import DynamicTextures, make_dynamic_textures
from condcs_reproduction.data.eeg import EEGTrials, load_bci3b, load_seed
from condcs_reproduction.data.environments import Environments, make_environments
from condcs_reproduction.data.frames import Clips, load_frames
from condcs_reproduction.data.loading import Dataset, DatasetError, cache_folder, dataset_names, load
from condcs_reproduction.data.regression_tasks import CircularTasks, make_circular_tasks, make_regression_set
from condcs_reproduction.data.simulated_eeg import SHIFTS, Recordings, Shift, Subject, make_two_subject_eeg

__all__ = [
    "SHIFTS",
    "CircularTasks",
    "Clips",
    "Dataset",
    "DatasetError",
    "DynamicTextures",
    "EEGTrials",
    "Environments",
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
    "make_regression_set",
    "make_two_subject_eeg",
]
