"""The settings of a sweep rated by the workers of a cluster: each takes a share of the settings through all games.

The games are prepared once, here, and written into files on shared storage. Where there are fewer settings than the cluster can
work on at once and the games have several ladders, the ladders are shared out, too: no game, award or rating of one touches
another, and the sums are whole numbers, so they add up to what one pass would have found.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from eloreplay.executors import Cluster, SharedFolder, cancel
from eloreplay.games import Intake, Report
from eloreplay.queries import Database
from eloreplay.settings import Setting
from eloreplay.sweep_field import Field, Played, Run
from eloreplay.sweep_kernel import CARRY, SUMS, SWEEP_STATE, close_weeks
from eloreplay.sweep_pass import Arm, insist_on_room, settings_terms, start_of, warm_up

#: Shares for each task that can be worked on at once: every share reads all games again; with too few the last one is waited for.
SHARES = 2
#: Bytes that the ratings of a share may take on a worker.
SHARE_BYTES = 256 << 20
_FIELD, _START = "field", "start.npy"


@dataclass(frozen=True)
class _Job:
    """What every task reads.

    Attributes:
        field: what the settings share; without what came through the door.
        pool: int64 `(n_players,)`, number of each player's ladder.
    """

    field: Field
    pool: NDArray[np.int64]


@dataclass(frozen=True)
class _Share:
    """What one task takes through the games.

    Attributes:
        arms: (setting, divisor, stake) of each setting, as `sweep_pass.Arm` takes them.
        pools: numbers of the ladders, or None: all of them.
    """

    arms: list[tuple[Setting, NDArray[np.float64], NDArray[np.float64]]]
    pools: NDArray[np.int64] | None


def rate_on_cluster(
    cluster: Cluster,
    database: Database,
    field: Field,
    chosen: Sequence[Setting],
    games: Iterable[tuple[Played, list[Run]]],
    scratch: Path,
    report: Report,
) -> tuple[list[Arm], float]:
    """Rate every setting over the games.

    Args:
        cluster: who works.
        database: as `sweep_field.opened` gives it.
        field: likewise.
        chosen: the settings.
        games: see `sweep_field.stretches`.
        scratch: an existing folder to work in, need not be shared.
        report: told after each share.

    Returns:
        The settings in their order, each with its sums and of its states the ratings; and the seconds spent on rating.

    Raises:
        UsageFault: more settings than fit into memory.
        InputRefused: a rating leaves the range of its column.
        EnvironmentFault: the cluster or the storage is in the way.
    """
    insist_on_room(chosen, field)
    shared, team = cluster.shared, cluster.team
    pool = pc.rank(field.index["pool"], tiebreaker="dense").to_numpy().astype(np.int64) - 1
    pool_games = np.zeros(int(pool.max(initial=0)) + 1, np.int64)
    stretches = 0
    for played, runs in games:
        played.save(shared.path / f"{stretches}.games")
        shared.keep(f"{stretches}.runs", runs)
        pool_games += np.bincount(pool[played.winner], minlength=pool_games.size)
        stretches += 1
    terms = settings_terms(field, chosen, scratch)
    # What came through the door is of no use to a worker, and names every file of it.
    shared.keep(_FIELD, _Job(dataclasses.replace(field, intake=Intake()), pool))
    with (shared.path / _START).open("wb") as stream:
        np.save(stream, start_of(database, field, chosen[0].ruleset))

    started = time.perf_counter()
    every = [Arm(setting, *terms[setting.ruleset.digest], np.zeros(0, SWEEP_STATE), field.parts) for setting in chosen]
    ratings = np.zeros((len(chosen), field.index.num_rows))
    waiting: list[tuple[range, NDArray[np.int64] | None, Path, Future[None]]] = []
    try:
        for at, (numbers, pools) in enumerate(shares(len(chosen), field.index.num_rows, pool_games, team.size)):
            share = _Share([(chosen[i], *terms[chosen[i].ruleset.digest]) for i in numbers], pools)
            shared.keep(f"{at}.share", share)
            target = shared.path / f"{at}.rated"
            waiting.append((numbers, pools, target, team.submit(rate_task, shared, f"{at}.share", stretches, target)))
        for done, (numbers, pools, target, future) in enumerate(waiting):
            team.result(future)
            here = slice(None) if pools is None else np.flatnonzero(np.isin(pool, pools))
            with target.open("rb") as stream:
                sums, rated = np.load(stream), np.load(stream)
            for i, one, values in zip(numbers, sums, rated, strict=True):
                add_sums(every[i].sums, one)
                ratings[i, here] = values[here]
            target.unlink()
            report("rating settings", done + 1, len(waiting))
    finally:
        cancel([future for *_, future in waiting])
    for arm, values in zip(every, ratings, strict=True):
        arm.state = values.view([("rating", np.float64)])
    return every, time.perf_counter() - started


def shares(settings: int, players: int, pool_games: NDArray[np.int64], size: int) -> list[tuple[range, NDArray[np.int64] | None]]:
    """Who rates what: consecutive settings, and the ladders (None: all of them), so that every task has about the same to do.

    Args:
        settings: how many there are.
        players: how many there are.
        pool_games: games by ladder, int64 `(n_pools,)`.
        size: tasks that are worked on at once.
    """
    wanted = SHARES * size
    most = max(1, SHARE_BYTES // max(1, players * SWEEP_STATE.itemsize))
    count = min(settings, max(wanted, -(-settings // most)))
    edges = np.linspace(0, settings, count + 1).astype(int).tolist()
    numbers = [range(first, last) for first, last in itertools.pairwise(edges)]
    parts = min(-(-wanted // count), pool_games.size)
    if parts < 2:
        return [(one, None) for one in numbers]
    # The largest ladders first, each to the part that has least so far.
    load, groups = [0] * parts, [[] for _ in range(parts)]  # type: tuple[list[int], list[list[int]]]
    for ladder in np.argsort(-pool_games, kind="stable").tolist():
        least = load.index(min(load))
        load[least] += int(pool_games[ladder])
        groups[least].append(ladder)
    return [(one, np.array(sorted(group), np.int64)) for one in numbers for group in groups]


def rate_task(shared: SharedFolder, name: str, stretches: int, target: Path) -> None:
    """On a worker: take a share of the settings through the games; may be done any number of times.

    Args:
        shared: what we share.
        name: of the share.
        stretches: how many there are of the games.
        target: gets the sums, `SUMS` `(n_settings, n_parts)`, and the ratings, float64 `(n_settings, n_players)`.

    Raises:
        InputRefused: a rating leaves the range of its column.
        EnvironmentFault: the worker does not see what we share.
    """
    shared.insist()
    warm_up()
    job: _Job = shared.kept(_FIELD)
    share: _Share = shared.kept(name)
    field, awarded = job.field, None
    if share.pools is not None:
        ours = np.isin(job.pool, share.pools)
        awarded = ours[field.awards.player]
        field = dataclasses.replace(field, awards=_only(field.awards, awarded))
    start = np.load(shared.path / _START)
    every = []
    for setting, divisor, stake in share.arms:
        state = start.copy()
        state["rating"][state["seen"] == 0] = setting.ruleset.start
        every.append(Arm(setting, divisor, stake, state, field.parts))
    for at in range(stretches):
        played, runs = Played.load(shared.path / f"{at}.games"), shared.kept(f"{at}.runs")
        if awarded is not None:
            wanted = ours[played.winner]
            runs = [_within(run, _before(wanted), _before(awarded)) for run in runs]
            played = Played(*(values[..., wanted] for values in played.part(0, len(wanted))))
        for arm in every:
            arm.rate(played, runs, field)
    for arm in every:
        close_weeks(arm.state, arm.sums, field.parts - 1)
    with shared.writing(target) as part, part.open("wb") as stream:
        np.save(stream, np.array([arm.sums for arm in every], SUMS))
        np.save(stream, np.array([arm.state["rating"] for arm in every]))


def _only(awards: Any, wanted: NDArray[np.bool_]) -> Any:
    """The awards of some players."""
    return dataclasses.replace(
        awards, player=awards.player[wanted], awarded_us=awards.awarded_us[wanted], points=awards.points[wanted]
    )


def _before(wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many are wanted before each position, int64 `(n + 1,)`."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(wanted)))


def _within(run: Run, games: NDArray[np.int64], awards: NDArray[np.int64]) -> Run:
    """A run among the games and awards that are wanted."""
    return run._replace(
        first=int(games[run.first]),
        last=int(games[run.last]),
        first_award=int(awards[run.first_award]),
        last_award=int(awards[run.last_award]),
    )


def add_sums(total: NDArray[Any], more: NDArray[Any]) -> None:
    """Add sums, both `SUMS` `(n_parts,)`, to `total`; carries go where one pass would have put them."""
    for name in SUMS.names or ():
        total[name] += more[name]
    for name in ("loss", "brier"):
        over = total[name][..., 0] >= CARRY
        total[name][..., 0][over] -= CARRY
        total[name][..., 1][over] += 1
