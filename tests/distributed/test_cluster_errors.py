"""What can go wrong with a cluster, told in plain words; and what needs none."""

import gc
import pickle
import sys

import joblib
import pytest
from typer.testing import CliRunner

import condcs
from condcs._core.errors import ParameterError
from condcs._core.settings import one_thread
from condcs._parallel import dask_cluster as cluster_module
from condcs._parallel.dask_cluster import ClusterError, dask_cluster
from condcs._parallel.spreading import Shared, Workers, active_workers
from condcs.cli.app import app

from .conftest import start_scheduler, stop


@pytest.mark.parametrize("address", ["", "8786", "localhost:8786", None])
def test_address_has_a_protocol(address):
    with pytest.raises(ParameterError, match=r"`dask` must be the address of a scheduler, got .*tcp://127.0.0.1:8786"):
        dask_cluster(address).__enter__()


COMMANDS = {
    "compare": ["compare", "a.csv", "b.csv", "--y", "y"],
    "cluster": ["cluster", "a.csv", "--k", "2"],
    "causal": ["causal", "a.csv"],
    "explore": ["explore", "maze"],
    "reproduce": ["reproduce", "table3", "--quick"],
}


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://127.0.0.1:8786"])
@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_answers(command, address, monkeypatch):
    """Told before anything is read or computed."""
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.3)
    answer = CliRunner().invoke(app, [*COMMANDS[command], "--dask", address])
    assert answer.exit_code == 2
    words = " ".join(answer.stderr.split())
    assert f"`--dask` must be the address of a running scheduler, got '{address}'" in words
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
def test_no_workers(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 1)
    scheduler, address = start_scheduler()
    try:
        with pytest.raises(ClusterError, match=r"must have workers, got none in 1 s.*dask worker tcp://"):
            dask_cluster(address).__enter__()
    finally:
        stop(scheduler)


@pytest.mark.slow
def test_other_version_of_condcs(cluster, monkeypatch):
    monkeypatch.setattr(condcs, "__version__", "9.9")
    with pytest.raises(ClusterError, match=r"workers must have condcs 9\.9 installed, got 0"):
        dask_cluster(cluster).__enter__()


def test_dask_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ParameterError, match=r"pip install 'condcs\[dask\]'"):
        dask_cluster("tcp://127.0.0.1:8786").__enter__()


def test_work_stays_here_unless_asked_for():
    assert active_workers() is None
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert active_workers() is None
    with joblib.parallel_config(backend="loky", n_jobs=1):
        assert active_workers() is None
    with joblib.parallel_config(backend="loky", n_jobs=3):
        assert active_workers() == Workers(3)
        assert active_workers(2) == Workers(2)
        with one_thread():
            assert active_workers() is None


def test_what_was_made_is_not_sent():
    """A Gram matrix is made again where it is needed; only what it is made of travels."""
    shared = Shared(bytearray)
    assert shared.ready is shared.ready
    arrived = pickle.loads(pickle.dumps(shared))
    assert arrived.key == shared.key
    assert arrived._instance == []
    assert arrived.ready == bytearray()


def test_garbage_collected_while_a_client_starts_waited_for_ever(monkeypatch):
    """A client that was given up closes itself when it is collected, and needs the lock that the start holds."""
    distributed = pytest.importorskip("distributed")
    seen = []

    def start(*args, **options):
        seen.append(gc.isenabled())
        raise OSError("nobody is there")

    monkeypatch.setattr(distributed, "Client", start)
    with pytest.raises(cluster_module.ClusterError, match="nobody is there"), cluster_module.dask_cluster("tcp://a:1"):
        pass
    assert seen == [False]
    assert gc.isenabled()
