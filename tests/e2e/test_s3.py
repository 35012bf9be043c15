"""Objects: games and side tables are read as if they were files, and a run is published so that nobody ever sees half of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import support
from support_postgres import killed, made_up_run
from support_s3 import Storage, storage

from eloreplay import objects, send_s3
from eloreplay.cli import main
from eloreplay.sources import find_sources

ROOT = Path(__file__).parents[2]
NUMBERS = count(1)
AS_OF = "2026-03-01T00:00:00Z"


@pytest.fixture(scope="session")
def running() -> Iterator[Storage]:
    with storage() as found:
        yield found


@pytest.fixture
def bucket(running: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ELOREPLAY_OBJECTS_DIR", str(tmp_path / "copies"))
    name = f"bucket{next(NUMBERS)}"
    running.files.create_dir(name)
    return name


def call(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, out.getvalue(), err.getvalue()


def done(*words: object) -> dict[str, Any]:
    code, out, err = call(*words, "--json")
    assert code == 0, err + out
    return json.loads(out.splitlines()[-1])


def games(number: int, first: int = 0) -> list[support.Row]:
    start = support.ts("2026-01-01 00:00:00")
    return [
        support.game(at, start + at * 7_200_000_000, f"p{at % 13}", f"q{at * 7 % 11}", ladder=f"l{at % 2}")
        for at in range(first, first + number)
    ]


def backfill(out: Path, *arguments: object, rules: str = "tavla42") -> tuple[int, str, str]:
    return call("backfill", *arguments, "--rules", rules, "--out", out, "--as-of", AS_OF, "--no-study", "--quiet")


def same_tables(one: Path, other: Path, rejected: bool = True) -> None:
    for name in ("timeline/*.parquet", "players.parquet", "leaderboard.parquet", "awards.parquet"):
        assert pl.read_parquet(one / "current" / name).equals(pl.read_parquet(other / "current" / name)), name


# ---------------------------------------------------------------- input


def test_objects_are_read_like_files(running: Storage, bucket: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    support.write(folder / "a.parquet", games(60))
    support.write(
        folder / "deep" / "ä b%20*.parquet", [*games(60, 60), support.game(500, "2026-01-03 00:00:00", "x", "x", ladder="l0")]
    )
    support.write(tmp_path / "aliases.parquet", [{"alias_id": "p1", "player_id": "p2"}])
    award = {"award_id": 1, "awarded_at": support.ts("2026-01-02 00:00:00"), "player_id": "p3", "points": 7, "reason": "x"}
    support.write(tmp_path / "awards.parquet", [award])
    for path in folder.rglob("*.parquet"):
        running.put(f"{bucket}/games/{path.relative_to(folder)}", path)
    for hidden in ("_tmp/x.parquet", ".x.parquet", "note.txt", "ours/eloreplay.json", "ours/runs/x.parquet"):
        running.put(f"{bucket}/games/{hidden}", folder / "a.parquet")
    for name in ("aliases", "awards"):
        running.put(f"{bucket}/side/{name}.parquet", tmp_path / f"{name}.parquet")
    tables = ["--aliases", "aliases.parquet", "--awards", "awards.parquet", "--max-rejected", "5%"]
    files, objects_ = tmp_path / "files", tmp_path / "objects"
    assert backfill(files, folder, *[tmp_path / word if word.endswith("parquet") else word for word in tables])[0] == 0
    side = [f"s3://{bucket}/side/{word}" if word.endswith("parquet") else word for word in tables]
    code, _, err = backfill(objects_, f"s3://{bucket}/games", *side)
    assert code == 0, err
    same_tables(files, objects_)
    refused = pl.read_parquet(objects_ / "current" / "rejected.parquet")
    assert refused.select("file", "row", "reason").rows() == [(f"s3://{bucket}/games/deep/ä b%20*.parquet", 60, "self_play")]
    manifest = json.loads((objects_ / "current" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["input_options"]["aliases"] == f"s3://{bucket}/side/aliases.parquet"
    assert {record["path"] for record in manifest["inputs"] if record["table"] == "games"} == {
        f"s3://{bucket}/games/a.parquet",
        f"s3://{bucket}/games/deep/ä b%20*.parquet",
    }
    assert "hunter2" not in json.dumps(manifest)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", 4),
        ("/", 4),
        ("/a1.parquet", 1),
        ("/a?.parquet", 2),
        ("/a[!1].parquet", 1),
        ("/**/*.parquet", 4),
        ("/*/*.parquet", 1),
        ("/d*", 2),
        ("/deep/**/b.parquet", 2),
        ("/none", 0),
        ("/x*.parquet", 0),
        ("/**/.h.parquet", 1),
    ],
)
def test_what_a_name_means(running: Storage, bucket: str, tmp_path: Path, pattern: str, found: int) -> None:
    """As for files: what is found in a folder of the same content is found in the storage."""
    for name in ("a1.parquet", "a2.parquet", "deep/b.parquet", "deep/er/b.parquet", "deep/.h.parquet"):
        running.put(f"{bucket}/g/{name}", support.write(tmp_path / "g" / name, games(3)))
    local = str(tmp_path / "g") + pattern
    if found:
        assert len(find_sources([local], "games")) == found
    name = f"s3://{bucket}/g{pattern}"
    if found:
        assert len(objects.fetch([name])) == found
    else:
        with pytest.raises(objects.InputRefused, match="no such object"):
            objects.fetch([name])


def test_a_night_fetches_only_what_is_new(running: Storage, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    real = objects._download
    monkeypatch.setattr(objects, "_download", lambda fs, key, part: (fetched.append(key), real(fs, key, part))[1])
    for name, rows in (("a", games(60)), ("b", games(60, 60))):
        running.put(f"{bucket}/games/{name}.parquet", support.write(tmp_path / "in" / f"{name}.parquet", rows))
    where, out = f"s3://{bucket}/games", tmp_path / "out"
    assert backfill(out, where)[0] == 0
    assert sorted(fetched) == [f"{bucket}/games/a.parquet", f"{bucket}/games/b.parquet"]
    fetched.clear()
    assert done("nightly", where, "--out", out, "--as-of", AS_OF)["published"] is False
    assert not fetched
    # One object is new and one holds something else than before, in the very same number of bytes or not.
    running.put(f"{bucket}/games/c.parquet", support.write(tmp_path / "in" / "c.parquet", games(12, 120)))
    other = [{**row, "winner_id": row["loser_id"], "loser_id": row["winner_id"], "revision": 1} for row in games(1, 60)]
    running.put(f"{bucket}/games/b.parquet", support.write(tmp_path / "in" / "b.parquet", [*other, *games(59, 61)]))
    assert done("nightly", where, "--out", out, "--as-of", AS_OF, "--max-restated", "100%")["published"] is True
    assert sorted(fetched) == [f"{bucket}/games/b.parquet", f"{bucket}/games/c.parquet"]
    assert backfill(tmp_path / "again", tmp_path / "in")[0] == 0
    same_tables(out, tmp_path / "again")
    running.files.delete_file(f"{bucket}/games/a.parquet")
    code, _, err = call("nightly", where, "--out", out, "--as-of", AS_OF, "--quiet")
    assert code == 3
    assert f"is gone: s3://{bucket}/games/a.parquet" in err


@pytest.mark.parametrize("case", ["cut", "empty", "naive", "column", "missing", "no bucket"])
def test_what_is_wrong_with_an_object_is_said_of_the_object(running: Storage, bucket: str, tmp_path: Path, case: str) -> None:
    path = support.write(tmp_path / "x.parquet", games(30))
    if case == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif case == "empty":
        path.write_bytes(b"")
    elif case == "naive":
        frame = pl.read_parquet(path).with_columns(pl.col("played_at").dt.replace_time_zone(None))
        frame.write_parquet(path)
    elif case == "column":
        pl.read_parquet(path).drop("winner_id").write_parquet(path)
    if case != "missing":
        running.put(f"{bucket}/g/x.parquet", path)
    name = f"s3://{bucket}x/g/x.parquet" if case == "no bucket" else f"s3://{bucket}/g/x.parquet"
    code, _, err = backfill(tmp_path / "out", name)
    assert (code, name in err) == (3, True), err
    said = {
        "cut": "not a whole Parquet file",
        "empty": "0 bytes",
        "naive": "without a zone",
        "column": "winner_id",
        "missing": "no such object",
        "no bucket": "there is no bucket",
    }
    assert said[case] in err, err
    assert not (tmp_path / "out" / "current").exists()


def test_an_object_that_is_replaced_while_it_is_fetched(
    running: Storage, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.put(f"{bucket}/x.parquet", support.write(tmp_path / "x.parquet", games(30)))
    real = objects._download

    def download(fs: Any, key: str, part: Any) -> None:
        real(fs, key, part)
        running.put(key, support.write(tmp_path / "x.parquet", games(31)))

    monkeypatch.setattr(objects, "_download", download)
    code, _, err = backfill(tmp_path / "out", f"s3://{bucket}/x.parquet")
    assert code == 3
    assert "replaced while it was fetched" in err
    monkeypatch.setattr(objects, "_download", real)
    assert backfill(tmp_path / "out", f"s3://{bucket}/x.parquet")[0] == 0
    assert not list((tmp_path / "copies").rglob(".part-*"))


@pytest.mark.parametrize("way", ["input", "publish"])
def test_wrong_credentials_are_said_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("ELOREPLAY_OBJECTS_DIR", str(tmp_path / "copies"))
    made_up_run(tmp_path / "made", 1, 100)
    with storage(closed=True) as shut:
        for name, value in shut.environment.items():
            monkeypatch.setenv(name, value)
        if way == "input":
            code, out, err = backfill(tmp_path / "out", "s3://games/x.parquet")
        else:
            code, out, err = call("publish", tmp_path / "made", "--to", "s3://games/x")
    assert code == 1
    assert re.search(r"s3://games/x.*(AWS_ACCESS_KEY_ID|credentials of the environment)", err), err
    assert "hunter2" not in out + err


@pytest.mark.parametrize(
    ("variable", "value", "code", "said"),
    [
        ("AWS_ENDPOINT_URL", "nonsense", 2, "an address such as https://"),
        ("AWS_ENDPOINT_URL", "http://me:hunter2@127.0.0.1", 2, "without credentials"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", 1, "is AWS_ENDPOINT_URL right?"),
        ("ELOREPLAY_OBJECTS_DIR", "/dev/null/x", 1, "ELOREPLAY_OBJECTS_DIR names another folder"),
    ],
)
def test_what_is_wrong_with_the_environment_is_said(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, code: int, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(objects, "CONNECT_S", 1.0)
    found, _, err = backfill(tmp_path / "out", f"s3://{bucket}/x.parquet")
    assert (found, said in err) == (code, True), err
    assert "hunter2" not in err


@pytest.mark.parametrize("name", ["s3://", "s3:///x", "s3://b*/x", "s3://b//x"])
def test_what_is_no_name_of_an_object(bucket: str, tmp_path: Path, name: str) -> None:
    assert backfill(tmp_path / "out", name)[0] == 2


# ---------------------------------------------------------------- publishing


def published(running: Storage, place: str) -> dict[str, Any]:
    """What `current.json` says, once every file that it names has been read and is what it says."""
    import hashlib

    content = json.loads(running.read(f"{place}/current.json"))
    for file in content["files"]:
        data = running.read(f"{place}/{content['folder']}/{file['name']}")
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["bytes"], file["sha256"])
    return content


def test_a_run_is_published_whole_and_later_only_what_differs(running: Storage, bucket: str, tmp_path: Path) -> None:
    out, place = tmp_path / "out", f"{bucket}/site/ratings"
    made_up_run(out, 1, 5000, chunks=10)
    planned = done("publish", out, "--to", f"s3://{place}", "--dry-run")
    assert not running.keys(place)
    first = done("publish", out, "--to", f"s3://{place}/")
    assert (first["rows"], first["chunks_sent"], first["run_before"]) == (planned["rows"], 10, None)
    content = published(running, place)
    assert (content["run"], content["rated_games"], len(content["files"])) == ("000001", 5000, 14)
    run = (out / "current").resolve()
    for file in content["files"]:
        assert running.read(f"{place}/{content['folder']}/{file['name']}") == (run / file["name"]).read_bytes()
    assert done("publish", out, "--to", f"s3://{place}")["rows_sent"] == 0

    for number in (2, 3, 4):
        made_up_run(out, number, 5000, chunks=10, stays=8)
        night = done("publish", out, "--to", f"s3://{place}")
        assert (night["chunks_sent"], night["chunks_unchanged"], night["rows"]["timeline"]) == (2, 8, 1000)
        content = published(running, place)
        assert content["run"] == f"{number:06d}"
    kept = {key.split("/")[1] for key in running.keys(place) if key.startswith("runs/")}
    assert {f"runs/{name}" for name in kept} == set(content["kept"])
    assert sorted(name[:6] for name in kept) == ["000002", "000003", "000004"]
    # The ratings that lie there are no games.
    with pytest.raises(objects.InputRefused):
        objects.fetch([f"s3://{bucket}/site"])


def test_two_folders_with_the_same_number_do_not_mix(running: Storage, bucket: str, tmp_path: Path) -> None:
    made_up_run(tmp_path / "a", 1, 1000)
    made_up_run(tmp_path / "b", 1, 1200)
    folders = set()
    for name in ("a", "b", "a"):
        done("publish", tmp_path / name, "--to", f"s3://{bucket}")
        content = published(running, bucket)
        assert content["rated_games"] == {"a": 1000, "b": 1200}[name]
        folders.add(content["folder"])
    assert len(folders) == 2


@pytest.mark.parametrize("first", [True, False], ids=["the first time", "over an old run"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_an_interrupted_upload_is_never_seen(running: Storage, bucket: str, tmp_path: Path, first: bool, share: float) -> None:
    out, before = tmp_path / "out", None
    if not first:
        made_up_run(out, 1, 2000)
        done("publish", out, "--to", f"s3://{bucket}/r")
        before = running.read(f"{bucket}/r/current.json")
    made_up_run(out, 2, 40_000)
    assert killed(["publish", out, "--to", f"s3://{bucket}/r"], "sending", share) == -signal.SIGKILL
    if first:
        assert "current.json" not in running.keys(f"{bucket}/r")
    else:
        assert running.read(f"{bucket}/r/current.json") == before
        assert published(running, f"{bucket}/r")["run"] == "000001"
    again = done("publish", out, "--to", f"s3://{bucket}/r")
    assert again["rows_sent"] > 0
    assert again["chunks_sent"] == (9 if share == 0 else 4)
    assert published(running, f"{bucket}/r")["run"] == "000002"


def test_a_failed_upload_and_a_lost_old_object(
    running: Storage, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    made_up_run(out, 1, 2000)
    done("publish", out, "--to", f"s3://{bucket}")
    made_up_run(out, 2, 2000, stays=9)
    real = send_s3.Place.upload

    def upload(self: send_s3.Place, path: Path, name: str) -> None:
        if name.endswith("players.parquet"):
            raise send_s3.EnvironmentFault("the line is cut")
        real(self, path, name)

    monkeypatch.setattr(send_s3.Place, "upload", upload)
    code, _, err = call("publish", out, "--to", f"s3://{bucket}")
    assert (code, "the line is cut" in err) == (1, True)
    old = published(running, bucket)
    assert old["run"] == "000001"
    monkeypatch.setattr(send_s3.Place, "upload", real)
    for key in running.keys(f"{bucket}/runs"):
        if key.startswith("000002") or "timeline/000001" in key:
            running.files.delete_file(f"{bucket}/runs/{key}")
    # What can no longer be copied is sent.
    assert done("publish", out, "--to", f"s3://{bucket}")["chunks_sent"] == 2
    assert published(running, bucket)["run"] == "000002"


def test_a_bucket_that_is_not_there(bucket: str, tmp_path: Path) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    code, _, err = call("publish", tmp_path / "out", "--to", f"s3://{bucket}x/ratings")
    assert (code, "there is no such bucket" in err) == (1, True), err


def test_a_place_of_somebody_else(running: Storage, bucket: str, tmp_path: Path) -> None:
    made_up_run(tmp_path / "out", 1, 100)
    (tmp_path / "x").write_text('{"site": 1}', encoding="utf-8")
    running.put(f"{bucket}/current.json", tmp_path / "x")
    code, _, err = call("publish", tmp_path / "out", "--to", f"s3://{bucket}")
    assert (code, "not one that eloreplay made" in err) == (2, True)
    assert running.keys(bucket) == ["current.json"]


# ---------------------------------------------------------------- the page


def test_the_page_does_what_it_shows(running: Storage, bucket: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to-s3.md").read_text(encoding="utf-8").replace("s3://site", f"s3://{bucket}")
    page = page.replace('"site/', f'"{bucket}/')
    for path in (ROOT / "data" / "games").glob("*.parquet"):
        running.put(f"{bucket}/games/{path.name}", path)
    ran = 0
    with contextlib.chdir(tmp_path):
        (tmp_path / "data").symlink_to(ROOT / "data")
        for language, text in re.findall(r"^```(console|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
            ran += 1
            if language == "python":
                said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, env=os.environ)
                assert said.returncode == 0, said.stderr
                assert said.stdout.strip() == "147395", text
                continue
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, *shown = part.replace("\\\n", "").splitlines()
                code, out, err = call(*command.split()[1:])
                assert code == 0, err
                for line in shown:
                    assert line == "…" or any(found.startswith(line.partition("…")[0]) for found in out.splitlines()), out
    assert ran == 4
