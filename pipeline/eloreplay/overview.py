"""The summary that a person reads at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from eloreplay.console import counted, printable
from eloreplay.report import page_line
from eloreplay.run import RunResult


def overview(out: Path, result: RunResult) -> str:
    """A page of text: what was read and rated, the top of the board, how the favourites did, and where the tables are."""
    folder, manifest = result.folder, result.manifest
    bins = manifest["bins"]
    rules = printable(manifest["rules"]["name"], 60)
    lines = [
        f"{counted(manifest['rows_read'], 'row')} read under the rules {rules}, as of {manifest['as_of']}",
        "",
    ]
    lines += [f"  {name:<12}{count:>12,}" for name, count in bins.items() if name != "rejected"]
    refused: dict[str, int] = bins["rejected"]
    lines.append(f"  {'rejected':<12}{sum(refused.values()):>12,}")
    lines += [f"    {reason:<28}{count:>8,}" for reason, count in refused.items() if count]
    if manifest["award_rows_read"]:
        awards = manifest["award_bins"]
        found = {**{k: v for k, v in awards.items() if k != "rejected"}, "rejected": sum(awards["rejected"].values())}
        lines += ["", "  awards: " + ", ".join(f"{count:,} {name}" for name, count in found.items() if count)]
    board = _table(folder, "leaderboard", ["pool", "rank", "player_id", "rating", "games"])
    boards = board.partition_by("pool", maintain_order=True) if "pool" in board.columns else [board]
    for one in boards[:3]:
        title = f"Leaderboard, {printable(one['pool'][0])}" if "pool" in one.columns else "Leaderboard"
        lines += ["", f"{title} (top {min(10, one.height)} of {counted(manifest['players'], 'player')})"]
        for row in one.head(10).iter_rows(named=True):
            rating = row["rating"] if isinstance(row["rating"], int) else f"{row['rating']:.2f}"
            number, games = counted(row["games"], "game").split()
            lines.append(f"  {row['rank']:>4}  {printable(row['player_id']):<24}{rating:>9}  {number:>6} {games}")
    if len(boards) > 3:
        lines.append(f"  … and {counted(len(boards) - 3, 'more board')}")
    lines += _favourites(folder)
    timings = manifest["timings"]
    spent = ", ".join(f"{name} {timings[name]:.1f}" for name in ("input", "reading", "window", "kernel", "writing", "tables"))
    lines += [
        "",
        f"{timings['total']:.1f} s ({spent})",
        f"The tables are in {folder} (readers start at {out / 'current'}).",
        *page_line(folder, out / "current"),
        f"Look into them with DuckDB: {out / 'current' / 'ratings.duckdb'} shows each under its name (from leaderboard limit 10).",
    ]
    return "\n".join(lines)


def _table(folder: Path, name: str, columns: list[str] | None = None) -> pl.DataFrame:
    """A table of the run, or those of its `columns` that it has; the folder's name is taken as it is, not as a pattern."""
    path = folder / f"{name}.parquet"
    with path.open("rb") as file:
        if columns is not None:
            names = pl.read_parquet_schema(file)
            columns = [column for column in columns if column in names]
            file.seek(0)
        return pl.read_parquet(file, columns=columns)


def _favourites(folder: Path) -> list[str]:
    """The curve by gap in a few lines: what favourites were expected to win, and what they won."""
    curve = _table(folder, "calibration").filter(axis="gap", slice="all")
    if "pool" in curve.columns:
        return []
    rows: list[dict[str, Any]] = curve.filter(pl.col("games") > 0).to_dicts()
    if not rows:
        return []
    summary = _table(folder, "summary")

    def value(statistic: str, part: str = "all") -> float | None:
        found = summary.filter(statistic=statistic, slice=part)
        return found["value"][0] if found.height else None

    lines = ["", "Favourites, by the gap in rating: games, expected and real win rate (95 % interval as if games were independent;"]
    lines.append("players repeat, so the truth is less sure: `eloreplay calibrate --bootstrap` gives wider ones)")
    for row in rows:
        high = "  up" if row["bin_high"] is None else f"{row['bin_high']:>4.0f}"
        lines.append(
            f"  {row['bin_low']:>4.0f}–{high}  {row['games']:>10,}   {row['expected_rate']:>6.1%}   {row['real_rate']:>6.1%}   "
            f"({row['real_low']:.1%} – {row['real_high']:.1%})"
        )
    real, expected = value("favourite_real_rate"), value("favourite_expected_rate")
    width = value("rating_middle_half_width", "active")
    if real is not None and expected is not None:
        lines.append(f"  all together: expected {expected:.2%}, real {real:.2%}")
    if width is not None:
        lines.append(f"  the middle half of the active players' ratings is {width:,.0f} points wide")
    return lines
