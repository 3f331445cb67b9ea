"""Simulated data whose ground truth is known."""

from condcs.datasets._simulators import DrivenSeries, LocalShift, make_henon_chain, make_local_shift, make_nlvar3

__all__ = [
    "DrivenSeries",
    "LocalShift",
    "make_henon_chain",
    "make_local_shift",
    "make_nlvar3",
]
