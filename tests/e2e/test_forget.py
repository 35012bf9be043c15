"""`eloreplay forget`: nothing in the folder holds the id afterwards, and every later run is what it would be had the id never been."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Backfill, Out, Row, game, write
from support_nightly import command, differences, seen
from warm import Warm

from eloreplay import forget as module
from eloreplay.forgotten import read_forgotten
from eloreplay.store import OutputFolder

TEXT, NUMBER = "zorka-77", 7_700_077
#: The sequence of the month: ties, an alias, a self play, a void, a late game; Z is who is to be forgotten, Y his other account.
MODES = {"unrated": "casual", "unknown": "ranqd"}


def ids(kind: str) -> dict[str, Any]:
    names = "abcdefghij"
    if kind == "text":
        return {**{name: f"p{name}" for name in names}, "Z": TEXT, "Y": "zorka-old"}
    return {**{name: number + 1 for number, name in enumerate(names)}, "Z": NUMBER, "Y": 900}


def history(known: dict[str, Any], first: int, last: int) -> list[Row]:
    """Games `first` to `last` of a history of 120 games over four months, about every fourth with Z."""
    rows = []
    names = "abcdefghij"
    for n in range(first, last):
        one, other = names[n % 10], names[(n * 3 + 1) % 10]
        if one == other:
            other = names[(n + 5) % 10]
        if n % 4 == 0:
            one = "Z"
        if n % 28 == 6:
            other = "Y"
        if n % 40 == 8:
            other = "Z"
        month, day = 6 + n // 30, 1 + n % 28
        # Two games an instant, so that ids of games decide the order.
        row = game(n, f"2026-{month:02}-{day:02} {10 + n // 2 % 3}:00:00", known[one], known[other], cube=2 ** (n % 4))
        row |= {"mode": MODES.get({4: "unrated", 12: "unknown"}.get(n % 60, ""), "ranked"), "voided": n % 36 == 16}
        rows.append(row)
    return rows


@dataclass
class World:
    """A site's files, once as they are and once with another id in its place."""

    base: Path
    known: dict[str, Any]
    study: bool

    def __post_init__(self) -> None:
        at = 1_780_000_000_000_000
        self.sides = {
            "awards": [{"award_id": 1, "awarded_at": at, "player_id": self.known["Z"], "points": 30}],
            "aliases": [{"alias_id": self.known["Y"], "player_id": self.known["Z"]}],
            "start-ratings": [{"player_id": self.known["Z"], "rating": 1600}, {"player_id": self.known["j"], "rating": 1550}],
        }
        for name, rows in self.sides.items():
            write(self.base / f"{name}.parquet", rows)

    def deliver(self, name: str, rows: list[Row]) -> None:
        write(self.base / "games" / f"{name}.parquet", rows)

    def options(self, base: Path | None = None) -> list[str]:
        return [part for name in self.sides for part in (f"--{name}", str((base or self.base) / f"{name}.parquet"))]

    def backfill(self, out: Path, as_of: str, base: Path | None = None) -> Out:
        base = base or self.base
        arguments = ["backfill", base / "games", "--rules", "tavla42", "--out", out, "--as-of", as_of, *self.options(base)]
        # Fewer chunks than days would be, for each is a handful of files.
        arguments += ["--chunk", "week"] if self.study else ["--no-study", "--chunk", "month"]
        return command([*arguments, "--quiet", "--max-rejected", "1", "--threads", "1"], out).ok()

    def night(self, out: Path, as_of: str) -> Out:
        arguments = ["nightly", self.base / "games", "--out", out, "--as-of", as_of, "--accept-changes", "--quiet"]
        return command(arguments, out).ok()

    def fresh(self, name: Any, as_of: str, number: list[int] = [0]) -> Path:  # noqa: B006
        """A backfill of the same files with the id replaced in them."""
        number[0] += 1
        base = self.base / f"mapped{number[0]}"
        for path in [*(self.base / "games").glob("*.parquet"), *self.base.glob("*.parquet")]:
            frame = pl.read_parquet(path)
            columns = [column for column in ("winner_id", "loser_id", "player_id", "alias_id") if column in frame.columns]
            mapped = frame.with_columns(
                pl.when(pl.col(column) == self.known["Z"]).then(pl.lit(name)).otherwise(pl.col(column)).alias(column)
                for column in columns
            )
            target = base / path.relative_to(self.base)
            target.parent.mkdir(parents=True, exist_ok=True)
            mapped.cast({column: frame.schema[column] for column in columns}).write_parquet(target)
        return self.backfill(base / "out", as_of, base).folder


def holding(out: Path, player: Any) -> list[str]:
    """Files of a folder in which an id stands: as a value of any column of a table, or as text anywhere else."""
    found = []
    for path in sorted(out.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        where = str(path.relative_to(out))
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            for name in table.schema.names:
                column = table[name]
                text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
                if (text or pa.types.is_integer(column.type)) and str(player) in {
                    str(value) for value in column.unique().to_pylist()
                }:
                    found.append(f"{where}: {name}")
            found += [where for text in (pq.read_metadata(path).metadata or {}).values() if str(player).encode() in text]
        elif str(player).encode() in path.read_bytes():
            found.append(where)
    return found


def forget(out: Path, player: Any, *options: str) -> Out:
    return command(["forget", out, str(player), *options, "--threads", "1"], out)


def pseudonym(out: Path, player: Any) -> Any:
    return read_forgotten((out / "current").resolve()).pseudonym(player)


@pytest.mark.parametrize("kind", ["text", "number"])
def test_nothing_holds_the_id_and_nights_go_on_as_if_it_had_never_been(tmp_path: Path, kind: str) -> None:
    known = ids(kind)
    player = known["Z"]
    world, out = World(tmp_path / "site", known, study=kind == "number"), tmp_path / "out"
    world.deliver("june", history(known, 0, 40))
    world.backfill(out, "2026-08-01")
    world.deliver("july", history(known, 40, 80))
    world.night(out, "2026-09-01")
    # A study that names players, the archive of boards, and a refused night that says so in the journal.
    live = tmp_path / "live.parquet"
    before = pl.concat([pl.read_parquet(path) for path in sorted((out / "current" / "timeline").glob("*.parquet"))])
    before.select("game_id", "winner_id", "loser_id", pl.col("winner_rating_before").alias("winner_before") + 1).write_parquet(live)
    assert command(["reconcile", out, live, "--quiet"], out).code == 0
    twice = write(tmp_path / "twice.parquet", [{"alias_id": player, "player_id": known[n]} for n in "ab"])
    assert command(["nightly", world.base / "games", "--out", out, "--aliases", twice, "--as-of", "2026-09-02"], out).code == 3
    places = {where.split(":")[0] for where in holding(out, player)}
    assert {
        "journal.jsonl",
        "boards/000001.parquet",
        "studies/reconcile/manifest.json",
        "runs/000001/fold/refused.parquet",
    } <= places
    assert any("rows/" in where for where in places)

    was = seen(out)
    said = json.loads(forget(out, player, "--dry-run", "--json").ok().stdout.splitlines()[-1])
    assert (said["run"], seen(out)) == (None, was)
    assert holding(out, player) != []
    mine = before.filter((pl.col("winner_id") == player) | (pl.col("loser_id") == player))
    assert said["touched"]["timeline"]["rows"] >= mine.height > 10

    done = forget(out, player).ok()
    assert holding(out, player) == []
    assert "1 other account is joined to this player by the aliases" in done.stderr
    assert str(player) not in done.text
    name = pseudonym(out, player)
    assert name < 0 if kind == "number" else name.startswith("forgotten-")
    assert ((out / "current" / "fold" / "forgotten.json").stat().st_mode & 0o777) == 0o600
    assert [path.name for path in sorted((out / "runs").iterdir())] == ["000001", "000002", "000003"]
    assert pl.read_parquet(out / "current" / "changes.parquet").is_empty()
    if kind == "text":
        assert differences(out, world.fresh(name, "2026-09-01"), views=True) == []
        assert command(["verify", world.base / "games", "--out", out, "--quiet"], out).code == 0
    # The stored rows have the digests that the door gives: a file written anew with the same rows changes nothing.
    june = world.base / "games" / "june.parquet"
    rows = pl.read_parquet(june)
    rows.write_parquet(june, compression="snappy")
    dry = command(["nightly", world.base / "games", "--out", out, "--as-of", "2026-09-01", "--dry-run", "--json"], out).ok()
    night = json.loads(dry.stdout.splitlines()[-1])["night"]
    assert (night["replayed_games"], night["restated_games"]) == (0, 0)

    # The raw files go on holding the id: new games, a late one, a correction, and his games all over again.
    world.deliver("august", history(known, 80, 120))
    corrected = rows.with_columns(
        pl.when(pl.col("game_id") == 0).then(8).otherwise("cube").alias("cube"),
    )
    corrected.write_parquet(june)
    world.deliver(
        "late", [game(1000, "2026-06-20 09:00:00", player, known["c"]), game(1001, "2026-06-21 09:00:00", known["Y"], known["d"])]
    )
    world.night(out, "2026-10-15")
    assert holding(out, player) == []
    fresh = world.fresh(name, "2026-10-15")
    assert differences(out, fresh, views=True) == []
    if kind == "number":
        return
    # A run from nothing in the same folder, a what-if about him, his live ratings, and going back, all know him by the other name.
    alone = tmp_path / "if"
    question = write(tmp_path / "question.parquet", [{"player_id": player}])
    assert command(["what-if", out, "--exclude-players", question, "--to", alone, "--quiet"], alone).code == 0
    left = pl.read_parquet(alone / "current" / "players.parquet").filter(pl.col("player_id") == name)
    assert left["games"].to_list() in ([], [0])
    assert holding(alone, player) == []
    assert command(["reconcile", out, live, "--quiet"], out).code == 0
    assert command(["rollback", out, "2", "--quiet"], out).code == 0
    world.night(out, "2026-10-15")
    assert differences(out, fresh, views=True) == []
    world.backfill(out, "2026-10-15")
    assert differences(out, fresh, views=True) == []
    assert holding(out, player) == []
    # Once more: there is nothing left to do.
    again = json.loads(forget(out, player, "--json").ok().stdout.splitlines()[-1])
    assert (again["run"], again["pseudonym"], again["touched"]) == (None, name, {})


def small(run_backfill: Backfill) -> Path:
    """Two runs of a small history."""
    known = ids("text")
    out = run_backfill(history(known, 0, 20), "--max-rejected", "1").ok().folder
    run_backfill(history(known, 0, 30), "--max-rejected", "1", out=out).ok()
    return out


def explode(*_arguments: Any, **_more: Any) -> Any:
    raise OSError(5, "the power went off")


@pytest.mark.parametrize(
    ("place", "name", "published"),
    [(OutputFolder, "publish", False), (module, "_rename_beside", True)],
)
def test_a_forget_that_dies_has_done_nothing_or_is_finished_by_the_next(
    run_backfill: Backfill, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, published: bool
) -> None:
    out = small(run_backfill)
    was = seen(out)
    with monkeypatch.context() as patched:
        patched.setattr(place, name, explode)
        assert forget(out, TEXT).code == 1
    if published:
        assert holding((out / "current").resolve(), TEXT) == []
        assert holding(out, TEXT) != []
    else:
        assert seen(out) == was
        assert not read_forgotten((out / "current").resolve())
    forget(out, TEXT).ok()
    assert holding(out, TEXT) == []
    assert pseudonym(out, TEXT).startswith("forgotten-")


@pytest.mark.parametrize(
    "call",
    [
        ("rename", 1),
        ("replace", 34),
        *(pytest.param(("replace", n), marks=pytest.mark.long) for n in range(1, 60, 3)),
        *(pytest.param(("fsync", n), marks=pytest.mark.long) for n in range(1, 120, 9)),
    ],
    ids=lambda call: "-".join(map(str, call)),
)
def test_a_killed_forget_leaves_the_old_run_or_the_new_one_and_is_finished_by_the_next(
    run_backfill: Backfill, warm: Warm, call: tuple[str, int]
) -> None:
    out = small(run_backfill)
    was = seen(out)
    argv = ["forget", str(out), TEXT, "--quiet", "--threads", "1"]
    run = warm.start(argv, cut=(*call, "after"), said=out.parent / "said")
    assert run.wait() in (-9, 0), run.said
    if seen(out) == was:
        assert not read_forgotten((out / "current").resolve())
    else:
        assert holding((out / "current").resolve(), TEXT) == []
        assert pseudonym(out, TEXT).startswith("forgotten-")
    forget(out, TEXT).ok()
    assert holding(out, TEXT) == []
    assert not (out / "work").exists()
    assert {path.name for path in (out / "runs" / "000001").iterdir()} == {path.name for path in (out / "current").iterdir()}


def test_an_old_run_is_complete_at_every_instant(run_backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files take each other's place one by one, so that whoever reads an old run meanwhile finds them all."""
    out = small(run_backfill)
    names = {path.relative_to(out) for path in (out / "runs" / "000001").rglob("*") if path.is_file()}
    real: Callable[..., bool] = module.Renaming.rewrite

    def watched(self: Any, source: Path, *more: Any) -> bool:
        done = real(self, source, *more)
        assert {path.relative_to(out) for path in (out / "runs" / "000001").rglob("*") if path.is_file()} >= names
        return done

    monkeypatch.setattr(module.Renaming, "rewrite", watched)
    forget(out, TEXT).ok()


def test_whom_nobody_knows_is_refused_and_recorded_nowhere(run_backfill: Backfill) -> None:
    out = small(run_backfill)
    was = seen(out), (out / "journal.jsonl").read_bytes()
    refused = forget(out, "nobody-at-all")
    assert (refused.code, "nothing in this folder names the player 'nobody-at-all'" in refused.stderr) == (2, True)
    assert (seen(out), (out / "journal.jsonl").read_bytes()) == was
    assert "exactly" not in refused.stderr
    assert "names the player '007': ids are compared exactly, 7 is not '007'\n" in forget(out, "007").stderr
    assert "names the player ''; an empty id names nobody\n" in forget(out, "").stderr
    numbers = run_backfill([game(1, "2026-10-01 10:00:00", 1, 2)]).ok().folder
    said = forget(numbers, "1", "--dry-run").ok().stdout
    assert "  players                  1 row in 1 file\n" in said
    assert "1 rows" not in said
    assert "1 files" not in said
    refused = forget(numbers, "one")
    assert (refused.code, "player ids are integers" in refused.stderr) == (2, True)


def test_a_player_called_like_a_column_takes_nothing_with_him(run_backfill: Backfill, tmp_path: Path) -> None:
    names = {"winner_id": "winner", "loser_id": "loser"}
    rows = [{names.get(key, key): value for key, value in game(n, f"2026-10-0{n} 10:00:00", "winner", "b").items()} for n in (1, 2)]
    mapping = tmp_path / "columns.toml"
    mapping.write_text('[columns]\nwinner_id = "winner"\nloser_id = "loser"\n')
    out = run_backfill(rows, "--columns", str(mapping)).ok().folder
    forget(out, "winner").ok()
    manifest = json.loads((out / "current" / "manifest.json").read_text())
    assert manifest["input_options"]["mapping"]["columns"] == names
    assert {row["player_id"] for row in pl.read_parquet(out / "current" / "players.parquet").to_dicts()} == {
        "b",
        pseudonym(out, "winner"),
    }


def test_two_are_forgotten_one_after_the_other_and_ladders_do_not_matter(run_backfill: Backfill) -> None:
    known = {**ids("text"), "a": "ana-1234"}
    rows = [{**row, "ladder": "x" if row["game_id"] % 3 else "y"} for row in history(known, 0, 30)]
    out = run_backfill(rows, "--max-rejected", "1", "--pool", "ladder").ok().folder
    forget(out, TEXT).ok()
    first = pseudonym(out, TEXT)
    forget(out, "ana-1234").ok()
    assert pseudonym(out, TEXT) == first
    assert holding(out, TEXT) == []
    assert holding(out, "ana-1234") == []
    # And the first one's name may go as well, without being known by it.
    rule = read_forgotten((out / "current").resolve())
    assert len(rule.names) == 2
    mapped = [
        {
            key: {TEXT: first, "ana-1234": pseudonym(out, "ana-1234")}.get(value, value) if key.endswith("_id") else value
            for key, value in row.items()
        }
        for row in rows
    ]
    as_of = json.loads((out / "current" / "manifest.json").read_text())["as_of"]
    fresh = run_backfill(mapped, "--max-rejected", "1", "--pool", "ladder", "--as-of", as_of).ok().folder
    assert differences(out, fresh, views=True) == []
