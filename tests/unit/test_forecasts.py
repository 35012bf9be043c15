"""What the first source expected of other rules, tried on made-up sites (docs/how-to-analyst.md tells it at length)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from eloreplay.cli import main


@pytest.fixture(scope="module", params=[120, 400])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """(true spread, the sweep of a site with it)."""
    folder = tmp_path_factory.mktemp(f"spread {request.param}")
    made = ["--games", "300000", "--players", "1000", "--months", "12", "--spread", str(request.param), "--seed", "7", "--clean"]
    assert main(["simulate", *made, "--out", str(folder), "--quiet"]) == 0
    sweep = ["sweep", str(folder / "games"), "--columns", str(folder / "columns.toml"), "--rules", "tavla42", "--bootstrap", "0"]
    vary = ["--vary", "divisor=1200,2000", "--vary", "heavy.games=50,none", "--as-of", "2027-06-01"]
    assert main([*sweep, *vary, "--out", str(folder / "sweep"), "--quiet"]) == 0
    return request.param, folder / "sweep"


def test_2000_stretches_the_board_beyond_3000_only_where_players_are_far_apart(site: tuple[int, Path]) -> None:
    spread, folder = site
    table = pl.read_parquet(folder / "sweep.parquet").filter(pl.col("heavy.games") == 50)
    top = dict(zip(table["divisor"], table["rating_max"], strict=True))
    width = dict(zip(table["divisor"], table["rating_max"] - table["rating_min"], strict=True))
    assert top[1200.0] < 3000
    assert width[1200.0] < width[2000.0] < 2000 / 1200 * width[1200.0]
    if spread == 400:
        assert top[2000.0] > 3000
        assert width[2000.0] > 3000
    else:
        assert top[2000.0] < 2500
        assert width[2000.0] < 2000


def test_k_16_makes_a_heavy_week_swing_nearly_as_an_ordinary_one(site: tuple[int, Path]) -> None:
    _, folder = site
    table = pl.read_parquet(folder / "sweep.parquet").filter(pl.col("divisor") == 1200)
    (with_16,) = table.filter(pl.col("heavy.games") == 50)["setting"]
    (with_32,) = table.filter(pl.col("heavy.games").is_null())["setting"]
    swings = pl.read_parquet(folder / "swings.parquet").sort("games_from")
    found = {
        name: swings.filter(pl.col("setting") == number).select(
            ordinary=pl.col("swing").filter(pl.col("games_from") == 10).first(),
            heavy=(pl.col("swing") * pl.col("weeks")).filter(pl.col("games_from") >= 50).sum()
            / pl.col("weeks").filter(pl.col("games_from") >= 50).sum(),
            weeks=pl.col("weeks").filter(pl.col("games_from") >= 50).sum(),
        )
        for name, number in (("16", with_16), ("32", with_32))
    }
    assert found["16"]["weeks"][0] == found["32"]["weeks"][0] > 500
    ratio = {name: frame["heavy"][0] / frame["ordinary"][0] for name, frame in found.items()}
    assert ratio["16"] < 1.3
    assert ratio["32"] > 1.5
    # K times the games would say: halved. The pull back and the root of the number leave less of it.
    assert 0.55 < found["16"]["heavy"][0] / found["32"]["heavy"][0] < 0.8
