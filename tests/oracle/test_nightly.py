"""Random histories and random edits, night after night: what is published is what one backfill of the same files publishes.

Every table is compared value by value after every night, against a backfill in another folder with another length of chunk. `nights.py`
has the material; a failure prints the seed, the rules and everything that happened.
"""

from __future__ import annotations

import nights
import pytest


@pytest.mark.parametrize("seed", range(68))
def test_every_night_equals_a_backfill(seed: int) -> None:
    made = nights.scenario(seed)
    assert nights.play(made) == sum(not night.skipped for night in made.nights) >= 1


def test_there_are_two_hundred_nights_of_every_kind() -> None:
    """What the seeds above are made of: else they could quietly cease to test anything."""
    made = [nights.scenario(seed) for seed in range(68)]
    assert sum(not night.skipped for one in made for night in one.nights) >= 200
    used = {edit for one in made for night in one.nights for edit, _ in night.edits}
    assert used == set(nights.EDITS)
    assert {one.rules for one in made} == {*nights.SHIPPED, *nights.OWN}


def test_there_are_thousands_of_nights_in_the_long_form() -> None:
    assert sum(not night.skipped for seed in range(1000, 1700) for night in nights.scenario(seed).nights) >= 2000


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(7))
def test_every_one_of_thousands_of_nights_equals_a_backfill(hundred: int) -> None:
    stories = [
        story for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred) if (story := nights.fails(nights.scenario(seed)))
    ]
    assert not stories, f"{len(stories)} of 100 fail, the first:\n{stories[0]}"
