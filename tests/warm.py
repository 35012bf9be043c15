"""Runs of the command in processes that need not start first: forked from one that has imported everything and compiled the kernel.

A process of its own spends more time on its start than a small night takes; the tests that kill need dozens of them. Run as a script
this file is the process that forks: a JSON line asks, a JSON line answers. It never rates, reads or queries anything itself, so no
thread of a library is at work when it forks.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Seconds after which a run counts as hung.
LONGEST = 120


class Run:
    """A forked run; until `wait` has returned its number cannot become another process's."""

    def __init__(self, warm: Warm, pid: int, said: Path | None) -> None:
        self._warm, self.pid, self._said = warm, pid, said
        self._ended = os.pidfd_open(pid)
        self.code: int | None = None

    def poll(self, seconds: float = 0.0) -> bool:
        """Whether it has ended, after so many seconds at most."""
        poller = select.poll()
        poller.register(self._ended, select.POLLIN)
        return bool(poller.poll(seconds * 1000))

    def send_signal(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self._ended, number)

    def wait(self) -> int:
        """The exit code, negative for a signal."""
        if self.code is None:
            if not self.poll(LONGEST):
                self.send_signal(signal.SIGKILL)
                raise AssertionError(f"a run has not ended after {LONGEST} s")
            self.code = self._warm.ask({"reap": self.pid})["code"]
            os.close(self._ended)
        return self.code

    def kill_after(self, seconds: float) -> int:
        """Let it run so long, then `kill -9`; its exit code."""
        if not self.poll(seconds):
            self.send_signal(signal.SIGKILL)
        return self.wait()

    @property
    def said(self) -> str:
        """What it wrote."""
        return "" if self._said is None else self._said.read_text(encoding="utf-8")


class Warm:
    """The process that forks, started when it is first asked."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, argv: list[str], cut: tuple[str, int, str] | None = None, said: Path | None = None, rights: bool = True) -> Run:
        """Fork a run of the command.

        Args:
            argv: its arguments.
            cut: end it the hard way at the n-th call of `os.<name>`, "before" or "after" it.
            said: file for what it writes.
            rights: False takes root's right to write what a file's mode forbids.
        """
        question = {"argv": argv, "cut": cut, "said": None if said is None else str(said), "rights": rights}
        return Run(self, self.ask(question)["pid"], said)

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


# ---------------------------------------------------------------- in the process that forks, and in the forked ones


def _cut(name: str, count: int, when: str) -> None:
    real, calls = getattr(os, name), 0

    def cut(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **named)
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(os, name, cut)


def _without_roots_rights() -> None:
    """Root loses CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH; anybody else has none to lose."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    for call in (libc.capget, libc.capset):
        if call(header, sets) != 0:
            raise OSError(ctypes.get_errno(), "capabilities")
        sets[0] &= ~0b110  # of the effective ones


def _work(question: dict[str, Any]) -> None:
    """In the forked process: the command, as its console script runs it. Does not return."""
    from eloreplay.cli import entry

    nothing = os.open(os.devnull, os.O_RDWR)
    out = nothing if question["said"] is None else os.open(question["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream, target in enumerate((nothing, out, out)):
        os.dup2(target, stream)
    if question["cut"] is not None:
        _cut(*question["cut"])
    else:
        os.fsync = lambda _descriptor: None  # no test cuts the power, and a kill loses nothing that was written
    if not question["rights"]:
        _without_roots_rights()
    sys.argv = ["eloreplay", *question["argv"]]
    entry()


def _serve() -> None:
    import duckdb  # noqa: F401
    import polars as pl  # noqa: F401
    import pyarrow.parquet as pq  # noqa: F401

    import eloreplay.backfill
    import eloreplay.night_page
    import eloreplay.nightly
    import eloreplay.what_if  # noqa: F401
    from eloreplay.rating import warm_up
    from eloreplay.rules import load_ruleset

    warm_up(load_ruleset("tavla42"))
    for line in sys.stdin:
        question = json.loads(line)
        if "reap" in question:
            _, status = os.waitpid(question["reap"], 0)
            answer = {"code": os.waitstatus_to_exitcode(status)}
        else:
            pid = os.fork()
            if pid == 0:
                try:
                    _work(question)
                finally:
                    os._exit(99)
            answer = {"pid": pid}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
