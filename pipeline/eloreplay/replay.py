"""The fold: read this file first.

A run is a fold over chunks of time, `state' = step(state, chunk)`: prepare the chunk's games by SQL (`prepare`), rate them in
the kernel (`kernel.replay_games`), write their timeline (`timeline`). The result does not depend on where the chunks are cut.
Short chunks are prepared together and cut afterwards: a query costs more than the games of a quiet day.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.errors import InputRefused
from eloreplay.games import Intake, Report
from eloreplay.instants import show_us
from eloreplay.kernel import PLAYER_STATE, ROUND_HALF_AWAY, ROUND_NONE, replay_games, round_each
from eloreplay.prepare import Stretch, prepare
from eloreplay.queries import Database
from eloreplay.rules import Adjustment, Ruleset
from eloreplay.timeline import ARROW_TYPES, INSTANT, TimelineWriter, rating_type, timeline_schema

#: Games that are prepared by one query: enough to be quick, few enough to stay in bounded memory.
STRETCH_GAMES = 1_000_000
#: Largest rating and change under integer rules.
INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Chunk:
    """A half-open interval of time `[from_us, to_us)` that holds rated games.

    Attributes:
        label: its first day in UTC.
        games: rated games in it.
        digest: of their content.
    """

    from_us: int
    to_us: int
    games: int
    digest: str

    @property
    def label(self) -> str:
        """First day of the chunk, for file names; microseconds where no calendar reaches."""
        shown = show_us(self.from_us) or str(self.from_us)
        return shown[:10] if "T" in shown else shown.replace(" ", "")


@dataclass
class Events:
    """Awards in their order, and the dated adjustments: what moves ratings and is no game.

    Attributes:
        player: int32 `(n_awards,)`, position in the state.
        awarded_us: int64 `(n_awards,)`, rising; awards of one instant in the order of their ids.
        points: float64 `(n_awards,)`.
        rows: the awards as Arrow (pool, award_id, player_id, reason).
        adjustments: in the order of their instants.
        next_award: position of the first award not yet applied; likewise `next_adjustment`.
        written: what was applied, as tables in order.
    """

    player: NDArray[np.int32]
    awarded_us: NDArray[np.int64]
    points: NDArray[np.float64]
    rows: pa.Table
    adjustments: Sequence[Adjustment]
    next_award: int = 0
    next_adjustment: int = 0
    written: list[pa.Table] = field(default_factory=list)


@dataclass
class Replay:
    """What a fold leaves: the state at the end, the player index, the chunks, the awards as applied and the seconds by step."""

    state: NDArray[Any]
    index: pa.Table
    chunks: list[dict[str, object]]
    awards: pa.Table
    files: list[str]
    elapsed_s: dict[str, float]


def replay(
    database: Database, ruleset: Ruleset, intake: Intake, *, chunk: str, folder: Path, pool: bool, as_of_us: int, report: Report
) -> Replay:
    """Rate every game that the door let through, chunk by chunk, and write the timeline into `folder`.

    Args:
        database: as `games.open_door` left it.
        ruleset: the rules.
        intake: what came through the door.
        chunk: "month", "week" or "day".
        folder: where the timeline's files go; must not exist.
        pool: whether tables carry the pool.
        as_of_us: adjustments after it are not yet due.
        report: told after each chunk.

    Raises:
        EnvironmentFault: disk, memory.
    """
    elapsed = dict.fromkeys(("reading", "window", "kernel", "writing"), 0.0)
    chunks = [Chunk(*row) for row in database.rows("chunks", {"unit": chunk})]
    database.create_table("player_index", "player_index")
    database.create_view("rule_inputs", "rule_inputs")
    database.create_view("rule_terms", "rule_terms")
    index = database.arrow_of("select pool, player_id, player_index from player_index order by player_index")
    state = initial_state(database, ruleset, index.num_rows)
    due = sorted((a for a in ruleset.adjustment if a.at <= as_of_us), key=lambda a: a.at)
    events = load_events(database, due)
    schema = timeline_schema(ruleset, intake, pool)
    names = pa.array([version.name for version in ruleset.version], pa.string())
    total, done = sum(c.games for c in chunks), 0
    records: list[dict[str, object]] = []
    with TimelineWriter(folder, schema) as writer:
        for group in stretches(chunks):
            stretch = prepare(database, ruleset, group[0].from_us, group[-1].to_us, len(state))
            for step, seconds in stretch.elapsed_s.items():
                elapsed[step] += seconds
            edges = np.searchsorted(stretch.played_us, [c.to_us for c in group], side="left")
            first = 0
            for one, last in zip(group, edges.tolist(), strict=True):
                started = time.perf_counter()
                outputs = rate(stretch, first, last, events, state, ruleset, one.to_us, index)
                elapsed["kernel"] += time.perf_counter() - started
                started = time.perf_counter()
                writer.write(one.label, _timeline_rows(stretch, first, last, outputs, done + 1, names, schema, ruleset))
                elapsed["writing"] += time.perf_counter() - started
                records.append(
                    {
                        "from": show_us(one.from_us),
                        "to": show_us(one.to_us),
                        "games": one.games,
                        "first_seq": done + 1 if one.games else None,
                        "digest": one.digest,
                        "file": f"timeline/{writer.files[-1]}",
                    }
                )
                first, done = last, done + one.games
                report("rating", done, total)
            started = time.perf_counter()
        started = time.perf_counter()
    elapsed["writing"] += time.perf_counter() - started
    apply_events(events, state, ruleset, None, index)
    return Replay(state, index, records, awards_table(events, ruleset, intake, pool), writer.files, elapsed)


def stretches(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Consecutive chunks in groups of at most `STRETCH_GAMES` games (one chunk alone may hold more)."""
    group: list[Chunk] = []
    size = 0
    for chunk in chunks:
        if group and size + chunk.games > STRETCH_GAMES:
            yield group
            group, size = [], 0
        group.append(chunk)
        size += chunk.games
    if group:
        yield group


def initial_state(database: Database, ruleset: Ruleset, players: int) -> NDArray[Any]:
    """The state before the first game: the ruleset's start, or the start rating that was given; `PLAYER_STATE` `(players,)`."""
    state = np.zeros(players, PLAYER_STATE)
    state["rating"] = ruleset.start
    state["peak_rating"] = -math.inf
    starts = database.arrow("start_positions")
    at = starts["player_index"].to_numpy()
    state["rating"][at] = starts["rating"].to_numpy()
    state["games"][at] = starts["games"].to_numpy()
    state["experience"][at] = starts["experience"].to_numpy()
    state["seen"][at] = 1
    return state


def load_events(database: Database, adjustments: Sequence[Adjustment]) -> Events:
    """The applied awards in order (instant, award_id), with the adjustments that are due."""
    rows = database.arrow("applied_awards")
    return Events(
        player=np.array(rows["player_index"].to_numpy(), np.int32),
        awarded_us=np.array(rows["awarded_us"].to_numpy(), np.int64),
        points=np.array(rows["points"].to_numpy(), np.float64),
        rows=rows,
        adjustments=adjustments,
    )


@dataclass
class Outputs:
    """What the kernel fills for a run of games; shapes as in `kernel.replay_games`."""

    before: NDArray[np.float64]
    change: NDArray[np.float64]
    expected: NDArray[np.float64]
    k: NDArray[np.float64]
    games: NDArray[np.int32]
    experience: NDArray[np.float64]


def rate(
    stretch: Stretch,
    first: int,
    last: int,
    events: Events,
    state: NDArray[Any],
    ruleset: Ruleset,
    to_us: int,
    index: pa.Table,
) -> Outputs:
    """Rate the games `first:last` of a stretch, with every award and adjustment before `to_us`; `state` moves on."""
    n = last - first
    out = Outputs(
        before=np.empty((n, 2)),
        change=np.empty((n, 2)),
        expected=np.empty(n),
        k=np.empty((n, 2)),
        games=np.empty((n, 2), np.int32),
        experience=np.empty((n, 2)),
    )
    at = first
    # An adjustment comes before the awards and games of its instant: it cuts the run of games in two.
    while events.next_adjustment < len(events.adjustments) and events.adjustments[events.next_adjustment].at < to_us:
        adjustment = events.adjustments[events.next_adjustment]
        cut = at + int(np.searchsorted(stretch.played_us[at:last], adjustment.at, side="left"))
        _run_kernel(stretch, at, cut, out, at - first, events, adjustment.at, state, ruleset)
        _adjust(adjustment, events, state, ruleset, index)
        at = cut
    _run_kernel(stretch, at, last, out, at - first, events, to_us, state, ruleset)
    return out


def warm_up(ruleset: Ruleset) -> float:
    """Have the kernel compiled, by rating nothing with it; returns the seconds that took.

    Meant for a thread of its own while the input is read: compiling and reading hardly wait for each other.
    """
    started = time.perf_counter()
    nothing = pa.table({"pool": pa.nulls(0)})
    events = Events(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0), nothing, ())
    apply_events(events, np.empty(0, PLAYER_STATE), ruleset, None, nothing)
    return time.perf_counter() - started


def apply_events(events: Events, state: NDArray[Any], ruleset: Ruleset, to_us: int | None, index: pa.Table) -> None:
    """Apply what is left of awards and adjustments before `to_us` (None: all of it), without any game."""
    end = 2**63 - 1 if to_us is None else to_us
    empty = np.empty(0)
    nothing = Stretch(
        rows=events.rows.slice(0, 0),
        played_us=np.empty(0, np.int64),
        winner=np.empty(0, np.int32),
        loser=np.empty(0, np.int32),
        score=empty,
        advantage=empty,
        divisor=empty,
        stake=empty,
        match_length=empty,
        k=np.empty((2, 0)),
        version=np.empty(0, np.int16),
        recent=None,
        elapsed_s={},
    )
    rate(nothing, 0, 0, events, state, ruleset, end, index)


def _run_kernel(
    stretch: Stretch,
    first: int,
    last: int,
    out: Outputs,
    offset: int,
    events: Events,
    before_us: int,
    state: NDArray[Any],
    ruleset: Ruleset,
) -> None:
    """One call of the kernel: games `first:last`, and the awards before `before_us` that are not yet applied."""
    start = events.next_award
    end = int(np.searchsorted(events.awarded_us, before_us, side="left")) if before_us < 2**63 - 1 else len(events.player)
    end = max(end, start)
    award_before, award_change = np.empty(end - start), np.empty(end - start)
    here = slice(first, last)
    there = slice(offset, offset + last - first)
    replay_games(
        stretch.winner[here],
        stretch.loser[here],
        stretch.played_us[here],
        stretch.score[here],
        stretch.advantage[here],
        stretch.divisor[here],
        stretch.stake[here],
        stretch.k[0, here],
        stretch.k[1, here],
        stretch.match_length[here],
        stretch.version[here],
        events.player[start:end],
        events.awarded_us[start:end],
        events.points[start:end],
        state,
        *ruleset.kernel_tables(),
        ROUND_HALF_AWAY if ruleset.integer_ratings else ROUND_NONE,
        -math.inf if ruleset.floor is None else float(ruleset.floor),
        math.inf if ruleset.cap is None else float(ruleset.cap),
        math.inf if ruleset.max_change is None else float(ruleset.max_change),
        out.before[there],
        out.change[there],
        out.expected[there],
        out.k[there],
        out.games[there],
        out.experience[there],
        award_before,
        award_change,
    )
    _keep_in_range(award_before, award_change, "award", events.rows, "award_id", start, ruleset)
    _keep_in_range(out.before[there], out.change[there], "game", stretch.rows, "game_id", first, ruleset)
    if end > start:
        events.written.append(
            events.rows.slice(start, end - start)
            .select(["pool", "award_id", "awarded_us", "player_id", "points", "reason"])
            .append_column("rating_before", pa.array(award_before))
            .append_column("change", pa.array(award_change))
        )
        events.next_award = end


def _keep_in_range(
    before: NDArray[np.float64], change: NDArray[np.float64], what: str, rows: pa.Table, name: str, first: int, ruleset: Ruleset
) -> None:
    """Stop where a rating or a change leaves what its column can hold: a weight of 1e300, points of 1e12.

    Raises:
        InputRefused: naming the first such game or award.
    """
    limit = INT32_MAX if ruleset.integer_ratings else np.finfo(np.float64).max
    with np.errstate(all="ignore"):
        fits = (np.abs(change) <= limit) & (np.abs(before + change) <= limit)
    if fits.all():
        return
    row = int(np.flatnonzero(~fits.reshape(len(fits), -1).all(axis=1))[0])
    raise InputRefused(
        f"{what} {rows[name][first + row].as_py()!r} moves a rating out of the range of "
        f"{'whole numbers up to 2147483647' if ruleset.integer_ratings else 'float64'}; nothing was published: look at its "
        f"{'weight' if what == 'game' else 'points'} and at the start ratings of its players"
    )


def _adjust(adjustment: Adjustment, events: Events, state: NDArray[Any], ruleset: Ruleset, index: pa.Table) -> None:
    """Move every rating that is known at the adjustment's instant; each step is rounded once as the ruleset says."""
    at = np.flatnonzero(state["seen"])
    before = state["rating"][at]
    after = before.copy()
    if adjustment.pull_to is not None and adjustment.factor is not None:
        after = adjustment.pull_to + (after - adjustment.pull_to) * adjustment.factor
    if adjustment.add is not None:
        after = after + adjustment.add
    if adjustment.floor is not None:
        after = np.maximum(after, adjustment.floor)
    change = after - before
    if ruleset.integer_ratings:
        round_each(change)
    # As a game's change: a bound stops a step, and a rating that already stands outside is only not moved further out.
    if ruleset.floor is not None:
        low = (change < 0) & (before + change < ruleset.floor)
        change[low] = np.minimum(ruleset.floor - before[low], 0.0)
    if ruleset.cap is not None:
        high = (change > 0) & (before + change > ruleset.cap)
        change[high] = np.maximum(ruleset.cap - before[high], 0.0)
    names = pa.table({"name": pa.array([adjustment.name]).take(pa.array(np.zeros(len(at), np.int64)))})
    _keep_in_range(before, change, "adjustment", names, "name", 0, ruleset)
    state["rating"][at] = before + change
    players = index.take(pa.array(at))
    events.next_adjustment += 1
    events.written.append(
        pa.table(
            {
                "pool": players["pool"],
                "award_id": pa.nulls(len(at), events.rows["award_id"].type),
                "awarded_us": pa.array(np.full(len(at), adjustment.at, np.int64)),
                "player_id": players["player_id"],
                "points": pa.array(change),
                "reason": pa.array([adjustment.name] * len(at), pa.string()),
                "rating_before": pa.array(before),
                "change": pa.array(change),
            }
        )
    )


def awards_table(events: Events, ruleset: Ruleset, intake: Intake, pool: bool) -> pa.Table:
    """The output table `awards`: what was applied, adjustments with a NULL award_id, in order."""
    rating = rating_type(ruleset)
    types = {
        "pool": ARROW_TYPES[intake.pool_type],
        "award_id": ARROW_TYPES[intake.award_id_type],
        "awarded_us": pa.int64(),
        "player_id": ARROW_TYPES[intake.player_id_type],
        "points": pa.float64(),
        "reason": pa.string(),
        "rating_before": pa.float64(),
        "change": pa.float64(),
    }
    schema = pa.schema(list(types.items()))
    parts = [part.select(schema.names).cast(schema) for part in events.written]
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    columns: dict[str, Any] = {"pool": rows["pool"]} if pool else {}
    columns |= {
        "award_id": rows["award_id"],
        "awarded_at": rows["awarded_us"].cast(INSTANT),
        "player_id": rows["player_id"],
        "points": rows["points"].cast(rating),
        "reason": rows["reason"],
        "rating_before": rows["rating_before"].cast(rating),
        "change": rows["change"].cast(rating),
    }
    return pa.table(columns)


def _timeline_rows(
    stretch: Stretch,
    first: int,
    last: int,
    out: Outputs,
    first_seq: int,
    version_names: pa.Array,
    schema: pa.Schema,
    ruleset: Ruleset,
) -> pa.Table:
    """The timeline of the games `first:last`, in the run's one schema."""
    n = last - first
    rows = stretch.rows.slice(first, n)
    rating = rating_type(ruleset)
    nothing = pa.nulls(n, pa.int32())
    recent = [nothing, nothing] if stretch.recent is None else [pa.array(side[first:last]) for side in stretch.recent]
    ramp = ruleset.has_ramp
    experience = [_side(out.experience, i) if ramp else pa.nulls(n, pa.float64()) for i in (0, 1)]
    columns = {
        "pool": rows["pool"],
        "seq": pa.array(np.arange(first_seq, first_seq + n, dtype=np.int64)),
        "game_id": rows["game_id"],
        "played_at": rows["played_us"].cast(INSTANT),
        "winner_id": rows["winner_id"],
        "loser_id": rows["loser_id"],
        "is_draw": rows["is_draw"],
        "winner_rating_before": _side(out.before, 0).cast(rating),
        "loser_rating_before": _side(out.before, 1).cast(rating),
        "winner_change": _side(out.change, 0).cast(rating),
        "loser_change": _side(out.change, 1).cast(rating),
        "winner_expected": pa.array(out.expected),
        "winner_k": _side(out.k, 0),
        "loser_k": _side(out.k, 1),
        "stake": pa.array(stretch.stake[first:last]),
        "winner_games": _side(out.games, 0),
        "loser_games": _side(out.games, 1),
        "winner_recent_games": recent[0],
        "loser_recent_games": recent[1],
        "winner_experience": experience[0],
        "loser_experience": experience[1],
        "rule_version": version_names.take(pa.array(stretch.version[first:last])),
        "cube": rows["cube"],
        "match_length": rows["match_length"],
        "result": rows["result"],
        "weight": rows["weight"],
        "advantage": rows["advantage"],
    }
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _side(values: NDArray[Any], side: int) -> pa.Array:
    """One side's column of an output of shape `(n_games, 2)`."""
    return pa.array(np.ascontiguousarray(values[:, side]))
