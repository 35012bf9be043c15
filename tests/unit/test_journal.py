"""The journal: whole lines only, bounded, mended after a kill, and never in anybody's way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import support
from support import Backfill, game

from eloreplay import boards, journal
from eloreplay.errors import BudgetExceeded, EnvironmentFault, FolderBusy, InputRefused, UsageFault

NOON = support.ts("2026-03-01 12:00:00")
SECOND = 1_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that is ours, without a run."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "eloreplay.json").write_text('{"format": 1}')
    return tmp_path / "out"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("journal")
    games = [game(f"g{i}", NOON + i * SECOND, f"p{i % 3}", "q") for i in range(9)]
    return Backfill(base)(games, "--as-of", "2026-04-01").ok().folder


@pytest.fixture
def site(published: Path, tmp_path: Path) -> Path:
    """A folder with a published run that nobody has recorded."""
    out = Path(shutil.copytree(published, tmp_path / "site", symlinks=True))
    (out / journal.NAME).unlink(missing_ok=True)
    shutil.rmtree(out / "boards", ignore_errors=True)
    return out


def test_lines_come_back_in_order_with_their_time(root: Path) -> None:
    assert journal.entries(root) == []
    assert journal.record(root, {"command": "nightly", "run": "000001"})
    assert journal.record(root, {"time": "2026-03-01T00:00:00Z", "command": "verify"})
    first, second = journal.entries(root)
    assert list(first) == ["time", "command", "run"]
    assert first["time"].endswith("Z")
    assert second == {"time": "2026-03-01T00:00:00Z", "command": "verify"}


def test_a_folder_that_is_not_ours_gets_no_journal(tmp_path: Path) -> None:
    assert not journal.record(tmp_path, {"command": "nightly"})
    assert not journal.record(tmp_path / "none", {"command": "nightly"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["two\nlines\r\n", "\x1b[31m\x00", "\u2028\u2029\x85", "naïve 漢字", "\udcff not UTF-8", '"}\n{"command": "forged"}'],
)
def test_hostile_text_stays_in_its_line(root: Path, text: str) -> None:
    journal.record(root, {"message": text})
    journal.record(root, {"message": "next"})
    assert [entry["message"] for entry in journal.entries(root)] == [text, "next"]
    assert (root / journal.NAME).read_bytes().isascii()
    assert len((root / journal.NAME).read_bytes().splitlines()) == 2


@pytest.mark.parametrize("left", [b'{"command": "nigh', b"\xff\xfe\x00", b"[1, 2]", b"7", b"", b"{}x"])
def test_a_damaged_line_is_passed_over_and_does_not_spoil_the_next(root: Path, left: bytes) -> None:
    journal.record(root, {"n": 1})
    with (root / journal.NAME).open("ab") as file:
        file.write(left)  # without its end, as a kill leaves it
    assert [entry["n"] for entry in journal.entries(root)] == [1]
    journal.record(root, {"n": 2})
    assert [entry["n"] for entry in journal.entries(root)] == [1, 2]


def test_the_last_lines_are_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "KEPT_LINES", 20)
    for n in range(50):
        journal.record(root, {"n": n})
        assert [entry["n"] for entry in journal.entries(root)] == list(range(max(0, n - 19), n + 1))
    assert sorted(path.name for path in root.iterdir()) == ["eloreplay.json", journal.NAME]


def test_five_thousand_lines_are_kept(root: Path) -> None:
    (root / journal.NAME).write_text("".join(json.dumps({"n": n}) + "\n" for n in range(6000)))
    journal.record(root, {"n": 6000})
    found = journal.entries(root)
    assert len(found) == 5000
    assert [found[0]["n"], found[-1]["n"]] == [1001, 6000]


WRITER = """
import sys
from pathlib import Path
from eloreplay import boards, journal
journal.KEPT_LINES = int(sys.argv[2])
for n in range(150):
    assert journal.record(Path(sys.argv[1]), {"who": sys.argv[3], "n": n, "text": "x" * 300})
"""


@pytest.mark.parametrize("kept", [10_000, 150])
def test_lines_of_several_processes_do_not_mix(root: Path, kept: int) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(root), str(kept), who]) for who in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    lines = (root / journal.NAME).read_bytes().splitlines()
    found = journal.entries(root)
    assert len(found) == len(lines) == min(kept, 450)
    for who in "abc":
        numbers = [entry["n"] for entry in found if entry["who"] == who]
        # In order, and when shortened still without a gap: only what is oldest goes.
        assert numbers == list(range(150 - len(numbers), 150))


def test_a_journal_that_cannot_be_written_stops_nobody(root: Path) -> None:
    (root / journal.NAME).mkdir()
    assert not journal.record(root, {"n": 1})
    with pytest.raises(EnvironmentFault, match=journal.NAME):
        journal.entries(root)


# ---------------------------------------------------------------- attempts


def test_an_attempt_that_ends_well(root: Path) -> None:
    with journal.attempt(root, "nightly") as entry:
        entry |= {"run": "000007", "new_games": 3}
    with journal.attempt(root, "nightly") as entry:
        entry["outcome"] = journal.NOTHING_NEW
    first, second = journal.entries(root)
    assert {key: first[key] for key in ("command", "outcome", "run", "new_games", "exit_code")} == {
        "command": "nightly",
        "outcome": "published",
        "run": "000007",
        "new_games": 3,
        "exit_code": 0,
    }
    assert first["seconds"] >= 0
    assert second["outcome"] == "nothing new"


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (BudgetExceeded("too much\nand more"), "stopped by budget", 5),
        (InputRefused("too much\nand more"), "refused", 3),
        (UsageFault("too much\nand more"), "refused", 2),
        (FolderBusy("too much\nand more"), "refused", 4),
        (EnvironmentFault("too much\nand more"), "failed", 1),
        (RuntimeError("too much\nand more"), "failed", 1),
        (OSError("too much\nand more"), "failed", 1),
        (KeyboardInterrupt("too much\nand more"), "failed", 130),
    ],
)
def test_an_attempt_that_fails(root: Path, error: BaseException, outcome: str, code: int) -> None:
    def night() -> None:
        with journal.attempt(root, "nightly") as entry:
            entry["run"] = "000007"
            raise error

    with pytest.raises(type(error)):
        night()
    (line,) = journal.entries(root)
    assert (line["outcome"], line["exit_code"], line["message"], line["run"]) == (outcome, code, "too much", "000007")


def test_a_message_has_an_end(root: Path) -> None:
    with pytest.raises(InputRefused), journal.attempt(root, "nightly"):
        raise InputRefused("x" * 100_000)
    assert len(journal.entries(root)[0]["message"]) == 1000


# ---------------------------------------------------------------- repair


def test_a_published_run_without_a_line_gets_it_once(site: Path) -> None:
    manifest = json.loads((site / "current" / "manifest.json").read_text(encoding="utf-8"))
    journal.repair(site)
    (line,) = journal.entries(site)
    assert line["outcome"] == "published"
    assert line["command"] == "backfill"
    for key in ("run", "as_of", "rows_read", "bins"):
        assert line[key] == manifest[key]
    assert (site / "boards" / "000001.parquet").is_file()
    before = (site / journal.NAME).read_bytes()
    journal.repair(site)
    assert (site / journal.NAME).read_bytes() == before
    assert len(boards.boards(site)) == 1


def test_a_run_that_is_recorded_is_not_recorded_again(site: Path) -> None:
    manifest = json.loads((site / "current" / "manifest.json").read_text(encoding="utf-8"))
    with journal.attempt(site, "backfill") as entry:
        entry |= journal.of_manifest(manifest)
    journal.repair(site)
    assert len(journal.entries(site)) == 1


def test_the_line_of_an_attempt_on_the_same_run_is_not_taken_for_it(site: Path) -> None:
    journal.record(site, {"command": "nightly", "outcome": "failed", "run": "000001"})
    journal.record(site, {"command": "backfill", "outcome": "published", "run": "000001", "rows_read": 1})
    journal.repair(site)
    assert len(journal.entries(site)) == 3


def spoil_manifest(out: Path) -> None:
    (out / "current" / "manifest.json").write_text("{")


def spoil_current(out: Path) -> None:
    (out / "current").unlink()
    (out / "current").mkdir()


def spoil_board(out: Path) -> None:
    (out / "current" / "leaderboard.parquet").write_bytes(b"PAR1")


def no_run(out: Path) -> None:
    (out / "current").unlink()


@pytest.mark.parametrize("spoil", [spoil_manifest, spoil_current, spoil_board, no_run])
def test_repair_stumbles_over_nothing(site: Path, spoil: Callable[[Path], None]) -> None:
    spoil(site)
    journal.repair(site)
    assert boards.boards(site) == []
