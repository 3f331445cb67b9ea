"""Tasks and methods of other packages: one object, named as an entry point, adds them everywhere."""

import pytest

from condcs._core.errors import CondcsError, MissingPartnerError
from condcs.explore import Hyperparameters, hyperparameters, make_agent, make_environment
from condcs.explore import _extensions as extensions
from condcs.explore._methods import Method
from condcs.explore._tasks import MountainCar
from condcs.explore._trials import ExploreOptions, explore, rows_of

pytest.importorskip("gymnasium")


class ShortCar(MountainCar):
    name = "short-car"
    number = 7
    settings = Hyperparameters(learning_rate=0.25, discount=0.8)

    def make(self, **options):
        return super().make(**{**options, "time_limit": 9})


class EntryPoint:
    def __init__(self, value):
        self.value = value

    def load(self):
        return self.value


@pytest.fixture
def installed(monkeypatch):
    """Return a function that replaces the installed extensions."""

    def install(*found):
        monkeypatch.setattr(extensions, "entry_points", lambda group: [EntryPoint(extension) for extension in found])
        extensions.extensions.cache_clear()

    yield install
    monkeypatch.undo()
    extensions.extensions.cache_clear()


def test_an_extension_adds_a_task_and_a_method(installed):
    bold = Method("bold", "Bold", "#000000", {"reward": "nothing", "initial_value": 9.0})
    installed(extensions.Extension(tasks=(ShortCar(),), methods=(bold,)))
    assert hyperparameters("short-car", "bold") == Hyperparameters(
        learning_rate=0.25, discount=0.8, reward="nothing", initial_value=9.0
    )
    environment = make_environment("short-car")
    environment.reset(seed=0)
    assert [environment.step(1)[3] for _ in range(9)] == [False] * 8 + [True]
    assert make_agent("bold", environment, rng=0).reward is None
    options = ExploreOptions("short-car", ("bold",), n_runs=1, steps=20, n_jobs=1)
    ((title, *_),) = rows_of(options, explore(options))
    assert title == "Bold"


def test_without_extensions_there_are_the_mountain_car_and_its_agents(installed):
    installed()
    assert hyperparameters("mountain-car", "control").reward == "nothing"
    with pytest.raises(CondcsError, match="`environment` must be one of 'mountain-car', got 'chess'"):
        hyperparameters("chess", "dtg-cs")
    with pytest.raises(CondcsError, match="`method` must be one of 'dtg-cs', 'dtg-local', 'control', got 'dqn'"):
        hyperparameters("mountain-car", "dqn")
    with pytest.raises(MissingPartnerError, match=r"make_environment: `name='maze'` comes with .*condcs-reproduction"):
        make_environment("maze")
    with pytest.raises(MissingPartnerError, match="`method='dtg-kl'` comes with"):
        hyperparameters("mountain-car", "dtg-kl")
