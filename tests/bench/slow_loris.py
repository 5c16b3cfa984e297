# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""What hostile clients cost a job."""

from __future__ import annotations

import sys
from pathlib import Path

from benchlib import Context, Record

NAME = "slow-loris"
DOC = """Time of a job beside 1,000 slow clients, over its time without them.
They hold connections to lab node and coordinator, are silent, send a byte a second, or stop in the
middle of a TLS handshake, and come again when they are closed; from 100 addresses. f32 matrices,
two one-thread hosts; with and without in turn, the best of each. What the clients themselves take
of the two cores counts against us."""
GOAL = "at most 1.10"

HERE = Path(__file__).resolve().parent


def run(ctx: Context) -> list[Record]:
    """One network, all runs."""
    clients, n, rounds = (100, 1024, 1) if ctx.quick else (1000, 4096, 5)
    found = ctx.run_program(
        Path(sys.executable), str(HERE / "_ours.py"), "slow-loris", f"{clients}:{n}:{rounds}",
        threads=1,
    )  # fmt: skip
    return [
        ctx.record(
            f"f32, n = {n}, {clients} clients",
            found["ratio"],
            "times",
            higher_is_better=False,
            threads=2,
        )
    ]
