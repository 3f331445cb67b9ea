"""Tables of which many rows have labels that occur together in one table only."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import condcs
from condcs.exceptions import OverlapError, OverlapWarning

QUICK = {"n_resamples": 99, "n_jobs": 1}


def labelled(seed, rows, columns, labels=5):
    """A table with so many columns of labels, one of numbers, and a response that follows the numbers."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({f"label{i}": rng.choice([f"v{j}" for j in range(labels)], rows) for i in range(columns)})
    size = rng.normal(size=rows)
    return table.assign(size=size, y=size + rng.normal(size=rows))


def with_gaps(table, seed, columns):
    rng = np.random.default_rng(seed)
    return table.assign(**{name: table[name].mask(rng.random(len(table)) < 0.04) for name in columns})


def test_labels_that_both_tables_have_were_said_to_be_in_one_alone():
    """The combination of labels and flags of gaps is what the other table lacks; both numbers are counted by pandas."""
    tables = [with_gaps(labelled(seed, 400, 2), 10 + seed, ["label0", "size"]) for seed in (1, 2)]
    keys = [t["label0"].fillna("gap") + t["label1"] + t["size"].isna().astype(str) for t in tables]
    lonely = sum((~own.isin(set(other))).sum() for own, other in (keys, keys[::-1]))
    found = condcs.compare(*tables, y="y", tables=condcs.TableOptions(missing="as-value"), **QUICK)
    (note,) = (note for note in found.notes if "combination" in note)
    assert note.startswith(
        f"In {lonely} of 800 rows the combination of labels of label0, label1, size (missing) does not occur in the "
        "other table, though each label by itself does."
    )
    assert "another sample" not in "".join(found.notes)


def test_a_label_of_one_table_alone_is_named_by_its_column():
    tables = [labelled(seed, 200, 2, labels=2) for seed in (1, 2)]
    tables[1].loc[:6, "label1"] = "new"
    notes = condcs.compare(*tables, y="y", **QUICK).notes
    assert any("a label that it does not have at all: label1 (7 rows)" in note for note in notes)
    notes = condcs.compare(*tables, y="y", x="label1,size", **QUICK).notes
    assert any(note.startswith("In 7 of 400 rows label1 has a label that the other table does not") for note in notes)


def test_the_warning_of_the_test_has_fields():
    """Combinations need no counterpart; labels that the other sample does not have at all are warned of."""
    tables = [labelled(seed, 100, 3, labels=4) for seed in (1, 2)]
    tables[1].loc[:6, "label1"] = "new"
    x = [t[["label0", "size", "label1", "label2"]].to_numpy(object) for t in tables]
    y = [t["y"].to_numpy() for t in tables]
    with pytest.warns(OverlapWarning, match="x has a label that another sample does not have") as told:
        condcs.conditional_test(
            x[0], y[0], x[1], y[1], kernel_x=["delta", "gaussian", "delta", "delta"], rng=0, **QUICK
        )
    warning = told[0].message
    assert (warning.kind, warning.rows, warning.of_rows, warning.columns) == ("labels", 7, 200, (2,))
    assert str(warning).startswith("in 7 of 200 rows")
    again = pickle.loads(pickle.dumps(warning))
    assert (str(again), vars(again)) == (str(warning), vars(warning))


@pytest.mark.parametrize("columns", [7, 12])
@pytest.mark.filterwarnings("error")
def test_tables_with_many_labels_could_not_be_compared(columns):
    """At 7 columns some rows meet, at 12 none does."""
    found = condcs.compare(*(labelled(seed, 300, columns) for seed in (1, 2)), y="y", **QUICK)
    (note,) = (note for note in found.notes if "combination" in note)
    assert note.endswith("The test compares such rows with rows of which only some labels differ.")
    assert found.to_dict()["changed"] is False
    assert np.isfinite(found.relation.divergence)
    assert np.isfinite(found.location.witness.values).all()


def binary_table(seed, rows, effect=0.0):
    """Twelve columns of two labels that say little of one another, as in surveys; y follows two of them."""
    rng = np.random.default_rng(seed)
    labels = rng.random((rows, 12)) < 0.5
    names = [f"q{i}" for i in range(12)]
    table = pd.DataFrame(np.where(labels, "yes", "no"), columns=names)
    changed = effect * labels[:, 3]
    return table.assign(y=labels[:, 0] + 0.5 * labels[:, 1] + changed + rng.normal(size=rows))


def test_a_change_in_one_label_of_twelve_columns_is_found():
    """Of 200 + 200 rows fewer than one in ten has a counterpart; y rises by 1.5 where q3 is yes."""
    found = condcs.compare(binary_table(1, 200), binary_table(2, 200, effect=1.5), y="y", **QUICK)
    assert found.to_dict()["changed"] is True
    by_view = dict(zip(found.relation.views, found.relation.pvalues, strict=True))
    assert by_view["divergence"] == 0.01


@pytest.mark.slow
def test_the_level_holds_with_labels_that_do_not_meet():
    """400 pairs of tables in which nothing changed: rejections at 0.05 lie within the 99.9% binomial interval, 7 to 36.

    The divergence by itself, which alone compares rows by their labels, as well as all views together.
    """
    rejections = np.zeros(2)
    kernel_x = ["delta"] * 6
    for seed in range(400):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 4, (120, 6)).astype(str)
        y = (x[:, 0] == "1") + rng.normal(size=120)
        found = condcs.conditional_test(
            x[:60], y[:60], x[60:], y[60:], kernel_x=kernel_x, n_resamples=99, rng=seed, n_jobs=1
        )
        divergence = found.details["pvalues"][found.details["views"].index("divergence")]
        rejections += np.array([found.pvalue, divergence]) <= 0.05
    assert (rejections >= 7).all()
    assert (rejections <= 36).all()


def test_tests_of_samples_without_a_label_in_common_are_refused():
    rng = np.random.default_rng(0)
    x = np.array([["a", "u"], ["b", "u"]])[np.repeat([0, 1], 30)]
    y = rng.normal(size=60)
    with pytest.raises(OverlapError, match="conditional_test: the samples must overlap: column 'x1' of x has no label"):
        condcs.conditional_test(x[:30], y[:30], x[30:], y[30:], kernel_x="delta", **QUICK)


def test_the_picture_is_drawn_at_rows_whose_labels_both_tables_have():
    tables = [labelled(seed, 300, 5) for seed in (1, 2)]
    tables[1].loc[:99, "label1"] = "new"
    found = condcs.compare(*tables, y="y", **QUICK)
    at = found.location.witness.at
    assert len(at) == 250
    assert np.isfinite(found.location.witness.values).all()
    column = [column.name for column in found.pair.x].index("label1")
    assert found.pair.x[column].labels.index("new") not in at[:, column]


def test_a_group_with_labels_of_its_own_was_not_compared():
    """Each column has a label of the other months in a few rows, so that no combination of all six is met."""
    table = pd.concat([labelled(seed, 120, 6, labels=2).assign(month=f"m{seed}") for seed in (1, 2, 3)])
    last = table["month"] == "m3"
    for place in range(6):
        column = f"label{place}"
        table.loc[last, column] = np.where(np.arange(120) % 7 == place, table.loc[last, column], "other")
    found = condcs.compare_groups(table, group="month", y="y", against="first", matrix=True, n_resamples=99, n_jobs=1)
    assert found.names == ("m2", "m3")
    assert np.isfinite(found.divergences).all()
