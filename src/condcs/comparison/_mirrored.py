"""A comparison with its two tables in each other's place: the same answer, told from the other side.

Two groups that are each compared with the other are one comparison. Made twice, with labels swapped, it would have
other random numbers, and two answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from condcs._inference.effects import Effect, Spread
from condcs._inference.explain import Explanation, Region
from condcs._inference.input_changes import InputChange
from condcs._inference.propensities import Propensity
from condcs._inference.region_effects import Change
from condcs._inference.results import Estimate
from condcs._tables.pair import Pair
from condcs.comparison._result import Comparison
from condcs.comparison._row_dependence import RowDependence
from condcs.comparison._steps import ChangeSizes, Location, ViewsOutcome

Value = TypeVar("Value")


def mirrored(comparison: Comparison) -> Comparison:
    """Return a comparison, of which no loss was asked, with the current table as the reference."""
    assert comparison.loss_change is None  # its parts are about the inputs of the current table
    pair = _mirrored_pair(comparison.pair)
    return replace(
        comparison,
        pair=pair,
        inputs=_mirrored_outcome(comparison.inputs),
        relation=_mirrored_outcome(comparison.relation),
        sizes=_mirrored_sizes(comparison.sizes),
        location=_mirrored_location(comparison.location, pair),
        row_dependence=_mirrored_dependence(comparison.row_dependence),
    )


def _mirrored_pair(pair: Pair) -> Pair:
    return replace(
        pair,
        xp=pair.xq,
        yp=pair.yq,
        xq=pair.xp,
        yq=pair.yp,
        reference=pair.current,
        current=pair.reference,
        weights_p=pair.weights_q,
        weights_q=pair.weights_p,
        clusters_p=pair.clusters_q,
        clusters_q=pair.clusters_p,
    )


def _mirrored_outcome(outcome: ViewsOutcome) -> ViewsOutcome:
    """Swap what a test says of each table; the divergence and its interval are the same from both sides."""
    diagnostics: dict[str, Any] = dict(outcome.diagnostics)
    if "clusters" in diagnostics:
        diagnostics["clusters"] = diagnostics["clusters"][::-1]
    return replace(outcome, diagnostics=diagnostics)


def _mirrored_sizes(sizes: ChangeSizes) -> ChangeSizes:
    return replace(sizes, effects=tuple(map(_mirrored_effect, sizes.effects)), rows=_swapped(sizes.rows))


def _mirrored_effect(effect: Effect) -> Effect:
    spread = effect.spread
    return replace(
        effect,
        average=None if effect.average is None else _negative(effect.average),
        spread=None if spread is None else Spread(spread.current, spread.reference, _negative(spread.change)),
    )


def _mirrored_location(location: Location, pair: Pair) -> Location:
    n_current = len(pair.xq)  # rows of the table that came first
    adjusted_y = np.concatenate([location.adjusted_y[n_current:], location.adjusted_y[:n_current]])
    return replace(
        location,
        explanation=_mirrored_explanation(location.explanation),
        pair=pair,
        adjusted_y=adjusted_y,
        propensity=_mirrored_propensity(location.propensity, n_current),
    )


def _mirrored_propensity(propensity: Propensity, n_current: int) -> Propensity:
    """Swap P(table | x) of both tables, and the rows of the tables."""
    probabilities, units = propensity.probabilities[:, ::-1], propensity.units
    if units is None:
        probabilities = np.concatenate([probabilities[n_current:], probabilities[:n_current]])
    else:
        # Clusters keep their numbers, which say where in the probabilities they are.
        units = np.concatenate([units[n_current:], units[:n_current]])
    return replace(propensity, probabilities=probabilities, units=units)


def _mirrored_explanation(explanation: Explanation) -> Explanation:
    return replace(
        explanation,
        regions=tuple(map(_mirrored_region, explanation.regions)),
        inputs=tuple(map(_mirrored_input, explanation.inputs)),
    )


def _mirrored_region(region: Region) -> Region:
    changes = tuple(map(_mirrored_change, region.changes))
    return replace(region, share_p=region.share_q, share_q=region.share_p, changes=changes)


def _mirrored_change(change: Change) -> Change:
    # A spread changes by a factor.
    turned = _inverse if change.quantity == "spread" else _negative
    return replace(change, reference=change.current, current=change.reference, change=turned(change.change))


def _mirrored_input(change: InputChange) -> InputChange:
    summaries = tuple((words, of_q, of_p) for words, of_p, of_q in change.summaries)
    return replace(change, summaries=summaries, shares_p=change.shares_q, shares_q=change.shares_p)


def _mirrored_dependence(rows: RowDependence) -> RowDependence:
    return replace(
        rows,
        copies=_swapped(rows.copies),
        pvalues=_swapped_if_tested(rows.pvalues),
        autocorrelations=_swapped_if_tested(rows.autocorrelations),
        lags=_swapped_if_tested(rows.lags),
        variance_ratios=_swapped_if_tested(rows.variance_ratios),
    )


def _swapped(values: tuple[Value, Value]) -> tuple[Value, Value]:
    first, second = values
    return second, first


def _swapped_if_tested(values: tuple[Value, Value] | None) -> tuple[Value, Value] | None:
    return None if values is None else _swapped(values)


def _negative(estimate: Estimate) -> Estimate:
    value, low, high = estimate
    return Estimate(-value, -high, -low, estimate.confidence_level, within_chance=estimate.within_chance)


def _inverse(estimate: Estimate) -> Estimate:
    """Return 1 divided by an estimate of what is positive."""
    value, low, high = estimate
    largest = 1 / low if low > 0 else np.inf  # a factor may be too small for a double
    return Estimate(1 / value, 1 / high, largest, estimate.confidence_level, within_chance=estimate.within_chance)
