"""Threads and tiles: set within a block, put back whatever happens, and read from the environment."""

import contextvars
import os
import threading

import numpy as np
import pytest

import condcs
from condcs._core.errors import ParameterError
from condcs._core.settings import current_settings


def test_settings_hold_within_the_block_only():
    """Inner blocks change what they name and keep the rest."""
    before = current_settings()
    with condcs.config_context(n_threads=3) as outer:
        assert (outer.n_threads, outer.tile) == (3, before.tile)
        assert current_settings() is outer
        with condcs.config_context(tile=17):
            assert (current_settings().n_threads, current_settings().tile) == (3, 17)
        assert current_settings() is outer
    assert current_settings() == before


def test_settings_are_restored_after_an_exception():
    """An error inside the block leaves nothing behind."""
    before = current_settings()
    with pytest.raises(KeyError), condcs.config_context(n_threads=5, tile=7):
        raise KeyError("inside")
    assert current_settings() == before


def test_a_refused_setting_changes_nothing():
    """The check comes before the change."""
    before = current_settings()
    with (
        pytest.raises(ParameterError, match="config_context: `tile` must be"),
        condcs.config_context(n_threads=9, tile=-1),
    ):
        pass
    assert current_settings() == before


def test_numpy_integers_are_integers():
    """A setting computed by numpy is as good as a literal."""
    with condcs.config_context(n_threads=np.int64(2), tile=np.uint8(64)) as settings:
        assert (settings.n_threads, settings.tile) == (2, 64)
        assert type(settings.n_threads) is type(settings.tile) is int


def test_settings_of_a_thread_are_its_own():
    """One thread's block does not leak into another."""
    seen = []
    with condcs.config_context(tile=11):
        thread = threading.Thread(target=lambda: seen.append(current_settings().tile))
        thread.start()
        thread.join()
        assert current_settings().tile == 11
    assert seen == [256]


def test_the_settings_reach_the_computation():
    """A kernel sees blocks of at most `tile` rows."""
    sizes = set()

    def kernel(a, b):
        sizes.update((len(a), len(b)))
        return np.exp(-abs(a - b.T))

    y = np.linspace(0, 1, 40)
    with condcs.config_context(n_threads=1, tile=16):
        condcs.cs(y, y + 1, kernel=kernel)
    assert max(sizes) == 16


def fresh_settings(monkeypatch, value):
    """Settings as a new process finds them; they are read once per context."""
    if value is None:
        monkeypatch.delenv("CONDCS_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("CONDCS_NUM_THREADS", value)
    return contextvars.Context().run(current_settings)


def test_threads_from_the_environment(monkeypatch):
    """CONDCS_NUM_THREADS wins over the number of cores."""
    assert fresh_settings(monkeypatch, "3").n_threads == 3
    assert fresh_settings(monkeypatch, " 12 ").n_threads == 12


@pytest.mark.parametrize("value", [None, "", "  "])
def test_all_cores_by_default(monkeypatch, value):
    """Unset or empty means every core this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert fresh_settings(monkeypatch, value).n_threads == cores


@pytest.mark.parametrize("value", ["0", "-2", "two", "1.5", "²"])
def test_a_bad_environment_variable_is_refused(monkeypatch, value):
    """A setting that is silently ignored is worse than an error."""
    with pytest.raises(ParameterError, match=r"`CONDCS_NUM_THREADS` must be a positive integer, got .* unset it"):
        fresh_settings(monkeypatch, value)


def test_a_block_overrides_the_environment(monkeypatch):
    """The nearest setting counts."""
    monkeypatch.setenv("CONDCS_NUM_THREADS", "3")

    def inside():
        with condcs.config_context(n_threads=1) as settings:
            return settings.n_threads

    assert contextvars.Context().run(inside) == 1
