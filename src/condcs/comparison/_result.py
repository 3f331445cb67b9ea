"""What the comparison of two tables found, as text, plain values, a page or a picture."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import condcs
from condcs._core.arrays import ByValue
from condcs._core.checks import check_positive
from condcs._core.errors import ParameterError, public
from condcs._core.printable import Printable, summarised
from condcs._core.vocabulary import named, setting
from condcs._inference.effects import Effect
from condcs._inference.explain import Region
from condcs._inference.input_changes import InputChange
from condcs._inference.loss_split import LossChange
from condcs._inference.region_effects import Change
from condcs._tables.kinds import Column
from condcs._tables.pair import Account, Pair
from condcs.comparison._influential_rows import located_row
from condcs.comparison._row_dependence import RowDependence
from condcs.comparison._steps import ChangeSizes, Location, ViewsOutcome, response_summary
from condcs.comparison._wording import BEFORE_AND_NOW, Passage, all_passages, as_text, verdict_words

if TYPE_CHECKING:
    from condcs.report._page import Page


class Reported(Printable):
    """A result with words and a page: in a terminal, in a file, or in a notebook."""

    @abstractmethod
    def _passages(self) -> list[Passage]:
        """Return everything that is said, in order."""

    def __str__(self) -> str:
        return as_text(self._passages())

    @abstractmethod
    def _page(self, command: str | None = None) -> Page:
        """Make the page."""

    def _repr_html_(self) -> str | None:
        try:
            return self._page().framed()
        except ModuleNotFoundError:
            # Without matplotlib a notebook shows the text.
            return super()._repr_html_()

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


COMPARISON_SCHEMA = "condcs/compare/1"
"""Of `to_dict`, described in docs/schemas. New keys keep the number; a key that goes, or means something else, raises
it."""
_MOST_NAMES = 12
"""Inputs that a message names at most, so that one sees the rule in it."""
Decision = Literal["changed", "same", "undecided"]


@dataclass(frozen=True)
class Limits:
    """How large a change must be to matter; by default any change does.

    Parameters
    ----------
    tolerance : float, optional
        Changes of y for the same inputs, in its units (for labels, in shares), that are too small to matter.
    min_effect : float, optional
        The same as a loss of overlap: with 0.05, overlaps above 0.95 are too small a change to matter.
    """

    tolerance: float | None = None
    min_effect: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("tolerance", self.tolerance), ("min_effect", self.min_effect)):
            if value is not None:
                check_positive(name, value)
        if self.min_effect is not None and self.min_effect >= 1:
            raise ParameterError(
                f"{named('min_effect')} must be below 1, got {self.min_effect!r}. Pass e.g. "
                f"{setting('min_effect', 0.05)}."
            )

    @property
    def are_set(self) -> bool:
        """Whether there is one."""
        return self.tolerance is not None or self.min_effect is not None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ByValue, Reported):
    """What `condcs.compare` found out.

    ``print(comparison)`` shows what ``condcs compare`` prints; a notebook shows the page.

    Attributes
    ----------
    inputs, relation : ViewsOutcome
        The tests of p(x) and of p(y|x): `pvalue`, `overlap`, `overlap_interval`, and each view by itself.
    sizes : ChangeSizes
        How large the change is, in units of y, and why a model's loss changed.
    location : Location
        The regions and the inputs (`explanation`), and the local divergence at some rows.
    pair : Pair
        The two tables as they were compared: columns, arrays, and what became of the rows.
    alpha : float
        Level of the tests.
    n_resamples, seed : int
        Resamples of both tests (those of the regions are in `location`), and the seed of the sample and of the tests.
    notes : tuple of str
        What to know besides: columns left out, rows without a counterpart.
    limits : Limits
        How large a change must be to matter.
    row_dependence : RowDependence
        Signs that rows are not independent of one another, so that p-values are too small: copies of rows, and rows
        that depend on their neighbours.
    inputs_alpha : float, optional
        Level of the test of the inputs; None means `alpha`. In `condcs.compare_groups` both are what the adjustment for
        the number of groups leaves.
    sides : tuple of str
        What sentences call the reference and the current table.
    """

    pair: Pair
    inputs: ViewsOutcome
    relation: ViewsOutcome
    sizes: ChangeSizes
    location: Location
    alpha: float
    n_resamples: int
    seed: int
    notes: tuple[str, ...]
    limits: Limits = Limits()
    row_dependence: RowDependence = field(default_factory=RowDependence)
    inputs_alpha: float | None = None
    sides: tuple[str, str] = BEFORE_AND_NOW

    @property
    def decision(self) -> Decision:
        """Whether p(y|x) changed: "changed", "same" or "undecided".

        Without `tolerance` and `min_effect`, "changed" means that the test rejects at the level alpha, and everything
        else is undecided: samples do not show that nothing changed at all. With one of them, "changed" means that the
        test rejects and a confidence interval lies beyond it, that of the whole or, for `tolerance`, that of a region;
        "same" that all of them lie within. In a region where the shape of y changed, its mean and spread count.
        """
        rejected = self.relation.pvalue <= self.alpha
        if not self.limits.are_set:
            return "changed" if rejected else "undecided"
        beyond, within = [], []
        if self.limits.tolerance is not None:
            # All regions that are significant by themselves: "same" must hold in these as well, whatever the test says.
            regions = self.location.significant_regions
            bounds = [*(effect.bounds for effect in self.effects), *map(_bounds_in_region, regions)]
            beyond.append(any(low > self.limits.tolerance for low, _ in bounds))
            within.append(all(high < self.limits.tolerance for _, high in bounds))
        if self.limits.min_effect is not None:
            low, high = self.relation.overlap_interval
            beyond.append(1 - high > self.limits.min_effect)
            within.append(1 - low < self.limits.min_effect)
        if rejected and all(beyond):
            return "changed"
        return "same" if all(within) else "undecided"

    @property
    def relation_changed(self) -> bool:
        """Whether p(y|x) changed: the exit code of ``condcs compare``."""
        return self.decision == "changed"

    @property
    def effects(self) -> tuple[Effect, ...]:
        """How much each response changed for the same inputs, in its own units."""
        return self.sizes.effects

    @property
    def loss_change(self) -> LossChange | None:
        """Why the mean loss changed, if `prediction` or `loss` was given."""
        return self.sizes.loss

    @property
    def inputs_shifted(self) -> bool:
        """Whether p(x) changed, at the level of the test of the inputs."""
        return self.inputs.pvalue <= (self.alpha if self.inputs_alpha is None else self.inputs_alpha)

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions of x in which a change is significant, the most certain first; none where the relation shows none.

        Each region has a p-value of its own, for all regions together. That the test of p(y|x) must reject as well
        protects from regions that are found where inputs moved and the relation did not.
        """
        return self.location.significant_regions if self.relation.pvalue <= self.alpha else ()

    @property
    def response(self) -> tuple[tuple[str, float, float], ...]:
        """What y does over the rows used: words, and its value in the reference and in the current table."""
        pair = self.pair
        return response_summary(pair.y, pair.yp, pair.yq, self.location.shown, (pair.weights_p, pair.weights_q))

    @property
    def has_all_rows(self) -> bool:
        """Whether no row of either table was left out; `response` is then about the tables, else about a sample."""
        return self.pair.reference.has_all_rows and self.pair.current.has_all_rows

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return verdict_words(self)

    def __repr__(self) -> str:
        return summarised(self, self.verdict)

    def _passages(self) -> list[Passage]:
        return all_passages(self)

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
        from condcs.comparison._compare_figures import input_figure, telling_columns

        names = [input_column.name for input_column in self.pair.x]
        if column is not None and column not in names:
            inputs = ", ".join(map(repr, names[:_MOST_NAMES]))
            raise ParameterError(f"`column` must be an input, got {column!r}. The inputs are {inputs}.")
        return input_figure(self, telling_columns(self, 1)[0] if column is None else names.index(column))

    def to_dict(self) -> dict[str, Any]:
        """Return everything that was found as plain values: what ``condcs compare --json`` prints."""
        pair = self.pair
        return {
            "schema": COMPARISON_SCHEMA,
            "condcs": condcs.__version__,
            "changed": self.relation_changed,
            "inputs_shifted": self.inputs_shifted,
            "decision": self.decision,
            "verdict": self.verdict,
            "alpha": self.alpha,
            "tolerance": self.limits.tolerance,
            "min_effect": self.limits.min_effect,
            "reference": _account_fields(pair.reference),
            "current": _account_fields(pair.current),
            "x": [_column_fields(column) for column in pair.x],
            "y": [_column_fields(column) for column in pair.y],
            "inputs": _outcome_fields(self.inputs),
            "relation": _outcome_fields(self.relation),
            "row_dependence": self.row_dependence.to_dict(),
            "effects": [_effect_fields(pair, effect) for effect in self.effects],
            "loss_change": None if self.loss_change is None else self.loss_change.to_dict(),
            "response": _summary_fields(self.response),
            "response_rows": "all" if self.has_all_rows else "used",
            "regions": [_region_fields(region) for region in self.regions],
            "left_out": [{"column": each.column, "reason": each.reason} for each in pair.left_out],
            "input_columns": [_input_fields(change) for change in self.location.explanation.inputs],
            "resamples": self.n_resamples,
            "resamples_of_regions": self.location.n_resamples,
            "seed": self.seed,
            "notes": list(self.notes),
        }

    def _page(self, command: str | None = None) -> Page:
        from condcs.comparison._compare_page import compare_page

        return compare_page(self, command)


def _bounds_in_region(region: Region) -> tuple[float, float]:
    """Bounds of the size of what changed in a region, in units of y; of a shape, of what mean and spread did there."""
    if region.sized_change is not None:
        return _bounds_of_change(region.sized_change)
    bounds = [_bounds_of_change(change) for change in region.changes if change.column == region.column]
    low, high = (max(ends) for ends in zip(*bounds, strict=True))
    return low, high


def _bounds_of_change(change: Change) -> tuple[float, float]:
    """Bounds of the size of a change, without its sign, in units of y."""
    low, high = change.change.low, change.change.high
    if change.quantity == "spread":
        # Spreads change by a factor.
        low, high = (change.reference.value * (factor - 1) for factor in (low, high))
    return max(low, -high, 0.0), max(-low, high)


def _column_fields(column: Column) -> dict[str, Any]:
    part_of = {"part_of": column.source} if column.source else {}
    return {"name": column.name, "kind": column.kind, **part_of}


def _account_fields(account: Account) -> dict[str, Any]:
    return {
        "table": account.title,
        "rows": account.seen,
        "with_gaps": account.gaps,
        "gaps_as_values": dict(account.gaps_by_input),
        "used": account.used,
    }


def _effect_fields(pair: Pair, effect: Effect) -> dict[str, Any]:
    row = located_row(pair, effect)
    return {**effect.to_dict(), "influential_row": None if row is None else row.to_dict()}


def _outcome_fields(outcome: ViewsOutcome) -> dict[str, Any]:
    return {
        "pvalue": outcome.pvalue,
        "overlap": outcome.overlap,
        "overlap_interval": list(outcome.overlap_interval),
        "divergence": outcome.divergence,
        "divergence_by_chance": outcome.by_chance,
        "views": [{"view": name, "pvalue": p} for name, p in zip(outcome.views, outcome.pvalues, strict=True)],
        **({"diagnostics": outcome.diagnostics} if outcome.diagnostics else {}),
    }


def _region_fields(region: Region) -> dict[str, Any]:
    return {
        "where": region.words,
        "bounds": {name: _ends(bound) for name, bound in region.bounds.items()},
        "pvalue": region.pvalue,
        "kind": region.kind,
        "share_reference": region.share_p,
        "share_current": region.share_q,
        "response": [_change_fields(change) for change in region.changes],
    }


def _input_fields(change: InputChange) -> dict[str, Any]:
    return {
        "name": change.name,
        "share_of_change": change.involvement,
        "pvalue_of_shift": change.pvalue,
        "summaries": _summary_fields(change.summaries),
        "bins": list(change.bins),
        "shares_reference": list(change.shares_p),
        "shares_current": list(change.shares_q),
    }


def _ends(bound: tuple[float, float] | tuple[str, ...]) -> list[float | str | None]:
    """Labels, or the ends of an interval, None where it is open."""
    return [None if isinstance(end, float) and math.isinf(end) else end for end in bound]


def _change_fields(change: Change) -> dict[str, Any]:
    numbers = {"reference": change.reference, "current": change.current, "change": change.change}
    values = {name: estimate.value for name, estimate in numbers.items()}
    intervals = {f"{name}_interval": [estimate.low, estimate.high] for name, estimate in numbers.items()}
    return {
        "what": change.words,
        "quantity": change.quantity,
        **values,
        **intervals,
        "confidence_level": change.change.confidence_level,
    }


def _summary_fields(summaries: tuple[tuple[str, float, float], ...]) -> list[dict[str, Any]]:
    return [{"what": words, "reference": of_p, "current": of_q} for words, of_p, of_q in summaries]
