"""report.html: every figure is that of its table, names stay text, nothing comes from outside, and no run waits for its page."""

from __future__ import annotations

import json
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from support import Backfill, game, write
from support_report import HOSTILE, PAGES, RUNS, SCRIPT, Cells, Site, call, read

from eloreplay import report
from eloreplay.report_pictures import specification


@pytest.fixture(scope="session")
def site(pages: Site) -> Site:
    return pages


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_that_of_its_table(name: str, site: Site) -> None:
    figures, cells = read(site.page(name)).figures, Cells(site[name])
    assert len(figures) >= {"history": 700, "calibrate": 600, "sweep_two": 150, "floats": 300}.get(name, 5)
    for figure in figures:
        assert cells.value(figure.source) == figure.value, figure
        assert_rounded(figure.text, figure.value)


def assert_rounded(text: str, value: float) -> None:
    """The text is the value to the digits that it shows, as it is, in per cent, or in units of 0.00001."""
    shown = text.replace(",", "").replace("−", "-")
    digits = len(shown.rstrip("%").partition(".")[2])
    if shown.endswith("%"):
        scale, shown = 100.0, shown[:-1]
    else:
        scale = 1e5 if digits == 0 and abs(value) < 1 and float(shown) != round(value) else 1.0
    assert math.isclose(float(shown), scale * value, abs_tol=0.5 * 10**-digits + 1e-9), (text, value)


def test_the_refused_rows_on_the_page_are_those_of_the_table(site: Site) -> None:
    by_reason = dict(pl.read_parquet(site["history"] / "rejected.parquet").group_by("reason").len().iter_rows())
    shown = {
        f.source[1][2]: f.value
        for f in read(site.page("history")).figures
        if f.source[0] == "manifest" and f.source[1][:2] == ["bins", "rejected"]
    }
    assert {reason: rows for reason, rows in shown.items() if rows} == by_reason
    assert sum(by_reason.values()) == 2


def test_what_is_drawn_stands_where_the_axes_say(site: Site) -> None:
    """The dots of the curve, read back by the marks of the axes, are the rows of the table."""
    text = site.page("history").read_text(encoding="utf-8")
    plot = text[text.index('aria-labelledby="c1-curve-0-t') :]
    plot = plot[: plot.index("</svg></div>")]
    ticks = [(float(y), float(label) / 100) for y, label in re.findall(r'<text x="0" dx="-7" y="([\d.]+)%"[^>]*>(\d+)%<', plot)]
    (y0, v0), (y1, v1) = ticks[0], ticks[-1]
    dots = re.findall(r'<g data-x="([\d.]+)" data-y="([\d.]+)">.*?cy="([\d.]+)%"', plot)
    rows = pl.read_parquet(site["history"] / "calibration.parquet").filter(slice="all", axis="gap").filter(pl.col("games") > 0)
    drawn = {float(x) - 12.5: v0 + (float(cy) - y0) * (v1 - v0) / (y1 - y0) for x, _, cy in dots}
    assert len(drawn) > 8
    for low, height in drawn.items():
        assert height == pytest.approx(rows.filter(bin_low=low)["real_rate"][0], abs=2e-4)
    outside = re.search(r"(\d+) dots? lies? beyond", text)
    assert len(drawn) + (int(outside[1]) if outside else 0) == rows.height


def test_the_bars_of_the_distribution_are_the_players(site: Site) -> None:
    text = site.page("history").read_text(encoding="utf-8")
    bars = {
        int(low.replace(",", "")): (int(high.replace(",", "")), int(players))
        for low, high, players in re.findall(r"<title>([\d,]+) – ([\d,]+): ([\d,]+) players</title>", text)
    }
    frame = pl.read_parquet(site["history"] / "players.parquet")
    active = frame.filter(pl.col("last_played_at") >= pl.col("last_played_at").max() - pl.duration(days=30))["rating"]
    assert sum(players for _, players in bars.values()) == len(active) > 20
    for low, (high, players) in bars.items():
        assert players == ((active >= low) & (active < high)).sum()


ORDER = [
    "trust",
    "curve",
    "reliability",
    "versions",
    "distribution",
    "strongest",
    "swing",
    "inflation",
    "top",
    "slices",
    "quality",
    "terms",
]


def test_the_page_says_first_whether_to_trust_it(site: Site) -> None:
    def sections(name: str) -> list[str]:
        return [
            attrs["id"].split("-", 1)[1]
            for tag, attrs in read(site.page(name)).tags
            if tag == "h2" and "-" in (attrs.get("id") or "")
        ]

    assert sections("history") == ORDER
    assert sections("plain") == [name for name in ORDER if name != "slices"]
    assert sections("calibrate") == [name for name in ORDER if name not in ("trust", "distribution", "top", "quality")]
    assert sections("sweep_two") == ["best", "map", "differences", "settings", "data", "terms"]
    assert sections("pools").count("curve") == report.CHAPTERS


@pytest.mark.parametrize("name", PAGES)
def test_nothing_comes_from_outside_and_nothing_runs(name: str, site: Site) -> None:
    page = read(site.page(name))
    assert {tag for tag, _ in page.tags} & {"script", "iframe", "img", "object", "embed", "form", "base", "b", "i", "u"} <= {"b"}
    for tag, attrs in page.tags:
        assert not [key for key in attrs if key.startswith("on")], (tag, attrs)
        for key in ("src", "href", "action", "xlink:href"):
            assert (attrs.get(key) or "#").startswith(("#", "data:,")), (tag, attrs)
    text = site.page(name).read_text(encoding="utf-8")
    assert not re.search(r"https?:|@import|url\(", text)
    assert "default-src 'none'" in text


def test_hostile_names_stay_text(site: Site) -> None:
    for name in ("history", "pools"):
        raw = site.page(name).read_text(encoding="utf-8")
        assert SCRIPT not in raw
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in raw
        assert SCRIPT in "".join(read(site.page(name)).text)
    said = "".join(read(site.page("history")).text)
    board = set(pl.read_parquet(site["history"] / "leaderboard.parquet").head(20)["player_id"])
    shown = {name: name for name in HOSTILE} | {
        HOSTILE[2]: "x" * 59 + "…",
        HOSTILE[3]: "\\x202egnp.exe",
        HOSTILE[4]: "line\\x0abreak",
    }
    assert len(board & set(HOSTILE)) > 5
    for name in (*(shown[player] for player in board & set(HOSTILE)), "<u>rules</u>", "<i>first</i> & co"):
        assert name in said, name


@pytest.mark.parametrize("name", ["history", "pools", "calibrate", "sweep_two"])
def test_equal_tables_give_an_equal_page(name: str, site: Site, tmp_path: Path) -> None:
    code, said, err = call("report", site[name], "--to", tmp_path / "again.html")
    assert code == 0, err
    assert str(tmp_path / "again.html") in said
    assert (tmp_path / "again.html").read_bytes() == site.page(name).read_bytes()


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("empty", ["No game is rated.", "There are no players yet.", "Nobody stands on the board yet.", "There is no rated game or award yet."]),
        ("one", ["The only rated game has no favourite", "Top 2", "There is no run before to compare with"]),
        ("equals", ["None of the 30 rated games has a favourite"]),
        ("unranked", ["No game is rated, so there is no favourite yet.", "No game is rated."]),
        ("plain", ["This run was made without the study", "Favourites were expected to win", "1 game ended after the as-of and waits for a later run",
                   "▲ look", "weight"]),
        ("floats", ["If games are played every day, files are missing.", "1, more for newcomers", "/ √length"]),
        ("history", ["of the past ", "restated (", "12 from 8 games", "middle half of the", "so the truth is less sure: `eloreplay calibrate --bootstrap`",
                     "What decides between rules is the log loss", "things to look at.", "by a nightly run.", "weeks of players",
                     "games that make the ratings", "with all its digits, in the tables"]),
        ("rollback", ["a rollback", "Moved is against the run it replaced"]),
        ("what_if", ["a what-if, not what is published", "Moved is against the run it asks about", "What if, held against run 1"]),
        ("sweep_none", ["Nothing varied (--vary), so there is nothing to compare."]),
        ("sweep_unscored", ["No game was scored: there is none from"]),
        ("calibrate", ["intervals respect that players repeat", "luck alone would show", ", which respects that players repeat)."]),
        ("pools", ["there are 6", "The 5 with most games have a chapter each."]),
    ],
)  # fmt: skip
def test_what_the_page_says(name: str, sentences: list[str], site: Site) -> None:
    said = re.sub(r"\s+", " ", "".join(read(site.page(name)).text))
    for sentence in sentences:
        assert sentence in said, sentence


def test_a_sweep_of_three_has_a_map_for_each_value_of_the_third(site: Site) -> None:
    text = site.page("sweep_three").read_text(encoding="utf-8")
    assert text.count('<table class="heat">') == 2
    assert "at heavy.games=none" in text
    chosen = re.findall(r'<td class="[a-z ]*chosen[a-z ]*"[^>]*><data value="([^"]+)"', text)
    table = pl.read_parquet(site["sweep_three"] / "sweep.parquet")
    assert [json.loads(value) for value in chosen] == table.filter("chosen")["log_loss_difference"].to_list()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_names_are_for_the_page_alone(kind: str, site: Site, tmp_path: Path) -> None:
    known = [
        {"player_id": "p1", "name": "Ana <b>K.</b>"},
        {"player_id": SCRIPT, "name": "Grandmaster"},
        {"player_id": "nobody", "name": "x"},
    ]
    names = tmp_path / f"names.{kind}"
    if kind == "csv":
        pl.DataFrame(known).write_csv(names)
    else:
        write(names, known)
    before = {path: path.read_bytes() for path in site["history"].rglob("*") if path.is_file()}
    code, _, err = call("report", site["history"].parents[1], "--to", tmp_path / "page.html", "--names", names, "--quiet")
    assert code == 0, err
    said = "".join(read(tmp_path / "page.html").text)
    assert "Grandmaster" in said
    assert SCRIPT not in said
    assert {path: path.read_bytes() for path in site["history"].rglob("*") if path.is_file()} == before


def test_names_of_players_whose_ids_are_numbers(site: Site, tmp_path: Path) -> None:
    best = pl.read_parquet(site["floats"] / "leaderboard.parquet")["player_id"][0]
    names = write(tmp_path / "names.parquet", [{"player_id": best, "name": "The First"}])
    assert call("report", site["floats"], "--to", tmp_path / "page.html", "--names", names)[0] == 0
    assert "The First" in "".join(read(tmp_path / "page.html").text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("player,name\n1,x\n", "there is no column player_id; it has player, name"),
        ("player_id,name\n1,x\n1,y\n", "1 has more than one name"),
        (None, "cannot be read as CSV"),
    ],
)
def test_names_that_cannot_be_used(content: str | None, message: str, site: Site, tmp_path: Path) -> None:
    names = tmp_path / "names.csv"
    if content is not None:
        names.write_text(content, encoding="utf-8")
    code, _, err = call("report", site["one"], "--to", tmp_path / "page.html", "--names", names)
    assert code == 2
    assert message in err
    assert not (tmp_path / "page.html").exists()


def test_the_page_of_a_run_is_replaced_in_its_place(site: Site, tmp_path: Path) -> None:
    page = site.page("equals")
    good = page.read_bytes()
    page.write_text("old", encoding="utf-8")
    other = tmp_path / "other name of the same file"
    other.hardlink_to(page)
    assert call("report", site["equals"].parents[1], "--quiet") == (0, "", "")
    assert page.read_bytes() == good
    assert other.read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in site["equals"].iterdir() if path.name.startswith(".")) == []


def test_what_is_no_folder_of_ours_has_no_page(site: Site, tmp_path: Path) -> None:
    code, _, err = call("report", tmp_path)
    assert (code, "no output folder, run or study of eloreplay" in err) == (2, True)
    (tmp_path / "manifest.json").write_text("[]", encoding="utf-8")
    code, _, err = call("report", tmp_path)
    assert (code, "says nothing of a kind" in err) == (2, True)
    code, _, err = call("report", site["one"], "--to", tmp_path)
    assert (code, "is a folder; name a file in it" in err) == (2, True)
    code, _, err = call("report", site["one"], "--to", tmp_path / "none" / "page.html")
    assert (code, "there is no folder" in err) == (2, True)


def test_a_page_or_picture_takes_the_place_of_nothing_else(site: Site, tmp_path: Path) -> None:
    run = site["one"]
    root = run.parents[1]
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    (tmp_path / "README.md").write_text("# Mine\n", encoding="utf-8")
    (tmp_path / "link.html").symlink_to(root / "current" / "players.parquet")
    for target, words in (
        (root / "current" / "players.parquet", "lies in the output folder"),
        (root / "page.html", "lies in the output folder"),
        (tmp_path / "link.html", "lies in the output folder"),
        (tmp_path / "README.md", "is there and is not a page"),
    ):
        code, said, err = call("report", root, "--to", target)
        assert (code, said) == (2, "")
        assert f"--to {target}: {words}" in err
    for folder in (root, run, root / "current" / "pictures"):
        code, said, err = call("report", root, "--to", tmp_path / "page.html", "--figures", folder)
        assert (code, said) == (2, "")
        assert f"--figures {folder}: lies in the output folder" in err
    _, page = report.load_page(run)
    name = next(iter(page.charts()))[0]
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / f"{name}.svg").write_text("mine", encoding="utf-8")
    code, said, err = call("report", root, "--to", tmp_path / "page.html", "--figures", tmp_path / "figures")
    assert (code, said, "is there and is not an SVG picture" in err) == (2, "", True)
    assert not (tmp_path / "page.html").exists()
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "# Mine\n"
    # Its own page is made again, by whatever name, and an earlier page elsewhere is replaced.
    for target in (root / "current" / "report.html", tmp_path / "page.html", tmp_path / "page.html"):
        assert call("report", root, "--to", target, "--quiet") == (0, "", "")


def test_a_damaged_table_is_named(tmp_path: Path, run_backfill: Backfill) -> None:
    out = run_backfill([game(1, "2026-03-01", "a", "b")]).ok()
    (out.current / "summary.parquet").write_bytes(b"PAR1")
    code, _, err = call("report", out.folder)
    assert code == 1
    assert "summary.parquet is not what a run writes (it cannot be read: " in err


def test_a_damaged_table_of_a_study_is_named(tmp_path: Path, site: Site) -> None:
    study = shutil.copytree(site["calibrate"], tmp_path / "study")
    (study / "summary.parquet").write_bytes(b"PAR1")
    code, _, err = call("report", study)
    assert code == 1
    assert f"{study / 'summary.parquet'}: a table of the folder cannot be read: " in err


def test_without_the_extra_a_run_says_what_to_install_and_goes_on(run_backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "has_extra", lambda: False)
    rows = [game(1, "2026-03-01", "a", "b")]
    argv, out = run_backfill.arguments(rows)
    code, _, err = call(*[word for word in argv if word != "--quiet"])
    assert code == 0
    assert err == "note: there is no report.html: pip install 'eloreplay[report]' to have one\n"
    assert not (out / "current" / "report.html").exists()
    assert json.loads((out / "current" / "manifest.json").read_text(encoding="utf-8"))["timings"]["report"] == 0
    code, _, err = call("report", out)
    assert code == 2
    assert "pip install 'eloreplay[report]'" in err


def test_no_run_waits_for_its_page(run_backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(page: Any) -> str:
        raise ValueError("a fault of ours\nand more")

    monkeypatch.setattr(report, "html", fails)
    argv, out = run_backfill.arguments([game(1, "2026-03-01", "a", "b")])
    code, _, err = call(*[word for word in argv if word != "--quiet"])
    assert code == 0
    assert "note: report.html could not be made (ValueError: a fault of ours); the tables are complete" in err
    assert pq.read_table(out / "current" / "players.parquet").num_rows == 2
    assert not (out / "current" / "report.html").exists()


def test_who_did_not_move_has_the_rank_before(site: Site) -> None:
    """The rank before of every line of the board is that of the run before."""
    runs = site["still"].parent
    ranks = dict(pl.read_parquet(runs / "000001" / "leaderboard.parquet").select("player_id", "rank").iter_rows())
    page = site.page("still").read_text(encoding="utf-8")
    table = page[page.index("<caption>The first 20 of the board") :]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table[: table.index("</table>")].split("<tr>")[2:]]
    board = pl.read_parquet(site["still"] / "leaderboard.parquet").head(20)["player_id"].to_list()
    moves = [re.sub("<.*?>", "", row[3]) for row in rows]
    assert [re.sub("<.*?>", "", row[7]) for row in rows] == [str(ranks[player]) for player in board]
    assert moves.count("=") > 8
    still = [at for at, move in enumerate(moves) if move == "="]
    assert any(ranks[board[at]] != at + 1 for at in still), "nobody was passed by others"


def test_a_month_of_few_games_does_not_set_the_axis(site: Site) -> None:
    """Rates of other months stay apart; the one of three games is an arrow at the edge, and the page says so."""
    page = site.page("few").read_text(encoding="utf-8")
    chart = page[page.index("<figcaption>Month</figcaption>") :]
    chart = chart[: chart.index("</figure>")]
    assert "1 row of few games lies beyond the picture, an arrow at its edge" in chart
    assert '<svg class="beyond" x="0" y="50%">' in chart
    ticks = [int(tick) for tick in re.findall(r">(\d+)%</text>", chart)]
    assert 20 < min(ticks) < max(ticks) < 90
    assert "2026-05: real 0.0%" in chart


def test_one_version_is_a_table_and_no_chart(site: Site) -> None:
    _, page = report.load_page(site["few"])
    (section,) = (section for chapter in page.chapters for section in chapter.sections if section.name == "versions")
    assert [(block.chart, block.table is not None) for block in section.blocks] == [(None, True)]


def test_an_interval_beyond_the_picture_has_an_arrow(site: Site) -> None:
    page = site.page("few").read_text(encoding="utf-8")
    plot = page[page.index("<figcaption>Favourites by expected score") :]
    plot = plot[: plot.index("</figure>")]
    assert plot.count('<svg class="beyond"') >= 1


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_pictures(kind: str, site: Site, tmp_path: Path) -> None:
    for name in ("sweep_two", "one") if kind == "png" else ("sweep_one", "empty"):
        code, said, err = call("report", site[name], "--to", tmp_path / "page.html", "--figures", tmp_path / name, "--format", kind)
        assert code == 0, err
        _, page = report.load_page(site[name])
        wanted = {f"{chart}.{kind}" for chart, _ in page.charts()}
        assert {path.name for path in (tmp_path / name).iterdir()} == wanted
        assert f"{len(wanted)} pictures in" in said
        for path in (tmp_path / name).iterdir():
            content = path.read_bytes()
            if kind == "png":
                assert content.startswith(b"\x89PNG")
            else:
                assert content.startswith(b"<svg")
                # Only names of XML spaces may look like addresses.
                assert not re.search(rb"(?<!xmlns=\")(?<!xmlns:xlink=\")https?:", content)
                assert not re.search(rb"<(script|image|i|b)[ >]", content)
                assert b"could not" not in content


def test_hostile_names_stay_text_in_pictures(site: Site) -> None:
    vl_convert = pytest.importorskip("vl_convert")
    _, page = report.load_page(site["history"])
    svg = vl_convert.vegalite_to_svg(specification(dict(page.charts())["versions"]))
    said = [element.text for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]
    assert "<i>first</i> & co" in said
    assert "<i>" not in svg


def test_runs_keep_their_pages_through_a_rollback(site: Site) -> None:
    folder = site["rollback"].parent.parent
    titles = [
        re.search("<h1>(.*?)</h1>", (folder / "runs" / run / "report.html").read_text(encoding="utf-8"))
        for run in ("000001", "000002", "000003")
    ]
    assert [title[1] for title in titles if title] == ["Ratings, run 1", "Ratings, run 2", "Ratings, run 3"]


def test_pages_of_runs_are_small(site: Site) -> None:
    for name in RUNS:
        assert site.page(name).stat().st_size < 1_000_000, name
