"""A club's own games, corrections and lists, as `data/README.md` of the shared folder describes them.

The club prints whole numbers, so its lists agree within 0.5; experience is exact.
"""

from __future__ import annotations

import functools
from itertools import accumulate
from pathlib import Path
from typing import Any

import polars as pl
import support

AS_OF = ("--as-of", "2027-01-01")
CLUB = """
name = "club"
start = 1800
rounding = "none"

[[version]]
name = "1"
divisor = 2000
divide_by = "sqrt_match_length"
k = 1
stake = { base = 4, match_length = "sqrt" }
"""
COLUMNS = ("played_at", "winner_id", "loser_id", "match_length")
Match = tuple[Any, ...]


@functools.cache
def lists(folder: Path) -> dict[str, list[Match]]:
    """The list of matches after each commit: deletes from the back (old positions), then the rest in order (new positions)."""
    edits = pl.read_parquet(folder / "bkk_backgammon_edits.parquet").sort("edit_no")
    now: list[Match] = []
    after = {}
    for (commit,), part in edits.group_by("commit", maintain_order=True):
        for edit in part.filter(op="delete").sort("index", descending=True).to_dicts():
            del now[edit["index"]]
        for edit in part.filter(pl.col("op") != "delete").to_dicts():
            match = tuple(edit[c] for c in ("date", *COLUMNS[1:]))
            if edit["op"] == "replace":
                now[edit["index"]] = match
            elif edit["op"] == "insert":
                now.insert(edit["index"], match)
            else:
                assert edit["index"] == len(now)
                now.append(match)
        after[str(commit)] = list(now)
    return after


@functools.cache
def snapshots(folder: Path) -> pl.DataFrame:
    """The lists that were computed afresh from all matches of their moment, where that moment is known."""
    found = pl.read_parquet(folder / "bkk_backgammon_snapshots.parquet").filter("fresh")
    return found.filter(pl.col("commit").is_in(list(lists(folder))))


def compare(out: support.Out, snapshot: pl.DataFrame) -> None:
    players = {row["player_id"]: row for row in out.ok().rows("players")}
    assert set(players) == set(snapshot["player_id"])
    for row in snapshot.to_dicts():
        mine = players[row["player_id"]]
        assert abs(mine["rating"] - row["rating"]) <= 0.5, (row, mine)
        assert mine["experience"] == row["experience"], (row, mine)


def rows_of(matches: list[Match]) -> list[support.Row]:
    """A list of matches as games. The file's order is the club's order; at two commits its dates are not."""
    days = accumulate((match[0] for match in matches), max)
    return [
        support.game(at, f"{day} 00:00:00", winner, loser, match_length=length)
        for at, (day, (_, winner, loser, length)) in enumerate(zip(days, matches, strict=True))
    ]
