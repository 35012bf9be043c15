"""Sections on players: distribution of the ratings, the strongest, a week's swing, inflation, the top of the board."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import polars as pl

from eloreplay.publish import SUMMARY_ACTIVE_DAYS
from eloreplay.report_axes import rate_axis, round_axis, spread_out, step_of
from eloreplay.report_curves import EXPECTED, nothing_to_say, rates_chart, reaches
from eloreplay.report_parts import (
    Axis,
    Band,
    Block,
    Mark,
    Plot,
    Rows,
    Section,
    Series,
    Table,
    Text,
    count,
    number,
    share,
)
from eloreplay.report_source import Ladder

BARS = 110
MONTHS_SHOWN = 24


def distribution_section(ladder: Ladder) -> Section:
    """How the ratings of the active players lie, and their middle half."""
    title = "How the ratings are spread"
    part = ("active", f"{SUMMARY_ACTIVE_DAYS} days")
    if ladder.value("rating_p25", *part) is None:
        part = ("all", "")
    if ladder.value("rating_p25", *part) is None:
        return Section("distribution", title, [["There are no players yet."]])
    active = part[0] == "active"
    lead: list[Text] = [
        [
            "The middle half of the ",
            ladder.figure("players", count, *part),
            f" {'active players' if active else 'players'} stands between ",
            ladder.figure("rating_p25", count, *part),
            " and ",
            ladder.figure("rating_p75", count, *part),
            ": ",
            ladder.figure("rating_middle_half_width", count, *part),
            " points. Lowest ",
            ladder.figure("rating_min", count, *part),
            ", median ",
            ladder.figure("rating_median", count, *part),
            ", highest ",
            ladder.figure("rating_max", count, *part),
            f". Active is who played in the last {SUMMARY_ACTIVE_DAYS} days of the history."
            if active
            else ". Nobody has played, so all players are counted.",
        ]
    ]
    names = ["min", "p05", "p25", "median", "p75", "p95", "max"]
    words = ["lowest", "5 % below", "25 % below", "median", "75 % below", "95 % below", "highest"]
    parts = [part, ("all", "")] if active else [part]
    # A quantile between two whole ratings is shown as a rating is.
    digits = 0 if ladder.tables.read("players", ["rating"])["rating"].dtype.is_integer() else 1
    table = Table(
        "Quantiles of the ratings at the end",
        ["", *(["active players"] if active else []), "all players"],
        [
            [[word], *([ladder.figure(f"rating_{name}", lambda x: number(x, digits), *one)] for one in parts)]
            for name, word in zip(names, words, strict=True)
        ],
    )
    return Section("distribution", title, lead, [_histogram(ladder, part, active), Block(None, table)])


def _histogram(ladder: Ladder, part: tuple[str, str], active: bool) -> Block:
    low, high = ladder.value("rating_p25", *part), ladder.value("rating_p75", *part)
    assert low is not None
    assert high is not None
    counted, width = histogram(players_of(ladder, active), high - low)
    bars = [
        Mark(low, games, x_end=low + width, said=f"{count(low)} – {count(low + width)}: {count(games)} players")
        for low, games in counted
    ]
    x = round_axis("rating", [counted[0][0], counted[-1][0] + width])
    x = Axis(
        x.title, counted[0][0], counted[-1][0] + width, [t for t in x.ticks if counted[0][0] <= t[0] <= counted[-1][0] + width]
    )
    y = round_axis("players", [games for _, games in counted], least=0.0, whole=True)
    said = (
        f"Bars {count(width)} points wide from {count(x.low)} to {count(x.high)}; "
        f"the middle half, {count(low)} to {count(high)}, is shaded."
    )
    plot = Plot(
        "distribution",
        f"Ratings at the end of the {'active players' if active else 'players'}",
        said,
        x,
        y,
        [Series("", "bars", 1, bars)],
        bands=[Band(low, high, "middle half")],
    )
    rows: list[list[Text]] = [[[f"{count(low)} – {count(low + width)}"], [count(players)]] for low, players in counted if players]
    return Block(plot, Table("Players by rating, the upper edge not included", ["rating", "players"], rows))


def players_of(ladder: Ladder, active: bool) -> pl.Series:
    """The ratings of the ladder's players, as float64."""
    frame = ladder.tables.read("players", ["pool", "rating", "last_played_at"])
    if ladder.pooled:
        frame = frame.filter(pl.col("pool").eq_missing(pl.lit(ladder.pool)))
    if active:
        since = pl.col("last_played_at").max() - dt.timedelta(days=SUMMARY_ACTIVE_DAYS)
        frame = frame.filter(pl.col("last_played_at") >= since)
    return frame["rating"].cast(pl.Float64)


def histogram(ratings: pl.Series, middle: float) -> tuple[list[tuple[float, int]], float]:
    """How many ratings lie in each bin (its lower edge belongs to it), without gaps, and the width of the bins.

    The middle half, `middle` points wide, is some eight bins wide, so that its edges can be seen; there are at most `BARS` bins.
    """
    lowest, highest = float(ratings.min()), float(ratings.max())  # type: ignore[arg-type]
    width = max(1.0, step_of(middle / 8, 2) if middle > 8 else 1.0, step_of(max(highest - lowest, 1.0), BARS + 1))
    width = 5.0 if width == 2.5 else width
    first, last = int(lowest // width), int(highest // width)
    at = (ratings / width).floor().cast(pl.Int64).value_counts(name="n")
    found = dict(at.iter_rows())
    return [(bin_ * width, found.get(bin_, 0)) for bin_ in range(first, last + 1)], width


def strongest_section(ladder: Ladder) -> Section:
    """Whether the strongest players win as often as their ratings promise."""
    title = "The strongest players"
    kinds = [("strongest_decile", "top tenth of the month's ratings"), ("strongest_100", "first hundred of the month")]
    known = [kind for kind in kinds if ladder.value(f"{kind[0]}_real_rate") is not None]
    deciles = ladder.values("strength")
    if not known and not deciles:
        return Section("strongest", title, [[nothing_to_say(ladder, "No month is over yet, so there is nothing to say.")]])
    lead: list[Text] = []
    for name, words in known:
        lead.append(
            [
                f"The {words} were expected to win ",
                ladder.figure(f"{name}_expected_rate", lambda x: share(x, 2)),
                " of all their games and won ",
                ladder.figure(f"{name}_real_rate", lambda x: share(x, 2)),
                " (",
                *ladder.interval(f"{name}_real_rate", lambda x: share(x, 2)),
                ").",
            ]
        )
    blocks = []
    months = ladder.values("month", "strongest_decile_real_rate")[-MONTHS_SHOWN:]
    if months:
        blocks.append(Block(_strongest_chart(ladder, months), _strongest_table(ladder, known, months)))
    if len(deciles) > 1:
        chart = rates_chart(
            ladder, "strength", "Favourites by strength: tenths of the month's ratings, 10 the strongest", "strength", deciles
        )
        rows: list[list[Text]] = [
            [
                [value],
                [ladder.figure("games", count, "strength", value)],
                [ladder.figure("favourite_expected_rate", share, "strength", value)],
                [ladder.figure("favourite_real_rate", share, "strength", value)],
                ladder.interval("favourite_real_rate", share, "strength", value),
            ]
            for value in deciles
        ]
        blocks.append(Block(chart, Table("Favourites by strength", ["tenth", "games", "expected", "real", "95 % interval"], rows)))
    return Section("strongest", title, lead, blocks, aside=True)


def _strongest_chart(ladder: Ladder, months: Sequence[str]) -> Rows:
    expected, real = [], []
    for at, month in enumerate(months):
        row, promised = (
            ladder.row("strongest_decile_real_rate", "month", month),
            ladder.value("strongest_decile_expected_rate", "month", month),
        )
        if row is None or promised is None:
            continue
        expected.append(Mark(promised, at, said=f"{month}: expected {share(promised)}"))
        said = f"{month}: real {share(row['value'])} ({share(row['low'])} – {share(row['high'])})"
        real.append(Mark(row["value"], at, row["low"], row["high"], said=said))
    sure = [ladder.row("strongest_decile_real_rate", "month", month) for month in months]
    x = rate_axis("won by the top tenth", [m.x for m in expected] + reaches(sure), marks=4)
    under = sum(r.x < e.x for e, r in zip(expected, real, strict=True))
    said = f"In {under} of {len(real)} months the top tenth won less often than expected. The table has every month."
    series = [Series(EXPECTED, "tick", 2, expected), Series("real, with 95 % interval", "dots", 1, real)]
    return Rows("strongest", "The top tenth by month: expected and real share of wins", said, list(months), x, series)


def _strongest_table(ladder: Ladder, known: Sequence[tuple[str, str]], months: Sequence[str]) -> Table:
    head = ["month"]
    for name, _ in known:
        short = "tenth" if name == "strongest_decile" else "hundred"
        head += [f"{short}: games", "expected", "real", "95 % interval"]
    rows: list[list[Text]] = []
    for at, month in enumerate([*months, ""]):
        key = ("month", month) if at < len(months) else ("all", "")
        row: list[Text] = [[month or "all"]]
        for name, _ in known:
            row += [
                [ladder.figure(f"{name}_real_rate", count, *key, column="games")],
                [ladder.figure(f"{name}_expected_rate", share, *key)],
                [ladder.figure(f"{name}_real_rate", share, *key)],
                ladder.interval(f"{name}_real_rate", share, *key),
            ]
        rows.append(row)
    return Table("The strongest players by month", head, rows)


def swing_section(ladder: Ladder) -> Section:
    """How far a week moves a rating, by its games and by K."""
    title = "How far a week moves a rating"
    weeks = ladder.values("week", "weekly_swing")
    if not weeks:
        return Section("swing", title, [[nothing_to_say(ladder, "There is no whole week yet.")]])
    reduced = ladder.value("reduced_k_games_share")
    lead: list[Text] = [
        [
            "Root of the mean square of what a player's week changed in his rating, by the games of the week; heavy is a week "
            "most of whose games were at a reduced K."
        ]
    ]
    if reduced:
        lead.append(
            [
                "K was reduced in ",
                ladder.figure("reduced_k_games_share", lambda x: share(x, 2)),
                " of the games, for ",
                ladder.figure("reduced_k_sides_share", lambda x: share(x, 2)),
                " of the sides.",
            ]
        )
    bars: dict[str, list[Mark]] = {"usual": [], "heavy": []}
    for at, week in enumerate(weeks):
        swing, players = ladder.value("weekly_swing", "week", week), ladder.value("player_weeks", "week", week)
        assert swing is not None
        said = f"{week}: {number(swing, 1)} points, {count(players)} weeks of players"
        bars["heavy" if week.endswith("heavy") else "usual"].append(Mark(swing, at, said=said))
    x = round_axis("points", [mark.x for marks in bars.values() for mark in marks], least=0.0)
    series = [
        Series(f"{name} K" if name == "usual" else "reduced K", "bars", 1 if name == "usual" else 3, marks)
        for name, marks in bars.items()
        if marks
    ]
    labels = [f"{week}: {count(ladder.value('player_weeks', 'week', week))} weeks of players" for week in weeks]
    words = "; ".join(mark.said for mark in sorted((m for marks in bars.values() for m in marks), key=lambda m: m.y))
    chart = Rows("swing", "Weekly swing of a rating by the games of the week", words, labels, x, series)
    rows: list[list[Text]] = [
        [
            [week],
            [ladder.figure("weekly_swing", lambda x: number(x, 1), "week", week)],
            [ladder.figure("weekly_change", lambda x: number(x, 1), "week", week)],
            [ladder.figure("player_weeks", count, "week", week)],
            [ladder.figure("weekly_swing", count, "week", week, column="games")],
        ]
        for week in weeks
    ]
    table = Table(
        "Weekly swing", ["games in the week, K", "swing, points", "mean distance, points", "weeks of players", "their games"], rows
    )
    return Section("swing", title, lead, [Block(chart, table)])


def inflation_section(ladder: Ladder) -> Section:
    """Whether ratings drift: points created, and the level of the active players by month."""
    title = "Inflation"
    months = ladder.values("month", "active_rating_mean")[-MONTHS_SHOWN:]
    if not months:
        return Section("inflation", title, [[nothing_to_say(ladder, "No month is over yet, so there is nothing to say.")]])
    start = float(ladder.tables.manifest["rules"]["content"]["start"])
    lead: list[Text] = [
        [
            "Games created ",
            ladder.figure("points_created", lambda x: number(x, 0, sign=True)),
            " points in all (negative: they vanished), of these ",
            ladder.figure("points_created_by_unequal_k", lambda x: number(x, 0, sign=True)),
            " in games in which the two K differ. Active players stand at ",
            ladder.figure("active_rating_mean", lambda x: number(x, 1)),
            " on average, and a newcomer begins at ",
            f"{start:,g}.",
        ]
    ]
    lines = []
    for name, words, colour in (("active_rating_mean", "mean", 1), ("active_rating_median", "median", 3)):
        marks = [
            Mark(at, value, said=f"{month}: {words} {number(value, 1)}")
            for at, month in enumerate(months)
            if (value := ladder.value(name, "month", month)) is not None
        ]
        lines.append(Series(f"{words} of the active players", "line", colour, marks))
        lines.append(Series("", "dots", colour, marks))
    ticks = [(float(at), months[at]) for at in spread_out(len(months), 4)]
    x = Axis("month", -0.5, len(months) - 0.5, ticks)
    y = round_axis("rating", [start - 20, start + 20, *(mark.y for line in lines for mark in line.marks)])
    first, last = (ladder.value("active_rating_mean", "month", month) for month in (months[0], months[-1]))
    words = (
        f"Mean of the active players: {number(first, 1)} in {months[0]}, {number(last, 1)} in {months[-1]}; "
        f"newcomers begin at {start:,g}."
    )
    chart = Plot(
        "inflation",
        "Level of the active players' ratings at the end of each month",
        words,
        x,
        y,
        lines,
        level=(start, "start rating"),
    )
    rows: list[list[Text]] = [
        [
            [month],
            [ladder.figure("active_players", count, "month", month)],
            [ladder.figure("active_rating_mean", lambda x: number(x, 1), "month", month)],
            [ladder.figure("active_rating_median", lambda x: number(x, 1), "month", month)],
            [ladder.figure("active_rating_middle_half_width", count, "month", month)],
            [ladder.figure("points_created", lambda x: number(x, 0, sign=True), "month", month)],
            [ladder.figure("points_created_by_unequal_k", lambda x: number(x, 0, sign=True), "month", month)],
        ]
        for month in months
    ]
    head = ["month", "active players", "mean", "median", "middle half, points", "points created", "by unequal K"]
    return Section("inflation", title, lead, [Block(chart, Table("Active players and points created by month", head, rows))])
