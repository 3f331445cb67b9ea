"""Columns as arrays: whatever class holds the cells of a column, they mean what each of them means by itself."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from condcs._core.errors import DataError
from condcs._tables.cells import (
    Cells,
    DayCells,
    DurationCells,
    FloatCells,
    IntegerCells,
    OtherCells,
    TextCells,
    TimeCells,
    TruthCells,
    as_day,
    as_number,
    cells_of,
    cells_of_array,
    cells_of_dates,
    gap_marks,
    is_missing,
    join_cells,
    label_of,
)
from condcs._tables.in_memory import as_table
from condcs._tables.kinds import READ_KINDS, Column, Derived, ReadKind, derive_inputs, tell_kind
from condcs._tables.pair import ReadOptions, read_pair
from condcs._tables.sampling import RowSampler
from condcs._tables.sources import TableBatch

MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)

EXAMPLES = {
    FloatCells: [cells_of_array(np.array([1.0, -0.5, np.nan, np.inf, 1.0, 1e300])), cells_of([1.0, None, 2.5])],
    IntegerCells: [
        cells_of_array(np.array([0, 1, -(2**63), 2**63 - 1, 1])),
        cells_of_array(np.array([2**64 - 1, 3], np.uint64)),
        cells_of([3, None, 4]),
    ],
    TruthCells: [cells_of_array(np.array([True, False, True])), cells_of([None, True])],
    DayCells: [cells_of_dates(np.array(["0001-01-01", "NaT", "9999-12-31", "2024-02-29"], "M8[D]"))],
    TimeCells: [
        cells_of_array(np.array(["2024-02-29T12:30:00.123456", "NaT", "1700-01-01"], "M8[us]")),
        cells_of_array(np.array(["0001-01-01", "9999-12-31T23:59:59.999999", "2300-01-01T00:00:00.123457"], "M8[us]")),
    ],
    DurationCells: [cells_of_array(np.array([0, 1, -86_400_000_001, 2**61], "m8[us]"))],
    TextCells: [
        cells_of(["1", " 1.0 ", "NA", "", "x", "1", "1_0", "2024-02-29", "٣", "1e999"]),
        cells_of([None, "u", float("nan"), "v"]),
        cells_of(["1,5", "2", "1.5"]),
        cells_of(["1.5", "-2e3", "7"]),
    ],
    OtherCells: [
        cells_of([1, 1.0, True, "1", None, decimal.Decimal("1.00"), decimal.Decimal("1.0"), MOMENT, MOMENT.date()]),
        cells_of([2**70, None, 1]),
        cells_of([MOMENT.replace(tzinfo=datetime.UTC), MOMENT]),
    ],
}
"""Of each class; a new one needs a row, or the test below fails."""


def all_classes(base: type = Cells) -> set[type]:
    classes = {base} if not base.__name__.startswith("_") and base is not Cells else set()
    return classes.union(*(all_classes(each) for each in base.__subclasses__()))


def test_every_class_of_cells_has_examples():
    assert {kind: {type(cells) for cells in examples} for kind, examples in EXAMPLES.items()} == {
        kind: {kind} for kind in all_classes()
    }


def value_of(read, cell, *options):
    try:
        return np.nan if is_missing(cell) else read(cell, *options)
    except ValueError:
        return np.nan


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(cells, id=f"{type(cells).__name__}-{number}")
        for examples in EXAMPLES.values()
        for number, cells in enumerate(examples)
    ],
)
def test_a_column_means_what_its_cells_mean(cells):
    """To the last digit: the arithmetic on arrays is that on single cells."""
    single = [cells.cell(row) for row in range(len(cells))]
    assert cells.gaps.tolist() == [is_missing(cell) for cell in single]
    for sign in (".", ","):
        np.testing.assert_array_equal(cells.numbers(sign), [value_of(as_number, cell, sign) for cell in single])
    np.testing.assert_array_equal(cells.days(), [value_of(as_day, cell) for cell in single])
    assert cells.labels() == [label_of(None if is_missing(cell) else cell) for cell in single]
    present = [label_of(cell) for cell in single if not is_missing(cell)]
    assert cells.label_counts() == {label: present.count(label) for label in dict.fromkeys(present)}
    assert list(cells.label_counts()) == list(dict.fromkeys(present))
    is_mark = gap_marks(["1,x,0.5"])
    marked = [is_missing(cell) or is_mark(cell) for cell in single]
    assert cells.with_marks(is_mark).gaps.tolist() == marked
    rows = np.arange(len(cells))[::-1]
    assert cells.take(rows).labels() == cells.labels()[::-1]
    assert join_cells([cells, cells.take(rows)]).labels() == [*cells.labels(), *cells.labels()[::-1]]
    assert (cells.sizes() >= 24).all()


def test_columns_of_two_types_are_joined_as_the_values_they_hold():
    assert isinstance(join_cells([cells_of([1, 2]), cells_of([1.5])]), OtherCells)
    assert isinstance(join_cells([cells_of([None, None]), cells_of([1.5])]), FloatCells)
    assert join_cells([cells_of([True]), cells_of([1])]).labels() == ["True", "1"]
    assert len(join_cells([])) == 0


# --- sources ----------------------------------------------------------------------------------------------------------


def columns_of(table):
    batches = as_table("reference", table).batches(range(len(table.columns)))
    parts = zip(*(batch.columns for batch in batches), strict=True)
    return {name: type(join_cells(cells)) for name, cells in zip(table.columns, parts, strict=True)}


def test_a_data_frame_was_read_cell_by_cell():
    """200,000 rows of 11 columns took 2.4 s. Typed columns stay arrays."""
    rows = 12_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "float": rng.normal(size=rows),
            "small": rng.normal(size=rows).astype(np.float32),
            "int": rng.integers(0, 9, rows),
            "truth": rng.random(rows) < 0.5,
            "time": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "duration": pd.to_timedelta(np.arange(rows), unit="h"),
            "nullable": pd.array([None, *range(rows - 1)], dtype="Int64"),
            "label": np.resize(["u", "v"], rows),
            "category": pd.Categorical(np.resize(["u", None, "v"], rows)),
        }
    )
    assert columns_of(frame) == {
        "float": FloatCells,
        "small": FloatCells,
        "int": IntegerCells,
        "truth": TruthCells,
        "time": TimeCells,
        "duration": DurationCells,
        "nullable": IntegerCells,
        "label": TextCells,
        "category": TextCells,
    }


def test_columns_of_arrow_were_listed_cell_by_cell(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from condcs._tables.arrow_cells import cells_of_arrow

    examples = {
        FloatCells: pa.array([1.0, None, 2.5]),
        IntegerCells: pa.array([1, None, 2**63 - 1]),
        TruthCells: pa.array([True, None]),
        DayCells: pa.array([MOMENT.date(), None]),
        TimeCells: pa.array([MOMENT, None], pa.timestamp("us")),
        TextCells: pa.array(["u", None, "v", "u"]),
    }
    for kind, array in examples.items():
        for each in (array, array.dictionary_encode()) if kind is TextCells else (array, array[1:]):
            cells = cells_of_arrow(each)
            assert type(cells) is kind
            values = [cells.cell(row) for row in range(len(cells))]
            assert values == each.to_pylist()


def test_a_table_of_arrow_with_a_date_that_python_lacks_was_a_traceback():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    years = pa.table({"when": pa.array([253402300800] * 20, pa.timestamp("s")), "y": list(range(20))})
    with pytest.raises(DataError, match=r"readable values in column 'when' \(dates: years 1 to 9999\), got unreadable"):
        read_pair(as_table("reference", years), as_table("current", years), ReadOptions(y=["y"]))


def test_rows_that_are_not_wanted_any_more_are_let_go():
    """Of 100 batches of 100 texts, ten are kept: at most a batch and a quarter more of what is kept are held."""
    sampler = RowSampler(1, most=10, memory=10**6)
    rng = np.random.default_rng(0)
    for _ in range(100):
        sampler.add(TableBatch.of_rows([[f"text {i}"] for i in range(100)], range(100)), rng.random(100))
        assert sum(len(columns[0]) for columns in sampler._held) <= 12
    assert len(sampler.sample()) == 10


# --- kinds ------------------------------------------------------------------------------------------------------------


class ClockKind(ReadKind):
    """Times of day such as 7:30, in hours: what CONTRIBUTING asks of a new kind."""

    name = "clock"

    def read(self, cell, column):
        hours, minutes = str(cell).split(":")
        return int(hours) + int(minutes) / 60

    def derive(self, column, values):
        middle = np.nanmedian(np.concatenate(values))
        return [Derived(column, tuple(np.where(np.isnan(v), middle, v) for v in values))]


def test_a_kind_of_column_is_a_class_and_a_row(monkeypatch):
    monkeypatch.setattr("condcs._tables.kinds.READ_KINDS", [*READ_KINDS, ClockKind()])
    clock = [f"{7 + i % 5}:{15 * (i % 4):02d}" for i in range(60)]
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"clock": clock, "a": rng.normal(size=60), "y": rng.normal(size=60)})
    gaps = table.assign(clock=[None, *clock[1:]])
    pair = read_pair(as_table("reference", table), as_table("current", gaps), ReadOptions(y=["y"], missing="as-value"))
    assert [(column.name, column.kind) for column in pair.x] == [
        ("clock", "clock"),
        ("clock (missing)", "category"),
        ("a", "number"),
    ]
    assert pair.xp[:4, 0].tolist() == [7.0, 8.25, 9.5, 10.75]
    assert pair.xq[0, 0] == np.median([*pair.xp[:, 0], *pair.xp[1:, 0]])
    told = tell_kind("clock", [clock], category=None, response=None)
    assert told.encode(["12:00"], "t").tolist() == [12.0]
    with pytest.raises(DataError, match=r"must hold a clock in every cell of column 'clock', .* got 'noon'"):
        told.encode(["noon"], "t")


@pytest.mark.parametrize("kind", READ_KINDS, ids=lambda kind: kind.name)
def test_kinds_read_columns_as_they_read_cells(kind):
    """Typed columns at once, Python values one by one, gaps as NaN: all the same."""
    for cells in (cells for examples in EXAMPLES.values() for cells in examples):
        column = kind.column("c", [cells], ".")
        single = [value_of(kind.read, cells.cell(row), column) for row in range(len(cells))]
        np.testing.assert_array_equal(kind.values(cells, column), single)
        rows = ~np.isnan(single)
        if rows.any():
            readable = cells.take(rows)
            np.testing.assert_array_equal(column.encode(readable, "t"), column.encode(readable.tolist(), "t"))
    values = [np.array([1.0, np.nan, 400.0, 800.0])] * 2
    column = Column("c", kind.name)
    assert Column.from_description(column.description) == column
    inputs = derive_inputs([column], [values], {"c"}).derived
    assert inputs[-1].column.name == "c (missing)"
    assert all(np.isfinite(v).all() for derived in inputs for v in derived.values)
