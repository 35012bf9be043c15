"""A club's corrections of its own list, commit by commit and night by night: each night is what a backfill of that state is.

The club keeps one list in the order of play, so a match that is inserted or deleted moves all after it: a file that is written anew
every night, most of it unchanged. Where the club computed its ratings afresh from the state, they agree within 0.5.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import support
import support_nightly
from support_club import AS_OF, CLUB, compare, lists, rows_of, snapshots

#: Also of a list that is empty for a while, as it was at the ninth commit.
TYPES = {
    "game_id": pa.int64(),
    "played_at": support.UTC_US,
    "winner_id": pa.string(),
    "loser_id": pa.string(),
    "match_length": pa.int64(),
}


class Club:
    """The club's site: one file, an output folder, and what its own lists say."""

    def __init__(self, shared: Path, base: Path) -> None:
        self.base, self.games, self.out = base, base / "games" / "matches.parquet", base / "out"
        self.rules = base / "club.toml"
        self.rules.write_text(CLUB, encoding="utf-8")
        self.states = lists(shared / "data")
        self.snapshots = {str(one["commit"][0]): one for one in snapshots(shared / "data").partition_by("snapshot_id")}
        self.compared = self.checked = 0

    def write(self, commit: str) -> None:
        support.write(self.games, rows_of(self.states[commit]), TYPES, list(TYPES))

    def backfill(self, out: Path) -> support.Out:
        argv = ["backfill", self.games, "--rules", self.rules, "--out", out, "--quiet", "--no-study", "--max-rejected", "1", *AS_OF]
        return support_nightly.command(argv, out).ok()

    def night(self, commit: str) -> None:
        """The night after a commit; where the club has a list of its own, it is looked at."""
        self.write(commit)
        out = support_nightly.night(self.games, self.out, *AS_OF, "--accept-changes")
        assert out.code == 0, f"commit {commit}: {out.text}"
        if commit in self.snapshots:
            compare(out, self.snapshots[commit])
            self.checked += 1

    def equal(self, commit: str) -> None:
        fresh = self.base / f"fresh-{commit}"
        self.backfill(fresh)
        found = support_nightly.differences(self.out, fresh)
        assert not found, f"commit {commit}\n" + "\n".join(found)
        self.compared += 1


def corrections(shared: Path) -> list[str]:
    """The commits that did more than add at the end of the list, in order."""
    edits = pl.read_parquet(shared / "data" / "bkk_backgammon_edits.parquet").sort("edit_no")
    return edits.filter(pl.col("op") != "append")["commit"].unique(maintain_order=True).to_list()


def nights(club: Club, commits: list[str], every: int) -> None:
    """A backfill of the first state, then a night a state; every so many is held against a backfill, and the last."""
    club.write(commits[0])
    club.backfill(club.out)
    for number, commit in enumerate(commits[1:], 1):
        club.night(commit)
        if number % every == 0 or commit == commits[-1]:
            club.equal(commit)


@pytest.mark.parametrize("half", [0, 1])
def test_a_hundred_nights_of_the_club(shared: Path, tmp_path: Path, half: int) -> None:
    """Every other correction, then the club's next list of its own, and some nights between; what is left out is caught up at once."""
    club = Club(shared, tmp_path)
    every = list(club.states)
    place = {commit: at for at, commit in enumerate(every)}
    corrected = [place[commit] for commit in corrections(shared)][::2]
    listed = [place[commit] for commit in club.snapshots]
    wanted = {*corrected, *(next(at for at in listed if at >= one) for one in corrected), *range(0, len(every), 150)}
    commits = sorted(wanted)
    commits = commits[: len(commits) // 2] if half == 0 else commits[len(commits) // 2 - 1 :]
    assert len(commits) > 50
    nights(club, [every[at] for at in commits], 10)
    assert club.compared >= 5
    assert club.checked > 25


@pytest.mark.long
def test_every_commit_of_the_club_by_itself(shared: Path, tmp_path: Path) -> None:
    club = Club(shared, tmp_path)
    commits = list(club.states)
    assert len(commits) == 2959
    nights(club, commits, 10)
    assert club.compared >= 295
    assert club.checked > 2800
