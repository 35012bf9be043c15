"""The made-up site: the same every time, countable to the row, and true to its own winning probabilities."""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eloreplay.errors import UsageFault
from eloreplay.simulate import SCHEMA, TRUTH_SCHEMA, SimulationReport, simulate
from eloreplay.sources import find_sources
from eloreplay.world import World, draw_players

SAMPLE = Path(__file__).parents[2] / "data"
REFUSED = ("self_play", "bad_cube", "missing_id", "unknown_mode")
KINDS = (*REFUSED, "voided", "corrections", "ties", "copies")


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def ask(report: SimulationReport, query: str) -> list[tuple[Any, ...]]:
    """Run a query on `g`, all rows of the report's files, with the file's name in `filename`."""
    with duckdb.connect() as con:
        con.execute("set timezone = 'UTC'")
        files = [str(file) for file in report.files]
        con.execute("create temp table g as select * from read_parquet($1, filename = true)", [files])
        return con.execute(query).fetchall()


def one(report: SimulationReport, query: str) -> Any:
    ((value,),) = ask(report, query)
    return value


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> SimulationReport:
    return simulate(tmp_path_factory.mktemp("dirty"), games=40_000, players=800, months=3, seed=7)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> SimulationReport:
    return simulate(tmp_path_factory.mktemp("clean"), games=40_000, players=800, months=3, seed=7, clean=True)


def test_same_arguments_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        simulate(tmp_path / name, games=3_000, players=50, months=2, seed=5)
    simulate(tmp_path / "c", games=3_000, players=50, months=2, seed=6)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert digests(tmp_path / "a") != digests(tmp_path / "c")


def test_one_file_a_calendar_month_in_utc_over_the_end_of_a_year(tmp_path: Path) -> None:
    report = simulate(tmp_path, games=500, players=20, months=3, start="2025-11-01", clean=True)
    assert [file.name for file in report.files] == [f"games-{m}.parquet" for m in ("2025-11", "2025-12", "2026-01")]
    months = ask(report, "select distinct parse_filename(filename), strftime(ended_at, '%Y-%m') from g order by all")
    assert months == [(file.name, file.name[6:13]) for file in report.files]


def test_files_have_one_schema_with_an_utc_instant(dirty: SimulationReport) -> None:
    assert {pq.read_schema(file).equals(SCHEMA) for file in dirty.files} == {True}
    assert SCHEMA.field("ended_at").type == pa.timestamp("us", tz="UTC")


def test_counts_add_up(dirty: SimulationReport) -> None:
    assert set(dirty.planted) == set(KINDS)
    assert dirty.games == 40_000
    assert dirty.rows == dirty.games + dirty.planted["copies"] + dirty.planted["corrections"]
    assert one(dirty, "select count(*) from g") == dirty.rows
    without_id = one(dirty, "select count(*) from g where id is null")
    assert one(dirty, "select count(distinct id) from g") == dirty.games - without_id


def test_refused_rows_are_planted_as_counted_and_stay_well_below_the_limit(dirty: SimulationReport) -> None:
    # Copies of refused rows are duplicates, so each is counted once.
    found = ask(
        dirty,
        """
        with rows as (select distinct on (coalesce(id, -row_number() over ())) * from g where rev = 0)
        select
            count(*) filter (where winner = loser),
            count(*) filter (where cube_value not in (1, 2, 4, 8, 16, 32, 64)),
            count(*) filter (where id is null or winner is null or loser is null),
            count(*) filter (where game_type not in ('ranked', 'boosted', 'casual', 'tournament')),
            count(*) filter (where status = 'cancelled')
        from rows
        """,
    )[0]
    assert found == tuple(dirty.planted[kind] for kind in (*REFUSED, "voided"))
    assert all(dirty.planted[kind] > 0 for kind in KINDS)
    assert 0.001 < sum(dirty.planted[kind] for kind in REFUSED) / dirty.rows < 0.005
    assert one(dirty, "select count(*) from g where cube_value = 3") != 0
    assert one(dirty, "select count(*) from g where cube_value > 1_000_000_000") != 0
    for column in ("id", "winner", "loser"):
        assert one(dirty, f"select count(*) from g where {column} is null") != 0


def test_copies_are_identical_but_for_the_export_and_stand_in_the_next_file(dirty: SimulationReport) -> None:
    pairs = """
        from g as a join g as b on a.id = b.id and a.rev = b.rev and a.filename < b.filename
    """
    assert one(dirty, f"select count(*) {pairs}") == dirty.planted["copies"]
    assert one(dirty, f"select count(*) {pairs} where a.exported_at = b.exported_at") == 0
    content = ("ended_at", "winner", "loser", "game_type", "cube_value", "outcome", "ended_by", "status")
    same = " and ".join(f"a.{name} is not distinct from b.{name}" for name in content)
    assert one(dirty, f"select count(*) {pairs} where not ({same})") == 0
    assert one(dirty, "select count(*) from (select id from g where id > 0 group by id, rev, filename having count(*) > 1)") == 0


def test_a_correction_exchanges_the_sides_and_the_old_row_stands(dirty: SimulationReport) -> None:
    old = "select distinct id, winner, loser, ended_at from g where rev = 0"
    pairs = f"from ({old}) as old join g as new using (id) where new.rev = 1"
    assert one(dirty, f"select count(*) {pairs}") == dirty.planted["corrections"]
    same = "old.winner = new.loser and old.loser = new.winner and old.ended_at = new.ended_at"
    assert one(dirty, f"select count(*) {pairs} and not ({same})") == 0


def test_ties_are_games_of_one_instant(dirty: SimulationReport) -> None:
    games = "select distinct coalesce(id, -row_number() over ()) as id, ended_at from g where rev = 0"
    surplus = f"select sum(n - 1) from (select count(*) as n from ({games}) group by ended_at)"
    assert one(dirty, surplus) == dirty.planted["ties"]


def test_stamps_have_microseconds_and_ids_are_not_in_the_order_of_time(clean: SimulationReport) -> None:
    assert one(clean, "select count(*) from g where microsecond(ended_at) % 1000 <> 0") > 39_000
    assert one(clean, "select count(*) from (select id, lag(id) over (order by ended_at) as l from g) where id < l") != 0


def test_clean_has_none(clean: SimulationReport) -> None:
    assert clean.planted == dict.fromkeys(KINDS, 0)
    assert clean.rows == clean.games == one(clean, "select count(distinct id) from g")
    dirt = """
        winner = loser or winner is null or loser is null or status <> 'ok' or rev <> 0
        or cube_value not in (1, 2, 4, 8, 16, 32, 64) or game_type not in ('ranked', 'boosted', 'casual', 'tournament')
    """
    assert one(clean, f"select count(*) from g where {dirt}") == 0
    assert one(clean, "select count(distinct ended_at) from g") == clean.games


def test_clean_is_the_same_history(clean: SimulationReport, dirty: SimulationReport) -> None:
    """What is planted has its own random stream: the games themselves do not change."""
    names = ", ".join(("id", "winner", "loser", "outcome", "ended_by"))
    untouched = "rev = 0 and id not in (select id from g where rev = 1) and winner <> loser"
    with_dirt = set(ask(dirty, f"select {names} from g where {untouched}"))
    assert len(with_dirt) > 39_000
    assert with_dirt <= set(ask(clean, f"select {names} from g"))


def test_nobody_plays_before_he_joined(clean: SimulationReport) -> None:
    players = draw_players(800, 92, 7)
    first_day = dict(
        ask(
            clean,
            "select p, date_diff('day', timestamptz '2026-03-01', min(ended_at)) from "
            "(select winner as p, ended_at from g union all select loser, ended_at from g) group by p",
        )
    )
    joined = dict(zip(players.ids().to_pylist(), players.joined_day.tolist(), strict=True))
    assert all(day >= joined[player] for player, day in first_day.items())


def test_some_weeks_are_heavy_and_most_are_not(clean: SimulationReport) -> None:
    weeks = """
        select count(*) as n
        from (select winner as p, ended_at from g where game_type = 'ranked'
              union all select loser, ended_at from g where game_type = 'ranked')
        group by p, date_diff('day', timestamptz '2026-03-01', ended_at) // 7
    """
    most, middle = ask(clean, f"select max(n), median(n) from ({weeks})")[0]
    assert most >= 300
    assert middle <= 8


def test_players_differ_and_the_stronger_play_a_little_more() -> None:
    players = draw_players(50_000, 100, 9)
    assert abs(float(players.strength.mean()) - 1500) < 5
    assert abs(float(players.strength.std()) - 250) < 5
    assert (np.diff(players.strength) >= 0).all()
    together = np.corrcoef(players.strength, np.log(players.activity))[0, 1]
    assert 0.12 < together < 0.18


def test_pairing_pulls_mildly_towards_similar_strength_and_spreads_a_player_s_opponents(clean: SimulationReport) -> None:
    """Without a wide choice of opponents no rating could find the strengths, and every divisor would look wrong."""
    players = draw_players(800, 92, 7)
    strength = dict(zip(players.ids().to_pylist(), players.strength.tolist(), strict=True))
    sides = np.array([(strength[winner], strength[loser]) for winner, loser in ask(clean, "select winner, loser from g")])
    # Each game from both sides: the winner stands first and tends to be the stronger.
    both = np.concatenate([sides, sides[:, ::-1]])
    assert 0.05 < np.corrcoef(both.T)[0, 1] < 0.35
    assert 200 < np.abs(sides[:, 0] - sides[:, 1]).mean() < 300


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_stronger_side_wins_as_often_as_the_model_says(tmp_path: Path, seed: int) -> None:
    """Seeded; 4.5 standard deviations of a sum of independent games, overall and in six bands of the difference."""
    report = simulate(tmp_path, games=60_000, players=400, months=2, seed=seed, clean=True)
    players = draw_players(400, 61, seed)
    strength = dict(zip(players.ids().to_pylist(), players.strength.tolist(), strict=True))
    rows = ask(report, "select winner, loser from g order by id")
    difference = np.array([strength[winner] - strength[loser] for winner, loser in rows])
    gap = np.abs(difference)
    expected = 1 / (1 + 10 ** (-gap / 1200))
    edges = [0.0, 25.0, 75.0, 150.0, 300.0, 600.0, math.inf]
    for low, high in [(0.0, math.inf), *pairwise(edges)]:
        band = (gap >= low) & (gap < high) & (gap > 0)
        assert band.sum() > 1_000
        spread = math.sqrt(float((expected[band] * (1 - expected[band])).sum()))
        assert abs(float((difference[band] > 0).sum() - expected[band].sum())) < 4.5 * spread


@pytest.mark.parametrize(("games", "players"), [(0, 2), (1, 2), (5, 2), (40, 3)])
def test_the_smallest_sites(tmp_path: Path, games: int, players: int) -> None:
    report = simulate(tmp_path, games=games, players=players, months=2)
    assert one(report, "select count(*) from g") == report.rows
    assert one(report, "select count(*) from g where winner = loser") == report.planted["self_play"]


@pytest.mark.parametrize(
    "bad",
    [
        {"games": -1},
        {"players": 1},
        {"months": 0},
        {"start": "2026-03-02"},
        {"start": "march"},
        {"seed": -1},
        {"months": 10**6},
    ],
)
def test_arguments_out_of_range_are_refused_before_anything_is_written(tmp_path: Path, bad: dict[str, object]) -> None:
    arguments: dict[str, object] = {"games": 10, "players": 2} | bad
    with pytest.raises(UsageFault):
        simulate(tmp_path / "new", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_foreign_files_are_refused_and_own_ones_replaced(tmp_path: Path) -> None:
    simulate(tmp_path, games=100, players=5, months=2)
    simulate(tmp_path, games=50, players=5, months=2, clean=True)
    assert sum(pq.read_metadata(file).num_rows for file in (tmp_path / "games").iterdir()) == 50
    with pytest.raises(UsageFault, match="games-2026-04"):
        simulate(tmp_path, games=50, players=5, months=1)


@pytest.mark.parametrize("name", ["columns.toml", "games/games-2026-03.parquet"])
@pytest.mark.parametrize("content", [b"mine", b"", "parquet"])
def test_what_no_simulation_wrote_is_never_overwritten(tmp_path: Path, name: str, content: bytes | str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    if isinstance(content, str):
        pq.write_table(pa.table({"id": [1]}), file)
    else:
        file.write_bytes(content)
    before = digests(tmp_path)
    with pytest.raises(UsageFault, match="would be overwritten"):
        simulate(tmp_path, games=10, players=5, months=1)
    assert digests(tmp_path) == before


def test_an_adapted_copy_of_the_columns_file_is_kept(tmp_path: Path) -> None:
    simulate(tmp_path, games=10, players=5, months=1)
    (tmp_path / "README.md").write_text("what this is", encoding="utf-8")
    simulate(tmp_path, games=10, players=5, months=1)
    file = tmp_path / "columns.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("rev", "edition"), encoding="utf-8")
    with pytest.raises(UsageFault, match=r"columns\.toml"):
        simulate(tmp_path, games=10, players=5, months=1)


def test_progress_is_told_after_each_month(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    simulate(tmp_path, games=10, players=2, months=2, progress=lambda *step: told.append(step))
    assert told == [("month", 1, 2), ("month", 2, 2)]


def test_the_shipped_sample_is_what_the_command_makes(tmp_path: Path) -> None:
    """Tables and not bytes: another library version may compress differently."""
    report = simulate(tmp_path, games=200_000, players=3_000, months=6, start="2026-03-01", seed=42)
    shipped = sorted((SAMPLE / "games").glob("*.parquet"))
    assert [file.name for file in shipped] == [file.name for file in report.files]
    for ours, made in zip(shipped, report.files, strict=True):
        assert pq.read_table(ours).equals(pq.read_table(made)), ours.name
    assert (SAMPLE / "columns.toml").read_text() == report.columns_file.read_text()
    told = (SAMPLE / "README.md").read_text()
    for kind, count in report.planted.items():
        (line,) = (line for line in told.splitlines() if line.startswith(f"| `{kind}`"))
        assert f" {count} |" in line
    assert f"{report.rows:,} rows" in told
    # Small enough for a repository, and over before any as-of: nothing is held.
    sizes = [file.stat().st_size for file in shipped]
    assert max(sizes) < 2_900_000
    assert sum(sizes) < 6_000_000
    assert one(report, "select max(ended_at) < timestamptz '2026-09-01' from g") is True


# ---------------------------------------------------------------- other sites than the sample's


def truth_of(report: SimulationReport) -> str:
    """A table expression: each game with both true strengths of its instant."""
    assert report.truth_file is not None
    return f"""
        (select g.*, w.strength as w_strength, l.strength as l_strength
         from g
         asof join '{report.truth_file}' as w on w.player_id = g.winner and w.from_at <= g.ended_at
         asof join '{report.truth_file}' as l on l.player_id = g.loser and l.from_at <= g.ended_at)
    """


def test_the_truth_stands_beside_the_games_and_is_no_game(tmp_path: Path) -> None:
    plain = simulate(tmp_path / "plain", games=2_000, players=40, months=2, seed=3)
    report = simulate(tmp_path / "truth", games=2_000, players=40, months=2, seed=3, truth=True)
    assert plain.truth_file is None
    assert report.truth_file == tmp_path / "truth" / "_truth.parquet"
    # Asking for it changes no game.
    plain_bytes, both = digests(tmp_path / "plain"), digests(tmp_path / "truth")
    assert both.pop("_truth.parquet")
    assert plain_bytes == both
    assert [source.path for source in find_sources([str(tmp_path / "truth")], "games")] == list(report.files)
    truth = pq.read_table(report.truth_file)
    assert truth.schema.equals(TRUTH_SCHEMA)
    players = draw_players(40, 61, 3)
    assert dict(zip(players.ids().to_pylist(), players.strength, strict=True)) == {
        row["player_id"]: row["strength"] for row in truth.to_pylist()
    }
    # Of a simulation without it, an older one would not be true.
    simulate(tmp_path / "truth", games=2_000, players=40, months=2, seed=4)
    assert digests(tmp_path / "truth").keys() == digests(tmp_path / "plain").keys()


def test_a_truth_that_is_not_ours_is_kept(tmp_path: Path) -> None:
    (tmp_path / "_truth.parquet").write_bytes(b"mine")
    with pytest.raises(UsageFault, match="_truth"):
        simulate(tmp_path, games=10, players=5, months=1)
    assert (tmp_path / "_truth.parquet").read_bytes() == b"mine"


def test_strengths_drift_once_a_week_by_as_much_as_was_asked(tmp_path: Path) -> None:
    report = simulate(tmp_path, games=1_000, players=2_000, months=6, seed=8, world=World(drift=60.0), truth=True)
    rows = ask(
        report,
        f"""
        with steps as (
            select player_id, from_at, strength, strength - lag(strength) over (partition by player_id order by from_at) as step,
                strength - first(strength) over (partition by player_id order by from_at) as away
            from '{report.truth_file}'
        )
        select from_at, count(*), stddev(step), stddev(away) from steps group by all order by from_at
        """,
    )
    assert [count for _, count, _, _ in rows] == [2_000] * 27
    assert {(b[0] - a[0]).days for a, b in pairwise(rows)} == {7}
    # 2,000 players: a standard deviation is known to 1.6 %; five of these.
    assert all(abs(step / (60 * math.sqrt(7 / 30)) - 1) < 0.08 for _, _, step, _ in rows[1:])
    assert abs(rows[-1][3] / (60 * math.sqrt(26 * 7 / 30)) - 1) < 0.08


@pytest.mark.parametrize("divisor", [400.0, 2000.0])
@pytest.mark.parametrize("matchmaking", ["rating", "random"])
def test_the_true_divisor_holds_for_the_strengths_of_the_instant(tmp_path: Path, divisor: float, matchmaking: Any) -> None:
    world = World(divisor=divisor, drift=80.0, matchmaking=matchmaking)
    report = simulate(tmp_path, games=40_000, players=300, months=3, seed=12, clean=True, world=world, truth=True)
    rows = np.array(ask(report, f"select w_strength - l_strength from {truth_of(report)}"))[:, 0]
    gap = np.abs(rows)
    expected = 1 / (1 + 10 ** (-gap / divisor))
    for low, high in ((0, 1e9), (0, 100), (100, 300), (300, 1e9)):
        band = (gap > low) & (gap < high)
        assert band.sum() > 1_000
        spread = math.sqrt(float((expected[band] * (1 - expected[band])).sum()))
        assert abs(float((rows[band] > 0).sum() - expected[band].sum())) < 4.5 * spread


def test_matchmaking_by_rating_lets_like_meet_like(tmp_path: Path) -> None:
    together = {}
    for matchmaking in ("random", "strength", "rating"):
        world = World(matchmaking=matchmaking)
        report = simulate(tmp_path / matchmaking, games=60_000, players=300, months=3, seed=2, clean=True, world=world, truth=True)
        rows = np.array(
            ask(report, f"select w_strength, l_strength from {truth_of(report)} where ended_at > '2026-05-01'"), dtype=np.float64
        )
        together[matchmaking] = np.corrcoef(np.concatenate([rows, rows[:, ::-1]]).T)[0, 1]
    assert abs(together["random"]) < 0.05
    assert together["random"] < together["strength"] < together["rating"]
    assert together["rating"] > 0.35


def test_activity_bursts_modes_and_forfeits(tmp_path: Path) -> None:
    def figures(name: str, world: World) -> tuple[float, int, float, float]:
        report = simulate(tmp_path / name, games=40_000, players=500, months=3, seed=6, clean=True, world=world)
        sides = "(select winner as p, ended_at from g union all select loser, ended_at from g)"
        heavy = f"""
            select sum(n) filter (where place <= 50) / sum(n)
            from (select count(*) as n, row_number() over (order by count(*) desc) as place from {sides} group by p)
        """
        most = f"select max(n) from (select count(*) as n from {sides} group by p, time_bucket(interval 7 days, ended_at))"
        shares = "select avg((game_type = 'ranked')::int), avg((ended_by <> 'finished')::int) from g"
        return (one(report, heavy), one(report, most), *ask(report, shares)[0])

    plain = figures("plain", World())
    other = figures("other", World(activity=0.0, burst_games=0, ranked=0.5, forfeits=0.1))
    assert plain[0] > 0.35 > 0.2 > other[0] > 0.1
    assert plain[1] > 300 > 100 > other[1]
    # Five standard deviations of a share of 40,000 games; the games of bursts are ranked on top of the usual share.
    assert 0.72 < plain[2] < 0.80
    for found, wanted in ((plain[3], 0.3), (other[2], 0.5), (other[3], 0.1)):
        assert abs(found - wanted) < 0.0125


@pytest.mark.parametrize(
    "bad",
    [
        {"divisor": 0.0},
        {"divisor": math.nan},
        {"drift": -1.0},
        {"activity": 9.0},
        {"ranked": 1.5},
        {"forfeits": -0.1},
        {"spread": math.inf},
    ],
)
def test_a_world_that_cannot_be_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UsageFault, match="between"):
        World(**bad)  # type: ignore[arg-type]
