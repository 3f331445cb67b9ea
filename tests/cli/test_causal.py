"""``condcs causal`` on files."""

import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from condcs._core.errors import DataError
from condcs.causal import causal_graph
from condcs.cli.app import app
from condcs.cli.series_cells import SeriesOptions
from condcs.cli.series_grid import read_series_table
from condcs.datasets import make_henon_chain


def causal(*arguments):
    return CliRunner().invoke(app, ["causal", *map(str, arguments)])


def write(path, columns, header):
    lines = [",".join(header), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def chain():
    return make_henon_chain(900, n_maps=3, rng=1).series


def test_links_page_and_exit_code(chain, tmp_path):
    days = np.datetime64("2020-01-01") + np.arange(900)
    file = write(tmp_path / "chain.csv", [days, *chain.T], ["day", "a", "b", "<c> $x_1$"])
    page = tmp_path / "page.html"
    done = causal(file, "--time", "day", "--order", 2, "--resamples", 60, "--out", page)
    assert done.exit_code == 0, done.output
    lines = done.output.strip().splitlines()
    assert lines[0] == "3 series of 900 times."
    first = lines[3].split()
    assert first[1] == "→"
    assert first[-1] == "drives"
    text = page.read_text()
    assert "&lt;c&gt; $x_1$" in text
    assert "<c>" not in text
    assert text.count("<img ") == 3
    assert "adjusted p" in text


def test_json_names_the_links(chain, tmp_path):
    file = write(tmp_path / "chain.csv", chain.T, ["a", "b", "c"])
    done = causal(file, "--order", 2, "--resamples", 60, "--json", "--out", tmp_path / "page.html")
    content = json.loads(done.stdout)
    assert content["rows"] == 900
    best = {(r["source"], r["target"]) for r in content["links"] if r["pvalue"] <= 0.05}
    assert {("a", "b"), ("b", "c")} <= best
    assert len(content["links"]) == 6


def test_columns_can_be_chosen(chain, tmp_path):
    file = write(tmp_path / "chain.csv", chain.T, ["a", "b", "c"])
    done = causal(file, "--columns", "!c", "--order", 1, "--resamples", 5, "--json", "--out", tmp_path / "page.html")
    assert {r["source"] for r in json.loads(done.stdout)["links"]} == {"a", "b"}


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        (lambda t: t[::-1], ["--time", "t"], "time does not increase at 't' in line 3"),
        (lambda t: np.where(t == 7, 6, t), ["--time", "t"], "keep one row per time"),
        (lambda t: t, ["--time", "when"], "must be a column of"),
        (lambda t: ["x"] * len(t), ["--time", "t"], "a number or an ISO date"),
        (lambda t: ["word"] * len(t), [], "the first 'word' in line 2. If it holds times, name it with --time"),
        (lambda t: np.sqrt(t) % 7 + t // 7 * 9, ["--time", "t"], "must have equally spaced times, holes apart"),
        (lambda t: t // 3, ["--time", "t"], "if it has a row per series and time, name the series with --id"),
        (lambda t: 0 * t, [], "leave it out with --columns '!t'"),
        (lambda t: t, ["--time", "t", "--order", "many"], "`--order` must be an integer"),
        (lambda t: t, ["--time", "t", "--null", "none"], "`--null` must be one of"),
        (lambda t: t, ["--columns", "z"], "must name columns"),
        (lambda t: t, ["--id", "a"], "`--time` must name the column of"),
    ],
)
def test_errors_are_plain_messages(chain, tmp_path, change, arguments, words):
    file = write(tmp_path / "bad.csv", [change(np.arange(900)), *chain.T[:2]], ["t", "a", "b"])
    done = causal(file, *arguments, "--resamples", 2, "--out", tmp_path / "page.html")
    assert done.exit_code == 2
    assert words in " ".join((done.output + done.stderr).split())
    assert "Traceback" not in done.output
    assert not (tmp_path / "page.html").exists()


def test_a_first_row_of_values_was_taken_for_names(chain, tmp_path):
    np.savetxt(tmp_path / "bare.csv", chain, delimiter=",", fmt="%.4f")
    with pytest.raises(DataError, match="must have the names of its columns in its first row, got numbers"):
        read_series_table(str(tmp_path / "bare.csv"), SeriesOptions())
    file = write(tmp_path / "counted.csv", chain.T, ["0", "1", "2"])
    assert read_series_table(str(file), SeriesOptions()).names == ("0", "1", "2")


def test_uneven_times_were_one_more_series(chain, tmp_path):
    uneven = np.cumsum(np.random.default_rng(0).uniform(0.2, 2, len(chain)))
    file = write(tmp_path / "uneven.csv", [uneven, *chain.T], ["Time", "a", "b", "c"])
    with pytest.raises(DataError, match="must have equally spaced times"):
        read_series_table(str(file), SeriesOptions())
    assert read_series_table(str(file), SeriesOptions(columns=("!Time",))).names == ("a", "b", "c")


def test_absent_file(tmp_path):
    done = causal(tmp_path / "none.csv")
    assert done.exit_code == 2
    assert "could not be read" in " ".join((done.output + done.stderr).split())


def test_a_header_alone_was_an_unexpected_error(tmp_path):
    (tmp_path / "header.csv").write_text("a,b\n")
    done = causal(tmp_path / "header.csv", "--out", tmp_path / "page.html")
    assert done.exit_code == 2
    assert "got 2 series and 0 times" in " ".join(done.stderr.split())


def test_automatic_order_is_chosen_on_ranks_where_ranks_are_tested(tmp_path):
    """With their outliers, exponentials of the Henon map seem to be of order 4; their ranks are those of the map."""
    file = write(tmp_path / "maps.csv", np.exp(8 * make_henon_chain(300, n_maps=2).series).T, ["a", "b"])
    settings = [file, "--resamples", 5, "--json", "--out", tmp_path / "page.html"]
    assert json.loads(causal(*settings, "--ranks").stdout)["embeddings"]["a"]["order"] == 2
    assert json.loads(causal(*settings).stdout)["embeddings"]["a"]["order"] == 4


def test_twenty_eight_times_were_too_few_for_the_command_but_not_for_the_function(chain, tmp_path):
    file = write(tmp_path / "few.csv", chain[:28].T, ["a", "b", "c"])
    done = causal(file, "--json", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    expected = {
        n: {"lag": e.lag, "order": e.order_x} for n, e in zip("abc", causal_graph(chain[:28]).embeddings, strict=True)
    }
    assert json.loads(done.stdout)["embeddings"] == expected


@pytest.fixture(scope="module")
def short():
    return make_henon_chain(120, n_maps=2, rng=1).series


def answered(tmp_path, *arguments):
    settings = ("--order", 1, "--lag", 1, "--resamples", 5, "--json", "--out", tmp_path / "page.html")
    done = causal(*arguments, *settings)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_hole_of_twenty_hours_was_ignored(short, tmp_path):
    hours = np.datetime64("2024-03-01T00") + np.arange(120) + np.where(np.arange(120) < 70, 0, 20)
    file = write(tmp_path / "hourly.csv", [hours, *short.T], ["hour", "a", "b"])
    content = answered(tmp_path, file, "--time", "hour")
    assert (content["rows"], content["holes"], content["absent_times"]) == (140, 1, 20)
    assert content["rows_complete"] == [118, 118]  # the first time and the first after the hole have no past
    said = causal(file, "--time", "hour", "--order", 1, "--resamples", 5, "--out", tmp_path / "page.html").output
    assert said.startswith("2 series of 140 times; 1 hole in time, 20 times absent.")
    assert "does not reach across a hole" in (tmp_path / "page.html").read_text()
    assert answered(tmp_path, file, "--columns", "!hour")["rows_complete"] == [119, 119]


def test_missing_cells_are_left_out_and_counted(short, tmp_path):
    columns = [column.astype(object) for column in short.T]
    columns[0][10], columns[1][50] = "", "NA"
    file = write(tmp_path / "gaps.csv", columns, ["a", "b"])
    refused = causal(file, "--out", tmp_path / "page.html")
    assert refused.exit_code == 2
    words = " ".join((refused.output + refused.stderr).split())
    assert "gaps.csv must have no missing values, got 2 missing values, most in 'a'." in words
    assert "or pass --drop-missing to leave out every time whose value or past is missing" in words
    content = answered(tmp_path, file, "--drop-missing")
    assert (content["missing_values"], content["holes"]) == (2, 0)
    assert content["rows_complete"] == [116, 116]
    assert "2 missing values" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_one_answer_for_every_layout(short, tmp_path):
    """Columns, rows, a long table in any order of series, arrays and parquet: the same series, the same links."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(short, columns=["a", "b"])
    frame.to_csv(tmp_path / "columns.csv", index=False)
    frame.to_parquet(tmp_path / "columns.parquet")
    frame.T.rename_axis("series").to_csv(tmp_path / "rows.csv")
    long = frame.rename_axis("t").reset_index().melt("t", var_name="series", value_name="v")
    long.sort_values("t").to_csv(tmp_path / "long.csv", index=False)
    np.save(tmp_path / "columns.npy", short)
    np.savez(tmp_path / "rows.npz", X=short.T)
    np.savez(tmp_path / "named.npz", a=short[:, 0], b=short[:, 1])
    expected = answered(tmp_path, tmp_path / "columns.csv")["links"]
    for name, arguments in {
        "columns.parquet": [],
        "rows.csv": ["--layout", "rows", "--id", "series"],
        "long.csv": ["--id", "series", "--time", "t"],
        "named.npz": [],
    }.items():
        assert answered(tmp_path, tmp_path / name, *arguments)["links"] == expected, name
    for name, arguments in {"columns.npy": [], "rows.npz": ["--layout", "rows"]}.items():
        links = answered(tmp_path, tmp_path / name, *arguments)["links"]
        assert [row["score"] for row in links] == [row["score"] for row in expected], name
        assert {row["source"] for row in links} == {"x1", "x2"}


def test_series_of_a_long_table_may_lack_times(short, tmp_path):
    rows = [("a", t, v) for t, v in enumerate(short[:, 0])] + [("b", t, v) for t, v in enumerate(short[:, 1]) if t > 9]
    file = write(tmp_path / "long.csv", list(zip(*rows, strict=True)), ["id", "t", "v"])
    content = answered(tmp_path, file, "--layout", "long", "--id", "id", "--time", "t")
    assert (content["rows"], content["missing_values"]) == (120, 0)
    assert content["rows_complete"] == [109, 109]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--layout", "rows"], "must have more times than series, got 2 times of 120 series"),
        (["--layout", "long"], "`--id` must name the column of"),
        (["--layout", "diagonal"], "`--layout` must be one of"),
        (["--id", "z", "--time", "a"], "`--id` must be a column of"),
    ],
)
def test_misread_layouts_are_plain_messages(short, tmp_path, arguments, words):
    file = write(tmp_path / "columns.csv", short.T, ["a", "b"])
    done = causal(file, *arguments, "--out", tmp_path / "page.html")
    assert done.exit_code == 2
    assert words in " ".join((done.output + done.stderr).split())


def test_a_first_column_of_dates_had_to_be_named(chain, tmp_path):
    days = np.datetime64("2020-01-01") + np.delete(np.arange(900), range(300, 320))
    file = write(tmp_path / "dates.csv", [days, *np.delete(chain, range(300, 320), axis=0).T], ["day", "a", "b", "c"])
    table = read_series_table(str(file), SeriesOptions())
    assert table.names == ("a", "b", "c")
    assert (table.holes, table.absent) == (1, 20)
    assert table.words() == "3 series of 900 times (column 'day'); 1 hole in time, 20 times absent."
    # Where every row is the step after the one before, as of trading days, the dates are left out.
    assert read_series_table(str(file), SeriesOptions(columns=("!day",))).words() == "3 series of 880 times."


def test_leaving_a_column_out_as_advised_lost_times_and_counters(short, tmp_path):
    """Without the column of dates, the next message was about it, and a counter became a series."""
    days = np.datetime64("2020-01-01") + np.arange(120) + np.where(np.arange(120) < 70, 0, 20)
    columns = [days, *short.T, np.arange(120), ["sun"] * 120]
    file = write(tmp_path / "weather.csv", columns, ["day", "a", "b", "row", "sky"])
    with pytest.raises(DataError, match=r"or leave the column out with --columns '!sky'\."):
        read_series_table(str(file), SeriesOptions())
    table = read_series_table(str(file), SeriesOptions(columns=("!sky",)))
    assert table.words() == (
        "2 series of 140 times (column 'day'); 'row' only counts them and is left out; 1 hole in time, 20 times absent."
    )
    assert read_series_table(str(file), SeriesOptions(columns=("a", "b"))).holes == 1
    assert read_series_table(str(file), SeriesOptions(columns=("!sky", "!day"))).holes == 0


def test_row_numbers_and_seconds_were_taken_for_series(short, tmp_path):
    seconds = 1_700_000_000 + 3600 * np.arange(120) + np.where(np.arange(120) < 70, 0, 20 * 3600)
    file = write(tmp_path / "epoch.csv", [seconds, *short.T, np.arange(120)], ["t", "a", "b", "row"])
    table = read_series_table(str(file), SeriesOptions())
    assert table.names == ("a", "b")
    assert table.words() == (
        "2 series of 140 times (column 't'); 'row' only counts them and is left out; 1 hole in time, 20 times absent."
    )
    write(file, [seconds, *short.T, np.arange(120), np.arange(120)], ["t", "a", "b", "row", "k"])
    assert "'row', 'k' only count them and are left out" in read_series_table(str(file), SeriesOptions()).words()
    # A series that was asked for is a series, and so is one that grows unevenly.
    assert read_series_table(str(file), SeriesOptions(columns=("row", "a"))).names == ("row", "a")
    write(file, [np.cumsum(np.exp(short[:, 0])), short[:, 1]], ["a", "b"])
    assert read_series_table(str(file), SeriesOptions()).names == ("a", "b")


def test_dates_were_found_in_the_first_column_only(short, tmp_path):
    days = np.datetime64("2020-01-01") + np.arange(120)
    file = write(tmp_path / "second.csv", [short[:, 0], days, short[:, 1]], ["a", "day", "b"])
    assert read_series_table(str(file), SeriesOptions()).words() == "2 series of 120 times (column 'day')."
    rows = [
        (name, day, v) for name, column in zip("ab", short.T, strict=True) for day, v in zip(days, column, strict=True)
    ]
    file = write(tmp_path / "long.csv", list(zip(*rows, strict=True)), ["id", "day", "v"])
    assert read_series_table(str(file), SeriesOptions(id="id")).words() == "2 series of 120 times (column 'day')."


def test_more_than_a_hundred_dates_were_advised_to_be_corrected_one_by_one(short, tmp_path):
    days = [f"{1 + k % 28}/{1 + k // 28}/2020" for k in range(120)]
    file = write(tmp_path / "european.csv", [days, *short.T], ["day", "a", "b"])
    with pytest.raises(DataError, match="name it with --time and write them as 2026-01-31 18:00"):
        read_series_table(str(file), SeriesOptions())


def test_a_first_column_of_words_had_to_be_named_in_rows(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("name,1,2,3,4\nrain,1,2,1,3\nwind,4,2,4,2\n")
    table = read_series_table(str(file), SeriesOptions(layout="rows"))
    assert table.names == ("rain", "wind")
    assert table.values.shape == (4, 2)


def test_a_table_without_links_was_said_to_have_no_influence(tmp_path):
    """61 months of noise: no evidence of a link is not evidence of none, on the screen, the page and in JSON."""
    noise = np.random.default_rng(1).normal(size=(61, 2))
    file, page = write(tmp_path / "noise.csv", noise.T, ["a", "b"]), tmp_path / "page.html"
    shown = causal(file, "--order", 1, "--lag", 1, "--out", page)
    words = "No evidence that any series drives another: 0 of 2 possible links"
    assert words in " ".join(shown.output.split())
    assert words in page.read_text()
    assert "No series drives another" not in page.read_text()
    answer = json.loads(causal(file, "--order", 1, "--lag", 1, "--json", "--out", page).stdout)
    assert answer["verdict"].startswith(words)


def test_the_rows_of_each_link_are_printed(tmp_path):
    noise = np.random.default_rng(1).normal(size=(61, 2))
    file = write(tmp_path / "noise.csv", noise.T, ["a", "b"])
    lines = causal(file, "--order", 1, "--lag", 1, "--out", tmp_path / "page.html").output.splitlines()
    assert lines[2].split() == ["source", "target", "score", "rows", "p", "adjusted", "p"]
    assert [line.split()[4] for line in lines[3:5]] == ["60", "60"]
    assert "rows used" in (tmp_path / "page.html").read_text()


def test_times_of_the_file_reach_the_picture(tmp_path):
    """Dates or numbers, of columns or of a long table; those of a hole lie between its neighbours."""
    days = np.datetime64("2024-01-01") + np.delete(np.arange(40), [7, 8])
    first = float((days[0] - np.datetime64("1970-01-01")).astype(int))
    values = np.random.default_rng(0).normal(size=(2, 38))
    wide = read_series_table(str(write(tmp_path / "a.csv", [days, *values], ["day", "a", "b"])), SeriesOptions())
    rows = [np.tile(days, 2), np.repeat(["a", "b"], 38), values.ravel()]
    long_file = write(tmp_path / "b.csv", rows, ["day", "who", "value"])
    long = read_series_table(str(long_file), SeriesOptions(id="who"))
    for table in (wide, long):
        assert table.axis.name == "day"
        assert table.axis.are_dates
        assert table.axis.values.tolist() == [first + t for t in range(40)]
    years = write(tmp_path / "c.csv", [1990 + np.arange(38), *values], ["year", "a", "b"])
    counted = read_series_table(str(years), SeriesOptions())
    assert (counted.axis.name, counted.axis.are_dates, counted.axis.values[-1]) == ("year", False, 2027)
    assert read_series_table(str(write(tmp_path / "d.csv", values, ["a", "b"])), SeriesOptions()).axis is None
