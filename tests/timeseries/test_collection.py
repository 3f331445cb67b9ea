"""The Hankel reformulation: windows and their successors."""

from __future__ import annotations

import numpy as np
import pytest

from condcs._core.errors import CondcsError, DataError, ShapeError
from condcs.timeseries import embed


def test_rows_are_windows_and_successors():
    x, y = embed(np.arange(6.0), 3)
    assert x.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert y.tolist() == [[3], [4], [5]]


def test_together_they_are_the_transposed_hankel_matrix():
    from scipy.linalg import hankel

    series = np.random.default_rng(0).normal(size=9)
    assert np.array_equal(np.hstack(embed(series, 4)), hankel(series[:5], series[4:]).T)


def test_channels_are_flattened_frame_by_frame():
    series = np.array([[0.0, 10.0], [1.0, 11.0], [2.0, 12.0], [3.0, 13.0]])
    x, y = embed(series, 2)
    assert x.tolist() == [[0, 10, 1, 11], [1, 11, 2, 12]]
    assert y.tolist() == [[2, 12], [3, 13]]


def test_a_collection_gives_a_list_and_lengths_may_differ(rng):
    ragged = [rng.normal(size=(n, 2)) for n in (5, 9)]
    made = embed(ragged, 2)
    assert [len(x) for x, _ in made] == [3, 7]
    assert all(np.array_equal(a[0], embed(s, 2)[0]) for a, s in zip(made, ragged, strict=True))
    assert len(embed(rng.normal(size=(4, 6, 3)), 1)) == 4
    assert len(embed([np.arange(5.0), np.arange(7.0)], 2)) == 2


def test_windows_that_touch_a_gap_are_left_out_on_request():
    series = np.arange(10.0)
    series[4] = np.nan
    x, y = embed(series, 2, missing="drop")
    # Of the starts 0 to 7, those from 2 to 4 reach time 4.
    assert x[:, 0].tolist() == [0, 1, 5, 6, 7]
    assert y.ravel().tolist() == [2, 3, 7, 8, 9]


def test_a_gap_in_one_channel_is_a_gap():
    series = np.arange(20.0).reshape(10, 2)
    series[0, 1] = np.nan
    assert len(embed(series, 3, missing="drop")[0]) == 6


@pytest.mark.parametrize(
    ("series", "order", "options", "error", "words"),
    [
        (np.arange(5.0), 4, {}, ShapeError, ["order + 2 = 6", "got 5", "at most 3"]),
        (np.arange(2.0), 1, {}, ShapeError, ["time points, got 2", "Drop it"]),
        ([np.arange(9.0), np.arange(3.0)], 2, {}, ShapeError, ["series 1 of `series`", "got 3"]),
        (np.arange(5.0), 0, {}, CondcsError, ["`order`", "at least 1"]),
        (np.arange(5.0), 1.5, {}, CondcsError, ["`order`"]),
        (np.array([1, np.nan, 2, 3, 4.0]), 1, {}, DataError, ["time 1", "missing='drop'"]),
        (np.array([1, np.inf, 2, 3, 4.0]), 1, {"missing": "drop"}, DataError, ["time 1", "NaN"]),
        (np.array([1, np.nan, 2, np.nan, 4.0]), 1, {"missing": "drop"}, ShapeError, ["without a NaN", "got 0"]),
        (np.arange(5.0), 1, {"missing": "ignore"}, CondcsError, ["`missing`", "'drop'"]),
        (np.zeros((2, 3, 4, 5)), 1, {}, ShapeError, ["`series`", "(2, 3, 4, 5)"]),
        (np.zeros((0, 3)), 1, {}, ShapeError, ["must not be empty"]),
        (np.array(["a", "b", "c"]), 1, {}, DataError, ["real numbers"]),
        (np.array([1j, 2, 3]), 1, {}, DataError, ["real numbers"]),
        ([np.zeros((5, 2)), np.zeros((5, 3))], 1, {}, ShapeError, ["same channels", "2 in series 0", "3 in series 1"]),
    ],
)
def test_bad_input_is_named(series, order, options, error, words):
    with pytest.raises(error) as caught:
        embed(series, order, **options)
    for word in ["embed: ", *words]:
        assert word in str(caught.value)
