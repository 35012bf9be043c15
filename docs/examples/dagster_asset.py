"""Ratings as a Dagster asset with monthly partitions. It stands on the command: Dagster needs no eloreplay in its environment.

    dagster dev -f docs/examples/dagster_asset.py

A partition is the month in which games were played. Materializing it brings the published run up to the end of that month, and
where the run is further already, up to where it is: an old month with late games is then restated, and no later game is lost.
All months at once are one run of the command.

RATINGS_GAMES, RATINGS_OUT, RATINGS_RULES, RATINGS_COLUMNS and RATINGS_FROM say what is rated, where to, how and from which month;
RATINGS_TO, if given, is where `eloreplay publish` brings each run.
"""

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

GAMES = os.environ.get("RATINGS_GAMES", "data/games")
OUT = os.environ.get("RATINGS_OUT", "out/sample")
RULES = os.environ.get("RATINGS_RULES", "tavla42")
COLUMNS = os.environ.get("RATINGS_COLUMNS", "data/columns.toml")
FROM = os.environ.get("RATINGS_FROM", "2026-03-01")
TO = os.environ.get("RATINGS_TO")

#: Another run holds the folder, the machine was in the way, somebody stopped it: worth another try.
AGAIN = {1, 4, 130, 137, 143}


def eloreplay(*words: str) -> dict:
    """Run the command and return its last line; every other exit code than 0 is a failure, and says whether to try again."""
    done = subprocess.run(["eloreplay", *words], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        # `status` answers with one object over many lines, the others with a line a step.
        return json.loads(done.stdout if words[0] == "status" else done.stdout.splitlines()[-1])
    said = f"exit code {done.returncode}: {done.stderr.strip()}"
    if done.returncode in AGAIN or done.returncode < 0:
        raise dg.RetryRequested(max_retries=3, seconds_to_wait=60) from RuntimeError(said)
    raise dg.Failure(said, allow_retries=False)


@dg.asset(
    partitions_def=dg.MonthlyPartitionsDefinition(start_date=FROM),
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def ratings(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Every rating of the site up to the end of the month, or of the months."""
    window = context.partition_time_window
    # The first instant of the next month is no longer this month's.
    as_of = window.end.astimezone(UTC) - timedelta(microseconds=1)
    if (Path(OUT) / "current").exists():
        as_of = max(as_of, datetime.fromisoformat(eloreplay("status", OUT, "--json")["as_of"]))
        words = ["nightly", GAMES, "--out", OUT]
    else:
        words = ["backfill", GAMES, "--out", OUT, "--rules", RULES, *(["--columns", COLUMNS] if COLUMNS else [])]
    last = eloreplay(*words, "--as-of", as_of.isoformat(), "--json")
    manifest = json.loads((Path(OUT) / "current" / "manifest.json").read_text(encoding="utf-8"))
    months = {f"{window.start:%Y-%m}": 0}
    for chunk in manifest["chunks"]:
        if window.start.isoformat()[:7] <= chunk["from"][:7] < window.end.isoformat()[:7]:
            months[chunk["from"][:7]] = months.get(chunk["from"][:7], 0) + chunk["games"]
    metadata = {
        "run": manifest["run"],
        "published": bool(last.get("published", True)),
        "as_of": manifest["as_of"],
        "games_of_the_months": sum(months.values()),
        "games": manifest["bins"]["rated"],
    }
    if TO:
        metadata["rows_sent"] = eloreplay("publish", OUT, "--to", TO, "--json")["rows_sent"]
    return dg.MaterializeResult(metadata=metadata)


defs = dg.Definitions(assets=[ratings])
