"""Forget a player: a pseudonym takes the place of his id in everything that an output folder keeps, and in all that comes later.

The present run is made anew from its own rows: a copy of what it keeps in which the id is replaced, rated again from the first game
by the code of every night, so that it is what a backfill would give if the id had been replaced in the files. It is published by
the usual switch, and with it the rule that replaces the id at the door from now on (`forgotten`). Before the switch nothing has
changed; after it older runs, boards and studies follow, file by file, and a forget that was killed there is finished by the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay import journal
from eloreplay.again import OLD_FOLDER, inputs_of, options_of, ruleset_of
from eloreplay.backfill import at_work, keep_board
from eloreplay.boards import BOARDS
from eloreplay.chunks import FOLD, read_fold
from eloreplay.conclude import publish
from eloreplay.errors import EloreplayError, InputRefused, UsageFault
from eloreplay.forgotten import Forgotten, read_forgotten
from eloreplay.games import Report, input_record
from eloreplay.instants import BEGINNING_US
from eloreplay.night_files import NightFiles, game_records
from eloreplay.publish import read_manifest, write_manifest
from eloreplay.published import kept_runs, published_run
from eloreplay.queries import DEFAULT_MEMORY, Database, all_columns
from eloreplay.renaming import ORDERED, Renaming
from eloreplay.report import NAME as REPORT
from eloreplay.report import remake
from eloreplay.rollback import link_or_copy
from eloreplay.rowstore import files_sql
from eloreplay.run import BYTES_A_ROW, BYTES_A_RUN, Clock, full_disk_in_words
from eloreplay.sources import Source, file_digest, find_sources
from eloreplay.step import Change, Step
from eloreplay.store import OutputFolder, hold
from eloreplay.tables import read_kept, write_parquet

STUDIES = "studies"
SIDE_TABLES = (
    ("awards", "awards"),
    ("aliases", "aliases"),
    ("excluded players", "excluded"),
    ("start ratings", "start_ratings"),
)


@dataclass(frozen=True)
class Forgot:
    """What was done.

    Attributes:
        run: number of the new run; None when only what an earlier call had left was finished, or in a dry run.
        name: the pseudonym; None in a dry run.
        places: what held the id: files and rows by place.
    """

    run: str | None
    name: str | int | None
    places: dict[str, dict[str, int]]

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"run": self.run, "pseudonym": self.name, "touched": self.places}


def forget(
    out: Path,
    given: str,
    report: Report,
    note: Callable[[str], None],
    dry_run: bool = False,
    threads: int | None = None,
    memory_limit: str = DEFAULT_MEMORY,
) -> Forgot:
    """Replace a player's id in an output folder, for good.

    Args:
        out: the output folder.
        given: the id, as text.
        report: told how far it is.
        note: told what a person should know.
        dry_run: only say what holds the id.
        threads: of DuckDB; those of the run unless given.
        memory_limit: of DuckDB.

    Raises:
        UsageFault: no such player, nothing published, or a folder of an earlier version.
        InputRefused: a side table is no longer the one that the published run read.
        FolderBusy: a run is at work.
        EnvironmentFault: disk, memory; a file cannot be read.
    """
    current = published_run(out)
    player = _typed(current, given)
    rule = read_forgotten(current)
    known = rule.pseudonym(player) if rule else None
    # Nothing is held or recorded before it is known that there is such a player: the journal is not to name whom nobody knows.
    counting = Renaming(player, player, out / "work")
    report("looking for the player", 0, 0)
    places = _places(out, counting)
    if not places and known is None:
        raise UsageFault(f"{out}: nothing in this folder names the player {given!r}{_compared(given)}")
    if dry_run:
        return Forgot(None, known, places)
    _note_other_accounts(current, player, note)
    with full_disk_in_words(out), journal.attempt(out, "forget") as entry, hold(out) as folder:
        for text in folder.notes:
            note(text)
        journal.repair(out)
        folder.begin()
        try:
            current = published_run(out)
            rule = read_forgotten(current).with_player(player, _Taken(out))
            name = rule.pseudonym(player)
            assert name is not None
            (folder.work / "renaming").mkdir()
            renaming = Renaming(player, name, folder.work / "renaming")
            published = None
            if known is None:
                published = _publish(folder, current, renaming, rule, report, note, threads, memory_limit)
                entry |= journal.of_manifest(read_manifest(published))
            else:
                entry["outcome"] = journal.NOTHING_NEW
            # The switch has cleared the work folder away.
            renaming.scratch.mkdir(parents=True, exist_ok=True)
            report("older runs", 0, 0)
            for run in kept_runs(out):
                if run.name != (published or current).name:
                    _rename_run(run, renaming, rule, folder.work)
            _rename_beside(out, renaming)
        finally:
            folder.clean()
        if published is not None:
            keep_board(out, published)
    _rename_journal(out, renaming)
    return Forgot(None if published is None else published.name, name, places)


def _typed(run: Path, given: str) -> str | int:
    """The id as the run's ids are.

    Raises:
        UsageFault: the ids are integers and this is none.
    """
    fold = read_fold(run)
    if fold is None:
        raise UsageFault(f"{run}: the run {OLD_FOLDER}")
    if fold.types.get("players") != "BIGINT":
        return given
    try:
        return int(given)
    except ValueError:
        raise UsageFault(f"{given!r}: player ids are integers in this folder") from None


def _note_other_accounts(run: Path, player: str | int, note: Callable[[str], None]) -> None:
    """Say how many ids are joined to this one: they are his, too, and stay."""
    table = read_kept(run / FOLD / "aliases.parquet", ["alias_id", "player_id"])
    pairs = zip(table["alias_id"].to_pylist(), table["player_id"].to_pylist(), strict=True)
    others = {one for pair in pairs if player in pair for one in pair} - {player}
    if others:
        verb = "account is" if len(others) == 1 else "accounts are"
        note(f"{len(others)} other {verb} joined to this player by the aliases; forget each by a call of its own")


class _Taken:
    """Ids that no pseudonym may be: those of all players in all kept runs, and what stands for others."""

    def __init__(self, out: Path) -> None:
        self._ids: set[Any] = set()
        for run in kept_runs(out):
            for file, columns in (("players", ["player_id"]), ("aliases", ["alias_id", "player_id"])):
                table = read_kept(run / FOLD / f"{file}.parquet", columns)
                for column in columns:
                    self._ids |= set(table[column].unique().to_pylist())
            self._ids |= {name for _, name in read_forgotten(run).names}

    def __contains__(self, name: object) -> bool:
        return name in self._ids


# ---------------------------------------------------------------- what holds the id


def _places(out: Path, renaming: Renaming) -> dict[str, dict[str, int]]:
    """Files and rows with the id, by place; nothing is changed."""
    found: dict[str, dict[str, int]] = {}
    seen: set[tuple[int, int]] = set()
    for place, path in _parquet_files(out):
        status = path.stat()
        # A file that several runs share is counted once.
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        rows = renaming.rows_with(path)
        if rows:
            one = found.setdefault(place, {"files": 0, "rows": 0})
            one["files"] += 1
            one["rows"] += rows
    return found


def _parquet_files(out: Path) -> Iterator[tuple[str, Path]]:
    """Every Parquet file of the folder with the name of its place: tables, stored rows, boards, studies, refused rows."""
    for run in kept_runs(out):
        for path in sorted(run.rglob("*.parquet")):
            first = path.relative_to(run).parts[0]
            yield ("stored rows" if first == FOLD else first.removesuffix(".parquet")), path
    for place in (BOARDS, STUDIES, "refused"):
        for path in sorted((out / place).rglob("*.parquet")):
            yield place, path


# ---------------------------------------------------------------- the present run


def _publish(
    folder: OutputFolder,
    current: Path,
    renaming: Renaming,
    rule: Forgotten,
    report: Report,
    note: Callable[[str], None],
    threads: int | None,
    memory_limit: str,
) -> Path:
    """Make the present run anew without the id, and publish it with the rule."""
    manifest = renaming.in_json(read_manifest(current))
    folder.require_space(manifest["rows_read"] * BYTES_A_ROW + BYTES_A_RUN)
    report("replacing the id", 0, 0)
    before = folder.work / "renamed" / current.name
    shutil.copytree(current, before, copy_function=_link)
    _rename_tables(before, renaming, folder.work)
    rule.write(before / FOLD)
    (before / "manifest.json").unlink()
    write_manifest(before / "manifest.json", manifest)

    inputs = replace(inputs_of(manifest), forgotten=rule)
    found: dict[str, list[Source]] = {"games": []}
    side: list[dict[str, Any]] = []
    for role, name in SIDE_TABLES:
        path = getattr(inputs, name)
        if path is not None:
            found[role] = find_sources([path], role)
            side += [dict(input_record(role, source, file_digest(source), None)) for source in found[role]]
    known = sorted((item["table"], item["sha256"]) for item in manifest["inputs"] if item["table"] != "games")
    if known != sorted((item["table"], item["sha256"]) for item in side):
        raise InputRefused(
            f"a side table (awards, aliases, excluded players or start ratings) is no longer the one that run {current.name} read: "
            "take a night first, then forget"
        )
    kept = options_of(manifest)
    options = replace(
        kept,
        threads=threads or kept.threads,
        memory_limit=memory_limit,
        max_rejected=1.0,
        keep=len(kept_runs(folder.root)) + 1,
    )
    fold = read_fold(before)
    assert fold is not None
    files = NightFiles(records=game_records(manifest), next_file=fold.next_file)
    arguments = (folder, inputs, ruleset_of(manifest), manifest["as_of_us"], options, report, note, manifest, Clock())
    more = {"sealed_before_us": manifest.get("sealed_before_us")}
    with at_work(*arguments) as work:
        made = Step(work, before, "forget", Change(from_us=BEGINNING_US)).run(found, files, side, more)
        # Nobody has asked for other options, and nothing of the past is restated: it is the same run under another name.
        made.manifest["options"] = manifest["options"]
        made.manifest.pop("night")
        return publish(work, made.manifest).folder


def _link(source: str, target: str) -> str:
    link_or_copy(Path(source), Path(target))
    return target


def _rename_tables(run: Path, renaming: Renaming, work: Path) -> None:
    """Replace the id in the Parquet files of a run, and make the digests of its stored rows anew."""
    rows = []
    for path in sorted(run.rglob("*.parquet")):
        if renaming.rewrite(path, path, ORDERED.get(path.relative_to(run).as_posix(), ())) and path.parent.name == "rows":
            rows.append(path)
    if rows:
        _renew_days(run, rows, work)


def _renew_days(run: Path, rows: list[Path], work: Path) -> None:
    """The digests of the days in stored rows that were rewritten, as the door would make them (`sql/kept_days.sql`)."""
    fold = read_fold(run)
    assert fold is not None
    player, game = fold.types.get("players", "VARCHAR"), fold.types.get("games", "VARCHAR")
    columns = all_columns({"pool": fold.types.get("pool", "VARCHAR"), "game_id": game, "winner_id": player, "loser_id": player})
    database = Database(None, threads=2, memory_limit=DEFAULT_MEMORY, spill=work / "spill")
    try:
        parts = [
            f"select {columns}, {'false' if path.stem == 'undated' else 'true'} as is_dated "
            f"from read_parquet({files_sql([path])}, hive_partitioning = false)"
            for path in rows
        ]
        database.execute("create view kept_rows as " + " union all by name ".join(parts))
        database.create_table("renewed", "kept_days")
        days = files_sql([run / FOLD / "file_days.parquet"])
        table = database.arrow_of(
            "select before.* replace (coalesce(renewed.digest, before.digest) as digest) "
            f"from read_parquet({days}, hive_partitioning = false) as before left join renewed "
            "on before.file_no = renewed.file_no and before.day is not distinct from renewed.day "
            "order by before.file_no, before.day"
        )
        schema = pq.read_schema(run / FOLD / "file_days.parquet")
    finally:
        database.close()
    partial = work / "renaming" / "file_days.parquet"
    write_parquet(table.cast(pa.schema(list(schema))), partial)
    os.replace(partial, run / FOLD / "file_days.parquet")


# ---------------------------------------------------------------- what is kept besides


def _rename_run(run: Path, renaming: Renaming, rule: Forgotten, work: Path) -> None:
    """Replace the id in a run that is kept, file by file, and give it the rule, so that going back to it brings nobody back."""
    _rename_tables(run, renaming, work)
    renaming.json_file(run / "manifest.json")
    rule.write(run / FOLD, renaming.scratch)
    # Whatever was replaced now: a forget that was killed may have come as far as the tables and no further.
    _renew_page(run)


def _rename_beside(out: Path, renaming: Renaming) -> None:
    """Replace the id in archived boards, studies and refused rows."""
    for place in (BOARDS, STUDIES, "refused"):
        for path in sorted((out / place).rglob("*.parquet")):
            renaming.rewrite(path, path)
        for path in sorted((out / place).rglob("*.json")):
            renaming.json_file(path)
        for path in sorted((out / place).rglob(REPORT)):
            _renew_page(path.parent)


def _renew_page(folder: Path) -> None:
    """Make the page of a folder again where it has one; a page that cannot be made again is removed rather than left."""
    page = folder / REPORT
    if not page.exists():
        return
    try:
        remake(folder, page, None, None, "svg")
    except (EloreplayError, OSError, KeyError, ValueError):
        page.unlink()


def _compared(given: str) -> str:
    """How ids are compared, for who may have written his in another way."""
    if not given.strip():
        return "; an empty id names nobody"
    return ": ids are compared exactly, 7 is not '007'" if given.strip("+- 0").isdecimal() else "; capitals and blanks count"


def _rename_journal(out: Path, renaming: Renaming) -> None:
    """Replace the id in messages of earlier attempts."""
    path = out / journal.NAME
    with contextlib.suppress(OSError):
        lines = path.read_text(encoding="utf-8").splitlines()
        renamed = []
        for line in lines:
            try:
                content = json.loads(line)
            except ValueError:
                renamed.append(renaming.in_message(line))
                continue
            if isinstance(content, dict) and isinstance(content.get("message"), str):
                content["message"] = renaming.in_message(content["message"])
            renamed.append(json.dumps(content))
        if renamed != lines:
            journal.rewrite(out, renamed)
