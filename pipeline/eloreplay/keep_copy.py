"""A finished run published once more in a folder of its own: hard links where the file system has them, else copies."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from eloreplay import journal
from eloreplay.boards import archive_board
from eloreplay.errors import EloreplayError, UsageFault
from eloreplay.instants import now_us, show_us
from eloreplay.publish import write_manifest, write_views
from eloreplay.rollback import OWN, link_or_copy
from eloreplay.run import full_disk_in_words
from eloreplay.store import current_run, database_home, hold


def keep_copy(source: Path, manifest: dict[str, Any], out: Path) -> Path:
    """Publish the run in folder `source` as the first run of `out`; returns its new folder.

    Raises:
        UsageFault: something is published in `out` already (a run there must be compared with the one before), or it is not ours.
        EnvironmentFault: disk, permission.
    """
    if out.exists() and current_run(out) is not None:
        raise UsageFault(f"{out}: holds published runs; save into a new folder, or rate into this one with replay(…, out=…)")
    with full_disk_in_words(out), journal.attempt(out, "backfill") as entry, hold(out) as folder:
        run = folder.begin()
        try:

            def ours(parent: str, names: list[str]) -> set[str]:
                return set(names) & (OWN - {"changes.parquet"}) if Path(parent) == source else set()

            shutil.copytree(source, run, copy_function=_link, ignore=ours, dirs_exist_ok=True)
            target = folder.next_run()
            with database_home(folder.work) as home:
                write_views(run, target.absolute(), home, manifest["input_options"]["pool"] is not None)
            published = {**manifest, "run": target.name, "made_at": show_us(now_us())}
            write_manifest(run / "manifest.json", published)
            folder.publish(keep=1)
        finally:
            folder.clean()
        entry |= journal.of_manifest(published)
        with contextlib.suppress(EloreplayError):
            archive_board(out, target)
    return target


def _link(source: str, target: str) -> str:
    link_or_copy(Path(source), Path(target))
    return target
