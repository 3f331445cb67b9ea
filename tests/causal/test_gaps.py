"""Missing values and holes in time: a row counts if its target and its whole past were measured."""

import numpy as np
import pytest

import condcs
from condcs._core.errors import DataError, ParameterError
from condcs.causal import ConditionalCS, Embedding, causal_graph, causal_score, causal_test, select_embeddings
from condcs.causal._conditions import Conditions
from condcs.causal._series import CausalProblem, Link, check_series_table, grid_indices
from condcs.datasets import make_henon_chain, make_nlvar3

CS = ConditionalCS(bandwidth=0.7)


@pytest.fixture
def series():
    return make_nlvar3(160, rng=4).series.copy()


def test_rows_around_a_gap_are_left_out(series):
    """Order 2, lag 2: y_t needs y_{t-1}, y_{t-3}, x_{t-2}, x_{t-4}; the rows are found here by a loop."""
    x, y = series[:, 0], series[:, 1]
    x[50], y[80], y[120:124] = np.nan, np.nan, np.nan
    rows = [
        (y[t], y[t - 1], y[t - 3], x[t - 2], x[t - 4])
        for t in range(4, 160)
        if np.isfinite([y[t], y[t - 1], y[t - 3], x[t - 2], x[t - 4]]).all()
    ]
    assert len(rows) == 156 - 2 - 3 - 7  # x is looked at twice, y three times; four in a row: 4 + 1 + 2 targets
    target, own, source = np.split(np.array(rows), [1, 3], axis=1)
    expected = condcs.conditional_cs_predictors(target, own, source, **dict.fromkeys(WIDTHS, 0.7))
    got = causal_score(x, y, embedding=Embedding(2, 2), measure=CS, missing="drop")
    assert got == pytest.approx(expected, rel=1e-10)
    graph = causal_graph({"x": x, "y": y}, embedding=Embedding(2, 2), missing="drop", n_resamples=5, rng=0)
    assert graph.complete[0, 1] == len(rows)
    assert graph.times == 160


WIDTHS = ("bandwidth_y", "bandwidth_x1", "bandwidth_x2")


def test_without_gaps_every_row_with_a_past_counts(series):
    graph = causal_graph(series, embedding=3, n_resamples=5, rng=0)
    assert set(graph.complete[~np.eye(3, dtype=bool)]) == {157}
    assert graph.missing_words() == ""


@pytest.mark.parametrize("null", ["windows", "circular", "local"])
def test_a_hole_in_the_index_was_ignored(series, null):
    """Rows 60 to 79 are absent: the same as NaN in their place, and not the same as joining what is left."""
    pandas = pytest.importorskip("pandas")
    hours = pandas.date_range("2024-01-01", periods=160, freq="h")
    frame = pandas.DataFrame(series, columns=["a", "b", "c"], index=hours).drop(hours[60:80])
    options = {"embedding": 2, "null": null, "n_resamples": 9, "rng": 0}
    found = causal_graph(frame, **options)
    in_place = series.copy()
    in_place[60:80] = np.nan
    np.testing.assert_array_equal(found.pvalues, causal_graph(in_place, missing="drop", **options).pvalues)
    assert set(found.complete[~np.eye(3, dtype=bool)]) == {160 - 2 - 20 - 2}
    assert "136 of 158 times" in str(found)
    joined = causal_graph(frame.to_numpy(), **options)
    assert joined.missing_words() == ""
    assert found.scores[0, 1] != joined.scores[0, 1]


def test_links_without_the_gap_keep_all_their_rows(series):
    series[70, 2] = np.nan
    graph = causal_graph(series, embedding=1, missing="drop", n_resamples=9, rng=0)
    # As a target the third series lacks two rows, its own and the next; as a source one.
    assert graph.complete.tolist() == [[0, 159, 157], [159, 0, 157], [158, 158, 0]]
    whole = causal_graph(series[:, :2], embedding=1, n_resamples=9, rng=0)
    assert graph.scores[0, 1] == whole.scores[0, 1]
    assert "157 to 159 of 159" in str(graph)


def test_series_of_different_times_are_aligned(series):
    pandas = pytest.importorskip("pandas")
    a, b = (pandas.Series(column) for column in series[:, :2].T)
    graph = causal_graph({"a": a[10:], "b": b[:-15]}, embedding=1, n_resamples=5, rng=0)
    assert graph.times == 160
    assert graph.complete[0, 1] == len(range(11, 145))


def test_the_embedding_of_a_map_is_found_in_spite_of_gaps():
    series = make_henon_chain(700, n_maps=2, rng=3).series.copy()
    series[np.random.default_rng(0).choice(700, 20, replace=False), 0] = np.nan
    assert {(c.lag, c.order) for c in select_embeddings(series, missing="drop").values()} == {(1, 2)}
    assert causal_test(series[:, 0], series[:, 1], missing="drop", n_resamples=39, rng=0).pvalue <= 0.05


def test_ranks_are_those_of_the_measured_values(series):
    series[5, 0] = np.nan
    options = {"embedding": 1, "ranks": True, "missing": "drop", "n_resamples": 5, "rng": 0}
    plain, stretched = causal_graph(series, **options), causal_graph(np.exp(3 * series), **options)
    np.testing.assert_allclose(plain.scores, stretched.scores, rtol=1e-12)


def test_missing_values_were_left_out_without_being_asked(series):
    """NaN need permission; times that an index lacks do not, even if series of different times are put together."""
    pandas = pytest.importorskip("pandas")
    series[7, 1] = np.nan
    frame = pandas.DataFrame(series, columns=["a", "b", "c"])
    words = r"got 1 missing or infinite one\(s\), first in row 7, column 'b'. Fill gaps in, or pass missing='drop'"
    for given in (frame, dict(frame)):
        with pytest.raises(DataError, match=words):
            causal_graph(given, embedding=1, n_resamples=2)
        with pytest.raises(DataError, match=words):
            select_embeddings(given)
    for function in (causal_test, causal_score):
        with pytest.raises(DataError, match=f"{function.__name__}: `y` must have finite values, got 1 missing"):
            function(series[:, 0], series[:, 1], embedding=1)
    dropped = {name: column.dropna() for name, column in frame.items()}
    options = {"embedding": 1, "n_resamples": 5, "rng": 0}
    asked = causal_graph(frame, missing="drop", **options)
    np.testing.assert_array_equal(causal_graph(dropped, **options).pvalues, asked.pvalues)
    with pytest.raises(ParameterError, match="`missing` must be one of 'error', 'drop'"):
        causal_graph(frame, missing="omit")


def test_places_on_the_grid():
    """Months have 28 to 31 days, and are one step each; a jitter below a quarter of a step does not matter."""
    months = np.arange("2021-01", "2023-01", dtype="datetime64[M]").astype("datetime64[D]").astype(float)
    assert grid_indices(months, "x").tolist() == list(range(24))
    assert grid_indices(np.delete(months, [5, 6, 7]), "x").tolist() == [*range(5), *range(8, 24)]
    with pytest.raises(DataError, match="`x` must have equally spaced times, holes apart"):
        grid_indices(np.cumsum(np.random.default_rng(0).exponential(size=100)), "`x`")


def in_pieces(values, pause, pieces=10):
    """Put a series on a grid as pieces of equal length, with a pause of so many steps between them."""
    length = len(values) // pieces
    grid = np.full((len(values) + (pieces - 1) * pause, values.shape[1]), np.nan)
    for piece in range(pieces):
        start = piece * (length + pause)
        grid[start : start + length] = values[piece * length : (piece + 1) * length]
    return grid


def linear_pair(n, seed):
    """X drives y linearly: a link that 1,190 rows show in nine of ten draws at 1% (the standard error is 0.03)."""
    noise = np.random.default_rng(seed).normal(size=(n, 2))
    x = np.zeros((n, 2))
    for t in range(1, n):
        x[t] = [0.6 * x[t - 1, 0] + noise[t, 0], 0.5 * x[t - 1, 1] + 0.15 * x[t - 1, 0] + noise[t, 1]]
    return x


@pytest.mark.parametrize("seed", [0, 3])
def test_a_longer_pause_between_pieces_hid_a_link(seed):
    """A value 2,357 steps back was conditioned on, which 24 of 1,190 rows had; with a pause of 60 the link was seen."""
    values = linear_pair(1200, seed)
    for pause in (60, 1000):
        graph = causal_graph(in_pieces(values, pause), embedding=1, missing="drop", rng=0)
        assert graph.complete[0, 1] == 1190
        assert graph.rows_used[0, 1] >= 1190 / 2
        assert graph.pvalues[0, 1] < 0.01


def test_the_rows_that_a_test_did_not_use_were_counted():
    """A season of 12 steps is unknown at the first 12 times of each of 10 pieces, and so is the past at the first."""
    noise = np.random.default_rng(0).normal(size=(1000, 2))
    values = noise.copy()
    for t in range(1000):
        values[t] += 0.8 * values[t - 12] if t % 100 >= 12 else 0.0
    graph = causal_graph(in_pieces(values, 500), embedding=1, missing="drop", rng=0)
    assert graph.complete.tolist() == [[0, 990], [990, 0]]
    assert graph.rows_used.tolist() == [[0, 880], [880, 0]]
    assert {row["rows_used"] for row in graph.rows()} == {880}
    assert "signs null on 880 rows" in str(graph)
    assert "The tests used 880 of them." in graph.missing_words()
    assert str(graph).splitlines()[1].split()[4] == "880"
    test = causal_test(*in_pieces(values, 500).T, embedding=1, missing="drop", rng=0)
    assert test.details["rows_used"] == 880
    assert test.sizes == (880,)


@pytest.mark.parametrize("season", [40, 180, 222])
def test_a_season_reached_into_the_piece_before(season):
    """Pieces of 120 times, 180 apart, show a season of 40 steps, and not whether one of 180 or 222 is due to them."""
    values = np.random.default_rng(0).normal(size=(1740, 2))
    for t in range(season, 1740):
        values[t] += 0.8 * values[t - season]
    values[np.arange(1740) % 180 >= 120] = np.nan
    pair = tuple(check_series_table("series", values, "drop"))
    found = Conditions(CausalProblem(pair, Embedding(1), (Link(0, 1),)))._season(1)
    if season < 120:
        assert found == (season,)
    else:
        assert max(found, default=0) < 120


def test_a_season_goes_on_across_lost_values_and_weekends():
    """Of seven days two are never measured, and a season of seven is seen all the same."""
    values = np.random.default_rng(0).normal(size=(700, 2))
    for t in range(7, 700):
        values[t] += 0.8 * values[t - 7]
    values[np.arange(700) % 7 >= 5] = np.nan
    pair = tuple(check_series_table("series", values, "drop"))
    assert Conditions(CausalProblem(pair, Embedding(1), (Link(0, 1),)))._season(1) == (7,)


def test_a_helper_that_few_rows_have_is_not_conditioned_on():
    """The first series, which drives the third, is measured at the last 120 of 400 times: its past would cost 70%."""
    x = np.random.default_rng(0).normal(size=(400, 3))
    x[1:, 2] = 2 * x[:-1, 0] + 0.5 * x[1:, 2]
    whole = causal_graph(x, embedding=1, n_resamples=9, null="signs", rng=0)
    x[:280, 0] = np.nan
    graph = causal_graph(x, embedding=1, missing="drop", n_resamples=9, null="signs", rng=0)
    assert graph.complete[1, 2] == graph.rows_used[1, 2] == 399
    assert whole.pvalues[0, 2] < 1e-6
