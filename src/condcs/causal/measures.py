"""Measures of a causal influence by name: conditional CS and the baselines, all with one interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from condcs.causal.kernel_granger import kernel_granger, kernel_widths
from condcs.causal.linear_granger import linear_granger
from condcs.causal.problem import Measure
from condcs.causal.series import FloatArray
from condcs.causal.transfer_entropy import transfer_entropy
from condcs.core.checks import check_choice
from condcs.core.errors import ParameterError

CS = "conditional_cs"

BASELINES: Mapping[str, tuple[Measure, Mapping[str, Any]]] = {
    "linear_granger": (linear_granger, {}),
    "kernel_granger": (kernel_granger, {"bandwidth": "median", "tolerance": 1e-6, "eigensolver": "low_rank"}),
    "transfer_entropy": (transfer_entropy, {"k": 3, "estimator": "frenzel_pompe"}),
}
"""Measures that are evaluated row by row, with their options and defaults."""

MEASURES = (CS, *BASELINES)


def check_measure(name: Any, options: Mapping[str, Any]) -> tuple[Measure | None, dict[str, Any]]:
    """Return the function of a baseline (None for conditional CS) and its options, filled up with defaults."""
    check_choice("measure", name, MEASURES)
    if name == CS:
        allowed: Mapping[str, Any] = {}
        function = None
    else:
        function, allowed = BASELINES[name]
    unknown = next((option for option in options if option not in allowed), None)
    if unknown is not None:
        known = ", ".join(f"`{option}`" for option in allowed) or "none"
        raise ParameterError(f"`{unknown}` must be an option of {name!r}, whose own are: {known}. Leave it out.")
    return function, {**allowed, **options}


def prepared(
    name: str, parts: tuple[FloatArray, FloatArray, FloatArray], options: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the options with widths fixed on the whole series: no surrogate estimates them anew."""
    if name != "kernel_granger":
        return options
    return {**options, "bandwidth": kernel_widths(parts[1], parts[2], options["bandwidth"])}
