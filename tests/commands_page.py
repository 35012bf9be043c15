"""Makes `docs/commands.md` from the code: the help of every command, as the commands themselves print it.

make commands-page
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from eloreplay.cli import cli

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Every command and its options

This page is made from the code (`make commands-page`), and a test holds it against it: it is what `eloreplay COMMAND --help`
prints. What a command does, with examples and what it says, is in [cli.md](cli.md).
"""


def page() -> str:
    """The page as it ought to be; the width of nobody's terminal shows in it."""
    parts = [HEAD]
    top = click.Context(cli, info_name="eloreplay", terminal_width=110)
    for name in sorted(cli.commands):
        context = click.Context(cli.commands[name], parent=top, info_name=name, terminal_width=110)
        parts.append(f"## {name}\n\n```text\n{cli.commands[name].get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page(), encoding="utf-8")
