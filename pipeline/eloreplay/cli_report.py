"""The command `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from eloreplay.options import EXISTING, output_folder


@click.command()
@click.argument("folder", type=EXISTING, metavar="DIR")
@click.option("--to", type=EXISTING, metavar="FILE", help="Where the page goes; report.html in the run or study unless given.")
@click.option("--names", type=EXISTING, metavar="FILE", help="Parquet or CSV: player_id, name; what the page calls players.")
@click.option("--figures", type=EXISTING, metavar="FOLDER", help="Also write every chart of the page as a picture.")
@click.option("--format", "kind", type=click.Choice(["svg", "png"]), default="svg", show_default=True, help="Of the pictures.")
@click.option("--quiet", is_flag=True, help="Say nothing unless something fails.")
def report(folder: Path, **options: Any) -> None:
    """Make the page of DIR again: of an output folder (its published run), or of the folder of a run or study.

    The tables are only read. Example: eloreplay report out/sample --names names.csv --to page.html --figures pictures
    """
    from eloreplay.console import harmless
    from eloreplay.report import remake

    made = remake(output_folder(folder), options["to"], options["names"], options["figures"], options["kind"])
    if not options["quiet"]:
        for line in made:
            click.echo(harmless(line))
