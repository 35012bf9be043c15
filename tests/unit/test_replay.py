"""The fold's own seams: large chunks in pieces, small ones together, and no game lost between door and kernel."""

from __future__ import annotations

import importlib
import random

import pyarrow.parquet as pq
import pytest
import support
from support import game, ts

# The module: `eloreplay.replay` is the function of the Python API.
replay = importlib.import_module("eloreplay.replay")

HOUR = 3_600_000_000
START = ts("2026-01-05 00:00:00")


def history(seed: int, games: int = 900) -> list[support.Row]:
    """A busy history with many games an hour and many ties."""
    chance = random.Random(seed)
    rows, now = [], START
    for number in range(games):
        now += chance.choice([0, 0, 1, HOUR // 7, HOUR // 2, 9 * HOUR])
        winner, loser = chance.sample("abcdefgh", 2)
        rows.append(game(number, now, winner, loser, match_length=chance.randrange(1, 9), cube=2 ** chance.randrange(4)))
    return rows


@pytest.mark.parametrize("rules", ["tavla42", "nardy"])
@pytest.mark.parametrize("limit", [1, 37, 400])
@pytest.mark.parametrize("chunk", ["month", "day"])
def test_pieces_and_stretches_do_not_show(
    run_backfill: support.Backfill, monkeypatch: pytest.MonkeyPatch, rules: str, limit: int, chunk: str
) -> None:
    rows = history(limit, 900 if limit > 1 else 150)
    awards = [
        {"award_id": n, "awarded_at": rows[n * len(rows) // 10]["played_at"], "player_id": "a", "points": 25} for n in range(9)
    ]
    whole = run_backfill(rows, "--chunk", chunk, rules=rules, awards=awards).ok()
    monkeypatch.setattr(replay, "STRETCH_GAMES", limit)
    cut = run_backfill(rows, "--chunk", chunk, rules=rules, awards=awards).ok()
    for table in ("timeline", "players", "leaderboard", "awards", "calibration", "summary"):
        assert cut.frame(table).equals(whole.frame(table)), table
    for one, other in zip(
        sorted((cut.current / "timeline").iterdir()), sorted((whole.current / "timeline").iterdir()), strict=True
    ):
        assert one.name == other.name
        assert pq.read_schema(one) == pq.read_schema(other)
    assert cut.manifest()["chunks"] == whole.manifest()["chunks"]


def test_pieces_are_cut_at_full_hours_and_hold_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hours:
        def rows(self, name: str, parameters: dict[str, int]) -> list[tuple[int, int]]:
            assert (name, parameters) == ("chunk_hours", {"from_us": 0, "to_us": 9})
            return [(0, 3), (2, 4), (4, 9), (5, 1), (8, 2)]

    monkeypatch.setattr(replay, "STRETCH_GAMES", 7)
    chunk = replay.Chunk(0, 9, games=19)
    found = [(p.from_us, p.to_us, p.games, p.closes) for p in replay.pieces(Hours(), chunk)]  # type: ignore[arg-type]
    assert found == [(0, 4, 7, False), (4, 5, 9, False), (5, 9, 3, True)]
    assert [[p.games for p in g] for g in replay.stretches(replay.Piece(0, 0, n, chunk) for n in (3, 4, 1, 9, 1))] == [
        [3, 4],
        [1],
        [9],
        [1],
    ]


def test_a_game_that_gets_lost_stops_the_run(run_backfill: support.Backfill, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """What the door counted and what was rated must be the same, whoever's fault it is."""
    folder = tmp_path / "kept"
    run_backfill(history(1, 50), out=folder).ok()
    honest = replay.prepare

    def forgetful(database, *more):
        database.execute("create or replace table player_index as select * from player_index where player_id <> 'a'")
        return honest(database, *more)

    monkeypatch.setattr(replay, "prepare", forgetful)
    out = run_backfill(history(1, 50), out=folder)
    assert out.code == 1
    assert "are not the same; nothing was published" in out.stderr
    assert (folder / "current").readlink().name == "000001"
