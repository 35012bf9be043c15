"""The analyst's page: its pictures are those that the tool makes, its numbers those of the tables; the notebook runs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import polars as pl
import pytest
from support_report import call

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to-analyst.md"
RULES = {"div400": "docs/examples/div400.toml", "div1200": "tavla42"}
SAMPLE = ("data/games", "--columns", "data/columns.toml", "--as-of", "2026-09-01", "--quiet")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two runs of the page; the study by slices is not needed for what is looked at here."""
    folder = tmp_path_factory.mktemp("analyst")
    with contextlib.chdir(ROOT):
        for name, rules in RULES.items():
            assert call("backfill", *SAMPLE, "--rules", rules, "--out", folder / name, "--no-study") == (0, "", "")
    return {name: folder / name for name in RULES}


def drawn(picture: Path) -> list[str]:
    """What a picture shows: its text and the places of its marks, whatever the fonts are."""
    found = []
    for element in ElementTree.parse(picture).iter():
        name = element.tag.rpartition("}")[2]
        if name == "text" and element.text:
            found.append(element.text)
        elif name in ("path", "rect", "line") and element.get("aria-roledescription"):
            found.append(f"{element.get('aria-label')} {element.get('d')} {element.get('transform')}")
    return found


@pytest.mark.parametrize("name", RULES)
def test_the_curves_are_those_that_the_tool_draws(name: str, runs: dict[str, Path], tmp_path: Path) -> None:
    code, _, err = call("report", runs[name], "--to", tmp_path / "page.html", "--figures", tmp_path)
    assert code == 0, err
    shown = drawn(ROOT / "docs" / "pictures" / f"curve-{name}.svg")
    assert len(shown) > 60
    assert shown == drawn(tmp_path / "curve.svg")


@pytest.mark.long
def test_the_pictures_of_the_sweep_are_those_that_the_tool_draws(tmp_path: Path) -> None:
    (command,) = re.findall(r"^\$ eloreplay (sweep .*)$", HOW_TO.read_text(encoding="utf-8"), re.MULTILINE)
    with contextlib.chdir(ROOT):
        code, _, err = call(*command.replace("out/sweep", str(tmp_path / "sweep")).split(), "--quiet")
    assert code == 0, err
    code, _, err = call("report", tmp_path / "sweep", "--figures", tmp_path)
    assert code == 0, err
    for name in ("map", "differences"):
        shown = drawn(ROOT / "docs" / "pictures" / f"sweep-{name}.svg")
        assert len(shown) > 30
        assert shown == drawn(tmp_path / f"{name}.svg")


def test_the_answer_in_short_is_that_of_the_tables(runs: dict[str, Path]) -> None:
    text = re.sub(r"\s+", " ", HOW_TO.read_text(encoding="utf-8"))
    answer = text[text.index("For the shipped sample the answer is yes") : text.index("## Two runs")]
    rates = {}
    for name, folder in runs.items():
        rows = pl.read_parquet(folder / "current" / "summary.parquet").filter(slice="all")
        rates[name] = [100 * rows.filter(statistic=f"favourite_{kind}_rate")["value"][0] for kind in ("expected", "real")]
    promised = (f"promised {rates[name][0]:.2f} % and won {rates[name][1]:.2f} %" for name in RULES)
    assert all(words in answer for words in promised)
    # The log losses and the place among the settings are shown further down, where they are tested.
    losses = dict(re.findall(r"^(div\d+) +log loss ([\d.]+)", HOW_TO.read_text(encoding="utf-8"), re.MULTILINE))
    assert f"the log loss falls from {losses['div400']} to {losses['div1200']}" in answer
    (behind,) = re.findall(r"^ +1  divisor\S+ k=32 .*?  -(0\.\d+) \(", HOW_TO.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.search(r"^ +3  as they are ", HOW_TO.read_text(encoding="utf-8"), re.MULTILINE)
    assert f"÷1200 with K 32 is third, {behind} behind the best" in answer


def test_the_notebook_runs_as_a_script(runs: dict[str, Path], tmp_path: Path) -> None:
    if importlib.util.find_spec("marimo") is None:
        if os.environ.get("CI"):
            pytest.fail("marimo is not installed")
        pytest.skip("marimo is not installed (the extra notebook)")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "examples" / "study.py"), "--run", str(runs["div1200"])],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    rows = pl.read_parquet(runs["div1200"] / "current" / "summary.parquet").filter(slice="all")
    value = {row["statistic"]: row["value"] for row in rows.iter_rows(named=True)}
    favourites = value["games"] - value["games_without_favourite"]
    assert (
        f"{value['games']:,.0f} rated games, {favourites:,.0f} with a favourite: expected {value['favourite_expected_rate']:.2%}, "
        f"real {value['favourite_real_rate']:.2%}, log loss 0.6729, Brier score 0.2401"
    ) in done.stdout
