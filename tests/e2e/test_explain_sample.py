"""What can be asked of the sample: the examples of the help, a thousand games computed again, and a newcomer's questions."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import support
import support_nightly

from eloreplay.asking import asked_run
from eloreplay.cli import cli
from eloreplay.explain_terms import disagreements, recompute

ROOT = Path(__file__).parents[2]
COMMANDS = ("explain", "player", "ties", "top")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `out/sample` is the rated sample."""
    folder = tmp_path_factory.mktemp("sample")
    games = ["backfill", ROOT / "data" / "games", "--columns", ROOT / "data" / "columns.toml", "--rules", "tavla42"]
    out = folder / "out" / "sample"
    support_nightly.command([*games, "--out", out, "--no-study", "--quiet"], out).ok()
    return folder


@pytest.fixture
def inside(sample: Path) -> Iterator[Path]:
    with contextlib.chdir(sample):
        yield sample


def call(line: str) -> support.Out:
    return support_nightly.command(shlex.split(line)[1:], Path("out/sample"))


def examples() -> list[str]:
    """The examples that the commands' help shows."""
    found = []
    for name in COMMANDS:
        help_text = cli.commands[name].get_help(cli.commands[name].make_context(name, [], resilient_parsing=True))
        lines = re.findall(r"^ +(eloreplay .*)$", help_text, re.MULTILINE)
        assert lines, f"{name} shows no example"
        assert all(line.startswith(f"eloreplay {name} ") for line in lines)
        found += lines
    return found


@pytest.mark.parametrize("line", examples())
def test_the_examples_of_the_help(inside: Path, line: str) -> None:
    # What was published on a day depends on when this runs.
    said = call(re.sub(r"--published-on \S+", f"--published-on {dt.datetime.now(dt.UTC).date()}", line)).ok()
    assert said.stdout.count("\n") > 3
    assert said.stderr == ""


def test_a_thousand_games_of_the_sample_computed_again(inside: Path) -> None:
    with asked_run(Path("out/sample")) as asked:
        asked.show(asked.rated_chunks)
        rows = asked.database.arrow_of(
            "select * exclude (played_at), epoch_us(played_at) as played_us from timeline using sample reservoir(1000 rows) repeatable (8)"
        ).to_pylist()
        assert len(rows) == 1000
        assert len({row["winner_k"] for row in rows}) == 2
        for row, terms in zip(rows, recompute(asked.database, asked.ruleset, rows), strict=True):
            assert disagreements(asked.ruleset, row, terms) == []
            winner, loser = terms.sides
            again = (winner.expected, winner.k, loser.k, terms.stake, winner.change, loser.change)
            names = ("winner_expected", "winner_k", "loser_k", "stake", "winner_change", "loser_change")
            assert again == tuple(row[name] for name in names)


def test_why_did_i_gain_8_and_he_lose_16(inside: Path) -> None:
    said = call("eloreplay explain out/sample 1074378").ok().stdout
    for words in (
        "140 rated games in the 7 days before, 50 or more, so 16 instead of 32",
        "6 rated games in the 7 days before, fewer than 50, so the full K",
        "16 × 1.5 × (1 − 0.6755) = +7.7889, rounded +8",
        "32 × 1.5 × (0 − 0.3245) = −15.5779, rounded −16",
        "p000124 gained 8 and p000180 lost 16, because each side has its own K",
    ):
        assert words in said, words


def test_whose_k_is_halved_today_and_who_is_third(inside: Path) -> None:
    said = call("eloreplay top out/sample --heavy -n 100").ok().stdout
    timeline = pl.concat([pl.read_parquet(path) for path in sorted(Path("out/sample/current/timeline").glob("*.parquet"))])
    since = timeline["played_at"].max() - dt.timedelta(days=7)
    recent = timeline.filter(pl.col("played_at") >= since)
    counted = pl.concat([recent["winner_id"], recent["loser_id"].alias("winner_id")]).value_counts().filter(pl.col("count") >= 50)
    assert sorted(re.findall(r"^  (p\d+)", said, re.MULTILINE)) == sorted(counted["winner_id"])
    board = pl.read_parquet("out/sample/current/leaderboard.parquet")
    third = board["player_id"][2]
    assert re.search(rf"^ +3 +{third} ", call("eloreplay top out/sample").ok().stdout, re.MULTILINE)
    assert f"rank 3 of {2936:,}" in call(f"eloreplay player out/sample {third}").ok().stdout


def test_the_refused_rows_of_the_sample_are_found(inside: Path) -> None:
    rejected = pl.read_parquet("out/sample/current/rejected.parquet").filter(pl.col("game_id").is_not_null())
    for row in rejected.sort("reason", "file", "row").unique("reason", keep="first", maintain_order=True).to_dicts():
        said = call(f"eloreplay explain out/sample {row['game_id']}").ok().stdout
        assert said.startswith(f"Game {row['game_id']} is not rated: {row['reason'].replace('_', ' ')}")
        assert f"{row['file']}, row {row['row']} (from 0)" in said
