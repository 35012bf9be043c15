"""What moves ratings and is no game: awards at their instant, and the dated one-off adjustments of a ruleset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eloreplay.errors import InputRefused
from eloreplay.games import Intake
from eloreplay.kernel import round_each
from eloreplay.queries import Database
from eloreplay.rules import Adjustment, Ruleset
from eloreplay.tables import ARROW_TYPES, INSTANT, rating_type

#: Largest rating and change under integer rules.
INT32_MAX = 2**31 - 1


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


def load_events(database: Database, adjustments: Sequence[Adjustment], settled_us: int | None = None) -> Events:
    """The applied awards in order (instant, award_id), with the adjustments that are due; those before `settled_us` are done."""
    rows = database.arrow("applied_awards")
    awarded_us = np.array(rows["awarded_us"].to_numpy(), np.int64)
    return Events(
        player=np.array(rows["player_index"].to_numpy(), np.int32),
        awarded_us=awarded_us,
        points=np.array(rows["points"].to_numpy(), np.float64),
        rows=rows,
        adjustments=adjustments,
        next_award=0 if settled_us is None else int(np.searchsorted(awarded_us, settled_us, side="left")),
        next_adjustment=0 if settled_us is None else sum(adjustment.at < settled_us for adjustment in adjustments),
    )


def record_awards(events: Events, end: int, before: NDArray[np.float64], change: NDArray[np.float64]) -> None:
    """Note the awards from the next one up to `end` as applied; `before` and `change` are float64 `(end - next_award,)`."""
    start = events.next_award
    if end == start:
        return
    events.written.append(
        events.rows.slice(start, end - start)
        .select(["pool", "award_id", "awarded_us", "player_id", "points", "reason"])
        .append_column("rating_before", pa.array(before))
        .append_column("change", pa.array(change))
    )
    events.next_award = end


def adjust(adjustment: Adjustment, events: Events, state: NDArray[Any], ruleset: Ruleset, index: pa.Table) -> None:
    """Move every rating that is known at the adjustment's instant; each step is rounded once as the ruleset says."""
    at = np.flatnonzero(state["seen"])
    # In the order of their ids: positions depend on when a player was met, which may not show in a table.
    by_id = pc.sort_indices(index.take(pa.array(at)), [("pool", "ascending"), ("player_id", "ascending")])
    at = at[by_id.to_numpy()]
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
    keep_in_range(before, change, "adjustment", names, "name", 0, ruleset)
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


def keep_in_range(
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
