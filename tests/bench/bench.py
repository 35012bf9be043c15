"""How fast a backfill is, and how that compares with only reading and writing the same columns.

    python tests/bench/bench.py [GAMES] [--players N] [--rules NAME] [--folder DIR] [--keep]

Simulates GAMES clean games (10 million unless given) into a temporary folder, once: the next call finds them there.
Then runs `eloreplay backfill` as a user would, in its own process, and prints rows a second, peak memory and where the
time went. The floor is DuckDB alone on the same files: it reads and hashes every column the backfill maps, and writes
the columns out again. No replay can be faster; the ratio says what the ratings cost on top. Last comes a night: the 30,000 last games,
delivered to a folder that has all the others.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Nothing heavy is imported here: on Linux a child's peak memory starts at what its parent held.
NIGHT_GAMES = 30_000
COLUMNS = "id, ended_at, winner, loser, game_type, cube_value, outcome, ended_by, status, rev"


@dataclass(frozen=True)
class Spent:
    """What one process took: elapsed and processor time in seconds, peak memory in bytes, and what it printed."""

    elapsed_s: float
    cpu_s: float
    peak_bytes: int
    output: str


def run(*command: str | Path) -> Spent:
    """Run a command to its end and measure it and its own children; a failure ends the benchmark."""
    with tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen([*map(str, command)], stdout=output)
        # Unlike getrusage(RUSAGE_CHILDREN), whose peak is that of all children so far, this is of this one.
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: ended with {process.returncode}\n{text}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Spent(elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, text)


def python(code: str, *arguments: str | Path) -> Spent:
    """Run Python code in its own process, with `arguments` in `sys.argv[1:]`."""
    return run(sys.executable, "-c", code, *arguments)


def say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(what: str, rows: int, spent: Spent) -> None:
    say(
        f"{what:<28} {spent.elapsed_s:8.2f} s {rows / spent.elapsed_s:14,.0f} rows/s"
        f" {spent.cpu_s:8.2f} s cpu {spent.peak_bytes / 2**20:8.0f} MiB peak"
    )


SIMULATE = """
import sys
from pathlib import Path
from eloreplay.simulate import simulate
simulate(Path(sys.argv[1]), games=int(sys.argv[2]), players=int(sys.argv[3]), clean=True)
"""

READ = f"""
import sys, duckdb
columns = {COLUMNS!r}
hashed = "sum(hash(" + columns + ")::hugeint)"
print(duckdb.sql(f"select count(*), {{hashed}} from read_parquet('{{sys.argv[1]}}/*.parquet')").fetchall())
"""

WRITE = f"""
import sys, duckdb
duckdb.sql("copy (select {COLUMNS} from read_parquet('" + sys.argv[1] + "/*.parquet')) to '" + sys.argv[2]
           + "' (format parquet, compression zstd)")
"""


SPLIT = """
import sys, duckdb
last, rest, night, games = sys.argv[1:]
rows = f"(select *, row_number() over (order by ended_at desc, id desc) as place from read_parquet('{last}'))"
for where, path in ((f"place > {games}", rest), (f"place <= {games}", night)):
    duckdb.sql(f"copy (select * exclude (place) from {rows} where {where} order by ended_at, id) to '{path}' (format parquet)")
for path in (rest, night):
    print(duckdb.sql(f"select strftime(max(ended_at at time zone 'UTC'), '%Y-%m-%dT%H:%M:%S.%f') from '{path}'").fetchall()[0][0])
"""


def simulated(folder: Path, games: int, players: int) -> Path:
    """Return the folder with the games, made now unless an earlier call with the same generator made them."""
    spec = importlib.util.find_spec("eloreplay")
    if spec is None or spec.origin is None:
        sys.exit("eloreplay is not installed in this Python")
    source = Path(spec.origin).with_name("simulate.py").read_bytes()
    data = folder / f"games-{games}-{players}-{hashlib.sha256(source).hexdigest()[:12]}"
    # The columns file is written last, so it says that the games are complete.
    if not (data / "columns.toml").exists():
        shutil.rmtree(data, ignore_errors=True)
        report("simulate", games, python(SIMULATE, data, str(games), str(players)))
    return data


def shares(timings: dict[str, Any], elapsed_s: float, prefix: str = "") -> list[tuple[str, float, float]]:
    """Flatten the manifest's timings into (name, seconds, share of the elapsed time)."""
    lines: list[tuple[str, float, float]] = []
    for name, value in timings.items():
        if isinstance(value, dict):
            lines += shares(value, elapsed_s, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            lines.append((prefix + name, float(value), float(value) / elapsed_s))
    return lines


def night(command: Path, data: Path, work: Path, rules: str) -> tuple[Spent, dict[str, Any]]:
    """Hold the last games back, run a backfill without them, and then the night that brings them."""
    games = work / "history"
    games.mkdir()
    *earlier, last = sorted((data / "games").rglob("*.parquet"))
    for number, path in enumerate(earlier):
        (games / f"{number:04d}.parquet").symlink_to(path)
    delivered = work / "night.parquet"
    until, now = python(SPLIT, last, games / "rest.parquet", delivered, str(NIGHT_GAMES)).output.split()
    out = work / "nights"
    mapped = ["--columns", data / "columns.toml", "--rules", rules]
    run(command, "backfill", games, *mapped, "--out", out, "--as-of", until, "--quiet")
    delivered.rename(games / "night.parquet")
    spent = run(command, "nightly", games, "--out", out, "--as-of", now, "--quiet")
    return spent, json.loads((out / "current" / "manifest.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a backfill against the floor of reading and writing.")
    default = int(os.environ.get("GAMES") or 10_000_000)
    parser.add_argument("games", nargs="?", type=int, default=default, help="games to simulate (or $GAMES)")
    parser.add_argument("--players", type=int, help="players to simulate (a hundredth of the games)")
    parser.add_argument("--rules", default="tavla42", help="ruleset of the backfill")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "eloreplay-bench")
    parser.add_argument("--keep", action="store_true", help="keep the backfill's output folder")
    asked = parser.parse_args()
    games: int = asked.games
    players: int = asked.players or max(games // 100, 2)
    asked.folder.mkdir(parents=True, exist_ok=True)

    say(f"{games:,} games, {players:,} players, {os.cpu_count()} cores, rules {asked.rules}")
    data = simulated(asked.folder, games, players)
    work = Path(tempfile.mkdtemp(prefix="run-", dir=asked.folder))
    try:
        # Once before anything is timed: all three then find the files in the page cache.
        python(READ, data / "games")
        out = work / "out"
        command = Path(sys.executable).with_name("eloreplay")
        arguments = ["backfill", data / "games", "--columns", data / "columns.toml", "--rules", asked.rules]
        backfill = run(command, *arguments, "--out", out, "--json")
        manifest = json.loads((out / "current" / "manifest.json").read_text())
        plain = run(command, *arguments, "--out", work / "plain", "--no-study", "--quiet")
        one_night, after = night(command, data, work, asked.rules)
        read = python(READ, data / "games")
        write = python(WRITE, data / "games", work / "floor.parquet")
    finally:
        if not asked.keep:
            shutil.rmtree(work, ignore_errors=True)

    rows = int(manifest["rows_read"])
    report("eloreplay backfill", rows, backfill)
    report("backfill --no-study", rows, plain)
    report("floor: read and hash", rows, read)
    report("floor: read and write", rows, write)
    say(f"{'backfill / floor':<28} {backfill.elapsed_s / (read.elapsed_s + write.elapsed_s):8.2f}")
    say(f"{'with / without study':<28} {backfill.elapsed_s / plain.elapsed_s:8.2f}")
    report(f"a night of {NIGHT_GAMES:,} games", NIGHT_GAMES, one_night)
    for name, seconds, share in shares(after.get("timings", {}), one_night.elapsed_s):
        say(f"  {name:<26} {seconds:8.2f} s {100 * share:6.1f} %")
    say(f"bins: {json.dumps(manifest['bins'])}")
    say("timings of the run, in per cent of the elapsed time:")
    for name, seconds, share in shares(manifest.get("timings", {}), backfill.elapsed_s):
        say(f"  {name:<26} {seconds:8.2f} s {100 * share:6.1f} %")
    if asked.keep:
        say(f"kept: {work}")


if __name__ == "__main__":
    main()
