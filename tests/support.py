"""Helpers of the tests: write inputs, run the command, read outputs, compare with the twin."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import naive
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UTC_US = pa.timestamp("us", tz="UTC")
Row = dict[str, Any]


def ts(text: str) -> int:
    """Microseconds since 1970 of an instant in UTC, `2026-03-01 12:00:00`."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def iso(us: int) -> str:
    """The instant as `--as-of` and `--since` take it."""
    return (EPOCH + timedelta(microseconds=us)).isoformat().replace("+00:00", "Z")


# ---------------------------------------------------------------- inputs

TYPES: dict[str, pa.DataType] = {
    "played_at": UTC_US,
    "awarded_at": UTC_US,
    "mode": pa.string(),
    "cube": pa.int64(),
    "match_length": pa.int64(),
    "result": pa.string(),
    "ended_by": pa.string(),
    "is_draw": pa.bool_(),
    "voided": pa.bool_(),
    "revision": pa.int64(),
    "advantage": pa.float64(),
    "weight": pa.float64(),
    "reason": pa.string(),
}


def table(rows: list[Row], types: dict[str, Any] | None = None, columns: Iterable[str] | None = None) -> pa.Table:
    """An Arrow table; a column's type is the one asked for, the usual one, or what its values say."""
    types = TYPES | (types or {})
    names = list(columns) if columns is not None else list(dict.fromkeys(name for row in rows for name in row))
    arrays = []
    for name in names:
        values = [row.get(name) for row in rows]
        wanted = types.get(name)
        if wanted is not None and pa.types.is_timestamp(wanted) and all(v is None or isinstance(v, int) for v in values):
            arrays.append(pa.array(values, pa.int64()).cast(wanted))
        else:
            arrays.append(pa.array(values, wanted))
    return pa.table(arrays, names=names)


def write(
    path: Path,
    rows: list[Row],
    types: dict[str, Any] | None = None,
    columns: Iterable[str] | None = None,
    row_group_size: int | None = None,
) -> Path:
    """Writes the rows as Parquet and returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows, types, columns), path, row_group_size=row_group_size)
    return path


def game(game_id: Any, when: int | str, winner: Any, loser: Any, **more: Any) -> Row:
    """One row of a games file."""
    return {
        "game_id": game_id,
        "played_at": ts(when) if isinstance(when, str) else when,
        "winner_id": winner,
        "loser_id": loser,
        **more,
    }


def own_rules(
    path: Path,
    *,
    name: str = "own",
    start: float = 1500,
    integer: bool = True,
    divisor: float = 400,
    k: float = 32,
    heavy: tuple[int, float] | None = None,
    cube: bool = False,
    weight: bool = False,
    advantage: bool = False,
    versions: list[dict[str, Any]] | None = None,
) -> Path:
    """Writes a ruleset of the user's own. `versions` (name, from, divisor, k) replaces the single version."""
    lines = [
        f'name = "{name}"',
        f"start = {start}",
        f'rounding = "{"half-away-from-zero" if integer else "none"}"',
        f"advantage = {str(advantage).lower()}",
        "[modes]",
        'rated = ["ranked"]',
    ]
    if heavy:
        lines += ["[count]", "hours = 168"]
    for version in versions or [{"name": "1"}]:
        lines += ["[[version]]", f'name = "{version["name"]}"']
        if "from" in version:
            lines.append(f'from = "{version["from"]}"')
        lines += [f"divisor = {version.get('divisor', divisor)}", f"k = {version.get('k', k)}"]
        if heavy:
            lines.append(f"heavy = {{ games = {heavy[0]}, k = {heavy[1]} }}")
        stake = ['cube = "log2"'] * cube + ["weight = true"] * weight
        if stake:
            lines.append(f"stake = {{ {', '.join(stake)} }}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def own_twin(
    *,
    start: float = 1500,
    integer: bool = True,
    divisor: float = 400,
    k: float = 32,
    heavy: tuple[int, float] | None = None,
    cube: bool = False,
    weight: bool = False,
    advantage: bool = False,
) -> naive.Rules:
    """The twin's form of `own_rules` with the same arguments."""
    version = naive.Version("1", None, divisor, k, heavy=heavy, cube="log2" if cube else None)
    return naive.Rules(
        (version,),
        start,
        integer,
        known=frozenset(),
        window_us=168 * naive.HOUR_US if heavy else None,
        weight=weight,
        advantage=advantage,
    )


# ---------------------------------------------------------------- runs


@dataclass
class Out:
    """What one run left: exit code, messages and, where it published, its tables."""

    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def text(self) -> str:
        return self.stdout + self.stderr

    @property
    def current(self) -> Path:
        return self.folder / "current"

    def ok(self) -> Out:
        assert self.code == 0, f"exit code {self.code}\n{self.text}"
        return self

    def frame(self, name: str) -> pl.DataFrame:
        """A table of the published run; instants stay instants."""
        if name == "timeline":
            files = sorted((self.current / "timeline").glob("*.parquet"))
            assert files, "the run has no timeline file"
            return pl.concat([pl.read_parquet(f) for f in files], how="vertical")
        return pl.read_parquet(self.current / f"{name}.parquet")

    def rows(self, name: str) -> list[Row]:
        """A table as dicts with instants as integer microseconds."""
        frame = self.frame(name)
        times = [c for c, t in frame.schema.items() if isinstance(t, pl.Datetime)]
        return frame.with_columns(pl.col(c).dt.epoch("us") for c in times).to_dicts()

    def manifest(self) -> dict[str, Any]:
        return json.loads((self.current / "manifest.json").read_text(encoding="utf-8"))

    def bins(self) -> dict[str, Any]:
        return self.manifest()["bins"]

    def ratings(self) -> dict[Any, float]:
        return {r["player_id"]: r["rating"] for r in self.rows("players")}

    def changes(self) -> dict[Any, tuple[float, float]]:
        """Of each game: the winner's and the loser's change."""
        return {r["game_id"]: (r["winner_change"], r["loser_change"]) for r in self.rows("timeline")}

    def refused(self) -> list[tuple[str, int, str]]:
        """File, row and reason of every refused row; files by their last name."""
        return sorted((Path(r["file"]).name, r["row"], r["reason"]) for r in self.rows("rejected"))


@dataclass
class Backfill:
    """Runs `eloreplay backfill` with the inputs written under one folder; without the study by slices, unless it is looked at."""

    base: Path
    study: bool = False
    runs: int = field(default=0)

    def arguments(
        self,
        games: list[Row] | dict[str, list[Row]] | Path | list[Path],
        *options: str,
        rules: str | Path = "tavla42",
        out: Path | None = None,
        types: dict[str, Any] | None = None,
        columns: dict[str, list[str]] | None = None,
        aliases: list[Row] | None = None,
        excluded: list[Any] | None = None,
        starts: list[Row] | None = None,
        awards: list[Row] | None = None,
    ) -> tuple[list[str], Path]:
        """The command line without `backfill`'s own defaults, after the inputs have been written."""
        self.runs += 1
        folder = self.base / f"run{self.runs}"
        if isinstance(games, list) and (not games or isinstance(games[0], dict)):
            games = {"games.parquet": games}
        if isinstance(games, dict):
            games = [write(folder / "in" / name, rows, types, columns and columns[name]) for name, rows in games.items()]
        paths = [games] if isinstance(games, Path) else list(games)
        out = out or folder / "out"
        argv = ["backfill", *map(str, paths), "--rules", str(rules), "--out", str(out), "--quiet"]
        argv += [] if self.study else ["--no-study"]
        tables = {
            "--aliases": aliases,
            "--exclude-players": None if excluded is None else [{"player_id": p} for p in excluded],
            "--start-ratings": starts,
            "--awards": awards,
        }
        for option, rows in tables.items():
            if rows:
                argv += [option, str(write(folder / f"{option.strip('-')}.parquet", rows, types))]
        return [*argv, *options], out

    def __call__(self, games: Any, *options: str, **inputs: Any) -> Out:
        """One run in this process."""
        from eloreplay.cli import main

        argv, out = self.arguments(games, *options, **inputs)
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = main(argv)
        return Out(code, stdout.getvalue(), stderr.getvalue(), out)

    def process(self, games: Any, *options: str, env: dict[str, str] | None = None, **inputs: Any) -> Out:
        """One run in a process of its own."""
        argv, out = self.arguments(games, *options, **inputs)
        done = subprocess.run(
            [sys.executable, "-m", "eloreplay", *argv],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.base,
            env=os.environ | (env or {}),
        )
        return Out(done.returncode, done.stdout, done.stderr, out)


# ---------------------------------------------------------------- comparing


def close(found: Any, wanted: Any, exact: bool) -> bool:
    """Equal; floats of the float rules within 1e-9."""
    if found is None or wanted is None:
        return found is wanted
    if isinstance(wanted, float) or isinstance(found, float):
        if exact:
            return found == wanted
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return found == wanted


# floats that come out of a power: two libraries may differ in the last bit
INEXACT = {"winner_expected", "stake"}
NAMED_BY_THE_FILE = {"rule_version"}


def compare(name: str, found: list[Row], wanted: list[Row], whole: bool, order: Any = None) -> None:
    """Row for row, column for column; the message says where the first difference is."""
    if order:
        found, wanted = sorted(found, key=order), sorted(wanted, key=order)
    for i, (f, w) in enumerate(zip(found, wanted, strict=False)):
        for column, value in w.items():
            if column in NAMED_BY_THE_FILE and value is None:
                continue
            assert column in f, f"{name}: no column {column}"
            exact = whole and column not in INEXACT
            assert close(f[column], value, exact), (
                f"{name} row {i}, {column}: found {f[column]!r}, the twin says {value!r}\nfound {f}\ntwin  {w}"
            )
        assert set(f) == set(w), f"{name}: columns {sorted(set(f) ^ set(w))} on one side only"
    assert len(found) == len(wanted), f"{name}: {len(found)} rows, the twin has {len(wanted)}"


def assert_same(out: Out, twin: naive.Result, rules: naive.Rules) -> None:
    """Every table of a run against the twin."""
    out.ok()
    manifest = out.manifest()
    assert manifest["rows_read"] == twin.rows_read
    assert manifest["bins"] == twin.bins
    refused = out.refused()
    assert len(refused) == len(set(refused)) == len(twin.rejected)
    for places, reason in twin.rejected:
        found = [line for line in refused if line in {(Path(file).name, row, reason) for file, row in places}]
        assert len(found) == 1, f"one of {places} is refused for {reason}; found {found}"
    if twin.timeline:
        compare("timeline", out.rows("timeline"), twin.timeline, rules.whole)

    def by_id(row: Row) -> Any:
        return (str(row.get("pool")), naive.order_key(row["player_id"]))

    compare("players", out.rows("players"), twin.players, rules.whole, by_id)
    if rules.whole:  # under float rules two ratings may tie on one side only
        compare("leaderboard", out.rows("leaderboard"), twin.leaderboard, True)
    else:
        compare("leaderboard", out.rows("leaderboard"), twin.leaderboard, False, by_id)
