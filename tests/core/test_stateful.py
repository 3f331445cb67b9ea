"""One way to save what learns or watches: the same names everywhere, and files that are whole or refused."""

import numpy as np
import pytest

from condcs._core.errors import DataError, ParameterError
from condcs.drift import ConditionalDriftDetector
from condcs.explore import KernelTD, TransitionBuffer

X = np.random.default_rng(0).uniform(size=80)


def made(kind):
    if kind is ConditionalDriftDetector:
        return kind(X, np.sin(3 * X), expected_run_length=100)
    if kind is KernelTD:
        return kind(1, [[-1.0], [1.0]])
    return kind(8, 1, 1, bandwidth_x=0.3, bandwidth_y=0.3)


KINDS = [ConditionalDriftDetector, KernelTD, TransitionBuffer]


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_by_the_same_names(kind, tmp_path):
    """`save` and `load` with a file, `state_dict` and `from_state_dict` without one."""
    path = tmp_path / "state.npz"
    before = made(kind)
    before.save(path)
    for after in (kind.load(path), kind.load(str(path)), kind.from_state_dict(before.state_dict())):
        assert type(after) is kind
        assert after.state_dict().keys() == before.state_dict().keys()
        for name, array in before.state_dict().items():
            np.testing.assert_array_equal(after.state_dict()[name], array)


def test_a_damaged_file_is_refused(tmp_path):
    """One byte changed, half of it lost, something else, or absent."""
    path = tmp_path / "state.npz"
    made(TransitionBuffer).save(path)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    for content in (bytes(damaged), whole[: len(whole) // 2], b"", b"something else"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"`path` must be a whole file that TransitionBuffer\.save wrote"):
            TransitionBuffer.load(path)
    with pytest.raises(DataError, match="`path` must be a whole file"):
        TransitionBuffer.load(tmp_path / "absent.npz")


def test_a_state_given_to_load_is_sent_to_from_state_dict():
    with pytest.raises(ParameterError, match=r"got dict. Pass a state to KernelTD\.from_state_dict"):
        KernelTD.load(made(KernelTD).state_dict())


def test_a_file_of_another_class_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    made(TransitionBuffer).save(path)
    with pytest.raises(DataError, match="`state` must come from"):
        KernelTD.load(path)
