"""Players who are to be forgotten: a rule that a run keeps, of salted hashes and the pseudonyms that stand for them.

The rule is part of a run (`fold/forgotten.json`), so it holds from the very switch that publishes the run without the id, and every
later run takes it over. At the door each player id is replaced before anything is computed or compared: no digest, verdict or table
ever sees it. The file holds no id; whoever may read it could still test ids that he knows, so it is for its owner alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eloreplay.errors import EnvironmentFault

NAME = "forgotten.json"
#: The family of ids that is looked at; see `reader.TableSpec`.
FAMILY = "players"
PREFIX = "forgotten-"
#: Pseudonyms among integer ids are negative and no smaller than this.
LEAST = -(2**40)


@dataclass(frozen=True)
class Forgotten:
    """The rule.

    Attributes:
        salt: secret of the folder, 64 hexadecimal digits; empty when nobody is forgotten.
        names: hash of an id to the pseudonym that stands for it, text or an integer as the ids are.
    """

    salt: str = ""
    names: tuple[tuple[str, str | int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names)

    def digest(self, player: str | int) -> str:
        """The salted hash of an id: SHA-256 of salt, type and id; `sql_digest` says the same in SQL."""
        kind = "BIGINT" if isinstance(player, int) else "VARCHAR"
        return hashlib.sha256(f"{self.salt}:{kind}:{player}".encode()).hexdigest()

    def pseudonym(self, player: str | int) -> str | int | None:
        """What stands for an id; None when it is not to be forgotten."""
        return dict(self.names).get(self.digest(player))

    def with_player(self, player: str | int, taken: Container[str | int]) -> Forgotten:
        """The rule with one more player, under a pseudonym that is in no way made from his id and not among `taken`."""
        rule = self if self.salt else Forgotten(secrets.token_hex(32))
        if rule.pseudonym(player) is not None:
            return rule
        while True:
            name: str | int = PREFIX + secrets.token_hex(6) if isinstance(player, str) else secrets.randbelow(-LEAST) + LEAST
            if name not in taken:
                return Forgotten(rule.salt, (*rule.names, (rule.digest(player), name)))

    def write(self, fold: Path, scratch: Path | None = None) -> None:
        """Write the rule into a run's `fold`, for its owner alone; nothing is written when nobody is forgotten.

        Args:
            fold: the folder.
            scratch: where the file is made before it takes its place; beside it unless given.
        """
        if not self:
            return
        content = json.dumps({"salt": self.salt, "names": [list(pair) for pair in self.names]}) + "\n"
        partial = (scratch or fold) / f".{NAME}-{os.getpid()}"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, fold / NAME)


NOBODY = Forgotten()


def read_forgotten(run: Path | None) -> Forgotten:
    """The rule that a run keeps; `NOBODY` where there is none.

    Raises:
        EnvironmentFault: it cannot be read: going on without it would bring back who was forgotten.
    """
    if run is None:
        return NOBODY
    path = run / "fold" / NAME
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Forgotten(str(content["salt"]), tuple((str(digest), name) for digest, name in content["names"]))
    except FileNotFoundError:
        return NOBODY
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentFault(f"{path}: who is to be forgotten cannot be read, so no run goes on from here: {error}") from None


def sql_digest(id_sql: str, sql_type: str) -> str:
    """`Forgotten.digest` of an SQL expression of that type; the salt is the parameter $salt."""
    return f"sha256($salt || ':{sql_type}:' || cast({id_sql} as varchar))"
