"""The Python API: a history as a frame, a relation or files in, ratings as Polars frames out.

It stands on what the commands stand on: `replay` is a backfill into a folder of its own, `calibrate` is the study of a run. What
is in memory goes through the door as a temporary file, so that it is checked, ordered and rated by the very same code.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeAlias, runtime_checkable

import duckdb
import polars as pl
import pyarrow as pa

from eloreplay import columns as contract
from eloreplay.backfill import backfill
from eloreplay.calibrate import StudyOptions, parse_slices, run_study
from eloreplay.columns import ColumnMapping, load_mapping
from eloreplay.errors import InputRefused, UsageFault
from eloreplay.games import Inputs
from eloreplay.instants import now_us, parse_us, to_us
from eloreplay.keep_copy import keep_copy
from eloreplay.publish import BoardOptions, read_manifest
from eloreplay.published import named_run
from eloreplay.queries import DEFAULT_MEMORY, Database, sql_text
from eloreplay.rowstore import files_sql
from eloreplay.rules import Ruleset, load_ruleset, rules_source, ruleset_from_dict
from eloreplay.run import RunOptions
from eloreplay.tables import parquet_writer


@runtime_checkable
class ArrowStream(Protocol):
    """Whatever hands out its rows as an Arrow stream: an Arrow table, a DuckDB relation, a frame of another library."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The stream."""
        ...


#: A table: in memory, or one or more files, folders and wildcards.
Table: TypeAlias = (
    pl.DataFrame | pl.LazyFrame | duckdb.DuckDBPyRelation | ArrowStream | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
)
#: An instant: ISO 8601 text or a datetime; UTC unless it carries a zone.
Instant: TypeAlias = Any


class Replay:
    """A rated history; `replay` and `open_run` make one.

    Tables are read when they are first asked for and then kept. Their columns are those of docs/outputs.md.

    Example:
        >>> import eloreplay, polars as pl
        >>> games = pl.DataFrame({
        ...     "game_id": [1, 2],
        ...     "played_at": pl.Series(["2026-10-01T12:00Z", "2026-10-01T13:00Z"]).str.to_datetime(),
        ...     "winner_id": ["ana", "ana"],
        ...     "loser_id": ["bo", "vi"],
        ... })
        >>> rated = eloreplay.replay(games, rules="tavla42")
        >>> rated.leaderboard.select("rank", "player_id", "rating").rows()
        [(1, 'ana', 1532), (2, 'bo', 1484), (2, 'vi', 1484)]

    Attributes:
        folder: the run's folder; a temporary one, which goes with this object, unless the run was published somewhere.
    """

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self.folder = folder
        # A temporary folder is removed with this object, or at the end of the process.
        self._clean = None if home is None else weakref.finalize(self, shutil.rmtree, home, ignore_errors=True)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the run read, by which rules, with which result."""
        return read_manifest(self.folder)

    @property
    def rules(self) -> Ruleset:
        """The rules that it was rated by."""
        rules = self.manifest["rules"]
        return ruleset_from_dict(rules["content"], f"the manifest's rules {rules['name']}")

    def scan(self, table: str) -> pl.LazyFrame:
        """One of the run's tables (`"timeline"`, `"players"`, …) as a lazy frame, for histories that are larger than memory.

        Raises:
            UsageFault: there is no such table.
        """
        found = sorted((self.folder / "timeline").glob("*.parquet")) if table == "timeline" else [self.folder / f"{table}.parquet"]
        if not all(path.is_file() for path in found):
            names = ", ".join(["timeline", *sorted(path.stem for path in self.folder.glob("*.parquet"))])
            raise UsageFault(f"{table!r}: there is no such table; there are {names}")
        return pl.scan_parquet(found, glob=False, hive_partitioning=False)

    @cached_property
    def timeline(self) -> pl.DataFrame:
        """One row a rated game, in order."""
        return self.scan("timeline").collect()

    @cached_property
    def players(self) -> pl.DataFrame:
        """One row a player: rating, games, peak."""
        return self.scan("players").collect()

    @cached_property
    def leaderboard(self) -> pl.DataFrame:
        """The top of the players."""
        return self.scan("leaderboard").collect()

    @cached_property
    def rejected(self) -> pl.DataFrame:
        """Every refused row, with its place, the reason and its own values as text."""
        return self.scan("rejected").collect()

    @cached_property
    def player_timeline(self) -> pl.DataFrame:
        """One row a player and game or award, each player's in order: his rating before, the change, his rating after."""
        pool = "pool" in pl.read_parquet_schema(self.folder / "players.parquet")
        nobody = "" if pool else "null::varchar as pool, "
        with tempfile.TemporaryDirectory(prefix="eloreplay-") as scratch:
            database = Database(None, threads=os.cpu_count() or 1, memory_limit=DEFAULT_MEMORY, spill=Path(scratch) / "spill")
            try:
                for name, files in (
                    ("timeline", sorted((self.folder / "timeline").glob("*.parquet"))),
                    ("awards", [self.folder / "awards.parquet"]),
                ):
                    database.execute(
                        f"create view {name} as select {nobody}* from read_parquet({files_sql(files)}, hive_partitioning = false)"
                    )
                found = database.arrow_of(
                    f"select * {'' if pool else 'exclude (pool) '}from ({sql_text('player_timeline')}) "
                    f"order by {'pool, ' if pool else ''}player_id, played_at, seq is not null, award_id nulls first, seq"
                )
            finally:
                database.close()
        frame = pl.from_arrow(found)
        assert isinstance(frame, pl.DataFrame)
        return frame

    @cached_property
    def bins(self) -> pl.DataFrame:
        """What became of the rows that were read: `bin`, `reason` (of refused rows, else NULL) and `rows`, which add up."""
        rows: list[tuple[str, str | None, int]] = []
        for name, found in self.manifest["bins"].items():
            rows += [(name, reason, n) for reason, n in found.items()] if isinstance(found, dict) else [(name, None, found)]
        return pl.DataFrame(rows, schema={"bin": pl.String, "reason": pl.String, "rows": pl.Int64}, orient="row")

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Publish the run in a new or empty folder, as `eloreplay backfill --out` does; returns the run's folder there.

        Raises:
            UsageFault: there are runs in the folder, or something that is not ours.
            EnvironmentFault: disk, permission.
        """
        return keep_copy(self.folder, self.manifest, Path(folder))

    def close(self) -> None:
        """Remove the temporary folder now; what has been read stays."""
        if self._clean is not None:
            self._clean()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        rated, rules = self.manifest["bins"]["rated"], self.manifest["rules"]["name"]
        return f"<eloreplay.Replay of {rated} rated games and {self.manifest['players']} players, rules {rules}>"


def replay(
    games: Table,
    rules: str | os.PathLike[str] = "tavla42",
    *,
    columns: str | os.PathLike[str] | Mapping[str, str] | None = None,
    naive: str | None = None,
    awards: Table | None = None,
    aliases: Table | None = None,
    excluded: Table | None = None,
    start_ratings: Table | None = None,
    pool: str | None = None,
    since: Mapping[str, Instant] | None = None,
    as_of: Instant | None = None,
    max_rejected: float = 0.01,
    top: int = 100,
    min_games: int = 1,
    active_days: int | None = None,
    study: bool = False,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    memory_limit: str = DEFAULT_MEMORY,
    note: Callable[[str], None] | None = None,
) -> Replay:
    """Rate a whole history: `eloreplay backfill` for what is in memory or in files.

    Args:
        games: a Polars frame (lazy or not), a DuckDB relation, an Arrow table, or files, folders and wildcards.
        rules: a shipped ruleset's name or a TOML file.
        columns: a columns file, or what would stand in its `[columns]`: our name to your column's name or an expression.
        naive: `"UTC"` when stamps carry no zone and are UTC (with `columns` as a dict or not at all).
        awards: like `games`; likewise `aliases`, `excluded` (players) and `start_ratings`.
        aliases: see there.
        excluded: see there.
        start_ratings: see there.
        pool: column of the ladder.
        since: first instant of rule versions, for rulesets that leave it open.
        as_of: later games are held; now unless given.
        max_rejected: largest share of refused rows.
        top: length of the leaderboard.
        min_games: games needed to stand on it.
        active_days: stand on it only if played in the last so many days.
        study: study the run by slices, as a backfill does unless it is asked not to.
        out: publish the run in this output folder; otherwise it is in a temporary one.
        threads: of the queries; all cores unless given.
        memory_limit: of the queries, before they spill.
        note: told what a person should know.

    Returns:
        The rated history.

    Raises:
        EloreplayError: of the kind that the command's exit code says; an input in memory is called by its argument's name.
    """
    ruleset = load_ruleset(os.fspath(rules), {name: _instant(at) for name, at in (since or {}).items()})
    scratch = Path(tempfile.mkdtemp(prefix="eloreplay-"))
    try:
        shown: dict[str, str] = {}
        inputs = Inputs(
            games=tuple(_files(games, "games", scratch, shown)),
            mapping=_mapping(columns, naive),
            pool=pool,
            awards=_one(awards, "awards", scratch, shown),
            aliases=_one(aliases, "aliases", scratch, shown),
            excluded=_one(excluded, "excluded", scratch, shown),
            start_ratings=_one(start_ratings, "start_ratings", scratch, shown),
            shown=shown,
        )
        options = RunOptions(
            threads=threads or os.cpu_count() or 1,
            memory_limit=memory_limit,
            max_rejected=max_rejected,
            study=study,
            board=BoardOptions(top, min_games, active_days),
        )
        result = backfill(
            inputs,
            ruleset,
            scratch / "out" if out is None else Path(out),
            now_us() if as_of is None else _instant(as_of),
            options,
            lambda _step, _done, _total: None,
            note or (lambda _text: None),
            (rules_source(os.fspath(rules)), {name: _instant(at) for name, at in (since or {}).items()}),
        )
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    if out is None:
        return Replay(result.folder, scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    return Replay(result.folder.absolute())


def open_run(folder: str | os.PathLike[str]) -> Replay:
    """A run that was published: `DIR` (what it publishes now), `DIR@41` or a run's own folder.

    Raises:
        UsageFault: there is no such run.
    """
    return Replay(named_run(os.fspath(folder)).absolute())


@dataclass(frozen=True)
class Calibration:
    """How ratings stand against real results.

    Attributes:
        curve: table `calibration`: favourites by gap and by probability, expected and real rate, with intervals.
        scores: table `summary`: log loss, Brier score, slope, fitted divisor and more, overall and by slice.
    """

    curve: pl.DataFrame
    scores: pl.DataFrame


def calibrate(
    timeline: Replay | pl.DataFrame | pl.LazyFrame | duckdb.DuckDBPyRelation | ArrowStream,
    rules: str | os.PathLike[str] | None = None,
    *,
    since: Mapping[str, Instant] | None = None,
    by: Sequence[str] | None = None,
    min_games: int = 1,
    draws: int = 0,
    seed: int = 1,
    threads: int | None = None,
    memory_limit: str = DEFAULT_MEMORY,
) -> Calibration:
    """Hold ratings against real results, as `eloreplay calibrate` does.

    Args:
        timeline: a `Replay`, or a timeline with the columns of one.
        rules: the rules of a bare timeline (they say which K is the heavy week's); a `Replay` brings its own.
        since: as for `replay`.
        by: slices; all of them unless given, `[]` for none.
        min_games: leave out slice values with fewer games that have a favourite.
        draws: how often players are drawn for intervals that respect that they repeat; 0 for none.
        seed: of the draws.
        threads: of the queries; all cores unless given.
        memory_limit: of the queries, before they spill.

    Raises:
        UsageFault: an unknown slice, or a bare timeline without rules.
        EnvironmentFault: disk, memory.
    """
    options = StudyOptions(
        by=parse_slices(None if by is None else ",".join(by) or "none"),
        min_games=min_games,
        draws=draws,
        seed=seed,
        threads=threads or os.cpu_count() or 1,
        memory_limit=memory_limit,
    )
    with tempfile.TemporaryDirectory(prefix="eloreplay-") as home:
        scratch = Path(home)
        if isinstance(timeline, Replay):
            run, ruleset = timeline.folder, timeline.rules
        elif rules is None:
            raise UsageFault("a bare timeline does not say its rules: give them, calibrate(timeline, rules=…), or give the Replay")
        else:
            ruleset = load_ruleset(os.fspath(rules), {name: _instant(at) for name, at in (since or {}).items()})
            run = _as_run(timeline, scratch)
        database = Database(scratch / "study.duckdb", threads=options.threads, memory_limit=memory_limit, spill=scratch / "spill")
        try:
            curve, scores = run_study(database, run, ruleset, options, lambda _step, _done, _total: None)
        finally:
            database.close()
    return Calibration(curve, scores)


def _as_run(timeline: Any, scratch: Path) -> Path:
    """A folder with as much of a run as a study reads: the timeline in one file, and who stands in it."""
    (scratch / "timeline").mkdir()
    path = scratch / "timeline" / "000001.parquet"
    _write(timeline, path, "timeline")
    rows = pl.scan_parquet(path, glob=False)
    pool = [name for name in ("pool",) if name in rows.collect_schema()]
    sides = [rows.select(*pool, pl.col(f"{side}_id").alias("player_id")) for side in ("winner", "loser")]
    pl.concat(sides).unique().sort(*pool, "player_id").collect().write_parquet(scratch / "players.parquet")
    return scratch


# ---------------------------------------------------------------- what is given


def _files(table: Table, name: str, scratch: Path, shown: dict[str, str]) -> list[str]:
    """The arguments for GAMES; what is in memory is written to a file, which messages call by `name`."""
    if isinstance(table, str | os.PathLike):
        return [os.fspath(table)]
    if isinstance(table, pl.DataFrame | pl.LazyFrame) or hasattr(table, "__arrow_c_stream__"):
        path = scratch / f"{name}.parquet"
        _write(table, path, name)
        shown[str(path)] = name
        return [str(path)]
    if isinstance(table, Sequence) and all(isinstance(path, str | os.PathLike) for path in table):
        return [os.fspath(path) for path in table]
    raise UsageFault(
        f"{name}: {type(table).__name__} is no table; give a Polars frame, a DuckDB relation, an Arrow table, or paths of files"
    )


def _one(table: Table | None, name: str, scratch: Path, shown: dict[str, str]) -> str | None:
    if table is None:
        return None
    files = _files(table, name, scratch, shown)
    if len(files) != 1:
        raise UsageFault(f"{name}: {len(files)} paths; give one table, file or folder")
    return files[0]


def _write(table: Any, path: Path, name: str) -> None:
    """Write a table that is in memory, a piece at a time where it comes in pieces."""
    try:
        if isinstance(table, pl.LazyFrame):
            table.sink_parquet(path)
        elif isinstance(table, pl.DataFrame):
            table.write_parquet(path)
        else:
            with pa.RecordBatchReader.from_stream(table) as reader, parquet_writer(path, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
    except (pa.ArrowException, pl.exceptions.PolarsError, duckdb.Error) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputRefused(f"{name}: the table cannot be read: {text}") from error


def _mapping(columns: str | os.PathLike[str] | Mapping[str, str] | None, naive: str | None) -> ColumnMapping:
    """The columns as a columns file would say them."""
    if naive not in (None, "UTC"):
        raise UsageFault(f'naive={naive!r}: only "UTC" can be declared; convert the column otherwise')
    if columns is not None and not isinstance(columns, Mapping):
        if naive is not None:
            raise UsageFault("naive goes with columns given as a dict; a columns file says it in its [time]")
        return load_mapping(Path(columns))
    known = [column.name for column in contract.GAME_COLUMNS]
    for name in columns or {}:
        if name not in known:
            raise UsageFault(f"columns: unknown column '{name}'; known are {', '.join(known)}")
    return ColumnMapping(dict(columns or {}), naive)


def _instant(at: Instant) -> int:
    """Microseconds of an instant as a user gives it."""
    try:
        return at if isinstance(at, int) else parse_us(at) if isinstance(at, str) else to_us(at)
    except (ValueError, TypeError, AttributeError):
        raise UsageFault(f"{at!r} is not an instant such as '2026-10-01' or a datetime") from None
