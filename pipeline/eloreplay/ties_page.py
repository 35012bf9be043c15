"""`ties` for a person."""

from __future__ import annotations

from typing import Any

from eloreplay.console import printable
from eloreplay.wording import games, points, rating, signed, when


def ties_text(found: dict[str, Any], n: int) -> str:
    """A page about the ties of a run; `n` players are listed."""
    lines = [
        f"{games(found['games'])} of run {found['run']}, as of {when(found['as_of'])}, rules {printable(found['rules'], 60)}",
        f"  {games(found['tied_games'])} share their instant with another game ({found['tied_instants']:,} instants)",
        f"  {games(found['tied_own_games'])} share it with another game of the same player "
        f"({found['tied_own_instants']:,} instants, {found['tied_players']:,} players)",
        "",
    ]
    moved = found["moved"]
    if not found["tied_own_games"]:
        return "\n".join([*lines, "No player has two games at one instant, so no order of tied games can change a rating."])
    lines.append("Played the other way round at each instant (the higher game id first), and all that follows from it:")
    if not moved:
        return "\n".join([*lines, f"  none of {found['players']:,} players would end with another rating"])
    changes = sorted(abs(one["change"]) for one in moved)
    lines += [
        f"  {len(moved):,} of {found['players']:,} players would end with another rating: half of them by no more than "
        f"{points(changes[(len(changes) - 1) // 2])}, the farthest by {points(changes[-1])}",
        "",
        f"  {'':<24}{'rating':>9}{'reversed':>10}{'change':>9}{'tied games':>12}{'of games':>10}",
    ]
    for one in moved[:n]:
        pool = f"  {printable(one['pool'])}" if one.get("pool") is not None else ""
        lines.append(
            f"  {printable(one['player_id']):<24}{rating(one['rating']):>9}{rating(one['reversed_rating']):>10}"
            f"{signed(one['change']):>9}{one['tied_games']:>12,}{one['games']:>10,}{pool}"
        )
    return "\n".join(lines)
