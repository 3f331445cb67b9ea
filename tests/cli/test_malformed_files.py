"""Malformed files end in a right answer or in a message and exit code 2: no traceback, no hang, no crash."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import os
import random
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from condcs._core.errors import CondcsError, DataError
from condcs._tables import sources
from condcs._tables.pair import ReadOptions, read_pair
from condcs._tables.sources import FileOptions, open_table
from condcs.cli.app import app

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
parquet = pytest.importorskip("pyarrow.parquet")


def frame(rows=24):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=rows), "k": rng.choice(["a", "b"], rows), "y": rng.normal(size=rows)})


def arrow_files():
    """Every kind of column, with and without compression, as a file and as a stream."""
    rows = 40
    start = datetime.datetime(2020, 1, 1)
    table = pa.table(
        {
            "x": pa.array([i * 0.5 for i in range(rows)]),
            "y": pa.array([None if i % 7 == 0 else i for i in range(rows)]),
            "text": pa.array([f"w{i % 5}" for i in range(rows)]),
            "label": pa.array([f"k{i % 3}" for i in range(rows)]).dictionary_encode(),
            "time": pa.array([start + datetime.timedelta(days=i) for i in range(rows)]),
            "day": pa.array([start.date()] * rows),
            "truth": pa.array([bool(i % 2) for i in range(rows)]),
            "large": pa.array([f"w{i % 5}" for i in range(rows)], pa.large_string()),
            "money": pa.array(list(range(rows))).cast(pa.decimal128(30, 2)),
        }
    )
    for compression in (None, "lz4", "zstd"):
        for create in (ipc.new_file, ipc.new_stream):
            out = io.BytesIO()
            with create(out, table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(table, max_chunksize=20)
            yield out.getvalue()


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Cut off, or with bits, bytes, lengths and offsets changed."""
    data, how = bytearray(content), rng.randrange(5)
    if how == 0:
        return bytes(data[: rng.randrange(8, len(data))])
    for _ in range(rng.choice([1, 1, 2, 8])):
        place = rng.randrange(6, len(data))
        if how == 1:
            data[place] ^= 1 << rng.randrange(8)
        elif how == 2:
            data[place] = rng.randrange(256)
        else:
            width = 4 if how == 3 else 8
            value = rng.choice([-1, -5, 0, 1, 2 ** (8 * width - 1) - 1, 2 ** (4 * width)])
            place -= place % width
            data[place : place + width] = value.to_bytes(width, "little", signed=True)
    return bytes(data)


def read_damaged_arrow_files(count: int) -> None:
    """Run in a process of its own: see below."""
    contents = list(arrow_files())
    for seed in range(count):
        rng = random.Random(seed)
        content = damaged(rng.choice(contents), rng)
        with open("damaged", "wb") as file:
            file.write(content)
        try:
            with open_table("damaged", FileOptions("arrow")) as table:
                for _ in table.batches(range(len(table.names))):
                    pass
        except CondcsError:
            pass
        print(seed, flush=True)


def test_damaged_arrow_files_do_not_end_the_process(tmp_path):
    code = f"from {__name__} import read_damaged_arrow_files; read_damaged_arrow_files(400)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=_environment()
    )
    assert done.returncode == 0, f"after seed {done.stdout.split()[-1:]}: {done.stderr[-2000:]}"
    assert done.stdout.split()[-1] == "399"


@pytest.mark.parametrize("kind", ["file", "stream", "damaged file", "parquet"])
def test_no_thread_of_pyarrow_reads_or_frees_a_python_stream(tmp_path, monkeypatch, kind):
    """Such a thread needs the interpreter; while that ends, it is killed instead, and takes the process along (134)."""
    readers = set()

    class Watched(io.BufferedReader):
        def read(self, *size):
            readers.add(threading.current_thread())
            return super().read(*size)

    def watched(path, title):
        return Watched(io.FileIO(path), 1 << 20)

    file, stream = list(arrow_files())[-2:]  # compressed: unpacked by a pool of threads by default
    path = tmp_path / "table"
    if kind == "parquet":
        frame().to_parquet(path, index=False)
    else:
        path.write_bytes({"file": file, "stream": stream, "damaged file": file[:-30] + bytes(30)}[kind])
    monkeypatch.setattr(sources, "_raw_stream", watched)
    read = contextlib.suppress(DataError) if kind == "damaged file" else contextlib.nullcontext()
    with read, open_table(str(path), FileOptions("parquet" if kind == "parquet" else "arrow")) as table:
        assert sum(map(len, table.batches(range(len(table.names))))) == (24 if kind == "parquet" else 40)
    assert readers <= {threading.main_thread()}


def test_a_reader_of_parquet_stayed_open_after_its_table(tmp_path, monkeypatch):
    """`ParquetFile.close` closes no reader of a stream that was open before, unless it is told to."""
    closed = []

    class Watched(parquet.ParquetFile):
        def close(self, force=False):
            super().close(force)
            closed.append(self.closed)

    monkeypatch.setattr(parquet, "ParquetFile", Watched)
    frame().to_parquet(tmp_path / "table.parquet", index=False)
    with open_table(str(tmp_path / "table.parquet"), FileOptions()) as table:
        assert sum(map(len, table.batches([0]))) == 24
    assert closed == [True]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_an_arrow_file_through_a_named_pipe_was_called_damaged(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = list(arrow_files())[-2]
    writer = threading.Thread(target=pipe.write_bytes, args=[content])
    writer.start()
    with (
        pytest.raises(DataError, match="got an Arrow file, which is read from its end"),
        open_table(str(pipe), FileOptions("arrow")),
    ):
        pass
    writer.join()


def _environment():
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def excel(frame_):
    out = io.BytesIO()
    frame_.to_excel(out, index=False)
    return out.getvalue()


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def npy_header(shape: str, dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


def tables():
    """Name and content of malformed tables for `compare` and `causal`."""
    good = frame()
    csv = good.to_csv(index=False).encode()
    jsonl = good.to_json(orient="records", lines=True).encode()
    out = io.BytesIO()
    good.to_parquet(out, index=False)
    binary = {
        "parquet": out.getvalue(),
        "xlsx": excel(good),
        "arrow": next(arrow_files()),
        "csv.gz": gzip.compress(csv),
    }
    head, *rows = csv.decode().splitlines()
    for encoding in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig"):
        yield f"{encoding}.csv", csv.decode().encode(encoding)
        yield f"{encoding}.jsonl", jsonl.decode().encode(encoding)
    for name, magic in {
        "old.xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "document.csv": b"%PDF-1.7\n",
        "array.csv": b"\x93NUMPY\x01\x00",
        "database.csv": b"SQLite format 3\0",
        "hdf.csv": b"\x89HDF\r\n\x1a\n",
        "zstd.csv": b"\x28\xb5\x2f\xfd\x00",
        "bzip.csv": b"BZh91AY",
        "xz.csv": b"\xfd7zXZ\x00",
        "picture.csv": b"\x89PNG\r\n\x1a\n\0\0",
        "zip.csv": b"PK\x03\x04",
        "zip.xlsx": b"PK\x03\x04" + bytes(100),
        "archive.xlsx": zipped(a=b"1"),
        "gz.csv": b"\x1f\x8b",
        "gz2.csv": b"\x1f\x8b\x08\x00" + bytes(20),
        "parquet.csv": b"PAR1",
        "arrow.csv": b"ARROW1\0\0",
        "stream.csv": b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        "stream2.csv": b"\xff\xff\xff\xff\x10\0\0\0" + bytes(16),
    }.items():
        yield name, magic
        yield f"long-{name}", magic + csv
    for name, text in {
        "empty": "",
        "blank": "\n\n\n",
        "header": head + "\n",
        "header-only-word": "x",
        "one-row": f"{head}\n{rows[0]}\n",
        "nul": csv.decode().replace("a", "\0", 1),
        "ragged": csv.decode() + "1\n",
        "wide": csv.decode() + "1,a,2,3\n",
        "twice": csv.decode().replace("x,k,y", "x,x,y"),
        "no-names": csv.decode().replace("x,k,y", ",,"),
        "quote": csv.decode() + '1,"a,2\n',
        "quote-in-header": '"' + csv.decode(),
        "odd-quote": csv.decode() + '"1"2,a,3\n',
        "huge-field": csv.decode() + f"1,{'a' * 200_000},3\n",
        "huge-line": csv.decode() + "1," * 3_000_000,
        "infinite": csv.decode() + "inf,a,3\n",
        "nan": csv.decode() + "nan,a,3\n",
        "too-large": csv.decode() + "1e999,a,3\n",
        "underscore": csv.decode() + "1_000,a,3\n",
        "comma": csv.decode() + '"1,5",a,3\n',
        "currency": csv.decode() + '"$1,200",a,3\n',
        "question": csv.decode() + "?,a,3\n",
        "surrogate": csv.decode() + "1,a\ufffd,3\n",
        "same-y": "x,k,y\n" + "".join(f"{i},a,1\n" for i in range(20)),
        "all-text": "x,k,y\n" + "".join(f"w{i},a,v{i}\n" for i in range(20)),
        "dates": "x,k,y\n" + "".join(f"{9980 + i}-01-01,a,{i}\n" for i in range(30)),
        "html": "<!doctype html>\n<html><body>Not found</body></html>\n",
        "json-array": good.to_json(orient="records"),
        "carriage": csv.decode().replace("\n", "\r"),
        "escape": csv.decode().replace("x,", "\x1b[2Jx,", 1),
    }.items():
        yield f"{name}.csv", text.encode()
        yield f"{name}.tsv", text.replace(",", "\t").encode()
        yield f"{name}.csv.gz", gzip.compress(text.encode())
    for name, line in {
        "digits": '{"x": ' + "9" * 5000 + ', "k": "a", "y": 1}',
        "big": '{"x": ' + "9" * 400 + ', "k": "a", "y": 1}',
        "half": '{"x": 1, "k": "\\ud800", "y": 1}',
        "half-name": '{"x": 1, "k": "a", "y": 1, "\\udc00": 2}',
        "nested": '{"x": [1], "k": "a", "y": 1}',
        "object": '{"x": {"a": 1}, "k": "a", "y": 1}',
        "deep": '{"x": ' + "[" * 100_000,
        "array": "[1, 2]",
        "number": "7",
        "text": '"x"',
        "null": "null",
        "broken": '{"x": 1,',
        "nan": '{"x": NaN, "k": "a", "y": 1}',
        "infinity": '{"x": Infinity, "k": "a", "y": 1}',
        "truth": '{"x": true, "k": "a", "y": 1}',
        "mixed": '{"x": "word", "k": 3, "y": 1}',
        "lacks": "{}",
        "nothing": '{"x": null, "k": null, "y": null}',
    }.items():
        yield f"{name}.jsonl", jsonl + line.encode() + b"\n"
        yield f"first-{name}.jsonl", line.encode() + b"\n" + jsonl
    for form, content in binary.items():
        rng = random.Random(form)
        for number in range(12):
            yield f"damaged{number}.{form}", damaged(content, rng)
    for unit, value in {"s": 2**40, "ms": 2**60, "us": -(2**62), "ns": 2**62}.items():
        times = pa.array([value + i for i in range(24)], pa.int64()).cast(pa.timestamp(unit))
        out = io.BytesIO()
        parquet.write_table(pa.table({"x": times, "k": ["a", "b"] * 12, "y": list(range(24))}), out, version="2.6")
        yield f"time-{unit}.parquet", out.getvalue()
    for name, column in {
        "lists": pa.array([[1.0]] * 24),
        "structs": pa.array([{"a": 1}] * 24),
        "bytes": pa.array([b"\xff"] * 24),
        "nothing": pa.array([None] * 24),
    }.items():
        out = io.BytesIO()
        parquet.write_table(pa.table({"x": column, "k": ["a", "b"] * 12, "y": list(range(24))}), out)
        yield f"{name}.parquet", out.getvalue()


def collections():
    """Name and content of malformed collections of series for `cluster`."""
    X = np.random.default_rng(0).normal(size=(4, 12))
    whole = npz(X=X, y=np.arange(4))
    for number in range(12):
        yield f"damaged{number}.npz", damaged(whole, random.Random(number))
    yield "objects.npz", npz(X=np.array([{}, {}], dtype=object))
    yield "objects-y.npz", npz(X=X, y=np.array([{}] * 4, dtype=object))
    yield "scalar.npz", npz(X=np.array(1.0))
    yield "vector.npz", npz(X=X[0])
    yield "four.npz", npz(X=np.zeros((3, 2, 2, 2)))
    yield "none.npz", npz(X=np.zeros((0, 5)))
    yield "text.npz", npz(X=np.array([["a"] * 3] * 3))
    yield "complex.npz", npz(X=X.astype(complex))
    yield "labels.npz", npz(X=X, y=np.zeros((4, 2)))
    yield "classes.npz", npz(X=np.full((4, 12), np.nan), y=np.arange(4), classes=np.array("a"))
    yield "infinite.npz", npz(X=np.full((4, 12), np.inf))
    yield "header.npz", zipped(X=npy_header("(100000000000, 1000)"))
    yield "negative.npz", zipped(X=npy_header("(-1, 5)"))
    yield "word.npz", zipped(X=npy_header("'x'"))
    yield "type.npz", zipped(X=npy_header("(3, 3)", "|Q99"))
    yield "bare.npz", b"\x93NUMPY\x01\x00"
    yield "other.npz", zipped(X=b"hello")
    yield "empty.npz", b""
    yield "array.npy", npy_header("(2, 2)")
    for name, text in {
        "empty": "",
        "word": "hello\n",
        "nul": "1,2,3\n4,\0,6\n7,8,9\n",
        "quote": '1,2,3\n4,"5,6\n7,8,9\n',
        "text": "1,2,3\n4,x,6\n7,8,9\n",
        "gap-row": "1,2,3\n,,\n4,5,6\n",
        "few": "1,2\n3,4\n",
        "infinite": "1,2,inf\n4,5,6\n7,8,9\n",
        "large": "1,2,1e999\n4,5,6\n7,8,9\n",
        "underscore": "1,2,1_0\n4,5,6\n7,8,9\n",
        "semicolon": "1,5;2,5\n1,5;2,5\n1,5;2,5\n",
        "huge": "1," + "9" * 200_000 + "\n4,5\n7,8\n",
    }.items():
        yield f"{name}.csv", text.encode()
        yield f"{name}.tsv", text.replace(",", "\t").encode()
    yield "utf16.csv", "1,2,3\n".encode("utf-16")
    yield "zip.csv", whole
    for name, text in {
        "empty": "",
        "word": "@data\nx,y:z\n",
        "header": "@problemName a\n",
        "odd": "@data\n1,2,3:a:b:c\n",
    }.items():
        yield f"{name}.ts", text.encode()
    yield "table.xlsx", b"PK\x03\x04"


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def ends_well(done) -> bool:
    said = done.output + done.stderr
    crashed = done.exception is not None and not isinstance(done.exception, SystemExit)
    return done.exit_code == 2 and not crashed and "Traceback" not in said and "bug in condcs" not in said


class _ReadableError(BaseException):
    """Says that a file could be read: what is computed from it then is tested elsewhere."""


def _stop(*arguments, **options):
    raise _ReadableError


def ends(content, path, *words) -> tuple[str, object]:
    """Return how a command ends with a file: "read", "message", or what went wrong."""
    path.write_bytes(content)
    try:
        done = run(*words)
    except _ReadableError:
        return "read", None
    return ("message", None) if ends_well(done) else ("wrong", (done.exit_code, done.output[-300:], done.exception))


def texts(*names):
    return {f"{name}.{ending}" for name in names for ending in ("csv", "tsv", "csv.gz")}


READABLE = texts("carriage", "escape", "surrogate") | {"time-ns.parquet"}
READABLE |= {"utf-8-sig.csv", "utf-8-sig.jsonl"}
"""What can be read after all: odd names, old line endings, a byte order mark."""

READABLE_SERIES = texts("carriage", "surrogate")
READABLE_SERIES |= {"first-truth.jsonl", "truth.jsonl", "utf-8-sig.csv", "utf-8-sig.jsonl"}
READABLE_SERIES |= texts("infinite", "nan") | {"first-infinity.jsonl", "first-nan.jsonl", "first-nothing.jsonl"}
READABLE_SERIES |= {"infinity.jsonl", "lacks.jsonl", "nan.jsonl", "nothing.jsonl", "nothing.parquet"}
"""Series may have missing values."""

READABLE_COLLECTIONS = {"infinite.csv", "infinite.tsv", "infinite.npz"}
"""Infinite values are told by what computes with the series."""

TABLES, COLLECTIONS = dict(tables()), dict(collections())


def test_there_are_enough_malformed_files():
    assert len(TABLES) + len(COLLECTIONS) >= 250


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "causal"])
def test_malformed_tables(tmp_path, command, monkeypatch):
    monkeypatch.setattr("condcs.comparison._comparing.compare_pair", _stop)
    monkeypatch.setattr("condcs.cli.causal_command.graph_of", _stop)
    found = {}
    refusing = ["--missing", "error", "--unusable", "error"]
    for name, content in TABLES.items():
        path = tmp_path / name
        tables = [path, path, "--y", "y", *refusing]
        words = tables if command == "compare" else [path, "--columns", "x,y", "--drop-missing"]
        found[name] = ends(content, path, command, *words)
    assert not {name: why for name, (how, why) in found.items() if how == "wrong"}
    read = {name for name, (how, _) in found.items() if how == "read" and not name.startswith("damaged")}
    assert read == (READABLE if command == "compare" else READABLE_SERIES)


@pytest.mark.slow
def test_malformed_tables_of_which_columns_are_left_out(tmp_path, monkeypatch):
    """What can be read with refusals can be read without; of the others many have a column that is left out."""
    monkeypatch.setattr("condcs.comparison._comparing.compare_pair", _stop)
    found = {
        name: ends(content, tmp_path / name, "compare", *[tmp_path / name] * 2, "--y", "y")
        for name, content in TABLES.items()
    }
    assert not {name: why for name, (how, why) in found.items() if how == "wrong"}
    read = {name for name, (how, _) in found.items() if how == "read"}
    assert read >= READABLE | {"currency.csv", "nan.csv", "question.csv", "truth.jsonl"}


def test_malformed_collections(tmp_path, monkeypatch):
    monkeypatch.setattr("condcs.cli.cluster_command.cluster_file", _stop)
    found = {name: ends(c, tmp_path / name, "cluster", tmp_path / name, "--k", 2) for name, c in COLLECTIONS.items()}
    assert not {name: why for name, (how, why) in found.items() if how == "wrong"}
    read = {name for name, (how, _) in found.items() if how == "read" and not name.startswith("damaged")}
    assert read == READABLE_COLLECTIONS


def test_a_quote_that_is_never_closed_does_not_swallow_the_rest(tmp_path):
    """Of 24 rows the last 20 became one cell of text, and were gone."""
    path = tmp_path / "p.csv"
    lines = frame().to_csv(index=False).splitlines()
    lines[5] = lines[5].replace("a", '"a').replace("b", '"b')
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match="a quote that is never closed"):
        read_pair(str(path), str(path), ReadOptions(y=["y"]))


def test_a_duplicate_name_among_many_columns_is_not_quadratic(tmp_path):
    """80,000 columns took 94 seconds: here the names are looked at once each."""
    from condcs._tables.sources import check_names

    class Counted(str):
        looks = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Counted.looks += 1
            return str.__eq__(self, other)

    names = [Counted(f"c{i}") for i in range(2000)]
    with pytest.raises(DataError, match="got 'c7', 'c9' more than once"):
        check_names([*names, Counted("c7"), Counted("c9")], "t.csv")
    assert Counted.looks < 10_000


@pytest.mark.parametrize("how", ["dictionary", "plain", "front coded", "gzip"])
def test_long_texts_that_repeat_are_not_held_by_the_thousand(tmp_path, how):
    """1,000 texts of 100,000 characters, 100 MB, in a file of some kB: a batch of them stays below 20 MB."""
    path = tmp_path / "p"
    texts = ["x" * 100_000 + str(i % 7) for i in range(1000)]
    if how == "gzip":
        with gzip.open(path, "wt", compresslevel=1) as file:
            file.write("x,y\n")
            file.writelines(f"{text},{i}\n" for i, text in enumerate(texts))
    else:
        options = {"dictionary": {}, "plain": {"use_dictionary": False}}.get(
            how, {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY", "y": "PLAIN"}}
        )
        parquet.write_table(pa.table({"x": texts, "y": list(range(1000))}), path, compression="zstd", **options)
    largest = rows = 0
    with open_table(str(path), FileOptions()) as table:
        for batch in table.batches([0, 1]):
            largest = max(largest, sum({id(row[0]): len(row[0]) for row in batch}.values()))
            rows += len(batch)
    assert rows == 1000
    assert largest < 20e6


def test_cells_of_a_megabyte_are_refused(tmp_path):
    """Pages of such cells are unpacked as a whole: 62 kB took 3.5 GB."""
    parquet.write_table(pa.table({"x": ["x" * 10**6] * 20, "y": list(range(20))}), tmp_path / "p", use_dictionary=False)
    with pytest.raises(DataError, match=r"less than 131,072 bytes, got 1,0\d\d,\d\d\d on average in column 'x'"):
        read_pair(str(tmp_path / "p"), str(tmp_path / "p"), ReadOptions(y=["y"]))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "idna", "punycode", "undefined", "hex", "nonsense", "utf-7"])
def test_a_wrong_encoding_is_a_message(tmp_path, encoding):
    path = tmp_path / "p.csv"
    path.write_text("x,ü,y\n" + "1,2,3\n" * 30, encoding="utf-8")
    done = run("compare", path, path, "--y", "y", "--encoding", encoding)
    assert ends_well(done), done.output
    assert "encoding" in done.stderr


def test_excel_files_are_read(tmp_path):
    content = frame()
    path = tmp_path / "p.xlsx"
    path.write_bytes(excel(content))
    pair = read_pair(str(path), str(path), ReadOptions(y=["y"]))
    np.testing.assert_allclose(pair.yp[:, 0], content["y"])
    assert [column.kind for column in pair.x] == ["number", "category"]
    (tmp_path / "p.csv").write_bytes(excel(content))
    np.testing.assert_allclose(read_pair(str(tmp_path / "p.csv"), str(path), ReadOptions(y=["y"])).xp, pair.xp)


def test_an_excel_file_without_openpyxl_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    path = tmp_path / "p.xlsx"
    path.write_bytes(b"PK\x03\x04")
    done = run("compare", path, path, "--y", "y")
    assert done.exit_code == 2
    assert "pip install openpyxl; or save the sheet as CSV UTF-8" in " ".join(done.stderr.split())


def test_damaged_arrow_through_watch_is_a_message(tmp_path):
    reference = tmp_path / "r.csv"
    frame(200).to_csv(reference, index=False)
    table = pa.Table.from_pandas(frame(60), preserve_index=False)
    out = io.BytesIO()
    with ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    content = out.getvalue()
    words = ["watch", str(reference), "--y", "y", "--x", "x,k", "--format", "arrow"]
    done = CliRunner().invoke(app, words, input=content[:-300])
    assert ends_well(done), done.output
    assert "reading it failed" in " ".join(done.stderr.split())
