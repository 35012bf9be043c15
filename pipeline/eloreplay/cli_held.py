"""Commands that hold what is published against something else, or take somebody out of it: diff, reconcile, forget."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from eloreplay.options import EXISTING, console_mode, memory_size, next_run_options, output_folder, output_options


@click.command(
    epilog="\b\nExamples:\n  eloreplay diff out/sample@1 out/sample\n  eloreplay diff out/sample out/other --to moves.parquet"
)
@click.argument("first", metavar="DIR_A")
@click.argument("second", metavar="DIR_B")
@click.option(
    "--movers", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="Largest movers that are listed."
)
@click.option("--to", type=EXISTING, metavar="FILE", help="Write one row a player as Parquet.")
@output_options
def diff(first: str, second: str, **options: Any) -> None:
    """Hold two runs against each other: who moves, how the board changes, and which games say why.

    A run is named by its folder (what is published there), by DIR@41 (a kept run) or by its own folder DIR/runs/000041. Two rule
    sets are two backfills of the same games.
    """
    from eloreplay.console import Console
    from eloreplay.diff import DiffOptions
    from eloreplay.diff import diff as run
    from eloreplay.diff_page import page
    from eloreplay.study_folder import write_table
    from eloreplay.targets import insist_target, is_moves

    target: Path | None = options["to"]
    if target is not None:
        insist_target("--to", target, "a table of eloreplay diff", is_moves)
    settings = DiffOptions(
        movers=options["movers"],
        threads=options["threads"] or os.cpu_count() or 1,
        memory_limit=memory_size(options["memory_limit"]),
    )
    with Console(console_mode(options)) as console:
        result = run(first, second, settings, console.report)
        if target is not None:
            write_table(result.players.to_arrow(), target)
        if console.mode == "json":
            console.line({"done": True, **result.found, "to": None if target is None else str(target)})
        else:
            console.text(page(result.found))


@click.command(epilog="\b\nExample:\n  eloreplay reconcile out/sample live.parquet")
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.argument("live", metavar="LIVE")
@click.option("--columns", type=EXISTING, metavar="FILE", help="TOML that maps your columns to ours.")
@click.option("--tolerance", type=click.FloatRange(0), metavar="POINTS", help="Values that differ by no more are equal.")
@click.option("--to", type=EXISTING, metavar="FOLDER", help="Where the tables go: new, empty or of an earlier one.")
@output_options
def reconcile(folder: Path, live: str, **options: Any) -> None:
    """Hold the site's own ratings in LIVE (Parquet) against those published in DIR: where they part, and why.

    LIVE has one row a game (game_id and, of winner_before, winner_change, winner_after and the same of the loser, what there is) or
    one row a player (player_id, rating, and perhaps games).

    
    Example: eloreplay reconcile out/sample live.parquet
    """
    from eloreplay.console import Console
    from eloreplay.published import chosen
    from eloreplay.reconcile import ReconcileOptions
    from eloreplay.reconcile import reconcile as run
    from eloreplay.reconcile_page import page

    settings = ReconcileOptions(
        columns=options["columns"],
        tolerance=options["tolerance"],
        threads=options["threads"] or os.cpu_count() or 1,
        memory_limit=memory_size(options["memory_limit"]),
    )
    with Console(console_mode(options)) as console:
        result = run(folder, live, options["to"], settings, console.report, console.note)
        if console.mode == "json":
            console.line({"done": True, "folder": str(result.folder), **result.found})
        else:
            console.text(page(result.found, options["to"] or chosen(folder)[0] / "studies" / "reconcile"))


@click.command(
    # An id may be a negative number, which is no option.
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nExamples:\n  eloreplay forget out/sample p000124 --dry-run\n  eloreplay forget out/sample p000124",
)
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.argument("player", metavar="PLAYER")
@click.option("--dry-run", is_flag=True, help="Only say what holds the id.")
@next_run_options
def forget(folder: Path, player: str, dry_run: bool, **options: Any) -> None:
    """Replace the id of PLAYER by a pseudonym in everything that DIR keeps, and at the door of every later run.

    The files of the games are not touched: they may go on holding the id. What was copied out of DIR is not known here.
    """
    from eloreplay.console import Console
    from eloreplay.forget import forget as run
    from eloreplay.forget_page import page

    with Console(console_mode(options)) as console:
        done = run(
            output_folder(folder),
            player,
            console.report,
            console.note,
            dry_run,
            options["threads"],
            memory_size(options["memory_limit"]),
        )
        if console.mode == "json":
            console.line({"done": not dry_run, **done.as_dict()})
        else:
            console.text(page(folder, done, dry_run))


COMMANDS = (diff, forget, reconcile)
