"""`eloreplay publish`: the current run of a folder goes to where the users already are; they never see a mixture of two runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eloreplay.console import counted
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.published import chosen, chosen_reading
from eloreplay.queries import DEFAULT_MEMORY
from eloreplay.send_source import TIMELINE, Progress, run_files
from eloreplay.send_target import DEFAULT_SCHEMA, Target, check_schema

PASSWORD_NOTE = (
    "the address holds a password, which other users of this machine can see while the command runs: "
    "PGPASSWORD, PGSERVICE or ~/.pgpass keep it to yourself"
)
Note = Callable[[str], None]


@dataclass(frozen=True)
class SendOptions:
    """How a run is sent.

    Attributes:
        schema: schema of PostgreSQL; None for the usual one.
        everything: send all of it, also what is there already.
        dry_run: only say what would be sent.
        threads: of DuckDB, for a DuckDB file.
        memory_limit: likewise.
    """

    schema: str | None = None
    everything: bool = False
    dry_run: bool = False
    threads: int = 1
    memory_limit: str = DEFAULT_MEMORY


@dataclass
class Report:
    """What was sent, or would be: `to` has no password; `before` is the run that was there; rows are by table."""

    to: str
    run: str
    before: str | None
    dry_run: bool
    rows: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    chunks: int = 0
    unchanged: int = 0
    remade: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rows_sent(self) -> int:
        """Rows of all tables together."""
        return sum(self.rows.values())

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "to": self.to,
            "run": self.run,
            "run_before": self.before,
            "dry_run": self.dry_run,
            "rows_sent": self.rows_sent,
            "rows": self.rows,
            "rows_deleted": self.deleted,
            "chunks_sent": self.chunks,
            "chunks_unchanged": self.unchanged,
            "tables_made_anew": self.remade,
            "seconds": self.seconds,
        }

    def text(self) -> str:
        """For a person: a line, and a second one where something is worth it."""
        instead = "" if self.before in (None, self.run) else f" instead of run {self.before}"
        verb = "would be" if self.dry_run else "is"
        lines = [
            f"run {self.run} {verb} in {self.to}{instead}: {counted(self.rows_sent, 'row')} "
            f"{'to send' if self.dry_run else 'sent'}, {self.rows.get(TIMELINE, 0):,} of them of the timeline "
            f"({counted(self.chunks, 'chunk')} of {self.chunks + self.unchanged:,}; {self.unchanged:,} unchanged)"
        ]
        if not self.dry_run:
            lines[0] += f", {self.seconds:.1f} s"
        return "\n".join(lines)


def send(run: Path, target: Target, options: SendOptions, progress: Progress, note: Note) -> Report:
    """Send a run: what is published in a folder (DIR), or a kept one (DIR@41, DIR/runs/000041).

    Raises:
        UsageFault: there is no such run, or the target is somebody else's.
        EnvironmentFault: no connection, no right, no room.
    """
    chosen(run)  # what cannot be is said before anybody connects
    if options.schema is not None and target.kind != "postgres":
        raise UsageFault("--schema is for postgresql://… only")
    started = time.perf_counter()
    if target.kind == "postgres":
        report = _to_postgres(run, target, options, progress, note)
    elif target.kind == "s3":
        report = _to_s3(run, target, options, progress, note)
    else:
        report = _to_duckdb(run, target, options, progress)
    report.seconds = round(time.perf_counter() - started, 3)
    return report


def _to_postgres(name: Path, target: Target, options: SendOptions, progress: Progress, note: Note) -> Report:
    from eloreplay import send_postgres

    schema = check_schema(DEFAULT_SCHEMA if options.schema is None else options.schema)
    if target.has_password:
        note(PASSWORD_NOTE)
    # The lock comes first: who has waited sends the run that is in force then, and never an older one over a newer.
    with send_postgres.connected(target, schema) as postgres:
        if not options.dry_run:
            send_postgres.lock(postgres, note)
        with chosen_reading(name) as (_, run):
            files = run_files(run, progress)
            sent = send_postgres.send(postgres, files, progress, everything=options.everything, dry_run=options.dry_run)
        if not options.dry_run:
            postgres.commit()
            try:
                send_postgres.analyze(postgres, sorted(sent.rows))
            except EnvironmentFault as error:
                note(f"published, but not analysed: {error}")
    for table in sent.remade:
        note(
            f"{table}: its columns have changed, so the table {'would be' if options.dry_run else 'was'} made anew; rights on it go"
        )
    shown = f"{target.shown} (schema {schema})"
    return Report(
        shown, files.name, sent.before, options.dry_run, sent.rows, sent.deleted, sent.chunks, sent.unchanged, sent.remade
    )


def _to_duckdb(name: Path, target: Target, options: SendOptions, progress: Progress) -> Report:
    from eloreplay import send_duckdb

    path = Path(target.where)
    with send_duckdb.held(path), chosen_reading(name) as (_, run):
        files = run_files(run, progress)
        there = send_duckdb.what_is_there(path)
        report = Report(target.shown, files.name, there[0] if there else None, options.dry_run)
        chunks = len(files.of(TIMELINE))
        if not options.everything and there == (files.name, {part.key for part in files.parts}):
            report.unchanged = chunks
            return report
        report.chunks = chunks
        for part in files.parts:
            report.rows[part.table] = report.rows.get(part.table, 0) + part.rows
        if not options.dry_run:
            send_duckdb.write(path, files, progress, options.threads, options.memory_limit)
    return report


def _to_s3(name: Path, target: Target, options: SendOptions, progress: Progress, note: Note) -> Report:
    from eloreplay import send_s3

    with chosen_reading(name) as (_, run):
        files = run_files(run, progress)
        place = send_s3.Place(target.where)
        there = send_s3.what_is_there(place)
        report = Report(place.shown, files.name, None if there is None else str(there["run"]), options.dry_run)
        chunks = len(files.of(TIMELINE))
        if not options.everything and there is not None and there["folder"] == send_s3.folder_of(files):
            report.unchanged = chunks
            return report
        if options.dry_run:
            known = {} if options.everything else send_s3.known_parts(there)
            sent = [part for part in files.parts if part.sha256 not in known]
        else:
            sent = send_s3.send(place, files, there, progress, options.everything)
            try:
                send_s3.drop_old(place, there, files)
            except EnvironmentFault as error:
                note(f"published, but an old run could not be removed: {error}")
    for part in sent:
        report.rows[part.table] = report.rows.get(part.table, 0) + part.rows
    report.chunks = sum(part.table == TIMELINE for part in sent)
    report.unchanged = chunks - report.chunks
    return report
