"""Pictures of a clustering say what was done, and nothing of what was not."""

import pytest

pytest.importorskip("matplotlib")

from condcs.timeseries._cluster_page import draw_choice
from condcs.timeseries._series_clusters import Setting, Trial


def test_settings_that_were_not_tried_were_drawn_as_nan():
    tried = [
        Trial(Setting(order, 0.4, scaling), 0.9, 1.0, 12)
        for order, scaling in ((2, "global"), (2, "series"), (10, "global"))
    ]
    figure = draw_choice(tried, [tried[0].setting])
    assert [text.get_text() for axis in figure.axes for text in axis.texts] == ["0.90"] * 3
