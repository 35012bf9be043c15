"""The command `publish`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from eloreplay.options import EXISTING, console_mode, memory_size, output_options, published


@click.command(
    epilog="\b\nExamples:\n  eloreplay publish out/sample --to ratings.duckdb\n"
    "  eloreplay publish out/sample --to postgresql://db.example/site --dry-run"
)
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option("--to", required=True, metavar="WHERE", help="postgresql://host/database, s3://bucket/prefix or FILE.duckdb.")
@click.option("--schema", metavar="NAME", help="Schema of PostgreSQL; eloreplay unless given.")
@click.option("--everything", is_flag=True, help="Send all of it, also what is there already.")
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
@output_options
def publish(folder: Path, to: str, **options: Any) -> None:
    """Send the run of DIR to where its readers are, in one step: they see the run before or this one, never a mixture.

    Credentials come from the environment: for PostgreSQL by libpq's own means (PGUSER, PGPASSWORD, PGSERVICE, ~/.pgpass), for
    objects by AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ENDPOINT_URL and the like. No password is ever shown.
    """
    from eloreplay.console import Console
    from eloreplay.send import SendOptions, send
    from eloreplay.send_target import parse_target

    target = parse_target(to)
    settings = SendOptions(
        schema=options["schema"],
        everything=options["everything"],
        dry_run=options["dry_run"],
        threads=options["threads"] or os.cpu_count() or 1,
        memory_limit=memory_size(options["memory_limit"]),
    )
    with Console(console_mode(options)) as console:
        report = send(folder, target, settings, console.report, console.note)
        with published(folder):
            if console.mode == "json":
                console.line({"done": not report.dry_run, **report.as_dict()})
            else:
                console.text(report.text())
