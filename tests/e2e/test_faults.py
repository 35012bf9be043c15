"""What can go wrong, a row a fault: the message says which file and what, the exit code says which kind, nothing published changes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from support import Backfill, Out, Row, game

NOON = support.ts("2026-03-01 12:00:00")
AS_OF = ("--as-of", "2026-04-01")


def rows(n: int = 40, first: int = 0) -> list[Row]:
    return [game(first + i, NOON + i * 60_000_000, f"p{i % 7}", f"q{i % 5}") for i in range(n)]


def published(out: Path) -> dict[str, str]:
    """Where `current` points and the digest of every file behind it."""
    run = (out / "current").resolve()
    files = {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in run.rglob("*") if path.is_file()}
    return {"current": os.readlink(out / "current"), **files}


@dataclass
class Site:
    """A folder with games that are right, an output folder with a published run of them, and a way to run once more."""

    backfill: Backfill
    base: Path
    games: Path
    out: Path
    before: dict[str, str]

    def run(self, *arguments: str | Path, rules: str = "tavla42", out: Path | None = None) -> Out:
        cut = next((i for i, a in enumerate(arguments) if str(a).startswith("--")), len(arguments))
        games = [Path(a) for a in arguments[:cut]]
        return self.backfill(games, *AS_OF, *map(str, arguments[cut:]), rules=rules, out=out or self.out)

    def file(self, name: str, content: bytes | str) -> Path:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def table(self, name: str, content: list[Row] | pa.Table, **types: Any) -> Path:
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(content if isinstance(content, pa.Table) else support.table(content, types), path)
        return path

    def assert_untouched(self) -> None:
        assert published(self.out) == self.before
        assert not (self.out / "work").exists()
        assert sorted(path.name for path in (self.out / "runs").iterdir()) == ["000001"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site, made once and copied for every test."""
    base = tmp_path_factory.mktemp("site")
    games = support.write(base / "games" / "good.parquet", rows())
    Backfill(base)([games], *AS_OF, out=base / "published").ok()
    return base


@pytest.fixture
def site(template: Path, run_backfill: Backfill, tmp_path: Path) -> Site:
    for name in ("games", "published"):
        shutil.copytree(template / name, tmp_path / name, symlinks=True)
    out = tmp_path / "published"
    return Site(run_backfill, tmp_path, tmp_path / "games" / "good.parquet", out, published(out))


def assert_refused(out: Out, code: int, *words: str) -> None:
    assert out.code == code, f"exit code {out.code}, not {code}\n{out.text}"
    assert out.stdout == ""
    for word in words:
        assert word in out.stderr, f"{word!r} is not in\n{out.stderr}"
    assert "Traceback" not in out.stderr
    assert "unexpected" not in out.stderr
    assert out.stderr.startswith(("eloreplay: ", "Usage: "))


# ---------------------------------------------------------------- the table


def swap(site: Site, name: str, column: pa.Array) -> pa.Table:
    table = support.table(rows())
    return table.set_column(table.column_names.index(name), name, column)


def two(site: Site, second: pa.Table | list[Row], name: str = "second.parquet") -> tuple[Path, Path]:
    return site.games, site.table(name, second)


def columns(site: Site, text: str) -> tuple[Path, str, Path]:
    return site.games, "--columns", site.file("columns.toml", text)


def option(site: Site, name: str, content: list[Row], **types: Any) -> tuple[Path, str, Path]:
    return site.games, f"--{name}", site.table(f"{name}.parquet", content, **types)


def alias(*pairs: tuple[str | None, str | None]) -> list[Row]:
    return [{"alias_id": a, "player_id": b} for a, b in pairs]


NAIVE = support.table(rows()).set_column(1, "played_at", support.table(rows())["played_at"].cast(pa.timestamp("us")))
RULES = 'name = "own"\nstart = 1500\nrounding = "none"\n[[version]]\nname = "1"\ndivisor = 400\nk = 32\n'

#: what, the command's arguments, exit code, words of the message
Fault = tuple[str, Callable[[Site], tuple[Any, ...]], int, tuple[str, ...]]
FAULTS: list[Fault] = [
    ("cut by 20 bytes", lambda s: (s.games, s.file("cut.parquet", s.games.read_bytes()[:-20])), 3, ("cut.parquet", "cut, damaged")),
    ("cut in half", lambda s: (s.games, s.file("half.parquet", s.games.read_bytes()[:1500])), 3, ("half.parquet", "1500 bytes")),
    ("0 bytes", lambda s: (s.games, s.file("none.parquet", "")), 3, ("none.parquet", "0 bytes")),
    ("text named .parquet", lambda s: (s.file("a.parquet", "game_id,played_at\n1,2026-03-01\n"),), 3, ("a.parquet", "not a whole Parquet")),
    ("a missing column", lambda s: two(s, support.table(rows()).drop_columns(["loser_id"])), 3, ("second.parquet", "'loser_id' is missing", "--columns")),
    ("another case", lambda s: two(s, support.table(rows()).rename_columns(["game_id", "played_at", "Winner_ID", "loser_id"])), 3,
     ("second.parquet", "'winner_id' is missing", "'Winner_ID' differs by case")),
    ("a float id", lambda s: two(s, swap(s, "game_id", pa.array([float(i) for i in range(40)]))), 3, ("second.parquet", "'game_id' is DOUBLE", "float")),
    ("a decimal id", lambda s: two(s, swap(s, "winner_id", pa.array(range(40)).cast(pa.decimal128(20, 0)))), 3, ("'winner_id' is DECIMAL",)),
    ("text and integer ids", lambda s: two(s, swap(s, "game_id", pa.array([str(i) for i in range(40)]))), 3, ("text", "good.parquet", "integers")),
    ("text for a time", lambda s: two(s, swap(s, "played_at", pa.array(["2026-03-01"] * 40))), 3, ("'played_at' is VARCHAR", 'played_at = "cast(played_at as timestamptz)"')),
    ("a date for a time", lambda s: two(s, swap(s, "played_at", pa.array([20_000] * 40, pa.int32()).cast(pa.date32()))), 3, ("'played_at' is DATE", 'played_at = "cast(played_at as timestamp)"', 'naive = "UTC"')),
    ("mixed zones", lambda s: two(s, NAIVE), 3, ("second.parquet", "good.parquet", "without a zone", "with a zone")),
    ("an undeclared naive time", lambda s: (s.table("naive.parquet", NAIVE),), 3, ("naive.parquet", "without a zone", 'naive = "UTC"')),
    ("a column twice", lambda s: two(s, support.table(rows()).append_column("game_id", pa.array(range(40)))), 3, ("second.parquet", "'game_id'", "twice")),
    ("columns that differ by case", lambda s: two(s, support.table(rows()).append_column("GAME_ID", pa.array(range(40)))), 3, ("'GAME_ID'", "case")),
    ("no file", lambda s: (s.base / "nowhere.parquet",), 3, ("nowhere.parquet", "no such file")),
    ("no match", lambda s: (s.base / "no*match.parquet",), 3, ("no*match.parquet", "no such file")),
    ("an empty folder", lambda s: (_made(s.base / "empty"),), 3, ("empty", "no .parquet file")),
    ("only hidden files", lambda s: (s.file("hidden/_a.parquet", "x").parent,), 3, ("hidden", "no .parquet file")),
    ("a link that leads nowhere", lambda s: (_link(s.base / "gone.parquet"),), 3, ("gone.parquet", "link")),
    ("a folder with such a link", lambda s: (s.games, _link(s.base / "links" / "gone.parquet").parent), 3, ("gone.parquet", "link")),
    ("a pipe", lambda s: (_pipe(s.base / "pipe.parquet"),), 3, ("pipe.parquet", "not a regular file")),
    ("match lengths that the rules need", lambda s: (s.games, "--rules", "nardy"), 3, ("good.parquet", "'match_length' is missing")),
    ("an unknown pool", lambda s: (s.games, "--pool", "ladder"), 3, ("good.parquet", "'ladder' is missing", "--pool names a column of the file")),
    ("a time of day for a time", lambda s: two(s, swap(s, "played_at", pa.array([5] * 40, pa.time64("us")))), 3, ("'played_at' is TIME", "lacks its date")),
    ("an unknown rule", lambda s: (s.games, "--rules", "tavla43"), 2, ("tavla43", "tavla42")),
    ("rules that are no TOML", lambda s: (s.games, "--rules", s.file("r.toml", "name = [")), 2, ("r.toml", "not valid TOML")),
    ("an unknown key in the rules", lambda s: (s.games, "--rules", s.file("r.toml", RULES + "kk = 3\n")), 2, ("r.toml", "kk")),
    ("a wrong type in the rules", lambda s: (s.games, "--rules", s.file("r.toml", RULES.replace("32", '"x"'))), 2, ("r.toml", "k")),
    ("rules without dates", lambda s: (s.games, "--rules", "tavla42-history"), 2, ("--since",)),
    ("a --since of no version", lambda s: (s.games, "--since", "9=2026-01-01"), 2, ("--since 9", "1.3.1")),
    ("a columns file that is no TOML", lambda s: columns(s, "[columns\n"), 2, ("columns.toml", "not valid TOML")),
    ("no columns file", lambda s: (s.games, "--columns", s.base / "no.toml"), 2, ("no.toml",)),
    ("an unknown key in the columns file", lambda s: columns(s, '[colums]\ngame_id = "id"\n'), 2, ("columns.toml", "'colums'")),
    ("an unknown column in it", lambda s: columns(s, '[columns]\nwinner = "w"\n'), 2, ("columns.toml", "'winner'", "winner_id")),
    ("an unknown key of [time]", lambda s: columns(s, '[time]\nzone = "UTC"\n'), 2, ("columns.toml", "'zone'")),
    ("another zone", lambda s: columns(s, '[time]\nnaive = "Europe/Paris"\n'), 2, ("columns.toml", "Europe/Paris")),
    ("a number in it", lambda s: columns(s, "[columns]\ngame_id = 7\n"), 2, ("columns.toml", "game_id")),
    ("a subquery", lambda s: columns(s, '[columns]\nwinner_id = "(select max(loser_id) from staged)"\n'), 2, ("winner_id", "subquery")),
    ("an aggregate", lambda s: columns(s, '[columns]\nwinner_id = "max(winner_id)"\n'), 2, ("winner_id", "max()")),
    ("a window", lambda s: columns(s, '[columns]\ngame_id = "row_number() over ()"\n'), 2, ("game_id", "window")),
    ("a random value", lambda s: columns(s, '[columns]\ncube = "cast(random() * 4 as bigint)"\n'), 2, ("cube", "random()")),
    ("a clock", lambda s: columns(s, '[columns]\nplayed_at = "now()"\n'), 2, ("played_at", "now()")),
    ("a statement", lambda s: columns(s, '[columns]\nwinner_id = "winner_id); drop table staged; --"\n'), 2, ("winner_id",)),
    ("a comment that swallows", lambda s: columns(s, '[columns]\nwinner_id = "winner_id /*"\n'), 2, ("winner_id",)),
    ("a column that is not there", lambda s: columns(s, '[columns]\nwinner_id = "no_such"\n'), 3, ("good.parquet", "'no_such' is missing")),
    ("an expression of the wrong type", lambda s: columns(s, '[columns]\nwinner_id = "1.5 * game_id"\n'), 2, ("winner_id",)),
    ("a value that cannot be taken", lambda s: columns(s, '[columns]\nwinner_id = "cast(winner_id as bigint)"\nloser_id = "1"\n'), 3, ("good.parquet", "columns.toml", "deliver it again")),
    ("an alias of itself", lambda s: option(s, "aliases", alias(("p1", "p1"))), 3, ("aliases.parquet", "row 0", "circle", "'p1'")),
    ("aliases in a circle", lambda s: option(s, "aliases", alias(("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"))), 3, ("aliases.parquet", "circle", "'a'")),
    ("an alias for two players", lambda s: option(s, "aliases", alias(("a", "b"), ("a", "c"))), 3, ("aliases.parquet", "row", "'a'", "two different")),
    ("an alias for nobody", lambda s: option(s, "aliases", alias(("a", "b"), ("c", None))), 3, ("aliases.parquet", "row 1", "missing")),
    ("an alias of another type", lambda s: option(s, "aliases", [{"alias_id": 1, "player_id": 2}]), 3, ("aliases.parquet", "integers", "text")),
    ("a start rating twice", lambda s: option(s, "start-ratings", [{"player_id": "p1", "rating": 1500.0}] * 2), 3, ("start-ratings.parquet", "row 0", "two start ratings", "'p1'")),
    ("a start rating that is no number", lambda s: option(s, "start-ratings", [{"player_id": "p1", "rating": float("nan")}]), 3, ("row 0", "finite")),
    ("a start rating with a fraction", lambda s: option(s, "start-ratings", [{"player_id": "p1", "rating": 1500.5}]), 3, ("row 0", "whole number")),
    ("a start rating beyond int32", lambda s: option(s, "start-ratings", [{"player_id": "p1", "rating": 3e9}]), 3, ("row 0", "2147483647")),
    ("a start rating of nobody", lambda s: option(s, "start-ratings", [{"player_id": None, "rating": 1e308}], player_id=pa.string()), 3, (": player_id or rating is missing (rating 1e+308);",)),
    ("a start rating without a rating", lambda s: option(s, "start-ratings", [{"player_id": "p1", "rating": None}], rating=pa.float64()), 3, ("missing (player 'p1');",)),
    ("a start rating in words", lambda s: option(s, "start-ratings", [{"player_id": "p1", "rating": "high"}]), 3, ("'rating' is VARCHAR", "convert it in the file (")),
    ("an award at a date", lambda s: option(s, "awards", [_award(1, 2.0) | {"awarded_at": 5}], awarded_at=pa.date32()), 3, ("'awarded_at' is DATE", "convert it in the file (")),
    ("awards beyond int32", lambda s: option(s, "awards", [_award(1, 2e9), _award(2, 2e9)]), 3, ("award 2", "2147483647")),
    ("an excluded player of another type", lambda s: option(s, "exclude-players", [{"player_id": 1}]), 3, ("exclude-players.parquet", "integers")),
    ("awards without points", lambda s: option(s, "awards", [{"award_id": 1, "awarded_at": NOON, "player_id": "p1"}]), 3, ("awards.parquet", "'points'")),
    ("too many refused awards", lambda s: option(s, "awards", [_award(1, None)], points=pa.float64()), 3, ("1 of 1 awards", "bad_points 1")),
    ("an unknown option", lambda s: (s.games, "--colums", "x"), 2, ("--colums",)),
    ("a wrong instant", lambda s: (s.games, "--as-of", "yesterday"), 2, ("yesterday",)),
    ("a wrong share", lambda s: (s.games, "--max-rejected", "101%"), 2, ("101%",)),
    ("a share that is no number", lambda s: (s.games, "--max-rejected", "nan"), 2, ("nan",)),
    ("a size beyond reason", lambda s: (s.games, "--memory-limit", "999999999TB"), 2, ("999999999TB",)),
    ("a wrong size", lambda s: (s.games, "--memory-limit", "lots"), 2, ("lots",)),
]  # fmt: skip


def _award(award_id: int, points: float | None) -> Row:
    return {"award_id": award_id, "awarded_at": NOON, "player_id": "p1", "points": points}


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def _link(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.symlink_to("nowhere-at-all")
    return path


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(("what", "arguments", "code", "words"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_fault(site: Site, what: str, arguments: Callable[[Site], tuple[Any, ...]], code: int, words: tuple[str, ...]) -> None:
    given = list(arguments(site))
    rules = str(given.pop(given.index("--rules") + 1)) if "--rules" in given else "tavla42"
    out = site.run(*(a for a in given if a != "--rules"), rules=rules)
    assert_refused(out, code, *words)
    site.assert_untouched()


@pytest.mark.parametrize("change", ["written to", "replaced", "removed"])
def test_a_file_that_changes_while_it_is_read(site: Site, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Rows, schema and digest must be of one file, or the next run would not know what this one has read."""
    from eloreplay import games

    real, other = games.file_digest, site.table("other", rows(41))

    def late(source: Any) -> str:
        digest = real(source)
        if change == "written to":
            site.games.write_bytes(other.read_bytes())
        elif change == "replaced":
            other.replace(site.games)
        else:
            site.games.unlink()
        return digest

    monkeypatch.setattr(games, "file_digest", late)
    # What is gone may be missed before its digest is known.
    assert_refused(site.run(site.games), 3, "good.parquet", *([] if change == "removed" else ["changed while it was read"]))
    site.assert_untouched()


def test_an_output_folder_among_the_games_is_no_game(site: Site) -> None:
    inside = site.games.parent / "ratings"
    for run in ("runs/000001", "runs/000002"):
        site.run(site.games.parent, out=inside).ok()
        assert os.readlink(inside / "current") == run
    assert_refused(site.run(inside), 3, "ratings", "no .parquet file")


def test_no_games_argument(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    from eloreplay.cli import main

    code = main(["backfill", "--rules", "tavla42", "--out", str(site.out)])
    assert_refused(Out(code, *capsys.readouterr(), site.out), 2, "GAMES")
    site.assert_untouched()


def test_a_mapping_of_nothing_still_runs(site: Site) -> None:
    """The site itself is right: what stops the runs above is the fault alone."""
    site.run(*columns(site, '[columns]\nwinner_id = "winner_id -- as it is"\n')).ok()


# ---------------------------------------------------------------- folders


def test_a_folder_that_is_not_ours(site: Site) -> None:
    theirs = site.file("theirs/letter.txt", "dear")
    assert_refused(site.run(site.games, out=theirs.parent), 2, "theirs", "not one of ours", "letter.txt")
    assert [path.name for path in theirs.parent.iterdir()] == ["letter.txt"]


def test_a_file_for_a_folder(site: Site) -> None:
    assert_refused(site.run(site.games, out=site.games), 2, "good.parquet", "not a folder")
    assert_refused(site.run(site.games, out=site.games / "below"), 2, "not a folder")
    site.assert_untouched()


def test_names_that_cannot_be_written_down(site: Site) -> None:
    """Names of files are bytes; what stands in `rejected` and in messages is text."""
    name, link = (site.base / os.fsdecode(raw) for raw in (b"\xff.parquet", b"\xfe.parquet"))
    try:
        shutil.copy(site.games, name)
    except OSError:
        pytest.skip("this file system takes no such names")
    link.symlink_to(site.games)
    assert_refused(site.run(name), 3, "\\xff.parquet", "not UTF-8")
    assert_refused(site.run(link), 3, "\\xfe.parquet", "not UTF-8")
    assert_refused(site.run(site.games, out=site.base / os.fsdecode(b"\xfd")), 2, "\\xfd", "not UTF-8")
    site.assert_untouched()


@pytest.mark.parametrize(
    "name", ["it's", 'a"b', "a\nb", "[1]", "a?b", "a*b", "100%", "ü", "$HOME", "~x", "{a}", "-dash", "a;b", "a\\b", " ", "x=1"]
)
def test_odd_names_of_files_and_folders(site: Site, name: str) -> None:
    games = site.table(f"in/{name}/{name}.parquet", [*rows(), game(None, NOON, "a", "b")])
    site.table(f"in/{name}/other.parquet", rows(5, first=900))
    if "\\" in name:  # fine for games; DuckDB would look for the tables elsewhere
        assert_refused(site.run(games.parent, out=site.base / name), 2, "backslash")
        name = "plain"
    out = site.base / "outs" / name
    out.parent.mkdir()
    run = site.backfill([games.parent], *AS_OF, "--max-rejected", "10%", out=out).ok()
    assert run.manifest()["rows_read"] == 46
    refused = pq.ParquetFile(run.current / "rejected.parquet").read().to_pylist()
    assert [(row["file"], row["row"]) for row in refused] == [(str(games), 40)]
    with duckdb.connect() as connection:  # a "?" in a path is not for `connect` itself
        views = shutil.copy(out / "current" / "ratings.duckdb", site.base / "views.duckdb")
        connection.execute(f"attach '{views}' as views (read_only)")
        assert connection.execute("select count(*) from views.timeline").fetchall() == [(45,)]
    # Each of the two files alone, by its very name, is one file.
    assert site.backfill([games], *AS_OF, "--max-rejected", "10%").ok().manifest()["rows_read"] == 41


def test_a_folder_of_another_format(site: Site) -> None:
    (site.out / "eloreplay.json").write_text('{"format": 99}', encoding="utf-8")
    assert_refused(site.run(site.games), 2, "format 99")
    site.assert_untouched()


@pytest.mark.parametrize("kind", ["a folder", "nowhere", "elsewhere"])
def test_a_current_that_is_no_link_to_a_run_is_left_alone(site: Site, kind: str) -> None:
    """`cp -r` follows links: such a copy has a folder for a link. Its runs must not be taken for leftovers."""
    current = site.out / "current"
    run = current.resolve()
    current.unlink()
    if kind == "a folder":
        shutil.copytree(run, current)
    else:
        current.symlink_to("runs/000007" if kind == "nowhere" else site.base / "games")
    assert_refused(site.run(site.games), 2, "current", "ln -sfn")
    assert (run / "players.parquet").is_file()
    assert os.path.lexists(current)


def test_what_a_run_killed_at_its_very_start_leaves_is_no_strangers(site: Site) -> None:
    fresh = site.file("fresh/.eloreplay.json-4711", "").parent
    (fresh / "lost+found").mkdir()
    site.run(site.games, out=fresh).ok()
    assert not list(fresh.glob(".eloreplay.json-*"))


NOON_S = NOON // 1_000_000
HINTS: list[tuple[str, pa.Array, tuple[str, ...]]] = [
    ("played_at", pa.array(["2026-03-01 14:00:00+02"] * 40), ("cast(played_at as timestamptz)",)),
    ("played_at", pa.array([20_513] * 40, pa.int32()).cast(pa.date32()), ("cast(played_at as timestamp)",)),
    ("played_at", pa.array([NOON_S] * 40), ("to_timestamp(played_at)",)),
    ("played_at", pa.array([NOON_S * 1000] * 40), ("cast(epoch_ms(played_at) as timestamptz)",)),
    ("played_at", pa.array([NOON] * 40), ("cast(make_timestamp(played_at) as timestamptz)",)),
    ("played_at", pa.array([NOON_S] * 40, pa.uint64()), ("to_timestamp(cast(played_at as bigint))",)),
    ("played_at", pa.array([NOON] * 40, pa.uint64()), ("cast(make_timestamp(cast(played_at as bigint)) as timestamptz)",)),
    ("played_at", pa.array([float(NOON_S)] * 40), ("to_timestamp(cast(played_at as double))",)),
    ("is_draw", pa.array(["yes"] * 40), ("is_draw = 'yes'",)),
    ("is_draw", pa.array([1] * 40), ("is_draw = 1",)),
    ("cube", pa.array([2.0] * 40), ("cast(cube as bigint)",)),
    ("cube", pa.array(["2"] * 40), ("cast(cube as bigint)",)),
    ("ended_by", pa.array([2] * 40), ("cast(ended_by as varchar)",)),
    ("weight", pa.array(["1"] * 40), ("cast(weight as double)",)),
]  # fmt: skip


@pytest.mark.parametrize(("at", "alias"), [*((at, None) for at in range(len(HINTS))), (0, "end"), (3, 'A "b"')])
def test_what_a_message_advises_works(site: Site, at: int, alias: str | None) -> None:
    """The line is copied from the message into the columns file as it stands, and the run goes through."""
    name, values, wanted = HINTS[at]
    table = support.table(rows()).select([n for n in support.table(rows()).column_names if n != name])
    games = site.table("hint.parquet", table.append_column(alias or name, values))
    mapped = columns(site, f"[columns]\n{name} = {json.dumps(alias)}\n")[1:] if alias else ()
    out = site.run(games, *mapped)
    assert_refused(out, 3, "hint.parquet", f"'{alias or name}' is ")
    for expression in wanted:
        written = expression if alias is None else expression.replace(name, '"' + alias.replace('"', '""') + '"')
        line = f"{name} = {json.dumps(written)}"
        assert line in out.stderr
        done = site.run(games, *columns(site, f'[columns]\n{line}\n[time]\nnaive = "UTC"\n')[1:]).ok()
        if name == "played_at" and "date" not in str(values.type):
            assert {row["played_at"] for row in done.rows("timeline")} == {NOON}


# ---------------------------------------------------------------- rights


def _without_roots_rights() -> None:
    """In the child: root loses the right to read and write what its owner's mode forbids; anybody else has none to lose."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
        for capability in (dac_override, dac_read_search):
            if libc.prctl(drop_from_bounding_set, capability, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "prctl")


def run_without_rights(site: Site, *arguments: str | Path, out: Path | None = None, env: dict[str, str] | None = None) -> Out:
    argv = ["backfill", *map(str, arguments), "--rules", "tavla42", "--out", str(out or site.out), "--quiet", "--no-study", *AS_OF]
    done = subprocess.run(
        [sys.executable, "-m", "eloreplay", *argv],
        capture_output=True,
        text=True,
        check=False,
        cwd=site.base,
        env=os.environ | (env or {}),
        preexec_fn=_without_roots_rights,
    )
    return Out(done.returncode, done.stdout, done.stderr, out or site.out)


@pytest.fixture
def chmod() -> Iterator[Callable[[Path, int], None]]:
    """Changes modes, and back at the end."""
    changed: list[tuple[Path, int]] = []

    def change(path: Path, mode: int) -> None:
        changed.append((path, path.stat().st_mode & 0o7777))
        path.chmod(mode)

    yield change
    for path, mode in reversed(changed):
        path.chmod(mode)


def _another_owner(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)


def test_an_unwritable_folder(site: Site, chmod: Callable[[Path, int], None]) -> None:
    chmod(site.out, 0o555)
    _another_owner(site.out)
    assert_refused(run_without_rights(site, site.games), 1, "published", "Permission denied")
    site.assert_untouched()


def test_a_new_folder_where_none_may_be_made(site: Site, chmod: Callable[[Path, int], None]) -> None:
    parent = _made(site.base / "locked")
    chmod(parent, 0o555)
    _another_owner(parent)
    assert_refused(run_without_rights(site, site.games, out=parent / "out"), 1, "locked", "Permission denied")
    site.assert_untouched()


def test_unwritable_runs(site: Site, chmod: Callable[[Path, int], None]) -> None:
    """The run is whole in `work`, and cannot be moved into place."""
    chmod(site.out / "runs", 0o555)
    _another_owner(site.out / "runs")
    assert_refused(run_without_rights(site, site.games), 1, "runs/000002", "Permission denied")
    site.assert_untouched()


def test_an_unreadable_file(site: Site, chmod: Callable[[Path, int], None]) -> None:
    chmod(site.games, 0o000)
    _another_owner(site.games)
    assert_refused(run_without_rights(site, site.games), 1, "good.parquet", "permission")
    site.assert_untouched()


def test_an_unreadable_folder_among_the_games(site: Site, chmod: Callable[[Path, int], None]) -> None:
    closed = site.table("games/closed/more.parquet", rows(3, first=90)).parent
    chmod(closed, 0o000)
    _another_owner(closed)
    assert_refused(run_without_rights(site, site.games.parent), 1, "closed", "Permission denied")
    site.assert_untouched()


def test_an_unreadable_columns_file(site: Site, chmod: Callable[[Path, int], None]) -> None:
    file = site.file("columns.toml", "")
    chmod(file, 0o000)
    _another_owner(file)
    assert_refused(run_without_rights(site, site.games, "--columns", file), 2, "columns.toml", "read")
    site.assert_untouched()


# ---------------------------------------------------------------- the disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system of the size asked for."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mounted = []

    def mount(size: str) -> Path:
        where = _made(tmp_path / f"disk{len(mounted)}")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(where)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mounted.append(where)
        return where

    yield mount
    for where in mounted:
        subprocess.run(["umount", "-l", str(where)], check=True)


def test_too_small_a_disk_is_seen_before_anything_is_done(site: Site, small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("8m")
    out = site.run(site.games, out=disk / "out")
    assert_refused(out, 1, "disk0", "MiB are needed", "free")
    assert not (disk / "out" / "work").exists()
    assert not (disk / "out" / "runs").exists()


@pytest.mark.parametrize("room", [0, 8, 40, 900, 3000, 3500, 4500])
def test_a_disk_that_fills_up_halfway(
    site: Site, small_disk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """`room` KiB are left: the run meets the end of the disk at another place each time."""
    from eloreplay import backfill

    disk = small_disk("32m")
    many = site.table("many.parquet", rows(30_000))
    monkeypatch.setattr(backfill, "BYTES_A_RUN", 0)
    monkeypatch.setattr(backfill, "BYTES_A_ROW", 0)
    shutil.copytree(site.out, disk / "out", symlinks=True)
    before = published(disk / "out")
    free = shutil.disk_usage(disk).free
    (disk / "ballast").write_bytes(b"x" * (free - (room << 10)))
    out = site.run(many, out=disk / "out")
    if room > 3000 and out.code == 0:
        pytest.skip("this much room is enough")
    assert_refused(out, 1, "disk", "full", "No space left", "nothing was published")
    assert published(disk / "out") == before
    assert not (disk / "out" / "work").exists()
    assert [path.name for path in (disk / "out" / "runs").iterdir()] == ["000001"]
    # With room again the next run does what it should.
    (disk / "ballast").unlink()
    site.run(many, out=disk / "out").ok()
    assert os.readlink(disk / "out" / "current") == "runs/000002"


def test_a_disk_without_room_for_a_marker(site: Site, small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("1m")
    (disk / "ballast").write_bytes(b"x" * shutil.disk_usage(disk).free)
    out = _made(disk / "out")
    assert_refused(site.run(site.games, out=out), 1, "No space left")


@pytest.mark.parametrize("call", ["rename", "symlink", "replace", "fsync"])
def test_a_disk_that_fails_at_the_switch(site: Site, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        out = site.run(site.games)
    assert_refused(out, 1, "No space left")
    site.assert_untouched()
    site.run(site.games).ok()


# ---------------------------------------------------------------- two at once


def test_two_runs_at_once(site: Site) -> None:
    """While another process holds the folder a run refuses and names it; when it is gone the folder is free."""
    script = (
        "import sys, pathlib\n"
        "from eloreplay.store import hold\n"
        "with hold(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(site.out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert_refused(site.run(site.games), 4, "published", f"process {holder.pid}", "since 20")
        site.assert_untouched()
        holder.kill()
    again = site.backfill.process([site.games], *AS_OF, out=site.out)
    assert again.code == 0
    assert os.readlink(site.out / "current") == "runs/000002"


def test_the_lock_of_a_killed_run_is_taken_over_and_said(site: Site) -> None:
    (site.out / "lock").write_text(
        json.dumps({"pid": 4711, "host": "elsewhere", "since": "2026-01-01T00:00:00Z"}), encoding="utf-8"
    )
    argv, out = site.backfill.arguments([site.games], *AS_OF, out=site.out)
    argv.remove("--quiet")
    done = subprocess.run([sys.executable, "-m", "eloreplay", *argv], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "process 4711 on elsewhere" in done.stderr
    assert (out / "lock").read_text(encoding="utf-8") == ""


def test_a_lock_that_cannot_be_read_is_no_obstacle(site: Site) -> None:
    (site.out / "lock").write_bytes(b"\xff\0{")
    site.run(site.games).ok()


def test_a_file_system_without_locks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", fail)
        out = site.run(site.games)
    assert_refused(out, 1, "cannot be locked")
    site.assert_untouched()


# ---------------------------------------------------------------- too many refused rows


def test_too_many_refused_rows_are_written_out(site: Site) -> None:
    bad = site.table("bad.parquet", [*rows(5, first=100), game(None, NOON, "a", "b"), game(7000, NOON, "same", "same", cube=3)])
    out = site.run(site.games, bad)
    assert_refused(out, 3, "2 of 47 rows", "missing_id 1", "self_play 1", "refused")
    site.assert_untouched()
    refused = pq.read_table(site.out / "refused" / "rejected.parquet").to_pylist()
    assert [(Path(row["file"]).name, row["row"], row["reason"]) for row in refused] == [
        ("bad.parquet", 5, "missing_id"),
        ("bad.parquet", 6, "self_play"),
    ]
    assert refused[1] | {"file": "", "row": 0} == {
        "file": "", "row": 0, "reason": "self_play", "game_id": "7000", "played_at": "2026-03-01 12:00:00+00", "winner_id": "same", "loser_id": "same",
        "mode": None, "cube": "3", "match_length": None, "result": None, "ended_by": None, "is_draw": None, "voided": None, "revision": None,
        "advantage": None, "weight": None,
    }  # fmt: skip
    site.run(site.games).ok()
    assert not (site.out / "refused").exists(), "a run that is published takes the old list away"


@pytest.mark.parametrize("share", ["1%", "0.01", "1.0 %", "1e-2"])
def test_the_share_is_met_exactly(run_backfill: Backfill, share: str) -> None:
    good = rows(98)
    one, other = game(500, NOON, "x", "x"), game(501, NOON, "y", "y")
    run_backfill([*good, one, game(502, NOON, "x", "y")], *AS_OF, "--max-rejected", share).ok()
    assert_refused(run_backfill([*good, one, other], *AS_OF, "--max-rejected", share), 3, "2 of 100", "1.00%")


def test_the_default_share_is_one_of_a_hundred(run_backfill: Backfill) -> None:
    run_backfill([*rows(99), game(500, NOON, "x", "x")], *AS_OF).ok()
    assert_refused(run_backfill([*rows(98), game(500, NOON, "x", "x")], *AS_OF), 3, "1 of 99")


@pytest.mark.parametrize("n", [29, 57, 58, 7, 0, 100])
def test_no_share_is_missed_by_a_rounding(run_backfill: Backfill, n: int) -> None:
    """0.29 * 100 is a little less than 29, and yet 29 of 100 are not more than 29 %."""
    mixed = [*rows(100 - n), *(game(500 + i, NOON, "x", "x") for i in range(n))]
    random.Random(n).shuffle(mixed)
    for share in (f"{n}%", str(n / 100)):
        run_backfill(mixed, *AS_OF, "--max-rejected", share).ok()
    if n:
        assert run_backfill(mixed, *AS_OF, "--max-rejected", f"{n - 1}%").code == 3


@pytest.mark.parametrize(("bad", "code"), [(1, 0), (2, 3)])
def test_one_bad_row_of_a_short_night_is_no_share_but_of_a_longer_one_it_is(site: Site, bad: int, code: int) -> None:
    """The rows new in this run are judged by themselves as well, if they are more than 10 (SPEC: which rows count)."""
    site.run(site.table("old.parquet", rows(2000)), "--keep", "1").ok()
    night = [*rows(10 if bad == 1 else 11, first=5000)]
    night[0]["loser_id"] = night[0]["winner_id"]
    out = site.run(site.base / "old.parquet", site.table("night.parquet", night))
    assert out.code == code, out.text
