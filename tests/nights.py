"""Random small histories, and what happens to them night after night: the material of the oracle of `nightly`.

A scenario is made of a seed alone: a history, its rules and options, and for each night a list of edits. Each edit has a seed of its
own and takes the world as it finds it, so a scenario can also be played without some of its edits: `least` does that to find the
least case of a failure, and this file, run with seeds as arguments, plays (and with -s shrinks) them.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import support
import support_nightly
from night_edits import EDITS, SIDE, Edit
from night_world import DAY, HOUR, NAMES, WEEK, World, brief, own_rules
from support import Row

SHIPPED = ("tavla42", "tavla42", "tavla42-history", "nardy", "fibs", "chess", "fibs-1pt")
OWN = ("window", "window", "steps", "by rating", "seasons")


# ---------------------------------------------------------------- scenarios


@dataclass
class Night:
    """What happens before a night, and what is tried besides."""

    edits: list[tuple[Edit, int]]
    step: int
    seed: int
    skipped: bool = False


@dataclass
class Scenario:
    """Everything that a seed decides; `games` and `skip` make it smaller without changing the rest."""

    seed: int
    games: int = 0
    rules: str = ""
    options: list[str] = field(default_factory=list)
    nights: list[Night] = field(default_factory=list)
    first: list[tuple[Edit, int]] = field(default_factory=list)
    skip: frozenset[tuple[int, int]] = frozenset()
    drop: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list)


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(7_000_000 + seed)
    rules = SHIPPED[seed // 2 % len(SHIPPED)] if seed % 2 else OWN[seed // 2 % len(OWN)]
    made = Scenario(seed, games=rng.choice((20, 40, 60, 80, 120) if rng.random() < 0.85 else (0, 1, 3)), rules=rules)
    chunk = rng.choice((None, "month", "week", "day"))
    made.options = ["--max-rejected", "100%", "--threads", str(rng.choice((1, 2))), "--keep", str(rng.choice((1, 2, 3)))]
    made.options += ["--chunk", chunk] if chunk else []
    # The study takes a third of a small run: three of four scenarios do without.
    made.options += ["--no-study"] if random.Random(9_000_000 + seed).random() < 0.75 else []
    if rng.random() < 0.3:
        made.options += ["--top", str(rng.choice((1, 3))), "--min-games", str(rng.choice((1, 5)))]
    if rng.random() < 0.3:
        made.options += ["--active-days", str(rng.choice((1, 7, 30)))]
    made.first = [(edit, rng.randrange(2**32)) for edit in SIDE if rng.random() < 0.25]
    for _ in range(rng.randrange(2, 6)):
        edits = [(rng.choice(EDITS), rng.randrange(2**32)) for _ in range(rng.choice((1, 1, 2, 3, 4)))]
        step = rng.choice((0, 1, HOUR, DAY, DAY, 3 * DAY, 10 * DAY, 40 * DAY))
        made.nights.append(Night(edits, step, rng.randrange(2**32), skipped=rng.random() < 0.15))
    made.nights[-1].skipped = False
    return made


def world_of(made: Scenario, base: Path) -> tuple[World, str, list[str]]:
    """The world before the first run, the rules as the command takes them, and the rules' own options."""
    rng = random.Random(8_000_000 + made.seed)
    numbers = rng.random() < 0.5
    count = rng.randrange(4, 9)
    start = support.ts(rng.choice(("2026-01-28", "2026-01-28", "2025-12-30 22:00:00", "1969-12-27", "1888-02-27")))
    span = rng.choice((2, 7, 9, 20, 40, 100))
    world = World(
        base,
        numbers=numbers,
        game_numbers=rng.random() < 0.5,
        players=rng.sample(range(-3, 40), count) if numbers else rng.sample(NAMES, count),
        pool=rng.random() < 0.15,
        dirt=rng.choice((0.0, 0.03, 0.15)),
        start=start,
        as_of=start + span * DAY,
        before=start + span * DAY,
    )
    offsets = (0, 0, 0, 1, -1, WEEK, WEEK, WEEK + 1, WEEK - 1, HOUR, DAY)
    times = [start + rng.randrange(span * 24) * HOUR]
    while len(times) < made.games:
        times.append(min(rng.choice(times) + rng.choice(offsets), world.as_of))
        if rng.random() < 0.3:
            times.append(start + rng.randrange(span * 24) * HOUR)
    times = times[: made.games]
    rows = [world.game(rng, at) for at in times]
    rows += [dict(r) for r in rows if rng.random() < world.dirt]
    files = rng.randrange(1, 5)
    rows = [row for at, row in enumerate(rows) if at not in made.drop]
    for number in range(files):
        world.add(rng, rows[number::files])
    extra: list[str] = []
    rules = made.rules
    if rules == "tavla42-history":
        starts = sorted(rng.sample(range(span * 24 + 4), 3))
        for version, hour in zip(("1.0.5", "1.2.0", "1.3.1"), starts, strict=True):
            extra += ["--since", f"{version}={support.iso(start + hour * HOUR)}"]
    elif rules in OWN:
        path = base / "own.toml"
        path.write_text(own_rules(rules, rng, times or [start]), encoding="utf-8")
        world.whole = "half-away" in path.read_text(encoding="utf-8")
        world.ramp = rules == "seasons"
        rules = str(path)
    else:
        world.whole = rules in ("tavla42", "fibs-1pt")
        world.ramp = rules in ("nardy", "fibs")
    if world.pool:
        extra += ["--pool", "ladder"]
    return world, rules, extra


class Failure(AssertionError):
    """A night that is not what a backfill is; its text is all that is needed to see it again."""


class Play:
    """Plays a scenario in a folder: after every night the published run is held against a fresh backfill."""

    def __init__(self, made: Scenario, base: Path) -> None:
        self.made, self.base, self.nights = made, base, 0
        base.mkdir(parents=True, exist_ok=True)
        self.world, self.rules, self.extra = world_of(made, base)
        self.out = base / "out"
        self.log: list[str] = []

    def run(self) -> int:
        """All nights; returns how many were run."""
        try:
            self._first()
            for number, night in enumerate(self.made.nights):
                self._edit(number, night)
                if not night.skipped:
                    self._night(number, night)
                    self.nights += 1
        except AssertionError as error:
            raise Failure(self._story(str(error))) from error
        return self.nights

    def _story(self, what: str) -> str:
        made = self.made
        rules = self.rules if "/" not in self.rules else Path(self.rules).read_text(encoding="utf-8")
        return "\n".join(
            [
                f"seed {made.seed} (again: python tests/{Path(__file__).name} {made.seed})",
                f"rules {rules}",
                f"options {made.options} {self.extra}",
                *self.log,
                what,
            ]
        )

    def _backfill(self, out: Path, options: list[str]) -> support.Out:
        games = [str(folder) for folder in (self.world.folder, *([self.world.archive_folder] if self.world.archive else []))]
        argv: list[str] = ["backfill", *games, "--rules", self.rules, "--out", str(out), "--quiet"]
        return support_nightly.command([*argv, "--as-of", support.iso(self.world.as_of), *self.extra, *options], out)

    def _first(self) -> None:
        world = self.world
        for number, (edit, seed) in enumerate(self.made.first):
            if (-1, number) not in self.made.skip:
                self.log.append(f"at first: {edit(world, random.Random(seed))}")
        world.write()
        options = world.write_tables(random.Random(self.made.seed))
        self.log.append(f"backfill as of {support.iso(world.as_of)}: {brief(sorted_rows(world))}")
        self._backfill(self.out, [*self.made.options, *options]).ok()
        world.was_read()

    def _edit(self, number: int, night: Night) -> None:
        world = self.world
        world.as_of += night.step
        done = [
            edit(world, random.Random(seed))
            for place, (edit, seed) in enumerate(night.edits)
            if (number, place) not in self.made.skip
        ]
        self.log += [f"night {number}, as of {support.iso(world.as_of)}{' (left out)' if night.skipped else ''}:"]
        self.log += [f"  - {text}" for text in done]

    def _night(self, number: int, night: Night) -> None:
        world, rng = self.world, random.Random(night.seed)
        world.write()
        tables = world.write_tables(rng)
        chunk = rng.choice(("month", "week", "day"))
        fresh = self.base / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        plain = [part for part in self.made.options if part not in ("month", "week", "day", "--chunk")]
        self._backfill(fresh, [*plain, *world.table_options(), "--chunk", chunk]).ok()
        options = ["--as-of", support.iso(world.as_of), "--threads", str(rng.choice((1, 2))), *tables]
        options += ["--allow-missing"] if world.vanished else []
        if world.sealed is not None and (world.seal_now or rng.random() < 0.2):
            options += ["--sealed-before", support.iso(world.sealed)]
        before = support_nightly.seen(self.out)
        self._tries(rng, options, before)
        out = self._run([*options, "--accept-changes"])
        assert out.code == 0, f"exit code {out.code}: {out.text}"
        faults = support_nightly.differences(self.out, fresh, views=rng.random() < 0.3)
        assert not faults, "\n".join(faults)
        assert sorted(path.name for path in self.out.iterdir() if path.name == "work") == [], "the work folder stays"
        world.was_read()
        if rng.random() < 0.2:
            before = support_nightly.seen(self.out)
            options = [part for part in options if part != "--allow-missing"]
            out = self._run([*options, *(["--accept-changes"] if rng.random() < 0.5 else [])])
            assert out.code == 0, f"once more: exit code {out.code}: {out.text}"
            assert support_nightly.seen(self.out) == before, "the same inputs and as-of once more, and a new run is published"

    def _run(self, options: list[str]) -> support.Out:
        return support_nightly.night(self.world.folder, self.out, *options)

    def _tries(self, rng: random.Random, options: list[str], before: dict[str, str]) -> None:
        """What publishes nothing: a dry run, a vanished file, a damaged one, a change budget that is exceeded."""
        if self.world.vanished and "is gone" in self.log[-1]:
            out = self._run([part for part in options if part != "--allow-missing"])
            assert out.code == 3, f"a file has vanished: exit code {out.code}: {out.text}"
        elif rng.random() < 0.1:
            out = self._run([*options, "--dry-run"])
            assert out.code == 0, f"dry run: exit code {out.code}: {out.text}"
        elif rng.random() < 0.1:
            damaged = self.world.folder / "damaged.parquet"
            damaged.write_bytes(b"PAR1 and no more")
            out = self._run(options)
            damaged.unlink()
            assert out.code == 3, f"damaged file: exit code {out.code}: {out.text}"
        elif rng.random() < 0.15:
            out = self._run(options)
            assert out.code in (0, 5), f"without --accept-changes: exit code {out.code}: {out.text}"
            if out.code == 0:
                return
        else:
            return
        assert support_nightly.seen(self.out) == before, f"exit code {out.code}, and something was published"


def sorted_rows(world: World) -> list[Row]:
    return sorted(world.rows(), key=lambda r: (r["played_at"] is None, r["played_at"] or 0, str(r["game_id"])))


def play(made: Scenario) -> int:
    """Play a scenario in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="nights-") as base:
        return Play(made, Path(base)).run()


def fails(made: Scenario) -> str | None:
    """The story of the failure, or None."""
    try:
        play(made)
    except Failure as failure:
        return str(failure)
    return None


def least(made: Scenario) -> Scenario:
    """The same failure with as few edits, nights and games as a simple search finds."""

    def smaller(one: Scenario) -> list[Scenario]:
        tries = [replace(one, nights=one.nights[:-1])] if len(one.nights) > 1 else []
        tries = [t for t in tries if not t.nights[-1].skipped]
        places = [(-1, at) for at in range(len(one.first))]
        places += [(number, at) for number, night in enumerate(one.nights) for at in range(len(night.edits))]
        tries += [replace(one, skip=one.skip | {place}) for place in places if place not in one.skip]
        left = [at for at in range(one.games) if at not in one.drop]
        for size in (len(left) // 2, len(left) // 4, len(left) // 8, 1):
            if size:
                tries += [replace(one, drop=one.drop | set(left[at : at + size])) for at in range(0, len(left), size)]
        return tries

    found = True
    while found:
        found = False
        for one in smaller(made):
            if fails(one):
                made, found = one, True
                break
    return made


if __name__ == "__main__":
    for text in (a for a in sys.argv[1:] if a != "-s"):
        named = scenario(int(text))
        story = fails(named)
        if story and "-s" in sys.argv:
            story = fails(least(named))
        sys.stdout.write(f"{story or f'seed {text}: equal'}\n")
