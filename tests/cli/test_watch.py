"""``condcs watch``: alarms from standard input, states to go on from, and how it fails."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from condcs._core.files import locked, sealed
from condcs._tables.pair import ReadOptions
from condcs.cli import watch_command as watch
from condcs.cli.app import app
from condcs.drift import Alarm
from condcs.drift._alarm import Summary
from condcs.drift._watch_page import StreamHistory, watch_page
from tests.house_prices import house_prices

OPTIONS = ["--y", "price", "--x", "area,district", "--run-length", "2000"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("watch") / "reference.csv"
    house_prices(500, 1).to_csv(path, index=False)
    return path


def as_csv(*frames):
    out = io.StringIO()
    pd.concat(frames).to_csv(out, index=False)
    return out.getvalue().encode()


def run(reference, *words, given):
    return CliRunner().invoke(app, ["watch", str(reference), *OPTIONS, *map(str, words)], input=given)


def test_a_change_is_reported_with_its_row(reference):
    given = as_csv(house_prices(60, 2), house_prices(240, 3, changed=True))
    result = run(reference, "--json", given=given)
    assert result.exit_code == 1, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert 60 < found[0]["row"] <= 300
    assert len(found) == 1
    assert found[0]["statistic"] > found[0]["threshold"] == 2000
    assert found[0]["response"] == "price"
    assert "1 alarm." in result.stderr


def test_rows_that_are_learned_after_an_alarm_were_not_counted(reference):
    given = as_csv(house_prices(60, 2), house_prices(240, 3, changed=True))
    result = run(reference, "--json", given=given)
    (alarm,) = map(json.loads, result.stdout.splitlines())
    said = " ".join(result.stderr.split())
    assert f"{300 - alarm['row']} rows from which a new reference was learned after an alarm" in said
    kept = run(reference, "--after-alarm", "keep", given=given)
    assert "learned" not in kept.stderr


class Arriving(io.RawIOBase):
    """Bytes that arrive in pieces of some length, as from a slow pipe."""

    def __init__(self, content, length):
        self.pieces = [content[start : start + length] for start in range(0, len(content), length)][::-1]

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self.pieces.pop() if self.pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize("length", [97, 8000])
def test_the_answer_does_not_depend_on_how_rows_arrive(reference, tmp_path, monkeypatch, capsys, length):
    """One by one or all at once: the same alarms, the same words on rows that cannot be used, and the same state."""
    good = as_csv(house_prices(90, 2), house_prices(700, 3, changed=True), house_prices(300, 4)).splitlines()
    bad = [b"big,north,1", b",north,1", b"100,nowhere,1", b"1,2", "\u00e9".encode("latin-1") + b",north,3"]
    lines = [good[0], *good[1:40], *bad, *good[40:500], *bad[::-1], *good[500:]]
    content = b"\r\n".join(lines)
    state = tmp_path / "state.npz"
    told = []
    for piece in (length, 31):
        state.unlink(missing_ok=True)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Arriving(content, piece))))
        options = ReadOptions(x=["area", "district"], y=["price"])
        with pytest.raises(typer.Exit) as ended:
            watch.run(str(reference), options, run_length=2000, state=state, as_machine=True, stream_format=None)
        with np.load(state, allow_pickle=False) as stored:
            told.append((ended.value.exit_code, capsys.readouterr(), {n: stored[n].tolist() for n in stored.files}))
    assert told[0][0] == 1
    assert told[0] == told[1]


def test_the_beginning_of_a_change_was_moved_by_rows_that_could_not_be_used(reference):
    """All gaps of the stream were added to it, those after the beginning, too."""
    quiet, changed = as_csv(house_prices(200, 2)).splitlines(), as_csv(house_prices(120, 3, changed=True)).splitlines()
    gaps = [b",north,1"] * 5
    plain = run(reference, "--json", given=b"\n".join([*quiet, *changed[1:]]))
    (alarm,) = map(json.loads, plain.stdout.splitlines())
    lines = [*quiet, *(line for row in changed[1:] for line in (row, *gaps))]
    with_gaps = run(reference, "--json", "--drop-missing", given=b"\n".join(lines))
    (moved,) = map(json.loads, with_gaps.stdout.splitlines())

    def line_of(row: int) -> int:
        """Every row after 200 has five gaps behind it."""
        return row if row <= 200 else 201 + 6 * (row - 201)

    for name in ("row", "since"):
        assert moved[name] == line_of(alarm[name]), name
    assert moved["since_range"][0] <= moved["since"] <= moved["since_range"][1] <= moved["row"]


def test_no_change_ends_with_zero(reference):
    result = run(reference, given=as_csv(house_prices(80, 4)))
    assert result.exit_code == 0, result.output
    assert "80 rows, 0 alarms" in result.stderr


def test_labels_and_jsonl(reference):
    frame = house_prices(60, 5)
    swapped = house_prices(80, 6).assign(sold=lambda f: f.sold.map({"yes": "no", "no": "yes"}))
    given = pd.concat([frame, swapped]).to_json(orient="records", lines=True).encode()
    words = ["watch", str(reference), "--y", "sold", "--x", "area,district", "--run-length", "2000"]
    result = CliRunner().invoke(app, words, input=given)
    assert result.exit_code == 1, result.output
    assert "sold is" in " ".join(result.stdout.split())
    assert "conditional CS divergence" in " ".join(result.stdout.split())


def test_a_saved_state_goes_on_where_it_stopped(reference, tmp_path):
    """Two halves with a state between them report what one run reports."""
    frame = pd.concat([house_prices(70, 7), house_prices(240, 8, changed=True)])
    whole = run(reference, "--json", given=as_csv(frame))
    state = tmp_path / "state.npz"
    parts = [run(reference, "--json", "--state", state, given=as_csv(part)) for part in (frame[:120], frame[120:])]
    assert parts[0].stdout + parts[1].stdout == whole.stdout
    assert whole.stdout
    assert "Resuming after row 120" in parts[1].stderr


def test_gaps(reference):
    frame = house_prices(40, 9)
    frame.loc[3, "area"] = np.nan
    named = run(reference, given=as_csv(frame))
    assert named.exit_code == 0
    assert "Row 4 of standard input is dropped: it has a missing value in 'area'" in named.stderr
    silent = run(reference, "--drop-missing", given=as_csv(frame))
    assert "is dropped" not in silent.stderr
    for result in (named, silent):
        assert "40 rows, 1 with missing values dropped, 0 alarms" in result.stderr


def test_bad_rows_are_counted_and_named_not_fatal(reference):
    """A word where a number is due, too few cells, a zero byte: the alarms are those of the stream without them."""
    frame = pd.concat([house_prices(60, 2), house_prices(240, 3, changed=True)])
    header, *rows = as_csv(frame).decode().splitlines()
    places = [frame.columns.get_loc(name) for name in ("area", "price")]
    bad = [",".join("?" if k in places else "1" for k in range(len(frame.columns))), "1,2", "\0" + rows[0]]
    bad += ["1"] * 9
    mixed = "\n".join([header, *rows[:20], *bad, *rows[20:], ""]).encode()
    clean, result = run(reference, "--json", given=as_csv(frame)), run(reference, "--json", given=mixed)
    assert result.exit_code == clean.exit_code == 1
    found = [json.loads(line) for line in result.stdout.splitlines()]
    expected = [
        {
            **alarm,
            "row": alarm["row"] + 12,
            "since": alarm["since"] + 12,
            "since_range": [row + 12 for row in alarm["since_range"]],
        }
        for alarm in map(json.loads, clean.stdout.splitlines())
    ]
    assert found == expected
    said = " ".join(result.stderr.split())
    assert "Row 21 of standard input is dropped: standard input must hold a number" in said
    assert f"Row 22 of standard input is dropped: standard input must have {frame.shape[1]} cells" in said
    assert "got 2 in line 23" in said
    assert "zero byte" in said
    assert said.count("is dropped") == 5
    assert "Further rows that cannot be used are only counted" in said
    assert "312 rows, 12 that could not be read dropped" in said


def test_a_byte_of_another_encoding_ended_the_watch(reference):
    """In a label, in a number, in a column that is not watched: rows that need it are counted, the others watched."""
    frame = house_prices(40, 9)
    frame["note"] = "x"
    header, *rows = as_csv(frame).splitlines()
    place = list(frame.columns).index("district")
    cells = rows[5].split(b",")
    cells[place] = b"\xe9" + cells[place]
    rows[5] = b",".join(cells)
    rows[7] = rows[7][:-1] + b"\xff"
    rows[9] = b"\xfe\xff" + rows[9]
    result = run(reference, given=b"\n".join([header, *rows, b""]))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert "40 rows, 1 that could not be read and 1 with labels that the reference does not have dropped" in said
    other = run(reference, given="\n".join(line.decode("latin-1") for line in (header, *rows)).encode("utf-16-le"))
    assert other.exit_code == 2
    assert "--encoding" in other.stderr


def test_labels_never_seen_are_counted_not_fatal(reference):
    frame = house_prices(40, 9)
    frame.loc[5, "district"] = "elsewhere"
    result = run(reference, given=as_csv(frame))
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert "40 rows, 1 with labels that the reference does not have dropped" in said
    assert "Row 6 of standard input is dropped: 'district' is 'elsewhere', a label that the reference does not" in said


def test_report_shows_the_stream_and_its_alarms(reference, tmp_path):
    page = tmp_path / "page.html"
    given = as_csv(house_prices(60, 2), house_prices(240, 3, changed=True))
    assert run(reference, "--report", page, given=given).exit_code == 1
    text = page.read_text()
    assert "The relation changed once, at row" in text
    assert "The stream</h2>" in text
    assert "data:image/" in text
    quiet = run(reference, "--report", page, given=as_csv(house_prices(40, 4)))
    assert quiet.exit_code == 0, quiet.output
    assert "No change of the relation was found." in page.read_text()


def test_the_page_showed_means_where_the_spread_changed():
    sides = {"reference": Summary(5.0, 0.9554, 200), "recent": Summary(4.0, 2.636, 12)}
    common = {"row": 9, "response": "y", "label": None, "region": "all rows", "bounds": {}, "since": 7}
    common |= {"since_range": (5, 8), "at_least": False, "difference": 0.0, "interval": None, "divergence": 0.3}
    common |= {"witness_at": {}, "witness_value": None, "statistic": 1.0, "threshold": 1.0, **sides}
    alarms = [Alarm(kind=kind, change="y varies more", **common) for kind in ("spread", "level")]
    about = {"x": "x", "y": "y", "rows": 200, "title": "t", "run_length": 1.0, "after_alarm": "keep"}
    text = watch_page(about, alarms, StreamHistory(), "", (), "").html()
    assert "<td>sd 0.9554</td><td>sd 2.636</td>" in text
    assert "<td>5</td><td>4</td>" in text


def test_the_page_had_a_deviation_of_one_row():
    sides = {"reference": Summary(5.0, 14.55, 200), "recent": Summary(4.0, None, 1)}
    common = {"row": 9, "response": "y", "label": None, "region": "all rows", "bounds": {}, "since": 9}
    common |= {"since_range": (5, 9), "at_least": False, "difference": 0.0, "interval": None, "divergence": None}
    common |= {"witness_at": {}, "witness_value": None, "statistic": 1.0, "threshold": 1.0, **sides}
    alarm = Alarm(kind="spread", change="y varies less", shown=False, **common)
    about = {"x": "x", "y": "y", "rows": 200, "title": "t", "run_length": 1.0, "after_alarm": "keep"}
    text = watch_page(about, [alarm], StreamHistory(), "", (), "").html()
    assert "<td>sd 14.55</td><td>too few rows (1 row, no change shown)</td>" in text


def test_history_of_a_long_stream_stays_short():
    """Buckets double in length; no row, and not the largest statistic, is lost."""
    history = StreamHistory()
    for row in range(1, 5001):
        history.add(row, 1.0 if row % 2 else float("nan"), float(row == 1234), is_learning=False)
    again = StreamHistory.from_table(history.table())
    buckets = again.buckets
    assert len(buckets) <= 600
    assert buckets[-1, 0] == 5000
    assert buckets[:, 1].sum() == 2500
    assert buckets[:, 4].max() == 1.0
    assert (np.diff(buckets[:, 0]) > 0).all()


def test_bad_lines_of_json_are_not_fatal(reference):
    first, *rest = house_prices(40, 4).to_json(orient="records", lines=True).splitlines()
    given = "\n".join([first, "{broken", "[1]", '{"area": [1], "district": "north", "price": 1}', *rest]).encode()
    result = run(reference, "--format", "jsonl", given=given)
    assert result.exit_code == 0, result.stderr
    assert "43 rows, 3 that could not be read dropped, 0 alarms" in " ".join(result.stderr.split())


def test_state_of_other_settings_is_refused_not_gone_on_from(reference, tmp_path):
    """Each difference is named with both values; the state stays as it was."""
    state, other = tmp_path / "state.npz", tmp_path / "other.csv"
    house_prices(240, 2).to_csv(other, index=False)
    given = as_csv(house_prices(40, 4))
    assert run(reference, "--state", state, given=given).exit_code == 0
    kept = state.read_bytes()
    for place, words, named in (
        (reference, ["--after-alarm", "keep"], "`--after-alarm`: stored learn, asked keep"),
        (reference, ["--run-length", "900"], "`--run-length`: stored 2000.0, asked 900.0"),
        (reference, ["--seed", "5"], "`--seed`: stored 0, asked 5"),
        (
            reference,
            ["--x", "!district"],
            "`--x`: stored area (number), district (category), asked area (number). Name",
        ),
        (reference, ["--y", "sold"], "`--y`: stored price (number), asked price (number), sold (category)"),
        (other, [], f"the reference: stored 500 rows of {reference} ("),
        (tmp_path / "absent.csv", [], "could not be read: No such file"),
    ):
        result = run(place, *words, "--state", state, given=given)
        said = " ".join(result.stderr.split())
        assert result.exit_code == 2, named
        assert named in said
        if place != tmp_path / "absent.csv":
            assert "Name another --state, or delete it" in said
        assert state.read_bytes() == kept
    both = run(reference, "--after-alarm", "keep", "--seed", "5", "--state", state, given=given)
    assert "`--after-alarm`: stored learn, asked keep; `--seed`: stored 0, asked 5" in " ".join(both.stderr.split())
    # The same rows under another name are the same reference.
    house_prices(500, 1).to_csv(other, index=False)
    assert run(other, "--state", state, given=given).exit_code == 0


def test_damaged_state_is_a_message_not_a_fault(reference, tmp_path):
    state = tmp_path / "state.npz"
    assert run(reference, "--state", state, given=as_csv(house_prices(40, 4))).exit_code == 0
    whole, rng = state.read_bytes(), np.random.default_rng(0)
    np.savez(tmp_path / "other.npz", about=np.arange(3))
    np.savez(tmp_path / "pickle.npz", about=np.array([{}], dtype=object))
    foreign = [(tmp_path / name).read_bytes() for name in ("other.npz", "pickle.npz")]
    damaged = [b"", b"PK", whole[:-1], whole[: len(whole) // 2], whole + b"x", *foreign]
    damaged += map(sealed, [*foreign, b"", b"PK\3\4"])
    for place in rng.integers(len(whole), size=12):
        damaged.append(whole[:place] + bytes([whole[place] ^ 1 << int(rng.integers(8))]) + whole[place + 1 :])
    for content in damaged:
        state.write_bytes(content)
        result = run(reference, "--state", state, given=as_csv(house_prices(40, 4)))
        assert result.exit_code == 2, result.output
        said = " ".join(result.stderr.split())
        assert "must be a complete state that condcs watch wrote" in said
        assert "Name another --state, or delete it" in said
        assert "Traceback" not in result.output
        assert state.read_bytes() == content


def test_state_in_use_is_refused(reference, tmp_path):
    with locked(tmp_path / ".state.npz.lock"):
        result = run(reference, "--state", tmp_path / "state.npz", given=as_csv(house_prices(40, 4)))
    assert result.exit_code == 2
    assert "another one is running" in " ".join(result.stderr.split())


def test_state_is_written_though_no_more_rows_come(reference, tmp_path, monkeypatch):
    """The last rows of a burst get old while nothing happens that could write them."""
    monkeypatch.setattr(watch, "SAVED_SECONDS", 0.05)
    state = tmp_path / "state.npz"
    header, *rows = as_csv(house_prices(4, 4)).splitlines(keepends=True)

    class Waiting(io.RawIOBase):
        """Gives some rows, and the end only when they are in the state."""

        def __init__(self):
            self.parts = [header + b"".join(rows)]

        def readable(self):
            return True

        def readinto(self, buffer):
            if not self.parts:
                while rows_in(state) < 4:
                    time.sleep(0.01)
                return 0
            part = self.parts.pop()
            buffer[: len(part)] = part
            return len(part)

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Waiting())))
    options = ReadOptions(x=["area"], y=["price"])
    watch.run(str(reference), options, run_length=2000, state=state, as_machine=True, stream_format=None)
    assert rows_in(state) == 4


def rows_in(state):
    with np.load(state, allow_pickle=False) as stored:
        return json.loads(str(stored["about"]))["rows"]


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        ([], b"", "standard input is empty"),
        ([], b"area,price\n1,2\n", "lacks 'district'"),
        (
            [],
            b"area,district,price\nbig,north,1\n",
            "a number in every cell of column 'area', as the reference does, got 'big'",
        ),
        (["--after-alarm", "stop"], b"a\n", "--after-alarm"),
        (["--state", __file__], b"a\n", "must be a complete state that condcs watch wrote"),
        (["--state", str(Path(__file__).parent)], b"a\n", "must be a file"),
        (["--y", "prize"], b"a\n", "Did you mean 'price'?"),
        (["--state", "/dev/null/x.npz"], as_csv(house_prices(20, 1)), "must lie in a folder, but /dev/null is not one"),
    ],
)
def test_errors_end_with_two(reference, words, given, message):
    result = run(reference, *words, given=given)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def start(reference, *words, **streams):
    command = [sys.executable, "-c", "from condcs.cli import main; main()", "watch", reference, *OPTIONS, *words]
    return subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stderr=subprocess.PIPE, **streams)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_leave_a_state(reference, tmp_path, name):
    """The process has certainly begun to watch when the pipe, which holds 64 kB, has taken more."""
    number = getattr(signal, name, None)
    if number is None:
        pytest.skip(f"no {name} here")
    state = tmp_path / "state.npz"
    process = start(reference, "--state", state)
    process.stdin.write(as_csv(house_prices(2000, 10)))
    process.stdin.flush()
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == 128 + number, said
    assert b"the same command resumes from there" in b" ".join(said.split())
    assert rows_in(state) > 0


ALARMS = as_csv(house_prices(60, 2), house_prices(240, 3, changed=True))


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--json"], []])
def test_closed_standard_output_is_not_blamed_on_standard_input(reference, tmp_path, words):
    """``watch | head``: no message, the exit code of a closed pipe; the alarm that nobody has seen is told again."""
    state = tmp_path / "state.npz"
    reading, writing = os.pipe()
    os.close(reading)
    process = start(reference, "--state", state, *words, stdout=writing)
    os.close(writing)
    _, said = process.communicate(ALARMS, timeout=120)
    assert process.returncode == 141, said
    assert said.decode().split() == ["Learning", "the", "reference", "..."]
    seen = rows_in(state)
    assert 60 < seen < 300
    rest = ALARMS.splitlines(keepends=True)
    again = run(reference, "--state", state, "--json", given=b"".join([rest[0], *rest[1 + seen :]]))
    whole = run(reference, "--json", given=ALARMS)
    assert again.stdout == whole.stdout
    assert json.loads(again.stdout.splitlines()[0])["row"] == seen


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full here")
def test_full_standard_output_is_a_message_and_leaves_the_state(reference, tmp_path):
    state = tmp_path / "state.npz"
    with open("/dev/full", "wb") as full:
        process = start(reference, "--state", state, stdout=full)
        _, said = process.communicate(ALARMS, timeout=120)
    assert process.returncode == 2
    assert b"standard output could not be written: No space left on device" in b" ".join(said.split())
    assert b"Exception ignored" not in said
    assert rows_in(state) > 60
