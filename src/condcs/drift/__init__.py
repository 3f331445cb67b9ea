"""Drift of the relation between y and x in a stream: p(y|x) of recent rows against that of a reference.

A row takes this way: `_stream_columns` reads it; `_watching` takes it through `_scores`, which scores it by the
regressions of `_reference_regression` and the autoregression of `_dependence`, through `_cells`, which says where over
x it is, and through `_betting`, which ranks the score there and bets on the rank; `_alarm` explains what was won.
`_detector` holds it all together: read `ConditionalDriftDetector._update` first, then `watch_rows`. Files and pages are
not known here. To add a pattern of bets, see `_patterns`.
"""

from condcs.drift._alarm import Alarm
from condcs.drift._detector import AfterAlarm, ConditionalDriftDetector

__all__ = ["AfterAlarm", "Alarm", "ConditionalDriftDetector"]
