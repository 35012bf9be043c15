"""The slow, obvious twin: the whole job in plain Python, read in one go.

Written from the specification alone (input, bins, order, rules, awards, tables); it shares no line with the package.
Instants are integers, microseconds since 1970 in UTC. Rows are dicts with the canonical column names; a missing key is
NULL.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

REASONS = (
    "missing_id",
    "missing_time",
    "conflicting_copies",
    "unknown_mode",
    "self_play",
    "bad_cube",
    "bad_match_length",
    "bad_result",
    "bad_weight",
    "bad_advantage",
    "before_first_rule_version",
)

DEFAULTS = {"mode": "ranked", "cube": 1, "voided": False, "is_draw": False, "weight": 1.0, "advantage": 0.0}
CONTENT = (
    "played_at",
    "winner_id",
    "loser_id",
    "mode",
    "cube",
    "match_length",
    "result",
    "ended_by",
    "is_draw",
    "voided",
    "advantage",
    "weight",
)


# ---------------------------------------------------------------- rules


@dataclass(frozen=True)
class Version:
    """One row of a rule table."""

    name: str | None  # None: the specification does not say how it is called
    start: int | None  # None: for all time
    divisor: float
    k: float
    heavy: tuple[int, float] | None = None  # (games in the window, k from there on)
    cube: str | None = None  # "log2", "times" or None
    gammon: tuple[float, float] | None = None  # factors of a gammon and a backgammon
    match: bool = False  # sqrt(N) in the expectation, 4·sqrt(N) as the stake
    ramp: str | None = None  # "before" or "after": experience that the k of this match uses


@dataclass(frozen=True)
class Rules:
    """A ruleset."""

    versions: tuple[Version, ...]
    start: float = 1500
    whole: bool = True  # integer ratings, changes rounded half away from zero
    rated: frozenset[str] | None = frozenset({"ranked"})  # None: every mode
    known: frozenset[str] = frozenset({"boosted", "casual", "tournament"})
    window_us: int | None = 168 * HOUR_US
    max_match_length: int = 999
    weight: bool = False  # whether the ruleset reads the column; of the shipped ones only chess
    advantage: bool = False

    def uses(self, column: str) -> bool:
        """Whether some version reads this column."""
        if column == "cube":
            return any(v.cube for v in self.versions)
        if column == "match_length":
            return any(v.match for v in self.versions)
        if column == "result":
            return any(v.gammon for v in self.versions)
        return {"weight": self.weight, "advantage": self.advantage}[column]

    def value(self, row: dict[str, Any], column: str) -> Any:
        """The input as the rules use it: NULL where they do not read the column, else with its default."""
        if not self.uses(column):
            return None
        return "single" if column == "result" and row[column] is None else row[column]


TAVLA42 = Rules((Version("1.3.1", None, 1200, 32, heavy=(50, 16), cube="log2"),))
NARDY = Rules((Version(None, None, 2000, 1, match=True, ramp="before"),), start=1300, whole=False, rated=None, window_us=None)
FIBS = Rules((Version(None, None, 2000, 1, match=True, ramp="after"),), start=1500, whole=False, rated=None, window_us=None)
CHESS = Rules((Version(None, None, 400, 32),), whole=False, rated=None, window_us=None, weight=True, advantage=True)
FIBS_1PT = Rules((Version(None, None, 2000, 32, cube="log2"),), window_us=None)


def tavla42_history(since: dict[str, int]) -> Rules:
    """All four versions; `since` gives the instants of 1.0.5, 1.2.0 and 1.3.1."""
    return replace(
        TAVLA42,
        versions=(
            Version("pre-1.0.5", None, 400, 32, cube="times", gammon=(2, 3)),
            Version("1.0.5", since["1.0.5"], 400, 32, cube="log2"),
            Version("1.2.0", since["1.2.0"], 800, 32, cube="log2"),
            Version("1.3.1", since["1.3.1"], 1200, 32, heavy=(50, 16), cube="log2"),
        ),
    )


def half_away(x: float) -> int:
    """The nearest integer, halves away from zero, decided on the exact value of the float."""
    exact = abs(Fraction(x))
    whole = math.floor(exact + Fraction(1, 2))
    return whole if x >= 0 else -whole


def expected(own: float, opponent: float, divisor: float) -> float:
    """Expected score of the side with the rating `own`."""
    return 1 / (1 + 10 ** ((opponent - own) / divisor))


def stake_of(version: Version, row: dict[str, Any]) -> float:
    """How much one game counts."""
    stake = 1.0
    if version.cube == "log2":
        stake = 1 + math.log2(row["cube"]) / 6
    elif version.cube == "times":
        stake = float(row["cube"])
    if version.gammon and row["result"] == "gammon":
        stake *= version.gammon[0]
    if version.gammon and row["result"] == "backgammon":
        stake *= version.gammon[1]
    if version.match:
        stake *= 4 * math.sqrt(row["match_length"])
    return stake


def k_of(version: Version, recent: int | None, experience: float, match_length: int | None) -> float:
    """The player's own k."""
    if version.ramp:
        e = experience + (match_length if version.ramp == "after" else 0)
        return version.k * max(1.0, (500 - e) / 100)
    if version.heavy and recent >= version.heavy[0]:
        return version.heavy[1]
    return version.k


# ---------------------------------------------------------------- which rows count


def order_key(an_id: int | str) -> Any:
    """Integers by value, strings by their UTF-8 bytes."""
    return an_id if isinstance(an_id, int) else an_id.encode("utf-8")


def resolve(aliases: list[dict[str, Any]]) -> Any:
    """A function from a raw id to the id it stands for; chains resolve."""
    table = {row["alias_id"]: row["player_id"] for row in aliases}

    def final(player: Any) -> Any:
        while player in table:
            player = table[player]
        return player

    return final


def version_at(rules: Rules, t: int) -> Version | None:
    """The version in force: half-open intervals."""
    found = None
    for version in rules.versions:
        if version.start is None or version.start <= t:
            found = version
    return found


def refusal(row: dict[str, Any], rules: Rules) -> str | None:
    """The first reason of point 7 that holds, or None."""
    if row["winner_id"] == row["loser_id"]:
        return "self_play"
    if rules.uses("cube") and row["cube"] not in {1, 2, 4, 8, 16, 32, 64}:
        return "bad_cube"
    n = row["match_length"]
    if rules.uses("match_length") and (n is None or n < 1 or n > rules.max_match_length):
        return "bad_match_length"
    if rules.uses("result") and row["result"] not in {None, "single", "gammon", "backgammon"}:
        return "bad_result"
    if rules.weight and not (math.isfinite(row["weight"]) and row["weight"] >= 0):
        return "bad_weight"
    if rules.advantage and not math.isfinite(row["advantage"]):
        return "bad_advantage"
    if version_at(rules, row["played_at"]) is None:
        return "before_first_rule_version"
    return None


@dataclass
class Result:
    """What a run must have written."""

    timeline: list[dict[str, Any]] = field(default_factory=list)
    players: list[dict[str, Any]] = field(default_factory=list)
    leaderboard: list[dict[str, Any]] = field(default_factory=list)
    rows_read: int = 0
    bins: dict[str, Any] = field(default_factory=dict)
    # the places where the refused row may stand (identical copies are interchangeable) and the reason
    rejected: list[tuple[set[tuple[str, int]], str]] = field(default_factory=list)


def sort_into_bins(
    files: dict[str, list[dict[str, Any]]],
    rules: Rules,
    as_of: int,
    final: Any,
    excluded: set[Any],
    pool: str | None,
) -> tuple[list[dict[str, Any]], Counter[str], list[tuple[set[tuple[str, int]], str]]]:
    """The rated rows with aliases applied, the bins, and the refused rows."""
    bins: Counter[str] = Counter()
    refused: list[tuple[set[tuple[str, int]], str]] = []
    by_id: dict[Any, list[dict[str, Any]]] = {}

    def refuse(rows: list[dict[str, Any]], reason: str) -> None:
        refused.append(({(row["_file"], row["_row"]) for row in rows}, reason))

    for name, rows in files.items():
        for position, raw in enumerate(rows):
            row = {c: raw.get(c) for c in ("game_id", *CONTENT, "revision")}
            for column, value in DEFAULTS.items():
                if row[column] is None:
                    row[column] = value
            row |= {"_file": name, "_row": position, "pool": raw.get(pool) if pool else None}
            if row["game_id"] is None or row["winner_id"] is None or row["loser_id"] is None:
                refuse([row], "missing_id")
            elif row["played_at"] is None:
                refuse([row], "missing_time")
            else:
                by_id.setdefault(row["game_id"], []).append(row)

    rated = []
    for copies in by_id.values():
        top = max((-math.inf if r["revision"] is None else r["revision"]) for r in copies)
        best = [r for r in copies if (-math.inf if r["revision"] is None else r["revision"]) == top]
        bins["duplicate"] += len(copies) - len(best)
        # repr: a NaN is equal to itself here
        if len({repr([r[c] for c in (*CONTENT, "pool")]) for r in best}) > 1:
            for r in best:
                refuse([r], "conflicting_copies")
            continue
        bins["duplicate"] += len(best) - 1
        row = best[0]
        row["winner_id"] = final(row["winner_id"])
        row["loser_id"] = final(row["loser_id"])
        if row["voided"]:
            bins["voided"] += 1
        elif row["played_at"] > as_of:
            bins["held"] += 1
        elif rules.rated is not None and row["mode"] not in rules.rated | rules.known:
            refuse(best, "unknown_mode")
        elif (rules.rated is not None and row["mode"] not in rules.rated) or (
            row["winner_id"] in excluded or row["loser_id"] in excluded
        ):
            bins["unrated"] += 1
        elif (reason := refusal(row, rules)) is not None:
            refuse(best, reason)
        else:
            bins["rated"] += 1
            rated.append(row)
    return rated, bins, refused


# ---------------------------------------------------------------- the replay


@dataclass
class Player:
    """One player of one pool, while the games go by."""

    rating: float
    games: int = 0
    wins: int = 0
    losses: int = 0
    draws: int = 0
    experience: float = 0.0
    peak: float | None = None
    peak_at: int | None = None
    last_played_at: int | None = None
    recent: deque[int] = field(default_factory=deque)

    def recent_games(self, t: int, window_us: int) -> int:
        while self.recent and self.recent[0] < t - window_us:
            self.recent.popleft()
        return len(self.recent)

    def move(self, change: float, t: int) -> None:
        self.rating = self.rating + change
        if self.peak is None or self.rating > self.peak:
            self.peak, self.peak_at = self.rating, t


def replay(
    files: dict[str, list[dict[str, Any]]] | list[dict[str, Any]],
    rules: Rules,
    *,
    as_of: int,
    aliases: list[dict[str, Any]] = (),
    excluded: list[Any] = (),
    starts: list[dict[str, Any]] = (),
    awards: list[dict[str, Any]] = (),
    pool: str | None = None,
    top: int = 100,
    min_games: int = 1,
    active_days: int | None = None,
) -> Result:
    """Everything a backfill says, one game after the other."""
    if isinstance(files, list):
        files = {"games.parquet": files}
    final = resolve(list(aliases))
    rated, bins, refused = sort_into_bins(files, rules, as_of, final, {final(p) for p in excluded}, pool)
    out = Result(rows_read=sum(map(len, files.values())), rejected=refused)
    reasons = Counter(reason for _, reason in refused)
    out.bins = {name: bins[name] for name in ("rated", "unrated", "voided", "held", "duplicate")}
    out.bins["rejected"] = {reason: reasons[reason] for reason in REASONS}
    assert sum(bins.values()) + len(refused) == out.rows_read

    people: dict[tuple[Any, Any], Player] = {}

    def person(a_pool: Any, player_id: Any) -> Player:
        if (a_pool, player_id) not in people:
            people[a_pool, player_id] = Player(rules.start if rules.whole else float(rules.start))
        return people[a_pool, player_id]

    for row in starts:
        p = person(None, final(row["player_id"]))
        p.rating = row["rating"]
        p.games = row.get("games") or 0
        p.experience = row.get("experience") or 0.0

    events: list[tuple[int, int, Any, dict[str, Any]]] = [(r["played_at"], 1, order_key(r["game_id"]), r) for r in rated]
    events += [(a["awarded_at"], 0, order_key(a["award_id"]), a) for a in awards if a["awarded_at"] <= as_of]
    events.sort(key=lambda e: e[:3])

    seq = 0
    for t, kind, _, row in events:
        if kind == 0:
            person(None, final(row["player_id"])).move(row["points"], t)
            continue
        seq += 1
        version = version_at(rules, t)
        w, l = person(row["pool"], row["winner_id"]), person(row["pool"], row["loser_id"])  # noqa: E741
        w_recent = l_recent = None
        if rules.window_us is not None:
            w_recent, l_recent = w.recent_games(t, rules.window_us), l.recent_games(t, rules.window_us)
        n = row["match_length"]
        divisor = 2000 / math.sqrt(n) if version.match else version.divisor
        advantage = row["advantage"] if rules.advantage else 0
        p = expected(w.rating + advantage, l.rating, divisor)
        stake = stake_of(version, row) * (row["weight"] if rules.weight else 1)
        w_k, l_k = k_of(version, w_recent, w.experience, n), k_of(version, l_recent, l.experience, n)
        score = 0.5 if row["is_draw"] else 1.0
        w_change: float = w_k * stake * (score - p)
        l_change: float = -l_k * stake * (score - p)
        if rules.whole:
            w_change, l_change = half_away(w_change), half_away(l_change)
        ramp = version.ramp is not None
        line = {
            "seq": seq,
            "game_id": row["game_id"],
            "played_at": t,
            "winner_id": row["winner_id"],
            "loser_id": row["loser_id"],
            "is_draw": row["is_draw"],
            "winner_rating_before": w.rating,
            "loser_rating_before": l.rating,
            "winner_change": w_change,
            "loser_change": l_change,
            "winner_expected": p,
            "winner_k": float(w_k),
            "loser_k": float(l_k),
            "stake": stake,
            "winner_games": w.games,
            "loser_games": l.games,
            "winner_recent_games": w_recent,
            "loser_recent_games": l_recent,
            "winner_experience": w.experience if ramp else None,
            "loser_experience": l.experience if ramp else None,
            "rule_version": version.name,
            **{c: rules.value(row, c) for c in ("cube", "match_length", "result", "weight", "advantage")},
        }
        if pool:
            line = {"pool": row["pool"], **line}
        out.timeline.append(line)
        for player, change, won in ((w, w_change, True), (l, l_change, False)):
            player.move(change, t)
            player.games += 1
            player.recent.append(t)
            player.last_played_at = t
            if ramp:
                player.experience += n
            if row["is_draw"]:
                player.draws += 1
            elif won:
                player.wins += 1
            else:
                player.losses += 1

    any_ramp = any(v.ramp for v in rules.versions)
    for (a_pool, player_id), p in sorted(people.items(), key=lambda i: (str(i[0][0]), order_key(i[0][1]))):
        out.players.append(
            ({"pool": a_pool} if pool else {})
            | {
                "player_id": player_id,
                "rating": p.rating,
                "games": p.games,
                "wins": p.wins,
                "losses": p.losses,
                "draws": p.draws,
                "experience": p.experience if any_ramp else None,
                "peak_rating": p.peak,
                "peak_at": p.peak_at,
                "last_played_at": p.last_played_at,
            }
        )
    out.leaderboard = board(out.players, pool, top, min_games, active_days)
    return out


def board(
    players: list[dict[str, Any]], pool: str | None, top: int, min_games: int, active_days: int | None
) -> list[dict[str, Any]]:
    """Ranks 1, 1, 3; within a tie more games first, then the id."""
    rows: list[dict[str, Any]] = []
    for a_pool in sorted({p.get("pool") for p in players}, key=str):
        mine = [p for p in players if p.get("pool") == a_pool]
        last = max((p["last_played_at"] for p in mine if p["last_played_at"] is not None), default=None)
        mine = [p for p in mine if p["games"] >= min_games]
        if active_days is not None:
            mine = [p for p in mine if p["last_played_at"] is not None and p["last_played_at"] >= last - active_days * DAY_US]
        mine.sort(key=lambda p: (-p["rating"], -p["games"], order_key(p["player_id"])))
        for p in mine[:top]:
            rank = 1 + sum(q["rating"] > p["rating"] for q in mine)
            keep = ("player_id", "rating", "games", "wins", "losses", "last_played_at")
            rows.append(({"pool": a_pool} if pool else {}) | {"rank": rank} | {c: p[c] for c in keep})
    return rows
