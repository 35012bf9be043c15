"""The examples in the help of `diff`, `reconcile` and `forget` do what they say."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from eloreplay.cli import cli, main

ROOT = Path(__file__).parents[2]
COMMANDS = ("diff", "reconcile", "forget")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with `out/sample` and `out/other` of one month of the sample, and the site's ratings as `live.parquet`."""
    folder = tmp_path_factory.mktemp("place")
    games, columns = ROOT / "data" / "games" / "games-2026-03.parquet", ROOT / "data" / "columns.toml"
    arguments = ["backfill", str(games), "--columns", str(columns), "--no-study", "--quiet", "--threads", "1"]
    for name, rules in (("sample", "tavla42"), ("other", "chess")):
        assert main([*arguments, "--rules", rules, "--out", str(folder / "out" / name)]) == 0
    timeline = pl.read_parquet(folder / "out" / "sample" / "current" / "timeline" / "*.parquet")
    timeline.select("game_id", "winner_change", "loser_change").write_parquet(folder / "live.parquet")
    with contextlib.chdir(folder):
        yield folder


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_runs(place: Path, name: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main([name, "--help"]) == 0
    examples = [line.strip() for line in said.getvalue().splitlines() if line.strip().startswith("eloreplay ")]
    assert examples
    assert "\\b" not in said.getvalue()
    assert all(line.startswith(f"eloreplay {name} ") for line in examples)
    assert cli.commands[name].epilog
    for line in examples:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            assert main(shlex.split(line)[1:]) == 0, line
        assert shown.getvalue().strip(), line
    if name == "forget":
        assert "p000124" not in set(pl.read_parquet(place / "out" / "sample" / "current" / "players.parquet")["player_id"])
        shutil.rmtree(place / "out")
