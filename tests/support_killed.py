"""Helpers of the tests that kill runs: a folder with an old run, the command of the new one, and what must hold after a kill."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from warm import Run, Warm

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
        warm: forks the runs.
        seconds: from the start of Python, in a process of its own, to the end.
        working: from the first sign of work in the folder to the end, in a forked process.
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
    warm: Warm

    def command(self, out: Path, *options: str) -> list[str]:
        """The run in a process of its own."""
        return self.build(out, *options)

    def start(self, out: Path, *options: str, said: Path | None = None, rights: bool = True) -> Run:
        """The run in a forked process, which does not have to start first."""
        return self.warm.start(self.command(out, *options)[3:], said=said, rights=rights)

    def fresh(self, where: Path) -> Path:
        """A copy of the folder as it was before the run to be killed."""
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(self.old_out, where, symlinks=True)
        return where


def wait_for(run: Run, *places: Path) -> bool:
    """Wait until one of these appears; whether it did before the run ended."""
    while not any(place.exists() for place in places):
        if run.poll():
            return False
        time.sleep(0.0002)
    return True


def make_stage(base: Path, first: list[str], old_out: Path, build: Callable[..., list[str]], warm: Warm) -> Stage:
    """Run `first`, which publishes in `old_out`, and the new run twice undisturbed beside it: in a process of its own, and forked."""
    assert warm.start(first[3:]).wait() == 0
    new_out = base / "new"
    shutil.copytree(old_out, new_out, symlinks=True)
    started = time.monotonic()
    done = subprocess.run(build(new_out), capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    top = (new_out / "current").resolve()
    old, new = digests((old_out / "current").resolve()), digests(top)
    assert old != new
    written = sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())
    again = base / "again"
    shutil.copytree(old_out, again, symlinks=True)
    forked = warm.start(build(again)[3:])
    wait_for(forked, again / "work")
    began = time.monotonic()
    assert forked.wait() == 0
    working = time.monotonic() - began
    assert digests((again / "current").resolve()) == new, "a forked run is a run"
    return Stage(base, old_out, old, new, seconds, working, written, build, warm)


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


def kill_cold(stage: Stage, out: Path, seconds: float) -> int:
    """Start a run in a process of its own and kill it so long after its start."""
    process = subprocess.Popen(stage.command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        return process.wait()


def killed_at_random(stage: Stage, where: Path, number: int, seed: int) -> tuple[dict[str, int], int]:
    """Kill `number` runs at random instants; how many readers saw the old and the new run, and how many runs were killed.

    Every eighth is a process of its own, which is also killed while it starts. A run that ends first is no kill, and tells how long
    one takes at present: on a machine with other work that changes from minute to minute.
    """
    rng = random.Random(seed)
    seen = {"old": 0, "new": 0}
    killed = 0
    seconds, working = stage.seconds, stage.working
    for at in range(3 * number):
        out = stage.fresh(where / "out")
        share = rng.uniform(0.0, 1.05)
        if at % 8 == 7:
            began = time.monotonic()
            code = kill_cold(stage, out, share * seconds)
            seconds = seconds if code else time.monotonic() - began
        else:
            run = stage.start(out)
            wait_for(run, out / "work")
            began = time.monotonic()
            code = run.kill_after(share * working)
            working = working if code else time.monotonic() - began
        assert code in (0, -signal.SIGKILL)
        killed += code == -signal.SIGKILL
        seen[assert_whole(stage, out)] += 1
        assert_next_run_is_undisturbed(stage, out)
        if killed == number:
            break
    return seen, killed


def kill_when_it_appears(stage: Stage, out: Path, name: str) -> int:
    """Start a run and kill it as soon as the file `name` appears in its work folder (or where it is moved to)."""
    run = stage.start(out)
    if wait_for(run, out / "work" / "run" / name, out / "runs" / "000002" / name):
        run.send_signal(signal.SIGKILL)
    return run.wait()


def killed_after_files(stage: Stage, where: Path, names: list[str]) -> int:
    """Kill a run after each of these files; how many were killed before they ended."""
    killed = 0
    for name in names:
        out = stage.fresh(where / "out")
        killed += kill_when_it_appears(stage, out, name) == -signal.SIGKILL
        assert_whole(stage, out)
        assert_next_run_is_undisturbed(stage, out)
    return killed


def cut_at(stage: Stage, out: Path, call: str, count: int, when: str) -> None:
    """Run until the `count`-th call of `os.<call>`, and be killed before or after it."""
    run = stage.warm.start(stage.command(out)[3:], cut=(call, count, when))
    assert run.wait() == -signal.SIGKILL
