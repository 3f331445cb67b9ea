"""Files that are whole or absent: atomic writing, checksums, space and locks, for all that condcs keeps on disk.

A process can be killed, a disk can fill up and a byte can change at any moment. So a file is replaced only by a
complete one (`atomic_write`), what is read back is checked (`sealed`, `sealed_line`), space is taken before it is used
(`reserve`), and a file has one writer at a time (`lock`, `locked`).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import json
import os
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Self
from zipfile import BadZipFile

import numpy as np

from condcs._core.arrays import AnyArray
from condcs._core.errors import CondcsError, DataError, ParameterError
from condcs._core.printable import Printable
from condcs._core.vocabulary import named

# Both seals are part of the format of files: readers of another version take those with other seals for damaged.
_SEAL = b"\ncondcs crc32 %08x\n"
_SEAL_LENGTH = len(_SEAL % 0)
_LINE_SEAL = b', "crc32": "%08x"}'
_LINE_SEAL_LENGTH = len(_LINE_SEAL % 0)
# Bytes that are written at once where space cannot be reserved: a megabyte of zeros is held in memory meanwhile.
_ZEROS = 1 << 20
# Far behind the end of any file: on Windows nobody else can read the bytes that are locked.
_LOCKED_BYTE = (1 << 31) - 2


class WriteError(CondcsError):
    """A file or folder could not be written: no space, no permission, or no such place."""


class InUseError(CondcsError):
    """Another process is writing the same file or folder."""


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Turn errors of the operating system within a ``with`` block into one that says what could not be written."""
    try:
        yield
    except OSError as error:
        absent = isinstance(error, FileNotFoundError)
        remedy = "Create its folder first" if absent else "Free some space, or name another place that you may write to"
        raise WriteError(f"{what} could not be written: {error.strerror or error}. {remedy}.") from error


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a new file beside `path` that takes its place when the ``with`` block ends without an error.

    Whoever reads `path`, at any moment and after any crash, finds the old content or the new one. A link stays a link.
    """
    path = Path(os.path.realpath(path))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    finally:
        # Absent after the replacement; `part` may also lie behind something that is no folder.
        with contextlib.suppress(OSError):
            part.unlink()


def remove_parts(path: Path) -> None:
    """Remove what killed processes have left of an `atomic_write`; only for who holds a lock on `path`."""
    path = Path(os.path.realpath(path))
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def sealed(content: bytes) -> bytes:
    """Return the content with its checksum at the end, where zip files (npz, torch's) do not mind it."""
    return content + _SEAL % zlib.crc32(content)


def unsealed(content: bytes) -> bytes:
    """Undo `sealed`; a `DataError` if a byte has changed, or there is no checksum."""
    body = content[:-_SEAL_LENGTH]
    if len(content) < _SEAL_LENGTH or content != sealed(body):
        raise DataError("its checksum is missing or wrong")
    return body


def sealed_line(record: dict[str, Any]) -> bytes:
    """Return a record as one line of JSON whose last entry is the checksum of what is before it."""
    line = json.dumps(record, allow_nan=False).encode()
    body = line[:-1]
    return body + _LINE_SEAL % zlib.crc32(body) + b"\n"


def unsealed_line(line: bytes) -> dict[str, Any] | None:
    """Undo `sealed_line`; None if a byte has changed, or there is no checksum."""
    line = line.removesuffix(b"\n")
    body, seal = line[:-_LINE_SEAL_LENGTH], line[-_LINE_SEAL_LENGTH:]
    if seal != _LINE_SEAL % zlib.crc32(body):
        return None
    record: dict[str, Any] = json.loads(body + b"}")
    return record


def reserve(file: IO[bytes], size: int) -> None:
    """Give a file this length with all of its space taken, what it holds kept and the rest zero.

    A sparse file that is mapped into memory kills the process when the disk turns out to be full; here that is an
    ordinary error.
    """
    file.flush()
    file.truncate(min(size, os.fstat(file.fileno()).st_size))
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    file.seek(0, os.SEEK_END)
    while (missing := size - file.tell()) > 0:
        file.write(bytes(min(missing, _ZEROS)))
    file.flush()


def lock(file: IO[bytes]) -> None:
    """Lock an open file until it is closed; an `InUseError` if another process, or another handle, has done so.

    The lock ends with its process, however that dies. Where the file system has no locks, there is none.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            position = file.tell()
            file.seek(_LOCKED_BYTE)
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            finally:
                file.seek(position)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            raise InUseError("it is in use by another process") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file within a ``with`` block: for what is replaced as a whole, and so cannot be locked itself."""
    while True:
        file = path.open("ab")
        try:
            lock(file)
        except BaseException:
            file.close()
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        # Its last holder removed it between our two steps: this one is locked, but nobody else would find it.
        file.close()
    try:
        yield
    finally:
        # Removed while it is locked; Windows removes no open files, and there it just stays.
        with contextlib.suppress(OSError):
            path.unlink()
        file.close()


def _sync_folder(folder: Path) -> None:
    # The new name outlasts a power cut only if the folder is on the disk too. Windows opens no folders.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# One way to save what learns or watches row by row: plain arrays, a checksum, no pickle.


State = dict[str, AnyArray]
"""Everything an object consists of, as plain arrays: for `numpy.savez`, and for `numpy.load` without pickle."""


class Stateful(Printable, ABC):
    """An object that can be saved and goes on, after it is loaded, as if it had never stopped."""

    @abstractmethod
    def state_dict(self) -> State:
        """Return the whole state as plain arrays."""

    @classmethod
    @abstractmethod
    def from_state_dict(cls, state: Mapping[str, AnyArray]) -> Self:
        """Return the object that `state` describes."""

    def save(self, path: str | Path) -> None:
        """Write the state to a file (npz with a checksum); a process killed meanwhile leaves the previous file."""
        content = io.BytesIO()
        arrays: dict[str, Any] = self.state_dict()
        np.savez(content, **arrays)
        with writing(f"{named('path')} {path}"), atomic_write(Path(path)) as file:
            file.write(sealed(content.getvalue()))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the object that `save` wrote to a file."""
        if not isinstance(path, str | os.PathLike):
            raise ParameterError(
                f"{named('path')} must be the name of a file that `save` wrote, got {type(path).__name__}. Pass a "
                f"state to {cls.__name__}.from_state_dict."
            )
        try:
            with np.load(io.BytesIO(unsealed(Path(path).read_bytes())), allow_pickle=False) as stored:
                state = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise DataError(
                f"{named('path')} must be a whole file that {cls.__name__}.save wrote, got {path} ({error}). Save it "
                "again."
            ) from error
        return cls.from_state_dict(state)
