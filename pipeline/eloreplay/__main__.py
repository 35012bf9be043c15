"""`python -m eloreplay`."""

from eloreplay.cli import entry

entry()
