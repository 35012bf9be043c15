"""A player's steps around one of his games: where his rating came from, and when his K was reduced and came back."""

from __future__ import annotations

from typing import Any

from eloreplay.asking import Asked
from eloreplay.chunks import DAY_US
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.rules import Ruleset

#: How far around a game a change of K is looked for and told of, when the week is not heavy at the game itself.
AROUND_US = 28 * DAY_US


def whole(ruleset: Ruleset, value: float) -> float | int:
    """A rating or change as the run's tables have it."""
    return int(value) if ruleset.integer_ratings else value


class Story:
    """A player's steps around a game, read from the timeline only as far as they are needed."""

    def __init__(self, asked: Asked, row: dict[str, Any], side: str) -> None:
        self._asked, self._row, self._side = asked, row, side
        self._player, self._pool = row[f"{side}_id"], row["pool"]
        self._chunks = asked.rated_chunks
        inside = [at for at, one in enumerate(self._chunks) if self._overlaps(one.from_us, one.to_us)]
        self._low, self._high = min(inside), max(inside) + 1
        self._read()

    def _overlaps(self, from_us: int, to_us: int) -> bool:
        return bool(from_us <= self._row["played_us"] + AROUND_US and to_us > self._row["played_us"] - AROUND_US)

    def _read(self) -> None:
        self._asked.show(self._chunks[self._low : self._high])
        self._steps = self._asked.database.arrow("player_steps", {"pool": self._pool, "player": self._player}).to_pylist()
        self._at = next(at for at, step in enumerate(self._steps) if step["seq"] == self._row["seq"])

    def _further(self, back: bool) -> bool:
        """Read twice as much; False when there is no more in that direction."""
        size = self._high - self._low
        low, high = (max(0, self._low - size), self._high) if back else (self._low, min(len(self._chunks), self._high + size))
        if (low, high) == (self._low, self._high):
            return False
        self._low, self._high = low, high
        self._read()
        return True

    def origin(self) -> tuple[dict[str, Any], str]:
        """Where the rating before the game comes from; and a sentence if that is not what the steps before make it."""
        while True:
            earlier = self._steps[: self._at]
            last = next((step for step in reversed(earlier) if step["seq"] is not None), None)
            if last is not None or not self._row[f"{self._side}_games"] or not self._further(back=True):
                break
        found = self._start() if last is None else {"kind": "game", **self._game(last), "rating_after": last["rating_after"]}
        since = BEGINNING_US if last is None else last["played_us"]
        between = earlier[0 if last is None else earlier.index(last) + 1 :]
        found["awards"] = self._awards(since) if between else []
        rating = found["rating_after"] + sum(award["change"] for award in found["awards"])
        before = self._row[f"{self._side}_rating_before"]
        same = rating == before if self._asked.ruleset.integer_ratings else abs(rating - before) <= 1e-6
        wrong = "" if same else f"{self._side}_rating_before is {before!r} in the timeline and {rating!r} by the steps before it"
        return found, wrong

    def _start(self) -> dict[str, Any]:
        """The rating before the first game: of the rules, or one that was given."""
        self._asked.show_side_tables()
        rows = self._asked.database.arrow_of(
            "select rating from start_ratings where player_id = $player and (pool is not distinct from $pool or $pool is null)",
            {"player": self._player, "pool": self._pool},
        ).to_pylist()
        kind, rating = ("start rating", rows[0]["rating"]) if rows else ("start", self._asked.ruleset.start)
        return {"kind": kind, "rating_after": whole(self._asked.ruleset, rating)}

    def _awards(self, since_us: int) -> list[dict[str, Any]]:
        span = {"from_us": since_us, "to_us": self._row["played_us"]}
        rows = self._asked.database.arrow("explain_awards", {"pool": self._pool, "player": self._player, **span}).to_pylist()
        # Awards of an instant come before its games: those at the instant of the game before are in its rating already.
        return [
            {"awarded_at": show_us(one["awarded_us"]), **{name: one[name] for name in ("award_id", "points", "change", "reason")}}
            for one in rows
            if one["awarded_us"] > since_us
        ]

    def _game(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"game_id": step["game_id"], "played_at": show_us(step["played_us"]), "recent_games": step["recent_games"]}

    def turns(self) -> dict[str, Any] | None:
        """When the player's K was reduced by a heavy week and came back, around this game; None when no week counts."""
        if all(version.heavy is None for version in self._asked.ruleset.version):
            return None
        heavy = self._heavy(self._steps[self._at])
        if heavy:
            while self._edge(-1) is None and self._further(back=True):
                pass
            while self._edge(+1) is None and self._further(back=False):
                pass
        before, after = self._edge(-1), self._edge(+1)
        if not heavy:
            # An ordinary week: tell of a change of K only when it is near.
            before, after = (one if one is not None and self._near(one) else None for one in (before, after))
        first = None
        if before is not None:
            games = [step for step in self._steps if step["seq"] is not None]
            first = games[games.index(before) + 1]
        elif heavy:
            first = next(step for step in self._steps if step["seq"] is not None)
        return {
            "heavy": heavy,
            "since": None if first is None else self._game(first),
            "until": None if after is None else self._game(after),
        }

    def _heavy(self, step: dict[str, Any]) -> bool:
        version = next(one for one in self._asked.ruleset.version if one.name == step["rule_version"])
        return version.heavy is not None and int(step["recent_games"] or 0) >= version.heavy.games

    def _edge(self, direction: int) -> dict[str, Any] | None:
        """The nearest game of the player, before or after this one, whose week is not as heavy or light as this one's."""
        heavy = self._heavy(self._steps[self._at])
        path = self._steps[self._at :] if direction > 0 else self._steps[self._at :: -1]
        return next((step for step in path if step["seq"] is not None and self._heavy(step) != heavy), None)

    def _near(self, step: dict[str, Any]) -> bool:
        return bool(abs(step["played_us"] - self._row["played_us"]) <= AROUND_US)
