"""Every board that was ever published: the archive `DIR/boards`, and the board as it stood on a day.

Boards are small copies of the published leaderboards. Each says in its own footer of which run it is and when it was published,
so the archive needs nothing beside it, and it stays when the run itself is dropped.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.console import printable
from eloreplay.errors import EloreplayError, EnvironmentFault, UsageFault
from eloreplay.instants import parse_us, show_us
from eloreplay.publish import read_manifest
from eloreplay.published import chosen, kept_runs, published_us
from eloreplay.run_tables import COLUMNS, table_faults
from eloreplay.store import current_run, sync_folder
from eloreplay.tables import INSTANT, read_parquet

BOARDS = "boards"
LADDERS_SHOWN = 3
_BOARD_NAME = re.compile(r"[0-9]{6,}(-[0-9]+)?\.parquet")


def archive_board(root: Path, run: Path) -> Path | None:
    """Copy a published run's leaderboard to `DIR/boards/000042.parquet`, for good; a second call does nothing.

    The copy's footer says of which run it is, when that was published and what as-of it had. Where a run number is given a second
    time (somebody has pointed `current` at an older run by hand), the second board gets a name of its own.

    Returns:
        The copy, or None when it cannot be written.

    Raises:
        EnvironmentFault: the run's manifest or leaderboard cannot be read.
    """
    about = _about(run)
    try:
        table = read_parquet(run / "leaderboard.parquet")
    except (OSError, pa.ArrowException) as error:
        raise EnvironmentFault(f"{run / 'leaderboard.parquet'}: the published leaderboard cannot be read: {error}") from None
    folder = root / BOARDS
    number = 1
    while True:
        path = folder / (f"{run.name}.parquet" if number == 1 else f"{run.name}-{number}.parquet")
        if not path.exists():
            break
        if about_board(path) == about:
            return path
        number += 1
    content = io.BytesIO()
    with pq.ParquetWriter(content, table.schema, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"eloreplay": json.dumps(about)})
    try:
        folder.mkdir(exist_ok=True)
        write_whole(path, content.getvalue())
    except OSError:
        return None
    return path


def about_board(path: Path) -> dict[str, Any] | None:
    """What an archived board says of itself: `run`, `published_at`, `as_of`, `rules`; None when it is none of ours or damaged."""
    try:
        with path.open("rb") as file:
            about = json.loads((pq.read_metadata(file).metadata or {}).get(b"eloreplay", b"null"))
    except (OSError, ValueError, pa.ArrowException):
        return None
    return about if isinstance(about, dict) else None


def boards(root: Path) -> list[Path]:
    """The archived boards by run number."""
    folder = root / BOARDS
    found = [path for path in folder.iterdir() if _BOARD_NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: [int(part) for part in path.stem.split("-")])


def board(root: Path, until_us: int | None = None) -> dict[str, Any]:
    """A published leaderboard: the present one, or the one that stood published at an instant.

    Args:
        root: the output folder.
        until_us: the instant; None for now.

    Returns:
        `run`, `published_at`, `as_of`, `rules` and `rows`: dicts of the board's columns, instants as text.

    Raises:
        UsageFault: nothing was published by then.
        EnvironmentFault: the board cannot be read.
    """
    root, run = chosen(root)
    path, about = run / "leaderboard.parquet", _about(run)
    if until_us is None:
        for text in table_faults(path, COLUMNS["leaderboard"]):
            raise EnvironmentFault(text)
    else:
        if run != current_run(root):
            raise UsageFault(f"--published-on goes with the folder itself ({root}), not with one run of it ({run.name})")
        found = board_until(root, until_us)
        if found is None:
            first = min((about["published_at"] for about in _all_boards(root).values()), default=None, key=parse_us)
            raise UsageFault(
                f"{root}: no board was published on or before {show_us(until_us)}; the first that is known is of {first}"
            )
        path, about = found
    try:
        table = read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise EnvironmentFault(f"{path}: the leaderboard cannot be read: {error}") from None
    for at, field in enumerate(table.schema):
        if field.type == INSTANT:
            texts = [show_us(us) for us in table[at].cast(pa.int64()).to_pylist()]
            table = table.set_column(at, field.name, pa.array(texts, pa.string()))
    return {**about, "rows": table.to_pylist()}


def _about(run: Path) -> dict[str, Any]:
    manifest = read_manifest(run)
    return {
        "run": run.name,
        "published_at": show_us(published_us(run, manifest)),
        "as_of": manifest.get("as_of"),
        "rules": manifest.get("rules", {}).get("name"),
    }


def _all_boards(root: Path) -> dict[Path, dict[str, Any]]:
    """Every board that is still there, archived or in a kept run, with what is known of it, in order of publication."""
    found = {path: about for path in boards(root) if (about := about_board(path)) is not None}
    for run in kept_runs(root):
        with contextlib.suppress(EloreplayError):
            found[run / "leaderboard.parquet"] = _about(run)
    dated = {}
    for path, about in found.items():
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            parse_us(about["published_at"])
            dated[path] = about
    return dated


def board_until(root: Path, until_us: int) -> tuple[Path, dict[str, Any]] | None:
    """The board that stood published at an instant, and what is known of it: the last one published not after it."""
    # Of equal instants the last one, which has the higher number; a run's own board is the same as its copy.
    before = [
        (published, number, path, about)
        for number, (path, about) in enumerate(_all_boards(root).items())
        if (published := parse_us(about["published_at"])) <= until_us
    ]
    return max(before)[2:] if before else None


def board_text(found: dict[str, Any], n: int) -> str:
    """`board` for a person: its first `n` lines, and of the ladders the first three."""
    lines = [
        f"Leaderboard of run {printable(found['run'])}, published {to_the_second(found['published_at'])}, as of "
        f"{to_the_second(found['as_of'])}, rules {printable(found['rules'], 60)}"
    ]
    return "\n".join([*lines, *board_lines(found["rows"], n)])


def board_lines(found: list[dict[str, Any]], n: int) -> list[str]:
    """The rows of a board for a person: the first `n` lines, and of the ladders the first three."""
    lines: list[str] = []
    ladders = _ladders(found)
    for ladder, rows in list(ladders.items())[:LADDERS_SHOWN]:
        lines += ["", printable(ladder)] if ladder is not None else [""]
        for row in rows[:n]:
            rating = row["rating"] if isinstance(row["rating"], int) else f"{row['rating']:.2f}"
            games = "game" if row["games"] == 1 else "games"
            lines.append(f"  {row['rank']:>4}  {printable(row['player_id']):<24}{rating:>9}  {row['games']:>6,} {games}")
    if len(ladders) > LADDERS_SHOWN:
        lines += ["", f"and {len(ladders) - LADDERS_SHOWN} more ladders (--json has them all)"]
    return lines if found else ["", "  nobody stands on it"]


def first_rows(rows: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """The first `n` lines of every ladder."""
    return [row for ladder in _ladders(rows).values() for row in ladder[:n]]


def _ladders(rows: list[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    ladders: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        ladders.setdefault(row.get("pool"), []).append(row)
    return ladders


def end_of_day_us(day: dt.date) -> int:
    """The last microsecond of a day in UTC."""
    return parse_us((day + dt.timedelta(days=1)).isoformat()) - 1


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        partial.write_bytes(content)
        sync_folder(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def to_the_second(text: Any) -> str:
    """An instant to the second, for a table."""
    return "" if text is None else re.sub(r"\.[0-9]+(?=Z$)", "", printable(text, 30))
