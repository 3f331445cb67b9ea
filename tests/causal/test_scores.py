"""The causal score is Prop. 4 on (y_t, own past, past of x)."""

import numpy as np
import pytest

import condcs
from condcs.causal import ConditionalCS, Embedding, causal_graph, causal_score, causal_test
from condcs.causal._grams import DenseGrams
from condcs.causal._predictive_choice import BANDWIDTH_LEVELS, predictive_likelihoods
from condcs.causal._series import CausalProblem, Link, Series
from condcs.datasets import make_nlvar3


def prop4(y, x1, x2, sigma, form):
    """Prop. 4 with dense matrices, written from the formula."""

    def gram(v):
        return np.exp(-((v[:, None] - v[None]) ** 2).sum(-1) / (2 * sigma**2))

    L, K1, K2 = gram(y), gram(x1), gram(x2)
    a1, b1, a12, b12 = (m.sum(1) for m in (K1, K1 * L, K1 * K2, K1 * K2 * L))
    first = (b1**2 / (a1**2 * b12)).sum() if form == "corrected" else (b1 / a1**2).sum()
    return np.log(first) + np.log((b12 / a12**2).sum()) - 2 * np.log((b1 / (a1 * a12)).sum())


@pytest.fixture
def series(rng):
    return rng.normal(size=(4, 120)).cumsum(axis=1) * 0.3


@pytest.mark.parametrize("form", ["corrected", "paper"])
def test_default_embedding_is_one_step(series, form):
    x, y = series[:2]
    expected = prop4(y[1:, None], y[:-1, None], x[:-1, None], 0.7, form)
    assert causal_score(x, y, measure=ConditionalCS(form, 0.7)) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_paper_embedding_with_spacing(series):
    """y_{t+1} given [y_t, y_{t-3}] and [x_t, x_{t-3}]: the paper's vectors for a time delay of 3."""
    x, y = series[:2]
    t = np.arange(3, 119)
    own, past = np.stack([y[t], y[t - 3]], 1), np.stack([x[t], x[t - 3]], 1)
    expected = prop4(y[t + 1][:, None], own, past, 0.7, "corrected")
    got = causal_score(x, y, embedding=Embedding(order=2, lag=3, delay=1), measure=ConditionalCS(bandwidth=0.7))
    assert got == pytest.approx(expected, rel=1e-10)


def test_lag_delays_the_source_but_not_the_own_past(series):
    x, y = series[:2]
    t = np.arange(3, 120)
    own = np.stack([y[t - 1], y[t - 3]], 1)
    expected = prop4(y[t][:, None], own, x[t - 2][:, None], 0.7, "corrected")
    got = causal_score(x, y, embedding=Embedding(order=(1, 2), lag=2), measure=ConditionalCS(bandwidth=0.7))
    assert got == pytest.approx(expected, rel=1e-10)


def test_conditioning_set_joins_the_own_past(series):
    x, y, z, w = series
    own = np.stack([y[:-1], z[:-1], w[:-1]], 1)
    expected = prop4(y[1:, None], own, x[:-1, None], 0.9, "corrected")
    # The order is given: which one predicts four short random walks best is a matter of chance.
    got = causal_score(x, y, given=[z, w], embedding=1, measure=ConditionalCS(bandwidth=0.9))
    assert got == pytest.approx(expected, rel=1e-10)


def test_series_of_several_columns(series):
    x, y = series[:2].T, series[2:].T
    expected = prop4(y[1:], y[:-1], x[:-1], 0.9, "corrected")
    assert causal_score(x, y, measure=ConditionalCS(bandwidth=0.9)) == pytest.approx(expected, rel=1e-10)


def test_agrees_with_the_public_measure_at_the_median(series):
    x, y = series[:2]
    widths = [condcs.bandwidth(v) for v in (x, y)]
    expected = condcs.conditional_cs_predictors(
        y[1:], y[:-1], x[:-1], bandwidth_y=widths[1], bandwidth_x1=widths[1], bandwidth_x2=widths[0]
    )
    assert causal_score(x, y, measure=ConditionalCS(bandwidth="median")) == pytest.approx(expected, rel=1e-10)


def test_ranks_ignore_monotone_transforms(series):
    x, y = series[:2]
    assert causal_score(np.exp(5 * x), y**3, ranks=True) == pytest.approx(causal_score(x, y, ranks=True), rel=1e-12)


def test_units_do_not_matter():
    x1, x2, _ = make_nlvar3(300).series.T
    assert causal_score(1e6 * x1, 1e-3 * x2 + 5) == pytest.approx(causal_score(x1, x2), rel=1e-6)


def test_score_of_a_true_link_is_larger_than_of_its_reverse():
    x1, x2, x3 = make_nlvar3(500, rng=2).series.T
    assert causal_score(x1, x2) > 1.5 * causal_score(x2, x1)
    assert causal_score(x1, x3) > causal_score(x3, x1) > 0


def test_leave_one_out_likelihood_against_a_loop():
    """Mean log prediction with the row itself left out, written as a loop over rows and shifts."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 41))
    problem = CausalProblem((Series("x", x[:, None]), Series("y", y[:, None])), Embedding(), (Link(0, 1),))
    widths, n = np.array([2.0, 1.5]), 40
    got = predictive_likelihoods(DenseGrams(problem, widths, n), Link(0, 1))
    for level in (0, 3):
        sx, sy = widths * 2 ** (-level / 2)
        kernel = {
            "y": np.exp(-((y[1:, None] - y[1:]) ** 2) / (2 * sy**2)),
            "own": np.exp(-((y[:-1, None] - y[:-1]) ** 2) / (2 * sy**2)),
            "x": np.exp(-((x[:-1, None] - x[:-1]) ** 2) / (2 * sx**2)),
        }
        other = ~np.eye(n, dtype=bool)
        marginal = kernel["y"][other].mean()
        logs = []
        for turn in (np.arange(1, 9) * n) // 9:
            order = (np.arange(n) + turn) % n
            weight = kernel["own"] * kernel["x"][np.ix_(order, order)]
            for j in range(n):
                w = weight[j][other[j]]
                logs.append(np.log((w @ kernel["y"][j][other[j]] + 0.1 * marginal) / (w.sum() + 0.1)))
        assert got[level] == pytest.approx(np.mean(logs) + level * np.log(2) / 2, rel=1e-9)
    assert len(got) == BANDWIDTH_LEVELS


def test_chosen_width_narrows_with_the_noise():
    """A map with little noise is predicted best from near neighbours; pure noise is not predicted at all."""
    sharp = causal_graph(make_nlvar3(400, noise=0.001, rng=1).series, n_resamples=1, rng=0).bandwidths
    blurred = causal_graph(make_nlvar3(400, noise=0.3, rng=1).series, n_resamples=1, rng=0).bandwidths
    assert np.nanmax(sharp) < np.nanmin(blurred)


@pytest.mark.parametrize("measure", ["conditional_cs", "kernel_granger"])
def test_a_rare_event_was_warned_of_in_words_of_the_inside(measure):
    """More than half of the pairs of a binary series are equal: the bandwidth is found all the same, as for others."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=120) > 0.8).astype(float)
    y = np.concatenate([[0.0], x[:-1]]) + 0.3 * rng.normal(size=120)
    assert causal_test(x, y, measure=measure, n_resamples=39, rng=0).pvalue <= 0.05
