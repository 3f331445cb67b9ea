"""One answer rests on one fit: the picture, the test, the regions and the sizes of a comparison agree about x."""

from __future__ import annotations

import numpy as np
import pytest

import condcs
from condcs import TableOptions
from condcs._inference import adjustment as adjustment_module
from condcs._inference import conditional_tests, propensities
from condcs._regression.smoother import Smoother


def corner(seed=0, rows=300):
    """Two tables of clusters whose y jumps in a corner, where more rows are of the second; nothing else differs."""
    rng = np.random.default_rng(seed)
    tables = []
    for sample in range(2):
        a, b = rng.normal(0.3 * sample, 1, size=(2, rows))
        y = 4.0 * ((a > 0) & (b > 0)) + 0.5 * rng.normal(size=rows)
        tables.append({"a": a, "b": b, "y": y, "customer": np.arange(rows) // 3, "weight": rng.uniform(1, 2, rows)})
    return tables


@pytest.fixture
def fits(monkeypatch):
    """Count the propensities that are fitted."""
    calls = []

    def counted(*arguments, **options):
        calls.append(arguments)
        return propensities.chosen_propensity(*arguments, **options)

    for module in (adjustment_module, conditional_tests):
        monkeypatch.setattr(module, "chosen_propensity", counted)
    return calls


@pytest.mark.parametrize("clusters", [False, True])
def test_the_picture_of_a_comparison_had_a_fit_of_its_own(clusters, fits):
    """Without jumps and without clusters; the regression is that of `condcs.witness` with both."""
    tables = TableOptions(cluster="customer" if clusters else None)
    comparison = condcs.compare(*corner(), y="y", x="a,b", n_resamples=19, n_jobs=1, tables=tables)
    assert len(fits) == 1
    pair = comparison.pair
    drawn = comparison.location.witness
    assert len(fits) == 1
    names = {"clusters_p": pair.clusters_p, "clusters_q": pair.clusters_q}
    alone = condcs.witness(pair.xp, pair.yp, pair.xq, pair.yq, at=drawn.at, **names)
    assert np.allclose(drawn.values, alone.values, rtol=1e-9, atol=1e-12)
    assert (comparison.location.propensity.units is not None) == clusters


def test_the_picture_of_a_comparison_followed_no_jumps():
    comparison = condcs.compare(*corner(), y="y", x="a,b", n_resamples=19, n_jobs=1)
    pair, drawn = comparison.pair, comparison.location.witness
    smooth = Smoother(np.concatenate([pair.xp, pair.xq]), (False, False))
    residuals = smooth.residuals(np.concatenate([pair.yp, pair.yq])).in_sample
    samples = pair.xp, residuals[: len(pair.xp)], pair.xq, residuals[len(pair.xp) :]
    assert not np.allclose(drawn.values, condcs.witness(*samples, at=drawn.at, adjust=False).values, rtol=0.05)


def test_weights_made_the_test_fit_everything_again(fits):
    """The shared fit, and P(table | x, weight), from which labels of weighted rows are redrawn."""
    condcs.compare(*corner(), y="y", x="a,b", n_resamples=19, n_jobs=1, tables=TableOptions(weights="weight"))
    assert [x.shape[1] for _, x, *_ in fits] == [2, 3]
