"""Helpers of the tests that publish: a PostgreSQL of their own on loopback, and runs that are made up fast."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

UTC_US = pa.timestamp("us", "UTC")


def binaries() -> Path:
    """Where `initdb` is; skips the test when it is nowhere, which is a failure in CI."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    found = shutil.which("initdb")
    for place in (*places, *([Path(found).parent] if found else [])):
        if (place / "initdb").exists() and (place / "pg_ctl").exists():
            return place
    message = "no PostgreSQL here (Debian: apt-get install postgresql)"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@dataclass(frozen=True)
class Cluster:
    """A running server, with nothing in it but what a test makes."""

    port: int

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    @contextlib.contextmanager
    def connect(self, database: str = "postgres") -> Iterator[Any]:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.url(database)) as connection:
            yield connection
            connection.rollback()

    def empty(self) -> str:
        """The database without anything that a test has made; returns its name."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "select quote_ident(nspname) from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'"
            )
            for (name,) in cursor.fetchall():
                cursor.execute(f"drop schema {name} cascade")
            connection.commit()
        return "postgres"

    def frame(self, query: str, database: str = "postgres") -> pl.DataFrame:
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            found = pl.from_arrow(cursor.fetch_arrow_table())
        assert isinstance(found, pl.DataFrame)
        return found

    def value(self, query: str, database: str = "postgres") -> Any:
        return self.frame(query, database).item()


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Make a cluster in a temporary folder and run it; root may not, so that it is `postgres` who does."""
    place = binaries()
    folder = Path(tempfile.mkdtemp(prefix="eloreplay-pg-"))
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam("postgres")
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c full_page_writes=off -c max_wal_size=4GB"

    def call(*words: str) -> None:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, **who)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"

    try:
        call(str(place / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "--auth=trust", "-N", "-E", "UTF8", "--locale=C")
        # Whoever is called guest needs a password, everybody else none.
        rights = folder / "data" / "pg_hba.conf"
        rights.write_text("host all guest 127.0.0.1/32 scram-sha-256\n" + rights.read_text(encoding="utf-8"), encoding="utf-8")
        log = str(folder / "log")
        # The server inherits no pipe of ours: who waits for its end would wait for the server's.
        words = [str(place / "pg_ctl"), "-D", str(folder / "data"), "-o", options, "-w", "-t", "120", "-l", log, "start"]
        subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, **who)
        yield Cluster(port)
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            call(str(place / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


ENDS_ITSELF = """
import os, sys
from eloreplay import send_postgres
from eloreplay.cli import main
from eloreplay.console import Console

step, share, how = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
if step == "last":
    send_postgres._say_what_is_there = lambda *_: os.kill(os.getpid(), how)

def report(self, now, done, total):
    global step
    if now == step and done > share * total:
        step = ""
        os.kill(os.getpid(), how)

Console.report = report
code = main(sys.argv[4:])
sys.stdout.flush()
os._exit(code)
"""


def killed(words: list[object], step: str, share: float = 0.0, how: signal.Signals = signal.SIGKILL) -> int:
    """Run the command in a process of its own that gets a signal once it has done this share of a step ("last": all but the
    word on which run is there); returns how it ended.
    """
    return subprocess.run(
        [sys.executable, "-c", ENDS_ITSELF, step, str(share), str(int(how)), *map(str, words)], check=False
    ).returncode


# ---------------------------------------------------------------- runs that are made up


def made_up_run(root: Path, number: int, games: int, chunks: int = 10, stays: int = 0) -> Path:
    """Publish a run that nothing has computed. Its number stands in every row that is its own, so that any mixture can be told:
    in the timeline as `rule_version`, in `players` as `wins`, in `leaderboard` as `rank`, in `summary` as `games`.

    Args:
        root: the output folder.
        number: of the run.
        games: rows of the timeline.
        chunks: its files.
        stays: how many of the first ones are links to those of the run before.
    """
    root.mkdir(parents=True, exist_ok=True)
    (root / "eloreplay.json").write_text('{"format": 1}\n', encoding="utf-8")
    run = root / "runs" / f"{number:06d}"
    (run / "timeline").mkdir(parents=True)
    edges = np.linspace(0, games, chunks + 1).astype(np.int64)
    for at, (low, high) in enumerate(itertools.pairwise(edges)):
        name = f"timeline/{at + 1:06d}_2026-01-{at + 1:02d}.parquet"
        if at < stays:
            os.link(root / "runs" / f"{number - 1:06d}" / name, run / name)
        else:
            pq.write_table(_timeline(np.arange(low, high), number), run / name)
    count = max(1, games // 100)
    ids = pa.array([f"p{at}" for at in range(count)])
    mine = pa.array(np.full(count, number, np.int32))
    pq.write_table(pa.table({"player_id": ids, "rating": mine, "wins": mine}), run / "players.parquet")
    pq.write_table(pa.table({"rank": pa.array([number] * 100, pa.int64()), "player_id": ["x"] * 100}), run / "leaderboard.parquet")
    pq.write_table(pa.table({"statistic": ["s"], "games": pa.array([number], pa.int64())}), run / "summary.parquet")
    awards = {
        "award_id": pa.int64(),
        "awarded_at": UTC_US,
        "player_id": pa.string(),
        "points": pa.int32(),
        "rating_before": pa.int32(),
        "change": pa.int32(),
    }
    pq.write_table(pa.table({name: pa.array([], kind) for name, kind in awards.items()}), run / "awards.parquet")
    manifest = {"run": run.name, "made_at": "2026-11-30T00:00:00Z", "as_of": "2026-11-30T00:00:00.000001Z", "rows_read": games}
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    link = root / ".next"
    link.symlink_to(f"runs/{run.name}")
    os.replace(link, root / "current")
    return run


def _timeline(at: np.ndarray[Any, Any], number: int) -> pa.Table:
    many = len(at)
    whole = pa.array((at % 2000).astype(np.int32))
    real = pa.array(at / 7.0)
    columns = {
        "seq": pa.array(at + 1),
        "game_id": pa.array(at * 3),
        "played_at": pa.array(at * 1_000_003, pa.int64()).cast(UTC_US),
        "winner_id": pa.array(at % 997).cast(pa.string()),
        "loser_id": pa.array(at % 991 + 1000).cast(pa.string()),
        "is_draw": pa.array(at % 2 == 0),
    }
    columns |= dict.fromkeys(("winner_rating_before", "loser_rating_before", "winner_change", "loser_change"), whole)
    columns |= dict.fromkeys(("winner_expected", "winner_k", "loser_k", "stake"), real)
    columns |= dict.fromkeys(("winner_games", "loser_games", "winner_recent_games", "loser_recent_games"), whole)
    columns |= {name: pa.nulls(many, pa.float64()) for name in ("winner_experience", "loser_experience")}
    return pa.table(columns | {"rule_version": pa.array([str(number)] * many)})
