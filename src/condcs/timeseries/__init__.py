"""Distances between the dynamics of time series: p(next value | window) compared by a conditional divergence."""

from condcs.timeseries._baseline_distances import baseline_pairwise_distance, tck_kernel
from condcs.timeseries._clustering import (
    Clusters,
    adjusted_rand_index,
    choose_scale,
    cluster_distances,
    normalized_mutual_information,
    silhouette,
)
from condcs.timeseries._collection import embed
from condcs.timeseries._distance_matrix import MatrixOutput
from condcs.timeseries._distances import (
    ccs_distance,
    ccs_pairwise_distance,
    choose_factor,
    choose_order,
    false_neighbours,
    self_prediction,
)
from condcs.timeseries._series_clusters import RivalClusters, SeriesClusters, Setting, Trial, cluster

__all__ = [
    "Clusters",
    "MatrixOutput",
    "RivalClusters",
    "SeriesClusters",
    "Setting",
    "Trial",
    "adjusted_rand_index",
    "baseline_pairwise_distance",
    "ccs_distance",
    "ccs_pairwise_distance",
    "choose_factor",
    "choose_order",
    "choose_scale",
    "cluster",
    "cluster_distances",
    "embed",
    "false_neighbours",
    "normalized_mutual_information",
    "self_prediction",
    "silhouette",
    "tck_kernel",
]
