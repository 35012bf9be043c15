"""A made-up backgammon site: a seeded history of games, of any size, in the shape of a site's own export.

It stands in for real data where none may be shipped: the sample under `data/`, the benchmarks, and every study that
needs to know the truth. Each player has a hidden true strength, and each game is won with exactly the probability that
the 1.3.1 curve gives for the two true strengths, so a calibration study has a right answer to be held against.

Games are drawn day by day and written month by month, so memory depends on the largest month and not on the history.
Every day has its own random stream, and what is planted has another: `clean` gives the same games without the dirt.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault, UsageFault

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

TRUE_DIVISOR = 1200.0
"""Divisor of the true winning probability, in rating points."""
STRENGTH_SPREAD = 250.0
"""Standard deviation of the true strengths, in points.

So wide that ratings find a part of it: replayed at a divisor of 800, favourites win 57 to 58 % where about 60 % is
promised, which is what the first source says of its site.
"""
STRENGTH_ACTIVITY = 0.15
"""Correlation of true strength and the logarithm of activity: who plays more is a little stronger."""

DAY_US = 86_400_000_000
FIRST_GAME_ID = 1_000_001
BURST_GAMES = 300
"""Ranked games a player of a burst week plays on top of his usual ones (the figure is the first source's own)."""

GAME_TYPES = ("ranked", "boosted", "casual", "tournament", "rankd")
_RANKED, _UNKNOWN = 0, 4
_GAME_TYPE_SHARES = (0.72, 0.12, 0.09, 0.07)
CUBES = (1, 2, 4, 8, 16, 32, 64)
_CUBE_SHARES = (0.45, 0.38, 0.13, 0.03, 0.007, 0.002, 0.001)
OUTCOMES = ("single", "gammon", "backgammon")
_OUTCOME_SHARES = (0.72, 0.26, 0.02)
ENDINGS = ("finished", "resigned", "left", "disconnected", "timeout")
_ENDING_SHARES = (0.70, 0.18, 0.05, 0.04, 0.03)
STATUSES = ("ok", "cancelled")

# An evening site: the share of a day's games by UTC hour in which they end.
_HOUR_WEIGHTS = (5, 3, 2, 1, 1, 1, 2, 3, 4, 5, 5, 6, 7, 7, 6, 6, 7, 8, 10, 12, 13, 13, 11, 8)
_WEEKDAY_WEIGHTS = (0.95, 0.93, 0.95, 0.97, 1.02, 1.12, 1.15)

_SHARES: Mapping[str, float] = {
    "self_play": 0.0005,
    "bad_cube": 0.0010,
    "missing_id": 0.0010,
    "unknown_mode": 0.0005,
    "voided": 0.0030,
    "corrections": 0.0020,
    "ties": 0.0020,
    "copies": 0.0060,
}
"""What is planted, as a share of the games. The first four are refused: 0.3 %, well below the limit of 1 %.

The last month's games cannot be repeated in a next file, so that over six months 0.5 % are copied.
"""

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


@dataclass(frozen=True)
class Players:
    """The hidden truth about the players, in ascending order of true strength.

    Attributes:
        strength: True strength in rating points, `(n_players,)` float64.
        activity: Relative number of games, `(n_players,)` int64, at least 1, heavy-tailed.
        joined_day: First day a player can play, in days from the start, `(n_players,)` int64.
        number: The number in the player's id, `(n_players,)` int64: ids are given in the order of joining.
    """

    strength: FloatArray
    activity: IntArray
    joined_day: IntArray
    number: IntArray

    def ids(self) -> pa.Array:
        """Return the player ids as the export prints them, `(n_players,)` string."""
        return pa.array([f"p{number:06d}" for number in self.number.tolist()], pa.string())


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
    """

    files: tuple[Path, ...]
    columns_file: Path
    games: int
    rows: int
    planted: Mapping[str, int]


@dataclass
class _Rows:
    """Rows of the export as arrays of one length; players and words are codes, -1 and the masks mean NULL."""

    id: IntArray
    ended_us: IntArray
    winner: IntArray
    loser: IntArray
    game_type: IntArray
    cube: IntArray
    outcome: IntArray
    ending: IntArray
    status: IntArray
    rev: IntArray
    id_missing: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.ended_us)

    def take(self, rows: IntArray) -> _Rows:
        return _Rows(**{name: column[rows] for name, column in vars(self).items()})

    @staticmethod
    def concat(parts: list[_Rows]) -> _Rows:
        return _Rows(**{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])})


def draw_players(players: int, days: int, seed: int) -> Players:
    """Draw the players' hidden strengths, activities and join dates.

    Args:
        players: Number of players, at least 2.
        days: Length of the history in days.
        seed: The simulation's seed.

    Returns:
        The players in ascending order of strength: the order in which pairing looks for an opponent.
    """
    rng = np.random.default_rng(_stream(seed, "players"))
    # Strength and activity are rounded so that the last bit of a platform's exp or log cannot change a game.
    skill = np.sort(rng.normal(0.0, 1.0, players))
    strength = np.round(1500.0 + STRENGTH_SPREAD * skill, 1)
    zeal = STRENGTH_ACTIVITY * skill + math.sqrt(1.0 - STRENGTH_ACTIVITY**2) * rng.normal(0.0, 1.0, players)
    activity = np.maximum(np.round(100.0 * np.exp(1.3 * zeal)), 1.0).astype(np.int64)
    joined_day = np.where(rng.random(players) < 0.5, 0, rng.integers(0, max(days, 1), players))
    # Somebody must be there on the first day for the first game to have two sides.
    joined_day[rng.permutation(players)[:2]] = 0
    number = np.empty(players, dtype=np.int64)
    number[np.lexsort((rng.permutation(players), joined_day))] = np.arange(1, players + 1)
    return Players(strength, activity, joined_day.astype(np.int64), number)


def true_win_probability(difference: FloatArray) -> FloatArray:
    """Return the true probability to win a game, by the difference of true strengths in points (own − opponent)."""
    return np.asarray(1.0 / (1.0 + np.power(10.0, -difference / TRUE_DIVISOR)), dtype=np.float64)


def simulate(
    out: Path,
    *,
    games: int,
    players: int,
    months: int = 6,
    start: str = "2026-03-01",
    seed: int = 42,
    clean: bool = False,
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
    _prepare_folder(out / "games", files, columns_file)

    origin = bounds[0]
    edges = [(first - origin).days for first in bounds]
    people = draw_players(players, edges[-1], seed)
    ids = people.ids()
    per_day = _games_per_day(games, origin, edges[-1])
    bursts = _burst_plan(people, per_day, seed)
    # Cumulative, so that the games before a month decide its ids and its share of what is planted.
    done = np.concatenate([[0], np.cumsum(per_day)])
    planted = dict.fromkeys(_SHARES, 0)
    late: list[_Rows] = []  # what this month hands to the next month's file
    rows_written = 0
    for month, file in enumerate(files):
        days = range(edges[month], edges[month + 1])
        rows = _Rows.concat([_draw_day(people, day, int(done[day]), int(per_day[day]), bursts, seed) for day in days])
        rows.ended_us += _epoch_us(origin)
        parts = [*late, rows]
        late = []
        if not clean:
            quota = {kind: _quota(share, done[edges[month]], done[edges[month + 1]]) for kind, share in _SHARES.items()}
            copies, corrections, counts = _plant(rows, quota, month, seed, last=month == months - 1)
            if month == months - 1:
                parts.append(corrections)
            else:
                late = [copies, corrections]
            for kind, count in counts.items():
                planted[kind] += count
        whole = _Rows.concat(parts)
        _write(_table(whole, ids, exported=bounds[month + 1]), file)
        rows_written += len(whole)
        if progress is not None:
            progress("month", month + 1, months)
    _replace(columns_file, lambda target: target.write_text(COLUMNS_TOML, encoding="utf-8"))
    return SimulationReport(tuple(files), columns_file, games, rows_written, planted)


def _stream(seed: int, purpose: str, number: int = 0) -> np.random.SeedSequence:
    """Return the seed of one independent stream: numbering them keeps a change in one from moving all the others."""
    purposes = ("players", "bursts", "day", "plant")
    return np.random.SeedSequence(seed, spawn_key=(purposes.index(purpose), number))


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


def _prepare_folder(folder: Path, files: list[Path], columns_file: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        present = sorted(folder.rglob("*.parquet"))
        mapping = columns_file.read_bytes() if columns_file.exists() else None
    except OSError as error:
        raise EnvironmentFault(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    # Whoever adapts a copy of our columns file has made it his own: only the very text is ours to write again.
    if mapping is not None and mapping != COLUMNS_TOML.encode():
        raise UsageFault(f"{columns_file}: is not what a simulation writes and would be overwritten; choose another folder")
    for file in present:
        if file not in files:
            raise UsageFault(
                f"{file}: is not a file of this simulation and would be read with it; remove it or choose another folder"
            )
        if not _is_simulated(file):
            raise UsageFault(f"{file}: is not what a simulation writes and would be overwritten; choose another folder")


def _is_simulated(file: Path) -> bool:
    """Whether a file has the columns and types of the made-up export."""
    try:
        return bool(pq.read_schema(file).equals(SCHEMA))
    except (OSError, pa.ArrowException):
        return False


def _epoch_us(instant: dt.datetime) -> int:
    return int(instant.timestamp()) * 1_000_000


def _games_per_day(games: int, origin: dt.datetime, days: int) -> IntArray:
    """Spread the games over the days, `(days,)`: the site grows by half over the history, weekends are busier."""
    day = np.arange(days)
    weekday = np.asarray(_WEEKDAY_WEIGHTS)[(origin.weekday() + day) % 7]
    weight = weekday * (1.0 + 0.5 * day / days)
    ends = np.floor(games * np.cumsum(weight) / weight.sum() + 0.5).astype(np.int64)
    ends[-1] = games
    counts: IntArray = np.diff(ends, prepend=0)
    return counts


def _burst_plan(people: Players, per_day: IntArray, seed: int) -> dict[int, IntArray]:
    """Choose for each full week the players who play `BURST_GAMES` ranked games more than usual.

    About one player in a thousand has such a week at a time, but together they never play more than a tenth of a
    week's games, so that a small simulation does not consist of them.

    Returns:
        Day from the start → the players (positions) of that day's burst games, one entry a game.
    """
    plan: dict[int, IntArray] = {}
    for week in range(len(per_day) // 7):
        days = range(7 * week, 7 * week + 7)
        wanted = min(-(-len(people.strength) // 1000), int(per_day[days.start : days.stop].sum()) // (10 * BURST_GAMES))
        here = np.flatnonzero(people.joined_day <= days.start)
        if wanted == 0 or len(here) < 2:
            continue
        rng = np.random.default_rng(_stream(seed, "bursts", week))
        share = people.activity[here] / people.activity[here].sum()
        chosen = rng.choice(here, size=min(wanted, len(here)), replace=False, p=share)
        for position, day in enumerate(days):
            a_day = BURST_GAMES * (position + 1) // 7 - BURST_GAMES * position // 7
            plan[day] = np.repeat(chosen, a_day)[: per_day[day]].astype(np.int64)
    return plan


def _draw_day(people: Players, day: int, before: int, count: int, bursts: dict[int, IntArray], seed: int) -> _Rows:
    """Draw one day's games in the order of their ends, `ended_us` counted from the start of the history.

    Args:
        people: The players.
        day: Day from the start.
        before: Games of all earlier days: ids go on from there.
        count: Games of this day.
        bursts: The burst plan.
        seed: The simulation's seed.

    Returns:
        `count` rows without any dirt, strictly ascending in time.
    """
    rng = np.random.default_rng(_stream(seed, "day", day))
    ended = day * DAY_US + _times_of_day(rng, count)
    extra = bursts.get(day, np.zeros(0, dtype=np.int64))
    at = rng.permutation(count)[: len(extra)]
    first, second = _pair(rng, people, day, count, at, extra)
    wins = rng.random(count) < true_win_probability(people.strength[first] - people.strength[second])
    game_type = _draw(rng, _GAME_TYPE_SHARES, count)
    game_type[at] = _RANKED
    ending = _draw(rng, _ENDING_SHARES, count)
    # Only a game played to its end can be a gammon; any other is an ordinary loss.
    outcome = np.where(ending == 0, _draw(rng, _OUTCOME_SHARES, count), 0)
    # Ids are given when a game starts, the order is that of the ends: sorting by id alone must not look right.
    started = ended - rng.integers(60_000_000, 1_500_000_000, count)
    number = np.empty(count, dtype=np.int64)
    number[np.argsort(started, kind="stable")] = np.arange(count)
    return _Rows(
        id=FIRST_GAME_ID + before + number,
        ended_us=ended,
        winner=np.where(wins, first, second),
        loser=np.where(wins, second, first),
        game_type=game_type,
        cube=np.asarray(CUBES, dtype=np.int64)[_draw(rng, _CUBE_SHARES, count)],
        outcome=outcome,
        ending=ending,
        status=np.zeros(count, dtype=np.int64),
        rev=np.zeros(count, dtype=np.int64),
        id_missing=np.zeros(count, dtype=np.bool_),
    )


def _draw(rng: np.random.Generator, shares: tuple[float, ...], count: int) -> IntArray:
    """Draw codes 0, 1, … with the given shares, `(count,)`."""
    return np.searchsorted(np.cumsum(shares)[:-1], rng.random(count), side="right").astype(np.int64)


def _times_of_day(rng: np.random.Generator, count: int) -> IntArray:
    """Draw strictly ascending times within a day in microseconds, `(count,)`, by the site's daily rhythm."""
    weights = np.cumsum(_HOUR_WEIGHTS) / sum(_HOUR_WEIGHTS)
    drawn = np.interp(rng.random(count), np.concatenate([[0.0], weights]), np.linspace(0.0, 1.0, 25))
    # One microsecond more for each earlier game: equal instants then exist only where they are planted and counted.
    return np.sort((drawn * (DAY_US - count)).astype(np.int64)) + np.arange(count)


def _pair(
    rng: np.random.Generator, people: Players, day: int, count: int, at: IntArray, extra: IntArray
) -> tuple[IntArray, IntArray]:
    """Draw both sides of each game by activity, with a mild pull towards an opponent of a similar strength.

    All who have joined lie on a line in the order of strength, each as long as his activity. The opponent is anywhere
    on the line (in three fifths of the games), else a wide normal step along it away, reflected at the ends so that
    nobody is favoured.

    Returns:
        Positions of the first and of the second side, each `(count,)`, never equal; `extra` is the first side at `at`.
    """
    here = np.flatnonzero(people.joined_day <= day)
    ends = np.cumsum(people.activity[here])
    total = int(ends[-1])
    spot = rng.integers(0, total, count)
    burst = np.searchsorted(here, extra)
    spot[at] = ends[burst] - (people.activity[extra] + 1) // 2
    first = np.searchsorted(ends, spot, side="right")
    step = np.round(rng.normal(0.0, 0.25 * total, count)).astype(np.int64)
    other = np.mod(spot + step, 2 * total)
    other = np.where(other >= total, 2 * total - 1 - other, other)
    anywhere = rng.random(count) < 0.6
    other = np.where(anywhere, rng.integers(0, total, count), other)
    second = np.searchsorted(ends, other, side="right")
    # Who met himself meets a neighbour in strength.
    second = np.where(second == first, np.where(first + 1 < len(here), first + 1, first - 1), second)
    return here[first], here[second]


def _quota(share: float, before: int, after: int) -> int:
    """Return how many to plant among games `before` to `after`; cumulative, so that the total has no rounding drift."""
    return int(share * after + 0.5) - int(share * before + 0.5)


def _plant(rows: _Rows, quota: Mapping[str, int], month: int, seed: int, *, last: bool) -> tuple[_Rows, _Rows, dict[str, int]]:
    """Change `rows` in place into what a real export looks like.

    No row gets two kinds (but a copy may be of any row with ids), so each count is also the count of its bin.

    Args:
        rows: The month's games, ascending in time.
        quota: How many of each kind.
        month: Number of the month, for the random stream.
        seed: The simulation's seed.
        last: There is no next month, so nothing can be copied into it.

    Returns:
        Copies of the month's last rows, as the next export repeats them; correcting rows; and the counts planted.
    """
    rng = np.random.default_rng(_stream(seed, "plant", month))
    # A cube or a self game is only looked at in a rated game, so everything is planted there.
    ranked = rng.permutation(np.flatnonzero(rows.game_type == _RANKED))
    kinds = ("self_play", "bad_cube", "missing_id", "unknown_mode", "voided", "corrections", "ties")
    chosen: dict[str, IntArray] = {}
    for kind in kinds:
        chosen[kind], ranked = ranked[: quota[kind]], ranked[quota[kind] :]

    rows.loser[chosen["self_play"]] = rows.winner[chosen["self_play"]]
    at = chosen["bad_cube"]
    # Half are no power of two, half are a clock time (epoch seconds) that slipped into the column.
    rows.cube[at] = np.where(np.arange(len(at)) % 2 == 0, 3, rows.ended_us[at] // 1_000_000)
    at = chosen["missing_id"]
    rows.id_missing[at[0::3]] = True
    rows.winner[at[1::3]] = -1
    rows.loser[at[2::3]] = -1
    rows.game_type[chosen["unknown_mode"]] = _UNKNOWN
    rows.status[chosen["voided"]] = 1
    at = np.sort(chosen["ties"])
    at = at[at > 0]
    chosen["ties"] = at
    for_tie = rows.ended_us.copy()
    for_tie[at] = -1
    # In a row of planted ties all take the instant of the last game before them that keeps its own.
    rows.ended_us[:] = np.maximum.accumulate(for_tie)

    at = np.sort(chosen["corrections"])
    corrections = rows.take(at)
    corrections.rev += 1
    # The true result is the corrected one: it is the first entry that named the wrong winner.
    rows.winner[at], rows.loser[at] = rows.loser[at], rows.winner[at]

    copyable = np.flatnonzero(~rows.id_missing & (rows.winner >= 0) & (rows.loser >= 0))
    # Copies only start in the second file: they carry the quota of a month whose export is repeated.
    copies = rows.take(copyable[:0] if last else copyable[max(len(copyable) - quota["copies"], 0) :])
    counts = {kind: len(chosen[kind]) for kind in kinds} | {"copies": len(copies)}
    return copies, corrections, counts


def _table(rows: _Rows, ids: pa.Array, exported: dt.datetime) -> pa.Table:
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
