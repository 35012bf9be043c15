"""What the documents say is run: commands, snippets and their output, options, columns and links."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import commands_page
import pyarrow.parquet as pq
import pytest

from eloreplay.cli import cli, main

ROOT = Path(__file__).parents[2]
RUN = (
    "README.md",
    "docs/tutorial.md",
    "docs/how-to-analyst.md",
    "docs/how-to-forget.md",
    "docs/how-to-nightly-engineer.md",
    "docs/how-to-python.md",
    "docs/how-to-support.md",
)
SHELL = {"ls", "ln", "mv", "readlink"}
FAILS = re.compile(r' \|\| echo "exit code \$\?"$')
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "data").rglob("*.md"))
)


def run_sample(out: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        sample = ["backfill", "data/games", "--columns", "data/columns.toml", "--rules", "tavla42", "--out", str(out)]
        assert main([*sample, "--threads", "1", "--quiet"]) == 0


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`out` as `make run` leaves it."""
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(ROOT):
        run_sample(folder / "sample")
    return folder


@pytest.fixture
def scratch(tmp_path: Path, sample_run: Path) -> Iterator[Path]:
    """A copy of what the documents' commands read, as the current folder."""
    for name in ("data", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copytree(sample_run, tmp_path / "out", symlinks=True)
    with contextlib.chdir(tmp_path):
        yield tmp_path


def blocks(page: str) -> list[tuple[str, str]]:
    """Fenced blocks as (language, content)."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(match[1], match[2]) for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def call(command: str) -> tuple[int, str]:
    """Exit code and output of one command; ours run in this process, so that the kernel is compiled once."""
    words = command.split()
    if words[0] == "eloreplay":
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(words[1:])
        return code, said.getvalue()
    assert words[0] in SHELL, f"the documents may not run {words[0]}"
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TZ": "UTC", "PYTHONIOENCODING": "utf-8", "COLUMNS": "120"},
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


def assert_shown(shown: list[str], output: str, command: str) -> None:
    """Each shown line stands in the output, in order; "…" alone is any lines, at a line's end the rest of it."""
    lines = iter(line.rstrip() for line in output.splitlines())
    for wanted in shown:
        if wanted in ("…", ""):
            continue
        whole, start = wanted.rstrip(), wanted.rstrip().removesuffix("…")
        for line in lines:
            if line == whole or (whole.endswith("…") and line.startswith(start.rstrip())):
                break
        else:
            pytest.fail(f"{command}\ndoes not say (any more, or at this place): {wanted}\nit says:\n{output}")


def run_console(content: str) -> None:
    parts = re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]
    assert parts, f"a console block without a command: {content}"
    for part in parts:
        command, *shown = part.splitlines()
        fails = FAILS.search(command)
        code, output = call(FAILS.sub("", command))
        if fails:
            assert code != 0, command
            output += f"exit code {code}\n"
        else:
            assert code == 0, f"{command}\n{output}"
        assert_shown(shown, output, command)


@pytest.mark.parametrize("page", RUN)
def test_commands_and_snippets_do_what_the_page_shows(page: str, scratch: Path) -> None:
    if page == "README.md":  # the one page that makes the run which the others find
        shutil.rmtree(scratch / "out")
    ran = 0
    found = blocks(page)
    for (language, content), (next_language, next_content) in pairwise([*found, ("", "")]):
        if language == "console":
            run_console(content)
            ran += 1
        elif language == "python":
            output = python(content)
            assert next_language == "text", f"a snippet without its output: {content}"
            assert output.rstrip() == next_content.rstrip(), content
            ran += 1
    assert ran


def test_make_run_is_what_the_readme_shows() -> None:
    (command,) = re.findall(r"^run:.*\n\t\$\(BIN\)/(eloreplay .*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"$ {command}\n" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_documented_options_are_those_of_the_help(name: str) -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = re.search(rf"^## `eloreplay {name}\b.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, f"docs/cli.md has no section on {name}"
    documented = set(re.findall(r"^\| `(--[a-z-]+)", section[0], re.MULTILINE))
    command = cli.commands[name]
    offered = {option for p in command.params if isinstance(p, click.Option) for option in p.opts if option.startswith("--")}
    assert documented == offered - {"--help"}
    # What the help prints is what click knows.
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main([name, "--help"]) == 0
    assert set(re.findall(r"^  (?:-[a-z], )?(--[a-z-]+)", said.getvalue(), re.MULTILINE)) == offered | {"--help"}


def test_documented_commands_are_those_there_are() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^## `eloreplay ([\w-]+)", page, re.MULTILINE) == sorted(cli.commands)


@pytest.mark.parametrize("page", PAGES)
def test_options_in_the_text_exist(page: str) -> None:
    """No page speaks of an option that no command has."""
    known = {o for c in cli.commands.values() for p in c.params if isinstance(p, click.Option) for o in p.opts}
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / page).read_text(encoding="utf-8")))
    assert used - known - {"--help", "--version"} == set()


@pytest.mark.parametrize("page", RUN)
def test_commands_that_are_only_shown_can_be_parsed(page: str) -> None:
    """Units, lines for cron and scripts are not run, but what they call takes these arguments."""
    for _, content in (block for block in blocks(page) if block[0] in ("sh", "ini", "cron")):
        lines = [line for line in content.replace("\\\n", " ").splitlines() if not line.startswith("#")]
        for line in lines:
            found = re.search(r"(?:^|[ =/])eloreplay ([a-z-]+)((?: [^|>&;]+)?)", line)
            if found:
                cli.commands[found[1]].make_context(found[1], shlex.split(re.sub(r" \d$", "", found[2])))


def test_the_script_for_orchestrators_ends_with_the_exit_code_of_the_night(scratch: Path) -> None:
    (script,) = [text for _, text in blocks("docs/how-to-nightly-engineer.md") if text.startswith("#!/bin/sh")]
    Path("night.sh").write_text(script, encoding="utf-8")
    Path("bin").mkdir()
    Path("bin/eloreplay").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m eloreplay "$@"\n', encoding="utf-8")
    Path("bin/eloreplay").chmod(0o755)
    path = os.environ | {"PATH": f"{scratch / 'bin'}:{os.environ['PATH']}"}

    def night(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(["sh", "night.sh", *arguments], capture_output=True, text=True, check=False, env=path)
        return done.returncode, done.stdout + done.stderr

    assert night("data/games", "out/sample", "log") == (0, "the ratings are up to date\n")
    assert json.loads(Path("log").read_text(encoding="utf-8").splitlines()[-1])["published"]
    code, said = night("data/none", "out/sample", "log")
    assert code == 3
    assert said.startswith("exit code 3, a person has to look: eloreplay: games data/none: no such file")
    code, said = night("data/games", "out", "log")
    assert code == 2


def test_documented_keys_of_the_manifest_are_those_there_are(scratch: Path) -> None:
    page = (ROOT / "docs" / "outputs.md").read_text(encoding="utf-8")
    section = re.search(r"^## manifest\.json$.*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert section
    first = re.findall(r"^\| (`[^|]+) \|", section[0], re.MULTILINE)
    documented = {name for cell in first for name in re.findall(r"`(\w+)`", cell)} | {"award_rows_read", "award_bins"}
    assert call("eloreplay nightly data/games --out out/sample --quiet")[0] == 0
    assert call("eloreplay rollback out/sample 1 --quiet")[0] == 0
    keys = set()
    for run in sorted(Path("out/sample/runs").iterdir()):
        keys |= set(json.loads((run / "manifest.json").read_text(encoding="utf-8")))
    assert keys | {"what_if"} == documented
    night = json.loads(Path("out/sample/runs/000002/manifest.json").read_text(encoding="utf-8"))["night"]
    page = (ROOT / "docs" / "how-to-nightly-engineer.md").read_text(encoding="utf-8")
    table = page[page.index("| field of `night` |") : page.index("`timings` of the manifest")]
    fields = {name for cell in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)}
    assert fields == set(night) | {"nothing_new", "as_of"}


TABLES = ("timeline", "players", "leaderboard", "awards", "rejected", "changes", "calibration", "summary", "player_timeline")


@pytest.mark.parametrize("table", TABLES)
def test_documented_columns_are_those_of_the_tables(table: str, sample_run: Path) -> None:
    page = (ROOT / "docs" / "outputs.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {table}$.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section
    documented = re.findall(r"^\| `(\w+)` \| (\w+) \|[^|]*\|[^|]*\|$", section[0], re.MULTILINE)
    current = sample_run / "sample" / "current"
    if table == "player_timeline":
        import duckdb

        with duckdb.connect(str(current / "ratings.duckdb"), read_only=True) as views:
            views.execute("set timezone = 'UTC'")
            schema = views.sql("from player_timeline limit 0").to_arrow_table().schema
    else:
        schema = pq.read_schema(
            next(iter(sorted((current / "timeline").glob("*")))) if table == "timeline" else current / f"{table}.parquet"
        )
    plain = {"double": "float64", "large_string": "string", "timestamp[us, tz=UTC]": "instant"}
    found = [(field.name, plain.get(str(field.type), str(field.type))) for field in schema]
    kinds = {"rating": {"int32"}, "id": {"int64", "string"}}
    assert [name for name, _ in documented] == [name for name, _ in found]
    for (name, kind), (_, real) in zip(documented, found, strict=True):
        assert real in kinds.get(kind, {kind}), f"{table}.{name} is {real}"


def anchors(path: Path) -> set[str]:
    """GitHub's anchors of a page's headings."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), f"{page}: {target}"
        assert not anchor or anchor in anchors(path), f"{page}: no heading for {target}"


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_plain_and_of_no_machine(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        assert line == line.rstrip(), f"{page}:{number}: blanks at the end"
        assert not re.search(r"/(tmp|home|root|work)/\w", line), f"{page}:{number}: a path of one machine"


def test_the_page_of_commands_is_what_the_code_says() -> None:
    """In a process of its own: click keeps the options for help of whoever asked a command first."""
    made = subprocess.run([sys.executable, commands_page.__file__, "-"], capture_output=True, encoding="utf-8", check=True).stdout
    assert commands_page.PAGE.read_text(encoding="utf-8") == made, "run: make commands-page"
