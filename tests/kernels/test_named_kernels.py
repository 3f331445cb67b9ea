"""The tables of kernels and bandwidth rules: what holds for every row, and one registered here."""

from typing import get_args

import numpy as np
import pytest

import condcs
from condcs._core.arrays import NUMPY, backend_of
from condcs._core.errors import BandwidthError, DataError, ParameterError
from condcs._kernels.bandwidths import BANDWIDTH_RULES, BandwidthRuleName, RuleWidths
from condcs._kernels.log_kernels import LogKernel
from condcs._kernels.named_kernels import NAMED_KERNELS, KernelName, NamedKernel, check_kernel, kernel_of_widths
from tests.docs.pages import DOCS

RNG = np.random.default_rng(29)
NUMBERS = RNG.normal(size=(20, 3))
LABELS = RNG.integers(0, 2, size=(20, 3)).astype(float)
WIDTHS = np.array([0.7, 1.5, 3.0])
YP, YQ = RNG.normal(size=12), RNG.normal(size=8)


def exponents(name, values, *, by_column=False):
    option = check_kernel("kernel_x", (name,) * 3 if by_column else name)
    widths = None if NAMED_KERNELS[name].of_labels else WIDTHS
    if NAMED_KERNELS[name].similarities is not None:
        widths = np.array([0.2, 0.01, 0.9])
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


def test_docstrings_of_measures_repeated_the_names_of_kernels():
    """A new kernel took a change of each; they refer to the guide, which names every kernel."""
    guide = (DOCS / "guide" / "bandwidth.md").read_text(encoding="utf-8")
    assert [name for name in NAMED_KERNELS if f'| `"{name}"` | ' not in guide] == []
    listed = ", ".join(f'"{name}"' for name in [*NAMED_KERNELS][:2])
    for measure in (condcs.conditional_cs, condcs.cs):
        assert listed not in measure.__doc__
        assert "docs/guide/bandwidth.md" in measure.__doc__


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
    with pytest.raises(ParameterError, match=", ".join(map(repr, NAMED_KERNELS))):
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


def similarities_by_hand(rows):
    """1 / (1 + C m): m is the mean number of other rows with the same labels in all columns, C that of labels."""
    counterparts = np.mean([sum((row == other).all() for other in rows) - 1 for row in rows])
    return np.array([1 / (1 + len(set(column)) * counterparts) for column in rows.T])


def test_labels_borrow_strength_as_aitchison_and_aitken_say():
    """Against a dense product over columns; the share of other labels falls as rows have more counterparts."""
    rng = np.random.default_rng(3)
    for n, labels in ((20, (2, 3, 4)), (60, (2, 70, 3)), (200, (3,))):
        rows = np.column_stack([rng.integers(0, k, n) for k in labels]).astype(float)
        y = rng.normal(size=n)
        similarities = similarities_by_hand(rows)

        def dense(a, b, r=similarities):
            return np.where(a[:, None] == b, 1.0, r).prod(-1)

        p, q = rows[: n // 2], rows[n // 2 :]
        data = p, y[: n // 2], q, y[n // 2 :]
        found = condcs.conditional_cs(*data, kernel_x="aitchison-aitken")
        assert found == pytest.approx(condcs.conditional_cs(*data, kernel_x=dense), rel=1e-10)
        assert condcs.cs(p, q, kernel="aitchison-aitken") == pytest.approx(condcs.cs(p, q, kernel=dense), rel=1e-9)
        # lambda = s (C - 1) / C of the mass goes to C - 1 other labels, s = 1 / (1 + m).
        n_labels = len(set(rows[:, 0]))
        share = (n_labels - 1) * similarities[0] / (1 + (n_labels - 1) * similarities[0])
        counterparts = (1 / similarities[0] - 1) / n_labels
        assert share == pytest.approx((n_labels - 1) / n_labels / (1 + counterparts))


def test_one_column_of_labels_with_many_rows_is_compared_by_equality():
    """With 1,000 rows of 3 labels another label counts 1 / 1,000: the divergence is that of equality to 1%."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 1000)
    y = rng.normal(size=1000) + np.where(np.arange(1000) < 500, label, -label)
    data = label[:500], y[:500], label[500:], y[500:]
    by_equality = condcs.conditional_cs(*data, kernel_x="delta")
    assert condcs.conditional_cs(*data, kernel_x="aitchison-aitken") == pytest.approx(by_equality, rel=0.01)


def test_labels_that_borrow_strength_are_not_split_into_blocks():
    """Sampled sums visit rows of other labels as well; with every row an anchor they are exact."""
    rng = np.random.default_rng(5)
    labels, numbers, y = rng.integers(0, 3, (300, 2)), rng.normal(size=300), rng.normal(size=300)
    x = np.column_stack([labels, numbers])
    data = x[:150], y[:150], x[150:], y[150:]
    options = {"kernel_x": ["aitchison-aitken", "aitchison-aitken", "gaussian"]}
    sampled = condcs.conditional_cs(*data, **options, method=condcs.Sampled(relative_error=1e-6))
    assert float(sampled) == pytest.approx(condcs.conditional_cs(*data, **options), rel=1e-6)


def test_kernels_that_count_labels_are_refused_where_these_are_not_known():
    labels = np.arange(20) % 3
    with pytest.raises(ParameterError, match="for data in chunks"):
        condcs.chunked_divergence((labels, YP), (labels, YQ), measure="conditional_cs", kernel_x="aitchison-aitken")
    jax = pytest.importorskip("jax")
    of_labels = jax.jit(lambda x: condcs.cs(x, x, kernel="aitchison-aitken"))
    with pytest.raises(DataError, match="inside jax"):
        of_labels(jax.numpy.asarray(labels * 1.0))


def test_kernels_by_column_skip_the_widths_of_labels():
    """Columns of labels have no bandwidth; those of numbers keep theirs."""
    option = check_kernel("kernel_x", ("delta", "gaussian", "laplacian"))
    values = np.column_stack([LABELS[:, 0], NUMBERS[:, 1:]])
    kernel = kernel_of_widths(option, np.array([np.nan, 1.5, 3.0]), values, NUMPY)
    difference = values[:, None] - values
    expected = np.where(difference[..., 0] == 0, 0, -np.inf)
    expected = expected - (difference[..., 1] / 1.5) ** 2 / 2 - np.abs(difference[..., 2]) / 3
    np.testing.assert_allclose(kernel.block(slice(None), slice(None)), expected, atol=1e-12)
