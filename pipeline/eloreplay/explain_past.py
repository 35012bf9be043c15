"""What a game was in the kept runs before, and which game made it another one.

Two runs of one history differ where a game came late, was corrected or is no longer rated; every other difference follows from
such a game. It is found by going back: from a player whose figures differ to the first game in which they do. If that game's own
facts are the same, it was the opponent who came with another rating, and the search goes on with him, further back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eloreplay.asking import Asked, sibling
from eloreplay.errors import EloreplayError
from eloreplay.explain_rows import stored_rows, verdict_of
from eloreplay.explain_terms import SIDES
from eloreplay.instants import BEGINNING_US, show_us
from eloreplay.published import kept_runs, published_us
from eloreplay.rowstore import files_sql

FACTS = ("played_us", "pool", "winner_id", "loser_id", "is_draw", "cube", "match_length", "result", "weight", "advantage")
SIDE_FIGURES = ("rating_before", "change", "k", "recent_games", "games", "experience")
#: Steps of the search; each goes back in time, and a chain of this length tells nobody anything.
MOST_STEPS = 100
#: What is shown of a run's row.
SHOWN = ("winner_id", "loser_id", "winner_expected", "stake", "rule_version", "cube")


def timeline_row(asked: Asked, game: int | str) -> dict[str, Any] | None:
    """The timeline row of a game, or None when the run does not rate it; `played_us` in microseconds."""
    chunks = [chunk for chunk in asked.chunks_of_game(game) if chunk.games and chunk.timeline]
    asked.show(chunks)
    rows = asked.database.arrow("explain_game", {"game": game}).to_pylist()
    return rows[0] if rows else None


def past_of(asked: Asked, game: int | str, row: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Where a kept run said something else of the game than the run after it, the newest difference first.

    Args:
        asked: the published run.
        game: the game.
        row: its timeline row there, or None.

    Returns:
        Of each difference: `run`, `published_at`, `before_run`, `was` and `is` (what the two said; None: not rated), `kind`
        ("first rated", "no longer rated", "corrected", "restated"), `verdict_before` and `causes`.
    """
    found: list[dict[str, Any]] = []
    newer, newer_row = asked, row
    for run in reversed([path for path in kept_runs(asked.root) if int(path.name) < int(asked.run.name)]):
        try:
            older = sibling(asked, run)
            if older.schema != newer.schema:
                continue
            older_row = timeline_row(older, game)
            if _figures(older_row) != _figures(newer_row):
                found.append(_difference(older, newer, game, older_row, newer_row))
        except EloreplayError:
            # A kept run that is damaged, or dropped meanwhile, says nothing of the past; the answer is about the published one.
            continue
        newer, newer_row = older, older_row
    return found


def _figures(row: dict[str, Any] | None) -> Any:
    return None if row is None else {name: value for name, value in row.items() if name != "seq"}


def _brief(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    figures = {f"{side}_{name}": row[f"{side}_{name}"] for side in SIDES for name in SIDE_FIGURES}
    return {"played_at": show_us(row["played_us"]), **{name: row[name] for name in SHOWN}, **figures}


def _difference(
    older: Asked, newer: Asked, game: int | str, was: dict[str, Any] | None, now: dict[str, Any] | None
) -> dict[str, Any]:
    verdict, causes = None, []
    if was is None:
        rows = stored_rows(older, game)
        kind, verdict = "first rated", verdict_of(rows)["verdict"] if rows else None
    elif now is None:
        kind = "no longer rated"
    elif any(was[name] != now[name] for name in FACTS if name in was):
        kind = "corrected"
    else:
        kind, causes = "restated", _causes(older, newer, was, now)
    return {
        "run": newer.run.name,
        "published_at": show_us(published_us(newer.run, newer.manifest)),
        "before_run": older.run.name,
        "kind": kind,
        "was": _brief(was),
        "is": _brief(now),
        "verdict_before": verdict,
        "causes": causes,
    }


# ---------------------------------------------------------------- because of which game


def _causes(older: Asked, newer: Asked, was: dict[str, Any], now: dict[str, Any]) -> list[dict[str, Any]]:
    """For each side whose figures differ, what made them differ; a cause that both share stands once."""
    if older.manifest["rules"]["digest"] != newer.manifest["rules"]["digest"]:
        names = [run.manifest["rules"]["name"] for run in (older, newer)]
        return [{"kind": "rules", "players": [], "rules_before": names[0], "rules": names[1], "via": []}]
    _show_diverged(older, newer, now["played_us"])
    found: list[dict[str, Any]] = []
    # Another opponent's rating changes the expectation alone; so does his own: both sides are looked at wherever one differs.
    for side in SIDES:
        if all(was[f"{side}_{name}"] == now[f"{side}_{name}"] for name in ("rating_before", "k", "recent_games", "games")):
            continue
        cause = _trace(newer, now.get("pool"), now[f"{side}_id"], now["played_us"], now["game_id"])
        known = next((one for one in found if one["kind"] == cause["kind"] and one.get("id") == cause.get("id")), None)
        if known is not None:
            known["players"].append(now[f"{side}_id"])
        else:
            found.append({"players": [now[f"{side}_id"]], **cause})
    for cause in found:
        if cause["kind"] == "gone":
            rows = stored_rows(newer, cause["id"])
            cause["verdict"] = verdict_of(rows)["verdict"] if rows else "withdrawn"
            cause["why"] = verdict_of(rows)["why"] if rows else "no file has it any more"
    return found


def _show_diverged(older: Asked, newer: Asked, until_us: int) -> None:
    """The table `diverged`: where the two runs differ up to an instant, from the files that they do not share."""
    files = {
        run.run: {_inode(path): path for chunk in run.near(BEGINNING_US, until_us) if (path := run.timeline_file(chunk))}
        for run in (older, newer)
    }
    shared = files[older.run].keys() & files[newer.run].keys()
    database = newer.database
    for run, name in ((older, "before"), (newer, "now")):
        own = [path for inode, path in files[run.run].items() if inode not in shared]
        pool = "" if run.pool else "null as pool, "
        for view, paths in (("timeline", own), ("awards", [run.run / "awards.parquet"])):
            paths, limit = (paths, "") if paths else (sorted((run.run / "timeline").glob("*.parquet"))[:1], " limit 0")
            database.execute(
                f"create or replace temp view {view}_{name} as select {pool}* from "
                f"read_parquet({files_sql(paths)}, hive_partitioning = false){limit}"
            )
    database.create_table("diverged", "explain_diverged", {"until_us": until_us})


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _trace(newer: Asked, pool: Any, player: Any, played_us: int, game: Any) -> dict[str, Any]:
    """Go back from a player's figures at a place in the order to what made them differ."""
    database = newer.database
    via: list[dict[str, Any]] = []
    for _ in range(MOST_STEPS):
        place = {"pool": pool, "player": player, "played_us": played_us, "game": game}
        rows = database.arrow("explain_first_diverged", place).to_pylist()
        award = _award(newer, pool, player, rows[0]["played_us"] if rows else played_us)
        if award is not None:
            return {**award, "via": via}
        if not rows:
            return {"kind": "unknown", "via": via}
        row = rows[0]
        if row["kind"] != "carried":
            return {**_cause(row), "via": via}
        opponent = row["loser_id"] if row["winner_id"] == player else row["winner_id"]
        via.append({"player": player, "game_id": row["game_id"], "opponent": opponent, "played_at": show_us(row["played_us"])})
        player, played_us, game = opponent, row["played_us"], row["game_id"]
    return {"kind": "unknown", "via": via}


def _award(newer: Asked, pool: Any, player: Any, until_us: int) -> dict[str, Any] | None:
    with contextlib.suppress(KeyError):
        parameters = {"pool": pool, "player": player, "until_us": until_us}
        for row in newer.database.arrow("explain_award_difference", parameters).to_pylist():
            return {
                "kind": f"award {row['kind']}",
                "id": row["award_id"],
                "played_at": show_us(row["awarded_us"]),
                "points": row["points"],
                "reason": row["reason"],
                "player": player,
            }
    return None


def _cause(row: dict[str, Any]) -> dict[str, Any]:
    sides: Sequence[Any] = (row["winner_id"], row["loser_id"])
    if row["kind"] == "gone":
        sides = (row["winner_before"], row["loser_before"])
    return {
        "kind": row["kind"],
        "id": row["game_id"],
        "played_at": show_us(row["played_us"]),
        "winner_id": sides[0],
        "loser_id": sides[1],
    }
