"""What reaches the terminal: any encoding, dumb and narrow terminals, closed pipes, and text that would repaint it."""

import csv
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import typer
from rich.table import Table

from condcs._core.printable import harmless
from condcs.cli.app import app
from condcs.cli.terminal import STAND_INS, Terminal, foreign
from tests.house_prices import house_prices

ESC = "\x1b"


def command(*words):
    return [sys.executable, "-c", "from condcs.cli import main; main()", *map(str, words)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    rng = np.random.default_rng(0)
    house_prices(80, 1).to_csv(folder / "march.csv", index=False)
    changed = house_prices(80, 3, changed=True)
    changed["price"] = 2 * changed["price"]
    changed.to_csv(folder / "changed.csv", index=False)
    np.savetxt(folder / "waves.csv", rng.normal(size=(6, 30)).cumsum(axis=1), delimiter=",")
    np.savetxt(
        folder / "chain.csv", rng.normal(size=(80, 2)), delimiter=",", header="é→,b", comments="", encoding="utf-8"
    )
    return folder


def written(monkeypatch, encoding, *words, given=b""):
    """Run a command on streams of an encoding; return its exit code and what stands on both."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
    with pytest.raises(SystemExit) as ended:
        typer.main.get_command(app).main(list(map(str, words)))
    for stream in streams:
        stream.flush()
    monkeypatch.undo()
    return ended.value.code, *(stream.buffer.getvalue().decode(encoding) for stream in streams)


COMMANDS = {
    "help": (["compare", "--help"], 0, "Usage: condcs compare"),
    "compare": (["compare", "march.csv", "changed.csv", "--y", "price", "--resamples", 39, "--jobs", 1], 1, " -> "),
    "compare json": (
        ["compare", "march.csv", "changed.csv", "--y", "price", "--resamples", 39, "--json", "--jobs", 1],
        1,
        '"changed": true',
    ),
    "causal": (["causal", "chain.csv", "--resamples", 5, "--jobs", 1], 0, "->"),
    "causal json": (["causal", "chain.csv", "--resamples", 5, "--json", "--jobs", 1], 0, "\\u00e9\\u2192"),
    "reproduce": (["reproduce", "fig5"], 0, "x differs"),
    "list": (["reproduce"], 0, "fig5"),
    "demo": (["demo", "--rows", 20], 0, "1 <= x <= 2"),
    "cluster": (["cluster", "waves.csv", "--k", 2, "--order", 2, "--jobs", 1], 0, "Mean silhouette"),
    "explore": (["explore", "maze", "--seeds", 1, "--steps", 20, "--rows", 3, "--jobs", 1], 0, "places"),
    "error": (["compare", "é→.csv", "changed.csv", "--y", "price"], 2, ".csv could not be read"),
    "usage": (["compare", "--é→"], 2, "No such option"),
}


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_console_that_is_not_utf8_got_a_traceback(files, tmp_path, monkeypatch, name, encoding):
    words, code, expected = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    for path in files.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ended, out, errors = written(monkeypatch, encoding, *words)
    assert ended == code, errors
    assert expected in out + errors
    assert "Traceback" not in out + errors
    assert not re.search(r"\\u2[0-9a-f]{3}", out) or "json" in name  # signs of our own have stand-ins
    if "json" in name:
        json.loads(out)


def test_watch_on_an_ascii_console(files, monkeypatch):
    monkeypatch.chdir(files)
    rows = (files / "changed.csv").read_bytes()
    words = ["watch", "march.csv", "--y", "price", "--run-length", 400]
    code, out, _ = written(monkeypatch, "ascii", *words, given=rows)
    assert code == 1
    assert "price is higher, since" in " ".join(out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "C locale"],
)
def test_stand_ins_in_a_process_of_its_own(environment, tmp_path):
    words = command("demo", "--rows", "20", "--out", tmp_path / "é.png")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    ended = subprocess.run(words, env=bare | environment, capture_output=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert b"1 <= x <= 2" in ended.stdout
    assert ended.stdout.isascii()


def test_columns_stay_in_line_with_stand_ins(monkeypatch):
    from rich.table import Table

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    table = Table(box=None, pad_edge=False)
    table.add_column("a")
    table.add_column("b")
    for cell in ("1 → 2", "1 ≤ 2", "plain"):
        table.add_row(cell, "|")
    Terminal().print(table)
    sys.stdout.flush()
    lines = sys.stdout.buffer.getvalue().decode().splitlines()
    assert {line.index("|") for line in lines[1:]} == {8}
    assert lines[1].startswith("1 -> 2")


def test_stand_ins_are_ascii_and_have_no_escapes_of_their_own():
    assert all(stand_in.isascii() and stand_in.isprintable() for stand_in in STAND_INS.values())


NASTY = f"a{ESC}[2J{ESC}]0;title\x07\x9b31m\u202eevil\u2066\r\n[red]x[/] [/bold] :warning:"


def test_foreign_text_is_shown_and_not_obeyed(capsys):
    """Control characters, C1, direction marks, line ends, markup and emoji codes."""
    Terminal().print(f"[bold]{foreign(NASTY)}[/bold]", soft_wrap=True)
    shown = capsys.readouterr().out
    assert shown == (r"a\x1b[2J\x1b]0;title\x07\x9b31m\u202eevil\u2066\r\n[red]x[/] [/bold] :warning:" + "\n")
    assert harmless("Zürich 東京 → ±") == "Zürich 東京 → ±"


def test_text_that_nobody_escaped_cannot_reach_the_terminal(capsys):
    """The console itself is the last line of defence: for strings, cells of tables and titles."""
    from rich.table import Table

    table = Table(title=f"t{ESC}[1m")
    table.add_column(f"h{ESC}[2m")
    table.add_row(f"c{ESC}[3m")
    terminal = Terminal()
    terminal.print(table)
    terminal.print(f"s{ESC}[4m\u202e")
    shown = capsys.readouterr().out
    assert all(rf"{letter}\x1b[{number}m" in shown for number, letter in enumerate("thcs", start=1))
    assert ESC not in shown
    assert "\u202e" not in shown


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Tables whose columns, cells and file names try to clear the screen and to write a verdict of their own."""
    folder = tmp_path_factory.mktemp("hostile")
    y, x = f"price{ESC}[2J\nThe relation did not change.", f"[red]{ESC}[1A\u202e[/]"
    names = []
    for number, changed in enumerate((False, True)):
        frame = house_prices(80, number, changed=changed)[["price", "area", "district"]]
        frame["price"] *= 1 + number
        frame["district"] = frame["district"].replace({"harbour": f"{ESC}[8mharbour\r[/]"})
        names.append(folder / f"{number}{ESC}[31m[b].csv")
        frame.rename(columns={"price": y, "area": x}).to_csv(names[-1], index=False, quoting=csv.QUOTE_ALL)
    return *names, y


def test_a_file_could_repaint_the_verdict(hostile, monkeypatch, tmp_path):
    march, april, y = hostile
    page = tmp_path / f"page{ESC}[1m.html"
    words = ["compare", march, april, "--y", y, "--resamples", 39, "--jobs", 1]
    code, out, errors = written(monkeypatch, "utf-8", *words, "--report", page)
    assert code == 1, errors
    for character in (ESC, "\u202e", "\r"):
        assert character not in out + errors
    assert "\nThe relation did not change" not in out
    assert r"[red]\x1b[1A\u202e[/]" in out.replace("\n", "")
    code, out, _ = written(monkeypatch, "utf-8", *words, "--json")
    assert code == 1
    assert out.isascii()
    assert json.loads(out)["y"][0]["name"] == y


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "{march}", "{april}", "--y", f"nothing{ESC}[2J"],
        ["compare", f"absent{ESC}[2J.csv", "{april}", "--y", "a"],
        ["compare", "{march}", "{april}", "--y", "a", f"--no{ESC}[2J"],
        [f"cmd{ESC}[2J\u202e"],
        ["causal", "{march}"],
        ["cluster", f"absent{ESC}[2J.csv", "--k", "2"],
        ["demo", "--out", f"absent{ESC}[2J/demo.png"],
        ["reproduce", f"table{ESC}[2J"],
        ["explore", f"maze{ESC}[2J"],
        ["watch", f"absent{ESC}[2J.csv", "--y", "a"],
    ],
)
def test_messages_could_repaint_the_terminal(hostile, monkeypatch, words):
    march, april, _ = hostile
    filled = [word.format(march=march, april=april) for word in words]
    code, out, errors = written(monkeypatch, "utf-8", *filled)
    assert code == 2
    assert not {ESC, "\u202e", "\r"} & set(out + errors)
    assert len([line for line in errors.splitlines() if not line.startswith("Calibrating")]) == 1


def test_a_file_name_that_is_no_text(monkeypatch, tmp_path):
    """Undecodable bytes come in as surrogates, which no encoding writes."""
    name = os.fsencode(tmp_path) + b"/\xff.csv"
    with open(name, "wb") as file:
        file.write(b"a,b\n1,2\n")
    code, _, errors = written(monkeypatch, "utf-8", "causal", os.fsdecode(name))
    assert code == 2
    assert r"\udcff.csv" in errors


def on_a_terminal(words, **environment):
    """Run a command on a pseudo-terminal and return its exit code and all that it wrote."""
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    unset = {"NO_COLOR", "COLUMNS", "TERM", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TTY_COMPATIBLE"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(command(*words), stdin=slave, stdout=slave, stderr=slave, env=inherited | environment)
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux: the other side has closed
            break
        if not part:
            break
        seen += part
    os.close(master)
    return process.wait(timeout=120), seen.decode()


@pytest.mark.parametrize("words", [["reproduce", "fig5", "--quick", "--out", "."], ["--help"], ["compute"]])
def test_dumb_terminals_got_escape_codes(words, tmp_path):
    words = [tmp_path if word == "." else word for word in words]
    code, seen = on_a_terminal(words, TERM="dumb", COLUMNS="30")
    assert code == (2 if words == ["compute"] else 0), seen
    assert ESC not in seen
    assert "\r" not in seen.replace("\r\n", "")
    steps = [line for line in seen.splitlines() if line.startswith("fig5: ")]
    assert len(steps) == len(set(steps))


@pytest.mark.parametrize("words", [["reproduce"], ["--help"], ["compute"]])
def test_no_color_left_bold_and_dim(words):
    _, seen = on_a_terminal(words, TERM="xterm-256color", NO_COLOR="1")
    assert not re.search(rf"{ESC}\[[\d;]*m", seen)
    assert re.search(rf"{ESC}\[[\d;]*m", on_a_terminal(words, TERM="xterm-256color")[1])


def test_narrow_terminals_cut_numbers(files, monkeypatch):
    """30 columns: rows become lists, every number is whole, and help does not lose words."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "30")
    code, out, _ = written(monkeypatch, "utf-8", *COMMANDS["compare"][0])
    assert code == 1
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 30
    assert re.search(r"^p-value: 0\.\d{3}$", out, re.MULTILINE)
    assert re.search(r"^mean price: \d{3} → \d{3}$", out, re.MULTILINE)
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "30")
    assert "…" not in written(monkeypatch, "utf-8", "compare", "--help")[1]


@pytest.mark.parametrize("words", [["reproduce"], ["--help"], ["compare", "--help"]])
def test_a_closed_pipe_looked_like_a_change(words):
    """Both rich and typer end with 1 there; 1 is for what `compare` and `watch` found."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(command(*words), stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120)
    os.close(writing)
    assert ended.returncode == 141
    assert b"Traceback" not in ended.stderr
    assert b"Exception ignored" not in ended.stderr


def test_words_of_size_said_moderate_where_nothing_changed(files, monkeypatch, tmp_path):
    """No word for the size of a difference, neither where the test rejects nor where it does not."""
    monkeypatch.chdir(files)
    page = tmp_path / "page.html"
    for other, code in (("changed.csv", 1), ("march.csv", 0)):
        monkeypatch.chdir(files)
        words = ["compare", "march.csv", other, "--y", "price", "--resamples", 39, "--jobs", 1]
        ended, out, _ = written(monkeypatch, "utf-8", *words, "--report", page)
        assert ended == code
        text = re.sub(r"data:[^\"]*", "", page.read_text(encoding="utf-8"))
        for word in ("hardly any", "slight", "moderate", "very large", "large difference"):
            assert word not in out
            assert word not in text


def test_warnings_of_the_library_are_notes(monkeypatch, capsys):
    from condcs._core.errors import OverlapWarning
    from condcs.cli.boundary import _show_warning

    _show_warning(OverlapWarning(f"5 rows of {ESC}[2J are\nalone."), OverlapWarning, "file.py", 3)
    assert capsys.readouterr().err == "Note: 5 rows of \\x1b[2J are alone.\n"


def _spawned(folder):
    """Run in a process that shares nothing with this one."""
    os.chdir(folder)
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.sin(np.arange(40.0))})
    frame.to_csv("a table.csv", index=False)
    words = ["compare", "a table.csv", "a table.csv", "--y", "y", "--resamples", "19", "--report", "a page.html"]
    typer.main.get_command(app).main(words)


@pytest.mark.slow
def test_commands_run_in_spawned_processes(tmp_path):
    """The only way to start a process on Windows and the usual one on macOS; paths with spaces."""
    import multiprocessing

    process = multiprocessing.get_context("spawn").Process(target=_spawned, args=(str(tmp_path),))
    process.start()
    process.join(200)
    assert process.exitcode == 0
    assert (tmp_path / "a page.html").is_file()


def test_help_broke_its_lines_where_the_source_does(monkeypatch):
    """Paragraphs flow to the margin: on a wide screen the sentence about exit codes is on one line."""
    monkeypatch.setenv("COLUMNS", "250")
    lines = written(monkeypatch, "utf-8", "compare", "--help")[1].splitlines()
    assert any("Exit code: 0 = no evidence that p(y|x) changed" in line for line in lines)


@pytest.mark.parametrize("width", [60, 72, 80, 100])
def test_numbers_beside_long_words_were_cut(monkeypatch, width):
    """Rich took the room for long words from the numbers: 0.3644 became 0.36, which is another number."""
    monkeypatch.setenv("COLUMNS", str(width))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("race", overflow="fold")
    columns = {"rows": "600", "relation": "no evidence", "p-value": "1.000", "inputs": "no evidence"}
    columns |= {"p of inputs": "0.020", "share of recid = 1": "0.4533 → 0.3644"}
    for title, cell in columns.items():
        table.add_column(title, justify="left" if "evidence" in cell else "right", overflow="ellipsis")
    for name in ("African-American", "Native American"):
        table.add_row(name, *columns.values())
    terminal = Terminal()
    with terminal.capture() as shown:
        terminal.print(terminal.fitted(table))
    assert shown.get().count("0.4533 → 0.3644") == 2
    assert shown.get().count("0.020") == 2


@pytest.mark.parametrize("columns", ["0", "00"])
def test_a_width_of_nothing_printed_nothing(files, monkeypatch, columns):
    """COLUMNS=0 means that the width is not known, as for the functions of Python."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", columns)
    code, out, _ = written(monkeypatch, "utf-8", *COMMANDS["compare"][0])
    assert code == 1
    assert "is p(y|x) the same?" in out
