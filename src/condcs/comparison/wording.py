"""Numbers, columns and rows of a comparison in words: the same in the terminal, on the page and in a notebook."""

from __future__ import annotations

import numpy as np

from condcs.tables.kinds import Column
from condcs.tables.pair import Account


def account_words(account: Account, seed: int) -> str:
    """Say what became of a table's rows."""
    words = f"{account.used:,} rows"
    if account.sampled:
        words += f", sampled with seed {seed} from {account.seen - account.gaps:,}"
    if account.short_of_memory:
        words += " (limited by memory)"
    if account.gaps:
        words += f"; {account.gaps:,} with gaps left out"
    return words


def column_words(columns: tuple[Column, ...], most: int = 8) -> str:
    """Name columns and their kinds."""
    shown = [f"{c.name} ({len(c.labels)} categories)" if c.is_category else f"{c.name} ({c.kind})" for c in columns]
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
