"""The wheel and the editable install: both find their queries from any folder, and neither leaks names.

The wheel gets an environment of its own, with the dependencies of the one the tests run in handed on by PYTHONPATH: no
`.pth` file is read in a folder that is on it, so the editable install around stays out of sight, and no network is
needed. The editable form is that of the environment the tests run in, as `make setup` made it.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DEPENDENCIES = sysconfig.get_path("purelib")
HEAVY = ("altair", "duckdb", "numba", "polars", "pyarrow")


@dataclass(frozen=True)
class Installed:
    """An environment with eloreplay in it: where its commands are, its import path, and an empty folder to work in."""

    form: str
    bin: Path
    import_path: tuple[str, ...]
    elsewhere: Path

    def run(self, *command: str) -> str:
        return call(self.bin / command[0], *command[1:], import_path=self.import_path, folder=self.elsewhere)

    def python(self, code: str) -> list[str]:
        return self.run("python", "-c", code).splitlines()


def call(*command: str | Path, import_path: tuple[str, ...] = (), folder: Path) -> str:
    """Run a command that must succeed, without the settings of the environment around, and return its output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PIP_"))}
    if import_path:
        env["PYTHONPATH"] = os.pathsep.join(import_path)
    done = subprocess.run([*map(str, command)], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, folder=REPOSITORY)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def from_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", folder, folder=folder)
    where = {"base": str(folder), "platbase": str(folder)}
    # Its own packages first: where eloreplay is installed for real around the tests, it must not be what is tested.
    import_path = (sysconfig.get_path("purelib", "venv", where), DEPENDENCIES)
    there = Installed(
        "wheel",
        Path(sysconfig.get_path("scripts", "venv", where)),
        import_path,
        tmp_path_factory.mktemp("elsewhere"),
    )
    there.run("python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    return there


@pytest.fixture(scope="session")
def from_checkout(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    origin = json.loads(importlib.metadata.distribution("eloreplay").read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        pytest.skip("the tests do not run in an editable install")
    return Installed("editable", Path(sys.executable).parent, (), tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest) -> Installed:
    there = request.getfixturevalue("from_wheel" if request.param == "wheel" else "from_checkout")
    assert isinstance(there, Installed)
    return there


def test_the_wheel_holds_the_package_and_its_queries_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"eloreplay"}
    ours = {f"eloreplay/sql/{file.relative_to(REPOSITORY / 'sql')}" for file in (REPOSITORY / "sql").rglob("*.sql")}
    assert ours
    assert ours == {name for name in names if name.startswith("eloreplay/sql/")}
    rules = {f"eloreplay/rulesets/{file.name}" for file in (REPOSITORY / "pipeline/eloreplay/rulesets").glob("*.toml")}
    assert rules
    assert rules <= set(names)
    templates = {f"eloreplay/templates/{file.name}" for file in (REPOSITORY / "pipeline/eloreplay/templates").iterdir()}
    assert len(templates) == 3
    assert templates <= set(names)


def test_what_is_imported_is_what_was_installed(installed: Installed) -> None:
    (where,) = installed.python("import eloreplay; print(eloreplay.__file__)")
    home = Path(installed.import_path[0]) if installed.form == "wheel" else REPOSITORY / "pipeline"
    assert Path(where).resolve() == (home / "eloreplay" / "__init__.py").resolve()


RUN_A_QUERY = """
import duckdb
from eloreplay.queries import sql_text
con = duckdb.connect()
con.execute(
    "create table side_events as select * from (values (0, 7, 0), (1, 8, 1), (2, 7, 2), (3, 8, 3), (4, 8, 0), (5, 7, 1)) "
    "as events (event, player_index, reach)"
)
print(sorted(con.execute(sql_text("windowed_counts"), {"first_event": 1}).fetchall()))
"""


def test_a_query_is_found_and_runs_from_another_folder(installed: Installed) -> None:
    assert installed.python(RUN_A_QUERY) == [str([(1, 0), (2, 1), (3, 1), (4, 0), (5, 0)])]


WRITE_A_PAGE = """
from eloreplay.report_page import html
from eloreplay.report_parts import Chapter, Page, Section
print(html(Page("<title>", ["about"], (), [Chapter("", [Section("a", "A section")])])).count("&lt;title&gt;"))
"""


def test_the_templates_are_found_from_another_folder(installed: Installed) -> None:
    assert installed.python(WRITE_A_PAGE) == ["2"]


def test_the_repositorys_folders_are_no_modules(installed: Installed) -> None:
    found = installed.python(
        "from importlib.util import find_spec; "
        "print([name for name in ('sql', 'tests', 'data', 'docs', 'pipeline') if find_spec(name)])"
    )
    assert found == ["[]"]


def test_the_command_is_there_and_tells_its_version(installed: Installed) -> None:
    shown = installed.run("eloreplay", "--help")
    assert "backfill" in shown
    assert "simulate" in shown
    (said,) = installed.python("import importlib.metadata as m, eloreplay; print(m.version('eloreplay'), eloreplay.__version__)")
    assert len(set(said.split())) == 1


def test_help_imports_nothing_heavy(installed: Installed) -> None:
    """Whoever mistypes an option should not wait for a compiler to load."""
    heavy = installed.python(
        "import sys\n"
        "from eloreplay.cli import main\n"
        "assert main(['--help']) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )[-1]
    assert heavy == "[]"
