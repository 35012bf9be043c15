"""Recompute every rating of a game site from its history, exactly and fast."""

__version__ = "0.1.0"
