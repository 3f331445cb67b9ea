"""Arrays from files of others: nothing is set aside or unpacked without bound."""

import zipfile

import numpy as np
import pytest

from condcs._core.errors import DataError
from condcs.datasets._npz_files import read_arrays


def test_arrays_do_not_unpack_without_bound(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros((1000, 1000)), y=np.zeros(3))
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match="must hold at most 1 MB of arrays, got 7 MB"):
        read_arrays(path, most=1 << 20)
    assert read_arrays(path, ["y"], most=1 << 20)["y"].shape == (3,)


def test_an_array_that_claims_to_be_larger_than_its_file(tmp_path):
    """Memory was set aside for the shape that the header gives."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,), }"
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64))
    with pytest.raises(DataError, match="but is shorter"):
        read_arrays(path)
