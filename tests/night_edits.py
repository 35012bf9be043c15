"""What happens to a site between two nights: each edit takes the world as it finds it and says in words what it did."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import support
from night_world import DAY, HOUR, WEEK, World, brief, spoil
from support import Row

Edit = Callable[[World, random.Random], str]


def _last(world: World) -> int:
    """The last instant that is played at the as-of of before."""
    return max((t for t in world.instants() if t <= world.before), default=world.before)


def new_games(world: World, rng: random.Random) -> str:
    """Games of the day; some at one instant, some at the very instant of the last known, some a week after another."""
    last, rows = _last(world), []
    for _ in range(rng.randrange(1, 9)):
        span = max(1, world.as_of - last)
        choices = [last + rng.randrange(span), last + rng.randrange(span), rows[-1]["played_at"] if rows else last, last, last + 1]
        choices += [rng.choice(world.instants()) + WEEK + rng.choice((0, 0, 1, -1)), world.as_of]
        rows.append(world.game(rng, rng.choice(choices)))
    return f"{len(rows)} new games in {world.add(rng, rows)}: {brief(rows)}"


def late_games(world: World, rng: random.Random) -> str:
    times = world.instants()
    rows = []
    for _ in range(rng.randrange(1, 4)):
        at = rng.choice(
            (rng.choice(times), rng.choice(times) + rng.choice((1, -1, HOUR)), rng.randrange(min(times), max(times) + 1))
        )
        rows.append(world.game(rng, at))
    return f"late games in {world.add(rng, rows)}: {brief(rows)}"


def earlier_than_all(world: World, rng: random.Random) -> str:
    rows = [world.game(rng, min(world.instants()) - rng.choice((0, 1, HOUR, 40 * DAY)))]
    return f"a game before all others in {world.add(rng, rows)}: {brief(rows)}"


def held_games(world: World, rng: random.Random) -> str:
    rows = [world.game(rng, world.as_of + rng.choice((1, HOUR, DAY, 3 * DAY, 400 * DAY))) for _ in range(rng.randrange(1, 4))]
    return f"games after the as-of in {world.add(rng, rows)}: {brief(rows)}"


def corrected(world: World, rng: random.Random, how_many: int = 3) -> list[Row]:
    """Copies of some rows with a higher revision."""
    known = world.named()
    rows = []
    for row in rng.sample(known, min(len(known), rng.randrange(1, how_many + 1))):
        top = max((-1 if r["revision"] is None else r["revision"]) for r in known if r["game_id"] == row["game_id"])
        rows.append({**row, "revision": top + 1})
    return rows


def flipped(world: World, rng: random.Random) -> str:
    rows = corrected(world, rng)
    for row in rows:
        row["winner_id"], row["loser_id"] = row["loser_id"], row["winner_id"]
    return f"flipped in {world.add(rng, rows)}: {brief(rows)}"


def moved_in_time(world: World, rng: random.Random) -> str:
    rows = corrected(world, rng)
    for row in rows:
        row["played_at"] = rng.choice((rng.choice(world.instants()), world.as_of, world.as_of + 1, _last(world), None))
    return f"moved in time in {world.add(rng, rows)}: {brief(rows)}"


def voided(world: World, rng: random.Random) -> str:
    rows = [{**row, "voided": True} for row in corrected(world, rng)]
    return f"voided in {world.add(rng, rows)}: {brief(rows)}"


def spoiled(world: World, rng: random.Random) -> str:
    rows = corrected(world, rng)
    for row in rows:
        spoil(row, rng)
    return f"corrected for the worse in {world.add(rng, rows)}: {brief(rows)}"


def reclassified(world: World, rng: random.Random) -> str:
    rows = corrected(world, rng)
    for row in rows:
        row |= rng.choice(({"mode": "casual"}, {"mode": "ranked"}, {"cube": 8}, {"match_length": 9}, {"is_draw": True}))
        if world.pool:
            row["ladder"] = rng.choice(("gold", "silver"))
    return f"another mode, cube, length or ladder in {world.add(rng, rows)}: {brief(rows)}"


def conflict(world: World, rng: random.Random) -> str:
    rows = []
    for row in rng.sample(world.named(), min(2, len(world.named()))):
        row = dict(row)
        row |= rng.choice(({"winner_id": row["loser_id"], "loser_id": row["winner_id"]}, {"ended_by": "left"}, {"cube": 16}))
        rows.append(row)
    return f"another content without a revision in {world.add(rng, rows)}: {brief(rows)}"


def copies(world: World, rng: random.Random) -> str:
    rows = [
        dict(r) for r in rng.sample(world.rows(), min(len(world.rows()), rng.randrange(1, 6))) for _ in range(rng.choice((1, 2)))
    ]
    return f"identical copies in {world.add(rng, rows)}: {brief(rows)}"


def copy_of_a_file(world: World, rng: random.Random) -> str:
    name = rng.choice(sorted(world.files))
    return f"{name} once more as {world.add(rng, [dict(r) for r in world.files[name].rows])}"


def old_revision(world: World, rng: random.Random) -> str:
    rows = []
    for row in rng.sample(world.named(), min(len(world.named()), 3)):
        lower = None if row["revision"] is None else rng.choice((None, row["revision"] - 1, row["revision"]))
        rows.append({**row, "winner_id": row["loser_id"], "loser_id": row["winner_id"], "revision": lower})
    return f"old revisions in {world.add(rng, rows)}: {brief(rows)}"


def missing(world: World, rng: random.Random) -> str:
    rows = [world.game(rng, _last(world)) for _ in range(2)]
    rows[0][rng.choice(("game_id", "winner_id", "loser_id"))] = None
    rows[1]["played_at"] = None
    return f"rows without id or time in {world.add(rng, rows)}: {brief(rows)}"


def grown(world: World, rng: random.Random) -> str:
    name = rng.choice(sorted(world.files))
    rows = [
        world.game(rng, rng.choice((_last(world), world.as_of, rng.choice(world.instants())))) for _ in range(rng.randrange(1, 4))
    ]
    world.files[name].rows = [*world.files[name].rows, *rows]
    world.files[name].absent = frozenset()
    return f"{name} has grown by {brief(rows)}"


def shrunk(world: World, rng: random.Random) -> str:
    name = rng.choice(sorted(world.files))
    rows = list(world.files[name].rows)
    gone = [rows.pop(rng.randrange(len(rows))) for _ in range(rng.randrange(1, 4)) if rows]
    world.files[name].rows = rows
    return f"{name} has lost {brief(gone)}"


def sorted_anew(world: World, rng: random.Random) -> str:
    name = rng.choice(sorted(world.files))
    rows = list(world.files[name].rows)
    rng.shuffle(rows)
    world.files[name].rows = rows
    world.files[name].group = rng.choice((None, 2, 5))
    return f"{name} is sorted anew"


def changed_in_place(world: World, rng: random.Random) -> str:
    name = rng.choice(sorted(world.files))
    rows = [dict(r) for r in world.files[name].rows]
    if not rows:
        return f"{name} stays empty"
    row = rng.choice(rows)
    if rng.random() < 0.5:
        row["winner_id"], row["loser_id"] = row["loser_id"], row["winner_id"]
    else:
        row["played_at"] = rng.choice(world.instants())
    world.files[name].rows = rows
    return f"{name}: a row is another: {brief([row])}"


def changed_with_its_time_put_back(world: World, rng: random.Random) -> str:
    """The size stays (plain encoding, no compression) and the time is put back: only the content tells."""
    plain = [name for name, file in sorted(world.files.items()) if file.plain and file.rows and name in world.written]
    if not plain:
        return "no file whose time could be put back"
    name = rng.choice(plain)
    world.write()
    rows = [dict(r) for r in world.files[name].rows]
    row = rng.choice(rows)
    row["winner_id"], row["loser_id"] = row["loser_id"], row["winner_id"]
    world.files[name].rows = rows
    world.write(keep_time=frozenset({name}))
    return f"{name}: a row is another, the time of the file is put back: {brief([row])}"


def touched(world: World, rng: random.Random) -> str:
    name = rng.choice(sorted(world.files))
    if name in world.written:
        os.utime(world.folder / name, ns=(1, rng.randrange(10**18)))
    return f"{name} has another time"


def removed(world: World, rng: random.Random) -> str:
    names = sorted(name for name in world.files if name in world.written and not world.is_sealed(name))
    if len(world.files) < 2 or not names:
        return "the only file stays"
    name = rng.choice(names)
    del world.files[name]
    world.vanished = True
    return f"{name} is gone"


def renamed(world: World, rng: random.Random) -> str:
    names = [name for name in sorted(world.files) if not world.is_sealed(name)]
    if not names:
        return "no file to rename"
    name = rng.choice(names)
    world.next_file += 1
    other = f"{rng.choice(('0', 'new/n', 'zz'))}_{world.next_file}.parquet"
    world.files[other] = world.files.pop(name)
    if name in world.written:
        (world.folder / other).parent.mkdir(parents=True, exist_ok=True)
        (world.folder / name).rename(world.folder / other)
        world.written[other] = world.written.pop(name)
        world.vanished = True
    return f"{name} is now {other}"


def swapped(world: World, rng: random.Random) -> str:
    """Two files change names, times and all."""
    names = sorted(name for name in world.files if name in world.written)
    if len(names) < 2:
        return "no two files to swap"
    one, other = rng.sample(names, 2)
    world.write()
    spare = world.folder / ".spare"
    (world.folder / one).rename(spare)
    (world.folder / other).rename(world.folder / one)
    spare.rename(world.folder / other)
    world.files[one], world.files[other] = world.files[other], world.files[one]
    world.written[one], world.written[other] = world.written[other], world.written[one]
    return f"{one} and {other} have changed names"


def archived(world: World, rng: random.Random) -> str:
    """A file of the sealed past is moved away: its games stay, and only the published run has them."""
    same = [name for name, file in sorted(world.files.items()) if world.read.get(name, ("",))[0] == repr(file)]
    names = [name for name in same if name in world.written and (last := world.last_of(name)) is not None and last < world.as_of]
    if not names or len(world.files) < 2 or world.vanished:
        return "no file that could be archived"
    name = min(rng.sample(names, min(2, len(names))), key=lambda n: world.last_of(n) or 0)
    last = world.last_of(name)
    assert last is not None
    world.sealed = max(last + rng.choice((1, HOUR)), world.sealed or last)
    world.archive[name] = world.files.pop(name)
    del world.written[name]
    (world.archive_folder / name).parent.mkdir(parents=True, exist_ok=True)
    (world.folder / name).rename(world.archive_folder / name)
    world.seal_now = True
    return f"{name} is archived, sealed before {support.iso(world.sealed)}"


def back_from_the_archive(world: World, rng: random.Random) -> str:
    if not world.archive:
        return "no file is archived"
    name = rng.choice(sorted(world.archive))
    world.files[name] = world.archive.pop(name)
    (world.folder / name).parent.mkdir(parents=True, exist_ok=True)
    (world.archive_folder / name).rename(world.folder / name)
    world.written[name] = repr(world.files[name])
    return f"{name} is back from the archive"


def merged_files(world: World, rng: random.Random) -> str:
    names = sorted(name for name in world.files if name in world.written and not world.is_sealed(name))
    if len(names) < 2:
        return "no two files to merge"
    rows = [row for name in names[:2] for row in world.files.pop(name).rows]
    world.vanished = True
    return f"{names[0]} and {names[1]} are now {world.add(rng, rows)}"


def alias_added(world: World, rng: random.Random) -> str:
    aliases = dict(world.aliases or {})
    stranger: Any = 777 if world.numbers else "nobody"
    one, other = rng.sample([*world.players, stranger], 2)
    world.aliases = aliases
    if one in aliases or world.final(other) == one:
        return "no alias that could be added"
    world.aliases = aliases | {one: other}
    return f"{one!r} is {other!r}"


def alias_removed(world: World, rng: random.Random) -> str:
    if not world.aliases:
        return "no alias to take away"
    gone = rng.choice(list(world.aliases))
    world.aliases = {a: b for a, b in world.aliases.items() if a != gone}
    return f"{gone!r} is himself again"


def excluded_added(world: World, rng: random.Random) -> str:
    player = rng.choice(world.players)
    world.excluded = [*(world.excluded or []), player]
    return f"{player!r} is excluded"


def excluded_removed(world: World, rng: random.Random) -> str:
    if not world.excluded:
        return "nobody to take back"
    gone = rng.choice(world.excluded)
    world.excluded = [p for p in world.excluded if p != gone]
    return f"{gone!r} is taken back"


def award(world: World, rng: random.Random) -> Row:
    times = world.instants()
    at = rng.choice((rng.choice(times), _last(world), world.as_of, world.as_of + 1, world.as_of + 3 * DAY, min(times) - DAY))
    world.next_game += 1
    row: Row = {
        "award_id": world.next_game * 7 % 101 - 50 + 1000 * (world.next_game // 101),
        "awarded_at": at + rng.choice((0, 0, 1, -1)),
        "player_id": rng.choice([*world.players, 555 if world.numbers else "guest"]),
        "points": rng.choice((50.0, 15.0, -30.0, 0.0, 50.0, 15.0, 0.5, None)),
        "reason": rng.choice(("podium", None)),
    }
    if world.pool:
        row["ladder"] = rng.choice(("gold", "silver"))
    return row


def awards_added(world: World, rng: random.Random) -> str:
    rows = [award(world, rng) for _ in range(rng.randrange(1, 4))]
    world.awards = [*(world.awards or []), *rows]
    return f"awards {rows}"


def award_changed(world: World, rng: random.Random) -> str:
    if not world.awards:
        return "no award to change"
    rows = [dict(r) for r in world.awards]
    row = rng.choice(rows)
    row |= rng.choice(({"points": 7.0}, {"awarded_at": rng.choice(world.instants())}, {"player_id": rng.choice(world.players)}))
    world.awards = rows
    return f"an award is now {row}"


def award_removed(world: World, rng: random.Random) -> str:
    if not world.awards:
        return "no award to take back"
    rows = list(world.awards)
    gone = rows.pop(rng.randrange(len(rows)))
    world.awards = rows
    return f"no longer an award: {gone}"


def award_copied(world: World, rng: random.Random) -> str:
    if not world.awards:
        return "no award to copy"
    row = dict(rng.choice(world.awards)) | rng.choice(({}, {"points": 1.0}))
    world.awards = [*world.awards, row]
    return f"once more the award {row}"


def starts_changed(world: World, rng: random.Random) -> str:
    starts = dict(world.starts or {})
    stranger: Any = 888 if world.numbers else "newcomer"
    player = rng.choice([*world.players, stranger])
    if player in starts and rng.random() < 0.4:
        del starts[player]
        what = f"no start rating for {player!r}"
    else:
        row: Row = {"player_id": player, "rating": float(rng.randrange(1350, 1700)), "games": rng.choice((None, 0, 12))}
        row |= {"experience": rng.choice((None, 0.0, 55.0))} if world.ramp else {}
        row |= {"ladder": "gold"} if world.pool else {}
        starts[player] = row
        what = f"start rating {row}"
    world.starts = starts
    return what


def as_of_back(world: World, rng: random.Random) -> str:
    world.as_of = rng.choice((rng.choice(world.instants()), world.before - rng.choice((1, HOUR, DAY, 9 * DAY)), _last(world) - 1))
    return f"the as-of goes back to {support.iso(world.as_of)}"


def nothing(world: World, rng: random.Random) -> str:
    return "nothing"


EDITS: tuple[Edit, ...] = (
    new_games, new_games, new_games, late_games, late_games, earlier_than_all, held_games, flipped, flipped, moved_in_time, voided, spoiled,
    reclassified, conflict, copies, copy_of_a_file, old_revision, missing, grown, shrunk, sorted_anew, changed_in_place,
    changed_with_its_time_put_back, touched, removed, renamed, swapped, merged_files, alias_added, alias_added, alias_removed, excluded_added,
    excluded_removed, awards_added, awards_added, award_changed, award_removed, award_copied, starts_changed, as_of_back, nothing, archived, archived,
    back_from_the_archive,
)  # fmt: skip
SIDE: tuple[Edit, ...] = (alias_added, excluded_added, awards_added, starts_changed)
