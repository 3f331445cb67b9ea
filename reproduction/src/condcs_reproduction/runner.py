"""Running trials: spread over processes or a cluster, stored as they end, resumed where they stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condcs._core.checks import check_integer
from condcs._core.errors import ParameterError
from condcs._core.files import WriteError
from condcs._core.settings import cores, one_thread
from condcs._core.vocabulary import named
from condcs._parallel.dask_cluster import ClusterError
from condcs._parallel.spreading import Workers, active_workers, spread
from condcs_reproduction.spec import Experiment, Parameters, Result, Results, Task
from condcs_reproduction.store import TrialStore

Progress = Callable[[int, int, str], None]
"""``progress(done, total, case)``: called once at the start and after every trial."""

TRIALS_FILE = "trials.jsonl"


class Interrupted(Exception):
    """The run was interrupted; what is done is stored, and the same command continues it."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__(f"Interrupted after {done} of {total} trials. They are stored: the same command continues.")


def run(
    experiment: Experiment,
    out: Path,
    *,
    jobs: int | None = None,
    fresh: bool = False,
    only: Sequence[str] = (),
    progress: Progress | None = None,
    stored: Callable[[WriteError | None], None] | None = None,
) -> tuple[Results, dict[str, float]]:
    """Run what is missing of an experiment and return all of its trials.

    Every trial draws from a stream of its own and computes on one thread, so the results depend neither on `jobs`
    nor on the order in which trials end, nor on how often the run was stopped. With ``joblib.parallel_config`` set to
    "dask", trials run on the workers of that cluster, and those of a lost worker are run again by another.

    Parameters
    ----------
    experiment : Experiment
        The version to run: see `Experiment.version`.
    out : Path
        Folder of all results; trials go to ``<out>/<name>/trials.jsonl``.
    jobs : int, optional
        Processes of this machine; by default one per core that this process may use.
    fresh : bool
        Forget stored trials.
    only : sequence of str
        Words: only cases that contain one of them are run. Empty: all.
    progress : callable, optional
        Told after each trial.
    stored : callable, optional
        Told after each trial whether all so far are stored: None, or the error that keeps the last ones in memory, such
        as a full disk. Without it, that error ends the run.

    Returns
    -------
    results : mapping
        Results by case and repeat: all that are stored, whatever `only` says.
    seconds : dict
        Computing time of each case, summed over its repeats.

    Raises
    ------
    Interrupted
        On Ctrl-C.
    ClusterError
        If the cluster is lost. What is done is stored.
    StoreError
        If the folder holds trials of another specification.
    """
    jobs = check_integer("jobs", jobs if jobs is not None else cores(), 1)
    planned = list(experiment.tasks(experiment.parameters, experiment.repeats))
    tasks = _chosen(planned, only)
    tell = progress or (lambda done, total, case: None)
    with TrialStore(out / experiment.store_name / TRIALS_FILE, experiment, fresh=fresh) as store:
        waiting = [task for task in tasks if task not in store]
        done = len(tasks) - len(waiting)
        tell(done, len(tasks), "")
        finished = _finished(experiment, waiting, jobs)
        try:
            for index, (result, seconds) in finished:
                error = _store(store, waiting[index], result, seconds)
                if stored is not None:
                    stored(error)
                elif error is not None:
                    raise error
                done += 1
                tell(done, len(tasks), waiting[index].case)
        except KeyboardInterrupt:
            raise Interrupted(done - store.unstored, len(tasks)) from None
        except ClusterError as error:
            count = f"{done - store.unstored} of {len(tasks)} trials are stored: the same command continues."
            raise ClusterError(f"{error} {count}") from None
        finally:
            finished.close()
        return _arranged(planned, store)


def _store(store: TrialStore, task: Task, result: Result, seconds: float) -> WriteError | None:
    """Store a trial, or return the error that keeps it in memory."""
    try:
        store.append(task, result, seconds)
    except WriteError as error:
        return error
    return None


def _finished(
    experiment: Experiment, waiting: list[Task], jobs: int
) -> Generator[tuple[int, tuple[Result, float]], None, None]:
    """Yield (index, (result, seconds)) of each waiting task as it ends."""
    calls = (
        (experiment.trial, dict(experiment.parameters), dict(task.arguments), experiment.generator(task))
        for task in waiting
    )
    workers = active_workers()
    if workers is None or workers.client is None:
        workers = Workers(min(jobs, len(waiting)))
    if len(waiting) > 0 and (workers.client is not None or workers.count > 1):
        yield from spread(_run_trial, calls, workers)
        return
    for index, call in enumerate(calls):
        yield index, _run_trial(*call)


def _run_trial(
    trial: Callable[[Parameters, Mapping[str, Any], np.random.Generator], Result],
    parameters: Parameters,
    arguments: Mapping[str, Any],
    rng: np.random.Generator,
) -> tuple[Result, float]:
    start = time.perf_counter()
    # With one process too: the numbers are those of any number of processes.
    with one_thread():
        result = trial(parameters, arguments, rng)
    return result, time.perf_counter() - start


def _chosen(tasks: list[Task], only: Sequence[str]) -> list[Task]:
    if not only:
        return tasks
    chosen = [task for task in tasks if any(word in task.case for word in only)]
    if not chosen:
        cases = ", ".join(dict.fromkeys(task.case for task in tasks))
        raise ParameterError(f"{named('only')} must be part of a case, got {', '.join(only)}. The cases are: {cases}.")
    return chosen


def _arranged(tasks: list[Task], store: TrialStore) -> tuple[Results, dict[str, float]]:
    # In the order of the tasks, not of the file: the file's order depends on which trial ended first.
    results: dict[str, dict[int, Result]] = {}
    seconds: dict[str, float] = {}
    for task in (t for t in tasks if t in store):
        results.setdefault(task.case, {})[task.repeat] = store.results[task.key]
        seconds[task.case] = seconds.get(task.case, 0.0) + store.seconds[task.key]
    return results, seconds
