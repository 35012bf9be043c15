"""The command `simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from eloreplay.errors import UsageFault
from eloreplay.options import EXISTING, Share, console_mode


@click.command()
@click.option("--out", required=True, type=EXISTING, metavar="DIR", help="Where the files go.")
@click.option("--games", type=click.IntRange(0), default=200_000, show_default=True)
@click.option("--players", type=click.IntRange(2), default=3_000, show_default=True)
@click.option("--months", type=click.IntRange(1), default=6, show_default=True)
@click.option("--start", default="2026-03-01", show_default=True, help="First day.")
@click.option("--seed", type=int, default=42, show_default=True)
@click.option("--clean", is_flag=True, help="Plant no copies, corrections or bad rows.")
@click.option("--truth", is_flag=True, help="Also write the players' true strengths over time, as _truth.parquet.")
@click.option("--divisor", type=float, default=1200.0, show_default=True, help="Of the true winning probability: how much luck.")
@click.option("--spread", type=float, default=250.0, show_default=True, help="Standard deviation of the true strengths, points.")
@click.option("--drift", type=float, default=0.0, show_default=True, help="What a strength moves in 30 days, points.")
@click.option("--activity", type=float, default=1.3, show_default=True, help="Spread of log activity: how few play most games.")
@click.option(
    "--matchmaking",
    type=click.Choice(["strength", "rating", "random"]),
    default="strength",
    show_default=True,
    help="Opponents: a mild pull towards like strength, by near rating, or anybody.",
)
@click.option("--burst-games", type=click.IntRange(0), default=300, show_default=True, help="Games of a burst week; 0 for none.")
@click.option("--ranked", type=Share(), default="72%", show_default=True, help="Share of ranked games.")
@click.option("--forfeits", type=Share(), default="30%", show_default=True, help="Share of games that end early.")
@click.option("--quiet", is_flag=True, help="Say nothing unless something fails.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line a step, for machines.")
def simulate(out: Path, games: int, players: int, months: int, start: str, seed: int, clean: bool, **options: Any) -> None:
    """Make up the history of a backgammon site with known strengths (and known dirt), for trials and measurements.

    Example: eloreplay simulate --games 1000000 --players 20000 --drift 30 --matchmaking rating --truth --out made-up
    """
    from eloreplay.console import Console
    from eloreplay.simulate import simulate as run
    from eloreplay.world import FORFEIT_SHARE, RANKED_SHARE, World

    with Console(console_mode(options)) as console:
        try:
            world = World(
                divisor=options["divisor"],
                spread=options["spread"],
                drift=options["drift"],
                activity=options["activity"],
                matchmaking=options["matchmaking"],
                burst_games=options["burst_games"],
                # The sample's own shares are left to it, to the last bit.
                ranked=None if options["ranked"] == RANKED_SHARE else options["ranked"],
                forfeits=None if options["forfeits"] == FORFEIT_SHARE else options["forfeits"],
            )
            made = run(
                out,
                games=games,
                players=players,
                months=months,
                start=start,
                seed=seed,
                clean=clean,
                world=world,
                truth=options["truth"],
                progress=console.report,
            )
        except ValueError as error:
            raise UsageFault(str(error)) from None
        planted = ", ".join(f"{count} {kind}" for kind, count in made.planted.items())
        console.text(f"{made.rows} rows in {len(made.files)} files under {out}; planted: {planted or 'nothing'}")
        if console.mode == "json":
            console.line({"done": True, "rows": made.rows, "files": [str(f) for f in made.files], "planted": dict(made.planted)})
