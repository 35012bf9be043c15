"""The switch, step by step: what is on the disk before what points to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from eloreplay.store import hold


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
