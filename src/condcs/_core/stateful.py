"""One way to save what learns or watches row by row: plain arrays, a checksum, no pickle."""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

from condcs._core.errors import DataError, ParameterError
from condcs._core.files import atomic_write, sealed, unsealed, writing

State = dict[str, np.ndarray[Any, Any]]
"""Everything an object consists of, as plain arrays: for `numpy.savez`, and for `numpy.load` without pickle."""


class Stateful(ABC):
    """An object that can be saved and goes on, after it is loaded, as if it had never stopped."""

    @abstractmethod
    def state_dict(self) -> State:
        """Return the whole state as plain arrays."""

    @classmethod
    @abstractmethod
    def from_state_dict(cls, state: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Return the object that `state` describes."""

    def save(self, path: str | Path) -> None:
        """Write the state to a file (npz with a checksum); a process killed meanwhile leaves the previous file."""
        content = io.BytesIO()
        arrays: dict[str, Any] = self.state_dict()
        np.savez(content, **arrays)
        with writing(f"`path` {path}"), atomic_write(Path(path)) as file:
            file.write(sealed(content.getvalue()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the object that `save` wrote to a file."""
        if not isinstance(path, str | os.PathLike):
            raise ParameterError(
                f"`path` must be the name of a file that `save` wrote, got {type(path).__name__}. Pass a state to "
                f"{cls.__name__}.from_state_dict."
            )
        try:
            with np.load(io.BytesIO(unsealed(Path(path).read_bytes())), allow_pickle=False) as stored:
                state = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise DataError(
                f"`path` must be a whole file that {cls.__name__}.save wrote, got {path} ({error}). Save it again."
            ) from error
        return cls.from_state_dict(state)
