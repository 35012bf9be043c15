"""Sections on boards: the top with its movement, who moved most, and the ladders side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from eloreplay.console import printable
from eloreplay.report_parts import NONE, Block, Figure, Part, Section, Table, Text, count, number, share
from eloreplay.report_source import Ladder, Tables

TOP, MOVERS = 20, 5


def rating_text(value: float | int | None, sign: bool = False) -> str:
    """A rating as people read it: whole where the rules are, else with one digit."""
    return NONE if value is None else number(value, 0 if isinstance(value, int) else 1, sign)


def top_section(ladder: Ladder) -> Section:
    """The first twenty with their movement, and who moved most."""
    tables = ladder.tables
    board = _of_pool(ladder, tables.read("leaderboard")).head(TOP)
    title = f"Top {board.height}" if board.height else "Top of the board"
    if not board.height:
        return Section("top", title, [["Nobody stands on the board yet."]])
    changes = _of_pool(ladder, tables.read("changes")) if tables.has("changes") else pl.DataFrame()
    moved = bool(changes.height and changes["rating_before"].is_not_null().any())
    compared = moved or not changes.height
    before = (
        {row["player_id"]: row for row in changes.filter(pl.col("player_id").is_in(board["player_id"].to_list())).to_dicts()}
        if moved
        else {}
    )
    stood = _ranks_before(ladder, board, changes) if moved else {}
    rows: list[list[Text]] = [
        _board_row(ladder, row, before.get(row["player_id"]), stood.get(row["player_id"]), compared) for row in board.to_dicts()
    ]
    ranks, moves = (["rank before"], ["moved"]) if compared else ([], [])
    head = ["rank", "player", "rating", *moves, "games", "won", "lost", *ranks, "last game"]
    table = Table(f"The first {board.height} of the board", head, rows, words=(1, len(head) - 1))
    kind = tables.manifest.get("kind")
    against = {"what-if": "the run it asks about", "rollback": "the run it replaced"}.get(str(kind), "the run before")
    lead: list[Text] = [
        [f"Moved is against {against}: points won or lost since; = is a player whose rating and games are as they were."]
        if compared
        else ["There is no run before to compare with, so nobody has moved yet."]
    ]
    blocks = [Block(None, table)]
    if moved:
        blocks += _movers(ladder, changes)
    return Section("top", title, lead, blocks)


def _of_pool(ladder: Ladder, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("pool").eq_missing(pl.lit(ladder.pool))) if ladder.pooled else frame


def _ranks_before(ladder: Ladder, board: pl.DataFrame, changes: pl.DataFrame) -> dict[Any, int]:
    """The rank before of who did not move: his rank now, less those who have come above his rating, and those who have left it.

    A board of active players alone loses people without a game, whom the table of changes does not have: no rank is told then.
    """
    if ladder.tables.manifest["options"].get("board", {}).get("active_days") is not None:
        return {}
    after, before = (changes.filter(pl.col(f"rank_{when}").is_not_null())[f"rating_{when}"].sort() for when in ("after", "before"))
    still = board.filter(~pl.col("player_id").is_in(changes["player_id"].to_list()))
    below = [len(one) - one.search_sorted(still["rating"], side="right").cast(pl.Int64) for one in (after, before)]
    return dict(zip(still["player_id"].to_list(), (still["rank"] - below[0] + below[1]).to_list(), strict=True))


def _cell(ladder: Ladder, table: str, row: dict[str, Any], column: str, text: str) -> Part:
    if row[column] is None:
        return NONE
    return Figure(row[column], text, (table, ladder.key(player_id=row["player_id"]), column))


def _board_row(ladder: Ladder, row: dict[str, Any], moved: dict[str, Any] | None, stood: int | None, compared: bool) -> list[Text]:
    movement: list[Text] = []
    rank: list[Text] = []
    if compared:
        if moved is None:
            movement, rank = [["="]], [[count(stood)]]
        elif moved["change"] is None:
            movement, rank = [["new"]], [[NONE]]
        else:
            movement = [[_cell(ladder, "changes", moved, "change", rating_text(moved["change"], sign=True))]]
            rank = [[_cell(ladder, "changes", moved, "rank_before", count(moved["rank_before"]))]]
    last = row["last_played_at"]
    return [
        [_cell(ladder, "leaderboard", row, "rank", count(row["rank"]))],
        [ladder.tables.called(row["player_id"])],
        [_cell(ladder, "leaderboard", row, "rating", rating_text(row["rating"]))],
        *movement,
        [_cell(ladder, "leaderboard", row, "games", count(row["games"]))],
        [_cell(ladder, "leaderboard", row, "wins", count(row["wins"]))],
        [_cell(ladder, "leaderboard", row, "losses", count(row["losses"]))],
        *rank,
        [NONE if last is None else f"{last:%Y-%m-%d}"],
    ]


def _movers(ladder: Ladder, changes: pl.DataFrame) -> list[Block]:
    known = changes.filter(pl.col("change").is_not_null() & (pl.col("change") != 0))
    ups = known.filter(pl.col("change") > 0).sort(["change", "player_id"], descending=[True, False]).head(MOVERS)
    downs = known.filter(pl.col("change") < 0).sort(["change", "player_id"]).head(MOVERS)
    rows: list[list[Text]] = [
        [
            [ladder.tables.called(row["player_id"])],
            [_cell(ladder, "changes", row, "change", rating_text(row["change"], sign=True))],
            [_cell(ladder, "changes", row, "rating_before", rating_text(row["rating_before"]))],
            [_cell(ladder, "changes", row, "rating_after", rating_text(row["rating_after"]))],
            [_cell(ladder, "changes", row, "restated_change", rating_text(row["restated_change"], sign=True))],
        ]
        for row in [*ups.to_dicts(), *downs.to_dicts()]
    ]
    head = ["who moved most", "change", "before", "now", "of it restated"]
    return [Block(None, Table("Who moved most, up and down", head, rows))] if rows else []


def pools_table(tables: Tables, ladders: Sequence[Ladder]) -> Table:
    """All ladders with their main figures."""
    rows: list[list[Text]] = [
        [
            [printable(ladder.pool, 60)],
            [ladder.figure("games", count)],
            [ladder.figure("players", count)],
            [ladder.figure("favourite_expected_rate", share)],
            [ladder.figure("favourite_real_rate", share)],
            [ladder.figure("rating_median", count)],
        ]
        for ladder in ladders
    ]
    return Table("Ladders", ["ladder", "games", "players", "expected", "real", "median rating"], rows)
