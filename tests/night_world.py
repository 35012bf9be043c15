"""A site as the oracle of `nightly` needs it: its rules, its delivered files, its side tables, and how all that gets onto the disk."""

from __future__ import annotations

import os
import random
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import naive
import pyarrow as pa
import pyarrow.parquet as pq
import support
from support import Row

HOUR, DAY = naive.HOUR_US, naive.DAY_US
WEEK = 7 * DAY
NAMES = ["Ann", "ann ", "ann", "Zoë", "Zoe\u0308", "007", "7", "\uff5a", "\U0001f3b2", "O'Hara", 'a"b', "x,y"]
GAME_COLUMNS = [
    "game_id", "played_at", "winner_id", "loser_id", "mode", "cube", "match_length", "result", "ended_by", "is_draw", "voided", "revision",
    "advantage", "weight",
]  # fmt: skip


# ---------------------------------------------------------------- rules


def own_rules(kind: str, rng: random.Random, instants: list[int]) -> str:
    """A ruleset of one's own; dated things happen at instants of the history."""
    head = f'name = "own"\nstart = 1500\nrounding = "{rng.choice(("none", "half-away-from-zero"))}"\n'
    modes = '[modes]\nrated = ["ranked"]\nunrated = ["boosted", "casual", "tournament"]\n'
    at = [support.iso(us) for us in sorted(rng.sample(sorted(set(instants)), min(3, len(set(instants)))))]
    if kind == "window":
        return (
            head + modes + f"[count]\nhours = 168\n[[version]]\nname = '1'\ndivisor = {rng.choice((400, 1200))}\nk = 32\n"
            f"heavy = {{ games = {rng.randrange(3, 15)}, k = 12.5 }}\nstake = {{ cube = 'log2' }}\n"
        )
    if kind == "steps":
        return (
            head + "floor = 1300\ncap = 1700\nmax_change = 30\n" + modes + "[[version]]\nname = '1'\ndivisor = 400\n"
            "k_by_games = [{ from = 0, k = 60 }, { from = 5, k = 30 }, { from = 12, k = 20 }]\n"
            "[[band]]\nname = 'low'\nfrom = 1350\n[[band]]\nname = 'high'\nfrom = 1550\n"
        )
    if kind == "by rating":
        return (
            head + "advantage = true\n[count]\nhours = 30\n[[version]]\nname = '1'\ndivisor = 300\n"
            "k_by_rating = [{ from = 0, k = 48 }, { from = 1500, k = 32 }, { from = 1560, k = 12 }]\n"
            "heavy = { games = 4, factor = 0.5 }\nstake = { weight = true, result = { gammon = 2, backgammon = 3 } }\n"
        )
    text = head + "[count]\nhours = 168\n[[version]]\nname = 'one'\ndivisor = 400\nk = 40\nheavy = { games = 6, k = 20 }\n"
    if len(at) > 1:
        text += f"[[version]]\nname = 'two'\nfrom = '{at[1]}'\ndivisor = 2000\ndivide_by = 'sqrt_match_length'\nk = 1\n"
        text += "ramp = { height = 5, length = 60, experience = 'before' }\nstake = { base = 4, match_length = 'sqrt' }\n"
    texts = ["pull_to = 1500\nfactor = 0.5", "add = 25", "floor = 1450"]
    due = [*dict.fromkeys(at[:2]), support.iso(max(instants) + rng.choice((1, DAY, 5 * DAY)))]
    for number, (instant, what) in enumerate(zip(due, texts, strict=False)):
        text += f"[[adjustment]]\nname = 'step {number}'\nat = '{instant}'\n{what}\n"
    return text


# ---------------------------------------------------------------- the world


@dataclass
class File:
    """One delivered file: its rows and how they are written.

    Attributes:
        unit: of its instants.
        small: whether integer ids are written with 32 bits.
        absent: optional columns that it does not have.
        group: rows of a row group.
    """

    rows: list[Row]
    unit: str = "us"
    small: bool = False
    absent: frozenset[str] = frozenset()
    group: int | None = None
    plain: bool = True


@dataclass
class World:
    """A site: what it has delivered and which side tables it keeps. Edits change it, `write` puts it on the disk."""

    base: Path
    numbers: bool
    game_numbers: bool
    players: list[Any]
    pool: bool
    dirt: float
    start: int
    as_of: int
    before: int
    files: dict[str, File] = field(default_factory=dict)
    aliases: dict[Any, Any] | None = None
    excluded: list[Any] | None = None
    awards: list[Row] | None = None
    starts: dict[Any, Row] | None = None
    whole: bool = True
    ramp: bool = False
    next_game: int = 0
    next_file: int = 0
    vanished: bool = False
    archive: dict[str, File] = field(default_factory=dict)
    sealed: int | None = None
    seal_now: bool = False
    read: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    tables: dict[str, Path] = field(default_factory=dict)
    table_texts: dict[str, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.base / "in"

    @property
    def archive_folder(self) -> Path:
        return self.base / "archive"

    def rows(self) -> list[Row]:
        return [row for files in (self.files, self.archive) for file in files.values() for row in file.rows]

    def last_of(self, name: str) -> int | None:
        """The last instant of a file's rows that have every id and a time."""
        needed = ("game_id", "winner_id", "loser_id", "played_at", *(["ladder"] if self.pool else []))
        return max((r["played_at"] for r in self.files[name].rows if all(r[c] is not None for c in needed)), default=None)

    def is_sealed(self, name: str) -> bool:
        """Whether the file, as the last night read it, would be taken for archived if it vanished."""
        if self.sealed is None or name not in self.read:
            return False
        last = self.read[name][1]
        return last is None or last < self.sealed

    def was_read(self) -> None:
        """A night has read everything as it stands."""
        self.read = {name: (repr(file), self.last_of(name)) for name, file in self.files.items()}
        self.before, self.vanished, self.seal_now = self.as_of, False, False

    def named(self) -> list[Row]:
        """Rows that another row can be a copy of."""
        return [r for r in self.rows() if r["game_id"] is not None]

    def instants(self) -> list[int]:
        return [r["played_at"] for r in self.rows() if r["played_at"] is not None] or [self.start]

    def new_id(self, rng: random.Random) -> Any:
        """An id that was not given before, above or below those that were."""
        self.next_game += 1
        number = self.next_game * 7 % 1009 + 1009 * (self.next_game // 1009) - 300
        return number if self.game_numbers else rng.choice(("g", "G", "é")) + str(number)

    def game(self, rng: random.Random, at: int | None, dirt: float | None = None) -> Row:
        """A new game, mostly a good one."""
        winner, loser = rng.sample(self.players, 2)
        row: Row = {
            "game_id": self.new_id(rng),
            "played_at": at,
            "winner_id": winner,
            "loser_id": loser,
            "mode": rng.choice(("ranked", "ranked", "ranked", None, "ranked", "ranked", "boosted", "casual")),
            "cube": rng.choice((1, 1, 2, 4, 64, None)),
            "match_length": rng.choice((1, 3, 5, 7, 25)),
            "result": rng.choice(("single", "single", None, "gammon", "backgammon")),
            "ended_by": rng.choice((None, "resigned")),
            "is_draw": rng.choice((False, False, False, None, True)),
            "voided": rng.choice((False, False, None)),
            "revision": rng.choice((None, None, 0, 1)),
            "advantage": rng.choice((None, 0.0, 65.0, -100.0)),
            "weight": rng.choice((None, 1.0, 0.5, 2.0)),
        }
        if self.pool:
            row["ladder"] = rng.choice(("gold", "silver", "Ä"))
        if rng.random() < (self.dirt if dirt is None else dirt):
            spoil(row, rng)
        return row

    def add(self, rng: random.Random, rows: list[Row], name: str | None = None) -> str:
        """A new file with these rows; its name says nothing about its age."""
        self.next_file += 1
        name = name or f"{rng.choice(('part', 'b/x', 'a', 'z/y/w'))}_{self.next_file}.parquet"
        rows = list(rows)
        rng.shuffle(rows)
        optional = ["mode", "cube", "result", "ended_by", "advantage", "weight", "revision", "is_draw", "voided"]
        needless = [c for c in optional if all(r.get(c) is None for r in rows)]
        self.files[name] = File(
            rows,
            unit=rng.choice(("us", "us", "us", "ns")),
            small=rng.random() < 0.2,
            absent=frozenset(needless) if rng.random() < 0.5 else frozenset(),
            group=rng.choice((None, None, 3)),
            plain=rng.random() < 0.5,
        )
        return name

    # ---- on the disk

    def _types(self, small: bool = False) -> dict[str, Any]:
        number = pa.int32() if small else pa.int64()
        player = number if self.numbers else pa.string()
        return {
            "game_id": number if self.game_numbers else pa.string(),
            **dict.fromkeys(("winner_id", "loser_id", "player_id", "alias_id"), player),
            "ladder": pa.string(),
            "award_id": pa.int64(),
            "points": pa.float64(),
            "rating": pa.float64(),
            "games": pa.int64(),
            "experience": pa.float64(),
        }

    def _arrow(self, file: File) -> pa.Table:
        columns = [c for c in [*GAME_COLUMNS, *(["ladder"] if self.pool else [])] if c not in file.absent]
        table = support.table(file.rows, self._types(file.small), columns)
        if file.unit == "ns":
            # Up to 999 ns later than the microsecond that is meant, so the floor of both is the same.
            values = [
                None if r["played_at"] is None else r["played_at"] * 1000 + zlib.crc32(repr(r["game_id"]).encode()) % 1000
                for r in file.rows
            ]
            stamps = pa.array(values, pa.int64()).cast(pa.timestamp("ns", tz="UTC"))
            table = table.set_column(columns.index("played_at"), "played_at", stamps)
        return table

    def _put(self, path: Path, file: File) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = {"compression": "none", "use_dictionary": False} if file.plain else {}
        partial = path.with_name(f".{path.name}.partial")
        pq.write_table(self._arrow(file), partial, row_group_size=file.group, **options)
        os.replace(partial, path)

    def write(self, keep_time: frozenset[str] = frozenset()) -> None:
        """Bring the folder up to date: only files that changed are written, and `keep_time` names those whose time is put back."""
        for name in list(self.written):
            if name not in self.files:
                (self.folder / name).unlink()
                del self.written[name]
        for name, file in self.files.items():
            text = repr(file)
            if self.written.get(name) == text:
                continue
            path = self.folder / name
            before = path.stat() if path.exists() else None
            if name in keep_time and before is not None:
                content = self.base / "content"
                self._put(content, file)
                path.write_bytes(content.read_bytes())  # in place: the same inode
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
                self.log.append(f"{name}: time put back, size {before.st_size} -> {path.stat().st_size}")
            else:
                self._put(path, file)
            self.written[name] = text

    def final(self, player: Any) -> Any:
        while player in (self.aliases or {}):
            player = (self.aliases or {})[player]
        return player

    def side_tables(self) -> dict[str, tuple[list[Row], list[str]] | None]:
        """Option to rows and columns; None: never given."""
        starts = None
        if self.starts is not None:
            once: dict[Any, Row] = {}
            for player, row in self.starts.items():  # two accounts of one player would have two start ratings
                once.setdefault(self.final(player), row)
            starts = list(once.values())
        ladder = ["ladder"] if self.pool else []
        extra = ["experience"] if self.ramp else []
        return {
            "--aliases": None
            if self.aliases is None
            else ([{"alias_id": a, "player_id": b} for a, b in self.aliases.items()], ["alias_id", "player_id"]),
            "--exclude-players": None if self.excluded is None else ([{"player_id": p} for p in self.excluded], ["player_id"]),
            "--awards": None
            if self.awards is None
            else (self.awards, [*ladder, "award_id", "awarded_at", "player_id", "points", "reason"]),
            "--start-ratings": None if starts is None else (starts, [*ladder, "player_id", "rating", "games", *extra]),
        }

    def write_tables(self, rng: random.Random) -> list[str]:
        """Write the side tables that changed; returns the options to give: a table in its old place needs none."""
        options: list[str] = []
        for option, content in self.side_tables().items():
            if content is None:
                continue
            text = repr(content)
            known = self.tables.get(option)
            if known is not None and self.table_texts[option] == text:
                if rng.random() < 0.2:
                    options += [option, str(known)]
                continue
            if known is None or rng.random() < 0.5:
                self.next_file += 1
                path = self.base / "side" / f"{option.strip('-')}_{self.next_file}.parquet"
                options += [option, str(path)]
            else:
                path = known
            support.write(path, content[0], self._types(), content[1])
            self.tables[option], self.table_texts[option] = path, text
        return options

    def table_options(self) -> list[str]:
        return [part for option, path in self.tables.items() for part in (option, str(path))]


def spoil(row: Row, rng: random.Random) -> None:
    """One thing about the row is wrong, or at least unusual."""
    column, value = rng.choice(
        (
            ("game_id", None),
            ("winner_id", None),
            ("loser_id", None),
            ("played_at", None),
            ("voided", True),
            ("mode", "ranqued"),
            ("loser_id", row["winner_id"]),
            ("cube", rng.choice((0, 3, -2, 128, 1_712_345_678))),
            ("match_length", rng.choice((None, 0, 1000, 2**40))),
            ("result", "triple"),
            ("weight", rng.choice((float("nan"), float("inf"), -1.0))),
            ("advantage", rng.choice((float("nan"), float("inf")))),
        )
    )
    row[column] = value


def brief(rows: list[Row]) -> str:
    """Rows as a person wants to read them."""
    shown = [
        f"{r['game_id']!r} {'-' if r['played_at'] is None else support.iso(r['played_at'])} {r['winner_id']!r}>{r['loser_id']!r}"
        + (f" r{r['revision']}" if r["revision"] is not None else "")
        for r in rows
    ]
    return "; ".join(shown)
