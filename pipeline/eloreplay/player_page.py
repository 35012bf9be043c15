"""`player` for a person."""

from __future__ import annotations

from typing import Any

from eloreplay.console import printable
from eloreplay.wording import games, name, number, rating, signed, span, when

BARS = "▁▂▃▄▅▆▇█"


def player_text(found: dict[str, Any]) -> str:
    """A page about a player, from what `player.player` found."""
    pool = f" in {name(found['pool'])}" if found.get("pool") is not None else ""
    lines = [
        f"Player {name(found['player_id'])}{pool}, run {found['run']}, as of {when(found['as_of'])}, rules {name(found['rules'])}"
    ]
    if found["alias"] is not None:
        lines.append(f"({name(found['alias'])} is an alias of {name(found['player_id'])})")
    rank = "not on the board" if found["rank"] is None else f"rank {found['rank']:,} of {found['of']:,}"
    band = f", {name(found['band'])}" if found.get("band") is not None else ""
    record = f"{found['wins']:,} won, {found['losses']:,} lost" + (f", {found['draws']:,} drawn" if found["draws"] else "")
    facts = [("rating", f"{rating(found['rating'])} ({rank}{band})"), ("record", f"{games(found['games'])}: {record}")]
    if found["peak_rating"] is not None:
        facts.append(("peak", f"{rating(found['peak_rating'])} ({when(found['peak_at'])})"))
    if found["form"]["games"]:
        form = found["form"]
        facts.append(("form", f"{form['letters']} ({number(form['score'])} of the last {form['games']}, the newest at the right)"))
    if found["experience"] is not None:
        facts.append(("experience", number(found["experience"])))
    facts += [("K now", line) if not at else ("", line) for at, line in enumerate(_k_now(found["k_now"]))]
    lines += ["", *(f"  {key:<11}{value}" for key, value in facts)]
    if found["over_time"] is not None:
        lines += ["", *_spark(found["over_time"], isinstance(found["rating"], int))]
    if found["last"]:
        lines += ["", *_last(found["last"])]
    return "\n".join(lines)


def _k_now(now: dict[str, Any] | None) -> list[str]:
    """His K if he played right after the last rated game."""
    if now is None:
        return []
    text = number(now["k"])
    lines = []
    if now["heavy_from"] is not None:
        many = "game" if now["recent_games"] == 1 else "games"
        counted = f"{now['recent_games']:,} rated {many} in the {span(now['window_hours'])} up to {when(now['at'])}"
        if now["heavy"]:
            lines.append(f"{text}, reduced: {counted}, {now['heavy_from']} or more")
            lines.append(f"until {when(now['heavy_until'])} if he plays no more; {number(now['k_usual'])} after that")
        else:
            lines.append(f"{text}, not reduced: {counted}, fewer than {now['heavy_from']}")
    else:
        lines.append(text)
    if now["ramp"] != 1:
        own = ", before the match's own length counts" if now["ramp_counts_match"] else ""
        lines.append(f"{number(now['ramp'])} times the usual, for his experience is small{own}")
    return lines


def _spark(over: dict[str, Any], whole: bool) -> list[str]:
    low, high = over["low"], over["high"]
    steps = [min(len(BARS) - 1, int((value - low) / (high - low) * len(BARS))) if high > low else 0 for value in over["ratings"]]
    ends = f"{low:.0f} to {high:.0f}" if whole else f"{low:.2f} to {high:.2f}"
    return [f"  {''.join(BARS[step] for step in steps)}", f"  {over['from'][:10]} – {over['to'][:10]}, {ends}"]


def _last(steps: list[dict[str, Any]]) -> list[str]:
    """A table of the last steps."""
    rows = [["", "game", "against", "", "before", "change", "after", "K", "counted"]]
    for step in steps:
        at = step["played_at"][:16].replace("T", " ")
        ratings = [rating(step["rating_before"]), signed(step["change"]), rating(step["rating_after"])]
        if step["seq"] is None:
            what = "adjustment" if step["award_id"] is None else f"award {printable(step['award_id'], 18)}"
            rows.append([at, what, "", "", *ratings, "", ""])
            continue
        result = {1.0: "won", 0.0: "lost"}.get(step["score"], "drew")
        week = "" if step["recent_games"] is None else f"{step['recent_games']:,}"
        rows.append(
            [at, printable(step["game_id"], 24), printable(step["opponent_id"], 24), result, *ratings, number(step["k"]), week]
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    left = 4
    return [
        "  "
        + "  ".join(
            f"{cell:<{width}}" if at < left else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
