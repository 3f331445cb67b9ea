"""Table 4: time series clustered by spectral clustering, on five measures of distance."""

from __future__ import annotations

from typing import Any

from condcs_reproduction.clustering_report import picture, summary
from condcs_reproduction.report import Report
from condcs_reproduction.series_clustering import GRIDS, PAPER, PAPER_ROWS, TEXTURES, tasks, trial
from condcs_reproduction.spec import Experiment, Results


def summarise(experiment: Experiment, results: Results) -> Report:
    """NMI by spectral clustering."""
    return summary(experiment, results, "spectral")


def draw(experiment: Experiment, results: Results, figure: Any) -> None:
    """All rows and measures."""
    picture(experiment, results, figure, "spectral")


EXPERIMENT = Experiment(
    name="table4",
    title="Time series clustering, spectral",
    reproduces="Table 4: NMI of spectral clustering on 16 data sets (its trials serve table5 too).",
    parameters={
        "sets": [*PAPER_ROWS, TEXTURES],
        "grids": GRIDS,
        "scales": [0.1, 0.2, 1.0, 2.0, 10.0, 20.0],
        "median_scales": [0.03, 0.1, 0.3, 1.0, 3.0],
        "fixed_scale": "silhouette",
        "fixed_orders": {"univariate": 10, "multivariate": 1},
        "univariate": list(PAPER_ROWS[:6]),
        "extra_sets": ["coffee", "libras", *(f"robot_lp{i}" for i in range(1, 6))],
        "textures": {"n_clips": 24, "n_classes": 3, "n_frames": 42, "height": 48, "width": 48, "n_states": 8, "rng": 0},
        "tck": {"n_mixtures": 30},
    },
    quick={
        "sets": ["robot_lp2", "robot_lp3", TEXTURES],
        "grids": {
            "robot_lp2": {"orders": [1], "factors": [1.0], "scalings": ["raw"]},
            "robot_lp3": {"orders": [1], "factors": [1.0], "scalings": ["raw"]},
            TEXTURES: {"orders": [1], "factors": [1.0], "scalings": ["raw"]},
        },
        "extra_sets": ["robot_lp2"],
        "textures": {"n_clips": 9, "n_classes": 3, "n_frames": 30, "height": 6, "width": 6, "n_states": 4, "rng": 0},
        "tck": {"n_mixtures": 2, "n_components": 4},
    },
    repeats=1,
    quick_repeats=1,
    seed=20_250_404,
    paper=PAPER["spectral"],
    tolerance=0.05,
    tasks=tasks,
    trial=trial,
    summarise=summarise,
    draw=draw,
)
