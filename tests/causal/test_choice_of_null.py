"""Noisy targets are tested by signs of residuals, deterministic ones by surrogate windows."""

import numpy as np
import pytest

from condcs.causal import causal_graph, causal_test
from condcs.causal._link_tests import companions
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


def test_each_target_has_a_null_of_its_own():
    noisy = threshold_pair(300, 0)[:, 0]
    maps = make_henon_chain(300, n_maps=2).series
    series = {"noise": noisy, "first": maps[:, 0], "second": maps[:, 1]}
    graph = causal_graph(series, embedding=2, n_resamples=9, rng=0)
    assert graph.null == "signs and windows"
    alone = causal_test(maps[:, 0], maps[:, 1], embedding=2, n_resamples=9, rng=0)
    assert alone.null == "windows"
    assert graph.scores[1, 2] == pytest.approx(alone.details["score"], rel=1e-12)
    with pytest.raises(ParameterError, match=r'`null`="signs" must go with measure="conditional_cs"'):
        causal_test(maps[:, 0], maps[:, 1], measure="transfer_entropy", null="signs")


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
    assert companions(problem, 1)[0] == 0
