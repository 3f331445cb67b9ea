"""The tables of kernels and bandwidth rules: what holds for every row, and one registered here."""

from typing import get_args

import numpy as np
import pytest

import condcs
from condcs._core.arrays import NUMPY, backend_of
from condcs._core.errors import BandwidthError, ParameterError
from condcs._kernels.bandwidths import BANDWIDTH_RULES, BandwidthRuleName, RuleWidths
from condcs._kernels.log_kernels import LogKernel
from condcs._kernels.named_kernels import NAMED_KERNELS, KernelName, NamedKernel, check_kernel, kernel_of_widths

RNG = np.random.default_rng(29)
NUMBERS = RNG.normal(size=(20, 3))
LABELS = RNG.integers(0, 2, size=(20, 3)).astype(float)
WIDTHS = np.array([0.7, 1.5, 3.0])
YP, YQ = RNG.normal(size=12), RNG.normal(size=8)


def exponents(name, values, *, by_column=False):
    option = check_kernel("kernel_x", (name,) * 3 if by_column else name)
    widths = None if NAMED_KERNELS[name].of_labels else WIDTHS
    backend = backend_of(values)
    kernel = kernel_of_widths(option, widths, values, backend)
    return kernel, backend.to_numpy(kernel.block(slice(None), slice(None)))


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("name", NAMED_KERNELS)
def test_every_named_kernel_is_a_similarity(name, by_column):
    """Symmetric, 1 for a row with itself, at most 1, and the same for rows in another order."""
    values = LABELS if NAMED_KERNELS[name].of_labels else NUMBERS
    kernel, block = exponents(name, values, by_column=by_column)
    np.testing.assert_allclose(block, block.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(block), 0, atol=1e-12)
    assert (block <= 1e-12).all()
    order = RNG.permutation(len(values))
    np.testing.assert_allclose(kernel.take(order).block(slice(None), slice(None)), block[order][:, order], atol=1e-12)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("name", NAMED_KERNELS)
def test_every_named_kernel_is_the_same_in_torch(name, by_column):
    torch = pytest.importorskip("torch")
    values = LABELS if NAMED_KERNELS[name].of_labels else NUMBERS
    expected = exponents(name, values, by_column=by_column)[1]
    actual = exponents(name, torch.tensor(values), by_column=by_column)[1]
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_names_for_type_checkers_are_those_of_the_tables():
    assert get_args(KernelName) == tuple(NAMED_KERNELS)
    assert get_args(BandwidthRuleName) == tuple(BANDWIDTH_RULES)


class RationalQuadratic(LogKernel):
    """An example: -log(1 + |a - b|^2 / (2 width^2)), summed over columns."""

    def __init__(self, backend, values, widths):
        super().__init__(backend, (values / widths,))

    def evaluate(self, left, right):
        return -np.log1p((left[0][:, None] - right[0]) ** 2 / 2).sum(-1)


def make_rational_quadratic(backend, values, widths, centre, *, by_column):
    return RationalQuadratic(backend, values, widths)


def test_a_kernel_of_ones_own_is_a_class_and_a_row(monkeypatch):
    """Registered, it has bandwidths by rule, joins other kernels, and is named where a name is wrong."""
    monkeypatch.setitem(NAMED_KERNELS, "rational", NamedKernel(make_rational_quadratic))
    p, q = NUMBERS[:12], NUMBERS[12:]
    widths = condcs.bandwidth(p, q)

    def as_function(a, b):
        return np.exp(-np.log1p(((a[:, None] - b) / widths) ** 2 / 2).sum(-1))

    by_name = condcs.conditional_cs(p, YP, q, YQ, kernel_x="rational")
    assert by_name == pytest.approx(condcs.conditional_cs(p, YP, q, YQ, kernel_x=as_function), rel=1e-10)

    mixed = condcs.conditional_cs(p, YP, q, YQ, kernel_x=["rational", "gaussian", "rational"], bandwidth_x=widths)

    def as_mixed_function(a, b):
        squares = ((a[:, None] - b) / widths) ** 2 / 2
        return np.exp(-squares[..., 1]) / ((1 + squares[..., 0]) * (1 + squares[..., 2]))

    assert mixed == pytest.approx(condcs.conditional_cs(p, YP, q, YQ, kernel_x=as_mixed_function), rel=1e-10)
    with pytest.raises(ParameterError, match="'delta', 'rational'"):
        condcs.conditional_cs(p, YP, q, YQ, kernel_x="rationnal")


def test_a_bandwidth_rule_of_ones_own_is_a_function_and_a_row(monkeypatch):
    monkeypatch.setitem(BANDWIDTH_RULES, "range", lambda values: RuleWidths(np.ptp(values, axis=0)))
    p, q = NUMBERS[:12], NUMBERS[12:]
    expected = np.ptp(NUMBERS, axis=0)
    np.testing.assert_allclose(condcs.bandwidth(p, q, rule="range"), expected)
    by_rule = condcs.conditional_cs(p, YP, q, YQ, bandwidth_x="range")
    assert by_rule == pytest.approx(condcs.conditional_cs(p, YP, q, YQ, bandwidth_x=expected), rel=1e-12)
    with pytest.raises(BandwidthError, match="constant"):
        condcs.bandwidth(p * [1, 0, 1], q * [1, 0, 1], rule="range")


def test_kernels_by_column_skip_the_widths_of_labels():
    """Columns of labels have no bandwidth; those of numbers keep theirs."""
    option = check_kernel("kernel_x", ("delta", "gaussian", "laplacian"))
    values = np.column_stack([LABELS[:, 0], NUMBERS[:, 1:]])
    kernel = kernel_of_widths(option, np.array([np.nan, 1.5, 3.0]), values, NUMPY)
    difference = values[:, None] - values
    expected = np.where(difference[..., 0] == 0, 0, -np.inf)
    expected = expected - (difference[..., 1] / 1.5) ** 2 / 2 - np.abs(difference[..., 2]) / 3
    np.testing.assert_allclose(kernel.block(slice(None), slice(None)), expected, atol=1e-12)
