"""Rulesets: what a file may say, the messages for what it may not, and the tables made from it.

The examples and messages are those of `docs/rulesets.md`: the page is read here, so that it cannot go stale.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from eloreplay.cli import main
from eloreplay.errors import UsageFault
from eloreplay.kernel import expected_score, rate_game
from eloreplay.rules import Ruleset, RuleVersion, load_ruleset, load_undated, ruleset_from_dict, shipped_rulesets

PAGE = (Path(__file__).parents[2] / "docs" / "rulesets.md").read_text(encoding="utf-8")
GOOD, _, WRONG = PAGE.partition("## Ten wrong files")
TOML = re.compile(r"^```toml\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
WRONG_FILES = re.findall(r"^```toml\n(.*?)^```\n\n```text\n(.*?)^```", WRONG, re.MULTILINE | re.DOTALL)
SHOWN = re.findall(r"^\$ eloreplay (rules \S+|expect [^\n]*)\n(.+?)^```", GOOD, re.MULTILINE | re.DOTALL)
BASE = {"name": "own", "start": 1500, "rounding": "none", "version": [{"name": "1", "divisor": 400, "k": 32}]}
SINCE = ("--since", "1.0.5=2025-11-03", "--since", "1.2.0=2026-03-22", "--since", "1.3.1=2026-10-01")


def call(*words: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(words)
    return code, said.getvalue()


def answer(*words: str) -> Any:
    code, text = call(*words, "--json")
    assert code == 0, text
    return json.loads(text)


def fault(**changes: Any) -> str:
    with pytest.raises(UsageFault) as caught:
        ruleset_from_dict(BASE | changes, "own.toml")
    text = str(caught.value)
    assert text.startswith("own.toml: ")
    return text.removeprefix("own.toml: ")


def version(**changes: Any) -> dict[str, Any]:
    return {"version": [BASE["version"][0] | changes]}  # type: ignore[index]


# ---------------------------------------------------------------- the page


@pytest.mark.parametrize("content", TOML.findall(GOOD), ids=range(1, 4))
def test_the_page_s_files_are_right(content: str) -> None:
    ruleset_from_dict(tomllib.loads(content), "own.toml")


def test_the_page_has_files_and_ten_wrong_ones() -> None:
    assert len(TOML.findall(GOOD)) == 3
    assert len(WRONG_FILES) == 10
    assert len({message for _, message in WRONG_FILES}) == 10


@pytest.mark.parametrize(("content", "message"), WRONG_FILES, ids=range(1, 11))
def test_the_page_s_wrong_files_get_the_messages_it_shows(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(content, encoding="utf-8")
    with contextlib.chdir(tmp_path):
        assert call("rules", "own.toml") == (2, message)


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=["tavla42", "nardy", "expect"])
def test_case_30_the_page_s_tables_are_made_from_the_rule_file(command: str, shown: str) -> None:
    assert call(*command.split()) == (0, shown)


def test_case_30_the_page_shows_tables() -> None:
    assert [command.split()[0] for command, _ in SHOWN] == ["rules", "rules", "expect"]


def test_the_page_describes_every_key() -> None:
    described = set(re.findall(r"^\| `\[*(\w+)\]*` \|", GOOD, re.MULTILINE))
    models: list[Any] = [Ruleset]
    keys: set[str] = set()
    while models:
        for name, field in models.pop().model_fields.items():
            keys.add(field.alias or name)
            models += [m for m in (field.annotation, *getattr(field.annotation, "__args__", ())) if hasattr(m, "model_fields")]
    assert {"heavy", "ramp", "stake", "divisor", "doublings", "pull_to", "hours"} <= keys
    # the parts of two keys are told in a sentence
    assert keys - described == {"hours", "single", "gammon", "backgammon"}
    assert all(re.search(rf"`(\[\[)?{key}(\]\])?`", GOOD) for key in keys)


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"starts": 3}, "unknown key 'starts'; did you mean 'start'?"),
        ({"nonsense": 3}, "unknown key 'nonsense'; known here are name, title, note, start, rounding, modes, count, "),
        ({"start": True}, "key 'start': must be a number, without quotes (found true)"),
        ({"start": math.inf}, "key 'start': must be an ordinary number (found inf)"),
        ({"name": ""}, 'key \'name\': must not be empty (found "")'),
        ({"name": 7}, "key 'name': must be text in quotes (found 7)"),
        ({"advantage": "yes"}, "key 'advantage': must be true or false, without quotes (found \"yes\")"),
        ({"modes": "all"}, "key 'modes': must be a table: modes = { … } (found \"all\")"),
        ({"modes": {"rated": "ranked"}}, 'key \'modes.rated\': write "all" or a list of modes such as ["ranked"] (found "ranked")'),
        ({"modes": {"unrated": ["casual"]}}, "key 'modes': rated = \"all\" leaves no mode unrated; list the rated modes instead"),
        ({"modes": {"rated": ["a"], "unrated": ["a"]}}, "key 'modes': 'a' is both rated and unrated"),
        ({"count": {"hours": 0}}, "key 'count.hours': must be above 0 (found 0)"),
        ({"max_cube": 64.5}, "key 'max_cube': must be a whole number, without quotes (found 64.5)"),
        ({"max_cube": 48}, "key 'max_cube': must be a power of two, such as 64 (found 48)"),
        ({"max_cube": 2**31}, "key 'max_cube': must be at most 1073741824 (found 2147483648)"),
        ({"count": {"hours": 1e7}}, "key 'count.hours': must be at most 8784000 (found 10000000.0)"),
        ({"modes": {"rated": []}}, "key 'modes': rated = [] would rate no game at all; list the rated modes, or write \"all\""),
        ({"floor": 2000, "cap": 1000}, "floor must be below cap"),
        (version(heavy={"games": 5, "k": 3}), "version 1 has a heavy week, but there is no [count] with its hours"),
        (
            {"version": [BASE["version"][0] | {"name": name} for name in "ab"]},  # type: ignore[index]
            "version b has no 'from': each version but the first one needs the instant from which it is in force",
        ),
        ({"version": []}, "key 'version' must not be empty"),
        (version(divisor=-1), "key 'version[1].divisor': must be above 0 (found -1)"),
        (version(k_by_rating=3), "key 'version[1].k_by_rating': must be a list of steps such as [{ from = 0, k = 40 }, "),
        (version(k=None, k_by_games=[{"from": 5, "k": 3}]), "key 'version[1]': k_by_games: the first step must be from = 0"),
        (
            version(k=None, k_by_rating=[{"from": 5, "k": 3}, {"from": 5, "k": 2}]),
            "key 'version[1]': k_by_rating: the steps' 'from' must rise",
        ),
        (version(heavy={"games": 5}), "key 'version[1].heavy': give either k (a new k) or factor (of the usual one)"),
        (
            version(k=None, k_by_games=[{"from": 0, "k": 3}], heavy={"games": 5, "k": 3}) | {"count": {"hours": 1}},
            "key 'version[1]': heavy.k replaces a single k; with k_by_games or k_by_rating give heavy.factor",
        ),
        (version(ramp={"height": 0.5, "length": 4}), "key 'version[1].ramp.height': must be at least 1 (found 0.5)"),
        (version(stake={"cube": "log"}), "key 'version[1].stake.cube': must be 'none', 'times' or 'log2' (found \"log\")"),
        (version(**{"from": "given"}), "version 1 has no date: nobody but you knows when it came into force; say --since 1="),
        ({"band": [{"name": "a", "from": 2}, {"name": "b", "from": 1}]}, "[[band]]: the bands' 'from' must rise"),
        ({"band": [{"name": "a", "from": 1}, {"name": "a", "from": 2}]}, "two bands have the same name"),
        ({"band": {"name": "a", "from": 1}}, "key 'band': write [[band]] in double brackets, once for each"),
        ({"adjustment": [{"name": "a", "at": 5, "add": 1}]}, "key 'adjustment[1].at': not an instant such as 2026-10-01T00:00:00Z (found 5)"),
        ({"adjustment": [{"name": "a", "at": "2026-01-01"}]}, "key 'adjustment[1]': give add, pull_to with factor, or floor"),
        (
            {"adjustment": [{"name": "a", "at": "2026-01-01", "factor": 0.5}]},
            "key 'adjustment[1]': pull_to and factor go together: new = pull_to + (old - pull_to) * factor",
        ),
        (
            {"adjustment": [{"name": n, "at": "2026-01-01", "add": 1} for n in "ab"]},
            "two adjustments at the same instant: write them as one, which pulls first, then adds, then sets the floor",
        ),
        (
            {"rounding": "half-away-from-zero", "adjustment": [{"name": "a", "at": "2026-01-01", "floor": 0.5}]},
            "floor of the adjustment 'a' = 0.5: ratings are whole numbers under this rounding",
        ),
        ({"rounding": "half-away-from-zero", "start": 1e300}, "start = 1e+300: whole ratings end at 2147483647"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_plain_words(changes: dict[str, Any], message: str) -> None:
    text = fault(**changes)
    assert text.startswith(message), text
    assert not re.search(r"pydantic|Input should|Value error|tuple|type=|None", text)


def test_files_that_are_not_there_or_not_toml(tmp_path: Path) -> None:
    code, text = call("rules", "tavla43")
    assert code == 2
    assert "neither a file nor a shipped ruleset; shipped are chess, fibs, fibs-1pt, nardy, tavla42, tavla42-history" in text
    broken = tmp_path / "broken.toml"
    broken.write_text("name = own", encoding="utf-8")
    code, text = call("rules", str(broken))
    assert code == 2
    assert text.startswith(f"eloreplay: {broken}: ")
    assert call("rules", "tavla42", "--since", "9=2026-01-01")[0] == 2
    assert "--since 9=…: tavla42 has no version '9'" in call("rules", "tavla42", "--since", "9=2026-01-01")[1]
    for twice in ('name = "own"\nname = "own"\n', "[count]\nhours = 1\n[count]\nhours = 2\n"):
        broken.write_text(twice, encoding="utf-8")
        assert "given twice" in call("rules", str(broken))[1]


# ---------------------------------------------------------------- loading


@pytest.mark.parametrize("name", shipped_rulesets())
def test_settled_rules_survive_the_manifest(name: str) -> None:
    since = {"1.0.5": 1, "1.2.0": 2, "1.3.1": 3} if name == "tavla42-history" else {}
    ruleset = load_ruleset(name, since)
    again = ruleset_from_dict(json.loads(json.dumps(ruleset.as_dict())), "manifest.json")
    assert again == ruleset
    assert again.digest == ruleset.digest


def test_dates_are_utc_unless_they_carry_a_zone() -> None:
    texts = ["2026-10-01", "2026-10-01T00:00:00Z", "2026-10-01T02:00:00+02:00", "2026-10-01 00:00"]
    values: list[Any] = [*texts, *(tomllib.loads(f"x = {t}")["x"] for t in texts[:3])]
    starts = [RuleVersion.model_validate(BASE["version"][0] | {"from": v}).start_us for v in values]  # type: ignore[index]
    assert set(starts) == {1_790_812_800_000_000}


def test_the_history_can_be_looked_at_without_its_dates_and_not_be_run() -> None:
    assert [v.from_ for v in load_undated("tavla42-history").version][1:] == ["given"] * 3
    with pytest.raises(UsageFault, match=r"^tavla42-history: versions 1\.0\.5, 1\.2\.0, 1\.3\.1 have no date"):
        load_ruleset("tavla42-history")
    assert "from an instant that you give: --since 1.2.0=…" in call("rules", "tavla42-history")[1]
    assert "from 2026-03-22T00:00:00Z" in call("rules", "tavla42-history", *SINCE)[1]


# ---------------------------------------------------------------- tables


def test_the_list_of_shipped_rulesets() -> None:
    listed = answer("rules")
    assert [one["name"] for one in listed] == shipped_rulesets()
    assert all(one["title"] for one in listed)


@pytest.mark.parametrize("name", shipped_rulesets())
def test_tables_agree_with_the_kernel_called_alone(name: str) -> None:
    book = answer("rules", name)
    rounding = int(book["rounding"] != "none")
    for one in book["version"]:
        tables = {table["key"]: table for table in book["tables"][one["name"]]}
        ks = [float(k) for k in dict.fromkeys(re.findall(r"k ([\d.]+):", " ".join(tables["gap"]["columns"])))]
        assert ks == [one["k"], *([one["heavy"]["k"]] if one["heavy"] else [])]
        base = 4.0 if one["divide_by"] != "none" else 1.0
        for gap, expected, *points in tables["gap"]["rows"]:
            assert expected == expected_score(float(gap), one["divisor"])
            wanted = []
            for k in ks:
                wanted.append(rate_game(float(gap), one["divisor"], k, k, base, 1.0, rounding)[1])
                wanted.append(rate_game(-float(gap), one["divisor"], k, k, base, 1.0, rounding)[2])
            assert points == wanted
        for length, stake, points, *expected in tables.get("match_length", {"rows": []})["rows"]:
            assert stake == pytest.approx(4 * math.sqrt(length))
            assert points == pytest.approx(stake / 2)
            assert expected == pytest.approx([1 / (1 + 10 ** (-d * math.sqrt(length) / 2000)) for d in (100, 200, 400)])
        for cube, coefficient, *_ in tables.get("cube", {"rows": []})["rows"]:
            assert coefficient == pytest.approx(cube if one["stake"]["cube"] == "times" else 1 + math.log2(cube) / 6)
        for experience, k in tables.get("ramp", {"rows": []})["rows"]:
            assert k == pytest.approx(max(1.0, (500 - experience) / 100))
    if name == "tavla42-history":
        assert [row[1] for row in book["tables"]["pre-1.0.5"][2]["rows"]] == [1, 2, 3]


def test_tables_of_steps(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\nstart = 1500\nrounding = "none"\nfloor = 1500\n[count]\nhours = 24\n[[version]]\nname = "games"\ndivisor = 400\n'
        "k_by_games = [{ from = 0, k = 40 }, { from = 30, k = 20 }]\nheavy = { games = 5, factor = 0.5 }\n"
        '[[version]]\nname = "rating"\nfrom = 2026-01-01\ndivisor = 400\nk_by_rating = [{ from = 0, k = 32 }, { from = 2100, k = 24 }]\n'
        'ramp = { height = 3, length = 100, experience = "after" }\n',
        encoding="utf-8",
    )
    tables = answer("rules", str(own))["tables"]
    games = {table["key"]: table for table in tables["games"]}
    assert games["k"]["rows"] == [[0, 40], [30, 20]]
    assert [c for c in games["gap"]["columns"] if "wins" in c] == [f"k {k}: favourite wins" for k in (40, 20, 10)]
    # a floor has no place in a table over gaps
    assert games["gap"]["rows"][0] == [0, 0.5, 20, -20, 10, -10, 5, -5]
    rating = {table["key"]: table for table in tables["rating"]}
    assert rating["k"]["rows"] == [[0, 32], [2100, 24]]
    assert rating["ramp"]["rows"][0] == [0, 96]
    assert rating["ramp"]["rows"][-1] == [100, 32]
    assert "bronze" not in call("rules", str(own))[1]


# ---------------------------------------------------------------- one game


def test_expect_halves_k_for_whom_the_week_is_heavy() -> None:
    found = answer("expect", "1500", "1620", "--rules", "tavla42", "--cube", "4", "--recent", "60,10")
    assert (found["k"], found["stake"]) == ([16, 32], pytest.approx(4 / 3))
    assert found["changes"] == {"first_wins": [12, -24], "second_wins": [-9, 19]}
    assert any(line.startswith("k of the first: 16, instead of 32 for 60 rated games") for line in found["why"])
    for recent, k in (("49,50", [32, 16]), ("0,0", [32, 32])):
        assert answer("expect", "1500", "1500", "--rules", "tavla42", "--recent", recent)["k"] == k


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("1500 1500 --rules nardy --match-length 7 --experience 0,400", [26.4575, -5.2915]),
        ("1500 1500 --rules fibs --match-length 7 --experience 0,400", [26.0871, -5.2915]),
        ("1100 1500 --rules nardy --match-length 3 --experience 675,950", [4.776783, -4.776783]),
        ("1600 1500 --rules tavla42-history --version 1.0.5", [12, -12]),
        ("1500 1500 --rules tavla42-history --version pre-1.0.5 --cube 2 --result gammon", [64, -64]),
        ("1600 1500 --rules tavla42-history --at 2026-03-21 " + " ".join(SINCE), [12, -12]),
        ("1600 1500 --rules tavla42-history --at 2026-03-22 " + " ".join(SINCE), [14, -14]),
    ],
)
def test_expect_agrees_with_the_vectors(words: str, changes: list[float]) -> None:
    assert answer("expect", *words.split())["changes"]["first_wins"] == pytest.approx(changes, abs=6e-5)


def test_expect_a_draw_an_advantage_and_a_weight(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\nstart = 1500\nrounding = "half-away-from-zero"\nadvantage = true\n'
        '[[version]]\nname = "1"\ndivisor = 400\nk = 32\nstake = { weight = true }\n',
        encoding="utf-8",
    )
    found = answer("expect", "1500", "1500", "--rules", str(own), "--advantage", "100", "--weight", "2", "--draw")
    assert found["changes"] == {"first_wins": [23, -23], "second_wins": [-41, 41], "draw": [-9, 9]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("1500 1500 --rules nardy", "say how long this one is, for example --match-length 7"),
        ("1500 1500 --rules nardy --match-length 0", "--match-length 0: from 1 to 999"),
        ("1500 1500 --rules tavla42 --cube 3", "--cube 3: a power of two up to 64"),
        ("1500.5 1500 --rules tavla42", "a rating is a whole number"),
        ("nan 1500 --rules chess", "rating nan"),
        ("3000000000 1500 --rules tavla42", "rating 3000000000: too large; whole ratings end at 2147483647"),
        ("2147483647 2147483647 --rules tavla42", "lead to a rating that is too large"),
        ("1e308 1500 --rules chess", "rating 1e+308: too large"),
        ("1500 1500 --rules chess --weight 1e308", "--weight 1e+308: too large"),
        ("1500 1500 --rules tavla42 --version 9", "--version 9: the rules tavla42 have 1.3.1"),
        ("1500 1500 --rules tavla42 --version 1.3.1 --at 2026-01-01", "exclude each other"),
        ("1500 1500 --rules tavla42-history --at 2026-01-01", "have no date"),
        ("1500 1500 --rules tavla42 --recent 5", "'5' is not two numbers such as 60,10"),
        ("1500 1500 --rules tavla42 --recent=-5,3", "--recent -5,3: from 0 to 1,000,000 each"),
    ],
)
def test_expect_refuses_what_a_run_would_refuse(words: str, message: str) -> None:
    code, text = call("expect", *words.split())
    assert code == 2
    assert message in text


def test_expect_names_what_the_rules_do_not_look_at() -> None:
    found = answer("expect", "1500", "1500", "--rules", "chess", "--cube", "4", "--experience", "1,2")
    assert found["not_used"] == ["experience", "cube"]
    assert found["changes"]["first_wins"] == [16.0, -16.0]


def test_expect_says_which_options_are_not_used() -> None:
    words = ["1500", "1500", "--rules", "chess", "--match-length", "7", "--result", "gammon", "--recent", "1,1", "--cube", "2"]
    code, text = call("expect", *words)
    assert code == 0
    assert "note: given, but not used by these rules: --recent, --cube, --match-length, --result" in text
    assert "note" not in call("expect", "1500", "1500", "--rules", "tavla42", "--cube", "2")[1]


def test_texts_of_a_ruleset_are_printed_harmlessly(tmp_path: Path) -> None:
    evil = "\x1b[2J\n\u202e\u200b"
    text = json.dumps("a" + evil)
    own = tmp_path / "own.toml"
    own.write_text(
        f'name = {text}\ntitle = {text}\nnote = {text}\nstart = 1500\nrounding = "none"\nmodes = {{ rated = [{text}], unrated = ["b"] }}\n'
        f'[[version]]\nname = {text}\nnote = {text}\nfrom = "given"\ndivisor = 400\nk = 32\n[[band]]\nname = {text}\nfrom = 1\n'
        f'[[adjustment]]\nname = {text}\nat = 2026-01-01\nadd = 1\n',
        encoding="utf-8",
    )  # fmt: skip
    for command in (("rules", str(own)), ("expect", "1500", "1500", "--rules", str(own))):
        code, shown = call(*command)
        assert code == 0, shown
        assert r"a\x1b[2J\x0a\x202e\x200b" in shown
        assert all(line.isprintable() for line in shown.splitlines())
        assert "\n\u202e" not in shown
