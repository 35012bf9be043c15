"""Which of the game files changed since the published run, by what their inodes, their sizes and, in doubt, their bytes say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eloreplay.console import counted
from eloreplay.errors import InputRefused
from eloreplay.games import input_record
from eloreplay.sources import Source, file_digest

#: Vanished files that a message names.
SHOWN = 5


@dataclass
class NightFiles:
    """The game files of a night.

    Attributes:
        to_read: new files and files that were written anew, in the order of their paths.
        records: the manifest's list of game files, `sha256` still missing for those that are to be read, by number.
        rewritten: numbers of files whose old rows are in doubt: written anew, or gone.
        gone: numbers of those that are gone for good.
        next_file: the number after the last one.
        names: number to the name as shown, for `rejected`.
        notes: what a person should know.
    """

    to_read: list[Source] = field(default_factory=list)
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    numbers: dict[Path, int] = field(default_factory=dict)
    rewritten: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    next_file: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> dict[int, str]:
        """Number to the name as shown."""
        return {number: str(record["path"]) for number, record in self.records.items()}

    @property
    def rows(self) -> int:
        """Rows of all files that are in force."""
        return sum(int(record["rows"]) for record in self.records.values())


def game_records(manifest: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The game files of a run by their number."""
    return {record["number"]: dict(record) for record in manifest["inputs"] if record["table"] == "games"}


def known_sources(manifest: Mapping[str, Any]) -> dict[Path, Source]:
    """The game files of a run as they were, so that those that nobody touched need not be opened."""
    return {
        Path(record["file"]): Source(
            path=Path(record["file"]),
            shown=record["path"],
            size=record["bytes"],
            rows=record["rows"],
            names=(),
            schema_key="",
            identity=(record["inode"], record["bytes"], record["modified_ns"]),
            changed_ns=record["changed_ns"],
        )
        for record in game_records(manifest).values()
        if not record.get("archived")
    }


def compare_files(
    manifest: Mapping[str, Any],
    found: list[Source],
    last_instants: Mapping[int, int],
    next_file: int,
    allow_missing: bool,
    sealed_before_us: int | None,
) -> NightFiles:
    """Hold the files that are there against those of the published run.

    A file is the same when neither its inode, size nor times changed, or else when its bytes (SHA-256) are the same, also under
    another name. Every other file is read.

    Args:
        manifest: of the published run.
        found: the files of now.
        last_instants: number of a file to the last instant of its rows, microseconds.
        next_file: the number for the first new file.
        allow_missing: take the rows of a vanished file out instead of refusing.
        sealed_before_us: a vanished file all of whose rows are older was archived: its stored rows stay.

    Raises:
        InputRefused: a file of the published run is gone.
    """
    before = game_records(manifest)
    by_path = {Path(record["file"]): number for number, record in before.items()}
    night = NightFiles(next_file=next_file)
    strange: list[Source] = []
    for source in found:
        number = by_path.get(source.path)
        if number is None:
            strange.append(source)
            continue
        record = before[number]
        if _untouched(source, record) or (source.size == record["bytes"] and file_digest(source) == record["sha256"]):
            night.records[number] = input_record("games", source, record["sha256"], number)
            continue
        night.rewritten.add(number)
        _take(night, source, number)

    vanished = {number: record for number, record in before.items() if number not in night.records}
    by_content: dict[tuple[int, str], list[int]] = {}
    for number, record in vanished.items():
        by_content.setdefault((record["bytes"], record["sha256"]), []).append(number)
    sizes = {record["bytes"] for record in vanished.values()}
    for source in strange:
        same = by_content.get((source.size, file_digest(source)), []) if source.size in sizes else []
        if same:
            number = same.pop(0)
            night.records[number] = input_record("games", source, vanished.pop(number)["sha256"], number)
            continue
        _take(night, source, night.next_file)
        night.next_file += 1

    missing = []
    for number, record in vanished.items():
        last = last_instants.get(number)
        sealed = sealed_before_us is not None and (last is None or last < sealed_before_us)
        if record.get("archived") or sealed:
            night.records[number] = {**record, "archived": True}
        else:
            missing.append(number)
    if missing and not allow_missing:
        shown = ", ".join(str(before[number]["path"]) for number in missing[:SHOWN])
        raise InputRefused(
            f"{len(missing)} of the files that the published run read {'are' if missing[1:] else 'is'} gone: {shown}"
            f"{', …' if len(missing) > SHOWN else ''}; nothing was published. GAMES is always the whole history: is a mount "
            "missing? If their games really are to be taken out, add --allow-missing; if the files were archived, say so with "
            "--sealed-before"
        )
    for number in missing:
        night.rewritten.add(number)
        night.gone.add(number)
        rows = counted(before[number]["rows"], "row is", "rows are")
        night.notes.append(f"{before[number]['path']} is gone; its {rows} taken out (--allow-missing)")
    return night


def _untouched(source: Source, record: Mapping[str, Any]) -> bool:
    """Whether nobody has touched the file since: not even its name or its rights."""
    stands = (record["inode"], record["bytes"], record["modified_ns"]), record["changed_ns"]
    return (source.identity, source.changed_ns) == stands


def _take(night: NightFiles, source: Source, number: int) -> None:
    night.to_read.append(source)
    night.numbers[source.path] = number
    night.records[number] = input_record("games", source, "", number)
