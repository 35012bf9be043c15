"""What `--vary` may say, and the rulesets that come of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import support_sweep as ss

from eloreplay.errors import UsageFault
from eloreplay.rules import Ruleset, load_ruleset
from eloreplay.settings import Parameter, find_parameter, parameters, parse_axis, present, settings, with_values

TAVLA = load_ruleset("tavla42")
HISTORY = load_ruleset("tavla42-history", {"1.0.5": 10, "1.2.0": 20, "1.3.1": 30})


def axis_values(text: str, ruleset: Ruleset = TAVLA) -> tuple[float | None, ...]:
    return parse_axis(text, ruleset).values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("divisor=800", (800.0,)),
        ("divisor=400:1000:200", (400.0, 600.0, 800.0, 1000.0)),
        ("divisor=400:900:200", (400.0, 600.0, 800.0)),
        ("k=0.1:0.3:0.1", (0.1, 0.2, 0.3)),
        ("k = 16, 24,16 ,32:40:8", (16.0, 24.0, 32.0, 40.0)),
        ("heavy.games=30,none", (30.0, None)),
        ("floor=NONE,100", (None, 100.0)),
        ("1.3.1:divisor=1e3", (1000.0,)),
    ],
)
def test_values(text: str, values: tuple[float | None, ...]) -> None:
    assert axis_values(text) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("divisor", "write NAME=VALUES"),
        ("divisor=", "write NAME=VALUES"),
        ("divisor=a", "neither a number nor a range"),
        ("divisor=1:2", "neither a number nor a range"),
        ("divisor=nan", "neither a number nor a range"),
        ("divisor=inf", "neither a number nor a range"),
        ("divisor=2:1:1", "FROM <= TO"),
        ("divisor=1:2:0", "STEP above 0"),
        ("divisor=1:9000000:1", "at most 4096"),
        ("divisor=none", "cannot be none"),
        ("cubes=1", "start, floor, cap, max_change, divisor, k, heavy.games, heavy.k, stake.base, stake.doublings"),
        ("heavy.factor=1", "there are start"),
        ("ramp.height=1", "there are start"),
        ("2.0:divisor=1", "no version '2.0'; they have 1.3.1"),
    ],
)
def test_what_cannot_be_varied_is_said_with_what_can(text: str, message: str) -> None:
    with pytest.raises(UsageFault, match=message):
        parse_axis(text, TAVLA)


def test_a_heavy_week_needs_a_count() -> None:
    with pytest.raises(UsageFault, match=r"needs a \[count\]"):
        parse_axis("heavy.games=30", load_ruleset("chess"))


@pytest.mark.parametrize("text", ["divisor=0", "k=-1", "heavy.games=0", "heavy.games=2.5", "start=1500.5", "cap=none,1e12"])
def test_a_value_that_no_ruleset_may_have_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(UsageFault, match=text.split("=")[0]):
        settings(TAVLA, [parse_axis(text, TAVLA)])


def test_the_first_setting_is_the_rules_as_they_are_and_no_ruleset_comes_twice() -> None:
    axes = [parse_axis(text, TAVLA) for text in ("heavy.k=8,16", "heavy.games=30,50,none", "divisor=400,1200")]
    chosen = settings(TAVLA, axes)
    assert chosen[0].values == (16.0, 50.0, 1200.0)
    assert chosen[0].ruleset.digest == TAVLA.digest
    digests = [setting.ruleset.digest for setting in chosen]
    assert len(set(digests)) == len(digests)
    # Without a heavy week its k means nothing: 2 x 2 x 2 with one, 2 without, of which the rules as they are are one.
    assert len(chosen) == 10
    without = [setting for setting in chosen if setting.ruleset.version[0].heavy is None]
    assert [setting.values for setting in without] == [(None, None, 400.0), (None, None, 1200.0)]


def test_without_axes_there_are_only_the_rules() -> None:
    assert [setting.ruleset.digest for setting in settings(TAVLA, [])] == [TAVLA.digest]


def test_too_many_and_twice() -> None:
    with pytest.raises(UsageFault, match="10000 settings"):
        settings(TAVLA, [parse_axis(f"{name}=1:100:1", TAVLA) for name in ("divisor", "k")])
    with pytest.raises(UsageFault, match="given twice"):
        settings(TAVLA, [parse_axis(f"divisor={value}", TAVLA) for value in (1, 2)])


def test_without_a_version_in_front_every_version_changes_that_has_the_number() -> None:
    varied = with_values(HISTORY, [find_parameter("divisor", HISTORY), find_parameter("heavy.games", HISTORY)], [900.0, 20.0])
    assert {version.divisor for version in varied.version} == {900.0}
    assert [version.heavy and version.heavy.games for version in varied.version] == [None, None, None, 20]
    one = with_values(HISTORY, [find_parameter("1.2.0:divisor", HISTORY)], [900.0])
    assert [version.divisor for version in one.version] == [400.0, 400.0, 900.0, 1200.0]
    assert present(HISTORY, Parameter("divisor", "divisor")) is None
    assert present(HISTORY, find_parameter("1.2.0:divisor", HISTORY)) == 800.0


def test_steps_of_k_change_only_where_there_are_so_many(tmp_path: Path) -> None:
    content = TAVLA.as_dict() | {"version": [{"name": "old", "divisor": 400.0, "k": 20.0}, {"name": "new", "divisor": 400.0}]}
    content["version"][1] |= {"from": "2026-01-01", "k_by_games": [{"from": 0.0, "k": 40.0}, {"from": 30.0, "k": 20.0}]}
    steps = load_ruleset(str(ss.write_rules(tmp_path / "steps.toml", content)))
    varied = with_values(steps, [find_parameter("k_by_games.2.k", steps)], [10.0])
    assert [[step.k for step in version.k_by_games] for version in varied.version] == [[], [40.0, 10.0]]
    with pytest.raises(UsageFault, match=r"k_by_games\.2\.k"):
        find_parameter("k_by_games.3.k", steps)


def test_a_version_may_be_called_anything(tmp_path: Path) -> None:
    content = TAVLA.as_dict()
    content["version"][0]["name"] = "a=b: c"
    odd = load_ruleset(str(ss.write_rules(tmp_path / "odd.toml", content)))
    axis = parse_axis("a=b: c:divisor=400", odd)
    assert (axis.parameter.version, axis.parameter.key, axis.values) == ("a=b: c", "divisor", (400.0,))


def test_a_heavy_week_can_be_put_where_there_was_none(tmp_path: Path) -> None:
    content = TAVLA.as_dict()
    content["version"][0]["heavy"] = None
    light = load_ruleset(str(ss.write_rules(tmp_path / "light.toml", content)))
    axes = [parse_axis(text, light) for text in ("heavy.k=16", "heavy.games=50")]
    assert settings(light, axes)[1].ruleset.version[0] == TAVLA.version[0]
    with pytest.raises(UsageFault, match="give either k"):
        settings(light, axes[1:])


@pytest.mark.parametrize("name", ["tavla42", "nardy", "fibs", "chess", "fibs-1pt"])
def test_every_number_that_is_listed_can_be_read_and_set(name: str) -> None:
    ruleset = load_ruleset(name)
    for text in parameters(ruleset):
        parameter = find_parameter(text, ruleset)
        value = 3.0 if text in ("heavy.games", "ramp.height") else 2000.0 if text == "cap" else 7.0
        varied = with_values(ruleset, [parameter], [value])
        assert present(varied, parameter) == value
        assert varied.digest != ruleset.digest
