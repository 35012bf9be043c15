"""`sweep` and `fit` as a user calls them: the folder, the determinism, what they say, and what they must never touch."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import support
import support_sweep as ss

from eloreplay.cli import main
from eloreplay.sweep_page import verdict

ROOT = Path(__file__).parents[2]
SAMPLE = [
    str(ROOT / "data" / "games"),
    "--columns",
    str(ROOT / "data" / "columns.toml"),
    "--rules",
    "tavla42",
    "--as-of",
    "2026-09-01",
]


def call(*argv: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(argv))
    return code, out.getvalue(), err.getvalue()


def bytes_of(folder: Path) -> dict[str, str]:
    """Digest by file name, of everything but the manifest, which holds times."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "manifest.json"
    }


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small history with a heavy week, whatever the rules use."""
    rng = random.Random(5)
    players = [f"p{i}" for i in range(30)]
    rows = ss.random_games(rng, 900, players)
    return support.write(tmp_path_factory.mktemp("games") / "games.parquet", rows)


@pytest.fixture
def small(games: Path) -> list[str]:
    return [str(games), "--rules", "tavla42", "--as-of", "2026-12-01"]


def test_64_settings_of_the_sample(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    code, said, err = call(
        "sweep", *SAMPLE, "--vary", "divisor=400:1900:100", "--vary", "k=16,32", "--vary", "heavy.games=50,none", "--out", str(out)
    )
    assert (code, err) == (0, "")
    table = pl.read_parquet(out / "sweep.parquet")
    assert table["setting"].to_list() == list(range(64))
    assert table["games"].unique().to_list() == [147_395]
    assert table.row(0, named=True)["name"] == "as they are"
    # What a plain sum over the timeline of `tavla42` gives (docs/how-to-analyst.md prints it, to four digits).
    assert (round(table["log_loss"][0], 4), round(table["brier"][0], 4)) == (0.6729, 0.2401)
    assert sorted(table["rank"].to_list()) == sorted(table["log_loss"].rank("min").cast(pl.Int32).to_list())
    assert table.filter("chosen")["rank"].to_list() == [1]
    assert abs(table["best_share"].sum() - 1) < 1e-9
    paired = table["log_loss_difference_high"] - table["log_loss_difference_low"]
    alone = table["log_loss_high"] - table["log_loss_low"]
    assert (paired.drop_nulls() < 0.5 * alone[1:]).all()
    # Of a difference taken without pairing, the variance is the sum of both.
    assert (paired.drop_nulls() < 0.4 * (alone[1:] ** 2 + alone[0] ** 2).sqrt()).all()
    assert "64 settings of tavla42, 147,395 games scored" in said
    swings = pl.read_parquet(out / "swings.parquet")
    assert swings.height == 64 * 6
    assert swings.group_by("games_from").agg(pl.col("weeks").n_unique())["weeks"].to_list() == [1] * 6
    curves = pl.read_parquet(out / "curves.parquet")
    assert curves.height == 64 * 21


@pytest.mark.parametrize("split", [[], ["--train-until", "2026-03-15"]])
def test_same_bytes_whatever_the_threads_and_the_order_of_files(
    tmp_path: Path, games: Path, small: list[str], split: list[str]
) -> None:
    vary = ["--vary", "divisor=400:1200:200", "--vary", "k=16,32", *split]
    found = []
    for number, threads in enumerate((1, 2, 5)):
        out = tmp_path / str(number)
        assert call("sweep", *small, *vary, "--out", str(out), "--threads", str(threads), "--quiet") == (0, "", "")
        found.append(bytes_of(out))
    rows = pl.read_parquet(games)
    for part, frame in enumerate(rows.sample(fraction=1.0, shuffle=True, seed=1).iter_slices(250)):
        frame.write_parquet(tmp_path / f"z{9 - part}.parquet")
    out = tmp_path / "shuffled"
    assert call("sweep", str(tmp_path / "z*.parquet"), *small[1:], *vary, "--out", str(out), "--quiet") == (0, "", "")
    found.append(bytes_of(out))
    assert found[0] == found[1] == found[2] == found[3]
    assert list(found[0]) == ["curves.parquet", "report.html", "sweep.parquet", "swings.parquet"]


def test_seed_shows_in_best_share_only(tmp_path: Path, small: list[str]) -> None:
    tables = []
    for seed in ("1", "2"):
        assert call("sweep", *small, "--vary", "k=16,24", "--seed", seed, "--out", str(tmp_path / seed), "--quiet")[0] == 0
        tables.append(pl.read_parquet(tmp_path / seed / "sweep.parquet"))
    assert tables[0].drop("best_share").equals(tables[1].drop("best_share"))
    assert not tables[0].equals(tables[1])
    assert call("sweep", *small, "--vary", "k=16", "--bootstrap", "0", "--out", str(tmp_path / "none"), "--quiet")[0] == 0
    assert pl.read_parquet(tmp_path / "none" / "sweep.parquet")["best_share"].null_count() == 2


def test_a_sweep_replaces_a_sweep_and_nothing_else(tmp_path: Path, small: list[str]) -> None:
    out = tmp_path / "o'ut ü [1]*?"
    sweep = ("sweep", *small, "--out", str(out), "--quiet")
    assert call(*sweep, "--vary", "k=16,24")[0] == 0
    assert call(*sweep)[0] == 0
    assert pl.read_parquet((out / "sweep.parquet").read_bytes())["name"].to_list() == ["as they are"]
    assert json.loads((out / "manifest.json").read_text())["kind"] == "sweep"
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name]
    (out / "mine.txt").write_text("mine")
    code, _, err = call(*sweep)
    assert code == 2
    assert "holds something that no sweep of ours wrote" in err
    assert (out / "mine.txt").exists()


def test_the_folder_one_is_in_is_not_replaced(tmp_path: Path, small: list[str]) -> None:
    with contextlib.chdir(tmp_path):
        code, _, err = call("sweep", *small, "--out", ".")
        assert (code, "is the folder that you are in" in err) == (2, True)
        assert call("sweep", *small, "--out", "sweep", "--quiet")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"]


def test_a_published_run_is_never_touched(run_backfill: support.Backfill, games: Path, small: list[str]) -> None:
    run = run_backfill(games, "--as-of", "2026-12-01").ok()
    for place in (run.folder, run.folder / "current", run.folder / "runs" / "000001"):
        before = bytes_of(run.folder)
        code, _, err = call("sweep", *small, "--out", str(place), "--quiet")
        assert code == 2
        assert "not touched" in err
        assert bytes_of(run.folder) == before
    assert call("sweep", *small, "--out", str(run.folder / "studies" / "sweep"), "--quiet")[0] == 0
    assert run_backfill(games, "--as-of", "2026-12-01", out=run.folder).ok()
    assert (run.folder / "studies" / "sweep" / "sweep.parquet").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--vary", "divisor=x"], 2, "neither a number nor a range"),
        (["--vary", "k_=1"], 2, "there are start, floor"),
        (["--vary", "heavy.games=0"], 2, "heavy.games"),
        (["--vary", "k=1:4097:1"], 2, "at most 4096"),
        (["--columns", "none.toml"], 2, "no such columns file"),
        (["--max-rejected", "x"], 2, "share"),
        (["--awards", "none.parquet"], 3, "no such file"),
    ],
)
def test_what_is_wrong_leaves_the_last_sweep(tmp_path: Path, small: list[str], options: list[str], code: int, message: str) -> None:
    out = tmp_path / "sweep"
    assert call("sweep", *small, "--out", str(out), "--quiet")[0] == 0
    before = bytes_of(tmp_path)
    found, _, err = call("sweep", *small, "--out", str(out), *options)
    assert (found, message in err) == (code, True), err
    assert bytes_of(tmp_path) == before


def test_too_many_refused_rows(tmp_path: Path) -> None:
    rows = [support.game(i, ss.START + i, "a", "a" if i == 3 else "b") for i in range(50)]
    bad = support.write(tmp_path / "bad.parquet", rows)
    sweep = ("sweep", str(bad), "--rules", "tavla42", "--as-of", ss.AS_OF, "--out", str(tmp_path / "out"))
    code, _, err = call(*sweep)
    assert code == 3
    assert "1 of 50 rows are refused (2.00%), more than --max-rejected 1.00%" in err
    assert not (tmp_path / "out").exists()
    assert call(*sweep, "--max-rejected", "2%", "--quiet")[0] == 0


@pytest.mark.parametrize("n", [0, 1, 3])
def test_the_least_histories(tmp_path: Path, n: int) -> None:
    rows = [support.game(i, ss.START + i, "a", "b") for i in range(n)]
    types = {"game_id": support.pa.int64(), "winner_id": support.pa.string(), "loser_id": support.pa.string()}
    file = support.write(tmp_path / "games.parquet", rows, types, ["game_id", "played_at", "winner_id", "loser_id"])
    out = tmp_path / "out"
    code, said, err = call("sweep", str(file), "--rules", "tavla42", "--as-of", ss.AS_OF, "--vary", "k=16", "--out", str(out))
    assert (code, err) == (0, "")
    table = pl.read_parquet(out / "sweep.parquet")
    assert table["games"].to_list() == [n, n]
    assert table["log_loss_low"].null_count() == 2
    assert ("No game was scored" if n == 0 else "Too few players") in said or table["chosen"][0]
    code, _, err = call("fit", str(file), "--rules", "tavla42", "--as-of", ss.AS_OF, "--param", "k", "--train-until", "2026-03-01")
    assert (code, "nothing to fit to" in err) == ((3, True) if n == 0 else (0, False))


def test_json_and_instants_that_part_nothing(tmp_path: Path, small: list[str]) -> None:
    for until, scored in (("2020-01-01", 900), ("2026-11-30", 0)):
        code, said, _ = call("sweep", *small, "--train-until", until, "--vary", "k=16", "--json", "--out", str(tmp_path / until))
        assert code == 0
        last = json.loads(said.splitlines()[-1])
        assert (last["done"], last["games_scored"], len(last["settings"])) == (True, scored, 2)
        assert [row["train_games"] for row in last["settings"]] == [900 - scored] * 2
    assert call("sweep", *small, "--quiet", "--json", "--out", str(tmp_path / "x"))[0] == 2


def test_what_the_page_says_of_one_setting_and_of_an_end(tmp_path: Path, small: list[str]) -> None:
    _, said, _ = call("sweep", *small, "--out", str(tmp_path / "one"))
    assert said.startswith("1 setting of tavla42, 900 games scored:")
    assert "Nothing varied" in said
    _, said, _ = call("sweep", *small, "--vary", "k=0.5,1,2,3", "--vary", "heavy.games=none", "--out", str(tmp_path / "end"))
    assert "values that were tried: try k below 0.5 as well" in said or "values that were tried: try k above 3 as well" in said
    assert len([line for line in said.splitlines() if "best" in line.lower() or "cannot tell" in line]) <= 3


HOW_SURE = [
    ((0.1, 0.2), 1.0, [24, 32, 40], "It is better than every other setting (it is the best in 100% of the bootstrap's draws)."),
    (
        (0.1, 0.2),
        1.0,
        [32, 40, 48],
        "It is better than every other setting (it is the best in 100% of the bootstrap's draws), but the best may lie beyond the "
        "values that were tried: try k below 32 as well.",
    ),
    (
        (-0.1, 0.2),
        0.92,
        [16, 24, 32],
        "These games cannot tell it from 1 of the other 2 settings (it is the best in 92% of the bootstrap's draws); it is at the end "
        "of the values that were tried: try k above 32 as well.",
    ),
    (
        (-0.1, -0.2),
        0.5,
        [24, 32, 40],
        "These games cannot tell it from 2 of the other 2 settings (it is the best in 50% of the bootstrap's draws).",
    ),
    ((None, None), None, [24, 32, 40], "How sure that is cannot be said."),
]


@pytest.mark.parametrize(("behind", "share", "values", "said"), HOW_SURE)
def test_a_sweep_says_one_thing_of_how_sure_it_is(
    behind: tuple[float | None, float | None], share: float | None, values: list[float | None], said: str
) -> None:
    others = sorted({24.0, 32.0, 40.0} - {32.0})
    table = pl.DataFrame(
        {
            "setting": [0, 1, 2],
            "name": ["as they are", "k=24", "k=40"],
            "k": [32.0, *others],
            "chosen": [True, False, False],
            "log_loss": [0.6, 0.7, 0.8],
            "best_share": [share, None, None],
            "behind_best_low": [None, *behind],
            "rank": [1, 2, 3],
        },
        schema_overrides={"best_share": pl.Float64, "behind_best_low": pl.Float64},
    )
    assert verdict(table, None, {"k": values}) == ["Best: the rules as they are.", said]


def test_pools_are_rated_apart(tmp_path: Path) -> None:
    """Two ladders in one file have the losses of both alone, and each its own active players."""
    rng = random.Random(9)
    parts = [ss.random_games(rng, 300, [f"p{i}" for i in range(20)]) for _ in range(2)]
    for number, part in enumerate(parts):
        for row in part:
            row |= {"ladder": "AB"[number], "game_id": 2 * row["game_id"] + number}
    tables = []
    for name, rows in (("both", parts[0] + parts[1]), ("A", parts[0]), ("B", parts[1])):
        file = support.write(tmp_path / f"{name}.parquet", rows)
        out = tmp_path / f"out {name}"
        sweep = ("sweep", str(file), "--rules", "tavla42", "--as-of", ss.AS_OF, "--pool", "ladder", "--vary", "k=16")
        assert call(*sweep, "--out", str(out), "--quiet")[0] == 0
        tables.append(pl.read_parquet(out / "sweep.parquet"))
    for number in range(2):
        both, a, b = (table["log_loss"][number] for table in tables)
        assert abs(both - (a + b) / 2) < 1e-12


def test_a_killed_sweep_leaves_the_one_before_and_the_next_clears_up(tmp_path: Path, games: Path, small: list[str]) -> None:
    out = tmp_path / "sweep"
    assert call("sweep", *small, "--out", str(out), "--quiet")[0] == 0
    before = bytes_of(out)
    for wait in (0.4, 1.5, 3.0):
        process = subprocess.Popen(
            [sys.executable, "-m", "eloreplay", "sweep", *small, "--vary", "divisor=400:4000:10", "--out", str(out), "--quiet"],
            start_new_session=True,
        )
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert bytes_of(out) == before
    # As a kill between the two steps of the switch would leave it: the old sweep comes back before anything else.
    beside = tmp_path / ".sweep.sweep"
    beside.mkdir(exist_ok=True)
    (beside / "new").mkdir(exist_ok=True)
    out.rename(beside / "old")
    code, _, _ = call("sweep", *small, "--out", str(out), "--awards", "none.parquet")
    assert code == 3
    assert bytes_of(out) == before
    assert call("sweep", *small, "--out", str(out), "--quiet")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep"]


def test_two_sweeps_at_once_of_one_folder(tmp_path: Path, small: list[str]) -> None:
    import fcntl

    (tmp_path / ".sweep.sweep").mkdir()
    with (tmp_path / ".sweep.sweep" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, err = call("sweep", *small, "--out", str(tmp_path / "sweep"))
    assert (code, "another study is writing" in err) == (4, True)
    assert not (tmp_path / "sweep").exists()


# ---------------------------------------------------------------- fit


def fitted(*argv: str) -> dict[str, Any]:
    code, said, err = call("fit", *argv, "--json")
    assert code == 0, err
    last = json.loads(said.splitlines()[-1])
    assert last["done"] is True
    return last


def test_a_fit_is_no_worse_than_any_value_of_a_fine_sweep(tmp_path: Path) -> None:
    until = ["--train-until", "2026-06-01"]
    found = fitted(*SAMPLE, *until, "--param", "divisor")
    assert call("sweep", *SAMPLE, *until, "--vary", "divisor=600:2600:50", "--out", str(tmp_path / "sweep"), "--quiet")[0] == 0
    table = pl.read_parquet(tmp_path / "sweep" / "sweep.parquet")
    # Whole-number ratings put steps into the loss: between two points of a sweep it may be lower by so much.
    assert found["log_loss"]["train"][1] <= table["train_log_loss"].min() + 5e-6
    (parameter,) = found["parameters"]
    best = table.filter(pl.col("train_log_loss") == table["train_log_loss"].min())["divisor"][0]
    assert parameter["now"] == 1200.0
    assert parameter["low"] <= best <= parameter["high"]
    assert parameter["low"] < parameter["best"] < parameter["high"]
    # The sample was made with 1200.
    assert parameter["low"] <= 1200 <= parameter["high"]
    now = table.row(0, named=True)
    assert (found["log_loss"]["train"][0], found["log_loss"]["test"][0]) == (now["train_log_loss"], now["log_loss"])
    assert (found["train_games"], found["test_games"]) == (now["train_games"], now["games"])


def test_later_games_cannot_change_what_is_fitted(tmp_path: Path, games: Path, small: list[str]) -> None:
    until = ["--train-until", "2026-03-15", "--param", "divisor", "--param", "heavy.games", "--from", "heavy.games=2"]
    found = fitted(*small, *until)
    rows = pl.read_parquet(games)
    later = pl.col("played_at") >= pl.datetime(2026, 3, 15, time_zone="UTC")
    turned = rows.with_columns(
        pl.when(later).then("loser_id").otherwise("winner_id").alias("winner_id"),
        pl.when(later).then("winner_id").otherwise("loser_id").alias("loser_id"),
    )
    turned.write_parquet(tmp_path / "turned.parquet")
    other = fitted(str(tmp_path / "turned.parquet"), *small[1:], *until)
    assert found["parameters"] == other["parameters"]
    assert found["log_loss"]["train"] == other["log_loss"]["train"]
    assert found["log_loss"]["test"] != other["log_loss"]["test"]
    assert found == fitted(*small, *until, "--threads", "1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--param", "x"], "there are start, floor"),
        (["--param", "k", "--param", "k"], "given twice"),
        (["--param", "k", "--from", "k"], "not NAME=NUMBER"),
        (["--param", "k", "--from", "divisor=3"], "not one of the parameters"),
        (["--param", "k", "--from", "k=3", "--to", "k=3"], "no range"),
        (["--param", "cap"], "give both --from cap=… and --to cap=…"),
        (["--param", "k", "--from", "k=-3"], "must be above 0"),
        ([f"--param={name}" for name in ("k", "divisor", "heavy.k", "heavy.games")], "1 to 3 times"),
    ],
)
def test_what_cannot_be_fitted_is_said(small: list[str], options: list[str], message: str) -> None:
    code, _, err = call("fit", *small, "--train-until", "2026-03-15", *options)
    assert (code, message in err) == (2, True), err


def test_notes_of_a_fit(small: list[str]) -> None:
    code, said, _ = call("fit", *small, "--train-until", "2026-11-30", "--param", "k", "--param", "divisor", "--to", "divisor=1201")
    assert code == 0
    assert "choose it, and fit k" in said
    assert "no game was played from --train-until on" in said
