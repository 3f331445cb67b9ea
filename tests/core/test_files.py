"""Files: whole or absent, checked when read, one writer at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from condcs._core import files
from condcs._core.errors import DataError
from condcs._core.files import InUseError, WriteError, atomic_write, lock, locked, reserve, sealed, unsealed, writing


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines([b"half of the n", None])
    assert path.read_bytes() == b"old"
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_link_to_a_file_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "state")
    with atomic_write(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "state").read_bytes() == b"new"


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    for name in (".a[1].npz.17.part", ".a1.npz.17.part", "a[1].npz"):
        (tmp_path / name).write_text("")
    files.remove_parts(tmp_path / "a[1].npz")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".a1.npz.17.part", "a[1].npz"]


def test_every_changed_or_missing_byte_breaks_the_seal():
    content = sealed(b"PK some content \x00\xff")
    assert unsealed(content) == b"PK some content \x00\xff"
    assert unsealed(sealed(b"")) == b""
    broken = [content[:n] for n in range(len(content))]
    broken += [content[:n] + bytes([content[n] ^ 1]) + content[n + 1 :] for n in range(len(content))]
    for damaged in broken:
        with pytest.raises(DataError, match="checksum"):
            unsealed(damaged)


@pytest.mark.parametrize("by_system", [True, False])
def test_reserved_space_keeps_what_is_there(tmp_path, monkeypatch, by_system):
    """By the operating system where it can, else by zeros."""
    if not by_system:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    for size in (3_000_000, 5):
        with path.open("r+b") as file:
            reserve(file, size)
        assert path.read_bytes() == b"abc" + bytes(size - 3)


RESERVE = """
import resource, sys
from condcs._core.files import WriteError, reserve, writing
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
with open(sys.argv[1], "wb") as file:
    try:
        with writing("`store` here"):
            reserve(file, 1_000_000)
    except WriteError as error:
        print(error)
"""


def test_no_space_is_found_out_before_it_is_used(tmp_path):
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", RESERVE, tmp_path / "file"], capture_output=True, text=True)
    assert done.stdout.startswith("`store` here could not be written: "), done.stderr
    assert "Free some space" in done.stdout


def test_error_names_what_could_not_be_written(tmp_path):
    with (
        pytest.raises(WriteError, match=r"`--out` could not be written: .*Create its folder first"),
        writing("`--out`"),
    ):
        (tmp_path / "absent" / "file").write_text("")


def test_one_lock_at_a_time(tmp_path):
    path = tmp_path / "state.lock"
    with locked(path):
        assert path.exists()
        with pytest.raises(InUseError), locked(path):
            pass
        assert path.exists()
    assert not path.exists()
    with locked(path):
        pass


def test_lock_of_a_killed_process_is_free(tmp_path):
    """The file stays behind; the lock does not."""
    path = tmp_path / "state.lock"
    code = (
        "import os, sys; from pathlib import Path; from condcs._core.files import locked\n"
        "with locked(Path(sys.argv[1])): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == 9
    assert path.exists()
    with locked(path):
        pass


def test_windows_locks_one_byte_behind_the_end(tmp_path, monkeypatch):
    """With a stand-in for its module: bytes that hold data would be closed to readers."""
    calls = []

    def locking(descriptor, mode, count):
        if calls:
            raise PermissionError(13, "Permission denied")
        calls.append((os.lseek(descriptor, 0, os.SEEK_CUR), mode, count))

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setattr(files, "sys", types.SimpleNamespace(platform="win32"))
    path = Path(tmp_path / "file")
    path.write_bytes(b"data")
    with path.open("r+b", buffering=0) as file:
        file.seek(2)
        lock(file)
        assert calls == [(2**31 - 2, 2, 1)]
        assert file.tell() == 2
        with pytest.raises(InUseError):
            lock(file)
