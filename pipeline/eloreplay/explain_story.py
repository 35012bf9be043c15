"""Both players' past around one of their games: where their ratings came from, when their K was reduced and when it came back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from eloreplay.asking import Asked
from eloreplay.chunks import DAY_US, Chunk
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.rules import Ruleset

#: How far around a game a change of K is told of when the week is not heavy at the game itself; and what is looked at first.
AROUND_US = 28 * DAY_US
TURNS = ("previous_seq", "since_seq", "until_seq")


def whole(ruleset: Ruleset, value: float) -> float | int:
    """A rating or change as the run's tables have it."""
    return int(value) if ruleset.integer_ratings else value


class Stories:
    """What the timeline says of both players of a game besides the game itself.

    Args:
        asked: the run; its database has the table `rule_versions`.
        row: the game's timeline row.
    """

    def __init__(self, asked: Asked, row: dict[str, Any]) -> None:
        self._asked, self._row = asked, row
        chunks = asked.rated_chunks
        near = asked.near(row["played_us"] - AROUND_US, row["played_us"] + AROUND_US)
        self._turns = self._look(near)
        if not self._is_enough(near[0] is chunks[0], near[-1] is chunks[-1]):
            self._turns = self._look(chunks)
        self._steps = self._read(chunks)

    def _look(self, chunks: Sequence[Chunk]) -> dict[Any, dict[str, Any]]:
        self._asked.show(chunks)
        row = self._row
        parameters = {"pool": row["pool"], "winner": row["winner_id"], "loser": row["loser_id"], "seq": row["seq"]}
        return {found["player_id"]: found for found in self._asked.database.arrow("explain_turns", parameters).to_pylist()}

    def _is_enough(self, from_start: bool, to_end: bool) -> bool:
        """Whether the chunks that were looked at answer every question; if not, all of them do."""
        for side in ("winner", "loser"):
            turns = self._turns[self._row[f"{side}_id"]]
            if turns["previous_seq"] is None and self._row[f"{side}_games"] and not from_start:
                return False
            if turns["heavy"] and ((turns["is_first"] and not from_start) or (turns["until_seq"] is None and not to_end)):
                return False
        return True

    def _read(self, chunks: Sequence[Chunk]) -> dict[tuple[Any, int], dict[str, Any]]:
        """The games that the turns name, by player and position."""
        seqs = sorted({turns[name] for turns in self._turns.values() for name in TURNS if turns[name] is not None})
        starts = [chunk.first_seq for chunk in chunks]
        self._asked.show([chunks[at] for at in sorted({bisect_right(starts, seq) - 1 for seq in seqs})])
        rows = self._asked.database.arrow("explain_steps", {"seqs": seqs}).to_pylist()
        return {(step["player_id"], step["seq"]): step for step in rows}

    def origin(self, side: str) -> tuple[dict[str, Any], str]:
        """Where the rating before the game comes from; and a sentence if that is not what the steps before make it."""
        row, player, ruleset = self._row, self._row[f"{side}_id"], self._asked.ruleset
        last = self._steps.get((player, self._turns[player]["previous_seq"] or 0))
        found = self._start(player) if last is None else {"kind": "game", **_game(last), "rating_after": last["rating_after"]}
        found["awards"] = self._awards(player, BEGINNING_US if last is None else last["played_us"])
        rating = found["rating_after"] + sum(award["change"] for award in found["awards"])
        before = row[f"{side}_rating_before"]
        same = rating == before if ruleset.integer_ratings else abs(rating - before) <= 1e-6
        return found, "" if same else f"{side}_rating_before is {before!r} in the timeline and {rating!r} by the steps before it"

    def _start(self, player: Any) -> dict[str, Any]:
        """The rating before the first game: of the rules, or one that was given."""
        self._asked.show_side_tables()
        rows = self._asked.database.arrow_of(
            "select rating from start_ratings where player_id = $player and ($pool is null or pool = $pool)",
            {"player": player, "pool": self._row["pool"]},
        ).to_pylist()
        kind, rating = ("start rating", rows[0]["rating"]) if rows else ("start", self._asked.ruleset.start)
        return {"kind": kind, "rating_after": whole(self._asked.ruleset, rating)}

    def _awards(self, player: Any, since_us: int) -> list[dict[str, Any]]:
        """What moved the rating since the game before; awards at that game's own instant came before it."""
        parameters = {"pool": self._row["pool"], "player": player, "after_us": since_us, "to_us": self._row["played_us"]}
        names = ("award_id", "points", "change", "reason")
        return [
            {"awarded_at": show_us(one["awarded_us"]), **{name: one[name] for name in names}}
            for one in self._asked.database.arrow("explain_awards", parameters).to_pylist()
        ]

    def turns(self, side: str) -> dict[str, Any] | None:
        """When the player's K was reduced by a heavy week and came back, around this game; None when no week counts.

        `since` is the game with which the present kind of weeks began, None when nothing came before it or it is long ago in an
        ordinary week; `until` the game with which it ended.
        """
        if all(version.heavy is None for version in self._asked.ruleset.version):
            return None
        player = self._row[f"{side}_id"]
        turns = self._turns[player]
        since, until = (self._steps.get((player, turns[name] or 0)) for name in ("since_seq", "until_seq"))
        if not turns["heavy"]:
            since = None if turns["is_first"] or not self._near(since) else since
            until = until if self._near(until) else None
        return {"heavy": turns["heavy"], "since": since and _game(since), "until": until and _game(until)}

    def _near(self, step: dict[str, Any] | None) -> bool:
        return step is not None and bool(abs(step["played_us"] - self._row["played_us"]) <= AROUND_US)


def _game(step: dict[str, Any]) -> dict[str, Any]:
    return {"game_id": step["game_id"], "played_at": show_us(step["played_us"]), "recent_games": step["recent_games"]}
