"""What the comparison of two tables found, as text, plain values, a page or a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import condcs
from condcs._core.equality import ByValue
from condcs._core.errors import ParameterError, public
from condcs._tables.kinds import Column
from condcs._tables.pair import Account, Pair
from condcs.comparison._regions import ChangedRegion, Places, response_summary
from condcs.comparison._shifts import Shift
from condcs.comparison._wording import as_text, show_p

if TYPE_CHECKING:
    from condcs.report._page import Page


SCHEMA = "condcs/compare/1"
"""Of `to_dict`, described in docs/schemas. New keys keep the number; a key that goes, or means something else, raises
it."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ByValue):
    """What `condcs.compare` found out.

    ``print(comparison)`` shows what ``condcs compare`` prints; a notebook shows the page.

    Attributes
    ----------
    inputs, relation : Shift
        The tests of p(x) and of p(y|x): `pvalue`, `overlap`, `overlap_interval`, and each view by itself.
    places : Places
        The regions, with the local divergence that they were found from.
    pair : Pair
        The two tables as they were compared: columns, arrays, and what became of the rows.
    alpha : float
        Level of the tests.
    n_resamples, seed : int
        Resamples of each test, and the seed of the sample and of the tests.
    notes : tuple of str
        What a reader should know: columns left out, rows without a counterpart.
    """

    pair: Pair
    inputs: Shift
    relation: Shift
    places: Places
    alpha: float
    n_resamples: int
    seed: int
    notes: tuple[str, ...]

    @property
    def relation_changed(self) -> bool:
        """Whether p(y|x) changed, at the level alpha."""
        return self.relation.pvalue <= self.alpha

    @property
    def inputs_shifted(self) -> bool:
        """Whether p(x) changed, at the level alpha."""
        return self.inputs.pvalue <= self.alpha

    @property
    def regions(self) -> tuple[ChangedRegion, ...]:
        """Regions of x, those where the relations differ most first; they describe, and test nothing."""
        return self.places.regions

    @property
    def response(self) -> tuple[tuple[str, float, float], ...]:
        """What y does over all rows: words, and its value in the reference and in the current table."""
        pair = self.pair
        return response_summary(pair.y, pair.yp, pair.yq, self.places.shown, (pair.weights_p, pair.weights_q))

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        y = ", ".join(column.name for column in self.pair.y)
        p = f"p = {show_p(self.relation.pvalue)}"
        if self.relation_changed:
            inputs = "the inputs shifted as well" if self.inputs_shifted else "no evidence that the inputs shifted"
            return f"The relation of {y} to the inputs changed ({p}); {inputs}."
        inputs = (
            "the inputs shifted (covariate shift)"
            if self.inputs_shifted
            else "nor that the inputs did, with samples of this size"
        )
        return f"No evidence that the relation of {y} to the inputs changed ({p}); {inputs}."

    def __repr__(self) -> str:
        return f"<Comparison: {self.verdict}>"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str | None:
        try:
            return self._page().framed()
        except ModuleNotFoundError:
            # Without matplotlib a notebook shows the text.
            return None

    @public
    def report(self, path: str | Path, *, command: str | None = None) -> Path:
        """Write a page about it: one HTML file that needs nothing from the network.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists; its folder must exist.
        command : str, optional
            The command that made it, to be shown at the end.

        Returns
        -------
        Path
            The file.
        """
        return self._page(command).write(path)

    @public
    def plot(self, column: str | None = None) -> Any:
        """Draw what y does over one input in both tables, and below it where the relations differ.

        Parameters
        ----------
        column : str, optional
            The input; by default the one that the difference depends on most.

        Returns
        -------
        matplotlib figure
            Not shown; save it with ``figure.savefig("change.png")``.
        """
        from condcs.comparison._compare_page import input_figure, telling_columns

        names = [c.name for c in self.pair.x]
        if column is not None and column not in names:
            known = ", ".join(map(repr, names[:12]))
            raise ParameterError(f"`column` must be an input, got {column!r}. The inputs are {known}.")
        return input_figure(self, telling_columns(self, 1)[0] if column is None else names.index(column))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that was found as plain values: what ``condcs compare --json`` prints."""
        pair = self.pair
        return {
            "schema": SCHEMA,
            "condcs": condcs.__version__,
            "changed": self.relation_changed,
            "inputs_shifted": self.inputs_shifted,
            "verdict": self.verdict,
            "alpha": self.alpha,
            "reference": _account(pair.reference),
            "current": _account(pair.current),
            "x": [_column(c) for c in pair.x],
            "y": [_column(c) for c in pair.y],
            "inputs": _shift(self.inputs),
            "relation": _shift(self.relation),
            "response": _responses(self.response),
            "regions": [
                {
                    "where": region.words,
                    "times_average": region.ratio,
                    "share_reference": region.share_p,
                    "share_current": region.share_q,
                    "above_band": region.above,
                    "response": _responses(region.response),
                }
                for region in self.regions
            ],
            "resamples": self.n_resamples,
            "seed": self.seed,
            "notes": list(self.notes),
        }

    def _page(self, command: str | None = None) -> Page:
        from condcs.comparison._compare_page import compare_page

        return compare_page(self, command)


def _column(column: Column) -> dict[str, Any]:
    part_of = {"part_of": column.source} if column.source else {}
    return {"name": column.name, "kind": column.kind, **part_of}


def _account(account: Account) -> dict[str, Any]:
    return {"table": account.title, "rows": account.seen, "with_gaps": account.gaps, "used": account.used}


def _shift(shift: Shift) -> dict[str, Any]:
    return {
        "pvalue": shift.pvalue,
        "overlap": shift.overlap,
        "overlap_interval": list(shift.overlap_interval),
        "divergence": shift.divergence,
        "divergence_by_chance": shift.by_chance,
        "views": [{"view": name, "pvalue": p} for name, p in zip(shift.views, shift.pvalues, strict=True)],
        **({"diagnostics": shift.diagnostics} if shift.diagnostics else {}),
    }


def _responses(found: tuple[tuple[str, float, float], ...]) -> list[dict[str, Any]]:
    return [{"what": words, "reference": before, "current": after} for words, before, after in found]
