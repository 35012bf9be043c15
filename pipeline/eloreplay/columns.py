"""The contract of names: canonical columns, what type each may have, output column orders, and the columns file.

Nothing here reads data. `games.py` applies it to files; `publish.py` and `replay.py` write what is named here.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from eloreplay.errors import UsageFault

Kind = Literal["id", "time", "text", "integer", "number", "flag"]


@dataclass(frozen=True)
class Column:
    """One canonical column of a table that a user gives us.

    Attributes:
        name: its name in our tables.
        kind: what it may hold (`id`: integer or text, compared exactly; `number`: integer or float).
        required: whether every file must have it (by name or by mapping).
    """

    name: str
    kind: Kind
    required: bool = False


#: GAMES, in the order in which `rejected` shows them. `row content` is all of these but `revision`.
GAME_COLUMNS: tuple[Column, ...] = (
    Column("game_id", "id", required=True),
    Column("played_at", "time", required=True),
    Column("winner_id", "id", required=True),
    Column("loser_id", "id", required=True),
    Column("mode", "text"),
    Column("cube", "integer"),
    Column("match_length", "integer"),
    Column("result", "text"),
    Column("ended_by", "text"),
    Column("is_draw", "flag"),
    Column("voided", "flag"),
    Column("revision", "integer"),
    Column("advantage", "number"),
    Column("weight", "number"),
)
AWARD_COLUMNS: tuple[Column, ...] = (
    Column("award_id", "id", required=True),
    Column("awarded_at", "time", required=True),
    Column("player_id", "id", required=True),
    Column("points", "number", required=True),
    Column("reason", "text"),
)
ALIAS_COLUMNS: tuple[Column, ...] = (
    Column("alias_id", "id", required=True),
    Column("player_id", "id", required=True),
)
EXCLUDED_COLUMNS: tuple[Column, ...] = (Column("player_id", "id", required=True),)
START_COLUMNS: tuple[Column, ...] = (
    Column("player_id", "id", required=True),
    Column("rating", "number", required=True),
    Column("games", "integer"),
    Column("experience", "number"),
)

#: A site's own ratings as they stand: one row a player.
LIVE_PLAYER_COLUMNS: tuple[Column, ...] = (
    Column("player_id", "id", required=True),
    Column("rating", "number", required=True),
    Column("games", "integer"),
)
#: A site's own ratings game by game; of the numbers, what there is.
LIVE_GAME_COLUMNS: tuple[Column, ...] = (
    Column("game_id", "id", required=True),
    Column("played_at", "time"),
    Column("winner_id", "id"),
    Column("loser_id", "id"),
    Column("winner_before", "number"),
    Column("loser_before", "number"),
    Column("winner_change", "number"),
    Column("loser_change", "number"),
    Column("winner_after", "number"),
    Column("loser_after", "number"),
)

#: Why a game can be refused, in the order in which the reasons are tried.
REJECTION_REASONS: tuple[str, ...] = (
    "missing_id",
    "missing_time",
    "conflicting_copies",
    "unknown_mode",
    "self_play",
    "bad_cube",
    "bad_match_length",
    "bad_result",
    "bad_weight",
    "bad_advantage",
    "before_first_rule_version",
)
GAME_BINS: tuple[str, ...] = ("rated", "unrated", "voided", "held", "duplicate")
AWARD_REJECTION_REASONS: tuple[str, ...] = ("missing_id", "missing_time", "conflicting_copies", "bad_points")
AWARD_BINS: tuple[str, ...] = ("applied", "unrated", "held", "duplicate")


@dataclass(frozen=True)
class ColumnMapping:
    """What the columns file says: where each canonical column comes from and what a naive time means.

    Attributes:
        sources: canonical name to a column's name or a scalar DuckDB expression; what is absent is looked up by its own name.
        naive: "UTC" when stamps without a zone are declared to be UTC, else None (naive stamps are refused).
        file: the columns file, for messages.
    """

    sources: dict[str, str]
    naive: str | None = None
    file: Path | None = None

    @property
    def shown(self) -> str:
        """What messages call it."""
        return "columns" if self.file is None else str(self.file)


NO_MAPPING = ColumnMapping(sources={})


def load_mapping(path: Path, columns_of: tuple[Column, ...] = GAME_COLUMNS) -> ColumnMapping:
    """Read a columns file.

    Args:
        path: the file.
        columns_of: the table that it maps.

    Raises:
        UsageFault: not readable, not TOML, an unknown key, an unknown canonical column or a value that is not text.
    """
    content = read_toml(path, "columns file")
    unknown = sorted(set(content) - {"columns", "time"})
    if unknown:
        raise UsageFault(f"{path}: unknown key '{unknown[0]}'; a columns file has [columns] and [time]")
    columns, time = content.get("columns", {}), content.get("time", {})
    if not isinstance(columns, dict) or not isinstance(time, dict):
        raise UsageFault(f"{path}: [columns] and [time] must be tables")
    known = [column.name for column in columns_of]
    for name, source in columns.items():
        if name not in known:
            raise UsageFault(f"{path}: [columns] has the unknown column '{name}'; known are {', '.join(known)}")
        if not isinstance(source, str) or not source.strip():
            raise UsageFault(f"{path}: [columns] {name} = {source!r}: write a column's name or an expression as text in quotes")
    for name, value in time.items():
        if name != "naive":
            raise UsageFault(f"{path}: [time] has the unknown key '{name}'; the only one is naive = \"UTC\"")
        if value != "UTC":
            raise UsageFault(
                f'{path}: [time] naive = {value!r}: only "UTC" can be declared, for a local clock repeats an hour each '
                "autumn and its order is lost; convert in [columns], for example "
                "played_at = \"timezone('Europe/Belgrade', ended_at)\""
            )
    return ColumnMapping(sources=dict(columns), naive=time.get("naive"), file=path)


def read_toml(path: Path, what: str) -> dict[str, object]:
    """The content of a TOML file; `what` names its role in the error.

    Raises:
        UsageFault: the file cannot be read or is not TOML.
    """
    try:
        with path.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        raise UsageFault(f"{path}: no such {what}") from None
    except OSError as error:
        raise UsageFault(f"{path}: the {what} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageFault(f"{path}: the {what} is not valid TOML: {error}") from None
