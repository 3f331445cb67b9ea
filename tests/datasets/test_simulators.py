"""The coupled maps follow their equations and stay bounded."""

import numpy as np
import pytest

from benchmarks.processors import PROCESSORS, output_on
from condcs._core.errors import CondcsError
from condcs.datasets import make_henon_chain, make_nlvar3
from condcs.datasets._simulators import _nlvar3_orbit


def test_henon_chain_follows_its_equations():
    data = make_henon_chain(300, n_maps=4, coupling=0.3, rng=3)
    x = data.series
    driver = np.column_stack([x[1:-1, 0], 0.3 * x[1:-1, :-1] + 0.7 * x[1:-1, 1:]])
    np.testing.assert_allclose(x[2:], 1.4 - driver**2 + 0.3 * x[:-2], atol=1e-12)
    assert np.abs(x).max() < 2
    assert data.links.tolist() == np.eye(4, k=1, dtype=bool).tolist()
    assert data.reachable.tolist() == np.triu(np.ones((4, 4), bool), 1).tolist()


def test_nlvar3_residuals_are_the_noise():
    """What the equations leave is independent noise of standard deviation 0.01 (5 standard errors)."""
    data = make_nlvar3(5000, rng=1)
    x = data.series
    a, b, _ = u = x[:-1].T
    own = 3.4 * u * (1 - u**2) * np.exp(-(u**2))
    rest = x[1:].T - own - np.stack([0 * a, 0.5 * a * b, 0.3 * b + 0.5 * a**2])
    assert rest.std(axis=1) == pytest.approx(0.01, rel=5 / np.sqrt(2 * 5000))
    assert np.abs(np.corrcoef(rest)[np.triu_indices(3, 1)]).max() < 5 / np.sqrt(5000)


@pytest.mark.parametrize("make", [make_henon_chain, make_nlvar3])
def test_seed_decides(make):
    assert np.array_equal(make(50, rng=2).series, make(50, rng=2).series)
    assert not np.array_equal(make(50, rng=2).series, make(50, rng=3).series)
    assert make(50).series.shape[0] == 50


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_henon_chain(0), "make_henon_chain: `n` must be an integer of at least 1"),
        (lambda: make_henon_chain(10, coupling=1.0), "`coupling` must lie in"),
        (lambda: make_henon_chain(10, n_maps=0), "`n_maps`"),
        (lambda: make_nlvar3(10, noise=0.0), "make_nlvar3: `noise` must be a positive"),
        (lambda: make_nlvar3(10, rng=-1), "`rng`"),
    ],
)
def test_bad_options(call, words):
    with pytest.raises(CondcsError, match=words):
        call()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_series_on_every_processor():
    """Chaotic maps turn the last digit of one exponential into another series; so nothing in them may differ."""
    code = (
        "import hashlib; from condcs.datasets import make_henon_chain, make_nlvar3; "
        "made = [make(3000, rng=5).series for make in (make_henon_chain, make_nlvar3)]; "
        "print([hashlib.sha256(series.tobytes()).hexdigest() for series in made])"
    )
    assert len({output_on(processor, code) for processor in PROCESSORS}) == 1


def test_nlvar3_of_given_noise_is_this_series_wherever_it_is_run():
    """No generator takes part: the last of 300 steps is that of exactly rounded arithmetic, digit for digit."""
    shocks = (np.arange(900).reshape(300, 3) * 37 % 101 - 50) / 4096
    last = _nlvar3_orbit(np.array([0.25, -0.125, 0.5]), shocks)[-1]
    assert last.tolist() == [0.3577286624438548, -0.5014024376649919, 1.3178699143885733]
