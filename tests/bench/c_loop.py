"""The kernel alone, beside the same loop in C, on the same arrays.

    python tests/bench/c_loop.py TIMELINE_FOLDER LIBRARY ROUNDS
    python tests/bench/c_loop.py players PLAYERS GAMES ROUNDS

The first takes the games of a finished timeline in pieces of a million, as a run does, each piece once by either loop, the order
changing from piece to piece; both must leave the same bits. The second asks how the time of a game grows with the players: games
between players drawn at random, so that no cache helps.
"""

from __future__ import annotations

import ctypes
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.compiled import ready
from eloreplay.kernel import PLAYER_STATE, replay_games
from eloreplay.rules import load_ruleset

PIECE = 1_000_000
#: No fused multiply-add (`-ffp-contract=off`): numba makes none, and one would change a last bit.
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")
#: (name, shape after the number of games, type) of what the kernel fills.
OUTPUTS = (
    ("before", (2,), np.float64),
    ("change", (2,), np.float64),
    ("expected", (), np.float64),
    ("k", (2,), np.float64),
    ("games", (2,), np.int32),
    ("experience", (2,), np.float64),
)
Array = np.ndarray[Any, Any]


def build(target: Path) -> Path:
    """Compile kernel.c with gcc; returns the library."""
    subprocess.run(["gcc", *FLAGS, str(Path(__file__).with_name("kernel.c")), "-o", str(target), "-lm"], check=True)
    return target


def c_loop(library: Path) -> Callable[..., None]:
    """A function with the arguments of `kernel.replay_games`."""
    function = ctypes.CDLL(str(library.absolute())).replay_games
    function.restype = None

    def call(*arguments: Any) -> None:
        passed: list[Any] = [ctypes.c_int64(arguments[0].size), ctypes.c_int64(arguments[11].size)]
        for value in arguments:
            if isinstance(value, np.ndarray):
                assert value.flags["C_CONTIGUOUS"]
                passed.append(ctypes.c_void_p(value.ctypes.data))
            else:
                passed.append(ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value))
        function(*passed)

    return call


def outputs(n: int) -> dict[str, Array]:
    """What the kernel fills, touched once, so that no loop is charged for the first touch of a page."""
    return {name: np.ones((n, *shape), kind) for name, shape, kind in OUTPUTS}


def fresh_state(players: int, start: float) -> Array:
    state = np.zeros(players, PLAYER_STATE)
    state["rating"] = start
    state["peak_rating"] = -math.inf
    return state


def no_awards() -> tuple[Array, Array, Array]:
    return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)


def rule_numbers(rules: str = "tavla42") -> tuple[Any, ...]:
    """The kernel's arguments from `k_axis` to `max_change`; one version, half-away rounding, no bounds."""
    return (*load_ruleset(rules, {}).kernel_tables(), 1, -math.inf, math.inf, math.inf)


def read_games(timeline: Path) -> dict[str, Array]:
    """The kernel's arrays from a finished timeline."""
    names = ["winner_id", "loser_id", "played_at", "winner_k", "loser_k", "stake"]
    rows = pa.concat_tables([pq.read_table(file, columns=names) for file in sorted(timeline.glob("*.parquet"))])
    ids = pa.chunked_array([*rows["winner_id"].chunks, *rows["loser_id"].chunks]).dictionary_encode().unify_dictionaries()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in ids.chunks]).astype(np.int32)
    n = len(rows)
    return {
        "winner": codes[:n],
        "loser": codes[n:],
        "played_us": rows["played_at"].cast(pa.int64()).to_numpy().copy(),
        "score": np.ones(n),
        "advantage": np.zeros(n),
        "divisor": np.full(n, 1200.0),
        "stake": rows["stake"].to_numpy().copy(),
        "winner_k": rows["winner_k"].to_numpy().copy(),
        "loser_k": rows["loser_k"].to_numpy().copy(),
        "match_length": np.zeros(n),
        "version": np.zeros(n, np.int16),
    }


def warm(numbers: Sequence[Any]) -> None:
    """Have numba's loop loaded or compiled."""
    games = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), *[np.empty(0)] * 7, np.empty(0, np.int16))
    arguments = (*games, *no_awards(), fresh_state(1, 0.0), *numbers, *outputs(0).values(), np.empty(0), np.empty(0))
    ready(replay_games, lambda: replay_games(*arguments))


def race(games: dict[str, Array], loops: dict[str, Callable[..., None]], rounds: int) -> dict[str, Any]:
    """Rate the games by every loop, piece by piece in turn.

    Returns:
        seconds by loop, one a round; `games`; `same`: whether all loops gave the same bits; `last_bit`: games whose expected score
        differs between loops; `same_changes`: whether the rounded changes are the same all the same.
    """
    numbers = rule_numbers()
    n = games["winner"].size
    players = int(max(games["winner"].max(), games["loser"].max())) + 1
    filled = {name: outputs(min(n, PIECE)) for name in loops}
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    same, last_bit, same_changes, turn = True, 0, True, 0
    for _ in range(rounds):
        states = {name: fresh_state(players, 1500.0) for name in loops}
        spent = dict.fromkeys(loops, 0.0)
        for first in range(0, n, PIECE):
            part = slice(first, min(first + PIECE, n))
            turn += 1
            for name in sorted(loops, reverse=turn % 2 == 0):
                out = {key: values[: part.stop - first] for key, values in filled[name].items()}
                arguments = [values[part] for values in games.values()]
                started = time.perf_counter()
                loops[name](*arguments, *no_awards(), states[name], *numbers, *out.values(), np.empty(0), np.empty(0))
                spent[name] += time.perf_counter() - started
            one, *others = (filled[name] for name in loops)
            for other in others:
                here = slice(0, part.stop - first)
                same &= all(one[key][here].tobytes() == other[key][here].tobytes() for key in one)
                last_bit += int(np.count_nonzero(one["expected"][here] != other["expected"][here]))
                same_changes &= bool((one["change"][here] == other["change"][here]).all())
        for name in loops:
            seconds[name].append(spent[name])
        one_state, *other_states = states.values()
        same &= all(one_state.tobytes() == other.tobytes() for other in other_states)
    return {"games": n, "players": players, "seconds": seconds, "same": same, "last_bit": last_bit, "same_changes": same_changes}


def random_games(players: int, n: int) -> dict[str, Array]:
    """Games between players drawn at random, seeded, in one piece."""
    rng = np.random.default_rng(42)
    winner = rng.integers(0, players, n, dtype=np.int32)
    return {
        "winner": winner,
        "loser": ((winner.astype(np.int64) + rng.integers(1, players, n)) % players).astype(np.int32),
        "played_us": np.arange(n, dtype=np.int64),
        "score": np.ones(n),
        "advantage": np.zeros(n),
        "divisor": np.full(n, 1200.0),
        "stake": np.ones(n),
        "winner_k": np.full(n, 32.0),
        "loser_k": np.full(n, 32.0),
        "match_length": np.zeros(n),
        "version": np.zeros(n, np.int16),
    }


def by_players(players: int, n: int, rounds: int) -> dict[str, Any]:
    """Seconds a game with so many players, the median of some rounds; the state is written once before."""
    numbers = rule_numbers()
    warm(numbers)
    games, state, out = random_games(players, n), fresh_state(players, 1500.0), outputs(n)
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        replay_games(*games.values(), *no_awards(), state, *numbers, *out.values(), np.empty(0), np.empty(0))
        seconds.append(time.perf_counter() - started)
    return {"players": players, "games": n, "seconds": seconds, "ns_a_game": 1e9 * statistics.median(seconds) / n}


def main() -> None:
    if sys.argv[1] == "players":
        result = by_players(*map(int, sys.argv[2:5]))
    else:
        warm(rule_numbers())
        loops = {"kernel": replay_games, "c": c_loop(Path(sys.argv[2]))}
        result = race(read_games(Path(sys.argv[1])), loops, int(sys.argv[3]))
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
