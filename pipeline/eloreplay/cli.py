"""The command line: parse, call, exit code. Everything heavy is imported inside the commands, so that help answers at once."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from eloreplay import __version__
from eloreplay.cli_ask import COMMANDS as ASK_COMMANDS
from eloreplay.cli_held import COMMANDS as HELD_COMMANDS
from eloreplay.cli_night import nightly, what_if
from eloreplay.cli_publish import publish
from eloreplay.cli_report import report
from eloreplay.cli_runs import COMMANDS as RUN_COMMANDS
from eloreplay.cli_simulate import simulate
from eloreplay.cli_study import calibrate
from eloreplay.cli_sweep import fit, sweep
from eloreplay.errors import EloreplayError, EnvironmentFault, UsageFault
from eloreplay.options import (
    EXISTING,
    Instant,
    Pair,
    Share,
    Since,
    as_json_text,
    console_mode,
    drop_stdout,
    executor_options,
    input_options,
    memory_size,
    output_folder,
    output_options,
    published,
    since_instants,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="eloreplay")
def cli() -> None:
    """Recompute every rating of a game site from its history: exactly, fast, and with a check against real results."""


@cli.command()
@click.argument("games", nargs=-1, required=True)
@click.option("--rules", required=True, metavar="NAME|FILE", help="A shipped ruleset or a TOML file.")
@click.option("--out", required=True, type=EXISTING, metavar="DIR", help="Output folder: new, empty or one of ours.")
@input_options
@click.option("--as-of", type=Instant(), metavar="INSTANT", help="Later games are held; now unless given.")
@click.option("--since", multiple=True, type=Since(), metavar="V=T", help="First instant of a rule version; may be repeated.")
@click.option(
    "--chunk",
    type=click.Choice(["auto", "month", "week", "day"]),
    default="auto",
    show_default=True,
    help="Length of a timeline file; auto: months, and days in the last 45 days and more.",
)
@click.option("--max-rejected", type=Share(), default="1%", show_default=True, help="Largest share of refused rows.")
@click.option("--top", type=click.IntRange(1), default=100, show_default=True, help="Length of the leaderboard.")
@click.option("--min-games", type=click.IntRange(1), default=1, show_default=True, help="Games needed to stand on it.")
@click.option("--active-days", type=click.IntRange(0, 36500), help="Stand on it only if played in the last N days.")
@click.option("--no-study", is_flag=True, help="Leave out the study by slices: one curve of all games only.")
@click.option("--keep", type=click.IntRange(1), default=3, show_default=True, help="Published runs that are kept.")
@executor_options
@output_options
def backfill(games: tuple[str, ...], **options: Any) -> None:
    """Rate the whole history in GAMES (files, folders or wildcards) and publish it in DIR."""
    from eloreplay.backfill import backfill as run
    from eloreplay.columns import NO_MAPPING, load_mapping
    from eloreplay.console import Console
    from eloreplay.executors import Workers
    from eloreplay.games import Inputs
    from eloreplay.instants import now_us
    from eloreplay.overview import overview
    from eloreplay.publish import BoardOptions
    from eloreplay.rules import load_ruleset, rules_source
    from eloreplay.run import RunOptions

    as_of_us = options["as_of"] if options["as_of"] is not None else now_us()
    since = since_instants(options["since"])
    ruleset = load_ruleset(options["rules"], since)
    inputs = Inputs(
        games=games,
        mapping=NO_MAPPING if options["columns"] is None else load_mapping(options["columns"]),
        pool=options["pool"],
        awards=options["awards"],
        aliases=options["aliases"],
        excluded=options["exclude_players"],
        start_ratings=options["start_ratings"],
    )
    settings = RunOptions(
        chunk=options["chunk"],
        threads=options["threads"] or os.cpu_count() or 1,
        memory_limit=memory_size(options["memory_limit"]),
        max_rejected=options["max_rejected"],
        keep=options["keep"],
        study=not options["no_study"],
        board=BoardOptions(options["top"], options["min_games"], options["active_days"]),
    )
    workers = Workers(options["executor"], options["scheduler"])
    with Console(console_mode(options)) as console:
        source = rules_source(options["rules"])
        result = run(
            inputs,
            ruleset,
            output_folder(options["out"]),
            as_of_us,
            settings,
            console.report,
            console.note,
            (source, since),
            workers,
        )
        with published(result.folder):
            if console.mode == "json":
                console.line({"done": True, "folder": str(result.folder), **result.manifest})
            elif console.mode == "text":
                console.text(overview(options["out"], result))


@cli.command()
@click.argument("games", nargs=-1, required=True)
@click.option(
    "--rules",
    default="tavla42",
    show_default=True,
    metavar="NAME|FILE",
    help="A shipped ruleset or a TOML file.",
)
@click.option("--columns", type=EXISTING, metavar="FILE", help="TOML that maps your columns to ours.")
@click.option("--aliases", metavar="FILE", help="Parquet: alias_id, player_id; merges accounts.")
@click.option("--exclude-players", metavar="FILE", help="Parquet: player_id; their games are unrated, both ways.")
@click.option("--pool", metavar="COLUMN", help="Column of the ladder; the same id on two ladders is two players.")
@click.option("--as-of", type=Instant(), metavar="INSTANT", help="Later games are held; now unless given.")
@click.option("--since", multiple=True, type=Since(), metavar="V=T", help="First instant of a rule version; may be repeated.")
@click.option("--max-rejected", type=Share(), default="1%", show_default=True, help="Share of refused rows a backfill allows.")
@output_options
def check(games: tuple[str, ...], **options: Any) -> None:
    """Look at GAMES (files, folders or wildcards) without rating them: what each row would become, and how good the data is."""
    from eloreplay import findings
    from eloreplay.check import CheckOptions
    from eloreplay.check import check as run
    from eloreplay.columns import NO_MAPPING, load_mapping
    from eloreplay.console import Console
    from eloreplay.games import Inputs
    from eloreplay.instants import now_us
    from eloreplay.rules import load_ruleset

    as_of_us = options["as_of"] if options["as_of"] is not None else now_us()
    ruleset = load_ruleset(options["rules"], since_instants(options["since"]))
    inputs = Inputs(
        games=games,
        mapping=NO_MAPPING if options["columns"] is None else load_mapping(options["columns"]),
        pool=options["pool"],
        aliases=options["aliases"],
        excluded=options["exclude_players"],
    )
    settings = CheckOptions(
        threads=options["threads"] or os.cpu_count() or 1,
        memory_limit=memory_size(options["memory_limit"]),
        max_rejected=options["max_rejected"],
    )
    with Console(console_mode(options)) as console:
        found = run(inputs, ruleset, as_of_us, settings, console.report, console.note)
        if console.mode == "json":
            console.line({"done": True, **found, "findings": findings.summary(found)})
        else:
            console.text(findings.text(found))


@cli.command()
@click.argument("name", required=False, metavar="[NAME|FILE]")
@click.option("--since", multiple=True, type=Since(), metavar="V=T", help="First instant of a rule version; may be repeated.")
@click.option("--toml", "as_toml", is_flag=True, help="The file itself, to copy and change.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines.")
def rules(name: str | None, since: tuple[tuple[str, int], ...], as_toml: bool, as_json: bool) -> None:
    """List the shipped rulesets, or show one with the tables that a site would publish.

    Example: eloreplay rules tavla42 --toml > mine.toml
    """
    from eloreplay import rulebook
    from eloreplay.rules import ruleset_text

    if as_toml:
        if name is None or as_json or since:
            raise UsageFault("--toml prints the file of one ruleset as it is: name it, without --json and --since")
        click.echo(ruleset_text(name), nl=False)
        return
    if name is None:
        rulesets = rulebook.listing()
        click.echo(as_json_text(rulesets) if as_json else rulebook.listing_text(rulesets))
        return
    book = rulebook.rulebook(name, since_instants(since))
    click.echo(as_json_text(book) if as_json else rulebook.rulebook_text(book))


@cli.command()
@click.argument("first", type=float)
@click.argument("second", type=float)
@click.option("--rules", required=True, metavar="NAME|FILE", help="A shipped ruleset or a TOML file.")
@click.option("--cube", type=int, help="Cube value at the end.")
@click.option("--match-length", type=int, help="Points that the match is played to.")
@click.option("--result", type=click.Choice(["single", "gammon", "backgammon"]), help="How it is won.")
@click.option("--weight", type=float, help="Weight of the game.")
@click.option("--advantage", type=float, help="Points added to the first's rating, for the expectation only.")
@click.option("--recent", type=Pair(int), metavar="A,B", help="Rated games of each in the counting window before.")
@click.option("--games", type=Pair(int), metavar="A,B", help="Rated games of each before.")
@click.option("--experience", type=Pair(float), metavar="A,B", help="Experience of each before.")
@click.option("--draw", is_flag=True, help="Show a draw, too.")
@click.option("--version", metavar="V", help="Rule version; the last one unless given.")
@click.option("--at", type=Instant(), metavar="INSTANT", help="Take the rule version in force at this instant.")
@click.option("--since", multiple=True, type=Since(), metavar="V=T", help="First instant of a rule version; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for machines.")
def expect(first: float, second: float, **options: Any) -> None:
    """What two players rated FIRST and SECOND would win and lose, and why."""
    from eloreplay import rulebook

    if options["version"] is not None and options["at"] is not None:
        raise UsageFault("--version and --at exclude each other")
    names = ("games", "experience", "recent", "cube", "match_length", "result", "weight", "advantage", "draw")
    game = rulebook.Game((first, second), **{name: options[name] for name in names})
    found = rulebook.expect(options["rules"], since_instants(options["since"]), game, options["version"], options["at"])
    click.echo(as_json_text(found) if options["as_json"] else rulebook.expect_text(found))


cli.add_command(nightly)
cli.add_command(what_if)
cli.add_command(simulate)
cli.add_command(sweep)
cli.add_command(fit)
cli.add_command(calibrate)
cli.add_command(report)
cli.add_command(publish)


for run_command in (*ASK_COMMANDS, *HELD_COMMANDS, *RUN_COMMANDS):
    cli.add_command(run_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code and never raises, whatever happens."""
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="eloreplay", standalone_mode=False)
        return 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return 2
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except EloreplayError as error:
        from eloreplay.console import harmless

        click.echo(harmless(f"eloreplay: {error}"), err=True)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        drop_stdout()
        return 1
    except MemoryError:
        click.echo("eloreplay: out of memory; lower --memory-limit or --threads", err=True)
        return EnvironmentFault.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"eloreplay: {where}{error.strerror or error}", err=True)
        return EnvironmentFault.exit_code
    except Exception as error:
        return _unexpected(error)


def _interrupted() -> int:
    click.echo("eloreplay: interrupted; the last published run is as it was", err=True)
    return 130


def _unexpected(error: Exception) -> int:
    """A fault of ours: say so in a line, and keep the details where a report can be made from."""
    from eloreplay.queries import is_interrupt

    if is_interrupt(error):
        return _interrupted()
    if os.environ.get("ELOREPLAY_TRACEBACK"):
        import traceback

        traceback.print_exc()
    text = (str(error).strip().splitlines() or [""])[0]
    click.echo(
        f"eloreplay: unexpected {type(error).__name__}: {text}; the last published run is as it was. This is a fault in eloreplay: "
        "please report it (ELOREPLAY_TRACEBACK=1 shows where it happened)",
        err=True,
    )
    return EnvironmentFault.exit_code


def entry() -> None:
    """The console script: streams that can take any name, also when the caller has closed them or speaks another encoding."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = main()
    # Everything is closed and on the disk by now. Threads of libraries can still abort a process that ends in the usual way, and a
    # night that was published would look as if it had failed.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)
