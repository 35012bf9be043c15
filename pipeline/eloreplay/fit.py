"""The values of a few numbers of the rules under which the ratings foretold the games best, and how well they do on later games.

A grid over the bounds, then finer and finer grids around the best point, every grid one parallel pass over the games. A search that
takes one point after the other (golden section, Nelder and Mead) would leave the other cores idle, and would stumble over the steps
that whole-number ratings put into the loss.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eloreplay.errors import InputRefused
from eloreplay.games import Inputs, Report
from eloreplay.queries import Database
from eloreplay.ranges import Range
from eloreplay.rules import Ruleset
from eloreplay.settings import Setting, number, present, with_values
from eloreplay.sweep_field import Field, Played, Run, opened, stretches
from eloreplay.sweep_kernel import GROUPS
from eloreplay.sweep_pass import Arm, arms, most_arms, rate_all, warm_up
from eloreplay.sweep_scores import Estimate, mean_loss
from eloreplay.sweep_table import paired

#: Points of the first grid on each axis, by the number of parameters, and of the finer ones.
FIRST_POINTS = {1: 17, 2: 9, 3: 6}
FINER_POINTS = {1: 9, 2: 5, 3: 4}
#: Points along one axis that are held against the best, to say how far it is certain.
PROFILE_POINTS, PROFILE_BETWEEN = 33, 9
#: The search ends when its points lie this close, as a share of the value: closer than the games could tell.
PRECISION = 0.01


@dataclass(frozen=True)
class Found:
    """One fitted parameter: its value in the rules, the best, and the range that the training games cannot tell from it.

    `low` or `high` is None where that range reaches the bound.
    """

    name: str
    now: float | None
    best: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class FitResult:
    """What a fit found.

    Attributes:
        parameters: in the order given.
        train_games: games before the instant that parts them; likewise `test_games`, from it on.
        log_loss: by "train" and "test": (the rules as they are, the best).
        difference: by "train" and "test": log loss of the best less that of the rules as they are, paired.
        brier_difference: likewise.
        tried: settings that were rated.
        notes: what a person should know.
    """

    parameters: list[Found]
    train_games: int
    test_games: int
    log_loss: dict[str, tuple[float, float]]
    difference: dict[str, Estimate]
    brier_difference: dict[str, Estimate]
    tried: int
    notes: list[str] = field(default_factory=list)


class Trial:
    """The games of a fit, kept for one pass after the other, and the arms rated so far."""

    def __init__(self, database: Database, shared: Field, scratch: Path, threads: int, report: Report) -> None:
        self._database, self._field, self._scratch, self._threads, self._report = database, shared, scratch, threads, report
        self._known: dict[str, Arm] = {}
        self._runs: list[list[Run]] = []
        for at, (played, runs) in enumerate(stretches(database, shared, report)):
            played.save(scratch / f"{at}.games")
            self._runs.append(runs)

    @property
    def tried(self) -> int:
        """Settings rated so far."""
        return len(self._known)

    def games(self, part: int) -> Any:
        """Games by cell of a part; int64 `(GROUPS, GROUPS)`."""
        return self._field.cell_games[part].reshape(GROUPS, GROUPS)

    def _stretches(self) -> Iterator[tuple[Played, list[Run]]]:
        for at, runs in enumerate(self._runs):
            yield Played.load(self._scratch / f"{at}.games"), runs

    def arms(self, rulesets: Sequence[Ruleset]) -> list[Arm]:
        """Each ruleset, rated over all games; those that were not rated before in one pass."""
        new = {ruleset.digest: Setting((), ruleset) for ruleset in rulesets if ruleset.digest not in self._known}
        size = max(self._threads, most_arms(self._field) // 4)
        waiting = list(new.values())
        for at in range(0, len(waiting), size):
            every = arms(self._database, self._field, waiting[at : at + size], self._scratch)
            rate_all(every, self._stretches(), self._field, self._threads)
            for arm in every:
                # Its sums are what is wanted of it from here on.
                arm.state = arm.state[:0].copy()
                self._known[arm.setting.ruleset.digest] = arm
            self._report("fitting", self.tried, 0)
        return [self._known[ruleset.digest] for ruleset in rulesets]

    def losses(self, rulesets: Sequence[Ruleset]) -> list[float]:
        """Mean log loss of each ruleset on the games to learn from."""
        count = int(self.games(0).sum())
        return [mean_loss(arm.sums[0]["loss"], count) for arm in self.arms(rulesets)]


def fit(
    inputs: Inputs,
    ruleset: Ruleset,
    looked_for: Sequence[Range],
    as_of_us: int,
    train_until_us: int,
    *,
    threads: int,
    memory_limit: str,
    max_rejected: float,
    report: Report,
    note: Callable[[str], None],
) -> FitResult:
    """Find the values with the lowest log loss on the games before an instant, and score them on those from it on.

    Args:
        inputs: what to read.
        ruleset: the rules as they are.
        looked_for: the parameters with their bounds, see `ranges`.
        as_of_us: games after this instant are held.
        train_until_us: the instant that parts the games.
        threads: of the queries, and settings that are rated side by side.
        memory_limit: of DuckDB.
        max_rejected: largest share of refused rows.
        report: told how far it is.
        note: told what a person should know.

    Raises:
        InputRefused: as in a run; also when there is no game to learn from.
        EnvironmentFault: disk or memory.
    """
    with tempfile.TemporaryDirectory(prefix="eloreplay-") as folder, ThreadPoolExecutor(1) as compiler:
        scratch = Path(folder)
        with opened(
            inputs,
            ruleset,
            as_of_us,
            train_until_us,
            threads=threads,
            memory_limit=memory_limit,
            max_rejected=max_rejected,
            scratch=scratch,
            report=report,
            note=note,
            meanwhile=lambda: compiler.submit(warm_up),
        ) as (database, shared):
            trial = Trial(database, shared, scratch, threads, report)
            if not trial.games(0).sum():
                raise InputRefused("no game was played before --train-until, so there is nothing to fit to; give a later instant")
            best = search(looked_for, ruleset, trial)
            return _result(looked_for, best, ruleset, trial)


def search(looked_for: Sequence[Range], ruleset: Ruleset, trial: Trial) -> tuple[float, ...]:
    """The point with the lowest loss: a grid over the bounds, then around the best point grids of ever closer points."""
    count = len(looked_for)
    axes = [one.points(one.low, one.high, FIRST_POINTS[count]) for one in looked_for]
    while True:
        points = list(itertools.product(*axes))
        losses = trial.losses([_ruleset(looked_for, point, ruleset) for point in points])
        # The first of equals: the grid is in a fixed order.
        best = points[min(range(len(points)), key=lambda at: (losses[at], at))]
        spans = [_neighbours(axis, value) for axis, value in zip(axes, best, strict=True)]
        if all(_close(span, value, one.whole) for span, value, one in zip(spans, best, looked_for, strict=True)):
            return best
        finer = [
            sorted({*one.points(*span, FINER_POINTS[count]), value})
            for one, span, value in zip(looked_for, spans, best, strict=True)
        ]
        if finer == axes:
            return best
        axes = finer


def _neighbours(axis: list[float], value: float) -> tuple[float, float]:
    at = axis.index(value)
    return axis[max(at - 1, 0)], axis[min(at + 1, len(axis) - 1)]


def _close(span: tuple[float, float], value: float, whole: bool) -> bool:
    width = max(value - span[0], span[1] - value)
    return width <= (1.0 if whole else PRECISION * abs(value)) or width == 0.0


def _ruleset(looked_for: Sequence[Range], point: Sequence[float], ruleset: Ruleset) -> Ruleset:
    return with_values(ruleset, [one.parameter for one in looked_for], point)


def _result(looked_for: Sequence[Range], best: tuple[float, ...], ruleset: Ruleset, trial: Trial) -> FitResult:
    found = [_profile(at, looked_for, best, ruleset, trial) for at in range(len(looked_for))]
    now, then = trial.arms([ruleset, _ruleset(looked_for, best, ruleset)])
    parts = {"train": 0, "test": 1}
    counts = {name: int(trial.games(part).sum()) for name, part in parts.items()}
    return FitResult(
        parameters=found,
        train_games=counts["train"],
        test_games=counts["test"],
        log_loss={
            name: (mean_loss(now.sums[part]["loss"], counts[name]), mean_loss(then.sums[part]["loss"], counts[name]))
            for name, part in parts.items()
        },
        difference={name: paired(then, now, part, "loss", trial.games(part)) for name, part in parts.items()},
        brier_difference={name: paired(then, now, part, "brier", trial.games(part)) for name, part in parts.items()},
        tried=trial.tried,
        notes=list(_notes(looked_for, best, counts["test"])),
    )


def _profile(at: int, looked_for: Sequence[Range], best: tuple[float, ...], ruleset: Ruleset, trial: Trial) -> Found:
    """How far one parameter may be moved, the others at their best, before the training games notice."""
    one, games = looked_for[at], trial.games(0)

    def alike(values: Sequence[float]) -> list[bool]:
        points = [(*best[:at], value, *best[at + 1 :]) for value in (best[at], *values)]
        middle, *every = trial.arms([_ruleset(looked_for, point, ruleset) for point in points])
        return [arm is middle or not paired(arm, middle, 0, "loss", games).low > 0 for arm in every]

    values = sorted({*one.points(one.low, one.high, PROFILE_POINTS), best[at]})
    middle, same = values.index(best[at]), alike(values)
    edges: list[float | None] = []
    for side, kept in ((values[middle::-1], same[middle::-1]), (values[middle:], same[middle:])):
        last = next((i for i, fits in enumerate(kept) if not fits), len(side)) - 1
        if last == len(side) - 1:
            edges.append(None)
            continue
        # Between the last value that cannot be told from the best and the first that can, once more.
        inside, outside = side[last], side[last + 1]
        between = one.points(min(inside, outside), max(inside, outside), PROFILE_BETWEEN)
        between = between if inside < outside else between[::-1]
        fits = alike(between)
        edges.append(between[next((i for i, fit in enumerate(fits) if not fit), len(fits)) - 1])
    return Found(one.parameter.name, present(ruleset, one.parameter), best[at], edges[0], edges[1])


def _notes(looked_for: Sequence[Range], best: tuple[float, ...], test_games: int) -> Iterator[str]:
    keys = [one.parameter.key for one in looked_for]
    if "divisor" in keys and any(key == "k" or key.endswith(".k") for key in keys):
        yield (
            "a divisor and a k were fitted together: what is foretold follows from k / divisor alone, but for rounding, start "
            "ratings, awards and bounds, which are in points. The divisor sets how wide the board is: choose it, and fit k"
        )
    for one, value in zip(looked_for, best, strict=True):
        if value in (one.low, one.high):
            yield f"the best {one.parameter.name} lies at a bound, {number(value)}: look beyond it with --from or --to"
    if not test_games:
        yield "no game was played from --train-until on, so nothing says how the fitted values would do on games they have not seen"
