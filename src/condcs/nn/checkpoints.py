"""Checkpoints of a training run: plain tensors and numbers, whole or absent, checked and never unpickled freely."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from condcs.core.errors import DataError, ParameterError
from condcs.core.files import atomic_write, sealed, unsealed, writing


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint; a run killed in the middle leaves the last whole one."""
    written = io.BytesIO()
    torch.save(content, written)
    with writing(f"`checkpoint` {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(sealed(written.getvalue()))


def load_checkpoint(path: Path, run: str) -> dict[str, Any] | None:
    """Read a checkpoint of the same run, or None if there is none.

    Parameters
    ----------
    path : Path
        The file.
    run : str
        What the run is determined by, as `run_name` gives it.
    """
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = torch.load(io.BytesIO(unsealed(path.read_bytes())), weights_only=True)
    except (pickle.UnpicklingError, DataError, RuntimeError, EOFError, OSError) as error:
        raise ParameterError(
            f"`checkpoint` must be a file that fit wrote, and whole, {path} is not ({error}). Delete it."
        ) from error
    if content.get("run") != run:
        raise ParameterError(
            f"`checkpoint` must belong to the same settings and data, {path} does not. Use another file, or pass "
            "resume=False to overwrite it."
        )
    return content


def run_name(settings: dict[str, Any], *arrays: Any) -> str:
    """Content hash of what determines a run: settings, and all data."""
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    for array in arrays:
        digest.update(repr((array.shape, str(array.dtype))).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
