"""Damaged and odd inputs end in a message or in bins that add up, and never touch what is published.

The cases run in a process of their own, so that one that killed it or hung would be seen and named.
"""

from __future__ import annotations

import collections
import json
import select
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).with_name("fuzz_cases.py")
SECONDS = 60
PEAK_MIB = 3000


class Worker:
    """One process that runs cases; `ask` starts it again when a case has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._reply(self._process) == {"ready": True}
        return self._process

    def _reply(self, process: subprocess.Popen[str]) -> dict[str, Any] | None:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        line = process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def ask(self, seed: int) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(f"{seed}\n")
        process.stdin.flush()
        reply = self._reply(process)
        if reply is None:
            try:
                what = f"ended the process ({process.wait(2)})"
            except subprocess.TimeoutExpired:
                what = f"no answer in {SECONDS} s"
            reply = {"seed": seed, "faults": [what], "code": None, "family": "", "note": "", "peak_mib": 0}
            self.close()
        return reply

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def fuzz(seeds: Iterable[int]) -> collections.Counter[str]:
    """Run every seed; how many cases ended with which exit code, by family."""
    worker = Worker()
    counts: collections.Counter[str] = collections.Counter()
    bad = []
    try:
        for seed in seeds:
            reply = worker.ask(seed)
            counts[f"{reply['family']} {reply['code']}"] += 1
            if reply["faults"] or reply["peak_mib"] > PEAK_MIB:
                bad.append(reply)
                if reply["peak_mib"] > PEAK_MIB:
                    worker.close()
    finally:
        worker.close()
    assert not bad, f"{len(bad)} cases, first: {json.dumps(bad[:3], indent=1)}\nagain: python {WORKER.name} -v {bad[0]['seed']}"
    return counts


def test_damaged_and_odd_inputs() -> None:
    counts = fuzz(range(140))
    assert sum(counts.values()) == 140
    # Both ends must be met, else the cases test nothing.
    assert sum(n for key, n in counts.items() if key.endswith(" 0")) > 20
    assert sum(n for key, n in counts.items() if key.endswith(" 3")) > 20


@pytest.mark.long
def test_damaged_and_odd_inputs_at_length() -> None:
    counts = fuzz(range(1000, 3520))
    assert sum(counts.values()) == 2520
