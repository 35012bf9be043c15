"""The same content gives the same bytes, however it is delivered: order, cut and names of files, types, zones, threads, host."""

from __future__ import annotations

import collections
import hashlib
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from support import Backfill, Out, Row

AS_OF = "2026-06-01T00:00:00Z"
HOUR_US = 3_600_000_000
INT64, TEXT = pa.int64(), pa.string()
ID_COLUMNS = ("game_id", "winner_id", "loser_id", "player_id", "alias_id", "award_id")
TIME_COLUMNS = ("played_at", "awarded_at")

RULES = """name = "all"
start = 1500
rounding = "{rounding}"
advantage = true
[modes]
rated = ["ranked", "fast"]
unrated = ["casual"]
[count]
hours = 168
[[version]]
name = "1"
from = "1969-12-31T12:00:00Z"
divisor = 400
k = 32
heavy = {{ games = 6, k = 16 }}
stake = {{ cube = "times", result = {{ gammon = 2.0, backgammon = 3.0 }} }}
{ramp}
[[version]]
name = "2"
from = "2026-03-20T00:00:00Z"
divisor = 800
divide_by = "sqrt_match_length"
k = 24
heavy = {{ games = 5, factor = 0.5 }}
stake = {{ cube = "log2", match_length = "sqrt", weight = true }}
"""
RAMP = 'ramp = { height = 5, length = 100, experience = "before" }'


# ---------------------------------------------------------------- the history


@dataclass(frozen=True)
class History:
    """Rows of every table; ids of games and players are integers, or text."""

    games: list[Row]
    awards: list[Row]
    aliases: list[Row]
    excluded: list[Row]
    starts: list[Row]


def history(seed: int = 1, rows: int = 2600, text: bool = False) -> History:
    """Many ties, copies, revisions, conflicting copies and a few of every kind of bad row; stamps are whole seconds."""
    rng = random.Random(seed)
    names = ["Ann", "ann ", "é", "e\u0301", "007", "7", "", "a\0b", "a\0", "x" * 40, "𝔘", "￿", "zoë", "Z", "z"]

    def player(i: int) -> Any:
        return (names[i] if i < len(names) else f"player-{i}") if text else i - 3

    def game_id(i: int) -> Any:
        # Neither rising with time nor of one length: text ids sort by bytes, "10" before "9".
        return str(i * 7919 % 10_007) if text else i * 7919 % 10_007 - 5000

    first = support.ts("2026-03-01 00:00:00")
    instants = [first + rng.randrange(24 * 45) * HOUR_US for _ in range(rows // 4)]
    games: list[Row] = []
    for i in range(rows):
        a, b = rng.sample(range(40), 2)
        games.append(
            support.game(
                game_id(i),
                rng.choice(instants),
                player(a),
                player(b),
                ladder=rng.choice(["east", "west", "", "ö"]),
                mode=rng.choice(["ranked", "ranked", "ranked", "fast", "casual", None]),
                cube=rng.choice([1, 1, 2, 4, 64, None]),
                match_length=rng.choice([1, 3, 5, 7, 17]),
                result=rng.choice(["single", "gammon", "backgammon", None]),
                ended_by=rng.choice(["resign", None]),
                is_draw=rng.choice([False, False, False, True, None]),
                voided=rng.choice([False] * 15 + [True, None]),
                revision=rng.choice([None, 0, 1]),
                advantage=rng.choice([0.0, 0.0, 60.0, -35.5, None]),
                weight=rng.choice([1.0, 0.5, 0.1, None]),
            )
        )
    faults: list[tuple[str, Any]] = [
        ("game_id", None), ("winner_id", None), ("loser_id", None), ("played_at", None), ("mode", "rankd"), ("cube", 3), ("cube", 0),
        ("cube", 1_712_345_678), ("match_length", None), ("match_length", -1), ("match_length", 1000), ("result", "quadruple"),
        ("weight", float("nan")), ("weight", -0.5), ("advantage", float("inf")), ("played_at", support.ts("2099-01-01 00:00:00")),
        ("loser_id", player(10)), ("played_at", support.ts("1969-12-31 11:59:59")), ("played_at", support.ts("1969-12-31 12:00:00")), ("ladder", None),
    ]  # fmt: skip
    copies = []
    for row in rng.sample(games, 160):
        kind = rng.choice(["same", "same", "silent", "zero", "newer", "older", "conflict", "three"])
        copy = dict(row)
        if kind == "silent":  # what stands for the default, said or not said
            copy |= {
                name: None
                for name, default in (("mode", "ranked"), ("cube", 1), ("voided", False), ("is_draw", False), ("weight", 1.0))
                if row[name] == default and rng.random() < 0.6
            }
        elif kind == "zero" and row["advantage"] in (0.0, None):
            copy["advantage"] = -0.0
        elif kind == "newer":
            copy |= {"revision": 5, "winner_id": row["loser_id"], "loser_id": row["winner_id"]}
        elif kind == "older":
            row["revision"], copy["revision"] = 3, 2
            copy["ended_by"] = "timeout"
        elif kind == "conflict":
            copy["ended_by"] = "left"
        copies += [copy] * (2 if kind == "three" else 1)
    games += copies
    for i, (name, value) in enumerate(faults):
        # A plain row that one fault alone makes what it is, and the same once more.
        row = support.game(game_id(rows + i), instants[i], player(10), player(11), ladder="east", mode="ranked", match_length=3)
        games += [row | {"weight": 1.0, name: value}] * 2
    awards = [
        {
            "award_id": i,
            "awarded_at": rng.choice(instants),
            "player_id": player(rng.randrange(45)),
            "points": float(rng.randrange(-20, 60)),
            "reason": rng.choice(["prize", None, "fix"]),
            "ladder": rng.choice(["east", "west"]),
        }
        for i in range(60)
    ]
    awards += [dict(awards[3]), awards[4] | {"points": 1.0}, awards[5] | {"award_id": 990, "points": None}]
    return History(
        games=games,
        awards=awards,
        aliases=[{"alias_id": player(a), "player_id": player(b)} for a, b in ((30, 31), (31, 32), (33, 5), (34, 5))],
        excluded=[{"player_id": player(30)}, {"player_id": player(38)}],
        starts=[
            {"player_id": player(i), "rating": 1400.0 + 10 * i, "games": i, "experience": 10.0 * i, "ladder": pool}
            for i in range(1, 9)
            for pool in ("east", "west")
        ],
    )


# ---------------------------------------------------------------- deliveries


@dataclass(frozen=True)
class Delivery:
    """One way of delivering a history. The defaults are the plain one."""

    shuffle: int | None = None
    files: int = 1
    names: tuple[str, ...] = ("games.parquet",)
    row_group: int | None = None
    reverse_groups: bool = False
    threads: int = 2
    unit: str = "us"
    zone: str | None = "UTC"
    integers: Any = INT64
    strings: Any = TEXT
    dictionary: bool = False
    options: tuple[str, ...] = ()


def typed(rows: list[Row], delivery: Delivery, sub_us: random.Random) -> pa.Table:
    """The rows as a table of the delivery's types."""
    table = support.table(rows)
    for at, field in enumerate(table.schema):
        column = table[field.name].combine_chunks()
        if field.name in TIME_COLUMNS:
            factor = {"s": (1, 1_000_000), "ms": (1, 1000), "us": (1, 1), "ns": (1000, 1)}[delivery.unit]
            stamps = [None if v is None else v * factor[0] // factor[1] for v in column.cast(pa.int64()).to_pylist()]
            if delivery.unit == "ns":  # floored to the same microsecond, also before 1970
                stamps = [None if v is None else v + sub_us.randrange(1000) for v in stamps]
            column = pa.array(stamps, pa.int64()).cast(pa.timestamp(delivery.unit, delivery.zone))
        elif field.name in ID_COLUMNS and pa.types.is_integer(field.type):
            column = column.cast(delivery.integers)
        elif pa.types.is_string(field.type):
            column = column.cast(delivery.strings)
            if delivery.dictionary:
                column = column.dictionary_encode()
        elif pa.types.is_integer(field.type):
            column = column.cast(delivery.integers)
        table = table.set_column(at, field.name, column)
    return table


def deliver(folder: Path, rows: list[Row], delivery: Delivery, name: str) -> Path:
    """Writes one table as the delivery says; a folder of files."""
    folder = folder / name
    folder.mkdir(parents=True)
    rng = random.Random(f"{delivery.shuffle} {name}")
    rows = list(rows)
    if delivery.shuffle is not None:
        rng.shuffle(rows)
    cuts = [len(rows) * i // delivery.files for i in range(delivery.files + 1)]
    names = delivery.names if len(delivery.names) == delivery.files else [f"f{i}.parquet" for i in range(delivery.files)]
    for i, file in enumerate(names):
        part = rows[cuts[i] : cuts[i + 1]]
        table = typed(part, delivery, rng) if part else typed(rows, delivery, rng).slice(0, 0)
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        size = delivery.row_group or max(1, table.num_rows)
        groups = [table.slice(at, size) for at in range(0, table.num_rows, size)]
        with pq.ParquetWriter(path, table.schema) as writer:
            for group in reversed(groups) if delivery.reverse_groups else groups:
                writer.write_table(group)
    return folder


@dataclass(frozen=True)
class Setting:
    """The rules and options of a family of runs that must agree."""

    integer: bool
    text: bool
    pool: bool
    tables: bool

    def __str__(self) -> str:
        words = {"integer": self.integer, "text": self.text, "pool": self.pool, "tables": self.tables}
        return "-".join(word for word, on in words.items() if on) or "plain"


SETTINGS = [Setting(True, False, False, True), Setting(False, True, True, True), Setting(True, True, False, False)]
_HISTORIES: dict[bool, History] = {}


def run(backfill: Backfill, setting: Setting, delivery: Delivery, **process: Any) -> Out:
    """One run of a delivery of the history."""
    if setting.text not in _HISTORIES:
        _HISTORIES[setting.text] = history(text=setting.text)
    whole = _HISTORIES[setting.text]
    backfill.study = True
    folder = backfill.base / f"delivery{backfill.runs}"
    folder.mkdir()
    rules = folder / "rules.toml"
    rules.write_text(
        RULES.format(rounding="half-away-from-zero" if setting.integer else "none", ramp="" if setting.integer else RAMP),
        encoding="utf-8",
    )
    options = ["--as-of", AS_OF, "--threads", str(delivery.threads), "--max-rejected", "20%", *delivery.options]
    columns = folder / "columns.toml"
    columns.write_text('[time]\nnaive = "UTC"\n' if delivery.zone is None else "", encoding="utf-8")
    options += ["--columns", str(columns)]
    if setting.pool:
        options += ["--pool", "ladder"]
    if setting.tables:
        for option in ("awards", "aliases", "exclude-players", "start-ratings"):
            rows = getattr(whole, {"exclude-players": "excluded", "start-ratings": "starts"}.get(option, option))
            if option == "start-ratings" and not setting.pool:
                rows = [row for row in rows if row["ladder"] == "east"]
            plain = replace(delivery, names=("t.parquet",), files=1)
            options += [f"--{option}", str(deliver(folder, rows, plain, option))]
    games = deliver(folder, whole.games, delivery, "games")
    start = backfill.process if process else backfill
    return start([games], *options, rules=rules, **process).ok()


def tables(out: Out) -> dict[str, str]:
    """The digest of every Parquet file of a run but `rejected`; what it keeps in `fold` says where each row stood."""
    run_folder = out.current.resolve()
    files = sorted(run_folder.rglob("*.parquet"))
    return {
        str(path.relative_to(run_folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not path.name.startswith("rejected") and "fold" not in path.relative_to(run_folder).parts
    }


def refused(out: Out) -> dict[str, Any]:
    """What was refused, without where it stood."""
    kinds = {}
    for path in out.current.glob("rejected*.parquet"):
        rows = pq.read_table(path).drop_columns(["file", "row"])
        kinds[path.name] = collections.Counter(tuple(row.items()) for row in rows.to_pylist())
        kinds[path.name + " schema"] = str(rows.schema)
    return kinds


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[Setting, Out]:
    """The plain delivery's run of every setting."""
    return {setting: run(Backfill(tmp_path_factory.mktemp("plain")), setting, Delivery()) for setting in SETTINGS}


def assert_same(out: Out, plain: Out) -> None:
    assert tables(out) == tables(plain)
    assert refused(out) == refused(plain)
    assert out.bins() == plain.bins()
    chunks = [[run.manifest()["chunks"], run.manifest()["rows_read"], run.manifest()["award_bins"]] for run in (out, plain)]
    assert chunks[0] == chunks[1]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_history_has_every_kind_of_row(plain: dict[Setting, Out], setting: Setting) -> None:
    bins = plain[setting].bins()
    reasons = bins.pop("rejected")
    assert min(bins.values()) > 0, bins
    assert min(reasons.values()) > 0, reasons
    assert bins["rated"] > 1000
    rows = plain[setting].rows("timeline")
    keys = [(row["played_at"], row["game_id"].encode() if setting.text else row["game_id"]) for row in rows]
    assert keys == sorted(keys)
    assert len({key[0] for key in keys}) < len(keys) * 0.6, "too few ties"
    assert {row["rule_version"] for row in rows} == {"1", "2"}
    if setting.tables:
        assert plain[setting].frame("awards").height > 20


DELIVERIES = {
    "again": Delivery(),
    "shuffled": Delivery(shuffle=3),
    "one thread": Delivery(shuffle=4, threads=1),
    "two threads": Delivery(shuffle=4, threads=2),
    "split": Delivery(files=7),
    "part_1, part_2, part_10": Delivery(files=3, names=("part_1.parquet", "part_2.parquet", "part_10.parquet")),
    "part_10, part_2, part_1": Delivery(files=3, names=("part_10.parquet", "part_2.parquet", "part_1.parquet")),
    "folders": Delivery(shuffle=5, files=3, names=("z/year=2026/a.parquet", "a/b/c.parquet", "it's [1] 100%*.parquet")),
    "tiny row groups": Delivery(row_group=11),
    "reversed row groups": Delivery(row_group=100, reverse_groups=True),
    "seconds": Delivery(unit="s"),
    "milliseconds": Delivery(unit="ms"),
    "nanoseconds": Delivery(unit="ns"),
    "Tokyo stamps": Delivery(zone="Asia/Tokyo"),
    "Tokyo nanoseconds": Delivery(unit="ns", zone="Asia/Tokyo"),
    "declared naive": Delivery(zone=None),
    "declared naive milliseconds": Delivery(zone=None, unit="ms"),
    "declared naive nanoseconds": Delivery(zone=None, unit="ns"),
    "int32": Delivery(integers=pa.int32()),
    "large strings": Delivery(strings=pa.large_string()),
    "string views": Delivery(strings=pa.string_view()),
    "dictionaries": Delivery(dictionary=True, row_group=100),
    "little memory": Delivery(options=("--memory-limit", "200MB")),
}


def pairs() -> Iterator[Any]:
    """Every delivery with every setting; the short form takes one setting of each."""
    for i, name in enumerate(DELIVERIES):
        for j, setting in enumerate(SETTINGS):
            short = i % len(SETTINGS) == j
            yield pytest.param(name, setting, id=f"{name} {setting}", marks=[] if short else pytest.mark.long)


@pytest.mark.parametrize(("name", "setting"), list(pairs()))
def test_same_bytes(plain: dict[Setting, Out], run_backfill: Backfill, name: str, setting: Setting) -> None:
    assert_same(run(run_backfill, setting, DELIVERIES[name]), plain[setting])


def composed(seed: int) -> Delivery:
    """Several differences at once."""
    rng = random.Random(seed)
    files = rng.choice([1, 2, 5, 30])
    return Delivery(
        shuffle=seed,
        files=files,
        names=tuple(f"{rng.choice('abc')}/{rng.getrandbits(40):x}-part_{i}.parquet" for i in range(files)),
        row_group=rng.choice([None, 3, 50, 400]),
        reverse_groups=rng.random() < 0.5,
        threads=rng.choice([1, 2]),
        unit=rng.choice(["s", "ms", "us", "ns"]),
        zone=rng.choice(["UTC", "Asia/Tokyo", "America/New_York", None]),
        integers=rng.choice([pa.int32(), pa.int64()]),
        strings=rng.choice([pa.string(), pa.large_string()]),
        dictionary=rng.random() < 0.4,
    )


@pytest.mark.parametrize("seed", range(6))
def test_several_differences_at_once(plain: dict[Setting, Out], run_backfill: Backfill, seed: int) -> None:
    setting = SETTINGS[seed % len(SETTINGS)]
    assert_same(run(run_backfill, setting, composed(seed)), plain[setting])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 220))
def test_many_differences_at_once(plain: dict[Setting, Out], run_backfill: Backfill, seed: int) -> None:
    setting = SETTINGS[seed % len(SETTINGS)]
    assert_same(run(run_backfill, setting, composed(seed)), plain[setting])


def test_files_of_different_types_together(plain: dict[Setting, Out], run_backfill: Backfill) -> None:
    """One file of int32 and seconds, one of int64 and nanoseconds, one with a column less that is all NULL elsewhere."""
    setting = SETTINGS[0]
    whole = history()
    folder = run_backfill.base / "mixed"
    thirds = [whole.games[:900], whole.games[900:2000], whole.games[2000:]]
    kinds = [
        Delivery(integers=pa.int32(), unit="s"),
        Delivery(unit="ns", zone="Asia/Tokyo", dictionary=True),
        Delivery(strings=pa.large_string(), unit="ms", row_group=40),
    ]
    parts = [
        deliver(folder, rows, replace(kind, names=(f"{9 - i}.parquet",)), f"part{i}")
        for i, (rows, kind) in enumerate(zip(thirds, kinds, strict=True))
    ]
    out = run(run_backfill, setting, Delivery())
    argv = [str(part) for part in parts]
    # The same command with the games in three folders of different types.
    again = _again(run_backfill, out, argv)
    assert_same(again, plain[setting])


def _again(backfill: Backfill, out: Out, games: list[str]) -> Out:
    """The last run's options with other games."""
    manifest = out.manifest()["input_options"]
    delivery = Path(manifest["games"][0]).parent
    options = ["--as-of", AS_OF, "--max-rejected", "20%"]
    for key, option in (
        ("awards", "awards"),
        ("aliases", "aliases"),
        ("excluded", "exclude-players"),
        ("start_ratings", "start-ratings"),
    ):
        options += [f"--{option}", manifest[key]]
    return backfill([Path(path) for path in games], *options, rules=delivery / "rules.toml").ok()


# ---------------------------------------------------------------- the host's zone


@pytest.fixture
def host_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets a test set TZ for this process and puts it back."""
    before = os.environ.get("TZ")
    yield monkeypatch
    if before is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize(
    "delivery", [Delivery(), Delivery(zone=None), Delivery(unit="ns", zone="Asia/Tokyo")], ids=["zoned", "naive", "ns"]
)
def test_the_hosts_zone_is_nothing(
    plain: dict[Setting, Out], run_backfill: Backfill, host_zone: pytest.MonkeyPatch, zone: str, delivery: Delivery
) -> None:
    os.environ["TZ"] = zone
    time.tzset()
    assert_same(run(run_backfill, SETTINGS[0], delivery), plain[SETTINGS[0]])


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_another_process_in_another_zone(plain: dict[Setting, Out], run_backfill: Backfill, zone: str) -> None:
    setting = SETTINGS[1]
    out = run(run_backfill, setting, Delivery(zone=None), env={"TZ": zone, "PYTHONHASHSEED": "7", "LC_ALL": "C"})
    assert_same(out, plain[setting])
