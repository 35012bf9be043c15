"""Compiled functions kept on disk, so that a process need not compile what an earlier one did.

Compiling the kernel takes more than a second, loading it a fifth of that: for a night of some thousand games that is much of the
whole. Numba's own cache tells whether a file is current by its size and time, which a wheel does not change from version to
version; here the name of the kept file is a digest of the sources, the versions and the processor, and its first bytes are a
digest of the rest. Whatever is wrong with it (absent, cut, foreign, unwritable), the function is compiled as without a cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pickle
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock

#: Where to keep compiled code; empty: nowhere. Without it: the user's cache folder.
CACHE_VARIABLE = "ELOREPLAY_CACHE_DIR"
DIGEST_BYTES = hashlib.sha256().digest_size


def ready(function: Any, compile_it: Callable[[], object]) -> None:
    """Have `function` compiled: from the cache where it is there, else by `compile_it`, and then kept for the next process.

    Args:
        function: a function under `numba.njit`.
        compile_it: calls it with arguments of the types that it will be called with.
    """
    path = _path_of(function)
    loaded = path is not None and _load(function, path)
    known = len(function.overloads)
    compile_it()
    if path is not None and (not loaded or len(function.overloads) > known):
        _keep(function, path)


def cache_folder() -> Path | None:
    """Where compiled code is kept, or None: nowhere (asked so, or the user has no folder for it).

    A folder that others may write to is not used: what is loaded from it is run.
    """
    asked = os.environ.get(CACHE_VARIABLE)
    if asked == "" or not hasattr(os, "geteuid"):
        return None
    try:
        if asked is not None:
            folder = Path(asked)
        else:
            base = os.environ.get("XDG_CACHE_HOME") or ""
            folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "eloreplay"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _is_ours(folder) else None
    except (OSError, RuntimeError):
        return None


def _is_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _path_of(function: Any) -> Path | None:
    folder = cache_folder()
    if folder is None:
        return None
    return folder / f"{function.py_func.__name__}-{key_of(function)[:32]}.bin"


def key_of(function: Any) -> str:
    """Digest of all that compiled code depends on: the sources, the versions, the processor, numba's settings; hexadecimal.

    Of the sources these are the module of the function and the modules of the compiled functions that it calls by name; and the
    constants that it sees, which are frozen into the code wherever they come from.
    """
    python = function.py_func
    modules = {python.__module__: inspect.getfile(python)}
    for called in python.__globals__.values():
        if hasattr(called, "py_func") and hasattr(called, "overloads"):
            modules[called.py_func.__module__] = inspect.getfile(called.py_func)
    digest = hashlib.sha256()
    for name in sorted(modules):
        digest.update(name.encode() + b"\0" + hashlib.sha256(Path(modules[name]).read_bytes()).digest())
    constants = sorted(
        (name, repr(value))
        for name, value in python.__globals__.items()
        if isinstance(value, (int, float, str, np.dtype, np.generic)) and not name.startswith("__")
    )
    features = llvmlite.binding.get_host_cpu_features().flatten()
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))
    facts = (
        python.__qualname__,
        constants,
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        platform.python_implementation(),
        platform.python_version(),
        platform.machine(),
        llvmlite.binding.get_host_cpu_name(),
        features,
        settings,
    )
    digest.update(repr(facts).encode())
    return digest.hexdigest()


def _load(function: Any, path: Path) -> bool:
    """Load what is kept; False when there is nothing that can be used."""
    rebuild: Any = CompileResult._rebuild
    try:
        if not _is_ours(path):
            return False
        content = path.read_bytes()
        if hashlib.sha256(content[DIGEST_BYTES:]).digest() != content[:DIGEST_BYTES]:
            return False
        with global_compiler_lock:
            function.targetctx.refresh()
            function.typingctx.refresh()
            for parts in pickle.loads(content[DIGEST_BYTES:]):
                function.add_overload(rebuild(function.targetctx, *parts))
    except Exception:
        # Another numba may keep its results otherwise; compiling is always right, and a cache may never stop a run.
        return False
    return True


def _keep(function: Any, path: Path) -> None:
    """Write what is compiled, whole or not at all; a folder that is full or read-only costs the next process a second."""
    with contextlib.suppress(Exception):
        content = pickle.dumps([result._reduce() for result in function.overloads.values()])
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
