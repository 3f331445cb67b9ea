"""Independence by random signs: the level with nonlinear confounding, and the views each against what it sees."""

import numpy as np
import pytest

import condcs
from condcs._inference.responses import adjusted_response
from condcs._inference.views import views_of_dependence
from condcs._regression.smoother import Smoother
from condcs.exceptions import ParameterError


def _confounded(kind, rng, n=150):
    """Return x and y that both follow z, and nothing else."""
    if kind == "products and squares":
        z = rng.normal(size=(n, 5))
        common = z[:, 0] * z[:, 1] + z[:, 2] ** 2
    elif kind == "sum of ten":
        z = rng.normal(size=(n, 10))
        common = z.sum(axis=1) / np.sqrt(10)
    elif kind == "largest of four":
        z = rng.normal(size=(n, 4))
        common = 2.5 * z.max(axis=1)
    else:
        z = rng.normal(size=(n, 1))
        common = np.sin(3 * z[:, 0])
    x, y = common + rng.normal(size=(2, n))
    return x, y, z


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["products and squares", "sum of ten", "largest of four", "wave"])
def test_nonlinear_confounding_by_many_variables_keeps_the_level(kind):
    rejected = 0
    for seed in range(100):
        x, y, z = _confounded(kind, np.random.default_rng([1, seed]))
        rejected += condcs.independence_test(x, y, given=z, n_resamples=99, rng=seed).pvalue <= 0.05
    # Binomial(100, 0.05) exceeds 13 in 1 of 2,000 cases; permutations among neighbours reject 20 to 25.
    assert rejected <= 13


def _dependent(view, rng, n=200):
    x, e = rng.normal(size=(2, n))
    z = rng.normal(size=(n, 1))
    scale = 1 / np.sqrt(rng.chisquare(2, size=n) / 2)
    return {
        "linear": (x, 0.5 * x + z[:, 0] + e),
        "moderated": (x, np.sign(x * z[:, 0]) + 0.5 * e),
        "spread": (scale * x, scale * e),
        "local": (x, 2 * x * (np.abs(z[:, 0]) < 0.5) - 0.5 * x + e),
        "shape": (x, np.sin(4 * x) + z[:, 0] + 0.5 * e),
        "waves": (2 * z[:, 0] + x, np.sin(3 * (2 * z[:, 0] + x)) + 0.5 * e),
    }[view], z


@pytest.mark.parametrize("view", ["linear", "moderated", "spread", "local", "shape", "waves"])
def test_each_view_sees_the_dependence_that_it_is_made_for(view):
    (x, y), z = _dependent(view, np.random.default_rng(2))
    result = condcs.independence_test(x, y, given=z, n_resamples=199, rng=0)
    assert result.null == "signs"
    assert result.pvalue <= 0.05
    assert result.details["pvalues"][result.details["views"].index(view)] <= 0.02


def test_labels_on_either_side():
    rng = np.random.default_rng(3)
    z, x, e = rng.normal(size=(3, 200))
    label = np.where(x + e > 0, "yes", "no")
    options = {"given": z, "n_resamples": 99, "rng": 0}
    assert condcs.independence_test(x, label, kernel_y="delta", **options).pvalue == 0.01
    assert condcs.independence_test(label, x, kernel_x="delta", **options).pvalue == 0.01
    other = np.where(e > 0, "yes", "no")
    assert condcs.independence_test(x, other, kernel_y="delta", **options).pvalue > 0.05


def test_the_same_answer_whatever_the_threads():
    x, y, z = _confounded("wave", np.random.default_rng(4))
    results = [condcs.independence_test(x, y, given=z, n_resamples=50, rng=3, n_jobs=n) for n in (1, 2)]
    np.testing.assert_array_equal(results[0].null_distribution, results[1].null_distribution)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"measure": "mmd"}, "`measure`"),
        ({"measure": condcs.PermutedMeasure()}, "`measure`"),
        ({"given": None}, "`given`"),
    ],
)
def test_what_signs_cannot_do_is_said(options, named):
    x, y, z = _confounded("wave", np.random.default_rng(5))
    with pytest.raises(ParameterError, match=named):
        condcs.independence_test(x, y, **{"given": z, "null": "signs", **options})


def test_what_regressions_use_up_is_missing_from_the_signs_of_the_data(monkeypatch):
    """Independent noise after fits with 3 degrees of freedom for 10 rows: sums vary as they do under random signs.

    The mean of 1,000 squared sums, in units of their variances, is 1 within 3.3 standard errors of sqrt(2 / 1000); with
    signs of 1 it is 1.3.
    """
    monkeypatch.setattr("condcs._regression.smoother.RIDGE_PENALTIES", np.array([1e-3]))
    monkeypatch.setattr("condcs._regression.smoother.NEEDED_ERROR_RATIO", np.inf)
    # Sums over pairs are not looked at here: features that cost nothing.
    monkeypatch.setattr("condcs._inference.responses._kernel_features", lambda values, *_: values)
    rng = np.random.default_rng(0)
    smoother = Smoother(rng.normal(size=(54, 4)), (False,) * 4)
    smoother.designs = smoother.designs[:1]
    assert len(smoother.designs[0].spectrum) == 17
    squares = []
    for _ in range(1000):
        x, y = (adjusted_response(rng.normal(size=(54, 1)), (False,), smoother) for _ in range(2))
        views = views_of_dependence(x, y, x.narrow, smoother)
        products = views.sums["linear"][:, 0]
        squares.append((views.data_signs @ products) ** 2 / np.sum(products**2))
    assert abs(np.mean(squares) - 1) < 3.3 * np.sqrt(2 / 1000)
