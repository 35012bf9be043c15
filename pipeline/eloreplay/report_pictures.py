"""The charts of a page as pictures, by Altair and vl-convert: SVG or PNG files for documents and slides.

Only the aggregates that a chart shows go into it, never a game. Text is shown as it is: Vega draws it, and escapes it in SVG.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.report_parts import Axis, Chart, Heat, Mark, Page, Plot, Rows, Series

#: The page's colours in the light; white behind, so that a picture can be read on a dark page as well.
COLOURS = ("#8b95a3", "#0067a8", "#c04f00", "#007a59", "#a23d7c")
WIDTH, HEIGHT, LOW, ROW, CELL = 640, 300, 60, 24, 44
PNG_SCALE = 2.0


def write_pictures(page: Page, folder: Path, kind: str) -> list[Path]:
    """Write every chart of the page into a folder, which is made; files of the same names are replaced.

    Args:
        page: the page.
        folder: where the pictures go.
        kind: `svg` or `png`.

    Raises:
        UsageFault: the extra `report` is not installed, or the folder is a file.
        EnvironmentFault: it cannot be written.
    """
    try:
        import altair  # noqa: F401
        import vl_convert
    except ImportError:
        raise UsageFault("--figures needs altair and vl-convert: pip install 'eloreplay[report]'") from None
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, chart in page.charts():
            spec = specification(chart)
            path = folder / f"{name}.{kind}"
            if kind == "png":
                content = vl_convert.vegalite_to_png(spec, scale=PNG_SCALE)
            else:
                content = vl_convert.vegalite_to_svg(spec).encode("utf-8") + b"\n"
            partial = path.with_name(f".{path.name}-{os.getpid()}")
            partial.write_bytes(content)
            os.replace(partial, path)
            written.append(path)
    except (FileExistsError, NotADirectoryError):
        raise UsageFault(f"--figures {folder}: not a folder") from None
    except OSError as error:
        raise EnvironmentFault(f"--figures {folder}: cannot be written: {error.strerror or error}") from None
    return written


def specification(chart: Chart) -> dict[str, Any]:
    """A chart as a Vega-Lite specification with its data in it."""
    if isinstance(chart, Plot):
        drawn = _plot(chart)
    elif isinstance(chart, Rows):
        drawn = _rows(chart)
    else:
        drawn = _heat(chart)
    look = drawn.configure(background="white", font="DejaVu Sans, sans-serif").configure_title(anchor="start", fontSize=14)
    look = look.configure_axis(labelFontSize=11, titleFontSize=11, titleFontWeight="normal", gridColor="#e3e6ea")
    return dict(look.to_dict())


def _title(chart: Chart) -> Any:
    import altair as alt

    return alt.TitleParams(chart.title, subtitle=[])


def _data(values: list[dict[str, Any]]) -> Any:
    return {"values": values}


def _values(marks: Sequence[Mark], name: str) -> Any:
    keys = ("x", "y", "low", "high", "x_end", "said")
    return _data([{key: getattr(mark, key) for key in keys} | {"series": name} for mark in marks])


def _axis(axis: Axis, bare: bool = False) -> Any:
    import altair as alt

    return alt.Axis(
        title=None if bare else axis.title,
        labels=not bare,
        values=[at for at, _ in axis.ticks],
        labelExpr=_labels(axis),
        domain=False,
        ticks=False,
    )


def _labels(axis: Axis) -> str:
    """The axis' own labels by their value: an expression that Vega reads."""
    import json

    parts = "".join(
        f"abs(datum.value - {at!r}) < {1e-9 * (axis.high - axis.low)!r} ? {json.dumps(text)} : " for at, text in axis.ticks
    )
    return parts + '""'


def _scale(axis: Axis) -> Any:
    import altair as alt

    return alt.Scale(domain=[axis.low, axis.high], nice=False, zero=False)


def _colour(every: Sequence[Series]) -> Any:
    """A legend of the series that have a name."""
    import altair as alt

    named = [one for one in every if one.name]
    if not named:
        return None
    scale = alt.Scale(domain=[one.name for one in named], range=[COLOURS[one.colour] for one in named])
    return alt.Color("series:N", scale=scale, legend=alt.Legend(title=None, orient="top", labelLimit=0))


def _painted(drawn: Any, one: Series, colour: Any) -> Any:
    import altair as alt

    return drawn.encode(color=colour if colour is not None and one.name else alt.value(COLOURS[one.colour]))


def _series(one: Series, x: Axis, y: Axis, colour: Any, bare: bool = False) -> list[Any]:
    import altair as alt

    kept = [mark for mark in one.marks if one.kind == "bars" or (x.holds(mark.x) and y.holds(mark.y))]
    base = alt.Chart(_values(kept, one.name))
    across = alt.X("x:Q", scale=_scale(x), axis=_axis(x, bare))
    up = alt.Y("y:Q", scale=_scale(y), axis=_axis(y))
    if one.kind == "line":
        return [_painted(base.mark_line(clip=True, strokeWidth=2).encode(x=across, y=up), one, colour)]
    if one.kind == "bars":
        floor = alt.datum(y.low)
        return [_painted(base.mark_bar(clip=True).encode(x=across, x2="x_end:Q", y=up, y2=floor), one, colour)]
    ranged = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    rule = ranged.mark_rule(clip=True, strokeWidth=1.5).encode(
        x=across, y=alt.Y("low:Q", scale=_scale(y), axis=_axis(y)), y2="high:Q"
    )
    dots = base.mark_circle(size=45, opacity=1, clip=True).encode(x=across, y=up)
    return [_painted(rule, one, colour), _painted(dots, one, colour)]


def _plot(chart: Plot) -> Any:
    import altair as alt

    colour = _colour(chart.series)
    layers: list[Any] = []
    for band in chart.bands:
        data = _data([{"x": max(band.low, chart.x.low), "x_end": min(band.high, chart.x.high)}])
        across = alt.X("x:Q", scale=_scale(chart.x), axis=_axis(chart.x))
        layers.append(alt.Chart(data).mark_rect(color="#e3edf6").encode(x=across, x2="x_end:Q"))
    for one in chart.series:
        layers += _series(one, chart.x, chart.y, colour, bare=chart.below is not None)
    if chart.level is not None and chart.y.holds(chart.level[0]):
        data = _data([{"y": chart.level[0]}])
        up = alt.Y("y:Q", scale=_scale(chart.y), axis=_axis(chart.y))
        layers.append(alt.Chart(data).mark_rule(color="#565f6b", strokeDash=[5, 4]).encode(y=up))
    drawn = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, description=chart.alt)
    if chart.below is None:
        return drawn.properties(title=_title(chart))
    bars, axis = chart.below
    lower = alt.layer(*_series(bars, chart.x, axis, None)).properties(width=WIDTH, height=LOW)
    return alt.vconcat(drawn, lower, spacing=8, title=_title(chart)).resolve_scale(color="shared")


def _rows(chart: Rows) -> Any:
    import altair as alt

    colour = _colour(chart.series)
    # Rows are told apart by their number: two may have one name.
    labels = [(float(at), label) for at, label in enumerate(chart.labels)]
    places = alt.Y(
        "row:O",
        sort=[f"{at:04.0f}" for at, _ in labels],
        scale=alt.Scale(domain=[f"{at:04.0f}" for at, _ in labels]),
        axis=alt.Axis(title=None, domain=False, ticks=False, labelLimit=240, labelExpr=_row_labels(chart.labels)),
    )
    across = alt.X("x:Q", scale=_scale(chart.x), axis=_axis(chart.x))
    layers: list[Any] = []
    if chart.level is not None and chart.x.holds(chart.level[0]):
        data = _data([{"x": chart.level[0]}])
        layers.append(alt.Chart(data).mark_rule(color="#565f6b", strokeDash=[5, 4]).encode(x=across))
    for one in chart.series:
        values = [{"x": m.x, "low": m.low, "high": m.high, "row": f"{m.y:04.0f}", "series": one.name} for m in one.marks]
        base = alt.Chart(_data(values))
        if one.kind == "bars":
            drawn = [base.mark_bar(size=ROW * 0.6, clip=True).encode(x=across, x2=alt.datum(chart.x.low), y=places)]
        elif one.kind == "tick":
            drawn = [base.mark_tick(thickness=3, opacity=1, size=ROW * 0.7, clip=True).encode(x=across, y=places)]
        else:
            ranged = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
            rule = ranged.mark_rule(clip=True, strokeWidth=1.5).encode(
                x=alt.X("low:Q", scale=_scale(chart.x), axis=_axis(chart.x)), x2="high:Q", y=places
            )
            drawn = [rule, base.mark_circle(size=50, opacity=1, clip=True).encode(x=across, y=places)]
        layers += [_painted(layer, one, colour) for layer in drawn]
    return alt.layer(*layers).properties(
        width=WIDTH, height=ROW * max(1, len(chart.labels)), title=_title(chart), description=chart.alt
    )


def _row_labels(labels: Sequence[str]) -> str:
    import json

    return "".join(f'datum.value == "{at:04d}" ? {json.dumps(label)} : ' for at, label in enumerate(labels)) + '""'


def _heat(chart: Heat) -> Any:
    import altair as alt

    values = [
        {"x": f"{column:04d}", "y": f"{row:04d}", "shade": cell.shade, "text": cell.figure.text, "chosen": cell.chosen}
        for row, cells in enumerate(chart.cells)
        for column, cell in enumerate(cells)
        if cell is not None
    ]
    base = alt.Chart(_data(values)).encode(
        x=alt.X("x:O", axis=alt.Axis(title=chart.x_title, labelExpr=_row_labels(chart.columns), labelAngle=0, orient="top")),
        y=alt.Y("y:O", axis=alt.Axis(title=chart.y_title, labelExpr=_row_labels(chart.rows))),
    )
    scale = alt.Scale(domain=[-1, 0, 1], range=["#56b4e9", "#f5f6f8", "#f0a05a"], interpolate="rgb")
    boxes = base.mark_rect().encode(color=alt.Color("shade:Q", scale=scale, legend=None))
    frame = base.transform_filter("datum.chosen").mark_rect(filled=False, stroke="black", strokeWidth=2)
    words = base.mark_text(fontSize=11).encode(text="text:N")
    return alt.layer(boxes, frame, words).properties(
        width=CELL * len(chart.columns),
        height=ROW * len(chart.rows),
        title=alt.TitleParams(chart.title, anchor="start"),
        description=chart.alt,
    )
