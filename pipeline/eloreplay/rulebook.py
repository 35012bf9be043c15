"""What a ruleset says, as tables that a site can publish, and what one game would change.

Nothing is computed here: made-up games go through the very queries and the very kernel that rate real ones
(`sql/windowed_counts.sql`, `sql/rule_terms.sql`, `replay.rate`), and what comes back is shown.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eloreplay.console import harmless
from eloreplay.errors import InputRefused, UsageFault
from eloreplay.events import Events
from eloreplay.games import put_rule_versions
from eloreplay.instants import show_us
from eloreplay.kernel import PLAYER_STATE
from eloreplay.prepare import Recent, Stretch, k_of_week, windowed_counts
from eloreplay.queries import Database
from eloreplay.rating import rate
from eloreplay.rules import GIVEN, LARGEST_WHOLE, Ruleset, RuleVersion, find_ruleset, load_ruleset, load_undated, shipped_rulesets

GAPS = (*range(0, 401, 25), 450, 500, 600, 800)
LENGTHS = (1, 3, 5, 7, 9, 11, 13, 15, 17, 21, 25)
LENGTH_GAPS = (100, 200, 400)
RAMP_STEPS = 8
#: The largest rating, weight or advantage that `expect` is asked about.
LARGEST_ASKED = 10**12
SIDES = ("first", "second")


@dataclass(frozen=True)
class Side:
    """A player before a game; `recent`: his rated games in the counting window."""

    rating: float
    games: int = 0
    experience: float = 0.0
    recent: int = 0


@dataclass(frozen=True)
class Question:
    """A made-up game under the version at this position."""

    version: int
    winner: Side
    loser: Side
    draw: bool = False
    cube: int = 1
    match_length: int = 1
    result: str = "single"
    weight: float = 1.0
    advantage: float = 0.0


@dataclass(frozen=True)
class Answer:
    """What the game would do; of a pair the winner's comes first."""

    expected: float
    k: tuple[float, float]
    change: tuple[float, float]
    stake: float
    divisor: float


def ask(ruleset: Ruleset, questions: Sequence[Question]) -> list[Answer]:
    """Rate made-up games, each between two players of its own, by the queries and the kernel of a run."""
    # Made-up instants, one a version: which version a game falls under is what is asked for, not when it came into force.
    dated = ruleset.model_copy(
        update={"version": tuple(v.model_copy(update={"from_": at}) for at, v in enumerate(ruleset.version)), "adjustment": ()}
    )
    questions = list(questions)
    n, uses = len(questions), dated.uses
    at = np.arange(n)
    sides = [side for q in questions for side in (q.winner, q.loser)]
    inputs = {
        "question": at,
        "played_us": pa.array([q.version for q in questions], pa.int64()),
        "cube": pa.array([q.cube if uses.cube else None for q in questions], pa.int64()),
        "match_length": pa.array([q.match_length if uses.match_length else None for q in questions], pa.int64()),
        "result": pa.array([q.result if uses.result else None for q in questions], pa.string()),
        "weight": pa.array([q.weight if uses.weight else None for q in questions], pa.float64()),
        "advantage": pa.array([q.advantage if uses.advantage else 0.0 for q in questions], pa.float64()),
    }
    with tempfile.TemporaryDirectory(prefix="eloreplay-") as spill:
        database = Database(None, threads=1, memory_limit="500MB", spill=Path(spill))
        try:
            put_rule_versions(database, dated)
            database.put("rule_inputs", pa.table(inputs))
            rows = database.arrow("rule_terms").sort_by("question")
            rows = rows.append_column("game_id", rows["question"])
            k = np.tile(rows["k"].to_numpy(), (2, 1))
            if dated.window_us is not None:
                k = _weekly_k(database, dated, dated.window_us, sides, rows)
        finally:
            database.close()
    lengths = np.array([q.match_length if uses.match_length else 0 for q in questions], np.float64)
    stretch = Stretch(
        rows=rows,
        played_us=np.array(rows["played_us"].to_numpy(), np.int64),
        winner=np.array(2 * at, np.int32),
        loser=np.array(2 * at + 1, np.int32),
        score=np.array([0.5 if q.draw else 1.0 for q in questions]),
        advantage=np.array(rows["advantage"].to_numpy(), np.float64),
        divisor=np.array(rows["divisor"].to_numpy(), np.float64),
        stake=np.array(rows["stake"].to_numpy(), np.float64),
        match_length=lengths,
        k=k,
        version=np.array(rows["version_index"].to_numpy(), np.int16),
        recent=None,
        trailing=Recent.nothing(),
        elapsed_s={},
    )
    state = np.zeros(2 * n, PLAYER_STATE)
    state["rating"] = [side.rating for side in sides]
    state["games"] = [side.games for side in sides]
    state["experience"] = [side.experience for side in sides]
    state["peak_rating"] = -math.inf
    nobody = np.empty(0)
    events = Events(nobody.astype(np.int32), nobody.astype(np.int64), nobody, rows.slice(0, 0), ())
    out = rate(stretch, 0, n, events, state, dated, len(dated.version), rows.slice(0, 0))
    return [
        Answer(
            expected=float(out.expected[i]),
            k=(float(out.k[i, 0]), float(out.k[i, 1])),
            change=(float(out.change[i, 0]), float(out.change[i, 1])),
            stake=float(stretch.stake[i]),
            divisor=float(stretch.divisor[i]),
        )
        for i in range(n)
    ]


def _weekly_k(database: Database, ruleset: Ruleset, window_us: int, sides: list[Side], rows: pa.Table) -> NDArray[np.float64]:
    """The k of each side, after as many games as it is said to have played: `sql/windowed_counts.sql`, float64 `(2, n_games)`."""
    before = np.repeat(np.arange(len(sides)), [side.recent for side in sides])
    n, earlier = rows.num_rows, len(before)
    games = Recent(
        np.zeros(earlier + n, np.int64),
        np.concatenate([before, 2 * np.arange(n)]).astype(np.int32),
        np.concatenate([len(sides) + np.arange(earlier), 2 * np.arange(n) + 1]).astype(np.int32),
    )
    recent = windowed_counts(database, games, window_us, earlier)
    return k_of_week(ruleset, np.array(rows["version_index"], np.int16), rows["k"].to_numpy(), recent)


# ---------------------------------------------------------------- the tables of a ruleset


@dataclass
class Table:
    """A table to be shown: a title, column names, and rows of numbers or text."""

    key: str
    title: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)


def listing() -> list[dict[str, str]]:
    """Name and title of every shipped ruleset."""
    return [{"name": name, "title": load_undated(name).title} for name in shipped_rulesets()]


def rulebook(name_or_path: str, since: dict[str, int]) -> dict[str, Any]:
    """What a site would publish about a ruleset: its keys and, for each version, its tables. Raises as `load_ruleset`."""
    ruleset = load_undated(name_or_path, since)
    return {
        **ruleset.as_dict(),
        "file": find_ruleset(name_or_path).name,
        "tables": {version.name: _tables(ruleset, at) for at, version in enumerate(ruleset.version)},
    }


def _tables(ruleset: Ruleset, at: int) -> list[Table]:
    version = ruleset.version[at]
    tables = [_gap_table(ruleset, at)]
    if version.needs_match_length:
        tables.append(_length_table(ruleset, at))
    if version.stake.cube != "none":
        cubes = [2**i for i in range(ruleset.max_cube.bit_length())]
        tables.append(_stake_table(ruleset, at, "cube", "cube", cubes))
    if version.stake.result is not None:
        tables.append(_stake_table(ruleset, at, "result", "result", ["single", "gammon", "backgammon"]))
    if version.k_by_games or version.k_by_rating:
        tables.append(_step_table(ruleset, at))
    if version.ramp is not None:
        tables.append(_ramp_table(ruleset, at))
    return tables


def _plain(ruleset: Ruleset, at: int, k: float) -> Ruleset:
    """The ruleset with one k for everybody in this version and no bounds on a rating: what a table over gaps is about."""
    version = ruleset.version[at].model_copy(update={"k": k, "k_by_games": (), "k_by_rating": (), "heavy": None, "ramp": None})
    versions = (*ruleset.version[:at], version, *ruleset.version[at + 1 :])
    return ruleset.model_copy(update={"version": versions, "floor": None, "cap": None})


def _ks(ruleset: Ruleset, at: int) -> list[float]:
    """Every k that a version can give, before its ramp: the usual one, the steps, and each of them in a heavy week."""
    version = ruleset.version[at]
    usual = [version.k] if version.k is not None else [step.k for step in version.k_by_games or version.k_by_rating]
    ks = list(usual)
    if version.heavy is not None:
        ks += [version.heavy.k if version.heavy.k is not None else k * (version.heavy.factor or 1.0) for k in usual]
    return list(dict.fromkeys(ks))


def _duel(ruleset: Ruleset, at: int, gap: float, *, upset: bool = False, **more: Any) -> Question:
    favourite, other = Side(ruleset.start + gap), Side(ruleset.start)
    return Question(at, other, favourite, **more) if upset else Question(at, favourite, other, **more)


def _gap_table(ruleset: Ruleset, at: int) -> Table:
    ks = _ks(ruleset, at)
    by_k = []
    for k in ks:
        questions = [_duel(ruleset, at, gap, upset=upset) for gap in GAPS for upset in (False, True)]
        answers = ask(_plain(ruleset, at, k), questions)
        by_k.append(list(zip(answers[::2], answers[1::2], strict=True)))
    what = "a match of 1 point" if ruleset.version[at].needs_match_length else "a game at stake 1"
    if ruleset.version[at].stake.base != 1:
        what += f" (stake {_number(by_k[0][0][0].stake)})"
    columns = ["gap", "expected"]
    for k in ks:
        columns += [f"k {_number(k)}: favourite wins", f"k {_number(k)}: favourite loses"]
    table = Table("gap", f"Gap in rating → the favourite's expected score and its points, {what}", columns)
    for i, gap in enumerate(GAPS):
        row: list[Any] = [gap, by_k[0][i][0].expected]
        for answers_of_k in by_k:
            won, lost = answers_of_k[i]
            row += [won.change[0], lost.change[1]]
        table.rows.append(row)
    return table


def _length_table(ruleset: Ruleset, at: int) -> Table:
    k = _ks(ruleset, at)[0]
    lengths = [length for length in LENGTHS if length <= ruleset.max_match_length]
    gaps = (0, *LENGTH_GAPS)
    answers = ask(_plain(ruleset, at, k), [_duel(ruleset, at, gap, match_length=length) for length in lengths for gap in gaps])
    columns = ["match length", "stake", f"k {_number(k)}: points for equals", *(f"expected at gap {gap}" for gap in LENGTH_GAPS)]
    table = Table("match_length", "Match length → stake, and the favourite's expected score", columns)
    for i, length in enumerate(lengths):
        equal, *others = answers[i * len(gaps) : (i + 1) * len(gaps)]
        table.rows.append([length, equal.stake, equal.change[0], *(answer.expected for answer in others)])
    return table


def _stake_table(ruleset: Ruleset, at: int, key: str, what: str, values: list[Any]) -> Table:
    ks = _ks(ruleset, at)
    columns = [what, "coefficient", *(f"k {_number(k)}: points for equals" for k in ks)]
    by_k = [ask(_plain(ruleset, at, k), [_duel(ruleset, at, 0, **{key: value}) for value in values]) for k in ks]
    table = Table(key, f"{what.capitalize()} → coefficient, and points between equals", columns)
    for i, value in enumerate(values):
        table.rows.append([value, by_k[0][i].stake / by_k[0][0].stake, *(answers[i].change[0] for answers in by_k)])
    return table


def _step_table(ruleset: Ruleset, at: int) -> Table:
    version = ruleset.version[at]
    by_games = bool(version.k_by_games)
    steps = version.k_by_games or version.k_by_rating
    bare = ruleset.model_copy(update={"floor": None, "cap": None})
    if version.ramp is not None:
        versions = (*ruleset.version[:at], version.model_copy(update={"ramp": None}), *ruleset.version[at + 1 :])
        bare = bare.model_copy(update={"version": versions})
    sides = [Side(ruleset.start, games=math.ceil(step.from_)) if by_games else Side(step.from_) for step in steps]
    answers = ask(bare, [Question(at, side, side) for side in sides])
    what = "rated games before" if by_games else "rating before"
    table = Table("k", f"{what.capitalize()} → k", [f"{what}, from", "k"])
    table.rows = [[step.from_, answer.k[0]] for step, answer in zip(steps, answers, strict=True)]
    return table


def _ramp_table(ruleset: Ruleset, at: int) -> Table:
    ramp = ruleset.version[at].ramp
    assert ramp is not None
    values = [ramp.length * i / RAMP_STEPS for i in range(RAMP_STEPS + 1)]
    # Asked of a match that adds nothing: the table is about the experience that counts, whichever convention that is.
    sides = [Side(ruleset.start, experience=value) for value in values]
    bare = ruleset.model_copy(update={"floor": None, "cap": None})
    answers = ask(bare, [Question(at, side, side, match_length=0 if ramp.experience == "after" else 1) for side in sides])
    counted = "the present match included" if ramp.experience == "after" else "before the match"
    table = Table("ramp", f"Experience (sum of match lengths, {counted}) → k", ["experience", "k"])
    table.rows = [[value, answer.k[0]] for value, answer in zip(values, answers, strict=True)]
    return table


# ---------------------------------------------------------------- one game


@dataclass(frozen=True)
class Game:
    """What `expect` is asked: two players and a game between them; None: not said."""

    ratings: tuple[float, float]
    games: tuple[int, int] | None = None
    experience: tuple[float, float] | None = None
    recent: tuple[int, int] | None = None
    cube: int | None = None
    match_length: int | None = None
    result: str | None = None
    weight: float | None = None
    advantage: float | None = None
    draw: bool = False


def expect(name_or_path: str, since: dict[str, int], game: Game, version: str | None, at_us: int | None) -> dict[str, Any]:
    """What each side would win and lose.

    Args:
        name_or_path: the ruleset.
        since: instants of its versions.
        game: who plays, and what.
        version: name of the version; the last one unless it or `at_us` is given.
        at_us: an instant, for the version that is in force then.

    Raises:
        UsageFault: an unknown version, an input that the rules refuse.
    """
    ruleset = load_ruleset(name_or_path, since) if at_us is not None else load_undated(name_or_path, since)
    at = _version_at(ruleset, version, at_us)
    _check(ruleset, ruleset.version[at], game)
    sides = _sides(ruleset, game)
    base = Question(
        at,
        sides[0],
        sides[1],
        cube=game.cube or 1,
        match_length=game.match_length or 1,
        result=game.result or "single",
        weight=1.0 if game.weight is None else game.weight,
        advantage=game.advantage or 0.0,
    )
    swapped = replace(base, winner=sides[1], loser=sides[0], advantage=-base.advantage)
    idle = replace(base, winner=replace(sides[0], recent=0), loser=replace(sides[1], recent=0))
    first, second, draw, fresh = _asked(ruleset, [base, swapped, replace(base, draw=True), idle])
    whole = ruleset.integer_ratings
    outcomes = {"first_wins": _points(first.change, whole), "second_wins": _points(second.change[::-1], whole)}
    if game.draw:
        outcomes["draw"] = _points(draw.change, whole)
    return {
        "rules": ruleset.name,
        "version": ruleset.version[at].name,
        "ratings": list(game.ratings),
        "expected": [first.expected, 1.0 - first.expected],
        "k": list(first.k),
        "stake": first.stake,
        "divisor": first.divisor,
        "changes": outcomes,
        "why": _why(ruleset, ruleset.version[at], game, sides, first, fresh),
        "not_used": _not_used(ruleset, ruleset.version[at], game),
    }


def _asked(ruleset: Ruleset, questions: list[Question]) -> list[Answer]:
    try:
        return ask(ruleset, questions)
    except InputRefused:
        raise UsageFault("this game would lead to a rating that is too large; give smaller ratings") from None


def _points(changes: tuple[float, ...], whole: bool) -> list[float] | list[int]:
    return [int(change) for change in changes] if whole else list(changes)


def _version_at(ruleset: Ruleset, version: str | None, at_us: int | None) -> int:
    names = [v.name for v in ruleset.version]
    if version is not None:
        if version not in names:
            raise UsageFault(f"--version {version}: the rules {ruleset.name} have {', '.join(names)}")
        return names.index(version)
    if at_us is None:
        return len(names) - 1
    started = [i for i, v in enumerate(ruleset.version) if v.start_us <= at_us]
    if not started:
        raise UsageFault(f"--at {show_us(at_us)}: before the first version, which starts {show_us(ruleset.version[0].start_us)}")
    return started[-1]


def _sides(ruleset: Ruleset, game: Game) -> tuple[Side, Side]:
    nothing = (0, 0)
    games, experience, recent = game.games or nothing, game.experience or nothing, game.recent or nothing
    if game.recent is None or ruleset.count is None:
        recent = nothing
    a, b = (
        Side(game.ratings[i], max(games[i], recent[i]) if game.games is None else games[i], experience[i], recent[i])
        for i in (0, 1)
    )
    return a, b


def _check(ruleset: Ruleset, version: RuleVersion, game: Game) -> None:
    """What a run would refuse is refused here, too."""
    for rating in game.ratings:
        if not math.isfinite(rating) or (ruleset.integer_ratings and rating != math.floor(rating)):
            raise UsageFault(f"rating {rating}: under the rules {ruleset.name} a rating is a whole number")
        if ruleset.integer_ratings and abs(rating) > LARGEST_WHOLE:
            raise UsageFault(f"rating {rating:.15g}: too large; whole ratings end at {LARGEST_WHOLE}")
        if abs(rating) > LARGEST_ASKED:
            raise UsageFault(f"rating {rating:.15g}: too large; from -{LARGEST_ASKED} to {LARGEST_ASKED}")
    if version.needs_match_length and game.match_length is None:
        raise UsageFault(f"the rules {ruleset.name} rate matches: say how long this one is, for example --match-length 7")
    if game.match_length is not None and not 1 <= game.match_length <= ruleset.max_match_length:
        raise UsageFault(f"--match-length {game.match_length}: from 1 to {ruleset.max_match_length}")
    if game.cube is not None and (game.cube not in [2**i for i in range(31)] or game.cube > ruleset.max_cube):
        raise UsageFault(f"--cube {game.cube}: a power of two up to {ruleset.max_cube}")
    for option, value, lowest in (("weight", game.weight, 0.0), ("advantage", game.advantage, -math.inf)):
        if value is not None and not (math.isfinite(value) and value >= lowest):
            raise UsageFault(f"--{option} {value}: not a number that can be used")
        if value is not None and abs(value) > LARGEST_ASKED:
            raise UsageFault(f"--{option} {value:.15g}: too large; at most {LARGEST_ASKED}")
    for option, pair in (("recent", game.recent), ("games", game.games), ("experience", game.experience)):
        if pair is not None and not all(0 <= value <= 1_000_000 for value in pair):
            raise UsageFault(f"--{option} {pair[0]:g},{pair[1]:g}: from 0 to 1,000,000 each")


def _not_used(ruleset: Ruleset, version: RuleVersion, game: Game) -> list[str]:
    used = {
        "recent": version.heavy is not None,
        "games": bool(version.k_by_games),
        "experience": version.ramp is not None,
        "cube": version.stake.cube != "none",
        "match_length": version.needs_match_length,
        "result": version.stake.result is not None,
        "weight": version.stake.weight,
        "advantage": ruleset.advantage,
    }
    return [name for name, is_used in used.items() if not is_used and getattr(game, name) is not None]


def _why(ruleset: Ruleset, version: RuleVersion, game: Game, sides: tuple[Side, Side], answer: Answer, fresh: Answer) -> list[str]:
    """Where expectation, k and stake come from, in words."""
    shifted = f" ({_signed(game.advantage)} of advantage for the first)" if game.advantage and ruleset.advantage else ""
    gap = game.ratings[0] - game.ratings[1]
    over = f"{_number(version.divisor)} / √{game.match_length}" if version.divide_by != "none" else _number(version.divisor)
    stands = f"the first is {_number(abs(gap))} points {'ahead' if gap > 0 else 'behind'}" if gap else "both ratings are equal"
    lines = [f"expected: {stands}{shifted}, over a divisor of {over}"]
    for i, (name, side) in enumerate(zip(SIDES, sides, strict=True)):
        text = f"k of the {name}: {_number(answer.k[i])}"
        if version.k_by_games:
            text += f", by {side.games} rated games before"
        elif version.k_by_rating:
            text += f", by his rating of {_number(side.rating)}"
        if version.ramp is not None:
            including = ", this match included" if version.ramp.experience == "after" else ""
            text += f", by an experience of {_number(side.experience)} before{including}"
        if version.heavy is not None and ruleset.count is not None:
            reduced = answer.k[i] != fresh.k[i]
            text += f", {'instead of ' + _number(fresh.k[i]) + ' ' if reduced else ''}for {side.recent} rated games in the last "
            text += f"{_number(ruleset.count.hours)} hours ({version.heavy.games} make a heavy week)"
        lines.append(text)
    parts = [] if version.stake.base == 1 else [f"base {_number(version.stake.base)}"]
    parts += [] if version.stake.cube == "none" else [f"cube {game.cube or 1} ({_cube_text(version)})"]
    parts += [] if version.stake.match_length == "none" else [f"√ of the match length {game.match_length}"]
    parts += [] if version.stake.result is None else [f"a {game.result or 'single'}"]
    parts += [] if not version.stake.weight else [f"weight {_number(1.0 if game.weight is None else game.weight)}"]
    lines.append(f"stake: {_number(answer.stake)}" + (f", from {' × '.join(parts)}" if parts else ""))
    rounding = "rounded once, half away from zero" if ruleset.integer_ratings else "not rounded"
    lines.append(f"change = k × stake × (result − expected), {rounding}")
    return lines


def _cube_text(version: RuleVersion) -> str:
    return f"1 + log2(cube)/{_number(version.stake.doublings)}" if version.stake.cube == "log2" else "× cube"


# ---------------------------------------------------------------- as text


def listing_text(rulesets: list[dict[str, str]]) -> str:
    """The shipped rulesets, one a line."""
    width = max(len(one["name"]) for one in rulesets)
    lines = [f"{one['name']:<{width}}  {one['title']}" for one in rulesets]
    return "\n".join([*map(_line, lines), "", "eloreplay rules NAME shows one; docs/rulesets.md says how to write your own."])


def _line(text: object) -> str:
    """Text from a ruleset as one harmless line: what would break the line or move a terminal's cursor is shown as its code."""
    return harmless(str(text)).replace("\n", "\\x0a")


def rulebook_text(book: dict[str, Any]) -> str:
    """A ruleset for a person to read."""
    lines = [_line(f"{book['name']}: {book['title']}" if book["title"] else book["name"]), ""]
    if book["note"]:
        lines += [_line(book["note"]), ""]
    whole = book["rounding"] != "none"
    lines.append(
        f"start {_number(book['start'])}; " + ("each change rounded once, half away from zero" if whole else "no rounding")
    )
    modes = book["modes"]
    rated = "all" if modes["rated"] == "all" else ", ".join(modes["rated"])
    unrated = f"; known and not rated: {', '.join(modes['unrated'])}" if modes["unrated"] else ""
    lines.append(_line(f"rated modes: {rated}{unrated}"))
    if book["count"]:
        lines.append(f"count: a player's rated games in the {_number(book['count']['hours'])} hours before each game")
    bounds = {"floor": "floor", "cap": "cap", "max_change": "largest change of a game"}
    shown = [f"{text} {_number(book[key])}" for key, text in bounds.items() if book[key] is not None]
    lines += ["; ".join(shown)] if shown else []
    if book["advantage"]:
        lines.append("advantage: points of the column `advantage` count for the expectation")
    for band in book["band"]:
        lines.append(f"band {_line(band['name'])}: from {_number(band['from'])}")
    for one in book["adjustment"]:
        lines.append(f"adjustment {_line(one['name'])}, {one['at']}: {_adjustment_text(one)}")
    for version in book["version"]:
        lines += ["", f"version {_line(version['name'])}, {_from_text(version)}", f"  {_version_text(version)}"]
        if version["note"]:
            lines.append(f"  note: {_line(version['note'])}")
        for table in book["tables"][version["name"]]:
            lines += ["", f"  {table.title}", *_table_lines(table, whole)]
    return "\n".join(lines)


def _from_text(version: dict[str, Any]) -> str:
    if version["from"] == GIVEN:
        return f"from an instant that you give: --since {_line(version['name'])}=…"
    return "since ever" if version["from"] is None else f"from {version['from']}"


def _adjustment_text(one: dict[str, Any]) -> str:
    parts = []
    if one["pull_to"] is not None:
        parts.append(f"pull to {_number(one['pull_to'])} by the factor {_number(one['factor'])}")
    if one["add"] is not None:
        parts.append(f"add {_number(one['add'])}")
    if one["floor"] is not None:
        parts.append(f"at least {_number(one['floor'])}")
    return ", then ".join(parts)


def _version_text(version: dict[str, Any]) -> str:
    divided = " / √(match length)" if version["divide_by"] != "none" else ""
    parts = [f"divisor {_number(version['divisor'])}{divided}"]
    if version["k"] is not None:
        parts.append(f"k {_number(version['k'])}")
    for key, what in (("k_by_games", "games"), ("k_by_rating", "points")):
        if version[key]:
            steps = (f"{_number(step['k'])} from {_number(step['from'])} {what}" for step in version[key])
            parts.append("k " + ", ".join(steps))
    heavy = version["heavy"]
    if heavy:
        other = f"k {_number(heavy['k'])}" if heavy["k"] is not None else f"k × {_number(heavy['factor'])}"
        parts.append(f"{other} from {heavy['games']} counted games")
    ramp = version["ramp"]
    if ramp:
        parts.append(f"k × max(1, {_number(ramp['height'])} − {_number(ramp['height'] - 1)} × E / {_number(ramp['length'])})")
    stake = version["stake"]
    factors = [] if stake["base"] == 1 else [_number(stake["base"])]
    factors += {"none": [], "times": ["cube"], "log2": [f"(1 + log2(cube)/{_number(stake['doublings'])})"]}[stake["cube"]]
    factors += ["√(match length)"] if stake["match_length"] == "sqrt" else []
    factors += ["result"] if stake["result"] else []
    factors += ["weight"] if stake["weight"] else []
    parts.append("stake " + (" × ".join(factors) or "1"))
    return "; ".join(parts)


def _table_lines(table: Table, whole: bool) -> list[str]:
    cells = [table.columns]
    for row in table.rows:
        cells.append([_cell(name, value, whole) for name, value in zip(table.columns, row, strict=True)])
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    return ["    " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _cell(name: str, value: Any, whole: bool) -> str:
    if isinstance(value, str):
        return value
    if "expected" in name:
        return f"{value:.2%}"
    if name.startswith("k "):
        return _change(value, whole)
    return _number(value)


def _change(value: float, whole: bool) -> str:
    if whole:
        return f"{int(value):+d}" if value else "0"
    return f"{value:+.4f}"


def _number(value: float) -> str:
    """A number without needless decimals, four at most."""
    return f"{value:.4f}".rstrip("0").rstrip(".") if value != math.floor(value) else f"{value:.0f}"


def _signed(value: float) -> str:
    return ("+" if value >= 0 else "−") + _number(abs(value))


def expect_text(found: dict[str, Any]) -> str:
    """What a game would change, and why, for a person to read."""
    whole = all(isinstance(change, int) for pair in found["changes"].values() for change in pair)
    rows = [
        ["", *SIDES],
        ["rating", *(_number(rating) for rating in found["ratings"])],
        ["expected", *(f"{expected:.2%}" for expected in found["expected"])],
        ["k", *(_number(k) for k in found["k"])],
    ]
    names = {"first_wins": "if the first wins", "second_wins": "if the second wins", "draw": "if it is a draw"}
    rows += [[names[outcome], *(_change(change, whole) for change in pair)] for outcome, pair in found["changes"].items()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [_line(f"{found['rules']}, version {found['version']}"), ""]
    lines += [f"  {a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    lines += ["", *(f"  {line}" for line in found["why"])]
    if found["not_used"]:
        options = ", ".join("--" + name.replace("_", "-") for name in found["not_used"])
        lines.append(f"  note: given, but not used by these rules: {options}")
    return "\n".join(lines)
