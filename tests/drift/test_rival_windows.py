"""`condcs reproduce drift`: the rivals that compare a window with a reference, and rows whose inputs alone moved."""

from __future__ import annotations

import numpy as np
import pytest

from condcs_reproduction.divergence_window import ContextWindow, DivergenceWindow
from condcs_reproduction.drift import nearest_rows


def test_context_mmd_of_a_window():
    """Against embeddings made with inverse matrices; and 0 if the window is the reference."""
    rng = np.random.default_rng(0)
    x, y, seen = (
        rng.normal(size=(30, 2)),
        rng.normal(size=(30, 1)),
        (rng.normal(size=(20, 2)), rng.normal(size=(20, 1))),
    )

    def gram(a, b, width):
        return np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2) / (2 * width**2))

    def weights(inputs):
        return np.linalg.inv(gram(inputs, inputs, 0.8) + 0.01 * len(inputs) * np.eye(len(inputs))) @ gram(
            inputs, seen[0], 0.8
        )

    pooled = np.vstack([weights(x), -weights(seen[0])])
    both = np.vstack([y, seen[1]])
    expected = np.einsum("ic,ij,jc->", pooled, gram(both, both, 1.3), pooled) / 20
    for rows, value in ((seen, expected), ((x, y), 0.0)):
        window = ContextWindow(np.hstack([x, y]), 2, len(rows[0]), (0.8, 1.3))
        found = [window.push(row) for row in np.hstack(rows)]
        assert np.isnan(found[:-1]).all()
        assert found[-1] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("statistic", ["conditional_cs", "context_mmd"])
def test_windows_notice_a_turned_relation(statistic):
    rng = np.random.default_rng(1)

    def rows(n, slope):
        x = rng.normal(size=(n, 2))
        return x, slope * x[:, 0] + 0.5 * rng.normal(size=n)

    watch = DivergenceWindow(*rows(300, 1.0), 40, 5000, 20, statistic).fresh()
    assert not watch(*rows(100, 1.0)).any()
    assert watch(*rows(100, -1.0)).any()


def test_nearest_rows_are_taken_once():
    """In units of each column's deviation; the second of two equal inputs gets the next row."""
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 100.0], [1.0, 100.0]])
    found, y = nearest_rows((x, np.arange(4.0)), np.array([[0.9, 20.0], [0.9, 20.0], [0.0, 70.0]]))
    assert y.tolist() == [1, 3, 2]
    np.testing.assert_array_equal(found, x[[1, 3, 2]])
