"""Signals that end a command which runs for long, and readers that have gone away."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stopped(BaseException):
    """A signal asks the watch to end; like KeyboardInterrupt, not for handlers of errors."""


class Stops:
    """Signals that end the watch: at once while it waits, else as soon as it would wait again."""

    def __init__(self) -> None:
        self.caught = 0  # number of the signal
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stops:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):  # not all of them are everywhere
                number = getattr(signal, name, None)
                # What the caller has told this process to ignore (nohup), it ignores.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal end what is done within a ``with`` block."""
        # In this order: a signal between the two lines is seen by the second.
        self._waiting = True
        if self.caught:
            raise Stopped
        try:
            yield
        finally:
            self._waiting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        if self._waiting:
            self._waiting = False
            raise Stopped


class OutputClosed(Exception):
    """Nobody reads standard output any more."""
