"""In which bounds a number of the rules is looked for, and which values lie between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eloreplay.errors import UsageFault
from eloreplay.rules import Ruleset
from eloreplay.settings import Parameter, number, present

#: Numbers that are looked for together at most: a grid over more is too large.
MOST_FITTED = 3
#: Without bounds of one's own: from a quarter to four times the present value.
REACH = 4.0
#: Values are tried with so many digits, so that what is reported is what was tried.
DIGITS = 4


@dataclass(frozen=True)
class Range:
    """A parameter and the bounds it is looked for in."""

    parameter: Parameter
    low: float
    high: float
    whole: bool

    def points(self, low: float, high: float, count: int) -> list[float]:
        """`count` values from `low` to `high`, equal in ratio where `low` is above 0, as one would write them; rising."""
        steps = [i / (count - 1) for i in range(count)]
        raw = [low * (high / low) ** step if low > 0 else low + (high - low) * step for step in steps]
        return sorted({min(max(self._rounded(value), self.low), self.high) for value in raw})

    def _rounded(self, value: float) -> float:
        return float(round(value)) if self.whole else float(f"{value:.{DIGITS}g}")


def ranges(ruleset: Ruleset, chosen: Sequence[Parameter], low: dict[str, float], high: dict[str, float]) -> list[Range]:
    """The bounds of every parameter.

    Raises:
        UsageFault: too many or none, one twice, bounds of something else, missing bounds, or bounds the wrong way round.
    """
    names = [parameter.name for parameter in chosen]
    if not 1 <= len(names) <= MOST_FITTED:
        raise UsageFault(f"--param is needed 1 to {MOST_FITTED} times, {len(names)} were given")
    for name in names:
        if names.count(name) > 1:
            raise UsageFault(f"--param {name} is given twice")
    for option, bounds in (("--from", low), ("--to", high)):
        for name in bounds:
            if name not in names:
                raise UsageFault(f"{option} {name}=…: is not one of the parameters that are fitted ({', '.join(names)})")
    found = []
    for parameter in chosen:
        now = present(ruleset, parameter)
        least, most = low.get(parameter.name), high.get(parameter.name)
        if now is None or now <= 0:
            if least is None or most is None:
                raise UsageFault(
                    f"--param {parameter.name}: the rules have no single value above 0 of it, so give both --from "
                    f"{parameter.name}=… and --to {parameter.name}=…"
                )
        else:
            least = now / REACH if least is None else least
            most = now * REACH if most is None else most
        points = parameter.key in ("start", "floor", "cap", "max_change") and ruleset.integer_ratings
        whole = points or parameter.key == "heavy.games"
        if whole:
            least, most = float(math.ceil(least)), float(math.floor(most))
        if not least < most:
            raise UsageFault(f"--param {parameter.name}: {number(least)} to {number(most)} is no range: --from must be below --to")
        found.append(Range(parameter, least, most, whole))
    return found
