"""`kill -9` at any instant of a night, a full disk, a folder that becomes read-only, two nights at once.

Whatever happens: readers see the old or the new run whole, and the next night gives the very bytes of an undisturbed one.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import support_nightly
from support_killed import (
    DATA,
    Stage,
    assert_next_run_is_undisturbed,
    assert_whole,
    cut_at,
    digests,
    killed_after_files,
    killed_at_random,
    make_stage,
    wait_for,
)
from warm import Warm

SEED = 20260701
#: Files of the sample, rows of each, and rows of the night: new ones, and late ones that make it rate a month anew.
MONTHS, ROWS, NEW, LATE = 3, 1_500, 500, 20
AS_OF = ("--as-of", "2026-10-01")


def _games(base: Path) -> list[str]:
    return [str(path) for path in sorted((base / "games").glob("*.parquet"))]


def night_stage(base: Path, warm: Warm) -> Stage:
    """Three months published; then a night with new games, late games of the month before and corrections."""
    sample = sorted((DATA / "games").glob("*.parquet"))[:MONTHS]
    assert len(sample) == MONTHS
    (base / "games").mkdir()
    months = [pq.read_table(path) for path in sample]
    for number, month in enumerate(months):
        pq.write_table(month.slice(0, ROWS), base / "games" / f"{number}.parquet")
    known = _games(base)
    old_out = base / "old"
    first = [
        *(sys.executable, "-m", "eloreplay", "backfill", *known, "--columns", str(DATA / "columns.toml"), "--rules", "tavla42"),
        *("--out", str(old_out), *AS_OF, "--threads", "1", "--quiet"),
    ]
    pq.write_table(months[-1].slice(ROWS, NEW), base / "games" / "new.parquet")
    pq.write_table(months[-2].slice(ROWS, LATE), base / "games" / "late.parquet")

    def build(out: Path, *options: str) -> list[str]:
        return support_nightly.night_command(
            [Path(name) for name in _games(base)], out, *AS_OF, "--accept-changes", "--threads", "1", *options
        )

    return make_stage(base, first, old_out, build, warm)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Stage:
    return night_stage(tmp_path_factory.mktemp("killed-night"), warm)


def test_the_undisturbed_night_is_a_night_worth_killing(stage: Stage, tmp_path: Path) -> None:
    """It takes some chunks over, makes others anew, and is what a backfill gives."""
    shared = {name for name, digest in stage.old.items() if stage.new.get(name) == digest}
    assert any(name.startswith("timeline/") for name in shared)
    assert any(name.startswith("timeline/") for name in set(stage.new) - shared)
    fresh = tmp_path / "fresh"
    argv = ["backfill", *_games(stage.base), "--columns", DATA / "columns.toml", "--rules", "tavla42", "--out", fresh, "--quiet"]
    support_nightly.command([*argv, *AS_OF], fresh).ok()
    support_nightly.assert_equal(stage.base / "new", fresh)
    assert {name: stage.new[name] for name in stage.new if not _differs_by_its_nature(name)} == {
        name: digest for name, digest in digests((fresh / "current").resolve()).items() if not _differs_by_its_nature(name)
    }, "with the same cut into files the bytes are the same as well"


def _differs_by_its_nature(name: str) -> bool:
    """What says which run came before, or is kept for the next night and may be laid out otherwise."""
    return name.startswith("fold/") or name in ("changes.parquet", "rejected.parquet")


# ---------------------------------------------------------------- killed


def test_killed_at_random_instants(stage: Stage, tmp_path: Path) -> None:
    seen, killed = killed_at_random(stage, tmp_path, 32, SEED)
    assert sum(seen.values()) >= killed == 32


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_killed_at_three_hundred_random_instants(stage: Stage, tmp_path: Path, part: int) -> None:
    seen, killed = killed_at_random(stage, tmp_path, 30, SEED + 100 + part)
    assert sum(seen.values()) >= killed == 30


def _some(stage: Stage) -> list[str]:
    """A file of each kind that a night writes, those first that it writes itself."""
    made = [name for name in stage.written if stage.new.get(name) is None or stage.old.get(name) != stage.new[name]]
    kinds = ("timeline/", "fold/rows/", "fold/state/", "fold/ids/", "fold/fold.json", "players.parquet", "changes.parquet")
    some = [next((name for name in made if name.startswith(kind)), None) for kind in (*kinds, "manifest.json", "ratings.duckdb")]
    return [name for name in some if name is not None]


def test_killed_after_some_files_it_writes(stage: Stage, tmp_path: Path) -> None:
    names = _some(stage)
    assert len(names) >= 8
    assert killed_after_files(stage, tmp_path, names) >= 5


@pytest.mark.long
def test_killed_after_every_file_it_writes(stage: Stage, tmp_path: Path) -> None:
    assert len(stage.written) > 30
    assert killed_after_files(stage, tmp_path, stage.written) > 0.6 * len(stage.written)


@pytest.mark.parametrize(
    ("call", "count", "when", "seen"),
    [
        ("link", 1, "after", "old"),
        ("rename", 1, "before", "old"),
        ("rename", 1, "after", "old"),
        ("symlink", 1, "after", "old"),
        ("replace", 1, "before", "old"),
        ("replace", 1, "after", "new"),
        ("replace", 2, "before", "new"),  # while the board is archived
        ("replace", 2, "after", "new"),
    ],
)
def test_killed_at_the_switch(stage: Stage, tmp_path: Path, call: str, count: int, when: str, seen: str) -> None:
    out = stage.fresh(tmp_path / "out")
    cut_at(stage, out, call, count, when)
    assert assert_whole(stage, out) == seen
    assert_next_run_is_undisturbed(stage, out)


def test_killed_again_and_again_in_one_folder(stage: Stage, tmp_path: Path) -> None:
    """What three killed nights leave on top of each other is cleared away by the fourth."""
    out = stage.fresh(tmp_path / "out")
    for call, when in (("link", "after"), ("rename", "after"), ("rename", "before")):
        cut_at(stage, out, call, 1, when)
        assert assert_whole(stage, out) == "old"
    assert_next_run_is_undisturbed(stage, out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_a_signal(stage: Stage, tmp_path: Path, number: signal.Signals) -> None:
    out = stage.fresh(tmp_path / "out")
    run = stage.start(out, said=tmp_path / "said")
    assert wait_for(run, out / "work" / "run")
    run.send_signal(number)
    assert run.wait() not in (0, 1), run.said
    assert "Traceback" not in run.said
    assert "unexpected" not in run.said
    assert assert_whole(stage, out) == "old"
    assert_next_run_is_undisturbed(stage, out)


def test_the_files_that_two_runs_share_are_never_written_again(stage: Stage, tmp_path: Path) -> None:
    """Links: a night, killed or not, changes no byte of the run that it goes on from."""
    out = stage.fresh(tmp_path / "out")
    old = (out / "current").resolve()
    cut_at(stage, out, "rename", 1, "before")
    assert digests(old) == stage.old
    assert_next_run_is_undisturbed(stage, out)
    assert digests(old) == stage.old
    (out / "current").unlink()
    os.symlink("runs/000001", out / "current")
    support_nightly.command(stage.command(out)[3:], out).ok()
    assert assert_whole(stage, out) == "new"
    assert digests(old) == stage.old


# ---------------------------------------------------------------- the disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system of the size asked for."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mounted = []

    def mount(size: str) -> Path:
        where = tmp_path / f"disk{len(mounted)}"
        where.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(where)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mounted.append(where)
        return where

    yield mount
    for where in mounted:
        subprocess.run(["umount", "-l", str(where)], check=True)


def _no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The night starts although the disk is too small for it."""
    from eloreplay import nightly

    monkeypatch.setattr(nightly, "BYTES_A_RUN", 0)
    monkeypatch.setattr(nightly, "BYTES_A_ROW", 0)


@pytest.mark.parametrize("room", [0, 60, 400, 1200, 3000])
def test_a_disk_that_fills_up_halfway(
    stage: Stage, small_disk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """`room` KiB are left: the night meets the end of the disk at another place each time."""
    disk = small_disk("64m")
    _no_estimate(monkeypatch)
    out = disk / "out"
    shutil.copytree(stage.old_out, out, symlinks=True)
    free = shutil.disk_usage(disk).free
    (disk / "ballast").write_bytes(b"x" * (free - (room << 10)))
    ended = support_nightly.command(stage.command(out)[3:], out)
    if room > 1200 and ended.code == 0:
        pytest.skip("this much room is enough")
    assert ended.code == 1, ended.text
    for word in ("disk", "full", "No space left", "nothing was published"):
        assert word in ended.stderr
    assert "Traceback" not in ended.stderr
    assert assert_whole(stage, out) == "old"
    assert not (out / "work").exists()
    assert [path.name for path in (out / "runs").iterdir()] == ["000001"]
    (disk / "ballast").unlink()
    support_nightly.command(stage.command(out)[3:], out).ok()
    assert assert_whole(stage, out) == "new"


def test_too_small_a_disk_is_seen_before_anything_is_done(stage: Stage, small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("64m")
    out = disk / "out"
    shutil.copytree(stage.old_out, out, symlinks=True)
    (disk / "ballast").write_bytes(b"x" * (shutil.disk_usage(disk).free - (8 << 20)))
    ended = support_nightly.command(stage.command(out)[3:], out)
    assert ended.code == 1, ended.text
    assert "MiB are needed" in ended.stderr
    assert assert_whole(stage, out) == "old"


@pytest.mark.parametrize("call", ["rename", "symlink", "replace", "fsync"])
def test_a_disk_that_fails_at_the_switch(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = stage.fresh(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        ended = support_nightly.command(stage.command(out)[3:], out)
    assert ended.code == 1, ended.text
    assert "No space left" in ended.stderr
    assert assert_whole(stage, out) == "old"
    assert_next_run_is_undisturbed(stage, out)


def test_a_file_system_without_links_is_no_obstacle(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    out = stage.fresh(tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", fail)
        support_nightly.command(stage.command(out)[3:], out).ok()
    assert assert_whole(stage, out) == "new"


# ---------------------------------------------------------------- read-only midway


@pytest.mark.parametrize("after", ["work/run", "work/run/timeline", "work/run/fold/rows", "work/run/players.parquet"])
def test_a_folder_that_becomes_read_only_midway(stage: Stage, tmp_path: Path, after: str) -> None:
    """The night ends with a message; afterwards, writable again, the next one ends as if nothing had happened."""
    out = stage.fresh(tmp_path / "out")
    run = stage.start(out, said=tmp_path / "said", rights=False)
    assert wait_for(run, out / after)
    closed = [path for path in (out, out / "runs", *out.rglob("work/**/")) if path.is_dir()]
    for folder in closed:
        if folder.exists():
            folder.chmod(0o555)
    code = run.wait()
    for folder in closed:
        if folder.exists():
            folder.chmod(0o755)
    assert code == 1, run.said
    assert "Permission denied" in run.said
    assert "Traceback" not in run.said
    assert assert_whole(stage, out) == "old"
    assert_next_run_is_undisturbed(stage, out)


# ---------------------------------------------------------------- two at once


def test_of_two_nights_at_once_one_publishes_and_the_other_is_turned_away(stage: Stage, tmp_path: Path) -> None:
    out = stage.fresh(tmp_path / "out")
    run = stage.start(out, said=tmp_path / "said")
    assert wait_for(run, out / "work" / "run")
    run.send_signal(signal.SIGSTOP)
    other = support_nightly.command(stage.command(out)[3:], out)
    run.send_signal(signal.SIGCONT)
    assert other.code == 4, other.text
    assert f"process {run.pid}" in other.stderr
    assert run.wait() == 0, run.said
    assert assert_whole(stage, out) == "new"
    assert_next_run_is_undisturbed(stage, out)


def test_of_many_nights_at_once_exactly_one_publishes(stage: Stage, tmp_path: Path) -> None:
    out = stage.fresh(tmp_path / "out")
    codes = sorted(run.wait() for run in [stage.start(out) for _ in range(3)])
    assert codes[0] == 0
    assert set(codes) <= {0, 4}
    assert os.readlink(out / "current") == "runs/000002", "who came after the first found nothing new"
    assert assert_whole(stage, out) == "new"
    assert_next_run_is_undisturbed(stage, out)
