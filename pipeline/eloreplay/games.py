"""The door: every row that comes in ends in exactly one bin, and what is rated stands in one clean table.

Order of work: footers and schemas of all files, then rows (once), then the copies of one game id, then one verdict a row
(`sql/judged.sql`). Everything is kept in the working database, which spills: memory does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay import columns as contract
from eloreplay.columns import ColumnMapping
from eloreplay.forgotten import NOBODY, Forgotten
from eloreplay.queries import Database
from eloreplay.reader import TableReader, TableSpec, TypeLedger
from eloreplay.rules import Ruleset
from eloreplay.sidetables import put_aliases, put_excluded, put_start_ratings
from eloreplay.sources import Source, file_digest, find_sources, refuse_changed

PLAYERS = "players"
GAMES = "games"
AWARDS = "awards"
POOL = "pool"

#: (step, done, total): what the door is doing and how far it is; total is 0 when unknown.
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Inputs:
    """Everything that a run reads.

    Attributes:
        games: files, folders or wildcards.
        mapping: the columns file.
        pool: column of the ladder, or None for one pool.
        awards: Parquet file or folder; likewise `aliases`, `excluded`, `start_ratings`.
        forgotten: players whose ids are replaced as they are read.
        shown: file to what messages and tables call it, where that is not its path (a table that came from memory).
    """

    games: tuple[str, ...]
    mapping: ColumnMapping = contract.NO_MAPPING
    pool: str | None = None
    awards: str | None = None
    aliases: str | None = None
    excluded: str | None = None
    start_ratings: str | None = None
    forgotten: Forgotten = NOBODY
    shown: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Intake:
    """What came through the door.

    Attributes:
        rows_read: rows of all game files.
        bins: bin to rows; `rejected` holds reason to rows. They add up to `rows_read`.
        award_rows_read: rows of the awards table.
        award_bins: likewise for awards.
        inputs: what was read, for the manifest: role, path, bytes, rows, SHA-256.
        sources: the game files that were read.
        numbers: a game file's number by its path.
        file_names: a game file's name as shown by its number; also of files that were not read in this run.
        award_sources: the award files.
        days: (UTC day or None, verdict, rows, digest of the rated): what became of the rows, day by day.
        zoned: whether played_at carries a zone; None when no row says so.
        known_types: SQL type by family of ids, of those that a row has settled.
        game_id_type: SQL type of game ids; likewise `player_id_type`, `award_id_type`, `pool_type`.
        notes: what a person should know (ignored look-alike columns, unused columns).
    """

    rows_read: int = 0
    bins: dict[str, int | dict[str, int]] = field(default_factory=dict)
    award_rows_read: int = 0
    award_bins: dict[str, int | dict[str, int]] = field(default_factory=dict)
    inputs: list[dict[str, object]] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    numbers: dict[Path, int] = field(default_factory=dict)
    file_names: dict[int, str] = field(default_factory=dict)
    days: list[tuple[int | None, str, int, str | None]] = field(default_factory=list)
    zoned: bool | None = None
    award_sources: list[Source] = field(default_factory=list)
    known_types: dict[str, str] = field(default_factory=dict)
    game_id_type: str = "VARCHAR"
    player_id_type: str = "VARCHAR"
    award_id_type: str = "VARCHAR"
    pool_type: str = "VARCHAR"
    notes: list[str] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        """Number of refused game rows."""
        return _rejected(self.bins)

    @property
    def award_rejected(self) -> int:
        """Number of refused awards."""
        return _rejected(self.award_bins)


def _rejected(bins: dict[str, int | dict[str, int]]) -> int:
    reasons = bins.get("rejected", {})
    return sum(reasons.values()) if isinstance(reasons, dict) else 0


def find_inputs(inputs: Inputs, known: Mapping[Path, Source] | None = None) -> dict[str, list[Source]]:
    """The files of every table, footers read but for known game files that nobody touched. Raises as `find_sources`."""
    found = {"games": find_sources(inputs.games, "games", known)}
    for role, argument in (
        ("awards", inputs.awards),
        ("aliases", inputs.aliases),
        ("excluded players", inputs.excluded),
        ("start ratings", inputs.start_ratings),
    ):
        if argument is not None:
            found[role] = find_sources([argument], role)
    if inputs.shown:
        found = {role: [replace(one, shown=inputs.shown.get(one.shown, one.shown)) for one in some] for role, some in found.items()}
    return found


def open_door(
    database: Database,
    inputs: Inputs,
    found: dict[str, list[Source]],
    ruleset: Ruleset,
    as_of_us: int,
    report: Report,
) -> Intake:
    """Read everything into the working database and judge every row.

    Leaves the views `judged` and `awards_judged` and the tables they read, `rule_versions` and `start_ratings`.

    Raises:
        InputRefused: schema, types, zones, damaged files, bad aliases, start ratings or exclusions.
        UsageFault: a mapping that is no scalar expression.
    """
    intake = Intake(sources=found["games"], award_sources=found.get("awards", []))
    intake.numbers = {source.path: number for number, source in enumerate(found["games"])}
    intake.file_names = {number: source.shown for number, source in enumerate(found["games"])}
    with ThreadPoolExecutor(1) as hasher:
        every = [(role, source) for role, sources in found.items() for source in sources]
        digests = [hasher.submit(file_digest, source) for _, source in every]
        try:
            stage_inputs(database, inputs, found, ruleset, intake, report, TypeLedger())
        except BaseException:
            for digest in digests:
                digest.cancel()
            raise
        for (role, source), digest in zip(every, digests, strict=True):
            refuse_changed(source)
            number = intake.numbers[source.path] if role == "games" else None
            intake.inputs.append(input_record(role, source, digest.result(), number))
    report("resolving copies", 0, 0)
    resolve_copies(database)
    put_settings(database, ruleset, as_of_us)
    database.create_view("judged", "judged")
    report("judging rows", 0, 0)
    intake.rows_read = sum(source.rows for source in intake.sources)
    intake.days = judged_days(database)
    intake.bins = game_bins(count_verdicts(intake.days))
    judge_awards(database, intake)
    return intake


def input_record(role: str, source: Source, sha256: str, number: int | None) -> dict[str, object]:
    """How the manifest lists a file that was read; a game file with its number and what tells whether it was touched since."""
    record: dict[str, object] = {
        "table": role,
        "path": source.shown,
        "bytes": source.size,
        "rows": source.rows,
        "sha256": sha256,
    }
    if number is not None:
        inode, _, modified_ns = source.identity
        stands = {"inode": inode, "modified_ns": modified_ns, "changed_ns": source.changed_ns}
        record |= {"number": number, "file": str(source.path), **stands}
    return record


def stage_inputs(
    database: Database,
    inputs: Inputs,
    found: dict[str, list[Source]],
    ruleset: Ruleset,
    intake: Intake,
    report: Report,
    ledger: TypeLedger,
) -> None:
    """Plan every file of every table, then read the rows: nothing is read before all schemas are known to be right.

    Args:
        database: gets `staged`, `awards_staged`, `aliases`, `excluded`, `start_ratings`.
        inputs: what is read.
        found: the files by table; those of the games may be only the new ones.
        ruleset: the rules.
        intake: gets types and notes; its `numbers` say which number each game file has.
        report: told after each file.
        ledger: the types that are known already.

    Raises:
        InputRefused: schema, types, zones, damaged files, bad aliases, start ratings or exclusions.
        UsageFault: a mapping that is no scalar expression.
    """
    needed = frozenset({"match_length"} if ruleset.uses.match_length else ())
    games = TableReader(
        database,
        TableSpec(
            "games",
            contract.GAME_COLUMNS,
            {"game_id": GAMES, "winner_id": PLAYERS, "loser_id": PLAYERS, "pool": POOL},
            inputs.mapping,
            needed,
            inputs.pool,
            inputs.forgotten,
        ),
        ledger,
    )
    games.plan(found["games"])
    readers = {
        "awards": TableReader(
            database,
            TableSpec(
                "awards",
                contract.AWARD_COLUMNS,
                {"award_id": AWARDS, "player_id": PLAYERS, "pool": POOL},
                ColumnMapping({}, inputs.mapping.naive),
                pool=inputs.pool,
                forgotten=inputs.forgotten,
            ),
            _with_own_zone(ledger),
        ),
        "aliases": TableReader(
            database,
            TableSpec("aliases", contract.ALIAS_COLUMNS, {"alias_id": PLAYERS, "player_id": PLAYERS}, forgotten=inputs.forgotten),
            ledger,
        ),
        "excluded players": TableReader(
            database,
            TableSpec("excluded players", contract.EXCLUDED_COLUMNS, {"player_id": PLAYERS}, forgotten=inputs.forgotten),
            ledger,
        ),
        "start ratings": TableReader(
            database,
            TableSpec(
                "start ratings",
                contract.START_COLUMNS,
                {"player_id": PLAYERS, "pool": POOL},
                pool=inputs.pool,
                forgotten=inputs.forgotten,
            ),
            ledger,
        ),
    }
    for role, reader in readers.items():
        reader.plan(found.get(role, []))

    games.create("staged")
    total = sum(source.rows for source in found["games"])
    games.stage(
        "staged",
        found["games"],
        lambda _files, rows: report("reading", rows, total),
        [intake.numbers[source.path] for source in found["games"]],
    )
    tables = {
        "awards": ("awards_staged", "awarded_us"),
        "aliases": ("aliases_staged", "played_us"),
        "excluded players": ("excluded_staged", "played_us"),
        "start ratings": ("starts_staged", "played_us"),
    }
    for role, reader in readers.items():
        table, time_name = tables[role]
        reader.create(table, time_name)
        reader.stage(table, found.get(role, []))
    put_aliases(database, found.get("aliases", []))
    put_excluded(database, found.get("excluded players", []))
    put_start_ratings(database, found.get("start ratings", []), ruleset, pooled=inputs.pool is not None)

    intake.known_types = {family: known[0] for family, known in ledger.id_types.items()}
    intake.game_id_type = ledger.id_type(GAMES)
    intake.player_id_type = ledger.id_type(PLAYERS)
    intake.award_id_type = ledger.id_type(AWARDS)
    intake.pool_type = "VARCHAR" if inputs.pool is None else ledger.id_type(POOL)
    intake.zoned = None if ledger.zone is None else ledger.zone[0]
    intake.notes.extend(games.notes)
    uses = ruleset.uses
    given = set(inputs.mapping.sources) | {name for source in found["games"] for name in source.names}
    for name in ("weight", "advantage"):
        if name in given and not getattr(uses, name):
            intake.notes.append(f"the games have a column '{name}', which the rules {ruleset.name} do not use")


def _with_own_zone(ledger: TypeLedger) -> TypeLedger:
    """The same ids, but stamps of their own: awards may carry a zone where games are declared naive, or the other way round."""
    return TypeLedger(id_types=ledger.id_types)


def resolve_copies(database: Database) -> None:
    """Take the copies that do not stay out of `staged` and into `set_aside`, with their verdict."""
    database.create_table("repeated", "repeated_ids")
    database.create_table("copy_verdicts", "copy_verdicts")
    database.execute(
        "create or replace table set_aside as select staged.*, copy_verdicts.verdict from staged "
        "inner join copy_verdicts on staged.rowid = copy_verdicts.row_key"
    )
    database.execute(
        "create or replace view conflicting as select * exclude (verdict) from set_aside where verdict = 'conflicting_copies'"
    )
    if database.connection.execute("select count(*) from copy_verdicts").fetchall() != [(0,)]:
        database.execute("delete from staged where rowid in (select row_key from copy_verdicts)")


def judged_days(database: Database) -> list[tuple[int | None, str, int, str | None]]:
    """What became of the rows, day by day: `Intake.days`."""
    return [(day, verdict, rows, digest) for day, verdict, rows, digest in database.rows("judged_days")]


def count_verdicts(days: list[tuple[int | None, str, int, str | None]]) -> dict[str, int]:
    """Verdict to rows, over all days."""
    counted: dict[str, int] = {}
    for _, verdict, rows, _ in days:
        counted[verdict] = counted.get(verdict, 0) + rows
    return counted


def game_bins(verdicts: dict[str, int]) -> dict[str, int | dict[str, int]]:
    """Every bin and every reason, also at 0, as the manifest has them."""
    return _bins(verdicts, contract.GAME_BINS, contract.REJECTION_REASONS)


def judge_awards(database: Database, intake: Intake) -> None:
    """The table `awards_judged`, and its bins."""
    database.create_table("awards_judged", "awards_judged")
    verdicts = database.connection.execute("select verdict, count(*) from awards_judged group by verdict").fetchall()
    intake.award_rows_read = sum(source.rows for source in intake.award_sources)
    intake.award_bins = _bins(dict(verdicts), contract.AWARD_BINS, contract.AWARD_REJECTION_REASONS)


def _bins(verdicts: dict[str, int], bins: Sequence[str], reasons: Sequence[str]) -> dict[str, int | dict[str, int]]:
    result: dict[str, int | dict[str, int]] = {name: verdicts.get(name, 0) for name in bins}
    result["rejected"] = {reason: verdicts.get(reason, 0) for reason in reasons}
    return result


def put_settings(database: Database, ruleset: Ruleset, as_of_us: int) -> None:
    """The tables that `judged` looks things up in: `settings`, `known_modes`, `rule_versions`."""
    uses = ruleset.uses
    modes = ruleset.modes
    database.put(
        "settings",
        pa.table(
            {
                "as_of_us": pa.array([as_of_us], pa.int64()),
                "all_modes": [modes.rated == "all"],
                "uses_cube": [uses.cube],
                "max_cube": pa.array([ruleset.max_cube], pa.int64()),
                "uses_match_length": [uses.match_length],
                "max_match_length": pa.array([ruleset.max_match_length], pa.int64()),
                "uses_result": [uses.result],
                "uses_weight": [uses.weight],
                "uses_advantage": [uses.advantage],
                "first_rule_us": pa.array([ruleset.version[0].start_us], pa.int64()),
                "whole_points": [ruleset.integer_ratings],
            }
        ),
    )
    rated = [] if modes.rated == "all" else list(modes.rated)
    names = [*rated, *modes.unrated]
    database.put(
        "known_modes",
        pa.table({"mode": pa.array(names, pa.string()), "is_rated": pa.array([n in rated for n in names], pa.bool_())}),
    )
    put_rule_versions(database, ruleset)


def put_rule_versions(database: Database, ruleset: Ruleset) -> None:
    """The table `rule_versions`, one row a version: what `sql/rule_terms.sql` joins."""
    versions = ruleset.version_table()
    types = {
        "version_index": pa.int64(),
        "from_us": pa.int64(),
        "heavy_games": pa.int64(),
        "heavy_k": pa.float64(),
        "rule_version": pa.string(),
        "cube_rule": pa.string(),
    }
    database.put(
        "rule_versions",
        pa.table(
            {
                name: pa.array(values, types.get(name, pa.bool_() if isinstance(values[0], bool) else pa.float64()))
                for name, values in versions.items()
            }
        ),
    )


def write_refused(rows: pa.Table, intake: Intake, target: Path, pool: bool) -> None:
    """Write refused game rows (of `sql/refused_rows.sql`) as `rejected.parquet`: file, row from 0, reason, the columns as text."""
    names = ["file", "row", "reason", *([POOL] if pool else []), *(column.name for column in contract.GAME_COLUMNS)]
    if pool:
        names = [POOL, *(name for name in names if name != POOL)]
    _write_refused(rows, intake.file_names, names, target)


def write_refused_awards(database: Database, intake: Intake, target: Path, pool: bool) -> None:
    """Write the refused awards likewise."""
    names = [*([POOL] if pool else []), "file", "row", "reason", *(column.name for column in contract.AWARD_COLUMNS)]
    # `reason` is also a column of the awards: why it was given. Why it was refused keeps the name that both tables share.
    names[-1] = "award_reason"
    shown = {number: source.shown for number, source in enumerate(intake.award_sources)}
    _write_refused(database.arrow("refused_awards"), shown, names, target)


def _write_refused(rows: pa.Table, file_names: dict[int, str], names: list[str], target: Path) -> None:
    numbers = sorted(file_names)
    shown = pa.array([file_names[number] for number in numbers], pa.string())
    places = np.searchsorted(numbers, rows["file_no"].to_numpy()) if numbers else np.empty(0, np.int64)
    table = rows.append_column("file", shown.take(pa.array(places, pa.int64()))).select(names)
    pq.write_table(table, target, compression="zstd")
