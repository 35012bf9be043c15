"""Folders whose pages are looked at, each made when it is first asked for; and what stands on a page."""

from __future__ import annotations

import contextlib
import io
import json
import random
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from support import TYPES, Backfill, Out, Row, game, own_rules, ts, write

from eloreplay.cli import main

DAY = 86_400_000_000
SCRIPT = "<script>alert(1)</script>"
HOSTILE = (
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "x" * 130,
    "\u202egnp.exe",
    "line\nbreak",
    "{{ 7 * 7 }}",
    "</svg></title><b>",
    "&lt;b&gt;",
)
VERSIONS = [
    {"name": "<i>first</i> & co", "divisor": 400},
    {"name": "second \U0001f3b2 " + "long" * 20, "from": "2026-02-20", "divisor": 1200, "k": 24},
]
AS_OF = ("--as-of", "2026-05-01T00:00:00Z")


def call(*argv: Any) -> tuple[int, str, str]:
    """Exit code and output of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in argv])
    return code, out.getvalue(), err.getvalue()


def some_games(seed: int, n: int, *, players: int = 40, days: int = 100, ids: Any = None, **more: Any) -> list[Row]:
    """Games in which the first of the players are the stronger ones."""
    rng = random.Random(seed)
    start = ts("2026-01-10 00:00:00")
    named = ids or [f"p{number}" for number in range(players)]
    rows = []
    for at in range(n):
        first, second = rng.sample(range(players), 2)
        if rng.random() > 0.5 + (second - first) / 3 / players:
            first, second = second, first
        extra = {name: rng.choice(values) for name, values in more.items()}
        rows.append(game(f"g{at}", start + rng.randrange(days * DAY // 1000) * 1000, named[first], named[second], **extra))
    return rows


@dataclass
class Site:
    """Every kind of folder that has a page."""

    base: Path
    made: dict[str, Path] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Path:
        """The folder with report.html in it."""
        if name not in self.made:
            # A run stays what `current` leads to at that moment.
            self.made[name] = getattr(self, f"_{name}")().resolve()
        return self.made[name]

    def page(self, name: str) -> Path:
        return self[name] / "report.html"

    def run(self, name: str, rows: Any, *options: str, study: bool = True, **inputs: Any) -> Out:
        folder = self.base / name
        folder.mkdir(exist_ok=True)
        return Backfill(folder, study=study)(rows, *options, *(() if "--as-of" in options else AS_OF), **inputs).ok()

    def _history(self) -> Path:
        """Two versions, a heavy week, dirt, awards and hostile names; then a night with late games."""
        ids = [*HOSTILE, *(f"p{number}" for number in range(40 - len(HOSTILE)))]
        # A hostile name stands at the top of the board: the first are the strongest.
        rows = some_games(1, 1500, ids=ids, cube=[1, 1, 2, 8])
        rows += [game("self", ts("2026-02-01"), "p1", "p1"), game("gone", ts("2026-02-01"), None, "p1")]
        rows += [game("g0", ts("2026-01-11"), "p2", "p3", revision=2), game("v", ts("2026-02-02"), "p2", "p3", voided=True)]
        rules = own_rules(self.base / "history.toml", name="<u>rules</u>", heavy=(8, 12), cube=True, versions=VERSIONS)
        awards = [{"award_id": "a1", "awarded_at": ts("2026-03-01"), "player_id": "p5", "points": 40, "reason": SCRIPT}]
        out = self.run("history", rows, "--max-rejected", "5%", rules=rules, awards=awards)
        source = self.base / "history" / "run1" / "in"
        late = [game("late", ts("2026-02-03"), "p7", SCRIPT), *some_games(3, 30, ids=ids, days=111)]
        write(source / "more.parquet", [row | {"game_id": f"n{at}"} for at, row in enumerate(late)])
        code, _, err = call("nightly", source, "--out", out.folder, "--quiet", "--accept-changes", *AS_OF)
        assert code == 0, err
        return out.current

    def _rollback(self) -> Path:
        folder = self["history"].parents[1]
        code, _, err = call("rollback", folder, 1, "--quiet")
        assert code == 0, err
        return folder / "runs" / "000003"

    def _what_if(self) -> Path:
        void = write(self.base / "void.parquet", [{"game_id": f"g{at}"} for at in range(20)])
        code, _, err = call("what-if", self["plain"].parents[1], "--to", self.base / "answer", "--void", void, "--quiet")
        assert code == 0, err
        return self.base / "answer" / "current"

    def _calibrate(self) -> Path:
        to = self.base / "study"
        code, _, err = call("calibrate", self["history"].parents[1], "--to", to, "--bootstrap", 20, "--quiet")
        assert code == 0, err
        return to

    def _sweep(self, name: str, *options: str, rules: str = "tavla42") -> Path:
        source = write(self.base / "sweep" / "games.parquet", some_games(4, 400))
        code, _, err = call("sweep", source, "--rules", rules, "--out", self.base / name, "--quiet", *AS_OF, *options)
        assert code == 0, err
        return self.base / name

    def _sweep_none(self) -> Path:
        return self._sweep("sweep0")

    def _sweep_one(self) -> Path:
        return self._sweep("sweep1", "--vary", "divisor=400:2000:400", "--bootstrap", "50")

    def _sweep_two(self) -> Path:
        return self._sweep("sweep2", "--vary", "divisor=400:2400:400", "--vary", "heavy.games=5,50,none", "--bootstrap", "0")

    def _sweep_three(self) -> Path:
        return self._sweep("sweep3", "--vary", "divisor=400,1200", "--vary", "k=16,32", "--vary", "heavy.games=5,none")

    def _sweep_unscored(self) -> Path:
        return self._sweep("sweep4", "--vary", "divisor=400,1200", "--train-until", "2027-01-01")

    def _few(self) -> Path:
        """One version; the last month has three games, and the weaker side won them."""
        rows = some_games(7, 900)
        late = [game(f"l{at}", ts("2026-05-02") + at, f"p{39 - at}", f"p{at}") for at in range(3)]
        return self.run("few", [*rows, *late], "--as-of", "2026-05-03T00:00:00Z").current

    def _still(self) -> Path:
        """A night of few games: most of the board does not move, and some lines are passed by others."""
        out = self.run("still", some_games(9, 600))
        more = [game(f"n{at}", ts("2026-04-28") + at, f"p{20 + at % 3}", f"p{at % 4}") for at in range(24)]
        write(self.base / "still" / "run1" / "in" / "more.parquet", more)
        code, _, err = call("nightly", self.base / "still" / "run1" / "in", "--out", out.folder, "--quiet", *AS_OF)
        assert code == 0, err
        return out.current

    def _plain(self) -> Path:
        """Without the study, with a column that the rules do not use, and games after the as-of."""
        rows = [*some_games(5, 200, weight=[1.0, 2.0]), game("later", ts("2026-06-01"), "p1", "p2", weight=1.0)]
        return self.run("plain", rows, study=False).current

    def _empty(self) -> Path:
        names = ("game_id", "winner_id", "loser_id")
        columns = {"games.parquet": [*names, "played_at"]}
        return self.run("empty", {"games.parquet": []}, columns=columns, types=TYPES | dict.fromkeys(names, pa.string())).current

    def _one(self) -> Path:
        return self.run("one", [game("g", ts("2026-03-01"), "a", "b")]).current

    def _equals(self) -> Path:
        """Nobody ever plays twice, so nobody is a favourite."""
        return self.run("equals", [game(f"g{at}", ts("2026-03-01") + at, f"a{at}", f"b{at}") for at in range(30)]).current

    def _unranked(self) -> Path:
        return self.run("unranked", [row | {"mode": "casual"} for row in some_games(6, 50)]).current

    def _floats(self) -> Path:
        """Float ratings, matches, draws, ids that are numbers, and an as-of long after the last game."""
        rows = some_games(7, 300, ids=list(range(40)), match_length=[1, 3, 5, 7], is_draw=[False, False, True])
        return self.run("floats", rows, "--as-of", "2027-01-01", rules="nardy").current

    def _pools(self) -> Path:
        """Seven ladders, one with a hostile name, one whose games are all unrated."""
        names = [SCRIPT, "blitz", "a", "b", "c", "d", "e"]
        rows = some_games(8, 500, ladder=names[:6]) + [row | {"ladder": "e", "mode": "casual"} for row in some_games(9, 5)]
        for at, row in enumerate(rows):
            row["game_id"] = f"g{at}"
        return self.run("pools", rows, "--pool", "ladder").current


RUNS = ("history", "rollback", "what_if", "plain", "empty", "one", "equals", "unranked", "floats", "pools")
STUDIES = ("calibrate", "sweep_none", "sweep_one", "sweep_two", "sweep_three", "sweep_unscored")
PAGES = RUNS + STUDIES


@dataclass
class Shown:
    """A figure on a page."""

    value: Any
    source: list[Any]
    text: str


class Reader(HTMLParser):
    """Figures, tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.figures: list[Shown] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._figure: Shown | None = None
        self._skip = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        self._skip = tag == "style"
        if tag == "data":
            value, source = found["value"], found["data-from"]
            assert value is not None
            assert source is not None
            self._figure = Shown(json.loads(value), json.loads(source), "")

    def handle_endtag(self, tag: str) -> None:
        self._skip = False
        if tag == "data" and self._figure is not None:
            self.figures.append(self._figure)
            self._figure = None

    def handle_data(self, data: str) -> None:
        if self._skip:
            return
        self.text.append(data)
        if self._figure is not None:
            self._figure.text += data


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader


class Cells:
    """Looks cells of a folder's tables up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))

    @cache  # noqa: B019
    def _index(self, name: str, columns: tuple[str, ...]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        """Rows of a table by these columns."""
        found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in pl.read_parquet(self.folder / f"{name}.parquet").iter_rows(named=True):
            found.setdefault(tuple(row[column] for column in columns), []).append(row)
        return found

    def value(self, source: list[Any]) -> Any:
        """What stands in the cell that a figure names."""
        if source[0] == "manifest":
            found = self.manifest
            for key in source[1]:
                found = found[key]
            return found
        name, key, column = source
        (row,) = self._index(name, tuple(key))[tuple(key.values())]
        return row[column]
