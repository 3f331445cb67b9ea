"""Why a p-value is too small, or may be: what the verdict says of one comparison, or of the groups that share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from condcs._core.printable import counted
from condcs._core.vocabulary import named
from condcs._inference.explain import show_p

if TYPE_CHECKING:
    from condcs.comparison._result import Comparison
    from condcs.comparison._row_dependence import RowDependence

CautionKind = Literal["copies", "neighbours", "unbalanced", "doubtful"]

_WORDS: dict[CautionKind, str] = {
    "copies": "rows repeat other rows exactly{evidence}: if they are copies and not observations of their own, the "
    "p-value is too small and intervals are too short. Remove copies, or name what belongs together with "
    "{cluster}.",
    "neighbours": "rows depend on their neighbours{evidence}, so that the p-value is too small and intervals are too "
    "short. Name what belongs together, such as the rows of a day or of a machine, with {cluster}.",
    "unbalanced": "the p-value may be far too small, because it is not explained how the inputs differ between the "
    "tables{evidence}. Compare fewer inputs, or only rows whose inputs both tables have.",
    "doubtful": "the p-value may be somewhat too small, because it is not fully explained how the inputs differ "
    "between the tables{evidence}.",
}


@dataclass(frozen=True)
class Caution:
    """A reason not to take a p-value at its word, with the figures behind it."""

    kind: CautionKind
    evidence: str

    @property
    def sentence(self) -> str:
        """What is said of one comparison."""
        words = _words(self.kind, f" ({self.evidence})")
        return words[0].upper() + words[1:]


def cautions(comparison: Comparison) -> tuple[Caution, ...]:
    """Return the reasons not to take the p-value of a comparison at its word."""
    rows, pair = comparison.row_dependence, comparison.pair
    reasons = []
    if rows.has_copies:
        shares = [
            f"{copies:,} of {counted(account.used, 'row')} of {account.title}"
            for copies, account in zip(rows.copies, (pair.reference, pair.current), strict=True)
            if copies
        ]
        reasons.append(Caution("copies", " and ".join(shares)))
    if rows.along_rows:
        evidence = f"residuals of {rows.response} have an autocorrelation of {_autocorrelation_words(rows)}"
        reasons.append(Caution("neighbours", evidence))
    balance = comparison.relation.diagnostics["balance"]
    if balance != "passed":
        evidence = f"check of balance: p = {show_p(comparison.relation.diagnostics['balance_pvalue'])}"
        reasons.append(Caution("unbalanced" if balance == "failed" else "doubtful", evidence))
    return tuple(reasons)


def _autocorrelation_words(rows: RowDependence) -> str:
    """Say how large the largest autocorrelation is, over how many rows, and in which tables."""
    assert rows.autocorrelations is not None
    assert rows.lags is not None
    values = tuple(f"{value:.2f}" for value in rows.autocorrelations)
    distances = tuple("from row to row" if lag == 1 else f"over {lag} rows" for lag in rows.lags)
    tables = ("in the reference", "in the current table")
    if rows.dependent != (True, True):
        table = rows.dependent.index(True)
        return f"{values[table]} {distances[table]} {tables[table]}"
    if distances[0] != distances[1]:
        return " and ".join(map(" ".join, zip(values, distances, tables, strict=True)))
    return f"{' and '.join(dict.fromkeys(values))} {distances[0]} in the two tables"


def cautions_by_group(column: str, names: Sequence[str], comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Return a sentence for each reason that holds for some groups, and for which."""
    groups: dict[CautionKind, list[str]] = {}
    for name, comparison in zip(names, comparisons, strict=True):
        for caution in cautions(comparison):
            groups.setdefault(caution.kind, []).append(name)
    return tuple(f"Where {column} is {', '.join(alike)}, {_words(kind)}" for kind, alike in groups.items())


def _words(kind: CautionKind, evidence: str = "") -> str:
    return _WORDS[kind].format(evidence=evidence, cluster=named("cluster"))
