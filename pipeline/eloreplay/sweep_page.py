"""What a sweep found, as a page for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from eloreplay.console import printable
from eloreplay.settings import number

SHOWN = 10


def page(out: Path, table: pl.DataFrame, manifest: dict[str, Any]) -> str:
    """The best settings, how sure that is, and the place of the rules as they are.

    Args:
        out: the folder, as the user wrote it.
        table: see `sweep.score_table`.
        manifest: of the sweep.
    """
    rules, until = manifest["rules"]["name"], manifest["train_until"]
    games = manifest["games_scored"]
    lines = [
        f"{len(table):,} setting{'s' if len(table) > 1 else ''} of {rules}, {games:,} games scored"
        + (f" (from {until} on)" if until else "")
        + ":",
        "",
    ]
    ranked = table.sort("rank", "setting", nulls_last=True)
    shown = pl.concat([ranked.head(SHOWN), ranked.slice(SHOWN).filter(pl.col("setting").eq(0) | pl.col("chosen"))])
    width = max(16, *(len(printable(name, 60)) for name in shown["name"]))
    lines.append(
        f"  rank  {'setting':<{width}}  log loss  {'to the rules as they are':>32}    Brier   slope  middle half  weekly swing"
    )
    for row in shown.iter_rows(named=True):
        lines.append(
            f"  {_text(row['rank'], ',d'):>4}  {printable(row['name'], 60):<{width}}  {_text(row['log_loss'], '.5f'):>8}  "
            f"{_interval(row, 'log_loss_difference'):>32}  {_text(row['brier'], '.5f'):>7}  {_text(row['slope'], '.3f'):>6}  "
            f"{_text(row['middle_half_width'], ',.0f'):>11}  {_text(row['weekly_swing'], ',.1f'):>12}"
        )
    lines += [
        "",
        *verdict(table, until, manifest["vary"]),
        "",
        f"Every setting is a row of {out / 'sweep.parquet'}; curves and swings stand beside it",
    ]
    return "\n".join(lines)


def verdict(table: pl.DataFrame, until: str | None, vary: dict[str, list[float | None]]) -> list[str]:
    """What can be said, in sentences; `vary` has the values of every parameter."""
    if table["log_loss"].null_count():
        return ["No game was scored" + (f": there is none from {until} on." if until else ".")]
    if len(table) == 1:
        return ["Nothing varied (--vary), so there is nothing to compare."]
    best = table.row(by_predicate=pl.col("chosen"), named=True)
    now = table.row(0, named=True)
    chosen = f"Best on the {best['train_games']:,} games before {until}" if until else "Best"
    lines = []
    if best["setting"] == 0:
        lines.append(f"{chosen}: the rules as they are.")
    else:
        low, high = best["log_loss_difference_low"], best["log_loss_difference_high"]
        sure = "" if low is None else f", 95 % interval {low:+.5f} to {high:+.5f}"
        lines.append(
            f"{chosen}: {printable(best['name'], 100)}. Its log loss differs by {best['log_loss_difference']:+.5f} from that of "
            f"the rules as they are (below 0 is better{sure}), which stand at rank {now['rank']} of {len(table)}."
        )
        if low is None:
            lines.append("Too few players have met for an interval.")
        elif low <= 0.0 <= high:
            lines.append("These games cannot tell the two apart.")
    if until and best["rank"] > 1:
        lines.append(f"On the games scored it stands at rank {best['rank']}.")
    return [*lines, *_how_sure(table, best, vary)]


def _how_sure(table: pl.DataFrame, best: dict[str, Any], vary: dict[str, list[float | None]]) -> list[str]:
    """Whether the best setting is told from the others, and what to try next, as one statement."""
    share = "" if best["best_share"] is None else f" (it is the best in {best['best_share']:.0%} of the bootstrap's draws)"
    others = table.filter(~pl.col("chosen"))
    alike = others.filter(pl.col("behind_best_low") <= 0)
    edges = []
    for name, values in vary.items():
        tried = sorted(value for value in values if value is not None)
        if len(tried) > 1 and best[name] in (tried[0], tried[-1]):
            edges.append(f"{printable(name, 60)} {'below' if best[name] == tried[0] else 'above'} {number(best[name])}")
    beyond = f": try {' and '.join(edges)} as well" if edges else ""
    if alike.height:
        whom = f"{alike.height:,} of the other {others.height:,} settings" if others.height > 1 else "the other setting"
        told = f"These games cannot tell it from {whom}{share}"
        return [told + (f"; it is at the end of the values that were tried{beyond}." if edges else ".")]
    known = others["behind_best_low"].null_count() == 0
    told = f"It is better than every other setting{share}" if known else f"How sure that is cannot be said{share}"
    return [told + (f", but the best may lie beyond the values that were tried{beyond}." if edges else ".")]


def _text(value: Any, form: str) -> str:
    return "–" if value is None else format(value, form)


def _interval(row: dict[str, Any], name: str) -> str:
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if value is None or low is None:
        return _text(value, "+.5f")
    return f"{value:+.5f} ({low:+.5f} to {high:+.5f})"
