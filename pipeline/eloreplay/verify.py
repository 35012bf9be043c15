"""Is the published run what its inputs give? Everything is computed again beside it and compared value by value.

The published run is only read. The folder is held meanwhile, so that no night changes it under the comparison; what is computed
goes into its `work` folder and is removed at the end, whatever happens.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eloreplay import journal
from eloreplay.again import options_of, ruleset_of
from eloreplay.backfill import backfill
from eloreplay.chunks import Chunk
from eloreplay.columns import ColumnMapping
from eloreplay.compare import compare_runs
from eloreplay.differences import Difference
from eloreplay.errors import UsageFault
from eloreplay.forgotten import read_forgotten
from eloreplay.games import Inputs, Report, find_inputs, input_record
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.interrupts import interrupted_by
from eloreplay.night_files import NightFiles, game_records
from eloreplay.publish import read_manifest
from eloreplay.published import published_run
from eloreplay.run import full_disk_in_words
from eloreplay.sources import file_digest
from eloreplay.step import Change
from eloreplay.store import hold
from eloreplay.verdict import Verdict, changed_inputs
from eloreplay.what_if import fold, go_on

EQUAL = "equal"
DIFFERS = "differs"
#: What a sentence calls the two sides.
NAMES = ("the published run", "the recomputed one")
#: Keys of a manifest without which a run cannot be computed again.
NEEDED = ("rules", "as_of_us", "inputs", "input_options", "options", "bins")


@dataclass(frozen=True)
class Way:
    """One way to compute the published run again.

    Attributes:
        name: where it begins, for the progress ("from zero").
        recompute: gets an empty folder of its own, returns the run's folder in it.
    """

    name: str
    recompute: Callable[[Path], Path]


def verify(
    games: tuple[str, ...],
    out: Path,
    replaced: dict[str, Any],
    report: Report,
    note: Callable[[str], None],
    threads: int,
    memory_limit: str,
    sample: int | None = None,
    seed: int = 0,
) -> Verdict:
    """Compute the published run of `out` again from its inputs, with its own rules, as-of and options, and compare.

    Args:
        games: files, folders or wildcards: the whole history, as the run read it.
        out: the output folder.
        replaced: side tables that are given instead of those that the manifest names (keys as in `Inputs`).
        report: told how far it is.
        note: told what a person should know.
        threads: of DuckDB.
        memory_limit: of DuckDB.
        sample: instead of from zero, compute it again from so many stored states, picked by chance.
        seed: of the picking.

    Raises:
        UsageFault: nothing is published in `out`, or by a version of eloreplay that noted too little.
        FolderBusy: a run is at work on it.
        InputRefused: an input cannot be read at all.
        EnvironmentFault: disk, memory.
    """
    published_run(out)
    with (
        journal.attempt(out, "verify") as entry,
        interrupted_by(signal.SIGTERM, signal.SIGHUP),
        full_disk_in_words(out),
        hold(out) as folder,
    ):
        for text in folder.notes:
            note(text)
        published = published_run(out)
        manifest = read_manifest(published)
        missing = [key for key in NEEDED if key not in manifest]
        if missing:
            raise UsageFault(f"{published / 'manifest.json'}: has no {missing[0]}, so the run cannot be computed again")
        folder.begin()
        try:
            inputs = dataclasses.replace(_inputs(games, manifest), forgotten=read_forgotten(published), **replaced)
            read: list[dict[str, Any]] = []
            machine = (report, note, threads, memory_limit)
            if sample is not None:
                found = find_inputs(inputs)
                read += [input_record(role, one, file_digest(one), None) for role, files in found.items() for one in files]
                read += [item for item in manifest["inputs"] if item.get("archived")]
                wanted = _from_states(published, _noted(manifest, replaced), sample, seed, *machine)
            elif any(item.get("archived") for item in manifest["inputs"]):
                wanted = [_with_archived(published, inputs, _noted(manifest, replaced), *machine, read)]
            else:
                wanted = [_from_zero(inputs, manifest, *machine, read)]
            difference, ways = _compare(published, wanted, folder.work / "verify", report)
            changed = changed_inputs(manifest["inputs"], read)
        finally:
            folder.clean()
        entry |= {"run": published.name, "as_of": manifest.get("as_of"), "outcome": DIFFERS if difference else EQUAL}
        if difference:
            entry |= {"exit_code": 6, "message": str(difference)[: journal.MESSAGE_CHARS]}
    return Verdict(published.name, manifest, difference, ways, changed)


def _compare(published: Path, ways: Sequence[Way], scratch: Path, report: Report) -> tuple[Difference | None, list[str]]:
    """The published run against each way of computing it, up to the first difference; and the ways that were gone."""
    gone: list[str] = []
    for number, way in enumerate(ways):
        gone.append(way.name)
        place = scratch / f"{number + 1}"
        again = way.recompute(place)
        report("comparing", 0, 0)
        difference = compare_runs(published, again, NAMES)
        shutil.rmtree(place, ignore_errors=True)
        if difference is not None:
            return difference, gone
    return None, gone


def _from_zero(
    inputs: Inputs,
    manifest: dict[str, Any],
    report: Report,
    note: Callable[[str], None],
    threads: int,
    memory_limit: str,
    read: list[dict[str, Any]],
) -> Way:
    """A whole backfill; `read` is told which files it read."""
    # However many rows are refused, the run is published already: here they are only compared.
    options = dataclasses.replace(options_of(manifest), threads=threads, memory_limit=memory_limit, max_rejected=1.0, keep=1)

    def recompute(scratch: Path) -> Path:
        scratch.parent.mkdir(parents=True, exist_ok=True)
        result = backfill(inputs, ruleset_of(manifest), scratch, manifest["as_of_us"], options, report, note)
        read.extend(result.manifest["inputs"])
        return result.folder

    return Way("from zero", recompute)


def _from_states(
    published: Path,
    manifest: dict[str, Any],
    sample: int,
    seed: int,
    report: Report,
    note: Callable[[str], None],
    threads: int,
    memory_limit: str,
) -> list[Way]:
    """From the states that the run keeps at the end of some chunks, picked by chance; all of them if there are not so many."""
    chunks = [chunk for chunk in fold(published).chunks if chunk.games]
    if not chunks:
        raise UsageFault(f"{published}: no game is rated, so there is no state to begin at; verify it without --sample")
    picked = sorted(random.Random(seed).sample(range(len(chunks)), min(sample, len(chunks))))

    def way(chunk: Chunk) -> Way:
        def recompute(scratch: Path) -> Path:
            with hold(scratch) as folder:
                folder.begin()
                change = Change(from_us=chunk.from_us)
                _, run = go_on(folder, published, manifest, change, "verify", {}, threads, memory_limit, report, note, keep=1)
            return run.folder

        return Way(f"from the state before {show_us(chunk.from_us) or chunk.from_us}", recompute)

    return [way(chunks[number]) for number in picked]


def _with_archived(
    published: Path,
    inputs: Inputs,
    manifest: dict[str, Any],
    report: Report,
    note: Callable[[str], None],
    threads: int,
    memory_limit: str,
    read: list[dict[str, Any]],
) -> Way:
    """Everything rated again; the rows of files that were archived come from what the run keeps, all others from the files."""

    def recompute(scratch: Path) -> Path:
        found = find_inputs(inputs)
        files = NightFiles(records=game_records(manifest), next_file=fold(published).next_file)
        by_path = {record["file"]: number for number, record in files.records.items()}
        for source in found["games"]:
            number = by_path.get(str(source.path), files.next_file)
            files.next_file = max(files.next_file, number + 1)
            files.to_read.append(source)
            files.numbers[source.path] = number
            files.rewritten.add(number)
            files.records[number] = input_record("games", source, file_digest(source), number)
        read.extend(files.records.values())
        # Other tables than the run's own are refused by the step.
        read.extend(item for item in manifest["inputs"] if item["table"] != "games")
        with hold(scratch) as folder:
            folder.begin()
            change = Change(from_us=BEGINNING_US)
            _, run = go_on(
                folder, published, manifest, change, "verify", {}, threads, memory_limit, report, note, keep=1, files=files
            )
        return run.folder

    return Way("from zero, archived files from the stored rows", recompute)


def _inputs(games: tuple[str, ...], manifest: dict[str, Any]) -> Inputs:
    """The inputs with the columns as the run mapped them, whatever its columns file says by now."""
    given = manifest["input_options"]
    mapping = given["mapping"]
    return Inputs(
        games=games,
        mapping=ColumnMapping(
            dict(mapping["columns"]), mapping["naive"], None if mapping["file"] is None else Path(mapping["file"])
        ),
        **{key: given[key] for key in ("pool", "awards", "aliases", "excluded", "start_ratings")},
    )


def _noted(manifest: dict[str, Any], replaced: dict[str, Any]) -> dict[str, Any]:
    """The manifest for going on from what the run keeps: side tables where they stand now, and the columns as they were mapped."""
    given = manifest["input_options"]
    # No file is there, so nobody compares the mapping with what its columns file says by now.
    mapping = {**given["mapping"], "file": None if given["mapping"]["file"] is None else os.devnull}
    return {**manifest, "input_options": {**given, **replaced, "mapping": mapping}}
