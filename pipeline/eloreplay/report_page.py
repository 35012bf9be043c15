"""A page as HTML: one file without script and without an outside address.

The charts are SVG that the templates write themselves: positions are shares of the width, so that one drawing fits a phone and a
desk with letters of the same size, and colours are the page's own, so that they follow light and dark. That costs a night about a
tenth of a second, where loading a chart library and its engine would cost three; pictures by Altair are for `--figures`.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata, resources
from typing import TYPE_CHECKING

from eloreplay import __version__
from eloreplay.report_parts import Page

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("eloreplay"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["pc"] = lambda share: f"{share:.2f}".rstrip("0").rstrip(".")
    return environment


def has_extra() -> bool:
    """Whether what writes a page is installed (the extra `report`)."""
    try:
        metadata.version("jinja2")
    except metadata.PackageNotFoundError:
        return False
    return True


def html(page: Page) -> str:
    """The page as one HTML document. Equal pages give equal text."""
    from markupsafe import Markup

    css = (resources.files("eloreplay") / "templates" / "page.css").read_text(encoding="utf-8")
    text = (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            css=Markup(css),
            footer=f"eloreplay {__version__}; every number stands in the Parquet tables beside this page",
        )
    )
    return "\n".join(line for line in (line.strip() for line in text.splitlines()) if line) + "\n"
