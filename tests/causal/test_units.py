"""The unit of a series says nothing about what drives it: scores and p-values are the same in all of them."""

import numpy as np
import pytest

from condcs._core.errors import DataError
from condcs.causal import ConditionalCS, KernelGranger, causal_graph, causal_score, causal_test, select_embeddings

MEASURES = ["conditional_cs", "linear_granger", "kernel_granger", "transfer_entropy"]


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 120))
    return np.column_stack([x, np.roll(x, 1) + noise, rng.normal(size=120)])


@pytest.fixture(scope="module")
def graph():
    """A function that returns the graph of some series, made once."""
    made = {}

    def once(values, **options):
        key = (values.tobytes(), *options.items())
        if key not in made:
            made[key] = causal_graph(values, n_resamples=19, rng=0, **options)
        return made[key]

    return once


@pytest.mark.parametrize("power", [-1000, -531, 531])
@pytest.mark.parametrize("measure", MEASURES)
def test_scaling_all_series_by_a_power_of_two_leaves_the_graph_as_it_is(series, graph, measure, power):
    """At 2**-531 = 1e-160 squares underflow: every score was NaN, and every link had the smallest p-value.

    Scaled by a power of two, no digit changes. Only the regressions of "linear_granger" see a column of ones beside
    the values, so all measures are held to equal p-values and that one to scores within its rounding.
    """
    plain, scaled = (graph(values, measure=measure) for values in (series, np.ldexp(series, power)))
    np.testing.assert_array_equal(plain.pvalues, scaled.pvalues)
    np.testing.assert_allclose(scaled.scores, plain.scores, rtol=1e-10)
    if plain.bandwidths is not None:
        np.testing.assert_array_equal(scaled.bandwidths, np.ldexp(plain.bandwidths, power))


@pytest.mark.parametrize("null", ["windows", "circular", "local"])
@pytest.mark.parametrize("measure", ["conditional_cs", "linear_granger", "transfer_entropy"])
def test_every_series_may_have_a_unit_of_its_own(series, graph, measure, null):
    powers = np.array([-531, 0, 531])
    options = {"measure": measure, "null": null, "conditional": True}
    plain, scaled = (graph(values, **options) for values in (series, np.ldexp(series, powers)))
    np.testing.assert_array_equal(plain.pvalues, scaled.pvalues)


@pytest.mark.parametrize("power", [-600, 600])
@pytest.mark.parametrize("measure", [ConditionalCS, KernelGranger])
def test_a_given_width_is_in_the_unit_of_the_series(series, measure, power):
    x, y = series[:, 0], series[:, 1]
    options = {"n_resamples": 19, "rng": 0}
    plain = causal_test(x, y, measure=measure(bandwidth=0.7), **options)
    wide = measure(bandwidth=np.ldexp(0.7, power))
    scaled = causal_test(np.ldexp(x, power), np.ldexp(y, power), measure=wide, **options)
    assert (scaled.statistic, scaled.pvalue) == (plain.statistic, plain.pvalue)
    np.testing.assert_array_equal(scaled.null_distribution, plain.null_distribution)


def test_a_width_far_beyond_the_series_finds_nothing(series):
    """Every kernel value is 1: the score is 0 up to rounding, and the p-value 1."""
    tiny = 1e-200 * series[:, :2]
    options = {"null": "windows", "n_resamples": 19, "rng": 0}
    found = causal_test(tiny[:, 0], tiny[:, 1], measure=ConditionalCS(bandwidth=1.0), **options)
    assert found.statistic == pytest.approx(0.0, abs=1e-12)
    assert found.pvalue == 1.0


def test_one_huge_value_does_not_push_the_others_out_of_range(series):
    """Its kernel values are 0 at any size from 1e6 on, so the score is the same, up to the width's own rounding."""
    scores = []
    for outlier in (1e6, 1e200):
        x = series[:, 0].copy()
        x[5] = outlier
        with np.errstate(over="ignore"):
            scores.append(causal_score(x, series[:, 1], measure=ConditionalCS(bandwidth=0.5)))
    assert scores[0] == pytest.approx(scores[1], rel=1e-12)


def test_embedding_does_not_depend_on_the_unit(series):
    plain, scaled = (select_embeddings(v, max_lag=2, max_order=2) for v in (series, np.ldexp(series, -700)))
    assert plain == scaled


def test_a_multiple_of_a_series_is_not_the_same_series(series):
    """Both are kept in units of their own, in which they look alike."""
    found = causal_test(series[:, 0], 4 * series[:, 0] + series[:, 1], n_resamples=19, rng=0)
    assert np.isfinite(causal_score(series[:, 0], 4 * series[:, 0], measure=ConditionalCS(bandwidth=1.0)))
    assert 0 < found.pvalue <= 1


def test_a_constant_series_is_an_error(series):
    series[:, 2] = 1e-160
    with pytest.raises(DataError, match="must vary, but column 'x3' is constant"):
        causal_graph(series, n_resamples=19)
