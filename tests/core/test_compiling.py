"""Compiled code is kept where there is a place for it, and computed without one where there is none."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import condcs

pytestmark = pytest.mark.slow

PACKAGE = Path(condcs.__file__).parent
# More rows than numpy's exponential is used for: loops must be compiled.
SAMPLES = [0.0, 1, 2] * 200, [0.0, 1, 2] * 200, [0.0, 1, 2] * 200, [2.0, 1, 0] * 200
CODE = f"import condcs; print(condcs.conditional_cs(*{SAMPLES}, bandwidth_x=1, bandwidth_y=1))"


@pytest.fixture(scope="module")
def read_only_install(tmp_path_factory):
    """A copy in which numba can keep nothing: files stand where its folders would be, which stops root as well."""
    place = tmp_path_factory.mktemp("read-only")
    shutil.copytree(PACKAGE, place / "condcs", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [entry for entry in place.rglob("*") if entry.is_dir()]:
        (folder / "__pycache__").write_text("not a folder")
    return place


def first_call(install, temporary, **more):
    nowhere = {"HOME": os.devnull, "USERPROFILE": os.devnull, "LOCALAPPDATA": os.devnull, "XDG_CACHE_HOME": os.devnull}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CACHE")}
    environment = {**kept, **nowhere, "PYTHONPATH": str(install), "TMPDIR": str(temporary), **more}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, cwd=install)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return float(done.stdout)


EXPECTED = condcs.conditional_cs(*SAMPLES, bandwidth_x=1, bandwidth_y=1)


def test_first_call_of_a_read_only_install_without_a_home_gives_a_number(read_only_install, tmp_path):
    """The compiled code goes to a folder of this user alone among the temporary files."""
    assert first_call(read_only_install, tmp_path) == pytest.approx(EXPECTED, rel=1e-12)
    folders = list(tmp_path.glob("condcs-numba-*"))
    assert len(folders) == 1
    assert list(folders[0].rglob("*.nbi"))
    if os.name == "posix":
        assert folders[0].stat().st_mode & 0o777 == 0o700


def test_cache_that_others_could_write_to_is_not_used(read_only_install, tmp_path):
    """What is in a cache of numba is run: a folder that is open to others, or theirs, gets and gives nothing."""
    folder = tmp_path / f"condcs-numba-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    if os.name == "posix":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.write_text("not a folder")
    assert first_call(read_only_install, tmp_path) == pytest.approx(EXPECTED, rel=1e-12)
    assert not list(tmp_path.rglob("*.nbi"))


def test_numba_cache_dir_comes_first(read_only_install, tmp_path):
    named = tmp_path / "named"
    first_call(read_only_install, tmp_path, NUMBA_CACHE_DIR=str(named))
    assert list(named.rglob("*.nbi"))
    assert not list(tmp_path.glob("condcs-numba-*"))


def test_a_cache_of_another_version_or_a_cut_off_one_ended_the_call(read_only_install, tmp_path):
    """Numba unpickles an index before it looks at its age: a class with another name now was an AttributeError."""
    cache = tmp_path / "cache"
    first_call(read_only_install, tmp_path, NUMBA_CACHE_DIR=str(cache))
    indices = list(cache.rglob("*.nbi"))
    assert indices
    for index in indices:
        version = pickle.dumps(pickle.loads(index.read_bytes()), protocol=-1)
        index.write_bytes(version + b"ccondcs._core.arrays\nNoSuchClass\n.")
    assert first_call(read_only_install, tmp_path, NUMBA_CACHE_DIR=str(cache)) == pytest.approx(EXPECTED, rel=1e-12)
    assert all(b"NoSuchClass" not in index.read_bytes() for index in indices)


def test_every_cached_function_is_compiled_in_the_one_place_that_falls_back():
    direct = [p for p in PACKAGE.rglob("*.py") if re.search(r"(?<!``)numba\.njit\([^\n]*cache", p.read_text("utf-8"))]
    assert direct == [PACKAGE / "_core" / "compiling.py"]
