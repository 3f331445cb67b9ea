"""Pictures of the page of ``condcs causal``."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from condcs.causal._causal_page import draw_series
from condcs.causal._series import TimeAxis


def labels_below(figure):
    figure.canvas.draw()
    axis = figure.axes[-1]
    return axis.get_xlabel(), [text.get_text() for text in axis.get_xticklabels()]


def test_series_of_a_file_with_dates_were_drawn_over_time_steps():
    days = np.arange(61.0) + (np.datetime64("2024-01-01") - np.datetime64("1970-01-01")).astype(float)
    series = np.random.default_rng(0).normal(size=(61, 2))
    figure = draw_series(("a", "b"), series, TimeAxis("day", days, are_dates=True))
    name, ticks = labels_below(figure)
    assert name == "day"
    assert {"2024-01-01", "2024-02-01"} <= set(ticks)
    drawn = figure.axes[0].lines[0].get_xdata()
    assert str(drawn[0]) == "2024-01-01T00:00:00.000"
    assert str(drawn[-1]) == "2024-03-01T00:00:00.000"


def test_numbers_that_tell_the_time_are_drawn_as_they_are():
    figure = draw_series(("a", "b"), np.ones((30, 2)), TimeAxis("year", 1990.0 + np.arange(30), are_dates=False))
    name, _ = labels_below(figure)
    assert name == "year"
    assert figure.axes[0].lines[0].get_xdata()[[0, -1]].tolist() == [1990, 2019]


def test_without_times_series_are_drawn_over_steps():
    assert labels_below(draw_series(("a", "b"), np.ones((30, 2))))[0] == "time step"
