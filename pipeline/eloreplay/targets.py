"""Files that a command is told to write: judged before anything is computed, so that no file of another kind is lost.

What a run has published is never written over, however the name leads there; nor is a file that the command would not have made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.sources import OUTPUT_MARKER

#: Where a person may put files of his own inside an output folder.
STUDIES = "studies"
#: How much of a file tells what it is.
HEAD_BYTES = 512
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
#: Columns that every table of `diff --to` has.
MOVES = frozenset({"player_id", "rating_a", "rating_b", "differing_games"})

#: Whether a file is of a kind.
IsKind = Callable[[Path], bool]


def is_page(path: Path) -> bool:
    """Whether a file begins as the pages do that eloreplay writes."""
    return _head(path).lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(b"<!doctype html")


def is_png(path: Path) -> bool:
    """Whether a file is a PNG picture."""
    return _head(path).startswith(PNG_MAGIC)


def is_svg(path: Path) -> bool:
    """Whether a file is an SVG picture."""
    head = _head(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    return head.startswith(b"<svg") or (head.startswith(b"<?xml") and b"<svg" in head)


def is_moves(path: Path) -> bool:
    """Whether a file is a table that `diff --to` writes."""
    try:
        with path.open("rb") as file:
            return set(pq.read_schema(file).names) >= MOVES
    except pa.ArrowException:
        return False


#: By the ending of a picture's name: how the kind is called, and whether a file is one.
PICTURES: dict[str, tuple[str, IsKind]] = {
    "png": ("a PNG picture", is_png),
    "svg": ("an SVG picture", is_svg),
    "html": ("a page", is_page),
}


def insist_target(option: str, target: Path, what: str, is_kind: IsKind, remade: Path | None = None) -> None:
    """Refuse a file that must not be written; what may be written is new, empty, or an earlier one of its kind.

    Args:
        option: that names it, for the message.
        target: the file.
        what: its kind in words, such as "a page".
        is_kind: whether a file that is there is of that kind.
        remade: a file inside an output folder that may be written all the same, or None.

    Raises:
        UsageFault: its folder does not exist, it is a folder, it lies in an output folder (not in its `studies`), or something of
            another kind is there.
        EnvironmentFault: it cannot be looked at.
    """
    try:
        # Where the name leads: a link into a run is a file of that run.
        real = target.resolve()
        if target.is_dir():
            raise UsageFault(f"{option} {target}: is a folder; name a file in it")
        if not real.parent.is_dir():
            raise UsageFault(f"{option} {target}: there is no folder {target.parent}; make it first, or name another file")
        if remade is None or real != remade.resolve():
            _insist_outside(option, target, real)
        if not real.exists():
            return
        if not real.is_file() or (real.stat().st_size and not is_kind(real)):
            raise UsageFault(f"{option} {target}: is there and is not {what}; name a new file, or remove it first")
    except (OSError, RuntimeError) as error:
        raise _in_the_way(option, target, error) from None


def insist_pictures(option: str, folder: Path, kind: str, names: Iterable[str]) -> None:
    """Refuse a folder for pictures that must not get them; it may be new, and its other files stay as they are.

    Args:
        option: that names it, for the message.
        folder: where they go.
        kind: `svg` or `png`.
        names: of the pictures, without the ending.

    Raises:
        UsageFault: it is a file, it lies in an output folder, or something else has the name of a picture.
        EnvironmentFault: it cannot be looked at.
    """
    try:
        real = folder.resolve()
        _insist_outside(option, folder, real / "picture")
        if not real.exists():
            return
        if not real.is_dir():
            raise UsageFault(f"{option} {folder}: not a folder")
    except (OSError, RuntimeError) as error:
        raise _in_the_way(option, folder, error) from None
    for name in names:
        insist_target(option, folder / f"{name}.{kind}", *PICTURES[kind])


def _insist_outside(option: str, target: Path, real: Path) -> None:
    for root in real.parents:
        if (root / OUTPUT_MARKER).is_file():
            inside = real.relative_to(root).parts
            if len(inside) < 2 or inside[0] != STUDIES:
                raise UsageFault(
                    f"{option} {target}: lies in the output folder {root}, where only runs write; choose a place outside of it, or "
                    f"in {root / STUDIES}"
                )


def _in_the_way(option: str, target: Path, error: Exception) -> EnvironmentFault:
    # A RuntimeError is what Python 3.11 says of links that lead round in a ring.
    text = getattr(error, "strerror", None) or str(error)
    return EnvironmentFault(f"{option} {target}: cannot be written: {text}")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)
