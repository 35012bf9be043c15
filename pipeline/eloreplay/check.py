"""`eloreplay check`: what a backfill would make of the rows, and how good the data is, without rating or publishing anything.

Each figure is one query, `sql/quality_*.sql`, over the rows that the door has judged; the words for it are in `findings`.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eloreplay.columns import GAME_COLUMNS
from eloreplay.errors import EnvironmentFault
from eloreplay.games import Inputs, Intake, Report, find_inputs, open_door
from eloreplay.instants import show_us
from eloreplay.interrupts import interrupted_by
from eloreplay.queries import DEFAULT_MEMORY, Database
from eloreplay.rules import Ruleset

#: Two games of one pair with the same result this close together look like one game sent twice.
DOUBLE_SUBMIT_S = 90
#: A day is sudden when a player has more than so many times his own median, and at least so many games.
SUDDEN_TIMES, SUDDEN_GAMES = 10, 50
#: A stretch without any game is long when it is longer than this.
LONG_GAP_S = 24 * 3600
#: Rows shown of each list, and values of each column; the totals are always of all.
SHOWN, SHOWN_VALUES = 10, 12
#: Bytes of working space for each row read (measured, with some room), and a base.
BYTES_A_ROW, BYTES_A_CHECK = 200, 64 << 20
SECOND_US = 1_000_000
#: Two columns with one of these in their names look like the scores of two sides.
SCORE_WORDS = ("score", "points", "goals")

#: Result in the report to its query; those that give one row, and those that give a list.
SINGLE = {"span": "quality_span", "ties": "quality_ties", "players": "quality_players", "copies": "quality_copies"}
LISTS: dict[str, tuple[str, dict[str, int]]] = {
    "months": ("quality_months", {}),
    "values": ("quality_values", {"shown": SHOWN_VALUES}),
    "gaps": ("quality_gaps", {"shown": SHOWN, "long_us": LONG_GAP_S * SECOND_US}),
    "double_submits": ("quality_double_submits", {"shown": SHOWN, "within_us": DOUBLE_SUBMIT_S * SECOND_US}),
    "lookalikes": ("quality_lookalikes", {"shown": SHOWN}),
    "largest_days": ("quality_largest_days", {"shown": SHOWN}),
    "sudden_days": ("quality_sudden_days", {"shown": SHOWN, "times": SUDDEN_TIMES, "at_least": SUDDEN_GAMES}),
}
#: Of a list: what stands in every row because it is true of all, also of what is not shown.
TOTALS = {
    "gaps": ("long_gaps",),
    "double_submits": ("total", "total_rated", "pairs"),
    "lookalikes": ("total",),
    "sudden_days": ("total", "players"),
}


INSTANTS = {"from_us": "from", "to_us": "to", "day_us": "day"}


@dataclass(frozen=True)
class CheckOptions:
    """How a check works.

    Attributes:
        threads: of DuckDB.
        memory_limit: of DuckDB, as it writes it ("1GB").
        max_rejected: the share of refused rows above which a backfill would stop.
    """

    threads: int = 2
    memory_limit: str = DEFAULT_MEMORY
    max_rejected: float = 0.01


def check(
    inputs: Inputs,
    ruleset: Ruleset,
    as_of_us: int,
    options: CheckOptions,
    report: Report,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Read and judge every row of `inputs`, look at its quality, and leave nothing behind.

    Args:
        inputs: what to read.
        ruleset: the rules that decide a row's bin.
        as_of_us: games after this instant are held.
        options: how to work.
        report: told how far it is.
        note: told what a person should know.

    Returns:
        What was found, as plain values (instants as ISO text): what `--json` prints and `findings.text` words.

    Raises:
        EloreplayError: as a backfill would: inputs that cannot be read at all, a wrong mapping, the machine.
    """
    found = find_inputs(inputs)
    rows = sum(source.rows for sources in found.values() for source in sources)
    with _scratch(rows * BYTES_A_ROW + BYTES_A_CHECK) as folder:
        database = Database(
            folder / "check.duckdb", threads=options.threads, memory_limit=options.memory_limit, spill=folder / "spill"
        )
        try:
            intake = open_door(database, inputs, found, ruleset, as_of_us, report)
            for text in intake.notes:
                note(text)
            quality = _quality(database, report)
        finally:
            database.close()
    rejected, share = intake.rejected, intake.rejected / intake.rows_read if intake.rows_read else 0.0
    return {
        "rules": ruleset.name,
        "as_of": show_us(as_of_us),
        "files": len(intake.sources),
        "rows_read": intake.rows_read,
        "bins": intake.bins,
        "rejected": rejected,
        "rejected_share": share,
        "max_rejected": options.max_rejected,
        "backfill_would_stop": share > options.max_rejected,
        "absent_columns": _absent(inputs, intake),
        "score_columns": _scores(inputs, intake),
        "limits": {
            "double_submit_s": DOUBLE_SUBMIT_S,
            "long_gap_s": LONG_GAP_S,
            "sudden_times": SUDDEN_TIMES,
            "sudden_games": SUDDEN_GAMES,
            "shown": SHOWN,
            "shown_values": SHOWN_VALUES,
        },
        **quality,
    }


def _quality(database: Database, report: Report) -> dict[str, Any]:
    """Every figure of the data's quality: name to one row, or to its totals with `shown`, the rows that are shown."""
    steps = 3 + len(SINGLE) + len(LISTS)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        report("looking at the data", done, steps)

    database.create_table("quality_games", "quality_games")
    step()
    database.create_view("quality_sides", "quality_sides")
    step()
    database.create_table("quality_player_days", "quality_player_days")
    step()
    result: dict[str, Any] = {}
    for name, query in SINGLE.items():
        (result[name],) = _rows(database, query, {})
        step()
    for name, (query, parameters) in LISTS.items():
        rows = _rows(database, query, parameters)
        totals = {key: rows[0][key] if rows else 0 for key in TOTALS.get(name, ())}
        shown = [{key: value for key, value in row.items() if key not in totals} for row in rows]
        result[name] = {**totals, "shown": shown} if totals else shown
        step()
    return result


def _rows(database: Database, query: str, parameters: dict[str, int]) -> list[dict[str, Any]]:
    """A query's few rows as plain values; instants (`…_us`) become ISO text under the name `INSTANTS` gives, else `…_at`."""
    rows = []
    for row in database.arrow(query, parameters).to_pylist():
        instants = {key: show_us(value) for key, value in row.items() if key.endswith("_us")}
        rows.append({_plain_name(key): instants.get(key, value) for key, value in row.items()})
    return rows


def _plain_name(key: str) -> str:
    return INSTANTS.get(key, f"{key[:-3]}_at") if key.endswith("_us") else key


def _absent(inputs: Inputs, intake: Intake) -> list[str]:
    """The optional columns that no file has and nothing maps: their defaults hold."""
    names = {name for source in intake.sources for name in source.names}
    return [c.name for c in GAME_COLUMNS if not c.required and c.name not in names and c.name not in inputs.mapping.sources]


def _scores(inputs: Inputs, intake: Intake) -> list[str]:
    """Columns that look like the scores of the two sides, when no draw can be told from the rows as they are mapped."""
    names = sorted({name for source in intake.sources for name in source.names})
    if "is_draw" in names or "is_draw" in inputs.mapping.sources:
        return []
    found = [[name for name in names if word in name.lower()] for word in SCORE_WORDS]
    return sorted({name for alike in found if len(alike) > 1 for name in alike})


@contextlib.contextmanager
def _scratch(needed: int) -> Iterator[Path]:
    """A folder for the working database that is gone afterwards, also when the check is ended by a signal that asks for it.

    Raises:
        EnvironmentFault: there is no such folder, or too little room in it.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="eloreplay-check-"))
    except OSError as error:
        raise EnvironmentFault(
            f"no folder for the working database: {error.strerror}; set TMPDIR to one that can be written"
        ) from None
    try:
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise EnvironmentFault(
                f"{folder.parent}: about {needed >> 20} MiB are needed to look at these files and {free >> 20} MiB are free; set "
                "TMPDIR to a folder with more room"
            )
        with interrupted_by(signal.SIGTERM, signal.SIGHUP):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
