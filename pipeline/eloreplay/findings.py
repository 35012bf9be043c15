"""The words for what `check` found: sections for a terminal, each with what its figures mean and what to do.

A section is "ok" or "look"; neither stops anything, and the figures themselves are in the report that `check` returns.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from eloreplay.console import printable

WIDTH = 100
#: Shares from which a section asks for a look: games sharing an instant per player, stamps at midnight, players seen once.
TIED_SHARE, MIDNIGHT_SHARE, ONCE_SHARE = 0.001, 0.5, 0.5
#: A month with less than this part of the usual (median) month looks like a file that is missing.
THIN_MONTH = 0.25
MONTHS_SHOWN, LIST_SHOWN, SCORES_SHOWN = 24, 5, 4


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        name: the key for machines.
        title: the heading.
        lines: the figures.
        meaning: what they mean and what to do.
        look: whether a person should look.
    """

    name: str
    title: str
    lines: list[str]
    meaning: str
    look: bool = False


def sections(found: dict[str, Any]) -> list[Section]:
    """Every section, in the order in which a person wants to know."""
    if not found["span"]["games"]:
        return [_bins(found), _copies(found)]
    parts = (_bins, _copies, _months, _gaps, _ties, _doubles, _values, _players, _lookalikes, _largest, _sudden)
    return [part(found) for part in parts]


def summary(found: dict[str, Any]) -> list[dict[str, str]]:
    """The sections' verdicts, for machines."""
    return [{"finding": s.name, "level": "look" if s.look else "ok", "meaning": s.meaning} for s in sections(found)]


def text(found: dict[str, Any]) -> str:
    """The whole report as text."""
    parts = sections(found)
    looks = [section.title for section in parts if section.look]
    lines = [
        f"{_count(found['rows_read'], 'row')} in {_count(found['files'], 'file')}, judged by the rules {found['rules']} as of "
        f"{found['as_of']}. Nothing was rated, nothing was published.",
        "Worth a look: " + "; ".join(looks) if looks else "Nothing stands out.",
    ]
    out = ["\n".join(textwrap.fill(line, WIDTH) for line in lines)]
    for section in parts:
        meaning = textwrap.fill(section.meaning, WIDTH, initial_indent="  ", subsequent_indent="  ")
        out.append("\n".join([f"{'!' if section.look else ' '} {section.title.upper()}", *section.lines, meaning]))
    return "\n\n".join(out)


def _bins(found: dict[str, Any]) -> Section:
    bins, total = found["bins"], found["rows_read"]
    counts = {name: count for name, count in bins.items() if name != "rejected"} | {"rejected": found["rejected"]}
    lines = [f"  {name:<28}{count:>14,}  {_share(count, total):>7}" for name, count in counts.items()]
    lines += [f"    {reason:<26}{count:>14,}  {_share(count, total):>7}" for reason, count in bins["rejected"].items() if count]
    share, limit = f"{found['rejected_share']:.2%}", f"{found['max_rejected']:.2%}"
    stop = found["backfill_would_stop"]
    if stop:
        meaning = (
            f"A backfill would stop: {share} of the rows are refused, and --max-rejected allows {limit}. Mend the rows at their "
            "source, or map the columns otherwise; a backfill writes them out with file and row."
        )
    else:
        meaning = f"A backfill would go through: {share} of the rows are refused, and --max-rejected allows {limit}."
    if bins["rejected"]["unknown_mode"]:
        meaning += " Modes that the rules do not name are refused: see the values of mode below, and [modes] of the ruleset."
    if bins["held"]:
        meaning += (
            f" Rows after the as-of wait for a later run; the last is of {found['span']['last_held_at']}: if that is far off, "
            "a clock or a unit is wrong."
        )
    return Section("bins", "What becomes of the rows", lines, meaning, stop or bool(bins["held"]))


def _copies(found: dict[str, Any]) -> Section:
    copies = found["copies"]
    lines = [
        f"  game ids that stand more than once {copies['repeated_ids']:>12,}",
        f"  rows left out as copies            {copies['duplicate_rows']:>12,}",
        f"  rows that contradict each other    {copies['conflicting_rows']:>12,}",
    ]
    if copies["conflicting_ids"]:
        meaning = (
            f"Copies of {_count(copies['conflicting_ids'], 'game')} differ and no revision says which is right, so all of them are "
            "refused. Export the revision, or remove the wrong ones."
        )
    elif copies["repeated_ids"]:
        meaning = "Exports overlap or correct themselves; of each game the highest revision counts, once. Nothing to do."
    else:
        meaning = "Every game is delivered once. Nothing to do."
    return Section("copies", "Copies of games", lines, meaning, bool(copies["conflicting_ids"]))


def _months(found: dict[str, Any]) -> Section:
    span, months = found["span"], found["months"]
    lines = [
        f"  {_count(span['games'], 'game')} on {_count(span['days'], 'day')}, {_count(found['players']['players'], 'player')}",
        f"  first {span['first_at']}, last {span['last_at']}",
    ]
    if len(months) > MONTHS_SHOWN:
        lines.append(f"  … {len(months) - MONTHS_SHOWN:,} earlier months")
    most = max(month["games"] for month in months)
    for month in months[-MONTHS_SHOWN:]:
        bar = "█" * round(30 * month["games"] / most) or "▏"
        lines.append(f"  {month['month']}  {month['games']:>12,}  {bar}")
    # The first and the last month are rarely whole, so they tell nothing.
    inner = months[1:-1]
    usual = median(month["games"] for month in inner) if inner else 0
    thin = [month["month"] for month in inner if month["games"] < THIN_MONTH * usual]
    meaning = "A month far below its neighbours is most often a file that was not delivered."
    if thin:
        meaning += f" Here: {', '.join(thin[:6])}{f' and {len(thin) - 6:,} more' if len(thin) > 6 else ''}."
    return Section("months", "Games over time", lines, meaning, bool(thin))


def _gaps(found: dict[str, Any]) -> Section:
    gaps = found["gaps"]
    lines = [f"  {_duration(gap['gap_s']):>12}  {gap['from']} – {gap['to']}" for gap in gaps["shown"][:LIST_SHOWN]]
    if gaps["long_gaps"]:
        meaning = (
            f"{_count(gaps['long_gaps'], 'stretch', 'stretches')} of more than a day without a single game. Ask whether the site "
            "stood still then; if not, a part of the export is missing."
        )
    else:
        meaning = "The longest stretches without a game; none is longer than a day."
    return Section("gaps", "Gaps in time", lines or ["  none"], meaning, bool(gaps["long_gaps"]))


def _ties(found: dict[str, Any]) -> Section:
    ties = found["ties"]
    games = ties["games"]
    lines = [
        f"  games that share their instant      {ties['tied_games']:>12,}  {_share(ties['tied_games'], games):>7}",
        f"  instants with several games         {ties['tied_instants']:>12,}  "
        f"the largest with {_count(ties['largest_instant'], 'game')}",
        f"  a player's instants with several    {ties['tied_player_instants']:>12,}  "
        f"{_share(ties['tied_player_instants'], ties['player_instants']):>7}",
        f"  stamps at exactly 00:00 UTC         {ties['midnight_games']:>12,}  {_share(ties['midnight_games'], games):>7}",
    ]
    dates = _are_dates(ties)
    look = dates or ties["tied_player_instants"] > TIED_SHARE * ties["player_instants"]
    if dates:
        meaning = (
            "Most stamps are dates, not instants: within a day the games are rated in the order of their ids, and the weekly count "
            "knows whole days only. Export when each game ended, if anyone knows."
        )
    elif ties["tied_player_instants"]:
        meaning = (
            "Where one player has several games at one instant, only the game id orders them. That is harmless when ids rise with "
            "time; otherwise export finer stamps."
        )
    else:
        meaning = "No player has two games at one instant, so the order of his games never hangs on an id."
    return Section("ties", "Games at the same instant", lines, meaning, look)


def _are_dates(ties: dict[str, Any]) -> bool:
    return bool(ties["games"] > 1 and ties["midnight_games"] > MIDNIGHT_SHARE * ties["games"])


def _doubles(found: dict[str, Any]) -> Section:
    doubles, within = found["double_submits"], found["limits"]["double_submit_s"]
    lines = [_double(game) for game in doubles["shown"][:LIST_SHOWN]]
    if doubles["total"]:
        lines = [*lines, *_more(doubles["total"], len(lines))]
        meaning = (
            f"{_count(doubles['total'], 'game')} of {_count(doubles['pairs'], 'pair')} repeat the result of the pair's game at "
            f"most {within} s before, under another id: most likely one result sent twice ({doubles['total_rated']:,} would be "
            "rated). Void what is no game of its own: copies are found by their id, and these have two."
        )
        if _are_dates(found["ties"]):
            meaning += " But most stamps are dates, so two real games of one day look the same."
    else:
        meaning = f"No pair has the same result twice within {within} s under two ids."
    return Section("double_submits", "Results sent twice", lines or ["  none"], meaning, bool(doubles["total"]))


def _double(game: dict[str, Any]) -> str:
    winner, loser = printable(game["winner_id"], 16), printable(game["loser_id"], 16)
    later, earlier = printable(game["game_id"], 20), printable(game["earlier_game_id"], 20)
    result = f"{winner} drew with {loser}" if game["is_draw"] else f"{winner} beat {loser}"
    return f"  {game['played_at']}  {later}, {game['apart_s']:.1f} s after {earlier}: {result}"


def _values(found: dict[str, Any]) -> Section:
    absent = set(found["absent_columns"])
    by_field: dict[str, list[dict[str, Any]]] = {}
    for row in found["values"]:
        by_field.setdefault(row["field"], []).append(row)
    lines: list[str] = []
    for field in ("mode", "cube", "match_length", "result", "ended_by", "is_draw"):
        if field in absent:
            continue
        values = []
        for row in by_field.get(field, []):
            name = f"{row['others']} others" if row["others"] else "(none)" if row["is_missing"] else printable(row["cell"], 20)
            # A value and its figures stay on one line.
            values.append(f"{name}: {row['games']:,} ({_share(row['games'], found['span']['games'])})".replace(" ", "\xa0"))
        lines += _table_row(field, "   ".join(values))
    if absent:
        lines += textwrap.wrap(
            ", ".join(found["absent_columns"]), WIDTH, initial_indent="  not in files  ", subsequent_indent=" " * 16
        )
    refused = found["bins"]["rejected"]
    bad = [reason for reason in ("unknown_mode", "bad_cube", "bad_match_length", "bad_result") if refused[reason]]
    meaning = "A value that does not belong to its column is most often a mapping that points to the wrong one."
    if bad:
        meaning += f" Refused for their values: {', '.join(f'{reason} {refused[reason]:,}' for reason in bad)}."
    scores = found["score_columns"]
    if scores:
        shown = ", ".join(printable(name, 40) for name in scores[:SCORES_SHOWN])
        meaning += (
            f" Draws may be lost: no is_draw is mapped, and {shown} look like scores. If games can be drawn, map it in the columns "
            'file, as in is_draw = "home_score = away_score".'
        )
    return Section("values", "Modes, cubes and lengths", lines, meaning, bool(bad or scores))


def _table_row(name: str, content: str) -> list[str]:
    lines = textwrap.wrap(content, WIDTH, initial_indent=f"  {name:<14}", subsequent_indent=" " * 16)
    return [line.replace("\xa0", " ") for line in lines]


def _players(found: dict[str, Any]) -> Section:
    players = found["players"]
    once, total = players["seen_once"], players["players"]
    lines = [
        f"  players              {total:>12,}",
        f"  seen in one game     {once:>12,}  {_share(once, total):>7}",
        f"  games of a player    {players['median_games']:>12,.0f}  in the middle, at most {players['most_games']:,}",
    ]
    meaning = "Many newcomers leave after one game; "
    look = once > ONCE_SHARE * total
    meaning += (
        "but more than half of all ids look like ids made anew for each visit, or a column that holds no player."
        if look
        else "a share far above one half would look like ids made anew for each visit."
    )
    if players["blank_ids"]:
        lines.append(f"  ids without a letter {players['blank_ids']:>12,}  in {_count(players['blank_games'], 'game')}")
        meaning = (
            f"{_count(players['blank_ids'], 'player id is', 'player ids are')} empty or blank text. To a run that is a player "
            "like any other; if it stands for a missing id, make it NULL in the columns file, for example with "
            "nullif(trim(winner_id), ''). "
        ) + meaning
    return Section("players", "Ids seen once or blank", lines, meaning, look or bool(players["blank_ids"]))


def _lookalikes(found: dict[str, Any]) -> Section:
    groups = found["lookalikes"]
    lines = []
    for group in groups["shown"][:LIST_SHOWN]:
        names = "  ".join(_told_apart(group["ids"]))
        lines.append(f"  {names}{'  …' if group['id_count'] > len(group['ids']) else ''}")
    lines += _more(groups["total"], len(lines))
    if groups["total"]:
        meaning = (
            "These ids differ only by case, space, leading zeros or the way an accent is written. They are different players here; "
            "if they are one, say so in --aliases."
        )
    else:
        meaning = "No two ids differ only by case, space, leading zeros or the way an accent is written."
    return Section("lookalikes", "Ids that look alike", lines or ["  none"], meaning, bool(groups["total"]))


def _told_apart(ids: list[Any]) -> list[str]:
    """Ids as text; those that would look the same on a terminal with the code points that tell them apart."""
    shown = [f"‹{printable(name)}›" for name in ids]
    looks = [unicodedata.normalize("NFC", name) for name in shown]
    for at, name in enumerate(map(str, ids)):
        if looks.count(looks[at]) > 1:
            codes = " ".join(f"U+{ord(char):04X}" for char in name if not char.isascii())
            shown[at] = f"‹{printable(name, WIDTH)}›" + (f" ({codes})" if codes else "")
    return shown


def _largest(found: dict[str, Any]) -> Section:
    lines = [_day(day) for day in found["largest_days"][:LIST_SHOWN]]
    meaning = "The most games of one player on one UTC day. Ask whether so many can be played in a day."
    return Section("largest_days", "Busiest player-days", lines, meaning)


def _sudden(found: dict[str, Any]) -> Section:
    sudden, limits = found["sudden_days"], found["limits"]
    lines = [_day(day) for day in sudden["shown"][:LIST_SHOWN]]
    lines += _more(sudden["total"], len(lines))
    rule = f"more than {limits['sudden_times']} times the player's usual day, and at least {limits['sudden_games']} games"
    if sudden["total"]:
        meaning = (
            f"{_count(sudden['total'], 'day')} of {_count(sudden['players'], 'player')} with {rule}: a shared account, a script, "
            "points handed over, or a batch that carries one stamp. Look at the opponents of that day."
        )
    else:
        meaning = f"No player has a day with {rule}."
    return Section("sudden_days", "Sudden volume", lines or ["  none"], meaning, bool(sudden["total"]))


def _day(day: dict[str, Any]) -> str:
    usual = f"usually {day['median_games']:g} a day ({_count(day['days'], 'day')})"
    return f"  {str(day['day'])[:10]}  {printable(day['player_id']):<24} {day['games']:>7,} games; {usual}"


def _more(total: int, shown: int) -> Iterable[str]:
    return [f"  … and {total - shown:,} more"] if total > shown else []


def _count(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s"
