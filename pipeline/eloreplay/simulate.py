"""A made-up backgammon site: a seeded history of games, of any size, in the shape of a site's own export.

It stands in for real data where none may be shipped: the sample under `data/`, the benchmarks, and every study that
needs to know the truth. Each player has a hidden true strength, and each game is won with exactly the probability that
the 1.3.1 curve gives for the two true strengths, so a calibration study has a right answer to be held against.

Games are drawn day by day and written month by month, so memory depends on the largest month and not on the history.
Every day has its own random stream, and what is planted has another: `clean` gives the same games without the dirt.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.dirt import SHARES, plant, quota
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.site import OUTCOMES, Rows, Standing, burst_plan, draw_day, games_per_day
from eloreplay.world import DAY_US, ENDINGS, GAME_TYPES, FloatArray, IntArray, Players, World, draw_players

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ended_at", pa.timestamp("us", tz="UTC")),
        ("winner", pa.string()),
        ("loser", pa.string()),
        ("game_type", pa.string()),
        ("cube_value", pa.int32()),
        ("outcome", pa.string()),
        ("ended_by", pa.string()),
        ("status", pa.string()),
        ("rev", pa.int32()),
        ("exported_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""The site's own names and types. `exported_at` is no input of a rating, and differs between two copies of a game."""

COLUMNS_TOML = """\
# How this site's export maps to the names of the contract:
# canonical name = a column's name, else one scalar DuckDB expression.
# `ended_by` has its canonical name already, and `exported_at` is ignored.
[columns]
game_id = "id"
played_at = "ended_at"
winner_id = "winner"
loser_id = "loser"
mode = "game_type"
cube = "cube_value"
result = "outcome"
voided = "status = 'cancelled'"
revision = "rev"
"""

TRUTH_FILE = "_truth.parquet"
TRUTH_SCHEMA = pa.schema(
    [
        ("player_id", pa.string()),
        ("from_at", pa.timestamp("us", tz="UTC")),
        ("strength", pa.float64()),
        ("joined_at", pa.timestamp("us", tz="UTC")),
        ("activity", pa.int64()),
    ]
)
"""What is true of the players: a strength in points holds from `from_at` until the player's next row."""

STATUSES = ("ok", "cancelled")


@dataclass(frozen=True)
class SimulationReport:
    """What `simulate` wrote.

    The bins of a run follow from it: `duplicate` is `copies` + `corrections`, `voided` and the four refused kinds are
    bins of their own, and `unknown_mode` is one of the refused.

    Attributes:
        files: The games' files, one a month, in the order of time.
        columns_file: The columns file that maps the export to the canonical names.
        games: Distinct games.
        rows: Rows in all files: `games` + `copies` + `corrections`.
        planted: Rows planted by kind. Refused: `self_play`, `bad_cube`, `missing_id`, `unknown_mode`. Not refused:
            `copies` (an identical row in the next month's file), `corrections` (a row with a higher `rev` and the
            sides exchanged, the old row standing), `voided`, `ties` (a game at the instant of the one before it).
        truth_file: The true strengths, where they were asked for.
    """

    files: tuple[Path, ...]
    columns_file: Path
    games: int
    rows: int
    planted: Mapping[str, int]
    truth_file: Path | None = None


def simulate(
    out: Path,
    *,
    games: int,
    players: int,
    months: int = 6,
    start: str = "2026-03-01",
    seed: int = 42,
    clean: bool = False,
    world: World = World(),  # noqa: B008
    truth: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> SimulationReport:
    """Write a made-up site's history: `out/games/games-YYYY-MM.parquet`, one file a month, and `out/columns.toml`.

    The same arguments give the same bytes (with the same libraries). Files of an earlier call are replaced; a file that
    no simulation wrote is never overwritten, and a Parquet file of another name in `out/games` is refused, because it
    would be read as part of this history.

    Args:
        out: Folder to write to, made if missing.
        games: Distinct games; 0 is allowed and gives empty files.
        players: Number of players, at least 2.
        months: Calendar months, at least 1.
        start: First day, `YYYY-MM-DD`, the first of a month; months are of UTC.
        seed: Seed of everything drawn, not negative.
        clean: Plant nothing: no refused rows, copies, corrections, voided games or ties.
        world: What the site is like.
        truth: Also write `out/_truth.parquet`, the players' true strengths over time (the name is one that readers skip).
        progress: Called with (what, months done, months in all) after each month.

    Returns:
        The files and what was planted in them.

    Raises:
        UsageFault: An argument is out of its range, or `out` holds a columns file or Parquet files of somebody else.
        EnvironmentFault: The folder cannot be written.
    """
    bounds = _month_starts(start, months)
    _check(games=games, players=players, seed=seed)
    files = [out / "games" / f"games-{first:%Y-%m}.parquet" for first in bounds[:-1]]
    columns_file = out / "columns.toml"
    truth_file = out / TRUTH_FILE
    _prepare_folder(out / "games", files, columns_file, truth_file)

    origin = bounds[0]
    edges = [(first - origin).days for first in bounds]
    people = draw_players(players, edges[-1], seed, world)
    standing = Standing(people, world, seed)
    ids = people.ids()
    per_day = games_per_day(games, origin, edges[-1])
    bursts = burst_plan(people, per_day, seed, world.burst_games)
    # Cumulative, so that the games before a month decide its ids and its share of what is planted.
    done = np.concatenate([[0], np.cumsum(per_day)])
    planted = dict.fromkeys(SHARES, 0)
    late: list[Rows] = []  # what this month hands to the next month's file
    rows_written = 0
    known: list[tuple[int, FloatArray]] = []  # true strengths, by the day from which they hold
    for month, file in enumerate(files):
        days = range(edges[month], edges[month + 1])
        drawn = []
        for day in days:
            standing.begin(day)
            if standing.changed and truth:
                known.append((day, standing.strength))
            drawn.append(draw_day(people, standing, day, int(done[day]), int(per_day[day]), bursts, seed, world))
            standing.end(drawn[-1])
        rows = Rows.concat(drawn)
        rows.ended_us += _epoch_us(origin)
        parts = [*late, rows]
        late = []
        if not clean:
            wanted = {kind: quota(share, done[edges[month]], done[edges[month + 1]]) for kind, share in SHARES.items()}
            copies, corrections, counts = plant(rows, wanted, month, seed, last=month == months - 1)
            if month == months - 1:
                parts.append(corrections)
            else:
                late = [copies, corrections]
            for kind, count in counts.items():
                planted[kind] += count
        whole = Rows.concat(parts)
        _write(_table(whole, ids, exported=bounds[month + 1]), file)
        rows_written += len(whole)
        if progress is not None:
            progress("month", month + 1, months)
    _replace(columns_file, lambda target: target.write_text(COLUMNS_TOML, encoding="utf-8"))
    if truth:
        table = truth_table(people, ids, known, origin)
        _replace(truth_file, lambda target: pq.write_table(table, target, compression="zstd"))
    else:
        # That of an earlier simulation would not be true of this one.
        truth_file.unlink(missing_ok=True)
    return SimulationReport(tuple(files), columns_file, games, rows_written, planted, truth_file if truth else None)


def _month_starts(start: str, months: int) -> list[dt.datetime]:
    """Return the `months` + 1 instants that bound the months, in UTC."""
    try:
        first = dt.date.fromisoformat(start)
    except ValueError:
        raise UsageFault(f"start is {start!r}: give the first day of a month as YYYY-MM-DD") from None
    if first.day != 1:
        raise UsageFault(f"start is {start!r}: files hold calendar months, so give the first day of a month")
    if months < 1:
        raise UsageFault(f"months is {months}: at least 1 is needed")
    numbers = range(first.year * 12 + first.month - 1, first.year * 12 + first.month + months)
    try:
        return [dt.datetime(number // 12, number % 12 + 1, 1, tzinfo=dt.UTC) for number in numbers]
    except ValueError:
        raise UsageFault(f"{months} months from {start} end after the year 9999: give fewer") from None


def _check(*, games: int, players: int, seed: int) -> None:
    if games < 0:
        raise UsageFault(f"games is {games}: it cannot be negative")
    if players < 2:
        raise UsageFault(f"players is {players}: a game needs 2")
    if seed < 0:
        raise UsageFault(f"seed is {seed}: it cannot be negative")


def _prepare_folder(folder: Path, files: list[Path], columns_file: Path, truth_file: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        present = sorted(folder.rglob("*.parquet"))
        mapping = columns_file.read_bytes() if columns_file.exists() else None
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    # Whoever adapts a copy of our columns file has made it his own: only the very text is ours to write again.
    if mapping is not None and mapping != COLUMNS_TOML.encode():
        raise UsageFault(f"{columns_file}: is not what a simulation writes and would be overwritten; choose another folder")
    if os.path.lexists(truth_file) and not _has_schema(truth_file, TRUTH_SCHEMA):
        raise UsageFault(f"{truth_file}: is not what a simulation writes and would be overwritten; choose another folder")
    for file in present:
        if file not in files:
            raise UsageFault(
                f"{file}: is not a file of this simulation and would be read with it; remove it or choose another folder"
            )
        if not _has_schema(file, SCHEMA):
            raise UsageFault(f"{file}: is not what a simulation writes and would be overwritten; choose another folder")


def _has_schema(file: Path, schema: pa.Schema) -> bool:
    """Whether a file has the columns and types of one of ours."""
    try:
        return bool(pq.read_schema(file).equals(schema))
    except (OSError, pa.ArrowException):
        return False


def _epoch_us(instant: dt.datetime) -> int:
    return int(instant.timestamp()) * 1_000_000


def truth_table(people: Players, ids: pa.Array, known: list[tuple[int, FloatArray]], origin: dt.datetime) -> pa.Table:
    """The true strengths over time, by instant and id; see `TRUTH_SCHEMA`.

    Args:
        people: The players.
        ids: Their ids.
        known: True strengths `(n_players,)` by the day, from the start, from which they hold.
        origin: The start.
    """
    order = np.argsort(people.number)
    start, n = _epoch_us(origin), len(known)
    instant = pa.timestamp("us", tz="UTC")
    columns = [
        ids.take(pa.array(np.tile(order, n))),
        pa.array(np.repeat(np.array([start + day * DAY_US for day, _ in known], dtype=np.int64), len(order))).cast(instant),
        pa.array(np.concatenate([strength[order] for _, strength in known])),
        pa.array(np.tile(start + people.joined_day[order] * DAY_US, n)).cast(instant),
        pa.array(np.tile(people.activity[order], n)),
    ]
    return pa.Table.from_arrays(columns, schema=TRUTH_SCHEMA)


def _table(rows: Rows, ids: pa.Array, exported: dt.datetime) -> pa.Table:
    """Turn codes into the export's columns."""

    def words(names: tuple[str, ...], codes: IntArray) -> Any:
        return pa.array(names, pa.string()).take(pa.array(codes))

    def people(codes: IntArray) -> Any:
        return ids.take(pa.array(codes, mask=codes < 0))

    instant = pa.timestamp("us", tz="UTC")
    # The export runs two hours into the next month.
    made = np.full(len(rows), _epoch_us(exported) + 7_200_000_000, dtype=np.int64)
    columns = [
        pa.array(rows.id, mask=rows.id_missing),
        pa.array(rows.ended_us).cast(instant),
        people(rows.winner),
        people(rows.loser),
        words(GAME_TYPES, rows.game_type),
        pa.array(rows.cube.astype(np.int32)),
        words(OUTCOMES, rows.outcome),
        words(ENDINGS, rows.ending),
        words(STATUSES, rows.status),
        pa.array(rows.rev.astype(np.int32)),
        pa.array(made).cast(instant),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _write(table: pa.Table, file: Path) -> None:
    # Stamps are nearly all different: as differences they take half the space that a dictionary would need.
    words = [name for name in SCHEMA.names if name not in ("id", "ended_at")]
    _replace(
        file,
        lambda target: pq.write_table(
            table,
            target,
            compression="zstd",
            compression_level=9,
            row_group_size=131_072,
            use_dictionary=words,
            column_encoding={"id": "DELTA_BINARY_PACKED", "ended_at": "DELTA_BINARY_PACKED"},
        ),
    )


def _replace(file: Path, write: Callable[[Path], object]) -> None:
    """Write beside the file and rename: a run that is stopped leaves no half a file to be read as a whole one."""
    # A leading dot: readers of the folder skip it.
    target = file.with_name(f".{file.name}.part")
    try:
        write(target)
        os.replace(target, file)
    except OSError as error:
        raise EnvironmentFault(f"{file}: cannot be written ({error}); free space or choose another folder") from error
    finally:
        target.unlink(missing_ok=True)
