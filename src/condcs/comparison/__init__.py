"""The parts of a `Comparison` of two tables: how far p(x) and p(y|x) shifted, how y changed, and where."""

from condcs._inference.effects import Effect, Spread
from condcs._inference.input_changes import InputChange
from condcs._inference.region_effects import Change
from condcs.comparison._steps import ChangeSizes, ViewsOutcome

__all__ = ["Change", "ChangeSizes", "Effect", "InputChange", "Spread", "ViewsOutcome"]
