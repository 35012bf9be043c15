"""Pages in a real browser: on a phone and a desk, light and dark, no complaint, no request, no text cut or on top of other text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, browser
from support_report import PAGES, SCRIPT, Site

#: What is wrong with the boxes of a page: text beyond the window, text cut off, text on text.
LAYOUT = r"""
(() => {
  const wrong = [];
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) wrong.push(`the page is ${document.documentElement.scrollWidth} wide in ${wide}`);
  const boxes = [];
  const shown = element => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.display === 'none' || style.visibility === 'hidden' || style.contentVisibility === 'hidden') return false;
    }
    return element.checkVisibility ? element.checkVisibility({contentVisibilityAuto: true}) : true;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || ['STYLE', 'title', 'desc'].includes(element.tagName) || !shown(element)) continue;
    const scroller = element.closest('.scroll');
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      const box = {text: node.data.trim().slice(0, 40), left: r.left, right: r.right, top: r.top, bottom: r.bottom, scroller};
      boxes.push(box);
      if (!scroller && (r.left < -0.5 || r.right > wide + 0.5)) wrong.push(`beyond the window: ${box.text}`);
      for (let at = element; at && at !== document.body; at = at.parentElement) {
        const style = getComputedStyle(at), outer = at.getBoundingClientRect();
        if (at.classList.contains('scroll')) break;
        if (style.overflowX !== 'visible' && !(at instanceof SVGElement) && r.right > outer.right + 1) wrong.push(`cut: ${box.text}`);
      }
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++) {
      const a = boxes[i], b = boxes[j];
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Lines of letters have room above and below them, so boxes of neighbouring lines may touch.
      if (a.scroller === b.scroller && across > 1 && down > 0.35 * Math.min(a.bottom - a.top, b.bottom - b.top)) {
        wrong.push(`on top of each other: ${a.text} | ${b.text}`);
      }
    }
  }
  return wrong.slice(0, 10);
})()
"""
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


@pytest.fixture(scope="session")
def site(pages: Site) -> Site:
    return pages


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_at_both_widths(name: str, site: Site, chromium: Browser) -> None:
    page = site.page(name)
    for width, dark in ((1280, False), (390, True)):
        chromium.show(page, width, dark=dark)
        assert chromium.evaluate(LAYOUT) == []
        chromium.evaluate(OPEN_ALL)
        assert chromium.evaluate(LAYOUT) == []
        assert chromium.complaints() == []
        assert [address for address in chromium.requests() if address != page.as_uri() and address != "data:,"] == []


def test_the_look_finds_what_is_wrong(tmp_path: Path, chromium: Browser) -> None:
    """The script that looks at the boxes sees a page that is too wide, text on text, and text that is cut."""
    wide, over, cut = tmp_path / "wide.html", tmp_path / "over.html", tmp_path / "cut.html"
    wide.write_text("<body><p style='width:2000px;white-space:nowrap'>" + "word " * 200, encoding="utf-8")
    over.write_text("<body><p>first words</p><p style='margin-top:-2.1em'>other words</p>", encoding="utf-8")
    cut.write_text("<body><p style='width:50px;overflow:hidden;white-space:nowrap'>far too many words", encoding="utf-8")
    for path, said in (
        (wide, "the page is"),
        (over, "on top of each other: first words | other words"),
        (cut, "cut: far too many"),
    ):
        chromium.show(path, 390)
        assert any(line.startswith(said) for line in chromium.evaluate(LAYOUT)), path
    outside = tmp_path / "outside.html"
    outside.write_text("<body><img src='http://127.0.0.1:9/x.png'><script>console.error('no')</script>", encoding="utf-8")
    chromium.show(outside, 390)
    assert {line.split(":")[0] for line in chromium.complaints()} >= {"console", "request"}


def test_a_player_called_script_is_text_and_alerts_nobody(site: Site, chromium: Browser) -> None:
    chromium.show(site.page("history"), 1280)
    assert chromium.evaluate("document.scripts.length") == 0
    assert SCRIPT in chromium.evaluate("[...document.querySelectorAll('td')].map(cell => cell.textContent)")
    assert not [event for event in chromium.events if event.get("method") == "Page.javascriptDialogOpening"]


def test_dark_is_dark_and_charts_follow(site: Site, chromium: Browser) -> None:
    seen = {}
    for dark in (False, True):
        chromium.show(site.page("history"), 1280, dark=dark)
        seen[dark] = chromium.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('circle')).fill]"
        )
    light, night = (sum(map(int, re.findall(r"\d+", seen[dark][0])[:3])) for dark in (False, True))
    assert light > 600
    assert night < 150
    assert seen[False][1] != seen[True][1]


COLOURS = """
(() => {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(['page','panel','ink','quiet','c0','c1','c2','c3','c4','better','worse'].map(n => [n, style.getPropertyValue('--' + n)]));
})()
"""


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_text_and_marks_stand_out(dark: bool, site: Site, chromium: Browser) -> None:
    """WCAG 2: 4.5 to 1 for text, 3 to 1 for what is drawn; a number on the strongest shade of a heat map is text, too."""
    chromium.show(site.page("one"), 1280, dark=dark)
    colours = chromium.evaluate(COLOURS)
    for text in ("ink", "quiet", "c1", "c2", "c3"):
        assert contrast(colours[text], colours["page"]) >= 4.5, text
    assert contrast(colours["quiet"], colours["panel"]) >= 4.5
    for mark in ("c1", "c2", "c3", "c4"):
        assert contrast(colours[mark], colours["page"]) >= 3, mark
    for shade in ("better", "worse"):
        parts = [(int(colours[shade].strip()[at : at + 2], 16), int(colours["panel"].strip()[at : at + 2], 16)) for at in (1, 3, 5)]
        mixed = "#" + "".join(f"{round(0.7 * strong + 0.3 * weak):02x}" for strong, weak in parts)
        assert contrast(colours["ink"], mixed) >= 4.5, shade


def test_it_prints(site: Site, chromium: Browser, tmp_path: Path) -> None:
    chromium.show(site.page("history"), 1280, dark=True)
    chromium.pdf(tmp_path / "page.pdf")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type ?/Page\b", content)) <= 25
