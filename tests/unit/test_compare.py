"""`compare_runs` finds every kind of difference, however small, and nothing where there is none."""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import support
from support import Backfill, game

from eloreplay.compare import compare_runs
from eloreplay.differences import Difference, same_bytes
from eloreplay.errors import EnvironmentFault
from eloreplay.sidebyside import BATCH_ROWS

NOON = support.ts("2026-03-01 12:00:00")
DAY = 86_400_000_000


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with games in three months, awards, refused games and refused awards, under rules with float ratings."""
    base = tmp_path_factory.mktemp("compared")
    games = [
        game(f"g{i:02}", NOON + i * DAY, f"p{i % 5}", f"q{i % 3}", match_length=[1, 3, 5, 7][i % 4], mode="ranked")
        for i in range(60)
    ]
    games += [game("self", NOON, "p0", "p0", match_length=1), game("long", NOON, "p0", "p1", match_length=0)]
    awards = [
        {"award_id": "a1", "awarded_at": NOON + DAY, "player_id": "p1", "points": 5.5, "reason": "cup"},
        {"award_id": "a2", "awarded_at": None, "player_id": "p2", "points": 1.0, "reason": "lost"},
    ]
    run = Backfill(base)(games, "--max-rejected", "1", "--as-of", "2027-01-01", rules="fibs", awards=awards)
    run.ok()
    assert {path.name for path in run.current.glob("*.parquet")} >= {"rejected_awards.parquet", "rejected.parquet"}
    assert len(list((run.current / "timeline").iterdir())) == 2
    return run.current.resolve()


@pytest.fixture
def other(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "other"))


def edit(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def put(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    """The table with one value replaced; a float by its bits when `value` is an int."""
    at = table.column_names.index(column)
    kind = table.schema.field(column).type
    values = table[column].to_pylist()
    values[row] = struct.unpack("<d", struct.pack("<q", value))[0] if pa.types.is_floating(kind) and type(value) is int else value
    return table.set_column(at, table.schema.field(column), pa.array(values, kind))


def bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def timeline(run: Path) -> list[Path]:
    return sorted((run / "timeline").iterdir())


def test_a_run_is_equal_to_itself_and_to_a_copy(original: Path, other: Path) -> None:
    assert compare_runs(original, original) is None
    assert compare_runs(original, other) is None


def test_files_of_the_same_bytes_are_not_decoded(original: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_arguments: object, **_named: object) -> None:
        raise AssertionError("a file was decoded")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", never)
    assert compare_runs(original, other) is None


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_cut_into_files_does_not_matter(original: Path, other: Path, size: int) -> None:
    files = timeline(other)
    whole = pa.concat_tables([pq.read_table(path) for path in files])
    for path in files:
        path.unlink()
    for number, first in enumerate(range(0, len(whole), size)):
        pq.write_table(whole.slice(first, size), other / "timeline" / f"{number:06}.parquet", compression="gzip", row_group_size=2)
    assert compare_runs(original, other) is None
    assert compare_runs(other, original) is None


def test_an_empty_file_in_between_does_not_matter(original: Path, other: Path) -> None:
    schema = pq.read_schema(timeline(other)[0])
    for name in ("000000.parquet", "000001_zz.parquet", "999999.parquet"):
        pq.write_table(schema.empty_table(), other / "timeline" / name)
    assert compare_runs(original, other) is None
    assert compare_runs(other, original) is None


def test_the_writer_does_not_matter(original: Path, other: Path) -> None:
    for path in other.rglob("*.parquet"):
        pq.write_table(pq.read_table(path), path, compression="none", use_dictionary=False, row_group_size=3)
    assert compare_runs(original, other) is None


# ---------------------------------------------------------------- values

#: table, column, row, value, and what the sentence must have.
VALUES = [
    ("players", "games", 3, 999, ["players, row 3", "games is", "999"]),
    ("players", "player_id", 0, "p0 ", ["players, row 0", "player_id 'p0'", "'p0 '"]),
    ("players", "experience", 1, None, ["experience is", "NULL"]),
    ("players", "last_played_at", 2, 0, ["last_played_at is", "1970-01-01T00:00:00Z"]),
    ("leaderboard", "rank", 4, 4_000_000_000, ["leaderboard, row 4", "rank is 5", "4000000000"]),
    ("awards", "points", 0, 5.25, ["awards, row 0", "award_id 'a1'", "5.5", "5.25"]),
    ("calibration", "games", 5, 77, ["calibration, row 5", "axis", "77"]),
    ("summary", "value", 2, 0.125, ["summary, row 2", "statistic", "0.125"]),
]


@pytest.mark.parametrize(("table", "column", "row", "value", "words"), VALUES, ids=[f"{v[0]}.{v[1]}" for v in VALUES])
def test_one_value(original: Path, other: Path, table: str, column: str, row: int, value: Any, words: list[str]) -> None:
    edit(other / f"{table}.parquet", lambda t: put(t, column, row, value))
    found = compare_runs(original, other)
    assert found is not None
    assert (found.table, found.row, found.column) == (table, row, column)
    for word in words:
        assert word in str(found)
    # The other way round it is the same place, with the values exchanged.
    back = compare_runs(other, original)
    assert back is not None
    assert (back.table, back.row, back.column, back.left, back.right) == (table, row, column, found.right, found.left)


def test_a_value_in_the_second_timeline_file_has_its_row_of_the_whole(original: Path, other: Path) -> None:
    first, second = timeline(other)
    before = pq.read_metadata(first).num_rows
    edit(second, lambda t: put(t, "winner_id", 4, "x"))
    found = compare_runs(original, other)
    assert found is not None
    assert (found.table, found.row, found.column, found.right) == ("timeline", before + 4, "winner_id", "x")
    assert found.key == {"game_id": f"g{before + 4:02}"}
    assert f"timeline, row {before + 4} (game_id 'g{before + 4:02}'): winner_id is" in str(found)


def test_the_topmost_row_is_told_and_of_it_the_leftmost_column(original: Path, other: Path) -> None:
    edit(timeline(other)[0], lambda t: put(put(put(t, "winner_id", 9, "x"), "stake", 7, 9.0), "advantage", 7, 3.0))
    found = compare_runs(original, other)
    assert found is not None
    assert (found.row, found.column) == (7, "stake")


def test_the_last_bit_of_a_float(original: Path, other: Path) -> None:
    edit(timeline(other)[0], lambda t: put(t, "winner_change", 6, bits(t["winner_change"][6].as_py()) + 1))
    found = compare_runs(original, other)
    assert found is not None
    assert (found.row, found.column) == (6, "winner_change")
    assert found.right == math.nextafter(found.left, math.inf)
    assert repr(found.left) in str(found)
    assert repr(found.right) in str(found)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (0.0, -0.0, False),
        (math.nan, math.nan, True),
        (0x7FF8000000000000, 0x7FF8000000000001, False),
        (math.nan, None, False),
        (0.0, None, False),
        (math.inf, -math.inf, False),
        (5e-324, 0.0, False),
        (-0.0, -0.0, True),
        (None, None, True),
    ],
)
def test_floats_bit_by_bit(original: Path, other: Path, tmp_path: Path, left: Any, right: Any, equal: bool) -> None:
    here = Path(shutil.copytree(original, tmp_path / "here"))
    for run, value in ((here, left), (other, right)):
        edit(run / "players.parquet", lambda t, value=value: put(t, "experience", 2, value))
    # Equal values in files that are not equal, so that they are decoded.
    edit(here / "players.parquet", lambda t: t.replace_schema_metadata({"made": "elsewhere"}))
    found = compare_runs(here, other)
    if equal:
        assert found is None
    else:
        assert found is not None
        assert (found.table, found.row, found.column) == ("players", 2, "experience")
        said = str(found).split("experience is ")[1]
        assert said.split(" in ")[0] != said.split(" and ")[1].split(" in ")[0], f"both sides read alike: {said}"


def test_single_floats_bit_by_bit(original: Path, other: Path, tmp_path: Path) -> None:
    here = Path(shutil.copytree(original, tmp_path / "here"))
    for run, value in ((here, 0.0), (other, -0.0)):
        pq.write_table(pa.table({"x": pa.array([1.0, value], pa.float32())}), run / "extra.parquet")
    found = compare_runs(here, other)
    assert found is not None
    assert (found.table, found.row, found.column) == ("extra", 1, "x")


def test_instants_that_no_calendar_has(original: Path, other: Path) -> None:
    far = pa.scalar(2**62, pa.timestamp("us", "UTC"))
    kind = far.type

    def move(table: pa.Table) -> pa.Table:
        values = pa.concat_arrays([pa.array([2**62], pa.int64()).cast(kind), table["last_played_at"].combine_chunks().slice(1)])
        return table.set_column(table.column_names.index("last_played_at"), "last_played_at", values)

    edit(other / "players.parquet", move)
    found = compare_runs(original, other)
    assert found is not None
    assert f"{2**62} us" in str(found)


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("table", ["players", "leaderboard", "calibration", "summary"])
def test_the_order_of_rows(original: Path, other: Path, table: str) -> None:
    edit(other / f"{table}.parquet", lambda t: pa.concat_tables([t.slice(0, 1), t.slice(2, 1), t.slice(1, 1), t.slice(3)]))
    found = compare_runs(original, other)
    assert found is not None
    assert (found.table, found.row) == (table, 1)


def test_two_games_exchanged(original: Path, other: Path) -> None:
    def exchange(table: pa.Table) -> pa.Table:
        return pa.concat_tables([table.slice(0, 3), table.slice(4, 1), table.slice(3, 1), table.slice(5)])

    edit(timeline(other)[0], exchange)
    found = compare_runs(original, other)
    assert found is not None
    assert (found.table, found.row, found.column) == ("timeline", 3, "seq")


@pytest.mark.parametrize("table", ["timeline", "players", "leaderboard", "awards", "calibration", "summary"])
def test_a_row_more_or_less(original: Path, other: Path, table: str) -> None:
    path = timeline(other)[-1] if table == "timeline" else other / f"{table}.parquet"
    rows = sum(pq.read_metadata(p).num_rows for p in (timeline(other) if table == "timeline" else [path]))
    edit(path, lambda t: t.slice(0, len(t) - 1))
    for found, side in ((compare_runs(original, other), "the first run"), (compare_runs(other, original), "the second run")):
        assert found is not None
        assert (found.table, found.row) == (table, rows - 1)
        assert f"only {side} has this row" in str(found)
        assert str(rows) in str(found)
        assert found.key


def test_a_timeline_file_is_missing(original: Path, other: Path) -> None:
    first, second = timeline(other)
    rows = pq.read_metadata(first).num_rows
    second.unlink()
    found = compare_runs(original, other)
    assert found is not None
    assert (found.table, found.row, found.key) == ("timeline", rows, {"game_id": f"g{rows}"})


def test_the_first_timeline_file_is_missing(original: Path, other: Path) -> None:
    timeline(other)[0].unlink()
    found = compare_runs(original, other)
    assert found is not None
    assert (found.table, found.row, found.column) == ("timeline", 0, "seq")


def test_no_timeline_at_all(original: Path, other: Path) -> None:
    shutil.rmtree(other / "timeline")
    found = compare_runs(original, other, ("here", "there"))
    assert str(found) == "timeline: the table is missing in there"
    assert str(compare_runs(other, other, ("here", "there"))) == "timeline: the table is missing in here and in there"


@pytest.mark.parametrize("table", ["players", "leaderboard", "awards", "calibration", "summary", "rejected", "rejected_awards"])
def test_a_table_is_missing(original: Path, other: Path, table: str) -> None:
    (other / f"{table}.parquet").unlink()
    assert str(compare_runs(original, other, ("here", "there"))) == f"{table}: the table is missing in there"
    assert str(compare_runs(other, original, ("here", "there"))) == f"{table}: the table is missing in here"


def test_a_table_that_nobody_knows_yet_is_compared_as_well(original: Path, other: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), other / "zebra.parquet")
    assert "zebra: the table is missing in the first run" in str(compare_runs(original, other))


def test_changes_are_left_out(original: Path, other: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), other / "changes.parquet")
    (other / "fold").mkdir(exist_ok=True)
    (other / "fold" / "state.parquet").write_bytes(b"anything")
    assert compare_runs(original, other) is None


# ---------------------------------------------------------------- schema

SCHEMAS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a column more": lambda t: t.append_column("more", pa.nulls(len(t), pa.int32())),
    "a column less": lambda t: t.drop_columns([t.column_names[-1]]),
    "another name": lambda t: t.rename_columns([*t.column_names[:-1], "other"]),
    "another order": lambda t: t.select([*t.column_names[:-2], t.column_names[-1], t.column_names[-2]]),
    "another type": lambda t: t.set_column(
        0, t.column_names[0], t[0].cast(pa.large_string() if t.schema[0].type == "string" else pa.int16())
    ),
    "never NULL": lambda t: t.cast(pa.schema([t.schema.field(0).with_nullable(False), *list(t.schema)[1:]])),
}


@pytest.mark.parametrize("table", ["timeline", "players", "rejected"])
@pytest.mark.parametrize("change", sorted(SCHEMAS))
def test_the_schema(original: Path, other: Path, table: str, change: str) -> None:
    edit(timeline(other)[1] if table == "timeline" else other / f"{table}.parquet", SCHEMAS[change])
    for found in (compare_runs(original, other), compare_runs(other, original)):
        assert found is not None
        assert found.table == table
        assert "the schema differs: column" in str(found)
        assert found.column


# ---------------------------------------------------------------- refused rows


def elsewhere(table: pa.Table) -> pa.Table:
    """Refused rows in the opposite order, from other places of another file."""
    table = table.take(list(reversed(range(len(table)))))
    places = {"file": ["elsewhere"] * len(table), "row": list(range(7, 7 + len(table)))}
    for name, values in places.items():
        field = table.schema.field(name)
        table = table.set_column(table.column_names.index(name), field, pa.array(values, field.type))
    return table


@pytest.mark.parametrize("table", ["rejected", "rejected_awards"])
def test_refused_rows_have_no_order_and_no_place(original: Path, other: Path, tmp_path: Path, table: str) -> None:
    here = Path(shutil.copytree(original, tmp_path / "here"))
    for run in (here, other):
        edit(run / f"{table}.parquet", lambda t: pa.concat_tables([t, t.slice(0, 1)]))
    edit(other / f"{table}.parquet", elsewhere)
    assert not same_bytes(here / f"{table}.parquet", other / f"{table}.parquet")
    assert compare_runs(here, other) is None
    # But how often a row stands does matter.
    found = compare_runs(original, other)
    assert found is not None
    assert found.table == table
    assert "the second run has this row 1 times more than the first run" in str(found)


def test_a_refused_row_differs(original: Path, other: Path) -> None:
    edit(other / "rejected.parquet", lambda t: put(t, "reason", 0, "bad_cube"))
    found = compare_runs(original, other)
    assert found is not None
    assert found.table == "rejected"
    assert found.key is not None
    assert found.key["reason"] in {"bad_cube", "self_play", "bad_match_length"}


# ---------------------------------------------------------------- counts, damage


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("rows_read",), "rows_read"),
        (("bins", "rated"), "bins.rated"),
        (("bins", "rejected", "self_play"), "bins.rejected.self_play"),
        (("award_bins", "held"), "award_bins.held"),
    ],
)
def test_the_counts_of_the_manifest(original: Path, other: Path, path: tuple[str, ...], name: str) -> None:
    manifest = json.loads((other / "manifest.json").read_text(encoding="utf-8"))
    part = manifest
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] += 1
    (other / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    found = compare_runs(original, other)
    assert found is not None
    assert (found.table, found.column) == ("manifest", name)
    assert found.right == found.left + 1


def test_a_bin_that_only_one_manifest_has(original: Path, other: Path) -> None:
    manifest = json.loads((other / "manifest.json").read_text(encoding="utf-8"))
    del manifest["bins"]["rejected"]["bad_cube"]
    (other / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert "bins.rejected.bad_cube is 0 in the first run and NULL in the second run" in str(compare_runs(original, other))


def test_what_else_a_manifest_says_does_not_matter(original: Path, other: Path) -> None:
    manifest = json.loads((other / "manifest.json").read_text(encoding="utf-8"))
    manifest |= {"run": "000009", "as_of": None, "timings": {}, "notes": ["x"], "inputs": []}
    (other / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert compare_runs(original, other) is None


@pytest.mark.parametrize("damage", ["cut", "empty", "middle"])
@pytest.mark.parametrize("table", ["timeline", "players", "rejected"])
def test_a_damaged_file_is_a_difference(original: Path, other: Path, table: str, damage: str) -> None:
    path = timeline(other)[1] if table == "timeline" else other / f"{table}.parquet"
    content = path.read_bytes()
    if damage == "middle":  # of a column that is compared
        column = {"timeline": "winner_id", "players": "rating", "rejected": "reason"}[table]
        metadata = pq.read_metadata(path)
        chunk = metadata.row_group(0).column(metadata.schema.names.index(column))
        start, size = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size
        content = content[:start] + bytes(byte ^ 0xFF for byte in content[start : start + size]) + content[start + size :]
    path.write_bytes(content[:-20] if damage == "cut" else b"" if damage == "empty" else content)
    found = compare_runs(original, other)
    assert found is not None
    assert found.table == table


def test_a_damaged_manifest_is_no_difference_but_a_fault(original: Path, other: Path) -> None:
    (other / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(EnvironmentFault, match="manifest"):
        compare_runs(original, other)


# ---------------------------------------------------------------- hostile names, sizes


def test_names_of_folders_are_taken_as_they_are(original: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s [a] *?{b} "run"'
    shutil.copytree(original, odd)
    edit(odd / "rejected.parquet", lambda t: t.take(list(reversed(range(len(t))))))
    assert compare_runs(original, odd) is None
    edit(odd / "rejected.parquet", lambda t: t.slice(1))
    assert isinstance(compare_runs(original, odd), Difference)


@pytest.mark.parametrize("at", [0, BATCH_ROWS - 1, BATCH_ROWS, 2 * BATCH_ROWS + 1, 3 * BATCH_ROWS + 4])
def test_a_difference_at_the_edges_of_what_is_read_at_once(original: Path, other: Path, tmp_path: Path, at: int) -> None:
    here = Path(shutil.copytree(original, tmp_path / "here"))
    values = list(range(3 * BATCH_ROWS + 5))
    pq.write_table(pa.table({"x": values}), here / "extra.parquet", row_group_size=1000)
    pq.write_table(pa.table({"x": values}), other / "extra.parquet")
    assert compare_runs(here, other) is None
    values[at] = -1
    pq.write_table(pa.table({"x": values}), other / "extra.parquet")
    found = compare_runs(here, other)
    assert found is not None
    assert (found.row, found.left, found.right) == (at, at, -1)


def test_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abcd"]
    block = bytes(range(256)) * 8192  # 2 MiB: several blocks
    for path, content in zip(paths, (block, block, block[:-1] + b"x", block + b"x"), strict=True):
        path.write_bytes(content)
    assert same_bytes(paths[0], paths[0])
    assert same_bytes(paths[0], paths[1])
    assert not same_bytes(paths[0], paths[2])
    assert not same_bytes(paths[0], paths[3])
    assert not same_bytes(paths[0], tmp_path / "none")
