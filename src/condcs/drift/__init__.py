"""Drift of the relation between y and x in a stream: p(y|x) of recent rows against that of a reference.

A row takes this way: `_stream_columns` reads it; `_scores` scores it by the regressions of `_reference_regression` and
the autoregression of `_dependence`; `_cells` says where over x it is; `_betting` ranks the score there and bets on the
rank; `_alarm` explains what was won. `_detector` holds it all together.
"""

from condcs.drift._alarm import Alarm
from condcs.drift._detector import AfterAlarm, ConditionalDriftDetector

__all__ = ["AfterAlarm", "Alarm", "ConditionalDriftDetector"]
