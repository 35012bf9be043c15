"""What a page of the report is made of: figures with their source, tables, charts, sections. Plain values; nothing draws here.

A `Figure` knows the value, how it is shown and the cell of the table that it was read from, so that a test can read every figure
of a page and the table it names. A chart is drawn twice from the same values: as SVG in the page, by Altair for `--figures`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

#: Shown where there is no value.
NONE = "–"


@dataclass(frozen=True)
class Figure:
    """A number (or NULL) on the page.

    Attributes:
        value: as it stands in the table.
        text: as it is shown.
        source: where it stands: (table, key, column), or ("manifest", path of keys).
    """

    value: float | int | None
    text: str
    source: tuple[Any, ...]

    @property
    def machine(self) -> str:
        """The value, exactly, as JSON."""
        return json.dumps(self.value)

    @property
    def origin(self) -> str:
        """The source as JSON."""
        return json.dumps(self.source, ensure_ascii=False, separators=(",", ":"))


#: Text of a sentence or of a cell: words and figures.
Part = str | Figure
Text = Sequence[Part]


def count(value: float | int | None) -> str:
    """A whole number with commas."""
    return NONE if value is None else f"{value:,.0f}".replace("-", "−")


def number(value: float | None, digits: int, sign: bool = False) -> str:
    """A number with so many digits after the point; what rounds to 0 has no sign."""
    if value is None:
        return NONE
    text = f"{value:+,.{digits}f}" if sign else f"{value:,.{digits}f}"
    if not any(char in "123456789" for char in text):
        text = text.lstrip("+-")
    return text.replace("-", "−")


def share(value: float | None, digits: int = 1) -> str:
    """A rate from 0 to 1 as per cent."""
    return NONE if value is None else f"{value:.{digits}%}".replace("-", "−")


@dataclass(frozen=True)
class Table:
    """A table: heads, and rows of cells.

    Attributes:
        title: what it shows, for who hears it.
        head: one a column.
        rows: cells of text and figures.
        words: which columns are text; the others are numbers.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Text]]
    words: Sequence[int] = (0,)


@dataclass(frozen=True)
class Axis:
    """A numeric axis with its marks; see `report_axes`."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def at(self, value: float) -> float:
        """Where a value lies, in per cent of the axis."""
        return 100 * (value - self.low) / (self.high - self.low)

    def holds(self, value: float) -> bool:
        """Whether a value lies on the axis; the rounding of a bin's edge is forgiven."""
        slack = 1e-9 * (self.high - self.low)
        return self.low - slack <= value <= self.high + slack

    def clamped(self, value: float | None, otherwise: float) -> float:
        """The value, or the end of the axis beyond which it lies; `otherwise` where there is none."""
        return min(max(otherwise if value is None else value, self.low), self.high)


@dataclass(frozen=True)
class Mark:
    """A point (or bar from `x` to `x_end`), its interval, and what is said of it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    x_end: float | None = None
    said: str = ""


@dataclass(frozen=True)
class Series:
    """Marks of one meaning.

    Attributes:
        name: for the legend; empty for none.
        kind: `line`, `dots` (with intervals), `tick` or `bars`.
        colour: 1 to 4 of the palette, 0 for a quiet one.
        marks: in order.
    """

    name: str
    kind: str
    colour: int
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Band:
    """A stretch of the horizontal axis that is shaded, with its name."""

    low: float
    high: float
    name: str


@dataclass(frozen=True)
class Plot:
    """A chart over two numeric axes; `below` is a second, low one over the same horizontal axis.

    Attributes:
        name: part of the file's name as a picture.
        title: what it shows.
        alt: what it says, in words.
        x: horizontal axis.
        y: vertical axis.
        series: drawn in this order.
        bands: shaded stretches.
        level: a horizontal line, with its name.
        below: bars below, and their axis.
    """

    name: str
    title: str
    alt: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    bands: Sequence[Band] = ()
    level: tuple[float, str] | None = None
    below: tuple[Series, Axis] | None = None
    kind: str = "plot"

    @property
    def outside(self) -> int:
        """How many dots the axes do not reach."""
        dots = [mark for one in self.series if one.kind == "dots" for mark in one.marks]
        return sum(not (self.x.holds(mark.x) and self.y.holds(mark.y)) for mark in dots)


@dataclass(frozen=True)
class Rows:
    """A chart with a row for each name: bars or dots with intervals over one numeric axis; a mark's `y` is the row's number."""

    name: str
    title: str
    alt: str
    labels: Sequence[str]
    x: Axis
    series: Sequence[Series]
    level: tuple[float, str] | None = None
    kind: str = "rows"

    @property
    def outside(self) -> int:
        """How many rows have a dot that the axis does not reach."""
        return len({mark.y for one in self.series if one.kind == "dots" for mark in one.marks if not self.x.holds(mark.x)})


@dataclass(frozen=True)
class HeatCell:
    """A cell of a heat map: its figure, and how far it is to the better (−1) or to the worse (+1) side."""

    figure: Figure
    shade: float
    chosen: bool = False
    present: bool = False


@dataclass(frozen=True)
class Heat:
    """A heat map; `cells` holds a row a value of `rows`, NULL where nothing was tried."""

    name: str
    title: str
    alt: str
    x_title: str
    columns: Sequence[str]
    y_title: str
    rows: Sequence[str]
    cells: Sequence[Sequence[HeatCell | None]]
    kind: str = "heat"


Chart = Plot | Rows | Heat


@dataclass(frozen=True)
class Block:
    """A chart with the table of the same values, or either alone.

    Attributes:
        chart: or None.
        table: or None; beside a chart it is folded away unless `open_table`.
        note: said below.
        wide: takes the whole width also where charts stand side by side.
        open_table: the table is as important as the chart.
    """

    chart: Chart | None = None
    table: Table | None = None
    note: Text = ()
    wide: bool = False
    open_table: bool = False


@dataclass(frozen=True)
class Check:
    """One line of whether to trust what is shown: `ok` or `look`, and why."""

    level: str
    text: Text


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        name: its anchor.
        title: its heading.
        lead: the answer in a sentence or two, each a paragraph.
        blocks: charts and tables; narrow charts may stand side by side.
        checks: lines of whether to trust it.
        terms: what words mean, as (word, meaning).
        aside: side by side as far as there is room.
    """

    name: str
    title: str
    lead: Sequence[Text] = ()
    blocks: Sequence[Block] = ()
    checks: Sequence[Check] = ()
    terms: Sequence[tuple[str, str]] = ()
    aside: bool = False


@dataclass(frozen=True)
class Chapter:
    """Sections of one ladder; without a title, of the whole."""

    title: str
    sections: Sequence[Section]


@dataclass(frozen=True)
class Page:
    """A whole page: title, what it is about, the large figures, and the chapters."""

    title: str
    about: Text
    tiles: Sequence[tuple[str, Text]] = ()
    chapters: Sequence[Chapter] = field(default_factory=tuple)

    def charts(self) -> list[tuple[str, Chart]]:
        """Every chart with a name of its own, fit for a file."""
        found = []
        for number_, chapter in enumerate(self.chapters):
            for section in chapter.sections:
                for block in section.blocks:
                    if block.chart is not None:
                        found.append((f"{number_}-{block.chart.name}" if chapter.title else block.chart.name, block.chart))
        return found


def finite(values: Sequence[float | None]) -> list[float]:
    """The values that can be drawn."""
    return [value for value in values if value is not None and math.isfinite(value)]
