"""What a forget did, for a person."""

from __future__ import annotations

from pathlib import Path

from eloreplay.console import counted, printable
from eloreplay.forget import Forgot


def page(out: Path, done: Forgot, dry_run: bool) -> str:
    """The page; it never shows the id that is gone."""
    files, rows = (sum(place[key] for place in done.places.values()) for key in ("files", "rows"))
    lines = []
    if dry_run:
        lines.append(f"The id stands in {counted(rows, 'row')} of {counted(files, 'file')} of {out}. Nothing was changed.")
    elif done.run is None:
        other = counted(files, "other file was", "other files were")
        lines.append(f"Nothing was left of the player in run and rule; {other} put right ({counted(rows, 'row')}).")
    else:
        lines.append(f"The player is {printable(done.name, 40)} now, from run {done.run} on and in every run that is kept.")
        lines.append(f"The id stood in {counted(rows, 'row')} of {counted(files, 'file')}:")
    lines += [
        f"  {place:<16}{one['rows']:>10,} {'row' if one['rows'] == 1 else 'rows'} in {counted(one['files'], 'file')}"
        for place, one in sorted(done.places.items())
    ]
    if not dry_run:
        lines.append(
            "Later runs in this folder replace the id as they read it. The games' own files still hold it, and so does whatever "
            "was copied elsewhere: answers of what-if, tables written with --to, pages, backups."
        )
    return "\n".join(lines)
