"""What a child process took. Nothing heavy is imported here: on Linux a child's peak memory starts at what its parent held."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Spent:
    """What one process took: elapsed and processor time in seconds, peak memory in bytes, and what it printed."""

    elapsed_s: float
    cpu_s: float
    peak_bytes: int
    output: str


def say(text: str = "") -> None:
    """A line of the result."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def progress(text: str) -> None:
    """A line about how far it is."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def run(*command: str | Path) -> Spent:
    """Run a command to its end and measure it and its own children; a failure ends the benchmark."""
    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen([*map(str, command)], stdout=output)
        # Unlike getrusage(RUSAGE_CHILDREN), whose peak is that of all children so far, this is of this one.
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: ended with {process.returncode}\n{text}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Spent(elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, text)


def script(name: str, *arguments: str | Path | int, python: str | Path = sys.executable) -> Spent:
    """Run a script of this folder in a process of its own."""
    return run(python, Path(__file__).with_name(name), *map(str, arguments))
