"""How long is the way through the code: files and calls between a public function and its answer.

A reader who follows a call steps from function to function. Counted are calls of named functions and methods of the
library that call further ones in turn. Not counted are what is read in place (private helpers of the caller's own file,
properties, comprehensions, lambdas, compiled loops, the decorator of public functions), and words of the vocabulary: a
function that calls nothing else, such as `check_choice`. Files that hold only such words are listed apart.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

import condcs

ROOT = Path(condcs.__file__).parent


class Hops(NamedTuple):
    """What a call went through."""

    chain: list[str]
    files: list[str]
    helpers: list[str]


def hops(call: Callable[[], object]) -> Hops:
    """Run a call twice, the first time to compile and load, and report the way of the second."""
    call()
    trace = _Trace()
    threading.setprofile(trace.event)
    sys.setprofile(trace.event)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace.found()


class _Call:
    """A counted call: its place in the code, who made it, and what was counted below it."""

    def __init__(self, frame: FrameType, place: str, parent: _Call | None) -> None:
        self.frame, self.place, self.parent = frame, place, parent
        self.children: list[_Call] = []
        if parent is not None:
            parent.children.append(self)


class _Trace:
    def __init__(self) -> None:
        self.stacks = threading.local()
        self.first: list[_Call] = []
        self.main: list[_Call] = []

    def event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "return"):
            return
        # A thread goes on where the main thread waits for it.
        stack = self.main if _is_main() else self._own_stack()
        if event == "return":
            if stack and stack[-1].frame is frame:
                stack.pop()
            return
        parent = stack[-1] if stack else None
        place = _place(frame)
        if place is None or _is_read_in_place(frame):
            return
        made = _Call(frame, place, parent)
        if parent is None:
            self.first.append(made)
        stack.append(made)

    def _own_stack(self) -> list[_Call]:
        if not hasattr(self.stacks, "calls"):
            self.stacks.calls = self.main[-1:]
        return self.stacks.calls  # type: ignore[no-any-return]

    def found(self) -> Hops:
        steps: set[str] = set()
        seen: set[str] = set()

        def longest(call: _Call) -> list[str]:
            file = call.place.partition(":")[0]
            seen.add(file)
            below = [longest(child) for child in call.children]
            if not call.children:
                return []
            steps.add(file)
            return [call.place, *max(below, key=len)]

        chain = max((longest(call) for call in self.first), key=len, default=[])
        return Hops(chain, sorted(steps), sorted(seen - steps))


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _place(frame: FrameType) -> str | None:
    """Return "file:function" of a named function of the library, None for anything else."""
    code: CodeType = frame.f_code
    path = Path(code.co_filename)
    name = code.co_qualname
    if ROOT not in path.parents or "<" in code.co_name or name.startswith("public.<locals>"):
        return None
    if code.co_name.startswith("__") or path.name.startswith("compiled") or path.name.endswith("_loops.py"):
        return None
    owner = frame.f_locals.get("self")
    if owner is not None and isinstance(inspect.getattr_static(type(owner), code.co_name, None), property):
        return None
    return f"{path.relative_to(ROOT).as_posix()}:{name}"


def _is_read_in_place(frame: FrameType) -> bool:
    """Whether this is a private helper of the file that calls it, or a function within a function."""
    name, caller = frame.f_code.co_qualname, frame.f_back
    private = any(part.startswith("_") for part in name.split("."))
    own = caller is not None and caller.f_code.co_filename == frame.f_code.co_filename
    return "<locals>" in name or (private and own)


def calls() -> dict[str, Callable[[], object]]:
    """Return the calls that are looked at, on small samples."""
    rng = np.random.default_rng(0)
    xp, xq = rng.normal(size=(2, 300, 2))
    yp, yq = rng.normal(size=(2, 300, 1))
    reference, current = ({"a": x[:, 0], "b": x[:, 1], "y": y[:, 0]} for x, y in ((xp, yp), (xq, yq)))
    return {
        "conditional_cs": lambda: condcs.conditional_cs(xp, yp, xq, yq),
        "conditional_test": lambda: condcs.conditional_test(xp, yp, xq, yq, n_resamples=19, rng=0, n_jobs=1),
        "compare": lambda: condcs.compare(reference, current, y="y", n_resamples=19, n_jobs=1),
    }


def main() -> None:
    with condcs.config_context(n_threads=1):
        for name, call in calls().items():
            found = hops(call)
            print(f"{name}: {len(found.chain)} calls deep, {len(found.files)} files")
            print("  way:    ", " > ".join(place.partition(":")[2] for place in found.chain))
            print("  files:  ", ", ".join(found.files))
            print("  helpers:", ", ".join(found.helpers))
