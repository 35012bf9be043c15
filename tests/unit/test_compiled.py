"""Compiled code that is kept on disk: used when it is right, passed over when anything is wrong with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from eloreplay import compiled
from eloreplay.kernel import round_each
from eloreplay.sweep_kernel import close_weeks

ROUNDED = [3.0, -3.0, 0.0, 7.0]
#: A process of its own, for what is compiled once stays compiled in a process.
SCRIPT = """
import numpy as np
from eloreplay import compiled
from eloreplay.kernel import round_each
values = np.array([2.5, -2.5, 0.49999999999999994, 7.0])
calls = []
def compile_it():
    calls.append(len(round_each.overloads))
    round_each(values)
compiled.ready(round_each, compile_it)
print(calls[0], values.tolist(), len(round_each.overloads))
"""


def process(folder: Path | str, **env: str) -> tuple[bool, list[float]]:
    """Whether the code was there before it was first called, and what it computed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"ELOREPLAY_CACHE_DIR": str(folder)} | env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    known, rest = done.stdout.split(" ", 1)
    values, _, overloads = rest.rpartition(" ")
    assert int(overloads) == 1
    return known == "1", [float(value) for value in values.strip("[]").split(",")]


def test_the_second_process_loads_what_the_first_compiled_and_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert process(folder) == (False, ROUNDED)
    (kept,) = folder.iterdir()
    whole = kept.read_bytes()
    assert process(folder) == (True, ROUNDED)
    for damaged in (whole[:-1], whole[:10], b"", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]):
        kept.write_bytes(damaged)
        assert process(folder) == (False, ROUNDED)
        assert kept.read_bytes()[compiled.DIGEST_BYTES :], "the damaged file was not replaced"
    assert process(folder) == (True, ROUNDED)
    assert [path.name for path in folder.iterdir()] == [kept.name], "a piece was left behind"
    # Other settings of the compiler are other code.
    assert process(folder, NUMBA_OPT="1") == (False, ROUNDED)
    assert len(list(folder.iterdir())) == 2


def test_what_others_may_write_to_is_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert process(folder) == (False, ROUNDED)
    (kept,) = folder.iterdir()
    kept.chmod(0o666)
    assert process(folder) == (False, ROUNDED)
    folder.chmod(0o777)
    assert process(folder) == (False, ROUNDED)


@pytest.mark.parametrize("folder", ["", "/dev/null/cache"], ids=["none", "impossible"])
def test_without_a_folder_it_is_compiled(folder: str) -> None:
    assert process(folder) == (False, ROUNDED)


def test_the_users_cache_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ELOREPLAY_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert compiled.cache_folder() == tmp_path / "x" / "eloreplay"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert compiled.cache_folder() == tmp_path / "home" / ".cache" / "eloreplay"


def test_the_key_follows_sources_constants_and_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = compiled.key_of(close_weeks)
    assert key == compiled.key_of(close_weeks)
    assert key != compiled.key_of(round_each)
    monkeypatch.setenv("NUMBA_OPT", "2")
    assert key != compiled.key_of(close_weeks)
    monkeypatch.delenv("NUMBA_OPT")
    # A changed source of a called function, in another module, is another key.
    source = tmp_path / "kernel.py"
    source.write_bytes(Path(round_each.py_func.__code__.co_filename).read_bytes() + b"\n")
    real = compiled.inspect.getfile
    changed = SimpleNamespace(getfile=lambda f: str(source) if f.__module__ == "eloreplay.kernel" else real(f))
    monkeypatch.setattr(compiled, "inspect", changed)
    assert key != compiled.key_of(close_weeks)
