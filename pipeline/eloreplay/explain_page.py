"""`explain` for a person: the figures side by side, then each with its reason in words."""

from __future__ import annotations

import textwrap
from typing import Any

from eloreplay.console import printable
from eloreplay.explain_rows import RATED
from eloreplay.wording import games, moved, name, number, rating, signed, span, when

WIDTH = 110
#: Games that are named on the way from a cause to a player.
STEPS_SHOWN = 4


def explain_text(found: dict[str, Any]) -> str:
    """A page about a game, from what `explain.explain` found."""
    lines = _rated(found) if found["status"] == RATED else _not_rated(found)
    past = [line for one in found["past"] for line in _past(found, one)]
    lines += ["", "Earlier runs", *past] if past else []
    if found["row_count"] > 1:
        lines += ["", f"Rows of this game in the files: {found['row_count']:,}"]
        lines += [f"  {_place(one)}: {one['verdict']} ({one['why']})" for one in found["rows"]]
        lines += [f"  and {found['row_count'] - len(found['rows']):,} more"] if found["row_count"] > len(found["rows"]) else []
    if found["status"] == RATED:
        again = ["", "Computed again from the timeline's columns by today's code: "]
        again[-1] += "the same." if found["agrees"] else "it differs."
        lines += [*again, *(f"  {printable(one, 300)}" for one in found["differences"])]
    return "\n".join(lines)


# ---------------------------------------------------------------- a rated game


def _rated(found: dict[str, Any]) -> list[str]:
    winner, loser = found["sides"]
    version = found["version"]
    did = "drew with" if found["is_draw"] else "beat"
    since = "since ever" if version["from"] is None else f"since {when(version['from'])}"
    until = "" if version["until"] is None else f" until {when(version['until'])}"
    pool = f" in {name(found['pool'])}" if found.get("pool") is not None else ""
    lines = [
        f"Game {name(found['game_id'])}{pool}: {name(winner['player_id'])} {did} {name(loser['player_id'])}, "
        f"{when(found['played_at'])}",
        f"run {found['run']}, rules {name(found['rules'])}, version {name(version['name'])}, in force {since}{until}",
        "",
        *_table(found),
        "",
        "Why",
    ]
    for side in found["sides"]:
        lines.append(f"  {_before(side)}")
    lines.append(f"  {_expected(found)}")
    lines += [f"  {line}" for side in found["sides"] for line in _k(found, side)]
    lines.append(f"  {_stake(found)}")
    lines += [f"  {_change(found, side)}" for side in found["sides"]]
    if found["unequal"] is not None:
        lines += ["", *_wrapped(_unequal(found), "")]
    return lines


def _wrapped(text: str, indent: str) -> list[str]:
    """A sentence in lines; what follows the first is indented further where the first one is."""
    further = indent + "  " if indent else ""
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def _table(found: dict[str, Any]) -> list[str]:
    sides = found["sides"]
    gap = found["gap"] + found["advantage"] if found["advantage"] else found["gap"]
    rows = [
        ["", *(printable(side["player_id"], 24) for side in sides)],
        ["", "draw" if found["is_draw"] else "winner", "draw" if found["is_draw"] else "loser"],
        ["rating before", *(rating(side["rating_before"]) for side in sides)],
        ["gap" + (", with the advantage" if found["advantage"] else ""), signed(gap), signed(-gap)],
        ["expected score", *(f"{side['expected']:.2%}" for side in sides)],
        ["result", *(number(side["score"]) for side in sides)],
    ]
    if found["window_hours"] is not None:
        rows.append([f"games in the {span(found['window_hours'])} before", *(f"{side['recent_games']:,}" for side in sides)])
    if sides[0]["experience"] is not None:
        rows.append(["experience before", *(number(side["experience"]) for side in sides)])
    rows += [
        ["K", *(number(side["k"]) for side in sides)],
        ["stake", *(number(found["stake"]) for _ in sides)],
        ["change, unrounded", *(signed(side["unrounded"], 4) for side in sides)],
        ["change", *(signed(side["change"], 4) for side in sides)],
        ["rating after", *(rating(side["rating_after"]) for side in sides)],
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    return [f"  {a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows]


def _before(side: dict[str, Any]) -> str:
    origin, who = side["before_from"], name(side["player_id"])
    text = {
        "start": f"{who} has no earlier game and starts at {rating(origin['rating_after'])}",
        "start rating": f"{who} has no earlier game and begins with his start rating, {rating(origin['rating_after'])}",
    }.get(origin["kind"], "")
    if origin["kind"] == "game":
        text = f"{who} stood at {rating(origin['rating_after'])} after game {name(origin['game_id'])} ({when(origin['played_at'])})"
    for award in origin["awards"]:
        what = "the adjustment" if award["award_id"] is None else f"award {name(award['award_id'])}"
        reason = f" {printable(award['reason'], 60)}" if award["reason"] else ""
        text += f", {moved(award['change'])} by {what}{reason} ({when(award['awarded_at'])})"
    return text + (f": {rating(side['rating_before'])}" if origin["awards"] else "")


def _expected(found: dict[str, Any]) -> str:
    winner, loser = found["sides"]
    gap, who = found["gap"], name(winner["player_id"])
    stands = "both ratings are equal"
    if gap:
        stands = f"{who} stood {rating(abs(gap))} points {'above' if gap > 0 else 'below'} {name(loser['player_id'])}"
    if found["advantage"]:
        stands += f", and {signed(found['advantage'])} points of advantage count for him"
    version = found["version"]
    divisor = number(version["divisor"])
    if version["divided_by_sqrt_match_length"]:
        divisor = f"({divisor}/√{found['inputs']['match_length']})"
    total = gap + found["advantage"]
    power = number(-total) if total else "0"
    formula = f"1/(1 + 10^({power.replace('-', '−')}/{divisor}))"
    return f"{stands}: expected {formula} = {winner['expected']:.2%} for him, {loser['expected']:.2%} for the other"


def _k(found: dict[str, Any], side: dict[str, Any]) -> list[str]:
    who = name(side["player_id"])
    reasons = []
    if side["k_by"] == "games":
        reasons.append(f"{number(side['k_usual'])} by his {games(side['games_before'])} before")
    elif side["k_by"] == "rating":
        reasons.append(f"{number(side['k_usual'])} by his rating of {rating(side['rating_before'])}")
    if side["heavy_from"] is not None:
        counted = _counted(found, side)
        if side["heavy"]:
            reasons.append(
                f"{counted}, {side['heavy_from']} or more, so {number(side['k_after_week'])} instead of {number(side['k_usual'])}"
            )
        else:
            reasons.append(f"{counted}, fewer than {side['heavy_from']}, so the full K")
    if side["k_ramp"] != 1 or side["experience"] is not None:
        factor = f"× {number(side['k_ramp'])}" if side["k_ramp"] != 1 else "so no ramp any more"
        match = f" and the {found['inputs']['match_length']} of this match" if side["k_ramp_counts_match"] else ""
        reasons.append(f"an experience of {number(side['experience'] or 0.0)} before{match}, {factor}")
    text = f"K of {who} is {number(side['k'])}: " + ("; ".join(reasons) if reasons else "the K of everybody")
    return [text, *(f"  {line}" for line in _turns(side))]


def _counted(found: dict[str, Any], side: dict[str, Any]) -> str:
    many = "game" if side["recent_games"] == 1 else "games"
    return f"{side['recent_games']:,} rated {many} in the {span(found['window_hours'])} before"


def _turns(side: dict[str, Any]) -> list[str]:
    """When his K was reduced and came back."""
    turns = side["heavy_turns"]
    if turns is None or side["heavy_from"] is None:
        return []
    lines = []

    def game(one: dict[str, Any]) -> str:
        return f"game {name(one['game_id'])} ({when(one['played_at'])}, {one['recent_games']:,} before)"

    since, until = turns["since"], turns["until"]
    if turns["heavy"]:
        lines.append(
            f"it had been reduced since {game(since)}" if since["game_id"] != side["game_id"] else "it is reduced from this game on"
        )
        lines.append(f"it came back with {game(until)}" if until else "it was still reduced at his last rated game")
    else:
        lines += [f"it had come back with {game(since)}"] if since and since["game_id"] != side["game_id"] else []
        lines += ["it comes back with this game"] if since and since["game_id"] == side["game_id"] else []
        lines += [f"it was reduced from {game(until)}"] if until else []
    return lines


def _stake(found: dict[str, Any]) -> str:
    parts = [
        f"{one['what']} {number(one['value']) if isinstance(one['value'], float) else name(one['value'])} ({one['how']})"
        for one in found["stake_parts"]
    ]
    return f"the stake is {number(found['stake'])} for both" + (f", from {' and '.join(parts)}" if parts else "")


def _change(found: dict[str, Any], side: dict[str, Any]) -> str:
    surprise = f"({number(side['score'])} − {side['expected']:.4f})"
    text = f"{name(side['player_id'])}: {number(side['k'])} × {number(found['stake'])} × {surprise} = {moved(side['unrounded'])}"
    if found["rounding"] != "none":
        text += f", rounded {moved(side['rounded'])}"
    if side["bounded"]:
        text += f", bounded {moved(side['change'])} (floor, cap or largest change of the rules)"
    return text


def _unequal(found: dict[str, Any]) -> str:
    winner, loser = found["sides"]

    def did(side: dict[str, Any]) -> str:
        change = side["change"]
        verb = "gained" if change > 0 else "lost" if change < 0 else "moved by"
        return f"{name(side['player_id'])} {verb} {signed(abs(change), 4).lstrip('+')}"

    text = f"{did(winner)} and {did(loser)}"
    if found["unequal"]["k_differs"]:
        light, full = sorted(found["sides"], key=lambda side: float(side["k"]))
        text += (
            f", because each side has its own K: that of {name(light['player_id'])} is {number(light['k'])}, that of "
            f"{name(full['player_id'])} {number(full['k'])}."
        )
        text += _why_k_differs(found, light, full)
    if found["unequal"]["bounded"]:
        text += f" A bound of the rules stopped the change of {' and '.join(map(name, found['unequal']['bounded']))}."
    return text if text.endswith(".") else text + "."


def _why_k_differs(found: dict[str, Any], light: dict[str, Any], full: dict[str, Any]) -> str:
    """A sentence, with a blank in front; empty when nothing simple tells."""
    one, other = name(light["player_id"]), name(full["player_id"])
    if light["heavy"] and not full["heavy"]:
        return (
            f" {one} had {_counted(found, light)}, and from {light['heavy_from']} on every game counts less for him, won or lost. "
            "That does not touch what the other wins or loses."
        )
    if light["k_ramp"] != full["k_ramp"]:
        return f" It falls with experience: {one} had {number(light['experience'])} before, {other} {number(full['experience'])}."
    if light["k_by"] == "games":
        return f" It goes by games: {one} had {light['games_before']:,} before, {other} {full['games_before']:,}."
    if light["k_by"] == "rating":
        return f" It goes by rating: {one} had {rating(light['rating_before'])}, {other} {rating(full['rating_before'])}."
    return ""


# ---------------------------------------------------------------- what is not rated, and what was


def _place(row: dict[str, Any]) -> str:
    return f"{printable(row['file'], 120)}, row {row['row_no']}"


def _not_rated(found: dict[str, Any]) -> list[str]:
    status = found["status"]
    lines = [f"Game {name(found['game_id'])} is not rated: {status.replace('_', ' ')}", f"  {printable(found['why'], 300)}"]
    if found["file"] is not None:
        lines.append(f"  it stands in {printable(found['file'], 120)}, row {found['row']} (from 0)")
    lines.append(f"  run {found['run']}, rules {name(found['rules'])}, as of {when(found['as_of'])}")
    return lines


def _past(found: dict[str, Any], one: dict[str, Any]) -> list[str]:
    """What became of the game from one kept run to the next."""
    head = f"  run {one['run']} ({when(one['published_at'])})"
    if one["kind"] == "first rated":
        before = f"where it was {one['verdict_before'].replace('_', ' ')}" if one["verdict_before"] else "which did not know it"
        return [f"{head} is the first that rates it after run {one['before_run']}, {before}"]
    was = one["was"]
    said = [
        f"    {name(was[f'{side}_id'])}: {rating(was[f'{side}_rating_before'])} {moved(was[f'{side}_change'])}, "
        f"K {number(was[f'{side}_k'])}"
        for side in ("winner", "loser")
    ]
    title = {
        "no longer rated": f"{head} no longer rates it; in run {one['before_run']} it was",
        "corrected": f"{head} has other facts of it; in run {one['before_run']} it was played {when(was['played_at'])}",
        "restated": f"{head} restated it; in run {one['before_run']} it was",
    }[one["kind"]]
    because = [line for cause in one["causes"] for line in _wrapped(_cause(cause), "    ")]
    return [title, *said, *because]


def _cause(cause: dict[str, Any]) -> str:
    who = " and ".join(name(player) for player in cause["players"])
    if cause["kind"] == "rules":
        return f"because the rules are others: {name(cause['rules_before'])} before, {name(cause['rules'])} now"
    if cause["kind"] == "unknown":
        return f"what changed the rating of {who} is in no table of the two runs (start ratings, aliases or an adjustment)"
    if cause["kind"].startswith("award"):
        what = "the adjustment" if cause["id"] is None else f"award {name(cause['id'])}"
        reason = f" {printable(cause['reason'], 60)}" if cause["reason"] else ""
        gone = "is gone" if cause["kind"].endswith("gone") else "has come"
        text = (
            f"because {what}{reason} of {signed(cause['points'])} for {name(cause['player'])} ({when(cause['played_at'])}) {gone}"
        )
    else:
        how = {"late": "came late", "corrected": "was corrected"}.get(cause["kind"])
        how = how or f"is not rated any more: {cause['verdict'].replace('_', ' ')}"
        sides = f"{name(cause['winner_id'])} against {name(cause['loser_id'])}"
        text = f"because game {name(cause['id'])} ({sides}, {when(cause['played_at'])}) {how}"
    if cause["via"]:
        # The way as it went: from the cause to the player.
        steps = [
            f"game {name(one['game_id'])} of {name(one['opponent'])} against {name(one['player'])}" for one in cause["via"][::-1]
        ]
        if len(steps) > STEPS_SHOWN:
            steps = [steps[0], f"{len(steps) - 2} more", steps[-1]]
        text += f"; it reached {who} through {', '.join(steps)}"
    return text
