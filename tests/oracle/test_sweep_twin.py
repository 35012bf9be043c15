"""A sweep against as many backfills: each setting, written down as a ruleset of its own, gives the same ratings and scores."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import support
import support_sweep as ss

from eloreplay.cli import main
from eloreplay.errors import UsageFault
from eloreplay.rules import load_ruleset
from eloreplay.settings import parameters, parse_axis, settings


def vary(rng: random.Random, names: list[str]) -> list[str]:
    """One or two axes of values that these rules allow."""
    values = {
        "start": "1400,1500",
        "floor": "none,1470",
        "cap": "none,1530",
        "max_change": "none,15",
        "divisor": "300,900:1500:600",
        "k": "10,20",
        "heavy.games": "1,3,none",
        "heavy.k": "5,15",
        "heavy.factor": "0.25,2",
        "ramp.height": "1,3.5",
        "ramp.length": "5,25",
        "stake.base": "0.5,2",
        "stake.doublings": "1,6",
        "stake.result.single": "1.25",
        "stake.result.gammon": "3",
        "stake.result.backgammon": "3",
        "k_by_games.2.from": "3",
        "k_by_games.2.k": "5,50",
        "k_by_rating.1.k": "10",
        "k_by_rating.2.from": "1490",
        "k_by_rating.2.k": "40",
    }
    known = [name for name in names if name in values]
    return [f"{name}={values[name]}" for name in rng.sample(known, min(len(known), rng.choice((1, 2))))]


SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(10, 120))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_setting_equals_a_backfill_under_it(run_backfill: support.Backfill, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rules = ss.write_rules(tmp_path / "rules.toml", ss.random_rules(rng))
    ruleset = load_ruleset(str(rules))
    players = ["Ann", "Zoë", "O'Hara", "x,y", "", "7"][: rng.randrange(2, 7)]
    rows = ss.random_games(rng, rng.randrange(30, 120), players)
    split = rng.choice((None, rows[len(rows) // 3]["played_at"], rows[0]["played_at"], rows[-1]["played_at"]))
    whole = ruleset.integer_ratings
    extra: dict[str, Any] = {}
    if rng.random() < 0.5:
        extra["awards"] = [
            {
                "award_id": i,
                "awarded_at": rng.choice(rows)["played_at"] + rng.choice((0, 1, -1)),
                "player_id": rng.choice(players),
                "points": rng.choice((50, -30)) if whole else 12.25,
                "reason": "podium",
            }
            for i in range(rng.randrange(1, 6))
        ]
    if rng.random() < 0.5:
        extra["starts"] = [{"player_id": p, "rating": 1490 + 10 * i, "games": i} for i, p in enumerate(players)]
    axes = [parse_axis(text, ruleset) for text in vary(rng, parameters(ruleset))]
    try:
        chosen = settings(ruleset, axes)
    except UsageFault as error:  # a heavy week where there was none needs its k as well, and where k comes in steps a factor
        if "heavy" not in str(error):
            raise
        return
    options = ["--as-of", ss.AS_OF, "--max-rejected", "100%"]
    argv, _ = run_backfill.arguments(rows, *options, rules=rules, **extra)
    argv.remove("--no-study")
    argv[0], argv[argv.index("--out") + 1] = "sweep", str(tmp_path / "sweep")
    for text in [f"{axis.parameter.name}={','.join('none' if v is None else repr(v) for v in axis.values)}" for axis in axes]:
        argv += ["--vary", text]
    if split is not None:
        argv += ["--train-until", support.iso(split)]
    assert main(argv) == 0
    table = pl.read_parquet(tmp_path / "sweep" / "sweep.parquet")
    assert len(table) == len(chosen)
    for row, setting in zip(table.iter_rows(named=True), chosen, strict=True):
        own = ss.write_setting(tmp_path / "setting.toml", setting.ruleset)
        out = run_backfill(rows, *options, rules=own, **extra).ok()
        timeline = out.rows("timeline")
        scored = [line for line in timeline if split is None or line["played_at"] >= split]
        loss, brier, games = ss.plain_scores(scored)
        assert row["games"] == games
        assert math.isclose(row["log_loss"], loss, rel_tol=0, abs_tol=1e-12)
        assert math.isclose(row["brier"], brier, rel_tol=0, abs_tol=1e-12)
        before = [line for line in timeline if split is not None and line["played_at"] < split]
        if before:
            assert math.isclose(row["train_log_loss"], ss.plain_scores(before)[0], rel_tol=0, abs_tol=1e-12)
        swings = ss.plain_swings(scored)
        for name, heavy in (("weekly_swing", False), ("weekly_swing_heavy", True)):
            assert (row[name] is None) == (heavy not in swings)
            if heavy in swings:
                assert math.isclose(row[name], swings[heavy], rel_tol=0, abs_tol=1e-6)
        people = out.frame("players").filter(pl.col("last_played_at").is_not_null())
        last = people["last_played_at"].max()
        active = people.filter(pl.col("last_played_at") >= last - pl.duration(days=30))["rating"]
        assert (row["rating_min"], row["rating_max"]) == (active.min(), active.max())
        width = active.quantile(0.75, "linear") - active.quantile(0.25, "linear")
        assert math.isclose(row["middle_half_width"], width, rel_tol=1e-12, abs_tol=1e-9)
        if split is None:
            curve = out.frame("calibration").filter(pl.col("axis") == "gap", pl.col("slice") == "all")
            found = pl.read_parquet(tmp_path / "sweep" / "curves.parquet").filter(pl.col("setting") == row["setting"])
            assert found.drop("setting").equals(curve)
