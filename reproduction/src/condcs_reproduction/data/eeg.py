"""The EEG sets of the paper's domain adaptation, from the user's own files: BCI Competition III set IIIb, and SEED.

Neither may be passed on freely. The loaders say where to get the files, what they expect in them, and read no pickles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.arrays import AnyArray, ByValue, LabelArray, RealArray
from condcs._core.checks import check_choice, check_integer, check_positive
from condcs._core.errors import CondcsWarning, DataError, ParameterError, public, warn_caller
from condcs.datasets._npz_files import read_arrays
from condcs_reproduction.data.loading import DatasetError

BCI3B_SUBJECTS = ("S4b", "X11b")
"""Subjects used by the paper; the third one's recording repeats 160 trials by mistake."""

BCI3B_RATE = 125.0
SEED_RATE = 200.0
SEED_TRIALS = 15
SEED_CHANNELS = 62
SEED_SUBJECTS = 15

WHERE_BCI3B = (
    "Get data set IIIb of BCI Competition III (free after registration) at https://www.bbci.de/competition/iii/ and "
    "put S4b.gdf and X11b.gdf there, or the exports S4b_train.npz, S4b_test.npz, X11b_train.npz, X11b_test.npz"
)
WHERE_SEED = (
    "Ask its authors for SEED (https://bcmi.sjtu.edu.cn/home/seed/, a signed agreement is needed) and pass the folder "
    "Preprocessed_EEG, with label.mat and files such as 1_20131027.mat"
)

_EXPORT_SHA256 = {"S4b_train.npz": "b9db42999203ede95f4eb37e6cd67d159512a341beb973e954ef35077f5a70d3"}
"""Checksums of exports that are known."""

_TRIAL_START, _CUES, _UNKNOWN = "768", {"769": 0, "770": 1}, "783"


@dataclass(frozen=True, eq=False)
class EEGTrials(ByValue):
    """Trials of one subject.

    Attributes
    ----------
    x : array, shape (trials, channels, times)
        Signals, float32, in microvolts where the file has units.
    y : array of int, shape (trials,)
        Classes from 0: left and right hand; negative, neutral and positive.
    sampling_rate : float
        Samples a second.
    files : tuple of str
        Files read.
    """

    x: RealArray
    y: LabelArray
    sampling_rate: float
    files: tuple[str, ...]


@public
def load_bci3b(
    folder: str | Path, subject: str, *, labels: Iterable[int] | None = None, seconds: float = 7.0
) -> EEGTrials:
    """Load a subject of BCI Competition III, set IIIb: cued imagery of the left and the right hand, 2 channels, 125 Hz.

    Reads ``<subject>.gdf`` through mne if it is there (cues 769 and 770; trials of the test part have cue 783 and need
    `labels`), else the exports ``<subject>_train.npz`` and ``<subject>_test.npz`` with `signal` (trials, times,
    channels) and `label` (1 or 2). Missing samples are replaced by the mean of their channel in the trial.

    Parameters
    ----------
    folder : path
        Where the files are.
    subject : {"S4b", "X11b"}
        Which subject.
    labels : sequence of int, optional
        True labels (1 or 2) of the trials with an unknown cue, in their order. Without them those trials are left out.
    seconds : float
        Length of a trial from its start; GDF files only.

    Returns
    -------
    EEGTrials
        Signals and classes.

    Raises
    ------
    DatasetError
        If no file is there, saying where to get it, or one is not as expected.
    """
    check_choice("subject", subject, BCI3B_SUBJECTS)
    path = Path(folder)
    recording = path / f"{subject}.gdf"
    if recording.is_file():
        return _from_gdf(recording, labels, check_positive("seconds", seconds))
    exports = [path / f"{subject}_{part}.npz" for part in ("train", "test")]
    found = [e for e in exports if e.is_file()]
    if not found:
        raise DatasetError(f"`folder` has neither {recording.name} nor {exports[0].name}: {path}. {WHERE_BCI3B}.")
    parts = [_from_export(e) for e in found]
    if len({x.shape[1:] for x, _ in parts}) > 1:
        raise DatasetError(
            f"{found[0].name} and {found[1].name} must hold trials of one shape, got {parts[0][0].shape[1:]} and "
            f"{parts[1][0].shape[1:]}. Export them again with the same window."
        )
    x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return EEGTrials(x, y, BCI3B_RATE, tuple(str(e) for e in found))


def _from_gdf(path: Path, labels: Iterable[int] | None, seconds: float) -> EEGTrials:
    try:
        mne = import_module("mne")
    except ImportError as error:
        raise ImportError("GDF files are read through mne: pip install 'condcs-reproduction[eeg]'") from error
    raw = mne.io.read_raw_gdf(path, verbose="error")
    rate = float(raw.info["sfreq"])
    marks = [(round(float(a["onset"]) * rate), str(a["description"])) for a in raw.annotations]
    starts = [at for at, kind in marks if kind == _TRIAL_START]
    cues = [(at, kind) for at, kind in marks if kind in _CUES or kind == _UNKNOWN]
    if not cues or len(starts) != len(cues):
        raise DatasetError(
            f"{path} must mark as many trial starts (768) as cues (769, 770 or 783), got {len(starts)} and "
            f"{len(cues)}. Is it a file of set IIIb?"
        )
    y = np.array([_CUES.get(kind, -1) for _, kind in cues])
    if labels is not None:
        given = np.asarray(list(labels))
        if given.shape != (int((y < 0).sum()),) or not np.isin(given, (1, 2)).all():
            raise ParameterError(
                f"`labels` must be 1 or 2 for each trial with an unknown cue ({int((y < 0).sum())}), got "
                f"{given.shape} labels with values {sorted(set(given.tolist()))}."
            )
        y[y < 0] = given - 1
    signal = 1e6 * raw.get_data()
    length = round(seconds * rate)
    kept = [i for i, at in enumerate(starts) if y[i] >= 0 and at + length <= signal.shape[1]]
    if not kept:
        raise DatasetError(f"{path} has no labelled trial of {seconds} seconds. Pass `labels`, or fewer `seconds`.")
    x = np.stack([signal[:, starts[i] : starts[i] + length] for i in kept])
    return EEGTrials(_filled(x), y[kept], rate, (str(path),))


def _from_export(path: Path) -> tuple[RealArray, LabelArray]:
    known = _EXPORT_SHA256.get(path.name)
    if known is not None and hashlib.sha256(path.read_bytes()).hexdigest() != known:
        warn_caller(
            f"{path.name} is not the export whose checksum is known ({known[:12]}...): another export, or a damaged "
            "file.",
            CondcsWarning,
        )
    try:
        arrays = read_arrays(path, ("signal", "label"))
        signal, label = arrays["signal"], arrays["label"]
    except (DataError, KeyError) as error:
        raise DatasetError(
            f"{path} must be a .npz file with `signal` and `label`, but: {error}. {WHERE_BCI3B}."
        ) from error
    label = np.ravel(label)
    if signal.dtype.kind not in "fiu" or signal.ndim != 3 or signal.shape[2] != 2 or label.shape != signal.shape[:1]:
        raise DatasetError(
            f"{path} must hold `signal` (trials, times, 2 channels) and one `label` per trial, got {signal.shape} and "
            f"{label.shape}."
        )
    if not np.isin(label, (1, 2)).all():
        raise DatasetError(f"{path} must hold labels 1 (left) and 2 (right), got {sorted(set(label.tolist()))}.")
    return _filled(signal.transpose(0, 2, 1)), label.astype(int) - 1


@public
def load_seed(
    folder: str | Path,
    subject: int,
    *,
    session: int = 1,
    window: float = 4.0,
    step: float | None = None,
    max_windows: int | None = None,
) -> EEGTrials:
    """Load a session of a subject of SEED: fifteen films, three emotions, 62 channels at 200 Hz, cut into windows.

    Reads the subject's files ``<subject>_<date>.mat`` of Preprocessed_EEG, in the order of their dates, and
    ``label.mat``; each file holds one array per film, ``<name>_eeg1`` to ``<name>_eeg15``.

    Parameters
    ----------
    folder : path
        The folder Preprocessed_EEG.
    subject : int
        From 1 to 15.
    session : int
        From 1 to 3.
    window : float
        Seconds of a window.
    step : float, optional
        Seconds from one window to the next; by default windows do not overlap.
    max_windows : int, optional
        At most that many windows of each film, evenly spread.

    Returns
    -------
    EEGTrials
        Windows with the class of their film: 0 negative, 1 neutral, 2 positive.

    Raises
    ------
    DatasetError
        If a file is missing, saying where to get it, or not as expected.
    """
    check_integer("subject", subject, 1, SEED_SUBJECTS)
    check_integer("session", session, 1, 3)
    length = round(check_positive("window", window) * SEED_RATE)
    stride = length if step is None else max(1, round(check_positive("step", step) * SEED_RATE))
    path = Path(folder)
    sessions = sorted(path.glob(f"{subject}_*.mat"), key=lambda p: p.stem.partition("_")[2])
    if len(sessions) < session or not (path / "label.mat").is_file():
        raise DatasetError(
            f"`folder` must have label.mat and {session} or more files {subject}_*.mat, got {len(sessions)} in {path}. "
            f"{WHERE_SEED}."
        )
    labels = np.ravel(_mat(path / "label.mat").get("label", []))
    if labels.shape != (SEED_TRIALS,) or not np.isin(labels, (-1, 0, 1)).all():
        raise DatasetError(f"{path / 'label.mat'} must hold `label`, {SEED_TRIALS} numbers of -1, 0 and 1.")
    content = _mat(sessions[session - 1])
    films = {name.rpartition("_eeg")[2]: a for name, a in content.items() if "_eeg" in name}
    x, y = [], []
    for k, label in enumerate(labels, start=1):
        film = films.get(str(k))
        if film is None or film.ndim != 2 or film.shape[0] != SEED_CHANNELS:
            raise DatasetError(
                f"{sessions[session - 1]} must hold arrays *_eeg1 to *_eeg{SEED_TRIALS} of {SEED_CHANNELS} channels; "
                f"film {k} is {'absent' if film is None else f'of shape {film.shape}'}."
            )
        starts = np.arange(0, film.shape[1] - length + 1, stride)
        if max_windows is not None and len(starts) > max_windows:
            starts = starts[np.linspace(0, len(starts) - 1, max_windows).round().astype(int)]
        if not len(starts):
            raise DataError(f"`window` must fit into film {k} ({film.shape[1] / SEED_RATE:g} s), got {window} s.")
        x.append(np.stack([film[:, s : s + length] for s in starts]))
        y.append(np.full(len(starts), int(label) + 1))
    return EEGTrials(
        _filled(np.concatenate(x)), np.concatenate(y), SEED_RATE, (str(sessions[session - 1]), str(path / "label.mat"))
    )


def _mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content: dict[str, Any] = loadmat(path)
    except (MatReadError, ValueError, OSError, NotImplementedError) as error:
        raise DatasetError(f"{path} must be a MATLAB file of version 5 to 7.2, but: {error}. {WHERE_SEED}.") from error
    return content


def _filled(x: AnyArray) -> RealArray:
    """Replace missing samples by the mean of their channel in the trial, 0 where nothing is left of it."""
    x = np.array(x, dtype=np.float32)
    missing = ~np.isfinite(x)
    if missing.any():
        present = np.where(missing, 0.0, x)
        counts = np.maximum((~missing).sum(axis=2, keepdims=True), 1)
        x = np.where(missing, present.sum(axis=2, keepdims=True) / counts, x).astype(np.float32)
    return x
