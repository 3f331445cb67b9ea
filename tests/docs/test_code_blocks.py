"""Every code block runs and prints what the page says it prints; every command shown exists with its options."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, requires

_CHECKER = doctest.OutputChecker()
_TERMINAL = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


README = ROOT / "README.md"


def name(page: Path) -> str:
    return str(page.relative_to(DOCS)) if page != README else page.name


def check_output(expected: str, got: str, where: str) -> None:
    if not _CHECKER.check_output(expected, got, _FLAGS):
        pytest.fail(f"{where} prints\n{got}\nbut the page says\n{expected}", pytrace=False)


def with_code(*languages: str) -> list[Any]:
    return [pytest.param(p, id=name(p)) for p in PAGES if any(b.language in languages for b in blocks(p))]


def run_python(block: Block, names: dict[str, Any], page: Path) -> None:
    # Empty lines in front, so that a traceback shows the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    if block.output is not None:
        check_output(block.output, printed.getvalue(), f"{name(page)}, line {block.line},")


def run_console(block: Block, page: Path) -> None:
    """Run the lines after `$ ` in turn; the lines below each are what it prints."""
    from typer.testing import CliRunner

    from condcs.cli.app import app

    code = 0
    _, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    for part in parts:
        line, _, expected = part.partition("\n")
        words = shlex.split(line)
        if words[0] == "echo":
            assert words[1:] == ["$?"]
            check_output(expected, f"{code}\n", f"{name(page)}: the exit code")
            continue
        assert words[0] == "condcs", f"{name(page)}: only condcs is run, not {words[0]}"
        given = None
        if "<" in words:
            *words, _, file = words
            given = Path(file).read_bytes()
        result = CliRunner().invoke(app, words[1:], input=given, catch_exceptions=False, env=_TERMINAL)
        code = result.exit_code
        assert code in (0, 1), f"{name(page)}: {line}\n{result.output}"
        if expected.strip():
            check_output(expected, result.stdout, f"{name(page)}: {line}")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", with_code("python", "console"))
def test_code_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    """All blocks of a page share one namespace and one empty folder, in the order of the page."""
    for module in requires(page):
        # Looked for, not imported: a page may know how to import what plain `import` cannot.
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if any(b.language == "console" for b in blocks(page)):
        pytest.importorskip("typer")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks(page):
        if block.language == "python":
            run_python(block, names, page)
        elif block.language == "console":
            run_console(block, page)


WIDTH = 92
"""Characters of a block that a window of 1,280 pixels shows; what is wider has to be scrolled."""


def test_printed_sentences_were_cut_at_the_edge_of_the_page():
    """Only sentences: columns of a table, set apart by several blanks, scroll together; so do lines of code."""
    cut = [
        f"{name(page)}: {line}"
        for page in PAGES
        for block in blocks(page)
        for text in [block.output or "", block.text if block.language == "console" else ""]
        for line in text.splitlines()
        if len(line) > WIDTH and "  " not in line.strip() and not line.startswith("$ ")
    ]
    assert cut == []


def test_ten_lines_of_the_readme_print_what_they_say():
    """The number in the comment of each line that prints one, to the digits that it has there."""
    (block,) = (block for block in blocks(README) if block.language == "python")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(block.text, {})
    said = re.findall(r"^print\(.*#\s*([\d.]+)$", block.text, re.MULTILINE)
    values = [
        f"{float(line):.{len(number.partition('.')[2])}f}"
        for line, number in zip(printed.getvalue().split(), said, strict=True)
    ]
    assert values == said
    assert len(said) == 3


@pytest.mark.parametrize("page", [README, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_outside_the_site_lead_somewhere(page):
    """To a file, and to a heading of it; those of the site itself are checked on the built pages."""
    broken = []
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        path = ROOT / file
        headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if not path.exists() or (anchor and anchor not in slugs):
            broken.append(target)
    assert broken == []


def shown_commands() -> list[Any]:
    lines = []
    for page in [README, *PAGES]:
        for block in blocks(page):
            if block.language == "sh":
                joined = block.text.replace("\\\n", " ")
                lines += [(page, line.strip()) for line in joined.splitlines() if line.strip()]
    return [pytest.param(page, line, id=f"{name(page)}: {line}"[:90]) for page, line in lines]


@pytest.mark.parametrize(("page", "line"), shown_commands())
def test_commands_that_are_shown_exist(page, line):
    """Commands too long to run here: their names and options are those of the program."""
    for part in re.split(r"\s[|]\s|\s&&\s", line.partition("  #")[0].partition(" > ")[0]):
        words = [w for w in shlex.split(part) if not re.fullmatch(r"[A-Z_]+=\S*", w)]
        words = words[: words.index("&")] if "&" in words else words
        if words[0] == "condcs":
            check_condcs(words[1:])
        elif words[0] == "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            assert words[1] in targets, f"the Makefile has no target {words[1]!r}"
        elif words[:3] == ["python", "-m", "benchmarks"]:
            parts = re.findall(r'^ +"([\w-]+)":', (ROOT / "benchmarks" / "__main__.py").read_text(), re.MULTILINE)
            assert set(words[3:]) <= set(parts)
        elif words[:2] == ["python", "docs/pictures"]:
            assert all((DOCS / "pictures" / f"{word}.py").exists() for word in words[2:] if word[0] != "-")
        elif words[:2] == ["pip", "install"]:
            check_extras(words[2:])
        else:
            assert words[0] in ("cat", "tail", "git", "dask", "python", "cd"), f"unknown program in {line!r}"


def check_condcs(words: list[str]) -> None:
    typer = pytest.importorskip("typer")
    from condcs.cli.app import app

    command: Any = typer.main.get_command(app)
    if words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    else:
        assert words in ([], ["--help"], ["--version"]), f"condcs has no command {words[0]!r}"
    if words not in ([], ["--help"], ["--version"]):
        command.make_context("condcs", list(words))


def check_extras(words: list[str]) -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in words:
        if found := re.fullmatch(r"(?:condcs|\.)\[([\w,-]+)\]", word):
            assert set(found[1].split(",")) <= set(extras)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_have_a_language(page):
    """A block without a language, or with an unknown one, would escape these tests."""
    known = {"python", "console", "sh", "text", "json", "make", "yaml"}
    assert {b.language for b in blocks(page)} <= known
