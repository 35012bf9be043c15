"""Helpers of the tests of `nightly`: run it, look at what is published, and hold a run against a fresh backfill.

Equal means what the specification says: same schema, same rows in the same order, every value exactly, floats bit by bit. Refused
rows are equal but for file and row, in any order; `changes` compares with the run before and so stands beside this.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
from support import Out

#: Whole-run figures of the manifest that a night and a backfill share.
FIGURES = ("rows_read", "bins", "award_rows_read", "award_bins", "players", "as_of", "as_of_us")
#: Tables whose rows have a place in a file.
PLACED = ("rejected", "rejected_awards")


def command(argv: Sequence[str | Path], out: Path) -> Out:
    """One command in this process."""
    from eloreplay.cli import main

    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main([str(part) for part in argv])
    return Out(code, stdout.getvalue(), stderr.getvalue(), out)


def night(games: Path | Sequence[Path], out: Path, *options: str | Path, quiet: bool = True) -> Out:
    """One `eloreplay nightly` in this process."""
    paths = [games] if isinstance(games, Path) else list(games)
    return command(["nightly", *paths, "--out", out, *(["--quiet"] if quiet else []), *options], out)


def night_command(games: Path | Sequence[Path], out: Path, *options: str | Path) -> list[str]:
    """The same as a command for a process of its own."""
    paths = [games] if isinstance(games, Path) else list(games)
    return [sys.executable, "-m", "eloreplay", "nightly", *map(str, paths), "--out", str(out), "--quiet", *map(str, options)]


def seen(out: Path) -> dict[str, str]:
    """What a reader of the folder can see: where `current` leads and the digest of every file behind it."""
    if not os.path.lexists(out / "current"):
        return {}
    run = (out / "current").resolve()
    files = {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in run.rglob("*") if path.is_file()}
    return {"current": os.readlink(out / "current"), **files}


def timeline(run: Path) -> pl.DataFrame:
    """All files of a run's timeline in order of their names, after a look at their schemas."""
    files = sorted((run / "timeline").glob("*.parquet"))
    assert files, f"{run} has no timeline file"
    schemas = {pq.read_schema(path).remove_metadata() for path in files}
    assert len(schemas) == 1, f"the timeline of {run} has {len(schemas)} schemas"
    return pl.concat([pl.read_parquet(path) for path in files], how="vertical")


def tables(run: Path) -> dict[str, pl.DataFrame]:
    """Every table of a run but `changes`."""
    found = {path.stem: pl.read_parquet(path) for path in sorted(run.glob("*.parquet")) if path.stem != "changes"}
    for name in PLACED:
        if name in found:
            frame = found[name].drop("file", "row")
            found[name] = frame.sort(frame.columns, nulls_last=True)
    return {"timeline": timeline(run), **found}


def bits(frame: pl.DataFrame) -> pl.DataFrame:
    """Floats as the integers that have their bits: -0.0 is not 0.0, and every NaN is itself."""
    return frame.with_columns(
        pl.when(pl.col(name).is_null()).then(None).otherwise(frame[name].reinterpret(dtype=pl.Int64)).alias(name)
        for name, kind in frame.schema.items()
        if kind == pl.Float64
    )


def first_difference(name: str, mine: pl.DataFrame, theirs: pl.DataFrame) -> str | None:
    """What differs first between two tables, in words; None when they are equal."""
    if mine.schema != theirs.schema:
        return f"{name}: schema {mine.schema}, fresh {theirs.schema}"
    left, right = bits(mine), bits(theirs)
    if left.equals(right, null_equal=True):
        return None
    for at, (one, other) in enumerate(zip(left.rows(), right.rows(), strict=False)):
        if one != other:
            columns = [column for column, a, b in zip(left.columns, one, other, strict=True) if a != b]
            return (
                f"{name} row {at}, {', '.join(columns)}:\n  found {mine.row(at, named=True)}\n  fresh {theirs.row(at, named=True)}"
            )
    return f"{name}: {mine.height} rows, fresh {theirs.height}"


def player_timeline(run: Path) -> pl.DataFrame:
    """The view `player_timeline` as a reader of the run's database gets it."""
    with duckdb.connect(str(run / "ratings.duckdb"), read_only=True) as connection:
        return connection.sql("select * from player_timeline order by all").pl()


def differences(out: Path, fresh: Path, views: bool = False) -> list[str]:
    """What a published run has other than a fresh backfill has; `views` also reads the view of a player's games."""
    mine, theirs = (out / "current").resolve(), (fresh / "current").resolve()
    found: list[str] = []
    one, other = (json.loads((run / "manifest.json").read_text(encoding="utf-8")) for run in (mine, theirs))
    found += [f"manifest {key}: {one.get(key)}, fresh {other[key]}" for key in FIGURES if one.get(key) != other[key]]
    # Not where the rules came from, but what they are.
    found += [f"rules {key}" for key in ("name", "digest", "content") if one["rules"].get(key) != other["rules"][key]]
    left, right = tables(mine), tables(theirs)
    if set(left) != set(right):
        found.append(f"tables {sorted(left)}, fresh {sorted(right)}")
    for name in right:
        difference = first_difference(name, left[name], right[name]) if name in left else None
        if difference:
            found.append(difference)
        if name not in ("timeline", *PLACED) and name in left:
            schemas = [pq.read_schema(run / f"{name}.parquet") for run in (mine, theirs)]
            if not schemas[0].equals(schemas[1], check_metadata=False):
                found.append(f"{name}: schema {schemas[0]}, fresh {schemas[1]}")
    if views:
        difference = first_difference("player_timeline", player_timeline(mine), player_timeline(theirs))
        found += [difference] if difference else []
    return [*found, *chunk_faults(mine, one)]


def chunk_faults(run: Path, manifest: dict[str, Any]) -> list[str]:
    """What the manifest says of the chunks and does not hold."""
    faults, done, files = [], 0, []
    for chunk in manifest["chunks"]:
        rows = pq.read_metadata(run / chunk["file"]).num_rows
        files.append(chunk["file"])
        if (rows, chunk["first_seq"]) != (chunk["games"], done + 1):
            faults.append(f"chunk {chunk}: {rows} rows in its file, {done} games before it")
        done += rows
    if done != manifest["bins"]["rated"]:
        faults.append(f"the chunks hold {done} games, {manifest['bins']['rated']} are rated")
    standing = sorted(f"timeline/{path.name}" for path in (run / "timeline").glob("*.parquet"))
    if files and files != standing:
        faults.append(f"chunks name {files}, and there stand {standing}")
    return faults


def assert_equal(out: Path, fresh: Path, views: bool = True) -> None:
    """The published run is what a fresh backfill publishes."""
    found = differences(out, fresh, views)
    assert not found, "\n".join(found)
