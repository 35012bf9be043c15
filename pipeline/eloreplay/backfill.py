"""One whole run, from files to a published folder: the door, the fold, the tables, the switch."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from eloreplay import journal
from eloreplay.boards import archive_board
from eloreplay.changes import Before, look_back
from eloreplay.conclude import Work, conclude, publish
from eloreplay.console import counted
from eloreplay.errors import EnvironmentFault, InputRefused, UsageFault
from eloreplay.executors import THREADS, Cluster, Workers, cluster
from eloreplay.forgotten import Forgotten, read_forgotten
from eloreplay.games import Inputs, Intake, Report, find_inputs, open_door, write_refused, write_refused_awards
from eloreplay.keeping import keep_rows, kept_days, make_chunks, merged, no_players, undated_bins
from eloreplay.publish import read_manifest
from eloreplay.queries import Database
from eloreplay.rating import warm_up
from eloreplay.replay import nothing_before, number_players, replay
from eloreplay.rowstore import write_undated
from eloreplay.rules import Ruleset
from eloreplay.run import BYTES_A_ROW, BYTES_A_RUN, Clock, RunOptions, RunResult, full_disk_in_words
from eloreplay.sources import Source
from eloreplay.store import OutputFolder, database_home, hold

#: Fewer new rows than this are not judged by their own share: one bad row of three is no 33 % of a night.
NEW_ROWS_WORTH_A_SHARE = 10


def backfill(
    inputs: Inputs,
    ruleset: Ruleset,
    out: Path,
    as_of_us: int,
    options: RunOptions,
    report: Report,
    note: Callable[[str], None],
    rules_source: tuple[str | None, dict[str, int]] = (None, {}),
    workers: Workers = THREADS,
) -> RunResult:
    """Recompute everything from `inputs` under `ruleset` and publish it in `out`.

    Args:
        inputs: what to read.
        ruleset: the settled rules.
        out: the output folder.
        as_of_us: games after this instant are held.
        options: how to work.
        report: told how far it is.
        note: told what a person should know.
        rules_source: name or file of the rules and `--since` as it was given, for a later night to look at.
        workers: who prepares the games and encodes the timeline.

    Raises:
        EloreplayError: of the kind that the exit code says; the last published run then stands as it was.
    """
    found = find_inputs(inputs)
    with full_disk_in_words(out), journal.attempt(out, "backfill") as entry, hold(out) as folder:
        for text in folder.notes:
            note(text)
        journal.repair(out)
        _refuse_to_forget(folder, found["games"])
        folder.begin()
        inputs = replace(inputs, forgotten=inputs.forgotten or _forgotten(folder, note))
        try:
            rows = sum(source.rows for sources in found.values() for source in sources)
            folder.require_space(rows * BYTES_A_ROW + BYTES_A_RUN)
            rules = {"source": rules_source[0], "since": rules_source[1]}
            with (
                at_work(folder, inputs, ruleset, as_of_us, options, report, note, {"rules": rules}, Clock()) as work,
                cluster(workers, folder.work / "shared", options.memory_limit) as helpers,
            ):
                result = _run(work, found, helpers)
        finally:
            folder.clean()
        entry |= journal.of_manifest(result.manifest)
        keep_board(out, result.folder)
        return result


def _forgotten(folder: OutputFolder, note: Callable[[str], None]) -> Forgotten:
    """Who is forgotten in this folder, also by a run that is made from nothing."""
    found = read_forgotten(folder.current)
    if found:
        note("who was forgotten in this folder (eloreplay forget) stays forgotten")
    return found


def _look_back(work: Work, current: Path | None, intake: Intake) -> Before:
    """The run that `changes` compares with; a damaged one counts as none, for a backfill is what mends a damaged folder."""
    try:
        manifest = None if current is None else read_manifest(current)
        return look_back(work.database, current, manifest, intake, work.ruleset, work.pool)
    except EnvironmentFault as fault:
        work.note(f"{fault}; this run is compared with nothing")
        return look_back(work.database, None, None, intake, work.ruleset, work.pool)


def _refuse_to_forget(folder: OutputFolder, games: list[Source]) -> None:
    """Refuse a backfill that would lose the rows of archived files, which the published run alone still holds.

    Raises:
        UsageFault: such files are not among GAMES.
    """
    current = folder.current
    if current is None:
        return
    there = {str(source.path) for source in games}
    archived = [item for item in read_manifest(current)["inputs"] if item.get("archived") and item.get("file") not in there]
    if archived:
        raise UsageFault(
            f"{folder.root}: {counted(len(archived), 'file was', 'files were')} archived (--sealed-before), with games that stand "
            f"only in what the published run keeps ({archived[0]['path']}): a backfill would lose them. Bring back what was "
            "archived and name it, or use another --out"
        )


def keep_board(out: Path, run: Path) -> None:
    """Add a published run's board to the archive; the run is published, and nothing that goes wrong here undoes it."""
    with contextlib.suppress(EnvironmentFault):
        archive_board(out, run)


@contextlib.contextmanager
def at_work(
    folder: OutputFolder,
    inputs: Inputs,
    ruleset: Ruleset,
    as_of_us: int,
    options: RunOptions,
    report: Report,
    note: Callable[[str], None],
    manifest: dict[str, Any],
    clock: Clock,
) -> Iterator[Work]:
    """A run at work, with its database for the length of the block; `manifest["rules"]` says where the rules came from."""
    source = (manifest["rules"].get("source"), manifest["rules"].get("since") or {})
    with database_home(folder.work) as home:
        spill = home / "spill"
        database = Database(home / "stage.duckdb", threads=options.threads, memory_limit=options.memory_limit, spill=spill)
        try:
            yield Work(folder, home, database, inputs, ruleset, as_of_us, options, report, note, source, clock)
        finally:
            database.close()


def _run(work: Work, found: dict[str, Any], helpers: Cluster | None) -> RunResult:
    database, folder = work.database, work.folder
    with ThreadPoolExecutor(1) as compiler:
        compiled = compiler.submit(warm_up, work.ruleset)
        intake = open_door(database, work.inputs, found, work.ruleset, work.as_of_us, work.report)
        compile_s = compiled.result()
    for text in intake.notes:
        work.note(text)
    work.clock.lap("input")
    _note_an_empty_result(folder, intake, work.note)
    database.create_table("refused_kept", "refused_rows")
    refused = _new_since_published(database, folder, intake)
    stop_if_too_many_refused(work, intake, refused)

    database.create_view("kept_rows", "kept_rows")
    database.create_table("file_days", "kept_days")
    row_days = kept_days(database)
    chunks = keep_rows(database, work.run, make_chunks(row_days, intake.days, work.options.chunk, work.as_of_us), row_days)
    write_undated(database, work.run)
    work.clock.lap("storing")

    current = folder.current
    before = _look_back(work, current, intake)
    no_players(database, intake)
    start = nothing_before(database, work.ruleset, number_players(database))
    result = replay(
        database,
        work.ruleset,
        intake,
        start,
        [chunk for chunk in chunks if chunk.games],
        run=work.run,
        pool=work.pool,
        as_of_us=work.as_of_us,
        horizon_us=before.horizon_us,
        report=work.report,
        cluster=helpers,
    )
    work.clock.lap("rating")
    lost = undated_bins(intake.days)
    more: dict[str, Any] = {"kind": "backfill", "compile_s": round(compile_s, 3)}
    if helpers is not None:
        more["executor"] = {"kind": "dask", "workers": helpers.team.size}
    files = len(intake.file_names)
    manifest, _ = conclude(work, intake, result, before, merged(chunks, result.chunks), sum(lost.values()), lost, files, more)
    return publish(work, manifest)


def stop_if_too_many_refused(work: Work, intake: Intake, new: tuple[int, int]) -> None:
    """Stop before anything is published when too many rows are refused; they are written out all the same.

    Three shares are looked at: of all rows, of the rows that are new since the published run, and of the awards.

    Args:
        work: the run.
        intake: what came through the door.
        new: (refused, all) rows that are new.
    """
    new_refused, new_rows = new
    max_rejected = work.options.max_rejected
    for what, refused, rows, bins in (
        ("rows read", intake.rejected, intake.rows_read, intake.bins),
        ("rows that are new in this run", new_refused, new_rows, intake.bins),
        ("awards read", intake.award_rejected, intake.award_rows_read, intake.award_bins),
    ):
        # The quotient, not the product: 29 of 100 is exactly 0.29, while 0.29 * 100 is a little less than 29.
        if refused == 0 or refused / rows <= max_rejected:
            continue
        target = work.folder.root / "refused"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        write_refused(
            work.database.arrow_of("select * from refused_kept order by file_no, row"),
            intake,
            target / "rejected.parquet",
            work.pool,
        )
        if intake.award_sources:
            write_refused_awards(work.database, intake, target / "rejected_awards.parquet", work.pool)
        reasons = bins["rejected"]
        assert isinstance(reasons, dict)
        listed = ", ".join(f"{reason} {count}" for reason, count in reasons.items() if count)
        raise InputRefused(
            f"{refused} of {rows} {what} are refused ({refused / rows:.2%}; {listed}), more than --max-rejected "
            f"{max_rejected:.2%} allows; nothing was published. The refused rows, with file and row, are in {target}: mend them at "
            "their source, void them by the columns file, or raise --max-rejected"
        )


def _note_an_empty_result(folder: OutputFolder, intake: Intake, note: Callable[[str], None]) -> None:
    """Nothing to rate is no fault by itself; where there was something before, a person should hear of it."""
    current = folder.current
    if intake.bins["rated"] or current is None:
        return
    before = read_manifest(current).get("bins", {}).get("rated", 0)
    if before:
        held = f" ({intake.bins['held']} are held: look at --as-of and at the unit of played_at)" if intake.bins["held"] else ""
        note(f"this run rates no game{held}, while the published run {current.name} rated {before}: its leaderboard will be empty")


def _new_since_published(database: Database, folder: OutputFolder, intake: Intake) -> tuple[int, int]:
    """(refused, all) rows of the files that the published run had not read: files are told apart by their content.

    (0, 0) when there is no published run (then every row is new and the share of all rows says it), or when too few are new.
    """
    current = folder.current
    if current is None:
        return 0, 0
    known = {item["sha256"] for item in read_manifest(current).get("inputs", [])}
    new = {
        number: source.rows
        for number, (source, item) in enumerate(zip(intake.sources, intake.inputs, strict=False))
        if item["sha256"] not in known
    }
    if sum(new.values()) <= NEW_ROWS_WORTH_A_SHARE:
        return 0, 0
    by_file = dict(database.rows("refused_by_file"))
    return sum(by_file.get(number, 0) for number in new), sum(new.values())
