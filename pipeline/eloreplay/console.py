"""What a run shows while it works: a bar on a terminal, a JSON line a step for machines, or nothing."""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import Any, TextIO


def harmless(text: str) -> str:
    """Text that may hold names from the input, safe for a terminal: what would move its cursor or hide is shown as its code."""
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def printable(name: object, width: int = 24) -> str:
    """An id as one harmless line of at most `width` characters."""
    shown = harmless(str(name)).replace("\n", "\\x0a")
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number of something: `1 game`, `1,234 games`; `many` where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def number(value: float | None, sign: bool = False) -> str:
    """A rating or a change: whole where it is whole."""
    if value is None:
        return "–"
    text = (f"{value:+.2f}" if sign else f"{value:.2f}").removesuffix(".00")
    return "0" if text in ("+0", "-0") else text


class Console:
    """Where a run reports to; use as a context manager, so that a bar is closed whatever happens.

    Args:
        mode: "text", "json" or "quiet".
    """

    def __init__(self, mode: str = "text", out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.mode = mode
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._bar: Any = None
        self._step = ""
        self._started = time.perf_counter()

    def report(self, step: str, done: int, total: int) -> None:
        """A step has got this far; `total` 0 means that nobody knows how far it goes."""
        if self.mode == "json":
            elapsed = round(time.perf_counter() - self._started, 3)
            self.line({"step": step, "done": done, "total": total, "elapsed_s": elapsed})
        elif self.mode == "text" and self._err.isatty():
            self._show(step, done, total)

    def _show(self, step: str, done: int, total: int) -> None:
        from tqdm import tqdm

        if step != self._step:
            self._close()
            self._step = step
            self._bar = tqdm(
                total=total or None,
                desc=step,
                unit=" rows",
                unit_scale=True,
                file=self._err,
                leave=False,
                bar_format=None if total else "{desc} …",
            )
        if total:
            self._bar.update(done - self._bar.n)

    def note(self, text: str) -> None:
        """Something that a person should know and that stops nothing."""
        if self.mode == "json":
            self.line({"note": text})
        elif self.mode == "text":
            self._close()
            self._err.write(harmless(f"note: {text}\n"))

    def line(self, content: dict[str, Any]) -> None:
        """One JSON line."""
        self._out.write(json.dumps(content, ensure_ascii=False) + "\n")
        self._out.flush()

    def text(self, text: str) -> None:
        """Text for a person; nothing when quiet or for machines."""
        if self.mode == "text":
            self._close()
            self._out.write(harmless(text) + "\n")

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
            self._step = ""

    def __enter__(self) -> Console:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()
