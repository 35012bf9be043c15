"""Sections on the run itself: what ran and whether to trust it, data quality, and how each number is defined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eloreplay.console import printable
from eloreplay.instants import EPOCH, MICROSECOND
from eloreplay.report_axes import round_axis, spread_out
from eloreplay.report_parts import NONE, Axis, Block, Check, Mark, Part, Plot, Section, Series, Table, Text, count, number, share
from eloreplay.report_source import Ladder, Tables, manifest_figure

#: A history whose last game is older than this at the as-of looks as if files were missing.
STALE_US = 48 * 3_600_000_000
NOTES_SHOWN, DAYS_SHOWN, MONTHS_SHOWN = 12, 10, 60
BIN_WORDS = {
    "rated": "games that make the ratings",
    "unrated": "not rated by the rules: another mode, or an excluded player",
    "voided": "games that were taken back",
    "held": "ended after the as-of: wait for a later run",
    "duplicate": "copies and older revisions of a game",
    "rejected": "refused",
}
REASONS = {
    "missing_id": "a game or player without id",
    "missing_time": "no time",
    "conflicting_copies": "copies of a game contradict each other",
    "unknown_mode": "a mode that the rules do not know",
    "self_play": "both sides are one player",
    "bad_cube": "a cube value that the rules do not have",
    "bad_match_length": "a match length that the rules do not have",
    "bad_result": "a result that the rules do not have",
    "bad_weight": "a weight that is no number to rate with",
    "bad_advantage": "an advantage that is no number to rate with",
    "before_first_rule_version": "before the first rule version",
    "bad_points": "points that the rules cannot add",
}
KINDS = {
    "backfill": "a whole backfill",
    "nightly": "a nightly run",
    "what-if": "a what-if, not what is published",
    "rollback": "a rollback",
    "forget": "a run made anew without a player's id",
}


def instant_text(us: int | None) -> str:
    """An instant to the minute, UTC."""
    if us is None:
        return NONE
    try:
        return f"{EPOCH + us * MICROSECOND:%Y-%m-%d %H:%M} UTC"
    except OverflowError:
        return f"{us} µs"


def about(manifest: dict[str, Any]) -> Text:
    """What the page is about, in a line."""
    kind = KINDS.get(str(manifest.get("kind")), "a run")
    rules = manifest["rules"]
    return [
        f"Rules {printable(rules['name'], 60)}: {printable(rules['content'].get('title') or 'without a title', 200)}. As of ",
        f"{instant_text(manifest['as_of_us'])}. Made {_minute(manifest['made_at'])} by {kind}.",
    ]


def _minute(text: str) -> str:
    return f"{text[:16].replace('T', ' ')} UTC"


def tiles(ladders: Sequence[Ladder]) -> list[tuple[str, Text]]:
    """The large figures at the top of a page about one ladder."""
    if len(ladders) != 1:
        return []
    one = ladders[0]
    active = ("active", "30 days")
    found: list[tuple[str, Text]] = [
        ("rated games", [one.figure("games", count)]),
        ("players", [one.figure("players", count)]),
        ("active players", [one.figure("players", count, *active)]),
        ("favourites won", [one.figure("favourite_real_rate", lambda x: share(x, 2))]),
        ("expected", [one.figure("favourite_expected_rate", lambda x: share(x, 2))]),
        ("log loss", [one.figure("log_loss", lambda x: number(x, 4))]),
        ("the middle half of them spans", [one.figure("rating_middle_half_width", count, *active), " points"]),
    ]
    return [(name, text) for name, text in found if text[0] != NONE]


def trust_section(tables: Tables) -> Section:
    """What ran and whether to trust it: bins, warnings, freshness."""
    manifest = tables.manifest
    checks = [*_rows_checks(tables), _freshness(manifest), *_night_checks(tables)]
    notes = [printable(note, 400) for note in manifest.get("notes", [])]
    checks += [Check("look", [note]) for note in notes[:NOTES_SHOWN]]
    if len(notes) > NOTES_SHOWN:
        checks.append(Check("look", [f"and {len(notes) - NOTES_SHOWN} more notes, in the manifest"]))
    looks = sum(check.level != "ok" for check in checks)
    verdict = "Nothing stands out." if not looks else f"{looks} {'thing' if looks == 1 else 'things'} to look at."
    return Section("trust", "What ran, and whether to trust it", [[verdict]], [Block(None, _bins_table(tables))], checks)


def _rows_checks(tables: Tables) -> list[Check]:
    manifest = tables.manifest
    bins, read = manifest["bins"], manifest["rows_read"]
    refused = sum(bins["rejected"].values())
    whole = refused + sum(rows for name, rows in bins.items() if name != "rejected")
    files = sum(1 for item in manifest["inputs"] if item["table"] == "games")
    rows = manifest_figure(tables, count, "rows_read")
    were = "row was" if read == 1 else "rows were"
    of = f"{files} {'file' if files == 1 else 'files'}"
    checks = [
        Check("ok", [rows, f" {were} read from {of}, and each stands in exactly one bin."])
        if whole == read
        else Check("look", [rows, f" {were} read, but the bins hold {count(whole)}: please report this."])
    ]
    limit = manifest["options"]["max_rejected"]
    part = refused / read if read else 0.0
    some = (
        f"{count(refused)} {'row is' if refused == 1 else 'rows are'} refused, {share(part, 2)} of all"
        if refused
        else "No row is refused"
    )
    text = f"{some}; a run stops above {share(limit, 2)}."
    checks.append(Check("ok" if part <= limit / 2 else "look", [text]))
    if not bins["rated"]:
        checks.append(Check("look", ["No game is rated."]))
    if bins["held"]:
        text = " game ended after the as-of and waits" if bins["held"] == 1 else " games ended after the as-of and wait"
        checks.append(Check("look", [manifest_figure(tables, count, "bins", "held"), f"{text} for a later run."]))
    return checks


def _freshness(manifest: dict[str, Any]) -> Check:
    last, as_of = manifest["horizon_us"], manifest["as_of_us"]
    if last is None:
        return Check("look", ["There is no rated game or award yet."])
    behind = as_of - last
    text = f"The last rated game or award is of {instant_text(last)}, {_span(behind)} before the as-of."
    if behind <= STALE_US:
        return Check("ok", [text])
    return Check("look", [text, " If games are played every day, files are missing."])


def _span(us: int) -> str:
    minutes = us // 60_000_000
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 72 * 60 else f"{minutes // 1440:,} days"


def _night_checks(tables: Tables) -> list[Check]:
    night = tables.manifest.get("night")
    if not night:
        return []
    # A what-if asks about a run; nothing is new in it.
    since = "the run it asks about" if tables.manifest.get("kind") == "what-if" else "the run before"
    new, replayed = (manifest_figure(tables, count, "night", name) for name in ("new_games", "replayed_games"))
    were: list[Part] = [f" new {'game' if new.value == 1 else 'games'} since {since}; ", replayed]
    checks = [Check("ok", [new, *were, " was rated again." if replayed.value == 1 else " were rated again."])]
    if night["restated_games"]:
        kinds = ", ".join(f"{count(games)} {printable(kind)}" for kind, games in night["restated"].items())
        days = list(night["restated_days"])
        shown = ", ".join(days[:DAYS_SHOWN]) + (f" and {len(days) - DAYS_SHOWN} more" if len(days) > DAYS_SHOWN else "")
        parts: list[Part] = [
            manifest_figure(tables, count, "night", "restated_games"),
            f" {'game of the past is' if night['restated_games'] == 1 else 'games of the past are'} restated ({kinds})",
        ]
        checks.append(Check("look", [*parts, f": of {shown}." if days else "."]))
    else:
        checks.append(Check("ok", ["No game of the past is restated."]))
    return checks


def _bins_table(tables: Tables) -> Table:
    bins = tables.manifest["bins"]
    rows: list[list[Text]] = [
        [[name], [manifest_figure(tables, count, "bins", name)], [BIN_WORDS[name]]] for name in bins if name != "rejected"
    ]
    rows += [
        [["rejected"], [manifest_figure(tables, count, "bins", "rejected", reason)], [REASONS.get(reason, reason)]]
        for reason, found in bins["rejected"].items()
        if found
    ]
    if not any(bins["rejected"].values()):
        rows.append([["rejected"], ["0"], ["nothing is refused"]])
    return Table("Every row read, by its bin", ["bin", "rows", "what it holds"], rows, words=(0, 2))


def quality_section(tables: Tables, ladders: Sequence[Ladder]) -> Section:
    """Data quality: refused rows by reason, awards, side tables, games by month."""
    manifest = tables.manifest
    refused = manifest["bins"]["rejected"]
    reasons: list[list[Text]] = [
        [[reason], [manifest_figure(tables, count, "bins", "rejected", reason)], [REASONS.get(reason, "")]] for reason in refused
    ]
    total = sum(refused.values())
    lead: list[Text] = [
        [
            f"{count(total)} refused rows stand with file, row and values in the table rejected."
            if total
            else "No row is refused.",
            f" {count(manifest['bins']['duplicate'])} copies are left out.",
        ]
    ]
    blocks = []
    if len(ladders) == 1:
        months = _months_block(ladders[0])
        blocks += [months] if months else []
    blocks.append(Block(None, Table("Refused rows by reason", ["reason", "rows", "what it means"], reasons, words=(0, 2))))
    if manifest.get("award_rows_read"):
        awards = manifest["award_bins"]
        rows: list[list[Text]] = [
            [[name], [manifest_figure(tables, count, "award_bins", name)]] for name in awards if name != "rejected"
        ]
        rows += [
            [[f"rejected: {REASONS.get(reason, reason)}"], [manifest_figure(tables, count, "award_bins", "rejected", reason)]]
            for reason, found in awards["rejected"].items()
            if found
        ]
        blocks.append(Block(None, Table("Awards by bin", ["awards", "rows"], rows)))
    side = {name: manifest["input_options"].get(name) for name in ("awards", "aliases", "excluded", "start_ratings")}
    used = [name.replace("_", " ") for name, path in side.items() if path]
    lead.append([f"Beside the games the run read {', '.join(used)}." if used else "No other table was read beside the games."])
    return Section("quality", "Data quality", lead, blocks)


def _months_block(ladder: Ladder) -> Block | None:
    months = ladder.values("month")[-MONTHS_SHOWN:]
    if len(months) < 2:
        return None
    games = [ladder.value("games", "month", month) or 0.0 for month in months]
    bars = [
        Mark(at - 0.4, found, x_end=at + 0.4, said=f"{month}: {count(found)} rated games")
        for at, (month, found) in enumerate(zip(months, games, strict=True))
    ]
    x = Axis("month", -0.5, len(months) - 0.5, [(float(at), months[at]) for at in spread_out(len(months), 4)])
    y = round_axis("rated games", games, least=0.0, whole=True)
    fewest, most = min(games), max(games)
    said = f"From {count(fewest)} in {months[games.index(fewest)]} to {count(most)} in {months[games.index(most)]}."
    table = Table(
        "Rated games by month", ["month", "rated games"], [[[m], [ladder.figure("games", count, "month", m)]] for m in months]
    )
    return Block(Plot("games-by-month", "Rated games by month", said, x, y, [Series("", "bars", 1, bars)]), table)
