"""One whole run, from files to a published folder: the door, the fold, the tables, the switch."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eloreplay.errors import EnvironmentFault, InputRefused
from eloreplay.games import Inputs, Intake, Report, find_inputs, open_door, write_refused, write_refused_awards
from eloreplay.instants import show_us
from eloreplay.publish import BoardOptions, read_manifest, versions, write_manifest, write_tables, write_views
from eloreplay.queries import DEFAULT_MEMORY, Database
from eloreplay.rating import warm_up
from eloreplay.replay import replay
from eloreplay.rules import Ruleset
from eloreplay.store import OutputFolder, database_home, hold

#: Fewer new rows than this are not judged by their own share: one bad row of three is no 33 % of a night.
NEW_ROWS_WORTH_A_SHARE = 10
#: Bytes a run needs on the disk for each row it reads (working database, spill and timeline, measured, with some room), and a base.
BYTES_A_ROW, BYTES_A_RUN = 160, 64 << 20


@dataclass(frozen=True)
class RunOptions:
    """How a run works; none of it can change a rating.

    Attributes:
        chunk: "month", "week" or "day".
        threads: of DuckDB.
        memory_limit: of DuckDB, as it writes it ("1GB").
        max_rejected: largest share of refused rows that is still published.
        keep: published runs that are kept, the present one included.
        board: who stands on the leaderboard.
    """

    chunk: str = "month"
    threads: int = 2
    memory_limit: str = DEFAULT_MEMORY
    max_rejected: float = 0.01
    keep: int = 3
    board: BoardOptions = field(default_factory=BoardOptions)


@dataclass(frozen=True)
class RunResult:
    """A published run: where it stands and what its manifest says."""

    folder: Path
    manifest: dict[str, Any]


def backfill(
    inputs: Inputs,
    ruleset: Ruleset,
    out: Path,
    as_of_us: int,
    options: RunOptions,
    report: Report,
    note: Callable[[str], None],
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

    Raises:
        EloreplayError: of the kind that the exit code says; the last published run then stands as it was.
    """
    found = find_inputs(inputs)
    with _full_disk_in_words(out), hold(out) as folder:
        for text in folder.notes:
            note(text)
        folder.begin()
        try:
            rows = sum(source.rows for sources in found.values() for source in sources)
            folder.require_space(rows * BYTES_A_ROW + BYTES_A_RUN)
            with database_home(folder.work) as home:
                return _run(folder, home, inputs, found, ruleset, as_of_us, options, report, note)
        finally:
            folder.clean()


@contextlib.contextmanager
def _full_disk_in_words(out: Path) -> Iterator[None]:
    """Whoever meets the end of the disk, Python or Arrow, the message says where."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC and "No space left" not in str(error):
            raise
        raise EnvironmentFault(
            f"{out}: the disk is full (No space left on device); nothing was published: free some space and run again"
        ) from None


def _run(
    folder: OutputFolder,
    home: Path,
    inputs: Inputs,
    found: dict[str, Any],
    ruleset: Ruleset,
    as_of_us: int,
    options: RunOptions,
    report: Report,
    note: Callable[[str], None],
) -> RunResult:
    clock = _Clock()
    run = folder.run
    pool = inputs.pool is not None
    database = Database(
        home / "stage.duckdb",
        threads=options.threads,
        memory_limit=options.memory_limit,
        spill=home / "spill",
    )
    try:
        with ThreadPoolExecutor(1) as compiler:
            compiled = compiler.submit(warm_up, ruleset)
            intake = open_door(database, inputs, found, ruleset, as_of_us, report)
            compile_s = compiled.result()
        for text in intake.notes:
            note(text)
        clock.lap("input")
        _note_an_empty_result(folder, intake, note)
        _stop_if_too_many_refused(database, folder, intake, options.max_rejected, pool)
        result = replay(
            database,
            ruleset,
            intake,
            chunk=options.chunk,
            folder=run / "timeline",
            pool=pool,
            as_of_us=as_of_us,
            report=report,
        )
        clock.lap("rating")
        report("writing tables", 0, 0)
        write_tables(database, run, result, intake, ruleset, options.board, pool)
    finally:
        database.close()
    target = folder.next_run()
    write_views(run, target.absolute(), home, pool)
    clock.lap("tables")
    manifest = {
        "run": target.name,
        "rules": {"name": ruleset.name, "digest": ruleset.digest, "content": ruleset.as_dict()},
        "as_of": show_us(as_of_us),
        "as_of_us": as_of_us,
        "rows_read": intake.rows_read,
        "bins": intake.bins,
        "award_rows_read": intake.award_rows_read,
        "award_bins": intake.award_bins,
        "players": len(result.state),
        "inputs": intake.inputs,
        "input_options": {**dataclasses.asdict(inputs), "mapping": _mapping(inputs)},
        "options": dataclasses.asdict(options),
        "versions": versions(),
        "notes": intake.notes,
        "chunks": result.chunks,
        "timings": {**clock.timings(result.elapsed_s), "compile": round(compile_s, 3)},
    }
    write_manifest(run / "manifest.json", manifest)
    report("publishing", 0, 0)
    return RunResult(folder.publish(options.keep), manifest)


def _mapping(inputs: Inputs) -> dict[str, Any]:
    mapping = inputs.mapping
    return {"columns": mapping.sources, "naive": mapping.naive, "file": None if mapping.file is None else str(mapping.file)}


def _stop_if_too_many_refused(database: Database, folder: OutputFolder, intake: Intake, max_rejected: float, pool: bool) -> None:
    """Stop before anything is published when too many rows are refused; they are written out all the same.

    Three shares are looked at: of all rows, of the rows that are new since the published run, and of the awards.
    """
    new_refused, new_rows = _new_since_published(database, folder, intake)
    for what, refused, rows, bins in (
        ("rows read", intake.rejected, intake.rows_read, intake.bins),
        ("rows that are new in this run", new_refused, new_rows, intake.bins),
        ("awards read", intake.award_rejected, intake.award_rows_read, intake.award_bins),
    ):
        # The quotient, not the product: 29 of 100 is exactly 0.29, while 0.29 * 100 is a little less than 29.
        if refused == 0 or refused / rows <= max_rejected:
            continue
        target = folder.root / "refused"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        write_refused(database, intake, target / "rejected.parquet", pool)
        if intake.award_sources:
            write_refused_awards(database, intake, target / "rejected_awards.parquet", pool)
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


class _Clock:
    """Seconds by step of a run."""

    def __init__(self) -> None:
        self._started = self._last = time.perf_counter()
        self._laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now

    def timings(self, fold: dict[str, float]) -> dict[str, float]:
        """Seconds: `input`, then the parts of the fold, `tables`, `total`; `other` is what no part claims.

        `compile` is beside them and not part of the total: the kernel is compiled while the input is read.
        """
        total = time.perf_counter() - self._started
        parts = {"input": self._laps["input"], **fold, "tables": self._laps["tables"]}
        parts["other"] = max(0.0, total - sum(parts.values()))
        return {name: round(seconds, 3) for name, seconds in {**parts, "total": total}.items()}
