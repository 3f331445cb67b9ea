"""``condcs watch`` is killed at random moments: its state is always whole, and going on from it loses no alarm."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.house_prices import house_prices

KILLS = 30
OPTIONS = ["--y", "price", "--x", "area,district", "--run-length", "2000", "--after-alarm", "keep", "--json"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, so that 30 of them start in no time")
@pytest.mark.slow
def test_thirty_kills_at_random_moments_leave_a_whole_state_and_lose_no_alarm(tmp_path):
    """SIGTERM, SIGHUP, SIGINT and SIGKILL, with a state written every tenth row, so that many hit it being written.

    An alarm may be told twice, as the same one: if the kill comes after it was told and before the state says so.
    """
    house_prices(240, 1).to_csv(tmp_path / "reference.csv", index=False)
    pd.concat([house_prices(60, 2), house_prices(240, 3, changed=True)]).to_csv(tmp_path / "stream.csv", index=False)
    code = "import sys; from tests.cli.test_watch_killed import kill_and_go_on; kill_and_go_on(sys.argv[1])"
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert len(found["kills"]) == KILLS
    assert len(set(found["kills"])) == 4
    assert found["passes"] >= 2
    assert len(found["expected"]) >= 2


def kill_and_go_on(place):
    """Fork watches of a stream and kill them until there were enough kills; print what was found."""
    from condcs.cli import watch_command as watch

    watch.SAVED_ROWS = 10
    to_bytes = watch.Watcher.to_bytes
    # A slow disk: a good part of the kills comes while the file for the new state is open.
    watch.Watcher.to_bytes = lambda self: (time.sleep(0.01), to_bytes(self))[1]
    # Whoever runs the tests may ignore these, and processes inherit that.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(place)
    header, *rows = (folder / "stream.csv").read_text().splitlines()

    def start(state, seen, stop):
        (folder / "given.csv").write_text("\n".join([header, *rows[seen:stop], ""]))
        words = ["condcs", "watch", str(folder / "reference.csv"), *OPTIONS, "--state", str(state)]
        pid = os.fork()
        if pid == 0:
            _become(words, folder)
        return pid

    def whole_pass(state):
        begun = time.monotonic()
        os.waitpid(start(state, 0, None), 0)
        return time.monotonic() - begun, alarms_told()

    def alarms_told():
        lines = (folder / "told").read_text().split("\n")[:-1]
        (folder / "told").unlink()
        return {json.loads(line)["row"]: line for line in lines}

    # The first one imports and compiles for all that are forked from here on.
    fresh, state = folder / "fresh.npz", folder / "state.npz"
    sys.argv = ["condcs", "watch", str(folder / "reference.csv"), *OPTIONS, "--state", str(fresh)]
    sys.stdin = io.TextIOWrapper(io.BytesIO(f"{header}\n".encode()))
    _ended()
    shutil.copy(fresh, state)
    seconds, expected = whole_pass(state)
    rng, kills, passes, problems = np.random.default_rng(0), [], 0, []
    shutil.copy(fresh, state)
    seen = 0
    while len(kills) < KILLS or seen:
        pid = start(state, seen, None)
        number = 0
        if len(kills) < KILLS:
            number = int(rng.choice([signal.SIGTERM, signal.SIGHUP, signal.SIGINT] + 3 * [signal.SIGKILL]))
            time.sleep(rng.uniform(0, 0.6 * seconds))
            os.kill(pid, number)
        _, status = os.waitpid(pid, 0)
        before, seen = seen, rows_seen(state)
        if seen < before:
            problems.append(f"back from row {before} to {seen}")
        if number and (os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 128 + number):
            kills.append(number)
        elif os.WEXITSTATUS(status) == 1 and seen == len(rows):
            told = alarms_told()
            if told != expected:
                problems.append(f"told {told}")
            passes, seen = passes + 1, 0
            shutil.copy(fresh, state)
        else:
            problems.append(f"status {status} after {seen} rows: {(folder / 'said').read_text()[-500:]}")
            break
    left = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".part"))
    problems += left[1:]  # the last kill may have left one
    print(json.dumps({"problems": problems, "kills": kills, "passes": passes, "expected": expected}))


def rows_seen(state):
    """Rows that a state has seen; an error if it is not whole."""
    from condcs._core.files import unsealed

    with np.load(io.BytesIO(unsealed(state.read_bytes())), allow_pickle=False) as stored:
        return int(json.loads(str(stored["about"]))["rows"])


def _become(words, folder):
    """Run the command in a forked process, with files for its streams, and end with it."""
    for number, name, mode in ((0, "given.csv", "r"), (1, "told", "a"), (2, "said", "w")):
        with (folder / name).open(mode) as file:
            os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
    sys.argv = words
    code = 70
    try:
        code = _ended()
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the command has begun, or after it has ended
        code = 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _ended():
    from condcs.cli import main

    try:
        main()
    except SystemExit as ended:
        return ended.code or 0
    return 0
