"""Copies of rows are told from rows that are equal because values are few."""

import numpy as np
import pytest

from condcs._tables.copies import count_copies


def coarse(rows, seed, *, values=(8, 6, 5)):
    """Columns of few values, each with its own frequencies: half of the rows are equal to others by chance."""
    rng = np.random.default_rng(seed)
    return [rng.choice(count, rows, p=rng.dirichlet(np.ones(count))).astype(float) for count in values]


def rearranged(columns, order):
    return [column[order] for column in columns]


@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_copies_among_few_values_were_not_noticed(seed, factor):
    """Each row twice, in any order: all of 14 true hypotheses were rejected, and none with a word."""
    rng = np.random.default_rng([seed, factor])
    columns = rearranged(coarse(300, seed), rng.permutation(np.repeat(np.arange(300), factor)))
    assert count_copies(columns) == (factor - 1) * 300


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_nearly_all_rows_were_not_noticed(seed):
    """Of the rows that occur twice, a tenth got lost once."""
    rng = np.random.default_rng(seed)
    twice = rng.permutation(np.repeat(np.arange(300), 2))
    found = count_copies(rearranged(coarse(300, seed, values=(30, 20, 5)), twice[rng.random(600) > 0.05]))
    assert 200 < found <= 300


@pytest.mark.parametrize("seed", range(3))
def test_a_part_that_was_appended_again_was_not_noticed(seed):
    """A third of the table, in its order, after other rows or amid them."""
    rows = np.arange(300)
    for order in (np.append(rows, rows[:100]), np.concatenate([rows[:250], rows[50:150], rows[250:]])):
        assert 100 <= count_copies(rearranged(coarse(300, seed), order)) <= 106


def test_equal_rows_of_few_values_are_no_copies():
    """Of 100 tables, each flagged with a probability of a millionth: in random order, sorted, or as a design."""
    for seed in range(100):
        columns = coarse(300, seed)
        assert not count_copies(columns)
        assert not count_copies(rearranged(columns, np.lexsort(columns)))
        # Inputs that come in the same order again and again, and a response of two values.
        design = [np.tile(np.arange(25.0), 12), np.tile(np.arange(5.0), 60), columns[0] % 2]
        assert not count_copies(design)


def test_eleven_different_rows_among_a_thousand_were_called_copies():
    """One column tells them all apart, but its values are few."""
    values = np.random.default_rng(0).integers(11, size=1000).astype(float)
    assert not count_copies([values, np.zeros(1000)])
