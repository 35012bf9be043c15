"""What if some games were voided, or some players excluded? The answer is a whole run in a folder of its own.

Nothing is read again but the side tables: the rows come from what the published run keeps, and rating starts before the first game
that is concerned. The published folder is only read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from eloreplay import objects
from eloreplay.again import OLD_FOLDER, inputs_of, options_of, ruleset_of
from eloreplay.backfill import at_work
from eloreplay.chunks import Fold, read_fold
from eloreplay.columns import EXCLUDED_COLUMNS, Column
from eloreplay.conclude import publish
from eloreplay.errors import InputRefused, UsageFault
from eloreplay.forgotten import read_forgotten
from eloreplay.games import GAMES, PLAYERS, Report, input_record
from eloreplay.night_files import NightFiles, game_records
from eloreplay.publish import read_manifest
from eloreplay.queries import Database
from eloreplay.reader import TableReader, TableSpec, TypeLedger
from eloreplay.run import Clock, RunResult, full_disk_in_words
from eloreplay.sources import Source, file_digest, find_sources
from eloreplay.step import Change, Step, StepResult
from eloreplay.store import OutputFolder, hold, reading

VOID_COLUMNS = (Column("game_id", "id", required=True),)


@dataclass(frozen=True)
class WhatIf:
    """The question.

    Attributes:
        void: Parquet with `game_id`: games to take as voided; or None.
        excluded: Parquet with `player_id`: players to exclude besides those of the run; or None.
    """

    void: str | None
    excluded: str | None


def what_if(
    out: Path, target: Path, question: WhatIf, threads: int | None, memory_limit: str, report: Report, note: Callable[[str], None]
) -> tuple[RunResult, StepResult]:
    """Work out what the published run of `out` would be, and publish it in `target`.

    Raises:
        UsageFault: nothing is published in `out`, both folders are the same, or the question is empty.
        InputRefused: a table of the question cannot be read, or a side table of the run is no longer the one it read.
        EnvironmentFault: disk, memory.
    """
    if question.void is None and question.excluded is None:
        raise UsageFault("say what would be different: --void FILE, --exclude-players FILE, or both")
    with published(out) as before:
        return _answer(out, before, target, question, threads, memory_limit, report, note)


def _answer(
    out: Path,
    before: Path,
    target: Path,
    question: WhatIf,
    threads: int | None,
    memory_limit: str,
    report: Report,
    note: Callable[[str], None],
) -> tuple[RunResult, StepResult]:
    """`what_if`, held against the run `before`."""
    if target.exists() and target.resolve() == out.resolve():
        raise UsageFault(f"--to {target}: is the folder of the real runs; a what-if needs one of its own")
    manifest = read_manifest(before)
    with full_disk_in_words(target), hold(target) as folder:
        for text in folder.notes:
            note(text)
        folder.begin()
        if folder.current is not None and read_manifest(folder.current).get("kind") != "what-if":
            raise UsageFault(f"--to {target}: holds real runs; a what-if needs a folder of its own")
        try:
            tables = {"void": question.void, "exclude_players": question.excluded}
            more = {"what_if": {name: None if path is None else objects.absolute(str(path)) for name, path in tables.items()}}
            change = _read(folder, question, before, manifest)
            made, run = go_on(folder, before, manifest, change, "what-if", more, threads, memory_limit, report, note, keep=1)
            return run, made
        finally:
            folder.clean()


@contextlib.contextmanager
def published(out: Path) -> Iterator[Path]:
    """The published run of a folder, which stays for the length of the block, whatever nights are published meanwhile.

    Raises:
        UsageFault: there is none, or it keeps nothing to go on from.
    """
    with reading(out) as run:
        if run is None:
            raise UsageFault(f"{out}: there is no published run here; start with eloreplay backfill … --out {out}")
        fold(run)
        yield run


def fold(run: Path) -> Fold:
    """What a run keeps to go on from. Raises UsageFault when it keeps nothing."""
    found = read_fold(run)
    if found is None:
        raise UsageFault(f"{run}: the run {OLD_FOLDER}")
    return found


def go_on(
    folder: OutputFolder,
    before: Path,
    manifest: dict[str, Any],
    change: Change,
    kind: str,
    more: dict[str, Any],
    threads: int | None,
    memory_limit: str,
    report: Report,
    note: Callable[[str], None],
    keep: int,
    files: NightFiles | None = None,
) -> tuple[StepResult, RunResult]:
    """Take a step from `before` on the very same files (or on `files`), and publish it in `folder`.

    Raises:
        InputRefused: a side table of the run is no longer the one it read.
    """
    inputs = replace(inputs_of(manifest, ()), forgotten=read_forgotten(before))
    side: list[dict[str, Any]] = []
    files = files or NightFiles(records=game_records(manifest), next_file=fold(before).next_file)
    found: dict[str, list[Source]] = {"games": files.to_read}
    for role, path in (
        ("awards", inputs.awards),
        ("aliases", inputs.aliases),
        ("excluded players", inputs.excluded),
        ("start ratings", inputs.start_ratings),
    ):
        if path is not None:
            found[role] = find_sources([path], role)
            side += [dict(input_record(role, source, file_digest(source), None)) for source in found[role]]
    known = sorted((item["table"], item["sha256"]) for item in manifest["inputs"] if item["table"] != "games")
    if known != sorted((item["table"], item["sha256"]) for item in side):
        raise InputRefused(
            f"a side table (awards, aliases, excluded players or start ratings) is no longer the one that run {before.name} read: "
            "take a night first, then ask again"
        )
    options = replace(options_of(manifest), memory_limit=memory_limit, max_rejected=1.0, keep=keep)
    options = options if threads is None else replace(options, threads=threads)
    clock = Clock()
    with at_work(folder, inputs, ruleset_of(manifest), manifest["as_of_us"], options, report, note, manifest, clock) as work:
        made = Step(work, before, kind, change).run(found, files, side, more)
        return made, publish(work, made.manifest)


def _read(folder: OutputFolder, question: WhatIf, before: Path, manifest: dict[str, Any]) -> Change:
    """Read the question's tables: few rows, checked like every input."""
    types = fold(before).types
    database = Database(None, threads=1, memory_limit="256MB", spill=folder.work / "spill")
    try:
        ledger = TypeLedger(id_types={family: (sql_type, "the published run") for family, sql_type in types.items()})
        tables: list[pa.Table | None] = []
        for role, path, columns, family in (
            ("voided games", question.void, VOID_COLUMNS, GAMES),
            ("excluded players", question.excluded, EXCLUDED_COLUMNS, PLAYERS),
        ):
            if path is None:
                tables.append(None)
                continue
            sources = find_sources([path], role)
            spec = TableSpec(role, columns, {columns[0].name: family}, forgotten=read_forgotten(before))
            reader = TableReader(database, spec, ledger)
            reader.plan(sources)
            reader.create("asked", "played_us")
            reader.stage("asked", sources)
            name = columns[0].name
            tables.append(database.arrow_of(f"select distinct {name} from asked where {name} is not null order by {name}"))
        return Change(voided=tables[0], excluded=tables[1])
    finally:
        database.close()
