"""Messages: who raised them."""

import sys

import numpy as np
import pytest

import condcs
from condcs._core.errors import CondcsError, MissingPartnerError, ParameterError, public
from condcs.datasets import make_local_shift
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


def test_a_picture_without_matplotlib_was_the_error_of_an_import(monkeypatch):
    data = make_local_shift(40)
    found = condcs.witness(data.xp, data.yp, data.xq, data.yq, n_resamples=0)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPartnerError, match=r"matplotlib must be installed .* pip install 'condcs\[cli\]'"):
        found.plot()
