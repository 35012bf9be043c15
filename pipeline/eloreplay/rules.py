"""Rating rules as data: a ruleset is a TOML file, checked here, and handed to SQL and to the kernel as plain tables.

No rule is applied here. `Ruleset.version_table` is what `sql/rule_terms.sql` joins (k, stake, divisor by version) and
`Ruleset.kernel_tables` is what the kernel gets for the few terms that depend on a player's own past (ramp, k by games or rating).
The keys are described for a site's administrator in `docs/rulesets.md`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import difflib
import hashlib
import itertools
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from eloreplay.columns import read_toml
from eloreplay.errors import UsageFault
from eloreplay.instants import BEGINNING_US, parse_us, show_us, to_us

SHIPPED = Path(__file__).parent / "rulesets"
GIVEN = "given"

#: Whole ratings are int32 in every table.
LARGEST_WHOLE = 2**31 - 1
#: A thousand years: beyond any history, and still a number of microseconds.
LONGEST_COUNT_HOURS = 8_784_000

# Strict: a number in quotes is text, and text is no number.
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Text = Annotated[str, Field(min_length=1)]
Flag = Annotated[bool, Field(strict=True)]


class Model(BaseModel):
    """Frozen, and a key that is not known is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KStep(Model):
    """One step of `k_by_games` or `k_by_rating`: from this many games (or points) on, this k."""

    from_: Finite = Field(alias="from")
    k: Positive


class Heavy(Model):
    """The heavy week: from `games` rated games in the counting window on, another k (or a factor on it)."""

    games: Annotated[int, Field(ge=1, le=LARGEST_WHOLE, strict=True)]
    k: Positive | None = None
    factor: Positive | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Heavy:
        if (self.k is None) == (self.factor is None):
            raise ValueError("give either k (a new k) or factor (of the usual one)")
        return self


class ResultStake(Model):
    """Multipliers of the stake by how the game was won."""

    single: Positive = 1.0
    gammon: Positive = 1.0
    backgammon: Positive = 1.0


class Stake(Model):
    """What a game is worth: the product of the parts that are named, 1 when none is."""

    base: Positive = 1.0
    cube: Literal["none", "times", "log2"] = "none"
    doublings: Positive = 6.0
    match_length: Literal["none", "sqrt"] = "none"
    result: ResultStake | None = None
    weight: Flag = False


class Ramp(Model):
    """Newcomers move faster: k is multiplied by max(1, height - (height - 1) * E / length), E the player's experience."""

    height: Annotated[float, Field(ge=1, allow_inf_nan=False, strict=True)]
    length: Positive
    experience: Literal["before", "after"] = "before"


class RuleVersion(Model):
    """One version of the rules, in force from `from` until the next version's."""

    name: Text
    from_: int | Literal["given"] = Field(alias="from", default=BEGINNING_US)
    divisor: Positive
    divide_by: Literal["none", "sqrt_match_length"] = "none"
    k: Positive | None = None
    k_by_games: tuple[KStep, ...] = ()
    k_by_rating: tuple[KStep, ...] = ()
    heavy: Heavy | None = None
    ramp: Ramp | None = None
    stake: Stake = Stake()
    note: str = ""

    @field_validator("from_", mode="before")
    @classmethod
    def _instant(cls, value: object) -> object:
        # "given" waits for --since; None is how a manifest writes "since ever".
        return value if value == GIVEN else BEGINNING_US if value is None else _as_us(value)

    @model_validator(mode="after")
    def _one_k(self) -> RuleVersion:
        given = [n for n in ("k", "k_by_games", "k_by_rating") if getattr(self, n) not in (None, ())]
        if len(given) != 1:
            raise ValueError(f"give one of k, k_by_games, k_by_rating (found {', '.join(given) or 'none'})")
        for name in ("k_by_games", "k_by_rating"):
            steps = [step.from_ for step in getattr(self, name)]
            if steps != sorted(set(steps)):
                raise ValueError(f"{name}: the steps' 'from' must rise")
        if self.k_by_games and self.k_by_games[0].from_ != 0:
            raise ValueError("k_by_games: the first step must be from = 0")
        if self.heavy is not None and self.heavy.k is not None and self.k is None:
            raise ValueError("heavy.k replaces a single k; with k_by_games or k_by_rating give heavy.factor")
        return self

    @property
    def start_us(self) -> int:
        """First instant of this version, in microseconds; only after `load_ruleset` has settled it."""
        assert isinstance(self.from_, int)
        return self.from_

    @property
    def needs_match_length(self) -> bool:
        """Whether a game of this version cannot be rated without its match length."""
        return self.divide_by != "none" or self.stake.match_length != "none" or self.ramp is not None


class Modes(Model):
    """Which modes are rated, and which are known but not rated; any other is refused."""

    rated: tuple[str, ...] | Literal["all"] = "all"
    unrated: tuple[str, ...] = ()

    @field_validator("rated", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        if value != "all" and not isinstance(value, list | tuple):
            raise ValueError('write "all" or a list of modes such as ["ranked"]')
        return value

    @model_validator(mode="after")
    def _apart(self) -> Modes:
        if self.rated == "all" and self.unrated:
            raise ValueError('rated = "all" leaves no mode unrated; list the rated modes instead')
        if not self.rated:
            raise ValueError('rated = [] would rate no game at all; list the rated modes, or write "all"')
        both = set(self.rated) & set(self.unrated) if self.rated != "all" else set()
        if both:
            raise ValueError(f"'{min(both)}' is both rated and unrated")
        return self


class Count(Model):
    """The rolling count of a player's rated games before each game."""

    hours: Annotated[float, Field(gt=0, le=LONGEST_COUNT_HOURS, strict=True)]


class Band(Model):
    """A named range of ratings (from this rating up to the next band's)."""

    name: Text
    from_: Finite = Field(alias="from")


class Adjustment(Model):
    """A dated one-off step of every rating known at that instant, before the awards and games of the instant."""

    name: Text
    at: int
    add: Finite | None = None
    pull_to: Finite | None = None
    factor: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None
    floor: Finite | None = None

    @field_validator("at", mode="before")
    @classmethod
    def _instant(cls, value: object) -> object:
        return _as_us(value)

    @model_validator(mode="after")
    def _something(self) -> Adjustment:
        if (self.pull_to is None) != (self.factor is None):
            raise ValueError("pull_to and factor go together: new = pull_to + (old - pull_to) * factor")
        if self.add is None and self.pull_to is None and self.floor is None:
            raise ValueError("give add, pull_to with factor, or floor")
        return self


class KernelTables(NamedTuple):
    """Per version what the kernel needs of a player's own past; arrays of shape `(n_versions,)` or `(n_steps,)`.

    `k_axis`: int8, 0 none, 1 games before, 2 rating before; the steps of version v are `k_first[v]:k_last[v]` of `k_from` and
    `k_value`.
    `ramp_height`: float64, 1 where there is no ramp; `ramp_after`: whether E includes the present match.
    """

    k_axis: NDArray[np.int8]
    k_first: NDArray[np.int64]
    k_last: NDArray[np.int64]
    k_from: NDArray[np.float64]
    k_value: NDArray[np.float64]
    ramp_height: NDArray[np.float64]
    ramp_length: NDArray[np.float64]
    ramp_after: NDArray[np.bool_]


@dataclass(frozen=True)
class Uses:
    """Which optional columns the rules look at; no other is validated, and no other can influence a rating."""

    cube: bool
    match_length: bool
    result: bool
    weight: bool
    advantage: bool


class Ruleset(Model):
    """A whole ruleset; see `docs/rulesets.md` for each key."""

    name: Text
    title: str = ""
    note: str = ""
    start: Finite
    rounding: Literal["none", "half-away-from-zero"]
    modes: Modes = Modes()
    count: Count | None = None
    floor: Finite | None = None
    cap: Finite | None = None
    max_change: Positive | None = None
    max_cube: Annotated[int, Field(ge=1, le=2**30, strict=True)] = 64
    max_match_length: Annotated[int, Field(ge=1, le=LARGEST_WHOLE, strict=True)] = 999
    advantage: Flag = False
    version: Annotated[tuple[RuleVersion, ...], Field(min_length=1)]
    band: tuple[Band, ...] = ()
    adjustment: tuple[Adjustment, ...] = ()

    @field_validator("max_cube")
    @classmethod
    def _power_of_two(cls, value: int) -> int:
        if value & (value - 1):
            raise ValueError("must be a power of two, such as 64")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Ruleset:
        names = [version.name for version in self.version]
        if len(set(names)) != len(names):
            raise ValueError("two versions have the same name")
        for version in self.version:
            if version.heavy is not None and self.count is None:
                raise ValueError(f"version {version.name} has a heavy week, but there is no [count] with its hours")
        if self.floor is not None and self.cap is not None and self.floor >= self.cap:
            raise ValueError("floor must be below cap")
        lowest = [band.from_ for band in self.band]
        if lowest != sorted(set(lowest)):
            raise ValueError("[[band]]: the bands' 'from' must rise")
        for what, names in (
            ("bands", [band.name for band in self.band]),
            ("adjustments", [adjustment.name for adjustment in self.adjustment]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"two {what} have the same name")
        instants = [adjustment.at for adjustment in self.adjustment]
        if len(set(instants)) != len(instants):
            raise ValueError(
                "two adjustments at the same instant: write them as one, which pulls first, then adds, then sets the floor"
            )
        if self.rounding != "none":
            self._check_whole()
        return self

    def _check_whole(self) -> None:
        whole = {"start": self.start, "floor": self.floor, "cap": self.cap, "max_change": self.max_change}
        whole |= {f"floor of the adjustment '{adjustment.name}'": adjustment.floor for adjustment in self.adjustment}
        for key, value in whole.items():
            if value is not None and value != math.floor(value):
                raise ValueError(f"{key} = {_plain(value)}: ratings are whole numbers under this rounding")
            if value is not None and abs(value) > LARGEST_WHOLE:
                raise ValueError(f"{key} = {value}: whole ratings end at {LARGEST_WHOLE}")

    @property
    def integer_ratings(self) -> bool:
        """Whether ratings and changes are whole numbers (int32 in every table)."""
        return self.rounding != "none"

    @property
    def window_us(self) -> int | None:
        """Length of the counting window in microseconds, or None."""
        return None if self.count is None else round(self.count.hours * 3_600_000_000)

    @property
    def has_ramp(self) -> bool:
        """Whether any version has a ramp (then the timeline carries experience)."""
        return any(version.ramp for version in self.version)

    @property
    def uses(self) -> Uses:
        """The optional columns that any version looks at."""
        stakes = [version.stake for version in self.version]
        return Uses(
            cube=any(stake.cube != "none" for stake in stakes),
            match_length=any(version.needs_match_length for version in self.version),
            result=any(stake.result is not None for stake in stakes),
            weight=any(stake.weight for stake in stakes),
            advantage=self.advantage,
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the settled rules (names and values, not the file's spelling or comments)."""
        text = json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """The settled rules as plain values, instants as ISO text (None: since ever)."""
        content = self.model_dump(mode="json", by_alias=True)
        for version in content["version"]:
            version["from"] = GIVEN if version["from"] == GIVEN else show_us(version["from"])
        for adjustment in content["adjustment"]:
            adjustment["at"] = show_us(adjustment["at"])
        return content

    def version_table(self) -> dict[str, list[Any]]:
        """The columns of the SQL table `rule_versions`, one row a version, in order of `from_us` (see `sql/rule_terms.sql`)."""
        rows = []
        for index, version in enumerate(self.version):
            stake = version.stake
            result = stake.result or ResultStake()
            k = 1.0 if version.k is None else version.k
            heavy_k = None
            if version.heavy is not None:
                heavy_k = version.heavy.k if version.heavy.k is not None else k * (version.heavy.factor or 1.0)
            rows.append(
                {
                    "version_index": index,
                    "rule_version": version.name,
                    "from_us": version.start_us,
                    "divisor": version.divisor,
                    "divide_by_sqrt_length": version.divide_by == "sqrt_match_length",
                    "k": k,
                    "heavy_games": None if version.heavy is None else version.heavy.games,
                    "heavy_k": heavy_k,
                    "stake_base": stake.base,
                    "cube_rule": stake.cube,
                    "cube_doublings": stake.doublings,
                    "stake_by_sqrt_length": stake.match_length == "sqrt",
                    "single_factor": result.single,
                    "gammon_factor": result.gammon,
                    "backgammon_factor": result.backgammon,
                    "stake_by_weight": stake.weight,
                }
            )
        return {key: [row[key] for row in rows] for key in rows[0]}

    def kernel_tables(self) -> KernelTables:
        """What the kernel needs by version; see `KernelTables`."""
        axis: list[int] = []
        first: list[int] = []
        last: list[int] = []
        steps: list[KStep] = []
        for version in self.version:
            axis.append(1 if version.k_by_games else 2 if version.k_by_rating else 0)
            first.append(len(steps))
            steps.extend(version.k_by_games or version.k_by_rating)
            last.append(len(steps))
        ramps = [version.ramp for version in self.version]
        return KernelTables(
            k_axis=np.array(axis, np.int8),
            k_first=np.array(first, np.int64),
            k_last=np.array(last, np.int64),
            k_from=np.array([step.from_ for step in steps], np.float64),
            k_value=np.array([step.k for step in steps], np.float64),
            ramp_height=np.array([ramp.height if ramp else 1.0 for ramp in ramps], np.float64),
            ramp_length=np.array([ramp.length if ramp else 1.0 for ramp in ramps], np.float64),
            ramp_after=np.array([bool(ramp and ramp.experience == "after") for ramp in ramps], np.bool_),
        )


def _as_us(value: object) -> object:
    """A TOML date, datetime or text as microseconds."""
    if isinstance(value, dt.date):
        return to_us(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return parse_us(value)
    raise ValueError("not an instant such as 2026-10-01T00:00:00Z")


def shipped_rulesets() -> list[str]:
    """Names of the rulesets that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_ruleset(name_or_path: str) -> Path:
    """The file of a shipped ruleset's name or of a path.

    Raises:
        UsageFault: neither.
    """
    if name_or_path in shipped_rulesets():
        return SHIPPED / f"{name_or_path}.toml"
    path = Path(name_or_path)
    if path.is_file():
        return path
    raise UsageFault(f"--rules {name_or_path}: neither a file nor a shipped ruleset; shipped are {', '.join(shipped_rulesets())}")


def rules_source(name_or_path: str) -> str:
    """A shipped name as it is, a path as an absolute one: where a later run finds the same rules."""
    return name_or_path if name_or_path in shipped_rulesets() else os.path.abspath(name_or_path)


def ruleset_text(name_or_path: str) -> str:
    """The file of a ruleset as it is, to copy and change.

    Raises:
        UsageFault: unknown file or key, or a wrong value.
    """
    load_undated(name_or_path)
    return find_ruleset(name_or_path).read_text(encoding="utf-8")


def load_ruleset(name_or_path: str, since: Mapping[str, int] | None = None) -> Ruleset:
    """Read, check and settle a ruleset.

    Args:
        name_or_path: a shipped name or a TOML file.
        since: version name to its first instant (microseconds); overrides the file's.

    Raises:
        UsageFault: unknown file or key, a wrong value, a version without an instant, or instants that do not rise.
    """
    return ruleset_from_dict(_content(name_or_path), name_or_path, since)


def load_undated(name_or_path: str, since: Mapping[str, int] | None = None) -> Ruleset:
    """As `load_ruleset`, for a look: a version may be left without its instant, and its `from_` is then "given"."""
    return _settle(_checked(_content(name_or_path), name_or_path), name_or_path, dict(since or {}), dated=False)


def _content(name_or_path: str) -> dict[str, object]:
    try:
        return read_toml(find_ruleset(name_or_path), "ruleset")
    except UsageFault as fault:
        # What Python's parser says of a key that is there already.
        if "Cannot overwrite a value" in str(fault) or "Cannot declare" in str(fault):
            raise UsageFault(f"{fault}: a key or a table is given twice there") from None
        raise


def ruleset_from_dict(content: Mapping[str, Any], file: str, since: Mapping[str, int] | None = None) -> Ruleset:
    """Check and settle a ruleset given as plain values; `file` is named in messages. Raises as `load_ruleset`."""
    return _settle(_checked(content, file), file, dict(since or {}), dated=True)


def _checked(content: Mapping[str, Any], file: str) -> Ruleset:
    try:
        return Ruleset.model_validate(content)
    except ValidationError as error:
        raise UsageFault(f"{file}: {_faults(error)}") from None


def _settle(ruleset: Ruleset, file: str, since: dict[str, int], *, dated: bool) -> Ruleset:
    names = [version.name for version in ruleset.version]
    for name in since:
        if name not in names:
            raise UsageFault(f"--since {name}=…: {file} has no version '{name}'; it has {', '.join(names)}")
    versions = tuple(
        version.model_copy(update={"from_": since[version.name]}) if version.name in since else version
        for version in ruleset.version
    )
    missing = [version.name for version in versions if version.from_ == GIVEN]
    if missing and dated:
        raise UsageFault(
            f"{file}: version{'s' if missing[1:] else ''} {', '.join(missing)} {'have' if missing[1:] else 'has'} no date: nobody "
            f"but you knows when {'they' if missing[1:] else 'it'} came into force; say "
            + " ".join(f"--since {name}={_example_day(at)}" for at, name in enumerate(missing))
            + " with your own instants (UTC unless they carry a zone)"
        )
    for before, after in itertools.pairwise(version for version in versions if version.from_ != GIVEN):
        if after.start_us == BEGINNING_US:
            raise UsageFault(
                f"{file}: version {after.name} has no 'from': each version but the first one needs the instant from which it is in "
                "force"
            )
        if after.start_us <= before.start_us:
            raise UsageFault(
                f"{file}: version {after.name} (from {show_us(after.start_us) or 'ever'}) does not "
                f"start after version {before.name} (from {show_us(before.start_us) or 'ever'}); versions "
                "must be in order, each with its own instant (key 'from')"
            )
    return ruleset.model_copy(update={"version": versions})


def _example_day(at: int) -> str:
    """A day for an example, months apart: versions start one after the other."""
    return f"{2025 + (10 + at) // 12}-{(10 + at) % 12 + 1:02}-03"


#: What is wrong, by pydantic's own kind of fault, in plain words.
_WORDS = {
    "bool_type": "must be true or false, without quotes",
    "string_type": "must be text in quotes",
    "string_too_short": "must not be empty",
    "finite_number": "must be an ordinary number",
    "float_type": "must be a number, without quotes",
    "int_type": "must be a whole number, without quotes",
    "int_from_float": "must be a whole number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}


def _faults(error: ValidationError) -> str:
    """The first three faults of a ruleset in plain words, each with its key."""
    faults = error.errors(include_url=False)
    # A list whose items are all at fault also counts as empty: that is an echo.
    faults = [f for f in faults if f["type"] != "too_short" or not any(g is not f and g["loc"][:1] == f["loc"] for g in faults)]
    texts: list[str] = []
    for fault in faults[:3]:
        text = _fault(fault)
        if text not in texts:
            texts.append(text)
    more = len(faults) - len(faults[:3])
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def _fault(fault: ErrorDetails) -> str:
    names: list[str] = []
    for part in fault["loc"]:
        if isinstance(part, int):
            names[-1] += f"[{part + 1}]"
        elif part not in ("int", "literal['given']", "literal['all']", "tuple[str, ...]"):
            names.append(part)
    key, shown, kind = ".".join(names), fault["input"], fault["type"]
    if kind == "extra_forbidden":
        known = _known_keys(fault["loc"][:-1])
        near = difflib.get_close_matches(names[-1], known, 1)
        return f"unknown key '{key}'; " + (f"did you mean '{near[0]}'?" if near else f"known here are {', '.join(known)}")
    if kind == "missing":
        return "there is no [[version]]: a ruleset has at least one" if key == "version" else f"key '{key}' is missing"
    if kind == "too_short":
        return f"key '{key}' must not be empty"
    if kind == "value_error":
        text = fault["msg"].removeprefix("Value error, ")
    elif kind == "tuple_type":
        text = _list_text(names, shown)
    elif kind in ("model_type", "model_attributes_type", "dict_type"):
        text = f"must be a table: {names[-1].split('[')[0]} = {{ … }}"
    else:
        text = _WORDS.get(kind, fault["msg"]).format(**{key: _plain(value) for key, value in fault.get("ctx", {}).items()})
    if isinstance(shown, str | int | float | dt.date | dt.time):
        text += f" (found {_spelled(shown)})"
    return f"key '{key}': {text}" if key else text


def _plain(value: object) -> object:
    """A number in all its digits, and a whole one without decimals."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _spelled(value: str | int | float | dt.date | dt.time) -> str:
    """A value as a TOML file spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _list_text(names: list[str], shown: object) -> str:
    if names[-1] in ("version", "band", "adjustment"):
        return f"write [[{names[-1]}]] in double brackets, once for each"
    if names[-1].startswith("k_by"):
        return "must be a list of steps such as [{ from = 0, k = 40 }, { from = 30, k = 20 }]"
    return "must be a list, in square brackets"


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    """The keys that are known where a fault was found."""
    model: Any = Ruleset
    for part in loc:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[next(n for n, f in model.model_fields.items() if part in (n, f.alias))].annotation
        while not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            annotation = next(inner for inner in get_args(annotation) if inner is not type(None))
        model = annotation
    return [field.alias or name for name, field in model.model_fields.items()]
