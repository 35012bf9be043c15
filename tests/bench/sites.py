"""Games to measure with: a simulated site with integer ids and the same site with text ids, made once and found again.

    python tests/bench/sites.py make FOLDER GAMES PLAYERS MONTHS
    python tests/bench/sites.py split LAST REST NIGHT GAMES

The months grow with the games, so that a month never has more than about two million: what is measured at 100 million rows is a
longer history and not a larger month.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from spent import progress, script

MONTHS, GAMES_A_MONTH = 6, 1_700_000
#: The month after the last one of every history, counted from the year 0.
END = 2026 * 12 + 8
#: Columns of the simulated export, and what they become. A game's text id: sixteen hexadecimal digits behind a letter, in no order.
KINDS = {
    "integer": "cast(substr(winner, 2) as bigint) as winner, cast(substr(loser, 2) as bigint) as loser",
    "text": "'g' || lpad(to_hex(hash(id)), 16, '0') as id",
}


def site(folder: Path, games: int, players: int | None = None) -> Path:
    """The folder with `integer/`, `text/` and `columns.toml`; made now unless an earlier call with the same generator made it."""
    players = players or max(games // 100, 2)
    months = max(MONTHS, -(-games // GAMES_A_MONTH))
    source = hashlib.sha256(Path(__file__).read_bytes())
    for name in ("simulate", "site", "world", "dirt"):
        source.update((Path(__file__).parents[2] / "pipeline" / "eloreplay" / f"{name}.py").read_bytes())
    data = folder / f"games-{games}-{players}-{source.hexdigest()[:12]}"
    # The columns file is moved last, so it says that the games are complete.
    if not (data / "columns.toml").exists():
        progress(f"simulating {games:,} games of {players:,} players in {months} months")
        shutil.rmtree(data, ignore_errors=True)
        script("sites.py", "make", data, games, players, months)
    return data


def make(folder: Path, games: int, players: int, months: int) -> None:
    """Simulate a clean site and write it twice, once for each kind of ids."""
    import duckdb

    from eloreplay.simulate import simulate

    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        year, month = divmod(END - months, 12)
        start = f"{year}-{month + 1:02d}-01"
        made = simulate(Path(scratch), games=games, players=players, months=months, start=start, clean=True)
        database = duckdb.connect()
        database.execute("set enable_progress_bar = false")
        for kind, replaced in KINDS.items():
            (folder / kind).mkdir()
            for file in made.files:
                database.execute(
                    f"copy (select * replace ({replaced}) from read_parquet('{file}')) to '{folder / kind / file.name}' "
                    "(format parquet, compression zstd)"
                )
        made.columns_file.rename(folder / "columns.toml")


SPLIT = """
    select *, row_number() over (order by ended_at desc, id desc) as place from read_parquet('{last}')
"""


def split(last: str, rest: str, night: str, games: str) -> None:
    """Part the last month's file into a night's games and what was before; prints the last instant of each."""
    import duckdb

    database: Any = duckdb.connect()
    for where, path in ((f"place > {games}", rest), (f"place <= {games}", night)):
        database.execute(
            f"copy (select * exclude (place) from ({SPLIT.format(last=last)}) where {where} order by ended_at, id) "
            f"to '{path}' (format parquet)"
        )
    for path in (rest, night):
        stamp = "strftime(max(ended_at at time zone 'UTC'), '%Y-%m-%dT%H:%M:%S.%f')"
        sys.stdout.write(database.execute(f"select {stamp} from read_parquet('{path}')").fetchall()[0][0] + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), *map(int, sys.argv[3:6]))
    else:
        split(*sys.argv[2:6])
