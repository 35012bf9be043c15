"""`eloreplay calibrate` as a user runs it: what it writes and leaves alone, and that no figure knows what comes after it."""

from __future__ import annotations

import contextlib
import io
import json
import math
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import Backfill, Out, Row, game, own_rules, ts
from support_study import one

from eloreplay.study_page import _Figures

DAY = 86_400_000_000
AS_OF = ("--as-of", "2027-01-01")


def study(out: Out | Path, *options: str) -> tuple[int, str, str]:
    """Exit code and output of `eloreplay calibrate` in this process."""
    from eloreplay.cli import main

    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main(["calibrate", str(out.folder if isinstance(out, Out) else out), *options])
    return code, stdout.getvalue(), stderr.getvalue()


def tables(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    return pl.read_parquet(folder / "calibration.parquet"), pl.read_parquet(folder / "summary.parquet")


def studied(out: Out, *options: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    code, _, errors = study(out.ok(), *options)
    assert code == 0, errors
    return tables(out.folder / "studies" / "calibrate")


def some_games(seed: int, n: int = 600, players: int = 20, days: int = 100, **more: Any) -> list[Row]:
    rng = random.Random(seed)
    start = ts("2026-01-10 00:00:00")
    rows = []
    for at in range(n):
        first, second = rng.sample(range(players), 2)
        if rng.random() > 0.5 + (second - first) / 3 / players:
            first, second = second, first
        extra = {name: rng.choice(values) for name, values in more.items()}
        rows.append(game(at, start + rng.randrange(days * DAY // 1000) * 1000, first, second, **extra))
    return rows


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_study_has_the_columns_of_the_run_s_tables_and_changes_no_run(run_backfill: Backfill) -> None:
    out = run_backfill(some_games(1, cube=[1, 2, 8]), *AS_OF).ok()
    before = snapshot(out.folder)
    calibration, summary = studied(out)
    after = snapshot(out.folder)
    assert {name: content for name, content in after.items() if not name.startswith("studies/")} == before
    assert sorted(name for name in after if name.startswith("studies/")) == [
        "studies/calibrate/calibration.parquet", "studies/calibrate/manifest.json", "studies/calibrate/report.html", "studies/calibrate/summary.parquet",
    ]  # fmt: skip
    assert calibration.schema == out.frame("calibration").schema
    assert summary.schema == out.frame("summary").schema
    assert set(calibration["slice"]) == {"all", "version", "cube", "strength", "heavy", "experience", "month"}
    # Over all games the study's curve is the run's.
    assert calibration.filter(slice="all").equals(out.frame("calibration").filter(slice="all"))
    published = out.frame("summary")
    for statistic in ("games", "draws", "games_without_favourite", "favourite_real_rate", "favourite_expected_rate"):
        assert one(summary, statistic)["value"] == one(published, statistic)["value"]
    width = published.filter(statistic="rating_middle_half_width", slice="active")["value"].item()
    assert one(summary, "active_rating_middle_half_width")["value"] == width
    months = published.filter(statistic="games", slice="month")
    assert summary.filter(statistic="games", slice="month").equals(months)
    # Every slice holds every game.
    for name in set(calibration["slice"]):
        part = calibration.filter(slice=name, axis="gap")
        assert part["games"].sum() == calibration.filter(slice="all", axis="gap")["games"].sum(), name
        assert part["favourite_wins"].sum() == calibration.filter(slice="all", axis="gap")["favourite_wins"].sum(), name
    assert calibration["cluster_low"].null_count() == calibration.height
    assert not [name for name in summary["statistic"] if name.endswith("_cluster")]


def test_only_the_slices_that_are_asked_for(run_backfill: Backfill) -> None:
    out = run_backfill(some_games(2), *AS_OF).ok()
    calibration, summary = studied(out, "--by", "heavy, month")
    assert set(calibration["slice"]) == {"all", "heavy", "month"}
    assert set(summary["slice"]) == {"all", "heavy", "month", "week", "month, week"}
    calibration, _ = studied(out, "--by", "none")
    assert set(calibration["slice"]) == {"all"}
    _, _, errors = study(out, "--by", "match_length")
    assert "no rated game has a match length in this run" in errors
    code, _, errors = study(out, "--by", "weather,month")
    assert code == 2
    assert "--by weather: no such slice; there are version, cube, match_length" in errors


def test_slice_values_with_few_games_can_be_left_out(run_backfill: Backfill) -> None:
    out = run_backfill(some_games(3, days=60), *AS_OF).ok()
    every, _ = studied(out, "--by", "month,strength")
    games = every.filter(axis="gap").group_by("slice", "slice_value").agg(pl.col("games").sum())
    limit = int(games.filter(slice="month")["games"].max())  # type: ignore[arg-type]
    kept, summary = studied(out, "--by", "month,strength", "--min-games", str(limit))
    found = set(kept.select("slice", "slice_value").iter_rows())
    assert found == set(games.filter((pl.col("games") >= limit) | (pl.col("slice") == "all")).drop("games").iter_rows())
    assert ("all", "") in found
    assert set(summary.filter(statistic="log_loss").select("slice", "slice_value").iter_rows()) == found


def test_with_draws_of_the_players_every_interval_has_its_clustered_twin(run_backfill: Backfill) -> None:
    out = run_backfill(some_games(4), *AS_OF).ok()
    plain, _ = studied(out)
    calibration, summary = studied(out, "--bootstrap", "20")
    assert calibration.drop("cluster_low", "cluster_high").equals(plain.drop("cluster_low", "cluster_high"))
    full = calibration.filter(pl.col("games") > 0)
    assert full["cluster_low"].null_count() == full["cluster_high"].null_count() == 0
    assert full.filter((pl.col("cluster_low") > pl.col("real_rate")) | (pl.col("cluster_high") < pl.col("real_rate"))).is_empty()
    for statistic in ("slope", "intercept", "fitted_divisor", "log_loss", "brier_score", "favourite_real_rate"):
        both = summary.filter(statistic=statistic).join(
            summary.filter(statistic=f"{statistic}_cluster"), on=["slice", "slice_value"], how="full", suffix="_cluster"
        )
        assert both["value"].null_count() == both["value_cluster"].null_count()
        assert both.filter((pl.col("value") - pl.col("value_cluster")).abs() > 1e-9 * pl.col("value").abs()).is_empty()
    assert studied(out, "--bootstrap", "20")[1].equals(summary)
    other = studied(out, "--bootstrap", "20", "--seed", "2")[1]
    luck = "calibration_error_by_luck"
    assert one(other, luck)["value"] != one(summary, luck)["value"]
    assert other.filter(statistic="slope_cluster").equals(summary.filter(statistic="slope_cluster"))


def test_with_pools_every_figure_is_a_pool_s_own(run_backfill: Backfill, tmp_path: Path) -> None:
    rows = [row | {"ladder": ["blitz", "slow"][i % 3 == 0]} for i, row in enumerate(some_games(5))]
    out = run_backfill(rows, *AS_OF, "--pool", "ladder").ok()
    calibration, summary = studied(out, "--bootstrap", "5")
    assert calibration.schema == out.frame("calibration").schema
    assert list(calibration["pool"].unique().sort()) == ["blitz", "slow"]
    for pool in ("blitz", "slow"):
        alone = run_backfill([row for row in rows if row["ladder"] == pool], *AS_OF).ok()
        curve, figures = studied(alone, "--bootstrap", "5")
        assert calibration.filter(pool=pool).drop("pool").equals(curve)
        mine = summary.filter(pool=pool).drop("pool")
        # The players are drawn once for all pools.
        luck = pl.col("statistic") != "calibration_error_by_luck"
        assert mine.filter(luck).equals(figures.filter(luck))
    assert "Pool blitz" in study(out)[1]


def test_how_the_timeline_is_cut_and_the_threads_change_nothing(run_backfill: Backfill, tmp_path: Path) -> None:
    rows = some_games(6)
    found = []
    for chunk, threads in (("month", "1"), ("week", "2"), ("day", "4")):
        out = run_backfill(rows, *AS_OF, "--chunk", chunk).ok()
        to = tmp_path / chunk
        assert study(out, "--to", str(to), "--bootstrap", "9", "--threads", threads)[0] == 0
        found.append({name: content for name, content in snapshot(to).items() if name.endswith(".parquet")})
        assert not (out.folder / "studies").exists()
    assert found[0] == found[1] == found[2]


def test_a_study_replaces_a_study_and_nothing_else(run_backfill: Backfill, tmp_path: Path) -> None:
    out = run_backfill(some_games(7, n=50), *AS_OF).ok()
    to = tmp_path / "elsewhere"
    assert study(out, "--to", str(to))[0] == 0
    assert study(out, "--to", str(to), "--by", "month")[0] == 0
    assert set(tables(to)[0]["slice"]) == {"all", "month"}
    (to / "mine.txt").write_text("mine", encoding="utf-8")
    before = snapshot(to)
    code, _, errors = study(out, "--to", str(to))
    assert code == 2
    assert "not touched" in errors
    assert snapshot(to) == before
    assert json.loads((to / "manifest.json").read_text(encoding="utf-8"))["run"]["run"] == "000001"
    # The published run by its own name is the same question; its study still stands beside the runs, and no run is touched.
    run = snapshot(out.folder / "runs")
    assert study(out.folder / "current")[0] == 0
    assert snapshot(out.folder / "runs") == run
    assert (out.folder / "studies" / "calibrate" / "summary.parquet").is_file()
    assert study(tmp_path / "nowhere")[0] == 2


def test_the_fitted_divisor_has_its_verdict_and_narrow_intervals_say_so(run_backfill: Backfill) -> None:
    out = run_backfill(some_games(8, n=200), *AS_OF).ok()
    narrow, wide = (
        " ".join(study(out, "--to", str(out.folder.parent / f"s{n}"), "--bootstrap", n)[1].split()) for n in ("0", "20")
    )
    assert "as if games were independent; players repeat, so the truth is less sure: --bootstrap gives wider ones" in narrow
    assert "intervals respect that players repeat" in wide
    assert "so the truth is less sure" not in wide
    for said in (narrow, wide):
        assert said.count("What decides between rules is the log loss of the same games replayed under each") == 1


@pytest.mark.parametrize(
    ("own", "fitted", "slope", "begins"),
    [
        (1200, (1255, 1331), (0.91, 0.97), "Favourites won less often than promised. That alone does not make the rules wrong"),
        (1200, (900, 1100), (1.1, 1.3), "Favourites won more often than promised"),
        (1200, (1100, 1300), (0.9, 1.1), "The interval holds what the rules say"),
        (1200, (1255, None), (0.1, 0.97), "Favourites won less often"),
        (None, (1255, 1331), (0.91, 0.97), "Favourites won less often"),
        (None, (900, 1100), (1.1, 1.3), "Favourites won more often"),
        (None, (None, None), (None, None), "The interval holds"),
    ],
)
def test_the_verdict_is_that_of_the_interval(own: Any, fitted: Any, slope: Any, begins: str) -> None:
    from eloreplay.report_terms import divisor_verdict

    said = divisor_verdict(own, fitted, slope)
    assert said.startswith(begins)
    assert said.endswith("the lower is the better.")


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (1292.0, 1255.0, 1331.0, "1,292 (1,255 – 1,331)"),
        (1292.0, 1255.0, None, "1,292 (1,255 – …)"),
        (None, 471.0, None, "cannot be told (from 471 up)"),
        (None, 471.0, 900.0, "cannot be told (from 471 to 900)"),
        (None, None, 900.0, "cannot be told (up to 900)"),
        (1292.0, None, None, "1,292"),
        (None, None, None, "–"),
    ],
)
def test_a_figure_that_cannot_be_told_says_so(value: Any, low: Any, high: Any, shown: str) -> None:
    row = {"statistic": "fitted_divisor", "slice": "all", "slice_value": "", "games": 9, "value": value, "low": low, "high": high}
    figures = _Figures(pl.DataFrame([row], schema_overrides=dict.fromkeys(("value", "low", "high"), pl.Float64)))
    assert figures.text("fitted_divisor", ",.0f") == shown


def test_json_and_quiet(run_backfill: Backfill) -> None:
    out = run_backfill(some_games(8, n=50), *AS_OF).ok()
    code, said, _ = study(out, "--json")
    lines = [json.loads(line) for line in said.splitlines()]
    assert code == 0
    assert lines[-1]["done"] is True
    assert lines[-1]["kind"] == "calibrate"
    assert [line["step"] for line in lines[:-1]] == ["counting"]
    assert study(out, "--quiet")[:2] == (0, "")


def test_a_run_without_a_game_has_an_empty_curve(run_backfill: Backfill) -> None:
    out = run_backfill([game(1, ts("2026-01-01 00:00:00"), 1, 2, mode="casual")], *AS_OF).ok()
    calibration, summary = studied(out, "--bootstrap", "3")
    assert calibration.equals(out.frame("calibration"))
    assert summary.is_empty()
    assert "no rated game" in study(out)[1]


def test_names_that_could_move_a_cursor_are_shown_as_codes(run_backfill: Backfill, tmp_path: Path) -> None:
    rules = own_rules(tmp_path / "r.toml", versions=[{"name": "\\u001b[31mred"}, {"name": "2", "from": "2026-02-01"}])
    out = run_backfill(some_games(9), *AS_OF, rules=rules).ok()
    code, said, _ = study(out)
    assert code == 0
    assert "\x1b" not in said
    assert "By rule version" in said


# ---------------------------------------------------------------- field cases


def test_case_39_even_games_have_no_favourite_and_a_brier_score_of_a_quarter(run_backfill: Backfill, tmp_path: Path) -> None:
    starts = [{"player_id": p, "rating": r} for p, r in enumerate((1500, 1500, 1500, 1500, 1600, 1500, 1500, 1600))]
    day = ts("2026-01-01 00:00:00")
    rows = [game(i, day + i * DAY, 2 * i, 2 * i + 1) for i in range(4)]
    out = run_backfill(rows, *AS_OF, rules=own_rules(tmp_path / "r.toml"), starts=starts).ok()
    _, summary = studied(out)
    assert one(summary, "games_without_favourite")["value"] == 2
    rate = one(summary, "favourite_real_rate")
    assert (rate["value"], rate["games"]) == (0.5, 2)
    expected = 1 / (1 + 10 ** (-100 / 400))
    brier = (0.25 + 0.25 + (1 - expected) ** 2 + expected**2) / 4
    assert one(summary, "brier_score")["value"] == pytest.approx(brier, abs=1e-12)


def test_case_40_ratings_before_the_game_know_no_favourite_among_newcomers(run_backfill: Backfill) -> None:
    day = ts("2026-01-01 00:00:00")
    out = run_backfill([game(i, day + i, 2 * i, 2 * i + 1) for i in range(3)], *AS_OF).ok()
    calibration, summary = studied(out)
    assert one(summary, "games_without_favourite")["value"] == 3
    assert calibration["games"].sum() == 0
    assert one(summary, "log_loss")["value"] == pytest.approx(math.log(2), abs=1e-12)


def test_case_41_restless_ratings_alone_pull_the_favourites_below_the_curve(run_backfill: Backfill, tmp_path: Path) -> None:
    """Equal players, and the rules' own curve is exactly right: favourites by accident win half, whatever they were promised."""
    rng = random.Random(41)
    day = ts("2026-01-01 00:00:00")
    rows = [game(i, day + i * 60_000_000, *rng.sample(range(40), 2)) for i in range(20_000)]
    _, summary = studied(run_backfill(rows, *AS_OF, rules=own_rules(tmp_path / "r.toml")).ok())
    expected, real = one(summary, "favourite_expected_rate")["value"], one(summary, "favourite_real_rate")
    assert real["low"] < 0.5 < real["high"]
    assert expected > 0.53
    # The experience slice shows that it does not go away, and the slope that it is not luck.
    old = one(summary, "favourite_expected_rate", "experience", "500+")["value"]
    assert old - one(summary, "favourite_real_rate", "experience", "500+")["value"] > 0.03
    assert one(summary, "slope")["high"] < 0.5


def test_case_42_the_study_by_match_length_shows_a_curve_too_sharp_for_long_matches(run_backfill: Backfill) -> None:
    """Results drawn with an exponent of N^0.25 where the rules say √N: the longer the match, the larger the divisor that fits."""
    rng = random.Random(42)
    strength = [rng.gauss(0, 250) for _ in range(60)]
    day = ts("2026-01-01 00:00:00")
    starts = [{"player_id": p, "rating": 1500 + s, "experience": 10_000.0} for p, s in enumerate(strength)]
    rows = []
    for i in range(24_000):
        first, second = rng.sample(range(60), 2)
        length = rng.choice([1, 5, 17])
        chance = 1 / (1 + 10 ** (-(strength[first] - strength[second]) * length**0.25 / 2000))
        if rng.random() > chance:
            first, second = second, first
        rows.append(game(i, day + i * 60_000_000, first, second, match_length=length))
    _, summary = studied(run_backfill(rows, *AS_OF, rules="fibs", starts=starts).ok(), "--bootstrap", "10")
    fitted = {n: one(summary, "fitted_divisor_cluster", "match_length", str(n)) for n in (1, 5, 17)}
    assert fitted[17]["low"] > 2300
    assert fitted[17]["low"] > fitted[1]["high"]
    assert fitted[1]["low"] < 2000
    real = {n: one(summary, "favourite_real_rate", "match_length", str(n)) for n in (1, 17)}
    assert real[17]["high"] < one(summary, "favourite_expected_rate", "match_length", "17")["value"] - 0.02


# ---------------------------------------------------------------- no look ahead


def test_no_figure_before_an_instant_knows_the_games_after_it(run_backfill: Backfill) -> None:
    """Cut at T, or shuffle who won after T: every rating, and every figure of the months before, stays the same."""
    rows = some_games(11, n=900, players=15, days=110)
    cut = ts("2026-04-01 00:00:00")
    before = [row for row in rows if row["played_at"] < cut]
    after = [row for row in rows if row["played_at"] >= cut]
    assert len(after) > 100
    rng = random.Random(5)
    turned = [row | ({"winner_id": row["loser_id"], "loser_id": row["winner_id"]} if rng.random() < 0.5 else {}) for row in after]
    whole = run_backfill(rows, *AS_OF).ok()
    wanted = whole.frame("timeline").filter(pl.col("played_at").dt.epoch("us") < cut)
    curve, figures = (past(frame) for frame in studied(whole, "--bootstrap", "9"))
    assert set(figures["slice"]) == {"month", "month, week"}
    for other in (before, before + turned):
        out = run_backfill(other, *AS_OF).ok()
        assert out.frame("timeline").filter(pl.col("played_at").dt.epoch("us") < cut).equals(wanted)
        mine, yours = (past(frame) for frame in studied(out, "--bootstrap", "9"))
        assert mine.equals(curve)
        assert yours.equals(figures)


def past(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of the months before April."""
    return frame.filter(pl.col("slice").str.starts_with("month"), pl.col("slice_value").str.slice(0, 7) < "2026-04")


# ---------------------------------------------------------------- real games


@pytest.mark.long
def test_football_between_nations_is_near_the_chess_curve_and_its_draws_count_half(shared: Path, run_backfill: Backfill) -> None:
    out = run_backfill(shared / "data" / "international_football.parquet", *AS_OF, rules="chess").ok()
    timeline = out.frame("timeline")
    _, summary = studied(out, "--by", "none", "--bootstrap", "20")
    expected = timeline["winner_expected"].to_numpy()
    result = timeline["is_draw"].replace_strict({True: 0.5, False: 1.0}, return_dtype=pl.Float64).to_numpy()
    assert one(summary, "brier_score")["value"] == pytest.approx(math.fsum((result - expected) ** 2) / len(result), abs=1e-12)
    slope = one(summary, "slope_cluster")
    assert slope["low"] < 1 < slope["high"]
