"""Clips of moving scenes in folders: every clip a file of frames, every class a subfolder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.arrays import AnyArray, FloatArray, LabelArray
from condcs._core.checks import check_choice
from condcs._core.errors import DataError, ShapeError, public

ENDINGS = (".npy", ".mat")


@dataclass(frozen=True, eq=False)
class Clips:
    """Clips as series whose channels are pixels.

    Attributes
    ----------
    X : array or tuple of arrays
        (clips, pixels, frames) or (clips, frames, pixels), as asked for; a tuple if the lengths are kept and differ.
    y : array
        Labels 0, 1, ... in the order of `classes`.
    classes : tuple of str
        Names of the subfolders.
    files : tuple of str
        The file of each clip, below the folder.
    """

    X: Any
    y: LabelArray
    classes: tuple[str, ...]
    files: tuple[str, ...]


@public
def load_frames(folder: str | Path, *, layout: str = "nct", cut: bool = True) -> Clips:
    """Read a folder with a subfolder per class and a file per clip.

    A clip is a ``.npy`` file of shape (frames, height, width), the frames first, or a ``.mat`` file (up to version 7.2)
    with one variable of shape (height, width, frames), the frames last, as such files are kept in MATLAB. Frames that
    are rows already (two axes) are taken as they are, with time on the same side. Values become floats, unscaled.

    Parameters
    ----------
    folder : path
        The folder.
    layout : {"nct", "ntc"}
        Order of the axes that is returned: (clips, pixels, frames) or (clips, frames, pixels).
    cut : bool
        Whether longer clips are cut to the length of the shortest, which gives one array.

    Returns
    -------
    Clips
        Series, labels and names.
    """
    check_choice("layout", layout, ("nct", "ntc"))
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"`folder` must be a folder of clips, got {root}, which is not a folder. Check the path.")
    classes = sorted(p.name for p in root.iterdir() if p.is_dir() and any(_clip_files(p)))
    files = [(label, path) for label, name in enumerate(classes) for path in _clip_files(root / name)]
    if not files:
        raise DataError(
            f"`folder` must hold a subfolder for each class with .npy or .mat files in it, got none in {root}. "
            "Save every clip as an array (frames, height, width) with np.save."
        )
    clips = [_frames(path) for _, path in files]
    for clip, (_, path) in zip(clips, files, strict=True):
        if clip.shape[1] != clips[0].shape[1]:
            raise ShapeError(
                f"`folder` must hold frames of one size, got {clips[0].shape[1]} pixels in {files[0][1].name} and "
                f"{clip.shape[1]} in {path.name}. Crop or resize them first."
            )
    shortest = min(map(len, clips))
    if cut or all(len(clip) == shortest for clip in clips):
        stacked = np.stack([clip[:shortest] for clip in clips])
        X: Any = np.ascontiguousarray(np.moveaxis(stacked, 2, 1)) if layout == "nct" else stacked
    else:
        X = tuple(np.ascontiguousarray(clip.T) if layout == "nct" else clip for clip in clips)
    names = tuple(path.relative_to(root).as_posix() for _, path in files)
    return Clips(X, np.array([label for label, _ in files]), tuple(classes), names)


def _clip_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in ENDINGS and p.is_file())


def _frames(path: Path) -> FloatArray:
    """Return a clip as (frames, pixels)."""
    frames_last = path.suffix.lower() == ".mat"
    try:
        values = _mat_array(path) if frames_last else np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, NotImplementedError) as error:
        raise DataError(
            f"{path} must be a readable clip, but: {error}. Save it as a plain .npy array, or in MATLAB with "
            "save(..., '-v7')."
        ) from error
    if values.ndim not in (2, 3) or values.dtype.kind not in "fiub":
        raise ShapeError(
            f"{path} must hold numbers with two or three axes (frames and pixels), got {values.dtype} of shape "
            f"{values.shape}. Convert colour frames to grey first."
        )
    frames = np.moveaxis(values, -1, 0) if frames_last else values
    table = np.asarray(frames.reshape(len(frames), -1), dtype=float)
    if len(table) < 2 or not np.isfinite(table).all():
        raise DataError(f"{path} must hold at least two frames of finite values. Leave this clip out.")
    return table


def _mat_array(path: Path) -> AnyArray:
    from scipy.io import loadmat

    found = {name: v for name, v in loadmat(path).items() if not name.startswith("__") and np.ndim(v) >= 2}
    wide = {name: v for name, v in found.items() if np.ndim(v) == 3} or found
    if len(wide) != 1:
        raise ValueError(f"it has {len(wide)} variables that could be the clip ({', '.join(sorted(wide)) or 'none'})")
    return np.asarray(next(iter(wide.values())))
