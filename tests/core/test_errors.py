"""Messages: who raised them."""

import numpy as np
import pytest

from condcs._core.errors import CondcsError, ParameterError, public
from condcs.drift import ConditionalDriftDetector


class Made:
    @public
    def __init__(self, size):
        raise ParameterError(f"`size` must be even, got {size}.")


class MadeToo(Made):
    pass


@pytest.mark.parametrize("kind", [Made, MadeToo])
def test_messages_of_constructors_began_with_init(kind):
    with pytest.raises(ParameterError, match=rf"^{kind.__name__}: `size` must be even, got 3"):
        kind(3)
    with pytest.raises(ParameterError, match=rf"^{kind.__name__}: "):
        kind(size=3)


def test_a_detector_names_itself():
    with pytest.raises(CondcsError, match=r"^ConditionalDriftDetector: "):
        ConditionalDriftDetector(np.zeros((3, 1)), np.zeros((3, 1)))
