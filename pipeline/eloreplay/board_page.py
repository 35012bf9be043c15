"""Boards of any instant, and whose week is heavy, for a person."""

from __future__ import annotations

from typing import Any

from eloreplay.boards import board_lines
from eloreplay.console import counted, printable
from eloreplay.wording import games, number, rating, span, when


def board_at_text(found: dict[str, Any], n: int) -> str:
    """The recomputed board of an instant."""
    at = "at its end" if found["at"] is None else _instant(found["at"])
    who = [] if found["min_games"] == 1 else [f"{games(found['min_games'])} or more"]
    who += [] if found["active_days"] is None else [f"played in the last {found['active_days']} days before the last game"]
    asked = f" ({', '.join(who)})" if who else ""
    lines = [
        f"Leaderboard {at}, recomputed: as run {found['run']} has it (as of {when(found['as_of'])}, "
        f"rules {printable(found['rules'], 60)}){asked}",
        *_outside(found),
        *board_lines(found["rows"], n),
        "",
        _known(found),
    ]
    return "\n".join(lines)


def _instant(at: str) -> str:
    """An instant, or the day of which it is the last one."""
    day, end = at[:10], "T23:59:59.999999Z"
    return f"at the end of {day} (UTC)" if at == day + end else when(at)


def _known(found: dict[str, Any]) -> str:
    """How many players there are, and that none of them stands on a board where nobody does."""
    if not found["players"]:
        return "  no player is known by then"
    text = f"  {counted(found['players'], 'player is', 'players are')} known by then"
    return text if found["rows"] else f"{text}; none of them is one of those who are asked for"


def _outside(found: dict[str, Any]) -> list[str]:
    """What to know of an instant that no game surrounds."""
    if found["outside"] == "before":
        return [f"The history begins later: its first rated game is of {when(found['first_game_at'])}."]
    if found["outside"] == "after":
        return [f"The history ends before it, with the rated game of {when(found['last_game_at'])}: nothing is known after that."]
    return []


def heavy_text(found: dict[str, Any], n: int) -> str:
    """Whose k is reduced, the most games first."""
    rows = found["rows"]
    at = f"{_instant(found['at'])}{' (the last rated game)' if found['last_game'] else ''}"
    many = "player has a reduced K" if len(rows) == 1 else "players have a reduced K"
    lines = [
        f"{len(rows):,} {many} {at}: {found['heavy_from']} or more rated games in the {span(found['window_hours'])} before",
        f"as run {found['run']} has it, rules {printable(found['rules'], 60)}",
        *_outside(found),
    ]
    if rows:
        lines += ["", f"  {'':<24}{'games':>6}  {'K':<12}{'rating':>9}{'rank':>7}   heavy until, if he plays no more"]
    for row in rows[:n]:
        k = f"{number(row['k'])} (not {number(row['k_usual'])})"
        pool = f"  {printable(row['pool'])}" if row.get("pool") is not None else ""
        lines.append(
            f"  {printable(row['player_id']):<24}{row['recent_games']:>6,}  {k:<12}{rating(row['rating']):>9}{row['rank']:>7,}   "
            f"{when(row['until'])}{pool}"
        )
    if len(rows) > n:
        lines.append(f"  and {len(rows) - n:,} more (-n {len(rows)} shows them all)")
    return "\n".join(lines)
