"""Going back: a kept run is published once more, as a new run, so that `current` always leads to the highest number.

The new run's files are hard links to the kept run's (copies where the file system has no links), for published files are never
changed. What depends on the place or the moment is made anew: the manifest, `ratings.duckdb`, `changes.parquet`, `report.html`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay import journal
from eloreplay.boards import archive_board
from eloreplay.changes import look_back, write_changes
from eloreplay.console import counted
from eloreplay.errors import EloreplayError, EnvironmentFault, UsageFault
from eloreplay.games import Intake
from eloreplay.instants import now_us, show_us
from eloreplay.publish import BoardOptions, read_manifest, write_manifest, write_views
from eloreplay.published import kept_runs, published_run
from eloreplay.queries import DEFAULT_MEMORY, Database
from eloreplay.report import write_page
from eloreplay.rules import ruleset_from_dict
from eloreplay.run import full_disk_in_words
from eloreplay.store import OutputFolder, database_home, hold
from eloreplay.tables import ARROW_TYPES, read_parquet

#: Made anew, so not linked.
OWN = frozenset({"manifest.json", "ratings.duckdb", "changes.parquet", "report.html"})
TABLES = ("players", "leaderboard", "awards", "rejected", "calibration", "summary")
SQL_TYPES = {kind: name for name, kind in ARROW_TYPES.items()}


@dataclass(frozen=True)
class Plan:
    """What a rollback does, or did.

    Attributes:
        target: number of the new run.
        source: number of the run that it repeats.
        instead_of: number of the run that was published before.
        manifest: of the source.
        manifest_before: of the run published before; empty when it cannot be read.
        moved: players whose rating or number of games is another than before, or who come or go; None when unknown.
    """

    target: str
    source: str
    instead_of: str
    manifest: dict[str, Any]
    manifest_before: dict[str, Any]
    moved: int | None

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        before = {key: self.manifest_before.get(key) for key in ("as_of", "rows_read", "players")}
        after = {key: self.manifest.get(key) for key in before}
        rated = (self.manifest_before.get("bins", {}).get("rated"), self.manifest["bins"]["rated"])
        return {
            "run": self.target,
            "rollback_of": self.source,
            "instead_of": self.instead_of,
            "before": {**before, "rated": rated[0]},
            "after": {**after, "rated": rated[1]},
            "moved_players": self.moved,
        }

    def text(self, done: bool) -> str:
        """For a person."""
        found = self.as_dict()
        lines = [
            f"run {self.source} is published again as run {self.target}, instead of run {self.instead_of}"
            if done
            else f"run {self.source} would be published again as run {self.target}, instead of run {self.instead_of}"
        ]
        for title, key in (("before", "before"), ("after", "after")):
            numbers = ", ".join(
                f"? {words[1]}" if found[key][name] is None else counted(found[key][name], *words)
                for name, words in (
                    ("rated", ("rated game", "rated games")),
                    ("rows_read", ("row read", "rows read")),
                    ("players", ("player", "players")),
                )
            )
            lines.append(f"  {title:<7} as of {found[key]['as_of'] or '?'}: {numbers}")
        if self.moved is not None:
            lines.append("  " + counted(self.moved, "player has", "players have") + " another rating or another number of games")
        lines.append(
            "The next night goes on from it and reads again what has come since: mend or remove what was wrong first."
            if done
            else "Nothing was changed: this was a dry run."
        )
        return "\n".join(lines)


def rollback(out: Path, number: int, note: Callable[[str], None], dry_run: bool = False) -> Plan:
    """Publish the kept run `number` again.

    Nothing is dropped: the run that was published before stays among the kept ones until later runs push it out.

    Args:
        out: the output folder.
        number: which run.
        note: told what a person should know.
        dry_run: only say what would be done.

    Raises:
        UsageFault: there is no such run, or it is the published one.
        FolderBusy: a run is at work.
        EnvironmentFault: the kept run is not whole; disk, permission.
    """
    # What cannot be done at all is said before anything is held or recorded.
    plan = _plan(out, number)
    if dry_run:
        return plan
    with journal.attempt(out, "rollback") as entry, full_disk_in_words(out), hold(out) as folder:
        for text in folder.notes:
            note(text)
        journal.repair(out)
        plan = _plan(out, number)
        current = published_run(out)
        run = folder.begin()
        try:
            _link_tree(_kept(out, number), run)
            with database_home(folder.work) as home:
                moved = _write_changes(run, home, current, plan)
                pool = plan.manifest["input_options"]["pool"] is not None
                write_views(run, folder.next_run().absolute(), home, pool)
            manifest = _manifest(plan, moved)
            write_manifest(run / "manifest.json", manifest)
            write_page(run, manifest, note)
            published = _publish(folder)
        finally:
            folder.clean()
        entry |= journal.of_manifest(manifest)
        with contextlib.suppress(EloreplayError):
            archive_board(out, published)
    return plan


def _publish(folder: OutputFolder) -> Path:
    """Publish without dropping a run: somebody who rolls back may well want to look at what was wrong, or to go elsewhere still."""
    return folder.publish(keep=len(kept_runs(folder.root)) + 1)


def _kept(out: Path, number: int) -> Path:
    """The folder of a kept run that is not the published one.

    Raises:
        UsageFault: there is no such run.
    """
    kept = {int(path.name): path for path in kept_runs(out)}
    current = published_run(out)
    others = [path.name for path in kept.values() if path.name != current.name]
    listed = f"kept are {', '.join(others)}" if others else "no other run is kept (see --keep)"
    if number == int(current.name):
        raise UsageFault(f"{out}: run {current.name} is the published one, there is nothing to roll back; {listed}")
    if number not in kept:
        raise UsageFault(f"{out}: run {number:06d} is not kept; {listed}")
    return kept[number]


def _plan(out: Path, number: int) -> Plan:
    source, current = _kept(out, number), published_run(out)
    manifest = _whole(source)
    before: dict[str, Any] = {}
    # The published run may be just what is broken: going back from it must work all the same.
    with contextlib.suppress(EloreplayError):
        before = read_manifest(current)
    return Plan(f"{int(current.name) + 1:06d}", source.name, current.name, manifest, before, _moved(current, source))


def _whole(run: Path) -> dict[str, Any]:
    """The manifest of a run that has all that it should have.

    Raises:
        EnvironmentFault: a file is missing or damaged, naming it.
    """
    manifest = read_manifest(run)
    for name in [*(f"{table}.parquet" for table in TABLES), *(str(chunk["file"]) for chunk in manifest.get("chunks", []))]:
        try:
            with (run / name).open("rb") as file:
                pq.read_metadata(file)
        except (OSError, pa.ArrowException) as error:
            raise EnvironmentFault(f"{run / name}: the kept run is not whole, so it is not published again: {error}") from None
    return manifest


def _moved(current: Path, source: Path) -> int | None:
    """How many players stand differently in the two runs; None when they cannot be compared."""
    try:
        tables = []
        for run in (current, source):
            with (run / "players.parquet").open("rb") as file:
                there = pl.read_parquet_schema(file)
                names: list[str] = [name for name in ("pool", "player_id", "rating", "games") if name in there]
                file.seek(0)
                tables.append(pl.read_parquet(file, columns=names))
        keys = [name for name in ("pool", "player_id") if name in tables[0].columns]
        joined = tables[0].join(tables[1], on=keys, how="full", suffix="_after", nulls_equal=True)
        return joined.filter(
            pl.col("rating").ne_missing(pl.col("rating_after")) | pl.col("games").ne_missing(pl.col("games_after"))
        ).height
    except (OSError, pl.exceptions.PolarsError):
        return None


def _link_tree(source: Path, target: Path) -> None:
    """Give every file of a run a second name under `target`; a file that cannot be linked is copied."""
    for parent, folders, names in os.walk(source):
        here = target / Path(parent).relative_to(source)
        here.mkdir(exist_ok=True)
        folders.sort()
        for name in sorted(names):
            if Path(parent) == source and name in OWN:
                continue
            link_or_copy(Path(parent) / name, here / name)


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link, or a copy where there are none: another file system, too many links, or a file of somebody else."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        target.unlink(missing_ok=True)
        shutil.copy2(source, target)


def _write_changes(run: Path, home: Path, current: Path, plan: Plan) -> int | None:
    """Write `changes.parquet` against the run that was published; all that moves is restated. None when it cannot be compared."""
    manifest = plan.manifest
    players = read_parquet(run / "players.parquet")
    pool = "pool" in players.schema.names
    ruleset = ruleset_from_dict(manifest["rules"]["content"], f"the manifest's rules {manifest['rules']['name']}")
    intake = Intake(player_id_type=SQL_TYPES[players.schema.field("player_id").type])
    if pool:
        intake.pool_type = SQL_TYPES[players.schema.field("pool").type]
    else:
        players = players.add_column(0, "pool", pa.nulls(len(players), ARROW_TYPES[intake.pool_type]))
    if "band" not in players.schema.names:
        players = players.append_column("band", pa.nulls(len(players), pa.string()))
    database = Database(home / "changes.duckdb", threads=2, memory_limit=DEFAULT_MEMORY, spill=home / "spill")
    try:
        try:
            before = look_back(database, current, plan.manifest_before or None, intake, ruleset, pool)
        except (EnvironmentFault, OSError, pa.ArrowException):
            before = look_back(database, None, None, intake, ruleset, pool)
        database.put("players", players)
        ratings = None if before.run is None else players["rating"].cast(pa.float64()).to_numpy()
        board = BoardOptions(**manifest["options"]["board"])
        changes = write_changes(database, run, players.select(["pool", "player_id"]), ratings, board, ruleset, pool)
    finally:
        database.close()
    return None if before.run is None else len(changes)


def _manifest(plan: Plan, changed: int | None) -> dict[str, Any]:
    """The old run's manifest as that of the new one; what its own night did is not what this run does."""
    return {
        **{key: value for key, value in plan.manifest.items() if key != "night"},
        "run": plan.target,
        "made_at": show_us(now_us()),
        "kind": "rollback",
        "rollback_of": plan.source,
        "after": plan.instead_of,
        "changed_players": changed,
    }
