"""Live ratings against the recomputed ones, as a page for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eloreplay.boards import to_the_second
from eloreplay.console import counted, number, printable

#: What to make of a cause, in a line.
MEANING = {
    "missing game": "we rate a game that live does not have",
    "missing row": "live's list lacks a game whose change is in the ratings",
    "extra game": "live has a game that we do not rate",
    "other order": "live counted two games of a player the other way round",
    "other players": "live has the game with other players",
    "other version": "live's change is that of another rule version",
    "other k": "live's change is that of another K",
    "other cube": "live's change is that of another cube",
    "rounding": "live rounds otherwise",
    "wrong side": "live's change is that of the other result",
    "counted twice": "live counted a game twice",
    "not counted": "live has the game and moved nobody",
    "stale rating": "live went on from the rating before an earlier game",
    "manual edit": "live's rating moved without a game",
    "start rating": "live stands elsewhere where its games begin",
    "award": "live did not apply an award",
    "formula constants": "live uses another divisor",
    "unexplained": "no mistake that was tried gives live's change",
}
DETAILS = 3


def page(found: dict[str, Any], folder: Path) -> str:
    """The page, from the figures of `reconcile.reconcile`."""
    lines = [
        f"{printable(found['live'], 60)} against {found['run']['folder']}, rules {printable(found['rules'], 40)}",
        "",
    ]
    lines += _by_game(found) if found["grain"] == "game" else _by_player(found)
    return "\n".join([*lines, "", f"All of it is in {folder}"])


def _by_game(found: dict[str, Any]) -> list[str]:
    games, sides, players = found["games"], found["sides"], found["players"]
    every = sides["equal"] + sides["other"]
    first, last = (to_the_second(at) for at in found["span"])
    lines = [
        f"Games from {first} to {last}",
        f"  in both         {games['both']:>12,}",
        f"  only ours       {games['only_ours']:>12,}",
        f"  only live       {games['only_live']:>12,}",
        f"  equal           {sides['equal']:>12,}   of {every:,} sides of games that both have ({_share(sides['equal'], every)})",
        f"Players           {players['all']:>12,}",
        f"  agree always    {players['agree']:>12,}   ({_share(players['agree'], players['all'])})",
        f"  agree at the end{players['same_rating']:>12,}   ({_share(players['same_rating'], players['all'])})",
    ]
    if not found["causes"]:
        return [*lines, "", "Nothing differs."]
    lines += [
        "",
        f"What is behind it (the other {sides['consequences']:,} sides that differ follow from these)",
        f"  {'cause':<20}{'games':>8}{'players':>9}{'reached':>9}",
    ]
    for row in found["causes"]:
        meaning = MEANING.get(row["cause"], "")
        lines.append(f"  {row['cause']:<20}{row['games']:>8,}{row['first_of']:>9,}{row['reached']:>9,}  {meaning}")
    lines.append("  players: who part by it for the first time; reached: who part because an opponent had")
    for row in found["causes"]:
        lines += ["", f"{row['cause'].capitalize()}: {'; '.join(_details(row))}"]
        for example in row["examples"]:
            lines.append(f"  {_example(example)}")
    return lines


def _details(row: dict[str, Any]) -> list[str]:
    shown = [f"{printable(one['detail'], 80)} ({one['games']:,})" for one in row["details"][:DETAILS]]
    rest = len(row["details"]) - DETAILS
    return shown + ([f"and {rest} more kinds"] if rest > 0 else [])


def _example(row: dict[str, Any]) -> str:
    def side(name: str) -> str:
        change = row[f"change_{name}"]
        if row[f"before_{name}"] is None:
            return "not there"
        return f"{number(row[f'before_{name}'])} {'?' if change is None else number(change, sign=True)}"

    also = f" (or: {row['also']})" if row["also"] else ""
    return (
        f"game {printable(row['game_id'])}, {to_the_second(row['played_at'])}, {printable(row['player_id'])}: ours {side('ours')}, "
        f"live {side('live')}: {printable(row['detail'], 90)}{also}"
    )


def _by_player(found: dict[str, Any]) -> list[str]:
    players = found["players"]
    lines = [
        f"Players           {players['all']:>12,}",
        f"  agree           {players['agree']:>12,}   ({_share(players['agree'], players['all'])})",
    ]
    if not found["causes"]:
        return [*lines, "", "Nothing differs."]
    spread = found["difference"]
    if spread["least"] is not None:
        least, middle, most = (number(spread[name], sign=True) for name in ("least", "middle", "most"))
        apart = least if least == most else f"from {least} to {most}, in the middle {middle}"
        lines.append(f"  the others      live less ours {apart}")
    for row in found["causes"]:
        lines += ["", f"{row['cause'].capitalize()}: {counted(row['players'], 'player')}"]
        for one in row["examples"]:
            ours, live = number(one["rating_ours"]), number(one["rating_live"])
            games = f", games {one['games_ours'] or 0:,} and {one['games_live']:,}" if one["games_live"] is not None else ""
            behind = f", as before his last {one['behind']:,}" if one["behind"] else ""
            lines.append(f"  {printable(one['player_id'])}: ours {ours}, live {live}{games}{behind}")
    lines += [
        "",
        "Ratings alone say who differs. Why says a list by game (game_id, with rating before, change or after of both sides):",
        "give that instead.",
    ]
    return lines


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "–"
