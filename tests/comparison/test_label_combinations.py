"""Tables of which many rows have labels that occur together in one table only."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import condcs
from condcs.cli.app import app
from condcs.comparison._label_combinations import label_overlap_of
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
    tables = [labelled(seed, 100, 3, labels=4) for seed in (1, 2)]
    x = [t[["label0", "size", "label1", "label2"]].to_numpy(object) for t in tables]
    y = [t["y"].to_numpy() for t in tables]
    with pytest.warns(OverlapWarning, match="x has a combination of labels that another sample does not have") as told:
        condcs.conditional_test(
            x[0], y[0], x[1], y[1], kernel_x=["delta", "gaussian", "delta", "delta"], rng=0, **QUICK
        )
    warning = told[0].message
    assert (warning.kind, warning.of_rows, warning.columns) == ("labels", 200, (0, 2, 3))
    assert str(warning).startswith(f"in {warning.rows} of 200 rows")
    again = pickle.loads(pickle.dumps(warning))
    assert (str(again), vars(again)) == (str(warning), vars(warning))


@pytest.mark.parametrize("columns", [7, 12])
def test_tables_with_many_labels_ended_in_an_error_of_inner_functions(columns):
    """At 7 columns some rows meet, yet redrawn labels leave none; the remedy of the message is one that works."""
    tables = [labelled(seed, 300, columns) for seed in (1, 2)]
    with pytest.raises(OverlapError) as caught:
        condcs.compare(*tables, y="y", **QUICK)
    message = str(caught.value)
    assert message.startswith(f"compare: the {columns} inputs with labels split 600 rows into ")
    assert "label0 (5 labels), label1 (5 labels)" in message
    assert not re.search("kernel|conditional_test|xp", message)
    (remedy,) = re.findall(r"with x='([^']+)'", message)
    (matched,) = re.findall(r"(\d+) of 600 rows have a counterpart", message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = condcs.compare(*tables, y="y", x=remedy, **QUICK)
    assert {column.name for column in found.pair.x} == set(remedy.split(","))
    assert int(label_overlap_of(found.pair).matched.sum()) == int(matched) >= 540
    assert found.to_dict()["changed"] is False


def test_the_command_names_the_option(tmp_path):
    for seed in (1, 2):
        labelled(seed, 60, 6).to_csv(tmp_path / f"{seed}.csv", index=False)
    words = [
        "compare",
        str(tmp_path / "1.csv"),
        str(tmp_path / "2.csv"),
        "--y",
        "y",
        "--resamples",
        "39",
        "--jobs",
        "1",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    (remedy,) = re.findall(r"with --x ([\w,]+)", " ".join(done.stderr.split()))
    assert CliRunner().invoke(app, [*words, "--x", remedy]).exit_code in (0, 1)


def test_the_picture_is_drawn_at_rows_that_have_a_counterpart():
    """Of 5 columns about 80 combinations in 500 + 500 rows occur in both tables; 250 rows of any kind have few."""
    tables = [labelled(seed, 500, 5) for seed in (1, 2)]
    found = condcs.compare(*tables, y="y", **QUICK)
    (note,) = (note for note in found.notes if "combination" in note)
    assert "Compare fewer inputs: with x=" in note
    meeting = label_overlap_of(found.pair).matched.sum()
    assert 80 < meeting < 250
    assert len(found.location.witness.at) == meeting


def test_a_group_with_labels_of_its_own_is_a_note():
    table = pd.concat([labelled(seed, 120, 6, labels=2).assign(month=f"m{seed}") for seed in (1, 2, 3)])
    last = table["month"] == "m3"
    for place in range(6):
        column = f"label{place}"
        table.loc[last, column] = np.where(np.arange(120) % 7 == place, table.loc[last, column], "other")
    table.loc[last, "label0"] = np.where(np.arange(120) < 2, "v0", "other")
    found = condcs.compare_groups(table, group="month", y="y", against="first", n_resamples=99, n_jobs=1)
    assert found.names == ("m2",)
    assert any(note.startswith("m3 could not be compared: the 6 inputs with labels") for note in found.notes)
