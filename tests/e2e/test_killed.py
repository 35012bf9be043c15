"""`kill -9` at any instant: readers see the old or the new run whole, and the next run ends as if nothing had happened."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from eloreplay.cli import main

DATA = Path(__file__).resolve().parents[2] / "data"
SEED = 20260301
#: Files of the sample (the old history is all but the last), and rows of each: few, for what is looked for lies in time.
MONTHS, ROWS = 3, 12_000


def digests(run: Path) -> dict[str, str]:
    """Every Parquet file of a run, read whole, and its digest. `rejected` depends on where the input stands, which is the same here."""
    found = {}
    for path in sorted(run.rglob("*.parquet")):
        pq.read_table(path)
        found[str(path.relative_to(run))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@dataclass(frozen=True)
class Stage:
    """A folder with the old run published, what the old and the new run hold, and how long the new one takes."""

    base: Path
    old_out: Path
    old: dict[str, str]
    new: dict[str, str]
    seconds: float
    working: float
    written: list[str]

    def command(self, out: Path, *options: str, months: int = MONTHS) -> list[str]:
        return _command(self.base, out, *options, months=months)

    def fresh(self, where: Path) -> Path:
        """A copy of the folder as it was before the run to be killed."""
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(self.old_out, where, symlinks=True)
        return where


def _command(base: Path, out: Path, *options: str, months: int = MONTHS) -> list[str]:
    games = [str(base / f"{month}.parquet") for month in range(months)]
    return [
        *(sys.executable, "-m", "eloreplay", "backfill", *games, "--columns", str(DATA / "columns.toml"), "--rules", "tavla42"),
        *("--out", str(out), "--as-of", "2026-10-01", "--chunk", "week", "--threads", "1", "--quiet", *options),
    ]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    base = tmp_path_factory.mktemp("killed")
    sample = sorted((DATA / "games").glob("*.parquet"))[:MONTHS]
    assert len(sample) == MONTHS
    for month, path in enumerate(sample):
        pq.write_table(pq.read_table(path).slice(0, ROWS), base / f"{month}.parquet")
    old_out, new_out = base / "old", base / "new"
    _run(_command(base, old_out, months=MONTHS - 1))
    shutil.copytree(old_out, new_out, symlinks=True)
    process, started = subprocess.Popen(_command(base, new_out)), time.monotonic()
    while process.poll() is None and not (new_out / "work").exists():
        time.sleep(0.001)
    began = time.monotonic()
    assert process.wait() == 0
    ended = time.monotonic()
    old, new = digests((old_out / "current").resolve()), digests((new_out / "current").resolve())
    assert old != new
    written = [
        str(path.relative_to((new_out / "current").resolve()))
        for path in (new_out / "current").resolve().rglob("*")
        if path.is_file()
    ]
    return Stage(base, old_out, old, new, ended - started, ended - began, sorted(written))


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
    assert main(stage.command(out)[3:]) == 0
    assert digests((out / "current").resolve()) == stage.new
    assert not (out / "work").exists()
    names = sorted(path.name for path in (out / "runs").iterdir())
    last = os.readlink(out / "current").removeprefix("runs/")
    assert names[-1] == last
    assert len(names) == int(last), f"unnamed runs stay: {names}, current {last}"
    assert sorted(path.name for path in out.iterdir()) == ["current", "eloreplay.json", "lock", "runs"]
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


def test_killed_at_random_instants(stage: Stage, tmp_path: Path) -> None:
    seen, killed = killed_at_random(stage, tmp_path, 8, SEED)
    assert sum(seen.values()) == 8
    assert killed >= 4


@pytest.mark.long
def test_killed_at_a_hundred_random_instants(stage: Stage, tmp_path: Path) -> None:
    seen, killed = killed_at_random(stage, tmp_path, 100, SEED + 1)
    assert sum(seen.values()) == 100
    assert killed >= 60


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
    killed = 0
    for name in names:
        out = stage.fresh(where / "out")
        killed += kill_when_it_appears(stage, out, name) == -signal.SIGKILL
        assert_whole(stage, out)
        assert_next_run_is_undisturbed(stage, out)
    return killed


def test_killed_after_some_files_it_writes(stage: Stage, tmp_path: Path) -> None:
    timeline = [name for name in stage.written if name.startswith("timeline/")]
    names = [timeline[0], timeline[-1], "players.parquet", "ratings.duckdb", "manifest.json"]
    assert killed_after_files(stage, tmp_path, names) >= 3


@pytest.mark.long
def test_killed_after_every_file_it_writes(stage: Stage, tmp_path: Path) -> None:
    assert len(stage.written) > 15
    assert killed_after_files(stage, tmp_path, stage.written) > 0.7 * len(stage.written)


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


@pytest.mark.parametrize(
    ("call", "count", "when", "seen"),
    [
        ("rename", 1, "before", "old"),
        ("rename", 1, "after", "old"),
        ("symlink", 1, "after", "old"),
        ("replace", 1, "before", "old"),
        ("replace", 1, "after", "new"),
    ],
)
def test_killed_at_the_switch(stage: Stage, tmp_path: Path, call: str, count: int, when: str, seen: str) -> None:
    out = stage.fresh(tmp_path / "out")
    arguments = stage.command(out)[3:]
    done = subprocess.run([sys.executable, "-c", CUT, call, str(count), when, *arguments], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert assert_whole(stage, out) == seen
    assert_next_run_is_undisturbed(stage, out)


def test_killed_before_it_was_ours(stage: Stage, tmp_path: Path) -> None:
    """Killed while it takes a new folder into possession, a run leaves a folder that the next one can use."""
    out = tmp_path / "out"
    arguments = stage.command(out)[3:]
    done = subprocess.run([sys.executable, "-c", CUT, "replace", "1", "before", *arguments], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (out / "eloreplay.json").exists()
    assert_next_run_is_undisturbed(stage, out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_a_signal(stage: Stage, tmp_path: Path, number: signal.Signals) -> None:
    out = stage.fresh(tmp_path / "out")
    process = subprocess.Popen(stage.command(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (out / "work" / "run").exists():
        time.sleep(0.001)
    process.send_signal(number)
    _, message = process.communicate()
    assert process.returncode not in (0, 1), message
    assert "Traceback" not in message
    assert "unexpected" not in message
    assert assert_whole(stage, out) == "old"
    assert_next_run_is_undisturbed(stage, out)


def test_a_failure_leaves_no_work_folder(stage: Stage, tmp_path: Path) -> None:
    out = stage.fresh(tmp_path / "out")
    done = subprocess.run(stage.command(out, "--max-rejected", "0"), capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert not (out / "work").exists()
    assert assert_whole(stage, out) == "old"
    assert (out / "refused" / "rejected.parquet").is_file()


def test_keep_and_readers_of_an_older_run(stage: Stage, tmp_path: Path) -> None:
    """`--keep 2` keeps two runs: who has resolved `current` before goes on reading."""
    out = stage.fresh(tmp_path / "out")
    reader = (out / "current").resolve()
    before = pl.scan_parquet(reader / "timeline" / "*.parquet")
    games = before.select(pl.len()).collect().item()
    _run(stage.command(out, "--keep", "2"))
    assert sorted(path.name for path in (out / "runs").iterdir()) == ["000001", "000002"]
    assert digests(reader) == stage.old
    assert before.select(pl.len()).collect().item() == games
    assert (out / "current").resolve().name == "000002"
    # An open file stays readable even when its run is dropped under it.
    with (reader / "players.parquet").open("rb") as stream:
        _run(stage.command(out, "--keep", "2"))
        assert sorted(path.name for path in (out / "runs").iterdir()) == ["000002", "000003"]
        assert hashlib.sha256(stream.read()).hexdigest() == stage.old["players.parquet"]


def test_readers_during_a_run_see_whole_runs(stage: Stage, tmp_path: Path) -> None:
    """A reader that comes again and again while a run is at work and switches."""
    out = stage.fresh(tmp_path / "out")
    process = subprocess.Popen(stage.command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = []
    while process.poll() is None:
        seen.append(assert_whole(stage, out))
    assert process.returncode == 0
    seen.append(assert_whole(stage, out))
    assert seen[0] == "old"
    assert seen[-1] == "new"
    assert seen == sorted(seen, reverse=True), "a reader saw the old run after the new one"
