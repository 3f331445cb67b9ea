"""Graphs of tasks: neighbours, distances between graphs, layouts."""

import numpy as np
import pytest

from condcs_reproduction.data import make_circular_tasks
from condcs_reproduction.task_graphs import fiedler_vector, geodesic_distance, laplacian, neighbour_graph, planar_layout
from condcs_reproduction.task_graphs import true_graph as circle_graph


def test_neighbours_are_united():
    """A task far away takes part through its own choice."""
    places = np.array([0.0, 1.0, 2.1, 10.0])
    graph = neighbour_graph(np.abs(places[:, None] - places), 1)
    assert {tuple(map(int, edge)) for edge in zip(*np.nonzero(np.triu(graph)), strict=True)} == {(0, 1), (1, 2), (2, 3)}


def test_true_graph_does_not_depend_on_the_weights_radius():
    """Ties are broken by number, not by rounding."""
    graphs = [circle_graph(make_circular_tasks(2, rng=seed).weights, 3) for seed in range(20)]
    assert all(np.array_equal(graph, graphs[0]) for graph in graphs)
    assert all(graphs[0][i, i + 1] for i in range(14))
    assert graphs[0][0, 14]
    assert graphs[0].sum() % 2 == 0


def test_geodesic_distance_of_equal_graphs_is_zero():
    truth = circle_graph(make_circular_tasks(2).weights, 3)
    assert geodesic_distance(truth, truth) == 0
    other = truth.copy()
    other[2, 9] = other[9, 2] = True
    assert geodesic_distance(truth, other) > 0


def test_fiedler_vector_of_a_ring_does_not_depend_on_the_basis():
    """Double eigenvalue: the vector is the cosine that peaks at the first task, up to scale."""
    ring = np.zeros((8, 8), bool)
    for i in range(8):
        ring[i, (i + 1) % 8] = ring[(i + 1) % 8, i] = True
    vector = fiedler_vector(laplacian(ring))
    cosine = np.cos(2 * np.pi * np.arange(8) / 8)
    assert vector == pytest.approx(cosine / np.linalg.norm(cosine), abs=1e-10)


def test_layout_recovers_points_in_the_plane():
    """Classical scaling of squared distances is exact, up to turning and mirroring."""
    points = np.random.default_rng(0).normal(size=(6, 2))
    D = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    found = planar_layout(D)
    assert ((found[:, None] - found[None]) ** 2).sum(axis=-1) == pytest.approx(D)
