"""Recompute every rating of a game site from its history, exactly and fast.

`replay`, `calibrate` and `open_run` are the Python API (docs/how-to-python.md); what is behind them is loaded at their first
use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__version__ = "0.1.0"
__all__ = ["Calibration", "Replay", "__version__", "calibrate", "open_run", "replay"]


def _of_api(name: str) -> property:
    """An attribute that is looked up in `api` when it is asked for.

    `replay` and `calibrate` are also names of modules of the package, and Python sets a module that is imported as an attribute of
    its package. A property takes that and stays what it is: `eloreplay.replay(…)` is the function, whatever was imported before.
    """

    def get(_package: ModuleType) -> Any:
        return getattr(importlib.import_module("eloreplay.api"), name)

    def keep(_package: ModuleType, _module: Any) -> None:
        """The module stays where `from eloreplay.replay import …` finds it."""

    return property(get, keep)


class _Package(ModuleType):
    Calibration = _of_api("Calibration")
    Replay = _of_api("Replay")
    calibrate = _of_api("calibrate")
    open_run = _of_api("open_run")
    replay = _of_api("replay")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
