"""From measurements to the page: whole runs, where a run's time goes, ratios with their goals, and what follows for larger sites."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
#: Steps of a run by the part of the model they belong to; what is in neither takes the same time whatever the size.
PARALLEL = ("input", "storing", "reading", "window", "counting", "writing")
STEPS = (*PARALLEL, "kernel", "tables", "study", "report", "other")
Found = list[dict[str, Any]]


def chosen(found: Found, **wanted: Any) -> Found:
    """The entries that have these values."""
    return [one for one in found if all(one.get(key) == value for key, value in wanted.items())]


def median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


def elapsed(one: dict[str, Any]) -> list[float]:
    """Seconds of each round."""
    return [spent["elapsed_s"] for spent in one["spent"]]


def of_rounds(above: dict[str, Any], below: dict[str, Any], what: str = "elapsed_s") -> float:
    """The median of the rounds' ratios."""
    pairs = zip(above["spent"], below["spent"], strict=True)
    return median(one[what] / other[what] for one, other in pairs)


def table(head: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """A Markdown table; every column but the first ones of words is aligned to the right."""
    names = [name.strip() for name in head.split("|")]
    lines = [f"| {' | '.join(name.lstrip('>') for name in names)} |"]
    lines.append(f"| {' | '.join('--:' if name.startswith('>') else '---' for name in names)} |")
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def page(result: dict[str, Any]) -> str:
    """The whole page, Markdown."""
    found: Found = result["found"]
    parts = [heading(result["machine"]), runs(found), peers(found), stages(found), ratios(found), model(found)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def heading(machine: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    memory = f", {machine['memory_bytes'] / 2**30:.0f} GiB" if "memory_bytes" in machine else ""
    compiler = f", gcc {machine['gcc']}" if machine.get("gcc") else ""
    lines = [
        f"Measured on {machine['date']} with {versions}, Python {machine['python']}{compiler}, on {machine['system']}, "
        f"{machine['cores']} cores{' of ' + machine['processor'] if 'processor' in machine else ''}{memory}."
    ]
    if machine.get("load", 0.0) > 0.5:
        lines.append(f"**The machine had other work as well** (load {machine['load']} at the start): a quiet one is quicker.")
    return lines


def runs(found: Found) -> list[str]:
    """Whole processes."""
    shown = {
        "backfill": "`eloreplay backfill --no-study`",
        "floor": "the floor: DuckDB and Parquet alone",
        "study": "`eloreplay backfill`, with its study",
        "sweep": "`eloreplay sweep`, 16 settings",
        "whole": "a backfill up to the night",
        "night": "`eloreplay nightly`, the last games",
    }
    rows = []
    for one in found:
        if one["what"] not in shown:
            continue
        seconds = elapsed(one)
        span = f"{min(seconds):.2f}–{max(seconds):.2f}" if len(seconds) > 1 else ""
        rows.append(
            (
                f"{one['rows']:,}",
                one["ids"],
                shown[one["what"]] + (f" ({one['delivered']:,})" if "delivered" in one else ""),
                f"{median(seconds):.2f}",
                span,
                f"{one['rows'] / median(seconds):,.0f}" if one["what"] != "night" else "",
                f"{median(spent['cpu_s'] for spent in one['spent']):.2f}",
                f"{median(spent['peak_bytes'] for spent in one['spent']) / 2**20:,.0f}",
            )
        )
    return table(">rows | ids | whole process | >seconds | >least–most | >rows/s | >cpu seconds | >peak MiB", rows) if rows else []


def peers(found: Found) -> list[str]:
    """Passes in memory: the product's kernel, the same in C, and others."""
    rows = []
    for one in chosen(found, part="kernel"):
        for name, shown in (("kernel", "the kernel alone"), ("c", "the same loop in C")):
            seconds = median(one["seconds"][name])
            rows.append((shown, f"{one['games']:,}", f"{seconds:.3f}", f"{one['games'] / seconds:,.0f}"))
    for one in chosen(found, part="peers"):
        seconds = median(one["pass_s"])
        version = f" {one['version']}" if one["version"] else ""
        name = one["shown"].replace(one["package"], one["package"] + version, 1) if one["package"] else one["shown"]
        rows.append((name, f"{one['rows']:,}", f"{seconds:.3f}", f"{one['rows'] / seconds:,.0f}"))
    return table("pass in memory | >games | >seconds | >games/s", rows) if rows else []


def stages(found: Found) -> list[str]:
    """Shares of the elapsed time, from the manifest's timings: whole process, so that starting up is in `start and end`."""
    rows = []
    for one in found:
        if one["what"] not in ("backfill", "study", "night") or "steps" not in one:
            continue
        seconds = median(elapsed(one))
        spent = {name: median(steps.get(name, 0.0) for steps in one["steps"]) for name in STEPS}
        rest = max(0.0, seconds - sum(spent.values()))
        shown = {"backfill": "run", "study": "with study", "night": "night"}[one["what"]]
        cells = (f"{100 * value / seconds:.0f}" for value in (*spent.values(), rest))
        rows.append((f"{one['rows']:,}", one["ids"], shown, *cells))
    head = ">rows | ids | of | " + " | ".join(f">{name}" for name in (*STEPS, "start and end"))
    lines = ["Where the time goes, in per cent:", "", *table(head, rows)] if rows else []
    floors = chosen(found, what="floor")
    if floors:
        names = list(floors[0]["steps"][0])
        cells = (
            (f"{one['rows']:,}", one["ids"], *(f"{median(steps[name] for steps in one['steps']):.2f}" for name in names))
            for one in floors
        )
        lines += ["", "The floor's own steps, in seconds:", "", *table(f">rows | ids | >{' | >'.join(names)}", cells)]
    return lines


def ratios(found: Found) -> list[str]:
    """What is aimed at, and what was measured."""
    rows: list[tuple[str, str, str, str]] = []

    def add(what: str, size: int, value: float, goal: str) -> None:
        rows.append((what, f"{size:,}", f"{value:.2f}", goal))

    others = chosen(found, part="peers")
    for one in chosen(found, what="backfill"):
        floors = chosen(found, what="floor", rows=one["rows"], ids=one["ids"])
        goal = {"integer": "at most 1.25", "text": "at most 1.5"}[one["ids"]]
        if floors:
            add(f"run / floor, {one['ids']} ids", one["rows"], of_rounds(one, floors[0]), goal)
            add(f"the same by cpu time, {one['ids']} ids", one["rows"], of_rounds(one, floors[0], "cpu_s"), "")
        studies = chosen(found, what="study", rows=one["rows"], ids=one["ids"])
        if studies:
            add("run with study / without", one["rows"], of_rounds(studies[0], one), "at most 1.25")
        if one["ids"] == "integer":
            beside(one, [other for other in others if other["beside"] == one["rows"]], add)
    for one in chosen(found, part="kernel"):
        value = median(c / own for c, own in zip(one["seconds"]["c"], one["seconds"]["kernel"], strict=True))
        same = (
            "the same bits"
            if one["same"]
            else f"expected scores differ in {one['last_bit']} games, changes do not" * one["same_changes"]
        )
        add(f"the kernel's speed / the C loop's ({same or 'CHANGES DIFFER'})", one["games"], value, "at least 0.7")
    for one in chosen(found, part="sweep"):
        add("sweep: seconds a setting", one["rows"], one["timings"]["rating"] / one["settings"], "")
    for one in chosen(found, what="night"):
        whole = chosen(found, what="whole", rows=one["rows"])[0]
        add("night / backfill, seconds", one["rows"], median(elapsed(one)) / median(elapsed(whole)), "")
    sizes = chosen(found, what="backfill", ids="integer")
    for small, large in itertools.pairwise(sizes):
        value = median(elapsed(large)) / median(elapsed(small))
        goal = "at most 11" if large["rows"] > 10_000_000 else ""
        add(f"seconds, against {small['rows']:,} rows", large["rows"], value, goal)
    return (
        ["Ratios, each from one run of the benchmark:", "", *table("ratio | >rows or games | >measured | goal", rows)]
        if rows
        else []
    )


def beside(one: dict[str, Any], others: Found, add: Callable[[str, int, float, str], None]) -> None:
    """A run's pass and the whole run against others in memory: games a second, the median of the rounds' ratios."""

    def against(seconds: list[float], name: str) -> float:
        (other,) = chosen(others, what=name)
        return median((one["rated"] / own) / (other["rows"] / its) for own, its in zip(seconds, other["pass_s"], strict=True))

    if not others:
        return
    rows, whole, passes = one["rows"], elapsed(one), [steps["kernel"] for steps in one["steps"]]
    add("the pass (a run's kernel step) / riix telling each game's ratings", rows, against(passes, "riix_each"), "at least 50")
    add("the pass / riix telling final ratings only", rows, against(passes, "riix_final"), "")
    packages = [other for other in others if other["each"] and other["package"]]
    best = max(packages, key=lambda other: other["rows"] / median(other["pass_s"]))
    what = f"a whole run / {best['package']}, the fastest package that tells each game's ratings, in memory"
    add(what, rows, against(whole, best["what"]), "at least 2")
    add("a whole run / a plain Python loop that does the same job, in memory", rows, against(whole, "plain_same"), "")
    add("a whole run / a plain Python loop of Elo alone, in memory", rows, against(whole, "plain"), "")


def model(found: Found) -> list[str]:
    """Slopes from the largest sizes measured, and what they say of larger sites; of all rounds the least, for noise has no slope."""
    lines: list[str] = []
    by_players = [(one["players"], 1e6 * min(one["seconds"]) / one["games"]) for one in chosen(found, part="players")]
    if by_players:
        rows = ((f"{many:,}", f"{many * 64 / 2**20:,.0f}", f"{1000 * each:.0f}") for many, each in by_players)
        lines += [
            "The kernel alone with more and more players, who meet at random (no cache helps), the least of three rounds:",
            "",
            *table(">players | >state, MiB | >ns a game", rows),
        ]
    sizes = chosen(found, what="backfill", ids="integer")
    if len(sizes) < 2:
        return lines
    small, large = sizes[-2:]
    slopes = slope(small, large)
    lines += [
        "",
        f"Seconds a million rated games, from the difference between {small['rows']:,} and {large['rows']:,} rows, the least of all "
        "rounds of either:",
        "",
        *table("step | >seconds", ((name, f"{value:.3f}") for name, value in slopes.items())),
    ]
    if min(slopes.values()) <= 0.0:
        return [*lines, "", "A slope that is not above 0 is noise: nothing is extended from these."]
    parallel = sum(slopes[name] for name in PARALLEL)
    most = parallel / slopes["kernel"]
    steps = []
    for games, many in ((1e8, 1e6), (1e9, 1e7), (1e10, 1e8)):
        # In microseconds a game, which is seconds a million: the run's own, or that of so many players who meet at random.
        near = [each for players, each in by_players if players <= many][-1:]
        kernel_s = max([slopes["kernel"], *near])
        for workers in (1, 8, 64):
            elapsed_s = games / 1e6 * max(parallel / workers, kernel_s)
            whole = (games / 1e6 * parallel, games / 1e6 * kernel_s, elapsed_s, elapsed_s * workers)
            steps.append((f"{games:,.0f}", f"{many:,.0f}", workers, *map(duration, whole), f"{many * 64 / 2**30:.2f}"))
    head = ">rated games | >players | >workers | >prepare and write, one worker | >kernel | >elapsed | >paid, all workers | >state, GiB"
    lines += [
        "",
        f"By these slopes the kernel keeps pace with {most:.0f} workers that prepare and write; more would wait for it.",
        "",
        "Extended on paper: preparing and writing are divided among workers of this machine's size, the kernel runs in order on one "
        "of them, at its time a game with so many players (with the largest number above where there are more), and the two overlap:",
        "",
        *table(head, steps),
    ]
    return lines


def slope(small: dict[str, Any], large: dict[str, Any]) -> dict[str, float]:
    """Seconds a million rated games between two sizes, by step and for `all`."""
    games = (large["rated"] - small["rated"]) / 1e6
    found = {
        name: (min(steps[name] for steps in large["steps"]) - min(steps[name] for steps in small["steps"])) / games
        for name in (*PARALLEL, "kernel")
    }
    return found | {"all": (min(elapsed(large)) - min(elapsed(small))) / games}


def duration(seconds: float) -> str:
    """12 s, 3 min, 2.5 h, 4 d."""
    for limit, unit, shown in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {shown}"
    return f"{seconds / 86_400:.3g} d"


def write_docs(text: str) -> None:
    """Put the page between the marks of docs/performance.md."""
    whole = DOCS.read_text(encoding="utf-8")
    before, rest = whole.split(BEGIN)
    _, after = rest.split(END)
    DOCS.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
