"""Errors and warnings: bad input is a `ValueError` that names the argument, the rule, what came and the remedy."""

from condcs._core.errors import (
    BalanceWarning,
    BandwidthError,
    BandwidthWarning,
    CondcsError,
    CondcsWarning,
    CostWarning,
    DataError,
    MissingPartnerError,
    OverlapError,
    OverlapWarning,
    ParameterError,
    PrecisionWarning,
    ShapeError,
)
from condcs._core.files import InUseError, WriteError
from condcs._parallel.dask_cluster import ClusterError

__all__ = [
    "BalanceWarning",
    "BandwidthError",
    "BandwidthWarning",
    "ClusterError",
    "CondcsError",
    "CondcsWarning",
    "CostWarning",
    "DataError",
    "InUseError",
    "MissingPartnerError",
    "OverlapError",
    "OverlapWarning",
    "ParameterError",
    "PrecisionWarning",
    "ShapeError",
    "WriteError",
]
