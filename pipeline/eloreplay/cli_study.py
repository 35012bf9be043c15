"""The command `calibrate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from eloreplay.options import EXISTING, console_mode, memory_size, output_options, published


@click.command()
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option(
    "--by",
    metavar="SLICES",
    help="Slices, with commas between: version, cube, match_length, strength, heavy, experience, month; all unless given, or none.",
)
@click.option("--min-games", type=click.IntRange(1), default=1, show_default=True, help="Leave out slice values with fewer games.")
@click.option(
    "--bootstrap",
    type=click.IntRange(0, 100_000),
    default=0,
    show_default=True,
    help="Draw the players N times, and give every interval also as one that respects that players repeat.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the draws.")
@click.option("--to", type=EXISTING, metavar="FOLDER", help="Where the study goes: new, empty or of an earlier one.")
@output_options
def calibrate(folder: Path, **options: Any) -> None:
    """Hold the ratings published in DIR against the real results: curves, scores and fits, over all games and by slices."""
    from eloreplay.calibrate import StudyOptions, parse_slices
    from eloreplay.calibrate import calibrate as run
    from eloreplay.console import Console
    from eloreplay.published import chosen
    from eloreplay.study_page import page

    settings = StudyOptions(
        by=parse_slices(options["by"]),
        min_games=options["min_games"],
        draws=options["bootstrap"],
        seed=options["seed"],
        threads=options["threads"] or os.cpu_count() or 1,
        memory_limit=memory_size(options["memory_limit"]),
    )
    with Console(console_mode(options)) as console:
        result = run(folder, options["to"], settings, console.report, console.note)
        with published(result.folder):
            if console.mode == "json":
                console.line({"done": True, "folder": str(result.folder), **result.manifest})
            else:
                console.text(page(options["to"] or chosen(folder)[0] / "studies" / "calibrate", result))
