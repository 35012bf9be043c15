"""The games of a sweep: through the door once, and then a stretch after the other as the sweep's kernel takes them.

Door, order, counts, awards and adjustments are those of a run (`games`, `prepare`, `events`).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eloreplay.errors import EnvironmentFault, InputRefused
from eloreplay.events import Events
from eloreplay.games import Inputs, Intake, Report, find_inputs, open_door
from eloreplay.instants import BEGINNING_US
from eloreplay.keeping import no_players
from eloreplay.prepare import Recent, Stretch, prepare
from eloreplay.queries import Database
from eloreplay.rules import Adjustment, Ruleset
from eloreplay.sweep_kernel import GROUPS

#: Games that are prepared by one query, as in a run.
STRETCH_GAMES = 1_000_000
LAST_US = 2**63 - 1
HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
RESULTS = ("single", "gammon", "backgammon")


@dataclass(frozen=True)
class Played:
    """A stretch of games as the sweep's kernel takes it; shapes and types as in `sweep_kernel.sweep_games`."""

    winner: NDArray[np.int32]
    loser: NDArray[np.int32]
    played_us: NDArray[np.int64]
    score: NDArray[np.float64]
    advantage: NDArray[np.float64]
    weight: NDArray[np.float64]
    match_length: NDArray[np.float64]
    version: NDArray[np.int16]
    term: NDArray[np.int32]
    recent: NDArray[np.int32]
    cell: NDArray[np.int16]
    week: NDArray[np.int32]

    def part(self, first: int, last: int) -> tuple[NDArray[Any], ...]:
        """The arrays of the games `first:last`, in the kernel's order."""
        return tuple(getattr(self, field.name)[..., first:last] for field in fields(self))

    def save(self, path: Path) -> None:
        """Keep the stretch in a file, for another pass."""
        with path.open("wb") as stream:
            for values in self.part(0, len(self.winner)):
                content = io.BytesIO()
                np.save(content, values)
                # Not np.save to the file itself: on a full disk its error does not say so.
                stream.write(content.getbuffer())

    @classmethod
    def load(cls, path: Path) -> Played:
        """A stretch from its file."""
        with path.open("rb") as stream:
            return cls(*(np.load(stream) for _ in fields(cls)))

    @classmethod
    def none(cls) -> Played:
        """No game at all."""
        int32, floats = np.empty(0, np.int32), np.empty(0)
        return cls(
            winner=int32,
            loser=int32,
            played_us=np.empty(0, np.int64),
            score=floats,
            advantage=floats,
            weight=floats,
            match_length=floats,
            version=np.empty(0, np.int16),
            term=int32,
            recent=np.empty((2, 0), np.int32),
            cell=np.empty(0, np.int16),
            week=int32,
        )


class Run(NamedTuple):
    """Games and awards that are rated in one go, `first:last` each, and what comes after them.

    `part`: 0 before the instant that parts the games, 1 from it on. `closes`: the part ends here.
    """

    first: int
    last: int
    first_award: int
    last_award: int
    part: int
    closes: bool
    adjustment: Adjustment | None


@dataclass
class Field:
    """What all settings of a sweep share: who plays, and what moves ratings beside games.

    Attributes:
        ruleset: the rules as they are.
        intake: what came through the door.
        index: pool and player_id by position in the state, as Arrow.
        group: int64 `(n_players,)`, each player's group.
        kinds: the table of `sql/sweep_terms.sql`, in the order of its keys; likewise `kind_keys`, int64.
        awards: the awards; where they are is told by `next_award`.
        marks: what cuts a run of games, in order: (instant, 1, adjustment), and (`split_us`, 0, None).
        split_us: the instant that parts the games, or None.
        last_us: int64 `(n_players,)`, each one's last game, or the least of all numbers.
        cell_games: int64 `(2, GROUPS * GROUPS)`, games by part and cell.
    """

    ruleset: Ruleset
    intake: Intake
    index: pa.Table
    group: NDArray[np.int64]
    kinds: pa.Table
    kind_keys: NDArray[np.int64]
    awards: Events
    marks: list[tuple[int, int, Adjustment | None]]
    split_us: int | None
    last_us: NDArray[np.int64]
    cell_games: NDArray[np.int64]
    next_award: int = 0
    next_mark: int = 0

    @property
    def parts(self) -> int:
        """How many parts the games have."""
        return 1 if self.split_us is None else 2

    def runs(self, played_us: NDArray[np.int64], to_us: int) -> list[Run]:
        """Cut a stretch at adjustments and at the instant that parts the games; awards before `to_us` are handed out once."""
        found, at = [], 0
        while self.next_mark < len(self.marks) and self.marks[self.next_mark][0] < to_us:
            instant, _, adjustment = self.marks[self.next_mark]
            cut = at + int(np.searchsorted(played_us[at:], instant, side="left"))
            found.append(self._run(at, cut, instant, adjustment))
            self.next_mark += 1
            at = cut
        found.append(self._run(at, len(played_us), to_us, None)._replace(closes=False))
        return found

    def _run(self, first: int, last: int, before_us: int, adjustment: Adjustment | None) -> Run:
        start = self.next_award
        # What comes after the last game is taken up to its end: an award can stand at the last instant of all.
        end = (
            int(np.searchsorted(self.awards.awarded_us, before_us, side="left")) if before_us < LAST_US else len(self.awards.player)
        )
        self.next_award = max(start, end)
        # A part is told by the end of its run: the instant itself belongs to the second.
        part = 1 if self.split_us is not None and before_us > self.split_us else 0
        return Run(first, last, start, self.next_award, part, adjustment is None, adjustment)


@contextlib.contextmanager
def opened(
    inputs: Inputs,
    ruleset: Ruleset,
    as_of_us: int,
    split_us: int | None,
    *,
    threads: int,
    memory_limit: str,
    max_rejected: float,
    scratch: Path,
    report: Report,
    note: Callable[[str], None],
    meanwhile: Callable[[], Future[None]],
) -> Iterator[tuple[Database, Field]]:
    """Read and judge the games, once for all settings.

    Args:
        inputs: what to read.
        ruleset: the rules as they are; the settings differ from them in numbers only.
        as_of_us: games after this instant are held.
        split_us: the instant that parts the games into those to learn from and those to judge by, or None.
        threads: of DuckDB.
        memory_limit: of DuckDB.
        max_rejected: largest share of refused rows.
        scratch: an existing folder to work in.
        report: told how far it is.
        note: told what a person should know.
        meanwhile: starts what can be done while the input is read; waited for before the first game.

    Raises:
        InputRefused: as in a run; also when more rows are refused than `max_rejected` allows.
        EnvironmentFault: disk or memory.
    """
    found = find_inputs(inputs)
    compiled = meanwhile()
    database = Database(scratch / "stage.duckdb", threads=threads, memory_limit=memory_limit, spill=scratch / "spill")
    try:
        intake = open_door(database, inputs, found, ruleset, as_of_us, report)
        for text in intake.notes:
            note(text)
        for what, refused, rows in (
            ("rows", intake.rejected, intake.rows_read),
            ("awards", intake.award_rejected, intake.award_rows_read),
        ):
            if refused and refused / rows > max_rejected:
                raise InputRefused(
                    f"{refused} of {rows} {what} are refused ({refused / rows:.2%}), more than --max-rejected {max_rejected:.2%} "
                    "allows; nothing was written: eloreplay check says why, or raise --max-rejected"
                )
        no_players(database, intake)
        database.create_table("player_index", "player_index")
        database.create_view("rule_inputs", "rule_inputs")
        database.create_view("rule_terms", "rule_terms")
        index = database.arrow_of("select pool, player_id, player_index from player_index order by player_index")
        kinds = database.arrow("sweep_terms")
        keys = _kind_keys(kinds, kinds["version_index"].to_numpy())
        order = np.argsort(keys)
        compiled.result()
        marks: list[tuple[int, int, Adjustment | None]] = [(a.at, 1, a) for a in ruleset.adjustment if a.at <= as_of_us]
        if split_us is not None:
            marks.append((split_us, 0, None))
        yield (
            database,
            Field(
                ruleset=ruleset,
                intake=intake,
                index=index,
                group=database.arrow("sweep_groups", {"groups": GROUPS})["player_group"].to_numpy().astype(np.int64),
                kinds=kinds.take(pa.array(order)),
                kind_keys=keys[order],
                awards=_awards(database),
                marks=sorted(marks, key=lambda mark: mark[:2]),
                split_us=split_us,
                last_us=np.full(index.num_rows, BEGINNING_US, np.int64),
                cell_games=np.zeros((2, GROUPS * GROUPS), np.int64),
            ),
        )
    finally:
        database.close()


def _awards(database: Database) -> Events:
    rows = database.arrow("applied_awards")
    return Events(
        player=np.array(rows["player_index"].to_numpy(), np.int32),
        awarded_us=np.array(rows["awarded_us"].to_numpy(), np.int64),
        points=np.array(rows["points"].to_numpy(), np.float64),
        rows=rows,
        adjustments=(),
    )


def stretches(database: Database, field: Field, report: Report) -> Iterator[tuple[Played, list[Run]]]:
    """The rated games, a stretch after the other, as every setting takes them; counts them into `field` on the way.

    Raises:
        EnvironmentFault: disk or memory, or a game that the door counted and that does not come.
    """
    total = field.intake.bins["rated"]
    assert isinstance(total, int)
    players, done, before = field.index.num_rows, 0, Recent.nothing()
    for from_us, to_us in _cuts(database.rows("sweep_hours")):
        stretch = prepare(database, field.ruleset, from_us, to_us, players, before)
        before = stretch.trailing
        played = _played(stretch, field)
        done += len(played.winner)
        runs = field.runs(played.played_us, to_us)
        for run in runs:
            cells = played.cell[run.first : run.last]
            field.cell_games[run.part] += np.bincount(cells, minlength=GROUPS * GROUPS)
        for side in (played.winner, played.loser):
            np.maximum.at(field.last_us, side, played.played_us)
        yield played, runs
        report("rating", done, total)
    if done != total:
        raise EnvironmentFault(
            f"{total} games were counted at the door and {done} were rated; nothing was written. This is a fault in eloreplay or "
            "in a library under it, please report it"
        )
    nothing = np.empty(0, np.int64)
    yield Played.none(), field.runs(nothing, LAST_US)


def _cuts(hours: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Half-open stretches of time of at most `STRETCH_GAMES` games (one hour alone may hold more)."""
    start, size = None, 0
    for hour_us, games in hours:
        if start is None:
            start = hour_us
        if size and size + games > STRETCH_GAMES:
            yield start, hour_us
            start, size = hour_us, 0
        size += games
    if start is not None:
        yield start, min(hours[-1][0] + HOUR_US, LAST_US)


def _played(stretch: Stretch, field: Field) -> Played:
    rows, n = stretch.rows, len(stretch.winner)
    weighed = np.array([version.stake.weight for version in field.ruleset.version], np.bool_)
    weight = np.ones(n)
    if weighed.any():
        weight = np.where(weighed[stretch.version], rows["weight"].fill_null(1.0).to_numpy(), 1.0)
    return Played(
        winner=stretch.winner,
        loser=stretch.loser,
        played_us=stretch.played_us,
        score=stretch.score,
        advantage=stretch.advantage,
        weight=weight,
        match_length=stretch.match_length,
        version=stretch.version,
        term=np.searchsorted(field.kind_keys, _kind_keys(rows, stretch.version)).astype(np.int32),
        recent=np.zeros((2, n), np.int32) if stretch.recent is None else stretch.recent,
        cell=(field.group[stretch.winner] * GROUPS + field.group[stretch.loser]).astype(np.int16),
        # Weeks begin on Monday; 1 January 1970 was a Thursday.
        week=((stretch.played_us // DAY_US + 3) // 7).astype(np.int32),
    )


def _kind_keys(rows: pa.Table, version: NDArray[Any]) -> NDArray[np.int64]:
    """One whole number a kind of game: version, power of the cube, match length and result side by side; int64 `(n_rows,)`."""
    # A cube is a power of two, so its exponent says it all; frexp of 2^n is n + 1.
    cube = np.frexp(rows["cube"].fill_null(1).to_numpy().astype(np.float64))[1].astype(np.int64)
    length = rows["match_length"].fill_null(0).to_numpy().astype(np.int64)
    result = pc.index_in(rows["result"], pa.array(RESULTS, pa.string())).fill_null(len(RESULTS)).to_numpy().astype(np.int64)
    keys: NDArray[np.int64] = ((version.astype(np.int64) * 64 + cube) * 2**31 + length) * 4 + result
    return keys
