"""Numbers, columns and rows of a comparison in words: the same in the terminal, on the page and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from condcs._core.printable import harmless
from condcs._inference.region_effects import Change
from condcs._tables.kinds import Column, describe_columns
from condcs._tables.pair import Account

if TYPE_CHECKING:
    from condcs.comparison._result import Comparison
    from condcs.comparison._shifts import Shift


def account_words(account: Account, seed: int) -> str:
    """Say what became of a table's rows."""
    words = f"{account.used:,} rows"
    if account.sampled:
        words += f", sampled with seed {seed} from {account.seen - account.gaps:,}"
    if account.short_of_memory:
        words += " (limited by memory)"
    if account.gaps:
        words += f"; {account.gaps:,} with missing values dropped"
    return words


def column_words(columns: tuple[Column, ...], most: int = 8) -> str:
    """Name columns and their kinds."""
    shown = describe_columns(columns)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def show_p(pvalue: float) -> str:
    """Write a p-value."""
    return f"{pvalue:.3f}" if pvalue >= 0.0995 or pvalue >= 0.001 else f"{pvalue:.1g}"


def show(column: Column, value: float) -> str:
    """Write a number, or a date for what it is."""
    if column.kind == "date":
        return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(value)), "D"))
    return show_number(value)


def show_number(value: float) -> str:
    """Write a number with four digits, or whole from a thousand on."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.4g}"


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
    """Say where the relation changed, and what y does there for the same inputs."""
    title = "where the relation changed"
    if not found.regions:
        return Lines((title,), ((NOWHERE,),))
    first = [(region, region.changes[0]) for region in found.regions]
    # What all of them are about stands above the column.
    common = {change.words for _, change in first}
    what = common.pop() if len(common) == 1 else ""
    rows = tuple(
        (
            region.words,
            f"{region.share_p:.0%} → {region.share_q:.0%}",
            ("" if what else f"{change.words}: ")
            + f"{show_number(change.before.value)} → {show_number(change.now.value)}",
            interval_words(change),
            show_p(region.p_value),
        )
        for region, change in first
    )
    columns = (title, "rows", what or "what y does there", "change", "p-value")
    return Lines(columns, rows, frozenset(columns[1:]))


def interval_words(change: Change) -> str:
    """Write the interval of a change: of a difference, or of a factor."""
    low, high = show_number(change.change.low), show_number(change.change.high)
    return f"{'times ' if change.quantity == 'spread' else ''}{low} to {high}"


NOWHERE = "No region by itself shows the change clearly enough to be named."


def as_text(found: Comparison) -> str:
    """Return everything as plain text."""
    width = len("reference")
    blocks = [
        [*set_lines(sizes(found), header=False), *(f"{name:<{width}}  {words}" for name, words in variables(found))],
        set_lines(answers(found)),
        [found.verdict, *responses(found)],
        set_lines(where(found)) if found.relation_changed else [],
        [f"- {note}" for note in found.notes],
    ]
    return "\n\n".join("\n".join(map(harmless, lines)) for lines in blocks if lines)


def set_lines(table: Lines, header: bool = True) -> list[str]:
    """Return a table as lines of text."""
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
