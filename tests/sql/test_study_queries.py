"""The study's queries against a slow count of the same timeline, row by row."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import support_study as made_up

from eloreplay import study, study_counts
from eloreplay.rules import Ruleset, load_ruleset

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNIT = 2**40
Row = dict[str, Any]


def us(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


SINCE = {"1.0.5": us("1970-01-01"), "1.2.0": us("2026-02-10"), "1.3.1": us("2026-03-05T12:00")}
DIVISOR = {"pre-1.0.5": 400.0, "1.0.5": 400.0, "1.2.0": 800.0, "1.3.1": 1200.0}


@pytest.fixture(scope="module")
def rules() -> Ruleset:
    return load_ruleset("tavla42-history", SINCE)


def history(seed: int, n: int, pools: list[str | None], integer: bool = True) -> list[Row]:
    """Random rated games of few players from December to June, many at one instant, with all that a slice can look at."""
    rng = random.Random(seed)
    first, last = us("2025-12-20"), us("2026-06-12")
    instants = sorted(rng.choice([first + rng.randrange(last - first), us("2026-01-31"), us("2026-03-01")]) for _ in range(n))
    ratings: dict[Any, float] = defaultdict(lambda: 1500)
    played: Counter[Any] = Counter()
    rows = []
    for at, instant in enumerate(instants):
        pool = rng.choice(pools)
        winner, loser = rng.sample(range(8), 2)
        version = [name for name, start in {"pre-1.0.5": -(2**60), **SINCE}.items() if start <= instant][-1]
        before = [ratings[pool, winner], ratings[pool, loser]]
        changes = [rng.choice([0, 5, 16, 31]), -rng.choice([0, 5, 16, 31])]
        if not integer:
            changes = [change + rng.random() for change in changes]
        rows.append(
            {
                "pool": pool,
                "played_us": instant,
                "winner_id": winner,
                "loser_id": loser,
                "is_draw": rng.random() < 0.2,
                "winner_rating_before": before[0],
                "loser_rating_before": before[1],
                "winner_change": changes[0],
                "loser_change": changes[1],
                "winner_expected": 1 / (1 + 10 ** ((before[1] - before[0]) / DIVISOR[version])),
                "winner_games": played[pool, winner] + rng.choice([0, 15, 90, 480]),
                "loser_games": played[pool, loser] + rng.choice([0, 15, 90, 480]),
                "winner_recent_games": (winner_recent := rng.choice([0, 49, 50, 51])),
                "loser_recent_games": (loser_recent := rng.choice([0, 49, 50, 51])),
                "winner_k": 16.0 if version == "1.3.1" and winner_recent >= 50 else 32.0,
                "loser_k": 16.0 if version == "1.3.1" and loser_recent >= 50 else 32.0,
                "rule_version": version,
                "cube": rng.choice([1, 1, 2, 64]),
                "match_length": None,
                "seq": at + 1,
            }
        )
        for side, change in zip((winner, loser), changes, strict=True):
            ratings[pool, side] += change
            played[pool, side] += 1
    return rows


def as_timeline(rows: list[Row], integer: bool = True) -> pa.Table:
    types: dict[str, Any] = {
        "pool": pa.string(),
        "match_length": pa.int32(),
        "winner_games": pa.int32(),
        "loser_games": pa.int32(),
        "winner_recent_games": pa.int32(),
        "loser_recent_games": pa.int32(),
        "cube": pa.int32(),
        "winner_id": pa.int64(),
        "loser_id": pa.int64(),
    }
    rating = pa.int32() if integer else pa.float64()
    types |= dict.fromkeys(("winner_rating_before", "loser_rating_before", "winner_change", "loser_change"), rating)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["winner_expected"] = np.array(columns["winner_expected"])
    table = made_up.timeline(**columns)
    for name, kind in types.items():
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(columns[name], kind))
    return table


def month(row: Row) -> str:
    return (EPOCH + timedelta(microseconds=row["played_us"])).strftime("%Y-%m")


def heavy(row: Row, side: str) -> bool:
    return row["rule_version"] == "1.3.1" and row[f"{side}_recent_games"] >= 50


def decile(rating: float, ratings: list[float]) -> int:
    """1 plus how many tenths of the ratings it is above: the least rating at or below which k tenths lie, for k from 1 to 9."""
    ordered = sorted(ratings)
    edges = [ordered[-(-len(ordered) * k // 10) - 1] for k in range(1, 10)]
    return 1 + sum(rating > edge for edge in edges)


def slow_slices(row: Row, ratings: list[float]) -> list[tuple[str, str]]:
    led = "winner" if row["winner_expected"] >= 0.5 else "loser"
    before = min(row["winner_games"], row["loser_games"])
    return [
        ("all", ""),
        ("version", row["rule_version"]),
        ("cube", str(row["cube"])),
        ("strength", str(decile(row[f"{led}_rating_before"], ratings))),
        ("heavy", "heavy" if heavy(row, "winner") or heavy(row, "loser") else "usual"),
        ("experience", "0-19" if before < 20 else "20-99" if before < 100 else "100-499" if before < 500 else "500+"),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_a_slow_count(tmp_path: Path, rules: Ruleset, seed: int) -> None:
    pools: list[str | None] = [None] if seed % 2 else ["a", "b", "ü'"]
    rows = history(seed, 400, pools)
    ratings: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        ratings[row["pool"], month(row)] += [row["winner_rating_before"], row["loser_rating_before"]]
    wanted: dict[Any, list[float]] = defaultdict(lambda: [0.0] * 7)
    for row in rows:
        p = row["winner_expected"]
        led = p != 0.5
        points = 0.5 if row["is_draw"] or not led else 1.0 if p > 0.5 else 0.0
        chance, y = max(p, 1 - p), 0.5 if row["is_draw"] else 1.0
        gap = abs(row["winner_rating_before"] - row["loser_rating_before"])
        bins = (min(int(gap // 25), 20), min(int((chance - 0.5) / 0.025 + 1e-9), 19)) if led else (None, None)
        logit = math.log(chance / (1 - chance))
        measures = [
            1, row["is_draw"], 2 * points, chance, logit, -y * math.log(p) - (1 - y) * math.log(1 - p), (y - p) ** 2,
        ]  # fmt: skip
        for slice_, value in slow_slices(row, ratings[row["pool"], month(row)]):
            key = (row["pool"], month(row), slice_, value, DIVISOR[row["rule_version"]], *bins)
            wanted[key] = [old + new for old, new in zip(wanted[key], measures, strict=True)]

    table = as_timeline(rows)
    with made_up.database(table, tmp_path, rules) as opened:
        counts = pl.from_arrow(made_up.counts(opened, table))
    assert isinstance(counts, pl.DataFrame)
    keys = ["pool", "month", "slice", "slice_value", "divisor", "gap_bin", "probability_bin"]
    sums = ["games", "draws", "half_points", "expected_sum", "logit_sum", "loss_sum", "squared_sum"]
    found = {tuple(row[: len(keys)]): row[len(keys) :] for row in counts.group_by(keys).agg(pl.col(sums).sum()).iter_rows()}
    assert set(found) == set(wanted)
    for key, measures in wanted.items():
        games, draws, half, *fixed = found[key]
        assert (games, draws, half) == tuple(measures[:3]), key
        assert [int(value) / UNIT for value in fixed] == pytest.approx(measures[3:], abs=1e-9)
    # The grid: a cell holds what it says.
    led = counts.filter(pl.col("cell") >= 0).with_columns(mean=pl.col("logit_sum").cast(pl.Float64) / UNIT / pl.col("games") * 256)
    assert led.filter((pl.col("mean") < pl.col("cell")) | (pl.col("mean") >= pl.col("cell") + 1)).is_empty()
    assert counts.filter(pl.col("cell") < 0)["gap_bin"].null_count() == counts.filter(pl.col("cell") < 0).height


def test_months_add_up_whenever_they_are_counted(tmp_path: Path, rules: Ruleset) -> None:
    rows = history(9, 500, ["x", "y"])
    table = as_timeline(rows)
    with made_up.database(table, tmp_path, rules) as opened:
        edges = made_up.edges(table)
        assert [datetime.fromtimestamp(e / 1e6, UTC).strftime("%m-%d") for e in edges] == [
            "12-01", "01-01", "02-01", "03-01", "04-01", "05-01", "06-01", "07-01",
        ]  # fmt: skip
        single = [study_counts.month_counts(opened, first, last) for first, last in itertools.pairwise(edges)]
        together = study_counts.month_counts(opened, edges[0], edges[-1])
        parts = [study_counts.month_facts(opened, first, last) for first, last in itertools.pairwise(edges)]
        facts = study_counts.month_facts(opened, edges[0], edges[-1])
    assert (
        pa.concat_tables(single)
        .sort_by([(n, "ascending") for n in together.schema.names[:8]])
        .equals(together.sort_by([(n, "ascending") for n in together.schema.names[:8]]))
    )
    one = study.study_from_counts(pa.concat_tables(reversed(single)), pa.concat_tables(reversed(parts)), pool=True)
    merged = study.merge_months(pa.concat_tables([*single[:2], study.merge_months(pa.concat_tables(single[2:]))]))
    assert merged.schema == together.schema
    assert len(merged) < len(together)
    assert study.study_from_counts(merged, facts, pool=True)[1].equals(one[1])
    other = study.study_from_counts(together, facts, pool=True)
    for mine, yours in zip(one, other, strict=True):
        assert mine.equals(yours)


@pytest.mark.parametrize("seed", range(4))
def test_facts_are_those_of_a_slow_count(tmp_path: Path, rules: Ruleset, seed: int) -> None:
    integer = seed < 3
    pools: list[str | None] = [None] if seed % 2 else ["a", "b"]
    rows = history(20 + seed, 500, pools, integer)
    table = as_timeline(rows, integer)
    with made_up.database(table, tmp_path, rules) as opened:
        edges = made_up.edges(table)
        facts = study_counts.month_facts(opened, edges[0], edges[-1])
    _, summary = _frames(facts, seed % 2 == 0)
    for pool in pools:
        own = [row for row in rows if row["pool"] == pool]
        found = summary.filter(pool=pool) if "pool" in summary.columns else summary
        for slice_, keyed in (("all", lambda _: ""), ("month", month), ("version", lambda row: row["rule_version"])):
            groups: dict[str, list[Row]] = defaultdict(list)
            for row in own:
                groups[keyed(row)].append(row)
            for value, games in groups.items():
                mine = {r["statistic"]: r["value"] for r in found.filter(slice=slice_, slice_value=value).iter_rows(named=True)}
                wanted = slow_facts(games, own)
                assert {name: mine[name] for name in wanted} == pytest.approx(wanted, rel=1e-9, abs=1e-9), (pool, slice_, value)
        check_weeks(found, own)


def _frames(facts: pa.Table, pool: bool) -> tuple[None, pl.DataFrame]:
    kind = pl.String
    return None, study.summary_table(list(study.fact_rows(facts, study.SLICES)), pool, kind)


def slow_facts(games: list[Row], every: list[Row]) -> dict[str, float]:
    """The statistics of these games; `every`: all games of the pool, for deciles and who is active."""
    by_month: dict[str, list[Row]] = defaultdict(list)
    for row in every:
        by_month[month(row)].append(row)
    strong = []
    for row in games:
        ratings = [other[f"{s}_rating_before"] for other in by_month[month(row)] for s in ("winner", "loser")]
        for side in ("winner", "loser"):
            if decile(row[f"{side}_rating_before"], ratings) == 10:
                p = row["winner_expected"]
                result = 0.5 if row["is_draw"] else float(side == "winner")
                strong.append((result, p if side == "winner" else 1 - p))
    last = games[-1]
    since = last["played_us"] - 30 * 86_400_000_000
    after: dict[int, float] = {}
    for row in every:
        if since <= row["played_us"] and row["seq"] <= last["seq"]:
            for side in ("winner", "loser"):
                after[row[f"{side}_id"]] = row[f"{side}_rating_before"] + row[f"{side}_change"]
    quarter, half, three = (
        statistics.quantiles(after.values(), n=4, method="inclusive") if len(after) > 1 else [*after.values()] * 3
    )
    sides = [heavy(row, side) for row in games for side in ("winner", "loser")]
    wanted = {
        "active_players": len(after),
        "active_rating_mean": math.fsum(after.values()) / len(after),
        "active_rating_median": half,
        "active_rating_middle_half_width": three - quarter,
        "reduced_k_games_share": sum(heavy(row, "winner") or heavy(row, "loser") for row in games) / len(games),
        "reduced_k_sides_share": sum(sides) / len(sides),
        "points_created": math.fsum(row["winner_change"] + row["loser_change"] for row in games),
        "points_created_by_unequal_k": math.fsum(
            row["winner_change"] + row["loser_change"] for row in games if row["winner_k"] != row["loser_k"]
        ),
        # Fewer than a hundred players: all of them.
        "strongest_100_real_rate": 0.5,
        "strongest_100_expected_rate": 0.5,
    }
    if strong:
        wanted["strongest_decile_real_rate"] = math.fsum(s[0] for s in strong) / len(strong)
        wanted["strongest_decile_expected_rate"] = math.fsum(s[1] for s in strong) / len(strong)
    return wanted


def check_weeks(found: pl.DataFrame, rows: list[Row]) -> None:
    weeks: dict[Any, list[tuple[Row, str]]] = defaultdict(list)
    for row in rows:
        week = ((EPOCH + timedelta(microseconds=row["played_us"])).day - 1) // 7
        if week < 4:
            for side in ("winner", "loser"):
                weeks[month(row), week, row[f"{side}_id"]].append((row, side))
    groups: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for (when, _, _), games in weeks.items():
        n = len(games)
        volume = "1-9" if n < 10 else "10-49" if n < 50 else "50-99" if n < 100 else "100-299"
        kind = "heavy" if sum(heavy(row, side) for row, side in games) * 2 > n else "usual"
        change = math.fsum(row[f"{side}_change"] for row, side in games)
        version = games[-1][0]["rule_version"]
        for slice_, value in (("week", ""), ("month, week", f"{when}, "), ("version, week", f"{version}, ")):
            groups[slice_, f"{value}{volume} {kind}"].append((change, n))
    mine = {
        (r["slice"], r["slice_value"], r["statistic"]): (r["value"], r["games"])
        for r in found.filter(pl.col("slice").str.ends_with("week")).iter_rows(named=True)
    }
    assert {key[:2] for key in mine} == set(groups)
    for key, changes in groups.items():
        games = sum(n for _, n in changes)
        mean_square = math.fsum(change * change for change, _ in changes) / len(changes)
        assert mine[*key, "weekly_swing"] == pytest.approx((math.sqrt(mean_square), games), rel=1e-6, abs=1e-3)
        assert mine[*key, "weekly_change"] == pytest.approx((math.fsum(abs(c) for c, _ in changes) / len(changes), games), rel=1e-9)
        assert mine[*key, "player_weeks"] == (len(changes), games)


def test_the_first_hundred_of_a_month_are_ranked_before_its_games(tmp_path: Path) -> None:
    """Of 150 players the hundred highest before their first game; ties by games, then id; what happens later in it is no matter."""
    n = 75
    ratings = {player: 1600 + player for player in range(99)} | {99: 1500, 100: 1500} | dict.fromkeys(range(101, 150), 1000)
    # 99 and 100 share the hundredth place by rating; who has played more has it.
    played = dict.fromkeys(range(150), 5) | {99: 3, 100: 0}
    first = [(player, player + n) for player in range(n)]
    table = made_up.timeline(
        winner_id=np.array([a for a, _ in first] + [149]),
        loser_id=np.array([b for _, b in first] + [0]),
        winner_rating_before=np.array([ratings[a] for a, _ in first] + [9000], np.int32),
        loser_rating_before=np.array([ratings[b] for _, b in first] + [10], np.int32),
        winner_expected=np.array([0.75] * n + [0.9]),
        winner_games=np.array([played[a] for a, _ in first] + [6], np.int32),
        loser_games=np.array([played[b] for _, b in first] + [6], np.int32),
    )
    with made_up.database(table, tmp_path) as opened:
        edges = made_up.edges(table)
        facts = study_counts.month_facts(opened, edges[0], edges[-1]).to_pylist()
    (hundred,) = [row for row in facts if row["fact"] == "strongest_100"]
    # Players 0 to 99: 75 winners and 25 losers, and the loser of the last game, whose rating was 1600 before his first.
    assert hundred["games"] == 101
    assert hundred["count_sum"] == 150
    assert int(hundred["points_sum"]) / UNIT == pytest.approx(75 * 0.75 + 25 * 0.25 + 0.1, abs=1e-9)


def test_a_high_rating_overflows_nothing(tmp_path: Path) -> None:
    table = made_up.timeline(
        winner_id=np.array([1]),
        loser_id=np.array([2]),
        winner_rating_before=np.array([2**31 - 2], np.int32),
        loser_rating_before=np.array([-(2**31) + 2], np.int32),
        winner_change=np.array([2**31 - 2], np.int32),
        loser_change=np.array([2], np.int32),
        winner_expected=np.array([1.0]),
    )
    calibration, summary = made_up.studied(table, tmp_path)
    assert made_up.one(summary, "points_created")["value"] == 2**31
    assert made_up.one(summary, "active_rating_mean")["value"] == (2 * (2**31 - 2) + -(2**31) + 4) / 2
    assert calibration.filter(axis="gap", slice="all")["games"].to_list() == [0] * 20 + [1]
