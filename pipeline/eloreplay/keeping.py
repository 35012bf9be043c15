"""From judged rows to chunks: which chunks of time there are, what is in each, and their rows where a later run finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from eloreplay.chunks import Chunk, cut, spans_of
from eloreplay.games import Intake
from eloreplay.queries import Database
from eloreplay.rowstore import write_rows
from eloreplay.tables import ARROW_TYPES

JudgedDays = Sequence[tuple[int | None, str, int, str | None]]


def kept_days(database: Database) -> dict[int, int]:
    """Rows by UTC day, from the table `file_days`."""
    rows = database.connection.execute(
        "select day, cast(sum(row_count) as bigint) from file_days where day is not null group by day order by day"
    ).fetchall()
    return dict(rows)


def make_chunks(row_days: dict[int, int], judged: JudgedDays, unit: str, as_of_us: int) -> list[Chunk]:
    """The chunks of time that hold rows, with what became of the rows.

    Args:
        row_days: rows by UTC day.
        judged: `Intake.days` of the same rows.
        unit: see `chunks.spans`.
        as_of_us: the run's as-of, microseconds.
    """
    span = spans_of(row_days, unit, as_of_us)
    bins: dict[tuple[int, int], dict[str, int]] = {}
    digests: dict[tuple[int, int], int] = {}
    for day, verdict, rows, digest in judged:
        if day is None:
            continue
        found = bins.setdefault(span[day], {})
        found[verdict] = found.get(verdict, 0) + rows
        if verdict == "rated" and digest is not None:
            digests[span[day]] = digests.get(span[day], 0) + int(digest, 16)
    return [
        Chunk(
            from_us,
            to_us,
            rows=rows,
            games=bins.get((from_us, to_us), {}).get("rated", 0),
            digest=f"{digests.get((from_us, to_us), 0) % 2**128:032x}",
            bins=bins.get((from_us, to_us), {}),
        )
        for from_us, to_us, rows in cut(row_days.items(), unit, as_of_us)
    ]


def undated_bins(judged: JudgedDays) -> dict[str, int]:
    """Verdicts of the rows that belong to no chunk."""
    return {verdict: rows for day, verdict, rows, _ in judged if day is None}


def keep_rows(database: Database, run: Path, chunks: Sequence[Chunk], row_days: dict[int, int]) -> list[Chunk]:
    """Write the rows of `chunks` (see `rowstore.write_rows`); returns the chunks with their least and greatest id."""
    bounds = write_rows(database, run, chunks, row_days)
    return [
        replace(chunk, id_low=bounds[chunk.from_us][0], id_high=bounds[chunk.from_us][1]) if chunk.from_us in bounds else chunk
        for chunk in chunks
    ]


def merged(kept: Iterable[Chunk], rated: Iterable[Chunk]) -> list[Chunk]:
    """Chunks in order of time; those that the fold has gone through replace their first form."""
    found = {chunk.from_us: chunk for chunk in kept}
    found |= {chunk.from_us: chunk for chunk in rated}
    return [found[start] for start in sorted(found)]


def no_players(database: Database, intake: Intake) -> None:
    """The table `known_players` of a run that starts from nothing."""
    schema = pa.schema(
        [
            ("pool", ARROW_TYPES[intake.pool_type]),
            ("player_id", ARROW_TYPES[intake.player_id_type]),
            ("player_index", pa.int32()),
        ]
    )
    database.put("known_players", schema.empty_table())
