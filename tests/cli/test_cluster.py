"""``condcs cluster``: every kind of file, what is written, and plain messages for bad ones."""

import csv

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

import typer
from typer.testing import CliRunner

from condcs._core.errors import CondcsError, DataError, ParameterError, ShapeError
from condcs._tables.sources import FileOptions
from condcs.cli.app import app
from condcs.cli.series_cells import SeriesOptions
from condcs.cli.series_files import read_series
from condcs.cli.series_grid import read_series_table
from condcs.timeseries import normalized_mutual_information
from condcs.timeseries._baseline_distances import BASELINES
from condcs.timeseries._cluster_page import SETS_WITH_CLASSES, SUGGESTIONS_RIGHT, TWO_RIGHT


def run(*arguments):
    return CliRunner().invoke(app, ["cluster", *map(str, arguments)])


def oscillators(n=16, length=60, seed=0):
    """Two classes of second-order series that turn at different speeds, from random starts."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = np.zeros((n, length))
    for i, label in enumerate(y):
        a = 2 * 0.99 * np.cos(0.4 if label else 1.5)
        X[i, :2] = rng.normal(size=2)
        for t in range(2, length):
            X[i, t] = a * X[i, t - 1] - 0.98 * X[i, t - 2] + 0.3 * rng.normal()
    return X, y


def write_table(path, X, y=None, header=None, separator=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        if header:
            writer.writerow(header)
        for i, row in enumerate(X):
            writer.writerow([*([f"class {y[i]}"] if y is not None else []), *map(repr, row.tolist())])
    return path


def test_two_dynamics_are_found(tmp_path):
    """Table on the screen, labels in a file, pictures in a page that holds everything itself."""
    X, y = oscillators()
    path = write_table(tmp_path / "waves.csv", X, y, ["kind", *(f"t{i}" for i in range(60))])
    done = run(path, "--k", 2, "--labels", "kind", "--out", tmp_path / "out", "--order", 2)
    assert done.exit_code == 0, done.output
    assert "NMI with the labels of the file 1.000" in done.output
    with (tmp_path / "out" / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["series"] for row in rows] == [str(i + 1) for i in range(16)]
    assert [row["cluster"] for row in rows] == [str(label + 1) for label in y]
    assert rows[3]["label"] == "class 1"
    page = (tmp_path / "out" / "clusters.html").read_text()
    assert page.count("<img") == 4
    assert "Choice of the settings" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "Against the labels of the file" in page


def test_series_with_names_are_called_by_them(tmp_path):
    """On the screen and on the page, which says of every series where it belongs."""
    X, _ = oscillators(8)
    rows = [["time", *(f"shop-{i}" for i in range(8))], *([t, *X[:, t]] for t in range(60))]
    (tmp_path / "shops.csv").write_text(table_text(rows))
    done = run(
        tmp_path / "shops.csv", "--k", 2, "--order", 2, "--factor", 0.8, "--scaling", "global", "--out", tmp_path
    )
    assert done.exit_code == 0, done.output
    assert "shop-" in done.output
    page = (tmp_path / "clusters.html").read_text()
    assert all(page.count(f"shop-{i}") >= 1 for i in range(8))
    # The surest first, else in the order of the file.
    assert "<td>shop-0, shop-2, shop-4, shop-6</td>" in page


def test_same_answer_from_every_kind_of_file(tmp_path):
    X, _ = oscillators(8)
    write_table(tmp_path / "a.csv", X)
    write_table(tmp_path / "b.tsv", X, separator="\t")
    np.savez(tmp_path / "c.npz", X=X)
    np.savez(tmp_path / "d.npz", X=X[:, None, :])
    np.savez(tmp_path / "e.npz", X=X[:, :, None])
    np.save(tmp_path / "f.npy", X)
    np.savez(tmp_path / "g.npz", **{f"s{i}": series for i, series in enumerate(X)})
    found = [read_series(tmp_path / name) for name in ("a.csv", "b.tsv", "c.npz", "d.npz", "f.npy", "g.npz")]
    found.append(read_series(tmp_path / "e.npz", SeriesOptions(layout="ntc")))
    for file in found:
        assert np.array_equal(np.concatenate(file.X), X)
        assert file.labels is None
        assert file.summary().startswith("8 series of 60 time points")


def table_text(rows):
    return "\n".join(",".join(map(str, row)) for row in rows) + "\n"


VALUES = np.random.default_rng(5).normal(size=(6, 20)).round(3)
ARRANGED = {
    "columns": table_text([["time", *"abcdef"], *([t, *VALUES[:, t]] for t in range(20))]),
    "columns without times": table_text(["abcdef", *(VALUES[:, t] for t in range(20))]),
    "columns by date": table_text([["date", *"abcdef"], *([f"2024-01-{t + 1:02d}", *VALUES[:, t]] for t in range(20))]),
    "long": table_text([["id", "time", "value"], *([f"s{i}", t, VALUES[i, t]] for t in range(20) for i in range(6))]),
    "long in any order": table_text(
        [["id", "time", "value"], *([f"s{i}", t, VALUES[i, t]] for i in range(6) for t in [0, *range(19, 0, -1)])]
    ),
    "columns by date, newest first": table_text(
        [["Date", *"abcdef"], *([f"2024-01-{t + 1:02d}", *VALUES[:, t]] for t in range(19, -1, -1))]
    ),
    "rows with numbers as names": table_text(
        [["id", *(f"t{t}" for t in range(20))], *([100 + i, *VALUES[i]] for i in range(6))]
    ),
    "rows with names": table_text([["id", *range(20)], *([f"s{i}", *VALUES[i]] for i in range(6))]),
    "semicolons": table_text(VALUES).replace(",", ";"),
    "blanks": table_text(VALUES).replace(",", "  "),
}


@pytest.mark.parametrize("name", ARRANGED)
def test_series_are_found_in_every_arrangement(name, tmp_path):
    (tmp_path / "a.csv").write_text(ARRANGED[name])
    file = read_series(tmp_path / "a.csv")
    assert np.array_equal(np.concatenate(file.X), VALUES), file.how
    assert name.partition(" ")[0] not in ("columns", "long") or len(file.names) == 6


HOLES = {
    "long": ["id,time,value", *(f"s{i},{t},{VALUES[i, t]}" for i in range(6) for t in range(20) if (i, t) != (1, 7))],
    "columns": ["date,a,b,c", *(f"2024-01-{t + 1:02d},{t},{t},{t}" for t in range(20) if t != 7)],
}


@pytest.mark.parametrize("name", HOLES)
def test_a_row_that_was_absent_joined_the_values_around_it(name, tmp_path):
    """A time that the table does not have is a gap: what comes after it does not follow what was before."""
    (tmp_path / "a.csv").write_text("\n".join(HOLES[name]))
    file = read_series(tmp_path / "a.csv")
    assert file.lengths == [20] * len(file.X)
    assert np.flatnonzero(np.isnan(file.X[1][0])).tolist() == [7]
    assert f"{1 if name == 'long' else 3} value" in file.summary()


def test_a_long_table_without_times_has_no_gaps(tmp_path):
    """Rows of several series in turn, as many as each has: nothing says that any is absent."""
    rows = ["a,0", "b,0", "a,1", "a,2", "b,1", "c,0", "c,1", "a,3", "b,2", "c,2"]
    (tmp_path / "a.csv").write_text("\n".join(["id,value", *rows]))
    file = read_series(tmp_path / "a.csv")
    assert [series.tolist() for series in file.X] == [[[0, 1, 2, 3]], [[0, 1, 2]], [[0, 1, 2]]]


@pytest.mark.parametrize("times", [[0, 1, 1, 2, 3, 4], [0, 1, 2.4, 7.7, 8.1, 30]], ids=["repeated", "uneven"])
def test_times_on_no_grid_are_taken_row_by_row(times, tmp_path):
    rows = [f"s{i},{t},{j}" for i in range(3) for j, t in enumerate(times)]
    (tmp_path / "a.csv").write_text("\n".join(["id,time,value", *rows]))
    assert [series.tolist() for series in read_series(tmp_path / "a.csv").X] == [[[0, 1, 2, 3, 4, 5]]] * 3


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("codes", [(0, 1), (1, 2), ("a", "b")])
def test_a_column_of_classes_without_a_name_is_noticed(ending, codes, tmp_path):
    """As in the files of the UCR archive; whole numbers beside whole numbers are counts."""
    separator = {"csv": ",", "tsv": "\t"}[ending]
    rows = table_text([codes[i % 2], *VALUES[i]] for i in range(6)).replace(",", separator)
    path = tmp_path / f"a.{ending}"
    path.write_text(rows)
    file = read_series(path)
    assert file.labels.tolist() == [str(codes[i % 2]) for i in range(6)]
    assert "classes in column 1" in file.how
    if codes == (0, 1):
        assert read_series(path, SeriesOptions(labels="none")).lengths == [21] * 6
    path.write_text(table_text([i % 2, *np.arange(5) * i] for i in range(6)).replace(",", separator))
    assert read_series(path).labels is None


def test_a_folder_has_a_file_for_each_series(tmp_path):
    """Channels are columns, classes are folders, lengths differ, and what pads the end is no value."""
    for i in range(4):
        folder = tmp_path / "all" / "uv"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        rows = [[t, VALUES[i, t], -VALUES[i, t]] for t in range(15 + i)]
        (folder / f"s{i}.csv").write_text(table_text([["t", "a", "b"], *rows, ["99", "", ""]]))
    file = read_series(tmp_path / "all")
    assert file.labels.tolist() == ["u", "u", "v", "v"]
    assert file.lengths == [15, 17, 16, 18]
    assert np.array_equal(file.X[2], [VALUES[1, :16], -VALUES[1, :16]])


def test_long_tables_of_several_channels_and_parquet(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "unit": np.repeat(list("abcd"), 20),
        "t": np.tile(np.arange(20), 4),
        "class": np.repeat(list("xyxy"), 20),
    }
    parquet.write_table(
        pa.table({**columns, "p": VALUES[:4].ravel(), "q": -VALUES[:4].ravel()}), tmp_path / "a.parquet"
    )
    file = read_series(tmp_path / "a.parquet")
    assert np.array_equal(file.X[3], [VALUES[3], -VALUES[3]])
    assert (file.names, file.labels.tolist()) == (("a", "b", "c", "d"), ["x", "y", "x", "y"])


def test_ts_files(tmp_path):
    """The format of aeon, with several channels and classes."""
    pytest.importorskip("aeon")
    from aeon.datasets import save_to_ts_file

    X, y = np.random.default_rng(0).normal(size=(6, 2, 20)), np.array(["a", "b"] * 3)
    save_to_ts_file(X, y, label_type="classification", path=str(tmp_path), problem_name="tiny")
    path = next(tmp_path.glob("*.ts"))
    file = read_series(path)
    assert np.allclose(np.stack(file.X), X)
    assert file.labels.tolist() == y.tolist()


def test_labels_of_arrays_get_their_names(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 9)), y=np.array([1, 0, 1]), classes=np.array(["dog", "cat"]))
    assert read_series(tmp_path / "a.npz").labels.tolist() == ["cat", "dog", "cat"]


def test_rows_may_be_of_different_lengths(tmp_path):
    (tmp_path / "a.csv").write_text("1,2,3,4,,\n5,6,7\n8,9,,10,11\n")
    file = read_series(tmp_path / "a.csv")
    assert file.lengths == [4, 3, 5]
    assert np.isnan(file.X[2][0, 2])


def test_a_class_at_the_end_of_rows_of_different_lengths_is_noticed(tmp_path):
    X, y = oscillators(n=6)
    rows = [[*map(repr, row[: 40 + i].tolist()), f"class {y[i]}"] for i, row in enumerate(X)]
    (tmp_path / "a.csv").write_text("\n".join(",".join(row) for row in rows))
    found = read_series(tmp_path / "a.csv")
    assert [series.shape for series in found.X] == [(1, 40 + i) for i in range(6)]
    assert all((series[0] == row[: 40 + i]).all() for i, (series, row) in enumerate(zip(found.X, X, strict=True)))
    assert list(found.labels) == [f"class {label}" for label in y]
    assert "classes in column 46" in found.summary()


def test_a_bare_table_that_is_long_and_narrow_is_read_by_rows_with_a_hint(tmp_path):
    X, _ = oscillators(n=4)
    np.savetxt(tmp_path / "a.csv", X.T, delimiter=",")
    assert "one per row (or --layout columns)" in read_series(tmp_path / "a.csv").summary()
    columns = read_series(tmp_path / "a.csv", SeriesOptions(layout="columns"))
    assert len(columns.X) == 4


def test_axes_the_other_way_round_are_named(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((5, 30, 2)))
    with pytest.raises(ShapeError, match="--layout ntc"):
        read_series(tmp_path / "a.npy")
    assert read_series(tmp_path / "a.npy", SeriesOptions(layout="ntc")).X[0].shape == (2, 30)


def test_a_column_of_labels_by_number(tmp_path):
    (tmp_path / "a.csv").write_text("1,x,3,4\n5,y,7,8\n8,x,9,10\n")
    file = read_series(tmp_path / "a.csv", SeriesOptions(labels="2"))
    assert file.labels.tolist() == ["x", "y", "x"]
    assert file.X[1].tolist() == [[5.0, 7.0, 8.0]]


def test_a_numeric_header_and_labels_by_title(tmp_path):
    """A first row of times is a header if the column of labels has its title there."""
    (tmp_path / "a.csv").write_text("label,0,1,2\n1,5,6,7\n2,8,9,10\n1,3,4,5\n")
    file = read_series(tmp_path / "a.csv", SeriesOptions(labels="label"))
    assert file.labels.tolist() == ["1", "2", "1"]
    assert len(file.X) == 3


PANDAS = {
    "times as titles": ("0,1,2,3\n5,6,7.5,9\n8,9,10.5,9\n3,4,5.5,9\n", 4, None),
    "titles and row numbers": (",0,1,2,3\n0,5,6,7.5,9\n1,8,9,10.5,9\n2,3,4,5.5,9\n", 4, None),
    "titles and classes": ("0,1,2,3,kind\n5,6,7.5,9,a\n8,9,10.5,9,b\n3,4,5.5,9,a\n", 4, ["a", "b", "a"]),
    "classes as row names": (",0,1,2\n0,5.5,6.5,7\n0,8.5,9.5,8\n1,3.5,4.5,3\n1,3.5,4.5,3\n", 3, ["0", "0", "1", "1"]),
    "no titles": ("0,1,2,3\n" * 3, 4, None),
}


@pytest.mark.parametrize(("text", "length", "classes"), PANDAS.values(), ids=PANDAS)
def test_row_numbers_and_numeric_titles_of_pandas_are_no_values(tmp_path, text, length, classes):
    """Titles 0, 1, 2, ... were read as one more series, and row numbers as its first values."""
    (tmp_path / "a.csv").write_text(text)
    file = read_series(tmp_path / "a.csv")
    untitled = len(set(text.splitlines())) == 1
    assert len(file.X) == len(text.splitlines()) - (not untitled)
    assert file.lengths == [length] * len(file.X)
    assert (file.labels.tolist() if file.labels is not None else None) == classes


def test_row_numbers_of_each_series_are_no_channel(tmp_path):
    """Tables put together by pandas.concat start counting again with every series, in text and in parquet."""
    pandas = pytest.importorskip("pandas")
    parts = [pandas.DataFrame({"id": name, "time": range(4), "value": np.arange(4.0)}) for name in "abc"]
    pandas.concat(parts).to_csv(tmp_path / "a.csv")
    pandas.concat(parts).to_parquet(tmp_path / "a.parquet")
    for ending in ("csv", "parquet"):
        file = read_series(tmp_path / f"a.{ending}")
        assert [series.tolist() for series in file.X] == [[[0.0, 1.0, 2.0, 3.0]]] * 3


def test_row_numbers_in_disorder_or_with_gaps_are_no_channel(tmp_path):
    """As pandas leaves them where a long table was sorted or filtered."""
    rows = [[row, f"s{i}", t, VALUES[i, t]] for row, (t, i) in enumerate(np.ndindex(20, 6))]
    shuffled = np.random.default_rng(0).permutation(len(rows))
    for kept in ([rows[place] for place in shuffled], [row for row in rows if row[0] % 7]):
        (tmp_path / "a.csv").write_text(table_text([["", "id", "time", "value"], *kept]))
        assert read_series(tmp_path / "a.csv").channels == 1


def test_dates_as_the_index_of_a_frame_tell_the_time(tmp_path):
    """They were taken for the names of series, and the columns for times."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame(VALUES.T, index=pandas.date_range("2024", periods=20)).to_parquet(tmp_path / "a.parquet")
    assert np.array_equal(np.concatenate(read_series(tmp_path / "a.parquet").X), VALUES)


def test_files_with_different_channels_are_named(tmp_path):
    for name, channels in (("a", 2), ("b", 2), ("c", 3)):
        np.save(tmp_path / f"{name}.npy", np.zeros((channels, 9)))
    with pytest.raises(ShapeError, match=r"got 2 in a\.npy and 3 in c\.npy"):
        read_series(tmp_path)


def test_times_that_a_series_has_twice_are_counted(tmp_path):
    rows = [[f"s{i}", t, VALUES[i, t]] for i in range(6) for t in range(20)]
    (tmp_path / "a.csv").write_text(table_text([["id", "time", "value"], *rows, *rows[:2]]))
    assert "2 rows with a time that the series already has" in read_series(tmp_path / "a.csv").how


@pytest.mark.parametrize("measure", ["dtw", "twed"])
def test_other_measures_and_medoids(measure, tmp_path):
    pytest.importorskip("aeon")
    X, _ = oscillators(8)
    np.savez(tmp_path / "a.npz", X=X)
    done = run(tmp_path / "a.npz", "--k", 2, "--measure", measure, "--method", "k_medoids", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert measure in done.output


@pytest.mark.slow
def test_several_channels_and_gaps(tmp_path):
    """Windows with a gap are dropped, and the gaps are counted; distances that need whole series interpolate them."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(7, 3, 30)).cumsum(axis=2)
    X[2, 1, 4] = np.nan
    np.savez(tmp_path / "a.npz", X=X)
    done = run(tmp_path / "a.npz", "--k", 2, "--scaling", "series", "--order", 1, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "7 series of 30 time points, 3 channels" in done.output
    assert "1 value missing" in " ".join(done.output.split())
    assert "window 1, factor" in done.output
    done = run(tmp_path / "a.npz", "--k", 2, "--measure", "tck", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output


def test_the_number_of_clusters_is_a_suggestion_with_its_marks_and_record(tmp_path):
    """It was called chosen; it is the number of classes hardly more often than 2 is."""
    X, _ = oscillators()
    done = run(write_table(tmp_path / "a.csv", X), "--k", "auto", "--order", 2, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    screen = " ".join(done.output.split())
    assert "clusters 2 suggested (marks 2: " in screen
    page = (tmp_path / "out" / "clusters.html").read_text()
    for text in (screen, page):
        assert f"on {SUGGESTIONS_RIGHT} of {SETS_WITH_CLASSES} data sets" in text
        assert f"always taking 2 would have been right on {TWO_RIGHT}" in text


def bumps_and_dynamics(length=60):
    """Two kinds of dynamics at two places of a bump: two partitions into two, both true."""
    rng = np.random.default_rng(0)
    t = np.arange(length)
    X = np.zeros((24, length))
    slopes, places = np.repeat([0.9, -0.5], 12), np.tile(np.repeat([15, 45], 6), 2)
    for i in range(1, length):
        X[:, i] = slopes * X[:, i - 1] + rng.normal(size=24)
    X /= X.std(axis=1, keepdims=True)
    return X + 5.0 * np.exp(-(((t - places[:, None]) / 5) ** 2)), places


def test_an_agreement_sounded_like_truth_and_the_rival_partition_was_not_shown(tmp_path):
    X, places = bumps_and_dynamics()
    path = write_table(tmp_path / "a.csv", X, places, ["kind", *(f"t{i}" for i in range(60))])
    done = run(path, "--k", 2, "--labels", "kind", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    screen = " ".join(done.output.split())
    page = (tmp_path / "out" / "clusters.html").read_text()
    assert "firmness" not in (screen + page).lower()
    assert "rival another partition is nearly as good (mark " in screen
    assert "NMI of the rival partition with the labels of the file" in screen
    assert "Another partition, nearly as good" in page
    assert page.count("<img") == 5
    with (tmp_path / "out" / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    partitions = [[row[column] for row in rows] for column in ("cluster", "rival_cluster")]
    assert max(normalized_mutual_information(places, labels) for labels in partitions) > 0.8
    assert normalized_mutual_information(*partitions) < 0.5


def test_a_choice_among_one_number_of_clusters_crashed(tmp_path):
    """Of seven series two clusters are the only number that is tried: there is no next one to name."""
    X, _ = oscillators(7)
    done = run(write_table(tmp_path / "few.csv", X), "--k", "auto", "--order", 2, "--factor", 0.8, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "clusters    2, the only number that 7 series allow" in done.output


def test_text_of_a_file_is_not_obeyed(tmp_path):
    """Markup stays text on the page, and formulas stay text in the table of labels."""
    X, y = oscillators(6)
    path = tmp_path / "a.csv"
    write_table(path, X)
    lines = path.read_text().splitlines()
    names = ["<script>alert(1)</script>", "=2+2"]
    path.write_text("\n".join(f"{names[y[i]]},{line}" for i, line in enumerate(lines)))
    done = run(path, "--k", 2, "--order", 2, "--labels", 1, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "<script>alert" not in (tmp_path / "out" / "clusters.html").read_text()
    assert "'=2+2" in (tmp_path / "out" / "labels.csv").read_text()


BAD = {
    "a.csv": ("1,2,3\n4,x,6\n7,8,9\n", DataError, "the first 'x' in line 2.*--labels"),
    "b.csv": ("", DataError, "got an empty table"),
    "c.csv": ("1,2,3\n", ShapeError, "at least 3 series, got 1"),
    "dates.csv": (
        "Date,a,b\n" + "".join(f"01/{t:02d}/2024,{t},{-t}\n" for t in range(1, 9)),
        DataError,
        "ISO date in every row, got '01/01/2024' in line 2",
    ),
    "d.doc": ("1 2 3", DataError, "must be a folder or end in one of .csv"),
    "e.npz": ("nothing", DataError, "plain arrays|could not be read"),
    "f.ts": ("@nonsense\n1,2,3\n", CondcsError, "aeon can read|at least 3 series, got 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path):
    text, error, words = BAD[name]
    if name.endswith(".ts"):
        pytest.importorskip("aeon")
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=words):
        read_series(tmp_path / name)


def test_advice_on_an_array_of_a_file_was_turned_into_an_option(tmp_path, capfd):
    """The error said "np.savez(path, FILE X)", and that `FILE` in the file must hold numbers."""
    np.savez(tmp_path / "empty.npz")
    np.savez(tmp_path / "scalar.npz", X=np.zeros(()))
    np.savez(tmp_path / "labels.npz", X=np.zeros((4, 5)), y=np.zeros(3))
    said = {
        "empty": "np.savez(path, X=series)",
        "scalar": "array 'X' in scalar.npz must hold numbers",
        "labels": "array 'y' beside array 'X' in labels.npz must hold a label",
    }
    for name, words in said.items():
        with pytest.raises(SystemExit):
            app(["cluster", str(tmp_path / f"{name}.npz"), "--k", "2"])
        assert words in " ".join(capfd.readouterr().err.split())


def test_bad_arrays_and_labels(tmp_path):
    np.savez(tmp_path / "a.npz", Z=np.zeros((3, 2, 2)))
    with pytest.raises(DataError, match="an array X, or one array per series, got Z"):
        read_series(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", X=np.zeros(3))
    with pytest.raises(ShapeError, match="three axes"):
        read_series(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", X=np.zeros((4, 5)), y=np.zeros(3))
    with pytest.raises(ShapeError, match="a label for each of 4"):
        read_series(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", X=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="plain arrays"):
        read_series(tmp_path / "a.npz")
    (tmp_path / "b.csv").write_text("1,2\n3,4\n5,6\n")
    with pytest.raises(ParameterError, match="its number from 1 to 2, got 'kind'"):
        read_series(tmp_path / "b.csv", SeriesOptions(labels="kind"))
    with pytest.raises(DataError, match="bring their labels along"):
        read_series(tmp_path / "a.npz", SeriesOptions(labels="1"))


def test_errors_end_in_a_plain_message(tmp_path):
    for arguments, words in (
        ((tmp_path / "none.csv", "--k", 2), "must be an existing file or folder"),
        ((write_table(tmp_path / "a.csv", oscillators(5)[0]), "--k", 9), "`--k`"),
        ((tmp_path / "a.csv", "--k", 2, "--measure", "euclid"), "`--measure` must be one of"),
        ((tmp_path / "a.csv", "--k", 2, "--order", 59), "time points"),
    ):
        done = run(*arguments, "--out", tmp_path / "out")
        assert done.exit_code == 2, done.output
        assert words in " ".join((done.output + done.stderr).split())
        assert "Traceback" not in done.output + done.stderr
    assert not (tmp_path / "out").exists()


DAYS = [f"2024-01-{t + 1:02d}" for t in range(20)]
LONG = {
    "words, dates": ("sensor,date,value", [(f"s{i}", DAYS[t], VALUES[i, t]) for i in range(6) for t in range(20)]),
    "dates under any title": (
        "sensor,when,value",
        [(f"s{i}", f"{DAYS[t]} 10:00", VALUES[i, t]) for t in range(20) for i in range(6)],
    ),
    "codes": ("date,store,value", [(DAYS[t], 100 + i, VALUES[i, t]) for t in range(20) for i in range(6)]),
    "counted times": ("city,hour,value", [(f"s{i}", t, VALUES[i, t]) for i in range(6) for t in range(20)]),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_table_without_the_title_id_was_read_as_a_series_per_row(name, tmp_path):
    """As 120 series of two values, dates as classes, or it was an error about the first date."""
    header, rows = LONG[name]
    (tmp_path / "a.csv").write_text(table_text([header.split(","), *rows]))
    file = read_series(tmp_path / "a.csv")
    assert np.array_equal(np.concatenate(file.X), VALUES)
    assert len(file.names) == 6
    titles = header.split(",")
    series, times = (titles[1], titles[0]) if name == "codes" else titles[:2]
    assert f"series in {series!r}, times in {times!r} (or --id and --time, or --layout)" in file.how
    assert file.labels is None


CLOCKS = {
    "day": [f"2024-01-{t + 1:02d}" for t in range(20)],
    "Datum": [f"2024-01-01 {t:02d}:00" for t in range(20)],
    "month": [f"2024-01-{20 - t:02d}" for t in range(20)],
    "year": [2001 + t for t in range(20)],
}


@pytest.mark.parametrize("title", CLOCKS)
@pytest.mark.parametrize("position", [0, 6])
def test_a_wide_table_with_times_under_another_title_was_read_as_a_series_per_time(title, position, tmp_path):
    names = list("abcdef")
    names.insert(position, title)
    rows = [names, *([*VALUES[:position, t], CLOCKS[title][t], *VALUES[position:, t]] for t in range(20))]
    (tmp_path / "a.csv").write_text(table_text(rows))
    file = read_series(tmp_path / "a.csv")
    values = VALUES[:, ::-1] if title == "month" else VALUES
    assert np.array_equal(np.concatenate(file.X), values)
    assert file.names == tuple("abcdef")
    assert f"one per column, times in {title!r} (or --layout rows)" in file.how
    # Where titles count the hours, each day is a series.
    profile = [["day", *range(20)], *([DAYS[i], *VALUES[i]] for i in range(6))]
    (tmp_path / "b.csv").write_text(table_text(profile))
    assert np.array_equal(np.concatenate(read_series(tmp_path / "b.csv").X), VALUES)


TITLES = {
    "years": list(range(2000, 2020)),
    "tenths": [f"{t / 10:.1f}" for t in range(20)],
    "fives": list(range(5, 105, 5)),
    "days": [f"2020-01-{t + 1:02d}" for t in range(20)],
    "compact days": [f"202001{t + 1:02d}" for t in range(20)],
    "months": [f"20{15 + t // 12}-{t % 12 + 1:02d}" for t in range(20)],
}


@pytest.mark.parametrize("layout", ["auto", "rows"])
@pytest.mark.parametrize("corner", ["id", "shop", ""])
@pytest.mark.parametrize("titles", TITLES)
def test_titles_in_equal_steps_or_dates_were_read_as_a_series(titles, corner, layout, tmp_path):
    """`condcs cluster` and `condcs causal --layout rows` find the same series."""
    names = [f"shop {i}" for i in range(6)]
    rows = [[corner, *TITLES[titles]], *([name, *values] for name, values in zip(names, VALUES, strict=True))]
    (tmp_path / "a.csv").write_text(table_text(rows))
    file = read_series(tmp_path / "a.csv", SeriesOptions(layout=layout))
    assert np.array_equal(np.concatenate(file.X), VALUES)
    assert file.names == tuple(names)
    assert file.labels is None
    grid = read_series_table(str(tmp_path / "a.csv"), SeriesOptions(layout="rows"))
    assert grid.names == file.names
    assert np.array_equal(grid.values.T, VALUES)


@pytest.mark.parametrize("titles", TITLES)
def test_titles_above_numbers_of_rows_were_read_as_a_series(titles, tmp_path):
    rows = [["", *TITLES[titles]], *([i, *VALUES[i]] for i in range(6))]
    (tmp_path / "a.csv").write_text(table_text(rows))
    assert np.array_equal(np.concatenate(read_series(tmp_path / "a.csv").X), VALUES)


@pytest.mark.parametrize("corner", ["id", "series", ""])
def test_causal_read_numbers_that_name_rows_as_a_time(corner, tmp_path):
    rows = [[corner, *TITLES["years"]], *([i if corner == "" else 17 + i, *VALUES[i]] for i in range(6))]
    (tmp_path / "a.csv").write_text(table_text(rows))
    grid = read_series_table(str(tmp_path / "a.csv"), SeriesOptions(layout="rows"))
    assert np.array_equal(grid.values.T, VALUES)
    assert np.array_equal(np.concatenate(read_series(tmp_path / "a.csv", SeriesOptions(layout="rows")).X), VALUES)


def test_a_first_series_in_equal_steps_is_no_header_below_its_own_class(tmp_path):
    (tmp_path / "a.csv").write_text("a,2,4,6\nb,5,1,7\na,2,4,7\nb,4,1,8\n")
    file = read_series(tmp_path / "a.csv")
    assert len(file.X) == 4
    assert file.labels.tolist() == ["a", "b", "a", "b"]


MONTHS = TITLES["months"]


@pytest.mark.parametrize("sign", ["-", "/"])
def test_a_month_was_no_date(sign, tmp_path):
    months = [month.replace("-", sign) for month in MONTHS]
    rows = [["month", *"abcdef"], *([months[t], *VALUES[:, t]] for t in range(20))]
    (tmp_path / "a.csv").write_text(table_text(rows))
    file = read_series(tmp_path / "a.csv")
    assert file.names == tuple("abcdef")
    assert "times in 'month'" in file.how
    grid = read_series_table(str(tmp_path / "a.csv"), SeriesOptions(layout="columns"))
    assert grid.detected_time == "month"
    assert (grid.axis.are_dates, grid.absent) == (True, 0)
    assert np.array_equal(grid.values.T, VALUES)
    long = [["id", "date", "value"], *(("abcdef"[i], months[t], VALUES[i, t]) for i in range(6) for t in range(20))]
    (tmp_path / "b.csv").write_text(table_text(long))
    grid = read_series_table(str(tmp_path / "b.csv"), SeriesOptions(layout="long", id="id"))
    assert np.array_equal(grid.values.T, VALUES)
    assert np.array_equal(np.concatenate(read_series(tmp_path / "b.csv").X), VALUES)


def test_whole_numbers_as_values_of_a_long_table_are_not_its_series(tmp_path):
    """(sales, date) is unique, too: the column with fewer values tells the series; a word per series is its class."""
    rows = [(DAYS[t], f"m{i}", "xy"[i % 2], 1000 + 20 * i + t) for t in range(20) for i in range(6)]
    (tmp_path / "a.csv").write_text(table_text([["day", "machine", "sort", "sales"], *rows]))
    file = read_series(tmp_path / "a.csv")
    assert file.names == tuple(f"m{i}" for i in range(6))
    assert file.labels.tolist() == ["x", "y"] * 3
    assert file.X[2].tolist() == [[1040.0 + t for t in range(20)]]
    codes = [(DAYS[t], i, 1000 + 20 * i + t) for t in range(20) for i in range(6)]
    (tmp_path / "b.csv").write_text(table_text([["day", "machine", "sales"], *codes]))
    assert "series in 'machine'" in read_series(tmp_path / "b.csv").how


def test_a_series_per_row_with_a_class_and_a_titled_number_stays_one(tmp_path):
    """Without a column of times that repeat from series to series nothing is a long table."""
    rows = [("ab"[i % 2], *VALUES[i]) for i in range(6)]
    (tmp_path / "a.csv").write_text(table_text([["kind", *(f"t{t}" for t in range(20))], *rows]))
    assert read_series(tmp_path / "a.csv").lengths == [20] * 6


def test_a_word_per_series_of_a_long_table_is_its_class_without_being_named(tmp_path):
    """As in a table with a series per row; words that change within a series are no classes."""
    rows = [f"s{i},{t},{np.sin(i + t):.3f},{'ill' if i % 2 else 'well'}" for i in range(4) for t in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["subject,t,value,diagnosis", *rows]), encoding="utf-8")
    found = read_series(tmp_path / "a.csv")
    assert found.labels.tolist() == ["well", "ill", "well", "ill"]
    assert "classes in 'diagnosis' (or --labels none)" in found.summary()
    (tmp_path / "b.csv").write_text("\n".join(["subject,t,value,diagnosis", *rows, "s0,20,1,ill"]), encoding="utf-8")
    with pytest.raises(DataError, match="column 'diagnosis' that are not numbers, the first 'well' in line 2"):
        read_series(tmp_path / "b.csv")


def test_decimal_commas_and_marks_of_gaps_are_read_if_they_are_named(tmp_path):
    """Without titles too: rows of numbers that are not read would look like a line of titles."""
    values = np.sin(np.arange(60)).reshape(3, 20).round(3)
    lines = [";".join(f"{v:.3f}".replace(".", ",") for v in row) for row in values]
    lines[1] = lines[1].replace(lines[1].split(";")[4], "n.d.")
    (tmp_path / "a.csv").write_text("\n".join(lines), encoding="utf-8")
    done = run(tmp_path / "a.csv", "--k", 2, "--layout", "rows")
    assert "Pass --decimal , if commas are decimal signs" in " ".join(done.stderr.split())
    files = FileOptions(decimal=",", gaps="n.d.")
    found = read_series(tmp_path / "a.csv", SeriesOptions(files=files))
    np.testing.assert_array_equal(found.X[0][0], values[0])
    assert np.isnan(found.X[1][0]).nonzero()[0].tolist() == [4]


def test_a_file_in_a_folder_that_is_no_series_is_named_with_the_remedy(tmp_path):
    for name in "abc":
        np.savetxt(tmp_path / f"{name}.csv", np.sin(np.arange(20.0)))
    (tmp_path / "README.txt").write_text("hello\nworld\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"If README\.txt is not a series, move it out of the folder"):
        read_series(tmp_path)


def test_series_of_different_lengths_in_one_array_were_an_error_of_memory_maps(tmp_path):
    ragged = np.empty(3, dtype=object)
    ragged[:] = [np.arange(5.0), np.arange(6.0), np.arange(7.0)]
    np.save(tmp_path / "a.npy", ragged, allow_pickle=True)
    with pytest.raises(DataError, match=r"it holds Python objects\. Save it again with np\.savez\(path, \*series\)"):
        read_series(tmp_path / "a.npy")


def test_help_lists_the_measures_that_can_be_clustered_by():
    """The names were typed once more in the help."""
    command = typer.main.get_command(app).commands["cluster"]
    measure = next(option for option in command.params if option.name == "measure")
    *others, last = "conditional_cs", *BASELINES
    assert measure.help == f"{', '.join(others)} or {last}."
