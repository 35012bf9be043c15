"""What a person reads after a night: what came, what of the past was restated and why, who moved, and who came onto the board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from eloreplay.console import counted, printable
from eloreplay.nightly import NightResult
from eloreplay.report import page_line
from eloreplay.run import RunResult

#: Days, players and names that are listed of each kind.
SHOWN = 10

KINDS = {
    "late": "came late",
    "corrected": "corrected",
    "voided": "voided",
    "held": "held again",
    "unrated": "no longer rated (mode, or a player excluded)",
    "withdrawn": "no longer in any file",
    "conflicting_copies": "in conflict with a copy",
}


def night_page(out: Path, result: NightResult) -> str:
    """A page of text about a night.

    Args:
        out: the output folder as the user wrote it.
        result: how the night ended.
    """
    night, manifest = result.night, result.run.manifest
    if night.get("nothing_new"):
        return (
            f"Nothing to do: the files and the as-of are those of the published run {result.run.folder.name}.\n"
            f"The tables are in {result.run.folder} (readers start at {out / 'current'})."
        )
    rules = printable(manifest["rules"]["name"], 60)
    lines = [
        f"{counted(night['new_games'], 'new game')} as of {manifest['as_of']} under the rules {rules}; "
        f"{night['games']:,} rated in all, {counted(manifest['players'], 'player')}"
    ]
    bins = manifest["bins"]
    refused: dict[str, int] = bins["rejected"]
    found = {**{name: rows for name, rows in bins.items() if name != "rejected"}, "rejected": sum(refused.values())}
    shares = ", ".join(f"{rows:,} {name}" for name, rows in found.items() if rows)
    lines.append(f"{counted(manifest['rows_read'], 'row')}: {shares}")
    if night["from"] is None:
        lines.append("no game was rated again")
    else:
        lines.append(f"rated again from {night['from']} on: {counted(night['replayed_games'], 'game')}")
    lines += _restated(night)
    if result.changes is not None:
        lines += _movers(result.changes)
    lines += _board(night)
    timings = manifest["timings"]
    lines += ["", f"{timings['total']:.1f} s"]
    if result.published:
        lines.append(f"The tables are in {result.run.folder} (readers start at {out / 'current'}).")
        lines += page_line(result.run.folder, out / "current")
    else:
        lines.append(f"This was a dry run: nothing was published; {out / 'current'} is as it was.")
    return "\n".join(lines)


def what_if_page(out: Path, run: RunResult, changes: Any) -> str:
    """A page of text about a what-if.

    Args:
        out: its folder as the user wrote it.
        run: the run that answers.
        changes: who would stand where.
    """
    manifest = run.manifest
    night = manifest["night"]
    rated, players = counted(night["games"], "rated game"), counted(manifest["players"], "player")
    lines = [f"What if, held against run {manifest['after']}: {rated}, {players}"]
    if night["from"] is None:
        lines.append("nothing would be different")
    else:
        lines.append(f"rated again from {night['from']} on: {counted(night['replayed_games'], 'game')}")
    lines += [*_restated(night), *_movers(changes), *_board(night)]
    lines += [
        "",
        f"{manifest['timings']['total']:.1f} s",
        f"The tables are in {run.folder}; {out / 'current' / 'changes.parquet'} has them all.",
        *page_line(run.folder, out / "current"),
    ]
    return "\n".join(lines)


def _board(night: dict[str, Any]) -> list[str]:
    """Who came onto the board and who left it."""
    lines = []
    for title, players in (("came onto", night["board_entries"]), ("left", night["board_exits"])):
        if players:
            shown = ", ".join(printable(player) for player in players[:SHOWN])
            more = f" and {len(players) - SHOWN} more" if len(players) > SHOWN else ""
            lines.append(f"{title} the leaderboard: {shown}{more}")
    return lines


def _restated(night: dict[str, Any]) -> list[str]:
    """Which part of the past is not what it was, and why."""
    if not night["restated_games"]:
        return []
    kinds = ", ".join(f"{games:,} {KINDS.get(kind, f'refused ({kind})')}" for kind, games in night["restated"].items())
    games = counted(night["restated_games"], "game of the past is not what it was", "games of the past are not what they were")
    lines = [f"{games}: {kinds}"]
    days = night["restated_days"]
    for day in list(days)[:SHOWN]:
        lines.append(f"  {day}  " + ", ".join(f"{games:,} {kind}" for kind, games in days[day].items()))
    if len(days) > SHOWN:
        lines.append(f"  … and {counted(len(days) - SHOWN, 'more day')}")
    ids = night.get("restated_ids", [])
    if ids:
        more = night["restated_games"] - len(ids)
        rest = f" and {more:,} more" if more else ""
        lines.append(f"  {'game' if len(ids) == 1 else 'games'} {', '.join(printable(one) for one in ids)}{rest}")
    return lines


def _movers(changes: Any) -> list[str]:
    frame = pl.from_arrow(changes)
    assert isinstance(frame, pl.DataFrame)
    moved = frame.filter(pl.col("change") != 0)
    if not moved.height:
        return []
    top = moved.sort(pl.col("change").abs(), "player_id", descending=[True, False]).head(SHOWN)
    players = counted(moved.height, "player has another rating", "players have another rating")
    lines = ["", f"{players}; moved most (of it by what was restated):"]
    for row in top.iter_rows(named=True):
        pool = f"{printable(row['pool'], 12)} " if "pool" in row else ""
        before, after, change, past = (
            _points(row[name]) for name in ("rating_before", "rating_after", "change", "restated_change")
        )
        lines.append(f"  {pool}{printable(row['player_id']):<24}{before:>9} -> {after:>9}  {_signed(change):>8}  ({_signed(past)})")
    if moved.height > SHOWN:
        lines.append(f"  and {moved.height - SHOWN:,} more (changes.parquet of the run has them all)")
    return lines


def _points(value: float | int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def _signed(text: str) -> str:
    return text if text.startswith("-") else f"+{text}"
