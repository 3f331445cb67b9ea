"""Which data sets have a name, where their files lie, and where to get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A data set that can be asked for by name.

    Attributes
    ----------
    title : str
        What it is called in tables.
    kind : {"series", "table", "images", "covariances", "networks", "frames"}
        What `X` holds.
    path : str
        The file (or folder of frames) below the data folder.
    where : str
        Where to get it by hand.
    keys : mapping
        Arrays of the file that become `X` and `y`, where they are called otherwise.
    download : tuple
        Name of a function of `data.downloads` and its arguments; empty if it can only be fetched by hand.
    content : tuple of float
        Two numbers that a download must reproduce: see `data.downloads.content_sums`.
    """

    title: str
    kind: str
    path: str
    where: str
    keys: Mapping[str, str] = field(default_factory=dict)
    download: tuple[Any, ...] = ()
    content: tuple[float, ...] = ()


_UCR = "UCR/UEA archive, https://www.timeseriesclassification.com ({})"
_UCI = "UCI archive, https://archive.ics.uci.edu/dataset/{}"


def _ucr(title: str, name: str, archive: str, split: str, content: tuple[float, ...], *classes: str) -> Entry:
    where = _UCR.format(f"{archive}, {split or 'train and test'}")
    download = ("from_aeon", archive, split, classes)
    return Entry(title, "series", f"timeseries/{name}/{name}.npz", where, download=download, content=content)


def _robot(number: int, content: tuple[float, ...]) -> Entry:
    return Entry(
        f"Robot failure LP{number}",
        "series",
        f"timeseries/robot_lp{number}/robot_lp{number}.npz",
        _UCI.format(f"138/robot+execution+failures (lp{number}.data)"),
        download=("robot_failures", number),
        content=content,
    )


CATALOGUE: dict[str, Entry] = {
    "coffee": _ucr("Coffee", "coffee", "Coffee", "train", (0.1177212, -3.266568)),
    # Its content has not been checked: the archive's second half was not at hand.
    "coffee_all": Entry(
        "Coffee, both halves",
        "series",
        "timeseries/coffee/coffee_all.npz",
        _UCR.format("Coffee, train and test"),
        download=("from_aeon", "Coffee", None, ()),
    ),
    "diatom": _ucr("Diatom", "diatom", "DiatomSizeReduction", "test", (-0.7603832, -50.40827)),
    "distalphalanxtw": _ucr("DistalPhalanxTW", "distalphalanxtw", "DistalPhalanxTW", "train", (0.9270416, -96.31759)),
    "ecg5000": _ucr("ECG5000", "ecg5000", "ECG5000", "train", (-1.801936, 17.42181), "1", "2"),
    "faceall": _ucr("FaceAll", "faceall", "FaceAll", "train", (-0.05105554, 98.89135)),
    "synthetic_control": Entry(
        "Synthetic control",
        "series",
        "timeseries/synthetic_control/synthetic_control.npz",
        _UCI.format("139/synthetic+control+chart+time+series"),
        download=("synthetic_control",),
        content=(0.989755, 29.84081),
    ),
    "synthetic_control_ucr": Entry(
        "Synthetic control, z-normalised",
        "series",
        "timeseries/synthetic_control/synthetic_control_ucr.npz",
        _UCR.format("SyntheticControl, train and test"),
        download=("from_aeon", "SyntheticControl", None, ()),
        content=(-0.1090907, -39.24018),
    ),
    "pendigits": Entry(
        "PenDigits",
        "series",
        "timeseries/pendigits/pendigits.npz",
        _UCI.format("81/pen+based+recognition+of+handwritten+digits (pendigits.tes)"),
        download=("pen_digits",),
        content=(0.226832, -253.2663),
    ),
    "libras": _ucr("Libras", "libras", "Libras", "train", (1.87907, -156.7655)),
    "uwave": Entry(
        "uWave",
        "series",
        "timeseries/uwave/uwave.npz",
        _UCR.format("UWaveGestureLibraryX, Y and Z, train: the first 25 series of each class"),
        download=("uwave",),
        content=(-1.287092, -94.67867),
    ),
    "robot_lp1": _robot(1, (0.6877255, -3.410102)),
    "robot_lp2": _robot(2, (0.6383161, -10.46994)),
    "robot_lp3": _robot(3, (0.6383161, -8.109001)),
    "robot_lp4": _robot(4, (-0.7782526, -19.70165)),
    "robot_lp5": _robot(5, (-0.1102813, -47.41071)),
    "traffic": Entry(
        "Traffic",
        "frames",
        "timeseries/traffic",
        "its authors, http://www.svcl.ucsd.edu/projects/dytex (not redistributable)",
    ),
    "ucla": Entry(
        "UCLA",
        "frames",
        "timeseries/ucla",
        "its authors; the paper's appendix links to the 200 clips of 48 x 48 pixels, of which it leaves out the "
        "category plants (not redistributable)",
    ),
    "gunpoint": _ucr("GunPoint", "gunpoint", "GunPoint", "train", ()),
    "italy_power": _ucr("ItalyPowerDemand", "italy_power", "ItalyPowerDemand", "train", ()),
    "basic_motions": _ucr("BasicMotions", "basic_motions", "BasicMotions", "train", ()),
    "temperature": Entry(
        "US temperature",
        "series",
        "temperature/temperature.npz",
        "hourly values of 109 places in libGF/datasets/temperatureTimeSeriesData.mat of "
        "https://github.com/bioannidis/kernelsOnGraphs",
    ),
    "california_housing": Entry(
        "California housing",
        "table",
        "california_housing/california_housing.npz",
        "scikit-learn's fetch_california_housing",
        download=("california_housing",),
        content=(0.4994212, -208.0319),
    ),
    "electricity": Entry(
        "Electricity",
        "table",
        "electricity/electricity.npz",
        "OpenML data set 151, https://www.openml.org/d/151",
        download=("electricity",),
        content=(0.1834562, 68.46696),
    ),
    "compas": Entry(
        "COMPAS",
        "table",
        "compas/compas.npz",
        "compas-scores-two-years.csv of https://github.com/propublica/compas-analysis, with ProPublica's own filter",
    ),
    "mnist10k": Entry(
        "MNIST, test images",
        "images",
        "mnist10k/mnist10k.npz",
        "OpenML data set 554, https://www.openml.org/d/554: its last 10,000 rows",
        keys={"X": "images", "y": "labels"},
        download=("mnist_test",),
        content=(-0.03107388, -335.9384),
    ),
    "eeg": Entry(
        "EEG motor imagery",
        "covariances",
        "eeg_mi_gigadb/eeg_mi_gigadb.npz",
        "datasets/MOTOR-IMAGERY of https://github.com/plcrodrigues/RPA (from GigaDB 100295)",
        keys={"X": "covs"},
    ),
    "netsim": Entry(
        "NetSim",
        "networks",
        "netsim/netsim.npz",
        "data/fMRI of https://github.com/M-Nauta/TCDF (from https://www.fmrib.ox.ac.uk/datasets/netsim)",
    ),
}
"""All data sets by name."""
