"""Run again what a manifest says: its inputs, rules and options, as a night, a check of a night and a restart need them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eloreplay.columns import ColumnMapping, load_mapping
from eloreplay.errors import UsageFault
from eloreplay.games import Inputs
from eloreplay.publish import BoardOptions
from eloreplay.rules import Ruleset, find_ruleset, load_ruleset, ruleset_from_dict
from eloreplay.run import RunOptions

#: What a folder made before nights existed lacks.
OLD_FOLDER = "was made by a version of eloreplay that kept nothing to go on from; run eloreplay backfill once more"


def ruleset_of(manifest: dict[str, Any]) -> Ruleset:
    """The very rules that the run was made under, from the manifest alone.

    Raises:
        UsageFault: the manifest's rules cannot be read by this version.
    """
    rules = manifest["rules"]
    found = ruleset_from_dict(rules["content"], f"the manifest's rules {rules['name']}")
    if found.digest != rules["digest"]:
        raise UsageFault(
            f"the rules {rules['name']} in the manifest mean something else to this version of eloreplay than to the one that "
            "wrote them: run eloreplay backfill once more"
        )
    return found


def unchanged_ruleset(manifest: dict[str, Any]) -> Ruleset:
    """The rules of the manifest, after a look at where they came from: a rule file that was changed since is refused.

    Raises:
        UsageFault: the file says something else now, naming what.
    """
    before = ruleset_of(manifest)
    source, since = manifest["rules"].get("source"), dict(manifest["rules"].get("since") or {})
    try:
        path = None if source is None else find_ruleset(source)
    except UsageFault:
        path = None
    if source is None or path is None:
        return before
    now = load_ruleset(source, since)
    if now.digest != before.digest:
        differences = list(_differences(before.as_dict(), now.as_dict()))
        shown = "; ".join(differences[:3]) + (f"; and {len(differences) - 3} more" if len(differences) > 3 else "")
        raise UsageFault(
            f"{source}: the rules are not those of the published run any more ({shown}). A night goes on under the rules of the "
            f"run before; to rate the whole history under the new ones: eloreplay backfill GAMES… --rules {source} --out … (a rule "
            "that holds only from some day on is a new [[version]] with its own 'from')"
        )
    return before


def _differences(before: Any, now: Any, where: str = "") -> Any:
    """Where two plain values differ, as `key: old -> new`."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            yield from _differences(before.get(key), now.get(key), f"{where}.{key}" if where else str(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(*pair, f"{where}[{number + 1}]")
    elif before != now:
        yield f"{where}: {_short(before)} -> {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"


def inputs_of(manifest: dict[str, Any], games: tuple[str, ...] | None = None) -> Inputs:
    """What the run read, with absolute paths; `games` replaces the arguments for GAMES.

    Raises:
        UsageFault: the columns file says something else now.
    """
    given = manifest["input_options"]
    return Inputs(
        games=tuple(given["games"]) if games is None else games,
        mapping=_mapping(given["mapping"]),
        pool=given["pool"],
        awards=given["awards"],
        aliases=given["aliases"],
        excluded=given["excluded"],
        start_ratings=given["start_ratings"],
    )


def _mapping(given: dict[str, Any]) -> ColumnMapping:
    if given["file"] is None:
        return ColumnMapping(sources=dict(given["columns"]), naive=given["naive"])
    path = Path(given["file"])
    before = ColumnMapping(sources=dict(given["columns"]), naive=given["naive"], file=path)
    if path.is_file():
        now = load_mapping(path)
        if now != before:
            differences = "; ".join(
                _differences({"columns": before.sources, "naive": before.naive}, {"columns": now.sources, "naive": now.naive})
            )
            raise UsageFault(
                f"{path}: the columns file is not that of the published run any more ({differences}); rows that were read with the "
                "old one would have to be read again: run eloreplay backfill"
            )
    return before


def options_of(manifest: dict[str, Any]) -> RunOptions:
    """How the run worked."""
    given = dict(manifest["options"])
    return RunOptions(**{**given, "board": BoardOptions(**given["board"])})
