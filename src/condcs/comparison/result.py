"""The comparison of two tables, from arrays to a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import condcs
from condcs.comparison.regions import Places, find_places, response_summary
from condcs.comparison.shifts import Shift, Tell, collected_warnings, compare_inputs, compare_relation
from condcs.comparison.wording import show_p
from condcs.core.errors import ParameterError
from condcs.tables.pair import Account, Pair

STEPS = 12
"""How often `compare` tells where it is, at most: four widths of the inputs, five of the relation, an interval for
each, the regions."""


@dataclass(frozen=True)
class Comparison:
    """What `condcs compare` found out."""

    pair: Pair
    inputs: Shift
    relation: Shift
    places: Places
    alpha: float
    resamples: int
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
            else "nor that the inputs did: nothing to see at this sample size"
        )
        return f"No evidence that the relation of {y} to the inputs changed ({p}); {inputs}."


def compare(pair: Pair, *, alpha: float, resamples: int, seed: int, jobs: int | None, tell: Tell) -> Comparison:
    """Compare two tables."""
    check_level(alpha, resamples)

    def run() -> tuple[Shift, Shift, Places]:
        inputs = compare_inputs(pair, resamples=resamples, seed=seed, jobs=jobs, tell=tell)
        relation = compare_relation(pair, resamples=resamples, seed=seed, jobs=jobs, tell=tell)
        tell("where")
        return inputs, relation, find_places(pair, seed=seed)

    (inputs, relation, places), said = collected_warnings(run)
    return Comparison(pair, inputs, relation, places, alpha, resamples, seed, (*pair.notes, *said))


def check_alpha(alpha: float) -> None:
    """Check that a level is one."""
    if not 0 < alpha < 1:
        raise ParameterError(f"`--alpha` must lie between 0 and 1, got {alpha:g}. Pass e.g. --alpha 0.05.")


def check_level(alpha: float, resamples: int) -> None:
    """Check that a level is one, and that this many resamples can reach it."""
    check_alpha(alpha)
    if 1 / (1 + resamples) > alpha:
        least = int(1 / alpha)
        raise ParameterError(
            f"`--resamples` must be at least {least} for a p-value to reach --alpha {alpha:g}, got {resamples}. "
            f"Pass --resamples {2 * least}."
        )


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return everything that was found as plain values."""
    pair = comparison.pair
    return {
        "condcs": condcs.__version__,
        "changed": comparison.relation_changed,
        "inputs_shifted": comparison.inputs_shifted,
        "verdict": comparison.verdict,
        "alpha": comparison.alpha,
        "reference": _account(pair.reference),
        "current": _account(pair.current),
        "x": [{"name": c.name, "kind": c.kind} for c in pair.x],
        "y": [{"name": c.name, "kind": c.kind} for c in pair.y],
        "inputs": _shift(comparison.inputs),
        "relation": _shift(comparison.relation),
        "response": _responses(response_summary(pair.y, pair.yp, pair.yq, comparison.places.shown)),
        "regions": [
            {
                "where": region.words,
                "times_average": region.ratio,
                "share_reference": region.share_p,
                "share_current": region.share_q,
                "above_band": region.above,
                "response": _responses(region.response),
            }
            for region in comparison.places.regions
        ],
        "resamples": comparison.resamples,
        "seed": comparison.seed,
        "notes": list(comparison.notes),
    }


def _account(account: Account) -> dict[str, Any]:
    return {"table": account.title, "rows": account.seen, "with_gaps": account.gaps, "used": account.used}


def _shift(shift: Shift) -> dict[str, Any]:
    return {
        "pvalue": shift.pvalue,
        "overlap": shift.overlap,
        "overlap_interval": list(shift.overlap_interval),
        "divergence": shift.divergences[shift.most_telling],
        "width_multiples": list(shift.multiples[shift.most_telling]),
        "widths": [
            {"multiples": list(m), "divergence": d, "by_chance": c, "pvalue": p}
            for m, d, c, p in zip(shift.multiples, shift.divergences, shift.chances, shift.pvalues, strict=True)
        ],
    }


def _responses(found: tuple[tuple[str, float, float], ...]) -> list[dict[str, Any]]:
    return [{"what": words, "reference": before, "current": after} for words, before, after in found]
