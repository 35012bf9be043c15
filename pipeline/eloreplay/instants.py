"""Instants: text and TOML values to UTC microseconds since 1970, and back.

One owner for the rule "an instant given without a zone is UTC". Microseconds are int64, floored by whoever has a finer value.
"""

from __future__ import annotations

import datetime as dt

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND = dt.timedelta(microseconds=1)
#: "since ever": below every instant a column can hold, and still safe to subtract a little from.
BEGINNING_US = -(2**63) + 1


def to_us(value: dt.datetime | dt.date) -> int:
    """Microseconds since 1970 of a datetime (naive: UTC) or of a date (its first instant in UTC)."""
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    return (value - EPOCH) // MICROSECOND


def parse_us(text: str) -> int:
    """Microseconds since 1970 of an ISO 8601 text such as `2026-10-01`, `2026-10-01T12:00` or `2026-10-01T14:00+02:00`.

    Raises:
        ValueError: the text is not an ISO 8601 instant.
    """
    return to_us(dt.datetime.fromisoformat(text.strip()))


def now_us() -> int:
    """The present instant in microseconds since 1970."""
    return to_us(dt.datetime.now(dt.UTC))


def show_us(us: int | None) -> str | None:
    """ISO text of an instant in UTC; None for "since ever" and for years that a calendar here cannot show."""
    if us is None or us <= BEGINNING_US:
        return None
    try:
        return (EPOCH + us * MICROSECOND).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{us} us"
