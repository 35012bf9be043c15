"""A night: the next step of the fold, from the published run to the one that a backfill of today's files would give.

In order: which files changed (`night_files`), which rows of them, and from which instant on that moves a rating (`night_rows`); the
chunks of time before that instant are taken over as they are, by links; those after it are judged and rated again by the very code
of a backfill (`games`, `replay`). What it costs follows what changed, not the length of the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eloreplay import journal
from eloreplay.again import OLD_FOLDER, inputs_of, options_of, unchanged_ruleset
from eloreplay.backfill import at_work, keep_board
from eloreplay.changes import Before
from eloreplay.chunks import FOLD, read_fold
from eloreplay.conclude import publish
from eloreplay.console import counted
from eloreplay.errors import BudgetExceeded, InputRefused, UsageFault
from eloreplay.forgotten import read_forgotten
from eloreplay.games import Report, find_inputs, input_record
from eloreplay.instants import show_us
from eloreplay.night_files import NightFiles, compare_files, game_records, known_sources
from eloreplay.publish import read_manifest
from eloreplay.run import BYTES_A_ROW, BYTES_A_RUN, Clock, RunOptions, RunResult, full_disk_in_words
from eloreplay.sources import OUTPUT_MARKER, Source, file_digest
from eloreplay.step import Change, Step
from eloreplay.store import OutputFolder, current_run, hold
from eloreplay.tables import read_kept

#: Shares of games restated and of players moved that a night may have without being asked for; and so many are never too many.
MAX_RESTATED, MAX_MOVED, NEVER_TOO_MANY = 0.01, 0.05, 10
#: A player has moved when his rating is so many points away from what it was.
MOVED_POINTS = 100


@dataclass(frozen=True)
class NightOptions:
    """What a night may do and what is asked of it.

    Attributes:
        allow_missing: take the rows of vanished files out.
        sealed_before_us: files whose rows are all older may be archived; None: what the run before said.
        dry_run: work it out and publish nothing.
        max_restated: share of games that may be restated; None: `MAX_RESTATED`, and never fewer than `NEVER_TOO_MANY`.
        max_moved: share of players that may move by more than `MOVED_POINTS`; None likewise.
        accept_changes: publish whatever the two shares are.
        min_new_games: fewer new games are stale data.
        stop_if_stale: stop then, instead of only saying so.
        overrides: side tables given anew ("awards", "aliases", "excluded", "start_ratings"): path, or absent to keep.
        threads: of DuckDB, or None to keep; likewise `memory_limit`, `max_rejected`.
    """

    allow_missing: bool = False
    sealed_before_us: int | None = None
    dry_run: bool = False
    max_restated: float | None = None
    max_moved: float | None = None
    accept_changes: bool = False
    min_new_games: int | None = None
    stop_if_stale: bool = False
    overrides: tuple[tuple[str, str], ...] = ()
    threads: int | None = None
    memory_limit: str | None = None
    max_rejected: float | None = None


@dataclass(frozen=True)
class NightResult:
    """How a night ended.

    Attributes:
        run: the published run (the one before, when nothing had changed or nothing was to be published).
        published: whether a new run was published.
        night: what happened, as in the manifest's key "night".
        changes: the table `changes`, or None when nothing was worked out.
    """

    run: RunResult
    published: bool
    night: dict[str, Any]
    changes: pa.Table | None


def nightly(
    games: tuple[str, ...],
    out: Path,
    as_of_us: int,
    options: NightOptions,
    report: Report,
    note: Callable[[str], None],
) -> NightResult:
    """Bring the published run of `out` up to what the files in `games` say now.

    Args:
        games: the whole history: files, folders or wildcards.
        out: a folder with a published run; rules and options come from its manifest.
        as_of_us: games after this instant are held.
        options: what the night may do.
        report: told how far it is.
        note: told what a person should know.

    Raises:
        EloreplayError: of the kind that the exit code says; the last published run then stands as it was.
    """
    if not (out / OUTPUT_MARKER).is_file() or current_run(out) is None:
        raise UsageFault(f"{out}: there is no published run to go on from; start with eloreplay backfill … --out {out}")
    with full_disk_in_words(out), journal.attempt(out, "nightly") as entry, hold(out) as folder:
        for text in folder.notes:
            note(text)
        journal.repair(out)
        current = folder.current
        assert current is not None
        folder.begin()
        try:
            result = _Night(folder, current, games, as_of_us, options, report, note).work()
        finally:
            folder.clean()
        if result.published:
            counts = {name: result.night[name] for name in ("new_games", "restated_games")}
            entry |= journal.of_manifest(result.run.manifest) | counts
            keep_board(out, result.run.folder)
        else:
            entry |= {"outcome": "dry run" if options.dry_run else journal.NOTHING_NEW, "as_of": show_us(as_of_us)}
        return result


class _Night:
    """One night at work."""

    def __init__(
        self,
        folder: OutputFolder,
        current: Path,
        games: tuple[str, ...],
        as_of_us: int,
        night: NightOptions,
        report: Report,
        note: Callable[[str], None],
    ) -> None:
        self.clock = Clock()
        self.folder, self.before, self.as_of_us = folder, current, as_of_us
        self.night, self.report, self.note = night, report, note
        self.manifest = read_manifest(current)
        fold = read_fold(current)
        if fold is None:
            raise UsageFault(f"{folder.root}: the published run {current.name} {OLD_FOLDER}")
        if self.manifest.get("kind") == "what-if":
            raise UsageFault(f"{folder.root}: holds a what-if, which no night goes on from; name the folder of the real runs")
        self.fold = fold
        self.ruleset = unchanged_ruleset(self.manifest)
        overrides: dict[str, Any] = dict(night.overrides)
        self.inputs = replace(inputs_of(self.manifest, games), forgotten=read_forgotten(current), **overrides)
        changed = {name: getattr(night, name) for name in ("threads", "memory_limit", "max_rejected")}
        self.options: RunOptions = replace(options_of(self.manifest), **{k: v for k, v in changed.items() if v is not None})
        sealed = [us for us in (night.sealed_before_us, self.manifest.get("sealed_before_us")) if us is not None]
        self.sealed_before_us = max(sealed, default=None)

    def work(self) -> NightResult:
        """Look at the files, and take the step that they call for."""
        self.report("looking at files", 0, 0)
        found = find_inputs(self.inputs, known_sources(self.manifest))
        files = compare_files(
            self.manifest,
            found["games"],
            self._last_instants(),
            self.fold.next_file,
            self.night.allow_missing,
            self.sealed_before_us,
        )
        for text in files.notes:
            self.note(text)
        side = self._side_records(found)
        if self._is_the_same(files, side):
            self._stop_if_stale(0)
            run = RunResult(self.before, self.manifest)
            return NightResult(run, False, {"nothing_new": True, "as_of": show_us(self.as_of_us)}, None)
        rows = sum(source.rows for source in files.to_read)
        self.folder.require_space(rows * BYTES_A_ROW + BYTES_A_RUN)
        with at_work(
            self.folder, self.inputs, self.ruleset, self.as_of_us, self.options, self.report, self.note, self.manifest, self.clock
        ) as work:
            step = Step(work, self.before, "nightly", Change())
            made = step.run(found, files, side, {"sealed_before_us": self.sealed_before_us}, self._object_to)
            made.manifest["night"]["moved_players"] = self._stop_if_moved(made.before, made.changes)
            if self.night.dry_run:
                return NightResult(RunResult(self.before, made.manifest), False, made.manifest["night"], made.changes)
            return NightResult(publish(work, made.manifest), True, made.manifest["night"], made.changes)

    def _object_to(self, restated: dict[str, Any]) -> None:
        """What may stop a night before anything is rated."""
        self._stop_if_stale(restated["new_games"])
        self._stop_if_restated(restated)

    def _last_instants(self) -> dict[int, int]:
        """The last instant of each file's rows that belong to a chunk of time, microseconds."""
        table = read_kept(self.before / FOLD / "file_days.parquet", ["file_no", "day", "last_us"])
        rows = table.filter(pa.compute.is_valid(table["day"])).group_by("file_no").aggregate([("last_us", "max")])
        return dict(zip(rows["file_no"].to_pylist(), rows["last_us_max"].to_pylist(), strict=True))

    def _side_records(self, found: dict[str, list[Source]]) -> list[dict[str, Any]]:
        """The side tables as the manifest lists them; they are few rows and are read every night."""
        return [
            dict(input_record(role, source, file_digest(source), None))
            for role, sources in found.items()
            if role != "games"
            for source in sources
        ]

    def _is_the_same(self, files: NightFiles, side: list[dict[str, Any]]) -> bool:
        """Whether nothing at all is different from the published run's inputs."""

        def content(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
            return sorted((record["table"], record["sha256"]) for record in records if record["table"] != "games")

        records = game_records(self.manifest)
        return (
            not files.to_read
            and not files.rewritten
            and self.as_of_us == self.manifest["as_of_us"]
            and content(side) == content(self.manifest["inputs"])
            and {n: (r["file"], bool(r.get("archived"))) for n, r in files.records.items()}
            == {n: (r["file"], bool(r.get("archived"))) for n, r in records.items()}
            and self.sealed_before_us == self.manifest.get("sealed_before_us")
            and self.options.board == options_of(self.manifest).board
        )

    def _stop_if_stale(self, new_games: int) -> None:
        wanted = self.night.min_new_games
        if wanted is None or new_games >= wanted:
            return
        text = f"{counted(new_games, 'new game')} since the published run {self.before.name}, fewer than --min-new-games {wanted}"
        if self.night.stop_if_stale:
            raise InputRefused(f"{text}: the data is stale; nothing was published")
        self.note(f"{text}: is the data stale?")

    def _stop_if_restated(self, restated: dict[str, Any]) -> None:
        """The first half of the change budget, before anything is rated."""
        games, rated = restated["restated_games"], self.manifest["bins"]["rated"]
        limit = MAX_RESTATED if self.night.max_restated is None else self.night.max_restated
        few = self.night.max_restated is None and games <= NEVER_TOO_MANY
        if self.night.accept_changes or self.night.dry_run or not rated or few or games / rated <= limit:
            return
        kinds = ", ".join(f"{count} {kind}" for kind, count in restated["restated"].items())
        raise BudgetExceeded(
            f"{games:,} of {counted(rated, 'published game')} would be restated ({games / rated:.2%}: {kinds}), more than "
            f"--max-restated {limit:.2%} allows; nothing was published. Look at what was delivered (--dry-run shows more); if it "
            "is right, run again with --accept-changes"
        )

    def _stop_if_moved(self, before: Before, changes: pa.Table) -> int:
        """The other half: how many players would move far by what of the past is restated; returns their number.

        New games move players as well, many of them after some missed nights, and are no reason to stop.
        """
        change = changes["restated_change"].to_numpy(zero_copy_only=False).astype(np.float64)
        moved = int(np.count_nonzero(np.abs(change) > MOVED_POINTS))
        limit = MAX_MOVED if self.night.max_moved is None else self.night.max_moved
        few = self.night.max_moved is None and moved <= NEVER_TOO_MANY
        if self.night.accept_changes or self.night.dry_run or not before.players or few or moved / before.players <= limit:
            return moved
        raise BudgetExceeded(
            f"{moved:,} of {counted(before.players, 'player')} would be moved by over {MOVED_POINTS} points by what is restated "
            f"({moved / before.players:.2%}), more than --max-moved {limit:.2%} allows; nothing was published. Look at what was "
            "delivered (--dry-run shows more); if it is right, run again with --accept-changes"
        )
