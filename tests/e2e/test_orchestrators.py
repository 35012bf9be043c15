"""The examples for Dagster and Airflow are run where these are installed: beside the tests, or under the Python that is named by
DAGSTER_PYTHON or AIRFLOW_PYTHON (neither needs eloreplay in its environment).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
DAGSTER = """
import importlib.util, json, sys
import dagster as dg
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
found = []
with dg.DagsterInstance.ephemeral() as instance:
    for key in sys.argv[2:]:
        first, _, last = key.partition("...")
        more = {"tags": {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}} if last else {"partition_key": key}
        done = dg.materialize([example.ratings], instance=instance, raise_on_error=False, **more)
        if done.success:
            events = done.asset_materializations_for_node("ratings")
            found.append({name: value.value for name, value in events[-1].metadata.items()})
        else:
            data = [event.event_specific_data for event in done.all_events if event.event_type_value in ("STEP_FAILURE", "STEP_UP_FOR_RETRY")]
            found.append([str(getattr(one, "user_failure_data", None) or one.error) for one in data])
print(json.dumps(found))
"""
AIRFLOW = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
dag = example.dag_of_ratings
found = {"tasks": sorted(dag.task_ids), "after": sorted(dag.get_task("night").downstream_task_ids)}
try:
    run = dag.get_task("night").python_callable()
    found |= {"run": run, "sent": dag.get_task("publish").python_callable(run)}
except Exception as error:
    found |= {"error": type(error).__name__, "said": str(error)}
print(json.dumps(found))
"""


def python_of(tool: str) -> str:
    """The Python that has the tool; skips the test where there is none."""
    named = os.environ.get(f"{tool.upper()}_PYTHON")
    python = named or sys.executable
    if subprocess.run([python, "-c", f"import {tool}"], capture_output=True, check=False).returncode:
        assert not named, f"{named} has no {tool}"
        pytest.skip(f"{tool} is not installed (it is no part of the development tools: it brings a hundred packages)")
    return python


@pytest.fixture
def scene(tmp_path: Path) -> dict[str, str]:
    """The command on the PATH, as a worker has it, and the variables that the examples read."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "eloreplay"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m eloreplay "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    (tmp_path / "games").mkdir()
    return os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "RATINGS_GAMES": str(tmp_path / "games"),
        "RATINGS_OUT": str(tmp_path / "out"),
        "RATINGS_COLUMNS": str(ROOT / "data" / "columns.toml"),
        "RATINGS_TO": str(tmp_path / "ratings.duckdb"),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "HOME": str(tmp_path),
    }


def deliver(scene: dict[str, str], *months: str) -> None:
    for month in months:
        name = f"games-{month}.parquet"
        os.link(ROOT / "data" / "games" / name, Path(scene["RATINGS_GAMES"]) / name)


def run(tool: str, script: str, scene: dict[str, str], *arguments: str) -> Any:
    example = EXAMPLES / {"dagster": "dagster_asset.py", "airflow": "airflow_task.py"}[tool]
    words = [python_of(tool), "-c", script, str(example), *arguments]
    done = subprocess.run(words, env=scene, cwd=scene["HOME"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def rated(scene: dict[str, str]) -> dict[str, int]:
    """Rated games of the published run by month."""
    timeline = pl.read_parquet(Path(scene["RATINGS_OUT"]) / "current" / "timeline" / "*.parquet")
    return dict(timeline.group_by(pl.col("played_at").dt.strftime("%Y-%m")).len().rows())


def test_the_dagster_asset_goes_month_by_month_and_never_back(scene: dict[str, str]) -> None:
    deliver(scene, "2026-03", "2026-04", "2026-05")
    march, april = run("dagster", DAGSTER, scene, "2026-03-01", "2026-04-01")
    found = rated(scene)
    assert sorted(found) == ["2026-03", "2026-04"]
    assert (march["run"], april["run"]) == ("000001", "000002")
    assert (march["games_of_the_months"], april["games_of_the_months"]) == (found["2026-03"], found["2026-04"])
    assert april["games"] == sum(found.values())
    # March once more: nothing is new, and April stays.
    (again,) = run("dagster", DAGSTER, scene, "2026-03-01")
    assert (again["published"], again["rows_sent"], again["games_of_the_months"]) == (False, 0, found["2026-03"])
    assert rated(scene) == found
    deliver(scene, "2026-06")
    (both,) = run("dagster", DAGSTER, scene, "2026-05-01...2026-06-01")
    found = rated(scene)
    assert (both["run"], both["games_of_the_months"]) == ("000003", found["2026-05"] + found["2026-06"])


def test_the_dagster_asset_says_what_to_try_again(scene: dict[str, str]) -> None:
    (said,) = run("dagster", DAGSTER, scene, "2026-03-01")
    assert "exit code 3" in said[-1]
    assert "holds no .parquet file" in said[-1]


def test_the_airflow_task_rates_and_publishes(scene: dict[str, str]) -> None:
    deliver(scene, "2026-03")
    first = [
        "backfill",
        scene["RATINGS_GAMES"],
        "--columns",
        scene["RATINGS_COLUMNS"],
        "--rules",
        "tavla42",
        "--no-study",
        "--quiet",
    ]
    subprocess.run([sys.executable, "-m", "eloreplay", *first, "--out", scene["RATINGS_OUT"]], check=True)
    deliver(scene, "2026-04")
    found = run("airflow", AIRFLOW, scene)
    assert (found["tasks"], found["after"], found["run"]) == (["night", "publish"], ["publish"], "000002")
    assert found["sent"] > sum(rated(scene).values())
    (Path(scene["RATINGS_GAMES"]) / "games-2026-03.parquet").unlink()
    refused = run("airflow", AIRFLOW, scene)
    assert refused["error"] == "AirflowFailException"
    assert "exit code 3" in refused["said"]


CODES = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
found = {}
for code in sys.argv[2:]:
    try:
        example.eloreplay("fails", code)
    except Exception as error:
        found[code] = type(error).__name__
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("tool", "again", "never"), [("dagster", "RetryRequested", "Failure"), ("airflow", "RuntimeError", "AirflowFailException")]
)
def test_each_exit_code_means_try_again_or_a_person(scene: dict[str, str], tool: str, again: str, never: str) -> None:
    command = Path(scene["PATH"].partition(":")[0]) / "eloreplay"
    command.write_text('#!/bin/sh\necho "eloreplay: no" >&2\nexit "$2"\n', encoding="utf-8")
    found = run(tool, CODES, scene, "1", "2", "3", "4", "5", "6", "130", "137")
    assert {code for code, name in found.items() if name == again} == {"1", "4", "130", "137"}
    assert {code for code, name in found.items() if name == never} == {"2", "3", "5", "6"}
