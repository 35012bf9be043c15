"""Checks the expressions of a columns file: one scalar value of the row it stands in, and nothing else.

The text comes from outside and ends up inside our SQL. It is therefore parsed by DuckDB first, in the very parentheses it will
stand in, and only what is known to be harmless passes: columns, constants, operators, casts, CASE and scalar functions whose
result depends on their arguments alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from eloreplay.errors import UsageFault

_MAX_LENGTH = 4000
_NODES = {
    "COLUMN_REF", "CONSTANT", "FUNCTION", "OPERATOR", "CASE", "CAST", "TYPE", "COMPARISON", "CONJUNCTION", "BETWEEN", "COLLATE",
}  # fmt: skip
#: Not "consistent" by DuckDB's list because they look at the session's zone, which is always UTC here; or harmless macros.
_ALLOWED = {"timezone", "date_trunc", "datetrunc", "date_part", "datepart", "strftime", "to_timestamp", "if", "ifnull", "nullif"}
_PURE: set[str] = set()
#: Scalar by DuckDB's list and yet a window on the session, the catalog or the machine.
_SESSION_FUNCTIONS = {"getvariable", "getenv", "nextval", "currval", "setseed", "error", "version", "write_log", "txid_current"}
_SESSION_PREFIXES = (
    "current_",
    "pg_",
    "has_",
    "in_search_path",
    "duckdb_",
    "get_current",
    "query",
    "sleep",
    "parse_duckdb_log",
    "to_arrow",
)


@dataclass(frozen=True)
class Expression:
    """A checked expression: its text, to be put in parentheses, and the columns it reads."""

    text: str
    columns: tuple[str, ...]


def check_expression(connection: duckdb.DuckDBPyConnection, text: str, where: str) -> Expression:
    """Check one expression.

    Args:
        connection: used to parse, and for its list of functions.
        text: the expression.
        where: file and key, for messages.

    Raises:
        UsageFault: not an expression, or one that is more than a scalar of its row.
    """
    if len(text) > _MAX_LENGTH:
        raise UsageFault(f"{where}: the expression has {len(text)} characters; at most {_MAX_LENGTH} are taken")
    tree = _parse(connection, text, where)
    functions = _pure_functions(connection)
    columns: list[str] = []
    for node in _walk(tree):
        kind = node.get("class")
        if kind is None:
            continue
        if kind in ("SUBQUERY", "WINDOW", "STAR", "PARAMETER", "LAMBDA") or kind not in _NODES:
            raise UsageFault(
                f"{where}: {text!r} contains {str(kind).lower().replace('_', ' ')}: only one scalar expression over the row's own "
                "columns is allowed (no subquery, aggregate, window, parameter or random value)"
            )
        if kind == "COLUMN_REF":
            columns.append(node["column_names"][0])
        if kind == "FUNCTION":
            name = str(node["function_name"]).lower()
            if node.get("schema") or node.get("catalog"):
                raise UsageFault(f"{where}: {text!r}: write {name}() without a schema")
            allowed = node.get("is_operator") or (
                (name in functions or name in _ALLOWED)
                and name not in _SESSION_FUNCTIONS
                and not name.startswith(_SESSION_PREFIXES)
            )
            if not allowed or node.get("distinct") or node.get("filter"):
                raise UsageFault(
                    f"{where}: {text!r} calls {name}(), which is not a scalar function of its arguments alone (no aggregate, no "
                    "random value, no clock, no session)"
                )
    return Expression(text=text, columns=tuple(dict.fromkeys(columns)))


def _parse(connection: duckdb.DuckDBPyConnection, text: str, where: str) -> dict[str, Any]:
    try:
        (reply,) = connection.execute("select json_serialize_sql($text)", {"text": f"select ({text}\n)"}).fetchall()
        parsed = json.loads(reply[0])
    except (duckdb.Error, RecursionError, ValueError, UnicodeError) as error:
        raise UsageFault(f"{where}: {text!r} cannot be parsed: {str(error).splitlines()[0]}") from None
    if parsed.get("error"):
        raise UsageFault(f"{where}: {text!r} is neither a column of the files nor an expression: {_first_line(parsed)}")
    statements = parsed["statements"]
    node = statements[0]["node"] if len(statements) == 1 else {}
    plain = (
        node.get("type") == "SELECT_NODE"
        and len(node["select_list"]) == 1
        and (node.get("from_table") or {}).get("type", "EMPTY") == "EMPTY"
        and not node.get("modifiers")
        and not (node.get("cte_map") or {}).get("map")
        and not any(node.get(part) for part in ("where_clause", "group_expressions", "having", "sample", "qualify"))
    )
    if not plain:
        raise UsageFault(f"{where}: {text!r} is more than one scalar expression")
    expression: dict[str, Any] = node["select_list"][0]
    return expression


def _first_line(reply: dict[str, Any]) -> str:
    return (str(reply.get("error_message") or "").splitlines() or ["syntax error"])[0]


def _walk(node: object) -> Iterator[dict[str, Any]]:
    """Every object in a parsed tree, without recursion (a hostile text can be nested deeply)."""
    waiting = [node]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _pure_functions(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """Names of DuckDB's scalar functions of their arguments alone; asked once a process, for it takes some milliseconds."""
    if not _PURE:
        _PURE.update(_ask_for_functions(connection))
    return _PURE


def _ask_for_functions(connection: duckdb.DuckDBPyConnection) -> set[str]:
    rows = connection.execute(
        "select function_name from duckdb_functions() group by function_name "
        "having bool_and(function_type = 'scalar' and stability = 'CONSISTENT')"
    ).fetchall()
    return {row[0].lower() for row in rows}
