"""Looking at an output folder without touching it: what is published and how old, how the nights went, which runs there were.

Nothing here takes the lock or writes, so a monitor with read permission alone can ask at any time.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eloreplay import journal
from eloreplay.boards import about_board, boards, to_the_second
from eloreplay.console import printable
from eloreplay.errors import EloreplayError, EnvironmentFault
from eloreplay.instants import now_us, parse_us, show_us
from eloreplay.publish import read_manifest
from eloreplay.published import RUN_NAME, insist_ours, kept_runs, published_us
from eloreplay.run_tables import faults
from eloreplay.store import at_work, current_run

NIGHTS_SHOWN = 10
EARLIER_SHOWN = 20
#: Commands whose attempts are nights, for `status`.
NIGHTLY = ("backfill", "forget", "nightly", "rollback")


# ---------------------------------------------------------------- status


def status(root: Path, now: int | None = None) -> dict[str, Any]:
    """What is published, how old it is, and how the last nights went, as plain values; see `docs/cli.md` for each key.

    Args:
        root: the output folder.
        now: the present instant, microseconds.

    Raises:
        UsageFault: the folder is not ours.
        EnvironmentFault: the published run cannot be read.
    """
    insist_ours(root)
    now = now_us() if now is None else now
    lines = journal.entries(root)
    found: dict[str, Any] = {"folder": str(root), "run": None}
    run = current_run(root)
    found["damaged"] = []
    if run is not None:
        manifest = read_manifest(run)
        found["damaged"] = list(faults(run))
        fresh = _fresh_us(run, manifest, lines)
        found |= {
            "run": manifest.get("run", run.name),
            "kind": manifest.get("kind", "backfill"),
            "rollback_of": manifest.get("rollback_of"),
            "published_at": show_us(published_us(run, manifest)),
            "as_of": manifest.get("as_of"),
            "fresh_at": show_us(fresh),
            "age_s": max(0, now - fresh) // 1_000_000,
            "last_game_at": None if found["damaged"] else show_us(_last_game_us(run)),
            "rules": manifest.get("rules", {}).get("name"),
            "rows_read": manifest.get("rows_read"),
            "bins": manifest.get("bins"),
            "players": manifest.get("players"),
        }
    found["at_work"] = at_work(root)
    found["bytes"] = disk_bytes(root)
    found["last_verified"] = next((line for line in reversed(lines) if line.get("command") == "verify"), None)
    found["nights"] = [line for line in lines if line.get("command") in NIGHTLY][-NIGHTS_SHOWN:]
    return found


def _fresh_us(run: Path, manifest: dict[str, Any], lines: list[dict[str, Any]]) -> int:
    """Up to which instant the published ratings are known to hold: what a monitor measures the age from.

    That is the as-of of the published run, or of a later night that found nothing new. A rollback goes back to the as-of of the old
    run. An as-of that lies in the future, or in a time after the run itself, counts only up to the run's own end: else a job that
    died would look fresh for ever.
    """
    published = published_us(run, manifest)
    fresh = min(manifest.get("as_of_us", published), published)
    for line in reversed(lines):
        if line.get("outcome") == journal.PUBLISHED:
            break
        if line.get("outcome") == journal.NOTHING_NEW:
            with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
                ended = parse_us(line["time"])
                fresh = max(fresh, min(parse_us(line["as_of"]) if line.get("as_of") else ended, ended))
    return int(fresh)


def _last_game_us(run: Path) -> int | None:
    """Instant of the last rated game, from the end of the timeline."""
    folder = run / "timeline"
    try:
        for path in sorted(folder.iterdir(), reverse=True):
            with pa.OSFile(str(path), "rb") as stream, pq.ParquetFile(stream) as file:
                if file.metadata.num_rows:
                    last = file.read_row_group(file.num_row_groups - 1, columns=["played_at"], use_threads=False)["played_at"]
                    return int(last.cast(pa.int64())[-1].as_py())
    except (OSError, pa.ArrowException, KeyError) as error:
        raise EnvironmentFault(f"{folder}: the published timeline cannot be read: {error}") from None
    return None


def disk_bytes(root: Path) -> int:
    """Bytes that a folder takes on the disk; a file that several runs share counts once."""
    seen: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(parent, name))
                seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values())


def status_text(found: dict[str, Any], now: int | None = None) -> str:
    """`status` for a person."""
    now = now_us() if now is None else now
    if found["run"] is None:
        lines = [f"{found['folder']}: nothing is published yet"]
    else:
        how = f"rolled back to {found['rollback_of']}" if found["rollback_of"] else found["kind"]
        bins = found["bins"] or {}
        counted = {**{k: v for k, v in bins.items() if k != "rejected"}, "rejected": sum(bins.get("rejected", {}).values())}
        shares = ", ".join(f"{_number(n)} {name}" for name, n in counted.items() if n)
        lines = [
            f"{found['folder']}: run {found['run']} is published ({printable(how, 40)})",
            f"  published    {_when(found['published_at'], now)}",
            f"  as of        {_when(found['as_of'], now)}",
            f"  known up to  {_when(found['fresh_at'], now)}",
            f"  last game    {_when(found['last_game_at'], now)}",
            f"  rules        {printable(found['rules'], 60)}",
            f"  rows read    {_number(found['rows_read'])}: {shares}",
            f"  players      {_number(found['players'])}",
            *(f"  damaged      {printable(text, 400)}" for text in found["damaged"]),
        ]
    lines.append(f"  disk         {found['bytes'] / 2**20:,.1f} MiB")
    if found["at_work"]:
        one = found["at_work"]
        sure = "" if one["certain"] else " (another machine: at work, or killed there)"
        who = f"process {one['pid']} on {printable(one['host'], 40)}"
        lines.append(f"  at work      {who}, since {_when(one['since'], now)}{sure}")
    if found["last_verified"]:
        lines.append(f"  verified     {_night(found['last_verified'])}")
    lines += ["", "The last nights:" if found["nights"] else "No night is recorded yet."]
    lines += [f"  {_night(line)}" for line in found["nights"]]
    return "\n".join(lines)


def _night(line: dict[str, Any]) -> str:
    """One line of the journal; it may hold anything."""
    seconds = line.get("seconds")
    parts = [
        to_the_second(line.get("time")),
        f"{printable(line.get('command'), 9):<9}",
        f"{printable(line.get('outcome'), 17):<17}",
        f"{printable(line.get('run') or '', 8):<8}",
        f"{seconds:>8.1f} s" if isinstance(seconds, int | float) else " " * 10,
        printable(line.get("message") or "", 120),
    ]
    return " ".join(parts).rstrip()


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "?"


def _when(text: Any, now: int) -> str:
    """An instant, and how long ago that was."""
    try:
        return f"{to_the_second(text)} ({ago(now - parse_us(text))})"
    except (TypeError, ValueError, AttributeError):
        return "none" if text is None else printable(text, 40)


def ago(us: int) -> str:
    """A length of time in words, as coarse as a person needs it."""
    seconds = abs(us) // 1_000_000
    for unit, length, most in (("s", 1, 120), ("min", 60, 120 * 60), ("h", 3600, 48 * 3600)):
        if seconds < most:
            text = f"{seconds // length} {unit}"
            break
    else:
        text = f"{seconds // 86400:,} days"
    return f"{text} ago" if us >= 0 else f"in {text}"


# ---------------------------------------------------------------- runs


def runs(root: Path) -> list[dict[str, Any]]:
    """Every run that is known, the newest first: the kept ones by their manifests, earlier ones by the journal and the boards.

    `state` is "current", "kept", "gone" or "damaged" (its manifest cannot be read).

    Raises:
        UsageFault: the folder is not ours.
    """
    insist_ours(root)
    known: dict[str, dict[str, Any]] = {}
    for line in journal.entries(root):
        if line.get("outcome") == journal.PUBLISHED and RUN_NAME.fullmatch(str(line.get("run"))):
            rated = line["bins"].get("rated") if isinstance(line.get("bins"), dict) else None
            known[line["run"]] = _row(
                line["run"],
                "gone",
                published_at=line.get("time"),
                as_of=line.get("as_of"),
                kind=line.get("command"),
                rows_read=line.get("rows_read"),
                rated=rated,
                rollback_of=line.get("rollback_of"),
            )
    for path in boards(root):
        about = about_board(path)
        if about is not None and RUN_NAME.fullmatch(str(about.get("run"))):
            row = known.setdefault(about["run"], _row(about["run"], "gone", as_of=about.get("as_of")))
            row |= {"published_at": about.get("published_at"), "rules": about.get("rules"), "board": str(path)}
    current = current_run(root)
    for folder in kept_runs(root):
        row = known.setdefault(folder.name, _row(folder.name, "kept"))
        row["state"] = "current" if current is not None and folder.name == current.name else "kept"
        try:
            manifest = read_manifest(folder)
        except EloreplayError:
            row["state"] = "damaged"
            continue
        row |= {
            "published_at": show_us(published_us(folder, manifest)),
            "as_of": manifest.get("as_of"),
            "kind": manifest.get("kind", "backfill"),
            "rules": manifest.get("rules", {}).get("name"),
            "rows_read": manifest.get("rows_read"),
            "rated": manifest.get("bins", {}).get("rated"),
            "players": manifest.get("players"),
            "rollback_of": manifest.get("rollback_of"),
        }
    return sorted(known.values(), key=lambda row: int(row["run"]), reverse=True)


def _row(run: str, state: str, **more: Any) -> dict[str, Any]:
    keys = ("published_at", "as_of", "kind", "rules", "rows_read", "rated", "players", "rollback_of", "board")
    return {"run": run, "state": state, **dict.fromkeys(keys), **more}


def runs_text(found: list[dict[str, Any]]) -> str:
    """`runs` for a person: all that are kept, and the last of those that are gone."""
    if not found:
        return "nothing is published yet"
    gone = [row for row in found if row["state"] == "gone"]
    left_out = {id(row) for row in gone[EARLIER_SHOWN:]}
    lines = [f"{'run':<8} {'state':<8} {'published':<20} {'as of':<20} {'rows read':>14} {'rated':>14} {'players':>11}  by"]
    for row in found:
        if id(row) in left_out:
            continue
        by = f"rollback to {row['rollback_of']}" if row["rollback_of"] else row["kind"] or ""
        counts = ["" if row[key] is None else _number(row[key]) for key in ("rows_read", "rated", "players")]
        lines.append(
            f"{row['run']:<8} {row['state']:<8} {to_the_second(row['published_at']):<20} {to_the_second(row['as_of']):<20} "
            f"{counts[0]:>14} {counts[1]:>14} {counts[2]:>11}  {printable(by, 40)}"
        )
    if left_out:
        lines.append(f"and {len(left_out)} earlier ones (--json lists them all)")
    return "\n".join(lines)
