"""One pass of many settings over the same games: every setting rated on its own, on all cores.

What differs by setting and can be told before any rating is (divisor and stake by kind of game) comes from the run's own query,
once a setting; what cannot is left to the sweep's kernel.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.compiled import ready
from eloreplay.errors import InputRefused, UsageFault
from eloreplay.events import INT32_MAX, Events, adjust
from eloreplay.executors import THREADS, team
from eloreplay.games import put_rule_versions
from eloreplay.kernel import ROUND_HALF_AWAY, ROUND_NONE
from eloreplay.queries import Database
from eloreplay.rating import initial_state
from eloreplay.rules import KernelTables, Ruleset
from eloreplay.settings import Setting
from eloreplay.sweep_field import Field, Played, Run
from eloreplay.sweep_kernel import NEVER_HEAVY, SUMS, SWEEP_STATE, close_weeks, sweep_games

#: Bytes that the ratings of all settings of a pass may take.
STATE_BYTES = 2 << 30
#: The compiled loop takes its arguments by position, in groups.
_rate_games: Callable[..., None] = sweep_games


class Arm:
    """One setting on its way through the games.

    Args:
        setting: what is rated.
        divisor: of each kind of game, float64 `(n_kinds,)`; likewise `stake`.
        stake: see there.
        start: `SWEEP_STATE` `(n_players,)` before the first game.
        parts: 2 where the games are parted, else 1: the sums are `SUMS` `(parts,)`.
    """

    def __init__(
        self, setting: Setting, divisor: NDArray[np.float64], stake: NDArray[np.float64], start: NDArray[Any], parts: int
    ) -> None:
        ruleset = setting.ruleset
        self.setting = setting
        self.state = start
        self.sums = np.zeros(parts, SUMS)
        versions = ruleset.version_table()
        heavy = [(NEVER_HEAVY, 0.0) if games is None else (games, k) for games, k in _heavy(versions)]
        tables: KernelTables = ruleset.kernel_tables()
        self._arguments = (
            divisor,
            stake,
            np.array(versions["k"], np.float64),
            np.array([games for games, _ in heavy], np.int64),
            np.array([k for _, k in heavy], np.float64),
            *tables,
            ROUND_HALF_AWAY if ruleset.integer_ratings else ROUND_NONE,
            -math.inf if ruleset.floor is None else float(ruleset.floor),
            math.inf if ruleset.cap is None else float(ruleset.cap),
            math.inf if ruleset.max_change is None else float(ruleset.max_change),
        )

    def rate(self, played: Played, runs: Sequence[Run], field: Field) -> None:
        """Rate a stretch.

        Raises:
            InputRefused: a rating leaves the range of its column.
        """
        events = field.awards
        for run in runs:
            awards = slice(run.first_award, run.last_award)
            _rate_games(
                *played.part(run.first, run.last),
                events.player[awards],
                events.awarded_us[awards],
                events.points[awards],
                *self._arguments,
                run.part,
                self.state,
                self.sums,
            )
            if run.adjustment is not None:
                # What an adjustment writes down for the table of awards is not wanted here.
                beside = Events(events.player, events.awarded_us, events.points, events.rows, ())
                adjust(run.adjustment, beside, self.state, self.setting.ruleset, field.index)
            elif run.closes:
                close_weeks(self.state, self.sums, run.part)
        limit = INT32_MAX if self.setting.ruleset.integer_ratings else np.finfo(np.float64).max
        if not (np.abs(self.state["rating"]) <= limit).all():
            raise InputRefused(
                f"the setting {self.setting.values} moves a rating out of the range of its column; look at the weights, awards and "
                "start ratings of the games, or vary less"
            )


def _heavy(versions: dict[str, list[Any]]) -> Iterator[tuple[Any, Any]]:
    return zip(versions["heavy_games"], versions["heavy_k"], strict=True)


def arms(database: Database, field: Field, chosen: Sequence[Setting], scratch: Path) -> list[Arm]:
    """The settings at the start: divisor and stake of every kind of game by `sql/rule_terms.sql`, and the start ratings.

    Raises:
        UsageFault: so many that their ratings would not fit into memory.
    """
    insist_on_room(chosen, field)
    terms = settings_terms(field, chosen, scratch)
    return [
        Arm(setting, *terms[setting.ruleset.digest], start_of(database, field, setting.ruleset), field.parts) for setting in chosen
    ]


def start_of(database: Database, field: Field, ruleset: Ruleset) -> NDArray[Any]:
    """The state before the first game, `SWEEP_STATE` `(n_players,)`; who is `seen` has a start rating that was given."""
    start = initial_state(database, ruleset, field.index.num_rows)
    state = np.zeros(len(start), SWEEP_STATE)
    for name in ("rating", "experience", "games", "seen"):
        state[name] = start[name]
    return state


def insist_on_room(chosen: Sequence[Setting], field: Field) -> None:
    """Refuse settings that do not fit into memory.

    Raises:
        UsageFault: then, with how many do.
    """
    if len(chosen) > most_arms(field):
        raise UsageFault(
            f"{len(chosen)} settings of {field.index.num_rows} players are too many to be rated side by side; vary fewer values, "
            f"{most_arms(field)} settings at most"
        )


def most_arms(field: Field) -> int:
    """How many settings can be rated side by side: each holds 40 bytes a player and its sums."""
    return int(STATE_BYTES // (field.index.num_rows * SWEEP_STATE.itemsize + field.parts * SUMS.itemsize))


def settings_terms(
    field: Field, chosen: Sequence[Setting], scratch: Path
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Divisor and stake of every kind of game, float64 `(n_kinds,)` each, by the digest of the setting's rules."""
    kinds = field.kinds
    # Made-up instants, one a version, as the version is known: what is asked is its stake and divisor.
    inputs = pa.table(
        {
            "kind": np.arange(kinds.num_rows),
            "played_us": kinds["version_index"],
            "cube": kinds["cube"],
            "match_length": kinds["match_length"],
            "result": kinds["result"],
            "weight": pa.array(np.ones(kinds.num_rows)),
        }
    )
    found = {}
    database = Database(None, threads=1, memory_limit="500MB", spill=scratch / "terms")
    try:
        database.put("rule_inputs", inputs)
        for setting in chosen:
            versions = tuple(v.model_copy(update={"from_": at}) for at, v in enumerate(setting.ruleset.version))
            put_rule_versions(database, setting.ruleset.model_copy(update={"version": versions}))
            rows = database.arrow("rule_terms").sort_by("kind")
            found[setting.ruleset.digest] = (
                np.array(rows["divisor"].to_numpy(), np.float64),
                np.array(rows["stake"].to_numpy(), np.float64),
            )
    finally:
        database.close()
    return found


def rate_all(every: Sequence[Arm], games: Iterable[tuple[Played, list[Run]]], field: Field, threads: int) -> float:
    """Take every setting through the games, on as many threads; each setting is rated by one thread at a time, in order.

    Returns:
        Seconds spent on rating, the preparation of the games left out.
    """
    elapsed = 0.0
    with team(THREADS, threads) as members:
        for played, runs in games:
            started = time.perf_counter()
            waiting = [members.submit(arm.rate, played, runs, field) for arm in every]
            # An error of any setting is an error of the sweep.
            for one in waiting:
                members.result(one)
            elapsed += time.perf_counter() - started
    for arm in every:
        close_weeks(arm.state, arm.sums, 0 if field.split_us is None else 1)
    return elapsed


def warm_up() -> None:
    """Have the kernel compiled, for a thread of its own while the input is read."""
    nothing = np.empty(0)
    tables = (np.zeros(1, np.int8), np.zeros(1, np.int64), np.zeros(1, np.int64), nothing, nothing, np.ones(1), np.ones(1))
    state, sums = np.zeros(0, SWEEP_STATE), np.zeros(2, SUMS)
    awards = (np.empty(0, np.int32), np.empty(0, np.int64), nothing)
    numbers = (nothing, nothing, np.ones(1), np.ones(1, np.int64), np.ones(1))
    bounds = (ROUND_NONE, -math.inf, math.inf, math.inf)
    ready(
        sweep_games,
        lambda: _rate_games(*Played.none().part(0, 0), *awards, *numbers, *tables, np.zeros(1, np.bool_), *bounds, 0, state, sums),
    )
    ready(close_weeks, lambda: close_weeks(state, sums, 0))
