"""Helpers of the tests that kill runs: a folder with an old run, the command of the new one, and what must hold after a kill."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

DATA = Path(__file__).resolve().parents[1] / "data"


def digests(run: Path) -> dict[str, str]:
    """Every Parquet file of a run, read whole, and its digest. `rejected` depends on where the input stands, which is the same here."""
    found = {}
    for path in sorted(run.rglob("*.parquet")):
        pq.read_table(path)
        found[str(path.relative_to(run))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@dataclass(frozen=True)
class Stage:
    """A folder with the old run published, what the old and the new run hold, and how long the new one takes.

    Attributes:
        build: the new run's command for an output folder and further options.
        seconds: from the start of Python to the end.
        working: from the first sign of work in the folder to the end.
        written: the files of the new run.
    """

    base: Path
    old_out: Path
    old: dict[str, str]
    new: dict[str, str]
    seconds: float
    working: float
    written: list[str]
    build: Callable[..., list[str]]

    def command(self, out: Path, *options: str) -> list[str]:
        return self.build(out, *options)

    def fresh(self, where: Path) -> Path:
        """A copy of the folder as it was before the run to be killed."""
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(self.old_out, where, symlinks=True)
        return where


def run(command: list[str]) -> None:
    """A run that goes through."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_stage(base: Path, first: list[str], old_out: Path, build: Callable[..., list[str]]) -> Stage:
    """Run `first`, which publishes in `old_out`, and the new run once undisturbed beside it."""
    new_out = base / "new"
    run(first)
    shutil.copytree(old_out, new_out, symlinks=True)
    process, started = subprocess.Popen(build(new_out)), time.monotonic()
    while process.poll() is None and not (new_out / "work").exists():
        time.sleep(0.001)
    began = time.monotonic()
    assert process.wait() == 0
    ended = time.monotonic()
    old, new = digests((old_out / "current").resolve()), digests((new_out / "current").resolve())
    assert old != new
    top = (new_out / "current").resolve()
    written = sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())
    return Stage(base, old_out, old, new, ended - started, ended - began, written, build)


def assert_whole(stage: Stage, out: Path) -> str:
    """What a reader finds behind `current` is the old run or the new one, whole; which of them."""
    current = out / "current"
    assert current.is_symlink()
    found = digests(current.resolve())
    assert found in (stage.old, stage.new), "neither the old run nor the new one"
    assert (current / "manifest.json").stat().st_size > 0
    assert (current / "ratings.duckdb").stat().st_size > 0
    return "old" if found == stage.old else "new"


def assert_next_run_is_undisturbed(stage: Stage, out: Path) -> None:
    """The same command again, in this process, ends as if nothing had happened, and nothing is left lying about."""
    from eloreplay.cli import main

    assert main(stage.command(out)[3:]) == 0
    found, wanted = digests((out / "current").resolve()), dict(stage.new)
    # Compared with the run before, which may be the killed one if that came as far as the switch.
    for one in (found, wanted):
        del one["changes.parquet"]
    assert found == wanted
    assert not (out / "work").exists()
    names = sorted(path.name for path in (out / "runs").iterdir())
    last = os.readlink(out / "current").removeprefix("runs/")
    assert names[-1] == last
    assert len(names) == int(last), f"unnamed runs stay: {names}, current {last}"
    assert sorted(path.name for path in out.iterdir()) == ["boards", "current", "eloreplay.json", "journal.jsonl", "lock", "runs"]
    # The board of every published run is kept, and no half of one.
    boards = sorted(path.name for path in (out / "boards").iterdir())
    assert boards == [f"{name}.parquet" for name in names], boards
    assert (out / "lock").read_bytes() == b""


def kill_after(stage: Stage, out: Path, seconds: float, at_work: bool) -> int:
    """Start a run and kill it so long after its start, or after it has begun to work."""
    process = subprocess.Popen(stage.command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while at_work and process.poll() is None and not (out / "work").exists():
        time.sleep(0.0005)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        return process.wait()


def killed_at_random(stage: Stage, where: Path, number: int, seed: int) -> tuple[dict[str, int], int]:
    """Kill `number` runs at random instants; how many readers saw the old and the new run, and how many runs were killed."""
    rng = random.Random(seed)
    seen = {"old": 0, "new": 0}
    killed = 0
    for _ in range(number):
        out = stage.fresh(where / "out")
        at_work = rng.random() < 0.85  # the rest of the time it starts Python
        code = kill_after(stage, out, rng.uniform(0.0, 1.05 * (stage.working if at_work else stage.seconds)), at_work)
        killed += code == -signal.SIGKILL
        seen[assert_whole(stage, out)] += 1
        assert_next_run_is_undisturbed(stage, out)
    return seen, killed


def kill_when_it_appears(stage: Stage, out: Path, name: str) -> int:
    """Start a run and kill it as soon as the file `name` appears in its work folder (or where it is moved to)."""
    places = [out / "work" / "run" / name, out / "runs" / "000002" / name]
    process = subprocess.Popen(stage.command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        if any(place.exists() for place in places):
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.0005)
    return process.wait()


def killed_after_files(stage: Stage, where: Path, names: list[str]) -> int:
    """Kill a run after each of these files; how many were killed before they ended."""
    killed = 0
    for name in names:
        out = stage.fresh(where / "out")
        killed += kill_when_it_appears(stage, out, name) == -signal.SIGKILL
        assert_whole(stage, out)
        assert_next_run_is_undisturbed(stage, out)
    return killed


#: Where the switch can be cut: the run ends itself the hard way at the n-th call of one of its steps.
CUT = """
import os, signal, sys
from eloreplay.cli import main
name, count = sys.argv[1], int(sys.argv[2])
real, calls = getattr(os, name), 0
def cut(*arguments, **named):
    global calls
    calls += 1
    if calls == count and sys.argv[3] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = real(*arguments, **named)
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(os, name, cut)
sys.exit(main(sys.argv[4:]))
"""


def cut_at(stage: Stage, out: Path, call: str, count: int, when: str) -> None:
    """Run until the `count`-th call of `os.<call>`, and be killed before or after it."""
    arguments = stage.command(out)[3:]
    done = subprocess.run([sys.executable, "-c", CUT, call, str(count), when, *arguments], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
