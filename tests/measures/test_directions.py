"""Divergences that are not symmetric: one way, the mean of both ways, the larger one."""

import numpy as np
import pytest

from condcs import conditional_bregman, conditional_kl, pairwise
from condcs._core.errors import ParameterError

MEASURES = {"conditional_kl": conditional_kl, "conditional_bregman": conditional_bregman}


def samples(like=np.asarray):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(90, 2))
    y = x[:, :1] + rng.normal(size=(90, 1)) * np.where(np.arange(90) < 40, 1.0, 2.5)[:, None]
    return tuple(like(a) for a in (x[:40], y[:40], x[40:], y[40:]))


@pytest.mark.parametrize("name", MEASURES)
def test_mean_and_max_combine_the_two_ways(name):
    measure, (xp, yp, xq, yq) = MEASURES[name], samples()
    forth, back = measure(xp, yp, xq, yq), measure(xq, yq, xp, yp)
    assert forth != pytest.approx(back, rel=1e-2)
    assert measure(xp, yp, xq, yq, direction="mean") == pytest.approx((forth + back) / 2, abs=1e-12)
    assert measure(xp, yp, xq, yq, direction="max") == max(forth, back) == measure(xq, yq, xp, yp, direction="max")
    matrix = pairwise([(xp, yp), (xq, yq), (xp + 1, yp)], measure=name, direction="max")
    assert matrix[0, 1] == matrix[1, 0]
    assert matrix[0, 1] == pytest.approx(max(forth, back), abs=1e-12)


def test_gradients_flow_through_the_larger_one():
    torch = pytest.importorskip("torch")
    tensors = samples(lambda a: torch.tensor(a, requires_grad=True))
    chosen = conditional_bregman(*tensors, direction="max")
    chosen.backward()
    assert all(bool(torch.isfinite(t.grad).all()) for t in tensors)


@pytest.mark.parametrize("name", MEASURES)
def test_unknown_direction(name):
    with pytest.raises(ParameterError, match=rf"{name}: `direction` must be .*'pq'.*'mean'.*'max'"):
        MEASURES[name](*samples(), direction="both")
