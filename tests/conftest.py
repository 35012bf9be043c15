"""Fixtures for all tests; puts this folder on the import path, for `naive` and `support`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import support
import support_report
import warm as warm_runs


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


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that others use as well can take most of a test's time for `fsync`, and no test cuts the power.

    That everything is synced, and before what, is looked at by `tests/unit/test_store.py`; processes of their own sync as ever.
    """
    if "syncs" not in request.keywords:
        monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> support_report.Site:
    """Folders of every kind that has a page, made when they are first asked for."""
    return support_report.Site(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def run_backfill(tmp_path: Path) -> support.Backfill:
    """Runs `eloreplay backfill` in this process, in the test's own folder."""
    return support.Backfill(tmp_path)


@pytest.fixture(scope="session")
def warm() -> Iterator[warm_runs.Warm]:
    """Runs of the command in forked processes, which need no start."""
    forks = warm_runs.Warm()
    yield forks
    forks.close()
