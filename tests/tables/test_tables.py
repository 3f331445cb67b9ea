"""Tables from files and pipes: formats, samples within a budget, kinds of columns, and every way to fail."""

from __future__ import annotations

import datetime
import gzip
import io
import pickle
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from condcs._core.errors import CondcsError, DataError, OverlapError, ParameterError
from condcs._tables.cells import is_missing
from condcs._tables.kinds import LeftOut, tell_kind
from condcs._tables.pair import ReadOptions, choose_x_and_y, read_pair, select_columns
from condcs._tables.sampling import sample_rows
from condcs._tables.sources import FileOptions, TableBatch, open_table
from tests.house_prices import house_prices


def rows_of(path, **options):
    with open_table(str(path), FileOptions(**options)) as table:
        batches = list(table.batches(range(len(table.names))))
        return table.names, [list(row) for batch in batches for row in batch]


def as_stdin(monkeypatch, data: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def as_batch(rows):
    return TableBatch.of_rows(rows, [row[0] for row in rows])


FRAME = pd.DataFrame({"a": [1.5, 2.0, 3.25], "b": ["x", "y", "z, w"]})


def write_in(form, path):
    if form == "csv":
        FRAME.to_csv(path, index=False)
    elif form == "semicolon":
        FRAME.to_csv(path, index=False, sep=";")
    elif form == "gzip":
        path.write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
    elif form == "bom":
        FRAME.to_csv(path, index=False, encoding="utf-8-sig")
    elif form == "jsonl":
        FRAME.to_json(path, orient="records", lines=True)
    elif form == "parquet":
        FRAME.to_parquet(path, index=False)
    elif form == "arrow file":
        FRAME.to_feather(path)
    elif form == "arrow stream":
        pa = pytest.importorskip("pyarrow")
        table = pa.Table.from_pandas(FRAME, preserve_index=False)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("form", ["csv", "semicolon", "gzip", "bom", "jsonl", "parquet", "arrow file", "arrow stream"])
def test_every_format_gives_the_same_rows(tmp_path, form):
    """Told by the content alone: no file has an ending."""
    if "arrow" in form or form == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    write_in(form, tmp_path / "table")
    names, rows = rows_of(tmp_path / "table")
    assert names == ("a", "b")
    assert [[float(a), b] for a, b in rows] == FRAME.to_numpy().tolist()


@pytest.mark.parametrize("form", ["csv", "gzip", "jsonl", "arrow stream"])
def test_standard_input(tmp_path, monkeypatch, form):
    if form == "arrow stream":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    write_in(form, tmp_path / "table")
    as_stdin(monkeypatch, (tmp_path / "table").read_bytes())
    assert [float(row[0]) for row in rows_of("-")[1]] == [1.5, 2.0, 3.25]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"", {}, "is empty"),
        (b"\n\n", {}, "is empty"),
        (b"a,b\n1,2\n1\n", {}, "2 cells in every row, got 1 in line 3"),
        (b"a,a\n1,2\n", {}, "must name each column once, got 'a'"),
        ("näme,b\n1,2\n".encode("latin-1"), {}, "must be text in utf-8, got the byte 0xe4.*encoding="),
        ("a,b\n1,2\n".encode("utf-16"), {}, "encoding"),
        (b"a,b\n1,\x002\n", {}, "zero byte"),
        (b'a,b\n"1,2\n' + b"3,4\n" * 50_000, {}, "a quote that is never closed"),
        (b'{"a": 1}\n{"a": \n', {}, "one JSON object per line, got something else in line 2"),
        (b'{"a": 1}\n[1]\n', {}, "got list in line 2"),
        (b'{"a": [1]}\n', {}, "numbers or text in column 'a', got a list"),
        (b"PAR1 and then nothing", {}, "must be parquet"),
        (b"ARROW1 and then nothing", {}, "must be Arrow"),
        (b"\x1f\x8b and then nothing", {}, "gzip"),
        (b"a\n1\n", {"encoding": "klingon"}, "`encoding` must be the name of a text encoding"),
        (b"a\n1\n", {"format": "yaml"}, "`format` must be one of"),
    ],
)
def test_damaged_tables_are_named(tmp_path, content, options, words):
    if content[:4] in (b"PAR1", b"ARRO"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "table"
    path.write_bytes(content)
    with pytest.raises(CondcsError, match=words):
        rows_of(path, **options)


def test_the_encoding_can_be_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("näme,b\n1,2\n".encode("latin-1"))
    assert rows_of(path, encoding="latin-1")[0] == ("näme", "b")
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    assert rows_of(path, encoding="utf-16")[0] == ("a", "b")


def test_a_column_whose_name_holds_a_comma_could_not_be_left_out():
    """Several exceptions in one text too: so they are written in our own messages."""
    names = ["area", "city, zone", " rooms", "y"]
    assert select_columns("x", ["!city, zone"], names, "t") == ["area", " rooms", "y"]
    assert select_columns("x", ["!y,!city, zone, !area"], names, "t") == [" rooms"]
    assert select_columns("x", ["city, zone,area"], names, "t") == ["city, zone", "area"]
    assert select_columns("x", ["area, rooms"], names, "t") == ["area", " rooms"]
    with pytest.raises(ParameterError, match="got 'city'"):
        select_columns("x", ["city,area"], names, "t")


def test_an_array_of_objects_and_a_pickle_were_taken_for_text(tmp_path):
    (tmp_path / "a.json").write_text('[{"a": 1, "b": 2}]', encoding="utf-8")
    with pytest.raises(DataError, match=r"one JSON object per line, got an array\. .*lines=True"):
        rows_of(tmp_path / "a.json")
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"a": [1, 2]}, protocol=5))
    with pytest.raises(DataError, match="got a Python pickle"):
        rows_of(tmp_path / "a.pkl")


def test_a_file_that_is_absent_or_a_folder(tmp_path):
    with pytest.raises(DataError, match=r"absent\.csv could not be read: No such file"):
        rows_of(tmp_path / "absent.csv")
    with pytest.raises(DataError, match="got a folder without files"):
        rows_of(tmp_path)


def test_a_read_error_on_the_way(tmp_path, monkeypatch):
    class Broken(io.RawIOBase):
        """A disk that gives one line and then fails."""

        given = False

        def readable(self):
            return True

        def readinto(self, buffer):
            if self.given:
                raise OSError(5, "Input/output error")
            self.given = True
            buffer[:8] = b"a,b\n1,2\n"
            return 8

    monkeypatch.setattr("condcs._tables.sources._raw_stream", lambda *_: io.BufferedReader(Broken()))
    with pytest.raises(DataError, match="could not be read: Input/output error"):
        rows_of(tmp_path / "table.csv")


def test_parquet_does_not_come_through_a_pipe(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    write_in("parquet", tmp_path / "table")
    as_stdin(monkeypatch, (tmp_path / "table").read_bytes())
    with pytest.raises(DataError, match="Save it to a file"):
        rows_of("-")


@pytest.mark.parametrize(
    "cell", ["", "  ", "NA", "n/a", "NaN", " null ", None, float("nan"), float("inf"), "-inf", "<NA>"]
)
def test_gaps(cell):
    assert is_missing(cell)


@pytest.mark.parametrize("cell", ["0", 0, 0.0, "no", "-", False, "1e5", "nancy", "Nana"])
def test_what_is_no_gap(cell):
    assert not is_missing(cell)


def test_the_sample_is_uniform_and_ignores_batches():
    """Each of 50 rows is among 10 sampled in 1/5 of 2,000 seeds: within 5 standard errors (0.0447)."""
    rows = [[i] for i in range(50)]
    counts = np.zeros(50)
    for seed in range(2000):
        whole = sample_rows([as_batch(rows)], 1, most=10, memory=10**9, seed=(seed, 0)).rows
        counts[[row[0] for row in whole]] += 1
        if seed < 20:
            parts = map(as_batch, (rows[:7], rows[7:30], rows[30:]))
            parts = sample_rows(parts, 1, most=10, memory=10**9, seed=(seed, 0)).rows
            assert parts == whole
            assert whole == sorted(whole)
    assert np.abs(counts / 2000 - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 2000)


def test_a_small_budget_keeps_a_uniform_sample():
    """Memory for about 20 rows: each of 50 is kept as often as the others, within 5 standard errors."""
    rows = [[i] for i in range(50)]
    counts, kept = np.zeros(50), 0
    for seed in range(1000):
        batches = [as_batch(rows[i : i + 10]) for i in range(0, 50, 10)]
        sample = sample_rows(batches, 1, most=1000, memory=3200, seed=(seed, 0))
        assert sample.short_of_memory
        assert sample.seen == 50
        counts[[row[0] for row in sample.rows]] += 1
        kept += len(sample.rows)
    share = kept / 50_000
    assert 0.2 < share < 0.6
    assert np.abs(counts / 1000 - share).max() < 5 * np.sqrt(share * (1 - share) / 1000)


def test_no_room_for_a_single_row():
    with pytest.raises(DataError, match="`memory` must have room"):
        sample_rows([TableBatch.of_rows([["x" * 10_000]], [1])], 1, most=10, memory=1000, seed=(0, 0))


def test_a_table_far_larger_than_the_budget_is_streamed(tmp_path, monkeypatch):
    """60 MB through a pipe under a budget of 1 MB: the peak stays below 12 MB (one batch of 5,000 rows is 5 MB)."""
    reference = tmp_path / "reference.csv"
    reference.write_text("x,y\n" + "\n".join(f"{i},{i % 7}.5" for i in range(100)) + "\n")

    class Pipe(io.RawIOBase):
        """Rows made as they are asked for."""

        def __init__(self):
            self.left, self.rest = 60_000, b"x,y,filler\n"

        def readable(self):
            return True

        def readinto(self, buffer):
            while self.left and len(self.rest) < len(buffer):
                self.left -= 1
                self.rest += b"%d,%d.5,%s\n" % (self.left % 100, self.left % 7, b"f" * 1000)
            part, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
            buffer[: len(part)] = part
            return len(part)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe())))
    tracemalloc.start()
    pair = read_pair(str(reference), "-", ReadOptions(x=["x"], y=["y"], max_rows=10**6, memory=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pair.current.seen == 60_000
    assert pair.current.short_of_memory
    assert 500 < pair.current.used < 60_000
    assert peak < 12e6


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["area"], ["area"]),
        (["r*"], ["rooms", "rate"]),
        (["rate,area"], ["rate", "area"]),
        (["!area"], ["rooms", "rate", "a,b", "*"]),
        (["*,!r*"], ["area", "a,b", "*"]),
        (["a,b"], ["a,b"]),
        (["area", "a,b"], ["area", "a,b"]),
    ],
)
def test_columns_by_name_and_glob(patterns, expected):
    names = ("area", "rooms", "rate", "a,b", "*")
    found = select_columns("x", patterns, names, "t.csv")
    # A column that is called "*" is meant by its name first.
    assert found == (["*"] if patterns == ["*,!r*"] else expected)


def test_columns_that_are_not_there():
    names = ("area", "rooms")
    with pytest.raises(ParameterError, match=r"`x` must name columns of t\.csv, got 'aera'\. Did you mean 'area'"):
        select_columns("x", ["aera"], names, "t.csv")
    with pytest.raises(ParameterError, match="Its columns are 'area', 'rooms'"):
        select_columns("x", ["zzz"], names, "t.csv")
    with pytest.raises(ParameterError, match="`x` must leave at least one column beside `y`"):
        choose_x_and_y([], ["price"], ("price",), "t.csv")


def test_ten_thousand_columns_are_too_many(tmp_path):
    header = ",".join(f"c{i}" for i in range(10_000))
    rows = "\n".join(",".join(str((i * j) % 13) for j in range(10_000)) for i in range(1, 13))
    path = tmp_path / "wide.csv"
    path.write_text(f"{header}\n{rows}\n")
    with pytest.raises(ParameterError, match="at most 500 columns, got 9,999"):
        read_pair(str(path), str(path), ReadOptions(y=["c0"]))
    pair = read_pair(str(path), str(path), ReadOptions(y=["c5"], x=["c1,c2"]))
    assert pair.xp.shape == (12, 2)


@pytest.mark.parametrize(
    ("cells", "options", "kind"),
    [
        (["1", "2.5", "-3e4"], {}, "number"),
        ([1, 2.5, 3], {}, "number"),
        (["a", "b", "a"], {}, "category"),
        (["1", "b", "1"], {}, "category"),
        ([True, False, True], {}, "category"),
        (["1", "2", "2", "1"], {"category": True}, "category"),
        (["0", "1", "0"], {"response": "y"}, "category"),
        (["0", "1", "0"], {"response": "y", "category": False}, "number"),
        (["0", "1", "0"], {"response": None}, "number"),
        (["2026-03-01", "2026-03-02T12:00:00"], {}, "date"),
        ([datetime.date(2026, 3, 1), datetime.datetime(2026, 3, 2, 12)], {}, "date"),
    ],
)
def test_kinds(cells, options, kind):
    column = tell_kind("c", [cells[:1], cells[1:]], **{"category": None, "response": None, **options})
    assert column.kind == kind
    if kind == "date":
        assert column.encode(cells, "t").tolist() == [20513.0, 20514.5]


def test_categories_are_the_same_in_every_format():
    """1, 1.0 and " 1 " are one label."""
    column = tell_kind("c", [["1", " 1 ", "x"], [1, 1.0, "x"]], category=None, response=None)
    assert column.labels == ("1", "x")
    assert column.encode([1.0, "x", "new"], "t").tolist() == [0.0, 1.0, -1.0]


@pytest.fixture
def tables(tmp_path):
    paths = []
    for name, seed in (("march", 1), ("april", 2)):
        house_prices(40, seed).to_csv(tmp_path / f"{name}.csv", index=False)
        paths.append(str(tmp_path / f"{name}.csv"))
    return paths


def test_a_pair(tables):
    pair = read_pair(*tables, ReadOptions(y=["price"], x=["!sold"]))
    assert [c.name for c in pair.x] == ["area", "district"]
    assert pair.x[1].labels == ("harbour", "north", "south")
    frame = pd.read_csv(tables[1])
    np.testing.assert_allclose(pair.yq[:, 0], frame["price"])
    assert [pair.x[1].labels[int(c)] for c in pair.xq[:, 1]] == frame["district"].tolist()
    assert (pair.reference.seen, pair.reference.used, pair.reference.sampled) == (40, 40, False)


def test_rows_with_gaps_are_counted_and_dropped_on_request(tables):
    frame = pd.read_csv(tables[1])
    frame.loc[[3, 5], "area"] = np.nan
    frame.loc[5, "district"] = None
    frame.to_csv(tables[1], index=False)
    with pytest.raises(DataError, match=r"got 2 of 40 rows with one: 'area' \(2\), 'district' \(1\).*missing='drop'"):
        read_pair(*tables, ReadOptions(y=["price"], missing="error"))
    pair = read_pair(*tables, ReadOptions(y=["price"], missing="drop"))
    assert (pair.current.gaps, pair.current.used) == (2, 38)
    np.testing.assert_allclose(pair.yq[:, 0], frame["price"].drop([3, 5]))


def test_a_sample_has_a_seed(tables):
    first, again, other = (
        read_pair(*tables, ReadOptions(y=["price"], max_rows=15, seed=seed)).xp for seed in (0, 0, 1)
    )
    assert first.shape == (15, 3)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


REFUSE = {"unusable": "error"}


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        (lambda f: f.iloc[:0], {}, DataError, "at least 10 rows to compare, got 0 rows"),
        (lambda f: f.iloc[:4], {}, DataError, "got 4 rows"),
        (lambda f: f.drop(columns="area"), {}, DataError, "but lacks 'area'"),
        (lambda f: f.assign(area=f.area + 1e4), REFUSE, OverlapError, "column 'area' has no value in common"),
        (lambda f: f.assign(district="moon"), REFUSE, OverlapError, "column 'district' has no value in common"),
        (lambda f: f.assign(area=f.area + 1e4), {"x": ["area"]}, OverlapError, "column 'area' has no value in common"),
        (lambda f: f, {"x": ["nothing"]}, ParameterError, "`x` must name columns"),
        (lambda f: f, {"y": ["nothing"]}, ParameterError, "`y` must name columns"),
        (lambda f: f, {"number": ["district"]}, DataError, "`number` must name columns of numbers"),
        (
            lambda f: f.assign(area=[f"house {i}" for i in range(40)]),
            REFUSE,
            DataError,
            r"'area' must hold the same type .* got numbers \('.*' in line 2 of .*march\.csv\) and text \('house 0'",
        ),
    ],
)
def test_bad_tables(tables, change, options, error, words):
    change(pd.read_csv(tables[1])).to_csv(tables[1], index=False)
    with pytest.raises(error, match=words):
        read_pair(*tables, ReadOptions(**{"y": ["price"], **options}))


def test_constant_columns(tables):
    for path in tables:
        pd.read_csv(path).assign(area=1.0).to_csv(path, index=False)
    pair = read_pair(*tables, ReadOptions(y=["price"]))
    assert [c.name for c in pair.x] == ["district", "sold"]
    assert pair.left_out == (LeftOut("area", "the same value in all rows", could_matter=False),)
    with pytest.raises(DataError, match=r"all were left out: 'area' \(the same value in all rows\)"):
        read_pair(*tables, ReadOptions(y=["price"], x=["area"]))
    with pytest.raises(DataError, match="`y` must vary"):
        read_pair(*tables, ReadOptions(y=["area"]))


def test_one_standard_input_only():
    with pytest.raises(ParameterError, match="only one of the two tables"):
        read_pair("-", "-", ReadOptions(y=["a"]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decimal": ";"}, r"`decimal` must be one of '\.', ',', got ';'"),
        (
            {"format": "ods"},
            r"`format` must be one of 'csv', 'jsonl', 'parquet', 'arrow', 'xlsx', 'sqlite', 'duckdb', got",
        ),
        ({"memory": 0}, "`memory` must be an integer of at least 1, got 0"),
    ],
)
def test_file_options_are_checked_when_they_are_made(options, words):
    with pytest.raises(ParameterError, match=words):
        FileOptions(**options)
