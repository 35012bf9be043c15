"""Who does what can be done side by side: threads of this process, or the workers of a Dask cluster.

Both are a `concurrent.futures.Executor`, so nothing that hands out tasks knows which it is. What a worker of a cluster needs it
reads from a folder that all machines share (`SharedFolder`), and what it makes it leaves there: a task is a function of this
package with paths and numbers for arguments, so it may be run twice, by two workers or after one was killed, and the files are the
same.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import logging
import os
import pickle
import platform
import socket
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from eloreplay import __version__
from eloreplay.errors import EloreplayError, EnvironmentFault, UsageFault

Result = TypeVar("Result")

#: Seconds to wait for an answer of the scheduler, and for the first worker.
CONNECT_S, WORKERS_S = 10, 30
#: Tasks that are handed out before the result of the first is taken, for each one that can be worked on: the next is waiting when
#: one ends, and what lies finished on the disk stays bounded.
AHEAD = 2
#: Loggers of Dask that show tracebacks when a scheduler ends or does not answer.
_LOGGERS = ("distributed.client", "distributed.utils", "distributed.core", "distributed.comm")


@dataclass(frozen=True)
class Workers:
    """Who works, as asked for on the command line; no result depends on it.

    Attributes:
        kind: "threads" or "dask".
        scheduler: address of the Dask scheduler, such as tcp://10.0.0.5:8786.
    """

    kind: str = "threads"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.kind == "dask" and not self.scheduler:
            raise UsageFault(
                "--executor dask needs --scheduler, the address of a Dask scheduler such as tcp://10.0.0.5:8786 (start one with "
                "`dask scheduler`, and on every machine `dask worker ADDRESS`)"
            )
        if self.kind == "dask" and importlib.util.find_spec("distributed") is None:
            raise UsageFault("--executor dask needs Dask: pip install 'eloreplay[dask]'")
        if self.kind != "dask" and self.scheduler:
            raise UsageFault(f"--scheduler {self.scheduler} is for --executor dask; give both or neither")


THREADS = Workers()


@dataclass(frozen=True)
class Team:
    """An executor at work.

    Attributes:
        executor: where tasks are handed in.
        size: tasks that it works on at once.
        shares_memory: whether tasks see the memory of this process; if not, they need a `SharedFolder`.
        name: how to call it in messages.
    """

    executor: Executor
    size: int
    shares_memory: bool
    name: str

    @property
    def ahead(self) -> int:
        """Tasks to hand in before the first result is waited for."""
        return AHEAD * self.size

    def submit(self, task: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Hand in a task."""
        return self.executor.submit(task, *arguments)

    def result(self, future: Future[Result]) -> Result:
        """The result of a task.

        Raises:
            EloreplayError: what the task raised; `EnvironmentFault` when it never came to an end.
        """
        try:
            return future.result()
        except EloreplayError:
            raise
        except (Exception, CancelledError) as error:
            if self.shares_memory:
                raise
            raise EnvironmentFault(f"{self.name}: {_in_words(error)}; nothing was published") from None


def _in_words(error: BaseException) -> str:
    """What a task came to that no task of ours raises by itself."""
    if isinstance(error, CancelledError):
        return "a task was cancelled, as happens when the scheduler ends or cannot be reached any more"
    text = (str(error).strip().splitlines() or [""])[0]
    if type(error).__name__ == "KilledWorker":
        return f"the workers that took a task died one after the other, as for want of memory ({text})"
    if isinstance(error, ModuleNotFoundError):
        return f"a worker has no {error.name}: install eloreplay there as it is installed here ({text})"
    return f"a task failed with {type(error).__name__}: {text}"


def cancel(futures: Iterator[Future[Any]] | list[Future[Any]]) -> None:
    """Take back tasks that nobody waits for any more."""
    for future in futures:
        future.cancel()


@contextlib.contextmanager
def team(workers: Workers, threads: int) -> Iterator[Team]:
    """The executor that was asked for, for the length of the block.

    Args:
        workers: what was asked for.
        threads: of this process, if threads work.

    Raises:
        EnvironmentFault: the scheduler does not answer, or has no workers.
    """
    if workers.kind == "threads":
        with ThreadPoolExecutor(threads) as pool:
            yield Team(pool, threads, True, "threads")
        return
    with contextlib.ExitStack() as stack:
        client, size = _client(str(workers.scheduler), stack)
        executor = client.get_executor(pure=False)
        # Not a `with`: leaving one would wait for tasks that nobody wants any more after an error.
        stack.callback(executor.shutdown, wait=False)
        yield Team(executor, size, False, f"the cluster at {workers.scheduler}")


def _client(address: str, stack: contextlib.ExitStack) -> tuple[Any, int]:
    """A client of the scheduler, and how many tasks its workers do at once."""
    distributed = importlib.import_module("distributed")
    # What goes wrong is said by the error that comes of it.
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
    try:
        client = stack.enter_context(distributed.Client(address, timeout=CONNECT_S, set_as_default=False, name="eloreplay"))
    except (OSError, ValueError, TypeError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise EnvironmentFault(
            f"--scheduler {address}: no Dask scheduler answers there ({text}); start one with `dask scheduler`, or mend the address"
        ) from None
    try:
        client.wait_for_workers(1, timeout=WORKERS_S)
    except TimeoutError:
        raise EnvironmentFault(
            f"--scheduler {address}: the scheduler has no workers; start some with `dask worker {address}`"
        ) from None
    return client, max(1, sum(client.nthreads().values()))


@dataclass(frozen=True)
class SharedFolder:
    """A folder that the workers see as we do, and a word by which they know that it is the same one.

    Attributes:
        path: absolute.
        word: what is written in it.
    """

    path: Path
    word: str

    @classmethod
    def make(cls, path: Path) -> SharedFolder:
        """Make the folder."""
        path = path.absolute()
        path.mkdir(parents=True)
        found = cls(path, uuid.uuid4().hex)
        (path / _SIGN).write_text(json.dumps({"word": found.word, "versions": versions()}), encoding="utf-8")
        return found

    def insist(self) -> None:
        """On a worker: make sure that this is the folder that is meant, and that what works here is what works there.

        Raises:
            EnvironmentFault: it is not there, another one stands in its place, or versions differ.
        """
        where = f"the worker on {socket.gethostname()} (process {os.getpid()})"
        try:
            sign = json.loads((self.path / _SIGN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            sign = {}
        if sign.get("word") != self.word:
            raise EnvironmentFault(
                f"{where} does not see the folder {self.path}: with --executor dask, --out must lie on storage that every worker "
                "shares, under the same path"
            )
        here = versions()
        if sign["versions"] != here:
            differing = [f"{name} {here[name]} and not {there}" for name, there in sign["versions"].items() if here[name] != there]
            raise EnvironmentFault(
                f"{where} has {', '.join(differing)}: equal tables need equal versions, install there what is installed here"
            )
        if not os.access(self.path, os.W_OK):
            raise EnvironmentFault(f"{where} may not write into the folder {self.path}: run the workers as the same user")

    @contextlib.contextmanager
    def writing(self, target: Path) -> Iterator[Path]:
        """A name to write to, which becomes `target` when the block ends well: whole or not at all, however often it is done."""
        part = self.path / f".part-{uuid.uuid4().hex}"
        try:
            yield part
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise

    def keep(self, name: str, content: Any) -> None:
        """Write objects of ours for the workers; nobody but them and us may write here, as it is with the tasks themselves."""
        with self.writing(self.path / name) as part:
            part.write_bytes(pickle.dumps(content))

    def kept(self, name: str) -> Any:
        """What `keep` wrote."""
        return pickle.loads((self.path / name).read_bytes())


@dataclass(frozen=True)
class Cluster:
    """Workers that do not see our memory, and what they need to work for us.

    Attributes:
        team: who works.
        shared: what they see.
        memory_limit: of DuckDB in each task, as it writes it ("1GB").
    """

    team: Team
    shared: SharedFolder
    memory_limit: str


@contextlib.contextmanager
def cluster(workers: Workers, folder: Path, memory_limit: str) -> Iterator[Cluster | None]:
    """The cluster that was asked for, for the length of the block, or None: threads of this process do it.

    Args:
        workers: what was asked for.
        folder: where to share files; made, and left to whoever owns the folder around it.
        memory_limit: of DuckDB in each task.

    Raises:
        EnvironmentFault: as `team`.
    """
    if workers.kind == "threads":
        yield None
        return
    with team(workers, 1) as members:
        yield Cluster(members, SharedFolder.make(folder), memory_limit)


_SIGN = "shared.json"


def versions() -> dict[str, str]:
    """What could make a difference between two machines."""
    names = ("duckdb", "numba", "numpy", "pyarrow")
    return {
        "eloreplay": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in names},
    }
