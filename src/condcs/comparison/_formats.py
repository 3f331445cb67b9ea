"""A comparison for other programs: JUnit XML for test reports, Markdown for summaries of jobs."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from condcs._core.printable import harmless
from condcs.comparison._comparing import failure_words
from condcs.comparison._groups import GroupComparison, place_words
from condcs.comparison._result import Comparison
from condcs.comparison._wording import Lines, answers, effects, loss_parts, responses, sizes, where

Found = Comparison | GroupComparison

_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~])")


def as_junit(found: Found) -> str:
    """Return JUnit XML: a suite whose tests are the inputs, the relation and its regions, or the groups of a table.

    What fails is what ends the command with 1: a changed relation. That the inputs shifted is said and is no failure.
    """
    tests = _of_pair(found) if isinstance(found, Comparison) else _of_groups(found)
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


def as_markdown(found: Found) -> str:
    """Return a summary in Markdown, in which text from the tables is shown and never obeyed."""
    # No evidence is no all-clear, and has no green.
    mark = "🔴" if found.relation_changed else "⚪"
    parts = [f"### {mark} {_escaped(found.verdict)}"]
    if isinstance(found, GroupComparison):
        parts += [_table(found.lines()), _points(found.places)]
    else:
        parts += [_points(responses(found)), _table(effects(found))]
        parts += [_table(loss_parts(found))] if found.loss_change is not None else []
        parts += [_table(answers(found))]
        if found.relation_changed and found.regions:
            parts.append(_table(where(found)))
        parts.append(_table(sizes(found)))
    parts.append(_points(found.all_notes if isinstance(found, GroupComparison) else found.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def _of_pair(found: Comparison) -> list[tuple[str, str | None, str]]:
    """Return tests: a name, a message if it failed, and all that was found."""
    lines = answers(found)
    inputs, relation = (_record(lines, row) for row in lines.rows)
    changed = found.relation_changed
    tests: list[tuple[str, str | None, str]] = [
        ("inputs", None, inputs),
        ("relation", found.verdict if changed else None, failure_words(found) if changed else relation),
    ]
    if changed and found.regions:
        places = where(found)
        for number, row in enumerate(places.rows, start=1):
            # Numbered: a name that had the bounds in it would be another test every time.
            tests.append((f"region {number}", f"The relation changed {place_words(row[0])}.", _record(places, row)))
    return tests


def _of_groups(found: GroupComparison) -> list[tuple[str, str | None, str]]:
    lines = found.lines()
    return [
        (
            f"relation where {found.column} is {name}",
            found.verdict if name in found.changed else None,
            _record(lines, row),
        )
        for name, row in zip(found.names, lines.rows, strict=True)
    ]


def _record(lines: Lines, row: tuple[str, ...]) -> str:
    return "\n".join(f"{title}: {cell}" for title, cell in zip(lines.columns, row, strict=True))


def _table(lines: Lines) -> str:
    sides = ["---:" if title in lines.numbers else "---" for title in lines.columns]
    head, *rows = (list(map(_escaped, row)) for row in (lines.columns, *lines.rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, sides, *rows))


def _points(words: tuple[str, ...]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in words)


def _escaped(text: str) -> str:
    """Return text that Markdown and HTML show as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", html.escape(harmless(text), quote=False))
