"""Two runs side by side, as a page for a person."""

from __future__ import annotations

from typing import Any

from eloreplay.boards import to_the_second
from eloreplay.console import counted, number, printable

#: Lines of the board that the page shows.
BOARD_LINES = 20


def page(found: dict[str, Any]) -> str:
    """The page, from the figures of `diff.diff`."""
    lines = []
    for side, title in (("a", "A"), ("b", "B")):
        one = found[side]
        lines.append(f"{title}  {one['folder']}: rules {printable(one['rules'], 60)}, as of {to_the_second(one['as_of'])}")
    lines += ["", *_games(found["games"]), "", *_players(found["players"])]
    for ladder in found["ladders"]:
        lines += ["", *_ladder(ladder)]
    lines += ["", *_movers(found["movers"])]
    return "\n".join(lines)


def _games(games: dict[str, Any]) -> list[str]:
    lines = [f"Games: {games['a']:,} in A, {games['b']:,} in B"]
    if not (games["only_a"] or games["only_b"] or games["differing"]):
        return [*lines, "  every game is the same in both, with the same ratings"]
    return [
        *lines,
        f"  only in A       {games['only_a']:>12,}",
        f"  only in B       {games['only_b']:>12,}",
        f"  rated otherwise {games['differing']:>12,}   (in {games['moved_otherwise']:,} of them somebody's change is another)",
    ]


def _players(players: dict[str, Any]) -> list[str]:
    both = players["both"]
    lines = [f"Players: {both:,} in both, {players['only_a']:,} only in A, {players['only_b']:,} only in B"]
    if not both:
        return lines
    change, distance = players["change"], players["distance"]
    lines += [
        f"  another rating  {players['moved']:>12,}   ({players['moved'] / both:.1%})",
        f"  by more than    {'  '.join(f'{step}: {n:,} ({n / both:.1%})' for step, n in players['beyond'].items())}",
        "  from A to B     least, quarter, middle, three quarters, most",
        f"    change        {', '.join(number(value, sign=True) for value in change.values())}",
        f"    distance      {', '.join(number(value) for value in distance.values())}",
    ]
    return lines


def _ladder(ladder: dict[str, Any]) -> list[str]:
    name = f" of {printable(ladder['pool'])}" if "pool" in ladder else ""
    lines = [f"The order{name}, over {ladder['players']:,} players in both"]
    for key, title in (("spearman", "Spearman's rank correlation"), ("kendall", "Kendall's tau-b")):
        value = ladder[key]
        lines.append(f"  {title:<30}{'not defined' if value is None else correlation(value)}")
    for length, board in ladder["boards"].items():
        entries, exits = len(board["entries"]), len(board["exits"])
        moves = len(board["moves"])
        lines.append(f"  top {length:<4} {entries} come, {exits} leave, {moves} change their rank, {board['same_rank']} keep it")
    board = ladder["boards"][str(BOARD_LINES)]
    rows = sorted(
        [*((row, "comes") for row in board["entries"]), *((row, "leaves") for row in board["exits"])]
        + [(row, "") for row in board["moves"]],
        key=lambda pair: (pair[0]["rank_b"] is None, pair[0]["rank_b"] or 0, pair[0]["rank_a"] or 0, str(pair[0]["player_id"])),
    )
    if rows:
        lines.append(f"  {'player':<24}{'rank A':>8}{'rank B':>8}{'in A':>10}{'in B':>10}")
    for row, word in rows:
        ranks = "".join(f"{'–' if row[key] is None else row[key]:>8}" for key in ("rank_a", "rank_b"))
        ratings = f"{number(row['rating_a']):>10}{number(row['rating_b']):>10}"
        lines.append(f"  {printable(row['player_id'], 22):<24}{ranks}{ratings}  {word}".rstrip())
    return lines


def correlation(value: float) -> str:
    """A rank correlation with four decimals, or with as many as show that it is not 1 (or -1)."""
    digits = 4
    while abs(value) < 1 and abs(float(f"{value:.{digits}f}")) == 1 and digits < 17:
        digits += 2
    return f"{value:.{digits}f}"


def _movers(movers: list[dict[str, Any]]) -> list[str]:
    if not movers:
        return ["Nobody has another rating."]
    lines = ["Who moves most, and the games that say why"]
    for row in movers:
        where = f" ({printable(row['pool'])})" if row.get("pool") is not None else ""
        lines.append(
            f"  {printable(row['player_id'])}{where}: {number(row['rating_a'])} -> {number(row['rating_b'])} "
            f"({number(row['change'], sign=True)}), {counted(row['differing_games'], 'game differs', 'games differ')}"
        )
        first = row["first"]
        if first["at"] is not None:
            lines.append(f"    first apart  {_line({**first, 'played_at': first['at']})}")
        for game in row["games"]:
            lines.append(f"    most apart   {_line(game)}")
    return lines


def _line(game: dict[str, Any]) -> str:
    what = "an award" if game["game_id"] is None else f"game {printable(game['game_id'])}"
    sides = []
    for side in ("a", "b"):
        before, change = game[f"before_{side}"], game[f"change_{side}"]
        if change is None:
            sides.append("not there")
        else:
            sides.append(f"{'' if before is None else f'{number(before)} '}{number(change, sign=True)}")
    return f"{what}, {to_the_second(game['played_at'])}: A {sides[0]}, B {sides[1]}"
