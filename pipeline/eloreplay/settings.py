"""What may vary in a ruleset: its numbers by name, and the rulesets that come of putting other numbers in their place.

A varied ruleset is checked like one from a file, so no setting can be rated that could not be written down.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from eloreplay.errors import UsageFault
from eloreplay.rules import Ruleset, RuleVersion, ruleset_from_dict

#: More settings than this are a slip of the pen, and their states would fill the memory.
MOST_SETTINGS = 4096
NONE = "none"
#: Numbers that may be left out altogether ("none").
_OPTIONAL = ("floor", "cap", "max_change", "heavy.games")
_WHOLE = ("heavy.games",)

Value = float | None


@dataclass(frozen=True)
class Parameter:
    """A number of the rules that varies.

    Attributes:
        name: as it was given, with the version in front (`1.3.1:divisor`) if there was one.
        key: without it.
        version: the version, or None for every one that has this number.
    """

    name: str
    key: str
    version: str | None = None


@dataclass(frozen=True)
class Axis:
    """A parameter and the values it takes, in the order given; None is "none"."""

    parameter: Parameter
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Setting:
    """One ruleset of a sweep; `values` has a value a varied parameter, in their order (None: "none", or not one value)."""

    values: tuple[Value, ...]
    ruleset: Ruleset


def parameters(ruleset: Ruleset) -> list[str]:
    """Names of the numbers that may vary under these rules, without versions."""
    names = ["start", "floor", "cap", "max_change"]
    for version in ruleset.version:
        names += _version_keys(version, counted=ruleset.count is not None)
    return list(dict.fromkeys(names))


def _version_keys(version: RuleVersion, *, counted: bool) -> list[str]:
    names = ["divisor"]
    names += ["k"] if version.k is not None else []
    for table in ("k_by_games", "k_by_rating"):
        for number in range(len(getattr(version, table))):
            names += [f"{table}.{number + 1}.from", f"{table}.{number + 1}.k"]
    if counted:
        names += ["heavy.games", "heavy.factor" if version.heavy is not None and version.heavy.factor is not None else "heavy.k"]
    names += ["ramp.height", "ramp.length"] if version.ramp is not None else []
    names += ["stake.base"]
    names += ["stake.doublings"] if version.stake.cube == "log2" else []
    if version.stake.result is not None:
        names += ["stake.result.single", "stake.result.gammon", "stake.result.backgammon"]
    return names


def find_parameter(name: str, ruleset: Ruleset, option: str = "--vary") -> Parameter:
    """The parameter of a name such as `divisor` or `1.3.1:divisor`.

    Raises:
        UsageFault: no such version or number; the message lists what there is.
    """
    version, sign, key = name.rpartition(":")
    known = parameters(ruleset)
    if sign:
        found = [v for v in ruleset.version if v.name == version]
        if not found:
            names = ", ".join(v.name for v in ruleset.version)
            raise UsageFault(f"{option} {name}: the rules {ruleset.name} have no version '{version}'; they have {names}")
        known = _version_keys(found[0], counted=ruleset.count is not None)
    if key not in known:
        hint = ""
        if key.startswith("heavy.") and ruleset.count is None:
            hint = " (a heavy week needs a [count] with its hours in the ruleset)"
        raise UsageFault(
            f"{option} {name}: no number of this name varies under the rules {ruleset.name}{hint}; there are {', '.join(known)}"
        )
    return Parameter(name, key, version if sign else None)


def parse_axis(text: str, ruleset: Ruleset) -> Axis:
    """What `--vary` says: `NAME=VALUES`, values being numbers, `none`, and ranges `FROM:TO:STEP` (both ends included), by commas.

    Raises:
        UsageFault: an unknown name, or something else than values.
    """
    # From the right: a version may be called a=b, and no value has such a sign.
    name, sign, values = text.rpartition("=")
    if not sign or not values.strip():
        raise UsageFault(f"--vary {text}: write NAME=VALUES such as divisor=400:2400:100 or heavy.games=30,50,none")
    parameter = find_parameter(name.strip(), ruleset)
    found: list[Value] = []
    for part in values.split(","):
        found.extend(_values(part.strip(), parameter, text))
    return Axis(parameter, tuple(dict.fromkeys(found)))


def _values(part: str, parameter: Parameter, text: str) -> Iterable[Value]:
    if part.lower() == NONE:
        if parameter.key not in _OPTIONAL:
            raise UsageFault(f"--vary {text}: {parameter.key} cannot be none; that can {', '.join(_OPTIONAL)}")
        return [None]
    try:
        numbers = [Decimal(piece) for piece in part.split(":")]
        if len(numbers) not in (1, 3) or not all(number.is_finite() for number in numbers):
            raise InvalidOperation
    except InvalidOperation:
        raise UsageFault(f"--vary {text}: '{part}' is neither a number nor a range FROM:TO:STEP such as 400:2400:100") from None
    if len(numbers) == 1:
        return [float(numbers[0])]
    # In decimals, so that 0.1:0.3:0.1 has three values and ends at 0.3.
    first, last, step = numbers
    if step <= 0 or last < first:
        raise UsageFault(f"--vary {text}: the range '{part}' needs FROM <= TO and a STEP above 0")
    count = int((last - first) / step) + 1
    if count > MOST_SETTINGS:
        raise UsageFault(
            f"--vary {text}: the range '{part}' has {count} values; at most {MOST_SETTINGS} settings can be swept at once"
        )
    return [float(first + i * step) for i in range(count)]


def settings(ruleset: Ruleset, axes: Sequence[Axis]) -> list[Setting]:
    """The rules as they are, and then every combination of the axes that is another ruleset, in the order given.

    Raises:
        UsageFault: too many, a parameter given twice, or a value that the rules do not allow.
    """
    names = [axis.parameter.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise UsageFault(f"--vary {name} is given twice; write all its values in one, separated by commas")
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_SETTINGS:
        raise UsageFault(f"{count} settings are asked for; at most {MOST_SETTINGS} can be swept at once: vary fewer values")
    chosen = [axis.parameter for axis in axes]
    found = {ruleset.digest: Setting(tuple(present(ruleset, parameter) for parameter in chosen), ruleset)}
    for values in itertools.product(*(axis.values for axis in axes)):
        varied = with_values(ruleset, chosen, values)
        # Several combinations may be one ruleset: heavy.k means nothing where heavy.games is none.
        found.setdefault(varied.digest, Setting(tuple(present(varied, parameter) for parameter in chosen), varied))
    return list(found.values())


def present(ruleset: Ruleset, parameter: Parameter) -> Value:
    """The value that a parameter has in the rules; None when it has none, or several in several versions."""
    if parameter.version is None and parameter.key in Ruleset.model_fields:
        value = getattr(ruleset, parameter.key)
        return None if value is None else float(value)
    found = set()
    for version in _versions(ruleset.as_dict(), parameter):
        holder, last = _holder(version, parameter.key)
        found.add(None if holder is None or holder[last] is None else float(holder[last]))
    return found.pop() if len(found) == 1 else None


def with_values(ruleset: Ruleset, chosen: Sequence[Parameter], values: Sequence[Value]) -> Ruleset:
    """The rules with these numbers in place of theirs.

    Raises:
        UsageFault: the result is no ruleset; the message says why and which values were asked for.
    """
    content = ruleset.as_dict()
    # First whether there is a heavy week at all, then its k.
    for parameter, value in sorted(zip(chosen, values, strict=True), key=lambda pair: pair[0].key != "heavy.games"):
        if parameter.version is None and parameter.key in Ruleset.model_fields:
            content[parameter.key] = value
            continue
        for version in _versions(content, parameter):
            _put(version, parameter.key, value)
    label = ", ".join(spell(parameter, value) for parameter, value in zip(chosen, values, strict=True))
    return ruleset_from_dict(content, f"the rules {ruleset.name} with {label}")


def spell(parameter: Parameter, value: Value) -> str:
    """`divisor=800`, `heavy.games=none`."""
    return f"{parameter.name}={number(value)}"


def number(value: Value) -> str:
    """A value as one would write it."""
    return NONE if value is None else f"{value:.10g}"


def _versions(content: dict[str, Any], parameter: Parameter) -> list[dict[str, Any]]:
    """The versions, as plain values, that a parameter means."""
    every: list[dict[str, Any]] = content["version"]
    if parameter.version is not None:
        return [version for version in every if version["name"] == parameter.version]
    having = []
    for version in every:
        holder, last = _holder(version, parameter.key)
        # Not in it at all: a heavy week that another parameter has just put there, and that still lacks its k.
        if holder is not None and (last not in holder or holder[last] is not None):
            having.append(version)
    # A heavy week may be put where there was none: into every version with a single k.
    return having or [version for version in every if version["k"] is not None or not parameter.key.startswith("heavy.")]


def _holder(version: dict[str, Any], key: str) -> tuple[Any, Any]:
    """The table or list in which the last part of a key stands, and that part; (None, …) when a part before it is absent."""
    *path, last = key.split(".")
    holder: Any = version
    for part in path:
        # Steps are counted from 1.
        steps = isinstance(holder, list)
        holder = dict(enumerate(holder, start=1)).get(int(part)) if steps else holder.get(part)
        if holder is None:
            return None, last
    return holder, last


def _put(version: dict[str, Any], key: str, value: Value) -> None:
    if key == "heavy.games" and value is None:
        version["heavy"] = None
        return
    if key.startswith("heavy.") and version["heavy"] is None:
        # heavy.k of a version whose heavy week another parameter has just taken away.
        if key != "heavy.games":
            return
        version["heavy"] = {}
    holder, last = _holder(version, key)
    if holder is None:
        return
    if key in _WHOLE and value is not None and value.is_integer():
        holder[last] = int(value)
    else:
        holder[last] = value
