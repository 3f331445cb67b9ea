"""Regions in words: the right column, the right cut, and no claim where nothing differs."""

import numpy as np
import pytest

from condcs._core.errors import ParameterError
from condcs._inference.explain import Region, explain
from condcs.datasets import make_local_shift


def test_names_the_region_of_a_local_shift():
    data = make_local_shift(300)
    found = explain(data.xp, data.yp, data.xq, data.yq)
    top = found.regions[0]
    ((name, low, high),) = top.bounds
    assert name == "x"
    assert data.region[0] - 0.3 < low < high < data.region[1] + 0.3
    assert top.ratio > 3
    assert top.significant > 0.9
    assert [r.ratio for r in found.regions] == sorted((r.ratio for r in found.regions), reverse=True)
    assert sum(r.share for r in found.regions) == pytest.approx(1)
    assert sum(r.share * r.ratio for r in found.regions) == pytest.approx(1)


def test_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = pandas.DataFrame(rng.normal(size=(500, 3)), columns=["age", "dose", "weight"])
    y = 0.3 * rng.normal(size=500)
    y[250:] += 1.0 * (x["dose"].to_numpy()[250:] > 0.7)
    found = explain(x[:250], y[:250], x[250:], y[250:], max_regions=2)
    ((name, low, _),) = found.regions[0].bounds
    assert name == "dose"
    # The witness is smooth on the scale of its width, and so is what can be said about the place of a step.
    assert abs(low - 0.7) < found.witness.bandwidth_x[1]
    assert "dose > " in str(found)
    assert "no evidence" not in str(found)


def test_says_so_where_nothing_differs():
    data = make_local_shift(200, shift=0.0)
    assert "no evidence of a difference" in str(explain(data.xp, data.yp, data.xq, data.yq))


def test_words():
    region = Region((("x3", 0.7123, np.inf), ("x1", -np.inf, 2.0)), 6.21, 0.4, 0.18, 1.0)
    assert str(region) == "x3 > 0.712 and x1 <= 2: 6.2x the average, 18% of rows"
    assert Region((("a", 0.0, 1.0),), 1.0, 0.1, 1.0, 0.0).words == "0 < a <= 1"
    assert Region((), 1.0, 0.1, 1.0, 0.0).words == "everywhere"


def test_many_rows_are_sampled():
    data = make_local_shift(200)
    found = explain(data.xp, data.yp, data.xq, data.yq, max_rows=50, n_resamples=19)
    assert len(found.witness.values) == 50
    again = explain(data.xp, data.yp, data.xq, data.yq, max_rows=50, n_resamples=19)
    assert found.regions == again.regions


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_regions": 1}, "`max_regions`"), ({"n_resamples": 0}, "`n_resamples`"), ({"max_rows": 3}, "`max_rows`")],
)
def test_bad_input_is_named(options, message):
    data = make_local_shift(20)
    with pytest.raises(ParameterError, match=f"explain: {message}"):
        explain(data.xp, data.yp, data.xq, data.yq, **options)
