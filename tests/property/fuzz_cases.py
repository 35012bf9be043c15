"""The cases of the input fuzzer, and a worker that runs them one by one in a process of its own.

Every case follows from its seed alone: `python tests/property/fuzz_cases.py SEED …` runs the named ones and prints what happened,
`-v` with the message. Without seeds it reads seeds from standard input and answers each with a line of JSON (see `test_fuzz.py`).
"""

from __future__ import annotations

import contextlib
import decimal
import hashlib
import io
import json
import os
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DAY_US = 86_400_000_000
START_US = 1_772_323_200_000_000  # 2026-03-01
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UTC_US = pa.timestamp("us", "UTC")
UNITS = ("s", "ms", "us", "ns")

OWN_RULES = """name = "fuzz"
start = 1500
rounding = "{rounding}"
advantage = true
max_cube = 64
[modes]
rated = ["ranked"]
unrated = ["casual"]
[count]
hours = 168
[[version]]
name = "1"
divisor = 400
k = 32
heavy = {{ games = 5, k = 16 }}
stake = {{ cube = "log2", weight = true, result = {{ single = 1.0, gammon = 2.0, backgammon = 3.0 }} }}
"""


@dataclass
class Case:
    """One case: its family, what makes it odd, the input files and the options."""

    family: str
    note: str
    games: list[Path]
    options: list[str] = field(default_factory=list)
    rules: str = "tavla42"


# ---------------------------------------------------------------- plain inputs


def plain(rng: random.Random, rows: int = 60, text: bool | None = None) -> dict[str, pa.Array]:
    """A small, right history, with every optional column."""
    text = rng.random() < 0.5 if text is None else text
    players = [f"p{i}" for i in range(9)] if text else list(range(9))
    pairs = [rng.sample(players, 2) for _ in range(rows)]
    ids: list[Any] = [f"g{i:04d}" if text else i for i in range(rows)]
    return {
        "game_id": pa.array(ids),
        "played_at": pa.array([START_US + rng.randrange(40) * DAY_US for _ in ids], pa.int64()).cast(UTC_US),
        "winner_id": pa.array([a for a, _ in pairs]),
        "loser_id": pa.array([b for _, b in pairs]),
        "mode": pa.array([rng.choice(["ranked", "casual", None]) for _ in ids], pa.string()),
        "cube": pa.array([rng.choice([1, 2, 4, 64, None]) for _ in ids], pa.int64()),
        "match_length": pa.array([rng.choice([1, 5, 7, 17]) for _ in ids], pa.int64()),
        "result": pa.array([rng.choice(["single", "gammon", None]) for _ in ids], pa.string()),
        "ended_by": pa.array([None] * rows, pa.string()),
        "is_draw": pa.array([rng.random() < 0.05 for _ in ids], pa.bool_()),
        "voided": pa.array([rng.random() < 0.05 for _ in ids], pa.bool_()),
        "revision": pa.array([rng.choice([None, 0, 1]) for _ in ids], pa.int64()),
        "advantage": pa.array([rng.choice([0.0, 50.0, -0.0, None]) for _ in ids], pa.float64()),
        "weight": pa.array([rng.choice([1.0, 0.5, 0.0, None]) for _ in ids], pa.float64()),
    }


def save(path: Path, columns: dict[str, Any] | pa.Table, rng: random.Random | None = None) -> Path:
    """Writes a table, in a layout drawn from `rng` when there is one."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    layout: dict[str, Any] = {}
    if rng is not None:
        layout = {
            "compression": rng.choice(["none", "snappy", "zstd", "gzip", "lz4", "brotli"]),
            "use_dictionary": rng.random() < 0.5,
            "data_page_version": rng.choice(["1.0", "2.0"]),
            "row_group_size": rng.choice([7, 25, 1000]),
            "write_statistics": rng.random() < 0.5,
            "store_schema": rng.random() < 0.5,
            "write_page_index": rng.random() < 0.3,
            "write_page_checksum": rng.random() < 0.3,
        }
        if not layout["use_dictionary"] and rng.random() < 0.3:
            layout["column_encoding"] = {"cube": "DELTA_BINARY_PACKED", "result": "DELTA_BYTE_ARRAY", "weight": "BYTE_STREAM_SPLIT"}
            kinds = {"cube": pa.types.is_int64, "result": pa.types.is_string, "weight": pa.types.is_float64}
            layout["column_encoding"] = {
                name: encoding
                for name, encoding in layout["column_encoding"].items()
                if table.column_names.count(name) == 1 and kinds[name](table[name].type)
            }
    pq.write_table(table, path, **layout)
    return path


# ---------------------------------------------------------------- families


def damaged(rng: random.Random, folder: Path) -> Case:
    """Bytes of a good file changed, cut, added or joined."""
    path = save(folder / "games.parquet", plain(rng, rng.choice([1, 60, 400])), rng)
    data = bytearray(path.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little") + 8
    kind = rng.choice(
        ["flip_head", "flip_pages", "flip_pages", "flip_pages", "flip_footer", "flip_footer", "flip_any", "cut", "cut_20", "tail",
         "append", "twice", "zeros", "footer_length", "text", "empty", "swap_blocks", "byte_ff"]
    )  # fmt: skip
    ranges = {"flip_head": (0, 40), "flip_pages": (4, len(data) - footer), "flip_footer": (len(data) - footer, len(data))}
    if kind.startswith("flip"):
        low, high = ranges.get(kind, (0, len(data)))
        for _ in range(rng.choice([1, 1, 2, 5, 30])):
            data[rng.randrange(low, min(high, len(data)))] ^= 1 << rng.randrange(8)
    elif kind == "byte_ff":
        low = rng.randrange(4, len(data))
        data[low : low + rng.choice([1, 4, 8])] = b"\xff" * len(data[low : low + rng.choice([1, 4, 8])])
    elif kind == "cut":
        data = data[: rng.randrange(len(data))]
    elif kind == "cut_20":
        data = data[:-20]
    elif kind == "tail":
        data = data[rng.randrange(1, len(data)) :]
    elif kind == "append":
        data += rng.randbytes(rng.choice([1, 8, 500]))
    elif kind == "twice":
        data += save(folder / "other", plain(rng, 30), rng).read_bytes()
        (folder / "other").unlink()
    elif kind == "zeros":
        at, size = rng.randrange(len(data)), rng.choice([1, 16, 300])
        data[at : at + size] = bytes(len(data[at : at + size]))
    elif kind == "footer_length":
        data[-8:-4] = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, footer - 9, footer + 1]).to_bytes(4, "little")
    elif kind == "text":
        data = bytearray(
            rng.choice([b"game_id,played_at\n1,2\n", b"PAR1", b"PAR1PAR1", b"<html>502</html>", b"PARE" * 9, b"\0" * 99])
        )
    elif kind == "empty":
        data = bytearray()
    elif kind == "swap_blocks":
        a, b, size = rng.randrange(len(data)), rng.randrange(len(data)), 16
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    path.write_bytes(data)
    games = [path]
    if rng.random() < 0.3:
        games.append(save(folder / "good.parquet", plain(rng, 20, text=True)))
    return Case("damaged", kind, games, [], rng.choice(["tavla42", "nardy"]))


def _typed(rng: random.Random, n: int) -> dict[str, Callable[[], pa.Array]]:
    """Columns of odd types, by name."""
    naive = [START_US + i for i in range(n)]
    one = [[i] for i in range(n)]
    return {
        "struct": lambda: pa.array([{"a": i, "game_id": i} for i in range(n)]),
        "list": lambda: pa.array(one),
        "map": lambda: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
        "decimal": lambda: pa.array([decimal.Decimal(i) for i in range(n)], pa.decimal128(20, 0)),
        "decimal256": lambda: pa.array([decimal.Decimal(i) for i in range(n)], pa.decimal256(50, 2)),
        "float": lambda: pa.array([float(i) for i in range(n)], pa.float32()),
        "double_nan": lambda: pa.array([float("nan")] * n),
        "half": lambda: pa.array([1.0] * n, pa.float32()).cast(pa.float16()),
        "date": lambda: pa.array([20_000 + i % 30 for i in range(n)], pa.int32()).cast(pa.date32()),
        "time": lambda: pa.array(range(n), pa.int64()).cast(pa.time64("us")),
        "duration": lambda: pa.array(range(n), pa.int64()).cast(pa.duration("us")),
        "uint64": lambda: pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
        "uint32": lambda: pa.array([2**32 - 1 - i for i in range(n)], pa.uint32()),
        "int8": lambda: pa.array([i % 100 for i in range(n)], pa.int8()),
        "binary": lambda: pa.array([b"\xff\xfe%d" % i for i in range(n)]),
        "fixed_binary": lambda: pa.array([b"%016d" % i for i in range(n)], pa.binary(16)),
        "uuid": lambda: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"%016d" % i for i in range(n)], pa.binary(16))),
        "json": lambda: pa.ExtensionArray.from_storage(pa.json_(), pa.array([f'{{"a": {i}}}' for i in range(n)])),
        "null": lambda: pa.nulls(n),
        "null_text": lambda: pa.nulls(n, pa.string()),
        "null_float": lambda: pa.nulls(n, pa.float64()),
        "bool": lambda: pa.array([i % 2 == 0 for i in range(n)]),
        "naive_us": lambda: pa.array(naive, pa.int64()).cast(pa.timestamp("us")),
        "naive_ns": lambda: pa.array([v * 1000 for v in naive], pa.int64()).cast(pa.timestamp("ns")),
        "zoned_s": lambda: pa.array([v // 10**6 for v in naive], pa.int64()).cast(pa.timestamp("s", "America/New_York")),
        "zoned_ns": lambda: pa.array([v * 1000 for v in naive], pa.int64()).cast(pa.timestamp("ns", "+02:00")),
        "text": lambda: pa.array([f"x{i}" for i in range(n)]),
        "large_text": lambda: pa.array([f"x{i}" for i in range(n)], pa.large_string()),
        "text_view": lambda: pa.array([f"x{i}" for i in range(n)], pa.string_view()),
        "dictionary": lambda: pa.array([f"x{i % 5}" for i in range(n)]).dictionary_encode(),
        "dictionary_int": lambda: pa.array([i % 5 for i in range(n)]).dictionary_encode(),
    }


def odd_schema(rng: random.Random, folder: Path) -> Case:
    """A column of another type, twice, under another name, or a name that could be taken for something else."""
    columns: dict[str, Any] = dict(plain(rng))
    n = len(columns["game_id"])
    kind = rng.choice(["type", "type", "type", "type", "name", "name", "twice", "case", "missing", "nothing", "extra_odd"])
    name = rng.choice([*columns, "game_id", "played_at", "winner_id"])
    note = kind
    if kind in ("type", "extra_odd"):
        odd = rng.choice(list(_typed(rng, n)))
        columns["extra" if kind == "extra_odd" else name] = _typed(rng, n)[odd]()
        note = f"{kind} {name} {odd}"
    table = pa.table(columns)
    if kind == "name":
        odd_name = rng.choice(
            ["file_row_number", "filename", "file_no", "row_no", "rowid", "file_index", "pool", "row", "reason", "seq", "", " ", "select",
             'a"b', "a'b", "a\nb", "game_id; drop table staged", '"); drop table staged; --', "ü", "🎲", "x" * 5000, "hive=1", "$path", "*",
             "FILE_ROW_NUMBER", "staged", "a.b", "\t", "played_us", "verdict"]
        )  # fmt: skip
        # In front, behind, or instead of a column that is wanted.
        if rng.random() < 0.25:
            table = table.rename_columns([odd_name if c == name else c for c in table.column_names])
        else:
            at = rng.choice([0, table.num_columns])
            table = table.add_column(at, odd_name, rng.choice([pa.array(range(n)), pa.array(["x"] * n), pa.array([[1]] * n)]))
        note = f"name {odd_name[:40]!r}"
    elif kind == "twice":
        table = table.append_column(name, table[name])
    elif kind == "case":
        if rng.random() < 0.5:
            table = table.append_column(name.upper(), table[name])
        else:
            table = table.rename_columns([c.upper() if c == name else c for c in table.column_names])
    elif kind == "missing":
        table = table.drop_columns([name])
    elif kind == "nothing":
        table = rng.choice([table.slice(0, 0), table.select([]), pa.table({"a": [1]})])
    path = save(folder / "games.parquet", table, rng)
    games = [path]
    if rng.random() < 0.4:
        games.append(save(folder / "good.parquet", plain(rng, 20), rng))
    options = ["--pool", rng.choice(["mode", "pool", "missing", "extra", "game_id"])] if rng.random() < 0.2 else []
    return Case("odd_schema", note, games, options, rng.choice(["tavla42", "nardy", str(own_rules(folder, rng))]))


def own_rules(folder: Path, rng: random.Random) -> Path:
    """Rules that use every optional column."""
    path = folder / "rules.toml"
    path.write_text(OWN_RULES.format(rounding=rng.choice(["none", "half-away-from-zero"])), encoding="utf-8")
    return path


EXTREME_INTS = [
    INT64_MIN,
    INT64_MIN + 1,
    INT64_MAX,
    INT64_MAX - 1,
    0,
    -1,
    2**31,
    2**31 - 1,
    -(2**31),
    2**53 + 1,
    2**62,
    3,
    128,
    1_712_345_678,
]
EXTREME_FLOATS = [float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 1e9, -1e9, 1e20, 0.1, 2**53 + 2.0]
EXTREME_TEXTS = [
    "", " ", "\0", "a\0b", "a\0", "\0a", "é", "e\u0301", "ﬀ", "İ", "x" * 100_000, "007", "7", "NULL", "null", "'", '"', "\n", "\r\n", "\u202e", "𝔘", "￿",
    "-- x", "'; drop table staged; --", "ranked", "ranked ", "Ranked",
]  # fmt: skip
EXTREME_STAMPS = {
    "s": [INT64_MIN // 1000 + 1, INT64_MAX // 1000, INT64_MIN // 10**6, INT64_MAX // 10**6, -62_135_596_800, -62_135_596_801, 253_402_300_800, -9_000_000_000_000, 1, -1],
    "ms": [INT64_MIN, INT64_MAX, INT64_MIN // 1000, INT64_MAX // 1000, -62_135_596_800_000, 9_300_000_000_000, -1, -9_151_000_000_000_000],
    "us": [INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1, INT64_MIN + 10**12, -62_135_596_800_000_000, 9_300_000_000_000_000, -1, -9_100_000_000_000_000_000,
           -9_223_372_022_400_000_000, -9_223_372_022_400_000_001],
    "ns": [INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1, -1, -999, -1000, -1001],
}  # fmt: skip


def odd_values(rng: random.Random, folder: Path) -> Case:
    """Right types, extreme values; among 400 rows so that a few refused ones do not stop the run."""
    rows = rng.choice([60, 400])
    text = rng.random() < 0.5
    columns = {name: column.to_pylist() for name, column in plain(rng, rows, text).items() if name != "played_at"}
    unit = rng.choice(UNITS)
    factor = {"s": 10**6, "ms": 1000, "us": 1}.get(unit)
    stamps: list[int | None] = [
        us // factor if factor else us * 1000 for us in (START_US + rng.randrange(40) * DAY_US for _ in range(rows))
    ]
    touched = set()
    for _ in range(rng.choice([1, 1, 2, 3, 20])):
        at = rng.randrange(rows)
        name = rng.choice(
            [
                "played_at",
                "game_id",
                "winner_id",
                "loser_id",
                "cube",
                "match_length",
                "revision",
                "advantage",
                "weight",
                "mode",
                "result",
            ]
        )
        touched.add(name)
        if name == "played_at":
            stamps[at] = rng.choice([*EXTREME_STAMPS[unit], None])
        elif name in ("cube", "match_length", "revision"):
            columns[name][at] = rng.choice(EXTREME_INTS)
        elif name in ("advantage", "weight"):
            columns[name][at] = rng.choice(EXTREME_FLOATS)
        elif name in ("mode", "result") or text:
            columns[name][at] = rng.choice([*EXTREME_TEXTS, None])
        else:
            columns[name][at] = rng.choice([*EXTREME_INTS, None])
    types = plain(rng, 1, text)
    table = pa.table(
        {name: pa.array(values, types[name].type if name != "ended_by" else pa.string()) for name, values in columns.items()}
        | {"played_at": pa.array(stamps, pa.int64()).cast(pa.timestamp(unit, "UTC"))}
    )
    note = f"{unit} {sorted(touched)}"
    if rng.random() < 0.1:  # text that is no UTF-8: pyarrow writes what it is given
        name = rng.choice(["mode", "ended_by", "result", *(["winner_id", "game_id"] if text else [])])
        values = [(v or "").encode() for v in table[name].to_pylist()]
        values[rng.randrange(rows)] = rng.choice([b"\xff\xfe", b"\xc3", b"ranked\x80", b"\xed\xa0\x80"])
        raw = pa.array(values, pa.binary())
        broken = pa.Array.from_buffers(pa.string(), rows, raw.buffers())
        table = table.set_column(table.column_names.index(name), name, broken)
        note += f" no UTF-8 in {name}"
    if rng.random() < 0.3:
        table = pa.concat_tables([table, table.slice(0, 5)])
    path = save(folder / "games.parquet", table, rng)
    rules = rng.choice(["tavla42", "nardy", "chess", "fibs-1pt", str(own_rules(folder, rng)), str(own_rules(folder, rng))])
    return Case("odd_values", note, [path], ["--chunk", rng.choice(["month", "week", "day"])], rules)


EXPRESSIONS = [
    "(select max(winner_id) from staged)", "(select 1)", "exists(select 1)", "winner_id); drop table staged; --", "1; drop table staged",
    "winner_id) from read_csv('/etc/passwd'); --", "winner_id, loser_id", "max(winner_id)", "row_number() over ()", "random()", "uuid()",
    "now()", "current_timestamp", "getenv('HOME')", "current_setting('threads')", "read_text('/etc/passwd')", "nextval('s')", "$1", "?", "*",
    "columns(*)", "missing_column", "winner_id || loser_id", "cast(winner_id as varchar)", "cast(winner_id as double)", "winner_id collate nocase",
    "case when cube = 1 then winner_id end", "list_transform([1], x -> x)[1]", "1/0", "cast('x' as bigint)", "error('x')", "repeat('a', 1000)",
    "winner_id -- comment", "winner_id /* comment", "winner_id) /*", "((winner_id", "'" + "a" * 5000 + "'", "(" * 1500 + "1" + ")" * 1500, "main.winner_id",
    "staged.winner_id", "played_at.x", "played_at", "timezone('UTC', played_at)", "timezone('Nowhere/Land', played_at)", "to_timestamp(cube)",
    "to_timestamp(9e18)", "to_timestamp('nan'::double)", "strptime('x', '%Y')", "cast(played_at as timestamp)", "cast(played_at as timestamp_ns)",
    "cast(played_at as date)", "played_at + interval 1 hour", "played_at - interval 300000 years", "'infinity'::timestamptz", "'-infinity'::timestamptz",
    "null", "true", "1", "1.5", "'x'", "[winner_id]", "{'a': winner_id}", "row(1)", "struct_pack(a := 1)", "nullif(winner_id, winner_id)", "cube = 1",
    "cube * 9223372036854775807", "-cube", "cast(cube as hugeint)", "cast(cube as utinyint)", "cast(weight as float)", "weight / 0", "sqrt(-1)", "ln(0)",
    "\u0000", "winner_id\u0000", "played_at at time zone 'UTC'", "file_row_number", "filename", "rowid", "#1", "default", "a.b.c.d", "\"winner_id\"", '"no such"',
    "if(cube > 1, winner_id, loser_id)", "coalesce(winner_id, loser_id)", "pragma_version()", "duckdb_settings()", "pg_sleep(1)", "txid_current()", "set x = 1",
    "winner_id limit 1", "winner_id where 1", "winner_id union select 1", "with a as (select 1) select 1", "distinct winner_id", "winner_id as x", "x := 1",
    "count(*)", "count(*) filter (where true)", "any_value(winner_id)", "unnest([1])", "generate_series(1, 3)", "json_serialize_sql('select 1')", "hash(winner_id)",
    "mode = 'x' or mode = 'y'", "mode in ('ranked')", "mode like '%'", "mode similar to '('", "regexp_matches(mode, '(')", "between 1 and 2", "cube between 1 and 2",
    "try_cast(mode as bigint)", "cast(mode as bigint)", "cast(mode as nothing)", "enum_code('x')", "'x'::blob", "md5(mode)", "concat(mode, mode)", "😀", "",
]  # fmt: skip


def hostile_mapping(rng: random.Random, folder: Path) -> Case:
    """A columns file that is wrong, hostile or merely odd."""
    path = save(folder / "games.parquet", plain(rng), rng)
    kind = rng.choice(["expression", "expression", "expression", "expression", "key", "toml"])
    if kind == "expression":
        name = rng.choice(
            [
                "game_id",
                "played_at",
                "winner_id",
                "loser_id",
                "mode",
                "cube",
                "voided",
                "weight",
                "is_draw",
                "revision",
                "match_length",
            ]
        )
        expression = rng.choice(EXPRESSIONS)
        text = f"[columns]\n{name} = {json.dumps(expression)}\n"
        if rng.random() < 0.5:
            text += '[time]\nnaive = "UTC"\n'
        note = f"{name} = {expression[:60]}"
    elif kind == "key":
        note = rng.choice(
            ['[columns]\nwinner = "x"', '[column]\nwinner_id = "x"', '[time]\nnaive = "Europe/Paris"', "[time]\nnaive = true", '[time]\nzone = "UTC"',
             "[columns]\ngame_id = 1", "[columns]\ngame_id = ['a']", "columns = 1", "time = []", '[columns]\npool = "mode"', "[columns]\ngame_id = ''",
             '[columns.game_id]\nname = "x"', "[[columns]]\na = 1"]
        )  # fmt: skip
        text = note
    else:
        note = rng.choice(
            [
                "[columns",
                'game_id "x"',
                "\ufeff[columns]",
                "[columns]\na = \n",
                '[columns]\ngame_id = "a"\ngame_id = "b"',
                "a" * 9999,
                "",
                "\0",
            ]
        )
        text = note
    columns = folder / "columns.toml"
    columns.write_bytes(
        rng.choice([text.encode(), text.encode(), text.encode(), text.encode("utf-16")]) if kind == "toml" else text.encode()
    )
    return Case("hostile_mapping", note[:80], [path], ["--columns", str(columns)], rng.choice(["tavla42", "nardy"]))


def hostile_table(rng: random.Random, folder: Path) -> Case:
    """Awards, aliases, excluded players or start ratings with extreme, missing, doubled or wrongly typed content."""
    text = rng.random() < 0.5
    path = save(folder / "games.parquet", plain(rng, 60, text), rng)
    n = rng.choice([0, 1, 5, 40])
    players: list[Any] = [f"p{i}" for i in range(12)] if text else list(range(12))
    odd: list[Any] = EXTREME_TEXTS if text else EXTREME_INTS
    which = rng.choice(["awards", "awards", "aliases", "aliases", "exclude-players", "start-ratings", "start-ratings"])

    def pick(values: list[Any], extremes: list[Any]) -> list[Any]:
        share = rng.choice([0.0, 0.0, 0.1, 0.5])
        return [rng.choice(extremes) if rng.random() < share else rng.choice(values) for _ in range(n)]

    id_type = pa.string() if text else pa.int64()
    stamps = [START_US + DAY_US * i for i in range(60)]
    columns = {
        "awards": lambda: {
            "award_id": pa.array(pick(list(range(99)), [*EXTREME_INTS, None]), pa.int64()),
            "awarded_at": pa.array(pick(stamps, [*EXTREME_STAMPS["us"], None]), pa.int64()).cast(UTC_US),
            "player_id": pa.array(pick(players, [*odd, None]), id_type),
            "points": pa.array(pick([1.0, 25.0, -10.0], [*EXTREME_FLOATS, None]), pa.float64()),
            "reason": pa.array(pick(["x", "y"], [*EXTREME_TEXTS, None]), pa.string()),
        },
        "aliases": lambda: {
            "alias_id": pa.array(pick(players, [*odd, None]), id_type),
            "player_id": pa.array(pick(players, [*odd, None]), id_type),
        },
        "exclude-players": lambda: {"player_id": pa.array(pick(players, [*odd, None]), id_type)},
        "start-ratings": lambda: {
            "player_id": pa.array(rng.sample(players, min(n, 12)) if rng.random() < 0.8 else pick(players, [*odd, None])[:12], id_type),
            "rating": pa.array(pick([1500.0, 1600.0], [*EXTREME_FLOATS, None])[:12], pa.float64()),
            "games": pa.array(pick([0, 10], [*EXTREME_INTS, None])[:12], pa.int64()),
            "experience": pa.array(pick([0.0, 10.0], [*EXTREME_FLOATS, None])[:12], pa.float64()),
        },
    }[which]()  # fmt: skip
    table = pa.table(columns)
    note = which
    change = rng.choice(["", "", "", "", "type", "missing", "twice", "damage", "naive"])
    name = rng.choice(table.column_names)
    if change == "type" and n:
        kind = rng.choice(list(_typed(rng, table.num_rows)))
        table = table.set_column(table.column_names.index(name), name, _typed(rng, table.num_rows)[kind]())
        note += f" {name} {kind}"
    elif change == "missing":
        table = table.drop_columns([name])
        note += f" no {name}"
    elif change == "twice":
        table = table.append_column(name, table[name])
        note += f" {name} twice"
    elif change == "naive" and which == "awards":
        table = table.set_column(1, "awarded_at", table["awarded_at"].cast(pa.timestamp("us")))
        note += " naive"
    file = save(folder / f"{which}.parquet", table, rng)
    if change == "damage":
        data = bytearray(file.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        note += " damaged"
    return Case(
        "hostile_table", note, [path], [f"--{which}", str(file)], rng.choice(["tavla42", "nardy", str(own_rules(folder, rng))])
    )


FAMILIES = (damaged, damaged, odd_schema, odd_values, odd_values, hostile_mapping, hostile_table)


def make(seed: int, folder: Path) -> Case:
    """The case of a seed, its files written into `folder`."""
    return FAMILIES[seed % len(FAMILIES)](random.Random(seed), folder)


# ---------------------------------------------------------------- running and judging


def published(out: Path) -> str:
    """What a reader of the folder can see: where `current` points, and every file behind it."""
    if not os.path.lexists(out / "current"):
        return "nothing"
    seen = hashlib.sha256(os.readlink(out / "current").encode())
    for path in sorted((out / "current").resolve().rglob("*")):
        if path.is_file():
            seen.update(str(path.relative_to(out.resolve())).encode())
            seen.update(path.read_bytes())
    return seen.hexdigest()


def rows_of(paths: list[Path]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in paths)


class Judge:
    """Runs cases against one output folder that holds a published run."""

    def __init__(self, home: Path) -> None:
        self.home, self.out = home, home / "out"
        first = Case("first", "", [save(home / "first.parquet", plain(random.Random(1)))])
        code, _, message = self._run(first)
        assert code == 0, message
        self.before = published(self.out)

    def _run(self, case: Case, threads: int = 1) -> tuple[int, str, str]:
        from eloreplay.cli import main

        stdout, stderr = io.StringIO(), io.StringIO()
        argv = ["backfill", *map(str, case.games), "--rules", case.rules, "--out", str(self.out), "--quiet", "--no-study"]
        argv += [
            "--max-rejected",
            "10%",
            "--keep",
            "1",
            "--memory-limit",
            "400MB",
            "--threads",
            str(threads),
            "--as-of",
            "2026-11-01",
            *case.options,
        ]
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = main(argv)
        return code, stdout.getvalue(), stderr.getvalue()

    def judge(self, seed: int) -> dict[str, Any]:
        """Run the case of a seed; `faults` lists what was wrong with how it ended."""
        folder = self.home / f"case{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        case = make(seed, folder)
        code, _, message = self._run(case, threads=1 + seed // len(FAMILIES) % 2)
        after = published(self.out)
        faults = []
        if "Traceback" in message or "unexpected" in message:
            faults.append("a fault of ours reaches the user")
        if (self.out / "work").exists():
            faults.append("the work folder stays")
        if code == 0:
            manifest = json.loads((self.out / "current" / "manifest.json").read_text(encoding="utf-8"))
            bins = manifest["bins"]
            binned = sum(v for v in bins.values() if isinstance(v, int)) + sum(bins["rejected"].values())
            if not binned == manifest["rows_read"] == rows_of(case.games):
                faults.append(f"bins {binned}, rows read {manifest['rows_read']}, rows {rows_of(case.games)}")
            tables = {path.stem: pq.read_table(path) for path in (self.out / "current").glob("*.parquet")}
            if tables["rejected"].num_rows != sum(bins["rejected"].values()):
                faults.append("rejected.parquet does not hold the refused rows")
            timeline = sum(pq.read_table(path).num_rows for path in (self.out / "current" / "timeline").glob("*.parquet"))
            if timeline != bins["rated"]:
                faults.append("the timeline does not hold the rated rows")
        else:
            if code not in (2, 3):
                faults.append("the exit code says that it was the machine")
            if len(message.strip()) < 20 or len(message) > 20_000:
                faults.append(f"a message of {len(message)} characters")
            if after != self.before:
                faults.append("the published run changed")
        self.before = after
        shutil.rmtree(folder, ignore_errors=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        return {
            "seed": seed, "family": case.family, "note": case.note, "code": code, "message": message[:1500], "faults": faults, "peak_mib": peak,
        }  # fmt: skip


def work() -> None:
    """Answer seeds from standard input until it ends."""
    os.fsync = lambda _descriptor: None  # as in the tests' own process: nobody cuts the power
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as home:
        judge = Judge(Path(home))
        replies.write(json.dumps({"ready": True}) + "\n")
        replies.flush()
        for line in sys.stdin:
            replies.write(json.dumps(judge.judge(int(line))) + "\n")
            replies.flush()


def show(seeds: list[int], verbose: bool) -> None:
    """Run the named seeds and print what happened."""
    with tempfile.TemporaryDirectory() as home:
        judge = Judge(Path(home))
        for seed in seeds:
            reply = judge.judge(seed)
            if reply["faults"] or verbose:
                sys.stdout.write(json.dumps(reply, indent=1) + "\n")


if __name__ == "__main__":
    named = [int(a) for a in sys.argv[1:] if a != "-v"]
    if named:
        show(named, "-v" in sys.argv)
    else:
        work()
