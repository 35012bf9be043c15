"""`kill -9` at any instant: readers see the old or the new run whole, and the next run ends as if nothing had happened."""

from __future__ import annotations

import hashlib
import signal
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from support_killed import (
    DATA,
    Stage,
    assert_next_run_is_undisturbed,
    assert_whole,
    cut_at,
    digests,
    killed_after_files,
    killed_at_random,
    make_stage,
    wait_for,
)
from warm import Warm

SEED = 20260301
#: Files of the sample (the old history is all but the last), and rows of each: few, for what is looked for lies in time.
MONTHS, ROWS = 3, 2_000


def _command(base: Path, out: Path, *options: str, months: int = MONTHS) -> list[str]:
    games = [str(base / f"{month}.parquet") for month in range(months)]
    return [
        *(sys.executable, "-m", "eloreplay", "backfill", *games, "--columns", str(DATA / "columns.toml"), "--rules", "tavla42"),
        *("--out", str(out), "--as-of", "2026-10-01", "--chunk", "week", "--threads", "1", "--quiet", *options),
    ]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Stage:
    base = tmp_path_factory.mktemp("killed")
    sample = sorted((DATA / "games").glob("*.parquet"))[:MONTHS]
    assert len(sample) == MONTHS
    for month, path in enumerate(sample):
        pq.write_table(pq.read_table(path).slice(0, ROWS), base / f"{month}.parquet")
    old_out = base / "old"

    def build(out: Path, *options: str) -> list[str]:
        return _command(base, out, *options)

    return make_stage(base, _command(base, old_out, months=MONTHS - 1), old_out, build, warm)


def test_killed_at_random_instants(stage: Stage, tmp_path: Path) -> None:
    seen, killed = killed_at_random(stage, tmp_path, 8, SEED)
    assert sum(seen.values()) >= killed == 8


@pytest.mark.long
def test_killed_at_a_hundred_random_instants(stage: Stage, tmp_path: Path) -> None:
    seen, killed = killed_at_random(stage, tmp_path, 100, SEED + 1)
    assert sum(seen.values()) >= killed == 100


def test_killed_after_some_files_it_writes(stage: Stage, tmp_path: Path) -> None:
    timeline = [name for name in stage.written if name.startswith("timeline/")]
    names = [timeline[0], timeline[-1], "players.parquet", "ratings.duckdb", "manifest.json"]
    assert killed_after_files(stage, tmp_path, names) >= 3


@pytest.mark.long
def test_killed_after_every_file_it_writes(stage: Stage, tmp_path: Path) -> None:
    assert len(stage.written) > 15
    assert killed_after_files(stage, tmp_path, stage.written) > 0.7 * len(stage.written)


@pytest.mark.parametrize(
    ("call", "count", "when", "seen"),
    [
        ("rename", 1, "before", "old"),
        ("rename", 1, "after", "old"),
        ("symlink", 1, "after", "old"),
        ("replace", 1, "before", "old"),
        ("replace", 1, "after", "new"),
    ],
)
def test_killed_at_the_switch(stage: Stage, tmp_path: Path, call: str, count: int, when: str, seen: str) -> None:
    out = stage.fresh(tmp_path / "out")
    cut_at(stage, out, call, count, when)
    assert assert_whole(stage, out) == seen
    assert_next_run_is_undisturbed(stage, out)


def test_killed_before_it_was_ours(stage: Stage, tmp_path: Path) -> None:
    """Killed while it takes a new folder into possession, a run leaves a folder that the next one can use."""
    out = tmp_path / "out"
    cut_at(stage, out, "replace", 1, "before")
    assert not (out / "eloreplay.json").exists()
    assert_next_run_is_undisturbed(stage, out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_a_signal(stage: Stage, tmp_path: Path, number: signal.Signals) -> None:
    out = stage.fresh(tmp_path / "out")
    run = stage.start(out, said=tmp_path / "said")
    assert wait_for(run, out / "work" / "run")
    run.send_signal(number)
    assert run.wait() not in (0, 1), run.said
    assert "Traceback" not in run.said
    assert "unexpected" not in run.said
    assert assert_whole(stage, out) == "old"
    assert_next_run_is_undisturbed(stage, out)


def test_a_failure_leaves_no_work_folder(stage: Stage, tmp_path: Path) -> None:
    out = stage.fresh(tmp_path / "out")
    run = stage.start(out, "--max-rejected", "0", said=tmp_path / "said")
    assert run.wait() == 3, run.said
    assert not (out / "work").exists()
    assert assert_whole(stage, out) == "old"
    assert (out / "refused" / "rejected.parquet").is_file()


def test_keep_and_readers_of_an_older_run(stage: Stage, tmp_path: Path) -> None:
    """`--keep 2` keeps two runs: who has resolved `current` before goes on reading."""
    out = stage.fresh(tmp_path / "out")
    reader = (out / "current").resolve()
    before = pl.scan_parquet(reader / "timeline" / "*.parquet")
    games = before.select(pl.len()).collect().item()
    assert stage.start(out, "--keep", "2").wait() == 0
    assert sorted(path.name for path in (out / "runs").iterdir()) == ["000001", "000002"]
    assert digests(reader) == stage.old
    assert before.select(pl.len()).collect().item() == games
    assert (out / "current").resolve().name == "000002"
    # An open file stays readable even when its run is dropped under it.
    with (reader / "players.parquet").open("rb") as stream:
        assert stage.start(out, "--keep", "2").wait() == 0
        assert sorted(path.name for path in (out / "runs").iterdir()) == ["000002", "000003"]
        assert hashlib.sha256(stream.read()).hexdigest() == stage.old["players.parquet"]


def test_readers_during_a_run_see_whole_runs(stage: Stage, tmp_path: Path) -> None:
    """A reader that comes again and again while a run is at work and switches."""
    out = stage.fresh(tmp_path / "out")
    run = stage.start(out)
    seen = []
    while not run.poll():
        seen.append(assert_whole(stage, out))
    assert run.wait() == 0
    seen.append(assert_whole(stage, out))
    assert seen[0] == "old"
    assert seen[-1] == "new"
    assert seen == sorted(seen, reverse=True), "a reader saw the old run after the new one"
