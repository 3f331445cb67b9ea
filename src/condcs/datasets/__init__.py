"""Data to try things on: simulators whose answer is known."""

from condcs.datasets._coupled_maps import DrivenSeries, make_henon_chain, make_nlvar3
from condcs.datasets._local_shift import LocalShift, make_local_shift

__all__ = [
    "DrivenSeries",
    "LocalShift",
    "make_henon_chain",
    "make_local_shift",
    "make_nlvar3",
]
