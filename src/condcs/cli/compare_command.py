"""``condcs compare``: compare, print, and answer with an exit code."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from condcs._core.errors import ParameterError
from condcs._core.printable import harmless
from condcs.cli.boundary import CHANGED, check_file
from condcs.cli.output_files import OutputFile, answer_then_write
from condcs.cli.terminal import Terminal, foreign
from condcs.comparison import _comparing
from condcs.comparison._comparing import failure_words
from condcs.comparison._groups import GroupComparison, compare_groups
from condcs.comparison._result import Comparison, Limits
from condcs.comparison._wording import WordTable, answers_table, regions_table
from condcs.report._page import as_json, write_whole


@dataclass(frozen=True)
class Files:
    """What is written beside what is printed: a page, JUnit XML, a summary in Markdown."""

    report: Path | None = None
    junit: Path | None = None
    markdown: Path | None = None


AnyComparison = Comparison | GroupComparison
Compared = Callable[[Callable[[str], None]], AnyComparison]
"""Compares; it is given what to call with the name of each step."""


def chosen_tables(
    reference: str,
    current: str | None,
    group: str | None,
    *,
    against: str,
    pairs_only: dict[str, Any],
    options: dict[str, Any],
) -> Compared:
    """Return what compares two tables, or the groups of one; `pairs_only` are options that groups do not have."""
    rule = "two tables must be named, or one table and its --group, got"
    if current is None and group is None:
        raise ParameterError(f"{rule} one table alone. Name a second table, or a column as --group.")
    if current is not None and group is not None:
        raise ParameterError(f"{rule} two tables and --group. Leave out --group, or the second table.")
    pairs_only = {name: value for name, value in pairs_only.items() if value is not None}
    if group is not None:
        excluded = [*pairs_only, *(["time_budget"] if options["tables"].time_budget is not None else [])]
        if excluded:
            shown = ", ".join(f"--{name.replace('_', '-')}" for name in excluded)
            raise ParameterError(f"{shown} must come with two tables, got --group. Leave it out.")
        arguments = {"group": group, "against": against, **options}
        return lambda tell: compare_groups(reference, progress=tell, **arguments)
    limits = Limits(pairs_only.pop("tolerance", None), pairs_only.pop("min_effect", None))
    arguments = {"tolerance": limits, **options, **pairs_only}
    return lambda tell: _comparing.compare(reference, current, progress=tell, **arguments)


def run(compared: Compared, *, as_machine: bool, files: Files, command: str) -> None:
    """Compare two tables, print the answer, write the files and end with the exit code."""
    for option, path in (("--report", files.report), ("--junit", files.junit), ("--markdown", files.markdown)):
        if path is not None:
            check_file(option, path)
    with _progress(Terminal(stderr=True)) as tell:
        comparison = compared(tell)

    def answer() -> None:
        if as_machine:
            print(as_json(comparison.to_dict()))
        else:
            print_comparison(comparison, Terminal())

    written: list[OutputFile] = []
    if files.report is not None:
        notice = "" if as_machine else f"\nReport: [bold]{foreign(str(files.report))}[/bold]"
        written.append(OutputFile(files.report, lambda path: comparison.report(path, command=command), notice))
    if files.junit is not None:
        written.append(OutputFile(files.junit, lambda path: write_whole(path, as_junit(comparison))))
    if files.markdown is not None:
        written.append(OutputFile(files.markdown, lambda path: write_whole(path, as_markdown(comparison))))
    answer_then_write(answer, written, code=CHANGED if comparison.relation_changed else 0)


def print_comparison(comparison: AnyComparison, console: Terminal) -> None:
    """Print all that is said."""
    for kind, content in comparison._passages():
        if kind == "notes":
            for note in content:
                console.print(f"[yellow]- {foreign(note)}[/yellow]")
            continue
        console.print()
        if kind == "table":
            console.print(console.fitted(_table(content)))
        elif kind == "about":
            pairs = Table.grid(padding=(0, 2))
            for name, words in content:
                pairs.add_row(f"[dim]{name}[/dim]", foreign(words))
            console.print(pairs)
        else:
            answer, *more = map(foreign, content)
            console.print("\n".join([f"[bold]{answer}[/bold]", *more]))


def _table(lines: WordTable) -> Table:
    """Return a table for the terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column, title in enumerate(lines.columns):
        style = "cyan" if column == 0 else "dim" if title in lines.intervals else None
        justify: Any = "right" if title in lines.numbers else "left"
        table.add_column(foreign(title), justify=justify, overflow="fold" if column == 0 else "ellipsis", style=style)
    for row_index, row in enumerate(lines.rows):
        cells = []
        for column_index, words in enumerate(row):
            style = lines.styles.get((row_index, column_index))
            cells.append(f"[{style}]{foreign(words)}[/]" if style else foreign(words))
        table.add_row(*cells)
    return table


@contextmanager
def _progress(console: Terminal) -> Iterator[Callable[[str], None]]:
    """Show a bar in a terminal, a line per step in a dumb one, and nothing elsewhere: a pipeline has no use for it."""
    if not console.is_interactive:
        yield lambda step: console.print(step, style="dim") if console.is_terminal else None
        return
    words = TextColumn("[dim]{task.description}")
    columns = [TextColumn("[cyan]Comparing"), BarColumn(), TimeElapsedColumn(), words, TimeRemainingColumn()]
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=sum(_comparing.STEPS.values()))
        begun: list[str] = []

        def tell(step: str) -> None:
            # About how much of the time the steps before this one take, so that what is left can be estimated. The
            # steps of groups have other names, and no end in sight.
            total = sum(_comparing.STEPS.values()) if step in _comparing.STEPS else None
            done = sum(_comparing.STEPS.get(name, 0.0) for name in begun)
            bar.update(shown, completed=done, description=step, total=total)
            begun.append(step)

        yield tell


_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~])")


def as_junit(comparison: AnyComparison) -> str:
    """Return JUnit XML: a suite whose tests are the inputs, the relation and its regions, or the groups of a table.

    A test fails if the command would exit with 1: if the relation changed. Shifted inputs are reported, but no failure.
    """
    tests = _of_pair(comparison) if isinstance(comparison, Comparison) else _of_groups(comparison)
    failures = sum(failure is not None for _, failure, _ in tests)
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites, "testsuite", name="condcs compare", tests=str(len(tests)), failures=str(failures), errors="0"
    )
    for name, failure, said in tests:
        test = ElementTree.SubElement(suite, "testcase", classname="condcs.compare", name=harmless(name))
        if failure is not None:
            ElementTree.SubElement(test, "failure", message=harmless(failure)).text = harmless(said, keep="\n")
        else:
            ElementTree.SubElement(test, "system-out").text = harmless(said, keep="\n")
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def as_markdown(comparison: AnyComparison) -> str:
    """Return a summary in Markdown, in which text from the tables is shown and never obeyed."""
    # No evidence is no all-clear, and has no green.
    mark = "🔴" if comparison.relation_changed else "⚪"
    parts, about = [f"### {mark} {_escaped(comparison.verdict)}"], ""
    for kind, content in comparison._passages():
        if kind == "table":
            parts.append(_markdown_table(content))
        elif kind == "about":
            about = _points([f"{name}: {words}" for name, words in content])
        else:
            parts.append(_points(content if kind == "notes" else content[1:]))
    return "\n\n".join(filter(None, [*parts, about])) + "\n"


def _of_pair(comparison: Comparison) -> list[tuple[str, str | None, str]]:
    """Return tests: a name, a message if it failed, and all that was found."""
    lines = answers_table(comparison)
    inputs, relation = (_record(lines, row) for row in lines.rows)
    changed = comparison.relation_changed
    tests: list[tuple[str, str | None, str]] = [
        ("inputs", None, inputs),
        ("relation", comparison.verdict if changed else None, failure_words(comparison) if changed else relation),
    ]
    if changed and comparison.regions:
        rows = regions_table(comparison)
        for number, row in enumerate(rows.rows, start=1):
            # Numbered: a name that had the bounds in it would be another test every time.
            region = row[0] if row[0] == "everywhere" else f"where {row[0]}"
            tests.append((f"region {number}", f"The relation changed {region}.", _record(rows, row)))
    return tests


def _of_groups(comparison: GroupComparison) -> list[tuple[str, str | None, str]]:
    lines = comparison.lines()
    return [
        (
            f"relation where {comparison.column} is {name}",
            comparison.verdict if name in comparison.changed else None,
            _record(lines, row),
        )
        for name, row in zip(comparison.names, lines.rows, strict=True)
    ]


def _record(lines: WordTable, row: tuple[str, ...]) -> str:
    return "\n".join(f"{title}: {cell}" for title, cell in zip(lines.columns, row, strict=True))


def _markdown_table(lines: WordTable) -> str:
    sides = ["---:" if title in lines.numbers else "---" for title in lines.columns]
    head, *rows = (list(map(_escaped, row)) for row in (lines.columns, *lines.rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, sides, *rows))


def _points(words: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in words)


def _escaped(text: str) -> str:
    """Return text that Markdown and HTML show as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", html.escape(harmless(text), quote=False))
