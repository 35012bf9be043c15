"""`player`, `top --at`, `top --heavy` and `ties`: each held against figures worked out from the timeline in another way."""

from __future__ import annotations

import json
import random
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import nights
import pytest
import support
import support_nightly
from support import Backfill, Out, Row, game

from eloreplay.asking import asked_run
from eloreplay.board_at import board_at, heavy_board
from eloreplay.player import History, over_time
from eloreplay.ties import put_replayed, ties

HOUR = 3_600_000_000
DAY, WEEK = 24 * HOUR, 7 * 24 * HOUR
NOON = support.ts("2026-03-01 12:00:00")
AS_OF = ("--as-of", "2026-06-01")
EVER = 36_500 * 20


def call(*arguments: object) -> Out:
    return support_nightly.command([str(argument) for argument in arguments], Path(str(arguments[1])))


def found(*arguments: object) -> dict[str, Any]:
    return json.loads(
        call(*arguments, "--json").ok().stdout.splitlines()[-1]
        if arguments[0] == "ties"
        else call(*arguments, "--json").ok().stdout
    )


# ---------------------------------------------------------------- boards of any instant, against the timeline


@pytest.mark.parametrize("seed", [26, 18, 9])
def test_boards_of_any_instant_are_what_the_timeline_says(tmp_path: Path, seed: int) -> None:
    """Random histories with ties, awards, adjustments, bands, pools and start ratings; also between chunks and before the first game."""
    play = nights.Play(nights.scenario(seed), tmp_path)
    play._first()
    with asked_run(play.out) as asked:
        asked.show(asked.rated_chunks)
        steps = asked.database.arrow_of(
            "select *, epoch_us(played_at) as us from player_timeline order by us, seq is not null, award_id nulls first, seq"
        ).to_pylist()
        instants = sorted({step["us"] for step in steps})
        for at in [*random.Random(seed).sample(instants, 3), instants[0] - 1, instants[-1]]:
            rows = board_at(asked, at, 10**6, 1, EVER)["rows"]
            stands = {
                (row.get("pool"), row["player_id"]): (row["rating"], row["games"], row["wins"], row["losses"]) for row in rows
            }
            wanted: dict[Any, Any] = {}
            for step in (step for step in steps if step["us"] <= at):
                key = (step["pool"], step["player_id"])
                _, games, wins, losses = wanted.get(key, (0, 0, 0, 0))
                is_game = step["seq"] is not None
                games = step["games"] + 1 if is_game else games
                wanted[key] = (step["rating_after"], games, wins + (step["score"] == 1), losses + (step["score"] == 0))
            for key, line in wanted.items():
                if line[1]:
                    assert stands[key] == line, (at, key)
                assert key not in stands or stands[key][0] == line[0], (at, key)
    # Rated again in the same order nothing moves: what `ties` turns round is, unturned, the run itself.
    with asked_run(play.out) as asked:
        put_replayed(asked, -(2**62), lambda *_: None, reverse_ties=False)
        rows = asked.database.connection.execute("select pool, player_id, rating from reversed_players").fetchall()
    players = support.Out(0, "", "", play.out).rows("players")
    assert {(pool, player): rating for pool, player, rating in rows} == {
        (row.get("pool"), row["player_id"]): row["rating"] for row in players
    }


def test_the_board_of_the_end_is_the_published_one(run_backfill: Backfill) -> None:
    rng = random.Random(1)
    rows = [game(i, NOON + rng.randrange(90) * DAY, *rng.sample("abcdefgh", 2)) for i in range(200)]
    out = run_backfill(rows, *AS_OF, "--min-games", "30", "--active-days", "9", "--top", "5").ok()
    published = json.loads(call("top", out.folder, "--json").ok().stdout)["rows"]
    for options in (("--at", "2026-06-01"), ("--at", "2030-01-01"), ("--min-games", "30"), ("--active-days", "9")):
        recomputed = found("top", out.folder, *options, "-n", 5)
        assert recomputed["rows"] == published, options
        assert (recomputed["min_games"], recomputed["active_days"]) == (30, 9)
    assert found("top", out.folder, "--at", "2026-02-28")["rows"] == []
    text = call("top", out.folder, "--at", "2026-02-28").ok().stdout
    assert text.startswith("Leaderboard at the end of 2026-02-28 (UTC), recomputed")
    assert "nobody stands on it" in text
    assert text.endswith("  no player is known by then\n")
    begin, end = (support.iso(bound(row["played_at"] for row in rows))[:19].replace("T", " ") for bound in (min, max))
    assert f"The history begins later: its first rated game is of {begin} UTC." in text
    late = call("top", out.folder, "--at", "2030-01-01").ok().stdout
    assert f"The history ends before it, with the rated game of {end} UTC" in late
    assert "The history ends before it" in call("top", out.folder, "--heavy", "--at", "2030-01-01").ok().stdout
    assert "The history" not in call("top", out.folder, "--at", "2026-04-01T00:00").ok().stdout
    nobody = call("top", out.folder, "--min-games", "99999").ok().stdout
    assert nobody.endswith("  8 players are known by then; none of them is one of those who are asked for\n")
    # a day means its end, an instant itself
    first = min(row["played_at"] for row in rows)
    assert found("top", out.folder, "--at", support.iso(first - 1), "--min-games", 1)["players"] == 0
    assert found("top", out.folder, "--at", support.iso(first)[:10], "--min-games", 1)["players"] > 0


def test_two_questions_about_the_past_are_kept_apart(tmp_path: Path) -> None:
    """A late game changes the board of its day, and not what was published that day."""
    support.write(tmp_path / "in" / "1.parquet", [game(2, NOON + DAY, "a", "b")])
    out = tmp_path / "out"
    run = ["backfill", tmp_path / "in", "--rules", "tavla42", "--out", out, "--quiet", "--no-study", "--as-of", "2026-03-10"]
    support_nightly.command(run, out).ok()
    support.write(tmp_path / "in" / "2.parquet", [game(1, NOON, "b", "a", cube=64)])
    support_nightly.night(tmp_path / "in", out, "--as-of", "2026-03-11", "--accept-changes").ok()
    then = json.loads((out / "runs" / "000001" / "manifest.json").read_text())["made_at"]
    published = json.loads(call("top", out, "--published-on", then, "--json").ok().stdout)["rows"]
    assert [(row["player_id"], row["rating"]) for row in published] == [("a", 1516), ("b", 1484)]
    assert [(row["player_id"], row["rating"]) for row in found("top", out, "--at", "2026-03-02")["rows"]] == [
        ("b", 1515),
        ("a", 1485),
    ]
    assert [(row["player_id"], row["rating"]) for row in found("top", out, "--at", "2026-03-01")["rows"]] == [
        ("b", 1532),
        ("a", 1468),
    ]
    for wrong in (("--at", "2026-03-01"), ("--min-games", "1"), ("--heavy",)):
        assert call("top", out, "--published-on", then, *wrong).code == 2
    assert call("top", out, "--heavy", "--min-games", "1").code == 2


# ---------------------------------------------------------------- whose week is heavy


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """a plays 60 games at one go and 20 a week later, b 49, c every three hours to the end; in days."""
    rows = [game(f"a{i:02}", NOON + i * HOUR, "a", f"o{i % 7}") for i in range(60)]
    rows += [game(f"a{60 + i}", NOON + 8 * DAY + i * HOUR, "a", f"o{i % 7}") for i in range(20)]
    rows += [game(f"b{i:02}", NOON + i * HOUR + 1, f"p{i % 7}", "b") for i in range(49)]
    rows += [game(f"c{i:03}", NOON + i * 3 * HOUR + 2, "c", f"q{i % 7}", is_draw=i % 5 == 0) for i in range(120)]
    tables: dict[str, Any] = {
        "aliases": [{"alias_id": "old c", "player_id": "c"}],
        "excluded": ["cheat"],
        "awards": [{"award_id": 7, "awarded_at": NOON + 20 * DAY, "player_id": "a", "points": 50, "reason": "cup"}],
    }
    return Backfill(tmp_path_factory.mktemp("site"))(rows, *AS_OF, "--chunk", "day", **tables).ok().folder


def test_heavy_lists_who_would_play_with_half_a_k(site: Path) -> None:
    with asked_run(site) as asked:
        asked.show(asked.rated_chunks)
        sides = asked.database.connection.execute(
            "select player_id, epoch_us(played_at) from player_timeline where seq is not null"
        ).fetchall()
        for at in (NOON + 48 * HOUR, NOON + 49 * HOUR, NOON + 9 * DAY, NOON + 7 * DAY + 10 * HOUR, NOON + 7 * DAY + 10 * HOUR + 1):
            counted = Counter(player for player, us in sides if at - WEEK <= us <= at)
            wanted = {player: games for player, games in counted.items() if games >= 50}
            rows = heavy_board(asked, at)["rows"]
            assert {row["player_id"]: row["recent_games"] for row in rows} == wanted
            for row in rows:
                # his week is heavy up to that instant, and not a microsecond longer
                own = [us for player, us in sides if player == row["player_id"] and us <= at]
                until = support.ts(row["until"].replace("T", " ").removesuffix("Z"))
                assert sum(us >= until - WEEK for us in own) >= 50 > sum(us >= until + 1 - WEEK for us in own)
                assert (row["k"], row["k_usual"]) == (16, 32)
    last = found("top", site, "--heavy")
    assert (last["last_game"], [row["player_id"] for row in last["rows"]]) == (True, ["c"])
    text = call("top", site, "--heavy", "--at", "2026-03-03T14:00:00").ok().stdout
    assert text.startswith("1 player has a reduced K 2026-03-03 14:00:00 UTC: 50 or more rated games in the 7 days before")


def test_rules_without_a_heavy_week_say_so(run_backfill: Backfill) -> None:
    out = run_backfill([game(1, NOON, "a", "b")], *AS_OF, rules="chess").ok()
    said = call("top", out.folder, "--heavy")
    assert said.code == 2
    assert "know no heavy week" in said.stderr
    nothing = run_backfill([game(1, NOON, "a", "b", mode="casual")], *AS_OF).ok()
    assert "has no rated game" in call("top", nothing.folder, "--heavy").stderr


# ---------------------------------------------------------------- player


def test_a_player_on_one_page(site: Path) -> None:
    one = found("player", site, "a")
    (row,) = [row for row in support.pl.read_parquet(site / "current" / "players.parquet").to_dicts() if row["player_id"] == "a"]
    for name in ("rating", "games", "wins", "losses", "draws", "peak_rating"):
        assert one[name] == row[name], name
    board = support.pl.read_parquet(site / "current" / "leaderboard.parquet")
    assert one["rank"] == board.filter(player_id="a")["rank"][0]
    assert one["of"] == support.pl.read_parquet(site / "current" / "players.parquet").height
    assert one["form"] == {"games": 10, "letters": "WWWWWWWWWW", "score": 10.0}
    assert [step["game_id"] for step in one["last"]][:3] == [None, "a79", "a78"]
    assert one["last"][0]["rating_after"] == row["rating"]
    assert one["k_now"]["recent_games"] == 20
    text = call("player", site, "a", "--games", "2").ok().stdout
    assert "record     80 games: 80 won, 0 lost" in text
    assert "award 7" in text
    assert "a78" not in text
    assert "32, not reduced: 20 rated games in the 7 days up to 2026-03-16 09:00:00 UTC, fewer than 50" in text


def test_a_player_with_a_heavy_week_and_draws(site: Path) -> None:
    text = call("player", site, "old c").ok().stdout
    assert "(old c is an alias of c)" in text
    assert "16, reduced: 57 rated games in the 7 days up to 2026-03-16 09:00:00 UTC, 50 or more" in text
    assert "if he plays no more; 32 after that" in text
    assert "96 won, 0 lost, 24 drawn" in text
    assert "form       WWWWDWWWWW" not in text
    heavy = found("top", site, "--heavy")["rows"][0]
    now = found("player", site, "c")["k_now"]
    assert (now["k"], now["recent_games"], now["heavy_until"]) == (heavy["k"], heavy["recent_games"], heavy["until"])


def test_a_player_who_is_not_there(site: Path, run_backfill: Backfill) -> None:
    assert "player 'cheat' is excluded in run 000001" in call("player", site, "cheat").stderr
    assert "did you mean 'b'?" in call("player", site, "B").stderr
    assert "in run 000001\n" in call("player", site, "nobody").stderr
    ids = run_backfill([game(1, NOON, "p001", "p003")], *AS_OF).ok().folder
    assert "in run 000001; the next id is 'p003'\n" in call("player", ids, "p999").stderr
    assert "in run 000001; the ids next to it are 'p001' and 'p003'\n" in call("player", ids, "p002").stderr
    assert call("player", site, "a", "--pool", "x").code == 2
    whole = run_backfill([game(1, NOON, 5, -3)], *AS_OF).ok().folder
    assert "are whole numbers" in call("player", whole, "five").stderr
    assert "; the ids next to it are -3 and 5\n" in call("player", whole, "4").stderr
    assert call("player", whole, "-3").ok().stdout.startswith("Player -3, run 000001")


def test_ladders(run_backfill: Backfill) -> None:
    rows = [
        {**game(1, NOON, "a", "b"), "ladder": 1},
        {**game(2, NOON, "b", "a"), "ladder": 2},
        {**game(3, NOON, "c", "a"), "ladder": 2},
    ]
    out = run_backfill(rows, *AS_OF, "--pool", "ladder").ok().folder
    said = call("player", out, "a")
    assert (said.code, "stands on 2 ladders (1, 2): say which with --pool" in said.stderr) == (2, True)
    assert (found("player", out, "a", "--pool", "1")["rating"], found("player", out, "a", "--pool", "2")["rating"]) == (1516, 1468)
    assert found("player", out, "c")["pool"] == 2
    assert call("player", out, "c", "--pool", "1").code == 2
    assert "Game 2 in 2: b beat a" in call("explain", out, 2).ok().stdout
    assert len(found("top", out, "--at", "2026-04-01", "-n", 1)["rows"]) == 2


def test_the_rating_over_time_keeps_to_whole_numbers_and_edges() -> None:
    np = pytest.importorskip("numpy")
    history = History(
        np.array([1, 2, 3]), np.array([10, 10 + DAY, 10 + 4 * DAY]), np.array([1.0, 5.0, 3.0]), np.array([1.0, 0.0, 1.0])
    )
    over = over_time(history, parts=4)
    assert over is not None
    assert over["ratings"] == [5, 5, 5, 3]
    assert (over["low"], over["high"]) == (1, 5)
    nothing = np.empty(0)
    assert over_time(History(nothing, nothing, nothing, nothing)) is None


# ---------------------------------------------------------------- charts

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [game(i, NOON + i * HOUR, HOSTILE if i % 3 else "b", "b" if i % 3 else HOSTILE) for i in range(20)]
    return Backfill(tmp_path_factory.mktemp("hostile"))(rows, *AS_OF, starts=[{"player_id": "idle", "rating": 1600}]).ok().folder


def test_charts(hostile: Path, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    for kind in ("svg", "html", "png"):
        said = call("player", hostile, HOSTILE, "--chart", tmp_path / f"x.{kind}").ok()
        assert f"The chart is in {tmp_path / f'x.{kind}'}" in said.stdout
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    root = ET.fromstring((tmp_path / "x.svg").read_text(encoding="utf-8"))
    assert f"Rating of {HOSTILE}" in "".join(root.itertext())
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert {part.split('"')[0] for part in page.split('"http')[1:]} <= {"://www.w3.org/2000/svg", "://www.w3.org/1999/xlink"}
    said = call("player", hostile, "idle", "--chart", tmp_path / "idle.svg")
    assert (said.code, "has no game that could be shown" in said.stderr) == (2, True)
    run = hostile / "current"
    (tmp_path / "mine.html").write_text("mine", encoding="utf-8")
    (tmp_path / "mine.svg").mkdir()
    for target, words in (
        (tmp_path / "nowhere" / "x.svg", "there is no folder"),
        (tmp_path / "mine.html", "is there and is not a page"),
        (tmp_path / "mine.svg", "is a folder"),
        (run / "x.png", "lies in the output folder"),
        (run / "report.html", "lies in the output folder"),
    ):
        said = call("player", hostile, "b", "--chart", target)
        assert (said.code, said.stdout) == (2, "")
        assert f"--chart {target}: {words}" in said.stderr
    (hostile / "studies").mkdir()
    call("player", hostile, "b", "--chart", hostile / "studies" / "b.svg").ok()
    for kind in ("svg", "html", "png"):
        call("player", hostile, "b", "--chart", tmp_path / f"x.{kind}").ok()


def test_a_chart_of_another_kind_or_without_the_libraries(hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "must end in .png, .svg or .html" in call("player", hostile, "b", "--chart", tmp_path / "x.pdf").stderr
    monkeypatch.setitem(sys.modules, "altair", None)
    said = call("player", hostile, "b", "--chart", tmp_path / "x.svg")
    assert (said.code, said.stdout) == (2, "")
    assert "pip install 'eloreplay[report]'" in said.stderr


# ---------------------------------------------------------------- ties


def tied(rng: random.Random, n: int) -> list[Row]:
    """A history at few instants, so that nearly every game shares its own."""
    return [
        game(i, NOON + rng.randrange(40) * 12 * HOUR, *rng.sample("abcdef", 2), cube=rng.choice((1, 8, 64))) for i in range(1, n)
    ]


def test_ties_are_those_of_a_backfill_with_the_ids_turned_round(run_backfill: Backfill) -> None:
    """Negative ids turn the order of each instant round: a whole other run is the judge. Heavy weeks, awards and days as chunks."""
    rng = random.Random(5)
    rows = tied(rng, 300)
    awards = [{"award_id": i, "awarded_at": NOON + i * DAY, "player_id": "a", "points": 10, "reason": None} for i in range(5)]
    out = run_backfill(rows, *AS_OF, "--chunk", "day", awards=awards).ok()
    other = run_backfill([{**row, "game_id": -row["game_id"]} for row in rows], *AS_OF, awards=awards).ok()
    now, turned = out.ratings(), other.ratings()
    said = found("ties", out.folder)
    assert {row["player_id"]: (row["rating"], row["reversed_rating"]) for row in said["moved"]} == {
        player: (now[player], turned[player]) for player in now if now[player] != turned[player]
    }
    assert said["moved_players"] == len(said["moved"]) > 0
    assert abs(said["moved"][0]["change"]) == max(abs(row["change"]) for row in said["moved"])
    at = Counter(row["played_at"] for row in rows)
    own = Counter((row["played_at"], row[side]) for row in rows for side in ("winner_id", "loser_id"))
    mine = [row for row in rows if own[row["played_at"], row["winner_id"]] > 1 or own[row["played_at"], row["loser_id"]] > 1]
    assert said["tied_games"] == sum(games for games in at.values() if games > 1)
    assert said["tied_own_games"] == len(mine)
    assert said["tied_own_instants"] == len({row["played_at"] for row in mine})
    text = call("ties", out.folder, "-n", 1).ok().stdout
    assert f"{len(mine)} games share it with another game of the same player" in text
    assert "would end with another rating" in text


def test_without_ties_nothing_is_rated_again(run_backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    out = run_backfill([game(1, NOON, "a", "b"), game(2, NOON, "c", "d"), game(3, NOON + 1, "a", "c")], *AS_OF).ok()
    monkeypatch.setattr("eloreplay.ties.put_replayed", None)
    before = support_nightly.seen(out.folder)
    said = ties(out.folder, 1, "500MB", lambda *_: None)
    assert (said["tied_games"], said["tied_own_games"], said["moved"], said["first_tie_at"]) == (2, 0, [], None)
    assert "no order of tied games can change a rating" in call("ties", out.folder).ok().stdout
    assert support_nightly.seen(out.folder) == before
    nothing = run_backfill([game(1, NOON, "a", "b", mode="casual")], *AS_OF).ok()
    assert call("ties", nothing.folder).ok().stdout.startswith("0 games of run 000001")
