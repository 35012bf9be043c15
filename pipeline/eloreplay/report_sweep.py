"""The page of a sweep: the best setting and how sure, differences to the rules as they are, heat map or line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from eloreplay.console import printable
from eloreplay.report_axes import round_axis
from eloreplay.report_parts import (
    NONE,
    Block,
    Chapter,
    Figure,
    Heat,
    HeatCell,
    Mark,
    Page,
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
from eloreplay.report_source import Tables
from eloreplay.report_terms import sweep_terms_section
from eloreplay.report_trust import REASONS
from eloreplay.sweep_page import verdict

#: Settings in the chart of differences, and in the table.
DRAWN, LISTED = 16, 400
#: Differences are shown in units of 0.00001.
UNIT = 1e5
#: The sign of a negative number in a sentence.
MINUS = re.compile(r"(?<![\w.])-(?=[0-9])")


def sweep_page(tables: Tables) -> Page:
    """The page of a sweep."""
    manifest = tables.manifest
    table = tables.read("sweep")
    vary: dict[str, list[float | None]] = manifest["vary"]
    until = manifest["train_until"]
    about: Text = [
        f"{count(len(table))} settings of the rules {printable(manifest['rules']['name'], 60)}, ",
        Figure(manifest["games_scored"], count(manifest["games_scored"]), ("manifest", ["games_scored"])),
        " games scored" + (f" (from {printable(until)} on; settings were chosen by the games before)" if until else ""),
        f". As of {printable(manifest['as_of'])}.",
    ]
    sections = [
        _best(table, until, vary),
        *_maps(table, vary),
        _differences(table),
        _all(table, list(vary)),
        _data(tables),
        sweep_terms_section(),
    ]
    return Page("What would other rules have said?", about, _tiles(table), [Chapter("", [s for s in sections if s is not None])])


def _figure(row: dict[str, Any], column: str, text: str) -> Part:
    if row[column] is None:
        return NONE
    return Figure(row[column], text, ("sweep", {"setting": row["setting"]}, column))


def _loss(row: dict[str, Any], column: str = "log_loss", sign: bool = False) -> Part:
    return _figure(row, column, number(row[column], 5, sign=sign))


def _interval(row: dict[str, Any], name: str) -> Text:
    if row[f"{name}_low"] is None and row[f"{name}_high"] is None:
        return [NONE]
    return [_loss(row, f"{name}_low", sign=True), " to ", _loss(row, f"{name}_high", sign=True)]


def _tiles(table: pl.DataFrame) -> list[tuple[str, Text]]:
    if table["log_loss"].null_count():
        return []
    best, now = table.row(by_predicate=pl.col("chosen"), named=True), table.row(0, named=True)
    found: list[tuple[str, Text]] = [("best setting", [printable(best["name"], 60)]), ("its log loss", [_loss(best)])]
    found += [("rules as they are", [_loss(now)]), ("difference", [_loss(best, "log_loss_difference", sign=True)])]
    if best["best_share"] is not None:
        found.append(("best in so many draws", [_figure(best, "best_share", share(best["best_share"], 0))]))
    return found


def _best(table: pl.DataFrame, until: str | None, vary: dict[str, list[float | None]]) -> Section:
    return Section(
        "best", "The best setting, and how sure that is", [[MINUS.sub("−", line)] for line in verdict(table, until, vary)]
    )


def _maps(table: pl.DataFrame, vary: dict[str, list[float | None]]) -> list[Section]:
    names = [name for name, values in vary.items() if len(values) > 1]
    if table["log_loss"].null_count() or not names:
        return []
    lead: list[Text] = [
        [
            "Log loss less that of the rules as they are: below 0 foretells better. Both saw the same games, so small differences "
            "can be sure."
        ]
    ]
    rest = [name for name in vary if name not in names[:2]]
    if len(names) == 1:
        return [Section("map", f"Log loss by {printable(names[0], 40)}", lead, [Block(_line(table, names[0]), None)])]
    groups = table.filter(pl.col("setting") > 0).partition_by(rest, maintain_order=True) if rest else [table]
    blocks = []
    worst = max(finite([abs(value) for value in table["log_loss_difference"].to_list() if value is not None]), default=1.0) or 1.0
    for at, group in enumerate(groups[:9]):
        rows = table.to_dicts() if not rest else group.to_dicts()
        words = ", ".join(f"{name}={_value(group[name][0])}" for name in rest)
        blocks.append(Block(_heat(rows, names[:2], vary, worst, words, at), None))
    note = [f"{len(groups) - 9} more in the table below"] if len(groups) > 9 else []
    if note:
        blocks.append(Block(None, None, note))
    return [
        Section("map", f"Log loss by {printable(names[0], 40)} and {printable(names[1], 40)}", lead, blocks, aside=len(blocks) > 1)
    ]


def _value(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _heat(
    rows: Sequence[dict[str, Any]], names: Sequence[str], vary: dict[str, list[float | None]], worst: float, words: str, at: int
) -> Heat:
    # The longer list goes down, so that the map stays narrow enough for a phone.
    across, down = sorted(names, key=lambda name: len(vary[name]))
    found = {(row[down], row[across]): row for row in rows if row["setting"] > 0}
    now = next((row for row in rows if row["setting"] == 0), None)
    if now is not None:
        found.setdefault((now[down], now[across]), now)
    cells = [[_heat_cell(found.get((y, x)), worst, now) for x in vary[across]] for y in vary[down]]
    best = min(found.values(), key=lambda row: (row["log_loss"], row["setting"]))
    said = f"The best of these is {printable(best['name'], 60)} with {number(best['log_loss_difference'], 5, sign=True)}."
    title = "Difference in log loss, in units of 0.00001" + (f", at {printable(words, 60)}" if words else "")
    columns, lines = ([_value(value) for value in vary[name]] for name in (across, down))
    return Heat(f"map-{at + 1}" if words else "map", title, said, printable(across, 40), columns, printable(down, 40), lines, cells)


def _heat_cell(row: dict[str, Any] | None, worst: float, now: dict[str, Any] | None) -> HeatCell | None:
    if row is None or row["log_loss_difference"] is None:
        return None
    value = row["log_loss_difference"]
    figure = _figure(row, "log_loss_difference", number(value * UNIT, 0, sign=True))
    assert isinstance(figure, Figure)
    # The root makes small differences near the best visible beside the large ones at the edges.
    shade = (0.2 + 0.8 * (abs(value) / worst) ** 0.5) * (1 if value > 0 else -1) if value else 0.0
    present = now is not None and all(row[name] == now[name] for name in row if name == "log_loss" or name == "brier")
    return HeatCell(figure, shade, bool(row["chosen"]), present)


def _line(table: pl.DataFrame, name: str) -> Plot | Rows:
    rows = table.filter(pl.col("setting") > 0).sort(name, nulls_last=True).to_dicts()
    known = [row for row in rows if row[name] is not None]
    if len(known) < 2:
        return _difference_rows(rows, "map", f"Difference in log loss by {printable(name, 40)}")
    marks = [
        Mark(
            row[name], row["log_loss_difference"], row["log_loss_difference_low"], row["log_loss_difference_high"], said=_said(row)
        )
        for row in known
    ]
    x = round_axis(printable(name, 40), [mark.x for mark in marks])
    y = round_axis("difference in log loss", [0.0, *finite([v for mark in marks for v in (mark.y, mark.low, mark.high)])])
    best = min(known, key=lambda row: (row["log_loss"], row["setting"]))
    said = f"Lowest at {_value(best[name])}: {_said(best)}."
    series = [Series("", "line", 1, marks), Series("difference, with 95 % interval", "dots", 1, marks)]
    return Plot("map", f"Difference in log loss by {printable(name, 40)}", said, x, y, series, level=(0.0, "rules as they are"))


def _said(row: dict[str, Any]) -> str:
    low, high = row["log_loss_difference_low"], row["log_loss_difference_high"]
    sure = "" if low is None else f" ({number(low, 5, sign=True)} to {number(high, 5, sign=True)})"
    return f"{printable(row['name'], 60)}: {number(row['log_loss_difference'], 5, sign=True)}{sure}"


def _differences(table: pl.DataFrame) -> Section | None:
    if table["log_loss"].null_count() or len(table) < 2:
        return None
    ranked = table.sort("rank", "setting")
    shown = ranked.head(DRAWN)
    chart = _difference_rows(shown.to_dicts(), "differences", "Difference in log loss to the rules as they are, the best first")
    sure = table.filter(pl.col("log_loss_difference_high") < 0).height
    worse = table.filter(pl.col("log_loss_difference_low") > 0).height
    lead: list[Text] = [
        [
            f"Of {count(len(table) - 1)} settings {count(sure)} surely foretold better than the rules as they are (the whole "
            f"interval is below 0) and {count(worse)} surely worse; of the others these games cannot tell."
        ]
    ]
    return Section("differences", "Differences to the rules as they are", lead, [Block(chart, None)])


def _difference_rows(rows: Sequence[dict[str, Any]], name: str, title: str) -> Rows:
    marks = [
        Mark(row["log_loss_difference"], at, row["log_loss_difference_low"], row["log_loss_difference_high"], said=_said(row))
        for at, row in enumerate(rows)
    ]
    x = round_axis("difference in log loss", [0.0, *finite([v for m in marks for v in (m.x, m.low, m.high)])], marks=5)
    said = f"{marks[0].said}. The table below has every setting." if marks else "No setting."
    series = [Series("difference, with 95 % interval", "dots", 1, marks)]
    return Rows(name, title, said, [printable(row["name"], 40) for row in rows], x, series, level=(0.0, "rules as they are"))


def _all(table: pl.DataFrame, names: Sequence[str]) -> Section:
    ranked = table.sort("rank", "setting", nulls_last=True)
    rows: list[list[Text]] = [
        [
            [_figure(row, "rank", count(row["rank"]))],
            [printable(row["name"], 60) + (" (best)" if row["chosen"] else "")],
            [_loss(row)],
            [_loss(row, "log_loss_difference", sign=True)],
            _interval(row, "log_loss_difference"),
            _interval(row, "behind_best"),
            [_loss(row, "brier")],
            [_figure(row, "slope", number(row["slope"], 3))],
            [_figure(row, "middle_half_width", count(row["middle_half_width"]))],
            [_figure(row, "weekly_swing", number(row["weekly_swing"], 1))],
            [_figure(row, "best_share", share(row["best_share"]))],
        ]
        for row in ranked.head(LISTED).to_dicts()
    ]
    head = [
        "rank", "setting", "log loss", "difference to now", "95 % interval", "behind the best", "Brier", "slope",
        "middle half", "weekly swing", "best in draws",
    ]  # fmt: skip
    lead: list[Text] = [[f"{count(len(table) - LISTED)} more stand in sweep.parquet."]] if len(table) > LISTED else []
    return Section("settings", "Every setting", lead, [Block(None, Table("Every setting, the best first", head, rows, words=(1,)))])


def _data(tables: Tables) -> Section:
    manifest = tables.manifest
    bins = manifest["bins"]

    def cell(*path: str) -> Text:
        value: Any = manifest
        for key in path:
            value = value[key]
        return [Figure(value, count(value), ("manifest", list(path)))]

    rows: list[list[Text]] = [[["rows read"], cell("rows_read")]]
    rows += [[[name], cell("bins", name)] for name in bins if name != "rejected"]
    rows += [
        [[f"rejected: {REASONS.get(reason, reason)}"], cell("bins", "rejected", reason)]
        for reason, n in bins["rejected"].items()
        if n
    ]
    notes: list[Text] = [[printable(note, 400)] for note in manifest["notes"]]
    return Section("data", "The games", notes, [Block(None, Table("Every row read, by its bin", ["bin", "rows"], rows))])
