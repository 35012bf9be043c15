"""The command `nightly`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from eloreplay.options import EXISTING, Instant, Share, console_mode, memory_size, next_run_options, output_folder, published


@click.command()
@click.argument("games", nargs=-1, required=True)
@click.option("--out", required=True, type=EXISTING, metavar="DIR", help="Output folder with a published run.")
@click.option("--as-of", type=Instant(), metavar="INSTANT", help="Later games are held; now unless given.")
@click.option("--dry-run", is_flag=True, help="Work it out, show it, and publish nothing.")
@click.option("--allow-missing", is_flag=True, help="Take the games of a file that is gone out of the history.")
@click.option("--sealed-before", type=Instant(), metavar="INSTANT", help="Files whose games are all older may be archived.")
@click.option("--max-restated", type=Share(), help="Largest share of games restated; 1% (and more than 10) unless given.")
@click.option(
    "--max-moved", type=Share(), help="Largest share of players moved by over 100 points; 5% (and more than 10) unless given."
)
@click.option("--accept-changes", is_flag=True, help="Publish however much is restated or moved.")
@click.option("--min-new-games", type=click.IntRange(0), metavar="N", help="Fewer new games than this are stale data.")
@click.option(
    "--if-stale", type=click.Choice(["warn", "stop"]), default="warn", show_default=True, help="What to do about stale data."
)
@click.option("--max-rejected", type=Share(), help="Largest share of refused rows; as in the run before unless given.")
@click.option("--awards", metavar="FILE", help="In place of the run's awards.")
@click.option("--aliases", metavar="FILE", help="In place of the run's aliases.")
@click.option("--exclude-players", metavar="FILE", help="In place of the run's excluded players.")
@click.option("--start-ratings", metavar="FILE", help="In place of the run's start ratings.")
@next_run_options
def nightly(games: tuple[str, ...], **options: Any) -> None:
    """Bring the published run in DIR up to what GAMES (always the whole history) say now: exactly what a backfill would give.

    Rules, columns and options are those of the published run. Example: eloreplay nightly games/ --out ratings
    """
    from eloreplay.console import Console
    from eloreplay.instants import now_us
    from eloreplay.night_page import night_page
    from eloreplay.nightly import NightOptions
    from eloreplay.nightly import nightly as run

    as_of_us = options["as_of"] if options["as_of"] is not None else now_us()
    tables = {"awards": "awards", "aliases": "aliases", "excluded": "exclude_players", "start_ratings": "start_ratings"}
    night = NightOptions(
        allow_missing=options["allow_missing"],
        sealed_before_us=options["sealed_before"],
        dry_run=options["dry_run"],
        max_restated=options["max_restated"],
        max_moved=options["max_moved"],
        accept_changes=options["accept_changes"],
        min_new_games=options["min_new_games"],
        stop_if_stale=options["if_stale"] == "stop",
        overrides=tuple((name, options[option]) for name, option in tables.items() if options[option] is not None),
        threads=options["threads"],
        memory_limit=memory_size(options["memory_limit"]),
        max_rejected=options["max_rejected"],
    )
    out: Path = output_folder(options["out"])
    with Console(console_mode(options)) as console:
        result = run(games, out, as_of_us, night, console.report, console.note)
        with published(result.run.folder):
            if console.mode == "json":
                manifest = {key: value for key, value in result.run.manifest.items() if key not in ("chunks", "inputs")}
                console.line(
                    {
                        "done": True,
                        "published": result.published,
                        "folder": str(result.run.folder),
                        **manifest,
                        "night": result.night,
                    }
                )
            elif console.mode == "text":
                console.text(night_page(out, result))


@click.command("what-if")
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option("--to", "target", required=True, type=EXISTING, metavar="FOLDER", help="Where the answer goes: a folder of its own.")
@click.option("--void", metavar="FILE", help="Parquet: game_id; these games are taken as voided.")
@click.option("--exclude-players", metavar="FILE", help="Parquet: player_id; their games are unrated, both ways.")
@next_run_options
def what_if(folder: Path, target: Path, **options: Any) -> None:
    """What the published run in DIR would be without some games or players: a whole run in a folder of its own.

    Its table changes says who would stand where. Example: eloreplay what-if ratings --void games.parquet --to answer
    """
    from eloreplay.console import Console
    from eloreplay.night_page import what_if_page
    from eloreplay.what_if import WhatIf
    from eloreplay.what_if import what_if as run

    question = WhatIf(options["void"], options["exclude_players"])
    with Console(console_mode(options)) as console:
        result, made = run(
            output_folder(folder),
            output_folder(target),
            question,
            options["threads"],
            memory_size(options["memory_limit"]),
            console.report,
            console.note,
        )
        with published(result.folder):
            if console.mode == "json":
                manifest = {key: value for key, value in result.manifest.items() if key not in ("chunks", "inputs")}
                console.line({"done": True, "folder": str(result.folder), **manifest})
            elif console.mode == "text":
                console.text(what_if_page(target, result, made.changes))
