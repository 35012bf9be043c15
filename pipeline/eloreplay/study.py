"""The calibration study: every figure that can be made from the counts of months (`study_counts`) alone.

`study_from_counts` makes the tables `calibration` and `summary` of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import polars as pl
import pyarrow as pa

from eloreplay.calibration import CALIBRATION_COLUMNS, FIXED_POINT, rates, wilson
from eloreplay.clusters import cluster_study
from eloreplay.queries import Database
from eloreplay.scores import Cells, Estimate, curve_bins, scores

#: Slices besides `all`, in the order in which people read them.
SLICES = ("version", "cube", "match_length", "strength", "heavy", "experience", "month")
SQUARES = 2.0**20

SUMMARY_SCHEMA: dict[str, Any] = {
    "statistic": pl.String,
    "slice": pl.String,
    "slice_value": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "games": pl.Int64,
}
SUMS = ("games", "draws", "half_points", "expected_sum", "logit_sum", "half_logit_sum", "loss_sum", "squared_sum")
KEYS = ("pool", "slice", "slice_value")


def merge_months(counts: pa.Table) -> pa.Table:
    """The same counts in fewer rows: only those over all games still tell their month, for no other slice is shown by month.

    What a study keeps in memory then grows with the months times the cells of one curve, and with nothing else.
    """
    frame = pl.from_arrow(counts)
    assert isinstance(frame, pl.DataFrame)
    month = pl.when(pl.col("slice") == "all").then(pl.col("month")).otherwise(pl.lit(""))
    keys = ["pool", "month", "slice", "slice_value", "divisor", "gap_bin", "probability_bin", "cell"]
    merged = frame.with_columns(month=month).group_by(keys).agg(pl.col(SUMS).sum()).sort(keys)
    return merged.select(counts.schema.names).to_arrow().cast(counts.schema)


def add_months(counts: pa.Table, by: Collection[str] = SLICES) -> pl.DataFrame:
    """Counts of months as counts of `all` and the wanted slices (also `month`); columns `KEYS`, bins and `SUMS`."""
    frame = pl.from_arrow(counts)
    assert isinstance(frame, pl.DataFrame)
    wanted = frame.filter(pl.col("slice").is_in(["all", *by]))
    if "month" in by:
        months = frame.filter(slice="all").with_columns(slice=pl.lit("month"), slice_value=pl.col("month"))
        wanted = pl.concat([wanted, months])
    return (
        wanted.group_by([*KEYS, "divisor", "gap_bin", "probability_bin", "cell"])
        .agg(pl.col(SUMS).sum())
        .sort([*KEYS, "divisor", "gap_bin", "probability_bin", "cell"])
    )


def keep_large(counts: pl.DataFrame, min_games: int) -> pl.DataFrame:
    """Leave out slice values of fewer games with a favourite than `min_games`; `all` always stays."""
    led = pl.col("games").filter(pl.col("cell") >= 0).sum().over(KEYS)
    return counts.filter((led >= min_games) | (pl.col("slice") == "all"))


def study_from_counts(
    counts: pa.Table,
    facts: pa.Table | None = None,
    *,
    pool: bool = False,
    pools: pl.Series | None = None,
    by: Collection[str] = SLICES,
    min_games: int = 1,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables `calibration` and `summary` of a study, from the counts of all its months.

    Args:
        counts: `month_counts` of every month, put together in any order.
        facts: `month_facts` of every month, or None to leave these statistics out.
        pool: whether tables carry the pool.
        pools: all pools of the run, so that those without games have their empty curve as well; else those that have games.
        by: slices besides `all`.
        min_games: slice values with fewer games with a favourite are left out.
    """
    sums = keep_large(add_months(counts, by), min_games)
    known = pl.DataFrame({"pool": sums["pool"].unique() if pools is None else pools.cast(sums.schema["pool"])})
    if known.is_empty() and not pool:
        known = pl.DataFrame({"pool": pl.Series([None], dtype=sums.schema["pool"])})
    rows = [
        {**dict(zip(KEYS, key, strict=True)), "statistic": name, **vars(estimate)}
        for key, cells in slices(sums)
        for name, estimate in scores(cells).items()
    ]
    if facts is not None:
        rows += list(fact_rows(facts, by))
    return curve(sums, known, pool), summary_table(rows, pool, sums.schema["pool"])


def with_clusters(
    database: Database,
    counts: pa.Table,
    facts: pa.Table | None = None,
    *,
    draws: int,
    seed: int,
    pool: bool = False,
    pools: pl.Series | None = None,
    by: Collection[str] = SLICES,
    min_games: int = 1,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """As `study_from_counts`, with the intervals that respect that players repeat.

    Args:
        database: with the table `study_dyads` of all the games that were counted.
        counts: as there, likewise the arguments that are not named here.
        facts: as there.
        draws: how often the players are drawn for the calibration error that luck alone shows.
        seed: of the draws.
        pool: as there.
        pools: as there.
        by: as there.
        min_games: as there.
    """
    calibration, summary = study_from_counts(counts, facts, pool=pool, pools=pools, by=by, min_games=min_games)
    sums = keep_large(add_months(counts, by), min_games)
    parts = list(slices(sums))
    if not parts:
        return calibration, summary
    curves, rows = cluster_study(database, parts, ["all", *by], draws, seed, sums.schema["pool"])
    keys = [*(["pool"] if pool else []), "slice", "slice_value", "axis", "bin_low"]
    calibration = calibration.drop("cluster_low", "cluster_high").join(
        curves.select(*keys, "cluster_low", "cluster_high"), on=keys, how="left", nulls_equal=True, maintain_order="left"
    )
    more = summary_table(rows, pool, sums.schema["pool"])
    order = [*(["pool"] if pool else []), "statistic", "slice", "slice_value"]
    return calibration.select(*(["pool"] if pool else []), *CALIBRATION_COLUMNS), pl.concat([summary, more]).sort(order)


def summary_table(rows: list[dict[str, Any]], pool: bool, pool_type: Any) -> pl.DataFrame:
    """Rows as the table `summary`, in its order; a statistic that says nothing (no value, no interval) has no row."""
    table = pl.DataFrame(rows, schema={"pool": pool_type, **SUMMARY_SCHEMA}, orient="row")
    table = table.filter(pl.any_horizontal(pl.col("value", "low", "high").is_not_null()))
    table = table.sort(["pool", "statistic", "slice", "slice_value"])
    return table if pool else table.drop("pool")


def slices(sums: pl.DataFrame) -> Iterator[tuple[tuple[Any, str, str], Cells]]:
    """Each pool, slice and slice value with its cells, in their order."""
    floats = {
        "games": pl.col("games").cast(pl.Float64),
        "draws": pl.col("draws").cast(pl.Float64),
        "points": pl.col("half_points") / 2,
        "divisor": pl.col("divisor"),
        "probability_bin": pl.col("probability_bin").cast(pl.Int64).fill_null(-1),
    }
    floats |= {name: pl.col(f"{name}_sum").cast(pl.Float64) / FIXED_POINT for name in ("expected", "logit", "loss", "squared")}
    floats["point_logit"] = pl.col("half_logit_sum").cast(pl.Float64) / (2 * FIXED_POINT)
    frame = sums.select(*KEYS, **floats)
    for key, part in frame.group_by(KEYS, maintain_order=True):
        yield (key[0], str(key[1]), str(key[2])), Cells(**{name: part[name].to_numpy() for name in floats})


def curve(sums: pl.DataFrame, pools: pl.DataFrame, pool: bool) -> pl.DataFrame:
    """The table `calibration`: every bin of both axes for each slice value; empty bins stay."""
    whole = pools.with_columns(slice=pl.lit("all"), slice_value=pl.lit(""))
    values = pl.concat([sums.select(KEYS), whole.select(KEYS)]).unique()
    counted = pl.concat(
        [
            sums.filter(pl.col("cell") >= 0)
            .group_by([*KEYS, pl.col(f"{axis}_bin").alias("bin")])
            .agg(pl.col("games", "half_points", "expected_sum").sum())
            .with_columns(axis=pl.lit(axis))
            for axis in ("gap", "probability")
        ]
    )
    full = values.join(curve_bins(), how="cross").join(counted, on=[*KEYS, "axis", "bin"], how="left", nulls_equal=True)
    full = full.with_columns(pl.col("games", "half_points").fill_null(0), pl.col("expected_sum").fill_null(0))
    full = full.rename({"half_points": "half_wins"}).sort([*KEYS, "axis", "bin_low"])
    return rates(full, pool)


def fact_rows(facts: pa.Table, by: Collection[str]) -> Iterator[dict[str, Any]]:
    """Rows of `summary` from the facts of all months: over all, by version and by month, as far as wanted."""
    frame = pl.from_arrow(facts)
    assert isinstance(frame, pl.DataFrame)
    for slice_, value in (("all", pl.lit("")), ("version", pl.col("rule_version")), ("month", pl.col("month"))):
        if slice_ != "all" and slice_ not in by:
            continue
        keyed = frame.with_columns(slice=pl.lit(slice_), slice_value=value)
        # What does not add up is taken from the last month and version: that is how things stood at the end.
        keyed = keyed.sort(["month", "version_index"])
        summed = keyed.group_by([*KEYS, "fact", "label"], maintain_order=True).agg(
            pl.col("games", "count_sum", "points_sum", "squares_sum").sum(),
            pl.col("value", "month").last(),
            last_games=pl.col("games").last(),
            last_points=pl.col("points_sum").last(),
        )
        for row in summed.iter_rows(named=True):
            yield from _fact(row, slice_)


def _fact(row: dict[str, Any], slice_: str) -> Iterator[dict[str, Any]]:
    key = {name: row[name] for name in KEYS}
    fact, label, games = row["fact"], row["label"], row["games"]

    def made(statistic: str, estimate: Estimate, **other: str) -> dict[str, Any]:
        return {**key, **other, "statistic": statistic, **vars(estimate)}

    if fact.startswith("strongest"):
        points, expected = row["count_sum"] / 2, int(row["points_sum"]) / FIXED_POINT
        low, high = wilson(points, games)
        yield made(f"{fact}_real_rate", Estimate(points / games, low, high, games))
        yield made(f"{fact}_expected_rate", Estimate(expected / games, games=games))
    elif fact == "reduced_k":
        low, high = wilson(row["count_sum"], games)
        yield made(f"reduced_k_{label}_share", Estimate(row["count_sum"] / games, low, high, games))
    elif fact == "net":
        name = "points_created" if label == "all" else "points_created_by_unequal_k"
        yield made(name, Estimate(int(row["points_sum"]) / FIXED_POINT, games=games))
    elif fact == "active":
        if label == "mean":
            yield made("active_players", Estimate(row["last_games"]))
            yield made("active_rating_mean", Estimate(int(row["last_points"]) / FIXED_POINT / row["last_games"]))
        else:
            yield made("active_rating_median" if label == "median" else "active_rating_middle_half_width", Estimate(row["value"]))
    else:
        weeks = row["count_sum"]
        where = {"slice": "week", "slice_value": label}
        if slice_ != "all":
            where = {"slice": f"{slice_}, week", "slice_value": f"{row['slice_value']}, {label}"}
        yield made("weekly_swing", Estimate(math.sqrt(int(row["squares_sum"]) / SQUARES / weeks), games=games), **where)
        yield made("weekly_change", Estimate(int(row["points_sum"]) / FIXED_POINT / weeks, games=games), **where)
        yield made("player_weeks", Estimate(weeks, games=games), **where)
