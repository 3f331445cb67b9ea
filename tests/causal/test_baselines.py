"""The baselines against closed forms and independent code."""

import numpy as np
import pytest

from condcs.causal import KernelGranger, TransferEntropy, causal_score, causal_test
from condcs.causal._influence_measures import differential_entropy
from condcs.datasets import make_nlvar3


def linear_pair(n, coupling, seed):
    """X drives y: y_t = 0.5 y_{t-1} + c x_{t-1} + noise, x white."""
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=(2, n))
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = 0.5 * y[t - 1] + coupling * x[t - 1] + noise[t]
    return x, y


@pytest.mark.parametrize("estimator", ["frenzel_pompe", "entropies"])
@pytest.mark.parametrize("coupling", [0.0, 0.5, 1.0])
def test_transfer_entropy_of_a_gaussian_pair(coupling, estimator):
    """TE = 0.5 log(1 + c^2): the ratio of the two prediction errors. At n = 4,000 both estimators scatter by 0.02."""
    x, y = linear_pair(4000, coupling, 3)
    value = causal_score(x, y, embedding=1, measure=TransferEntropy(estimator=estimator))
    assert value == pytest.approx(0.5 * np.log(1 + coupling**2), abs=0.06)


def test_entropy_of_a_standard_normal_and_of_a_square():
    rng = np.random.default_rng(0)
    assert differential_entropy(rng.normal(size=(4000, 2)), 3) == pytest.approx(1 + np.log(2 * np.pi), abs=0.06)
    assert differential_entropy(rng.uniform(0, 3, size=(4000, 2)), 3) == pytest.approx(2 * np.log(3), abs=0.06)


def test_linear_granger_is_the_f_test_of_nested_regressions():
    x, y = linear_pair(200, 0.3, 1)
    target, ones = y[2:], np.ones(198)
    small = np.stack([ones, y[1:-1], y[:-2]], 1)
    large = np.column_stack([small, x[1:-1], x[:-2]])
    rest = [np.sum((target - m @ np.linalg.lstsq(m, target, rcond=None)[0]) ** 2) for m in (small, large)]
    expected = (rest[0] - rest[1]) / 2 / (rest[1] / (198 - 5))
    assert causal_score(x, y, embedding=2, measure="linear_granger") == pytest.approx(expected, rel=1e-9)


def test_analytic_pvalue_is_that_of_statsmodels():
    tools = pytest.importorskip("statsmodels.tsa.stattools")
    x, y = linear_pair(200, 0.15, 2)
    ours = causal_test(x, y, embedding=2, measure="linear_granger", null="analytic")
    theirs = tools.grangercausalitytests(np.column_stack([y, x]), [2])[2][0]["ssr_ftest"]
    assert (ours.statistic, ours.pvalue) == pytest.approx(theirs[:2], rel=1e-8)


def test_kernel_granger_by_dense_projections():
    """Marinazzo's index from explicit projectors, on a pair where it is neither 0 nor 1."""
    x, y = linear_pair(150, 0.6, 4)
    target, own, source = y[1:, None], y[:-1, None], x[:-1, None]
    value = causal_score(x, y, measure=KernelGranger(bandwidth=2.0, tolerance=1e-3, eigensolver="full"))

    def centred(v):
        K = np.exp(-((v[:, None] - v[None]) ** 2).sum(-1) / 8)
        H = np.eye(len(v)) - 1 / len(v)
        return H @ K @ H

    K, both = centred(own), centred(np.hstack([own, source]))
    values, vectors = np.linalg.eigh(K)
    V = vectors[:, values > 1e-3 * values[-1]]
    Q = np.eye(len(y) - 1) - V @ V.T
    inner_values, inner = np.linalg.eigh(Q @ both @ Q)
    T = inner[:, inner_values > 1e-3 * np.linalg.eigvalsh(both)[-1]]
    rest = Q @ (target[:, 0] - target.mean())
    r = np.array([np.corrcoef(rest, t)[0, 1] for t in T.T])
    from scipy.stats import pearsonr

    significant = [pearsonr(rest, t).pvalue < 0.05 / len(r) for t in T.T]
    assert value == pytest.approx(np.sum(r[significant] ** 2), rel=1e-6)
    assert 0.05 < value < 0.95


def test_low_rank_spectrum_agrees_with_the_full_one():
    x1, x2, _ = make_nlvar3(300, rng=0).series.T
    full = causal_score(x1, x2, measure=KernelGranger(tolerance=1e-4, eigensolver="full"))
    assert causal_score(x1, x2, measure=KernelGranger(tolerance=1e-4)) == pytest.approx(full, abs=0.01)


def test_true_links_score_higher_by_every_baseline():
    x1, _, x3 = make_nlvar3(400, rng=1).series.T
    for measure in ("kernel_granger", "transfer_entropy"):
        assert causal_score(x1, x3, measure=measure) > causal_score(x3, x1, measure=measure) + 0.1
