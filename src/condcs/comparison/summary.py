"""A comparison in lines of text: what the terminal shows, and what ``print`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from condcs.comparison.result import Comparison
from condcs.comparison.shifts import Shift
from condcs.comparison.wording import account_words, column_words, show_number, show_p
from condcs.core.printable import harmless


@dataclass(frozen=True)
class Lines:
    """A table of words; columns named in `numbers` are set flush right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()


def sizes(found: Comparison) -> Lines:
    """Say what became of the rows of each table."""
    roles = (("reference", found.pair.reference), ("current", found.pair.current))
    rows = tuple((role, account.title, account_words(account, found.seed)) for role, account in roles)
    return Lines(("table", "title", "rows"), rows)


def variables(found: Comparison) -> tuple[tuple[str, str], ...]:
    """Name the columns of y and of x."""
    return ("y", column_words(found.pair.y)), ("given x", column_words(found.pair.x))


def answers(found: Comparison) -> Lines:
    """Answer both questions."""
    return Lines(
        ("question", "answer", "p-value", "overlap", "95% interval"),
        (
            ("is p(x) the same?", "shifted" if found.inputs_shifted else "no evidence", *_numbers(found.inputs)),
            ("is p(y|x) the same?", "changed" if found.relation_changed else "no evidence", *_numbers(found.relation)),
        ),
        frozenset({"p-value", "overlap"}),
    )


def responses(found: Comparison) -> tuple[str, ...]:
    """Say what y does over all rows."""
    return tuple(
        f"Overall, {words}: {show_number(before)} before, {show_number(after)} now."
        for words, before, after in found.response
    )


def where(found: Comparison) -> Lines:
    """Say where the relation changed, with what the first two responses do there."""
    heads = tuple(words for words, _, _ in found.regions[0].response[:2])
    rows = tuple(
        (
            region.words,
            f"{region.ratio:.1f}",
            f"{region.share_p:.0%} → {region.share_q:.0%}",
            *(f"{show_number(before)} → {show_number(after)}" for _, before, after in region.response[:2]),
        )
        for region in found.regions
    )
    columns = ("where the relation changed", "times average", "rows", *heads)
    return Lines(columns, rows, frozenset(columns[1:]))


def as_text(found: Comparison) -> str:
    """Return everything as plain text."""
    width = len("reference")
    blocks = [
        [*_set(sizes(found), header=False), *(f"{name:<{width}}  {words}" for name, words in variables(found))],
        _set(answers(found)),
        [found.verdict, *responses(found)],
        _set(where(found)) if found.relation_changed else [],
        [f"- {note}" for note in found.notes],
    ]
    return "\n\n".join("\n".join(map(harmless, lines)) for lines in blocks if lines)


def _set(table: Lines, header: bool = True) -> list[str]:
    rows: Sequence[tuple[str, ...]] = [table.columns, *table.rows] if header else table.rows
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if title in table.numbers else cell.ljust(width)
            for title, cell, width in zip(table.columns, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _numbers(shift: Shift) -> tuple[str, str, str]:
    low, high = shift.overlap_interval
    return show_p(shift.pvalue), f"{shift.overlap:.3f}", f"{low:.3f} to {high:.3f}"
