"""Table 5: the same distances, clustered by k-medoids; the trials are those of Table 4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from condcs_reproduction import table4
from condcs_reproduction.clustering_report import picture, summary
from condcs_reproduction.report import Report
from condcs_reproduction.series_clustering import PAPER
from condcs_reproduction.spec import Experiment, Results


def summarise(experiment: Experiment, results: Results) -> Report:
    """NMI by k-medoids."""
    return summary(experiment, results, "k_medoids")


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """All rows and measures."""
    picture(experiment, results, figure, "k_medoids")


EXPERIMENT = replace(
    table4.EXPERIMENT,
    name="table5",
    title="Time series clustering, k-medoids",
    reproduces="Table 5: NMI of k-medoids on 16 data sets (uses the trials of table4).",
    paper=PAPER["k_medoids"],
    summarise=summarise,
    draw=draw,
    source="table4",
)
