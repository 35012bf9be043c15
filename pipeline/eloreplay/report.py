"""The report of a folder: `report.html` of a run, a study or a sweep, made from its aggregate tables.

`write_page` is what every run and study calls before it is published; it never stops one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eloreplay.console import printable
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.published import chosen
from eloreplay.report_board import pools_table, top_section
from eloreplay.report_curves import curve_section, reliability_section, slices_section, versions_section
from eloreplay.report_page import has_extra, html
from eloreplay.report_parts import Block, Chapter, Page, Section
from eloreplay.report_pictures import write_pictures
from eloreplay.report_players import distribution_section, inflation_section, strongest_section, swing_section
from eloreplay.report_source import Ladder, Tables, read_manifest_of, read_names
from eloreplay.report_sweep import sweep_page
from eloreplay.report_terms import terms_section
from eloreplay.report_trust import about, quality_section, tiles, trust_section
from eloreplay.sources import OUTPUT_MARKER
from eloreplay.targets import insist_pictures, insist_target, is_page

NAME = "report.html"
INSTALL = "pip install 'eloreplay[report]'"
#: Ladders that have a chapter of their own, and those that are listed.
CHAPTERS, LISTED = 5, 100


def page_of(folder: Path, manifest: dict[str, Any], names: dict[str, str] | None = None) -> Page:
    """The page of a folder with these tables and this manifest."""
    tables = Tables(folder, manifest, names)
    if manifest["kind"] == "sweep":
        return sweep_page(tables)
    ladders = [Ladder(tables, pool) for pool in tables.pools]
    if manifest["kind"] == "calibrate":
        return _study_page(tables, ladders)
    first = [trust_section(tables)]
    if len(ladders) != 1 or ladders[0].pooled:
        first.append(_pools(tables, ladders))
    chapters = [Chapter("", first)]
    for ladder in ladders[:CHAPTERS]:
        found = [
            curve_section(ladder),
            reliability_section(ladder),
            versions_section(ladder, manifest),
            distribution_section(ladder),
            strongest_section(ladder),
            swing_section(ladder),
            inflation_section(ladder),
            top_section(ladder),
        ]
        more = slices_section(ladder)
        chapters.append(Chapter(_title(ladder), [*found, more] if more else found))
    chapters.append(Chapter("", [quality_section(tables, ladders), terms_section()]))
    number = int(manifest["run"])
    title = f"What if, held against run {int(manifest['after'])}" if manifest["kind"] == "what-if" else f"Ratings, run {number}"
    return Page(title, about(manifest), tiles(ladders), chapters)


def _study_page(tables: Tables, ladders: list[Ladder]) -> Page:
    manifest = tables.manifest
    run = manifest["run"]
    text = f"Rules {manifest['rules']['name']}, run {int(run['run'])}, as of {run['as_of']}" + (
        "; intervals respect that players repeat." if manifest["options"]["draws"] else "; intervals as if games were independent."
    )
    chapters = [] if len(ladders) == 1 and not ladders[0].pooled else [Chapter("", [_pools(tables, ladders)])]
    for ladder in ladders[:CHAPTERS]:
        found = [
            curve_section(ladder),
            reliability_section(ladder),
            versions_section(ladder, manifest),
            strongest_section(ladder),
            swing_section(ladder),
            inflation_section(ladder),
        ]
        more = slices_section(ladder)
        chapters.append(Chapter(_title(ladder), [*found, more] if more else found))
    chapters.append(Chapter("", [terms_section()]))
    return Page("Do the ratings tell the truth?", [text], tiles(ladders), chapters)


def _title(ladder: Ladder) -> str:
    return f"Ladder {printable(ladder.pool, 60)}" if ladder.pooled else ""


def _pools(tables: Tables, ladders: list[Ladder]) -> Section:
    more = f" The {CHAPTERS} with most games have a chapter each." if len(ladders) > CHAPTERS else ""
    cut = f" The first {LISTED} of them are listed." if len(ladders) > LISTED else ""
    lead = [[f"Every ladder has ratings of its own; there are {len(ladders):,}.{more}{cut}"]]
    return Section("ladders", "Ladders", lead, [Block(None, pools_table(tables, ladders[:LISTED]))])


def write_page(folder: Path, manifest: dict[str, Any], note: Callable[[str], None]) -> float:
    """Write `report.html` into a folder that is about to be published; returns the seconds it took.

    Without the extra `report` it says what to install, and what goes wrong here is said as well; ratings do not wait for a page.

    Raises:
        OSError: the disk is full, which every other file will meet as well.
    """
    started = time.perf_counter()
    if not has_extra():
        note(f"there is no report.html: {INSTALL} to have one")
        return 0.0
    try:
        (folder / NAME).write_text(html(page_of(folder, manifest)), encoding="utf-8")
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        text = (str(error).strip().splitlines() or [""])[0]
        note(f"report.html could not be made ({type(error).__name__}: {text}); the tables are complete. Please report this")
    return round(time.perf_counter() - started, 3)


def page_line(folder: Path, shown: Path) -> list[str]:
    """Where the page of a folder is, as a line for a person who knows the folder as `shown`; none when it has no page."""
    return [f"A page to look at: {shown / NAME}"] if (folder / NAME).is_file() else []


def put(path: Path, text: str) -> None:
    """Put a file in its place in one step; another name of the old one (a run that shares it) keeps what it had."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def folder_of(path: Path) -> Path:
    """The run or study that a path means: a study's own folder, else a run (see `published.chosen`).

    Raises:
        UsageFault: neither.
    """
    if (path / "manifest.json").is_file() and path.name != "current":
        return path
    if path.is_dir() and path.name != "current" and not (path / OUTPUT_MARKER).is_file():
        raise UsageFault(f"{path}: no output folder, run or study of eloreplay (there is no manifest.json in it)")
    return chosen(path)[1]


def load_page(path: Path, names: dict[str, str] | None = None) -> tuple[Path, Page]:
    """The folder that a path means, and its page.

    Raises:
        UsageFault: it is no folder of ours.
        EnvironmentFault: a table of it is gone or damaged.
    """
    import polars as pl
    import pyarrow as pa

    folder = folder_of(path)
    manifest = read_manifest_of(folder)
    try:
        return folder, page_of(folder, manifest, names)
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise EnvironmentFault(f"{folder}: a table of the folder cannot be read: {text}") from None


def remake(path: Path, to: Path | None, names: Path | None, figures: Path | None, kind: str) -> list[str]:
    """Make the page of a folder again, and pictures if wanted; returns what was written, in words.

    Args:
        path: an output folder (then it is its published run), a run or a study.
        to: where the page goes; `report.html` in the run or study unless given.
        names: file with what to call players, or None.
        figures: folder for the charts as pictures, or None.
        kind: of the pictures, `svg` or `png`.

    Raises:
        UsageFault: no folder of ours, names that cannot be read, a target that must not be written (see `targets`), or the extra is
            not installed.
        EnvironmentFault: a table is gone or damaged; disk, permission.
    """
    if not has_extra():
        raise UsageFault(f"a page needs jinja2: {INSTALL}")
    known = None if names is None else read_names(names)
    if to is not None:
        insist_target("--to", to, "a page", is_page, folder_of(path) / NAME)
    if figures is not None:
        insist_pictures("--figures", figures, kind, ())
    folder, page = load_page(path, known)
    if figures is not None:
        insist_pictures("--figures", figures, kind, [name for name, _ in page.charts()])
    target = folder / NAME if to is None else to
    try:
        put(target, html(page))
    except OSError as error:
        raise EnvironmentFault(f"{target}: cannot be written: {error.strerror or error}") from None
    said = [f"{page.title}: {target} ({target.stat().st_size / 1000:,.0f} kB)"]
    if figures is not None:
        pictures = write_pictures(page, figures, kind)
        said.append(f"{len(pictures)} pictures in {figures}")
    return said
