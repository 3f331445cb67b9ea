"""Tables that other libraries hold, folders and globs, and databases: rows come in batches, and only columns wanted."""

from __future__ import annotations

import sqlite3
import sys

import numpy as np
import pandas as pd
import pytest

import condcs
from condcs._core.errors import CondcsError, DataError, ParameterError
from condcs._tables.in_memory import as_table
from condcs._tables.pair import ReadOptions, read_pair
from condcs._tables.sources import FileOptions, TableOptions, open_table

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is not installed")

N = 60
FRAME = pd.DataFrame(
    {
        "a": np.arange(N) / 7,
        "count": np.arange(N) % 5,
        "place": np.resize(["harbour", "hills", None], N),
        "y": np.cos(np.arange(N)),
    }
)


def arrow(frame=FRAME):
    return pa.Table.from_pandas(frame, preserve_index=False)


def rows_of(source, columns=None, **options):
    """Return the names of a table, and the rows of some columns as Python values."""
    source = as_table("reference", source)
    with open_table(source, FileOptions(**options)) as table:
        names = table.names if columns is None else columns
        batches = list(table.batches([table.names.index(name) for name in names]))
        return table.names, [tuple(row) for batch in batches for row in batch]


def expected(frame=FRAME, columns=None):
    frame = frame[columns] if columns else frame
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in frame.itertuples(index=False)]


# --- protocols --------------------------------------------------------------------------------------------------------


class Stream:
    """An object with nothing but the stream of the Arrow C interface, as often as it is asked."""

    def __init__(self, table):
        self._held = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._held.__arrow_c_stream__(requested_schema)


class Structure:
    """An object with nothing but the array of the Arrow C interface."""

    def __init__(self, table):
        self._held = table.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema=None):
        return self._held.__arrow_c_array__(requested_schema)


class Interchange:
    """An object with nothing but the DataFrame interchange protocol."""

    def __init__(self, table):
        self._held = table

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._held.__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize(
    "hold",
    [
        Stream,
        Structure,
        Interchange,
        pytest.param(lambda table: table.to_reader(max_chunksize=7), id="reader"),
        pytest.param(dataset.dataset, id="dataset"),
    ],
)
@pytest.mark.parametrize("columns", [["a", "count", "place", "y"], ["y", "place"]])
def test_any_object_that_holds_a_table_was_refused_or_listed(hold, columns):
    names, rows = rows_of(hold(arrow()), columns)
    assert names == ("a", "count", "place", "y")
    assert rows == expected(columns=columns)


@pytest.mark.parametrize("hold", [Stream, Interchange])
def test_a_table_that_can_be_streamed_again_is_compared_with_itself(hold):
    held = hold(arrow())
    pair = read_pair(as_table("reference", held), as_table("current", held), ReadOptions(y="y", x="a"))
    assert np.array_equal(pair.xp, pair.xq)


def test_a_reader_that_is_read_twice_is_said_to_be_one():
    reader = arrow().to_reader()
    tables = as_table("reference", reader), as_table("current", reader)
    with pytest.raises(DataError, match=r"current \(RecordBatchReader\).*A stream can be read only once: pass a new"):
        read_pair(*tables, ReadOptions(y="y", x="a"))


def test_a_stream_that_fails_is_named():
    class Failing(Stream):
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("no connection")

    with pytest.raises(DataError, match=r"reference \(Failing\).*no connection"):
        rows_of(Failing(arrow()))

    def batches():
        yield arrow().to_batches()[0]
        raise RuntimeError("the engine stopped\nin a long story")

    reader = pa.RecordBatchReader.from_batches(arrow().schema, batches())
    with pytest.raises(DataError, match=r"reference \(RecordBatchReader\) must be .* the engine stopped\. "):
        rows_of(reader)


def test_columns_of_a_stream_that_cannot_be_compared_do_not_stop_the_others():
    nested = arrow().append_column("list", pa.array([[1]] * N))
    assert rows_of(Stream(nested), ["a"])[1] == expected(columns=["a"])
    with pytest.raises(DataError, match="'list', got list"):
        rows_of(Stream(nested), ["list"])


class Relation:
    """As much of DuckDB's relation as is used; it remembers the columns that its queries name."""

    types, fetchall = [], None

    def __init__(self, table, asked):
        self._held, self._asked = table, asked

    def limit(self, n):
        return Relation(self._held.slice(0, n), self._asked)

    def project(self, columns):
        self._asked.append(columns)
        return Relation(self._held.select([c.strip('"') for c in columns.split(", ")]), self._asked)

    def to_arrow_reader(self, rows):
        return self._held.to_reader(max_chunksize=rows)


class Expression:
    """As much of ibis's table as is used; it remembers the columns selected."""

    def __init__(self, table, asked):
        self._held, self._asked = table, asked

    def schema(self):
        return self

    def to_pyarrow(self):
        return self._held.schema

    def select(self, names):
        self._asked.append(names)
        return Expression(self._held.select(names), self._asked)

    def to_pyarrow_batches(self, chunk_size):
        return self._held.to_reader(max_chunksize=chunk_size)


@pytest.mark.parametrize(("holder", "query"), [(Relation, '"y", "a"'), (Expression, ["y", "a"])])
def test_queries_name_the_columns_wanted(holder, query):
    asked = []
    assert rows_of(holder(arrow(), asked), ["y", "a"])[1] == expected(columns=["y", "a"])
    assert asked == [query]


# --- libraries --------------------------------------------------------------------------------------------------------


def test_polars_frames_lazy_or_not():
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(arrow())
    for held in (frame, frame.lazy(), frame.lazy().filter(polars.col("a") >= 0)):
        assert rows_of(held) == (("a", "count", "place", "y"), expected())
    with pytest.raises(DataError, match=r"LazyFrame.*rows can be computed, but"):
        rows_of(frame.lazy().filter(polars.col("absent") > 0))


def test_objects_of_polars_beside_the_columns_wanted_are_no_obstacle():
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(arrow()).with_columns(polars.Series("thing", [{1}] * N, dtype=polars.Object))
    assert rows_of(frame, ["a"])[1] == expected(columns=["a"])


def test_a_duckdb_relation_was_called_a_table_of_two_dimensional_columns():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        relation = connection.from_arrow(arrow())
        assert rows_of(relation, ["y", "place"])[1] == expected(columns=["y", "place"])
        query = connection.sql('select y, a as "a ""b""", a from relation')
        assert rows_of(query, ["y", 'a "b"']) == (("y", 'a "b"', "a"), expected(columns=["y", "a"]))
        # Two results of one connection: the second query must not end the first.
        pair = read_pair(as_table("reference", relation), as_table("current", query), ReadOptions(y="y", x="a"))
        assert np.array_equal(pair.xp, pair.xq)


def test_an_expression_of_ibis():
    polars = pytest.importorskip("polars")
    ibis = pytest.importorskip("ibis")
    engine = ibis.polars.connect({"sales": polars.from_arrow(arrow())})
    assert rows_of(engine.table("sales"), ["y", "place"])[1] == expected(columns=["y", "place"])


def test_a_wrapper_of_narwhals():
    narwhals = pytest.importorskip("narwhals")
    assert rows_of(narwhals.from_native(arrow()))[1] == expected()


# --- folders and globs ------------------------------------------------------------------------------------------------


def hive(folder):
    for year in (2023, 2024):
        for place in ("harbour", "up hill"):
            part = folder / f"year={year}" / f"place={place.replace(' ', '%20')}"
            part.mkdir(parents=True)
            rows = pd.DataFrame({"a": [year + 0.5, 1.0], "y": [1.0, float(len(place))]})
            parquet.write_table(arrow(rows), part / "part-0.parquet")
    (folder / "_SUCCESS").write_bytes(b"")
    return folder


HIVE_ROWS = [
    (year, place, y) for year in (2023, 2024) for place in ("harbour", "up hill") for y in (1.0, float(len(place)))
]


def test_folders_of_parquet_were_refused_though_the_how_to_names_them(tmp_path):
    names, rows = rows_of(hive(tmp_path / "sales"), ["year", "place", "y"])
    assert names == ("a", "y", "year", "place")
    assert rows == HIVE_ROWS
    # Columns of the path alone still have a row per row.
    assert rows_of(tmp_path / "sales", ["place"])[1] == [(place,) for _, place, _ in HIVE_ROWS]


def test_globs_of_files(tmp_path, monkeypatch):
    hive(tmp_path / "sales")
    late = [row for row in HIVE_ROWS if row[0] == 2024]
    assert rows_of(f"{tmp_path}/sales/year=2024*/**/*.parquet", ["year", "place", "y"])[1] == late
    assert rows_of(f"{tmp_path}/sales/year=*4", ["year", "place", "y"])[1] == late
    monkeypatch.chdir(tmp_path)
    assert rows_of("sales/year=2024/*/*.parquet", ["place", "y"])[1] == [row[1:] for row in late]


def test_files_of_a_folder_that_differ(tmp_path):
    FRAME.to_csv(tmp_path / "1.csv", index=False)
    FRAME.drop(columns="a").to_csv(tmp_path / "2.csv", index=False)
    assert len(rows_of(tmp_path, ["y"])[1]) == 2 * N
    with pytest.raises(DataError, match=r"2\.csv must have the columns of .*1\.csv, but lacks 'a'"):
        rows_of(tmp_path)
    FRAME.to_json(tmp_path / "3.jsonl", orient="records", lines=True)
    with pytest.raises(DataError, match=r"one format, got 'csv', 'jsonl'|one format, got csv, jsonl"):
        rows_of(tmp_path)


def test_folders_and_globs_without_tables(tmp_path):
    with pytest.raises(DataError, match=r"got a folder without files of a known ending"):
        rows_of(tmp_path)
    with pytest.raises(DataError, match=r"got a pattern that no file fits"):
        rows_of(f"{tmp_path}/*.parquet")
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(DataError, match=r"got a Delta table.*to_pyarrow_dataset"):
        rows_of(tmp_path)


def test_missing_and_labelled_values_of_a_path(tmp_path):
    for value in ("01", "02", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"month={value}").mkdir()
        parquet.write_table(arrow(), tmp_path / f"month={value}" / "part.parquet")
    assert set(rows_of(tmp_path, ["month"])[1]) == {("01",), ("02",), (None,)}


@pytest.mark.slow
def test_a_folder_larger_than_the_bound_is_read_in_constant_memory(tmp_path):
    """Four files of 300,000 rows hold 100 MB as arrays; a batch of 5,000 rows and pages of 1 MB are what is needed."""
    import subprocess

    rng = np.random.default_rng(0)
    table = pa.table({f"x{i}": rng.normal(size=300_000) for i in range(10)})
    for number in range(4):
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    code = f"""
import resource
import pyarrow.dataset
from condcs._tables.in_memory import as_table
from condcs._tables.pair import ReadOptions, read_pair
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
folder = {str(tmp_path)!r}
small, options = folder + "/0.parquet", ReadOptions(y="x0", max_rows=500)
read_pair(small, small, options)
before = peak()
read_pair(folder, as_table("current", pyarrow.dataset.dataset(folder)), options)
print(peak() - before)
"""
    grown = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert grown < 40


# --- databases --------------------------------------------------------------------------------------------------------


def sqlite_file(path, **tables):
    with sqlite3.connect(path) as connection:
        for name, frame in tables.items():
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(frame.columns)})')
            marks = ", ".join("?" * len(frame.columns))
            rows = expected(frame.astype(object))
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
    connection.close()
    return path


def test_an_sqlite_database_was_refused(tmp_path):
    path = sqlite_file(tmp_path / "sales.db", sales=FRAME)
    assert rows_of(path) == (("a", "count", "place", "y"), expected())
    assert rows_of(path, ["y", "place"])[1] == expected(columns=["y", "place"])
    query = "select y, place as p from sales where a < 1 -- few\n;"
    assert rows_of(path, sql=query) == (("y", "p"), expected(FRAME[FRAME.a < 1], ["y", "place"]))


def test_tables_of_a_database_are_named(tmp_path):
    path = sqlite_file(tmp_path / "two tables?.db", sales=FRAME, costs=FRAME[["y", "a"]])
    assert rows_of(path, table="costs")[0] == ("y", "a")
    with pytest.raises(DataError, match=r"one table if none is named, got 2.*'costs', 'sales'.*TableOptions\(table="):
        rows_of(path)
    with pytest.raises(DataError, match=r"`table` must name a table of .*, got 'Costs'.*'costs', 'sales'"):
        rows_of(path, table="Costs")
    with pytest.raises(DataError, match=r"can be queried, but: no such table: absent"):
        rows_of(path, sql="select * from absent")
    with pytest.raises(DataError, match=r"got a database file \(sqlite\)\. Leave `format` out"):
        rows_of(path, format="csv")


def test_damaged_and_binary_databases_are_named(tmp_path):
    path = sqlite_file(tmp_path / "sales.db", sales=FRAME)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    (tmp_path / "damaged.db").write_bytes(content)
    with pytest.raises(DataError, match=r"damaged\.db must be a database that can be queried, but: .*malformed"):
        rows_of(tmp_path / "damaged.db")
    binary = sqlite_file(tmp_path / "binary.db", sales=FRAME.assign(b=[b"\x00"] * N))
    with pytest.raises(DataError, match=r"column 'b', got bytes in row 1"):
        rows_of(binary)


def test_a_database_is_read_and_not_written(tmp_path):
    path = sqlite_file(tmp_path / "sales.db", sales=FRAME)
    with pytest.raises(DataError, match="can be queried"):
        rows_of(path, sql="delete from sales")
    assert len(rows_of(path)[1]) == N
    assert [p.name for p in tmp_path.iterdir()] == ["sales.db"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "a", "sql": "select 1"}, "`table` and `sql` must not both be given"),
        ({"table": ""}, "`table` must be text"),
        ({"sql": 3}, "`sql` must be text"),
    ],
)
def test_options_of_databases_are_checked(options, words):
    with pytest.raises(ParameterError, match=words):
        TableOptions(**options)


def test_a_query_without_a_database_is_not_ignored(tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    path = str(tmp_path / "a.csv")
    with pytest.raises(ParameterError, match=r"`sql` must be left out where no table is a database file"):
        read_pair(path, path, ReadOptions(y="y", sql="select 1"))


def test_a_database_is_compared_with_a_table_in_memory(tmp_path):
    path = sqlite_file(tmp_path / "two.db", sales=FRAME, costs=FRAME)
    found = condcs.compare(path, FRAME, y="y", missing="drop", n_resamples=19, tables=TableOptions(table="sales"))
    assert not found.relation_changed


def test_a_duckdb_database(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "sales.db"
    with duckdb.connect(str(path)) as connection:
        frame = arrow()  # noqa: F841 - the query names it
        connection.execute("create table sales as select * from frame")
        connection.execute("create table costs as select y from frame")
    assert rows_of(path, table="sales") == (("a", "count", "place", "y"), expected())
    assert rows_of(path, sql="select place, y from sales;")[1] == expected(columns=["place", "y"])
    with pytest.raises(DataError, match=r"got 2.*'costs', 'sales'"):
        rows_of(path)
    for query in ("drop table sales", "select nothing from sales"):
        with pytest.raises(DataError, match=r"sales\.db must be|`sql` must be a query that returns rows"):
            rows_of(path, sql=query)
    assert len(rows_of(path, table="sales")[1]) == N


def test_a_duckdb_database_without_its_driver_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (tmp_path / "a.db").write_bytes(b"\0" * 8 + b"DUCK" + b"\0" * 100)
    with pytest.raises(CondcsError, match=r"reading it needs duckdb.*pip install duckdb"):
        rows_of(tmp_path / "a.db")


class SparkFrame:
    """As much of Spark's DataFrame as is used: two partitions, which its workers turn into bytes."""

    def __init__(self, table, asked):
        self._held, self._asked = table, asked

    def limit(self, n):
        return SparkFrame(self._held.slice(0, n), self._asked)

    def toArrow(self):
        return self._held

    def select(self, *columns):
        self._asked.append(columns)
        return SparkFrame(self._held.select([c.strip("`") for c in columns]), self._asked)

    def toDF(self, *names):
        return SparkFrame(self._held.rename_columns(list(names)), self._asked)

    def mapInArrow(self, function, schema):
        name, kind = schema.split()
        assert kind == "binary"
        parts = self._held.slice(0, 40), self._held.slice(40)
        written = [batch for part in parts for batch in function(iter(part.to_batches()))]
        return SparkFrame(pa.Table.from_batches(written).rename_columns([name]), self._asked)

    def toLocalIterator(self):
        return iter([(bytearray(cell),) for cell in self._held.column(0).to_pylist()])


def test_a_spark_frame_comes_as_arrow_batches_of_the_columns_wanted():
    asked = []
    assert rows_of(SparkFrame(arrow(), asked), ["y", "place"])[1] == expected(columns=["y", "place"])
    assert asked == [("`y`", "`place`")]


def test_typed_dates_were_told_by_the_label_of_every_row(monkeypatch):
    """For 200,000 different times that took longer than all else: they are dates whatever their labels are."""
    monkeypatch.setattr("condcs._tables.cells.label_of", lambda cell: pytest.fail(f"a label was made of {cell!r}"))
    frame = FRAME[["a", "y"]].assign(when=pd.date_range("2024-01-01", periods=N, freq="7h"))
    pair = read_pair(as_table("reference", frame), as_table("current", frame), ReadOptions(y="y"))
    assert [column.kind for column in pair.x][1:2] == ["date"] or "when (trend)" in [column.name for column in pair.x]


def test_the_command_reads_a_table_of_a_database(tmp_path):
    from typer.testing import CliRunner

    from condcs.cli.app import app

    path = str(sqlite_file(tmp_path / "two.db", sales=FRAME, costs=FRAME))
    arguments = ["compare", path, path, "--y", "y", "--x", "a,count", "--resamples", "19", "--json"]
    found = CliRunner().invoke(app, [*arguments, "--table", "sales"])
    assert found.exit_code == 0, found.output
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code == 2
    assert "--table costs" in " ".join(refused.output.split())
