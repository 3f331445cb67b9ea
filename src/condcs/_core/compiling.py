"""Compilation by numba, with the result kept on disk wherever there is a place for it.

Imported only by modules of compiled loops: numba itself takes half a second to load.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from condcs._core.errors import CondcsError
from condcs._core.progress import report_compilation

if numba.config.DISABLE_JIT:
    # Some steps exist only as machine code (`bits_of_double`), and the loops would take hours in Python.
    raise CondcsError(
        "The environment variable NUMBA_DISABLE_JIT must be unset or 0, got a value that turns compilation off. condcs "
        "needs compiled loops: unset it before Python starts."
    )


def njit(*signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function as ``numba.njit(*signature, cache=True, **options)`` does, wherever condcs is installed.

    numba keeps compiled code in ``NUMBA_CACHE_DIR``, beside the source, or in the user's home, and refuses to compile
    if it may write to none of them. Then a folder of this user among the temporary files takes their place, and where
    even that is not possible the code is compiled anew by every process.
    """

    def compile_function(function: Callable[..., Any]) -> Any:
        try:
            return _reading_what_it_can(numba.njit(*signature, cache=True, **options)(function))
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
        folder = _temporary_folder()
        if folder is None:
            return numba.njit(*signature, **options)(function)
        # Read when a function is decorated: functions of others are not concerned.
        users_folder = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            return _reading_what_it_can(numba.njit(*signature, cache=True, **options)(function))
        finally:
            numba.config.CACHE_DIR = users_folder

    return compile_function


def _reading_what_it_can(function: Any) -> Any:
    """Let a compiled function be compiled anew where its file cannot be read.

    numba unpickles the file before it looks at how old it is: one that an earlier version of condcs left, with a class
    that has another name now, or one that is cut off, would end the call.
    """
    cache = function._cache
    load_overload = cache.load_overload

    def load(signature: Any, target: Any) -> Any:
        compiled = None
        try:
            compiled = load_overload(signature, target)
        except Exception:
            # Unpickling may raise anything. With an empty index the function is compiled, and takes its place there.
            try:
                cache.flush()
            except OSError:
                cache.disable()
        if compiled is None:
            report_compilation()
        return compiled

    cache.load_overload = load
    return function


def inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that only compiled functions call: nothing to call it from Python, and no file of its own.

    Half the time of compiling many small functions goes into what Python would call them by.
    """
    compiled: Callable[[Callable[..., Any]], Any] = numba.njit(
        nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )
    return compiled


def _temporary_folder() -> Path | None:
    """Return a folder that this user alone can write to, or None: what numba finds in its cache, it runs."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        folder = Path(tempfile.gettempdir()) / f"condcs-numba-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        # A name that everybody can guess: somebody else may have made it first, or put a link there.
        if not stat.S_ISDIR(status.st_mode):
            return None
        others_may_enter = status.st_mode & 0o077
        if user != "user" and (status.st_uid != user or others_may_enter):
            return None
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


@intrinsic  # type: ignore[untyped-decorator]
def bits_of_double(context: Any, x: Any) -> Any:
    """Reinterpret a double as an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def double_of_bits(context: Any, x: Any) -> Any:
    """Reinterpret an integer as a double."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate
