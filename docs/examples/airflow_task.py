"""Ratings as an Airflow DAG: a task a night, and one that brings the run to its readers. It stands on the command alone.

Put the file into the DAGs' folder; `eloreplay` has to be on the PATH of the workers. The first run is a backfill by hand.

The night says no `--as-of`, so it takes what is there now: a task of an old day that somebody clears and runs again cannot take
later games out. What to try again is told by the exit code; what needs a person fails at once.
"""

import json
import os
import subprocess
from datetime import datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

GAMES = os.environ.get("RATINGS_GAMES", "data/games")
OUT = os.environ.get("RATINGS_OUT", "out/sample")
TO = os.environ.get("RATINGS_TO", "out/ratings.duckdb")

#: Another run holds the folder, the machine was in the way, somebody stopped it: worth another try.
AGAIN = {1, 4, 130, 137, 143}


def eloreplay(*words: str) -> dict:
    """Run the command and return its last line; another exit code than 0 fails the task, for good or until it is tried again."""
    done = subprocess.run(["eloreplay", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    said = f"exit code {done.returncode}: {done.stderr.strip()}"
    if done.returncode in AGAIN or done.returncode < 0:
        raise RuntimeError(said)
    raise AirflowFailException(said)


@dag(
    schedule="30 4 * * *",
    start_date=datetime(2026, 9, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
)
def ratings():
    """Every night: rate what has come, then publish."""

    @task
    def night() -> str:
        """Bring the published run up to what the games say now; returns its number."""
        return eloreplay("nightly", GAMES, "--out", OUT)["run"]

    @task
    def publish(run: str) -> int:
        """Send what is published, which is this run or a later one; returns the rows sent."""
        return eloreplay("publish", OUT, "--to", TO)["rows_sent"]

    publish(night())


dag_of_ratings = ratings()
