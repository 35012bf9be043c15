"""What a fit found, as a page for a person."""

from __future__ import annotations

import math

from eloreplay.fit import FitResult
from eloreplay.settings import number


def page(result: FitResult, until: str) -> str:
    """The result for a person; `until`: the instant that parts the games, as text."""
    lines = [f"Fitted to {result.train_games:,} games before {until}, {result.tried:,} settings tried:", ""]
    width = max(len(found.name) for found in result.parameters)
    for found in result.parameters:
        low = "below" if found.low is None else number(found.low)
        high = "beyond" if found.high is None else number(found.high)
        alike = f"these games cannot tell it from {low} to {high}"
        lines.append(f"  {found.name:<{width}}  {number(found.best)}   (now {number(found.now)}; {alike})")
    lines.append("")
    for name, games, what in (
        ("train", result.train_games, f"before {until}"),
        ("test", result.test_games, f"from {until} on, which the fit has not seen"),
    ):
        if not games:
            continue
        now, best = result.log_loss[name]
        shift = result.difference[name]
        sure = "" if math.isnan(shift.low) else f" (95 %: {shift.low:+.5f} to {shift.high:+.5f})"
        lines.append(f"Log loss on the {games:,} games {what}: {best:.5f}, now {now:.5f}; {shift.value:+.5f}{sure}")
    if result.test_games and not math.isnan(result.difference["test"].low):
        shift = result.difference["test"]
        lines.append(
            "The fitted values are better there."
            if shift.high < 0
            else "The fitted values are worse there."
            if shift.low > 0
            else "These later games cannot tell the two apart."
        )
    return "\n".join([*lines, *(f"Note: {text}" for text in result.notes)])
