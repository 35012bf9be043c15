"""`eloreplay reconcile`: mistakes planted in a site's live ratings are found at their games and called by their names."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import Backfill, Out, game, own_rules, ts, write
from support_live import Game, Pair, Site, changes, likely
from support_nightly import command

ROOT = Path(__file__).parents[2]
RAW = ROOT / "data" / "games" / "games-2026-03.parquet"
Plant = Callable[[Site, Game], Pair | None]


def reconcile(*arguments: str | Path) -> Out:
    return command(["reconcile", *arguments, "--threads", "1"], Path())


def found(*arguments: str | Path) -> dict[str, Any]:
    last = json.loads(reconcile(*arguments, "--json").ok().stdout.splitlines()[-1])
    assert isinstance(last, dict)
    return last


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Out:
    """The first month of the sample, rated under today's rules."""
    out = tmp_path_factory.mktemp("sample") / "out"
    arguments = ["backfill", RAW, "--columns", ROOT / "data" / "columns.toml", "--rules", "tavla42", "--out", out]
    return command([*arguments, "--as-of", "2026-05-01", "--no-study", "--quiet", "--threads", "1"], out).ok()


@pytest.fixture(scope="module")
def games(sample: Out) -> list[Game]:
    return sample.frame("timeline").to_dicts()


@pytest.fixture(scope="module")
def honest(games: list[Game]) -> list[Game]:
    """The site without a mistake; its ratings are ours, so that it may be believed when it makes one."""
    site = Site()
    for one in games:
        site.play(one)
    for row, ours in zip(site.rows, games, strict=True):
        assert (row["winner_before"], row["winner_change"]) == (ours["winner_rating_before"], ours["winner_change"])
        assert (row["loser_before"], row["loser_change"]) == (ours["loser_rating_before"], ours["loser_change"])
    return site.rows


def test_an_honest_site_agrees(sample: Out, honest: list[Game], tmp_path: Path) -> None:
    pl.DataFrame(honest).write_parquet(tmp_path / "live.parquet")
    said = found(sample.folder, tmp_path / "live.parquet")
    assert said["causes"] == []
    assert said["players"]["agree"] == said["players"]["all"] == said["players"]["same_rating"]
    assert said["sides"] == {"equal": 2 * len(honest), "other": 0, "consequences": 0}


def single(cause: str, plant: Callable[[float, float, Game], Pair]) -> tuple[str, Plant]:
    """A mistake in one game's changes, where it can be told from every other kind of mistake."""

    def fits(site: Site, one: Game) -> Pair | None:
        winner, loser = site.rating(one["winner_id"]), site.rating(one["loser_id"])
        pair = plant(winner, loser, one)
        others = {kind for kind, pairs in likely(winner, loser, one).items() if pair in pairs}
        return pair if not others - {cause} else None

    return cause, fits


PLANTED: dict[str, tuple[str, Plant]] = dict(  # noqa: C406
    [
        ("other version", single("other version", lambda w, lo, g: changes(w, lo, g, divisor=800, k=(32, 32)))),
        (
            "k 32 instead of 16",
            single("other k", lambda w, lo, g: changes(w, lo, g, k=(32, g["loser_k"]) if g["winner_k"] == 16 else None)),
        ),
        (
            "the count off by one",
            single("other k", lambda w, lo, g: changes(w, lo, g, k=(32, g["loser_k"]) if g["winner_recent_games"] == 50 else None)),
        ),
        ("rounding down", single("rounding", lambda w, lo, g: changes(w, lo, g, rounding=math.floor))),
        ("wrong side", single("wrong side", lambda w, lo, g: next(iter(likely(w, lo, g)["wrong side"])))),
        ("other cube", single("other cube", lambda w, lo, g: changes(w, lo, g, cube=16))),
        ("divisor", single("formula constants", lambda w, lo, g: changes(w, lo, g, divisor=2000))),
        ("not counted", single("not counted", lambda w, lo, g: (0.0, 0.0))),
        ("twice in one row", single("counted twice", lambda w, lo, g: tuple(2 * c for c in changes(w, lo, g)))),  # type: ignore[arg-type,return-value]
    ]
)


def voided(games: list[Game]) -> Game:
    """A ranked game of the export that was cancelled, between players whom we know."""
    known = {row["winner_id"] for row in games[:5000]} & {row["loser_id"] for row in games[:5000]}
    raw = pl.read_parquet(RAW).filter((pl.col("status") == "cancelled") & (pl.col("game_type") == "ranked")).sort("ended_at")
    for row in raw.filter(pl.col("ended_at") > games[5000]["played_at"]).iter_rows(named=True):
        if {row["winner"], row["loser"]} <= known:
            names = {"game_id": "id", "winner_id": "winner", "loser_id": "loser", "cube": "cube_value", "played_at": "ended_at"}
            return {ours: row[theirs] for ours, theirs in names.items()} | {"winner_k": 32.0, "loser_k": 32.0}
    raise AssertionError("no such game")


class Following:
    """Which game of a player comes next."""

    def __init__(self, games: list[Game]) -> None:
        self._next: dict[tuple[int, str], int] = {}
        coming: dict[str, int] = {}
        for at in reversed(range(len(games))):
            both = games[at]["winner_id"], games[at]["loser_id"]
            self._next |= {(at, player): coming[player] for player in both if player in coming}
            coming |= dict.fromkeys(both, at)

    def __call__(self, at: int, player: str) -> int | None:
        return self._next.get((at, player))


def test_planted_mistakes_are_found_and_named(sample: Out, games: list[Game], tmp_path: Path) -> None:
    site, used, planted = Site(), set[str](), list[tuple[Any, str]]()
    extra = voided(games)
    done: set[int] = set()
    next_of = Following(games)
    waiting = list(PLANTED.items())
    whole = ["missing", "order", "stale", "edit", "added twice", "row twice", "hole"]
    for at, one in enumerate(games):
        if extra is not None and one["played_at"] > extra["played_at"]:
            used |= {extra["winner_id"], extra["loser_id"]}
            site.play(extra)
            planted.append((extra["game_id"], "extra game"))
            extra = None  # type: ignore[assignment]
        if at in done:
            continue
        both = {one["winner_id"], one["loser_id"]}
        ready = at > 3000 and not both & used and all(next_of(at, player) for player in both)
        known = all(player in site.before for player in both)
        if not ready or not known:
            site.play(one)
            continue
        for name, (cause, fits) in waiting:
            if name == "the count off by one" and one["winner_recent_games"] != 50:
                continue
            if name == "k 32 instead of 16" and (one["winner_k"] != 16 or one["winner_recent_games"] < 60):
                continue
            pair = fits(site, one)
            if pair is not None and one["game_id"] % 7 == 0:
                waiting.remove((name, (cause, fits)))
                site.play(one, pair)
                planted.append((one["game_id"], cause))
                used |= both
                break
        else:
            winner = one["winner_id"]
            after = next_of(at, winner)
            assert after is not None
            rest = {games[after]["winner_id"], games[after]["loser_id"]}
            between = {side for row in games[at + 1 : after] for side in (row["winner_id"], row["loser_id"])}
            quiet = not between & (both | rest)
            if not whole or at % 50:
                site.play(one)
                continue
            kind = whole[0]
            if kind == "order" and (not quiet or rest & used):
                site.play(one)
                continue
            whole.pop(0)
            used |= both
            if kind == "missing":
                planted.append((one["game_id"], "missing game"))
            elif kind == "order":
                used |= rest
                site.play(games[after])
                site.play(one)
                done.add(after)
                planted.append((one["game_id"], "other order"))
            elif kind == "stale":
                site.play(one, stale=winner)
                planted.append((one["game_id"], "stale rating"))
            elif kind == "edit":
                site.ratings[winner] = site.rating(winner) + 40
                site.play(one)
                planted.append((one["game_id"], "manual edit"))
            elif kind == "added twice":
                site.play(one, applied=2)
                for player in both:
                    following = next_of(at, player)
                    assert following is not None
                    planted.append((games[following]["game_id"], "counted twice"))
            elif kind == "row twice":
                site.play(one)
                site.play(one)
                planted.append((one["game_id"], "counted twice"))
            else:
                site.play(one, listed=False)
                planted.append((one["game_id"], "missing row"))
    assert not waiting, f"no game for {[name for name, _ in waiting]}"
    assert not whole
    rows = pl.DataFrame(site.rows)
    rows.sample(fraction=1.0, shuffle=True, seed=3).write_parquet(tmp_path / "live.parquet")
    said = found(sample.folder, tmp_path / "live.parquet", "--to", tmp_path / "to")
    faults = pl.read_parquet(tmp_path / "to" / "faults.parquet")
    named = set(faults.select("game_id", "cause").unique().rows())
    assert named == set(planted), f"only found {named - set(planted)}, only planted {set(planted) - named}"
    assert len({cause for _, cause in planted}) >= 13
    # What follows from them is told from them, and every player who parted is led back to one of them.
    players = pl.read_parquet(tmp_path / "to" / "reconcile.parquet")
    assert said["sides"]["consequences"] > 100
    parted = players.filter(~pl.col("agrees"))
    assert set(parted.select("root_game_id", "root_cause").rows()) <= set(planted)
    assert parted.filter(pl.col("cause").is_null()).height > 10
    assert sum(row["first_of"] + row["reached"] for row in said["causes"]) == parted.height
    details = {row["cause"]: row["details"][0]["detail"] for row in said["causes"]}
    assert details["manual edit"] == "+40 points without a game"
    assert details["extra game"] == "voided"
    assert any("off by one" in one["detail"] for row in said["causes"] if row["cause"] == "other k" for one in row["details"])
    text = reconcile(sample.folder, tmp_path / "live.parquet", "--to", tmp_path / "to").ok().stdout
    for cause in details:
        assert f"\n{cause.capitalize()}: " in text


@pytest.mark.parametrize(
    ("cause", "detail", "rule"),
    [
        ("rounding", "always down", {"rounding": math.floor}),
        ("other version", "version 1.2.0", {"divisor": 800, "k": (32, 32)}),
        ("other k", None, {"k": (32, 32)}),
        ("formula constants", "divisor 1000", {"divisor": 1000}),
    ],
)
def test_a_habit_of_the_site_is_named_as_one(
    sample: Out, games: list[Game], tmp_path: Path, cause: str, detail: str | None, rule: dict[str, Any]
) -> None:
    site = Site()
    for one in games[:6000]:
        site.play(one, changes(site.rating(one["winner_id"]), site.rating(one["loser_id"]), one, **rule))
    # Of this site only ratings after a game and changes are known, and the end of our history is not in its list.
    rows = pl.DataFrame(site.rows).select(
        "game_id",
        *(pl.col(f"{side}_before").add(pl.col(f"{side}_change")).alias(f"{side}_after") for side in ("winner", "loser")),
        "winner_change",
        "loser_change",
    )
    rows.write_parquet(tmp_path / "live.parquet")
    said = found(sample.folder, tmp_path / "live.parquet", "--to", tmp_path / "to")
    assert said["games"]["only_ours"] == 0
    top = said["causes"][0]
    assert top["cause"] == cause
    assert detail is None or top["details"][0]["detail"] == detail
    assert top["games"] >= 0.98 * sum(row["games"] for row in said["causes"]), said["causes"]


def test_one_row_a_player(sample: Out, games: list[Game], tmp_path: Path) -> None:
    players = sample.frame("players")
    columns = tmp_path / "columns.toml"
    columns.write_text('[columns]\nplayer_id = "who"\nrating = "elo"\n')
    last = {player: row for row in games for player in (row["winner_id"], row["loser_id"])}
    late = next(p for p, row in last.items() if row["winner_id"] == p and row["winner_change"] and row["winner_games"] > 5)
    live = players.select(pl.col("player_id").alias("who"), pl.col("rating").alias("elo"), "games").with_columns(
        pl.when(pl.col("who") == late).then(last[late]["winner_rating_before"]).otherwise("elo").alias("elo"),
        pl.when(pl.col("who") == late).then(pl.col("games") - 1).otherwise("games").alias("games"),
    )
    off = next(p for p in players["player_id"] if p != late)
    live = live.with_columns(pl.when(pl.col("who") == off).then(pl.col("elo") + 1000).otherwise("elo").alias("elo"))
    live.filter(pl.col("who") != players["player_id"][-1]).write_parquet(tmp_path / "live.parquet")
    said = found(sample.folder, tmp_path / "live.parquet", "--columns", columns, "--to", tmp_path / "to")
    assert said["players"] == {"all": players.height, "agree": players.height - 3}
    causes = {row["cause"]: row["examples"][0] for row in said["causes"]}
    assert (causes["behind"]["player_id"], causes["behind"]["behind"]) == (late, 1)
    assert causes["same number of games, another rating"]["player_id"] == off
    assert causes["not in live"]["player_id"] == players["player_id"][-1]
    text = reconcile(sample.folder, tmp_path / "live.parquet", "--columns", columns, "--to", tmp_path / "to").ok().stdout
    assert "as before his last 1" in text


def test_float_rules_awards_and_ladders(run_backfill: Backfill, tmp_path: Path) -> None:
    start = ts("2026-10-01 10:00:00")
    pairs = itertools.cycle(["ab", "bc", "ca", "ba"])
    rows = [
        game(n, start + n * 3_600_000_000, *next(pairs), ladder="x" if n % 3 else "y", match_length=1 + n % 5) for n in range(40)
    ]
    awards = [{"award_id": 1, "awarded_at": start + 20 * 3_600_000_000 - 5, "player_id": "a", "points": 25.5, "ladder": "x"}]
    out = run_backfill(rows, "--pool", "ladder", rules="nardy", awards=awards).ok()
    timeline = out.frame("timeline")
    live = timeline.select(
        "game_id",
        pl.col("pool").alias("ladder"),
        *(pl.col(f"{side}_rating_before").round(9).alias(f"{side}_before") for side in ("winner", "loser")),
        *(pl.col(f"{side}_change").round(9) for side in ("winner", "loser")),
    )
    write_to = tmp_path / "live.parquet"
    live.write_parquet(write_to)
    said = found(out.folder, write_to)
    assert said["causes"] == []
    # Live forgot the award: the first game after it says so, and what follows is a consequence.
    moved = timeline.filter((pl.col("pool") == "x") & (pl.col("played_at").dt.epoch("us") >= awards[0]["awarded_at"]))
    first = moved.filter((pl.col("winner_id") == "a") | (pl.col("loser_id") == "a"))[0].to_dicts()[0]
    side = "winner" if first["winner_id"] == "a" else "loser"
    wrong = live.with_columns(
        pl.when(pl.col("game_id") == first["game_id"])
        .then(pl.col(f"{side}_before") - 25.5)
        .otherwise(f"{side}_before")
        .alias(f"{side}_before")
    )
    wrong.write_parquet(write_to)
    said = found(out.folder, write_to)
    assert "award" in {row["cause"] for row in said["causes"]}


def test_what_cannot_be_held_against_the_run_is_refused(run_backfill: Backfill, tmp_path: Path) -> None:
    out = run_backfill([game(1, "2026-10-01 12:00:00", "a", "b")], rules=own_rules(tmp_path / "r.toml")).ok().folder
    for rows, code, words in (
        ([{"id": 1, "elo": 1500}], 3, "neither a column 'game_id'"),
        ([{"game_id": 1}], 3, "no rating in it"),
        ([{"game_id": "1", "winner_before": 1500}], 3, "7 is not '007'"),
        ([{"game_id": 2, "winner_before": 1500}], 2, "none of the live games is a rated game"),
        ([{"game_id": 1, "winner_before": "1500"}], 3, "a number is needed"),
        ([{"game_id": None, "winner_before": 1500}], 3, "every row has no game_id"),
        ([{"player_id": "a", "rating": math.nan}], 3, "every row has no player_id or no rating"),
    ):
        refused = reconcile(out, write(tmp_path / "live.parquet", rows))
        assert (refused.code, words in refused.stderr) == (code, True), refused.text
    assert not (out / "studies" / "reconcile").exists()
    write(tmp_path / "live.parquet", [{"player_id": "a", "rating": 1500.0}])
    pl.read_parquet(tmp_path / "live.parquet").head(0).write_parquet(tmp_path / "none.parquet")
    refused = reconcile(out, tmp_path / "none.parquet")
    assert (refused.code, "none.parquet: not one row in it" in refused.stderr) == (3, True), refused.text
    (tmp_path / "live.csv").write_text("player_id,rating\na,1500\n")
    refused = reconcile(out, tmp_path / "live.csv")
    assert (refused.code, "live.csv: LIVE must be Parquet" in refused.stderr) == (3, True), refused.text


def test_rows_that_say_nothing_are_counted_and_the_first_is_named(run_backfill: Backfill, tmp_path: Path) -> None:
    rules = own_rules(tmp_path / "r.toml")
    out = run_backfill([game(1, "2026-10-01 12:00:00", "a", "b"), game(2, "2026-10-01 13:00:00", "c", "d")], rules=rules).ok()
    own = {row["player_id"]: float(row["rating"]) for row in out.rows("players")}
    live = tmp_path / "live.parquet"
    write(
        live,
        [
            {"player_id": "a", "rating": own["a"] + 47},
            {"player_id": "b", "rating": math.nan},
            {"player_id": None, "rating": 1500.0},
            {"player_id": "c", "rating": None},
            {"player_id": "d", "rating": own["d"]},
        ],
    )
    said = reconcile(out.folder, live).ok()
    assert f"3 rows of the live ratings have no player_id or no rating: left out; the first is row 1 (from 0) of {live}" in (
        said.stderr
    )
    assert "1 row of the live ratings has a rating or change that is no number" in said.stderr
    assert "  the others      live less ours +47\n" in said.stdout
    assert "Not in live: 2 players\n" in said.stdout
    assert found(out.folder, live)["rows_left_out"] == 3
    write(live, [{"game_id": 1, "winner_before": math.nan, "loser_before": 1500.0}, {"game_id": None, "winner_before": 1.0}])
    said = reconcile(out.folder, live).ok()
    assert "1 row of the live ratings has no game_id: left out; the first is row 1 (from 0)" in said.stderr
    assert "that is no number (NaN or infinite), which counts as not given; the first is row 0 (from 0)" in said.stderr
