"""What became of every row of a game, wherever it stands: the verdicts of the door, and in words why."""

from __future__ import annotations

from typing import Any

from eloreplay.asking import Asked
from eloreplay.columns import GAME_COLUMNS
from eloreplay.games import put_settings
from eloreplay.instants import show_us
from eloreplay.rowstore import files_sql, rows_path, undated_path

SQL_TYPES = {"text": "varchar", "integer": "bigint", "number": "double", "flag": "boolean"}
#: A game has a few copies; of one that stands thousands of times the first ones tell enough.
ROWS_SHOWN = 20
RATED, DUPLICATE, CONFLICT = "rated", "duplicate", "conflicting_copies"


def stored_rows(asked: Asked, game: int | str) -> list[dict[str, Any]]:
    """Every row of a game that the run read, by place, with file, row and verdict; empty when no file has the game.

    The verdicts are those of `sql/judged.sql`, under the run's rules, as-of, aliases and exclusions.
    """
    database = asked.database
    game_type, player_type = ("bigint" if asked.is_whole(column) else "varchar" for column in ("game_id", "winner_id"))
    casts = {"game_id": game_type, "winner_id": player_type, "loser_id": player_type, "played_us": "bigint"}
    casts |= {column.name: SQL_TYPES[column.kind] for column in GAME_COLUMNS if column.kind in SQL_TYPES}
    columns = ", ".join(f"cast({name} as {kind}) as {name}" for name, kind in casts.items())
    groups = [[rows_path(asked.run, chunk) for chunk in asked.chunks_of_game(game)], [undated_path(asked.run)]]
    parts = [
        f"select pool, file_no, row_no, standing, {columns} from read_parquet({files_sql(paths)}, hive_partitioning = false) "
        "where game_id = $game"
        for paths in groups
        if paths
    ]
    database.execute("create or replace temp table game_rows as " + " union all by name ".join(parts), {"game": game})
    database.execute("create or replace temp table staged as select * exclude (standing) from game_rows where standing = 'stays'")
    asked.show_side_tables()
    put_settings(database, asked.ruleset, asked.manifest["as_of_us"])
    database.create_view("judged", "judged")
    names = {item["number"]: item["path"] for item in asked.manifest["inputs"] if "number" in item}
    found: list[dict[str, Any]] = database.arrow("explain_rows").to_pylist()
    for row in found:
        row["file"] = names.get(row["file_no"], f"file {row['file_no']}")
        row["why"] = why(asked, row)
    return found


def verdict_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row that decides what became of the game: the copy that stays, else one of those in conflict."""
    return next((row for row in rows if row["standing"] == "stays"), rows[0])


def why(asked: Asked, row: dict[str, Any]) -> str:
    """Why a row has its verdict, as a sentence without its subject's name."""
    rules, verdict = asked.ruleset, row["verdict"]
    if verdict == "missing_id":
        missing = [name for name in ("winner_id", "loser_id", "pool") if row[name] is None]
        return f"{' and '.join(missing)} is missing in the row (or what the columns file makes of it)"
    if verdict == "unrated":
        excluded = [str(row[side]) for side in ("judged_winner_id", "judged_loser_id") if _is_excluded(asked, row[side])]
        if excluded:
            return f"player {' and '.join(excluded)} is excluded, and games of an excluded player are unrated both ways"
        return f"its mode '{row['mode'] or 'ranked'}' is known to the rules {rules.name} and not rated"
    if verdict == "self_play":
        raw = f" (written as {row['winner_id']} and {row['loser_id']})" if row["winner_id"] != row["loser_id"] else ""
        return f"both sides are the same player, {row['judged_winner_id']}, after aliases{raw}"
    plain = {
        RATED: "it is rated",
        DUPLICATE: "another copy of the game stays: one with the same content, or with a higher revision",
        CONFLICT: "copies of the game's highest revision differ, and then none of them counts",
        "missing_time": "played_at is missing in the row",
        "voided": "the game is voided",
        "held": f"it ended {show_us(row['played_us'])}, after the run's as-of {asked.manifest['as_of']}",
        "unknown_mode": f"the mode '{row['mode']}' is not known to the rules {rules.name}",
        "bad_cube": f"its cube is {row['cube']}, and a cube is a power of two up to {rules.max_cube}",
        "bad_match_length": f"its match length is {row['match_length']}, and it must be from 1 to {rules.max_match_length}",
        "bad_result": f"its result '{row['result']}' is none of single, gammon, backgammon",
        "bad_weight": f"its weight {row['weight']} is negative or no number",
        "bad_advantage": f"its advantage {row['advantage']} is no number",
        "before_first_rule_version": f"it ended {show_us(row['played_us'])}, before the first version of the rules, "
        f"{rules.version[0].name}, came into force {show_us(rules.version[0].start_us)}",
    }
    return plain.get(verdict, str(verdict))


def _is_excluded(asked: Asked, player: Any) -> bool:
    return bool(
        asked.database.connection.execute("select count(*) from excluded where player_id = $player", {"player": player}).fetchall()[
            0
        ][0]
    )
