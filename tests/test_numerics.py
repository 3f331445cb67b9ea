"""Finite for every finite input, equal to the dense formula where that is finite, whatever the tiles and threads."""

import decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import condcs
from condcs._kernels import log_kernels
from condcs._kernels.log_kernels import Differences, Expanded

from .dense import dense_conditional_cs

WIDTHS = {"bandwidth_x": 1.0, "bandwidth_y": 1.0}


def samples(rng, n=40, m=30, dx=3, dy=2):
    return [rng.normal(size=shape) for shape in ((n, dx), (n, dy), (m, dx), (m, dy))]


def log_domain_oracle(xp, yp, xq, yq, bx, by):
    """Prop. 2 with every sum in the log domain (scipy's logsumexp) on dense exponents."""
    from scipy.special import logsumexp

    def exponents(a, b, width):
        return -((a[:, None, :] - b[None, :, :]) ** 2).sum(-1) / (2 * width**2)

    data = {"p": (xp, yp), "q": (xq, yq)}

    def log_t(g, h):
        ex, own = (exponents(data[g][0], data[k][0], bx) for k in (h, g))
        ey = exponents(data[g][1], data[h][1], by)
        return logsumexp(logsumexp(ex + ey, axis=1) - logsumexp(ex, axis=1) - logsumexp(own, axis=1))

    return log_t("p", "p") + log_t("q", "q") - log_t("p", "q") - log_t("q", "p")


@pytest.mark.parametrize("gap", [0.0, 10.0, 38.0, 39.0, 60.0, 1e3, 1e5])
def test_samples_that_move_apart_in_x(rng, gap, library):
    """Through the edge of underflow (38.6 widths) and far beyond, without a jump: the log-domain rows take over."""
    xp, yp, xq, yq = samples(rng)
    data = [xp, yp, xq + gap, yq]
    value = float(condcs.conditional_cs(*(library.asarray(a) for a in data), **WIDTHS))
    # Exponents reach gap^2: their rounding is all that the comparison has to allow for.
    assert value == pytest.approx(log_domain_oracle(*data, 1.0, 1.0), abs=1e-10 + 4e-16 * gap**2)


@pytest.mark.parametrize("width", [1.0, 0.1, 0.03])
@pytest.mark.parametrize("dx", [1, 5, 20])
def test_narrow_kernels_in_many_dimensions(rng, width, dx):
    """With 20 columns and a tenth of a width nearly every row underflows."""
    data = samples(rng, dx=dx)
    value = condcs.conditional_cs(*data, bandwidth_x=width, bandwidth_y=width)
    assert value == pytest.approx(log_domain_oracle(*data, width, width), abs=1e-9)


def test_columns_in_any_order_of_memory(rng):
    """Transposed and strided views are data like any other."""
    data = samples(rng)
    expected = condcs.conditional_cs(*data, **WIDTHS)
    assert condcs.conditional_cs(*(np.asfortranarray(a) for a in data), **WIDTHS) == pytest.approx(expected, abs=1e-12)
    strided = [np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2] for a in data]
    assert condcs.conditional_cs(*strided, **WIDTHS) == pytest.approx(expected, abs=1e-12)


def test_response_that_moves_apart(rng):
    xp, yp, xq, yq = samples(rng)
    for gap in (30.0, 60.0, 1e4):
        value = condcs.conditional_cs(xp, yp, xq, yq + gap, **WIDTHS)
        assert value == pytest.approx(log_domain_oracle(xp, yp, xq, yq + gap, 1.0, 1.0), rel=1e-12)


def test_one_outlier_in_x(rng):
    xp, yp, xq, yq = samples(rng, dx=1)
    xp[0] = 50.0
    assert condcs.conditional_cs(xp, yp, xq, yq, **WIDTHS) == pytest.approx(
        log_domain_oracle(xp, yp, xq, yq, 1.0, 1.0), abs=1e-10
    )


def exact_conditional_cs(xp, yp, xq, yq, bx, by):
    """Prop. 2 in decimal arithmetic of 60 digits: numbers of any size, nothing to cancel."""
    decimal.getcontext().prec = 60

    def rows(table):
        return [[decimal.Decimal(float(v)) for v in row] for row in table]

    def exponents(row, table, width):
        scale = 2 * decimal.Decimal(width) ** 2
        return [-sum((a - b) ** 2 for a, b in zip(row, other, strict=True)) / scale for other in table]

    data = [(rows(xp), rows(yp)), (rows(xq), rows(yq))]

    def log_t(g, h):
        total = decimal.Decimal(0)
        for x, y in zip(*data[g], strict=True):
            ex, ey, own = (exponents(x, data[h][0], bx), exponents(y, data[h][1], by), exponents(x, data[g][0], bx))
            ex = [e - max(ex) for e in ex]
            a, b = sum(e.exp() for e in ex), sum((e + f).exp() for e, f in zip(ex, ey, strict=True))
            total += b / a / sum(e.exp() for e in own)
        return total.ln()

    return float(log_t(0, 0) + log_t(1, 1) - log_t(0, 1) - log_t(1, 0))


@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e7, 1e9, 1e12])
@pytest.mark.parametrize("columns", [1, 3])
def test_one_far_row_does_not_cancel_the_response(library, outlier, columns):
    """Exponents of -R^2 / 2 swallowed those of y: one row at 1e9 turned 0.29 into 0.02."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(24, columns)), 3)
    y = x[:, :1] + 0.3 * rng.normal(size=(24, 1))
    x[0, 0], x[3, 0] = outlier, -outlier
    data = [x[:14], y[:14], x[14:], y[14:]]
    value = float(condcs.conditional_cs(*(library.asarray(a) for a in data), **WIDTHS))
    assert value == pytest.approx(exact_conditional_cs(*data, 1.0, 1.0), abs=1e-10)
    single = condcs.conditional_cs(*(library.asarray(a.astype(np.float32)) for a in data), **WIDTHS)
    assert "float32" in str(single.dtype)
    exact = exact_conditional_cs(*(a.astype(np.float32) for a in data), 1.0, 1.0)
    assert float(single) == pytest.approx(exact, abs=1e-4)


def test_samples_far_apart_keep_the_digits_of_the_response(library):
    """All rows of one sample are far from all of the other: the nearest row decides, in every group."""
    rng = np.random.default_rng(1)
    xp, yp, xq, yq = (np.round(a, 3) for a in samples(rng, n=10, m=8, dx=2, dy=1))
    xq[:4] += 1e6
    xq[4:] -= 3e7
    for weights in ({}, {"weights_p": np.arange(10.0), "weights_q": np.ones(8)}):
        expected = condcs.conditional_cs(xp, yp, xq, yq, **WIDTHS, **weights)
        given = {name: library.asarray(w) for name, w in weights.items()}
        data = [library.asarray(a) for a in (xp, yp, xq, yq)]
        for estimator in ("paper", "pooled"):
            assert np.isfinite(float(condcs.conditional_cs(*data, estimator=estimator, **WIDTHS, **given)))
        assert float(condcs.conditional_cs(*data, **WIDTHS, **given)) == pytest.approx(expected, rel=1e-12)
        if not weights:
            assert expected == pytest.approx(exact_conditional_cs(xp, yp, xq, yq, 1.0, 1.0), rel=1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", ["laplacian", "gaussian"]])
def test_beyond_some_distance_it_does_not_matter_how_far(kernel):
    """The nearest row takes all: an outlier at 1e12 counts as one at 1e5."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))

    def value(distance):
        moved = x.copy()
        moved[0] = distance
        return condcs.conditional_cs(moved[:20], y[:20], moved[20:], y[20:], kernel_x=kernel, **WIDTHS)

    assert value(1e12) == pytest.approx(value(1e5), abs=1e-3 if kernel == "laplacian" else 1e-4)


@pytest.mark.slow
def test_far_rows_inside_jit_and_in_gradients():
    """Where values cannot be looked at, and where derivatives are taken, far rows are mended too."""
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")

    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(24, 1)), 3)
    y = x + 0.3 * rng.normal(size=(24, 1))
    function = jax.jit(lambda *a: condcs.conditional_cs(*a, **WIDTHS))
    gradients = {}
    for outlier in (1e5, 1e9):
        x[3] = outlier
        data = [x[:12], y[:12], x[12:], y[12:]]
        exact = condcs.conditional_cs(*data, **WIDTHS)
        single = function(*(jax.numpy.asarray(a, np.float32) for a in data))
        assert float(single) == pytest.approx(exact, abs=1e-5)
        with jax.enable_x64(True):
            arrays = [jax.numpy.asarray(a) for a in data]
            assert float(function(*arrays)) == pytest.approx(exact, abs=1e-10)
            slope = np.asarray(jax.jit(jax.grad(function, argnums=1))(*arrays))
        tensors = [torch.tensor(a, requires_grad=True) for a in data]
        condcs.conditional_cs(*tensors, **WIDTHS).backward()
        gradients[outlier] = tensors[1].grad.numpy()
        np.testing.assert_allclose(slope, gradients[outlier], atol=1e-10)
        assert np.isfinite(tensors[0].grad.numpy()).all()
    np.testing.assert_allclose(gradients[1e9], gradients[1e5], atol=1e-10)
    assert np.abs(gradients[1e9]).max() > 1e-3


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
def test_dense_formula_wherever_the_data_lie(offset, spread):
    """Clusters far from the origin and far from each other: the expansion would lose digits, differences do not."""
    rng = np.random.default_rng(3)
    centres = spread * np.round(rng.normal(size=(6, 2)), 2)
    x = offset + centres[rng.integers(6, size=120)] + np.round(rng.normal(size=(120, 2)), 3)
    y = rng.normal(size=(120, 1))
    data = [x[:60], y[:60], x[60:], y[60:]]
    expected = dense_conditional_cs(*data, 1.0, 1.0)
    assert np.isfinite(expected)
    assert condcs.conditional_cs(*data, **WIDTHS) == pytest.approx(expected, abs=1e-10 * max(1, abs(expected)))


def test_all_forms_of_the_gaussian_are_exercised(rng):
    """The cheap form for compact data, differences for spread-out data. Or nothing is proven."""
    from condcs._core.arrays import NUMPY

    compact, spread = rng.normal(size=(10, 2)), 1e4 * rng.normal(size=(10, 2))
    for values, form in ((compact, Expanded), (spread, Differences)):
        assert type(log_kernels.gaussian(NUMPY, values, np.ones(2))) is form
    assert type(log_kernels.gaussian(NUMPY, 1e200 * compact, np.ones(2))) is Differences


anything = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e308, max_value=1e308)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(arrays(float, (4, 2), elements=anything), arrays(float, (4, 1), elements=anything), st.floats(1e-150, 1e150))
def test_finite_for_every_finite_input(x, y, width):
    """Values up to 1e308 with widths from 1e-150 to 1e150."""
    for kernel in ("gaussian", "laplacian"):
        options = {"bandwidth_x": width, "bandwidth_y": 1.0, "kernel_x": kernel, "kernel_y": kernel}
        for estimator in ("paper", "pooled", "p"):
            assert np.isfinite(condcs.conditional_cs(x[:2], y[:2], x[2:], y[2:], estimator=estimator, **options))
    assert np.isfinite(condcs.cs(x[:2], x[2:], bandwidth=width))
    assert np.isfinite(condcs.mmd(x[:2], x[2:], bandwidth=width))
    assert np.isfinite(
        condcs.conditional_cs_predictors(y, x, x[:, :1], bandwidth_x1=width, bandwidth_x2=width, bandwidth_y=1.0)
    )


def test_numbers_too_large_to_square_stay_apart():
    """Rows 1e200 widths from each other are as different as any, not equal."""
    far = condcs.cs(np.array([1e200, 2e200]), np.array([3e200, 4e200]), bandwidth=1.0)
    assert far > 1e100


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_extreme_units(rng, scale):
    """Data and widths in extreme units give the value of ordinary units."""
    data = samples(rng)
    ordinary = condcs.conditional_cs(*data)
    assert condcs.conditional_cs(*(scale * a for a in data)) == pytest.approx(ordinary, rel=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_tiles_and_threads_do_not_matter(rng, kernel):
    """Tile sizes agree to 1e-12; thread counts bit for bit."""
    data = samples(rng, n=700, m=600)
    options = {"kernel_x": kernel, "kernel_y": kernel}
    values = {}
    for tile in (64, 100, 256, 2048):
        for n_threads in (1, 2, 3):
            with condcs.config_context(n_threads=n_threads, tile=tile):
                values[tile, n_threads] = condcs.conditional_cs(*data, **options)
        assert values[tile, 1] == values[tile, 2] == values[tile, 3]
    spread = max(values.values()) - min(values.values())
    assert spread < 1e-12


def test_tiles_do_not_matter_where_rows_underflow(rng):
    xp, yp, xq, yq = samples(rng, n=300, m=200)
    values = []
    for tile in (16, 64, 512):
        with condcs.config_context(tile=tile):
            values.append(condcs.conditional_cs(xp, yp, xq + 50, yq, **WIDTHS))
    assert max(values) - min(values) < 1e-12


@pytest.mark.parametrize("factor", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("gap", [0.0, 3.0, 30.0])
def test_single_precision(rng, library, factor, gap):
    """float32 in, float32 out, within 1e-4 max(1, |D|) of the same numbers in double precision."""
    xp, yp, xq, yq = (a.astype(np.float32) for a in samples(rng, n=300, m=200, dx=5))
    data = [xp, yp, xq + np.float32(gap), yq]
    options = {"bandwidth_x": factor * condcs.bandwidth(data[0], data[2]), "bandwidth_y": factor}
    exact = condcs.conditional_cs(*(a.astype(float) for a in data), **options)
    value = condcs.conditional_cs(*(library.asarray(a) for a in data), **options)
    assert "float32" in str(value.dtype)
    assert float(value) == pytest.approx(exact, abs=1e-4 * max(1, abs(exact)))


def test_half_precision_keeps_its_type():
    torch = pytest.importorskip("torch")

    data = [torch.randn(20, 2, generator=torch.Generator().manual_seed(i)).half() for i in range(4)]
    value = condcs.conditional_cs(*data, bandwidth_x=1.0, bandwidth_y=1.0)
    assert value.dtype == torch.float16
    exact = condcs.conditional_cs(*(d.double() for d in data), bandwidth_x=1.0, bandwidth_y=1.0)
    # Half precision has 11 bits: the result is rounded once, at the end.
    assert float(value) == pytest.approx(float(exact), rel=2**-10)
