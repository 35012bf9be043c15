"""`eloreplay publish` into a real PostgreSQL: readers never see a mixture, a killed one leaves the old tables, nights send little."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
import support
from support_postgres import Cluster, cluster, killed, made_up_run

from eloreplay import send_postgres
from eloreplay.cli import main

ROOT = Path(__file__).parents[2]
GAMES = 100_000


@pytest.fixture(scope="session")
def server() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def database(server: Cluster) -> str:
    return server.empty()


def call(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def publish(root: Path, to: str, *options: object) -> dict[str, Any]:
    code, out, err = call("publish", root, "--to", to, "--json", *options)
    assert code == 0, err + out
    return json.loads(out.splitlines()[-1])


def address(server: Cluster, database: str) -> str:
    return server.url(database)


def equal(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    """Same columns, types and rows, every value exactly, in whatever order."""
    assert found.schema == wanted.schema
    assert found.sort(pl.all()).equals(wanted.sort(pl.all()))


def assert_holds(server: Cluster, database: str, run: Path, schema: str = "eloreplay") -> None:
    """Every table is what the run's Parquet files say."""
    for path in (*run.glob("*.parquet"), run / "timeline"):
        wanted = pl.read_parquet(path / "*.parquet" if path.is_dir() else path)
        equal(server.frame(f'select * from "{schema}"."{path.stem}"', database), wanted)


def games(number: int, first: int = 0) -> list[support.Row]:
    start = support.ts("2026-01-01 00:00:00")
    return [
        support.game(at, start + at * 7_200_000_000, f"p{at % 13}", f"q{at * 7 % 11}", ladder=f"l{at % 2}")
        for at in range(first, first + number)
    ]


# ---------------------------------------------------------------- what is there is what was published


@pytest.mark.parametrize("schema", ["eloreplay", "we\"ird 'schema; drop table x --", "Ключ"])
def test_every_table_is_there_value_by_value(server: Cluster, database: str, run_backfill: support.Backfill, schema: str) -> None:
    awards = [
        {
            "award_id": at,
            "awarded_at": support.ts(f"2026-01-{at + 1:02d} 12:00:00"),
            "player_id": f"p{at}",
            "points": 5,
            "reason": "x",
            "ladder": "l1",
        }
        for at in range(9)
    ]
    out = run_backfill(
        [*games(300), support.game(999, "2026-01-02 00:00:00", "a", "a", ladder="l0")],
        "--pool",
        "ladder",
        "--chunk",
        "day",
        "--max-rejected",
        "5%",
        awards=awards,
    ).ok()
    done = publish(out.folder, address(server, database), "--schema", schema)
    assert done["rows"]["timeline"] == 300
    assert done["chunks_sent"] == len(list((out.current / "timeline").iterdir())) > 20
    quoted = schema.replace('"', '""')
    assert_holds(server, database, out.current, quoted)
    with duckdb.connect(str(out.current / "ratings.duckdb"), read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        wanted = connection.sql("select * from player_timeline").pl()
    assert wanted.height == 609
    equal(server.frame(f'select * from "{quoted}".player_timeline', database).select(wanted.columns), wanted)
    row = server.frame(f'select * from "{quoted}".eloreplay_run', database).row(0, named=True)
    manifest = out.manifest()
    assert (row["run"], row["rules"], row["rated_games"]) == ("000001", "tavla42", 300)
    assert row["as_of"] == dt.datetime.fromisoformat(manifest["as_of"])
    assert row["rows_read"] == manifest["rows_read"]


def test_text_ids_no_pool_and_the_indexes(server: Cluster, database: str, run_backfill: support.Backfill) -> None:
    rows = [{**row, "game_id": f"g'{row['game_id']}\t\\N", "winner_id": f"{row['winner_id']};\n“"} for row in games(60)]
    out = run_backfill(rows).ok()
    publish(out.folder, address(server, database))
    assert_holds(server, database, out.current)
    with duckdb.connect(str(out.current / "ratings.duckdb"), read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        wanted = connection.sql("select * from player_timeline").pl()
    found = server.frame("select * from eloreplay.player_timeline", database)
    assert (
        found.select(wanted.columns)
        .drop("award_id", "points")
        .sort(pl.all())
        .equals(wanted.drop("award_id", "points").sort(pl.all()))
    )
    indexes = server.frame("select indexdef from pg_indexes where schemaname = 'eloreplay' and tablename = 'timeline'", database)
    columns = {re.search(r"\((.*)\)", text)[1] for text in indexes["indexdef"]}  # type: ignore[index]
    assert columns == {"seq", "winner_id, played_at", "loser_id, played_at", "game_id"}


def test_a_night_a_rollback_and_a_second_time_send_only_what_differs(
    server: Cluster, database: str, run_backfill: support.Backfill, tmp_path: Path
) -> None:
    folder = tmp_path / "games"
    support.write(folder / "a.parquet", games(400))
    as_of = "2026-02-10T00:00:00Z"
    out = run_backfill(folder, "--as-of", as_of, "--chunk", "day").ok()
    to = address(server, database)
    first = publish(out.folder, to)
    assert (first["rows"]["timeline"], first["run_before"]) == (400, None)
    again = publish(out.folder, to)
    assert (again["rows_sent"], again["chunks_sent"]) == (0, 0)

    support.write(folder / "b.parquet", games(12, 400))
    assert call("nightly", folder, "--out", out.folder, "--as-of", as_of, "--quiet")[0] == 0
    planned = publish(out.folder, to, "--dry-run")
    assert server.value("select count(*) from eloreplay.timeline", database) == 400
    night = publish(out.folder, to)
    assert {key: planned[key] for key in ("rows", "rows_deleted", "chunks_sent")} == {
        key: night[key] for key in ("rows", "rows_deleted", "chunks_sent")
    }
    # 400 games are 33 days of twelve and one of four: the new ones fill it up and begin another.
    assert (night["rows"]["timeline"], night["rows_deleted"]["timeline"], night["chunks_sent"]) == (16, 4, 2)
    assert night["chunks_unchanged"] == 33
    assert_holds(server, database, out.current)

    # A late game in the tenth day: from there on all is rated anew, and before it nothing is sent.
    support.write(folder / "c.parquet", [support.game(5000, "2026-01-10 01:00:00", "p1", "q1")])
    assert call("nightly", folder, "--out", out.folder, "--as-of", as_of, "--quiet")[0] == 0
    late = publish(out.folder, to)
    assert (late["chunks_unchanged"], late["rows"]["timeline"]) == (9, 412 - 9 * 12 + 1)
    assert_holds(server, database, out.current)

    assert call("rollback", out.folder, "2")[0] == 0
    back = publish(out.folder, to)
    assert (back["chunks_unchanged"], back["rows"]["timeline"], back["run_before"]) == (9, 412 - 9 * 12, "000003")
    assert_holds(server, database, out.current)
    whole = publish(out.folder, to, "--everything")
    assert whole["rows"]["timeline"] == whole["rows_deleted"]["timeline"] == 412
    assert_holds(server, database, out.current)


def test_other_results_with_the_same_count_are_sent(
    server: Cluster, database: str, run_backfill: support.Backfill, tmp_path: Path
) -> None:
    """The first game is corrected: no later game is another one, and every later rating is."""
    folder = tmp_path / "games"
    rows = [support.game(at, row["played_at"], "a", "b") for at, row in enumerate(games(60))]
    support.write(folder / "a.parquet", rows)
    out = run_backfill(folder, "--as-of", "2026-02-10T00:00:00Z", "--chunk", "day").ok()
    publish(out.folder, address(server, database))
    support.write(folder / "b.parquet", [{**rows[0], "winner_id": "b", "loser_id": "a", "revision": 2}])
    assert call("nightly", folder, "--out", out.folder, "--as-of", "2026-02-10T00:00:00Z", "--quiet")[0] == 0
    assert publish(out.folder, address(server, database))["chunks_unchanged"] == 0
    assert_holds(server, database, out.current)


def test_other_columns_make_the_tables_anew(server: Cluster, database: str, run_backfill: support.Backfill) -> None:
    out = run_backfill(games(40)).ok()
    other = run_backfill(games(50), "--pool", "ladder", rules="chess").ok()
    to = address(server, database)
    publish(out.folder, to)
    done = publish(other.folder, to)
    assert {"timeline", "players", "leaderboard"} <= set(done["tables_made_anew"])
    assert_holds(server, database, other.current)
    assert server.value("select count(*) from eloreplay.player_timeline where pool = 'l1'", database) == 50
    publish(out.folder, to)
    assert_holds(server, database, out.current)


# ---------------------------------------------------------------- readers


class Reader(threading.Thread):
    """Reads in a loop until it is told to stop: whole tables in one transaction, and plain statements that join."""

    def __init__(self, server: Cluster, database: str) -> None:
        super().__init__()
        self._server, self._database = server, database
        self.stop = threading.Event()
        self.seen: dict[str, int] = {}
        self.mixtures: list[Any] = []
        self.slowest = 0.0

    def run(self) -> None:
        joined = (
            "select r.run, (select count(*) from eloreplay.timeline where rule_version = ltrim(r.run, '0')), r.rated_games, "
            "(select min(wins) from eloreplay.players), (select max(rank) from eloreplay.leaderboard), s.games "
            "from eloreplay.eloreplay_run r cross join eloreplay.summary s"
        )
        parts = (
            "select run, rated_games from eloreplay.eloreplay_run",
            "select count(*), min(rule_version), max(rule_version), sum(winner_change)::bigint from eloreplay.timeline",
            "select min(wins), max(wins) from eloreplay.players",
            "select min(rank), max(rank), count(*) from eloreplay.leaderboard",
            "select sum(games)::bigint, count(*) from eloreplay.summary",
        )
        with self._server.connect(self._database) as connection, connection.cursor() as cursor:
            while not self.stop.is_set():
                started = time.perf_counter()
                cursor.execute(joined)
                rows = cursor.fetchall()
                self.slowest = max(self.slowest, time.perf_counter() - started)
                connection.rollback()
                run = int(rows[0][0])
                if rows != [(f"{run:06d}", GAMES, GAMES, run, run, run)]:
                    self.mixtures.append(rows)
                cursor.execute("set transaction isolation level repeatable read")
                found = []
                for query in parts:
                    cursor.execute(query)
                    found.append(cursor.fetchall())
                connection.rollback()
                run = int(found[0][0][0])
                wanted = [
                    [(f"{run:06d}", GAMES)],
                    [(GAMES, str(run), str(run), found[1][0][3])],
                    [(run, run)],
                    [(run, run, 100)],
                    [(run, 1)],
                ]
                if found != wanted:
                    self.mixtures.append(found)
                self.seen[found[0][0][0]] = self.seen.get(found[0][0][0], 0) + 1


def test_a_reader_in_a_loop_sees_no_mixture(server: Cluster, database: str, tmp_path: Path) -> None:
    to = address(server, database)
    made_up_run(tmp_path / "out", 1, GAMES)
    publish(tmp_path / "out", to)
    reader = Reader(server, database)
    reader.start()
    try:
        for number in (2, 3):
            made_up_run(tmp_path / "out", number, GAMES)
            assert publish(tmp_path / "out", to)["rows"]["timeline"] == GAMES
            time.sleep(0.3)
    finally:
        reader.stop.set()
        reader.join()
    assert not reader.mixtures
    assert {"000001", "000003"} <= set(reader.seen)
    assert sum(reader.seen.values()) >= 5


def test_until_the_commit_readers_get_the_old_run_at_once(
    server: Cluster, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is deleted and copied, and not committed: nobody has to wait for a lock."""
    to = address(server, database)
    made_up_run(tmp_path / "out", 1, 5000)
    publish(tmp_path / "out", to)
    made_up_run(tmp_path / "out", 2, 6000, chunks=4)
    real, looked = send_postgres.Postgres.commit, []

    def commit(self: send_postgres.Postgres) -> None:
        if not looked:
            with server.connect(database) as connection, connection.cursor() as cursor:
                cursor.execute("set local lock_timeout = '1ms'")
                for table in ("timeline", "players", "leaderboard", "summary", "player_timeline", "eloreplay_chunks"):
                    cursor.execute(f"select count(*) from eloreplay.{table}")
                    looked.append(cursor.fetchall()[0][0])
                cursor.execute("select run from eloreplay.eloreplay_run")
                looked.append(cursor.fetchall()[0][0])
        real(self)

    monkeypatch.setattr(send_postgres.Postgres, "commit", commit)
    publish(tmp_path / "out", to)
    assert looked == [5000, 50, 100, 1, 10000, 14, "000001"]
    assert server.value("select count(*) from eloreplay.timeline", database) == 6000


# ---------------------------------------------------------------- killed, at once, refused


@pytest.mark.parametrize("first", [True, False], ids=["the first time", "over an old run"])
@pytest.mark.parametrize(("step", "share"), [("sending", 0.0), ("sending", 0.5), ("last", 0.0)])
def test_a_killed_publish_leaves_the_old_tables(
    server: Cluster, database: str, tmp_path: Path, first: bool, step: str, share: float
) -> None:
    to, rows = address(server, database), 100_000
    if not first:
        made_up_run(tmp_path / "out", 1, 3000)
        publish(tmp_path / "out", to)
    made_up_run(tmp_path / "out", 2, rows)
    assert killed(["publish", tmp_path / "out", "--to", to], step, share) == -signal.SIGKILL
    if first:
        assert server.value("select count(*) from pg_namespace where nspname = 'eloreplay'", database) == 0
    else:
        assert_holds(server, database, tmp_path / "out" / "runs" / "000001")
    assert publish(tmp_path / "out", to)["rows"]["timeline"] == rows
    assert server.value("select max(rule_version) || count(*) from eloreplay.timeline", database) == f"2{rows}"


def test_an_interrupted_publish_says_so(server: Cluster, database: str, tmp_path: Path) -> None:
    to = address(server, database)
    made_up_run(tmp_path / "out", 1, 3000)
    publish(tmp_path / "out", to)
    made_up_run(tmp_path / "out", 2, 200_000)
    assert killed(["publish", tmp_path / "out", "--to", to], "sending", 0.2, signal.SIGINT) == 130
    assert_holds(server, database, tmp_path / "out" / "runs" / "000001")


@pytest.mark.parametrize("moment", ["_put_in_place", "commit"])
def test_a_connection_that_breaks(
    server: Cluster, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    made_up_run(tmp_path / "out", 1, 3000)
    publish(tmp_path / "out", address(server, database))
    made_up_run(tmp_path / "out", 2, 4000)
    place: Any = send_postgres if moment == "_put_in_place" else send_postgres.Postgres
    real = getattr(place, moment)

    def cut(*arguments: Any) -> Any:
        asked = "select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity where pid <> pg_backend_pid() and datname = 'postgres'"
        assert server.value(asked) == 1
        return real(*arguments)

    monkeypatch.setattr(place, moment, cut)
    code, out, err = call("publish", tmp_path / "out", "--to", address(server, database))
    assert (code, out) == (1, "")
    assert ("as it was" if moment == "_put_in_place" else "the connection broke at the commit") in err
    assert_holds(server, database, tmp_path / "out" / "runs" / "000001")


def test_somebodys_view_is_never_dropped(server: Cluster, database: str, run_backfill: support.Backfill) -> None:
    out = run_backfill(games(40)).ok()
    other = run_backfill(games(50), "--pool", "ladder").ok()
    publish(out.folder, address(server, database))
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create schema site")
        cursor.execute("create view site.mine as select count(*) as n from eloreplay.timeline")
        cursor.execute("create role dashboard")
        cursor.execute("grant usage on schema eloreplay to dashboard")
        cursor.execute("grant select on all tables in schema eloreplay to dashboard")
        connection.commit()
    try:
        code, _, err = call("publish", other.folder, "--to", address(server, database))
        assert code == 1
        assert "depend on it" in err
        assert_holds(server, database, out.current)
        # The columns are the same: view and rights stay.
        assert publish(run_backfill(games(45)).ok().folder, address(server, database))["rows"]["timeline"] == 45
        with server.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("select n from site.mine")
            assert cursor.fetchall() == [(45,)]
            cursor.execute("set role dashboard")
            cursor.execute("select count(*) from eloreplay.player_timeline")
            assert cursor.fetchall() == [(90,)]
    finally:
        with server.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("drop owned by dashboard")
            cursor.execute("drop role dashboard")
            connection.commit()


def test_two_at_once_come_one_after_the_other(server: Cluster, database: str, tmp_path: Path) -> None:
    to = address(server, database)
    made_up_run(tmp_path / "a", 1, 20_000)
    made_up_run(tmp_path / "b", 2, 30_000)
    words = [sys.executable, "-m", "eloreplay", "publish", "--to", to, "--quiet"]
    running = [subprocess.Popen([*words, str(tmp_path / name)], stderr=subprocess.PIPE, text=True) for name in ("a", "b", "a", "b")]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0], said
    run = server.value("select run from eloreplay.eloreplay_run", database)
    assert_holds(server, database, tmp_path / {"000001": "a", "000002": "b"}[run] / "current")


def test_who_waits_for_the_lock_sends_what_is_in_force_then(server: Cluster, database: str, tmp_path: Path) -> None:
    made_up_run(tmp_path / "out", 1, 2000)
    done: list[dict[str, Any]] = []
    with server.connect(database) as connection:
        send_postgres.lock(send_postgres.Postgres(connection, "eloreplay"), print)
        waiting = threading.Thread(target=lambda: done.append(json.loads(run_apart(tmp_path / "out", address(server, database)))))
        waiting.start()
        asked = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        while server.value(asked, database) == 0:
            assert waiting.is_alive()
            time.sleep(0.02)
        made_up_run(tmp_path / "out", 2, 2500)
    waiting.join()
    assert done[0]["run_before"] is None
    assert (done[0]["run"], done[0]["rows"]["timeline"]) == ("000002", 2500)


def run_apart(root: Path, to: str) -> str:
    words = [sys.executable, "-m", "eloreplay", "publish", str(root), "--to", to, "--json"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


def test_tables_of_somebody_else_are_not_touched(server: Cluster, database: str, tmp_path: Path) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create schema site")
        cursor.execute("create table site.players (id int)")
        connection.commit()
    code, _, err = call("publish", tmp_path / "out", "--to", address(server, database), "--schema", "site")
    assert code == 2
    assert "tables that eloreplay did not make (players" in err
    assert server.value("select count(*) from information_schema.tables where table_schema = 'site'", database) == 1


def test_a_text_that_no_database_can_hold(server: Cluster, database: str, run_backfill: support.Backfill) -> None:
    rows = games(30)
    out = run_backfill([*rows, {**rows[0], "game_id": 77, "winner_id": "a\0b", "loser_id": "a\0b"}], "--max-rejected", "5%").ok()
    publish(out.folder, address(server, database))
    assert server.value("select winner_id from eloreplay.rejected", database) == "a␀b"
    bad = run_backfill([*rows, {**rows[0], "game_id": 77, "winner_id": "a\0b"}]).ok()
    code, _, err = call("publish", bad.folder, "--to", address(server, database))
    assert code == 1
    assert "timeline.winner_id: 'a\\x00b' holds the character U+0000" in err
    assert_run(server, database, "000001", 30)


def assert_run(server: Cluster, database: str, run: str, rated: int) -> None:
    assert server.frame("select run, rated_games from eloreplay.eloreplay_run", database).row(0) == (run, rated)


# ---------------------------------------------------------------- passwords


@pytest.mark.parametrize(
    "to",
    [
        "postgresql://me:hunter2@127.0.0.1:1/site",
        "postgresql://me:hunter2@127.0.0.1:1/site?connect_timeout=1",
        "postgresql://me:hunt%65r2@127.0.0.1:1/site",
        "postgresql://me:hunter2/%zz@127.0.0.1:1/site",
        "postgresql://me:x/hunter2@127.0.0.1/site",
        "postgresql://me:x@hunter2@127.0.0.1:1/site",
        "postgresql://me@127.0.0.1:1/site?password=hunter2",
        "postgresql://me@127.0.0.1:1/site?p%61ssword=hunter2&application_name=a@b",
        "postgresql://127.0.0.1:1/site?password=hunter2@x",
        "postgresql://me:hunter2@127.0.0.1:1/site?nonsense=1",
        "mysql://me:hunter2@127.0.0.1/site",
        "me:hunter2@127.0.0.1/site",
    ],
)
@pytest.mark.parametrize("shape", ["--quiet", "--json", "--dry-run"])
def test_a_password_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, shape: str) -> None:
    pytest.importorskip("adbc_driver_postgresql")
    made_up_run(tmp_path / "out", 1, 100)
    monkeypatch.setenv("ELOREPLAY_TRACEBACK", "1")
    code, out, err = call("publish", tmp_path / "out", "--to", to, shape)
    assert code in (1, 2)
    assert "hunter2" not in out + err
    assert "hunt%65r2" not in out + err
    assert err.startswith("eloreplay: ") or "note: the address holds a password" in err


@pytest.fixture
def guest(server: Cluster, database: str) -> Iterator[str]:
    """Address of a role that needs the password hunter2 and may make schemas."""
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("create role guest login password 'hunter2'")
        cursor.execute(f"grant create on database {database} to guest")
        connection.commit()
    yield server.url(database, "guest")
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("drop owned by guest cascade")
        cursor.execute("drop role guest")
        connection.commit()


@pytest.mark.parametrize("way", ["PGPASSWORD", "PGPASSFILE", "PGSERVICE", "address"])
def test_the_password_comes_by_libpqs_own_ways(
    server: Cluster, guest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    if way == "PGPASSWORD":
        monkeypatch.setenv("PGPASSWORD", "hunter2")
    elif way == "PGPASSFILE":
        (tmp_path / "pass").write_text(f"127.0.0.1:{server.port}:*:guest:hunter2\n", encoding="utf-8")
        (tmp_path / "pass").chmod(0o600)
        monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    elif way == "PGSERVICE":
        text = f"[ratings]\nhost=127.0.0.1\nport={server.port}\ndbname=postgres\nuser=guest\npassword=hunter2\n"
        (tmp_path / "services").write_text(text, encoding="utf-8")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        guest = "postgresql:///?service=ratings"
    else:
        guest = guest.replace("guest@", "guest:hunter2@")
    code, out, err = call("publish", tmp_path / "out", "--to", guest)
    assert code == 0, err
    assert ("note: the address holds a password" in err) == (way == "address")
    assert "hunter2" not in out + err
    assert server.value("select count(*) from eloreplay.timeline") == 100
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert not left


@pytest.mark.parametrize("password", ["hunter3", None])
def test_a_wrong_or_missing_password_is_said_without_it(
    guest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str | None
) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    if password is not None:
        monkeypatch.setenv("PGPASSWORD", password)
    monkeypatch.setenv("HOME", str(tmp_path))
    code, out, err = call("publish", tmp_path / "out", "--to", guest)
    assert (code, out) == (1, "")
    assert ("password authentication failed" if password else "no password supplied") in err
    assert "hunter3" not in err


def test_a_role_without_the_right_is_told_so(server: Cluster, guest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    publish(tmp_path / "out", server.url())
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    code, _, err = call("publish", tmp_path / "out", "--to", guest)
    assert code == 1
    assert "permission denied for" in err
    assert "as it was" in err


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    code, _, err = call("publish", tmp_path / "out", "--to", "postgresql://db/site")
    assert code == 2
    assert "pip install 'eloreplay[postgres]'" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "somewhere"), "or FILE.duckdb is needed"),
        (("--to", "x.duckdb", "--schema", "a"), "--schema is for postgresql"),
        (("--to", "postgresql://h/d", "--schema", ""), "1 to 63 bytes"),
        (("--to", "postgresql://h/d", "--schema", "ж" * 32), "1 to 63 bytes"),
        (("--to", "postgresql://h/d", "--schema", "pg_x"), "keeps this name"),
        ((), "Missing option '--to'"),
    ],
)
def test_what_cannot_be_meant_is_usage(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    with contextlib.chdir(tmp_path):
        code, _, err = call("publish", tmp_path / "out", *words)
    assert code == 2
    assert said in err


def test_a_kept_run_can_be_sent_as_well(server: Cluster, database: str, tmp_path: Path) -> None:
    for number in (1, 2):
        made_up_run(tmp_path / "out", number, 1000 * number)
    for name, run in (("out", "000002"), ("out@1", "000001"), ("out/current", "000002"), ("out/runs/000001", "000001")):
        for to in (address(server, database), str(tmp_path / "r.duckdb")):
            assert publish(tmp_path / name, to)["run"] == run
        assert_run(server, database, run, int(run) * 1000)
    code, _, err = call("publish", tmp_path / "out@7", "--to", "postgresql://127.0.0.1:1/x")
    assert code == 2
    assert "run 7 is not kept" in err


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    code, _, err = call("publish", tmp_path, "--to", tmp_path / "x.duckdb")
    assert code == 2
    assert "no output folder of eloreplay" in err
    (tmp_path / "eloreplay.json").write_text('{"format": 1}', encoding="utf-8")
    code, _, err = call("publish", tmp_path, "--to", tmp_path / "x.duckdb")
    assert code == 2
    assert "nothing is published there yet" in err


# ---------------------------------------------------------------- a DuckDB file


def in_duckdb(path: Path, query: str) -> pl.DataFrame:
    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        return connection.sql(query).pl()


def test_a_duckdb_file_is_the_run_and_changes_in_one_step(run_backfill: support.Backfill, tmp_path: Path) -> None:
    out = run_backfill(games(200), "--chunk", "day").ok()
    other = run_backfill(games(250), "--pool", "ladder").ok()
    path = tmp_path / "a * folder" / "r.duckdb"
    path.parent.mkdir()
    done = publish(out.folder, str(path))
    assert (done["rows"]["timeline"], done["run_before"]) == (200, None)
    for table in ("timeline", "players", "summary", "rejected"):
        equal(in_duckdb(path, f"select * from {table}"), out.frame(table))
    equal(
        in_duckdb(path, "select * from player_timeline"), in_duckdb(out.current / "ratings.duckdb", "select * from player_timeline")
    )
    assert publish(out.folder, str(path))["rows_sent"] == 0
    # Who has it open goes on reading what he opened.
    with duckdb.connect(str(path), read_only=True) as reader:
        assert publish(other.folder, str(path))["chunks_sent"] > 0
        assert reader.sql("select count(*) from timeline").fetchall() == [(200,)]
    assert in_duckdb(path, "select rated_games from eloreplay_run").item() == 250
    assert [entry.name for entry in path.parent.iterdir()] == ["r.duckdb"]


def test_a_duckdb_file_of_somebody_else(tmp_path: Path) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    path = tmp_path / "mine.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table players (id int)")
    before = path.read_bytes()
    code, _, err = call("publish", tmp_path / "out", "--to", path)
    assert code == 2
    assert "eloreplay did not make it" in err
    assert path.read_bytes() == before


def test_a_killed_duckdb_file_is_as_it_was(tmp_path: Path) -> None:
    made_up_run(tmp_path / "out", 1, 1000)
    path = tmp_path / "there" / "r.duckdb"
    path.parent.mkdir()
    publish(tmp_path / "out", str(path))
    before = path.read_bytes()
    made_up_run(tmp_path / "out", 2, 200_000)
    assert killed(["publish", tmp_path / "out", "--to", path], "writing") == -signal.SIGKILL
    assert path.read_bytes() == before
    publish(tmp_path / "out", str(path))
    assert in_duckdb(path, "select max(rule_version) from timeline").item() == "2"
    assert [entry.name for entry in path.parent.iterdir()] == ["r.duckdb"]


# ---------------------------------------------------------------- the page


def test_the_page_does_what_it_shows(server: Cluster, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to-postgres.md").read_text(encoding="utf-8")
    assert database == "postgres"
    for name, value in (("PGHOST", "127.0.0.1"), ("PGPORT", str(server.port)), ("PGUSER", "postgres")):
        monkeypatch.setenv(name, value)
    rules = ["--columns", ROOT / "data" / "columns.toml", "--rules", "tavla42", "--quiet"]
    with contextlib.chdir(tmp_path):
        assert call("backfill", ROOT / "data" / "games", *rules, "--out", "out/sample")[0] == 0
        for text in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, *shown = part.splitlines()
                code, out, err = call(*command.replace("/site", "/postgres").split()[1:])
                assert (code, err) == (0, ""), command
                wanted = [line.replace("/site", "/postgres").removesuffix("…") for line in shown]
                assert all(line.startswith(start) for line, start in zip(out.splitlines(), wanted, strict=True)), out
    queries = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(queries) == 2
    assert server.frame(queries[0]).height == 5
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in queries[1].split(";")[1:-1]:
            cursor.execute(statement)
            assert cursor.fetchall()


# ---------------------------------------------------------------- a million


@pytest.mark.long
def test_a_million_rows_a_reader_in_a_loop_and_little_memory(
    server: Cluster, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "GAMES", 1_000_000)
    to = address(server, database)
    made_up_run(tmp_path / "out", 1, GAMES, chunks=20)
    publish(tmp_path / "out", to)
    reader = Reader(server, database)
    reader.start()
    try:
        made_up_run(tmp_path / "out", 2, GAMES, chunks=20)
        words = [
            sys.executable,
            "-c",
            "import resource, sys; from eloreplay.cli import main; code = main(sys.argv[1:]); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)",
        ]
        done = subprocess.run(
            [*words, "publish", str(tmp_path / "out"), "--to", to, "--quiet"], capture_output=True, text=True, check=True
        )
        time.sleep(3)
    finally:
        reader.stop.set()
        reader.join()
    assert not reader.mixtures
    assert set(reader.seen) == {"000001", "000002"}
    assert int(done.stdout) < 600 * 1024
