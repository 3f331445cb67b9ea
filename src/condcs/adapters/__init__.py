"""Layer 5: faces for other libraries; each imports its partner only when it is asked for."""

from __future__ import annotations

from typing import Any

__all__ = ["ConditionalShiftTest"]


def __getattr__(name: str) -> Any:
    if name == "ConditionalShiftTest":
        from condcs.adapters.scikit_learn import ConditionalShiftTest

        return ConditionalShiftTest
    raise AttributeError(f"module 'condcs.adapters' has no attribute {name!r}")
