"""Commands that ask a published run: explain, player, ties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from eloreplay.errors import Differs
from eloreplay.options import EXISTING, as_json_text, console_mode, memory_size, output_folder, output_options

#: An id may be negative: what looks like an option and is none is an argument.
IDS = {"ignore_unknown_options": True}


@click.command(context_settings=IDS, epilog="\b\nExample:\n  eloreplay explain out/sample 1074378")
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.argument("game", metavar="GAME_ID")
@click.option("--no-past", is_flag=True, help="Do not look into the kept runs before.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines.")
def explain(folder: Path, game: str, no_past: bool, as_json: bool) -> None:
    """Why game GAME_ID moved both ratings in DIR as it did: every term, with its reason.

    It is computed again from the timeline's columns; if that gives something else, the exit code is 6. Of a game that is not rated
    it says why, and in which file and row it stands.
    """
    from eloreplay.console import harmless
    from eloreplay.explain import explain as run
    from eloreplay.explain_page import explain_text

    found = run(output_folder(folder), game, past=not no_past)
    click.echo(as_json_text(found) if as_json else harmless(explain_text(found)))
    if found.get("agrees") is False:
        raise Differs(f"game {game}: {found['differences'][0]}")


@click.command(
    context_settings=IDS,
    epilog="\b\nExamples:\n  eloreplay player out/sample p001219\n  eloreplay player out/sample p001219 --games 3 --json",
)
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.argument("player_id", metavar="PLAYER_ID")
@click.option("--pool", metavar="NAME", help="The ladder; needed only for a player who stands on several.")
@click.option("--games", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="Last games that are listed.")
@click.option("--chart", type=EXISTING, metavar="FILE", help="Also draw his rating over time: .png, .svg or .html.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines.")
def player(folder: Path, player_id: str, pool: str | None, games: int, chart: Path | None, as_json: bool) -> None:
    """Player PLAYER_ID of DIR: rating, rank, record, K of today and until when, last games, and the rating over time."""
    from eloreplay.console import harmless
    from eloreplay.player import player as run
    from eloreplay.player_chart import chart_format, write_chart
    from eloreplay.player_page import player_text
    from eloreplay.targets import PICTURES, insist_target

    if chart is not None:
        insist_target("--chart", chart, *PICTURES[chart_format(chart)])
    found, history = run(output_folder(folder), player_id, pool, games)
    click.echo(as_json_text(found) if as_json else harmless(player_text(found)))
    if chart is not None:
        write_chart(chart, found, history)
        if not as_json:
            click.echo(harmless(f"\nThe chart is in {chart}"))


@click.command(epilog="\b\nExample:\n  eloreplay ties out/sample")
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option("--number", "-n", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="Players that are listed.")
@output_options
def ties(folder: Path, number: int, **options: Any) -> None:
    """What the order of games at one instant decides in DIR: how many there are, and how far ratings move if it is reversed.

    The rated games are rated again from the first such instant on; the run itself stays as it is.
    """
    from eloreplay.console import Console
    from eloreplay.ties import ties as run
    from eloreplay.ties_page import ties_text

    with Console(console_mode(options)) as console:
        found = run(output_folder(folder), options["threads"], memory_size(options["memory_limit"]), console.report)
        if console.mode == "json":
            console.line({"done": True, **found})
        console.text(ties_text(found, number))


COMMANDS: tuple[Any, ...] = (explain, player, ties)
