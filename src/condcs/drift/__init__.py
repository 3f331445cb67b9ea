"""Drift of the relation between y and x in a stream: p(y|x) of recent rows against that of a reference."""

from condcs.drift._alarm import Alarm
from condcs.drift._detector import AfterAlarm, ConditionalDriftDetector

__all__ = ["AfterAlarm", "Alarm", "ConditionalDriftDetector"]
