"""The fold: read this file first.

A run is a fold over chunks of time, `state' = step(state, chunk)`: prepare the chunk's games by SQL (`prepare`), rate them in
the kernel (`rating`, `kernel`), write their timeline (`timeline`). The result does not depend on where the chunks are cut.
Short chunks are prepared together and cut afterwards: a query costs more than the games of a quiet day.
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
from eloreplay.prepare import prepare
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
        for group in stretches(chunks):
            stretch = prepare(database, ruleset, group[0].from_us, group[-1].to_us, len(state))
            for step, seconds in stretch.elapsed_s.items():
                elapsed[step] += seconds
            edges = np.searchsorted(stretch.played_us, [c.to_us for c in group], side="left")
            _insist(edges.tolist() == list(itertools.accumulate(c.games for c in group)), f"the games of chunk {group[0].label}")
            first = 0
            for one, last in zip(group, edges.tolist(), strict=True):
                started = time.perf_counter()
                outputs = rate(stretch, first, last, events, state, ruleset, one.to_us, index)
                elapsed["kernel"] += time.perf_counter() - started
                started = time.perf_counter()
                writer.write(one.label, timeline_rows(stretch, first, last, outputs, done + 1, names, schema, ruleset))
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
