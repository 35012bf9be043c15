"""The commands `sweep` and `fit`."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from typing import Any

import click

from eloreplay.options import (
    EXISTING,
    Instant,
    Share,
    Since,
    console_mode,
    executor_options,
    input_options,
    memory_size,
    output_folder,
    output_options,
    published,
    since_instants,
)


def study_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that `sweep` and `fit` have in common, beside those of the input and of the output."""
    for option in (
        click.option("--max-rejected", type=Share(), default="1%", show_default=True, help="Largest share of refused rows."),
        click.option(
            "--since", multiple=True, type=Since(), metavar="V=T", help="First instant of a rule version; may be repeated."
        ),
        click.option("--as-of", type=Instant(), metavar="INSTANT", help="Later games are held; now unless given."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("games", nargs=-1, required=True)
@click.option("--rules", required=True, metavar="NAME|FILE", help="The rules as they are: a shipped ruleset or a TOML file.")
@click.option(
    "--vary",
    multiple=True,
    metavar="NAME=VALUES",
    help="A number of the rules and its values, such as divisor=400:2400:100 or heavy.games=30,50,none; may be repeated.",
)
@click.option(
    "--out", required=True, type=EXISTING, metavar="DIR", help="Folder for the result: new, empty or of an earlier sweep."
)
@click.option("--train-until", type=Instant(), metavar="INSTANT", help="Choose by the games before, score those from then on.")
@click.option("--bootstrap", type=click.IntRange(0, 1_000_000), default=1000, show_default=True, help="Draws for best_share.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the draws.")
@input_options
@study_options
@executor_options
@output_options
def sweep(games: tuple[str, ...], **options: Any) -> None:
    """Rate GAMES under many settings of the rules at once, and score each against the real results.

    Example: eloreplay sweep games/ --rules tavla42 --vary divisor=400:2400:200 --vary k=16,24,32 --out out/sweep
    """
    from eloreplay.console import Console
    from eloreplay.executors import Workers
    from eloreplay.report import page_line
    from eloreplay.settings import parse_axis
    from eloreplay.sweep import SweepOptions
    from eloreplay.sweep import sweep as run
    from eloreplay.sweep_page import page

    ruleset, inputs, as_of_us = _given(games, options)
    axes = [parse_axis(text, ruleset) for text in options["vary"]]
    workers = Workers(options["executor"], options["scheduler"])
    settings = SweepOptions(
        threads=options["threads"] or os.cpu_count() or 1,
        memory_limit=memory_size(options["memory_limit"]),
        max_rejected=options["max_rejected"],
        bootstrap=options["bootstrap"],
        seed=options["seed"],
    )
    with Console(console_mode(options)) as console:
        result = run(
            inputs,
            ruleset,
            axes,
            output_folder(options["out"]),
            as_of_us,
            options["train_until"],
            settings,
            console.report,
            console.note,
            workers,
        )
        with published(result.folder):
            if console.mode == "json":
                console.line({"done": True, "folder": str(result.folder), **result.manifest, "settings": result.table.to_dicts()})
            else:
                found = page(options["out"], result.table, result.manifest)
                console.text("\n".join([found, *page_line(result.folder, options["out"])]))


def _given(games: tuple[str, ...], options: dict[str, Any]) -> tuple[Any, Any, int]:
    """(ruleset, inputs, as-of) of the options."""
    from eloreplay.columns import NO_MAPPING, load_mapping
    from eloreplay.games import Inputs
    from eloreplay.instants import now_us
    from eloreplay.rules import load_ruleset

    as_of_us = options["as_of"] if options["as_of"] is not None else now_us()
    inputs = Inputs(
        games=games,
        mapping=NO_MAPPING if options["columns"] is None else load_mapping(options["columns"]),
        pool=options["pool"],
        awards=options["awards"],
        aliases=options["aliases"],
        excluded=options["exclude_players"],
        start_ratings=options["start_ratings"],
    )
    return load_ruleset(options["rules"], since_instants(options["since"])), inputs, as_of_us


class Bound(click.ParamType[tuple[str, float]]):
    """NAME=NUMBER."""

    name = "name=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """The value, or a usage error that shows an example."""
        if isinstance(value, tuple):
            return value
        name, sign, text = value.rpartition("=")
        try:
            bound = float(text)
        except ValueError:
            bound = math.nan
        if not sign or not name or not math.isfinite(bound):
            self.fail(f"{value!r} is not NAME=NUMBER such as divisor=400", param, ctx)
        return name, bound


@click.command()
@click.argument("games", nargs=-1, required=True)
@click.option("--rules", required=True, metavar="NAME|FILE", help="The rules as they are: a shipped ruleset or a TOML file.")
@click.option("--param", "names", multiple=True, required=True, metavar="NAME", help="A number of the rules to fit; up to three.")
@click.option(
    "--train-until", required=True, type=Instant(), metavar="INSTANT", help="Fit to the games before, score those from then on."
)
@click.option("--from", "low", multiple=True, type=Bound(), metavar="NAME=X", help="Least value; a quarter of the present one.")
@click.option("--to", "high", multiple=True, type=Bound(), metavar="NAME=X", help="Largest value; four times the present one.")
@input_options
@study_options
@output_options
def fit(games: tuple[str, ...], **options: Any) -> None:
    """Find the values of a few numbers of the rules that would have foretold GAMES best, and score them on later games.

    Example: eloreplay fit games/ --rules tavla42 --param k --train-until 2026-07-01
    """
    from eloreplay.console import Console
    from eloreplay.fit import fit as run
    from eloreplay.fit_page import page
    from eloreplay.instants import show_us
    from eloreplay.ranges import ranges
    from eloreplay.settings import find_parameter

    ruleset, inputs, as_of_us = _given(games, options)
    chosen = [find_parameter(name, ruleset, "--param") for name in options["names"]]
    looked_for = ranges(ruleset, chosen, dict(options["low"]), dict(options["high"]))
    with Console(console_mode(options)) as console:
        result = run(
            inputs,
            ruleset,
            looked_for,
            as_of_us,
            options["train_until"],
            threads=options["threads"] or os.cpu_count() or 1,
            memory_limit=memory_size(options["memory_limit"]),
            max_rejected=options["max_rejected"],
            report=console.report,
            note=console.note,
        )
        if console.mode == "json":
            console.line({"done": True, **_plain(dataclasses.asdict(result))})
        else:
            console.text(page(result, show_us(options["train_until"]) or str(options["train_until"])))


def _plain(content: Any) -> Any:
    """Without numbers that JSON does not have."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
