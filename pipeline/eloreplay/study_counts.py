"""The counts of months: a timeline reduced to small tables of integers, from which the calibration study is made.

They add up: a study of years is made from the tables of its months put together, whenever these were counted, so a night counts
again only the months it touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eloreplay.queries import Database, sql_text
from eloreplay.rules import Ruleset

#: Games that are counted by one query.
COUNT_GAMES = 1_000_000
#: Days in which a player must have played to be active.
ACTIVE_DAYS = 30
#: How much further back than its first month `Counting.facts` looks: for who is active early in it.
LOOKBACK_US = (ACTIVE_DAYS + 1) * 86_400_000_000


def put_versions(database: Database, ruleset: Ruleset) -> None:
    """Create the table `study_versions`: each version's divisor, and from how many games in the week on its k is reduced."""
    versions = ruleset.version
    database.put(
        "study_versions",
        pa.table(
            {
                "version_index": pa.array(range(len(versions)), pa.int64()),
                "rule_version": pa.array([version.name for version in versions], pa.string()),
                "divisor": pa.array([version.divisor for version in versions], pa.float64()),
                "heavy_games": pa.array([version.heavy and version.heavy.games for version in versions], pa.int32()),
            }
        ),
    )


class Counting:
    """Counts a timeline, a stretch of whole months at a time.

    Needs the view `timeline` (with a column `pool`, NULL when there is one pool) and `put_versions`.

    Args:
        database: where both are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stretch = (0, 0)
        self._weeks: tuple[int, int] | None = None

    def begin(self, month_start_us: int, month_end_us: int) -> None:
        """Turn to a stretch: creates `study_stretch`, `study_months` and the view `study_games`.

        Args:
            month_start_us: first instant of a month in UTC, microseconds.
            month_end_us: first instant after the last month.
        """
        database = self._database
        self._stretch = (month_start_us, month_end_us)
        window = {"from_us": month_start_us, "to_us": month_end_us}
        database.put("study_stretch", pa.table({name: pa.array([us], pa.int64()) for name, us in window.items()}))
        database.create_table("study_months", "study_months", window)
        database.create_view("study_games", "study_games")

    def counts(self) -> pa.Table:
        """The counts behind curves and scores of the stretch's games; see `sql/study_counts.sql` for the columns.

        A month's counts depend on its own games only.
        """
        return self._database.arrow("study_counts")

    def facts(self) -> pa.Table:
        """The site's own findings in the stretch's games; see `sql/study_facts.sql` for the columns.

        Who is active early in a month is known from the games before it, so the view must reach `LOOKBACK_US` further back (as far
        as there are games).
        """
        self._see_weeks()
        from_us, to_us = self._stretch
        return self._database.arrow("study_facts", {"from_us": from_us, "to_us": to_us, "active_days": ACTIVE_DAYS})

    def _see_weeks(self) -> None:
        """Have `study_player_weeks` reach over the stretch and what lies `LOOKBACK_US` before it."""
        from_us, to_us = self._stretch
        earliest = from_us - LOOKBACK_US
        if self._weeks is not None and self._weeks[0] <= earliest and self._weeks[1] == from_us:
            # What the stretch before saw is seen once only.
            self._database.execute(
                "delete from study_player_weeks where last_at < make_timestamp($us) at time zone 'UTC'", {"us": earliest}
            )
            window = {"from_us": from_us, "to_us": to_us}
            self._database.execute(f"insert into study_player_weeks {sql_text('study_player_weeks')}", window)
            self._weeks = (self._weeks[0], to_us)
        else:
            window = {"from_us": earliest, "to_us": to_us}
            self._database.create_table("study_player_weeks", "study_player_weeks", window)
            self._weeks = (earliest, to_us)


def month_counts(database: Database, month_start_us: int, month_end_us: int) -> pa.Table:
    """`Counting.counts` of one stretch."""
    counting = Counting(database)
    counting.begin(month_start_us, month_end_us)
    return counting.counts()


def month_facts(database: Database, month_start_us: int, month_end_us: int) -> pa.Table:
    """`Counting.facts` of one stretch."""
    counting = Counting(database)
    counting.begin(month_start_us, month_end_us)
    return counting.facts()


def stretches(months: Mapping[int, int], size: int = COUNT_GAMES) -> list[tuple[int, int, int]]:
    """Consecutive months with games in groups of about `size` games at most: first instant, first instant after, games.

    Args:
        months: first instant of each month (microseconds, rising) to its games.
        size: a single month may have more.
    """
    groups: list[tuple[int, int, int]] = []
    for month, games in months.items():
        if groups and groups[-1][2] + games <= size:
            groups[-1] = (groups[-1][0], end_of(month), groups[-1][2] + games)
        else:
            groups.append((month, end_of(month), games))
    return groups


def end_of(month_us: int) -> int:
    """First instant after a month, from its first, microseconds."""
    return int((np.datetime64(month_us, "us").astype("datetime64[M]") + 1).astype("datetime64[us]").astype(np.int64))


def month_edges(instants: np.ndarray[Any, np.dtype[np.int64]]) -> list[int]:
    """First instants (microseconds) of the UTC months that instants fall into, rising, and the first after the last of them."""
    months = np.unique(instants.astype("datetime64[us]").astype("datetime64[M]"))
    edges = np.append(months, months[-1:] + 1)
    return [int(us) for us in edges.astype("datetime64[us]").astype(np.int64)]
