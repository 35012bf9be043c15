"""The switch, step by step: what is on the disk before what points to it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from eloreplay.store import claim, hold, reading


@pytest.mark.syncs
def test_everything_is_on_the_disk_before_anything_points_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders of the run before it is moved, `runs` before the link is switched, the folder itself afterwards."""
    root = tmp_path / "out"
    done: list[tuple[str, str]] = []

    def noted(name: str, real: Any, place: Any) -> Any:
        def call(*arguments: Any) -> Any:
            done.append((name, os.path.relpath(place(*arguments), root)))
            return real(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", noted("sync", os.fsync, lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "rename", noted("move", os.rename, lambda _old, new: new))
    monkeypatch.setattr(os, "replace", noted("switch", os.replace, lambda _old, new: new))
    with hold(root) as folder:
        run = folder.begin()
        (run / "timeline").mkdir()
        for name in ("timeline/a.parquet", "players.parquet", "manifest.json"):
            (run / name).write_text(name, encoding="utf-8")
        done.clear()
        folder.publish(keep=3)
    moved, switched = done.index(("move", "runs/000001")), done.index(("switch", "current"))
    inside = {place for what, place in done[:moved] if what == "sync"}
    assert inside == {
        *("work/run", "work/run/timeline"),
        *("work/run/timeline/a.parquet", "work/run/players.parquet", "work/run/manifest.json"),
    }
    assert ("sync", "runs") in done[moved:switched]
    assert ("sync", ".") in done[switched:]


def _publish(root: Path, keep: int) -> Path:
    with hold(root) as folder:
        (folder.begin() / "manifest.json").write_text("{}", encoding="utf-8")
        return folder.publish(keep)


def _runs(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "runs").iterdir())


def test_a_run_that_is_read_stays_until_nobody_reads_it(tmp_path: Path) -> None:
    """Any number of readers, and no run waits for them; the run after the last of them takes it away."""
    root = tmp_path / "out"
    claim(root)
    with reading(root) as run:
        assert run is None
    first = _publish(root, 1)
    with reading(root) as one, reading(root) as other:
        assert one == other == first
        _publish(root, 1)
        assert _runs(root) == ["000001", "000002"]
        assert (first / "manifest.json").read_text(encoding="utf-8") == "{}"
    with reading(root) as now:
        assert now == root / "runs" / "000002"
        _publish(root, 1)
        assert _runs(root) == ["000002", "000003"]
    _publish(root, 1)
    assert _runs(root) == ["000004"]


def test_a_reader_that_comes_while_its_run_is_dropped_gets_the_one_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "out"
    _publish(root, 1)
    real, calls = fcntl.flock, []

    def flock(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_SH and not calls:
            calls.append(how)
            _publish(root, 1)  # drops the run between its being found and its being held
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with reading(root) as run:
        assert calls
        assert run == root / "runs" / "000002"
        assert run.is_dir()


def test_a_file_system_without_locks_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "out"
    run = _publish(root, 1)

    def fail(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    with reading(root) as found:
        assert found == run
