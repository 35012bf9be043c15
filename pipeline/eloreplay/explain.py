"""Why a game moved two ratings as it did: every term of both sides, from the timeline, computed again and held against it.

The facts are gathered here as plain values (`docs/cli.md` lists the keys), `explain_page` words them. `explain_terms` computes,
`explain_rows` says what became of the game's rows, `explain_past` what earlier runs said of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eloreplay.asking import Asked, as_id, asked_run, beside, meant, nearest, next_ids
from eloreplay.errors import UsageFault
from eloreplay.explain_past import past_of, timeline_row
from eloreplay.explain_rows import RATED, ROWS_SHOWN, stored_rows, verdict_of
from eloreplay.explain_story import Stories, whole
from eloreplay.explain_terms import SIDES, Terms, disagreements, recompute
from eloreplay.instants import show_us
from eloreplay.rowstore import whole_neighbours
from eloreplay.rules import Ruleset, RuleVersion


def explain(root: Path, game: str, past: bool = True) -> dict[str, Any]:
    """Everything that the published run of `root` knows of a game, as plain values.

    Args:
        root: the output folder.
        game: the game's id as it is written.
        past: whether to look into the kept runs before.

    Raises:
        UsageFault: no run, or nobody knows the game.
        EnvironmentFault: the run cannot be read.
    """
    with asked_run(root) as asked:
        return explain_game(asked, game, past)


def explain_game(asked: Asked, game: str, past: bool = True) -> dict[str, Any]:
    """As `explain`, of a run that is open."""
    game_id = as_id(game, asked.is_whole("game_id"), "game")
    row = timeline_row(asked, game_id)
    rows = stored_rows(asked, game_id)
    found: dict[str, Any] = {
        "game_id": game_id,
        "run": asked.run.name,
        "as_of": asked.manifest["as_of"],
        "rules": asked.ruleset.name,
        "status": RATED if row is not None else None,
        "rows": [_shown_row(one) for one in rows[:ROWS_SHOWN]],
        "row_count": len(rows),
    }
    if row is not None:
        found |= _rated(asked, row)
    found["past"] = past_of(asked, game_id, row) if past else []
    if row is None and rows:
        decisive = verdict_of(rows)
        found |= {"status": decisive["verdict"], "why": decisive["why"], "file": decisive["file"], "row": decisive["row_no"]}
    elif row is None and found["past"]:
        found |= {"status": "withdrawn", "why": "no file has it any more", "file": None, "row": None}
    elif row is None:
        raise UsageFault(f"{asked.root}: no row of a game {game!r} was read by run {asked.run.name}{_hint(asked, game)}")
    return found


def _hint(asked: Asked, game: str) -> str:
    """What the ids of this run look like, for who asks for one that is not there."""
    bounds = [(chunk.id_low, chunk.id_high) for chunk in asked.fold.chunks if chunk.id_low is not None]
    if not bounds:
        return ": it has no games at all"
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    if asked.is_whole("game_id"):
        near = whole_neighbours(asked.run, asked.fold.chunks, int(game))
        return f"; its ids are whole numbers from {low} to {high}{next_ids([one for one in near if one is not None])}"
    asked.show(asked.rated_chunks)
    text = meant(nearest(asked.database, "timeline", "game_id", game))
    beside_it = next_ids(beside(asked.database, "timeline", "game_id", game))
    return text or f"; its ids are text, from {low!r} to {high!r}{beside_it}"


def _shown_row(row: dict[str, Any]) -> dict[str, Any]:
    names = (
        "file",
        "row_no",
        "verdict",
        "why",
        "winner_id",
        "loser_id",
        "mode",
        "cube",
        "match_length",
        "result",
        "voided",
        "revision",
    )
    return {"played_at": show_us(row["played_us"]), **{name: row[name] for name in names}}


# ---------------------------------------------------------------- a rated game


def _rated(asked: Asked, row: dict[str, Any]) -> dict[str, Any]:
    (terms,) = recompute(asked.database, asked.ruleset, [row])
    stories = Stories(asked, row)
    sides = [_side(asked, row, side, terms, stories) for side in SIDES]
    differences = disagreements(asked.ruleset, row, terms)
    differences += [one["before_disagrees"] for one in sides if one["before_disagrees"]]
    return {
        **({"pool": row["pool"]} if asked.pool else {}),
        "played_at": show_us(row["played_us"]),
        "seq": row["seq"],
        "is_draw": row["is_draw"],
        "version": _version(asked.ruleset, terms.version),
        "inputs": {name: row[name] for name in ("cube", "match_length", "result", "weight", "advantage")},
        "gap": whole(asked.ruleset, row["winner_rating_before"] - row["loser_rating_before"]),
        "advantage": row["advantage"] or 0.0,
        "divisor": terms.divisor,
        "stake": terms.stake,
        "stake_parts": stake_parts(terms.version, row),
        "rounding": asked.ruleset.rounding,
        "window_hours": None if asked.ruleset.count is None else asked.ruleset.count.hours,
        "sides": sides,
        "unequal": _unequal(terms, sides),
        "agrees": not differences,
        "differences": differences,
    }


def _version(ruleset: Ruleset, version: RuleVersion) -> dict[str, Any]:
    at = [one.name for one in ruleset.version].index(version.name)
    after = ruleset.version[at + 1] if at + 1 < len(ruleset.version) else None
    return {
        "name": version.name,
        "from": show_us(version.start_us),
        "until": None if after is None else show_us(after.start_us),
        "divisor": version.divisor,
        "divided_by_sqrt_match_length": version.divide_by != "none",
    }


def stake_parts(version: RuleVersion, row: dict[str, Any]) -> list[dict[str, Any]]:
    """What the stake is a product of: `what`, the game's `value` and in words `how` it counts."""
    stake, parts = version.stake, []
    if stake.base != 1:
        parts.append({"what": "base", "value": stake.base, "how": "a constant of the rules"})
    if stake.cube != "none":
        how = "× cube" if stake.cube == "times" else f"1 + log2(cube)/{stake.doublings:g}"
        parts.append({"what": "cube", "value": row["cube"], "how": how})
    if stake.match_length != "none":
        parts.append({"what": "match length", "value": row["match_length"], "how": "√(match length)"})
    if stake.result is not None:
        factor = getattr(stake.result, row["result"] or "single")
        parts.append({"what": "result", "value": row["result"], "how": f"× {factor:g}"})
    if stake.weight:
        parts.append({"what": "weight", "value": row["weight"], "how": "× weight"})
    return parts


def _side(asked: Asked, row: dict[str, Any], side: str, game: Terms, stories: Stories) -> dict[str, Any]:
    ruleset = asked.ruleset
    version, terms = game.version, game.sides[SIDES.index(side)]
    before, change = row[f"{side}_rating_before"], row[f"{side}_change"]
    origin, wrong = stories.origin(side)
    return {
        "side": side,
        "game_id": row["game_id"],
        "player_id": row[f"{side}_id"],
        "rating_before": before,
        "before_from": origin,
        "before_disagrees": wrong,
        "score": terms.score,
        "expected": terms.expected,
        "games_before": row[f"{side}_games"],
        "recent_games": row[f"{side}_recent_games"],
        "heavy_from": None if version.heavy is None else version.heavy.games,
        "experience": row[f"{side}_experience"],
        "k": row[f"{side}_k"],
        "k_usual": terms.k_usual,
        "k_after_week": terms.k_week,
        "k_ramp": terms.ramp,
        "k_ramp_counts_match": version.ramp is not None and version.ramp.experience == "after",
        "k_by": "games" if version.k_by_games else "rating" if version.k_by_rating else None,
        "heavy": terms.heavy,
        "heavy_turns": stories.turns(side),
        "unrounded": terms.unrounded,
        "rounded": whole(ruleset, terms.rounded),
        "change": change,
        "bounded": terms.change != terms.rounded,
        "rating_after": before + change,
    }


def _unequal(terms: Terms, sides: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Why the two changes are no opposites: which k differs; None when they are."""
    winner, loser = sides
    if winner["change"] + loser["change"] == 0:
        return None
    return {"k_differs": winner["k"] != loser["k"], "bounded": [one["player_id"] for one in sides if one["bounded"]]}
