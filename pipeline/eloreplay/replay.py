"""The fold: read this file first.

A run is a fold over chunks of time, `state' = step(state, chunk)`: prepare the chunk's games by SQL (`prepare`), rate them in
the kernel (`rating`, `kernel`), write their timeline (`timeline`). The result does not depend on where the chunks are cut.
Short chunks are prepared together and cut afterwards, for a query costs more than the games of a quiet day; large ones are rated
in pieces, for memory must not grow with them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.errors import EnvironmentFault
from eloreplay.events import awards_table, load_events
from eloreplay.games import Intake, Report
from eloreplay.instants import show_us
from eloreplay.prepare import Recent, prepare
from eloreplay.queries import Database
from eloreplay.rating import apply_events, initial_state, rate
from eloreplay.rules import Ruleset
from eloreplay.timeline import TimelineWriter, timeline_rows, timeline_schema

#: Games that are prepared by one query: enough to be quick, few enough to stay in bounded memory.
STRETCH_GAMES = 1_000_000


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
        EnvironmentFault: disk, memory; or what was rated is not what was let through.
        InputRefused: a rating leaves the range of its column.
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
        started_seq, before = 1, Recent.nothing()
        for group in stretches(piece for one in chunks for piece in pieces(database, one)):
            stretch = prepare(database, ruleset, group[0].from_us, group[-1].to_us, len(state), before)
            before = stretch.trailing
            for step, seconds in stretch.elapsed_s.items():
                elapsed[step] += seconds
            edges = np.searchsorted(stretch.played_us, [piece.to_us for piece in group], side="left")
            counted = list(itertools.accumulate(piece.games for piece in group))
            _insist(edges.tolist() == counted, f"the games of chunk {group[0].chunk.label}")
            first = 0
            for piece, last in zip(group, edges.tolist(), strict=True):
                one = piece.chunk
                started = time.perf_counter()
                outputs = rate(stretch, first, last, events, state, ruleset, piece.to_us, index)
                elapsed["kernel"] += time.perf_counter() - started
                started = time.perf_counter()
                writer.write(
                    one.label, timeline_rows(stretch, first, last, outputs, done + 1, names, schema, ruleset), piece.closes
                )
                elapsed["writing"] += time.perf_counter() - started
                first, done = last, done + piece.games
                if piece.closes:
                    records.append(
                        {
                            "from": show_us(one.from_us),
                            "to": show_us(one.to_us),
                            "games": one.games,
                            "first_seq": started_seq,
                            "digest": one.digest,
                            "file": f"timeline/{writer.files[-1]}",
                        }
                    )
                    started_seq = done + 1
                report("rating", done, total)
        started = time.perf_counter()
    elapsed["writing"] += time.perf_counter() - started
    apply_events(events, state, ruleset, None, index)
    _insist(done == intake.bins["rated"], "the rated games")
    _insist(bool((state["seen"] != 0).all()), "the players")
    return Replay(state, index, records, awards_table(events, ruleset, intake, pool), writer.files, elapsed)


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
