"""The fold: read this file first.

A run is a fold over chunks of time, `state' = step(state, chunk)`: prepare the chunk's games by SQL (`prepare`), rate them in
the kernel (`rating`, `kernel`), write their timeline (`timeline`) and what a later run needs to go on from there (`states`). A
backfill starts with nothing (`nothing_before`), a night from the end of a chunk of the run before: one code path, and the result
does not depend on where the chunks are cut. Short chunks are prepared together and cut afterwards, for a query costs more than the
games of a quiet day; large ones are rated in pieces, for memory must not grow with them. While one stretch is rated, the next one
is prepared and the one before is written, by threads or by a cluster (`executors`).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.chunks import Chunk
from eloreplay.cluster_prepare import Preparation
from eloreplay.cluster_timeline import ClusterTimelineWriter
from eloreplay.errors import EnvironmentFault
from eloreplay.events import Events, awards_table, load_events
from eloreplay.executors import THREADS, Cluster, team
from eloreplay.games import Intake, Report
from eloreplay.prepare import Recent, Stretch, prepare
from eloreplay.queries import Database
from eloreplay.rating import Outputs, apply_events, initial_state, rate
from eloreplay.rules import Ruleset
from eloreplay.states import Checkpoints, state_path, write_state
from eloreplay.timeline import TimelineWriter, timeline_rows, timeline_schema

#: Games that are prepared by one query: enough to be quick, few enough to stay in bounded memory.
STRETCH_GAMES = 1_000_000


@dataclass(frozen=True)
class Piece:
    """What is rated in one go: a whole chunk, or a part of one that is too large for that.

    Attributes:
        from_us: first instant, microseconds; likewise `to_us`, not included.
        games: rated games in it.
        chunk: the chunk it belongs to.
        closes: whether it is the last of its chunk.
    """

    from_us: int
    to_us: int
    games: int
    chunk: Chunk
    closes: bool = True


@dataclass
class Start:
    """Where the fold starts.

    Attributes:
        state: the ratings there, `PLAYER_STATE` `(n_players,)`; the fold moves it on.
        index: pool and player_id by position in the state.
        seq: rated games before.
        files: timeline files before.
        recent: the games before that the counting window can reach.
        settled_us: awards and adjustments before this instant are in the state; None: none is.
        since_full: see `states.Checkpoints`.
        awards: the output table of what was applied before, or None.
    """

    state: NDArray[Any]
    index: pa.Table
    seq: int
    files: int
    recent: Recent
    settled_us: int | None
    since_full: int | None
    awards: pa.Table | None


@dataclass
class Replay:
    """What a fold leaves.

    Attributes:
        state: the ratings at the end.
        index: pool and player_id by position in the state.
        chunks: the chunks with rated games that it went through, with their files.
        awards: the output table `awards`, whole.
        horizon_ratings: the ratings right after the horizon that was asked for, float64 `(n_players,)`, or None if none was.
        elapsed_s: seconds by step.
    """

    state: NDArray[Any]
    index: pa.Table
    chunks: list[Chunk]
    awards: pa.Table
    horizon_ratings: NDArray[np.float64] | None
    elapsed_s: dict[str, float]


def number_players(database: Database) -> pa.Table:
    """Give every player a position in the state: the known ones keep theirs (`known_players`), new ones follow by id.

    Leaves the table `player_index`; returns its pool and player_id in order.
    """
    database.create_table("player_index", "player_index")
    return database.arrow_of("select pool, player_id, player_index from player_index order by player_index")


def nothing_before(database: Database, ruleset: Ruleset, index: pa.Table) -> Start:
    """Where a backfill starts: before the first game."""
    state = initial_state(database, ruleset, index.num_rows)
    return Start(state, index, 0, 0, Recent.nothing(), None, None, None)


def replay(
    database: Database,
    ruleset: Ruleset,
    intake: Intake,
    start: Start,
    chunks: Sequence[Chunk],
    *,
    run: Path,
    pool: bool,
    as_of_us: int,
    horizon_us: int | None,
    report: Report,
    cluster: Cluster | None = None,
) -> Replay:
    """Rate the games of `chunks`, and write their timeline and states into `run`.

    Args:
        database: as `games.open_door` left it, with `player_index`; gets `favourite_counts` and `game_counts` of these chunks.
        ruleset: the rules.
        intake: what came through the door.
        start: the ratings before the first of `chunks`.
        chunks: those with rated games, in order.
        run: the run's folder.
        pool: whether tables carry the pool.
        as_of_us: adjustments after it are not yet due.
        horizon_us: keep the ratings as they are right after this instant; None: do not.
        report: told after each chunk.
        cluster: who prepares stretches and encodes the timeline, from the rows that `run` holds of all `chunks`; None: threads.

    Raises:
        EnvironmentFault: disk, memory; or what was rated is not what was let through.
        InputRefused: a rating leaves the range of its column.
    """
    fold = _Folding(database, ruleset, intake, start, run, pool, as_of_us, horizon_us)
    total = sum(chunk.games for chunk in chunks)
    if cluster is None:
        prepared = prepared_ahead(database, ruleset, chunks, len(start.state), start.recent)
        files = TimelineWriter(run / "timeline", fold.schema, start.files)
    else:
        preparation = Preparation(cluster, database, ruleset, intake, run, chunks, len(start.state))
        prepared = prepared_elsewhere(database, preparation, chunks)
        files = ClusterTimelineWriter(cluster, run / "timeline", fold.schema, start.files)
    with files as writer, contextlib.closing(prepared):
        for group, stretch in prepared:
            fold.stretch(group, stretch, writer, lambda done: report("rating", done, total))
        started = time.perf_counter()
    fold.elapsed["writing"] += time.perf_counter() - started
    return fold.end(total)


class _Folding:
    """The fold while it goes on: one object a run, so that a step has a name and its state a place."""

    def __init__(
        self,
        database: Database,
        ruleset: Ruleset,
        intake: Intake,
        start: Start,
        run: Path,
        pool: bool,
        as_of_us: int,
        horizon_us: int | None,
    ) -> None:
        self._database, self._ruleset, self._intake, self._start, self._run = database, ruleset, intake, start, run
        self._pool, self._horizon_us = pool, horizon_us
        self.elapsed = dict.fromkeys(("reading", "window", "kernel", "counting", "writing"), 0.0)
        database.create_view("rule_inputs", "rule_inputs")
        database.create_view("rule_terms", "rule_terms")
        due = sorted((a for a in ruleset.adjustment if a.at <= as_of_us), key=lambda a: a.at)
        self._events: Events = load_events(database, due, start.settled_us)
        self.schema = timeline_schema(ruleset, intake, pool)
        self._names = pa.array([version.name for version in ruleset.version], pa.string())
        self._state, self._done = start.state, 0
        self._checkpoints = Checkpoints(len(start.state), start.since_full)
        self._horizon_ratings: NDArray[np.float64] | None = None
        self._chunks: list[Chunk] = []
        self._first_seq = start.seq + 1
        for name in ("favourite_counts", "game_counts"):
            self._count(name, self.schema.empty_table(), np.empty(0, np.int64), create=True)

    def stretch(self, group: list[Piece], stretch: Stretch, writer: TimelineWriter, report: Any) -> None:
        """Rate the games of a stretch piece by piece."""
        for step, seconds in stretch.elapsed_s.items():
            self.elapsed[step] += seconds
        edges = np.searchsorted(stretch.played_us, [piece.to_us for piece in group], side="left").tolist()
        counted = list(itertools.accumulate(piece.games for piece in group))
        _insist(edges == counted, f"the games of chunk {group[0].chunk.label}")
        first = 0
        tables: list[pa.Table] = []
        for piece, last in zip(group, edges, strict=True):
            started = time.perf_counter()
            outputs = self._rate(stretch, first, last, piece)
            self._checkpoints.touch(stretch.winner[first:last], stretch.loser[first:last])
            self.elapsed["kernel"] += time.perf_counter() - started
            started = time.perf_counter()
            seq = self._start.seq + self._done + 1
            table = timeline_rows(stretch, first, last, outputs, seq, self._names, self.schema, self._ruleset)
            name = writer.write(piece.chunk.label, table, piece.closes)
            tables.append(table)
            first, self._done = last, self._done + piece.games
            if piece.closes:
                self._close(piece.chunk, name, writer)
            self.elapsed["writing"] += time.perf_counter() - started
            report(self._done)
        started = time.perf_counter()
        chunk_us = np.repeat([piece.chunk.from_us for piece in group], [piece.games for piece in group])
        for name in ("favourite_counts", "game_counts"):
            self._count(name, pa.concat_tables(tables), chunk_us.astype(np.int64))
        self.elapsed["counting"] += time.perf_counter() - started

    def _rate(self, stretch: Any, first: int, last: int, piece: Piece) -> Outputs:
        """Rate a piece; in two halves if the horizon lies in it, to see the ratings right after the horizon."""
        applied, adjusted = self._events.next_award, self._events.next_adjustment
        horizon = self._horizon_us
        arguments = (self._events, self._state, self._ruleset)
        if horizon is None or self._horizon_ratings is not None or piece.to_us <= horizon:
            outputs = rate(stretch, first, last, *arguments, piece.to_us, self._start.index)
        else:
            middle = first + int(np.searchsorted(stretch.played_us[first:last], horizon, side="right"))
            before = rate(stretch, first, middle, *arguments, min(horizon + 1, piece.to_us), self._start.index)
            self._horizon_ratings = self._state["rating"].copy()
            outputs = before.followed_by(rate(stretch, middle, last, *arguments, piece.to_us, self._start.index))
        self._checkpoints.touch(self._events.player[applied : self._events.next_award])
        if self._events.next_adjustment > adjusted:
            self._checkpoints.touch(np.flatnonzero(self._state["seen"]))
        return outputs

    def _close(self, chunk: Chunk, timeline: str, writer: TimelineWriter) -> None:
        """Keep what a later run needs to go on from the end of a chunk."""
        kind, at, records = self._checkpoints.close(self._state)
        writer.also(write_state, state_path(self._run, chunk), at, records)
        self._chunks.append(replace(chunk, first_seq=self._first_seq, timeline=timeline, state=kind, state_rows=len(at)))
        self._first_seq = self._start.seq + self._done + 1

    def _count(self, name: str, rows: pa.Table, chunk_us: NDArray[np.int64], create: bool = False) -> None:
        """Add a stretch to the counts that statistics are summed up from."""
        rows = rows.append_column("chunk_us", pa.array(chunk_us))
        if not self._pool:
            rows = rows.append_column("pool", pa.nulls(len(rows), pa.string()))
        with self._database.registered("timeline_part", rows):
            if create:
                self._database.create_table(name, name)
            else:
                self._database.insert(name, name)

    def end(self, total: int) -> Replay:
        """Apply what comes after the last game, and say what became of it all."""
        horizon = self._horizon_us
        if horizon is not None and self._horizon_ratings is None:
            apply_events(self._events, self._state, self._ruleset, horizon + 1, self._start.index)
            self._horizon_ratings = self._state["rating"].copy()
        apply_events(self._events, self._state, self._ruleset, None, self._start.index)
        _insist(self._done == total, "the rated games")
        awards = awards_table(self._events, self._ruleset, self._intake, self._pool)
        if self._start.awards is not None:
            awards = pa.concat_tables([self._start.awards.cast(awards.schema), awards])
        return Replay(self._state, self._start.index, self._chunks, awards, self._horizon_ratings, self.elapsed)


def _insist(same: bool, what: str) -> None:
    """Stop when what was rated is not what the door let through: no game may be lost or gained on the way, by whoever's fault.

    Raises:
        EnvironmentFault: naming what differs.
    """
    if not same:
        raise EnvironmentFault(
            f"{what} that were counted at the door and those that were rated are not the same; nothing was published. This is a "
            "fault in eloreplay or in a library under it, please report it"
        )


def prepared_ahead(
    database: Database, ruleset: Ruleset, chunks: Sequence[Chunk], players: int, recent: Recent
) -> Generator[tuple[list[Piece], Stretch]]:
    """The stretches of `chunks`, each prepared by one query on a thread of its own while the one before is rated and written.

    Args:
        database: as for `prepare`.
        ruleset: the rules.
        chunks: those with rated games, in order.
        players: length of the state.
        recent: the games before that the counting window can reach.

    Yields:
        A stretch's pieces, and the stretch. At most two stretches are held at a time.
    """
    with database.another() as other, team(THREADS, 1) as thread:
        groups = stretches(piece for one in chunks for piece in pieces(other, one))

        def following(before: Recent) -> tuple[list[Piece], Stretch] | None:
            group = next(groups, None)
            if group is None:
                return None
            return group, prepare(other, ruleset, group[0].from_us, group[-1].to_us, players, before)

        waiting = thread.submit(following, recent)
        try:
            while (found := thread.result(waiting)) is not None:
                waiting = thread.submit(following, found[1].trailing)
                yield found
        except BaseException:
            # The thread may be deep in a query that nobody waits for any more.
            other.connection.interrupt()
            raise


def prepared_elsewhere(
    database: Database, preparation: Preparation, chunks: Sequence[Chunk]
) -> Generator[tuple[list[Piece], Stretch]]:
    """The same stretches, prepared by a cluster."""
    groups: deque[list[Piece]] = deque()

    def spans() -> Iterator[tuple[int, int]]:
        for group in stretches(piece for one in chunks for piece in pieces(database, one)):
            groups.append(group)
            yield group[0].from_us, group[-1].to_us

    with contextlib.closing(preparation.stretches(spans())) as prepared:
        for stretch in prepared:
            yield groups.popleft(), stretch


def pieces(database: Database, chunk: Chunk) -> Iterator[Piece]:
    """A chunk in pieces of at most `STRETCH_GAMES` games, cut at full hours (one hour alone may hold more)."""
    if chunk.games <= STRETCH_GAMES:
        yield Piece(chunk.from_us, chunk.to_us, chunk.games, chunk)
        return
    start, size = chunk.from_us, 0
    for hour_us, games in database.rows("chunk_hours", {"from_us": chunk.from_us, "to_us": chunk.to_us}):
        if size and size + games > STRETCH_GAMES:
            yield Piece(start, hour_us, size, chunk, closes=False)
            start, size = hour_us, 0
        size += games
    yield Piece(start, chunk.to_us, size, chunk)


def stretches(parts: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Consecutive pieces in groups of at most `STRETCH_GAMES` games; each group is prepared by one query."""
    group: list[Piece] = []
    size = 0
    for piece in parts:
        if group and size + piece.games > STRETCH_GAMES:
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.games
    if group:
        yield group
