"""What `make bench` compares is the same thing: the floor, the loop in C and the plain loop arrive at the product's own values."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import support

from eloreplay.kernel import replay_games

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))

import c_loop  # noqa: E402
import floor  # noqa: E402
import page  # noqa: E402
import peers  # noqa: E402
import sites  # noqa: E402

AS_OF = ("--as-of", "2026-10-20")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few thousand games of few players, so that weeks are heavy; instants are full hours, so that many are the same."""
    folder = tmp_path_factory.mktemp("site") / "made"
    sites.make(folder, games=6_000, players=8, months=3)
    for file in folder.glob("*/*.parquet"):
        rows = pq.read_table(file)
        hours = pc.floor_temporal(rows["ended_at"], unit="hour")
        rows = rows.set_column(rows.schema.get_field_index("ended_at"), "ended_at", hours)
        pq.write_table(rows.take(np.random.default_rng(1).permutation(len(rows))), file)
    return folder


def plain(column: pa.ChunkedArray) -> pa.Array:
    """Without chunks and without a dictionary."""
    kind = column.type
    return column.cast(kind.value_type if pa.types.is_dictionary(kind) else kind).combine_chunks()


def timeline_of(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))])


@pytest.mark.parametrize("ids", ["integer", "text"])
def test_the_floor_counts_and_orders_as_a_run_does(ids: str, site: Path, run_backfill: support.Backfill, tmp_path: Path) -> None:
    finished = run_backfill(site / ids, "--columns", str(site / "columns.toml"), *AS_OF).ok().current / "timeline"
    result = floor.floor(site / ids, finished, tmp_path / "floor")
    run, bare = timeline_of(finished), timeline_of(tmp_path / "floor")
    assert result["rows"] == 6_000
    assert result["games"] == len(run) == len(bare)
    assert bare.column_names == run.column_names
    for name in set(run.column_names) - set(floor.RATED):
        assert plain(bare[name]).equals(plain(run[name])), name
    for name in floor.RATED:
        assert bare[name].type == run[name].type, name
    # Otherwise equal columns would say little.
    assert set(run["winner_k"].to_pylist()) == {16.0, 32.0}
    assert len(pc.unique(run["played_at"])) < 0.8 * len(run)


@pytest.mark.parametrize("ids", ["integer", "text"])
def test_the_floor_finds_an_id_that_stands_twice(ids: str, site: Path, tmp_path: Path) -> None:
    files = sorted((site / ids).glob("*.parquet"))
    again = tmp_path / "again.parquet"
    pq.write_table(pq.read_table(files[0]).slice(17, 1), again)
    database = floor.duckdb.connect()
    assert floor.refuse_repeated(database, files) == 6_000
    with pytest.raises(SystemExit, match="stands twice"):
        floor.refuse_repeated(database, [*files, again])


def test_the_plain_loop_that_does_the_same_job_ends_with_the_same_ratings(
    site: Path, run_backfill: support.Backfill, tmp_path: Path
) -> None:
    run = run_backfill(site / "text", "--columns", str(site / "columns.toml"), *AS_OF).ok().current
    peers.export(run / "timeline", tmp_path / "games.npz")
    games, expected = peers.read(tmp_path / "games.npz", 10**9)
    ratings = np.array(peers.plain_same(games))
    assert np.array_equal(ratings, expected)
    assert sorted(ratings) == sorted(pq.read_table(run / "players.parquet")["rating"].to_pylist())


def arguments(seed: int, rounding: int) -> tuple[list[Any], dict[str, Any]]:
    """Random games and awards under every kind of rule that the kernel knows, and what it fills."""
    rng = np.random.default_rng(seed)
    n, players, awards = 5_000, 40, 60
    winner = rng.integers(0, players, n, dtype=np.int32)
    loser = ((winner + rng.integers(1, players, n)) % players).astype(np.int32)
    games = [
        winner,
        loser,
        np.sort(rng.integers(0, 3_000, n)),
        rng.choice([1.0, 0.5], n),
        rng.choice([0.0, 35.0, -12.5], n),
        rng.choice([400.0, 800.0, 2000.0 / math.sqrt(5)], n),
        rng.choice([1.0, 1.5, 4 * math.sqrt(5)], n),
        rng.choice([32.0, 16.0], n),
        rng.choice([32.0, 16.0], n),
        rng.integers(1, 9, n).astype(np.float64),
        np.sort(rng.integers(0, 4, n)).astype(np.int16),
        rng.integers(0, players, awards, dtype=np.int32),
        np.sort(rng.integers(0, 3_000, awards)),
        rng.choice([25.0, -40.0], awards),
    ]
    numbers = [
        np.array([0, 1, 2, 0], np.int8),
        np.array([0, 0, 2, 0], np.int64),
        np.array([0, 2, 5, 0], np.int64),
        np.array([0.0, 90.0, 0.0, 1500.0, 1600.0]),
        np.array([2.0, 1.0, 1.5, 1.0, 0.5]),
        np.array([1.0, 1.0, 5.0, 5.0]),
        np.array([1.0, 1.0, 400.0, 400.0]),
        np.array([False, False, False, True]),
        rounding,
        1300.0,
        1900.0,
        45.0,
    ]
    out = c_loop.outputs(n) | {"award_before": np.empty(awards), "award_change": np.empty(awards)}
    return [*games, c_loop.fresh_state(players, 1500.0), *numbers], out


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here, with which the loop in C is built")
@pytest.mark.parametrize("rounding", [0, 1])
def test_the_loop_in_c_gives_the_same_bits(rounding: int, tmp_path: Path) -> None:
    in_c = c_loop.c_loop(c_loop.build(tmp_path / "kernel.so"))
    found = []
    for loop in (replay_games, in_c):
        given, out = arguments(7, rounding)
        loop(*given, *out.values())
        found.append({name: values.tobytes() for name, values in out.items()} | {"state": given[14].tobytes()})
    assert found[0] == found[1]
    # The same arithmetic in another setting does not: the comparison can fail.
    given, out = arguments(7, 1 - rounding)
    in_c(*given, *out.values())
    assert out["change"].tobytes() != found[0]["change"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here, with which the loop in C is built")
def test_the_race_of_the_loops_notices_a_difference(tmp_path: Path) -> None:
    in_c = c_loop.c_loop(c_loop.build(tmp_path / "kernel.so"))

    def off(*given: Any) -> None:
        in_c(*given)
        given[28][3, 0] += 1.0

    games = c_loop.random_games(50, 1_000)
    assert c_loop.race(games, {"kernel": replay_games, "c": in_c}, 1)["same"]
    wrong = c_loop.race(games, {"kernel": replay_games, "c": off}, 1)
    assert (wrong["same"], wrong["same_changes"]) == (False, False)


def test_the_page_goes_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.DOCS.read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    copy = tmp_path / "performance.md"
    copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr(page, "DOCS", copy)
    page.write_docs("| a |")
    first, rest = copy.read_text(encoding="utf-8").split(page.BEGIN)
    assert text.startswith(first)
    assert rest == f"\n| a |\n{page.END}{text.split(page.END)[1]}"


def test_ratios_are_medians_of_rounds() -> None:
    def entry(what: str, seconds: list[float]) -> dict[str, Any]:
        spent = [{"elapsed_s": one, "cpu_s": 1.0, "peak_bytes": 1} for one in seconds]
        steps = [dict.fromkeys(page.STEPS, 0.0)] * len(seconds)
        return {"part": "floor", "rows": 10, "rated": 8, "ids": "integer", "what": what, "spent": spent, "steps": steps}

    # The second round met a busy machine: both took ten times as long, and their ratio is no worse for it.
    lines = page.ratios([entry("backfill", [3.0, 30.0, 2.0]), entry("floor", [2.0, 20.0, 2.0])])
    assert "| run / floor, integer ids | 10 | 1.50 | at most 1.25 |" in lines


def test_nothing_is_extended_from_slopes_that_are_noise() -> None:
    def entry(rows: int, seconds: float) -> dict[str, Any]:
        spent = [{"elapsed_s": seconds, "cpu_s": 1.0, "peak_bytes": 1}]
        steps = [dict.fromkeys(page.STEPS, seconds / 10)]
        return {"part": "floor", "rows": rows, "rated": rows, "ids": "integer", "what": "backfill", "spent": spent, "steps": steps}

    fair = page.model([entry(1_000_000, 2.0), entry(11_000_000, 22.0)])
    # Two seconds a million, six of the steps are divided, and the kernel is a tenth of all.
    assert "| all | 2.000 |" in fair
    assert "| 1,000,000,000 | 10,000,000 | 1 | 20 min | 200 s | 20 min | 20 min | 0.60 |".replace("200 s", "3.33 min") in fair
    noise = page.model([entry(1_000_000, 2.0), entry(11_000_000, 1.0)])
    assert noise[-1].startswith("A slope that is not above 0 is noise")
