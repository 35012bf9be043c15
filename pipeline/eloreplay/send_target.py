"""Where a run is to be sent, as it was written on the command line, and how it may be shown: never with a password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from eloreplay.errors import UsageFault

POSTGRES = ("postgresql://", "postgres://")
S3 = "s3://"
DEFAULT_SCHEMA = "eloreplay"
#: Longest name that PostgreSQL keeps whole, in bytes; a longer one it cuts without an error.
NAME_BYTES = 63
HIDDEN = "***"
_SECRET_KEYS = {"password", "sslpassword", "oauth_client_secret"}


@dataclass(frozen=True)
class Target:
    """A place to send a run to.

    Attributes:
        kind: "postgres", "duckdb" or "s3".
        where: as given, for the library that connects. It may hold a password, so it is shown by nothing.
        shown: the same for people.
    """

    kind: str
    where: str = field(repr=False)
    shown: str

    @property
    def has_password(self) -> bool:
        """Whether a password stands in it."""
        return bool(secrets(self.where))

    def clean(self, text: object) -> str:
        """The first line of a library's message, without anything secret of the address."""
        line = " ".join(part.strip() for part in str(text).strip().splitlines()[:2]) or type(text).__name__
        return redact(line, self.where)


def parse_target(text: str) -> Target:
    """What `--to` means.

    Raises:
        UsageFault: neither of the three kinds.
    """
    lowered = text.lower()
    if lowered.startswith(POSTGRES):
        return Target("postgres", text, shown_url(text))
    if lowered.startswith(S3):
        bucket = text[len(S3) :].partition("/")[0]
        if not bucket or "@" in bucket:
            raise UsageFault("--to s3://…: a bucket is needed, as in s3://bucket/prefix; keys come from the environment (AWS_…)")
        return Target("s3", text, text)
    if "://" in text:
        raise UsageFault(f"--to {shown_url(text)}: postgresql://host/database, s3://bucket/prefix or FILE.duckdb is needed")
    if Path(text).suffix in (".duckdb", ".db"):
        return Target("duckdb", text, text)
    raise UsageFault(f"--to {redact(text, text)}: postgresql://host/database, s3://bucket/prefix or FILE.duckdb is needed")


def check_schema(name: str) -> str:
    """A schema's name that PostgreSQL will take as it is.

    Raises:
        UsageFault: empty, too long, or with a character that no name can hold.
    """
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise UsageFault("--schema: the name is not UTF-8") from None
    if not 0 < length <= NAME_BYTES or "\0" in name:
        raise UsageFault(f"--schema {name!r}: a name of 1 to {NAME_BYTES} bytes is needed")
    if name.startswith("pg_") or name == "information_schema":
        raise UsageFault(f"--schema {name!r}: PostgreSQL keeps this name for itself")
    return name


def secrets(url: str) -> list[str]:
    """What is secret in an address, longest first: its password as written and as meant, and every piece of a malformed one."""
    found: set[str] = set()
    rest = url.partition("://")[2] or url
    if "@" in rest:
        # Up to the last @: a password with an @ or / that nobody has escaped must not show either.
        _, colon, password = rest.rpartition("@")[0].partition(":")
        if colon:
            found.add(password)
    for parameter in re.split(r"[?&]", rest)[1:]:
        key, _, value = parameter.partition("=")
        if unquote(key).strip().lower() in _SECRET_KEYS:
            found.add(value)
    found |= {piece for secret in list(found) for piece in re.split(r"[/@:?#&\s]+", secret)}
    found |= {unquote(secret) for secret in list(found)}
    return sorted((secret for secret in found if secret), key=len, reverse=True)


def redact(text: str, url: str) -> str:
    """A text without what is secret in `url`."""
    for secret in secrets(url):
        text = text.replace(secret, HIDDEN)
    return text


def shown_url(url: str) -> str:
    """An address without password and parameters."""
    scheme, mark, rest = url.partition("://")
    credentials, at, place = rest.rpartition("@")
    place = place.partition("?")[0].partition("#")[0]
    user, colon, _ = credentials.partition(":")
    shown = f"{user}{':' + HIDDEN if colon else ''}@{place}" if at else place
    # An @ in a parameter makes that parameter part of what stands before it.
    return f"{scheme}{mark}{redact(shown, url)}"
