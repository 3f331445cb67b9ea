"""Pairs of subjects whose EEG a classifier is to be carried over: covariances, simulations, BCI IIIb and SEED."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.checks import check_choice
from condcs_reproduction.data import SHIFTS, load, load_bci3b, load_seed, make_two_subject_eeg
from condcs_reproduction.spec import Parameters


def data_folder(name: str) -> Path | None:
    """Return the folder of a set that the user has, inside ``CONDCS_DATA``, or None."""
    given = os.environ.get("CONDCS_DATA", "").strip()
    folder = Path(given).expanduser() / name if given else None
    if folder is None or not folder.is_dir():
        return None
    needed = ("S4b.gdf", "X11b.gdf") if name == "bci3b" else ("label.mat",)
    exports = ("S4b_train.npz", "X11b_train.npz") if name == "bci3b" else needed
    complete = any(all((folder / file).is_file() for file in files) for files in (needed, exports))
    return folder if complete else None


def domains(data: str, pair: str, parameters: Parameters, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """Return source inputs and labels, target inputs and labels."""
    if data == "simulated":
        made = make_two_subject_eeg(check_choice("shift", pair, tuple(SHIFTS)), parameters["trials"], rng=rng)
        return made.x_source, made.y_source, made.x_target, made.y_target
    first, second = (part.strip() for part in pair.split(" to ")) if " to " in pair else ("", "")
    if data == "covariances":
        x, y = _covariance_features()
        s, t = int(first) - 1, int(second) - 1
        return x[s], y[s], x[t], y[t]
    folder = data_folder(data)
    if data == "bci3b":
        one, other = (load_bci3b(folder or "", subject) for subject in (first, second))
        return _standardised(one.x), one.y, _standardised(other.x), other.y
    subjects = rng.choice(15, size=2, replace=False) + 1
    films = [load_seed(folder or "", int(s), max_windows=parameters["seed_windows"]) for s in subjects]
    return _standardised(films[0].x), films[0].y, _standardised(films[1].x), films[1].y


@lru_cache(maxsize=1)
def _covariance_features() -> tuple[list[Any], Any]:
    found = load("eeg")
    return [log_euclidean(covariances) for covariances in found.X], found.y


def log_euclidean(covariances: Any) -> Any:
    """Return matrix logarithms of covariances after whitening by their mean, as vectors of the upper triangle.

    Whitening needs no labels; off-diagonal entries count twice, so that distances are those of the matrices.
    """
    values, vectors = np.linalg.eigh(covariances.mean(axis=0))
    whitener = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(whitener @ covariances @ whitener)
    logs = (vectors * np.log(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    i, j = np.triu_indices(covariances.shape[-1])
    return (logs[:, i, j] * np.where(i == j, 1.0, np.sqrt(2.0))).astype(np.float32)


def _standardised(x: Any) -> Any:
    """Scale a subject's signals to mean 0 and deviation 1 in every channel."""
    return ((x - x.mean(axis=(0, 2), keepdims=True)) / x.std(axis=(0, 2), keepdims=True)).astype(np.float32)
