"""Fixtures for all tests; puts this folder on the import path, for `naive` and `support`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import support


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled code beside the tests, not in the folder of whoever runs them; all the processes of a run share it."""
    os.environ.setdefault("ELOREPLAY_CACHE_DIR", str(config.rootpath / ".pytest_cache" / "compiled"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the golden files and real games, which lies beside the checkout and is not part of it."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        message = "no ../shared folder beside the project: the golden files are not here"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture
def run_backfill(tmp_path: Path) -> support.Backfill:
    """Runs `eloreplay backfill` in this process, in the test's own folder."""
    return support.Backfill(tmp_path)
