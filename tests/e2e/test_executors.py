"""Whoever does the work, the tables are the same: threads, tasks that are done twice, and a Dask cluster that loses a worker."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
import support_sweep as ss

from eloreplay import backfill, executors, sweep
from eloreplay.cli import main
from eloreplay.cluster_sweep import SHARE_BYTES, add_sums, shares
from eloreplay.errors import EnvironmentFault
from eloreplay.executors import Cluster, SharedFolder, Team, Workers
from eloreplay.sweep_kernel import CARRY, SUMS

# The name of the package is that of the function.
replay = importlib.import_module("eloreplay.replay")
PLAYERS = [f"p{number}" for number in range(24)]


def call(*argv: Any) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(one) for one in argv])
    return code, out.getvalue(), err.getvalue()


def bytes_of(folder: Path) -> dict[str, str]:
    """Digest by name of every table and every kept file of a folder."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.suffix in (".parquet", ".npy")
    }


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """A history with all there is: ladders, ties, heavy weeks, aliases, exclusions, start ratings, awards, refused rows."""
    folder, rng = tmp_path_factory.mktemp("given"), random.Random(11)
    rows = ss.random_games(rng, 1500, PLAYERS)
    for row in rows:
        row["ladder"] = rng.choice(("blitz", "classic", "classic", "day"))
    rows += [
        dict(rows[7]),
        {**rows[9], "game_id": -1, "loser_id": rows[9]["winner_id"]},
        {**rows[10], "game_id": -2, "voided": True},
    ]
    factors = {"single": 1.0, "gammon": 1.5, "backgammon": 2.0}
    stake = {"base": 1.0, "cube": "log2", "match_length": "sqrt", "result": factors, "weight": True}
    version = {"name": "first", "divisor": 400.0, "k": 32.0, "heavy": {"games": 4, "k": 16.0}, "stake": stake}
    rules = {
        "name": "everything",
        "start": 1500,
        "rounding": "half-away-from-zero",
        "advantage": True,
        "count": {"hours": 168.0},
        "version": [version, version | {"name": "second", "from": support.iso(ss.START + 50 * ss.DAY_US), "divisor": 800.0}],
        "adjustment": [{"name": "spring", "at": support.iso(ss.START + 40 * ss.DAY_US), "pull_to": 1500.0, "factor": 0.5}],
    }
    at = ss.START + 3 * ss.DAY_US
    awards = [
        {
            "award_id": number,
            "awarded_at": at + number * 5 * ss.DAY_US,
            "player_id": rng.choice(PLAYERS),
            "points": 9.0,
            "ladder": "classic",
        }
        for number in range(8)
    ]
    return [
        support.write(folder / "games.parquet", rows, {"ladder": None}),
        *("--rules", ss.write_rules(folder / "rules.toml", rules)),
        *("--awards", support.write(folder / "awards.parquet", awards)),
        *("--aliases", support.write(folder / "aliases.parquet", [{"alias_id": "p3", "player_id": "p4"}])),
        *("--exclude-players", support.write(folder / "excluded.parquet", [{"player_id": "p5"}])),
        *("--start-ratings", support.write(folder / "starts.parquet", [{"player_id": "p1", "rating": 1700, "ladder": "day"}])),
        *("--pool", "ladder", "--as-of", "2027-06-01", "--max-rejected", "1"),
    ]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of a few games, so that there are many, and chunks that take several."""
    monkeypatch.setattr(replay, "STRETCH_GAMES", 100)
    monkeypatch.setattr("eloreplay.sweep_field.STRETCH_GAMES", 200)


def backfilled(given: list[Any], out: Path, *options: Any) -> dict[str, str]:
    code, _, err = call("backfill", *given, "--chunk", "month", "--no-study", "--out", out, *options)
    assert (code, err) == (0, ""), err
    assert not (out / "work").exists()
    return bytes_of((out / "current").resolve())


def swept(given: list[Any], out: Path, *options: Any) -> dict[str, str]:
    code, _, err = call("sweep", *given, "--train-until", "2026-06-01", "--bootstrap", "0", "--out", out, *options)
    assert (code, err) == (0, ""), err
    return bytes_of(out)


FEW = ("--vary", "divisor=400")
MANY = ("--vary", "divisor=300:1200:100", "--vary", "k=16,24")


@pytest.fixture(scope="module")
def by_threads(given: list[Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What threads make of it."""
    folder = tmp_path_factory.mktemp("threads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "STRETCH_GAMES", 100)
        made = {"backfill": backfilled(given, folder / "out")}
    return made | {"few": swept(given, folder / "few", *FEW), "many": swept(given, folder / "many", *MANY)}


# ---------------------------------------------------------------- tasks done twice, in this process


class Twice(Executor):
    """Does every task at once, and once more: as when a worker was taken for dead and was not."""

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        self.tasks += 1
        future: Future[Any] = Future()
        try:
            task(*arguments, **named)
            future.set_result(task(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> Twice:
    """The command's cluster is `Twice`, as if two tasks were worked on at once."""
    made = Twice()

    @contextlib.contextmanager
    def cluster(_workers: Workers, folder: Path, memory_limit: str) -> Iterator[Cluster]:
        yield Cluster(Team(made, 2, False, "nobody"), SharedFolder.make(folder), memory_limit)

    for module in (backfill, sweep):
        monkeypatch.setattr(module, "cluster", cluster)
    return made


def test_a_backfill_of_tasks_that_are_done_twice(
    given: list[Any],
    by_threads: dict[str, dict[str, str]],
    twice: Twice,
    short: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = []
    stretches = replay.Preparation.stretches

    def counting(self: Any, spans: Any) -> Iterator[Any]:
        for stretch in stretches(self, spans):
            # The parts of a timeline have another kind of name.
            ready.append(len([file for file in self._shared.path.glob("*.arrow") if file.stem.isdigit()]))
            yield stretch

    monkeypatch.setattr(replay.Preparation, "stretches", counting)
    assert backfilled(given, tmp_path / "out") == by_threads["backfill"]
    timeline = len([name for name in by_threads["backfill"] if name.startswith("timeline/")])
    assert twice.tasks == len(ready) + timeline
    assert len(ready) > timeline > 3
    # Two tasks at once: no more than four lie ready, whatever the length of the history.
    assert max(ready) == 4


@pytest.mark.parametrize("which", ["few", "many"])
def test_a_sweep_of_tasks_that_are_done_twice(
    given: list[Any], by_threads: dict[str, dict[str, str]], twice: Twice, short: None, tmp_path: Path, which: str
) -> None:
    assert swept(given, tmp_path / "out", *(FEW if which == "few" else MANY)) == by_threads[which]
    # Two settings and three ladders: each setting is parted in two by ladders. Twenty and more settings: four shares of them.
    assert twice.tasks == 4


def test_rules_without_a_window_and_ids_that_are_text(twice: Twice, short: None, tmp_path: Path) -> None:
    rows = [{**row, "game_id": f"g{row['game_id']}"} for row in ss.random_games(random.Random(3), 400, PLAYERS)]
    rows = [{name: value for name, value in row.items() if name not in ("weight", "advantage")} for row in rows]
    games = support.write(tmp_path / "games.parquet", rows, {"game_id": None})
    given = [games, "--rules", "nardy", "--as-of", "2026-10-01"]
    found = backfilled(given, tmp_path / "out")
    assert twice.tasks > 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backfill, "cluster", executors.cluster)
        assert backfilled(given, tmp_path / "threads") == found
    assert twice.tasks > 4


def test_no_game_at_all(twice: Twice, tmp_path: Path) -> None:
    games = support.write(tmp_path / "games.parquet", [], columns=["game_id", "played_at", "winner_id", "loser_id"])
    given = [games, "--rules", "chess", "--as-of", "2026-10-01"]
    code, _, err = call("backfill", *given, "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert len(list((tmp_path / "out" / "current" / "timeline").iterdir())) == 1
    code, _, err = call("sweep", *given, "--vary", "k=16", "--out", tmp_path / "sweep")
    assert (code, err) == (0, "")


def test_what_a_setting_may_not_do_is_said_as_ever(twice: Twice, tmp_path: Path) -> None:
    games = support.write(tmp_path / "games.parquet", [support.game(1, "2026-01-01", "a", "b")])
    code, _, err = call(
        "sweep", games, "--rules", "tavla42", "--vary", "k=1e300", "--as-of", "2026-10-01", "--out", tmp_path / "out"
    )
    assert code == 3
    assert "moves a rating out of the range of its column" in err
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- parts


@pytest.mark.parametrize(("settings", "ladders", "size"), [(64, 1, 2), (64, 5, 2), (1, 5, 2), (3, 2, 4), (1, 1, 8), (5, 40, 16)])
def test_every_setting_of_every_ladder_is_rated_once(settings: int, ladders: int, size: int) -> None:
    games = np.arange(ladders) * 100
    found = [
        (setting, ladder)
        for numbers, pools in shares(settings, 1000, games, size)
        for setting in numbers
        for ladder in (range(ladders) if pools is None else pools.tolist())
    ]
    assert sorted(found) == [(setting, ladder) for setting in range(settings) for ladder in range(ladders)]
    assert len(shares(settings, 1000, games, size)) >= min(2 * size, settings * ladders) // 2


def test_the_ratings_of_a_share_fit_into_a_worker() -> None:
    assert max(len(numbers) for numbers, _ in shares(64, 1_000_000, np.array([5]), 2)) * 40_000_000 <= SHARE_BYTES


def test_sums_carry_as_one_pass_would() -> None:
    total, more = np.zeros(1, SUMS), np.zeros(1, SUMS)
    total["loss"][0, 3], more["loss"][0, 3] = (CARRY - 1, 2), (CARRY - 1, 5)
    total["loss"][0, 4], more["loss"][0, 4] = (7, 0), (8, 0)
    total["gap_games"][0, 0], more["gap_games"][0, 0] = 4, 5
    add_sums(total, more)
    assert total["loss"][0, 3].tolist() == [CARRY - 2, 8]
    assert total["loss"][0, 4].tolist() == [15, 0]
    assert total["gap_games"][0, 0] == 9


def test_a_file_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    shared = SharedFolder.make(tmp_path / "shared")
    with pytest.raises(FileNotFoundError), shared.writing(tmp_path / "no" / "target") as part:
        part.write_text("all of it")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["shared", "shared.json"]
    with shared.writing(tmp_path / "target") as part:
        part.write_text("whole")
    assert (tmp_path / "target").read_text() == "whole"


def test_a_worker_looks_at_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedFolder.make(tmp_path / "shared")
    shared.insist()
    with pytest.raises(
        EnvironmentFault, match=r"does not see the folder .*elsewhere: with --executor dask, --out must lie on storage"
    ):
        replace(shared, path=tmp_path / "elsewhere").insist()
    # The same path on another machine's own disk.
    with pytest.raises(EnvironmentFault, match="does not see the folder"):
        replace(shared, word="another").insist()
    real = executors.versions()
    monkeypatch.setattr(executors, "versions", lambda: real | {"duckdb": "2.0.0"})
    with pytest.raises(EnvironmentFault, match=r"has duckdb 2\.0\.0 and not 2\."):
        shared.insist()


# ---------------------------------------------------------------- a real cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each, on loopback."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as made:
        yield made


def dask(cluster: Any) -> tuple[str, ...]:
    return ("--executor", "dask", "--scheduler", cluster.scheduler_address)


def lose_a_worker(cluster: Any, folder: Path, sign: str) -> tuple[threading.Thread, list[int]]:
    """As soon as a file of the pattern `sign` is in `folder`, one worker stands still, and is killed a little later."""
    lost: list[int] = []

    def watch() -> None:
        for _ in range(6000):
            if any(folder.glob(sign)):
                pid = next(iter(cluster.workers.values())).pid
                os.kill(pid, signal.SIGSTOP)
                # It now holds tasks that nobody else can finish.
                time.sleep(0.5)
                os.kill(pid, signal.SIGKILL)
                lost.append(pid)
                return
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread, lost


def test_a_worker_killed_midway_changes_nothing(
    cluster: Any, given: list[Any], by_threads: dict[str, dict[str, str]], short: None, tmp_path: Path
) -> None:
    thread, lost = lose_a_worker(cluster, tmp_path / "out" / "work" / "shared", "[0-9]*.arrow")
    found = backfilled(given, tmp_path / "out", *dask(cluster))
    thread.join()
    assert found == by_threads["backfill"]
    assert len(lost) == 1


def test_a_sweep_on_a_cluster_that_loses_a_worker(
    cluster: Any, given: list[Any], by_threads: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    thread, lost = lose_a_worker(cluster, tmp_path / ".out.sweep" / "scratch" / "shared", "0.share")
    found = swept(given, tmp_path / "out", *MANY, *dask(cluster))
    thread.join()
    assert found == by_threads["many"]
    assert len(lost) == 1


def test_a_task_s_own_words_come_back(cluster: Any, tmp_path: Path) -> None:
    lost = replace(SharedFolder.make(tmp_path / "shared"), path=tmp_path / "not there")
    with executors.team(Workers("dask", cluster.scheduler_address), 1) as team:
        assert (team.size, team.shares_memory) == (2, False)
        with pytest.raises(EnvironmentFault, match=r"the worker on .* does not see the folder .*not there"):
            team.result(team.submit(lost.insist))
        with pytest.raises(
            EnvironmentFault, match=r"the cluster at tcp://.*: a task failed with ZeroDivisionError: .*; nothing was published"
        ):
            team.result(team.submit(divmod, 1, 0))


@pytest.mark.long
def test_a_scheduler_that_ends_midway_ends_the_run(
    given: list[Any], short: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    place = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "dask"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(place)]
    scheduler = subprocess.Popen([*command, "scheduler", *options], **quiet)
    worker = subprocess.Popen([*command, "worker", "--scheduler-file", str(place), "--no-dashboard", "--no-nanny"], **quiet)
    try:
        for _ in range(600):
            if place.exists() and place.stat().st_size:
                break
            time.sleep(0.1)
        address = json.loads(place.read_text(encoding="utf-8"))["address"]
        stretches = replay.Preparation.stretches

        def interrupted(self: Any, spans: Any) -> Iterator[Any]:
            for stretch in stretches(self, spans):
                scheduler.kill()
                yield stretch

        monkeypatch.setattr(replay.Preparation, "stretches", interrupted)
        code, _, err = call("backfill", *given, "--out", tmp_path / "out", "--executor", "dask", "--scheduler", address)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    assert code == 1
    assert "a task was cancelled, as happens when the scheduler ends" in err
    assert "Traceback" not in err
    assert not (tmp_path / "out" / "current").exists()


# ---------------------------------------------------------------- what is in the way


def test_without_dask_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "distributed" else real(name, *rest))
    for command in ("backfill", "sweep"):
        code, _, err = call(
            command, "x", "--rules", "tavla42", "--out", tmp_path / "out", "--executor", "dask", "--scheduler", "tcp://127.0.0.1:1"
        )
        assert code == 2
        assert "pip install 'eloreplay[dask]'" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--executor", "dask"), "--executor dask needs --scheduler"),
        (("--scheduler", "tcp://127.0.0.1:1"), "is for --executor dask"),
    ],
)
def test_the_two_options_belong_together(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    code, _, err = call("backfill", "x", "--rules", "tavla42", "--out", tmp_path / "out", *options)
    assert code == 2
    assert says in err


def test_nobody_answers(given: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "CONNECT_S", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        for wrong in (address, "nonsense://x", "x y"):
            code, _, err = call("backfill", *given, "--out", tmp_path / "out", "--executor", "dask", "--scheduler", wrong)
            assert code == 1
            assert f"--scheduler {wrong}: no Dask scheduler answers there" in err
    assert not (tmp_path / "out" / "work").exists()


def test_no_workers(given: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "WORKERS_S", 0.2)
    with distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50) as empty:
        code, _, err = call("backfill", *given, "--out", tmp_path / "out", *dask(empty))
    assert code == 1
    assert "the scheduler has no workers" in err
