"""What the order of games at one instant decides: how many there are, and where ratings would end if it were reversed.

The order of a run is the instant, then the game id. Nobody knows which of two games with one stamp was played first, so what
another order would give is the part of a rating that no history can settle. The run itself is only read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eloreplay.asking import Asked, asked_run
from eloreplay.board_at import put_present_players, put_state
from eloreplay.chunks import FOLD
from eloreplay.events import load_events
from eloreplay.games import put_rule_versions
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.prepare import Recent, prepare
from eloreplay.rating import apply_events, initial_state, rate, warm_up
from eloreplay.replay import pieces, stretches
from eloreplay.states import restore
from eloreplay.tables import read_kept

#: (step, done, total).
Report = Callable[[str, int, int], None]


def ties(root: Path, threads: int | None, memory_limit: str, report: Report) -> dict[str, Any]:
    """How many games share an instant, and what their order decides.

    Args:
        root: the output folder.
        threads: of the queries; None: all cores.
        memory_limit: of the queries.
        report: told how far it is.

    Returns:
        `run`, `games`, the counts of `sql/ties_counts.sql` as `tied_…`, and `moved`: a dict a player whose final rating would be
        another one, the largest movement first.

    Raises:
        UsageFault: no run.
        EnvironmentFault: the run cannot be read; disk, memory.
    """
    with asked_run(root, threads=threads, memory_limit=memory_limit) as asked:
        counts = _count(asked, report)
        first_us = counts.pop("first_us")
        put_present_players(asked)
        moved: list[dict[str, Any]] = []
        if first_us is not None:
            put_replayed(asked, first_us, report, reverse_ties=True)
            moved = asked.database.arrow("ties_moved").to_pylist()
        for row in moved if not asked.pool else ():
            del row["pool"]
        ((players,),) = asked.database.connection.execute("select count(*) from players").fetchall()
        return {
            "run": asked.run.name,
            "as_of": asked.manifest["as_of"],
            "rules": asked.ruleset.name,
            "games": sum(chunk.games for chunk in asked.fold.chunks),
            "players": players,
            **{f"tied_{name}": value for name, value in counts.items()},
            "first_tie_at": show_us(first_us),
            "moved_players": len(moved),
            "moved": moved,
        }


def _count(asked: Asked, report: Report) -> dict[str, Any]:
    """The counts, file by file: a chunk of time holds whole instants."""
    database, chunks = asked.database, asked.rated_chunks
    for number, chunk in enumerate(chunks or [None]):
        asked.show([] if chunk is None else [chunk])
        for table, query in (("tied_instants", "ties_instants"), ("tied_sides", "ties_sides")):
            if number == 0:
                database.create_table(table, query)
            else:
                database.insert(table, query)
        report("counting ties", number + 1, len(chunks))
    (found,) = database.arrow("ties_counts").to_pylist()
    return dict(found)


def put_replayed(asked: Asked, first_us: int, report: Report, reverse_ties: bool) -> None:
    """Rate again from the chunk that `first_us` lies in, from the timeline's own inputs; leaves the table `reversed_players`.

    Args:
        asked: the run.
        first_us: first instant at which anything may be different, microseconds.
        report: told how far it is.
        reverse_ties: the games of each instant the other way round; without it the ratings are those of the run.
    """
    database, ruleset = asked.database, asked.ruleset
    kept = [chunk for chunk in asked.rated_chunks if chunk.to_us <= first_us]
    again = asked.rated_chunks[len(kept) :]
    index = read_kept(asked.run / FOLD / "players.parquet")
    numbered = index.append_column("player_index", pa.array(np.arange(len(index), dtype=np.int32)))
    asked.show_side_tables()
    database.put("player_index", numbered.cast(_id_types(asked, numbered.schema)))
    put_rule_versions(database, ruleset)
    state = initial_state(database, ruleset, len(index))
    restore(asked.run, kept, state)
    settled_us = kept[-1].to_us if kept else None
    recent = _recent(asked, kept)
    asked.show(again, one_pool="''")
    database.create_view("rule_inputs", "ties_inputs")
    database.create_view("rule_terms", "rule_terms")
    # What `sql/chunk_hours.sql` and `sql/applied_awards.sql` read: everything here was let through the door before.
    database.execute("create or replace temp view judged as select *, 'rated' as verdict from rule_inputs")
    database.execute(
        "create or replace temp view awards_judged as select pool, award_id, epoch_us(awarded_at) as awarded_us, player_id, "
        "cast(points as double) as points, reason, 'applied' as verdict from awards where award_id is not null"
    )
    due = sorted((one for one in ruleset.adjustment if one.at <= asked.manifest["as_of_us"]), key=lambda one: one.at)
    events = load_events(database, due, settled_us)
    warm_up(ruleset)
    done, total = 0, sum(chunk.games for chunk in again)
    for group in stretches(piece for chunk in again for piece in pieces(database, chunk)):
        end_us = group[-1].to_us
        stretch = prepare(database, ruleset, group[0].from_us, end_us, len(state), recent, reverse_ties)
        recent = stretch.trailing
        rate(stretch, 0, len(stretch.played_us), events, state, ruleset, end_us, index)
        done += len(stretch.played_us)
        report("rating again", done, total)
    apply_events(events, state, ruleset, None, index)
    put_state(asked, index, state, "reversed_players")


def _id_types(asked: Asked, schema: pa.Schema) -> pa.Schema:
    """The index with ids of the run's own types: what was all NULL when it was stored has none of its own."""
    return schema.set(schema.get_field_index("player_id"), pa.field("player_id", asked.schema.field("winner_id").type))


def _recent(asked: Asked, kept: list[Any]) -> Recent:
    """The games before that the counting window can reach."""
    window_us = asked.ruleset.window_us
    if window_us is None or not kept:
        return Recent.nothing()
    since_us = max(kept[-1].to_us - window_us, BEGINNING_US)
    asked.show([chunk for chunk in kept if chunk.to_us > since_us], one_pool="''")
    asked.database.execute("create or replace temp view timeline_before as select * from timeline")
    rows = asked.database.arrow("recent_games", {"from_us": since_us})
    return Recent(
        np.array(rows["played_us"].to_numpy(), np.int64),
        np.array(rows["winner_index"].to_numpy(), np.int32),
        np.array(rows["loser_index"].to_numpy(), np.int32),
    )
