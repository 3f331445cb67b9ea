"""Drift of the relation between y and x in a stream: p(y|x) of recent rows against that of a reference.

A row takes this way: `_stream_columns` encodes it as numbers. The compiled loop of `_watching` scores it (`_scores`, by
the regressions of `_reference_regression` and the autoregression of `_dependence`), finds the cell of x that it is in
(`_cells`), ranks the score among those of the cell and bets on the rank (`_betting`). When the bets have won enough,
`_alarm` says what changed, where and since when. `_detector` puts these together: read
`ConditionalDriftDetector._update` first, then `watch_rows`. `_watch_page` is the page of ``condcs watch``; how rows
arrive is not known here. To add a pattern of bets, see `_patterns`.
"""

from condcs.drift._alarm import Alarm
from condcs.drift._detector import AfterAlarm, ConditionalDriftDetector

__all__ = ["AfterAlarm", "Alarm", "ConditionalDriftDetector"]
