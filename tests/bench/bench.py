"""How fast a replay is, beside what nothing can be faster than, beside the same loop in C, and beside others.

    python tests/bench/bench.py [--games N]… [--large] [--only PART]… [--rounds N] [--json FILE] [--write-docs]

On simulated games (`sites.py`), with integer and with text ids, of 1 and 10 million rows, and 100 million with `--large`:

    floor    `eloreplay backfill --no-study` and bare DuckDB and Parquet (`floor.py`)
    study    the same run with its study
    kernel   the compiled loop and the same loop in C (`c_loop.py`, `kernel.c`)
    peers    packages from PyPI and plain Python loops (`peers.py`), run by the Python that `--peers` names
    sweep    sixteen settings in one pass
    night    the 30,000 last games, delivered to a folder that has all the others
    players  how the loop's time grows with the players

Every run is a process of its own, measured from its start to its exit, with its peak memory; what is compared takes turns, and a
ratio is the median of the ratios of the rounds. The result is one page of tables on standard output (`page.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Nothing heavy is imported here: on Linux a child's peak memory starts at what its parent held.
from page import page, write_docs
from sites import site
from spent import Spent, progress, run, say, script

PARTS = ("floor", "study", "kernel", "peers", "sweep", "night", "players")
SIZES, LARGE = (1_000_000, 10_000_000), 100_000_000
NIGHT_GAMES = 30_000
RULES = "tavla42"
#: Given, so that a run does not depend on the day it is made; late enough for every month of the history to be one chunk.
AS_OF = "2026-10-20"
SETTINGS = "divisor=400:1900:100"
#: Games that a peer is given: enough for a steady figure, and few enough for the slow ones (each has a bound of its own).
PEER_GAMES = 7_000_000
ARRAYS = "games.npz"
PLAYERS = (100_000, 1_000_000, 10_000_000)
MANY_PLAYERS = 100_000_000
ELOREPLAY = Path(sys.executable).with_name("eloreplay")
VERSIONS = ("eloreplay", "duckdb", "numba", "numpy", "polars", "pyarrow")


@dataclass
class Bench:
    """What is to be measured, where, and what was found.

    Attributes:
        folder: the simulated games, kept between calls.
        work: everything else, removed at the end.
        parts: names of `PARTS`.
        rounds: of whatever is compared; None: as many as the size allows.
        peers: the Python that has them, or None.
        found: one entry a measured thing: `part`, `rows`, `ids`, `what`, `spent` (one a round) and more.
    """

    folder: Path
    work: Path
    parts: tuple[str, ...]
    rounds: int | None
    peers: Path | None
    found: list[dict[str, Any]] = field(default_factory=list)

    def note(self, part: str, rows: int, ids: str, what: str, spent: list[Spent], **more: Any) -> None:
        """Keep a result."""
        measured = [{"elapsed_s": one.elapsed_s, "cpu_s": one.cpu_s, "peak_bytes": one.peak_bytes} for one in spent]
        self.found.append({"part": part, "rows": rows, "ids": ids, "what": what, "spent": measured, **more})

    def rounds_of(self, games: int) -> int:
        """Rounds of a comparison at this size."""
        return self.rounds or (5 if games <= 1_000_000 else 3 if games <= 10_000_000 else 1)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new folder's path, removed afterwards."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            yield Path(folder) / "out"


def backfill(data: Path, ids: str, out: Path, *options: str) -> tuple[Spent, dict[str, Any]]:
    """Run a backfill as a user would; returns what it took and its manifest."""
    mapped = ["--columns", data / "columns.toml", "--rules", RULES]
    spent = run(ELOREPLAY, "backfill", data / ids, *mapped, "--out", out, "--as-of", AS_OF, "--quiet", *options)
    return spent, json.loads((out / "current" / "manifest.json").read_text())


def measure_size(bench: Bench, games: int, ids: str) -> None:
    """Everything at one size with one kind of ids."""
    data = site(bench.folder, games)
    rounds = bench.rounds_of(games)
    with bench.scratch() as finished:
        progress(f"{games:,} games, {ids} ids: a first run")
        first, manifest = backfill(data, ids, finished, "--no-study")
        timeline = finished / "current" / "timeline"
        if {"floor", "study", "peers"} & set(bench.parts):
            # Where only one round is afforded the first run counts; elsewhere it only brings the files into the page cache.
            in_turn(bench, data, games, ids, timeline, rounds, [(first, manifest)] if rounds == 1 else [])
        if "kernel" in bench.parts and ids == "integer" and games <= SIZES[-1]:
            kernel(bench, games, timeline, rounds)
    if "sweep" in bench.parts and ids == "integer" and games <= SIZES[-1]:
        sweep(bench, data, games)


def in_turn(
    bench: Bench, data: Path, games: int, ids: str, timeline: Path, rounds: int, before: list[tuple[Spent, dict[str, Any]]]
) -> None:
    """The product, the floor, the product with its study and the others, in turn; the order changes from round to round."""
    small = ids == "integer" and games <= SIZES[-1]
    studied = small and "study" in bench.parts
    others = known_peers(bench, timeline) if small and "peers" in bench.parts else {}
    names = ["backfill", *(["floor"] if "floor" in bench.parts else []), *(["study"] if studied else []), *others]
    spent: dict[str, list[Spent]] = {name: [] for name in names}
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            progress(f"{games:,} games, {ids} ids, round {number + 1} of {rounds}: {name}")
            if name == "backfill" and before:
                took, said = before.pop()
            elif name in others:
                assert bench.peers is not None
                took = script("peers.py", name, bench.work / ARRAYS, PEER_GAMES, python=bench.peers)
                said = json.loads(took.output)
            else:
                with bench.scratch() as out:
                    if name == "floor":
                        took = script("floor.py", data / ids, timeline, out)
                        said = json.loads(took.output)
                        # What it reads only to have something to write is not its work.
                        took = Spent(took.elapsed_s - said["loading_s"], took.cpu_s, took.peak_bytes, "")
                    else:
                        took, said = backfill(data, ids, out, *(["--no-study"] if name == "backfill" else []))
            spent[name].append(took)
            told[name].append(said)
    rows = int(told["backfill"][0]["rows_read"])
    rated = int(told["backfill"][0]["bins"]["rated"])
    for name in names:
        first = told[name][0]
        if name in others:
            shown, package, each = others[name]
            more = {"shown": shown, "package": package, "each": each, "version": first["version"], "beside": rows}
            bench.note("peers", first["games"], ids, name, spent[name], pass_s=[one["pass_s"] for one in told[name]], **more)
        else:
            steps = [one["steps" if name == "floor" else "timings"] for one in told[name]]
            bench.note("study" if name == "study" else "floor", rows, ids, name, spent[name], rated=rated, steps=steps)


def known_peers(bench: Bench, timeline: Path) -> dict[str, list[Any]]:
    """The others by name: how they are shown, their package, whether they tell each game's ratings. Writes their arrays."""
    if bench.peers is None:
        progress("no --peers: they are left out")
        return {}
    script("peers.py", "export", timeline, bench.work / ARRAYS)
    listing = (
        "import sys; sys.path.insert(0, sys.argv[1]); import json, peers; "
        "print(json.dumps({name: [one.shown, one.package, one.each] for name, one in peers.PEERS.items()}))"
    )
    found: dict[str, list[Any]] = json.loads(run(bench.peers, "-c", listing, Path(__file__).parent).output)
    return found


def kernel(bench: Bench, games: int, timeline: Path, rounds: int) -> None:
    """The loop alone beside the same in C."""
    if shutil.which("gcc") is None:
        progress("no gcc here: the loop in C is left out")
        return
    progress(f"{games:,} games: the loop beside C")
    library = bench.work / "kernel.so"
    build = "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import c_loop; c_loop.build(Path(sys.argv[2]))"
    run(sys.executable, "-c", build, Path(__file__).parent, library)
    took = script("c_loop.py", timeline, library, max(rounds, 7))
    bench.note("kernel", games, "integer", "kernel", [took], **json.loads(took.output))


def sweep(bench: Bench, data: Path, games: int) -> None:
    """Sixteen settings over the same games."""
    progress(f"{games:,} games: a sweep")
    with bench.scratch() as out:
        mapped = ["--columns", data / "columns.toml", "--rules", RULES]
        took = run(ELOREPLAY, "sweep", data / "integer", *mapped, "--vary", SETTINGS, "--as-of", AS_OF, "--out", out, "--quiet")
        (told,) = out.glob("*.json")
        manifest = json.loads(told.read_text())
    bench.note("sweep", games, "integer", "sweep", [took], settings=manifest["settings"], timings=manifest["timings"])


def night(bench: Bench, games: int) -> None:
    """Hold the last games back, run a backfill without them, and then the night that brings them."""
    progress(f"{games:,} games: a night")
    data = site(bench.folder, games)
    held_back = min(NIGHT_GAMES, games // 10)
    with bench.scratch() as out, bench.scratch() as history:
        history.mkdir()
        *earlier, last = sorted((data / "integer").glob("*.parquet"))
        for number, path in enumerate(earlier):
            (history / f"{number:04d}.parquet").symlink_to(path)
        delivered = history.with_name("night.parquet")
        until, now = script("sites.py", "split", last, history / "rest.parquet", delivered, held_back).output.split()
        mapped = ["--columns", data / "columns.toml", "--rules", RULES]
        whole = run(ELOREPLAY, "backfill", history, *mapped, "--out", out, "--as-of", until, "--quiet")
        delivered.rename(history / "night.parquet")
        took = run(ELOREPLAY, "nightly", history, "--out", out, "--as-of", now, "--quiet")
        manifest = json.loads((out / "current" / "manifest.json").read_text())
    bench.note("night", games, "integer", "whole", [whole])
    bench.note("night", games, "integer", "night", [took], delivered=held_back, steps=[manifest["timings"]])


def players(bench: Bench, large: bool) -> None:
    """The loop alone with more and more players, met at random."""
    for many in (*PLAYERS, *((MANY_PLAYERS,) if large else ())):
        progress(f"the loop with {many:,} players")
        took = script("c_loop.py", "players", many, 1_000_000, 3)
        bench.note("players", 1_000_000, "integer", f"{many}", [took], **json.loads(took.output))


def machine() -> dict[str, Any]:
    """What this was measured on and with."""
    here: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count(), "system": platform.system()}
    with contextlib.suppress(OSError):
        here["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError):
        here["load"] = round(os.getloadavg()[0], 2)
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        here["processor"] = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    if shutil.which("gcc"):
        here["gcc"] = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    versions = {name: importlib.metadata.version(name) for name in VERSIONS}
    return here | {"versions": versions, "date": dt.datetime.now(dt.UTC).date().isoformat()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a replay beside its floor, the same loop in C, and others.")
    parser.add_argument("--games", type=int, action="append", help="rows to simulate; may be repeated (1 and 10 million)")
    parser.add_argument("--large", action="store_true", help="also 100 million rows and 100 million players")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be repeated")
    parser.add_argument("--rounds", type=int, help="rounds of every comparison (5, 3 and 1, by size)")
    parser.add_argument("--peers", type=Path, help="the Python that has the extra `bench`")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "eloreplay-bench", help="where games are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement to FILE")
    parser.add_argument("--write-docs", action="store_true", help="put the page into docs/performance.md")
    parser.add_argument("--from", dest="earlier", type=Path, metavar="FILE", help="measure nothing: the page of what --json wrote")
    asked = parser.parse_args()
    if asked.earlier is not None:
        show(json.loads(asked.earlier.read_text()), asked.write_docs)
        return
    sizes: list[int] = asked.games or [*SIZES]
    if asked.large and LARGE not in sizes:
        sizes.append(LARGE)
    sizes.sort()
    asked.folder.mkdir(parents=True, exist_ok=True)

    here = machine()
    with tempfile.TemporaryDirectory(prefix="run-", dir=asked.folder) as work:
        bench = Bench(asked.folder, Path(work), tuple(asked.only or PARTS), asked.rounds, asked.peers)
        for games in sizes:
            if set(PARTS[:5]) & set(bench.parts):
                measure_size(bench, games, "integer")
            if "floor" in bench.parts and games <= SIZES[-1]:
                measure_size(bench, games, "text")
            if "night" in bench.parts:
                night(bench, games)
        if "players" in bench.parts:
            players(bench, asked.large)
    result = {"machine": here, "found": bench.found}
    if asked.json is not None:
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    show(result, asked.write_docs)


def show(result: dict[str, Any], into_docs: bool) -> None:
    """Print the page, and put it into the documentation if that was asked for."""
    text = page(result)
    say(text)
    if into_docs:
        write_docs(text)


if __name__ == "__main__":
    main()
