"""Made-up timelines with a known truth, for the tests of the calibration study: ratings fixed, results drawn from them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay import study, study_counts
from eloreplay.queries import Database
from eloreplay.rules import Ruleset, load_ruleset

START_US = 1_767_225_600_000_000  # 2026-01-01
HOUR_US = 3_600_000_000
LN10 = math.log(10.0)


@dataclass(frozen=True)
class Made:
    """A timeline, and for each game the favourite's logit and the true probability that he wins (shape `(n_games,)`)."""

    timeline: pa.Table
    logit: NDArray[np.float64]
    truth: NDArray[np.float64]


def made(
    seed: int,
    *,
    players: int = 300,
    games: int = 6000,
    spread: float = 200.0,
    effect: float = 0.0,
    divisor: float = 1200.0,
    true_divisor: float | None = None,
    busy: float = 0.7,
    hours: float = 28 * 24,
) -> Made:
    """Games between players whose ratings never move.

    Args:
        seed: of everything.
        players: how many.
        games: how many.
        spread: standard deviation of the ratings, points.
        effect: standard deviation of what a player's strength differs from his rating, in logits: nothing the ratings know.
        divisor: that the expected scores are made with.
        true_divisor: that the results are made with; the same unless given.
        busy: how unequal the players' activity is (standard deviation of its logarithm).
        hours: over which the games are spread.
    """
    rng = np.random.default_rng(seed)
    rating = np.rint(rng.normal(1500, spread, players)).astype(np.int32)
    activity = np.exp(rng.normal(0, busy, players))
    activity /= activity.sum()
    first = rng.choice(players, games, p=activity)
    second = rng.choice(players, games, p=activity)
    while (same := first == second).any():
        second[same] = rng.choice(players, int(same.sum()), p=activity)
    effects = rng.normal(0, effect, players) if effect else np.zeros(players)
    gap = (rating[first] - rating[second]).astype(float)
    true_logit = LN10 * gap / (true_divisor or divisor) + effects[first] - effects[second]
    first_won = rng.random(games) < 1 / (1 + np.exp(-true_logit))
    winner, loser = np.where(first_won, first, second), np.where(first_won, second, first)
    winner_gap = (rating[winner] - rating[loser]).astype(float)
    at = START_US + np.sort(rng.integers(0, int(hours * HOUR_US), games))
    favourite_sign = np.where(gap >= 0, 1.0, -1.0)
    table = timeline(
        played_us=at,
        winner_id=winner.astype(np.int64),
        loser_id=loser.astype(np.int64),
        winner_rating_before=rating[winner],
        loser_rating_before=rating[loser],
        winner_expected=1 / (1 + 10.0 ** (-winner_gap / divisor)),
    )
    return Made(table, LN10 * np.abs(gap) / divisor, 1 / (1 + np.exp(-true_logit * favourite_sign)))


def timeline(**columns: Any) -> pa.Table:
    """A timeline with the columns given and plain values in the others."""
    n = len(columns["winner_expected"])
    integer = np.asarray(columns["winner_rating_before"]).dtype.kind == "i"
    plain: dict[str, Any] = {
        "pool": pa.nulls(n, pa.string()),
        "seq": np.arange(1, n + 1, dtype=np.int64),
        "game_id": np.arange(n, dtype=np.int64),
        "is_draw": np.zeros(n, bool),
        "winner_change": np.zeros(n, np.int32 if integer else np.float64),
        "loser_change": np.zeros(n, np.int32 if integer else np.float64),
        "winner_k": np.full(n, 32.0),
        "loser_k": np.full(n, 32.0),
        "stake": np.ones(n),
        "winner_games": np.zeros(n, np.int32),
        "loser_games": np.zeros(n, np.int32),
        "winner_recent_games": np.zeros(n, np.int32),
        "loser_recent_games": np.zeros(n, np.int32),
        "rule_version": np.full(n, "1.3.1"),
        "cube": np.ones(n, np.int32),
        "match_length": pa.nulls(n, pa.int32()),
        "advantage": pa.nulls(n, pa.float64()),
    }
    given = dict(columns)
    played = np.asarray(given.pop("played_us", START_US + np.arange(n) * HOUR_US), np.int64)
    return pa.table({**plain, **given, "played_at": pa.array(played).cast(pa.timestamp("us", "UTC"))})


@contextmanager
def database(table: pa.Table, folder: Path, rules: str | Ruleset = "tavla42", threads: int = 2) -> Iterator[Database]:
    """A database that shows a timeline to the study's queries."""
    opened = Database(None, threads=threads, memory_limit="500MB", spill=folder / "spill")
    try:
        opened.put("timeline", table)
        study_counts.put_versions(opened, load_ruleset(rules) if isinstance(rules, str) else rules)
        yield opened
    finally:
        opened.close()


def edges(table: pa.Table) -> list[int]:
    """Months of a timeline, as `study_counts.month_edges`."""
    return study_counts.month_edges(table["played_at"].cast(pa.int64()).to_numpy())


def counts(opened: Database, table: pa.Table) -> pa.Table:
    """Counts of all months of a timeline."""
    found = edges(table)
    return study_counts.month_counts(opened, found[0], found[-1])


def studied(table: pa.Table, folder: Path, rules: str | Ruleset = "tavla42", **options: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables `calibration` and `summary` of a timeline, without clusters."""
    with database(table, folder, rules) as opened:
        found = edges(table)
        facts = study_counts.month_facts(opened, found[0], found[-1])
        return study.study_from_counts(counts(opened, table), facts, **options)


def both(
    table: pa.Table, folder: Path, draws: int = 20, by: tuple[str, ...] = (), rules: str | Ruleset = "tavla42"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """As `studied`, without facts and with clustered intervals."""
    with database(table, folder, rules) as opened:
        counted = counts(opened, table)
        found = edges(table)
        study_counts.Counting(opened).begin(found[0], found[-1])
        ids = pl.Series(sorted({*table["winner_id"].to_pylist(), *table["loser_id"].to_pylist()}))
        opened.put(
            "study_players",
            pa.table({"pool": pa.nulls(len(ids), pa.string()), "player_id": ids.to_arrow(), "player_index": np.arange(len(ids))}),
        )
        opened.create_table("study_dyads", "study_dyads")
        return study.with_clusters(opened, counted, by=by, draws=draws, seed=1)


def one(summary: pl.DataFrame, statistic: str, slice_: str = "all", value: str = "") -> dict[str, Any]:
    """The one row of a statistic."""
    found = summary.filter(statistic=statistic, slice=slice_, slice_value=value)
    assert found.height == 1, f"{statistic} of {slice_} {value!r}: {found.height} rows"
    return found.row(0, named=True)
