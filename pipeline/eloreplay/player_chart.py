"""A player's rating over time as a picture or a page of its own, by altair and vl-convert (the extra `report`)."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np

from eloreplay.console import printable
from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.player import History

FORMATS = ("png", "svg", "html")
#: More points than a picture of this width can show are thinned out to the last one of equal parts of time.
MOST_POINTS = 2_000
BLUE, ORANGE = "#0072B2", "#D55E00"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><style>svg {{ max-width: 100%; height: auto; }}</style></head>
<body>{svg}</body>
</html>
"""


def chart_format(path: Path) -> str:
    """The format that a file's name asks for.

    Raises:
        UsageFault: another one, or the libraries are not installed.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageFault(f"--chart {path}: the name must end in .png, .svg or .html")
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        raise UsageFault("--chart needs altair and vl-convert-python: pip install 'eloreplay[report]'") from None
    return kind


def write_chart(path: Path, found: dict[str, Any], history: History) -> None:
    """Write a player's rating over time into `path`.

    Args:
        path: where to; the ending says which format (see `chart_format`).
        found: what `player.player` found.
        history: likewise.

    Raises:
        UsageFault: another ending, the libraries are missing, or there is nothing to show.
        EnvironmentFault: the file cannot be written.
    """
    kind = chart_format(path)
    if not len(history.played_us):
        raise UsageFault(f"--chart {path}: player {printable(found['player_id'])} has no game that could be shown")
    content = _content(kind, _chart(found, history), printable(found["player_id"], 60))
    try:
        path.write_bytes(content)
    except OSError as error:
        raise EnvironmentFault(f"--chart {path}: {error.strerror}") from None


def _thinned(history: History) -> tuple[list[int], list[float]]:
    at = np.arange(len(history.played_us))
    if len(at) > MOST_POINTS:
        edges = np.linspace(history.played_us[0], history.played_us[-1], MOST_POINTS).astype(np.int64)
        last = np.searchsorted(history.played_us, edges, side="right") - 1
        at = np.unique(np.concatenate([last, [history.rating.argmin(), history.rating.argmax(), len(at) - 1]]))
    return (history.played_us[at] // 1000).tolist(), history.rating[at].tolist()


def _chart(found: dict[str, Any], history: History) -> Any:
    import altair as alt

    played_ms, ratings = _thinned(history)
    values = [{"at": at, "rating": value} for at, value in zip(played_ms, ratings, strict=True)]
    pool = f" ({printable(found['pool'])})" if found.get("pool") is not None else ""
    title = alt.TitleParams(
        f"Rating of {printable(found['player_id'], 60)}{pool}",
        subtitle=f"{found['games']:,} games, rules {printable(found['rules'], 60)}, as of {found['as_of'][:10]}; time in UTC",
        anchor="start",
    )
    x = alt.X("at:T", title=None, scale=alt.Scale(type="utc"))
    y = alt.Y("rating:Q", title="rating", scale=alt.Scale(zero=False))
    data: Any = alt.Data  # altair leaves it without types
    line = alt.Chart(data(values=values)).mark_line(interpolate="step-after", color=BLUE, strokeWidth=1.5).encode(x=x, y=y)
    peak = max(values, key=lambda point: point["rating"])
    dot = alt.Chart(data(values=[peak])).mark_point(filled=True, color=ORANGE, size=60).encode(x=x, y=y)
    label = dot.mark_text(dy=-10, color=ORANGE).encode(text=alt.Text("rating:Q", format=".0f"))
    return (line + dot + label).properties(width=700, height=280, title=title)


def _content(kind: str, chart: Any, name: str) -> bytes:
    import vl_convert

    spec = chart.to_dict()
    if kind == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2.0))
    svg = str(vl_convert.vegalite_to_svg(spec))
    if kind == "svg":
        return svg.encode()
    # The picture itself in a page, and no script: a name may hold "</script>", which would end one.
    return PAGE.format(title=html.escape(name), svg=svg).encode()
