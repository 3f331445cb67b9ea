"""The witness: against the dense formula and a closed form, finite everywhere, and right about where."""

import numpy as np
import pytest
from scipy.stats import norm

from condcs._core.errors import OverlapError, OverlapWarning, ParameterError, ShapeError
from condcs._inference import witness as witness_module
from condcs._inference.conditional_tests import conditional_test
from condcs._inference.nulls import label_sampler
from condcs._inference.propensities import fitted_propensity, propensity_of_caller
from condcs._inference.witness import witness
from condcs._parallel import many_rows
from condcs._regression.smoother import Smoother
from condcs.datasets import make_local_shift
from tests.dense import gram


def dense_witness(xp, yp, xq, yq, at, bx, by, wp=None, wq=None):
    wp, wq = (np.ones(len(a)) if w is None else w for a, w in ((xp, wp), (xq, wq)))
    u, v = gram(at, xp, bx) * wp, gram(at, xq, bx) * wq
    u, v = u / u.sum(axis=1, keepdims=True), v / v.sum(axis=1, keepdims=True)

    def form(a, left, b, right):
        return np.log(np.einsum("ri,ij,rj->r", a, gram(left, right, by), b))

    return form(u, yp, u, yp) + form(v, yq, v, yq) - 2 * form(u, yp, v, yq)


@pytest.fixture
def samples(rng):
    xp, xq = rng.normal(size=(40, 2)), rng.normal(size=(55, 2)) + 0.4
    yp, yq = (x[:, :1] + rng.normal(size=(len(x), 1)) for x in (xp, xq))
    return xp, yp, xq, yq


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_dense_formula(samples, rng, weighted):
    at = rng.normal(size=(7, 2))
    wp, wq = (rng.random(40), rng.random(55)) if weighted else (None, None)
    options = {"at": at, "bandwidth_x": 0.7, "bandwidth_y": 0.9, "weights_p": wp, "weights_q": wq}
    found = witness(*samples, adjust=False, **options)
    assert np.allclose(found.values, dense_witness(*samples, at, 0.7, 0.9, wp, wq), rtol=0, atol=1e-11)
    assert np.array_equal(found.at, at)
    xp, yp, xq, yq = samples
    left = Smoother(np.concatenate([xp, xq]), (False, False)).residuals(np.concatenate([yp, yq])).in_sample
    adjusted = dense_witness(xp, left[:40], xq, left[40:], at, 0.7, 0.9, wp, wq)
    assert np.allclose(witness(*samples, **options).values, adjusted, rtol=0, atol=1e-11)


def test_many_rows_were_a_matter_of_their_square(samples, rng, monkeypatch):
    """Above `EXACT_ROWS` the Gram matrix on y is a product of factors, which is exact to 1e-10 of an entry."""
    at, weights = rng.normal(size=(7, 2)), (rng.random(40), rng.random(55))
    monkeypatch.setattr(many_rows, "EXACT_ROWS", 10)
    found = witness(
        *samples, at=at, adjust=False, bandwidth_x=0.7, bandwidth_y=0.9, weights_p=weights[0], weights_q=weights[1]
    )
    assert np.allclose(found.values, dense_witness(*samples, at, 0.7, 0.9, *weights), rtol=0, atol=1e-7)


def test_the_default_points_are_the_pooled_rows(samples):
    found = witness(*samples, adjust=False, bandwidth_x=0.7, bandwidth_y=0.9)
    at = np.concatenate([samples[0], samples[2]])
    assert np.array_equal(found.at, at)
    assert np.allclose(found.values, dense_witness(*samples, at, 0.7, 0.9), rtol=0, atol=1e-11)
    assert found.band is None


@pytest.mark.parametrize("shift", [0.0, 0.8, 2.0])
def test_two_gaussians_at_a_point(shift):
    """One x, unit-variance Gaussian responses: D = shift^2 / (bandwidth^2 + 2)."""
    levels = (np.arange(1000) + 0.5) / 1000
    y = norm.ppf(levels)
    x = np.zeros(1000)
    found = witness(x, y, x, y + shift, at=[0.0], bandwidth_x=1.0, bandwidth_y=0.5)
    assert found.values[0] == pytest.approx(shift**2 / (0.5**2 + 2), rel=1e-3, abs=1e-12)


def test_finite_far_from_the_data_and_for_responses_far_apart():
    """The nearest rows decide far away; log T_pq = -gap^2 / (2 sigma^2) where every similarity underflows."""
    x, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.1, 0.3])
    far = witness(x, y, x, y + 100, at=[-1e6, 1.0, 1e6], adjust=False, bandwidth_x=0.1, bandwidth_y=0.5)
    assert np.isfinite(far.values).all()
    assert far.values[0] == pytest.approx(100**2 / 0.5**2, rel=1e-12)


def test_memory_budget_changes_nothing(samples, monkeypatch):
    whole = witness(*samples, n_resamples=40)
    monkeypatch.setattr(witness_module, "MEMORY_FLOATS", 8 * 95 * 9)
    parts = witness(*samples, n_resamples=40)
    assert np.allclose(parts.values, whole.values, rtol=0, atol=1e-11)
    assert np.allclose(parts.band, whole.band, rtol=0, atol=1e-6)


def test_the_band_is_the_quantile_of_redrawn_witnesses(samples):
    """Given probabilities make the labels; each draw's witness by the dense formula."""
    xp, yp, xq, yq = samples
    x, y = np.concatenate([xp, xq]), np.concatenate([yp, yq])
    chances = np.full(95, 0.5)
    found = witness(*samples, n_resamples=39, propensity=chances, adjust=False, bandwidth_x=0.7, bandwidth_y=0.9)
    groups, seed = np.repeat([0, 1], [40, 55]), np.random.default_rng(0)
    smoother = Smoother(x, (False, False))
    labels = propensity_of_caller(np.column_stack([1 - chances, chances]), smoother.designs, groups, seed).draw(
        39, seed
    )
    draws = [dense_witness(x[g == 0], y[g == 0], x[g == 1], y[g == 1], x, 0.7, 0.9) for g in labels]
    assert np.allclose(found.band, np.sort(draws, axis=0)[37], rtol=1e-5, atol=1e-7)
    assert np.allclose(found.expected, np.mean(draws, axis=0), rtol=1e-5, atol=1e-7)
    # The band for all points: the mean of the roots, of the labels as given too, plus as many of their deviations as 38
    # of 39 draws stay within.
    roots = np.sqrt(np.maximum([found.values, *draws], 0))
    largest = ((roots - roots.mean(axis=0)) / roots.std(axis=0)).max(axis=1)
    simultaneous = (roots.mean(axis=0) + np.sort(largest[1:])[37] * roots.std(axis=0)) ** 2
    assert np.allclose(found.simultaneous_band, simultaneous, rtol=1e-4, atol=1e-6)
    assert ((np.array(draws) <= simultaneous + 1e-9).all(axis=1)).sum() == 38


def test_the_band_was_crossed_where_only_a_correlation_of_x_shifts():
    """The level is 0.05 for all points at once; more than 4 of 15 pairs above it have probability 0.0006."""
    crossed = 0
    for seed in range(15):
        rng = np.random.default_rng([6, seed])
        xp, xq = rng.normal(size=(2, 120, 2))
        xq[:, 1] = 0.8 * xq[:, 0] + 0.6 * xq[:, 1]
        yp, yq = (x[:, 0] * x[:, 1] + 0.5 * rng.normal(size=120) for x in (xp, xq))
        found = witness(xp, yp, xq, yq, n_resamples=59, rng=seed)
        crossed += bool((found.values > found.simultaneous_band).any())
    assert crossed <= 4


@pytest.mark.parametrize("n_resamples", [19, 59])
def test_the_band_of_few_resamples_was_exceeded_too_often(n_resamples):
    """Draws were standardised by themselves: the values exceeded 25 of 60 bands of 19 resamples.

    Labels are exchangeable, so that the level is 0.05 for any number of resamples: more than 9 of 60 have probability
    0.001.
    """
    exceeded = 0
    for seed in range(60):
        rng = np.random.default_rng([7, seed])
        x, y = rng.normal(size=(120, 3)), rng.normal(size=120)
        samples = x[:60], y[:60], x[60:], y[60:]
        found = witness(*samples, n_resamples=n_resamples, null="permutation", adjust=False, rng=seed)
        exceeded += bool((found.values > found.simultaneous_band).any())
    assert exceeded <= 9


def test_a_jump_in_a_corner_was_taken_for_a_difference():
    """The regression of the witness followed no jumps, as that of tests does: values were 1.8 times those of the noise.

    Nothing changed, so that they are those of the noise by itself but for the errors of the fit; a fifth is allowed.
    """
    rng = np.random.default_rng([12, 0])
    x, noise = rng.normal(size=(600, 2)), 0.3 * rng.normal(size=600)
    in_corner = (x > 0.5).all(axis=1)
    y = 3.0 * in_corner + noise
    second = rng.random(600) < np.where(in_corner, 0.9, 0.3)
    found = witness(x[~second], y[~second], x[second], y[second], bandwidth_y=0.3)
    of_noise = witness(x[~second], noise[~second], x[second], noise[second], bandwidth_y=0.3, adjust=False)
    assert found.values.sum() < 1.2 * of_noise.values.sum()


def test_labels_of_clusters_are_redrawn_as_wholes(rng):
    """Rows of a cluster share their noise: independent labels would make the band far too low."""
    cluster = np.repeat(np.arange(40), 10)
    x, y = rng.normal(size=400), rng.normal(size=40)[cluster] + 0.3 * rng.normal(size=400)
    first = cluster < 20
    samples = x[first], y[first], x[~first], y[~first]
    alone = witness(*samples, n_resamples=99)
    found = witness(*samples, n_resamples=99, clusters_p=cluster[first], clusters_q=cluster[~first])
    assert np.median(found.expected) > 2 * np.median(alone.expected)
    with pytest.raises(ParameterError, match="`clusters_p` must go with null='propensity', got null='local'"):
        witness(*samples, n_resamples=99, clusters_p=cluster[first], clusters_q=cluster[~first], null="local")


def test_weights_on_another_scale_moved_the_band(samples):
    """Each sample has weights in a unit of its own; a row took its own along when its label was redrawn."""
    weights = np.ones(40), np.ones(55)
    bands = [
        witness(*samples, n_resamples=39, weights_p=weights[0], weights_q=unit * weights[1]).band for unit in (1, 100)
    ]
    assert np.allclose(*bands, rtol=1e-9)


@pytest.mark.parametrize("null", ["permutation", "propensity", "local"])
def test_the_band_of_samples_of_unequal_size(null):
    """60 and 140 rows that lie apart in x: labels redrawn directly from these sizes, each draw by the dense formula."""
    rng = np.random.default_rng(0)
    xp, xq = rng.normal(size=(60, 1)), rng.normal(1.0, 1, size=(140, 1))
    yp, yq = (x + rng.exponential(size=x.shape) for x in (xp, xq))
    x, y = np.concatenate([xp, xq]), np.concatenate([yp, yq])
    at = np.linspace(-1, 2, 7)[:, None]
    options = {"bandwidth_x": 0.4, "bandwidth_y": 0.8, "adjust": False}
    found = witness(xp, yp, xq, yq, at=at, n_resamples=39, null=null, rng=0, **options)
    groups, seed = np.repeat([0, 1], [60, 140]), np.random.default_rng(0)
    if null == "propensity":
        labels = fitted_propensity(Smoother(x, (False,)).designs, groups, 2, seed).draw(39, seed)
    else:
        labels = label_sampler(null, x, groups, rng=seed)(39)
    draws = [dense_witness(x[g == 0], y[g == 0], x[g == 1], y[g == 1], at, 0.4, 0.8) for g in labels]
    assert np.allclose(found.band, np.sort(draws, axis=0)[37], rtol=1e-5, atol=1e-7)
    assert np.allclose(found.expected, np.mean(draws, axis=0), rtol=1e-5, atol=1e-7)
    sizes = (labels == 0).sum(axis=1)
    assert np.all(np.abs(sizes - 60) < 25)


def test_finds_the_region():
    """Above the band in the middle of the region, below it far away; the largest value is inside."""
    data = make_local_shift(400)
    grid = np.linspace(-2.5, 2.5, 51)
    found = witness(data.xp, data.yp, data.xq, data.yq, at=grid, n_resamples=100)
    assert data.region[0] < grid[np.argmax(found.values)] < data.region[1]
    above = found.values > found.band
    assert above[(grid > 1.2) & (grid < 1.8)].all()
    assert above[grid < 0].mean() < 0.3
    assert (found.simultaneous_band > found.band).all()
    surely = found.values > found.simultaneous_band
    assert surely[(grid > 1.3) & (grid < 1.7)].all()
    assert not surely[grid < 0.5].any()


def test_same_seed_same_band(samples):
    first, second, third = (witness(*samples, n_resamples=40, null="local", rng=seed).band for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)


def test_labels_and_missing_categories():
    """A category that one sample lacks has no witness, and a warning says so."""
    xp, xq = np.array(["a"] * 20 + ["b"] * 20), np.array(["a"] * 30)
    y = np.random.default_rng(0).normal(size=70)
    with pytest.warns(OverlapWarning, match="1 of 2 points"):
        found = witness(xp, y[:40], xq, y[40:], at=np.array(["a", "b"]), kernel_x="delta")
    assert np.isfinite(found.values[0])
    assert np.isnan(found.values[1])
    with pytest.raises(OverlapError, match="witness: the samples must overlap"):
        witness(xp[20:], y[:20], xq, y[40:], kernel_x="delta")


def test_torch_tensors_and_frames_are_welcome(samples):
    torch, pandas = pytest.importorskip("torch"), pytest.importorskip("pandas")
    plain = witness(*samples)
    assert np.allclose(witness(*(torch.as_tensor(a) for a in samples)).values, plain.values)
    frames = [pandas.DataFrame(a, columns=["age", "dose"][: a.shape[1]]) for a in samples]
    named = witness(*frames, at=frames[0].iloc[:3])
    assert named.names == ("age", "dose")
    assert np.allclose(named.values, plain.values[:3])


BAD = {
    "level": ({"confidence_level": 1.0}, ParameterError, "`confidence_level`"),
    "too few": ({"n_resamples": 5}, ParameterError, "`n_resamples` must be 0 or at least 19"),
    "null": ({"null": "guess"}, ParameterError, "`null`"),
    "columns": ({"at": np.zeros((3, 5))}, ShapeError, "`at`"),
    "indefinite": (
        {"kernel_y": lambda a, b: np.abs(a - b.T), "n_resamples": 40},
        ParameterError,
        "positive definite",
    ),
}


@pytest.mark.parametrize(("options", "error", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_named(samples, options, error, message):
    with pytest.raises(error, match=f"witness: .*{message}"):
        witness(*samples, **options)


@pytest.mark.parametrize(("columns", "panels"), [(1, 1), (2, 2), (5, 3)])
def test_pictures(rng, columns, panels):
    """A curve, a map with its colour bar, and three panels of five inputs."""
    pytest.importorskip("matplotlib")
    x, y = rng.normal(size=(80, columns)), rng.normal(size=80)
    figure = witness(x[:40], y[:40], x[40:], y[40:], n_resamples=19).plot()
    assert len(figure.axes) == panels
    figure.canvas.draw()


def test_the_most_telling_input_comes_first(rng):
    pytest.importorskip("matplotlib")
    x = rng.normal(size=(400, 3))
    y = 0.3 * rng.normal(size=400)
    y[200:] += 2.0 * (x[200:, 2] > 0)
    figure = witness(x[:200], y[:200], x[200:], y[200:]).plot(max_panels=1)
    assert figure.axes[0].get_xlabel() == "x3"


def test_x_of_a_single_label_ended_in_an_index_error(rng):
    """All rows have the same x: the relation is the distribution of y, which tests and witness compare."""
    xp, xq, yp, yq = np.full(60, "a"), np.full(40, "a"), rng.normal(size=60), rng.normal(size=40) + 1
    options = {"kernel_x": "delta", "rng": 0, "n_resamples": 99}
    assert witness(xp, yp, xq, yq, **options).values[0] > 0
    assert conditional_test(xp, yp, xq, yq, **options).pvalue == 0.01
