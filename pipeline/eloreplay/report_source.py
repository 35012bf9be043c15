"""The tables that a page is made of, and the figures in them: small tables only, never the timeline."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from eloreplay.console import printable
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.report_parts import Figure, Part, Text, share
from eloreplay.run_tables import AGGREGATES, COLUMNS, table_faults
from eloreplay.tables import read_parquet

#: Kinds of folders that hold a run.
OF_RUNS = ("backfill", "nightly", "rollback", "forget")
#: Of a name or id on the page.
NAME_WIDTH = 60


class Tables:
    """The aggregate tables of a folder: a run's, a study's or a sweep's.

    Args:
        folder: where they stand.
        manifest: of the folder.
        names: what to call players, by their id as text.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], names: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.manifest = manifest
        self.names = names or {}

    def has(self, name: str) -> bool:
        """Whether the folder has this table."""
        return (self.folder / f"{name}.parquet").is_file()

    def read(self, name: str, columns: Iterable[str] | None = None) -> pl.DataFrame:
        """A table, or those of its `columns` that it has.

        Raises:
            EnvironmentFault: it is gone, damaged, or of a run and not what a run writes.
        """
        path = self.folder / f"{name}.parquet"
        if self.manifest.get("kind") in OF_RUNS:
            for fault in table_faults(path, (COLUMNS | AGGREGATES).get(name, ())):
                raise EnvironmentFault(fault)
        wanted = None
        try:
            if columns is not None:
                with path.open("rb") as file:
                    there = pl.read_parquet_schema(file)
                wanted = [column for column in columns if column in there]
            frame = pl.from_arrow(read_parquet(path, wanted))
        except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise EnvironmentFault(f"{path}: a table of the folder cannot be read: {text}") from None
        assert isinstance(frame, pl.DataFrame)
        return frame

    @cached_property
    def summary(self) -> pl.DataFrame:
        """The table `summary`."""
        return self.read("summary")

    @cached_property
    def calibration(self) -> pl.DataFrame:
        """The table `calibration`."""
        return self.read("calibration")

    @cached_property
    def _rows(self) -> dict[tuple[Any, ...], dict[str, Any]]:
        pooled = "pool" in self.summary.columns
        return {
            (row["pool"] if pooled else None, row["statistic"], row["slice"], row["slice_value"]): row
            for row in self.summary.iter_rows(named=True)
        }

    @cached_property
    def pools(self) -> list[Any]:
        """The ladders, those with most games first; [None] when there is one that has no name."""
        if "pool" not in self.summary.columns:
            return [None]
        games = self.summary.filter(statistic="games", slice="all").select("pool", "value")
        known = self.calibration.select("pool").unique().join(games, on="pool", how="left")
        return known.sort(pl.col("value").fill_null(0.0), "pool", descending=[True, False])["pool"].to_list()

    def called(self, player: object) -> str:
        """How the page calls a player."""
        return printable(self.names.get(str(player), str(player)), NAME_WIDTH)


class Ladder:
    """The figures of one ladder; `pool` is None when there is one that has no name."""

    def __init__(self, tables: Tables, pool: Any) -> None:
        self.tables = tables
        self.pool = pool
        self.pooled = "pool" in tables.summary.columns

    @property
    def studied(self) -> bool:
        """Whether there is a study; a run may have been asked to do without."""
        return self.tables.manifest.get("options", {}).get("study") is not False

    def key(self, **key: Any) -> dict[str, Any]:
        """A row's key, with the pool where there are pools."""
        return {"pool": self.pool, **key} if self.pooled else key

    def row(self, statistic: str, slice_: str = "all", value: str = "") -> dict[str, Any] | None:
        """A row of `summary`, that with the interval which respects that players repeat where there is one."""
        return self._named(f"{statistic}_cluster", slice_, value) or self._named(statistic, slice_, value)

    def _named(self, statistic: str, slice_: str, value: str) -> dict[str, Any] | None:
        return self.tables._rows.get((self.pool if self.pooled else None, statistic, slice_, value))

    @property
    def clustered(self) -> bool:
        """Whether the intervals respect that players repeat."""
        return bool((row := self.row("favourite_real_rate")) and row["statistic"].endswith("_cluster"))

    def value(self, statistic: str, slice_: str = "all", value: str = "") -> float | None:
        """A value of `summary`, or None."""
        row = self._named(statistic, slice_, value)
        return None if row is None else row["value"]

    def figure(
        self, statistic: str, show: Callable[[Any], str] = share, slice_: str = "all", value: str = "", column: str = "value"
    ) -> Part:
        """A figure of `summary`; a dash where there is none."""
        row = self.row(statistic, slice_, value)
        if row is None or row[column] is None:
            return "–"
        key = self.key(statistic=row["statistic"], slice=slice_, slice_value=value)
        return Figure(row[column], show(row[column]), ("summary", key, column))

    def interval(self, statistic: str, show: Callable[[Any], str] = share, slice_: str = "all", value: str = "") -> Text:
        """`low – high` of a figure; a dash where there is none."""
        low, high = (self.figure(statistic, show, slice_, value, column) for column in ("low", "high"))
        return ["–"] if low == high == "–" else [low if low != "–" else "…", " – ", high if high != "–" else "…"]

    def values(self, slice_: str, statistic: str = "games") -> list[str]:
        """The values of a slice, numbers by their size."""
        pool = self.pool if self.pooled else None
        found = [value for of, name, part, value in self.tables._rows if (of, name, part) == (pool, statistic, slice_)]
        return sorted(found, key=_natural)

    def curve(self, axis: str, slice_: str = "all", value: str = "") -> list[dict[str, Any]]:
        """The bins of a curve, in order."""
        frame = self.tables.calibration.filter(slice=slice_, slice_value=value, axis=axis)
        if self.pooled:
            frame = frame.filter(pl.col("pool").eq_missing(pl.lit(self.pool)))
        return frame.sort("bin_low").to_dicts()

    def bin_figure(self, row: dict[str, Any], column: str, show: Callable[[Any], str]) -> Part:
        """A figure of `calibration`; a dash for NULL."""
        if row[column] is None:
            return "–"
        key = self.key(slice=row["slice"], slice_value=row["slice_value"], axis=row["axis"], bin_low=row["bin_low"])
        return Figure(row[column], show(row[column]), ("calibration", key, column))


def manifest_figure(tables: Tables, show: Callable[[Any], str], *path: str) -> Figure:
    """A figure of the manifest by its path of keys."""
    value: Any = tables.manifest
    for key in path:
        value = value[key]
    return Figure(value, show(value), ("manifest", list(path)))


def _natural(value: str) -> tuple[float, str]:
    digits = value.split("-")[0].rstrip("+")
    return (float(digits), value) if digits.isdecimal() else (float("inf"), value)


def read_names(path: Path) -> dict[str, str]:
    """What to call players: a Parquet or CSV file with `player_id` and `name`. Only the page uses it.

    Raises:
        UsageFault: it cannot be read, or lacks a column, or names a player twice.
    """
    try:
        if path.suffix.lower() == ".csv":
            with path.open("rb") as file:
                frame = pl.read_csv(file, infer_schema=False)
        else:
            loaded = pl.from_arrow(read_parquet(path))
            assert isinstance(loaded, pl.DataFrame)
            frame = loaded
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError, ValueError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageFault(
            f"--names {path}: cannot be read as {'CSV' if path.suffix.lower() == '.csv' else 'Parquet'}: {text}"
        ) from None
    missing = [name for name in ("player_id", "name") if name not in frame.columns]
    if missing:
        raise UsageFault(f"--names {path}: there is no column {' or '.join(missing)}; it has {', '.join(frame.columns) or 'none'}")
    if frame.schema["player_id"] != pl.String and not frame.schema["player_id"].is_integer():
        raise UsageFault(f"--names {path}: player_id is {frame.schema['player_id']}; ids are integers or text")
    known = frame.select(pl.col("player_id").cast(pl.String), pl.col("name").cast(pl.String)).drop_nulls().unique()
    twice = known.filter(pl.col("player_id").is_duplicated())["player_id"].sort()
    if len(twice):
        raise UsageFault(f"--names {path}: {printable(twice[0])} has more than one name")
    return dict(known.iter_rows())


def read_manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of any folder of ours.

    Raises:
        UsageFault: there is none.
    """
    try:
        content = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageFault(f"{folder}: no run or study of eloreplay (its manifest.json cannot be read: {error})") from None
    if not isinstance(content, dict) or "kind" not in content:
        raise UsageFault(f"{folder}: no run or study of eloreplay (its manifest.json says nothing of a kind)")
    return content
