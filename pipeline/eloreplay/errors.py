"""What can go wrong, as the user sees it: one class an exit code.

Every message says which file, row or key, what was found and what to do. The command line prints the message alone;
a traceback is never what a user sees.
"""

from __future__ import annotations


class EloreplayError(Exception):
    """Base of every error a user can meet; `exit_code` is what the process ends with."""

    exit_code = 1


class EnvironmentFault(EloreplayError):
    """The machine is in the way: disk, permission, memory (exit code 1)."""

    exit_code = 1


class UsageFault(EloreplayError):
    """Usage, configuration, column mapping, ruleset or a folder that is not ours (exit code 2)."""

    exit_code = 2


class InputRefused(EloreplayError):
    """An input is refused: schema, id or time type, mixed zones, no file, too many rejected rows (exit code 3)."""

    exit_code = 3


class FolderBusy(EloreplayError):
    """Another run holds the output folder (exit code 4)."""

    exit_code = 4


class BudgetExceeded(EloreplayError):
    """A night would change more than it may; nothing is published (exit code 5)."""

    exit_code = 5


class Differs(EloreplayError):
    """A published run is not what its inputs give when they are computed again (exit code 6)."""

    exit_code = 6
