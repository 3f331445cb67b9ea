"""Links are tested by signs of residuals if what they are conditioned on leaves noise, else by surrogate windows."""

import numpy as np
import pytest

from condcs.causal import causal_graph, causal_test
from condcs.causal._conditions import Conditions, has_trend, inflated_pvalue, spectral_line, variance_inflation
from condcs.causal._series import CausalProblem, Embedding, Link, check_series_table
from condcs.datasets import make_henon_chain
from condcs.exceptions import ParameterError


def threshold_pair(n, seed):
    """A threshold autoregression drives another series where it is positive."""
    noise = np.random.default_rng(seed).normal(size=(n + 50, 2))
    x = np.zeros_like(noise)
    for t in range(1, len(x)):
        u = x[t - 1, 0]
        x[t] = [(0.7 if u < 0 else -0.4) * u + noise[t, 0], 0.3 * x[t - 1, 1] + max(u, 0.0) + 0.7 * noise[t, 1]]
    return x[50:]


def chain(n, seed):
    """A drives b, b drives c: the last value of c knows an older one of b, and so of a."""
    noise = np.random.default_rng(seed).normal(size=(n + 50, 3))
    x = np.zeros_like(noise)
    for t in range(1, len(x)):
        x[t] = [0.9 * x[t - 1, 0], x[t - 1, 0], x[t - 1, 1]] + noise[t] * [0.5, 0.8, 0.4]
    return x[50:]


def test_links_of_noisy_series_were_missed():
    """Windows find 2 of 20 such links; signs found all of 60."""
    for seed in range(3):
        graph = causal_graph(threshold_pair(300, seed), embedding=1, n_resamples=39, rng=0)
        assert graph.null == "signs"
        assert graph.window == 299
        assert graph.pvalues[0, 1] <= 0.05


def test_each_link_has_a_null_of_its_own():
    """The second map is noise given its own past, not given the first; the first has no noise at all."""
    maps = make_henon_chain(300, n_maps=2).series
    series = {"noise": threshold_pair(300, 0)[:, 0], "first": maps[:, 0], "second": maps[:, 1]}
    graph = causal_graph(series, embedding=2, n_resamples=9, rng=0)
    assert graph.null == "signs and windows"
    forth, back = (causal_test(*pair, embedding=2, n_resamples=9, rng=0) for pair in (maps.T, maps.T[::-1]))
    assert (forth.null, back.null) == ("signs", "windows")
    assert forth.pvalue < 1e-3
    assert graph.scores[1, 2] == pytest.approx(forth.details["score"], rel=1e-12)
    # From noise to a map that the other one explains: windows, whose resamples are there; signs have none.
    assert np.isfinite(graph.null_distributions[0, 2]).all()
    assert np.isnan(graph.null_distributions[1, 2]).all()
    with pytest.raises(ParameterError, match="`null='signs'` must go with measure='conditional_cs'"):
        causal_test(maps[:, 0], maps[:, 1], measure="transfer_entropy", null="signs")


def test_independent_persistent_series_looked_linked():
    """Squares of the t statistics of linear regressions of independent series have the mean that is corrected for.

    Of 3,000 squares the mean has a standard error of 0.03.
    """
    n, runs = 100, 3000
    noise = np.random.default_rng(0).normal(size=(n + 200, 2, runs))
    x = np.zeros_like(noise)
    for t in range(1, len(x)):
        x[t] = 0.9 * x[t - 1] + noise[t]
    x = x[-n:]
    source, own, target = (part - part.mean(axis=0) for part in (x[:-1, 0], x[:-1, 1], x[1:, 1]))
    source, target = (v - own * (v * own).sum(axis=0) / (own**2).sum(axis=0) for v in (source, target))
    squares = (source * target).sum(axis=0) ** 2 / (source**2 * target**2).sum(axis=0)
    factors = []
    for run in range(200):
        pair = tuple(check_series_table("series", x[:, :, run]))
        problem = CausalProblem(pair, Embedding(), (Link(0, 1),))
        factors.append(variance_inflation(problem, Link(0, 1), target[:, [run]]))
    assert squares.mean() > 1.2
    assert squares.mean() / np.mean(factors) == pytest.approx(1.0, abs=0.12)
    assert inflated_pvalue(0.05, 1.0) == pytest.approx(0.05)
    assert inflated_pvalue(0.045500264, 4.0) == pytest.approx(0.317310508)


def seasonal(n, seed):
    """Two independent series, each of which repeats what it was 12 steps before."""
    noise = np.random.default_rng(seed).normal(size=(n + 200, 2))
    x = noise.copy()
    for t in range(12, len(x)):
        x[t] += 0.8 * x[t - 12]
    return x[200:]


def test_a_season_beyond_the_past_looked_like_a_link():
    """At order 1 half of such links had p <= 0.05; of 24 at that level, more than 6 are a surprise of 0.1%."""
    found = [causal_graph(seasonal(200, seed), embedding=1, null="signs", rng=0).pvalues for seed in range(12)]
    assert sum((p <= 0.05).sum() for p in found) <= 6
    pair = tuple(check_series_table("series", seasonal(200, 0)))
    problem = CausalProblem(pair, Embedding(), (Link(0, 1),))
    assert Conditions(problem).of(Link(0, 1)) == ((1, 1), (1, 12))


def test_a_third_series_that_helps_is_conditioned_on():
    """Without a, c seems to drive b: it tells more about a than the last value of b alone does."""
    series = chain(400, 3)
    options = {"embedding": 1, "n_resamples": 99, "rng": 0}
    assert causal_test(series[:, 2], series[:, 1], **options).pvalue <= 0.05
    graph = causal_graph(series, **options)
    assert graph.pvalues[2, 1] > 0.05
    assert graph.pvalues[0, 1] <= 0.05
    assert graph.pvalues[1, 2] <= 0.05
    variables = tuple(check_series_table("series", series))
    problem = CausalProblem(variables, Embedding(), (Link(2, 1),))
    assert {(0, 1), (1, 1)} <= set(Conditions(problem).of(Link(2, 1)))


def around(kind, seed):
    """Two independent autoregressions around a season or a trend that they share."""
    n = 200
    t, x = np.arange(n), np.random.default_rng(seed).normal(size=(n, 2))
    for k in range(1, n):
        x[k] += 0.5 * x[k - 1]
    shared = 1.5 * np.sin(2 * np.pi * t / 12) if kind == "season" else 5 * t / n
    return x + shared[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["season", "trend"])
def test_a_season_or_trend_that_two_series_share_looked_like_a_link(kind):
    """More than half of such links had p <= 0.05; of 24 at that level, more than 6 are a surprise of 0.1%."""
    found = [causal_graph(around(kind, seed), rng=0).pvalues for seed in range(12)]
    assert sum((p <= 0.05).sum() for p in found) <= 6


def test_a_spectral_line_is_found_between_the_frequencies_of_the_grid():
    t = np.arange(200)
    noise = np.random.default_rng(0).normal(size=200)
    assert spectral_line(np.sin(2 * np.pi * t / 11.3) + noise) == pytest.approx(1 / 11.3, abs=1 / 1000)
    assert spectral_line(noise) is None
    # Beside the last frequency of the grid there is no room to look further.
    assert spectral_line(np.cos(0.995 * np.pi * t)) == pytest.approx(0.4975, abs=1 / 200)
    with_gaps = np.where(t % 9 == 4, np.nan, np.sin(2 * np.pi * t / 11.3))
    assert spectral_line(with_gaps) == pytest.approx(1 / 11.3, abs=1 / 1000)


def test_a_trend_is_told_from_a_random_walk():
    """In 200 random walks at most a few have a slope in time of more than 4 standard errors."""
    steps = np.random.default_rng(0).normal(size=(200, 150))
    assert sum(has_trend(walk) for walk in steps.cumsum(axis=1)) <= 10
    assert all(has_trend(5 * np.arange(150) / 150 + noise) for noise in steps)
    assert not any(has_trend(noise) for noise in steps)


def driven_walk(n, seed):
    """An autoregression drives the steps of a random walk; the last value alone explains nearly all of the walk."""
    noise = np.random.default_rng(seed).normal(size=(n, 2))
    x = np.zeros((n, 2))
    for t in range(1, n):
        x[t] = [0.9 * x[t - 1, 0] + noise[t, 0], x[t - 1, 1] + 0.3 * x[t - 1, 0] + noise[t, 1]]
    return x


def test_the_noise_of_a_persistent_series_was_overlooked():
    """A residual of less than 1% of the level counted as none, and the link was tested by windows, which missed it.

    The link explains a third of the variance of the steps: 399 of them leave 14 standard errors.
    """
    for seed in range(3):
        walk = driven_walk(400, seed)
        assert np.diff(walk[:, 1]).var() < 0.01 * walk[:, 1].var()
        test = causal_test(*walk.T, embedding=1, n_resamples=39, rng=0)
        assert test.null == "signs"
        assert test.pvalue < 1e-6


def test_maps_without_noise_keep_their_null():
    """Steps of a chaotic map vary more than its values: judged by them, it has no more noise than before."""
    maps = make_henon_chain(300, n_maps=2).series
    assert np.diff(maps[:, 0]).var() > maps[:, 0].var()
    assert causal_test(*maps.T[::-1], embedding=2, n_resamples=9, rng=0).null == "windows"
