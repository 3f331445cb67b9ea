"""Mistakes at the command line: exit code 2, one paragraph in the words of the command line, and no traceback."""

import re
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from condcs._core.vocabulary import named, setting, speaking, table_setting
from condcs.cli.app import app
from condcs.cli.boundary import CommandLine, install_hint
from tests.house_prices import house_prices

COMPARE = ["compare", "march.csv", "changed.csv", "--y", "price"]
CLUSTER = ["cluster", "waves.csv", "--k", "2"]
CAUSAL = ["causal", "chain.csv"]
WATCH = ["watch", "march.csv", "--y", "price"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("misuse")
    rng = np.random.default_rng(0)
    house_prices(60, 1).to_csv(folder / "march.csv", index=False)
    house_prices(60, 2).to_csv(folder / "changed.csv", index=False)
    waves = rng.normal(size=(6, 30)).cumsum(axis=1)
    np.savetxt(folder / "waves.csv", waves, delimiter=",")
    waves[2, 7] = np.nan
    np.savez(folder / "gaps.npz", X=waves)
    for name, table in (("chain.csv", rng.normal(size=(80, 3))), ("wide.csv", rng.normal(size=(4, 9)))):
        header = ",".join("abcdefghi"[: table.shape[1]])
        np.savetxt(folder / name, table, delimiter=",", header=header, comments="")
    (folder / "folder").mkdir()
    (folder / "words.txt").write_text("words\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def here(files, monkeypatch):
    monkeypatch.chdir(files)


MISUSES = [
    ([], "Usage"),
    (["compute"], "No such command 'compute'"),
    (["--hurry"], "No such option"),
    (["compare", "march.csv"], "Missing option"),
    (["compare", "march.csv", "--y", "price"], "two tables must be named, or one table and its --group"),
    (
        ["compare", "march.csv", "changed.csv", "--y", "price", "--group", "area"],
        "Leave out --group, or the second table",
    ),
    (["compare", "march.csv", "absent.csv", "--y", "nothing"], "absent.csv could not be read"),
    (["compare", "march.csv", "changed.csv"], "--y"),
    (["compare", "march.csv", "absent.csv", "--y", "price"], "absent.csv"),
    (["compare", "march.csv", "folder", "--y", "price"], "folder"),
    ([*COMPARE[:-1], "prize"], "Did you mean 'price'?"),
    (["comapre", "march.csv"], "No such command 'comapre'. Did you mean 'compare'? See "),
    ([*COMPARE, "--x", "price"], "price"),
    ([*COMPARE, "--x", "nothing"], "nothing"),
    ([*COMPARE, "--category", "nothing"], "nothing"),
    ([*COMPARE, "--alpha", "1.5"], "`--alpha` must lie between 0 and 1"),
    ([*COMPARE, "--alpha", "many"], "--alpha"),
    ([*COMPARE, "--alpha", "0.001", "--resamples", "99"], "`--resamples` must be at least 999"),
    ([*COMPARE, "--resamples", "18"], "`--resamples` must be at least 19 for"),
    ([*COMPARE, "--prediction", "area", "--loss", "area"], "`--loss` must be left out if `--prediction` is given"),
    ([*COMPARE, "--loss", "pri*"], "`--y` and `--loss` must name different columns, got 'price' for both"),
    ([*COMPARE, "--loss", "prize"], "`--loss` must name columns of march.csv, got 'prize'"),
    ([*COMPARE, "--resamples", "0"], "--resamples"),
    ([*COMPARE, "--max-rows", "3"], "--max-rows"),
    ([*COMPARE, "--seed", "-1"], "--seed"),
    ([*COMPARE, "--jobs", "0"], "--jobs"),
    ([*COMPARE, "--format", "xml"], "xml"),
    ([*COMPARE, "--encoding", "klingon"], "klingon"),
    ([*COMPARE, "--hurry"], "No such option"),
    ([*COMPARE, "--random-state", "1"], "No such option: --random-state. Did you mean --seed? See"),
    ([*COMPARE, "--permutations", "99"], "No such option: --permutations. Did you mean --resamples? See"),
    ([*COMPARE, "--n-jobs", "2"], "No such option: --n-jobs. Did you mean --jobs? See"),
    ([*CAUSAL, "--n-permutations", "99"], "Did you mean --resamples?"),
    ([*CLUSTER, "--random-state", "1"], "Did you mean --seed?"),
    ([*WATCH, "--alpha", "0.05"], "Did you mean --run-length?"),
    ([*COMPARE, "--report", "nowhere/page.html"], "`--report` must lie in a folder, but nowhere does not exist"),
    ([*COMPARE, "--report", "folder"], "`--report` must be a file, got the folder folder"),
    ([*COMPARE, "--report", "/proc/page.html"], "`--report` must be a path that you may write to"),
    (["cluster", "waves.csv"], "--k"),
    (["cluster", "absent.csv", "--k", "2"], "absent.csv"),
    (["cluster", "folder", "--k", "2"], "a file for each series"),
    (["cluster", "waves.csv", "--k", "two"], "--k"),
    (["cluster", "words.txt", "--k", "2"], "words.txt"),
    (["cluster", "waves.csv", "--k", "1"], "--k"),
    (["cluster", "waves.csv", "--k", "99"], "`--k` must be an integer from"),
    (["cluster", "gaps.npz", "--k", "9"], "--k"),
    ([*CLUSTER, "--layout", "heap"], "`--layout` must be one of"),
    ([*CLUSTER, "--layout", "ntc"], "`--layout` must be auto, rows, columns, long for a table"),
    ([*CLUSTER, "--layout", "columns", "--labels", "1"], "waves.csv was read with a series per column"),
    (["cluster", "nowhere", "--k", "2"], "`FILE` must be an existing file or folder"),
    ([*CLUSTER, "--id", "who"], "`--id` must be a column of waves.csv"),
    ([*CLUSTER, "--measure", "euclid"], "`--measure` must be one of"),
    ([*CLUSTER, "--method", "ward"], "`--method` must be one of"),
    ([*CLUSTER, "--scaling", "log"], "`--scaling` must be one of"),
    ([*CLUSTER, "--layout", "xyz"], "`--layout` must be one of"),
    ([*CLUSTER, "--labels", "kind"], "`--labels` must be"),
    ([*CLUSTER, "--order", "29"], "time points"),
    ([*CLUSTER, "--factor", "-1"], "`--factor` must be"),
    ([*CLUSTER, "--out", "words.txt"], "`--out` must be a folder, got the file words.txt"),
    ([*CLUSTER, "--out", "nowhere/deep"], "`--out` must lie in a folder, but nowhere does not exist"),
    (["causal", "absent.csv"], "absent.csv"),
    (["causal", "wide.csv"], "wide.csv"),
    ([*CAUSAL, "--order", "many"], "`--order` must be"),
    ([*CAUSAL, "--lag", "0"], "`--lag` must be"),
    ([*CAUSAL, "--order", "500"], "Use longer series, or smaller lags and orders."),
    ([*CAUSAL, "--measure", "guess"], "`--measure` must be one of"),
    ([*CAUSAL, "--null", "none"], "`--null` must be one of"),
    ([*CAUSAL, "--columns", "z"], "z"),
    ([*CAUSAL, "--time", "when"], "`--time` must be a column of"),
    ([*CAUSAL, "--alpha", "7"], "`--alpha` must lie between 0 and 1"),
    ([*CAUSAL, "--out", "nowhere/page.html"], "`--out` must lie in a folder, but nowhere does not exist"),
    (["explore", "chess"], "`ENVIRONMENT` must be one of"),
    (["explore", "maze", "--method", "guess"], "`--method` must be one of"),
    (["explore", "maze", "--steps", "5"], "--steps"),
    (["explore", "maze", "--out", "folder"], "`--out` must be a file, got the folder folder"),
    (["demo", "--rows", "3"], "--rows"),
    (["demo", "--out", "demo.xyz"], "`--out` must end in .png or .svg or .pdf, got 'demo.xyz'"),
    (["demo", "--out", "nowhere/demo.png"], "nowhere does not exist"),
    (["reproduce", "table99"], "table99"),
    (["reproduce", "fig5", "--trials", "0"], "--trials"),
    (["reproduce", "fig5", "--quick", "--only", "nothing"], "`--only` must be part of a case"),
    (["reproduce", "fig5", "--out", "words.txt"], "`--out` must be a folder, got the file words.txt"),
    (["reproduce", "all", "--out", "nowhere/deep"], "`--out` must lie in a folder, but nowhere does not exist"),
    (["watch", "absent.csv", "--y", "price"], "absent.csv"),
    ([*WATCH, "--window", "2"], "--window"),
    (
        [*WATCH, "--run-length", "0"],
        "`--run-length` must be a positive, finite number, got 0.0. Pass e.g. --run-length 10000",
    ),
    ([*WATCH, "--report", "nowhere/page.html"], "`--report` must lie in a folder, but nowhere does not exist"),
    ([*WATCH, "--state", "nowhere/state.npz"], "`--state` must lie in a folder, but nowhere does not exist"),
    ([*COMPARE, "--dask", "nowhere"], "`--dask` must"),
]


@pytest.mark.parametrize(
    ("words", "message"), MISUSES, ids=lambda part: " ".join(part) if isinstance(part, list) else ""
)
def test_misuse_ends_with_two_and_a_paragraph(files, words, message):
    if "--dask" in words:
        pytest.importorskip("distributed")
    before = sorted(files.rglob("*"))
    ended = CliRunner().invoke(app, words, input="")
    assert ended.exit_code == 2, ended.output
    said = ended.stderr if words else ended.stdout
    assert message in said
    assert "Traceback" not in ended.output
    assert "unexpected error" not in ended.output
    assert sorted(files.rglob("*")) == before
    if words:
        assert not ended.stdout
        lines = [line for line in said.splitlines() if not line.startswith("Calibrating")]
        assert len(lines) == 1
        assert not re.search(r"\w=['\"\d]|n_clusters|n_jobs|n_resamples|x_ref|\.T\b|np\.", said), said


def test_messages_name_arguments_in_the_words_of_whoever_listens():
    assert named("n_jobs") == "`n_jobs`"
    assert named("xp", "xq") == "`xp` and `xq`"
    assert setting("alpha", 0.05) == "alpha=0.05"
    assert table_setting("gaps", "?,-") == "tables=TableOptions(gaps='?,-')"
    commands = typer.main.get_command(app).commands
    with speaking(CommandLine(commands["causal"])):
        assert named("n_resamples") == "`--resamples`"
        assert setting("null", "analytic") == "--null analytic"
        assert setting("missing", "drop") == "--drop-missing"
        assert setting("ranks", True) == "--ranks"
        assert named("given") == "`given`"  # not an option
        assert setting("given", "z") == "given='z'"
    with speaking(CommandLine(commands["compare"])):
        assert named("xp", "xq") == "`--x`"
        assert table_setting("gaps", "?,-") == "--gaps '?,-'"
        assert setting("x", "!a b") == "--x '!a b'"
    with speaking(CommandLine(commands["explore"])):
        assert named("environment") == "`ENVIRONMENT`"
        assert setting("environment", "maze") == "maze"
    assert named("n_jobs") == "`n_jobs`"


def python(*lines):
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_extra_looked_like_a_change(package):
    """Without what the command line is made of: 2, and what to install."""
    code = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['condcs', '--help']"
    ended = python(code, "from condcs.cli import main; main()")
    assert ended.returncode == 2
    assert package in ended.stderr
    assert "pip install 'condcs[cli]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_damaged_installation_looked_like_a_change():
    ended = python("import sys; sys.modules['condcs.cli.boundary'] = None", "from condcs.cli import main; main()")
    assert ended.returncode == 2
    assert "unexpected error in condcs" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("package", "words", "extra", "code"),
    # For matplotlib 4: the links are printed, and the page alone is not written.
    [("matplotlib", CAUSAL, "cli", 4), ("aeon", [*CLUSTER, "--measure", "dtw"], "timeseries", 2)],
)
def test_a_package_that_one_command_needs_is_missing(monkeypatch, tmp_path, package, words, extra, code):
    """It is named together with the extra that brings it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith("condcs.report")]:
        monkeypatch.delitem(sys.modules, name)
    ended = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert ended.exit_code == code
    assert package in ended.stderr
    assert f"pip install 'condcs[{extra}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_install_hints_follow_the_metadata():
    assert install_hint("matplotlib") == "pip install 'condcs[cli]'"
    assert install_hint("nosuchpackage") == "pip install nosuchpackage"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ZeroDivisionError("by \x1b[2J zero"), r"unexpected error in condcs: ZeroDivisionError: by \x1b[2J zero"),
        (MemoryError(), "Out of memory. Compare fewer rows (--max-rows)"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (ModuleNotFoundError("No module named 'condcs.gone'", name="condcs.gone"), "unexpected error in condcs"),
    ],
)
def test_an_error_nobody_expected_ends_with_two(monkeypatch, error, words):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("condcs.comparison._comparing.compare", fail)
    ended = CliRunner().invoke(app, COMPARE)
    assert ended.exit_code == 2
    assert words in ended.stderr
    assert ("bug in condcs" in ended.stderr) == words.startswith("unexpected")
    assert "Traceback" not in ended.stderr
    monkeypatch.setenv("CONDCS_TRACEBACK", "1")
    assert "Traceback" in CliRunner().invoke(app, COMPARE).stderr


def test_ctrl_c_ends_with_130(monkeypatch):
    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("condcs.comparison._comparing.compare", fail)
    ended = CliRunner().invoke(app, COMPARE)
    assert ended.exit_code == 130
    assert ended.stderr == "Stopped; nothing was written.\n"


def test_the_folder_of_a_report_was_made_without_asking(files, tmp_path):
    """Also by `Page.write` itself."""
    from condcs._core.errors import CondcsError
    from condcs.report import Page

    with pytest.raises(CondcsError, match="could not be written"):
        Page("t").write(tmp_path / "new" / "page.html")
    assert not (tmp_path / "new").exists()


def test_an_npz_file_named_npy_was_a_bug_of_condcs(files, tmp_path):
    named = tmp_path / "series.npy"
    named.write_bytes((files / "gaps.npz").read_bytes())
    for words in (["causal", str(named)], ["cluster", str(named), "--k", "2"]):
        ended = CliRunner().invoke(app, words)
        assert ended.exit_code == 2
        assert "bug in condcs" not in ended.stderr
        assert "must be a .npy file of a plain array, got an archive of arrays (.npz)" in ended.stderr
        assert "Rename it to series.npz." in ended.stderr


@pytest.mark.slow
def test_a_backend_of_matplotlib_that_does_not_exist_was_a_bug_of_condcs(tmp_path):
    """Commands draw into files alone: which windows matplotlib would open is not their business."""
    page = tmp_path / "page.html"
    quick = ["--resamples", "20", "--lag", "1", "--order", "1"]
    ended = python(
        "import os, sys; os.environ['MPLBACKEND'] = 'nosuch'",
        f"sys.argv = ['condcs', *{CAUSAL!r}, *{quick!r}, '--out', {str(page)!r}]",
        "from condcs.cli import main; main()",
    )
    assert ended.returncode == 0, ended.stderr
    assert page.exists()


def test_numba_without_compilation_was_a_bug_of_condcs():
    """Loops would take hours where they are not compiled, and some of their steps exist only in machine code."""
    ended = python(
        "import os, sys; os.environ['NUMBA_DISABLE_JIT'] = '1'",
        f"sys.argv = ['condcs', *{CLUSTER!r}]",
        "from condcs.cli import main; main()",
    )
    assert ended.returncode == 2
    assert "NUMBA_DISABLE_JIT must be unset or 0" in ended.stderr
    assert "bug in condcs" not in ended.stderr
