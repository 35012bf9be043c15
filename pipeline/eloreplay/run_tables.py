"""What a published run's tables must look like before they are asked: every file is there, and has the columns that a run writes.

Only the ends of the files are read. A table that somebody has replaced, cut or removed is named with what is wrong with it, where
a query would name a column of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.chunks import FOLD
from eloreplay.errors import EnvironmentFault

PLAYED = ("player_id", "rating", "games", "wins", "losses")
#: Columns of the tables that every run has; more may stand in them (`pool`, `band`, those of later versions).
COLUMNS: dict[str, tuple[str, ...]] = {
    "players": (*PLAYED, "draws", "experience", "peak_rating", "peak_at", "last_played_at"),
    "leaderboard": ("rank", *PLAYED, "last_played_at"),
    "awards": ("award_id", "awarded_at", "player_id", "points", "reason", "rating_before", "change"),
    "timeline": (
        *("seq", "game_id", "played_at", "winner_id", "loser_id", "is_draw", "winner_rating_before", "loser_rating_before"),
        *("winner_change", "loser_change", "winner_expected", "winner_k", "loser_k", "stake", "winner_games", "loser_games"),
        *("winner_recent_games", "loser_recent_games", "winner_experience", "loser_experience", "rule_version", "cube"),
        *("match_length", "result", "weight", "advantage"),
    ),
}
#: Of the tables that it keeps to go on from, those that questions are answered by.
KEPT: dict[str, tuple[str, ...]] = {
    "players": ("pool", "player_id"),
    "aliases": ("alias_id", "player_id"),
    "excluded": ("player_id",),
    "start_ratings": ("pool", "player_id", "rating"),
}
#: Of the tables that only a page is made of, those columns that it needs.
AGGREGATES: dict[str, tuple[str, ...]] = {
    "summary": ("statistic", "slice", "slice_value", "value", "low", "high", "games"),
    "calibration": (
        "slice",
        "slice_value",
        "axis",
        "bin_low",
        "bin_high",
        "games",
        "real_rate",
        "real_low",
        "real_high",
        "expected_rate",
    ),
    "changes": ("player_id", "rating_before", "rating_after", "change", "rank_before", "rank_after", "games"),
}
WHAT_TO_DO = "run eloreplay backfill or rollback"


def insist_tables(run: Path) -> None:
    """Refuse a run whose tables are not what a run writes.

    Raises:
        EnvironmentFault: a table is gone, cannot be read or lacks a column; the message names it.
    """
    for text in faults(run):
        raise EnvironmentFault(text)


def faults(run: Path) -> Iterator[str]:
    """What is wrong with the tables of a run, a message for each, which names the file and says what to do."""
    for name in ("players", "leaderboard", "awards"):
        yield from table_faults(run / f"{name}.parquet", COLUMNS[name])
    parts = sorted((run / "timeline").glob("*.parquet"))
    if not parts:
        yield f"{run / 'timeline'} is gone: {WHAT_TO_DO}"
    for path in parts:
        yield from table_faults(path, COLUMNS["timeline"])
    if (run / FOLD).is_dir():
        for name, columns in KEPT.items():
            yield from table_faults(run / FOLD / f"{name}.parquet", columns)


def table_faults(path: Path, columns: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with one table: nothing, or one message."""
    try:
        with path.open("rb") as file:
            there = set(pq.read_schema(file).names)
    except FileNotFoundError:
        yield f"{path} is gone: {WHAT_TO_DO}"
        return
    except (OSError, pa.ArrowException) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        yield f"{path} is not what a run writes (it cannot be read: {text}): {WHAT_TO_DO}"
        return
    missing = [f"'{name}'" for name in columns if name not in there]
    if missing:
        which = f"column {missing[0]} is missing" if len(missing) == 1 else f"columns {', '.join(missing)} are missing"
        yield f"{path} is not what a run writes ({which}): {WHAT_TO_DO}"
