"""Sections on favourites: the curve by gap, reliability by probability, rule versions side by side, all slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eloreplay.console import printable
from eloreplay.report_axes import rate_axis, round_axis
from eloreplay.report_parts import (
    NONE,
    Axis,
    Block,
    Mark,
    Part,
    Plot,
    Rows,
    Section,
    Series,
    Table,
    Text,
    count,
    finite,
    number,
    share,
)
from eloreplay.report_source import Ladder
from eloreplay.report_terms import RESPECTS, TOO_NARROW, divisor_verdict

EXPECTED, REAL = "expected", "real"
#: The last gap bin is open; it is drawn as if it were as wide as the others.
GAP_WIDTH = 25.0
#: Bins with fewer games do not decide how far the vertical axis goes.
FEW = 30
#: Rule versions whose curves are drawn, and values of a slice that are listed.
CURVES_SHOWN, VALUES_SHOWN = 6, 24
SLICES = {
    "cube": "Cube",
    "match_length": "Match length",
    "heavy": "K (heavy: a side's k is reduced)",
    "experience": "Games before, of the side with fewer",
    "month": "Month",
}
NO_STUDY = "This run was made without the study, so there is nothing to show here."


def nothing_to_say(ladder: Ladder, why: str) -> str:
    """Why a section of the study is empty."""
    if not ladder.studied:
        return NO_STUDY
    return why if ladder.value("games") else "No game is rated."


def curve_section(ladder: Ladder) -> Section:
    """Real against expected by the gap in rating."""
    rows = ladder.curve("gap")
    lead: list[Text] = [_all_games(ladder)]
    if not any(row["games"] for row in rows):
        return Section("curve", "Did favourites win as often as promised?", lead)
    plot = _curve(
        "curve",
        "Favourites by the gap in rating: expected and real share of wins",
        rows,
        gap_axis(rows),
        _gap_middle,
        games=True,
    )
    lead.append(
        [
            "Dots below the line mean that the ratings promise favourites too much: too small a divisor, or ratings that move more "
            "than strength does. Compare rules on the same games; do not tune one rule until the dots lie on the line."
        ]
    )
    return Section("curve", "Did favourites win as often as promised?", lead, [Block(plot, _curve_table(ladder, rows, "gap"))])


def _all_games(ladder: Ladder) -> Text:
    if ladder.value("favourite_real_rate") is None:
        games = ladder.value("games")
        if not games:
            return ["No game is rated, so there is no favourite yet."]
        if games == 1:
            return ["The only rated game has no favourite: both sides were expected to score ½."]
        return [
            "None of the ",
            ladder.figure("games", count),
            " rated games has a favourite: both sides were always expected to score ½.",
        ]
    parts: list[Part] = ["Favourites were expected to win ", ladder.figure("favourite_expected_rate", lambda x: share(x, 2))]
    parts += [" of their games and won ", ladder.figure("favourite_real_rate", lambda x: share(x, 2))]
    parts += [" (95 % interval ", *ladder.interval("favourite_real_rate", lambda x: share(x, 2))]
    parts += [f", {RESPECTS})." if ladder.clustered else f", {TOO_NARROW})."]
    if ladder.value("games_without_favourite"):
        parts += [" ", ladder.figure("games_without_favourite", count), " games between equals have no favourite and are left out."]
    return parts


def reliability_section(ladder: Ladder) -> Section:
    """Real against expected by the expected score."""
    rows = ladder.curve("probability")
    lead: list[Text] = []
    if ladder.value("log_loss") is not None:
        lead.append(
            [
                "Log loss ",
                ladder.figure("log_loss", lambda x: number(x, 4)),
                " (a coin has 0.6931), Brier score ",
                ladder.figure("brier_score", lambda x: number(x, 4)),
                " (a coin has 0.25), calibration error ",
                ladder.figure("calibration_error", lambda x: share(x, 2)),
                *_luck(ladder),
                ".",
            ]
        )
    if ladder.value("slope") is not None:
        lead.append(
            [
                "Slope ",
                ladder.figure("slope", lambda x: number(x, 3)),
                " and intercept ",
                ladder.figure("intercept", lambda x: number(x, 3)),
                ", where 1 and 0 tell the truth; the divisor that fits best is ",
                ladder.figure("fitted_divisor", count),
                " (",
                *ladder.interval("fitted_divisor", count),
                ")",
                *([", the rules divide by ", ladder.figure("divisor", count)] if ladder.value("divisor") is not None else []),
                ".",
            ]
        )
        fitted, slope = ladder.row("fitted_divisor") or {}, ladder.row("slope") or {}
        own, between = ladder.value("divisor"), (fitted.get("low"), fitted.get("high"))
        lead.append([divisor_verdict(own, between, (slope.get("low"), slope.get("high")))])
    if not any(row["games"] for row in rows):
        return Section("reliability", "Reliability by probability", lead or [["There is no game with a favourite."]])
    x = rate_axis("expected share of wins", [], least=0.5)
    x = Axis(x.title, 0.5, 1.0, [(tick / 10, f"{tick}0%") for tick in range(5, 11)])
    plot = _curve(
        "reliability", "Favourites by expected score: expected and real share of wins", rows, x, _mean_expected, games=True
    )
    return Section("reliability", "Reliability by probability", lead, [Block(plot, _curve_table(ladder, rows, "probability"))])


def _luck(ladder: Ladder) -> Text:
    if ladder.value("calibration_error_by_luck") is None:
        return []
    return [" (luck alone would show ", *ladder.interval("calibration_error_by_luck", lambda x: share(x, 2)), ")"]


def gap_axis(rows: Sequence[dict[str, Any]]) -> Axis:
    """The axis of gaps, up to the last bin that has games."""
    last = max((row["bin_low"] for row in rows if row["games"]), default=0.0) + GAP_WIDTH
    open_from = max(row["bin_low"] for row in rows)
    end = last if last > open_from else max(last, 4 * GAP_WIDTH)
    step = GAP_WIDTH if end <= 5 * GAP_WIDTH else 4 * GAP_WIDTH
    ticks = [at * step for at in range(int(end / step) + 1)]
    return Axis("gap in rating before the game, points", 0.0, end, [(at, f"{at:.0f}{'+' * (at == open_from)}") for at in ticks])


def _gap_middle(row: dict[str, Any]) -> float:
    return float(row["bin_low"]) + GAP_WIDTH / 2


def _mean_expected(row: dict[str, Any]) -> float:
    return float(row["expected_rate"])


def bin_name(row: dict[str, Any], axis: str) -> str:
    """A bin as people read it."""
    if axis == "gap":
        return f"{row['bin_low']:.0f} and more" if row["bin_high"] is None else f"{row['bin_low']:.0f} – {row['bin_high']:.0f}"
    return f"{100 * row['bin_low']:.1f}% – {100 * row['bin_high']:.1f}%"


def _bounds(row: dict[str, Any]) -> tuple[float | None, float | None]:
    """The interval that respects that players repeat where there is one."""
    if row.get("cluster_low") is not None or row.get("cluster_high") is not None:
        return row["cluster_low"], row["cluster_high"]
    return row["real_low"], row["real_high"]


def _curve(
    name: str,
    title: str,
    rows: Sequence[dict[str, Any]],
    x: Axis,
    at: Callable[[dict[str, Any]], float],
    *,
    games: bool,
    y: Axis | None = None,
    suffix: str = "",
) -> Plot:
    filled = [row for row in rows if row["games"]]
    axis_name = "gap" if x.title.startswith("gap") else "probability"
    if y is None:
        y = rate_axis("won by the favourite", heights(filled))
    expected = [Mark(at(row), row["expected_rate"]) for row in filled]
    if axis_name == "probability":
        start, end = max(x.low, y.low), min(x.high, y.high)
        expected = [Mark(start, start), Mark(end, end)]
    real = []
    for row in filled:
        low, high = _bounds(row)
        said = (
            f"{bin_name(row, axis_name)}: real {share(row['real_rate'])} ({share(low)} – {share(high)}), "
            f"expected {share(row['expected_rate'])}, {count(row['games'])} games"
        )
        real.append(Mark(at(row), row["real_rate"], low, high, said=said))
    bars = [
        Mark(
            max(x.low, row["bin_low"]),
            row["games"],
            x_end=x.high if row["bin_high"] is None else row["bin_high"],
            said=f"{bin_name(row, axis_name)}: {count(row['games'])} games",
        )
        for row in filled
    ]
    below = None
    if games:
        most = round_axis("games", [row["games"] for row in filled], least=0.0, marks=3, whole=True)
        below = Series("games", "bars", 0, bars), most
    series = [Series(EXPECTED, "line", 2, expected)]
    last = filled[-1]
    if axis_name == "gap" and last["bin_high"] is None and len(filled) > 1:
        # The last bin holds all wider gaps: its mean is no point of the line, and stands beside it as a level.
        series = [
            Series(EXPECTED, "line", 2, expected[:-1]),
            Series("", "line", 2, [Mark(last["bin_low"], last["expected_rate"]), Mark(x.high, last["expected_rate"])]),
        ]
    series.append(Series("real, with 95 % interval", "dots", 1, real))
    return Plot(name + suffix, title, _curve_words(filled, axis_name), x, y, series, below=below)


def heights(filled: Sequence[dict[str, Any]]) -> list[float]:
    """What the vertical axis of a curve must hold; bins of few games have intervals that would make it useless."""
    sure = [row for row in filled if row["games"] >= FEW] or filled
    values = [row["expected_rate"] for row in filled] + [row["real_rate"] for row in sure]
    for row in sure:
        values += _bounds(row)
    return finite(values)


def reaches(rows: Sequence[dict[str, Any] | None]) -> list[float]:
    """What an axis must hold of rates and their intervals: those of few games would make it useless, and are marked at its edge."""
    known = [row for row in rows if row is not None]
    sure = [row for row in known if (row["games"] or 0) >= FEW] or known
    return finite([row[name] for row in sure for name in ("value", "low", "high")])


def _curve_words(filled: Sequence[dict[str, Any]], axis: str) -> str:
    first, last = filled[0], filled[-1]
    parts = [
        f"{bin_name(row, axis)}: expected {share(row['expected_rate'])}, real {share(row['real_rate'])}"
        for row in ([first] if first is last else [first, last])
    ]
    under = sum(row["real_rate"] < row["expected_rate"] for row in filled)
    return f"{'; '.join(parts)}. In {under} of {len(filled)} bins favourites won less often than expected. The table has every bin."


def _curve_table(ladder: Ladder, rows: Sequence[dict[str, Any]], axis: str) -> Table:
    clustered = any(_bounds(row) != (row["real_low"], row["real_high"]) for row in rows)
    columns = ("cluster_low", "cluster_high") if clustered else ("real_low", "real_high")
    head = ["gap, points" if axis == "gap" else "expected score", "games", "favourites won", "real", "95 % interval", "expected"]
    body: list[list[Text]] = []
    for row in rows:
        low, high = (ladder.bin_figure(row, column, share) for column in columns)
        body.append(
            [
                [bin_name(row, axis)],
                [ladder.bin_figure(row, "games", count)],
                [ladder.bin_figure(row, "favourite_wins", lambda x: number(x, 0 if x == int(x) else 1))],
                [ladder.bin_figure(row, "real_rate", share)],
                [low, " – ", high] if row["games"] else [NONE],
                [ladder.bin_figure(row, "expected_rate", share)],
            ]
        )
    return Table(f"Favourites by {'gap' if axis == 'gap' else 'expected score'}", head, body)


def versions_section(ladder: Ladder, manifest: dict[str, Any]) -> Section:
    """The rule versions side by side: what each promised and what came."""
    title = "Rule versions side by side"
    known = [version for version in manifest["rules"]["content"]["version"] if _rated(ladder, version["name"])]
    if not ladder.values("version"):
        return Section("versions", title, [[nothing_to_say(ladder, "No version has a game with a favourite.")]])
    names = [version["name"] for version in known]
    table = Table(
        "Rule versions",
        ["version", "divisor", "expected", "real", "games", "95 % interval", "log loss", "slope", "divisor that fits", "k", "from"],
        [_version_row(ladder, version) for version in known],
        words=(0, 9, 10),
    )
    title_ = "Expected and real share of wins of the favourites, by rule version"
    # One version would be a chart of one line.
    chart = rates_chart(ladder, "versions", title_, "version", names) if len(names) > 1 else None
    blocks = [Block(chart, table, wide=True, open_table=True)]
    lead: list[Text] = [_versions_lead(ladder, names)]
    if len(names) > 1:
        every = {name: ladder.curve("gap", "version", name) for name in names[:CURVES_SHOWN]}
        y = rate_axis("won by the favourite", [h for rows in every.values() for h in heights([r for r in rows if r["games"]])])
        for at, (name, rows) in enumerate(every.items()):
            if any(row["games"] for row in rows):
                plot = _curve(
                    "curve-of-version-", f"Version {printable(name, 40)}", rows, gap_axis(rows), _gap_middle, games=False, y=y,
                    suffix=str(at + 1),
                )  # fmt: skip
                blocks.append(Block(plot, _curve_table(ladder, rows, "gap")))
    return Section("versions", title, lead, blocks, aside=True)


def _rated(ladder: Ladder, version: str) -> bool:
    return bool(ladder.value("games", "version", version))


def _versions_lead(ladder: Ladder, names: Sequence[str]) -> Text:
    if len(names) == 1:
        return [f"All rated games were rated under one version, {printable(names[0], 40)}."]
    parts: list[Part] = ["Each version rated other games with other ratings, so read a row by itself. Log loss, lower is better: "]
    for at, name in enumerate(names):
        parts += [
            "; " if at else "",
            f"{printable(name, 40)} ",
            ladder.figure("log_loss", lambda x: number(x, 4), "version", name),
        ]
    return [*parts, "."]


def _version_row(ladder: Ladder, version: dict[str, Any]) -> list[Text]:
    key = ("version", version["name"])
    return [
        [printable(version["name"], 40)],
        [f"{version['divisor']:,g}" + (" / √length" if version["divide_by"] != "none" else "")],
        [ladder.figure("favourite_expected_rate", share, *key)],
        [ladder.figure("favourite_real_rate", share, *key)],
        [ladder.figure("games", count, *key)],
        ladder.interval("favourite_real_rate", share, *key),
        [ladder.figure("log_loss", lambda x: number(x, 4), *key)],
        [ladder.figure("slope", lambda x: number(x, 3), *key)],
        [ladder.figure("fitted_divisor", count, *key)],
        [_k_words(version)],
        [_day(version.get("from"))],
    ]


def _day(since: Any) -> str:
    if since is None:
        return "the start"
    return printable(str(since).replace("T00:00:00Z", "").replace("T00:00:00+00:00", ""), 25)


def _k_words(version: dict[str, Any]) -> str:
    """K in a few words."""
    steps = version.get("k_by_games") or version.get("k_by_rating")
    if steps:
        words = " / ".join(f"{step['k']:g}" for step in steps) + (" by games" if version.get("k_by_games") else " by rating")
    else:
        words = f"{version['k']:g}" + (", more for newcomers" if version.get("ramp") else "")
    heavy = version.get("heavy")
    if heavy:
        reduced = f"{heavy['k']:g}" if heavy["k"] is not None else f"× {heavy['factor']:g}"
        words += f"; {reduced} from {heavy['games']:,} games"
    return words


def rates_chart(ladder: Ladder, name: str, title: str, slice_: str, values: Sequence[str]) -> Rows:
    """Expected and real share of wins, a row a value of a slice."""
    expected, real = [], []
    for at, value in enumerate(values):
        row, promised = ladder.row("favourite_real_rate", slice_, value), ladder.value("favourite_expected_rate", slice_, value)
        if row is None or promised is None:
            continue
        expected.append(Mark(promised, at, said=f"{printable(value)}: expected {share(promised)}"))
        said = f"{printable(value)}: real {share(row['value'])} ({share(row['low'])} – {share(row['high'])})"
        real.append(Mark(row["value"], at, row["low"], row["high"], said=said))
    found = [ladder.row("favourite_real_rate", slice_, value) for value in values]
    x = rate_axis("won by the favourite", [mark.x for mark in expected] + reaches(found), marks=4)
    words = ". ".join(f"{r.said}, {e.said.split(': ')[-1]}" for e, r in zip(expected, real, strict=True))
    labels = [printable(value, 30) for value in values]
    series = [Series(EXPECTED, "tick", 2, expected), Series("real, with 95 % interval", "dots", 1, real)]
    return Rows(name, title, words or "No row has a favourite.", labels, x, series)


def slices_section(ladder: Ladder) -> Section | None:
    """Every slice of the study in tables."""
    blocks = []
    for slice_, title in SLICES.items():
        values = ladder.values(slice_)
        if len(values) < 2 or not ladder.values(slice_, "favourite_real_rate"):
            continue
        shown = values[-VALUES_SHOWN:] if slice_ == "month" else values[:VALUES_SHOWN]
        rows: list[list[Text]] = [
            [
                [printable(value, 30)],
                [ladder.figure("games", count, slice_, value)],
                [ladder.figure("favourite_expected_rate", share, slice_, value)],
                [ladder.figure("favourite_real_rate", share, slice_, value)],
                ladder.interval("favourite_real_rate", share, slice_, value),
                [ladder.figure("log_loss", lambda x: number(x, 4), slice_, value)],
                [ladder.figure("slope", lambda x: number(x, 3), slice_, value)],
                [ladder.figure("fitted_divisor", count, slice_, value)],
            ]
            for value in shown
        ]
        head = [title, "games", "expected", "real", "95 % interval", "log loss", "slope", "divisor that fits"]
        left = len(values) - len(shown)
        note: Text = [f"{left} more in the table summary"] if left else []
        blocks.append(
            Block(rates_chart(ladder, f"by-{slice_}".replace("_", "-"), title, slice_, shown), Table(title, head, rows), note)
        )
    if not blocks:
        return None
    lead: list[Text] = [["Where the ratings promise too much or too little: the same games, cut in other ways."]]
    return Section("slices", "By cube, experience, month", lead, blocks, aside=True)
